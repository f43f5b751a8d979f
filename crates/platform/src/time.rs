//! Points in time, of the platform's clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds since the platform started: the monotonic clock of the real
/// platform, virtual time in the simulated one. Not a date: see [`crate::Env::unix_time`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant {
    /// Nanoseconds since the platform started.
    pub ns: u64,
}

impl Instant {
    /// A time that never comes.
    pub const NEVER: Instant = Instant { ns: u64::MAX };

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant {
            ns: self.ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        }
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.ns / 1_000_000_000, self.ns % 1_000_000_000)
    }
}
