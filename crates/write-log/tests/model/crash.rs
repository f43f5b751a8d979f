//! The states of the journal's model after a crash, compared with the content that hosts may find.

use super::defects::Defect;
use super::{Copy, DATA, ID, Setup, State, decode};
use smallvec::SmallVec;
use std::hash::Hash;
use units::{ByteCount, ByteOffset, ByteRange};
use write_log::{Begun, Change, ChangeKind, Head, Patch, Record, counting, patches};

impl State {
    /// All state that affects a crash.
    pub(super) fn left(&self) -> impl Hash + '_ {
        let overwritten: Vec<(u64, &[usize])> =
            self.under_way.iter().map(|other| (other.copy.place, &other.to[..])).collect();
        (&self.drives, &self.allowed, &self.acknowledged, &self.loose, overwritten)
    }

    /// Simulates every possible crash in this state. Returns a failure.
    pub(super) fn crash(&self, setup: &Setup) -> Option<String> {
        for gone in sets(setup) {
            let overwrites = (0..setup.drives()).any(|drive| {
                self.drives[drive].journal.iter().any(|copy| self.is_overwritten(drive, copy))
            });
            for torn in [false, true].into_iter().filter(|torn| !torn || overwrites) {
                if let Some(wrong) = self.crash_without(setup, gone, torn) {
                    return Some(format!("without drives {gone:b}: {wrong}"));
                }
                if setup.twice
                    && let Some(wrong) = self.crash_again(setup, gone, torn)
                {
                    return Some(format!("in the replay without drives {gone:b}, {wrong}"));
                }
            }
        }
        None
    }

    /// The replay without the drives `gone` is interrupted as well; other drives may be missing
    /// then.
    fn crash_again(&self, setup: &Setup, gone: u32, torn: bool) -> Option<String> {
        let cut = self.cut_replay(setup, gone, torn)?;
        sets(setup).find_map(|then| {
            let wrong = cut.crash_without(setup, then, false)?;
            Some(format!("then without drives {then:b}: {wrong}"))
        })
    }

    /// The state after a partial replay; `None` where it had no torn record.
    fn cut_replay(&self, setup: &Setup, gone: u32, torn: bool) -> Option<State> {
        let mut left = self.clone();
        for (drive, content) in left.drives.iter_mut().enumerate() {
            content.journal.retain(|copy| !(torn && self.is_overwritten(drive, copy)));
        }
        let here: Vec<usize> = (0..setup.drives()).filter(|drive| gone >> drive & 1 == 0).collect();
        let copies = |left: &State| -> Vec<Copy> {
            here.iter().flat_map(|drive| left.drives[*drive].journal.clone()).collect()
        };
        let counting = counting(copies(&left).iter().map(record)).ok()?;
        let mut has_torn = false;
        for copy in copies(&left).iter().filter(|copy| {
            counting.iter().any(|record| record.head.sequence == copy.begun.sequence)
        }) {
            let lacks = |left: &State, drive: usize| !left.drives[drive].journal.contains(copy);
            if here.iter().filter(|drive| !lacks(&left, **drive)).count() > setup.parity {
                continue;
            }
            has_torn = true;
            for drive in here.iter().filter(|_| setup.defect != Defect::CarriedOutTorn) {
                if lacks(&left, *drive) {
                    left.drives[*drive].journal.push(copy.clone());
                }
            }
        }
        for Patch { slot, range, bytes } in patches(&counting) {
            let blocks = &mut left.drives[usize::from(slot)].blocks;
            for (value, column) in bytes.into_iter().flatten().zip(range.start.0 as usize..) {
                if here.contains(&usize::from(slot)) && !blocks[column].contains(&value) {
                    blocks[column].push(value);
                }
            }
        }
        has_torn.then_some(left)
    }

    /// Whether a drive was being sent another record for that place.
    fn is_overwritten(&self, drive: usize, copy: &Copy) -> bool {
        self.under_way
            .iter()
            .any(|other| other.copy.place == copy.place && other.to.contains(&drive))
    }

    /// `torn`: records that were being overwritten are destroyed.
    fn crash_without(&self, setup: &Setup, gone: u32, torn: bool) -> Option<String> {
        let degraded = gone != 0;
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
            // A full-stripe write was in progress, without a durability token since: it may be lost
            // with a drive.
            let is_excused = |strip: &usize| degraded && self.loose[strip * setup.columns + column];
            let strips: SmallVec<[usize; DATA]> =
                (0..DATA).filter(|strip| !is_excused(strip)).collect();
            if strips.is_empty() {
                continue;
            }
            let patched = |drive: usize| {
                let at = ByteOffset(column as u64);
                let of = patches
                    .iter()
                    .find(|patch| usize::from(patch.slot) == drive && patch.range.start == at);
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
                // The last case keeps all writes that were sent: a kill.
                let from = if way + 1 == ways { self.acknowledged[cell] } else { 0 };
                let allowed = &self.allowed[cell][from..];
                if !allowed.contains(&value) {
                    return Some(format!(
                        "strip {strip}, column {column} reads {value}, and may read {allowed:?}; \
                            drives hold {cells:?}"
                    ));
                }
            }
        }
        None
    }
}

/// Every set of offline drives, as bits: including the missing one, within the level's fault
/// tolerance.
fn sets(setup: &Setup) -> impl Iterator<Item = u32> {
    let (missing, parity) = (setup.missing.map_or(0, |drive| 1 << drive), setup.parity as u32);
    (0_u32..1 << setup.drives())
        .filter(move |gone| gone & missing == missing && gone.count_ones() <= parity)
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
