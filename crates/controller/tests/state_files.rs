//! Damaged files of the state folder, and a full state folder: no state is lost that another copy
//! or a label has, nothing is overwritten, and changes that cannot be stored are refused.

use crate::common::events::{End, end};
use crate::common::{self, Bench, DRIVE, MIB};
use controller::{
    AddSpare, AlarmSetting, Command, DriveState, ErrorKind, Event, Reply, ScheduleInfo, Scheduled,
    SetSchedule, StartTask, Startable, TaskInfo, TaskState, VolumeState, WellBeing,
};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange};

const MEMBERS: [&str; 3] = ["a", "b", "c"];

/// The damaged files.
const FILES: [&str; 8] = [
    "alarm.toml",
    "arrays.toml",
    "deleted-arrays.toml",
    "drives.toml",
    "failed-drives.toml",
    "log.toml",
    "numbers.toml",
    "tasks.json",
];

/// The contents of a damaged file.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Damage {
    Empty,
    CutOff,
    Garbage,
    Changed,
    FromTheFuture,
    Unreadable,
    Folder,
    Missing,
}

const DAMAGES: [Damage; 8] = [
    Damage::Empty,
    Damage::CutOff,
    Damage::Garbage,
    Damage::Changed,
    Damage::FromTheFuture,
    Damage::Unreadable,
    Damage::Folder,
    Damage::Missing,
];

impl Damage {
    /// Damages a file. Returns its content, if readable.
    fn deal(self, bench: &mut Bench, file: &str) -> Option<Vec<u8>> {
        let mut content = bench.sim.stored(file).unwrap_or_else(|| panic!("{file} is stored"));
        match self {
            Damage::Empty => content.clear(),
            Damage::CutOff => content.truncate(content.len() - 1),
            Damage::Garbage => content = vec![0xA5; 500],
            Damage::Changed => *content.last_mut().expect("a byte") ^= 0x40,
            Damage::FromTheFuture => {
                let text = String::from_utf8(content).expect("text");
                content = text.replacen("format 1,", "format 2,", 1).into_bytes();
            }
            Damage::Unreadable => {
                bench.sim.make_stored_unreadable(file, "permission denied");
                return None;
            }
            Damage::Folder => {
                bench.sim.make_stored_unreadable(file, "is a directory");
                return None;
            }
            Damage::Missing => {
                bench.sim.put_stored(file, None);
                return None;
            }
        }
        bench.sim.put_stored(file, Some(content.clone()));
        Some(content)
    }
}

fn all_stored(bench: &Bench) -> BTreeMap<String, Vec<u8>> {
    let names = bench.sim.stored_names();
    names.into_iter().filter_map(|name| Some((name.clone(), bench.sim.stored(&name)?))).collect()
}

fn put_back(bench: &mut Bench, files: &BTreeMap<String, Vec<u8>>) {
    for name in bench.sim.stored_names() {
        bench.sim.put_stored(&name, None);
    }
    for number in 1..=8 {
        FILES
            .iter()
            .for_each(|file| bench.sim.put_stored(&format!("{file}.unreadable-{number}"), None));
    }
    for (name, content) in files {
        bench.sim.put_stored(name, Some(content.clone()));
    }
}

fn schedules(bench: &mut Bench) -> Vec<ScheduleInfo> {
    match bench.ask(Command::ScheduleList {}) {
        Ok(Reply::Schedules { schedules }) => schedules,
        other => panic!("{other:?}"),
    }
}

fn tasks(bench: &mut Bench) -> Vec<TaskInfo> {
    match bench.ask(Command::TaskList {}) {
        Ok(Reply::Tasks { tasks }) => tasks,
        other => panic!("{other:?}"),
    }
}

fn info(bench: &mut Bench) -> controller::ControllerInfo {
    match bench.ask(Command::Info {}) {
        Ok(Reply::Info { info }) => *info,
        other => panic!("{other:?}"),
    }
}

