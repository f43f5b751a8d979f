//! Wakes a shard that sleeps in its ring, from another thread.
//!
//! The shard announces its sleep, then checks again for a wake; the waker stores its wake, then
//! checks whether the shard sleeps. A full fence separates the two steps on each side, so that at
//! least one side sees the other. Only a wake of a sleeping shard costs a system call.

use platform::Unpark;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The sleep state of a shard. See the [module](self).
pub(crate) struct Parking {
    parked: AtomicBool,
    eventfd: OwnedFd,
}

impl Parking {
    pub(crate) fn new() -> std::io::Result<Parking> {
        // Blocking mode: the ring would return a non-blocking read at once instead of keeping it.
        Ok(Parking { parked: AtomicBool::new(false), eventfd: eventfd(0, EventfdFlags::CLOEXEC)? })
    }

    /// The eventfd that a wake makes readable; the ring always has a read of it.
    pub(crate) fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Announces sleep. The caller checks for wakes again before it sleeps.
    pub(crate) fn announce(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement.
    pub(crate) fn awake(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }
}

impl Unpark for Parking {
    fn unpark(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel) {
            // Fails only if its counter is full, and then the shard is being woken already.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }
}
