//! A reply: its status and data, as text and as JSON.

use crate::tree::{Column, Pairs, Table, Value, column, number, text};
use crate::{Surroundings, json, text as plain};

/// The reply for a controller.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The controller number of the command, if it has one.
    pub(crate) controller: Option<u32>,
    /// Whether the command succeeded.
    pub(crate) good: bool,
    pub(crate) description: String,
    /// Detailed results per object.
    pub(crate) detailed: Option<Box<Table>>,
    pub(crate) data: Data,
    /// The exit code of a failure.
    pub(crate) code: u8,
}

/// The data of a reply.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Nothing,
    Pairs(Pairs),
    /// Rows without names.
    List(Table),
    /// Rows in JSON, other text in the text form.
    Told(Pairs, String),
}

/// The exit code without a specific number.
const FAILURE: u8 = 1;

/// StorCLI's number for errors without one.
pub(crate) const OTHER: u16 = 255;

/// Columns of results per controller.
const OF_CONTROLLER: &[Column] =
    &[column("Ctrl"), column("Status"), column("Property"), column("ErrMsg"), column("ErrCd")];

impl Answer {
    /// A success with a description.
    pub(crate) fn done(description: impl Into<String>) -> Answer {
        Answer {
            controller: Some(0),
            good: true,
            description: description.into(),
            detailed: None,
            data: Data::Nothing,
            code: 0,
        }
    }

    /// Displayed data.
    pub(crate) fn shown(data: Pairs) -> Answer {
        Answer { data: Data::Pairs(data), ..Answer::done("None") }
    }

    /// A failure with only a description.
    pub(crate) fn failed(description: impl Into<String>) -> Answer {
        Answer { good: false, code: FAILURE, ..Answer::done(description) }
    }

    /// An unknown command.
    pub(crate) fn unsupported() -> Answer {
        Answer::failed("Un-supported command")
    }

    /// A syntax error.
    pub(crate) fn syntax(what: &str) -> Answer {
        Answer { controller: None, ..Answer::failed(format!("syntax error, unexpected {what}")) }
    }

    /// Refused for the controller as a whole: a sentence and a number.
    pub(crate) fn refused(property: &str, message: impl Into<String>, code: u16) -> Answer {
        let row = vec![number(0), text("Failed"), text(property), text(message), number(code)];
        Answer {
            detailed: Some(Box::new(Table::new(OF_CONTROLLER, vec![row]))),
            code: exit_code(code),
            ..Answer::failed("None")
        }
    }

    /// The same for an error of the controller.
    pub(crate) fn error(property: &str, error: &controller::Error) -> Answer {
        Answer::refused(property, error.message.clone(), crate::codes::of_error(error.kind))
    }

    /// The reply with another description.
    pub(crate) fn described(self, description: impl Into<String>) -> Answer {
        Answer { description: description.into(), ..self }
    }

    fn status(&self) -> &'static str {
        if self.good { "Success" } else { "Failure" }
    }

    /// The text form.
    pub(crate) fn text(&self, around: &Surroundings) -> String {
        let mut out = String::new();
        plain::line(&mut out, "CLI Version", &around.cli_version());
        plain::line(&mut out, "Operating system", &around.operating_system);
        match self.controller {
            Some(controller) => plain::line(&mut out, "Controller", &controller.to_string()),
            None => plain::line(&mut out, "Status Code", &self.code.to_string()),
        }
        plain::line(&mut out, "Status", self.status());
        plain::line(&mut out, "Description", &self.description);
        out.push('\n');
        if let Some(detailed) = &self.detailed {
            plain::section(&mut out, "Detailed Status");
            plain::table(&mut out, detailed);
        }
        match &self.data {
            Data::Nothing => {}
            Data::Pairs(pairs) => plain::pairs(&mut out, pairs),
            Data::List(table) => {
                out.push('\n');
                plain::table(&mut out, table);
            }
            Data::Told(_, told) => out.push_str(told),
        }
        while out.ends_with("\n\n") {
            out.pop();
        }
        out
    }

    /// The JSON form, one element of a list.
    pub(crate) fn json(&self, around: &Surroundings) -> String {
        let mut status: Pairs = vec![
            ("CLI Version".into(), text(around.cli_version())),
            ("Operating system".into(), text(&around.operating_system)),
        ];
        status.push(match self.controller {
            Some(controller) => ("Controller".into(), number(controller)),
            None => ("Status Code".into(), number(self.code)),
        });
        status.push(("Status".into(), text(self.status())));
        status.push(("Description".into(), text(&self.description)));
        status.extend(
            self.detailed
                .clone()
                .map(|detailed| ("Detailed Status".into(), Value::Table(*detailed))),
        );
        let mut out = String::from("{\n\t\"Command Status\" : ");
        json::pairs(&mut out, &status, 1);
        match &self.data {
            Data::Nothing => {}
            Data::Pairs(pairs) | Data::Told(pairs, _) => {
                out.push_str(",\n\t\"Response Data\" : ");
                json::pairs(&mut out, pairs, 1);
            }
            Data::List(table) => {
                out.push_str(",\n\t\"Response Data\" : ");
                json::list(&mut out, table, 1);
            }
        }
        out.push_str("\n}");
        out
    }
}

/// The exit code of an error number; never 0.
pub(crate) fn exit_code(code: u16) -> u8 {
    u8::try_from(code).ok().filter(|code| *code > 0).unwrap_or(FAILURE)
}
