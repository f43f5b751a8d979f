//! Drives with a separate model for the duration of operations, such as a disk model.

use super::DriveCell;
use crate::core::{Action, SimHandle};
use platform::{Buf, IoRequest};
use std::rc::Rc;
use std::time::Duration;

/// Determines the duration of a drive's operations, replacing the latency of its options. The drive
/// itself determines their effects and failures: see
/// [`SimDrive::pace_by`](super::SimDrive::pace_by).
pub trait Pacer {
    /// Starts an operation, with data-less buffers. The drive returns it when `paced` ends, which
    /// must not be before this call returns.
    fn begin(&self, request: IoRequest, paced: Paced);
}

/// An operation whose duration a [`Pacer`] determines.
pub struct Paced {
    drive: Rc<DriveCell>,
    /// The drive's slot and its generation.
    slot: (u32, u32),
    /// An additional delay set by a test.
    longer: Duration,
}

impl Paced {
    pub(super) fn new(drive: &Rc<DriveCell>, slot: (u32, u32), longer: Duration) -> Paced {
        Paced { drive: drive.clone(), slot, longer }
    }

    /// Completes the operation at the drive, unless a kill or a power cut has ended it.
    pub fn end(self, sim: &SimHandle) {
        let Paced { drive, slot: (slot, generation), longer } = self;
        sim.core.schedule(longer, Action::Drive { drive, slot, generation });
    }
}

/// A data-less copy of the request.
pub(super) fn hollow(request: &IoRequest) -> IoRequest {
    let len = request.range().len;
    match request {
        IoRequest::Read { offset, .. } => {
            IoRequest::Read { offset: *offset, buffers: [Buf::hollow(len)].into_iter().collect() }
        }
        IoRequest::Write { offset, durability, .. } => IoRequest::Write {
            offset: *offset,
            slices: [Buf::hollow(len).freeze()].into_iter().collect(),
            durability: *durability,
        },
        IoRequest::WriteZeroes { range, may_unmap, durability } => {
            IoRequest::WriteZeroes { range: *range, may_unmap: *may_unmap, durability: *durability }
        }
        IoRequest::Trim { range } => IoRequest::Trim { range: *range },
        IoRequest::Flush => IoRequest::Flush,
        IoRequest::Status { range } => IoRequest::Status { range: *range },
        IoRequest::Health => IoRequest::Health,
        IoRequest::WriteCache { on } => IoRequest::WriteCache { on: *on },
        IoRequest::Locate { on } => IoRequest::Locate { on: *on },
    }
}
