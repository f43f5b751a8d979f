//! Probes: open a drive and read its label, with a deadline.
//!
//! A drive may hang in `open()`, in a read or in a flush, for any time. A probe is a separate task,
//! so only this task hangs. A caller waits for the probe until a deadline; then the drive has a
//! problem ("it does not answer"), and the caller continues.
//!
//! # Invariants
//! - A drive has at most one probe. A caller joins a running probe instead of starting another one.
//!   A hanging drive therefore costs one task, and one thread if the system's `open()` hangs.
//! - A probe does not change the drive's state. Its result is applied in one step
//!   ([`Drive::look_within`] and the end of the probe), and only if the drive's *epoch* is
//!   unchanged since the probe began. SoftROC raises the epoch when it writes metadata to the drive
//!   ([`Access::write`]), when it closes the drive, and when an array takes it into use. An older
//!   result is dropped, and the opened handle is closed.
//! - A result after the deadline is applied as well, and the reconciler is notified
//!   ([`Drive::take_late`]): a drive with a long spin-up is found without another command.
//! - No caller waits twice for a silent drive: the deadline counts from the beginning of the probe.
//!
//! # Fault model
//! Any operation of a probe may take for ever, fail, or return after the drive was written, closed,
//! or used by an array.

use super::access::{Access, LabelSeen};
use super::drive::{Drive, unavailable};
use super::grown::Ending;
use super::structures::Written;
use crate::interface::{Error, ErrorKind, ForeignArray};
use crate::signals::wait_or;
use ondisk::Undo;
use platform::sync::Signal;
use platform::{DriveKind, Env, Instant, IoError, IoErrorKind, Traffic};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// How long a command waits for a drive that it probes; replies are due within three seconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(2);

/// How long a start waits for a local drive: a hard disk takes up to 30 s to spin up.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The same for a network drive.
const START_LIMIT_REMOTE: Duration = Duration::from_secs(10);

/// The typical response time of a drive that is ready.
pub(super) const USUAL: Duration = Duration::from_millis(50);

/// How long a start waits for a drive of that name.
pub(super) fn start_limit(spec: &str) -> Duration {
    if spec.contains("://") { START_LIMIT_REMOTE } else { START_LIMIT }
}

/// A running probe, or one that has just ended.
pub(super) struct Probe {
    began: Instant,
    /// The epoch of the drive when it began.
    epoch: u64,
    /// Set at the end: whether the result was applied.
    outcome: Cell<Option<bool>>,
    over: Signal,
    /// Whether a caller has continued without the result.
    is_late: Cell<bool>,
}

impl Probe {
    /// Waits for the end, until a time that counts while the process runs. Returns whether the
    /// result was applied; `None`: it is still running.
    async fn outcome(&self, env: &Env, until: Instant) -> Option<bool> {
        while self.outcome.get().is_none() && env.now_running() < until {
            let left = until - env.now_running();
            wait_or(env, &self.over, || self.outcome.get().is_some(), env.now() + left).await;
        }
        self.outcome.get()
    }
}

/// The state of the drive that a probe needs, as of its beginning.
struct Question {
    env: Env,
    name: String,
    spec: String,
    traffic: Traffic,
    epoch: Rc<Cell<u64>>,
    held: Option<Access>,
    ending: Ending,
}

/// The result of a probe.
enum Found {
    /// The drive cannot be opened, or its label area cannot be read.
    Unusable(Error),
    /// The drive is open; the content of its label area.
    Label(Box<Label>),
}

struct Label {
    /// The new handles of the drive, if they changed: the one in use, and the whole drive if that
    /// is larger.
    ways: Option<(Access, Option<Access>)>,
    /// The kind of the drive, if the probe opened it.
    opened: Option<DriveKind>,
    label: LabelSeen,
    /// The array of another system that the drive belongs to.
    foreign: Option<ForeignArray>,
    undo: Option<Rc<Undo>>,
    /// Whether the earlier end of the drive could not be read.
    is_unread: bool,
}

impl Question {
    async fn open(&self) -> Result<Access, Error> {
        let opened =
            Access::open(&self.env, &self.spec, self.traffic.clone(), self.epoch.clone()).await;
        opened.map_err(|error| unavailable(&self.name, &error))
    }

