//! Requests that no task waits for, [direct](crate::host::direct) or
//! [to a stripe](crate::host::stripe_write): the completions of their drives carry them on.
//!
//! # Fault model and invariants
//! - A drive calls this code when it returns an operation, possibly long after the deadline and
//!   from any context: no operation starts here. A request that needs further operations is
//!   continued by its starter, if that is still starting operations, else by a task. So is one
//!   whose record is written.
//! - A request counts as a user of its volume until it is acknowledged, exactly once.
//! - Requests to a volume that is reshaping, and writes that restored data may override, take
//!   tasks.
//! - There are as many places as there were requests under way at once: their hosts limit these.
//! - A request under way holds its volume and its receiver, which may hold this: a kill drops it.

use crate::host::Volume;
use crate::host::direct::{self, Direct, Finished};
use crate::host::state::{Begun, Entered, Taskless, UnderWay};
use crate::host::stripe_write::StripeWrite;
use crate::stripe::{DriveRequest, DriveRequests, MOST_OPS, Recorded, StripeOp};
use platform::{Bufs, IoError, IoErrorKind, IoOutcome, IoRequest, OnReturn, Receiver};
use std::collections::VecDeque;
use std::rc::Rc;
use units::{ByteCount, ByteRange};

/// The most operations of a request under way at a time: their numbers are in its tokens.
const MOST: usize = if MOST_OPS > direct::MOST_RUNS { MOST_OPS } else { direct::MOST_RUNS };

