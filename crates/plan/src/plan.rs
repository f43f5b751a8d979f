//! A plan: the steps that serve one request on one stripe, with their reasons and cost.

use crate::bands::{Mask, RANGE_BANDS};
use crate::request::WHOLE_STRIP;
use crate::{
    Bands, Cached, Compute, ComputeKind, Cost, Health, Method, Read, ReadPart, Request, Source,
    Step, Target, Term, Verdict, Write, WritePart,
};
use layout::{Geometry, StripeMap};
use units::{ByteCount, StripeIndex};

/// The steps that serve one request on one stripe, made by [`crate::plan_into`]. Reusable: planning
/// into it again allocates nothing.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) geometry: Geometry,
    pub(crate) stripe: StripeIndex,
    /// Locations of the stripe's cells; relocated ones at their new place.
    pub(crate) map: StripeMap,
    pub(crate) request: Request<'static>,
    pub(crate) health: Health,
    pub(crate) method: Method,
    pub(crate) verdict: Verdict,
    pub(crate) bands: Bands,
    /// Bands whose parity is kept by RMW.
    pub(crate) rmw_bands: Mask,
    /// Bands whose parity is kept by RCW, full stripes among them.
    pub(crate) rcw_bands: Mask,
    /// Bands whose lost strips are recovered first.
    pub(crate) recover_bands: Mask,
    pub(crate) reads: Vec<Read>,
    pub(crate) read_parts: Vec<ReadPart>,
    pub(crate) computes: Vec<Compute>,
    pub(crate) terms: Vec<Term>,
    pub(crate) writes: Vec<Write>,
    pub(crate) write_parts: Vec<WritePart>,
    pub(crate) scratch: Vec<ByteCount>,
    /// The cached data.
    pub(crate) cached: Vec<Cached>,
    /// While planning: location of the old bytes of band `b` of strip `i` at `bands * i + b`; P and
    /// Q follow the data.
    pub(crate) old: Vec<Source>,
    /// While planning a write: locations of new P and Q of each band.
    pub(crate) new_parity: Vec<[Source; 2]>,
}

impl Plan {
    /// A plan without steps. Its capacity suffices for any request for one range on this geometry;
    /// several extents may enlarge it.
    pub fn new(geometry: &Geometry) -> Plan {
        let cells = usize::from(geometry.cells_per_stripe());
        let strips = usize::from(geometry.data_strips() + geometry.parity_strips());
        Plan {
            geometry: *geometry,
            stripe: StripeIndex(0),
            map: geometry.stripe_map(StripeIndex(0)),
            request: Request::Resync { columns: WHOLE_STRIP },
            health: Health::optimal(geometry),
            method: Method::Nothing,
            verdict: Verdict::Only,
            bands: Bands::new(),
            rmw_bands: 0,
            rcw_bands: 0,
            recover_bands: 0,
            reads: Vec::with_capacity(2 * cells),
            read_parts: Vec::with_capacity(3 * cells),
            computes: Vec::with_capacity(4.max(strips)),
            terms: Vec::with_capacity(cells.max(7 * strips)),
            writes: Vec::with_capacity(2 * cells),
            write_parts: Vec::with_capacity(3 * cells),
            scratch: Vec::with_capacity(4),
            cached: Vec::new(),
            old: Vec::with_capacity(RANGE_BANDS * strips),
            new_parity: Vec::with_capacity(RANGE_BANDS),
        }
    }

