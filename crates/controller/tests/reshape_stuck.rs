//! Reshapes that cannot continue, and host I/O to the window that is being moved.

use crate::common::events::at_every_event;
use crate::common::events::{End, end};
use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, WAYS, Way, arrive, byte, expect_content, order, prepared};
use controller::{Command, Reply, TaskKind, VolumeState};
use platform::{Buf, Durability};
use std::cell::Cell;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// Drives with space for a few windows.
const ROOM: u64 = (1 << 20) + (128 << 10);

/// A host reads and rewrites every strip of the volume. Returns the number of requests that have
/// not ended, and of failed ones.
fn ask_for_all(bench: &mut Bench, bytes: u64) -> Rc<Cell<(u64, u64)>> {
    let left = Rc::new(Cell::new((0, 0)));
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    for (strip, writes) in (0..bytes / STRIP).flat_map(|strip| [(strip, false), (strip, true)]) {
        let (volume, told) = (volume.clone(), left.clone());
        left.set((left.get().0 + 1, 0));
        volume.shard().env().clone().spawn("host", async move {
            let range = ByteRange::new(ByteOffset(strip * STRIP), ByteCount(STRIP));
            let ended = if writes {
                let data = Buf::copy_of(&[byte(strip); STRIP as usize]).freeze();
                volume.write(range, data, Durability::Cached).await
            } else {
                let (read, buf) = volume.read(range, Buf::unpooled(range.len)).await;
                let is_right = |buf: &Buf| buf.bytes().iter().all(|found| *found == byte(strip));
                assert!(read.is_err() || buf.as_ref().is_some_and(is_right), "strip {strip}");
                read
            };
            let (waiting, failed) = told.get();
            told.set((waiting - 1, failed + u64::from(ended.is_err())));
        });
    }
    left
}

/// Begins a reshape, and lets this many events happen.
fn begun(way: Way, steps: u64) -> (Bench, u64) {
    let mut bench = prepared(way, 1, ROOM);
    let bytes = bench.show("data").capacity_bytes;
    let _ordered = bench.begin_ask(Command::VolumeReshape(order(way)));
    for _ in 0..steps {
        bench.sim.step();
    }
    (bench, bytes)
}

/// The task of a reshape, if it has not ended.
fn moving(bench: &mut Bench) -> Option<u64> {
    let Ok(Reply::Tasks { tasks }) = bench.ask(Command::TaskList {}) else { panic!("tasks") };
    let moves =
        |task: &&controller::TaskInfo| task.kind == TaskKind::Reshape && !task.state.is_over();
    tasks.iter().find(moves).map(|task| task.task)
}

/// This many events after the start the task is paused, and the process killed. Returns the task's
/// number, unless there is nothing to pause.
fn paused_and_killed(steps: u64) -> Option<(Bench, u64, u64)> {
    let (mut bench, bytes) = begun(WAYS[1], steps);
    let task = moving(&mut bench)?;
    // The window lasts until the pause is stored.
    bench.sim.drive("a").unwrap().hold();
    bench.ask(Command::TaskPause { task }).ok()?;
    bench.wait(4);
    end(&mut bench, End::Killed);
    bench.sim.drive("a").unwrap().release();
    Some((bench, bytes, task))
}

/// A drive that a RAID 0 needs was lost while a window was saved and closed: the reshape stopped,
/// and hosts waited for the window without end. Now they get the errors of a volume with a lost
/// drive.
#[test]
fn hosts_of_a_volume_that_is_lost_on_its_way_do_not_wait_for_it() {
    let mut failed = 0;
    for steps in (600..3000).step_by(75) {
        let (mut bench, bytes) = begun(WAYS[3], steps);
        bench.sim.drive("b").unwrap().fail_now();
        let hosts = ask_for_all(&mut bench, bytes);
        bench.wait(300);
        let (waiting, errors) = hosts.get();
        assert_eq!(waiting, 0, "{steps} events: {waiting} requests wait, {errors} failed");
        failed += u64::from(errors > 0);
    }
    assert!(failed > 5, "the volume was reshaping: {failed}");
}

/// A drive that a RAID 0 needs refuses the data moved to it: the window stays saved. Hosts read the
/// saved copy, and their writes there fail; no request waits for the retry, which fails as well.
#[test]
fn hosts_do_not_wait_for_a_saved_window_that_a_drive_does_not_take() {
    let mut bench = prepared(WAYS[3], 1, ROOM);
    let bytes = bench.show("data").capacity_bytes;
    bench.ask(Command::VolumeReshape(order(WAYS[3]))).unwrap();
    bench.sim.drive("c").unwrap().refuse_writes(ByteRange::new(ByteOffset(0), ByteCount(ROOM)));
    for _ in 0..3 {
        bench.wait(30);
        let hosts = ask_for_all(&mut bench, bytes);
        bench.wait(1);
        let (waiting, failed) = hosts.get();
        assert_eq!(waiting, 0, "{failed} failed");
        assert!((1..20).contains(&failed), "only writes to the saved window fail: {failed}");
    }
    bench.sim.drive("c").unwrap().clear_write_errors();
    arrive(&mut bench);
    expect_content(&mut bench, bytes);
}

