//! What is asked of one stripe, and what its drives can do.

use layout::{CopyIndex, DataIndex, Geometry, Role, StripeMap};
use std::fmt;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet, StripeIndex};

/// All columns of a strip, whatever its size: what is past the end of the strip is left out.
pub const WHOLE_STRIP: ByteRange = ByteRange { start: ByteOffset::ZERO, len: ByteCount::MIB };

/// Which copy of each data strip to read where the level mirrors; the next one that can be read where that
/// one cannot. A small value, so that whoever serves reads can weigh the mirrors of every strip.
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

    /// This choice, but for one strip.
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

/// Columns of one strip that the caller has in memory, as its drive holds them or should: the data before the request,
/// and parity that agrees with it. Not what is to be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cached {
    /// The data strip (whichever copy), P or Q.
    pub role: Role,
    /// Which columns of it.
    pub columns: ByteRange,
}

impl Cached {
    /// Columns of a data strip.
    pub fn data(index: DataIndex, columns: ByteRange) -> Cached {
        Cached { role: Role::Data { index, copy: CopyIndex(0) }, columns }
    }
}

/// What is asked of one stripe.
///
/// A range counts the bytes of the stripe's data: from 0 to strip × data strips. It is not empty and lies
/// within one stripe. Columns count the bytes of every strip: [`WHOLE_STRIP`], or fewer, for what concerns
/// only a run of them. Planning takes both as bytes: whoever asks keeps them multiples of the sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Data to the host.
    Read {
        /// Which bytes.
        range: ByteRange,
        /// The copy of each strip to read first. Where copies may differ ([`Health::parity_trusted`]) the first
        /// that can be read is taken, whatever is chosen here.
        prefer: CopyChoice,
        /// Whether a strip's bytes may come from several copies at once, each giving a part.
        split: bool,
    },
    /// The host's payload to the drives.
    Write {
        /// Which bytes.
        range: ByteRange,
    },
    /// Zeroes to the drives; the same plan with [`crate::Source::Zero`] in place of the payload.
    WriteZeroes {
        /// Which bytes.
        range: ByteRange,
    },
    /// The host's payload to several places of the stripe at once, as one plan that reads and writes what touches
    /// together and computes parity once for columns that the extents share. The same columns of several strips are a
    /// rectangle, and extents that make up the whole stripe a full stripe.
    ///
    /// The payload is the bytes of the extents, one after the other. In how many buffers these lie is not the plan's
    /// business: it changes nothing of what the drives do, and a plan can be made, explained and made again without it.
    WriteExtents {
        /// Which bytes of the stripe's data: whole sectors, ascending, none empty, none overlapping; they may touch.
        extents: &'a [ByteRange],
        /// What of the stripe need not be read: whole sectors, ascending by strip (data, P, Q) and column, none
        /// overlapping. Of a level without parity nothing is read to be written, so there it changes nothing.
        cached: &'a [Cached],
    },
    /// Make the redundancy agree with the data. Strips that can be written but not read are computed from the others
    /// and written, which is what rebuilding a drive is; where there are none, parity is computed from
    /// the data and written, and every other copy from the first that can be read. Where redundancy is not trusted
    /// all of it is written.
    Resync {
        /// Which columns of the stripe.
        columns: ByteRange,
    },
    /// Read data and redundancy and compare them.
    Verify {
        /// Which columns of the stripe.
        columns: ByteRange,
    },
    /// Compute one strip from the others, whatever it holds now, and write it: the answer to a
    /// [`crate::Mismatch`] that names a culprit, and to a medium error.
    Repair {
        /// Which strip.
        culprit: Role,
        /// Which columns of it.
        columns: ByteRange,
    },
    /// Read what a drive has of the stripe, or compute it where it cannot be read, and write it to that same
    /// place. The write names the drive; whoever executes the plan sends it to the drive that is to take its
    /// place, so that it does not matter whether the drive itself can be written. Of a drive whose strip was
    /// relocated ([`Health::relocated`]) the strip is read from where it is now: which is how it comes back.
    Copy {
        /// Which drive.
        drive: DriveIndex,
        /// Which columns of its strips.
        columns: ByteRange,
    },
}

