//! Hot spares: which spare takes a slot, which does not and why, and the events about it.

use crate::common::{Bench, DRIVE, MIB, drive_options};
use controller::{
    AddSpare, Command, CoverageInfo, DriveState, ErrorKind, Reply, SetPolicy, SpareInfo, SpareKind,
    TaskInfo, TaskKind, TaskState, VolumeState,
};
use platform::{Hardware, HealthScript, Instant};
use platform_sim::DriveOptions;
use std::time::Duration;
use units::{ByteCount, SectorSize};

fn hardware(enclosure: &str, slot: &str) -> Hardware {
    Hardware { enclosure: Some(enclosure.into()), slot: Some(slot.into()), ..Hardware::default() }
}

/// Members `a`, `b`, `c` of an idle RAID 5.
fn with_volume(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 7, 256 << 10);
    bench.settle("data");
    bench
}

fn add_spare(bench: &mut Bench, drive: &str) -> (SpareInfo, Vec<String>) {
    add(bench, AddSpare { drive: drive.into(), revertible: true, ..AddSpare::default() })
}

fn add(bench: &mut Bench, spare: AddSpare) -> (SpareInfo, Vec<String>) {
    match bench.ask(Command::SpareAdd(spare)) {
        Ok(Reply::Spare { spare, notes }) => (*spare, notes),
        other => panic!("{other:?}"),
    }
}

fn spares(bench: &mut Bench) -> (Vec<SpareInfo>, Vec<CoverageInfo>) {
    match bench.ask(Command::SpareList {}) {
        Ok(Reply::Spares { spares, coverage }) => (spares, coverage),
        other => panic!("{other:?}"),
    }
}

fn tasks(bench: &mut Bench, kind: TaskKind) -> Vec<TaskInfo> {
    match bench.ask(Command::TaskList {}) {
        Ok(Reply::Tasks { tasks }) => tasks.into_iter().filter(|task| task.kind == kind).collect(),
        other => panic!("{other:?}"),
    }
}

/// Writes an ISO 9660 volume descriptor to a drive, which must not be overwritten without
/// confirmation.
fn hold_something(drive: &platform_sim::SimDrive) {
    let mut sector = vec![0; 512];
    sector[..7].copy_from_slice(b"\x01CD001\x01");
    drive.poke(units::ByteOffset(32768), &sector);
}

fn fail(bench: &mut Bench, drive: &str) {
    bench
        .ask(Command::DriveFail {
            drive: drive.into(),
            accept_data_loss: false,
            accepted: None,
            dry_run: false,
        })
        .unwrap();
}

fn policy(bench: &mut Bench, set: SetPolicy) {
    bench.ask(Command::VolumePolicy(SetPolicy { volume: "data".into(), ..set })).unwrap();
}

fn until_optimal(bench: &mut Bench) {
    for _ in 0..100 {
        if bench.show("data").state == VolumeState::Optimal {
            return;
        }
        bench.wait(1);
    }
    panic!("{:?} {:?}", bench.show("data"), bench.events());
}

/// The drive in a slot of `data`.
fn in_slot(bench: &mut Bench, slot: usize) -> (String, DriveState) {
    let drive = bench.show("data").drives[slot].clone();
    (drive.name, drive.state)
}

