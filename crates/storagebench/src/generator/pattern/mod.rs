//! The request pattern: a load profile over an area, as a stream of (read or write, offset,
//! length).
//!
//! # Invariants
//! - Every request lies within its component's area, and its offset from the area's start is a
//!   multiple of its alignment.
//! - Component, kind, read or write, random or sequential, and offset are drawn independently for
//!   every request, from the worker's own random numbers.
//! - A sequential request continues at the end of the last request of its component, worker and
//!   stream, including random ones, as in Iometer and fio. At the end of the stream's range it
//!   wraps around.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::random::Random;
use crate::generator::skew::{Hot, Law, Scatter, Slot, Spread, Zipf};
use crate::load::area::Area;
use crate::load::profile::Operation;
use crate::load::profile::{Align, Component, Extent, Pace, Profile, RequestKind, Skew, Streams};
use std::cell::{Cell, RefCell};
use units::{ByteCount, ByteOffset, ByteRange};

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) offset: ByteOffset,
    pub(crate) block: ByteCount,
}

/// Probability 1: 2^32 out of 2^32.
const ALWAYS: u64 = 1 << 32;

/// One kind of request. Probabilities are in units of 2^-32.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The cumulative probability up to this kind.
    until: u64,
    place: usize,
    reads: u64,
    randoms: u64,
    block: u64,
    align: u64,
}

/// The offsets of a component.
#[derive(Clone, Debug)]
struct Place {
    start: u64,
    len: u64,
    /// All alignments of the kinds are multiples of it.
    unit: u64,
    /// The longest request.
    block: u64,
    /// The granularity of stream starts: a multiple of every alignment and of the longest request.
    stride: u64,
    spread: Spread,
    streams: Streams,
}

/// A profile over an area of a target.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    kinds: Vec<Kind>,
    places: Vec<Place>,
    pub(crate) pace: Pace,
    /// All offsets and lengths are multiples of it.
    pub(crate) granule: ByteCount,
}

impl Pattern {
    /// The pattern of `profile` over `area` of a target with sectors of `sector`.
    ///
    /// # Errors
    /// When it does not fit: an area smaller than a block, or blocks that are not whole sectors.
    pub(crate) fn new(profile: &Profile, area: ByteRange, sector: ByteCount) -> Result<Pattern> {
        let load = profile.load();
        let within = load.area.resolve(area, profile.access())?;
        let (mut kinds, mut places, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for component in &load.components {
            let place = Place::new(profile, component, within, sector)?;
            for kind in &component.kinds {
                sum += component.share * kind.share;
                kinds.push(Kind {
                    until: (sum * ALWAYS as f64).round() as u64,
                    place: places.len(),
                    reads: likelihood(kind.read_percent),
                    randoms: likelihood(kind.random_percent),
                    block: kind.block.0,
                    align: align_of(kind, sector),
                });
            }
            places.push(place);
        }
        let granule =
            kinds.iter().fold(0, |common, kind| divisor(divisor(common, kind.align), kind.block));
        Ok(Pattern { kinds, places, pace: load.pace, granule: ByteCount(granule) })
    }

    fn kind(&self, random: &mut Random) -> &Kind {
        let [only] = &self.kinds[..] else {
            let draw = random.next() >> 32;
            let at = self.kinds.partition_point(|kind| kind.until <= draw);
            return &self.kinds[at.min(self.kinds.len() - 1)];
        };
        only
    }
}

fn likelihood(percent: f64) -> u64 {
    (percent / 100.0 * ALWAYS as f64).round() as u64
}

/// The greatest common divisor.
pub(crate) fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple, or a saturated value if it exceeds 2^64.
fn multiple(a: u64, b: u64) -> u64 {
    (a / divisor(a, b)).saturating_mul(b)
}

fn align_of(kind: &RequestKind, sector: ByteCount) -> u64 {
    match kind.align {
        Align::Block => kind.block.0,
        Align::Sector => sector.0,
        Align::Bytes(bytes) => bytes.0,
    }
}

fn too_small(what: String) -> Error {
    Error::new(ErrorKind::TooSmall, what)
}

impl Place {
    fn new(
        profile: &Profile,
        component: &Component,
        within: ByteRange,
        sector: ByteCount,
    ) -> Result<Place> {
        let area = match component.area {
            Area::Range { .. } => component.area.resolve(within, profile.access())?,
            Area::ByAccess => within,
        };
        let mut unit = 1;
        for kind in &component.kinds {
            check_sectors(profile, kind, sector)?;
            let align = align_of(kind, sector);
            unit = multiple(unit, align);
        }
        let block = component.kinds.iter().map(|kind| kind.block.0).max().unwrap_or(sector.0);
        let mut place = Place {
            start: area.start.0,
            len: area.len.0,
            unit,
            block,
            stride: multiple(unit, block),
            spread: Spread::Uniform,
            streams: component.streams,
        };
        if place.len < block {
            return Err(too_small(format!(
                "the measured area has {}, less than one block of {} of the profile '{profile}'; \
                    give a larger target or area, or a smaller block",
                area.len,
                ByteCount(block)
            )));
        }
        if !area.start.is_aligned(sector) {
            return Err(Error::new(
                ErrorKind::Misaligned,
                format!(
                    "the area of the profile '{profile}' starts at byte {}, which is no multiple \
                        of the target's {sector} sectors; give one that is",
                    area.start.0
                ),
            ));
        }
        place.spread = place.spread_of(profile, component, sector)?;
        place.check_streams(profile)?;
        Ok(place)
    }

