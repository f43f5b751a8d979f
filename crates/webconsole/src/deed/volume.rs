//! Actions for a volume.

use super::{ConsoleAction, Field, FormValues, deed};
use crate::words::shell_word;
use controller::{Command, StartTask, Startable};

pub(super) fn of_volume(verb: &str, of: &str, asked: &FormValues<'_>) -> Option<ConsoleAction> {
    let volume = of.to_owned();
    let name = shell_word(of);
    let start = |what| {
        Command::TaskStart(StartTask { what, volume: Some(of.to_owned()), ..StartTask::default() })
    };
    let made = match verb {
        "check" => {
            let cli = format!("softroc task start check {name}");
            deed("check", of, format!("Check {of}"), start(Startable::Check), cli)
        }
        "repair" => {
            let cli = format!("softroc task start check {name} --repair");
            deed("repair", of, format!("Check and repair {of}"), start(Startable::Repair), cli)
        }
        "flush" => {
            let cli = format!("softroc volume flush {name}");
            deed("flush", of, format!("Flush {of}"), Command::VolumeFlush { volume }, cli)
        }
        "start" => {
            let command =
                Command::VolumeStart { volume, accept_stale_parity: false, degraded: false };
            deed(
                "start",
                of,
                format!("Start {of}"),
                command,
                format!("softroc volume start {name}"),
            )
        }
        "rename" => {
            let word = asked.word("word");
            let command = Command::VolumeSet { volume, name: word.to_owned() };
            let to = if word.is_empty() { "NEW-NAME".to_owned() } else { shell_word(word) };
            let made = deed(
                "rename",
                of,
                format!("Rename {of}"),
                command,
                format!("softroc volume rename {name} {to}"),
            );
            ConsoleAction { fields: vec![Field::typed("word", "New name")], ..made }
        }
        "delete" => {
            let command = Command::VolumeDelete { volume, disconnect_hosts: false };
            let cli = format!("softroc volume delete {name} --yes");
            let question = format!("All data of {of} is lost. To confirm, type its name");
            let fields = vec![Field::typed("word", question)];
            ConsoleAction {
                fields,
                only: Some(of.to_owned()),
                ..deed("delete", of, format!("Delete {of}"), command, cli)
            }
        }
        _ => return None,
    };
    Some(made)
}
