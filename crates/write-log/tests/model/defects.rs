//! What is planted into the model of the journal: each has to be found.

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defect {
    None,
    /// A record is on as many drives as may be lost.
    OneCopyTooFew,
    /// Writes begin when the first copy of their record is there.
    WritesBeginEarly,
    /// Records are retired without a flush.
    RetiredUnflushed,
    /// Records are retired that were settled only when the flush ended.
    SettledTooLate,
    /// A record does not carry the last parity strip.
    ParityForgotten,
    /// A record carries redundancy only.
    DataForgotten,
    /// A whole stripe is written without revoking what was said of it.
    NotRevoked,
    /// What hosts rely on is revoked without a flush.
    PromiseRevoked,
    /// One drive's write is not kept although records say something of the stripe.
    SingleNotKept,
    /// Others' columns are not locked, nor one's own.
    Unlocked,
    /// The next record says that the one before it is retired.
    TailTooHigh,
    /// A record that failed is not known to count although some drive may have it.
    FailedForgotten,
    /// A record begins while one that failed counts.
    BegunAfterFailed,
    /// When a record is durable, the writes of those that are under way beside it begin as well.
    AnsweredTogether,
    /// A record says that those under way beside it are durable.
    FirmTooHigh,
    /// Records are retired although one before them is under way.
    RetiredBesideUnderWay,
    /// The places of what a record says is retired are used again before that record is durable.
    FreedEarly,
    /// A notice that failed is followed by one in the other place.
    NoticeElsewhere,
    /// A record promises something of a stripe that was written as a whole, and not flushed since.
    WholeUnflushed,
    /// A flush is said to cover whole stripes that were written while it ran.
    WholeFlushedTooLate,
    /// A replay carries a record out that is on few drives.
    CarriedOutTorn,
}

pub(super) const DEFECTS: [Defect; 21] = [
    Defect::OneCopyTooFew,
    Defect::WritesBeginEarly,
    Defect::RetiredUnflushed,
    Defect::SettledTooLate,
    Defect::ParityForgotten,
    Defect::DataForgotten,
    Defect::NotRevoked,
    Defect::PromiseRevoked,
    Defect::SingleNotKept,
    Defect::Unlocked,
    Defect::TailTooHigh,
    Defect::FailedForgotten,
    Defect::BegunAfterFailed,
    Defect::AnsweredTogether,
    Defect::FirmTooHigh,
    Defect::RetiredBesideUnderWay,
    Defect::FreedEarly,
    Defect::NoticeElsewhere,
    Defect::WholeUnflushed,
    Defect::WholeFlushedTooLate,
    Defect::CarriedOutTorn,
];
