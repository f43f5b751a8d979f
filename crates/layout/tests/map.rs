//! The map from bytes to cells and its inverse, over all levels, drive counts, spans and
//! arrangements.

mod shapes;

use layout::{
    CopyIndex, DataIndex, ErrorKind, Geometry, Level, MirrorArrangement, ParityArrangement,
};
use layout::{ParityIndex, Role, Shape};
use proptest::prelude::*;
use shapes::{all_shapes, geometries};
use std::collections::{BTreeMap, BTreeSet};
use units::{
    ByteCount, ByteOffset, DriveCount, DriveIndex, DriveSet, StripSize, StripeCount, StripeIndex,
};

#[test]
fn each_cell_of_the_drives_has_one_role_and_each_strip_one_home() {
    for drives in (1..=12).chain([15, 16, 24, 31, 32, 33, 48, 60, 64]) {
        let rows = 2 * u64::from(drives) + 1;
        for shape in all_shapes(drives) {
            let g = shape.geometry(StripSize::MIN, StripSize::MIN.bytes() * rows).unwrap();
            let mut homes = BTreeSet::new();
            for stripe in (0..g.stripes().0).map(StripeIndex) {
                let map = g.stripe_map(stripe);
                let mut seen: BTreeMap<Role, DriveIndex> = BTreeMap::new();
                for role in shapes::roles(&g) {
                    let cell = map.cell_of(role).unwrap();
                    assert!(homes.insert(cell), "{g} {stripe}: two strips in {cell:?}");
                    seen.insert(role, cell.drive);
                    let located = g.locate(cell.drive, cell.offset).unwrap();
                    assert_eq!((located.stripe, located.role), (stripe, role), "{g} {cell:?}");
                    assert!(map.drives().any(|drive| drive == cell.drive));
                }
                assert_eq!(map.cells().count(), usize::from(g.cells_per_stripe()));
                assert!(
                    map.cells().all(|(cell, role)| map.cell_of(role) == Some(cell)),
                    "{g} {stripe}"
                );
                assert!(g.drives_of(stripe).eq(map.drives()));
                assert_eq!(map.parity_cell(ParityIndex(g.parity_strips())), None);
                redundancy_is_apart(&g, &seen);
            }
            let strips = g.member_size().0 / g.strip().bytes().0;
            assert_eq!(homes.len() as u64, u64::from(drives) * strips, "{g}: every cell is used");
            assert!(
                homes.iter().all(|c| c.drive.0 < drives && c.offset.0 < g.member_size().0),
                "{g}"
            );
        }
    }
}

/// Redundant strips are on different drives: a data strip's copies, and all strips of a parity
/// group.
fn redundancy_is_apart(g: &Geometry, seen: &BTreeMap<Role, DriveIndex>) {
    let apart = |drives: Vec<DriveIndex>| {
        let set: BTreeSet<_> = drives.iter().collect();
        assert_eq!(set.len(), drives.len(), "{g}: {seen:?}");
    };
    if g.parity_strips() > 0 {
        return apart(seen.values().copied().collect());
    }
    for index in (0..g.data_strips()).map(DataIndex) {
        let of = |role: &Role| matches!(role, Role::Data { index: other, .. } if *other == index);
        apart(seen.iter().filter(|(role, _)| of(role)).map(|(_, drive)| *drive).collect());
    }
}

#[test]
fn every_byte_of_a_small_array_comes_back_from_where_it_went() {
    for drives in 1..=9 {
        for g in geometries(drives, StripSize::MIN, ByteCount(11 * 4096)) {
            for byte in (0..g.capacity().0).step_by(97).map(ByteOffset) {
                there_and_back(&g, byte);
            }
        }
    }
}

