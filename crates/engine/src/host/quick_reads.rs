//! Reads of a volume as a drive that need no task: those on the fast path.
//!
//! # Fault model and invariants
//! - A drive calls this code when it returns a read, possibly long after the deadline and from any
//!   context: no operation starts here. A task retries a failed read on plans.
//! - A read counts as a user of its volume until it is acknowledged, exactly once.
//! - Reads of a volume that tracks read streams, or is reshaping, need a task.

use crate::host::fast_path::{Spot, spot_to_read, was_lost};
use crate::host::{Volume, VolumeService};
use crate::members::User;
use platform::{
    Buf, Completion, Drive, DriveInfo, IoError, IoErrorKind, IoOutcome, IoRequest, OnReturn,
    Operation, Runners, Served, Timed,
};
use std::cell::RefCell;
use std::rc::Rc;
use units::ByteRange;

/// The most requests in progress to a volume as a drive: with a task each, or as reads without one.
const MOST_REQUESTS: usize = 512;

/// A volume, as this shard serves it, behind the interface of a drive.
pub struct VolumeDrive {
    served: Served<VolumeService>,
    quick: Rc<QuickReads>,
}

impl VolumeDrive {
    pub(super) fn new(service: VolumeService) -> VolumeDrive {
        let volume = service.volume().clone();
        let env = volume.shard().env().clone();
        VolumeDrive {
            served: Served::new(&env, service, MOST_REQUESTS),
            quick: QuickReads::new(volume),
        }
    }
}

impl Drive for VolumeDrive {
    fn info(&self) -> &DriveInfo {
        self.served.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        match self.quick.enter(&request) {
            Some(entered) => self.quick.begin(entered, request, completion),
            None => self.served.start(request, completion),
        }
    }
}

/// A read on the fast path.
struct Entered {
    range: ByteRange,
    spot: Spot,
    user: User,
    timed: Option<Timed>,
}

/// A read that waits for its drive.
struct UnderWay {
    range: ByteRange,
    spot: Spot,
    /// Ends its count as a user when the read is acknowledged.
    user: User,
    timed: Option<Timed>,
    completion: Completion,
}

/// A read that failed on the fast path. Without a buffer: its drive kept that.
struct Failed {
    read: UnderWay,
    error: Option<IoError>,
    buf: Option<Buf>,
}

/// The reads of one volume that wait for their drives without a task, by their tokens.
struct QuickReads {
    volume: Rc<Volume>,
    under_way: RefCell<Vec<Option<UnderWay>>>,
    free: RefCell<Vec<u32>>,
    failed: Runners<Failed>,
}

impl QuickReads {
    fn new(volume: Rc<Volume>) -> Rc<QuickReads> {
        let failed =
            Runners::new(volume.shard().env(), "read of a volume as a drive", MOST_REQUESTS);
        let asked = volume.clone();
        failed.run(async move |failed: Failed| read_by_plan(&asked, failed).await);
        let under_way = std::iter::repeat_with(|| None).take(MOST_REQUESTS).collect();
        let free = (0..MOST_REQUESTS as u32).rev().collect();
        Rc::new(QuickReads {
            volume,
            under_way: RefCell::new(under_way),
            free: RefCell::new(free),
            failed,
        })
    }

    /// Enters the volume with a request for the fast path. No effect if it returns `None`.
    fn enter(&self, request: &IoRequest) -> Option<Entered> {
        let IoRequest::Read { offset, buffers } = request else { return None };
        let [buf] = &buffers[..] else { return None };
        let (volume, range) = (&self.volume, ByteRange::new(*offset, buf.len()));
        if !volume.is_quick_read(range) || self.free.borrow().is_empty() {
            return None;
        }
        let spot = spot_to_read(volume, range)?;
        let user = volume.enter().ok()?;
        let timed = volume.note_request(Operation::Read);
        Some(Entered { range, spot, user, timed })
    }

    fn begin(self: &Rc<Self>, entered: Entered, request: IoRequest, completion: Completion) {
        let Entered { range, spot, user, timed } = entered;
        let IoRequest::Read { buffers, .. } = request else { unreachable!("only reads enter") };
        let token = self.free.borrow_mut().pop().expect("a token is free");
        let (member, offset) = (spot.member.clone(), spot.offset);
        let is_short = self.volume.is_had_elsewhere(spot.drive);
        let read = UnderWay { range, spot, user, timed, completion };
        let before = self.under_way.borrow_mut()[token as usize].replace(read);
        assert!(before.is_none(), "token {token} is free");
        member.start_for(IoRequest::Read { offset, buffers }, is_short, self.clone(), token);
    }
}

impl OnReturn for QuickReads {
    fn returned(&self, token: u32, mut outcome: IoOutcome) {
        let read = self.under_way.borrow_mut()[token as usize].take().expect("a read ends once");
        self.free.borrow_mut().push(token);
        let is_good = outcome.result.is_ok() && outcome.buffers.len() == 1;
        if !is_good || was_lost(&self.volume, read.range) {
            let error = outcome.result.err();
            return self.failed.give(Failed { read, error, buf: outcome.buffers.pop() });
        }
        self.volume.count(|counters| counters.fast_path += 1);
        read.answer(&self.volume, Ok(()), outcome);
    }
}

impl UnderWay {
    /// Acknowledges it with `outcome`; its own result is `result`.
    fn answer(self, volume: &Volume, result: Result<(), IoError>, outcome: IoOutcome) {
        let UnderWay { range, user, timed, completion, .. } = self;
        volume.note_end(timed, range.len, &result);
        drop(user);
        completion.complete(IoOutcome { result: result.map(|()| range.len.0), ..outcome });
    }
}

async fn read_by_plan(volume: &Rc<Volume>, Failed { read, error, buf }: Failed) {
    let range = read.range;
    if let Some(error) = error {
        read.spot.failed(volume, error, "read");
    }
    let (result, buf) = volume.read_by_stripes(range, buf).await;
    let result = match buf {
        Some(_) => result,
        None => result.and(Err(IoError::new(IoErrorKind::TimedOut))),
    };
    let buffers = buf.into_iter().collect();
    read.answer(volume, result, IoOutcome::done(0).with_buffers(buffers));
}
