//! Workloads of other tools as load profiles: fio job files, Iometer configurations.
//!
//! An importer takes what describes the load and says, line by line, what it leaves out or reads differently.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `fio` | fio job files |
//! | `icf` | configurations of Iometer |

mod fio;
mod icf;

pub use fio::import_fio;
pub use icf::import_icf;

use crate::error::{Error, ErrorKind, Result};
use crate::load::catalog::{Catalog, Entry, Group};
use crate::load::profile::{Load, Profile, parse_access_text};

/// Something wrong in a file of another tool.
fn wrong(file: &str, line: usize, sentence: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::BadProfile, format!("{file}:{line}: {sentence}"))
}

/// What was imported so far, and what there is to say about it.
struct Import<'a> {
    file: &'a str,
    group: Group,
    notes: Vec<String>,
}

impl<'a> Import<'a> {
    fn new(file: &'a str, prose: &str) -> Import<'a> {
        let stem = file.rsplit('/').next().unwrap_or(file);
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        let mut name = plain_name(stem);
        if parse_access_text(&name).is_some() || Catalog::builtin().select(&name).is_ok() {
            name.push_str("-imported");
        }
        Import {
            file,
            group: Group { name, prose: prose.to_owned(), entries: Vec::new() },
            notes: Vec::new(),
        }
    }

    fn note(&mut self, line: usize, sentence: impl std::fmt::Display) {
        self.notes.push(format!("{}:{line}: {sentence}", self.file));
    }

    /// Adds a workload that is named `name` in line `line`.
    fn add(&mut self, line: usize, name: &str, prose: String, source: String, load: Load) -> Result<()> {
        let mut plain = plain_name(name);
        let taken = |plain: &str| {
            // 'random' begins a profile that is described in a line, and so names none.
            parse_access_text(plain).is_some()
                || self.group.name == plain
                || self.group.entries.iter().any(|entry| entry.name == plain)
                || Catalog::builtin().select(plain).is_ok()
        };
        if taken(&plain) {
            plain = (2..).map(|at| format!("{plain}-{at}")).find(|plain| !taken(plain)).unwrap_or_default();
        }
        if plain != name {
            self.note(line, format_args!("'{name}' becomes the load profile '{plain}'"));
        }
        let profile = Profile::new(&*plain, load).map_err(|error| wrong(self.file, line, error))?;
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

    fn finish(self, nothing: &str) -> Result<(Group, Vec<String>)> {
        match self.group.entries.is_empty() {
            true => Err(wrong(self.file, 1, nothing)),
            false => Ok((self.group, self.notes)),
        }
    }
}

/// A name as the catalog has it: small letters, digits and dashes.
fn plain_name(name: &str) -> String {
    let dashed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.trim().chars().map(dashed).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "imported".to_owned() } else { parts.join("-") }
}
