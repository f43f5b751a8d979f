//! Reshapes stopped by an operator, with errors meanwhile.

use crate::common::events::{End, end};
use crate::common::{Bench, MIB};
use crate::reshape::{STRIP, WAYS, arrive, byte, expect_content, order, prepared, reshape, task};
use controller::{Command, TaskState, VolumeState};
use platform::IoErrorKind;
use std::cell::Cell;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The content that a host writes to strip 0.
const NEW: u8 = 251;

/// A volume whose reshape has begun, and cannot record its first window: its drives have no space
/// from this many events after the command on.
fn left_closed(steps: u64) -> Bench {
    let mut bench = prepared(WAYS[0], 1, MIB + (128 << 10));
    reshape(&mut bench, order(WAYS[0]));
    for _ in 0..steps {
        bench.sim.step();
    }
    bench.sim.drive("c").unwrap().fail_next(u64::MAX, Some("write"), IoErrorKind::OutOfSpace);
    bench.wait(5);
    bench.sim.drive("c").unwrap().cancel_failures();
    bench
}

/// A record of the first window failed, some drives have it, and the reshape is stopped. Hosts
/// wrote before the stop was recorded as well; the next start found the window saved and overwrote
/// these writes.
#[test]
fn what_hosts_write_while_a_move_is_stopped_counts_though_a_record_of_it_failed() {
    let (mut stopped, mut answered) = (0, 0);
    for steps in (0..900).step_by(100) {
        for events in (0..400).step_by(9) {
            let mut bench = left_closed(steps);
            let bytes = bench.show("data").capacity_bytes;
            let id = task(&mut bench).task;
            let stop = bench.begin_ask(Command::TaskStop { task: id });
            let written = bench.begin_write("data", 0, NEW, STRIP);
            let is_written = std::rc::Rc::new(Cell::new(false));
            let (told, env) = (is_written.clone(), bench.sim.env());
            env.spawn("host", async move {
                let done = written.await;
                told.set(done.is_ok());
            });
            for _ in 0..events {
                bench.sim.step();
            }
            let (has_new, is_over) = (is_written.get(), stop.is_finished());
            answered += u64::from(has_new);
            end(&mut bench, End::Killed);
            bench.boot(&NAMES);
            let what = format!("{steps} events, and {events} after the stop");
            let now = bench.try_read("data", 0, STRIP).expect("the volume is online");
            let is = |byte: u8| now.iter().all(|found| *found == byte);
            assert!(is(NEW) || !has_new && is(byte(0)), "{what}: strip 0 holds {} ...", now[0]);
            bench.write("data", 0, byte(0), STRIP);
            arrive(&mut bench);
            expect_content(&mut bench, bytes);
            assert_eq!(bench.show("data").state, VolumeState::Optimal, "{what}");
            if has_new && is_over {
                stopped += 1;
                break;
            }
        }
    }
    assert!(stopped > 5 && answered > 5, "{stopped} stops, {answered} acknowledged writes");
}

/// If the stop of a reshape cannot be recorded, the reshape continues, and hosts get no errors. The
/// volume was once detached from its hosts, and stayed offline when its drives had space again.
#[test]
fn a_stop_that_cannot_be_recorded_is_noticed_by_no_host_and_told_to_whoever_asked() {
    let mut not_stopped = 0;
    for steps in (0..900).step_by(60) {
        let mut bench = prepared(WAYS[0], 1, MIB + (128 << 10));
        let bytes = bench.show("data").capacity_bytes;
        reshape(&mut bench, order(WAYS[0]));
        for _ in 0..steps {
            bench.sim.step();
        }
        bench.sim.drive("c").unwrap().fail_next(u64::MAX, Some("write"), IoErrorKind::OutOfSpace);
        let id = task(&mut bench).task;
        let is_asked = bench.ask(Command::TaskStop { task: id }).is_ok();
        bench.wait(2);
        // The command was acknowledged before the error was known: only the log reported it.
        let told = format!("to try again, run 'softroc task stop {id}'");
        let is_stopped = task(&mut bench).state == TaskState::Stopped;
        assert_eq!(bench.has_event(&told), is_asked && !is_stopped, "{steps} events");
        not_stopped += u32::from(is_asked && !is_stopped);
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{steps} events");
        bench.expect("data", 0, byte(0), STRIP);
        bench.sim.drive("c").unwrap().cancel_failures();
        arrive(&mut bench);
        assert_eq!(bench.show("data").state, VolumeState::Optimal, "{steps} events");
        expect_content(&mut bench, bytes);
    }
    assert!(not_stopped > 1, "{not_stopped} stops were refused");
}
