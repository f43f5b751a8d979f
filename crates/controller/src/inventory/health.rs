//! Drive guard: drives are asked for their health, and one that expects to fail, or is worn out, is copied to a spare
//! before it fails.
//!
//! What a drive does not tell is not guessed: a drive without a health log is never suspected by this, only by its
//! errors. A drive that once told that it fails is suspected for as long as the controller runs, whatever it tells later.

use crate::commands::core::Core;
use crate::inventory::Drive;
use env::{DriveHealth, HealthSource, IoErrorKind};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::Duration;

/// How often drives are asked. The usual interval of controllers for this.
pub(crate) const INTERVAL: Duration = Duration::from_secs(300);

/// When they are asked first after a start: once everything that is there has been found.
pub(crate) const FIRST: Duration = Duration::from_secs(10);

/// A drive is worn out when so much of what its vendor rates it for is used up, in percent.
const WORN_OUT_PERCENT: u8 = 100;

/// What a drive tells of its health.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct HealthInfo {
    /// Who tells it, or why nobody does.
    pub source: String,
    /// Whether the drive expects to fail.
    pub predicted_failure: Option<bool>,
    /// Used endurance in percent of what the vendor rates the drive for; may exceed 100.
    pub wear_percent: Option<u8>,
    /// Spare blocks left, in percent of what there were.
    pub spare_percent: Option<u8>,
    /// Errors of the medium that the drive could not correct, over its life.
    pub media_errors: Option<u64>,
    /// Sectors that were replaced by spare ones, over its life.
    pub reallocated_sectors: Option<u64>,
    /// The temperature in degrees Celsius.
    pub temperature_c: Option<i16>,
    /// Hours under power, over its life.
    pub power_on_hours: Option<u64>,
    /// Bytes written by hosts, over its life.
    pub written_bytes: Option<u64>,
    /// Why the drive should be replaced, if it should: a sentence.
    pub warning: Option<String>,
    /// When it was asked last, in seconds since 1970.
    pub asked_unix_s: u64,
}

impl HealthInfo {
    fn of(health: &DriveHealth, warning: Option<String>, asked_unix_s: u64) -> HealthInfo {
        HealthInfo {
            source: health.source.to_string(),
            predicted_failure: health.predicted_failure,
            wear_percent: health.wear_percent,
            spare_percent: health.spare_percent,
            media_errors: health.media_errors,
            reallocated_sectors: health.reallocated_sectors,
            temperature_c: health.temperature_c,
            power_on_hours: health.power_on_hours,
            written_bytes: health.written_bytes,
            warning,
            asked_unix_s,
        }
    }
}

/// Why a drive is to be replaced before it fails, to be read after "it"; `None` if nothing it tells says so.
pub(crate) fn suspicion(health: &DriveHealth) -> Option<String> {
    if health.predicted_failure == Some(true) {
        return Some("predicts its failure".to_owned());
    }
    if let Some(wear) = health.wear_percent.filter(|wear| *wear >= WORN_OUT_PERCENT) {
        return Some(format!("is worn out: {wear} % of its endurance is used"));
    }
    match (health.spare_percent, health.spare_threshold_percent) {
        (Some(left), Some(least)) if left < least => {
            Some(format!("has {left} % of its spare blocks left, and calls less than {least} % too little"))
        }
        _ => None,
    }
}

impl Core {
    /// Asks all drives for their health, all at once.
    pub(crate) async fn ask_health(self: &Rc<Self>) {
        let drives: Vec<Rc<Drive>> = self.drives.borrow().clone();
        let asked: Vec<_> = drives
            .into_iter()
            .filter(|drive| {
                self.health_of(drive)
                    .is_none_or(|health| health.source != HealthSource::NotReported.to_string())
            })
            .filter_map(|drive| {
                let member = drive.access()?.member;
                let answer = self.env.spawn("health", async move { member.health().await });
                Some((drive, answer))
            })
            .collect();
        for (drive, answer) in asked {
            match answer.await {
                Ok(health) => self.take_health(&drive, &health),
                // A member that does not answer is found out by its own work.
                Err(error) if error.kind == IoErrorKind::NotSupported => {}
                Err(error) => tracing::warn!("drive {} does not tell its health: {error}", drive.name),
            }
        }
    }

