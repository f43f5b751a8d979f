//! The map from bytes to cells and its inverse, over all levels, drive counts and rotations.

use layout::{CopyIndex, DataIndex, ErrorKind, Geometry, Level, ParityIndex, ParityRotation, Role};
use proptest::prelude::*;
use std::collections::BTreeSet;
use units::{ByteCount, ByteOffset, DriveCount, DriveIndex, StripSize, StripeCount, StripeIndex};

/// Every level on `drives` drives in every rotation it has; nothing where it does not take as many.
fn geometries(drives: u16, strip: StripSize, member_size: ByteCount) -> Vec<Geometry> {
    let plain = Level::ALL
        .iter()
        .filter_map(|level| Geometry::new(*level, DriveCount(drives), strip, member_size).ok());
    plain
        .flat_map(|geometry| match geometry.rotation() {
            None => vec![geometry],
            Some(_) => ParityRotation::ALL.map(|rotation| geometry.with_rotation(rotation).unwrap()).to_vec(),
        })
        .collect()
}

#[test]
fn each_cell_of_the_drives_has_one_role_and_each_strip_one_home() {
    let stripes = 70;
    for drives in 1..=64 {
        for g in geometries(drives, StripSize::MIN, StripSize::MIN.bytes() * stripes) {
            assert_eq!(g.stripes(), StripeCount(stripes));
            let mut homes = BTreeSet::new();
            for stripe in (0..stripes).map(StripeIndex) {
                let data = (0..g.data_strips())
                    .flat_map(|index| (0..g.copies()).map(move |copy| (DataIndex(index), CopyIndex(copy))));
                for (index, copy) in data {
                    let cell = g.data_cell(stripe, index, copy);
                    assert_eq!(g.role_of(stripe, cell.drive), Role::Data { index, copy }, "{g} {stripe}");
                    assert!(homes.insert((cell.drive, cell.offset)), "{g} {stripe}: two strips in {cell:?}");
                }
                for index in 0..g.parity_strips() {
                    let cell = g.parity_cell(stripe, ParityIndex(index)).unwrap();
                    assert_eq!(g.role_of(stripe, cell.drive), Role::P, "{g} {stripe}");
                    assert!(homes.insert((cell.drive, cell.offset)), "{g} {stripe}: two strips in {cell:?}");
                }
                assert_eq!(g.parity_cell(stripe, ParityIndex(g.parity_strips())), None);
            }
            let all = u64::from(drives) * stripes;
            assert_eq!(homes.len() as u64, all, "{g}: every cell is used");
            assert!(homes.iter().all(|(d, o)| d.0 < drives && o.0 < g.member_size().0), "{g}");
        }
    }
}

#[test]
fn parity_is_spread_evenly_over_the_drives() {
    for drives in 3..=32 {
        for g in
            geometries(drives, StripSize::MIN, ByteCount::MIB).into_iter().filter(|g| g.parity_strips() == 1)
        {
            let turn = (1000..1000 + u64::from(drives)).map(StripeIndex);
            let seen: BTreeSet<_> =
                turn.map(|stripe| g.parity_cell(stripe, ParityIndex(0)).unwrap().drive).collect();
            assert_eq!(seen.len(), usize::from(drives), "{g}");
        }
    }
}

#[test]
fn every_byte_of_a_small_array_comes_back_from_where_it_went() {
    for drives in 2..=6 {
        for g in geometries(drives, StripSize::MIN, ByteCount(5 * 4096)) {
            for byte in (0..g.capacity().0).step_by(97).map(ByteOffset) {
                there_and_back(&g, byte);
            }
        }
    }
}

/// The volume's byte to its cells, and from each of them back to the volume's byte.
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
    }
}

proptest! {
    #[test]
    fn any_byte_of_any_array_comes_back_from_where_it_went(
        drives in 2u16..=64, shift in 12u32..=20, member_tib in 1u64..=30, place in 0.0f64..1.0,
    ) {
        let strip = StripSize::new(ByteCount(1 << shift)).unwrap();
        for g in geometries(drives, strip, ByteCount(member_tib << 40)) {
            there_and_back(&g, ByteOffset(((g.capacity().0 - 1) as f64 * place) as u64));
        }
    }
}

#[test]
fn strips_are_where_linux_md_put_them() {
    let measured = include_str!("md/measured.txt");
    let mut arrays = 0;
    for array in measured.split("\n\n").skip(1) {
        let (title, rows) = array.split_once('\n').unwrap();
        let (name, drives) = title.split_once(", ").unwrap();
        let (level, rotation) = name.split_once(' ').map_or((name, None), |(l, r)| (l, Some(r)));
        let drives = DriveCount(drives.trim_end_matches(" drives").parse().unwrap());
        let mut g = Geometry::new(level.parse().unwrap(), drives, StripSize::KIB_64, ByteCount::GIB).unwrap();
        if let Some(rotation) = rotation {
            g = g.with_rotation(rotation.parse().unwrap()).unwrap();
        }
        for (row, line) in rows.lines().enumerate() {
            for (drive, found) in line.split_whitespace().enumerate() {
                let offset = ByteOffset(row as u64 * 65536);
                let located = g.locate(DriveIndex(drive as u16), offset).unwrap();
                let expected = match located.role {
                    Role::P => "P".into(),
                    Role::Data { index, .. } => {
                        (g.volume_offset(located.stripe, index, ByteCount::ZERO).0 / 65536).to_string()
                    }
                };
                assert_eq!(expected, found, "{title}, stripe {row}, drive {drive}");
            }
        }
        arrays += 1;
    }
    assert_eq!(arrays, 6);
}

#[test]
fn capacity_counts_whole_strips_of_the_data_drives() {
    let on = |level, drives| {
        Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount((1 << 20) + 65535)).unwrap()
    };
    for (g, mib) in [(on(Level::Raid0, 4), 4), (on(Level::Raid1, 3), 1), (on(Level::Raid5, 8), 7)] {
        assert_eq!(g.capacity(), ByteCount::MIB * mib, "{g}");
        assert_eq!(g.member_size(), ByteCount::MIB, "{g}");
        assert_eq!(g.locate(DriveIndex(0), ByteOffset(1 << 20)), None, "past the used part");
        assert_eq!(g.locate(DriveIndex(g.drives().0), ByteOffset(0)), None, "past the last drive");
    }
}

#[test]
fn a_geometry_that_cannot_be_is_refused_in_one_sentence() {
    let new = |level, drives, member| {
        Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount(member))
    };
    let cases = [
        (
            new(Level::Raid5, 2, 1 << 30),
            ErrorKind::TooFewDrives,
            "raid5 on 2 drives cannot be; it needs 3 to 32",
        ),
        (
            new(Level::Raid0, 1, 1 << 30),
            ErrorKind::TooFewDrives,
            "raid0 on 1 drive cannot be; it needs 2 to 64",
        ),
        (
            new(Level::Raid1, 33, 1 << 30),
            ErrorKind::TooManyDrives,
            "raid1 on 33 drives cannot be; it takes 2 to 32",
        ),
        (new(Level::Raid0, 2, 65535), ErrorKind::TooSmall, "does not hold one strip of 64 KiB"),
        (new(Level::Raid0, 64, u64::MAX), ErrorKind::TooLarge, "more than 8 EiB"),
        (
            new(Level::Raid1, 2, 1 << 30).unwrap().with_rotation(ParityRotation::LeftAsymmetric),
            ErrorKind::NoRotatingParity,
            "left-asymmetric is a rotation of parity, and raid1 has none",
        ),
    ];
    for (result, kind, sentence) in cases {
        let error = result.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
}
