//! `log add`, `log remove`, `log list`: adds and removes log devices for journals.
//!
//! # Order of writes
//! Everything is checked before anything is written. Existing log devices keep their labels and
//! content.
//!
//! 1. The drives are registered.
//! 2. Each gets its label, which names both. Killed in between: neither is used, as the labelled
//!    one names another that does not confirm it.
//! 3. The log is in use.
//!
//! At removal, the log is taken out of use before its labels are erased. Killed there: devices of
//! an unused log, without journals.

use crate::events::EventCode;
use crate::interface::{
    Error, ErrorKind, LogDeviceInfo, LogDeviceState, LogInfo, LogPlaceInfo, Result,
};
use crate::inventory::{Drive, is_volatile};
use crate::lifecycle::candidates::{Candidate, Taken};
use crate::lifecycle::{Lifecycle, refuse_failed};
use ondisk::{LogLabel, LogMember, Uuid};
use platform::DriveKind;
use std::collections::BTreeMap;
use std::rc::Rc;

fn invalid(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, sentence)
}

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

/// A list of drive names for a sentence.
fn named(names: &[String]) -> String {
    let drives = if names.len() == 1 { "drive" } else { "drives" };
    format!("{drives} {}", names.join(" and "))
}

impl Lifecycle {
    /// `log add`. Returns notes, a sentence each.
    pub(crate) async fn add_log(
        self: &Rc<Self>,
        drives: &[String],
        destroy: bool,
        same_disk_ok: bool,
    ) -> Result<Vec<String>> {
        if self.arrays.log_in_use().is_some() {
            let names = self.arrays.log_device_names();
            let first = names.first().map_or("DRIVE", String::as_str);
            let sentence = format!(
                "a log is in use already, on {}; remove it first with 'softroc log remove {first}'",
                named(&names)
            );
            return Err(wrong(sentence));
        }
        if drives.is_empty() || drives.len() > 2 {
            return Err(invalid("a log has one drive, or two mirrored drives; name one or two"));
        }
        let mut candidates = Vec::new();
        let checked =
            self.check_taken(drives, Taken { destroy, as_log: true }, &mut candidates).await;
        let checked = checked.and_then(|()| self.check_log(&candidates, same_disk_ok));
        let log = match checked.and_then(|()| self.log_to_adopt(&candidates, destroy)) {
            Ok(Some(log)) => self.adopt(&candidates).await.map(|()| log),
            Ok(None) => self.make_log(&candidates).await,
            Err(error) => Err(error),
        };
        let begun = match log {
            Ok(log) => self.begin_log(log, &candidates).await,
            Err(error) => Err(error),
        };
        if begun.is_err() {
            self.let_go(&candidates).await;
        }
        begun
    }

    /// Puts the log into use. Returns notes, a sentence each.
    async fn begin_log(
        self: &Rc<Self>,
        log: Uuid,
        candidates: &[Candidate],
    ) -> Result<Vec<String>> {
        let mut notes = self.arrays.use_log(log).await?;
        if candidates.iter().any(|candidate| candidate.drive.is_volatile()) {
            notes.push("a drive in memory loses its contents when the controller stops".to_owned());
        }
        let devices = self.arrays.log_devices(log);
        let names: Vec<String> = devices.iter().map(|drive| drive.name.clone()).collect();
        let text = format!("journals can use {} now", named(&names));
        let effect = "journals move there from the members";
        self.events.report(
            EventCode::LogAdded,
            &names.join(", "),
            "an operator added it",
            effect,
            text,
        );
        self.attention.look_after();
        Ok(notes)
    }

    /// At a start: adds the log devices from the options, unless a log is in use.
    pub(crate) async fn add_given_log(self: &Rc<Self>, drives: &[String]) {
        if drives.is_empty() || self.arrays.log_in_use().is_some() {
            return;
        }
        if let Err(error) = self.add_log(drives, false, false).await {
            let text = format!("{} cannot be used as a log: {}", named(drives), error.message);
            tracing::warn!("{text}");
            let effect = "journals stay where they are";
            self.events.report(
                EventCode::LogNotAdded,
                &drives.join(", "),
                &error.message,
                effect,
                text,
            );
        }
    }