    /// Looks whether spares are there and still carry their labels: nothing else would tell before they are needed.
    pub(crate) async fn look_at_spares(self: &Rc<Self>) {
        for spare in self.spares() {
            // One that is taken meanwhile is written to: it is not looked at beside that.
            let _turn = self.turn.take(1).await;
            if spare.spare().is_none() || self.is_in_use(&spare) {
                continue;
            }
            let was_well = spare.access().is_some() && spare.problem().is_none();
            spare.look(&self.env).await;
            let is_spare = spare.spare().is_some() && spare.access().is_some();
            if is_spare && spare.problem().is_none() {
                if !was_well {
                    let text = format!("spare {} is there again", spare.name);
                    self.events.info(&spare.name, "it answers", "it stands by", text);
                    self.look_after();
                }
            } else if was_well {
                let why =
                    spare.problem().map_or_else(|| "it carries no label any more".to_owned(), |p| p.message);
                let text = format!("spare {} has failed and stands by no more: {why}", spare.name);
                self.events.warn(&spare.name, &why, "it stands by no more", text);
            }
        }
    }

    fn take_health(&self, drive: &Drive, health: &DriveHealth) {
        let before = self.health_of(drive).and_then(|health| health.warning);
        let warning = before.clone().or_else(|| suspicion(health));
        let told = HealthInfo::of(health, warning.clone(), self.env.unix_time());
        self.health.borrow_mut().insert(drive.name.clone(), told);
        if let (None, Some(why)) = (before, warning) {
            let place = self.place_of(drive);
            let effect = match &place {
                Some((array, _)) if array.label().policy.drive_guard => {
                    "it is copied to a spare, if there is one"
                }
                Some(_) => "it serves on: replace it (drive-guard is off)",
                None => "it is not taken as a spare any more",
            };
            let subject = place.map_or_else(|| drive.name.clone(), |(array, _)| array.name());
            let text = format!("drive {} {why}: {effect}", drive.name);
            self.events.warn(&subject, &format!("drive {} {why}", drive.name), effect, text);
            self.look_after();
        }
    }

    /// What a drive told last of its health.
    pub(crate) fn health_of(&self, drive: &Drive) -> Option<HealthInfo> {
        self.health.borrow().get(&drive.name).cloned()
    }

    /// Why a drive is to be replaced before it fails, to be read after its name.
    pub(crate) fn suspicion_of(&self, drive: &Drive) -> Option<String> {
        self.health_of(drive)?.warning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_told_is_suspected() {
        let health = |change: &dyn Fn(&mut DriveHealth)| {
            let mut health = DriveHealth::default();
            change(&mut health);
            suspicion(&health)
        };
        assert_eq!(health(&|_| ()), None);
        assert_eq!(health(&|h| h.predicted_failure = Some(false)), None);
        assert_eq!(health(&|h| h.wear_percent = Some(99)), None);
        assert_eq!(health(&|h| h.spare_percent = Some(0)), None, "no threshold is told");
        assert_eq!(health(&|h| (h.spare_percent, h.spare_threshold_percent) = (Some(10), Some(10))), None);
        assert_eq!(health(&|h| h.media_errors = Some(1000)), None, "errors count where they happen");
        let worn = health(&|h| h.wear_percent = Some(100));
        assert_eq!(worn.as_deref(), Some("is worn out: 100 % of its endurance is used"));
        let few = health(&|h| (h.spare_percent, h.spare_threshold_percent) = (Some(9), Some(10)));
        assert!(few.is_some_and(|why| why.contains("9 %")));
        assert_eq!(health(&|h| h.predicted_failure = Some(true)).as_deref(), Some("predicts its failure"));
    }
}
