//! The start of a reshape, and concurrent events.

use crate::common::events::{End, end};
use crate::common::{Bench, MIB};
use crate::reshape::{
    STRIP, WAYS, arrive, byte, expect_content, flush, order, prepared, reshape, task,
};
use controller::{Command, ErrorKind, ReshapeVolume, TaskState, VolumeState};
use platform::{Buf, IoErrorKind};
use std::cell::Cell;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// The number of strips written while a reshape begins: each gets its neighbour's content.
const WRITTEN: u64 = 4;

fn expect_written(bench: &mut Bench, bytes: u64, when: &str) {
    for strip in 0..bytes / STRIP {
        let is = byte(strip + u64::from(strip < WRITTEN));
        let read = bench.try_read("data", strip * STRIP, STRIP).expect("the volume is online");
        assert!(
            read.iter().all(|found| *found == is),
            "{when}: strip {strip} holds {} ...",
            read[0]
        );
    }
}

/// A drive fails a write, and its failure is being recorded when a reshape is ordered: the
/// reshape's label must have the state at its turn, or the drive counts as current without its
/// missed writes. The drive misses a write right after that, and the reshape itself rewrites that
/// data.
#[test]
fn a_drive_that_goes_out_while_a_move_begins_stays_out() {
    let way = WAYS[0];
    let mut refused = 0;
    for steps in (0..1200).step_by(48) {
        let mut bench = prepared(way, 1, 4 * MIB);
        let bytes = bench.show("data").capacity_bytes;
        let ordered = bench.begin_ask(Command::VolumeReshape(order(way)));
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("b").unwrap().fail_next(1, Some("write"), IoErrorKind::Gone);
        let written: Vec<_> = (0..WRITTEN)
            .map(|strip| bench.begin_write("data", strip * STRIP, byte(strip + 1), STRIP))
            .collect();
        let was_refused = bench.sim.run(async move {
            for one in written {
                one.await.expect("written without the drive");
            }
            ordered.await.is_err()
        });
        refused += usize::from(was_refused.unwrap());
        end(&mut bench, End::Killed);
        bench.boot(&["a", "b", "c", "d"]);
        expect_written(&mut bench, bytes, &format!("killed after {steps} events"));
        for _ in 0..100 {
            if bench.show("data").reshape.is_none() {
                break;
            }
            bench.wait(1);
        }
        flush(&mut bench);
        end(&mut bench, End::Killed);
        bench.boot(&["a", "b", "c", "d"]);
        expect_written(&mut bench, bytes, &format!("{steps} events, in the end"));
    }
    assert!(refused > 2 && refused < 24, "the two coincide: {refused} of 25 are refused");
}

/// A host that reads continuously. Returns the number of completed requests, and the first error.
fn reader(bench: &Bench, bytes: u64) -> Rc<Cell<(u64, Option<IoErrorKind>)>> {
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let told = Rc::new(Cell::new((0, None)));
    let (seen, env) = (told.clone(), volume.shard().env().clone());
    env.clone().spawn("host", async move {
        for strip in (0..bytes / STRIP).cycle() {
            let range = ByteRange::new(ByteOffset(strip * STRIP), ByteCount(512));
            let (read, _) = volume.read(range, Buf::unpooled(range.len)).await;
            let (count, error) = seen.get();
            seen.set((count + 1, error.or(read.err().map(|error| error.kind))));
            env.sleep(std::time::Duration::from_micros(200)).await;
        }
    });
    told
}

/// A reshape is stopped at any event before data has moved. The volume was attached again for that,
/// and an idle host got an error much later, that the volume is gone. Found by torture.
#[test]
fn a_move_that_is_stopped_is_noticed_by_no_host() {
    let way = WAYS[0];
    let mut stopped = 0;
    for steps in (0..400).step_by(16) {
        let mut bench = prepared(way, 2, MIB);
        let bytes = bench.show("data").capacity_bytes;
        let (host, idle) = (
            reader(&bench, bytes),
            bench.shards[1].volume_named("data").expect("the volume is online"),
        );
        reshape(&mut bench, order(way));
        for _ in 0..steps {
            bench.sim.step();
        }
        let writing = bench.begin_write("data", 0, 251, STRIP);
        let id = task(&mut bench).task;
        stopped += usize::from(bench.ask(Command::TaskStop { task: id }).is_ok());
        bench.sim.finish(&writing).expect("no stall").expect("written");
        bench.wait(5);
        let (requests, error) = host.get();
        assert!(
            requests > 1000 && error.is_none(),
            "{steps} events: {error:?}, {requests} requests"
        );
        bench.expect("data", 0, 251, STRIP);
        bench.write("data", 0, byte(0), STRIP);
        let range = ByteRange::new(ByteOffset(0), ByteCount(512));
        let env = idle.shard().env().clone();
        let read = env
            .spawn("idle host", async move { idle.read(range, Buf::unpooled(range.len)).await.0 });
        bench.sim.finish(&read).expect("no stall").expect("the volume is still there");
        if bench.show("data").reshape.is_none() && task(&mut bench).state == TaskState::Stopped {
            // The reshape can still be done afterwards.
            reshape(&mut bench, order(way));
        }
        arrive(&mut bench);
        expect_content(&mut bench, bytes);
        let (_, error) = host.get();
        assert_eq!(error, None, "{steps} events");
    }
    assert!(stopped > 5, "{stopped} of 25 were stopped");
}

