//! Resync, rebuild, repair, copy and verify, executed over byte arrays: every level, layout, drive
//! count and health within the fault tolerance, and one fault more.

mod machine;

use layout::{Geometry, Role};
use machine::healths::{faulty, with_faults};
use machine::{CheckResult, Machine, STRIP, UNIT, all, geometries, stripes, units};
use plan::{ErrorKind, Health, Plan, Request, WHOLE_STRIP, plan_into};
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

const RESYNC: Request = Request::Resync { columns: WHOLE_STRIP };
const VERIFY: Request = Request::Verify { columns: WHOLE_STRIP };

fn for_every_stripe(mut test: impl FnMut(Geometry, StripeIndex, &mut Plan)) {
    for geometry in (1..=6).flat_map(geometries) {
        let mut plan = Plan::new(&geometry);
        for stripe in stripes(&geometry) {
            test(geometry, stripe, &mut plan);
        }
    }
}

fn healths(geometry: &Geometry, trusted: bool) -> Vec<Health> {
    let most = if geometry.drives().0 <= 4 || all() { 3 } else { 2 };
    with_faults(geometry, most, trusted)
}

/// The drives that hold a part of a stripe, each with its first role.
fn holders(machine: &Machine) -> Vec<(DriveIndex, Role)> {
    let cells = machine.map.cells().filter(|(_, role)| *role != Role::Spare);
    cells.map(|(cell, role)| (cell.drive, role)).collect()
}

fn is_right(found: &[CheckResult]) -> bool {
    !found.is_empty() && found.iter().all(|found| *found == CheckResult::Right)
}

#[test]
fn a_resync_makes_redundancy_agree_with_data_and_a_check_finds_when_it_does_not() {
    for_every_stripe(|geometry, stripe, plan| {
        if !geometry.level().is_redundant() {
            return;
        }
        let optimal = Health::optimal(&geometry);
        let original = Machine::new(geometry, stripe);
        for (_, role) in holders(&original) {
            let mut machine = original.clone();
            plan_into(plan, &geometry, stripe, VERIFY, &optimal).unwrap();
            assert!(is_right(&machine.execute(plan, &mut [])), "redundancy is consistent");
            assert!(plan.writes().is_empty());
            let (drive, first) = machine.place(role);
            machine.drives[drive][first + 2] ^= 1;
            let found = machine.execute(plan, &mut []);
            let wrong = found.iter().find(|found| **found != CheckResult::Right);
            // Two parity strips, or two equal copies, identify the wrong strip.
            let named = (geometry.parity_strips() > 1 || geometry.copies() > 2).then_some(role);
            assert_eq!(
                wrong,
                Some(&CheckResult::Wrong(named)),
                "one wrong bit in {role} of {geometry}"
            );
            let mut repaired = machine.clone();
            if let Some(culprit) = named {
                let request = Request::Repair { culprit, columns: WHOLE_STRIP };
                plan_into(plan, &geometry, stripe, request, &optimal).unwrap();
                repaired.execute(plan, &mut []);
                assert_eq!(repaired.drives, original.drives, "{culprit} is repaired");
            }
            plan_into(plan, &geometry, stripe, RESYNC, &optimal.untrusted()).unwrap();
            machine.execute(plan, &mut []);
            plan_into(plan, &geometry, stripe, VERIFY, &optimal).unwrap();
            assert!(is_right(&machine.execute(plan, &mut [])), "resynced");
        }
    });
}

/// A rebuild restores all lost drives within the fault tolerance, and writes nothing else.
#[test]
fn a_rebuild_brings_back_what_any_survivable_loss_took() {
    let mut rebuilt = 0;
    for_every_stripe(|geometry, stripe, plan| {
        let optimal = Health::optimal(&geometry);
        let original = Machine::new(geometry, stripe);
        for health in healths(&geometry, true) {
            let lost = faulty(&geometry, &health);
            if !geometry.survives_set(&lost) || lost.is_empty() || !geometry.level().is_redundant()
            {
                continue;
            }
            // Replaced drives are writable, but not readable.
            let behind = lost.iter().fold(optimal, Health::unreadable);
            let holds =
                |drive: DriveIndex| holders(&original).iter().any(|(holder, _)| *holder == drive);
            let mut machine = original.clone();
            machine.spoil(&behind);
            plan_into(plan, &geometry, stripe, RESYNC, &behind).unwrap();
            let is_behind = plan.writes().iter().all(|write| lost.contains(write.drive));
            assert!(is_behind || !lost.iter().any(holds), "nothing else is written: {plan:#?}");
            machine.execute(plan, &mut []);
            // The spare strip and other spans hold no part of the stripe.
            for (cell, role) in original.map.cells().filter(|(_, role)| *role != Role::Spare) {
                let units = units(cell.offset.0)..units(cell.offset.0) + STRIP;
                let drive = cell.drive.as_usize();
                assert_eq!(
                    machine.drives[drive][units.clone()],
                    original.drives[drive][units],
                    "{role}"
                );
            }
            rebuilt += 1;
        }
    });
    assert!(rebuilt > 1000, "{rebuilt}");
}

