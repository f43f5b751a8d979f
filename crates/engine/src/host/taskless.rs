//! [Direct](crate::host::direct) requests that no task waits for: the completions of their drives
//! carry them on.
//!
//! # Fault model and invariants
//! - A drive calls this code when it returns an operation, possibly long after the deadline and
//!   from any context: no operation starts here. A task continues a request that is not done.
//! - A request counts as a user of its volume until it is acknowledged, exactly once.
//! - Requests to a volume that is reshaping, and writes that restored data may override, take
//!   tasks.
//! - There are as many places as there were requests under way at once: their hosts limit these.
//! - A request under way holds its volume and its receiver, which may hold this: a kill drops it.

use crate::host::Volume;
use crate::host::direct::{Direct, DriveRequest, DriveRequests, Finished, MOST_RUNS, Spare};
use crate::host::volume::Entered;
use platform::{
    Bufs, Durability, IoError, IoErrorKind, IoOutcome, IoRequest, OnReturn, Receiver, Slices,
};
use std::cell::RefCell;
use std::rc::Rc;
use units::ByteRange;

/// A direct request that waits for its drives.
struct UnderWay {
    volume: Rc<Volume>,
    direct: Box<Direct>,
    entered: Entered,
    receiver: Receiver,
}

/// The direct requests of a volume that no task waits for, by their places.
#[derive(Default)]
pub(super) struct Taskless {
    pub(super) spare: Spare,
    under_way: RefCell<Vec<Option<UnderWay>>>,
    free: RefCell<Vec<u32>>,
}

impl Taskless {
    /// See [`Volume::begin`].
    pub(super) fn begin(
        volume: &Rc<Volume>,
        request: IoRequest,
        receiver: Receiver,
    ) -> Option<(IoRequest, Receiver)> {
        match request {
            IoRequest::Read { offset, buffers } if buffers.len() == 1 => {
                let range = ByteRange::new(offset, buffers[0].len());
                match volume.enter_read(range, buffers[0].is_hollow()) {
                    None => Some((IoRequest::Read { offset, buffers }, receiver)),
                    Some((direct, entered)) => {
                        Taskless::begin_read(volume, direct, buffers, entered, receiver);
                        None
                    }
                }
            }
            IoRequest::Write { offset, slices, durability } if slices.len() == 1 => {
                let range = ByteRange::new(offset, slices[0].len());
                match volume.enter_write(range, &slices[0]) {
                    None => Some((IoRequest::Write { offset, slices, durability }, receiver)),
                    Some((mut direct, entered)) => {
                        direct.note_written(&slices[0], durability);
                        Taskless::begin_write(
                            volume, direct, slices, durability, entered, receiver,
                        );
                        None
                    }
                }
            }
            request => Some((request, receiver)),
        }
    }

    fn begin_read(
        volume: &Rc<Volume>,
        mut direct: Box<Direct>,
        mut buffers: Bufs,
        entered: Entered,
        receiver: Receiver,
    ) {
        let only = direct.only_run(volume);
        let requests = match only {
            None => direct.reads(volume, buffers.remove(0)),
            Some(_) => DriveRequests::new(),
        };
        let is_short = direct.is_short();
        let request = UnderWay { volume: volume.clone(), direct, entered, receiver };
        match only {
            Some((member, offset)) => {
                let token = volume.taskless.enter(request) * MOST_RUNS as u32;
                let request = IoRequest::Read { offset, buffers };
                member.start_for(request, is_short, volume.taskless.clone(), token);
            }
            None => volume.taskless.start(request, requests),
        }
    }

    fn begin_write(
        volume: &Rc<Volume>,
        mut direct: Box<Direct>,
        slices: Slices,
        durability: Durability,
        entered: Entered,
        receiver: Receiver,
    ) {
        let only = direct.only_run(volume);
        let requests = match only {
            None => direct.writes(volume),
            Some(_) => DriveRequests::new(),
        };
        let request = UnderWay { volume: volume.clone(), direct, entered, receiver };
        match only {
            Some((member, offset)) => {
                let token = volume.taskless.enter(request) * MOST_RUNS as u32;
                let request = IoRequest::Write { offset, slices, durability };
                member.start_for(request, false, volume.taskless.clone(), token);
            }
            None => volume.taskless.start(request, requests),
        }
    }

    /// Gives a request its place.
    fn enter(&self, request: UnderWay) -> u32 {
        let mut under_way = self.under_way.borrow_mut();
        let place = self.free.borrow_mut().pop().unwrap_or_else(|| {
            under_way.push(None);
            under_way.len() as u32 - 1
        });
        let before = under_way[place as usize].replace(request);
        assert!(before.is_none(), "place {place} is free");
        place
    }

    fn start(self: &Rc<Self>, request: UnderWay, requests: DriveRequests) {
        let is_short = request.direct.is_short();
        let place = self.enter(request);
        // The last one may return, and end the request, before its start returns.
        for (run, DriveRequest { member, request }) in requests.into_iter().enumerate() {
            let token = place * MOST_RUNS as u32 + run as u32;
            member.start_for(request, is_short, self.clone(), token);
        }
    }
}

impl OnReturn for Taskless {
    fn returned(&self, token: u32, outcome: IoOutcome) {
        let (place, run) = (token as usize / MOST_RUNS, token as usize % MOST_RUNS);
        let ended = {
            let under_way = &mut self.under_way.borrow_mut()[place];
            let request = under_way.as_mut().expect("its request is under way");
            let is_last = request.direct.returned(&request.volume, run, outcome);
            is_last.then(|| under_way.take()).flatten()
        };
        let Some(request) = ended else { return };
        self.free.borrow_mut().push(place as u32);
        match request.direct.is_complete(&request.volume) {
            true => request.answer(),
            false => {
                let env = request.volume.shard().env().clone();
                env.spawn("unfinished direct request", request.finish());
            }
        }
    }

    fn forgotten(&self, token: u32) {
        // The first of its operations.
        let request = self.under_way.borrow_mut()[token as usize / MOST_RUNS].take();
        drop(request);
    }
}

impl UnderWay {
    /// Acknowledges a request that is complete.
    fn answer(self) {
        let UnderWay { volume, direct, entered, receiver } = self;
        let len = direct.range().len;
        // Its stripes are free before its host can send the next request.
        let buffers = direct.complete(&volume, &volume.taskless.spare);
        volume.leave(entered, len, &Ok(()));
        receiver.complete(IoOutcome::done(len.0).with_buffers(buffers));
    }

    /// Completes it in a task.
    async fn finish(self) {
        let UnderWay { volume, direct, entered, receiver } = self;
        let (range, written) = (direct.range(), direct.written());
        let (result, buf) = match (direct.finish(&volume).await, written) {
            (Finished::Done(buf), _) => (Ok(()), buf),
            (Finished::Failed(error), _) => (Err(error), None),
            (Finished::ByStripes(buf), None) => {
                let (result, buf) = volume.read_by_stripes(range, buf).await;
                match buf {
                    Some(_) => (result, buf),
                    None => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), buf),
                }
            }
            (Finished::ByStripes(_), Some((data, durability))) => {
                (volume.write_by_stripes(range, data, durability).await, None)
            }
        };
        volume.leave(entered, range.len, &result);
        let outcome = IoOutcome { result: result.map(|()| range.len.0), ..IoOutcome::done(0) };
        receiver.complete(outcome.with_buffers(buf.into_iter().collect()));
    }
}
