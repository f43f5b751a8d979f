//! Who asked for what: every event of a change says it, and a change that no event tells of gets one.

use super::Commands;
use crate::events::EventCode;
use crate::interface::{Caller, Command, Reply, Result};

/// A change that was asked for, for its event.
pub(super) struct Order {
    /// The command's name.
    verb: String,
    /// What it is about, if it names something.
    subject: String,
    /// The rest of the command, as JSON.
    fields: String,
}

impl Order {
    /// What a command asks.
    pub(super) fn of(command: &Command) -> Order {
        let mut value = serde_json::to_value(command).unwrap_or_default();
        let text = |field: &str| value.get(field)?.as_str().map(str::to_owned);
        let verb = text("command").unwrap_or_default();
        let subject = text("volume").or_else(|| text("drive")).or_else(|| text("name"));
        if let Some(fields) = value.as_object_mut() {
            fields.remove("command");
        }
        Order { verb, subject: subject.unwrap_or_else(|| "controller".to_owned()), fields: value.to_string() }
    }
}

impl Commands {
    /// A change is done, or was refused. If it is done and `told` nothing of it, an event tells who asked for it.
    pub(super) fn note_asked(
        &self,
        caller: Option<&Caller>,
        asked: &Order,
        told: bool,
        result: &Result<Reply>,
    ) {
        let (Some(caller), Ok(_), false) = (caller, result, told) else { return };
        let Order { verb, subject, fields } = asked;
        let text = format!("{caller} had '{verb}' carried out: {fields}");
        let cause = format!("{caller} asked for it");
        let tell = || self.events.report(EventCode::ControllerCommand, subject, &cause, verb, text);
        self.events.doing(Some(caller), tell);
    }
}
