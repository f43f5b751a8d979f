//! The log: records of writes, from which a replay finishes writes that a crash interrupts. Pure:
//! no I/O, no clock, no tasks. The engine writes records and flushes drives, the controller reads
//! and replays them after a crash. This crate defines their format, their place, which of them
//! count, and the result of a replay.
//!
//! | module | content | used by |
//! | --- | --- | --- |
//! | `record` | the bytes of records and notices; finding them | engine, controller |
//! | `share` | the ring of each shard, the members of each copy | engine |
//! | `batch` | the writes that share one record, and when the next one begins | engine |
//! | `ring` | places, order, settled, retired and announced records; when to flush | engine |
//! | `cells` | cache blocks in persistent memory: allocation, when to clear them | engine |
//! | `memory` | the format of that memory | engine, controller |
//! | `said` | the stripes that live records cover | engine |
//! | `whole` | full-stripe writes without a record that are not flushed yet | engine |
//! | `replay` | counting records, missing copies, and the writes of a replay | controller |
//!
//! `tests/model` tries every order of the protocol's steps, with a crash after each and in the
//! replay, and detects planted defects. Proof: docs/develop/design/write-hole.md, and the top of
//! the engine's `journal`.
//!
//! # Scope
//! The crate does not depend on where a log lies (members, device, persistent memory): places are
//! bytes from a log's beginning. [`Ring`] does not interpret records: it counts writes.
//! [`StripeRing`] adds an index of stripes for the write hole; a log with data of hosts adds its
//! own index. A record type without [`Change`]s needs another version in its head, which older
//! software ignores: so the label of the volume must make older software refuse first.

mod batch;
mod bytes;
mod cells;
mod free;
pub mod memory;
mod record;
mod replay;
mod ring;
mod said;
mod share;
mod whole;

pub use batch::{Batch, MOST_SLICES, Part, is_time};
pub use cells::{CELL, CellRange, Cells, DESCRIPTOR, Descriptor, in_order};
pub use record::{BLOCK, BodyCrc, Change, ChangeKind, Head, LogId, NOTICES, Record, scan};
pub use replay::{Holders, Missing, Patch, counting, patches};
pub use ring::{Begun, Ring};
pub use said::{About, StripeRing};
pub use share::{ring_len, span_of};
pub use whole::WholeStripes;
