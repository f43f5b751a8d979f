//! A life of the controller's process: start, checks, requests, shutdown, unless it is killed
//! before.

use crate::beside::{self, Neighbours};
use crate::error::{Error, ErrorKind, Result};
use crate::explained;
use crate::host::{Host, StartResult, note_lost, out_of, show, start};
use crate::larger;
use crate::log_devices;
use crate::migrations;
use crate::operator;
use crate::refusals;
use crate::scene::{Presence, Scene};
use crate::tolerance;
use crate::workload;
use controller::{
    Command, ControllerHandle, DriveState, Reply, StartTask, Startable, TaskInfo, TaskKind,
    VolumeState,
};
use engine::Volume;
use platform::Env;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet};

/// The time limit of a resync, in virtual time.
pub(crate) const RESYNC_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The maximum number of starts of an offline volume, each after an operator's action.
const TRIES: u64 = 6;

/// The plan of a life.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Drives to name to the controller; it finds registered drives itself.
    pub given: Vec<String>,
    /// Whether the volume is read first.
    pub look_first: bool,
    /// Whether to wait for the resync before the requests, and to read the volume again then.
    pub wait_for_resync: bool,
    /// Whether an operator brings offline drives back, before or during the requests.
    pub bring_back: bool,
    /// Whether the operator replaces dead drives.
    pub replace: bool,
    /// The number of requests.
    pub ops: u64,
    /// The number of the first worker.
    pub first_worker: u64,
    /// The request, and the number of events after its start, at which the life is cut off.
    pub cut_at: Option<(u64, u64)>,
    /// Whether a final check must find consistent redundancy.
    pub check: bool,
    /// Whether to shut down at the end.
    pub shut_down: bool,
    /// Whether this is the last life without faults: all that can be repaired is repaired, and
    /// everything must recover.
    pub is_last: bool,
    /// Whether the plan continues with the volume of an earlier plan of this life.
    pub goes_on: bool,
}

/// The end of a life that was not cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The plan was completed.
    Done,
    /// The volume needs missing drives.
    NeedsDrives,
}

/// Starts the controller's process and runs the life of all volumes.
///
/// # Errors
/// The first violated invariant.
pub async fn live(scene: Rc<Scene>, envs: Vec<Env>, plan: Plan) -> Result<Outcome> {
    let host = begin(scene, envs, &plan).await;
    let is_served = open(&host, &plan, true).await?;
    let beside = Neighbours::begin(&host, &plan).await?;
    if is_served {
        serve(&host, &plan).await?;
    }
    beside.end().await?;
    if !is_served {
        return Ok(Outcome::NeedsDrives);
    }
    if plan.shut_down {
        // A drive that took a slot at the last query may be current already.
        note_rebuilt(&host.scene, &host.show().await?);
        host.shut_down().await?;
        for scene in host.scene.arrays() {
            scene
                .array
                .shut_down
                .set(!scene.array.faults.borrow().happened_in(scene.machine.life.get()));
        }
        host.scene.tell(|| "the controller is shut down".to_owned());
    }
    host.scene.volumes().iter().find_map(|scene| scene.untrue.take()).map_or(Ok(()), Err)?;
    Ok(Outcome::Done)
}

/// The plan for a served volume.
pub(crate) async fn serve(host: &Host, plan: &Plan) -> Result<()> {
    let scene = &host.scene;
    let volumes = host.volumes()?;
    if plan.look_first {
        look_at_zones(scene, &volumes[0]).await?;
    }
    if !plan.goes_on {
        drop(host.env.spawn("watch", watch(scene.clone(), host.env.clone(), host.control.clone())));
    }
    operator::resume_tasks(host).await?;
    if plan.wait_for_resync {
        migrations::arrive(host, plan.is_last).await?;
        host.wait_for_resync(plan.is_last).await?;
        look_at_zones(scene, &volumes[0]).await?;
    }
    if plan.bring_back {
        operator::bring_back(host, plan.is_last).await?;
    }
    if plan.replace {
        operator::replace_dead(host, plan.is_last).await?;
    }
    if plan.ops > 0 {
        let beside = (operator::plan(host, plan), log_devices::operate(host, plan));
        let (migrations, larger) = (migrations::operate(host, plan), larger::operate(host, plan));
        let refusals = refusals::operate(host, plan);
        workload::run(scene.clone(), volumes.clone(), plan).await?;
        beside.0.stop().await;
        beside.1.stop().await;
        migrations.stop().await;
        larger.stop().await;
        refusals.stop().await;
    }
    scene.untrue.take().map_or(Ok(()), Err)?;
    if plan.is_last {
        operator::resume_tasks(host).await?;
        migrations::arrive(host, true).await?;
        if scene.setup.may_move() {
            host.wait_for_resync(true).await?;
        }
        host.wait_for_rebuilds().await?;
        // The resync may have waited for a missing drive.
        host.wait_for_resync(true).await?;
        host.last_look(&volumes[0]).await?;
    }
    // Without a drive there may be nothing to compare.
    let may_compare = scene.synced.get() && scene.array.out.get().is_empty();
    // During a reshape no volume of the array is checked.
    if plan.check && scene.is_redundant() && !scene.array.may_move() && may_compare {
        host.check_finds_nothing().await?;
    }
    Ok(())
}