/// Maps a byte of the volume to its cells, and each cell back to the byte.
fn there_and_back(g: &Geometry, byte: ByteOffset) {
    let (stripe, within_stripe) = g.stripe_of(byte);
    assert_eq!(g.stripe_start(stripe) + within_stripe, byte);
    assert!(g.stripe_range(stripe).start <= byte && byte < g.stripe_range(stripe).end());
    let (index, within) = g.strip_of(within_stripe);
    for copy in (0..g.copies()).map(CopyIndex) {
        let cell = g.data_cell(stripe, index, copy);
        let located = g.locate(cell.drive, cell.offset + within).unwrap();
        assert_eq!((located.stripe, located.within), (stripe, within), "{g}");
        assert_eq!(located.role, Role::Data { index, copy }, "{g}");
        assert_eq!(g.volume_offset(located.stripe, index, located.within), byte, "{g}");
        let row = cell.offset.0 / g.strip().bytes().0;
        assert!(row >= g.row_of(stripe).0, "{g}");
    }
}

proptest! {
    #[test]
    fn any_byte_of_any_array_comes_back_from_where_it_went(
        drives in 1u16..=256, shift in 12u32..=20, member_tib in 1u64..=30, place in 0.0f64..1.0,
    ) {
        let strip = StripSize::new(ByteCount(1 << shift)).unwrap();
        for g in geometries(drives, strip, ByteCount(member_tib << 40)) {
            there_and_back(&g, ByteOffset(((g.capacity().0 - 1) as f64 * place) as u64));
        }
    }
}

#[test]
fn parity_that_moves_is_spread_evenly_over_the_drives() {
    for drives in 3..=32 {
        for g in geometries(drives, StripSize::MIN, ByteCount::MIB * 64) {
            let Some(arrangement) = g.parity_arrangement() else { continue };
            let width = g.drives_per_span().0;
            let moves_over = match arrangement.name() {
                "parity-first" | "parity-last" | "parity-first-6" => 1,
                six if six.ends_with("-6") => width - 1,
                _ => width,
            };
            let turn = 1000..1000 + u64::from(drives * width);
            let mut held: BTreeMap<DriveIndex, u32> = BTreeMap::new();
            for cell in turn.filter_map(|stripe| g.parity_cell(StripeIndex(stripe), ParityIndex(0)))
            {
                *held.entry(cell.drive).or_default() += 1;
            }
            assert_eq!(held.len(), usize::from(moves_over * g.spans()), "{g}: {held:?}");
            let (least, most) = (held.values().min().unwrap(), held.values().max().unwrap());
            assert!(most - least <= u32::from(width), "{g}: {held:?}");
        }
    }
}

#[test]
fn a_set_of_lost_drives_is_survived_if_every_strip_is_left_or_can_be_computed() {
    for drives in 1..=10 {
        for g in geometries(drives, StripSize::MIN, StripSize::MIN.bytes() * 24) {
            let maps: Vec<_> =
                (0..g.stripes().0.min(24)).map(|s| g.stripe_map(StripeIndex(s))).collect();
            let (mut least, mut most) = (u16::MAX, 0);
            // By bit set of lost drives: the number of further failures; `None` after data loss.
            let mut more: Vec<Option<u16>> = vec![None; 1 << drives];
            for bits in (0..1usize << drives).rev() {
                let absent = (0..drives).filter(|drive| bits >> drive & 1 == 0);
                let lost: DriveSet =
                    (0..drives).filter(|d| bits >> d & 1 == 1).map(DriveIndex).collect();
                let survived = maps.iter().all(|map| is_left(&g, map, &lost));
                assert_eq!(g.survives_set(&lost), survived, "{g} without {lost:?}");
                if survived {
                    most = most.max(lost.count().0);
                    let worst = absent
                        .map(|drive| more[bits | 1 << drive].map_or(0, |more| more + 1))
                        .min();
                    more[bits] = worst;
                } else {
                    least = least.min(lost.count().0 - 1);
                }
                assert_eq!(
                    g.survives_more(&lost).0,
                    more[bits].unwrap_or(0),
                    "{g} without {lost:?}"
                );
            }
            let survives = g.survives();
            assert_eq!((survives.at_least.0, survives.at_most.0), (least, most), "{g}");
        }
    }
}

