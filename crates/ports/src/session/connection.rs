//! One connection: what its tasks share, from the first byte to the last.
//!
//! The reader (the session's own task) takes requests in and hands each to a worker; a worker carries it out
//! and queues the reply; the writer sends replies. Each waits for a condition on this value and is woken by name.
//!
//! # Invariants
//! - A request is *under way* from the moment it was parsed until its reply was sent or dropped. The reader
//!   admits none that would exceed the limits, so that workers, replies and memory are bounded by them.
//! - A worker has at most one request. There are never more workers than requests may be under way, so one is
//!   always idle or can be started when a request is admitted.

use super::life::Life;
use super::writer::Queued;
use super::{Memory, Refused};
use crate::protocol::{Protocol, Reply};
use platform::{BlockTarget, Env, Host, IoError, IoErrorKind, Slice, Stream, TargetGeometry, TaskId, Work};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use units::ByteCount;

/// What one connection may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Requests under way.
    pub requests: u32,
    /// Bytes of payload memory under way.
    pub bytes: u64,
    /// Bytes of payload memory of one request.
    pub longest: ByteCount,
    /// Nothing may be changed.
    pub read_only: bool,
}

/// What a connection has done, for the log.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    pub requests: u64,
    pub errors: u64,
    pub rejected: u64,
    pub sends: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A request under way, with everything it needs.
pub(super) struct Job<R> {
    pub request: R,
    /// What a write writes.
    pub payload: Option<Slice>,
    pub memory: Option<Memory>,
}

/// A worker's place: where a request is put for it.
struct Worker<R> {
    task: Cell<Option<TaskId>>,
    job: Cell<Option<Job<R>>>,
}

/// One connection to a target: what its protocol may call, and what its tasks share.
pub struct Session<P: Protocol, T> {
    env: Env,
    target: Rc<T>,
    geometry: TargetGeometry,
    protocol: P,
    pub(super) life: Rc<Life>,
    pub(super) stream: Rc<dyn Stream>,
    pub(super) counters: Cell<Counters>,
    /// What others see of it.
    pub(super) host: Arc<Host>,
    pub(super) limits: Limits,
    requests_under_way: Cell<u32>,
    bytes_under_way: Cell<u64>,
    idle: RefCell<Vec<Rc<Worker<P::Request>>>>,
    workers: Cell<u32>,
    pub(super) queue: RefCell<VecDeque<Queued<P::Head>>>,
    writer: Cell<Option<TaskId>>,
    writer_ended: Cell<bool>,
    /// The reader waits for requests to be counted out, or for tasks to end.
    reader_waits: Cell<bool>,
    /// Nothing more will come: workers and writer end when they have nothing to do.
    over: Cell<bool>,
}

impl<P: Protocol, T: BlockTarget> Session<P, T> {
    pub(super) fn new(
        env: &Env,
        target: Rc<T>,
        protocol: P,
        life: &Rc<Life>,
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
            queue: RefCell::default(),
            writer: Cell::new(None),
            writer_ended: Cell::new(false),
            reader_waits: Cell::new(false),
            over: Cell::new(false),
        })
    }

    // What protocols see besides the calls in `requests`.

    /// The shard's world.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// What the client chose. Its own calls are for what [`Session`] has no call for.
    pub fn target(&self) -> &Rc<T> {
        &self.target
    }

    /// The target's size, and which requests suit it.
    pub fn geometry(&self) -> &TargetGeometry {
        &self.geometry
    }

    /// How replies are framed.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Whether the connection ends whatever is under way: long requests may stop early, as nobody hears of them.
    pub fn is_cut(&self) -> bool {
        self.life.is_cut()
    }

    /// Why a call of the target's own failed, as the session's calls say it.
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

    // The reader's side.

    /// Waits until one more request that holds `bytes` fits into the limits, and counts it in.
    pub(super) async fn admit(&self, bytes: u64) {
        // A request larger than the limit goes alone.
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

    /// Hands an admitted request to a worker, which begins with it at once.
    pub(super) fn start(self: &Rc<Self>, job: Job<P::Request>) {
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

    /// Waits until no request is under way.
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

    /// Ends workers and writer, which have nothing left to do, and waits for them.
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

    // The workers' side.

    async fn work(self: Rc<Self>, first: Job<P::Request>) {
        let worker =
            Rc::new(Worker { task: Cell::new(Some(self.env.executor().current())), job: Cell::new(None) });
        let mut next = Some(first);
        while let Some(Job { request, payload, memory }) = next {
            self.env.compute(Work::HostRequest).await;
            let reply = P::execute(&self, request, payload).await;
            if reply.is_error {
                self.count(|counters| counters.errors += 1);
            }
            self.reply(reply, memory);
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

    /// Queues the reply to a request under way.
    pub(super) fn reply(&self, reply: Reply<P::Head>, memory: Option<Memory>) {
        self.queue.borrow_mut().push_back(Queued { reply, memory });
        self.wake_writer();
    }

    // The writer's side.

    /// The task that calls is the writer.
    pub(super) fn set_writer(&self) {
        self.writer.set(Some(self.env.executor().current()));
    }

    /// The writer has ended.
    pub(super) fn writer_ended(&self) {
        self.writer_ended.set(true);
        self.tell_reader();
    }

    fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            self.env.executor().wake(writer);
        }
    }

    /// Waits for replies; false when there will be none.
    pub(super) async fn replies_waiting(&self) -> bool {
        poll_fn(|_| match self.queue.borrow().is_empty() {
            false => Poll::Ready(true),
            true if self.over.get() => Poll::Ready(false),
            true => Poll::Pending,
        })
        .await
    }

    /// Counts out requests whose replies were sent or dropped.
    pub(super) fn release(&self, requests: u32, bytes: u64) {
        self.set_under_way(self.requests_under_way.get() - requests);
        self.bytes_under_way.set(self.bytes_under_way.get() - bytes);
        self.tell_reader();
    }
}
