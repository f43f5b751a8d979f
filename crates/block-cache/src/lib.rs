//! The cache of a volume, without its I/O: it decides which writes are destaged together, and when.
//!
//! A *line* holds the cached writes of one stripe. *Destaging* writes them to the drives by one
//! plan: it reads old data once, computes redundancy once, and merges adjacent writes into one I/O.
//! A write-through write is acknowledged when it is destaged. A write-back write is acknowledged
//! when it is in its line; it is *dirty* until it is destaged.
//!
//! # When an unacknowledged write is destaged
//! There is no timer:
//!
//! 1. A write of columns that are neither busy nor waited for is destaged at once.
//! 2. A write of busy columns waits. All waiting writes of these columns, and dirty data there, are
//!    destaged together.
//! 3. A partial line that continues the previous line waits while the end of that line is destaged,
//!    so that sequential writes fill it. It does not wait with less than a stripe outstanding, for
//!    a single request, or without parity.
//!
//! # When dirty data is destaged
//! The caller chooses lines ([`Lines::choose`]) because of age, a flush, the dirty limit or idle
//! drives. The elevator ascends, for short seeks. A *full* line gains nothing by waiting and is
//! chosen first ([`Lines::choose_full`]). A write over older dirty data inherits its sequence
//! number, so that an earlier flush waits for the newer data. Data that cannot be destaged is
//! *pinned* (preserved cache) until a retry.
//!
//! # Invariants ([`Lines::check`])
//! - At most one [`Destage`] at a time covers a column of a line.
//! - Writes of the same columns are destaged in order of arrival, or together.
//! - While wanted data waits, a destage of this line or of the end of the previous one is running.
//! - A line without waiting writes and running destages is removed.
//! - A byte is dirty at most once among waiting writes, and at most once in running destages.
//!
//! Clean data is cached as well ([`Clean`]): frequently read data, and read-ahead of sequential
//! streams ([`Streams`]). The crate handles ranges, not bytes; the caller owns the data
//! ([`Write::held`]).

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
