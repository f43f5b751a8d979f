//! Background tasks: started, paced, paused, stopped, scheduled; patrols of all drives.

use crate::common::{Bench, DRIVE, MIB, drive_options};
use controller::{
    AddSpare, Command, ErrorKind, Reply, ScheduleInfo, Scheduled, SetSchedule, SetTask, StartTask,
    Startable, TaskInfo, TaskKind, TaskState, VolumeState,
};
use platform_sim::DriveOptions;
use units::{ByteCount, ByteOffset, ByteRange};

fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start), ByteCount(len))
}

fn task(reply: Result<Reply, controller::Error>) -> TaskInfo {
    match reply {
        Ok(Reply::Task { task, .. }) => *task,
        other => panic!("{other:?}"),
    }
}

fn patrol(bench: &mut Bench, drives: &[&str]) -> TaskInfo {
    let drives = drives.iter().map(ToString::to_string).collect();
    task(bench.ask(Command::TaskStart(StartTask {
        what: Startable::Patrol,
        drives,
        ..StartTask::default()
    })))
}

fn show(bench: &mut Bench, id: u64) -> TaskInfo {
    task(bench.ask(Command::TaskShow { task: id }))
}

fn list(bench: &mut Bench) -> Vec<TaskInfo> {
    match bench.ask(Command::TaskList {}) {
        Ok(Reply::Tasks { tasks }) => tasks,
        other => panic!("{other:?}"),
    }
}

fn schedule(bench: &mut Bench, set: SetSchedule) -> ScheduleInfo {
    match bench.ask(Command::TaskSchedule(set)) {
        Ok(Reply::Schedules { mut schedules }) => schedules.remove(0),
        other => panic!("{other:?}"),
    }
}

fn schedules(bench: &mut Bench) -> Vec<ScheduleInfo> {
    match bench.ask(Command::ScheduleList {}) {
        Ok(Reply::Schedules { schedules }) => schedules,
        other => panic!("{other:?}"),
    }
}

/// Unused drives `a` and `b`.
fn with_drives(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 1, 2);
    bench.boot(&["a", "b"]);
    bench
}

fn until_over(bench: &mut Bench, id: u64) -> TaskInfo {
    for _ in 0..1000 {
        let info = show(bench, id);
        if info.state.is_over() {
            return info;
        }
        bench.wait(1);
    }
    panic!("task {id} does not end: {:?}", show(bench, id));
}

#[test]
fn a_patrol_reads_all_drives_and_says_what_it_found() {
    let mut bench = with_drives(1);
    let begun = patrol(&mut bench, &[]);
    assert_eq!((begun.kind, begun.subject.as_str()), (TaskKind::Patrol, "2 drives"));
    assert_eq!(begun.total_blocks, 2 * DRIVE / 512);
    let info = until_over(&mut bench, begun.task);
    assert_eq!(
        (info.state, info.percent, info.done_blocks),
        (TaskState::Done, 100, info.total_blocks)
    );
    assert!(bench.has_event("everything could be read"), "{:?}", bench.events());
    bench.sim.drive("b").unwrap().make_unreadable(range(5 * MIB + 4096, 8192));
    let info = patrol(&mut bench, &["b"]);
    let info = until_over(&mut bench, info.task);
    assert_eq!((info.state, info.found.unreadable, info.found.repaired), (TaskState::Done, 1, 0));
    assert_eq!(bench.drive("b").medium_errors, 1, "the error is counted against the drive");
    let text = format!("drive b cannot read bytes {} to {}", 5 * MIB + 4096, 5 * MIB + 4096 + 8192);
    assert!(bench.has_event(&text), "{:?}", bench.events());
}

/// The task that stores task states ended as soon as nothing was to be stored, although ending
/// tasks still had updates: the shutdown waited for these without end. Found by torture.
#[test]
fn a_shutdown_waits_for_a_task_that_takes_its_time_to_end() {
    for offset_us in (0..20_000).step_by(1000) {
        let mut bench = Bench::new(11, 2, 3);
        bench.boot(&["a", "b", "c"]);
        bench.create("data", "raid5", &["a", "b", "c"]);
        bench.settle("data");
        bench.ask(crate::common::fail_drive("b")).unwrap();
        bench.write("data", 0, 7, 2 * MIB);
        bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
        let soon = bench.sim.now() + std::time::Duration::from_micros(offset_us);
        bench.sim.run_until(soon).unwrap();
        bench.shut_down();
    }
}

