//! What a controller is set to: presets and modes, as they are asked for, and as they are in effect.

use crate::error::{Error, Result};
use models::{ControllerCache, ControllerSpec, DriveSpec};
use units::ByteCount;

/// What is asked of a controller's settings. What cannot be set is refused in a sentence that names the setting as the
/// command line does: `--write-mode`.
#[derive(Clone, Default, Debug)]
pub struct Policies {
    /// A preset.
    pub preset: Option<String>,
    /// The write mode of the controller's cache.
    pub write_mode: Option<String>,
    /// Whether the controller reads ahead: `read-ahead` or `no-read-ahead`.
    pub read_mode: Option<String>,
    /// The cache mode of the controller's cache.
    pub cache_mode: Option<String>,
    /// The drives' own caches.
    pub drive_cache: Option<bool>,
    /// The size of SoftROC's own cache, if that is to answer writes, behind a controller that has none.
    pub write_back: Option<ByteCount>,
    /// Whether SoftROC's journal has what it writes of stripes.
    pub journal: bool,
    /// The drives that the journal is on, if not on those of the array.
    pub log: Vec<DriveSpec>,
}

/// What a controller does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes {
    /// Streams are read ahead.
    pub read_ahead: bool,
    /// Writes are answered by the controller's cache.
    pub write_back: bool,
    /// What was read stays in the controller's cache.
    pub cached: bool,
    /// Commands of one strip go the fast path.
    pub fast_path: bool,
    /// The drives' own caches; `None`: as each drive is by itself.
    pub drive_cache: Option<bool>,
}

/// A preset, by its name.
fn preset(name: &str) -> Result<Modes> {
    let modes = |read_ahead, write_back, fast_path, drive_cache| Modes {
        read_ahead,
        write_back,
        cached: false,
        fast_path,
        drive_cache: Some(drive_cache),
    };
    match name {
        "data-protection" => Ok(modes(true, true, false, false)),
        "performance" => Ok(modes(true, true, false, true)),
        "fast-path" => Ok(modes(false, false, true, true)),
        other => Err(Error::refused(format!(
            "there is no preset '{other}'; expected data-protection, performance or fast-path"
        ))),
    }
}

impl Policies {
    /// What the controller does when it is asked for that.
    ///
    /// # Errors
    /// What it does not offer, what there is not, and what contradicts itself.
    pub(crate) fn modes(&self, controller: &ControllerSpec, name: &str) -> Result<Modes> {
        let asked = self.preset.as_deref().map(preset).transpose()?;
        if let (Some(preset), Some(drives)) = (asked, self.drive_cache)
            && preset.drive_cache != Some(drives)
        {
            return Err(Error::refused(
                "the preset and --drive-cache contradict each other; leave one of them out",
            ));
        }
        let mut modes = match &controller.cache {
            None => self.without_cache(controller, name, asked)?,
            Some(cache) => self.with_cache(cache, name, asked)?,
        };
        modes.drive_cache = self.drive_cache.or(asked.and_then(|preset| preset.drive_cache));
        Ok(modes)
    }

    /// The modes that are asked for, each with the option that asks for it.
    fn asked(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let modes = [
            ("write-mode", &self.write_mode),
            ("read-mode", &self.read_mode),
            ("cache-mode", &self.cache_mode),
        ];
        modes.into_iter().filter_map(|(option, mode)| Some((option, mode.as_deref()?)))
    }

    fn without_cache(&self, controller: &ControllerSpec, name: &str, asked: Option<Modes>) -> Result<Modes> {
        if asked.is_some_and(|preset| preset.fast_path) {
            return Err(Error::refused(format!(
                "{name} has no preset fast-path, which is for controllers with a cache; choose performance or data-protection"
            )));
        }
        let can = controller.reads_ahead_kib > 0;
        let mut read_ahead = can;
        for (option, mode) in self.asked() {
            if option != "read-mode" || !can {
                return Err(Error::refused(format!(
                    "--{option} {mode}: {name} has no cache to set; leave it out, or choose a controller with a cache"
                )));
            }
            read_ahead = is_read_ahead(mode)?;
        }
        Ok(Modes { read_ahead, ..Modes::default() })
    }

    fn with_cache(&self, cache: &ControllerCache, name: &str, asked: Option<Modes>) -> Result<Modes> {
        if let Some(preset) =
            self.preset.as_deref().filter(|asked| !cache.presets.iter().any(|known| known == asked))
        {
            return Err(Error::refused(format!(
                "{name} has no preset {preset}; it offers {}",
                cache.presets.join(", ")
            )));
        }
        let usual = cache.presets.first().map_or("performance", String::as_str);
        let mut modes = match asked {
            Some(preset) => preset,
            None => preset(usual)?,
        };
        let drive_cache = self.drive_cache.map(|_| ("drive-cache", ""));
        for (option, mode) in self.asked().chain(drive_cache) {
            if !cache.settings.iter().any(|known| known == option) {
                return Err(Error::refused(format!("{name} has no --{option}; leave it out")));
            }
            match option {
                "read-mode" => modes.read_ahead = is_read_ahead(mode)?,
                "write-mode" => modes.write_back = is_write_back(mode, cache)?,
                "cache-mode" => modes.cached = is_cached(mode)?,
                _ => {}
            }
        }
        // Without protection a cache falls back to write-through, unless it is told not to.
        let always = self.write_mode.as_deref() == Some("always-write-back");
        modes.write_back &= always || cache.is_protected();
        modes.fast_path &= !modes.read_ahead && !modes.write_back && !modes.cached;
        Ok(modes)
    }
}

fn is_read_ahead(mode: &str) -> Result<bool> {
    match mode {
        "read-ahead" => Ok(true),
        "no-read-ahead" => Ok(false),
        other => Err(Error::refused(format!(
            "there is no read mode '{other}'; expected read-ahead or no-read-ahead"
        ))),
    }
}

fn is_write_back(mode: &str, cache: &ControllerCache) -> Result<bool> {
    match mode {
        "write-through" => Ok(false),
        "write-back" => Ok(cache.is_protected()),
        "always-write-back" => Ok(true),
        other => Err(Error::refused(format!(
            "there is no write mode '{other}'; expected write-through, write-back or always-write-back"
        ))),
    }
}

fn is_cached(mode: &str) -> Result<bool> {
    match mode {
        "direct" => Ok(false),
        "cached" => Ok(true),
        other => Err(Error::refused(format!("there is no cache mode '{other}'; expected direct or cached"))),
    }
}
