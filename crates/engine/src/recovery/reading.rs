//! Reading bytes of a stripe: the whole of it at once, and where that fails, as little at a time as it takes.
//!
//! A drive that cannot read some blocks is first planned around for the whole request: one more plan, and redundancy
//! gives what is missing. Where two drives of a stripe cannot read blocks of it, each in other columns, no single
//! plan can serve; and where copies may differ, changing the copy for the whole of it would mix what one
//! speaks with what the other does. Then it is halved, and halved again, down to single sectors: each part is
//! served by whatever can serve it, and what cannot be had is no more than what is lost.

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

/// Places that one read remembers to have repaired: a drive that cannot read anything has too many.
const PLACES_REMEMBERED: usize = 64;

/// A part of a read and its place in the host's buffer.
type Part = (ByteRange, Buf);

impl Recovery {
    /// Reads: without the lock where data only has to be fetched, with it where it has to be computed.
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
            (Ended::Done { .. }, Host::Buffer(buf)) => (self.still_there(stripe, within), Some(buf)),
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

    /// Reads what the caller holds, whole or in parts. What could not be read is added to `places`.
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
                .attempt(stripe, request, Host::Buffer(buf), &mut trouble, &Attempt::HELD.with(patience))
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
                // Nobody ever wrote it: what its drive would have shown is of no interest.
                (Ended::Lost, _) if self.is_in_one_strip(range) && never_written() => buf.bytes_mut().fill(0),
                (Ended::Failed(error), _) => result = Err(error),
                (Ended::Lost | Ended::NeedsLock, Some((first, second))) => {
                    let second_buf = buf.split_off(first.len);
                    rest.push((second, second_buf));
                    rest.push((first, buf));
                    continue;
                }
                (Ended::Lost | Ended::NeedsLock, None) => result = Err(IoError::new(IoErrorKind::Medium)),
            }
            done.push(buf);
        }
        match self.put_together(done.into_iter()).filter(|buf| buf.len() == len) {
            Some(buf) => (result, Some(buf)),
            None => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
        }
    }

    /// A range cut in two: first between strips, then in the middle. `None`: it is as small as can be.
    fn halves(&self, range: ByteRange) -> Option<(ByteRange, ByteRange)> {
        let strip = self.geometry().strip().bytes();
        let next_strip = range.start.align_down(strip) + strip;
        let unit = self.spec.sector.bytes();
        let middle = match next_strip < range.end() {
            true => next_strip,
            false => (range.start + ByteCount(range.len.0 / 2)).align_up(unit),
        };
        (range.start < middle && middle < range.end())
            .then(|| (ByteRange::from_to(range.start, middle), ByteRange::from_to(middle, range.end())))
    }

    fn is_in_one_strip(&self, range: ByteRange) -> bool {
        let strip = self.geometry().strip().bytes();
        range.end() <= range.start.align_down(strip) + strip
    }

    /// The request for bytes of a stripe, from the copies that are the least busy.
    pub(crate) fn read_request(&self, stripe: StripeIndex, range: ByteRange) -> Request<'static> {
        let (prefer, split) = self.choose_copies(stripe, range);
        Request::Read { range, prefer, split }
    }

    /// Whether blocks among some bytes of a stripe's data are lost.
    pub(crate) fn is_lost(&self, stripe: StripeIndex, within: ByteRange) -> bool {
        self.any_punctured() && !self.lost_within(stripe, within).is_empty()
    }

    /// What has been read is data, unless it was given up meanwhile: that is known before zeroes take its place.
    fn still_there(&self, stripe: StripeIndex, within: ByteRange) -> Result<(), IoError> {
        if self.is_lost(stripe, within) { Err(IoError::new(IoErrorKind::Medium)) } else { Ok(()) }
    }

    /// The lost blocks among some bytes of a stripe's data: the drive that stands for them, and where.
    pub(crate) fn lost_within(&self, stripe: StripeIndex, within: ByteRange) -> Places {
        let mut lost = Places::new();
        if !self.any_punctured() || within.is_empty() {
            return lost;
        }
        for (drive, range) in self.homes(stripe, within) {
            lost.extend(self.state().punctured_within(drive, range).map(|punctured| (drive, punctured)));
        }
        lost
    }

    /// Where the first copies of some bytes of a stripe's data live, strip by strip: the name under which the table
    /// of lost blocks knows them.
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
    /// The parts of a read as one buffer: the host's own again, or, where a drive that did not answer in time keeps
    /// some of it, another one with the same content.
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
