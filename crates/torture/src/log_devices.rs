//! What the harness knows of log devices: drives that hold the journals of volumes instead of their members.
//!
//! # What must hold
//! Of two devices one may be lost at any time, and nothing is lost with it. The last one may be lost while a process runs: hosts
//! notice nothing. One that does not answer for a while keeps what it promised until the drives have it. Should a crash come before the
//! journals are settled on the members, what durable writes alone have promised by a device that is lost may be old, and parity may not
//! agree; until then nothing is expected of a journal. A volume waits for its log after a crash, and only where no device that must have
//! its records is there. An operator brings one back, and everything is there; or gives the records up: then it is as if durable writes had
//! promised no more than others, but for what a flush has covered, and as if there had been no journal.
//!
//! Which devices must have the records of a volume is what the controller cannot be asked for. They are those of the log in use that were there when the
//! process was started, and have had no fault since, at a time when the volume was served.

mod acts;
mod faults;
mod waiting;

use crate::answering::Answering;
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

/// Where the controller remembers which log is in use.
pub(crate) const REMEMBERED_LOG: &str = "log.toml";

/// What is known of the log in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Standing {
    /// There is none.
    #[default]
    None,
    /// It was asked for, or is to be left, and nobody was told that it is so.
    Perhaps,
    /// It is in use: somebody was told so.
    InUse,
}

/// The log devices of a machine.
#[derive(Clone, Debug, Default)]
pub struct LogDevices {
    standing: Cell<Standing>,
    /// The first names of the devices of the log that is, or may be, in use.
    devices: RefCell<Vec<String>>,
    /// Those of them that were there when this process was started, and to which nothing has happened since.
    serving: RefCell<BTreeSet<String>>,
    /// Devices to which something has happened since then.
    faulty: RefCell<BTreeSet<String>>,
    /// Devices with blocks that cannot be read: what a journal on them says may be missing, in every later process as well.
    unreadable: RefCell<BTreeSet<String>>,
    /// Devices that were pulled out, and may be put back.
    away: RefCell<BTreeSet<String>>,
    /// Whether a log is being added or removed.
    is_changing: Cell<bool>,
    /// How often that has begun or ended.
    changes: Cell<u64>,
    /// Whether the state folder does not know which log was in use: it is another machine's.
    pub is_elsewhere: Cell<bool>,
}

/// What is known of a volume's journal that may lie on a log.
#[derive(Clone, Debug, Default)]
pub struct OnLog {
    /// Whether its writes are answered when a log has them.
    pub answering: Answering,
    /// Whether its label may name a log.
    may_wait: Cell<bool>,
    /// Whether its label may name a data log of an earlier process.
    may_restore: Cell<bool>,
    /// Whether the controller said so, in this process, and that what is there tells all.
    is_told: Cell<bool>,
    /// Whether the controller said last that its journal tells all, wherever that lies.
    tells_all: Cell<bool>,
    /// Whether it may have been stopped in order since it was served.
    is_stopped: Cell<bool>,
    /// Devices that have its records for certain.
    has_it: RefCell<BTreeSet<String>>,
    /// Devices that came back in this process before it was started: it has its records there as well.
    came_back: RefCell<BTreeSet<String>>,
    /// Whether all devices that had its records failed, and nobody said that it is well without.
    is_lost: Cell<bool>,
    /// What was known when this process was started: whether it may wait for its log, and whether it must.
    at_start: Cell<(bool, bool)>,
    /// It has waited for its log, and was not served since: a stop in order leaves that as it is.
    is_unfinished: Cell<bool>,
}

impl OnLog {
    /// No device has what the journal on the log said.
    fn lose(&self, scene: &Scene) {
        if !self.is_lost.replace(true) {
            scene.log_is_lost();
            scene.tell(|| "its log is lost".to_owned());
        }
    }

    /// The last device that had what the journal on the log said does not answer. What it promised counts until the drives have it; the
    /// journal that comes after it does not tell all yet.
    fn falls_silent(scene: &Scene) {
        scene.covered.set(false);
        scene.tell(|| "its log is silent".to_owned());
    }

    /// Whether what promised that its durable writes are durable may be lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// All devices that had its records failed.
    #[cfg(test)]
    pub fn fails(&self) {
        self.is_lost.set(true);
    }

    /// A volume is created anew, or has a journal anew.
    pub fn begins_anew(&self, log: &LogDevices) {
        self.is_told.set(false);
        self.is_lost.set(false);
        self.has_it.take();
        self.may_wait.set(log.standing.get() != Standing::None);
    }

