//! Commands taken and answered: questions at once, changes one after the other.

use super::audit::Order;
use super::{COMMANDS_WAITING, Commands};
use crate::arrays::array::Array;
use crate::commands::handle::{Answer, Request};
use crate::events::EventCode;
use crate::interface::{Caller, Command, Error, ErrorKind, Reply, ReshapeVolume, Result, SetPolicy};
use crate::lifecycle::{OfDrive, OfVolume, TakeOut};
use env::mailbox;
use ondisk::Cause;
use std::rc::Rc;

/// What waits for its turn.
pub(super) struct Change {
    command: Command,
    caller: Option<Caller>,
    asked: Asked,
}

/// How it is answered.
enum Asked {
    /// A question, at once.
    Question(Answer),
    /// An order, when it is recorded.
    Order(Order),
}

impl Commands {
    pub(super) async fn take_commands(self: Rc<Self>, mut receiver: mailbox::Receiver<Request>) {
        while let Some(Request { command, caller, answer }) = receiver.receive().await {
            // Stopping is always possible.
            let may_be_recorded = self.audit.check().or_else(|error| match command {
                Command::Shutdown {} => Ok(()),
                _ => Err(error),
            });
            match may_be_recorded {
                _ if self.stopping.get() => answer(Err(stopping())),
                _ if command.only_looks() => self.take_question(command, answer),
                Err(error) => answer(Err(error)),
                Ok(()) => self.take_order(command, caller, answer),
            }
        }
    }

    fn take_question(self: &Rc<Self>, command: Command, answer: Answer) {
        if command.waits_for_others() {
            let this = self.clone();
            self.env.spawn("question apart", async move { answer(this.apart(command).await) });
            return;
        }
        match self.answer_question(&command) {
            Some(reply) => answer(reply),
            None if self.changes.borrow().len() >= COMMANDS_WAITING => answer(Err(too_many())),
            None => self.wait_for_turn(Change { command, caller: None, asked: Asked::Question(answer) }),
        }
    }

    fn take_order(self: &Rc<Self>, command: Command, caller: Option<Caller>, answer: Answer) {
        let order = self.order(&command, caller.as_ref(), answer);
        if command.waits_for_others() {
            // It takes as long as drives or the kernel take; nothing else has to wait for it.
            let this = self.clone();
            self.env.spawn("order apart", async move {
                this.begin(&order).await;
                let (reply, told) = this.events.doing_all(caller.as_ref(), this.apart(command)).await;
                this.end(order, told, reply).await;
            });
            return;
        }
        let (reply, told) = self.events.doing(caller.as_ref(), || self.answer_question(&command));
        match reply {
            Some(reply) => self.end_apart(order, told, reply),
            None if self.changes.borrow().len() >= COMMANDS_WAITING => {
                self.end_apart(order, false, Err(too_many()));
            }
            None => {
                if matches!(command, Command::Shutdown {}) {
                    // A change before it may wait for a drive.
                    self.arrays.wait_no_longer();
                }
                self.wait_for_turn(Change { command, caller, asked: Asked::Order(order) });
            }
        }
    }

    fn wait_for_turn(&self, change: Change) {
        self.changes.borrow_mut().push_back(change);
        self.change_waiting.notify(&self.env);
    }

