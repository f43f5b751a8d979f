//! Load profiles: requests, their offsets, and their timing.

mod inline;
mod text;

use crate::error::{Error, ErrorKind, Result};
use crate::load::area::Area;
use crate::load::catalog::Catalog;
use crate::load::ladder::Ladder;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use units::ByteCount;

pub(crate) use inline::{
    options, parse as parse_inline, parse_access as parse_access_text, set_option,
};
pub(crate) use text::{parse_percent, parse_time, time_text};

/// The order of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Any block of the area.
    Random,
    /// The block after the last one.
    Sequential,
    /// Some requests are random, some sequential.
    Mixed,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Random => "random",
            Access::Sequential => "sequential",
            Access::Mixed => "mixed",
        })
    }
}

/// The direction of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// The alignment of offsets, relative to the start of the area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Align {
    /// The block size: blocks never overlap partially, and never span two strips.
    #[default]
    Block,
    /// The target's sector.
    Sector,
    /// A number of bytes.
    Bytes(ByteCount),
}

/// A size, or a part of the area.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Extent {
    /// A number of bytes.
    Bytes(ByteCount),
    /// A percentage of the area.
    Percent(f64),
}

/// A part of the area, and its share of random requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Zone {
    /// The percentage of random requests.
    pub access_percent: f64,
    /// The percentage of the area; zones are consecutive from its start.
    pub span_percent: f64,
}

/// The distribution of random requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Skew {
    /// Uniform.
    #[default]
    Uniform,
    /// The block of rank *k* with a probability proportional to *k*^-`theta`. Ranks are scattered
    /// over the area, identically for all workers.
    Zipf {
        /// The exponent: 0 is uniform; about 1 is typical of web pages and files.
        theta: f64,
    },
    /// A power law, as fio's `pareto`: the share `share` of the blocks gets 1 - `share` of the
    /// requests. Blocks are scattered as for Zipf.
    Pareto {
        /// Between 0 and 1: 0.2 is "80 percent of the requests go to 20 percent of the blocks".
        share: f64,
    },
    /// A bell curve, as fio's `normal`: the mean of twelve uniform draws plus another uniform draw.
    /// Blocks are scattered as for Zipf.
    Normal {
        /// The percentage of the area that the additional draw covers, at most 50.
        deviation_percent: f64,
    },
    /// A share of the requests goes to a small part, the others to the rest.
    HotSpot {
        /// The percentage of random requests to the hot spot.
        access_percent: f64,
        /// Its size.
        size: Extent,
        /// The interval at which it moves by its size; `None`: it stays at the start of the area.
        moves_every: Option<Duration>,
    },
    /// Zones with given shares.
    Zones(Vec<Zone>),
}

/// Simultaneous sequential streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Streams {
    /// The total number; 0: one for each worker, evenly spaced.
    pub count: u32,
    /// The distance of their starts, each with a separate range; `None`: evenly over the area.
    pub apart: Option<ByteCount>,
}

/// One kind of request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RequestKind {
    /// Its weight among the component's requests, relative to the other kinds.
    pub share: f64,
    /// The length of a request.
    pub block: ByteCount,
    /// The percentage of reads.
    pub read_percent: f64,
    /// The percentage of random requests; the others continue at the end of the component's last
    /// request.
    pub random_percent: f64,
    /// The alignment of offsets.
    pub align: Align,
}

/// Requests that share an area and a sequential position.
#[derive(Clone, PartialEq, Debug)]
pub struct Component {
    /// Its weight among all requests, relative to the other components.
    pub share: f64,
    /// Its part of the profile's area.
    pub area: Area,
    /// The distribution of random requests over it.
    pub skew: Skew,
    /// Its sequential streams.
    pub streams: Streams,
    /// The kinds of requests; at least one.
    pub kinds: Vec<RequestKind>,
}

impl Component {
    /// Requests of these kinds, uniform over the whole area.
    pub fn of(kinds: Vec<RequestKind>) -> Component {
        Component {
            share: 1.0,
            area: Area::ALL,
            skew: Skew::Uniform,
            streams: Streams::default(),
            kinds,
        }
    }
}

/// One block size of a mixed workload.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct BlockShare {
    /// The length of such requests.
    pub bytes: u64,
    /// Their share of all requests, from 0 to 1.
    pub share: f64,
}

/// The arrivals of an open loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Independent, as those of many users: exponentially distributed gaps.
    Poisson,
    /// At equal intervals.
    Fixed,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arrivals::Poisson => "poisson",
            Arrivals::Fixed => "fixed",
        })
    }
}

