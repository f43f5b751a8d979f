//! The ways to keep parity in each band, and the choice of the cheapest.
//!
//! `W`: the strips written in a band; `U`: the other data strips; `T`: the writable ones of P and
//! Q.
//!
//! | way | reads | is possible when |
//! | --- | --- | --- |
//! | RMW | old `W`, and `T` | these are readable and consistent |
//! | RCW | `U` | it is readable |
//! | recovery | all readable strips, and one parity strip per unreadable one | a strip of `U` is unreadable, and parity suffices |
//!
//! Parity alone holds an unwritable strip, and an unreadable strip of `U`: after the write there
//! may be no more of both than written parity strips. Without writable parity only data is written,
//! provided that no strip depends on old parity.
//!
//! Bands are chosen together, because adjacent bytes on a drive are one I/O: fewest drive I/Os
//! first, then fewest bytes, then RMW. Bands with recovery form one run. For one range, with at
//! most three bands, all combinations are tried; several extents are priced in `weigh.rs`.
//!
//! A fully written band needs no read, but is read where that joins adjacent reads: see `weigh.rs`.
//!
//! Cached data counts as read.

use crate::bands::{Band, Mask, RANGE_BANDS};
use crate::survey::{InBand, Parities, Pieces, Strips, Survey, each, roles_in, strips};
use crate::{Alternative, Bands, ErrorKind, Method, Plan, Price, Unplannable, Verdict};

/// The bands in which each way is possible.
#[derive(Default)]
pub(crate) struct Ways {
    /// Bands with data to write.
    pub(crate) active: Mask,
    /// Bands that are written completely.
    pub(crate) full: Mask,
    /// Those of them in which all reads of RMW are possible.
    pub(crate) through: Mask,
    pub(crate) rmw: Mask,
    pub(crate) rcw: Mask,
    pub(crate) recover: Mask,
    /// The bands in which recovery reads P, and those in which it reads Q.
    pub(crate) recover_from: [Mask; 2],
}

/// The way of each band; in other active bands only data is written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Choice {
    pub(crate) rmw: Mask,
    pub(crate) rcw: Mask,
    /// For one range a run of bands; inactive ones among them are only read.
    pub(crate) recover: Mask,
    /// In which of these P and Q are read.
    pub(crate) recover_from: [Mask; 2],
    /// Full bands of `rcw` that are read like RMW, to join the reads on both sides. The data is not
    /// used. Empty for one range.
    pub(crate) through: Mask,
}

impl Choice {
    /// The bands in which a data strip is read if possible: RMW reads written ones, RCW unwritten
    /// ones, recovery all.
    pub(crate) fn reads_of(&self, written: Mask) -> Mask {
        (written & (self.rmw | self.through)) | (!written & self.rcw) | self.recover
    }

    /// The bands of P (`bit` 0) or Q (1) that are read.
    pub(crate) fn parity_reads(&self, survey: &Survey, bit: u16) -> Mask {
        let updated = if survey.writable >> bit & 1 == 1 { self.rmw | self.through } else { 0 };
        updated | self.recover_from[usize::from(bit)]
    }
}

