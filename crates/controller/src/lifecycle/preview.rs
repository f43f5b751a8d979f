//! A preview of a new volume from the known properties of its drives: no drive is read, and nothing
//! changes. The layout comes from the code of `volume create`, the cost of requests from their
//! plans.

use crate::interface::{CreateVolume, DriveInfo, Error, ErrorKind, Result};
use crate::lifecycle::shape::{Measure, Shape, Wanted};
use layout::Geometry;
use plan::RequestKind;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, SectorSize};

/// The size of a small host request.
const SMALL: ByteCount = ByteCount(4096);

/// The properties of a new volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preview {
    /// The usable capacity.
    pub capacity_bytes: u64,
    /// The strip.
    pub strip_bytes: u64,
    /// The number of spans; 1 for levels without spans.
    pub spans: u16,
    /// The number of drives that may fail in any combination.
    pub may_lose: u16,
    /// The number of drives that may fail in the best case.
    pub may_lose_at_most: u16,
    /// The cost of a 4 KiB write, without the journal.
    pub small_write: DriveOperations,
    /// The cost of a 4 KiB read from a failed drive; `None` if the data is unreadable.
    pub degraded_read: Option<DriveOperations>,
    /// Notes for the operator, a sentence each.
    pub notes: Vec<String>,
}

/// The drive operations of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveOperations {
    /// Reads.
    pub reads: u32,
    /// Writes.
    pub writes: u32,
}

/// The result of `create` on these drives, which are all of its `drives`.
///
/// # Errors
/// Those of `volume create`.
pub fn preview(create: &CreateVolume, drives: &[&DriveInfo]) -> Result<Preview> {
    let wanted = Wanted::of(create, drives.len())?;
    let measures: Vec<Measure<'_>> =
        drives.iter().map(|drive| measure(drive)).collect::<Result<_>>()?;
    let Shape { geometry, capacity, notes, .. } = Shape::on_drives(&wanted, &measures)?;
    let invalid = |why: plan::Unplannable| Error::new(ErrorKind::Invalid, why.to_string());
    let survives = geometry.survives();
    Ok(Preview {
        capacity_bytes: capacity.0,
        strip_bytes: geometry.strip().bytes().0,
        spans: geometry.spans(),
        may_lose: survives.at_least.0,
        may_lose_at_most: survives.at_most.0,
        small_write: cost(&geometry, RequestKind::Write, &DriveSet::EMPTY).map_err(invalid)?,
        degraded_read: degraded_read(&geometry),
        notes,
    })
}

fn measure(drive: &DriveInfo) -> Result<Measure<'_>> {
    let closed = || {
        let sentence =
            format!("drive {0} cannot be opened; run 'softroc drive show {0}'", drive.name);
        Error::new(ErrorKind::Unavailable, sentence)
    };
    let size = drive.size_bytes.ok_or_else(closed)?;
    let sector = drive.logical_sector_bytes.and_then(SectorSize::from_bytes).ok_or_else(closed)?;
    Ok(Measure { name: &drive.name, size: ByteCount(size), sector, rotational: drive.rotational })
}

fn cost(
    geometry: &Geometry,
    kind: RequestKind,
    failed: &DriveSet,
) -> std::result::Result<DriveOperations, plan::Unplannable> {
    let range = ByteRange::new(ByteOffset(0), SMALL);
    let cost = plan::explain(geometry, kind, range, failed)?.cost;
    Ok(DriveOperations { reads: cost.reads, writes: cost.writes })
}

/// The cost of reading the first bytes when their drive has failed.
fn degraded_read(geometry: &Geometry) -> Option<DriveOperations> {
    let (stripe, _) = geometry.stripe_of(ByteOffset(0));
    let holder: DriveIndex =
        geometry.data_cell(stripe, layout::DataIndex(0), layout::CopyIndex(0)).drive;
    cost(geometry, RequestKind::Read, &DriveSet::EMPTY.with(holder)).ok()
}
