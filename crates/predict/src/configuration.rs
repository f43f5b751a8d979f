//! The configuration of a prediction (controller, drives, volume), and the checks that reject
//! impossible ones.

use crate::error::{Error, Result};
use crate::policies::{Modes, Policies};
use layout::{Level, Shape};
use models::{Catalog, ControllerSpec, DriveLink, DriveSpec, FastPath};
use units::{ByteCount, DriveCount, DriveIndex, DriveSet, StripSize};

/// The smallest cache: a few full stripes of any array.
const LEAST_CACHE: ByteCount = ByteCount(64 << 20);

/// A server's storage, checked.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The name in results.
    pub name: String,
    /// The controller with its settings.
    pub controller: ControllerSpec,
    /// The number of controllers in the host, each with these drives and this volume; the host
    /// stripes over them.
    pub controllers: usize,
    /// Its drives, by slot.
    pub drives: Vec<DriveSpec>,
    /// The level and its layout.
    pub shape: Shape,
    /// The strip.
    pub strip: StripSize,
    /// The drives' write caches; `None`: each drive's default.
    pub drive_cache: Option<bool>,
    /// The share of this volume in a protected write-back cache, the controller's or SoftROC's own;
    /// `None`: write-through.
    pub write_back: Option<ByteCount>,
    /// The controller's modes.
    pub modes: Modes,
    /// The protection against the write hole.
    pub write_hole: WriteHole,
    /// Slots with failed drives: their data is reconstructed at each read.
    pub failed: DriveSet,
}

/// The protection of stripes that a crash interrupts.
#[derive(Clone, PartialEq, Debug)]
pub enum WriteHole {
    /// A resync after a crash; writes need no record.
    Resync,
    /// SoftROC's journal.
    Journal {
        /// The log devices outside of the array, as mirrors. If empty, the journal is on the
        /// members.
        log: Vec<DriveSpec>,
    },
}

impl WriteHole {
    /// A description of the journal, if there is one.
    pub fn journal(&self) -> Option<String> {
        match self {
            WriteHole::Resync => None,
            WriteHole::Journal { log } if log.is_empty() => {
                Some("journal on its drives".to_owned())
            }
            WriteHole::Journal { log } => Some(format!("journal on {}", counted(log))),
        }
    }

    /// The log devices.
    pub fn log(&self) -> &[DriveSpec] {
        match self {
            WriteHole::Resync => &[],
            WriteHole::Journal { log } => log,
        }
    }
}

