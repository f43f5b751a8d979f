//! fio job files: the options that describe a load, with the meaning that fio 3 gives them.
//!
//! Every section except `[global]` is a job. It inherits the options of preceding `[global]`
//! sections; a later value replaces an earlier one. A note names each option outside of [`TAKEN`],
//! with a replacement if there is one.
//!
//! | module | contents |
//! | --- | --- |
//! | `lines` | sections, comments, included files, variables |
//! | `value` | numbers, sizes, times, lists of values for reads and writes |
//! | `blocks` | request sizes |
//! | `spread` | the distribution of random requests |
//! | `extent` | the part of the target that each job uses |
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

/// External references of job files. `()` is a host without files and variables.
pub trait JobHost {
    /// The content of an included file.
    ///
    /// # Errors
    /// The reason why it cannot be read.
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
    /// The option in its file form.
    written: String,
    key: String,
    /// Empty for a flag.
    value: String,
    /// An unset environment variable in the value.
    unset: Option<String>,
}

/// A job: its section and its options, those of `[global]` first.
struct Job {
    place: Place,
    name: String,
    options: Vec<Rc<Given>>,
    /// The reason why it cannot be imported, if already known.
    refusal: Option<Refusal>,
}

/// Options that become part of the load profile.
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

/// Options of fio's method, with their replacement here.
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
    ("refill_buffers", "all written blocks differ here"),
];

/// Synonyms of options.
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

/// Imports the jobs of an fio job file as a group of load profiles, with notes about ignored,
/// changed and refused options. `host` provides included files and variables.
///
/// # Errors
/// When no job can be imported; the sentence has file and line.
pub fn import_fio(file: &str, content: &[u8], host: &dyn JobHost) -> Result<(Group, Vec<String>)> {
    let mut import = Import::new(file, "jobs of an fio job file");
    let jobs = lines::jobs(&mut import, &decode::text(content), host)?;
    let is_separate = |job: &&Job| !job.options.iter().any(|given| SEPARATE.contains(&&*given.key));
    let together: Vec<&str> = jobs.iter().filter(is_separate).map(|job| &*job.name).collect();
    if let (Some(job), true) = (jobs.get(1), together.len() > 1) {
        import.note(
            &job.place,
            format_args!(
                "fio runs the jobs {} at the same time; here they are profiles that run one after \
                    the other",
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