fn drives(bench: &mut Bench) -> Vec<controller::DriveInfo> {
    match bench.ask(Command::DriveList {}) {
        Ok(Reply::Drives { drives }) => drives,
        other => panic!("{other:?}"),
    }
}

fn health(bench: &mut Bench) -> controller::HealthReport {
    match bench.ask(Command::Health {}) {
        Ok(Reply::Health { health }) => health,
        other => panic!("{other:?}"),
    }
}

fn add_drive(name: &str) -> Command {
    Command::DriveAdd { drive: name.into(), size_bytes: None }
}

fn check_every(days: u32) -> Command {
    let volume = Some("data".into());
    let set = SetSchedule {
        what: Scheduled::Check,
        volume,
        every_days: Some(days),
        ..SetSchedule::default()
    };
    Command::TaskSchedule(set)
}

/// Newer events with that code.
fn events_after(bench: &mut Bench, code: &str, after: u64) -> Vec<Event> {
    bench.events().into_iter().filter(|event| event.number > after && event.code == code).collect()
}

fn last_event(bench: &mut Bench) -> u64 {
    bench.events().last().map_or(0, |event| event.number)
}

/// The state that must be the same after damage to a file.
#[derive(PartialEq, Debug)]
struct Known {
    serial: String,
    drives: Vec<(String, DriveState, Option<controller::DriveNumbers>)>,
    volumes: Vec<(String, VolumeState, Option<u32>, Option<u32>)>,
    schedules: Vec<(bool, u32, Option<u64>)>,
    alarm_is_on: bool,
    log: Vec<String>,
}

fn known(bench: &mut Bench) -> Known {
    let Ok(Reply::Volumes { volumes }) = bench.ask(Command::VolumeList {}) else {
        panic!("volumes")
    };
    let Ok(Reply::Logs { logs, .. }) = bench.ask(Command::LogList {}) else { panic!("logs") };
    let in_use = logs.into_iter().filter(|log| log.in_use);
    let info = info(bench);
    assert_eq!(info.provisional_numbers, None);
    Known {
        alarm_is_on: info.alarm.on,
        serial: info.serial,
        drives: drives(bench)
            .into_iter()
            .map(|drive| (drive.name, drive.state, drive.numbers))
            .collect(),
        volumes: volumes
            .into_iter()
            .map(|one| (one.name, one.state, one.number, one.group))
            .collect(),
        schedules: schedules(bench)
            .into_iter()
            .map(|one| (one.on, one.every_days, one.next_unix_s))
            .collect(),
        log: in_use.flat_map(|log| log.devices.into_iter().map(|device| device.drive)).collect(),
    }
}

/// A volume of three drives, a spare, a drive that failed once, a log, a schedule, a disabled
/// alarm, and a volume that was deleted while one of its drives was missing.
fn prepared(seed: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 1, 8);
    bench.add_drives(&["x"], 8 * MIB);
    bench.boot(&[]);
    bench.create("data", "raid5", &MEMBERS);
    bench.write("data", 0, 7, MIB / 2);
    bench.settle("data");
    bench.create("gone", "raid1", &["e", "f"]);
    bench.settle("gone");
    bench.sim.drive("f").expect("the drive exists").vanish();
    bench.try_write("gone", 0, 1, 4096).expect("it ends").expect("the other copy has it");
    bench
        .ask(Command::VolumeDelete { volume: "gone".into(), disconnect_hosts: false })
        .expect("deleted");
    bench.create("short", "raid1", &["g", "h"]);
    bench.settle("short");
    let bad = bench.sim.drive("h").expect("the drive exists");
    bad.refuse_writes(ByteRange::new(ByteOffset::ZERO, ByteCount(MIB)));
    bench.write("short", 0, 1, 64 << 10);
    assert_eq!(bench.drive("h").state, DriveState::Failed);
    bad.clear_write_errors();
    bench
        .ask(Command::VolumeDelete { volume: "short".into(), disconnect_hosts: false })
        .expect("deleted");
    bench
        .ask(Command::SpareAdd(AddSpare { drive: "d".into(), ..AddSpare::default() }))
        .expect("a spare");
    let log = Command::LogAdd { drives: vec!["x".into()], destroy_data: false, same_disk_ok: true };
    bench.ask(log).expect("a log");
    bench.ask(check_every(14)).expect("scheduled");
    bench.ask(Command::AlarmSet { to: AlarmSetting::Off }).expect("switched off");
    // Each file has a previous version by now.
    bench.ask(Command::AlarmSet { to: AlarmSetting::On }).expect("switched on");
    bench.ask(Command::AlarmSet { to: AlarmSetting::Off }).expect("switched off");
    bench.ask(Command::AlarmSet { to: AlarmSetting::On }).expect("switched on");
    bench.wait(30);
    bench.shut_down();
    bench
}

