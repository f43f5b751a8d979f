//! `/cN/fall show [all]`: foreign configurations on drives.

use crate::Machine;
use crate::answer::Answer;
use crate::codes::WRONG_STATE;
use crate::forms::size;
use crate::tree::{Column, Table, Value, column, left, number, pairs, right, text};
use crate::words::Word;
use controller::{Command, ForeignDrive, ForeignVolume, Reply};

/// Foreign volumes and drives.
pub(crate) fn list(
    machine: &mut dyn Machine,
) -> Result<(Vec<ForeignVolume>, Vec<ForeignDrive>), Answer> {
    match machine.ask(&Command::ForeignList {}) {
        Ok(Reply::Foreign { volumes, drives }) => Ok((volumes, drives)),
        Ok(_) => Err(Answer::failed("the controller sent an unexpected reply; see its log")),
        Err(error) => Err(Answer::error("-", &error)),
    }
}

/// No foreign configuration: the reply to queries and deletions.
pub(crate) fn none_found() -> Answer {
    let none = pairs([("Total Foreign PDs", number(0))]);
    Answer::shown(none).described("Couldn't find any foreign Configuration")
}

/// No foreign configuration: the reply to queries of details and to imports.
pub(crate) fn nothing() -> Answer {
    Answer::refused("-", "No foreign configuration found.", WRONG_STATE)
}

const VOLUMES: &[Column] = &[
    column("DG"),
    left("EID:Slot"),
    left("Type"),
    left("State"),
    right("Size"),
    column("NoVDs"),
    left("Name"),
];

/// `/cN/fall show [all]`.
pub(super) fn answer(words: &[Word], machine: &mut dyn Machine) -> Answer {
    if words.iter().any(|word| word.key == "securitykey") {
        return Answer::refused("securitykey", "drive encryption is not supported", 255);
    }
    let all = match words.iter().map(Word::bare).collect::<Vec<_>>()[..] {
        [] => false,
        ["all"] => true,
        _ => return Answer::unsupported(),
    };
    let (volumes, drives) = match list(machine) {
        Ok(list) => list,
        Err(answer) => return answer,
    };
    if volumes.is_empty() && drives.is_empty() {
        return if all { nothing() } else { none_found() };
    }
    let rows = volumes.iter().enumerate().map(|(at, volume)| volume_row(at, volume)).collect();
    let mut data = pairs([
        ("FOREIGN CONFIGURATION", Value::Table(Table::new(VOLUMES, rows))),
        ("Total foreign Drive Groups", number(volumes.len())),
        ("Total Foreign PDs", number(drives.len())),
    ]);
    if all {
        const COLUMNS: &[Column] =
            &[left("Drive"), left("Holds"), left("Clearable"), left("Reason")];
        let row = |drive: &ForeignDrive| {
            vec![
                text(&drive.name),
                text(drive.holds.join(", ")),
                text(if drive.clearable { "Yes" } else { "No" }),
                text(drive.reason.as_deref().unwrap_or("-")),
            ]
        };
        let table = Table::new(COLUMNS, drives.iter().map(row).collect());
        data.push(("Foreign PD LIST".into(), Value::Table(table)));
    }
    Answer::shown(data).described("Operation on foreign configuration Succeeded")
}

fn volume_row(at: usize, volume: &ForeignVolume) -> Vec<Value> {
    let state = match volume.state.as_str() {
        "complete" => "Optl",
        "degraded" => "Dgrd",
        _ => "OfLn",
    };
    let name = if volume.name.is_empty() { &volume.identity } else { &volume.name };
    vec![
        number(at),
        text("-"),
        text(volume.level.to_ascii_uppercase().replace([' ', '-'], "")),
        text(state),
        text(size(volume.size_bytes)),
        number(1),
        text(name),
    ]
}
