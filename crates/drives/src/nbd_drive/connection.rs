//! An attachment's connection to the server: requests wait in a queue, a task sends them in
//! batches, a task receives the replies. [`life`](super::life) handles lost connections.
//!
//! # Fault model and invariants
//! - The server may reply in any order, fail requests, send invalid data, or disconnect at any
//!   time. Every request still completes exactly once. A protocol error closes the connection.
//! - Only the connection task (`live`) ends a connection and completes the lost requests. No other
//!   task touches a job while its memory is lent out. The sending task only shuts the stream down
//!   when it fails.
//! - Replies count only in the connection's epoch
//!   ([`FlushTracker`](super::standing::FlushTracker)).
//! - A piece is in the table at its cookie's slot from before it is sent until its reply arrives.

use super::Export;
use super::handshake::leave;
use super::job::{self, Job, Piece, Plan, Progress};
use crate::request::{give_back, objection};
use nbd::{ClientStream, PayloadRun, ReplyEvent};
use platform::sync::Signal;
use platform::{
    Buf, Completion, DriveHealth, Env, Instant, IoError, IoErrorKind, IoOutcome, IoRequest, Slices,
    Stream,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// Outstanding requests per connection.
pub(super) const OUTSTANDING: u32 = 256;
/// A batch ends when its data exceed this size.
const LARGEST_BATCH: u64 = 4 << 20;
/// Buffer size for replies.
const RECEIVE_BYTES: ByteCount = ByteCount(128 << 10);
/// Payloads of at least this length are received directly into the request's buffers.
const DIRECT_BYTES: u32 = 32 << 10;

pub(super) const GONE: IoError = IoError::new(IoErrorKind::Gone);

/// The protocol state of an open connection.
pub(super) struct Transmission {
    pub(super) protocol: Box<ClientStream>,
    /// The outstanding pieces, by their cookie's slot.
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
    /// Wakes the sending task, or the task that waits to connect.
    pub(super) news: Signal,
    /// The connection's epoch.
    pub(super) epoch: Cell<u64>,
    /// The sending task must end.
    pub(super) cut_off: Cell<bool>,
    /// Start of the wait for a connection, while requests wait; excludes time when the process was
    /// suspended.
    pub(super) waiting_since: Cell<Instant>,
    /// When writes in flight on the last connection can no longer reach the server's storage.
    pub(super) settled_at: Cell<Instant>,
    /// The connection accepts no more requests.
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
            epoch: Cell::new(0),
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

    /// Starts a request of the engine.
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

    /// Closes the connection when all outstanding requests are complete.
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
            if !self.export.standing.holds(self.epoch.get()) {
                return stream.shutdown();
            }
            let Some(batch) = self.next_batch() else {
                // Nothing is queued or in flight, and no more requests can arrive.
                return leave(&stream, &self.export.connected).await;
            };
            if stream.send(batch).await.result.is_err() {
                return stream.shutdown();
            }
        }
    }

    fn may_send(&self) -> bool {
        let transmission = self.transmission.borrow();
        let free =
            transmission.as_ref().is_some_and(|t| t.protocol.outstanding() < OUTSTANDING as usize);
        free && !self.queue.borrow().is_empty()
    }

    /// The next batch as one message: headers in one buffer, data in the requests' own buffers.
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
                // The request needs a feature that the export does not advertise.
                Err(_) => refused.push(piece),
            }
        }
        drop(guard);
        for piece in refused {
            // A failed request completes in any epoch.
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
            let (Ok(count @ 1..), Some(back)) = (outcome.result, outcome.buffers.pop()) else {
                return;
            };
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

    /// Receives read data directly into the request's buffer. An error: the connection is lost.
    async fn receive_directly(&self, stream: &Rc<dyn Stream>, run: PayloadRun) -> Result<(), ()> {
        let piece = self.sent_piece(run.cookie).ok_or(())?;
        let lend = |job: &mut Job| job.lend(&piece, run.position_bytes, run.left_bytes as usize);
        let lent = self.jobs.borrow_mut()[piece.job].as_mut().and_then(lend);
        let (buf, loan) = lent.ok_or(())?;
        let mut outcome = stream.receive(buf).await;
        if let (Some(buf), Some(job)) =
            (outcome.buffers.pop(), self.jobs.borrow_mut()[piece.job].as_mut())
        {
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
        self.transmission
            .borrow()
            .as_ref()
            .and_then(|transmission| transmission.sent[cookie.slot()])
    }

    /// Handles received data. An error: the stream violates the protocol.
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
                    self.with_job(cookie, |job, piece| {
                        job.take_zeroes(piece, position_bytes, length_bytes)
                    });
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

    /// Resends a job after a pause.
    fn send_later(self: &Rc<Self>, index: usize, pause: Duration) -> bool {
        let connection = self.clone();
        self.env.spawn("nbd pause", async move {
            connection.env.sleep(pause).await;
            connection.send_again(index);
        });
        true
    }

    /// Resends a whole job, if it still waits: a new connection may have resent it already.
    fn send_again(&self, index: usize) {
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs.get_mut(index).and_then(Option::as_mut).filter(|job| job.is_paused())
        else {
            return;
        };
        if let Plan::Pieces(pieces, then_flush) =
            job::plan(&job.request, &self.export.connected, index)
        {
            job.start_again(pieces.len(), then_flush);
            // Without a connection the jobs wait; the next connection resends them all.
            if self.transmission.borrow().is_some() {
                self.queue.borrow_mut().extend(pieces);
            }
            self.news.notify(&self.env);
        }
    }

    /// Handles the reply to a piece. An error: the reply and its connection are of an old epoch.
    fn piece_returned(
        self: &Rc<Self>,
        piece: Piece,
        result: Result<(), nbd::Errno>,
    ) -> Result<(), ()> {
        let mut jobs = self.jobs.borrow_mut();
        let Some(job) = jobs[piece.job].as_mut() else { return Ok(()) };
        match job.returned(&piece, result) {
            Progress::Waiting => {}
            Progress::Next(next) => self.queue.borrow_mut().push_back(next),
            Progress::Over
                if job.pause().is_some_and(|pause| self.send_later(piece.job, pause)) => {}
            Progress::Over => {
                if !job.stands(&self.export.standing, self.epoch.get()) {
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
