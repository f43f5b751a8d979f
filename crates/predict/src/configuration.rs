//! What a prediction is about: a controller, its drives, and the volume on them; and what of that cannot be.

use crate::error::{Error, Result};
use crate::policies::{Modes, Policies};
use layout::{Level, Shape};
use models::{Catalog, ControllerSpec, DriveLink, DriveSpec, FastPath};
use units::{ByteCount, DriveCount, DriveIndex, DriveSet, StripSize};

/// The smallest cache: a few whole stripes of any array.
const LEAST_CACHE: ByteCount = ByteCount(64 << 20);

/// A server's storage, checked.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called in results.
    pub name: String,
    /// Its controller, as it is set.
    pub controller: ControllerSpec,
    /// How many of it are in the host, each with such drives and such a volume, over which the host stripes.
    pub controllers: usize,
    /// Its drives, by slot.
    pub drives: Vec<DriveSpec>,
    /// The level and its choices.
    pub shape: Shape,
    /// The strip.
    pub strip: StripSize,
    /// The drives' own caches; `None`: as each drive is by itself.
    pub drive_cache: Option<bool>,
    /// How much a cache may have of the volume, in memory that nothing takes away, be it the controller's or SoftROC's own;
    /// `None`: writes are answered when they are on the drives.
    pub write_back: Option<ByteCount>,
    /// What the controller is set to.
    pub modes: Modes,
    /// What becomes of stripes that a crash interrupts.
    pub write_hole: WriteHole,
    /// Slots whose drives have failed: what they held is computed when it is read.
    pub failed: DriveSet,
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

/// Reads `8xSAS-6G-HDD`, or several joined by `+`.
///
/// # Errors
/// When the catalog does not have such a drive, or there are none or too many of it, or of all together.
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
        // Before they are there: however long the text is, it asks for no more memory than that.
        if drives.len() + count > units::MAX_DRIVES {
            return Err(Error::refused(format!(
                "more than {} drives are named up to '{part}'; name fewer, such as 8xSAS-6G-HDD",
                units::MAX_DRIVES
            )));
        }
        drives.extend(std::iter::repeat_n(drive.clone(), count));
    }
    Ok(drives)
}

/// How much of a controller's cache writes may have: a quarter is for reads. That is assumed.
fn written(controller: &ControllerSpec) -> ByteCount {
    ByteCount((controller.cache_mib << 20) / 4 * 3)
}

/// How much a cache may have of the volume: SoftROC's own, or the controller's.
fn write_back(controller: &ControllerSpec, policies: &Policies, modes: Modes) -> Result<Option<ByteCount>> {
    match (policies.write_back, &controller.cache) {
        (Some(_), Some(_)) => Err(Error::refused(format!(
            "{} has a cache of its own; leave --cache out, or choose the controller HBA",
            short(controller)
        ))),
        (Some(size), None) if size < LEAST_CACHE => {
            Err(Error::refused(format!("a cache has {LEAST_CACHE} at least; give it with --cache")))
        }
        (Some(size), None) => Ok(Some(size)),
        (None, _) => Ok(modes.write_back.then(|| written(controller))),
    }
}

