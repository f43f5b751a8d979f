//! What is kept of what the drives hold: of reads, where the volume keeps them; of streams, what is read ahead.
//!
//! # Invariants
//! - What is kept is what the drives hold, or held when a write that is still under way began: rules of
//!   [`Clean`](::block_cache::Clean), and of [`stripe::clean`](crate::stripe).
//! - What is dirty lies over it: both are looked for at the same moment.
//! - Of blocks that are lost nothing is answered from here.

use crate::attachment::ReadTerms;
use crate::cache::Cache;
use crate::shard::Fill;
use ::block_cache::{Ahead, RequestTag, StreamName, Streams};
use platform::{Buf, IoError, Slice};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// How far ahead of one stream is read for each drive in use: a drive that rotates is to read several times as long as it takes to get
/// there from another stream, which is some 6 ms.
const AHEAD_ROTATING: u64 = 4 << 20;
const AHEAD_FLASH: u64 = 256 << 10;

/// What a volume does with its reads on a shard.
#[derive(Default)]
pub(super) struct Reads {
    terms: Cell<ReadTerms>,
    streams: RefCell<Streams>,
}

/// A part of a stripe that is to be read ahead.
pub(crate) struct AheadRead {
    stripe: StripeIndex,
    within: ByteRange,
    is_hollow: bool,
    fill: Fill,
}

impl Cache {
    /// What the volume does with its reads.
    pub fn read_terms(&self) -> ReadTerms {
        self.reads.terms.get()
    }

    /// What the volume does with its reads from now on.
    pub(crate) fn set_reads(&self, terms: ReadTerms) {
        self.reads.terms.set(terms);
        self.set_keeps(terms.keeps_any());
        if !terms.keeps_any() {
            self.shard.clean().forget(self.spec.id.0);
            self.reads.streams.take();
        }
    }

    /// What the volume does with its reads.
    pub fn reads(&self) -> ReadTerms {
        self.reads.terms.get()
    }

    /// Nothing is kept of the volume any more: it goes away.
    pub(crate) fn forget_reads(&self) {
        self.set_reads(ReadTerms::default());
    }

    /// Whether reads are looked for here, and followed.
    pub(crate) fn follows_reads(&self) -> bool {
        self.clean.keeps()
    }

    /// Whether a read of bytes of a stripe has to look here, or is to be kept.
    pub(crate) fn wants_read(&self, stripe: StripeIndex, within: ByteRange) -> bool {
        self.reads.terms.get().cached || self.shard.clean().has_any(self.line_name(stripe), within)
    }

    /// A host reads bytes of a stripe of this shard. What of the volume is to be read ahead of it.
    pub(crate) fn follow(&self, stripe: StripeIndex, within: ByteRange, of: RequestTag) -> Option<Ahead> {
        if !self.reads.terms.get().read_ahead {
            return None;
        }
        let mut streams = self.reads.streams.borrow_mut();
        let (range, end) = (self.in_volume(stripe, within), ByteOffset(self.spec.capacity.0));
        let most = self.most_ahead(streams.len());
        let ahead = streams.read(range, of, most, end)?;
        let wasted = self.shard.clean().take_wasted(self.spec.id.0, ahead.stream);
        streams.note_wasted(ahead.stream, wasted);
        Some(ahead)
    }

    /// A stream that another shard has followed goes on here, and that is to be read ahead.
    pub(crate) fn expect(&self, stripe: StripeIndex, within: ByteRange, window: ByteCount) -> StreamName {
        let range = self.in_volume(stripe, within);
        self.reads.streams.borrow_mut().expect(range, window)
    }

    /// How far ahead of each of so many streams is read at most.
    fn most_ahead(&self, streams: usize) -> ByteCount {
        let room = self.shard.clean().room().0 / 2 / (streams.max(1) as u64);
        let most = self.reads.terms.get().most_ahead.map_or_else(|| self.drives_ahead(), |most| most.0);
        ByteCount(most.min(room)).align_down(self.spec.sector.bytes())
    }

    fn drives_ahead(&self) -> u64 {
        let drives = self.in_service();
        let members = drives.iter().filter_map(|drive| self.members.get(drive));
        members.map(|member| if member.info().rotational { AHEAD_ROTATING } else { AHEAD_FLASH }).sum()
    }

    /// Begins to read bytes of a stripe ahead for a stream: what is there, or on its way, is not read again.
    pub(crate) fn begin_ahead(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
        stream: StreamName,
        is_hollow: bool,
    ) -> SmallVec<[AheadRead; 2]> {
        if !self.may_fill() {
            return SmallVec::new();
        }
        let (line, whole) = (self.line_name(stripe), self.whole_stripe());
        let begun = self.shard.clean().begin_ahead(line, within, whole, stream).into_iter();
        begun.map(|(within, fill)| AheadRead { stripe, within, is_hollow, fill }).collect()
    }

    /// Reads what has begun. What cannot be read is not kept: whoever asks for it will hear why.
    pub(crate) async fn read_ahead(self: &Rc<Self>, ahead: AheadRead) {
        let AheadRead { stripe, within, is_hollow, fill } = ahead;
        let buf = if is_hollow { Buf::hollow(within.len) } else { self.shard.clean().buffer(within.len) };
        if let (Ok(()), Some(buf)) = self.read_stripe(stripe, within, buf).await {
            fill.give(buf.freeze());
        }
        self.publish();
    }

    /// What is kept of bytes that a host asks for, once what is on its way is there.
    pub(super) async fn come(&self, stripe: StripeIndex, within: ByteRange) {
        if self.follows_reads() {
            self.shard.clean().wait_for(self.line_name(stripe), within).await;
        }
    }

    /// What is kept of bytes that a host asks for.
    pub(super) fn ask_clean(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
    ) -> SmallVec<[(ByteRange, Slice); 4]> {
        match self.follows_reads() && !self.is_lost(stripe, within) {
            true => self.shard.clean().ask(self.line_name(stripe), within, self.reads.terms.get().cached),
            false => SmallVec::new(),
        }
    }

    /// Bytes are about to be read for a host, and are to be kept if the volume keeps what it reads.
    pub(super) fn begin_fills(
        &self,
        stripe: StripeIndex,
        parts: &[ByteRange],
    ) -> SmallVec<[(ByteRange, Fill); 1]> {
        if !self.reads.terms.get().cached || !self.may_fill() {
            return SmallVec::new();
        }
        let line = self.line_name(stripe);
        let begun =
            parts.iter().filter_map(|part| Some((*part, self.shard.clean().begin_fill(line, *part)?)));
        begun.collect()
    }
}

/// They were read, or not, into the buffer of a range.
pub(super) fn end_fills(
    fills: SmallVec<[(ByteRange, Fill); 1]>,
    within: ByteRange,
    result: Result<(), IoError>,
    buf: Option<&Buf>,
) {
    let Some(buf) = buf.filter(|_| result.is_ok()) else { return };
    for (part, fill) in fills {
        fill.give_copy(buf, part.start - within.start, part.len);
    }
}
