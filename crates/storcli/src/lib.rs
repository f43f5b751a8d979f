//! The grammar of StorCLI over SoftROC: the words of its command line in, [`Command`]s of the controller and an answer out,
//! as text or as JSON (`docs/operate/storcli.md`).
//!
//! Tools that were written for controllers of that family read and change a SoftROC through it. What SoftROC does not have is
//! refused in the same form, with a number and a sentence; nothing is accepted and ignored.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `words` | the grammar: objects, verbs, words |
//! | `view` | what there is, all of one moment, by its numbers |
//! | `show` | what is looked at |
//! | `change` | what is changed |
//! | `answer` | status, description, data |
//! | `tree`, `text`, `json` | values, and their two forms |
//! | `forms`, `codes` | sizes and times; numbers of errors and events |
//! | `help` | what there is, for people |
//!
//! Nothing here touches the world: whoever runs it is a [`Machine`].

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
use words::{Asked, Form, What};

/// What the grammar needs of the machine that it runs on.
pub trait Machine {
    /// Asks the controller.
    ///
    /// # Errors
    /// Those of the command.
    fn ask(&mut self, command: &Command) -> controller::Result<Reply>;

    /// Reads a file of an operator.
    ///
    /// # Errors
    /// A sentence: why it cannot be read.
    fn read(&mut self, path: &str) -> Result<String, String>;

    /// Writes a file for an operator.
    ///
    /// # Errors
    /// A sentence: why it cannot be written.
    fn write(&mut self, path: &str, text: &str) -> Result<(), String>;

    /// The configuration of the controller, as a file that `softroc config save` writes.
    ///
    /// # Errors
    /// Those of the request.
    fn configuration(&mut self) -> controller::Result<String>;

    /// Sets what such a file has, and creates its volumes on unused drives. What is not as the file says afterwards: a line each.
    ///
    /// # Errors
    /// It is no such file; those of the request.
    fn restore(&mut self, file: &str) -> controller::Result<Vec<String>>;
}

/// Which of the two programs is asked: they differ in a few names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// StorCLI.
    StorCli,
    /// PercCLI.
    PercCli,
}

/// What the machine is, as far as answers tell it.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Which program.
    pub program: Program,
    /// The name of the machine in the network.
    pub host_name: String,
    /// `Linux` and its release.
    pub operating_system: String,
    /// Seconds since 1970.
    pub now_unix_s: u64,
    /// How hot the processor is, where that is known.
    pub temperature_c: Option<i64>,
    /// How much memory the machine has.
    pub memory_bytes: u64,
    /// Errors of memory that were corrected, and that were not, as the kernel counts them.
    pub memory_errors: (u64, u64),
}

/// The generation of the grammar that is followed.
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

/// What a command prints, and its exit code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// What goes to standard output.
    pub text: String,
    /// 0 after a success.
    pub code: u8,
}

/// Carries out a command line, without the name of the program.
pub fn run(words: &[String], around: &Surroundings, machine: &mut dyn Machine) -> Output {
    let (form, asked) = words::read(words);
    let answers = match asked {
        Err(answer) => vec![answer],
        Ok(Asked::Version) => return Output { text: around.version_line(), code: 0 },
        Ok(Asked::Help) => return Output { text: help::text(around), code: 0 },
        Ok(Asked::Overview(words)) => vec![show::overview(&words, around, machine)],
        Ok(Asked::About { controllers, what, words }) => {
            let missing =
                controllers.named().into_iter().filter(|number| *number != 0).map(|number| Answer {
                    controller: Some(number),
                    ..Answer::failed(format!("Controller {number} not found"))
                });
            let here = controllers.has(0).then(|| about(&what, &words, around, machine));
            here.into_iter().chain(missing).collect()
        }
    };
    let code = answers.iter().find(|answer| !answer.good).map_or(0, |answer| answer.code);
    let text = match form {
        Form::Text => {
            let texts: Vec<String> = answers.iter().map(|answer| answer.text(around)).collect();
            texts.join("\n\n")
        }
        Form::Json => {
            let all: Vec<String> = answers.iter().map(|answer| answer.json(around)).collect();
            format!("{{\n\"Controllers\":[\n{}\n]\n}}\n", all.join(",\n"))
        }
    };
    Output { text, code }
}

/// What is asked of the one controller there is.
fn about(what: &What, words: &[words::Word], around: &Surroundings, machine: &mut dyn Machine) -> Answer {
    let Some((verb, rest)) = words.split_first() else { return Answer::syntax("$end") };
    match verb.bare() {
        "show" => show::answer(what, rest, around, machine),
        _ => change::answer(what, words, machine),
    }
}
