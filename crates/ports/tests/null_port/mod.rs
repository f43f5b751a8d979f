//! The smallest possible protocol: reads and writes over a byte stream, with its own framing.
//! Admission, memory, workers, stall check, drain and connection limits come from the session. All
//! numbers are little-endian.
//!
//! ```text
//! client: 1 length of a name, the name
//! server: 8 bytes of capacity; 0: there is no such target
//! client: 1 'r' or 'w', 4 tag, 8 offset, 4 length, of a write the payload
//! server: 1 zero or why not, 4 tag, of a read the data
//! ```
#![allow(dead_code, reason = "each test file uses its own part")]

use platform::{BlockTarget, Durability, Slice, Targets};
use ports::{
    Arrival, Arrived, Data, Greeted, Offer, Protocol, Refused, Reply, Session, Step, Transfer, Wire,
};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

pub const REQUEST_BYTES: usize = 17;
pub const HEAD_BYTES: usize = 5;

/// The first byte of a reply.
pub const DONE: u8 = 0;
pub const FAILED: u8 = 1;
pub const READ_ONLY: u8 = 2;
pub const OVER: u8 = 3;

pub struct Null;

pub struct Request {
    is_write: bool,
    tag: [u8; 4],
    range: ByteRange,
}

/// The bytes of a request, without its payload.
pub fn request(kind: u8, tag: u32, offset: u64, length: u32) -> Vec<u8> {
    [&[kind][..], &tag.to_le_bytes(), &offset.to_le_bytes(), &length.to_le_bytes()].concat()
}

/// The next `count` bytes of the client; `None` when it disconnects first.
async fn take(wire: &mut Wire<'_>, count: usize) -> Option<Vec<u8>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        if wire.received().is_empty() && wire.receive().await != Arrival::Bytes {
            return None;
        }
        let here = wire.received().len().min(count - taken.len());
        taken.extend_from_slice(&wire.received()[..here]);
        wire.consume(here);
    }
    Some(taken)
}

impl Protocol for Null {
    const NAME: &'static str = "null";
    const LONGEST_HEAD: usize = HEAD_BYTES;
    type Decoder = Vec<u8>;
    type Request = Request;
    type Head = [u8; HEAD_BYTES];

    async fn greet<S: Targets>(
        wire: &mut Wire<'_>,
        offer: &Offer<S>,
    ) -> Result<Option<Greeted<Null, S::Target>>, String> {
        let Some(length) = take(wire, 1).await else { return Ok(None) };
        let Some(name) = take(wire, length[0].into()).await else { return Ok(None) };
        let target = offer.find(&String::from_utf8_lossy(&name));
        let capacity = target.as_ref().map_or(0, |target| target.geometry().capacity.0);
        let sent = wire.send(&mut capacity.to_le_bytes().to_vec()).await;
        let target = target.ok_or("there is no such target")?;
        Ok(sent.then_some(Greeted {
            target,
            protocol: Null,
            decoder: Vec::new(),
            read_only: false,
        }))
    }

    fn known<S: Targets>(
        _: &Offer<S>,
        target: Rc<S::Target>,
        read_only: bool,
    ) -> Greeted<Null, S::Target> {
        Greeted { target, protocol: Null, decoder: Vec::new(), read_only }
    }

    async fn turn_away(wire: &mut Wire<'_>) {
        wire.send(&mut 0_u64.to_le_bytes().to_vec()).await;
    }

    fn decode(&self, partial: &mut Vec<u8>, bytes: &[u8]) -> Result<Step<Null>, String> {
        let consumed = bytes.len().min(REQUEST_BYTES - partial.len());
        partial.extend_from_slice(&bytes[..consumed]);
        if partial.len() < REQUEST_BYTES {
            return Ok(Step { consumed, arrived: None });
        }
        let header = std::mem::take(partial);
        let number = |from: usize, to: usize| {
            header[from..to].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let is_write = match header[0] {
            b'r' => false,
            b'w' => true,
            other => return Err(format!("{other} is no request")),
        };
        let memory = ByteCount(number(13, 17));
        let range = ByteRange::new(ByteOffset(number(5, 13)), memory);
        let request =
            Request { is_write, tag: [header[1], header[2], header[3], header[4]], range };
        let payload = if is_write { memory } else { ByteCount::ZERO };
        Ok(Step { consumed, arrived: Some(Arrived::Request { request, payload, memory }) })
    }

    fn transfer(&self, request: &Request) -> Option<Transfer> {
        match request.is_write {
            _ if request.range.is_empty() => None,
            true => Some(Transfer::Write(request.range, Durability::Cached)),
            false => Some(Transfer::Read(request.range)),
        }
    }

    async fn execute<T: BlockTarget>(
        session: &Session<Null, T>,
        request: Request,
        payload: Option<Slice>,
    ) -> Reply<[u8; HEAD_BYTES]> {
        let Request { is_write, range, .. } = request;
        let result = match is_write {
            true => session.write(range, payload, Durability::Cached).await.map(|()| None),
            false => session.read(range).await.map(Some),
        };
        session.protocol().answer(&request, result)
    }

    fn answer(&self, request: &Request, result: Result<Data, Refused>) -> Reply<[u8; HEAD_BYTES]> {
        let tag = request.tag;
        let head = |status: u8| [status, tag[0], tag[1], tag[2], tag[3]];
        match result {
            Ok(None) => Reply::head(head(DONE)),
            Ok(Some(data)) => Reply::data(head(DONE), data),
            Err(Refused::ReadOnly) => Reply::error(head(READ_ONLY)),
            Err(Refused::NotServed | Refused::Closing) => Reply::error(head(OVER)),
            Err(Refused::Failed(_)) => Reply::error(head(FAILED)),
        }
    }
}
