//! From labels to arrays: order, stale drives, copies, separately used parts.

use layout::Level;
use ondisk::{
    Cause, FoundArray, Init, Label, Member, MemberState, Phase, Policy, Readiness, Replacement,
    Role, Runs, SeenDrive, TailPlace, Uuid, VolumeLabel, WriteHole, reconcile,
};
use units::{ByteCount, SectorSize};

const ON: (ByteCount, SectorSize) = (ByteCount(64 << 20), SectorSize::B512);

fn uuid(last: u8) -> Uuid {
    Uuid([last; 16])
}

fn volume(level: Level, drives: u8) -> VolumeLabel {
    VolumeLabel {
        uuid: uuid(0xBB),
        name: "data".into(),
        level,
        parity: None,
        mirrors: None,
        spans: if level == Level::Raid10 { u16::from(drives) / 2 } else { 1 },
        copies: match level {
            Level::Raid1 => u16::from(drives),
            Level::Raid10 => 2,
            _ => 1,
        },
        strip_bytes: 65536,
        data_start_bytes: 0,
        member_bytes: 1 << 20,
        first_region: 0,
        regions: 1,
        sector_bytes: 512,
        capacity_bytes: 65536,
        write_hole: WriteHole::Resync,
        init: Init::Zeroed,
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

fn label(level: Level, drives: u8, generation: u64) -> Label {
    let label = Label {
        array: uuid(0xAA),
        drive: uuid(0),
        generation,
        confirmed: generation - 1,
        phase: Phase::Online,
        clean: true,
        shut_down: false,
        failed: Vec::new(),
        leaving: Vec::new(),
        initialisation_blocks: None,
        tail: TailPlace::End,
        policy: Policy::default(),
        volume: vec![volume(level, drives)],
        member: (0..drives)
            .map(|slot| Member::online(uuid(slot), format!("d{slot}"), ON, 1))
            .collect(),
    };
    label.check().unwrap();
    label
}

/// The next label, with a failed drive; it confirms the previous one.
fn without(mut label: Label, slot: usize, cause: Cause) -> Label {
    (label.confirmed, label.generation) = (label.generation, label.generation + 1);
    let (since, knew) = (label.generation, label.confirmed);
    let member = &mut label.member[slot];
    (member.state, member.since, member.knew) = (MemberState::Failed, since, knew);
    member.cause = Some(cause);
    label.check().unwrap();
    label
}

fn drive(label: &Label, slot: u8) -> SeenDrive {
    let label = label.for_drive(uuid(slot));
    SeenDrive { name: format!("/dev/{slot}"), size: ByteCount(34 << 20), label }
}

fn readiness(array: &FoundArray) -> Readiness {
    array.readiness(&array.label.volume[0])
}

fn one(drives: &[SeenDrive]) -> FoundArray {
    let mut arrays = reconcile(drives);
    assert_eq!(arrays.len(), 1);
    let array = arrays.remove(0);
    // The order of the drives does not matter.
    let mut reversed = drives.to_vec();
    reversed.reverse();
    let again = reconcile(&reversed).remove(0);
    let roles =
        |array: &FoundArray| array.members.iter().map(|m| m.role.clone()).collect::<Vec<_>>();
    assert_eq!(roles(&array), roles(&again));
    assert_eq!((readiness(&array), &array.reasons), (readiness(&again), &again.reasons));
    assert!(array.label.agrees_with(&again.label));
    array
}

#[test]
fn drives_come_up_in_their_slots_whatever_their_order() {
    let label = label(Level::Raid5, 3, 4);
    let array = one(&[drive(&label, 2), drive(&label, 0), drive(&label, 1)]);
    assert_eq!(readiness(&array), Readiness::Optimal);
    assert_eq!(
        array.members.iter().map(|member| member.drive).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(0)]
    );
    assert!(array.reasons.is_empty());
}

#[test]
fn a_drive_that_left_is_recognised_and_may_come_back() {
    let old = label(Level::Raid5, 3, 4);
    let new = without(old.clone(), 1, Cause::Error);
    for told in [&old, &new] {
        let array = one(&[drive(&new, 0), drive(told, 1), drive(&new, 2)]);
        assert_eq!(array.members[1].role, Role::Left(Cause::Error));
        assert_eq!(readiness(&array), Readiness::Degraded);
        assert!(array.reasons[0].contains("/dev/1 is not in use"), "{:?}", array.reasons);
    }
}

/// Regression: a drive was restored from an image while it was not in use, and returned as if only
/// the recorded regions were stale. The image was older than the drive's content when it left.
#[test]
fn an_earlier_image_of_a_drive_that_left_is_not_taken_for_it() {
    let image = label(Level::Raid5, 3, 4);
    let mut then = image.clone();
    (then.generation, then.confirmed) = (6, 5);
    let new = without(then.clone(), 1, Cause::Missing);
    assert_eq!(new.member[1].knew, 6);
    let array = one(&[drive(&new, 0), drive(&image, 1), drive(&new, 2)]);
    assert_eq!(array.members[1].role, Role::Stale);
    assert!(array.reasons[0].contains("earlier copy"), "{:?}", array.reasons);
    let array = one(&[drive(&new, 0), drive(&then, 1), drive(&new, 2)]);
    assert_eq!(array.members[1].role, Role::Left(Cause::Missing));
}

/// Regression: a drive returned to use; the process was killed when the other drives had the new
/// label and this one did not. It passed for an earlier copy of itself.
#[test]
fn a_drive_whose_return_was_interrupted_is_what_left() {
    let then = label(Level::Raid5, 3, 4);
    let mut out = without(then.clone(), 1, Cause::Offline);
    (out.generation, out.confirmed) = (7, 6);
    let mut back = out.clone();
    (back.generation, back.confirmed) = (8, 7);
    let member = &mut back.member[1];
    (member.state, member.cause, member.since) = (MemberState::Online, None, 8);
    back.check().unwrap();
    let array = one(&[drive(&back, 0), drive(&then, 1), drive(&out, 2)]);
    assert_eq!(array.members[1].role, Role::Current);
    // Once the change is confirmed, the drive must have it.
    (back.generation, back.confirmed) = (9, 8);
    let array = one(&[drive(&back, 0), drive(&then, 1), drive(&back, 2)]);
    assert_eq!(array.members[1].role, Role::Stale);
}

/// Regression: an operator took one of two mirrors offline, which still responded. Started alone,
/// it came up as a complete array.
#[test]
fn a_drive_that_was_told_that_it_is_out_does_not_start_alone() {
    let new = without(label(Level::Raid1, 2, 4), 1, Cause::Operator);
    assert_eq!(readiness(&one(&[drive(&new, 1)])), Readiness::Offline);
    assert_eq!(readiness(&one(&[drive(&new, 0)])), Readiness::Degraded);
}

#[test]
fn mirrors_in_pairs_may_lose_one_of_each_and_not_both_of_one() {
    let raid10 = label(Level::Raid10, 6, 4);
    let all: Vec<SeenDrive> = (0..6).map(|slot| drive(&raid10, slot)).collect();
    let one_of_each = [all[1].clone(), all[2].clone(), all[5].clone()];
    assert_eq!(readiness(&one(&one_of_each)), Readiness::Degraded);
    let array = one(&all[2..]);
    assert_eq!(readiness(&array), Readiness::Offline);
    assert!(
        array.reasons[2].contains("'data' cannot be started without 2 of its 6 drives"),
        "{:?}",
        array.reasons
    );
}

#[test]
fn each_volume_of_an_array_is_ready_or_not_by_its_own_level() {
    let mut both = label(Level::Raid5, 3, 4);
    both.volume.push(VolumeLabel {
        uuid: uuid(0xBC),
        name: "scratch".into(),
        data_start_bytes: 1 << 20,
        first_region: 1,
        ..volume(Level::Raid0, 3)
    });
    both.check().unwrap();
    let array = one(&[drive(&both, 0), drive(&both, 1)]);
    assert_eq!(readiness(&array), Readiness::Degraded);
    assert_eq!(array.readiness(&array.label.volume[1]), Readiness::Offline);
    assert!(
        array.reasons[1].contains("'scratch' cannot be started without 1"),
        "{:?}",
        array.reasons
    );
    // The drive is offline now, and the other volume was used: 'scratch' needs it back, and the
    // drive has all its data.
    let mut out = without(both.clone(), 2, Cause::Error);
    out.volume[1].lost = vec![2];
    let array = one(&[drive(&out, 0), drive(&out, 1), drive(&both, 2)]);
    assert_eq!(array.members[2].role, Role::Left(Cause::Error));
    assert_eq!(array.readiness(&array.label.volume[1]), Readiness::Offline);
}

#[test]
fn a_replacement_is_found_beside_the_member_it_is_to_replace() {
    let mut being_replaced = label(Level::Raid1, 2, 4);
    being_replaced.member[1].replacement = Some(Replacement {
        uuid: uuid(7),
        name: "d7".into(),
        size_bytes: 64 << 20,
        block_bytes: 512,
        stale: Runs::one(0, 1),
        stands_in: None,
    });
    let array =
        one(&[drive(&being_replaced, 0), drive(&being_replaced, 1), drive(&being_replaced, 7)]);
    assert_eq!((array.members[1].replacement, array.refused.len()), (Some(2), 0));
    assert_eq!(readiness(&array), Readiness::Optimal);
    let mut earlier = being_replaced.clone();
    (earlier.generation, earlier.confirmed) = (2, 1);
    let array = one(&[drive(&being_replaced, 0), drive(&being_replaced, 1), drive(&earlier, 7)]);
    assert_eq!(array.members[1].replacement, None);
    // The replacement took the slot; the replaced drive belongs to no array.
    let mut promoted = being_replaced.clone();
    (promoted.generation, promoted.confirmed) = (5, 4);
    promoted.member[1] = Member::online(uuid(7), "d7", ON, 5);
    let array = one(&[drive(&promoted, 0), drive(&being_replaced, 1), drive(&promoted, 7)]);
    assert_eq!((array.members[1].drive, array.refused.len()), (Some(2), 1));
    assert!(array.refused[0].1.contains("former member"), "{:?}", array.refused);
}

#[test]
fn an_interrupted_change_makes_no_drive_stale_but_an_older_copy_is() {
    let old = label(Level::Raid5, 3, 4);
    let mut new = old.clone();
    new.generation = 5;
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&old, 2)]);
    assert_eq!((readiness(&array), array.label.generation), (Readiness::Optimal, 5));
    // Changes that failed, for lack of space, do not make it a separate part.
    new.generation = 9;
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&old, 2)]);
    assert_eq!((readiness(&array), array.label.generation), (Readiness::Optimal, 9));
    new.confirmed = 5;
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&new, 2)]);
    assert_eq!(array.members[1].role, Role::Stale);
    assert!(array.reasons[0].contains("earlier copy"), "{:?}", array.reasons);
}

