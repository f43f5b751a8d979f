//! fio job files: the options that describe a load, with the meaning that fio 3 gives them.
//!
//! Every section but `[global]` is a job; it inherits what stands in the `[global]` sections before it, and a later
//! value replaces an earlier one. A note names each option that is not in the table of [`TAKEN`], with what to do
//! instead where there is something.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `lines` | sections, comments, included files, variables |
//! | `value` | numbers, sizes, times, lists of values for reads and writes |
//! | `blocks` | sizes of requests |
//! | `spread` | where random requests go |
//! | `extent` | which part of the target each job uses |
//! | `job` | a job as a load |

mod blocks;
mod extent;
mod job;
mod lines;
mod spread;
mod value;

use super::{Import, Place, Refusal, decode};
use crate::error::Result;
use crate::load::catalog::Group;
use std::rc::Rc;

/// What job files refer to outside of themselves. `()` is a host without files and variables.
pub trait JobHost {
    /// The content of an included file.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, path: &str) -> std::result::Result<Vec<u8>, String>;
    /// An environment variable; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<String>;
    /// `$pagesize`: bytes of a memory page.
    fn page_size(&self) -> u64;
    /// `$ncpus`: processors that are online.
    fn processors(&self) -> u64;
    /// `$mb_memory`: MiB of memory.
    fn memory_mib(&self) -> u64;
}

impl JobHost for () {
    fn read(&self, _: &str) -> std::result::Result<Vec<u8>, String> {
        Err("no such file".to_owned())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn processors(&self) -> u64 {
        1
    }

    fn memory_mib(&self) -> u64 {
        1024
    }
}

/// An option of a job.
#[derive(Clone, Debug)]
struct Given {
    place: Place,
    /// As it is written.
    written: String,
    key: String,
    /// Empty for a flag.
    value: String,
    /// An environment variable in the value that is not set.
    unset: Option<String>,
}

/// A job: its section and its options, those of `[global]` first.
struct Job {
    place: Place,
    name: String,
    options: Vec<Rc<Given>>,
    /// Why it cannot be imported, where that is known already.
    refusal: Option<Refusal>,
}

/// The options that become part of the load profile.
const TAKEN: [&str; 27] = [
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
    "rate",
    "rate_iops",
    "rate_process",
    "buffer_compress_percentage",
    "zero_buffers",
    "offset",
    "offset_increment",
    "size",
    "ioengine",
    "norandommap",
    "runtime",
    "time_based",
    "ramp_time",
    "kb_base",
];

/// Options of jobs that run after others.
const SEPARATE: [&str; 2] = ["stonewall", "wait_for_previous"];

/// Options that say how fio measures: what says the same here.
const METHOD: [(&str, &str); 14] = [
    ("io_size", "a measurement ends with its run time; use --runtime when measuring"),
    ("number_ios", "a measurement ends with its run time; use --runtime when measuring"),
    ("loops", "a measurement ends with its run time; use --runtime when measuring"),
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
const SYNONYMS: [(&str, &str); 8] = [
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("ba", "blockalign"),
    ("timeout", "runtime"),
    ("file_offset", "offset"),
    ("fileoffset", "offset"),
    ("io_limit", "io_size"),
];

/// The jobs of an fio job file as a group of load profiles, and what of them is left out, read differently or
/// refused. `host` is asked for included files and variables.
///
/// # Errors
/// When there is no job that can be imported; the sentence names file and line.
pub fn import_fio(file: &str, content: &[u8], host: &dyn JobHost) -> Result<(Group, Vec<String>)> {
    let mut import = Import::new(file, "jobs of an fio job file");
    let jobs = lines::jobs(&mut import, &decode::text(content), host)?;
    let is_separate = |job: &&Job| !job.options.iter().any(|given| SEPARATE.contains(&&*given.key));
    let together: Vec<&str> = jobs.iter().filter(is_separate).map(|job| &*job.name).collect();
    if let (Some(job), true) = (jobs.get(1), together.len() > 1) {
        import.note(
            &job.place,
            format_args!(
                "fio runs the jobs {} at the same time; here they are profiles that run one after the other",
                together.join(", ")
            ),
        );
    }
    for job in &jobs {
        if let Err(refusal) = add(&mut import, job) {
            import.refuse(format_args!("the job '{}'", job.name), &refusal);
        }
    }
    import.finish("there is no job in this file; add a section such as [job1] with rw=randread")
}

fn add(import: &mut Import, job: &Job) -> super::Taken<()> {
    if let Some(refusal) = &job.refusal {
        return Err(refusal.clone());
    }
    let (load, mut notes) = job::load(job)?;
    import.notes.append(&mut notes);
    let prose = format!("the job '{}' of an fio job file", job.name);
    let source = format!("imported from the fio job file {}", import.file);
    import.add(&job.place, &job.name, prose, source, load)
}

#[cfg(test)]
mod tests;
