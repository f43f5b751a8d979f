//! The start of the controller: creates the modules, bottom first, and starts their tasks.
//!
//! | task | purpose |
//! | --- | --- |
//! | commands | receives commands; answers queries at once, queues changes |
//! | notes | receives reports of interfaces |
//! | changes | executes one change at a time |
//! | reports | receives reports of shards, sorts them by array |
//! | failures, bitmap clearer, recorder | one each per started array: `arrays/failures.rs`, `bitmap_clearer.rs`, `reports.rs` |
//! | events, repeats | store events, report folded ones |
//! | audit | records orders |
//! | reconciler | starts spares, rebuilds and scheduled tasks: `reconcile/reconciler.rs` |
//! | numbers | numbers new objects: `numbering.rs` |
//! | state files | retries failed stores: `numbering.rs` |
//! | health | queries the health of drives: `inventory/health.rs` |
//! | disks | supervises attached volumes: `disks.rs` |
//! | tasks | stores background tasks; each running one is a task here too: `tasks/run.rs` |

use super::disks::Attached;
use super::revisions::Revisions;
use super::{
    Answer, COMMANDS_WAITING, Commands, ControllerHandle, NOTES_WAITING, Note, Phase, Request,
};
use crate::arrays::{self, Arrays};
use crate::audit::Audit;
use crate::events::Events;
use crate::foreign::{self, Foreign};
use crate::interface::{DiskMaker, Reply, UpsAddress};
use crate::inventory::Inventory;
use crate::lifecycle::{self, Lifecycle};
use crate::policy::{self, Policies};
use crate::reconcile::{self, Reconciler};
use crate::signals::Attention;
use crate::tasks::{self, TaskList, Tasks};
use crate::ups::Ups;
use engine::{REPORTS_OPEN, Report, ShardMessage};
use platform::sync::Signal;
use platform::{Env, Hosts, LimitsByClass, mailbox};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use units::ByteCount;

/// Options for the start of a controller.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Drives to open in addition to the registered ones.
    pub drives: Vec<String>,
    /// Connected hosts, shared with the ports that serve the volumes.
    pub hosts: Hosts,
    /// The cache memory of all shards together; it is allocated for the first volume that uses it.
    pub cache_size: ByteCount,
    /// How much of it is reserved at a time for a shard, when half of what the shard has is in use;
    /// zero: all at once.
    pub cache_step: ByteCount,
    /// The read cache memory of all shards together; it is allocated on use.
    pub read_cache: ByteCount,
    /// The time limits of drive operations.
    pub limits: LimitsByClass,
    /// Log devices for journals, unless a log is in use already; empty: journals stay in place.
    pub logs: Vec<String>,
    /// Attaches volumes to this host.
    pub disks: DiskMaker,
    /// The UPS that powers this host, if `upsd` is configured.
    pub ups: Option<UpsAddress>,
    /// The addresses of the host ports, as shown by `info`.
    pub nbd: Vec<String>,
}

/// The controller: see [`Controller::start`].
pub struct Controller;

impl Controller {
    /// The mailbox for the reports of `shards` shards, on the controller's shard.
    pub fn reports(env: &Env, shards: u16) -> (mailbox::Sender<Report>, mailbox::Receiver<Report>) {
        mailbox::mailbox(env, usize::from(shards.max(1)) * REPORTS_OPEN)
    }

    /// Starts the controller on the shard of `env`, and waits until no array waits for a drive.
    /// `shards`: the mailboxes of all shards, in order; the shards must be running. `reports`:
    /// their reports.
    pub async fn start(
        env: &Env,
        options: Options,
        shards: Vec<mailbox::Sender<ShardMessage>>,
        reports: mailbox::Receiver<Report>,
    ) -> ControllerHandle {
        let handle = Controller::begin(env, options, shards, reports);
        handle.reaches(env, Phase::Started).await;
        handle
    }

