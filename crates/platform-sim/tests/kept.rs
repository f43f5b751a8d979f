//! Persistent memory: survives a kill, lost in a power cut.

use platform::{Env, Error, ErrorKind, KeptMemory, KeptSize};
use platform_sim::{Sim, SimOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

const SIZE: KeptSize = KeptSize::whole(2, ByteCount(16 << 10));

fn take_in(sim: &mut Sim, env: Env, size: Option<KeptSize>) -> Result<Option<KeptMemory>, Error> {
    let task =
        env.clone().spawn("take", async move { env.world().kept_memory("cache", size).await });
    sim.finish(&task).unwrap()
}

fn take(sim: &mut Sim) -> KeptMemory {
    let env = sim.env();
    take_in(sim, env, Some(SIZE)).unwrap().unwrap()
}

fn what_is_there(sim: &mut Sim) -> Option<KeptMemory> {
    let env = sim.env();
    take_in(sim, env, None).unwrap()
}

fn forget(sim: &mut Sim) {
    let env = sim.env();
    sim.run(async move { env.world().forget_kept_memory("cache").await }).unwrap().unwrap();
}

/// Views that live as long as their process.
fn hold(env: &Env, memory: KeptMemory) -> Rc<RefCell<KeptMemory>> {
    let memory = Rc::new(RefCell::new(memory));
    let (held, env) = (memory.clone(), env.clone());
    env.clone().spawn("hold", async move {
        env.sleep(Duration::from_secs(3600)).await;
        drop(held);
    });
    memory
}

#[test]
fn a_kill_keeps_words_and_bytes_and_a_power_cut_takes_them() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    assert!(what_is_there(&mut sim).is_none());
    let mut memory = take(&mut sim);
    assert!(!memory.was_there && memory.bytes.bytes().iter().all(|byte| *byte == 0));
    memory.words.store(1, 7);
    memory.bytes.bytes_mut()[16_383] = 9;
    let (env, boot) = (sim.env(), sim.env().world().boot_id());
    hold(&env, memory);
    drop(env);
    sim.restart_process();
    let memory = what_is_there(&mut sim).expect("it outlives the process");
    assert!(memory.was_there);
    assert_eq!((memory.words.len(), memory.bytes.len()), (SIZE.words, SIZE.bytes));
    assert_eq!((memory.words.load(1), memory.bytes.bytes()[16_383]), (7, 9));
    assert_eq!(sim.env().world().boot_id(), boot);
    drop(memory);
    sim.power_cut();
    sim.restart_process();
    let second = sim.env().world().boot_id();
    assert_ne!(second, boot);
    assert!(what_is_there(&mut sim).is_none());
    sim.kill();
    sim.power_cut();
    sim.restart_process();
    assert!(
        ![boot, second].contains(&sim.env().world().boot_id()),
        "a machine without a process has power to lose"
    );
}

/// Stores a number when dropped.
struct Parting(KeptMemory);

impl Drop for Parting {
    fn drop(&mut self) {
        self.0.words.store(0, 99);
        self.0.bytes.bytes_mut().fill(99);
    }
}

#[test]
fn what_tasks_store_while_they_are_dropped_was_never_stored() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let mut memory = take(&mut sim);
    memory.words.store(0, 1);
    memory.bytes.bytes_mut().fill(1);
    let parting = Parting(memory);
    let env = sim.env();
    env.clone().spawn("part", async move {
        env.sleep(Duration::from_secs(3600)).await;
        drop(parting);
    });
    sim.run_until(sim.now() + Duration::from_secs(1)).unwrap();
    sim.restart_process();
    let memory = take(&mut sim);
    assert_eq!((memory.words.load(0), memory.bytes.bytes()[0]), (1, 1));
}

