//! `explain cache`: the cache content of a volume, and the next destages.

use crate::arrays::volume::Volume;
use crate::interface::{CacheInfo, Reply};
use ondisk::{CacheMode, ReadMode, WriteMode};
use serde_json::json;
use units::{ByteCount, counted};

/// Describes the cache content of a volume.
pub(super) fn explain_cache(volume: &Volume) -> Reply {
    let (name, cache) = (volume.name(), volume.cache_info());
    let written = volume.mode_in_effect().map_or(WriteMode::WriteThrough, |now| now.mode);
    let reads = volume.reads();
    let (read_mode, cache_mode) =
        reads.map_or_else(Default::default, |reads| (reads.ahead.value, reads.kept.value));
    let served = match volume.is_served() {
        true => String::new(),
        false => {
            " The volume is not served: its dirty data stays in the cache until the volume is \
             started."
                .to_owned()
        }
    };
    let text = format!(
        "'{name}' is {}, {}, {}.{served}\n\nWrites: {}\n\nReads: {}\n",
        written.name(),
        read_mode.name(),
        cache_mode.name(),
        writes(written, &cache),
        kept(read_mode, cache_mode, &cache),
    );
    let explanation = json!({
        "volume": name,
        "write_mode": written.name(),
        "read_mode": read_mode.name(),
        "cache_mode": cache_mode.name(),
        "cache": cache,
    });
    Reply::Explained { text, explanation }
}

fn writes(mode: WriteMode, cache: &CacheInfo) -> String {
    let dirty = ByteCount(cache.dirty_bytes);
    let answered = match mode {
        WriteMode::WriteThrough => "the next write is acknowledged when the drives have it",
        WriteMode::LoggedWriteBack => "the next write is acknowledged when the log devices have it",
        WriteMode::WriteBack | WriteMode::AlwaysWriteBack => {
            "the next write is acknowledged when the cache has it"
        }
    };
    let mut text = match (mode, dirty) {
        (WriteMode::WriteThrough, ByteCount::ZERO) => {
            return format!("nothing is dirty; {answered}.");
        }
        (_, ByteCount::ZERO) => format!("nothing is dirty; {answered}."),
        _ => {
            format!("{dirty} is dirty: it is acknowledged, and not on the drives yet; {answered}.")
        }
    };
    if !dirty.is_zero() {
        text += "\n  It is destaged when it is five seconds old, when the cache is more than 40 % \
            full, or when hosts are idle; whole stripes at once.";
    }
    text += match (mode, cache.flushes_to_log) {
        (WriteMode::AlwaysWriteBack, _) => {
            "\n  A flush is acknowledged at once: a power cut loses dirty data."
        }
        (_, true) => "\n  A flush is acknowledged when dirty data is on the log devices.",
        (_, false) => {
            "\n  A flush destages dirty data, and is acknowledged when the drives have it."
        }
    };
    if cache.pinned_bytes > 0 {
        text += &format!(
            "\n  {} of it could not be destaged: it is preserved. 'softroc volume show' lists the \
            missing drives.",
            ByteCount(cache.pinned_bytes)
        );
    }
    let (absorbed, destages) =
        (counted(cache.absorbed, "write"), counted(cache.destages, "destage"));
    text + &format!("\n  Since its start: {absorbed} into the cache, {destages}.")
}

fn kept(read_mode: ReadMode, cache_mode: CacheMode, cache: &CacheInfo) -> String {
    let clean = ByteCount(cache.clean_bytes);
    let mut text = match cache_mode {
        CacheMode::Cached => format!(
            "{clean} of clean data is cached. Data that was read once is evicted first; data that \
            was read again stays."
        ),
        CacheMode::Direct if read_mode == ReadMode::ReadAhead => {
            format!("{clean} was read ahead and not read yet. It is evicted after its first read.")
        }
        CacheMode::Direct => {
            "no clean data is cached; the next read goes to the drives, unless its data is dirty."
                .to_owned()
        }
    };
    if read_mode == ReadMode::ReadAhead {
        let (used, wasted) = (cache.ahead_used_bytes, cache.ahead_wasted_bytes);
        let share = (wasted * 100).checked_div(used + wasted).unwrap_or(0);
        text += &format!(
            "\n  Read ahead since its start: {} was read, {} was evicted unread ({share} %). The \
            second of two consecutive reads starts a stream.",
            ByteCount(used),
            ByteCount(wasted)
        );
    }
    text + &format!("\n  {} with a cache hit.", counted(cache.hits, "read"))
}
