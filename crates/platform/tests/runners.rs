//! Tasks that process queued items.

use platform::Runners;
use platform_sim::{Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Completed items, and the millisecond of each.
type Log = Rc<RefCell<Vec<(u32, u64)>>>;

/// Runners with at most `most` tasks, a millisecond per item; and the log of completed items.
fn runners(sim: &Sim, most: usize) -> (Runners<u32>, Log) {
    let env = sim.env();
    let (runners, done) = (Runners::new(&env, "runner", most), Rc::new(RefCell::new(Vec::new())));
    let at = done.clone();
    runners.run(async move |item| {
        env.sleep(MS).await;
        at.borrow_mut().push((item, env.now().ns / 1_000_000));
    });
    (runners, done)
}

#[test]
fn items_are_worked_on_in_order_and_no_more_than_so_many_at_a_time() {
    let mut sim = Sim::new(SimOptions::default());
    let (runners, done) = runners(&sim, 2);
    (0..5).for_each(|item| runners.give(item));
    sim.run_until_idle().unwrap();
    assert_eq!(*done.borrow(), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)]);
}

#[test]
fn a_task_that_is_idle_is_used_before_another_one_is_started() {
    let mut sim = Sim::new(SimOptions::default());
    let (runners, done) = runners(&sim, 100);
    let tasks = |sim: &Sim| sim.env().executor().unfinished_tasks().len();
    for item in 0..10 {
        runners.give(item);
        sim.run_until_idle().unwrap();
        assert_eq!(tasks(&sim), 1);
    }
    (10..13).for_each(|item| runners.give(item));
    sim.run_until_idle().unwrap();
    assert_eq!((done.borrow().len(), tasks(&sim)), (13, 3));
}

#[test]
fn what_came_before_the_work_was_known_is_not_forgotten() {
    let mut sim = Sim::new(SimOptions::default());
    let runners = Runners::new(&sim.env(), "runner", 3);
    (0..5).for_each(|item| runners.give(item));
    let sum = Rc::new(Cell::new(0));
    let seen = sum.clone();
    runners.run(async move |item: u32| seen.set(seen.get() + item));
    sim.run_until_idle().unwrap();
    assert_eq!(sum.get(), 10);
}

#[test]
fn closing_finishes_what_is_there_and_lets_go_of_everything() {
    let mut sim = Sim::new(SimOptions::default());
    let (runners, done) = runners(&sim, 2);
    (0..5).for_each(|item| runners.give(item));
    runners.close();
    sim.run_until_idle().unwrap();
    assert_eq!(done.borrow().len(), 5);
    assert_eq!(Rc::strong_count(&done), 1, "the work is dropped");
    assert!(sim.env().executor().unfinished_tasks().is_empty());
}
