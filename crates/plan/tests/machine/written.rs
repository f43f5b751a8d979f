//! Content of the drives after a write, by a reference model.

use super::{Machine, STRIP, units};
use plan::{Health, Plan};
use units::{ByteRange, DriveIndex};

/// The strips of a stripe that can be read or recovered, by a reference model.
pub struct Reach {
    pub strips: Vec<bool>,
}

impl Reach {
    pub fn of(machine: &Machine, health: &Health) -> Reach {
        let direct: Vec<bool> = (0..machine.strips())
            .map(|strip| (0..machine.copies()).any(|copy| machine.counts(health, strip, copy)))
            .collect();
        let readable = |drive: usize| health.readable.contains(DriveIndex(drive as u16));
        let parities = machine.parities().iter().filter(|(drive, ..)| readable(*drive)).count();
        let missing = direct.iter().filter(|direct| !**direct).count();
        // Lost strips can be recovered from as many parity strips and all others.
        let recoverable = health.parity_trusted && missing <= parities;
        Reach { strips: direct.iter().map(|direct| *direct || recoverable).collect() }
    }
}

/// Executes a plan that writes extents (or one range), and checks the drives.
pub fn check_write(
    before: &Machine,
    plan: &Plan,
    zeroes: bool,
    extents: &[ByteRange],
    health: &Health,
) {
    let mut machine = before.clone();
    let mut host: Vec<u8> =
        (0..units(extents.iter().map(|it| it.len.0).sum())).map(|i| (i * 91 + 5) as u8).collect();
    let payload = host.clone();
    machine.execute(plan, &mut host);
    assert_eq!(host, payload, "a write leaves the host's buffer alone");
    let written = extents.iter().flat_map(|it| units(it.start.0)..units(it.end().0));
    for (i, unit) in written.enumerate() {
        machine.truth[unit] = if zeroes { 0 } else { payload[i] };
    }
    for column in 0..STRIP {
        check_column(before, &machine, plan, column, extents, health);
    }
}

/// One column after a write. A cell is *good* when it is readable and holds the right content. Each
/// byte that was written or available before must be in a good cell, or follow from as many good
/// parity strips as there are data strips without a good cell.
fn check_column(
    before: &Machine,
    after: &Machine,
    plan: &Plan,
    column: usize,
    extents: &[ByteRange],
    health: &Health,
) {
    let readable = |drive: usize| health.readable.contains(DriveIndex(drive as u16));
    let was_written = |drive: usize, unit: usize| {
        plan.writes().iter().any(|write| {
            write.drive.as_usize() == drive
                && (units(write.offset.0)..units(write.offset.0 + write.len.0)).contains(&unit)
        })
    };
    let is_in = |extent: &ByteRange, unit: usize| {
        (units(extent.start.0)..units(extent.end().0)).contains(&unit)
    };
    let requested =
        |strip: usize| extents.iter().any(|extent| is_in(extent, strip * STRIP + column));
    let good: Vec<bool> = (0..after.strips())
        .map(|strip| {
            let good_copies = (0..after.copies()).filter(|copy| {
                let (drive, first) = after.data_at(strip, *copy);
                let written = was_written(drive, first + column);
                let good = if requested(strip) {
                    written
                } else {
                    before.counts(health, strip, *copy) && !written
                };
                let value = after.drives[drive][first + column];
                assert!(
                    !good || value == after.truth[strip * STRIP + column],
                    "good cells hold the truth"
                );
                assert!(!written || good, "only requested strips are written");
                good
            });
            good_copies.count() > 0
        })
        .collect();
    let any_requested = (0..after.strips()).any(requested);
    let good_parities = after.parities().into_iter().filter(|(drive, first, role)| {
        let written = was_written(*drive, first + column);
        let writable = health.writable.contains(DriveIndex(*drive as u16));
        // Writable parity that counts as right would be wrong when it is read again.
        let deemed_good = health.parity_trusted && writable;
        assert!(written || !any_requested || !deemed_good, "{role} follows the data\n{plan:#?}");
        let good = written || !any_requested && health.parity_trusted && readable(*drive);
        let value = after.drives[*drive][first + column];
        assert!(
            !good || value == after.true_value(*role, column),
            "good {role} is the truth's\n{plan:#?}"
        );
        good
    });
    let good_parities = good_parities.count();
    let missing = good.iter().filter(|good| !**good).count();
    let reach_before = Reach::of(before, health);
    for (strip, good) in good.into_iter().enumerate() {
        let has = good || missing <= good_parities;
        assert!(
            has || !requested(strip) && !reach_before.strips[strip],
            "D{strip} is gone\n{plan:#?}"
        );
    }
}