#[test]
fn it_is_for_one_alone_as_long_as_any_of_it_is_viewed() {
    let mut sim = Sim::new(SimOptions { shards: 2, ..SimOptions::seeded(1) });
    let memory = take(&mut sim);
    let (words, piece) = (memory.words, memory.bytes.carve(ByteCount(4096)).nth(1).unwrap());
    let other = sim.shard(1);
    let refused = |sim: &mut Sim| take_in(sim, other.clone(), Some(SIZE)).unwrap_err().kind;
    assert_eq!(refused(&mut sim), ErrorKind::InUse);
    drop(words);
    assert_eq!(refused(&mut sim), ErrorKind::InUse, "a piece is viewed");
    let mut piece = piece.freeze().try_unfreeze().unwrap();
    piece.bytes_mut().fill(3);
    drop(piece);
    let memory = take_in(&mut sim, other, None).unwrap().unwrap();
    assert!(memory.was_there);
    assert_eq!(memory.bytes.bytes()[4096..8192], [3; 4096]);
}

#[test]
fn who_views_the_bytes_of_a_dead_process_changes_nothing_any_more() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let (memory, env) = (take(&mut sim), sim.env());
    memory.words.store(0, 1);
    let old = hold(&env, memory);
    old.borrow_mut().bytes.bytes_mut().fill(1);
    sim.run_until(sim.now() + Duration::from_secs(1)).unwrap();
    sim.restart_process();
    let mut new = take(&mut sim);
    assert!(new.was_there, "views of the ended process do not block it");
    old.borrow_mut().bytes.bytes_mut().fill(2);
    old.borrow().words.store(0, 2);
    assert_eq!((new.words.load(0), new.bytes.bytes()[0]), (1, 1));
    new.bytes.bytes_mut().fill(3);
    assert_eq!(old.borrow().bytes.bytes()[0], 2);
}

#[test]
fn what_is_forgotten_may_be_viewed_on_and_takes_room_meanwhile() {
    let kept_space = Some(ByteCount((16 << 10) + 16));
    let mut sim = Sim::new(SimOptions { kept_space, ..SimOptions::seeded(1) });
    forget(&mut sim);
    let mut old = take(&mut sim);
    forget(&mut sim);
    assert!(what_is_there(&mut sim).is_none());
    old.bytes.bytes_mut().fill(1);
    let env = sim.env();
    let error = take_in(&mut sim, env.clone(), Some(SIZE)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfSpace);
    assert!(error.to_string().contains("give a smaller '--cache'"), "{error}");
    drop(old);
    let more = KeptSize { words: 3, ..SIZE };
    assert_eq!(take_in(&mut sim, env, Some(more)).unwrap_err().kind, ErrorKind::OutOfSpace);
    let new = take(&mut sim);
    assert!(!new.was_there);
    assert_eq!(new.bytes.bytes()[0], 0);
}

#[test]
fn hollow_memory_has_words_and_no_bytes() {
    let mut sim = Sim::new(SimOptions { kept_hollow: true, ..SimOptions::seeded(1) });
    let env = sim.env();
    let size = KeptSize::whole(1, ByteCount(1 << 40));
    let memory = take_in(&mut sim, env.clone(), Some(size)).unwrap().unwrap();
    assert!(memory.bytes.is_hollow());
    memory.words.store(0, 5);
    hold(&env, memory);
    sim.restart_process();
    let memory = what_is_there(&mut sim).unwrap();
    assert_eq!((memory.words.load(0), memory.bytes.len()), (5, size.bytes));
    let env = sim.env();
    assert_eq!(
        take_in(&mut sim, env, None).unwrap_err().kind,
        ErrorKind::InUse,
        "its words are viewed"
    );
}

