//! Replies on their way out: all that have queued up go out in one send, headers and data from where they lie.

use super::connection::Connection;
use super::requests::Memory;
use ::nbd::{ErrorReply, ReplyHeader};
use env::{Buf, Slice, Slices};
use std::rc::Rc;
use units::ByteCount;

/// Replies in one send.
const MOST_REPLIES: u32 = 64;
/// Bytes after which a send takes no more replies.
const ENOUGH_BYTES: usize = 1 << 20;
/// Headers of one send: room for [`MOST_REPLIES`] error replies with their messages.
const HEADERS_ROOM: usize = 16 << 10;

/// The reply to one request.
pub(super) struct Reply {
    head: Head,
    /// What follows the head.
    data: Option<Slice>,
    memory: Option<Memory>,
}

enum Head {
    None,
    Header(ReplyHeader),
    Error(Box<ErrorReply>),
}

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        match self {
            Head::None => &[],
            Head::Header(header) => header.as_ref(),
            Head::Error(error) => (**error).as_ref(),
        }
    }
}

impl Reply {
    /// A reply without data.
    pub fn header(header: ReplyHeader, memory: Option<Memory>) -> Reply {
        Reply { head: Head::Header(header), data: None, memory }
    }

    /// A reply with the data that its header announces.
    pub fn data(header: ReplyHeader, data: Slice, memory: Option<Memory>) -> Reply {
        let data = (!data.is_empty()).then_some(data);
        Reply { head: Head::Header(header), data, memory }
    }

    /// A failure.
    pub fn error(error: ErrorReply, memory: Option<Memory>) -> Reply {
        Reply { head: Head::Error(Box::new(error)), data: None, memory }
    }

    /// A reply that is complete in `bytes`.
    pub fn whole(bytes: &[u8], memory: Option<Memory>) -> Reply {
        Reply { head: Head::None, data: Some(Buf::copy_of(bytes).freeze()), memory }
    }
}

/// What one send gathers.
#[derive(Default)]
struct Batch {
    requests: u32,
    /// Bytes of memory, as the connection counts them.
    held: u64,
    memory: Vec<Memory>,
    /// Where headers end before data, and the data; headers are put together first.
    parts: Vec<(usize, Slice)>,
    headers: usize,
}

impl Batch {
    /// Takes replies off the queue and writes their heads one behind the other.
    fn gather(&mut self, connection: &Connection, headers: &mut [u8]) {
        let mut queue = connection.queue.borrow_mut();
        let mut bytes = 0;
        while self.requests < MOST_REPLIES && bytes < ENOUGH_BYTES {
            let Some(Reply { head, data, memory }) = queue.pop_front() else { break };
            let head = head.as_ref();
            headers[self.headers..self.headers + head.len()].copy_from_slice(head);
            self.headers += head.len();
            bytes += head.len();
            if let Some(data) = data {
                bytes += data.len().as_usize();
                self.parts.push((self.headers, data));
            }
            if let Some(memory) = memory {
                self.held += memory.bytes;
                self.memory.push(memory);
            }
            self.requests += 1;
        }
    }

    /// Heads and data in their order.
    fn slices(&mut self, headers: &Slice) -> Slices {
        let mut slices = Slices::with_capacity(2 * self.parts.len() + 1);
        let mut from = 0;
        let mut cut = |slices: &mut Slices, to: usize| {
            if to > from {
                slices.push(headers.cut(ByteCount(from as u64), ByteCount((to - from) as u64)));
                from = to;
            }
        };
        for (to, data) in self.parts.drain(..) {
            cut(&mut slices, to);
            slices.push(data);
        }
        cut(&mut slices, self.headers);
        slices
    }

    /// Counts the requests out and gives their memory back.
    fn release(&mut self, connection: &Connection) {
        self.memory.clear();
        connection.release(self.requests, self.held);
        (self.requests, self.held, self.headers) = (0, 0, 0);
    }
}

/// Sends replies until the connection is over.
pub(super) async fn write_replies(connection: Rc<Connection>) {
    connection.set_writer();
    let life = connection.life.clone();
    let mut batch = Batch::default();
    let mut room = Some(new_room());
    while connection.replies_waiting().await {
        let mut headers = room.take().unwrap_or_else(new_room);
        batch.gather(&connection, headers.bytes_mut());
        let headers = headers.freeze();
        let slices = batch.slices(&headers);
        if life.is_cut() {
            drop(slices);
        } else {
            life.set_sending(true);
            let sent = connection.stream.send(slices).await.result;
            life.set_sending(false);
            connection.count(|counters| counters.sends += 1);
            match sent {
                Ok(bytes) => life.progressed(bytes),
                // The client is gone: so are its replies, and no more requests are to come.
                Err(_) => life.cut(),
            }
        }
        batch.release(&connection);
        room = headers.try_unfreeze().ok();
    }
    connection.writer_ended();
}

fn new_room() -> Buf {
    Buf::unpooled(ByteCount(HEADERS_ROOM as u64))
}
