//! The layout of a volume: maps its bytes to cells and back.
//!
//! Invariants: the member size is a whole number of stripe rows, at least one; the capacity fits an
//! address; the level allows the shape. [`Shape::geometry`] is the only constructor.

use crate::rule::{NOWHERE, Rule};
use crate::shape::Checked;
use crate::stripe_map::{Placement, Second};
use crate::{
    Cell, CopyIndex, DataIndex, Error, ErrorKind, Family, Level, LevelRow, Located,
    MirrorArrangement, ParityArrangement, ParityIndex, RowIndex, Shape, StripeMap,
};
use std::fmt;
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeCount, StripeIndex,
};

/// The layout of a volume, by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    level: Level,
    family: Family,
    way: Placement,
    second_is: Second,
    strip: StripSize,
    parity: Option<ParityArrangement>,
    mirrors: Option<MirrorArrangement>,
    rule: Rule,
    drives: DriveCount,
    spans: u16,
    /// The number of spans that consecutive stripes alternate between.
    stripes_per_row: u16,
    /// The number of drives of a stripe.
    width: u16,
    copies: u16,
    data_strips: u16,
    parity_strips: u16,
    rows_per_stripe: u16,
    /// The distance of consecutive stripes on a drive, and the rows of one stripe.
    stripe_step: ByteCount,
    row_step: ByteCount,
    member_size: ByteCount,
}

impl Geometry {
    /// A level with all defaults: a short form of [`Shape::geometry`].
    ///
    /// # Errors
    /// As [`Shape::geometry`].
    pub fn new(
        level: Level,
        drives: DriveCount,
        strip: StripSize,
        member_size: ByteCount,
    ) -> Result<Geometry, Error> {
        Shape::new(level, drives).geometry(strip, member_size)
    }