#[test]
fn a_spare_takes_the_place_of_a_drive_that_failed_and_is_rebuilt() {
    let mut bench = with_volume(1);
    bench.sim.add_drive("s", drive_options());
    let (spare, notes) = add_spare(&mut bench, "s");
    assert_eq!(
        (spare.kind, spare.covers, notes),
        (SpareKind::Global, vec!["data".to_owned()], vec![])
    );
    fail(&mut bench, "b");
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 1).0, "s");
    let rebuilds = tasks(&mut bench, TaskKind::Rebuild);
    assert_eq!(rebuilds.len(), 1, "{rebuilds:?}");
    assert_eq!(rebuilds[0].drive.as_deref(), Some("s"));
    let taken = "drive s takes the slot of drive b; rebuilding onto s (regions: 1)";
    assert!(bench.has_event(taken), "{:?}", bench.events());
    assert!(rebuilds[0].cause.contains("spare s takes the slot of drive b"), "{rebuilds:?}");
    assert!(rebuilds[0].total_blocks > 0);
    bench.expect("data", 0, 7, 256 << 10);
    let (spares, coverage) = spares(&mut bench);
    assert_eq!(spares, vec![], "the drive is no longer a spare");
    assert_eq!(coverage[0].reasons, ["there are no spares"]);
    until_optimal(&mut bench);
    let rebuild = tasks(&mut bench, TaskKind::Rebuild).remove(0);
    assert_eq!((rebuild.state, rebuild.percent), (TaskState::Done, 100));
    assert!(
        bench.has_event("the rebuild of drive s of 'data' is complete"),
        "{:?}",
        bench.events()
    );
    // The same after a restart: the labels have the slots.
    bench.restart(&[]);
    assert_eq!(in_slot(&mut bench, 1), ("s".to_owned(), DriveState::Online));
    fail(&mut bench, "c");
    bench.expect("data", 0, 7, 256 << 10);
}

/// While a rebuild is paused, its drive fails and a spare takes the slot. The task stayed in the
/// list as paused, and after its resume it continued with the spare.
#[test]
fn a_paused_rebuild_ends_when_another_drive_takes_its_slot() {
    let mut bench = with_volume(2);
    bench.sim.add_drive("s", drive_options());
    bench.sim.add_drive("t", drive_options());
    add_spare(&mut bench, "s");
    fail(&mut bench, "b");
    while tasks(&mut bench, TaskKind::Rebuild).is_empty() {
        let soon = bench.sim.now() + std::time::Duration::from_micros(200);
        bench.sim.run_until(soon).unwrap();
    }
    let rebuild = tasks(&mut bench, TaskKind::Rebuild).remove(0);
    bench.ask(Command::TaskPause { task: rebuild.task }).unwrap();
    bench.wait(1);
    assert_eq!(
        tasks(&mut bench, TaskKind::Rebuild)[0].state,
        TaskState::Paused,
        "before the task was done"
    );
    fail(&mut bench, "s");
    bench.write("data", 0, 8, 256 << 10);
    bench.wait(2);
    let state = tasks(&mut bench, TaskKind::Rebuild)[0].state;
    assert_eq!(state, TaskState::Paused, "no drive has its slot: the drive may be brought back");
    add_spare(&mut bench, "t");
    bench.wait(2);
    let all = tasks(&mut bench, TaskKind::Rebuild);
    let states: Vec<_> = all.iter().map(|task| (task.drive.as_deref(), task.state)).collect();
    assert!(states.contains(&(Some("s"), TaskState::Failed)), "{states:?}");
    until_optimal(&mut bench);
    assert_eq!(in_slot(&mut bench, 1), ("t".to_owned(), DriveState::Online));
    bench.expect("data", 0, 8, 256 << 10);
}

