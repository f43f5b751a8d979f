//! One fio job as a load.

use super::super::{Taken, refused};
use super::blocks::Blocks;
use super::lines::unset_sentence;
use super::spread::Spread;
use super::value::{Base, percent, sides, time};
use super::{Given, Job};
use crate::load::area::Area;
use crate::load::ladder::Ladder;
use crate::load::profile::{Align, Arrivals, Component, Load, Pace, RequestKind};
use std::fmt::Display;
use std::time::Duration;
use units::ByteCount;

/// Engines that keep one request outstanding for any `iodepth`.
const SYNCHRONOUS: [&str; 26] = [
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "mmap",
    "splice",
    "pmemblk",
    "dev-dax",
    "libpmem",
    "libhdfs",
    "libcufile",
    "mtd",
    "gfapi",
    "ime_psync",
    "ime_psyncv",
    "falloc",
    "ftruncate",
    "e4defrag",
    "filecreate",
    "filestat",
    "filedelete",
    "net",
    "netsplice",
    "cpuio",
    "exec",
];

/// Trim operations.
const TRIMS: [&str; 4] = ["trim", "randtrim", "trimwrite", "randtrimwrite"];

/// A job during the import.
pub(super) struct Reader<'a> {
    job: &'a Job,
    notes: Vec<String>,
    /// The unit base of its sizes.
    pub(super) base: Base,
}

/// Reads, or writes, of a job.
struct Side {
    /// Their share of all requests, from 0 to 1.
    share: f64,
    read_percent: f64,
    random_percent: f64,
    align: Align,
    blocks: Blocks,
    spread: Spread,
}

/// The load of `job`, and notes about it.
pub(super) fn load(job: &Job) -> Taken<(Load, Vec<String>)> {
    let mut reader = Reader { job, notes: Vec::new(), base: Base(1024) };
    reader.base = reader.base_of()?;
    let jobs = reader.count("numjobs", 1)?;
    let (sides, pace) = reader.sides(jobs)?;
    let sequential = sides.iter().all(|side| side.random_percent == 0.0);
    let extent = reader.extent(jobs, sequential)?;
    let mut components = Vec::new();
    for part in &extent.parts {
        for (share, spread, kinds) in groups(&sides) {
            let area = part.area(spread.bytes);
            components.push(Component {
                share,
                area,
                skew: spread.skew,
                streams: extent.streams,
                kinds,
            });
        }
    }
    let mut load = Load::of(components);
    let area = load.components.first().map_or(Area::ALL, |first| first.area);
    if load.components.iter().all(|component| component.area == area) {
        load.area = area;
        load.components.iter_mut().for_each(|component| component.area = Area::ALL);
    }
    load.pace = pace;
    load.outstanding = Some(reader.outstanding(jobs)?);
    (load.runtime, load.ramp) = reader.times()?;
    load.compressible_percent =
        match (reader.given("buffer_compress_percentage")?, reader.flag("zero_buffers")?) {
            (_, true) => 100.0,
            (Some(given), false) => reader.percent(given, &given.value)?,
            (None, false) => 0.0,
        };
    reader.behaviour(&sides)?;
    Ok((load, reader.notes))
}

/// Sides with the same distribution become one component: its share, its distribution, its kinds.
fn groups(sides: &[Side]) -> Vec<(f64, Spread, Vec<RequestKind>)> {
    let kinds = |side: &Side, share: f64, read_percent: f64| -> Vec<RequestKind> {
        let kind = |(block, part): &(ByteCount, f64)| RequestKind {
            share: share * part,
            block: *block,
            read_percent,
            random_percent: side.random_percent,
            align: side.align,
        };
        side.blocks.iter().map(kind).collect()
    };
    let single =
        |side: &Side| (side.share, side.spread.clone(), kinds(side, 1.0, side.read_percent));
    let [reads, writes] = sides else { return sides.iter().map(single).collect() };
    if reads.spread != writes.spread {
        return vec![single(reads), single(writes)];
    }
    let is_same = reads.blocks == writes.blocks
        && reads.random_percent == writes.random_percent
        && reads.align == writes.align;
    let kinds = match is_same {
        // The share of reads in percent, rounded: a third is not exactly 100/3.
        true => kinds(reads, 1.0, (reads.share * 1e12).round() / 1e10),
        false => [kinds(reads, reads.share, 100.0), kinds(writes, writes.share, 0.0)].concat(),
    };
    vec![(1.0, reads.spread.clone(), kinds)]
}