/// A drive is lost while the start of a reshape is recorded, which is then rolled back. The volume
/// was attached again for that, though no shard knew of the reshape: hosts were disconnected, and
/// got errors. Found by torture.
#[test]
fn a_beginning_that_is_taken_back_is_noticed_by_no_host() {
    let way = WAYS[0];
    let mut refused = 0;
    for steps in (0..600).step_by(20) {
        let mut bench = prepared(way, 2, MIB);
        let bytes = bench.show("data").capacity_bytes;
        let host = reader(&bench, bytes);
        let ordered = bench.begin_ask(Command::VolumeReshape(order(way)));
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("d").unwrap().fail_now();
        refused += usize::from(bench.sim.run(ordered).unwrap().is_err());
        bench.wait(5);
        let (requests, error) = host.get();
        assert!(
            requests > 1000 && error.is_none(),
            "{steps} events: {error:?}, {requests} requests"
        );
        let state = bench.show("data").state;
        assert!(matches!(state, VolumeState::Optimal | VolumeState::Degraded), "{state}");
        expect_content(&mut bench, bytes);
    }
    assert!(refused > 5 && refused < 30, "the two coincide: {refused} of 30 are refused");
}

/// A drive that a RAID 0 needs is away for a moment while a reshape begins. It was recorded as lost
/// in a label with the new drives, since the saved copy tolerates that; and the volume stayed
/// offline when the drive returned. Found by torture.
#[test]
fn a_volume_that_lost_a_drive_while_its_move_began_is_there_when_the_drive_is() {
    let way = WAYS[3];
    let (mut refused, mut gone_on) = (0, 0);
    for steps in (0..600).step_by(12) {
        let mut bench = prepared(way, 1, MIB);
        let bytes = bench.show("data").capacity_bytes;
        let ordered = bench.begin_ask(Command::VolumeReshape(order(way)));
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("b").unwrap().vanish();
        refused += usize::from(bench.sim.finish(&ordered).expect("no stall").is_err());
        bench.wait(5);
        end(&mut bench, End::Killed);
        bench.sim.drive("b").unwrap().come_back();
        bench.boot(&["a", "b", "c"]);
        let shown = bench.show("data");
        let drives = ["a", "b", "c"].map(|name| bench.drive(name).reason);
        assert_eq!(
            shown.state,
            VolumeState::Optimal,
            "{steps} events: {:?}, {drives:?}",
            shown.reasons
        );
        gone_on += usize::from(bench.show("data").reshape.is_some());
        arrive(&mut bench);
        expect_content(&mut bench, bytes);
    }
    assert!(
        refused > 5 && gone_on > 5,
        "{refused} of 50 were refused, {gone_on} continue after a start"
    );
}

/// A stripe of the new layout needs more memory than a shard has. The command was refused after
/// labels had named the layout: after a crash in between, the volume was offline until it was
/// started with more memory. Found by torture.
#[test]
fn a_layout_whose_stripes_need_more_memory_than_there_is_is_refused_before_anything_is_recorded() {
    let way = WAYS[1];
    let mut bench = prepared(way, 1, 16 * MIB);
    let bytes = bench.show("data").capacity_bytes;
    let large = || Command::VolumeReshape(ReshapeVolume { strip_bytes: Some(MIB), ..order(way) });
    let message = bench.refused(ErrorKind::WrongState, large());
    assert!(
        message.contains("'data' cannot be reshaped") && message.contains("--memory"),
        "{message}"
    );
    for steps in (0..240).step_by(8) {
        let ordered = bench.begin_ask(large());
        for _ in 0..steps {
            bench.sim.step();
        }
        drop(ordered);
        end(&mut bench, End::PowerCut);
        bench.boot(&["a", "b", "c", "d"]);
        let shown = bench.show("data");
        assert!(shown.state.serves(), "{steps} events: {:?}", shown.reasons);
    }
    expect_content(&mut bench, bytes);
}