impl Ways {
    /// The possible ways of each band.
    ///
    /// # Errors
    /// When a band cannot be written without loss of the written or other data.
    pub(crate) fn of(plan: &Plan, survey: &Survey) -> Result<Ways, Unplannable> {
        let mut ways = Ways::default();
        let (mut homeless, mut lost) = (Pieces::default(), Pieces::default());
        let all = strips(0, plan.geometry.data_strips());
        let has_parity = survey.writable != 0;
        let on_drives = survey.in_band(&Band::default());
        let recoverable = on_drives.recover_from.is_some();
        for (b, band) in plan.bands.all().iter().enumerate() {
            let is_bare = band.cached == 0 && band.cached_parity == 0;
            let in_band = if is_bare { on_drives } else { survey.in_band(band) };
            let InBand { unreadable, usable, recover_from } = in_band;
            let (written, bit): (Strips, Mask) = (band.concerned, 1 << b);
            if let Some(from) = recover_from {
                for (parity, _) in roles_in(from) {
                    ways.recover_from[usize::from(parity)] |= bit;
                }
            }
            if written == 0 {
                continue;
            }
            let hidden = unreadable & !written;
            // A cached strip does not keep its drive's data: parity alone holds it after the write.
            let gone = survey.unreadable & !written;
            let homes = survey.unwritable & written;
            let rmw = has_parity && survey.writable & !usable == 0 && unreadable & written == 0;
            let rcw = has_parity && hidden == 0;
            let recover = has_parity && hidden != 0 && recover_from.is_some();
            let follows = rmw || rcw || recover;
            let kept = if follows { survey.writable.count_ones() } else { 0 };
            let too_many = gone.count_ones() + homes.count_ones() > kept;
            // Trusted parity that is unreadable now would be wrong if it became readable again.
            let left_wrong = !follows && has_parity && plan.health.parity_trusted;
            if homes != 0 && too_many {
                homeless.add(&plan.bands, b, homes);
            } else if gone != 0 && (left_wrong || too_many && recoverable) {
                lost.add(&plan.bands, b, gone);
            }
            ways.active |= bit;
            ways.full |= if written == all { bit } else { 0 };
            ways.rmw |= if rmw && written != all { bit } else { 0 };
            ways.through |= if rmw && written == all { bit } else { 0 };
            ways.rcw |= if rcw { bit } else { 0 };
            ways.recover |= if recover { bit } else { 0 };
        }
        if !homeless.is_empty() {
            return Err(homeless.into_error(ErrorKind::NothingWritable, plan.stripe));
        }
        if !lost.is_empty() {
            return Err(lost.into_error(ErrorKind::DataLost, plan.stripe));
        }
        Ok(ways)
    }

    /// The cheapest combination; records the method and the reason in the plan.
    pub(crate) fn choose(&self, plan: &mut Plan, survey: &Survey) -> Choice {
        let only_recover = Bands::hull(self.recover & !self.rmw & !self.rcw);
        if self.rmw | self.recover == 0 && self.full == self.active {
            plan.method = if self.rcw == 0 { Method::DataOnly } else { Method::FullStripe };
            return Choice { rcw: self.rcw, ..Choice::default() };
        }
        if plan.bands.is_scattered {
            return crate::weigh::cheapest(self, plan, survey);
        }
        let written = Written::of(plan, survey);
        let mut best: Option<(Price, Choice)> = None;
        // Prices of the first and the last combination without recovery, if possible.
        let (mut most_rmw, mut most_rcw) = (Price::default(), Price::default());
        let optional = self.recover & !only_recover;
        // Recovery in additional bands comes last, so that it wins no ties.
        for more in (0..1 << RANGE_BANDS).filter(|more| more & !optional == 0) {
            let recover = only_recover | more;
            if Bands::hull(recover) != recover {
                continue;
            }
            let (rmw, rcw) = (self.rmw & !recover, self.rcw & !recover);
            let either = rmw & rcw;
            // Descends through the subsets of `either`: RMW in all of them comes first and wins
            // ties.
            let mut subset = either;
            loop {
                let choice = Choice {
                    rmw: rmw & !either | subset,
                    rcw: rcw & !either | (either & !subset),
                    recover,
                    recover_from: self.recover_from.map(|from| from & recover),
                    through: 0,
                };
                let price = written.price(choice, survey);
                if best.is_none_or(|(least, _)| price < least) {
                    best = Some((price, choice));
                }
                if more == 0 {
                    most_rmw = if subset == either { price } else { most_rmw };
                    most_rcw = price;
                }
                if subset == 0 {
                    break;
                }
                subset = (subset - 1) & either;
            }
        }
        let (chosen, choice) = best.unwrap_or_default();
        self.decide(plan, survey, choice, [chosen, most_rmw, most_rcw]);
        choice
    }

    /// Records the choice and its reason: its price, and those of RMW and of RCW in all bands, if
    /// possible.
    pub(crate) fn decide(
        &self,
        plan: &mut Plan,
        survey: &Survey,
        choice: Choice,
        prices: [Price; 3],
    ) {
        let [chosen, rmw, rcw] = prices;
        plan.method = self.method(choice);
        if choice.rmw | choice.rcw | choice.recover != 0 {
            let (rmw, rcw) = (self.rmw_throughout(plan, rmw, survey), self.rcw_throughout(rcw));
            plan.verdict = Verdict::Chosen { chosen, rmw, rcw };
        }
    }

