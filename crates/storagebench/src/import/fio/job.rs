//! One fio job as a load.

use super::super::wrong;
use super::{Given, Job};
use crate::error::Result;
use crate::load::area::{Area, Edge};
use crate::load::ladder::Ladder;
use crate::load::profile::{
    Align, Arrivals, Component, Load, Pace, RequestKind, Skew, Streams, Zone, parse_percent,
};
use std::time::Duration;
use units::ByteCount;

/// Engines that keep as many requests in flight as `iodepth` says.
const ASYNCHRONOUS: [&str; 12] = [
    "libaio",
    "io_uring",
    "io_uring_cmd",
    "posixaio",
    "solarisaio",
    "windowsaio",
    "nbd",
    "rbd",
    "http",
    "libiscsi",
    "xnvme",
    "null",
];

/// A job while it is read.
struct Reader<'a> {
    file: &'a str,
    job: &'a Job,
    notes: Vec<String>,
}

/// The load of `job`, and what there is to say about it.
pub(super) fn load(file: &str, job: &Job) -> Result<(Load, Vec<String>)> {
    let mut reader = Reader { file, job, notes: Vec::new() };
    let (kinds, sequential) = reader.kinds()?;
    let mut component = Component::of(kinds);
    if !sequential {
        component.skew = reader.skew()?;
    }
    let jobs = reader.count("numjobs", 1)?;
    component.streams = reader.streams(jobs, sequential)?;
    let mut load = Load::of(vec![component]);
    load.outstanding = Some(reader.outstanding(jobs)?);
    load.pace = reader.pace(jobs)?;
    load.area = reader.area()?;
    load.compressible_percent = match (reader.last("buffer_compress_percentage"), reader.flag("zero_buffers"))
    {
        (_, true) => 100.0,
        (Some(given), false) => reader.percent(given)?,
        (None, false) => 0.0,
    };
    Ok((load, reader.notes))
}

