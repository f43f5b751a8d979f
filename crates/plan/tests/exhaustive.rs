//! Every host request on small arrays, executed over byte arrays and compared with a reference
//! model: every level, layout, drive count, range, and health within the fault tolerance, and one
//! fault more. `PLAN_TESTS=all` tries every stripe and layout; the default is a sample.

mod machine;

use layout::{CopyIndex, DataIndex, Geometry, Level, Role};
use machine::healths::{faulty, with_faults};
use machine::written::{Reach, check_write};
use machine::{Machine, STRIP, UNIT, all, geometries, is_default, ranges, stripes, units};
use plan::{CopyChoice, ErrorKind, Health, Method, Plan, Request, plan_into};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};

/// Runs `test` for every geometry of up to 6 drives and its stripes.
fn for_every_stripe(mut test: impl FnMut(Geometry, StripeIndex, &mut Plan)) {
    for geometry in (1..=6).flat_map(geometries) {
        let mut plan = Plan::new(&geometry);
        for stripe in stripes(&geometry) {
            test(geometry, stripe, &mut plan);
        }
    }
}

/// Healths to try: the fault tolerance plus one fault, but at most three faults on four drives and
/// two on more.
fn healths(geometry: &Geometry) -> Vec<Health> {
    let drives = usize::from(geometry.drives().0);
    let interesting = geometry.survives().at_most.0 + 1;
    let most = if drives <= 4 || all() { 3 } else { 2 };
    let most = most.min(usize::from(interesting));
    let mut healths: Vec<Health> = [true, false]
        .into_iter()
        .flat_map(|trusted| with_faults(geometry, most, trusted))
        .collect();
    // Other layouts only move the same strips.
    let enough = if is_default(geometry) { 150 } else { 30 };
    if !all() && healths.len() > 2 * enough {
        // A sample of the many; all of those with the fewest faults.
        let step = healths.len() / enough;
        let mut n = 0;
        healths.retain(|health| {
            n += 1;
            faulty(geometry, health).count().0 <= 1 || n % step == 0
        });
    }
    healths
}

/// The strips that a range touches, each with its units in the range.
fn touched(range: ByteRange) -> Vec<(usize, std::ops::Range<usize>)> {
    let (start, end) = (units(range.start.0), units(range.end().0));
    (start / STRIP..=(end - 1) / STRIP)
        .map(|strip| (strip, start.max(strip * STRIP)..end.min((strip + 1) * STRIP)))
        .collect()
}