    pub(crate) fn make(
        shape: Shape,
        checked: Checked,
        strip: StripSize,
        member_size: ByteCount,
    ) -> Result<Geometry, Error> {
        let Checked { spans, width, copies, data_strips, rows_per_stripe, parity, mirrors } =
            checked;
        let (level, drives, row) = (shape.level, shape.drives, shape.level.row());
        let stripe_rows = strip.bytes() * u64::from(rows_per_stripe);
        let used = ByteCount(member_size.0 / stripe_rows.0 * stripe_rows.0);
        if used.is_zero() {
            return Err(too_small(member_size, strip, rows_per_stripe));
        }
        let rounds = used.0 / stripe_rows.0;
        let stripes_per_row = if row.family == Family::Parity { spans } else { 1 };
        let strips = u128::from(rounds) * u128::from(stripes_per_row) * u128::from(data_strips);
        if strips << strip.shift() >= 1 << 63 {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{drives} drives of {used} exceed the volume limit of 8 EiB; use less of each \
                        drive"
                ),
            ));
        }
        let is_far = mirrors == Some(MirrorArrangement::Far);
        let has_second = row.parity_strips + row.spare_strips > 1;
        let rule = parity
            .map_or(Rule::NONE, |parity| Rule::of(parity, width, has_second, row.spare_strips > 0));
        Ok(Geometry {
            level,
            family: row.family,
            way: placement(row.family, mirrors, rule),
            second_is: match (row.parity_strips, row.spare_strips) {
                (2, _) => Second::Q,
                (_, 1) => Second::Spare,
                _ => Second::None,
            },
            strip,
            parity,
            mirrors,
            rule,
            drives,
            spans,
            stripes_per_row,
            width: if row.family == Family::Parity { width } else { drives.0 },
            copies,
            data_strips,
            parity_strips: row.parity_strips,
            rows_per_stripe,
            stripe_step: if is_far { strip.bytes() } else { stripe_rows },
            row_step: if is_far {
                ByteCount(used.0 / u64::from(rows_per_stripe))
            } else {
                strip.bytes()
            },
            member_size: used,
        })
    }

    /// The same layout with another member size.
    ///
    /// # Errors
    /// When no stripe fits, and when the volume would have 2^63 bytes or more.
    pub fn with_member_size(&self, member_size: ByteCount) -> Result<Geometry, Error> {
        self.shape().geometry(self.strip, member_size)
    }

    /// The smallest member size for a volume of at least `capacity` bytes.
    pub fn member_size_for(&self, capacity: ByteCount) -> ByteCount {
        let per_row = self.stripe_bytes().0 * u64::from(self.stripes_per_row);
        self.strip.bytes() * u64::from(self.rows_per_stripe) * capacity.0.div_ceil(per_row)
    }

    /// The shape, with all defaults resolved.
    pub fn shape(&self) -> Shape {
        Shape {
            level: self.level,
            drives: self.drives,
            spans: Some(self.spans),
            copies: Some(self.copies),
            parity: self.parity,
            mirrors: self.mirrors,
        }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The level's row in the table.
    pub fn row(&self) -> &'static LevelRow {
        self.level.row()
    }

    /// The number of drives, over all spans.
    pub fn drives(&self) -> DriveCount {
        self.drives
    }

    /// The number of spans; 1 for levels without spans.
    pub fn spans(&self) -> u16 {
        self.spans
    }

    /// The number of drives per span.
    pub fn drives_per_span(&self) -> DriveCount {
        DriveCount(self.drives.0 / self.spans)
    }

    /// The strip size.
    pub fn strip(&self) -> StripSize {
        self.strip
    }

    /// The parity layout; `None` for levels without parity.
    pub fn parity_arrangement(&self) -> Option<ParityArrangement> {
        self.parity
    }

    /// The mirror layout; `None` for levels without a choice.
    pub fn mirror_arrangement(&self) -> Option<MirrorArrangement> {
        self.mirrors
    }

    /// The used part of each drive's data area: whole stripe rows.
    pub fn member_size(&self) -> ByteCount {
        self.member_size
    }

    /// The volume's size.
    pub fn capacity(&self) -> ByteCount {
        self.stripe_bytes() * self.stripes().0
    }

    /// The number of stripes.
    pub fn stripes(&self) -> StripeCount {
        let rounds = (self.member_size.0 >> self.strip.shift()) / u64::from(self.rows_per_stripe);
        StripeCount(rounds * u64::from(self.stripes_per_row))
    }

    /// Data strips per stripe.
    pub fn data_strips(&self) -> u16 {
        self.data_strips
    }

    /// The number of copies of each data strip; 1 for levels that do not mirror.
    pub fn copies(&self) -> u16 {
        self.copies
    }

    /// Parity strips per stripe: 0, 1 (P) or 2 (P and Q).
    pub fn parity_strips(&self) -> u16 {
        self.parity_strips
    }

    /// Spare strips per stripe: 0 or 1.
    pub fn spare_strips(&self) -> u16 {
        u16::from(self.second_is == Second::Spare)
    }

    /// All cells of a stripe: data with all copies, parity and spare.
    pub fn cells_per_stripe(&self) -> u16 {
        self.width * self.rows_per_stripe
    }

    /// The number of drives of a stripe: those of its span if consecutive stripes alternate between
    /// spans (RAID 50, 60), else all drives.
    pub fn drives_per_stripe(&self) -> DriveCount {
        DriveCount(self.width)
    }

    /// Rows per stripe: the number of copies for RAID 1E, otherwise 1.
    pub fn rows_per_stripe(&self) -> u16 {
        self.rows_per_stripe
    }

    /// Stripes in the same rows: the spans of RAID 50 and 60, otherwise 1. Stripe `s` is in span
    /// `s` modulo this number.
    pub fn stripes_per_row(&self) -> u16 {
        self.stripes_per_row
    }

    /// The first row of a stripe's cells. (Further rows of RAID 1E follow it; in the far layout
    /// their distance is the number of rows per copy.)
    pub fn row_of(&self, stripe: StripeIndex) -> RowIndex {
        RowIndex(self.round(stripe).0 * (self.stripe_step.0 >> self.strip.shift()))
    }

    /// The drives of a stripe, ascending.
    pub fn drives_of(
        &self,
        stripe: StripeIndex,
    ) -> impl DoubleEndedIterator<Item = DriveIndex> + ExactSizeIterator + use<> {
        let base = self.round(stripe).1;
        (base..base + self.width).map(DriveIndex)
    }

    /// The data bytes per stripe.
    pub fn stripe_bytes(&self) -> ByteCount {
        self.strip.bytes() * u64::from(self.data_strips)
    }

    /// The stripe of a byte of the volume, and the byte's offset in the stripe's data.
    #[inline]
    pub fn stripe_of(&self, volume: ByteOffset) -> (StripeIndex, ByteCount) {
        let shift = self.strip.shift();
        let strip = volume.0 >> shift;
        let data_strips = u64::from(self.data_strips);
        let stripe = strip / data_strips;
        let index = strip - stripe * data_strips;
        (StripeIndex(stripe), ByteCount(index << shift | volume.0 & (self.strip.bytes().0 - 1)))
    }

    /// The volume address of a stripe's first byte.
    pub fn stripe_start(&self, stripe: StripeIndex) -> ByteOffset {
        ByteOffset(stripe.0 * self.stripe_bytes().0)
    }

    /// The volume range of a stripe.
    pub fn stripe_range(&self, stripe: StripeIndex) -> ByteRange {
        ByteRange::new(self.stripe_start(stripe), self.stripe_bytes())
    }

    /// The data strip of a byte of a stripe's data, and the byte's offset in the strip.
    #[inline]
    pub fn strip_of(&self, within_stripe: ByteCount) -> (DataIndex, ByteCount) {
        let index = within_stripe.0 >> self.strip.shift();
        (DataIndex(index as u16), ByteCount(within_stripe.0 & (self.strip.bytes().0 - 1)))
    }

    /// The cells of a stripe; cheaper than single lookups for several cells.
    #[inline]
    pub fn stripe_map(&self, stripe: StripeIndex) -> StripeMap {
        let (round, base) = self.round(stripe);
        let mut map = StripeMap {
            way: self.way,
            second_is: self.second_is,
            weighs_by_slot: self.rule.weighs_by_slot,
            base,
            width: self.width,
            copies: self.copies,
            data_strips: self.data_strips,
            rows: self.rows_per_stripe,
            p: NOWHERE,
            second: NOWHERE,
            start: 0,
            wrap: self.width,
            lost: NOWHERE,
            refuge: NOWHERE,
            offset: ByteOffset(round * self.stripe_step.0),
            row_step: self.row_step,
        };
        if self.family == Family::Parity {
            let row = self.rule.row(round, self.width);
            (map.p, map.second, map.start, map.wrap) = (row.p, row.second, row.start, row.wrap);
        }
        map
    }

    /// The number of earlier stripes in the stripe's span, and its first drive.
    #[inline]
    fn round(&self, stripe: StripeIndex) -> (u64, u16) {
        if self.stripes_per_row == 1 {
            return (stripe.0, 0);
        }
        let per_row = u64::from(self.stripes_per_row);
        let round = stripe.0 / per_row;
        (round, (stripe.0 - round * per_row) as u16 * self.width)
    }

    /// The position of copy `copy` of data strip `index`.
    #[inline]
    pub fn data_cell(&self, stripe: StripeIndex, index: DataIndex, copy: CopyIndex) -> Cell {
        self.stripe_map(stripe).data_cell(index, copy)
    }

    /// The position of parity strip `index`; `None` if the level has no such strip.
    pub fn parity_cell(&self, stripe: StripeIndex, index: ParityIndex) -> Option<Cell> {
        self.stripe_map(stripe).parity_cell(index)
    }

    /// The content at an address of a drive's data area; `None` past the used part, and for unknown
    /// drives.
    pub fn locate(&self, drive: DriveIndex, offset: ByteOffset) -> Option<Located> {
        if drive.0 >= self.drives.0 || offset.0 >= self.member_size.0 {
            return None;
        }
        let (round, row) = if self.mirrors == Some(MirrorArrangement::Far) {
            (offset.0 % self.row_step.0 / self.stripe_step.0, offset.0 / self.row_step.0)
        } else {
            (offset.0 / self.stripe_step.0, (offset.0 % self.stripe_step.0) >> self.strip.shift())
        };
        let span = if self.stripes_per_row > 1 { drive.0 / self.width } else { 0 };
        let stripe = StripeIndex(round * u64::from(self.stripes_per_row) + u64::from(span));
        let role = self.stripe_map(stripe).role_at(drive, row as u16)?;
        Some(Located { stripe, role, within: ByteCount(offset.0 & (self.strip.bytes().0 - 1)) })
    }

    /// The volume address of a byte of a data strip: the inverse of [`Geometry::locate`].
    pub fn volume_offset(
        &self,
        stripe: StripeIndex,
        index: DataIndex,
        within: ByteCount,
    ) -> ByteOffset {
        self.stripe_start(stripe) + ByteCount((u64::from(index.0) << self.strip.shift()) + within.0)
    }
}

