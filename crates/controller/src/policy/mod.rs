//! Persistent policies of arrays: when drives fail, what spares and tasks may do, and the volumes
//! attached to this host.
//!
//! **Owns** the policies' names and the meaning of each value. The values are kept in the array's
//! labels and move with it; settings of this host are kept in the state folder.
//!
//! **Invariants.** A policy is durable before the shards and the tasks use it.
//!
//! **Callers**: `commands`.

mod attach;

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::events::Events;
use crate::interface::{
    AttachPolicy, Error, ErrorKind, Policy, Preset, Result, SetPolicy, Settings,
};
use crate::tasks::Tasks;
use crate::tasks::check_share;
use engine::ShardMessage;
use ondisk::{SectorFormat, StartDegraded};
use platform::Env;
use std::cell::RefCell;
use std::rc::Rc;

/// An on/off policy: its name, and the meaning of each value.
struct Switch {
    name: &'static str,
    on: &'static str,
    off: &'static str,
}

const COPYBACK: Switch = Switch {
    name: "copyback",
    on: "a spare's contents are copied back to a blank drive in the bay of the failed one, and the \
        spare is free again",
    off: "a spare keeps its slot until an operator replaces the failed drive",
};
const EMERGENCY_SPARE: Switch = Switch {
    name: "emergency-spare",
    on: "if no spare fits, an unused blank drive is used",
    off: "only spares are used",
};
const DRIVE_GUARD: Switch = Switch {
    name: "predictive-failure-copy",
    on: "a drive that predicts its failure or is worn out is copied to a spare before it fails",
    off: "a drive that predicts its failure or is worn out stays online until it fails",
};
const MIXED_KINDS: Switch = Switch {
    name: "mixed-kinds",
    on: "a rotational spare may replace an SSD, and an SSD a rotational drive",
    off: "a spare replaces only a drive of its own kind",
};

/// The module's dependencies.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) tasks: Rc<Tasks>,
}

/// Sets policies of arrays.
pub(crate) struct Policies {
    env: Env,
    events: Rc<Events>,
    arrays: Rc<Arrays>,
    tasks: Rc<Tasks>,
    attach: RefCell<attach::Kept>,
}

impl Policies {
    pub(crate) fn new(env: &Env, needs: Needs) -> Policies {
        let Needs { events, arrays, tasks } = needs;
        Policies { env: env.clone(), events, arrays, tasks, attach: RefCell::default() }
    }

