//! What can be done with a drive.

use super::{Asked, Deed, Field, deed};
use crate::World;
use crate::advice::is_out;
use crate::stage::Place;
use crate::words::shell_word;
use controller::{AddSpare, Command};

pub(super) fn of_drive(verb: &str, of: &str) -> Option<Deed> {
    let drive = of.to_owned();
    let name = shell_word(of);
    let made = match verb {
        "locate-on" | "locate-off" => {
            let on = verb == "locate-on";
            let (verb, label, flag) =
                if on { ("locate-on", "Light", "") } else { ("locate-off", "Stop lighting", " --off") };
            let cli = format!("softroc drive locate {name}{flag}");
            deed(verb, of, format!("{label} {of}"), Command::DriveLocate { drive, on }, cli)
        }
        "online" => {
            let cli = format!("softroc drive online {name}");
            deed("online", of, format!("Bring {of} back online"), Command::DriveOnline { drive }, cli)
        }
        "resume" => {
            let cli = format!("softroc drive resume {name}");
            deed("resume", of, format!("Use {of} again"), Command::DriveResume { drive }, cli)
        }
        "clear-failed" => {
            let cli = format!("softroc drive clear-failed {name}");
            deed("clear-failed", of, format!("Trust {of} again"), Command::DriveClearFailed { drive }, cli)
        }
        "forget" => {
            let cli = format!("softroc drive forget {name}");
            deed("forget", of, format!("Unregister {of}"), Command::DriveForget { drive }, cli)
        }
        "spare-add" => {
            let command = Command::SpareAdd(AddSpare { drive, revertible: true, ..AddSpare::default() });
            deed(
                "spare-add",
                of,
                format!("Make {of} a hot spare"),
                command,
                format!("softroc spare add {name}"),
            )
        }
        "spare-remove" => {
            let cli = format!("softroc spare remove {name}");
            deed(
                "spare-remove",
                of,
                format!("{of} is no hot spare any more"),
                Command::SpareRemove { drive },
                cli,
            )
        }
        _ => return None,
    };
    Some(made)
}

/// Another drive into a place. One that serves is named by its serial number, so that nobody replaces a good drive by mistake.
pub(super) fn replace(world: &World, of: &str, asked: &Asked<'_>) -> Deed {
    let (with, destroy) = (asked.word("with"), asked.is_ticked("destroy"));
    let command =
        Command::DriveReplace { drive: of.to_owned(), with: with.to_owned(), destroy_data: destroy };
    let (label, new) = match with.is_empty() {
        true => (format!("Replace {of} by that drive"), "NEW-DRIVE".to_owned()),
        false => (format!("Replace {of} by {with}"), shell_word(with)),
    };
    let overwrite = if destroy { " --destroy-data" } else { "" };
    let cli = format!("softroc drive replace {} --with {new}{overwrite}", shell_word(of));
    let proof = Place::named(world, of).filter(|place| !is_out(place.drive.state)).map(|place| place.proof());
    let mut fields = match with.is_empty() {
        true => vec![Field::typed("with", "Its path on this machine")],
        false => vec![Field::said("with", with)],
    };
    fields.push(Field::tick("destroy", "Overwrite what it holds (--destroy-data)"));
    if let Some(proof) = &proof {
        let question = format!("The drive that is replaced works. Type its serial number, {proof}");
        fields.push(Field::typed("word", question));
    }
    Deed { fields, only: proof, ..deed("replace", of, label, command, cli) }
}
