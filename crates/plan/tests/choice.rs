//! The method chosen for a write is the cheapest: compared with all others on small arrays, and
//! with every set of readable cells.

mod machine;

use layout::{CopyIndex, DataIndex, Geometry, Level, Role, Shape};
use machine::field::{inverse, multiply};
use machine::healths::{faulty, with_faults};
use machine::picks::Picks;
use machine::{Machine, STRIP, UNIT, all, geometries, ranges, stripes, units};
use plan::{
    Alternative, Cached, ComputeKind, Health, Method, Plan, Price, Request, Source, Verdict,
    plan_into,
};
use std::collections::BTreeSet;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};

/// A way of keeping parity in one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Rmw,
    Rcw,
    Recover,
}

/// I/Os and bytes of a set of (drive, unit) after merging adjacent ones.
fn price_of(cells: &BTreeSet<(usize, usize)>) -> (u32, u64) {
    let ios = cells
        .iter()
        .filter(|(drive, unit)| *unit == 0 || !cells.contains(&(*drive, unit - 1)))
        .count();
    (ios as u32, cells.len() as u64 * UNIT)
}

/// A write to a stripe, cell by cell, in a reference model.
#[derive(Clone, Copy)]
struct Model<'a> {
    machine: &'a Machine,
    health: &'a Health,
    extents: &'a [ByteRange],
    cached: &'a [Cached],
}

