//! Drives that do not respond to probes delay only the commands about them.

use crate::common::{Bench, MIB, drive_options};
use controller::{
    AddSpare, Command, CreateVolume, DriveState, ErrorKind, Phase, Reply, VolumeState,
};
use platform_sim::SimDrive;
use std::time::Duration;

const LEN: u64 = 256 << 10;

/// A cleanly stopped mirror on `a` and `b`.
fn stopped_mirror(seed: u64, drives: usize) -> Bench {
    let mut bench = Bench::in_order(seed, 2, drives);
    let names = ["a", "b", "c", "d"];
    bench.boot(&names[..drives]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    bench.ask(Command::Shutdown {}).unwrap();
    bench
}

fn drive(bench: &Bench, name: &str) -> SimDrive {
    bench.sim.drive(name).unwrap()
}

fn seconds_since(bench: &Bench, begun: platform::Instant) -> f64 {
    bench.sim.env().now().since(begun).as_secs_f64()
}

fn info(bench: &mut Bench) -> controller::ControllerInfo {
    match bench.ask(Command::Info {}) {
        Ok(Reply::Info { info }) => *info,
        other => panic!("{other:?}"),
    }
}

fn add(drive: &str) -> Command {
    Command::DriveAdd { drive: drive.into(), size_bytes: None }
}

#[test]
fn an_array_that_is_complete_serves_while_another_drive_is_silent() {
    let mut bench = stopped_mirror(1, 3);
    drive(&bench, "c").hold();
    let begun = bench.sim.env().now();
    bench.restart_until(&[], Phase::Serving);
    bench.expect("data", 0, 1, LEN);
    assert!(seconds_since(&bench, begun) < 1.0, "{}", seconds_since(&bench, begun));
    assert_eq!(info(&mut bench).awaited, ["c"]);
    let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else { panic!("no health") };
    assert!(health.sentence.contains("it waits for 1 drive: c"), "{}", health.sentence);
    // The drive is used as soon as it responds.
    drive(&bench, "c").release();
    bench.wait(1);
    assert_eq!(info(&mut bench).awaited, [""; 0]);
    assert_eq!(bench.drive("c").state, DriveState::Unused);
}

/// A command during the opening of drives waits for a moment.
#[test]
fn a_start_that_takes_long_says_so() {
    let mut bench = stopped_mirror(2, 2);
    bench.restart_until(&[], Phase::Opening);
    let listed = bench.ask(Command::VolumeList {});
    assert!(matches!(listed, Ok(Reply::Volumes { volumes }) if volumes.len() == 1));
    bench.expect("data", 0, 1, LEN);
    bench.ask(Command::Shutdown {}).unwrap();
    // A volume whose drives have not responded is listed, and not as missing.
    for name in ["a", "b"] {
        drive(&bench, name).hold();
    }
    bench.restart_until(&[], Phase::Opening);
    let begun = bench.sim.env().now();
    let volume = bench.show("data");
    assert!(seconds_since(&bench, begun) < 3.0, "{}", seconds_since(&bench, begun));
    let waits =
        "'data' waits for drives that have not responded since the start of the controller: a, b";
    assert_eq!(volume.reasons, [waits]);
    assert!(bench.ask(Command::EventsList { last: None, about: None }).is_ok());
    for name in ["a", "b"] {
        drive(&bench, name).release();
    }
    bench.wait(1);
    bench.expect("data", 0, 1, LEN);
}

/// The half that missed writes is present at once, the other one after `silent_s` seconds.
fn newer_half_is_slow(seed: u64, silent_s: u64) {
    let mut bench = Bench::in_order(seed, 2, 2);
    bench.boot(&["a", "b"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    drive(&bench, "b").vanish();
    bench.write("data", 0, 2, LEN);
    bench.settle("data");
    bench.forget();
    bench.sim.restart_process();
    drive(&bench, "b").come_back();
    drive(&bench, "a").hold();
    bench.restart_until(&[], Phase::Serving);
    for _ in 0..silent_s {
        let volume = bench.show("data");
        assert_eq!(
            volume.state,
            VolumeState::Offline,
            "not started with the older half: {:?}",
            volume.reasons
        );
        bench.wait(1);
    }
    drive(&bench, "a").release();
    // A drive that could not be opened is retried every 30 s.
    for _ in 0..65 {
        if bench.show("data").state == VolumeState::Optimal {
            break;
        }
        bench.wait(1);
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 2, LEN);
    for name in ["a", "b"] {
        bench.ask(crate::common::take_offline(name)).unwrap();
        bench.expect("data", 0, 2, LEN);
        bench.ask(Command::DriveOnline { drive: name.into() }).unwrap();
        bench.settle("data");
    }
}

#[test]
fn the_older_half_of_a_mirror_waits_for_the_newer_one() {
    newer_half_is_slow(3, 5);
}

#[test]
fn the_older_half_of_a_mirror_never_serves_what_the_newer_one_overwrote() {
    newer_half_is_slow(4, 45);
}

/// A drive responded after a start had read all labels, and before the start listed the drives to
/// wait for. The start neither used its label nor waited for it, and its volume stayed offline.
#[test]
fn a_drive_that_answers_while_labels_are_taken_in_is_used() {
    let mut bench = Bench::in_order(11, 2, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    drive(&bench, "c").vanish();
    bench.write("data", 0, 2, LEN);
    bench.settle("data");
    for milliseconds in 440..700 {
        bench.ask(Command::Shutdown {}).unwrap();
        // The start rewrites the list of arrays. Meanwhile the drive responds.
        bench.sim.put_stored("arrays.toml", None);
        bench.sim.put_stored("arrays.toml.previous", None);
        drive(&bench, "b").stall_next(1, Duration::from_millis(milliseconds));
        bench.restart(&[]);
        let volume = bench.show("data");
        assert_eq!(volume.state, VolumeState::Degraded, "{milliseconds} ms: {:?}", volume.reasons);
        bench.expect("data", 0, 2, LEN);
    }
}

/// Device names changed between two starts, and a slow drive had a name that another array's label
/// lists. Its own array did not wait for it.
#[test]
fn an_array_waits_for_its_drive_under_a_name_of_another_array() {
    let mut bench = Bench::in_order(12, 2, 5);
    bench.boot(&["a", "b", "c", "d", "e"]);
    bench.create("first", "raid1", &["a", "b"]);
    bench.create("second", "raid5", &["c", "d", "e"]);
    bench.write("second", 0, 1, LEN);
    bench.settle("second");
    bench.ask(Command::Shutdown {}).unwrap();
    let (a, c) = (drive(&bench, "a"), drive(&bench, "c"));
    bench.sim.alias_drive(&a, "c");
    bench.sim.alias_drive(&c, "a");
    drive(&bench, "d").vanish();
    drive(&bench, "a").stall_next(1, Duration::from_secs(5));
    bench.restart(&[]);
    let volume = bench.show("second");
    assert_eq!(volume.state, VolumeState::Degraded, "{:?}", volume.reasons);
    bench.expect("second", 0, 1, LEN);
}

#[test]
fn commands_about_a_silent_drive_are_refused_in_time_and_hold_up_no_other() {
    let mut bench = Bench::in_order(5, 2, 4);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    drive(&bench, "c").hold();
    drive(&bench, "d").hold();
    let begun = bench.sim.env().now();
    let silent: Vec<_> = [
        add("d"),
        Command::SpareAdd(AddSpare { drive: "c".into(), ..AddSpare::default() }),
        Command::VolumeCreate(CreateVolume {
            name: "more".into(),
            level: "raid1".into(),
            drives: vec!["c".into(), "d".into()],
            ..CreateVolume::default()
        }),
        Command::ForeignList {},
    ]
    .into_iter()
    .map(|command| bench.begin_ask(command))
    .collect();
    // Concurrently, another command is executed at once.
    bench.ask(Command::VolumeSet { volume: "data".into(), name: "other".into() }).unwrap();
    assert!(seconds_since(&bench, begun) < 0.5, "{}", seconds_since(&bench, begun));
    let answers = bench.sim.run(async move {
        let mut answers = Vec::new();
        for answer in silent {
            answers.push(answer.await);
        }
        answers
    });
    let answers = answers.unwrap();
    assert!(seconds_since(&bench, begun) < 3.0, "{}", seconds_since(&bench, begun));
    for answer in &answers[..3] {
        let error = answer.as_ref().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.message.contains("has not responded within 2 s"), "{error}");
    }
    assert!(answers[3].is_ok(), "{answers:?}");
    // The same command finds the drive when it has responded.
    drive(&bench, "d").release();
    bench.wait(1);
    bench.ask(add("d")).unwrap();
}

/// A spare with a probe in progress takes a slot when it responds, and the probe's earlier result
/// is discarded.
#[test]
fn what_a_drive_said_before_it_was_written_is_dropped() {
    let mut bench = Bench::in_order(6, 2, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(Command::SpareAdd(AddSpare { drive: "c".into(), ..AddSpare::default() })).unwrap();
    // One read of the probe is slow: its data is from before, and arrives after.
    drive(&bench, "c").stall_next(1, Duration::from_secs(20));
    let looks = bench.begin_ask(Command::ForeignList {});
    bench.wait(1);
    drive(&bench, "b").vanish();
    bench.write("data", 0, 3, LEN);
    bench.wait(40);
    drop(looks);
    let taken = bench.drive("c");
    assert!(matches!(taken.state, DriveState::Online | DriveState::Rebuilding), "{taken:?}");
    bench.settle("data");
    drive(&bench, "a").vanish();
    bench.expect("data", 0, 3, LEN);
}

/// Any number of probes of a hanging drive cost one operation.
#[test]
fn a_drive_that_hangs_is_asked_once() {
    let mut bench = Bench::new(7, 1, 1);
    bench.sim.add_drive(
        "slow",
        platform_sim::DriveOptions { size: units::ByteCount(64 * MIB), ..drive_options() },
    );
    bench.boot(&["a"]);
    drive(&bench, "slow").hold();
    for _ in 0..20 {
        bench.refused(ErrorKind::Unavailable, add("slow"));
        bench.wait(1);
    }
    assert!(drive(&bench, "slow").in_flight() <= 2, "{}", drive(&bench, "slow").in_flight());
}

/// The drive to be replaced failed while its replacement was being recorded, so that the new drive
/// took the slot at once. `drive replace` returned an error, erased the new drive's label and did
/// not register the drive. Later it returned success before the labels named the new drive, and a
/// kill lost the replacement.
#[test]
fn a_drive_that_replaces_one_that_does_not_answer_is_remembered() {
    let mut bench = Bench::in_order(13, 2, 3);
    bench.add_drives(&["d"], 64 * MIB);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    drive(&bench, "b").hold();
    let replace =
        Command::DriveReplace { drive: "b".into(), with: "d".into(), destroy_data: false };
    let Ok(Reply::Drive { notes, .. }) = bench.ask(replace) else {
        panic!("the drive is replaced")
    };
    assert_eq!(
        notes,
        ["the drive is being rebuilt from the other drives; the volume is usable now"]
    );
    bench.restart(&[]);
    for _ in 0..100 {
        if bench.show("data").state == VolumeState::Optimal {
            break;
        }
        bench.wait(1);
    }
    let shown = bench.show("data");
    assert_eq!(shown.state, VolumeState::Optimal, "{shown:?}");
    assert_eq!(bench.drive("d").state, DriveState::Online);
    drive(&bench, "a").vanish();
    bench.expect("data", 0, 1, LEN);
}
