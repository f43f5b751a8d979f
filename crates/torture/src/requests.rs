//! The requests to the volume, of unusual sizes at unusual places. Each is a function of the seed,
//! the life, the worker and its number, so that omissions do not change the others.
//!
//! In a life every worker has a pattern: random; all workers on one stripe; or sequential writes or
//! reads of one strip or stripe at a time.

use crate::options::RequestName;
use crate::setup::Setup;
use crate::stamp::Sector;
use platform::Durability;
use platform_sim::Rng;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    /// A block status query.
    Status,
    Write,
    /// `as_payload`: as a write of zeroes without memory.
    WriteZeroes {
        as_payload: bool,
    },
    Trim,
    Flush,
}

/// A drawn request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub name: RequestName,
    pub what: Operation,
    pub first: Sector,
    pub count: u64,
    /// The byte range within these sectors, if not all.
    pub part: Option<ByteRange>,
    pub durability: Durability,
    /// A read or write begins without a task, as hosts' ports send it.
    pub is_taskless: bool,
    /// The worker's pause before the request.
    pub pause: Option<Duration>,
    /// The sector size in bytes.
    pub sector: u64,
}

impl Request {
    /// The byte range of the request.
    pub fn range(&self) -> ByteRange {
        let whole = ByteRange::new(
            ByteOffset(self.first.0 * self.sector),
            ByteCount(self.count * self.sector),
        );
        self.part.unwrap_or(whole)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "sector {}", self.first.0)?,
            count => write!(f, "sectors {} to {}", self.first.0, self.first.0 + count - 1)?,
        }
        match self.part {
            Some(part) => write!(f, ", {} bytes from {} on", part.len.0, part.start.0),
            None => Ok(()),
        }
    }
}

/// The targets of a life's requests, for all workers.
#[derive(Clone)]
pub(crate) struct Targets {
    /// By zone: its first sector, and its number of sectors.
    zones: Rc<[(u64, u64)]>,
    /// The first sector of the stripe that several workers use.
    hot: u64,
    strip: u64,
    stripe: u64,
    sector: u64,
}

impl Targets {
    pub fn new(setup: &Setup, rng: &mut Rng) -> Targets {
        let sector = setup.sector().bytes().0;
        let zones: Rc<[(u64, u64)]> =
            setup.zones.iter().map(|zone| (zone.start.0 / sector, zone.len.0 / sector)).collect();
        let stripe = setup.geometry.stripe_bytes().0 / sector;
        let (first, count) = zones[rng.below(zones.len() as u64) as usize];
        let hot = ((first + rng.below(count)) / stripe * stripe).clamp(first, first + count - 1);
        Targets { zones, hot, strip: setup.strip.bytes().0 / sector, stripe, sector }
    }
}

/// A worker's access pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AccessPattern {
    /// Any request at any place.
    Roams,
    /// Any request on the shared stripe.
    Crowds,
    /// Sequential writes, or sequential reads.
    Streams { what: Operation, count: u64 },
}

/// The requests of one worker in one life.
pub(crate) struct Requests {
    places: Targets,
    rng: Rng,
    /// Selects reads that become status queries: a separate stream, which leaves other draws
    /// unchanged.
    statuses: Rng,
    /// Selects requests without a task, likewise.
    taskless: Rng,
    habit: AccessPattern,
    next: RequestName,
    /// The next position of the stream.
    at: u64,
    zone: (u64, u64),
    usual_time: Duration,
}

impl Requests {
    pub fn new(places: &Targets, setup: &Setup, life: u64, worker: u64) -> Requests {
        let mut rng = Rng::new(setup.seed, "worker", &format!("{life}.{worker}"));
        let statuses = Rng::new(setup.seed, "status", &format!("{life}.{worker}"));
        let taskless = Rng::new(setup.seed, "taskless", &format!("{life}.{worker}"));
        let habit = match rng.below(8) {
            0..=4 => AccessPattern::Roams,
            5..=6 => AccessPattern::Crowds,
            _ => AccessPattern::Streams {
                what: if rng.chance(3, 4) { Operation::Write } else { Operation::Read },
                count: match rng.below(4) {
                    0 => places.stripe,
                    1 => places.strip,
                    2 => rng.between(1, places.strip),
                    _ => places.stripe * 2 + 1,
                },
            },
        };
        let zone = places.zones[rng.below(places.zones.len() as u64) as usize];
        let at = zone.0 + (rng.below(zone.1) / places.stripe * places.stripe);
        let next = RequestName { life, worker, number: 0 };
        let usual_time = Duration::from_nanos(setup.drives[0].latency.max_ns * 2);
        Requests {
            places: places.clone(),
            rng,
            statuses,
            taskless,
            habit,
            next,
            at,
            zone,
            usual_time,
        }
    }

