//! The life of an attachment: connect, serve, reconnect.
//!
//! # Fault model of a lost connection
//! A request without a reply may be done, pending, or never received. A new connection does not
//! reveal that, nor whether the server still has its cache. Hence:
//!
//! - **Unflushed acknowledged writes: the drive is lost** ([`FlushTracker`]). The server may have
//!   lost them, and a flush on a new connection would still succeed. The engine stops using the
//!   drive, and writes the missed data when it returns.
//! - **Reads are sent again.** The old stream is closed, so no late reply can arrive.
//! - **Outstanding writes are sent again as a whole, after [`SETTLE`]**: the lost cache may have
//!   had their acknowledged parts. Assumption: the server finishes the old requests by then,
//!   because NBD cannot confirm it; a later write could overwrite newer data.
//! - **A request whose requester timed out is not sent again.** It stays outstanding until it can
//!   no longer reach the server's storage; the engine does not readmit a drive with outstanding
//!   operations.
//! - **After [`CONNECT_LIMIT`] without a connection the drive is lost.** Unsettled writes fail at
//!   once, and return their buffers after [`SETTLE`]. An idle drive reconnects on its next request.
//!
//! [`FlushTracker`]: super::standing::FlushTracker

use super::connection::{Connection, GONE, OUTSTANDING, Transmission};
use super::handshake::{leave, shake_hands};
use super::job::{self, Job, Plan};
use nbd::ClientStream;
use platform::{Instant, Stream};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The assumed time in which a server performs requests received on a closed connection.
const SETTLE: Duration = Duration::from_secs(5);
/// How long requests wait for a connection; well below the time limit of an operation.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// The time limit of one connection attempt.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The pause after the first failed attempt; each further pause is twice as long, up to the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The result of a connection attempt.
enum Attempt {
    Connected(Link),
    Failed,
    /// The address now has a different export.
    Different,
}

/// An open connection, and the bytes received after the handshake.
struct Link {
    stream: Rc<dyn Stream>,
    protocol: Box<ClientStream>,
    rest: Vec<u8>,
}

impl Connection {
    /// Starts the background task, which runs until the drive is lost or closed.
    pub(super) fn open(self: &Rc<Self>) {
        let connection = self.clone();
        self.env.spawn("nbd connection", async move {
            connection.live().await;
            connection.end().await;
        });
    }

    async fn live(self: &Rc<Self>) {
        while let Some(link) = self.connect().await {
            self.resume();
            self.transmit(link).await;
            if self.is_closed() || !self.broke_off() {
                return;
            }
        }
    }

    /// The attachment is closed and has no outstanding requests.
    fn is_closed(&self) -> bool {
        self.closing.get() && self.is_idle()
    }

