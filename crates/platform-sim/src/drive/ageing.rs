//! Spontaneous faults: over time, and with a drive's own writes.
//!
//! Faults over time are applied when the drive is used: before an operation takes effect, and
//! before a test inspects it, in the order of their times. So they do not keep an idle simulation
//! running, and a drive's content at an instant does not depend on earlier inspections.

use super::content::{Content, Written};
use super::faults::{Fault, bytes_of};
use super::handle::StrayWrite;
use crate::core::Core;
use crate::options::{DriveFaults, DriveOptions};
use crate::rng::{Fold, Rng};
use platform::Instant;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// A recurring event, at random intervals around a mean.
struct Recurring {
    rng: Rng,
    every: Option<Duration>,
    next: Instant,
}

impl Recurring {
    fn new(rng: Rng) -> Recurring {
        Recurring { rng, every: None, next: Instant::default() }
    }

    /// Restarts with this mean interval, from `now`.
    fn restart(&mut self, every: Option<Duration>, now: Instant) {
        self.every = every;
        self.draw_next(now);
    }

    fn draw_next(&mut self, after: Instant) {
        if let Some(every) = self.every {
            let mean = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX / 2).max(2);
            self.next = after
                + Duration::from_nanos(self.rng.between(mean / 2, mean.saturating_mul(3) / 2));
        }
    }

    /// The next occurrence, if it is not after `now`.
    fn due(&self, now: Instant) -> Option<Instant> {
        (self.every.is_some() && self.next <= now).then_some(self.next)
    }
}

/// A write error that is not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stray {
    /// The write has no effect.
    Lost,
    /// The write goes to another address.
    Misdirected,
}

impl Stray {
    pub fn name(self) -> &'static str {
        match self {
            Stray::Lost => "loses a write",
            Stray::Misdirected => "misdirects a write",
        }
    }
}

/// An injected fault: the next `count` writes that touch `within` go wrong.
pub(super) struct InjectedStray {
    pub stray: Stray,
    pub within: Option<ByteRange>,
    pub count: u64,
}

/// A drive's spontaneous faults. See the [module](self).
pub(super) struct Ageing {
    faults: DriveFaults,
    unreadable: Recurring,
    rot: Recurring,
    slow: Recurring,
    slow_until: Instant,
    strays: Rng,
    unwritable_key: u64,
    pub orders: Vec<InjectedStray>,
    pub strayed: Vec<StrayWrite>,
}

impl Ageing {
    pub fn new(core: &Core, name: &str, faults: DriveFaults) -> Ageing {
        let mut ageing = Ageing {
            faults: DriveFaults::default(),
            unreadable: Recurring::new(core.rng("unreadable", name)),
            rot: Recurring::new(core.rng("rot", name)),
            slow: Recurring::new(core.rng("slow", name)),
            slow_until: Instant::default(),
            strays: core.rng("stray", name),
            unwritable_key: core.rng("unwritable", name).next_u64(),
            orders: Vec::new(),
            strayed: Vec::new(),
        };
        ageing.set(faults, core.now());
        ageing
    }

    /// Replaces the fault settings from `now`; existing faults stay.
    pub fn set(&mut self, faults: DriveFaults, now: Instant) {
        self.faults = faults;
        self.unreadable.restart(faults.unreadable_every, now);
        self.rot.restart(faults.rot_every, now);
        self.slow.restart(faults.slow_every, now);
        self.slow_until = now;
    }