impl<'a> Reader<'a> {
    fn last(&self, key: &str) -> Option<&'a Given> {
        self.job.options.iter().rev().find(|given| given.key == key)
    }

    /// A flag without a value, or with one that is not 0.
    fn flag(&self, key: &str) -> bool {
        self.last(key).is_some_and(|given| given.value != "0")
    }

    fn error(&self, given: &Given, expected: &str) -> crate::Error {
        wrong(
            self.file,
            given.line,
            format_args!("'{}={}' is not understood; expected {expected}", given.key, given.value),
        )
    }

    fn note(&mut self, line: usize, sentence: impl std::fmt::Display) {
        self.notes.push(format!("{}:{line}: {sentence}", self.file));
    }

    fn percent(&self, given: &Given) -> Result<f64> {
        parse_percent(&given.value).ok_or_else(|| self.error(given, "a percentage from 0 to 100"))
    }

    fn count(&self, key: &str, default: u32) -> Result<u32> {
        let Some(given) = self.last(key) else { return Ok(default) };
        given
            .value
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| self.error(given, "a whole number above 0"))
    }

    fn size(&self, given: &Given, text: &str) -> Result<ByteCount> {
        text.trim().parse().map_err(|_| self.error(given, "sizes such as 4k"))
    }

    /// What is requested, and whether it is sequential through and through.
    fn kinds(&mut self) -> Result<(Vec<RequestKind>, bool)> {
        let (random, read_percent) = self.direction()?;
        let random_percent = match self.last("percentage_random") {
            Some(given) if random => {
                let first = given.value.split(',').next().unwrap_or_default();
                parse_percent(first).ok_or_else(|| self.error(given, "a percentage from 0 to 100"))?
            }
            _ if random => 100.0,
            _ => 0.0,
        };
        let align = match self.last("blockalign") {
            Some(given) => {
                let first = given.value.split(',').next().unwrap_or_default().to_owned();
                Align::Bytes(self.size(given, &first)?)
            }
            None => Align::Block,
        };
        let (reads, writes) = self.blocks()?;
        if random_percent > 0.0 && !self.flag("norandommap") && self.last("random_distribution").is_none() {
            let line = self.job.line;
            self.note(
                line,
                "fio visits every block once before any again (no norandommap); here blocks repeat by chance",
            );
        }
        if !random && read_percent > 0.0 && read_percent < 100.0 {
            let line = self.job.line;
            self.note(
                line,
                "fio keeps a place of its own for sequential reads and writes; here they share one",
            );
        }
        let mut kinds = Vec::new();
        let mut add = |blocks: &[(ByteCount, f64)], share: f64, read_percent: f64| {
            kinds.extend(blocks.iter().map(|(block, part)| RequestKind {
                share: share * part,
                block: *block,
                read_percent,
                random_percent,
                align,
            }));
        };
        if reads == writes || read_percent == 100.0 {
            add(&reads, 1.0, read_percent);
        } else if read_percent == 0.0 {
            add(&writes, 1.0, 0.0);
        } else {
            add(&reads, read_percent / 100.0, 100.0);
            add(&writes, 1.0 - read_percent / 100.0, 0.0);
        }
        Ok((kinds, random_percent == 0.0))
    }

    /// Whether it is random, and how much it reads.
    fn direction(&mut self) -> Result<(bool, f64)> {
        let Some(given) = self.last("rw") else { return Ok((false, 100.0)) };
        let (kind, modifier) = given.value.split_once(':').unwrap_or((&given.value, ""));
        if !modifier.is_empty() {
            self.note(given.line, format_args!("':{modifier}' behind '{kind}' is left out"));
        }
        let mix =
            self.job.options.iter().rev().find(|given| ["rwmixread", "rwmixwrite"].contains(&&*given.key));
        let mixed = match mix {
            Some(given) if given.key == "rwmixread" => self.percent(given)?,
            Some(given) => 100.0 - self.percent(given)?,
            None => 50.0,
        };
        Ok(match kind.to_ascii_lowercase().as_str() {
            "read" => (false, 100.0),
            "write" => (false, 0.0),
            "randread" => (true, 100.0),
            "randwrite" => (true, 0.0),
            "rw" | "readwrite" => (false, mixed),
            "randrw" => (true, mixed),
            _ => {
                return Err(self.error(
                    given,
                    "read, write, rw, randread, randwrite or randrw; trims are not generated here",
                ));
            }
        })
    }

    /// The blocks of reads and of writes.
    fn blocks(&mut self) -> Result<(Blocks, Blocks)> {
        let given =
            self.job.options.iter().rev().find(|given| ["bs", "bssplit", "bsrange"].contains(&&*given.key));
        let Some(given) = given else {
            return Ok((vec![(ByteCount(4096), 1.0)], vec![(ByteCount(4096), 1.0)]));
        };
        // Values for reads, writes and trims; what is left out is as before it.
        let mut parts = given.value.split(',');
        let reads = parts.next().unwrap_or_default();
        let writes = parts.next().filter(|part| !part.trim().is_empty()).unwrap_or(reads);
        let parse = |reader: &mut Reader<'_>, text: &str| match &*given.key {
            "bs" => Ok(vec![(reader.size(given, text)?, 1.0)]),
            "bssplit" => reader.split(given, text),
            _ => reader.range(given, text),
        };
        let reads = if reads.trim().is_empty() { writes } else { reads };
        Ok((parse(self, reads)?, parse(self, writes)?))
    }

    /// `4k/60:64k/40`; those without a share have the rest in equal parts.
    fn split(&self, given: &Given, text: &str) -> Result<Blocks> {
        let mut blocks = Vec::new();
        for part in text.split(':') {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let share = match share.trim() {
                "" => None,
                share => Some(
                    parse_percent(share)
                        .ok_or_else(|| self.error(given, "sizes and shares such as 4k/60:64k/40"))?,
                ),
            };
            blocks.push((self.size(given, size)?, share));
        }
        let said: f64 = blocks.iter().filter_map(|(_, share)| *share).sum();
        let open = blocks.iter().filter(|(_, share)| share.is_none()).count();
        if said > 100.0 || (open == 0 && said < 99.999) {
            return Err(self.error(given, "shares that make 100 %"));
        }
        let rest = (100.0 - said) / open.max(1) as f64;
        Ok(blocks
            .into_iter()
            .map(|(size, share)| (size, share.unwrap_or(rest) / 100.0))
            .filter(|(_, share)| *share > 0.0)
            .collect())
    }

    /// `4k-64k`: fio draws any multiple of the smaller; here the doublings of it.
    fn range(&mut self, given: &Given, text: &str) -> Result<Blocks> {
        let (low, high) = text.split_once('-').ok_or_else(|| self.error(given, "a range such as 4k-64k"))?;
        let (low, high) = (self.size(given, low)?, self.size(given, high)?);
        if low.is_zero() || low > high {
            return Err(self.error(given, "a range such as 4k-64k"));
        }
        self.note(
            given.line,
            format_args!(
                "'{}={}' becomes the doublings of {low} up to {high}, equally often",
                given.key, given.value
            ),
        );
        let sizes: Vec<ByteCount> = std::iter::successors(Some(low), |size| Some(*size * 2))
            .take_while(|size| *size <= high)
            .collect();
        let share = 1.0 / sizes.len() as f64;
        Ok(sizes.into_iter().map(|size| (size, share)).collect())
    }

    fn skew(&mut self) -> Result<Skew> {
        let Some(given) = self.last("random_distribution") else { return Ok(Skew::Uniform) };
        let value = given.value.split(',').next().unwrap_or_default();
        let (kind, parameter) = value.split_once(':').unwrap_or((value, ""));
        match kind.to_ascii_lowercase().as_str() {
            "random" => Ok(Skew::Uniform),
            "zipf" => {
                let first = parameter.split(':').next().unwrap_or_default();
                let theta = if first.is_empty() { Ok(1.1) } else { first.parse() };
                theta
                    .map(|theta| Skew::Zipf { theta })
                    .map_err(|_| self.error(given, "an exponent such as zipf:1.1"))
            }
            "zoned" => {
                let zone = |text: &str| -> Option<Zone> {
                    let (access, span) = text.split_once('/')?;
                    Some(Zone { access_percent: parse_percent(access)?, span_percent: parse_percent(span)? })
                };
                let zones = parameter.split(':').map(zone).collect::<Option<Vec<Zone>>>();
                zones
                    .map(Skew::Zones)
                    .ok_or_else(|| self.error(given, "zones such as zoned:60/10:30/20:10/70"))
            }
            _ => {
                self.note(
                    given.line,
                    format_args!(
                        "the distribution '{value}' has no counterpart here; requests are spread evenly"
                    ),
                );
                Ok(Skew::Uniform)
            }
        }
    }

    fn streams(&mut self, jobs: u32, sequential: bool) -> Result<Streams> {
        if let Some(given) = self.last("offset_increment") {
            return match self.size(given, &given.value) {
                Ok(apart) => Ok(Streams { count: jobs, apart: Some(apart) }),
                Err(error) => Err(error),
            };
        }
        if let (Some(given), true, true) = (self.last("numjobs"), jobs > 1, sequential) {
            self.note(given.line, format_args!("fio starts its {jobs} sequential jobs at the same place; here --workers {jobs} starts them evenly spaced"));
        }
        Ok(Streams::default())
    }

    fn outstanding(&mut self, jobs: u32) -> Result<Ladder> {
        let depth = self.count("iodepth", 1)?;
        let engine = self.last("ioengine").map_or("psync", |given| &*given.value);
        let engine = engine.split(':').next().unwrap_or(engine);
        let each = if ASYNCHRONOUS.contains(&engine) { depth } else { 1 };
        if let (Some(given), true) = (self.last("iodepth"), each < depth) {
            self.note(given.line, format_args!("fio's engine '{engine}' keeps one request outstanding whatever iodepth says; so does the profile"));
        }
        let total = each.saturating_mul(jobs);
        Ladder::new(vec![total]).map_err(|error| wrong(self.file, self.job.line, error))
    }

    fn pace(&mut self, jobs: u32) -> Result<Pace> {
        if let Some(given) = self.last("rate_iops") {
            let first = given.value.split(',').find(|part| !part.trim().is_empty()).unwrap_or_default();
            let rate: f64 =
                first.trim().parse().map_err(|_| self.error(given, "requests a second, such as 5000"))?;
            let arrivals = match self.last("rate_process").map(|given| &*given.value) {
                Some("poisson") => Arrivals::Poisson,
                _ => Arrivals::Fixed,
            };
            self.note(given.line, "fio limits the rate of a closed loop; here requests are due at that rate, and latencies count from then");
            return Ok(Pace::Open { rate: rate * f64::from(jobs), arrivals });
        }
        let Some(given) = self.last("thinktime") else { return Ok(Pace::BACK_TO_BACK) };
        // Without a unit they are microseconds.
        let think = match given.value.parse::<u64>() {
            Ok(us) => Some(Duration::from_micros(us)),
            Err(_) => crate::load::profile::parse_time(&given.value),
        };
        let think = think.ok_or_else(|| self.error(given, "a time such as 500 (microseconds) or 5ms"))?;
        Ok(Pace::Closed { think, burst: self.count("thinktime_blocks", 1)? })
    }

    fn area(&self) -> Result<Area> {
        let edge = |given: &Given| -> Result<Edge> {
            match given.value.strip_suffix('%') {
                Some(percent) => parse_percent(percent)
                    .map(Edge::Percent)
                    .ok_or_else(|| self.error(given, "a size or a percentage")),
                None => self.size(given, &given.value).map(|size| Edge::Bytes(size.0)),
            }
        };
        let from = self.last("offset").map(&edge).transpose()?.unwrap_or(Edge::Bytes(0));
        let Some(given) = self.last("size") else { return Ok(Area::Range { from, to: Edge::End }) };
        let to = match (from, edge(given)?) {
            // To fio a size of 0 is all there is.
            (_, Edge::Bytes(0)) => Edge::End,
            (Edge::Bytes(0), len) => len,
            (Edge::Percent(0.0), len) => len,
            (Edge::Bytes(from), Edge::Bytes(len)) => Edge::Bytes(from.saturating_add(len)),
            (Edge::Percent(from), Edge::Percent(len)) => Edge::Percent((from + len).min(100.0)),
            _ => return Err(self.error(given, "offset and size both as sizes or both as percentages")),
        };
        let is_empty = match (from, to) {
            (Edge::Bytes(from), Edge::Bytes(to)) => from >= to,
            (Edge::Percent(from), Edge::Percent(to)) => from >= to,
            _ => false,
        };
        if is_empty {
            return Err(self.error(given, "a size that leaves something behind the offset"));
        }
        Ok(Area::Range { from, to })
    }
}

/// Lengths and their shares, which make 1.
type Blocks = Vec<(ByteCount, f64)>;
