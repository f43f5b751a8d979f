//! Presents a volume in several sections as one drive: RAID 0 over drives of different sizes,
//! linear, the last rows of striped mirrors, an interrupted reshape.
//!
//! Sections are striped or mirrored; if one copy cannot be read, the next is read. A section with
//! parity is one drive, which an engine computes ([`crate::computed`]). Each read copies data once:
//! such volumes are rare, and are meant to be copied off.

use layout::{CopyIndex, DataIndex, Geometry, Level, Shape};
use platform::{
    BlockStatus, Buf, Completion, Drive, DriveHealth, DriveIdentity, DriveInfo, DriveKind,
    DriveSource, Env, IoError, IoErrorKind, IoOutcome, IoRequest, Member, Result, StatusExtent,
};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, SectorSize, StripSize, StripeIndex};

/// The members of a section, in slot order; `None` for those that are missing or stale.
pub(crate) type Members = Vec<Option<Arc<dyn DriveSource>>>;

/// A section: its layout, its range of volume bytes, and its members.
pub(crate) type Part = (Geometry, ByteRange, Members);

/// Consecutive sections. Zeros fill the last strip.
pub(crate) struct Sections {
    parts: Vec<Part>,
    info: DriveInfo,
}

impl Sections {
    pub(crate) fn new(name: &str, parts: Vec<Part>) -> Sections {
        let size = ByteCount(parts.iter().map(|(_, within, _)| within.len.0).sum());
        let sectors = parts.iter().flat_map(|(.., members)| members.iter().flatten());
        let sector =
            sectors.map(|source| source.info().logical_sector).max().unwrap_or(SectorSize::B512);
        let info = read_only_drive(name, size.align_up(StripSize::MIN.bytes()), sector);
        Sections { parts, info }
    }

    /// The layout of a volume with this drive as its only member.
    pub(crate) fn geometry(&self) -> std::result::Result<Geometry, String> {
        one_drive(self.info.size)
    }
}

/// A readable drive that consists of one or several arrays.
pub(crate) fn read_only_drive(name: &str, size: ByteCount, sector: SectorSize) -> DriveInfo {
    DriveInfo {
        name: name.into(),
        identity: DriveIdentity(format!("array:{name}")),
        kind: DriveKind::Volume,
        size,
        logical_sector: sector,
        physical_sector: sector,
        rotational: false,
        read_only: true,
        exclusive: false,
        hardware: platform::Hardware::default(),
    }
}

/// The layout of a single drive of that size.
pub(crate) fn one_drive(size: ByteCount) -> std::result::Result<Geometry, String> {
    let shape = Shape::new(Level::Jbod, DriveCount(1));
    let shift = size.0.trailing_zeros().min(StripSize::MAX.shift());
    let strip = StripSize::new(ByteCount(1 << shift)).map_err(|error| error.to_string())?;
    shape.geometry(strip, size).map_err(|error| error.context)
}

impl DriveSource for Sections {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        let mut parts = Vec::new();
        for (geometry, within, sources) in &self.parts {
            let mut members = Vec::new();
            for source in sources {
                let attached = source.as_ref().map(|source| source.attach(env)).transpose()?;
                members.push(attached.map(|drive| Member::new(env, drive)));
            }
            parts.push(Piece { geometry: *geometry, within: *within, members });
        }
        Ok(Rc::new(Attached { env: env.clone(), parts: Rc::new(parts), info: self.info.clone() }))
    }
}

struct Piece {
    geometry: Geometry,
    within: ByteRange,
    members: Vec<Option<Member>>,
}

