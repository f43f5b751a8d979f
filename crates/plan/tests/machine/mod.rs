//! A machine that executes plans over byte arrays, beside a plain model of what they should do.
//!
//! One byte stands for a *unit* of 1 KiB, so that every range of a stripe with strips of 4 KiB can be tried.
//! What a drive cannot give is scribbled over, so that a plan that uses it computes nonsense.
#![allow(dead_code)]

use layout::{CopyIndex, DataIndex, Geometry, Level, ParityArrangement, ParityIndex, Shape};
use plan::{ComputeKind, Health, Plan, ReadSlot, Request, Source, Step, Target};
use std::collections::BTreeSet;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};

/// Bytes that one byte of the machine stands for.
pub const UNIT: u64 = 1024;
/// Units per strip.
pub const STRIP: usize = 4;
/// Stripes in the machine's arrays: enough for parity to come to every drive.
pub const STRIPES: u64 = 6;

pub fn units(bytes: u64) -> usize {
    assert_eq!(bytes % UNIT, 0, "plans keep to the granularity of the request");
    (bytes / UNIT) as usize
}

/// All levels in all rotations on that many drives.
pub fn geometries(drives: u16) -> Vec<Geometry> {
    let size = StripSize::MIN.bytes() * STRIPES;
    // Those whose stripes lie on all drives, each of which holds one strip of data or P.
    let levels = Level::ALL.into_iter().filter(|level| level.row().parity_strips < 2);
    let levels = levels
        .filter(|level| !matches!(level, Level::Raid1e | Level::Raid10 | Level::Raid5ee | Level::Raid50));
    let arrangements = || std::iter::once(None).chain(ParityArrangement::ALL.map(Some));
    let shapes = levels.flat_map(|level| {
        let plain = Shape::new(level, DriveCount(drives));
        arrangements()
            .filter(move |parity| parity.is_some() != level.row().parity_arrangements.is_empty())
            .map(move |parity| Shape { parity, ..plain })
    });
    shapes.filter_map(|shape| shape.geometry(StripSize::MIN, size).ok()).collect()
}

/// Every range of a stripe's data in whole units.
pub fn ranges(geometry: &Geometry) -> Vec<ByteRange> {
    let end = units(geometry.stripe_bytes().0) as u64;
    let range = |s: u64, e: u64| ByteRange::from_to(ByteOffset(s * UNIT), ByteOffset(e * UNIT));
    (0..end).flat_map(|s| (s + 1..=end).map(move |e| range(s, e))).collect()
}

/// What one drive can do, in all combinations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Can {
    pub read: bool,
    pub write: bool,
}

pub const CAN: [Can; 4] = [
    Can { read: true, write: true },
    Can { read: false, write: false },
    Can { read: false, write: true },
    Can { read: true, write: false },
];

/// Health in which each drive can do what `can` says.
pub fn health_of(can: &[Can], parity_trusted: bool) -> Health {
    let set = |which: fn(&Can) -> bool| {
        (0..).zip(can).filter(|(_, can)| which(can)).map(|(drive, _)| DriveIndex(drive)).collect()
    };
    Health { readable: set(|can| can.read), writable: set(|can| can.write), parity_trusted }
}

/// Health with every drive working, and with each drive in each way unable.
pub fn single_faults(geometry: &Geometry, parity_trusted: bool) -> Vec<Health> {
    let drives = geometry.drives().as_usize();
    let mut all = vec![health_of(&vec![CAN[0]; drives], parity_trusted)];
    for drive in 0..drives {
        for fault in &CAN[1..] {
            let mut can = vec![CAN[0]; drives];
            can[drive] = *fault;
            all.push(health_of(&can, parity_trusted));
        }
    }
    all
}

/// Every drive in every state: 4^drives.
pub fn all_healths(geometry: &Geometry, parity_trusted: bool) -> Vec<Health> {
    let drives = geometry.drives().as_usize();
    (0..4usize.pow(drives as u32))
        .map(|state| {
            let can: Vec<Can> = (0..drives).map(|drive| CAN[state >> (2 * drive) & 3]).collect();
            health_of(&can, parity_trusted)
        })
        .collect()
}

/// One stripe: what its data truly is, and what is on the drives.
#[derive(Clone)]
pub struct Machine {
    pub geometry: Geometry,
    pub stripe: StripeIndex,
    /// The data, a byte per unit.
    pub truth: Vec<u8>,
    /// The drives' data areas, a byte per unit.
    pub drives: Vec<Vec<u8>>,
}

