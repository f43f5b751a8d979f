//! Changes: words become commands of the controller, executed in order.

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
use crate::words::{Object, Word};
use crate::{Machine, codes};
use ::controller::{Command, Reply};

/// All verbs except `show`.
pub(crate) fn answer(what: &Object, words: &[Word], machine: &mut dyn Machine) -> Answer {
    if !is_verb(words)
        || matches!(
            what,
            Object::Absent | Object::Bbu | Object::Cv | Object::Groups(_) | Object::Enclosures(_)
        )
    {
        return Answer::unsupported();
    }
    let view = match View::look(machine) {
        Ok(view) => view,
        Err(answer) => return answer,
    };
    match what {
        Object::Controller => controller::answer(&view, words, machine),
        Object::Drives { enclosures, slots } => {
            drive::answer(&view, enclosures.as_ref(), slots, words, machine)
        }
        Object::Volumes(numbers) => volume::answer(&view, numbers, words, machine),
        Object::Foreign(numbers) => foreign::answer(numbers, words, machine),
        Object::Absent | Object::Bbu | Object::Cv | Object::Groups(_) | Object::Enclosures(_) => {
            Answer::unsupported()
        }
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

/// The reason of a refusal: a sentence and a number.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) code: u16,
}

impl Refusal {
    pub(crate) fn new(code: u16, message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), code }
    }

    /// An invalid value, or a function that software does not have.
    pub(crate) fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(codes::INVALID, message)
    }
}

impl From<::controller::Error> for Refusal {
    fn from(error: ::controller::Error) -> Refusal {
        Refusal { code: codes::of_error(error.kind), message: error.message }
    }
}

/// Sends a command that changes something.
pub(crate) fn ask(machine: &mut dyn Machine, command: Command) -> Result<Reply, Refusal> {
    Ok(machine.ask(&command)?)
}

/// The results for several objects: their names, and the reasons of refusals.
pub(crate) struct Outcomes {
    /// The kind of objects: `VD`, `Drive`.
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<(Value, Result<(), Refusal>)>,
}

/// Columns of results for volumes.
pub(crate) const OF_VOLUMES: &[Column] =
    &[column("VD"), left("Operation"), left("Status"), column("ErrCd"), left("ErrMsg")];

/// Columns of results for drives.
pub(crate) const OF_DRIVES: &[Column] =
    &[left("Drive"), left("Status"), column("ErrCd"), left("ErrMsg")];

impl Outcomes {
    /// The reply: `what` succeeded, or failed for an object.
    pub(crate) fn answer(self, what: &str, operation: &str) -> Answer {
        let code = self
            .rows
            .iter()
            .find_map(|(_, outcome)| outcome.as_ref().err().map(|refusal| refusal.code));
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

/// The result for the controller as a whole.
pub(crate) fn outcome(property: &str, what: &str, done: Result<(), Refusal>) -> Answer {
    match done {
        Ok(()) => Answer::done(format!("{what} Succeeded.")),
        Err(refusal) => Answer::refused(property, refusal.message, refusal.code)
            .described(format!("{what} Failed.")),
    }
}

/// Whether `force` is the only word.
pub(crate) fn only_force(words: &[Word]) -> Option<bool> {
    match words.iter().map(Word::bare).collect::<Vec<_>>()[..] {
        [] => Some(false),
        ["force"] => Some(true),
        _ => None,
    }
}