/// What to do after a drive has returned an operation.
enum Next {
    /// The request is complete, or has failed.
    End(UnderWay),
    /// The request needs further operations.
    Continue,
    /// Other operations have not returned, or the starter continues the request.
    Nothing,
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
                        let request = IoRequest::Read { offset, buffers };
                        Taskless::begin_direct(volume, direct, request, entered, receiver);
                        None
                    }
                }
            }
            IoRequest::Write { offset, slices, durability } if slices.len() == 1 => {
                let range = ByteRange::new(offset, slices[0].len());
                match volume.enter_write(range, &slices[0], durability) {
                    None => Some((IoRequest::Write { offset, slices, durability }, receiver)),
                    Some((Begun::Direct(mut direct), entered)) => {
                        direct.note_written(&slices[0], durability);
                        let request = IoRequest::Write { offset, slices, durability };
                        Taskless::begin_direct(volume, direct, request, entered, receiver);
                        None
                    }
                    Some((Begun::Stripe(write), entered)) => {
                        Taskless::begin_stripe(volume, write, Some(entered), receiver);
                        None
                    }
                }
            }
            request => Some((request, receiver)),
        }
    }

    /// Begins a direct request.
    fn begin_direct(
        volume: &Rc<Volume>,
        mut direct: Box<Direct>,
        mut request: IoRequest,
        entered: Entered,
        receiver: Receiver,
    ) {
        if let Some((member, at)) = direct.only_run(volume) {
            // The request itself, at its place on the drive.
            if let IoRequest::Read { offset, .. } | IoRequest::Write { offset, .. } = &mut request {
                *offset = at;
            }
            let is_short = direct.is_short();
            let under_way = UnderWay::direct(volume, direct, entered, receiver);
            let token = volume.taskless.enter(under_way) * MOST as u32;
            member.start_for(request, is_short, volume.taskless.clone(), token);
            return;
        }
        let mut requests = match request {
            IoRequest::Read { mut buffers, .. } => direct.reads(volume, buffers.remove(0)),
            _ => direct.writes(volume),
        };
        let place = volume.taskless.enter(UnderWay::direct(volume, direct, entered, receiver));
        volume.taskless.start(place, &mut requests);
    }

    /// Begins a write to a stripe. `entered`: unless the caller has entered the volume.
    pub(super) fn begin_stripe(
        volume: &Rc<Volume>,
        mut write: Box<StripeWrite>,
        entered: Option<Entered>,
        receiver: Receiver,
    ) {
        let mut reads = DriveRequests::new();
        let is_begun = write.op.reads(volume, &mut reads).is_some();
        let begun = Begun::Stripe(write);
        let request =
            UnderWay { volume: volume.clone(), begun, entered, receiver, is_starting: true };
        let taskless = &volume.taskless;
        let place = taskless.enter(request);
        match is_begun {
            true => {
                taskless.start(place, &mut reads);
                taskless.started(volume, place);
            }
            false => taskless.finish(place),
        }
    }

    /// The operations of a request's step have been started: continues it if all have returned.
    fn started(self: &Rc<Self>, volume: &Rc<Volume>, place: u32) {
        let is_idle = {
            let request = &mut self.under_way.borrow_mut()[place as usize];
            request.is_starting = false;
            request.write().op.is_idle()
        };
        if is_idle {
            self.go_on(volume, place);
        }
    }

    /// What `act` returns for the operation of a write to a stripe.
    fn with_op<T>(&self, place: u32, act: impl FnOnce(&mut StripeOp) -> T) -> T {
        act(&mut self.under_way.borrow_mut()[place as usize].write().op)
    }

    /// Continues a write to a stripe whose reads have returned, or whose record is written.
    fn go_on(self: &Rc<Self>, volume: &Rc<Volume>, place: u32) {
        if self.with_op(place, |op| op.is_recorded()) {
            return self.start_writes(volume, place);
        }
        match self.with_op(place, |op| op.has_read().then(|| op.compute(volume))) {
            None => self.finish(place),
            Some(time) if time.is_zero() => self.record(volume, place),
            Some(time) => {
                let (env, volume) = (volume.shard().env().clone(), volume.clone());
                let (taskless, places) = (self.clone(), [place].into());
                let mut waiting = Waiting { taskless, places, with_queue: false };
                env.clone().spawn("compute redundancy", async move {
                    env.sleep(time).await;
                    waiting.places.clear();
                    waiting.taskless.record(&volume, place);
                });
            }
        }
    }

    /// Begins the record of a write to a stripe, or its writes if it needs none.
    fn record(self: &Rc<Self>, volume: &Rc<Volume>, place: u32) {
        let tell = || Receiver::OnReturn(self.clone(), place * MOST as u32);
        match self.with_op(place, |op| op.record(volume, tell)) {
            Recorded::Kept => self.start_writes(volume, place),
            Recorded::Later => {}
            Recorded::Not => self.finish(place),
        }
    }

    fn start_writes(self: &Rc<Self>, volume: &Rc<Volume>, place: u32) {
        let mut writes = DriveRequests::new();
        match self.with_op(place, |op| op.writes(volume, &mut writes).is_some()) {
            true => self.start(place, &mut writes),
            false => self.finish(place),
        }
    }

    /// Gives a request its place.
    fn enter(&self, request: UnderWay) -> u32 {
        self.under_way.borrow_mut().insert(request) as u32
    }

    /// Takes a request out of its place.
    fn take(&self, place: u32) -> UnderWay {
        self.under_way.borrow_mut().remove(place as usize)
    }

    /// Starts operations. The last one may return, and end the request, before its start returns.
    fn start(self: &Rc<Self>, place: u32, requests: &mut DriveRequests) {
        let first = place * MOST as u32;
        for (token, DriveRequest { member, request, is_short }) in (first..).zip(requests.drain(..))
        {
            member.start_for(request, is_short, self.clone(), token);
        }
    }

    /// Finishes a request that is not complete, in a task.
    fn finish(&self, place: u32) {
        self.take(place).finish_in_task();
    }

    /// An operation of a request has returned.
    fn note(&self, place: u32, number: usize, outcome: IoOutcome) -> Next {
        let mut under_way = self.under_way.borrow_mut();
        let request = &mut under_way[place as usize];
        let (is_last, ends) = match &mut request.begun {
            Begun::Direct(direct) => (direct.returned(&request.volume, number, outcome), true),
            Begun::Stripe(write) => {
                let is_last = write.op.returned(&request.volume, number, outcome);
                (is_last, write.op.is_writing())
            }
        };
        match (is_last, ends) {
            (true, true) => Next::End(under_way.remove(place as usize)),
            (true, false) if !request.is_starting => Next::Continue,
            _ => Next::Nothing,
        }
    }

    /// A request needs further operations: a task starts them, for all such requests.
    fn continue_later(&self, place: u32) {
        let mut waiting = self.waiting.borrow_mut();
        if let Some(waiting) = &mut *waiting {
            waiting.push_back(place);
            return;
        }
        *waiting = Some([place].into());
        let under_way = self.under_way.borrow();
        let volume = under_way[place as usize].volume.clone();
        let env = volume.shard().env().clone();
        let (taskless, places) = (volume.taskless.clone(), VecDeque::new());
        let held = Waiting { taskless, places, with_queue: true };
        env.spawn("continue writes to stripes", Taskless::run_waiting(volume, held));
    }

    async fn run_waiting(volume: Rc<Volume>, mut held: Waiting) {
        let taskless = volume.taskless.clone();
        let env = volume.shard().env().clone();
        loop {
            if held.places.is_empty() {
                let mut waiting = taskless.waiting.borrow_mut();
                held.places = std::mem::take(waiting.as_mut().expect("this task runs"));
                if held.places.is_empty() {
                    *waiting = None;
                    return;
                }
            }
            if let Some(place) = held.places.pop_front() {
                taskless.go_on(&volume, place);
            }
            // The redundancy of many requests takes time that other tasks need.
            if !env.executor().take_allowance() {
                env.yield_now().await;
            }
        }
    }
}

