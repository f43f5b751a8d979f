//! Reshape commands for several volumes, with errors at their start or stop.

use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, reshape};
use crate::reshape_along::{ADDS, Scene, arrive, expect_content, lies_on, prepared, task_of};
use controller::{Command, TaskState};
use platform::IoErrorKind;

const SCENE: Scene = Scene { volumes: &[("data", "raid5"), ("more", "raid0")], ..ADDS };

/// The start of the first reshape was recorded up to the last step, for which a drive had no space,
/// and the same for the rollback. The second volume began, and the next start rolled back all of
/// the command, with the data that it had on the new drive.
#[test]
fn nothing_begins_beside_a_beginning_that_was_cut_off() {
    let size = 12 * STRIP;
    let mut cut_off = 0;
    for steps in (0..400).step_by(4) {
        let mut bench = prepared(SCENE, 1, size);
        let ordered = bench.begin_ask(Command::VolumeReshape(SCENE.order()));
        // The reshape begins when it is recorded.
        let recorded = |bench: &Bench| bench.sim.stored("audit.jsonl").unwrap_or_default();
        while !String::from_utf8_lossy(&recorded(&bench)).contains("volume-reshape") {
            bench.sim.step();
        }
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("c").expect("the drive exists").fail_next(
            u64::MAX,
            Some("write"),
            IoErrorKind::OutOfSpace,
        );
        bench.wait(2);
        assert!(ordered.is_finished(), "{steps} events");
        let (first, second) = (bench.show("data").reshape, bench.show("more").reshape);
        let is_cut_off = first.is_none() && second.is_some();
        bench.sim.drive("c").expect("the drive exists").cancel_failures();
        if is_cut_off {
            cut_off += 1;
            bench.wait(10);
            assert_eq!(lies_on(&bench, "more"), 3, "{steps} events: the reshape has not begun");
            // No restart is needed for that.
            bench.wait(120);
            assert_eq!(
                (bench.show("more").reshape, bench.show("data").drives.len()),
                (None, 3),
                "{steps}"
            );
        }
        arrive(&mut bench, SCENE);
        bench.restart(&[]);
        bench.wait(2);
        expect_content(&mut bench, SCENE, size);
        assert_eq!(lies_on(&bench, "data"), lies_on(&bench, "more"), "{steps} events");
    }
    assert!(cut_off > 2, "{cut_off} were interrupted");
}

/// The first volume's task had failed, and waited for a retry: a stop of a queued one waited, and
/// the reshape continued automatically minutes later.
#[test]
fn a_stop_takes_an_order_back_also_where_the_first_volumes_task_has_failed() {
    let size = MIB;
    let mut failed = 0;
    for steps in (0..900).step_by(100) {
        let mut bench = prepared(SCENE, 1, size);
        reshape(&mut bench, SCENE.order());
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("c").expect("the drive exists").fail_next(
            u64::MAX,
            Some("write"),
            IoErrorKind::OutOfSpace,
        );
        bench.wait(5);
        let has_failed = task_of(&mut bench, "data").state == TaskState::Failed;
        let follows = task_of(&mut bench, "more").task;
        bench.ask(Command::TaskPause { task: follows }).expect("the task is paused");
        // The stop cannot be recorded: nothing changes, and paused tasks stay paused.
        let stopped = bench.ask(Command::TaskStop { task: follows });
        bench.wait(2);
        if stopped.is_ok() {
            assert_eq!(task_of(&mut bench, "more").state, TaskState::Paused, "{steps} events");
        }
        bench.sim.drive("c").expect("the drive exists").cancel_failures();
        let stopped = bench.ask(Command::TaskStop { task: follows });
        bench.wait(5);
        if has_failed && stopped.is_ok() {
            failed += 1;
            assert_eq!(task_of(&mut bench, "more").state, TaskState::Stopped, "{steps} events");
            bench.wait(300);
            assert_eq!(
                (lies_on(&bench, "data"), lies_on(&bench, "more")),
                (3, 3),
                "{steps} events"
            );
        }
        if stopped.is_err() {
            let _ = bench.ask(Command::TaskResume { task: follows });
        }
        expect_content(&mut bench, SCENE, size);
    }
    assert!(failed > 0, "its task has failed in no run");
}
