//! Where host requests come in: checked, cut into pieces (bytes of one stripe), dealt to the shards that own
//! them, and put together again.
//!
//! A request of one piece that this shard may serve runs in the caller's task, without a detour. The pieces
//! of larger ones go to runners, here or on their shards, and are under way at the same time.

use crate::host::Volume;
use crate::host::{Job, Then};
use crate::messages::{Piece, PieceKind, PieceOutcome, ShardIndex};
use env::sync::{Signal, Taken};
use env::{BlockStatus, Buf, Durability, Env, IoError, IoErrorKind, Slice, StatusExtent};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// A request whose pieces are under way.
#[derive(Default)]
pub(crate) struct Parent {
    pub(crate) request: Cell<Option<u32>>,
    unfinished: Cell<u32>,
    error: Cell<Option<IoError>>,
    buffers: RefCell<SmallVec<[Option<Buf>; 4]>>,
    /// By piece: given back when the piece is, not with the request, or requests could starve one another.
    credits: RefCell<BTreeMap<u32, Taken>>,
    done: Signal,
}

impl Parent {
    pub(crate) fn hold_credit(&self, number: u32, credit: Taken) {
        self.credits.borrow_mut().insert(number, credit);
    }

    pub(crate) fn finish(&self, env: &Env, number: u32, outcome: PieceOutcome) {
        if let Err(error) = outcome.result {
            self.error.set(Some(self.error.get().unwrap_or(error)));
        }
        if let Some(buffer) = outcome.buffer {
            self.buffers.borrow_mut()[number as usize] = Some(buffer);
        }
        self.credits.borrow_mut().remove(&number);
        self.unfinished.set(self.unfinished.get() - 1);
        if self.unfinished.get() == 0 {
            self.done.notify(env);
        }
    }
}

impl PieceKind {
    /// The buffer of a piece that was not run.
    pub(crate) fn into_buffer(self) -> Option<Buf> {
        match self {
            PieceKind::Read(buf) => Some(buf),
            PieceKind::Write(..) | PieceKind::Trim => None,
        }
    }
}

/// The pieces of a range: the stripes it touches, and which bytes of each.
pub(crate) fn pieces(
    volume: &Volume,
    range: ByteRange,
) -> impl Iterator<Item = (StripeIndex, ByteRange)> + use<> {
    let geometry = *volume.geometry();
    let mut rest = range;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (stripe, within) = geometry.stripe_of(rest.start);
        let len = (geometry.stripe_bytes() - within).min(rest.len);
        rest = ByteRange::from_to(rest.start + len, rest.end());
        Some((stripe, ByteRange::new(units::ByteOffset(within.0), len)))
    })
}

impl Volume {
    /// A host asks for something: tasks stand back for hosts.
    fn note_request(&self) {
        if !self.is_hidden() {
            self.shard.hosts().note_request();
        }
    }

    fn check(&self, range: ByteRange) -> Result<(), IoError> {
        let end = range.start.checked_add(range.len);
        if end.is_some_and(|end| end.0 <= self.spec.capacity.0) {
            Ok(())
        } else {
            Err(IoError::new(IoErrorKind::Invalid))
        }
    }

    fn is_aligned(&self, range: ByteRange) -> bool {
        range.is_aligned(self.spec.sector.bytes())
    }

    /// Reads `range` into `buf`, which has its length. The buffer comes back, but for a drive that holds on to it
    /// after a timeout. Any byte range will do; whole sectors are faster.
    ///
    /// # Errors
    /// `Invalid` past the end, `Medium` where data is beyond recovery, `Gone` when the volume goes away.
    pub async fn read(self: &Rc<Self>, range: ByteRange, buf: Buf) -> (Result<(), IoError>, Option<Buf>) {
        let _user = match self.check(range).and_then(|()| self.enter()) {
            Ok(user) => user,
            Err(error) => return (Err(error), Some(buf)),
        };
        self.note_request();
        self.count(|counters| {
            counters.reads += 1;
            counters.read_bytes += range.len.0;
        });
        let (result, buf) = self.read_entered(range, buf).await;
        if result.is_err() {
            self.count(|counters| counters.errors += 1);
        }
        (result, buf)
    }

