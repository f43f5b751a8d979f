//! The state of one connection, and its deadlines.
//!
//! Invariants: every phase before a response has a total deadline, which received bytes do not
//! extend. A connection without sign-in also has one for its response. A signed-in client may
//! receive a response as long as it keeps reading: event streams stay open.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// The complete TLS handshake.
    pub(crate) handshake: Duration,
    /// The headers of a request, from the first byte to the last.
    pub(crate) headers: Duration,
    /// The complete body of a request.
    pub(crate) body: Duration,
    /// The complete response to a client without sign-in.
    pub(crate) answer: Duration,
    /// A signed-in client that does not read its response.
    pub(crate) stalled: Duration,
    /// The pause between two requests without sign-in.
    pub(crate) idle: Duration,
    /// The pause between two requests of a signed-in client.
    pub(crate) idle_signed_in: Duration,
}

impl Deadlines {
    /// Deadlines of the management port.
    pub(crate) const MANAGEMENT: Deadlines = Deadlines {
        handshake: Duration::from_secs(10),
        headers: Duration::from_secs(10),
        body: Duration::from_secs(30),
        answer: Duration::from_secs(60),
        stalled: Duration::from_secs(150),
        idle: Duration::from_secs(15),
        idle_signed_in: Duration::from_secs(150),
    };

    /// Deadlines of a metrics port, without sign-in: collectors keep connections between two
    /// scrapes.
    pub(crate) const METRICS: Deadlines =
        Deadlines { idle: Duration::from_secs(150), ..Deadlines::MANAGEMENT };
}

/// The phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The TLS handshake.
    Handshake,
    /// Receiving headers.
    Headers,
    /// Receiving the body.
    Body,
    /// Processing a complete request.
    Answer,
    /// Sending the response.
    Sending,
    /// Between two requests.
    Idle,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Start of the phase; for [`Phase::Sending`] that of the previous one.
    since: Instant,
    /// Time when the client last read a part of a response.
    taken: Instant,
    /// Time since when the client has not read.
    stalled: Option<Instant>,
    is_signed_in: bool,
    /// The connection must close for another one.
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
    /// A new connection, with or without a TLS handshake.
    pub(crate) fn new(deadlines: Deadlines, has_tls: bool) -> Arc<Link> {
        let phase = if has_tls { Phase::Handshake } else { Phase::Headers };
        let (since, stalled) = (Instant::now(), None);
        let state =
            State { phase, since, taken: since, stalled, is_signed_in: false, has_to_end: false };
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

    /// A request was authenticated.
    pub(crate) fn sign_in(&self) {
        self.change(|state| state.is_signed_in = true);
    }

    /// Closes the connection for another one.
    pub(super) fn end(&self) {
        self.change(|state| state.has_to_end = true);
    }

    pub(super) fn is_signed_in(&self) -> bool {
        self.state().is_signed_in
    }

    /// The time since when it is idle.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.phase == Phase::Idle).then_some(state.since)
    }

    /// The handshake is complete.
    pub(super) fn greeted(&self) {
        self.enter(Phase::Headers);
    }

    /// The headers of a request are complete.
    pub(super) fn asked(&self) {
        self.enter(Phase::Body);
    }

    /// The body of the request is complete.
    pub(super) fn heard(&self) {
        if self.state().phase == Phase::Body {
            self.enter(Phase::Answer);
        }
    }

    /// The response is ready.
    pub(super) fn answered(&self) {
        self.change(|state| (state.phase, state.taken) = (Phase::Sending, Instant::now()));
    }

    fn received(&self) {
        if self.state().phase == Phase::Idle {
            self.enter(Phase::Headers);
        }
    }

    /// The client has read a part of a response, or the connection has to wait for it.
    fn sent(&self, has_to_wait: bool) {
        let mut state = self.state();
        match (has_to_wait, state.stalled) {
            (true, None) => {
                state.stalled = Some(Instant::now());
                drop(state);
                self.changed.notify_one();
            }
            (true, Some(_)) => {}
            // This extends deadlines: they are checked again when they expire.
            (false, _) => (state.stalled, state.taken) = (None, Instant::now()),
        }
    }

    /// The response is sent completely.
    pub(super) fn flushed(&self) {
        self.sent(false);
        if self.state().phase == Phase::Sending {
            self.enter(Phase::Idle);
        }
    }

    /// The current deadline; `None`: none.
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

    /// Waits until the connection must end.
    pub(super) async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            match self.until() {
                Some(until) if until <= Instant::now() => return,
                // In both cases the deadline is computed again.
                Some(until) => tokio::time::timeout_at(until, changed).await.unwrap_or_default(),
                None => changed.await,
            }
        }
    }
}

/// A stream that reports its progress to its [`Link`].
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

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        match poll.is_pending() {
            true => self.link.sent(true),
            false => self.link.flushed(),
        }
        poll
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        if poll.is_pending() {
            self.link.sent(true);
        }
        poll
    }
}
