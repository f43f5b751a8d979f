//! Defects planted into the model of a destage: the model must find each. Each numbered group breaks one rule of the protocol.

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defect {
    None,

    // 1: one plan a column at a time, from durable records.
    /// A record that memory alone has is taken for durable: a plan uses it, its intent is there before its data.
    PlannedFromMemory,
    /// A column has a second plan before the writes of the first are done.
    TwoPlansAtOnce,

    // 2, 3: intent, redundancy, flush, data.
    /// Redundancy is written before the intent is durable.
    RedundancyBeforeIntent,
    /// Data is written when redundancy is, before that is flushed.
    RedundancyUnflushed,
    /// Data is written before redundancy.
    DataFirst,

    // 4: what is not written is recorded.
    /// A write of redundancy is left out, and nobody records it.
    SkippedUnrecorded,
    /// A drive that failed comes back after a crash, and is believed.
    ReturnedBelieved,

    // 6: a whole stripe without a record.
    /// It is written while records count that are about it.
    WholeOverRecords,
    /// A plan begins there before it is flushed.
    WholeUnflushed,

    // 7: retirement.
    /// Records are retired without a flush.
    RetiredUnflushed,
    /// By a flush that began before their writes were done.
    RetiredTooLate,
    /// By a flush of the redundancy drives alone.
    DataDrivesUnflushed,
    /// By a flush of the data drives alone.
    RedundancyDrivesUnflushed,
    /// Newer records before older ones.
    RetiredOutOfOrder,

    // 8: data that a live plan used.
    /// It goes when newer data is logged over it.
    SupersededWhileUsed,
    /// What is flushed is forgotten for a trim, or newer data, that is not durable yet.
    SupersededTooEarly,

    // 9: what redundancy stands for.
    /// The oldest plan that matches is believed.
    OldestMatch,
    /// One verdict for P and Q: the older of both.
    OneVerdict,
    /// Of the data of live plans, that of the plan itself is used alone.
    OwnDataAlone,
    /// Redundancy is always taken for what drives hold now.
    NeverMatches,
    /// What is logged and not planned is not read.
    OnlyPlanned,

    // 10: the replay.
    /// It has no intent of its own.
    ReplayWithoutIntent,
    /// It does not flush redundancy before it writes data.
    ReplayUnflushed,
    /// It leaves out what looks as it should, and does not flush that drive.
    ReplaySkipsEqual,
    /// It ends without a flush.
    ReplayRetiresUnflushed,
    /// A record on few drives is carried out before it has its copies.
    ReplayThin,

    // 11: the checksum.
    /// Two contents have the same.
    Collides,

    // The log's own places.
    /// A record is on as many drives as may be lost.
    OneCopyTooFew,
    /// A drive that comes back is current while records have fewer copies than they need.
    ReturnedThin,
    /// A drive that comes back is current before what was written to it is flushed.
    ReturnedUnflushed,
    /// A log device that failed is not fenced before the next write is answered.
    DeviceUnfenced,
    /// A log of an earlier start is replayed.
    OlderEpoch,
    /// A log that was discarded is replayed.
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
