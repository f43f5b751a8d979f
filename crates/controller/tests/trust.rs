//! Unsynced regions stay unsynced over renames, stops and starts.

use crate::common::*;
use controller::{
    AddSpare, Command, DriveState, ErrorKind, Reply, StartTask, Startable, VolumeState,
};
use layout::{Geometry, Level, ParityIndex};
use platform::{Durability, IoErrorKind};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, DriveCount, StripSize, StripeIndex};

/// A mirror whose one marked region was idle. Clearing its mark waits for the flush of a drive,
/// which takes 20 seconds.
fn clearing(seed: u64) -> Option<Bench> {
    let mut bench = Bench::new(seed, 1, 2);
    bench.boot(&["a", "b"]);
    bench.create("v", "raid1", &["a", "b"]);
    bench.settle("v");
    bench.write("v", 0, 1, 4096);
    let drive = bench.sim.drive("a").unwrap();
    // Every ten seconds the drives' health is queried: that query must not get the delay.
    bench.wait(6);
    drive.stall_next(1, Duration::from_secs(20));
    let is_asked = (0..9).any(|_| {
        bench.wait(1);
        drive.in_flight() > 0
    });
    (is_asked && bench.show("v").dirty_regions == 1).then_some(bench)
}

/// A clearing of marks that waited for a slow drive's flush continued after the shards had detached
/// the volume and attached it again: it unmarked a region that the new attachment had marked and
/// was writing.
#[test]
fn a_clearing_from_before_a_volume_is_served_anew_does_not_unmark_what_is_written_after_it() {
    // As for zeroing a whole volume.
    let stopped = |seed: &u64| {
        let mut bench = clearing(*seed)?;
        let (what, volume, limit) = (Startable::InitFull, Some("v".to_owned()), Some(1));
        let start = StartTask { what, volume, limit_bytes_per_s: limit, ..StartTask::default() };
        let Reply::Task { task, .. } = bench.ask(Command::TaskStart(start)).unwrap() else {
            panic!()
        };
        bench.wait(1);
        // If the drive was slow with another operation, nothing waits, and the clearing is over by
        // now.
        bench.ask(Command::TaskStop { task: task.task }).is_ok().then_some(bench)
    };
    let mut bench = (1..20).find_map(|seed| stopped(&seed)).expect("a clearing is in progress");
    bench.wait(1);
    for second in 0..30 {
        bench.write("v", 0, 2, 4096);
        let dirty = bench.show("v").dirty_regions;
        assert_eq!(dirty, 1, "after {second} s a region that is being written is not marked");
        bench.wait(1);
    }
}

/// An idle region is written again while the clearing of its mark waits for a slow drive's flush:
/// no flush covers the new writes, and the shard relies on the mark.
#[test]
fn a_region_that_is_written_again_while_its_mark_is_about_to_go_keeps_it() {
    let mut bench = clearing(1).expect("the clearing waits");
    for second in 0..30 {
        bench.write("v", 0, 2, 4096);
        let dirty = bench.show("v").dirty_regions;
        assert_eq!(dirty, 1, "after {second} s a region that is being written is not marked");
        bench.wait(1);
    }
    bench.settle("v");
}

