//! Every request on small arrays, carried out over byte arrays and compared with a plain model: every level,
//! rotation, drive count, stripe position, range and health.

mod machine;

use layout::{CopyIndex, Geometry};
use machine::{Machine, STRIP, STRIPES, UNIT, all_healths, geometries, ranges, single_faults, units};
use plan::{ErrorKind, Health, Method, Plan, Request, plan_into};
use units::{ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// Runs `test` for every geometry of 2 to 6 drives and every stripe until the rotation repeats.
fn for_every_stripe(mut test: impl FnMut(Geometry, StripeIndex, &mut Plan)) {
    for geometry in (2..=6).flat_map(geometries) {
        let turn = if geometry.parity_strips() > 0 { STRIPES.min(u64::from(geometry.drives().0)) } else { 1 };
        let mut plan = Plan::new(&geometry);
        for stripe in (0..turn).map(StripeIndex) {
            test(geometry, stripe, &mut plan);
        }
    }
}

/// Healths to try: every state of every drive where there are few drives, each single fault where there are more.
fn healths(geometry: &Geometry, trusted: bool) -> Vec<Health> {
    if geometry.drives().0 <= 3 { all_healths(geometry, trusted) } else { single_faults(geometry, trusted) }
}

/// What of a stripe can be read or recovered, strip by strip: the plain model.
struct Reach {
    strips: Vec<bool>,
}

impl Reach {
    fn of(machine: &Machine, health: &Health) -> Reach {
        let readable = |drive: usize| health.readable.contains(DriveIndex(drive as u16));
        let copies = machine.geometry.copies();
        let direct: Vec<bool> = (0..machine.strips())
            .map(|strip| (0..copies).any(|copy| readable(machine.data_at(strip, copy).0)))
            .collect();
        let parity = health.parity_trusted && machine.parity_at().is_some_and(|(drive, _)| readable(drive));
        let others = |strip: usize| (0..machine.strips()).all(|other| other == strip || direct[other]);
        let strips = (0..machine.strips()).map(|strip| direct[strip] || parity && others(strip)).collect();
        Reach { strips }
    }
}

/// The strips that a range touches, each with the units of it that are in the range.
fn touched(range: ByteRange) -> Vec<(usize, std::ops::Range<usize>)> {
    let (start, end) = (units(range.start.0), units(range.end().0));
    (start / STRIP..=(end - 1) / STRIP)
        .map(|strip| (strip, start.max(strip * STRIP)..end.min((strip + 1) * STRIP)))
        .collect()
}

#[test]
fn every_read_delivers_the_data_or_says_exactly_what_is_lost() {
    for_every_stripe(|geometry, stripe, plan| {
        for health in [true, false].into_iter().flat_map(|trusted| healths(&geometry, trusted)) {
            let mut machine = Machine::new(geometry, stripe);
            let reach = Reach::of(&machine, &health);
            machine.spoil(&health);
            for range in ranges(&geometry) {
                for prefer in (0..geometry.copies()).map(CopyIndex) {
                    let result = plan_into(plan, &geometry, stripe, Request::Read { range, prefer }, &health);
                    check_read(&mut machine, plan, range, &reach, result);
                }
            }
        }
    });
}

fn check_read(
    machine: &mut Machine,
    plan: &Plan,
    range: ByteRange,
    reach: &Reach,
    result: Result<(), plan::Unplannable>,
) {
    let lost: Vec<usize> = touched(range)
        .into_iter()
        .filter(|(strip, _)| !reach.strips[*strip])
        .flat_map(|(_, units)| units)
        .collect();
    match result {
        Ok(()) => {
            assert!(lost.is_empty(), "{range:?} {plan:?}");
            let mut host = vec![0xAA; units(range.len.0)];
            machine.execute(plan, &mut host);
            assert_eq!(host, machine.truth[units(range.start.0)..units(range.end().0)], "{plan:#?}");
            assert!(plan.writes().is_empty());
        }
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::DataLost);
            let told: Vec<usize> =
                error.ranges.iter().flat_map(|range| units(range.start.0)..units(range.end().0)).collect();
            assert_eq!(told, lost, "{range:?}: {error}");
        }
    }
}