    /// The open handle, which is not in use; `None` if the drive's name now refers to another file
    /// or device.
    async fn held_still(&self) -> Option<Access> {
        let held = self.held.clone()?;
        let changed =
            held.source.look().await.is_err_and(|error| error.kind == IoErrorKind::Changed);
        (!changed).then_some(held)
    }

    async fn ask(self) -> Found {
        self.look().await.unwrap_or_else(Found::Unusable)
    }

    async fn look(&self) -> Result<Found, Error> {
        let held = self.held_still().await;
        let mut opened = held.is_none();
        let mut access = match held {
            Some(access) => access,
            None => self.open().await?,
        };
        let mut read = access.read_label().await;
        if !opened && read.as_ref().is_err_and(|error| error.kind == IoErrorKind::Gone) {
            // The open connection or file ended when the drive went away. The drive may be back.
            access = self.open().await?;
            opened = true;
            read = access.read_label().await;
        }
        let kind = opened.then(|| access.info().kind);
        let settled = self.ending.settle(&self.env, access.clone(), read).await;
        let settled = settled.map_err(|(error, what_helps)| {
            let sentence = format!(
                "drive {} cannot be flushed, or read where its label would be ({error}); \
                    {what_helps}",
                self.name
            );
            Error::new(ErrorKind::Unavailable, sentence)
        })?;
        let has_structure = !matches!(settled.label, LabelSeen::Blank | LabelSeen::Bad(_));
        // The journals of a log device may resemble an undo log.
        let undo = match &settled.label {
            LabelSeen::Log(_) => None,
            _ => settled.access.read_undo(has_structure).await.map(Rc::new),
        };
        let foreign = settled.access.foreign_array(&settled.label).await;
        let is_as_before = !opened && settled.whole.is_none();
        let ways = (!is_as_before).then_some((settled.access, settled.whole));
        let (label, is_unread) = (settled.label, settled.is_unread);
        Ok(Found::Label(Box::new(Label { ways, opened: kind, label, foreign, undo, is_unread })))
    }
}

impl Drive {
    /// Opens the drive if it is closed, and reads its label: for a command.
    pub(crate) async fn look(self: &Rc<Self>, env: &Env) {
        self.look_within(env, COMMAND_LIMIT).await;
    }

    /// The same, with a deadline. Nothing is read while an earlier write may still land. After a
    /// failure, the [problem](Drive::problem) of the drive gives the reason.
    pub(crate) async fn look_within(self: &Rc<Self>, env: &Env, limit: Duration) {
        let deadline = env.now_running() + limit;
        if !self.is_quiesced(env).await {
            // A draining drive sets its own problem.
            if !self.is_draining() {
                self.set_problem(Some(self.not_quiesced()));
            }
            return;
        }
        loop {
            let probe = self.begin_probe(env);
            let until = deadline.min(probe.began + limit);
            match probe.outcome(env, until).await {
                Some(true) => return,
                // The result was dropped: the drive was written or closed meanwhile.
                Some(false) if env.now_running() < deadline => {}
                _ => {
                    probe.is_late.set(true);
                    return self.set_problem(Some(self.silent(limit)));
                }
            }
        }
    }

    /// The running probe; a new one if there is none.
    fn begin_probe(self: &Rc<Self>, env: &Env) -> Rc<Probe> {
        if let Some(probe) = &*self.probe.borrow() {
            return probe.clone();
        }
        let probe = Rc::new(Probe {
            began: env.now_running(),
            epoch: self.epoch.get(),
            outcome: Cell::new(None),
            over: Signal::default(),
            is_late: Cell::new(false),
        });
        let question = Question {
            env: env.clone(),
            name: self.name.clone(),
            spec: self.spec.clone(),
            traffic: self.traffic().clone(),
            epoch: self.epoch.clone(),
            held: self.access(),
            ending: self.ending(),
        };
        let (drive, under_way, env_of_probe) = (self.clone(), probe.clone(), env.clone());
        env.spawn("probe", async move {
            let found = question.ask().await;
            drive.end_probe(&env_of_probe, &under_way, found);
        });
        *self.probe.borrow_mut() = Some(probe.clone());
        probe
    }