/// The start of the next request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// When one completes: the number of outstanding I/Os is that of the ladder, except during
    /// think time.
    Closed {
        /// The pause of each outstanding I/O after a burst.
        think: Duration,
        /// The number of requests between two pauses.
        burst: u32,
    },
    /// At its due time, independently of completions; the ladder's highest number limits the
    /// outstanding I/Os. Latencies count from the due time.
    Open {
        /// Requests a second.
        rate: f64,
        /// The distribution of arrivals.
        arrivals: Arrivals,
    },
}

impl Pace {
    /// One request after another, without a pause.
    pub const BACK_TO_BACK: Pace = Pace::Closed { think: Duration::ZERO, burst: 1 };
}

/// The load of a profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// The requests; at least one component.
    pub components: Vec<Component>,
    /// The timing.
    pub pace: Pace,
    /// The part of the measured area.
    pub area: Area,
    /// The compressible share of written data.
    pub compressible_percent: f64,
    /// The numbers of outstanding I/Os, if they are part of the profile's definition.
    pub outstanding: Option<Ladder>,
    /// The run time of each point, if it is part of the profile's definition.
    pub runtime: Option<Duration>,
    /// The ramp of each point, if it is part of the profile's definition.
    pub ramp: Option<Duration>,
}

impl Load {
    /// These requests, back to back, over the whole measured area.
    pub fn of(components: Vec<Component>) -> Load {
        Load {
            components,
            pace: Pace::BACK_TO_BACK,
            area: Area::ALL,
            compressible_percent: 0.0,
            outstanding: None,
            runtime: None,
            ramp: None,
        }
    }
}

/// A load profile: a [`Load`] with a name. It is part of the [`Catalog`] or has an inline form:
///
/// ```
/// use storagebench::Profile;
/// let database: Profile = "database".parse().unwrap();
/// let inline: Profile = "random,67%read,8K".parse().unwrap();
/// assert_eq!(database.load(), inline.load());
/// let paced: Profile = "database,rate=5000/s,hot=90%:4G".parse().unwrap();
/// let description = "random, 67% read, 8 KiB, 90% of it to 4 GiB, 5000/s (poisson)";
/// assert_eq!(paced.description(), description);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    name: String,
    prose: String,
    source: String,
    load: Load,
}

/// The largest request.
const MAX_BLOCK: ByteCount = ByteCount(16 << 20);
/// The longest run time and the longest ramp.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// The maximum number of sequential streams of a component.
const MAX_STREAMS: u32 = 4096;

impl Profile {
    /// A profile with that name.
    ///
    /// # Errors
    /// When the load is impossible: an invalid share or block size, or no component.
    pub fn new(name: impl Into<String>, mut load: Load) -> Result<Profile> {
        check(&load).map_err(wrong)?;
        // Shares are relative: normalise them to a sum of 1.
        let all: f64 = load.components.iter().map(|component| component.share).sum();
        for component in &mut load.components {
            component.share /= all;
            let own: f64 = component.kinds.iter().map(|kind| kind.share).sum();
            component.kinds.iter_mut().for_each(|kind| kind.share /= own);
        }
        Ok(Profile { name: name.into(), prose: String::new(), source: String::new(), load })
    }

    /// The profile with a description in a line and the source of its definition.
    #[must_use]
    pub fn described(mut self, prose: impl Into<String>, source: impl Into<String>) -> Profile {
        self.prose = prose.into();
        self.source = source.into();
        self
    }

    /// The profile without its own numbers of outstanding I/Os: the settings' ladder applies.
    #[must_use]
    pub fn on_any_ladder(mut self) -> Profile {
        self.load.outstanding = None;
        self
    }

    /// The profile without its own run time: the settings' run time applies.
    #[must_use]
    pub fn for_any_time(mut self) -> Profile {
        self.load.runtime = None;
        self
    }

    /// The profile without its own ramp: the settings' ramp applies.
    #[must_use]
    pub fn after_any_ramp(mut self) -> Profile {
        self.load.ramp = None;
        self
    }

    /// The five standard profiles, in the order of reports.
    pub fn standard() -> Vec<Profile> {
        Catalog::builtin().group("standard")
    }

    /// The name in results: the catalog's, or the inline form.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A description in a line; empty for an inline profile.
    pub fn prose(&self) -> &str {
        &self.prose
    }

