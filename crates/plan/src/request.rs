//! Requests on one stripe, and the state of its drives.

use layout::{CopyIndex, DataIndex, Geometry, Role, StripeMap};
use std::fmt;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// All columns of a strip of any size: the end is clamped to the strip.
pub const WHOLE_STRIP: ByteRange = ByteRange { start: ByteOffset::ZERO, len: ByteCount::MIB };

/// Which copy of each data strip to read on mirrored levels; if unreadable, the next one. A small
/// value, so that the caller can choose per strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyChoice([u8; CopyChoice::STRIPS]);

impl CopyChoice {
    /// The most data strips a mirrored stripe has.
    const STRIPS: usize = 32;

    /// The first copy of every strip.
    pub const FIRST: CopyChoice = CopyChoice([0; CopyChoice::STRIPS]);

    /// The same copy of every strip.
    pub const fn all(copy: CopyIndex) -> CopyChoice {
        CopyChoice([copy.0 as u8; CopyChoice::STRIPS])
    }

    /// This choice with another copy for one strip.
    #[must_use]
    pub fn with(mut self, index: DataIndex, copy: CopyIndex) -> CopyChoice {
        self.0[usize::from(index.0) % CopyChoice::STRIPS] = copy.0 as u8;
        self
    }

    /// The copy of a strip.
    pub fn of(&self, index: DataIndex) -> CopyIndex {
        CopyIndex(self.0[usize::from(index.0) % CopyChoice::STRIPS].into())
    }
}

/// Columns of one strip that the caller has in memory, before the request: data, and parity
/// consistent with it. Not the data to be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cached {
    /// The data strip (whichever copy), P or Q.
    pub role: Role,
    /// The columns.
    pub columns: ByteRange,
}

impl Cached {
    /// Columns of a data strip.
    pub fn data(index: DataIndex, columns: ByteRange) -> Cached {
        Cached { role: Role::Data { index, copy: CopyIndex(0) }, columns }
    }
}

/// A request on one stripe.
///
/// A range is in bytes of the stripe's data, from 0 to strip × data strips; it is not empty and
/// lies within one stripe. Columns are byte positions of every strip: [`WHOLE_STRIP`] or a part.
/// The caller keeps both multiples of the sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Data to the host.
    Read {
        /// The bytes.
        range: ByteRange,
        /// The copy of each strip to read first. Ignored where copies may differ
        /// ([`Health::parity_trusted`]): then the first readable copy is read.
        prefer: CopyChoice,
        /// Whether several copies of a strip may be read at once, a part from each.
        split: bool,
    },
    /// The host's payload to the drives.
    Write {
        /// The bytes.
        range: ByteRange,
    },
    /// Zeroes to the drives: the same plan with [`crate::Source::Zero`] as payload.
    WriteZeroes {
        /// The bytes.
        range: ByteRange,
    },
    /// The host's payload to several places of the stripe in one plan, which merges adjacent I/O
    /// and computes parity once per column. The same columns of several strips are a rectangle;
    /// extents that cover the stripe are a full stripe.
    ///
    /// The payload is the concatenation of the extents; the plan does not depend on its buffers.
    WriteExtents {
        /// Ranges of the stripe's data: whole sectors, ascending, not empty, not overlapping; may
        /// touch.
        extents: &'a [ByteRange],
        /// Cached data: whole sectors, ascending by strip (data, P, Q) and column, not overlapping.
        /// No effect on levels without parity.
        cached: &'a [Cached],
    },
    /// Make redundancy consistent with data. Strips that can be written but not read are recomputed
    /// and written (a rebuild). If there are none, parity is recomputed, and other copies are
    /// written from the first readable one. Untrusted redundancy is rewritten completely.
    Resync {
        /// The columns of the stripe.
        columns: ByteRange,
    },
    /// Read data and redundancy and compare them.
    Verify {
        /// The columns of the stripe.
        columns: ByteRange,
    },
    /// Recompute one strip from the others, ignoring its content, and write it: after a
    /// [`crate::Mismatch`] with a culprit, or a medium error.
    Repair {
        /// The strip.
        culprit: Role,
        /// Its columns.
        columns: ByteRange,
    },
    /// Read a drive's strips, or compute them if unreadable, and write them to the same place. The
    /// write names the drive; the executor redirects it to the replacement, so the drive need not
    /// be writable. A relocated strip ([`Health::relocated`]) is read at its present place, and so
    /// returns.
    Copy {
        /// The drive.
        drive: DriveIndex,
        /// The columns of its strips.
        columns: ByteRange,
    },
}