    /// Begins to start the controller, which takes commands from now on. [`Phase`] is its progress;
    /// [`ControllerHandle::reaches`] waits for a phase.
    pub fn begin(
        env: &Env,
        options: Options,
        shards: Vec<mailbox::Sender<ShardMessage>>,
        reports: mailbox::Receiver<Report>,
    ) -> ControllerHandle {
        let (commands, receiver) = mailbox::mailbox(env, COMMANDS_WAITING);
        let (notes, noted) = mailbox::mailbox(env, NOTES_WAITING);
        let all = Rc::new(joined(env, shards, &options));
        env.spawn("reports", all.arrays.clone().take_reports(reports, all.tasks.clone()));
        let (events, unfinished) = (all.events.feed(), all.unfinished.clone());
        env.spawn("start", all.start_up(options, receiver, noted));
        ControllerHandle { commands, notes, events, unfinished }
    }
}

impl Commands {
    /// Opens registered and given drives, and starts their volumes. Commands are taken as soon as
    /// events can be reported.
    async fn start_up(
        self: Rc<Self>,
        options: Options,
        receiver: mailbox::Receiver<Request>,
        notes: mailbox::Receiver<Note>,
    ) {
        let (env, all) = (self.env.clone(), self);
        all.take_in(receiver, notes).await;
        let changes = all.reconciler.turn().take(1).await;
        env.spawn("changes", all.clone().make_changes());
        if let Some(ups) = &all.ups {
            env.spawn("ups", ups.clone().watch());
        }
        all.inventory.open_known_drives(&options.drives).await;
        all.arrays.open_memory().await;
        all.arrays.load_log().await;
        all.tasks.load().await;
        all.load_attach().await;
        if let Some(ups) = &all.ups {
            ups.first_answer().await;
        }
        let mut tried = BTreeSet::new();
        // A drive may respond while arrays are started.
        let mut answers = all.inventory.answers();
        let mut is_over = all.lifecycle.start_all(&mut tried).await;
        if is_over {
            all.lifecycle.add_given_log(&options.logs).await;
        }
        all.revisions.begin(all.inventory.first_revision());
        all.number().await;
        let tasks = all.tasks.clone();
        env.spawn("tasks", async move { tasks.write().await });
        env.spawn("reconciler", all.reconciler.clone().run());
        env.spawn("health", all.reconciler.clone().watch_health());
        env.spawn("changes below drives", all.reconciler.clone().watch_changes());
        env.spawn("returns", all.reconciler.clone().watch_returns());
        env.spawn("numbers", all.clone().keep_numbering());
        env.spawn("state files", all.clone().keep_storing());
        env.spawn("disks", all.clone().watch_disks());
        all.reach(Phase::Serving);
        drop(changes);
        let goes_on = || !all.attention.is_closing();
        while !is_over && goes_on() {
            all.inventory.next_answer(answers, goes_on).await;
            let _changes = all.reconciler.turn().take(1).await;
            if goes_on() {
                answers = all.inventory.answers();
                is_over = all.lifecycle.start_all(&mut tried).await;
                if is_over {
                    all.lifecycle.add_given_log(&options.logs).await;
                }
                all.number().await;
                all.attention.look_after();
            }
        }
        all.reach(Phase::Started);
    }

    /// Loads the records of earlier runs, and starts the tasks that receive commands and reports.
    async fn take_in(
        self: &Rc<Self>,
        receiver: mailbox::Receiver<Request>,
        notes: mailbox::Receiver<Note>,
    ) {
        let env = &self.env;
        self.events.load().await;
        let events = self.events.clone();
        env.spawn("events", async move { events.write().await });
        let events = self.events.clone();
        env.spawn("repeats", async move { events.report_repeats().await });
        self.audit.load().await;
        env.spawn("audit", self.audit.clone().write());
        env.spawn("commands", self.clone().take_commands(receiver));
        env.spawn("notes", self.clone().take_notes(notes));
    }

