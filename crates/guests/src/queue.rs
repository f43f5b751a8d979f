//! An active queue: one task takes requests, one calls the guest. A read or write whose drives
//! answer takes no task; any other request has its own.
//!
//! # Invariants
//! - A transfer without a task has a place from its start until its outcome, exactly once. The
//!   outcome may arrive in the middle of a drive's work: no operation starts here.

use crate::GuestMemory;
use crate::config::Negotiated;
use crate::in_flight::InFlight;
use crate::request::{ID_BYTES, Operation, Request, Status, give, parse, take};
use crate::ring::{Broken, Ring, Segment};
use crate::work::{RangeOperation, Work, buffer_of};
use platform::sync::{Signal, Taken};
use platform::{
    BlockTarget, Buf, Connected, Durability, Env, IoError, IoErrorKind, IoOutcome, IoRequest,
    OnReturn, Receiver, Slices, Stream, Targets,
};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteRange};
use vm_memory::{Bytes, GuestAddress};

/// The value that signals an event.
const EVENT: [u8; 8] = 1_u64.to_ne_bytes();

/// See the [module](self).
pub(crate) struct Queue<S: Targets> {
    targets: S,
    work: Work<S::Target>,
    durability: Durability,
    ring: RefCell<Ring>,
    memory: RefCell<Arc<GuestMemory>>,
    in_flight: Option<InFlight>,
    kick: Rc<dyn Stream>,
    call: RefCell<Option<Rc<dyn Stream>>>,
    /// A call to the guest is due.
    is_due: Cell<bool>,
    under_way: Cell<u32>,
    /// Those of them that no task waits for.
    transfers: RefCell<Slab<Transfer>>,
    is_stopping: Cell<bool>,
    /// All requests are complete, and no more are taken.
    is_over: Cell<bool>,
    changed: Signal,
}

/// A read or write of one piece.
struct Transfer {
    head: u16,
    /// The address of its status byte.
    status: u64,
    range: ByteRange,
    /// Where a read puts its data.
    to: Option<Vec<Segment>>,
    memory: Arc<GuestMemory>,
    held: Option<Taken>,
}

/// The parts of a queue.
pub(crate) struct Parts<T> {
    pub target: Rc<T>,
    pub host: Connected,
    pub read_only: bool,
    pub negotiated: Negotiated,
    pub ring: Ring,
    pub memory: Arc<GuestMemory>,
    pub in_flight: Option<InFlight>,
    pub kick: Rc<dyn Stream>,
    pub call: Option<Rc<dyn Stream>>,
}

impl<S: Targets> Queue<S> {
    pub fn new(targets: S, parts: Parts<S::Target>) -> Rc<Queue<S>> {
        let durability =
            if parts.negotiated.flushes { Durability::Cached } else { Durability::Durable };
        Rc::new(Queue {
            work: Work {
                env: targets.env().clone(),
                geometry: parts.target.geometry(),
                target: parts.target,
                host: parts.host,
                read_only: parts.read_only,
            },
            targets,
            durability,
            ring: RefCell::new(parts.ring),
            memory: RefCell::new(parts.memory),
            in_flight: parts.in_flight,
            kick: parts.kick,
            call: RefCell::new(parts.call),
            // An earlier process may have died before a call. A spurious call is harmless.
            is_due: Cell::new(true),
            under_way: Cell::new(0),
            transfers: RefCell::default(),
            is_stopping: Cell::new(false),
            is_over: Cell::new(false),
            changed: Signal::default(),
        })
    }

    fn env(&self) -> &Env {
        self.targets.env()
    }

    fn memory(&self) -> Arc<GuestMemory> {
        self.memory.borrow().clone()
    }

    /// Replaces the guest's memory.
    pub fn set_memory(&self, memory: Arc<GuestMemory>) {
        self.memory.replace(memory);
    }

    /// Replaces the event that calls the guest.
    pub fn set_call(&self, call: Option<Rc<dyn Stream>>) {
        self.call.replace(call);
        // Calls through the old event may be lost.
        self.is_due.set(true);
        self.changed.notify(self.env());
    }