/// A degraded array's write failed on one drive after parity had been written. The shard's unsynced
/// state of the region was lost in a clean stop, and after the next start an unwritten strip of the
/// missing drive was computed from stale parity.
#[test]
fn a_stripe_that_a_failed_write_left_unfinished_is_not_trusted_after_a_stop_and_a_start() {
    let mut bench = Bench::new(1, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("v", "raid5", &["a", "b", "c"]);
    bench.settle("v");
    let strip = 64 << 10;
    let strips = bench.show("v").capacity_bytes / strip;
    for i in 0..strips {
        bench.write("v", i * strip, 5, strip);
    }
    bench.settle("v");
    bench.ask(crate::common::fail_drive("c")).unwrap();
    bench.write("v", 8 * strip, 5, strip);
    let mut failed = 0;
    for i in 0..4 {
        bench.sim.drive("a").unwrap().fail_next(1, Some("write"), IoErrorKind::Medium);
        if bench.try_write("v", i * strip, 9, strip).unwrap().is_err() {
            failed += 1;
        }
        bench.sim.drive("a").unwrap().cancel_failures();
    }
    assert!(failed > 0, "no write failed: the test shows nothing");
    bench.shut_down();
    bench.restart(&["a", "b", "c"]);
    if bench.shards[0].volume_named("v").is_none() {
        return; // The volume may wait for the operator as well.
    }
    for i in 4..strips {
        if let Ok(bytes) = bench.try_read("v", i * strip, strip) {
            assert!(
                bytes.iter().all(|byte| *byte == 5),
                "strip {i} was not written, and reads differently"
            );
        }
    }
}

/// Accepting stale parity for a degraded volume once cleared all marks at once: parity was used
/// unchanged, with P and Q in disagreement. Now the acceptance lasts until redundancy agrees again,
/// a crash before that requires it once more, and the second parity is current in the end.
#[test]
fn the_word_is_kept_until_redundancy_agrees_and_asked_for_again_after_a_crash() {
    let names = ["a", "b", "c", "d", "e"];
    let mut bench = Bench::new(1, 1, 5);
    bench.boot(&names);
    bench.create_resyncing("v", "raid6", &names);
    bench.settle("v");
    let strip = 64 << 10;
    let strips = bench.show("v").capacity_bytes / strip;
    for i in 0..strips {
        bench.write("v", i * strip, 5, strip);
    }
    bench.settle("v");
    // Written, and not idle yet: the region is marked at the kill. Then a drive fails.
    bench.write("v", 0, 5, 4096);
    bench.forget();
    bench.sim.kill();
    spoil_q(&mut bench, strips / 3 * strip);
    bench.sim.drive("e").unwrap().vanish();
    bench.restart(&names[..4]);
    let start = |accept_stale_parity| Command::VolumeStart {
        volume: "v".into(),
        accept_stale_parity,
        degraded: false,
    };
    let refused = bench.refused(ErrorKind::WrongState, start(false));
    assert!(refused.contains("--accept-stale-parity"), "{refused}");
    bench.ask(start(true)).unwrap();
    assert!(bench.has_event("; stale parity was accepted in"), "{:?}", bench.events());
    let shown = bench.show("v");
    assert_eq!(shown.state, VolumeState::Degraded);
    assert!(shown.resync.is_some(), "the resync is not done at once");
    assert!(!shown.reasons.iter().any(|why| why.contains("accept")), "{:?}", shown.reasons);
    // Killed during the resync: acceptance is required once more.
    bench.restart(&names[..4]);
    bench.refused(ErrorKind::WrongState, start(false));
    bench.ask(start(true)).unwrap();
    bench.settle("v");
    assert!(bench.has_event("the resync of 'v' is complete"), "{:?}", bench.events());
    bench.ask(crate::common::fail_drive("a")).unwrap();
    for i in 0..strips {
        bench.expect("v", i * strip, 5, strip);
    }
    // After the resync no acceptance is required.
    bench.shut_down();
    bench.restart(&names[1..4]);
    assert_eq!(bench.show("v").state, VolumeState::Degraded);
    for i in 0..strips {
        bench.expect("v", i * strip, 5, strip);
    }
}

/// Makes Q stale in every stripe of a RAID 6 volume over five drives, with this many bytes of each.
fn spoil_q(bench: &mut Bench, member_bytes: u64) {
    let geometry =
        Geometry::new(Level::Raid6, DriveCount(5), StripSize::KIB_64, ByteCount(member_bytes))
            .unwrap();
    for stripe in (0..geometry.stripes().0).map(StripeIndex) {
        let cell = geometry.parity_cell(stripe, ParityIndex(1)).expect("Q");
        let drive =
            bench.sim.drive(["a", "b", "c", "d", "e"][cell.drive.as_usize()]).expect("a drive");
        drive.poke(cell.offset, &[0x77; 64 << 10]);
    }
}

/// A spare took the slot of a drive failed by an operator, and another drive failed while that was
/// being recorded. Shards got the list of slots in service, with that slot, before the slot's new
/// drive: host reads in between returned old data of the failed drive (`torture --seed 6709`).
#[test]
fn a_slot_that_gets_a_drive_while_another_fails_is_not_read_before_it_has_it() {
    for seed in 0..4 {
        let mut bench = Bench::new(seed, 2, 5);
        bench.boot(&[]);
        bench.create_resyncing("v", "raid6", &["a", "b", "c", "d"]);
        bench.write("v", 0, 1, MIB);
        bench.settle("v");
        bench.ask(crate::common::fail_drive("b")).unwrap();
        // The label does not have its missed writes yet, as the region is marked.
        bench.write("v", 0, 2, MIB);
        // Neither labels nor data reach that drive: host requests complete when its failure is
        // recorded.
        bench.sim.drive("c").unwrap().hold();
        let is_over = Rc::new(Cell::new(false));
        let hosts: Vec<_> =
            (0..8).map(|host| write_and_read(&bench, host * 65536, &is_over)).collect();
        bench
            .ask(Command::SpareAdd(AddSpare { drive: "e".into(), ..AddSpare::default() }))
            .unwrap();
        bench.wait(40);
        is_over.set(true);
        for host in hosts {
            let (reads, old) = bench.sim.finish(&host).unwrap();
            assert!(reads > 0 && old == 0, "seed {seed}: {old} of {reads} reads returned old data");
        }
        assert_eq!(bench.drive("c").state, DriveState::Suspended, "seed {seed}");
    }
}

/// Writes to the second half of a MiB, and after the acknowledgement reads a strip of the first,
/// repeatedly. Returns the number of reads, and of those that differ from the last write.
fn write_and_read(
    bench: &Bench,
    at: u64,
    is_over: &Rc<Cell<bool>>,
) -> platform::JoinHandle<(u32, u32)> {
    let shard = (at / 65536) as usize % bench.shards.len();
    let volume = bench.shards[shard].volume_named("v").expect("the volume is online");
    let (env, is_over) = (volume.shard().env().clone(), is_over.clone());
    let strip = |at| units::ByteRange::new(units::ByteOffset(at), ByteCount(65536));
    env.clone().spawn("write and read", async move {
        let (mut reads, mut old) = (0, 0);
        while !is_over.get() {
            let payload = platform::Buf::copy_of(&[2; 65536]).freeze();
            volume.write(strip(MIB / 2 + at), payload, Durability::Cached).await.expect("written");
            let (result, buf) =
                volume.read(strip(at), platform::Buf::unpooled(ByteCount(65536))).await;
            result.expect("read");
            reads += 1;
            env.sleep(Duration::from_millis(10)).await;
            old += u32::from(buf.expect("a buffer").bytes().iter().any(|byte| *byte != 2));
        }
        (reads, old)
    })
}

/// A write is on all drives but one, whose failure cannot be recorded for want of space: after a
/// crash it would count as current. So the write waits, and is acknowledged when there is space.
#[test]
fn a_write_that_skipped_a_drive_is_not_acknowledged_before_that_is_recorded() {
    let names = ["a", "b", "c"];
    let mut bench = Bench::new(3, 1, 3);
    bench.boot(&names);
    bench.create_resyncing("v", "raid5", &names);
    bench.settle("v");
    let stripe = 2 * (64 << 10);
    bench.write("v", 0, 1, stripe);
    bench.sim.drive("b").unwrap().stall_next(1, Duration::from_secs(300));
    let written = bench.begin_write("v", 0, 2, stripe);
    bench.wait(1);
    for name in ["a", "c"] {
        bench.sim.drive(name).unwrap().fail_next(10_000, Some("write"), IoErrorKind::OutOfSpace);
    }
    bench.wait(60);
    assert!(bench.has_event("cannot be recorded"), "{:?}", bench.events());
    assert!(!written.is_finished(), "the write is on one drive less than recorded");
    for name in ["a", "c"] {
        bench.sim.drive(name).unwrap().cancel_failures();
    }
    bench.wait(60);
    assert!(written.is_finished());
    bench.sim.finish(&written).unwrap().unwrap();
    assert_eq!(bench.drive("b").state, DriveState::Suspended);
}
