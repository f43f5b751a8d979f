//! A drive whose operations take the time that somebody else says, as a model of a disk does.

use super::DriveCell;
use crate::core::{Action, SimHandle};
use platform::{Buf, IoRequest};
use std::rc::Rc;
use std::time::Duration;

/// Says how long the operations of a drive take, in place of the latency of its options. What they do, and whether they fail, the drive
/// itself decides: see [`SimDrive::pace_by`](super::SimDrive::pace_by).
pub trait Pacer {
    /// An operation reaches the drive, with buffers that have a length and no bytes. The drive returns it when `paced` ends, which must
    /// not be before this returns.
    fn begin(&self, request: IoRequest, paced: Paced);
}

/// An operation of a drive whose time a [`Pacer`] says.
pub struct Paced {
    drive: Rc<DriveCell>,
    /// The drive's slot, and which of the operations that had it.
    slot: (u32, u32),
    /// How much longer it takes, as a test has ordered.
    longer: Duration,
}

impl Paced {
    pub(super) fn new(drive: &Rc<DriveCell>, slot: (u32, u32), longer: Duration) -> Paced {
        Paced { drive: drive.clone(), slot, longer }
    }

    /// The drive returns the operation, if it still has it: not after a kill or a power cut.
    pub fn end(self, sim: &SimHandle) {
        let Paced { drive, slot: (slot, generation), longer } = self;
        sim.core.schedule(longer, Action::Drive { drive, slot, generation });
    }
}

/// The request without its bytes.
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
