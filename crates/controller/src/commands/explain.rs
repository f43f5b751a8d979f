//! `explain`: the plan of a request, by parameters or on a live volume in its present health.

use crate::arrays::volume::Volume;
use crate::commands::Commands;
use crate::commands::explain_cache::explain_cache;
use crate::interface::{Error, ErrorKind, Explain, Reply, Result};
use layout::{Geometry, Level, Shape};
use ondisk::WriteMode;
use plan::{Health, RequestKind};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, StripSize};
use volume_state::{Regions, VolumeState};

/// The operation that is none: what the cache has.
const CACHE: &str = "cache";

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

impl Commands {
    pub(super) fn explain(&self, request: &Explain) -> Result<Reply> {
        if request.operation == CACHE {
            let name = request.volume.as_deref().ok_or_else(|| {
                invalid("what the cache has is explained of a volume; name it with --volume NAME")
            })?;
            return Ok(explain_cache(&self.arrays.find_volume(name)?.1));
        }
        let kind: RequestKind = request.operation.parse().map_err(invalid)?;
        let range = ByteRange::new(ByteOffset(request.offset_bytes), ByteCount(request.size_bytes));
        if range.start.checked_add(range.len).is_none() {
            return Err(invalid(format!(
                "{} bytes at {} are past the end of any volume",
                range.len.0, range.start.0
            )));
        }
        let (regions, state, terms, cached) = match &request.volume {
            Some(volume) => {
                let (array, volume) = self.arrays.find_volume(volume)?;
                // On the way to another layout: by the one that the first byte lies by.
                let (volume, state) = self.arrays.side_of(&array, &volume, request.offset_bytes);
                let regions = Regions::of(&engine::served(&volume.geometry));
                let terms = self.arrays.journal_terms(&array, &volume);
                (regions, state, terms, when_answered(&volume, kind))
            }
            None => {
                let regions = Regions::of(&parameters(request)?);
                (regions, VolumeState::optimal(&regions), None, None)
            }
        };
        let geometry = regions.geometry();
        let mut failed = DriveSet::EMPTY;
        for &slot in &request.failed {
            if slot >= geometry.drives().0 {
                return Err(invalid(format!(
                    "there is no drive {slot}; the drives of this array are 0 to {}",
                    geometry.drives().0 - 1
                )));
            }
            failed.insert(DriveIndex(slot));
        }
        // Stripe by stripe: a drive that is being rebuilt is current in some regions and stale in others.
        let health = |stripe| failed.iter().fold(state.planned_health(&regions, stripe), Health::without);
        let journal = terms.as_ref().map(|terms| terms.told(&regions, &state, &failed));
        let journal = journal.as_ref().map(|journal| journal as &dyn plan::Journal);
        let is_initialised = |stripe| state.is_stripe_initialised(&regions, stripe);
        let explained = plan::explain_kept(geometry, kind, range, health, is_initialised, journal);
        let explanation = explained.map_err(invalid)?;
        let mut value = serde_json::to_value(&explanation).map_err(invalid)?;
        let mut text = explanation.to_string();
        if let Some(sentence) = cached {
            text = format!("{sentence}\n\n{text}");
            value["cache"] = sentence.into();
        }
        Ok(Reply::Explained { text, explanation: value })
    }
}

/// When a write is answered, where that is not when its plan is carried out: a sentence.
fn when_answered(volume: &Volume, kind: RequestKind) -> Option<String> {
    let mode = volume.mode_in_effect()?.mode;
    if kind != RequestKind::Write || mode == WriteMode::WriteThrough || !volume.is_served() {
        return None;
    }
    let name = volume.name();
    if volume.cache_info().pinned_bytes > 0 {
        return Some(format!(
            "'{name}' is {}, but the cache has something of it that cannot be written now: this write is answered when the drives have it.",
            mode.name()
        ));
    }
    let what = match mode {
        WriteMode::AlwaysWriteBack | WriteMode::LoggedWriteBack => "this write, with FUA too,",
        WriteMode::WriteThrough | WriteMode::WriteBack => "without FUA this write",
    };
    Some(format!(
        "'{name}' is {}: {what} is absorbed, that is, answered when the cache has it. Its destage, if nothing else of these stripes is dirty by then:",
        mode.name()
    ))
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