#[test]
fn hosts_go_on_writing_while_a_spare_is_rebuilt() {
    let mut bench = with_volume(13);
    bench.sim.add_drive("s", drive_options());
    add_spare(&mut bench, "s");
    bench.sim.drive("b").unwrap().fail_now();
    let mut byte = 0_u8;
    for round in 0..200 {
        byte = byte.wrapping_add(1);
        bench.write("data", (round % 16) * (64 << 10), byte, 64 << 10);
        if bench.show("data").state == VolumeState::Optimal && round > 20 {
            break;
        }
        bench.wait(1);
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    for at in 0..16 {
        bench.write("data", at * (64 << 10), 100 + at as u8, 64 << 10);
    }
    bench.ask(crate::common::fail_drive("a")).unwrap();
    for at in 0..16 {
        bench.expect("data", at * (64 << 10), 100 + at as u8, 64 << 10);
    }
}

#[test]
fn what_a_spare_took_over_goes_back_and_it_is_a_spare_again() {
    let mut bench = Bench::new(14, 2, 2);
    let bay = |slot| DriveOptions { hardware: hardware("shelf", slot), ..drive_options() };
    bench.sim.add_drive("old", bay("3"));
    bench.sim.add_drive("s", bay("9"));
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "old"]);
    bench.write("data", 0, 9, 512 << 10);
    bench.settle("data");
    let dedicated = AddSpare {
        drive: "s".into(),
        volumes: vec!["data".into()],
        revertible: true,
        ..AddSpare::default()
    };
    add(&mut bench, dedicated);
    bench.sim.drive("old").unwrap().fail_now();
    bench.write("data", 0, 9, 64 << 10);
    until_optimal(&mut bench);
    assert_eq!(in_slot(&mut bench, 2).0, "s");
    bench.restart(&[]);
    bench.sim.add_drive("new", bay("3"));
    bench.ask(Command::DriveAdd { drive: "new".into(), size_bytes: None }).unwrap();
    for _ in 0..60 {
        bench.wait(1);
        if in_slot(&mut bench, 2).0 == "new" {
            break;
        }
    }
    assert_eq!(
        in_slot(&mut bench, 2),
        ("new".to_owned(), DriveState::Online),
        "{:?}",
        bench.events()
    );
    bench.wait(1);
    let back = tasks(&mut bench, TaskKind::Copyback).remove(0);
    assert_eq!((back.state, back.drive.as_deref()), (TaskState::Done, Some("new")));
    let (listed, _) = spares(&mut bench);
    assert_eq!(
        (listed[0].drive.as_str(), listed[0].dedicated_to.clone()),
        ("s", vec!["data".to_owned()])
    );
    // The array has no trace of it, whichever host reads the labels.
    bench.restart(&[]);
    bench.settle("data");
    fail(&mut bench, "a");
    bench.expect("data", 0, 9, 512 << 10);
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 0).0, "s", "the spare is active once more");
}

#[test]
fn spares_are_what_they_are_after_a_restart() {
    let mut bench = with_volume(2);
    bench.sim.add_drive("s", drive_options());
    bench.sim.add_drive("t", drive_options());
    add_spare(&mut bench, "s");
    let dedicated =
        AddSpare { drive: "t".into(), volumes: vec!["data".into()], ..AddSpare::default() };
    add(&mut bench, dedicated);
    let before = spares(&mut bench);
    assert_eq!(before.0[1].dedicated_to, ["data"]);
    assert_eq!(before.1[0].covered_by, ["t", "s"], "the dedicated spare would be taken first");
    bench.power_cycle(&[]);
    assert_eq!(spares(&mut bench), before);
    assert_eq!(bench.drive("s").state, DriveState::Spare);
    // Even with an empty state folder.
    bench.sim.remove_stored("drives.toml");
    bench.sim.remove_stored("tasks.json");
    bench.restart(&["a", "b", "c", "s", "t"]);
    assert_eq!(spares(&mut bench), before);
}

#[test]
fn what_does_not_fit_is_not_taken_and_said_why() {
    let mut bench = with_volume(3);
    let other = |change: &dyn Fn(&mut DriveOptions)| {
        let mut options = drive_options();
        change(&mut options);
        options
    };
    // The array uses all the space of its drives.
    bench.sim.add_drive("small", other(&|options| options.size = ByteCount(DRIVE - (64 << 10))));
    bench.sim.add_drive("turning", other(&|options| options.rotational = true));
    bench.sim.add_drive("coarse", other(&|options| options.logical_sector = SectorSize::B4096));
    for drive in ["small", "turning", "coarse"] {
        let (spare, notes) = add_spare(&mut bench, drive);
        assert!(
            spare.covers.is_empty() && notes[0].contains("'softroc spare list' shows why"),
            "{notes:?}"
        );
    }
    let (_, coverage) = spares(&mut bench);
    assert_eq!((coverage[0].covered_by.len(), coverage[0].needs_rotational), (0, Some(false)));
    let reasons = coverage[0].reasons.join("; ");
    for part in [
        "drive small is too small",
        "drive turning is a rotational drive, but an SSD is needed",
        "drive coarse has sectors of 4096 bytes",
    ] {
        assert!(reasons.contains(part), "{reasons}");
    }
    fail(&mut bench, "b");
    bench.wait(100);
    assert_eq!(in_slot(&mut bench, 1), ("b".to_owned(), DriveState::Failed));
    assert!(bench.has_event("no spare can replace drive b of 'data'"), "{:?}", bench.events());
    let told =
        bench.events().iter().filter(|event| event.text.contains("no spare can replace")).count();
    assert_eq!(told, 1, "reported once");
    // A drive allowed by the policy is taken in the end.
    policy(&mut bench, SetPolicy { mixed_kinds: Some(true), ..SetPolicy::default() });
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 1).0, "turning");
}

