//! One volume's layout: level, drives, strip and rotation; the map from bytes to cells and back.
//!
//! Invariants: the member size is a whole number of strips, at least one; the capacity fits an address;
//! the number of drives is in the level's range. [`Geometry::new`] is the only way to make one.

use crate::{Error, ErrorKind, Level, LevelRow, ParityRotation, raid0, raid1, raid5};
use std::fmt;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeCount, StripeIndex};

/// Which data strip of a stripe, counted from zero in the order of the volume's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DataIndex(pub u16);

/// Which copy of a data strip; 0 where the level does not mirror.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct CopyIndex(pub u16);

/// Which parity strip of a stripe: 0 is P.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ParityIndex(pub u16);

/// Where a strip lives: the drive, and the address of its first byte in the drive's data area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell {
    /// The drive.
    pub drive: DriveIndex,
    /// The strip's first byte, counted from the start of the drive's data area.
    pub offset: ByteOffset,
}

/// What a cell holds of its stripe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// A copy of a data strip.
    Data {
        /// Which data strip.
        index: DataIndex,
        /// Which copy.
        copy: CopyIndex,
    },
    /// The XOR of the stripe's data strips.
    P,
}

/// What is at an address of a drive's data area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Located {
    /// The stripe the byte belongs to.
    pub stripe: StripeIndex,
    /// What the drive holds of it.
    pub role: Role,
    /// The byte's place within its strip.
    pub within: ByteCount,
}

/// One volume's layout, by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    level: Level,
    drives: DriveCount,
    strip: StripSize,
    rotation: ParityRotation,
    data_strips: u16,
    copies: u16,
    parity_strips: u16,
    member_size: ByteCount,
}

impl Geometry {
    /// A level over `drives` drives, each of which gives at most `member_size` bytes; what does not fill a
    /// whole strip is left over. Parity rotates left-symmetric: see [`Geometry::with_rotation`].
    ///
    /// # Errors
    /// When the level does not take that many drives, when not one strip fits a drive, and when the volume
    /// would have 2^63 bytes or more.
    pub fn new(
        level: Level,
        drives: DriveCount,
        strip: StripSize,
        member_size: ByteCount,
    ) -> Result<Geometry, Error> {
        let row = level.row();
        check_drives(row, drives)?;
        let data_strips = (row.data_strips)(drives);
        let used = member_size.align_down(strip.bytes());
        if used.is_zero() {
            return Err(Error::new(
                ErrorKind::TooSmall,
                format!(
                    "{member_size} per drive does not hold one strip of {strip}; use larger drives or a smaller strip"
                ),
            ));
        }
        if used.0.checked_mul(u64::from(data_strips)).is_none_or(|capacity| capacity >= 1 << 63) {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{data_strips} data drives of {used} make more than 8 EiB, the most a volume can have; use less of each drive"
                ),
            ));
        }
        Ok(Geometry {
            level,
            drives,
            strip,
            rotation: ParityRotation::default(),
            data_strips,
            copies: (row.copies)(drives),
            parity_strips: row.parity_strips,
            member_size: used,
        })
    }

    /// The same with another parity rotation.
    ///
    /// # Errors
    /// When the level does not rotate parity.
    pub fn with_rotation(self, rotation: ParityRotation) -> Result<Geometry, Error> {
        if self.rotation().is_none() {
            return Err(Error::new(
                ErrorKind::NoRotatingParity,
                format!(
                    "{rotation} is a rotation of parity, and {} has none; leave the rotation out or choose raid5",
                    self.level
                ),
            ));
        }
        Ok(Geometry { rotation, ..self })
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The level's row in the table.
    pub fn row(&self) -> &'static LevelRow {
        self.level.row()
    }

    /// How many drives.
    pub fn drives(&self) -> DriveCount {
        self.drives
    }

    /// The strip.
    pub fn strip(&self) -> StripSize {
        self.strip
    }

    /// How parity rotates; `None` where the level does not rotate parity.
    pub fn rotation(&self) -> Option<ParityRotation> {
        (self.parity_strips > 0).then_some(self.rotation)
    }

    /// What is used of each drive's data area: whole strips.
    pub fn member_size(&self) -> ByteCount {
        self.member_size
    }

    /// The volume's size.
    pub fn capacity(&self) -> ByteCount {
        self.member_size * u64::from(self.data_strips)
    }

    /// How many stripes.
    pub fn stripes(&self) -> StripeCount {
        StripeCount(self.member_size.0 >> self.strip.shift())
    }

    /// Data strips per stripe.
    pub fn data_strips(&self) -> u16 {
        self.data_strips
    }

    /// How often each data strip is stored; 1 where the level does not mirror.
    pub fn copies(&self) -> u16 {
        self.copies
    }

    /// Parity strips per stripe.
    pub fn parity_strips(&self) -> u16 {
        self.parity_strips
    }

    /// The data of one stripe.
    pub fn stripe_bytes(&self) -> ByteCount {
        self.strip.bytes() * u64::from(self.data_strips)
    }

    /// The stripe that holds a byte of the volume, and the byte's place in the stripe's data.
    pub fn stripe_of(&self, volume: ByteOffset) -> (StripeIndex, ByteCount) {
        let shift = self.strip.shift();
        let strip = volume.0 >> shift;
        let data_strips = u64::from(self.data_strips);
        let stripe = strip / data_strips;
        let index = strip - stripe * data_strips;
        (StripeIndex(stripe), ByteCount(index << shift | volume.0 & (self.strip.bytes().0 - 1)))
    }

    /// The volume's address of a stripe's first byte.
    pub fn stripe_start(&self, stripe: StripeIndex) -> ByteOffset {
        ByteOffset(stripe.0 * self.stripe_bytes().0)
    }

    /// The volume's bytes that a stripe holds.
    pub fn stripe_range(&self, stripe: StripeIndex) -> ByteRange {
        ByteRange::new(self.stripe_start(stripe), self.stripe_bytes())
    }

    /// The data strip that holds a byte of a stripe's data, and the byte's place in the strip.
    pub fn strip_of(&self, within_stripe: ByteCount) -> (DataIndex, ByteCount) {
        let index = within_stripe.0 >> self.strip.shift();
        (DataIndex(index as u16), ByteCount(within_stripe.0 & (self.strip.bytes().0 - 1)))
    }

    /// Where the cells of one stripe are: for several cells of a stripe cheaper than asking for each.
    pub fn stripe_map(&self, stripe: StripeIndex) -> StripeMap {
        let parity = match self.level {
            Level::Raid0 | Level::Raid1 => 0,
            Level::Raid5 => raid5::parity_drive(self.rotation, self.drives.0, stripe),
        };
        StripeMap {
            level: self.level,
            rotation: self.rotation,
            drives: self.drives.0,
            parity,
            offset: ByteOffset(stripe.0 << self.strip.shift()),
        }
    }

    /// Where copy `copy` of data strip `index` is.
    pub fn data_cell(&self, stripe: StripeIndex, index: DataIndex, copy: CopyIndex) -> Cell {
        self.stripe_map(stripe).data_cell(index, copy)
    }

    /// Where parity strip `index` is; `None` where the level has no such strip.
    pub fn parity_cell(&self, stripe: StripeIndex, index: ParityIndex) -> Option<Cell> {
        self.stripe_map(stripe).parity_cell(index)
    }

    /// What `drive` holds of a stripe.
    pub fn role_of(&self, stripe: StripeIndex, drive: DriveIndex) -> Role {
        self.stripe_map(stripe).role_of(drive)
    }

    /// What is at an address of a drive's data area; `None` past the part that is used, and for a drive
    /// the array does not have.
    pub fn locate(&self, drive: DriveIndex, offset: ByteOffset) -> Option<Located> {
        if drive.0 >= self.drives.0 || offset.0 >= self.member_size.0 {
            return None;
        }
        let stripe = StripeIndex(offset.0 >> self.strip.shift());
        let within = ByteCount(offset.0 & (self.strip.bytes().0 - 1));
        Some(Located { stripe, role: self.role_of(stripe, drive), within })
    }

    /// The volume's address of a byte of a data strip: the way back from [`Geometry::locate`].
    pub fn volume_offset(&self, stripe: StripeIndex, index: DataIndex, within: ByteCount) -> ByteOffset {
        self.stripe_start(stripe) + ByteCount((u64::from(index.0) << self.strip.shift()) + within.0)
    }
}

