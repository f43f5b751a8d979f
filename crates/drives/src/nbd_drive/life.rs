//! The life of an attachment: connecting, serving, and connecting again.
//!
//! # What a broken connection means
//! Of a request that was sent and not answered nobody knows whether the server has carried it out, will yet, or
//! never saw it. A new connection tells nothing about that, nor whether the server still has what it had in its
//! cache. So:
//!
//! - **Something acknowledged was not yet flushed: the drive is lost**, at once and for good ([`Standing`]). The
//!   server may have lost it, and a flush on a new connection would vouch for it all the same. The engine takes
//!   the drive out, and what it missed is written when it comes back.
//! - **Reads are asked again.** What an earlier connection might still have brought can reach nobody: its stream
//!   is closed.
//! - **Writes that were under way are written again, after [`SETTLE`]**: the old connection is cut off with
//!   what had not left this machine, and a server carries out what it had received within that time. This is an
//!   assumption, NBD has nothing better; a write that lands later still could hit data written since. A request is
//!   written again as a whole: the parts that were answered may have been in a cache that is no more.
//! - **A request whose waiter has gone (its time limit passed) is not sent again.** It is returned once it can no
//!   longer land, never before: until then it counts as outstanding, and the engine does not readmit a drive
//!   that has operations outstanding.
//! - **Nobody waits longer than [`PATIENCE`]**: then the drive is lost. Those whose writes may still land are told
//!   at once and returned after [`SETTLE`].
//!
//! A drive that nobody wants anything of connects again when somebody does.
//!
//! [`Standing`]: super::standing::Standing

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

/// The time in which a server carries out what it received of a connection that was cut off.
const SETTLE: Duration = Duration::from_secs(5);
/// How long requests wait for a connection: well below the time limit of an operation.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The pause after the first attempt that failed; each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How an attempt to connect ended.
enum Attempt {
    Connected(Link),
    Failed,
    /// The export at that address is another one now.
    Different,
}

/// A connection that was made, and what was received beyond the handshake.
struct Link {
    stream: Rc<dyn Stream>,
    protocol: Box<ClientStream>,
    rest: Vec<u8>,
}

impl Connection {
    /// Lives in the background, until the drive is lost or closed.
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

    /// Nobody wants anything any more, now or later.
    fn is_closed(&self) -> bool {
        self.closing.get() && self.is_idle()
    }

    /// Tries until it works, as long as it makes sense.
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
            if self.env.now_running() + pause >= self.waiting_since.get() + PATIENCE {
                return None;
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self) -> Attempt {
        // Before the connection is made: a break after this is one of this connection's age.
        self.age.set(self.export.standing.age());
        let (env, address) = (&self.env, self.export.address());
        let connecting = within(env, ATTEMPT, env.world().connect(&address)).await;
        let Some(Ok(source)) = connecting else { return Attempt::Failed };
        let Ok(stream) = source.attach(env) else { return Attempt::Failed };
        let Ok((connected, rest)) = shake_hands(env, &stream, &self.export.uri, ATTEMPT).await else {
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

    /// Puts everything that waits to the server, from its beginning. What nobody waits for any more is returned:
    /// it has settled.
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

    /// Takes stock after a connection has ended. False: the drive is lost.
    fn broke_off(&self) -> bool {
        self.queue.borrow_mut().clear();
        let now = self.env.now();
        let sent = self.transmission.take().map(|transmission| transmission.sent).unwrap_or_default();
        for piece in sent.into_iter().flatten().filter(|piece| job::changes(piece.command)) {
            if let Some(job) = &mut self.jobs.borrow_mut()[piece.job] {
                job.may_land_until = now + SETTLE;
                self.settled_at.set(now + SETTLE);
            }
        }
        self.waiting_since.set(self.env.now_running());
        self.export.standing.broke(self.age.get())
    }

    /// The end: answers everything that will never be answered by the server.
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
        let settled_at = late.iter().map(|job| job.may_land_until).max().unwrap_or(Instant::default());
        self.env.sleep_until(settled_at).await;
        late.into_iter().for_each(|job| job.finish(Some(GONE)));
    }
}

/// What `future` gives, unless it takes longer than `limit`.
async fn within<T>(env: &platform::Env, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut limit) = (pin!(future), pin!(env.sleep_running(limit)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}
