//! What can be done from a page: a command of the controller, its form, and the command line that does the same.

use crate::words::shell_word;
use crate::{Viewer, words};
use access::Action;
use askama::Template;
use controller::{AddSpare, AlarmSetting, Command, Error, ErrorKind, Result, StartTask, Startable};

/// What somebody wants to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deed {
    /// What the controller is asked.
    pub command: Command,
    verb: &'static str,
    of: String,
    /// What the button says.
    label: String,
    /// The command line.
    cli: String,
    /// What has to be typed.
    typed: Option<Typed>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Typed {
    /// What is asked.
    question: String,
    /// What alone will do, where one does; otherwise it is a part of the command.
    only: Option<String>,
}

/// Everything that can be done from a page.
pub(crate) const VERBS: &[&str] = &[
    "alarm-silence",
    "task-pause",
    "task-resume",
    "task-stop",
    "check",
    "repair",
    "flush",
    "start",
    "rename",
    "delete",
    "locate-on",
    "locate-off",
    "online",
    "clear-failed",
    "forget",
    "spare-add",
    "spare-remove",
];

/// What a form sends.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// What is to be done.
    pub verb: String,
    /// To what.
    pub of: String,
    /// What was typed.
    pub word: String,
}

impl Deed {
    /// What a form asks for.
    ///
    /// # Errors
    /// `NotFound` if there is no such verb; `Invalid` if what had to be typed was not.
    pub fn read(sent: &Sent) -> Result<Deed> {
        let deed = Deed::of(&sent.verb, &sent.of, sent.word.trim())?;
        match deed.typed.as_ref().and_then(|typed| typed.only.as_ref()) {
            Some(only) if only != sent.word.trim() => {
                let sentence = format!("type '{only}' for '{}'; nothing was done", deed.label);
                Err(Error::new(ErrorKind::Invalid, sentence))
            }
            _ => Ok(deed),
        }
    }

    /// The address of the page that is shown when it is accepted: the one from which it was asked, unless that goes with it.
    pub fn then(&self, back: &str) -> String {
        let goes = matches!(
            self.command,
            Command::VolumeDelete { .. } | Command::DriveForget { .. } | Command::VolumeSet { .. }
        );
        let back = if goes { "/console/" } else { back };
        let sign = if back.contains('?') { '&' } else { '?' };
        format!("{back}{sign}asked={}", self.verb)
    }

    /// `word`: what was typed, where the command has it.
    pub(crate) fn of(verb: &str, of: &str, word: &str) -> Result<Deed> {
        let of_tasks = ["task-pause", "task-resume", "task-stop"];
        let deed = match verb {
            "alarm-silence" => Some(silence()),
            _ if of_tasks.contains(&verb) => of_task(verb, of)?,
            _ => of_volume(verb, of, word).or_else(|| of_drive(verb, of)),
        };
        let unknown = || {
            let sentence = format!("there is no '{verb}' in the console; 'softroc help' lists what there is");
            Error::new(ErrorKind::NotFound, sentence)
        };
        deed.ok_or_else(unknown)
    }

    /// Its form, on a page of that address.
    pub(crate) fn form(&self, viewer: &Viewer, back: &str) -> String {
        let refusal = viewer.caller.may(Action::of(&self.command)).err();
        words::rendered(&Form {
            deed: self,
            token: &viewer.token,
            back,
            refusal: refusal.map(|error| error.message),
        })
    }
}

/// The forms of several deeds. A verb that there is not is a mistake of this room, which its tests find.
pub(crate) fn forms(viewer: &Viewer, back: &str, of: &str, verbs: &[&str]) -> Vec<String> {
    let deeds = verbs.iter().filter_map(|verb| Deed::of(verb, of, "").ok());
    deeds.map(|deed| deed.form(viewer, back)).collect()
}

#[derive(Template)]
#[template(path = "deed.html")]
struct Form<'d> {
    deed: &'d Deed,
    token: &'d str,
    back: &'d str,
    /// Why whoever looks may not.
    refusal: Option<String>,
}

fn deed(verb: &'static str, of: &str, label: String, command: Command, cli: String) -> Deed {
    Deed { command, verb, of: of.to_owned(), label, cli, typed: None }
}

fn silence() -> Deed {
    let command = Command::AlarmSet { to: AlarmSetting::Silence };
    deed("alarm-silence", "", "Silence the alarm".to_owned(), command, "softroc alarm silence".to_owned())
}

fn of_task(verb: &str, of: &str) -> Result<Option<Deed>> {
    let wrong = || {
        let sentence = format!("'{of}' is no number of a task; 'softroc task list' has them");
        Error::new(ErrorKind::Invalid, sentence)
    };
    let task: u64 = of.parse().map_err(|_| wrong())?;
    let (verb, word, label, command) = match verb {
        "task-pause" => ("task-pause", "pause", "Pause", Command::TaskPause { task }),
        "task-resume" => ("task-resume", "resume", "Resume", Command::TaskResume { task }),
        "task-stop" => ("task-stop", "stop", "Stop", Command::TaskStop { task }),
        _ => return Ok(None),
    };
    let cli = format!("softroc task {word} {task}");
    Ok(Some(deed(verb, of, format!("{label} task {task}"), command, cli)))
}

fn of_volume(verb: &str, of: &str, word: &str) -> Option<Deed> {
    let volume = of.to_owned();
    let name = shell_word(of);
    let start =
        |what| Command::TaskStart(StartTask { what, volume: Some(of.to_owned()), ..StartTask::default() });
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
            let command = Command::VolumeStart { volume, accept_stale_parity: false, degraded: false };
            deed("start", of, format!("Start {of}"), command, format!("softroc volume start {name}"))
        }
        "rename" => {
            let command = Command::VolumeSet { volume, name: word.to_owned() };
            let to = if word.is_empty() { "NEW-NAME".to_owned() } else { shell_word(word) };
            let made = deed(
                "rename",
                of,
                format!("Rename {of}"),
                command,
                format!("softroc volume rename {name} {to}"),
            );
            Deed { typed: Some(Typed { question: "New name".to_owned(), only: None }), ..made }
        }
        "delete" => {
            let command = Command::VolumeDelete { volume, disconnect_hosts: false };
            let cli = format!("softroc volume delete {name} --yes");
            let question = format!("All data of {of} are lost. Type its name");
            let typed = Some(Typed { question, only: Some(of.to_owned()) });
            Deed { typed, ..deed("delete", of, format!("Delete {of}"), command, cli) }
        }
        _ => return None,
    };
    Some(made)
}

fn of_drive(verb: &str, of: &str) -> Option<Deed> {
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
