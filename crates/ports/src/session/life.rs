//! The life of one connection for the shard: its end, and whether it stalls.

use platform::{Env, Instant, Peer, Stream, TaskId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// State of an open connection, from its greeting on.
pub(crate) struct ConnectionState {
    env: Env,
    /// Replaced when TLS starts.
    stream: RefCell<Rc<dyn Stream>>,
    pub peer: Peer,
    stopping: Cell<bool>,
    cut: Cell<bool>,
    /// The reader task of the session.
    reader: Cell<Option<TaskId>>,
    /// Bytes sent and received.
    pub moved_bytes: Cell<u64>,
    /// Whether the client blocks memory: in the middle of a payload, or with unread replies.
    receiving_payload: Cell<bool>,
    sending: Cell<bool>,
    /// The byte count of the last check, and the time since when it has not changed.
    pub seen: Cell<(u64, Instant)>,
}

impl ConnectionState {
    pub fn new(env: &Env, stream: Rc<dyn Stream>, peer: Peer) -> Rc<ConnectionState> {
        Rc::new(ConnectionState {
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

    /// The stream of the client's bytes.
    pub fn stream(&self) -> Rc<dyn Stream> {
        self.stream.borrow().clone()
    }

    pub fn set_stream(&self, stream: Rc<dyn Stream>) {
        *self.stream.borrow_mut() = stream;
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Registers the calling task as the reader.
    pub fn set_reader(&self) {
        self.reader.set(Some(self.env.executor().current()));
    }

    pub fn wake_reader(&self) {
        if let Some(reader) = self.reader.get() {
            self.env.executor().wake(reader);
        }
    }

    /// Ends the connection after its outstanding requests; during a greeting at once.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.wake_reader();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Ends the connection at once: receives and sends end, replies are dropped.
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

    /// Whether only the client can release the memory.
    pub fn holds_memory(&self) -> bool {
        self.receiving_payload.get() || self.sending.get()
    }
}
