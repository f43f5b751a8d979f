//! Bytes on drives: labels and write-intent maps; decode, encode, reconcile. Pure: no I/O, no clock.
//!
//! # The last 32 MiB of every drive
//! ```text
//! drive                                                  tail: 32 MiB, and what is left over to 4 KiB
//! ┌──────────────────────────────────────────────────────┬──────────┬──────────┬───────┬───────┬────────┬──────┐
//! │ data of the array's volumes, side by side            │ label A  │ label B  │ map 0 │ map 1 │ unused │ mark │
//! └──────────────────────────────────────────────────────┴──────────┴──────────┴───────┴───────┴────────┴──────┘
//! 0                                              tail +  0          1 MiB      2 MiB   3 MiB   4 MiB    drive's
//!                                                                                                       last 4 KiB
//! ```
//! The tail begins at (drive size − 32 MiB), rounded down to 4 KiB. All numbers are little-endian.
//!
//! ```text
//! label, in either slot                          block of the write-intent map, 4096 bytes
//!    0  8  "SoftROC\0"                              0  8  "SRoCwmap"
//!    8  4  version, 2                               8  4  version, 1
//!   12  4  CRC-32C of bytes 0 to 4095,             12  4  number of the block
//!          this field as zero                      16 16  array UUID
//!   16  8  sequence                                32  8  sequence; the block lies in copy sequence mod 2
//!   24  4  length of the text                      40  4  CRC-32C of the block, this field as zero
//!   28  4  CRC-32C of the text                     44 20  zero
//!   32 16  array UUID; zero: of a hot spare        64 4032  bits: lane 32256·block + 8·byte + bit (from the
//!   48 16  drive UUID                                     least significant) is being written
//!   64     zero
//! 4096     text, TOML; zeroes to the next 4 KiB  mark:  0 16  "SoftROC member\0\0"    16  8  where the tail begins
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | `tail.rs` | [`Tail`]: where things lie |
//! | `slot.rs` | a label in its slot: [`encode`], [`newest`] |
//! | `label.rs` | [`Label`]: what it says of the array, its members and tasks |
//! | `volume.rs` | [`VolumeLabel`]: what it says of each volume |
//! | `runs.rs` | [`Runs`]: sets of lanes |
//! | `spare.rs` | [`SpareLabel`]: what the label of a hot spare says |
//! | `intent.rs` | [`IntentMap`] |
//! | `reconcile.rs` | from labels to arrays |
//! | `ddf/` | [`ddf`]: SNIA's Common RAID Disk Data Format, read and written |
//! | `foreign/` | [`foreign`]: arrays that other systems made |
//! | `mark.rs` | the mark at the end |

mod bytes;
pub mod ddf;
mod error;
pub mod foreign;
pub mod intent;
mod label;
mod mark;
mod reconcile;
mod runs;
mod slot;
mod spare;
mod tail;
mod uuid;
mod volume;

pub use error::{Error, ErrorKind, Result};
pub use intent::{BlockWrite, Copies, IntentMap};
pub use label::{Cause, GENERATION_STRIDE, Label, MAX_LEAD, Member, MemberState, Phase, Policy, Shadow};
pub use mark::{MARK, mark};
pub use reconcile::{FoundArray, FoundMember, Readiness, Role, SeenDrive, readiness, reconcile, why};
pub use runs::Runs;
pub use slot::{Carried, Content, MAGIC, VERSION, encode, encode_spare, length, newest};
pub use spare::{Bay, LONGEST_ENCLOSURE, SpareLabel, SpareScope, StandIn, is_enclosure_name};
pub use tail::{BLOCK, SLOT, Slot, TAIL, Tail};
pub use uuid::Uuid;
pub use volume::{
    Bad, Init, LONGEST_NAME, MAX_BAD_RUNS, MAX_VOLUMES, Relocated, VolumeLabel, WriteHole, is_volume_name,
    slots,
};
