//! What a plan must log, and the size of its record: arithmetic without tasks or drives. The engine
//! and `explain` use it.

use crate::attachment::{JournalOn, JournalPlace};
use layout::Geometry;
use plan::{Plan, Recorded, Request, Source};
use smallvec::SmallVec;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, SectorSize, StripeIndex};
use volume_state::{Regions, VolumeState};
use write_log::{Batch, Change, ChangeKind, Part, Ring, ring_len};

/// What the journal must record for a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// The data and redundancy that it writes.
    All,
    /// The revocation of earlier records of its stripe.
    Revoke,
    /// It cannot be logged, and a replay must not undo it: invalidate all records of its stripe
    /// first.
    Silence,
}

/// What the journal must record for a plan. `parts`: the drives with a part in its stripe; `stale`:
/// drives recorded as stale there, even if current by now; `said`: whether live records cover the
/// stripe; `promises`: whether a durable write relies on one of them.
pub(super) fn need(
    plan: &Plan,
    parts: &DriveSet,
    stale: &DriveSet,
    said: bool,
    promises: impl FnOnce() -> bool,
) -> Need {
    match plan.request() {
        request if request.is_write() => {
            let health = plan.health();
            // A drive made current in this stripe, but not yet recorded, is stale again after a
            // crash. Its content would be computed from drives of which some were written and some
            // not.
            let current = health.readable.intersection(&health.writable).minus(stale);
            let missing = parts.minus(&current);
            let whole = plan.is_whole_stripe_write() && missing.is_empty();
            let written: DriveSet = plan.writes().iter().map(|write| write.drive).collect();
            match (whole, said) {
                // The drives may lack a durable write: without its record, a power cut would lose
                // it.
                (true, true) if promises() => Need::Silence,
                (true, true) => Need::Revoke,
                (true, false) => Need::Nothing,
                (false, false) if written.count().0 < 2 => Need::Nothing,
                (false, _) => Need::All,
            }
        }
        Request::Read { .. } | Request::Verify { .. } => Need::Nothing,
        _ if plan.writes().is_empty() || !said => Need::Nothing,
        _ => Need::Silence,
    }
}

/// The changes of a record; adjacent ranges are merged.
#[derive(Default)]
pub(super) struct Changes(pub(super) SmallVec<[Change; 4]>);

impl Changes {
    pub(super) fn add(&mut self, drive: DriveIndex, kind: ChangeKind, range: ByteRange) {
        match self.0.last_mut() {
            Some(last)
                if last.slot == drive.0 && last.kind == kind && last.range.end() == range.start =>
            {
                last.range.len += range.len;
            }
            _ => self.0.push(Change { slot: drive.0, kind, range }),
        }
    }
}

/// The journal parameters of a volume.
#[derive(Clone, Debug)]
pub struct JournalTerms {
    geometry: Geometry,
    sector: SectorSize,
    pub(super) ring: ByteCount,
    /// The number of members that hold a record.
    pub(super) copies: usize,
    /// The number of log devices that hold a record, if on log devices.
    devices: Option<usize>,
    /// The most bytes that a record carries for one write.
    pub(super) most: u64,
}

impl JournalTerms {
    /// The parameters of a journal at `place`, with a ring for each shard. `None` if the volume
    /// needs no journal, or a shard's share is too small.
    pub fn new(
        geometry: &Geometry,
        sector: SectorSize,
        place: &JournalPlace,
        shards: u16,
    ) -> Option<JournalTerms> {
        if geometry.parity_strips() == 0 {
            return None;
        }
        let ring = ring_len(place.len, shards)?;
        let devices = match &place.on {
            JournalOn::Members { .. } => None,
            JournalOn::Devices { devices, .. } => Some(devices.len()),
        };
        Some(JournalTerms {
            geometry: *geometry,
            sector,
            ring,
            copies: usize::from(geometry.parity_strips()) + 1,
            devices,
            most: Ring::new(ring).most() - write_log::BLOCK.0,
        })
    }

    /// The same parameters with another number of log devices in service.
    pub(super) fn on_devices(&self, serving: usize) -> JournalTerms {
        JournalTerms { devices: self.devices.map(|_| serving), ..self.clone() }
    }

