//! The cache: writes that wait for a destage, and the tasks that destage them. The pure decisions
//! are in [`block_cache`].
//!
//! [`Cache`] uses [`Recovery`]. A write of whole sectors enters its stripe's line, on levels with
//! redundancy, and on all levels with write-back. Its host is acknowledged after the destage
//! (write-through), or when the write is in its line (write-back).
//!
//! The task of a destage's oldest write carries it out for all its writes. If the oldest is
//! acknowledged, a cache task does so. Later writes join while the destage waits for the stripe's
//! lock or the mark.
//!
//! # Fault model and invariants
//! - Dirty data is in cache blocks of this shard ([`Stored`](crate::shard::Stored)), which survive
//!   a crash of the process, but no power cut. A flush is acknowledged when all shards have
//!   destaged earlier writes and the drives are flushed afterwards.
//! - Before a write on the drives is acknowledged, the cache blocks that it touches hold no older
//!   data: after a crash that data would override it. So the write includes or awaits the dirty
//!   data of these cache blocks, and fails with it.
//! - A destage locks its columns of the stripe exclusively, as any write: trims, tasks and repairs
//!   need not know of lines.
//! - Reads look in the line first. Partial sectors are completed from it, under the lock, and enter
//!   the line at once.
//! - Waiting, unacknowledged writes of the same bytes are all outstanding: any order is right. The
//!   last one's bytes are written, and all are acknowledged with them.
//! - A failed plan of several writes is split: each write is tried alone.
//! - Acknowledged data that cannot be destaged is preserved. Meanwhile hosts wait for the drives,
//!   and get their errors.
//! - A task that waits for cache space holds nothing that a destage needs.

mod absorbing;
mod clean;
mod data_log;
mod destage;
mod held;
mod locked;
mod map;
mod promises;
mod reading;
mod restored;
mod write_back;

pub(crate) use clean::AheadRead;
pub(crate) use destage::{
    Alone, alone, put, put_after_copies, put_alone, put_part, put_stripes, write_stripe,
    written_alone,
};
pub(crate) use locked::{lock_columns, lock_to_write};

use crate::attachment::{Attachment, ReadTerms};
use crate::memory::{Absorb, CacheTerms};
use crate::recovery::Recovery;
use crate::shard::Room;
use ::block_cache::{Destage, LineShape, Lines, RequestTag, Streams, Write};
use absorbing::Absorbing;
use held::{Held, Told, Waiting};
use platform::{Durability, Slice, Words};
use promises::Promises;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;
use units::{ByteOffset, ByteRange, StripeIndex};
use volume_state::RegionIndex;
use write_log::CELL;

/// The shortest run of columns in a plan of several writes; pool buffers are at least this long.
const LEAST_RUN: u64 = 4096;

/// The most runs of columns in a plan of several writes.
const MOST_RUNS: usize = 32;

/// The cache of a volume on one shard, with its waiting writes.
pub struct Cache {
    recovery: Rc<Recovery>,
    lines: RefCell<Lines<Held>>,
    /// The volume's index in the cache memory.
    index: Cell<Option<u32>>,
    /// The counters that outside readers see.
    gauge: Option<Words>,
    /// Which writes are acknowledged before they are on the drives.
    absorb: Cell<Absorb>,
    absorbing: Absorbing,
    reads: Reads,
    promises: Promises,
    /// Ranges restored from a data log. Its records may be replayed until they are fenced.
    restored: RefCell<Vec<ByteRange>>,
}

impl Deref for Cache {
    type Target = Rc<Recovery>;

    fn deref(&self) -> &Rc<Recovery> {
        &self.recovery
    }
}

/// The read cache settings and streams of a volume on a shard.
#[derive(Default)]
struct Reads {
    terms: Cell<ReadTerms>,
    streams: RefCell<Streams>,
}

/// A write that has entered its line.
pub(crate) enum Admitted {
    /// It may be acknowledged now, unless durability was requested.
    Answered(Absorbed),
    /// It is acknowledged after its destage.
    Waits(Waits),
}

/// A write that waits for its destage.
pub(crate) struct Waits(Rc<Waiting>);

/// A write in the cache.
pub(crate) struct Absorbed(Rc<Waiting>);

