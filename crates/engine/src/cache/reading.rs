//! Reads of possibly dirty data: from the cache line where present, otherwise from the drives.

use crate::cache::held::Held;
use crate::cache::{Cache, clean};
use ::block_cache::{Held as _, Write};
use platform::{Buf, IoError, IoErrorKind, Slice, Work};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteRange, StripeIndex};

/// Cached ranges of a stripe. Later entries override earlier ones.
type Cached = SmallVec<[(ByteRange, Slice); 2]>;

impl Cache {
    /// Reads a range of one stripe.
    pub(crate) async fn read_cached(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        if !self.uses_write_back() && !self.follows_reads() {
            return self.read_stripe(stripe, within, buf).await;
        }
        Box::pin(self.read_beside_cache(stripe, within, buf)).await
    }

    /// Reads from cache and drives: cached data overrides data from the drives.
    async fn read_beside_cache(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        self.come(stripe, within).await;
        // Looked up before the drive reads: a destage during these reads reaches only some drives,
        // and then leaves the line. Unacknowledged writes are excluded, because they may fail.
        let mut cached: Cached = self.ask_clean(stripe, within).into_iter().collect();
        if self.uses_write_back() {
            cached.extend(self.cached(stripe, within, |write| write.answered));
        }
        let gaps = gaps(within, &cached);
        let fills = self.begin_fills(stripe, &gaps);
        if cached.is_empty() {
            let (result, buf) = self.read_stripe(stripe, within, buf).await;
            clean::end_fills(fills, within, result, buf.as_ref());
            return (result, buf);
        }
        self.note_hit();
        let (result, buf) = Box::pin(self.read_gaps(stripe, within, &gaps, buf)).await;
        clean::end_fills(fills, within, result, buf.as_ref());
        self.shard
            .env()
            .compute(Work::Copy(ByteCount(cached.iter().map(|(part, _)| part.len.0).sum())))
            .await;
        match buf {
            Some(mut buf) => {
                lay(&cached, within, &mut buf);
                (result, Some(buf))
            }
            None => (result, None),
        }
    }

    /// Overlays data of the line, acknowledged or not, on data that was read.
    pub(crate) fn lay_over(&self, stripe: StripeIndex, range: ByteRange, buf: &mut Buf) {
        lay(&self.cached(stripe, range, |_| true), range, buf);
    }

    fn cached(
        &self,
        stripe: StripeIndex,
        range: ByteRange,
        counts: impl Fn(&Write<Held>) -> bool,
    ) -> Cached {
        let lines = self.lines.borrow();
        let mut cached = Cached::new();
        for (part, write) in lines.within(stripe, range).filter(|(_, write)| counts(write)) {
            let mut at = part.start;
            for slice in write.held.cut(part.start - write.range.start, part.len).slices() {
                let len = slice.len();
                cached.push((ByteRange::new(at, len), slice));
                at += len;
            }
        }
        cached
    }

    /// Reads parts of a range into its buffer. Several parts are first read as one range. If that
    /// fails, each is read alone, because a gap between them may be the unreadable part.
    async fn read_gaps(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        gaps: &[ByteRange],
        mut buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        if let ([first, .., last], true) = (gaps, gaps.len() > 1) {
            let hull = ByteRange::from_to(first.start, last.end());
            let (result, back) = self.read_into(stripe, within, hull, buf).await;
            match (result, back) {
                (Err(_), Some(back)) => buf = back,
                (Err(_), None) => buf = self.shard.env().pool().take_reserved(within.len),
                done => return done,
            }
        }
        for gap in gaps {
            match self.read_into(stripe, within, *gap, buf).await {
                (Ok(()), Some(back)) => buf = back,
                failed => return failed,
            }
        }
        (Ok(()), Some(buf))
    }

    /// Reads a part of a range into its place in the range's buffer.
    async fn read_into(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        part: ByteRange,
        mut buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let mut middle = buf.split_off(part.start - within.start);
        let after = middle.split_off(part.len);
        let (result, middle) = self.read_stripe(stripe, part, middle).await;
        let parts = [Some(buf), middle, Some(after)].into_iter().flatten();
        match self.put_together(parts.filter(|part| !part.is_empty())) {
            Some(whole) if whole.len() == within.len => (result, Some(whole)),
            _ => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
        }
    }
}

/// The parts of a range that are not cached.
fn gaps(within: ByteRange, cached: &Cached) -> SmallVec<[ByteRange; 4]> {
    let ranges: SmallVec<[ByteRange; 4]> = cached.iter().map(|(range, _)| *range).collect();
    let (mut at, mut gaps) = (within.start, SmallVec::new());
    for extent in ::block_cache::merge(&ranges) {
        gaps.extend((at < extent.range.start).then(|| ByteRange::from_to(at, extent.range.start)));
        at = extent.range.end();
    }
    gaps.extend((at < within.end()).then(|| ByteRange::from_to(at, within.end())));
    gaps
}

fn lay(cached: &Cached, range: ByteRange, buf: &mut Buf) {
    if buf.is_hollow() {
        return;
    }
    for (part, slice) in cached {
        let at = (part.start - range.start).as_usize();
        slice.copy_to(&mut buf.bytes_mut()[at..at + part.len.as_usize()]);
    }
}
