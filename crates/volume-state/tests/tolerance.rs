//! The calculated tolerance equals a test of every set of failing drives with plans of reads.

use layout::{Geometry, Level, ParityArrangement, Shape, Survives};
use plan::{CopyChoice, Plan, Request, plan_into};
use proptest::prelude::*;
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, StripSize, StripeIndex,
};
use volume_state::{Change, RegionIndex, RegionSet, Regions, VolumeState};

const MEMBER: ByteCount = ByteCount(96 << 20);

/// Small arrays of every kind.
fn geometries() -> Vec<Geometry> {
    let of = |level, drives| {
        Geometry::new(level, DriveCount(drives), StripSize::KIB_256, MEMBER).unwrap()
    };
    let mut all: Vec<Geometry> = [
        (Level::Jbod, 1),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid1e, 5),
        (Level::Raid1e, 6),
        (Level::Raid10, 6),
        (Level::Raid4, 4),
        (Level::Raid5, 4),
        (Level::Raid5ee, 5),
        (Level::Raid6, 4),
        (Level::Raid6, 5),
        (Level::Raid50, 6),
        (Level::Raid60, 8),
    ]
    .map(|(level, drives)| of(level, drives))
    .into();
    // Linux md arrays may have all parity on one drive.
    let shape = Shape {
        parity: Some(ParityArrangement::ParityFirst),
        ..Shape::new(Level::Raid5, DriveCount(4))
    };
    all.push(shape.geometry(StripSize::KIB_256, MEMBER).unwrap());
    all
}

fn drives(bits: u32) -> DriveSet {
    (0..16).filter(|at| bits >> at & 1 == 1).map(DriveIndex).collect()
}

/// Whether every written byte can be read.
fn is_readable(state: &VolumeState, regions: &Regions) -> bool {
    let geometry = regions.geometry();
    let mut plan = Plan::new(geometry);
    let range = ByteRange::new(ByteOffset::ZERO, geometry.stripe_bytes());
    let read = Request::Read { range, prefer: CopyChoice::FIRST, split: false };
    let turn = u64::from(geometry.stripes_per_row()) * u64::from(2 * geometry.drives().0);
    (0..regions.count).map(RegionIndex).filter(|region| !state.is_unwritten(*region)).all(
        |region| {
            let stripes = regions.stripes_of(region);
            let mut stripes =
                stripes.start..stripes.end.min(geometry.stripes().0).min(stripes.start + turn);
            stripes.all(|stripe| {
                let stripe = StripeIndex(stripe);
                let health = state.planned_health(regions, stripe);
                plan_into(&mut plan, geometry, stripe, read, &health).is_ok()
            })
        },
    )
}

/// Whether nothing is lost when these drives fail as well, and the volume stays online.
fn survives(state: &VolumeState, regions: &Regions, more: &DriveSet) -> bool {
    let mut after = state.clone();
    after.apply(&Change::InService(state.in_service().minus(more)));
    regions.geometry().survives_set(&after.missed(&DriveSet::EMPTY)) && is_readable(&after, regions)
}

/// By every set of drives.
fn by_every_set(state: &VolumeState, regions: &Regions) -> (Survives, Vec<(DriveSet, bool)>) {
    let count = state.drives().0;
    let all: Vec<DriveSet> = (0..1_u32 << count).map(drives).collect();
    let in_service = all.iter().filter(|set| set.minus(&state.in_service()).is_empty());
    let sets: Vec<(DriveSet, bool)> =
        in_service.map(|set| (*set, survives(state, regions, set))).collect();
    let size = |set: &DriveSet| set.count().0;
    let fatal = sets.iter().filter(|(_, survives)| !survives).map(|(set, _)| size(set)).min();
    let at_least = fatal.unwrap_or(count + 1).saturating_sub(1);
    let missed = state.missed(&DriveSet::EMPTY);
    let lucky =
        sets.iter().filter(|(set, survives)| *survives && set.intersection(&missed).is_empty());
    let at_most = lucky.map(|(set, _)| size(set)).max().unwrap_or(0).max(at_least);
    (Survives { at_least: DriveCount(at_least), at_most: DriveCount(at_most) }, sets)
}