impl Model<'_> {
    fn readable(&self, drive: usize) -> bool {
        self.health.readable.contains(DriveIndex(drive as u16))
    }

    fn writable(&self, drive: usize) -> bool {
        self.health.writable.contains(DriveIndex(drive as u16))
    }

    fn requested(&self, strip: usize, column: usize) -> bool {
        let unit = strip * STRIP + column;
        self.extents.iter().any(|it| (units(it.start.0)..units(it.end().0)).contains(&unit))
    }

    /// Whether it is planned as one range.
    fn is_range(&self) -> bool {
        self.cached.is_empty() && self.extents.windows(2).all(|pair| pair[0].end() == pair[1].start)
    }

    fn is_cached(&self, role: Role, column: usize) -> bool {
        let has =
            |columns: ByteRange| (units(columns.start.0)..units(columns.end().0)).contains(&column);
        self.cached.iter().any(|it| it.role == role && has(it.columns))
    }

    fn is_data_cached(&self, strip: usize, column: usize) -> bool {
        self.is_cached(Role::Data { index: DataIndex(strip as u16), copy: CopyIndex(0) }, column)
    }

    fn active(&self, column: usize) -> bool {
        (0..self.machine.strips()).any(|strip| self.requested(strip, column))
    }

    /// Drives and first units of the data strips that are available, or not, in a column.
    fn data(&self, has: bool, column: usize) -> Vec<(usize, usize, usize)> {
        let strips = 0..self.machine.strips();
        let cells = strips.map(|strip| (strip, self.machine.data_at(strip, 0)));
        let can = |strip, drive| self.readable(drive) || self.is_data_cached(strip, column);
        cells
            .filter(|(strip, (drive, _))| can(*strip, *drive) == has)
            .map(|(strip, (drive, first))| (strip, drive, first))
            .collect()
    }

    /// The parity strips used for recovery; `None` where recovery is impossible.
    fn recover_from(&self, column: usize) -> Option<Vec<(usize, usize, Role)>> {
        let mut usable = self.machine.parities();
        usable.retain(|(drive, _, role)| {
            self.health.parity_trusted && (self.readable(*drive) || self.is_cached(*role, column))
        });
        usable.sort_by_key(|(_, _, role)| !self.is_cached(*role, column));
        let missing = self.data(false, column).len();
        (missing > 0 && missing <= usable.len()).then(|| usable[..missing].to_vec())
    }

    /// The cells that recovery reads in a column.
    fn recovery_reads(&self, column: usize) -> Option<Vec<(usize, usize)>> {
        let parity = self.recover_from(column)?.into_iter();
        let parity = parity.filter(|(_, _, role)| !self.is_cached(*role, column));
        let data = self.data(true, column).into_iter();
        let data = data.filter(|(strip, ..)| !self.is_data_cached(*strip, column));
        let cells = parity.map(|(drive, first, _)| (drive, first + column));
        Some(cells.chain(data.map(|(_, drive, first)| (drive, first + column))).collect())
    }

    /// The cells that a way reads in a column, with cached ones read too; `None` where it is
    /// impossible.
    fn reads_all(&self, way: Way, column: usize) -> Option<Vec<(usize, usize)>> {
        let mut cached = self.cached.to_vec();
        cached.retain(|it| {
            let drive = self.machine.place(it.role).0;
            let is_parity = matches!(it.role, Role::P | Role::Q);
            !self.readable(drive) || is_parity && !self.health.parity_trusted
        });
        if way == Way::Recover && (Model { cached: &[], ..*self }).recover_from(column).is_some() {
            cached.clear();
        }
        Model { cached: &cached, ..*self }.reads_as_range(way, column, self.is_range())
    }

    /// The cells that a way reads in a column; `None` where it is impossible.
    fn reads(&self, way: Way, column: usize) -> Option<Vec<(usize, usize)>> {
        self.reads_as_range(way, column, self.is_range())
    }

    fn reads_as_range(
        &self,
        way: Way,
        column: usize,
        is_range: bool,
    ) -> Option<Vec<(usize, usize)>> {
        let mut reads = Vec::new();
        match way {
            Way::Rmw => {
                for (drive, first, role) in self.machine.parities() {
                    if !self.writable(drive) {
                        continue;
                    }
                    let is_cached = self.is_cached(role, column);
                    if !(self.readable(drive) || is_cached) || !self.health.parity_trusted {
                        return None;
                    }
                    reads.extend((!is_cached).then_some((drive, first + column)));
                }
            }
            Way::Recover => {
                reads = self.recovery_reads(column)?;
                // For one range, recovery is not an option where no lost strip is needed.
                let needed = self
                    .data(false, column)
                    .iter()
                    .any(|(strip, ..)| !self.requested(*strip, column));
                return (needed || !is_range).then_some(reads);
            }
            Way::Rcw => {}
        }
        for strip in 0..self.machine.strips() {
            if self.requested(strip, column) == (way == Way::Rmw)
                && !self.is_data_cached(strip, column)
            {
                let (drive, first) = self.machine.data_at(strip, 0);
                if !self.readable(drive) {
                    return None;
                }
                reads.push((drive, first + column));
            }
        }
        Some(reads)
    }

    /// The least price over *every* choice of a way in *each single column*; `None` where a column
    /// has no way. For one range, recovery includes all columns between two that need it. RMW is an
    /// option in fully written columns too: its unused reads may join adjacent ones. In a column
    /// without writes only recovery reads. Reads that belong to no way are not considered, even if
    /// cheaper.
    fn least_price(&self) -> Option<Price> {
        let mut best: Option<Price> = None;
        let ways = [Way::Rmw, Way::Rcw, Way::Recover];
        let only_recovered = |column: &usize| {
            self.active(*column)
                && [Way::Rmw, Way::Rcw].iter().all(|way| self.reads(*way, *column).is_none())
        };
        let recovered: Vec<usize> = match self.recover_from(0) {
            Some(_) if self.is_range() => (0..STRIP).filter(only_recovered).collect(),
            _ => vec![],
        };
        let kinds = if self.cached.is_empty() { 3 } else { 6_usize };
        'choices: for choice in 0..kinds.pow(STRIP as u32) {
            let kind = |column: usize| choice / kinds.pow(column as u32) % kinds;
            let way = |column: usize| ways[kind(column) % 3];
            let reads_of = |column: usize| match kind(column) < 3 {
                true => self.reads(way(column), column),
                false => self.reads_all(way(column), column),
            };
            let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
            let active: Vec<usize> = (0..STRIP).filter(|column| self.active(*column)).collect();
            if (0..STRIP).any(|column| !active.contains(&column) && way(column) == Way::Rcw) {
                continue; // The same choice under another name.
            }
            let may_read_more =
                |column: &usize| !active.contains(column) && way(*column) == Way::Recover;
            for column in (0..STRIP).filter(may_read_more) {
                match reads_of(column) {
                    Some(cells) if !self.is_range() => reads.extend(cells),
                    _ => continue 'choices,
                }
            }
            for column in 0..STRIP {
                if recovered.first() < Some(&column) && recovered.last() > Some(&column) {
                    reads.extend(self.recovery_reads(column).unwrap());
                } else if active.contains(&column) {
                    match reads_of(column) {
                        Some(cells) => reads.extend(cells),
                        None => continue 'choices,
                    }
                }
            }
            for column in active {
                for (drive, first, _) in self.machine.parities() {
                    writes.extend(self.writable(drive).then_some((drive, first + column)));
                }
                for strip in
                    (0..self.machine.strips()).filter(|strip| self.requested(*strip, column))
                {
                    let (drive, first) = self.machine.data_at(strip, 0);
                    writes.extend(self.writable(drive).then_some((drive, first + column)));
                }
            }
            let ((read_ios, read_bytes), (write_ios, write_bytes)) =
                (price_of(&reads), price_of(&writes));
            let price = Price { drive_ios: read_ios + write_ios, bytes: read_bytes + write_bytes };
            best = Some(best.map_or(price, |best| best.min(price)));
        }
        best
    }
}

