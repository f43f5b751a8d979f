//! The operator: brings drives back, replaces them, and performs random actions during the
//! requests.

use crate::error::{Error, Result};
use crate::faults::{self, OPERATORS};
use crate::host::{Host, out_of};
use crate::life::Plan;
use crate::migrations;
use crate::refusals::accuse;
use crate::setup::{ReadsSetup, VolumeRole};
use crate::tally::Event;
use controller::{
    AddSpare, Command, DriveInfo, DriveState, Reply, SetPolicy, SetTask, StartDegraded, StartTask,
    Startable, SuspendedBy, TaskInfo, TaskKind, TaskState, VolumeInfo, WriteHole, WriteMode,
};
use platform_sim::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::DriveIndex;

/// How long an operator retries an order that is refused temporarily.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A background task of an operator.
pub(crate) struct OperatorTask {
    pub(crate) host: Host,
    pub(crate) is_stopping: Rc<Cell<bool>>,
    pub(crate) is_done: Rc<Cell<bool>>,
}

impl OperatorTask {
    /// A task that has not begun.
    pub fn of(host: &Host) -> OperatorTask {
        OperatorTask { host: host.clone(), is_stopping: Rc::default(), is_done: Rc::default() }
    }

    /// Waits for the end of the current action; no further one begins.
    pub async fn stop(self) {
        self.is_stopping.set(true);
        while !self.is_done.get() {
            self.host.env.sleep(Duration::from_millis(1)).await;
        }
    }
}

fn is_suspended_by_operator(drive: &DriveInfo) -> bool {
    drive.suspension.as_ref().is_some_and(|suspension| suspension.by == SuspendedBy::Operator)
}

/// The order to bring back a drive in its reported state.
pub(crate) fn back(shown: &DriveInfo, drive: String) -> Command {
    match is_suspended_by_operator(shown) {
        true => Command::DriveResume { drive },
        false => Command::DriveOnline { drive },
    }
}

/// Whether a slot has a drive again, possibly rebuilding.
fn has_come_back(shown: &VolumeInfo, slot: DriveIndex) -> bool {
    !out_of(shown).contains(slot) || shown.drives[slot.as_usize()].state == DriveState::Rebuilding
}

/// An operator brings back every present drive that is not in use. `must`: nothing prevents it.
pub(crate) async fn bring_back(host: &Host, must: bool) -> Result<()> {
    let scene = &host.scene;
    let shown = host.show().await?;
    let gone = scene.array.faults.borrow().gone();
    for slot in out_of(&shown).minus(&gone).iter() {
        if shown.drives[slot.as_usize()].state == DriveState::Rebuilding {
            continue;
        }
        let drive = host.place(slot);
        let end = host.env.now() + PATIENCE;
        loop {
            match host.ask(back(&shown.drives[slot.as_usize()], drive.clone())).await {
                Ok(_) => {
                    let is_resumed = is_suspended_by_operator(&shown.drives[slot.as_usize()]);
                    scene.did(if is_resumed {
                        Event::OperatorResumes
                    } else {
                        Event::OperatorBringsBack
                    });
                    scene.tell_of("operator", || format!("drive {} is brought back", slot.0));
                    break;
                }
                // The drive returned by itself, or a spare took its slot.
                Err(_) if has_come_back(&host.show().await?, slot) => break,
                // The drive may still have outstanding operations from before its failure.
                Err(_) if must && host.env.now() < end => {
                    host.env.sleep(Duration::from_millis(100)).await
                }
                Err(error) if must => {
                    return Error::wrong_state(format!(
                        "drive {} cannot be brought back: {error}",
                        slot.0
                    ));
                }
                Err(error) => {
                    scene.tell_of("operator", || {
                        format!("drive {} cannot be brought back: {error}", slot.0)
                    });
                    break;
                }
            }
        }
    }
    Ok(())
}

/// An operator replaces dead drives. `must`: nothing prevents it.
pub(crate) async fn replace_dead(host: &Host, must: bool) -> Result<()> {
    let scene = &host.scene;
    let shown = host.show().await?;
    let dead = scene.array.faults.borrow().dead();
    for slot in out_of(&shown).intersection(&dead).iter() {
        let has_one = !scene.machine.replacements.borrow().is_empty();
        match replace(host, slot).await? {
            Some(error) if must => {
                // A spare may have taken the slot just now.
                let shown = host.show().await?;
                let is_filled = shown.drives[slot.as_usize()].state == DriveState::Rebuilding;
                if !is_filled && out_of(&shown).contains(slot) {
                    return Error::wrong_state(format!("cannot replace drive {}: {error}", slot.0));
                }
            }
            None if has_one => scene.did(Event::OperatorReplacesDead),
            _ => {}
        }
    }
    Ok(())
}

