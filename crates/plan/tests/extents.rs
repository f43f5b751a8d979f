//! Writes of several extents with cached data, executed over byte arrays, on every level, drive
//! count and health.

mod machine;

use layout::{DataIndex, Geometry, Level, Role};
use machine::healths::{faulty, with_faults};
use machine::picks::Picks;
use machine::written::check_write;
use machine::{Machine, STRIP, UNIT, all, geometries, ranges, stripes, units};
use plan::{Cached, ErrorKind, Health, Method, Plan, Request, Source, Verdict, plan_into};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize, StripeIndex};

fn kib(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10))
}

fn planned(geometry: &Geometry, extents: &[ByteRange], cached: &[Cached], health: &Health) -> Plan {
    let mut plan = Plan::new(geometry);
    let request = Request::WriteExtents { extents, cached };
    plan_into(&mut plan, geometry, StripeIndex(2), request, health).unwrap();
    plan.check();
    plan
}

/// The content of a plan without its request.
fn steps(plan: &Plan) -> String {
    let reads: Vec<_> = plan.reads().iter().map(|read| (read, plan.read_parts(read))).collect();
    let computes: Vec<_> = plan.computes().iter().map(|it| (it, plan.terms(it))).collect();
    let writes: Vec<_> =
        plan.writes().iter().map(|write| (write, plan.write_parts(write))).collect();
    format!(
        "{:?} {:?} {reads:?} {computes:?} {writes:?} {:?}",
        plan.method(),
        plan.verdict(),
        plan.scratch()
    )
}

/// Extents of all kinds.
fn tries(geometry: &Geometry, picks: &mut Picks) -> Vec<Vec<ByteRange>> {
    let many = if all() { 60 } else { 6 };
    (0..many).map(|_| picks.extents(geometry)).collect()
}

#[test]
fn every_write_of_extents_keeps_what_it_wrote_and_loses_nothing_else() {
    let (mut picks, mut written, mut taken) = (Picks::new(1), 0, 0);
    for geometry in (1..=6).flat_map(geometries) {
        let mut plan = Plan::new(&geometry);
        let most = usize::from(geometry.survives().at_most.0 + 1).min(if all() { 3 } else { 2 });
        for stripe in stripes(&geometry) {
            let optimal = Machine::new(geometry, stripe);
            let healths =
                [true, false].into_iter().flat_map(|trusted| with_faults(&geometry, most, trusted));
            for (n, health) in healths.enumerate() {
                if n > 20 && n % 5 != 0 && !all() {
                    continue;
                }
                let mut spoiled = optimal.clone();
                spoiled.spoil(&health);
                for extents in tries(&geometry, &mut picks) {
                    let cached = picks.cached(&geometry);
                    let request = Request::WriteExtents { extents: &extents, cached: &cached };
                    match plan_into(&mut plan, &geometry, stripe, request, &health) {
                        Ok(()) => {
                            check_write(&spoiled, &plan, false, &extents, &health);
                            written += 1;
                            let terms = plan.computes().iter().flat_map(|it| plan.terms(it));
                            let mut terms =
                                terms.filter(|term| matches!(term.from, Source::Cached { .. }));
                            taken += u32::from(terms.next().is_some());
                        }
                        Err(error) => {
                            check_refused(&spoiled, &mut plan, &extents, &health, error.kind)
                        }
                    }
                }
            }
        }
    }
    assert!(written > 10_000 && taken > 1000, "{written} plans, {taken} with cached data");
}

/// A request that is refused with cached data is refused without it too. Within the fault tolerance
/// none is refused.
fn check_refused(
    machine: &Machine,
    plan: &mut Plan,
    extents: &[ByteRange],
    health: &Health,
    kind: ErrorKind,
) {
    let geometry = machine.geometry;
    let bare = Request::WriteExtents { extents, cached: &[] };
    assert_eq!(plan_into(plan, &geometry, machine.stripe, bare, health).unwrap_err().kind, kind);
    let faulty = faulty(&geometry, health);
    let survived =
        geometry.survives_set(&faulty) && (health.parity_trusted || faulty.count().0 <= 1);
    assert!(!survived, "{extents:?} {health:?}");
}