/// With a wrong P, repair of an unreadable data strip must use Q: it once computed the strip from
/// that P, and then P from the strip.
#[test]
fn what_is_wrong_is_no_source_of_its_own_repair() {
    let mut repaired = 0;
    for_every_stripe(|geometry, stripe, plan| {
        if !geometry.level().is_redundant() {
            return;
        }
        let original = Machine::new(geometry, stripe);
        for (other, _) in holders(&original) {
            let health = Health::optimal(&geometry).unreadable(other);
            for (_, culprit) in holders(&original).into_iter().filter(|(drive, _)| *drive != other)
            {
                let (drive, first) = original.place(culprit);
                let mut machine = original.clone();
                machine.spoil(&health);
                machine.drives[drive][first + 2] ^= 1;
                let request = Request::Repair { culprit, columns: WHOLE_STRIP };
                match plan_into(plan, &geometry, stripe, request, &health) {
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::DataLost, "{geometry}: {error}")
                    }
                    Ok(()) => {
                        machine.execute(plan, &mut []);
                        let strip = first..first + STRIP;
                        let (is, was) =
                            (&machine.drives[drive][strip.clone()], &original.drives[drive][strip]);
                        assert_eq!(is, was, "{culprit} without drive {other}: {plan:#?}");
                        repaired += 1;
                    }
                }
            }
        }
    });
    assert!(repaired > 1000, "{repaired}");
}

#[test]
fn a_resync_that_would_guess_is_refused() {
    for_every_stripe(|geometry, stripe, plan| {
        let machine = Machine::new(geometry, stripe);
        for health in [true, false].into_iter().flat_map(|trusted| healths(&geometry, trusted)) {
            match plan_into(plan, &geometry, stripe, RESYNC, &health) {
                Ok(()) => {
                    let mut after = machine.clone();
                    after.spoil(&health);
                    after.execute(plan, &mut []);
                    for write in plan.writes() {
                        let (first, drive) = (units(write.offset.0), write.drive.as_usize());
                        let (is, was) = (&after.drives[drive], &machine.drives[drive]);
                        assert_eq!(
                            is[first..first + STRIP],
                            was[first..first + STRIP],
                            "{plan:#?}"
                        );
                    }
                }
                Err(error) if error.kind == ErrorKind::DataLost => {
                    let faulty = faulty(&geometry, &health);
                    assert!(
                        !geometry.survives_set(&faulty) || !health.parity_trusted,
                        "{health:?}"
                    );
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::NothingWritable, "{health:?}"),
            }
        }
    });
}

/// Repair, resync and copy of a band leave other columns unchanged.
#[test]
fn a_range_of_columns_is_mended_and_nothing_beside_it() {
    let columns = ByteRange::new(ByteOffset(UNIT), ByteCount(2 * UNIT));
    for_every_stripe(|geometry, stripe, plan| {
        if !geometry.level().is_redundant() {
            return;
        }
        let original = Machine::new(geometry, stripe);
        for (drive, role) in holders(&original) {
            let health = Health::optimal(&geometry).unreadable(drive);
            let requests = [
                Request::Resync { columns },
                Request::Repair { culprit: role, columns },
                Request::Copy { drive, columns },
            ];
            for request in requests {
                let mut machine = original.clone();
                machine.spoil(&health);
                let (place, first) = machine.place(role);
                let before = machine.drives[place][first..first + STRIP].to_vec();
                plan_into(plan, &geometry, stripe, request, &health).unwrap();
                machine.execute(plan, &mut []);
                let (is, was) = (
                    &machine.drives[place][first..first + STRIP],
                    &original.drives[place][first..],
                );
                assert_eq!(
                    [is[0], is[1], is[2], is[3]],
                    [before[0], was[1], was[2], before[3]],
                    "{request:?}"
                );
            }
        }
    });
}

