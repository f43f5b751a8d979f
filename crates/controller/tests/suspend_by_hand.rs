//! Drives suspended by an operator: out of service until an operator resumes them, and refused for
//! drives with the only copy of data.

use crate::common::events::{End, at_every_event};
use crate::common::{Bench, DRIVE, MIB, drive_options, take_offline};
use controller::{
    AddSpare, Caller, Command, DriveCost, DriveState, ErrorKind, Origin, Reply, SuspendedBy,
    VolumeState,
};
use platform_sim::DriveOptions;
use std::time::Duration;
use units::ByteCount;

const LEN: u64 = 256 << 10;

fn suspend(drive: &str) -> Command {
    Command::DriveSuspend { drive: drive.into(), accepted: None, dry_run: false }
}

fn resume(drive: &str) -> Command {
    Command::DriveResume { drive: drive.into() }
}

/// A volume on the first named drives; `d` is a hot spare.
fn served(seed: u64, level: &str, drives: &[&str]) -> Bench {
    let mut bench = Bench::in_order(seed, 2, 4);
    bench.boot(&["a", "b", "c", "d"]);
    bench.create("data", level, drives);
    bench.write("data", 0, 1, LEN);
    bench.settle("data");
    bench
}

fn with_spare(bench: &mut Bench) {
    let spare = AddSpare { drive: "d".into(), destroy_data: true, ..AddSpare::default() };
    bench.ask(Command::SpareAdd(spare)).unwrap();
}

fn settle(bench: &mut Bench) {
    for _ in 0..60 {
        if bench.show("data").state == VolumeState::Optimal {
            break;
        }
        bench.wait(1);
    }
    bench.settle("data");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

/// With any one drive missing, hosts read their written data.
fn is_whole(bench: &mut Bench, byte: u8) {
    settle(bench);
    for drive in ["a", "c", "b"] {
        bench.ask(take_offline(drive)).unwrap();
        bench.expect("data", 0, byte, LEN);
        bench.ask(Command::DriveOnline { drive: drive.into() }).unwrap();
        settle(bench);
    }
}

/// The drive stays suspended though it responds, longer than the policy's limit, and over restarts;
/// no spare takes its slot.
#[test]
fn a_drive_that_an_operator_suspended_comes_back_when_an_operator_resumes_it() {
    let mut bench = served(1, "raid5", &["a", "b", "c"]);
    with_spare(&mut bench);
    bench.ask(suspend("b")).unwrap();
    assert!(bench.has_event("drive b was suspended by an operator: 'data' is degraded"));
    for restart in 0..3 {
        let drive = bench.drive("b");
        assert_eq!(drive.state, DriveState::Suspended, "restart {restart}");
        let suspension = drive.suspension.expect("the drive has a reason");
        assert_eq!((suspension.by, suspension.fails_in_s), (SuspendedBy::Operator, None));
        bench.write("data", 0, 2 + restart, LEN);
        bench.wait(400);
        assert_eq!(
            bench.drive("b").state,
            DriveState::Suspended,
            "after a time, restart {restart}"
        );
        assert_eq!(bench.drive("d").state, DriveState::Spare, "no spare takes its slot");
        match restart {
            0 => bench.restart(&[]),
            1 => bench.power_cycle(&[]),
            _ => {}
        }
        bench.settle("data");
    }
    for command in [
        Command::DriveOnline { drive: "b".into() },
        Command::DriveAdd { drive: "b".into(), size_bytes: None },
    ] {
        let why = bench.refused(ErrorKind::WrongState, command);
        assert!(why.contains("run 'softroc drive resume b'"), "{why}");
    }
    bench.ask(resume("b")).unwrap();
    assert!(bench.has_event("drive b is back"));
    is_whole(&mut bench, 4);
    assert_eq!(bench.drive("d").state, DriveState::Spare);
    let why = bench.refused(ErrorKind::WrongState, resume("b"));
    assert!(why.contains("is not suspended"), "{why}");
}

/// Within ten seconds of a start, a resume was refused for a drive suspended after that start: "it
/// may still carry out writes from before".
#[test]
fn a_drive_that_was_suspended_since_the_start_is_resumed_at_once() {
    let mut bench = served(8, "raid5", &["a", "b", "c"]);
    bench.shut_down();
    bench.restart(&[]);
    bench.ask(suspend("b")).unwrap();
    bench.write("data", 0, 2, LEN);
    bench.ask(resume("b")).unwrap();
    settle(&mut bench);
    // A drive suspended before the start must return its writes first.
    bench.ask(suspend("b")).unwrap();
    bench.restart(&[]);
    let why = bench.refused(ErrorKind::WrongState, resume("b"));
    assert!(why.contains("from before the controller was started"), "{why}");
    bench.wait(11);
    bench.ask(resume("b")).unwrap();
    is_whole(&mut bench, 2);
}

/// The only copy of data is never suspended, whatever is accepted: not at a level without
/// redundancy left, nor during a rebuild or a resync.
#[test]
fn a_drive_that_holds_the_last_copy_of_anything_is_not_suspended() {
    let is_refused = |bench: &mut Bench, kind| {
        let volume = bench.show("data").uuid;
        let accepts_all = vec![DriveCost { volume, lost_places: u32::MAX, last_redundancy: true }];
        for (accepted, dry_run) in [(None, false), (None, true), (Some(accepts_all), false)] {
            let command = Command::DriveSuspend { drive: "b".into(), accepted, dry_run };
            let why = bench.refused(kind, command);
            assert!(
                why.contains("only copy of data") && why.contains("softroc task list"),
                "{why}"
            );
        }
        assert_eq!(bench.drive("b").state, DriveState::Online);
    };
    let mut bench = served(2, "raid0", &["a", "b", "c"]);
    is_refused(&mut bench, ErrorKind::WrongState);
    let mut bench = served(3, "raid5", &["a", "b", "c"]);
    bench.ask(take_offline("a")).unwrap();
    is_refused(&mut bench, ErrorKind::WrongState);
    // Drive a is back, and lacks writes.
    bench.write("data", 0, 2, LEN);
    bench.sim.drive("a").unwrap().stall_next(200, Duration::from_millis(200));
    bench.ask(Command::DriveOnline { drive: "a".into() }).unwrap();
    assert!(bench.drive("a").stale_regions > 0);
    is_refused(&mut bench, ErrorKind::WrongState);
    settle(&mut bench);
    bench.ask(suspend("b")).unwrap();
    bench.expect("data", 0, 2, LEN);
    // After a crash parity may be stale.
    let mut bench = Bench::in_order(9, 2, 3);
    bench.boot(&[]);
    bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 1, LEN);
    bench.restart(&[]);
    is_refused(&mut bench, ErrorKind::LosesData);
}