#[test]
fn a_read_of_a_healthy_mirror_goes_to_the_preferred_copy_and_nowhere_else() {
    for geometry in geometries(3).into_iter().filter(|g| g.copies() == 3) {
        let mut plan = Plan::new(&geometry);
        let range = ByteRange::new(ByteOffset(UNIT), units::ByteCount(UNIT));
        for (prefer, failed, expected) in
            [(0, None, 0), (2, None, 2), (2, Some(2), 0), (1, Some(0), 1), (1, Some(1), 2)]
        {
            let optimal = Health::optimal(&geometry);
            let health = failed.map_or(optimal, |drive| optimal.without(DriveIndex(drive)));
            let request = Request::Read { range, prefer: CopyIndex(prefer) };
            plan_into(&mut plan, &geometry, StripeIndex(0), request, &health).unwrap();
            assert_eq!(plan.reads().iter().map(|read| read.drive.0).collect::<Vec<_>>(), [expected]);
            assert_eq!(plan.method(), Method::Direct);
        }
    }
}

#[test]
fn every_write_keeps_what_it_wrote_and_loses_nothing_else() {
    for_every_stripe(|geometry, stripe, plan| {
        let optimal = Machine::new(geometry, stripe);
        for health in [true, false].into_iter().flat_map(|trusted| healths(&geometry, trusted)) {
            let mut spoiled = optimal.clone();
            spoiled.spoil(&health);
            for range in ranges(&geometry) {
                for request in [Request::Write { range }, Request::WriteZeroes { range }] {
                    match plan_into(plan, &geometry, stripe, request, &health) {
                        Ok(()) => check_write(&spoiled, plan, request, range, &health),
                        Err(error) => check_write_refused(&spoiled, range, &health, error.kind),
                    }
                }
            }
        }
    });
}

fn check_write(before: &Machine, plan: &Plan, request: Request, range: ByteRange, health: &Health) {
    let mut machine = before.clone();
    let mut host: Vec<u8> = (0..units(range.len.0)).map(|i| (i * 91 + 5) as u8).collect();
    let payload = host.clone();
    machine.execute(plan, &mut host);
    assert_eq!(host, payload, "a write leaves the host's buffer alone");
    let zeroes = matches!(request, Request::WriteZeroes { .. });
    for (i, unit) in (units(range.start.0)..units(range.end().0)).enumerate() {
        machine.truth[unit] = if zeroes { 0 } else { payload[i] };
    }
    for column in 0..STRIP {
        check_column(before, &machine, plan, column, range, health);
    }
}

/// One column after a write. A cell is *good* when it can be read from now on and holds the truth. Each byte
/// written, and each byte that could be had before, must be in a good cell, or follow from a good P and all
/// other strips' good cells.
fn check_column(
    before: &Machine,
    after: &Machine,
    plan: &Plan,
    column: usize,
    range: ByteRange,
    health: &Health,
) {
    let (start, end) = (units(range.start.0), units(range.end().0));
    let readable = |drive: usize| health.readable.contains(DriveIndex(drive as u16));
    let was_written = |drive: usize, unit: usize| {
        plan.writes().iter().any(|write| {
            write.drive.as_usize() == drive
                && (units(write.offset.0)..units(write.offset.0 + write.len.0)).contains(&unit)
        })
    };
    let requested = |strip: usize| (start..end).contains(&(strip * STRIP + column));
    let good: Vec<bool> = (0..after.strips())
        .map(|strip| {
            let copies = (0..after.geometry.copies()).map(|copy| after.data_at(strip, copy));
            let good_copies = copies.filter(|(drive, first)| {
                let written = was_written(*drive, first + column);
                let good = if requested(strip) { written } else { readable(*drive) && !written };
                let value = after.drives[*drive][first + column];
                assert!(!good || value == after.truth[strip * STRIP + column], "good cells hold the truth");
                assert!(!written || good, "only what is asked for is written");
                good
            });
            good_copies.count() > 0
        })
        .collect();
    let any_requested = (0..after.strips()).any(requested);
    let parity_good = after.parity_at().is_some_and(|(drive, first)| {
        let written = was_written(drive, first + column);
        let deemed_good =
            health.parity_trusted && readable(drive) && health.writable.contains(DriveIndex(drive as u16));
        assert!(written || !any_requested || !deemed_good, "parity follows the data\n{plan:#?}");
        let good = written || !any_requested && health.parity_trusted && readable(drive);
        let value = after.drives[drive][first + column];
        assert!(!good || value == after.true_parity(column), "good parity is the truth's\n{plan:#?}");
        good
    });
    let reach_before = Reach::of(before, health);
    for strip in 0..after.strips() {
        let others_good = (0..after.strips()).all(|other| other == strip || good[other]);
        let has = good[strip] || parity_good && others_good;
        assert!(has || !requested(strip) && !reach_before.strips[strip], "D{strip} is gone\n{plan:#?}");
    }
}

