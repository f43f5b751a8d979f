//! What is not to be trusted stays so: over renames, stops and starts.

mod common;
use common::*;
use controller::Command;
use env::IoErrorKind;
use std::time::Duration;

/// A clearing of marks that waited for a slow drive's flush went on after the volume had been stopped and started
/// again under another name: it unmarked a lane that the new attachment counted on and was writing.
#[test]
fn a_clearing_from_before_a_rename_does_not_unmark_what_is_written_after_it() {
    let mut bench = Bench::new(1, 1, 2);
    bench.boot(&["a", "b"]);
    bench.create("v", "raid1", &["a", "b"]);
    bench.settle("v");
    bench.write("v", 0, 1, 4096);
    bench.sim.drive("a").unwrap().stall_next(1, Duration::from_secs(20));
    bench.wait(11);
    bench.ask(Command::VolumeSet { volume: "v".into(), name: "w".into() }).unwrap();
    for second in 0..30 {
        bench.write("w", 0, 2, 4096);
        let dirty = bench.show("w").dirty_lanes;
        assert_eq!(dirty, 1, "after {second} s a lane that is being written is not marked");
        bench.wait(1);
    }
}

/// A degraded array's write failed on one drive after parity had been written. The shard distrusted the lane, but a
/// stop in order forgot that, and after the next start a strip of the missing drive, which nobody had written,
/// was computed from parity that did not fit.
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
    bench.ask(Command::DriveFail { drive: "c".into() }).unwrap();
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
        return; // It waits for the operator, which is an honest answer too.
    }
    for i in 4..strips {
        if let Ok(bytes) = bench.try_read("v", i * strip, strip) {
            assert!(bytes.iter().all(|byte| *byte == 5), "strip {i} was not written, and reads otherwise");
        }
    }
}