/// Every file × every damage × a start. The files were replaced by defaults: another serial number,
/// other numbers, no drives, and a deleted volume returned.
#[test]
fn a_damaged_file_costs_nothing_that_is_known_elsewhere() {
    let mut bench = prepared(1);
    bench.restart(&[]);
    bench.sim.drive("f").expect("the drive exists").come_back();
    bench.wait(30);
    let mut before = known(&mut bench);
    bench.shut_down();
    bench.restart(&[]);
    bench.wait(30);
    let whole = known(&mut bench);
    assert_eq!(before.volumes, whole.volumes);
    before = whole;
    assert_eq!(before.volumes.len(), 1, "the deleted volume stays deleted: {before:?}");
    bench.shut_down();
    let files = all_stored(&bench);
    for file in FILES {
        for damage in DAMAGES {
            let what = format!("{file}, {damage:?}");
            put_back(&mut bench, &files);
            let dealt = damage.deal(&mut bench, file);
            let last = files_last_event(&files);
            bench.restart(&[]);
            let told = events_after(&mut bench, "controller.state-unreadable", last);
            assert_eq!(told.len(), 1, "{what}: {told:?}");
            assert!(
                told[0].subject == file && told[0].text.contains(file),
                "{what}: {}",
                told[0].text
            );
            bench.wait(30);
            let now = known(&mut bench);
            assert_eq!(now, before, "{what}");
            assert!(
                health(&mut bench).findings.iter().any(|one| one.what.contains(file)),
                "{what}"
            );
            let aside = format!("{file}.unreadable-1");
            match damage {
                Damage::Missing => assert_eq!(bench.sim.stored(&aside), None, "{what}"),
                Damage::Unreadable | Damage::Folder => {
                    assert!(bench.sim.is_stored_unreadable(&aside), "{what}: the file is kept");
                }
                _ => assert_eq!(
                    bench.sim.stored(&aside),
                    dealt,
                    "{what}: the file is kept unchanged"
                ),
            }
            bench.expect("data", 0, 7, MIB / 2);
            let last = last_event(&mut bench);
            bench.shut_down();
            bench.restart(&[]);
            let told = events_after(&mut bench, "controller.state-unreadable", last);
            assert!(told.is_empty(), "{what}: reported once: {told:?}");
            assert_eq!(known(&mut bench).volumes, before.volumes, "{what}: after another start");
            bench.shut_down();
        }
    }
}

/// The number of the newest stored event.
fn files_last_event(files: &BTreeMap<String, Vec<u8>>) -> u64 {
    let text = String::from_utf8(files["events.jsonl"].clone()).expect("text");
    let last = text.lines().last().expect("an event");
    serde_json::from_str::<Event>(last).expect("an event").number
}