impl Request<'_> {
    /// The one range of the stripe's data that the host reads or writes; `None` for several extents, and for what no
    /// host asks for.
    pub fn range(&self) -> Option<ByteRange> {
        match *self {
            Request::Read { range, .. } | Request::Write { range } | Request::WriteZeroes { range } => {
                Some(range)
            }
            _ => None,
        }
    }

    /// The columns of every strip that it concerns; `None` for what a host asks for.
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
        matches!(self, Request::Write { .. } | Request::WriteZeroes { .. } | Request::WriteExtents { .. })
    }

    /// How many bytes of the stripe's data the host reads or writes: the length of its buffer. None of what no host
    /// asks for.
    pub fn host_bytes(&self) -> ByteCount {
        match self {
            Request::WriteExtents { extents, .. } => {
                ByteCount(extents.iter().map(|extent| extent.len.0).sum())
            }
            _ => self.range().map_or(ByteCount::ZERO, |range| range.len),
        }
    }

    /// The request without what it borrows: a plan keeps that itself.
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

/// What the drives can do for one stripe, by value.
///
/// A medium error on one strip is a drive that is not readable, but writable, for this stripe: writing it
/// heals it. A drive that is being rebuilt is the same above the rebuild's cursor.
///
/// A plan leaves stale what is on a drive that is not writable: before the next request on the stripe, its
/// caller takes such a drive out of `readable` too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Drives whose cells of this stripe can be read and are up to date.
    pub readable: DriveSet,
    /// Drives whose cells of this stripe can be written.
    pub writable: DriveSet,
    /// Whether redundancy is known to agree with the data. Where it is not (after a crash, before the resync),
    /// no plan uses old parity: it neither reconstructs nor reads-modifies-writes; and of the copies of a strip
    /// the first that can be read speaks for all. Only a resync of the whole stripe makes it trusted again.
    pub parity_trusted: bool,
    /// The drive whose strip of this stripe has been rebuilt into the stripe's spare strip (RAID 5EE).
    pub relocated: Option<DriveIndex>,
}

impl Health {
    /// Every drive works and parity agrees.
    pub fn optimal(geometry: &Geometry) -> Health {
        let all = DriveSet::first(geometry.drives());
        Health { readable: all, writable: all, parity_trusted: true, relocated: None }
    }

    /// The same, but `drive` has failed: it can be neither read nor written.
    #[must_use]
    pub fn without(self, drive: DriveIndex) -> Health {
        Health { readable: self.readable.without(drive), writable: self.writable.without(drive), ..self }
    }

    /// The same, but what `drive` holds of this stripe cannot be read.
    #[must_use]
    pub fn unreadable(self, drive: DriveIndex) -> Health {
        Health { readable: self.readable.without(drive), ..self }
    }

    /// The same, but parity may disagree with the data.
    #[must_use]
    pub fn untrusted(self) -> Health {
        Health { parity_trusted: false, ..self }
    }

    /// The same, but what `drive` had of this stripe is in its spare strip.
    #[must_use]
    pub fn relocated(self, drive: DriveIndex) -> Health {
        Health { relocated: Some(drive), ..self }
    }

    /// Where the cells of a stripe are.
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
    /// Bytes that are asked for, or without which the redundancy cannot be kept, are beyond recovery.
    DataLost,
    /// Bytes that are to be written have nowhere to go: neither their drive nor redundancy can hold them.
    NothingWritable,
    /// A check found nothing to compare: the data, or its redundancy, is not all there.
    NothingToCompare,
    /// The extents, and what is cached, cut the strip into more runs of columns than are planned at once. Narrower
    /// columns can be planned, one after the other.
    TooScattered,
    /// The range is empty or not within one stripe, or a drive or strip is named that there is not.
    OutOfRange,
    /// No request has that name.
    UnknownRequest,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplannable {
    /// What is wrong, for programs.
    pub kind: ErrorKind,
    /// What is wrong, for people.
    pub context: String,
    /// The bytes of the stripe's data this is about, ascending: for [`ErrorKind::DataLost`] those that
    /// cannot be had, for [`ErrorKind::NothingWritable`] those that cannot be kept. What else was asked
    /// for can be, in a narrower request.
    pub ranges: Vec<ByteRange>,
}

impl fmt::Display for Unplannable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Unplannable {}