#[test]
fn missing_drives_are_counted_against_what_the_level_survives() {
    let raid5 = label(Level::Raid5, 3, 4);
    let array = one(&[drive(&raid5, 0), drive(&raid5, 2)]);
    assert_eq!((readiness(&array), &array.members[1].role), (Readiness::Degraded, &Role::Missing));
    assert_eq!(array.reasons, ["drive d1 of 'data' is missing"]);
    let array = one(&[drive(&raid5, 2)]);
    assert_eq!(readiness(&array), Readiness::Offline);
    assert!(
        array.reasons[2].contains("'data' cannot be started without 2 of its 3 drives"),
        "{:?}",
        array.reasons
    );
    let raid0 = label(Level::Raid0, 2, 4);
    assert_eq!(readiness(&one(&[drive(&raid0, 1)])), Readiness::Offline);
}

#[test]
fn of_two_copies_of_a_drive_the_newer_is_used_and_of_equals_none() {
    let old = label(Level::Raid1, 2, 4);
    let mut new = old.clone();
    new.generation = 5;
    let array = one(&[drive(&old, 0), drive(&new, 0), drive(&new, 1)]);
    assert_eq!(readiness(&array), Readiness::Optimal);
    assert_eq!(array.refused.len(), 1);
    assert!(array.refused[0].1.contains("copy"), "{:?}", array.refused);
    let array = one(&[drive(&new, 0), drive(&new, 0), drive(&new, 1)]);
    assert_eq!(readiness(&array), Readiness::Degraded);
    assert_eq!(array.members[0].role, Role::Missing);
    assert_eq!(array.refused.len(), 2);
}

