//! Credits, signals, answers, mailboxes.

use platform::mailbox::{Full, mailbox};
use platform::sync::{Credits, Signal, answer};
use platform_sim::{Sim, SimOptions, StallKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Takers in this order, each holding its credits for a millisecond; when each got them.
fn when_taken(total: u64, takers: &[u64]) -> Vec<u64> {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let credits = Credits::new(&env, total);
    let tasks: Vec<_> = takers
        .iter()
        .map(|count| {
            let (env, credits, count) = (env.clone(), credits.clone(), *count);
            env.clone().spawn("taker", async move {
                let _taken = credits.take(count).await;
                let got = env.now();
                env.sleep(MS).await;
                got.ns / 1_000_000
            })
        })
        .collect();
    let when = tasks.iter().map(|task| sim.finish(task).unwrap()).collect();
    assert_eq!(credits.free(), total);
    when
}

#[test]
fn credits_are_taken_in_turn_and_a_large_request_is_not_starved() {
    assert_eq!(when_taken(10, &[4, 4, 2]), [0, 0, 0]);
    assert_eq!(when_taken(10, &[4, 10, 1, 1]), [0, 1, 2, 2]);
    assert_eq!(when_taken(10, &[100, 1]), [0, 1], "more than there are counts as all");
}

#[test]
fn trying_for_credits_does_not_overtake_who_waits() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let credits = Credits::new(&env, 3);
    let first = credits.try_take(2).unwrap();
    assert!(credits.try_take(2).is_none());
    let (waiting, holder) = (credits.clone(), env.clone());
    let waiter = env.spawn("waiter", async move {
        let taken = waiting.take(3).await;
        holder.sleep(MS).await;
        drop(taken);
    });
    sim.step();
    assert!(credits.try_take(1).is_none(), "one is free, but an earlier request waits");
    drop(first);
    sim.finish(&waiter).unwrap();
    assert_eq!(credits.free(), 3);
}

#[test]
fn a_taker_that_is_given_up_lets_the_next_one_have_its_turn() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let credits = Credits::new(&env, 2);
    let held = credits.try_take(1).unwrap();
    let giving_up = credits.clone();
    let waiting = env.clone();
    env.spawn("gives up", async move {
        let mut take = Box::pin(giving_up.take(2));
        std::future::poll_fn(|context| {
            assert!(take.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        waiting.sleep(MS).await;
    });
    sim.step();
    let next = credits.clone();
    let small = env.spawn("small", async move { drop(next.take(1).await) });
    sim.finish(&small).unwrap();
    assert_eq!(sim.now().ns, 1_000_000);
    drop(held);
    assert_eq!(credits.free(), 2);
}

#[test]
fn a_signal_wakes_everyone_who_waits_and_each_looks_for_itself() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (signal, value) = (Rc::new(Signal::default()), Rc::new(Cell::new(0)));
    let order = Rc::new(RefCell::new(Vec::new()));
    for wanted in [3, 1, 2, 0] {
        let (env, signal, value, order) =
            (env.clone(), signal.clone(), value.clone(), order.clone());
        env.clone().spawn("waiter", async move {
            signal.wait_until(&env, || value.get() >= wanted).await;
            order.borrow_mut().push((wanted, value.get()));
        });
    }
    sim.run_until_idle().unwrap();
    for _ in 0..3 {
        value.set(value.get() + 1);
        signal.notify(&env);
        sim.run_until_idle().unwrap();
    }
    assert_eq!(order.take(), [(0, 0), (1, 1), (2, 2), (3, 3)]);
}

#[test]
fn a_signal_without_a_change_lets_nobody_through() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let signal = Rc::new(Signal::default());
    let (waiting, waiter) = (signal.clone(), env.clone());
    let task = env.spawn("waiter", async move { waiting.wait_until(&waiter, || false).await });
    sim.run_until_idle().unwrap();
    signal.notify(&env);
    assert_eq!(sim.finish(&task).unwrap_err().kind, StallKind::Deadlock);
}

#[test]
fn an_answer_arrives_early_or_late_and_a_lost_one_is_known() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    sim.run(async move {
        let (early, answered) = answer(&env);
        early.give(1);
        assert_eq!(answered.await, Some(1));
        let (late, answered) = answer(&env);
        let giver = env.clone();
        env.spawn("giver", async move {
            giver.sleep(MS).await;
            late.give(2);
        });
        assert_eq!(answered.await, Some(2));
        let (lost, answered) = answer::<u8>(&env);
        let loser = env.clone();
        env.spawn("loser", async move {
            loser.sleep(MS).await;
            drop(lost);
        });
        assert_eq!(answered.await, None);
        let (lost, answered) = answer::<u8>(&env);
        drop(lost);
        assert_eq!(answered.await, None);
    })
    .unwrap();
}

#[test]
fn a_mailbox_holds_its_capacity_and_gives_the_rest_back() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (sender, mut receiver) = mailbox(&env, 2);
    sender.send(1).unwrap();
    sender.clone().send(2).unwrap();
    let Full(back) = sender.send(3).unwrap_err();
    assert_eq!(back, 3);
    sim.run(async move {
        assert_eq!(receiver.receive().await, Some(1));
        sender.send(4).unwrap();
        assert_eq!((receiver.receive().await, receiver.try_receive()), (Some(2), Some(4)));
        assert_eq!(receiver.try_receive(), None);
        drop(receiver);
        assert!(matches!(sender.send(5), Err(Full(5))), "the receiver is dropped");
    })
    .unwrap();
}

#[test]
fn a_receiver_wakes_for_a_message_and_for_the_last_sender_leaving() {
    let mut sim = Sim::new(SimOptions { shards: 2, ..SimOptions::default() });
    let (near, far) = (sim.shard(0), sim.shard(1));
    let (sender, mut receiver) = mailbox(&near, 2);
    let receiving = near.spawn("receiver", async move {
        let mut got = Vec::new();
        while let Some(message) = receiver.receive().await {
            got.push(message);
        }
        got
    });
    far.clone().spawn("sender", async move {
        let other = sender.clone();
        for message in 0..3 {
            far.sleep(MS).await;
            sender.send(message).unwrap();
        }
        drop(sender);
        far.sleep(MS).await;
        other.send(3).unwrap();
        far.sleep(MS).await;
    });
    assert_eq!(sim.finish(&receiving).unwrap(), [0, 1, 2, 3]);
    assert_eq!(sim.now().ns, 5_000_000);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn messages_from_another_thread_are_all_received_in_order() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let (sender, mut receiver) = mailbox(&env, 16);
    let thread = std::thread::spawn(move || {
        for message in 0..20_000u32 {
            let mut message = message;
            while let Err(Full(back)) = sender.send(message) {
                message = back;
                std::thread::yield_now();
            }
        }
    });
    let receiving = env.spawn("receiver", async move {
        let mut next = 0;
        while let Some(message) = receiver.receive().await {
            assert_eq!(message, next);
            next += 1;
        }
        next
    });
    // The simulation is idle whenever the mailbox is empty: step until the task ends.
    while !receiving.is_finished() {
        sim.step();
    }
    assert_eq!(receiving.try_take(), Some(20_000));
    thread.join().unwrap();
}
