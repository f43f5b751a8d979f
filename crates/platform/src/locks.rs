//! Stripe locks: many readers or one writer of the same columns of a stripe, first come, first
//! served.
//!
//! A lock covers *columns* (a run of byte positions within the strips) of one stripe. So two writes
//! to different columns of a stripe, whose parity differs too, run concurrently.
//!
//! The locks are in a fixed table of buckets, indexed by the stripe's key. Stripes that share a
//! bucket do not wait for each other: they may be of different volumes, one with a drive that does
//! not respond. A task that holds a lock never waits for another one, which excludes deadlocks. A
//! task that needs several tries to take them, and releases all if one is not free.
//!
//! # Invariants
//! - Two holders of a stripe overlap only if both are shared.
//! - A waiter is admitted when it conflicts with no holder and no *earlier* waiter: no waiter
//!   starves.

use crate::waiter::TaskId;
use crate::world::Env;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

/// The mode of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Shared with other readers.
    Shared,
    /// Exclusive.
    Exclusive,
}

/// All columns of a stripe.
pub const ALL_COLUMNS: Range<u32> = 0..u32::MAX;

/// A holder or a waiter.
struct Claim {
    ticket: u64,
    key: u64,
    mode: Mode,
    columns: Range<u32>,
    /// The task to wake; `None` once it holds the lock.
    waiter: Option<TaskId>,
}

impl Claim {
    fn excludes(&self, key: u64, mode: Mode, columns: &Range<u32>) -> bool {
        self.key == key
            && (self.mode == Mode::Exclusive || mode == Mode::Exclusive)
            && self.columns.start < columns.end
            && columns.start < self.columns.end
    }
}

/// Holders and waiters in the order of their arrival.
#[derive(Default)]
struct Bucket {
    claims: RefCell<SmallVec<[Claim; 2]>>,
}

struct Inner {
    env: Env,
    buckets: Vec<Bucket>,
    mask: u64,
    tickets: Cell<u64>,
}

/// The locks of the stripes of one shard.
#[derive(Clone)]
pub struct StripeLocks {
    inner: Rc<Inner>,
}

impl StripeLocks {
    /// A table of at least `count` buckets (rounded up to a power of two).
    pub fn new(env: &Env, count: usize) -> StripeLocks {
        let count = count.max(1).next_power_of_two();
        StripeLocks {
            inner: Rc::new(Inner {
                env: env.clone(),
                buckets: std::iter::repeat_with(Bucket::default).take(count).collect(),
                mask: count as u64 - 1,
                tickets: Cell::new(0),
            }),
        }
    }

    /// Takes the whole stripe `key` at once, if it has no holder and no waiter.
    pub fn try_lock(&self, key: u64, mode: Mode) -> Option<Guard> {
        self.try_lock_columns(key, mode, ALL_COLUMNS)
    }

    /// Takes `columns` of the stripe `key` at once, if no conflicting claim holds or waits.
    pub fn try_lock_columns(&self, key: u64, mode: Mode, columns: Range<u32>) -> Option<Guard> {
        let index = (key & self.inner.mask) as usize;
        let mut claims = self.inner.buckets[index].claims.borrow_mut();
        if claims.iter().any(|claim| claim.excludes(key, mode, &columns)) {
            return None;
        }
        let ticket = self.inner.next_ticket();
        claims.push(Claim { ticket, key, mode, columns, waiter: None });
        Some(Guard { inner: self.inner.clone(), index, ticket })
    }

    /// Waits for the whole stripe `key`.
    pub async fn lock(&self, key: u64, mode: Mode) -> Guard {
        self.lock_columns(key, mode, ALL_COLUMNS).await
    }

    /// Waits for `columns` of the stripe `key`.
    pub async fn lock_columns(&self, key: u64, mode: Mode, columns: Range<u32>) -> Guard {
        if let Some(guard) = self.try_lock_columns(key, mode, columns.clone()) {
            return guard;
        }
        let inner = &self.inner;
        let index = (key & inner.mask) as usize;
        let ticket = inner.next_ticket();
        let waiter = Some(inner.env.executor().current());
        inner.buckets[index].claims.borrow_mut().push(Claim { ticket, key, mode, columns, waiter });
        // From here the guard removes the claim, also if the task is dropped while it waits.
        let guard = Guard { inner: inner.clone(), index, ticket };
        poll_fn(|_| {
            let claims = inner.buckets[index].claims.borrow();
            match claims.iter().find(|claim| claim.ticket == ticket) {
                Some(claim) if claim.waiter.is_some() => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
        guard
    }
}

impl Inner {
    fn next_ticket(&self) -> u64 {
        let ticket = self.tickets.get();
        self.tickets.set(ticket + 1);
        ticket
    }
}

impl Bucket {
    /// Removes a claim and admits the waiters that it blocked.
    fn leave(&self, ticket: u64, env: &Env) {
        let mut claims = self.claims.borrow_mut();
        claims.retain(|claim| claim.ticket != ticket);
        for index in 0..claims.len() {
            if claims[index].waiter.is_none() {
                continue;
            }
            let Claim { key, mode, ref columns, .. } = claims[index];
            if claims[..index].iter().any(|earlier| earlier.excludes(key, mode, columns)) {
                continue;
            }
            // A later holder cannot conflict: `try_lock_columns` refuses it while this one waits.
            if let Some(task) = claims[index].waiter.take() {
                env.executor().wake(task);
            }
        }
    }
}

/// A lock on columns of a stripe, released when dropped.
pub struct Guard {
    inner: Rc<Inner>,
    index: usize,
    ticket: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.buckets[self.index].leave(self.ticket, &self.inner.env);
    }
}
