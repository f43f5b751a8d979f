//! Chooses the cheapest way in each of many bands.
//!
//! Several extents and cached ranges may cut a stripe into too many bands to try all combinations.
//! The price of a band depends only on itself and on the previous band, since a read that continues
//! from there is no new I/O. So dynamic programming suffices: for each way of a band, the cheapest
//! path to it is kept, and the cheapest path at the end is read back.
//!
//! ```text
//!           band 0     band 1     band 2
//!   RMW       4 ───────── 6 ─┐      -          a line: the cheapest way so far
//!   RCW       3 ─────┐    9  └────> 8
//!   recovery  -      └──> 7         9
//! ```
//!
//! Each way is priced twice: with cached data taken from memory, and with it read, because a
//! continuous read may be one I/O instead of two. So a plan never costs more than without the
//! cache. For the same reason recovery is priced where it is not needed, and the reads of RMW in
//! full bands:
//!
//! ```text
//!             D0   D1   D2    P      # written   m written, and cached
//!   0..8 KiB   #    .    .    .      RMW: D0 and P are read
//!   8..16      #    m    m    .      new parity needs nothing; D0 and P are read through
//!   16..24     #    .    .    .      RMW: D0 and P are read, each in one I/O from 0 to 24 KiB
//! ```
//!
//! A read continues through a band only as a way of that band reads all its strips. Two options are
//! not tried: reading only one of these strips, and reading through a band without writes other
//! than by recovery. The model in `tests/choice.rs` has the same choices.
//!
//! Ties go to RMW, then to RCW.

use crate::bands::{Band, MAX_BANDS, Mask};
use crate::survey::{InBand, Parities, Strips, Survey, roles_in, strips};
use crate::ways::{Choice, Ways};
use crate::{Bands, Plan, Price};

/// The ways to keep parity in a band: see `ways.rs`. Cached data is not read.
const RMW: usize = 0;
const RCW: usize = 2;
const RECOVER: usize = 4;
/// Added to a way: cached data is read as well, where possible.
const READS_ALL: usize = 1;
const WAYS: usize = 6;

/// A band for a way: `cached` reduced to the strips taken from memory.
fn as_taken(band: &Band, survey: &Survey, way: usize) -> Band {
    let cached_parity = band.cached_parity & survey.trusted_parity();
    let (cached, cached_parity) = match way {
        RMW | RCW | RECOVER => (band.cached, cached_parity),
        _ if way == RECOVER | READS_ALL
            && survey.enough(survey.unreadable, survey.all).is_some() =>
        {
            (0, 0)
        }
        _ => (band.cached & survey.unreadable, cached_parity & !survey.usable),
    };
    Band { cached, cached_parity, ..*band }
}

/// The reads of one band.
#[derive(Clone, Copy, Default)]
struct Reads {
    data: Strips,
    parity: Parities,
}

impl Reads {
    /// Their price after those of the previous band: a continued read is no new I/O.
    fn price_after(self, before: Reads, len: u64) -> Price {
        let begun =
            (self.data & !before.data).count_ones() + (self.parity & !before.parity).count_ones();
        let strips = self.data.count_ones() + self.parity.count_ones();
        Price { drive_ios: begun, bytes: len * u64::from(strips) }
    }
}

fn plus(a: Price, b: Price) -> Price {
    Price { drive_ios: a.drive_ios + b.drive_ios, bytes: a.bytes + b.bytes }
}

/// The reads of a band, for each possible way.
#[derive(Clone, Copy)]
struct Stage {
    len: u64,
    /// Whether parity is kept in this band.
    follows: bool,
    /// Whether all data is written.
    full: bool,
    ways: [Option<Reads>; WAYS],
}

impl Stage {
    fn of(ways: &Ways, survey: &Survey, all: Strips, b: usize, band: &Band) -> Stage {
        let is = |mask: Mask| mask >> b & 1 == 1;
        let follows = is(ways.rmw | ways.rcw | ways.recover);
        let mut stage = Stage { len: band.len, follows, full: is(ways.full), ways: [None; WAYS] };
        // Without cached data this alternative does not exist.
        let is_bare = band.cached == 0 && band.cached_parity == 0;
        for way in 0..WAYS {
            if is_bare && way & READS_ALL != 0 {
                continue;
            }
            let band = as_taken(band, survey, way);
            let (data, parity) = match way & !READS_ALL {
                RMW if is(ways.rmw | ways.through) => (band.concerned, survey.writable),
                RCW if is(ways.rcw) => (!band.concerned, 0),
                // Also where it is not needed: continuous reads may save I/Os.
                RECOVER if survey.writable != 0 => match survey.in_band(&band) {
                    InBand { unreadable, recover_from: Some(from), .. } => (!unreadable, from),
                    InBand { recover_from: None, .. } => continue,
                },
                _ => continue,
            };
            let data = data & all & !band.cached;
            stage.ways[way] = Some(Reads { data, parity: parity & !band.cached_parity });
        }
        stage
    }

