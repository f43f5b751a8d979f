//! Executes plans over byte arrays, and compares the result with a reference model.
//!
//! One byte stands for a *unit* of 1 KiB, so that every range of a stripe with strips of 4 KiB can
//! be tried. Unreadable cells are filled with garbage, so that a plan that uses them fails.
#![allow(dead_code)]

pub mod field;
pub mod healths;
pub mod picks;
pub mod shape;
pub mod written;

use field::{inverse, multiply, power};
use layout::{CopyIndex, DataIndex, Geometry, Level, ParityIndex, Role, Shape, StripeMap};
use plan::{Cached, ComputeKind, Health, Lost, Plan, Request, Source, Target};
use units::{ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};

/// Bytes that one byte of the machine stands for.
pub const UNIT: u64 = 1024;
/// Units per strip.
pub const STRIP: usize = 4;
/// Rows of strips on every drive.
const ROWS: u64 = 12;

pub fn units(bytes: u64) -> usize {
    assert_eq!(bytes % UNIT, 0, "plans keep to the granularity of the request");
    (bytes / UNIT) as usize
}

/// Whether all cases are tried rather than a sample.
pub fn all() -> bool {
    std::env::var("PLAN_TESTS").is_ok_and(|tests| tests == "all")
}

/// All levels in all shapes on this number of drives.
pub fn geometries(drives: u16) -> Vec<Geometry> {
    let mut all = Vec::new();
    for level in Level::ALL {
        let plain = Shape::new(level, DriveCount(drives));
        let mut shapes = vec![plain];
        let row = level.row();
        shapes.extend(row.spans.clone().map(|spans| Shape { spans: Some(spans), ..plain }));
        shapes
            .extend(row.parity_arrangements.iter().map(|it| Shape { parity: Some(*it), ..plain }));
        shapes
            .extend(row.mirror_arrangements.iter().map(|it| Shape { mirrors: Some(*it), ..plain }));
        shapes.push(Shape { copies: Some(3), ..plain });
        let mut made: Vec<Geometry> = shapes
            .iter()
            .filter_map(|shape| shape.geometry(StripSize::MIN, StripSize::MIN.bytes() * ROWS).ok())
            .collect();
        let mut seen = Vec::new();
        made.retain(|geometry| {
            !seen.contains(geometry) && {
                seen.push(*geometry);
                true
            }
        });
        all.extend(made);
    }
    all
}

/// Whether a layout is the level's default.
pub fn is_default(geometry: &Geometry) -> bool {
    Shape { parity: None, mirrors: None, ..geometry.shape() }
        .geometry(geometry.strip(), geometry.member_size())
        .is_ok_and(|default| default == *geometry)
}

/// The stripes to try: all until a default layout repeats, one of another layout.
pub fn stripes(geometry: &Geometry) -> Vec<StripeIndex> {
    let is_default = is_default(geometry);
    let width = u64::from(geometry.drives_per_stripe().0 * geometry.stripes_per_row());
    let until = match geometry.parity_strips() {
        0 => 1,
        _ => width.min(geometry.stripes().0),
    };
    if all() || is_default && geometry.drives().0 <= 4 {
        return (0..until).map(StripeIndex).collect();
    }
    let other = geometry.parity_arrangement().map_or(0, |it| it.name().len() as u64) % until;
    if is_default {
        vec![StripeIndex(0), StripeIndex(until / 2), StripeIndex(until - 1)]
    } else {
        vec![StripeIndex(other)]
    }
}

/// Every range of a stripe's data in whole units.
pub fn ranges(geometry: &Geometry) -> Vec<ByteRange> {
    let end = units(geometry.stripe_bytes().0) as u64;
    let range = |s: u64, e: u64| ByteRange::from_to(ByteOffset(s * UNIT), ByteOffset(e * UNIT));
    (0..end).flat_map(|s| (s + 1..=end).map(move |e| range(s, e))).collect()
}

/// The result of a compare or a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckResult {
    /// Everything is consistent.
    Right,
    /// Inconsistent; perhaps with the one strip that explains it.
    Wrong(Option<Role>),
}

/// One stripe: its intended data, and the content of the drives.
#[derive(Clone)]
pub struct Machine {
    pub geometry: Geometry,
    pub stripe: StripeIndex,
    pub map: StripeMap,
    /// The data, a byte per unit.
    pub truth: Vec<u8>,
    /// The drives' data areas, a byte per unit.
    pub drives: Vec<Vec<u8>>,
}

