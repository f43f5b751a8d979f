//! Imports workloads of other tools as load profiles: fio job files, Iometer configurations.
//!
//! An importer reads the options that describe the load. A note names each ignored or changed line.
//! A job or an access specification that cannot be imported is refused alone; the others are
//! imported.
//!
//! | module | contents |
//! | --- | --- |
//! | `decode` | the encodings of files |
//! | `fio` | fio job files |
//! | `icf` | configurations of Iometer |

mod decode;
mod fio;
mod icf;

pub use fio::{JobHost, import_fio};
pub use icf::import_icf;

use crate::error::{Error, ErrorKind, Result};
use crate::load::catalog::{Catalog, Entry, Group};
use crate::load::profile::{Load, Profile, parse_access_text};
use std::fmt;
use std::rc::Rc;

/// A line of a file of another tool.
#[derive(Clone, Debug)]
struct Place {
    file: Rc<str>,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The reason why a job or an access specification is not imported: a sentence about its line.
#[derive(Clone, Debug)]
struct Refusal {
    place: Place,
    sentence: String,
}

/// A part of a job or of an access specification, or a refusal.
type Taken<T> = std::result::Result<T, Refusal>;

/// Refuses the content of `place`.
fn refused<T>(place: &Place, sentence: impl fmt::Display) -> Taken<T> {
    Err(Refusal { place: place.clone(), sentence: sentence.to_string() })
}

/// An error that concerns the whole file.
fn wrong(place: &Place, sentence: impl fmt::Display) -> Error {
    Error::new(ErrorKind::BadProfile, format!("{place}: {sentence}"))
}

/// The imported workloads so far, with notes.
struct Import {
    file: Rc<str>,
    group: Group,
    notes: Vec<String>,
    refusals: Vec<String>,
}

impl Import {
    fn new(file: &str, prose: &str) -> Import {
        let stem = file.rsplit('/').next().unwrap_or(file);
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        let mut name = plain_name(stem);
        if parse_access_text(&name).is_some() || Catalog::builtin().select(&name).is_ok() {
            name.push_str("-imported");
        }
        Import {
            file: file.into(),
            group: Group { name, prose: prose.to_owned(), entries: Vec::new() },
            notes: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// The position of a line in the imported file.
    fn at(&self, line: usize) -> Place {
        Place { file: self.file.clone(), line }
    }

    fn note(&mut self, place: &Place, sentence: impl fmt::Display) {
        self.notes.push(format!("{place}: {sentence}"));
    }

    /// Refuses `what`: a job, or an access specification.
    fn refuse(&mut self, what: impl fmt::Display, refusal: &Refusal) {
        let sentence = format!("{}: {what} is not imported: {}", refusal.place, refusal.sentence);
        self.refusals.push(sentence.clone());
        self.notes.push(sentence);
    }

    /// Adds a workload with the name `name` in `place`.
    fn add(
        &mut self,
        place: &Place,
        name: &str,
        prose: String,
        source: String,
        load: Load,
    ) -> Taken<()> {
        let mut plain = plain_name(name);
        let taken = |plain: &str| {
            // 'random' begins an inline profile, so it is no valid name.
            parse_access_text(plain).is_some()
                || self.group.name == plain
                || self.group.entries.iter().any(|entry| entry.name == plain)
                || Catalog::builtin().select(plain).is_ok()
        };
        if taken(&plain) {
            plain = (2..)
                .map(|at| format!("{plain}-{at}"))
                .find(|plain| !taken(plain))
                .unwrap_or_default();
        }
        let profile = Profile::new(&*plain, load).or_else(|error| refused(place, error))?;
        if plain != name {
            self.note(place, format_args!("'{name}' becomes the load profile '{plain}'"));
        }
        let profile = profile.described(&*prose, &*source);
        self.group.entries.push(Entry {
            name: plain,
            aliases: Vec::new(),
            prose,
            source,
            profiles: vec![profile],
        });
        Ok(())
    }

    /// The imported group, or an error if it is empty.
    fn finish(self, nothing: &str) -> Result<(Group, Vec<String>)> {
        if !self.group.entries.is_empty() {
            return Ok((self.group, self.notes));
        }
        match self.refusals.is_empty() {
            true => Err(wrong(&self.at(1), nothing)),
            false => Err(Error::new(ErrorKind::BadProfile, self.refusals.join("\n"))),
        }
    }
}

/// A valid catalog name: small letters, digits and dashes.
fn plain_name(name: &str) -> String {
    let dashed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.trim().chars().map(dashed).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "imported".to_owned() } else { parts.join("-") }
}
