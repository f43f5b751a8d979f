//! The part of the target that each job uses: `offset`, `size`, `offset_increment`, `numjobs`.
//!
//! Percentages refer to the whole target, as in fio, also after an offset.

use super::super::Taken;
use super::Given;
use super::job::Reader;
use super::value::Amount;
use crate::load::area::{Area, Edge};
use crate::load::profile::Streams;
use units::ByteCount;

/// Jobs with more separate parts than this are refused.
const MOST_PARTS: u32 = 64;

/// The largest size.
pub(super) const LARGEST: u64 = 64 << 50;

/// A number of bytes plus a percentage of the target.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Length {
    bytes: u64,
    percent: f64,
}

/// The parts of the target that jobs use, with equal shares.
pub(super) struct Extent {
    pub(super) parts: Vec<Part>,
    pub(super) streams: Streams,
}

/// A part of the target; without a length it extends to the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    start: Length,
    len: Option<Length>,
}

impl Length {
    fn plus(self, other: Length) -> Length {
        Length {
            bytes: self.bytes.saturating_add(other.bytes),
            percent: (self.percent + other.percent).min(100.0),
        }
    }

    fn edge(self) -> Edge {
        match self {
            Length { bytes, percent: 0.0 } => Edge::Bytes(bytes),
            Length { bytes: 0, percent } => Edge::Percent(percent),
            Length { bytes, percent } => Edge::Sum { bytes, percent },
        }
    }
}

impl Part {
    /// The part as an area; `bytes` limits its length.
    pub(super) fn area(&self, bytes: Option<u64>) -> Area {
        let len = bytes.map(|bytes| Length { bytes, percent: 0.0 }).or(self.len);
        let to = len.map_or(Edge::End, |len| self.start.plus(len).edge());
        Area::Range { from: self.start.edge(), to }
    }
}

impl<'a> Reader<'a> {
    /// The parts of `jobs` equal jobs.
    pub(super) fn extent(&mut self, jobs: u32, sequential: bool) -> Taken<Extent> {
        let start = self.length("offset")?.map_or(Length::default(), |(_, start)| start);
        // fio treats a size of 0 as the whole target.
        let len = self.length("size")?.filter(|(_, len)| *len != Length::default());
        if start.percent >= 100.0 {
            let given = self.given("offset")?;
            return given.map_or_else(
                || self.refuse_job("begins at the end of the target; give a smaller offset="),
                |given| self.refuse(given, "leaves nothing of the target; give less than 100%"),
            );
        }
        let part = Part { start, len: len.map(|(_, len)| len) };
        let whole = |part| Ok(Extent { parts: vec![part], streams: Streams::default() });
        let Some((given, step)) =
            self.length("offset_increment")?.filter(|(_, step)| *step != Length::default())
        else {
            if let (Some(given), true, true) = (self.given("numjobs")?, jobs > 1, sequential) {
                self.note(
                    given,
                    format_args!(
                        "fio starts its {jobs} sequential jobs at the same \
                                               offset; here --workers {jobs} starts them evenly \
                                               spaced"
                    ),
                );
            }
            return whole(part);
        };
        if jobs == 1 {
            return whole(part);
        }
        let in_one = part.len.is_none_or(|len| len.percent == 0.0 && len.bytes >= step.bytes);
        if sequential && step.percent == 0.0 && in_one {
            return self.streams(given, part, step, jobs);
        }
        self.parts(given, part, step, jobs)
    }

    /// Sequential jobs at a fixed distance are streams.
    fn streams(&mut self, given: &Given, part: Part, step: Length, jobs: u32) -> Taken<Extent> {
        let between = step.bytes.saturating_mul(u64::from(jobs - 1));
        let len = part.len.map(|len| len.plus(Length { bytes: between, percent: 0.0 }));
        if part.len.is_none_or(|len| len.bytes > step.bytes) {
            let sentence = format!(
                "fio's jobs continue into the next job's part after '{}'; here each stays in its \
                 own",
                given.written
            );
            self.note(given, sentence);
        }
        let streams = Streams { count: jobs, apart: Some(ByteCount(step.bytes)) };
        Ok(Extent { parts: vec![Part { len, ..part }], streams })
    }

    /// A separate part for every job.
    fn parts(&mut self, given: &Given, part: Part, step: Length, jobs: u32) -> Taken<Extent> {
        if jobs > MOST_PARTS {
            return self.refuse(
                given,
                format_args!(
                    "gives each of {jobs} jobs a separate part; give numjobs= at most {MOST_PARTS}"
                ),
            );
        }
        let mut parts = Vec::new();
        let mut start = part.start;
        for _ in 0..jobs {
            if start.percent >= 100.0 {
                return self.refuse(
                    given,
                    format_args!(
                        "starts some of the {jobs} jobs at the end of the target; give \
                        less, or fewer numjobs="
                    ),
                );
            }
            parts.push(Part { start, len: part.len });
            start = start.plus(step);
        }
        Ok(Extent { parts, streams: Streams::default() })
    }

    fn length(&self, key: &str) -> Taken<Option<(&'a Given, Length)>> {
        let Some(given) = self.given(key)? else { return Ok(None) };
        match self.base.amount(&given.value) {
            Some(Amount::Bytes(bytes)) if bytes > LARGEST => {
                self.refuse(given, "is more than any target has; give at most 64p")
            }
            Some(Amount::Bytes(bytes)) => Ok(Some((given, Length { bytes, percent: 0.0 }))),
            Some(Amount::Percent(percent)) => Ok(Some((given, Length { bytes: 0, percent }))),
            None => self.misunderstood(given, "a size such as 10g, or a percentage such as 20%"),
        }
    }
}