    /// Connects with retries, until the drive is lost or closed.
    async fn connect(self: &Rc<Self>) -> Option<Link> {
        self.env.sleep_until(self.settled_at.get()).await;
        let mut pause = FIRST_PAUSE;
        loop {
            if self.export.standing.is_lost() || self.is_closed() {
                return None;
            }
            match self.attempt().await {
                Attempt::Connected(link) => return Some(link),
                Attempt::Different => return None,
                Attempt::Failed => {}
            }
            if self.is_idle() {
                let is_wanted = || self.closing.get() || !self.is_idle();
                self.news.wait_until(&self.env, is_wanted).await;
                pause = FIRST_PAUSE;
                continue;
            }
            if self.env.now_running() + pause >= self.waiting_since.get() + CONNECT_LIMIT {
                return None;
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self) -> Attempt {
        // Before connecting: a later connection loss then belongs to this epoch.
        self.epoch.set(self.export.standing.epoch());
        let (env, address) = (&self.env, self.export.address());
        let connecting = within(env, ATTEMPT, env.world().connect(&address)).await;
        let Some(Ok(source)) = connecting else { return Attempt::Failed };
        let Ok(stream) = source.attach(env) else { return Attempt::Failed };
        let Ok((connected, rest)) = shake_hands(env, &stream, &self.export.uri, ATTEMPT).await
        else {
            return Attempt::Failed;
        };
        let known = &self.export.connected;
        if (connected.size_bytes, connected.flags, connected.block_sizes)
            != (known.size_bytes, known.flags, known.block_sizes)
        {
            leave(&stream, &connected).await;
            return Attempt::Different;
        }
        Attempt::Connected(Link {
            stream,
            protocol: Box::new(ClientStream::new(connected, OUTSTANDING)),
            rest,
        })
    }

    /// Resends all waiting requests from their beginning, and returns those whose requester timed
    /// out: they are settled.
    fn resume(&self) {
        self.queue.borrow_mut().clear();
        let count = self.jobs.borrow().len();
        for index in 0..count {
            let mut jobs = self.jobs.borrow_mut();
            let Some(job) = &mut jobs[index] else { continue };
            match job::plan(&job.request, &self.export.connected, index) {
                Plan::Pieces(pieces, then_flush) if job.is_awaited() => {
                    job.start_again(pieces.len(), then_flush);
                    self.queue.borrow_mut().extend(pieces);
                }
                _ => {
                    let job = jobs[index].take();
                    self.free_jobs.borrow_mut().push(index);
                    drop(jobs);
                    job.into_iter().for_each(|job| job.finish(Some(GONE)));
                }
            }
        }
    }

    /// Sends and receives until the connection ends.
    async fn transmit(self: &Rc<Self>, link: Link) {
        let Link { stream, protocol, rest } = link;
        let sent = (0..OUTSTANDING).map(|_| None).collect();
        *self.transmission.borrow_mut() = Some(Transmission { protocol, sent });
        self.cut_off.set(false);
        let (sender, sending) = (self.clone(), stream.clone());
        let sending = self.env.spawn("nbd sender", async move { sender.send_all(sending).await });
        self.receive_all(&stream, rest).await;
        self.cut_off.set(true);
        stream.abort();
        self.news.notify(&self.env);
        sending.await;
    }

    /// Updates the state after a connection ends. False: the drive is lost.
    fn broke_off(&self) -> bool {
        self.queue.borrow_mut().clear();
        let now = self.env.now();
        let sent =
            self.transmission.take().map(|transmission| transmission.sent).unwrap_or_default();
        for piece in sent.into_iter().flatten().filter(|piece| job::changes(piece.command)) {
            if let Some(job) = &mut self.jobs.borrow_mut()[piece.job] {
                job.may_land_until = now + SETTLE;
                self.settled_at.set(now + SETTLE);
            }
        }
        self.waiting_since.set(self.env.now_running());
        self.export.standing.broke(self.epoch.get())
    }

    /// Completes all requests that the server will never answer.
    async fn end(&self) {
        if !self.is_closed() {
            self.export.standing.lose();
        }
        self.over.set(true);
        self.queue.borrow_mut().clear();
        let lost: Vec<Job> = self.jobs.borrow_mut().iter_mut().filter_map(Option::take).collect();
        self.jobs.borrow_mut().clear();
        self.free_jobs.borrow_mut().clear();
        let now = self.env.now();
        let (settled, late): (Vec<Job>, Vec<Job>) =
            lost.into_iter().partition(|job| job.may_land_until <= now);
        late.iter().for_each(|job| job.fail_early(GONE));
        settled.into_iter().for_each(|job| job.finish(Some(GONE)));
        let settled_at =
            late.iter().map(|job| job.may_land_until).max().unwrap_or(Instant::default());
        self.env.sleep_until(settled_at).await;
        late.into_iter().for_each(|job| job.finish(Some(GONE)));
    }
}

/// The output of `future`, or `None` after `limit`.
async fn within<T>(
    env: &platform::Env,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let (mut future, mut limit) = (pin!(future), pin!(env.sleep_running(limit)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}
