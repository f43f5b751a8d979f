//! The words after `/cN add vd`.

use super::Refusal;
use crate::forms::read_size;
use crate::view::{Pd, View};
use crate::words::{Word, read_places};
use controller::{CacheMode, DriveCache, ReadMode, SectorFormat, WriteMode};

/// The requested volumes.
#[derive(Default)]
pub(super) struct Wanted {
    level: Option<String>,
    pub(super) each: bool,
    /// The size of each volume; `None`: all available space.
    pub(super) sizes: Vec<Option<u64>>,
    pub(super) names: Vec<String>,
    /// A sentence for each name that was changed.
    pub(super) renamed: Vec<String>,
    pub(super) drives: Vec<String>,
    per_span: Option<u16>,
    pub(super) write_mode: Option<WriteMode>,
    pub(super) read_mode: Option<ReadMode>,
    pub(super) cache_mode: Option<CacheMode>,
    pub(super) drive_cache: Option<DriveCache>,
    pub(super) sector_format: Option<SectorFormat>,
    pub(super) strip_bytes: Option<u64>,
    pub(super) spares: Vec<String>,
    pub(super) force: bool,
}

impl Wanted {
    pub(super) fn read(view: &View, words: &[Word]) -> Result<Wanted, Refusal> {
        let mut wanted = Wanted::default();
        for word in words {
            match word.value.as_deref() {
                None => wanted.read_bare(&word.key)?,
                Some(value) => wanted.read_value(view, word, value)?,
            }
        }
        if wanted.drives.is_empty() {
            return Err(Refusal::invalid("the drives are missing: give drives=252:0-3"));
        }
        Ok(wanted)
    }

    fn read_bare(&mut self, key: &str) -> Result<(), Refusal> {
        match key {
            "each" => self.each = true,
            "force" => self.force = true,
            mode if self.read_mode_word(mode) => {}
            level => self.level = Some(read_level(level).ok_or_else(|| unknown(level))?),
        }
        Ok(())
    }

    /// A cache word of StorCLI or an older tool; returns whether it is one.
    fn read_mode_word(&mut self, word: &str) -> bool {
        match word {
            "wt" => self.write_mode = Some(WriteMode::WriteThrough),
            "wb" => self.write_mode = Some(WriteMode::WriteBack),
            "awb" | "fwb" => self.write_mode = Some(WriteMode::AlwaysWriteBack),
            "nora" => self.read_mode = Some(ReadMode::NoReadAhead),
            "ra" => self.read_mode = Some(ReadMode::ReadAhead),
            "direct" => self.cache_mode = Some(CacheMode::Direct),
            "cached" | "cache" => self.cache_mode = Some(CacheMode::Cached),
            _ => return false,
        }
        true
    }

    fn read_value(&mut self, view: &View, word: &Word, value: &str) -> Result<(), Refusal> {
        let low = word.low();
        let refuse =
            |expected: &str| Refusal::invalid(format!("{}={value} is not {expected}", word.key));
        match word.key.as_str() {
            "type" => self.level = Some(read_level(&low).ok_or_else(|| no_level(value))?),
            "size" => self.sizes = read_sizes(&low)?,
            "name" | "names" => self.read_names(value)?,
            "drives" => self.drives = drives(view, value)?,
            "spares" => self.spares = drives(view, value)?,
            "pdperarray" => {
                let count = low.parse().ok().filter(|count| *count > 0);
                self.per_span = Some(count.ok_or_else(|| refuse("a number of drives, such as 2"))?);
            }
            "strip" => {
                let kib: Option<u64> = low.trim_end_matches("kb").trim().parse().ok();
                let kib = kib.filter(|kib| (8..=1024).contains(kib) && kib.is_power_of_two());
                let kib = kib.ok_or_else(|| refuse("a number of KB from 8 to 1024"))?;
                self.strip_bytes = Some(kib << 10);
            }
            "pdcache" => {
                let cache = super::volume::drive_cache(&low);
                self.drive_cache = Some(cache.ok_or_else(|| refuse("one of on, off and default"))?);
            }
            "emulationtype" => {
                let format = super::volume::emulation_type(&low);
                self.sector_format = Some(format.ok_or_else(|| refuse("one of 0, 1 and 2"))?);
            }
            // Options of 'set' that scripts also give to 'add vd'.
            "wrcache" | "rdcache" | "rdpolicy" | "iopolicy" => {
                if !self.read_mode_word(&low) {
                    return Err(refuse("a cache mode, such as wt, wb, ra, nora, direct or cached"));
                }
            }
            other => return Err(unknown(other)),
        }
        Ok(())
    }

