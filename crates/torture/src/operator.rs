//! What an operator does: brings drives back, replaces them, and, at random times beside the requests, whatever an
//! operator may.

use crate::error::{Error, Result};
use crate::faults::{self, OPERATORS};
use crate::host::{Host, out_of};
use crate::life::Plan;
use crate::migrations;
use crate::refusals::accuse;
use crate::setup::{Place, ReadsSetup};
use crate::tally::Deed;
use controller::{
    AddSpare, Command, DriveInfo, DriveState, Reply, SetPolicy, SetTask, StartDegraded, StartTask, Startable,
    SuspendedBy, TaskInfo, TaskKind, TaskState, VolumeInfo, WriteHole, WriteMode,
};
use platform_sim::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::DriveIndex;

/// How long an operator tries again what is refused for now.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An operator at work on one thing beside the requests.
pub(crate) struct AtWork {
    pub(crate) host: Host,
    pub(crate) is_stopping: Rc<Cell<bool>>,
    pub(crate) is_done: Rc<Cell<bool>>,
}

impl AtWork {
    /// One who has not begun.
    pub fn of(host: &Host) -> AtWork {
        AtWork { host: host.clone(), is_stopping: Rc::default(), is_done: Rc::default() }
    }

    /// Waits until he has done what he is doing; he begins nothing more.
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

/// The order to bring a drive back, as it is shown.
pub(crate) fn back(shown: &DriveInfo, drive: String) -> Command {
    match is_suspended_by_operator(shown) {
        true => Command::DriveResume { drive },
        false => Command::DriveOnline { drive },
    }
}

/// Whether a slot has a drive again, if only to be rebuilt.
fn has_come_back(shown: &VolumeInfo, slot: DriveIndex) -> bool {
    !out_of(shown).contains(slot) || shown.drives[slot.as_usize()].state == DriveState::Rebuilding
}

/// An operator brings every drive back that is out and there. `must`: nothing keeps him from it.
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
                    scene.did(if is_resumed { Deed::OperatorResumes } else { Deed::OperatorBringsBack });
                    scene.tell_of("operator", || format!("drive {} is brought back", slot.0));
                    break;
                }
                // It came back by itself, or another one has its place by now.
                Err(_) if has_come_back(&host.show().await?, slot) => break,
                // It may still have operations under way from before it went out: they return some time.
                Err(_) if must && host.env.now() < end => host.env.sleep(Duration::from_millis(100)).await,
                Err(error) if must => {
                    return Error::wrong_state(format!("drive {} is not taken back: {error}", slot.0));
                }
                Err(error) => {
                    scene.tell_of("operator", || format!("drive {} is not taken back: {error}", slot.0));
                    break;
                }
            }
        }
    }
    Ok(())
}

/// An operator has other drives take the places of those that died. `must`: nothing keeps him from it.
pub(crate) async fn replace_dead(host: &Host, must: bool) -> Result<()> {
    let scene = &host.scene;
    let shown = host.show().await?;
    let dead = scene.array.faults.borrow().dead();
    for slot in out_of(&shown).intersection(&dead).iter() {
        let has_one = !scene.machine.replacements.borrow().is_empty();
        match replace(host, slot).await? {
            Some(error) if must => {
                // A spare may have taken the place just now.
                let shown = host.show().await?;
                let is_filled = shown.drives[slot.as_usize()].state == DriveState::Rebuilding;
                if !is_filled && out_of(&shown).contains(slot) {
                    return Error::wrong_state(format!("drive {} is not replaced: {error}", slot.0));
                }
            }
            None if has_one => scene.did(Deed::OperatorReplacesDead),
            _ => {}
        }
    }
    Ok(())
}

/// An operator has another drive take the place of one that serves.
async fn replace_serving(host: &Host, slot: DriveIndex) -> Result<()> {
    let shown = host.show().await?;
    let has_one = !host.scene.machine.replacements.borrow().is_empty();
    if out_of(&shown).is_empty() && has_one && replace(host, slot).await?.is_none() {
        host.scene.did(Deed::OperatorReplacesServing);
    }
    Ok(())
}

/// Has the next drive take a place, if there is one. Why it was refused, if it was.
async fn replace(host: &Host, slot: DriveIndex) -> Result<Option<controller::Error>> {
    let scene = &host.scene;
    let Some((name, drive)) = scene.machine.replacements.borrow_mut().pop() else { return Ok(None) };
    scene.machine.known.borrow_mut().push((name.clone(), drive));
    scene.tell_of("operator", || format!("drive {} is to be replaced by {name}", slot.0));
    let which = host.place(slot);
    let replace = Command::DriveReplace { drive: which, with: name, destroy_data: true };
    match host.ask(replace).await {
        Ok(_) => {
            host.show().await?;
            Ok(None)
        }
        Err(error) => {
            scene.tell_of("operator", || format!("it is not: {error}"));
            Ok(Some(error))
        }
    }
}