/// A rebuild that failed in one region was never retried by the running controller, though the
/// cause had passed long ago: redundancy stayed reduced. Found by torture.
#[test]
fn a_rebuild_that_failed_is_tried_again_after_a_while() {
    let mut bench = Bench::new(12, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.ask(crate::common::fail_drive("b")).unwrap();
    bench.write("data", 0, 7, 2 * MIB);
    let rebuild =
        |bench: &mut Bench| list(bench).into_iter().find(|task| task.kind == TaskKind::Rebuild);
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    bench.sim.drive("b").unwrap().fail_next(1, Some("write"), platform::IoErrorKind::OutOfSpace);
    bench.wait(30);
    let failed = rebuild(&mut bench).unwrap();
    assert_eq!(
        (failed.state, bench.drive("b").stale_regions),
        (TaskState::Failed, 1),
        "{failed:?}"
    );
    // The region stayed unsynced, and the start needs the operator's confirmation.
    bench.start_accepting("data");
    bench.wait(60);
    assert_eq!(bench.drive("b").stale_regions, 0, "{:?}", rebuild(&mut bench));
    assert_eq!(rebuild(&mut bench).unwrap().task, failed.task, "the rebuild continued");
    assert_eq!(bench.show("data").state, VolumeState::Optimal);
}

#[test]
fn a_patrol_takes_no_more_than_its_share() {
    let mut times = Vec::new();
    for share in [100, 10] {
        let mut bench = with_drives(2);
        let start = StartTask {
            what: Startable::Patrol,
            share_percent: Some(share),
            ..StartTask::default()
        };
        let began = bench.sim.now();
        let info = task(bench.ask(Command::TaskStart(start)));
        while !show(&mut bench, info.task).state.is_over() {
            let soon = bench.sim.now() + std::time::Duration::from_millis(10);
            bench.sim.run_until(soon).unwrap();
        }
        times.push(bench.sim.now().since(began).as_millis());
    }
    assert!(times[1] > times[0] * 7, "{times:?}");
}

#[test]
fn a_patrol_keeps_its_limit() {
    let mut bench = with_drives(3);
    let limit = 4 * MIB;
    let start = StartTask {
        what: Startable::Patrol,
        limit_bytes_per_s: Some(limit),
        ..StartTask::default()
    };
    let info = task(bench.ask(Command::TaskStart(start)));
    bench.wait(5);
    let done = show(&mut bench, info.task).done_blocks * 512;
    assert!((16 * MIB..=21 * MIB).contains(&done), "{done}");
    let rate = show(&mut bench, info.task).rate_mib_s.unwrap();
    assert!((3.0..=5.0).contains(&rate), "{rate}");
    // A new schedule from now on.
    let set = SetTask { task: info.task, limit_bytes_per_s: Some(0), share_percent: Some(100) };
    bench.ask(Command::TaskSet(set)).unwrap();
    bench.wait(5);
    assert_eq!(show(&mut bench, info.task).state, TaskState::Done);
}

#[test]
fn a_check_keeps_its_limit_in_bytes_of_the_volume_however_many_shards_and_drives_there_are() {
    let mut bench = Bench::new(31, 2, 0);
    bench.add_drives(&["a", "b", "c"], 64 * MIB);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 5, MIB);
    bench.settle("data");
    // One shard owns its only region: the other one has nothing to do.
    let limit = 4 * MIB;
    let start = StartTask {
        what: Startable::Check,
        volume: Some("data".into()),
        limit_bytes_per_s: Some(limit),
        ..StartTask::default()
    };
    let id = task(bench.ask(Command::TaskStart(start))).task;
    bench.wait(1);
    let before = show(&mut bench, id).done_blocks * 512;
    bench.wait(8);
    let info = show(&mut bench, id);
    let per_s = (info.done_blocks * 512 - before) / 8;
    assert!((limit * 9 / 10..=limit * 11 / 10).contains(&per_s), "{per_s}: {info:?}");
    let rate = info.rate_mib_s.unwrap();
    assert!((3.6..=4.4).contains(&rate), "{rate}");
}