/// A write is only refused for a reason: with at most one drive at fault and redundancy it never is.
fn check_write_refused(machine: &Machine, range: ByteRange, health: &Health, kind: ErrorKind) {
    let geometry = machine.geometry;
    let all = DriveSet::first(geometry.drives());
    let faulty = all.minus(&health.readable.intersection(&health.writable)).count().0;
    assert!(faulty > 1 || !geometry.level().is_redundant(), "one fault is survived: {range:?} {health:?}");
    if geometry.parity_strips() == 0 {
        assert_eq!(kind, ErrorKind::NothingWritable);
        let homeless = touched(range).into_iter().any(|(strip, _)| {
            (0..geometry.copies())
                .all(|copy| !health.writable.contains(DriveIndex(machine.data_at(strip, copy).0 as u16)))
        });
        assert!(homeless, "{range:?} {health:?}");
    }
}

#[test]
fn without_trusted_parity_nothing_is_computed_from_it() {
    for_every_stripe(|geometry, stripe, plan| {
        let Some(parity) = Machine::new(geometry, stripe).parity_at() else { return };
        for health in healths(&geometry, false) {
            for range in ranges(&geometry) {
                for request in [Request::Write { range }, Request::Read { range, prefer: CopyIndex(0) }] {
                    if plan_into(plan, &geometry, stripe, request, &health).is_ok() {
                        assert!(plan.reads().iter().all(|read| read.drive.as_usize() != parity.0));
                    }
                }
            }
        }
    });
}

#[test]
fn a_resync_makes_redundancy_agree_with_data_and_a_check_finds_when_it_does_not() {
    for_every_stripe(|geometry, stripe, plan| {
        if !geometry.level().is_redundant() {
            return;
        }
        let optimal = Health::optimal(&geometry);
        for drive in 0..geometry.drives().as_usize() {
            let mut machine = Machine::new(geometry, stripe);
            let original = machine.clone();
            plan_into(plan, &geometry, stripe, Request::Verify, &optimal).unwrap();
            assert_eq!(machine.execute(plan, &mut []), [true], "consistent");
            assert!(plan.writes().is_empty());
            machine.drives[drive][stripe.0 as usize * STRIP + 2] ^= 1;
            assert_eq!(machine.execute(plan, &mut []), [false], "one wrong bit on drive {drive}");
            plan_into(plan, &geometry, stripe, Request::Resync, &optimal.untrusted()).unwrap();
            machine.execute(plan, &mut []);
            plan_into(plan, &geometry, stripe, Request::Verify, &optimal).unwrap();
            assert_eq!(machine.execute(plan, &mut []), [true], "resynced");
            // What was wrong on a drive that is known to be behind is rebuilt from the others.
            let mut machine = original.clone();
            let behind = optimal.unreadable(DriveIndex(drive as u16));
            machine.spoil(&behind);
            plan_into(plan, &geometry, stripe, Request::Resync, &behind).unwrap();
            machine.execute(plan, &mut []);
            assert_eq!(machine.drives, original.drives, "drive {drive} is rebuilt");
        }
    });
}

