//! What a prediction is about: a controller, its drives, and the volume on them; and what of that cannot be.

use crate::error::{Error, Result};
use layout::{Level, Shape};
use models::{Catalog, ControllerSpec, DriveLink, DriveSpec};
use units::{ByteCount, DriveCount, StripSize};

/// The smallest cache: a few whole stripes of any array.
const LEAST_CACHE: ByteCount = ByteCount(64 << 20);

/// A server's storage, checked.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called in results.
    pub name: String,
    /// Its controller, as it is set.
    pub controller: ControllerSpec,
    /// Its drives, by slot.
    pub drives: Vec<DriveSpec>,
    /// The level and its choices.
    pub shape: Shape,
    /// The strip.
    pub strip: StripSize,
    /// The drives' own caches; `None`: as each drive is by itself.
    pub drive_cache: Option<bool>,
    /// How much SoftROC's own cache may have of the volume, in memory that nothing takes away; `None`: writes are answered
    /// when they are on the drives.
    pub write_back: Option<ByteCount>,
    /// What becomes of stripes that a crash interrupts.
    pub write_hole: WriteHole,
}

/// What becomes of a stripe that a crash interrupts.
#[derive(Clone, PartialEq, Debug)]
pub enum WriteHole {
    /// It is resynced: nothing is written for that before.
    Resync,
    /// SoftROC's journal has it.
    Journal {
        /// The drives that the journal is on, outside of the array: each has the same. On none it is on the drives of the array.
        log: Vec<DriveSpec>,
    },
}

impl WriteHole {
    /// In a few words, if there is a journal.
    pub fn journal(&self) -> Option<String> {
        match self {
            WriteHole::Resync => None,
            WriteHole::Journal { log } if log.is_empty() => Some("journal on its drives".to_owned()),
            WriteHole::Journal { log } => Some(format!("journal on {}", counted(log))),
        }
    }

    /// The drives of the log.
    pub fn log(&self) -> &[DriveSpec] {
        match self {
            WriteHole::Resync => &[],
            WriteHole::Journal { log } => log,
        }
    }
}

/// What is asked of a controller's settings. What cannot be set is refused in a sentence that names the setting as the
/// command line does: `--write-mode`.
#[derive(Clone, Default, Debug)]
pub struct Policies {
    /// A preset.
    pub preset: Option<String>,
    /// The write mode of the controller's cache.
    pub write_mode: Option<String>,
    /// Whether the controller reads ahead: `read-ahead` or `no-read-ahead`.
    pub read_mode: Option<String>,
    /// The cache mode of the controller's cache.
    pub cache_mode: Option<String>,
    /// The drives' own caches.
    pub drive_cache: Option<bool>,
    /// The size of SoftROC's own cache, if that is to answer writes.
    pub write_back: Option<ByteCount>,
    /// Whether SoftROC's journal has what it writes of stripes.
    pub journal: bool,
    /// The drives that the journal is on, if not on those of the array.
    pub log: Vec<DriveSpec>,
}

impl Policies {
    /// The modes that are asked for, each with the option that asks for it.
    fn modes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let modes = [
            ("--write-mode", &self.write_mode),
            ("--read-mode", &self.read_mode),
            ("--cache-mode", &self.cache_mode),
        ];
        modes.into_iter().filter_map(|(option, mode)| Some((option, mode.as_deref()?)))
    }
}

/// Reads `8xSAS-6G-HDD`, or several joined by `+`.
///
/// # Errors
/// When the catalog does not have such a drive, or there are none or too many of it.
pub fn parse_drives(catalog: &Catalog, text: &str) -> Result<Vec<DriveSpec>> {
    let mut drives = Vec::new();
    for part in text.split('+') {
        let counted =
            part.split_once('x').and_then(|(count, name)| Some((count.parse::<usize>().ok()?, name)));
        let (count, name) = counted.unwrap_or((1, part));
        if count == 0 || count > units::MAX_DRIVES {
            return Err(Error::refused(format!(
                "'{part}' names {count} drives; expected 1 to {}, such as 8xSAS-6G-HDD",
                units::MAX_DRIVES
            )));
        }
        let drive = catalog.drive(name).map_err(Error::refused)?;
        drives.extend(std::iter::repeat_n(drive.clone(), count));
    }
    Ok(drives)
}

