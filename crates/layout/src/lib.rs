//! Where each byte of a volume lives on the drives, and the way back: a table of levels.
//!
//! A [`Shape`] says which level on how many drives, and how the level's choices are made; it becomes a
//! [`Geometry`], one volume's layout, a small value that is copied freely. It cuts the volume into *stripes*,
//! the units of planning and locking: a parity group with its data, or the rows after which mirrors repeat. A
//! stripe has *data strips* (D0, D1, …), each stored in one or more *copies*, *parity strips* (P, Q), and
//! perhaps a *spare strip* (S). Where one of them lives is a [`Cell`]: a drive and an address in that drive's
//! data area. [`StripeMap`] knows the cells of one stripe; [`Geometry::locate`] is the way back.
//!
//! Every method is constant in time (bounded by the drives of an array where it is about all of them) and
//! allocates nothing. From a byte of the volume to its cell takes 3 to 10 ns on one core of a 2023 server, 5
//! ns for RAID 5.
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
//! | `level.rs`, `levels/` | the table: [`Level`], [`LevelRow`]; a file per level with its row and figures |
//! | `arrangement.rs` | [`ParityArrangement`], [`MirrorArrangement`]: what other systems call them |
//! | `shape.rs` | [`Shape`]: what can be chosen, and every check |
//! | `geometry.rs` | [`Geometry`]: bytes, stripes, rows, spans |
//! | `stripe_map.rs` | [`StripeMap`]: the cells of a stripe, the weights of Q, a stripe rebuilt into its spare strip |
//! | `rule.rs` | the arrangements of parity as numbers, so that one formula serves all |
//! | `redundancy.rs` | which drives may be lost, and the write penalty |
//! | `cell.rs` | [`Cell`], [`Role`], the indexes |
//! | `picture.rs` | [`picture()`]: a layout for people |
//!
//! `docs/operate/levels.md` is printed from the table. A new level is a file, a row, and a variant of [`Level`]; a new
//! arrangement is a line in `rule.rs`.
//!
//! # What cannot be said
//!
//! - Members of different sizes: as much is used of each as of the smallest. (Linux md's RAID 0 with zones, linear.)
//! - Linux md's RAID 10 with near *and* far copies, and its far copies in sets of drives.
//! - A last stripe that is cut off: RAID 1E over an odd number of rows leaves what Linux md still uses of the last.

mod arrangement;
mod cell;
mod error;
mod geometry;
mod level;
mod levels;
mod picture;
mod redundancy;
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
pub use shape::Shape;
pub use stripe_map::StripeMap;
