//! Load profiles on the command line: the catalog and the files of the user.

use crate::cli::{BenchImport, BenchProfiles};
use crate::failure::{Failure, Outcome};
use crate::{machine, output};
use std::path::{Path, PathBuf};
use storagebench::{Catalog, Entry, Group, JobHost, Profile, profile_options};

/// The built-in catalog with the profiles of `files`: files, or folders of them.
pub fn catalog(files: &[PathBuf]) -> Outcome<Catalog> {
    let mut catalog = Catalog::builtin().clone();
    for file in files {
        for path in workload_files(file)? {
            add(&mut catalog, &path)?;
        }
    }
    Ok(catalog)
}

/// The given profiles; without any, those of the user's files, or else the standard ones.
pub fn select(catalog: &Catalog, names: &[String]) -> Outcome<Vec<Profile>> {
    if names.is_empty() {
        let users = &catalog.groups()[Catalog::builtin().groups().len()..];
        return Ok(match users {
            [] => Profile::standard(),
            users => users.iter().flat_map(Group::profiles).collect(),
        });
    }
    let mut profiles: Vec<Profile> = Vec::new();
    for name in names {
        for profile in catalog.select(name)? {
            if profiles.iter().any(|other| other.name() == profile.name()) {
                return Err(Failure::usage(format!(
                    "the load profile '{profile}' is given twice; give it once"
                )));
            }
            profiles.push(profile);
        }
    }
    Ok(profiles)
}

fn workload_files(path: &Path) -> Outcome<Vec<PathBuf>> {
    let unreadable = |error: std::io::Error| {
        Failure::refused(format!("cannot read {}: {error}", path.display()))
    };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            files.push(file);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Failure::refused(format!(
            "there is no .toml file in {}; give a folder with workload files, or a file",
            path.display()
        ))),
        false => Ok(files),
    }
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Failure::refused(format!("cannot read {}: {error}", path.display())))
}

/// The files and variables of this machine, for references in fio job files.
struct ThisMachine;

impl JobHost for ThisMachine {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        std::fs::read(path).map_err(|error| error.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn page_size(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn processors(&self) -> u64 {
        std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
    }

    fn memory_mib(&self) -> u64 {
        machine::memory_bytes().map_or(0, |memory| memory.0 >> 20)
    }
}

/// Adds a catalog file, or imports an fio job file or Iometer configuration.
fn add(catalog: &mut Catalog, path: &Path) -> Outcome {
    let (name, content) = (path.display().to_string(), read(path)?);
    match imported(path, &content)? {
        None => {
            let text = String::from_utf8(content).map_err(|_| {
                Failure::refused(format!("{name} is not UTF-8 text; save it as UTF-8"))
            })?;
            catalog.read(&name, &text)?;
        }
        Some((group, notes)) => {
            notes.iter().for_each(|note| output::say(note));
            catalog.add(&name, group)?;
        }
    }
    Ok(())
}

/// The profiles of another tool's file, and the omitted parts; `None` for a catalog file.
fn imported(path: &Path, content: &[u8]) -> Outcome<Option<(Group, Vec<String>)>> {
    let name = path.display().to_string();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    Ok(match extension.to_ascii_lowercase().as_str() {
        "fio" | "job" | "ini" => Some(storagebench::import_fio(&name, content, &ThisMachine)?),
        "icf" => Some(storagebench::import_icf(&name, content)?),
        _ => None,
    })
}

/// `bench import`: converts another tool's workloads to a catalog file.
pub fn import(import: &BenchImport) -> Outcome {
    let content = read(&import.file)?;
    let Some((group, notes)) = imported(&import.file, &content)? else {
        return Err(Failure::refused(format!(
            "{} is neither an fio job file (.fio, .job, .ini) nor an Iometer configuration \
             (.icf); rename it to such a suffix",
            import.file.display()
        )));
    };
    // Reports a duplicate name now, not at the first use of the file.
    Catalog::builtin().clone().add(&import.file.display().to_string(), group.clone())?;
    notes.iter().for_each(|note| output::say(note));
    if import.output.json {
        if let Some(path) = &import.to {
            output::write_file(path, &group.to_toml())?;
        }
        let profiles: Vec<serde_json::Value> = group.profiles().iter().map(json).collect();
        return output::json(&serde_json::json!({ "profiles": profiles }));
    }
    match &import.to {
        Some(path) => output::write_file(path, &group.to_toml()),
        None => output::print(group.to_toml().trim_end()),
    }
}

/// `bench profiles`: the list, or the definitions of the given profiles.
pub fn profiles(asked: &BenchProfiles) -> Outcome {
    let catalog = catalog(&asked.workload_file)?;
    if asked.output.json {
        let chosen = match asked.names.is_empty() {
            true => catalog
                .groups()
                .iter()
                .flat_map(|group| &group.entries)
                .flat_map(|e| e.profiles.clone())
                .collect(),
            false => select(&catalog, &asked.names)?,
        };
        return output::json(
            &serde_json::json!({ "profiles": chosen.iter().map(json).collect::<Vec<_>>() }),
        );
    }
    if asked.names.is_empty() {
        return list(&catalog);
    }
    let entry = |profile: Profile| Entry {
        name: profile.name().to_owned(),
        aliases: Vec::new(),
        prose: profile.prose().to_owned(),
        source: profile.source().to_owned(),
        profiles: vec![profile],
    };
    let entries = select(&catalog, &asked.names)?.into_iter().map(entry).collect();
    let group = Group { name: "mine".into(), prose: "a copy, to start from".into(), entries };
    output::print(group.to_toml().trim_end())
}

fn json(profile: &Profile) -> serde_json::Value {
    serde_json::json!({
        "name": profile.name(),
        "load": profile.description(),
        "description": profile.prose(),
        "source": profile.source(),
    })
}

fn list(catalog: &Catalog) -> Outcome {
    let mut text = String::new();
    for group in catalog.groups() {
        let rows: Vec<Vec<String>> = group.entries.iter().map(row).collect();
        text.push_str(&format!("{}: {}\n\n", group.name, group.prose));
        text.push_str(&output::table(&["profile", "load", "description"], &rows, &[]));
        text.push_str("\n\n");
    }
    let options: Vec<Vec<String>> =
        profile_options().iter().map(|option| option.map(str::to_owned).to_vec()).collect();
    text.push_str("options after any profile, such as database,hot=90%:4G,rate=5000/s:\n\n");
    text.push_str(&output::table(&["option", "value", "effect"], &options, &[]));
    output::print(&text)
}

fn row(entry: &Entry) -> Vec<String> {
    let (name, load) = match &entry.profiles[..] {
        [only] => (entry.name.clone(), only.description()),
        [first, .., last] => (
            format!("{} ({})", entry.name, entry.profiles.len()),
            format!("{} … {}", first.description(), last.name()),
        ),
        [] => (entry.name.clone(), String::new()),
    };
    vec![name, load, entry.prose.clone()]
}
