//! `/cN/vN set ...`: properties of volumes.

use super::wanted::volume_name;
use super::{Refusal, ask};
use crate::Machine;
use crate::answer::{Answer, exit_code};
use crate::tree::{Column, Table, Value, column, left, number, text};
use crate::view::{Vd, View};
use crate::words::{Numbers, Word};
use controller::{CacheMode, Command, ReadMode, SetPolicy, WriteMode};

/// A property that is set, with its value as it was given.
struct Setting {
    property: &'static str,
    value: String,
    to: To,
}

enum To {
    Name(String),
    Policy(SetPolicy),
    /// It is so in any case.
    AsItIs,
    /// It cannot be so: a sentence.
    Refused(&'static str),
}

/// `set wrcache=... name=...`.
pub(super) fn answer(view: &View, numbers: &Numbers, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let settings: Option<Vec<Setting>> = words.iter().map(Setting::read).collect();
    let Some(settings) = settings.filter(|settings| !settings.is_empty()) else {
        return Answer::unsupported();
    };
    let volumes = view.volumes_of(numbers);
    if volumes.is_empty() {
        return crate::show::missing_volumes(numbers);
    }
    let refused = |setting: &&Setting| matches!(setting.to, To::Refused(_));
    // All of them can be set, or none is.
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
        Some(code) => Answer { detailed, code: exit_code(code), ..Answer::failed("Set VD Failed.") },
    }
}

const COLUMNS: &[Column] =
    &[column("VD"), left("Property"), left("Value"), left("Status"), column("ErrCd"), left("ErrMsg")];

impl Setting {
    /// `None`: there is no such property, or it has no such value.
    fn read(word: &Word) -> Option<Setting> {
        let low = word.low();
        let (property, to) = match word.key.as_str() {
            "wrcache" => ("wrCache", writes(&low)?),
            "rdcache" => ("rdCache", reads(&low)?),
            "iopolicy" => ("IoPolicy", keeps(&low)?),
            "accesspolicy" if low == "rw" => ("AccPolicy", To::AsItIs),
            "accesspolicy" => (
                "AccPolicy",
                To::Refused("a volume can be read and written, or is not served; there is no other access"),
            ),
            "autobgi" if low == "on" => ("AutoBGI", To::AsItIs),
            "autobgi" if low == "off" => {
                ("AutoBGI", To::Refused("redundancy is always made to agree; 'stop bgi' stops it once"))
            }
            "bootdrive" if low == "off" => ("Boot Drive", To::AsItIs),
            "bootdrive" if low == "on" => (
                "Boot Drive",
                To::Refused(
                    "there is no boot ROM; name the volume's export in the boot settings of the host",
                ),
            ),
            "pdcache" => {
                let drive_cache = Some(super::volume::drive_cache(&low)?);
                ("pdCache", To::Policy(SetPolicy { drive_cache, ..SetPolicy::default() }))
            }
            "emulationtype" => {
                let sector_format = Some(super::volume::emulation_type(&low)?);
                ("EmulationType", To::Policy(SetPolicy { sector_format, ..SetPolicy::default() }))
            }
            "name" => {
                let name = volume_name(word.value.as_deref().unwrap_or_default());
                ("Name", To::Name(Some(name).filter(|name| !name.is_empty())?))
            }
            _ => return None,
        };
        Some(Setting { property, value: word.value.clone().unwrap_or_default(), to })
    }

    fn carry_out(&self, vd: &Vd<'_>, machine: &mut dyn Machine) -> Result<(), Refusal> {
        // By UUID: another one may have its name.
        let volume = vd.volume.uuid.clone();
        let command = match &self.to {
            To::AsItIs => return Ok(()),
            To::Refused(why) => return Err(Refusal::invalid(*why)),
            To::Name(name) => Command::VolumeSet { volume, name: name.clone() },
            To::Policy(set) => Command::VolumePolicy(SetPolicy { volume, ..set.clone() }),
        };
        ask(machine, command).map(|_| ())
    }

    fn row(&self, vd: &Vd<'_>, outcome: Result<(), Refusal>) -> Vec<Value> {
        let value = match &self.to {
            // As it is called now.
            To::Name(name) => name,
            _ => &self.value,
        };
        let (status, code, message) = match outcome {
            Ok(()) => ("Success", 0, "-".to_owned()),
            Err(refusal) => ("Failed", refusal.code, refusal.message),
        };
        vec![number(vd.number), text(self.property), text(value), text(status), number(code), text(message)]
    }
}

fn writes(low: &str) -> Option<To> {
    let write_mode = Some(match low {
        "wt" => WriteMode::WriteThrough,
        "wb" => WriteMode::WriteBack,
        "awb" | "fwb" => WriteMode::AlwaysWriteBack,
        _ => return None,
    });
    Some(To::Policy(SetPolicy { write_mode, ..SetPolicy::default() }))
}

fn reads(low: &str) -> Option<To> {
    let read_mode = Some(match low {
        "nora" => ReadMode::NoReadAhead,
        "ra" => ReadMode::ReadAhead,
        _ => return None,
    });
    Some(To::Policy(SetPolicy { read_mode, ..SetPolicy::default() }))
}

fn keeps(low: &str) -> Option<To> {
    let cache_mode = Some(match low {
        "direct" => CacheMode::Direct,
        "cached" | "cache" => CacheMode::Cached,
        _ => return None,
    });
    Some(To::Policy(SetPolicy { cache_mode, ..SetPolicy::default() }))
}
