//! Presets: named combinations of cache settings.

use crate::interface::CreateVolume;
use ondisk::{CacheMode, DriveCache, ReadMode, WriteMode};

/// The settings of a preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether streams are read ahead.
    pub read_mode: ReadMode,
    /// When writes are acknowledged.
    pub write_mode: WriteMode,
    /// Whether the cache keeps read data.
    pub cache_mode: CacheMode,
    /// The drives' own write caches.
    pub drive_cache: DriveCache,
}

/// A preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// Acknowledged writes survive a power cut.
    DataProtection,
    /// Acknowledged writes survive a restart; flushed writes survive a power cut.
    Performance,
    /// The shortest I/O path, for flash.
    FastPath,
}

impl Preset {
    /// All presets.
    pub const ALL: &[Preset] = &[Preset::DataProtection, Preset::Performance, Preset::FastPath];

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Preset::DataProtection => "data-protection",
            Preset::Performance => "performance",
            Preset::FastPath => "fast-path",
        }
    }

    /// Its settings.
    pub fn settings(self) -> Settings {
        let (read_mode, write_mode, drive_cache) = match self {
            Preset::DataProtection => {
                (ReadMode::ReadAhead, WriteMode::LoggedWriteBack, DriveCache::Off)
            }
            Preset::Performance => (ReadMode::ReadAhead, WriteMode::WriteBack, DriveCache::On),
            Preset::FastPath => (ReadMode::NoReadAhead, WriteMode::WriteThrough, DriveCache::On),
        };
        Settings { read_mode, write_mode, cache_mode: CacheMode::Direct, drive_cache }
    }

    /// Its meaning for hosts: a clause.
    pub fn meaning(self) -> &'static str {
        match self {
            Preset::DataProtection => {
                "writes are acknowledged when a log device has them (without one, when the drives \
                have them); acknowledged writes survive a power cut"
            }
            Preset::Performance => {
                "write-back: acknowledged writes survive a restart; unflushed writes are lost in a \
                power cut, as with a drive's own cache"
            }
            Preset::FastPath => {
                "write-through without read cache and read-ahead: writes are acknowledged when the \
                drives have them"
            }
        }
    }

    /// The default preset for a volume on drives of these names. For drives in memory, a cache in
    /// memory would only add a copy of each write.
    pub fn usual<'a>(drives: impl IntoIterator<Item = &'a str>) -> Preset {
        let mut drives = drives.into_iter().peekable();
        let is_in_memory = drives.peek().is_some() && drives.all(is_volatile);
        if is_in_memory { Preset::FastPath } else { Preset::Performance }
    }

    /// The preset with exactly these settings.
    pub fn of(settings: Settings) -> Option<Preset> {
        Preset::ALL.iter().copied().find(|preset| preset.settings() == settings)
    }
}

impl CreateVolume {
    /// The same with the usual preset of these drives (by name) in place of settings that are not
    /// chosen: the default of every interface.
    pub(crate) fn with_default_settings<'a>(
        self,
        drives: impl IntoIterator<Item = &'a str>,
    ) -> CreateVolume {
        let Settings { read_mode, write_mode, cache_mode, drive_cache } =
            Preset::usual(drives).settings();
        CreateVolume {
            read_mode: self.read_mode.or(Some(read_mode)),
            write_mode: self.write_mode.or(Some(write_mode)),
            cache_mode: self.cache_mode.or(Some(cache_mode)),
            drive_cache: self.drive_cache.or(Some(drive_cache)),
            ..self
        }
    }
}

/// Whether a drive of this name loses its data when this process ends.
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
