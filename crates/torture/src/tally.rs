//! The totals of a run: work done, and events that really happened.

use layout::Level;

/// A fault or an operator action, counted when it really happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The process is killed.
    Kill,
    /// The power is cut.
    PowerCut,
    /// A drive dies permanently.
    Dies,
    /// A drive is pulled out.
    Vanishes,
    /// A drive's file is deleted while it is used.
    FileDeleted,
    /// A drive's file is truncated while it is used.
    FileTruncated,
    /// A pulled drive is reinserted with its data.
    ComesBack,
    /// Writes fail.
    WriteErrors,
    /// Flushes fail.
    FlushErrors,
    /// The system refuses operations temporarily.
    Busy,
    /// Blocks become unreadable.
    MediumErrors,
    /// Blocks stay unreadable after writes.
    Stuck,
    /// A drive hangs beyond the controller's time limit.
    TimesOut,
    /// A drive hangs for a shorter time.
    Hangs,
    /// A drive is many times slower for a while.
    Slow,
    /// The drives' paths are exchanged.
    PathsExchanged,
    /// A replacement appears at the path of a dead drive.
    Swapped,
    /// A file of the state folder is damaged between lives.
    StateDamaged,
    /// The clock jumps between lives.
    ClockJumps,
    /// Bit rot: sectors silently read as wrong data.
    Rots,
    /// A write is acknowledged and lost.
    LosesWrite,
    /// A write is acknowledged and misdirected.
    MisdirectsWrite,
    /// An operator fails a drive.
    OperatorFails,
    /// An operator takes a drive offline.
    OperatorTakesOffline,
    /// An operator suspends a drive.
    OperatorSuspends,
    /// An operator resumes a drive.
    OperatorResumes,
    /// The controller refuses to remove a drive, because that would lose data.
    OperatorIsTold,
    /// The controller refuses to remove a drive, because the volume needs it.
    OperatorIsRefused,
    /// An operator brings a drive back.
    OperatorBringsBack,
    /// An operator replaces a drive that is not in use.
    OperatorReplacesDead,
    /// An operator replaces a working drive.
    OperatorReplacesServing,
    /// An operator adds a hot spare.
    OperatorAddsSpare,
    /// An operator removes a hot spare.
    OperatorRemovesSpare,
    /// An operator starts a check, a repair or a patrol.
    OperatorChecks,
    /// An operator pauses, resumes, stops or throttles a task.
    OperatorSteersTasks,
    /// An operator changes policies.
    OperatorSetsPolicy,
    /// An operator adds or removes a journal.
    OperatorSetsWriteHole,
    /// An operator accepts stale parity.
    OperatorAccepts,
    /// An operator deletes the volume while drives hang, and creates another one on them.
    OperatorDeletes,
    /// A log device dies permanently.
    LogDies,
    /// A log device is pulled out.
    LogVanishes,
    /// A log device is absent at a start of the controller.
    LogAway,
    /// A pulled log device is reinserted.
    LogComesBack,
    /// Writes to a log device fail.
    LogWriteErrors,
    /// Blocks of a log device become unreadable.
    LogMediumErrors,
    /// A log device hangs beyond the controller's time limit.
    LogTimesOut,
    /// A log device hangs for a shorter time, or is slow.
    LogHangs,
    /// A volume waits for its log.
    WaitsForLog,
    /// An operator adds a log.
    OperatorAddsLog,
    /// An operator removes the log.
    OperatorRemovesLog,
    /// An operator discards a log.
    OperatorDiscardsLog,
}

