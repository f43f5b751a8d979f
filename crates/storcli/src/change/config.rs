//! `/cN get config file=F`, `/cN set config file=F`: what it takes to make the same volumes and spares again on blank drives.
//!
//! The file is JSON: commands of the controller, with drives by their places. (That of a hardware controller is not readable to
//! others, and is refused.)

use super::{Refusal, ask, outcome};
use crate::answer::{Answer, OTHER};
use crate::view::{View, policy};
use crate::words::{Word, read_places};
use crate::{Machine, Surroundings};
use controller::{
    AddSpare, CacheMode, Command, CreateVolume, DriveCache, ReadMode, SectorFormat, SpareKind, WriteMode,
};
use serde_json::{Value, json};

/// What the file says it is.
const KIND: &str = "softroc configuration 1";

/// Writes the file.
pub(super) fn get(
    view: &View,
    file: &Word,
    rest: &[Word],
    around: &Surroundings,
    machine: &mut dyn Machine,
) -> Answer {
    let Some(path) = file.value.as_deref().filter(|path| !path.is_empty() && rest.is_empty()) else {
        return Answer::unsupported();
    };
    let done = document(view, around).and_then(|document| {
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Refusal::new(OTHER, error.to_string()))?;
        machine.write(path, &format!("{text}\n")).map_err(|why| Refusal::new(OTHER, why))
    });
    outcome("-", "Get Config", done)
}

fn document(view: &View, around: &Surroundings) -> Result<Value, Refusal> {
    let drives = view.drives();
    let place = |name: &str| drives.iter().find(|pd| pd.drive.name == name).map(crate::show::drive_place);
    let mut commands = Vec::new();
    for volume in view.volumes() {
        let info = volume.volume;
        let places: Option<Vec<String>> = info.drives.iter().map(|drive| place(&drive.name)).collect();
        let unknown =
            || Refusal::new(OTHER, format!("a drive of '{}' has no place; bring it back first", info.name));
        let configured = |name| policy(info, name).map(|(configured, _)| configured);
        let create = CreateVolume {
            name: info.name.clone(),
            level: info.level.clone(),
            drives: places.ok_or_else(unknown)?,
            spans: (info.spans > 1).then_some(info.spans),
            copies: (info.level == "raid1e").then_some(info.copies),
            strip_bytes: Some(info.strip_bytes),
            arrangement: info.arrangement.clone(),
            size_bytes: Some(info.capacity_bytes),
            write_mode: configured("write-mode").and_then(WriteMode::named),
            read_mode: configured("read-mode").and_then(ReadMode::named),
            cache_mode: configured("cache-mode").and_then(CacheMode::named),
            drive_cache: configured("drive-cache").and_then(DriveCache::named),
            sector_format: configured("sector").and_then(SectorFormat::named),
            ..CreateVolume::default()
        };
        commands.push(Command::VolumeCreate(create));
    }
    for spare in &view.metrics.spares {
        let unknown =
            || Refusal::new(OTHER, format!("the spare {} has no place; bring it back first", spare.drive));
        commands.push(Command::SpareAdd(AddSpare {
            drive: place(&spare.drive).ok_or_else(unknown)?,
            volumes: spare.dedicated_to.clone(),
            same_enclosure: spare.kind == SpareKind::Enclosure,
            revertible: spare.revertible,
            destroy_data: false,
        }));
    }
    let commands = serde_json::to_value(commands).map_err(|error| Refusal::new(OTHER, error.to_string()))?;
    Ok(
        json!({ "kind": KIND, "host": around.host_name, "serial": view.metrics.controller.serial, "commands": commands }),
    )
}

/// Makes what a file says.
pub(super) fn set(file: &Word, machine: &mut dyn Machine) -> Answer {
    let Some(path) = file.value.as_deref().filter(|path| !path.is_empty()) else {
        return Answer::unsupported();
    };
    let done =
        machine.read(path).map_err(|why| Refusal::new(OTHER, why)).and_then(|text| carry_out(&text, machine));
    outcome("-", "Set Config", done)
}

fn carry_out(text: &str, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let not_ours = |why: &str| Refusal::invalid(format!("that is no file of 'get config': {why}"));
    let mut document: Value = serde_json::from_str(text).map_err(|error| not_ours(&error.to_string()))?;
    if document.get("kind").and_then(Value::as_str) != Some(KIND) {
        return Err(not_ours("it does not say so"));
    }
    let commands = document.get_mut("commands").map(Value::take).unwrap_or_default();
    let commands: Vec<Command> =
        serde_json::from_value(commands).map_err(|error| not_ours(&error.to_string()))?;
    let view = View::look(machine).map_err(|answer| Refusal::new(OTHER, answer.description))?;
    // All of it is understood before anything is made.
    let mut ready = Vec::new();
    for command in commands {
        ready.push(match command {
            Command::VolumeCreate(create) => {
                let drives =
                    create.drives.iter().map(|drive| named(&view, drive)).collect::<Result<_, _>>()?;
                Command::VolumeCreate(CreateVolume { drives, destroy_data: false, ..create })
            }
            Command::SpareAdd(spare) => {
                let drive = named(&view, &spare.drive)?;
                Command::SpareAdd(AddSpare { drive, destroy_data: false, ..spare })
            }
            _ => return Err(not_ours("it has other commands than those that make volumes and spares")),
        });
    }
    for command in ready {
        ask(machine, command)?;
    }
    Ok(())
}

/// The name of the drive at a place.
fn named(view: &View, place: &str) -> Result<String, Refusal> {
    let wrong = || Refusal::invalid(format!("'{place}' is not a place of a drive, such as 252:0"));
    match read_places(place).ok_or_else(wrong)?[..] {
        [place] => {
            Ok(view.at(place).map_err(|why| Refusal::new(crate::codes::NOT_FOUND, why))?.drive.name.clone())
        }
        _ => Err(wrong()),
    }
}