#[test]
fn a_paused_task_stands_still_and_goes_on_where_it_was_even_after_a_restart() {
    let mut bench = with_drives(4);
    let start = StartTask {
        what: Startable::Patrol,
        limit_bytes_per_s: Some(8 * MIB),
        ..StartTask::default()
    };
    let id = task(bench.ask(Command::TaskStart(start))).task;
    bench.wait(3);
    assert_eq!(task(bench.ask(Command::TaskPause { task: id })).state, TaskState::Paused);
    bench.wait(1);
    let stood = show(&mut bench, id);
    bench.wait(10);
    assert_eq!(show(&mut bench, id).done_blocks, stood.done_blocks);
    let why = bench.refused(ErrorKind::WrongState, Command::TaskPause { task: id });
    assert!(why.contains("paused already"), "{why}");
    bench.restart(&[]);
    let again = show(&mut bench, id);
    assert_eq!((again.state, again.done_blocks), (TaskState::Paused, stood.done_blocks));
    bench.ask(Command::TaskResume { task: id }).unwrap();
    bench.wait(1);
    assert!(
        show(&mut bench, id).done_blocks < stood.total_blocks,
        "the check does not begin at the end"
    );
    let over = until_over(&mut bench, id);
    assert_eq!((over.state, over.done_blocks), (TaskState::Done, over.total_blocks));
    assert!(bench.has_event("task resume"), "{:?}", bench.events());
}

#[test]
fn a_stopped_task_ends_and_can_be_taken_up_again() {
    let mut bench = with_drives(5);
    let start =
        StartTask { what: Startable::Patrol, limit_bytes_per_s: Some(MIB), ..StartTask::default() };
    let id = task(bench.ask(Command::TaskStart(start.clone()))).task;
    let why = bench.refused(ErrorKind::WrongState, Command::TaskStart(start));
    assert!(why.contains(&format!("task stop {id}")), "{why}");
    bench.wait(2);
    bench.ask(Command::TaskStop { task: id }).unwrap();
    bench.wait(1);
    assert_eq!(show(&mut bench, id).state, TaskState::Stopped);
    bench.refused(ErrorKind::WrongState, Command::TaskStop { task: id });
    bench.ask(Command::TaskResume { task: id }).unwrap();
    bench
        .ask(Command::TaskSet(SetTask {
            task: id,
            limit_bytes_per_s: Some(0),
            share_percent: None,
        }))
        .unwrap();
    assert_eq!(until_over(&mut bench, id).state, TaskState::Done);
    bench.refused(ErrorKind::WrongState, Command::TaskResume { task: id });
}

#[test]
fn what_is_wrong_is_refused() {
    let mut bench = with_drives(6);
    let start = |what| StartTask { what, ..StartTask::default() };
    bench.refused(ErrorKind::NotFound, Command::TaskShow { task: 99 });
    bench.refused(ErrorKind::NotFound, Command::TaskPause { task: 99 });
    bench.refused(ErrorKind::Invalid, Command::TaskStart(start(Startable::Check)));
    let zero = StartTask { share_percent: Some(0), ..start(Startable::Patrol) };
    let why = bench.refused(ErrorKind::Invalid, Command::TaskStart(zero));
    assert!(why.contains("1 to 100"), "{why}");
    let of_volume = StartTask { volume: Some("data".into()), ..start(Startable::Patrol) };
    bench.refused(ErrorKind::Invalid, Command::TaskStart(of_volume));
    let unknown = StartTask { drives: vec!["zzz".into()], ..start(Startable::Patrol) };
    bench.refused(ErrorKind::NotFound, Command::TaskStart(unknown));
    let unknown = StartTask { volume: Some("zzz".into()), ..start(Startable::Check) };
    bench.refused(ErrorKind::NotFound, Command::TaskStart(unknown));
    bench.refused(ErrorKind::Invalid, Command::TaskStart(start(Startable::Rebuild)));
    bench.create("fast", "raid0", &["a", "b"]);
    let bare = StartTask { volume: Some("fast".into()), ..start(Startable::Check) };
    let why = bench.refused(ErrorKind::WrongState, Command::TaskStart(bare));
    assert!(why.contains("no redundancy"), "{why}");
    let daily = SetSchedule { every_days: Some(0), ..SetSchedule::default() };
    bench.refused(ErrorKind::Invalid, Command::TaskSchedule(daily));
    let late = SetSchedule { at_s: Some(86_400), ..SetSchedule::default() };
    bench.refused(ErrorKind::Invalid, Command::TaskSchedule(late));
    let of_nothing = SetSchedule { what: Scheduled::Check, ..SetSchedule::default() };
    bench.refused(ErrorKind::Invalid, Command::TaskSchedule(of_nothing));
}