    /// The same with only the first possible way in that order. A full band needs no reads, or
    /// those of RMW.
    fn only(mut self, order: [usize; 3]) -> Stage {
        let first = order.into_iter().find(|way| self.ways[*way].is_some());
        for (way, reads) in self.ways.iter_mut().enumerate() {
            let way = way & !READS_ALL;
            let is_free = self.full && way != RECOVER;
            let stays = self.follows && (is_free || first == Some(way));
            *reads = reads.filter(|_| stays);
        }
        self
    }

    /// The ways and their reads. A band without parity has no reads, as RCW.
    fn each(&self) -> impl Iterator<Item = (usize, Reads)> {
        let idle = (!self.follows).then_some((RCW, Reads::default()));
        let ways = self.ways.into_iter().enumerate().filter_map(|(way, reads)| Some((way, reads?)));
        ways.chain(idle)
    }
}

/// The cheapest path through the bands: the price of its reads, and the way of each band.
fn cheapest_through(stages: impl Iterator<Item = Stage>) -> (Price, [u8; MAX_BANDS]) {
    let mut came_from = [[0_u8; WAYS]; MAX_BANDS];
    let mut before = [None; WAYS];
    before[0] = Some((Price::default(), Reads::default()));
    let mut count = 0;
    for stage in stages {
        let mut here = [None; WAYS];
        for (way, reads) in stage.each() {
            for (from, until) in before.iter().enumerate() {
                let Some((price, earlier)) = *until else { continue };
                let price = plus(price, reads.price_after(earlier, stage.len));
                if here[way].is_none_or(|(least, _)| price < least) {
                    here[way] = Some((price, reads));
                    came_from[count][way] = from as u8;
                }
            }
        }
        before = here;
        count += 1;
    }
    let ends =
        before.iter().enumerate().filter_map(|(way, end)| end.map(|(price, _)| (price, way)));
    let (price, mut way) = ends.min().unwrap_or_default();
    let mut taken = [0; MAX_BANDS];
    for b in (0..count).rev() {
        taken[b] = way as u8;
        way = usize::from(came_from[b][way]);
    }
    (price, taken)
}

/// The cheapest combination; records the method, the reason and the cached ranges in the plan.
pub(crate) fn cheapest(ways: &Ways, plan: &mut Plan, survey: &Survey) -> Choice {
    let all = strips(0, plan.geometry.data_strips());
    let stages = || {
        plan.bands.all().iter().enumerate().map(|(b, band)| Stage::of(ways, survey, all, b, band))
    };
    let (least, taken) = cheapest_through(stages());
    let (rmw, _) = cheapest_through(stages().map(|stage| stage.only([RMW, RCW, RECOVER])));
    let (rcw, _) = cheapest_through(stages().map(|stage| stage.only([RCW, RMW, RECOVER])));
    let mut choice = Choice::default();
    for (b, band) in plan.bands.band.iter_mut().enumerate() {
        let (bit, way) = (1 << b, usize::from(taken[b]));
        *band = as_taken(band, survey, way);
        match way & !READS_ALL {
            RMW if ways.full & bit == 0 => choice.rmw |= bit,
            RMW => (choice.rcw, choice.through) = (choice.rcw | bit, choice.through | bit),
            RCW => choice.rcw |= bit & ways.rcw,
            _ => {
                choice.recover |= bit;
                let parity = survey.in_band(band).recover_from.unwrap_or(0);
                for (n, _) in roles_in(parity) {
                    choice.recover_from[usize::from(n)] |= bit;
                }
            }
        }
    }
    let writes = write_price(plan, survey, ways.rmw | ways.rcw | ways.recover);
    ways.decide(plan, survey, choice, [least, rmw, rcw].map(|reads| plus(reads, writes)));
    choice
}

/// The price of the writes, equal for all ways; parity is written where it `follows`.
fn write_price(plan: &Plan, survey: &Survey, follows: Mask) -> Price {
    let mut price = Price::default();
    let mut add = |mask: Mask| {
        let bytes = plan.bands.columns(mask);
        price = plus(price, Price { drive_ios: Bands::ios(mask), bytes });
    };
    for i in (plan.bands.first..=plan.bands.last).filter(|i| survey.unwritable >> i & 1 == 0) {
        add(plan.bands.of_strip(i));
    }
    for _ in roles_in(survey.writable) {
        add(follows);
    }
    price
}
