//! Maps the bytes of a volume to the drives and back, by a table of levels.
//!
//! A [`Shape`] is a level on a number of drives, with the level's options. It becomes a
//! [`Geometry`]: the layout of one volume, a small copyable value. The geometry divides the volume
//! into *stripes*, the units of planning and locking: a parity group with its data, or the rows
//! after which mirrors repeat. A stripe has *data strips* (D0, D1, …), each stored in one or more
//! *copies*, *parity strips* (P, Q), and optionally a *spare strip* (S). The position of each is a
//! [`Cell`]: a drive and an address in its data area. [`StripeMap`] has the cells of one stripe;
//! [`Geometry::locate`] is the inverse.
//!
//! Each method takes constant time (or time linear in the drives if it concerns all) and allocates
//! nothing. Mapping a byte to its cell takes 3 to 10 ns on one core of a 2023 server, 5 ns for RAID
//! 5.
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
//! // Inverse.
//! let located = g.locate(DriveIndex(2), ByteOffset(70 << 10)).unwrap();
//! assert_eq!((located.stripe, located.role), (stripe, Role::P));
//! assert_eq!(located.within, ByteCount(6 << 10));
//! # Ok::<(), layout::Error>(())
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | `level.rs`, `levels/` | the table: [`Level`], [`LevelRow`]; a file per level with its row and figures |
//! | `arrangement.rs` | [`ParityArrangement`], [`MirrorArrangement`]: names in other systems |
//! | `shape.rs` | [`Shape`]: the options of a volume, and all checks |
//! | `geometry.rs` | [`Geometry`]: bytes, stripes, rows, spans |
//! | `stripe_map.rs` | [`StripeMap`]: cells of a stripe, exponents of Q, spare relocation |
//! | `rule.rs` | the parity layouts as numbers, so that one formula serves all |
//! | `redundancy.rs` | fault tolerance and write penalty |
//! | `cell.rs` | [`Cell`], [`Role`], the indexes |
//! | `picture.rs` | [`picture()`]: a layout as text |
//! | `reference.rs` | [`reference()`]: all levels as text, with figures |
//!
//! `softroc help levels` prints the table and figures. A new level is a file, a row, and a
//! variant of [`Level`]; a new parity layout is a line in `rule.rs`.
//!
//! # Not supported
//!
//! - Members of different sizes: the smallest limits all. (Linux md's RAID 0 with zones, linear.)
//! - Linux md's RAID 10 with near *and* far copies, and its far copies in sets of drives.
//! - A partial last stripe: with an odd number of rows, RAID 1E leaves out data that Linux md
//!   stores in the last row.

mod arrangement;
mod cell;
mod error;
mod geometry;
mod level;
mod levels;
mod picture;
mod redundancy;
mod reference;
mod rule;
mod shape;
mod stripe_map;

pub use arrangement::{MirrorArrangement, ParityArrangement};
pub use cell::{Cell, CopyIndex, DataIndex, Located, ParityIndex, Role, RowIndex};
pub use error::{Error, ErrorKind};
pub use geometry::Geometry;
pub use level::{Family, Formulas, Level, LevelRow};
pub use picture::picture;
pub use redundancy::Survives;
pub use reference::{Figure, figure_text, figures, reference};
pub use shape::Shape;
pub use stripe_map::StripeMap;