fn placement(family: Family, mirrors: Option<MirrorArrangement>, rule: Rule) -> Placement {
    match (family, mirrors) {
        (Family::Striped, _) => Placement::Around,
        (Family::Mirrored, None | Some(MirrorArrangement::Near)) => Placement::Near,
        (Family::Mirrored, Some(_)) => Placement::Shifted,
        (Family::Parity, _) if rule.continues => Placement::Around,
        (Family::Parity, _) => Placement::Past,
    }
}

fn too_small(member_size: ByteCount, strip: StripSize, rows: u16) -> Error {
    let needed = if rows == 1 {
        format!("one strip of {strip}")
    } else {
        format!("{rows} strips of {strip}")
    };
    let context = format!(
        "{member_size} per drive is too small for {needed}; use larger drives or a smaller strip"
    );
    Error::new(ErrorKind::TooSmall, context)
}

impl fmt::Display for Geometry {
    /// As in `RAID 50, 8 drives in 2 spans, 64 KiB strip, left-symmetric`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.drives == DriveCount(1) { "" } else { "s" };
        write!(f, "{}, {} drive{plural}", self.level.title(), self.drives)?;
        if self.spans > 1 {
            write!(f, " in {} spans", self.spans)?;
        }
        write!(f, ", {} strip", self.strip)?;
        if let Some(parity) = self.parity {
            write!(f, ", {parity}")?;
        }
        if let Some(mirrors) = self.mirrors {
            write!(f, ", {mirrors}")?;
            if self.copies > 2 {
                write!(f, ", {} copies", self.copies)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}, {} per drive", self.member_size)
    }
}
