//! Hosts that wait for a closed reshape window.

use crate::common::{self, Bench, range};
use crate::reshape::{MEMBER, TO, VOLUME, WAYS, carry_out, order, scene};
use engine::{Moved, Mover, ReshapeOrder, ShardMessage, Step};
use platform::{Buf, Durability};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// Does steps until one of them has closed a window.
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

/// A volume was detached with a closed window: a host waited for the window without end, and so did
/// the detach.
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

/// A window was closed over a write that had begun before the reshape: the write was not counted.
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
        let (begun, told, asking) =
            (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)), bench.clone());
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

/// Hosts hold all payload memory and wait for the window; the copy waited for the same kind of
/// memory, and neither proceeded.
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
                // As in ports: memory is taken first, and held until the request completes.
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

/// Does steps until a window is recorded as saved.
async fn save_a_window(bench: &Bench, mover: &mut Mover, recorded: &Cell<Moved>) {
    while recorded.get().saved == ByteCount::ZERO {
        let step = mover.step().expect("more windows are to be moved");
        carry_out(bench, step, recorded).await;
        mover.done();
    }
}

async fn content(bench: &Bench, at: u64) -> Option<u8> {
    common::read(bench.volume(), at, 512).await.ok().map(|bytes| bytes[0])
}

/// A step failed while a window was saved, since a drive failed that the volume needs: the window
/// stayed closed, the reshape stopped, and hosts waited without end. Now hosts read the saved copy,
/// and writes fail, until the reshape is resumed.
#[test]
fn a_saved_window_that_nobody_goes_on_with_is_read_and_not_waited_for() {
    let scene = scene(WAYS[0], 7);
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        save_a_window(&bench, &mut mover, &recorded).await;
        let reads = common::begin_read(bench.volume(), 0);
        let writes = common::begin(bench.volume(), 0, 8);
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!((reads.get(), writes.get()), (None, None), "the window is being moved");
        bench.tell(|done| order(ReshapeOrder::Leave { is_saved: true }, done)).await;
        bench.wait(Duration::from_millis(10)).await;
        assert_eq!((reads.get(), writes.get()), (Some(Some(7)), Some(false)));
        assert!(bench.volume().trim(range(0, 512)).await.is_err());
        assert_eq!(bench.volume().status(range(0, 512)).await.expect("known").len(), 1);
        // The reshape is resumed.
        let mut mover = Mover::new(scene.reshape(), recorded.get());
        while let Some(step) = mover.step() {
            carry_out(&bench, step, &recorded).await;
            mover.done();
        }
        assert_eq!(content(&bench, 0).await, Some(7));
        common::write(bench.volume(), 0, &[8; 512]).await.expect("written");
    })
    .expect("no stall");
}

/// The same when the record of a saved or moved window fails: the recorded state is unknown.
#[test]
fn a_window_whose_record_failed_is_read_by_the_old_layout() {
    let scene = scene(WAYS[0], 8);
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        close_a_window(&bench, &mut Mover::new(scene.reshape(), Moved::default())).await;
        bench.tell(|done| order(ReshapeOrder::Leave { is_saved: false }, done)).await;
        assert_eq!(content(&bench, 0).await, Some(7));
        assert!(common::write(bench.volume(), 0, &[8; 512]).await.is_err());
    })
    .expect("no stall");
}