    /// The most steps of a plan for one range on this geometry: two per cell of the stripe (old
    /// bytes read, new bytes written) and four; with two parity strips, six. Each further extent
    /// may add two bands, with two steps per cell and two computations. A stripe has one cell per
    /// drive; only RAID 1E has more.
    ///
    /// The four are the commit and one computation for each of at most three bands. A recovery adds
    /// one, but then a cell is not read. In detail, with `k` data strips and `r` of P and Q on `n =
    /// k + r` drives:
    ///
    /// - With three active bands, RMW of all data strips takes `k + r` reads, as many writes, and
    ///   four: `2 n + 4`, the bound for one parity strip.
    /// - A recovery for a write reads all bands from the first to the last that need it in one run
    ///   per drive, and is one computation. So `k` reads (a parity strip for each unreadable cell),
    ///   at most one recovery and one computation per band, the commit, and `k + r` writes: `2 k +
    ///   r + 5`, which is less.
    /// - A drive has two pieces to read or write if a request over two strips ends before the
    ///   column it starts in: its two bands do not touch. Then only two data strips, and parity in
    ///   two pieces, are written: `2 + 2 r` writes, two computations (three with recovery) and the
    ///   commit. The most reads are `2 (k - 2) + 2` with RCW in both bands, `1 + r + (k - 1)` with
    ///   RMW in one and RCW in the other, and `1 + r + k` with RMW in one and recovery in the
    ///   other. The latter needs two lost strips, one of them not written, so `r = 2` and `k >= 3`.
    ///   The sum is `k + 3 r + 7`: two more than `2 n + 4` on the narrowest such array, with `k =
    ///   3`, and no more elsewhere.
    /// - A degraded read takes at most `2 k` reads (its bands need not touch), a computation per
    ///   band and the commit. Copies take a write per cell; their comparison a read per cell and a
    ///   computation per data strip.
    pub fn step_bound(geometry: &Geometry) -> usize {
        let more = if geometry.parity_strips() > 1 { 6 } else { 4 };
        2 * usize::from(geometry.cells_per_stripe()) + more
    }

    /// The layout of the plan.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The stripe of the plan.
    pub fn stripe(&self) -> StripeIndex {
        self.stripe
    }

