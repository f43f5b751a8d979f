//! Where each byte of a volume lives on the drives, and the way back: a table of levels.
//!
//! A [`Geometry`] is one volume's layout, a small value that is copied freely. It cuts the volume into
//! *stripes*; a stripe has *data strips* (D0, D1, …), each stored in one or more *copies*, and *parity
//! strips* (P). Where one of them lives is a [`Cell`]: a drive and an address in that drive's data area.
//! Every method is constant in time and allocates nothing.
//!
//! ```
//! use layout::{CopyIndex, DataIndex, Geometry, Level, ParityIndex, Role};
//! use units::{ByteCount, ByteOffset, DriveCount, DriveIndex, StripSize, StripeIndex};
//!
//! let g = Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB)?;
//! assert_eq!(g.to_string(), "RAID 5, 4 drives, 64 KiB strip, left-symmetric");
//! assert_eq!(g.capacity(), ByteCount::GIB * 3);
//!
//! // Stripe 1 is  D1 D2 P D0  on drives 0 to 3.
//! let (stripe, within) = g.stripe_of(ByteOffset(200 << 10));
//! assert_eq!((stripe, within), (StripeIndex(1), ByteCount(8 << 10)));
//! let cell = g.data_cell(stripe, DataIndex(0), CopyIndex(0));
//! assert_eq!((cell.drive, cell.offset), (DriveIndex(3), ByteOffset(64 << 10)));
//! assert_eq!(g.parity_cell(stripe, ParityIndex(0)).unwrap().drive, DriveIndex(2));
//!
//! // And back.
//! let located = g.locate(DriveIndex(2), ByteOffset(70 << 10)).unwrap();
//! assert_eq!((located.stripe, located.role, located.within), (stripe, Role::P, ByteCount(6 << 10)));
//! # Ok::<(), layout::Error>(())
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | `level.rs` | the table: [`Level`], [`LevelRow`] |
//! | `raid0.rs`, `raid1.rs`, `raid5.rs` | one level each: its row, its map and inverse map |
//! | `rotation.rs` | [`ParityRotation`]: how parity moves |
//! | `geometry.rs` | [`Geometry`], [`StripeMap`], [`Cell`], [`Role`] |
//!
//! A new level is a file, a row, and a variant of [`Level`]. Only what the level itself decides is in its
//! file, so that a spanned level can call the file of the level it spans.

mod arrangement;
mod cell;
mod error;
mod geometry;
mod level;
mod levels;
mod redundancy;
mod rule;
mod shape;
mod stripe_map;

pub use arrangement::{MirrorArrangement, ParityArrangement};
pub use cell::{Cell, CopyIndex, DataIndex, Located, ParityIndex, Role, RowIndex};
pub use error::{Error, ErrorKind};
pub use geometry::Geometry;
pub use level::{Family, Formulas, Level, LevelRow};
pub use redundancy::Survives;
pub use shape::Shape;
pub use stripe_map::StripeMap;