impl Cache {
    /// A cache without waiting writes.
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
        let cache = Rc::new(Cache {
            lines,
            index,
            gauge,
            absorb,
            absorbing,
            reads,
            promises,
            restored,
            recovery,
        });
        cache.set_reads(attachment.reads);
        cache.run_destages();
        cache.take_up();
        cache.note_part();
        cache.restore(&attachment.restored);
        cache
    }

    /// The layer below the cache.
    pub(crate) fn recovery(&self) -> &Rc<Recovery> {
        &self.recovery
    }

    /// Whether writes of whole sectors go through lines.
    pub(crate) fn uses_lines(&self) -> bool {
        self.is_redundant() || self.uses_write_back()
    }

    /// Whether consecutive whole stripes of a region may be written together: no data is dirty, no
    /// drive missing, and no block lost.
    pub(crate) fn writes_together(&self, region: RegionIndex) -> bool {
        self.is_redundant() && self.is_well(region) && !self.uses_write_back()
    }

    /// Checks invariants of the lines that hold between any two steps.
    ///
    /// # Errors
    /// A description of the programming error.
    pub(crate) fn check_lines(&self) -> Result<(), String> {
        self.lines.borrow().check()
    }

    /// Adopts cached data of the volume, left by an earlier process or after a failed destage.
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

    /// Adds dirty bytes of a stripe that an earlier process acknowledged.
    fn admit_found(&self, stripe: StripeIndex, range: ByteRange, held: Held) {
        let (columns, request) = (self.columns(stripe, range), RequestTag(0));
        self.lines
            .borrow_mut()
            .admit(stripe, Write { range, columns, request, answered: true, held });
        self.begin(stripe);
    }

    /// The position of a stripe's bytes in the volume.
    pub(crate) fn in_volume(&self, stripe: StripeIndex, range: ByteRange) -> ByteRange {
        let start = ByteOffset(stripe.0 * self.geometry().stripe_bytes().0 + range.start.0);
        ByteRange::new(start, range.len)
    }

    /// The columns of a waiting write: those of all its cache blocks if these may contain data.
    fn columns_of_cells(&self, stripe: StripeIndex, range: ByteRange) -> Range<u32> {
        match self.uses_write_back() {
            true => self.columns(stripe, range.align_out(CELL)),
            false => self.columns(stripe, range),
        }
    }

    /// Adds a write to its line. `room`: its cache space, if the write may be acknowledged from the
    /// cache.
    pub(crate) fn admit(
        self: &Rc<Self>,
        stripe: StripeIndex,
        range: ByteRange,
        data: Slice,
        durability: Durability,
        room: Option<Room>,
        request: RequestTag,
    ) -> Admitted {
        // The setting may have changed since the space was reserved, and dirty data may be
        // unexpected.
        let room = room.filter(|_| self.answers(durability));
        let answered = room.is_some();
        // Without a data log record the drives must make the write durable.
        let durability = match !answered && self.logs_every_write() && self.promises.are_logged() {
            true => Durability::Durable,
            false => durability,
        };
        let waiting = Waiting::new(durability);
        let (columns, held) = match room {
            Some(room) => {
                let start = self.in_volume(stripe, range).start;
                let index = self.index.get().expect("a write-back volume has an index");
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

    /// Begins the destages of a line that are possible now.
    fn begin(&self, stripe: StripeIndex) {
        loop {
            let mut lines = self.lines.borrow_mut();
            let Some(destage) = lines.begin(stripe) else { return };
            let oldest =
                lines.oldest_of(&destage).map(|write| (write.answered, write.held.write.clone()));
            drop(lines);
            match oldest {
                Some((false, oldest)) => oldest.tell(self.shard.env(), Told::CarryOut(destage)),
                Some((true, _)) => self.absorbing.give(destage),
                None => panic!("{destage:?} contains no write"),
            }
        }
    }

    /// Ends a destage: waiting writes of this line and the next continue.
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

/// The tag of a request of a shard's hosts.
pub(crate) fn request_tag(shard: crate::messages::ShardIndex, number: u64) -> RequestTag {
    RequestTag(u64::from(shard.0) << 48 | number)
}
