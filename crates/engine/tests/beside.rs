//! Non-owner writes to volumes without redundancy: they skip the owner, and keep all of its
//! guarantees.

use crate::common::{
    self, Bench, PACE, Setup, VOLUME, drive, envs, open, pattern, read, regions, write,
};
use engine::{
    Change, ReadTerms, RegionSet, ShardIndex, ShardMessage, TaskKind, TaskOutcome, Volume,
};
use layout::Level;
use platform::{IoError, IoErrorKind};
use platform_sim::{Sim, SimDrive};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex};

const STRIP: u64 = 4096;
const KEPT: ReadTerms = ReadTerms { read_ahead: false, cached: true, most_ahead: None };

/// Two shards, of which one owns every stripe: there is one region.
fn setup(level: Level) -> Setup {
    Setup { shards: 2, ..Setup::new(level, 2) }
}

fn all_drives(sim: &Sim, setup: &Setup, spares: u16) -> Vec<SimDrive> {
    (0..setup.drives + spares).map(|index| drive(sim, index)).collect()
}

/// The volume on the shard that owns its region, and on the other one.
fn owner_and_other(bench: &Bench, setup: &Setup) -> (Rc<Volume>, Rc<Volume>) {
    let region = regions(setup).iter().next().expect("a region");
    let owner = usize::from(ShardIndex::owning(region, setup.shards).0);
    (bench.volumes[owner].clone(), bench.volumes[1 - owner].clone())
}

/// Writes on the volume's own shard. Returns the result.
fn begin(volume: &Rc<Volume>, at: u64, bytes: Vec<u8>) -> Rc<Cell<Option<Result<(), IoError>>>> {
    let (told, volume) = (Rc::new(Cell::new(None)), volume.clone());
    let ended = told.clone();
    volume.shard().env().clone().spawn("write", async move {
        let wrote = write(&volume, at, &bytes).await;
        told.set(Some(wrote));
    });
    ended
}

/// Each write to another shard's stripe cost a message to the owner and a reply.
#[test]
fn a_shard_writes_without_redundancy_what_another_one_owns() {
    for (level, is_beside) in [(Level::Raid0, true), (Level::Raid1, false), (Level::Raid10, false)]
    {
        let setup = Setup { drives: 4, ..setup(level) };
        let mut sim = setup.sim(1, 0);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let (owner, other) = owner_and_other(&bench, &setup);
            write(bench.volume(), 0, &pattern(1, 64 * STRIP)).await.expect("writable");
            let before = (owner.counters().fast_path, other.counters().fast_path);
            // Within one strip, and across several.
            for (at, len) in [(512, 1024), (8 * STRIP, 4 * STRIP)] {
                assert_eq!(begin_and_wait(&bench, &other, at, pattern(2, len)).await, Ok(()));
                assert!(
                    read_there(&bench, &owner, at, len).await.expect("readable") == pattern(2, len),
                    "{level}"
                );
            }
            let asked =
                (owner.counters().fast_path - before.0, other.counters().fast_path - before.1);
            assert_eq!(asked.1 == 2, is_beside, "{level}: {asked:?}");
            assert_eq!(owner.check_invariants(), Ok(()));
        });
        ran.expect("no stall");
    }
}

async fn begin_and_wait(
    bench: &Bench,
    volume: &Rc<Volume>,
    at: u64,
    bytes: Vec<u8>,
) -> Result<(), IoError> {
    let ended = begin(volume, at, bytes);
    while ended.get().is_none() {
        bench.wait(Duration::from_micros(10)).await;
    }
    ended.get().expect("the write ended")
}

/// Reads on the volume's own shard.
async fn read_there(
    bench: &Bench,
    volume: &Rc<Volume>,
    at: u64,
    len: u64,
) -> Result<Vec<u8>, IoError> {
    let (told, volume) = (Rc::new(RefCell::new(None)), volume.clone());
    let ended = told.clone();
    volume.shard().env().clone().spawn("read", async move {
        let got = read(&volume, at, len).await;
        *told.borrow_mut() = Some(got);
    });
    loop {
        let got = ended.borrow_mut().take();
        match got {
            Some(got) => return got,
            None => bench.wait(Duration::from_micros(10)).await,
        }
    }
}

