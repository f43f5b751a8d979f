//! An answer: its status, and what there is to tell; both forms of it.

use crate::tree::{Column, Pairs, Table, Value, column, number, text};
use crate::{Surroundings, json, text as plain};

/// What is answered for a controller.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The controller that was named; `None` for what names none.
    pub(crate) controller: Option<u32>,
    /// Whether it was done.
    pub(crate) good: bool,
    pub(crate) description: String,
    /// What was done and refused, one by one.
    pub(crate) detailed: Option<Box<Table>>,
    pub(crate) data: Data,
    /// The exit code of a failure.
    pub(crate) code: u8,
}

/// What there is to tell besides the status.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Nothing,
    Pairs(Pairs),
    /// Rows without a name.
    List(Table),
    /// Rows in JSON, other text in the text form.
    Told(Pairs, String),
}

/// The exit code where no number says more.
const FAILURE: u8 = 1;

/// What StorCLI says where it does not know a number for it.
pub(crate) const OTHER: u16 = 255;

/// Columns of what was done for controllers.
const OF_CONTROLLER: &[Column] =
    &[column("Ctrl"), column("Status"), column("Property"), column("ErrMsg"), column("ErrCd")];

impl Answer {
    /// Done, with a description.
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

    /// Something was looked at.
    pub(crate) fn shown(data: Pairs) -> Answer {
        Answer { data: Data::Pairs(data), ..Answer::done("None") }
    }

    /// Not done, and why: a description alone.
    pub(crate) fn failed(description: impl Into<String>) -> Answer {
        Answer { good: false, code: FAILURE, ..Answer::done(description) }
    }

    /// There is no such command.
    pub(crate) fn unsupported() -> Answer {
        Answer::failed("Un-supported command")
    }

    /// The words cannot be understood.
    pub(crate) fn syntax(what: &str) -> Answer {
        Answer { controller: None, ..Answer::failed(format!("syntax error, unexpected {what}")) }
    }

    /// Refused by the controller as a whole: a sentence and a number.
    pub(crate) fn refused(property: &str, message: impl Into<String>, code: u16) -> Answer {
        let row = vec![number(0), text("Failed"), text(property), text(message), number(code)];
        Answer {
            detailed: Some(Box::new(Table::new(OF_CONTROLLER, vec![row]))),
            code: exit_code(code),
            ..Answer::failed("None")
        }
    }

    /// The same, of an error of the controller.
    pub(crate) fn error(property: &str, error: &controller::Error) -> Answer {
        Answer::refused(property, error.message.clone(), crate::codes::of_error(error.kind))
    }

    /// The same answer with other words.
    pub(crate) fn described(self, description: impl Into<String>) -> Answer {
        Answer { description: description.into(), ..self }
    }

    fn status(&self) -> &'static str {
        if self.good { "Success" } else { "Failure" }
    }

    /// As text.
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

    /// As JSON, one of a list.
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
            self.detailed.clone().map(|detailed| ("Detailed Status".into(), Value::Table(*detailed))),
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

/// The exit code of a number of an error; never that of a success.
pub(crate) fn exit_code(code: u16) -> u8 {
    u8::try_from(code).ok().filter(|code| *code > 0).unwrap_or(FAILURE)
}