/// A saved window that is found at the start is readable at once, also during a resync or a wait
/// for the operator. The next window is saved in the same place only when these reads have ended.
#[test]
fn what_a_start_finds_saved_is_read_there_until_it_is_moved() {
    let scene = scene(WAYS[0], 9);
    let recorded = Rc::new(Cell::new(Moved::default()));
    let sim = &mut scene.sim();
    let (envs, before, first) = (scene.envs(sim), recorded.clone(), scene.clone());
    sim.run(async move {
        let bench = first.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        save_a_window(&bench, &mut Mover::new(first.reshape(), Moved::default()), &before).await;
    })
    .expect("no stall");
    sim.kill();
    sim.restart_process();
    let (envs, drives) = (scene.envs(sim), [0, 1, 2, 3].map(|slot| common::drive(sim, slot)));
    sim.run(async move {
        let bench = Rc::new(scene.start(envs, recorded.get(), false).await);
        assert_eq!(content(&bench, 0).await, Some(7));
        let writes = common::begin(bench.volume(), 0, 8);
        drives.iter().for_each(|drive| drive.stall_next(1, Duration::from_millis(200)));
        let reads = common::begin_read(bench.volume(), 0);
        bench.wait(Duration::from_millis(1)).await;
        // No other request waits.
        drives.iter().for_each(|drive| drive.stall_next(0, Duration::ZERO));
        let (moved, moving, going) = (Rc::new(Cell::new(false)), recorded.clone(), bench.clone());
        let tell = moved.clone();
        bench.env.spawn("mover", async move {
            let mut mover = Mover::new(scene.reshape(), moving.get());
            while let Some(step) = mover.step() {
                carry_out(&going, step, &moving).await;
                mover.done();
            }
            tell.set(true);
        });
        bench.wait(Duration::from_millis(100)).await;
        assert_eq!(
            (reads.get(), writes.get(), recorded.get().bytes.0),
            (None, None, 0),
            "the saved copy is being read"
        );
        bench.wait(Duration::from_secs(1)).await;
        assert_eq!((reads.get(), writes.get(), moved.get()), (Some(Some(7)), Some(true), true));
        assert_eq!(content(&bench, 0).await, Some(8));
    })
    .expect("no stall");
}

/// A flush was in the old layout when the volume switched to the new one. Then a drive failed
/// during the flush. The shard had removed the old layout from its table: the record of the failure
/// did not reach it, and the host waited for its flush without end.
#[test]
fn a_flush_that_is_at_the_old_layout_is_waited_for_before_that_goes() {
    let scene = scene(WAYS[0], 11);
    let sim = &mut scene.sim();
    let (envs, failing) = (scene.envs(sim), common::drive(sim, 1));
    sim.run(async move {
        let bench = Rc::new(scene.start(envs, Moved::default(), false).await);
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::new(Moved::default()));
        while recorded.get().bytes.0 < scene.reshape().bytes().0 {
            carry_out(&bench, mover.step().expect("more windows are to be moved"), &recorded).await;
            mover.done();
        }
        // Its flush in the new layout, and then the one in the old layout.
        failing.stall_next(2, Duration::from_millis(100));
        let (flushed, ended, host) =
            (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)), bench.clone());
        let (told, ending) = (flushed.clone(), bench.clone());
        bench
            .env
            .spawn("flush", async move { told.set(Some(host.volume().flush().await.is_ok())) });
        bench.wait(Duration::from_millis(150)).await;
        let tell = ended.clone();
        bench.env.spawn("mover", async move {
            while let Some(step) = mover.step() {
                carry_out(&ending, step, &recorded).await;
                mover.done();
            }
            ending.tell(|done| ShardMessage::EndReshape(VOLUME, Vec::new(), done)).await;
            tell.set(true);
        });
        bench.wait(Duration::from_millis(10)).await;
        assert_eq!((flushed.get(), ended.get()), (None, false), "the old layout is needed");
        assert_eq!(content(&bench, 0).await, Some(0), "no other request waits");
        failing.fail_now();
        bench.wait(Duration::from_millis(100)).await;
        assert_eq!((flushed.get(), ended.get()), (Some(true), true));
        // From now on only the new layout is in use.
        assert_eq!(bench.volume().flush().await, Ok(()));
        assert!(
            bench
                .shards
                .iter()
                .all(|shard| shard.volume_named("v1").is_some_and(|v| v.spec().id == TO))
        );
    })
    .expect("no stall");
}