impl Request<'_> {
    /// The single range of a host's read or write; `None` for several extents and for internal
    /// requests.
    pub fn range(&self) -> Option<ByteRange> {
        match *self {
            Request::Read { range, .. }
            | Request::Write { range }
            | Request::WriteZeroes { range } => Some(range),
            _ => None,
        }
    }

    /// The columns of an internal request; `None` for a host's request.
    pub fn columns(&self) -> Option<ByteRange> {
        match *self {
            Request::Resync { columns }
            | Request::Verify { columns }
            | Request::Repair { columns, .. }
            | Request::Copy { columns, .. } => Some(columns),
            _ => None,
        }
    }

    /// Whether it is a host's write.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Request::Write { .. } | Request::WriteZeroes { .. } | Request::WriteExtents { .. }
        )
    }

    /// Length of the host's buffer; 0 for internal requests.
    pub fn host_bytes(&self) -> ByteCount {
        match self {
            Request::WriteExtents { extents, .. } => {
                ByteCount(extents.iter().map(|extent| extent.len.0).sum())
            }
            _ => self.range().map_or(ByteCount::ZERO, |range| range.len),
        }
    }

    /// The request without borrowed lists, which a plan keeps itself.
    pub(crate) fn to_keep(self) -> Request<'static> {
        match self {
            Request::Read { range, prefer, split } => Request::Read { range, prefer, split },
            Request::Write { range } => Request::Write { range },
            Request::WriteZeroes { range } => Request::WriteZeroes { range },
            Request::WriteExtents { .. } => Request::WriteExtents { extents: &[], cached: &[] },
            Request::Resync { columns } => Request::Resync { columns },
            Request::Verify { columns } => Request::Verify { columns },
            Request::Repair { culprit, columns } => Request::Repair { culprit, columns },
            Request::Copy { drive, columns } => Request::Copy { drive, columns },
        }
    }

    /// Its name in pictures and traces.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Read { .. } => "read",
            Request::Write { .. } => "write",
            Request::WriteZeroes { .. } => "write zeroes",
            Request::WriteExtents { .. } => "write",
            Request::Resync { .. } => "resync",
            Request::Verify { .. } => "verify",
            Request::Repair { .. } => "repair",
            Request::Copy { .. } => "copy",
        }
    }
}

/// State of the drives for one stripe, by value.
///
/// A medium error makes a drive unreadable but writable for this stripe: a write repairs it. The
/// same holds for a drive above its rebuild position.
///
/// A write makes unwritable drives stale: the caller removes these from `readable` before the next
/// request on the stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Drives whose cells of this stripe can be read and are up to date.
    pub readable: DriveSet,
    /// Drives whose cells of this stripe can be written.
    pub writable: DriveSet,
    /// Whether redundancy is known to be consistent. If not (after a crash, before the resync), no
    /// plan uses old parity: no reconstruction, no read-modify-write; and of copies the first
    /// readable one counts. Only a resync of the whole stripe restores trust.
    pub parity_trusted: bool,
    /// The drive whose strip was rebuilt into the spare strip of this stripe (RAID 5EE).
    pub relocated: Option<DriveIndex>,
}

impl Health {
    /// All drives work and redundancy is consistent.
    pub fn optimal(geometry: &Geometry) -> Health {
        let all = DriveSet::first(geometry.drives());
        Health { readable: all, writable: all, parity_trusted: true, relocated: None }
    }

    /// The same with `drive` failed: neither readable nor writable.
    #[must_use]
    pub fn without(self, drive: DriveIndex) -> Health {
        Health {
            readable: self.readable.without(drive),
            writable: self.writable.without(drive),
            ..self
        }
    }

    /// The same with this stripe of `drive` unreadable.
    #[must_use]
    pub fn unreadable(self, drive: DriveIndex) -> Health {
        Health { readable: self.readable.without(drive), ..self }
    }

    /// The same with inconsistent redundancy possible.
    #[must_use]
    pub fn untrusted(self) -> Health {
        Health { parity_trusted: false, ..self }
    }

    /// The same with the strip of `drive` relocated to its spare strip.
    #[must_use]
    pub fn relocated(self, drive: DriveIndex) -> Health {
        Health { relocated: Some(drive), ..self }
    }

    /// Locations of the cells of a stripe.
    pub(crate) fn map(&self, geometry: &Geometry, stripe: StripeIndex) -> StripeMap {
        let map = geometry.stripe_map(stripe);
        match self.relocated {
            None => map,
            Some(drive) => map.relocated(drive),
        }
    }

    /// Drives of the array that can be neither read nor written.
    pub fn failed(&self, geometry: &Geometry) -> DriveSet {
        DriveSet::first(geometry.drives()).minus(&self.readable.union(&self.writable))
    }

    /// Drives of the array that can be written but not read.
    pub fn write_only(&self, geometry: &Geometry) -> DriveSet {
        DriveSet::first(geometry.drives()).minus(&self.readable).intersection(&self.writable)
    }
}

/// The stable kind of an [`Unplannable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Requested bytes, or bytes that redundancy needs, cannot be recovered.
    DataLost,
    /// Neither a drive nor redundancy can hold the bytes to be written.
    NothingWritable,
    /// A check has nothing to compare: data or redundancy is incomplete.
    NothingToCompare,
    /// Extents and cached ranges cut the strip into too many runs of columns. Plan narrower
    /// columns, one after the other.
    TooScattered,
    /// The range is empty or exceeds one stripe, or a drive or strip does not exist.
    OutOfRange,
    /// Unknown name of a request.
    UnknownRequest,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplannable {
    /// The error, for programs.
    pub kind: ErrorKind,
    /// The error, for people.
    pub context: String,
    /// Affected ranges of the stripe's data, ascending: unrecoverable for [`ErrorKind::DataLost`],
    /// not storable for [`ErrorKind::NothingWritable`]. A narrower request can serve the rest.
    pub ranges: Vec<ByteRange>,
}

impl fmt::Display for Unplannable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Unplannable {}
