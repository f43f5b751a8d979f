//! A host boots with a drive missing: which volumes start automatically, which wait for the
//! operator, and the events about it.

use crate::common::{self, Bench, MIB};
use controller::{Command, SetPolicy, StartDegraded, VolumeState};

const TWO: [&str; 2] = ["a", "b"];

/// A created and written volume, resynced and flushed.
fn settled(seed: u64, level: &str, drives: &[&str]) -> Bench {
    let mut bench = Bench::new(seed, 2, drives.len());
    bench.boot(&[]);
    bench.create("data", level, drives);
    bench.settle("data");
    bench.write("data", 0, 7, 64 << 10);
    bench.settle("data");
    bench
}

fn start_degraded(bench: &mut Bench, how: StartDegraded) {
    let set =
        SetPolicy { volume: "data".into(), start_degraded: Some(how), ..SetPolicy::default() };
    bench.ask(Command::VolumePolicy(set)).unwrap();
}

/// After a clean shutdown one drive of a mirror was pulled, and the host booted without the volume:
/// the controller asked whether the missing drive had been used alone since, as it would after a
/// crash.
#[test]
fn a_mirror_that_was_cleanly_shut_down_starts_without_a_missing_drive() {
    for level in ["raid1", "raid10"] {
        let drives = ["a", "b", "c", "d"];
        let drives = if level == "raid1" { &drives[..2] } else { &drives[..] };
        let mut bench = settled(1, level, drives);
        bench.shut_down();
        bench.sim.drive("b").unwrap().vanish();
        bench.restart(&[]);
        let info = bench.show("data");
        assert_eq!(info.state, VolumeState::Degraded, "{level}: {:?}", info.reasons);
        bench.expect("data", 0, 7, 64 << 10);
        assert!(bench.has_event("it was cleanly shut down"), "{level}");
    }
}

/// Only one half of a mirror was present at the power cut: the other half may have newer writes.
#[test]
fn after_a_power_cut_the_half_of_a_mirror_asks() {
    let mut bench = settled(2, "raid1", &TWO);
    bench.write("data", 0, 8, 64 << 10);
    bench.sim.drive("b").unwrap().vanish();
    bench.power_cycle(&[]);
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Offline, "{:?}", info.reasons);
    let why = info.reasons.join("; ");
    assert!(
        why.contains("it was not cleanly shut down, and b could have served it alone since then"),
        "{why}"
    );
    assert!(why.contains("The present drives (a) have recorded"), "{why}");
    assert!(why.contains("softroc volume start data --degraded"), "{why}");
}

#[test]
fn an_array_whose_policy_is_to_ask_asks_after_a_clean_shutdown_too() {
    let mut bench = settled(3, "raid1", &TWO);
    start_degraded(&mut bench, StartDegraded::Ask);
    let policies = bench.show("data").policies;
    assert!(
        policies.iter().any(|policy| policy.name == "start-degraded" && policy.configured == "ask")
    );
    bench.shut_down();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Offline, "{:?}", info.reasons);
    assert!(
        info.reasons.join("; ").contains("its policy start-degraded is 'ask'"),
        "{:?}",
        info.reasons
    );
    bench.start_degraded("data");
    bench.expect("data", 0, 7, 64 << 10);
}

/// A volume that was shut down during the resync after a power cut.
fn shut_down_in_a_resync(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 2, 0);
    // Large enough for the resync of its one region to take a while.
    bench.add_drives(&["a", "b", "c"], 80 * MIB);
    bench.boot(&[]);
    bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 7, 64 << 10);
    bench.power_cycle(&[]);
    let notes = bench.shut_down();
    assert!(notes.iter().any(|note| note.contains("to resync at its next start")), "{notes:?}");
    bench
}

/// A shutdown during a resync was reported as a crash at the next start.
#[test]
fn a_shutdown_during_a_resync_is_a_clean_shutdown() {
    let mut bench = shut_down_in_a_resync(4);
    bench.restart(&[]);
    assert!(bench.has_event("it was cleanly shut down before its resync was complete"));
    // Once, for the earlier power cut.
    assert_eq!(bench.count_events("not cleanly shut down"), 1);
    bench.expect("data", 0, 7, 64 << 10);
}

/// The same with a drive missing: parity is stale where the resync had not passed, and the operator
/// is told so.
#[test]
fn a_drive_that_is_missing_after_a_shutdown_during_a_resync_is_asked_about_for_that_reason() {
    let mut bench = shut_down_in_a_resync(5);
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    let info = bench.show("data");
    assert_eq!(info.state, VolumeState::Offline, "{:?}", info.reasons);
    let why = info.reasons.join("; ");
    assert!(why.contains("was not complete when it was shut down"), "{why}");
    assert!(!why.contains("not cleanly"), "{why}");
}

/// The halves of a mirror were started alone, one after the other, and each was written. When both
/// are present, neither counts as an older state of the other.
#[test]
fn halves_that_were_each_started_alone_are_found_to_be_apart() {
    let mut bench = settled(6, "raid1", &TWO);
    bench.shut_down();
    let start = bench.sim.drive("b").unwrap().snapshot();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    bench.write("data", 0, 11, 4096);
    bench.settle("data");
    bench.shut_down();
    bench.forget();
    let [one, other] = [bench.sim.drive("a").unwrap().snapshot(), start];
    let mut there = Bench::new(7, 2, 0);
    there.sim.add_drive_with("b", common::drive_options(), &other);
    there.boot(&["b"]);
    assert_eq!(there.show("data").state, VolumeState::Degraded);
    there.write("data", 0, 12, 4096);
    there.settle("data");
    there.shut_down();
    there.forget();
    let other = there.sim.drive("b").unwrap().snapshot();
    let mut both = Bench::new(8, 2, 0);
    both.sim.add_drive_with("a", common::drive_options(), &one);
    both.sim.add_drive_with("b", common::drive_options(), &other);
    both.boot(&["a", "b"]);
    let info = both.show("data");
    assert_ne!(info.state, VolumeState::Optimal, "{:?}", info.reasons);
    let told =
        format!("{:?} {:?} {:?}", info.reasons, both.drive("a").reason, both.drive("b").reason);
    assert!(told.contains("used") && told.contains("without"), "{told}");
}
