//! Drives of which a volume sees a part, with another start offset.

use platform::{Completion, Drive, DriveInfo, DriveSource, Env, IoRequest, Traffic};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteRange};

/// A drive from a certain byte on. Requests about the whole drive go to the whole drive.
pub(super) struct ShiftedSource {
    source: Arc<dyn DriveSource>,
    by: ByteCount,
}

impl ShiftedSource {
    /// `source`, starting at its byte `by`.
    pub(super) fn new(source: Arc<dyn DriveSource>, by: ByteCount) -> ShiftedSource {
        ShiftedSource { source, by }
    }
}

impl DriveSource for ShiftedSource {
    fn info(&self) -> &DriveInfo {
        self.source.info()
    }

    fn odd_bytes(&self) -> ByteCount {
        self.source.odd_bytes()
    }

    fn attach(&self, env: &Env) -> platform::Result<Rc<dyn Drive>> {
        Ok(Rc::new(Shifted { drive: self.source.attach(env)?, by: self.by }))
    }

    fn traffic(&self) -> Option<&Traffic> {
        self.source.traffic()
    }
}

struct Shifted {
    drive: Rc<dyn Drive>,
    by: ByteCount,
}

impl Drive for Shifted {
    fn info(&self) -> &DriveInfo {
        self.drive.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let there = |range: ByteRange| ByteRange::new(range.start + self.by, range.len);
        let request = match request {
            IoRequest::Read { offset, buffers } => {
                IoRequest::Read { offset: offset + self.by, buffers }
            }
            IoRequest::Write { offset, slices, durability } => {
                IoRequest::Write { offset: offset + self.by, slices, durability }
            }
            IoRequest::WriteZeroes { range, may_unmap, durability } => {
                IoRequest::WriteZeroes { range: there(range), may_unmap, durability }
            }
            IoRequest::Trim { range } => IoRequest::Trim { range: there(range) },
            IoRequest::Status { range } => IoRequest::Status { range: there(range) },
            whole @ (IoRequest::Flush
            | IoRequest::Health
            | IoRequest::WriteCache { .. }
            | IoRequest::Locate { .. }) => whole,
        };
        self.drive.start(request, completion);
    }
}