impl Machine {
    /// A stripe with data that differs in every unit, and its redundancy.
    pub fn new(geometry: Geometry, stripe: StripeIndex) -> Machine {
        let truth = (0..units(geometry.stripe_bytes().0)).map(|i| (i * 37 + 11) as u8).collect();
        let drive = vec![0xEE; units(geometry.member_size().0)];
        let drives = vec![drive; geometry.drives().as_usize()];
        let mut machine = Machine { geometry, stripe, truth, drives };
        for strip in 0..machine.strips() {
            for copy in 0..geometry.copies() {
                let start = machine.data_at(strip, copy);
                for column in 0..STRIP {
                    machine.drives[start.0][start.1 + column] = machine.truth[strip * STRIP + column];
                }
            }
        }
        if let Some((drive, start)) = machine.parity_at() {
            for column in 0..STRIP {
                machine.drives[drive][start + column] = machine.true_parity(column);
            }
        }
        machine
    }

    pub fn strips(&self) -> usize {
        usize::from(self.geometry.data_strips())
    }

    /// Drive and first unit of a data strip.
    pub fn data_at(&self, strip: usize, copy: u16) -> (usize, usize) {
        let cell = self.geometry.data_cell(self.stripe, DataIndex(strip as u16), CopyIndex(copy));
        (cell.drive.as_usize(), units(cell.offset.0))
    }

    /// Drive and first unit of P.
    pub fn parity_at(&self) -> Option<(usize, usize)> {
        let cell = self.geometry.parity_cell(self.stripe, ParityIndex(0))?;
        Some((cell.drive.as_usize(), units(cell.offset.0)))
    }

    /// What P must be in a column.
    pub fn true_parity(&self, column: usize) -> u8 {
        (0..self.strips()).fold(0, |sum, strip| sum ^ self.truth[strip * STRIP + column])
    }

    /// Spoils what the drives cannot give, and P where it is not to be trusted.
    pub fn spoil(&mut self, health: &Health) {
        for (cell, _) in self.geometry.stripe_map(self.stripe).cells() {
            if !health.readable.contains(cell.drive) {
                let first = units(cell.offset.0);
                let content = &mut self.drives[cell.drive.as_usize()];
                content[first..first + STRIP].iter_mut().for_each(|unit| *unit ^= 0x5A);
            }
        }
        if let Some((drive, start)) = self.parity_at().filter(|_| !health.parity_trusted) {
            self.drives[drive][start..start + STRIP].iter_mut().for_each(|unit| *unit ^= 0x33);
        }
    }

    /// Carries out a plan; gives the comparisons' results. The host's buffer is `host`.
    pub fn execute(&mut self, plan: &Plan, host: &mut [u8]) -> Vec<bool> {
        check_shape(plan);
        let mut slots: Vec<Vec<u8>> = plan.reads().iter().map(|read| vec![0xDD; units(read.len.0)]).collect();
        let mut scratch: Vec<Vec<u8>> = plan.scratch().iter().map(|len| vec![0xCC; units(len.0)]).collect();
        let mut same = Vec::new();
        for read in plan.reads() {
            let mut from = units(read.offset.0);
            for part in plan.read_parts(read) {
                let len = units(part.len.0);
                let bytes = self.drives[read.drive.as_usize()][from..from + len].to_vec();
                place(part.into, len, host, &mut slots, &mut scratch).copy_from_slice(&bytes);
                from += len;
            }
        }
        for compute in plan.computes() {
            let len = units(compute.len.0);
            let sources: Vec<Vec<u8>> = plan
                .sources(compute)
                .iter()
                .map(|source| fetch(*source, len, host, &slots, &scratch))
                .collect();
            match compute.kind {
                ComputeKind::Xor { into, .. } => {
                    let sum: Vec<u8> =
                        (0..len).map(|i| sources.iter().fold(0, |sum, source| sum ^ source[i])).collect();
                    place(into, len, host, &mut slots, &mut scratch).copy_from_slice(&sum);
                }
                ComputeKind::Compare => same.push(sources.windows(2).all(|pair| pair[0] == pair[1])),
            }
        }
        for write in plan.writes() {
            let mut to = units(write.offset.0);
            for part in plan.write_parts(write) {
                let len = units(part.len.0);
                let bytes = fetch(part.from, len, host, &slots, &scratch);
                self.drives[write.drive.as_usize()][to..to + len].copy_from_slice(&bytes);
                to += len;
            }
        }
        same
    }
}