#[test]
fn a_spare_of_other_arrays_or_elsewhere_is_not_taken() {
    let mut bench = with_volume(4);
    for name in ["x", "y", "s"] {
        bench.sim.add_drive(name, drive_options());
    }
    bench.create("more", "raid1", &["x", "y"]);
    let dedicated =
        AddSpare { drive: "s".into(), volumes: vec!["more".into()], ..AddSpare::default() };
    add(&mut bench, dedicated);
    fail(&mut bench, "a");
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 0).0, "a");
    fail(&mut bench, "x");
    bench.wait(2);
    assert_eq!(bench.show("more").drives[0].name, "s");
    let same_enclosure =
        AddSpare { drive: "z".into(), same_enclosure: true, ..AddSpare::default() };
    bench.sim.add_drive("z", drive_options());
    let why = bench.refused(ErrorKind::Invalid, Command::SpareAdd(same_enclosure));
    assert!(why.contains("the enclosure of drive"), "{why}");
}

#[test]
fn an_unused_drive_is_taken_in_an_emergency_only_where_that_is_wished_and_if_it_holds_nothing() {
    let mut bench = with_volume(5);
    for name in ["full", "empty"] {
        let drive = bench.sim.add_drive(name, drive_options());
        if name == "full" {
            hold_something(&drive);
        }
        bench.ask(Command::DriveAdd { drive: name.into(), size_bytes: None }).unwrap();
    }
    fail(&mut bench, "c");
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 2).0, "c", "off unless configured");
    policy(&mut bench, SetPolicy { emergency_spare: Some(true), ..SetPolicy::default() });
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 2).0, "empty");
    let policies = bench.show("data").policies;
    let emergency = policies.iter().find(|policy| policy.name == "emergency-spare").unwrap();
    assert_eq!((emergency.current.as_str(), emergency.since_unix_s > 1_700_000_000), ("on", true));
}

#[test]
fn a_drive_that_an_operator_took_out_for_a_while_gets_no_spare() {
    let mut bench = with_volume(6);
    bench.sim.add_drive("s", drive_options());
    add_spare(&mut bench, "s");
    bench.ask(crate::common::take_offline("b")).unwrap();
    bench.wait(200);
    assert_eq!(in_slot(&mut bench, 1).0, "b");
    // After `drive fail` of the drive, a spare takes the slot.
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    fail(&mut bench, "b");
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 1).0, "s");
}

#[test]
fn a_drive_that_is_missing_at_a_start_has_a_while_to_turn_up() {
    let mut bench = with_volume(7);
    bench.sim.add_drive("s", drive_options());
    add_spare(&mut bench, "s");
    bench.shut_down();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    bench.wait(50);
    assert_eq!(in_slot(&mut bench, 1).0, "b");
    bench.wait(20);
    assert_eq!(in_slot(&mut bench, 1).0, "s");
}

#[test]
fn a_drive_that_predicts_its_failure_is_copied_to_a_spare_while_it_serves() {
    let mut bench = Bench::new(8, 1, 2);
    let soon = Instant { ns: 400_000_000_000 };
    let failing = HealthScript::failing_from(soon);
    bench.sim.add_drive("w", DriveOptions { health: Some(failing.clone()), ..drive_options() });
    bench.sim.add_drive("s", drive_options());
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "w"]);
    bench.settle("data");
    add_spare(&mut bench, "s");
    bench.wait(100);
    assert_eq!(bench.drive("w").health.and_then(|health| health.predicted_failure), Some(false));
    bench.wait(600);
    assert!(bench.has_event("drive w predicts its failure"), "{:?}", bench.events());
    let copies = tasks(&mut bench, TaskKind::Replace);
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(copies[0].cause, "drive w predicts its failure");
    assert_eq!(copies[0].drive.as_deref(), Some("s"));
    // It took the slot without a loss of redundancy, and the old drive is free.
    assert_eq!((copies[0].state, in_slot(&mut bench, 2).0), (TaskState::Done, "s".to_owned()));
    assert!(
        !bench.events().iter().any(|event| event.text.contains("degraded")),
        "{:?}",
        bench.events()
    );
    assert_eq!(bench.drive("w").state, DriveState::Unused);
    // A spare that predicts its failure is not ready.
    bench.sim.add_drive("v", DriveOptions { health: Some(failing), ..drive_options() });
    add_spare(&mut bench, "v");
    bench.wait(400);
    let (spares, _) = spares(&mut bench);
    let v = spares.iter().find(|spare| spare.drive == "v").unwrap();
    assert_eq!((v.ready, v.reason.as_deref()), (false, Some("drive v predicts its failure")));
}