    /// Checks whether the drives are suitable as log devices.
    fn check_log(&self, candidates: &[Candidate], same_disk_ok: bool) -> Result<()> {
        for Candidate { drive, size, .. } in candidates {
            let name = &drive.name;
            if let Some((array, slot)) = self.arrays.place_of(drive) {
                let sentence = format!(
                    "drive {name} is drive {slot} of {}; choose another drive",
                    array.names()
                );
                return Err(Error::new(ErrorKind::InUse, sentence));
            }
            if drive.spare().is_some() {
                let sentence =
                    format!("drive {name} is a hot spare; first run 'softroc spare remove {name}'");
                return Err(Error::new(ErrorKind::InUse, sentence));
            }
            let kind = drive.access().map(|access| access.info().kind);
            if matches!(kind, Some(DriveKind::Volume | DriveKind::Null)) {
                return Err(invalid(format!(
                    "drive {name} cannot hold journals: it does not store data itself; choose a \
                    file, a partition or a drive"
                )));
            }
            if LogLabel::room(*size).is_none() {
                return Err(invalid(format!(
                    "drive {name} is too small for a log: it has {size}, and at least 6 MiB are \
                        needed; choose a larger one"
                )));
            }
            if drive.is_volatile() {
                self.check_all_volatile(name)?;
            }
        }
        match candidates {
            [one, other] if !same_disk_ok && one.is_on_same_disk(other) => Err(invalid(format!(
                "{} and {} are on one disk, and are lost together; choose another drive, or use \
                --yes",
                one.drive.name, other.drive.name
            ))),
            _ => Ok(()),
        }
    }

    /// Journals in memory are lost with the process, so only volumes in memory may use them.
    fn check_all_volatile(&self, name: &str) -> Result<()> {
        for array in self.arrays.all() {
            if array.label().member.iter().any(|member| !is_volatile(&member.name)) {
                return Err(invalid(format!(
                    "drive {name} is lost with the process, and the drives of {} are not: after a \
                        crash its journals would be missing; choose a file, a partition or a drive",
                    array.names()
                )));
            }
        }
        Ok(())
    }

    /// The log that the drives already belong to; `None` if a new one must be created.
    fn log_to_adopt(&self, candidates: &[Candidate], destroy: bool) -> Result<Option<Uuid>> {
        let labels: Vec<(&str, LogLabel)> = candidates
            .iter()
            .filter_map(|candidate| {
                Some((candidate.drive.name.as_str(), candidate.drive.log_label()?))
            })
            .collect();
        let Some((name, label)) = labels.first().filter(|_| !destroy) else { return Ok(None) };
        let anew = "use --destroy-data to create a new log and lose the content of the old one";
        if labels.len() < candidates.len() || labels.iter().any(|(_, other)| other.log != label.log)
        {
            return Err(wrong(format!(
                "drive {name} is a device of a log, and the other named drives are not; name the \
                devices of that log ({}), or {anew}",
                device_names(label)
            )));
        }
        let is_here = |device: &LogMember| {
            let is_it = |other: &LogLabel| other.log == label.log && other.device == device.uuid;
            labels.iter().any(|(_, other)| is_it(other))
                || self
                    .arrays
                    .log_devices(label.log)
                    .iter()
                    .filter_map(|drive| drive.log_label())
                    .any(|other| is_it(&other))
        };
        match label.devices.iter().find(|device| !is_here(device)) {
            None => Ok(Some(label.log)),
            Some(missing) => Err(wrong(format!(
                "drive {name} is one of two devices of a log, and the other is missing ({}); name \
                both, or {anew}",
                missing.name
            ))),
        }
    }

