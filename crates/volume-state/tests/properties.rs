//! Properties of a volume's state under any sequence of changes.

use layout::{Geometry, Level};
use proptest::prelude::*;
use std::ops::Range;
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, StripSize, StripeIndex,
};
use volume_state::{Change, Nothing, RegionIndex, RegionSet, Regions, StripeSet, VolumeState};

const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid5ee, Level::Raid6];

fn regions_of(level: Level) -> Regions {
    let drives = if level == Level::Raid1 { 2 } else { 5 };
    let geometry =
        Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount(256 << 20)).unwrap();
    Regions::of(&geometry)
}

/// Some regions, including ones that do not exist.
fn regions() -> impl Strategy<Value = RegionSet> {
    prop::collection::vec((0u32..18, 1u32..6), 0..3)
        .prop_map(|runs| RegionSet::from_runs(runs.into_iter().map(|(at, len)| [at, at + len])))
}

/// Some slots, including ones that do not exist.
fn slot() -> impl Strategy<Value = DriveIndex> {
    (0u16..6).prop_map(DriveIndex)
}

fn slots() -> impl Strategy<Value = DriveSet> {
    prop::collection::vec(slot(), 0..6).prop_map(|slots| slots.into_iter().collect())
}

fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
    let range = (0u64..64, 1u64..8)
        .prop_map(|(at, len)| ByteRange::new(ByteOffset(at * 512), ByteCount(len * 512)));
    prop::collection::vec(range, 0..3)
}

fn stripe_set() -> impl Strategy<Value = StripeSet> {
    prop::collection::vec(0u64..200, 0..9).prop_map(StripeSet::from_iter)
}

/// A state without faults, on drives with zeros or with unknown content.
fn new(regions: &Regions, unwritten: &RegionSet, by_stripe: bool) -> VolumeState {
    let state = VolumeState::optimal(regions);
    match by_stripe {
        true => state.with_initialisation(unwritten, []),
        false => state.with_unwritten(unwritten),
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        slots().prop_map(Change::InService),
        (slot(), regions(), slots()).prop_map(|(slot, stale, in_service)| Change::Drive {
            slot,
            stale,
            in_service
        }),
        (slot(), regions()).prop_map(|(slot, left)| Change::ReplacementBegan { slot, left }),
        (slot(), regions()).prop_map(|(slot, regions)| Change::Copied { slot, regions }),
        slot().prop_map(|slot| Change::ReplacementEnded { slot }),
        (slot(), regions()).prop_map(|(slot, stale)| Change::Promoted { slot, stale }),
        (slot(), regions()).prop_map(|(slot, regions)| Change::Current { slot, regions }),
        regions().prop_map(Change::Marked),
        regions().prop_map(Change::Unmarked),
        regions().prop_map(Change::Written),
        ((0u32..18).prop_map(RegionIndex), stripe_set())
            .prop_map(|(region, stripes)| Change::StripesInitialised { region, stripes }),
        regions().prop_map(Change::Initialised),
        regions().prop_map(Change::Uninitialised),
        regions().prop_map(Change::Synced),
        regions().prop_map(Change::Unsynced),
        regions().prop_map(Change::Forced),
        regions().prop_map(Change::ForcedByLog),
        (slot(), regions(), any::<bool>()).prop_map(|(slot, regions, to_spare)| Change::Moved {
            slot,
            regions,
            to_spare
        }),
        (slot(), ranges()).prop_map(|(slot, ranges)| Change::Punctured { slot, ranges }),
        (slot(), ranges()).prop_map(|(slot, ranges)| Change::Rewritten { slot, ranges }),
    ]
}

/// Equality without the revision.
fn same(one: &VolumeState, other: &VolumeState) -> bool {
    let questions = |state: &VolumeState| {
        let slots: Vec<_> =
            state.drives().indexes().map(|slot| state.slot(slot).cloned()).collect();
        let sets = [state.unsynced(), state.marked(), state.unwritten()].map(RegionSet::clone);
        let initialisation = state.initialisation().cloned();
        (
            state.in_service(),
            slots,
            sets,
            state.forced().clone(),
            (state.relocated().cloned(), initialisation),
        )
    };
    questions(one) == questions(other)
}

/// The planning input for some stripes of every region.
fn healths(state: &VolumeState, regions: &Regions) -> Vec<plan::Health> {
    let stripes = (0..regions.geometry().stripes().0).step_by(97).map(StripeIndex);
    stripes.map(|stripe| state.stripe_health(regions, stripe, &DriveSet::EMPTY, &Nothing)).collect()
}

