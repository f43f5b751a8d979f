//! Drives that do not respond in time: they are suspended, return automatically, and fail by
//! policy.

use crate::common::Bench;
use controller::{AddSpare, Command, DriveState, LimitSource, SetPolicy, VolumeState};
use platform::{LimitsByClass, TimeLimits};
use std::time::Duration;

const DRIVES: [&str; 4] = ["a", "b", "c", "d"];
const LEN: u64 = 256 << 10;

/// A RAID 5 on `a`, `b` and `c` whose drive `b` has stopped responding, as a write has detected.
/// `d` is a hot spare.
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

/// With any one drive missing, hosts read their written data.
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

/// A server was stopped for a minute. Its drive was failed permanently, a spare was rebuilt
/// completely, and the drive was usable only after an operator had cleared it.
#[test]
fn a_drive_that_does_not_answer_comes_back_by_itself_with_what_it_missed() {
    let mut bench = suspended(1);
    assert!(bench.has_event(
        "operation timed out): 'data' is degraded; another failure loses data; \
        it is used again when it responds"
    ));
    let info = bench.show("data");
    assert_eq!((info.state, info.may_lose), (VolumeState::Degraded, 0));
    bench.wait(60);
    assert_eq!(bench.drive("d").state, DriveState::Spare, "no spare takes its slot");
    bench.write("data", 0, 3, LEN);
    bench.sim.drive("b").unwrap().release();
    is_whole(&mut bench, 3);
    assert!(bench.has_event("drive b is back"));
    assert_eq!(bench.drive("d").state, DriveState::Spare);
}

/// The drive returned after a shutdown or kill of the controller.
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

/// A drive that stays unresponsive fails after the time of the policy, and a spare takes its slot.
#[test]
fn a_drive_that_stays_silent_fails_by_policy() {
    for limit in [None, Some(600)] {
        let mut bench = suspended(3);
        let policy =
            SetPolicy { volume: "data".into(), suspend_limit_s: limit, ..SetPolicy::default() };
        if limit.is_some() {
            bench.ask(Command::VolumePolicy(policy)).unwrap();
        }
        let seconds = limit.map_or(300, u64::from);
        bench.wait(seconds - 60);
        assert_eq!(bench.drive("b").state, DriveState::Suspended);
        bench.wait(90);
        assert!(bench.has_event(&format!("drive b failed (it did not respond for {seconds} s)")));
        assert_eq!(bench.drive("b").state, DriveState::Failed);
        bench.settle("data");
        let info = bench.show("data");
        assert_eq!((info.state, info.drives[1].name.as_str()), (VolumeState::Optimal, "d"));
        bench.expect("data", 0, 2, LEN);
        bench.sim.drive("b").unwrap().release();
        bench.wait(60);
        assert_eq!(
            bench.drive("b").state,
            DriveState::Failed,
            "the drive is not trusted automatically"
        );
    }
}

/// Each return costs a resync: a drive that stops responding again and again fails.
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
    assert!(bench.has_event("the drive was suspended 12 times within an hour"));
    bench.settle("data");
    assert_eq!(bench.show("data").drives[1].name, "d");
    bench.expect("data", 0, 14, LEN);
}

/// Volumes went offline when a drive that they need took longer than half a minute, and an operator
/// had to start them. Now they wait for it.
#[test]
fn a_drive_that_nobody_can_spare_is_waited_for() {
    for (level, drives) in [("raid0", &["a", "b", "c"][..]), ("raid5", &["a", "b", "c"][..])] {
        let mut bench = Bench::new(5, 2, 3);
        bench.boot(drives);
        bench.create("data", level, drives);
        bench.settle("data");
        bench.write("data", 0, 1, LEN);
        if level == "raid5" {
            bench.ask(crate::common::take_offline("a")).unwrap();
        }
        bench.sim.drive("b").unwrap().hold();
        let writes: Vec<_> =
            (0..4).map(|nth| bench.begin_write("data", nth * LEN, 2, LEN)).collect();
        bench.wait(200);
        assert_eq!(bench.drive("b").state, DriveState::Online, "{level}");
        assert!(writes.iter().all(|write| !write.is_finished()), "{level}");
        bench.sim.drive("b").unwrap().release();
        for write in &writes {
            bench.sim.finish(write).unwrap().unwrap();
        }
        bench.expect("data", 0, 2, 4 * LEN);
        assert_eq!(
            bench.count_events("not answer") + bench.count_events("not respond"),
            0,
            "{level}"
        );
    }
}

