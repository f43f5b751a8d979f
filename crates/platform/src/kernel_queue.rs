//! Queues of requests that the operating system has for a disk of this machine.

use crate::error::{IoError, Result};
use crate::ops::Io;
use crate::world::Env;
use std::rc::Rc;
use units::ByteRange;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelWork {
    /// Data.
    Read,
    /// To keep data.
    Write,
    /// That everything is durable which was answered before.
    Flush,
    /// To give up what is there.
    Trim,
    /// That it reads as zeroes.
    Zeroes,
    /// Something unheard of.
    Unknown,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelRequest {
    /// What it asks for.
    pub work: KernelWork,
    /// Where.
    pub range: ByteRange,
    /// What is written is to be durable before it is answered.
    pub durable: bool,
}

/// A queue, attached to one shard. Each of its slots has a request at a time.
pub trait KernelQueue {
    /// Slots.
    fn depth(&self) -> u16;

    /// Answers the last request of a slot, if it had one, and waits for the next: the outcome says that it is there. An answer is a
    /// count of bytes of data, or a negative error number. An error is the end of the slot.
    fn next(&self, slot: u16, answer: i32) -> Io;

    /// The request of a slot.
    fn request(&self, slot: u16) -> KernelRequest;

    /// Copies data of a slot's write, from `offset` on.
    ///
    /// # Errors
    /// When the request is no more.
    fn take(&self, slot: u16, offset: u64, to: &mut [u8]) -> std::result::Result<(), IoError>;

    /// Copies data to a slot's read, from `offset` on.
    ///
    /// # Errors
    /// When the request is no more.
    fn give(&self, slot: u16, offset: u64, from: &[u8]) -> std::result::Result<(), IoError>;
}

/// A queue on its way to a shard.
pub trait KernelQueueSource: Send {
    /// This shard's way to it.
    ///
    /// # Errors
    /// When the shard's world cannot take it.
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn KernelQueue>>;
}