/// A controller's short name.
fn short(controller: &ControllerSpec) -> &str {
    controller.aliases.first().unwrap_or(&controller.model)
}

impl Configuration {
    /// A volume on drives behind a controller.
    ///
    /// # Errors
    /// What the controller cannot do: it is named, with what it can.
    pub fn new(
        controller: &ControllerSpec,
        drives: Vec<DriveSpec>,
        shape: Shape,
        strip: Option<StripSize>,
        policies: &Policies,
    ) -> Result<Configuration> {
        let name = short(controller).to_owned();
        let level = shape.level.name();
        let offered = |level: Level| controller.levels.iter().any(|known| *known == level.name());
        if !offered(shape.level) {
            return Err(Error::refused(format!(
                "{name} has no {level}; it offers {}",
                controller.levels.join(", ")
            )));
        }
        if drives.len() as u64 > controller.most_drives {
            return Err(Error::refused(format!(
                "{name} takes at most {} drives, not {}; name fewer, or another controller",
                controller.most_drives,
                drives.len()
            )));
        }
        fits(controller, &name, &drives)?;
        let strip = match shape.level {
            // A drive as it is has no strips: what a host asks for reaches it whole, as far as the engine goes.
            Level::Jbod if strip.is_none() => StripSize::MAX,
            _ => strip_of(controller, &name, strip)?,
        };
        let drive_cache = drive_cache(controller, &name, policies)?;
        let mut controller = controller.clone();
        if !reads_ahead(&controller, &name, policies)? {
            controller.reads_ahead_kib = 0;
        }
        shape.check()?;
        let kinds = counted(&drives);
        let write_hole = write_hole(shape.level, policies)?;
        let mut name = format!("{name}, {kinds}, {level}");
        if let Some(journal) = write_hole.journal() {
            name.push_str(&format!(", {journal}"));
        }
        let write_back = policies.write_back;
        if write_back.is_some_and(|size| size < LEAST_CACHE) {
            return Err(Error::refused(format!("a cache has {LEAST_CACHE} at least; give it with --cache")));
        }
        Ok(Configuration { name, controller, drives, shape, strip, drive_cache, write_back, write_hole })
    }

    /// The level on that many drives, with spans.
    ///
    /// # Errors
    /// When there are more drives than can be counted.
    pub fn shape(level: Level, drives: usize, spans: Option<u16>) -> Result<Shape> {
        let drives = DriveCount(u16::try_from(drives).map_err(Error::refused)?);
        Ok(Shape { spans, ..Shape::new(level, drives) })
    }

    /// The models of the drives, each once, of which no number was fitted to measurements: what is predicted of them is as
    /// good as their data sheets, and what was assumed besides.
    pub fn not_calibrated(&self) -> Vec<&str> {
        let mut models: Vec<&str> = Vec::new();
        for drive in self.drives.iter().chain(self.write_hole.log()).filter(|drive| !drive.is_calibrated()) {
            if !models.contains(&drive.model.as_str()) {
                models.push(&drive.model);
            }
        }
        models
    }

    /// Whether any drive has a spindle.
    pub fn rotates(&self) -> bool {
        self.drives.iter().any(DriveSpec::is_rotating)
    }
}

/// The most drives that a log is on: real ones are on two.
const MOST_LOG_DRIVES: usize = 2;

/// What the settings make of the write hole.
fn write_hole(level: Level, policies: &Policies) -> Result<WriteHole> {
    let log = policies.log.clone();
    match policies.journal {
        false if log.is_empty() => Ok(WriteHole::Resync),
        false => Err(Error::refused(
            "--log says where a journal is, and there is none; add --write-hole journal, or leave --log out",
        )),
        true if !level.has_parity() => Err(Error::refused(format!(
            "{level} has no parity, and needs no journal; leave --write-hole out, or choose a level such as raid5"
        ))),
        true if log.len() > MOST_LOG_DRIVES => Err(Error::refused(format!(
            "a log is on one drive or on two, not on {}; name fewer with --log",
            log.len()
        ))),
        true => Ok(WriteHole::Journal { log }),
    }
}

