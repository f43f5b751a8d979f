//! Request queues of a disk that this process provides to the kernel.

use crate::error::{IoError, Result};
use crate::ops::Io;
use crate::world::Env;
use std::rc::Rc;
use units::ByteRange;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelWork {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Make all acknowledged writes durable.
    Flush,
    /// Discard the range.
    Trim,
    /// Make the range read as zeros.
    Zeroes,
    /// An unknown operation.
    Unknown,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelRequest {
    /// The operation.
    pub work: KernelWork,
    /// The range.
    pub range: ByteRange,
    /// Whether the write must be durable before it is acknowledged (FUA).
    pub durable: bool,
}

/// A queue, attached to one shard. Each slot has one request at a time.
pub trait KernelQueue {
    /// The number of slots.
    fn depth(&self) -> u16;

    /// Completes the slot's previous request, if there is one, and waits for the next: the outcome
    /// reports its arrival. `answer` is a number of bytes, or a negative error number. An error
    /// ends the slot.
    fn next(&self, slot: u16, answer: i32) -> Io;

    /// The slot's current request.
    fn request(&self, slot: u16) -> KernelRequest;

    /// Copies data of a slot's write, from `offset`.
    ///
    /// # Errors
    /// When the request does not exist any more.
    fn take(&self, slot: u16, offset: u64, to: &mut [u8]) -> std::result::Result<(), IoError>;

    /// Copies data into a slot's read, from `offset`.
    ///
    /// # Errors
    /// When the request does not exist any more.
    fn give(&self, slot: u16, offset: u64, from: &[u8]) -> std::result::Result<(), IoError>;
}

/// A queue that is not yet attached to a shard.
pub trait KernelQueueSource: Send {
    /// Attaches the queue to this shard.
    ///
    /// # Errors
    /// When the shard's platform cannot attach it.
    fn attach(self: Box<Self>, env: &Env) -> Result<Rc<dyn KernelQueue>>;
}
