//! Drives on files and block devices, and the start of their requests.
//!
//! They use direct I/O if the file system supports it. A file drive stays preallocated, because a
//! full file system must never fail a drive: zeroing and trimming both convert the range to
//! *unwritten* extents (`FALLOC_FL_ZERO_RANGE`), which read as zeros and keep their space. A block
//! device really unmaps.

use crate::behind::{BackingDevice, DeviceCommand};
use crate::errno::drive_error;
use crate::op::Op;
use crate::ring::Ring;
use crate::shard::ring_of;
use crate::transfer::{Transfer, Work, is_solid};
use io_uring::{squeue, types};
use platform::{
    BlockStatus, Buf, Completion, Drive, DriveInfo, DriveKind, DriveSource, Env, IoError,
    IoErrorKind, IoOutcome, IoRequest, LocalFuture, Result, StatusExtent,
};
use rustix::fs::SeekFrom;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteRange};

const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | KEEP;
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
/// A plain discard, on kernels that still have it (before about 6.9).
const DISCARD: i32 = PUNCH_HOLE | 0x04; // FALLOC_FL_NO_HIDE_STALE in linux/falloc.h

/// The maximum number of extents per status request; the rest of its range counts as data.
const STATUS_RUNS: usize = 4096;

/// An open file or block device, locked against other controllers. Shared by its attachments.
pub(crate) struct OpenDrive {
    pub(crate) fd: OwnedFd,
    pub(crate) info: DriveInfo,
    /// Bytes of the file after the last whole sector.
    pub(crate) odd_bytes: ByteCount,
    /// The alignment of memory addresses and lengths for direct I/O; `None` if the file system does
    /// not support direct I/O and the page cache is used.
    pub(crate) memory_alignment: Option<u32>,
    pub(crate) behind: BackingDevice,
}

/// The drive source that [`platform::World::open_drive`] returns.
pub(crate) struct FileDrive {
    pub(crate) open: Arc<OpenDrive>,
}

impl DriveSource for FileDrive {
    fn info(&self) -> &DriveInfo {
        &self.open.info
    }

    fn odd_bytes(&self) -> ByteCount {
        self.open.odd_bytes
    }

    fn look<'a>(&'a self) -> LocalFuture<'a, std::result::Result<(), IoError>> {
        Box::pin(async move {
            match self.open.clone().ask(DeviceCommand::CheckPath).await.result {
                // No thread is available for the check.
                Err(error) if error.kind == IoErrorKind::NotSupported => Ok(()),
                result => result.map(|_| ()),
            }
        })
    }

    fn attach(&self, env: &Env) -> Result<Rc<dyn Drive>> {
        let ring = ring_of(env)?;
        let registered = ring.register_file(self.open.fd.as_raw_fd());
        let attachment = Attachment { open: self.open.clone(), ring, registered };
        Ok(Rc::new(AttachedDrive { attachment: Rc::new(attachment), env: env.clone() }))
    }
}

/// A drive attached to one shard's ring. Lives as long as an operation on it is in flight.
pub(crate) struct Attachment {
    open: Arc<OpenDrive>,
    ring: Rc<Ring>,
    registered: Option<u32>,
}

impl Attachment {
    /// The file of a ring entry, with its flag.
    pub(crate) fn target(&self) -> (types::Fd, squeue::Flags) {
        match self.registered {
            Some(index) => (types::Fd(index as i32), squeue::Flags::FIXED_FILE),
            None => (types::Fd(self.open.fd.as_raw_fd()), squeue::Flags::empty()),
        }
    }

    /// See [`OpenDrive::memory_alignment`].
    pub(crate) fn memory_alignment(&self) -> Option<u32> {
        self.open.memory_alignment
    }

    /// The logical sector in bytes.
    pub(crate) fn sector(&self) -> u64 {
        self.open.info.logical_sector.bytes().0
    }

