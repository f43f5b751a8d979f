//! From labels to arrays: order, stale drives, copies, parts that went apart.

use layout::Level;
use ondisk::{
    Carried, Cause, FoundArray, Label, Member, MemberState, Phase, Readiness, Role, SeenDrive, Slot, Uuid,
    VolumeLabel, WriteHole, reconcile,
};
use units::ByteCount;

fn uuid(last: u8) -> Uuid {
    Uuid([last; 16])
}

fn label(level: Level, drives: u8, generation: u64) -> Label {
    let member = |slot: u8| Member {
        uuid: uuid(slot),
        name: format!("d{slot}"),
        state: MemberState::Online,
        since: 1,
        cause: None,
        missed_writes: false,
    };
    Label {
        array: uuid(0xAA),
        drive: uuid(0),
        generation,
        phase: Phase::Online,
        clean: true,
        volume: VolumeLabel {
            uuid: uuid(0xBB),
            name: "data".into(),
            level,
            rotation: None,
            spans: 1,
            strip_bytes: 65536,
            member_bytes: 1 << 20,
            sector_bytes: 512,
            capacity_bytes: 65536,
            write_hole: WriteHole::Resync,
            created_unix_s: 0,
        },
        member: (0..drives).map(member).collect(),
    }
}

fn without(mut label: Label, slot: usize, cause: Cause, missed_writes: bool) -> Label {
    label.generation += 1;
    let since = label.generation;
    let member = &mut label.member[slot];
    (member.state, member.since) = (MemberState::Failed, since);
    (member.cause, member.missed_writes) = (Some(cause), missed_writes);
    label
}

fn drive(label: &Label, slot: u8) -> SeenDrive {
    let label = label.for_drive(uuid(slot));
    let sequence = label.generation;
    SeenDrive {
        name: format!("/dev/{slot}"),
        size: ByteCount(33 << 20),
        carried: Carried { label, sequence, slot: Slot::A },
    }
}

fn one(drives: &[SeenDrive]) -> FoundArray {
    let mut arrays = reconcile(drives);
    assert_eq!(arrays.len(), 1);
    let array = arrays.remove(0);
    // Whatever the order, the same array comes up.
    let mut reversed = drives.to_vec();
    reversed.reverse();
    let again = reconcile(&reversed).remove(0);
    let roles = |array: &FoundArray| array.members.iter().map(|m| m.role.clone()).collect::<Vec<_>>();
    assert_eq!(roles(&array), roles(&again));
    assert_eq!((array.readiness, &array.reasons), (again.readiness, &again.reasons));
    assert!(array.label.agrees_with(&again.label));
    array
}

#[test]
fn drives_come_up_in_their_slots_whatever_their_order() {
    let label = label(Level::Raid5, 3, 4);
    let array = one(&[drive(&label, 2), drive(&label, 0), drive(&label, 1)]);
    assert_eq!(array.readiness, Readiness::Optimal);
    assert_eq!(array.current().collect::<Vec<_>>(), [(0, 1), (1, 2), (2, 0)]);
    assert!(array.reasons.is_empty());
}

#[test]
fn a_stale_drive_is_recognised_and_not_used() {
    let old = label(Level::Raid5, 3, 4);
    let new = without(old.clone(), 1, Cause::Error, true);
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&new, 2)]);
    assert_eq!(array.members[1].role, Role::Stale);
    assert_eq!(array.readiness, Readiness::Degraded);
    assert!(array.reasons[0].contains("/dev/1") && array.reasons[0].contains("stale"), "{:?}", array.reasons);
}

#[test]
fn a_drive_that_missed_no_write_may_come_back() {
    let old = label(Level::Raid5, 3, 4);
    let new = without(old.clone(), 1, Cause::Missing, false);
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&new, 2)]);
    assert_eq!(array.members[1].role, Role::MissedNothing(Cause::Missing));
}

#[test]
fn an_interrupted_change_makes_no_drive_stale_but_an_older_copy_is() {
    let old = label(Level::Raid5, 3, 4);
    let mut new = old.clone();
    new.generation = 5;
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&old, 2)]);
    assert_eq!((array.readiness, array.label.generation), (Readiness::Optimal, 5));
    new.generation = 6;
    let array = one(&[drive(&new, 0), drive(&old, 1), drive(&new, 2)]);
    assert_eq!(array.members[1].role, Role::Stale);
    assert!(array.reasons[0].contains("earlier time"), "{:?}", array.reasons);
}

#[test]
fn missing_drives_are_counted_against_what_the_level_survives() {
    let raid5 = label(Level::Raid5, 3, 4);
    let array = one(&[drive(&raid5, 0), drive(&raid5, 2)]);
    assert_eq!((array.readiness, &array.members[1].role), (Readiness::Degraded, &Role::Missing));
    assert_eq!(array.reasons, ["drive d1 of 'data' is missing"]);
    let array = one(&[drive(&raid5, 2)]);
    assert_eq!(array.readiness, Readiness::Offline);
    assert!(array.reasons[2].contains("needs 2 of its 3 drives and has 1"), "{:?}", array.reasons);
    let raid0 = label(Level::Raid0, 2, 4);
    assert_eq!(one(&[drive(&raid0, 1)]).readiness, Readiness::Offline);
}

#[test]
fn of_two_copies_of_a_drive_the_newer_is_used_and_of_equals_none() {
    let old = label(Level::Raid1, 2, 4);
    let mut new = old.clone();
    new.generation = 5;
    let array = one(&[drive(&old, 0), drive(&new, 0), drive(&new, 1)]);
    assert_eq!(array.readiness, Readiness::Optimal);
    assert_eq!(array.refused.len(), 1);
    assert!(array.refused[0].1.contains("copy"), "{:?}", array.refused);
    let array = one(&[drive(&new, 0), drive(&new, 0), drive(&new, 1)]);
    assert_eq!(array.readiness, Readiness::Degraded);
    assert_eq!(array.members[0].role, Role::Missing);
    assert_eq!(array.refused.len(), 2);
}

#[test]
fn an_array_of_nothing_but_copies_is_offline_and_says_why() {
    let label = label(Level::Raid0, 1, 4);
    let array = one(&[drive(&label, 0), drive(&label, 0)]);
    assert_eq!((array.readiness, array.refused.len()), (Readiness::Offline, 2));
}

#[test]
fn mirrors_that_were_used_without_one_another_are_not_started() {
    let both = label(Level::Raid1, 2, 4);
    let zero = without(both.clone(), 1, Cause::Missing, true);
    let mut one_side = without(both, 0, Cause::Missing, true);
    for later in [0, 3] {
        one_side.generation = 5 + later;
        let array = one(&[drive(&zero, 0), drive(&one_side, 1)]);
        assert_eq!(array.readiness, Readiness::Offline, "{later}");
        assert!(array.reasons.last().unwrap().contains("without one another"), "{:?}", array.reasons);
    }
    assert_eq!(one(&[drive(&zero, 0)]).readiness, Readiness::Degraded);
}

#[test]
fn the_beginning_of_a_change_that_was_never_completed_is_no_other_side() {
    // Drive 0 recorded that 2 failed, alone; the others then went on without 0.
    let all = label(Level::Raid5, 3, 4);
    let begun = without(all.clone(), 2, Cause::Error, true);
    let mut others = without(all, 0, Cause::Missing, true);
    others.generation = 6;
    let array = one(&[drive(&begun, 0), drive(&others, 1), drive(&others, 2)]);
    assert_eq!((array.readiness, &array.members[0].role), (Readiness::Degraded, &Role::Stale));
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
    assert!(arrays.iter().all(|array| array.readiness == Readiness::Optimal));
}
