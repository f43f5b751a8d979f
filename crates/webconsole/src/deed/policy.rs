//! Policies of a volume and its array.

use super::{ConsoleAction, Field, FormValues, Kind, create, deed};
use crate::words::shell_word;
use crate::{Viewer, World};
use access::Action;
use controller::{
    AttachPolicy, CacheMode, Command, DriveCache, Error, ErrorKind, Preset, ReadMode, Result,
    SectorFormat, SetPolicy, StartDegraded, WriteHole, WriteMode,
};

/// The policies that can be set, by their names on the command line.
pub(super) const NAMES: &[&str] = &[
    "preset",
    "write-mode",
    "read-mode",
    "cache-mode",
    "drive-cache",
    "write-hole",
    "sector",
    "attach",
    "medium-error-limit",
    "drive-suspend-limit",
    "copyback",
    "emergency-spare",
    "predictive-failure-copy",
    "mixed-kinds",
    "start-degraded",
    "task-rate",
];

/// Policies of the array; they apply to all its volumes.
const OF_ARRAYS: &[&str] = &[
    "medium-error-limit",
    "drive-suspend-limit",
    "copyback",
    "emergency-spare",
    "predictive-failure-copy",
    "mixed-kinds",
    "start-degraded",
    "task-rate",
];

/// Whether a policy belongs to the array, and so applies to all its volumes.
pub(crate) fn is_of_array(name: &str) -> bool {
    OF_ARRAYS.contains(&name)
}

const SWITCH: &[&str] = &["on", "off"];

/// The values of a policy; empty if it is a number.
fn values(name: &str) -> Vec<&'static str> {
    match name {
        "preset" => Preset::ALL.iter().map(|one| one.name()).collect(),
        "write-mode" => WriteMode::ALL.iter().map(|one| one.name()).collect(),
        "read-mode" => ReadMode::ALL.iter().map(|one| one.name()).collect(),
        "cache-mode" => CacheMode::ALL.iter().map(|one| one.name()).collect(),
        "drive-cache" => DriveCache::ALL.iter().map(|one| one.name()).collect(),
        "sector" => SectorFormat::ALL.iter().map(|one| one.name()).collect(),
        "write-hole" => vec!["journal", "resync"],
        "attach" => vec!["on", "read-only", "off"],
        "start-degraded" => vec!["auto", "ask"],
        "medium-error-limit" | "drive-suspend-limit" | "task-rate" => Vec::new(),
        _ => SWITCH.to_vec(),
    }
}

/// Sets a policy of a volume. The configured value is selected initially.
///
/// # Errors
/// `NotFound` for an unknown policy, `Invalid` for an invalid value.
pub(super) fn policy(world: &World, of: &str, asked: &FormValues<'_>) -> Result<ConsoleAction> {
    let name = asked.word("policy");
    let Some(name) = NAMES.iter().copied().find(|known| *known == name) else {
        let sentence =
            format!("there is no policy '{name}'; 'softroc volume set --help' lists them");
        return Err(Error::new(ErrorKind::NotFound, sentence));
    };
    let volume = world.volumes.iter().find(|volume| volume.name == of);
    let configured = volume
        .and_then(|volume| volume.policies.iter().find(|policy| policy.name == name))
        .map(|policy| bare(name, &policy.configured).to_owned())
        .unwrap_or_default();
    let sent = asked.sent("value");
    if sent == Some("") {
        let sentence = format!("no value for {name}; nothing was changed");
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    let mut fields = vec![Field::said("policy", name)];
    let all = values(name);
    let label =
        match volume.filter(|_| is_of_array(name)).map(|volume| volume.array_volumes.as_slice()) {
            Some([_, _, ..]) => format!("{name} (all volumes of the array)"),
            _ => name.to_owned(),
        };
    fields.push(match all.is_empty() {
        true => Field::filled("value", &label, configured.clone()),
        false => Field::chosen("value", &label, all.clone(), configured.clone()),
    });
    if name == "write-mode" {
        fields.push(Field::tick("sure", "A power cut may lose flushed data (always-write-back)"));
    }
    let command = match sent {
        Some(value) => set(of, name, value)?,
        // The form is only displayed.
        None => SetPolicy { volume: of.to_owned(), ..SetPolicy::default() },
    };
    if command.write_mode == Some(WriteMode::AlwaysWriteBack) && !asked.is_ticked("sure") {
        let sentence = "always-write-back can lose flushed data in a power cut; confirm this \
            with the checkbox; nothing was changed";
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    // A configured "none", for example of a preset, cannot be set.
    let is_set = !configured.is_empty() && (all.is_empty() || all.contains(&configured.as_str()));
    let cli = format!(
        "softroc volume set {} --{name} {}",
        shell_word(of),
        shell_word(sent.unwrap_or(if is_set { &configured } else { "VALUE" }))
    );
    Ok(ConsoleAction {
        fields,
        ..deed("policy", of, format!("Set {name}"), Command::VolumePolicy(command), cli)
    })
}

/// The fields of a policy form for a viewer. Values that the viewer may not set are left out,
/// unless that leaves none. If the configured value is not in the list, no value is selected.
pub(super) fn offered(viewer: &Viewer, of: &str, fields: &[Field]) -> Vec<Field> {
    let name = fields.iter().find_map(|field| match &field.kind {
        Kind::Said(name) if field.name == "policy" => Some(name.as_str()),
        _ => None,
    });
    let Some(name) = name else { return fields.to_vec() };
    let may = |value: &str| {
        let action = set(of, name, value).map(|set| Action::of(&Command::VolumePolicy(set)));
        action.is_ok_and(|action| viewer.caller.may(action).is_ok())
    };
    let mut fields = fields.to_vec();
    for field in &mut fields {
        let Kind::Chosen(all, first) = &mut field.kind else { continue };
        if all.iter().any(|value| may(value)) {
            all.retain(|value| may(value));
        }
        if !all.contains(&first.as_str()) {
            all.insert(0, "");
            first.clear();
        }
    }
    let loses_flushes = WriteMode::AlwaysWriteBack.name();
    fields.retain(|field| {
        field.kind != Kind::Tick
            || viewer.caller.may(Action::VolumePolicy).is_err()
            || may(loses_flushes)
    });
    fields
}

/// A value without unit or text: `30 %` is 30, `none` is 0.
fn bare<'v>(name: &str, value: &'v str) -> &'v str {
    match value.trim_end_matches('%').trim_end() {
        value if name == "drive-suspend-limit" => value.trim_end_matches('s').trim_end(),
        "none" if name == "medium-error-limit" => "0",
        value => value,
    }
}

