//! The audible alarm of a RAID controller: an event starts it; an operator silences it or switches
//! it off.
//!
//! The setting is stored in `alarm.toml`. The sounding state is derived from the alarm's events, so
//! that a restart does not silence it. The sound itself is made by programs that subscribe to
//! `alarm.sounds` and `alarm.silenced`.

use super::{EventCode, Events, MOST};
use crate::interface::{AlarmInfo, AlarmSetting, Event, Result, Severity};
use crate::statefile::{StateFile, Trouble};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};

/// The file of the setting.
const FILE: StateFile<Kept> = StateFile::toml("alarm.toml", "the setting of the alarm").complete();

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    on: bool,
}

/// See the [module](self).
pub(super) struct Alarm {
    on: Cell<bool>,
    /// The `alarm.sounds` event, while it sounds.
    sounds: RefCell<Option<Event>>,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { on: Cell::new(true), sounds: RefCell::default() }
    }
}

impl Alarm {
    /// The `alarm.sounds` event, while the alarm sounds.
    pub(super) fn sounding(&self) -> Option<Event> {
        self.sounds.borrow().clone()
    }

    /// Updates the state from an event of the alarm; other events are ignored.
    pub(super) fn hear(&self, event: &Event) {
        let is = |code: EventCode| event.code == code.code();
        // If a power cut lost the event of switching it off, the stored setting counts.
        if is(EventCode::AlarmSounds) && self.on.get() {
            self.sounds.replace(Some(event.clone()));
        } else if is(EventCode::AlarmSilenced) || is(EventCode::AlarmSwitched) {
            self.sounds.take();
        }
    }
}

impl EventCode {
    /// Whether repeats are reported singly: events of the alarm, and starts and stops.
    pub(super) fn is_alone(self) -> bool {
        use EventCode::{
            AlarmSilenced, AlarmSounds, AlarmSwitched, ControllerStarted, ControllerStopped,
        };
        matches!(
            self,
            AlarmSilenced | AlarmSounds | AlarmSwitched | ControllerStarted | ControllerStopped
        )
    }

    /// Whether it starts the alarm: a drive failed or is missing, or data is in danger or lost.
    fn begins_alarm(self) -> bool {
        use EventCode::{DriveFailed, DriveMissing, VolumeStartedDegraded};
        self.severity() >= Severity::Critical
            || matches!(self, DriveFailed | DriveMissing | VolumeStartedDegraded)
    }
}

impl Events {
    /// The state of the alarm.
    pub(crate) fn alarm(&self) -> AlarmInfo {
        let sounds = self.alarm.sounds.borrow();
        AlarmInfo {
            on: self.alarm.on.get(),
            sounds: sounds.is_some(),
            because: sounds.as_ref().map(|event| self.begun_by(event)),
            since_unix_s: sounds.as_ref().map(|event| event.time_unix_s),
        }
    }

    /// The text of the event that started the alarm, or its cause if that event is no longer in
    /// memory.
    fn begun_by(&self, sounds: &Event) -> String {
        let recent = self.feed.feed().last(MOST);
        let first = recent.iter().rev().find(|event| event.number + 1 == sounds.number);
        first.map_or_else(|| sounds.cause.clone(), |event| event.text.clone())
    }

    /// Whether an event of this code starts the alarm now.
    pub(super) fn begins_alarm(&self, code: EventCode) -> bool {
        self.alarm.on.get() && code.begins_alarm() && self.alarm.sounds.borrow().is_none()
    }

    /// Starts the alarm after such an event.
    pub(super) fn sound_alarm(&self, code: EventCode, subject: &str) {
        // The text of that event is not repeated: programs that count events by text must not find
        // it twice.
        let cause = format!("{} of {subject}", code.code());
        let text = format!(
            "the alarm sounds since {cause}; 'softroc alarm silence' silences it until the next \
            failure"
        );
        self.report(
            EventCode::AlarmSounds,
            "controller",
            &cause,
            "it sounds until it is silenced",
            text,
        );
    }

    /// Loads the setting; on by default. Returns the trouble if the file cannot be read.
    pub(super) async fn load_alarm(&self) -> Option<Trouble> {
        let loaded = FILE.load(self.env.world().state()).await;
        self.alarm.on.set(loaded.value.is_none_or(|kept| kept.on));
        loaded.trouble
    }

    /// Stores the setting if an earlier attempt failed.
    pub(crate) async fn store_alarm_again(&self) {
        if self.is_unstored(FILE.name()) {
            self.leave_to_health(self.store_state(&FILE, &Kept { on: self.alarm.on.get() }).await);
        }
    }

    /// Silences it until the next event that starts it.
    fn silence_alarm(&self) -> AlarmInfo {
        let sounding = self.alarm.sounds.borrow().as_ref().map(|event| event.cause.clone());
        if let Some(cause) = sounding {
            let text =
                format!("the alarm is silent until the next failure; it sounded since {cause}");
            self.report(
                EventCode::AlarmSilenced,
                "controller",
                "an operator silenced it",
                "it is silent",
                text,
            );
        }
        self.alarm()
    }

    /// Switches it on or off, or silences it.
    ///
    /// # Errors If the setting cannot be stored; it is unchanged then.
    pub(crate) async fn set_alarm(&self, setting: AlarmSetting) -> Result<AlarmInfo> {
        let on = match setting {
            AlarmSetting::Silence => return Ok(self.silence_alarm()),
            AlarmSetting::On => true,
            AlarmSetting::Off => false,
        };
        if self.alarm.on.get() == on {
            return Ok(self.alarm());
        }
        self.store_state(&FILE, &Kept { on }).await?;
        self.alarm.on.set(on);
        let effect = if on { "it sounds at failures" } else { "it stays silent at failures" };
        let text = format!("the alarm was switched {setting}");
        self.report(
            EventCode::AlarmSwitched,
            "controller",
            "an operator switched it",
            effect,
            text,
        );
        Ok(self.alarm())
    }
}
