//! Known state of log devices: drives that hold the journals of volumes instead of the members.
//!
//! # Invariants
//! - One of two log devices may be lost at any time without data loss. The last one may be lost in
//!   a running process without effect on hosts. A device that hangs keeps its data until the drives
//!   have it.
//! - If a crash follows before the journals have moved to the members, writes that were durable
//!   only by a lost device may be lost, and parity may be inconsistent; nothing is expected of a
//!   journal until then.
//! - After a crash a volume waits for its log only while no device with its records is present. An
//!   operator reinserts a device without data loss, or discards the log: then only flushes made
//!   writes durable, and there was no journal.
//!
//! The controller cannot report which devices have a volume's records. They are the devices of the
//! active log that were present at the start of the process and fault-free since, at a time when
//! the volume was served.

mod acts;
mod faults;
mod waiting;

use crate::answering::AckMode;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::machine::Machine;
use crate::scene::Scene;
use crate::setup::Setup;
pub(crate) use acts::operate;
use controller::{Command, LogDeviceState, LogInfo, Reply, VolumeInfo};
pub(crate) use faults::{plan, repair};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
pub(crate) use waiting::{settle, waits};

/// The controller's record of the active log.
pub(crate) const REMEMBERED_LOG: &str = "log.toml";

/// The known state of the active log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogState {
    /// There is no log.
    #[default]
    None,
    /// A log is being added or removed, without a reply yet.
    Perhaps,
    /// The log is active; a reply confirmed it.
    InUse,
}

/// The log devices of a machine.
#[derive(Clone, Debug, Default)]
pub struct LogDevices {
    standing: Cell<LogState>,
    /// The first names of the devices of the log that is, or may be, active.
    devices: RefCell<Vec<String>>,
    /// Those that were present at the start of this process, without faults since.
    serving: RefCell<BTreeSet<String>>,
    /// Devices with faults since then.
    faulty: RefCell<BTreeSet<String>>,
    /// Devices with unreadable blocks: journal records may be missing, also in later processes.
    unreadable: RefCell<BTreeSet<String>>,
    /// Devices that were pulled out, and may be reinserted.
    away: RefCell<BTreeSet<String>>,
    /// Whether a log is being added or removed.
    is_changing: Cell<bool>,
    /// The number of starts and ends of such changes.
    changes: Cell<u64>,
    /// Whether the state folder has no record of the active log: it is another machine's.
    pub is_elsewhere: Cell<bool>,
}

/// The known state of a volume's journal on a log.
#[derive(Clone, Debug, Default)]
pub struct OnLog {
    /// Whether its writes are acknowledged when a log has them.
    pub answering: AckMode,
    /// Whether its label may name a log.
    may_wait: Cell<bool>,
    /// Whether its label may name a data log of an earlier process.
    may_restore: Cell<bool>,
    /// Whether the controller reported in this process that the journal is on a log.
    is_told: Cell<bool>,
    /// Whether the controller's last report says that its journal is complete, on any device.
    tells_all: Cell<bool>,
    /// Whether it may have had an orderly stop since it was served.
    is_stopped: Cell<bool>,
    /// Devices that certainly have its records.
    has_it: RefCell<BTreeSet<String>>,
    /// Devices that returned in this process before the volume started: they have its records as
    /// well.
    came_back: RefCell<BTreeSet<String>>,
    /// Whether all devices with its records failed, and no later report says that the journal is
    /// complete.
    is_lost: Cell<bool>,
    /// At the start of this process: whether it may wait for its log, and whether it must.
    at_start: Cell<(bool, bool)>,
    /// It waited for its log, and was not served since: an orderly stop does not change that.
    is_unfinished: Cell<bool>,
}

impl OnLog {
    /// No device has the journal's records any more.
    fn lose(&self, scene: &Scene) {
        if !self.is_lost.replace(true) {
            scene.log_is_lost();
            scene.tell(|| "its log is lost".to_owned());
        }
    }

