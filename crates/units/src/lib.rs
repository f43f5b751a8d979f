//! Quantities of storage as separate types.
//!
//! An index, a count and a size are three types: a [`StripeIndex`] identifies a stripe, a
//! [`ByteCount`] is a size, and adding one to the other does not compile. Addresses are bytes
//! ([`ByteOffset`]) in the space that the variable's name states: a volume, a drive's data area, or
//! a raw drive.
//!
//! ```
//! use units::{ByteCount, ByteOffset, ByteRange};
//! let write = ByteRange::new(ByteOffset(1 << 20), ByteCount(8 << 10));
//! assert_eq!(write.end(), ByteOffset((1 << 20) + (8 << 10)));
//! assert_eq!("64K".parse::<ByteCount>().unwrap().to_string(), "64 KiB");
//! ```

mod bytes;
mod drives;
mod printable;
mod sizes;
mod text;
mod time;

pub use bytes::{ByteCount, ByteOffset, ByteRange};
pub use drives::{DriveCount, DriveIndex, DriveSet, MAX_DRIVES};
pub use printable::{is_unprintable, printable, printable_lines};
pub use sizes::{SectorSize, StripSize, StripeCount, StripeIndex};
pub use text::{ParseSizeError, both_capacities, counted, decimal_capacity, wrapped};
pub use time::utc;