#[test]
fn no_choice_of_methods_is_cheaper_than_the_one_taken() {
    let mut seen = [0; 2];
    for geometry in (3..=6).flat_map(geometries).filter(|geometry| geometry.parity_strips() > 0) {
        let mut plan = Plan::new(&geometry);
        let (faults, every) = (usize::from(geometry.parity_strips()), if all() { 1 } else { 13 });
        let healths =
            [true, false].into_iter().flat_map(|trusted| with_faults(&geometry, faults, trusted));
        for (n, health) in healths.enumerate() {
            let stripes = stripes(&geometry);
            let stripe = stripes[n % stripes.len()];
            let machine = Machine::new(geometry, stripe);
            let few = faulty(&geometry, &health).count().0 <= 1 && geometry.drives().0 < 6;
            for (m, range) in ranges(&geometry).into_iter().enumerate() {
                if few || (n + m) % every == 0 {
                    let method = check_price(&mut plan, &machine, range, &health);
                    seen[0] += u32::from(method == Some(Method::Mixed));
                    seen[1] += u32::from(method == Some(Method::RecoverWrite));
                }
            }
        }
    }
    assert!(seen.iter().all(|seen| *seen > 100), "mixtures and recovering writes occur: {seen:?}");
}

/// For several extents, with or without cached data, no other choice is cheaper, and none with less
/// data cached.
#[test]
fn no_choice_for_several_extents_is_cheaper_than_the_one_taken() {
    let (mut seen, mut picks) = ([0; 3], Picks::new(3));
    for geometry in (3..=6).flat_map(geometries).filter(|geometry| geometry.parity_strips() > 0) {
        let (mut plan, mut bare) = (Plan::new(&geometry), Plan::new(&geometry));
        let faults = usize::from(geometry.parity_strips());
        let healths =
            [true, false].into_iter().flat_map(|trusted| with_faults(&geometry, faults, trusted));
        for (n, health) in healths.enumerate() {
            let stripes = stripes(&geometry);
            let machine = Machine::new(geometry, stripes[n % stripes.len()]);
            for pick in 0..if all() { 40 } else { 12 } {
                let (extents, cached) = (picks.extents(&geometry), picks.cached(&geometry));
                let request = Request::WriteExtents { extents: &extents, cached: &cached };
                let asked = (&extents[..], &cached[..]);
                let method = match all() || n % 7 == 0 && pick < 3 {
                    true => check_price_of(&mut plan, &machine, request, asked, &health),
                    false => plan_into(&mut plan, &geometry, machine.stripe, request, &health)
                        .ok()
                        .map(|()| plan.method()),
                };
                seen[0] += u32::from(method == Some(Method::Mixed));
                seen[1] += u32::from(method == Some(Method::RecoverWrite));
                let request = Request::WriteExtents { extents: &extents, cached: &[] };
                if plan_into(&mut bare, &geometry, machine.stripe, request, &health).is_ok() {
                    let price = |plan: &Plan| {
                        let cost = plan.cost();
                        (cost.drive_ios(), cost.bytes_read + cost.bytes_written)
                    };
                    // Cached data may make parity updates possible: dearer, and better.
                    let follows = plan.cost().bytes_written > bare.cost().bytes_written;
                    assert!(
                        price(&plan) <= price(&bare) || follows,
                        "{request:?} {cached:?} {plan:#?}"
                    );
                    seen[2] += u32::from(price(&plan) < price(&bare));
                }
            }
        }
    }
    assert!(
        seen.iter().all(|seen| *seen > 100),
        "mixtures, recovering writes and savings occur: {seen:?}"
    );
}