#[test]
fn a_patrol_heals_what_a_member_cannot_read_before_it_is_needed() {
    let mut bench = Bench::new(10, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 5, 512 << 10);
    bench.settle("data");
    let drive = bench.sim.drive("b").unwrap();
    drive.make_unreadable(range(64 << 10, 8192));
    let id = patrol(&mut bench, &[]).task;
    let info = until_over(&mut bench, id);
    assert_eq!(
        (info.found.unreadable, info.found.repaired, info.found.unrecoverable_bytes),
        (1, 1, 0)
    );
    assert_eq!(drive.faults(), vec![]);
    assert!(bench.has_event("rewritten from the redundancy of 'data'"), "{:?}", bench.events());
    bench.ask(crate::common::fail_drive("a")).unwrap();
    bench.expect("data", 0, 5, 512 << 10);
}

#[test]
fn a_check_finds_what_does_not_agree_and_a_repair_mends_it() {
    let mut bench = Bench::new(11, 2, 4);
    bench.boot(&[]);
    bench.create("data", "raid6", &["a", "b", "c", "d"]);
    bench.write("data", 0, 5, 512 << 10);
    bench.settle("data");
    bench.sim.drive("c").unwrap().rot(range(0, 4096));
    let check = |bench: &mut Bench, what| {
        let start = StartTask { what, volume: Some("data".into()), ..StartTask::default() };
        let id = task(bench.ask(Command::TaskStart(start))).task;
        until_over(bench, id)
    };
    let found = check(&mut bench, Startable::Check);
    assert_eq!(
        (found.state, found.found.mismatches, found.found.repaired),
        (TaskState::Done, 1, 0)
    );
    assert_eq!(
        found.blamed.iter().map(|blamed| (blamed.slot, blamed.stripes)).collect::<Vec<_>>(),
        [(2, 1)]
    );
    assert!(bench.has_event("drive c has wrong blocks"), "{:?}", bench.events());
    let mended = check(&mut bench, Startable::Repair);
    assert_eq!((mended.found.mismatches, mended.found.repaired), (1, 1));
    assert_eq!(check(&mut bench, Startable::Check).found.mismatches, 0);
    assert!(bench.has_event("all redundancy agrees with its data"));
}

#[test]
fn hosts_do_not_see_a_volume_that_is_being_zeroed() {
    let mut bench = Bench::new(14, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 64 << 10, 5, 512 << 10);
    bench.settle("data");
    let start = StartTask {
        what: Startable::InitFull,
        volume: Some("data".into()),
        limit_bytes_per_s: Some(1 << 20),
        ..StartTask::default()
    };
    let id = task(bench.ask(Command::TaskStart(start))).task;
    bench.wait(1);
    assert!(bench.shards[0].volume_named("data").is_none());
    assert!(bench.show("data").reasons[0].contains("being initialised with zeroes"));
    bench.restart(&[]);
    assert!(bench.shards[0].volume_named("data").is_none(), "nor after a restart");
    bench
        .ask(Command::TaskSet(SetTask {
            task: id,
            limit_bytes_per_s: Some(0),
            share_percent: None,
        }))
        .unwrap();
    assert_eq!(until_over(&mut bench, id).state, TaskState::Done);
    bench.wait(1);
    bench.expect("data", 0, 0, MIB);
    bench.settle("data");
    // Only the ends.
    bench.write("data", 0, 5, 2 * MIB);
    let start = StartTask {
        what: Startable::InitFast,
        volume: Some("data".into()),
        ..StartTask::default()
    };
    let id = task(bench.ask(Command::TaskStart(start))).task;
    assert_eq!(until_over(&mut bench, id).state, TaskState::Done);
    bench.expect("data", 0, 0, MIB);
}

