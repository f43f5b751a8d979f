//! Every level that SoftROC writes is decoded unchanged; layouts that DDF cannot describe are
//! refused.

use crate::arrays::volumes;
use crate::image::Image;
use crate::made::{add_spare, group, images, raid5, reference, size_of, structure};
use layout::{Geometry, Level, MirrorArrangement, ParityArrangement, Shape};
use ondisk::ErrorKind;
use ondisk::ddf::{
    DiskState, Extras, HeaderKind, LevelCode, Slot, SpareRecord, Time, tell, update,
};
use ondisk::foreign::{Arrangement, State};
use units::{ByteCount, ByteOffset, DriveCount, StripSize};

/// Every shape, on selected numbers of drives.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for level in Level::ALL {
        let row = level.row();
        for drives in [1, 2, 3, 4, 5, 6, 8, 9, 16, 48] {
            let parities = row.parity_arrangements.iter().copied().map(Some).chain([None]);
            for parity in
                parities.filter(|parity| parity.is_some() != row.parity_arrangements.is_empty())
            {
                let mirrors = row.mirror_arrangements.iter().copied().map(Some).chain([None]);
                let mirrors = mirrors.filter(|m| m.is_some() != row.mirror_arrangements.is_empty());
                for mirrors in mirrors {
                    for spans in row.spans.clone() {
                        let shape = Shape::new(level, DriveCount(drives));
                        shapes.push(Shape { parity, mirrors, spans: Some(spans), ..shape });
                    }
                }
            }
        }
    }
    shapes.retain(|shape| shape.check().is_ok());
    shapes
}

fn geometry(shape: &Shape) -> Geometry {
    shape.geometry(StripSize::KIB_64, ByteCount(4 << 20)).unwrap()
}

/// Whether both have every strip in the same place, with the same coefficients.
fn same_places(one: &Geometry, other: &Geometry) -> bool {
    let step = one.strip().bytes().0;
    let places = (0..one.member_size().0).step_by(step as usize);
    one.capacity() == other.capacity()
        && places.clone().all(|at| {
            one.drives().indexes().all(|drive| {
                let at = ByteOffset(at);
                one.locate(drive, at).map(|l| l.role) == other.locate(drive, at).map(|l| l.role)
            })
        })
}

#[test]
fn every_shape_that_ddf_has_a_code_for_comes_back_and_no_other_is_written() {
    let (mut written, mut refused) = (0, 0);
    for shape in shapes() {
        let is_foreign = match (shape.level, shape.parity, shape.mirrors) {
            (_, _, Some(mirrors)) => mirrors == MirrorArrangement::Far,
            (Level::Raid6 | Level::Raid60, Some(parity), _) => !parity.name().starts_with("ddf-"),
            _ => false,
        };
        let code = LevelCode::of(&shape);
        if is_foreign {
            assert_eq!(code.unwrap_err().kind, ErrorKind::Contradiction, "{shape:?}");
            refused += 1;
            continue;
        }
        code.unwrap();
        if shape.drives.0 > 9 && shape.level != Level::Raid1 {
            continue;
        }
        let images = images(&group(shape));
        let found = volumes(&images.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1, "{shape:?}");
        assert_eq!(found[0].state, State::Complete, "{shape:?}: {:?}", found[0].reasons);
        assert_eq!(found[0].capacity(), geometry(&shape).capacity(), "{shape:?}");
        let expected: Vec<usize> = group(shape).volumes[0]
            .members
            .iter()
            .map(|(disk, _)| (0..images.len()).find(|index| reference(*index) == *disk).unwrap())
            .collect();
        let order: Vec<usize> =
            found[0].members.iter().map(|member| member.drive.unwrap()).collect();
        assert_eq!(order, expected, "{shape:?}");
        let Arrangement::Shape(read) = found[0].record.arrangement else { panic!("{shape:?}") };
        assert!(same_places(&geometry(&read), &geometry(&shape)), "{shape:?} was read as {read:?}");
        let is_raid4 = matches!(
            shape.parity,
            Some(ParityArrangement::ParityFirst | ParityArrangement::ParityLast)
        );
        assert!(read.level == shape.level || is_raid4, "{shape:?} was read as {read:?}");
        written += 1;
    }
    assert!(written > 60 && refused > 30, "{written} {refused}");
}