fn place<'a>(
    target: Target,
    len: usize,
    host: &'a mut [u8],
    slots: &'a mut [Vec<u8>],
    scratch: &'a mut [Vec<u8>],
) -> &'a mut [u8] {
    let (buffer, at) = match target {
        Target::Host { at } => (host, at),
        Target::Read { slot, at } => (&mut slots[usize::from(slot.0)][..], at),
        Target::Scratch { slot, at } => (&mut scratch[usize::from(slot.0)][..], at),
    };
    &mut buffer[units(at.0)..][..len]
}

fn fetch(source: Source, len: usize, host: &[u8], slots: &[Vec<u8>], scratch: &[Vec<u8>]) -> Vec<u8> {
    let (buffer, at) = match source {
        Source::Host { at } => (host, at),
        Source::Read { slot, at } => (&slots[usize::from(slot.0)][..], at),
        Source::Scratch { slot, at } => (&scratch[usize::from(slot.0)][..], at),
        Source::Zero => return vec![0; len],
    };
    buffer[units(at.0)..][..len].to_vec()
}

/// What holds for every plan, whatever it is for.
pub fn check_shape(plan: &Plan) {
    let geometry = plan.geometry();
    let steps: Vec<Step> = plan.steps().collect();
    assert!(steps.len() <= Plan::step_bound(geometry), "{} steps\n{plan:#?}", steps.len());
    let rank = |step: &Step| match step {
        Step::Read(_) => 0,
        Step::Compute(_) => 1,
        Step::Commit => 2,
        Step::Write(_) => 3,
    };
    assert!(steps.windows(2).all(|pair| rank(&pair[0]) <= rank(&pair[1])), "order of steps");
    assert_eq!(steps.iter().filter(|step| **step == Step::Commit).count(), 1, "one commit");
    let io = |drive: DriveIndex, offset: ByteOffset, len: ByteCount| (drive.0, offset.0, offset.0 + len.0);
    let reads: Vec<_> = plan.reads().iter().map(|read| io(read.drive, read.offset, read.len)).collect();
    let writes: Vec<_> = plan.writes().iter().map(|write| io(write.drive, write.offset, write.len)).collect();
    check_ios(reads);
    check_ios(writes);
    for (slot, read) in (0..).map(ReadSlot).zip(plan.reads()) {
        assert!(plan.health().readable.contains(read.drive), "reads what can be read");
        let located = geometry.locate(read.drive, read.offset).unwrap();
        assert_eq!((located.stripe, located.role, located.within), (plan.stripe(), read.role, read.within));
        assert_eq!(plan.read_parts(read).iter().map(|part| part.len.0).sum::<u64>(), read.len.0);
        let mut at = ByteOffset(0);
        for part in plan.read_parts(read) {
            if !matches!(part.into, Target::Host { .. }) {
                assert_eq!(part.into, Target::Read { slot, at }, "a read fills its own buffer, in order");
            }
            at += part.len;
        }
    }
    for write in plan.writes() {
        assert!(plan.health().writable.contains(write.drive), "writes what can be written");
        let located = geometry.locate(write.drive, write.offset).unwrap();
        assert_eq!((located.stripe, located.role, located.within), (plan.stripe(), write.role, write.within));
        assert_eq!(plan.write_parts(write).iter().map(|part| part.len.0).sum::<u64>(), write.len.0);
    }
    if let Request::Read { range, .. } = plan.request() {
        check_delivery(plan, range.len);
    }
}

/// No two overlap or touch on one drive.
fn check_ios(mut ios: Vec<(u16, u64, u64)>) {
    ios.sort_unstable();
    for pair in ios.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 < pair[1].1, "{ios:?}: overlap, or touch unmerged");
    }
    assert!(ios.iter().all(|(_, start, end)| start < end));
}

/// Each unit of the host's buffer is delivered exactly once.
fn check_delivery(plan: &Plan, len: ByteCount) {
    let mut delivered = BTreeSet::new();
    let parts = plan.reads().iter().flat_map(|read| plan.read_parts(read)).map(|part| (part.into, part.len));
    let computed = plan.computes().iter().filter_map(|compute| match compute.kind {
        ComputeKind::Xor { into, .. } => Some((into, compute.len)),
        ComputeKind::Compare => None,
    });
    for (into, len) in parts.chain(computed) {
        if let Target::Host { at } = into {
            for unit in units(at.0)..units(at.0 + len.0) {
                assert!(delivered.insert(unit), "unit {unit} is delivered once");
            }
        }
    }
    assert_eq!(delivered.len(), units(len.0), "every unit is delivered");
}