/// Whether all data of a stripe survive, judged cell by cell.
fn is_left(g: &Geometry, map: &layout::StripeMap, lost: &DriveSet) -> bool {
    let gone = map.cells().filter(|(cell, role)| lost.contains(cell.drive) && *role != Role::Spare);
    if g.parity_strips() > 0 {
        return gone.count() <= usize::from(g.parity_strips());
    }
    (0..g.data_strips()).map(DataIndex).all(|index| {
        let cell = |copy| map.data_cell(index, CopyIndex(copy));
        (0..g.copies()).any(|copy| !lost.contains(cell(copy).drive))
    })
}

#[test]
fn a_lost_strip_and_the_spare_change_places() {
    for drives in 4..=32 {
        for g in geometries(drives, StripSize::MIN, ByteCount::MIB * 64) {
            for stripe in (0..2 * u64::from(drives)).map(StripeIndex) {
                let map = g.stripe_map(stripe);
                for failed in g.drives().indexes() {
                    check_relocated(&map, failed);
                }
            }
        }
    }
}

fn check_relocated(map: &layout::StripeMap, failed: DriveIndex) {
    let moved = map.relocated(failed);
    let (Some(lost), Some(spare)) = (map.role_at(failed, 0), map.spare_cell()) else {
        assert_eq!(moved, *map);
        return;
    };
    assert_eq!(moved.relocated(failed), moved, "relocation is idempotent");
    for (cell, role) in map.cells() {
        let expected = match role {
            Role::Spare => map.cell_of(lost),
            role if role == lost => Some(spare),
            _ => Some(cell),
        };
        assert_eq!(moved.cell_of(role), expected, "{map:?} {role} without {failed:?}");
        let at = moved.cell_of(role).unwrap();
        assert_eq!(moved.role_at(at.drive, 0), Some(role));
    }
}

#[test]
fn each_data_strip_weighs_differently_in_q_and_no_more_than_parity_takes() {
    for drives in 4..=64 {
        for g in geometries(drives, StripSize::MIN, ByteCount::MIB * 64) {
            for stripe in (0..2 * u64::from(drives)).map(StripeIndex) {
                let map = g.stripe_map(stripe);
                let weights: BTreeSet<u8> =
                    (0..g.data_strips()).map(|i| map.q_exponent(DataIndex(i))).collect();
                assert_eq!(weights.len(), usize::from(g.data_strips()), "{g}");
                assert!(weights.iter().all(|weight| *weight < 254), "{g}");
            }
        }
    }
}

#[test]
fn capacity_counts_whole_stripes_of_the_data_drives() {
    let on = |level, drives| {
        Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount((1 << 20) + 65535))
            .unwrap()
    };
    let cases = [
        (on(Level::Jbod, 1), 1024),
        (on(Level::Raid0, 4), 4096),
        (on(Level::Raid1, 3), 1024),
        (on(Level::Raid1e, 5), 2560),
        (on(Level::Raid10, 6), 3072),
        (on(Level::Raid5, 8), 7168),
        (on(Level::Raid5ee, 8), 6144),
        (on(Level::Raid6, 8), 6144),
        (on(Level::Raid50, 8), 6144),
        (on(Level::Raid60, 8), 4096),
    ];
    for (g, kib) in cases {
        assert_eq!(g.capacity(), ByteCount::KIB * kib, "{g}");
        assert_eq!(g.member_size(), ByteCount::MIB, "{g}");
        assert_eq!(g.locate(DriveIndex(0), ByteOffset(1 << 20)), None, "past the used part");
        assert_eq!(g.locate(DriveIndex(g.drives().0), ByteOffset(0)), None, "past the last drive");
        let exact = g.with_member_size(g.member_size_for(g.capacity())).unwrap();
        assert_eq!(exact, g);
        let more = g.member_size_for(g.capacity() + ByteCount(1));
        assert!(g.with_member_size(more).unwrap().capacity() > g.capacity(), "{g}");
        assert_eq!(g.shape().geometry(g.strip(), g.member_size()).unwrap(), g);
    }
    let odd =
        Geometry::new(Level::Raid1e, DriveCount(5), StripSize::KIB_64, ByteCount(5 << 16)).unwrap();
    assert_eq!(
        odd.stripes(),
        StripeCount(2),
        "a stripe of RAID 1E takes two rows; the fifth is unused"
    );
    assert_eq!(odd.capacity(), ByteCount(10 << 16));
}