/// The owner reads a sector to complete it, and writes it back. This does not undo a concurrent
/// full-sector write by another shard.
#[test]
fn a_sector_that_the_owner_completes_is_not_written_beside_him() {
    for seed in 0..400 {
        let setup = setup(Level::Raid0);
        let mut sim = setup.sim(seed, 0);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let (owner, other) = owner_and_other(&bench, &setup);
            let whole = begin(&other, STRIP, vec![1; 512]);
            let part = begin(&owner, STRIP + 200, vec![2; 100]);
            while whole.get().is_none() || part.get().is_none() {
                bench.wait(Duration::from_micros(10)).await;
            }
            assert_eq!((whole.get(), part.get()), (Some(Ok(())), Some(Ok(()))));
            let got = read(bench.volume(), STRIP, 512).await.expect("readable");
            let around = got[..200].iter().chain(&got[300..]);
            assert!(around.into_iter().all(|byte| *byte == 1), "seed {seed}");
        });
        ran.expect("no stall");
    }
}

/// A copy to a replacement drive starts while a non-owner write to the old drive is in progress:
/// the copy waits for the write.
#[test]
fn a_copy_has_what_was_being_written_beside_the_owner_when_it_began() {
    for seed in 0..20 {
        let setup = setup(Level::Raid0);
        let mut sim = setup.sim(seed, 1);
        let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup, 1));
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let len = setup.geometry().capacity().0;
            write(bench.volume(), 0, &pattern(1, len)).await.expect("writable");
            let (home, at) = common::data(&setup, 0, 0);
            drives[usize::from(home)].stall_next(1, Duration::from_secs(2));
            let late = begin(&owner_and_other(&bench, &setup).1, 0, vec![0xEE; 512]);
            bench.wait(Duration::from_millis(10)).await;
            assert_eq!(late.get(), None, "the write is in progress");
            let (slot, source) = (DriveIndex(home), open(&bench.env, setup.drives).await);
            let began = Change::ReplacementBegan { slot, left: RegionSet::EMPTY };
            bench
                .tell(|done| {
                    ShardMessage::Apply(VOLUME, began.clone(), Some(source.clone()), Some(done))
                })
                .await;
            bench.begin(TaskKind::Copy { slot }, PACE).await;
            assert_eq!(bench.ended().await, vec![TaskOutcome::Done; 2]);
            assert_eq!(late.get(), Some(Ok(())));
            let both = [usize::from(home), usize::from(setup.drives)];
            let [old, new] = both.map(|index| drives[index].peek(ByteOffset(0), setup.member));
            assert!(old.is_some() && old == new, "seed {seed}");
            assert_eq!(new.map(|bytes| bytes[at as usize]), Some(0xEE));
        });
        ran.expect("no stall");
    }
}

/// A read concurrent with another shard's write may return older data, and is not cached.
#[test]
fn nothing_is_kept_that_was_read_while_others_wrote_beside_the_owner() {
    let setup = setup(Level::Raid0);
    let mut sim = setup.sim(3, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup, 0));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        for sender in &bench.senders {
            assert!(sender.send(ShardMessage::ReadRoom(ByteCount(1 << 20))).is_ok());
        }
        write(bench.volume(), 0, &pattern(1, 4 * STRIP)).await.expect("writable");
        let (home, _) = common::data(&setup, 0, 0);
        drives[usize::from(home)].stall_next(1, Duration::from_secs(1));
        let late = begin(&owner_and_other(&bench, &setup).1, 0, vec![0xEE; 512]);
        bench.wait(Duration::from_millis(10)).await;
        bench.tell(|done| ShardMessage::SetReads(VOLUME, KEPT, done)).await;
        let owner = owner_and_other(&bench, &setup).0;
        assert_eq!(
            read_there(&bench, &owner, 0, 512).await,
            Ok(pattern(1, 512)),
            "the write has not landed"
        );
        while late.get().is_none() {
            bench.wait(Duration::from_millis(1)).await;
        }
        assert_eq!(late.get(), Some(Ok(())));
        assert_eq!(read_there(&bench, &owner, 0, 512).await, Ok(vec![0xEE; 512]));
        // From now on reads are cached, and writers ask the owner.
        assert_eq!(
            begin_and_wait(&bench, &owner_and_other(&bench, &setup).1, 0, vec![0xDD; 512]).await,
            Ok(())
        );
        assert_eq!(read_there(&bench, &owner, 0, 512).await, Ok(vec![0xDD; 512]));
        assert_eq!(owner.check_invariants(), Ok(()));
    });
    ran.expect("no stall");
}