    /// The source of its definition; empty for an inline profile.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its load.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Every kind of request, with its share of all requests from 0 to 1.
    pub fn kinds(&self) -> Vec<(f64, &RequestKind)> {
        let kinds = self.load.components.iter().flat_map(|component| {
            component.kinds.iter().map(move |kind| (component.share * kind.share, kind))
        });
        kinds.filter(|(share, _)| *share > 0.0).collect()
    }

    /// The order of its requests.
    pub fn access(&self) -> Access {
        let kinds = self.kinds();
        if kinds.iter().all(|(_, kind)| kind.random_percent >= 100.0) {
            Access::Random
        } else if kinds.iter().all(|(_, kind)| kind.random_percent <= 0.0) {
            Access::Sequential
        } else {
            Access::Mixed
        }
    }

    /// The percentage of reads, rounded.
    pub fn read_percent(&self) -> u8 {
        self.average(|kind| kind.read_percent).round() as u8
    }

    fn average(&self, value: impl Fn(&RequestKind) -> f64) -> f64 {
        self.kinds().iter().map(|(share, kind)| share * value(kind)).sum()
    }

    /// The length of every request; `None` if lengths differ.
    pub fn block(&self) -> Option<ByteCount> {
        let largest = self.largest_block();
        self.kinds().iter().all(|(_, kind)| kind.block == largest).then_some(largest)
    }

    /// The length of the longest request.
    pub fn largest_block(&self) -> ByteCount {
        self.kinds().iter().map(|(_, kind)| kind.block).max().unwrap_or(ByteCount(512))
    }

    /// The length of the average request, in bytes.
    pub fn mean_block_bytes(&self) -> f64 {
        self.average(|kind| kind.block.0 as f64)
    }

    /// The lengths of requests, shortest first, with the share of each.
    pub fn blocks(&self) -> Vec<BlockShare> {
        let mut blocks: Vec<BlockShare> = Vec::new();
        for (share, kind) in self.kinds() {
            match blocks.iter_mut().find(|block| block.bytes == kind.block.0) {
                Some(block) => block.share += share,
                None => blocks.push(BlockShare { bytes: kind.block.0, share }),
            }
        }
        blocks.sort_by_key(|block| block.bytes);
        blocks
    }

    /// Whether any request reads.
    pub fn reads(&self) -> bool {
        self.kinds().iter().any(|(_, kind)| kind.read_percent > 0.0)
    }

    /// Whether any request writes.
    pub fn writes(&self) -> bool {
        self.kinds().iter().any(|(_, kind)| kind.read_percent < 100.0)
    }

