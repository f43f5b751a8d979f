//! `/cN add vd ...`.

use super::{Refusal, ask, outcome};
use crate::Machine;
use crate::answer::Answer;
use crate::forms::read_size;
use crate::view::{Pd, View};
use crate::words::{Word, read_places};
use controller::{
    AddSpare, CacheMode, Command, CreateVolume, DriveCache, ReadMode, Reply, SectorFormat, WriteMode,
};

/// What is to be created.
#[derive(Default)]
struct Wanted {
    level: Option<String>,
    each: bool,
    sizes: Vec<Option<u64>>,
    name: Option<String>,
    drives: Vec<String>,
    per_span: Option<u16>,
    write_mode: Option<WriteMode>,
    read_mode: Option<ReadMode>,
    cache_mode: Option<CacheMode>,
    drive_cache: Option<DriveCache>,
    sector_format: Option<SectorFormat>,
    strip_bytes: Option<u64>,
    spares: Vec<String>,
    force: bool,
}

/// `/cN add vd rN|type=raidN|each r0 drives=... [...]`.
pub(super) fn answer(view: &View, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let done = read(view, words).and_then(|wanted| create(view, &wanted, machine));
    outcome("-", "Add VD", done)
}

fn read(view: &View, words: &[Word]) -> Result<Wanted, Refusal> {
    let mut wanted = Wanted::default();
    for word in words {
        match word.value.as_deref() {
            None => read_bare(&mut wanted, &word.key)?,
            Some(value) => read_value(view, &mut wanted, word, value)?,
        }
    }
    if wanted.drives.is_empty() {
        return Err(Refusal::invalid("drives are missing: give drives=252:0-3"));
    }
    Ok(wanted)
}

fn read_bare(wanted: &mut Wanted, key: &str) -> Result<(), Refusal> {
    match key {
        "each" => wanted.each = true,
        "force" => wanted.force = true,
        "wt" => wanted.write_mode = Some(WriteMode::WriteThrough),
        "wb" => wanted.write_mode = Some(WriteMode::WriteBack),
        "awb" => wanted.write_mode = Some(WriteMode::AlwaysWriteBack),
        "nora" => wanted.read_mode = Some(ReadMode::NoReadAhead),
        "ra" => wanted.read_mode = Some(ReadMode::ReadAhead),
        "direct" => wanted.cache_mode = Some(CacheMode::Direct),
        "cached" => wanted.cache_mode = Some(CacheMode::Cached),
        level => wanted.level = Some(read_level(level).ok_or_else(|| unknown(level))?),
    }
    Ok(())
}

fn unknown(word: &str) -> Refusal {
    Refusal::invalid(format!("'{word}' is no word of 'add vd' here; 'storcli64 help' lists those there are"))
}

/// `r5`, `raid5`: the level as SoftROC calls it.
fn read_level(text: &str) -> Option<String> {
    let number = text.strip_prefix("raid").or_else(|| text.strip_prefix('r'))?;
    ["0", "1", "5", "6", "00", "10", "50", "60"].contains(&number).then(|| format!("raid{number}"))
}

fn read_value(view: &View, wanted: &mut Wanted, word: &Word, value: &str) -> Result<(), Refusal> {
    let low = word.low();
    match word.key.as_str() {
        "type" => {
            let native =
                "it has no name here; run 'softroc volume create NAME --level LEVEL --drives DRIVE...'";
            let level =
                read_level(&low).ok_or_else(|| Refusal::invalid(format!("type={value}: {native}")))?;
            wanted.level = Some(level);
        }
        "size" => {
            let size = |text: &str| match text {
                "all" | "remaining" | "rem" => Ok(None),
                text => {
                    let bytes = read_size(text).filter(|bytes| *bytes > 0);
                    bytes
                        .map(Some)
                        .ok_or_else(|| Refusal::invalid(format!("'{text}' is not a size, such as 10gb")))
                }
            };
            wanted.sizes = low.split(',').map(|text| size(text.trim())).collect::<Result<_, _>>()?;
        }
        "name" => wanted.name = Some(value.to_owned()),
        "drives" => wanted.drives = drives(view, value)?,
        "spares" => wanted.spares = drives(view, value)?,
        "pdperarray" => {
            let count = low.parse().ok().filter(|count| *count > 0);
            let wrong = || Refusal::invalid(format!("pdperarray={value} is not a number of drives"));
            wanted.per_span = Some(count.ok_or_else(wrong)?);
        }
        "strip" => {
            let kib: Option<u64> = low.trim_end_matches("kb").trim().parse().ok();
            let wrong = || Refusal::invalid(format!("strip={value} is not a number of KB from 8 to 1024"));
            let kib = kib.filter(|kib| (8..=1024).contains(kib) && kib.is_power_of_two());
            wanted.strip_bytes = Some(kib.ok_or_else(wrong)? << 10);
        }
        "pdcache" => {
            let wrong = || Refusal::invalid(format!("pdcache={value} is none of on, off and default"));
            wanted.drive_cache = Some(super::volume::drive_cache(&low).ok_or_else(wrong)?);
        }
        "emulationtype" => {
            let wrong = || Refusal::invalid(format!("emulationtype={value} is none of 0, 1 and 2"));
            wanted.sector_format = Some(super::volume::emulation_type(&low).ok_or_else(wrong)?);
        }
        other => return Err(unknown(other)),
    }
    Ok(())
}

