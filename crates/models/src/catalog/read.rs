//! Reads a catalog file. Every error has the file, the line and the key.

use super::{
    CacheSpec, ControllerCache, ControllerSpec, DriveKind, DriveSpec, Error, Key, Result,
    RotatingSpec, Sourced, SsdSpec,
};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;

pub(super) enum Hardware {
    Drive(Box<DriveSpec>),
    Controller(Box<ControllerSpec>),
}

/// The form of a file: texts first, then numbers, each with its source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    kind: Spanned<String>,
    model: String,
    #[serde(default)]
    aliases: Vec<String>,
    interface: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    levels: Option<Spanned<Vec<String>>>,
    strips_kib: Option<Spanned<Vec<u64>>>,
    protection: Option<Spanned<String>>,
    presets: Option<Spanned<Vec<String>>>,
    settings: Option<Spanned<Vec<String>>>,
    /// The source of the texts, for people.
    source: String,
    values: Spanned<BTreeMap<Spanned<String>, Spanned<Number>>>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Number {
    value: u64,
    source: String,
    prior: Option<u64>,
}

/// The permitted first words of a source.
const SOURCES: [&str; 4] = ["published", "data sheet", "calibrated", "assumed"];
const PRESETS: [&str; 3] = ["data-protection", "performance", "fast-path"];
const SETTINGS: [&str; 4] = ["read-mode", "write-mode", "cache-mode", "drive-cache"];
const PROTECTIONS: [&str; 4] = ["none", "BBU", "FBU", "CacheVault"];
const LEVELS: [&str; 12] = [
    "jbod", "raid0", "raid00", "raid1", "raid1e", "raid10", "raid4", "raid5", "raid5ee", "raid6",
    "raid50", "raid60",
];

/// Keys of every drive, then keys of every controller.
pub const COMMON_KEYS: &[Key] = &[
    Key { name: "capacity_bytes", least: 1 << 30, most: 1 << 50, meaning: "Capacity, in bytes." },
    Key {
        name: "logical_sector_bytes",
        least: 512,
        most: 4096,
        meaning: "Logical sector size, in bytes.",
    },
    Key {
        name: "physical_sector_bytes",
        least: 512,
        most: 4096,
        meaning: "Physical sector size, in bytes.",
    },
    Key { name: "queue_depth", least: 1, most: 1024, meaning: "Maximum queue depth." },
    Key {
        name: "write_cache",
        least: 0,
        most: 1,
        meaning: "Whether its write cache is on by default: 1 is on.",
    },
    Key { name: "ports", least: 1, most: 64, meaning: "Ports for drives." },
    Key { name: "most_drives", least: 1, most: 256, meaning: "Maximum number of drives." },
    Key { name: "cache_mib", least: 0, most: 65_536, meaning: "Cache size, in MiB; 0: none." },
    Key { name: "cores", least: 1, most: 64, meaning: "Processor cores for commands." },
    Key {
        name: "host_command_ns",
        least: 0,
        most: 1_000_000,
        meaning: "Processor time per host command, in nanoseconds.",
    },
    Key {
        name: "drive_command_ns",
        least: 0,
        most: 1_000_000,
        meaning: "Processor time per drive command, in nanoseconds.",
    },
    Key {
        name: "parity_ns",
        least: 0,
        most: 1_000_000,
        meaning: "Processor time per parity computation of any length, in nanoseconds.",
    },
    Key {
        name: "xor_ps_per_byte",
        least: 0,
        most: 100_000,
        meaning: "The same per input and output byte, in picoseconds.",
    },
    Key {
        name: "latency_ns",
        least: 0,
        most: 1_000_000,
        meaning: "Additional latency of a command, in nanoseconds.",
    },
    Key {
        name: "write_latency_ns",
        least: 0,
        most: 1_000_000,
        meaning: "Further latency of a write, in nanoseconds.",
    },
    Key {
        name: "most_outstanding",
        least: 0,
        most: 100_000,
        meaning: "Maximum number of outstanding host commands; 0: no limit.",
    },
    Key {
        name: "read_path_mib_s",
        least: 0,
        most: 1_000_000,
        meaning: "Data rate to the host, in MiB/s; 0: limited by links only.",
    },
    Key {
        name: "write_path_mib_s",
        least: 0,
        most: 1_000_000,
        meaning: "Data rate from the host, in MiB/s; 0: limited by links only.",
    },
    Key {
        name: "data_path_mib_s",
        least: 0,
        most: 1_000_000,
        meaning: "Total data rate in both directions, in MiB/s; 0: no common limit.",
    },
    Key {
        name: "reads_ahead_kib",
        least: 0,
        most: 65_536,
        meaning: "Maximum read-ahead of the controller or its driver, in KiB; 0: none.",
    },
    Key {
        name: "mirror_runs",
        least: 0,
        most: 1,
        meaning: "Mirror halves share a deep stream: 1 in long runs, 0 request by request.",
    },
];