fn slot() -> impl Strategy<Value = DriveIndex> {
    (0_u16..8).prop_map(DriveIndex)
}

fn regions() -> impl Strategy<Value = RegionSet> {
    prop::collection::vec((0_u32..4, 1_u32..4), 0..3)
        .prop_map(|runs| RegionSet::from_runs(runs.into_iter().map(|(at, len)| [at, at + len])))
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => slot().prop_map(|slot| Change::InService(DriveSet::first(DriveCount(8)).without(slot))),
        2 => (slot(), regions()).prop_map(|(slot, stale)| Change::Drive {
            slot,
            stale,
            in_service: DriveSet::first(DriveCount(8))
        }),
        1 => regions().prop_map(Change::Synced),
        2 => regions().prop_map(Change::Unsynced),
        2 => regions().prop_map(Change::Forced),
        1 => regions().prop_map(Change::ForcedByLog),
        2 => (slot(), regions())
            .prop_map(|(slot, regions)| Change::Moved { slot, regions, to_spare: true }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_tolerated_is_what_every_set_of_drives_shows(
        geometry in prop::sample::select(geometries()),
        unwritten in regions(),
        changes in prop::collection::vec(change(), 0..5),
    ) {
        let regions = Regions::of(&geometry);
        let mut state = VolumeState::optimal(&regions).with_unwritten(&unwritten);
        for change in &changes {
            // Only RAID 5EE has a distributed spare, which holds cells of a missing drive.
            match change {
                Change::Moved { slot, .. } if geometry.level() != Level::Raid5ee
                    || state.in_service().contains(*slot) => {}
                change => state.apply(change),
            }
        }
        let tolerance = state.tolerance(&regions, &DriveSet::EMPTY);
        let (expected, sets) = by_every_set(&state, &regions);
        prop_assert_eq!(tolerance.more(), expected, "{}", geometry);
        for (set, survives) in sets {
            prop_assert_eq!(tolerance.survives(&set), survives, "{} without {:?}", geometry, set);
        }
    }
}

fn raid(level: Level, drives: u16) -> (Regions, VolumeState) {
    let geometry = Geometry::new(level, DriveCount(drives), StripSize::KIB_256, MEMBER).unwrap();
    let regions = Regions::of(&geometry);
    (regions, VolumeState::optimal(&regions))
}

fn more(state: &VolumeState, regions: &Regions) -> (u16, u16) {
    let more = state.tolerance(regions, &DriveSet::EMPTY).more();
    (more.at_least.0, more.at_most.0)
}

/// Regression: a new volume on drives with unknown content was reported to tolerate a failure;
/// after one, a quarter of the written data was unreadable.
#[test]
fn a_volume_in_its_initial_resync_survives_no_failure_until_the_last_region_is_synced() {
    for (level, drives, whole) in
        [(Level::Raid5, 4, (1, 1)), (Level::Raid6, 6, (2, 2)), (Level::Raid50, 6, (1, 2))]
    {
        let (regions, mut state) = raid(level, drives);
        let all = RegionSet::first(regions.count);
        state.apply(&Change::Unsynced(all.clone()));
        assert_eq!(more(&state, &regions), (0, 0), "{level}");
        let last = RegionSet::from_runs([[regions.count - 1, regions.count]]);
        state.apply(&Change::Synced(all.clone().minus(&last)));
        assert_eq!(more(&state, &regions), (0, 0), "{level} with one region left");
        // A replayed log is valid for every drive.
        let mut replayed = state.clone();
        replayed.apply(&Change::ForcedByLog(last.clone()));
        assert_eq!(more(&replayed, &regions), whole, "{level} with a log");
        state.apply(&Change::Synced(last));
        assert_eq!(more(&state, &regions), whole, "{level}");
    }
    let (regions, mut state) = raid(Level::Raid10, 4);
    state.apply(&Change::Unsynced(RegionSet::first(regions.count)));
    assert_eq!(more(&state, &regions), (1, 2), "the first readable copy counts");
    let (regions, mut state) = raid(Level::Raid4, 4);
    state.apply(&Change::Unsynced(RegionSet::first(1)));
    assert_eq!(more(&state, &regions), (0, 1), "the drive with parity has no data");
}

/// Worst and best cases.
#[test]
fn what_is_survived_besides_what_is_out_is_counted_at_worst_and_at_best() {
    for (level, drives, out, expected) in [
        (Level::Raid0, 4, &[][..], (0, 0)),
        (Level::Raid0, 4, &[1], (0, 0)),
        (Level::Raid1, 3, &[], (2, 2)),
        (Level::Raid1, 3, &[0], (1, 1)),
        (Level::Raid10, 6, &[], (1, 3)),
        (Level::Raid10, 6, &[0], (0, 2)),
        (Level::Raid10, 6, &[0, 3], (0, 1)),
        (Level::Raid10, 6, &[2, 3], (0, 0)),
        (Level::Raid1e, 5, &[], (1, 2)),
        // The best set begins after the missing drive.
        (Level::Raid1e, 8, &[3], (0, 3)),
        (Level::Raid5, 5, &[], (1, 1)),
        (Level::Raid5, 5, &[4], (0, 0)),
        (Level::Raid6, 6, &[], (2, 2)),
        (Level::Raid6, 6, &[1], (1, 1)),
        (Level::Raid50, 6, &[], (1, 2)),
        (Level::Raid50, 6, &[0], (0, 1)),
        (Level::Raid60, 8, &[0], (1, 3)),
    ] {
        let (regions, mut state) = raid(level, drives);
        let out: DriveSet = out.iter().map(|slot| DriveIndex(*slot)).collect();
        state.apply(&Change::InService(state.in_service().minus(&out)));
        assert_eq!(more(&state, &regions), expected, "{level} without {out:?}");
    }
}

#[test]
fn a_volume_on_its_way_tolerates_what_both_layouts_do() {
    let (old, state) = raid(Level::Raid5, 4);
    let (new, mut to) = raid(Level::Raid6, 6);
    let both = |to: &VolumeState| {
        let of_new = to.tolerance(&new, &DriveSet::EMPTY);
        state.tolerance(&old, &DriveSet::EMPTY).and(of_new)
    };
    // The new drives hold nothing of the old layout.
    assert_eq!(both(&to).more(), Survives { at_least: DriveCount(1), at_most: DriveCount(2) });
    assert!(both(&to).survives(&drives(0b11_0000)) && !both(&to).survives(&drives(0b11)));
    to.apply(&Change::Unsynced(RegionSet::first(1)));
    assert_eq!(both(&to).more(), Survives { at_least: DriveCount(0), at_most: DriveCount(0) });
}

/// Regression: a failed drive counted twice or not at all while its cells moved into the
/// distributed spare.
#[test]
fn a_distributed_spare_counts_when_all_of_the_failed_drive_lies_in_it() {
    let (regions, mut state) = raid(Level::Raid5ee, 5);
    assert_eq!(more(&state, &regions), (1, 1));
    let slot = DriveIndex(1);
    state.apply(&Change::InService(state.in_service().without(slot)));
    assert_eq!(more(&state, &regions), (0, 0), "nothing has moved");
    let most = RegionSet::first(regions.count - 1);
    state.apply(&Change::Moved { slot, regions: most, to_spare: true });
    assert_eq!(more(&state, &regions), (0, 0), "one region is left");
    state.apply(&Change::Moved { slot, regions: RegionSet::first(regions.count), to_spare: true });
    assert_eq!(more(&state, &regions), (1, 1), "all has moved");
}

/// Only the other drives have the content of an excluded block.
#[test]
fn a_drive_that_did_not_keep_a_block_counts_as_missed() {
    let ranges = vec![ByteRange::new(ByteOffset::ZERO, ByteCount(4096))];
    let excluded = Change::Excluded { slot: DriveIndex(1), ranges };
    for (level, drives, expected) in
        [(Level::Raid5, 4, (0, 0)), (Level::Raid6, 5, (1, 1)), (Level::Raid1, 3, (1, 1))]
    {
        let (regions, mut state) = raid(level, drives);
        state.apply(&excluded);
        assert_eq!(more(&state, &regions), expected, "{level}");
        let tolerance = state.tolerance(&regions, &DriveSet::EMPTY);
        assert!(
            tolerance.survives(&DriveSet::EMPTY.with(DriveIndex(1))),
            "{level}: that drive itself"
        );
    }
}

/// Regression: earlier losses counted against a drive whose failure costs nothing more, so taking
/// it offline was refused.
#[test]
fn what_is_lost_already_is_not_lost_again() {
    let one = |slot: u16| DriveSet::EMPTY.with(DriveIndex(slot));
    // A drive is being filled, and an unsynced region is not filled yet: its blocks are lost there.
    let (regions, mut state) = raid(Level::Raid5, 4);
    let first = RegionSet::first(1);
    let in_service = state.in_service();
    state.apply(&Change::Drive { slot: DriveIndex(1), stale: first.clone(), in_service });
    state.apply(&Change::Unsynced(first));
    let tolerance = state.tolerance(&regions, &DriveSet::EMPTY);
    assert!(!tolerance.survives(&DriveSet::EMPTY), "the test shows nothing");
    assert_eq!((tolerance.costs(&one(1)), more(&state, &regions)), (0, (0, 0)));
    assert!(tolerance.costs(&one(2)) > 0);
    // Excluded blocks are also punctured: redundancy needs no drive for them.
    let ranges = vec![ByteRange::new(ByteOffset::ZERO, ByteCount(4096))];
    for (level, drives, whole) in [(Level::Raid5, 4, 1), (Level::Raid6, 5, 2), (Level::Raid1, 3, 2)]
    {
        let (regions, mut state) = raid(level, drives);
        state.apply(&Change::Punctured { slot: DriveIndex(0), ranges: ranges.clone() });
        state.apply(&Change::Excluded { slot: DriveIndex(0), ranges: ranges.clone() });
        assert_eq!(more(&state, &regions), (whole, whole), "{level}");
        assert_eq!(state.tolerance(&regions, &DriveSet::EMPTY).costs(&one(2)), 0, "{level}");
        state.apply(&Change::Rewritten { slot: DriveIndex(0), ranges: ranges.clone() });
        assert_eq!(more(&state, &regions), (whole - 1, whole - 1), "{level}: rewritten");
    }
}

/// A loss of redundancy also loses the content that only redundancy has.
#[test]
fn a_block_that_its_drive_did_not_keep_is_lost_where_parity_is_not_trusted() {
    let (regions, mut state) = raid(Level::Raid4, 4);
    let ranges = vec![ByteRange::new(ByteOffset::ZERO, ByteCount(4096))];
    state.apply(&Change::Excluded { slot: DriveIndex(1), ranges });
    state.apply(&Change::Unsynced(RegionSet::first(1)));
    assert_eq!(more(&state, &regions), (0, 0), "the parity drive has no data, but data is lost");
}

/// Uninitialised regions read as zeros whatever fails.
#[test]
fn an_uninitialised_volume_tolerates_as_much_as_an_initialised_one() {
    for (level, drives, whole) in [(Level::Raid5, 4, (1, 1)), (Level::Raid6, 6, (2, 2))] {
        let (regions, state) = raid(level, drives);
        let all = RegionSet::first(regions.count);
        assert_eq!(more(&state.with_initialisation(&all, Vec::new()), &regions), whole, "{level}");
    }
}