/// Starts the controller's process.
pub(crate) async fn begin(scene: Rc<Scene>, envs: Vec<Env>, plan: &Plan) -> Host {
    for volume in scene.volumes() {
        volume.forced.set(DriveSet::EMPTY);
        if volume.setup.is_neighbour() {
            // The volume may be offline.
            volume.synced.set(false);
        }
        volume.gives_up_journal.set(false);
        volume.way.begins();
    }
    for volume in scene.arrays() {
        // An interrupted start has changed the labels already.
        volume.array.after_shutdown.set(volume.array.shut_down.replace(false));
    }
    start(scene, envs, plan.given.clone()).await
}

/// Starts the volume if possible; returns whether it is served. `must`: creates a missing volume.
pub(crate) async fn open(host: &Host, plan: &Plan, must: bool) -> Result<bool> {
    let scene = &host.scene;
    match host.find().await? {
        StartResult::Volume => {}
        StartResult::Nothing if must => host.create().await?,
        StartResult::Nothing | StartResult::NeedsDrives => return Ok(false),
    }
    log_devices::look(host).await?;
    larger::look(host).await?;
    if !have_served(host, plan).await? {
        return Ok(false);
    }
    if scene.on_log.must_have_waited() {
        let sentence = "the volume started without the log that must complete its writes";
        return Error::wrong_state(sentence);
    }
    host.judge_start(&host.show().await?)?;
    scene.is_served();
    scene.presence.set(Presence::There);
    Ok(true)
}

/// An operator takes the required actions until the volume is served; returns whether it is.
async fn have_served(host: &Host, plan: &Plan) -> Result<bool> {
    for attempt in 0..TRIES {
        let volume = host.show().await?;
        if volume.state.serves() {
            let is_recovered = attempt == 0 && host.scene.is_there();
            host.scene.count(|tally| tally.recoveries += u64::from(is_recovered));
            return Ok(true);
        }
        if log_devices::waits(host, &volume)? {
            if !log_devices::settle(host, plan, &volume).await? {
                return Ok(false);
            }
        } else if host.needs_drives(&volume)? {
            if !migrations::bring_back_lost(host, &volume).await {
                // The layout during a reshape is known to the controller only: it may serve without
                // these drives.
                let offered = |why: &String| {
                    why.contains("--degraded") || why.contains("--accept-stale-parity")
                };
                let offers = volume.reasons.iter().any(offered);
                if !host.scene.array.may_move() || !offers {
                    return Ok(false);
                }
                host.force().await?;
            }
        } else {
            host.force().await?;
        }
    }
    let reasons = host.show().await?.reasons.join("; ");
    Error::wrong_state(format!("the volume does not start after all operator actions: {reasons}"))
}

