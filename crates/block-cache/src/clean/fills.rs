//! Running fills and writes: a fill that overlaps a write is dropped.

use crate::clean::page::LineName;
use crate::streams::StreamName;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use units::ByteRange;

/// Identifies a fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a fill must be ended"]
pub struct FillName {
    line: LineName,
    number: u64,
}

/// Identifies a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a write must be ended"]
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

    /// The range and its stream. `None`: the data must not be cached.
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
        let place =
            writes.iter().position(|(other, _)| *other == number).expect("a write ends once");
        writes.swap_remove(place);
        if writes.is_empty() {
            self.writes.remove(&line);
        }
    }

    pub(super) fn is_written(&self, line: LineName, range: ByteRange) -> bool {
        self.writes
            .get(&line)
            .is_some_and(|writes| writes.iter().any(|(_, other)| other.overlaps(range)))
    }

    /// Whether a read-ahead that overlaps this range is running and not dropped.
    pub(super) fn is_coming(&self, line: LineName, range: ByteRange) -> bool {
        let comes =
            |fill: &Fill| fill.ahead.is_some() && !fill.has_lost && fill.range.overlaps(range);
        self.fills.get(&line).is_some_and(|fills| fills.iter().any(comes))
    }

    /// Drops all running fills of a volume.
    pub(super) fn lose(&mut self, volume: u32) {
        let of_volume = self.fills.iter_mut().filter(|(line, _)| line.volume == volume);
        of_volume.flat_map(|(_, fills)| fills).for_each(|fill| fill.has_lost = true);
    }
}