impl Event {
    /// All events.
    pub const ALL: [Event; 51] = [
        Event::Kill,
        Event::PowerCut,
        Event::Dies,
        Event::Vanishes,
        Event::FileDeleted,
        Event::FileTruncated,
        Event::ComesBack,
        Event::WriteErrors,
        Event::FlushErrors,
        Event::Busy,
        Event::MediumErrors,
        Event::Stuck,
        Event::TimesOut,
        Event::Hangs,
        Event::Slow,
        Event::PathsExchanged,
        Event::Swapped,
        Event::StateDamaged,
        Event::ClockJumps,
        Event::Rots,
        Event::LosesWrite,
        Event::MisdirectsWrite,
        Event::OperatorFails,
        Event::OperatorTakesOffline,
        Event::OperatorSuspends,
        Event::OperatorResumes,
        Event::OperatorIsTold,
        Event::OperatorIsRefused,
        Event::OperatorBringsBack,
        Event::OperatorReplacesDead,
        Event::OperatorReplacesServing,
        Event::OperatorAddsSpare,
        Event::OperatorRemovesSpare,
        Event::OperatorChecks,
        Event::OperatorSteersTasks,
        Event::OperatorSetsPolicy,
        Event::OperatorSetsWriteHole,
        Event::OperatorAccepts,
        Event::OperatorDeletes,
        Event::LogDies,
        Event::LogVanishes,
        Event::LogAway,
        Event::LogComesBack,
        Event::LogWriteErrors,
        Event::LogMediumErrors,
        Event::LogTimesOut,
        Event::LogHangs,
        Event::WaitsForLog,
        Event::OperatorAddsLog,
        Event::OperatorRemovesLog,
        Event::OperatorDiscardsLog,
    ];

    /// Whether it needs log devices.
    pub fn is_of_logs(self) -> bool {
        self as usize >= Event::LogDies as usize
    }

    /// Whether it can happen to a volume of that level in every kind of run.
    pub fn may_happen_to(self, level: Level) -> bool {
        match self {
            Event::Kill
            | Event::PowerCut
            | Event::Dies
            | Event::Vanishes
            | Event::ComesBack
            | Event::WriteErrors
            | Event::FlushErrors
            | Event::MediumErrors
            | Event::TimesOut
            | Event::Hangs
            | Event::Slow
            | Event::PathsExchanged
            | Event::OperatorSetsPolicy
            | Event::OperatorDeletes => true,
            // Only parity has a write hole; a dirty, degraded volume needs consent.
            Event::OperatorAccepts | Event::OperatorSetsWriteHole => level.row().parity_strips > 0,
            // The content of a distributed spare is unknown here, so there is no such order.
            Event::OperatorIsRefused => level.is_redundant() && level != Level::Raid5ee,
            _ => level.is_redundant() && !self.is_of_logs(),
        }
    }

    /// A name for people.
    pub fn name(self) -> &'static str {
        match self {
            Event::Kill => "process killed",
            Event::PowerCut => "power cut",
            Event::Dies => "drive dies",
            Event::Vanishes => "drive vanishes",
            Event::FileDeleted => "file deleted",
            Event::FileTruncated => "file truncated",
            Event::ComesBack => "drive comes back",
            Event::WriteErrors => "write errors",
            Event::FlushErrors => "flush errors",
            Event::Busy => "refused temporarily",
            Event::MediumErrors => "medium errors",
            Event::Stuck => "stuck blocks",
            Event::TimesOut => "time-out",
            Event::Hangs => "stall",
            Event::Slow => "slow spell",
            Event::PathsExchanged => "paths exchanged",
            Event::Swapped => "drive swapped",
            Event::StateDamaged => "state file damaged",
            Event::ClockJumps => "clock jumped",
            Event::Rots => "bit rot",
            Event::LosesWrite => "lost write",
            Event::MisdirectsWrite => "misdirected write",
            Event::OperatorFails => "drive fail",
            Event::OperatorTakesOffline => "drive offline",
            Event::OperatorSuspends => "drive suspend",
            Event::OperatorResumes => "drive resume",
            Event::OperatorIsTold => "drive fail, offline (would lose data)",
            Event::OperatorIsRefused => "drive fail, offline (is needed)",
            Event::OperatorBringsBack => "drive online",
            Event::OperatorReplacesDead => "drive replace (not in use)",
            Event::OperatorReplacesServing => "drive replace (serving)",
            Event::OperatorAddsSpare => "spare add",
            Event::OperatorRemovesSpare => "spare remove",
            Event::OperatorChecks => "check, repair, patrol",
            Event::OperatorSteersTasks => "task pause, resume, stop, set",
            Event::OperatorSetsPolicy => "volume policy",
            Event::OperatorSetsWriteHole => "volume set --write-hole",
            Event::OperatorAccepts => "stale parity accepted",
            Event::OperatorDeletes => "volume delete (drives hanging)",
            Event::LogDies => "log device dies",
            Event::LogVanishes => "log device vanishes",
            Event::LogAway => "log device away at a start",
            Event::LogComesBack => "log device comes back",
            Event::LogWriteErrors => "log device: write errors",
            Event::LogMediumErrors => "log device: medium errors",
            Event::LogTimesOut => "log device: time-out",
            Event::LogHangs => "log device: stall",
            Event::WaitsForLog => "volume waits for its log",
            Event::OperatorAddsLog => "log add",
            Event::OperatorRemovesLog => "log remove",
            Event::OperatorDiscardsLog => "log discard",
        }
    }
}

