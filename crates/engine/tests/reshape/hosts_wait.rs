//! Hosts that wait for a window that is closed.

use crate::common::{self, Bench, range};
use crate::reshape::{MEMBER, VOLUME, WAYS, carry_out, scene};
use engine::{Moved, Mover, ShardMessage, Step};
use env::{Buf, Durability};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// Carries out steps until one of them has closed a window.
async fn close_a_window(bench: &Bench, mover: &mut Mover) {
    let recorded = Cell::new(Moved::default());
    while let Some(step) = mover.step() {
        let closes = matches!(step, Step::Close(_));
        carry_out(bench, step, &recorded).await;
        mover.done();
        if closes {
            return;
        }
    }
}

/// A volume was taken off while a window was closed: a host that waited for the window waited for ever, and so did whoever took it off.
#[test]
fn hosts_that_wait_for_a_window_are_told_when_the_volume_goes_away() {
    let scene = scene(WAYS[0], 3);
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    let ended = sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        close_a_window(&bench, &mut Mover::new(scene.reshape(), Moved::default())).await;
        let waits = common::begin(bench.volume(), 0, 7);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!(waits.get(), None, "the window is closed");
        bench.tell(|done| ShardMessage::Detach(VOLUME, Vec::new(), done)).await;
        bench.wait(Duration::from_millis(1)).await;
        waits.get()
    });
    assert_eq!(ended.expect("no stall"), Some(false));
}

/// A window was closed over a write that had begun before the volume was on its way: nobody had counted it.
#[test]
fn a_volume_is_on_its_way_when_what_was_begun_before_has_ended() {
    let scene = scene(WAYS[0], 5);
    let sim = &mut scene.sim();
    let (envs, drives) = (scene.envs(sim), [0, 1, 2].map(|slot| common::drive(sim, slot)));
    sim.run(async move {
        let bench = Rc::new(scene.attach(envs, Moved::default(), false).await);
        drives.iter().for_each(|drive| drive.stall_next(1, Duration::from_millis(200)));
        let written = common::begin(bench.volume(), 0, 7);
        bench.wait(Duration::from_millis(1)).await;
        let (begun, told, asking) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)), bench.clone());
        let tell = told.clone();
        bench.env.spawn("begin", async move {
            asking.tell(|done| scene.begin(Moved::default(), done)).await;
            tell.set(true);
        });
        bench.wait(Duration::from_millis(50)).await;
        let later = common::begin(bench.volume(), 1 << 16, 7);
        begun.set(told.get());
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!((begun.get(), told.get()), (false, true));
        assert_eq!((written.get(), later.get()), (Some(true), Some(true)));
    })
    .expect("no stall");
}

/// Hosts hold all the memory there is for what they write, and wait for the window; the copy waited for memory of the same kind, and
/// neither went on.
#[test]
fn hosts_that_hold_all_memory_and_wait_for_a_window_do_not_keep_it_closed() {
    let scene = scene(WAYS[0], 4);
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        let mut mover = Mover::new(scene.reshape(), Moved::default());
        close_a_window(&bench, &mut mover).await;
        let written = Rc::new(Cell::new(0));
        let most = bench.volume().shard().env().pool().limit().0;
        let hosts = most >> 20;
        for host in 0..hosts {
            let (volume, written) = (bench.volume().clone(), written.clone());
            bench.env.spawn("host", async move {
                let len = ByteCount::MIB;
                // As ports do: memory first, and it is held until the host has its answer.
                let _payload = volume.shard().reserve_payload(len).await;
                let at = host * 512 % (MEMBER.0 / 8);
                let data = Buf::copy_of(&[9; 512]).freeze();
                volume.write(range(at, 512), data, Durability::Cached).await.expect("written");
                written.set(written.get() + 1);
            });
        }
        bench.wait(Duration::from_millis(10)).await;
        let recorded = Cell::new(Moved::default());
        while let Some(step) = mover.step() {
            carry_out(&bench, step, &recorded).await;
            mover.done();
        }
        while written.get() < hosts {
            bench.wait(Duration::from_millis(10)).await;
        }
    })
    .expect("the copy has its memory");
}
