//! What the settings of volumes mean, for people.

use ondisk::{CacheMode, ReadMode, WriteMode};

/// What a mode means: a sentence.
pub(crate) fn meaning(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::WriteThrough => {
            "a write is answered when the drives have it, and survives a power cut once it is flushed"
        }
        WriteMode::WriteBack => {
            "a write is answered when the cache has it: it survives the end of the daemon at once, and a power cut once it is flushed"
        }
        WriteMode::AlwaysWriteBack => {
            "a write and a flush are answered when the cache has them: they survive the end of the daemon; a power cut loses them until the drives have them"
        }
    }
}

/// What a read mode means: a clause.
pub(crate) fn of_reads(mode: ReadMode) -> &'static str {
    match mode {
        ReadMode::NoReadAhead => "nothing is read that no host asks for",
        ReadMode::ReadAhead => "what follows a stream of reads is read before hosts ask for it",
    }
}

/// What a cache mode means: a clause.
pub(crate) fn of_kept(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::Direct => "what hosts read is not kept in the cache",
        CacheMode::Cached => "what hosts read is kept in the cache, as long as it has room",
    }
}