    /// It has a journal anew.
    pub fn may_have_moved(&self, log: &LogDevices) {
        self.may_wait.set(self.may_wait.get() || log.standing.get() != Standing::None);
    }

    /// What a log had is given up: nothing waits for it any more.
    pub fn give_up(&self) {
        self.is_told.set(false);
        self.is_lost.set(false);
        self.at_start.set((true, false));
    }

    /// It waited for its log, or another volume's operator brought a device back.
    fn has_waited(&self) {
        self.at_start.set((self.at_start.get().0, false));
    }

    /// Whether it may have to wait for its log in a process that follows a stop in order, if that is one.
    fn may_wait_after(&self, stopped_in_order: bool) -> bool {
        self.at_start.get().0 && (!stopped_in_order || self.is_unfinished.get())
    }

    /// Whether it must have waited for its log when this process was started.
    pub fn must_have_waited(&self) -> bool {
        self.at_start.get().1
    }

    /// Knows what another one knows.
    pub fn adopt(&self, other: &OnLog) {
        self.may_wait.set(other.may_wait.get());
        self.may_restore.set(other.may_restore.get());
        self.is_told.set(other.is_told.get());
        self.is_stopped.set(other.is_stopped.get());
        self.has_it.borrow_mut().clone_from(&other.has_it.borrow());
        self.is_lost.set(other.is_lost.get());
        self.is_unfinished.set(other.is_unfinished.get());
    }

    /// Whether the controller said last that its journal tells all: it asks for no word then, though nobody may rely on that.
    pub fn tells_all(&self) -> bool {
        self.tells_all.get()
    }

    /// Since when a device has each write that is answered, for certain; `None`: none may have it.
    pub fn logged(&self) -> Option<u64> {
        self.answering.logged().filter(|_| self.is_told.get() && !self.has_it.borrow().is_empty())
    }

    /// Whether both devices of its log have its records.
    pub fn is_on_two(&self) -> bool {
        self.has_it.borrow().len() > 1
    }

    /// A flush was answered: it covers what an earlier process had promised by a log alone, which is on the drives since, as long as no log
    /// that the controller tells of has it.
    pub fn is_flushed(&self) {
        self.may_restore.set(false);
    }

    /// It is about to be stopped in order: then it need not wait for a log.
    pub fn may_be_stopped(&self) {
        self.is_stopped.set(true);
    }

    fn judge_cover(&self, is_told: bool, on_log: bool) -> bool {
        is_told && (!on_log || !self.has_it.borrow().is_empty())
    }
}

impl LogDevices {
    /// How often a log was added or removed, or begun to be: what the controller said before is not so any more.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The log devices that are in use, by their first names.
    pub fn devices(&self) -> Vec<String> {
        self.devices.borrow().clone()
    }

    fn change(&self, is_changing: bool) {
        self.is_changing.set(is_changing);
        self.changes.set(self.changes.get() + 1);
    }
}

/// The drive of that first name, if it is there.
pub(crate) fn present(machine: &Machine, name: &str) -> bool {
    let known = machine.known.borrow();
    known.iter().any(|(known, drive)| known == name && drive.is_present())
}

/// A process of the controller is about to start. The log that it is to be started with.
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
        // Nobody waits for the other device while one is there, of which not all can be read.
        if had_it && on.has_it.borrow().is_empty() && !there.is_empty() && on.may_wait.get() {
            on.lose(&scene);
        }
        // After a stop in order before its redundancy agreed, one whose log is not here is started as if it had no journal.
        if there.is_empty() && on.may_wait.get() && may_be_stopped {
            scene.covered.set(false);
        }
        on.came_back.take();
        on.answering.end_change();
        on.tells_all.set(false);
        if log.standing.get() != Standing::None && scene.has_parity() {
            on.may_wait.set(true);
        }
    }
    log.serving.replace(&there - &unreadable);
    log.faulty.replace(unreadable);
    given
}

/// In its first life the controller may be started with a log.
fn given_at_first(first: &Scene) -> Vec<String> {
    let Some(setup) = first.setup.log.as_ref().filter(|setup| setup.at_first > 0) else { return Vec::new() };
    let log = &first.machine.log;
    if first.is_there() || first.machine.life.get() > 0 || log.standing.get() != Standing::None {
        return Vec::new();
    }
    let names: Vec<String> = setup.names().into_iter().take(setup.at_first).collect();
    log.devices.borrow_mut().clone_from(&names);
    log.standing.set(Standing::Perhaps);
    names.into_iter().map(|name| first.machine.path_of(name)).collect()
}

