//! Creates a volume.

use super::{ConsoleAction, Field, FormValues, deed};
use crate::words::shell_word;
use controller::{Command, CreateVolume, Error, ErrorKind, Preset, Result};

/// A volume with this level on the drives of the page.
///
/// # Errors
/// `Invalid` if there is no such preset.
pub(super) fn create(level: &str, asked: &FormValues<'_>) -> Result<ConsoleAction> {
    let (name, drives) = (asked.word("name"), asked.words("drive"));
    let preset = match asked.word("preset") {
        "" => Preset::usual(drives.iter().map(AsRef::as_ref)),
        name => preset(name)?,
    };
    let settings = preset.settings();
    let destroy_data = asked.is_ticked("destroy");
    let named = |name: &str| if name.is_empty() { "NAME".to_owned() } else { shell_word(name) };
    let of_drives: Vec<String> = drives.iter().map(|drive| shell_word(drive)).collect();
    let cli = format!(
        "softroc volume create {} --level {} --preset {}{} --drives {}",
        named(name),
        shell_word(level),
        preset.name(),
        if destroy_data { " --destroy-data" } else { "" },
        of_drives.join(" "),
    );
    let presets = Preset::ALL.iter().map(|preset| preset.name()).collect();
    let mut fields: Vec<Field> = drives.iter().map(|drive| Field::said("drive", drive)).collect();
    fields.push(Field::typed("name", "Name"));
    fields.push(Field::chosen("preset", "Cache", presets, preset.name()));
    fields.push(Field::tick("destroy", "Overwrite data on the drives (--destroy-data)"));
    let command = Command::VolumeCreate(CreateVolume {
        name: name.to_owned(),
        level: level.to_owned(),
        drives,
        write_mode: Some(settings.write_mode),
        read_mode: Some(settings.read_mode),
        cache_mode: Some(settings.cache_mode),
        drive_cache: Some(settings.drive_cache),
        destroy_data,
        ..CreateVolume::default()
    });
    Ok(ConsoleAction {
        fields,
        ..deed("create", level, format!("Create this {level}"), command, cli)
    })
}

/// A preset by its name, or the default.
pub(super) fn preset(name: &str) -> Result<Preset> {
    let unknown = || {
        let sentence =
            format!("there is no preset '{name}'; 'softroc volume create --help' lists them");
        Error::new(ErrorKind::Invalid, sentence)
    };
    match name {
        "" => Ok(Preset::usual([])),
        name => {
            Preset::ALL.iter().copied().find(|preset| preset.name() == name).ok_or_else(unknown)
        }
    }
}