    /// The approximate duration of a request.
    pub fn usual_time(&self) -> Duration {
        self.usual_time
    }

    /// The next request.
    pub fn next(&mut self) -> Request {
        let name = self.next;
        self.next.number += 1;
        let rng = &mut self.rng;
        let pause = rng.chance(1, 4).then(|| Duration::from_micros(rng.between(1, 2000)));
        let durability = if rng.chance(1, 4) { Durability::Durable } else { Durability::Cached };
        let what = match (rng.below(100), self.habit) {
            (92.., _) => Operation::Flush,
            (_, AccessPattern::Streams { what, .. }) => what,
            (0..=29, _) => Operation::Read,
            (30..=75, _) => Operation::Write,
            (76..=83, _) => Operation::WriteZeroes { as_payload: rng.chance(1, 2) },
            _ => Operation::Trim,
        };
        let in_part = match what {
            Operation::Read => rng.chance(1, 4),
            Operation::Write => {
                rng.chance(1, 4) && !matches!(self.habit, AccessPattern::Streams { .. })
            }
            _ => false,
        };
        let (first, count) = self.sectors();
        let sector = self.places.sector;
        let mut request = Request {
            name,
            what,
            first: Sector(first),
            count,
            part: None,
            durability,
            is_taskless: self.taskless.chance(1, 2),
            pause,
            sector,
        };
        if in_part {
            let whole = request.range();
            let skip = self.rng.below(whole.len.0);
            let len = self.rng.between(1, whole.len.0 - skip);
            let part = ByteRange::new(whole.start + ByteCount(skip), ByteCount(len));
            request.part = (part != whole && !part.is_aligned(ByteCount(sector))).then_some(part);
        }
        if what == Operation::Read && self.statuses.chance(1, 5) {
            (request.what, request.part) = (Operation::Status, None);
        }
        request
    }

    /// A range of sectors: usually short, and often at the shared stripe.
    fn sectors(&mut self) -> (u64, u64) {
        let Targets { strip, stripe, sector, hot, .. } = self.places;
        let (zone_first, zone_sectors) = match self.habit {
            AccessPattern::Roams => {
                let zones = &self.places.zones;
                zones[self.rng.below(zones.len() as u64) as usize]
            }
            AccessPattern::Crowds | AccessPattern::Streams { .. } => self.zone,
        };
        // At most 512 KiB: the smallest memory of a shard holds some of these.
        let most = zone_sectors.min((512 << 10) / sector);
        if let AccessPattern::Streams { count, .. } = self.habit {
            let count = count.min(most);
            if self.at + count > zone_first + zone_sectors {
                self.at = zone_first;
            }
            let first = self.at;
            self.at += count;
            return (first, count);
        }
        let rng = &mut self.rng;
        if self.habit == AccessPattern::Crowds {
            let room = stripe.min(
                self.places.zones.iter().map(|(first, count)| first + count).max().unwrap_or(0)
                    - hot,
            );
            let at = rng.below(room);
            let count = if rng.chance(1, 8) { room - at } else { rng.between(1, 8).min(room - at) };
            return (hot + at, count.min((512 << 10) / sector));
        }
        let count = match rng.below(16) {
            0..=8 => rng.between(1, 8),
            9..=11 => rng.between(1, strip * 2),
            12 => stripe,
            13 => rng.between(1, stripe * 3),
            14 => strip,
            _ => rng.between(1, zone_sectors / 2),
        };
        let count = count.min(most);
        let room = zone_sectors - count + 1;
        let at = match rng.below(4) {
            0 => rng.below(room.min(24)),
            1 => (rng.below(room) / stripe * stripe).min(room - 1),
            2 => (rng.below(room) / strip * strip).min(room - 1),
            _ => rng.below(room),
        };
        (zone_first + at, count)
    }
}
