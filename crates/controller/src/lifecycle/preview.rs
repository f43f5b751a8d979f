//! What a new volume would be like, by what is known of its drives: no drive is looked at, and nothing is changed. Shapes are those that
//! `volume create` makes, by the same code, and the cost of requests is that of their plans.

use crate::interface::{CreateVolume, DriveInfo, Error, ErrorKind, Result};
use crate::lifecycle::shape::{Measure, Shape, Wanted};
use layout::Geometry;
use plan::RequestKind;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, SectorSize};

/// A small request of a host.
const SMALL: ByteCount = ByteCount(4096);

/// What a new volume would be like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preview {
    /// What hosts could use.
    pub capacity_bytes: u64,
    /// The strip.
    pub strip_bytes: u64,
    /// Spans; 1 where the level has none.
    pub spans: u16,
    /// How many drives may fail, whichever they are.
    pub may_lose: u16,
    /// How many drives may fail, if they are the luckiest ones.
    pub may_lose_at_most: u16,
    /// What a write of 4 KiB costs, without the journal.
    pub small_write: DriveOperations,
    /// What a read of 4 KiB costs whose drive has failed; `None` where it cannot be read then.
    pub degraded_read: Option<DriveOperations>,
    /// What is worth knowing, a sentence each.
    pub notes: Vec<String>,
}

/// What drives are asked for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveOperations {
    /// Reads.
    pub reads: u32,
    /// Writes.
    pub writes: u32,
}

/// What `create` would make on these drives, which are all of its `drives`.
///
/// # Errors
/// As `volume create` refuses what cannot be.
pub fn preview(create: &CreateVolume, drives: &[&DriveInfo]) -> Result<Preview> {
    let wanted = Wanted::of(create, drives.len())?;
    let measures: Vec<Measure<'_>> = drives.iter().map(|drive| measure(drive)).collect::<Result<_>>()?;
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
        let sentence = format!("drive {0} cannot be opened; run 'softroc drive show {0}'", drive.name);
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

/// Of the first bytes, when the drive has failed that has them.
fn degraded_read(geometry: &Geometry) -> Option<DriveOperations> {
    let (stripe, _) = geometry.stripe_of(ByteOffset(0));
    let holder: DriveIndex = geometry.data_cell(stripe, layout::DataIndex(0), layout::CopyIndex(0)).drive;
    cost(geometry, RequestKind::Read, &DriveSet::EMPTY.with(holder)).ok()
}