/// The cost is reported first, and the confirmation covers only that cost.
#[test]
fn what_a_suspension_costs_is_said_and_accepted_first() {
    let mut bench = served(4, "raid5", &["a", "b", "c"]);
    let dry = Command::DriveSuspend { drive: "b".into(), accepted: None, dry_run: true };
    let Ok(Reply::Drive { drive, notes, costs }) = bench.ask(dry) else {
        panic!("the cost is reported")
    };
    assert_eq!(drive.state, DriveState::Online);
    assert!(notes[0].contains("has no redundancy left without drive b"), "{notes:?}");
    assert!(costs[0].last_redundancy && costs[0].lost_places == 0);
    let accepts = |accepted| Command::DriveSuspend {
        drive: "b".into(),
        accepted: Some(accepted),
        dry_run: false,
    };
    let why = bench.refused(ErrorKind::WrongState, accepts(Vec::new()));
    assert!(why.contains("run 'softroc drive suspend b' again"), "{why}");
    let caller = Caller { user: "ann".into(), origin: Origin::Local { uid: 7, pid: None } };
    bench.ask_as(&caller, accepts(costs)).unwrap();
    let events = bench.events();
    let event = events
        .iter()
        .find(|event| event.text.contains("suspended by an operator"))
        .expect("an event");
    assert_eq!(event.code, "drive.suspended-by-operator");
    assert!(format!("{event:?}").contains("ann"), "the account is recorded: {event:?}");
}

/// An operator who works on a server prevents its drive from failing by policy, or from returning
/// repeatedly.
#[test]
fn a_drive_that_a_time_limit_suspended_is_kept_out_or_resumed_by_an_operator() {
    let mut bench = served(5, "raid5", &["a", "b", "c"]);
    with_spare(&mut bench);
    bench.sim.drive("b").unwrap().hold();
    bench.write("data", 0, 2, LEN);
    assert_eq!(bench.drive("b").suspension.map(|of| of.by), Some(SuspendedBy::TimeLimit));
    let why = bench.refused(ErrorKind::WrongState, resume("b"));
    assert!(why.contains("outstanding operations"), "{why}");
    bench.ask(suspend("b")).unwrap();
    assert_eq!(bench.drive("b").suspension.map(|of| of.by), Some(SuspendedBy::Operator));
    bench.wait(400);
    assert_eq!(bench.drive("b").state, DriveState::Suspended, "the drive does not fail by policy");
    bench.sim.drive("b").unwrap().release();
    bench.wait(60);
    assert_eq!(
        bench.drive("b").state,
        DriveState::Suspended,
        "the drive does not return automatically"
    );
    bench.ask(resume("b")).unwrap();
    is_whole(&mut bench, 2);
}

