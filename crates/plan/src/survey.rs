//! What the health of the drives means for the strips of one stripe.

use crate::bands::Band;
use crate::text::{list, span};
use crate::{Bands, ErrorKind, Plan, Unplannable};
use layout::{Cell, CopyIndex, DataIndex, ParityIndex, Role};
use units::{ByteRange, StripeIndex};

/// A set of data strips of one stripe: bit `i` is strip `i`. No level has more than 64 in a stripe.
pub(crate) type Strips = u64;

/// The strips `first` up to but not including `end`.
pub(crate) fn strips(first: u16, end: u16) -> Strips {
    let below = |n: u16| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(end) & !below(first)
}

/// The strips in a set, ascending.
pub(crate) fn each(set: Strips) -> impl Iterator<Item = u16> {
    let mut rest = set;
    std::iter::from_fn(move || {
        let next = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (next < Strips::BITS).then_some(next as u16)
    })
}

/// A set of parity strips: bit 0 is P, bit 1 is Q.
pub(crate) type Parities = u8;

/// The parity strips in a set, P first: which bit, and its role.
pub(crate) fn roles_in(set: Parities) -> impl Iterator<Item = (u16, Role)> {
    [(0, Role::P), (1, Role::Q)].into_iter().filter(move |(bit, _)| set >> bit & 1 == 1)
}

/// What can be done with the one-copy data strips and the parity of a stripe.
pub(crate) struct Survey {
    /// Data strips that cannot be read.
    pub(crate) unreadable: Strips,
    /// Data strips that cannot be written.
    pub(crate) unwritable: Strips,
    /// Where P and Q are; where there is no Q, P twice.
    pub(crate) parity: [Cell; 2],
    /// The parity strips that the stripe has.
    pub(crate) all: Parities,
    /// Those that can be read.
    pub(crate) readable: Parities,
    /// Those that can be read and agree with the data.
    pub(crate) usable: Parities,
    /// Those that can be written.
    pub(crate) writable: Parities,
    /// Whether redundancy is known to agree with the data.
    trusted: bool,
}

/// What can be had of the strips in one band, from a drive or from memory.
#[derive(Clone, Copy)]
pub(crate) struct InBand {
    /// Data strips that can be had from neither.
    pub(crate) unreadable: Strips,
    /// Parity strips that can be had and agree with the data.
    pub(crate) usable: Parities,
    /// Those with which the unreadable strips are computed; `None` where there are none, or they are too many.
    pub(crate) recover_from: Option<Parities>,
}

impl Survey {
    /// Looks at every cell of a stripe; `None` where the level has no parity.
    #[inline]
    pub(crate) fn of(plan: &Plan) -> Option<Survey> {
        let (geometry, map, health) = (&plan.geometry, &plan.map, &plan.health);
        let p = map.parity_cell(ParityIndex(0))?;
        let q = map.parity_cell(ParityIndex(1));
        let (mut unreadable, mut unwritable) = (0, 0);
        let drives = geometry.drives();
        let optimal = health.readable.contains_first(drives) && health.writable.contains_first(drives);
        let in_doubt = if optimal { 0 } else { geometry.data_strips() };
        for i in 0..in_doubt {
            let drive = map.data_cell(DataIndex(i), CopyIndex(0)).drive;
            unreadable |= u64::from(!health.readable.contains(drive)) << i;
            unwritable |= u64::from(!health.writable.contains(drive)) << i;
        }
        let all: Parities = if q.is_some() { 0b11 } else { 0b01 };
        let parity = [p, q.unwrap_or(p)];
        let (mut readable, mut writable) = (all, all);
        if !optimal {
            for (bit, cell) in parity.iter().enumerate() {
                readable &= !(Parities::from(!health.readable.contains(cell.drive)) << bit);
                writable &= !(Parities::from(!health.writable.contains(cell.drive)) << bit);
            }
        }
        let usable = if health.parity_trusted { readable } else { 0 };
        let trusted = health.parity_trusted;
        Some(Survey { unreadable, unwritable, parity, all, readable, usable, writable, trusted })
    }

    /// The parity strips that count when they are cached.
    pub(crate) fn trusted_parity(&self) -> Parities {
        if self.trusted { self.all } else { 0 }
    }

    /// What can be had of one band, with what is cached there.
    #[inline]
    pub(crate) fn in_band(&self, band: &Band) -> InBand {
        let unreadable = self.unreadable & !band.cached;
        // What is cached agrees with the data as it should be on the drives. Where parity may not, neither counts.
        let cached = band.cached_parity & self.trusted_parity();
        let usable = self.usable | cached;
        let recover_from = match unreadable.count_ones() {
            1 if cached != 0 => Some(cached & cached.wrapping_neg()),
            1 if usable != 0 => Some(usable & usable.wrapping_neg()),
            2 if usable == 0b11 => Some(usable),
            _ => None,
        };
        InBand { unreadable, usable, recover_from }
    }

    /// The parity strips among `from` to compute `missing` data strips with, of which there is one at least; `None`
    /// where those that agree with the data are too few.
    pub(crate) fn enough(&self, missing: Strips, from: Parities) -> Option<Parities> {
        let usable = self.usable & from;
        match missing.count_ones() {
            1 if usable != 0 => Some(usable & usable.wrapping_neg()),
            2 if usable == 0b11 => Some(usable),
            _ => None,
        }
    }
}

/// The pieces of a stripe's data about which there is no plan, ascending, those that touch joined.
#[derive(Default)]
pub(crate) struct Pieces(Vec<ByteRange>);

impl Pieces {
    /// Adds the columns of band `b` of some strips.
    pub(crate) fn add(&mut self, bands: &Bands, b: usize, set: Strips) {
        self.0.extend(each(set).map(|i| bands.piece(i, &bands.all()[b])));
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The error that is about them.
    pub(crate) fn into_error(mut self, kind: ErrorKind, stripe: StripeIndex) -> Unplannable {
        self.0.sort_unstable();
        let mut ranges: Vec<ByteRange> = Vec::new();
        for piece in self.0 {
            match ranges.last_mut() {
                Some(previous) if previous.end() == piece.start => previous.len += piece.len,
                _ => ranges.push(piece),
            }
        }
        let bytes: Vec<String> =
            ranges.iter().map(|range| span(range.start.0, range.start.0 + range.len.0)).collect();
        let bytes = list(&bytes);
        let context = match kind {
            ErrorKind::DataLost => format!(
                "stripe {stripe}: {bytes} of its data are on drives that cannot be read, and redundancy cannot restore them; read and write around them"
            ),
            ErrorKind::NothingWritable => format!(
                "stripe {stripe}: {bytes} of its data are on drives that cannot be written, and no redundancy can hold them; replace the drives"
            ),
            ErrorKind::NothingToCompare => format!(
                "stripe {stripe} cannot be checked while a part of it cannot be read; check it again when its drives are back"
            ),
            ErrorKind::TooScattered | ErrorKind::OutOfRange | ErrorKind::UnknownRequest => {
                format!("stripe {stripe}: {bytes} are not within its data")
            }
        };
        Unplannable { kind, context, ranges }
    }
}