    /// See [`OpenDrive::is_cut`].
    pub(crate) fn is_cut(&self) -> Option<IoErrorKind> {
        self.open.is_cut()
    }

    /// Memory with the alignment for direct I/O.
    pub(crate) fn aligned_memory(&self, len: ByteCount) -> Buf {
        self.ring.pool().take(len).unwrap_or_else(|| Buf::unpooled(len))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some(index) = self.registered {
            self.ring.unregister_file(index);
        }
    }
}

struct AttachedDrive {
    attachment: Rc<Attachment>,
    env: Env,
}

impl Drive for AttachedDrive {
    fn info(&self) -> &DriveInfo {
        &self.attachment.open.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let info = self.info();
        let file = info.kind == DriveKind::File;
        let mut range = request.range();
        let work = match request {
            IoRequest::Read { buffers, .. } => Work::Read(buffers),
            IoRequest::Write { slices, durability, .. } => Work::Write(slices, durability),
            IoRequest::WriteZeroes { may_unmap, durability, .. } => {
                let ways: &[i32] =
                    if may_unmap && !file { &[PUNCH_HOLE, ZERO_RANGE] } else { &[ZERO_RANGE] };
                Work::Zero { ways, durability }
            }
            IoRequest::Trim { .. } => {
                Work::Trim { ways: if file { &[ZERO_RANGE] } else { &[DISCARD, PUNCH_HOLE] } }
            }
            IoRequest::Flush => {
                range = ByteRange::default();
                Work::Sync
            }
            IoRequest::Status { range } => return completion.complete(self.status(range)),
            IoRequest::Health => return self.ask(DeviceCommand::Health, completion),
            IoRequest::Locate { on } => return self.ask(DeviceCommand::Locate(on), completion),
            IoRequest::WriteCache { on } => {
                return self.ask(DeviceCommand::WriteCache(on), completion);
            }
        };
        if let Some(kind) = self.objection(&work, range) {
            return complete_unmoved(completion, work, Err(IoError::new(kind)));
        }
        if range.is_empty() && !matches!(work, Work::Sync) {
            return complete_unmoved(completion, work, Ok(0));
        }
        let drive = self.attachment.clone();
        let transfer = Transfer::new(completion, drive, work, range.start.0, range.len.0);
        self.attachment.ring.start(Op::Drive(transfer));
    }
}

fn complete_unmoved(completion: Completion, work: Work, result: std::result::Result<u64, IoError>) {
    let buffers = match work {
        Work::Read(buffers) => buffers,
        _ => smallvec::SmallVec::new(),
    };
    completion.complete(IoOutcome { result, buffers, ..IoOutcome::done(0) });
}

impl AttachedDrive {
    /// Sends a command to the device behind the drive, on another thread.
    fn ask(&self, command: DeviceCommand, completion: Completion) {
        let open = self.attachment.open.clone();
        match open.behind.known(command) {
            Some(outcome) => completion.complete(outcome),
            None => {
                self.env.spawn("drive command", async move {
                    completion.complete(open.ask(command).await)
                });
            }
        }
    }

    /// Checks a request before it reaches the kernel, so that a wrong request is not taken for a
    /// fault.
    fn objection(&self, work: &Work, range: ByteRange) -> Option<IoErrorKind> {
        let info = self.info();
        let writes = matches!(work, Work::Write(..) | Work::Zero { .. } | Work::Trim { .. });
        if writes && info.read_only {
            return Some(IoErrorKind::ReadOnly);
        }
        let inside = self.is_inside(range);
        let whole = range.is_aligned(info.logical_sector.bytes());
        if !inside || !whole || !is_solid(work) {
            return Some(IoErrorKind::Invalid);
        }
        let is_cut =
            || info.kind == DriveKind::File && self.attachment.open.ends_before(range.end());
        (writes && is_cut()).then_some(IoErrorKind::Changed)
    }

    fn is_inside(&self, range: ByteRange) -> bool {
        let end = range.start.checked_add(range.len);
        end.is_some_and(|end| end.0 <= self.info().size.0)
    }