struct Attached {
    env: Env,
    parts: Rc<Vec<Piece>>,
    info: DriveInfo,
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let failed = |kind| IoOutcome::failed(IoError::new(kind));
        let outcome = match request {
            IoRequest::Read { offset, mut buffers } => {
                let (parts, sector) = (self.parts.clone(), self.info.logical_sector.bytes());
                self.env.spawn("read sections", async move {
                    let mut at = offset;
                    let mut result = Ok(());
                    for buf in &mut buffers {
                        if result.is_ok() {
                            result = fill(&parts, sector, at, buf.bytes_mut()).await;
                        }
                        at += buf.len();
                    }
                    let outcome = match result {
                        Ok(()) => IoOutcome::done((at - offset).0),
                        Err(error) => IoOutcome::failed(error),
                    };
                    completion.complete(outcome.with_buffers(buffers));
                });
                return;
            }
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } | IoRequest::Trim { .. } => {
                failed(IoErrorKind::ReadOnly)
            }
            IoRequest::Flush => IoOutcome::done(0),
            IoRequest::Status { range } => {
                let extents = vec![StatusExtent { len: range.len, status: BlockStatus::Data }];
                IoOutcome { extents, ..IoOutcome::done(range.len.0) }
            }
            IoRequest::Health => IoOutcome::with_health(DriveHealth::default()),
            IoRequest::Locate { .. } | IoRequest::WriteCache { .. } => {
                failed(IoErrorKind::NotSupported)
            }
        };
        completion.complete(outcome);
    }
}

/// Fills `target` with the volume's bytes from `at`.
async fn fill(
    parts: &[Piece],
    sector: ByteCount,
    mut at: ByteOffset,
    mut target: &mut [u8],
) -> std::result::Result<(), IoError> {
    while !target.is_empty() {
        let mut before = 0;
        let here = parts.iter().find(|part| {
            let is_here = at.0 - before < part.within.len.0;
            before += if is_here { 0 } else { part.within.len.0 };
            is_here
        });
        let Some(part) = here else {
            target.fill(0);
            return Ok(());
        };
        let inside = ByteOffset(part.within.start.0 + at.0 - before);
        let left = part.within.end().0 - inside.0;
        let (stripe, within) = part.geometry.stripe_of(inside);
        let (index, within) = part.geometry.strip_of(within);
        let to_strip_end = part.geometry.strip().bytes().0 - within.0;
        let len = left.min(to_strip_end).min(target.len() as u64) as usize;
        let (now, later) = target.split_at_mut(len);
        if any_copy(part, stripe, (index, within), now).await.is_err() {
            // Copies with different bad blocks have all data together.
            let mut within = within;
            for piece in now.chunks_mut(sector.as_usize()) {
                any_copy(part, stripe, (index, within), piece).await?;
                within = ByteCount(within.0 + piece.len() as u64);
            }
        }
        at += ByteCount(len as u64);
        target = later;
    }
    Ok(())
}

/// Reads a part of a strip from its first readable copy.
async fn any_copy(
    part: &Piece,
    stripe: StripeIndex,
    (index, within): (DataIndex, ByteCount),
    target: &mut [u8],
) -> std::result::Result<(), IoError> {
    let mut result = Err(IoError::new(IoErrorKind::Gone));
    for copy in 0..part.geometry.copies() {
        let cell = part.geometry.data_cell(stripe, index, CopyIndex(copy));
        let Some(Some(member)) = part.members.get(cell.drive.as_usize()) else { continue };
        result = read(member, cell.offset + within, target).await;
        if result.is_ok() {
            break;
        }
    }
    result
}

async fn read(
    member: &Member,
    at: ByteOffset,
    target: &mut [u8],
) -> std::result::Result<(), IoError> {
    let buf = Buf::unpooled(ByteCount::of(target));
    let outcome = member.read(at, [buf].into_iter().collect()).await;
    outcome.result?;
    let mut rest = target;
    for buf in &outcome.buffers {
        let (now, later) = rest.split_at_mut(buf.bytes().len().min(rest.len()));
        now.copy_from_slice(&buf.bytes()[..now.len()]);
        rest = later;
    }
    if rest.is_empty() { Ok(()) } else { Err(IoError::new(IoErrorKind::Medium)) }
}
