//! `softroc volume create`, and its warning about wasted space.

use super::{Control, absolute};
use crate::cli::VolumeCreate;
use crate::failure::{Failure, Outcome};
use crate::output;
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
    fn sizes(&self, drives: &[String]) -> Vec<(String, u64)> {
        let size = |drive: &String| {
            let known = self.ask(&Command::DriveShow { drive: drive.clone() });
            let size = match known {
                Ok(Reply::Drive { drive, .. }) => drive.size_bytes,
                _ => size_here(drive),
            };
            Some((drive.clone(), size?))
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

/// The size of a drive that the controller does not know yet, read by this process.
fn size_here(drive: &str) -> Option<u64> {
    if let Some(size) = drive.strip_prefix("mem:").or_else(|| drive.strip_prefix("null:")) {
        return size.parse::<ByteCount>().ok().map(|size| size.0);
    }
    // A block device reports no length, but has an end.
    std::fs::File::open(drive).and_then(|mut file| file.seek(SeekFrom::End(0))).ok()
}

/// The wasted space of drives of different sizes, if it is more than 1 % of their total.
fn waste(drives: &[(String, u64)]) -> Option<String> {
    let (name, smallest) = drives.iter().min_by_key(|(_, size)| *size)?;
    let all: u64 = drives.iter().map(|(_, size)| size).sum();
    let wasted = all - smallest * drives.len() as u64;
    if wasted <= all / 100 {
        return None;
    }
    let larger: Vec<&str> =
        drives.iter().filter(|(_, size)| size > smallest).map(|(name, _)| name.as_str()).collect();
    Some(format!(
        "The drives differ in size: of each only {} is used, which is the size of {name}, and {} \
            of {} are wasted.",
        ByteCount(*smallest),
        ByteCount(wasted),
        larger.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unequal_drives_waste_is_said_and_a_few_sectors_are_not() {
        let drives = |sizes: &[u64]| -> Vec<(String, u64)> {
            sizes.iter().enumerate().map(|(at, size)| (format!("d{at}"), size << 20)).collect()
        };
        assert_eq!(
            waste(&drives(&[48, 80, 64])).as_deref(),
            Some(
                "The drives differ in size: of each only 48 MiB is used, which is the size of d0, \
                    and 48 MiB of d1, d2 are wasted."
            )
        );
        for fine in [&[][..], &[48], &[48, 48], &[4000, 4010]] {
            assert_eq!(waste(&drives(fine)), None, "{fine:?}");
        }
    }
}