#[test]
fn a_layout_that_cannot_be_is_refused_in_one_sentence() {
    use Level::{Jbod, Raid0, Raid1, Raid1e, Raid4, Raid5, Raid10, Raid50, Raid60};
    let new = |level, drives| Shape::new(level, DriveCount(drives));
    let spans = |shape: Shape, spans| Shape { spans: Some(spans), ..shape };
    let copies = |shape: Shape, copies| Shape { copies: Some(copies), ..shape };
    let parity = |shape: Shape, parity| Shape { parity: Some(parity), ..shape };
    let left = ParityArrangement::LeftAsymmetric;
    let cases = [
        (
            new(Raid5, 2),
            ErrorKind::TooFewDrives,
            "RAID 5 needs at least 3 drives, not 2; name more drives",
        ),
        (new(Raid0, 1), ErrorKind::TooFewDrives, "RAID 0 needs at least 2 drives, not 1"),
        (new(Raid1, 33), ErrorKind::TooManyDrives, "RAID 1 takes at most 32 drives, not 33"),
        (new(Jbod, 2), ErrorKind::TooManyDrives, "JBOD takes at most 1 drive, not 2; name fewer"),
        (
            new(Raid10, 9),
            ErrorKind::BadSpans,
            "RAID 10 on 9 drives is not possible; 9 drives can be 3 spans of 3: choose one of \
                these",
        ),
        (
            new(Raid10, 7),
            ErrorKind::BadSpans,
            "RAID 10 on 7 drives is not possible; it takes 2 to 16 spans of 2 to 3 drives: name 6 \
                or 8 drives",
        ),
        (
            spans(new(Raid50, 12), 5),
            ErrorKind::BadSpans,
            "RAID 50 on 12 drives in 5 spans is not possible; 12 drives can be 2 spans of 6 or 3 \
                spans of 4 or 4 spans of 3",
        ),
        (
            spans(new(Raid60, 8), 0),
            ErrorKind::BadSpans,
            "RAID 60 on 8 drives in 0 spans is not possible; 8 drives",
        ),
        (
            spans(new(Raid5, 8), 2),
            ErrorKind::BadSpans,
            "RAID 5 on 8 drives in 2 spans is not possible; it has no spans: leave them out",
        ),
        (
            copies(new(Raid1e, 5), 6),
            ErrorKind::BadCopies,
            "RAID 1E on 5 drives cannot keep 6 copies; choose 2 to 5",
        ),
        (copies(new(Raid5, 5), 2), ErrorKind::BadCopies, "RAID 5 on 5 drives keeps 1 copy, not 2"),
        (
            parity(new(Raid1, 2), left),
            ErrorKind::ForeignArrangement,
            "left-asymmetric is a parity layout, and RAID 1 has none to choose from",
        ),
        (
            parity(new(Raid4, 5), left),
            ErrorKind::ForeignArrangement,
            "RAID 4 has no parity layout left-asymmetric; choose one of parity-last, parity-first",
        ),
        (
            Shape { mirrors: Some(MirrorArrangement::Far), ..new(Raid10, 4) },
            ErrorKind::ForeignArrangement,
            "far is a mirror layout, and RAID 10 has none to choose from",
        ),
    ];
    for (shape, kind, sentence) in cases {
        let error = shape.check().unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
        assert_eq!(shape.geometry(StripSize::KIB_64, ByteCount::GIB), Err(error));
    }
    let sized = |level, drives, bytes| {
        Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount(bytes)).unwrap_err()
    };
    for (error, kind, sentence) in [
        (sized(Raid0, 2, 65535), ErrorKind::TooSmall, "is too small for one strip of 64 KiB"),
        (sized(Raid1e, 3, 131071), ErrorKind::TooSmall, "is too small for 2 strips of 64 KiB"),
        (sized(Raid0, 64, u64::MAX), ErrorKind::TooLarge, "exceed the volume limit of 8 EiB"),
    ] {
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
}