/// Requests without an operation with a drive, which a task continues. A kill drops them with it.
struct Waiting {
    taskless: Rc<Taskless>,
    places: VecDeque<u32>,
    /// Those of [`Taskless::waiting`] as well.
    with_queue: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.with_queue {
            self.places.extend(self.taskless.waiting.take().into_iter().flatten());
        }
        for place in self.places.drain(..) {
            let request = self.taskless.under_way.borrow_mut().try_remove(place as usize);
            drop(request);
        }
    }
}

impl OnReturn for Taskless {
    fn returned(&self, token: u32, outcome: IoOutcome) {
        let (place, number) = (token / MOST as u32, token as usize % MOST);
        match self.note(place, number, outcome) {
            Next::Nothing => {}
            Next::Continue => self.continue_later(place),
            Next::End(request) => match request.is_complete() {
                true => request.answer(),
                false => request.finish_in_task(),
            },
        }
    }

    fn forgotten(&self, token: u32) {
        // The first of its operations.
        let request = self.under_way.borrow_mut().try_remove(token as usize / MOST);
        drop(request);
    }
}

impl UnderWay {
    fn direct(
        volume: &Rc<Volume>,
        direct: Box<Direct>,
        entered: Entered,
        receiver: Receiver,
    ) -> UnderWay {
        let (begun, entered) = (Begun::Direct(direct), Some(entered));
        UnderWay { volume: volume.clone(), begun, entered, receiver, is_starting: false }
    }

    /// The write to a stripe that it is.
    fn write(&mut self) -> &mut StripeWrite {
        match &mut self.begun {
            Begun::Stripe(write) => write,
            Begun::Direct(_) => unreachable!("a direct request has one step"),
        }
    }

    fn is_complete(&self) -> bool {
        match &self.begun {
            Begun::Direct(direct) => direct.is_complete(&self.volume),
            Begun::Stripe(write) => write.is_complete(&self.volume),
        }
    }

    /// Acknowledges a request that is complete.
    fn answer(self) {
        let UnderWay { volume, begun, entered, receiver, .. } = self;
        // Its stripes are free before its host can send the next request.
        let (len, buffers) = match begun {
            Begun::Direct(direct) => {
                (direct.range().len, direct.complete(&volume, &volume.taskless.spare))
            }
            Begun::Stripe(write) => (write.complete(&volume), Bufs::new()),
        };
        volume.leave(entered, len, &Ok(()));
        receiver.complete(IoOutcome::done(len.0).with_buffers(buffers));
    }

    fn finish_in_task(self) {
        let env = self.volume.shard().env().clone();
        env.spawn("unfinished request", self.finish());
    }

    /// Completes it in a task.
    async fn finish(self) {
        let UnderWay { volume, begun, entered, receiver, .. } = self;
        let (len, result, buffers) = match begun {
            Begun::Direct(direct) => finish_direct(&volume, direct).await,
            Begun::Stripe(write) => (write.len(), write.finish(&volume).await, Bufs::new()),
        };
        volume.leave(entered, len, &result);
        let outcome = IoOutcome { result: result.map(|()| len.0), ..IoOutcome::done(0) };
        receiver.complete(outcome.with_buffers(buffers));
    }
}

async fn finish_direct(
    volume: &Rc<Volume>,
    direct: Box<Direct>,
) -> (ByteCount, Result<(), IoError>, Bufs) {
    let (range, written) = (direct.range(), direct.written());
    let (result, buf) = match (direct.finish(volume).await, written) {
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
    (range.len, result, buf.into_iter().collect())
}
