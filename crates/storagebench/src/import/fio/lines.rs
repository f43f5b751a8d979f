//! The lines of a job file: sections, comments, included files, variables.
//!
//! `;` and `#` begin a comment anywhere. Options of an included file belong to the including
//! section.
//! `${NAME}` and `$NAME` are environment variables; `$pagesize`, `$mb_memory` and `$ncpus` are
//! replaced by numbers, and a value with one of these may calculate with it.

use super::super::{Import, Place, Refusal, Taken, decode, refused, wrong};
use super::{Given, Job, JobHost, METHOD, SEPARATE, SYNONYMS, TAKEN};
use crate::error::Result;
use std::rc::Rc;

/// The maximum nesting of included files.
const DEEPEST: usize = 16;
/// The maximum number of included files.
const MOST_FILES: usize = 32;
/// fio's variables that occur only in file names.
const FILE_NAMES: [&str; 4] = ["jobname", "jobnum", "filenum", "clientuid"];

/// The section of options.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Nothing,
    Global,
    Job,
}

/// A file during the import.
struct Lines<'a> {
    import: &'a mut Import,
    host: &'a dyn JobHost,
    scope: Scope,
    jobs: Vec<Job>,
    global: Vec<Rc<Given>>,
    global_refusal: Option<Refusal>,
    /// The open files, innermost last.
    open: Vec<String>,
    included: usize,
}

/// Splits a file into its jobs. Notes each ignored line once.
pub(super) fn jobs(import: &mut Import, text: &str, host: &dyn JobHost) -> Result<Vec<Job>> {
    let file = import.file.clone();
    let open = vec![plain_path(&file)];
    let mut lines = Lines {
        import,
        host,
        scope: Scope::Nothing,
        jobs: Vec::new(),
        global: Vec::new(),
        global_refusal: None,
        open,
        included: 0,
    };
    for (at, line) in text.lines().enumerate() {
        let place = Place { file: file.clone(), line: at + 1 };
        let line = without_comment(line);
        match line.strip_prefix('[') {
            _ if line.is_empty() => {}
            Some(section) => lines.section(place, section),
            None if lines.scope == Scope::Nothing => {
                let sentence = "is outside of any section; put it below [global] or a job such as \
                                [job1]";
                return Err(wrong(&place, format_args!("'{line}' {sentence}")));
            }
            None => lines.option(&place, line),
        }
    }
    Ok(lines.jobs)
}

fn without_comment(line: &str) -> &str {
    line.split([';', '#'])
        .next()
        .unwrap_or(line)
        .trim_matches(|c: char| c.is_whitespace() || c.is_control())
}

/// The path of an included file, if the line has one.
fn included(line: &str) -> Option<&str> {
    let (word, path) = line.split_once(char::is_whitespace)?;
    (word.eq_ignore_ascii_case("include") && !path.trim_start().starts_with('='))
        .then(|| path.trim())
}

impl Lines<'_> {
    fn section(&mut self, place: Place, section: &str) {
        let name = section.rsplit_once(']').map_or(section, |(name, _)| name).trim();
        // fio treats every name with this prefix as the global section.
        if name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("global")) {
            self.scope = Scope::Global;
            return;
        }
        self.scope = Scope::Job;
        let (options, refusal) = (self.global.clone(), self.global_refusal.clone());
        self.jobs.push(Job { place, name: name.to_owned(), options, refusal });
    }

    /// Reads an option of the current section, or an included file.
    fn option(&mut self, place: &Place, line: &str) {
        if let Some(path) = included(line) {
            if let Err(refusal) = self.include(place, line, path) {
                self.refuse(refusal);
            }
            return;
        }
        let given = Rc::new(given(place, line, self.host));
        if !TAKEN.contains(&&*given.key) && !SEPARATE.contains(&&*given.key) {
            note(self.import, &given);
            return;
        }
        match (self.scope, self.jobs.last_mut()) {
            (Scope::Job, Some(job)) => job.options.push(given),
            _ => self.global.push(given),
        }
    }

    /// Refuses the current job; in the global section, all following jobs.
    fn refuse(&mut self, refusal: Refusal) {
        let refused = match (self.scope, self.jobs.last_mut()) {
            (Scope::Job, Some(job)) => &mut job.refusal,
            _ => &mut self.global_refusal,
        };
        refused.get_or_insert(refusal);
    }

    fn include(&mut self, place: &Place, line: &str, path: &str) -> Taken<()> {
        let (path, unset) = expanded(path, self.host);
        if let Some(name) = unset {
            return refused(place, unset_sentence(line, &name));
        }
        let (name, text) = self.read(place, line, &path)?;
        let file: Rc<str> = name.as_str().into();
        self.open.push(name);
        let mut outcome = Ok(());
        for (at, line) in text.lines().enumerate() {
            let place = Place { file: file.clone(), line: at + 1 };
            let line = without_comment(line);
            if line.starts_with('[') {
                let sentence = "begins a section in an included file, which may hold options only; \
                    move it to the job file itself";
                outcome = refused(&place, format_args!("'{line}' {sentence}"));
                break;
            }
            if !line.is_empty() {
                self.option(&place, line);
            }
        }
        self.open.pop();
        outcome
    }

    /// The name and text of an included file. As in fio, the path is tried as given, then relative
    /// to the including file.
    fn read(&mut self, place: &Place, line: &str, path: &str) -> Taken<(String, String)> {
        let beside = match place.file.rsplit_once('/') {
            Some((folder, _)) if !path.starts_with('/') => plain_path(&format!("{folder}/{path}")),
            _ => plain_path(path),
        };
        let as_named = plain_path(path);
        let read = self.host.read(&as_named).map(|content| (as_named.clone(), content));
        let read = read.or_else(|_| self.host.read(&beside).map(|content| (beside, content)));
        let (name, content) = match read {
            Ok(read) => read,
            Err(why) => {
                let way_out = "correct its path, or copy its lines here";
                return refused(
                    place,
                    format_args!("the file of '{line}' cannot be read ({why}); {way_out}"),
                );
            }
        };
        if self.open.contains(&name) || self.open.len() > DEEPEST {
            return refused(
                place,
                format_args!(
                    "'{line}' includes a file that includes this one, or is more than {DEEPEST} \
                        files deep; remove the line"
                ),
            );
        }
        self.included += 1;
        if self.included > MOST_FILES {
            return refused(
                place,
                format_args!(
                    "'{line}' is one file more than the {MOST_FILES} that may be included; join \
                        some"
                ),
            );
        }
        Ok((name, decode::text(&content)))
    }
}