/// Whether every drive can be plugged into the controller's ports.
fn fits(controller: &ControllerSpec, name: &str, drives: &[DriveSpec]) -> Result<()> {
    let Some(port) = controller.drive_link else { return Ok(()) };
    let Some(drive) = drives.iter().find(|drive| drive.link.negotiated(port).is_none()) else {
        return Ok(());
    };
    let (kind, advice) = match drive.link {
        DriveLink::Sas { .. } => ("a SAS", "choose SATA drives, or a controller with SAS ports"),
        DriveLink::Sata { .. } => ("a SATA", "choose another drive, or a controller with SAS or SATA ports"),
        DriveLink::Pcie { .. } => {
            ("an NVMe", "measure it by itself with --controller direct, or choose other drives")
        }
    };
    Err(Error::refused(format!("{} is {kind} drive, and {name} has {port} ports; {advice}", drive.model)))
}

fn counted(drives: &[DriveSpec]) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for drive in drives {
        let name = drive.aliases.first().unwrap_or(&drive.model);
        match kinds.last_mut() {
            Some((last, count)) if *last == name.as_str() => *count += 1,
            _ => kinds.push((name, 1)),
        }
    }
    kinds.iter().map(|(name, count)| format!("{count}x{name}")).collect::<Vec<_>>().join("+")
}

fn strip_of(controller: &ControllerSpec, name: &str, strip: Option<StripSize>) -> Result<StripSize> {
    let offered = || {
        let strips: Vec<String> = controller.strips_kib.iter().map(|kib| format!("{kib}K")).collect();
        strips.join(", ")
    };
    match strip {
        Some(strip) if controller.strips_kib.iter().any(|kib| kib * 1024 == strip.bytes().0) => Ok(strip),
        Some(strip) => Err(Error::refused(format!(
            "{name} offers no strip of {}; it offers {}",
            strip.bytes(),
            offered()
        ))),
        None => {
            let kib = controller.strips_kib.first().copied().unwrap_or(64);
            StripSize::new(ByteCount(kib * 1024)).map_err(Error::refused)
        }
    }
}

/// Whether the controller reads ahead: if it can, unless told otherwise, as both presets have it.
fn reads_ahead(controller: &ControllerSpec, name: &str, policies: &Policies) -> Result<bool> {
    let mut reads_ahead = controller.reads_ahead_kib > 0;
    for (option, mode) in policies.modes() {
        reads_ahead = match (option, mode) {
            ("--read-mode", "read-ahead") if controller.reads_ahead_kib > 0 => true,
            ("--read-mode", "no-read-ahead") if controller.reads_ahead_kib > 0 => false,
            ("--read-mode", other) if controller.reads_ahead_kib > 0 => {
                return Err(Error::refused(format!(
                    "there is no read mode '{other}'; expected read-ahead or no-read-ahead"
                )));
            }
            _ => {
                return Err(Error::refused(format!(
                    "{option} {mode}: {name} has no cache to set; leave it out, or choose a controller with a cache"
                )));
            }
        };
    }
    Ok(reads_ahead)
}

/// What the settings make of the drives' caches.
fn drive_cache(controller: &ControllerSpec, name: &str, policies: &Policies) -> Result<Option<bool>> {
    if controller.cache_mib > 0 {
        return Err(Error::refused(format!(
            "{name} has a cache of {} MiB, and the cache of controllers is not modelled yet; choose one without",
            controller.cache_mib
        )));
    }
    let preset = match policies.preset.as_deref() {
        None => None,
        Some("data-protection") => Some(false),
        Some("performance") => Some(true),
        Some("fast-path") => {
            return Err(Error::refused(format!(
                "{name} has no preset fast-path, which is for controllers with a cache; choose performance or data-protection"
            )));
        }
        Some(other) => {
            return Err(Error::refused(format!(
                "there is no preset '{other}'; expected data-protection, performance or fast-path"
            )));
        }
    };
    match (preset, policies.drive_cache) {
        (Some(preset), Some(asked)) if preset != asked => {
            Err(Error::refused("the preset and --drive-cache contradict each other; leave one of them out"))
        }
        (preset, asked) => Ok(asked.or(preset)),
    }
}
