//! The controller's state and its tasks, all on shard 0.
//!
//! | task | does |
//! | --- | --- |
//! | commands | takes commands; answers questions at once, hands changes on |
//! | changes | carries out one change after the other |
//! | reports | takes what shards report, sorts it to the arrays |
//! | keeper, cleaner, recorder | one each per started array: see `keeper.rs`, `clear.rs`, `reports.rs` |
//! | events | stores events |
//! | tender | begins what has to be done: spares, rebuilds, what is due; see `tend.rs` |
//! | health | asks drives for their health; see `guard.rs` |
//! | tasks | stores what is kept of background tasks; each one that goes on is a task here too, see `tasks/run.rs` |
//!
//! State lives in cells; nothing is borrowed over an await. What concerns one array's labels and map is done
//! under its [`metadata`](crate::arrays::array::Array) turn, one after the other.

use crate::arrays::array::Array;
use crate::commands::handle::{Answer, ControllerHandle, Request};
use crate::events::Events;
use crate::inventory::Drive;
use crate::tasks::Tasks;
use crate::{Command, Error, ErrorKind, HealthInfo, Reply, Result};
use engine::{REPORTS_OPEN, Report, ShardIndex, ShardMessage, VolumeId};
use env::sync::{Credits, Signal};
use env::{Env, Instant, IoError, mailbox};
use ondisk::Uuid;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Commands that may wait in the mailbox at a time, and changes that may wait for their turn.
const COMMANDS_WAITING: usize = 256;

/// How a controller is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Drives to look at besides those that are remembered.
    pub drives: Vec<String>,
}

/// The controller: see [`Controller::start`].
pub struct Controller;

impl Controller {
    /// The mailbox for the reports of `shards` shards, on the controller's shard.
    pub fn reports(env: &Env, shards: u16) -> (mailbox::Sender<Report>, mailbox::Receiver<Report>) {
        mailbox::mailbox(env, usize::from(shards.max(1)) * REPORTS_OPEN)
    }

    /// Starts the controller on the shard of `env`: opens the drives it remembers and those it is given, starts
    /// the volumes that are on them, and begins to take commands. `shards`: how to reach all shards, in order;
    /// they must be running. `reports`: what they report.
    pub async fn start(
        env: &Env,
        options: Options,
        shards: Vec<mailbox::Sender<ShardMessage>>,
        reports: mailbox::Receiver<Report>,
    ) -> ControllerHandle {
        let (commands, receiver) = mailbox::mailbox(env, COMMANDS_WAITING);
        let core = Rc::new(Core {
            env: env.clone(),
            shards,
            events: Events::new(env),
            drives: RefCell::default(),
            arrays: RefCell::default(),
            next_volume: Cell::new(0),
            tasks: Tasks::new(env),
            health: RefCell::default(),
            told: RefCell::default(),
            changes_seen: Cell::new(0),
            looking_again: Cell::new(false),
            began: env.now(),
            turn: Credits::new(env, 1),
            changes: RefCell::default(),
            change_waiting: Signal::default(),
            stopping: Cell::new(false),
            started_unix_s: env.unix_time(),
        });
        core.events.load().await;
        let writer = core.clone();
        env.spawn("events", async move { writer.events.write().await });
        env.spawn("reports", core.clone().take_reports(reports));
        core.open_known_drives(&options.drives).await;
        if let Err(why) = core.tasks.load().await {
            let text = format!(
                "tasks and schedules of before cannot be read: {why}; schedules are as in the beginning"
            );
            core.events.warn("controller", &why, "checks and patrols begin anew", text);
        }
        core.start_all().await;
        let keeper = core.clone();
        env.spawn("tasks", async move { keeper.tasks.write().await });
        env.spawn("tender", core.clone().tend());
        env.spawn("health", core.clone().watch_health());
        env.spawn("commands", core.clone().take_commands(receiver));
        env.spawn("changes", core.make_changes());
        ControllerHandle { commands }
    }
}

/// A change that waits for its turn.
struct Change {
    command: Command,
    answer: Answer,
}

