//! `null:SIZE`: completes immediately, reads zeroes, discards writes; for measuring everything
//! else.
//!
//! A read fills its buffers with zeroes; unfilled buffers would leak old memory content to a host.
//! The cost is about 30 ns for 4 KiB in the processor's cache. Data-less buffers cost nothing.

use crate::request::{give_back, objection};
use platform::{
    BlockStatus, Completion, Drive, DriveHealth, DriveIdentity, DriveInfo, DriveKind, DriveSource,
    Env, IoError, IoErrorKind, IoOutcome, IoRequest, Result, StatusExtent,
};
use std::rc::Rc;
use units::{ByteCount, SectorSize};

/// A null drive.
pub struct NullDrive {
    info: DriveInfo,
}

impl NullDrive {
    /// A drive of `size`, whole sectors of 512 bytes.
    pub fn new(name: &str, identity: DriveIdentity, size: ByteCount) -> NullDrive {
        let sector = SectorSize::B512;
        let info = DriveInfo {
            name: name.to_owned(),
            identity,
            kind: DriveKind::Null,
            size: size.align_down(sector.bytes()),
            logical_sector: sector,
            physical_sector: sector,
            rotational: false,
            read_only: false,
            exclusive: true,
            hardware: platform::Hardware::default(),
        };
        NullDrive { info }
    }
}

impl DriveSource for NullDrive {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn attach(&self, _: &Env) -> Result<Rc<dyn Drive>> {
        Ok(Rc::new(Attached { info: self.info.clone() }))
    }
}

struct Attached {
    info: DriveInfo,
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, mut request: IoRequest, completion: Completion) {
        if let Some(kind) = objection(&self.info, &request) {
            return give_back(request, completion, Err(IoError::new(kind)));
        }
        let len = request.range().len;
        match &mut request {
            IoRequest::Read { buffers, .. } => {
                buffers.iter_mut().for_each(|buf| buf.bytes_mut().fill(0))
            }
            IoRequest::Status { .. } => {
                let mut outcome = IoOutcome::done(len.0);
                outcome.extents = vec![StatusExtent { len, status: BlockStatus::Hole }];
                return completion.complete(outcome);
            }
            IoRequest::Health => {
                return completion.complete(IoOutcome::with_health(DriveHealth::default()));
            }
            IoRequest::Locate { .. } | IoRequest::WriteCache { .. } => {
                return completion
                    .complete(IoOutcome::failed(IoError::new(IoErrorKind::NotSupported)));
            }
            _ => {}
        }
        give_back(request, completion, Ok(len.0));
    }
}