    /// The planned request.
    pub fn request(&self) -> Request<'_> {
        match self.request {
            Request::WriteExtents { .. } => {
                Request::WriteExtents { extents: &self.bands.extents, cached: &self.cached }
            }
            request => request,
        }
    }

    /// Whether the host writes every byte of the stripe's data.
    pub fn is_whole_stripe_write(&self) -> bool {
        self.request.is_write() && self.bands.payload == self.geometry.stripe_bytes().0
    }

    /// The health of the plan.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Why this method was chosen: the alternatives and their cost.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The reads, in the order of their slots.
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// The parts of a read, in the order on the drive; their lengths add up to the read's.
    pub fn read_parts(&self, read: &Read) -> &[ReadPart] {
        &self.read_parts[read.parts.range()]
    }

    /// The computations.
    pub fn computes(&self) -> &[Compute] {
        &self.computes
    }

    /// The inputs of a computation.
    pub fn terms(&self, compute: &Compute) -> &[Term] {
        &self.terms[compute.terms.range()]
    }

    /// The writes.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The parts of a write, in the order on the drive; their lengths add up to the write's.
    pub fn write_parts(&self, write: &Write) -> &[WritePart] {
        &self.write_parts[write.parts.range()]
    }

    /// The lengths of the scratch buffers, in the order of their slots.
    pub fn scratch(&self) -> &[ByteCount] {
        &self.scratch
    }

    /// All steps in order: reads, computes, the commit, writes.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let reads = self.reads.iter().map(Step::Read);
        let computes = self.computes.iter().map(Step::Compute);
        reads.chain(computes).chain([Step::Commit]).chain(self.writes.iter().map(Step::Write))
    }

    /// The cost.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost::default();
        for read in &self.reads {
            cost.reads += 1;
            cost.bytes_read += read.len.0;
        }
        for write in &self.writes {
            cost.writes += 1;
            cost.bytes_written += write.len.0;
        }
        for compute in &self.computes {
            let mut strips = compute.terms.range().len();
            if matches!(compute.kind, ComputeKind::Update { .. }) {
                // Old parity counts as input too: in place, or as a term.
                strips += compute
                    .kind
                    .targets()
                    .filter(|into| matches!(into, Target::Read { .. }))
                    .count();
            }
            let bytes = compute.len.0 * strips as u64;
            match compute.kind {
                ComputeKind::Compare | ComputeKind::Check => cost.compare_bytes += bytes,
                _ => cost.parity_bytes += bytes,
            }
        }
        cost
    }

    /// Clears the plan for the next request; memory is kept.
    pub(crate) fn start(
        &mut self,
        geometry: &Geometry,
        stripe: StripeIndex,
        request: Request<'_>,
        health: &Health,
    ) {
        self.geometry = *geometry;
        self.stripe = stripe;
        self.map = health.map(geometry, stripe);
        self.request = request.to_keep();
        self.health = *health;
        self.method = Method::Nothing;
        self.verdict = Verdict::Only;
        (self.rmw_bands, self.rcw_bands, self.recover_bands) = (0, 0, 0);
        self.forget_steps();
        self.cached.clear();
        self.bands.clear(geometry.strip());
    }

    /// Reserves the table of old bytes. The bands are known.
    pub(crate) fn make_room_for_old(&mut self) {
        let strips = usize::from(self.geometry.data_strips() + self.geometry.parity_strips());
        let cells = self.bands.all().len() * strips;
        if self.old.len() < cells {
            self.old.resize(cells, Source::Zero);
        }
    }

    /// Drops the steps planned so far.
    pub(crate) fn forget_steps(&mut self) {
        self.reads.clear();
        self.read_parts.clear();
        self.computes.clear();
        self.terms.clear();
        self.writes.clear();
        self.write_parts.clear();
        self.scratch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CopyChoice, plan_into};
    use layout::Level;
    use units::{ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize};

    fn capacities(plan: &Plan) -> [usize; 10] {
        [
            plan.reads.capacity(),
            plan.read_parts.capacity(),
            plan.computes.capacity(),
            plan.terms.capacity(),
            plan.writes.capacity(),
            plan.write_parts.capacity(),
            plan.scratch.capacity(),
            plan.old.capacity(),
            plan.new_parity.capacity(),
            plan.bands.band.capacity(),
        ]
    }

    /// Healths that need computations: nothing lost, one drive, two, one of them only unreadable.
    fn healths(geometry: &Geometry) -> Vec<Health> {
        let optimal = Health::optimal(geometry);
        let last = DriveIndex(geometry.drives().0 - 1);
        let middle = DriveIndex(geometry.drives().0 / 2);
        let one = optimal.without(DriveIndex(0));
        let two = optimal.unreadable(DriveIndex(0)).unreadable(last);
        vec![optimal, one, one.without(last), two, one.unreadable(middle), optimal.untrusted()]
    }

    #[test]
    fn planning_never_needs_more_memory_than_a_new_plan_has() {
        let counts = [1, 2, 3, 4, 5, 7, 16, 32];
        for (level, drives) in
            Level::ALL.into_iter().flat_map(|l| counts.map(|n| (l, DriveCount(n))))
        {
            let Ok(geometry) = Geometry::new(level, drives, StripSize::MIN, ByteCount::MIB) else {
                continue;
            };
            let mut plan = Plan::new(&geometry);
            let before = capacities(&plan);
            // Starts and ends near the edges of strips, in every order of their columns.
            let strip = StripSize::MIN.bytes().0;
            let near = |i: u64| [i * strip, i * strip + 1024, i * strip + 3072];
            let strips = geometry.stripe_bytes().0 / strip;
            let few = [0, 1, 2, strips / 2, strips.saturating_sub(2), strips.saturating_sub(1)];
            let mut points: Vec<u64> =
                few.into_iter().flat_map(near).chain([strips * strip]).collect();
            points.sort_unstable();
            points.dedup();
            points.retain(|point| *point <= strips * strip);
            for health in healths(&geometry) {
                let mut plan_it = |request| {
                    // With too many losses some requests are refused, which is planned as well.
                    let _ = plan_into(&mut plan, &geometry, StripeIndex(1), request, &health);
                    let steps = plan.steps().count();
                    assert!(steps <= Plan::step_bound(&geometry), "{steps} steps: {plan:#?}");
                    assert_eq!(capacities(&plan), before, "{geometry}: {request:?}");
                };
                for (i, start) in points.iter().enumerate() {
                    for end in &points[i + 1..] {
                        let range = ByteRange::from_to(ByteOffset(*start), ByteOffset(*end));
                        plan_it(Request::Read { range, prefer: CopyChoice::FIRST, split: true });
                        plan_it(Request::Write { range });
                    }
                }
                let columns = WHOLE_STRIP;
                plan_it(Request::Resync { columns });
                plan_it(Request::Verify { columns });
                plan_it(Request::Copy { drive: DriveIndex(0), columns });
            }
        }
    }
}