#[test]
fn a_process_next_door_has_memory_of_its_own_and_another_boot() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let machine = take(&mut sim);
    machine.words.store(0, 1);
    let next_door = sim.add_process();
    let env = sim.env_of(next_door, 0);
    assert_ne!(env.world().boot_id(), sim.env().world().boot_id());
    let own = take_in(&mut sim, env.clone(), Some(SIZE)).unwrap().unwrap();
    assert_eq!((own.was_there, own.words.load(0)), (false, 0));
    drop(own);
    let boot = env.world().boot_id();
    sim.power_cut();
    assert_eq!(env.world().boot_id(), boot);
    assert!(take_in(&mut sim, env, None).unwrap().is_some(), "its machine has power");
}

/// One run of a process, killed at that event; returns what the next process finds.
fn life(seed: u64, end: u64) -> (u64, Option<(u64, u8)>, u128) {
    let mut sim = Sim::new(SimOptions::seeded(seed));
    let env = sim.env();
    sim.env().spawn("live", async move {
        for round in 1..=3 {
            let mut memory = env.world().kept_memory("cache", Some(SIZE)).await.unwrap().unwrap();
            memory.bytes.bytes_mut().fill(round);
            env.sleep(Duration::from_micros(env.random() % 1000)).await;
            memory.words.store(0, u64::from(round));
            env.sleep(Duration::from_micros(env.random() % 1000)).await;
            drop(memory);
            if round < 3 {
                env.world().forget_kept_memory("cache").await.unwrap();
            }
        }
    });
    sim.stop_at_event(Some(end));
    let _ = sim.run_until_idle();
    sim.stop_at_event(None);
    sim.restart_process();
    let found = what_is_there(&mut sim).map(|memory| {
        assert_eq!(memory.bytes.len(), SIZE.bytes, "whole");
        assert!(memory.bytes.bytes().iter().all(|byte| *byte == memory.bytes.bytes()[0]));
        (memory.words.load(0), memory.bytes.bytes()[0])
    });
    (sim.hash(), found, sim.env().world().boot_id())
}

#[test]
fn a_kill_at_any_event_leaves_what_was_stored_and_a_seed_replays() {
    let mut found = Vec::new();
    for end in 0..60 {
        let once = life(3, end);
        assert_eq!(once, life(3, end), "killed before event {end}");
        found.push(once.1);
    }
    for round in 1..=3 {
        assert!(found.contains(&Some((0, round))), "bytes, and not yet the word: {found:?}");
        assert!(found.contains(&Some((u64::from(round), round))), "{found:?}");
    }
    assert!(
        found
            .iter()
            .all(|found| found.is_none_or(|(word, byte)| word == 0 || word == u64::from(byte)))
    );
    assert!(found[0].is_none() && found[59] == Some((3, 3)));
    assert!(
        found.iter().skip_while(|found| found.is_none()).any(Option::is_none),
        "removed, and not yet created again"
    );
    let (ones, others) = (life(3, 60), life(4, 60));
    assert_ne!((ones.0, ones.2), (others.0, others.2));
}

#[test]
fn only_reserved_bytes_take_space_and_a_kill_leaves_them_reserved() {
    let kept_space = Some(ByteCount((8 << 10) + 16));
    let mut sim = Sim::new(SimOptions { kept_space, ..SimOptions::seeded(1) });
    let env = sim.env();
    let size = KeptSize { reserved: ByteCount(4096), ..SIZE };
    let memory = take_in(&mut sim, env, Some(size)).unwrap().unwrap();
    assert_eq!((memory.reserved, memory.bytes.len()), (size.reserved, SIZE.bytes));
    let reserve = |sim: &mut Sim, memory: &KeptMemory, len| {
        let space = memory.space.clone();
        sim.run(async move { space.reserve(ByteCount(len)).await }).unwrap()
    };
    reserve(&mut sim, &memory, 8 << 10).unwrap();
    assert_eq!(reserve(&mut sim, &memory, 12 << 10).unwrap_err().kind, ErrorKind::OutOfSpace);
    reserve(&mut sim, &memory, 8 << 10).unwrap();
    drop(memory);
    sim.restart_process();
    assert_eq!(take(&mut sim).reserved, ByteCount(8 << 10));
}
