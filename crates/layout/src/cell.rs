//! The parts of a stripe: which data strip, which copy, which parity, and the cell that holds it.

use std::fmt;
use units::{ByteCount, ByteOffset, DriveIndex, StripeIndex};

/// Which data strip of a stripe, counted from zero in the order of the volume's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DataIndex(pub u16);

/// Which copy of a data strip; 0 where the level does not mirror.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct CopyIndex(pub u16);

/// Which parity strip of a stripe: 0 is P, 1 is Q.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ParityIndex(pub u16);

/// Which row of the drives: one strip on each of them, all at the same address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RowIndex(pub u64);

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
    /// The sum of the stripe's data strips, each weighed with 2 to the power of its exponent
    /// ([`crate::StripeMap::q_exponent`]), in GF(2^8).
    Q,
    /// Nothing: room into which a lost strip of the stripe is rebuilt.
    Spare,
}

/// What is at an address of a drive's data area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Located {
    /// The stripe the byte belongs to.
    pub stripe: StripeIndex,
    /// What the drive holds of it there.
    pub role: Role,
    /// The byte's place within its strip.
    pub within: ByteCount,
}

impl fmt::Display for RowIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Role {
    /// As pictures show it: `D0` with a prime per copy (`D0'`), `P`, `Q`, `S`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Data { index, copy } => match copy.0 {
                0..=2 => f.pad(&format!("D{}{}", index.0, "'".repeat(usize::from(copy.0)))),
                _ => f.pad(&format!("D{}'{}", index.0, copy.0)),
            },
            Role::P => f.pad("P"),
            Role::Q => f.pad("Q"),
            Role::Spare => f.pad("S"),
        }
    }
}
