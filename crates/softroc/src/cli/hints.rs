//! Tests that the command line accepts every command that a message recommends: names, options,
//! number of operands.
//!
//! The test searches the source text for quoted commands: `run 'softroc drive online {name}'`. It
//! replaces placeholders by sample values. `tests/hints.rs` tests that a command has the promised
//! effect.

use super::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Placeholders for a whole word, and their possible values.
const WORDS: &[(&str, &[&str])] = &[
    ("{verb} --yes", &["fail --yes", "offline --yes", "suspend --yes"]),
    ("--sector {}", &["--sector 512e"]),
    ("{verb}", &["fail", "offline", "suspend", "resume", "online"]),
    ("{2}", &["online", "resume"]),
    ("{too}", &[""]),
    ("{least}", &["operator"]),
    ("ROLE", &["operator"]),
    ("LEVEL", &["raid5"]),
    ("SIZE", &["1G"]),
    ("DRIVE=NUMBER", &["d=1"]),
    ("{id}", &["7"]),
    ("{number}", &["7"]),
    ("{host}:{port}", &["h:1"]),
];

/// Names of commands in running text, which are not complete commands.
const MENTIONS: &[&str] = &[
    "softroc top | cat",
    "softroc notify set {name} …",
    "softroc bench --json-file",
    "softroc bench export --json-file",
    "softroc serve --manage",
    "softroc volume set --preset",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The quoted commands of a source text, without its comments.
fn hints(text: &str) -> BTreeSet<String> {
    // A string continues after the leading spaces of the next line.
    let joined: String = text
        .split("\\\n")
        .enumerate()
        .map(|(nth, piece)| if nth == 0 { piece } else { piece.trim_start() })
        .collect();
    let code: Vec<&str> =
        joined.lines().map(str::trim_start).filter(|line| !line.starts_with("//")).collect();
    let text = code.join("\n");
    let quoted = text.split("'softroc ").skip(1).filter_map(|rest| rest.split_once('\''));
    let is_one = |hint: &&str| !hint.contains(['\n', '"']);
    quoted.map(|(hint, _)| hint).filter(is_one).map(|hint| format!("softroc {hint}")).collect()
}

/// All variants of a message: every value of a placeholder word, and a sample value for other
/// placeholders.
fn made(hint: &str) -> Vec<String> {
    let mut made = vec![hint.to_owned()];
    for (name, words) in WORDS {
        if hint.contains(name) {
            made = made
                .iter()
                .flat_map(|text| words.iter().map(|word| text.replace(name, word)))
                .collect();
        }
    }
    let stand_in = |text: &String| {
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let (_, behind) = after.split_once('}').unwrap_or(("", ""));
            // A drive, a volume and a number may all be `7`.
            out.push_str(before);
            out.push('7');
            rest = behind;
        }
        out + rest
    };
    made.iter().map(stand_in).collect()
}

/// The syntax error of a command, if any. Messages may omit operands.
fn misunderstood(command: &str) -> Option<String> {
    let words: Vec<&str> =
        command.split_whitespace().map(|word| word.trim_end_matches("...")).collect();
    let all: Vec<std::ffi::OsString> = words.iter().map(std::ffi::OsString::from).collect();
    if crate::topics::asked(&all).is_some() {
        return None;
    }
    match Cli::try_parse_from(words) {
        Ok(_) => None,
        Err(error) => match error.kind() {
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::TooFewValues
            | ErrorKind::WrongNumberOfValues => None,
            _ => {
                Some(format!("{command}: {}", error.to_string().lines().next().unwrap_or_default()))
            }
        },
    }
}

#[test]
fn every_command_that_a_message_tells_to_run_is_understood() {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).expect("the crates").flatten() {
        sources(&entry.path().join("src"), &mut files);
    }
    let mut all = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("cli/hints.rs")) {
        all.extend(hints(&std::fs::read_to_string(file).expect("a source text")));
    }
    assert!(all.len() > 100, "they are found: {}", all.len());
    let wrong: Vec<String> = all
        .iter()
        .filter(|hint| !MENTIONS.contains(&hint.as_str()))
        .flat_map(|hint| made(hint))
        .filter_map(|command| misunderstood(&command))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let text = "x(\"run 'softroc volume name {} NEW'; or 'softroc drive {verb} {0}'\");\n\
        // 'softroc nothing'\n";
    let found = hints(text);
    let expected = ["softroc drive {verb} {0}", "softroc volume name {} NEW"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert!(misunderstood("softroc volume name 7 NEW").is_some());
    assert_eq!(made("softroc drive {verb} {0}")[1], "softroc drive offline 7");
    assert!(
        made("softroc drive {verb} {0}").iter().all(|command| misunderstood(command).is_none())
    );
}
