//! Access to a shard's targets for virtual machines (guests, virtio block devices in shared memory)
//! and for this computer's kernel (ublk). Requests go to [`BlockTarget`](platform::BlockTarget)s,
//! as in every port.
//!
//! ```text
//!  vhost-user back-end ── GuestMessage ──▶ a shard: serve_guests
//!                                               │ per queue
//!     guest kicks ───────────▶ take requests off the ring ─▶ a task per request calls the target
//!     guest is called ◀─────── put completions on the ring ◀┘
//! ```
//!
//! The vhost-user protocol itself (sockets, files, memory maps) belongs to the environment
//! (`World`).
//!
//! # Data is copied once
//! Writes are copied out of the guest's memory before the target sees them; reads are copied into
//! it when complete. The copy prevents two undetectable errors:
//! - A guest may change a buffer during a write (Linux does so with mapped files). Parity would
//!   then differ from the data on the drive, and a later reconstruction of *another* drive would be
//!   wrong.
//! - A drive that timed out still holds the buffer of a read that other drives served. It could
//!   write into memory that the guest has reused.
//!
//! # Fault model and bounds
//! A guest may be hostile: rings, descriptors and requests are validated, and each number is read
//! once. A queue with an invalid ring is stopped. A queue has at most as many requests in progress
//! as descriptors, and at most one request that waits for memory. After a kill of the process, the
//! next process repeats the in-flight requests in order.

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

/// A guest's shared memory, addressed by guest addresses.
pub type GuestMemory = vm_memory::GuestMemoryMmap;
