//! Invariants of every plan.

use super::{Machine, units};
use layout::Role;
use plan::{ComputeKind, Plan, ReadSlot, Request, Step, Target};
use std::collections::BTreeSet;
use units::{ByteCount, ByteOffset, DriveIndex};

pub fn check(plan: &Plan, machine: &Machine) {
    let geometry = plan.geometry();
    let steps: Vec<Step> = plan.steps().collect();
    // Each further extent may add two bands, and so may each cached range.
    let more = match plan.request() {
        Request::WriteExtents { extents, cached } => 2 * (extents.len() + cached.len() - 1),
        _ => 0,
    };
    let bound =
        Plan::step_bound(geometry) + more * (2 * usize::from(geometry.cells_per_stripe()) + 2);
    assert!(steps.len() <= bound, "{} steps\n{plan:#?}", steps.len());
    let rank = |step: &Step| match step {
        Step::Read(_) => 0,
        Step::Compute(_) => 1,
        Step::Commit => 2,
        Step::Write(_) => 3,
    };
    assert!(steps.windows(2).all(|pair| rank(&pair[0]) <= rank(&pair[1])), "order of steps");
    assert_eq!(steps.iter().filter(|step| **step == Step::Commit).count(), 1, "one commit");
    let reads = plan.reads().iter().map(|read| (read.drive, read.offset, read.len, read.role));
    check_ios(reads.collect());
    let writes =
        plan.writes().iter().map(|write| (write.drive, write.offset, write.len, write.role));
    check_ios(writes.collect());
    for (slot, read) in (0..).map(ReadSlot).zip(plan.reads()) {
        assert!(plan.health().readable.contains(read.drive), "reads readable drives\n{plan:#?}");
        let cell = machine.map.cell_of(read.role).unwrap();
        assert_eq!((cell.drive, cell.offset + read.within), (read.drive, read.offset), "{plan:#?}");
        assert!(read.within.0 + read.len.0 <= geometry.strip().bytes().0);
        assert_eq!(plan.read_parts(read).iter().map(|part| part.len.0).sum::<u64>(), read.len.0);
        let mut at = ByteOffset(0);
        for part in plan.read_parts(read) {
            if !matches!(part.into, Target::Host { .. }) {
                assert_eq!(
                    part.into,
                    Target::Read { slot, at },
                    "a read fills its own buffer, in order"
                );
            }
            at += part.len;
        }
    }
    for write in plan.writes() {
        let copied = matches!(plan.request(), Request::Copy { drive, .. } if drive == write.drive);
        assert!(copied || plan.health().writable.contains(write.drive), "writes writable drives");
        let home = geometry.stripe_map(plan.stripe());
        let cells = [Some(machine.map), copied.then_some(home)];
        let there = cells.iter().flatten().filter_map(|map| map.cell_of(write.role));
        let places: Vec<_> = there.map(|cell| (cell.drive, cell.offset + write.within)).collect();
        assert!(places.contains(&(write.drive, write.offset)), "{plan:#?}");
        assert!(write.within.0 + write.len.0 <= geometry.strip().bytes().0);
        assert_eq!(plan.write_parts(write).iter().map(|part| part.len.0).sum::<u64>(), write.len.0);
    }
    check_computes(plan);
    if let Request::Read { range, .. } = plan.request() {
        check_delivery(plan, range.len);
    }
}

/// No two I/Os overlap on a drive, and none of a cell are adjacent.
fn check_ios(mut ios: Vec<(DriveIndex, ByteOffset, ByteCount, Role)>) {
    ios.sort_unstable_by_key(|(drive, offset, ..)| (drive.0, offset.0));
    for pair in ios.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let apart = a.0 != b.0 || a.1.0 + a.2.0 < b.1.0 || (a.3 != b.3 && a.1.0 + a.2.0 == b.1.0);
        assert!(apart, "{ios:?}: overlap, or touch unmerged");
    }
    assert!(ios.iter().all(|(_, _, len, _)| len.0 > 0));
}

/// The strips of a computation are distinct; updates pair old and new content.
fn check_computes(plan: &Plan) {
    for compute in plan.computes() {
        let terms = plan.terms(compute);
        let (elsewhere, terms) = match compute.kind {
            ComputeKind::Update { .. } => compute.kind.old_parity_and_pairs(terms),
            _ => (&[][..], terms),
        };
        if let ComputeKind::Update { p, q } = compute.kind {
            let cached = |target: Option<Target>| matches!(target, Some(Target::Scratch { .. }));
            let roles = [(Role::P, cached(p)), (Role::Q, cached(q))];
            let roles = roles.into_iter().filter(|(_, cached)| *cached).map(|(role, _)| role);
            assert_eq!(
                elsewhere.iter().map(|term| term.role).collect::<Vec<_>>(),
                roles.collect::<Vec<_>>()
            );
            for pair in terms.chunks(2) {
                assert_eq!((pair[0].role, pair[0].exponent), (pair[1].role, pair[1].exponent));
            }
        }
        let every = if matches!(compute.kind, ComputeKind::Update { .. }) { 2 } else { 1 };
        let mut roles: Vec<Role> = terms.iter().step_by(every).map(|term| term.role).collect();
        if let ComputeKind::Recover { lost } = compute.kind {
            assert!(lost[0].is_some());
            roles.extend(lost.iter().flatten().map(|lost| lost.role));
        }
        let distinct: BTreeSet<Role> = roles.iter().copied().collect();
        assert_eq!(distinct.len(), roles.len(), "each strip once: {plan:#?}");
        assert!(
            compute.kind.targets().count() > 0
                || matches!(compute.kind, ComputeKind::Compare | ComputeKind::Check)
        );
    }
}

/// Each unit of the host's buffer is delivered exactly once.
fn check_delivery(plan: &Plan, len: ByteCount) {
    let mut delivered = BTreeSet::new();
    let parts = plan
        .reads()
        .iter()
        .flat_map(|read| plan.read_parts(read))
        .map(|part| (part.into, part.len));
    let computes = plan.computes().iter();
    let computed =
        computes.flat_map(|compute| compute.kind.targets().map(|into| (into, compute.len)));
    for (into, len) in parts.chain(computed) {
        if let Target::Host { at } = into {
            for unit in units(at.0)..units(at.0 + len.0) {
                assert!(delivered.insert(unit), "unit {unit} is delivered once");
            }
        }
    }
    assert_eq!(delivered.len(), units(len.0), "every unit is delivered");
}