#[test]
fn the_guard_leaves_alone_what_it_is_told_to() {
    let mut bench = Bench::new(9, 1, 2);
    let failing = HealthScript::failing_from(Instant { ns: 400_000_000_000 });
    bench.sim.add_drive("w", DriveOptions { health: Some(failing), ..drive_options() });
    bench.sim.add_drive("s", drive_options());
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "w"]);
    add_spare(&mut bench, "s");
    policy(&mut bench, SetPolicy { drive_guard: Some(false), ..SetPolicy::default() });
    bench.wait(1000);
    assert!(bench.has_event("stays online; replace it (predictive-failure copy is off)"));
    assert_eq!(tasks(&mut bench, TaskKind::Replace).len(), 0);
    policy(&mut bench, SetPolicy { drive_guard: Some(true), ..SetPolicy::default() });
    bench.wait(2);
    assert_eq!(tasks(&mut bench, TaskKind::Replace).len(), 1);
}

#[test]
fn a_blank_drive_in_the_bay_of_a_failed_one_takes_its_place() {
    let mut bench = Bench::new(10, 1, 2);
    bench
        .sim
        .add_drive("old", DriveOptions { hardware: hardware("shelf", "3"), ..drive_options() });
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "old"]);
    bench.settle("data");
    fail(&mut bench, "old");
    bench.wait(2);
    bench.sim.add_drive(
        "elsewhere",
        DriveOptions { hardware: hardware("shelf", "4"), ..drive_options() },
    );
    bench.ask(Command::DriveAdd { drive: "elsewhere".into(), size_bytes: None }).unwrap();
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 2).0, "old");
    bench
        .sim
        .add_drive("new", DriveOptions { hardware: hardware("shelf", "3"), ..drive_options() });
    bench.ask(Command::DriveAdd { drive: "new".into(), size_bytes: None }).unwrap();
    bench.wait(2);
    assert_eq!(in_slot(&mut bench, 2).0, "new");
    let rebuild = tasks(&mut bench, TaskKind::Rebuild).remove(0);
    assert!(
        rebuild.cause.contains("drive new was inserted in the bay of drive old"),
        "{rebuild:?}"
    );
}

#[test]
fn a_spare_that_fails_is_reported_before_it_is_needed() {
    let mut bench = with_volume(12);
    let drive = bench.sim.add_drive("s", drive_options());
    add_spare(&mut bench, "s");
    drive.vanish();
    bench.wait(400);
    assert!(bench.has_event("spare s has failed"), "{:?}", bench.events());
    let (listed, coverage) = spares(&mut bench);
    assert_eq!((listed[0].ready, coverage[0].covered_by.len()), (false, 0));
    drive.come_back();
    bench.wait(400);
    assert!(bench.has_event("spare s is present again"), "{:?}", bench.events());
    assert!(spares(&mut bench).0[0].ready);
}