/// Parses `8xSAS-6G-HDD`, or several such terms joined by `+`.
///
/// # Errors
/// When the catalog lacks such a drive, or a count is zero or too large.
pub fn parse_drives(catalog: &Catalog, text: &str) -> Result<Vec<DriveSpec>> {
    let mut drives = Vec::new();
    for part in text.split('+') {
        let counted = part
            .split_once('x')
            .and_then(|(count, name)| Some((count.parse::<usize>().ok()?, name)));
        let (count, name) = counted.unwrap_or((1, part));
        if count == 0 || count > units::MAX_DRIVES {
            return Err(Error::refused(format!(
                "'{part}' names {count} drives; expected 1 to {}, such as 8xSAS-6G-HDD",
                units::MAX_DRIVES
            )));
        }
        let drive = catalog.drive(name).map_err(Error::refused)?;
        // Before allocation: a long text must not reserve more memory.
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

/// The share of a controller's cache for writes; a quarter is for reads (an assumption).
fn written(controller: &ControllerSpec) -> ByteCount {
    ByteCount((controller.cache_mib << 20) / 4 * 3)
}

/// The write-back cache for the volume: SoftROC's own, or the controller's.
fn write_back(
    controller: &ControllerSpec,
    policies: &Policies,
    modes: Modes,
) -> Result<Option<ByteCount>> {
    match (policies.write_back, &controller.cache) {
        (Some(_), Some(_)) => Err(Error::refused(format!(
            "{} has a cache of its own; omit --cache, or choose the controller HBA",
            short(controller)
        ))),
        (Some(size), None) if size < LEAST_CACHE => Err(Error::refused(format!(
            "the cache needs at least {LEAST_CACHE}; set it with --cache"
        ))),
        (Some(size), None) => Ok(Some(size)),
        (None, _) => Ok(modes.write_back.then(|| written(controller))),
    }
}

/// Rejects a RAID 10 with more drives than the controller supports.
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
    /// A sentence that names what the controller cannot do, and what it supports.
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
            // A JBOD drive has no strips: the engine passes requests on unsplit.
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

    /// The same on several controllers of one host, each with such drives and volume. The host
    /// stripes over the volumes.
    ///
    /// # Errors
    /// When the number is zero or too large.
    pub fn on_controllers(self, controllers: usize) -> Result<Configuration> {
        match controllers {
            1 => Ok(self),
            2..=MOST_CONTROLLERS => Ok(Configuration {
                name: format!("{controllers} x {}", self.name),
                controllers,
                ..self
            }),
            _ => Err(Error::refused(format!(
                "{controllers} controllers are not supported; give 1 to {MOST_CONTROLLERS} with \
                 --controllers"
            ))),
        }
    }

    /// The same with failed drives that are not replaced.
    ///
    /// # Errors
    /// When a slot does not exist, or the volume does not survive the failures.
    pub fn without(self, slots: &[u16]) -> Result<Configuration> {
        if slots.is_empty() {
            return Ok(self);
        }
        let drives = self.drives.len();
        if let Some(slot) = slots.iter().find(|slot| usize::from(**slot) >= drives) {
            return Err(Error::refused(format!(
                "there is no slot {slot}: {drives} drives have the slots 0 to {}; name others with \
                    --failed",
                drives.saturating_sub(1)
            )));
        }
        let failed: DriveSet = slots.iter().copied().map(DriveIndex).collect();
        let one_row_or_more = ByteCount(1 << 30);
        if !self.shape.geometry(self.strip, one_row_or_more)?.survives_set(&failed) {
            return Err(Error::refused(format!(
                "{} of {drives} drives does not survive the loss of {}; name fewer with --failed, \
                    or others",
                self.shape.level.name(),
                slots_text(&failed)
            )));
        }
        let name = format!("{}, without {}", self.name, slots_text(&failed));
        Ok(Configuration { name, failed, ..self })
    }

    /// The level on this number of drives, with spans.
    ///
    /// # Errors
    /// When there are more drives than the type can count.
    pub fn shape(level: Level, drives: usize, spans: Option<u16>) -> Result<Shape> {
        let drives = DriveCount(u16::try_from(drives).map_err(Error::refused)?);
        Ok(Shape { spans, ..Shape::new(level, drives) })
    }

    /// The drive models without a value that was fitted to measurements, each once. Their
    /// predictions rest on data sheets and assumptions only.
    pub fn not_calibrated(&self) -> Vec<&str> {
        let mut models: Vec<&str> = Vec::new();
        for drive in
            self.drives.iter().chain(self.write_hole.log()).filter(|drive| !drive.is_calibrated())
        {
            if !models.contains(&drive.model.as_str()) {
                models.push(&drive.model);
            }
        }
        models
    }

    /// Memory for reads: the rest of a controller's cache, or the assumed memory of an onboard
    /// controller's driver.
    pub fn read_room(&self) -> ByteCount {
        const OF_A_DRIVER: ByteCount = ByteCount(16 << 20);
        match (&self.controller.cache, self.controller.reads_ahead_kib) {
            (Some(_), _) => {
                ByteCount((self.controller.cache_mib << 20) - written(&self.controller).0)
            }
            (None, 0) => ByteCount::ZERO,
            (None, _) => OF_A_DRIVER,
        }
    }

    /// The commands of hosts that use the controller's FastPath.
    pub fn fast_path(&self) -> Option<FastPath> {
        let writes = !self.shape.level.has_parity();
        self.modes.fast_path.then(|| FastPath { strip: self.strip.bytes(), writes })
    }

    /// The drives of all controllers, over which the measured volume extends.
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

/// The most log devices: controllers use two.
const MOST_LOG_DRIVES: usize = 2;

/// Derives the write-hole protection from the settings.
fn write_hole(level: Level, policies: &Policies) -> Result<WriteHole> {
    let log = policies.log.clone();
    match policies.journal {
        false if log.is_empty() => Ok(WriteHole::Resync),
        false => {
            Err(Error::refused("--log needs a journal; add --write-hole journal, or omit --log"))
        }
        true if !level.has_parity() => Err(Error::refused(format!(
            "{level} has no parity and needs no journal; omit --write-hole, or choose a level \
             such as raid5"
        ))),
        true if log.len() > MOST_LOG_DRIVES => Err(Error::refused(format!(
            "a log is on one drive or on two, not on {}; name fewer with --log",
            log.len()
        ))),
        true => Ok(WriteHole::Journal { log }),
    }
}

/// Rejects drives that the controller's ports do not accept.
fn fits(controller: &ControllerSpec, name: &str, drives: &[DriveSpec]) -> Result<()> {
    let Some(port) = controller.drive_link else { return Ok(()) };
    let Some(drive) = drives.iter().find(|drive| drive.link.negotiated(port).is_none()) else {
        return Ok(());
    };
    let (kind, advice) = match drive.link {
        DriveLink::Sas { .. } => ("a SAS", "choose SATA drives, or a controller with SAS ports"),
        DriveLink::Sata { .. } => {
            ("a SATA", "choose another drive, or a controller with SAS or SATA ports")
        }
        DriveLink::Pcie { .. } => {
            ("an NVMe", "measure it by itself with --controller direct, or choose other drives")
        }
    };
    Err(Error::refused(format!(
        "{} is {kind} drive, and {name} has {port} ports; {advice}",
        drive.model
    )))
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

fn strip_of(
    controller: &ControllerSpec,
    name: &str,
    strip: Option<StripSize>,
) -> Result<StripSize> {
    let offered = || {
        let strips: Vec<String> =
            controller.strips_kib.iter().map(|kib| format!("{kib}K")).collect();
        strips.join(", ")
    };
    match strip {
        Some(strip) if controller.strips_kib.iter().any(|kib| kib * 1024 == strip.bytes().0) => {
            Ok(strip)
        }
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
