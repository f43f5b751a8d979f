//! How interfaces reach the controller, from any thread.

use crate::events::{EventCode, EventFeed};
use crate::interface::{Caller, Command, Error, ErrorKind, OrderGiven, Reply, Result};
use platform::{Env, mailbox};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::ByteCount;

/// Receives the reply to a command, on the controller's thread; it must not block.
pub type Answer = Box<dyn FnOnce(Result<Reply>) + Send>;

/// A command sent to the controller, and the receiver of its reply.
pub struct Request {
    /// The request.
    pub asked: Asked,
    /// Called once, on completion.
    pub answer: Answer,
}

/// A request to the controller.
pub enum Asked {
    /// Execute a command for a caller; `None`: for this process itself.
    Command(Box<Command>, Option<Caller>),
    /// Reply when the start has reached this phase.
    When(Phase),
}

/// How far the start of a controller has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Phase {
    /// The controller opens drives. It refuses changes and queries about volumes.
    #[default]
    Opening,
    /// Complete arrays serve hosts; others may wait for drives that do not respond. All commands
    /// are executed.
    Serving,
    /// No array waits for a drive.
    Started,
}

/// A report of an interface to the controller.
pub enum Note {
    /// An event outside the controller.
    Occurrence(Occurrence),
    /// A request refused for missing permissions.
    Refused(OrderGiven, Error),
    /// An order that an interface executed or refused. The function is called when it is recorded,
    /// or with the reason why it is not: a sentence.
    Order(OrderGiven, Option<Error>, Box<dyn FnOnce(Option<String>) + Send>),
}

/// An event of an interface: something that happened to accounts or connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occurrence {
    /// The kind of event.
    pub code: EventCode,
    /// The subject.
    pub subject: String,
    /// Why.
    pub cause: String,
    /// The effect.
    pub effect: String,
    /// The whole event in one sentence.
    pub text: String,
    /// The caller that caused it; `None` if unknown.
    pub by: Option<Caller>,
}

/// Access to the controller. Clone it for every user; it may be sent to any thread.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(crate) commands: mailbox::Sender<Request>,
    pub(crate) notes: mailbox::Sender<Note>,
    pub(crate) events: EventFeed,
    pub(crate) unfinished: Arc<Unfinished>,
}

/// The unfinished work of a shutdown. Any thread may read it, even while the controller's thread
/// waits.
#[derive(Default, Debug)]
pub struct Unfinished {
    arrays: AtomicU64,
    dirty: AtomicU64,
}

impl Unfinished {
    /// Arrays that are not stopped yet.
    pub fn arrays(&self) -> u64 {
        self.arrays.load(Ordering::Relaxed)
    }

    /// Dirty data in the cache.
    pub fn dirty_bytes(&self) -> ByteCount {
        ByteCount(self.dirty.load(Ordering::Relaxed))
    }

    /// Sets the number of arrays to stop.
    pub(super) fn begin(&self, arrays: u64) {
        self.arrays.store(arrays, Ordering::Relaxed);
    }

    /// Counts one stopped array.
    pub(super) fn one_less(&self) {
        let left = self.arrays().saturating_sub(1);
        self.arrays.store(left, Ordering::Relaxed);
    }

    pub(super) fn set_dirty(&self, bytes: u64) {
        self.dirty.store(bytes, Ordering::Relaxed);
    }
}

impl ControllerHandle {
    /// Sends a command for this process itself: see [`ask_as`](Self::ask_as).
    pub fn ask(&self, command: Command, answer: impl FnOnce(Result<Reply>) + Send + 'static) {
        self.ask_as(None, command, answer);
    }

    /// Sends a command for a caller, from any thread. `answer` is called on the controller's thread
    /// on completion, or at once on this thread if the controller cannot take the command. The
    /// events of a change name the caller.
    pub fn ask_as(
        &self,
        caller: Option<Caller>,
        command: Command,
        answer: impl FnOnce(Result<Reply>) + Send + 'static,
    ) {
        self.send(Asked::Command(Box::new(command), caller), answer);
    }

    /// Waits on the controller's shard until the start has reached this phase. Returns at once if
    /// the controller has stopped or is stopping.
    pub async fn reaches(&self, env: &Env, phase: Phase) {
        let (sender, mut reply) = mailbox::mailbox(env, 1);
        self.send(Asked::When(phase), move |result| {
            if sender.send(result).is_err() {
                tracing::debug!("the caller no longer waits for the start of the controller");
            }
        });
        reply.receive().await;
    }

    fn send(&self, asked: Asked, answer: impl FnOnce(Result<Reply>) + Send + 'static) {
        let request = Request { asked, answer: Box::new(answer) };
        if let Err(mailbox::Full(request)) = self.commands.send(request) {
            (request.answer)(Err(Error::new(
                ErrorKind::Busy,
                "the controller is busy with other commands, or has stopped; try again",
            )));
        }
    }

    /// The unfinished work of a shutdown, once it begins.
    pub fn unfinished(&self) -> Arc<Unfinished> {
        self.unfinished.clone()
    }

    /// Sends an event to the controller, from any thread.
    pub fn note(&self, occurrence: Occurrence) {
        if let Err(mailbox::Full(Note::Occurrence(lost))) =
            self.notes.send(Note::Occurrence(occurrence))
        {
            tracing::error!(
                "an event was dropped, since too many events are waiting: {}",
                lost.text
            );
        }
    }

    /// Sends the controller a request that was refused for missing permissions, from any thread.
    pub fn refused(&self, given: OrderGiven, why: Error) {
        if let Err(mailbox::Full(_)) = self.notes.send(Note::Refused(given, why)) {
            tracing::error!(
                "a command refused for missing rights is not recorded in the audit trail: too many \
                 are waiting"
            );
        }
    }

    /// Sends the controller an order that an interface executed or refused, from any thread.
    /// `answer` is called on the controller's thread when it is stored, or with the reason why it
    /// is not.
    pub fn record(
        &self,
        given: OrderGiven,
        refused: Option<Error>,
        answer: impl FnOnce(Option<String>) + Send + 'static,
    ) {
        let note = Note::Order(given, refused, Box::new(answer));
        if let Err(mailbox::Full(Note::Order(given, _, answer))) = self.notes.send(note) {
            tracing::error!(
                "the command '{}' is not recorded in the audit trail: the controller is busy, or \
                 has stopped",
                given.order
            );
            answer(Some(
                "this command is not recorded in the audit trail: the controller is busy, or has \
                 stopped"
                    .to_owned(),
            ));
        }
    }

    /// The events that the controller keeps in memory; any thread may subscribe.
    pub fn events(&self) -> &EventFeed {
        &self.events
    }

    /// Sends a command for this process itself and waits for the reply, on the controller's shard.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn command(&self, env: &Env, command: Command) -> Result<Reply> {
        self.command_as(env, None, command).await
    }

    /// The same for a caller.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn command_as(
        &self,
        env: &Env,
        caller: Option<Caller>,
        command: Command,
    ) -> Result<Reply> {
        let (sender, mut reply) = mailbox::mailbox(env, 1);
        self.ask_as(caller, command, move |result| {
            if sender.send(result).is_err() {
                tracing::debug!("the caller no longer waits for the reply to a command");
            }
        });
        let gone =
            || Err(Error::new(ErrorKind::Stopping, "the controller has stopped; start it again"));
        reply.receive().await.unwrap_or_else(gone)
    }
}
