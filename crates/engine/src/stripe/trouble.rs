//! The faults that a request has met on the drives of its stripe.

use crate::members::Places;
use crate::stripe::journal::Kept;
use platform::{IoError, Slice};
use units::{ByteRange, DriveIndex, DriveSet};

/// The faults that a request has met on the drives of its stripe.
#[derive(Default)]
pub(crate) struct Trouble {
    /// Drives with a failed read: the request is planned without reading them.
    pub(crate) drives: DriveSet,
    /// The unreadable ranges, in each drive's part of the volume.
    pub(crate) places: Places,
    /// Refused blocks whose new data is in no other place: they are excluded, and the write has
    /// failed.
    pub(crate) unkept: Vec<Told>,
    /// The known content of a block, whatever its drive holds: it is read as that, and not written.
    pub(crate) told: Option<Told>,
    /// The journal record of the refused write. It cannot retire while it is held here. The old
    /// content is put back under this record.
    pub(crate) record: Option<Box<Kept>>,
    /// Slow drives, which are not read.
    pub(crate) late: DriveSet,
    /// Whether this request waits for slow drives: its data is in no other place.
    pub(crate) is_patient: bool,
    /// The error of a failed read on a drive that may be readable later. A request that needs this
    /// read fails with the error, and no block is declared lost.
    pub(crate) unread: Option<IoError>,
}

/// A block of a drive, and its content according to redundancy.
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
