//! Drives that do not answer in time: they are suspended, come back by themselves, and fail by policy.

use crate::common::Bench;
use controller::{AddSpare, Command, DriveState, SetPolicy, VolumeState};

const DRIVES: [&str; 4] = ["a", "b", "c", "d"];
const LEN: u64 = 256 << 10;

/// A RAID 5 on `a`, `b` and `c` whose drive `b` has stopped to answer: a write has found that. `d` is a hot spare.
fn suspended(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 2, 4);
    bench.boot(&DRIVES);
    bench.create("data", "raid5", &["a", "b", "c"]);
    let spare = AddSpare { drive: "d".into(), destroy_data: true, ..AddSpare::default() };
    bench.ask(Command::SpareAdd(spare)).unwrap();
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    fall_silent(&mut bench, 2);
    bench
}

fn fall_silent(bench: &mut Bench, byte: u8) {
    bench.sim.drive("b").unwrap().hold();
    bench.write("data", 0, byte, LEN);
    assert_eq!(bench.drive("b").state, DriveState::Suspended);
}

/// Every drive in turn is what is missing, and hosts read what they wrote.
fn is_whole(bench: &mut Bench, byte: u8) {
    for _ in 0..60 {
        if bench.show("data").state == VolumeState::Optimal {
            break;
        }
        bench.wait(1);
    }
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    assert_eq!(bench.drive("b").state, DriveState::Online);
    for drive in ["a", "c", "b"] {
        bench.ask(crate::common::take_offline(drive)).unwrap();
        bench.expect("data", 0, byte, LEN);
        bench.ask(Command::DriveOnline { drive: drive.into() }).unwrap();
        bench.settle("data");
    }
}

/// A server was stopped for a minute. Its drive was called failed for good, a spare was filled with all that it held, and it could be used
/// again when an operator had cleared it.
#[test]
fn a_drive_that_does_not_answer_comes_back_by_itself_with_what_it_missed() {
    let mut bench = suspended(1);
    assert!(bench.has_event("operation timed out): 'data' is degraded; another failure loses data; it is used again when it answers"));
    let info = bench.show("data");
    assert_eq!((info.state, info.may_lose), (VolumeState::Degraded, 0));
    bench.wait(60);
    assert_eq!(bench.drive("d").state, DriveState::Spare, "nothing takes its slot");
    bench.write("data", 0, 3, LEN);
    bench.sim.drive("b").unwrap().release();
    is_whole(&mut bench, 3);
    assert!(bench.has_event("drive b is back"));
    assert_eq!(bench.drive("d").state, DriveState::Spare);
}

/// The drive came back after the controller had been stopped, or killed.
#[test]
fn a_suspended_drive_comes_back_after_a_restart() {
    for is_killed in [false, true] {
        let mut bench = suspended(2);
        if !is_killed {
            bench.shut_down();
        }
        bench.sim.drive("b").unwrap().release();
        bench.restart(&[]);
        is_whole(&mut bench, 2);
        assert_eq!(bench.drive("d").state, DriveState::Spare, "killed: {is_killed}");
    }
}

/// A drive that stays silent has failed, after the time that the policy says, and a spare takes its slot.
#[test]
fn a_drive_that_stays_silent_fails_by_policy() {
    for limit in [None, Some(600)] {
        let mut bench = suspended(3);
        let policy = SetPolicy { volume: "data".into(), suspend_limit_s: limit, ..SetPolicy::default() };
        if limit.is_some() {
            bench.ask(Command::VolumePolicy(policy)).unwrap();
        }
        let seconds = limit.map_or(300, u64::from);
        bench.wait(seconds - 60);
        assert_eq!(bench.drive("b").state, DriveState::Suspended);
        bench.wait(90);
        assert!(bench.has_event(&format!("drive b failed (it did not answer for {seconds} s)")));
        assert_eq!(bench.drive("b").state, DriveState::Failed);
        bench.settle("data");
        let info = bench.show("data");
        assert_eq!((info.state, info.drives[1].name.as_str()), (VolumeState::Optimal, "d"));
        bench.expect("data", 0, 2, LEN);
        bench.sim.drive("b").unwrap().release();
        bench.wait(60);
        assert_eq!(bench.drive("b").state, DriveState::Failed, "it is not trusted by itself");
    }
}

/// Each return costs a resync: one that does not answer again and again fails.
#[test]
fn a_drive_that_is_suspended_again_and_again_fails_by_policy() {
    let mut bench = suspended(4);
    for round in 0..12 {
        assert_eq!(bench.drive("b").state, DriveState::Suspended, "round {round}");
        bench.sim.drive("b").unwrap().release();
        bench.wait(20);
        bench.settle("data");
        assert_eq!(bench.drive("b").state, DriveState::Online, "round {round}");
        bench.sim.drive("b").unwrap().hold();
        bench.write("data", 0, 3 + round, LEN);
    }
    assert!(bench.has_event("it was suspended 12 times within an hour"));
    bench.settle("data");
    assert_eq!(bench.show("data").drives[1].name, "d");
    bench.expect("data", 0, 14, LEN);
}