#[test]
fn an_array_of_nothing_but_copies_is_offline_and_says_why() {
    let label = label(Level::Raid0, 2, 4);
    let array = one(&[drive(&label, 0), drive(&label, 0)]);
    assert_eq!((readiness(&array), array.refused.len()), (Readiness::Offline, 2));
}

#[test]
fn mirrors_that_were_used_without_one_another_are_not_started() {
    let both = label(Level::Raid1, 2, 4);
    let zero = without(both.clone(), 1, Cause::Missing);
    let mut one_side = without(both, 0, Cause::Missing);
    for later in [0, 3] {
        (one_side.generation, one_side.confirmed) = (5 + later, 4 + later);
        let array = one(&[drive(&zero, 0), drive(&one_side, 1)]);
        assert_eq!(readiness(&array), Readiness::Offline, "{later}");
        assert!(
            array.reasons.last().unwrap().contains("were used separately"),
            "{:?}",
            array.reasons
        );
    }
    assert_eq!(readiness(&one(&[drive(&zero, 0)])), Readiness::Degraded);
}

#[test]
fn the_beginning_of_a_change_that_was_never_completed_is_no_other_side() {
    // Drive 0 alone recorded that drive 2 failed; the others then continued without drive 0.
    let all = label(Level::Raid5, 3, 4);
    let begun = without(all.clone(), 2, Cause::Error);
    let mut others = without(all, 0, Cause::Missing);
    (others.generation, others.confirmed) = (6, 5);
    let array = one(&[drive(&begun, 0), drive(&others, 1), drive(&others, 2)]);
    assert_eq!(
        (readiness(&array), &array.members[0].role),
        (Readiness::Degraded, &Role::Left(Cause::Missing))
    );
}

#[test]
fn a_drive_that_has_shrunk_is_not_used() {
    let label = label(Level::Raid5, 3, 4);
    let mut small = drive(&label, 1);
    small.size = ByteCount((33 << 20) - 4096);
    let array = one(&[drive(&label, 0), small, drive(&label, 2)]);
    assert_eq!(array.members[1].role, Role::Stale);
    assert!(array.reasons[0].contains("too small"), "{:?}", array.reasons);
}

#[test]
fn arrays_are_told_apart_by_uuid() {
    let first = label(Level::Raid1, 2, 4);
    let mut second = first.clone();
    second.array = uuid(0xCC);
    let drives = [drive(&first, 0), drive(&second, 1), drive(&second, 0), drive(&first, 1)];
    let arrays = reconcile(&drives);
    assert_eq!(arrays.len(), 2);
    assert!(arrays.iter().all(|array| readiness(array) == Readiness::Optimal));
}