pub(crate) struct Core {
    pub(crate) env: Env,
    pub(crate) shards: Vec<mailbox::Sender<ShardMessage>>,
    pub(crate) events: Events,
    pub(crate) drives: RefCell<Vec<Rc<Drive>>>,
    pub(crate) arrays: RefCell<BTreeMap<Uuid, Rc<Array>>>,
    next_volume: Cell<u32>,
    /// Background tasks and their schedules.
    pub(crate) tasks: Tasks,
    /// What drives have told of their health, by name.
    pub(crate) health: RefCell<BTreeMap<String, HealthInfo>>,
    /// What the tender has told already and does not repeat.
    pub(crate) told: RefCell<BTreeSet<String>>,
    /// Counts what the tender should look at.
    pub(crate) changes_seen: Cell<u64>,
    /// Whether the tender comes back by itself before long.
    pub(crate) looking_again: Cell<bool>,
    /// When the controller was started.
    pub(crate) began: Instant,
    /// The turn to make changes: commands and the tender, one after the other.
    pub(crate) turn: Credits,
    changes: RefCell<VecDeque<Change>>,
    change_waiting: Signal,
    stopping: Cell<bool>,
    pub(crate) started_unix_s: u64,
}

impl Core {
    /// A number for a volume that is started; each is used once.
    pub(crate) fn new_volume_id(&self) -> VolumeId {
        let id = self.next_volume.get();
        self.next_volume.set(id + 1);
        VolumeId(id)
    }

    pub(crate) fn new_uuid(&self) -> Uuid {
        Uuid::from_random(self.env.random(), self.env.random())
    }

    /// Every array, by the name of its first volume.
    pub(crate) fn arrays(&self) -> Vec<Rc<Array>> {
        let mut arrays: Vec<Rc<Array>> = self.arrays.borrow().values().cloned().collect();
        arrays.sort_by_key(|array| (array.name(), array.uuid));
        arrays
    }

    async fn take_commands(self: Rc<Self>, mut receiver: mailbox::Receiver<Request>) {
        while let Some(Request { command, answer }) = receiver.receive().await {
            if self.stopping.get() {
                answer(Err(stopping()));
                continue;
            }
            match self.answer_question(&command) {
                Some(reply) => answer(reply),
                None if self.changes.borrow().len() >= COMMANDS_WAITING => {
                    let sentence = "too many changes wait for their turn; try again later";
                    answer(Err(Error::new(ErrorKind::Busy, sentence)));
                }
                None => {
                    self.changes.borrow_mut().push_back(Change { command, answer });
                    self.change_waiting.notify(&self.env);
                }
            }
        }
    }

    /// Answers a command that waits for no drive; `None` for one that does.
    fn answer_question(&self, command: &Command) -> Option<Result<Reply>> {
        Some(match command {
            Command::DriveList {} => Ok(Reply::Drives { drives: self.drive_infos() }),
            Command::DriveShow { drive } => {
                self.find_drive(drive).map(|drive| self.drive_reply(&drive, Vec::new()))
            }
            Command::VolumeList {} => Ok(Reply::Volumes { volumes: self.volume_infos() }),
            Command::VolumeShow { volume } => {
                self.find_volume(volume).map(|(array, volume)| self.volume_reply(&array, &volume, vec![]))
            }
            Command::SpareList {} => Ok(self.spares_reply()),
            Command::TaskList {} => Ok(Reply::Tasks { tasks: self.tasks.infos() }),
            Command::TaskShow { task } => {
                self.find_task(*task).map(|task| self.task_reply(&task, Vec::new()))
            }
            Command::TaskStart(start) => self.start_task(start),
            Command::TaskPause { task } => self.pause_task(*task),
            Command::TaskResume { task } => self.resume_task(*task),
            Command::TaskStop { task } => self.stop_task(*task),
            Command::TaskSet(set) => self.set_task(set),
            Command::ScheduleList {} => Ok(Reply::Schedules { schedules: self.schedules() }),
            Command::TaskSchedule(set) => self.set_schedule(set),
            Command::EventsList { last } => Ok(Reply::Events { events: self.events.list(*last) }),
            Command::Explain(explain) => self.explain(explain),
            Command::Info {} => Ok(Reply::Info { info: self.info() }),
            Command::DriveAdd { .. }
            | Command::DriveFail { .. }
            | Command::DriveOffline { .. }
            | Command::DriveOnline { .. }
            | Command::DriveReplace { .. }
            | Command::DriveForget { .. }
            | Command::VolumeCreate(_)
            | Command::VolumeSet { .. }
            | Command::VolumeDelete { .. }
            | Command::VolumeStart { .. }
            | Command::VolumePolicy(_)
            | Command::ForeignList {}
            | Command::ForeignImport { .. }
            | Command::ForeignClear { .. }
            | Command::SpareAdd(_)
            | Command::SpareRemove { .. }
            | Command::Shutdown {} => return None,
        })
    }

