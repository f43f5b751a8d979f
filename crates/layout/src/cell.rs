//! The parts of a stripe (data strips, copies, parity) and the cells that store them.

use std::fmt;
use units::{ByteCount, ByteOffset, DriveIndex, StripeIndex};

/// The index of a data strip in its stripe, in the order of the volume's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DataIndex(pub u16);

/// The index of a copy of a data strip; 0 for levels that do not mirror.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct CopyIndex(pub u16);

/// The index of a parity strip: 0 is P, 1 is Q.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ParityIndex(pub u16);

/// The index of a row: one strip on each drive, all at the same address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RowIndex(pub u64);

/// The position of a strip: the drive, and the address of its first byte in the drive's data area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell {
    /// The drive's index.
    pub drive: DriveIndex,
    /// The strip's first byte, from the start of the drive's data area.
    pub offset: ByteOffset,
}

/// The content of a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// A copy of a data strip.
    Data {
        /// The index of the data strip.
        index: DataIndex,
        /// The index of the copy.
        copy: CopyIndex,
    },
    /// The XOR of the stripe's data strips.
    P,
    /// The sum of the stripe's data strips in GF(2^8), each multiplied by 2 to the power of its
    /// exponent ([`crate::StripeMap::q_exponent`]).
    Q,
    /// Free space for a rebuilt strip of the stripe.
    Spare,
}

/// The content at an address of a drive's data area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Located {
    /// The stripe of the byte.
    pub stripe: StripeIndex,
    /// The role of the drive's strip.
    pub role: Role,
    /// The byte's offset in its strip.
    pub within: ByteCount,
}

impl fmt::Display for RowIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Role {
    /// As in pictures: `D0` with a prime per copy (`D0'`), `P`, `Q`, `S`.
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
