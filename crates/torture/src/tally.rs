//! What a run came to, in numbers: what was done, and which deeds really happened.

use layout::Level;

/// Something that happens to a drive, to the machine or by an operator's hand, and is counted when it really happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// The process is killed.
    Kill,
    /// The power is cut.
    PowerCut,
    /// A drive dies for good.
    Dies,
    /// A drive is pulled out.
    Vanishes,
    /// A drive's file is deleted while it is used.
    FileDeleted,
    /// A drive's file is truncated while it is used.
    FileTruncated,
    /// One that was pulled out is put back, holding what it held.
    ComesBack,
    /// Writes fail.
    WriteErrors,
    /// Flushes fail.
    FlushErrors,
    /// The system refuses operations for now.
    Busy,
    /// Blocks cannot be read.
    MediumErrors,
    /// Blocks cannot be read, whatever is written to them.
    Stuck,
    /// A drive does not answer for longer than the controller waits.
    TimesOut,
    /// A drive does not answer for a while.
    Hangs,
    /// A drive takes many times as long for a while.
    Slow,
    /// Drives are found under one another's names.
    PathsExchanged,
    /// Another drive is found under the name of one that died.
    Swapped,
    /// A file of the state folder is damaged between lives.
    StateDamaged,
    /// The clock of the machine jumps between lives.
    ClockJumps,
    /// Sectors read as something else, and nobody is told.
    Rots,
    /// A write is acknowledged and not carried out.
    LosesWrite,
    /// A write is acknowledged and carried out somewhere else.
    MisdirectsWrite,
    /// An operator fails a drive.
    OperatorFails,
    /// An operator takes a drive offline.
    OperatorTakesOffline,
    /// An operator suspends a drive.
    OperatorSuspends,
    /// An operator resumes a drive.
    OperatorResumes,
    /// An operator who accepts no loss is refused a drive, since that would lose data.
    OperatorIsTold,
    /// An operator is refused a drive, as the volume needs it.
    OperatorIsRefused,
    /// An operator brings a drive back.
    OperatorBringsBack,
    /// An operator replaces a drive that is out.
    OperatorReplacesDead,
    /// An operator replaces a drive that serves.
    OperatorReplacesServing,
    /// An operator adds a hot spare.
    OperatorAddsSpare,
    /// An operator takes a hot spare away.
    OperatorRemovesSpare,
    /// An operator starts a check, a repair or a patrol.
    OperatorChecks,
    /// An operator pauses, resumes, stops or paces a task.
    OperatorSteersTasks,
    /// An operator changes policies.
    OperatorSetsPolicy,
    /// An operator gives a volume a journal, or takes it away.
    OperatorSetsWriteHole,
    /// An operator forces what parity says of a missing drive.
    OperatorAccepts,
    /// An operator deletes the volume while drives hang, and makes another one of them.
    OperatorDeletes,
    /// A log device dies for good.
    LogDies,
    /// A log device is pulled out.
    LogVanishes,
    /// A log device is not there when the controller starts again.
    LogAway,
    /// A log device that was pulled out is put back.
    LogComesBack,
    /// Writes to a log device fail.
    LogWriteErrors,
    /// Blocks of a log device cannot be read.
    LogMediumErrors,
    /// A log device does not answer for longer than the controller waits.
    LogTimesOut,
    /// A log device does not answer for a while, or is slow.
    LogHangs,
    /// A volume waits for its log.
    WaitsForLog,
    /// An operator adds a log.
    OperatorAddsLog,
    /// An operator removes the log.
    OperatorRemovesLog,
    /// An operator gives up what a log has of a volume.
    OperatorDiscardsLog,
}

