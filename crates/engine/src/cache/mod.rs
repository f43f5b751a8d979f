//! Writes that wait for the drives, and who takes them there: the half of the cache that waits, over the half that
//! decides ([`cache`](::cache)).
//!
//! [`Cache`] stands on [`Recovery`]. A write of whole sectors to a level with redundancy enters the line of its stripe and is
//! answered when it is destaged. The task of the oldest write of a destage carries it out, for all that are in it; the
//! others sleep. What waits while a destage is on its way to the stripe's lock, or to the region's mark, joins it.
//!
//! # Fault model and invariants
//! - Nothing is acknowledged from here: what is in a line is in the memory of its host's request as well. A crash loses
//!   writes that nobody was answered, as it did without a cache.
//! - A destage holds its columns of the stripe exclusively, as any write does: unaligned writes, trims, tasks and repairs
//!   do not have to know of lines.
//! - Writes of the same bytes that wait together are all outstanding: any order of them is right. The last one's bytes are
//!   written, and all are answered with that write.
//! - One write's trouble is not another's: if a plan of several fails, each of them is tried by itself.

mod destage;
mod held;

pub(crate) use destage::{put, put_part, write_stripe};
pub(crate) use held::{lock_columns, lock_to_write};

use crate::recovery::Recovery;
use ::cache::{Destage, LineShape, Lines, RequestTag};
use env::sync::Signal;
use env::{Durability, Env, IoError, Slice};
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use units::StripeIndex;

/// The least columns that a plan of several writes is cut into: a buffer of the pool is not smaller.
const LEAST_RUN: u64 = 4096;

/// The most runs of columns of a plan of several writes.
const MOST_RUNS: usize = 32;

/// The writes of a volume that wait on this shard.
pub struct Cache {
    recovery: Rc<Recovery>,
    lines: RefCell<Lines<Rc<Waiting>>>,
}

impl Deref for Cache {
    type Target = Rc<Recovery>;

    fn deref(&self) -> &Rc<Recovery> {
        &self.recovery
    }
}

/// A write that waits, and what it is told.
struct Waiting {
    data: Slice,
    durability: Durability,
    told: RefCell<Option<Told>>,
    changed: Signal,
}

/// What a write is told that waits.
enum Told {
    /// To carry out a destage of which it is the oldest.
    CarryOut(Destage),
    /// What became of it.
    Done(Result<(), IoError>),
}

impl Waiting {
    fn new(data: Slice, durability: Durability) -> Rc<Waiting> {
        Rc::new(Waiting { data, durability, told: RefCell::new(None), changed: Signal::default() })
    }

    fn tell(&self, env: &Env, what: Told) {
        let before = self.told.replace(Some(what));
        assert!(before.is_none(), "a write is told one thing at a time");
        self.changed.notify(env);
    }

    async fn hear(&self, env: &Env) -> Told {
        self.changed.wait_until(env, || self.told.borrow().is_some()).await;
        match self.told.take() {
            Some(told) => told,
            None => panic!("what a write was told is taken by nobody else"),
        }
    }
}

impl Cache {
    /// A cache in which nothing waits.
    pub(crate) fn new(recovery: Rc<Recovery>) -> Rc<Cache> {
        let geometry = recovery.geometry();
        let shape = LineShape {
            stripe: geometry.stripe_bytes(),
            strip: geometry.strip().bytes(),
            parity_strips: geometry.parity_strips(),
            most_runs: ((geometry.strip().bytes().0 / LEAST_RUN) as usize).clamp(1, MOST_RUNS),
        };
        Rc::new(Cache { lines: RefCell::new(Lines::new(shape)), recovery })
    }

    /// What the rooms below serve.
    pub(crate) fn recovery(&self) -> &Rc<Recovery> {
        &self.recovery
    }

    /// Checks what must hold of the lines between any two steps.
    ///
    /// # Errors
    /// A sentence about somebody's mistake.
    pub(crate) fn check_lines(&self) -> Result<(), String> {
        self.lines.borrow().check()
    }

    /// Begins what may be destaged of a line now.
    fn begin(&self, stripe: StripeIndex) {
        let mut lines = self.lines.borrow_mut();
        while let Some(destage) = lines.begin(stripe) {
            let oldest = lines.oldest_of(&destage).map(|write| write.held.clone());
            let Some(oldest) = oldest else { panic!("{destage:?} begins for a write") };
            oldest.tell(self.shard.env(), Told::CarryOut(destage));
        }
    }

    /// Admits a write to its line.
    fn admit(&self, stripe: StripeIndex, write: ::cache::Write<Rc<Waiting>>) {
        self.lines.borrow_mut().admit(stripe, write);
        self.begin(stripe);
    }

    /// A destage is done: what waited for it goes on, in its line and in the next.
    fn end(&self, destage: &Destage) {
        self.lines.borrow_mut().end(destage);
        self.begin(destage.stripe);
        self.begin(StripeIndex(destage.stripe.0 + 1));
    }
}

/// Names the requests of a shard's hosts.
pub(crate) fn request_tag(shard: crate::messages::ShardIndex, number: u64) -> RequestTag {
    RequestTag(u64::from(shard.0) << 48 | number)
}
