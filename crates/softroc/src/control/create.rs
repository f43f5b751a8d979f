//! `softroc volume create`, and its warning about wasted space.

use super::{Control, absolute};
use crate::cli::VolumeCreate;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::capacity;
use controller::{Command, CreateVolume, Preset, Reply, WriteMode};
use std::io::{Seek, SeekFrom};
use units::ByteCount;

impl Control {
    /// `softroc volume create`.
    pub(super) fn create(&self, create: &VolumeCreate) -> Outcome {
        let command = self.creation(create)?;
        if let Command::VolumeCreate(wanted) = &command
            && let Some(waste) = waste(&self.sizes(&wanted.drives))
        {
            output::confirm_on_terminal(&format!("{waste} Create it?"), &waste, create.yes)?;
        }
        confirm_write_mode(&create.name, create.write_mode, create.yes)?;
        self.show(&command, create.output.json)
            .map_err(|failure| with_separator(failure, &create.drives))
    }

    /// The sizes of these drives; empty if one of them is unknown: then the creation reports the
    /// cause.
    fn sizes(&self, drives: &[String]) -> Vec<Measured> {
        let size = |drive: &String| {
            let known = self.ask(&Command::DriveShow { drive: drive.clone() });
            let (size, kind) = match known {
                Ok(Reply::Drive { drive, .. }) => (drive.size_bytes?, drive.kind),
                _ => size_here(drive)?,
            };
            Some(Measured { name: drive.clone(), size, kind })
        };
        drives.iter().map(size).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    fn creation(&self, create: &VolumeCreate) -> Outcome<Command> {
        let settings = create.preset.map(Preset::settings);
        Ok(Command::VolumeCreate(CreateVolume {
            name: create.name.clone(),
            level: create.level.to_string(),
            drives: create.drives.iter().map(|drive| absolute(drive)).collect::<Outcome<_>>()?,
            array: create.array.clone(),
            spans: create.spans,
            copies: create.copies,
            strip_bytes: create.strip.map(|strip| strip.bytes().0),
            arrangement: create.layout.clone(),
            size_bytes: create.size.map(|size| size.0),
            write_hole: create.write_hole.map(Into::into),
            write_mode: create.write_mode.or(settings.map(|settings| settings.write_mode)),
            read_mode: create.read_mode.or(settings.map(|settings| settings.read_mode)),
            cache_mode: create.cache_mode.or(settings.map(|settings| settings.cache_mode)),
            drive_cache: create.drive_cache.or(settings.map(|settings| settings.drive_cache)),
            sector_format: create.sector_format,
            coercion: create.coercion,
            destroy_data: create.destroy_data,
        }))
    }
}

/// The failure of a creation; with the separator of drives if a comma may be meant as one.
fn with_separator(failure: Failure, drives: &[String]) -> Failure {
    match drives.iter().find(|drive| drive.contains(',')) {
        Some(one) => failure.with_advice(&format!(
            "'{one}' is one drive; separate drives by spaces: --drives {}",
            one.replace(',', " ")
        )),
        None => failure,
    }
}

/// A drive, with its size in bytes and its kind, if that is known.
struct Measured {
    name: String,
    size: u64,
    kind: Option<String>,
}

/// Asks for confirmation before flushed data is no longer durable.
pub(super) fn confirm_write_mode(name: &str, mode: Option<WriteMode>, yes: bool) -> Outcome {
    if mode != Some(WriteMode::AlwaysWriteBack) {
        return Ok(());
    }
    let question = format!(
        "A power cut loses the last seconds of writes to '{name}', even flushed ones, and may \
         damage file systems and databases on it. Acknowledge flushes from the cache anyway?"
    );
    output::confirm(&question, yes)
}

/// The size and the kind of a drive that the controller does not know yet, read by this process.
fn size_here(drive: &str) -> Option<(u64, Option<String>)> {
    for (scheme, kind) in [("mem:", "memory"), ("null:", "null")] {
        if let Some(size) = drive.strip_prefix(scheme) {
            return size.parse::<ByteCount>().ok().map(|size| (size.0, Some(kind.to_owned())));
        }
    }
    let mut file = std::fs::File::open(drive).ok()?;
    let is_file = file.metadata().ok()?.is_file();
    // A block device reports no length, but has an end.
    let size = file.seek(SeekFrom::End(0)).ok()?;
    Some((size, is_file.then(|| "file".to_owned())))
}

/// The wasted space of drives of different sizes, if it is more than 1 % of their total.
fn waste(drives: &[Measured]) -> Option<String> {
    let smallest = drives.iter().min_by_key(|drive| drive.size)?;
    let all: u64 = drives.iter().map(|drive| drive.size).sum();
    let wasted = all - smallest.size * drives.len() as u64;
    if wasted <= all / 100 {
        return None;
    }
    let larger = drives.iter().filter(|drive| drive.size > smallest.size);
    let larger: Vec<&str> = larger.map(|drive| drive.name.as_str()).collect();
    let kind = smallest.kind.as_deref();
    Some(format!(
        "The drives differ in size: of each only {} is used, which is the size of {}, and {} \
            of {} are wasted.",
        capacity(kind, smallest.size),
        smallest.name,
        capacity(kind, wasted),
        larger.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unequal_drives_waste_is_said_and_a_few_sectors_are_not() {
        let of_kind = |kind: &str, sizes: &[u64]| -> Vec<Measured> {
            let drive = |(at, size): (usize, &u64)| Measured {
                name: format!("d{at}"),
                size: size << 20,
                kind: Some(kind.to_owned()),
            };
            sizes.iter().enumerate().map(drive).collect()
        };
        let drives = |sizes: &[u64]| of_kind("file", sizes);
        assert_eq!(
            waste(&drives(&[48, 80, 64])).as_deref(),
            Some(
                "The drives differ in size: of each only 48 MiB is used, which is the size of d0, \
                    and 48 MiB of d1, d2 are wasted."
            )
        );
        let devices = waste(&of_kind("block device", &[48, 80])).expect("a warning");
        assert!(devices.contains("only 50.33 MB is used"), "{devices}");
        for fine in [&[][..], &[48], &[48, 48], &[4000, 4010]] {
            assert_eq!(waste(&drives(fine)), None, "{fine:?}");
        }
    }
}
