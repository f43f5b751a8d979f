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

use super::requests::{self, Job};
use super::writer::Reply;
use ::nbd::{Negotiated, Replies};
use engine::{Shard, Volume, VolumeId};
use env::{Env, Instant, Stream, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// What the shard knows of a connection while it lives, handshake included.
pub(super) struct Life {
    env: Env,
    stream: Rc<dyn Stream>,
    pub peer: String,
    stopping: Cell<bool>,
    cut: Cell<bool>,
    /// The session's own task.
    reader: Cell<Option<TaskId>>,
    /// Which volume, once the handshake is over.
    pub volume: Cell<Option<VolumeId>>,
    /// Bytes moved, either way.
    pub moved_bytes: Cell<u64>,
    /// Whether the client stands between us and memory: in the middle of a payload, or of taking replies.
    receiving_payload: Cell<bool>,
    sending: Cell<bool>,
    /// What the shard saw last, and since when it has not changed.
    pub seen: Cell<(u64, Instant)>,
}

impl Life {
    pub fn new(env: &Env, stream: Rc<dyn Stream>, peer: String) -> Rc<Life> {
        Rc::new(Life {
            env: env.clone(),
            stream,
            peer,
            stopping: Cell::new(false),
            cut: Cell::new(false),
            reader: Cell::new(None),
            volume: Cell::new(None),
            moved_bytes: Cell::new(0),
            receiving_payload: Cell::new(false),
            sending: Cell::new(false),
            seen: Cell::new((0, env.now())),
        })
    }

    /// The task that calls is the session's own.
    pub fn set_reader(&self) {
        self.reader.set(Some(self.env.executor().current()));
    }

    pub fn wake_reader(&self) {
        if let Some(reader) = self.reader.get() {
            self.env.executor().wake(reader);
        }
    }

    /// Ends the connection as soon as its requests under way are answered; a handshake at once.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.wake_reader();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Ends the connection now: receives and sends end, replies are dropped.
    pub fn cut(&self) {
        if !self.cut.replace(true) {
            self.stream.shutdown();
        }
    }

    pub fn is_cut(&self) -> bool {
        self.cut.get()
    }

    pub fn progressed(&self, bytes: u64) {
        self.moved_bytes.set(self.moved_bytes.get() + bytes);
    }

    pub fn set_receiving_payload(&self, receiving: bool) {
        self.receiving_payload.set(receiving);
    }

    pub fn set_sending(&self, sending: bool) {
        self.sending.set(sending);
    }

    /// Whether the client's next move is what gives memory back.
    pub fn holds_memory(&self) -> bool {
        self.receiving_payload.get() || self.sending.get()
    }
}

/// What one connection may have under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub requests: u32,
    pub bytes: u64,
}

/// What a connection has done, for the log.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    pub requests: u64,
    pub errors: u64,
    pub rejected: u64,
    pub sends: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A worker's place: where a request is put for it.
#[derive(Default)]
struct Worker {
    task: Cell<Option<TaskId>>,
    job: Cell<Option<Job>>,
}

/// See the [module](self).
pub(super) struct Connection {
    pub shard: Shard,
    pub volume: Rc<Volume>,
    pub life: Rc<Life>,
    pub stream: Rc<dyn Stream>,
    pub replies: Replies,
    pub counters: Cell<Counters>,
    limits: Limits,
    requests_under_way: Cell<u32>,
    bytes_under_way: Cell<u64>,
    idle: RefCell<Vec<Rc<Worker>>>,
    workers: Cell<u32>,
    pub(super) queue: RefCell<VecDeque<Reply>>,
    writer: Cell<Option<TaskId>>,
    writer_ended: Cell<bool>,
    /// The reader waits for requests to be counted out, or for tasks to end.
    reader_waits: Cell<bool>,
    /// Nothing more will come: workers and writer end when they have nothing to do.
    over: Cell<bool>,
}

impl Connection {
    pub fn new(
        shard: &Shard,
        volume: Rc<Volume>,
        life: &Rc<Life>,
        negotiated: &Negotiated,
        limits: Limits,
    ) -> Rc<Connection> {
        Rc::new(Connection {
            shard: shard.clone(),
            volume,
            life: life.clone(),
            stream: life.stream.clone(),
            replies: Replies::new(negotiated),
            counters: Cell::default(),
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

    pub fn env(&self) -> &Env {
        self.shard.env()
    }

    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    // The reader's side.

    /// Waits until one more request that holds `bytes` fits into the limits, and counts it in.
    pub async fn admit(&self, bytes: u64) {
        // A request larger than the limit goes alone.
        let bytes_limit = self.limits.bytes.max(bytes);
        self.reader_until(|| {
            self.requests_under_way.get() < self.limits.requests
                && self.bytes_under_way.get() + bytes <= bytes_limit
        })
        .await;
        self.requests_under_way.set(self.requests_under_way.get() + 1);
        self.bytes_under_way.set(self.bytes_under_way.get() + bytes);
        self.count(|counters| counters.requests += 1);
    }

    /// Hands an admitted request to a worker.
    pub fn start(self: &Rc<Self>, job: Job) {
        let idle = self.idle.borrow_mut().pop();
        match idle {
            Some(worker) => {
                worker.job.set(Some(job));
                if let Some(task) = worker.task.get() {
                    self.env().executor().wake(task);
                }
            }
            None => {
                self.workers.set(self.workers.get() + 1);
                self.env().spawn("nbd worker", self.clone().work(job));
            }
        }
    }

    /// Waits until no request is under way.
    pub async fn drained(&self) {
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
    pub async fn end(&self) {
        self.over.set(true);
        for worker in self.idle.take() {
            if let Some(task) = worker.task.get() {
                self.env().executor().wake(task);
            }
        }
        self.wake_writer();
        self.reader_until(|| self.workers.get() == 0 && self.writer_ended.get()).await;
    }

    // The workers' side.

    async fn work(self: Rc<Self>, first: Job) {
        let worker =
            Rc::new(Worker { task: Cell::new(Some(self.env().executor().current())), job: Cell::new(None) });
        let mut next = Some(first);
        while let Some(job) = next {
            let reply = requests::execute(&self, job).await;
            self.reply(reply);
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
    pub fn reply(&self, reply: Reply) {
        self.queue.borrow_mut().push_back(reply);
        self.wake_writer();
    }

    // The writer's side.

    /// The task that calls is the writer.
    pub fn set_writer(&self) {
        self.writer.set(Some(self.env().executor().current()));
    }

    /// The writer has ended.
    pub fn writer_ended(&self) {
        self.writer_ended.set(true);
        self.tell_reader();
    }

    fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            self.env().executor().wake(writer);
        }
    }

    /// Waits for replies; false when there will be none.
    pub async fn replies_waiting(&self) -> bool {
        poll_fn(|_| match self.queue.borrow().is_empty() {
            false => Poll::Ready(true),
            true if self.over.get() => Poll::Ready(false),
            true => Poll::Pending,
        })
        .await
    }

    /// Counts out requests whose replies were sent or dropped.
    pub fn release(&self, requests: u32, bytes: u64) {
        self.requests_under_way.set(self.requests_under_way.get() - requests);
        self.bytes_under_way.set(self.bytes_under_way.get() - bytes);
        self.tell_reader();
    }
}