    fn read_names(&mut self, value: &str) -> Result<(), Refusal> {
        for given in value.split(',').map(|name| name.trim_matches(['"', '\'', ' '])) {
            let name = volume_name(given);
            if name.is_empty() || self.names.contains(&name) {
                return Err(Refusal::invalid(format!(
                    "name={value} does not give each volume a name of its own, as in \
                        name=first,second"
                )));
            }
            if name != given {
                self.renamed
                    .push(format!("'{given}' is named '{name}': names of volumes have no spaces."));
            }
            self.names.push(name);
        }
        Ok(())
    }

    /// The level of the volumes.
    pub(super) fn level(&self) -> Result<&str, Refusal> {
        let missing = || Refusal::invalid("the RAID level is missing: give r5, or type=raid5");
        let level = self.level.as_deref().ok_or_else(missing)?;
        if self.each && level != "raid0" {
            return Err(Refusal::invalid("'each' creates one RAID 0 per drive: give r0"));
        }
        if level == "raid1" && self.drives.len() > 2 {
            return Err(Refusal::invalid(
                "a mirror of more than two drives keeps a copy on each: give r10 for pairs, or run \
                    'softroc volume create NAME --level raid1 --drives DRIVE...'",
            ));
        }
        Ok(level)
    }

    /// The number of spans, for levels with spans.
    pub(super) fn spans(&self, level: &str) -> Result<Option<u16>, Refusal> {
        let has_spans = ["raid00", "raid10", "raid50", "raid60"].contains(&level);
        match self.per_span {
            None => Ok(None),
            Some(_) if !has_spans => {
                Err(Refusal::invalid("pdperarray needs a level with spans: r00, r10, r50, r60"))
            }
            Some(per_span) => {
                let drives = u16::try_from(self.drives.len()).unwrap_or(u16::MAX);
                match drives % per_span {
                    0 => Ok(Some(drives / per_span)),
                    _ => Err(Refusal::invalid(format!(
                        "{drives} drives cannot be divided into spans of {per_span}"
                    ))),
                }
            }
        }
    }
}

fn unknown(word: &str) -> Refusal {
    Refusal::invalid(format!(
        "'{word}' is not an option of 'add vd'; 'storcli64 help' lists the options"
    ))
}

fn no_level(value: &str) -> Refusal {
    let native = "not available in this grammar; run 'softroc volume create NAME --level LEVEL \
        --drives DRIVE...'";
    Refusal::invalid(format!("type={value}: {native}"))
}

/// A valid volume name: spaces become underscores.
pub(super) fn volume_name(given: &str) -> String {
    given.trim().replace(' ', "_")
}

/// `r5`, `raid5`: the level in SoftROC's notation.
pub(super) fn read_level(text: &str) -> Option<String> {
    let number = text.strip_prefix("raid").or_else(|| text.strip_prefix('r'))?;
    ["0", "1", "5", "6", "00", "10", "50", "60"].contains(&number).then(|| format!("raid{number}"))
}

/// `10gb,all`.
fn read_sizes(low: &str) -> Result<Vec<Option<u64>>, Refusal> {
    let size = |text: &str| match text {
        "all" | "remaining" | "rem" => Ok(None),
        text => {
            let bytes = read_size(text).filter(|bytes| *bytes > 0);
            bytes
                .map(Some)
                .ok_or_else(|| Refusal::invalid(format!("'{text}' is not a size, such as 10gb")))
        }
    };
    low.split(',').map(|text| size(text.trim())).collect()
}

/// The names of drives at these locations.
pub(super) fn drives(view: &View, value: &str) -> Result<Vec<String>, Refusal> {
    let wrong =
        || Refusal::invalid(format!("'{value}' does not name drives, such as 252:0-3,252:5"));
    let places = read_places(value).ok_or_else(wrong)?;
    let name = |place| {
        let pd: Pd<'_> =
            view.at(place).map_err(|why| Refusal::new(crate::codes::NOT_FOUND, why))?;
        Ok(pd.drive.name.clone())
    };
    places.into_iter().map(name).collect()
}
