//! The catalog of load profiles: what is built in, and what users add.
//!
//! The built-in profiles are the TOML files in `catalog/workloads/` of this project, which are part of the
//! program; a user's file has the same form (`docs/plan/profiles.md`).

mod read;
mod write;

use crate::error::{Error, ErrorKind, Result};
use crate::load::profile::{Profile, wrong};
use crate::load::profile::{options, parse_access_text, parse_inline};
use std::sync::OnceLock;

/// The files that are part of the program, in the order in which lists show them.
const BUILTIN: [(&str, &str); 6] = [
    ("catalog/workloads/standard.toml", include_str!("../../../../../catalog/workloads/standard.toml")),
    (
        "catalog/workloads/applications.toml",
        include_str!("../../../../../catalog/workloads/applications.toml"),
    ),
    ("catalog/workloads/enterprise.toml", include_str!("../../../../../catalog/workloads/enterprise.toml")),
    ("catalog/workloads/iometer.toml", include_str!("../../../../../catalog/workloads/iometer.toml")),
    ("catalog/workloads/sweeps.toml", include_str!("../../../../../catalog/workloads/sweeps.toml")),
    ("catalog/workloads/basic.toml", include_str!("../../../../../catalog/workloads/basic.toml")),
];

/// One workload of a catalog: a profile, or a family of profiles that differ in one thing.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// What it stands for, in a line.
    pub prose: String,
    /// Where its definition comes from.
    pub source: String,
    /// One, or the members of a family in their order.
    pub profiles: Vec<Profile>,
}

/// Workloads that belong together: one file of a catalog.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its name, which stands for all its profiles.
    pub name: String,
    /// What they have in common, in a line.
    pub prose: String,
    /// In the order of the file.
    pub entries: Vec<Entry>,
}

/// Load profiles by name.
///
/// ```
/// use storagebench::Catalog;
/// let mut catalog = Catalog::builtin().clone();
/// catalog.read("mine.toml", r#"
///     group = "mine"
///     prose = "what our servers see"
///
///     [[workload]]
///     name = "mail-store"
///     prose = "our mail store on a Monday morning"
///     source = "traced in March"
///     random = 90
///     read = 55
///     blocks = { "4K" = 30, "32K" = 70 }
///     hot = "80%:16G"
/// "#)?;
/// let profiles = catalog.select("mail-store")?;
/// assert_eq!(profiles[0].description(), "90% random, 55% read, 4 KiB to 32 KiB, 80% of it to 16 GiB");
/// assert_eq!(catalog.select("standard")?.len(), 5);
/// # storagebench::Result::Ok(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Catalog {
    groups: Vec<Group>,
}

impl Catalog {
    /// What is part of the program.
    pub fn builtin() -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| {
            let mut catalog = Catalog::default();
            for (file, text) in BUILTIN {
                catalog.read(file, text).expect("a test reads the files that are part of the program");
            }
            catalog
        })
    }

    /// Adds the workloads of a TOML file. `file` is how it was named.
    ///
    /// # Errors
    /// When it cannot be understood: the sentence names the file, the line and the key. When a name is taken:
    /// a profile keeps its meaning.
    pub fn read(&mut self, file: &str, text: &str) -> Result<()> {
        let group = read::group(file, text)?;
        self.add(file, group)
    }

    /// Adds a group. `origin` is where it comes from, for sentences.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn add(&mut self, origin: &str, group: Group) -> Result<()> {
        let mut seen: Vec<&str> = vec![&group.name];
        for name in group.entries.iter().flat_map(Entry::names) {
            let twice = seen.iter().any(|seen| seen.eq_ignore_ascii_case(name));
            if twice || parse_access_text(name).is_some() {
                return Err(taken(origin, name));
            }
            seen.push(name);
        }
        if let Some(name) = seen.into_iter().find(|name| self.knows(name)) {
            return Err(taken(origin, name));
        }
        self.groups.push(group);
        Ok(())
    }

    fn knows(&self, name: &str) -> bool {
        self.groups.iter().any(|group| {
            group.name.eq_ignore_ascii_case(name)
                || group.entries.iter().flat_map(Entry::names).any(|known| known.eq_ignore_ascii_case(name))
        })
    }

    /// All there is, in the order in which lists show it.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The profiles of a group; none if there is no such group.
    pub fn group(&self, name: &str) -> Vec<Profile> {
        self.groups.iter().filter(|group| group.name == name).flat_map(Group::profiles).collect()
    }

    fn named(&self, name: &str) -> Vec<Profile> {
        let group = self.group(name);
        if !group.is_empty() {
            return group;
        }
        let entries = || self.groups.iter().flat_map(|group| &group.entries);
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        if let Some(entry) = entries().find(|entry| is(&entry.name) || entry.aliases.iter().any(|a| is(a))) {
            return entry.profiles.clone();
        }
        entries().flat_map(|entry| &entry.profiles).filter(|profile| is(profile.name())).cloned().collect()
    }

    /// What `text` names: a profile, a family, a group, or one described in a line
    /// (`random,67%read,8K`); any of them changed by options (`database,rate=5000/s`).
    ///
    /// # Errors
    /// When it names nothing or cannot be understood.
    pub fn select(&self, text: &str) -> Result<Vec<Profile>> {
        let plain = text.trim().to_ascii_lowercase();
        let parts: Vec<&str> = plain.split(',').map(str::trim).collect();
        let [first, given @ ..] = &parts[..] else { return Err(self.unknown(text, &plain)) };
        if let Some(random_percent) = parse_access_text(first) {
            return Ok(vec![parse_inline(text, random_percent, &parts)?]);
        }
        let profiles = self.named(&first.replace(['_', ' '], "-"));
        if profiles.is_empty() {
            return Err(self.unknown(text, first));
        }
        if given.is_empty() {
            return Ok(profiles);
        }
        profiles.iter().map(|profile| profile.with_options(text, given)).collect()
    }

    fn unknown(&self, text: &str, first: &str) -> Error {
        let names: Vec<String> =
            self.group("standard").iter().map(|profile| profile.name().to_owned()).collect();
        let part = if text == first { String::new() } else { format!("in '{text}', ") };
        wrong(format!(
            "{part}'{first}' is not a load profile; choose one of {} or another that 'softroc bench profiles' lists, or describe one, such as random,67%read,8K",
            names.join(", ")
        ))
    }
}

impl Group {
    /// All its profiles, in the order of the file.
    pub fn profiles(&self) -> Vec<Profile> {
        self.entries.iter().flat_map(|entry| entry.profiles.clone()).collect()
    }
}

impl Entry {
    /// Every name it answers to, those of its profiles included.
    fn names(&self) -> impl Iterator<Item = &str> {
        let own = std::iter::once(&self.name).chain(&self.aliases).map(String::as_str);
        let members = self.profiles.iter().map(Profile::name).filter(|name| *name != self.name);
        own.chain(members)
    }
}

fn taken(origin: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::BadProfile,
        format!("{origin}: the name '{name}' is taken by another load profile or group; choose another name"),
    )
}

/// The options that may stand behind any profile: key, what its value looks like, and what it does.
pub fn profile_options() -> Vec<[&'static str; 3]> {
    options().iter().map(|option| [option.key, option.value, option.prose]).collect()
}

#[cfg(test)]
mod tests;