/// Asks which log is in use, and holds that against what somebody was told.
///
/// # Errors
/// When they differ, or a device is out to which nothing happened.
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

/// Asks which log is in use.
pub(crate) async fn log_in_use(host: &Host) -> Result<Option<LogInfo>> {
    match host.must(Command::LogList {}).await? {
        Reply::Logs { logs, .. } => Ok(logs.into_iter().find(|info| info.in_use)),
        _ => Error::wrong_state("logs cannot be listed"),
    }
}

/// Holds the log in use against what somebody was told.
pub(crate) fn judge(host: &Host, in_use: &Option<LogInfo>) -> Result<()> {
    let (scene, log) = (&host.scene, &host.scene.machine.log);
    match (log.standing.get(), in_use) {
        (Standing::InUse, None) if !log.is_elsewhere.get() => {
            Error::wrong_state("the log that was in use is so no more")
        }
        (Standing::None, Some(info)) => Error::wrong_state(format!("nobody asked for that log: {info:?}")),
        (_, None) => {
            log.standing.set(Standing::None);
            log.devices.take();
            log.serving.take();
            Ok(())
        }
        (_, Some(info)) => {
            log.standing.set(Standing::InUse);
            note_devices(&scene.machine, info);
            judge_devices(scene, info)
        }
    }
}

/// Takes note of all devices of the log in use. Whoever names one of two devices that are a log already, as it was not removed to the
/// end, takes up both: then records are on the other one, too.
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
        // One that is missing is listed under the name that it had once.
        let online = info.devices.iter().filter(|device| device.state == LogDeviceState::Online);
        online.clone().any(|device| machine.drive_at(&device.drive) == *name)
    };
    match serving.iter().find(|name| !is_online(name)) {
        Some(name) => {
            Error::wrong_state(format!("log device {name} is out, and nothing happened to it: {info:?}"))
        }
        None => Ok(()),
    }
}

/// Whether the controller says that a volume has a journal, and that it lies on a log.
pub(crate) fn journal(volume: &VolumeInfo) -> Option<(bool, bool)> {
    let policy = volume.policies.iter().find(|policy| policy.name == "write-hole")?;
    let is_told = policy.current == "journal";
    Some((is_told, is_told && policy.reason.contains("a journal on the log")))
}

/// The controller said how a volume is that it serves. `changes`: what there was of [`LogDevices::changes`] when it was asked.
/// Whether its journal tells all, as far as anybody may rely on that, and whether the controller says so.
pub(crate) fn note(scene: &Scene, volume: &VolumeInfo, changes: u64) -> Option<(bool, bool)> {
    let (log, on) = (&scene.machine.log, &scene.on_log);
    let (is_told, is_on_log) = journal(volume)?;
    if log.changes() != changes || log.is_changing.get() {
        return None;
    }
    if log.standing.get() == Standing::InUse {
        let back = on.came_back.borrow();
        let now = &*log.serving.borrow() | &*back;
        let before = on.has_it.take();
        // Until all that was promised before this process is on the drives, only those that had it then have it.
        let is_older = on.may_restore.get() && !before.is_empty();
        on.has_it.replace(if is_older { &(&before | &*back) & &now } else { now });
    }
    on.is_unfinished.set(false);
    let was_on_log = on.is_told.replace(is_on_log);
    on.tells_all.set(is_told);
    if is_told && !is_on_log {
        // The journal is on the members. What a cache's hosts had flushed may be on the log that it was on before: the label names that until
        // all of it is on the drives, and no flush is answered before (`controller::data_log`, how it ends).
        if was_on_log && scene.setup.has_cache() {
            on.may_restore.set(true);
        }
        on.may_wait.set(on.may_restore.get());
    } else if log.standing.get() != Standing::None {
        on.may_wait.set(true);
    }
    let is_covered = on.judge_cover(is_told, is_on_log);
    if is_covered {
        on.is_lost.set(false);
    }
    Some((is_covered, is_told))
}

/// Something happened to a log device: nobody relies on it any more in this process. `is_silent`: it does not answer, and keeps what it has.
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

/// A machine of this setup has log devices: they are known from the beginning.
pub(crate) fn names(setup: &Setup) -> Vec<String> {
    setup.log.as_ref().map(|log| log.names()).unwrap_or_default()
}