    fn rmw_throughout(&self, plan: &Plan, price: Price, survey: &Survey) -> Alternative {
        // Parity that is cached wherever it is needed replaces an unreadable drive.
        let lacks = |from: Parities| {
            let bands = plan.bands.all().iter().filter(|band| band.concerned != 0);
            let lacking = survey.writable & !from;
            bands
                .into_iter()
                .any(|band| lacking & !(band.cached_parity & survey.trusted_parity()) != 0)
        };
        if self.rmw | self.full == self.active {
            Alternative::Price(price)
        } else if lacks(survey.readable) {
            Alternative::ParityUnreadable
        } else if lacks(survey.usable) {
            Alternative::ParityUntrusted
        } else {
            Alternative::DataUnreadable
        }
    }

    fn rcw_throughout(&self, price: Price) -> Alternative {
        if self.rcw == self.active {
            Alternative::Price(price)
        } else {
            Alternative::DataUnreadable
        }
    }

    fn method(&self, choice: Choice) -> Method {
        if choice.rmw | choice.rcw | choice.recover == 0 {
            Method::DataOnly
        } else if choice.rmw == self.active {
            Method::Rmw
        } else if choice.recover & self.active == self.active {
            Method::RecoverWrite
        } else if choice.rcw != self.active {
            Method::Mixed
        } else if self.full == self.active {
            Method::FullStripe
        } else {
            Method::Rcw
        }
    }
}

/// Summary of the write, for pricing without a loop over strips: the first strip, the last one,
/// those between them (requested in every band), and the others (in none).
struct Written {
    classes: [(u32, Mask); 4],
    /// The bands of the strips that recovery computes; these are never read.
    hidden: [Option<Mask>; 2],
    active: Mask,
    data: Price,
    /// The columns in each set of bands.
    columns: [u64; 1 << RANGE_BANDS],
}

impl Written {
    fn of(plan: &Plan, survey: &Survey) -> Written {
        let bands = &plan.bands;
        let concerned = u32::from(bands.last - bands.first) + 1;
        let others = u32::from(plan.geometry.data_strips()) - concerned;
        let every = (1 << bands.all().len()) - 1;
        let classes = [
            (1, bands.of_strip(bands.first)),
            (u32::from(concerned > 1), bands.of_strip(bands.last)),
            (concerned.saturating_sub(2), every),
            (others, 0),
        ];
        let active = classes[..3]
            .iter()
            .fold(0, |active, (count, mask)| if *count > 0 { active | mask } else { active });
        let mut data = Price { drive_ios: concerned, bytes: bands.payload };
        for i in each(survey.unwritable & strips(bands.first, bands.last + 1)) {
            data.drive_ios -= 1;
            data.bytes -= bands.columns(bands.of_strip(i));
        }
        let mut hidden = [None; 2];
        for (hidden, i) in hidden.iter_mut().zip(each(survey.unreadable)) {
            *hidden = Some(bands.of_strip(i));
        }
        let mut columns = [0; 1 << RANGE_BANDS];
        for (b, band) in bands.all().iter().enumerate() {
            for below in 0..1 << b {
                columns[below | 1 << b] = columns[below] + band.len;
            }
        }
        Written { classes, hidden, active, data, columns }
    }

    fn price(&self, choice: Choice, survey: &Survey) -> Price {
        let ios = |count: u32, mask: Mask| Price {
            drive_ios: count * Bands::ios(mask),
            bytes: u64::from(count) * self.columns[mask as usize % self.columns.len()],
        };
        let mut price = self.data;
        let mut add = |more: Price| {
            price.drive_ios += more.drive_ios;
            price.bytes += more.bytes;
        };
        for (count, written) in self.classes {
            add(ios(count, choice.reads_of(written)));
        }
        let follows = (choice.rmw | choice.rcw | choice.recover) & self.active;
        for bit in 0..2 {
            add(ios(1, choice.parity_reads(survey, bit)));
            add(ios(u32::from(survey.writable >> bit & 1), follows));
        }
        if choice.recover != 0 {
            for written in self.hidden.into_iter().flatten() {
                let counted = ios(1, choice.reads_of(written));
                price.drive_ios -= counted.drive_ios;
                price.bytes -= counted.bytes;
            }
        }
        price
    }
}