    /// The numbers of outstanding I/Os for the settings' `ladder`. A profile's own numbers take
    /// precedence; an open loop is one point, limited by the highest number.
    pub fn rungs(&self, ladder: &Ladder) -> Vec<u32> {
        let ladder = self.load.outstanding.as_ref().unwrap_or(ladder);
        match self.load.pace {
            Pace::Open { .. } => vec![ladder.highest()],
            Pace::Closed { .. } => ladder.rungs().to_vec(),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Profile {
    type Err = Error;

    /// One profile of the built-in catalog, or the inline form.
    fn from_str(text: &str) -> Result<Profile> {
        let mut profiles = Catalog::builtin().select(text)?;
        match (profiles.pop(), profiles.len()) {
            (Some(profile), 0) => Ok(profile),
            (_, others) => Err(wrong(format!(
                "'{text}' names {} load profiles where one is expected; choose one of them \
                    ('softroc bench profiles' lists them)",
                others + 1
            ))),
        }
    }
}

pub(crate) fn wrong(context: String) -> Error {
    Error::new(ErrorKind::BadProfile, context)
}

/// Rejects loads that cannot be generated, with a sentence.
fn check(load: &Load) -> std::result::Result<(), String> {
    let compressible = load.compressible_percent;
    if !(0.0..=100.0).contains(&compressible) {
        return Err(format!("{compressible}% compressible is not between 0% and 100%"));
    }
    match load.pace {
        Pace::Open { rate, .. } if !(rate.is_finite() && rate >= 0.001) => {
            return Err(format!("{rate} requests a second is not a rate; give at least 0.001"));
        }
        Pace::Closed { burst: 0, .. } => {
            return Err("a burst of 0 requests never starts; give at least 1".to_owned());
        }
        _ => {}
    }
    if load.runtime.is_some_and(|time| time.is_zero() || time > LONGEST)
        || load.ramp.is_some_and(|time| time > LONGEST)
    {
        return Err(
            "a run time of 0 s or a time above 30 days cannot be measured; give one such as 60s"
                .to_owned(),
        );
    }
    if load.components.is_empty() {
        return Err("a profile without any component requests nothing; give it one".to_owned());
    }
    if shares(load.components.iter().map(|component| component.share)).is_none() {
        return Err(
            "the shares of the components must be numbers of which one at least is above 0"
                .to_owned(),
        );
    }
    load.components.iter().try_for_each(check_component)
}

/// Their sum, if they are valid shares.
fn shares(shares: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let sum: f64 = shares.clone().sum();
    (sum > 0.0 && sum.is_finite() && shares.into_iter().all(|share| share >= 0.0)).then_some(sum)
}

fn check_component(component: &Component) -> std::result::Result<(), String> {
    if shares(component.kinds.iter().map(|kind| kind.share)).is_none() {
        return Err(
            "the shares of the blocks must be numbers of which one at least is above 0".to_owned()
        );
    }
    for kind in &component.kinds {
        for (percent, what) in
            [(kind.read_percent, "reads"), (kind.random_percent, "random requests")]
        {
            if !(0.0..=100.0).contains(&percent) {
                return Err(format!("a share of {percent}% {what} is not between 0% and 100%"));
            }
        }
        if kind.block.is_zero() || !kind.block.is_aligned(ByteCount(512)) || kind.block > MAX_BLOCK
        {
            return Err(format!(
                "a block of {} cannot be requested; give a multiple of 512 bytes up to \
                    {MAX_BLOCK}, such as 8K",
                kind.block
            ));
        }
        if let Align::Bytes(align) = kind.align
            && (align.is_zero() || !align.is_aligned(ByteCount(512)))
        {
            return Err(format!(
                "an alignment of {align} is not whole 512-byte sectors; give one such as 4K"
            ));
        }
    }
    if component.streams.count > MAX_STREAMS {
        return Err(format!(
            "{} streams are too many; give at most {MAX_STREAMS}",
            component.streams.count
        ));
    }
    if component.streams.apart.is_some_and(ByteCount::is_zero) {
        return Err("streams that are 0 bytes apart are one; give a distance such as 2G".to_owned());
    }
    check_skew(&component.skew)
}

fn check_skew(skew: &Skew) -> std::result::Result<(), String> {
    let percent = |percent: &f64| (0.0..=100.0).contains(percent);
    match skew {
        Skew::Uniform => Ok(()),
        Skew::Zipf { theta } if (0.0..=10.0).contains(theta) => Ok(()),
        Skew::Zipf { theta } => {
            Err(format!("a Zipf exponent of {theta} is not between 0 and 10, such as 1.1"))
        }
        Skew::Pareto { share } if (0.0001..=0.9999).contains(share) => Ok(()),
        Skew::Pareto { share } => {
            Err(format!("a Pareto share of {share} is not between 0.0001 and 0.9999, such as 0.2"))
        }
        Skew::Normal { deviation_percent } if percent(deviation_percent) => Ok(()),
        Skew::Normal { deviation_percent } => Err(format!(
            "a normal deviation of {deviation_percent}% is not between 0% and 100%, such as 10%"
        )),
        Skew::HotSpot { access_percent, .. } if !percent(access_percent) => {
            Err(format!("{access_percent}% of the requests is not between 0% and 100%"))
        }
        Skew::HotSpot { size: Extent::Percent(size), .. } if !(*size > 0.0 && *size <= 100.0) => {
            Err(format!("a hot spot of {size}% of the area is not above 0% and up to 100%"))
        }
        Skew::HotSpot { size: Extent::Bytes(size), .. } if size.is_zero() => {
            Err("a hot spot of no bytes cannot be hit; give a size such as 4G".to_owned())
        }
        Skew::HotSpot { moves_every: Some(time), .. } if time.is_zero() => {
            Err("a hot spot that moves every 0 s is none; give a time such as 10s".to_owned())
        }
        Skew::HotSpot { .. } => Ok(()),
        Skew::Zones(zones) => check_zones(zones),
    }
}

fn check_zones(zones: &[Zone]) -> std::result::Result<(), String> {
    let sum = |value: fn(&Zone) -> f64| -> Option<f64> { shares(zones.iter().map(value)) };
    for (sum, what) in
        [(sum(|zone| zone.access_percent), "requests"), (sum(|zone| zone.span_percent), "area")]
    {
        if !sum.is_some_and(|sum| (sum - 100.0).abs() < 1e-6) {
            return Err(format!(
                "the zones' shares of the {what} add up to {}%; expected 100%",
                sum.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