/// A path without `.`, so that a file has one name.
fn plain_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("{root}{}", parts.join("/"))
}

fn given(place: &Place, line: &str, host: &dyn JobHost) -> Given {
    let (text, unset) = expanded(line, host);
    let (key, value) = text.split_once('=').unwrap_or((&text, ""));
    let key = key.trim().to_ascii_lowercase();
    let key =
        SYNONYMS.iter().find(|(other, _)| *other == key).map_or(key, |(_, key)| (*key).to_owned());
    let value = value.trim().trim_matches('"');
    // fio calculates values with its variables even without brackets.
    let calculates =
        line.contains('$') && value.contains(['*', '+', '/', '-']) && !value.starts_with('(');
    let value =
        match calculates && value.starts_with(|c: char| c.is_ascii_digit()) && is_formula(value) {
            true => format!("({value})"),
            false => value.to_owned(),
        };
    Given { place: place.clone(), written: line.to_owned(), key, value, unset }
}

/// Whether a value consists only of numbers and operators.
fn is_formula(value: &str) -> bool {
    value.chars().all(|c| c.is_ascii_digit() || "+-*/% ()".contains(c))
}

/// Expands variables. The second value is an unset variable.
fn expanded(text: &str, host: &dyn JobHost) -> (String, Option<String>) {
    let (mut out, mut rest, mut unset) = (String::new(), text, None);
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        let in_braces = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, after) = in_braces.unwrap_or_else(|| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            behind.split_at(behind.find(|c: char| !is_name(c)).unwrap_or(behind.len()))
        });
        rest = after;
        let number = match name {
            _ if in_braces.is_some() => None,
            "pagesize" => Some(host.page_size()),
            "ncpus" => Some(host.processors()),
            "mb_memory" => Some(host.memory_mib()),
            _ => None,
        };
        let value = match number {
            Some(number) => Some(number.to_string()),
            // A variable cannot have such a name.
            None if name.is_empty() || name.contains(['=', '\0']) => None,
            None => host.variable(name),
        };
        match value {
            Some(value) => out.push_str(&value),
            None if name.is_empty() || FILE_NAMES.contains(&name) => {
                out.push('$');
                out.push_str(name);
            }
            None => unset = Some(name.to_owned()),
        }
    }
    out.push_str(rest);
    (out, unset)
}

/// The note about a line with an unset variable.
pub(super) fn unset_sentence(line: &str, name: &str) -> String {
    format!(
        "the environment variable {name} of '{line}' is not set; set it, as in '{name}=VALUE \
            softroc bench …'"
    )
}

/// Notes that a line is ignored.
fn note(import: &mut Import, given: &Given) {
    let (key, line) = (&*given.key, &given.written);
    if key == "name" {
        return;
    }
    let instead = METHOD
        .iter()
        .find(|(method, _)| *method == key)
        .map_or("load profiles have no such option", |(_, why)| why);
    import.note(&given.place, format_args!("'{line}' is left out: {instead}"));
}
