//! The state that the tasks of one connection share.
//!
//! The reader (the session's own task) receives requests. A transfer that
//! [needs no task](super::transfers) is started at once; each other request is handed to a worker,
//! which executes it and queues the reply. The writer sends replies. Each waits for a condition on
//! this value, and is woken explicitly.
//!
//! # Invariants
//! A request is *under way* from its parsing until its reply was sent or dropped. The reader
//! respects the limits, which therefore bound workers, replies and memory.
//! A worker has at most one request. The number of workers is at most the limit of requests, so an
//! admitted request always gets a worker.

use super::life::ConnectionState;
use super::transfers::Transfers;
use super::writer::Queued;
use super::{Memory, Refused};
use crate::protocol::{Protocol, Reply};
use platform::{
    BlockTarget, Env, Host, IoError, IoErrorKind, Slice, Stream, TargetGeometry, TaskId,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use units::ByteCount;

/// The limits of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Number of outstanding requests.
    pub requests: u32,
    /// Payload memory of outstanding requests, in bytes.
    pub bytes: u64,
    /// Payload memory of one request, in bytes.
    pub longest: ByteCount,
    /// The client may only read.
    pub read_only: bool,
}

/// Statistics of a connection, for the log.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    pub requests: u64,
    pub errors: u64,
    pub rejected: u64,
    pub sends: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// An outstanding request with its payload and memory.
pub(super) struct Job<R> {
    pub request: R,
    /// The payload of a write.
    pub payload: Option<Slice>,
    pub memory: Option<Memory>,
    /// The time that a model takes for it.
    pub modelled: Duration,
}

/// The mailbox of a worker, for one request.
struct Worker<R> {
    task: Cell<Option<TaskId>>,
    job: Cell<Option<Job<R>>>,
}

/// One connection to a target: the calls for its protocol, and the state that its tasks share.
pub struct Session<P: Protocol, T> {
    env: Env,
    target: Rc<T>,
    geometry: TargetGeometry,
    protocol: P,
    pub(super) life: Rc<ConnectionState>,
    pub(super) stream: Rc<dyn Stream>,
    pub(super) counters: Cell<Counters>,
    /// The entry in the list of hosts.
    pub(super) host: Arc<Host>,
    pub(super) limits: Limits,
    requests_under_way: Cell<u32>,
    bytes_under_way: Cell<u64>,
    idle: RefCell<Vec<Rc<Worker<P::Request>>>>,
    workers: Cell<u32>,
    pub(super) transfers: Transfers<P::Request>,
    pub(super) queue: RefCell<VecDeque<Queued<P::Head>>>,
    writer: Cell<Option<TaskId>>,
    writer_ended: Cell<bool>,
    /// The reader waits for requests or tasks to end.
    reader_waits: Cell<bool>,
    /// The connection ends: workers and writer stop when they are idle.
    over: Cell<bool>,
}

impl<P: Protocol, T: BlockTarget> Session<P, T> {
    pub(super) fn new(
        env: &Env,
        target: Rc<T>,
        protocol: P,
        life: &Rc<ConnectionState>,
        host: &Arc<Host>,
        limits: Limits,
    ) -> Rc<Session<P, T>> {
        Rc::new(Session {
            env: env.clone(),
            geometry: target.geometry(),
            target,
            protocol,
            life: life.clone(),
            stream: life.stream(),
            counters: Cell::default(),
            host: host.clone(),
            limits,
            requests_under_way: Cell::new(0),
            bytes_under_way: Cell::new(0),
            idle: RefCell::default(),
            workers: Cell::new(0),
            transfers: Transfers::default(),
            queue: RefCell::default(),
            writer: Cell::new(None),
            writer_ended: Cell::new(false),
            reader_waits: Cell::new(false),
            over: Cell::new(false),
        })
    }

    // For protocols, besides the calls in `requests`.

    /// The shard's environment.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The client's target, for calls that [`Session`] does not have.
    pub fn target(&self) -> &Rc<T> {
        &self.target
    }

    /// The target's size and its alignment rules.
    pub fn geometry(&self) -> &TargetGeometry {
        &self.geometry
    }

    /// How replies are framed.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Whether the connection ends at once: long requests may stop early, since their replies are
    /// dropped.
    pub fn is_cut(&self) -> bool {
        self.life.is_cut()
    }