#[test]
fn what_cannot_be_a_spare_is_refused() {
    let mut bench = with_volume(11);
    let spare = |drive: &str| AddSpare { drive: drive.into(), ..AddSpare::default() };
    let why = bench.refused(ErrorKind::InUse, Command::SpareAdd(spare("b")));
    assert!(why.contains("drive 1 of 'data'"), "{why}");
    let held = bench.sim.add_drive("held", drive_options());
    hold_something(&held);
    let why = bench.refused(ErrorKind::HoldsData, Command::SpareAdd(spare("held")));
    assert!(why.contains("--destroy-data"), "{why}");
    add(&mut bench, AddSpare { destroy_data: true, ..spare("held") });
    bench.refused(ErrorKind::Unavailable, Command::SpareAdd(spare("nowhere")));
    let both = AddSpare { volumes: vec!["data".into()], same_enclosure: true, ..spare("x") };
    bench.refused(ErrorKind::Invalid, Command::SpareAdd(both));
    let unknown = AddSpare { volumes: vec!["none".into()], ..spare("x") };
    bench.refused(ErrorKind::NotFound, Command::SpareAdd(unknown));
    bench.refused(ErrorKind::WrongState, Command::SpareRemove { drive: "b".into() });
    bench.ask(Command::SpareRemove { drive: "held".into() }).unwrap();
    assert_eq!(bench.drive("held").state, DriveState::Unused);
    bench.refused(ErrorKind::WrongState, Command::SpareRemove { drive: "held".into() });
}

/// The process is killed while a spare is rebuilt and a host writes, so that the start waits for an
/// operator. The spare was shown as online then: its missing blocks are on no drive if another one
/// fails.
#[test]
fn a_drive_that_is_rebuilt_in_part_is_shown_so_before_its_volume_is_started() {
    let mut bench = Bench::in_order(41, 1, 0);
    // A rebuild takes much longer than this test looks.
    bench.add_drives(&["a", "b", "c", "d"], 96 * MIB);
    bench.boot(&["d"]);
    bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.write("data", 0, 5, MIB);
    bench.settle("data");
    add_spare(&mut bench, "d");
    bench.sim.drive("b").expect("the drive exists").fail_now();
    drop(bench.begin_write("data", 0, 6, MIB));
    let is_rebuilding =
        |bench: &mut Bench| bench.show("data").drives[1].state == DriveState::Rebuilding;
    let wait = |bench: &mut Bench, time: Duration| {
        let until = bench.sim.now() + time;
        bench.sim.run_until(until).expect("no stall");
    };
    let mut looks = 0;
    while !is_rebuilding(&mut bench) {
        wait(&mut bench, Duration::from_micros(200));
        looks += 1;
        assert!(looks < 10_000, "no spare takes its slot");
    }
    drop(bench.begin_write("data", 0, 7, MIB));
    wait(&mut bench, Duration::from_millis(2));
    assert!(is_rebuilding(&mut bench));
    bench.restart(&["a", "c", "d"]);
    let shown = bench.show("data");
    assert_eq!(shown.state, controller::VolumeState::Offline, "{:?}", shown.reasons);
    assert_eq!(
        (shown.drives[1].name.as_str(), shown.drives[1].state),
        ("d", DriveState::Rebuilding)
    );
    assert!(shown.drives[1].stale_regions > 0);
    assert_eq!([0, 2].map(|slot| shown.drives[slot].state), [DriveState::Online; 2]);
}

/// The volume was unwritten: nothing was copied, so nothing was recorded, and the replacement
/// waited at 0 % without end.
#[test]
fn a_drive_of_a_volume_that_nobody_has_written_is_replaced() {
    let mut bench = Bench::new(30, 2, 6);
    bench.boot(&[]);
    bench.create("data", "raid6", &["a", "b", "c", "d", "e"]);
    let replace =
        Command::DriveReplace { drive: "b".into(), with: "f".into(), destroy_data: false };
    bench.ask(replace).expect("the replacement begins");
    bench.wait(60);
    assert_eq!(in_slot(&mut bench, 1), ("f".to_owned(), DriveState::Online));
    let copies = tasks(&mut bench, TaskKind::Replace);
    assert!(copies.iter().all(|task| task.state == TaskState::Done), "{copies:?}");
    // The reverse copyback: the active hot spare of a failed drive gives its slot back.
    let (spare, _) = add_spare(&mut bench, "b");
    assert_eq!(spare.kind, SpareKind::Global);
    fail(&mut bench, "c");
    bench.wait(30);
    assert_eq!(in_slot(&mut bench, 2), ("b".to_owned(), DriveState::Online));
    bench.restart(&[]);
    assert_eq!(in_slot(&mut bench, 1), ("f".to_owned(), DriveState::Online));
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}
