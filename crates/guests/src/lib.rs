//! How virtual machines (guests) reach what a shard serves: virtio block devices whose queues lie in memory that the guest shares
//! with this process; and how the kernel of this machine does, whose queues (ublk) are much the same. Above stand [`BlockTarget`](platform::BlockTarget)s, as above any port.
//!
//! ```text
//!  who speaks vhost-user with the guest's machine ── GuestMessage ──▶ a shard: serve_guests
//!                                                                        │ a queue each
//!     guest: kicks ──────────▶ takes requests off the ring ─▶ a task for each: calls the target
//!     guest: is called ◀────── puts what is done on the ring ◀┘
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | `config` | what a guest is told of its disk |
//! | `ring` | the two rings and the descriptors of a queue (split virtqueue), in memory that may be hostile |
//! | `request` | what a chain of descriptors asks for |
//! | `in_flight` | which requests were taken and not answered, in memory that outlives this process |
//! | `queue` | a queue while it is served |
//! | `kernel` | a queue that the kernel of this machine has for a disk of its own (ublk) |
//! | `work` | what requests of either come to |
//! | `shard` | the queues of a shard |
//! | `fuzz` | a queue of hostile bytes, for fuzzers |
//!
//! Whoever speaks vhost-user (sockets, files, maps of memory) is not here: it belongs to the world.
//!
//! # Data is copied, once
//! A write is copied out of the guest's memory before the target sees it, a read is copied into it when it is complete. Without
//! that copy, two things could go wrong that no later check would find. A guest may change a buffer while it is being written
//! (Linux does so with mapped files): parity would be computed of other bytes than those that reach the drive, and what it gives
//! for *another* drive, later, would be wrong. And a drive that did not answer in time still holds the buffer of a read that was
//! answered from the other drives long ago: it could write into memory that the guest uses for something else by then.
//!
//! # Fault model and bounds
//! A guest may be hostile: rings, descriptors and requests are checked, and each number is read once. A queue whose ring makes no
//! sense is served no more. It has as many requests under way as it has descriptors, and at most one of its requests waits for memory.
//! The process may be killed at any instant: what had been taken and not answered is carried out by the next one, in the order in
//! which it was taken.

mod config;
pub mod fuzz;
mod in_flight;
mod kernel;
mod queue;
mod request;
mod ring;
mod shard;
mod work;

pub use config::{Disk, LARGEST_QUEUE, Negotiated};
pub use in_flight::{InFlight, in_flight_bytes};
pub use ring::RingPlace;
pub use shard::{
    GuestMessage, KernelStart, Offered, QueueId, QueueStart, guest_mailbox, offer, serve_guests,
};

/// Memory that a guest shares, by the guest's own addresses.
pub type GuestMemory = vm_memory::GuestMemoryMmap;
