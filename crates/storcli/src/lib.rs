//! The StorCLI grammar for SoftROC: parses its command line, sends [`Command`]s to the controller,
//! and formats the reply as text or JSON (`docs/operate/storcli.md`).
//!
//! Tools for controllers of that family can read and change SoftROC. Unsupported functions are
//! refused in the same format, with a number and a sentence; no option is ignored.
//!
//! | module | content |
//! | --- | --- |
//! | `words` | the grammar: objects, verbs, words |
//! | `view` | the state of the controller, with StorCLI's numbers |
//! | `show`, `change` | queries; changes |
//! | `answer` | status, description, data |
//! | `tree`, `text`, `json` | values, and their two forms |
//! | `forms`, `codes` | sizes and times; numbers of errors and events |
//! | `help` | the help text |
//!
//! The crate does no I/O: its caller implements [`Machine`].

mod answer;
mod change;
mod codes;
mod forms;
mod help;
mod json;
mod show;
mod text;
mod tree;
mod view;
mod words;

pub use codes::of_event;

use answer::Answer;
use controller::{Command, Reply};
use words::{Object, OutputFormat, ParsedCommand};

/// The functions of the machine that the grammar needs.
pub trait Machine {
    /// Sends a command to the controller.
    ///
    /// # Errors
    /// Errors of the command.
    fn ask(&mut self, command: &Command) -> controller::Result<Reply>;

    /// Reads a file of the operator.
    ///
    /// # Errors
    /// The reason, as a sentence.
    fn read(&mut self, path: &str) -> Result<String, String>;

    /// Writes a file for the operator.
    ///
    /// # Errors
    /// The reason, as a sentence.
    fn write(&mut self, path: &str, text: &str) -> Result<(), String>;

    /// The controller's configuration, in the format of `softroc config save`.
    ///
    /// # Errors
    /// Errors of the request.
    fn configuration(&mut self) -> controller::Result<String>;

    /// Restores such a file, and creates its volumes on unused drives. Returns the remaining
    /// differences, one line each.
    ///
    /// # Errors
    /// An invalid file; errors of the request.
    fn restore(&mut self, file: &str) -> controller::Result<Vec<String>>;
}

/// The emulated program: the two differ in a few names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// StorCLI.
    StorCli,
    /// PercCLI.
    PercCli,
}

/// Facts about the machine for replies.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The program.
    pub program: Program,
    /// The host name.
    pub host_name: String,
    /// `Linux` and its release.
    pub operating_system: String,
    /// Seconds since 1970.
    pub now_unix_s: u64,
    /// The processor's temperature, if known.
    pub temperature_c: Option<i64>,
    /// The memory size.
    pub memory_bytes: u64,
    /// Corrected and uncorrected memory errors, as the kernel counts them.
    pub memory_errors: (u64, u64),
}

/// The version of the grammar.
const GRAMMAR: &str = "007.2707.0000.0000";

impl Surroundings {
    fn cli_version(&self) -> String {
        format!("{GRAMMAR} SoftROC {}", env!("CARGO_PKG_VERSION"))
    }

    fn version_line(&self) -> String {
        let name = match self.program {
            Program::StorCli => "StorCli",
            Program::PercCli => "PercCli",
        };
        format!("\n     {name} SAS Customization Utility Ver {}\n", self.cli_version())
    }
}

/// Output and exit code of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Standard output.
    pub text: String,
    /// 0 after a success.
    pub code: u8,
}

/// Executes a command line, without the program's name.
pub fn run(words: &[String], around: &Surroundings, machine: &mut dyn Machine) -> Output {
    let (form, asked) = words::read(words);
    let answers = match asked {
        Err(answer) => vec![answer],
        Ok(ParsedCommand::Version) => return Output { text: around.version_line(), code: 0 },
        Ok(ParsedCommand::Help) => return Output { text: help::text(around), code: 0 },
        Ok(ParsedCommand::Overview(words)) => vec![show::overview(&words, around, machine)],
        Ok(ParsedCommand::About { controllers, what, words }) => {
            let missing =
                controllers.named().into_iter().filter(|number| *number != 0).map(|number| {
                    Answer {
                        controller: Some(number),
                        ..Answer::failed(format!("Controller {number} not found"))
                    }
                });
            let here = controllers.has(0).then(|| about(&what, &words, around, machine));
            here.into_iter().chain(missing).collect()
        }
    };
    let code = answers.iter().find(|answer| !answer.good).map_or(0, |answer| answer.code);
    let text = match form {
        OutputFormat::Text => {
            let texts: Vec<String> = answers.iter().map(|answer| answer.text(around)).collect();
            texts.join("\n\n")
        }
        OutputFormat::Json => {
            let all: Vec<String> = answers.iter().map(|answer| answer.json(around)).collect();
            format!("{{\n\"Controllers\":[\n{}\n]\n}}\n", all.join(",\n"))
        }
    };
    Output { text, code }
}

/// Executes a command for the only controller.
fn about(
    what: &Object,
    words: &[words::Word],
    around: &Surroundings,
    machine: &mut dyn Machine,
) -> Answer {
    let Some((verb, rest)) = words.split_first() else { return Answer::syntax("$end") };
    match verb.bare() {
        "show" => show::answer(what, rest, around, machine),
        _ => change::answer(what, words, machine),
    }
}
