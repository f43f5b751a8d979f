//! Combined records of drives: stale members, copies, spares, drives of different sizes.

use layout::{Level, MirrorArrangement, Shape};
use ondisk::foreign::{
    Arrangement, Consistency, Entry, Feature, Format, FoundVolume, Identity, MemberRecord, Record,
    Role, Seen, Standing, State, VolumeRecord, ZoneRule, reconcile, sections,
};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet};

const KIB: u64 = 1024;

fn identity(text: &str) -> Identity {
    Identity { text: text.into(), bytes: text.as_bytes().to_vec() }
}

/// A RAID 5 on four drives, all online.
fn raid5() -> VolumeRecord {
    VolumeRecord {
        format: Format::LinuxMd,
        version: "1.2".into(),
        identity: identity("array"),
        container: None,
        name: "data".into(),
        level: "raid5".into(),
        layout: "left-symmetric".into(),
        arrangement: Arrangement::Shape(Shape::new(Level::Raid5, DriveCount(4))),
        strip: Some(ByteCount(64 * KIB)),
        capacity: None,
        member_size: Some(ByteCount(1024 * KIB)),
        slots: 4,
        entries: (0..4)
            .map(|slot| Entry { key: slot.to_string(), role: Role::Active(slot) })
            .collect(),
        sequence: 20,
        may_lag: 1,
        created_unix_s: None,
        updated_unix_s: None,
        consistency: Consistency::Clean,
        features: Vec::new(),
    }
}

fn member(slot: u16, volume: &VolumeRecord) -> Seen {
    let member = MemberRecord {
        key: slot.to_string(),
        device: Some(identity(&format!("device {slot}"))),
        role: Role::Active(slot),
        data: ByteRange::new(ByteOffset(1024 * KIB), ByteCount(1024 * KIB)),
        rebuilt: None,
        bad: Vec::new(),
        excluded: None,
    };
    Seen {
        drive: usize::from(slot),
        name: format!("disk{slot}"),
        size: ByteCount(4096 * KIB),
        record: Record { volume: volume.clone(), member },
    }
}

fn members(volume: &VolumeRecord) -> Vec<Seen> {
    (0..volume.slots).map(|slot| member(slot, volume)).collect()
}

fn only(seen: &[Seen]) -> FoundVolume {
    let mut found = reconcile(seen);
    assert_eq!(found.len(), 1);
    let found = found.remove(0);
    let mut backwards: Vec<Seen> = seen.to_vec();
    backwards.reverse();
    let again = reconcile(&backwards).remove(0);
    assert_eq!(
        (again.members, again.others, again.state),
        (found.members.clone(), found.others.clone(), found.state)
    );
    found
}

fn standings(found: &FoundVolume) -> Vec<Standing> {
    found.members.iter().map(|member| member.standing).collect()
}

use Standing::{Current, Missing, Rebuilding, Stale};

#[test]
fn all_members_make_a_complete_volume() {
    let found = only(&members(&raid5()));
    assert_eq!((found.state, standings(&found)), (State::Complete, vec![Current; 4]));
    assert_eq!(found.capacity(), ByteCount(3 * 1024 * KIB));
    assert!(found.reasons.is_empty() && found.no_writing.is_empty(), "{:?}", found.reasons);
    assert!(found.survives(&DriveSet::EMPTY.with(DriveIndex(3))));
}

#[test]
fn a_member_that_is_not_there_is_missing_and_two_are_too_many() {
    let mut seen = members(&raid5());
    seen.remove(2);
    let found = only(&seen);
    assert_eq!(
        (found.state, standings(&found)),
        (State::Degraded, vec![Current, Current, Missing, Current])
    );
    assert_eq!(found.reasons, ["member 2 (2) is missing"]);
    seen.remove(0);
    let found = only(&seen);
    assert_eq!(found.state, State::NotReadable);
    assert!(found.reasons.iter().any(|reason| reason.contains("2 of its 4 members are missing")));
}

#[test]
fn a_member_that_missed_events_is_stale_and_one_event_is_none() {
    let mut seen = members(&raid5());
    seen[1].record.volume.sequence = 19;
    assert_eq!(only(&seen).state, State::Complete);
    seen[1].record.volume.sequence = 18;
    let found = only(&seen);
    assert_eq!(
        (found.state, standings(&found)),
        (State::Degraded, vec![Current, Stale, Current, Current])
    );
    assert_eq!(found.members[1].sequence, Some(18));
    assert_eq!(
        found.reasons,
        ["disk1 is stale: its metadata are at number 18, those of the others at 20"]
    );
}

