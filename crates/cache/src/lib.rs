//! The cache of a volume, without its I/O: which writes wait for a stripe, which of them go to its drives together, and
//! when.
//!
//! A *line* is what the cache has of one stripe. A write enters its line, and leaves it when it is on the drives. To write
//! what is in a line is to *destage* it: one plan, which reads what it needs once, computes redundancy once and writes
//! what touches as one I/O. Seven writes of a stripe that are destaged one by one are seven read-modify-writes, each of
//! the same parity; destaged together they are one full-stripe write.
//!
//! # When a write is destaged
//! There is no timer: a write never waits for something that may not come.
//!
//! 1. A write of columns that nobody is destaging, nor waits for, is destaged at once. A host with one outstanding I/O
//!    notices nothing of the cache.
//! 2. A write of columns that are being destaged waits for that, as it must. What waits is destaged together.
//! 3. A line that continues the line before it waits while the end of that one is being destaged, unless the line is
//!    whole: hosts that write a stream fill it meanwhile, and it needs no reads. It does not wait where nobody could fill
//!    it: with less than a stripe outstanding, or one request alone.
//!
//! # Invariants ([`Lines::check`])
//! - Columns of a line are destaged by one [`Destage`] at a time.
//! - Writes of the same columns are destaged in the order in which they came, or together.
//! - While anything of a line waits, something that will have it looked at again is being destaged: in the line, or at
//!   the end of the line before.
//! - A line of which nothing waits, and nothing is destaged, is not kept.
//!
//! | module | holds |
//! | --- | --- |
//! | `lines` | [`Lines`]: what waits, and what may be destaged |
//! | `merge` | [`merge`]: what several writes come to, newest bytes last |
//!
//! The crate is pure: it knows ranges, not bytes. What else belongs to a write ([`Write::held`]) is its caller's.

mod lines;
mod merge;

pub use lines::{Destage, LineShape, Lines, RequestTag, Write};
pub use merge::{Extent, merge};
