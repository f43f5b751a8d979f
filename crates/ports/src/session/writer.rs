//! Sends replies: one send carries all queued replies, with their data in place.

use super::Memory;
use super::connection::Session;
use crate::protocol::{Protocol, Reply};
use platform::{BlockTarget, Buf, Slice, Slices};
use std::rc::Rc;
use units::ByteCount;

/// Maximum number of replies per send.
const MOST_REPLIES: u32 = 64;
/// A send of this length takes no more replies.
const ENOUGH_BYTES: usize = 1 << 20;

/// A queued reply, with the memory that its request still holds.
pub(super) struct Queued<H> {
    pub reply: Reply<H>,
    pub memory: Option<Memory>,
}

/// The replies of one send.
#[derive(Default)]
struct Batch {
    requests: u32,
    /// Payload memory of the requests, as the connection counts it.
    held: u64,
    memory: Vec<Memory>,
    /// The end of the headers before each data slice, and the slice; headers are contiguous.
    parts: Vec<(usize, Slice)>,
    headers: usize,
}

impl Batch {
    /// Takes replies from the queue and concatenates their heads.
    fn gather<P: Protocol, T: BlockTarget>(&mut self, session: &Session<P, T>, headers: &mut [u8]) {
        let mut queue = session.queue.borrow_mut();
        let mut bytes = 0;
        while self.requests < MOST_REPLIES && bytes < ENOUGH_BYTES {
            let Some(Queued { reply, memory }) = queue.pop_front() else { break };
            let head = reply.head.as_ref().map_or(&[][..], |head| head.as_ref());
            assert!(head.len() <= P::LONGEST_HEAD, "{}: a head of {} bytes", P::NAME, head.len());
            headers[self.headers..self.headers + head.len()].copy_from_slice(head);
            self.headers += head.len();
            bytes += head.len();
            if let Some(data) = reply.data {
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

    /// Heads and data in order.
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

    /// Removes the requests from the count and releases their memory.
    fn release<P: Protocol, T: BlockTarget>(&mut self, session: &Session<P, T>) {
        self.memory.clear();
        session.release(self.requests, self.held);
        (self.requests, self.held, self.headers) = (0, 0, 0);
    }
}

/// Sends replies until the connection ends.
pub(super) async fn write_replies<P: Protocol, T: BlockTarget>(session: Rc<Session<P, T>>) {
    session.set_writer();
    let life = session.life.clone();
    let mut batch = Batch::default();
    let mut room = Some(new_room::<P>());
    while session.replies_waiting().await {
        let mut headers = room.take().unwrap_or_else(new_room::<P>);
        batch.gather(&session, headers.bytes_mut());
        let headers = headers.freeze();
        let slices = batch.slices(&headers);
        if life.is_cut() {
            drop(slices);
        } else {
            life.set_sending(true);
            let sent = session.stream.send(slices).await.result;
            life.set_sending(false);
            session.count(|counters| counters.sends += 1);
            match sent {
                Ok(bytes) => life.progressed(bytes),
                // The client has disconnected: its replies are dropped, and no more requests
                // arrive.
                Err(_) => life.cut(),
            }
        }
        batch.release(&session);
        room = headers.try_unfreeze().ok();
    }
    session.writer_ended();
}

/// A buffer for the heads of one send.
fn new_room<P: Protocol>() -> Buf {
    Buf::unpooled(ByteCount(MOST_REPLIES as u64 * P::LONGEST_HEAD as u64))
}
