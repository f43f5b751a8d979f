//! Requests to drives.

use crate::buffers::{Bufs, Slice, Slices};
use units::{ByteCount, ByteOffset, ByteRange};

/// When a write counts as complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When the drive has it, possibly in a volatile cache: a later flush makes it durable.
    #[default]
    Cached,
    /// When it survives a power cut (force unit access, FUA).
    Durable,
}

/// One request to a drive. Addresses are bytes on the raw drive; ranges are whole sectors.
#[derive(Debug)]
pub enum IoRequest {
    /// Read into `buffers`, in order, from `offset`.
    Read {
        /// The address of the first byte.
        offset: ByteOffset,
        /// The buffers to fill; the outcome returns them.
        buffers: Bufs,
    },
    /// Write `slices`, in order, to `offset`.
    Write {
        /// The address of the first byte.
        offset: ByteOffset,
        /// The data.
        slices: Slices,
        /// When the write counts as complete.
        durability: Durability,
    },
    /// Make a range read as zeros.
    WriteZeroes {
        /// The range.
        range: ByteRange,
        /// Whether the drive may deallocate the space.
        may_unmap: bool,
        /// When the write counts as complete.
        durability: Durability,
    },
    /// Discard a range; afterwards it may read as anything.
    Trim {
        /// The range.
        range: ByteRange,
    },
    /// Make all writes durable that were complete before the flush started.
    Flush,
    /// Report the allocated parts of a range, as far as the drive knows.
    Status {
        /// The range.
        range: ByteRange,
    },
    /// Report the drive's health: see [`health`](crate::IoOutcome::health) of the outcome. A drive
    /// without health data succeeds with an unknown health; an error means that the drive did not
    /// respond.
    Health,
    /// Switch the drive's write cache on or off; `NotSupported` if there is none, or it cannot be
    /// switched. With the cache off every completed write is durable.
    WriteCache {
        /// On or off.
        on: bool,
    },
    /// Switch the locate light of the drive's bay on or off; `NotSupported` if there is none.
    Locate {
        /// On or off.
        on: bool,
    },
}

/// Whether blocks are allocated, and whether they read as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockStatus {
    /// Allocated, with data.
    Data,
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated; reads as zeros.
    Zero,
}

/// A run of blocks with the same status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// The length.
    pub len: ByteCount,
    /// The status.
    pub status: BlockStatus,
}

impl IoRequest {
    /// The request's name in traces.
    pub fn name(&self) -> &'static str {
        match self {
            IoRequest::Read { .. } => "read",
            IoRequest::Write { .. } => "write",
            IoRequest::WriteZeroes { .. } => "write-zeroes",
            IoRequest::Trim { .. } => "trim",
            IoRequest::Flush => "flush",
            IoRequest::Status { .. } => "status",
            IoRequest::Health => "health",
            IoRequest::Locate { .. } => "locate",
            IoRequest::WriteCache { .. } => "write-cache",
        }
    }

    /// The request's byte range on the drive; empty for a flush and for requests that concern the
    /// whole drive.
    pub fn range(&self) -> ByteRange {
        match self {
            IoRequest::Read { offset, buffers } => {
                ByteRange::new(*offset, ByteCount(buffers.iter().map(|buf| buf.len().0).sum()))
            }
            IoRequest::Write { offset, slices, .. } => ByteRange::new(
                *offset,
                ByteCount(slices.iter().map(|slice: &Slice| slice.len().0).sum()),
            ),
            IoRequest::WriteZeroes { range, .. }
            | IoRequest::Trim { range }
            | IoRequest::Status { range } => *range,
            IoRequest::Flush
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => ByteRange::default(),
        }
    }
}