/// The failure of a switch removed its drives one after the other, and the second one took the
/// volume offline.
#[test]
fn drives_that_fall_silent_together_are_suspended_together_or_not_at_all() {
    for (seed, level, silent, is_spared) in [
        (6, "raid5", &["b", "c"][..], false),
        (7, "raid6", &["b", "c"][..], true),
        (8, "raid10", &["a", "b"][..], false),
    ] {
        let mut bench = Bench::new(seed, 2, 4);
        bench.boot(&DRIVES);
        bench.create("data", level, &DRIVES);
        bench.settle("data");
        bench.write("data", 0, 1, 4 * LEN);
        silent.iter().for_each(|drive| bench.sim.drive(drive).unwrap().hold());
        let writes: Vec<_> =
            (0..4).map(|nth| bench.begin_write("data", nth * LEN, 2, LEN)).collect();
        bench.wait(100);
        let state = if is_spared { DriveState::Suspended } else { DriveState::Online };
        for drive in silent {
            assert_eq!(bench.drive(drive).state, state, "{level}, {drive}");
        }
        assert_eq!(writes.iter().all(|write| write.is_finished()), is_spared, "{level}");
        silent.iter().for_each(|drive| bench.sim.drive(drive).unwrap().release());
        for write in &writes {
            bench.sim.finish(write).unwrap().unwrap();
        }
        for _ in 0..60 {
            if bench.show("data").state == VolumeState::Optimal {
                break;
            }
            bench.wait(1);
        }
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{level}");
        bench.expect("data", 0, 2, 4 * LEN);
    }
}

/// Hosts wait for a drive no longer than the limit of its class, though the controller's records go
/// to that drive as well.
#[test]
fn hosts_wait_for_a_silent_drive_as_long_as_its_class_may_take() {
    let mut bench = Bench::new(9, 2, 3);
    let limit = Duration::from_secs(2);
    bench.limits.solid = TimeLimits { write: limit, ..bench.limits.solid };
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 1, LEN);
    bench.wait(60);
    bench.sim.drive("b").unwrap().hold();
    // An unmarked region: the mark goes to all drives first.
    let begun = bench.sim.now();
    bench.write("data", 0, 2, LEN);
    let waited = bench.sim.now() - begun;
    assert!(waited >= limit && waited < limit + Duration::from_secs(1), "{waited:?}");
    assert_eq!(bench.drive("b").state, DriveState::Suspended);
    let begun = bench.sim.now();
    bench.expect("data", 0, 2, LEN);
    assert!(bench.sim.now() - begun < Duration::from_secs(1));
    bench.sim.drive("b").unwrap().release();
    is_whole_without_spare(&mut bench);
}

/// The second unresponsive drive is detected by the record of the first one's suspension. That
/// record had 30 s whatever the class of the drive.
#[test]
fn a_second_silent_drive_is_found_within_the_limit_of_its_class() {
    let limits = LimitsByClass::default().remote;
    for nth in 0..4 {
        let mut bench = Bench::new(11 + nth, 1, 4);
        bench.limits.solid = limits;
        bench.boot(&DRIVES);
        bench.create("data", "raid6", &DRIVES);
        bench.settle("data");
        bench.write("data", 0, 1, 4 * LEN);
        for drive in ["b", "c"] {
            bench.sim.drive(drive).unwrap().hold();
        }
        // Its region is marked. One of the four drives has neither the block nor its parity.
        let begun = bench.sim.now();
        bench.write("data", nth * LEN, 2, 4096);
        let waited = bench.sim.now() - begun;
        let most = 2 * (limits.short_read + limits.write) + Duration::from_secs(1);
        assert!(waited < most, "{nth}: {waited:?}");
        let states = ["b", "c"].map(|drive| bench.drive(drive).state);
        assert!(states.contains(&DriveState::Suspended), "{nth}: {states:?}");
        for drive in ["b", "c"] {
            bench.sim.drive(drive).unwrap().release();
        }
        bench.wait(60);
        bench.settle("data");
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{nth}");
        bench.expect("data", nth * LEN, 2, 4096);
    }
}

