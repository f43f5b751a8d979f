//! One connection from its first byte to its last, as the shard sees it: how it ends, and whether it stands still.

use platform::{Env, Instant, Peer, Stream, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What the shard knows of a connection while it lives, greeting included.
pub(crate) struct Life {
    env: Env,
    /// Another one once TLS is below the session.
    stream: RefCell<Rc<dyn Stream>>,
    pub peer: Peer,
    stopping: Cell<bool>,
    cut: Cell<bool>,
    /// The session's own task.
    reader: Cell<Option<TaskId>>,
    /// Bytes moved, either way.
    pub moved_bytes: Cell<u64>,
    /// Whether the client stands between us and memory: in the middle of a payload, or of taking replies.
    receiving_payload: Cell<bool>,
    sending: Cell<bool>,
    /// What the shard saw last, and since when it has not changed.
    pub seen: Cell<(u64, Instant)>,
}

impl Life {
    pub fn new(env: &Env, stream: Rc<dyn Stream>, peer: Peer) -> Rc<Life> {
        Rc::new(Life {
            env: env.clone(),
            stream: RefCell::new(stream),
            peer,
            stopping: Cell::new(false),
            cut: Cell::new(false),
            reader: Cell::new(None),
            moved_bytes: Cell::new(0),
            receiving_payload: Cell::new(false),
            sending: Cell::new(false),
            seen: Cell::new((0, env.now())),
        })
    }

    /// What the client's bytes come by.
    pub fn stream(&self) -> Rc<dyn Stream> {
        self.stream.borrow().clone()
    }

    pub fn set_stream(&self, stream: Rc<dyn Stream>) {
        *self.stream.borrow_mut() = stream;
    }

    pub fn env(&self) -> &Env {
        &self.env
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

    /// Ends the connection as soon as its requests under way are answered; a greeting at once.
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
            self.stream().shutdown();
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
