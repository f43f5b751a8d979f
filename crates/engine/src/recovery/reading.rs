//! Reads of a stripe: all bytes at once, and after a failure in smaller parts.
//!
//! If a drive cannot read some blocks, a second plan reads the whole request without it, from
//! redundancy. If two drives cannot read blocks in different columns, no single plan works; and
//! where copies may differ, another copy for the whole request would mix their contents. Then the
//! request is halved repeatedly, down to single sectors. Each part uses any source that works, so
//! that only lost blocks fail.

use crate::members::Places;
use crate::recovery::Recovery;
use crate::stripe::Host;
use crate::stripe::{Attempt, Ended, Patience, Trouble};
use plan::Request;
use platform::locks::Mode;
use platform::{Buf, IoError, IoErrorKind};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex, StripeIndex};

/// The most repaired places that one read remembers: a drive without any readable block has too
/// many.
const PLACES_REMEMBERED: usize = 64;

/// A part of a read and its place in the host's buffer.
type Part = (ByteRange, Buf);

impl Recovery {
    /// Reads a stripe: without the lock if data is only fetched, with it if data is computed.
    pub(crate) async fn read_stripe(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        if self.is_lost(stripe, within) {
            return (Err(IoError::new(IoErrorKind::Medium)), Some(buf));
        }
        let mut trouble = Trouble::default();
        let request = self.read_request(stripe, within);
        let (ended, host) =
            self.attempt(stripe, request, Host::Buffer(buf), &mut trouble, &Attempt::FREE).await;
        let mut places = trouble.places;
        let (result, buf) = match (ended, host) {
            (Ended::Done { .. }, Host::Buffer(buf)) => {
                (self.still_there(stripe, within), Some(buf))
            }
            (Ended::Failed(error), host) => (Err(error), host.into_buffer()),
            (_, Host::Buffer(buf)) => {
                let _guard = self.lock(stripe, Mode::Shared, within).await;
                Box::pin(self.read_held(stripe, within, buf, &mut places)).await
            }
            (_, Host::None | Host::Payload(..)) => (Err(IoError::new(IoErrorKind::TimedOut)), None),
        };
        if !places.is_empty() {
            self.repair_later(stripe, places);
        }
        (result, buf)
    }

    /// Reads bytes that the caller holds, whole or in parts. Adds unreadable places to `places`.
    pub(crate) async fn read_held(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        buf: Buf,
        places: &mut Places,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let len = buf.len();
        let mut rest: Vec<Part> = vec![(within, buf)];
        let mut done: SmallVec<[Buf; 4]> = SmallVec::new();
        let mut result = Ok(());
        while let Some((range, buf)) = rest.pop() {
            if result.is_err() {
                done.push(buf);
                continue;
            }
            let smaller = self.halves(range);
            let patience = if smaller.is_some() { Patience::OneCopy } else { Patience::PlanAround };
            let mut trouble = Trouble::default();
            let request = self.read_request(stripe, range);
            let (ended, host) = self
                .attempt(
                    stripe,
                    request,
                    Host::Buffer(buf),
                    &mut trouble,
                    &Attempt::HELD.with(patience),
                )
                .await;
            let room = PLACES_REMEMBERED.saturating_sub(places.len());
            places.extend(trouble.places.into_iter().take(room));
            let Some(mut buf) = host.into_buffer() else {
                result = Err(IoError::new(IoErrorKind::TimedOut));
                continue;
            };
            let never_written = || self.state().is_unwritten(self.region_of(stripe));
            match (ended, smaller) {
                (Ended::Done { .. }, _) => result = self.still_there(stripe, range),
                // It was never written: its content on the drive does not matter.
                (Ended::Lost, _) if self.is_in_one_strip(range) && never_written() => {
                    buf.bytes_mut().fill(0)
                }
                (Ended::Failed(error), _) => result = Err(error),
                (Ended::Lost | Ended::NeedsLock, Some((first, second))) => {
                    let second_buf = buf.split_off(first.len);
                    rest.push((second, second_buf));
                    rest.push((first, buf));
                    continue;
                }
                (Ended::Lost | Ended::NeedsLock, None) => {
                    result = Err(IoError::new(IoErrorKind::Medium))
                }
            }
            done.push(buf);
        }
        match self.put_together(done.into_iter()).filter(|buf| buf.len() == len) {
            Some(buf) => (result, Some(buf)),
            None => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
        }
    }

