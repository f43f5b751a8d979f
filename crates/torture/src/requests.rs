//! What is asked of the volume: requests of awkward sizes at awkward places, each a function of the seed, the life, the
//! worker and its number, so that one can be left out and the others stay what they are.
//!
//! Every worker has a habit for a life: it roams; it meets all others on one stripe; it writes or reads one strip, or one
//! stripe, after the other.

use crate::options::RequestName;
use crate::setup::Setup;
use crate::stamp::Sector;
use platform::Durability;
use platform_sim::Rng;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Read,
    /// Where there is data, and where zeros.
    Status,
    Write,
    /// `as_payload`: as a write of zeroes that need no memory.
    WriteZeroes {
        as_payload: bool,
    },
    Trim,
    Flush,
}

/// A request that was drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub name: RequestName,
    pub what: What,
    pub first: Sector,
    pub count: u64,
    /// Bytes among those sectors, if not all.
    pub part: Option<ByteRange>,
    pub durability: Durability,
    /// What the worker waits before.
    pub pause: Option<Duration>,
    /// Bytes of a sector.
    pub sector: u64,
}

impl Request {
    /// The bytes it is about.
    pub fn range(&self) -> ByteRange {
        let whole =
            ByteRange::new(ByteOffset(self.first.0 * self.sector), ByteCount(self.count * self.sector));
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

/// Where the requests of a life go, for all workers.
#[derive(Clone)]
pub(crate) struct Places {
    /// By zone: its first sector, and how many it has.
    zones: Rc<[(u64, u64)]>,
    /// The stripe on which some workers meet: its first sector.
    hot: u64,
    strip: u64,
    stripe: u64,
    sector: u64,
}

impl Places {
    pub fn new(setup: &Setup, rng: &mut Rng) -> Places {
        let sector = setup.sector().bytes().0;
        let zones: Rc<[(u64, u64)]> =
            setup.zones.iter().map(|zone| (zone.start.0 / sector, zone.len.0 / sector)).collect();
        let stripe = setup.geometry.stripe_bytes().0 / sector;
        let (first, count) = zones[rng.below(zones.len() as u64) as usize];
        let hot = ((first + rng.below(count)) / stripe * stripe).clamp(first, first + count - 1);
        Places { zones, hot, strip: setup.strip.bytes().0 / sector, stripe, sector }
    }
}

/// What a worker is used to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Habit {
    /// Anything, anywhere.
    Roams,
    /// Anything, on the stripe where others are.
    Crowds,
    /// One piece after the other: writes, or reads.
    Streams { what: What, count: u64 },
}

/// The requests of one worker in one life.
pub(crate) struct Requests {
    places: Places,
    rng: Rng,
    /// Which reads become questions for the status: drawn by itself, so that all else is what it was before there were any.
    statuses: Rng,
    habit: Habit,
    next: RequestName,
    /// Where the stream goes on.
    at: u64,
    zone: (u64, u64),
    usual_time: Duration,
}

impl Requests {
    pub fn new(places: &Places, setup: &Setup, life: u64, worker: u64) -> Requests {
        let mut rng = Rng::new(setup.seed, "worker", &format!("{life}.{worker}"));
        let statuses = Rng::new(setup.seed, "status", &format!("{life}.{worker}"));
        let habit = match rng.below(8) {
            0..=4 => Habit::Roams,
            5..=6 => Habit::Crowds,
            _ => Habit::Streams {
                what: if rng.chance(3, 4) { What::Write } else { What::Read },
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
        Requests { places: places.clone(), rng, statuses, habit, next, at, zone, usual_time }
    }

    /// About how long a request takes.
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
            (92.., _) => What::Flush,
            (_, Habit::Streams { what, .. }) => what,
            (0..=29, _) => What::Read,
            (30..=75, _) => What::Write,
            (76..=83, _) => What::WriteZeroes { as_payload: rng.chance(1, 2) },
            _ => What::Trim,
        };
        let in_part = match what {
            What::Read => rng.chance(1, 4),
            What::Write => rng.chance(1, 4) && !matches!(self.habit, Habit::Streams { .. }),
            _ => false,
        };
        let (first, count) = self.sectors();
        let sector = self.places.sector;
        let mut request =
            Request { name, what, first: Sector(first), count, part: None, durability, pause, sector };
        if in_part {
            let whole = request.range();
            let skip = self.rng.below(whole.len.0);
            let len = self.rng.between(1, whole.len.0 - skip);
            let part = ByteRange::new(whole.start + ByteCount(skip), ByteCount(len));
            request.part = (part != whole && !part.is_aligned(ByteCount(sector))).then_some(part);
        }
        if what == What::Read && self.statuses.chance(1, 5) {
            (request.what, request.part) = (What::Status, None);
        }
        request
    }

    /// A run of sectors: mostly short, and often where others are.
    fn sectors(&mut self) -> (u64, u64) {
        let Places { strip, stripe, sector, hot, .. } = self.places;
        let (zone_first, zone_sectors) = match self.habit {
            Habit::Roams => {
                let zones = &self.places.zones;
                zones[self.rng.below(zones.len() as u64) as usize]
            }
            Habit::Crowds | Habit::Streams { .. } => self.zone,
        };
        // Half a mebibyte at most: the smallest memory of a shard holds some of these.
        let most = zone_sectors.min((512 << 10) / sector);
        if let Habit::Streams { count, .. } = self.habit {
            let count = count.min(most);
            if self.at + count > zone_first + zone_sectors {
                self.at = zone_first;
            }
            let first = self.at;
            self.at += count;
            return (first, count);
        }
        let rng = &mut self.rng;
        if self.habit == Habit::Crowds {
            let room = stripe
                .min(self.places.zones.iter().map(|(first, count)| first + count).max().unwrap_or(0) - hot);
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