/// Columns 8 to 16 KiB are a full stripe and need no read, but D0 and P are read on both sides:
/// reading on saves two I/Os. The data is not used.
#[test]
fn reads_go_on_through_columns_that_are_written_in_full() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let kib = |start: u64, len: u64| ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10));
    let extents = [kib(0, 24), kib(64 + 8, 8), kib(128 + 8, 8)];
    let cached = [1, 2].map(|i| Cached::data(DataIndex(i), kib(8, 8)));
    let mut plan = Plan::new(&geometry);
    let mut planned = |cached: &[Cached]| {
        let request = Request::WriteExtents { extents: &extents, cached };
        plan_into(&mut plan, &geometry, StripeIndex(2), request, &Health::optimal(&geometry))
            .unwrap();
        plan.check();
        plan.clone()
    };
    let plan = planned(&cached);
    let reads: Vec<_> =
        plan.reads().iter().map(|it| (it.role.to_string(), it.within.0, it.len.0)).collect();
    assert_eq!(reads, [("D0".to_owned(), 0, 24 << 10), ("P".to_owned(), 0, 24 << 10)]);
    assert_eq!((plan.method(), plan.cost().writes), (Method::Mixed, 4));
    let drawn = plan::picture(&plan).to_string();
    assert!(
        drawn.contains("RMW in 0..8 KiB, full stripe in 8..16 KiB and RMW in 16..24 KiB"),
        "{drawn}"
    );
    let full = plan.computes().iter().find(|it| it.within.0 == 8 << 10).unwrap();
    assert!(matches!(full.kind, ComputeKind::Generate { .. }));
    assert!(
        plan.terms(full).iter().all(|term| matches!(term.from, Source::Host { .. })),
        "{full:?}"
    );
    let Verdict::Chosen { chosen, rmw, .. } = *plan.verdict() else { panic!("{plan:#?}") };
    assert_eq!(rmw, Alternative::Price(chosen), "RMW throughout may read on as well");
    // If D1 and D2 are not cached they are read too: four I/Os either way, and more bytes.
    let plan = planned(&[]);
    assert_eq!((plan.cost().reads, plan.cost().bytes_read), (4, 32 << 10));
}

/// Found by the model: D0 is lost and cached in columns 1 and 2 KiB; P is cached where all data is
/// written. D1 is read from 0 to 3 KiB, where its second KiB only joins the others.
#[test]
fn reads_go_on_through_columns_written_in_full_where_a_strip_is_lost() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(3), StripSize::MIN, StripSize::MIN.bytes() * 12);
    let machine = Machine::new(geometry.unwrap(), StripeIndex(2));
    let at = |start: usize, end: usize| {
        ByteRange::from_to(ByteOffset(start as u64 * UNIT), ByteOffset(end as u64 * UNIT))
    };
    let extents = [at(0, 3), at(STRIP + 1, STRIP + 2), at(STRIP + 3, STRIP + 4)];
    let cached = [
        Cached::data(DataIndex(0), at(0, 2)),
        Cached::data(DataIndex(1), at(3, 4)),
        Cached { role: Role::P, columns: at(1, 2) },
    ];
    let health =
        Health::optimal(&machine.geometry).unreadable(DriveIndex(machine.data_at(0, 0).0 as u16));
    let mut plan = Plan::new(&machine.geometry);
    let request = Request::WriteExtents { extents: &extents, cached: &cached };
    check_price_of(&mut plan, &machine, request, (&extents, &cached), &health);
    let reads: Vec<_> = plan
        .reads()
        .iter()
        .map(|it| (it.role.to_string(), units(it.within.0), units(it.len.0)))
        .collect();
    assert_eq!(reads, [("D1".to_owned(), 0, 3), ("P".to_owned(), 3, 1)]);
    assert_eq!((plan.cost().drive_ios(), plan.cost().bytes_written), (6, 9 * UNIT));
}

fn check_price(
    plan: &mut Plan,
    machine: &Machine,
    range: ByteRange,
    health: &Health,
) -> Option<Method> {
    let request = Request::Write { range };
    check_price_of(plan, machine, request, (&[range], &[]), health)
}

