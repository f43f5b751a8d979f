//! The short way for the most frequent write: within one strip, everything working.
//!
//! ```text
//! read  old D ─┐                      write new D
//! read  old P ─┼─ xor ─ commit ─────> write new P
//! host  new D ─┘
//! ```
//!
//! The plan is the very one that `write.rs` makes (a test compares them, step by step), without the weighing:
//! one band, one strip, RMW, because with three or more data strips RCW reads no fewer.

use crate::steps::Run;
use crate::survey::Survey;
use crate::{
    Alternative, Compute, ComputeKind, Method, Plan, Price, Read, ReadPart, ReadSlot, ScratchSlot, Source,
    Target, Verdict, Write, WritePart,
};
use layout::{Cell, CopyIndex, DataIndex, Role, StripeMap};
use units::{ByteCount, ByteOffset};

/// Whether the short way is open: one strip written, not in a stripe so narrow that RCW is cheaper, every
/// drive working, parity right.
pub(crate) fn is_small(plan: &Plan, survey: &Survey) -> bool {
    plan.bands.first == plan.bands.last
        && plan.geometry.data_strips() >= 3
        && survey.unreadable | survey.unwritable == 0
        && survey.parity_usable
        && survey.parity_writable
}

/// Plans it. The plan is fresh but for its bands; see [`is_small`] for what must hold.
pub(crate) fn plan_small_write(plan: &mut Plan, map: &StripeMap, survey: &Survey, zeroes: bool) {
    let band = plan.bands.all()[0];
    let (index, copy) = (DataIndex(plan.bands.first), CopyIndex(0));
    let (within, len) = (ByteCount(band.start), ByteCount(band.len));
    let cells = [(map.data_cell(index, copy), Role::Data { index, copy }), (survey.parity, Role::P)];
    let start = ByteOffset::ZERO;
    let host = if zeroes { Source::Zero } else { Source::Host { at: start } };
    let sum = Target::Scratch { slot: ScratchSlot(0), at: start };
    for (slot, (cell, role)) in (0..).zip(cells) {
        plan.read_parts.push(ReadPart { into: Target::Read { slot: ReadSlot(slot), at: start }, len });
        let (Cell { drive, offset }, parts) = (cell, Run::one(slot));
        plan.reads.push(Read { drive, offset: offset + within, within, len, role, parts });
    }
    plan.sources.push(Source::Read { slot: ReadSlot(1), at: start });
    plan.sources.push(Source::Read { slot: ReadSlot(0), at: start });
    if !zeroes {
        plan.sources.push(host);
    }
    let sources = Run { start: 0, end: plan.sources.len() as u32 };
    let kind = ComputeKind::Xor { into: sum, role: Role::P };
    plan.computes.push(Compute { kind, len, within, sources });
    plan.scratch.push(len);
    for (slot, ((cell, role), from)) in (0..).zip(cells.into_iter().zip([host, sum.as_source()])) {
        plan.write_parts.push(WritePart { from, len });
        let (Cell { drive, offset }, parts) = (cell, Run::one(slot));
        plan.writes.push(Write { drive, offset: offset + within, within, len, role, parts });
    }
    let price =
        |drive_ios: u16| Price { drive_ios: drive_ios.into(), bytes: u64::from(drive_ios) * band.len };
    let (rmw, rcw) = (price(4), price(plan.geometry.data_strips() + 1));
    plan.method = Method::Rmw;
    plan.rmw_bands = 1;
    plan.verdict =
        Verdict::Chosen { chosen: rmw, rmw: Alternative::Price(rmw), rcw: Alternative::Price(rcw) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{plan_write, plan_write_with_parity};
    use crate::{Bands, Health, Request};
    use layout::{Geometry, Level, ParityArrangement, Shape};
    use units::{ByteRange, DriveCount, StripSize, StripeIndex};

    /// What is in a plan, but for what only planning uses.
    fn content(plan: &Plan) -> String {
        format!("{:?}", Plan { brought_by: Vec::new(), ..plan.clone() })
    }

    #[test]
    fn the_short_way_makes_the_plan_of_the_long_way() {
        let mut compared = 0;
        for drives in 3..=8 {
            for rotation in ParityArrangement::ALL {
                let shape = Shape { parity: Some(rotation), ..Shape::new(Level::Raid5, DriveCount(drives)) };
                let Ok(geometry) = shape.geometry(StripSize::MIN, ByteCount::MIB) else { continue };
                for (stripe, start) in
                    (0..9).flat_map(|s| (0..geometry.stripe_bytes().0).step_by(512).map(move |b| (s, b)))
                {
                    for len in [512, 4096 - start % 4096] {
                        let range = ByteRange::new(ByteOffset(start), ByteCount(len));
                        compared += compare(&geometry, StripeIndex(stripe), range);
                    }
                }
            }
        }
        assert!(compared > 1000, "the short way was taken: {compared}");
    }

    fn compare(geometry: &Geometry, stripe: StripeIndex, range: ByteRange) -> u32 {
        let (mut long, mut short) = (Plan::new(geometry), Plan::new(geometry));
        let health = Health::optimal(geometry);
        let map = geometry.stripe_map(stripe);
        for zeroes in [false, true] {
            let request = if zeroes { Request::WriteZeroes { range } } else { Request::Write { range } };
            for plan in [&mut long, &mut short] {
                plan.start(geometry, stripe, request, &health);
                plan.bands = Bands::of(range, geometry.strip());
            }
            let survey = Survey::of(geometry, &map, &health).unwrap();
            plan_write_with_parity(&mut long, &map, &survey, zeroes).unwrap();
            plan_write(&mut short, &map, range, zeroes).unwrap();
            assert_eq!(content(&short), content(&long), "{geometry} {range:?}");
        }
        u32::from(is_small(&short, &Survey::of(geometry, &map, &health).unwrap()))
    }
}