    async fn read_entered(self: &Rc<Self>, range: ByteRange, buf: Buf) -> (Result<(), IoError>, Option<Buf>) {
        if range.is_empty() {
            return (Ok(()), Some(buf));
        }
        if !self.is_aligned(range) {
            return Box::pin(self.read_unaligned(range, buf)).await;
        }
        let buf = match self.fast_read(range, buf).await {
            Ok(buf) => return (Ok(()), Some(buf)),
            Err(Some(buf)) => buf,
            // The drive kept the buffer after a timeout; go on with another one.
            Err(None) => self.shard.env().pool().take_reserved(range.len),
        };
        Box::pin(self.in_pieces(range, Whole::Read(buf))).await
    }

    /// Bytes that are not whole sectors: read the sectors around them and copy.
    async fn read_unaligned(
        self: &Rc<Self>,
        range: ByteRange,
        mut buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let whole = range.align_out(self.spec.sector.bytes());
        let _edges = self.shard.reserve_read_edges(whole.len).await;
        let sectors = self.take_scratch(whole.len, buf.is_hollow());
        let (result, sectors) = self.in_pieces(whole, Whole::Read(sectors)).await;
        if let (Ok(()), Some(sectors)) = (&result, sectors)
            && !buf.is_hollow()
        {
            let skip = (range.start - whole.start).as_usize();
            buf.bytes_mut().copy_from_slice(&sectors.bytes()[skip..skip + range.len.as_usize()]);
        }
        (result, Some(buf))
    }

    /// Writes `data`, as long as `range`. Any byte range will do; whole sectors are faster.
    ///
    /// # Errors
    /// `Invalid` past the end, `Gone` when the volume goes away or too many drives have, `OutOfSpace` when the
    /// file system below a file drive is full. After an error the range holds old data, new data or both.
    pub async fn write(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        self.check(range)?;
        let _user = self.enter()?;
        self.note_request();
        self.count(|counters| {
            counters.writes += 1;
            counters.written_bytes += range.len.0;
        });
        let result = match self.fast_write(range, &data, durability).await {
            Some(result) => result,
            None if range.is_empty() => Ok(()),
            None => Box::pin(self.in_pieces(range, Whole::Write(data, durability))).await.0,
        };
        if result.is_err() {
            self.count(|counters| counters.errors += 1);
        }
        result
    }