impl<'a> Reader<'a> {
    /// The effective option: the last one with that name.
    pub(super) fn given(&self, key: &str) -> Taken<Option<&'a Given>> {
        self.last_of(&[key])
    }

    /// The last option with one of these names.
    pub(super) fn last_of(&self, keys: &[&str]) -> Taken<Option<&'a Given>> {
        let given = self.job.options.iter().rev().find(|given| keys.contains(&&*given.key));
        match given.and_then(|given| Some((given, given.unset.as_ref()?))) {
            Some((given, name)) => refused(&given.place, unset_sentence(&given.written, name)),
            None => Ok(given.map(|given| &**given)),
        }
    }

    /// A flag without a value, or with a value other than 0.
    fn flag(&self, key: &str) -> Taken<bool> {
        Ok(self.given(key)?.is_some_and(|given| given.value != "0"))
    }

    /// Refuses the job because of an option; the sentence has the problem and the remedy.
    pub(super) fn refuse<T>(&self, given: &Given, sentence: impl Display) -> Taken<T> {
        refused(&given.place, format_args!("{} {sentence}", as_read(given)))
    }

    /// Refuses the job because of a combination of its options.
    pub(super) fn refuse_job<T>(&self, sentence: impl Display) -> Taken<T> {
        refused(&self.job.place, format_args!("it {sentence}"))
    }

    /// Refuses the job because of an option without a valid value.
    pub(super) fn misunderstood<T>(&self, given: &Given, expected: &str) -> Taken<T> {
        self.refuse(given, format_args!("is not understood; give {expected}"))
    }

    pub(super) fn note(&mut self, given: &Given, sentence: impl Display) {
        self.notes.push(format!("{}: {sentence}", given.place));
    }

    fn note_job(&mut self, sentence: &str) {
        self.notes.push(format!("{}: {sentence}", self.job.place));
    }

    pub(super) fn number(&self, given: &Given, text: &str, expected: &str) -> Taken<u64> {
        self.base.number(text).map_or_else(|| self.misunderstood(given, expected), Ok)
    }

    fn percent(&self, given: &Given, text: &str) -> Taken<f64> {
        percent(text)
            .map_or_else(|| self.misunderstood(given, "a whole percentage from 0 to 100"), Ok)
    }

    fn count(&self, key: &str, default: u32) -> Taken<u32> {
        let Some(given) = self.given(key)? else { return Ok(default) };
        let count = self.base.number(&given.value).and_then(|count| u32::try_from(count).ok());
        count
            .filter(|count| *count > 0)
            .map_or_else(|| self.misunderstood(given, "a whole number of at least 1"), Ok)
    }

    fn base_of(&self) -> Taken<Base> {
        let Some(given) = self.given("kb_base")? else { return Ok(Base(1024)) };
        match self.base.number(&given.value) {
            Some(base @ (1000 | 1024)) => Ok(Base(base)),
            _ => self.misunderstood(given, "1000 or 1024"),
        }
    }

    /// The reads and writes of the job, and their pace.
    fn sides(&mut self, jobs: u32) -> Taken<(Vec<Side>, Pace)> {
        let (random, mut read_percent) = self.direction()?;
        let blocks = self.blocks()?;
        let pace = match self.rates(read_percent, &blocks)? {
            Some(rates) => {
                let sum = rates[0] + rates[1];
                // The rates override the mix.
                read_percent = (rates[0] * 1e4 / sum).round() / 1e2;
                Pace::Open { rate: sum * f64::from(jobs), arrivals: self.arrivals()? }
            }
            None => self.think()?,
        };
        let random_percents = match self.given("percentage_random")? {
            Some(given) if random => self.percents(given)?,
            _ if random => [100.0, 100.0],
            _ => [0.0, 0.0],
        };
        let aligns = self.aligns()?;
        let spreads = if random { self.spreads()? } else { [Spread::EVEN, Spread::EVEN] };
        let shares = [read_percent / 100.0, 1.0 - read_percent / 100.0];
        let parts = [100.0, 0.0].into_iter().zip(shares).zip(blocks).zip(spreads).enumerate();
        let sides = parts.map(|(at, (((read_percent, share), blocks), spread))| {
            let random_percent = random_percents[at];
            let spread = if random_percent > 0.0 { spread } else { Spread::EVEN };
            Side { share, read_percent, random_percent, align: aligns[at], blocks, spread }
        });
        Ok((sides.filter(|side| side.share > 0.0).collect(), pace))
    }

    fn percents(&self, given: &Given) -> Taken<[f64; 2]> {
        let [reads, writes] = sides(&given.value, true);
        let percent = |text: Option<&str>| text.map_or(Ok(100.0), |text| self.percent(given, text));
        Ok([percent(reads)?, percent(writes)?])
    }

    fn aligns(&self) -> Taken<[Align; 2]> {
        let Some(given) = self.given("blockalign")? else { return Ok([Align::Block; 2]) };
        let align = |text: Option<&str>| match text {
            None => Ok(Align::Block),
            Some(text) => {
                let bytes = self.number(given, text, "sizes such as 4k")?;
                match bytes > 0 && bytes.is_multiple_of(512) {
                    true => Ok(Align::Bytes(ByteCount(bytes))),
                    false => self.refuse(
                        given,
                        "is not a multiple of a sector; give a multiple of 512 bytes such as 4k",
                    ),
                }
            }
        };
        let [reads, writes] = sides(&given.value, true);
        Ok([align(reads)?, align(writes)?])
    }

    /// Whether the job is random, and its share of reads.
    fn direction(&mut self) -> Taken<(bool, f64)> {
        let Some(given) = self.given("rw")? else { return Ok((false, 100.0)) };
        let (kind, modifier) = given.value.split_once(':').unwrap_or((&given.value, ""));
        if !modifier.is_empty() {
            self.note(
                given,
                format_args!(
                    "':{modifier}' after '{kind}' is left out: load profiles have no such option"
                ),
            );
        }
        let mixed = match self.last_of(&["rwmixread", "rwmixwrite"])? {
            Some(given) if given.key == "rwmixread" => self.percent(given, &given.value)?,
            Some(given) => 100.0 - self.percent(given, &given.value)?,
            None => 50.0,
        };
        Ok(match kind.trim().to_ascii_lowercase().as_str() {
            "read" => (false, 100.0),
            "write" => (false, 0.0),
            "randread" => (true, 100.0),
            "randwrite" => (true, 0.0),
            "rw" | "readwrite" => (false, mixed),
            "randrw" => (true, mixed),
            trim if TRIMS.contains(&trim) => {
                return self.refuse(
                    given,
                    "trims, and SoftROC generates reads and writes only; give rw=write, or omit \
                     the job",
                );
            }
            _ => {
                return self.misunderstood(given, "read, write, rw, randread, randwrite or randrw");
            }
        })
    }

    /// The rates of reads and writes in requests per second, if limited.
    fn rates(&mut self, read_percent: f64, blocks: &[Blocks; 2]) -> Taken<Option<[f64; 2]>> {
        let given = match (self.given("rate_iops")?, self.given("rate")?) {
            (Some(iops), Some(_)) => {
                return self.refuse(
                    iops,
                    "conflicts with rate=, and fio accepts only one of them; omit one",
                );
            }
            (Some(given), None) | (None, Some(given)) => given,
            (None, None) => return Ok(None),
        };
        let mut rates = [0.0; 2];
        for ((rate, text), blocks) in rates.iter_mut().zip(sides(&given.value, true)).zip(blocks) {
            let number = match text {
                None => 0,
                Some(text) => {
                    self.number(given, text, "a number a second, such as 5000, or 700,300")?
                }
            };
            let mean: f64 = blocks.iter().map(|(block, share)| block.0 as f64 * share).sum();
            *rate = if given.key == "rate" { number as f64 / mean } else { number as f64 };
        }
        // A rate without requests of its kind does not count.
        let used = [read_percent > 0.0, read_percent < 100.0];
        for (rate, used) in rates.iter_mut().zip(used) {
            *rate = if used { *rate } else { 0.0 };
        }
        let limited = rates.iter().filter(|rate| **rate > 0.0).count();
        if limited == 0 {
            return Ok(None);
        }
        if limited < used.iter().filter(|used| **used).count() {
            return self.refuse(
                given,
                "limits only reads or only writes of a job that does both; give both rates, such \
                    as rate_iops=700,300",
            );
        }
        self.note(
            given,
            "fio limits the rate of a closed loop; here requests are due at that \
            rate, and latencies count from then",
        );
        Ok(Some(rates))
    }

    fn arrivals(&self) -> Taken<Arrivals> {
        let Some(given) = self.given("rate_process")? else { return Ok(Arrivals::Fixed) };
        match given.value.to_ascii_lowercase().as_str() {
            "poisson" => Ok(Arrivals::Poisson),
            "linear" => Ok(Arrivals::Fixed),
            _ => self.misunderstood(given, "linear or poisson"),
        }
    }

    fn think(&self) -> Taken<Pace> {
        let Some(given) = self.given("thinktime")? else { return Ok(Pace::BACK_TO_BACK) };
        // A number without a unit is in microseconds.
        match time(&given.value, 1) {
            Some(think) => Ok(Pace::Closed { think, burst: self.count("thinktime_blocks", 1)? }),
            None => self.misunderstood(given, "a time such as 500 (microseconds) or 5ms"),
        }
    }

    fn outstanding(&mut self, jobs: u32) -> Taken<Ladder> {
        let depth = self.count("iodepth", 1)?;
        let engine =
            self.given("ioengine")?.map_or("psync", |given| &*given.value).to_ascii_lowercase();
        let each = if SYNCHRONOUS.contains(&&*engine) { 1 } else { depth };
        if let (Some(given), true) = (self.given("iodepth")?, each < depth) {
            self.note(
                given,
                format_args!(
                    "fio's engine '{engine}' keeps one request outstanding \
                                           for any iodepth; so does the profile"
                ),
            );
        }
        let total = each.saturating_mul(jobs);
        Ladder::new(vec![total]).or_else(|error| refused(&self.job.place, error))
    }

    /// The run time and the ramp.
    fn times(&mut self) -> Taken<(Option<Duration>, Option<Duration>)> {
        let seconds = |given: Option<&Given>| match given {
            None => Ok(None),
            Some(given) => match time(&given.value, 1_000_000) {
                Some(time) => Ok(Some(time)),
                None => self.misunderstood(given, "a time such as 60 (seconds) or 5m"),
            },
        };
        let given = self.given("runtime")?;
        // Without a run time fio ends with the last request.
        let runtime = seconds(given)?.filter(|time| !time.is_zero());
        let ramp = seconds(self.given("ramp_time")?)?.or(runtime.map(|_| Duration::ZERO));
        if let (Some(given), Some(_), false) = (given, runtime, self.flag("time_based")?) {
            self.note(
                given,
                format_args!(
                    "fio ends the job before '{}' is over when its size is \
                                           complete (no time_based); here it is measured for the \
                                           whole time",
                    given.written
                ),
            );
        }
        Ok((runtime, ramp))
    }

    /// Notes differences between fio's offsets and the profile's.
    fn behaviour(&mut self, sides: &[Side]) -> Taken<()> {
        let is_random = sides.iter().any(|side| side.random_percent > 0.0);
        if is_random && !self.flag("norandommap")? && self.given("random_distribution")?.is_none() {
            self.note_job(
                "fio visits every block once before repeating any (no norandommap); here blocks \
                 repeat by chance",
            );
        }
        if !is_random && sides.len() > 1 {
            self.note_job(
                "fio keeps separate positions for sequential reads and writes; here they share one",
            );
        }
        Ok(())
    }
}

/// An option in its file form, with the expanded form if it contains a variable.
fn as_read(given: &Given) -> String {
    match given.written.contains('$') {
        true => format!("'{}' (that is '{}={}')", given.written, given.key, given.value),
        false => format!("'{}'", given.written),
    }
}