impl Host {
    /// Waits for the end of the resync, if it can end. `must`: it can.
    async fn wait_for_resync(&self, must: bool) -> Result<()> {
        let end = self.env.now() + RESYNC_LIMIT;
        let mut pause = Duration::from_millis(1);
        while !self.scene.synced.get() {
            if !must && (self.scene.may_fail() || self.scene.may_move()) {
                return Ok(()); // Drives are missing, or unknown during a reshape.
            }
            // The background watcher has found an error.
            self.scene.untrue.take().map_or(Ok(()), Err)?;
            if self.env.now() > end {
                let volume = self.show().await?;
                return Err(Error::new(
                    ErrorKind::Stall,
                    format!("the resync does not end: {:?}, {:?}", volume.state, volume.resync),
                ));
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        Ok(())
    }

    /// Waits until every present drive is rebuilt.
    async fn wait_for_rebuilds(&self) -> Result<()> {
        let end = self.env.now() + RESYNC_LIMIT;
        let gone = self.scene.array.faults.borrow().gone();
        loop {
            let shown = self.show().await?;
            if out_of(&shown).minus(&gone).is_empty() {
                self.scene.array.out.set(out_of(&shown));
                return Ok(());
            }
            if self.env.now() > end {
                let states: Vec<DriveState> =
                    shown.drives.iter().map(|drive| drive.state).collect();
                let tasks = operator::tasks(self).await;
                let open: Vec<String> = tasks
                    .iter()
                    .filter(|task| !task.state.is_over())
                    .map(|task| {
                        format!(
                            "{:?} of {} is {:?} {:?}",
                            task.kind, task.subject, task.state, task.reason
                        )
                    })
                    .collect();
                let sentence = format!(
                    "rebuilds do not end: {states:?}: {}; tasks: {open:?}",
                    shown.reasons.join("; ")
                );
                return Err(Error::new(ErrorKind::Stall, sentence));
            }
            if !self.scene.beside.is_empty() {
                // Another volume's operator may have stopped the shared rebuild.
                operator::resume_tasks(self).await?;
            }
            self.env.sleep(Duration::from_millis(100)).await;
        }
    }

    /// The final check: everything that can be repaired is repaired.
    async fn last_look(&self, volume: &Rc<Volume>) -> Result<()> {
        let scene = &self.scene;
        workload::flush(scene, volume).await?;
        look_at_all(scene, volume).await?;
        let shown = self.show().await?;
        note_lost(scene, &shown)?;
        // A drive may have taken a slot since the last query, and be current already.
        note_rebuilt(scene, &shown);
        let out = out_of(&shown);
        let expected = if out.is_empty() { VolumeState::Optimal } else { VolumeState::Degraded };
        if shown.state != expected || shown.resync.is_some() || out != scene.array.out.get() {
            return Error::wrong_state(format!(
                "after all repairs the volume is {}, drives {out:?} are not in use, resync: {:?}",
                shown.state, shown.resync
            ));
        }
        tolerance::compare(scene, &shown)
    }

    pub async fn shut_down(&self) -> Result<()> {
        self.scene.volumes().iter().for_each(|volume| volume.on_log.may_be_stopped());
        self.must(Command::Shutdown {}).await?;
        self.shards.iter().for_each(engine::Shard::stop);
        Ok(())
    }

    /// Runs a task over the whole volume to its end. `None` if it was not started or did not end.
    pub async fn run_task(&self, what: Startable) -> Result<Option<TaskInfo>> {
        let start = StartTask {
            what,
            volume: Some(self.scene.setup.name().to_owned()),
            ..StartTask::default()
        };
        let end = self.env.now() + RESYNC_LIMIT;
        let mut task = match self.ask(Command::TaskStart(start)).await {
            Ok(Reply::Task { task, .. }) => task,
            Ok(other) => return Error::wrong_state(format!("starting a task returned {other:?}")),
            Err(error) => {
                self.scene.tell(|| format!("cannot start {what:?}: {error}"));
                return Ok(None);
            }
        };
        let mut pause = Duration::from_millis(1);
        while !task.state.is_over() {
            if self.env.now() > end {
                let all = operator::tasks(self).await;
                if self.waits_for_a_drive(&task, &all).await? {
                    return Ok(None);
                }
                let others: Vec<String> = all
                    .iter()
                    .map(|task| format!("{} {:?} {:?}", task.kind, task.state, task.reason))
                    .collect();
                let sentence = format!("{what:?} does not end: {}", others.join("; "));
                return Err(Error::new(ErrorKind::Stall, sentence));
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
            task = match self.must(Command::TaskShow { task: task.task }).await? {
                Reply::Task { task, .. } => task,
                other => return Error::wrong_state(format!("showing a task returned {other:?}")),
            };
        }
        Ok((task.state == controller::TaskState::Done).then_some(*task))
    }

    /// Whether a task waits because the volume is degraded without a rebuild: the controller failed
    /// a drive with blocks that stay unreadable, and there is no replacement.
    async fn waits_for_a_drive(&self, task: &TaskInfo, all: &[TaskInfo]) -> Result<bool> {
        let is_rebuilt =
            all.iter().any(|task| task.kind == TaskKind::Rebuild && !task.state.is_over());
        let out = out_of(&self.show().await?);
        let may_be_out = out.minus(&self.scene.array.faults.borrow().bad()).is_empty();
        let waits = task.state == controller::TaskState::Waiting && !is_rebuilt;
        if !waits || out.is_empty() || !may_be_out {
            return Ok(false);
        }
        self.scene.array.out.set(out);
        self.scene.tell(|| {
            format!("drives {out:?} are not in use: {} waits ({:?})", task.kind, task.reason)
        });
        Ok(true)
    }

    /// A check must find consistent redundancy, except for silent corruption.
    async fn check_finds_nothing(&self) -> Result<()> {
        let scene = &self.scene;
        let Some(task) = self.run_task(Startable::Check).await? else { return Ok(()) };
        scene.count(|tally| tally.checks += 1);
        crate::silent::note_strays(scene);
        let tainted = scene.tainted.borrow().len() as u64;
        if task.found.mismatches > tainted {
            return Error::wrong_state(format!(
                "a check found {} inconsistent stripes; at most {tainted} are allowed: {:?}",
                task.found.mismatches, task.blamed
            ));
        }
        scene.tell(|| format!("a check found {} inconsistent stripes", task.found.mismatches));
        Ok(())
    }
}

/// Records the moment when redundancy becomes consistent.
async fn watch(scene: Rc<Scene>, env: Env, control: ControllerHandle) {
    let mut pause = Duration::from_millis(1);
    for nth in 0.. {
        env.sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
        let Ok(volume) = show(&scene, &env, &control).await else { return };
        if !volume.state.serves() {
            return; // The next query reports it.
        }
        if let Err(error) = note_lost(&scene, &volume) {
            scene.untrue.replace(Some(error));
            return;
        }
        note_rebuilt(&scene, &volume);
        if let Err(error) = explained::compare(&scene, &env, &control, nth).await {
            scene.untrue.replace(Some(error));
            return;
        }
        if volume.resync.is_none() && !scene.synced.get() && !scene.may_move() {
            scene.settle();
            scene.tell(|| "redundancy is consistent".to_owned());
        }
    }
}

/// Records the drives that the controller does not use: the others are current.
fn note_rebuilt(scene: &Scene, volume: &controller::VolumeInfo) {
    let out = scene.array.out.get().intersection(&out_of(volume));
    if out != scene.array.out.get() {
        scene.tell(|| format!("rebuilt; now without drives {out:?}"));
        scene.array.out.set(out);
    }
}

/// Reads a range in pieces and checks every sector.
async fn look_at(scene: &Scene, volume: &Rc<Volume>, range: ByteRange) -> Result<()> {
    const PIECE: ByteCount = ByteCount(256 << 10);
    let mut at = range.start;
    while at < range.end() {
        let len = PIECE.min(range.end() - at);
        workload::read(scene, volume, ByteRange::new(at, len)).await?;
        at += len;
    }
    Ok(())
}

/// Reads the ranges of all requests.
pub(crate) async fn look_at_zones(scene: &Scene, volume: &Rc<Volume>) -> Result<()> {
    for zone in &scene.setup.zones {
        look_at(scene, volume, *zone).await?;
    }
    scene.tell(|| "all request ranges were read, with allowed values".to_owned());
    Ok(())
}

/// Reads the whole volume.
async fn look_at_all(scene: &Scene, volume: &Rc<Volume>) -> Result<()> {
    look_at(scene, volume, ByteRange::new(ByteOffset::ZERO, scene.setup.geometry.capacity()))
        .await?;
    scene.tell(|| "the whole volume was read, with allowed values".to_owned());
    Ok(())
}

/// Starts a controller over copies with some drives removed, after an orderly stop: the volumes
/// must start, and every sector be readable.
///
/// # Errors
/// The first violated invariant.
pub(crate) async fn without_some(
    scene: Rc<Scene>,
    envs: Vec<Env>,
    given: Vec<String>,
) -> Result<()> {
    let host = start(scene, envs, given).await;
    for scene in
        host.scene.volumes().iter().filter(|scene| scene.is_there() && !scene.is_ignored.get())
    {
        let read = read_without(&host.of(scene)).await;
        read.map_err(|error| beside::of(scene, error))?;
    }
    Ok(())
}

async fn read_without(host: &Host) -> Result<()> {
    let mut volume = host.show().await?;
    if !volume.state.serves() && host.scene.array.may_have_gone_on(&out_of(&volume)) {
        let name = host.scene.setup.name().to_owned();
        let (accept_stale_parity, degraded) = (false, true);
        host.must(Command::VolumeStart { volume: name, accept_stale_parity, degraded }).await?;
        volume = host.show().await?;
    }
    if !volume.state.serves() || volume.resync.is_some() {
        return Error::wrong_state(format!(
            "after an orderly stop, and a start without some drives, the volume is {} (resync: \
                {:?}): {}",
            volume.state,
            volume.resync,
            volume.reasons.join("; ")
        ));
    }
    tolerance::compare(&host.scene, &volume)?;
    let volumes = host.volumes()?;
    look_at_zones(&host.scene, &volumes[0]).await
}
