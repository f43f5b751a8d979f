//! How interfaces reach the controller, from any thread.

use crate::events::{EventCode, EventFeed};
use crate::interface::{Caller, Command, Error, ErrorKind, OrderGiven, Reply, Result};
use platform::{Env, mailbox};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::ByteCount;

/// Takes the answer to a command, on the controller's thread: it must not block.
pub type Answer = Box<dyn FnOnce(Result<Reply>) + Send>;

/// A command on its way to the controller, and where its answer goes.
pub struct Request {
    /// What is asked.
    pub asked: Asked,
    /// Called once, when it is done.
    pub answer: Answer,
}

/// What is asked of the controller.
pub enum Asked {
    /// To carry a command out, for somebody; `None`: this process itself.
    Command(Box<Command>, Option<Caller>),
    /// To answer when the start has come so far.
    When(Phase),
}

/// How far the start of a controller has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Phase {
    /// Drives are opened. Questions about volumes, and changes, are refused.
    #[default]
    Opening,
    /// Arrays that are complete serve hosts; others may wait for drives that have not answered. Every command is carried out.
    Serving,
    /// No array waits for a drive.
    Started,
}

/// What interfaces report to the controller.
pub enum Note {
    /// An event that happened outside of it.
    Occurrence(Occurrence),
    /// Something was refused for want of rights.
    Refused(OrderGiven, Error),
    /// An order that an interface carried out, or refused. It is answered when it is recorded, or why it is not: a sentence.
    Order(OrderGiven, Option<Error>, Box<dyn FnOnce(Option<String>) + Send>),
}

/// An event of an interface: something that happened to accounts or connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occurrence {
    /// Which kind of event.
    pub code: EventCode,
    /// What it happened to.
    pub subject: String,
    /// Why.
    pub cause: String,
    /// What it changes.
    pub effect: String,
    /// All of it in one sentence.
    pub text: String,
    /// Who brought it about; `None`: nobody who is known.
    pub by: Option<Caller>,
}

/// Reaches the controller. Clone it for every user; it may go to any thread.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(crate) commands: mailbox::Sender<Request>,
    pub(crate) notes: mailbox::Sender<Note>,
    pub(crate) events: EventFeed,
    pub(crate) unfinished: Arc<Unfinished>,
}

/// What a stop has not finished yet. Any thread may look, also while the controller's own thread waits for something.
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

    /// What the cache has and the drives do not.
    pub fn dirty_bytes(&self) -> ByteCount {
        ByteCount(self.dirty.load(Ordering::Relaxed))
    }

    /// So many arrays are to be stopped.
    pub(super) fn begin(&self, arrays: u64) {
        self.arrays.store(arrays, Ordering::Relaxed);
    }

    /// An array is stopped, or was before.
    pub(super) fn one_less(&self) {
        let left = self.arrays().saturating_sub(1);
        self.arrays.store(left, Ordering::Relaxed);
    }

    pub(super) fn set_dirty(&self, bytes: u64) {
        self.dirty.store(bytes, Ordering::Relaxed);
    }
}

impl ControllerHandle {
    /// Asks for this process itself: see [`ask_as`](Self::ask_as).
    pub fn ask(&self, command: Command, answer: impl FnOnce(Result<Reply>) + Send + 'static) {
        self.ask_as(None, command, answer);
    }

    /// Asks for somebody, from any thread; `answer` is called on the controller's thread when it is done (at once, on this
    /// thread, if the controller cannot take the command). The events of a change say who it was.
    pub fn ask_as(
        &self,
        caller: Option<Caller>,
        command: Command,
        answer: impl FnOnce(Result<Reply>) + Send + 'static,
    ) {
        self.send(Asked::Command(Box::new(command), caller), answer);
    }

    /// Waits until the start of the controller has come so far, on the controller's own shard. At once if the controller is gone or stops.
    pub async fn reaches(&self, env: &Env, phase: Phase) {
        let (sender, mut reply) = mailbox::mailbox(env, 1);
        self.send(Asked::When(phase), move |result| {
            if sender.send(result).is_err() {
                tracing::debug!("nothing waits for the start of the controller any more");
            }
        });
        reply.receive().await;
    }

    fn send(&self, asked: Asked, answer: impl FnOnce(Result<Reply>) + Send + 'static) {
        let request = Request { asked, answer: Box::new(answer) };
        if let Err(mailbox::Full(request)) = self.commands.send(request) {
            (request.answer)(Err(Error::new(
                ErrorKind::Busy,
                "the controller is busy with other commands, or is gone; try again",
            )));
        }
    }

    /// What a stop has not finished yet, from the moment when it begins.
    pub fn unfinished(&self) -> Arc<Unfinished> {
        self.unfinished.clone()
    }

    /// Has the controller take note of an event, from any thread.
    pub fn note(&self, occurrence: Occurrence) {
        if let Err(mailbox::Full(Note::Occurrence(lost))) = self.notes.send(Note::Occurrence(occurrence)) {
            tracing::error!("an event was not taken note of, for too many wait: {}", lost.text);
        }
    }

    /// Has the controller count something that was refused for want of rights, from any thread.
    pub fn refused(&self, given: OrderGiven, why: Error) {
        if let Err(mailbox::Full(_)) = self.notes.send(Note::Refused(given, why)) {
            tracing::error!("a refusal was not counted, for too many wait");
        }
    }

    /// Has the controller record an order that an interface carried out or refused, from any thread. `answer` is called on the
    /// controller's thread when that is stored, or with a sentence why it is not.
    pub fn record(
        &self,
        given: OrderGiven,
        refused: Option<Error>,
        answer: impl FnOnce(Option<String>) + Send + 'static,
    ) {
        let note = Note::Order(given, refused, Box::new(answer));
        if let Err(mailbox::Full(Note::Order(given, _, answer))) = self.notes.send(note) {
            tracing::error!(
                "the order '{}' is not recorded: the controller is busy, or is gone",
                given.order
            );
            answer(Some("this order is not recorded: the controller is busy, or is gone".to_owned()));
        }
    }

    /// The events that the controller keeps in memory, to be followed from any thread.
    pub fn events(&self) -> &EventFeed {
        &self.events
    }

    /// Asks and waits, on the controller's own shard: for this process itself.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn command(&self, env: &Env, command: Command) -> Result<Reply> {
        self.command_as(env, None, command).await
    }

    /// The same for somebody.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn command_as(&self, env: &Env, caller: Option<Caller>, command: Command) -> Result<Reply> {
        let (sender, mut reply) = mailbox::mailbox(env, 1);
        self.ask_as(caller, command, move |result| {
            if sender.send(result).is_err() {
                tracing::debug!("nobody waits for the answer to a command any more");
            }
        });
        let gone = || Err(Error::new(ErrorKind::Stopping, "the controller is gone; start it again"));
        reply.receive().await.unwrap_or_else(gone)
    }
}