    fn show_volume(&self, volume: &str) -> Result<Reply> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        Ok(self.volume_reply(&array, &volume, Vec::new()))
    }

    fn show_task(&self, task: u64) -> Result<Reply> {
        self.tasks.find_task(task).map(|task| self.tasks.task_reply(&task, Vec::new()))
    }

    fn history(&self, last: Option<usize>, about: Option<&str>) -> Reply {
        Reply::Events { events: self.events.list(last, about) }
    }

    /// Answers a command that waits for no drive; `None` for one that does.
    fn answer_question(&self, command: &Command) -> Option<Result<Reply>> {
        Some(match command {
            Command::DriveList {} => Ok(Reply::Drives { drives: self.drive_infos() }),
            Command::DriveShow { drive } => self.show_drive(drive),
            Command::VolumeList {} => Ok(Reply::Volumes { volumes: self.volume_infos() }),
            Command::VolumeShow { volume } => self.show_volume(volume),
            Command::SpareList {} => Ok(self.reconciler.spares_reply()),
            Command::LogList {} => Ok(Reply::Logs { logs: self.lifecycle.log_infos(), notes: Vec::new() }),
            Command::TaskList {} => Ok(Reply::Tasks { tasks: self.tasks.infos() }),
            Command::TaskShow { task } => self.show_task(*task),
            Command::TaskStart(start) if !start.what.is_init() => self.tasks.start_task(start),
            Command::TaskPause { task } => self.tasks.pause_task(*task),
            Command::TaskResume { task } => self.tasks.resume_task(*task),
            Command::TaskStop { task } => self.tasks.stop_task(*task),
            Command::TaskSet(set) => self.tasks.set_task(set),
            Command::ScheduleList {} => Ok(Reply::Schedules { schedules: self.tasks.schedules() }),
            Command::TaskSchedule(set) => self.tasks.set_schedule(set),
            Command::EventsList { last, about } => Ok(self.history(*last, about.as_deref())),
            Command::AuditList { last } => Ok(Reply::Audit { orders: self.audit.list(*last) }),
            Command::Explain(explain) => self.explain(explain),
            Command::Info {} => Ok(Reply::Info { info: self.info() }),
            Command::Health {} => Ok(Reply::Health { health: self.health_report() }),
            Command::AlarmShow {} => Ok(Reply::Alarm { alarm: self.events.alarm() }),
            Command::DiskList {} => Ok(Reply::Disks { disks: self.attached.all() }),
            Command::Metrics {} => Ok(Reply::Metrics { metrics: Box::new(self.metrics()) }),
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
            | Command::ForeignList {}
            | Command::ForeignImport { .. }
            | Command::ForeignClear { .. }
            | Command::SpareAdd(_)
            | Command::SpareRemove { .. }
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
        for Change { asked, .. } in self.changes.take() {
            match asked {
                Asked::Question(answer) => answer(Err(stopping())),
                Asked::Order(order) => self.end(order, false, Err(stopping())).await,
            }
        }
    }

    async fn make_change(self: &Rc<Self>, Change { command, caller, asked }: Change) {
        if let Asked::Order(order) = &asked {
            self.begin(order).await;
        }
        let turn = self.reconciler.turn().take(1).await;
        let (reply, told) = self.events.doing_all(caller.as_ref(), self.change(command)).await;
        match asked {
            Asked::Question(answer) => answer(reply),
            Asked::Order(order) => {
                self.number().await;
                drop(turn);
                self.end(order, told, reply).await;
            }
        }
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
            Command::VolumeForget { volume } => done(self.lifecycle.forget_volume(&volume)),
            Command::VolumeDelete { volume, disconnect_hosts } => {
                done(self.lifecycle.delete_volume(&volume, disconnect_hosts).await)
            }
            Command::TaskStart(start) if start.what.is_init() => self.tasks.start_init(&start).await,
            Command::VolumeStart { volume, accept_stale_parity, degraded } => {
                self.volume_changed(self.lifecycle.start_volume(&volume, accept_stale_parity, degraded).await)
                    .await
            }
            Command::VolumePolicy(set) => self.set_policy(set).await,
            Command::VolumeReshape(order) => self.reshape(&order).await,
            Command::LogDiscard(order) => self.volume_changed(self.arrays.discard_log(&order).await).await,
            Command::LogAdd { drives, destroy_data, same_disk_ok } => {
                let notes = self.lifecycle.add_log(&drives, destroy_data, same_disk_ok).await?;
                Ok(Reply::Logs { logs: self.lifecycle.log_infos(), notes })
            }
            Command::LogRemove { drive } => done(self.lifecycle.remove_log(&drive).await),
            Command::ForeignList {} => Ok(self.foreign.list_foreign().await),
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

    /// What changes drives, and what is answered by itself.
    async fn change_drive(self: &Rc<Self>, command: Command) -> Result<Reply> {
        match command {
            Command::DriveAdd { drive, size_bytes } => {
                let (drive, notes) = self.lifecycle.add_drive(&drive, size_bytes).await?;
                self.number().await;
                Ok(self.drive_reply(&drive, notes))
            }
            Command::DriveFail { drive, accept_data_loss, accepted, dry_run } => {
                self.take_out(TakeOut { drive, cause: Cause::Operator, accept_data_loss, accepted, dry_run })
                    .await
            }
            Command::DriveOffline { drive, accept_data_loss, accepted, dry_run } => {
                self.take_out(TakeOut { drive, cause: Cause::Offline, accept_data_loss, accepted, dry_run })
                    .await
            }
            Command::DriveSuspend { drive, accepted, dry_run } => {
                let cause = Cause::OperatorSuspended;
                self.take_out(TakeOut { drive, cause, accept_data_loss: false, accepted, dry_run }).await
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
                self.drive_changed(self.lifecycle.replace_drive(&drive, &with, destroy_data).await).await
            }
            Command::DriveRescan { drive, was_bytes } => {
                self.drive_changed(self.lifecycle.rescan_drive(&drive, was_bytes).await).await
            }
            Command::DriveForget { drive } => done(self.lifecycle.forget_drive(&drive).await),
            question => self.answer_question(&question).unwrap_or_else(|| Err(stopping())),
        }
    }

    /// What waits for drives, the kernel or the state folder alone.
    async fn apart(self: &Rc<Self>, command: Command) -> Result<Reply> {
        match command {
            Command::AlarmSet { to } => Ok(Reply::Alarm { alarm: self.events.set_alarm(to).await? }),
            Command::VolumeFlush { volume } => self.of_volume(self.arrays.flush_volume(&volume).await),
            Command::CacheList {} => Ok(Reply::Memories { memories: self.arrays.other_memories().await? }),
            Command::CacheRemove { memory } => done(self.arrays.remove_memory(&memory).await),
            Command::DriveLocate { drive, on } => {
                let drive = self.arrays.find_drive(&drive)?;
                self.inventory.locate(&drive, on).await?;
                Ok(self.drive_reply(&drive, Vec::new()))
            }
            Command::VolumeAttach { volume, read_only, by } => self.attach(&volume, read_only, by).await,
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

    /// `volume set`, but for its name.
    async fn set_policy(&self, set: SetPolicy) -> Result<Reply> {
        self.check_attach(&set)?;
        let is_wish = set.attach.is_some();
        let set = self.policies.set_policy(set).await;
        if is_wish {
            self.look_at_disks().await;
        }
        self.volume_changed(set).await
    }

    /// The reply of a change of a drive, with the numbers that were given meanwhile.
    async fn drive_changed(&self, of: Result<OfDrive>) -> Result<Reply> {
        let (drive, notes) = of?;
        self.number().await;
        Ok(self.drive_reply(&drive, notes))
    }

    /// The same of a volume.
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
        let volumes = array.known_volumes().iter().map(|volume| self.volume_info(&array, volume)).collect();
        Ok(Reply::Imported { volumes, notes })
    }

    /// `shutdown`: everything is stopped in order. Notes, a sentence each.
    async fn shut_down(&self) -> Vec<String> {
        self.tasks.close().await;
        self.lifecycle.remember_arrays().await;
        self.inventory.store_seen().await;
        let notes = self.lifecycle.stop_all().await;
        self.arrays.close_memory().await;
        self.audit.record_refusals();
        self.events.report_repeats_now();
        let text = "the controller was shut down".to_owned();
        self.events.report(
            EventCode::ControllerStopped,
            "controller",
            "shutdown",
            "no volume is served",
            text,
        );
        self.events.close().await;
        self.inventory.close();
        notes
    }
}

fn done(notes: Result<Vec<String>>) -> Result<Reply> {
    notes.map(|notes| Reply::Done { notes })
}

fn too_many() -> Error {
    Error::new(ErrorKind::Busy, "too many commands are waiting; try again later")
}

fn stopping() -> Error {
    Error::new(ErrorKind::Stopping, "the controller is shutting down; start it again for further commands")
}