proptest! {
    #[test]
    fn every_sequence_of_changes_keeps_the_invariants(
        level in 0..LEVELS.len(),
        unwritten in regions(),
        by_stripe in any::<bool>(),
        changes in prop::collection::vec(change(), 0..40),
    ) {
        let regions = regions_of(LEVELS[level]);
        let mut state = new(&regions, &unwritten, by_stripe);
        for change in changes {
            let before = (state.revision(), healths(&state, &regions));
            state.apply(&change);
            prop_assert_eq!(state.check(), Ok(()), "{:?}", change);
            for region in (0..18).map(RegionIndex) {
                let Range { start, end } = regions.stripes_of(region);
                let mut stripes = (start..end).map(StripeIndex);
                let all = stripes.all(|stripe| state.is_stripe_initialised(&regions, stripe));
                prop_assert!(all || !state.is_region_initialised(region));
                let is_by_stripe = state.initialisation().is_some();
                prop_assert!(is_by_stripe || all, "nothing is initialised by stripe");
                let first = state.is_stripe_initialised(&regions, StripeIndex(start));
                prop_assert!(!(is_by_stripe && state.is_unwritten(region) && first));
            }
            // A plan must be made again wherever a new one would differ.
            let may_be_the_same = healths(&state, &regions) == before.1;
            prop_assert!(state.revision() > before.0 || may_be_the_same, "{:?}", change);
        }
    }

    /// A repeated change has no effect on a shard.
    #[test]
    fn a_change_that_comes_twice_comes_to_the_same(
        level in 0..LEVELS.len(),
        changes in prop::collection::vec(change(), 1..20),
    ) {
        let mut state = VolumeState::optimal(&regions_of(LEVELS[level]));
        for change in changes {
            state.apply(&change);
            let once = state.clone();
            state.apply(&change);
            prop_assert!(same(&state, &once), "{:?}\n{:?}\n{:?}", change, once, state);
        }
    }

    /// The planning input of each stripe agrees with the lists of regions.
    #[test]
    fn a_stripes_health_is_what_is_known_of_its_region(
        level in 0..LEVELS.len(),
        unreadable in slots(),
        changes in prop::collection::vec(change(), 0..20),
    ) {
        let regions = regions_of(LEVELS[level]);
        let mut state = VolumeState::optimal(&regions);
        changes.iter().for_each(|change| state.apply(change));
        for stripe in (0..regions.geometry().stripes().0).step_by(97).map(StripeIndex) {
            let region = regions.region_of(stripe);
            let health = state.stripe_health(&regions, stripe, &unreadable, &Nothing);
            for slot in state.drives().indexes() {
                let current = state.in_service().contains(slot)
                    && !state.slot(slot).is_some_and(|slot| slot.stale().contains(region));
                prop_assert_eq!(health.writable.contains(slot), current);
                let readable = current && !unreadable.contains(slot);
                prop_assert_eq!(health.readable.contains(slot), readable);
            }
            let listed = state.relocated().filter(|moved| moved.regions.contains(region));
            prop_assert_eq!(health.relocated, listed.map(|moved| moved.slot));
            if state.is_synced(region) {
                prop_assert!(health.parity_trusted);
            } else if !state.forced().contains(region) {
                prop_assert!(!health.parity_trusted);
            }
        }
    }

    /// `is_optimal` covers every fault of a volume.
    #[test]
    fn an_optimal_state_has_optimal_stripes(changes in prop::collection::vec(change(), 0..8)) {
        let regions = regions_of(Level::Raid5);
        let mut state = VolumeState::optimal(&regions);
        changes.iter().for_each(|change| state.apply(change));
        if state.is_optimal() {
            for stripe in (0..regions.geometry().stripes().0).step_by(97).map(StripeIndex) {
                let health = state.stripe_health(&regions, stripe, &DriveSet::EMPTY, &Nothing);
                prop_assert_eq!(health, plan::Health::optimal(regions.geometry()));
            }
        }
    }
}

/// After the replay of a log redundancy was valid for every drive. Then a drive failed during a
/// write that could not finish, and an operator forced that region. The acceptance covers only the
/// missing drive; the log's no longer counts there. A drive that fails later held acknowledged
/// data, and redundancy may give other data for it.
#[test]
fn a_log_does_not_speak_of_a_write_that_came_after_it() {
    let (missing, later) = (DriveIndex(1), DriveIndex(2));
    let run = |from, to| RegionSet::from_runs([[from, to]]);
    let mut state = VolumeState::optimal(&regions_of(Level::Raid6));
    state.apply(&Change::Unsynced(run(0, 4)));
    state.apply(&Change::ForcedByLog(run(0, 4)));
    assert!(state.forced().is_about(later, RegionIndex(2)), "a log covers every drive");
    state.apply(&Change::InService(state.in_service().without(missing)));
    state.apply(&Change::Unsynced(run(2, 3)));
    assert!(!state.forced().contains(RegionIndex(2)), "an interrupted region is not forced");
    state.apply(&Change::Forced(run(2, 3)));
    assert!(
        state.forced().is_about(missing, RegionIndex(2)),
        "the acceptance covers the missing drive"
    );
    assert!(!state.forced().is_about(later, RegionIndex(2)), "and no other");
    assert!(
        state.forced().is_about(later, RegionIndex(1)),
        "without an interrupted write the log still counts"
    );
}