    /// Makes `range` read as zeroes.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub async fn write_zeroes(
        self: &Rc<Self>,
        range: ByteRange,
        durability: Durability,
    ) -> Result<(), IoError> {
        self.write(range, Slice::zero(range.len), durability).await
    }

    /// Gives up the content of `range`. Where redundancy could not follow (parts of stripes of redundant
    /// levels), nothing is done: rule (g) of the promises.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub async fn trim(self: &Rc<Self>, range: ByteRange) -> Result<(), IoError> {
        self.check(range)?;
        let _user = self.enter()?;
        if range.is_empty() {
            return Ok(());
        }
        Box::pin(self.in_pieces(range, Whole::Trim)).await.0
    }

    /// Flushes every drive in use. Done when all writes that were acknowledged before the call are durable.
    ///
    /// # Errors
    /// When some drive that holds such writes cannot make them durable.
    pub async fn flush(self: &Rc<Self>) -> Result<(), IoError> {
        let _user = self.enter()?;
        self.note_request();
        self.count(|counters| counters.flushes += 1);
        self.flush_once().await
    }

    /// Which parts of `range` hold data, from its start on; the answer may cover less than was asked, but
    /// covers at least one sector.
    ///
    /// # Errors
    /// `Invalid` past the end.
    pub async fn status(self: &Rc<Self>, range: ByteRange) -> Result<Vec<StatusExtent>, IoError> {
        /// Strips that one answer looks at.
        const MOST_STRIPS: usize = 256;
        self.check(range)?;
        let _user = self.enter()?;
        let mut extents: Vec<StatusExtent> = Vec::new();
        let mut add = |len: ByteCount, status: BlockStatus| match extents.last_mut() {
            Some(last) if last.status == status => last.len += len,
            _ => extents.push(StatusExtent { len, status }),
        };
        let strip = self.geometry().strip().bytes();
        let mut strips = 0;
        for (stripe, within) in pieces(self, range) {
            let mut rest = within;
            while !rest.is_empty() {
                if strips == MOST_STRIPS {
                    return Ok(extents);
                }
                strips += 1;
                let (index, at) = self.geometry().strip_of(ByteCount(rest.start.0));
                let len = (strip - at).min(rest.len);
                for extent in self.strip_status(stripe, index, at, len).await {
                    add(extent.len, extent.status);
                }
                rest = ByteRange::from_to(rest.start + len, rest.end());
            }
        }
        Ok(extents)
    }

    async fn strip_status(
        self: &Rc<Self>,
        stripe: StripeIndex,
        index: layout::DataIndex,
        at: ByteCount,
        len: ByteCount,
    ) -> Vec<StatusExtent> {
        let data = vec![StatusExtent { len, status: BlockStatus::Data }];
        let start = ByteOffset(self.geometry().strip().bytes().0 * u64::from(index.0) + at.0);
        if self.is_lost(stripe, ByteRange::new(start, len)) {
            return data; // Whoever skipped it as zeroes would never meet the error.
        }
        let health = self.stripe_health(stripe, &units::DriveSet::EMPTY);
        for copy in 0..self.geometry().copies() {
            let cell = self.geometry().data_cell(stripe, index, layout::CopyIndex(copy));
            let Ok(member) = self.member(cell.drive) else { continue };
            if !health.readable.contains(cell.drive) {
                continue;
            }
            let range = ByteRange::new(self.raw(cell.offset) + at, len);
            let outcome = member.start(env::IoRequest::Status { range }).await;
            let covered: u64 = outcome.extents.iter().map(|extent| extent.len.0).sum();
            return if outcome.result.is_ok() && covered == len.0 { outcome.extents } else { data };
        }
        data
    }

    /// Cuts a request into pieces and runs them all.
    async fn in_pieces(
        self: &Rc<Self>,
        range: ByteRange,
        whole: Whole,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let mut pieces = pieces(self, range).peekable();
        let Some((stripe, within)) = pieces.next() else { return (Ok(()), whole.into_buffer()) };
        let read = if matches!(whole, Whole::Read(_)) { range.len } else { ByteCount::ZERO };
        let mut rest = whole;
        if pieces.peek().is_none() && self.is_mine(stripe) {
            let kind = rest.take(within.len);
            let piece = Piece { volume: self.spec.id, stripe, within, kind };
            let outcome = self.run_piece(piece).await;
            return (outcome.result, outcome.buffer);
        }
        let parent = Rc::new(Parent::default());
        let mut number = 0;
        let mut next = Some((stripe, within));
        while let Some((stripe, within)) = next {
            let piece = Piece { volume: self.spec.id, stripe, within, kind: rest.take(within.len) };
            parent.unfinished.set(parent.unfinished.get() + 1);
            parent.buffers.borrow_mut().push(None);
            if self.is_mine(stripe) {
                self.exchange.enqueue(Job { piece, then: Then::Local(parent.clone(), number) });
            } else {
                let owner = ShardIndex::owning(self.region_of(stripe), self.shard.count());
                self.exchange.send_away(owner, piece, &parent, number).await;
            }
            number += 1;
            next = pieces.next();
        }
        self.gather(&parent, read).await
    }

    /// Waits for all pieces. `read`: how much is read; nothing for a write or a trim.
    async fn gather(
        self: &Rc<Self>,
        parent: &Rc<Parent>,
        read: ByteCount,
    ) -> (Result<(), IoError>, Option<Buf>) {
        parent.done.wait_until(self.shard.env(), || parent.unfinished.get() == 0).await;
        if let Some(request) = parent.request.get() {
            self.exchange.forget_away(request);
        }
        let result = parent.error.get().map_or(Ok(()), Err);
        if read.is_zero() {
            return (result, None);
        }
        let whole = self.put_together(parent.buffers.take().into_iter().flatten());
        match whole.filter(|whole| whole.len() == read) {
            Some(whole) => (result, Some(whole)),
            // A drive that did not answer in time keeps some of it, and there is no memory for another one.
            None => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
        }
    }
}

/// What is left to hand out of a request's payload.
enum Whole {
    Read(Buf),
    Write(Slice, Durability),
    Trim,
}

impl Whole {
    fn take(&mut self, len: ByteCount) -> PieceKind {
        match self {
            Whole::Read(buf) => {
                let rest = buf.split_off(len);
                PieceKind::Read(std::mem::replace(buf, rest))
            }
            Whole::Write(slice, durability) => {
                let first = slice.cut(ByteCount::ZERO, len);
                *slice = slice.cut(len, slice.len() - len);
                PieceKind::Write(first, *durability)
            }
            Whole::Trim => PieceKind::Trim,
        }
    }

    fn into_buffer(self) -> Option<Buf> {
        match self {
            Whole::Read(buf) => Some(buf),
            _ => None,
        }
    }
}