/// No version of a file is readable: state from labels and the other files is used, and the rest is
/// reported as unknown.
#[test]
fn where_no_version_can_be_read_labels_and_other_files_tell() {
    let mut bench = prepared(2);
    bench.restart(&[]);
    let before = known(&mut bench);
    bench.shut_down();
    let files = all_stored(&bench);
    for file in FILES {
        put_back(&mut bench, &files);
        bench.sim.put_stored(file, Some(b"\xff\xff".to_vec()));
        bench.sim.make_stored_unreadable(&format!("{file}.previous"), "is a directory");
        let last = files_last_event(&files);
        bench.restart(&[]);
        assert_eq!(
            events_after(&mut bench, "controller.state-unreadable", last).len(),
            1,
            "{file}"
        );
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{file}");
        bench.expect("data", 0, 7, MIB / 2);
        assert_eq!(info(&mut bench).serial, before.serial, "{file}");
        // Both are kept.
        let kept = |bench: &Bench, number: u32| {
            let aside = format!("{file}.unreadable-{number}");
            bench.sim.stored(&aside).is_some() || bench.sim.is_stored_unreadable(&aside)
        };
        assert!(kept(&bench, 1) && kept(&bench, 2), "{file}");
        bench.shut_down();
    }
    // Numbers are provisional until an operator removes the kept file.
    put_back(&mut bench, &files);
    bench.sim.put_stored("numbers.toml", Some(Vec::new()));
    bench.sim.put_stored("numbers.toml.previous", None);
    for _ in 0..2 {
        bench.restart(&[]);
        let told = info(&mut bench).provisional_numbers.expect("the numbers are provisional");
        assert!(told.contains("remove numbers.toml.unreadable-1"), "{told}");
        assert!(bench.drive("a").numbers.is_some_and(|numbers| numbers.provisional));
        let health = health(&mut bench);
        assert!(health.findings.iter().any(|one| one.what == told), "{health:?}");
        bench.shut_down();
    }
    bench.sim.put_stored("numbers.toml.unreadable-1", None);
    bench.restart(&[]);
    assert_eq!(info(&mut bench).provisional_numbers, None);
    assert!(bench.drive("a").numbers.is_some_and(|numbers| !numbers.provisional));
}

/// A limited number of damaged files is kept; after that none is deleted or overwritten.
#[test]
fn damaged_files_are_kept_in_a_bounded_number() {
    let mut bench = prepared(3);
    for number in 1..=8_u8 {
        bench.sim.put_stored("tasks.json", Some(vec![number; 9]));
        bench.restart(&[]);
        bench.shut_down();
    }
    bench.sim.put_stored("tasks.json", Some(vec![9; 9]));
    bench.restart(&[]);
    let why = bench.refused(ErrorKind::Failed, check_every(3));
    assert!(
        why.contains("8 files of that name exist already; move tasks.json.unreadable-1"),
        "{why}"
    );
    assert!(
        schedules(&mut bench).iter().all(|one| one.every_days != 3),
        "the setting is not in effect"
    );
    let told = health(&mut bench);
    assert!(told.status >= WellBeing::Warning, "{told:?}");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.shut_down();
    for number in 1..=8_u8 {
        let kept = bench.sim.stored(&format!("tasks.json.unreadable-{number}"));
        assert_eq!(kept, Some(vec![number; 9]));
    }
    assert_eq!(bench.sim.stored("tasks.json"), Some(vec![9; 9]));
}

/// The state of an earlier version, without checksums and without previous versions.
#[test]
fn files_of_an_earlier_version_are_read_and_get_their_copies() {
    let mut bench = prepared(4);
    bench.restart(&[]);
    let before = known(&mut bench);
    bench.shut_down();
    for name in bench.sim.stored_names() {
        let text =
            String::from_utf8(bench.sim.stored(&name).expect("the drive is listed")).expect("text");
        let old = match text.starts_with("# SoftROC") {
            true => text.split_once('\n').expect("a line").1.to_owned(),
            false => text,
        };
        let is_previous = name.ends_with(".previous");
        bench.sim.put_stored(&name, (!is_previous).then(|| old.into_bytes()));
    }
    bench.restart(&[]);
    assert_eq!(known(&mut bench), before);
    let events = bench.events();
    assert!(!events.iter().any(|event| event.code == "controller.state-unreadable"), "{events:?}");
    for file in ["drives.toml", "numbers.toml", "deleted-arrays.toml", "failed-drives.toml"] {
        assert!(
            bench.sim.stored(&format!("{file}.previous")).is_some(),
            "{file} has a copy after the start"
        );
    }
}

