//! The state of a volume's durability: its data log, and what no record has. See
//! [`data_log`](crate::cache::data_log).

use crate::attachment::{DataLogPlace, DataLogTerms};
use crate::members::Drives;
use crate::stripe::{Devices, Medium, RecordRing};
use ::block_cache::Sequence;
use platform::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use units::{ByteCount, StripeIndex};
use write_log::LogId;

/// The durability state of a volume on a shard.
#[derive(Default)]
pub(super) struct Promises {
    pub(super) log: RefCell<Option<Rc<DataLog>>>,
    /// Records of an earlier start may be live.
    pub(super) is_unfenced: Cell<bool>,
    /// Lines that may have dirty data without a record.
    pub(super) unlogged: RefCell<BTreeSet<StripeIndex>>,
    /// Lines that the next holder of `turn` must log.
    pub(super) wanted: RefCell<BTreeSet<StripeIndex>>,
    /// Counts writes on the drives without a record, and those of them that a flush has covered.
    pub(super) written: Cell<u64>,
    pub(super) flushed: Cell<u64>,
    /// Stripes selected for the next record, with their data as of that time. Waiting for space may
    /// take long.
    pub(super) about_to_be_logged: RefCell<BTreeSet<StripeIndex>>,
    /// Newer data of such a stripe reached the drives meanwhile.
    pub(super) is_out_of_date: Cell<bool>,
    pub(super) is_making_room: Cell<bool>,
    pub(super) changed: Signal,
}

/// A live record.
pub(super) struct Speaker {
    pub(super) number: u64,
    /// The number of stripes that it covers.
    pub(super) stripes: usize,
    /// The latest write that may be in it.
    pub(super) latest: Sequence,
}

/// The ring of this shard.
pub(super) struct DataLog {
    pub(super) records: RecordRing,
    pub(super) len: ByteCount,
    pub(super) speakers: RefCell<VecDeque<Speaker>>,
    /// Records before this one are overtaken: the drives have newer, unlogged data of their
    /// stripes.
    pub(super) overtaken: Cell<u64>,
}

impl DataLog {
    pub(super) fn new(drives: &Drives, place: &DataLogPlace) -> Result<DataLog, String> {
        let shard = &drives.shard;
        let len = write_log::ring_len(place.len, shard.count()).ok_or_else(|| {
            format!("a data log of {} is too short for {} shards", place.len, shard.count())
        })?;
        let devices = Devices::attach(shard.env(), &drives.spec, &place.devices)
            .map_err(|error| error.to_string())?;
        let (id, medium) = (LogId(place.id.0), Medium::Devices(place.at, devices));
        Ok(DataLog {
            records: RecordRing::new(shard.env(), id, medium, shard.index().0, len),
            len,
            speakers: RefCell::default(),
            overtaken: Cell::new(0),
        })
    }

    pub(super) fn is_overtaken(&self) -> bool {
        self.overtaken.get() > self.records.ring().counts_from()
    }

    /// Completes records without remaining dirty data; a flush of the drives then retires them.
    /// `oldest`: the oldest dirty write.
    pub(super) fn settle(&self, oldest: Option<Sequence>) {
        let mut speakers = self.speakers.borrow_mut();
        while let Some(done) =
            speakers.pop_front_if(|speaker| oldest.is_none_or(|oldest| oldest > speaker.latest))
        {
            for _ in 0..done.stripes {
                self.records.ring_mut().end(done.number);
            }
        }
    }

    /// The latest write that must be destaged to retire the older half of the records.
    pub(super) fn latest_of_older_half(&self) -> Option<Sequence> {
        let speakers = self.speakers.borrow();
        speakers.get(speakers.len() / 2).map(|speaker| speaker.latest)
    }
}

impl Promises {
    /// The state at the attachment of a volume.
    pub(super) fn new(terms: &DataLogTerms) -> Promises {
        assert!(
            !matches!(terms, DataLogTerms::At(_)),
            "a data log is opened once its volume is attached"
        );
        let promises = Promises::default();
        promises.is_unfenced.set(matches!(terms, DataLogTerms::Unfenced));
        promises
    }

    /// Whether durable writes are acknowledged by records.
    pub(super) fn are_logged(&self) -> bool {
        self.log.borrow().is_some()
    }

    pub(super) fn log(&self) -> Option<Rc<DataLog>> {
        self.log.borrow().clone()
    }

    /// Ends the selection for the next record.
    pub(super) fn none_waits(&self) {
        self.about_to_be_logged.take();
        self.is_out_of_date.set(false);
    }

    /// Notes unlogged dirty data of a line.
    pub(super) fn note_dirty(&self, stripe: StripeIndex) {
        if self.are_logged() {
            self.unlogged.borrow_mut().insert(stripe);
        }
    }
}
