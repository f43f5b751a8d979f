//! Structures on drives: labels and write-intent maps; decode, encode, reconcile. Pure: no I/O, no
//! clock. The crate `write-log` has the content of the journals.
//!
//! # The last 32 MiB of every drive
//! ```text
//! drive                    tail: 32 MiB, plus the remainder to 4 KiB
//! ┌────────────────────────┬───────────┬─────────┬───────────┬───────┬───────┬─────────┬────────┐
//! │ volumes, side by side  │ workspace │ primary │ secondary │ map 0 │ map 1 │ witness │ anchor │
//! └────────────────────────┴───────────┴─────────┴───────────┴───────┴───────┴─────────┴────────┘
//! 0               tail +   0           16 MiB    18 MiB      20      21      22        last block
//! ```
//! The tail begins at (drive size − 32 MiB), rounded down to 4 KiB; on drives that were imported
//! with data up to their end it lies before the data ([`TailPlace`]). Anchor, primary and secondary
//! are a structure in DDF, the industry's format: other software can read the volumes, their drives
//! and layouts from it (`docs/formats/ddf.md`). Data without a field in DDF (stale and unwritten
//! regions, the operator's settings) are in SoftROC's vendor log: [`Label`], as TOML. Every change
//! of the label derives all of DDF from it again.
//!
//! ```text
//! Label ─► Telling ─► Structure ─► ddf::update ─► writes      the content to write
//! Glimpse ─► find ─► Carried ─► reconcile ─► FoundArray       the arrays that the drives form
//! ```
//!
//! ```text
//! block of the write-intent map, 4096 bytes; numbers are little-endian
//!    0  8  "SRoCwmap"
//!    8  4  version, 1
//!   12  4  number of the block
//!   16 16  array UUID
//!   32  8  sequence; the block lies in copy sequence mod 2
//!   40  4  CRC-32C of the block, this field as zero
//!   44 20  zero
//!   64 4032  bits: region 32256·block + 8·byte + bit (from the least significant) is marked
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | `tail.rs` | [`Tail`]: offsets in the tail |
//! | `own.rs` | [`find`]: the structures of a drive; [`restore`]: a lost label, from other drives |
//! | `told.rs` | [`Telling`]: from a label to DDF |
//! | `witness.rs` | [`Witness`]: identifies a drive that lost both copies |
//! | `undo.rs` | [`Undo`]: the overwritten metadata of an import |
//! | `payload.rs` | [`Content`]: the text in the vendor log |
//! | `label.rs` | [`Label`]: the array, its members and tasks |
//! | `volume.rs` | [`VolumeLabel`]: a volume in the label |
//! | `runs.rs` | [`Runs`]: sets of regions |
//! | `spare.rs` | [`SpareLabel`]: the label of a hot spare |
//! | `intent.rs` | [`IntentMap`] |
//! | `initialised.rs` | [`InitRecord`]: stripes with data of hosts |
//! | `log_device.rs` | [`LogLabel`]: the label of a log device |
//! | `reconcile.rs` | from labels to arrays |
//! | `ddf/` | [`ddf`]: SNIA's Common RAID Disk Data Format, read and written |
//! | `foreign/` | [`foreign`]: arrays of other systems |

mod bytes;
pub mod ddf;
mod error;
pub mod foreign;
pub mod initialised;
pub mod intent;
mod label;
mod log_device;
mod modes;
mod own;
mod payload;
mod reconcile;
mod reshape;
mod runs;
mod spare;
mod tail;
mod told;
mod undo;
mod uuid;
mod volume;
mod witness;

pub use error::{Error, ErrorKind, Result};
pub use initialised::{InitRecord, RecordCopies};
pub use intent::{BlockWrite, Copies, IntentMap};
pub use label::{
    Cause, FailedDrive, GENERATION_STRIDE, Label, MAX_LEAD, Member, MemberState, Phase, Policy,
    Replacement, StartDegraded,
};
pub use log_device::{LogFound, LogLabel, LogMember, LogPlace};
pub use modes::{CacheMode, DriveCache, ReadMode, SectorFormat, WriteMode};
pub use own::{Carried, Found, Headless, find, restore};
pub use payload::{Content, EARLIEST_VERSION, VERSION, read, spare_text_of, text_of};
pub use reconcile::{
    FoundArray, FoundMember, Readiness, Role, SeenDrive, readiness, reconcile, verb_back, why,
};
pub use reshape::{FollowsLabel, PartLabel, ReshapeLabel};
pub use runs::Runs;
pub use spare::{Bay, SpareLabel, SpareScope, StandIn};
pub use tail::{Area, BLOCK, TAIL, Tail, TailPlace};
pub use told::{Telling, Told};
pub use undo::{Part, Undo, UndoHead, to_keep};
pub use uuid::Uuid;
pub use volume::{
    DataLogLabel, Init, JournalLabel, KeptLabel, LONGEST_NAME, MAX_LOG_DEVICES, MAX_PUNCTURED_RUNS,
    MAX_VOLUMES, OnLog, Punctured, Relocated, VolumeLabel, WriteHole, is_volume_name, slots,
};
pub use witness::Witness;