#[test]
fn the_payload_comes_back_and_says_when_others_have_changed_the_structure_since() {
    let group = raid5();
    let mut image = images(&group)[1].clone();
    let drive = image.drive();
    let extras = Extras::of(drive.structure.vendor_log.as_ref().unwrap()).unwrap().unwrap();
    assert_eq!((extras.version, &extras.payload[..]), (1, &b"extras"[..]));
    assert_eq!(extras.sequence, drive.structure.header.sequence);
    // Other software increments the sequence, and keeps the log.
    let mut theirs = drive.structure.clone();
    theirs.header.sequence += 1;
    let steps = update(drive.size, Some(&drive), &theirs).unwrap();
    crate::made::apply(&mut image, &steps);
    let drive = image.drive();
    let extras = Extras::of(drive.structure.vendor_log.as_ref().unwrap()).unwrap().unwrap();
    assert_ne!(extras.sequence, drive.structure.header.sequence);
    let most = vec![9; Extras::MOST.as_usize()];
    let full = structure(&group, 1, &most);
    assert_eq!(Extras::of(&full.vendor_log.unwrap()).unwrap().unwrap().payload, most);
}

#[test]
fn what_failed_is_stale_on_the_drive_that_does_not_know_it_yet() {
    // Drive 2 failed; the other drives recorded this, drive 2 did not. Then it returned.
    let mut group = raid5();
    let mut images = images(&group);
    group.sequence += 1;
    group.disks[2].state = DiskState(DiskState::ONLINE | DiskState::FAILED);
    for index in [0, 1, 3] {
        let new = structure(&group, index, b"extras");
        let drive = images[index].drive();
        crate::made::apply(
            &mut images[index],
            &update(size_of(index), Some(&drive), &new).unwrap(),
        );
    }
    let found = &volumes(&images.iter().collect::<Vec<&Image>>())[0];
    assert_eq!(found.state, State::Degraded);
    let stale = found.members.iter().find(|member| member.drive == Some(2)).unwrap();
    assert_eq!(stale.standing, ondisk::foreign::Standing::Stale, "{:?}", stale.reason);
}

#[test]
fn two_halves_that_were_used_without_one_another_are_told() {
    let group = group(Shape::new(Level::Raid1, DriveCount(2)));
    let mut images = images(&group);
    for (index, gone) in [(0, 1), (1, 0)] {
        let mut group = group.clone();
        group.sequence += 1;
        group.disks[gone].state = DiskState(DiskState::FAILED);
        let drive = images[index].drive();
        let new = structure(&group, index, b"extras");
        crate::made::apply(
            &mut images[index],
            &update(size_of(index), Some(&drive), &new).unwrap(),
        );
    }
    let found = &volumes(&images.iter().collect::<Vec<&Image>>())[0];
    assert!(
        found.reasons.iter().any(|reason| reason.contains("were used separately")),
        "{:?}",
        found.reasons
    );
}

#[test]
fn a_dedicated_spare_is_told_for_its_volume_and_comes_back() {
    let mut group = raid5();
    add_spare(&mut group);
    let spare = SpareRecord {
        timestamp: Time(77),
        kind: SpareRecord::DEDICATED | SpareRecord::REVERTIBLE,
        most: 8,
        protects: vec![(group.volumes[0].record.guid, 0)],
    };
    group.spares.insert(reference(4), spare.clone());
    let images = images(&group);
    let drive = images[4].drive();
    assert_eq!(drive.structure.spare(), Some(&spare));
    let found = &volumes(&images.iter().collect::<Vec<&Image>>())[0];
    assert_eq!((found.others[0].drive, found.others[0].what), (4, "spare"));
    // It is no spare of another volume.
    let mut other = drive;
    for slot in &mut other.structure.slots {
        if let Slot::Spare(spare) = slot {
            spare.protects[0].0 = crate::made::guid(0xBB, 2);
        }
    }
    assert_eq!(tell(&[&images[0].drive(), &other])[1].records, []);
}

#[test]
fn headers_of_a_drive_differ_in_kind_sequence_and_open_flag_alone() {
    let whole = structure(&raid5(), 0, b"");
    let [anchor, primary, secondary] =
        [HeaderKind::Anchor, HeaderKind::Primary, HeaderKind::Secondary]
            .map(|kind| whole.encode_header(kind));
    for at in (0..512).filter(|at| !matches!(at, 4..8 | 40..44 | 48 | 112)) {
        assert!(anchor[at] == primary[at] && primary[at] == secondary[at], "byte {at}");
    }
}
