//! The method chosen for a write is the cheapest: proved against every other on small arrays.

mod machine;

use layout::{Geometry, Level};
use machine::{Machine, STRIP, UNIT, geometries, ranges, single_faults, units};
use plan::{Alternative, Health, Method, Plan, Price, Request, Verdict, plan_into};
use std::collections::BTreeSet;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};

/// I/Os and bytes of a set of (drive, unit) after merging what touches.
fn price_of(cells: &BTreeSet<(usize, usize)>) -> (u32, u64) {
    let ios = cells.iter().filter(|(drive, unit)| *unit == 0 || !cells.contains(&(*drive, unit - 1))).count();
    (ios as u32, cells.len() as u64 * UNIT)
}

/// The least price of a write over *every* choice of RMW or RCW in *each single column*; `None` where some
/// column can have neither.
fn least_price(machine: &Machine, range: ByteRange, health: &Health) -> Option<Price> {
    let readable = |drive: usize| health.readable.contains(DriveIndex(drive as u16));
    let writable = |drive: usize| health.writable.contains(DriveIndex(drive as u16));
    let (start, end) = (units(range.start.0), units(range.end().0));
    let requested = |strip: usize, column: usize| (start..end).contains(&(strip * STRIP + column));
    let (parity, parity_start) = machine.parity_at().unwrap();
    let mut best: Option<Price> = None;
    'choices: for choice in 0..1 << STRIP {
        let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
        for column in 0..STRIP {
            if !(0..machine.strips()).any(|strip| requested(strip, column)) {
                continue;
            }
            let rmw = choice >> column & 1 == 1;
            if rmw {
                if !readable(parity) || !health.parity_trusted {
                    continue 'choices;
                }
                reads.insert((parity, parity_start + column));
            }
            writes.insert((parity, parity_start + column));
            for strip in 0..machine.strips() {
                let (drive, first) = machine.data_at(strip, 0);
                if requested(strip, column) && writable(drive) {
                    writes.insert((drive, first + column));
                }
                if requested(strip, column) == rmw {
                    if !readable(drive) {
                        continue 'choices;
                    }
                    reads.insert((drive, first + column));
                }
            }
        }
        let ((read_ios, read_bytes), (write_ios, write_bytes)) = (price_of(&reads), price_of(&writes));
        let price = Price { drive_ios: read_ios + write_ios, bytes: read_bytes + write_bytes };
        best = Some(best.map_or(price, |best| best.min(price)));
    }
    best
}

#[test]
fn no_choice_of_methods_is_cheaper_than_the_one_taken() {
    let mut mixed = 0;
    for geometry in (3..=6).flat_map(geometries).filter(|geometry| geometry.parity_strips() == 1) {
        let mut plan = Plan::new(&geometry);
        for stripe in [0, 1].map(StripeIndex) {
            let machine = Machine::new(geometry, stripe);
            let parity = DriveIndex(machine.parity_at().unwrap().0 as u16);
            for health in [true, false].into_iter().flat_map(|trusted| single_faults(&geometry, trusted)) {
                for range in ranges(&geometry) {
                    plan_into(&mut plan, &geometry, stripe, Request::Write { range }, &health).unwrap();
                    if !health.writable.contains(parity) {
                        assert_eq!(plan.method(), Method::DataOnly);
                        assert_eq!(plan.cost().reads, 0);
                        continue;
                    }
                    let cost = plan.cost();
                    let price =
                        Price { drive_ios: cost.drive_ios(), bytes: cost.bytes_read + cost.bytes_written };
                    match least_price(&machine, range, &health) {
                        Some(least) => assert_eq!(price, least, "{range:?} {health:?}\n{plan:#?}"),
                        None => assert!(!health.parity_trusted, "{range:?} {health:?}"),
                    }
                    if let Verdict::Chosen { chosen, rmw, rcw } = plan.verdict() {
                        assert_eq!(*chosen, price, "the verdict says what it costs");
                        for other in [rmw, rcw] {
                            assert!(!matches!(other, Alternative::Price(other) if *other < price));
                        }
                    }
                    mixed += u32::from(plan.method() == Method::Mixed);
                }
            }
        }
    }
    assert!(mixed > 100, "mixtures occur: {mixed}");
}

fn write(geometry: &Geometry, start: u64, len: u64) -> Plan {
    let mut plan = Plan::new(geometry);
    let range = ByteRange::new(ByteOffset(start), ByteCount(len));
    plan_into(&mut plan, geometry, StripeIndex(0), Request::Write { range }, &Health::optimal(geometry))
        .unwrap();
    plan
}

#[test]
fn a_small_write_costs_the_write_penalty_in_the_table_of_levels() {
    // Two parity strips are not planned yet.
    for level in Level::ALL.into_iter().filter(|level| level.row().parity_strips < 2) {
        let row = level.row();
        for drives in (row.min_drives.0..=row.max_drives.0).map(DriveCount) {
            let geometry = Geometry::new(level, drives, StripSize::KIB_64, ByteCount::GIB);
            let Ok(geometry) = geometry else { continue }; // So many drives cannot be spans.
            let ios = write(&geometry, 4096, 8192).cost().drive_ios();
            assert_eq!(ios, u32::from(geometry.write_penalty()), "{geometry}");
        }
    }
}

#[test]
fn a_full_stripe_is_written_without_a_read() {
    let geometry = Geometry::new(Level::Raid5, DriveCount(8), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let plan = write(&geometry, 0, 7 << 16);
    assert_eq!((plan.method(), plan.cost().reads, plan.cost().writes), (Method::FullStripe, 0, 8));
    assert_eq!(*plan.verdict(), Verdict::Only);
}

#[test]
fn the_verdict_names_the_price_of_the_way_not_taken() {
    let geometry = Geometry::new(Level::Raid5, DriveCount(8), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let price = |drive_ios: u32| Price { drive_ios, bytes: u64::from(drive_ios) * 8192 };
    let plan = write(&geometry, 0, 8192);
    let rcw = Alternative::Price(price(8));
    assert_eq!(*plan.verdict(), Verdict::Chosen { chosen: price(4), rmw: Alternative::Price(price(4)), rcw });
    assert_eq!(plan.method(), Method::Rmw);
    // Six of seven strips: reading the seventh beats reading six and parity.
    let plan = write(&geometry, 0, 6 << 16);
    assert_eq!((plan.method(), plan.cost().reads, plan.cost().writes), (Method::Rcw, 1, 7));
}

#[test]
fn where_rmw_and_rcw_cost_the_same_rmw_is_taken() {
    let geometry = Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let plan = write(&geometry, 0, 8192);
    assert!(matches!(plan.verdict(), Verdict::Chosen { rmw, rcw, .. } if rmw == rcw), "{:?}", plan.verdict());
    assert_eq!(plan.method(), Method::Rmw);
}
