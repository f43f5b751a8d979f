//! Clean data: read cache and read-ahead.
//!
//! # Invariants
//! - The read cache holds the content of the drives, or their content before a write that is still
//!   in progress: rules of [`Clean`](::block_cache::Clean), and of
//!   [`stripe::clean`](crate::stripe).
//! - Dirty data overrides it: both are looked up at the same moment.
//! - Unreadable blocks are never served from here.

use crate::attachment::ReadTerms;
use crate::cache::Cache;
use crate::shard::Fill;
use ::block_cache::{Ahead, RequestTag, StreamName};
use platform::{Buf, IoError, Slice};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// Read-ahead per stream and drive in use. A rotating drive must read several times as long as the
/// seek from another stream takes, about 6 ms.
const AHEAD_ROTATING: u64 = 4 << 20;
const AHEAD_FLASH: u64 = 256 << 10;

/// A read-ahead of a part of a stripe.
pub(crate) struct AheadRead {
    stripe: StripeIndex,
    within: ByteRange,
    is_hollow: bool,
    fill: Fill,
}

impl Cache {
    /// The read cache settings of the volume.
    pub fn read_terms(&self) -> ReadTerms {
        self.reads.terms.get()
    }

    /// Changes the read cache settings of the volume.
    pub(crate) fn set_reads(&self, terms: ReadTerms) {
        self.reads.terms.set(terms);
        self.set_keeps(terms.keeps_any());
        if !terms.keeps_any() {
            self.shard.clean().forget(self.spec.id.0);
            self.reads.streams.take();
        }
    }

    /// The read cache settings of the volume.
    pub fn reads(&self) -> ReadTerms {
        self.reads.terms.get()
    }

    /// Removes the volume from the read cache: it is detached.
    pub(crate) fn forget_reads(&self) {
        self.set_reads(ReadTerms::default());
    }

    /// Whether reads use the read cache, and streams are tracked.
    pub(crate) fn follows_reads(&self) -> bool {
        self.clean.keeps()
    }

    /// Whether a read must look in the read cache, or fill it.
    pub(crate) fn wants_read(&self, stripe: StripeIndex, within: ByteRange) -> bool {
        self.reads.terms.get().cached || self.shard.clean().has_any(self.line_name(stripe), within)
    }

    /// Tracks a host's read of a stripe of this shard. Returns the range to read ahead.
    pub(crate) fn follow(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
        of: RequestTag,
    ) -> Option<Ahead> {
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

    /// Continues a stream that another shard has tracked.
    pub(crate) fn expect(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
        window: ByteCount,
    ) -> StreamName {
        let range = self.in_volume(stripe, within);
        self.reads.streams.borrow_mut().expect(range, window)
    }

    /// The most bytes to read ahead of each stream.
    fn most_ahead(&self, streams: usize) -> ByteCount {
        let room = self.shard.clean().room().0 / 2 / (streams.max(1) as u64);
        let most =
            self.reads.terms.get().most_ahead.map_or_else(|| self.drives_ahead(), |most| most.0);
        ByteCount(most.min(room)).align_down(self.spec.sector.bytes())
    }

    fn drives_ahead(&self) -> u64 {
        let drives = self.in_service();
        let members = drives.iter().filter_map(|drive| self.members.get(drive));
        members
            .map(|member| if member.info().rotational { AHEAD_ROTATING } else { AHEAD_FLASH })
            .sum()
    }

    /// Begins a read-ahead of a stripe's bytes. Skips bytes that are cached or being read.
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

    /// Performs a read-ahead. Failed reads are not cached: a later host read gets the error.
    pub(crate) async fn read_ahead(self: &Rc<Self>, ahead: AheadRead) {
        let AheadRead { stripe, within, is_hollow, fill } = ahead;
        let buf =
            if is_hollow { Buf::hollow(within.len) } else { self.shard.clean().buffer(within.len) };
        if let (Ok(()), Some(buf)) = self.read_stripe(stripe, within, buf).await {
            fill.give(buf.freeze());
        }
        self.publish();
    }

    /// Waits for reads in progress of these bytes, if the read cache is in use.
    pub(super) async fn come(&self, stripe: StripeIndex, within: ByteRange) {
        if self.follows_reads() {
            self.shard.clean().wait_for(self.line_name(stripe), within).await;
        }
    }

    /// The bytes of a host's read that the read cache has.
    pub(super) fn ask_clean(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
    ) -> SmallVec<[(ByteRange, Slice); 4]> {
        match self.follows_reads() && !self.is_lost(stripe, within) {
            true => self.shard.clean().ask(
                self.line_name(stripe),
                within,
                self.reads.terms.get().cached,
            ),
            false => SmallVec::new(),
        }
    }

    /// Begins cache fills for a host's read, if the volume caches reads.
    pub(super) fn begin_fills(
        &self,
        stripe: StripeIndex,
        parts: &[ByteRange],
    ) -> SmallVec<[(ByteRange, Fill); 1]> {
        if !self.reads.terms.get().cached || !self.may_fill() {
            return SmallVec::new();
        }
        let line = self.line_name(stripe);
        let begun = parts
            .iter()
            .filter_map(|part| Some((*part, self.shard.clean().begin_fill(line, *part)?)));
        begun.collect()
    }
}

/// Completes fills with the result of the read.
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
