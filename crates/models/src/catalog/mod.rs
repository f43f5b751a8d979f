//! The catalog of drives and controllers: what is built in, and what users add.
//!
//! The built-in ones are the TOML files in `catalog/drives/` and `catalog/controllers/` of this project, which are
//! part of the program; a user's file has the same form (`docs/plan/models.md`): copy one and change it. Every number
//! says where it comes from: `published`, `data sheet`, `calibrated` or `assumed`, and what exactly.

mod builtin;
mod keys;
mod read;
#[cfg(test)]
pub(crate) mod tests;

pub use keys::{CacheSpec, Key, RotatingSpec, SsdSpec};
pub use read::COMMON_KEYS;

use crate::link::{DriveLink, HostLink};
use std::fmt;
use std::sync::OnceLock;

/// What is wrong with a catalog file, or with a name: one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What the catalog's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// A value of a file and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sourced {
    /// Its key.
    pub key: String,
    /// The value.
    pub value: u64,
    /// Where it comes from: the first word is `published`, `data`, `calibrated` or `assumed`.
    pub source: String,
    /// Of a calibrated value: what the data sheet says, or what was assumed, before. Calibration begins there.
    pub prior: Option<u64>,
}

/// What is inside a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveKind {
    /// Platters.
    Rotating(RotatingSpec),
    /// Flash.
    Ssd(SsdSpec),
}

/// A drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveSpec {
    /// Maker and model.
    pub model: String,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// The file it is from.
    pub file: String,
    /// Where its words come from.
    pub source: String,
    /// How it is connected.
    pub link: DriveLink,
    /// What it holds.
    pub capacity_bytes: u64,
    /// The unit of its addresses.
    pub logical_sector_bytes: u64,
    /// The unit it writes without reading first.
    pub physical_sector_bytes: u64,
    /// Commands it takes at a time.
    pub queue_depth: u64,
    /// Whether its write cache is on unless told otherwise.
    pub write_cache: bool,
    /// Its inside.
    pub kind: DriveKind,
    /// All its numbers with their sources.
    pub values: Vec<Sourced>,
}

impl DriveSpec {
    /// Whether it has a spindle.
    pub fn is_rotating(&self) -> bool {
        matches!(self.kind, DriveKind::Rotating(_))
    }

    /// Whether any of its numbers was fitted to measurements. Otherwise all of them are of data sheets, or assumed.
    pub fn is_calibrated(&self) -> bool {
        self.values.iter().any(|sourced| sourced.source.starts_with("calibrated"))
    }

    /// A parameter of its inside, to read or to change.
    pub fn parameter(&mut self, name: &str) -> Option<&mut u64> {
        match &mut self.kind {
            DriveKind::Rotating(spec) => spec.parameter(name),
            DriveKind::Ssd(spec) => spec.parameter(name),
        }
    }

    /// What the parameters of its inside are.
    pub fn keys(&self) -> &'static [Key] {
        match self.kind {
            DriveKind::Rotating(_) => RotatingSpec::KEYS,
            DriveKind::Ssd(_) => SsdSpec::KEYS,
        }
    }
}

/// A controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerSpec {
    /// Its product name.
    pub model: String,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// The file it is from.
    pub file: String,
    /// Where its words come from.
    pub source: String,
    /// Its way to the host; `None`: no limit (drives measured by themselves).
    pub host_link: Option<HostLink>,
    /// What its ports speak; `None`: whatever a drive speaks (drives measured by themselves).
    pub drive_link: Option<DriveLink>,
    /// How many ports.
    pub ports: u64,
    /// The most drives.
    pub most_drives: u64,
    /// The levels it offers, as they are written on the command line.
    pub levels: Vec<String>,
    /// The strips it offers, in KiB, its default first.
    pub strips_kib: Vec<u64>,
    /// Its cache; 0: none.
    pub cache_mib: u64,
    /// Processor cores that serve commands.
    pub cores: u64,
    /// Processor time for a command of the host, in nanoseconds.
    pub host_command_ns: u64,
    /// Processor time for a command to a drive, in nanoseconds.
    pub drive_command_ns: u64,
    /// Processor time for a computation of parity, however long, in nanoseconds.
    pub parity_ns: u64,
    /// The same for each byte that it takes in or gives out, in picoseconds.
    pub xor_ps_per_byte: u64,
    /// What a command takes besides, in nanoseconds; others go on meanwhile.
    pub latency_ns: u64,
    /// What a write takes besides that, in nanoseconds: the data are asked for first.
    pub write_latency_ns: u64,
    /// The most commands of the host at a time; 0: no limit.
    pub most_outstanding: u64,
    /// What it carries to the host, in MiB per second; 0: more than its links.
    pub read_path_mib_s: u64,
    /// What it carries from the host, in MiB per second; 0: more than its links.
    pub write_path_mib_s: u64,
    /// What it carries both ways together, in MiB per second; 0: as much as each way by itself.
    pub data_path_mib_s: u64,
    /// What it, or its driver, reads on behind a stream of reads at most, in KiB; 0: it has no such mode, or it is off.
    pub reads_ahead_kib: u64,
    /// Whether the halves of a mirror share a deep stream in long runs, not request by request.
    pub mirror_runs: bool,
    /// What its cache is; `None`: it has none.
    pub cache: Option<ControllerCache>,
    /// All its numbers with their sources.
    pub values: Vec<Sourced>,
}

