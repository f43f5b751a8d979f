//! The log: records of what is about to be written, so that what a crash interrupts can be finished. Pure: values in, values out; no
//! I/O, no clock, no tasks. The engine writes records and flushes drives, the controller reads them after a crash and carries them
//! out; what is written, where, when it counts and what it comes to is decided here.
//!
//! | room | what | who asks it |
//! | --- | --- | --- |
//! | `record` | the bytes of records and notices; finding them | both |
//! | `share` | the ring of each shard, the members of each copy | the engine |
//! | `batch` | what shares one record, and when the next one begins | the engine |
//! | `ring` | places, order, what is settled, retired, announced; when to ask for a flush | the engine |
//! | `destages` | plans that write redundancy first: what each may do next, which records it needs | nobody yet: a cache's log |
//! | `intent` | what a column holds after a crash, where the log has data and no redundancy | nobody yet: its replay |
//! | `cells` | what a cache answered, in memory that outlives the process: where it is, and when it may be forgotten | the engine |
//! | `memory` | how that memory is laid out | both |
//! | `said` | what records that count say of stripes | the engine |
//! | `whole` | stripes without a record, on which one may stand | the engine |
//! | `replay` | which records count after a crash, which need copies, and what they leave to be written | the controller |
//!
//! `tests/model` goes through every order in which the steps of the protocol can happen, with a crash after each, and again in
//! the replay, for the ring and the replay as they are; defects that are planted there are found. Why the protocol is right:
//! docs/develop/design/write-hole.md, and the top of the engine's `journal`. `tests/destage` does the same for `destages` and
//! `intent`, which no product path uses: docs/develop/decisions/0033-no-log-without-redundancy.md.
//!
//! # What it does not know
//! What a log outlives is a property of where it lies: on the members, on a device, in memory that outlives the process. Nothing
//! here knows that: places are bytes from a log's beginning. Nor does [`Ring`] know what its records are for: it counts
//! writes. [`StripeRing`] adds what the write hole needs, an index of stripes; a log that carries what hosts wrote, and is read from,
//! adds an index of its own to the same ring. A kind of record that needs other words than [`Change`]s has another version in its
//! head, which older programs take for no record: so the label of the volume has to refuse them first.

mod batch;
mod bytes;
mod cells;
mod destages;
mod free;
mod intent;
pub mod memory;
mod record;
mod replay;
mod ring;
mod said;
mod share;
mod whole;

pub use batch::{Batch, MOST_SLICES, Part, is_time};
pub use cells::{CELL, CellRange, Cells, DESCRIPTOR, Descriptor, in_order};
pub use destages::{Destages, FlushBegun, Stage};
pub use intent::{Column, Intent, Logged, Source};
pub use record::{BLOCK, BodyCrc, Change, ChangeKind, Head, LogId, NOTICES, Record, scan};
pub use replay::{Holders, Missing, Patch, counting, patches};
pub use ring::{Begun, Ring};
pub use said::{About, StripeRing};
pub use share::{ring_len, span_of};
pub use whole::WholeStripes;