    /// Converts an error of the target into the session's error.
    pub fn refused(&self, error: IoError) -> Refused {
        match error.kind {
            IoErrorKind::Gone if !self.target.is_served() => Refused::NotServed,
            _ => Refused::Failed(error),
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    // For the reader.

    /// Waits until a request of `bytes` fits into the limits, and counts it.
    pub(super) async fn admit(&self, bytes: u64) {
        // A request larger than the limit runs alone.
        let bytes_limit = self.limits.bytes.max(bytes);
        self.reader_until(|| {
            self.requests_under_way.get() < self.limits.requests
                && self.bytes_under_way.get() + bytes <= bytes_limit
        })
        .await;
        self.set_under_way(self.requests_under_way.get() + 1);
        self.bytes_under_way.set(self.bytes_under_way.get() + bytes);
        self.count(|counters| counters.requests += 1);
    }

    fn set_under_way(&self, requests: u32) {
        self.requests_under_way.set(requests);
        self.host.set_outstanding(requests);
    }

    /// Starts an admitted request: without a task, or in a worker, which starts it at once.
    pub(super) fn start(self: &Rc<Self>, job: Job<P::Request>) {
        let Some(job) = self.begin(job) else { return };
        let idle = self.idle.borrow_mut().pop();
        match idle {
            Some(worker) => {
                worker.job.set(Some(job));
                if let Some(task) = worker.task.get() {
                    self.env.executor().go_on(task);
                }
            }
            None => {
                self.workers.set(self.workers.get() + 1);
                self.env.spawn("port worker", self.clone().work(job));
            }
        }
    }

    /// Waits until no request is outstanding.
    pub(super) async fn drained(&self) {
        self.reader_until(|| self.requests_under_way.get() == 0).await;
    }

    async fn reader_until(&self, condition: impl Fn() -> bool) {
        poll_fn(|_| {
            let holds = condition();
            self.reader_waits.set(!holds);
            if holds { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn tell_reader(&self) {
        if self.reader_waits.get() {
            self.life.wake_reader();
        }
    }

    /// Stops the idle workers and the writer, and waits for them.
    pub(super) async fn end(&self) {
        self.over.set(true);
        for worker in self.idle.take() {
            if let Some(task) = worker.task.get() {
                self.env.executor().wake(task);
            }
        }
        self.wake_writer();
        self.reader_until(|| self.workers.get() == 0 && self.writer_ended.get()).await;
    }

    // For the workers.

    async fn work(self: Rc<Self>, first: Job<P::Request>) {
        let worker = Rc::new(Worker {
            task: Cell::new(Some(self.env.executor().current())),
            job: Cell::new(None),
        });
        let mut next = Some(first);
        while let Some(Job { request, payload, memory, modelled }) = next {
            if !modelled.is_zero() {
                self.env.sleep(modelled).await;
            }
            let reply = P::execute(&self, request, payload).await;
            self.answer(reply, memory);
            self.idle.borrow_mut().push(worker.clone());
            next = poll_fn(|_| match worker.job.take() {
                Some(job) => Poll::Ready(Some(job)),
                None if self.over.get() => Poll::Ready(None),
                None => Poll::Pending,
            })
            .await;
        }
        self.workers.set(self.workers.get() - 1);
        self.tell_reader();
    }

    /// Queues the reply to a request that was executed.
    pub(super) fn answer(&self, reply: Reply<P::Head>, memory: Option<Memory>) {
        if reply.is_error {
            self.count(|counters| counters.errors += 1);
        }
        self.reply(reply, memory);
    }

    /// Queues the reply to an outstanding request.
    pub(super) fn reply(&self, reply: Reply<P::Head>, memory: Option<Memory>) {
        self.queue.borrow_mut().push_back(Queued { reply, memory });
        self.wake_writer();
    }

    // For the writer.

    /// Registers the calling task as the writer.
    pub(super) fn set_writer(&self) {
        self.writer.set(Some(self.env.executor().current()));
    }

    /// Reports that the writer has ended.
    pub(super) fn writer_ended(&self) {
        self.writer_ended.set(true);
        self.tell_reader();
    }

    fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            self.env.executor().wake(writer);
        }
    }

    /// Waits for replies; false when there will be no more.
    pub(super) async fn replies_waiting(&self) -> bool {
        poll_fn(|_| match self.queue.borrow().is_empty() {
            false => Poll::Ready(true),
            true if self.over.get() => Poll::Ready(false),
            true => Poll::Pending,
        })
        .await
    }

    /// Removes requests from the count whose replies were sent or dropped.
    pub(super) fn release(&self, requests: u32, bytes: u64) {
        self.set_under_way(self.requests_under_way.get() - requests);
        self.bytes_under_way.set(self.bytes_under_way.get() - bytes);
        self.tell_reader();
    }
}