    /// The last device with the journal's records hangs. Its records count until the drives have
    /// the data; the new journal is not complete yet.
    fn falls_silent(scene: &Scene) {
        scene.covered.set(false);
        scene.tell(|| "its log does not respond".to_owned());
    }

    /// Whether writes that were durable by the log may be lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// All devices with its records failed.
    #[cfg(test)]
    pub fn fails(&self) {
        self.is_lost.set(true);
    }

    /// A volume is created again, or gets a journal.
    pub fn begins_anew(&self, log: &LogDevices) {
        self.is_told.set(false);
        self.is_lost.set(false);
        self.has_it.take();
        self.may_wait.set(log.standing.get() != LogState::None);
    }

    /// It may have got a new journal.
    pub fn may_have_moved(&self, log: &LogDevices) {
        self.may_wait.set(self.may_wait.get() || log.standing.get() != LogState::None);
    }

    /// The log's records are discarded: no volume waits for them.
    pub fn give_up(&self) {
        self.is_told.set(false);
        self.is_lost.set(false);
        self.at_start.set((true, false));
    }

    /// It waited for its log, or another volume's operator reinserted a device.
    fn has_waited(&self) {
        self.at_start.set((self.at_start.get().0, false));
    }

    /// Whether it may have to wait for its log at the next start, also after an orderly stop.
    fn may_wait_after(&self, stopped_in_order: bool) -> bool {
        self.at_start.get().0 && (!stopped_in_order || self.is_unfinished.get())
    }

    /// Whether it must have waited for its log at the start of this process.
    pub fn must_have_waited(&self) -> bool {
        self.at_start.get().1
    }

    /// Takes over the state of a copy.
    pub fn adopt(&self, other: &OnLog) {
        self.may_wait.set(other.may_wait.get());
        self.may_restore.set(other.may_restore.get());
        self.is_told.set(other.is_told.get());
        self.is_stopped.set(other.is_stopped.get());
        self.has_it.borrow_mut().clone_from(&other.has_it.borrow());
        self.is_lost.set(other.is_lost.get());
        self.is_unfinished.set(other.is_unfinished.get());
    }

    /// Whether the last report says that its journal is complete: a start needs no consent then,
    /// even if that is unreliable.
    pub fn tells_all(&self) -> bool {
        self.tells_all.get()
    }

    /// The change since which a device certainly has each acknowledged write; `None`: possibly none
    /// has.
    pub fn logged(&self) -> Option<u64> {
        self.answering.logged().filter(|_| self.is_told.get() && !self.has_it.borrow().is_empty())
    }

    /// Whether both devices of its log have its records.
    pub fn is_on_two(&self) -> bool {
        self.has_it.borrow().len() > 1
    }

    /// A flush completed: it covers the writes that an earlier process made durable by a log alone.
    /// These are on the drives now, unless the label still names a log.
    pub fn is_flushed(&self) {
        self.may_restore.set(false);
    }

    /// An orderly stop begins: after it, the volume need not wait for a log.
    pub fn may_be_stopped(&self) {
        self.is_stopped.set(true);
    }

    fn judge_cover(&self, is_told: bool, on_log: bool) -> bool {
        is_told && (!on_log || !self.has_it.borrow().is_empty())
    }
}

impl LogDevices {
    /// The number of times that a log was added or removed, or began to be: earlier reports are
    /// void.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The active log devices, by their first names.
    pub fn devices(&self) -> Vec<String> {
        self.devices.borrow().clone()
    }

    fn change(&self, is_changing: bool) {
        self.is_changing.set(is_changing);
        self.changes.set(self.changes.get() + 1);
    }
}

/// The drive of that first name, if it is present.
pub(crate) fn present(machine: &Machine, name: &str) -> bool {
    let known = machine.known.borrow();
    known.iter().any(|(known, drive)| known == name && drive.is_present())
}

