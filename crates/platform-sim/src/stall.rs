//! Why a simulation stopped before it was done.

use platform::Instant;
use std::fmt;

/// What kind of stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StallKind {
    /// Nothing is ready, nothing is due, and somebody still waits.
    Deadlock,
    /// Tasks wake for ever while no time passes.
    Spinning,
    /// Tasks wake for ever while time passes, and the test reports no progress.
    NoProgress,
    /// The virtual time limit passed.
    TimeLimit,
    /// The event to stop at was reached ([`crate::Sim::stop_at_event`]): not a defect.
    Stopped,
}

/// A simulation that stopped before it was done: where it stood, and who had not finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Stable: code decides by it.
    pub kind: StallKind,
    /// When.
    pub at: Instant,
    /// After how many events.
    pub events: u64,
    /// The tasks that had not ended, or, of a spinning simulation, those that were ready.
    pub tasks: Vec<&'static str>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StallKind::Deadlock => "stalled: no task is ready and nothing is due",
            StallKind::Spinning => "tasks wake for ever without time passing",
            StallKind::NoProgress => "tasks wake for ever without progress",
            StallKind::TimeLimit => "the limit of virtual time passed",
            StallKind::Stopped => "stopped as asked",
        })?;
        write!(f, ", at {:?} after {} events; unfinished:", self.at, self.events)?;
        // A thousand requests may wait under one name: count them.
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