struct File<'a> {
    name: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn error(&self, at: Range<usize>, sentence: impl std::fmt::Display) -> Error {
        let before = self.text.get(..at.start.min(self.text.len())).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error(format!("{}:{line}: {sentence}", self.name))
    }

    /// The TOML reader's error, with the key of its line.
    fn unreadable(&self, error: &toml::de::Error) -> Error {
        let at = error.span().unwrap_or(0..0);
        let start = self
            .text
            .get(..at.start.min(self.text.len()))
            .unwrap_or_default()
            .rfind('\n')
            .map_or(0, |n| n + 1);
        let line = self.text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
        let message = error.message().trim().replace('\n', ", ");
        match line.split_once('=') {
            Some((key, _)) if !message.contains(key.trim()) => {
                self.error(at, format_args!("the key '{}': {message}", key.trim()))
            }
            _ => self.error(at, message),
        }
    }

    fn parsed<T: FromStr<Err = Error>>(
        &self,
        key: &str,
        text: Option<&Spanned<String>>,
        such_as: &str,
    ) -> Result<T> {
        let Some(text) = text else {
            return Err(self.error(
                0..0,
                format_args!("the key '{key}' is missing; add one such as {such_as}"),
            ));
        };
        text.get_ref()
            .parse()
            .map_err(|error| self.error(text.span(), format_args!("the key '{key}': {error}")))
    }
}

/// The numbers of a file, and the keys that were read: the other keys are mistakes.
struct Values<'a> {
    file: &'a File<'a>,
    numbers: &'a Spanned<BTreeMap<Spanned<String>, Spanned<Number>>>,
    asked: RefCell<Vec<(&'static str, u64)>>,
}

impl Values<'_> {
    fn take(&self, key: &'static Key) -> Result<u64> {
        let Some((_, number)) =
            self.numbers.get_ref().iter().find(|(name, _)| name.get_ref() == key.name)
        else {
            return Err(self.file.error(
                self.numbers.span(),
                format_args!(
                    "the key '{}' is missing; add it with a source, such as {} = \
                        {{ value = {}, source = \"assumed\" }}",
                    key.name, key.name, key.least
                ),
            ));
        };
        let Number { value, source, prior } = number.get_ref();
        if !(key.least..=key.most).contains(value) {
            return Err(self.file.error(
                number.span(),
                format_args!(
                    "the key '{}': {value} is not from {} to {}",
                    key.name, key.least, key.most
                ),
            ));
        }
        if !SOURCES.iter().any(|known| source.starts_with(known)) {
            return Err(self.file.error(
                number.span(),
                format_args!(
                    "the key '{}': the source '{source}' does not say what kind it is; begin with \
                        one of {}",
                    key.name,
                    SOURCES.join(", ")
                ),
            ));
        }
        if prior.is_some() && !source.starts_with("calibrated") {
            return Err(self.file.error(
                number.span(),
                format_args!(
                    "the key '{}': only calibrated values have a prior; omit it",
                    key.name
                ),
            ));
        }
        self.asked.borrow_mut().push((key.name, *value));
        Ok(*value)
    }

    fn named(&self, keys: &'static [Key], name: &str) -> Result<u64> {
        match keys.iter().find(|key| key.name == name) {
            Some(key) => self.take(key),
            None => Err(self.file.error(0..0, format_args!("the key '{name}' is not known"))),
        }
    }

    /// All numbers with their sources, in the order in which they were read.
    fn finish(&self) -> Result<Vec<Sourced>> {
        let asked = self.asked.borrow();
        let numbers = self.numbers.get_ref();
        if let Some((key, _)) =
            numbers.iter().find(|(key, _)| !asked.iter().any(|(name, _)| name == key.get_ref()))
        {
            let known: Vec<&str> = asked.iter().map(|(name, _)| *name).collect();
            return Err(self.file.error(
                key.span(),
                format_args!(
                    "the key '{}' is not known here; expected one of {}",
                    key.get_ref(),
                    known.join(", ")
                ),
            ));
        }
        let sourced = |(name, value): &(&'static str, u64)| {
            let number = numbers.iter().find(|(key, _)| key.get_ref() == name);
            let (source, prior) = number
                .map(|(_, number)| (number.get_ref().source.clone(), number.get_ref().prior))
                .unwrap_or_default();
            Sourced { key: (*name).to_owned(), value: *value, source, prior }
        };
        Ok(asked.iter().map(sourced).collect())
    }
}

