//! What a crash leaves in the model of the journal, and whether hosts may find that.

use super::{Copy, DATA, ID, Setup, State, decode};
use crate::journal::ring::Begun;
use ondisk::journal::{Change, ChangeKind, Head, Record, counting, patches};
use smallvec::SmallVec;
use std::hash::Hash;
use units::{ByteCount, ByteOffset, ByteRange};

impl State {
    /// All that a crash depends on.
    pub(super) fn left(&self) -> impl Hash + '_ {
        let overwritten: Vec<(u64, &[usize])> =
            self.under_way.iter().map(|other| (other.copy.place, &other.to[..])).collect();
        (&self.drives, &self.allowed, &self.acknowledged, &self.loose, overwritten)
    }

    /// The machine dies now, in every way it can. What is wrong afterwards.
    pub(super) fn crash(&self, setup: &Setup) -> Option<String> {
        for lost in 0_u32..1 << setup.drives() {
            let missing = setup.missing.map_or(0, |drive| 1 << drive);
            let gone = lost | missing;
            if gone.count_ones() as usize > setup.parity || lost & missing != 0 {
                continue;
            }
            let overwrites = (0..setup.drives())
                .any(|drive| self.drives[drive].journal.iter().any(|copy| self.is_overwritten(drive, copy)));
            for torn in [false, true].into_iter().filter(|torn| !torn || overwrites) {
                if let Some(wrong) = self.crash_without(setup, gone, lost != 0 || missing != 0, torn) {
                    return Some(format!("without drives {gone:b}: {wrong}"));
                }
            }
        }
        None
    }

    /// Whether a drive was being sent something to write over a record.
    fn is_overwritten(&self, drive: usize, copy: &Copy) -> bool {
        self.under_way.iter().any(|other| other.copy.place == copy.place && other.to.contains(&drive))
    }

    /// `torn`: nothing is left of what was being overwritten.
    fn crash_without(&self, setup: &Setup, gone: u32, degraded: bool, torn: bool) -> Option<String> {
        let here = |drive: usize| gone >> drive & 1 == 0;
        let copies = (0..setup.drives()).filter(|drive| here(*drive)).flat_map(|drive| {
            let journal = self.drives[drive].journal.iter();
            journal.filter(move |copy| !(torn && self.is_overwritten(drive, copy)))
        });
        let patches = match counting(copies.map(record)) {
            Ok(counting) => patches(&counting),
            Err(missing) => return Some(format!("{missing:?}")),
        };
        for column in 0..setup.columns {
            // A whole stripe was being written, and nothing promised since: nobody else's data is in it.
            let is_excused = |strip: &usize| degraded && self.loose[strip * setup.columns + column];
            let strips: SmallVec<[usize; DATA]> = (0..DATA).filter(|strip| !is_excused(strip)).collect();
            if strips.is_empty() {
                continue;
            }
            let patched = |drive: usize| {
                let at = ByteOffset(column as u64);
                let of =
                    patches.iter().find(|patch| usize::from(patch.slot) == drive && patch.range.start == at);
                of.and_then(|patch| patch.bytes.as_ref().map(|bytes| bytes[0]))
            };
            let choices: SmallVec<[SmallVec<[Option<u8>; 6]>; 4]> = (0..setup.drives())
                .map(|drive| match (here(drive), patched(drive)) {
                    (false, _) => SmallVec::from_iter([None]),
                    (true, Some(value)) => SmallVec::from_iter([Some(value)]),
                    (true, None) => {
                        self.drives[drive].blocks[column].iter().map(|value| Some(*value)).collect()
                    }
                })
                .collect();
            if let Some(wrong) = self.any_wrong(setup, column, &strips, &choices) {
                return Some(format!("{wrong}, patches {patches:?}"));
            }
        }
        None
    }

    fn any_wrong(
        &self,
        setup: &Setup,
        column: usize,
        strips: &[usize],
        choices: &[SmallVec<[Option<u8>; 6]>],
    ) -> Option<String> {
        let ways: usize = choices.iter().map(|choice| choice.len()).product();
        for way in 0..ways {
            let mut rest = way;
            let cells: SmallVec<[Option<u8>; 4]> = choices
                .iter()
                .map(|choice| {
                    let value = choice[rest % choice.len()];
                    rest /= choice.len();
                    value
                })
                .collect();
            let data = decode(&cells)?;
            for (strip, value) in strips.iter().map(|strip| (*strip, data[*strip])) {
                let cell = strip * setup.columns + column;
                // The last way is that all that was sent is there: a kill.
                let from = if way + 1 == ways { self.acknowledged[cell] } else { 0 };
                let allowed = &self.allowed[cell][from..];
                if !allowed.contains(&value) {
                    return Some(format!(
                        "strip {strip}, column {column} reads {value}, and may read {allowed:?}; drives hold {cells:?}"
                    ));
                }
            }
        }
        None
    }
}

fn record(copy: &Copy) -> Record {
    let range = |column: usize| ByteRange::new(ByteOffset(column as u64), ByteCount(1));
    let kind = |value: Option<u8>| value.map_or(ChangeKind::Revoked, |_| ChangeKind::Bytes);
    let changes = copy.changes.iter().map(|(drive, column, value)| Change {
        slot: *drive as u16,
        kind: kind(*value),
        range: range(*column),
    });
    let body = copy.changes.iter().filter_map(|(.., value)| *value).collect();
    let Begun { sequence, tail, firm } = copy.begun;
    let head = Head { id: ID, ring: 0, sequence, tail, firm, place: copy.place };
    Record { head, changes: changes.collect(), body }
}
