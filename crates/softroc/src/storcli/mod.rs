//! `softroc storcli`, also under the names of StorCLI and PercCLI.

mod surroundings;

use crate::control::Control;
use crate::{output, render};
use config::{Difference, Document};
use control_api::ConfigReply;
use controller::{Command, ErrorKind, Reply};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use storcli::{Machine, Program};

/// The program names of StorCLI, and those of PercCLI.
const STORCLI: [&str; 2] = ["storcli64", "storcli"];
const PERCCLI: [&str; 2] = ["perccli64", "perccli"];

/// The program with that name.
fn called(name: &OsString) -> Option<Program> {
    let name = Path::new(name).file_name()?.to_str()?;
    let is = |names: [&str; 2]| names.contains(&name);
    if is(STORCLI) { Some(Program::StorCli) } else { is(PERCCLI).then_some(Program::PercCli) }
}

/// The command line as one of `softroc storcli`, if the program name or the command selects it;
/// otherwise unchanged.
pub fn as_command(arguments: Vec<OsString>) -> Result<Vec<OsString>, Vec<OsString>> {
    let is_called = arguments.first().and_then(called).is_some();
    if !is_called {
        let is_one = arguments.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-'));
        return if is_one.is_some_and(|word| word == "storcli") {
            Ok(arguments)
        } else {
            Err(arguments)
        };
    }
    let words = arguments.into_iter().skip(1);
    Ok(["softroc", "storcli", "--"].map(OsString::from).into_iter().chain(words).collect())
}

/// Runs a StorCLI command, prints its output, and returns its exit code.
pub fn run(control: &Control, words: &[String]) -> ExitCode {
    let program = std::env::args_os().next().as_ref().and_then(called).unwrap_or(Program::StorCli);
    let answer = storcli::run(words, &surroundings::look(program), &mut ThisHost { control });
    match output::print(&answer.text) {
        Ok(()) => ExitCode::from(answer.code),
        Err(failure) => failure.report(false),
    }
}

/// This machine and its controller.
struct ThisHost<'a> {
    control: &'a Control,
}

impl Machine for ThisHost<'_> {
    fn ask(&mut self, command: &Command) -> controller::Result<Reply> {
        control_api::client::call(self.control.place(), command)
    }

    fn read(&mut self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        output::write_bytes(Path::new(path), text.as_bytes()).map_err(|failure| failure.to_string())
    }

    fn configuration(&mut self) -> controller::Result<String> {
        match control_api::client::configuration(self.control.place(), None)? {
            ConfigReply::Configuration { document } => document.written(),
            ConfigReply::Differences { .. } => Err(unexpected()),
        }
    }

    fn restore(&mut self, file: &str) -> controller::Result<Vec<String>> {
        let document = serde_json::to_value(Document::read(file)?)
            .map_err(|error| controller::Error::new(ErrorKind::Failed, error.to_string()))?;
        let order = json!({ "document": document, "dry_run": false, "create": true });
        let ConfigReply::Differences { differences, .. } =
            control_api::client::configuration(self.control.place(), Some(&order))?
        else {
            return Err(unexpected());
        };
        // Objects that are missing in the file stay, without an error.
        let is_left =
            |one: &&Difference| one.failure.is_some() || one.stays.is_some() && one.file.is_some();
        Ok(differences.iter().filter(is_left).map(|one| render::config::line(one, false)).collect())
    }
}

fn unexpected() -> controller::Error {
    controller::Error::new(ErrorKind::Failed, "unexpected answer of the controller; see its log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_says_whose_words_follow() {
        let read = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            as_command(words).map(|words| {
                let words: Vec<String> =
                    words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
                words.join(" ")
            })
        };
        assert_eq!(
            read("/opt/x/storcli64 /c0 show J").as_deref(),
            Ok("softroc storcli -- /c0 show J")
        );
        assert_eq!(read("perccli -v").as_deref(), Ok("softroc storcli -- -v"));
        assert_eq!(
            read("softroc --state=/x storcli /c0 show").as_deref(),
            Ok("softroc --state=/x storcli /c0 show")
        );
        assert!(read("softroc volume show storcli").is_err());
        assert_eq!(called(&"/usr/bin/perccli64".into()), Some(Program::PercCli));
        assert_eq!(called(&"softroc".into()), None);
    }
}
