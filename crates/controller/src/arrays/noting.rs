//! Writes changes of a volume's state into the label: the counterpart of
//! [`VolumeState::apply`](engine::VolumeState::apply).
//!
//! # Invariant
//! A label after a recorded change, read again, equals the state after the same change was applied.
//! The property test below checks each kind of change.

use crate::arrays::array::{runs, set_of};
use crate::arrays::serve::listed_blocks;
use engine::{BlockList, Change, RegionSet};
use ondisk::{Label, Punctured, Runs, Uuid, VolumeLabel};
use units::DriveIndex;

/// Records a change of a volume. `to_array`: converts regions of the volume to those of its array,
/// which labels use. Returns whether it can be recorded: there is space, and it agrees with the
/// present content.
///
/// # Panics
/// When labels do not hold such a change: marks and unsynced regions are in the map, the service of
/// drives is decided elsewhere.
pub(super) fn note_change(
    next: &mut Label,
    volume: Uuid,
    to_array: impl Fn(&RegionSet) -> RegionSet,
    change: &Change,
) -> bool {
    match change {
        Change::Current { slot, regions } => {
            let member = next.member.get_mut(slot.as_usize());
            member.is_some_and(|member| take_out(&mut member.stale, &to_array(regions)))
        }
        Change::Copied { slot, regions } => {
            let replacement =
                next.member.get_mut(slot.as_usize()).and_then(|member| member.replacement.as_mut());
            replacement
                .is_some_and(|replacement| take_out(&mut replacement.stale, &to_array(regions)))
        }
        Change::Moved { slot, regions, to_spare } => {
            let label = next.volume_mut(volume);
            label.is_some_and(|label| note_moved(label, *slot, &to_array(regions), *to_spare))
        }
        Change::Punctured { slot, ranges } => {
            let list = next.volume_mut(volume).map(|label| &mut label.punctured);
            note_blocks(list, *slot, |table| ranges.iter().for_each(|range| table.insert(*range)))
        }
        Change::Rewritten { slot, ranges } => {
            let list = next.volume_mut(volume).map(|label| &mut label.punctured);
            note_blocks(list, *slot, |table| ranges.iter().for_each(|range| table.remove(*range)))
        }
        Change::Excluded { slot, ranges } => {
            let list = next.volume_mut(volume).map(|label| &mut label.excluded);
            note_blocks(list, *slot, |table| ranges.iter().for_each(|range| table.insert(*range)))
        }
        Change::Included { slot, ranges } => {
            let list = next.volume_mut(volume).map(|label| &mut label.excluded);
            note_blocks(list, *slot, |table| ranges.iter().for_each(|range| table.remove(*range)))
        }
        other => panic!("labels do not record {other:?}"),
    }
}

fn take_out(of: &mut Runs, regions: &RegionSet) -> bool {
    *of = runs(&set_of(of).minus(regions));
    true
}

fn note_moved(
    label: &mut VolumeLabel,
    slot: DriveIndex,
    regions: &RegionSet,
    to_spare: bool,
) -> bool {
    let before = match &label.relocated {
        Some(relocated) if relocated.slot != slot.0 => return false,
        Some(relocated) => set_of(&relocated.regions),
        None => RegionSet::EMPTY,
    };
    let now = if to_spare { before.union(regions) } else { before.minus(regions) };
    label.relocated =
        (!now.is_empty()).then(|| ondisk::Relocated { slot: slot.0, regions: runs(&now) });
    true
}