/// A process of the controller will start. Returns the log to start it with.
pub(crate) fn begin(first: &Rc<Scene>) -> Vec<String> {
    let log = &first.machine.log;
    log.change(false);
    let given = given_at_first(first);
    let devices = log.devices.borrow();
    let there: BTreeSet<String> =
        devices.iter().filter(|name| present(&first.machine, name)).cloned().collect();
    let unreadable = log.unreadable.borrow().clone();
    for scene in first.volumes() {
        let on = &scene.on_log;
        let (was_told, may_be_stopped) = (on.is_told.replace(false), on.is_stopped.replace(false));
        let was_served = was_told && !may_be_stopped;
        let must_wait = scene.covered.get() && was_served && there.is_empty();
        on.may_restore.set(on.may_wait.get() && scene.setup.has_cache());
        on.at_start.set((on.may_wait.get(), must_wait && !scene.array.after_shutdown.get()));
        let had_it = !on.has_it.borrow().is_empty();
        on.has_it.borrow_mut().retain(|name| there.contains(name) && !unreadable.contains(name));
        // No volume waits for the second device while one is present, even if that has unreadable
        // blocks.
        if had_it && on.has_it.borrow().is_empty() && !there.is_empty() && on.may_wait.get() {
            on.lose(&scene);
        }
        // After an orderly stop during a resync, a volume without its log starts as if it had no
        // journal.
        if there.is_empty() && on.may_wait.get() && may_be_stopped {
            scene.covered.set(false);
        }
        on.came_back.take();
        on.answering.end_change();
        on.tells_all.set(false);
        if log.standing.get() != LogState::None && scene.has_parity() {
            on.may_wait.set(true);
        }
    }
    log.serving.replace(&there - &unreadable);
    log.faulty.replace(unreadable);
    given
}

/// In its first life the controller may start with a log.
fn given_at_first(first: &Scene) -> Vec<String> {
    let Some(setup) = first.setup.log.as_ref().filter(|setup| setup.at_first > 0) else {
        return Vec::new();
    };
    let log = &first.machine.log;
    if first.is_there() || first.machine.life.get() > 0 || log.standing.get() != LogState::None {
        return Vec::new();
    }
    let names: Vec<String> = setup.names().into_iter().take(setup.at_first).collect();
    log.devices.borrow_mut().clone_from(&names);
    log.standing.set(LogState::Perhaps);
    names.into_iter().map(|name| first.machine.path_of(name)).collect()
}

/// Compares the active log with the expected one.
///
/// # Errors
/// When they differ, or a fault-free device is offline.
pub(crate) async fn look(host: &Host) -> Result<()> {
    let (scene, log) = (&host.scene, &host.scene.machine.log);
    if scene.setup.log.is_none() {
        return Ok(());
    }
    let changes = log.changes();
    let in_use = log_in_use(host).await?;
    if log.changes() != changes || log.is_changing.get() {
        return Ok(());
    }
    judge(host, &in_use)
}

/// Queries the active log.
pub(crate) async fn log_in_use(host: &Host) -> Result<Option<LogInfo>> {
    match host.must(Command::LogList {}).await? {
        Reply::Logs { logs, .. } => Ok(logs.into_iter().find(|info| info.in_use)),
        _ => Error::wrong_state("logs cannot be listed"),
    }
}

/// Compares the active log with the expected one.
pub(crate) fn judge(host: &Host, in_use: &Option<LogInfo>) -> Result<()> {
    let (scene, log) = (&host.scene, &host.scene.machine.log);
    match (log.standing.get(), in_use) {
        (LogState::InUse, None) if !log.is_elsewhere.get() => {
            Error::wrong_state("the active log is no longer active")
        }
        (LogState::None, Some(info)) => {
            Error::wrong_state(format!("a log that was never added is active: {info:?}"))
        }
        (_, None) => {
            log.standing.set(LogState::None);
            log.devices.take();
            log.serving.take();
            Ok(())
        }
        (_, Some(info)) => {
            log.standing.set(LogState::InUse);
            note_devices(&scene.machine, info);
            judge_devices(scene, info)
        }
    }
}