/// An operator lets every task go on that was paused or stopped: what waits for its end would wait for ever.
pub(crate) async fn resume_tasks(host: &Host) -> Result<()> {
    for task in tasks(host).await {
        if matches!(task.state, TaskState::Paused | TaskState::Stopped) {
            let resumed = host.ask(Command::TaskResume { task: task.task }).await;
            host.scene.tell_of("operator", || match resumed {
                Ok(_) => format!("task {} ({}) is resumed", task.task, task.kind),
                Err(error) => format!("task {} ({}) is not resumed: {error}", task.task, task.kind),
            });
        }
    }
    Ok(())
}

/// An operator stops every task, and waits until they have ended: those that were begun before go on with a start.
pub(crate) async fn stop_tasks(host: &Host) {
    for task in tasks(host).await.into_iter().filter(|task| !task.state.is_over()) {
        let stopped = host.ask(Command::TaskStop { task: task.task }).await;
        host.scene.tell_of("operator", || match stopped {
            Ok(_) => format!("task {} ({}) is stopped", task.task, task.kind),
            Err(error) => format!("task {} ({}) is not stopped: {error}", task.task, task.kind),
        });
    }
    // What a task has under way comes to its end first.
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

/// What an operator may do at any time.
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
    /// The drives that several volumes lie on are the business of the first one's operator.
    fn fit_for(self, place: Place) -> Action {
        let is_of_volume =
            matches!(self, Action::Check | Action::Repair | Action::SteerTask | Action::SetPolicy);
        if is_of_volume || place != Place::SameDrives { self } else { Action::SetPolicy }
    }
}

impl Action {
    /// The order to take a drive out, which is declared failed, taken offline or suspended; that accepts no loss.
    pub(crate) fn take_out(self, drive: String, accept_data_loss: bool) -> Command {
        let (accepted, dry_run) = (None, false);
        match self {
            Action::Fail => Command::DriveFail { drive, accept_data_loss, accepted, dry_run },
            Action::Suspend => Command::DriveSuspend { drive, accepted, dry_run },
            _ => Command::DriveOffline { drive, accept_data_loss, accepted, dry_run },
        }
    }

    /// What is counted when that is done.
    pub(crate) fn deed(self) -> Deed {
        match self {
            Action::Fail => Deed::OperatorFails,
            Action::Suspend => Deed::OperatorSuspends,
            _ => Deed::OperatorTakesOffline,
        }
    }
}

/// What became of an order to take a drive out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It was not given: the level does not survive it.
    NotGiven,
    /// It was carried out.
    Done,
    /// It was refused, as it would lose data and does not accept that.
    WouldLoseData,
    /// It was refused for the state of the volume or the drive.
    Refused,
    /// It failed otherwise.
    Failed,
}

/// An operator at work beside requests.
pub(crate) struct Beside {
    host: Host,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopping: Cell<bool>,
    done: Cell<bool>,
}