#[test]
fn a_member_that_the_others_call_failed_is_stale_though_it_counts_itself_in() {
    let mut seen = members(&raid5());
    for other in [0, 2, 3] {
        seen[other].record.volume.entries[1].role = Role::Failed;
    }
    let found = only(&seen);
    assert_eq!(standings(&found), [Current, Stale, Current, Current]);
    assert!(
        found.reasons[0].contains("the other members record it as failed"),
        "{:?}",
        found.reasons
    );
    // The same with a higher number: this drive alone has updated its own record.
    seen[1].record.volume.sequence = 19;
    assert_eq!(standings(&only(&seen)), [Current, Stale, Current, Current]);
}

#[test]
fn a_rebuilt_spare_has_the_slot_and_the_old_member_is_listed() {
    let mut volume = raid5();
    volume.sequence = 36;
    volume.entries[1].role = Role::Failed;
    volume.entries.push(Entry { key: "4".into(), role: Role::Active(1) });
    let mut seen = members(&volume);
    seen[1].record.volume = raid5();
    let mut spare = member(1, &volume);
    (spare.drive, spare.name) = (4, "disk4".into());
    (spare.record.member.key, spare.record.member.device) =
        ("4".into(), Some(identity("device 4")));
    seen.push(spare);
    let found = only(&seen);
    assert_eq!((found.state, standings(&found)), (State::Complete, vec![Current; 4]));
    assert_eq!(found.members[1].drive, Some(4));
    assert_eq!(
        (found.others[0].drive, found.others[0].what, found.others[0].sequence),
        (1, "stale", 20)
    );
}

#[test]
fn a_member_in_rebuild_is_not_read_and_spares_are_listed() {
    let mut volume = raid5();
    volume.entries.push(Entry { key: "4".into(), role: Role::Spare });
    let mut seen = members(&volume);
    seen[3].record.member.rebuilt = Some(ByteCount(256 * KIB));
    let mut spare = member(0, &volume);
    (spare.drive, spare.name) = (4, "disk4".into());
    (spare.record.member.key, spare.record.member.device) = ("4".into(), None);
    spare.record.member.role = Role::Spare;
    seen.push(spare);
    let found = only(&seen);
    assert_eq!(
        (found.state, standings(&found)),
        (State::Degraded, vec![Current, Current, Current, Rebuilding])
    );
    assert_eq!((found.others[0].drive, found.others[0].what), (4, "spare"));
}

#[test]
fn of_a_drive_and_its_copy_the_newer_is_used_and_of_equals_neither() {
    let mut seen = members(&raid5());
    let mut copy = seen[2].clone();
    (copy.drive, copy.name) = (7, "copy2".into());
    seen.push(copy);
    let found = only(&seen);
    assert_eq!(standings(&found), [Current, Current, Missing, Current]);
    assert_eq!(found.others.iter().map(|other| other.drive).collect::<Vec<_>>(), [2, 7]);
    assert!(found.reasons[0].contains("equally new"), "{:?}", found.reasons);
    seen[4].record.volume.sequence = 12;
    let found = only(&seen);
    assert_eq!((found.state, found.members[2].drive), (State::Complete, Some(2)));
    assert_eq!((found.others[0].drive, found.others[0].what), (7, "copy"));
}

#[test]
fn halves_that_were_used_without_one_another_are_told() {
    let mut volume = raid5();
    volume.arrangement = Arrangement::Shape(Shape::new(Level::Raid1, DriveCount(2)));
    (volume.slots, volume.strip) = (2, None);
    volume.entries.truncate(2);
    let (mut one, mut two) = (volume.clone(), volume);
    one.entries[1].role = Role::Failed;
    two.entries[0].role = Role::Failed;
    two.sequence = 23;
    let seen = [member(0, &one), member(1, &two)];
    let found = only(&seen);
    assert_eq!((found.state, standings(&found)), (State::Degraded, vec![Stale, Current]));
    assert!(
        found.reasons.iter().any(|reason| reason.contains("were used separately")),
        "{:?}",
        found.reasons
    );
}

#[test]
fn what_is_at_work_stands_against_writing() {
    let mut volume = raid5();
    volume.features = vec![Feature::Bitmap, Feature::Unknown("feature bits 0x8000".into())];
    let found = only(&members(&volume));
    assert_eq!(found.no_writing, ["it uses unsupported features: feature bits 0x8000"]);
}

#[test]
fn records_of_different_volumes_are_not_mixed() {
    let mut other = raid5();
    other.identity = identity("other");
    let mut seen = members(&raid5());
    seen.extend(members(&other));
    assert_eq!(reconcile(&seen).len(), 2);
}