fn check_price_of(
    plan: &mut Plan,
    machine: &Machine,
    request: Request<'_>,
    (extents, cached): (&[ByteRange], &[Cached]),
    health: &Health,
) -> Option<Method> {
    plan_into(plan, &machine.geometry, machine.stripe, request, health).ok()?;
    let cost = plan.cost();
    let price = Price { drive_ios: cost.drive_ios(), bytes: cost.bytes_read + cost.bytes_written };
    let parities = machine.parities();
    if !parities.iter().any(|(drive, ..)| health.writable.contains(DriveIndex(*drive as u16))) {
        assert_eq!((plan.method(), plan.cost().reads), (Method::DataOnly, 0));
        return None;
    }
    match (Model { machine, health, extents, cached }).least_price() {
        Some(least) => assert_eq!(price, least, "{request:?} {health:?}\n{plan:#?}"),
        None => assert!(!health.parity_trusted, "{request:?} {health:?}"),
    }
    if let Verdict::Chosen { chosen, rmw, rcw } = plan.verdict() {
        assert_eq!(*chosen, price, "the verdict has the price");
        for other in [rmw, rcw] {
            assert!(!matches!(other, Alternative::Price(other) if *other < price));
        }
    }
    Some(plan.method())
}

/// Whether `wanted` is a sum of multiples of `given`.
fn follows(given: &[Vec<u8>], wanted: &[u8]) -> bool {
    let mut wanted = wanted.to_vec();
    let mut rows: Vec<Vec<u8>> = Vec::new();
    let reduce = |rows: &[Vec<u8>], row: &mut Vec<u8>| {
        for pivot in rows {
            let at = pivot.iter().position(|value| *value != 0).unwrap();
            let factor = multiply(row[at], inverse(pivot[at]));
            row.iter_mut().zip(pivot).for_each(|(value, pivot)| *value ^= multiply(factor, *pivot));
        }
    };
    for given in given {
        let mut row = given.clone();
        reduce(&rows, &mut row);
        if row.iter().any(|value| *value != 0) {
            rows.push(row);
        }
    }
    reduce(&rows, &mut wanted);
    wanted.iter().all(|value| *value == 0)
}