/// Small stripes: *every* set of units, in every health with one fault; cached: nothing, all data,
/// all parity, everything.
#[test]
fn every_set_of_units_of_a_small_stripe() {
    for (level, drives) in
        [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)]
    {
        let strip = StripSize::MIN;
        let geometry = Geometry::new(level, DriveCount(drives), strip, strip.bytes() * 12).unwrap();
        let mut plan = Plan::new(&geometry);
        let optimal = Machine::new(geometry, StripeIndex(1));
        let whole = ByteRange::new(ByteOffset::ZERO, strip.bytes());
        let data = (0..geometry.data_strips()).map(|i| Cached::data(DataIndex(i), whole));
        let parity = [Role::P, Role::Q].into_iter().take(geometry.parity_strips().into());
        let parity = parity.map(|role| Cached { role, columns: whole });
        let everything: Vec<Cached> = data.chain(parity).collect();
        let (data, parity) = everything.split_at(geometry.data_strips().into());
        let count = units(geometry.stripe_bytes().0);
        let step = if all() { 1 } else { 3 };
        for health in with_faults(&geometry, 1, true) {
            let mut spoiled = optimal.clone();
            spoiled.spoil(&health);
            for set in (1_u32..1 << count).step_by(step) {
                let extents = runs_of(set, count);
                let mut least = u32::MAX;
                for cached in [&[][..], data, parity, &everything[..]] {
                    let request = Request::WriteExtents { extents: &extents, cached };
                    plan_into(&mut plan, &geometry, StripeIndex(1), request, &health).unwrap();
                    check_write(&spoiled, &plan, false, &extents, &health);
                    let ios = plan.cost().drive_ios();
                    assert!(
                        cached.is_empty() || ios <= least,
                        "{ios} > {least}: {extents:?} {cached:?}"
                    );
                    least = if cached.is_empty() { ios } else { least };
                }
                if geometry.parity_strips() > 0 {
                    assert_eq!(plan.cost().reads, 0, "everything is cached");
                }
            }
        }
    }
}

fn runs_of(set: u32, count: usize) -> Vec<ByteRange> {
    let mut runs: Vec<ByteRange> = Vec::new();
    for unit in (0..count).filter(|unit| set >> unit & 1 == 1) {
        let start = ByteOffset(unit as u64 * UNIT);
        match runs.last_mut() {
            Some(last) if last.end() == start => last.len.0 += UNIT,
            _ => runs.push(ByteRange::new(start, ByteCount(UNIT))),
        }
    }
    runs
}

#[test]
fn one_extent_with_nothing_cached_is_the_plan_of_its_range() {
    for geometry in (2..=5).flat_map(geometries) {
        let (mut one, mut many) = (Plan::new(&geometry), Plan::new(&geometry));
        for health in with_faults(&geometry, 1, true) {
            for range in ranges(&geometry) {
                let write = Request::Write { range };
                let plain = plan_into(&mut one, &geometry, StripeIndex(0), write, &health);
                let half = ByteCount((range.len.0 / 2).next_multiple_of(UNIT).min(range.len.0));
                let first = ByteRange::new(range.start, half);
                let halves = [first, ByteRange::from_to(first.end(), range.end())];
                let halves = &halves[..if halves[1].is_empty() { 1 } else { 2 }];
                let request = Request::WriteExtents { extents: halves, cached: &[] };
                let cut = plan_into(&mut many, &geometry, StripeIndex(0), request, &health);
                assert_eq!(cut, plain);
                if plain.is_ok() {
                    assert_eq!(steps(&many), steps(&one), "{halves:?}");
                }
            }
        }
    }
}

