//! The alarm, as controllers of hardware have it: an event begins it, and it sounds until somebody silences it or switches it off.
//!
//! Whether it is on is kept in `alarm.toml`. Whether it sounds is said by its own events, so that a restart silences nothing. What
//! sounds is none of this room's business: programs that are told of `alarm.sounds` and `alarm.silenced` do.

use super::{EventCode, Events, MOST};
use crate::interface::{AlarmInfo, AlarmSetting, Event, Result, Severity};
use crate::statefile::{StateFile, Trouble};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};

/// Where it is kept.
const FILE: StateFile<Kept> = StateFile::toml("alarm.toml", "the setting of the alarm").complete();

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    on: bool,
}

/// See the [module](self).
pub(super) struct Alarm {
    on: Cell<bool>,
    /// The event that says so, while it sounds.
    sounds: RefCell<Option<Event>>,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { on: Cell::new(true), sounds: RefCell::default() }
    }
}

impl Alarm {
    /// The event that says that it sounds, while it does.
    pub(super) fn sounding(&self) -> Option<Event> {
        self.sounds.borrow().clone()
    }

    /// What an event of the alarm says of it; others say nothing.
    pub(super) fn hear(&self, event: &Event) {
        let is = |code: EventCode| event.code == code.code();
        // One that was off when its own event was lost with the power is off.
        if is(EventCode::AlarmSounds) && self.on.get() {
            self.sounds.replace(Some(event.clone()));
        } else if is(EventCode::AlarmSilenced) || is(EventCode::AlarmSwitched) {
            self.sounds.take();
        }
    }
}

impl EventCode {
    /// Whether it is reported alone, however often it happens: what the alarm does, and starts and ends.
    pub(super) fn is_alone(self) -> bool {
        use EventCode::{AlarmSilenced, AlarmSounds, AlarmSwitched, ControllerStarted, ControllerStopped};
        matches!(self, AlarmSilenced | AlarmSounds | AlarmSwitched | ControllerStarted | ControllerStopped)
    }

    /// Whether it begins the alarm: a drive is out that nobody took out, or data is in danger or lost.
    fn begins_alarm(self) -> bool {
        use EventCode::{DriveFailed, DriveMissing, VolumeStartedDegraded};
        self.severity() >= Severity::Critical
            || matches!(self, DriveFailed | DriveMissing | VolumeStartedDegraded)
    }
}

impl Events {
    /// What there is of the alarm.
    pub(crate) fn alarm(&self) -> AlarmInfo {
        let sounds = self.alarm.sounds.borrow();
        AlarmInfo {
            on: self.alarm.on.get(),
            sounds: sounds.is_some(),
            because: sounds.as_ref().map(|event| self.begun_by(event)),
            since_unix_s: sounds.as_ref().map(|event| event.time_unix_s),
        }
    }

    /// What the event before that of the alarm says: it began it. Where it is forgotten, which one it was.
    fn begun_by(&self, sounds: &Event) -> String {
        let recent = self.feed.feed().last(MOST);
        let first = recent.iter().rev().find(|event| event.number + 1 == sounds.number);
        first.map_or_else(|| sounds.cause.clone(), |event| event.text.clone())
    }

    /// Whether an event of that code begins the alarm now.
    pub(super) fn begins_alarm(&self, code: EventCode) -> bool {
        self.alarm.on.get() && code.begins_alarm() && self.alarm.sounds.borrow().is_none()
    }

    /// An event was reported that begins the alarm.
    pub(super) fn sound_alarm(&self, code: EventCode, subject: &str) {
        // Not what that event says: whoever counts events by their words must not find it twice.
        let cause = format!("{} of {subject}", code.code());
        let text = format!(
            "the alarm sounds since {cause}; 'softroc alarm silence' silences it until something else fails"
        );
        self.report(EventCode::AlarmSounds, "controller", &cause, "it sounds until it is silenced", text);
    }

    /// Reads whether it is on. Where that cannot be read, it is; what there is to be said of that.
    pub(super) async fn load_alarm(&self) -> Option<Trouble> {
        let loaded = FILE.load(self.env.world().state()).await;
        self.alarm.on.set(loaded.value.is_none_or(|kept| kept.on));
        loaded.trouble
    }

    /// Stores whether it is on, where that could not be stored before.
    pub(crate) async fn store_alarm_again(&self) {
        if self.is_unstored(FILE.name()) {
            self.leave_to_health(self.store_state(&FILE, &Kept { on: self.alarm.on.get() }).await);
        }
    }

    /// Silences it until the next event that begins it.
    fn silence_alarm(&self) -> AlarmInfo {
        let sounding = self.alarm.sounds.borrow().as_ref().map(|event| event.cause.clone());
        if let Some(cause) = sounding {
            let text = format!("the alarm is silent until something else fails; it sounded since {cause}");
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
    /// # Errors
    /// When that cannot be kept; it is as it was then.
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
        let effect = if on { "it sounds when something fails" } else { "it is silent, whatever fails" };
        let text = format!("the alarm was switched {setting}");
        self.report(EventCode::AlarmSwitched, "controller", "an operator switched it", effect, text);
        Ok(self.alarm())
    }
}