/// The totals of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The number of volumes.
    pub volumes: u64,
    /// Confirmed creations of volumes.
    pub created: u64,
    /// Confirmed deletions of volumes during a run.
    pub deleted: u64,
    /// Changes of the write mode by an operator.
    pub write_modes: u64,
    /// Writes that were acknowledged by a log device, and so survived a power cut.
    pub logged: u64,
    /// Changes of read-ahead and read caching by an operator.
    pub read_modes: u64,
    /// Reshapes that an operator began.
    pub moves: u64,
    /// Of those, with a neighbour as follower.
    pub moves_along: u64,
    /// Finished reshapes.
    pub moved: u64,
    /// Of those, started at the volume's end.
    pub moved_down: u64,
    /// Drives that became larger.
    pub larger: u64,
    /// Confirmed rescans of such drives.
    pub rescanned: u64,
    /// Expansions in place.
    pub grown: u64,
    /// Requests to the volume.
    pub ops: u64,
    /// Of those, reads and writes that took no task of the volume.
    pub taskless: u64,
    /// Requests with an allowed failure.
    pub errors: u64,
    /// Starts of the controller with a volume to recover.
    pub recoveries: u64,
    /// Copies of all drives after a crash, which were started, read and checked.
    pub inquests: u64,
    /// Reads of the volume with drives removed.
    pub removals: u64,
    /// Copies of all drives whose controller had lost the cache's memory in the same boot.
    pub lost_memories: u64,
    /// Orders to discard the cache's memory for a waiting volume.
    pub discarded_memories: u64,
    /// Checks with an expected result.
    pub checks: u64,
    /// Steps of the simulation.
    pub events: u64,
    event_counts: EventCounts,
}

/// The number of each event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EventCounts([u64; Event::ALL.len()]);

impl Default for EventCounts {
    fn default() -> EventCounts {
        EventCounts([0; Event::ALL.len()])
    }
}

impl Tally {
    /// Adds other totals.
    pub fn add(&mut self, other: &Tally) {
        self.volumes += other.volumes;
        self.created += other.created;
        self.deleted += other.deleted;
        self.write_modes += other.write_modes;
        self.logged += other.logged;
        self.read_modes += other.read_modes;
        self.moves += other.moves;
        self.moves_along += other.moves_along;
        self.moved += other.moved;
        self.moved_down += other.moved_down;
        self.larger += other.larger;
        self.rescanned += other.rescanned;
        self.grown += other.grown;
        self.ops += other.ops;
        self.taskless += other.taskless;
        self.errors += other.errors;
        self.recoveries += other.recoveries;
        self.inquests += other.inquests;
        self.removals += other.removals;
        self.lost_memories += other.lost_memories;
        self.discarded_memories += other.discarded_memories;
        self.checks += other.checks;
        self.events += other.events;
        for (sum, more) in self.event_counts.0.iter_mut().zip(other.event_counts.0) {
            *sum += more;
        }
    }

    /// Counts an event.
    pub fn did(&mut self, event: Event) {
        self.event_counts.0[event as usize] += 1;
    }

    /// The number of an event.
    pub fn of(&self, event: Event) -> u64 {
        self.event_counts.0[event as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deed_is_listed_in_its_own_place() {
        for (index, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index, "{}", event.name());
        }
    }
}
