//! The outstanding requests, in a table of fixed size.

use crate::error::{Error, ErrorKind, Result};
use crate::types::{Command, Errno};

use super::coverage::Coverage;

/// The identity of a request on one connection: its slot, and the slot's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(u64);

impl Cookie {
    /// The slot: below the connection's limit of outstanding requests, and unique among them.
    /// Callers may use it as an index into their own table of requests.
    pub fn slot(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// The cookie in the protocol.
    pub fn to_wire(self) -> u64 {
        self.0
    }
}

/// The server's error for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error.
    pub errno: Errno,
    /// The server's message, at most 4096 bytes; often empty.
    pub message: String,
    /// The error's offset in the export, if the server reported it.
    pub offset_bytes: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) command: Command,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
    /// The first error chunk.
    pub(crate) failure: Option<Failure>,
    /// Whether the extents were received.
    pub(crate) extents_seen: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    pending: Option<Pending>,
    coverage: Coverage,
}

#[derive(Debug)]
pub(crate) struct InFlight {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl InFlight {
    pub(crate) fn new(capacity: u32) -> InFlight {
        InFlight {
            slots: (0..capacity).map(|_| Slot::default()).collect(),
            free: (0..capacity).rev().collect(),
        }
    }

    /// The cookie of the next request.
    pub(crate) fn next(&self) -> Result<Cookie> {
        match self.free.last() {
            Some(index) => {
                let generation = self.slots[*index as usize].generation;
                Ok(Cookie(u64::from(generation) << 32 | u64::from(*index)))
            }
            None => Err(Error::new(
                ErrorKind::Usage,
                format!("{} requests are already in flight on this connection", self.slots.len()),
            )),
        }
    }

    /// Uses the slot that [`next`](Self::next) returned.
    pub(crate) fn begin(&mut self, pending: Pending) {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].coverage.clear();
            self.slots[index as usize].pending = Some(pending);
        }
    }

    fn slot(&mut self, cookie: Cookie) -> Result<&mut Slot> {
        let generation = (cookie.0 >> 32) as u32;
        match self.slots.get_mut(cookie.slot()) {
            Some(slot) if slot.generation == generation && slot.pending.is_some() => Ok(slot),
            _ => Err(Error::new(
                ErrorKind::Protocol,
                format!("the server answered the request {:#x}, which is not in flight", cookie.0),
            )),
        }
    }

    /// Finds a request by its cookie, with the ranges received.
    pub(crate) fn find(&mut self, cookie: u64) -> Result<(Cookie, &mut Pending, &mut Coverage)> {
        let cookie = Cookie(cookie);
        match self.slot(cookie)? {
            Slot { pending: Some(pending), coverage, .. } => Ok((cookie, pending, coverage)),
            Slot { pending: None, .. } => {
                Err(Error::new(ErrorKind::Protocol, "no such request in flight"))
            }
        }
    }

    /// Completes a request and frees its slot. `Err` inside is the server's error.
    pub(crate) fn finish(&mut self, cookie: Cookie) -> Result<std::result::Result<(), Failure>> {
        let slot = self.slot(cookie)?;
        let Some(pending) = slot.pending.take() else { return Ok(Ok(())) };
        slot.generation = slot.generation.wrapping_add(1);
        let covered = slot.coverage.is_complete(pending.length_bytes);
        self.free.push(cookie.slot() as u32);
        match (pending.failure, pending.command) {
            (Some(failure), _) => Ok(Err(failure)),
            (None, Command::Read) if !covered => Err(Error::new(
                ErrorKind::Protocol,
                "the server ended a read before sending all of its data",
            )),
            (None, Command::BlockStatus) if !pending.extents_seen => Err(Error::new(
                ErrorKind::Protocol,
                "the server ended a block status without extents",
            )),
            (None, _) => Ok(Ok(())),
        }
    }

    /// The cookies of all outstanding requests, by slot.
    pub(crate) fn cookies(&self) -> impl Iterator<Item = Cookie> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.pending.is_some())
            .map(|(index, slot)| Cookie(u64::from(slot.generation) << 32 | index as u64))
    }

    /// The number of outstanding requests.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
