//! Saved policies, and the command that sets each.

use controller::{SetPolicy, VolumeInfo};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Policies of one volume.
const OF_VOLUME: [&str; 7] =
    ["read-mode", "write-mode", "cache-mode", "drive-cache", "sector", "attach", "write-hole"];

/// Policies of an array.
const OF_ARRAY: [&str; 8] = [
    "medium-error-limit",
    "drive-suspend-limit",
    "copyback",
    "emergency-spare",
    "predictive-failure-copy",
    "mixed-kinds",
    "start-degraded",
    "task-rate",
];

/// Policies that are derived from others.
const DERIVED: [&str; 2] = ["preset", "fast-path"];

/// The configured values of a volume's own policies.
pub(crate) fn of_volume(volume: &VolumeInfo) -> BTreeMap<String, String> {
    configured(volume, |name| !OF_ARRAY.contains(&name) && !DERIVED.contains(&name))
}

/// The configured values of the policies of a volume's array.
pub(crate) fn of_array(volume: &VolumeInfo) -> BTreeMap<String, String> {
    configured(volume, |name| OF_ARRAY.contains(&name))
}

fn configured(volume: &VolumeInfo, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let policies = volume.policies.iter().filter(|policy| is_wanted(&policy.name));
    policies.map(|policy| (policy.name.clone(), policy.configured.clone())).collect()
}

/// The command that sets a policy of a volume or of its array.
///
/// # Errors
/// For an unknown policy or value. The error is a clause that completes a message.
pub(crate) fn order(volume: &str, name: &str, value: &str) -> Result<SetPolicy, String> {
    let mut set = SetPolicy { volume: volume.to_owned(), ..SetPolicy::default() };
    let wrong = |expected: &str| format!("'{value}' is not a value of {name}; expected {expected}");
    match name {
        "read-mode" => set.read_mode = Some(named(name, value)?),
        "write-mode" => set.write_mode = Some(named(name, value)?),
        "cache-mode" => set.cache_mode = Some(named(name, value)?),
        "drive-cache" => set.drive_cache = Some(named(name, value)?),
        "sector" => set.sector_format = Some(named(name, value)?),
        "attach" => set.attach = Some(named(name, value)?),
        "write-hole" => set.write_hole = Some(named(name, value)?),
        "start-degraded" => set.start_degraded = Some(named(name, value)?),
        "copyback" => set.copyback = Some(switch(name, value)?),
        "emergency-spare" => set.emergency_spare = Some(switch(name, value)?),
        "predictive-failure-copy" => set.drive_guard = Some(switch(name, value)?),
        "mixed-kinds" => set.mixed_kinds = Some(switch(name, value)?),
        "medium-error-limit" => {
            let limit = if value == "none" { Ok(0) } else { value.parse() };
            set.medium_error_limit = Some(limit.map_err(|_| wrong("a number, or 'none'"))?);
        }
        "drive-suspend-limit" => {
            let seconds = value.strip_suffix(" s").and_then(|seconds| seconds.parse().ok());
            set.suspend_limit_s = Some(seconds.ok_or_else(|| wrong("such as '30 s'"))?);
        }
        "task-rate" => {
            let share = value.strip_suffix(" %").and_then(|share| share.parse().ok());
            set.task_share_percent = Some(share.ok_or_else(|| wrong("such as '30 %'"))?);
        }
        _ => {
            let known = OF_VOLUME.iter().chain(&OF_ARRAY).copied().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no policy '{name}'; policies: {known}"));
        }
    }
    Ok(set)
}

fn named<T: DeserializeOwned>(name: &str, value: &str) -> Result<T, String> {
    serde_json::from_value(value.into()).map_err(|error| {
        // The message of serde ends with the list of valid values.
        format!("'{value}' is not a value of {name}: {error}")
    })
}

fn switch(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{value}' is not a value of {name}; expected 'on' or 'off'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::{
        CacheMode, DriveCache, ReadMode, SectorFormat, StartDegraded, WriteHole, WriteMode,
    };

    #[test]
    fn every_value_of_every_policy_is_read_as_it_is_shown() {
        let set = |name: &str, value: &str| order("v", name, value).unwrap();
        for mode in WriteMode::ALL {
            assert_eq!(set("write-mode", mode.name()).write_mode, Some(*mode));
        }
        for mode in ReadMode::ALL {
            assert_eq!(set("read-mode", mode.name()).read_mode, Some(*mode));
        }
        for mode in CacheMode::ALL {
            assert_eq!(set("cache-mode", mode.name()).cache_mode, Some(*mode));
        }
        for mode in DriveCache::ALL {
            assert_eq!(set("drive-cache", mode.name()).drive_cache, Some(*mode));
        }
        for format in SectorFormat::ALL {
            assert_eq!(set("sector", format.name()).sector_format, Some(*format));
        }
        for (value, mode) in [("journal", WriteHole::Journal), ("resync", WriteHole::Resync)] {
            assert_eq!(set("write-hole", value).write_hole, Some(mode));
        }
        for mode in [StartDegraded::Auto, StartDegraded::Ask] {
            assert_eq!(set("start-degraded", &mode.to_string()).start_degraded, Some(mode));
        }
        assert_eq!(set("medium-error-limit", "none").medium_error_limit, Some(0));
        assert_eq!(set("medium-error-limit", "5").medium_error_limit, Some(5));
        assert_eq!(set("drive-suspend-limit", "90 s").suspend_limit_s, Some(90));
        assert_eq!(set("task-rate", "30 %").task_share_percent, Some(30));
        assert_eq!(set("copyback", "off").copyback, Some(false));
    }

    #[test]
    fn what_is_no_policy_or_no_value_is_refused_and_says_what_there_is() {
        for (name, value, says) in [
            ("write-mode", "fast", "write-back"),
            ("copyback", "yes", "'on' or 'off'"),
            ("task-rate", "30", "30 %"),
            ("drive-suspend-limit", "-1 s", "30 s"),
            ("preset", "performance", "there is no policy 'preset'"),
        ] {
            let refused = order("v", name, value).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
