//! How another thread wakes a shard that sleeps in its ring.
//!
//! The shard announces that it is about to sleep, then looks once more whether a wake has come; the waker
//! leaves its wake, then looks whether the shard sleeps. A full fence stands between the two steps on either
//! side, so that at least one of them sees the other. Only a sleeping shard costs the waker a system call.

use platform::Unpark;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// See the [module](self).
pub(crate) struct Parking {
    parked: AtomicBool,
    eventfd: OwnedFd,
}

impl Parking {
    pub(crate) fn new() -> std::io::Result<Parking> {
        // Not non-blocking: the ring would give the read back at once instead of keeping it.
        Ok(Parking { parked: AtomicBool::new(false), eventfd: eventfd(0, EventfdFlags::CLOEXEC)? })
    }

    /// The file that becomes readable when the shard is to wake; a read of it is always in the ring.
    pub(crate) fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Announces sleep. The caller looks for wakes once more before it really sleeps.
    pub(crate) fn announce(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }
}

impl Unpark for Parking {
    fn unpark(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel) {
            // It only fails when its counter is full, and then the shard is being woken already.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }
}
