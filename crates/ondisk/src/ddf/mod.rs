//! SNIA Common RAID Disk Data Format (DDF), revisions 1.2 and 2.0: decoded, interpreted, written.
//!
//! ```text
//! drive
//! ┌─────────────────┬────────────┬────────┐
//! │ data of volumes │ two copies │ anchor │
//! └─────────────────┴────────────┴────────┘
//! copy: relative to its header, in blocks
//! ┌────────┬────────────┬───────┬─────────┬─────────┬─────┬────────────┐
//! │ header │ controller │ disks │ volumes │ records │ own │ vendor log │
//! └────────┴────────────┴───────┴─────────┴─────────┴─────┴────────────┘
//! ```
//! The anchor, in the drive's last block or where an import put it, has the addresses of the
//! primary and the secondary copy. Each copy begins with a header with the offsets of its sections.
//! *Disks* and *volumes* describe the whole group of drives, and are equal on all; *records* and
//! *own* describe this drive. `docs/formats/ddf.md` has the bytes.
//!
//! ```text
//! Glimpse ─► look ─► Drive ─┬─► tell ─► foreign::reconcile        the arrays that exist
//!                           └─► repair ─► Steps                   a damaged copy, from the other
//! Group ─► Structure ─► update ─► Steps                           the content to write
//! ```
//!
//! All input is untrusted. The decoder checks lengths against limits before it reserves memory; it
//! reports damaged parts and takes them from the sound copy; it reports unsupported layouts by
//! name, and never decodes them as similar ones.
//!
//! | where | what |
//! | --- | --- |
//! | `find.rs` | [`look`]: from a drive's bytes to a [`Drive`] |
//! | `copies.rs` | chooses a copy, and completes it from the other |
//! | `structure.rs` | [`Structure`]: the content of one copy |
//! | `header.rs`, `disks.rs`, `volumes.rs`, `records.rs`, `logs.rs` | its parts, byte by byte |
//! | `names.rs` | [`Guid`], [`DiskRef`], [`Time`], [`Name`] |
//! | `fields.rs`, `checksum.rs` | numbers in either byte order; both variants of the CRC |
//! | `level.rs` | [`LevelCode`]: DDF's codes and shapes |
//! | `tell.rs` | [`tell()`]: from drives to the records of [`foreign`](crate::foreign) |
//! | `group.rs` | [`Group`]: the content to write, from drives, volumes and spares |
//! | `site.rs` | [`Site`]: where SoftROC places the structure |
//! | `update.rs` | [`update()`], [`repair`], [`clear`]: writes that survive an interruption |

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
pub use find::{AnchorPlace, Drive, Effort, Look, Lost, look};
pub use group::{Group, Volume, condition};
pub use header::{Coding, HEADER_SIGNATURE, Header, HeaderKind, Section, SectionPlace};
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