    async fn make_changes(self: Rc<Self>) {
        while !self.stopping.get() {
            let waiting = || !self.changes.borrow().is_empty();
            self.change_waiting.wait_until(&self.env, waiting).await;
            let next = self.changes.borrow_mut().pop_front();
            if let Some(Change { command, answer }) = next {
                let _turn = self.turn.take(1).await;
                answer(self.change(command).await);
                self.look_after();
            }
        }
        for Change { answer, .. } in self.changes.take() {
            answer(Err(stopping()));
        }
    }

    async fn change(self: &Rc<Self>, command: Command) -> Result<Reply> {
        match command {
            Command::DriveAdd { drive, size_bytes } => {
                let (drive, notes) = self.add_drive(&drive, size_bytes).await?;
                Ok(self.drive_reply(&drive, notes))
            }
            Command::DriveFail { drive } => self.take_out(&drive, ondisk::Cause::Operator).await,
            Command::DriveOffline { drive } => self.take_out(&drive, ondisk::Cause::Offline).await,
            Command::DriveOnline { drive } => self.take_in_again(&drive).await,
            Command::DriveReplace { drive, with, destroy_data } => {
                self.replace_drive(&drive, &with, destroy_data).await
            }
            Command::DriveForget { drive } => self.forget_drive(&drive).await,
            Command::VolumeCreate(create) => self.create_volume(create).await,
            Command::VolumeSet { volume, name } => self.rename_volume(&volume, &name).await,
            Command::VolumeDelete { volume } => self.delete_volume(&volume).await,
            Command::VolumeStart { volume, accept_stale_parity, degraded } => {
                self.start_volume(&volume, accept_stale_parity, degraded).await
            }
            Command::VolumePolicy(set) => self.set_policy(set).await,
            Command::ForeignList {} => Ok(self.list_foreign().await),
            Command::ForeignImport { volume, name } => self.import(&volume, name).await,
            Command::ForeignClear { drives } => self.clear_foreign(&drives).await,
            Command::SpareAdd(add) => self.add_spare(add).await,
            Command::SpareRemove { drive } => self.remove_spare(&drive).await,
            Command::Shutdown {} => {
                let notes = self.shut_down().await;
                self.stopping.set(true);
                Ok(Reply::Done { notes })
            }
            question => self.answer_question(&question).unwrap_or_else(|| Err(stopping())),
        }
    }

    pub(crate) fn answer_report(
        &self,
        to: ShardIndex,
        report: u64,
        result: std::result::Result<(), IoError>,
    ) {
        let message = ShardMessage::ReportDone { report, result };
        if self.shards[usize::from(to.0)].send(message).is_err() {
            tracing::warn!(shard = to.0, "a shard does not take the answer to its report");
        }
    }

    /// Sends every shard a message and waits until all have dealt with it.
    ///
    /// # Errors
    /// The first sentence of a shard that could not.
    pub(crate) async fn tell_shards(
        &self,
        message: impl Fn(engine::Done) -> ShardMessage,
    ) -> std::result::Result<(), String> {
        answers(self.send_shards(message)).await
    }

    /// Sends every shard a message; [`answers`] waits for what they say. A shard that cannot be told says so there.
    pub(crate) fn send_shards(&self, message: impl Fn(engine::Done) -> ShardMessage) -> Answers {
        let (done, answers) = mailbox::mailbox(&self.env, self.shards.len());
        for shard in &self.shards {
            if shard.send(message(done.clone())).is_err()
                && done.send(Err("a shard is gone; restart the controller".to_owned())).is_err()
            {
                tracing::error!("a shard is gone, and nobody can be told");
            }
        }
        answers
    }
}

/// What the shards say to a control message.
pub(crate) type Answers = mailbox::Receiver<std::result::Result<(), String>>;

/// Waits until all shards have dealt with a message.
///
/// # Errors
/// The first sentence of a shard that could not.
pub(crate) async fn answers(mut answers: Answers) -> std::result::Result<(), String> {
    let mut result = Ok(());
    while let Some(answer) = answers.receive().await {
        result = result.and(answer);
    }
    result
}

fn stopping() -> Error {
    Error::new(ErrorKind::Stopping, "the controller is shutting down; start it again for further commands")
}