impl Beside {
    /// Waits until he has done what he is doing; he begins nothing more.
    pub async fn stop(self) {
        self.shared.stopping.set(true);
        while !self.shared.done.get() {
            self.host.env.sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Has an operator do in this life what was drawn for him; nothing in the last one.
pub(crate) fn plan(host: &Host, plan: &Plan) -> Beside {
    let shared = Rc::new(Shared::default());
    let beside = Beside { host: host.clone(), shared: shared.clone() };
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

/// Does one thing. What is refused is refused; whether it was done rightly shows in what the volume holds.
async fn act(host: &Host, number: u64, rng: &mut Rng) {
    let scene = &host.scene;
    let action = Action::draw(rng).fit_for(scene.setup.place);
    let slot = DriveIndex(rng.below(u64::from(scene.layout().drives().0)) as u16);
    scene.machine.story.incidents.borrow_mut().insert(number);
    scene.tell_of("operator", || format!("{action:?} (incident {number})"));
    // Nothing but a lost volume keeps these from being asked: the next look tells of that.
    let _ = match action {
        Action::Fail | Action::TakeOffline | Action::Suspend => {
            // Draws of its own: histories of seeds that were kept stay what they are where the loss is accepted.
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

/// Takes a drive out that serves, where the level survives it. Without a word that accepts a loss, the controller refuses what costs data;
/// what it does not refuse costs none.
pub(crate) async fn take_out(
    host: &Host,
    action: Action,
    slot: DriveIndex,
    accept_data_loss: bool,
) -> Result<Answer> {
    let scene = &host.scene;
    if !scene.is_redundant() || !faults::may_lose(scene, slot) {
        return Ok(Answer::NotGiven);
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
            scene.did(action.deed());
            Answer::Done
        }
        Err(error) => {
            scene.tell_of("operator", || format!("it is refused: {error}"));
            let answer = Answer::of(scene, &error);
            if answer == Answer::WouldLoseData {
                if accept_data_loss {
                    accuse(scene, format!("a loss that is accepted is refused: {error}"));
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
            scene.did(Deed::OperatorAddsSpare);
            scene.tell_of("operator", || format!("{name} is a spare"));
        }
        Err(error) => scene.tell_of("operator", || format!("{name} is no spare: {error}")),
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
            host.scene.did(Deed::OperatorRemovesSpare);
            host.scene.tell_of("operator", || format!("{} is a spare no longer", spare.drive));
        }
        Err(error) => host.scene.tell_of("operator", || format!("{} stays a spare: {error}", spare.drive)),
    }
    Ok(())
}

async fn start(host: &Host, what: Startable) -> Result<()> {
    let volume = (what != Startable::Patrol).then(|| host.scene.setup.name().to_owned());
    match host.ask(Command::TaskStart(StartTask { what, volume, ..StartTask::default() })).await {
        Ok(_) => host.scene.did(Deed::OperatorChecks),
        Err(error) => host.scene.tell_of("operator", || format!("it is not begun: {error}")),
    }
    Ok(())
}

async fn steer_task(host: &Host, rng: &mut Rng) -> Result<()> {
    let mut open = tasks(host).await;
    open.retain(|task| matches!(task.state, TaskState::Running | TaskState::Paused | TaskState::Waiting));
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
            host.scene.did(Deed::OperatorSteersTasks);
            host.scene.tell_of("operator", || format!("{what} is done"));
        }
        Err(error) => host.scene.tell_of("operator", || format!("{what} is refused: {error}")),
    }
    Ok(())
}

async fn set_policy(host: &Host, rng: &mut Rng) -> Result<()> {
    let mut switch = || rng.chance(1, 2).then(|| rng.chance(1, 2));
    let (copyback, emergency_spare, mixed_kinds, drive_guard) = (switch(), switch(), switch(), switch());
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
    // It may be recorded though the answer never comes.
    host.scene.array.asks.set(host.scene.array.asks.get() || start_degraded == Some(StartDegraded::Ask));
    match host.ask(Command::VolumePolicy(set)).await {
        Ok(_) => {
            host.scene.did(Deed::OperatorSetsPolicy);
            if start_degraded == Some(StartDegraded::Auto) {
                host.scene.array.asks.set(false);
            }
        }
        Err(error) => host.scene.tell_of("operator", || format!("it is refused: {error}")),
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

/// An operator has hosts told at another time that their writes are done.
async fn set_write_mode(host: &Host, rng: &mut Rng) {
    let setup = &host.scene.setup;
    let mode = if rng.chance(1, 2) { WriteMode::WriteThrough } else { setup.cached_mode };
    order_write_mode(host, mode).await;
}

/// An operator says when hosts are told that their writes are done.
pub(crate) async fn order_write_mode(host: &Host, mode: WriteMode) {
    let volume = host.scene.setup.name().to_owned();
    let set = SetPolicy { volume, write_mode: Some(mode), ..SetPolicy::default() };
    host.scene.tell_of("operator", || format!("the volume is to be {}", mode.name()));
    host.scene.on_log.answering.begin_change();
    let answer = host.ask(Command::VolumePolicy(set)).await;
    host.scene.on_log.answering.end_change();
    match answer {
        Ok(_) => host.scene.count(|tally| tally.write_modes += 1),
        Err(error) => host.scene.tell_of("operator", || format!("it is not: {error}")),
    }
}

/// An operator has the volume read ahead, or keep what was read, or not.
async fn set_reads(host: &Host, rng: &mut Rng) {
    let (read_mode, cache_mode) = ReadsSetup::draw(rng);
    let volume = host.scene.setup.name().to_owned();
    let (read_mode, cache_mode) = (Some(read_mode), Some(cache_mode));
    let set = SetPolicy { volume, read_mode, cache_mode, ..SetPolicy::default() };
    host.scene.tell_of("operator", || format!("the volume is to be {read_mode:?}, {cache_mode:?}"));
    match host.ask(Command::VolumePolicy(set)).await {
        Ok(_) => host.scene.count(|tally| tally.read_modes += 1),
        Err(error) => host.scene.tell_of("operator", || format!("it is not: {error}")),
    }
}

/// An operator gives the volume a journal, or takes it away.
async fn set_write_hole(host: &Host, rng: &mut Rng) -> Result<()> {
    let scene = &host.scene;
    let write_hole = if rng.chance(1, 2) { WriteHole::Journal } else { WriteHole::Resync };
    let volume = scene.setup.name().to_owned();
    let set = SetPolicy { volume, write_hole: Some(write_hole), ..SetPolicy::default() };
    scene.tell_of("operator", || format!("its write hole is to be {write_hole:?}"));
    // It may be so though the answer never comes.
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
        Ok(_) => scene.did(Deed::OperatorSetsWriteHole),
        Err(error) => scene.tell_of("operator", || format!("it is not: {error}")),
    }
    host.show().await.map(|_| ())
}