    /// The allocation status of a range. The file system answers from memory or by reading its
    /// extents, which is fast enough to do here.
    fn status(&self, range: ByteRange) -> IoOutcome {
        if !self.is_inside(range) {
            return IoOutcome::failed(IoError::new(IoErrorKind::Invalid));
        }
        let mut outcome = IoOutcome::done(range.len.0);
        let runs = if self.info().kind == DriveKind::File { STATUS_RUNS } else { 0 };
        match self.walk(range, runs) {
            Ok(extents) => outcome.extents = extents,
            Err(error) => return IoOutcome::failed(drive_error(error.raw_os_error())),
        }
        outcome
    }

    /// A hole of a file drive counts as allocated zeros: the file system does not report whether
    /// its space is reserved.
    fn walk(&self, range: ByteRange, most: usize) -> rustix::io::Result<Vec<StatusExtent>> {
        let (mut at, end) = (range.start.0, range.end().0);
        let mut extents: Vec<StatusExtent> = Vec::new();
        let mut add = |at: &mut u64, to: u64, status| {
            if to > *at {
                extents.push(StatusExtent { len: ByteCount(to - *at), status });
                *at = to;
            }
        };
        let mut runs = 0;
        while at < end && runs < most {
            let data = match rustix::fs::seek(&self.attachment.open.fd, SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, end),
                // No data from here to the end of the file.
                Err(rustix::io::Errno::NXIO) => end,
                // The file system does not support the query.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => break,
                Err(error) => return Err(error),
            };
            add(&mut at, data, BlockStatus::Zero);
            if at < end {
                let hole = rustix::fs::seek(&self.attachment.open.fd, SeekFrom::Hole(at))?;
                let hole = hole.clamp(at, end);
                add(&mut at, hole, BlockStatus::Data);
            }
            runs += 2;
        }
        add(&mut at, end, BlockStatus::Data);
        Ok(extents)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::op::Step;
    use crate::shard::{Settings, Shard};
    use platform::{Durability, IoRequest, Member};
    use smallvec::smallvec;
    use std::cell::RefCell;
    use std::future::Future;
    use std::time::Duration;

    /// HoldingDrive the completions of its requests.
    struct HoldingDrive(DriveInfo, RefCell<Option<Completion>>);

    impl Drive for HoldingDrive {
        fn info(&self) -> &DriveInfo {
            &self.0
        }

        fn start(&self, _: IoRequest, completion: Completion) {
            self.1.replace(Some(completion));
        }
    }

