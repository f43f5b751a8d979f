//! `explain cache`: what the cache has of a volume, and what it would do next.

use crate::arrays::volume::Volume;
use crate::interface::{CacheInfo, Reply};
use ondisk::{CacheMode, ReadMode, WriteMode};
use serde_json::json;
use units::{ByteCount, counted};

/// What the cache has of a volume.
pub(super) fn explain_cache(volume: &Volume) -> Reply {
    let (name, cache) = (volume.name(), volume.cache_info());
    let written = volume.mode_in_effect().map_or(WriteMode::WriteThrough, |now| now.mode);
    let reads = volume.reads();
    let (read_mode, cache_mode) =
        reads.map_or_else(Default::default, |reads| (reads.ahead.value, reads.kept.value));
    let served = match volume.is_served() {
        true => String::new(),
        false => " It is not served: what is dirty stays where it is until it is started.".to_owned(),
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
        WriteMode::WriteThrough => "the next one is answered when the drives have it",
        WriteMode::LoggedWriteBack => "the next one is answered when the log devices have it",
        WriteMode::WriteBack | WriteMode::AlwaysWriteBack => "the next one is answered when the cache has it",
    };
    let mut text = match (mode, dirty) {
        (WriteMode::WriteThrough, ByteCount::ZERO) => {
            return format!("nothing is dirty; {answered}.");
        }
        (_, ByteCount::ZERO) => format!("nothing is dirty; {answered}."),
        _ => format!(
            "{dirty} is dirty: hosts were told that it is written, and the drives do not have it yet; {answered}."
        ),
    };
    if !dirty.is_zero() {
        text += "\n  It is destaged when it is five seconds old, when the cache is more than 40 % full, or when no host asks for anything; \
                 whole stripes at once.";
    }
    text += match (mode, cache.flushes_to_log) {
        (WriteMode::AlwaysWriteBack, _) => {
            "\n  A flush is answered at once: a power cut takes what is dirty."
        }
        (_, true) => "\n  A flush is answered when what is dirty is on the log devices.",
        (_, false) => "\n  A flush destages what is dirty, and is answered when the drives have it.",
    };
    if cache.pinned_bytes > 0 {
        text += &format!(
            "\n  {} of it could not be written when it was tried: it is pinned. 'softroc volume show' says which drives are missing.",
            ByteCount(cache.pinned_bytes)
        );
    }
    let (absorbed, destages) = (counted(cache.absorbed, "write"), counted(cache.destages, "destage"));
    text + &format!(
        "\n  Since it was started {absorbed} came into the cache, and {destages} wrote what had come together."
    )
}

fn kept(read_mode: ReadMode, cache_mode: CacheMode, cache: &CacheInfo) -> String {
    let clean = ByteCount(cache.clean_bytes);
    let mut text = match cache_mode {
        CacheMode::Cached => format!(
            "{clean} of what the drives hold is kept. What is asked for once gives way first, what is asked for again stays."
        ),
        CacheMode::Direct if read_mode == ReadMode::ReadAhead => {
            format!(
                "{clean} was read ahead, and nobody has asked for it yet. It is given up when it has been read once."
            )
        }
        CacheMode::Direct => {
            "nothing is kept; the next one goes to the drives, unless what it asks for is dirty.".to_owned()
        }
    };
    if read_mode == ReadMode::ReadAhead {
        let (used, wasted) = (cache.ahead_used_bytes, cache.ahead_wasted_bytes);
        let share = (wasted * 100).checked_div(used + wasted).unwrap_or(0);
        text += &format!(
            "\n  Read ahead since it was started: {} was asked for then, {} was given up unread ({share} %). \
             The second of two reads that follow one another begins a stream.",
            ByteCount(used),
            ByteCount(wasted)
        );
    }
    text + &format!("\n  {} found something in the cache.", counted(cache.hits, "read"))
}
