//! Messages about drives, volumes and tasks are derived from the present state, and name the cause.

use crate::common::{Bench, MIB, drive_options, fail_drive};
use controller::{
    AddSpare, Command, DriveState, ErrorKind, Reply, TaskInfo, TaskKind, TaskState, VolumeState,
};
use platform::IoErrorKind;
use platform_sim::DriveOptions;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

fn tasks(bench: &mut Bench) -> Vec<TaskInfo> {
    match bench.ask(Command::TaskList {}) {
        Ok(Reply::Tasks { tasks }) => tasks,
        other => panic!("{other:?}"),
    }
}

fn spare(drive: &str) -> Command {
    Command::SpareAdd(AddSpare { drive: drive.into(), ..AddSpare::default() })
}

/// The recommended action of `health` for a drive.
fn todo_of(bench: &mut Bench, drive: &str) -> Option<String> {
    let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else {
        panic!("a health reply")
    };
    let subject = format!("drive {drive}");
    health.findings.into_iter().find(|finding| finding.subject == subject)?.todo
}

/// A copy stood at "99 %, 0 s left" while the new drive was flushed.
#[test]
fn a_task_whose_work_is_being_recorded_says_so_and_no_time_that_is_left() {
    let mut bench = Bench::new(1, 1, 0);
    let options = DriveOptions { size: ByteCount((32 + 64) * MIB), ..drive_options() };
    ["a", "b", "c"].iter().for_each(|name| drop(bench.sim.add_drive(name, options.clone())));
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.write("data", 0, 7, 8 * MIB);
    bench.settle("data");
    bench
        .ask(Command::DriveReplace { drive: "b".into(), with: "c".into(), destroy_data: true })
        .unwrap();
    let mut seen = 0;
    for _ in 0..4000 {
        let Some(copy) = tasks(&mut bench).into_iter().find(|task| task.kind == TaskKind::Replace)
        else {
            continue;
        };
        if copy.state.is_over() {
            break;
        }
        assert!(copy.done_blocks <= copy.total_blocks, "{copy:?}");
        if copy.done_blocks == copy.total_blocks {
            seen += 1;
            let why = copy.reason.clone().unwrap_or_default();
            assert!(copy.eta_s.is_none() && why.contains("recorded"), "{copy:?}");
        }
        bench.sim.run_until(bench.sim.now() + Duration::from_millis(5)).unwrap();
    }
    assert!(seen > 0, "seen during the flush");
    assert_eq!(bench.show("data").drives[1].name, "c");
}