    fn on_a_shard<F: Future<Output = ()> + 'static>(body: impl FnOnce(Env) -> F) {
        let shard = Shard::new(&Settings::with_memory(ByteCount(1 << 20))).expect("io_uring");
        let body = body(shard.env().clone());
        shard.run(body);
    }

    /// A drive full of zeros.
    fn attachment(env: &Env, memory_alignment: Option<u32>) -> Rc<Attachment> {
        let name = format!("zeros-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [0; 4096]).expect("a file");
        let open =
            crate::open::open_drive(path.to_str().expect("text"), crate::open::Access::Writing);
        std::fs::remove_file(&path).expect("it was made");
        let open = Arc::new(OpenDrive { memory_alignment, ..open.expect("a drive") });
        Rc::new(Attachment { open, ring: ring_of(env).expect("a ring"), registered: None })
    }

    /// A transfer of `work` with this time limit, and its waiter.
    fn transfer(
        env: &Env,
        drive: &Rc<Attachment>,
        work: Work,
        limit: Duration,
    ) -> (Transfer, platform::Io) {
        let keeps = Rc::new(HoldingDrive(drive.open.info.clone(), RefCell::default()));
        let member = Member::with_time_limit(env, keeps.clone(), limit);
        let waits = member.flush();
        let completion = keeps.1.take().expect("it was asked");
        (Transfer::new(completion, drive.clone(), work, 0, 4096), waits)
    }

    fn read() -> Work {
        Work::Read(smallvec![Buf::unpooled(ByteCount(4096))])
    }

    /// A read from a drive full of zeros, not yet started by a ring, and its waiter.
    pub(crate) fn read_of_zeros(env: &Env) -> (Op, platform::Io) {
        let drive = attachment(env, None);
        let (transfer, waits) = transfer(env, &drive, read(), Duration::from_secs(600));
        (Op::Drive(transfer), waits)
    }

    /// ENOMEM counted as a medium error, and EAGAIN was repeated at once, again and again.
    #[test]
    fn what_the_system_cannot_do_for_now_is_asked_for_again_after_pauses_that_grow() {
        on_a_shard(|env| async move {
            let (drive, limit) = (attachment(&env, None), Duration::from_secs(30));
            for errno in
                [libc::ENOMEM, libc::EBUSY, libc::EAGAIN, libc::ENOBUFS, libc::EMFILE, libc::ENFILE]
            {
                let (mut transfer, waits) = transfer(&env, &drive, read(), limit);
                let mut pauses = Vec::new();
                for _ in 0..2 {
                    let Step::AgainAfter(pause) = transfer.returned(-errno) else {
                        panic!("{errno}: no pause")
                    };
                    pauses.push(pause);
                }
                assert!(pauses[0] > Duration::ZERO && pauses[1] == pauses[0] * 2, "{pauses:?}");
                assert!(
                    matches!(transfer.returned(-libc::EINTR), Step::Again),
                    "an interruption is repeated at once"
                );
                assert!(matches!(transfer.returned(4096), Step::Done(Ok(4096))));
                transfer.finish(Ok(4096));
                assert_eq!(waits.await.result, Ok(4096));
            }
        });
    }

    /// The pauses must leave the drive its time: it must not be blamed for refusals of the system.
    #[test]
    fn what_is_refused_for_half_of_its_time_is_busy_and_not_late() {
        on_a_shard(|env| async move {
            let (drive, limit) = (attachment(&env, None), Duration::from_secs(1));
            let (mut transfer, waits) = transfer(&env, &drive, read(), limit);
            let mut paused = Duration::ZERO;
            let result = loop {
                match transfer.returned(-libc::ENOMEM) {
                    Step::AgainAfter(pause) => {
                        paused += pause;
                        env.sleep(pause).await;
                    }
                    Step::Done(result) => break result,
                    Step::Again => panic!("at once"),
                }
            };
            let error = result.expect_err("it was refused each time");
            assert_eq!((error.kind, error.errno), (IoErrorKind::Busy, libc::ENOMEM));
            assert!(paused > Duration::ZERO && paused <= limit / 2, "{paused:?}");
            transfer.finish(Err(error));
            assert_eq!(waits.await.result, Err(error));
        });
    }

    /// The page cache reports a failed write-back once, by any error number. A repetition succeeds,
    /// and acknowledged data is lost.
    #[test]
    fn a_flush_of_the_page_cache_is_not_asked_for_again() {
        on_a_shard(|env| async move {
            let limit = Duration::from_secs(30);
            for (alignment, is_again) in [(None, false), (Some(512), true)] {
                let drive = attachment(&env, alignment);
                let durable = Work::Write(
                    smallvec![platform::Slice::zero(ByteCount(4096))],
                    Durability::Durable,
                );
                for work in [Work::Sync, durable] {
                    let (mut transfer, waits) = transfer(&env, &drive, work, limit);
                    let step = transfer.returned(-libc::ENOMEM);
                    assert_eq!(matches!(step, Step::AgainAfter(_)), is_again);
                    if let Step::Done(result) = step {
                        assert_eq!(result.map_err(|error| error.kind), Err(IoErrorKind::Unknown));
                    }
                    transfer.finish(Ok(0));
                    waits.await.result.expect("it was finished");
                }
            }
        });
    }
}