fn set(of: &str, name: &str, value: &str) -> Result<SetPolicy> {
    let wrong = || {
        let sentence = format!(
            "'{value}' is not a value of {name}; 'softroc volume set --help' lists the values"
        );
        Error::new(ErrorKind::Invalid, sentence)
    };
    let is_on = || match value {
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => Err(wrong()),
    };
    let number = || bare(name, value).parse::<u32>().map_err(|_| wrong());
    let mut set = SetPolicy { volume: of.to_owned(), ..SetPolicy::default() };
    match name {
        "preset" => {
            let settings = create::preset(value)?.settings();
            set.write_mode = Some(settings.write_mode);
            set.read_mode = Some(settings.read_mode);
            set.cache_mode = Some(settings.cache_mode);
            set.drive_cache = Some(settings.drive_cache);
        }
        "write-mode" => set.write_mode = Some(WriteMode::named(value).ok_or_else(wrong)?),
        "read-mode" => set.read_mode = Some(ReadMode::named(value).ok_or_else(wrong)?),
        "cache-mode" => set.cache_mode = Some(CacheMode::named(value).ok_or_else(wrong)?),
        "drive-cache" => set.drive_cache = Some(DriveCache::named(value).ok_or_else(wrong)?),
        "sector" => set.sector_format = Some(SectorFormat::named(value).ok_or_else(wrong)?),
        "write-hole" => set.write_hole = Some(write_hole(value).ok_or_else(wrong)?),
        "attach" => set.attach = Some(attach(value).ok_or_else(wrong)?),
        "start-degraded" => set.start_degraded = Some(start_degraded(value).ok_or_else(wrong)?),
        "medium-error-limit" => set.medium_error_limit = Some(number()?),
        "drive-suspend-limit" => set.suspend_limit_s = Some(number()?),
        "task-rate" => {
            set.task_share_percent = Some(u8::try_from(number()?).map_err(|_| wrong())?);
        }
        "copyback" => set.copyback = is_on()?,
        "emergency-spare" => set.emergency_spare = is_on()?,
        "predictive-failure-copy" => set.drive_guard = is_on()?,
        "mixed-kinds" => set.mixed_kinds = is_on()?,
        _ => return Err(wrong()),
    }
    Ok(set)
}

fn write_hole(value: &str) -> Option<WriteHole> {
    match value {
        "journal" => Some(WriteHole::Journal),
        "resync" => Some(WriteHole::Resync),
        _ => None,
    }
}

fn attach(value: &str) -> Option<AttachPolicy> {
    let all = [AttachPolicy::On, AttachPolicy::ReadOnly, AttachPolicy::Off];
    all.into_iter().find(|one| one.name() == value)
}

fn start_degraded(value: &str) -> Option<StartDegraded> {
    match value {
        "auto" => Some(StartDegraded::Auto),
        "ask" => Some(StartDegraded::Ask),
        _ => None,
    }
}

/// The policies in `names` that can be set.
pub(crate) fn settable<'p>(names: impl Iterator<Item = &'p str>) -> Vec<&'p str> {
    names.filter(|name| NAMES.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_takes_each_of_its_values_and_no_other() {
        for name in NAMES {
            let all = values(name);
            for value in if all.is_empty() { vec!["30"] } else { all } {
                let set =
                    set("v", name, value).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
                assert_ne!(
                    set,
                    SetPolicy { volume: "v".to_owned(), ..SetPolicy::default() },
                    "{name}"
                );
            }
            assert!(set("v", name, "nonsense").is_err(), "{name}");
        }
        assert_eq!((bare("task-rate", "30 %"), bare("copyback", "on")), ("30", "on"));
        assert_eq!((bare("medium-error-limit", "none"), bare("preset", "none")), ("0", "none"));
    }
}