/// Of all sets of readable cells that determine new parity, none is smaller than the set read for
/// whole strips.
#[test]
fn no_set_of_cells_smaller_than_the_one_read_determines_parity() {
    let mut checked = 0;
    for geometry in (3..=7).flat_map(geometries).filter(|geometry| geometry.parity_strips() > 0) {
        let is_wide = geometry.drives().0 > 5;
        if geometry.shape() != shape_by_default(&geometry) {
            continue;
        }
        let mut plan = Plan::new(&geometry);
        let machine = Machine::new(geometry, StripeIndex(0));
        let healths = with_faults(&geometry, usize::from(geometry.parity_strips()), true);
        let step = if is_wide && !all() { 5 } else { 1 };
        for health in healths.iter().step_by(step) {
            let strips = machine.strips();
            for (first, end) in
                (0..strips).flat_map(|first| (first + 1..=strips).map(move |end| (first, end)))
            {
                let at = |strip: usize| ByteOffset((strip * STRIP) as u64 * UNIT);
                let range = ByteRange::from_to(at(first), at(end));
                let request = Request::Write { range };
                if plan_into(&mut plan, &geometry, StripeIndex(0), request, health).is_err() {
                    continue;
                }
                let least = least_reads(&machine, health, first..end);
                assert_eq!(plan.reads().len(), least, "{range:?} {health:?}\n{plan:#?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

fn shape_by_default(geometry: &Geometry) -> Shape {
    let plain = Shape::new(geometry.level(), geometry.drives());
    plain
        .geometry(geometry.strip(), geometry.member_size())
        .map_or(plain, |default| default.shape())
}

/// The fewest cells whose old content determines the writable ones of new P and Q.
fn least_reads(machine: &Machine, health: &Health, written: std::ops::Range<usize>) -> usize {
    let strips = machine.strips();
    let readable = |drive: usize| health.readable.contains(DriveIndex(drive as u16));
    let weights = |role: Role| -> Vec<u8> {
        let weight = |strip| if role == Role::Q { machine.weight(strip) } else { 1 };
        (0..strips).map(weight).collect()
    };
    let mut cells: Vec<Vec<u8>> = Vec::new();
    for strip in (0..strips).filter(|strip| readable(machine.data_at(*strip, 0).0)) {
        cells.push((0..strips).map(|other| u8::from(other == strip)).collect());
    }
    let parities = machine.parities();
    cells.extend(
        parities.iter().filter(|(drive, ..)| readable(*drive)).map(|(.., role)| weights(*role)),
    );
    let writable =
        parities.iter().filter(|(drive, ..)| health.writable.contains(DriveIndex(*drive as u16)));
    // The contribution of unwritten strips to new parity.
    let wanted: Vec<Vec<u8>> = writable
        .map(|(.., role)| {
            let mut weights = weights(*role);
            weights[written.clone()].fill(0);
            weights
        })
        .collect();
    let sets = (0..1_u32 << cells.len()).filter(|set| {
        let given: Vec<Vec<u8>> =
            (0..cells.len()).filter(|i| set >> i & 1 == 1).map(|i| cells[i].clone()).collect();
        wanted.iter().all(|wanted| follows(&given, wanted))
    });
    sets.map(|set| set.count_ones() as usize).min().unwrap()
}

fn write(geometry: &Geometry, start: u64, len: u64) -> Plan {
    let mut plan = Plan::new(geometry);
    let range = ByteRange::new(ByteOffset(start), ByteCount(len));
    plan_into(
        &mut plan,
        geometry,
        StripeIndex(0),
        Request::Write { range },
        &Health::optimal(geometry),
    )
    .unwrap();
    plan
}

#[test]
fn a_small_write_costs_the_write_penalty_in_the_table_of_levels() {
    for level in Level::ALL {
        let row = level.row();
        for drives in (row.min_drives.0..=row.max_drives.0).map(DriveCount) {
            let Ok(geometry) = Geometry::new(level, drives, StripSize::KIB_64, ByteCount::GIB)
            else {
                continue;
            };
            let ios = write(&geometry, 4096, 8192).cost().drive_ios();
            assert_eq!(ios, u32::from(geometry.write_penalty()), "{geometry}");
        }
    }
}

#[test]
fn a_full_stripe_is_written_without_a_read() {
    for (level, parities) in [(Level::Raid5, 1), (Level::Raid6, 2)] {
        let geometry =
            Geometry::new(level, DriveCount(8), StripSize::KIB_64, ByteCount::GIB).unwrap();
        let plan = write(&geometry, 0, (8 - parities) << 16);
        assert_eq!(
            (plan.method(), plan.cost().reads, plan.cost().writes),
            (Method::FullStripe, 0, 8)
        );
        assert_eq!(
            (plan.computes().len(), *plan.verdict()),
            (1, Verdict::Only),
            "P and Q in one pass"
        );
    }
}

#[test]
fn the_verdict_names_the_price_of_the_way_not_taken() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(8), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let price = |drive_ios: u32| Price { drive_ios, bytes: u64::from(drive_ios) * 8192 };
    let plan = write(&geometry, 0, 8192);
    let rcw = Alternative::Price(price(8));
    assert_eq!(
        *plan.verdict(),
        Verdict::Chosen { chosen: price(4), rmw: Alternative::Price(price(4)), rcw }
    );
    assert_eq!(plan.method(), Method::Rmw);
    // Six of seven strips: reading the seventh is cheaper than reading six and parity.
    let plan = write(&geometry, 0, 6 << 16);
    assert_eq!((plan.method(), plan.cost().reads, plan.cost().writes), (Method::Rcw, 1, 7));
    // P and Q: 6 I/Os; RCW of six data strips would be 5 reads and 3 writes.
    let geometry =
        Geometry::new(Level::Raid6, DriveCount(8), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let rcw = Alternative::Price(price(8));
    let plan = write(&geometry, 0, 8192);
    assert_eq!(
        *plan.verdict(),
        Verdict::Chosen { chosen: price(6), rmw: Alternative::Price(price(6)), rcw }
    );
}

#[test]
fn where_rmw_and_rcw_cost_the_same_rmw_is_taken() {
    let geometry =
        Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB).unwrap();
    let plan = write(&geometry, 0, 8192);
    assert!(
        matches!(plan.verdict(), Verdict::Chosen { rmw, rcw, .. } if rmw == rcw),
        "{:?}",
        plan.verdict()
    );
    assert_eq!(plan.method(), Method::Rmw);
}
