//! What is on its way from the drives to be kept, and what is being written: neither may meet the other.

use crate::clean::page::LineName;
use crate::streams::StreamName;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use units::ByteRange;

/// Names bytes that are being read to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "whoever begins a fill ends it"]
pub struct FillName {
    line: LineName,
    number: u64,
}

/// Names bytes that are being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "whoever begins a write ends it"]
pub struct WriteName {
    line: LineName,
    number: u64,
}

#[derive(Debug)]
struct Fill {
    number: u64,
    range: ByteRange,
    ahead: Option<StreamName>,
    has_lost: bool,
}

#[derive(Default, Debug)]
pub(super) struct UnderWay {
    fills: BTreeMap<LineName, SmallVec<[Fill; 1]>>,
    writes: BTreeMap<LineName, SmallVec<[(u64, ByteRange); 2]>>,
    begun: u64,
}

impl UnderWay {
    pub(super) fn begin_fill(
        &mut self,
        line: LineName,
        range: ByteRange,
        ahead: Option<StreamName>,
    ) -> Option<FillName> {
        if self.is_written(line, range) {
            return None;
        }
        self.begun += 1;
        let number = self.begun;
        self.fills.entry(line).or_default().push(Fill { number, range, ahead, has_lost: false });
        Some(FillName { line, number })
    }

    /// What was read, and for whom. `None`: it must not be kept.
    pub(super) fn end_fill(
        &mut self,
        FillName { line, number }: FillName,
    ) -> Option<(LineName, ByteRange, Option<StreamName>)> {
        let fills = self.fills.get_mut(&line).expect("a fill has begun");
        let place = fills.iter().position(|fill| fill.number == number).expect("a fill ends once");
        let fill = fills.swap_remove(place);
        if fills.is_empty() {
            self.fills.remove(&line);
        }
        (!fill.has_lost).then_some((line, fill.range, fill.ahead))
    }

    pub(super) fn begin_write(&mut self, line: LineName, range: ByteRange) -> WriteName {
        if let Some(fills) = self.fills.get_mut(&line) {
            let met = fills.iter_mut().filter(|fill| fill.range.overlaps(range));
            met.for_each(|fill| fill.has_lost = true);
        }
        self.begun += 1;
        let number = self.begun;
        self.writes.entry(line).or_default().push((number, range));
        WriteName { line, number }
    }

    pub(super) fn end_write(&mut self, WriteName { line, number }: WriteName) {
        let writes = self.writes.get_mut(&line).expect("a write has begun");
        let place = writes.iter().position(|(other, _)| *other == number).expect("a write ends once");
        writes.swap_remove(place);
        if writes.is_empty() {
            self.writes.remove(&line);
        }
    }

    pub(super) fn is_written(&self, line: LineName, range: ByteRange) -> bool {
        self.writes.get(&line).is_some_and(|writes| writes.iter().any(|(_, other)| other.overlaps(range)))
    }

    /// Whether something that nobody asked for is on its way, and will be kept.
    pub(super) fn is_coming(&self, line: LineName, range: ByteRange) -> bool {
        let comes = |fill: &Fill| fill.ahead.is_some() && !fill.has_lost && fill.range.overlaps(range);
        self.fills.get(&line).is_some_and(|fills| fills.iter().any(comes))
    }

    /// Nothing of a volume that is on its way is kept.
    pub(super) fn lose(&mut self, volume: u32) {
        let of_volume = self.fills.iter_mut().filter(|(line, _)| line.volume == volume);
        of_volume.flat_map(|(_, fills)| fills).for_each(|fill| fill.has_lost = true);
    }
}
