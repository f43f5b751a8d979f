//! `explain`: the plan of a request, by parameters or for the current state of a volume.

use crate::arrays::volume::Volume;
use crate::commands::Commands;
use crate::commands::explain_cache::explain_cache;
use crate::interface::{Error, ErrorKind, Explain, Reply, Result};
use layout::{Geometry, Level, Shape};
use ondisk::WriteMode;
use plan::{Health, Method, RequestKind};
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, SectorSize, StripSize,
};
use volume_state::{Regions, VolumeState};

/// The word that asks for the cache content instead of an operation.
const CACHE: &str = "cache";

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

impl Commands {
    pub(super) fn explain(&self, request: &Explain) -> Result<Reply> {
        if request.operation == CACHE {
            let name = request.volume.as_deref().ok_or_else(|| {
                invalid("the cache is explained for a volume; name it with --volume NAME")
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
        let Subject { regions, state, terms, cache } = self.subject(request, kind)?;
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
        // Evaluated per stripe: a drive under rebuild is current in some regions and stale in
        // others.
        let health =
            |stripe| failed.iter().fold(state.planned_health(&regions, stripe), Health::without);
        let journal = terms.as_ref().map(|terms| terms.told(&regions, &state, &failed));
        let journal = journal.as_ref().map(|journal| journal as &dyn plan::Journal);
        let is_initialised = |stripe| state.is_stripe_initialised(&regions, stripe);
        let explained = plan::explain_kept(geometry, kind, range, health, is_initialised, journal);
        let explanation = explained.map_err(invalid)?;
        let mut value = serde_json::to_value(&explanation).map_err(invalid)?;
        let mut text = explanation.to_string();
        let explained = engine::Explained {
            regions: &regions,
            state: &state,
            without: &failed,
            sector: cache.sector,
            is_write_back: cache.is_write_back,
            caches_reads: cache.reads,
            has_journal: terms.is_some(),
        };
        let by_mapping = explanation.stripes.iter().all(|of| of.method == Method::Direct);
        if let Some(way) = explained.way(kind, range, by_mapping) {
            let (title, plans) = text.split_once('\n').unwrap_or((&text, ""));
            text = format!("{title}\nCarried out {way}\n{plans}");
            value["way"] = way.into();
        }
        if let Some(sentence) = cache.answers {
            text = format!("{sentence}\n\n{text}");
            value["cache"] = sentence.into();
        }
        Ok(Reply::Explained { text, explanation: value })
    }

    /// The volume, or the array of the parameters, that is explained.
    fn subject(&self, request: &Explain, kind: RequestKind) -> Result<Subject> {
        Ok(match &request.volume {
            Some(volume) => {
                let (array, volume) = self.arrays.find_volume(volume)?;
                // For a reshaping volume: the layout that stores the first byte.
                let (volume, state) = self.arrays.side_of(&array, &volume, request.offset_bytes);
                let regions = Regions::of(&engine::served(&volume.geometry));
                let terms = self.arrays.journal_terms(&array, &volume);
                let cache = CacheUse {
                    answers: when_answered(&volume, kind),
                    is_write_back: mode_of(&volume) != WriteMode::WriteThrough,
                    reads: self.arrays.read_terms(&volume).cached,
                    sector: SectorSize::from_bytes(volume.label().sector_bytes).unwrap_or_default(),
                };
                Subject { regions, state, terms, cache }
            }
            None => {
                let regions = Regions::of(&parameters(request)?);
                Subject {
                    state: VolumeState::optimal(&regions),
                    regions,
                    terms: None,
                    cache: CacheUse::default(),
                }
            }
        })
    }
}

/// The layout and the state that an explanation uses.
struct Subject {
    regions: Regions,
    state: VolumeState,
    /// Its journal, if it has one.
    terms: Option<engine::JournalTerms>,
    cache: CacheUse,
}

/// What the cache of a volume does with a request.
#[derive(Default)]
struct CacheUse {
    /// See [`when_answered`].
    answers: Option<String>,
    is_write_back: bool,
    /// Reads fill it.
    reads: bool,
    sector: SectorSize,
}

fn mode_of(volume: &Volume) -> WriteMode {
    volume.mode_in_effect().map_or(WriteMode::WriteThrough, |in_effect| in_effect.mode)
}

/// When a write is acknowledged, if not at the end of its plan: a sentence.
fn when_answered(volume: &Volume, kind: RequestKind) -> Option<String> {
    let mode = mode_of(volume);
    if kind != RequestKind::Write || mode == WriteMode::WriteThrough || !volume.is_served() {
        return None;
    }
    let name = volume.name();
    if volume.cache_info().pinned_bytes > 0 {
        return Some(format!(
            "'{name}' is {}, but its cache is preserved (its drives do not take the data): this \
            write is acknowledged when the drives have it.",
            mode.name()
        ));
    }
    let what = match mode {
        WriteMode::AlwaysWriteBack | WriteMode::LoggedWriteBack => "this write, even with FUA,",
        WriteMode::WriteThrough | WriteMode::WriteBack => "this write, without FUA,",
    };
    Some(format!(
        "'{name}' is {}: {what} is acknowledged from the cache. Its destage, if no other data of \
        these stripes is dirty then:",
        mode.name()
    ))
}

fn parameters(request: &Explain) -> Result<Geometry> {
    /// The assumed size of drives if none was given: it covers every possible address.
    const MEMBER: ByteCount = ByteCount(1 << 50);
    let level =
        request.level.as_deref().ok_or_else(|| invalid("explain needs a level or a volume"))?;
    let level: Level = level.parse().map_err(invalid)?;
    let drives = request.drives.ok_or_else(|| invalid("explain needs the number of drives"))?;
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
