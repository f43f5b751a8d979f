//! Presets: settings of the cache under one name, for people who want one of the usual ways.

use ondisk::{CacheMode, DriveCache, ReadMode, WriteMode};

/// What a preset sets of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether streams are read ahead.
    pub read_mode: ReadMode,
    /// When writes are answered.
    pub write_mode: WriteMode,
    /// Whether what was read is kept.
    pub cache_mode: CacheMode,
    /// What the drives' own caches are to be.
    pub drive_cache: DriveCache,
}

/// A preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// A write is answered when it outlives a power cut.
    DataProtection,
    /// A write is answered when it outlives the controller; what is flushed outlives a power cut.
    Performance,
    /// As little as possible between hosts and drives: for flash.
    FastPath,
}

impl Preset {
    /// All there are.
    pub const ALL: &[Preset] = &[Preset::DataProtection, Preset::Performance, Preset::FastPath];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Preset::DataProtection => "data-protection",
            Preset::Performance => "performance",
            Preset::FastPath => "fast-path",
        }
    }

    /// What it sets.
    pub fn settings(self) -> Settings {
        let (read_mode, write_mode, drive_cache) = match self {
            Preset::DataProtection => (ReadMode::ReadAhead, WriteMode::LoggedWriteBack, DriveCache::Off),
            Preset::Performance => (ReadMode::ReadAhead, WriteMode::WriteBack, DriveCache::On),
            Preset::FastPath => (ReadMode::NoReadAhead, WriteMode::WriteThrough, DriveCache::On),
        };
        Settings { read_mode, write_mode, cache_mode: CacheMode::Direct, drive_cache }
    }

    /// What it means for hosts: a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Preset::DataProtection => {
                "a write is answered when a log device has it, or without one when the drives have it: no power cut loses what was answered"
            }
            Preset::Performance => {
                "a write is answered when the cache has it; a power cut may lose what was not flushed, as with a drive's own cache"
            }
            Preset::FastPath => "a write is answered when the drives have it; nothing is kept or read ahead",
        }
    }

    /// The one of a volume on these drives, by their names, for which none is chosen. Drives in the memory of the controller gain nothing
    /// from a cache that lies in memory, too: all that is written would be copied once more.
    pub fn usual<'a>(drives: impl IntoIterator<Item = &'a str>) -> Preset {
        let mut drives = drives.into_iter().peekable();
        let is_in_memory = drives.peek().is_some() && drives.all(is_volatile);
        if is_in_memory { Preset::FastPath } else { Preset::Performance }
    }

    /// The one that sets exactly this.
    pub fn of(settings: Settings) -> Option<Preset> {
        Preset::ALL.iter().copied().find(|preset| preset.settings() == settings)
    }
}

/// Whether a drive of that name lives no longer than this process.
pub(crate) fn is_volatile(drive: &str) -> bool {
    drive.starts_with("mem:") || drive.starts_with("null:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_in_memory_have_no_cache_in_memory_before_them_unless_one_is_chosen() {
        assert_eq!(Preset::usual(["mem:1G", "null:1G"]), Preset::FastPath);
        assert_eq!(Preset::usual(["mem:1G", "/dev/sda"]), Preset::Performance);
        assert_eq!(Preset::usual([]), Preset::Performance);
    }
}