/// Reads a file.
pub(super) fn hardware(name: &str, text: &str) -> Result<Hardware> {
    let file = File { name, text };
    let form: Form = toml::from_str(text).map_err(|error| file.unreadable(&error))?;
    let values = Values { file: &file, numbers: &form.values, asked: RefCell::default() };
    match form.kind.get_ref().as_str() {
        "rotating" | "ssd" => {
            drive(&file, &form, &values).map(|drive| Hardware::Drive(Box::new(drive)))
        }
        "controller" => controller(&file, &form, &values)
            .map(|controller| Hardware::Controller(Box::new(controller))),
        other => Err(file.error(
            form.kind.span(),
            format_args!(
                "the key 'kind': '{other}' is not known; expected rotating, ssd or controller"
            ),
        )),
    }
}

fn drive(file: &File<'_>, form: &Form, values: &Values<'_>) -> Result<DriveSpec> {
    let link = file.parsed("interface", form.interface.as_ref(), "interface = \"SAS 6G\"")?;
    let take = |name: &str| values.named(COMMON_KEYS, name);
    let capacity_bytes = take("capacity_bytes")?;
    let logical_sector_bytes = take("logical_sector_bytes")?;
    let physical_sector_bytes = take("physical_sector_bytes")?;
    let queue_depth = take("queue_depth")?;
    let write_cache = take("write_cache")? == 1;
    let kind = match form.kind.get_ref().as_str() {
        "ssd" => DriveKind::Ssd(SsdSpec::read(|key| values.take(key))?),
        _ => DriveKind::Rotating(RotatingSpec::read(|key| values.take(key))?),
    };
    Ok(DriveSpec {
        model: form.model.clone(),
        aliases: form.aliases.clone(),
        file: file.name.to_owned(),
        source: form.source.clone(),
        link,
        capacity_bytes,
        logical_sector_bytes,
        physical_sector_bytes,
        queue_depth,
        write_cache,
        kind,
        values: values.finish()?,
    })
}

fn missing(file: &File<'_>, key: &str, such_as: &str) -> Error {
    file.error(0..0, format_args!("the key '{key}' is missing; add one such as {such_as}"))
}

/// The levels of a controller.
fn levels(file: &File<'_>, form: &Form) -> Result<Vec<String>> {
    let levels = form
        .levels
        .as_ref()
        .ok_or_else(|| missing(file, "levels", "levels = [\"raid0\", \"raid1\"]"))?;
    match levels.get_ref().iter().find(|level| !LEVELS.contains(&level.as_str())) {
        None => Ok(levels.get_ref().clone()),
        Some(level) => Err(file.error(
            levels.span(),
            format_args!(
                "the key 'levels': there is no level '{level}'; expected some of {}",
                LEVELS.join(", ")
            ),
        )),
    }
}

