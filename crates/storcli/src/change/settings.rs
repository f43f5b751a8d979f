//! `/cN/vN set ...`: properties of volumes.

use super::wanted::volume_name;
use super::{Refusal, ask};
use crate::Machine;
use crate::answer::{Answer, exit_code};
use crate::tree::{Column, Table, Value, column, left, number, text};
use crate::view::{Vd, View};
use crate::words::{Numbers, Word};
use controller::{CacheMode, Command, ReadMode, SetPolicy, WriteMode};

/// A property with its given value.
struct Setting {
    property: &'static str,
    value: String,
    to: NewValue,
}

enum NewValue {
    Name(String),
    Policy(SetPolicy),
    /// Always the case.
    AsItIs,
    /// Unsupported, for this reason.
    Refused(&'static str),
}

/// `set wrcache=... name=...`.
pub(super) fn answer(
    view: &View,
    numbers: &Numbers,
    words: &[Word],
    machine: &mut dyn Machine,
) -> Answer {
    let settings: Option<Vec<Setting>> = words.iter().map(Setting::read).collect();
    let Some(settings) = settings.filter(|settings| !settings.is_empty()) else {
        return Answer::unsupported();
    };
    let volumes = view.volumes_of(numbers);
    if volumes.is_empty() {
        return crate::show::missing_volumes(numbers);
    }
    let refused = |setting: &&Setting| matches!(setting.to, NewValue::Refused(_));
    // All settings must be possible, or nothing is changed.
    let tried: Vec<&Setting> = match settings.iter().any(|setting| refused(&setting)) {
        true => settings.iter().filter(refused).collect(),
        false => settings.iter().collect(),
    };
    let mut rows = Vec::new();
    let mut code = None;
    for volume in &volumes {
        for setting in &tried {
            let outcome = setting.carry_out(volume, machine);
            code = code.or(outcome.as_ref().err().map(|refusal| refusal.code));
            rows.push(setting.row(volume, outcome));
        }
    }
    let detailed = Some(Box::new(Table::new(COLUMNS, rows)));
    match code {
        None => Answer { detailed, ..Answer::done("None") },
        Some(code) => {
            Answer { detailed, code: exit_code(code), ..Answer::failed("Set VD Failed.") }
        }
    }
}

const COLUMNS: &[Column] = &[
    column("VD"),
    left("Property"),
    left("Value"),
    left("Status"),
    column("ErrCd"),
    left("ErrMsg"),
];

impl Setting {
    /// `None`: unknown property or value.
    fn read(word: &Word) -> Option<Setting> {
        let low = word.low();
        let (property, to) = match word.key.as_str() {
            "wrcache" => ("wrCache", writes(&low)?),
            "rdcache" => ("rdCache", reads(&low)?),
            "iopolicy" => ("IoPolicy", keeps(&low)?),
            "accesspolicy" if low == "rw" => ("AccPolicy", NewValue::AsItIs),
            "accesspolicy" => ("AccPolicy", NewValue::Refused("volumes are always read-write")),
            "autobgi" if low == "on" => ("AutoBGI", NewValue::AsItIs),
            "autobgi" if low == "off" => (
                "AutoBGI",
                NewValue::Refused(
                    "resyncs always start automatically; 'stop bgi' stops the current one",
                ),
            ),
            "bootdrive" if low == "off" => ("Boot Drive", NewValue::AsItIs),
            "bootdrive" if low == "on" => (
                "Boot Drive",
                NewValue::Refused(
                    "there is no boot ROM; name the volume's export in the boot settings of the \
                        host",
                ),
            ),
            "pdcache" => {
                let drive_cache = Some(super::volume::drive_cache(&low)?);
                ("pdCache", NewValue::Policy(SetPolicy { drive_cache, ..SetPolicy::default() }))
            }
            "emulationtype" => {
                let sector_format = Some(super::volume::emulation_type(&low)?);
                (
                    "EmulationType",
                    NewValue::Policy(SetPolicy { sector_format, ..SetPolicy::default() }),
                )
            }
            "name" => {
                let name = volume_name(word.value.as_deref().unwrap_or_default());
                ("Name", NewValue::Name(Some(name).filter(|name| !name.is_empty())?))
            }
            _ => return None,
        };
        Some(Setting { property, value: word.value.clone().unwrap_or_default(), to })
    }

    fn carry_out(&self, vd: &Vd<'_>, machine: &mut dyn Machine) -> Result<(), Refusal> {
        // By UUID: another volume may have this name.
        let volume = vd.volume.uuid.clone();
        let command = match &self.to {
            NewValue::AsItIs => return Ok(()),
            NewValue::Refused(why) => return Err(Refusal::invalid(*why)),
            NewValue::Name(name) => Command::VolumeSet { volume, name: name.clone() },
            NewValue::Policy(set) => Command::VolumePolicy(SetPolicy { volume, ..set.clone() }),
        };
        ask(machine, command).map(|_| ())
    }

    fn row(&self, vd: &Vd<'_>, outcome: Result<(), Refusal>) -> Vec<Value> {
        let value = match &self.to {
            // The current name.
            NewValue::Name(name) => name,
            _ => &self.value,
        };
        let (status, code, message) = match outcome {
            Ok(()) => ("Success", 0, "-".to_owned()),
            Err(refusal) => ("Failed", refusal.code, refusal.message),
        };
        vec![
            number(vd.number),
            text(self.property),
            text(value),
            text(status),
            number(code),
            text(message),
        ]
    }
}

fn writes(low: &str) -> Option<NewValue> {
    let write_mode = Some(match low {
        "wt" => WriteMode::WriteThrough,
        "wb" => WriteMode::WriteBack,
        "awb" | "fwb" => WriteMode::AlwaysWriteBack,
        _ => return None,
    });
    Some(NewValue::Policy(SetPolicy { write_mode, ..SetPolicy::default() }))
}

fn reads(low: &str) -> Option<NewValue> {
    let read_mode = Some(match low {
        "nora" => ReadMode::NoReadAhead,
        "ra" => ReadMode::ReadAhead,
        _ => return None,
    });
    Some(NewValue::Policy(SetPolicy { read_mode, ..SetPolicy::default() }))
}

fn keeps(low: &str) -> Option<NewValue> {
    let cache_mode = Some(match low {
        "direct" => CacheMode::Direct,
        "cached" | "cache" => CacheMode::Cached,
        _ => return None,
    });
    Some(NewValue::Policy(SetPolicy { cache_mode, ..SetPolicy::default() }))
}
