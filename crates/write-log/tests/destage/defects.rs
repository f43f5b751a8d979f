//! Planted defects of a destage: the model must detect each. Each numbered group breaks one rule of
//! the protocol.

/// The planted defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defect {
    None,

    // 1: one plan a column at a time, from durable records.
    /// A record in memory alone counts as durable: a plan uses it, its intent exists before its
    /// data.
    PlannedFromMemory,
    /// A column gets a second plan before the writes of the first are done.
    TwoPlansAtOnce,

    // 2, 3: intent, redundancy, flush, data.
    /// Redundancy is written before the intent is durable.
    RedundancyBeforeIntent,
    /// Data are written after redundancy, without a flush between them.
    RedundancyUnflushed,
    /// Data are written before redundancy.
    DataFirst,

    // 4: missed writes are recorded.
    /// A write of redundancy is skipped without a record of it.
    SkippedUnrecorded,
    /// A failed drive returns after a crash, and its content is used.
    ReturnedBelieved,

    // 6: a full-stripe write without a record.
    /// It is written while counting records cover its columns.
    WholeOverRecords,
    /// A plan begins there before the flush.
    WholeUnflushed,

    // 7: retirement.
    /// Records are retired without a flush.
    RetiredUnflushed,
    /// A flush that began before their writes were done retires them.
    RetiredTooLate,
    /// A flush of the redundancy drives alone retires them.
    DataDrivesUnflushed,
    /// A flush of the data drives alone retires them.
    RedundancyDrivesUnflushed,
    /// Newer records are retired before older ones.
    RetiredOutOfOrder,

    // 8: data in use by a live plan.
    /// They are dropped when newer logged data supersede them.
    SupersededWhileUsed,
    /// They are dropped for a trim, or for newer data, that is not durable yet.
    SupersededTooEarly,

    // 9: the plan to which redundancy belongs.
    /// The oldest matching plan is chosen.
    OldestMatch,
    /// One plan for both P and Q: the older of the two.
    OneVerdict,
    /// Only the plan's own data are used, without those of earlier live plans.
    OwnDataAlone,
    /// Redundancy always counts as matching the drives' present data.
    NeverMatches,
    /// Logged data without a plan are not read.
    OnlyPlanned,

    // 10: the replay.
    /// It does not log an intent.
    ReplayWithoutIntent,
    /// It does not flush redundancy before it writes data.
    ReplayUnflushed,
    /// It skips strips with the right content, and does not flush their drive.
    ReplaySkipsEqual,
    /// It ends without a flush.
    ReplayRetiresUnflushed,
    /// It applies a record with too few copies before it adds copies.
    ReplayThin,

    // 11: the checksum.
    /// Two contents have the same checksum.
    Collides,

    // The places of the log.
    /// A record is on only as many drives as may be lost.
    OneCopyTooFew,
    /// A returning drive is current while records have too few copies.
    ReturnedThin,
    /// A returning drive is current before the writes to it are flushed.
    ReturnedUnflushed,
    /// A failed log device is not fenced before the next write is acknowledged.
    DeviceUnfenced,
    /// A log of an earlier start is replayed.
    OlderEpoch,
    /// A discarded log is replayed.
    DiscardedBelieved,
}

pub(super) const DEFECTS: [Defect; 33] = [
    Defect::PlannedFromMemory,
    Defect::TwoPlansAtOnce,
    Defect::RedundancyBeforeIntent,
    Defect::RedundancyUnflushed,
    Defect::DataFirst,
    Defect::SkippedUnrecorded,
    Defect::ReturnedBelieved,
    Defect::WholeOverRecords,
    Defect::WholeUnflushed,
    Defect::RetiredUnflushed,
    Defect::RetiredTooLate,
    Defect::DataDrivesUnflushed,
    Defect::RedundancyDrivesUnflushed,
    Defect::RetiredOutOfOrder,
    Defect::SupersededWhileUsed,
    Defect::SupersededTooEarly,
    Defect::OldestMatch,
    Defect::OneVerdict,
    Defect::OwnDataAlone,
    Defect::NeverMatches,
    Defect::OnlyPlanned,
    Defect::ReplayWithoutIntent,
    Defect::ReplayUnflushed,
    Defect::ReplaySkipsEqual,
    Defect::ReplayRetiresUnflushed,
    Defect::ReplayThin,
    Defect::Collides,
    Defect::OneCopyTooFew,
    Defect::ReturnedThin,
    Defect::ReturnedUnflushed,
    Defect::DeviceUnfenced,
    Defect::OlderEpoch,
    Defect::DiscardedBelieved,
];