/// The names of drives by their places.
pub(super) fn drives(view: &View, value: &str) -> Result<Vec<String>, Refusal> {
    let wrong = || Refusal::invalid(format!("'{value}' does not name drives, such as 252:0-3,252:5"));
    let places = read_places(value).ok_or_else(wrong)?;
    let name = |place| {
        let pd: Pd<'_> = view.at(place).map_err(|why| Refusal::new(crate::codes::NOT_FOUND, why))?;
        Ok(pd.drive.name.clone())
    };
    places.into_iter().map(name).collect()
}

fn create(view: &View, wanted: &Wanted, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let level = wanted
        .level
        .as_deref()
        .ok_or_else(|| Refusal::invalid("the RAID level is missing: give r5, or type=raid5"))?;
    if wanted.each && level != "raid0" {
        return Err(Refusal::invalid("'each' makes one RAID 0 of each drive: give r0"));
    }
    if level == "raid1" && wanted.drives.len() > 2 {
        return Err(Refusal::invalid(
            "a mirror of more than two drives keeps a copy on each: give r10 for pairs, or run 'softroc volume create NAME --level raid1 --drives DRIVE...'",
        ));
    }
    let spans = spans(wanted, level)?;
    let sets: Vec<Vec<String>> = match wanted.each {
        true => wanted.drives.iter().map(|drive| vec![drive.clone()]).collect(),
        false => vec![wanted.drives.clone()],
    };
    let sizes = if wanted.sizes.is_empty() { &[None][..] } else { &wanted.sizes };
    let several = sets.len() * sizes.len() > 1;
    let mut names = Names::of(view);
    for drives in &sets {
        for size in sizes {
            let name = names.next(wanted.name.as_deref(), several);
            let command = CreateVolume {
                name: name.clone(),
                // A RAID 0 of one drive is that drive.
                level: if drives.len() == 1 && level == "raid0" { "jbod" } else { level }.to_owned(),
                drives: drives.clone(),
                spans,
                strip_bytes: wanted.strip_bytes,
                size_bytes: *size,
                write_mode: wanted.write_mode,
                read_mode: wanted.read_mode,
                cache_mode: wanted.cache_mode,
                drive_cache: wanted.drive_cache,
                sector_format: wanted.sector_format,
                destroy_data: wanted.force,
                ..CreateVolume::default()
            };
            ask(machine, Command::VolumeCreate(command))?;
            for drive in wanted.spares.iter().filter(|_| drives == &sets[0]) {
                let spare = AddSpare {
                    drive: drive.clone(),
                    volumes: vec![name.clone()],
                    revertible: true,
                    destroy_data: wanted.force,
                    ..AddSpare::default()
                };
                let Reply::Spare { .. } = ask(machine, Command::SpareAdd(spare))? else {
                    return Err(Refusal::new(255, "the controller answered something else; look at its log"));
                };
            }
        }
    }
    Ok(())
}

/// How many spans there are, where the level has some.
fn spans(wanted: &Wanted, level: &str) -> Result<Option<u16>, Refusal> {
    let has_spans = ["raid00", "raid10", "raid50", "raid60"].contains(&level);
    match wanted.per_span {
        None => Ok(None),
        Some(_) if !has_spans => {
            Err(Refusal::invalid("pdperarray is for levels with spans: r00, r10, r50, r60"))
        }
        Some(per_span) => {
            let drives = u16::try_from(wanted.drives.len()).unwrap_or(u16::MAX);
            match drives % per_span {
                0 => Ok(Some(drives / per_span)),
                _ => Err(Refusal::invalid(format!(
                    "{drives} drives cannot be dealt out by {per_span} to each span"
                ))),
            }
        }
    }
}

/// Names for volumes: every one needs one here.
struct Names {
    taken: Vec<String>,
    next: u32,
}

impl Names {
    fn of(view: &View) -> Names {
        let taken = view.metrics.volumes.iter().map(|volume| volume.volume.name.clone()).collect();
        let next = view.volumes().iter().map(|volume| volume.number + 1).max().unwrap_or(0);
        Names { taken, next }
    }

    /// The wanted one; numbered where several volumes are made; otherwise one of our own.
    fn next(&mut self, wanted: Option<&str>, several: bool) -> String {
        if let (Some(name), false) = (wanted, several) {
            return name.to_owned();
        }
        loop {
            let name = format!("{}{}", wanted.unwrap_or("vd"), self.next);
            self.next += 1;
            if !self.taken.contains(&name) {
                return name;
            }
        }
    }
}
