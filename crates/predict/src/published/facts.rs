//! Facts that documents state without a measurement about controllers, drives, levels and methods.
//! They are compared with the catalog, the layouts and the methods (`catalog/published/facts.toml`)
//! to detect copying errors.

use super::{Figure, Reproduced, compared};
use crate::error::{Error, Result};
use crate::method::MeasuringMethod;
use layout::{Geometry, Level, Shape};
use models::{Catalog, Sourced};
use plan::RequestKind;
use serde::Deserialize;
use storagebench::{Access, Area, Edge};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveSet, StripSize};

const FACTS: &str = include_str!("../../../../catalog/published/facts.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    fact: Vec<Fact>,
}

/// All facts.
///
/// # Errors
/// When the file is malformed: it is part of the program, and a test reads it.
pub fn facts() -> Result<Vec<Fact>> {
    let file: File = toml::from_str(FACTS).map_err(Error::failed)?;
    Ok(file.fact)
}

/// A value that some objects must have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// The figure's number.
    pub id: String,
    /// `NAME / KEY`, see [`value`].
    pub of: Vec<String>,
    /// The value; without it, the figure's value. 1 is yes, 0 is no.
    pub is: Option<f64>,
    /// The reason for a known deviation.
    #[serde(default)]
    pub reason: String,
}

impl Fact {
    /// Compares the stated value with the actual one.
    ///
    /// # Errors
    /// When a name or a key is unknown.
    pub fn reproduce(&self, catalog: &Catalog, figure: &Figure) -> Result<Vec<Reproduced>> {
        let row = |of: &String| {
            let found = value(catalog, of)?;
            let published = self.is.or(figure.number());
            let published =
                published.ok_or_else(|| Error::failed(format!("{} is no number", figure.id)))?;
            let mut reproduced = compared(figure, of.clone(), published, found);
            // Counted, not measured: the value must match exactly, unless it is a bound.
            if self.is.is_some() || reproduced.error_percent.is_some() {
                reproduced.published = format!("= {published}");
                reproduced.right = found == published;
            }
            reproduced.error_percent = None;
            reproduced.statement = figure.words();
            if !reproduced.right {
                reproduced.reason.clone_from(&self.reason);
            }
            Ok(reproduced)
        };
        self.of.iter().map(row).collect()
    }
}

/// The value of an object, by `NAME / KEY`:
///
/// - a controller: a value of its file; `default_strip_kib`, `largest_strip_kib`; `fast_path` or a
///   level, 1 if it offers it;
/// - a drive: a value of its file; `capacity_gb`;
/// - a level: `min_drives`; `LEVEL on N drives`: `write_penalty`, `usable_drives`, `survives`,
///   `accesses_per_read`;
/// - a method: `sequential_percent`, `random_percent` of a volume, `file_gib` for the method's
///   minimum number of drives.
///
/// # Errors
/// When a name or a key is unknown.
pub fn value(catalog: &Catalog, of: &str) -> Result<f64> {
    let unknown =
        || Error::failed(format!("'{of}' is not a fact; expected NAME / KEY of a known object"));
    let (name, key) = of.split_once(" / ").ok_or_else(unknown)?;
    let found = match name.split_once(" on ") {
        Some((level, drives)) => {
            let drives = drives.trim_end_matches(" drives").parse().map_err(|_| unknown())?;
            of_array(level.parse()?, drives, key)?
        }
        None => of_level(name, key)
            .or_else(|| of_method(name, key))
            .or_else(|| of_catalog(catalog, name, key)),
    };
    found.ok_or_else(unknown)
}

fn of_catalog(catalog: &Catalog, name: &str, key: &str) -> Option<f64> {
    let among = |values: &[Sourced]| {
        values.iter().find(|value| value.key == key).map(|value| value.value as f64)
    };
    let Ok(controller) = catalog.controller(name) else {
        let drive = catalog.drive(name).ok()?;
        return match key {
            "capacity_gb" => Some((drive.capacity_bytes / 1_000_000_000) as f64),
            _ => among(&drive.values),
        };
    };
    match key.parse::<Level>() {
        Ok(level) => Some(f64::from(u8::from(
            controller.levels.iter().any(|offered| offered == level.name()),
        ))),
        Err(_) if key == "default_strip_kib" => {
            controller.strips_kib.first().map(|kib| *kib as f64)
        }
        Err(_) if key == "largest_strip_kib" => {
            controller.strips_kib.iter().max().map(|kib| *kib as f64)
        }
        Err(_) if key == "fast_path" => {
            let presets = controller.cache.iter().flat_map(|cache| &cache.presets);
            Some(f64::from(u8::from(presets.into_iter().any(|preset| preset == "fast-path"))))
        }
        Err(_) => among(&controller.values),
    }
}

fn of_level(name: &str, key: &str) -> Option<f64> {
    let level: Level = name.parse().ok()?;
    (key == "min_drives").then(|| f64::from(level.row().min_drives.0))
}

fn of_array(level: Level, drives: u16, key: &str) -> Result<Option<f64>> {
    let strip = StripSize::new(ByteCount(64 << 10)).map_err(Error::failed)?;
    let member = ByteCount(1 << 30);
    let geometry = Shape::new(level, DriveCount(drives)).geometry(strip, member)?;
    Ok(match key {
        "write_penalty" => Some(f64::from(geometry.write_penalty())),
        "usable_drives" => Some(geometry.capacity().0 as f64 / geometry.member_size().0 as f64),
        "survives" => Some(f64::from(geometry.survives().at_least.0)),
        "accesses_per_read" => Some(accesses_per_read(&geometry)?),
        _ => None,
    })
}

fn accesses_per_read(geometry: &Geometry) -> Result<f64> {
    let sector = ByteRange::new(ByteOffset(0), ByteCount(512));
    let explanation = plan::explain(geometry, RequestKind::Read, sector, &DriveSet::EMPTY)
        .map_err(Error::failed)?;
    Ok(f64::from(explanation.cost.reads))
}

fn of_method(name: &str, key: &str) -> Option<f64> {
    let area = MeasuringMethod::of(name.parse().ok()?, 1).ok()?.area;
    let whole = ByteRange::new(ByteOffset(0), ByteCount(100 << 40));
    let percent =
        |access| Some(area.resolve(whole, access).ok()?.len.0 as f64 / whole.len.0 as f64 * 100.0);
    match (key, area) {
        ("sequential_percent", Area::ByAccess) => percent(Access::Sequential),
        ("random_percent", Area::ByAccess) => percent(Access::Random),
        ("file_gib", Area::Range { to: Edge::Bytes(bytes), .. }) => Some((bytes >> 30) as f64),
        _ => None,
    }
}
