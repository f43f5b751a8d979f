//! One connection: how far it is, and its deadlines.
//!
//! Invariants: every phase before an answer has a total deadline, which bytes that arrive do not move; a connection that is not
//! signed in has one for its answer as well. A signed-in client may be answered for as long as it takes what it is sent: streams of
//! events stay open.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a connection may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// The TLS handshake, in all.
    pub(crate) handshake: Duration,
    /// The headers of a request, from the first byte to the last.
    pub(crate) headers: Duration,
    /// The body of a request, in all.
    pub(crate) body: Duration,
    /// The answer to a client that is not signed in, in all.
    pub(crate) answer: Duration,
    /// A signed-in client that does not take what it is sent.
    pub(crate) stalled: Duration,
    /// Between two requests, while it is not signed in.
    pub(crate) idle: Duration,
    /// Between two requests of a signed-in client.
    pub(crate) idle_signed_in: Duration,
}

impl Deadlines {
    /// Those of the port for management.
    pub(crate) const MANAGEMENT: Deadlines = Deadlines {
        handshake: Duration::from_secs(10),
        headers: Duration::from_secs(10),
        body: Duration::from_secs(30),
        answer: Duration::from_secs(60),
        stalled: Duration::from_secs(150),
        idle: Duration::from_secs(15),
        idle_signed_in: Duration::from_secs(150),
    };

    /// Those of a port for metrics, where nobody signs in: collectors keep connections between two scrapes.
    pub(crate) const METRICS: Deadlines =
        Deadlines { idle: Duration::from_secs(150), ..Deadlines::MANAGEMENT };
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The TLS handshake.
    Handshake,
    /// A request begins.
    Headers,
    /// Its headers are there.
    Body,
    /// It is there as a whole, and is answered.
    Answer,
    /// The answer is made, and not sent as a whole.
    Sending,
    /// It was answered.
    Idle,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// When the phase began; of [`Phase::Sending`] the one before it.
    since: Instant,
    /// When the client last took a part of an answer.
    taken: Instant,
    /// Since when the client does not take what it is sent.
    stalled: Option<Instant>,
    is_signed_in: bool,
    /// It has to make room.
    has_to_end: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    deadlines: Deadlines,
    state: Mutex<State>,
    changed: Notify,
}

impl Link {
    /// A connection that begins with a TLS handshake, or with a request.
    pub(crate) fn new(deadlines: Deadlines, has_tls: bool) -> Arc<Link> {
        let phase = if has_tls { Phase::Handshake } else { Phase::Headers };
        let (since, stalled) = (Instant::now(), None);
        let state = State { phase, since, taken: since, stalled, is_signed_in: false, has_to_end: false };
        Arc::new(Link { deadlines, state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_one();
    }

    fn enter(&self, phase: Phase) {
        self.change(|state| (state.phase, state.since) = (phase, Instant::now()));
    }

    /// A request proved to be of an account.
    pub(crate) fn sign_in(&self) {
        self.change(|state| state.is_signed_in = true);
    }

    /// Has the connection end, since another one needs its place.
    pub(super) fn end(&self) {
        self.change(|state| state.has_to_end = true);
    }

    pub(super) fn is_signed_in(&self) -> bool {
        self.state().is_signed_in
    }

    /// Since when it is between two requests.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.phase == Phase::Idle).then_some(state.since)
    }

    /// The handshake is done.
    pub(super) fn greeted(&self) {
        self.enter(Phase::Headers);
    }

    /// The headers of a request are there.
    pub(super) fn asked(&self) {
        self.enter(Phase::Body);
    }

    /// The body of the request is there.
    pub(super) fn heard(&self) {
        if self.state().phase == Phase::Body {
            self.enter(Phase::Answer);
        }
    }

    /// The answer to the request is made.
    pub(super) fn answered(&self) {
        self.change(|state| (state.phase, state.taken) = (Phase::Sending, Instant::now()));
    }

    fn received(&self) {
        if self.state().phase == Phase::Idle {
            self.enter(Phase::Headers);
        }
    }

    /// A part of an answer was taken by the client, or has to wait for it.
    fn sent(&self, has_to_wait: bool) {
        let mut state = self.state();
        match (has_to_wait, state.stalled) {
            (true, None) => {
                state.stalled = Some(Instant::now());
                drop(state);
                self.changed.notify_one();
            }
            (true, Some(_)) => {}
            // This moves deadlines away: they are looked at again when they are over.
            (false, _) => (state.stalled, state.taken) = (None, Instant::now()),
        }
    }

    /// All that was to be sent was sent.
    pub(super) fn flushed(&self) {
        self.sent(false);
        if self.state().phase == Phase::Sending {
            self.enter(Phase::Idle);
        }
    }

    /// Until when it may go on like this; `None`: for ever.
    fn until(&self) -> Option<Instant> {
        let (deadlines, state) = (&self.deadlines, self.state());
        if state.has_to_end {
            return Some(state.since);
        }
        let phase = match state.phase {
            Phase::Handshake => Some(deadlines.handshake),
            Phase::Headers => Some(deadlines.headers),
            Phase::Body => Some(deadlines.body),
            Phase::Answer if state.is_signed_in => None,
            Phase::Sending if state.is_signed_in => Some(deadlines.stalled),
            Phase::Answer | Phase::Sending => Some(deadlines.answer),
            Phase::Idle if state.is_signed_in => Some(deadlines.idle_signed_in),
            Phase::Idle => Some(deadlines.idle),
        };
        let takes = state.phase == Phase::Sending && state.is_signed_in;
        let since = if takes { state.taken } else { state.since };
        let phase = phase.map(|limit| since + limit);
        let stalled = state.stalled.map(|since| since + deadlines.stalled);
        phase.into_iter().chain(stalled).min()
    }

    /// Waits until the connection has to end.
    pub(super) async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            match self.until() {
                Some(until) if until <= Instant::now() => return,
                // Either way it is looked at again: what changes moves the deadline.
                Some(until) => tokio::time::timeout_at(until, changed).await.unwrap_or_default(),
                None => changed.await,
            }
        }
    }
}

/// A stream that tells its [`Link`] what passes.
pub(super) struct Watched<S> {
    pub(super) stream: S,
    pub(super) link: Arc<Link>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.link.received();
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.link.sent(poll.is_pending());
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        match poll.is_pending() {
            true => self.link.sent(true),
            false => self.link.flushed(),
        }
        poll
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        if poll.is_pending() {
            self.link.sent(true);
        }
        poll
    }
}
