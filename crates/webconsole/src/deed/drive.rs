//! Actions for a drive.

use super::{ConsoleAction, Field, FormValues, deed};
use crate::World;
use crate::advice::is_out;
use crate::stage::ArraySlot;
use crate::words::shell_word;
use controller::{AddSpare, Command};

fn locate(of: &str, on: bool) -> ConsoleAction {
    let (verb, label, flag) =
        if on { ("locate-on", "Locate", "") } else { ("locate-off", "Stop locating", " --off") };
    let cli = format!("softroc drive locate {}{flag}", shell_word(of));
    let command = Command::DriveLocate { drive: of.to_owned(), on };
    deed(verb, of, format!("{label} {of}"), command, cli)
}

pub(super) fn of_drive(verb: &str, of: &str) -> Option<ConsoleAction> {
    let drive = of.to_owned();
    let name = shell_word(of);
    let made = match verb {
        "locate-on" | "locate-off" => locate(of, verb == "locate-on"),
        "online" => {
            let cli = format!("softroc drive online {name}");
            deed(
                "online",
                of,
                format!("Bring {of} back online"),
                Command::DriveOnline { drive },
                cli,
            )
        }
        "resume" => {
            let cli = format!("softroc drive resume {name}");
            deed("resume", of, format!("Resume {of}"), Command::DriveResume { drive }, cli)
        }
        "clear-failed" => {
            let cli = format!("softroc drive clear-failed {name}");
            deed(
                "clear-failed",
                of,
                format!("Clear failed state of {of}"),
                Command::DriveClearFailed { drive },
                cli,
            )
        }
        "forget" => {
            let cli = format!("softroc drive forget {name}");
            deed("forget", of, format!("Unregister {of}"), Command::DriveForget { drive }, cli)
        }
        "spare-add" => {
            let command =
                Command::SpareAdd(AddSpare { drive, revertible: true, ..AddSpare::default() });
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
                format!("Remove hot spare {of}"),
                Command::SpareRemove { drive },
                cli,
            )
        }
        _ => return None,
    };
    Some(made)
}

/// Replaces a drive. A working drive needs its serial number as confirmation.
pub(super) fn replace(world: &World, of: &str, asked: &FormValues<'_>) -> ConsoleAction {
    let (with, destroy) = (asked.word("with"), asked.is_ticked("destroy"));
    let command = Command::DriveReplace {
        drive: of.to_owned(),
        with: with.to_owned(),
        destroy_data: destroy,
    };
    let (label, new) = match with.is_empty() {
        true => (format!("Replace {of} by this drive"), "NEW-DRIVE".to_owned()),
        false => (format!("Replace {of} by {with}"), shell_word(with)),
    };
    let overwrite = if destroy { " --destroy-data" } else { "" };
    let cli = format!("softroc drive replace {} --with {new}{overwrite}", shell_word(of));
    let proof = ArraySlot::named(world, of)
        .filter(|place| !is_out(place.drive.state))
        .map(|place| place.proof());
    let mut fields = match with.is_empty() {
        true => vec![Field::typed("with", "Path on this machine")],
        false => vec![Field::said("with", with)],
    };
    fields.push(Field::tick("destroy", "Overwrite data on the new drive (--destroy-data)"));
    if let Some(proof) = &proof {
        let question = format!("The old drive works. To confirm, type its serial number, {proof}");
        fields.push(Field::typed("word", question));
    }
    ConsoleAction { fields, only: proof, ..deed("replace", of, label, command, cli) }
}