    /// `volume set`.
    pub(crate) async fn set_policy(
        &self,
        set: SetPolicy,
    ) -> Result<(Rc<Array>, Rc<Volume>, Vec<String>)> {
        check_share(set.task_share_percent)?;
        let (array, volume) = self.arrays.find_volume(&set.volume)?;
        if !array.is_running() {
            let sentence = format!(
                "'{0}' is not started; first run 'softroc volume start {0}'",
                volume.name()
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        let mut notes = Vec::new();
        // Settings that may be refused come first: a refusal then changes nothing.
        if let Some(write_hole) = set.write_hole {
            notes.extend(self.arrays.set_write_hole(&array, &volume, write_hole).await?);
        }
        if let Some(write_mode) = set.write_mode {
            notes.extend(self.arrays.set_write_mode(&array, &volume, write_mode).await?);
        }
        if set.read_mode.is_some() || set.cache_mode.is_some() {
            notes.extend(
                self.arrays.set_reads(&array, &volume, (set.read_mode, set.cache_mode)).await?,
            );
        }
        if let Some(wish) = set.drive_cache {
            notes.extend(self.arrays.set_drive_cache(&array, &volume, wish).await?);
        }
        if let Some(format) = set.sector_format {
            notes.extend(self.arrays.set_sector_format(&array, &volume, format).await?);
        }
        if let Some(attach) = set.attach {
            self.set_attach(volume.uuid(), &volume.name(), attach).await?;
        }
        if !set.is_of_volume_alone() {
            notes.extend(self.set_of_array(&array, &volume, &set).await?);
        }
        Ok((array, volume, notes))
    }

    async fn set_of_array(
        &self,
        array: &Rc<Array>,
        volume: &Volume,
        set: &SetPolicy,
    ) -> Result<Vec<String>> {
        let changed = {
            let _turn = array.metadata_turn().await;
            // A label on the remaining drives alone would make the missing drives foreign to the
            // array.
            self.arrays.check_can_record(array, &volume.name())?;
            let mut next = array.label();
            let before = next.policy.clone();
            let policy = &mut next.policy;
            let switches = [
                (&mut policy.copyback, set.copyback),
                (&mut policy.emergency_spare, set.emergency_spare),
                (&mut policy.drive_guard, set.drive_guard),
                (&mut policy.mixed_kinds, set.mixed_kinds),
            ];
            for (value, wished) in switches {
                *value = wished.unwrap_or(*value);
            }
            policy.task_share_percent = set.task_share_percent.unwrap_or(policy.task_share_percent);
            policy.start_degraded = set.start_degraded.unwrap_or(policy.start_degraded);
            policy.medium_error_limit = set.medium_error_limit.unwrap_or(policy.medium_error_limit);
            policy.suspend_limit_s = set.suspend_limit_s.unwrap_or(policy.suspend_limit_s);
            let changed = *policy != before;
            if changed {
                policy.set_unix_s = self.env.unix_time();
                if !self.arrays.commit(array, next, Vec::new()).await {
                    let sentence = format!(
                        "the change could not be recorded; run 'softroc volume show {}'",
                        volume.name()
                    );
                    return Err(Error::new(ErrorKind::Failed, sentence));
                }
            }
            changed
        };
        if changed {
            self.report_policy(array).await;
            self.tasks.follow_policy(array);
            let text = format!(
                "policies of {} were changed; 'softroc volume show' lists them",
                array.names()
            );
            self.events.report(
                EventCode::ArrayPolicyChanged,
                &array.name(),
                "an operator changed them",
                "they are in force",
                text,
            );
        }
        let is_shared = array.known_volumes().len() > 1;
        let note = || format!("this concerns all volumes of the array: {}", array.names());
        Ok(is_shared.then(note).into_iter().collect())
    }

    async fn report_policy(&self, array: &Array) {
        let policy = self.arrays.fault_policy(&array.label().policy);
        for volume in array.served() {
            let Some(id) = volume.id() else { continue };
            if let Err(why) =
                self.arrays.tell_shards(|done| ShardMessage::SetPolicy(id, policy, done)).await
            {
                tracing::error!(
                    "some threads of SoftROC did not apply the changed policy of '{}': {why}",
                    volume.name()
                );
            }
        }
    }
}

/// The default of each setting of a volume on these drives (by name): preset, write hole, sectors,
/// and the policies of the array.
pub fn default_policies<'a>(drives: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let preset = Preset::usual(drives);
    let Settings { read_mode, write_mode, cache_mode, drive_cache } = preset.settings();
    let settings = [
        ("preset", preset.name()),
        ("read-mode", read_mode.name()),
        ("write-mode", write_mode.name()),
        ("cache-mode", cache_mode.name()),
        ("drive-cache", drive_cache.name()),
        ("write-hole", "journal"),
        ("sector", SectorFormat::default().name()),
        ("attach", AttachPolicy::Off.name()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let of_array = of_array(&ondisk::Policy::default(), 0).into_iter();
    settings.into_iter().chain(of_array.map(|policy| (policy.name, policy.configured))).collect()
}

/// The policies of an array, for display.
pub(crate) fn policies(array: &Array, created_unix_s: u64) -> Vec<Policy> {
    let wished = array.label().policy;
    let since_unix_s = wished.set_unix_s.max(created_unix_s);
    of_array(&wished, since_unix_s)
}

fn of_array(wished: &ondisk::Policy, since_unix_s: u64) -> Vec<Policy> {
    let policy = |name: &str, value: String, reason: &str| Policy {
        name: name.to_owned(),
        configured: value.clone(),
        current: value,
        reason: reason.to_owned(),
        since_unix_s,
    };
    let switch = |switch: &Switch, on: bool| {
        let (value, reason) = if on { ("on", switch.on) } else { ("off", switch.off) };
        policy(switch.name, value.to_owned(), reason)
    };
    let limit = match wished.medium_error_limit {
        0 => policy(
            "medium-error-limit",
            "none".to_owned(),
            "a drive never fails because of medium errors",
        ),
        limit => policy(
            "medium-error-limit",
            limit.to_string(),
            "the array fails a drive after this number of unrepaired medium errors, and at once if \
             a write fails",
        ),
    };
    vec![
        limit,
        policy(
            "drive-suspend-limit",
            format!("{} s", wished.suspend_limit_s),
            "a drive that does not respond is suspended, and fails after this time without a \
            response",
        ),
        switch(&COPYBACK, wished.copyback),
        switch(&EMERGENCY_SPARE, wished.emergency_spare),
        switch(&DRIVE_GUARD, wished.drive_guard),
        switch(&MIXED_KINDS, wished.mixed_kinds),
        policy(
            "start-degraded",
            wished.start_degraded.to_string(),
            match wished.start_degraded {
                StartDegraded::Auto => {
                    "after a clean shutdown the array starts without missing drives; otherwise it \
                     waits for an operator if the missing drives could have served it without the \
                     present ones"
                }
                StartDegraded::Ask => {
                    "the array waits for an operator if the missing drives could have served it \
                     without the present ones"
                }
            },
        ),
        policy(
            "task-rate",
            format!("{} %", wished.task_share_percent),
            "the share of drive time for background tasks during host I/O",
        ),
    ]
}