#[test]
fn a_resync_that_would_guess_is_refused() {
    for_every_stripe(|geometry, stripe, plan| {
        let machine = Machine::new(geometry, stripe);
        for health in [true, false].into_iter().flat_map(|trusted| healths(&geometry, trusted)) {
            let reach = Reach::of(&machine, &health);
            match plan_into(plan, &geometry, stripe, Request::Resync, &health) {
                Ok(()) => {
                    let mut after = machine.clone();
                    after.spoil(&health);
                    after.execute(plan, &mut []);
                    for write in plan.writes() {
                        let first = units(write.offset.0);
                        let drive = write.drive.as_usize();
                        assert_eq!(
                            after.drives[drive][first..first + STRIP],
                            machine.drives[drive][first..first + STRIP]
                        );
                    }
                }
                Err(error) if error.kind == ErrorKind::DataLost => {
                    assert!(reach.strips.contains(&false), "{health:?}");
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::NothingWritable, "{health:?}"),
            }
        }
    });
}

/// A mirror died, then the power went: a resync of the one that is left never came to its end, and the volume was
/// "to be resynced" for ever.
#[test]
fn the_last_mirror_has_nothing_to_be_resynced_with() {
    for_every_stripe(|geometry, stripe, plan| {
        for drive in geometry.drives().indexes().filter(|_| geometry.copies() > 1) {
            let alone: units::DriveSet = [drive].into_iter().collect();
            let health = Health { readable: alone, writable: alone, parity_trusted: false };
            plan_into(plan, &geometry, stripe, Request::Resync, &health).unwrap();
            assert!(plan.reads().is_empty() && plan.writes().is_empty());
        }
    });
}

#[test]
fn a_check_reads_everything_or_says_that_it_cannot() {
    for_every_stripe(|geometry, stripe, plan| {
        for health in healths(&geometry, true) {
            let readable = health.readable.count().0;
            match plan_into(plan, &geometry, stripe, Request::Verify, &health) {
                Ok(()) => {
                    assert_eq!(plan.cost().reads, u32::from(readable), "all that can be read");
                    assert!(readable == geometry.drives().0 || geometry.copies() > 1);
                }
                Err(error) if geometry.level().is_redundant() && readable > 0 => {
                    assert_eq!(error.kind, ErrorKind::NothingToCompare);
                }
                Err(_) => assert!(readable < geometry.drives().0),
            }
        }
    });
}

/// D1 is gone and P has a medium error. If D0 were written alone, and P read well at the next try, old P and
/// new D0 would give bytes for D1 that never were: so the write is refused, and names what is lost.
#[test]
fn a_write_that_would_leave_stale_parity_behind_a_medium_error_is_refused() {
    for geometry in geometries(4).into_iter().filter(|geometry| geometry.parity_strips() == 1) {
        let mut plan = Plan::new(&geometry);
        let machine = Machine::new(geometry, StripeIndex(0));
        let drive = |drive: usize| DriveIndex(drive as u16);
        let health = Health::optimal(&geometry)
            .without(drive(machine.data_at(1, 0).0))
            .unreadable(drive(machine.parity_at().unwrap().0));
        let range = ByteRange::new(ByteOffset(UNIT), units::ByteCount(UNIT));
        let error =
            plan_into(&mut plan, &geometry, StripeIndex(0), Request::Write { range }, &health).unwrap_err();
        let lost = ByteRange::new(ByteOffset(STRIP as u64 * UNIT + UNIT), units::ByteCount(UNIT));
        assert_eq!((error.kind, error.ranges), (ErrorKind::DataLost, vec![lost]));
    }
}

#[test]
fn a_range_outside_the_stripe_is_refused() {
    for geometry in geometries(4) {
        let mut plan = Plan::new(&geometry);
        let end = geometry.stripe_bytes().0;
        for (start, len) in [(0, 0), (end, 1), (end - 1, 2), (u64::MAX, 1), (0, end + 1), (1, u64::MAX)] {
            let range = ByteRange::new(ByteOffset(start), units::ByteCount(len));
            let health = Health::optimal(&geometry);
            let error = plan_into(&mut plan, &geometry, StripeIndex(0), Request::Write { range }, &health)
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::OutOfRange, "{error}");
        }
    }
}
