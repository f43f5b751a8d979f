//! SNIA Common RAID Disk Data Format (DDF), revisions 1.2 and 2.0: read, understood, written.
//!
//! ```text
//! drive                                      relative to its header, in blocks
//! ┌───────────────┬────────────┬────────┐    ┌────────┬────────────┬───────┬─────────┬─────────┬─────┬────────────┐
//! │ data of       │ two copies │ anchor │    │ header │ controller │ disks │ volumes │ records │ own │ vendor log │
//! │ volumes       │            │        │    └────────┴────────────┴───────┴─────────┴─────────┴─────┴────────────┘
//! └───────────────┴────────────┴────────┘
//! ```
//! The anchor, in the drive's last block or where an import put it, says where the primary and the secondary copy are; each begins with a header
//! that says where its sections are. Of these, *disks* and *volumes* are about the whole group of drives, and equal on
//! all; *records* and *own* are about this drive. `docs/formats/ddf.md` has the bytes.
//!
//! ```text
//! Glimpse ─► look ─► Drive ─┬─► tell ─► foreign::reconcile        what arrays there are
//!                           └─► repair ─► Steps                   a damaged copy, from the other
//! Group ─► Structure ─► update ─► Steps                           what is to be said
//! ```
//!
//! Nothing here trusts what it reads. Lengths are held against limits before anything is reserved; what is damaged is
//! said to be, and taken from where it is sound; what cannot be expressed is named, and never read as something like it.
//!
//! | where | what |
//! | --- | --- |
//! | `find.rs` | [`look`]: from a drive's bytes to a [`Drive`] |
//! | `copies.rs` | which copy counts, and what one lends the other |
//! | `structure.rs` | [`Structure`]: all that one copy says |
//! | `header.rs`, `disks.rs`, `volumes.rs`, `records.rs`, `logs.rs` | its parts, byte by byte |
//! | `names.rs` | [`Guid`], [`DiskRef`], [`Time`], [`Name`] |
//! | `fields.rs`, `checksum.rs` | numbers in either byte order; both variants of the CRC |
//! | `level.rs` | [`LevelCode`]: DDF's codes and shapes |
//! | `tell.rs` | [`tell()`]: from drives to the records of [`foreign`](crate::foreign) |
//! | `group.rs` | [`Group`]: what drives, volumes and spares are to say |
//! | `site.rs` | [`Site`]: where SoftROC puts it |
//! | `update.rs` | [`update()`], [`repair`], [`clear`]: writes that may be cut off anywhere |

mod checksum;
mod copies;
mod disks;
mod fields;
mod find;
mod group;
mod header;
mod level;
mod logs;
mod names;
mod records;
mod site;
mod structure;
mod tell;
mod update;
mod volumes;

pub use checksum::Checksum;
pub use copies::{CopyReport, CopyState};
pub use disks::{DiskKind, DiskRecord, DiskState, OwnDisk};
pub use fields::Order;
pub use find::{Drive, Effort, Look, Lost, Place, look};
pub use group::{Group, Volume, condition};
pub use header::{Coding, HEADER_SIGNATURE, Header, HeaderKind, Place as SectionPlace, Section};
pub use level::LevelCode;
pub use logs::{BadBlockLog, BadBlocks, Extras, VendorLog};
pub use names::{DiskRef, Guid, Name, Time};
pub use records::{Element, Slot, SpareRecord, VolumePart};
pub use site::Site;
pub(crate) use site::WORKSPACE;
pub use structure::{Controller, Structure};
pub use tell::tell;
pub use update::{Step, clear, follows, repair, rewrite, update};
pub use volumes::{Condition, VolumeAccess, VolumeRecord, VolumeState};
