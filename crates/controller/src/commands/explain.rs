//! `explain`: the plan of a request, by parameters or on a live volume in its present health.

use crate::commands::Commands;
use crate::interface::{Error, ErrorKind, Explain, Reply, Result};
use layout::{Geometry, Level, Shape};
use plan::{Health, RequestKind};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, StripSize};

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

impl Commands {
    pub(super) fn explain(&self, request: &Explain) -> Result<Reply> {
        let kind: RequestKind = request.operation.parse().map_err(invalid)?;
        let range = ByteRange::new(ByteOffset(request.offset_bytes), ByteCount(request.size_bytes));
        if range.start.checked_add(range.len).is_none() {
            return Err(invalid(format!(
                "{} bytes at {} are past the end of any volume",
                range.len.0, range.start.0
            )));
        }
        let (geometry, health) = match &request.volume {
            Some(volume) => self.live(volume, range)?,
            None => {
                let geometry = parameters(request)?;
                (geometry, Health::optimal(&geometry))
            }
        };
        let mut health = health;
        for &slot in &request.failed {
            if slot >= geometry.drives().0 {
                return Err(invalid(format!(
                    "there is no drive {slot}; the drives of this array are 0 to {}",
                    geometry.drives().0 - 1
                )));
            }
            health = health.without(DriveIndex(slot));
        }
        let explanation = plan::explain_in(&geometry, kind, range, &health).map_err(invalid)?;
        let value = serde_json::to_value(&explanation).map_err(invalid)?;
        Ok(Reply::Explained { text: explanation.to_string(), explanation: value })
    }

    /// A volume's layout, and what its drives can do in a range now.
    fn live(&self, volume: &str, range: ByteRange) -> Result<(Geometry, Health)> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        let geometry = volume.geometry;
        let out = array.out().union(&array.behind(&volume));
        let usable = DriveSet::first(geometry.drives()).minus(&out);
        let mut health = Health { readable: usable, writable: usable, ..Health::optimal(&geometry) };
        let regions = engine::Regions::of(&geometry);
        // What was forced is settled before anything is done with it.
        let distrusted = array.distrusted(&volume);
        let region = |at: ByteOffset| volume.array_region(regions.region_of(geometry.stripe_of(at).0));
        let last = ByteOffset(range.end().0.saturating_sub(1)).max(range.start);
        let regions = region(range.start)..=region(last);
        if distrusted.iter().any(|distrusted| regions.contains(distrusted)) {
            health.parity_trusted = false;
        }
        Ok((geometry, health))
    }
}

fn parameters(request: &Explain) -> Result<Geometry> {
    /// What is said of drives whose size nobody gave: large enough for any address that can be named.
    const MEMBER: ByteCount = ByteCount(1 << 50);
    let level =
        request.level.as_deref().ok_or_else(|| invalid("explain needs a level, or a volume; give one"))?;
    let level: Level = level.parse().map_err(invalid)?;
    let drives = request.drives.ok_or_else(|| invalid("explain needs the number of drives; give it"))?;
    let strip = match request.strip_bytes {
        Some(bytes) => StripSize::new(ByteCount(bytes)).map_err(invalid)?,
        None => StripSize::KIB_64,
    };
    let parity = request.rotation.as_deref().map(str::parse).transpose().map_err(invalid)?;
    let mirrors = request.mirrors.as_deref().map(str::parse).transpose().map_err(invalid)?;
    let (spans, copies) = (request.spans, request.copies);
    let shape = Shape { parity, mirrors, spans, copies, ..Shape::new(level, DriveCount(drives)) };
    shape.geometry(strip, MEMBER).map_err(invalid)
}