    /// Applies the result of a probe, unless the drive was written or closed since the probe began.
    fn end_probe(&self, env: &Env, probe: &Rc<Probe>, found: Found) {
        self.probe.replace(None);
        let counts = probe.epoch == self.epoch.get();
        if counts {
            self.take_found(found);
            if probe.is_late.get() {
                self.note_late();
            }
        }
        probe.outcome.set(Some(counts));
        probe.over.notify(env);
    }

    fn take_found(&self, found: Found) {
        let Label { ways, opened, label, foreign, undo, is_unread } = match found {
            Found::Label(label) => *label,
            Found::Unusable(error) => {
                self.switch_to(None, None);
                return self.set_problem(Some(error));
            }
        };
        let second = ways.as_ref().filter(|_| opened.is_some());
        let first = second.and_then(|(access, _)| self.find_first_path(access));
        self.set_first_path(first.clone());
        if let Some(first) = first {
            self.switch_to(None, None);
            let sentence = format!(
                "drive {} is another path to drive {first}, which is open; a second path is not \
                    used",
                self.name
            );
            return self.set_problem(Some(Error::new(ErrorKind::InUse, sentence)));
        }
        if let Some((access, whole)) = ways {
            self.switch_to(Some(&access), whole.as_ref());
        }
        if let Some(kind) = opened {
            self.set_zeroed(matches!(kind, DriveKind::Memory | DriveKind::Null));
        }
        self.is_unread.set(is_unread);
        self.set_problem(self.problem_with(&label, foreign.as_ref()));
        if let Some(access) = self.access()
            && !self.is_ambiguous(&label)
            && !self.is_cut(&label)
            && !is_unread
        {
            self.set_earlier_size(access.info().size);
        }
        self.structure.replace(Written::of(&label));
        self.set_label(label);
        self.set_foreign(foreign);
        self.set_undo(undo);
    }

    /// Waits for further reads of the drive, as long as a command may wait. `None`: the drive has
    /// not responded, as its [problem](Drive::problem) says.
    pub(crate) async fn in_time<T: 'static>(
        self: &Rc<Self>,
        env: &Env,
        work: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let (read, over) = (Rc::new(RefCell::new(None)), Rc::new(Signal::default()));
        let (result, ended, its_env) = (read.clone(), over.clone(), env.clone());
        env.spawn("read of a drive", async move {
            let found = work.await;
            result.replace(Some(found));
            ended.notify(&its_env);
        });
        let until = env.now() + COMMAND_LIMIT;
        wait_or(env, &over, || read.borrow().is_some(), until).await;
        let found = read.take();
        if found.is_none() {
            self.set_problem(Some(self.silent(COMMAND_LIMIT)));
        }
        found
    }

    /// The content of the drive besides its SoftROC label: for the operator, before it is
    /// overwritten.
    ///
    /// # Errors
    /// When its ends cannot be read in time.
    pub(crate) async fn findings(
        self: &Rc<Self>,
        env: &Env,
        carries_label: bool,
    ) -> Result<Vec<String>, IoError> {
        let Some(access) = self.access() else { return Err(IoError::new(IoErrorKind::Gone)) };
        let found = self.in_time(env, async move { access.findings(carries_label).await }).await;
        found.unwrap_or(Err(IoError::new(IoErrorKind::TimedOut)))
    }

    /// Notes a change of the drive that no command processes, for the reconciler.
    pub(crate) fn note_late(&self) {
        self.is_late.set(true);
        self.attention.look_after();
    }

    /// Whether a probe ended after its deadline since the previous call.
    pub(crate) fn take_late(&self) -> bool {
        self.is_late.replace(false)
    }

    /// Whether a probe is running.
    pub(crate) fn is_probed(&self) -> bool {
        self.probe.borrow().is_some()
    }

    /// The error that the drive does not respond.
    fn silent(&self, limit: Duration) -> Error {
        let sentence = format!(
            "drive {} has not responded within {} s; SoftROC keeps waiting and uses it when it \
            responds; check its cable, its server or its path",
            self.name,
            limit.as_secs()
        );
        Error::new(ErrorKind::Unavailable, sentence)
    }
}
