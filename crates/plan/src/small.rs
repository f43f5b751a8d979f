//! Fast path for the most frequent write: within one strip, with all drives working.
//!
//! ```text
//! read  old D ─┐                             write new D
//! read  old P ─┼─ update in place, commit ─> write new P
//! read  old Q ─┤                             write new Q        (where there is a Q)
//! host  new D ─┘
//! ```
//!
//! Makes the same plan as `write.rs` (a test compares them) without pricing: one band, one strip,
//! RMW, since with enough data strips RCW reads no fewer.

use crate::steps::Run;
use crate::survey::Survey;
use crate::{
    Alternative, Compute, ComputeKind, Method, Plan, Price, Read, ReadPart, ReadSlot, Source,
    Target, Term, Verdict, Write, WritePart,
};
use layout::{Cell, CopyIndex, DataIndex, Role};
use units::{ByteCount, ByteOffset};

/// Whether the fast path applies: one strip written, a stripe wide enough for RMW, all drives
/// working, parity trusted.
#[inline]
pub(crate) fn is_small(plan: &Plan, survey: &Survey) -> bool {
    plan.bands.first == plan.bands.last
        && !plan.bands.is_scattered
        && plan.geometry.data_strips() >= 2 + plan.geometry.parity_strips()
        && survey.unreadable | survey.unwritable == 0
        && survey.usable & survey.writable == survey.all
}

/// Plans a fresh plan with bands; requires [`is_small`].
pub(crate) fn plan_small_write(plan: &mut Plan, survey: &Survey, zeroes: bool) {
    let band = plan.bands.all()[0];
    let (index, copy) = (DataIndex(plan.bands.first), CopyIndex(0));
    let (within, len) = (ByteCount(band.start), ByteCount(band.len));
    let role = Role::Data { index, copy };
    let cells = [
        (plan.map.data_cell(index, copy), role),
        (survey.parity[0], Role::P),
        (survey.parity[1], Role::Q),
    ];
    let parities = plan.geometry.parity_strips();
    let cells = &cells[..1 + usize::from(parities)];
    let at = ByteOffset::ZERO;
    let new = if zeroes { Source::Zero } else { Source::Host { at } };
    for (slot, (cell, role)) in (0..).zip(cells) {
        plan.read_parts.push(ReadPart { into: Target::Read { slot: ReadSlot(slot), at }, len });
        let (Cell { drive, offset }, parts) = (*cell, Run::one(slot));
        plan.reads.push(Read { drive, offset: offset + within, within, len, role: *role, parts });
    }
    let exponent = plan.exponent(index.0);
    plan.terms.push(Term { from: Source::Read { slot: ReadSlot(0), at }, role, exponent });
    plan.terms.push(Term { from: new, role, exponent });
    let p = Target::Read { slot: ReadSlot(1), at };
    let q = (parities > 1).then_some(Target::Read { slot: ReadSlot(2), at });
    let kind = ComputeKind::Update { p: Some(p), q };
    plan.computes.push(Compute { kind, len, within, terms: Run { start: 0, end: 2 } });
    for (slot, (cell, role)) in (0..).zip(cells) {
        let from = if slot == 0 { new } else { Source::Read { slot: ReadSlot(slot), at } };
        plan.write_parts.push(WritePart { from, len });
        let (Cell { drive, offset }, parts) = (*cell, Run::one(slot));
        plan.writes.push(Write { drive, offset: offset + within, within, len, role: *role, parts });
    }
    let price = |drive_ios: u16| Price {
        drive_ios: drive_ios.into(),
        bytes: u64::from(drive_ios) * band.len,
    };
    let (rmw, rcw) = (price(2 + 2 * parities), price(plan.geometry.data_strips() + parities));
    plan.method = Method::Rmw;
    plan.rmw_bands = 1;
    plan.verdict =
        Verdict::Chosen { chosen: rmw, rmw: Alternative::Price(rmw), rcw: Alternative::Price(rcw) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{plan_write, plan_write_with_parity};
    use crate::{Health, Request};
    use layout::{Geometry, Level, Shape};
    use units::{ByteRange, DriveCount, StripSize, StripeIndex};

    /// The content of a plan without planning tables.
    fn content(plan: &Plan) -> String {
        format!("{:?}", Plan { old: Vec::new(), new_parity: Vec::new(), ..plan.clone() })
    }

    #[test]
    fn the_short_way_makes_the_plan_of_the_long_way() {
        let mut compared = 0;
        for (level, drives) in
            [Level::Raid5, Level::Raid6].into_iter().flat_map(|l| (3..=8).map(move |n| (l, n)))
        {
            for arrangement in level.row().parity_arrangements {
                let shape =
                    Shape { parity: Some(*arrangement), ..Shape::new(level, DriveCount(drives)) };
                let Ok(geometry) = shape.geometry(StripSize::MIN, ByteCount::MIB) else { continue };
                for (stripe, start) in (0..9)
                    .flat_map(|s| (0..geometry.stripe_bytes().0).step_by(1024).map(move |b| (s, b)))
                {
                    for len in [512, 4096 - start % 4096] {
                        let range = ByteRange::new(ByteOffset(start), ByteCount(len));
                        compared += compare(&geometry, StripeIndex(stripe), range);
                    }
                }
            }
        }
        assert!(compared > 1000, "the fast path was taken: {compared}");
    }

    fn compare(geometry: &Geometry, stripe: StripeIndex, range: ByteRange) -> u32 {
        let (mut long, mut short) = (Plan::new(geometry), Plan::new(geometry));
        let health = Health::optimal(geometry);
        for zeroes in [false, true] {
            let request =
                if zeroes { Request::WriteZeroes { range } } else { Request::Write { range } };
            for plan in [&mut long, &mut short] {
                plan.start(geometry, stripe, request, &health);
                plan.bands.fill(range);
                plan.make_room_for_old();
            }
            let survey = Survey::of(&long).unwrap();
            plan_write_with_parity(&mut long, &survey, zeroes).unwrap();
            plan_write(&mut short, zeroes).unwrap();
            assert_eq!(content(&short), content(&long), "{geometry} {range:?}");
        }
        u32::from(is_small(&short, &Survey::of(&short).unwrap()))
    }
}
