//! Writes that wait for the drives, and who takes them there: the half of the cache that waits, over the half that
//! decides ([`block_cache`]).
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
//! - What is dirty is in cells of this shard ([`Stored`](crate::shard::Stored)), which outlive the process and not the power. A flush
//!   is answered when all that came before it is destaged, on every shard, and the drives are flushed after that.
//! - Before a host is told that its write is on the drives, nothing older is kept of the cells that it touches: a kill would lay
//!   that over it. So such a write takes along, or waits for, what is dirty in all of these cells, and fails with that.
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

mod clean;
mod data_log;
mod destage;
mod held;
mod locked;
mod map;
mod reading;
mod restored;
mod write_back;

pub(crate) use clean::AheadRead;
pub(crate) use destage::{put, put_alone, put_copies, put_part, put_stripes, write_stripe};
pub(crate) use locked::{lock_columns, lock_to_write};

use crate::attachment::Attachment;
use crate::memory::{Absorb, CacheTerms};
use crate::recovery::Recovery;
use crate::shard::Room;
use ::block_cache::{Destage, LineShape, Lines, RequestTag, Write};
use clean::Reads;
use data_log::Promises;
use held::Held;
use platform::sync::Signal;
use platform::{Durability, Env, IoError, Slice, Words};
use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;
use units::{ByteOffset, ByteRange, StripeIndex};
use volume_state::RegionIndex;
use write_back::Absorbing;
use write_log::CELL;

/// The least columns that a plan of several writes is cut into: a buffer of the pool is not smaller.
const LEAST_RUN: u64 = 4096;

/// The most runs of columns of a plan of several writes.
const MOST_RUNS: usize = 32;

/// The writes of a volume that wait on this shard.
pub struct Cache {
    recovery: Rc<Recovery>,
    lines: RefCell<Lines<Held>>,
    /// Which of the volumes it is that the cache's memory knows.
    index: Cell<Option<u32>>,
    /// Where what it has is to be seen from outside.
    gauge: Option<Words>,
    /// Which writes are answered that are not on the drives yet.
    absorb: Cell<Absorb>,
    absorbing: Absorbing,
    reads: Reads,
    promises: Promises,
    /// Where what was found in a data log lies, which may be replayed as long as that is not fenced.
    restored: RefCell<Vec<ByteRange>>,
}

impl Deref for Cache {
    type Target = Rc<Recovery>;

    fn deref(&self) -> &Rc<Recovery> {
        &self.recovery
    }
}

/// A write that waits, and what it is told.
struct Waiting {
    durability: Durability,
    told: RefCell<Option<Told>>,
    changed: Signal,
    /// A record of the data log has all of it that is dirty, or will have before anything is promised.
    is_logged: Cell<bool>,
}

/// What a write is told that waits.
enum Told {
    /// To carry out a destage of which it is the oldest.
    CarryOut(Destage),
    /// What became of it.
    Done(Result<(), IoError>),
}

