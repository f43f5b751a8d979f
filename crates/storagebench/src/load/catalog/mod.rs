//! The catalog of load profiles: built-in profiles, and files that users add.
//!
//! The built-in profiles are this project's TOML files in `catalog/workloads/`. A user's file has
//! the same form (`docs/plan/profiles.md`).

mod read;
mod write;

use crate::error::{Error, ErrorKind, Result};
use crate::load::profile::{Profile, wrong};
use crate::load::profile::{options, parse_access_text, parse_inline};
use std::sync::OnceLock;

/// The built-in files, in the order of lists.
const BUILTIN: [(&str, &str); 6] = [
    (
        "catalog/workloads/standard.toml",
        include_str!("../../../../../catalog/workloads/standard.toml"),
    ),
    (
        "catalog/workloads/applications.toml",
        include_str!("../../../../../catalog/workloads/applications.toml"),
    ),
    (
        "catalog/workloads/enterprise.toml",
        include_str!("../../../../../catalog/workloads/enterprise.toml"),
    ),
    (
        "catalog/workloads/iometer.toml",
        include_str!("../../../../../catalog/workloads/iometer.toml"),
    ),
    ("catalog/workloads/sweeps.toml", include_str!("../../../../../catalog/workloads/sweeps.toml")),
    ("catalog/workloads/basic.toml", include_str!("../../../../../catalog/workloads/basic.toml")),
];

/// One workload of a catalog: a profile, or a family of profiles that differ in one parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Other names of it.
    pub aliases: Vec<String>,
    /// A description in a line.
    pub prose: String,
    /// The source of its definition.
    pub source: String,
    /// The profile, or the members of a family in order.
    pub profiles: Vec<Profile>,
}

/// A group of workloads: one file of a catalog.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its name, which selects all its profiles.
    pub name: String,
    /// A description in a line.
    pub prose: String,
    /// In file order.
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
/// let description = "90% random, 55% read, 4 KiB to 32 KiB, 80% of it to 16 GiB";
/// assert_eq!(profiles[0].description(), description);
/// assert_eq!(catalog.select("standard")?.len(), 5);
/// # storagebench::Result::Ok(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Catalog {
    groups: Vec<Group>,
}

impl Catalog {
    /// The built-in catalog.
    pub fn builtin() -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| {
            let mut catalog = Catalog::default();
            for (file, text) in BUILTIN {
                catalog
                    .read(file, text)
                    .expect("a test reads the files that are part of the program");
            }
            catalog
        })
    }

    /// Adds the workloads of a TOML file. `file` is its name in errors.
    ///
    /// # Errors
    /// A sentence with the file, the line and the key, when the file is invalid. Also when a name
    /// is taken: a profile never changes its meaning.
    pub fn read(&mut self, file: &str, text: &str) -> Result<()> {
        let group = read::group(file, text)?;
        self.add(file, group)
    }

    /// Adds a group. `origin` is its source, for errors.
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
                || group
                    .entries
                    .iter()
                    .flat_map(Entry::names)
                    .any(|known| known.eq_ignore_ascii_case(name))
        })
    }

    /// All groups, in the order of lists.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The profiles of a group; empty if the group does not exist.
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
        if let Some(entry) =
            entries().find(|entry| is(&entry.name) || entry.aliases.iter().any(|a| is(a)))
        {
            return entry.profiles.clone();
        }
        entries()
            .flat_map(|entry| &entry.profiles)
            .filter(|profile| is(profile.name()))
            .cloned()
            .collect()
    }

    /// The profiles that `text` selects: a profile, a family, a group, or an inline form
    /// (`random,67%read,8K`); each optionally with options (`database,rate=5000/s`).
    ///
    /// # Errors
    /// When the text is unknown or invalid.
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
            "{part}'{first}' is not a load profile; choose one of {} or another that 'softroc \
                bench profiles' lists, or describe one, such as random,67%read,8K",
            names.join(", ")
        ))
    }
}

impl Group {
    /// All its profiles, in file order.
    pub fn profiles(&self) -> Vec<Profile> {
        self.entries.iter().flat_map(|entry| entry.profiles.clone()).collect()
    }
}

impl Entry {
    /// All its names, including those of its profiles.
    fn names(&self) -> impl Iterator<Item = &str> {
        let own = std::iter::once(&self.name).chain(&self.aliases).map(String::as_str);
        let members = self.profiles.iter().map(Profile::name).filter(|name| *name != self.name);
        own.chain(members)
    }
}

fn taken(origin: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::BadProfile,
        format!(
            "{origin}: the name '{name}' is taken by another load profile or group; choose another \
                name"
        ),
    )
}

/// The options of any profile: key, example value, description.
pub fn profile_options() -> Vec<[&'static str; 3]> {
    options().iter().map(|option| [option.key, option.value, option.prose]).collect()
}

#[cfg(test)]
mod tests;
