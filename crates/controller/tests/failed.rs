//! Failed drives stay failed; vanished drives return.

use crate::common::{self, Bench, MIB};
use controller::{AddSpare, Command, DriveState, ErrorKind, Reply, SetPolicy, VolumeState};
use platform::{DriveKind, IoErrorKind};
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset, ByteRange};

const THREE: [&str; 3] = ["a", "b", "c"];

/// A mirror of `a` and `b`, with `c` unused; drive `b` has failed a write.
fn failed(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 2, 3);
    bench.boot(&THREE);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    let all = ByteRange::new(ByteOffset::ZERO, ByteCount(MIB));
    bench.sim.drive("b").unwrap().refuse_writes(all);
    bench.write("data", 0, 7, 64 << 10);
    assert_eq!(bench.drive("b").state, DriveState::Failed);
    bench
}

fn spare(drive: &str) -> Command {
    Command::SpareAdd(AddSpare { drive: drive.into(), destroy_data: true, ..AddSpare::default() })
}

/// A drive failed, a spare took its slot, and after a restart the failed drive counted as unused:
/// it became the emergency spare of the next failure.
#[test]
fn a_drive_that_failed_is_no_spare_until_an_operator_clears_it() {
    let mut bench = failed(1);
    let policy =
        SetPolicy { volume: "data".into(), emergency_spare: Some(true), ..SetPolicy::default() };
    bench.ask(Command::VolumePolicy(policy)).unwrap();
    bench.wait(5);
    bench.settle("data");
    assert_eq!(
        bench.show("data").drives[1].name,
        "c",
        "the drive that never failed takes the slot"
    );
    // The drive works again, and is still listed as failed.
    bench.sim.drive("b").unwrap().clear_write_errors();
    bench.shut_down();
    bench.restart(&[]);
    let drive = bench.drive("b");
    assert_eq!(drive.state, DriveState::Failed);
    assert!(drive.reason.unwrap().contains("softroc drive clear-failed b"));
    bench.ask(crate::common::fail_drive("c")).unwrap();
    bench.wait(120);
    assert_eq!(bench.show("data").state, VolumeState::Degraded, "no drive replaces it");
    let why = bench.refused(ErrorKind::WrongState, spare("b"));
    assert!(why.starts_with("drive b failed at "), "{why}");
    assert!(why.contains(" (write: "), "{why}");
    bench.ask(Command::DriveClearFailed { drive: "b".into() }).unwrap();
    assert!(bench.has_event("the failure of drive b was cleared"));
    bench.wait(60);
    assert_eq!(bench.show("data").drives[1].name, "b", "now it may become a hot spare");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The list of failed drives is local to the host. The label of the array where the drive failed
/// moves to another host with the drives.
#[test]
fn another_machine_learns_of_the_failure_from_the_label() {
    let mut bench = failed(2);
    bench
        .ask(Command::DriveReplace { drive: "b".into(), with: "c".into(), destroy_data: true })
        .unwrap();
    bench.settle("data");
    bench.sim.drive("b").unwrap().clear_write_errors();
    bench.shut_down();
    bench.forget();
    let images: Vec<_> =
        THREE.iter().map(|name| bench.sim.drive(name).unwrap().snapshot()).collect();
    let mut there = Bench::new(3, 1, 0);
    for (name, image) in THREE.iter().zip(&images) {
        there.sim.add_drive_with(name, common::drive_options(), image);
    }
    there.boot(&THREE);
    assert_eq!(there.show("data").state, VolumeState::Optimal);
    assert_eq!(there.drive("b").state, DriveState::Failed);
    there.ask(Command::DriveClearFailed { drive: "b".into() }).unwrap();
    assert_eq!(there.drive("b").state, DriveState::Unused);
    there.shut_down();
    there.restart(&[]);
    assert_eq!(there.drive("b").state, DriveState::Unused, "cleared permanently");
}

/// An operator who brings a failed drive online trusts it.
#[test]
fn a_failed_drive_that_is_brought_online_is_trusted() {
    let mut bench = failed(4);
    bench.sim.drive("b").unwrap().clear_write_errors();
    bench.wait(60);
    assert_eq!(bench.drive("b").state, DriveState::Failed, "it does not return automatically");
    let why = bench.refused(ErrorKind::WrongState, Command::DriveClearFailed { drive: "b".into() });
    assert!(why.contains("still has slot 1 of 'data'; run 'softroc drive online b'"), "{why}");
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    bench.wait(60);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.refused(ErrorKind::WrongState, Command::DriveClearFailed { drive: "b".into() });
}

/// A cable was unplugged and plugged in again. The drive stayed out until an operator ran a
/// command.
#[test]
fn a_drive_that_vanished_and_is_there_again_is_resynced_within_seconds() {
    let mut bench = Bench::new(5, 2, 3);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.sim.drive("b").unwrap().vanish();
    bench.write("data", 0, 7, 256 << 10);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    bench.wait(10);
    assert_eq!(bench.show("data").state, VolumeState::Degraded, "not there yet");
    bench.sim.drive("b").unwrap().come_back();
    bench.wait(10);
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 7, 256 << 10);
    bench.sim.drive("a").unwrap().vanish();
    bench.expect("data", 0, 7, 256 << 10);
}