/// A controller's cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerCache {
    /// Its numbers.
    pub spec: CacheSpec,
    /// What keeps it over a power cut, such as `FBU`, where that is fitted; `none`: nothing.
    pub protection: String,
    /// The presets that it offers, its default first.
    pub presets: Vec<String>,
    /// What of a volume can be set, as the options of the command line are called: `write-mode`.
    pub settings: Vec<String>,
}

impl ControllerCache {
    /// Whether what is in it outlives a power cut.
    pub fn is_protected(&self) -> bool {
        self.protection != "none"
    }
}

/// Drives and controllers by name.
///
/// ```
/// let catalog = models::Catalog::builtin();
/// let drive = catalog.drive("sas-6g-hdd")?;
/// assert_eq!(drive.model, "Toshiba MK1401GRRB");
/// let sentence = catalog.drive("floppy").unwrap_err().to_string();
/// assert!(sentence.starts_with("there is no drive 'floppy' in the catalog"));
/// # models::Result::Ok(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Catalog {
    /// In the order in which lists show them.
    pub drives: Vec<DriveSpec>,
    /// In the order in which lists show them.
    pub controllers: Vec<ControllerSpec>,
}

/// Names are compared without case, spaces and dashes.
fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_' | '/')).flat_map(char::to_lowercase).collect()
}

fn named<'a, T>(
    kind: &str,
    name: &str,
    all: &'a [T],
    names: impl Fn(&T) -> (&String, &[String]),
) -> Result<&'a T> {
    let wanted = folded(name);
    let found = all.iter().find(|candidate| {
        let (model, aliases) = names(candidate);
        // A part number says what is meant without its maker.
        let part = model.split_once(' ').map(|(_, part)| part);
        let known = std::iter::once(model).chain(aliases).map(String::as_str).chain(part);
        known.into_iter().any(|name| folded(name) == wanted)
    });
    found.ok_or_else(|| {
        let known: Vec<&str> = all
            .iter()
            .map(|candidate| {
                let (model, aliases) = names(candidate);
                aliases.first().unwrap_or(model).as_str()
            })
            .collect();
        Error(format!(
            "there is no {kind} '{name}' in the catalog; expected one of {}, or name a file of your own with --catalog",
            known.join(", ")
        ))
    })
}

impl Catalog {
    /// What is part of the program.
    pub fn builtin() -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| {
            let mut catalog = Catalog::default();
            for (file, text) in builtin::FILES {
                catalog.read(file, text).expect("a test reads the files that are part of the program");
            }
            catalog
        })
    }

    /// Adds the drive or the controller of a TOML file. One of a name that is taken takes its place. `file` is how
    /// it was named.
    ///
    /// # Errors
    /// When it cannot be understood: the sentence names the file, the line and the key.
    pub fn read(&mut self, file: &str, text: &str) -> Result<()> {
        match read::hardware(file, text)? {
            read::Hardware::Drive(drive) => {
                self.drives.retain(|other| folded(&other.model) != folded(&drive.model));
                self.drives.push(*drive);
            }
            read::Hardware::Controller(controller) => {
                self.controllers.retain(|other| folded(&other.model) != folded(&controller.model));
                self.controllers.push(*controller);
            }
        }
        Ok(())
    }

    /// The text of a built-in file, to copy and change.
    pub fn text_of(file: &str) -> Option<&'static str> {
        builtin::FILES.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
    }

    /// The drive of that name or alias.
    ///
    /// # Errors
    /// When there is none.
    pub fn drive(&self, name: &str) -> Result<&DriveSpec> {
        named("drive", name, &self.drives, |drive| (&drive.model, &drive.aliases))
    }

    /// The controller of that name or alias.
    ///
    /// # Errors
    /// When there is none.
    pub fn controller(&self, name: &str) -> Result<&ControllerSpec> {
        named("controller", name, &self.controllers, |controller| (&controller.model, &controller.aliases))
    }
}
