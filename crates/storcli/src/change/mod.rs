//! What is changed: words in, commands of the controller out, one after the other.

mod config;
mod controller;
mod create;
mod drive;
mod foreign;
mod property;
mod reshape;
mod schedule;
mod settings;
mod volume;
mod wanted;

use crate::answer::{Answer, exit_code};
use crate::tree::{Column, Table, Value, column, left, number, text};
use crate::view::View;
use crate::words::{What, Word};
use crate::{Machine, codes};
use ::controller::{Command, Reply};

/// Any verb but `show`.
pub(crate) fn answer(what: &What, words: &[Word], machine: &mut dyn Machine) -> Answer {
    if !is_verb(words)
        || matches!(what, What::Absent | What::Bbu | What::Cv | What::Groups(_) | What::Enclosures(_))
    {
        return Answer::unsupported();
    }
    let view = match View::look(machine) {
        Ok(view) => view,
        Err(answer) => return answer,
    };
    match what {
        What::Controller => controller::answer(&view, words, machine),
        What::Drives { enclosures, slots } => {
            drive::answer(&view, enclosures.as_ref(), slots, words, machine)
        }
        What::Volumes(numbers) => volume::answer(&view, numbers, words, machine),
        What::Foreign(numbers) => foreign::answer(numbers, words, machine),
        What::Absent | What::Bbu | What::Cv | What::Groups(_) | What::Enclosures(_) => Answer::unsupported(),
    }
}

/// Whether the first word is a verb of the grammar.
fn is_verb(words: &[Word]) -> bool {
    const VERBS: &[&str] = &[
        "add",
        "del",
        "delete",
        "set",
        "get",
        "start",
        "stop",
        "pause",
        "resume",
        "insert",
        "import",
        "expand",
        "flushcache",
        "fc",
        "spinup",
        "spindown",
    ];
    words.first().is_some_and(|word| VERBS.contains(&word.bare()))
}

/// Why something is refused: a sentence and a number.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) code: u16,
}

impl Refusal {
    pub(crate) fn new(code: u16, message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), code }
    }

    /// A value that cannot be, or is not there in software.
    pub(crate) fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(codes::INVALID, message)
    }
}

impl From<::controller::Error> for Refusal {
    fn from(error: ::controller::Error) -> Refusal {
        Refusal { code: codes::of_error(error.kind), message: error.message }
    }
}

/// Asks for a change.
pub(crate) fn ask(machine: &mut dyn Machine, command: Command) -> Result<Reply, Refusal> {
    Ok(machine.ask(&command)?)
}

/// What was done to each of several things, in a word: its name, and why it was refused if it was.
pub(crate) struct Outcomes {
    /// Of what, and how it is called: `VD`, `Drive`.
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<(Value, Result<(), Refusal>)>,
}

/// Outcomes of volumes.
pub(crate) const OF_VOLUMES: &[Column] =
    &[column("VD"), left("Operation"), left("Status"), column("ErrCd"), left("ErrMsg")];

/// Outcomes of drives.
pub(crate) const OF_DRIVES: &[Column] = &[left("Drive"), left("Status"), column("ErrCd"), left("ErrMsg")];

impl Outcomes {
    /// As an answer: `what` succeeded, or failed for one of them.
    pub(crate) fn answer(self, what: &str, operation: &str) -> Answer {
        let code =
            self.rows.iter().find_map(|(_, outcome)| outcome.as_ref().err().map(|refusal| refusal.code));
        let with_operation = self.columns.iter().any(|column| column.name == "Operation");
        let row = |(name, outcome): (Value, Result<(), Refusal>)| {
            let (status, code, message) = match outcome {
                Ok(()) => ("Success", 0, "-".to_owned()),
                Err(refusal) if with_operation => ("Failed", refusal.code, refusal.message),
                Err(refusal) => ("Failure", refusal.code, refusal.message),
            };
            let mut row = vec![name];
            row.extend(with_operation.then(|| text(operation)));
            row.extend([text(status), number(code), text(message)]);
            row
        };
        let table = Box::new(Table::new(self.columns, self.rows.into_iter().map(row).collect()));
        match code {
            None => Answer { detailed: Some(table), ..Answer::done(format!("{what} Succeeded.")) },
            Some(code) => Answer {
                detailed: Some(table),
                code: exit_code(code),
                ..Answer::failed(format!("{what} Failed."))
            },
        }
    }
}

/// One outcome of the controller as a whole.
pub(crate) fn outcome(property: &str, what: &str, done: Result<(), Refusal>) -> Answer {
    match done {
        Ok(()) => Answer::done(format!("{what} Succeeded.")),
        Err(refusal) => {
            Answer::refused(property, refusal.message, refusal.code).described(format!("{what} Failed."))
        }
    }
}

/// Whether `force` is among words, and nothing else.
pub(crate) fn only_force(words: &[Word]) -> Option<bool> {
    match words.iter().map(Word::bare).collect::<Vec<_>>()[..] {
        [] => Some(false),
        ["force"] => Some(true),
        _ => None,
    }
}
