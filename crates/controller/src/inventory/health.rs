//! Health queries of drives. A drive that predicts its failure, or is worn out, is suspected: the
//! reconciler copies it to a spare before it fails.
//!
//! Missing information is not guessed: a drive without a health log is suspected only by its
//! errors. A drive that once predicted its failure stays suspected while the controller runs,
//! whatever it reports later.

use crate::interface::{Error, ErrorKind, HealthInfo, Result};
use crate::inventory::Drive;
use crate::inventory::Inventory;
use crate::signals::wait_or;
use platform::sync::Signal;
use platform::{DriveHealth, DriveKind, HealthSource, IoError, IoErrorKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The query interval: the usual one of RAID controllers.
pub(crate) const INTERVAL: Duration = Duration::from_secs(300);

/// The delay of the first query after a start, until all drives are found.
pub(crate) const FIRST: Duration = Duration::from_secs(10);

/// A drive is worn out at this percentage of its vendor's rated endurance.
const WORN_OUT_PERCENT: u8 = 100;

/// The time limit of a health query.
const LIMIT: Duration = Duration::from_secs(10);

/// The reply of a drive to a health query.
type Answer = std::result::Result<DriveHealth, IoError>;

/// The replies of drives to health queries.
#[derive(Default)]
struct Answers {
    expected: Cell<usize>,
    come: RefCell<Vec<(Rc<Drive>, Answer)>>,
    changed: Signal,
}

/// The description of a drive's health.
fn info_of(health: &DriveHealth, warning: Option<String>, asked_unix_s: u64) -> HealthInfo {
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

/// Why a drive should be replaced before it fails, as text after "it"; `None` without a prediction.
fn suspicion(health: &DriveHealth) -> Option<String> {
    if health.predicted_failure == Some(true) {
        return Some("predicts its failure".to_owned());
    }
    if let Some(wear) = health.wear_percent.filter(|wear| *wear >= WORN_OUT_PERCENT) {
        return Some(format!("is worn out: {wear} % of its endurance is used"));
    }
    match (health.spare_percent, health.spare_threshold_percent) {
        (Some(left), Some(least)) if left < least => {
            Some(format!("has {left} % of its spare blocks left; its own threshold is {least} %"))
        }
        _ => None,
    }
}

impl Inventory {
    /// The files in the list that changed since they were opened. A device is checked with its
    /// health query, which costs one command.
    pub(crate) async fn changed(&self, mut drives: Vec<Rc<Drive>>) -> Vec<Rc<Drive>> {
        let is_file = |drive: &Rc<Drive>| {
            drive.access().is_some_and(|access| access.info().kind == DriveKind::File)
        };
        drives.retain(is_file);
        let answers = self.ask_all(drives).await.into_iter();
        let is_changed = |answer: &std::result::Result<DriveHealth, IoError>| {
            answer.as_ref().is_err_and(|error| error.kind == IoErrorKind::Changed)
        };
        answers.filter(|(_, answer)| is_changed(answer)).map(|(drive, _)| drive).collect()
    }

    /// Queries the health of drives, all at the same time. Returns the replies within the
    /// [limit](LIMIT). A drive with an outstanding query is not queried again: a silent drive costs
    /// one operation.
    async fn ask_all(
        &self,
        drives: Vec<Rc<Drive>>,
    ) -> Vec<(Rc<Drive>, std::result::Result<DriveHealth, IoError>)> {
        let answers = Rc::new(Answers::default());
        for drive in drives {
            let Some(access) = drive.access().filter(|_| !drive.is_asked.replace(true)) else {
                continue;
            };
            answers.expected.set(answers.expected.get() + 1);
            let (env, answers) = (self.env.clone(), answers.clone());
            self.env.spawn("health", async move {
                let answer = access.member.health().await;
                drive.is_asked.set(false);
                answers.come.borrow_mut().push((drive, answer));
                answers.changed.notify(&env);
            });
        }
        let all_are_here = || answers.come.borrow().len() == answers.expected.get();
        wait_or(&self.env, &answers.changed, all_are_here, self.env.now() + LIMIT).await;
        answers.come.take()
    }

    /// Queries the health of all drives. `suspected` is called for each newly suspected drive, with
    /// the reason. Returns the drives that changed since they were opened.
    pub(crate) async fn ask_health(&self, suspected: impl Fn(&Drive, &str)) -> Vec<Rc<Drive>> {
        let mut changed = Vec::new();
        let mut drives = self.drives();
        drives.retain(|drive| {
            self.health_of(drive)
                .is_none_or(|health| health.source != HealthSource::NotReported.to_string())
        });
        for (drive, answer) in self.ask_all(drives).await {
            match answer {
                Ok(health) => {
                    if let Some(why) = self.take_health(&drive, &health) {
                        suspected(&drive, &why);
                    }
                }
                // A member that does not respond is detected by its own I/O.
                Err(error) if error.kind == IoErrorKind::NotSupported => {}
                Err(error) if error.kind == IoErrorKind::Changed => changed.push(drive),
                Err(error) => {
                    tracing::warn!("the health of drive {} cannot be read: {error}", drive.name)
                }
            }
        }
        changed
    }

    /// Records a drive's health; returns the reason if it is newly suspected.
    fn take_health(&self, drive: &Drive, health: &DriveHealth) -> Option<String> {
        let before = self.health_of(drive).and_then(|health| health.warning);
        let warning = before.clone().or_else(|| suspicion(health));
        let info = info_of(health, warning.clone(), self.env.unix_time());
        self.health.borrow_mut().insert(drive.name.clone(), info);
        warning.filter(|_| before.is_none())
    }

    /// Switches the locate LED of a drive's bay.
    ///
    /// # Errors
    /// When the drive is missing, its enclosure has no such LED, or switching fails.
    pub(crate) async fn locate(&self, drive: &Drive, on: bool) -> Result<()> {
        let unavailable =
            |why: String| Error::new(ErrorKind::Unavailable, format!("drive {} {why}", drive.name));
        let access = drive.access().ok_or_else(|| unavailable("is missing".to_owned()))?;
        access.member.locate(on).await.result.map(|_| ()).map_err(|error| match error.kind {
            IoErrorKind::NotSupported => unavailable(
                "is in no enclosure with a locate LED; find it by its serial number".to_owned(),
            ),
            _ => unavailable(format!("cannot be located: {error}; check its enclosure")),
        })
    }

    /// The last reported health of a drive.
    pub(crate) fn health_of(&self, drive: &Drive) -> Option<HealthInfo> {
        self.health.borrow().get(&drive.name).cloned()
    }

    /// Why a drive should be replaced before it fails, as text after its name.
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
        assert_eq!(
            health(&|h| (h.spare_percent, h.spare_threshold_percent) = (Some(10), Some(10))),
            None
        );
        assert_eq!(
            health(&|h| h.media_errors = Some(1000)),
            None,
            "errors count where they happen"
        );
        let worn = health(&|h| h.wear_percent = Some(100));
        assert_eq!(worn.as_deref(), Some("is worn out: 100 % of its endurance is used"));
        let few = health(&|h| (h.spare_percent, h.spare_threshold_percent) = (Some(9), Some(10)));
        assert!(few.is_some_and(|why| why.contains("9 %")));
        assert_eq!(
            health(&|h| h.predicted_failure = Some(true)).as_deref(),
            Some("predicts its failure")
        );
    }
}