/// An operator replaces a working drive.
async fn replace_serving(host: &Host, slot: DriveIndex) -> Result<()> {
    let shown = host.show().await?;
    let has_one = !host.scene.machine.replacements.borrow().is_empty();
    if out_of(&shown).is_empty() && has_one && replace(host, slot).await?.is_none() {
        host.scene.did(Event::OperatorReplacesServing);
    }
    Ok(())
}

/// Replaces a drive by the next unused one, if any. Returns the error, if refused.
async fn replace(host: &Host, slot: DriveIndex) -> Result<Option<controller::Error>> {
    let scene = &host.scene;
    let Some((name, drive)) = scene.machine.replacements.borrow_mut().pop() else {
        return Ok(None);
    };
    scene.machine.known.borrow_mut().push((name.clone(), drive));
    scene.tell_of("operator", || format!("replacing drive {} by {name}", slot.0));
    let which = host.place(slot);
    let replace = Command::DriveReplace { drive: which, with: name, destroy_data: true };
    match host.ask(replace).await {
        Ok(_) => {
            host.show().await?;
            Ok(None)
        }
        Err(error) => {
            scene.tell_of("operator", || format!("cannot replace it: {error}"));
            Ok(Some(error))
        }
    }
}

/// An operator resumes every paused or stopped task: otherwise waits for its end would hang.
pub(crate) async fn resume_tasks(host: &Host) -> Result<()> {
    for task in tasks(host).await {
        if matches!(task.state, TaskState::Paused | TaskState::Stopped) {
            let resumed = host.ask(Command::TaskResume { task: task.task }).await;
            host.scene.tell_of("operator", || match resumed {
                Ok(_) => format!("task {} ({}) is resumed", task.task, task.kind),
                Err(error) => format!("cannot resume task {} ({}): {error}", task.task, task.kind),
            });
        }
    }
    Ok(())
}

/// An operator stops every task, and waits until they have ended: a start would continue earlier
/// ones.
pub(crate) async fn stop_tasks(host: &Host) {
    for task in tasks(host).await.into_iter().filter(|task| !task.state.is_over()) {
        let stopped = host.ask(Command::TaskStop { task: task.task }).await;
        host.scene.tell_of("operator", || match stopped {
            Ok(_) => format!("task {} ({}) is stopped", task.task, task.kind),
            Err(error) => format!("cannot stop task {} ({}): {error}", task.task, task.kind),
        });
    }
    // A task completes its outstanding work first.
    let end = host.env.now() + PATIENCE;
    while host.env.now() < end && tasks(host).await.iter().any(|task| !task.state.is_over()) {
        host.env.sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn tasks(host: &Host) -> Vec<TaskInfo> {
    match host.ask(Command::TaskList {}).await {
        Ok(Reply::Tasks { tasks }) => tasks,
        _ => Vec::new(),
    }
}

/// A random action of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Fail,
    TakeOffline,
    Suspend,
    BringBack,
    ReplaceDead,
    ReplaceServing,
    AddSpare,
    RemoveSpare,
    Check,
    Repair,
    Patrol,
    SteerTask,
    SetPolicy,
}

impl Action {
    fn draw(rng: &mut Rng) -> Action {
        match rng.below(24) {
            0..=1 => Action::Fail,
            2..=3 => Action::TakeOffline,
            4..=6 => Action::BringBack,
            7..=8 => Action::ReplaceDead,
            9..=10 => Action::ReplaceServing,
            11..=12 => Action::AddSpare,
            13 | 21 => Action::RemoveSpare,
            14 => Action::Check,
            15 => Action::Repair,
            16 => Action::Patrol,
            17..=20 => Action::SteerTask,
            _ => Action::SetPolicy,
        }
    }
}

impl Action {
    /// Actions on drives of several volumes belong to the first volume's operator.
    fn fit_for(self, place: VolumeRole) -> Action {
        let is_of_volume =
            matches!(self, Action::Check | Action::Repair | Action::SteerTask | Action::SetPolicy);
        if is_of_volume || place != VolumeRole::SameDrives { self } else { Action::SetPolicy }
    }
}

impl Action {
    /// The order to remove a drive: fail, offline or suspend, without accepting a loss.
    pub(crate) fn take_out(self, drive: String, accept_data_loss: bool) -> Command {
        let (accepted, dry_run) = (None, false);
        match self {
            Action::Fail => Command::DriveFail { drive, accept_data_loss, accepted, dry_run },
            Action::Suspend => Command::DriveSuspend { drive, accepted, dry_run },
            _ => Command::DriveOffline { drive, accept_data_loss, accepted, dry_run },
        }
    }

    /// The counted event of the action.
    pub(crate) fn event(self) -> Event {
        match self {
            Action::Fail => Event::OperatorFails,
            Action::Suspend => Event::OperatorSuspends,
            _ => Event::OperatorTakesOffline,
        }
    }
}

/// The result of an order to remove a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OrderResult {
    /// No order: the level does not survive it.
    NotGiven,
    /// The order was carried out.
    Done,
    /// Refused: the order would lose data, and does not accept that.
    WouldLoseData,
    /// Refused because of the state of the volume or the drive.
    Refused,
    /// Another error.
    Failed,
}