/// The state folder was full, and commands whose result is stored only there returned success: the
/// result was gone after a kill.
#[test]
fn a_full_state_folder_refuses_what_is_kept_there_alone() {
    let mut bench = prepared(5);
    bench.restart(&[]);
    bench.add_drives(&["late", "later"], DRIVE);
    let before = known(&mut bench);
    bench.sim.fail_stores(u64::MAX);
    let delete = Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false };
    let check =
        StartTask { what: Startable::Check, volume: Some("data".into()), ..StartTask::default() };
    let orders = [
        check_every(3),
        add_drive("late"),
        common::create("more", "raid0", &["late", "later"]),
        delete,
        Command::AlarmSet { to: AlarmSetting::Off },
        Command::TaskStart(check),
        Command::DriveForget { drive: "e".into() },
        Command::DriveClearFailed { drive: "h".into() },
    ];
    for order in orders {
        let what = format!("{order:?}");
        let why = bench.ask(order).expect_err(&what).message;
        assert!(why.contains("cannot be stored in the state folder"), "{what}: {why}");
    }
    let told = health(&mut bench);
    assert!(told.status >= WellBeing::Warning, "{told:?}");
    let tells =
        |file: &str| told.findings.iter().any(|one| one.subject == format!("state file {file}"));
    assert!(tells("tasks.json") && tells("drives.toml"), "{told:?}");
    assert_eq!(known(&mut bench), before, "no setting is in effect");
    // State in labels still changes: a spare takes the slot of a failed drive.
    bench.sim.drive("b").expect("the drive exists").fail_now();
    bench.try_write("data", 0, 7, 4096).expect("it ends").expect("redundant");
    for _ in 0..100 {
        if bench
            .show("data")
            .drives
            .iter()
            .any(|drive| drive.name == "d" && drive.state == DriveState::Online)
        {
            break;
        }
        bench.wait(3);
    }
    assert_eq!(bench.show("data").state, VolumeState::Optimal, "{:?}", bench.show("data").drives);
    let last = last_event(&mut bench);
    // There is space again: pending state is stored automatically.
    bench.sim.fail_stores(0);
    bench.wait(60);
    let stored = events_after(&mut bench, "controller.state-stored", last);
    assert!(!stored.is_empty(), "{:?}", bench.events());
    assert!(!health(&mut bench).findings.iter().any(|one| one.subject.starts_with("state file")));
    bench.ask(check_every(3)).expect("scheduled");
    bench.ask(add_drive("late")).expect("added");
    bench.restart(&[]);
    assert!(schedules(&mut bench).iter().any(|one| one.every_days == 3));
    assert_eq!(bench.drive("late").state, DriveState::Unused);
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
    bench.expect("data", 0, 7, MIB / 2);
}

/// A kill at any event while an unreadable file is replaced: one version or the other is there.
#[test]
fn a_crash_while_a_damaged_file_is_replaced_loses_no_version() {
    let mut bench = prepared(6);
    bench.restart(&[]);
    let before = known(&mut bench);
    bench.shut_down();
    let files = all_stored(&bench);
    for event in 0..60 {
        put_back(&mut bench, &files);
        for file in ["drives.toml", "numbers.toml", "tasks.json"] {
            bench.sim.put_stored(file, Some(b"\xff".to_vec()));
        }
        bench.forget();
        bench.sim.restart_process();
        let at = bench.sim.events() + event * 7;
        bench.sim.stop_at_event(Some(at));
        let ended = bench.try_boot(&[]);
        end(&mut bench, End::Killed);
        bench.boot(&[]);
        assert_eq!(known(&mut bench), before, "killed at event {} ({})", event * 7, ended.is_ok());
        bench.shut_down();
    }
}

