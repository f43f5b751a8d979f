//! A part of a drive as a drive of its own: a read-only range, or a writable beginning.

use crate::request::{give_back, objection};
use platform::{
    BlockStatus, Completion, Drive, DriveInfo, DriveSource, Env, IoError, IoErrorKind, IoOutcome,
    IoRequest, LocalFuture, Result, StatusExtent, Traffic,
};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteRange};

/// A range of another drive, read-only.
///
/// The range may reach past the drive's end, as in a truncated image: that part cannot be read.
pub struct Window {
    inner: Arc<dyn DriveSource>,
    start: ByteRange,
    unreadable: Arc<[ByteRange]>,
    info: DriveInfo,
}

impl Window {
    /// The window on `range` of `inner`; a partial sector at its end is left out.
    pub fn new(inner: Arc<dyn DriveSource>, range: ByteRange) -> Window {
        let inside = inner.info();
        let size = range.len.align_down(inside.logical_sector.bytes());
        let info = DriveInfo { size, read_only: true, ..inside.clone() };
        Window { inner, start: ByteRange::new(range.start, size), unreadable: Arc::default(), info }
    }

    /// The same window with unreadable ranges: ranges of `inner`, ascending and without overlaps.
    pub fn without(self, unreadable: &[ByteRange]) -> Window {
        Window { unreadable: unreadable.into(), ..self }
    }
}

impl DriveSource for Window {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        let inner = self.inner.attach(env)?;
        let unreadable = self.unreadable.clone();
        Ok(Rc::new(Attached { inner, range: self.start, unreadable, info: self.info.clone() }))
    }

    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        self.inner.look()
    }
}

struct Attached {
    inner: Rc<dyn Drive>,
    range: ByteRange,
    unreadable: Arc<[ByteRange]>,
    info: DriveInfo,
}

impl Attached {
    /// Whether a range lies on the drive and has no unreadable part.
    fn is_readable(&self, range: ByteRange) -> bool {
        let behind = self.unreadable.partition_point(|bad| bad.end() <= range.start);
        let is_bad = self.unreadable.get(behind).is_some_and(|bad| bad.overlaps(range));
        !is_bad && range.end().0 <= self.inner.info().size.0
    }
}

impl Drive for Attached {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let range = request.range();
        let is_inside =
            range.start.checked_add(range.len).is_some_and(|end| end.0 <= self.info.size.0);
        if !is_inside {
            return give_back(request, completion, Err(IoError::new(IoErrorKind::Invalid)));
        }
        match request {
            IoRequest::Read { offset, buffers } => {
                let offset = self.range.start.checked_add(offset - units::ByteOffset(0));
                let end = offset.and_then(|offset| offset.checked_add(range.len));
                match (offset, end) {
                    (Some(offset), Some(end))
                        if self.is_readable(ByteRange::from_to(offset, end)) =>
                    {
                        self.inner.start(IoRequest::Read { offset, buffers }, completion);
                    }
                    _ => {
                        let error = IoError::new(IoErrorKind::Medium);
                        completion.complete(IoOutcome::failed(error).with_buffers(buffers));
                    }
                }
            }
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } | IoRequest::Trim { .. } => {
                give_back(request, completion, Err(IoError::new(IoErrorKind::ReadOnly)));
            }
            // A read-only drive has nothing to flush.
            IoRequest::Flush => give_back(request, completion, Ok(0)),
            IoRequest::Status { range } => {
                let mut outcome = IoOutcome::done(range.len.0);
                outcome.extents = vec![StatusExtent { len: range.len, status: BlockStatus::Data }];
                completion.complete(outcome);
            }
            IoRequest::Health | IoRequest::Locate { .. } | IoRequest::WriteCache { .. } => {
                self.inner.start(request, completion)
            }
        }
    }
}

/// The beginning of another drive, used as a whole drive; the rest of that drive is not touched.
pub struct Beginning {
    inner: Arc<dyn DriveSource>,
    info: DriveInfo,
}

impl Beginning {
    /// The first `size` bytes of `inner`, rounded down to whole sectors.
    pub fn new(inner: Arc<dyn DriveSource>, size: ByteCount) -> Beginning {
        let whole = inner.info();
        let size = size.min(whole.size).align_down(whole.logical_sector.bytes());
        let info = DriveInfo { size, ..whole.clone() };
        Beginning { inner, info }
    }
}

impl DriveSource for Beginning {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        Ok(Rc::new(AttachedBeginning { inner: self.inner.attach(env)?, info: self.info.clone() }))
    }

    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        self.inner.look()
    }

    fn traffic(&self) -> Option<&Traffic> {
        self.inner.traffic()
    }
}

struct AttachedBeginning {
    inner: Rc<dyn Drive>,
    info: DriveInfo,
}

impl Drive for AttachedBeginning {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        match objection(&self.info, &request) {
            Some(kind) => give_back(request, completion, Err(IoError::new(kind))),
            None => self.inner.start(request, completion),
        }
    }
}