#[test]
fn every_read_delivers_the_data_or_says_exactly_what_is_lost() {
    for_every_stripe(|geometry, stripe, plan| {
        for health in healths(&geometry) {
            let mut machine = Machine::new(geometry, stripe);
            let reach = Reach::of(&machine, &health);
            machine.spoil(&health);
            for range in ranges(&geometry) {
                for copy in (0..geometry.copies().min(3)).map(CopyIndex) {
                    let mixed = CopyChoice::all(copy).with(DataIndex(1), CopyIndex(0));
                    let choices = [(CopyChoice::all(copy), true), (mixed, false)];
                    let choices = if geometry.copies() > 1 { &choices[..] } else { &choices[..1] };
                    for &(prefer, split) in choices {
                        let request = Request::Read { range, prefer, split };
                        let result = plan_into(plan, &geometry, stripe, request, &health);
                        check_read(&mut machine, plan, range, &reach, result);
                    }
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
            assert_eq!(
                host,
                machine.truth[units(range.start.0)..units(range.end().0)],
                "{plan:#?}"
            );
            assert!(plan.writes().is_empty());
        }
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::DataLost);
            let told: Vec<usize> = error
                .ranges
                .iter()
                .flat_map(|range| units(range.start.0)..units(range.end().0))
                .collect();
            assert_eq!(told, lost, "{range:?}: {error}");
        }
    }
}

#[test]
fn a_read_of_a_mirror_goes_to_the_preferred_copy_and_nowhere_else() {
    for geometry in geometries(3).into_iter().filter(|g| g.copies() == 3 && g.data_strips() == 1) {
        let mut plan = Plan::new(&geometry);
        let range = ByteRange::new(ByteOffset(UNIT), ByteCount(UNIT));
        for (prefer, failed, expected) in
            [(0, None, 0), (2, None, 2), (2, Some(2), 0), (1, Some(0), 1), (1, Some(1), 2)]
        {
            let optimal = Health::optimal(&geometry);
            let health = failed.map_or(optimal, |drive| optimal.without(DriveIndex(drive)));
            let prefer = CopyChoice::all(CopyIndex(prefer));
            let request = Request::Read { range, prefer, split: true };
            plan_into(&mut plan, &geometry, StripeIndex(0), request, &health).unwrap();
            assert_eq!(
                plan.reads().iter().map(|read| read.drive.0).collect::<Vec<_>>(),
                [expected]
            );
            assert_eq!(plan.method(), Method::Direct);
            // Where copies may differ the first readable one counts, whatever is preferred.
            let untrusted = health.untrusted();
            plan_into(&mut plan, &geometry, StripeIndex(0), request, &untrusted).unwrap();
            let first = if failed == Some(0) { 1 } else { 0 };
            assert_eq!(plan.reads().iter().map(|read| read.drive.0).collect::<Vec<_>>(), [first]);
        }
    }
}

/// Regression: a large read was split between mirrors that a crash may have left different, and
/// mixed the content of both.
#[test]
fn a_large_read_is_split_between_copies_only_where_they_agree() {
    let strip = StripSize::KIB_256;
    for (level, drives, copies) in
        [(Level::Raid1, 2, 2), (Level::Raid1, 3, 3), (Level::Raid10, 4, 2)]
    {
        let geometry = Geometry::new(level, DriveCount(drives), strip, ByteCount::MIB).unwrap();
        let mut plan = Plan::new(&geometry);
        let range = ByteRange::new(ByteOffset::ZERO, strip.bytes());
        let request = Request::Read { range, prefer: CopyChoice::FIRST, split: true };
        for (health, readers) in
            [(Health::optimal(&geometry), copies), (Health::optimal(&geometry).untrusted(), 1)]
        {
            plan_into(&mut plan, &geometry, StripeIndex(0), request, &health).unwrap();
            assert_eq!(plan.reads().len(), readers, "{geometry}: {plan:#?}");
            assert_eq!(plan.reads()[0].drive, DriveIndex(0), "{geometry}: {plan:#?}");
        }
    }
}

#[test]
fn every_write_keeps_what_it_wrote_and_loses_nothing_else() {
    for_every_stripe(|geometry, stripe, plan| {
        let optimal = Machine::new(geometry, stripe);
        for health in healths(&geometry) {
            let mut spoiled = optimal.clone();
            spoiled.spoil(&health);
            for (n, range) in ranges(&geometry).into_iter().enumerate() {
                let requests = [Request::Write { range }, Request::WriteZeroes { range }];
                let zeroes_too = all() || n % 7 == 0;
                for request in requests.into_iter().take(if zeroes_too { 2 } else { 1 }) {
                    match plan_into(plan, &geometry, stripe, request, &health) {
                        Ok(()) => {
                            let zeroes = matches!(request, Request::WriteZeroes { .. });
                            check_write(&spoiled, plan, zeroes, &[range], &health);
                        }
                        Err(error) => check_write_refused(&spoiled, range, &health, error.kind),
                    }
                }
            }
        }
    });
}

/// Within the fault tolerance a write is never refused.
fn check_write_refused(machine: &Machine, range: ByteRange, health: &Health, kind: ErrorKind) {
    let geometry = machine.geometry;
    let faulty = faulty(&geometry, health);
    // Without trusted parity a second fault is one too many.
    let survived =
        geometry.survives_set(&faulty) && (health.parity_trusted || faulty.count().0 <= 1);
    assert!(!survived, "{geometry}: {range:?} {health:?}");
    if geometry.parity_strips() == 0 {
        assert_eq!(kind, ErrorKind::NothingWritable);
        let homeless = touched(range).into_iter().any(|(strip, _)| {
            (0..geometry.copies()).all(|copy| {
                !health.writable.contains(DriveIndex(machine.data_at(strip, copy).0 as u16))
            })
        });
        assert!(homeless, "{range:?} {health:?}");
    }
}

#[test]
fn without_trusted_parity_nothing_is_computed_from_it() {
    for_every_stripe(|geometry, stripe, plan| {
        for health in healths(&geometry).iter().filter(|health| !health.parity_trusted) {
            for range in ranges(&geometry) {
                let read = Request::Read { range, prefer: CopyChoice::FIRST, split: true };
                for request in [Request::Write { range }, read] {
                    if plan_into(plan, &geometry, stripe, request, health).is_ok() {
                        assert!(
                            plan.reads().iter().all(|read| !matches!(read.role, Role::P | Role::Q))
                        );
                    }
                }
            }
        }
    });
}

/// After a RAID 5EE drive was rebuilt into the spare strips, plans use these, and need no failed
/// drive.
#[test]
fn a_relocated_stripe_is_as_good_as_new() {
    for geometry in (4..=6).flat_map(geometries).filter(|geometry| geometry.spare_strips() > 0) {
        let mut plan = Plan::new(&geometry);
        for (stripe, failed) in stripes(&geometry)
            .into_iter()
            .flat_map(|s| geometry.drives().indexes().map(move |d| (s, d)))
        {
            let map = geometry.stripe_map(stripe).relocated(failed);
            let health = Health::optimal(&geometry).without(failed).relocated(failed);
            let mut machine = Machine::at(geometry, stripe, map);
            machine.spoil(&health);
            let reach = Reach::of(&machine, &health);
            for range in ranges(&geometry) {
                let read = Request::Read { range, prefer: CopyChoice::FIRST, split: false };
                let result = plan_into(&mut plan, &geometry, stripe, read, &health);
                assert!(plan.method() == Method::Direct && plan.computes().is_empty());
                check_read(&mut machine, &plan, range, &reach, result);
                let write = Request::Write { range };
                plan_into(&mut plan, &geometry, stripe, write, &health).unwrap();
                check_write(&machine, &plan, false, &[range], &health);
            }
        }
    }
}

/// D1 is lost and P has a medium error. If D0 were written alone and P became readable again, old P
/// and new D0 would give a wrong D1. So the write is refused, and the error names the lost range.
#[test]
fn a_write_that_would_leave_stale_parity_behind_a_medium_error_is_refused() {
    for geometry in
        geometries(4).into_iter().filter(|g| g.parity_strips() == 1 && g.data_strips() > 1)
    {
        let mut plan = Plan::new(&geometry);
        let machine = Machine::new(geometry, StripeIndex(0));
        let drive = |drive: usize| DriveIndex(drive as u16);
        let health = Health::optimal(&geometry)
            .without(drive(machine.data_at(1, 0).0))
            .unreadable(drive(machine.parities()[0].0));
        let range = ByteRange::new(ByteOffset(UNIT), ByteCount(UNIT));
        let error =
            plan_into(&mut plan, &geometry, StripeIndex(0), Request::Write { range }, &health)
                .unwrap_err();
        let lost = ByteRange::new(ByteOffset(STRIP as u64 * UNIT + UNIT), ByteCount(UNIT));
        assert_eq!((error.kind, error.ranges), (ErrorKind::DataLost, vec![lost]));
    }
}

#[test]
fn what_is_outside_the_stripe_is_refused() {
    for geometry in geometries(4) {
        let mut plan = Plan::new(&geometry);
        let health = Health::optimal(&geometry);
        let mut refused = |request| {
            let error =
                plan_into(&mut plan, &geometry, StripeIndex(0), request, &health).unwrap_err();
            assert_eq!(error.kind, ErrorKind::OutOfRange, "{error}");
        };
        let end = geometry.stripe_bytes().0;
        for (start, len) in
            [(0, 0), (end, 1), (end - 1, 2), (u64::MAX, 1), (0, end + 1), (1, u64::MAX)]
        {
            refused(Request::Write { range: ByteRange::new(ByteOffset(start), ByteCount(len)) });
        }
        let strip = geometry.strip().bytes().0;
        for (start, len) in [(0, 0), (strip, 1)] {
            let columns = ByteRange::new(ByteOffset(start), ByteCount(len));
            refused(Request::Verify { columns });
            refused(Request::Copy { drive: DriveIndex(0), columns });
        }
        let columns = plan::WHOLE_STRIP;
        refused(Request::Copy { drive: DriveIndex(4), columns });
        let culprit = Role::Data { index: DataIndex(geometry.data_strips()), copy: CopyIndex(0) };
        refused(Request::Repair { culprit, columns });
        refused(Request::Repair { culprit: Role::Spare, columns });
    }
}