/// The clock was 400 days ahead when schedules were set, and was then corrected: they were due in
/// 400 days.
#[test]
fn schedules_follow_a_clock_that_is_set_right() {
    let day: u64 = 86_400;
    for restarts in [true, false] {
        let mut bench = Bench::new(7, 1, 3);
        bench.sim.set_clock_ahead(400 * day as i64);
        bench.boot(&[]);
        bench.create("data", "raid5", &MEMBERS);
        bench.settle("data");
        bench.ask(check_every(2)).expect("scheduled");
        bench.sim.set_clock_ahead(0);
        if restarts {
            bench.restart(&[]);
        }
        bench.wait(3600);
        let now = info(&mut bench).started_unix_s + if restarts { 3600 } else { 0 };
        let now = if restarts { now } else { now - 400 * day + 3600 };
        for one in schedules(&mut bench).iter().filter(|one| one.on) {
            let next = one.next_unix_s.expect("the schedule is on");
            let latest = now + 600 + u64::from(one.every_days) * day;
            assert!(next <= latest, "{one:?} at {now}");
        }
        bench.wait(3 * day);
        let done = tasks(&mut bench)
            .iter()
            .filter(|task| task.kind == controller::TaskKind::Check)
            .count();
        assert!(done >= 1, "checked within a period: {:?}", tasks(&mut bench));
    }
}

/// A volume was deleted while it had a task. The task waited without end, or failed.
#[test]
fn a_task_whose_volume_is_deleted_ends_as_cancelled() {
    for (at, is_shared) in [(0, false), (1, false), (2, false), (0, true), (2, true)] {
        let mut bench = Bench::new(8, 2, 0);
        bench.add_drives(&["a", "b", "c", "d", "e"], DRIVE + 2 * MIB);
        bench.boot(&[]);
        let size = |wanted: &mut controller::CreateVolume| wanted.size_bytes = Some(MIB);
        bench.create_with("data", "raid5", &MEMBERS, size).expect("created");
        if is_shared {
            bench.create_with("other", "raid5", &MEMBERS, size).expect("created");
        }
        bench.write("data", 0, 7, MIB / 2);
        bench.settle("data");
        let task = match at {
            0 | 1 => {
                let (volume, limit_bytes_per_s) = (Some("data".into()), Some(4096));
                let what = Startable::Check;
                let check = StartTask { what, volume, limit_bytes_per_s, ..StartTask::default() };
                let Ok(Reply::Task { task, .. }) = bench.ask(Command::TaskStart(check)) else {
                    panic!("a task")
                };
                task.task
            }
            _ => {
                bench.ask(common::take_offline("b")).expect("offline");
                let (drive, with) = ("data:1".into(), "d".into());
                bench
                    .ask(Command::DriveReplace { drive, with, destroy_data: true })
                    .expect("replaced");
                bench.pause_ms(1);
                tasks(&mut bench)[0].task
            }
        };
        if at >= 1 {
            bench.ask(Command::TaskPause { task }).expect("paused");
        }
        bench.wait(2);
        let before =
            tasks(&mut bench).into_iter().find(|one| one.task == task).expect("the task is listed");
        assert!(!before.state.is_over(), "{at}: {before:?}");
        bench
            .ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false })
            .expect("deleted");
        bench.wait(5);
        let after =
            tasks(&mut bench).into_iter().find(|one| one.task == task).expect("the task is listed");
        if is_shared && at == 2 {
            // The task rebuilds a drive of the array, for its other volume.
            assert!(!matches!(after.state, TaskState::Failed | TaskState::Cancelled), "{after:?}");
            continue;
        }
        assert_eq!(after.state, TaskState::Cancelled, "{at}, {is_shared}: {after:?}");
        assert_eq!(after.reason.as_deref(), Some("its volume was deleted"));
        bench.shut_down();
    }
}
