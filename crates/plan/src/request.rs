//! What is asked of one stripe, and what its drives can do.

use layout::{CopyIndex, Geometry};
use std::fmt;
use units::{ByteRange, DriveIndex, DriveSet};

/// What is asked of one stripe.
///
/// A range counts the bytes of the stripe's data: from 0 to strip × data strips. It is not empty and lies
/// within one stripe. Planning takes it as bytes: whoever asks keeps it a multiple of the sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Data to the host.
    Read {
        /// Which bytes.
        range: ByteRange,
        /// The copy to read where the level mirrors and that copy can be read; otherwise the next that can.
        prefer: CopyIndex,
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
    /// Make the redundancy agree with the data, over the whole stripe: parity from the data, every other
    /// mirror from the first that can be read, and a data strip that can only be written from parity and
    /// the others (which is what rebuilding a drive is).
    Resync,
    /// Read the whole stripe and compare its redundancy with its data.
    Verify,
}

impl Request {
    /// The bytes of the stripe's data that the host reads or writes; `None` for [`Request::Resync`] and
    /// [`Request::Verify`], which concern all of it.
    pub fn range(&self) -> Option<ByteRange> {
        match *self {
            Request::Read { range, .. } | Request::Write { range } | Request::WriteZeroes { range } => {
                Some(range)
            }
            Request::Resync | Request::Verify => None,
        }
    }

    /// Its name in pictures and traces.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Read { .. } => "read",
            Request::Write { .. } => "write",
            Request::WriteZeroes { .. } => "write zeroes",
            Request::Resync => "resync",
            Request::Verify => "verify",
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
    /// Whether parity is known to agree with the data. Where it is not (after a crash, before the resync),
    /// no plan uses old parity: it neither reconstructs nor reads-modifies-writes. Only a resync of the
    /// whole stripe makes it trusted again. Mirrors take no notice: there the caller prefers the first copy,
    /// in every read.
    pub parity_trusted: bool,
}

impl Health {
    /// Every drive works and parity agrees.
    pub fn optimal(geometry: &Geometry) -> Health {
        let all = DriveSet::first(geometry.drives());
        Health { readable: all, writable: all, parity_trusted: true }
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
    /// The range is empty or not within one stripe, or a drive is named that the array does not have.
    OutOfRange,
    /// No request has that name.
    UnknownRequest,
    /// The level cannot be planned.
    Unsupported,
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
