//! `softroc help TOPIC`: tables that are too long for the help of a command.

use crate::cli::Cli;
use crate::output::table;
use clap::{Arg, CommandFactory};
use controller::EventCode;
use std::ffi::OsString;

/// Prints a topic.
type Topic = fn() -> String;

const TOPICS: &[(&str, Topic)] =
    &[("options", options), ("levels", layout::reference), ("event-codes", event_codes)];

/// The text of a topic, if the command line asks for one: `softroc help TOPIC`.
pub fn asked(arguments: &[OsString]) -> Option<String> {
    let [_, help, topic] = arguments else { return None };
    let (_, text) = TOPICS.iter().find(|(name, _)| help == "help" && topic == name)?;
    Some(text())
}

/// The options of every command.
fn options() -> String {
    let command = Cli::command();
    let row = |option: &Arg| {
        let values = option.get_value_names().filter(|_| option.get_action().takes_values());
        let value = values.into_iter().flatten().next();
        let name = option.get_long().map(|long| format!("--{long}"));
        let usage = [name, value.map(|value| format!("<{value}>"))].into_iter().flatten();
        let variable = option.get_env().map(|name| format!(" [env: {}]", name.to_string_lossy()));
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        vec![usage.collect::<Vec<_>>().join(" "), format!("{help}{}", variable.unwrap_or_default())]
    };
    let rows: Vec<Vec<String>> =
        command.get_arguments().filter(|one| one.is_global_set()).map(row).collect();
    format!("Options of every command:\n\n{}", table(&["option", "meaning"], &rows, &[]))
}

fn event_codes() -> String {
    let row = |code: &EventCode| {
        vec![code.code().to_owned(), code.severity().to_string(), code.meaning().to_owned()]
    };
    let rows: Vec<Vec<String>> = EventCode::ALL.iter().map(row).collect();
    table(&["code", "severity", "meaning"], &rows, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> Option<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        asked(&words)
    }

    fn usage(words: &[&str]) -> String {
        Cli::parsed(words.iter().map(OsString::from).collect()).expect_err("help").to_string()
    }

    #[test]
    fn topics_are_printed_and_commands_are_left_to_their_own_help() {
        let options = help(&["softroc", "help", "options"]).expect("a topic");
        for option in ["--socket <PATH>", "--state <DIR>", "SOFTROC_STATE", "--json  "] {
            assert!(options.contains(option), "{options}");
        }
        let codes = help(&["softroc", "help", "event-codes"]).expect("a topic");
        assert_eq!(codes.lines().count(), EventCode::ALL.len() + 1);
        assert!(help(&["softroc", "help", "levels"]).expect("a topic").contains("### RAID 6"));
        for other in
            [&["softroc", "help", "events"][..], &["softroc", "help"], &["softroc", "levels"]]
        {
            assert_eq!(help(other), None, "{other:?}");
        }
    }

    #[test]
    fn options_of_every_command_are_listed_once() {
        let show = usage(&["softroc", "volume", "show", "--help"]);
        assert!(show.contains("--all") && !show.contains("--fingerprint"), "{show}");
        assert!(show.contains("softroc help options"), "{show}");
        let root = usage(&["softroc", "--help"]);
        assert!(root.contains("--state"), "{root}");
    }
}
