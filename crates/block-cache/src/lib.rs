//! The cache of a volume, without its I/O: which writes wait for a stripe, which of them go to its drives together, and
//! when.
//!
//! A *line* is what the cache has of one stripe. A write enters its line, and leaves it when it is on the drives. To write
//! what is in a line is to *destage* it: one plan, which reads what it needs once, computes redundancy once and writes
//! what touches as one I/O. Seven writes of a stripe that are destaged one by one are seven read-modify-writes, each of
//! the same parity; destaged together they are one full-stripe write.
//!
//! Hosts are answered when their write is destaged (*write-through*), or as soon as it is in its line (*write-back*): then
//! it is *dirty*, and the cache alone has it. Both are in the same lines, and go the same way.
//!
//! # When a write is destaged whose host waits
//! There is no timer: a write never waits for something that may not come.
//!
//! 1. A write of columns that nobody is destaging, nor waits for, is destaged at once. A host with one outstanding I/O
//!    notices nothing of the cache.
//! 2. A write of columns that are being destaged waits for that, as it must. What waits is destaged together, and what is
//!    dirty there goes along.
//! 3. A line that continues the line before it waits while the end of that one is being destaged, unless the line is
//!    whole: hosts that write a stream fill it meanwhile, and it needs no reads. It does not wait where nobody could fill
//!    it: with less than a stripe outstanding, or one request alone.
//!
//! # When dirty data is destaged
//! When somebody wants it ([`Lines::choose`]): because it is old, because a host asked for a flush, because there is too
//! much of it, or because the drives are idle. Lines are chosen by an elevator, so that rotating drives seek little. A line
//! of which everything is dirty is *full*: nothing is to be won by waiting, and it is wanted as soon as the drives have room
//! for it ([`Lines::choose_full`]). What a host writes over dirty data takes its place, and *stands for* it: a flush that was
//! asked for before waits for the newer data in place of the older.
//!
//! What cannot be destaged is *pinned*: it stays, in its order, until it is tried again.
//!
//! # Invariants ([`Lines::check`])
//! - Columns of a line are destaged by one [`Destage`] at a time.
//! - Writes of the same columns are destaged in the order in which they came, or together.
//! - While anything of a line waits that is to be destaged, something that will have it looked at again is being destaged: in
//!   the line, or at the end of the line before.
//! - A line of which nothing waits, and nothing is destaged, is not kept.
//! - A byte is dirty once among what waits, and once more at the most in what is being destaged.
//!
//! # What is read
//! What the drives hold may be kept as well ([`Clean`]): because somebody asks for it again and again, or because a *stream* of reads
//! ([`Streams`]) will ask for it next, and it is read ahead.
//!
//! | module | holds |
//! | --- | --- |
//! | `lines` | [`Lines`]: what waits, and what may be destaged |
//! | `line` | one line: what lies over what, and which columns are free |
//! | `dirt` | how much is dirty, since when, and the elevator |
//! | `shape` | [`LineShape`]: what one plan can carry out |
//! | `merge` | [`merge`]: what several writes come to, newest bytes last |
//! | `clean` | [`Clean`]: what is kept of what the drives hold, and what gives way |
//! | `streams` | [`Streams`]: which reads follow one another, and how far ahead of them is read |
//!
//! The crate is pure: it knows ranges, not bytes. What else belongs to a write ([`Write::held`]) is its caller's.

mod clean;
mod dirt;
mod line;
mod lines;
mod merge;
mod shape;
mod streams;

pub use clean::{Bytes, Clean, CleanCounters, FillName, LineName, PAGE, Piece, WriteName};
pub use dirt::Sequence;
pub use lines::{Destage, Held, Lines, RequestTag, Write};
pub use merge::{Extent, merge};
pub use shape::LineShape;
pub use streams::{Ahead, StreamName, Streams};