/// The operator's background tasks.
pub(crate) struct OperatorTasks {
    host: Host,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopping: Cell<bool>,
    done: Cell<bool>,
}

impl OperatorTasks {
    /// Waits for the end of the current action; no further one begins.
    pub async fn stop(self) {
        self.shared.stopping.set(true);
        while !self.shared.done.get() {
            self.host.env.sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Runs the drawn operator actions of this life; none in the last life.
pub(crate) fn plan(host: &Host, plan: &Plan) -> OperatorTasks {
    let shared = Rc::new(Shared::default());
    let beside = OperatorTasks { host: host.clone(), shared: shared.clone() };
    let scene = &host.scene;
    let life = scene.machine.life.get();
    let stream = |instance: String| Rng::new(scene.setup.seed, "operator", &instance);
    let most = if scene.setup.is_neighbour() { 3 } else { 6 };
    let count = if plan.is_last || plan.goes_on { 0 } else { stream(life.to_string()).below(most) };
    let numbers = (0..count).map(|index| scene.setup.first_incident(life) + OPERATORS + index);
    let numbers: Vec<u64> =
        numbers.filter(|number| !scene.setup.without.incidents.contains(number)).collect();
    let host = host.clone();
    beside.host.env.spawn("operator", async move {
        for number in numbers {
            let mut rng = stream_of(&host, number);
            let delay = faults::delay(&mut rng) / 4;
            let until = host.env.now() + delay;
            while host.env.now() < until && !shared.stopping.get() {
                host.env.sleep(Duration::from_millis(1).min(delay)).await;
            }
            if shared.stopping.get() {
                break;
            }
            act(&host, number, &mut rng).await;
        }
        shared.done.set(true);
    });
    beside
}

fn stream_of(host: &Host, number: u64) -> Rng {
    Rng::new(host.scene.setup.seed, "operator", &format!("number {number}"))
}

/// Performs one action. Refusals are allowed; the volume's content shows whether the action was
/// correct.
async fn act(host: &Host, number: u64, rng: &mut Rng) {
    let scene = &host.scene;
    let action = Action::draw(rng).fit_for(scene.setup.place);
    let slot = DriveIndex(rng.below(u64::from(scene.layout().drives().0)) as u16);
    scene.machine.story.incidents.borrow_mut().insert(number);
    scene.tell_of("operator", || format!("{action:?} (incident {number})"));
    // Only a lost volume prevents a query: the next check reports it.
    let _ = match action {
        Action::Fail | Action::TakeOffline | Action::Suspend => {
            // A separate random stream: other draws of known seeds do not change.
            let mut own = Rng::new(scene.setup.seed, "acceptance", &format!("number {number}"));
            let accepts = own.chance(1, 2);
            let is_suspended = action == Action::TakeOffline && !accepts && own.chance(1, 2);
            let action = if is_suspended { Action::Suspend } else { action };
            take_out(host, action, slot, accepts).await.map(drop)
        }
        Action::BringBack => bring_back(host, false).await,
        Action::ReplaceDead => replace_dead(host, false).await,
        Action::ReplaceServing => replace_serving(host, slot).await,
        Action::AddSpare => add_spare(host, rng).await,
        Action::RemoveSpare => remove_spare(host).await,
        Action::Check => start(host, Startable::Check).await,
        Action::Repair => start(host, Startable::Repair).await,
        Action::Patrol => start(host, Startable::Patrol).await,
        Action::SteerTask => steer_task(host, rng).await,
        Action::SetPolicy => set_policy(host, rng).await,
    };
}

/// Removes a working drive, if the level survives that. Without accepted loss, the controller
/// refuses an order that loses data, and carries out one that loses none.
pub(crate) async fn take_out(
    host: &Host,
    action: Action,
    slot: DriveIndex,
    accept_data_loss: bool,
) -> Result<OrderResult> {
    let scene = &host.scene;
    if !scene.is_redundant() || !faults::may_lose(scene, slot) {
        return Ok(OrderResult::NotGiven);
    }
    let life = scene.machine.life.get();
    let before = scene.array.faults.borrow().clone();
    let was_relied_on = scene.array.is_relied_on(slot);
    scene.array.faults.borrow_mut().asks_out(slot, life);
    if !accept_data_loss && was_relied_on {
        scene.array.faults.borrow_mut().vouch(slot);
    }
    scene.array.note_losses();
    let answer = match host.ask(action.take_out(host.place(slot), accept_data_loss)).await {
        Ok(_) => {
            scene.did(action.event());
            OrderResult::Done
        }
        Err(error) => {
            scene.tell_of("operator", || format!("refused: {error}"));
            let answer = OrderResult::of(scene, &error);
            if answer == OrderResult::WouldLoseData {
                if accept_data_loss {
                    accuse(
                        scene,
                        format!("the controller refuses an order with accepted loss: {error}"),
                    );
                }
                scene.array.faults.borrow_mut().was_refused(slot, &before);
            } else {
                scene.array.faults.borrow_mut().doubt();
            }
            answer
        }
    };
    host.show().await?;
    scene.array.faults.borrow_mut().looked(slot);
    Ok(answer)
}

async fn add_spare(host: &Host, rng: &mut Rng) -> Result<()> {
    let scene = &host.scene;
    let Some((name, drive)) = scene.machine.replacements.borrow_mut().pop() else { return Ok(()) };
    scene.machine.known.borrow_mut().push((name.clone(), drive));
    let spare = AddSpare {
        drive: name.clone(),
        volumes: if rng.chance(1, 2) { vec![scene.setup.name().to_owned()] } else { Vec::new() },
        revertible: rng.chance(1, 2),
        destroy_data: true,
        ..AddSpare::default()
    };
    match host.ask(Command::SpareAdd(spare)).await {
        Ok(_) => {
            scene.did(Event::OperatorAddsSpare);
            scene.tell_of("operator", || format!("{name} is a spare"));
        }
        Err(error) => scene.tell_of("operator", || format!("cannot add spare {name}: {error}")),
    }
    Ok(())
}

async fn remove_spare(host: &Host) -> Result<()> {
    let spares = match host.ask(Command::SpareList {}).await {
        Ok(Reply::Spares { spares, .. }) => spares,
        _ => Vec::new(),
    };
    let Some(spare) = spares.into_iter().next() else { return Ok(()) };
    match host.ask(Command::SpareRemove { drive: spare.drive.clone() }).await {
        Ok(_) => {
            host.scene.did(Event::OperatorRemovesSpare);
            host.scene.tell_of("operator", || format!("{} is no longer a spare", spare.drive));
        }
        Err(error) => host
            .scene
            .tell_of("operator", || format!("cannot remove spare {}: {error}", spare.drive)),
    }
    Ok(())
}

async fn start(host: &Host, what: Startable) -> Result<()> {
    let volume = (what != Startable::Patrol).then(|| host.scene.setup.name().to_owned());
    match host.ask(Command::TaskStart(StartTask { what, volume, ..StartTask::default() })).await {
        Ok(_) => host.scene.did(Event::OperatorChecks),
        Err(error) => host.scene.tell_of("operator", || format!("cannot start it: {error}")),
    }
    Ok(())
}

async fn steer_task(host: &Host, rng: &mut Rng) -> Result<()> {
    let mut open = tasks(host).await;
    open.retain(|task| {
        matches!(task.state, TaskState::Running | TaskState::Paused | TaskState::Waiting)
    });
    if open.is_empty() {
        return Ok(());
    }
    let TaskInfo { task, kind, .. } = open.swap_remove(rng.below(open.len() as u64) as usize);
    let command = match rng.below(6) {
        0..=1 => Command::TaskPause { task },
        2..=3 => Command::TaskResume { task },
        4 => Command::TaskStop { task },
        _ => {
            let share_percent = Some(rng.between(1, 100) as u8);
            Command::TaskSet(SetTask { task, share_percent, ..SetTask::default() })
        }
    };
    let what = format!("{command:?}");
    let stops_move = kind == TaskKind::Reshape && matches!(command, Command::TaskStop { .. });
    let answer = match stops_move {
        true => migrations::stop(host, task).await,
        false => host.ask(command).await.map(drop),
    };
    match answer {
        Ok(()) => {
            host.scene.did(Event::OperatorSteersTasks);
            host.scene.tell_of("operator", || format!("{what} is done"));
        }
        Err(error) => host.scene.tell_of("operator", || format!("{what} is refused: {error}")),
    }
    Ok(())
}

async fn set_policy(host: &Host, rng: &mut Rng) -> Result<()> {
    let mut switch = || rng.chance(1, 2).then(|| rng.chance(1, 2));
    let (copyback, emergency_spare, mixed_kinds, drive_guard) =
        (switch(), switch(), switch(), switch());
    let share = rng.between(1, 100) as u8;
    let start_degraded = match share {
        ..25 => Some(StartDegraded::Ask),
        75.. => Some(StartDegraded::Auto),
        _ => None,
    };
    let set = SetPolicy {
        volume: host.scene.setup.name().to_owned(),
        copyback,
        emergency_spare,
        mixed_kinds,
        drive_guard,
        task_share_percent: Some(share),
        start_degraded,
        ..SetPolicy::default()
    };
    // The policy may take effect without a reply.
    host.scene
        .array
        .asks
        .set(host.scene.array.asks.get() || start_degraded == Some(StartDegraded::Ask));
    match host.ask(Command::VolumePolicy(set)).await {
        Ok(_) => {
            host.scene.did(Event::OperatorSetsPolicy);
            if start_degraded == Some(StartDegraded::Auto) {
                host.scene.array.asks.set(false);
            }
        }
        Err(error) => host.scene.tell_of("operator", || format!("refused: {error}")),
    }
    if host.scene.setup.has_cache() {
        set_write_mode(host, rng).await;
    }
    if host.scene.setup.reads.is_some() {
        set_reads(host, rng).await;
    }
    if host.scene.has_parity() && host.scene.setup.write_hole_is_drawn && rng.chance(1, 2) {
        set_write_hole(host, rng).await?;
    }
    Ok(())
}

/// An operator changes when writes are acknowledged.
async fn set_write_mode(host: &Host, rng: &mut Rng) {
    let setup = &host.scene.setup;
    let mode = if rng.chance(1, 2) { WriteMode::WriteThrough } else { setup.cached_mode };
    order_write_mode(host, mode).await;
}

/// An operator sets the write mode.
pub(crate) async fn order_write_mode(host: &Host, mode: WriteMode) {
    let volume = host.scene.setup.name().to_owned();
    let set = SetPolicy { volume, write_mode: Some(mode), ..SetPolicy::default() };
    host.scene.tell_of("operator", || format!("setting write mode {}", mode.name()));
    host.scene.on_log.answering.begin_change();
    let answer = host.ask(Command::VolumePolicy(set)).await;
    host.scene.on_log.answering.end_change();
    match answer {
        Ok(_) => host.scene.count(|tally| tally.write_modes += 1),
        Err(error) => host.scene.tell_of("operator", || format!("cannot set it: {error}")),
    }
}

/// An operator changes read-ahead and read caching.
async fn set_reads(host: &Host, rng: &mut Rng) {
    let (read_mode, cache_mode) = ReadsSetup::draw(rng);
    let volume = host.scene.setup.name().to_owned();
    let (read_mode, cache_mode) = (Some(read_mode), Some(cache_mode));
    let set = SetPolicy { volume, read_mode, cache_mode, ..SetPolicy::default() };
    host.scene.tell_of("operator", || format!("setting {read_mode:?}, {cache_mode:?}"));
    match host.ask(Command::VolumePolicy(set)).await {
        Ok(_) => host.scene.count(|tally| tally.read_modes += 1),
        Err(error) => host.scene.tell_of("operator", || format!("cannot set it: {error}")),
    }
}

/// An operator adds or removes the volume's journal.
async fn set_write_hole(host: &Host, rng: &mut Rng) -> Result<()> {
    let scene = &host.scene;
    let write_hole = if rng.chance(1, 2) { WriteHole::Journal } else { WriteHole::Resync };
    let volume = scene.setup.name().to_owned();
    let set = SetPolicy { volume, write_hole: Some(write_hole), ..SetPolicy::default() };
    scene.tell_of("operator", || format!("setting write hole {write_hole:?}"));
    // The order may take effect without a reply.
    match write_hole {
        WriteHole::Journal => {
            scene.had_journal.set(true);
            scene.way.asks_for_journal();
            scene.on_log.may_have_moved(&scene.machine.log);
        }
        WriteHole::Resync => {
            scene.gives_up_journal.set(true);
            scene.covered.set(false);
        }
    }
    let answer = host.ask(Command::VolumePolicy(set)).await;
    scene.gives_up_journal.set(false);
    match answer {
        Ok(_) => scene.did(Event::OperatorSetsWriteHole),
        Err(error) => scene.tell_of("operator", || format!("cannot set it: {error}")),
    }
    host.show().await.map(|_| ())
}
