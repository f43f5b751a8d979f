//! A controller's settings: presets and modes, as requested and as in effect.

use crate::error::{Error, Result};
use models::{ControllerCache, ControllerSpec, DriveSpec};
use units::ByteCount;

/// The requested settings. Errors name a setting by its command-line option, such as
/// `--write-mode`.
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
    /// The size of SoftROC's own write-back cache, behind a controller without one.
    pub write_back: Option<ByteCount>,
    /// Whether SoftROC's journal records stripe writes.
    pub journal: bool,
    /// The log devices of the journal; empty: the journal is on the members.
    pub log: Vec<DriveSpec>,
}

/// The modes in effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes {
    /// Streams are read ahead.
    pub read_ahead: bool,
    /// The controller's cache acknowledges writes.
    pub write_back: bool,
    /// Data that was read stays in the controller's cache.
    pub cached: bool,
    /// Commands within one strip use the FastPath.
    pub fast_path: bool,
    /// The drives' write caches; `None`: each drive's default.
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
            "unknown preset '{other}'; expected data-protection, performance or fast-path"
        ))),
    }
}

impl Policies {
    /// The modes in effect for these settings.
    ///
    /// # Errors
    /// When a setting is unknown, unsupported, or contradicts another.
    pub(crate) fn modes(&self, controller: &ControllerSpec, name: &str) -> Result<Modes> {
        let asked = self.preset.as_deref().map(preset).transpose()?;
        if let (Some(preset), Some(drives)) = (asked, self.drive_cache)
            && preset.drive_cache != Some(drives)
        {
            return Err(Error::refused(
                "the preset and --drive-cache contradict each other; omit one of them",
            ));
        }
        let mut modes = match &controller.cache {
            None => self.without_cache(controller, name, asked)?,
            Some(cache) => self.with_cache(cache, name, asked)?,
        };
        modes.drive_cache = self.drive_cache.or(asked.and_then(|preset| preset.drive_cache));
        Ok(modes)
    }

    /// The requested modes, each with its option.
    fn asked(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let modes = [
            ("write-mode", &self.write_mode),
            ("read-mode", &self.read_mode),
            ("cache-mode", &self.cache_mode),
        ];
        modes.into_iter().filter_map(|(option, mode)| Some((option, mode.as_deref()?)))
    }

    fn without_cache(
        &self,
        controller: &ControllerSpec,
        name: &str,
        asked: Option<Modes>,
    ) -> Result<Modes> {
        if asked.is_some_and(|preset| preset.fast_path) {
            return Err(Error::refused(format!(
                "{name} has no preset fast-path (it needs a cache); choose performance or \
                 data-protection"
            )));
        }
        let can = controller.reads_ahead_kib > 0;
        let mut read_ahead = can;
        for (option, mode) in self.asked() {
            if option != "read-mode" || !can {
                return Err(Error::refused(format!(
                    "--{option} {mode}: {name} has no cache to set; omit it, or choose a \
                     controller with a cache"
                )));
            }
            read_ahead = is_read_ahead(mode)?;
        }
        Ok(Modes { read_ahead, ..Modes::default() })
    }

    fn with_cache(
        &self,
        cache: &ControllerCache,
        name: &str,
        asked: Option<Modes>,
    ) -> Result<Modes> {
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
                return Err(Error::refused(format!("{name} has no --{option}; omit it")));
            }
            match option {
                "read-mode" => modes.read_ahead = is_read_ahead(mode)?,
                "write-mode" => modes.write_back = is_write_back(mode, cache)?,
                "cache-mode" => modes.cached = is_cached(mode)?,
                _ => {}
            }
        }
        // Without protection a cache falls back to write-through, except with always-write-back.
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
            "unknown read mode '{other}'; expected read-ahead or no-read-ahead"
        ))),
    }
}

fn is_write_back(mode: &str, cache: &ControllerCache) -> Result<bool> {
    match mode {
        "write-through" => Ok(false),
        "write-back" => Ok(cache.is_protected()),
        "always-write-back" => Ok(true),
        other => Err(Error::refused(format!(
            "unknown write mode '{other}'; expected write-through, write-back or always-write-back"
        ))),
    }
}

fn is_cached(mode: &str) -> Result<bool> {
    match mode {
        "direct" => Ok(false),
        "cached" => Ok(true),
        other => {
            Err(Error::refused(format!("unknown cache mode '{other}'; expected direct or cached")))
        }
    }
}