fn controller(file: &File<'_>, form: &Form, values: &Values<'_>) -> Result<ControllerSpec> {
    let host_link = match &form.host {
        Some(host) if host.get_ref() == "none" => None,
        host => Some(file.parsed("host", host.as_ref(), "host = \"PCIe 3.0 x8\"")?),
    };
    let drive_link = match &form.interface {
        Some(interface) if interface.get_ref() == "any" => None,
        interface => {
            Some(file.parsed("interface", interface.as_ref(), "interface = \"SAS 12G\"")?)
        }
    };
    let levels = levels(file, form)?;
    let strips =
        form.strips_kib.as_ref().ok_or_else(|| missing(file, "strips_kib", "strips_kib = [64]"))?;
    if strips.get_ref().is_empty() {
        return Err(file.error(
            strips.span(),
            "the key 'strips_kib': no strip is offered; name one such as 64",
        ));
    }
    let take = |name: &str| values.named(COMMON_KEYS, name);
    let cache_mib = take("cache_mib")?;
    Ok(ControllerSpec {
        model: form.model.clone(),
        aliases: form.aliases.clone(),
        file: file.name.to_owned(),
        source: form.source.clone(),
        host_link,
        drive_link,
        ports: take("ports")?,
        most_drives: take("most_drives")?,
        levels,
        strips_kib: strips.get_ref().clone(),
        cache_mib,
        cores: take("cores")?,
        host_command_ns: take("host_command_ns")?,
        drive_command_ns: take("drive_command_ns")?,
        parity_ns: take("parity_ns")?,
        xor_ps_per_byte: take("xor_ps_per_byte")?,
        latency_ns: take("latency_ns")?,
        write_latency_ns: take("write_latency_ns")?,
        most_outstanding: take("most_outstanding")?,
        read_path_mib_s: take("read_path_mib_s")?,
        write_path_mib_s: take("write_path_mib_s")?,
        data_path_mib_s: take("data_path_mib_s")?,
        reads_ahead_kib: take("reads_ahead_kib")?,
        mirror_runs: take("mirror_runs")? == 1,
        cache: cache(file, form, values, cache_mib)?,
        values: values.finish()?,
    })
}

/// The words of a list, which must all be known.
fn words(
    file: &File<'_>,
    key: &str,
    found: Option<&Spanned<Vec<String>>>,
    known: &[&str],
) -> Result<Vec<String>> {
    let Some(found) = found else {
        let such_as = known.join("\", \"");
        return Err(file.error(
            0..0,
            format_args!(
                "the key '{key}' is missing, and there is a cache; add some of {key} = \
                    [\"{such_as}\"]"
            ),
        ));
    };
    match found.get_ref().iter().find(|word| !known.contains(&word.as_str())) {
        Some(word) => Err(file.error(
            found.span(),
            format_args!(
                "the key '{key}': '{word}' is not known; expected some of {}",
                known.join(", ")
            ),
        )),
        None => Ok(found.get_ref().clone()),
    }
}

/// A controller's cache, if it has one; otherwise its keys are rejected.
fn cache(
    file: &File<'_>,
    form: &Form,
    values: &Values<'_>,
    mib: u64,
) -> Result<Option<ControllerCache>> {
    if mib == 0 {
        let said = [
            ("protection", form.protection.as_ref().map(Spanned::span)),
            ("presets", form.presets.as_ref().map(Spanned::span)),
            ("settings", form.settings.as_ref().map(Spanned::span)),
        ];
        let said = said.into_iter().find_map(|(key, at)| Some((key, at?)));
        return match said {
            Some((key, at)) => Err(file.error(
                at,
                format_args!("the key '{key}' is of a cache, and cache_mib is 0; omit one of them"),
            )),
            None => Ok(None),
        };
    }
    let Some(protection) = &form.protection else {
        return Err(file.error(
            0..0,
            "the key 'protection' is missing, and there is a cache; add one such as protection = \
                \"FBU\"",
        ));
    };
    if !PROTECTIONS.contains(&protection.get_ref().as_str()) {
        return Err(file.error(
            protection.span(),
            format_args!(
                "the key 'protection': '{}' is not known; expected one of {}",
                protection.get_ref(),
                PROTECTIONS.join(", ")
            ),
        ));
    }
    let presets = words(file, "presets", form.presets.as_ref(), &PRESETS)?;
    let settings = words(file, "settings", form.settings.as_ref(), &SETTINGS)?;
    let spec = CacheSpec::read(|key| values.take(key))?;
    if spec.low_mark_percent >= spec.high_mark_percent {
        return Err(file.error(
            form.values.span(),
            "the key 'low_mark_percent' is not below high_mark_percent; lower it",
        ));
    }
    if presets.iter().any(|preset| preset == "fast-path") && spec.fast_path_command_ns == 0 {
        return Err(file.error(
            form.values.span(),
            "the key 'fast_path_command_ns' is 0, and there is the preset fast-path; omit one of \
             them",
        ));
    }
    Ok(Some(ControllerCache { spec, protection: protection.get_ref().clone(), presets, settings }))
}
