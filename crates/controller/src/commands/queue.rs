//! Receives commands: queries are answered at once, changes run one at a time.

use super::audit::Unanswered;
use super::{COMMANDS_WAITING, Commands, Phase};
use crate::arrays::array::Array;
use crate::commands::handle::{Asked, Request};
use crate::interface::{
    Caller, Command, Error, ErrorKind, Reply, ReshapeVolume, Result, SetPolicy,
};
use crate::inventory::Drive;
use crate::lifecycle::{OfDrive, OfVolume, TakeOut};
use crate::signals::wait_or;
use ondisk::Cause;
use platform::mailbox;
use std::rc::Rc;
use std::time::Duration;
use units::counted;

/// How long a command waits while drives are opened; replies are due within three seconds.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// A command, and a change in the queue.
pub(super) struct Change {
    command: Command,
    caller: Option<Caller>,
    asked: Unanswered,
    /// Drives probed for it. Those that it does not register are closed afterwards.
    looked: Vec<Rc<Drive>>,
}

impl Commands {
    pub(super) async fn take_commands(self: Rc<Self>, mut receiver: mailbox::Receiver<Request>) {
        while let Some(request) = receiver.receive().await {
            self.take(request);
        }
    }

    fn take(self: &Rc<Self>, Request { asked, answer }: Request) {
        match asked {
            _ if self.stopping.get() => answer(Err(stopping())),
            Asked::Command(command, caller) => {
                let asked = self.asked(&command, caller.as_ref(), answer);
                let change = Change { command: *command, caller, asked, looked: Vec::new() };
                match self.phase.get() {
                    Phase::Opening if !change.command.is_for_a_start() => self.hold(change),
                    _ => self.carry_out(change),
                }
            }
            Asked::When(phase) if phase > self.phase.get() => {
                self.until.borrow_mut().push((phase, answer))
            }
            Asked::When(_) => answer(Ok(Reply::Done { notes: Vec::new() })),
        }
    }

    /// Holds a command that arrives while drives are opened; it is refused if that takes too long.
    fn hold(self: &Rc<Self>, change: Change) {
        if self.preparing.get() >= COMMANDS_WAITING {
            return self.refuse(change, self.starting());
        }
        self.preparing.set(self.preparing.get() + 1);
        let this = self.clone();
        self.env.spawn("command at a start", async move {
            let is_over = || this.phase.get() > Phase::Opening || this.stopping.get();
            let until = this.env.now() + START_PATIENCE;
            let has_begun = wait_or(&this.env, &this.change_waiting, is_over, until).await;
            this.preparing.set(this.preparing.get() - 1);
            match (this.stopping.get(), has_begun) {
                (true, _) => this.refuse(change, stopping()),
                (false, true) => this.carry_out(change),
                (false, false) => this.refuse(change, this.starting()),
            }
        });
    }

    /// Refuses a command.
    fn refuse(self: &Rc<Self>, change: Change, why: Error) {
        self.end_apart(change.asked, false, Err(why));
    }

    fn carry_out(self: &Rc<Self>, change: Change) {
        if change.command.waits_for_others() {
            // It may wait for drives or the kernel; nothing else waits for it.
            let this = self.clone();
            self.env.spawn("command apart", async move {
                let Change { command, caller, asked, .. } = change;
                this.begin(&asked).await;
                let (reply, told) =
                    this.events.doing_all(caller.as_ref(), this.apart(command)).await;
                this.end(asked, told, reply).await;
            });
            return;
        }
        let answer = || self.answer_question(&change.command);
        match self.events.doing(change.caller.as_ref(), answer).0 {
            Some(reply) => self.end_apart(change.asked, false, reply),
            None if self.changes.borrow().len() + self.preparing.get() >= COMMANDS_WAITING => {
                let sentence = "too many commands are waiting; try again later";
                self.refuse(change, Error::new(ErrorKind::Busy, sentence));
            }
            None => {
                if matches!(change.command, Command::Shutdown {}) {
                    // An earlier change may wait for a drive.
                    self.arrays.wait_no_longer();
                }
                self.prepare(change);
            }
        }
    }

    /// Queues a change. Its drives are probed first: a drive that does not respond delays only this
    /// change.
    fn prepare(self: &Rc<Self>, mut change: Change) {
        let looks = self.lifecycle.drives_to_look_at(&change.command);
        change.looked.clone_from(&looks);
        if looks.is_empty() {
            return self.queue(change);
        }
        self.preparing.set(self.preparing.get() + 1);
        let this = self.clone();
        self.env.spawn("look before a command", async move {
            this.inventory.look_at(looks).await;
            this.preparing.set(this.preparing.get() - 1);
            match this.stopping.get() {
                true => this.refuse(change, stopping()),
                false => this.queue(change),
            }
        });
    }