impl Machine {
    /// A stripe with data that differs in every unit, and its redundancy.
    pub fn new(geometry: Geometry, stripe: StripeIndex) -> Machine {
        Machine::at(geometry, stripe, geometry.stripe_map(stripe))
    }

    /// The same, with its cells where `map` says.
    pub fn at(geometry: Geometry, stripe: StripeIndex, map: StripeMap) -> Machine {
        let truth = (0..units(geometry.stripe_bytes().0)).map(|i| (i * 37 + 11) as u8).collect();
        let drives =
            vec![vec![0xEE; units(geometry.member_size().0)]; geometry.drives().as_usize()];
        let mut machine = Machine { geometry, stripe, map, truth, drives };
        for (cell, role) in map.cells() {
            for column in 0..STRIP {
                let value = machine.true_value(role, column);
                machine.drives[cell.drive.as_usize()][units(cell.offset.0) + column] = value;
            }
        }
        machine
    }

    pub fn strips(&self) -> usize {
        usize::from(self.geometry.data_strips())
    }

    pub fn copies(&self) -> u16 {
        self.geometry.copies()
    }

    /// Drive and first unit of a role.
    pub fn place(&self, role: Role) -> (usize, usize) {
        let cell = self.map.cell_of(role).unwrap();
        (cell.drive.as_usize(), units(cell.offset.0))
    }

    /// Drive and first unit of a data strip.
    pub fn data_at(&self, strip: usize, copy: u16) -> (usize, usize) {
        self.place(Role::Data { index: DataIndex(strip as u16), copy: CopyIndex(copy) })
    }

    /// Drive, first unit and role of P and Q, if present.
    pub fn parities(&self) -> Vec<(usize, usize, Role)> {
        let all = [(0, Role::P), (1, Role::Q)];
        let has = all.into_iter().filter(|(n, _)| self.map.parity_cell(ParityIndex(*n)).is_some());
        has.map(|(_, role)| (self.place(role).0, self.place(role).1, role)).collect()
    }

    pub fn weight(&self, strip: usize) -> u8 {
        power(self.map.q_exponent(DataIndex(strip as u16)))
    }

    /// The intended content of a role in a column.
    pub fn true_value(&self, role: Role, column: usize) -> u8 {
        let data = |strip: usize| self.truth[strip * STRIP + column];
        match role {
            Role::Data { index, .. } => data(usize::from(index.0)),
            Role::P => (0..self.strips()).fold(0, |sum, strip| sum ^ data(strip)),
            Role::Q => (0..self.strips())
                .fold(0, |sum, strip| sum ^ multiply(self.weight(strip), data(strip))),
            Role::Spare => 0xEE,
        }
    }

    /// Whether a copy of a strip is readable and counts: where copies may differ, only the first
    /// readable one.
    pub fn counts(&self, health: &Health, strip: usize, copy: u16) -> bool {
        let readable =
            |copy| health.readable.contains(DriveIndex(self.data_at(strip, copy).0 as u16));
        readable(copy) && (health.parity_trusted || !(0..copy).any(readable))
    }

    /// Changes every unit of a role.
    pub fn scribble(&mut self, role: Role, with: u8) {
        let (drive, first) = self.place(role);
        self.drives[drive][first..first + STRIP].iter_mut().for_each(|unit| *unit ^= with);
    }

    /// Fills unreadable cells, and untrusted redundancy, with garbage.
    pub fn spoil(&mut self, health: &Health) {
        for (cell, role) in self.map.cells() {
            let is_good = match role {
                _ if !health.readable.contains(cell.drive) => false,
                Role::Data { index, copy } => self.counts(health, usize::from(index.0), copy.0),
                Role::P | Role::Q => health.parity_trusted,
                Role::Spare => true,
            };
            if !is_good {
                self.scribble(role, 0x5A ^ (cell.drive.0 as u8));
            }
        }
    }