/// A saved window found by a start was closed until the task was resumed. Now a paused task moves
/// it, and pauses afterwards.
#[test]
fn a_paused_task_moves_the_window_that_a_start_found_saved() {
    let mut paused = 0;
    for steps in (600..3000).step_by(75) {
        let Some((mut bench, bytes, task)) = paused_and_killed(steps) else { continue };
        bench.boot(&["a", "b", "c", "d", "e"]);
        let hosts = ask_for_all(&mut bench, bytes);
        bench.wait(60);
        assert_eq!(hosts.get(), (0, 0), "{steps} events");
        if bench.show("data").reshape.is_some() {
            paused += 1;
            bench.ask(Command::TaskResume { task }).unwrap();
        }
        arrive(&mut bench);
        expect_content(&mut bench, bytes);
        assert_eq!(bench.show("data").state, VolumeState::Optimal);
    }
    assert!(paused > 5, "the volume was reshaping: {paused}");
}

/// The same for a volume that is offline when its task is resumed, since drives are missing: a
/// paused task slept without end, and the window stayed closed for writes when the drives had
/// returned and the volume was started.
#[test]
fn a_paused_task_moves_a_saved_window_when_the_volume_is_started() {
    let mut saved = 0;
    for steps in (600..3000).step_by(75) {
        let Some((mut bench, bytes, _)) = paused_and_killed(steps) else { continue };
        ["b", "c"].iter().for_each(|name| bench.sim.drive(name).unwrap().vanish());
        bench.boot(&["a", "b", "c", "d", "e"]);
        bench.wait(90);
        assert_eq!(bench.show("data").state, VolumeState::Offline);
        ["b", "c"].iter().for_each(|name| bench.sim.drive(name).unwrap().come_back());
        // The volume is started automatically, as missing drives are just retried.
        let start = Command::VolumeStart {
            volume: "data".into(),
            accept_stale_parity: false,
            degraded: true,
        };
        let started = bench.ask(start);
        assert_ne!(bench.show("data").state, VolumeState::Offline, "{started:?}");
        saved += 1;
        let hosts = ask_for_all(&mut bench, bytes);
        bench.wait(120);
        assert_eq!(hosts.get(), (0, 0), "{steps} events");
    }
    assert!(saved > 5, "the volume was reshaping: {saved}");
}

/// The record of a window failed, and the task was paused: another task was begun in its place, and
/// continued. Or the task stopped, and the window was closed for writes until it was resumed.
#[test]
fn a_window_that_a_failed_record_has_left_closed_is_opened_by_a_paused_task() {
    let mut paused = 0;
    for steps in (600..3000).step_by(75) {
        let (mut bench, bytes) = begun(WAYS[0], steps);
        let Some(task) = moving(&mut bench) else { continue };
        bench.sim.drive("a").unwrap().fail_next(
            u64::MAX,
            Some("write"),
            platform::IoErrorKind::OutOfSpace,
        );
        let is_paused = bench.ask(Command::TaskPause { task }).is_ok();
        bench.wait(5);
        bench.sim.drive("a").unwrap().cancel_failures();
        bench.wait(90);
        let hosts = ask_for_all(&mut bench, bytes);
        bench.wait(60);
        assert_eq!(hosts.get(), (0, 0), "{steps} events");
        if is_paused && bench.show("data").reshape.is_some() {
            paused += 1;
            bench
                .ask(Command::TaskResume { task })
                .expect("it was paused, and no other task was begun");
        }
        arrive(&mut bench);
        expect_content(&mut bench, bytes);
        assert_eq!(bench.show("data").state, VolumeState::Optimal);
    }
    assert!(paused > 5, "the volume was reshaping: {paused}");
}

/// A drive is missing while windows are saved and moved, a kill follows at any event, and the drive
/// is back at the next start: its stale blocks are not read. That it lacks saved data may be
/// recorded in marks only; a start clears them, as the saved copy was complete on the present
/// drives.
#[test]
fn a_drive_that_was_away_when_a_window_was_saved_is_not_read_there() {
    let way = WAYS[0];
    let prepare = || prepared(way, 1, 3 * MIB);
    let scene = |bench: &mut Bench| {
        bench.try_ask(Command::VolumeReshape(order(way))).ok()?.ok()?;
        bench.sim.drive("b").unwrap().vanish();
        let until = bench.sim.now() + std::time::Duration::from_millis(400);
        bench.sim.run_until(until).ok()
    };
    let bytes = prepare().show("data").capacity_bytes;
    at_every_event(3, End::Killed, prepare, scene, |bench, _, event| {
        bench.sim.drive("b").unwrap().come_back();
        bench.boot(&["a", "b", "c", "d", "e"]);
        for strip in 0..bytes / STRIP {
            let read = bench.try_read("data", strip * STRIP, STRIP).expect("the volume is online");
            let is_so = read.iter().all(|is| *is == byte(strip));
            assert!(is_so, "event {event}: strip {strip} holds {} ...", read[0]);
        }
        arrive(bench);
        expect_content(bench, bytes);
    });
}