/// Records all devices of the active log. Adding one of two devices of a partly removed log adds
/// both: the other one also has records.
fn note_devices(machine: &Machine, info: &LogInfo) {
    let log = &machine.log;
    let online = info.devices.iter().filter(|device| device.state == LogDeviceState::Online);
    for name in online.map(|device| machine.drive_at(&device.drive)) {
        if log.devices.borrow().contains(&name) {
            continue;
        }
        if present(machine, &name) && !log.faulty.borrow().contains(&name) {
            log.serving.borrow_mut().insert(name.clone());
        }
        log.devices.borrow_mut().push(name);
    }
}

fn judge_devices(scene: &Scene, info: &LogInfo) -> Result<()> {
    let machine = &scene.machine;
    let serving = machine.log.serving.borrow();
    let is_online = |name: &String| {
        // A missing device is listed under an earlier name.
        let online = info.devices.iter().filter(|device| device.state == LogDeviceState::Online);
        online.clone().any(|device| machine.drive_at(&device.drive) == *name)
    };
    match serving.iter().find(|name| !is_online(name)) {
        Some(name) => {
            Error::wrong_state(format!("log device {name} is offline without a fault: {info:?}"))
        }
        None => Ok(()),
    }
}

/// Whether a volume reports a complete journal, and whether that is on a log.
pub(crate) fn journal(volume: &VolumeInfo) -> Option<(bool, bool)> {
    let policy = volume.policies.iter().find(|policy| policy.name == "write-hole")?;
    let is_told = policy.current == "journal";
    Some((is_told, is_told && policy.reason.contains("a journal on the log")))
}

/// Records the report of a served volume. `changes`: the value of [`LogDevices::changes`] at the
/// query. Returns whether its journal is reliably complete, and whether the controller reports
/// that.
pub(crate) fn note(scene: &Scene, volume: &VolumeInfo, changes: u64) -> Option<(bool, bool)> {
    let (log, on) = (&scene.machine.log, &scene.on_log);
    let (is_told, is_on_log) = journal(volume)?;
    if log.changes() != changes || log.is_changing.get() {
        return None;
    }
    if log.standing.get() == LogState::InUse {
        let back = on.came_back.borrow();
        let now = &*log.serving.borrow() | &*back;
        let before = on.has_it.take();
        // Until the drives have the durable writes of earlier processes, only the devices of that
        // time have them.
        let is_older = on.may_restore.get() && !before.is_empty();
        on.has_it.replace(if is_older { &(&before | &*back) & &now } else { now });
    }
    on.is_unfinished.set(false);
    let was_on_log = on.is_told.replace(is_on_log);
    on.tells_all.set(is_told);
    if is_told && !is_on_log {
        // The journal is on the members. Flushed data may still be on the earlier log: the label
        // names it until the drives have all of it, and no flush completes before
        // (`controller::data_log`).
        if was_on_log && scene.setup.has_cache() {
            on.may_restore.set(true);
        }
        on.may_wait.set(on.may_restore.get());
    } else if log.standing.get() != LogState::None {
        on.may_wait.set(true);
    }
    let is_covered = on.judge_cover(is_told, is_on_log);
    if is_covered {
        on.is_lost.set(false);
    }
    Some((is_covered, is_told))
}

/// A fault of a log device: its records are unreliable in this process. `is_silent`: it hangs, and
/// keeps its data.
fn distrust(first: &Rc<Scene>, name: &str, is_silent: bool) {
    first.machine.log.serving.borrow_mut().remove(name);
    first.machine.log.faulty.borrow_mut().insert(name.to_owned());
    for scene in first.volumes() {
        let on = &scene.on_log;
        on.came_back.borrow_mut().remove(name);
        let had_it = on.has_it.borrow_mut().remove(name);
        if had_it {
            on.answering.forget();
        }
        let is_last = had_it || first.machine.log.serving.borrow().is_empty();
        if is_last && on.has_it.borrow().is_empty() && on.may_wait.get() {
            match is_silent {
                true => OnLog::falls_silent(&scene),
                false => on.lose(&scene),
            }
        }
    }
}

/// The log devices of the setup, known from the start.
pub(crate) fn names(setup: &Setup) -> Vec<String> {
    setup.log.as_ref().map(|log| log.names()).unwrap_or_default()
}
