//! An attachment's way to the server: requests wait in a queue, a task sends them in batches, a task receives the
//! replies. [`life`](super::life) says what becomes of them when the connection breaks off.
//!
//! # Fault model and invariants
//! - The server may answer in any order, fail requests, send anything, or go away at any time. Whatever it
//!   sends, every request is answered to the engine exactly once; a server that loses the thread of the protocol
//!   loses the connection.
//! - The task that lives alone ends a connection and answers what is lost: while it has a job's memory lent
//!   out, nobody else touches the job. The sending task, when it fails, only shuts the stream down.
//! - What the server says counts only while the connection's age lasts ([`Standing`](super::standing::Standing)).
//! - A piece is in the table of its cookie's slot from before it is sent until it is answered.

use super::Export;
use super::handshake::leave;
use super::job::{self, Job, Piece, Plan, Progress};
use crate::request::{give_back, objection};
use nbd::{ClientStream, PayloadRun, ReplyEvent};
use platform::sync::Signal;
use platform::{
    Buf, Completion, DriveHealth, Env, Instant, IoError, IoErrorKind, IoOutcome, IoRequest, Slices, Stream,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// Requests on the wire at a time.
pub(super) const OUTSTANDING: u32 = 256;
/// Data sent with one call, beyond which a batch is closed.
const LARGEST_BATCH: u64 = 4 << 20;
/// Memory that replies are received into.
const RECEIVE_BYTES: ByteCount = ByteCount(128 << 10);
/// Data of at least this length are received where they belong, not copied there.
const DIRECT_BYTES: u32 = 32 << 10;

pub(super) const GONE: IoError = IoError::new(IoErrorKind::Gone);

/// What there is while there is a connection.
pub(super) struct Transmission {
    pub(super) protocol: Box<ClientStream>,
    /// The pieces on the wire, by their cookie's slot.
    pub(super) sent: Vec<Option<Piece>>,
}

/// See the [module](self).
pub(crate) struct Connection {
    pub(super) env: Env,
    pub(super) export: Arc<Export>,
    pub(super) jobs: RefCell<Vec<Option<Job>>>,
    pub(super) free_jobs: RefCell<Vec<usize>>,
    pub(super) queue: RefCell<VecDeque<Piece>>,
    pub(super) transmission: RefCell<Option<Transmission>>,
    /// Tells the sending task, or who waits to connect, that there may be something to do.
    pub(super) news: Signal,
    /// The age that the connection belongs to.
    pub(super) age: Cell<u64>,
    /// The sending task is to end.
    pub(super) cut_off: Cell<bool>,
    /// Since when requests wait for a connection, while they do; without the time that the process stood still.
    pub(super) waiting_since: Cell<Instant>,
    /// When what was under way on the last connection can no longer land.
    pub(super) settled_at: Cell<Instant>,
    /// Nothing is taken any more.
    pub(super) over: Cell<bool>,
    pub(super) closing: Cell<bool>,
}

impl Connection {
    pub(crate) fn new(env: &Env, export: Arc<Export>) -> Rc<Connection> {
        Rc::new(Connection {
            env: env.clone(),
            export,
            jobs: RefCell::default(),
            free_jobs: RefCell::default(),
            queue: RefCell::default(),
            transmission: RefCell::new(None),
            news: Signal::default(),
            age: Cell::new(0),
            cut_off: Cell::new(false),
            waiting_since: Cell::new(env.now_running()),
            settled_at: Cell::default(),
            over: Cell::new(false),
            closing: Cell::new(false),
        })
    }

    pub(crate) fn export(&self) -> &Arc<Export> {
        &self.export
    }

    /// Takes a request of the engine.
    pub(crate) fn start(&self, request: IoRequest, completion: Completion) {
        if self.over.get() || self.export.standing.is_lost() {
            return give_back(request, completion, Err(GONE));
        }
        if let Some(kind) = objection(&self.export.info, &request) {
            return give_back(request, completion, Err(IoError::new(kind)));
        }
        if !job::is_solid(&request) {
            return give_back(request, completion, Err(IoError::new(IoErrorKind::Invalid)));
        }
        let mut jobs = self.jobs.borrow_mut();
        let index = self.free_jobs.borrow_mut().pop().unwrap_or_else(|| {
            jobs.push(None);
            jobs.len() - 1
        });
        let plan = job::plan(&request, &self.export.connected, index);
        if let Plan::Pieces(pieces, then_flush) = plan {
            let alone = self.free_jobs.borrow().len() + 1 == jobs.len();
            if alone && self.transmission.borrow().is_none() {
                self.waiting_since.set(self.env.now_running());
            }
            let mark = self.export.standing.mark();
            jobs[index] = Some(Job::new(request, completion, mark, pieces.len(), then_flush));
            self.queue.borrow_mut().extend(pieces);
            self.news.notify(&self.env);
            return;
        }
        self.free_jobs.borrow_mut().push(index);
        drop(jobs);
        match (plan, &request) {
            (Plan::Impossible(_), IoRequest::Status { range }) => {
                completion.complete(job::all_data(range.len));
            }
            (Plan::Impossible(_), IoRequest::Health) => {
                completion.complete(IoOutcome::with_health(DriveHealth::default()));
            }
            (Plan::Impossible(kind), _) => give_back(request, completion, Err(IoError::new(kind))),
            _ => give_back(request, completion, Ok(0)),
        }
    }

    /// Ends the connection once everything under way is answered.
    pub(crate) fn close_when_idle(&self) {
        self.closing.set(true);
        self.news.notify(&self.env);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.borrow().len() == self.free_jobs.borrow().len()
    }

    pub(super) async fn send_all(self: &Rc<Self>, stream: Rc<dyn Stream>) {
        loop {
            let is_due = || {
                let idle = self.closing.get() && self.is_idle();
                self.cut_off.get() || idle || self.may_send()
            };
            self.news.wait_until(&self.env, is_due).await;
            if self.cut_off.get() {
                return;
            }
            if !self.export.standing.holds(self.age.get()) {
                return stream.shutdown();
            }
            let Some(batch) = self.next_batch() else {
                // Nothing is queued or in flight, and nobody will come any more.
                return leave(&stream, &self.export.connected).await;
            };
            if stream.send(batch).await.result.is_err() {
                return stream.shutdown();
            }
        }
    }

    fn may_send(&self) -> bool {
        let transmission = self.transmission.borrow();
        let free = transmission.as_ref().is_some_and(|t| t.protocol.outstanding() < OUTSTANDING as usize);
        free && !self.queue.borrow().is_empty()
    }

    /// Everything that may be sent now, as one message: headers gathered in one buffer, data from where they
    /// lie.
    fn next_batch(self: &Rc<Self>) -> Option<Slices> {
        let mut headers: Vec<u8> = Vec::new();
        let mut batch: Vec<(usize, Slices)> = Vec::new();
        let mut bytes = 0;
        let mut guard = self.transmission.borrow_mut();
        let Transmission { protocol, sent } = guard.as_mut()?;
        let mut refused = Vec::new();
        while bytes < LARGEST_BATCH && protocol.outstanding() < OUTSTANDING as usize {
            let Some(piece) = self.queue.borrow_mut().pop_front() else { break };
            match protocol.begin(piece.command, piece.flags, piece.offset, piece.len) {
                Ok((cookie, header)) => {
                    headers.extend_from_slice(header.as_ref());
                    let mut payload = Slices::new();
                    if let Some(job) = &self.jobs.borrow()[piece.job] {
                        job.payload(&piece, &mut payload);
                    }
                    bytes += platform::buffers::total_len(&payload).0;
                    batch.push((headers.len(), payload));
                    sent[cookie.slot()] = Some(piece);
                }
                // The export was asked for something it said it cannot do.
                Err(_) => refused.push(piece),
            }
        }
        drop(guard);
        for piece in refused {
            // A request that fails counts whatever the age.
            let _ = self.piece_returned(piece, Err(nbd::Errno::Inval));
        }
        if batch.is_empty() {
            return (!(self.closing.get() && self.is_idle())).then(Slices::new);
        }
        Some(self.assemble(&headers, batch))
    }

    fn assemble(&self, headers: &[u8], batch: Vec<(usize, Slices)>) -> Slices {
        let len = ByteCount::of(headers);
        let mut buf = self.env.pool().take(len).unwrap_or_else(|| Buf::unpooled(len));
        buf.bytes_mut().copy_from_slice(headers);
        let buf = buf.freeze();
        let mut slices = Slices::new();
        let mut from = 0;
        for (end, payload) in batch {
            if payload.is_empty() {
                continue;
            }
            slices.push(buf.cut(ByteCount(from as u64), ByteCount((end - from) as u64)));
            slices.extend(payload);
            from = end;
        }
        if from < headers.len() {
            slices.push(buf.cut(ByteCount(from as u64), ByteCount((headers.len() - from) as u64)));
        }
        slices
    }

    /// Receives until the connection ends.
    pub(super) async fn receive_all(self: &Rc<Self>, stream: &Rc<dyn Stream>, rest: Vec<u8>) {
        if self.parse(&rest).is_err() {
            return;
        }
        let pool = self.env.pool();
        let mut buf = pool.take(RECEIVE_BYTES).unwrap_or_else(|| Buf::unpooled(RECEIVE_BYTES));
        loop {
            if let Some(run) = self.large_payload() {
                if self.receive_directly(stream, run).await.is_err() || self.parse(&[]).is_err() {
                    return;
                }
                continue;
            }
            let mut outcome = stream.receive(buf).await;
            let (Ok(count @ 1..), Some(back)) = (outcome.result, outcome.buffers.pop()) else { return };
            if self.parse(&back.bytes()[..count as usize]).is_err() {
                return;
            }
            buf = back;
        }
    }

    fn large_payload(&self) -> Option<PayloadRun> {
        let transmission = self.transmission.borrow();
        transmission.as_ref()?.protocol.payload().filter(|run| run.left_bytes >= DIRECT_BYTES)
    }

    /// Receives data of a read into the memory it was asked for in. An error: the connection is lost.
    async fn receive_directly(&self, stream: &Rc<dyn Stream>, run: PayloadRun) -> Result<(), ()> {
        let piece = self.sent_piece(run.cookie).ok_or(())?;
        let lend = |job: &mut Job| job.lend(&piece, run.position_bytes, run.left_bytes as usize);
        let lent = self.jobs.borrow_mut()[piece.job].as_mut().and_then(lend);
        let (buf, loan) = lent.ok_or(())?;
        let mut outcome = stream.receive(buf).await;
        if let (Some(buf), Some(job)) = (outcome.buffers.pop(), self.jobs.borrow_mut()[piece.job].as_mut()) {
            loan.give_back(job, buf);
        }
        match (outcome.result, self.transmission.borrow_mut().as_mut()) {
            (Ok(count @ 1..), Some(transmission)) => {
                transmission.protocol.payload_taken(count as usize).map_err(drop)
            }
            _ => Err(()),
        }
    }

    fn sent_piece(&self, cookie: nbd::Cookie) -> Option<Piece> {
        self.transmission.borrow().as_ref().and_then(|transmission| transmission.sent[cookie.slot()])
    }

    /// Deals with what has arrived. An error: the stream cannot be followed any more.
    fn parse(self: &Rc<Self>, mut input: &[u8]) -> Result<(), ()> {
        loop {
            let event = {
                let mut guard = self.transmission.borrow_mut();
                let transmission = guard.as_mut().ok_or(())?;
                let step = transmission.protocol.receive(input).map_err(drop)?;
                input = &input[step.consumed..];
                step.event
            };
            match event {
                None => return Ok(()),
                Some(ReplyEvent::Payload(_)) if input.is_empty() => return Ok(()),
                Some(ReplyEvent::Payload(run)) => {
                    let count = input.len().min(run.left_bytes as usize);
                    self.with_job(run.cookie, |job, piece| {
                        job.take_data(piece, run.position_bytes, &input[..count]);
                    });
                    input = &input[count..];
                    let mut guard = self.transmission.borrow_mut();
                    guard.as_mut().ok_or(())?.protocol.payload_taken(count).map_err(drop)?;
                }
                Some(ReplyEvent::Zeroes { cookie, position_bytes, length_bytes }) => {
                    self.with_job(cookie, |job, piece| job.take_zeroes(piece, position_bytes, length_bytes));
                }
                Some(ReplyEvent::Extents { cookie, extents }) => {
                    self.with_job(cookie, |job, _| job.take_extents(&extents));
                }
                Some(ReplyEvent::Done { cookie, result }) => {
                    let mut guard = self.transmission.borrow_mut();
                    let piece = guard.as_mut().and_then(|t| t.sent[cookie.slot()].take());
                    drop(guard);
                    self.piece_returned(piece.ok_or(())?, result.map_err(|failure| failure.errno))?;
                }
            }
        }
    }

    fn with_job(&self, cookie: nbd::Cookie, work: impl FnOnce(&mut Job, &Piece)) {
        if let Some(piece) = self.sent_piece(cookie)
            && let Some(job) = self.jobs.borrow_mut()[piece.job].as_mut()
        {
            work(job, &piece);
        }
    }

    /// Has a job sent again after a pause.
    fn send_later(self: &Rc<Self>, index: usize, pause: Duration) -> bool {
        let connection = self.clone();
        self.env.spawn("nbd pause", async move {
            connection.env.sleep(pause).await;
            connection.send_again(index);
        });
        true
    }

    /// Puts a job to the server again as a whole, if it waits for that: a new connection may have done so meanwhile.
    fn send_again(&self, index: usize) {
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs.get_mut(index).and_then(Option::as_mut).filter(|job| job.is_paused()) else {
            return;
        };
        if let Plan::Pieces(pieces, then_flush) = job::plan(&job.request, &self.export.connected, index) {
            job.start_again(pieces.len(), then_flush);
            // Without a connection they wait for one, which puts every job to the server.
            if self.transmission.borrow().is_some() {
                self.queue.borrow_mut().extend(pieces);
            }
            self.news.notify(&self.env);
        }
    }

    /// Takes the answer to a piece. An error: it came too late to count, and the connection with it.
    fn piece_returned(self: &Rc<Self>, piece: Piece, result: Result<(), nbd::Errno>) -> Result<(), ()> {
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs[piece.job].as_mut() else { return Ok(()) };
        match job.returned(&piece, result) {
            Progress::Waiting => {}
            Progress::Next(next) => self.queue.borrow_mut().push_back(next),
            Progress::Over if job.pause().is_some_and(|pause| self.send_later(piece.job, pause)) => {}
            Progress::Over => {
                if !job.stands(&self.export.standing, self.age.get()) {
                    return Err(());
                }
                let job = jobs[piece.job].take();
                self.free_jobs.borrow_mut().push(piece.job);
                drop(jobs);
                if let Some(job) = job {
                    job.finish(None);
                }
            }
        }
        let waiting = !self.queue.borrow().is_empty();
        if waiting || self.closing.get() {
            self.news.notify(&self.env);
        }
        Ok(())
    }
}