    fn spread_of(
        &self,
        profile: &Profile,
        component: &Component,
        sector: ByteCount,
    ) -> Result<Spread> {
        match &component.skew {
            Skew::Uniform => Ok(Spread::Uniform),
            Skew::Zipf { theta } => {
                Ok(self.ranked(component, sector, |count| Law::Zipf(Zipf::new(count, *theta))))
            }
            Skew::Pareto { share } => {
                Ok(self.ranked(component, sector, |count| Law::pareto(count, *share)))
            }
            Skew::Normal { deviation_percent } => {
                Ok(self.ranked(component, sector, |count| Law::normal(count, *deviation_percent)))
            }
            Skew::HotSpot { access_percent, size, moves_every } => {
                let wanted = match size {
                    Extent::Bytes(size) => size.0,
                    Extent::Percent(percent) => (self.len as f64 * percent / 100.0) as u64,
                };
                if wanted > self.len {
                    return Err(too_small(format!(
                        "the hot spot of the profile '{profile}' has {}, more than the area's {}; \
                            give a larger target, or a smaller spot such as {access_percent}%:10%",
                        ByteCount(wanted),
                        ByteCount(self.len)
                    )));
                }
                let len = wanted / self.unit * self.unit;
                self.check_part(profile, "hot spot", len)?;
                if self.len - len < self.block {
                    return Ok(Spread::Uniform);
                }
                let moves_every_ns = moves_every.map_or(0, |time| time.as_nanos() as u64);
                Ok(Spread::Hot(Hot {
                    likelihood: likelihood(*access_percent),
                    len,
                    moves_every_ns,
                }))
            }
            Skew::Zones(zones) => {
                let (mut slots, mut access, mut span, mut start) = (Vec::new(), 0.0, 0.0, 0);
                for zone in zones {
                    access += zone.access_percent;
                    span += zone.span_percent;
                    let end = if span > 99.999_999 {
                        self.len
                    } else {
                        (self.len as f64 * span / 100.0) as u64
                    };
                    let end = end / self.unit * self.unit;
                    if zone.access_percent > 0.0 {
                        self.check_part(profile, "zone", end.saturating_sub(start))?;
                        slots.push(Slot { until: likelihood(access), start, len: end - start });
                    }
                    start = end;
                }
                Ok(Spread::Slots(slots))
            }
        }
    }

    /// Offsets of ranked popularity, scattered.
    fn ranked(&self, component: &Component, sector: ByteCount, law: impl Fn(u64) -> Law) -> Spread {
        let aligns = component.kinds.iter().map(|kind| align_of(kind, sector));
        let granule = aligns.min().unwrap_or(sector.0);
        let count = self.len / granule;
        Spread::Ranked { law: law(count), scatter: Scatter::new(count), granule }
    }

    fn check_part(&self, profile: &Profile, what: &str, len: u64) -> Result<()> {
        if len >= self.block {
            return Ok(());
        }
        Err(too_small(format!(
            "a {what} of the profile '{profile}' has {} of the area's {}, less than one block of \
                {}; give a larger target or {what}",
            ByteCount(len),
            ByteCount(self.len),
            ByteCount(self.block)
        )))
    }

    fn check_streams(&self, profile: &Profile) -> Result<()> {
        let count = u64::from(self.streams.count.max(1));
        let (need, each) = match self.streams.apart {
            Some(apart) if !apart.0.is_multiple_of(self.stride) => {
                return Err(Error::new(
                    ErrorKind::Misaligned,
                    format!(
                        "the streams of the profile '{profile}' are {apart} apart, which is no \
                            multiple of {}; give one that is",
                        ByteCount(self.stride)
                    ),
                ));
            }
            Some(apart) => (u128::from(apart.0) * u128::from(count), apart.0),
            None if count > 1 => (0, self.len / count / self.stride * self.stride),
            None => (0, self.len),
        };
        if need > u128::from(self.len) || each < self.block {
            return Err(too_small(format!(
                "{count} streams of the profile '{profile}' do not fit into the area's {}; give a \
                    larger target or area, or fewer or nearer streams",
                ByteCount(self.len)
            )));
        }
        Ok(())
    }