/// A small write reads first, and uses redundancy instead of an unresponsive drive: it waited 30 s
/// for that.
#[test]
fn a_small_write_waits_for_a_silent_remote_drive_for_three_seconds_at_most() {
    let mut is_named = false;
    for (nth, level) in ["raid5", "raid6", "raid10"].into_iter().enumerate() {
        for strip in 0..4 {
            let mut bench = Bench::new(20 + 4 * nth as u64 + strip, 1, 4);
            bench.limits.solid = LimitsByClass::default().remote;
            bench.boot(&DRIVES);
            bench.create("data", level, &DRIVES);
            bench.settle("data");
            bench.write("data", 0, 1, 4 * LEN);
            bench.sim.drive("b").unwrap().hold();
            let begun = bench.sim.now();
            bench.write("data", strip * LEN, 2, 4096);
            let waited = bench.sim.now() - begun;
            assert!(waited < Duration::from_secs(3), "{level}, {strip}: {waited:?}");
            is_named |= bench.has_event("(a write takes longer than 2s)");
            bench.sim.drive("b").unwrap().release();
            bench.expect("data", strip * LEN, 2, 4096);
            bench.expect("data", strip * LEN + 4096, 1, LEN - 4096);
        }
    }
    assert!(is_named, "the event names the slow operation");
}

fn is_whole_without_spare(bench: &mut Bench) {
    bench.wait(60);
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 2, LEN);
}

/// A shutdown of the controller does not wait for a drive that a volume needs, nor for a change
/// that waits for it.
#[test]
fn a_controller_stops_though_a_drive_that_nobody_can_spare_is_silent() {
    let mut bench = Bench::new(10, 2, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid0", &["a", "b", "c"]);
    bench.write("data", 0, 1, LEN);
    bench.sim.drive("b").unwrap().hold();
    let write = bench.begin_write("data", 0, 2, LEN);
    let rename = bench.begin_ask(Command::VolumeSet { volume: "data".into(), name: "new".into() });
    bench.wait(10);
    let begun = bench.sim.now();
    bench.shut_down();
    assert!(bench.sim.now() - begun < Duration::from_secs(120));
    assert!(bench.sim.finish(&rename).unwrap().is_err());
    bench.sim.finish(&write).unwrap().unwrap_err();
    bench.sim.drive("b").unwrap().release();
    bench.restart(&[]);
    bench.wait(20);
    let name = if bench.has("new") { "new" } else { "data" };
    assert_eq!(bench.show(name).state, VolumeState::Optimal);
}

/// The limits in effect, and the remaining time of a suspended drive, were not visible to an
/// operator.
#[test]
fn a_drive_tells_its_limits_why_it_is_suspended_and_how_long_it_has_left() {
    let mut bench = Bench::in_order(12, 2, 3);
    bench.limits.solid.write = Duration::from_secs(5);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 1, LEN);
    let limits = bench.drive("b").work.expect("a query for one drive").limits;
    let told: Vec<(&str, u64, LimitSource)> =
        limits.iter().map(|limit| (limit.operation.as_str(), limit.limit_ms, limit.from)).collect();
    let default = LimitSource::Default;
    let expected = [
        ("short-read", 2_000, default),
        ("read", 30_000, default),
        ("write", 5_000, LimitSource::Setting),
        ("flush", 60_000, default),
        ("discard", 60_000, default),
    ];
    assert_eq!(told, expected);
    assert_eq!(bench.drive("b").suspension, None);
    fall_silent(&mut bench, 2);
    let suspended = bench.drive("b").suspension.expect("the drive is suspended");
    assert_eq!(suspended.why, "a write takes longer than 5s");
    let left = suspended.fails_in_s.expect("the drive fails by policy");
    assert!((290..=300).contains(&left), "{left}");
    bench.wait(100);
    let later = bench.drive("b").suspension.expect("the drive is suspended").fails_in_s;
    assert_eq!(later, Some(left - 100));
    // Labels do not record the limit, and the time starts again.
    bench.restart(&[]);
    let again = bench.drive("b").suspension.expect("the drive is suspended");
    assert_eq!(again.why, "it did not respond in time");
    assert!(again.fails_in_s > later, "{again:?}");
    bench.sim.drive("b").unwrap().release();
    is_whole_without_spare(&mut bench);
    assert_eq!(bench.drive("b").suspension, None);
}