    /// Creates a new log on drives.
    async fn make_log(self: &Rc<Self>, candidates: &[Candidate]) -> Result<Uuid> {
        let member = |candidate: &Candidate| LogMember {
            uuid: self.arrays.new_uuid(),
            name: candidate.drive.name.clone(),
        };
        let devices: Vec<LogMember> = candidates.iter().map(member).collect();
        let label = LogLabel {
            log: self.arrays.new_uuid(),
            device: Uuid::default(),
            generation: 1,
            since_unix_s: self.env.unix_time(),
            devices,
            place: Vec::new(),
        };
        self.adopt_apart(candidates).await?;
        if let Err(error) = self.write_log_labels(candidates, &label).await {
            let drives = candidates.iter().map(|candidate| &candidate.drive);
            self.erase_log_labels(drives.filter(|drive| drive.log_label().is_some())).await;
            return Err(error);
        }
        Ok(label.log)
    }

    /// Writes the label of each device of a new log.
    ///
    /// # Errors
    /// When one cannot be written: others may have theirs.
    async fn write_log_labels(&self, candidates: &[Candidate], label: &LogLabel) -> Result<()> {
        // Freeing a volume's area rewrites a label read before; it must not be one of an earlier
        // log.
        let _turn = self.arrays.log_labels_turn().await;
        for (candidate, device) in candidates.iter().zip(&label.devices) {
            self.inventory.write_log_label(&candidate.drive, label.for_device(device.uuid)).await?;
        }
        Ok(())
    }

    /// Erases labels. Returns notes, a sentence for each remaining label, which an event reports
    /// too.
    async fn erase_log_labels(&self, drives: impl Iterator<Item = &Rc<Drive>>) -> Vec<String> {
        let _turn = self.arrays.log_labels_turn().await;
        let mut notes = Vec::new();
        for drive in drives {
            if let Err(error) = self.inventory.erase_log_label(drive).await {
                let effect = "it has an obsolete label";
                let text = error.message;
                notes.push(text.clone());
                self.events.report(
                    EventCode::DriveLabelNotErased,
                    &drive.name,
                    "it cannot be written",
                    effect,
                    text,
                );
            }
        }
        notes
    }

    /// `log remove`. Returns notes, a sentence each.
    pub(crate) async fn remove_log(self: &Rc<Self>, text: &str) -> Result<Vec<String>> {
        let in_use = self.arrays.log_in_use();
        let own = self.inventory.drive_called(text).and_then(|drive| drive.log_label());
        let infos = self.log_infos();
        let is_named = |info: &&LogInfo| info.devices.iter().any(|device| device.drive == text);
        let log = match &own {
            Some(label) => Some(label.log),
            None => infos.iter().find(is_named).and_then(|info| info.log.parse().ok()),
        };
        let Some(log) = log else {
            let _ = self.arrays.find_drive(text)?;
            return Err(wrong(format!(
                "drive {text} is not a log device; 'softroc log list' lists them"
            )));
        };
        let label = self.newest_log_label(log);
        let has_journals = label.as_ref().is_some_and(|label| self.arrays.may_be_needed(label));
        if in_use != Some(log) && has_journals {
            return Err(wrong(format!(
                "drive {text} holds journals that were not replayed here, and is not in use; run \
                'softroc log add {text}' to use it, or reuse the drive with --destroy-data"
            )));
        }
        let mut notes = self.arrays.leave_log(log).await?;
        let drives: Vec<Rc<Drive>> = self.inventory.drives();
        let of_log = |drive: &&Rc<Drive>| drive.log_label().is_some_and(|label| label.log == log);
        let has_failed =
            |drive: &&Rc<Drive>| of_log(drive) && self.arrays.log_device_failure(drive).is_some();
        let failed: Vec<Rc<Drive>> = drives.iter().filter(has_failed).cloned().collect();
        notes.extend(self.erase_log_labels(drives.iter().filter(of_log)).await);
        for drive in failed {
            // A record that timed out may land late, on whatever the drive holds then (rule (d)).
            drive.note_draining(&Rc::default());
            notes.push(format!(
                "drive {} failed, and is not used again before a restart of the controller",
                drive.name
            ));
        }
        for device in infos.iter().filter(is_named).flat_map(|info| &info.devices) {
            if device.state == LogDeviceState::Missing {
                notes.push(format!(
                    "drive {0} is missing and keeps its label; run 'softroc log remove {0}' when \
                    it is back",
                    device.drive
                ));
            }
        }
        let subject = label.as_ref().map_or_else(|| text.to_owned(), device_names);
        let text = format!("the log on {subject} was removed");
        let effect = "journals are on the members";
        self.events.report(EventCode::LogRemoved, &subject, "an operator removed it", effect, text);
        self.attention.look_after();
        Ok(notes)
    }

