//! Measures the cost of planning: `cargo run --release -p plan --example planning_cost`.

// This measures real time.
#![allow(clippy::disallowed_methods)]

use layout::{DataIndex, Geometry, Level};
use plan::{Cached, CopyChoice, Health, Plan, Request, plan_into};
use std::hint::black_box;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};

fn nanoseconds(mut work: impl FnMut(u64)) -> f64 {
    const ROUNDS: u64 = 400_000;
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = std::time::Instant::now();
        for round in 0..ROUNDS {
            work(round);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    best
}

fn main() {
    let kib = |start: u64, len: u64| ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10));
    let read = |range| Request::Read { range, prefer: CopyChoice::FIRST, split: false };
    for (level, drives) in [(Level::Raid5, 8), (Level::Raid6, 8), (Level::Raid10, 8)] {
        let geometry =
            Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount::GIB).unwrap();
        let optimal = Health::optimal(&geometry);
        let one = optimal.without(DriveIndex(1));
        let two = one.without(DriveIndex(2));
        let whole = ByteRange::new(ByteOffset::ZERO, geometry.stripe_bytes());
        let rectangle = [kib(8, 16), kib(72, 16), kib(136, 16)];
        let here_and_there: Vec<ByteRange> = (0..16).map(|i| kib(12 * i, 4)).collect();
        let cached: Vec<Cached> = (0..3).map(|i| Cached::data(DataIndex(i), kib(0, 64))).collect();
        let extents = |extents, cached| Request::WriteExtents { extents, cached };
        let mut plan = Plan::new(&geometry);
        for (what, request, health) in [
            ("small read", read(kib(72, 8)), optimal),
            ("small write", Request::Write { range: kib(72, 8) }, optimal),
            ("write over two strips", Request::Write { range: kib(48, 32) }, optimal),
            ("full stripe", Request::Write { range: whole }, optimal),
            ("rectangle", extents(&rectangle, &[]), optimal),
            ("rectangle, cached", extents(&rectangle, &cached), optimal),
            ("16 extents, cached", extents(&here_and_there, &cached), optimal),
            ("small read, one lost", read(kib(72, 8)), one),
            ("small write, one lost", Request::Write { range: kib(72, 8) }, one),
            ("small write, two lost", Request::Write { range: kib(72, 8) }, two),
        ] {
            if plan_into(&mut plan, &geometry, StripeIndex(2), request, &health).is_err() {
                continue;
            }
            let cost = nanoseconds(|round| {
                let stripe = StripeIndex(round % 1000);
                let _ =
                    black_box(plan_into(&mut plan, black_box(&geometry), stripe, request, &health));
                black_box(&plan);
            });
            println!("{level:7} {what:24} {cost:6.0} ns");
        }
    }
}