/// Whether the controller makes one RAID 10 of that many drives.
fn is_not_too_wide(controller: &ControllerSpec, name: &str, shape: Shape) -> Result<()> {
    let most = controller.cache.as_ref().map_or(u64::MAX, |cache| cache.spec.most_raid10_drives);
    let drives = shape.drives.0;
    match shape.level == Level::Raid10 && u64::from(drives) > most {
        true => Err(Error::refused(format!(
            "{name} has at most {most} drives in one raid10, not {drives}; name fewer"
        ))),
        false => Ok(()),
    }
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
        let modes = policies.modes(controller, &name)?;
        let mut controller = controller.clone();
        if !modes.read_ahead {
            controller.reads_ahead_kib = 0;
        }
        shape.check()?;
        is_not_too_wide(&controller, &name, shape)?;
        let kinds = counted(&drives);
        let write_hole = write_hole(shape.level, policies)?;
        let mut name = format!("{name}, {kinds}, {level}");
        if let Some(journal) = write_hole.journal() {
            name.push_str(&format!(", {journal}"));
        }
        let write_back = write_back(&controller, policies, modes)?;
        let drive_cache = modes.drive_cache;
        Ok(Configuration {
            name,
            controller,
            controllers: 1,
            drives,
            shape,
            strip,
            drive_cache,
            write_back,
            modes,
            write_hole,
            failed: DriveSet::EMPTY,
        })
    }

    /// The same on so many controllers of one host, each with such drives and such a volume: the host stripes over the volumes.
    ///
    /// # Errors
    /// When they are none, or too many.
    pub fn on_controllers(self, controllers: usize) -> Result<Configuration> {
        match controllers {
            1 => Ok(self),
            2..=MOST_CONTROLLERS => {
                Ok(Configuration { name: format!("{controllers} x {}", self.name), controllers, ..self })
            }
            _ => Err(Error::refused(format!(
                "{controllers} controllers cannot be; give 1 to {MOST_CONTROLLERS} with --controllers"
            ))),
        }
    }

    /// The same with drives that have failed, and have not been replaced.
    ///
    /// # Errors
    /// When there are no such slots, or the volume does not survive that.
    pub fn without(self, slots: &[u16]) -> Result<Configuration> {
        if slots.is_empty() {
            return Ok(self);
        }
        let drives = self.drives.len();
        if let Some(slot) = slots.iter().find(|slot| usize::from(**slot) >= drives) {
            return Err(Error::refused(format!(
                "there is no slot {slot}: {drives} drives have the slots 0 to {}; name others with --failed",
                drives.saturating_sub(1)
            )));
        }
        let failed: DriveSet = slots.iter().copied().map(DriveIndex).collect();
        let one_row_or_more = ByteCount(1 << 30);
        if !self.shape.geometry(self.strip, one_row_or_more)?.survives_set(&failed) {
            return Err(Error::refused(format!(
                "{} of {drives} drives does not survive the loss of {}; name fewer with --failed, or others",
                self.shape.level.name(),
                slots_text(&failed)
            )));
        }
        let name = format!("{}, without {}", self.name, slots_text(&failed));
        Ok(Configuration { name, failed, ..self })
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

    /// What may be kept of reads: of a controller's cache what writes may not have, of an onboard controller's driver what is
    /// assumed of such drivers.
    pub fn read_room(&self) -> ByteCount {
        const OF_A_DRIVER: ByteCount = ByteCount(16 << 20);
        match (&self.controller.cache, self.controller.reads_ahead_kib) {
            (Some(_), _) => ByteCount((self.controller.cache_mib << 20) - written(&self.controller).0),
            (None, 0) => ByteCount::ZERO,
            (None, _) => OF_A_DRIVER,
        }
    }

    /// Which commands of hosts go the controller's fast path.
    pub fn fast_path(&self) -> Option<FastPath> {
        let writes = !self.shape.level.has_parity();
        self.modes.fast_path.then(|| FastPath { strip: self.strip.bytes(), writes })
    }

    /// The drives of all controllers: on so many lies what the host measures.
    pub fn all_drives(&self) -> usize {
        self.drives.len() * self.controllers
    }

    /// Whether any drive has a spindle.
    pub fn rotates(&self) -> bool {
        self.drives.iter().any(DriveSpec::is_rotating)
    }
}

/// The most controllers in one host.
const MOST_CONTROLLERS: usize = 8;

/// Slots in words.
fn slots_text(slots: &DriveSet) -> String {
    let texts: Vec<String> = slots.iter().map(|slot| slot.to_string()).collect();
    format!("{} {}", if texts.len() == 1 { "drive" } else { "drives" }, texts.join(" and "))
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