    /// The newest label of a log.
    fn newest_log_label(&self, log: Uuid) -> Option<LogLabel> {
        let labels = self.inventory.drives().into_iter().filter_map(|drive| drive.log_label());
        labels.filter(|label| label.log == log).max_by_key(|label| label.generation)
    }

    /// `log list`: the log in use, then other logs with a device present.
    pub(crate) fn log_infos(&self) -> Vec<LogInfo> {
        let in_use = self.arrays.log_in_use();
        let mut labels: BTreeMap<Uuid, LogLabel> = BTreeMap::new();
        for label in self.inventory.drives().into_iter().filter_map(|drive| drive.log_label()) {
            let known = labels.entry(label.log).or_insert_with(|| label.clone());
            if label.generation > known.generation {
                *known = label;
            }
        }
        let mut infos: Vec<LogInfo> = labels.values().map(|label| self.log_info(label)).collect();
        if let Some(log) = in_use.filter(|log| !labels.contains_key(log)) {
            let missing = |name: String| missing_device(&name, 0);
            infos.push(LogInfo {
                log: log.to_string(),
                in_use: true,
                devices: self.arrays.log_device_names().into_iter().map(missing).collect(),
                places: Vec::new(),
            });
        }
        infos.sort_by_key(|info| (!info.in_use, info.log.clone()));
        infos
    }

    fn log_info(&self, label: &LogLabel) -> LogInfo {
        let used = label.place.iter().map(|place| place.len_bytes).sum();
        let drives = self.inventory.drives();
        let device = |member: &LogMember| {
            let is_it = |drive: &&Rc<Drive>| {
                drive
                    .log_label()
                    .is_some_and(|own| own.log == label.log && own.device == member.uuid)
            };
            let Some(drive) = drives.iter().find(is_it) else {
                return missing_device(&member.name, used);
            };
            let Some(access) = drive.access() else { return missing_device(&drive.name, used) };
            let failure = self.inventory.failure_of(drive);
            let failure =
                failure.map(|failure| refuse_failed(&drive.name, &failure)).or(drive.problem());
            let why =
                failure.map(|failure| failure.message).or(self.arrays.log_device_failure(drive));
            LogDeviceInfo {
                drive: drive.name.clone(),
                state: if why.is_some() { LogDeviceState::Failed } else { LogDeviceState::Online },
                why,
                size_bytes: LogLabel::room(access.info().size).map(|room| room.len.0),
                used_bytes: used,
            }
        };
        let place = |place: &ondisk::LogPlace| LogPlaceInfo {
            volume: place.name.clone(),
            bytes: place.len_bytes,
        };
        LogInfo {
            log: label.log.to_string(),
            in_use: self.arrays.log_in_use() == Some(label.log),
            devices: label.devices.iter().map(device).collect(),
            places: label.place.iter().map(place).collect(),
        }
    }
}

fn device_names(label: &LogLabel) -> String {
    let names: Vec<&str> = label.devices.iter().map(|device| device.name.as_str()).collect();
    names.join(", ")
}

fn missing_device(name: &str, used_bytes: u64) -> LogDeviceInfo {
    LogDeviceInfo {
        drive: name.to_owned(),
        state: LogDeviceState::Missing,
        why: Some(format!("it is missing; connect it and run 'softroc drive add {name}'")),
        size_bytes: None,
        used_bytes,
    }
}