#[test]
fn small_writes_that_make_up_a_stripe_are_a_full_stripe() {
    for (level, drives, parities) in [(Level::Raid5, 9, 1), (Level::Raid6, 10, 2)] {
        let geometry =
            Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount::GIB).unwrap();
        let health = Health::optimal(&geometry);
        // Eight strips; 32 pieces; and with cached old data, which is not needed.
        let strips: Vec<ByteRange> = (0..8).map(|i| kib(64 * i, 64)).collect();
        let pieces: Vec<ByteRange> = (0..32).map(|i| kib(16 * i, 16)).collect();
        let cached =
            [Cached::data(DataIndex(1), kib(0, 32)), Cached { role: Role::P, columns: kib(8, 8) }];
        for (extents, cached) in [(&strips, &[][..]), (&pieces, &[]), (&strips, &cached)] {
            let plan = planned(&geometry, extents, cached, &health);
            assert_eq!((plan.method(), *plan.verdict()), (Method::FullStripe, Verdict::Only));
            assert_eq!((plan.cost().reads, plan.cost().writes), (0, 8 + parities));
            assert!(plan.is_whole_stripe_write());
        }
        // The same eight columns of every strip need no read either.
        let columns: Vec<ByteRange> = (0..8).map(|i| kib(64 * i + 24, 8)).collect();
        let plan = planned(&geometry, &columns, &[], &health);
        assert_eq!(
            (plan.method(), plan.cost().reads, plan.cost().writes),
            (Method::FullStripe, 0, 8 + parities)
        );
        assert_eq!((plan.computes().len(), plan.is_whole_stripe_write()), (1, false));
    }
}

#[test]
fn a_rectangle_is_one_computation_and_one_read_and_write_a_drive() {
    let geometry =
        Geometry::new(Level::Raid6, DriveCount(12), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let rectangle = [kib(8, 16), kib(72, 16), kib(136, 16)];
    let plan = planned(&geometry, &rectangle, &[], &Health::optimal(&geometry));
    assert_eq!((plan.method(), plan.computes().len()), (Method::Rmw, 1));
    assert_eq!((plan.cost().reads, plan.cost().writes), (5, 5), "three strips, P and Q");
    // With the written strips and P cached, only Q is read.
    let mut cached: Vec<Cached> = (0..3).map(|i| Cached::data(DataIndex(i), kib(0, 64))).collect();
    cached.push(Cached { role: Role::P, columns: kib(0, 64) });
    let plan = planned(&geometry, &rectangle, &cached, &Health::optimal(&geometry));
    assert_eq!((plan.method(), plan.cost().reads, plan.reads()[0].role), (Method::Rmw, 1, Role::Q));
    // With the other strips cached nothing is read: RCW, where it would be RMW without the cache.
    let cached: Vec<Cached> = (3..10).map(|i| Cached::data(DataIndex(i), kib(8, 16))).collect();
    let plan = planned(&geometry, &rectangle, &cached, &Health::optimal(&geometry));
    assert_eq!((plan.method(), plan.cost().reads), (Method::Rcw, 0));
}

/// An unreadable strip that is cached needs no recovery; parity alone still holds it on the drives.
#[test]
fn a_lost_strip_that_is_cached_is_not_recovered() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let map = geometry.stripe_map(StripeIndex(2));
    let drive = |i| map.data_cell(DataIndex(i), layout::CopyIndex(0)).drive;
    let health = Health::optimal(&geometry).without(drive(0));
    let extents = [kib(64, 8), kib(128, 8)];
    assert_eq!(planned(&geometry, &extents, &[], &health).method(), Method::Rmw);
    let cached = [Cached::data(DataIndex(0), kib(0, 8))];
    let plan = planned(&geometry, &extents, &cached, &health);
    assert_eq!((plan.method(), plan.cost().reads), (Method::Rcw, 0));
    // Parity would have to hold D1 as well as D0: cached data does not help.
    let health = Health { writable: health.writable.without(drive(1)), ..health };
    let request = Request::WriteExtents { extents: &extents, cached: &cached };
    let error = plan_into(&mut Plan::new(&geometry), &geometry, StripeIndex(2), request, &health)
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::NothingWritable, "{error}");
}