    /// The streams of `worker` out of `workers`.
    fn lanes(&self, worker: u32, workers: u32) -> Vec<Lane> {
        let share = |part: u32, parts: u32| {
            let strides = self.len / self.stride;
            (u128::from(strides) * u128::from(part) / u128::from(parts)) as u64 * self.stride
        };
        let count = self.streams.count;
        if count == 0 {
            return vec![Lane { low: 0, high: self.len, next: Cell::new(share(worker, workers)) }];
        }
        let lane = |stream: u32| {
            let (low, high) = match self.streams.apart {
                Some(apart) => (apart.0 * u64::from(stream), apart.0 * u64::from(stream + 1)),
                None if stream + 1 == count => (share(stream, count), self.len),
                None => (share(stream, count), share(stream + 1, count)),
            };
            Lane { low, high, next: Cell::new(low) }
        };
        (worker % count..count).step_by(workers.max(1) as usize).map(lane).collect()
    }
}

fn check_sectors(profile: &Profile, kind: &RequestKind, sector: ByteCount) -> Result<()> {
    let align = ByteCount(align_of(kind, sector));
    for (value, what) in [(kind.block, "blocks"), (align, "an alignment")] {
        if !value.is_aligned(sector) {
            return Err(Error::new(
                ErrorKind::Misaligned,
                format!(
                    "the profile '{profile}' asks for {what} of {value}, which are not whole \
                        {sector} sectors of the target; give a multiple of {sector}"
                ),
            ));
        }
    }
    Ok(())
}

/// A sequential stream: its range and its position.
#[derive(Debug)]
struct Lane {
    low: u64,
    high: u64,
    next: Cell<u64>,
}

impl Lane {
    fn advance(&self, block: u64, align: u64) -> u64 {
        let at = self.next.get().next_multiple_of(align);
        let at = if at + block > self.high { self.low.next_multiple_of(align) } else { at };
        self.next.set(at + block);
        at
    }
}

/// One worker's state: its random numbers and its positions in sequential streams. Its outstanding
/// I/Os share them, and they continue from point to point.
#[derive(Debug)]
pub(crate) struct Walk {
    random: RefCell<Random>,
    /// For every component of the pattern.
    lanes: Vec<Vec<Lane>>,
}

/// The identity of a worker's outstanding I/O, so that each keeps to its streams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asker {
    /// Its index among the worker's outstanding I/Os.
    pub(crate) number: usize,
    /// The number of outstanding I/Os.
    pub(crate) of: usize,
    /// How many requests it has made.
    pub(crate) turn: usize,
}

impl Asker {
    /// Selects one of `count` streams: each outstanding I/O has its own, or alternates.
    fn lane(&self, count: usize) -> usize {
        match count {
            1 => 0,
            _ if self.of >= count => self.number % count,
            _ => (self.number + self.turn * self.of) % count,
        }
    }
}

impl Walk {
    /// The state of `worker` out of `workers`: without explicit streams, the workers start evenly
    /// spaced over the area.
    pub(crate) fn new(pattern: &Pattern, seed: u64, worker: u32, workers: u32) -> Walk {
        Walk {
            random: RefCell::new(Random::new(seed.wrapping_add(u64::from(worker)))),
            lanes: pattern.places.iter().map(|place| place.lanes(worker, workers)).collect(),
        }
    }

    /// The next request, `elapsed_ns` after the point began.
    pub(crate) fn next(&self, pattern: &Pattern, asker: &Asker, elapsed_ns: u64) -> Request {
        let random = &mut *self.random.borrow_mut();
        let kind = pattern.kind(random);
        // Probabilities 0 and 1 need no random number.
        let happens = |random: &mut Random, likelihood: u64| match likelihood {
            0 => false,
            ALWAYS => true,
            likelihood => random.next() >> 32 < likelihood,
        };
        let reads = happens(random, kind.reads);
        let place = &pattern.places[kind.place];
        let offset = if happens(random, kind.randoms) {
            let (len, align) = (place.len, kind.align);
            let at =
                place.spread.offset(random, (len, place.unit), (kind.block, align), elapsed_ns);
            if kind.randoms < ALWAYS {
                let lanes = &self.lanes[kind.place];
                lanes[asker.lane(lanes.len())].next.set(at + kind.block);
            }
            at
        } else {
            let lanes = &self.lanes[kind.place];
            lanes[asker.lane(lanes.len())].advance(kind.block, kind.align)
        };
        Request {
            operation: if reads { Operation::Read } else { Operation::Write },
            offset: ByteOffset(place.start + offset),
            block: ByteCount(kind.block),
        }
    }

    /// A number that distinguishes payloads.
    pub(crate) fn stamp(&self) -> u64 {
        self.random.borrow_mut().next()
    }
}

#[cfg(test)]
mod tests;