impl Deed {
    /// All of them.
    pub const ALL: [Deed; 51] = [
        Deed::Kill,
        Deed::PowerCut,
        Deed::Dies,
        Deed::Vanishes,
        Deed::FileDeleted,
        Deed::FileTruncated,
        Deed::ComesBack,
        Deed::WriteErrors,
        Deed::FlushErrors,
        Deed::Busy,
        Deed::MediumErrors,
        Deed::Stuck,
        Deed::TimesOut,
        Deed::Hangs,
        Deed::Slow,
        Deed::PathsExchanged,
        Deed::Swapped,
        Deed::StateDamaged,
        Deed::ClockJumps,
        Deed::Rots,
        Deed::LosesWrite,
        Deed::MisdirectsWrite,
        Deed::OperatorFails,
        Deed::OperatorTakesOffline,
        Deed::OperatorSuspends,
        Deed::OperatorResumes,
        Deed::OperatorIsTold,
        Deed::OperatorIsRefused,
        Deed::OperatorBringsBack,
        Deed::OperatorReplacesDead,
        Deed::OperatorReplacesServing,
        Deed::OperatorAddsSpare,
        Deed::OperatorRemovesSpare,
        Deed::OperatorChecks,
        Deed::OperatorSteersTasks,
        Deed::OperatorSetsPolicy,
        Deed::OperatorSetsWriteHole,
        Deed::OperatorAccepts,
        Deed::OperatorDeletes,
        Deed::LogDies,
        Deed::LogVanishes,
        Deed::LogAway,
        Deed::LogComesBack,
        Deed::LogWriteErrors,
        Deed::LogMediumErrors,
        Deed::LogTimesOut,
        Deed::LogHangs,
        Deed::WaitsForLog,
        Deed::OperatorAddsLog,
        Deed::OperatorRemovesLog,
        Deed::OperatorDiscardsLog,
    ];

    /// Whether it can happen in runs with log devices alone.
    pub fn is_of_logs(self) -> bool {
        self as usize >= Deed::LogDies as usize
    }