/// A copy goes to the replacement of a drive, also when that drive is unreadable or failed, in
/// every health that leaves its content recoverable.
#[test]
fn a_drive_is_copied_whether_it_can_be_read_or_not() {
    for_every_stripe(|geometry, stripe, plan| {
        let original = Machine::new(geometry, stripe);
        for health in healths(&geometry, true) {
            for drive in geometry.drives().indexes() {
                let request = Request::Copy { drive, columns: WHOLE_STRIP };
                let mut machine = original.clone();
                machine.spoil(&health);
                let lost = DriveSet::first(geometry.drives()).minus(&health.readable);
                match plan_into(plan, &geometry, stripe, request, &health) {
                    Ok(()) => {
                        machine.execute(plan, &mut []);
                        assert!(plan.writes().iter().all(|write| write.drive == drive));
                        let roles =
                            original.map.roles_on(drive).filter(|(_, role)| *role != Role::Spare);
                        for (cell, role) in roles {
                            let units = units(cell.offset.0)..units(cell.offset.0) + STRIP;
                            let (is, was) = (&machine.drives, &original.drives);
                            let drive = drive.as_usize();
                            assert_eq!(
                                is[drive][units.clone()],
                                was[drive][units],
                                "{role}: {plan:#?}"
                            );
                        }
                        let reads = plan.reads().iter().all(|read| read.drive == drive);
                        assert!(reads || lost.contains(drive), "a readable strip is not computed");
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::DataLost);
                        assert!(
                            lost.contains(drive) && !geometry.survives_set(&lost),
                            "{geometry} {health:?}"
                        );
                    }
                }
            }
        }
    });
}

/// RAID 5EE: a drive is rebuilt into the spare strips, and copied back after its replacement.
#[test]
fn a_lost_drive_moves_into_the_spare_strips_and_back() {
    for geometry in (4..=6).flat_map(geometries).filter(|geometry| geometry.spare_strips() > 0) {
        let mut plan = Plan::new(&geometry);
        for (stripe, failed) in stripes(&geometry)
            .into_iter()
            .flat_map(|s| geometry.drives().indexes().map(move |d| (s, d)))
        {
            let home = geometry.stripe_map(stripe);
            let role = home.role_at(failed, 0).unwrap();
            if role == Role::Spare {
                continue;
            }
            let refuge = home.spare_cell().unwrap().drive;
            let optimal = Health::optimal(&geometry);
            let mut machine = Machine::new(geometry, stripe);
            let original = machine.clone();
            machine.spoil(&optimal.without(failed));
            // Into the spare strip: after the relocation its drive is stale.
            machine.map = home.relocated(failed);
            let health = optimal.without(failed).unreadable(refuge).relocated(failed);
            plan_into(&mut plan, &geometry, stripe, RESYNC, &health).unwrap();
            machine.execute(&plan, &mut []);
            let settled = Machine::at(geometry, stripe, machine.map);
            assert_eq!(machine.drives[refuge.as_usize()], settled.drives[refuge.as_usize()]);
            // A copy of the drive with the spare strip includes the relocated strip.
            let health = optimal.without(failed).relocated(failed);
            let copy = |drive| Request::Copy { drive, columns: WHOLE_STRIP };
            plan_into(&mut plan, &geometry, stripe, copy(refuge), &health).unwrap();
            assert_eq!((plan.writes()[0].role, plan.reads()[0].drive), (role, refuge));
            // And back.
            plan_into(&mut plan, &geometry, stripe, copy(failed), &health).unwrap();
            assert_eq!((plan.reads().len(), plan.writes()[0].drive), (1, failed));
            machine.execute(&plan, &mut []);
            assert_eq!(machine.drives[failed.as_usize()], original.drives[failed.as_usize()]);
        }
    }
}

/// A mirror failed before a power cut: the resync of the remaining one never ended, and the volume
/// stayed unsynced.
#[test]
fn the_last_copy_has_nothing_to_be_resynced_with() {
    for_every_stripe(|geometry, stripe, plan| {
        if geometry.level() != layout::Level::Raid1 {
            return;
        }
        for drive in geometry.drives().indexes() {
            let alone: DriveSet = [drive].into_iter().collect();
            let health =
                Health { readable: alone, writable: alone, parity_trusted: false, relocated: None };
            plan_into(plan, &geometry, stripe, RESYNC, &health).unwrap();
            assert!(plan.reads().is_empty() && plan.writes().is_empty());
        }
    });
}

#[test]
fn a_check_reads_everything_or_says_that_it_cannot() {
    for_every_stripe(|geometry, stripe, plan| {
        let machine = Machine::new(geometry, stripe);
        for health in healths(&geometry, true) {
            let cells = || machine.map.cells().filter(|(_, role)| *role != Role::Spare);
            let readable = cells().filter(|(cell, _)| health.readable.contains(cell.drive)).count();
            match plan_into(plan, &geometry, stripe, VERIFY, &health) {
                Ok(()) => {
                    assert_eq!(plan.cost().reads as usize, readable, "all readable copies");
                    let mut after = machine.clone();
                    after.spoil(&health);
                    let found = after.execute(plan, &mut []);
                    assert!(found.iter().all(|found| *found == CheckResult::Right));
                }
                Err(error) => {
                    assert!(matches!(
                        error.kind,
                        ErrorKind::NothingToCompare | ErrorKind::DataLost
                    ));
                    assert!(readable < cells().count());
                }
            }
        }
    });
}