    /// The content of the cached strips; other columns are garbage.
    fn cached_strips(&self, plan: &Plan) -> Vec<(Role, Vec<u8>)> {
        let Request::WriteExtents { cached, .. } = plan.request() else { return vec![] };
        let mut strips: Vec<(Role, Vec<u8>)> = Vec::new();
        for Cached { role, columns } in cached {
            if strips.last().is_none_or(|(last, _)| last != role) {
                strips.push((*role, vec![0xBB; STRIP]));
            }
            let (_, bytes) = strips.last_mut().unwrap();
            let (start, end) = (units(columns.start.0), units(columns.end().0));
            for (column, byte) in bytes.iter_mut().enumerate().take(end).skip(start) {
                *byte = self.true_value(*role, column);
            }
        }
        strips
    }

    /// Executes a plan, and returns the results of its comparisons. `host`: the host's buffer.
    pub fn execute(&mut self, plan: &Plan, host: &mut [u8]) -> Vec<CheckResult> {
        shape::check(plan, self);
        plan.check();
        let mut memory = Memory {
            host,
            slots: plan.reads().iter().map(|read| vec![0xDD; units(read.len.0)]).collect(),
            scratch: plan.scratch().iter().map(|len| vec![0xCC; units(len.0)]).collect(),
            cached: self.cached_strips(plan),
        };
        for read in plan.reads() {
            let mut from = units(read.offset.0);
            for part in plan.read_parts(read) {
                let len = units(part.len.0);
                let bytes = &self.drives[read.drive.as_usize()][from..from + len];
                memory.place(part.into, len).copy_from_slice(bytes);
                from += len;
            }
        }
        let found =
            plan.computes().iter().filter_map(|compute| memory.compute(plan, compute)).collect();
        for write in plan.writes() {
            let mut to = units(write.offset.0);
            for part in plan.write_parts(write) {
                let len = units(part.len.0);
                let bytes = memory.fetch(part.from, len);
                self.drives[write.drive.as_usize()][to..to + len].copy_from_slice(&bytes);
                to += len;
            }
        }
        found
    }
}

struct Memory<'a> {
    host: &'a mut [u8],
    slots: Vec<Vec<u8>>,
    scratch: Vec<Vec<u8>>,
    cached: Vec<(Role, Vec<u8>)>,
}

impl Memory<'_> {
    fn place(&mut self, target: Target, len: usize) -> &mut [u8] {
        let (buffer, at) = match target {
            Target::Host { at } => (&mut *self.host, at),
            Target::Read { slot, at } => (&mut self.slots[usize::from(slot.0)][..], at),
            Target::Scratch { slot, at } => (&mut self.scratch[usize::from(slot.0)][..], at),
        };
        &mut buffer[units(at.0)..][..len]
    }

    fn fetch(&self, source: Source, len: usize) -> Vec<u8> {
        let (buffer, at) = match source {
            Source::Host { at } => (&*self.host, at),
            Source::Read { slot, at } => (&self.slots[usize::from(slot.0)][..], at),
            Source::Scratch { slot, at } => (&self.scratch[usize::from(slot.0)][..], at),
            Source::Cached { role, at } => {
                let strip = self.cached.iter().find(|(other, _)| *other == role);
                (&strip.expect("the strip is cached").1[..], at)
            }
            Source::Zero => return vec![0; len],
        };
        buffer[units(at.0)..][..len].to_vec()
    }

    fn compute(&mut self, plan: &Plan, compute: &plan::Compute) -> Option<CheckResult> {
        let len = units(compute.len.0);
        let terms: Vec<(Role, u8, Vec<u8>)> = plan
            .terms(compute)
            .iter()
            .map(|term| (term.role, power(term.exponent), self.fetch(term.from, len)))
            .collect();
        let data = |i: usize, weighed: bool| {
            let of_data = terms.iter().filter(|(role, ..)| matches!(role, Role::Data { .. }));
            of_data.fold(0, |sum, (_, weight, bytes)| {
                sum ^ if weighed { multiply(*weight, bytes[i]) } else { bytes[i] }
            })
        };
        let parity = |wanted: Role, i: usize| {
            terms.iter().find(|(role, ..)| *role == wanted).map(|(.., bytes)| bytes[i])
        };
        match compute.kind {
            ComputeKind::Generate { p, q } | ComputeKind::Update { p, q } => {
                let keeps = matches!(compute.kind, ComputeKind::Update { .. });
                for (target, weighed, role) in [(p, false, Role::P), (q, true, Role::Q)] {
                    let Some(target) = target else { continue };
                    let new: Vec<u8> = (0..len).map(|i| data(i, weighed)).collect();
                    let old: Option<Vec<u8>> = (0..len).map(|i| parity(role, i)).collect();
                    assert!(keeps || len == 0 || old.is_none(), "only an update takes old parity");
                    let into = self.place(target, len);
                    if let Some(old) = old {
                        into.copy_from_slice(&old);
                    }
                    for (into, new) in into.iter_mut().zip(new) {
                        *into = if keeps { *into ^ new } else { new };
                    }
                }
                None
            }
            ComputeKind::Recover { lost } => {
                for i in 0..len {
                    let sums = [data(i, false), data(i, true)];
                    let given = [parity(Role::P, i), parity(Role::Q, i)];
                    for (lost, value) in recover(lost, sums, given) {
                        self.place(lost.into, len)[i] = value;
                    }
                }
                None
            }
            ComputeKind::Compare => Some(match odd_one(&terms) {
                _ if terms.windows(2).all(|pair| pair[0].2 == pair[1].2) => CheckResult::Right,
                odd => CheckResult::Wrong(odd),
            }),
            ComputeKind::Check => {
                let left = |i: usize| {
                    (
                        parity(Role::P, i).map(|p| p ^ data(i, false)),
                        parity(Role::Q, i).map(|q| q ^ data(i, true)),
                    )
                };
                let wrong: Vec<_> = (0..len)
                    .map(left)
                    .filter(|(p, q)| p.unwrap_or(0) | q.unwrap_or(0) != 0)
                    .collect();
                let culprit = |(p, q): &(Option<u8>, Option<u8>)| match (p.as_ref()?, q.as_ref()?) {
                    (0, _) => Some(Role::Q),
                    (_, 0) => Some(Role::P),
                    (p, q) => terms
                        .iter()
                        .find(|(role, weight, _)| {
                            matches!(role, Role::Data { .. }) && multiply(*weight, *p) == *q
                        })
                        .map(|(role, ..)| *role),
                };
                Some(match wrong.first() {
                    None => CheckResult::Right,
                    Some(first) => {
                        let named = culprit(first);
                        CheckResult::Wrong(
                            named.filter(|_| wrong.iter().all(|it| culprit(it) == named)),
                        )
                    }
                })
            }
        }
    }
}