    /// Sets the phase of the start.
    fn reach(&self, phase: Phase) {
        self.phase.set(phase);
        self.change_waiting.notify(&self.env);
        let (reached, waiting) = self
            .until
            .take()
            .into_iter()
            .partition(|(wanted, _): &(Phase, Answer)| *wanted <= phase);
        self.until.replace(waiting);
        let reached: Vec<(Phase, Answer)> = reached;
        reached.into_iter().for_each(|(_, answer)| answer(Ok(Reply::Done { notes: Vec::new() })));
    }
}

/// The modules that upper modules share.
struct Lower {
    attention: Rc<Attention>,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    tasks: Rc<Tasks>,
    lifecycle: Rc<Lifecycle>,
}

/// Creates the lower modules, each with its dependencies.
fn lower(env: &Env, shards: Vec<mailbox::Sender<ShardMessage>>, options: &Options) -> Lower {
    let attention = Attention::new(env);
    let events = Rc::new(Events::new(env));
    let inventory = Inventory::new(env, &events, &attention);
    let list = TaskList::new(env, &attention, &events);
    let hidden_by = list.clone();
    let needs = arrays::Needs {
        events: events.clone(),
        inventory: inventory.clone(),
        attention: attention.clone(),
        shards,
        hosts: options.hosts.clone(),
        cache_size: options.cache_size,
        cache_step: options.cache_step,
        read_cache: options.read_cache,
        limits: options.limits,
        hides: Box::new(move |volume| hidden_by.hides(volume)),
    };
    let arrays = Arrays::new(env, needs);
    let needs = tasks::Needs {
        events: events.clone(),
        inventory: inventory.clone(),
        arrays: arrays.clone(),
        attention: attention.clone(),
    };
    let tasks = Tasks::new(env, list, needs);
    let needs = lifecycle::Needs {
        events: events.clone(),
        inventory: inventory.clone(),
        arrays: arrays.clone(),
        attention: attention.clone(),
    };
    let lifecycle = Lifecycle::new(env, needs);
    Lower { attention, events, inventory, arrays, tasks, lifecycle }
}

/// Creates all modules.
fn joined(env: &Env, shards: Vec<mailbox::Sender<ShardMessage>>, options: &Options) -> Commands {
    let Lower { attention, events, inventory, arrays, tasks, lifecycle } =
        lower(env, shards, options);
    let needs = foreign::Needs {
        events: events.clone(),
        inventory: inventory.clone(),
        arrays: arrays.clone(),
        lifecycle: lifecycle.clone(),
    };
    let foreign = Foreign::new(env, needs);
    let needs =
        policy::Needs { events: events.clone(), arrays: arrays.clone(), tasks: tasks.clone() };
    let policies = Policies::new(env, needs);
    let needs = reconcile::Needs {
        events: events.clone(),
        inventory: inventory.clone(),
        arrays: arrays.clone(),
        lifecycle: lifecycle.clone(),
        tasks: tasks.clone(),
        attention: attention.clone(),
    };
    let reconciler = Reconciler::new(env, needs);
    let audit = Audit::new(env, &events);
    let ups = options.ups.clone().map(|ups| Ups::new(env, ups, events.clone(), arrays.clone()));
    Commands {
        env: env.clone(),
        ups,
        events,
        audit,
        inventory,
        arrays,
        lifecycle,
        foreign,
        policies,
        tasks,
        reconciler,
        attention,
        attached: Attached::new(options.disks.clone()),
        changes: RefCell::default(),
        change_waiting: Signal::default(),
        preparing: Cell::new(0),
        stopping: Cell::new(false),
        phase: Cell::default(),
        until: RefCell::default(),
        unfinished: Arc::default(),
        nbd: options.nbd.clone(),
        started_unix_s: env.unix_time(),
        revisions: Revisions::default(),
    }
}