    /// A range cut in two: first between strips, then in the middle. `None`: it is a single sector.
    fn halves(&self, range: ByteRange) -> Option<(ByteRange, ByteRange)> {
        let strip = self.geometry().strip().bytes();
        let next_strip = range.start.align_down(strip) + strip;
        let unit = self.spec.sector.bytes();
        let middle = match next_strip < range.end() {
            true => next_strip,
            false => (range.start + ByteCount(range.len.0 / 2)).align_up(unit),
        };
        (range.start < middle && middle < range.end()).then(|| {
            (ByteRange::from_to(range.start, middle), ByteRange::from_to(middle, range.end()))
        })
    }

    fn is_in_one_strip(&self, range: ByteRange) -> bool {
        let strip = self.geometry().strip().bytes();
        range.end() <= range.start.align_down(strip) + strip
    }

    /// The request for bytes of a stripe, from the least busy copies.
    pub(crate) fn read_request(&self, stripe: StripeIndex, range: ByteRange) -> Request<'static> {
        let (prefer, split) = self.choose_copies(stripe, range);
        Request::Read { range, prefer, split }
    }

    /// Whether blocks among some bytes of a stripe's data are lost.
    pub(crate) fn is_lost(&self, stripe: StripeIndex, within: ByteRange) -> bool {
        self.any_punctured() && !self.lost_within(stripe, within).is_empty()
    }

    /// Fails if data just read was given up meanwhile: that is known before zeroes take its place.
    fn still_there(&self, stripe: StripeIndex, within: ByteRange) -> Result<(), IoError> {
        if self.is_lost(stripe, within) { Err(IoError::new(IoErrorKind::Medium)) } else { Ok(()) }
    }

    /// The lost blocks among some bytes of a stripe's data: the drive of the first copy, and the
    /// place.
    pub(crate) fn lost_within(&self, stripe: StripeIndex, within: ByteRange) -> Places {
        let mut lost = Places::new();
        if !self.any_punctured() || within.is_empty() {
            return lost;
        }
        for (drive, range) in self.homes(stripe, within) {
            lost.extend(
                self.state().punctured_within(drive, range).map(|punctured| (drive, punctured)),
            );
        }
        lost
    }

    /// The first copies of some bytes of a stripe's data, strip by strip: the keys in the list of
    /// lost blocks.
    pub(crate) fn homes(
        &self,
        stripe: StripeIndex,
        within: ByteRange,
    ) -> impl Iterator<Item = (DriveIndex, ByteRange)> + use<> {
        let geometry = *self.geometry();
        let mut rest = within;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (index, at) = geometry.strip_of(ByteCount(rest.start.0));
            let len = (geometry.strip().bytes() - at).min(rest.len);
            rest = ByteRange::from_to(rest.start + len, rest.end());
            let cell = geometry.data_cell(stripe, index, layout::CopyIndex(0));
            Some((cell.drive, ByteRange::new(cell.offset + at, len)))
        })
    }
}

impl Host {
    pub(crate) fn into_buffer(self) -> Option<Buf> {
        match self {
            Host::Buffer(buf) => Some(buf),
            Host::None | Host::Payload(..) => None,
        }
    }
}

impl Recovery {
    /// Joins the parts of a read to one buffer: the host's own, or, if a drive keeps some of it
    /// after a timeout, another one with the same content.
    pub(crate) fn put_together(&self, parts: impl Iterator<Item = Buf>) -> Option<Buf> {
        let mut runs: SmallVec<[Buf; 4]> = SmallVec::new();
        for part in parts {
            match runs.pop() {
                None => runs.push(part),
                Some(last) => match last.join(part) {
                    Ok(joined) => runs.push(joined),
                    Err((last, part)) => runs.extend([last, part]),
                },
            }
        }
        if runs.len() <= 1 {
            return runs.pop();
        }
        let len: u64 = runs.iter().map(|run| run.len().0).sum();
        let mut whole = self.take_scratch(ByteCount(len), false);
        let mut rest = whole.bytes_mut();
        for run in &runs {
            let (place, after) = rest.split_at_mut(run.len().as_usize());
            place.copy_from_slice(run.bytes());
            rest = after;
        }
        Some(whole)
    }
}
