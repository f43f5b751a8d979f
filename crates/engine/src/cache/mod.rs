//! Writes that wait for the drives, and who takes them there: the half of the cache that waits, over the half that
//! decides ([`cache`](::cache)).
//!
//! [`Cache`] stands on [`Recovery`]. A write of whole sectors enters the line of its stripe, on levels with redundancy, and
//! on all where the cache answers writes. Its host is answered when it is destaged (write-through), or when it is in its
//! line (write-back).
//!
//! The task of the oldest write of a destage carries it out, for all that are in it; the others sleep. Where the oldest has
//! been answered, a task of the cache does it. What waits while a destage is on its way to the stripe's lock, or to the
//! region's mark, joins it.
//!
//! # Fault model and invariants
//! - What is dirty is in the memory of this shard alone. A flush is answered when all that came before it is destaged, on
//!   every shard, and the drives are flushed after that.
//! - A destage holds its columns of the stripe exclusively, as any write does: trims, tasks and repairs do not have to know
//!   of lines.
//! - Whatever a host is to read is looked for in the line first. Bytes that are completed to sectors are completed from
//!   there, under the lock, and enter the line without having waited since.
//! - Writes of the same bytes that wait together, and of which nobody was answered, are all outstanding: any order of them is
//!   right. The last one's bytes are written, and all are answered with that write.
//! - One write's trouble is not another's: if a plan of several fails, each of them is tried by itself.
//! - What was answered and cannot be destaged is pinned. As long as anything is, hosts wait for the drives again, and hear
//!   what they say.
//! - Whoever waits for room in the cache holds nothing that a destage needs.

mod destage;
mod held;
mod reading;
mod write_back;

pub(crate) use destage::{put, put_part, write_stripe};
pub(crate) use held::{lock_columns, lock_to_write};
pub use write_back::CacheCounters;

use crate::attachment::Attachment;
use crate::recovery::Recovery;
use ::cache::{Destage, Held as Cut, LineShape, Lines, RequestTag, Write};
use env::sync::{Signal, Taken};
use env::{Durability, Env, IoError, Slice};
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};
use write_back::Absorbing;

/// The least columns that a plan of several writes is cut into: a buffer of the pool is not smaller.
const LEAST_RUN: u64 = 4096;

/// The most runs of columns of a plan of several writes.
const MOST_RUNS: usize = 32;

/// The writes of a volume that wait on this shard.
pub struct Cache {
    recovery: Rc<Recovery>,
    lines: RefCell<Lines<Held>>,
    /// How writes are answered that are not on the drives yet, if they are.
    absorbing: Option<Absorbing>,
}

impl Deref for Cache {
    type Target = Rc<Recovery>;

    fn deref(&self) -> &Rc<Recovery> {
        &self.recovery
    }
}

/// A write in its line: its bytes, and who is told of it.
#[derive(Clone)]
struct Held {
    data: Slice,
    write: Rc<Waiting>,
}

impl Cut for Held {
    fn cut(&self, at: ByteCount, len: ByteCount) -> Held {
        Held { data: self.data.cut(at, len), write: self.write.clone() }
    }
}

/// A write that waits, and what it is told.
struct Waiting {
    durability: Durability,
    /// What it takes of the cache's room, where it has been answered: until the last part of it is destaged.
    _room: Option<Taken>,
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

/// A write that is in its line.
pub(crate) enum Admitted {
    /// Its host may be answered.
    Answered,
    /// Its host is answered when it is destaged.
    Waits(Waits),
}

/// What waits for a destage.
pub(crate) struct Waits(Rc<Waiting>);

impl Cache {
    /// A cache in which nothing waits.
    pub(crate) fn new(recovery: Rc<Recovery>, attachment: &Attachment) -> Rc<Cache> {
        let geometry = recovery.geometry();
        let shape = LineShape {
            stripe: geometry.stripe_bytes(),
            strip: geometry.strip().bytes(),
            parity_strips: geometry.parity_strips(),
            most_runs: ((geometry.strip().bytes().0 / LEAST_RUN) as usize).clamp(1, MOST_RUNS),
        };
        let lines = RefCell::new(Lines::new(shape));
        let absorbing = attachment.write_back.then(|| Absorbing::new(&recovery));
        let cache = Rc::new(Cache { lines, absorbing, recovery });
        if let Some(absorbing) = &cache.absorbing {
            absorbing.run_destages_of(&cache);
        }
        cache
    }

    /// What the rooms below serve.
    pub(crate) fn recovery(&self) -> &Rc<Recovery> {
        &self.recovery
    }

    /// Whether writes of whole sectors go through lines.
    pub(crate) fn uses_lines(&self) -> bool {
        self.is_redundant() || self.uses_write_back()
    }

    /// Checks what must hold of the lines between any two steps.
    ///
    /// # Errors
    /// A sentence about somebody's mistake.
    pub(crate) fn check_lines(&self) -> Result<(), String> {
        self.lines.borrow().check()
    }

    /// Admits a write to its line. `room`: what it takes of the cache's, if its host is to be answered.
    pub(crate) fn admit(
        self: &Rc<Self>,
        stripe: StripeIndex,
        range: ByteRange,
        data: Slice,
        durability: Durability,
        room: Option<Taken>,
        request: RequestTag,
    ) -> Admitted {
        let answered = room.is_some();
        let (told, changed) = (RefCell::new(None), Signal::default());
        let waiting = Rc::new(Waiting { durability, _room: room, told, changed });
        let (columns, held) = (self.columns(range), Held { data, write: waiting.clone() });
        self.lines.borrow_mut().admit(stripe, Write { range, columns, request, answered, held });
        self.begin(stripe);
        if !answered {
            return Admitted::Waits(Waits(waiting));
        }
        self.note_absorbed();
        Admitted::Answered
    }

    /// Begins what may be destaged of a line now.
    fn begin(&self, stripe: StripeIndex) {
        loop {
            let mut lines = self.lines.borrow_mut();
            let Some(destage) = lines.begin(stripe) else { return };
            let oldest = lines.oldest_of(&destage).map(|write| (write.answered, write.held.write.clone()));
            drop(lines);
            match (oldest, &self.absorbing) {
                (Some((false, oldest)), _) => oldest.tell(self.shard.env(), Told::CarryOut(destage)),
                (Some((true, _)), Some(absorbing)) => absorbing.give(destage),
                _ => panic!("{destage:?} begins for a write that somebody carries out"),
            }
        }
    }

    /// A destage is done: what waited for it goes on, in its line and in the next.
    fn end(self: &Rc<Self>, destage: &Destage, failed: &[usize]) {
        let behind = self.lines.borrow_mut().end(destage, failed);
        for write in behind {
            write.held.write.tell(self.shard.env(), Told::Done(Err(self.last_error())));
        }
        self.begin(destage.stripe);
        self.begin(StripeIndex(destage.stripe.0 + 1));
        self.note_ended();
    }
}

impl Admitted {
    /// Waits until the host may be answered.
    ///
    /// # Errors
    /// Those of [`Volume::write`](crate::Volume::write).
    pub(crate) async fn done(self, cache: &Rc<Cache>) -> Result<(), IoError> {
        match self {
            Admitted::Answered => Ok(()),
            Admitted::Waits(Waits(waiting)) => destage::wait(cache, &waiting).await,
        }
    }
}

/// Names the requests of a shard's hosts.
pub(crate) fn request_tag(shard: crate::messages::ShardIndex, number: u64) -> RequestTag {
    RequestTag(u64::from(shard.0) << 48 | number)
}
