//! The read-ahead of onboard controllers: their driver reads on behind a stream, into the host's memory.
//!
//! The stream finds what it asks for next there, or on its way: at one outstanding I/O the drives work while the host is
//! answered. The white paper of 2016 says that onboard controllers "always" read ahead, and that others look first whether
//! reads follow one another. If they did so behind reads at random places too, even 16 KiB would cost four disks 14 % of
//! their rate and two flash drives 38 %; but in the paper of 2013 two disks are as quick behind any controller. So here a read
//! is followed only when it continues another one.
//!
//! - What was read on is kept in parts that do not overlap. A read that parts touch asks for what they lack, and waits until
//!   all of it is there; any other goes to the volume as it is.
//! - A write, a trim, or a failure forgets the parts it touches: before it, and once more after it, for what was asked for
//!   meanwhile.
//! - Parts have no content (see [the crate](crate)), only an age: the oldest are forgotten first.

use crate::drive_port::outcome;
use env::sync::Signal;
use env::{Buf, DriveInfo, Env, IoOutcome, IoRequest, Runners, Service};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// What the driver keeps at most: assumed.
const KEPT_BYTES: u64 = 16 << 20;
/// Reads of the driver's own that are under way at most: more than any host has.
const MOST_READS: usize = 1024;
/// Where so many latest reads ended is known: streams that are told apart, and random reads among them.
const ENDS: usize = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Coming,
    There,
    Failed,
}

/// Some bytes of the volume that were read on.
struct Part {
    range: ByteRange,
    state: Cell<State>,
    settled: Signal,
}

/// What is kept, and in which order it was asked for.
#[derive(Default)]
struct Kept {
    /// By their first byte. They do not overlap.
    parts: BTreeMap<u64, Rc<Part>>,
    /// The oldest first. Some may be forgotten already.
    order: VecDeque<Rc<Part>>,
    bytes: u64,
}

impl Kept {
    /// The parts that touch a range, in order.
    fn touching(&self, range: ByteRange) -> impl Iterator<Item = &Rc<Part>> {
        let before =
            self.parts.range(..=range.start.0).next_back().map_or(range.start.0, |(start, _)| *start);
        self.parts
            .range(before..range.end().0.max(before))
            .map(|(_, part)| part)
            .filter(move |part| part.range.overlaps(range))
    }

    /// What no part covers of a range.
    fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        let (mut gaps, mut from) = (Vec::new(), range.start);
        for part in self.touching(range) {
            gaps.push(ByteRange::from_to(from, part.range.start.max(from)));
            from = from.max(part.range.end());
        }
        gaps.push(ByteRange::from_to(from, range.end().max(from)));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    fn put(&mut self, range: ByteRange) -> Rc<Part> {
        let part = Rc::new(Part { range, state: Cell::new(State::Coming), settled: Signal::default() });
        self.parts.insert(range.start.0, part.clone());
        self.order.push_back(part.clone());
        self.bytes += range.len.0;
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= oldest.range.len.0;
            self.drop_part(&oldest);
        }
        part
    }

    /// Forgets a part, unless another has taken its place.
    fn drop_part(&mut self, part: &Rc<Part>) {
        let start = part.range.start.0;
        if self.parts.get(&start).is_some_and(|kept| Rc::ptr_eq(kept, part)) {
            self.parts.remove(&start);
        }
    }

    fn forget(&mut self, range: ByteRange) {
        let touched: Vec<u64> = self.touching(range).map(|part| part.range.start.0).collect();
        for start in touched {
            self.parts.remove(&start);
        }
    }
}

/// A volume behind a driver that reads ahead.
pub(crate) struct ReadAhead<S> {
    env: Env,
    volume: Rc<S>,
    ahead: ByteCount,
    kept: Rc<RefCell<Kept>>,
    /// Where the latest reads ended, the latest last.
    ends: RefCell<VecDeque<ByteOffset>>,
    reads: Runners<Rc<Part>>,
}

