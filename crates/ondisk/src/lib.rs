//! Bytes on drives: labels and write-intent maps; decode, encode, reconcile. Pure: no I/O, no clock.
//!
//! # The last 32 MiB of every drive
//! ```text
//! drive                                                  tail: 32 MiB, and what is left over to 4 KiB
//! ┌──────────────────────────────────────────────────────┬──────────┬──────────┬───────┬───────┬────────┬──────┐
//! │ data of the array's volume                           │ label A  │ label B  │ map 0 │ map 1 │ unused │ mark │
//! └──────────────────────────────────────────────────────┴──────────┴──────────┴───────┴───────┴────────┴──────┘
//! 0                                              tail +  0          1 MiB      2 MiB   3 MiB   4 MiB    drive's
//!                                                                                                       last 4 KiB
//! ```
//! The tail begins at (drive size − 32 MiB), rounded down to 4 KiB. All numbers are little-endian.
//!
//! ```text
//! label, in either slot                          block of the write-intent map, 4096 bytes
//!    0  8  "SoftROC\0"                              0  8  "SRoCwmap"
//!    8  4  version, 1                               8  4  version, 1
//!   12  4  CRC-32C of bytes 0 to 4095,             12  4  number of the block
//!          this field as zero                      16 16  array UUID
//!   16  8  sequence                                32  8  sequence; the block lies in copy sequence mod 2
//!   24  4  length of the text                      40  4  CRC-32C of the block, this field as zero
//!   28  4  CRC-32C of the text                     44 20  zero
//!   32 16  array UUID                              64 4032  bits: lane 32256·block + 8·byte + bit (from the
//!   48 16  drive UUID                                     least significant) is being written
//!   64     zero
//! 4096     text, TOML; zeroes to the next 4 KiB  mark:  0 16  "SoftROC member\0\0"    16  8  where the tail begins
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | `tail.rs` | [`Tail`]: where things lie |
//! | `slot.rs` | a label in its slot: [`encode`], [`newest`] |
//! | `label.rs` | [`Label`]: what it says |
//! | `intent.rs` | [`IntentMap`] |
//! | `reconcile.rs` | from labels to arrays |
//! | `mark.rs` | the mark at the end |

mod bytes;
mod error;
pub mod intent;
mod label;
mod mark;
mod reconcile;
mod slot;
mod tail;
mod uuid;

pub use error::{Error, ErrorKind, Result};
pub use intent::{BlockWrite, Copies, IntentMap};
pub use label::{
    Cause, LONGEST_NAME, Label, Member, MemberState, Phase, VolumeLabel, WriteHole, is_volume_name,
};
pub use mark::{MARK, mark};
pub use reconcile::{FoundArray, FoundMember, Readiness, Role, SeenDrive, reconcile, why};
pub use slot::{Carried, MAGIC, VERSION, encode, length, newest};
pub use tail::{BLOCK, SLOT, Slot, TAIL, Tail};
pub use uuid::Uuid;
