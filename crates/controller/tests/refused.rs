//! Temporary refusals by the system (ENOMEM, EBUSY) fail no drive.

use crate::common::{Bench, MIB};
use controller::{Command, DriveState, ErrorKind, VolumeState};
use platform::IoErrorKind;

const DRIVES: [&str; 3] = ["a", "b", "c"];
const STRIPE: u64 = 2 * 65536;

fn bench(seed: u64, level: &str) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 3);
    bench.boot(&[]);
    bench.create("data", level, &DRIVES);
    bench.write("data", 0, 1, MIB / 2);
    bench.settle("data");
    bench
}

/// Temporarily refused labels, maps and flushes failed a sound drive.
#[test]
fn what_the_system_cannot_write_for_now_puts_no_drive_out() {
    let mut bench = bench(8, "raid5");
    let is_whole = |bench: &mut Bench, what: &str| {
        bench.wait(5);
        let info = bench.show("data");
        assert_eq!(info.state, VolumeState::Optimal, "{what}");
        let states: Vec<DriveState> = info.drives.iter().map(|drive| drive.state).collect();
        assert!(states.iter().all(|state| *state == DriveState::Online), "{what}: {states:?}");
    };
    // A label, briefly and for long.
    let rename = |from: &str, to: &str| Command::VolumeSet { volume: from.into(), name: to.into() };
    bench.sim.drive("c").unwrap().fail_next(1, Some("write"), IoErrorKind::Busy);
    bench.ask(rename("data", "new")).unwrap();
    bench.ask(rename("new", "data")).unwrap();
    bench.sim.drive("c").unwrap().fail_next(10_000, Some("write"), IoErrorKind::Busy);
    bench.refused(ErrorKind::Failed, rename("data", "other"));
    bench.sim.drive("c").unwrap().cancel_failures();
    is_whole(&mut bench, "a label");
    // A mark, and the write that needs it.
    for _ in 0..3 {
        bench.sim.drive("b").unwrap().fail_next(1, Some("write"), IoErrorKind::Busy);
        let _ = bench.try_write("data", 0, 2, STRIPE).unwrap();
        is_whole(&mut bench, "a mark");
    }
    bench.sim.drive("b").unwrap().cancel_failures();
    bench.write("data", 0, 3, STRIPE);
    // The flush before marks are cleared: the marks stay until the flush succeeds.
    bench.sim.drive("a").unwrap().fail_next(10_000, Some("flush"), IoErrorKind::Busy);
    bench.wait(60);
    is_whole(&mut bench, "a flush");
    assert!(bench.show("data").dirty_regions > 0, "unflushed regions stay marked");
    bench.sim.drive("a").unwrap().cancel_failures();
    bench.wait(60);
    assert_eq!(bench.show("data").dirty_regions, 0, "the flush was retried");
    // A start, which reads and writes labels and maps.
    for operation in ["read", "write", "flush"] {
        bench.sim.drive("b").unwrap().fail_next(5, Some(operation), IoErrorKind::Busy);
    }
    bench.restart(&[]);
    // The refused label is on the other drives.
    let name =
        ["data", "other"].into_iter().find(|name| bench.shards[0].volume_named(name).is_some());
    let name = name.expect("the volume is online");
    assert_eq!(bench.show(name).state, VolumeState::Optimal);
    bench.expect(name, 0, 3, STRIPE);
}