    /// Applies all faults up to `now`. Returns their names for the trace.
    pub fn come(
        &mut self,
        options: &DriveOptions,
        content: &mut Content,
        now: Instant,
    ) -> Vec<&'static str> {
        let mut came = Vec::new();
        loop {
            let (unreadable, rot) = (self.unreadable.due(now), self.rot.due(now));
            let is_rot = match (unreadable, rot) {
                (None, None) => break,
                (Some(unreadable), Some(rot)) => rot < unreadable,
                (unreadable, _) => unreadable.is_none(),
            };
            let process = if is_rot { &mut self.rot } else { &mut self.unreadable };
            let range = draw_run(&self.faults, options, &mut process.rng);
            let (fault, name) = match is_rot {
                true => (Fault::Rot(process.rng.between(1, 255) as u8), "rots by itself"),
                false => (Fault::Unreadable, "medium error by itself"),
            };
            process.draw_next(process.next);
            if !range.is_empty() {
                content.lay(range, &fault);
                came.push(name);
            }
        }
        while let Some(start) = self.slow.due(now) {
            self.slow_until = start + self.faults.slow_for;
            self.slow.draw_next(self.slow_until);
        }
        came
    }

    /// The factor on the duration of operations that start at `now`, after [`Ageing::come`].
    pub fn slowness(&self, now: Instant) -> u32 {
        if now < self.slow_until { self.faults.slow_times.max(1) } else { 1 }
    }

    fn concerns(&self, range: ByteRange) -> bool {
        self.faults.within.is_none_or(|within| within.overlaps(range))
    }

    /// Whether `range` contains an unwritable block; the set of these blocks is constant.
    pub fn is_unwritable(&self, options: &DriveOptions, range: ByteRange) -> bool {
        let one_in = self.faults.unwritable_one_in;
        if one_in == 0 || !self.concerns(range) {
            return false;
        }
        let part = self.faults.within.map_or(range, |within| within.intersection(range));
        let sector = options.logical_sector.bytes().0;
        (part.start.0 / sector..part.end().0.div_ceil(sector)).any(|sector| {
            let mut hash = Fold::new(self.unwritable_key);
            hash.number(sector);
            hash.value().is_multiple_of(one_in)
        })
    }

    /// The error of a write request over `range`, if it goes wrong.
    pub fn stray(&mut self, range: ByteRange) -> Option<Stray> {
        let fits = |order: &InjectedStray| order.within.is_none_or(|within| within.overlaps(range));
        if let Some(at) = self.orders.iter().position(fits) {
            let order = &mut self.orders[at];
            order.count -= 1;
            let stray = order.stray;
            if order.count == 0 {
                self.orders.remove(at);
            }
            return Some(stray);
        }
        let concerned = self.concerns(range);
        let mut one_in = |of: u64| of > 0 && concerned && self.strays.chance(1, of);
        if one_in(self.faults.lost_write_one_in) {
            Some(Stray::Lost)
        } else if one_in(self.faults.misdirected_write_one_in) {
            Some(Stray::Misdirected)
        } else {
            None
        }
    }

    /// A random address for a misdirected write, outside `range`. `None` if there is no space.
    fn elsewhere(&mut self, options: &DriveOptions, range: ByteRange) -> Option<ByteOffset> {
        let sector = options.logical_sector.bytes().0;
        let space = self.faults.within.unwrap_or(ByteRange::new(ByteOffset(0), options.size));
        let (low, high) =
            (space.start.0.div_ceil(sector), space.end().0.min(options.size.0) / sector);
        let (first, count) = (range.start.0 / sector, range.len.0 / sector);
        // The start addresses that avoid the range: those below it, then those above it.
        let below = (first + 1).saturating_sub(count).saturating_sub(low);
        let above_from = (first + count).max(low);
        let above = (high + 1).saturating_sub(count).saturating_sub(above_from);
        if below + above == 0 {
            return None;
        }
        let draw = self.strays.below(below + above);
        let start = if draw < below { low + draw } else { above_from + (draw - below) };
        Some(ByteOffset(start * sector))
    }

    /// Performs a write that goes wrong. The drive acknowledges it, and its range reads as before;
    /// a misdirected one changes another range.
    pub fn carry_out(
        &mut self,
        options: &DriveOptions,
        content: &mut Content,
        stray: Stray,
        write: Written,
    ) {
        let place = match stray {
            Stray::Lost => None,
            Stray::Misdirected => self.elsewhere(options, write.range),
        };
        let (bytes, missed) = (bytes_of(&write), write.range);
        content.write(Written { lost: true, ..write });
        let mut landed = None;
        if let (Some(place), Some(bytes)) = (place, bytes) {
            content.put_instead(place, &bytes);
            landed = Some(ByteRange::new(place, missed.len));
        }
        self.strayed.push(StrayWrite { missed, landed });
    }
}

/// A random run of sectors.
fn draw_run(faults: &DriveFaults, options: &DriveOptions, rng: &mut Rng) -> ByteRange {
    let sector = options.logical_sector.bytes().0;
    let whole = ByteRange::new(ByteOffset(0), options.size);
    let space = faults.within.unwrap_or(whole).intersection(whole);
    let (first, end) = (space.start.0.div_ceil(sector), space.end().0 / sector);
    if first >= end {
        return ByteRange::default();
    }
    let start = first + rng.below(end - first);
    let count = rng.between(1, faults.longest_run_sectors.max(1)).min(end - start);
    ByteRange::new(ByteOffset(start * sector), ByteCount(count * sector))
}
