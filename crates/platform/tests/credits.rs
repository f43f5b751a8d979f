//! Credits with several users: a user that returns nothing does not block the others.

use platform::Parts;
use platform::sync::{Credits, Taken};
use platform_sim::{Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A volume whose drives did not respond held all memory and blocked every other volume.
#[test]
fn a_user_that_gives_nothing_back_leaves_the_others_their_parts() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let all = Credits::new(&env, 120);
    let (silent, other) = (all.join(), all.join());
    let kept: Rc<RefCell<Vec<Taken>>> = Rc::default();
    for _ in 0..40 {
        let (silent, kept) = (silent.clone(), kept.clone());
        env.spawn("silent", async move {
            let taken = silent.take(10).await;
            kept.borrow_mut().push(taken);
        });
    }
    sim.finish(&env.spawn("a while", {
        let env = env.clone();
        async move { env.sleep(MS).await }
    }))
    .unwrap();
    assert_eq!(kept.borrow().len(), 9, "a quarter is the other's");
    let waiting = env.clone();
    let served = env.spawn("other", async move {
        for _ in 0..100 {
            let taken = other.take(30).await;
            waiting.sleep(MS).await;
            drop(taken);
        }
        waiting.now()
    });
    let then = sim.finish(&served).unwrap();
    assert_eq!(then.ns / 1_000_000, 101, "it does not wait");
}

/// Two users return their credits: one with large requests is served although the other never stops
/// sending small ones.
#[test]
fn a_large_request_is_not_starved_by_another_users_small_ones() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let all = Credits::new(&env, 100);
    let (large, small) = (all.join(), all.join());
    let is_done = Rc::new(Cell::new(false));
    for nth in 0..20 {
        let (small, env, is_done) = (small.clone(), env.clone(), is_done.clone());
        env.clone().spawn("small", async move {
            env.sleep(MS * nth / 20).await;
            while !is_done.get() {
                let _taken = small.take(10).await;
                env.sleep(MS).await;
            }
        });
    }
    let waiting = env.clone();
    let task = env.spawn("large", async move {
        waiting.sleep(5 * MS).await;
        drop(large.take(70).await);
        is_done.set(true);
        waiting.now()
    });
    assert!(sim.finish(&task).unwrap().ns < 10_000_000);
}

/// An amount that one user alone could take is available next to another user, if the first holds
/// nothing.
#[test]
fn what_is_more_than_may_be_had_beside_others_is_had_alone() {
    let mut sim = Sim::new(SimOptions::default());
    let env = sim.env();
    let all = Credits::new(&env, 100);
    let (one, other) = (all.join(), all.join());
    let held = other.try_take(20).expect("it is free");
    assert!(one.try_take(90).is_none());
    let waiting = one.clone();
    let task = env.spawn("large", async move { drop(waiting.take(100).await) });
    sim.step();
    drop(held);
    sim.finish(&task).unwrap();
    drop(other);
    assert_eq!(all.free(), 100);
    let whole = one.try_take(100).expect("no other user has a share");
    drop(one);
    assert_eq!(all.free(), 0, "shares do not revoke credits in use");
    drop(whole);
    assert_eq!(all.free(), 100);
}

/// Whatever users take, return, join and leave: no user takes another's reserved share, except an
/// amount that such shares always exclude.
#[test]
fn parts_add_up_whatever_happens() {
    let mut random = 7;
    let mut draw = |below: u64| {
        let (next, number) = platform::sync::split_mix(random);
        random = next;
        number % below
    };
    for _ in 0..200 {
        let total = 1 + draw(200);
        let mut parts = Parts::new(total);
        let mut held = [0u64; 5];
        let mut members = [false; 5];
        for _ in 0..300 {
            let user = draw(5) as usize;
            let number = user as u32;
            match draw(6) {
                0 => {
                    parts.join(number);
                    members[user] = true;
                }
                1 => {
                    parts.leave(number);
                    members[user] = false;
                }
                2 | 3 => {
                    let count = 1 + draw(total);
                    let free = total - held.iter().sum::<u64>();
                    let count_of = members.iter().filter(|is| **is).count() as u64;
                    let least = total / (2 * count_of.max(1));
                    let lacking =
                        |of: usize| if members[of] { least.saturating_sub(held[of]) } else { 0 };
                    let others: u64 = (0..5).filter(|of| *of != user).map(lacking).sum();
                    let is_own = members[user] && held[user] + count <= least;
                    let beside = count_of - u64::from(members[user]);
                    let is_alone = held[user] == 0 && count > total - beside * least;
                    let may = count <= free && (is_own || is_alone || free - count >= others);
                    assert_eq!(
                        parts.may_take(number, count),
                        may,
                        "{parts:?}, {number} takes {count}"
                    );
                    if may {
                        parts.take(number, count);
                        held[user] += count;
                    }
                }
                _ => {
                    let count = draw(held[user] + 1);
                    parts.give(number, count);
                    held[user] -= count;
                }
            }
            assert_eq!(parts.free(), total - held.iter().sum::<u64>());
            assert_eq!(parts.held(number), held[user]);
        }
    }
}