    fn queue(&self, change: Change) {
        self.changes.borrow_mut().push_back(change);
        self.change_waiting.notify(&self.env);
    }

    /// The error that the controller is not started yet.
    fn starting(&self) -> Error {
        let (drives, awaited) = (self.inventory.drives().len(), self.inventory.awaited().len());
        let sentence = format!(
            "the controller is starting: {} of {} have responded; try again in a moment",
            drives - awaited,
            counted(drives, "drive")
        );
        Error::new(ErrorKind::Busy, sentence)
    }

    fn show_volume(&self, volume: &str) -> Result<Reply> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        Ok(self.volume_reply(&array, &volume, Vec::new()))
    }

    fn show_task(&self, task: u64) -> Result<Reply> {
        self.tasks.find_task(task).map(|task| self.tasks.task_reply(&task, Vec::new()))
    }

    fn list_events(&self, last: Option<usize>, about: Option<&str>) -> Result<Reply> {
        Ok(Reply::Events { events: self.events.list(last, about) })
    }

    fn logs_reply(&self) -> Reply {
        Reply::Logs { logs: self.lifecycle.log_infos(), notes: Vec::new() }
    }

    /// Answers a command that needs no drive; `None` for other commands.
    fn answer_question(&self, command: &Command) -> Option<Result<Reply>> {
        Some(match command {
            Command::DriveList {} => Ok(Reply::Drives { drives: self.drive_infos() }),
            Command::DriveShow { drive } => self.show_drive(drive),
            Command::VolumeList {} => Ok(Reply::Volumes { volumes: self.volume_infos() }),
            Command::VolumeShow { volume } => self.show_volume(volume),
            Command::SpareList {} => Ok(self.reconciler.spares_reply()),
            Command::LogList {} => Ok(self.logs_reply()),
            Command::TaskList {} => Ok(Reply::Tasks { tasks: self.tasks.infos() }),
            Command::TaskShow { task } => self.show_task(*task),
            Command::ScheduleList {} => Ok(Reply::Schedules { schedules: self.tasks.schedules() }),
            Command::EventsList { last, about } => self.list_events(*last, about.as_deref()),
            Command::AuditList { last } => Ok(Reply::Audit { orders: self.audit.list(*last) }),
            Command::Explain(explain) => self.explain(explain),
            Command::Info {} => Ok(Reply::Info { info: Box::new(self.info()) }),
            Command::Health {} => Ok(Reply::Health { health: self.health_report() }),
            Command::AlarmShow {} => Ok(Reply::Alarm { alarm: self.events.alarm() }),
            Command::DiskList {} => Ok(Reply::Disks { disks: self.attached.all() }),
            Command::Metrics {} => Ok(Reply::Metrics { metrics: Box::new(self.metrics()) }),
            Command::Counters {} => Ok(Reply::Counters { counters: Box::new(self.counters()) }),
            Command::DriveAdd { .. }
            | Command::DriveFail { .. }
            | Command::DriveOffline { .. }
            | Command::DriveOnline { .. }
            | Command::DriveSuspend { .. }
            | Command::DriveResume { .. }
            | Command::DriveClearFailed { .. }
            | Command::DriveReplace { .. }
            | Command::DriveRescan { .. }
            | Command::DriveForget { .. }
            | Command::AlarmSet { .. }
            | Command::VolumeCreate(_)
            | Command::VolumeSet { .. }
            | Command::VolumeDelete { .. }
            | Command::VolumeForget { .. }
            | Command::VolumeStart { .. }
            | Command::VolumePolicy(_)
            | Command::VolumeFlush { .. }
            | Command::VolumeReshape(_)
            | Command::DriveLocate { .. }
            | Command::VolumeAttach { .. }
            | Command::VolumeDetach { .. }
            | Command::LogDiscard(_)
            | Command::CacheList {}
            | Command::CacheRemove { .. }
            | Command::LogAdd { .. }
            | Command::LogRemove { .. }
            | Command::TaskStart(_)
            | Command::TaskPause { .. }
            | Command::TaskResume { .. }
            | Command::TaskStop { .. }
            | Command::TaskSet(_)
            | Command::TaskSchedule(_)
            | Command::ForeignList {}
            | Command::ForeignImport { .. }
            | Command::ForeignClear { .. }
            | Command::SpareAdd(_)
            | Command::SpareRemove { .. }
            | Command::NumbersSet(_)
            | Command::Shutdown {} => return None,
        })
    }

    pub(super) async fn make_changes(self: Rc<Self>) {
        while !self.stopping.get() {
            let waiting = || !self.changes.borrow().is_empty();
            self.change_waiting.wait_until(&self.env, waiting).await;
            let next = self.changes.borrow_mut().pop_front();
            if let Some(change) = next {
                self.make_change(change).await;
            }
        }
        for change in self.changes.take() {
            self.refuse(change, stopping());
        }
        for (_, answer) in self.until.take() {
            answer(Err(stopping()));
        }
    }

    async fn make_change(self: &Rc<Self>, Change { command, caller, asked, looked }: Change) {
        self.begin(&asked).await;
        let turn = self.reconciler.turn().take(1).await;
        let (reply, told) = self.events.doing_all(caller.as_ref(), self.change(command)).await;
        if asked.is_order() {
            self.number().await;
        }
        self.inventory.let_untaken_go(&looked);
        // Nothing else waits until the state folder has recorded this.
        drop(turn);
        self.end(asked, told, reply).await;
        self.attention.look_after();
    }

    async fn change(self: &Rc<Self>, command: Command) -> Result<Reply> {
        self.check_on_its_way(&command)?;
        match command {
            Command::VolumeCreate(create) => {
                self.volume_changed(self.lifecycle.create_volume(create).await).await
            }
            Command::VolumeSet { volume, name } => {
                self.volume_changed(self.lifecycle.rename_volume(&volume, &name).await).await
            }
            Command::VolumeForget { volume } => done(self.lifecycle.forget_volume(&volume).await),
            Command::VolumeDelete { volume, disconnect_hosts } => {
                let uuid = self.arrays.find_volume(&volume)?.1.uuid();
                let notes = self.lifecycle.delete_volume(&volume, disconnect_hosts).await?;
                self.tasks.forget_volume(uuid);
                Ok(Reply::Done { notes })
            }
            Command::TaskStart(start) if start.what.is_init() => {
                self.tasks.start_init(&start).await
            }
            Command::VolumeStart { volume, accept_stale_parity, degraded } => {
                self.volume_changed(
                    self.lifecycle.start_volume(&volume, accept_stale_parity, degraded).await,
                )
                .await
            }
            Command::VolumePolicy(set) => self.set_policy(set).await,
            Command::VolumeReshape(order) => self.reshape(&order).await,
            Command::LogDiscard(order) => {
                self.volume_changed(self.arrays.discard_log(&order).await).await
            }
            Command::LogAdd { drives, destroy_data, same_disk_ok } => {
                let notes = self.lifecycle.add_log(&drives, destroy_data, same_disk_ok).await?;
                Ok(Reply::Logs { logs: self.lifecycle.log_infos(), notes })
            }
            Command::LogRemove { drive } => done(self.lifecycle.remove_log(&drive).await),
            Command::ForeignImport { volume, name } => {
                self.imported(self.foreign.import(&volume, name).await).await
            }
            Command::ForeignClear { drives } => self.foreign.clear_foreign(&drives).await,
            Command::SpareAdd(add) => self.reconciler.add_spare(add).await,
            Command::SpareRemove { drive } => self.reconciler.remove_spare(&drive).await,
            Command::Shutdown {} => {
                let notes = self.shut_down().await;
                self.stopping.set(true);
                Ok(Reply::Done { notes })
            }
            other => self.change_drive(other).await,
        }
    }

    /// Changes of drives, and commands with their own reply.
    async fn change_drive(self: &Rc<Self>, command: Command) -> Result<Reply> {
        match command {
            Command::DriveAdd { drive, size_bytes } => {
                let (drive, notes) = self.lifecycle.add_drive(&drive, size_bytes).await?;
                self.number().await;
                Ok(self.drive_reply(&drive, notes))
            }
            Command::DriveFail { drive, accept_data_loss, accepted, dry_run } => {
                self.take_out(TakeOut {
                    drive,
                    cause: Cause::Operator,
                    accept_data_loss,
                    accepted,
                    dry_run,
                })
                .await
            }
            Command::DriveOffline { drive, accept_data_loss, accepted, dry_run } => {
                self.take_out(TakeOut {
                    drive,
                    cause: Cause::Offline,
                    accept_data_loss,
                    accepted,
                    dry_run,
                })
                .await
            }
            Command::DriveSuspend { drive, accepted, dry_run } => {
                let cause = Cause::OperatorSuspended;
                self.take_out(TakeOut { drive, cause, accept_data_loss: false, accepted, dry_run })
                    .await
            }
            Command::DriveResume { drive } => {
                self.drive_changed(self.lifecycle.resume_drive(&drive).await).await
            }
            Command::DriveOnline { drive } => {
                self.drive_changed(self.lifecycle.take_in_again(&drive).await).await
            }
            Command::DriveClearFailed { drive } => {
                self.drive_changed(self.lifecycle.clear_failed(&drive).await).await
            }
            Command::DriveReplace { drive, with, destroy_data } => {
                self.drive_changed(self.lifecycle.replace_drive(&drive, &with, destroy_data).await)
                    .await
            }
            Command::DriveRescan { drive, was_bytes } => {
                self.drive_changed(self.lifecycle.rescan_drive(&drive, was_bytes).await).await
            }
            Command::DriveForget { drive } => done(self.lifecycle.forget_drive(&drive).await),
            Command::NumbersSet(set) => done(self.set_numbers(&set).await),
            question => self.answer_question(&question).unwrap_or_else(|| Err(stopping())),
        }
    }

    /// Commands that wait for drives, the kernel or the state folder only.
    async fn apart(self: &Rc<Self>, command: Command) -> Result<Reply> {
        match command {
            Command::AlarmSet { to } => {
                Ok(Reply::Alarm { alarm: self.events.set_alarm(to).await? })
            }
            Command::VolumeFlush { volume } => {
                self.of_volume(self.arrays.flush_volume(&volume).await)
            }
            Command::ForeignList {} => Ok(self.foreign.list_foreign().await),
            Command::CacheList {} => {
                Ok(Reply::Memories { memories: self.arrays.other_memories().await? })
            }
            Command::CacheRemove { memory } => done(self.arrays.remove_memory(&memory).await),
            Command::DriveLocate { drive, on } => {
                let drive = self.arrays.find_drive(&drive)?;
                self.inventory.locate(&drive, on).await?;
                Ok(self.drive_reply(&drive, Vec::new()))
            }
            Command::TaskStart(start) => self.tasks.stored(|| self.tasks.start_task(&start)).await,
            Command::TaskPause { task } => {
                self.tasks.stored_after(|| self.tasks.pause_task(task)).await
            }
            Command::TaskResume { task } => {
                self.tasks.stored(|| self.tasks.resume_task(task)).await
            }
            Command::TaskStop { task } => {
                self.tasks.stored_after(|| self.tasks.stop_task(task)).await
            }
            Command::TaskSet(set) => self.tasks.stored(|| self.tasks.set_task(&set)).await,
            Command::TaskSchedule(set) => self.tasks.set_schedule(&set).await,
            Command::VolumeAttach { volume, read_only, by } => {
                self.attach(&volume, read_only, by).await
            }
            Command::VolumeDetach { volume, force } => self.detach(&volume, force).await,
            other => self.change(other).await,
        }
    }

    async fn take_out(self: &Rc<Self>, order: TakeOut) -> Result<Reply> {
        let (drive, notes, taking_out) = self.lifecycle.take_out(&order).await?;
        let mut reply = self.drive_changed(Ok((drive, notes))).await?;
        if let Reply::Drive { costs, .. } = &mut reply {
            *costs = taking_out;
        }
        Ok(reply)
    }

    /// `volume expand`, `volume migrate`.
    async fn reshape(&self, order: &ReshapeVolume) -> Result<Reply> {
        if !order.dry_run {
            self.check_disk_stays(order)?;
        }
        let (array, volume, info, mut notes) = self.lifecycle.reshape_volume(order).await?;
        if !order.dry_run {
            self.tasks.ensure_reshapes(&array, "an operator asked for it");
            notes.extend(self.note_of_disk(&volume));
        }
        Ok(Reply::Reshape { reshape: Box::new(info), notes })
    }

    /// `volume set`, except its name.
    async fn set_policy(&self, set: SetPolicy) -> Result<Reply> {
        self.check_attach(&set)?;
        let is_wish = set.attach.is_some();
        let set = self.policies.set_policy(set).await;
        if is_wish {
            self.look_at_disks().await;
        }
        self.volume_changed(set).await
    }

    /// The reply to a change of a drive, with its new numbers.
    async fn drive_changed(&self, of: Result<OfDrive>) -> Result<Reply> {
        let (drive, notes) = of?;
        self.number().await;
        Ok(self.drive_reply(&drive, notes))
    }

    /// The same for a volume.
    async fn volume_changed(&self, of: Result<OfVolume>) -> Result<Reply> {
        let of = of?;
        self.number().await;
        self.of_volume(Ok(of))
    }

    fn of_volume(&self, of: Result<OfVolume>) -> Result<Reply> {
        of.map(|(array, volume, notes)| self.volume_reply(&array, &volume, notes))
    }

    async fn imported(&self, of: Result<(Rc<Array>, Vec<String>)>) -> Result<Reply> {
        let (array, notes) = of?;
        self.number().await;
        let volumes =
            array.known_volumes().iter().map(|volume| self.volume_info(&array, volume)).collect();
        Ok(Reply::Imported { volumes, notes })
    }
}

fn done(notes: Result<Vec<String>>) -> Result<Reply> {
    notes.map(|notes| Reply::Done { notes })
}

fn stopping() -> Error {
    Error::new(
        ErrorKind::Stopping,
        "the controller is shutting down; start it again for further commands",
    )
}
