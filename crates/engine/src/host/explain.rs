//! The [row](crate::host::way) of a request for `explain`: on an idle volume, with nothing dirty.

use crate::host::way::{self, Facts, Kind, Redundancy, Spread, Way};
use plan::RequestKind;
use units::{ByteOffset, ByteRange, DriveSet, SectorSize};
use volume_state::{RegionIndex, Regions, VolumeState};

/// What `explain` knows of a volume.
pub struct Explained<'a> {
    /// The layout.
    pub regions: &'a Regions,
    /// The recorded state.
    pub state: &'a VolumeState,
    /// Drives assumed failed in addition.
    pub without: &'a DriveSet,
    /// The sector size.
    pub sector: SectorSize,
    /// The cache may acknowledge writes.
    pub is_write_back: bool,
    /// Reads fill the read cache.
    pub caches_reads: bool,
    /// Writes are recorded in a journal.
    pub has_journal: bool,
}

impl Explained<'_> {
    /// How a host's request reaches the drives, and why: a sentence. `by_mapping`: its plans only
    /// read or write its data. `None`: it is no host's request.
    pub fn way(&self, kind: RequestKind, range: ByteRange, by_mapping: bool) -> Option<String> {
        let kind = match kind {
            RequestKind::Read => Kind::Read,
            RequestKind::Write => Kind::Write,
            RequestKind::WriteZeroes => Kind::WriteZeroes,
            RequestKind::Resync | RequestKind::Verify => return None,
        };
        let row = way::classify(kind, &Asked { volume: self, range });
        let how = match row.way {
            Way::Nothing => "without any operation",
            Way::Sectors => "by reading the whole sectors around the bytes",
            Way::Direct => "directly: one operation for each contiguous range of a drive",
            Way::Copies => "directly: the same bytes to every copy",
            Way::Stripe => "as one stripe operation by its plan, without a task",
            Way::Stripes => "by stripes, each with its plan",
        };
        Some(match row.way {
            Way::Direct if !by_mapping => format!(
                "by stripes, each with its plan ({} that mapping alone does not serve).",
                row.request
            ),
            _ => format!("{how} ({}: {}).", row.request, row.facts),
        })
    }
}

/// The facts of a request.
struct Asked<'a> {
    volume: &'a Explained<'a>,
    range: ByteRange,
}

impl Facts for Asked<'_> {
    fn spread(&self) -> Spread {
        Spread::of(self.volume.regions.geometry(), self.range)
    }

    fn redundancy(&self) -> Redundancy {
        Redundancy::of(self.volume.regions.geometry())
    }

    fn is_aligned(&self) -> bool {
        self.range.is_aligned(self.volume.sector.bytes())
    }

    fn is_write_back(&self) -> bool {
        self.volume.is_write_back
    }

    fn may_be_dirty(&self) -> bool {
        false
    }

    fn is_for_read_cache(&self) -> bool {
        self.volume.caches_reads
    }

    fn is_well(&self) -> bool {
        let Explained { regions, state, without, .. } = self.volume;
        if self.redundancy() == Redundancy::None {
            return state.is_optimal() && without.is_empty();
        }
        let region_at = |at| regions.region_of(regions.geometry().stripe_of(at).0).0;
        let last = ByteOffset(self.range.end().0.max(self.range.start.0 + 1) - 1);
        let is_well = |region| {
            state.is_well_in(region, || regions.place_of(region))
                && state.is_region_initialised(region)
        };
        without.is_empty()
            && (region_at(self.range.start)..=region_at(last)).map(RegionIndex).all(is_well)
    }

    fn may_go_to_copies(&self) -> bool {
        self.spread() == Spread::Strip && self.is_well()
    }

    fn may_be_operation(&self) -> bool {
        let geometry = self.volume.regions.geometry();
        let (_, at) = geometry.stripe_of(self.range.start);
        let is_inside = at.0 > 0 && at + self.range.len < geometry.stripe_bytes();
        is_inside && !self.volume.has_journal && self.is_well()
    }

    fn is_shown(&self) -> bool {
        true
    }
}
