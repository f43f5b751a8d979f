//! Reasons why a simulation stopped before it was complete.

use platform::Instant;
use std::fmt;

/// The reason of a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StallKind {
    /// Nothing is ready, nothing is due, and a task still waits.
    Deadlock,
    /// Tasks wake endlessly while no time passes.
    Spinning,
    /// Tasks wake endlessly while time passes, and the test reports no progress.
    NoProgress,
    /// The virtual time limit passed.
    TimeLimit,
    /// The event to stop at was reached ([`crate::Sim::stop_at_event`]): not a defect.
    Stopped,
}

/// An incomplete simulation: where it stopped, and the unfinished tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Stable: callers decide by it.
    pub kind: StallKind,
    /// The virtual time.
    pub at: Instant,
    /// The number of events.
    pub events: u64,
    /// The unfinished tasks, or, of a spinning simulation, the ready ones.
    pub tasks: Vec<&'static str>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StallKind::Deadlock => "stalled: no task is ready and nothing is due",
            StallKind::Spinning => "tasks wake endlessly without time passing",
            StallKind::NoProgress => "tasks wake endlessly without progress",
            StallKind::TimeLimit => "the limit of virtual time passed",
            StallKind::Stopped => "stopped as asked",
        })?;
        write!(f, ", at {:?} after {} events; unfinished:", self.at, self.events)?;
        // Tasks are counted by name: a thousand requests may have one.
        let mut tasks = self.tasks.clone();
        tasks.sort_unstable();
        for group in tasks.chunk_by(|a, b| a == b) {
            match group.len() {
                1 => write!(f, " {}", group[0])?,
                count => write!(f, " {} ({count})", group[0])?,
            }
        }
        if tasks.is_empty() { f.write_str(" nothing") } else { Ok(()) }
    }
}

impl std::error::Error for Stall {}