/// "Drive b is being rebuilt" was shown until the drive was current, also when its rebuild had
/// failed or was paused.
#[test]
fn a_drive_whose_rebuild_failed_or_stands_still_is_not_said_to_be_rebuilt() {
    let mut bench = Bench::new(12, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create_resyncing("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench.ask(fail_drive("b")).unwrap();
    bench.write("data", 0, 7, 2 * MIB);
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    bench.sim.drive("b").unwrap().fail_next(1, Some("write"), IoErrorKind::OutOfSpace);
    bench.wait(30);
    let rebuild =
        tasks(&mut bench).into_iter().find(|task| task.kind == TaskKind::Rebuild).unwrap();
    assert_eq!(rebuild.state, TaskState::Failed);
    let reason = bench.drive("b").reason.unwrap();
    assert!(reason.starts_with("the rebuild of drive b of 'data' failed"), "{reason}");
    assert!(bench.show("data").reasons.contains(&reason), "the volume's message agrees");
    bench.start_accepting("data");
    bench.wait(60);
    assert_eq!(bench.drive("b").reason, None);
    // Paused at once.
    bench.ask(fail_drive("b")).unwrap();
    bench.write("data", 0, 8, 2 * MIB);
    bench.sim.drive("b").unwrap().stall_next(500, Duration::from_millis(100));
    bench.ask(Command::DriveOnline { drive: "b".into() }).unwrap();
    let is_open = |task: &TaskInfo| task.kind == TaskKind::Rebuild && !task.state.is_over();
    bench.pause_ms(50);
    let open = tasks(&mut bench).into_iter().find(is_open).expect("the rebuild has begun");
    let reason = bench.drive("b").reason.unwrap();
    assert!(reason.contains("is running") && reason.contains("regions left: 1"), "{reason}");
    bench.ask(Command::TaskPause { task: open.task }).unwrap();
    bench.wait(5);
    let reason = bench.drive("b").reason.unwrap();
    assert!(reason.contains("is paused") && reason.contains("softroc task resume"), "{reason}");
    bench.ask(Command::TaskResume { task: open.task }).unwrap();
    bench.wait(120);
    assert_eq!(bench.drive("b").reason, None);
}

/// The advice for an offline volume was to replace its missing drive, which was refused.
#[test]
fn what_is_to_be_done_about_a_drive_of_a_volume_that_is_not_started_is_about_the_volume() {
    let mut bench = Bench::new(3, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid0", &["a", "b"]);
    bench.shut_down();
    bench.sim.drive("b").unwrap().vanish();
    bench.restart(&[]);
    assert_eq!(bench.show("data").state, VolumeState::Offline);
    let replace =
        Command::DriveReplace { drive: "data:1".into(), with: "c".into(), destroy_data: true };
    bench.refused(ErrorKind::WrongState, replace);
    assert_eq!(todo_of(&mut bench, "b").as_deref(), Some("softroc volume show data"));
    // For an online volume the advice works.
    let mut bench = Bench::new(4, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(fail_drive("b")).unwrap();
    assert_eq!(
        todo_of(&mut bench, "b").as_deref(),
        Some("softroc drive replace data:1 --with NEW-DRIVE")
    );
    bench
        .ask(Command::DriveReplace { drive: "data:1".into(), with: "c".into(), destroy_data: true })
        .unwrap();
}

/// The array's own drives were full, so that nothing could be recorded. The spare was reported as
/// unusable, and was not retried.
#[test]
fn a_spare_is_not_blamed_for_what_an_array_cannot_record() {
    let mut bench = Bench::new(5, 1, 3);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(fail_drive("b")).unwrap();
    bench.wait(5);
    bench.sim.drive("a").unwrap().fail_next(u64::MAX, Some("write"), IoErrorKind::OutOfSpace);
    bench.ask(spare("c")).unwrap();
    bench.wait(150);
    assert_eq!(bench.show("data").state, VolumeState::Degraded);
    let drive = bench.drive("c");
    assert_eq!((drive.state, drive.reason), (DriveState::Spare, None), "the spare is usable again");
    let Ok(Reply::Spares { spares, .. }) = bench.ask(Command::SpareList {}) else {
        panic!("a health reply")
    };
    assert!(spares[0].ready, "{spares:?}");
    let said = bench.count_events("but this failed: ");
    assert_eq!(said, 1, "{:?}", bench.events());
    bench.sim.drive("a").unwrap().cancel_failures();
    bench.wait(150);
    bench.settle("data");
    let info = bench.show("data");
    assert_eq!((info.state, info.drives[1].name.as_str()), (VolumeState::Optimal, "c"));
}

/// A spare with a failed write is the cause, and is listed as failed from then on: the next spare
/// takes the slot.
#[test]
fn a_spare_that_cannot_be_written_has_failed_and_the_next_one_has_the_slot() {
    let mut bench = Bench::new(6, 1, 4);
    bench.boot(&["a", "b", "c", "d"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.ask(spare("c")).unwrap();
    bench.ask(spare("d")).unwrap();
    let all = ByteRange::new(ByteOffset::ZERO, ByteCount(crate::common::DRIVE));
    bench.sim.drive("c").unwrap().refuse_writes(all);
    bench.ask(fail_drive("b")).unwrap();
    bench.wait(30);
    bench.settle("data");
    assert_eq!(bench.show("data").drives[1].name, "d", "{:?}", bench.events());
    assert_eq!(bench.drive("c").state, DriveState::Failed);
    bench.sim.drive("c").unwrap().clear_write_errors();
    bench.restart(&[]);
    assert_eq!(bench.drive("c").state, DriveState::Failed);
}

/// "'fast' cannot be started: " ended there, and in other messages the reasons were "()".
#[test]
fn a_volume_that_cannot_be_started_says_why() {
    let mut bench = Bench::new(7, 1, 0);
    bench.add_drives(&["a", "b", "c"], 40 * MIB);
    bench.boot(&[]);
    let small = |wanted: &mut controller::CreateVolume| wanted.size_bytes = Some(MIB);
    bench.create_with("safe", "raid5", &["a", "b", "c"], small).unwrap();
    bench.create_with("fast", "raid0", &["a", "b", "c"], small).unwrap();
    bench.settle("safe");
    bench.sim.drive("b").unwrap().vanish();
    bench.write("safe", 0, 7, 64 << 10);
    bench.wait(5);
    assert_eq!(bench.show("fast").state, VolumeState::Offline);
    let start =
        Command::VolumeStart { volume: "fast".into(), accept_stale_parity: false, degraded: false };
    let error = bench.ask(start).expect_err("its drive is missing");
    assert!(error.message.contains("drive b") && !error.message.contains("()"), "{error}");
    for text in bench.events().into_iter().map(|event| event.text) {
        assert!(!text.contains("()") && !text.trim_end().ends_with(':'), "{text}");
    }
}

/// A measurement of a volume took its address from the folder of another controller.
#[test]
fn the_controller_says_where_volumes_are_served() {
    let mut bench = Bench::new(8, 1, 1);
    bench.boot(&[]);
    let Ok(Reply::Info { info }) = bench.ask(Command::Info {}) else {
        panic!("the measurement command is listed")
    };
    assert_eq!(info.nbd, ["unix:/run/nbd.sock"]);
}