    /// Splits a write to a stripe into parts that each fit one record. `is_well`: no drive is
    /// missing.
    pub(super) fn parts(&self, within: ByteRange, is_well: bool) -> SmallVec<[ByteRange; 1]> {
        let geometry = &self.geometry;
        if within.len == geometry.stripe_bytes() && is_well {
            return SmallVec::from_iter([within]);
        }
        let strip = geometry.strip().bytes();
        let parity = u64::from(geometry.parity_strips());
        if within.len.0 + parity * within.len.0.min(strip.0) <= self.most {
            return SmallVec::from_iter([within]);
        }
        let sector = self.sector.bytes();
        let step =
            ByteCount((self.most / (1 + parity)).max(sector.0)).align_down(sector).min(strip);
        let mut parts = SmallVec::new();
        let mut at = within.start;
        while at < within.end() {
            let strip_ends = ByteOffset((at.0 / strip.0 + 1) * strip.0);
            let end = (at + step).min(strip_ends).min(within.end());
            parts.push(ByteRange::from_to(at, end));
            at = end;
        }
        parts
    }

    /// The journal of a volume for `explain`. `without`: drives assumed failed in addition.
    pub fn told<'a>(
        &'a self,
        regions: &'a Regions,
        state: &'a VolumeState,
        without: &'a DriveSet,
    ) -> impl plan::Journal + 'a {
        Told { terms: self, regions, state, without }
    }

    /// The record of a plan, if no live record covers its stripe. `parts`: the drives with a part
    /// in the stripe; `stale`: drives recorded as stale there; `usable`: the drives that can take
    /// records.
    fn recorded(
        &self,
        plan: &Plan,
        parts: &DriveSet,
        stale: &DriveSet,
        usable: &DriveSet,
    ) -> Recorded {
        if need(plan, parts, stale, false, || false) != Need::All {
            return Recorded::nothing(if !plan.request().is_write() {
                "only writes of hosts need one"
            } else if plan.is_whole_stripe_write() {
                "a full stripe needs none: after a crash it is resynced, and nobody else's data is \
                    in it"
            } else {
                "a write of one drive needs none: each of its sectors is old or new"
            });
        }
        let mut changes = Changes::default();
        for write in plan.writes() {
            let mut at = write.offset;
            for part in plan.write_parts(write) {
                let kind =
                    if part.from == Source::Zero { ChangeKind::Zeroes } else { ChangeKind::Bytes };
                changes.add(write.drive, kind, ByteRange::new(at, part.len));
                at += part.len;
            }
        }
        let bytes = changes.0.iter().filter(|change| change.kind == ChangeKind::Bytes);
        let carried = ByteCount(bytes.map(|change| change.range.len.0).sum());
        if carried.0 > self.most {
            return Recorded::nothing("what is written is longer than a record may be");
        }
        let part = Part { changes: changes.0.len(), slices: 0, carried };
        let record = Batch::of([part], self.most + write_log::BLOCK.0).len();
        let (drives, width) = (self.geometry.drives(), self.geometry.drives_per_span());
        let spans = u64::from(drives.0 / width.0.max(1));
        let able = (0..spans).map(|span| {
            let of_span = write_log::span_of(span, self.copies, drives, width);
            of_span.filter(|drive| usable.contains(*drive)).take(self.copies).count()
        });
        let flush_after = ByteCount(Ring::new(self.ring).due());
        let on_members = able.max().unwrap_or(0);
        Recorded::new(self.devices.unwrap_or(on_members) as u32, record, flush_after)
    }
}

/// See [`JournalTerms::told`].
struct Told<'a> {
    terms: &'a JournalTerms,
    regions: &'a Regions,
    state: &'a VolumeState,
    without: &'a DriveSet,
}

impl plan::Journal for Told<'_> {
    fn parts(&self, stripe: StripeIndex, within: ByteRange) -> Vec<ByteRange> {
        let region = self.regions.region_of(stripe);
        let is_well = self.state.is_well_in(region, || self.regions.place_of(region))
            && self.without.is_empty();
        self.terms.parts(within, is_well).into_vec()
    }

    fn record(&self, plan: &Plan) -> Recorded {
        let parts: DriveSet = self.state.map(self.regions, plan.stripe()).drives().collect();
        let stale = self.state.stale_in(self.regions.region_of(plan.stripe()));
        self.terms.recorded(plan, &parts, &stale, &self.state.in_service().minus(self.without))
    }
}