    /// Takes no more requests.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        self.kick.shutdown();
        self.changed.notify(self.env());
    }

    /// Waits until all requests are complete. Returns the next entry of the available ring.
    pub async fn stopped(&self) -> u16 {
        self.changed.wait_until(self.env(), || self.is_over.get()).await;
        self.ring.borrow().next_available()
    }

    /// Periodic check, about once a second.
    pub fn look(&self) {
        self.work.host.look(self.env().now());
        if !self.work.target.is_served() {
            self.stop();
        }
    }

    /// Serves the queue until it is stopped, or its ring is invalid.
    pub async fn serve(self: Rc<Self>) {
        let caller = self.env().spawn("guest calls", self.clone().call_guest());
        if let Err(Broken(what)) = self.take_requests().await {
            self.give_up(&what);
        }
        self.changed.wait_until(self.env(), || self.under_way.get() == 0).await;
        self.is_over.set(true);
        self.changed.notify(self.env());
        caller.await;
    }

    fn give_up(&self, what: &str) {
        if !self.is_stopping.replace(true) {
            let (volume, guest) = (self.work.target.name(), &self.work.host.connection().peer);
            tracing::warn!(
                %volume,
                %guest,
                "invalid virtqueue ({what}): its requests wait; reset the device in the guest"
            );
            self.kick.shutdown();
        }
    }

    async fn take_requests(self: &Rc<Self>) -> Result<(), Broken> {
        self.resume().await?;
        let mut event = Buf::unpooled(ByteCount(EVENT.len() as u64));
        loop {
            self.ring.borrow().want_no_kick(&self.memory())?;
            loop {
                let size = u32::from(self.ring.borrow().size());
                self.changed
                    .wait_until(self.env(), || {
                        self.under_way.get() < size || self.is_stopping.get()
                    })
                    .await;
                if self.is_stopping.get() {
                    return Ok(());
                }
                let next = self.ring.borrow_mut().next(&self.memory())?;
                let Some(head) = next else { break };
                self.in_flight.as_ref().map_or(Ok(()), |in_flight| in_flight.begin(head))?;
                self.begin(head).await?;
            }
            if self.ring.borrow().want_kick(&self.memory())? {
                continue;
            }
            let outcome = self.kick.receive(event).await;
            let Some(back) = outcome.buffers.into_iter().next() else { return Ok(()) };
            event = back;
            if !matches!(outcome.result, Ok(1..)) {
                return Ok(());
            }
        }
    }

    /// Repeats the in-flight requests of an earlier process.
    async fn resume(self: &Rc<Self>) -> Result<(), Broken> {
        let Some(in_flight) = &self.in_flight else { return Ok(()) };
        let used = self.ring.borrow().next_used();
        let heads = in_flight.recover(used)?;
        self.ring.borrow_mut().set_next_available(used.wrapping_add(heads.len() as u16));
        if !heads.is_empty() {
            tracing::info!(
                volume = %self.work.target.name(),
                requests = heads.len(),
                "repeating the in-flight requests of a guest"
            );
        }
        for head in heads {
            self.begin(head).await?;
        }
        Ok(())
    }

    /// Starts the request at `head`. Takes no further request while this one waits for memory.
    async fn begin(self: &Rc<Self>, head: u16) -> Result<(), Broken> {
        let memory = self.memory();
        let chain = self.ring.borrow().chain(&memory, head)?;
        let Some(request) = parse(&memory, chain, &self.work.geometry) else {
            return Err(Broken("a request without a status byte".to_owned()));
        };
        self.set_under_way(self.under_way.get() + 1);
        let held = match &request.what {
            Operation::Read(range, _) | Operation::Write(range, _) if !range.is_empty() => {
                Some(self.work.target.reserve_payload(range.len.min(self.work.piece())).await)
            }
            _ => None,
        };
        match self.transfer_of(&request, &memory) {
            None => {
                let whole = self.clone().carry_out(head, request, memory, held);
                self.env().spawn("guest request", whole);
            }
            Some((wanted, range)) => {
                let Request { status, what } = request;
                let to = if let Operation::Read(_, to) = what { Some(to) } else { None };
                self.begin_transfer(Transfer { head, status, range, to, memory, held }, wanted);
            }
        }
        Ok(())
    }

    /// The request to the target of a transfer that is one piece. `None`: it is more, or refused.
    fn transfer_of(
        &self,
        request: &Request,
        memory: &GuestMemory,
    ) -> Option<(IoRequest, ByteRange)> {
        let (Operation::Read(range, _) | Operation::Write(range, _)) = &request.what else {
            return None;
        };
        if range.is_empty() || range.len > self.work.piece() {
            return None;
        }
        let wanted = match &request.what {
            Operation::Write(range, from) => {
                self.work.may_change().ok()?;
                let copy = |to: &mut [u8]| done(take(memory, from, 0, to));
                self.work.write_request(*range, self.durability, copy).ok()?
            }
            _ => self.work.read_request(*range),
        };
        Some((wanted, *range))
    }

    /// Begins a transfer, without a task if possible.
    fn begin_transfer(self: &Rc<Self>, transfer: Transfer, wanted: IoRequest) {
        // A drive in memory answers at once: other tasks have their turn in between.
        let is_allowed = self.env().executor().take_allowance();
        let place = self.transfers.borrow_mut().insert(transfer);
        let receiver = Receiver::OnReturn(self.clone(), place as u32);
        let back = match is_allowed {
            true => self.work.target.begin(wanted, receiver),
            false => Some((wanted, receiver)),
        };
        if let Some((wanted, _)) = back {
            let transfer = self.transfers.borrow_mut().remove(place);
            let queue = self.clone();
            self.env().spawn("guest transfer", async move {
                let outcome = queue.work.transfer_by_call(wanted).await;
                queue.end_transfer(transfer, outcome);
            });
        }
    }

    fn end_transfer(&self, transfer: Transfer, outcome: IoOutcome) {
        let Transfer { head, status, range, to, memory, held } = transfer;
        let result = match &to {
            Some(to) => buffer_of(outcome).and_then(|buf| done(give(&memory, to, 0, buf.bytes()))),
            None => outcome.result.map(drop),
        };
        let answer = match (result, to) {
            (Err(error), _) => (failed(error), 0),
            (Ok(()), Some(_)) => {
                self.work.host.count_read(range.len.0);
                (Status::Done, range.len.0 as u32)
            }
            (Ok(()), None) => {
                self.work.host.count_write(range.len.0);
                (Status::Done, 0)
            }
        };
        self.finish(&memory, head, status, answer, held);
    }

    fn set_under_way(&self, requests: u32) {
        self.under_way.set(requests);
        self.work.host.set_outstanding(requests);
    }

    async fn carry_out(
        self: Rc<Self>,
        head: u16,
        Request { status: status_at, what }: Request,
        memory: Arc<GuestMemory>,
        held: Option<Taken>,
    ) {
        let (outcome, written) = match what {
            Operation::Read(range, to) => {
                let give = |at: u64, from: &[u8]| done(give(&memory, &to, at, from));
                (self.work.read(range, give).await, range.len.0 as u32)
            }
            Operation::Write(range, from) => {
                let take = |at: u64, to: &mut [u8]| done(take(&memory, &from, at, to));
                (self.work.write(range, self.durability, take).await, 0)
            }
            Operation::Flush => (self.work.target.flush().await, 0),
            Operation::Id(to) => (done(self.id(&memory, &to)), ID_BYTES as u32),
            Operation::Discard(ranges) => {
                (self.work.change(&ranges, RangeOperation::Discard, self.durability).await, 0)
            }
            Operation::Zeroes(ranges) => {
                (self.work.change(&ranges, RangeOperation::Zeroes, self.durability).await, 0)
            }
            Operation::Refused(status) => {
                return self.finish(&memory, head, status_at, (status, 0), held);
            }
        };
        let outcome =
            outcome.map_err(failed).map_or_else(|status| (status, 0), |()| (Status::Done, written));
        self.finish(&memory, head, status_at, outcome, held);
    }

    fn finish(
        &self,
        memory: &GuestMemory,
        head: u16,
        status_at: u64,
        (status, written): (Status, u32),
        held: Option<Taken>,
    ) {
        drop(held);
        if let Err(Broken(what)) = self.answer(memory, head, status_at, status, written) {
            self.give_up(&what);
        }
        self.set_under_way(self.under_way.get() - 1);
        self.changed.notify(self.env());
    }

    fn answer(
        &self,
        memory: &GuestMemory,
        head: u16,
        status_at: u64,
        status: Status,
        written: u32,
    ) -> Result<(), Broken> {
        memory.write_slice(&[status as u8], GuestAddress(status_at))?;
        let mut ring = self.ring.borrow_mut();
        if let Some(in_flight) = &self.in_flight {
            in_flight.answering(head)?;
        }
        let rings = self.memory();
        ring.put_used(&rings, head, written.saturating_add(1))?;
        if let Some(in_flight) = &self.in_flight {
            in_flight.answered(head, ring.next_used())?;
        }
        if ring.wants_call(&rings)? {
            self.is_due.set(true);
        }
        Ok(())
    }

    /// Calls the guest when a call is due: one call for all completions in between.
    async fn call_guest(self: Rc<Self>) {
        loop {
            self.changed.wait_until(self.env(), || self.is_due.get() || self.is_over.get()).await;
            if !self.is_due.replace(false) {
                return;
            }
            let call = self.call.borrow().clone();
            let Some(call) = call else { continue };
            let event: Slices = std::iter::once(Buf::copy_of(&EVENT).freeze()).collect();
            if let Err(error) = call.send(event).await.result {
                tracing::debug!(volume = %self.work.target.name(), "a guest cannot be called: \
                    {error}");
            }
        }
    }

    /// The disk's name: the volume's name, truncated to the size of the field.
    fn id(&self, memory: &GuestMemory, to: &[Segment]) -> bool {
        let mut id = [0; ID_BYTES];
        let name = self.work.target.name();
        let len = name.floor_char_boundary(ID_BYTES);
        id[..len].copy_from_slice(&name.as_bytes()[..len]);
        give(memory, to, 0, &id)
    }
}

impl<S: Targets> OnReturn for Queue<S> {
    fn returned(&self, place: u32, outcome: IoOutcome) {
        let transfer = self.transfers.borrow_mut().remove(place as usize);
        self.end_transfer(transfer, outcome);
    }

    fn forgotten(&self, place: u32) {
        let transfer = self.transfers.borrow_mut().remove(place as usize);
        drop(transfer);
    }
}

/// The target logs the error; virtio has no error codes.
fn failed(_: IoError) -> Status {
    Status::Failed
}

fn done(is_done: bool) -> Result<(), IoError> {
    if is_done { Ok(()) } else { Err(IoError::new(IoErrorKind::Invalid)) }
}
