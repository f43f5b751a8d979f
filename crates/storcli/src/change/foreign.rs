//! `/cN/fall import`, `/cN/fall del`.

use super::{Refusal, ask, outcome};
use crate::Machine;
use crate::answer::Answer;
use crate::codes::WRONG_STATE;
use crate::show::{foreign_list, none_foreign_found, nothing_foreign};
use crate::words::{Numbers, Word};
use controller::{Command, ForeignVolume, Reply};

/// `import [preview]`, `del`.
pub(super) fn answer(numbers: &Numbers, words: &[Word], machine: &mut dyn Machine) -> Answer {
    // Foreign groups have no stable numbers: only all together can be selected.
    if *numbers != Numbers::All || words.iter().any(|word| word.key == "securitykey") {
        return Answer::unsupported();
    }
    let bare: Vec<&str> = words.iter().map(Word::bare).collect();
    if !matches!(bare[..], ["import"] | ["import", "preview"] | ["del"] | ["delete"]) {
        return Answer::unsupported();
    }
    let (volumes, drives) = match foreign_list(machine) {
        Ok(list) => list,
        Err(answer) => return answer,
    };
    if volumes.is_empty() && drives.is_empty() {
        return if bare[0] == "import" { nothing_foreign() } else { none_foreign_found() };
    }
    match bare[..] {
        ["import"] => outcome("-", "Import foreign configuration", import(&volumes, machine)),
        ["import", "preview"] => {
            let obstacle = volumes.iter().find_map(|volume| volume.obstacle.clone());
            let told = obstacle.map_or(Ok(()), |why| Err(Refusal::new(WRONG_STATE, why)));
            outcome("-", "Preview of foreign configuration", told)
        }
        _ => {
            let clearable: Vec<String> = drives
                .iter()
                .filter(|drive| drive.clearable)
                .map(|drive| drive.name.clone())
                .collect();
            let done = match clearable.is_empty() {
                true => Err(Refusal::new(
                    WRONG_STATE,
                    "no foreign drive can be cleared; 'softroc foreign list' shows the reasons",
                )),
                false => ask(machine, Command::ForeignClear { drives: clearable }).map(|_| ()),
            };
            match done {
                Ok(()) => Answer::done("Successfully deleted foreign configuration"),
                refused => outcome("-", "Delete foreign configuration", refused),
            }
        }
    }
}

/// Imports all foreign volumes; those that share drives are imported together.
fn import(volumes: &[ForeignVolume], machine: &mut dyn Machine) -> Result<(), Refusal> {
    let mut imported: Vec<&str> = Vec::new();
    let mut refused = None;
    for volume in volumes {
        if imported.iter().any(|name| volume.together_with.iter().any(|other| other == name)) {
            continue;
        }
        let command = Command::ForeignImport { volume: volume.identity.clone(), name: None };
        match ask(machine, command) {
            Ok(Reply::Imported { .. }) => {
                imported.extend([volume.name.as_str(), volume.identity.as_str()])
            }
            Ok(_) => {
                return Err(Refusal::new(
                    255,
                    "the controller sent an unexpected reply; see its log",
                ));
            }
            Err(refusal) => refused = Some(refusal),
        }
    }
    refused.map_or(Ok(()), Err)
}
