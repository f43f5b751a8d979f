//! What a request has met on the drives of its stripe.

use crate::members::Places;
use crate::stripe::journal::Kept;
use platform::{IoError, Slice};
use units::{ByteRange, DriveIndex, DriveSet};

/// What a request has met on the drives of its stripe so far.
#[derive(Default)]
pub(crate) struct Trouble {
    /// Drives that could not read something: this request is planned without reading them.
    pub(crate) drives: DriveSet,
    /// What they could not read, in their part of the volume.
    pub(crate) places: Places,
    /// What drives refused of a write that is nowhere else: it is excluded, and the write has failed.
    pub(crate) unkept: Vec<Told>,
    /// What a block counts as in redundancy, whatever its drive holds: it is read as that, and not written.
    pub(crate) told: Option<Told>,
    /// The journal record of the write that drives refused. It is not retired while it is held here.
    /// The old content is put back under this record.
    pub(crate) record: Option<Box<Kept>>,
    /// Drives that are not read, as they take long.
    pub(crate) late: DriveSet,
    /// Whether this request waits for drives that take long: what it needs is nowhere else.
    pub(crate) is_patient: bool,
    /// Why a drive could not be read that may well be readable: where it takes that to go on the request fails with this, and nothing
    /// is given up.
    pub(crate) unread: Option<IoError>,
}

/// A block of a drive, and what redundancy counts it as.
pub(crate) struct Told {
    pub(crate) drive: DriveIndex,
    /// In the drive's part of the volume.
    pub(crate) range: ByteRange,
    pub(crate) bytes: Slice,
}

impl Trouble {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