/// A drive that does not respond blocks an exclusive operation only until the drive is removed.
#[test]
fn a_drive_that_fails_under_a_write_beside_the_owner_lets_others_go_on() {
    let setup = setup(Level::Raid0);
    let mut sim = setup.sim(4, 0);
    let (envs, drives) = (envs(&sim, &setup), all_drives(&sim, &setup, 0));
    let ran = sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        write(bench.volume(), 0, &pattern(1, 4 * STRIP)).await.expect("writable");
        let (home, _) = common::data(&setup, 0, 0);
        drives[usize::from(home)].hold();
        let late = begin(&owner_and_other(&bench, &setup).1, 0, vec![0xEE; 512]);
        bench.wait(Duration::from_millis(10)).await;
        let part = begin(&owner_and_other(&bench, &setup).0, STRIP + 100, vec![2; 100]);
        bench.wait(Duration::from_secs(60)).await;
        assert_eq!(late.get(), None, "only this drive has the data");
        drives[usize::from(home)].fail_now();
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(
            late.get().map(|late| late.map_err(|error| error.kind)),
            Some(Err(IoErrorKind::Gone))
        );
        assert!(part.get().is_some(), "the exclusive operation proceeds");
        assert!(bench.count(|kind| matches!(kind, engine::ReportKind::DriveFailed { .. })) > 0);
    });
    ran.expect("no stall");
}

/// Shards learn one after the other that a rebuilt drive has taken its slot. A shard that knew
/// wrote another shard's stripe to the new drive only. The owner then completed a sector from the
/// old drive and wrote it to both: the acknowledged write was lost.
#[test]
fn nobody_writes_beside_a_shard_that_does_not_know_yet_that_a_drive_was_promoted() {
    for first_is_owner in [false, true] {
        let setup = setup(Level::Raid0);
        let mut sim = setup.sim(5, 1);
        let envs = envs(&sim, &setup);
        let ran = sim.run(async move {
            let bench = Bench::start(envs, &setup).await;
            let len = setup.geometry().capacity().0;
            write(bench.volume(), 0, &pattern(1, len)).await.expect("writable");
            let (home, _) = common::data(&setup, 0, 0);
            let (slot, source) = (DriveIndex(home), open(&bench.env, setup.drives).await);
            let began = Change::ReplacementBegan { slot, left: RegionSet::EMPTY };
            bench
                .tell(|done| {
                    ShardMessage::Apply(VOLUME, began.clone(), Some(source.clone()), Some(done))
                })
                .await;
            let (owner, other) = owner_and_other(&bench, &setup);
            let promoted = || {
                ShardMessage::Apply(
                    VOLUME,
                    Change::Promoted { slot, stale: RegionSet::EMPTY },
                    None,
                    None,
                )
            };
            let [first, last] = match first_is_owner {
                true => [&owner, &other],
                false => [&other, &owner],
            };
            let sender =
                |volume: &Rc<Volume>| &bench.senders[usize::from(volume.shard().index().0)];
            assert!(sender(first).send(promoted()).is_ok());
            bench.wait(Duration::from_millis(1)).await;
            assert_eq!(begin_and_wait(&bench, &other, 0, vec![0xEE; 512]).await, Ok(()));
            assert_eq!(begin_and_wait(&bench, &owner, 200, vec![0xDD; 100]).await, Ok(()));
            assert!(sender(last).send(promoted()).is_ok());
            bench.wait(Duration::from_millis(1)).await;
            let got = read(bench.volume(), 0, 512).await.expect("readable");
            let around = got[..200].iter().chain(&got[300..]);
            assert!(
                around.into_iter().all(|byte| *byte == 0xEE),
                "{first_is_owner}: {:?}",
                &got[..8]
            );
            let before = other.counters().fast_path;
            assert_eq!(begin_and_wait(&bench, &other, 0, vec![0xCC; 512]).await, Ok(()));
            assert_eq!(
                other.counters().fast_path,
                before + 1,
                "all shards know: non-owner writes resume"
            );
        });
        ran.expect("no stall");
    }
}
