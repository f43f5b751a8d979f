//! Planted defects of the journal's model: each must be detected.

/// The planted defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defect {
    None,
    /// A record is on only as many drives as may be lost.
    OneCopyTooFew,
    /// Writes begin after the first copy of their record.
    WritesBeginEarly,
    /// Records are retired without a flush.
    RetiredUnflushed,
    /// The flush retires records that were settled only when it ended.
    SettledTooLate,
    /// A record does not carry the last parity strip.
    ParityForgotten,
    /// A record carries redundancy only.
    DataForgotten,
    /// A full-stripe write does not revoke earlier records.
    NotRevoked,
    /// Records that hosts rely on are revoked without a flush.
    PromiseRevoked,
    /// A write to one drive has no record although records cover the stripe.
    SingleNotKept,
    /// Neither the write's own columns are locked, nor those of other writes.
    Unlocked,
    /// The next record announces its predecessor as retired.
    TailTooHigh,
    /// A failed record does not count, although some drive may have it.
    FailedForgotten,
    /// A record begins while a failed one counts.
    BegunAfterFailed,
    /// When a record is durable, the writes of concurrent records begin as well.
    AnsweredTogether,
    /// A record announces concurrent records as durable.
    FirmTooHigh,
    /// Records are retired although an earlier one is under way.
    RetiredBesideUnderWay,
    /// The places of retired records are reused before the announcing record is durable.
    FreedEarly,
    /// A failed notice is followed by one in the other place.
    NoticeElsewhere,
    /// A record gives a durability token for a stripe of a full-stripe write without a flush since.
    WholeUnflushed,
    /// A flush counts for full-stripe writes that were done during it.
    WholeFlushedTooLate,
    /// A replay applies a record with too few copies.
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
