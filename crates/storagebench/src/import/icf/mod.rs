//! Iometer configurations (`.icf`): access specifications, how long they run, and how many requests
//! are outstanding.
//!
//! The file consists of sections; a line that begins with an apostrophe describes the lines after
//! it. An access specification has a line with its name and default assignment, and a line of eight
//! numbers for each kind of request: size, % of size, % reads, % random, delay, burst, align,
//! reply. Requests draw a kind by its share, and reads and randomness independently; a sequential
//! request continues at the end of the last one. `align` is in bytes, 0 for sectors. After `burst`
//! requests a worker pauses for `delay` milliseconds. `reply` concerns network workers.
//!
//! | module | contents |
//! | --- | --- |
//! | `spec` | access specifications |
//! | `setup` | run time, ramp, queue depths |
//! | `workers` | the specifications of each worker, its targets and its outstanding I/Os |

mod setup;
mod spec;
mod workers;

use super::{Import, Place, decode, wrong};
use crate::error::Result;
use crate::load::catalog::Group;
use setup::Setup;
use spec::Spec;
use workers::Worker;

/// A partially read file.
#[derive(Default)]
struct Config {
    setup: Setup,
    specs: Vec<Spec>,
    workers: Vec<Worker>,
}

/// Imports the access specifications of an Iometer configuration as a group of load profiles, with
/// notes about ignored, changed and refused parts.
///
/// # Errors
/// When no specification can be imported; the sentence has file and line.
pub fn import_icf(file: &str, content: &[u8]) -> Result<(Group, Vec<String>)> {
    let mut import = Import::new(file, "access specifications of an Iometer configuration");
    let config = read(&mut import, &decode::text(content))?;
    for spec in &config.specs {
        let load = spec.load(&mut import, &config);
        let added = load.and_then(|load| {
            let source = format!("imported from the Iometer configuration {}", import.file);
            import.add(&spec.place, &spec.name, spec.prose(), source, load)
        });
        if let Err(refusal) = added {
            import.refuse(format_args!("the access specification '{}'", spec.name), &refusal);
        }
    }
    import.finish(
        "there is no access specification in this file; expected a section 'ACCESS \
        SPECIFICATIONS; save the configuration from Iometer with its access specifications",
    )
}

fn read(import: &mut Import, text: &str) -> Result<Config> {
    let mut config = Config::default();
    let (mut section, mut key) = (String::new(), String::new());
    for (at, line) in text.lines().enumerate() {
        let place = import.at(at + 1);
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('\'') {
            key = comment.trim().to_ascii_lowercase();
            if key.ends_with('=') {
                section = key.trim_end_matches(['=', ' ']).to_owned();
                note_section(import, &place, &section);
            }
            continue;
        }
        if line.is_empty() || line.to_ascii_lowercase().starts_with("version ") {
            continue;
        }
        match section.as_str() {
            "test setup" => config.setup.line(import, &place, &key, line),
            "manager list" => workers::line(&mut config.workers, import, &place, &key, line),
            "access specifications" => spec_line(&mut config.specs, import, &place, &key, line)?,
            _ => {}
        }
    }
    Ok(config)
}

fn spec_line(
    specs: &mut Vec<Spec>,
    import: &mut Import,
    place: &Place,
    key: &str,
    line: &str,
) -> Result<()> {
    if key.starts_with("access specification name") {
        let name = line.rsplit_once(',').map_or(line, |(name, _)| name).trim();
        specs.push(Spec::new(place.clone(), name));
        return Ok(());
    }
    match specs.last_mut() {
        Some(spec) => {
            spec.line(import, place, line);
            Ok(())
        }
        None => {
            let sentence = "is outside of any access specification; expected a line 'Access \
                            specification name,default assignment above it";
            Err(wrong(place, format_args!("'{line}' {sentence}")))
        }
    }
}

/// Notes the ignored parts of a section.
fn note_section(import: &mut Import, place: &Place, section: &str) {
    let sentence = match section {
        "access specifications" => return,
        "test setup" => "only run time, ramp-up time and queue depths are taken".to_owned(),
        "manager list" => {
            "only outstanding I/Os, parts of disks and assignments of disk workers are taken"
                .to_owned()
        }
        _ => "nothing is taken: it is no part of a load profile".to_owned(),
    };
    import.note(place, format_args!("of the section '{section}' {sentence}"));
}

#[cfg(test)]
mod tests;