impl<S: Service + 'static> ReadAhead<S> {
    /// Reads so much ahead.
    pub fn new(env: &Env, volume: S, ahead: ByteCount) -> ReadAhead<S> {
        let (volume, kept) = (Rc::new(volume), Rc::<RefCell<Kept>>::default());
        let reads = Runners::new(env, "read-ahead", MOST_READS);
        let (asked, keeper, world) = (volume.clone(), kept.clone(), env.clone());
        reads.run(async move |part: Rc<Part>| {
            let buffers = [Buf::hollow(part.range.len)].into_iter().collect();
            let read = asked.serve(IoRequest::Read { offset: part.range.start, buffers }).await;
            part.state.set(if read.result.is_ok() { State::There } else { State::Failed });
            if read.result.is_err() {
                keeper.borrow_mut().drop_part(&part);
            }
            part.settled.notify(&world);
        });
        ReadAhead { env: env.clone(), volume, ahead, kept, ends: RefCell::default(), reads }
    }

    /// Whether a read continues another one.
    fn continues(&self, range: ByteRange) -> bool {
        let mut ends = self.ends.borrow_mut();
        let before = ends.iter().rposition(|end| *end == range.start);
        match before {
            Some(before) => drop(ends.remove(before)),
            None if ends.len() == ENDS => drop(ends.pop_front()),
            None => {}
        }
        ends.push_back(range.end());
        before.is_some()
    }

    /// Asks for what follows a read, as far as it is not kept.
    fn read_on(&self, from: ByteOffset) {
        let end = (from + self.ahead).min(ByteOffset(self.volume.info().size.0));
        self.fill(ByteRange::from_to(from, end.max(from)));
    }

    /// Asks for what is not kept of a range; what was asked for.
    fn fill(&self, range: ByteRange) -> Vec<Rc<Part>> {
        let mut kept = self.kept.borrow_mut();
        let gaps = kept.gaps(range);
        let asked: Vec<Rc<Part>> = gaps.into_iter().map(|gap| kept.put(gap)).collect();
        asked.iter().for_each(|part| self.reads.give(part.clone()));
        asked
    }

    /// The parts that a read waits for; none when it goes to the volume as it is.
    fn parts_of(&self, range: ByteRange) -> Vec<Rc<Part>> {
        let mut parts: Vec<Rc<Part>> = self.kept.borrow().touching(range).cloned().collect();
        if !parts.is_empty() {
            parts.extend(self.fill(range));
        }
        parts
    }

    async fn read(&self, request: IoRequest) -> IoOutcome {
        let range = request.range();
        let parts = self.parts_of(range);
        if self.continues(range) {
            self.read_on(range.end());
        }
        let mut kept = !parts.is_empty();
        for part in parts {
            part.settled.wait_until(&self.env, || part.state.get() != State::Coming).await;
            kept &= part.state.get() == State::There;
        }
        if kept { outcome(request) } else { self.volume.serve(request).await }
    }
}

impl<S: Service + 'static> Service for ReadAhead<S> {
    fn info(&self) -> &DriveInfo {
        self.volume.info()
    }

    async fn serve(&self, request: IoRequest) -> IoOutcome {
        match request {
            IoRequest::Read { .. } => self.read(request).await,
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } | IoRequest::Trim { .. } => {
                let range = request.range();
                self.kept.borrow_mut().forget(range);
                let done = self.volume.serve(request).await;
                self.kept.borrow_mut().forget(range);
                done
            }
            IoRequest::Flush
            | IoRequest::Status { .. }
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => self.volume.serve(request).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> ByteRange {
        ByteRange::from_to(ByteOffset(from), ByteOffset(to))
    }

    fn kept(parts: &[(u64, u64)]) -> Kept {
        let mut kept = Kept::default();
        parts.iter().for_each(|(from, to)| drop(kept.put(range(*from, *to))));
        kept
    }

    #[test]
    fn what_is_kept_is_told_from_what_is_not() {
        let kept = kept(&[(10, 20), (20, 30), (40, 50)]);
        let touching = |from, to| kept.touching(range(from, to)).count();
        assert_eq!(kept.gaps(range(0, 60)), [range(0, 10), range(30, 40), range(50, 60)]);
        assert_eq!(kept.gaps(range(15, 25)), []);
        assert_eq!(kept.gaps(range(30, 40)), [range(30, 40)]);
        assert_eq!([touching(15, 30), touching(25, 41), touching(30, 40), touching(50, 51)], [2, 2, 0, 0]);
    }

    #[test]
    fn what_a_write_touches_is_forgotten_and_the_oldest_goes_first() {
        let mut some = kept(&[(10, 20), (20, 30), (40, 50)]);
        some.forget(range(19, 21));
        assert_eq!(some.gaps(range(10, 50)), [range(10, 40)]);
        let (first, mut full) = (range(0, KEPT_BYTES), kept(&[(0, KEPT_BYTES)]));
        full.put(range(KEPT_BYTES, KEPT_BYTES + 1));
        assert_eq!(full.gaps(first), [first]);
        assert_eq!(full.bytes, 1);
    }
}