impl Waiting {
    fn new(durability: Durability) -> Rc<Waiting> {
        Rc::new(Waiting {
            durability,
            told: RefCell::new(None),
            changed: Signal::default(),
            is_logged: Cell::new(false),
        })
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

/// A write that is in its line.
pub(crate) enum Admitted {
    /// Its host may be answered, if it asked for nothing more.
    Answered(Absorbed),
    /// Its host is answered when it is destaged.
    Waits(Waits),
}

/// What waits for a destage.
pub(crate) struct Waits(Rc<Waiting>);

/// What is in the cache.
pub(crate) struct Absorbed(Rc<Waiting>);

impl Cache {
    /// A cache in which nothing waits.
    pub(crate) fn new(recovery: Rc<Recovery>, attachment: &Attachment) -> Rc<Cache> {
        let geometry = recovery.geometry();
        let shape = LineShape {
            stripe: geometry.stripe_bytes(),
            strip: geometry.strip().bytes(),
            parity_strips: geometry.parity_strips(),
            cell: CELL,
            most_runs: ((geometry.strip().bytes().0 / LEAST_RUN) as usize).clamp(1, MOST_RUNS),
        };
        let lines = RefCell::new(Lines::new(shape));
        let CacheTerms { index, absorb, found, gauge, marks } = attachment.cache.clone();
        let absorbing = Absorbing::new(&recovery, marks);
        let (index, absorb) = (Cell::new(index), Cell::new(absorb));
        let cells = recovery.shard.cells();
        let is_mine = |range: ByteRange| recovery.is_mine(geometry.stripe_of(range.start).0);
        cells.adopt(found.iter().filter(|found| is_mine(found.descriptor.bytes.range())));
        let promises = Promises::new(&attachment.data_log);
        let reads = Reads::default();
        let restored = RefCell::default();
        let cache =
            Rc::new(Cache { lines, index, gauge, absorb, absorbing, reads, promises, restored, recovery });
        cache.set_reads(attachment.reads);
        cache.absorbing.run_destages_of(&cache);
        cache.take_up();
        cache.note_part();
        cache.restore(&attachment.restored);
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

    /// Whether whole stripes of a region that follow one another may be written together: nothing is dirty, nothing missing, and
    /// nothing lost that such a write would bring back.
    pub(crate) fn writes_together(&self, region: RegionIndex) -> bool {
        self.is_redundant() && self.is_well(region) && !self.uses_write_back()
    }

    /// Checks what must hold of the lines between any two steps.
    ///
    /// # Errors
    /// A sentence about somebody's mistake.
    pub(crate) fn check_lines(&self) -> Result<(), String> {
        self.lines.borrow().check()
    }

    /// Takes up what is in cells of the volume: what an earlier process left, or what could not be destaged when it was served before.
    fn take_up(self: &Rc<Self>) {
        let Some(index) = self.index.get() else { return };
        let left = self.shard.cells().all_of(index);
        if left.is_empty() {
            return;
        }
        self.absorb.set(self.absorb.get().max(Absorb::NoMore));
        let waiting = Waiting::new(Durability::Cached);
        for stored in left {
            let bytes = stored.range();
            let (stripe, within) = self.geometry().stripe_of(bytes.start);
            let range = ByteRange::new(ByteOffset(within.0), bytes.len);
            self.admit_found(stripe, range, Held::in_cells(stored, waiting.clone()));
        }
        self.note_dirty();
    }

    /// Bytes of a stripe that hosts of an earlier process were answered for are dirty.
    fn admit_found(&self, stripe: StripeIndex, range: ByteRange, held: Held) {
        let (columns, request) = (self.columns(stripe, range), RequestTag(0));
        self.lines.borrow_mut().admit(stripe, Write { range, columns, request, answered: true, held });
        self.begin(stripe);
    }

    /// Where bytes of a stripe are in the volume.
    pub(crate) fn in_volume(&self, stripe: StripeIndex, range: ByteRange) -> ByteRange {
        let start = ByteOffset(stripe.0 * self.geometry().stripe_bytes().0 + range.start.0);
        ByteRange::new(start, range.len)
    }

    /// The columns of a write whose host waits: those of all the cells that it touches, if something may be in them.
    fn columns_of_cells(&self, stripe: StripeIndex, range: ByteRange) -> Range<u32> {
        match self.uses_write_back() {
            true => self.columns(stripe, range.align_out(CELL)),
            false => self.columns(stripe, range),
        }
    }

    /// Admits a write to its line. `room`: what it takes of the cache's memory, if its host is to be answered, and still may be.
    pub(crate) fn admit(
        self: &Rc<Self>,
        stripe: StripeIndex,
        range: ByteRange,
        data: Slice,
        durability: Durability,
        room: Option<Room>,
        request: RequestTag,
    ) -> Admitted {
        // It has waited since it got that, and nobody may look for what is dirty any more.
        let room = room.filter(|_| self.answers(durability));
        let answered = room.is_some();
        // What no record will have is promised by the drives.
        let durability = match !answered && self.logs_every_write() && self.promises.are_logged() {
            true => Durability::Durable,
            false => durability,
        };
        let waiting = Waiting::new(durability);
        let (columns, held) = match room {
            Some(room) => {
                let start = self.in_volume(stripe, range).start;
                let index = self.index.get().expect("what is answered has a place in the memory");
                let stored = self.shard.cells().store(index, start, &data, room);
                (self.columns(stripe, range), Held::in_cells(stored, waiting.clone()))
            }
            None => (self.columns_of_cells(stripe, range), Held::given(data, waiting.clone())),
        };
        self.lines.borrow_mut().admit(stripe, Write { range, columns, request, answered, held });
        self.begin(stripe);
        if !answered {
            return Admitted::Waits(Waits(waiting));
        }
        self.promises.note_dirty(stripe);
        self.note_absorbed();
        Admitted::Answered(Absorbed(waiting))
    }

    /// Begins what may be destaged of a line now.
    fn begin(&self, stripe: StripeIndex) {
        loop {
            let mut lines = self.lines.borrow_mut();
            let Some(destage) = lines.begin(stripe) else { return };
            let oldest = lines.oldest_of(&destage).map(|write| (write.answered, write.held.write.clone()));
            drop(lines);
            match oldest {
                Some((false, oldest)) => oldest.tell(self.shard.env(), Told::CarryOut(destage)),
                Some((true, _)) => self.absorbing.give(destage),
                None => panic!("{destage:?} begins for a write"),
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
        self.note_line(destage.stripe);
        self.note_ended();
    }
}

impl Admitted {
    /// Waits until the host may be answered.
    ///
    /// # Errors
    /// Those of [`Volume::write`](crate::Volume::write).
    pub(crate) async fn done(self, cache: &Rc<Cache>, stripe: StripeIndex) -> Result<(), IoError> {
        match self {
            Admitted::Answered(Absorbed(write)) => match cache.is_kept(&write) && !cache.logs_every_write() {
                true => Ok(()),
                false => Box::pin(cache.promise_absorbed(stripe, &write)).await,
            },
            Admitted::Waits(Waits(waiting)) => {
                destage::wait(cache, &waiting).await?;
                match cache.is_kept(&waiting) || !cache.uses_write_back() {
                    true => Ok(()),
                    false => Box::pin(cache.promise_written(stripe)).await,
                }
            }
        }
    }
}

/// Names the requests of a shard's hosts.
pub(crate) fn request_tag(shard: crate::messages::ShardIndex, number: u64) -> RequestTag {
    RequestTag(u64::from(shard.0) << 48 | number)
}