/// A drive with a loose contact: each return costs a rebuild, so after several returns the operator
/// must act.
#[test]
fn a_drive_that_comes_and_goes_is_left_to_the_operator_in_the_end() {
    let mut bench = Bench::new(6, 1, 3);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    for round in 0..4 {
        bench.sim.drive("b").unwrap().vanish();
        bench.write("data", 0, round, 64 << 10);
        bench.sim.drive("b").unwrap().come_back();
        bench.wait(30);
    }
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    assert!(
        bench.has_event("stays out of service until an operator runs 'softroc drive online b'")
    );
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    bench.wait(60);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The file below a drive was deleted. The drive went on taking writes, and all of them were lost
/// with the next restart.
#[test]
fn a_drive_whose_file_is_not_what_it_was_goes_out_with_that_reason() {
    let mut bench = Bench::new(8, 1, 3);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.sim.drive("b").unwrap().fail_next(u64::MAX, Some("health"), IoErrorKind::Changed);
    bench.wait(60);
    let drive = bench.drive("b");
    assert_eq!(drive.state, DriveState::Failed);
    assert!(drive.reason.unwrap().contains("truncated, deleted or replaced"));
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
}

/// `drive add` of a removed member asked for another command.
#[test]
fn adding_a_member_that_is_out_brings_it_back() {
    let mut bench = Bench::new(7, 1, 3);
    bench.boot(&THREE);
    bench.create("data", "raid5", &THREE);
    bench.settle("data");
    bench.ask(crate::common::take_offline("b")).unwrap();
    bench.write("data", 0, 7, 64 << 10);
    bench.ask(Command::DriveAdd { drive: "b".into(), size_bytes: None }).unwrap();
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// The health entry of a drive.
fn health_of(bench: &mut Bench, drive: &str) -> Option<String> {
    let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else {
        panic!("a health reply")
    };
    let subject = format!("drive {drive}");
    health
        .findings
        .into_iter()
        .find(|finding| finding.subject == subject)
        .map(|finding| finding.what)
}

/// No command selects or accepts a failed drive.
fn is_taken_for_nothing(bench: &mut Bench, drive: &str) {
    let uuid = bench.show("data").uuid;
    let with = || drive.to_owned();
    for order in [
        spare(drive),
        common::create("other", "jbod", &[drive]),
        Command::DriveReplace { drive: "data:0".into(), with: with(), destroy_data: true },
    ] {
        let why = bench.refused(ErrorKind::WrongState, order);
        assert!(why.contains(&format!("softroc drive clear-failed {drive}")), "{why}");
    }
    assert_eq!(bench.show("data").uuid, uuid);
}

/// A drive failed by an operator counted as unused as soon as a spare had its slot: the console
/// offered it as the next replacement.
#[test]
fn a_drive_that_an_operator_failed_stays_failed_when_a_spare_has_its_slot() {
    let mut bench = Bench::new(9, 2, 3);
    bench.boot(&THREE);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(spare("c")).unwrap();
    let before = bench.sim.env().unix_time();
    bench.ask(common::fail_drive("b")).unwrap();
    bench.wait(10);
    bench.settle("data");
    assert_eq!(bench.show("data").drives[1].name, "c", "the spare has its slot");
    for restart in 0..3 {
        let drive = bench.drive("b");
        assert_eq!(drive.state, DriveState::Failed, "restart {restart}");
        let failure = drive.failure.expect("the failure is listed");
        assert!(failure.at_unix_s >= before && failure.at_unix_s <= before + 10, "{failure:?}");
        assert_eq!(failure.why, "declared failed by an operator");
        let reason = drive.reason.expect("the drive has a reason");
        assert!(
            reason.contains(&failure.why) && reason.contains("drive clear-failed b"),
            "{reason}"
        );
        assert!(
            health_of(&mut bench, "b")
                .is_some_and(|what| what.contains("declared failed by an operator"))
        );
        is_taken_for_nothing(&mut bench, "b");
        match restart {
            0 => bench.restart(&[]),
            1 => bench.power_cycle(&[]),
            _ => {}
        }
        bench.settle("data");
    }
    bench.ask(Command::DriveClearFailed { drive: "b".into() }).unwrap();
    assert_eq!((bench.drive("b").state, health_of(&mut bench, "b")), (DriveState::Unused, None));
    bench.ask(spare("b")).unwrap();
}

/// The drive is listed as failed, not as missing, while it does not respond; it is not listed after
/// an operator removed it.
#[test]
fn a_drive_that_failed_and_does_not_answer_is_failed_until_it_is_removed() {
    let mut bench = Bench::new(10, 2, 3);
    bench.boot(&THREE);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(spare("c")).unwrap();
    bench.ask(common::fail_drive("b")).unwrap();
    bench.wait(10);
    bench.settle("data");
    bench.shut_down();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    let drive = bench.drive("b");
    assert_eq!((drive.state, drive.size_bytes), (DriveState::Failed, None));
    assert!(health_of(&mut bench, "b").is_some());
    bench.ask(Command::DriveForget { drive: "b".into() }).unwrap();
    assert_eq!(health_of(&mut bench, "b"), None);
    // Pulled does not mean repaired.
    bench.sim.drive("b").unwrap().come_back();
    bench.ask(Command::DriveAdd { drive: "b".into(), size_bytes: None }).unwrap();
    assert_eq!(bench.drive("b").state, DriveState::Failed);
}

/// A replacement with a failed write counted as unused again, and became the next emergency spare.
#[test]
fn a_replacement_that_cannot_be_written_has_failed() {
    let mut bench = Bench::new(11, 2, 3);
    bench.boot(&THREE);
    bench.create("data", "raid1", &["a", "b"]);
    bench.write("data", 0, 7, MIB);
    bench.settle("data");
    bench.sim.drive("c").unwrap().stall_next(400, std::time::Duration::from_millis(100));
    bench
        .ask(Command::DriveReplace { drive: "b".into(), with: "c".into(), destroy_data: true })
        .unwrap();
    assert_eq!(bench.drive("c").state, DriveState::Filling);
    let all = ByteRange::new(ByteOffset::ZERO, ByteCount(MIB));
    bench.sim.drive("c").unwrap().refuse_writes(all);
    bench.write("data", 0, 8, 64 << 10);
    bench.wait(60);
    for restart in 0..2 {
        assert_eq!(bench.show("data").drives[1].name, "b", "the old drive stays online");
        let drive = bench.drive("c");
        assert_eq!(drive.state, DriveState::Failed, "restart {restart}");
        assert!(drive.failure.unwrap().why.contains("it cannot be written"), "{:?}", drive.reason);
        bench.sim.drive("c").unwrap().clear_write_errors();
        is_taken_for_nothing(&mut bench, "c");
        if restart == 0 {
            bench.restart(&[]);
        }
    }
}

/// A device without a serial number is known by its label, which it no longer has: it counted as
/// unused after a spare had its slot.
#[test]
fn a_drive_that_nothing_tells_from_others_stays_failed_under_its_name() {
    let mut bench = Bench::new(12, 2, 2);
    bench.sim.add_drive(
        "/dev/b",
        DriveOptions { kind: DriveKind::BlockDevice, ..common::drive_options() },
    );
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "/dev/b"]);
    bench.settle("data");
    bench.ask(spare("b")).unwrap();
    bench.ask(common::fail_drive("/dev/b")).unwrap();
    bench.wait(10);
    bench.settle("data");
    for restart in 0..2 {
        assert_eq!(bench.drive("/dev/b").state, DriveState::Failed, "restart {restart}");
        is_taken_for_nothing(&mut bench, "/dev/b");
        if restart == 0 {
            bench.restart(&[]);
        }
    }
    bench.ask(Command::DriveClearFailed { drive: "/dev/b".into() }).unwrap();
    assert_eq!(bench.drive("/dev/b").state, DriveState::Unused);
}

/// A command that names a failed drive for its former slot trusts it: the drive is rebuilt there.
#[test]
fn a_failed_drive_that_replaces_itself_by_order_is_trusted() {
    let mut bench = failed(13);
    bench.sim.drive("b").unwrap().clear_write_errors();
    bench
        .ask(Command::DriveReplace { drive: "b".into(), with: "b".into(), destroy_data: true })
        .unwrap();
    bench.wait(10);
    bench.settle("data");
    let drive = bench.drive("b");
    assert_eq!((drive.state, drive.failure), (DriveState::Online, None));
    bench.restart(&[]);
    bench.settle("data");
    bench.refused(ErrorKind::WrongState, Command::DriveClearFailed { drive: "b".into() });
}