/// Records a change of the listed blocks of one slot. False: there is no such list, or no space in
/// it.
fn note_blocks(
    list: Option<&mut Vec<Punctured>>,
    slot: DriveIndex,
    change: impl Fn(&mut BlockList),
) -> bool {
    let Some(list) = list else { return false };
    let mut table = listed_blocks(list, slot.as_usize());
    change(&mut table);
    let bytes: Vec<[u64; 2]> =
        table.ranges().iter().map(|range| [range.start.0, range.end().0]).collect();
    if bytes.len() > ondisk::MAX_PUNCTURED_RUNS {
        return false;
    }
    list.retain(|listed| listed.slot != slot.0);
    if !bytes.is_empty() {
        list.push(Punctured { slot: slot.0, bytes });
        list.sort_by_key(|listed| listed.slot);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Regions, VolumeState};
    use layout::{Geometry, Level};
    use ondisk::{Init, Member, Phase, Policy, Replacement, TailPlace, WriteHole};
    use proptest::prelude::*;
    use units::{ByteCount, ByteOffset, ByteRange, DriveCount, SectorSize, StripSize};

    const SLOTS: u16 = 5;
    /// The volume's first region in its array.
    const FIRST: u32 = 3;
    const VOLUME: Uuid = Uuid([7; 16]);

    fn geometry() -> Geometry {
        Geometry::new(Level::Raid5ee, DriveCount(SLOTS), StripSize::KIB_64, ByteCount(256 << 20))
            .expect("a geometry")
    }

    fn to_array(regions: &RegionSet) -> RegionSet {
        RegionSet::from_runs(regions.runs().iter().map(|[from, to]| [from + FIRST, to + FIRST]))
    }

    fn regions() -> impl Strategy<Value = RegionSet> {
        let count = Regions::of(&geometry()).count;
        prop::collection::vec((0..count, 1..count), 0..3).prop_map(move |runs| {
            RegionSet::from_runs(runs.into_iter().map(|(at, len)| [at, (at + len).min(count)]))
        })
    }

    fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
        let range = (0u64..64, 1u64..8)
            .prop_map(|(at, len)| ByteRange::new(ByteOffset(at * 512), ByteCount(len * 512)));
        prop::collection::vec(range, 0..3)
    }

    /// Every kind of change that a label records.
    fn change() -> impl Strategy<Value = Change> {
        let slot = || (0..SLOTS).prop_map(DriveIndex);
        prop_oneof![
            (slot(), regions()).prop_map(|(slot, regions)| Change::Current { slot, regions }),
            (slot(), regions()).prop_map(|(slot, regions)| Change::Copied { slot, regions }),
            (slot(), regions(), any::<bool>())
                .prop_map(|(slot, regions, to_spare)| Change::Moved { slot, regions, to_spare }),
            (slot(), ranges()).prop_map(|(slot, ranges)| Change::Punctured { slot, ranges }),
            (slot(), ranges()).prop_map(|(slot, ranges)| Change::Rewritten { slot, ranges }),
            (slot(), ranges()).prop_map(|(slot, ranges)| Change::Excluded { slot, ranges }),
            (slot(), ranges()).prop_map(|(slot, ranges)| Change::Included { slot, ranges }),
        ]
    }

    /// A label of five drives, each of which is stale somewhere, and is being replaced.
    fn label(stale: &RegionSet) -> Label {
        let stale = || runs(&to_array(stale));
        let member = |slot: u8| Member {
            stale: stale(),
            replacement: Some(Replacement {
                uuid: Uuid([100 + slot; 16]),
                name: format!("/drives/new{slot}"),
                size_bytes: 1 << 30,
                block_bytes: 512,
                stale: stale(),
                stands_in: None,
            }),
            ..Member::online(
                Uuid([slot; 16]),
                format!("/drives/{slot}"),
                (ByteCount(1 << 30), SectorSize::B512),
                1,
            )
        };
        Label {
            array: Uuid([9; 16]),
            drive: Uuid([0; 16]),
            generation: 1,
            confirmed: 1,
            phase: Phase::Online,
            clean: false,
            shut_down: false,
            tail: TailPlace::End,
            policy: Policy::default(),
            volume: vec![volume()],
            member: (0..SLOTS as u8).map(member).collect(),
            failed: Vec::new(),
            leaving: Vec::new(),
            initialisation_blocks: None,
        }
    }

    fn volume() -> VolumeLabel {
        let geometry = geometry();
        VolumeLabel {
            uuid: VOLUME,
            name: "v".into(),
            level: geometry.level(),
            parity: None,
            mirrors: None,
            copies: 1,
            spans: 1,
            strip_bytes: geometry.strip().bytes().0,
            data_start_bytes: 0,
            member_bytes: geometry.member_size().0,
            first_region: FIRST,
            regions: Regions::of(&geometry).count,
            sector_bytes: 512,
            capacity_bytes: geometry.capacity().0,
            write_hole: WriteHole::Resync,
            init: Init::Background,
            created_unix_s: 0,
            lost: Vec::new(),
            unwritten: Runs::default(),
            initialised_by_bytes: None,
            journal: None,
            relocated: None,
            write_mode: ondisk::WriteMode::default(),
            read_mode: ondisk::ReadMode::default(),
            cache_mode: ondisk::CacheMode::default(),
            drive_cache: ondisk::DriveCache::default(),
            sector_format: ondisk::SectorFormat::default(),
            kept: None,
            data_log: None,
            punctured: Vec::new(),
            excluded: Vec::new(),
            members: None,
            reshape: None,
            follows: None,
            part: None,
        }
    }

    /// The label's content about the volume's drives, in the form of the state.
    fn told(label: &Label) -> Vec<(RegionSet, RegionSet, [Vec<ByteRange>; 2])> {
        let own = |of: &Runs| {
            RegionSet::from_runs(
                set_of(of).runs().iter().map(|[from, to]| [from - FIRST, to - FIRST]),
            )
        };
        let of_slot = |(slot, member): (usize, &Member)| {
            let left = member.replacement.as_ref().map(|replacement| own(&replacement.stale));
            let VolumeLabel { punctured, excluded, .. } = &label.volume[0];
            let listed =
                [punctured, excluded].map(|list| listed_blocks(list, slot).ranges().to_vec());
            (own(&member.stale), left.unwrap_or(RegionSet::EMPTY), listed)
        };
        label.member.iter().enumerate().map(of_slot).collect()
    }

    fn known(state: &VolumeState) -> Vec<(RegionSet, RegionSet, [Vec<ByteRange>; 2])> {
        let of_slot = |slot: u16| {
            let slot = state.slot(DriveIndex(slot)).expect("a slot");
            let left = slot.replacement().cloned().unwrap_or(RegionSet::EMPTY);
            let listed = [slot.punctured(), slot.excluded()].map(|list| list.ranges().to_vec());
            (slot.stale().clone(), left, listed)
        };
        (0..SLOTS).map(of_slot).collect()
    }

    /// Regression test: a full list was shortened by joining runs over the blocks between them,
    /// which made good blocks unreadable.
    #[test]
    fn a_block_for_which_a_list_has_no_room_is_not_noted_and_no_other_is_instead() {
        let mut label = label(&RegionSet::EMPTY);
        let slot = DriveIndex(1);
        let block = |nth: u64| ByteRange::new(ByteOffset(nth * 1024), ByteCount(512));
        let all: Vec<ByteRange> = (0..ondisk::MAX_PUNCTURED_RUNS as u64).map(block).collect();
        let full = all.len() as u64;
        type List = fn(Vec<ByteRange>) -> Change;
        let lists: [List; 2] = [
            |ranges| Change::Punctured { slot: DriveIndex(1), ranges },
            |ranges| Change::Excluded { slot: DriveIndex(1), ranges },
        ];
        for (nth, list) in lists.into_iter().enumerate() {
            assert!(note_change(&mut label, VOLUME, to_array, &list(all.clone())));
            let before = label.clone();
            assert!(
                !note_change(&mut label, VOLUME, to_array, &list(vec![block(full)])),
                "there is no room"
            );
            assert_eq!(label, before);
            // A block next to a run needs no space.
            let beside = ByteRange::new(ByteOffset(512), ByteCount(512));
            assert!(note_change(&mut label, VOLUME, to_array, &list(vec![beside])));
            assert_eq!(told(&label)[slot.as_usize()].2[nth].len(), all.len() - 1);
        }
    }

    proptest! {
        /// A recorded change and an applied one have the same result: a start finds the state that
        /// was served.
        #[test]
        fn a_label_that_a_change_was_noted_in_tells_the_state_that_it_was_applied_to(
            stale in regions(),
            changes in prop::collection::vec(change(), 0..24),
        ) {
            let mut label = label(&stale);
            let mut state = VolumeState::optimal(&Regions::of(&geometry()));
            for slot in (0..SLOTS).map(DriveIndex) {
                state = state.with_stale(slot, &stale);
                state.apply(&Change::ReplacementBegan { slot, left: stale.clone() });
            }
            for change in changes {
                let is_other = match (&change, state.relocated()) {
                    (Change::Moved { slot, .. }, Some(moved)) => moved.slot != *slot,
                    _ => false,
                };
                let noted = note_change(&mut label, VOLUME, to_array, &change);
                prop_assert_eq!(noted, !is_other, "{:?}", change);
                state.apply(&change);
                prop_assert_eq!(told(&label), known(&state), "{:?}", change);
                let moved = label.volume[0].relocated.as_ref();
                let of_label = moved.map(|moved| (DriveIndex(moved.slot), set_of(&moved.regions)));
                let moved = state.relocated();
                let of_state = moved.map(|moved| (moved.slot, to_array(&moved.regions)));
                prop_assert_eq!(of_label, of_state, "{:?}", change);
            }
        }
    }
}