/// Of three or more copies, the one that differs from all others, which are equal.
fn odd_one(terms: &[(Role, u8, Vec<u8>)]) -> Option<Role> {
    let others_agree = |odd: usize| {
        let others: Vec<_> = (0..terms.len()).filter(|i| *i != odd).map(|i| &terms[i].2).collect();
        others.len() > 1 && others.windows(2).all(|pair| pair[0] == pair[1])
    };
    let mut odd = (0..terms.len()).filter(|i| others_agree(*i));
    odd.next().map(|i| terms[i].0)
}

/// One column of lost strips, from the syndromes of the remaining strips and the given P and Q.
fn recover(lost: [Option<Lost>; 2], sums: [u8; 2], given: [Option<u8>; 2]) -> Vec<(Lost, u8)> {
    let is_data = |lost: &Lost| matches!(lost.role, Role::Data { .. });
    let data: Vec<Lost> = lost.into_iter().flatten().filter(is_data).collect();
    let values = match data[..] {
        [] => vec![],
        [one] => match given {
            [Some(p), _] => vec![p ^ sums[0]],
            [None, Some(q)] => vec![multiply(inverse(power(one.exponent)), q ^ sums[1])],
            _ => panic!("a lost strip takes P or Q"),
        },
        [one, other] => {
            let [Some(p), Some(q)] = given else { panic!("two lost strips take P and Q") };
            let (p, q, a, b) =
                (p ^ sums[0], q ^ sums[1], power(one.exponent), power(other.exponent));
            let first = multiply(q ^ multiply(b, p), inverse(a ^ b));
            vec![first, p ^ first]
        }
        _ => unreachable!("at most two are lost"),
    };
    let all = |weighed: bool| {
        data.iter().zip(&values).fold(sums[usize::from(weighed)], |sum, (lost, value)| {
            sum ^ if weighed { multiply(power(lost.exponent), *value) } else { *value }
        })
    };
    let mut all_lost: Vec<(Lost, u8)> = data.iter().copied().zip(values.iter().copied()).collect();
    for lost in lost.into_iter().flatten().filter(|lost| !is_data(lost)) {
        all_lost.push((lost, all(lost.role == Role::Q)));
    }
    all_lost
}
