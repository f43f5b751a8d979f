//! The state of the strips of one stripe, from the health of the drives.

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

/// The parity strips in a set, P first: bit and role.
pub(crate) fn roles_in(set: Parities) -> impl Iterator<Item = (u16, Role)> {
    [(0, Role::P), (1, Role::Q)].into_iter().filter(move |(bit, _)| set >> bit & 1 == 1)
}

/// The state of a stripe with parity: its data strips without copies, P and Q.
pub(crate) struct Survey {
    /// Data strips that cannot be read.
    pub(crate) unreadable: Strips,
    /// Data strips that cannot be written.
    pub(crate) unwritable: Strips,
    /// Cells of P and Q; without Q, P twice.
    pub(crate) parity: [Cell; 2],
    /// The parity strips that the stripe has.
    pub(crate) all: Parities,
    /// The readable ones.
    pub(crate) readable: Parities,
    /// Readable ones that are consistent with the data.
    pub(crate) usable: Parities,
    /// The writable ones.
    pub(crate) writable: Parities,
    /// Whether redundancy is known to be consistent.
    trusted: bool,
}

/// Strips available in one band, from a drive or from the cache.
#[derive(Clone, Copy)]
pub(crate) struct InBand {
    /// Data strips that are not available.
    pub(crate) unreadable: Strips,
    /// Available parity strips that are consistent with the data.
    pub(crate) usable: Parities,
    /// Parity strips that recover the unreadable strips; `None` if nothing is lost, or too much.
    pub(crate) recover_from: Option<Parities>,
}

impl Survey {
    /// Surveys every cell of a stripe; `None` for levels without parity.
    #[inline]
    pub(crate) fn of(plan: &Plan) -> Option<Survey> {
        let (geometry, map, health) = (&plan.geometry, &plan.map, &plan.health);
        let p = map.parity_cell(ParityIndex(0))?;
        let q = map.parity_cell(ParityIndex(1));
        let (mut unreadable, mut unwritable) = (0, 0);
        let drives = geometry.drives();
        let optimal =
            health.readable.contains_first(drives) && health.writable.contains_first(drives);
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

    /// The parity strips that count when cached.
    pub(crate) fn trusted_parity(&self) -> Parities {
        if self.trusted { self.all } else { 0 }
    }

    /// The available strips of one band, with the cached ones.
    #[inline]
    pub(crate) fn in_band(&self, band: &Band) -> InBand {
        let unreadable = self.unreadable & !band.cached;
        // Cached parity is consistent with the intended data. Untrusted parity does not count,
        // cached or not.
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

    /// The parity strips among `from` that recover `missing` (at least one data strip); `None` if
    /// too few are consistent.
    pub(crate) fn enough(&self, missing: Strips, from: Parities) -> Option<Parities> {
        let usable = self.usable & from;
        match missing.count_ones() {
            1 if usable != 0 => Some(usable & usable.wrapping_neg()),
            2 if usable == 0b11 => Some(usable),
            _ => None,
        }
    }
}

/// Ranges of a stripe's data that cannot be planned: ascending, adjacent ones joined.
#[derive(Default)]
pub(crate) struct Pieces(Vec<ByteRange>);

impl Pieces {
    /// Adds the columns of band `b` of some strips.
    pub(crate) fn add(&mut self, bands: &Bands, b: usize, set: Strips) {
        self.0.extend(each(set).map(|i| bands.piece(i, &bands.all()[b])));
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The error about these ranges.
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
                "stripe {stripe}: {bytes} of its data are on drives that cannot be read, and \
                    redundancy cannot restore them; read and write around them"
            ),
            ErrorKind::NothingWritable => format!(
                "stripe {stripe}: {bytes} of its data are on drives that cannot be written, and no \
                    redundancy can hold them; replace the drives"
            ),
            ErrorKind::NothingToCompare => format!(
                "stripe {stripe} cannot be checked while a part of it cannot be read; check it \
                    again when its drives are back"
            ),
            ErrorKind::TooScattered | ErrorKind::OutOfRange | ErrorKind::UnknownRequest => {
                format!("stripe {stripe}: {bytes} are not within its data")
            }
        };
        Unplannable { kind, context, ranges }
    }
}
