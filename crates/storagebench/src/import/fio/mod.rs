//! fio job files: the options that describe a load.
//!
//! Every section but `[global]` is a job; it inherits what stands in the `[global]` sections before it, and a later
//! value replaces an earlier one. What is not in the table of [`TAKEN`] is left out and said, with what to do instead
//! where there is something.

mod job;

use super::{Import, wrong};
use crate::error::Result;
use crate::load::catalog::Group;

/// An option of a job: in which line, its key and its value (empty for a flag).
#[derive(Clone, Debug)]
struct Given {
    line: usize,
    key: String,
    value: String,
}

/// A job: its section's line and name, and its options, those of `[global]` first.
struct Job {
    line: usize,
    name: String,
    options: Vec<Given>,
}

/// The options that become part of the load profile.
const TAKEN: [&str; 22] = [
    "rw",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "bssplit",
    "bsrange",
    "blockalign",
    "percentage_random",
    "random_distribution",
    "iodepth",
    "numjobs",
    "thinktime",
    "thinktime_blocks",
    "rate_iops",
    "rate_process",
    "buffer_compress_percentage",
    "zero_buffers",
    "offset",
    "offset_increment",
    "size",
    "ioengine",
    "norandommap",
];

/// Options that say how fio measures: what says the same here.
const METHOD: [(&str, &str); 14] = [
    ("runtime", "use --runtime when measuring"),
    ("time_based", "a measurement here always has a fixed time"),
    ("ramp_time", "use --ramp when measuring"),
    ("filename", "name the target when measuring"),
    ("directory", "name the target when measuring"),
    ("direct", "targets are always accessed directly where they can be"),
    ("group_reporting", "results are always of all workers together"),
    ("thread", "workers are always tasks of one thread"),
    ("randrepeat", "use --seed when measuring"),
    ("randseed", "use --seed when measuring"),
    ("verify", "use --verify when measuring"),
    ("do_verify", "use --verify when measuring"),
    ("steadystate", "use --steady-state when measuring"),
    ("refill_buffers", "no two blocks that are written are alike here"),
];

/// Other names of the same option.
const SYNONYMS: [(&str, &str); 6] = [
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("ba", "blockalign"),
    ("timeout", "runtime"),
    ("file_offset", "offset"),
];

/// The jobs of an fio job file as a group of load profiles, and what of them is left out or read differently.
///
/// # Errors
/// When there is no job, or an option that is taken cannot be understood; the sentence names file and line.
pub fn import_fio(file: &str, text: &str) -> Result<(Group, Vec<String>)> {
    let mut import = Import::new(file, "jobs of an fio job file");
    let jobs = sections(&mut import, text)?;
    let together: Vec<&str> = jobs
        .iter()
        .filter(|job| {
            !job.options.iter().any(|given| ["stonewall", "wait_for_previous"].contains(&&*given.key))
        })
        .map(|job| &*job.name)
        .collect();
    if let (Some(job), true) = (jobs.get(1), together.len() > 1) {
        import.note(
            job.line,
            format_args!(
                "fio runs the jobs {} at the same time; here they are profiles that run one after the other",
                together.join(", ")
            ),
        );
    }
    for job in &jobs {
        let (load, mut notes) = job::load(file, job)?;
        import.notes.append(&mut notes);
        let prose = format!("the job '{}' of an fio job file", job.name);
        let source = format!("imported from the fio job file {file}");
        import.add(job.line, &job.name, prose, source, load)?;
    }
    import.finish("there is no job in this file; expected a section such as [job1] with rw=randread")
}

/// Splits a file into its jobs. Says what is left out, once for each line.
fn sections(import: &mut Import<'_>, text: &str) -> Result<Vec<Job>> {
    let (mut jobs, mut global): (Vec<Job>, Vec<Given>) = (Vec::new(), Vec::new());
    let mut in_global = None;
    for (at, line) in text.lines().enumerate() {
        let (number, line) = (at + 1, line.trim());
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let name = section.split(']').next().unwrap_or(section).trim();
            in_global = Some(name.eq_ignore_ascii_case("global"));
            if in_global == Some(false) {
                jobs.push(Job { line: number, name: name.to_owned(), options: global.clone() });
            }
            continue;
        }
        if line.starts_with("include ") {
            import.note(number, format_args!("'{line}' is left out; import that file too"));
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let given = option(number, key, value);
        tell(import, line, &given);
        match (in_global, jobs.last_mut()) {
            (Some(true), _) => global.push(given),
            (Some(false), Some(job)) => job.options.push(given),
            _ => {
                return Err(wrong(
                    import.file,
                    number,
                    format_args!(
                        "'{line}' stands before any section; expected [global] or a job such as [job1]"
                    ),
                ));
            }
        }
    }
    Ok(jobs)
}

fn option(line: usize, key: &str, value: &str) -> Given {
    let key = key.trim().to_ascii_lowercase();
    let key =
        SYNONYMS.iter().find(|(other, _)| *other == key).map_or(key.clone(), |(_, key)| (*key).to_owned());
    // A comment may stand behind a value.
    let value = value.split([';', '#']).next().unwrap_or(value).trim().trim_matches('"');
    Given { line, key, value: value.to_owned() }
}

/// Says that a line is left out, if it is.
fn tell(import: &mut Import<'_>, line: &str, given: &Given) {
    let key = &*given.key;
    if TAKEN.contains(&key) || ["stonewall", "wait_for_previous", "name"].contains(&key) {
        return;
    }
    match METHOD.iter().find(|(method, _)| *method == key) {
        Some((_, instead)) => import.note(given.line, format_args!("'{line}' is left out: {instead}")),
        None => import.note(given.line, format_args!("'{line}' is left out: it has no counterpart here")),
    }
}

#[cfg(test)]
mod tests;