/// Where redundancy is not trusted, cached old parity is not used either.
#[test]
fn cached_parity_is_not_taken_where_parity_is_not_trusted() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(8), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let health = Health::optimal(&geometry).untrusted();
    let cached =
        [Cached::data(DataIndex(0), kib(0, 64)), Cached { role: Role::P, columns: kib(0, 64) }];
    let plan = planned(&geometry, &[kib(0, 8)], &cached, &health);
    assert_eq!((plan.method(), plan.cost().reads), (Method::Rcw, 6));
}

#[test]
fn too_many_runs_of_columns_are_refused_and_fewer_columns_are_not() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(3), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let every_second: Vec<ByteRange> =
        (0..64).map(|i| ByteRange::new(ByteOffset(i * 1024), ByteCount(512))).collect();
    let mut plan = Plan::new(&geometry);
    let health = Health::optimal(&geometry);
    let mut try_it = |extents: &[ByteRange]| {
        let request = Request::WriteExtents { extents, cached: &[] };
        plan_into(&mut plan, &geometry, StripeIndex(0), request, &health)
    };
    let error = try_it(&every_second).unwrap_err();
    assert_eq!((error.kind, error.ranges.len()), (ErrorKind::TooScattered, 64));
    assert!(error.context.contains("127 runs"), "{error}");
    assert_eq!((try_it(&every_second[..32]), try_it(&every_second[32..])), (Ok(()), Ok(())));
}

#[test]
fn what_is_outside_the_stripe_or_its_strips_is_refused() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let mut plan = Plan::new(&geometry);
    let health = Health::optimal(&geometry);
    let good = [kib(0, 8)];
    let p = |role, columns| vec![Cached { role, columns }];
    let cases: [(&[ByteRange], Vec<Cached>); 6] = [
        (&[], vec![]),
        (&[kib(0, 8), kib(188, 8)], vec![]),
        (&[kib(8, 0)], vec![]),
        (&good, p(Role::P, kib(60, 8))),
        (&good, p(Role::Q, kib(0, 8))),
        (&good, vec![Cached::data(DataIndex(3), kib(0, 8))]),
    ];
    for (extents, cached) in cases {
        let request = Request::WriteExtents { extents, cached: &cached };
        let error = plan_into(&mut plan, &geometry, StripeIndex(0), request, &health).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfRange, "{error}");
    }
}

/// Unordered requests are a caller's error, and panic.
#[test]
fn extents_in_disorder_are_a_programmers_error() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let health = Health::optimal(&geometry);
    let half = ByteRange::new(ByteOffset(256), ByteCount(512));
    let (p, d) =
        (Cached { role: Role::P, columns: kib(0, 8) }, Cached::data(DataIndex(1), kib(0, 8)));
    let cases: [(&[ByteRange], &[Cached]); 5] = [
        (&[kib(8, 8), kib(0, 8)], &[]),
        (&[kib(0, 8), kib(4, 8)], &[]),
        (&[half], &[]),
        (&[kib(0, 8)], &[p, d]),
        (&[kib(0, 8)], &[d, d]),
    ];
    for (extents, cached) in cases {
        let request = Request::WriteExtents { extents, cached };
        let ask =
            || plan_into(&mut Plan::new(&geometry), &geometry, StripeIndex(0), request, &health);
        assert!(std::panic::catch_unwind(ask).is_err(), "{request:?}");
    }
}

/// Strips of the machine have [`STRIP`] units, which bounds the number of bands.
#[test]
fn a_plan_is_made_again_in_the_memory_of_another() {
    let geometry =
        Geometry::new(Level::Raid6, DriveCount(6), StripSize::MIN, ByteCount::MIB).unwrap();
    let (mut again, mut picks) = (Plan::new(&geometry), Picks::new(9));
    let health = Health::optimal(&geometry);
    for _ in 0..300 {
        let (extents, cached) = (picks.extents(&geometry), picks.cached(&geometry));
        let request = Request::WriteExtents { extents: &extents, cached: &cached };
        plan_into(&mut again, &geometry, StripeIndex(2), request, &health).unwrap();
        assert!(again.computes().len() <= STRIP + 1);
        assert_eq!(again.request(), request);
        assert_eq!(steps(&again), steps(&planned(&geometry, &extents, &cached, &health)));
    }
}