fn known(kib: &[u64]) -> Vec<Option<ByteCount>> {
    kib.iter().map(|kib| Some(ByteCount(kib * KIB))).collect()
}

/// The slot and the row of the first copy of each of the volume's strips of 64 KiB.
fn places(volume: &VolumeRecord, kib: &[u64]) -> Vec<(u16, u64)> {
    let strip = ByteCount(64 * KIB);
    let mut places = Vec::new();
    for section in sections(volume, &known(kib)).unwrap() {
        let geometry = section.geometry().unwrap();
        for at in (section.within.start.0..section.within.end().0).step_by(strip.as_usize()) {
            let (stripe, within) = geometry.stripe_of(ByteOffset(at));
            let (index, within) = geometry.strip_of(within);
            let cell = geometry.data_cell(stripe, index, layout::CopyIndex(0));
            let (slot, start) = section.members[cell.drive.as_usize()];
            places.push((slot, (start.0 + cell.offset.0 + within.0) / strip.0));
        }
    }
    places
}

#[test]
fn raid_0_on_drives_of_different_sizes_has_zones() {
    let mut volume = raid5();
    (volume.slots, volume.member_size) = (3, None);
    volume.arrangement = Arrangement::Zones(ZoneRule::Alternate);
    // Drives of 3, 1 and 2 strips: the number of strips of the first zone is a multiple of 3, not
    // of 2.
    let kib = [3 * 64 + 40, 64, 2 * 64];
    assert_eq!(places(&volume, &kib), [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2)]);
    volume.arrangement = Arrangement::Zones(ZoneRule::Original);
    assert_eq!(places(&volume, &kib), [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (0, 2)]);
    volume.arrangement = Arrangement::Zones(ZoneRule::Unrecorded);
    assert!(sections(&volume, &known(&kib)).unwrap_err().contains("do not record"));
    assert_eq!(places(&volume, &[64; 3]), [(0, 0), (1, 0), (2, 0)]);
    let mut unknown = known(&kib);
    unknown[1] = None;
    assert!(sections(&volume, &unknown).unwrap_err().contains("missing"));
}

#[test]
fn linear_goes_on_from_drive_to_drive() {
    let mut volume = raid5();
    (volume.slots, volume.member_size) = (2, None);
    volume.arrangement = Arrangement::Linear;
    assert_eq!(places(&volume, &[130, 3 * 64]), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
}

#[test]
fn the_last_rows_of_striped_mirrors_are_not_left_out() {
    let shape = Shape {
        copies: Some(3),
        mirrors: Some(MirrorArrangement::Near),
        ..Shape::new(Level::Raid1e, DriveCount(5))
    };
    let mut volume = raid5();
    (volume.slots, volume.member_size) = (5, Some(ByteCount(5 * 64 * KIB)));
    volume.arrangement = Arrangement::Shape(shape);
    // 25 strips on the drives hold 8 data strips in three copies each: 5 in the whole stripe of
    // three rows, and 3 in the next two rows.
    let expected: Vec<(u16, u64)> =
        (0..8).map(|strip| ((strip * 3 % 5) as u16, strip * 3 / 5)).collect();
    assert_eq!(places(&volume, &[5 * 64; 5]), expected);
    volume.capacity = Some(ByteCount(7 * 64 * KIB));
    assert_eq!(places(&volume, &[5 * 64; 5]).len(), 7);
    volume.capacity = Some(ByteCount(9 * 64 * KIB));
    assert!(sections(&volume, &known(&[5 * 64; 5])).unwrap_err().contains("hold only 512 KiB"));
}

#[test]
fn a_volume_with_more_members_than_can_be_is_listed_and_not_served() {
    let mut volume = raid5();
    volume.slots = 60_000;
    let found = only(&[member(0, &volume)]);
    assert_eq!((found.state, found.members.len()), (State::NotReadable, 60_000));
}

#[test]
fn a_mirror_ends_where_its_members_end() {
    let mut volume = raid5();
    (volume.slots, volume.strip, volume.member_size) = (2, None, Some(ByteCount(64 * KIB + 1536)));
    volume.arrangement = Arrangement::Shape(Shape::new(Level::Raid1, DriveCount(2)));
    let found = sections(&volume, &known(&[80, 80])).unwrap();
    let lengths: Vec<u64> = found.iter().map(|section| section.within.len.0).collect();
    assert_eq!(lengths, [64 * KIB, 1536]);
    let last = &found[1];
    assert_eq!(last.members[1], (1, ByteOffset(64 * KIB + 1536 - 4096)));
    assert_eq!(last.within.start, ByteOffset(4096 - 1536));
}
