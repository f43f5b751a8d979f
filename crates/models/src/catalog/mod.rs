//! The catalog of drives and controllers: built-in entries, and files that users add.
//!
//! The built-in entries are this project's TOML files in `catalog/drives/` and
//! `catalog/controllers/`. A user's file has the same form (`docs/plan/models.md`). Every number
//! has a source: `published`, `data sheet`, `calibrated` or `assumed`, with details.

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

/// An error in a catalog file or a name, as one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A result with this module's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A value of a file, with its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sourced {
    /// Its key.
    pub key: String,
    /// The value.
    pub value: u64,
    /// Its source: the first word is `published`, `data`, `calibrated` or `assumed`.
    pub source: String,
    /// The data sheet's or assumed value of a calibrated parameter, from which calibration begins.
    pub prior: Option<u64>,
}

/// The internals of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveKind {
    /// Rotating platters.
    Rotating(RotatingSpec),
    /// Flash.
    Ssd(SsdSpec),
}

/// A drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveSpec {
    /// Maker and model.
    pub model: String,
    /// Other names in the catalog.
    pub aliases: Vec<String>,
    /// The file that defines it.
    pub file: String,
    /// The source of its texts.
    pub source: String,
    /// Its interface.
    pub link: DriveLink,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Its logical sector size.
    pub logical_sector_bytes: u64,
    /// Its physical sector size: smaller writes need a read first.
    pub physical_sector_bytes: u64,
    /// The maximum number of commands in the drive.
    pub queue_depth: u64,
    /// Whether its write cache is on by default.
    pub write_cache: bool,
    /// Its internals.
    pub kind: DriveKind,
    /// All its numbers, with sources.
    pub values: Vec<Sourced>,
}

impl DriveSpec {
    /// Whether it has a spindle.
    pub fn is_rotating(&self) -> bool {
        matches!(self.kind, DriveKind::Rotating(_))
    }

    /// Whether a value was fitted to measurements. Otherwise all values come from data sheets or
    /// assumptions.
    pub fn is_calibrated(&self) -> bool {
        self.values.iter().any(|sourced| sourced.source.starts_with("calibrated"))
    }

    /// A parameter of its internals, mutable.
    pub fn parameter(&mut self, name: &str) -> Option<&mut u64> {
        match &mut self.kind {
            DriveKind::Rotating(spec) => spec.parameter(name),
            DriveKind::Ssd(spec) => spec.parameter(name),
        }
    }

    /// The parameters of its internals.
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
    /// Other names in the catalog.
    pub aliases: Vec<String>,
    /// The file that defines it.
    pub file: String,
    /// The source of its texts.
    pub source: String,
    /// The link to the host; `None`: no limit (drives measured alone).
    pub host_link: Option<HostLink>,
    /// The interface of its ports; `None`: that of each drive (drives measured alone).
    pub drive_link: Option<DriveLink>,
    /// The number of ports.
    pub ports: u64,
    /// The maximum number of drives.
    pub most_drives: u64,
    /// The supported levels, by their command-line names.
    pub levels: Vec<String>,
    /// The supported strips, in KiB, with the default first.
    pub strips_kib: Vec<u64>,
    /// The cache size; 0: none.
    pub cache_mib: u64,
    /// Processor cores for commands.
    pub cores: u64,
    /// Processor time per host command, in nanoseconds.
    pub host_command_ns: u64,
    /// Processor time per drive command, in nanoseconds.
    pub drive_command_ns: u64,
    /// Processor time per parity computation of any length, in nanoseconds.
    pub parity_ns: u64,
    /// The same for each input and output byte, in picoseconds.
    pub xor_ps_per_byte: u64,
    /// Additional latency of a command, in nanoseconds, without processor time.
    pub latency_ns: u64,
    /// Further latency of a write, in nanoseconds: the controller requests the data first.
    pub write_latency_ns: u64,
    /// The maximum number of outstanding host commands; 0: no limit.
    pub most_outstanding: u64,
    /// The data rate to the host, in MiB per second; 0: limited by links only.
    pub read_path_mib_s: u64,
    /// The data rate from the host, in MiB per second; 0: limited by links only.
    pub write_path_mib_s: u64,
    /// The total data rate in both directions, in MiB per second; 0: no common limit.
    pub data_path_mib_s: u64,
    /// The maximum read-ahead of the controller or its driver, in KiB; 0: none, or off.
    pub reads_ahead_kib: u64,
    /// Whether the halves of a mirror share a deep stream in long runs instead of alternate
    /// requests.
    pub mirror_runs: bool,
    /// The cache; `None`: no cache.
    pub cache: Option<ControllerCache>,
    /// All its numbers, with sources.
    pub values: Vec<Sourced>,
}

/// A controller's cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerCache {
    /// Its numbers.
    pub spec: CacheSpec,
    /// The protection against a power cut, such as `FBU`, if fitted; `none`: none.
    pub protection: String,
    /// The supported presets, with the default first.
    pub presets: Vec<String>,
    /// The settings of a volume, by command-line option: `write-mode`.
    pub settings: Vec<String>,
}

impl ControllerCache {
    /// Whether its content survives a power cut.
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
    /// In list order.
    pub drives: Vec<DriveSpec>,
    /// In list order.
    pub controllers: Vec<ControllerSpec>,
}

/// Normalises a name: comparisons ignore case, spaces and dashes.
fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, ' ' | '-' | '_' | '/'))
        .flat_map(char::to_lowercase)
        .collect()
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
        // A part number suffices without the maker.
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
            "there is no {kind} '{name}' in the catalog; expected one of {}, or give your own \
             file with --catalog",
            known.join(", ")
        ))
    })
}

impl Catalog {
    /// The built-in catalog.
    pub fn builtin() -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| {
            let mut catalog = Catalog::default();
            for (file, text) in builtin::FILES {
                catalog
                    .read(file, text)
                    .expect("a test reads the files that are part of the program");
            }
            catalog
        })
    }

    /// Adds the drive or controller of a TOML file; an entry with the same name is replaced. `file`
    /// is the name in errors.
    ///
    /// # Errors
    /// A sentence with the file, the line and the key, when the file is invalid.
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

    /// The text of a built-in file, as a template.
    pub fn text_of(file: &str) -> Option<&'static str> {
        builtin::FILES.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
    }

    /// The drive with that name or alias.
    ///
    /// # Errors
    /// When the catalog has none.
    pub fn drive(&self, name: &str) -> Result<&DriveSpec> {
        named("drive", name, &self.drives, |drive| (&drive.model, &drive.aliases))
    }

    /// The controller with that name or alias.
    ///
    /// # Errors
    /// When the catalog has none.
    pub fn controller(&self, name: &str) -> Result<&ControllerSpec> {
        named("controller", name, &self.controllers, |controller| {
            (&controller.model, &controller.aliases)
        })
    }
}