#[test]
fn a_distributed_spare_takes_in_a_failed_drive_by_itself_and_gives_it_back() {
    let mut bench = Bench::new(15, 2, 5);
    bench.boot(&[]);
    bench.create("data", "raid5ee", &["a", "b", "c", "d", "e"]);
    for at in 0..16 {
        bench.write("data", at * (64 << 10), at as u8 + 1, 64 << 10);
    }
    bench.settle("data");
    bench.ask(crate::common::fail_drive("b")).unwrap();
    bench.wait(5);
    let of_kind = |bench: &mut Bench, kind| {
        let tasks: Vec<TaskInfo> =
            list(bench).into_iter().filter(|task| task.kind == kind).collect();
        assert_eq!((tasks.len(), tasks[0].state), (1, TaskState::Done), "{tasks:?}");
    };
    of_kind(&mut bench, TaskKind::Relocate);
    assert_eq!(bench.show("data").may_lose, 1, "the volume tolerates another failure now");
    bench.settle("data");
    bench.restart(&[]);
    bench.settle("data");
    bench
        .ask(Command::SpareAdd(AddSpare { drive: "s".into(), ..AddSpare::default() }))
        .unwrap_err();
    bench.sim.add_drive("s", drive_options());
    bench.ask(Command::SpareAdd(AddSpare { drive: "s".into(), ..AddSpare::default() })).unwrap();
    bench.wait(10);
    of_kind(&mut bench, TaskKind::Restore);
    let info = bench.show("data");
    assert_eq!((info.state, info.drives[1].name.as_str()), (VolumeState::Optimal, "s"));
    bench.settle("data");
    bench.ask(crate::common::fail_drive("e")).unwrap();
    for at in 0..16 {
        bench.expect("data", at * (64 << 10), at as u8 + 1, 64 << 10);
    }
    bench.wait(5);
    bench.settle("data");
    bench.ask(crate::common::fail_drive("a")).unwrap();
    for at in 0..16 {
        bench.expect("data", at * (64 << 10), at as u8 + 1, 64 << 10);
    }
}