    /// Whether it can happen to a volume of that level at all, as runs are drawn, in every run.
    pub fn may_happen_to(self, level: Level) -> bool {
        match self {
            Deed::Kill
            | Deed::PowerCut
            | Deed::Dies
            | Deed::Vanishes
            | Deed::ComesBack
            | Deed::WriteErrors
            | Deed::FlushErrors
            | Deed::MediumErrors
            | Deed::TimesOut
            | Deed::Hangs
            | Deed::Slow
            | Deed::PathsExchanged
            | Deed::OperatorSetsPolicy
            | Deed::OperatorDeletes => true,
            // Parity has a write hole; where it is dirty and degraded, an operator is asked about it.
            Deed::OperatorAccepts | Deed::OperatorSetsWriteHole => level.row().parity_strips > 0,
            // What a distributed spare has is not known here: no such order is given.
            Deed::OperatorIsRefused => level.is_redundant() && level != Level::Raid5ee,
            _ => level.is_redundant() && !self.is_of_logs(),
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Deed::Kill => "process killed",
            Deed::PowerCut => "power cut",
            Deed::Dies => "drive dies",
            Deed::Vanishes => "drive vanishes",
            Deed::FileDeleted => "file deleted",
            Deed::FileTruncated => "file truncated",
            Deed::ComesBack => "drive comes back",
            Deed::WriteErrors => "write errors",
            Deed::FlushErrors => "flush errors",
            Deed::Busy => "refused for now",
            Deed::MediumErrors => "medium errors",
            Deed::Stuck => "stuck blocks",
            Deed::TimesOut => "time-out",
            Deed::Hangs => "stall",
            Deed::Slow => "slow spell",
            Deed::PathsExchanged => "paths exchanged",
            Deed::Swapped => "drive swapped",
            Deed::StateDamaged => "state file damaged",
            Deed::ClockJumps => "clock jumped",
            Deed::Rots => "bit rot",
            Deed::LosesWrite => "lost write",
            Deed::MisdirectsWrite => "misdirected write",
            Deed::OperatorFails => "drive fail",
            Deed::OperatorTakesOffline => "drive offline",
            Deed::OperatorSuspends => "drive suspend",
            Deed::OperatorResumes => "drive resume",
            Deed::OperatorIsTold => "drive fail, offline (would lose data)",
            Deed::OperatorIsRefused => "drive fail, offline (is needed)",
            Deed::OperatorBringsBack => "drive online",
            Deed::OperatorReplacesDead => "drive replace (out)",
            Deed::OperatorReplacesServing => "drive replace (serving)",
            Deed::OperatorAddsSpare => "spare add",
            Deed::OperatorRemovesSpare => "spare remove",
            Deed::OperatorChecks => "check, repair, patrol",
            Deed::OperatorSteersTasks => "task pause, resume, stop, set",
            Deed::OperatorSetsPolicy => "volume policy",
            Deed::OperatorSetsWriteHole => "volume set --write-hole",
            Deed::OperatorAccepts => "stale parity forced",
            Deed::OperatorDeletes => "volume delete (drives hanging)",
            Deed::LogDies => "log device dies",
            Deed::LogVanishes => "log device vanishes",
            Deed::LogAway => "log device away at a start",
            Deed::LogComesBack => "log device comes back",
            Deed::LogWriteErrors => "log device: write errors",
            Deed::LogMediumErrors => "log device: medium errors",
            Deed::LogTimesOut => "log device: time-out",
            Deed::LogHangs => "log device: stall",
            Deed::WaitsForLog => "volume waits for its log",
            Deed::OperatorAddsLog => "log add",
            Deed::OperatorRemovesLog => "log remove",
            Deed::OperatorDiscardsLog => "log discard",
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Volumes: one, but of neighbours as many as there are.
    pub volumes: u64,
    /// How often a volume was created, and somebody told so.
    pub created: u64,
    /// How often a volume was deleted in the middle of a run, and somebody told so.
    pub deleted: u64,
    /// How often an operator changed when writes are answered.
    pub write_modes: u64,
    /// Writes that were answered when a log device had them, and were promised to outlast a power cut by that.
    pub logged: u64,
    /// How often an operator changed what is kept of reads.
    pub read_modes: u64,
    /// How often an operator began to move the volume to another layout.
    pub moves: u64,
    /// Of those, how often a neighbour on the same drives was to move along.
    pub moves_along: u64,
    /// How often it came to another layout.
    pub moved: u64,
    /// Of those, how often its last byte went first.
    pub moved_down: u64,
    /// How often a drive became larger.
    pub larger: u64,
    /// How often all of such a drive was used from then on, and somebody told so.
    pub rescanned: u64,
    /// How often a volume came to be longer where it was.
    pub grown: u64,
    /// Requests to the volume.
    pub ops: u64,
    /// Of those, how many failed, as they might.
    pub errors: u64,
    /// Starts of the controller that found a volume to recover.
    pub recoveries: u64,
    /// Copies of all drives that were made after a crash, to be started, read and checked.
    pub inquests: u64,
    /// Times that the volume was read with drives removed.
    pub removals: u64,
    /// Copies of all drives whose controller had lost the memory of its cache in the same boot.
    pub lost_memories: u64,
    /// How often an operator gave up the memory of the cache that a volume waited for.
    pub discarded_memories: u64,
    /// Checks that had to find nothing, or just what is wrong.
    pub checks: u64,
    /// Steps of the simulation.
    pub events: u64,
    deeds: Deeds,
}

/// How often each deed happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Deeds([u64; Deed::ALL.len()]);

impl Default for Deeds {
    fn default() -> Deeds {
        Deeds([0; Deed::ALL.len()])
    }
}

impl Tally {
    /// Adds up.
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
        self.errors += other.errors;
        self.recoveries += other.recoveries;
        self.inquests += other.inquests;
        self.removals += other.removals;
        self.lost_memories += other.lost_memories;
        self.discarded_memories += other.discarded_memories;
        self.checks += other.checks;
        self.events += other.events;
        for (sum, more) in self.deeds.0.iter_mut().zip(other.deeds.0) {
            *sum += more;
        }
    }

    /// Counts a deed.
    pub fn did(&mut self, deed: Deed) {
        self.deeds.0[deed as usize] += 1;
    }

    /// How often something happened.
    pub fn of(&self, deed: Deed) -> u64 {
        self.deeds.0[deed as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deed_is_listed_in_its_own_place() {
        for (index, deed) in Deed::ALL.into_iter().enumerate() {
            assert_eq!(deed as usize, index, "{}", deed.name());
        }
    }
}