/// After a crash a late write of the old process may still reach a drive of another host: an
/// operator's resume waits as well.
#[test]
fn no_suspended_drive_is_resumed_right_after_a_start() {
    let mut bench = served(6, "raid5", &["a", "b", "c"]);
    bench.ask(suspend("b")).unwrap();
    bench.write("data", 0, 2, LEN);
    bench.restart(&[]);
    let why = bench.refused(ErrorKind::WrongState, resume("b"));
    assert!(why.contains("from before the controller was started; try again in"), "{why}");
    bench.wait(10);
    bench.ask(resume("b")).unwrap();
    is_whole(&mut bench, 2);
}

#[test]
fn what_cannot_be_suspended_or_resumed_is_refused_with_what_to_do() {
    let mut bench = served(7, "raid6", &["a", "b", "c", "d"]);
    bench.sim.add_drive("e", DriveOptions { size: ByteCount(DRIVE), ..drive_options() });
    bench.ask(Command::DriveAdd { drive: "e".into(), size_bytes: None }).unwrap();
    let why = bench.refused(ErrorKind::WrongState, suspend("e"));
    assert!(why.contains("belongs to no volume"), "{why}");
    let why = bench.refused(ErrorKind::WrongState, resume("e"));
    assert!(why.contains("not a suspended drive"), "{why}");
    bench.ask(take_offline("b")).unwrap();
    let why = bench.refused(ErrorKind::WrongState, resume("b"));
    assert!(why.contains("softroc drive online b"), "{why}");
    let why = bench.refused(ErrorKind::WrongState, suspend("b"));
    assert!(why.contains("is out of service already"), "{why}");
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    settle(&mut bench);
    // The drive in the rebuild would take the slot of a drive that leaves.
    bench.sim.drive("e").unwrap().stall_next(200, Duration::from_millis(100));
    let replace = Command::DriveReplace { drive: "b".into(), with: "e".into(), destroy_data: true };
    bench.ask(replace).unwrap();
    let why = bench.refused(ErrorKind::WrongState, suspend("b"));
    assert!(why.contains("is being replaced by drive e"), "{why}");
}

/// A kill or power cut at any event of a suspension with concurrent host writes: afterwards the
/// drive is suspended or in service, and no flushed data is lost with any other drive.
#[test]
fn a_suspension_that_is_interrupted_loses_nothing() {
    for how in [End::Killed, End::PowerCut] {
        let prepare = || {
            let mut bench = Bench::in_order(8, 1, 0);
            bench.add_drives(&["a", "b", "c"], 33 * MIB + (256 << 10));
            bench.boot(&[]);
            bench.create("data", "raid5", &["a", "b", "c"]);
            bench.write("data", 0, 1, LEN);
            bench.settle("data");
            bench
        };
        let scene = |bench: &mut Bench| {
            let suspended = bench.begin_ask(suspend("b"));
            let written = bench.begin_write("data", 0, 2, LEN);
            bench.sim.finish(&written).ok()?.ok()?;
            let suspended = bench.sim.finish(&suspended).ok()?;
            suspended.expect("the resume is accepted");
            let volume = bench.shards[0].volume_named("data")?;
            bench.sim.run(async move { volume.flush().await }).ok()?.ok()?;
            Some(())
        };
        at_every_event(1, how, prepare, scene, |bench, flushed, event| {
            bench.boot(&[]);
            let why = format!("{how:?} at event {event}");
            if bench.drive("b").state == DriveState::Suspended {
                bench.wait(10);
                bench.ask(resume("b")).expect(&why);
            }
            settle(bench);
            for lost in ["a", "b", "c"] {
                bench.ask(fail_or_back(lost, true)).expect(&why);
                let bytes = bench.try_read("data", 0, LEN).expect(&why);
                let may = |byte: &u8| *byte == 2 || flushed.is_none() && *byte == 1;
                assert!(bytes.iter().all(may), "{why}, without {lost}");
                bench.ask(fail_or_back(lost, false)).expect(&why);
                settle(bench);
            }
        });
    }
}

fn fail_or_back(drive: &str, is_out: bool) -> Command {
    if is_out { take_offline(drive) } else { Command::DriveOnline { drive: drive.into() } }
}