/// Regions are 64 MiB of data: several need larger drives than usual.
#[test]
fn a_rebuild_goes_on_after_a_restart_where_it_was() {
    let regions = 4;
    let mut bench = Bench::new(12, 1, 0);
    let options = DriveOptions { size: ByteCount((32 + 64 * regions) * MIB), ..drive_options() };
    for name in ["a", "b", "s"] {
        bench.sim.add_drive(name, options.clone());
    }
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    for region in 0..regions {
        bench.write("data", region * 64 * MIB, region as u8 + 1, 64 << 10);
    }
    bench.settle("data");
    bench.ask(Command::SpareAdd(AddSpare { drive: "s".into(), ..AddSpare::default() })).unwrap();
    bench.ask(crate::common::fail_drive("b")).unwrap();
    while !list(&mut bench).iter().any(|task| task.kind == TaskKind::Rebuild) {
        let soon = bench.sim.now() + std::time::Duration::from_millis(1);
        bench.sim.run_until(soon).unwrap();
    }
    let rebuild = |bench: &mut Bench| {
        let rebuilds: Vec<TaskInfo> =
            list(bench).into_iter().filter(|task| task.kind == TaskKind::Rebuild).collect();
        assert_eq!(rebuilds.len(), 1, "{rebuilds:?}");
        rebuilds[0].clone()
    };
    let id = rebuild(&mut bench).task;
    let slow = SetTask { task: id, limit_bytes_per_s: Some(8 * MIB), share_percent: None };
    bench.ask(Command::TaskSet(slow)).unwrap();
    let mut left = bench.drive("s").stale_regions;
    while left > 2 {
        bench.wait(1);
        left = bench.drive("s").stale_regions;
    }
    assert!(left > 0, "it is not done yet");
    bench.wait(12);
    let before = rebuild(&mut bench);
    assert_eq!(before.limit_bytes_per_s, Some(8 * MIB));
    bench.restart(&[]);
    assert!(bench.drive("s").stale_regions <= left, "the recorded progress stays");
    bench.wait(1);
    let after = rebuild(&mut bench);
    assert_eq!(
        (after.task, after.limit_bytes_per_s, after.total_blocks),
        (id, Some(8 * MIB), before.total_blocks)
    );
    bench
        .ask(Command::TaskSet(SetTask {
            task: id,
            limit_bytes_per_s: Some(0),
            share_percent: None,
        }))
        .unwrap();
    assert_eq!(until_over(&mut bench, id).state, TaskState::Done);
    bench.ask(crate::common::fail_drive("a")).unwrap();
    for region in 0..regions {
        bench.expect("data", region * 64 * MIB, region as u8 + 1, 64 << 10);
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// The first 02:00 after the start of the simulation, at 22:13:20.
const FIRST_NIGHT: u64 = 1_700_013_600;

#[test]
fn a_patrol_is_on_every_week_unless_told_otherwise() {
    let mut bench = with_drives(7);
    let usual = schedules(&mut bench).remove(0);
    assert_eq!(
        (usual.what, usual.on, usual.every_days, usual.at_s),
        (Scheduled::Patrol, true, 7, 7200)
    );
    assert_eq!(usual.next_unix_s, Some(FIRST_NIGHT));
    bench.wait(4 * HOUR);
    assert_eq!(list(&mut bench).len(), 1);
    assert_eq!(list(&mut bench)[0].cause, "it is due by its schedule");
    let again = schedules(&mut bench).remove(0);
    assert_eq!(
        (again.last_unix_s, again.next_unix_s),
        (Some(FIRST_NIGHT), Some(FIRST_NIGHT + 7 * DAY))
    );
    // Not again right after a restart.
    bench.shut_down();
    bench.restart(&[]);
    bench.wait(HOUR);
    assert_eq!(list(&mut bench).len(), 1);
    assert_eq!(schedules(&mut bench).remove(0), again);
}

#[test]
fn schedules_are_set_and_kept() {
    let mut bench = Bench::new(8, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    let off = schedule(&mut bench, SetSchedule { on: Some(false), ..SetSchedule::default() });
    assert_eq!((off.on, off.next_unix_s), (false, None));
    let check = SetSchedule {
        what: Scheduled::Check,
        volume: Some("data".into()),
        every_days: Some(2),
        at_s: Some(5 * 3600),
        share_percent: Some(50),
        ..SetSchedule::default()
    };
    let set = schedule(&mut bench, check);
    assert_eq!(
        (set.on, set.next_unix_s),
        (true, Some(FIRST_NIGHT + 3 * HOUR)),
        "setting a schedule enables it"
    );
    bench.shut_down();
    bench.restart(&[]);
    assert_eq!(schedules(&mut bench)[1], set);
    bench.wait(3 * DAY);
    let checks: Vec<TaskInfo> =
        list(&mut bench).into_iter().filter(|task| task.kind == TaskKind::Check).collect();
    assert_eq!(checks.len(), 2, "{checks:?}");
    assert!(checks.iter().all(|check| check.share_percent == 50));
    assert!(list(&mut bench).iter().all(|task| task.kind != TaskKind::Patrol));
}

/// A patrol was paused during the repair of a range: the repair was paused with it, could not be
/// resumed, and the shutdown waited for it without end. Found by torture.
#[test]
fn a_patrol_that_is_paused_while_it_repairs_does_not_hold_up_the_shutdown() {
    for offset_us in (0..8000).step_by(400) {
        let mut bench = Bench::new(13, 1, 3);
        bench.boot(&["a", "b", "c"]);
        bench.create("data", "raid5", &["a", "b", "c"]);
        bench.write("data", 0, 7, 2 * MIB);
        bench.settle("data");
        for at in [0, 40960, 90112, 200704] {
            bench
                .sim
                .drive("b")
                .unwrap()
                .make_unreadable(ByteRange::new(ByteOffset(at), ByteCount(4096)));
        }
        bench
            .ask(Command::TaskStart(StartTask { what: Startable::Patrol, ..StartTask::default() }))
            .unwrap();
        let soon = bench.sim.now() + std::time::Duration::from_micros(offset_us);
        bench.sim.run_until(soon).unwrap();
        let patrol =
            list(&mut bench).into_iter().find(|task| task.kind == TaskKind::Patrol).unwrap();
        let _ = bench.ask(Command::TaskPause { task: patrol.task });
        bench.wait(1);
        bench.shut_down();
    }
}
