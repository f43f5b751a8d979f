//! Descriptions of volume settings for operators.

use ondisk::{CacheMode, ReadMode, WriteMode};

/// The meaning of a write mode: a clause.
pub(crate) fn meaning(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::WriteThrough => {
            "writes are acknowledged when the drives have them; flushed writes survive a power cut"
        }
        WriteMode::LoggedWriteBack => {
            "writes are acknowledged when a log device has them; acknowledged writes survive a \
            restart and a power cut"
        }
        WriteMode::WriteBack => {
            "writes are acknowledged when the cache has them; acknowledged writes survive a \
            restart, flushed writes also a power cut"
        }
        WriteMode::AlwaysWriteBack => {
            "writes and flushes are acknowledged from the cache; acknowledged writes survive a \
            restart, and dirty data is lost in a power cut"
        }
    }
}

/// The meaning of a read mode: a clause.
pub(crate) fn of_reads(mode: ReadMode) -> &'static str {
    match mode {
        ReadMode::NoReadAhead => "no read-ahead",
        ReadMode::ReadAhead => "sequential streams are read ahead",
    }
}

/// The meaning of a cache mode: a clause.
pub(crate) fn of_kept(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::Direct => "reads are not cached",
        CacheMode::Cached => "reads are cached while the cache has space",
    }
}