/// Where the cells of one stripe are. Made by [`Geometry::stripe_map`]; a value of a few words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeMap {
    level: Level,
    rotation: ParityRotation,
    drives: u16,
    /// The drive with P, where the level has it.
    parity: u16,
    /// Where the stripe begins on every drive.
    offset: ByteOffset,
}

impl StripeMap {
    /// Where copy `copy` of data strip `index` is.
    pub fn data_cell(&self, index: DataIndex, copy: CopyIndex) -> Cell {
        let drive = match self.level {
            Level::Raid0 => raid0::data_drive(index),
            Level::Raid1 => raid1::data_drive(copy),
            Level::Raid5 => raid5::data_drive(self.rotation, self.drives, self.parity, index),
        };
        Cell { drive: DriveIndex(drive), offset: self.offset }
    }

    /// Where parity strip `index` is; `None` where the level has no such strip.
    pub fn parity_cell(&self, index: ParityIndex) -> Option<Cell> {
        match self.level {
            Level::Raid0 | Level::Raid1 => None,
            Level::Raid5 => (index == ParityIndex(0))
                .then_some(Cell { drive: DriveIndex(self.parity), offset: self.offset }),
        }
    }

    /// What `drive` holds.
    pub fn role_of(&self, drive: DriveIndex) -> Role {
        match self.level {
            Level::Raid0 => raid0::role(drive.0),
            Level::Raid1 => raid1::role(drive.0),
            Level::Raid5 => raid5::role(self.rotation, self.drives, self.parity, drive.0),
        }
    }
}

fn check_drives(row: &LevelRow, drives: DriveCount) -> Result<(), Error> {
    let LevelRow { name, min_drives, max_drives, .. } = row;
    let counted = if drives == DriveCount(1) { "1 drive".into() } else { format!("{drives} drives") };
    if drives < *min_drives {
        return Err(Error::new(
            ErrorKind::TooFewDrives,
            format!("{name} on {counted} cannot be; it needs {min_drives} to {max_drives}: name more drives"),
        ));
    }
    if drives > *max_drives {
        return Err(Error::new(
            ErrorKind::TooManyDrives,
            format!(
                "{name} on {counted} cannot be; it takes {min_drives} to {max_drives}: name fewer drives"
            ),
        ));
    }
    Ok(())
}

impl fmt::Display for Geometry {
    /// As in `RAID 5, 8 drives, 64 KiB strip, left-symmetric`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} drives, {} strip", self.level.title(), self.drives, self.strip)?;
        self.rotation().map_or(Ok(()), |rotation| write!(f, ", {rotation}"))
    }
}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}, {} per drive", self.member_size)
    }
}

impl fmt::Display for Role {
    /// As pictures show it: `D0` with a prime per copy (`D0'`), `P`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Data { index, copy } => match copy.0 {
                0..=2 => f.pad(&format!("D{}{}", index.0, "'".repeat(usize::from(copy.0)))),
                _ => f.pad(&format!("D{}'{}", index.0, copy.0)),
            },
            Role::P => f.pad("P"),
        }
    }
}
