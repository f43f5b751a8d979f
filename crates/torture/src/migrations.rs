//! What the harness knows of a volume that goes to another layout, and the operator who orders it.
//!
//! # What must hold
//! All that holds of a volume that stays what it is. On the way it survives what both layouts survive. An order that a crash cuts off is
//! carried out or was never given, whoever was told; what was begun comes to its end by itself once nothing is wrong any more.
//!
//! From the order on until the controller says by which layout the volume is, either may be: what depends on the layout is held against both.
//! Until then nobody relies on a journal.

use crate::error::{Error, Result};
use crate::faults;
use crate::host::Host;
use crate::life::{Plan, RESYNC_LIMIT};
use crate::operator::{self, AtWork};
use crate::scene::Scene;
use crate::setup::migrations;
use controller::{Command, ReshapeVolume, VolumeInfo, WriteMode};
use layout::Geometry;
use std::cell::Cell;
use std::time::Duration;
use units::{DriveCount, DriveSet};
use world_sim::{Rng, SimDrive};

/// The number of what an operator orders in a life, counted from the life's first incident.
const OF_MIGRATIONS: u64 = 90;

/// How often what is refused for now is ordered again.
const TRIES: u64 = 5;

/// Where a volume is among the layouts that were drawn for it.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// How many migrations have come to their end.
    done: Cell<usize>,
    /// Whether the next one may have begun.
    may_move: Cell<bool>,
    /// Whether it is being ordered.
    is_ordering: Cell<bool>,
    /// How often an order was given or answered: what the controller said before is not so any more.
    changes: Cell<u64>,
    /// Whether one was given in this life.
    is_of_this_life: Cell<bool>,
}

impl Way {
    /// See the field.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Knows what another one knows.
    pub fn adopt(&self, other: &Way) {
        self.done.set(other.done.get());
        self.may_move.set(other.may_move.get());
    }

    /// A process is about to start: nobody waits for an answer any more.
    pub fn begins(&self) {
        self.order(false);
        self.is_of_this_life.set(false);
    }

    fn order(&self, is_ordering: bool) {
        self.is_of_this_life.set(true);
        self.is_ordering.set(is_ordering);
        self.changes.set(self.changes.get() + 1);
    }
}

impl Scene {
    /// Whether the volume may be on its way to another layout.
    pub fn may_move(&self) -> bool {
        self.way.may_move.get()
    }

    /// The layout that the volume has; on the way, the one that it comes from.
    pub fn layout(&self) -> Geometry {
        self.setup.layout(self.way.done.get()).unwrap_or(self.setup.geometry)
    }

    /// All layouts that some of it may lie by.
    pub fn layouts(&self) -> impl Iterator<Item = Geometry> + use<> {
        let next = self.setup.layout(self.way.done.get() + 1).filter(|_| self.may_move());
        std::iter::once(self.layout()).chain(next)
    }

    /// How many drives it may lie on.
    pub fn drive_count(&self) -> DriveCount {
        self.layouts().map(|layout| layout.drives()).max().unwrap_or(self.setup.geometry.drives())
    }

    /// Whether the volume survives that these drives are lost.
    pub fn survives(&self, lost: &DriveSet) -> bool {
        self.layouts().all(|layout| layout.survives_set(lost))
    }

    /// Whether it survives that any drive is lost.
    pub fn is_redundant(&self) -> bool {
        self.layouts().all(|layout| layout.level().is_redundant())
    }

    /// Whether what is lost is computed from parity, anywhere.
    pub fn has_parity(&self) -> bool {
        self.layouts().any(|layout| layout.parity_strips() > 0)
    }

    /// Whether redundancy tells which drive is wrong where it does not agree.
    pub fn tells_who_is_wrong(&self) -> bool {
        self.layouts().all(|layout| layout.parity_strips() > 1 || layout.copies() > 2)
    }

    /// It is about to be asked for that the volume goes to the next layout: from now on it may be on its way.
    fn begin_way(&self, names: Vec<String>, drives: Vec<SimDrive>) {
        self.way.order(true);
        self.array.grow(names, drives);
        self.way.may_move.set(true);
        self.covered.set(false);
        self.synced.set(false);
        if self.has_parity() {
            self.had_journal.set(true);
            self.on_log.may_have_moved(&self.machine.log);
        }
        self.array.note_losses();
    }

    /// The controller says how the volume is. `changes`: what there was of [`Way::changes`] when it was asked.
    ///
    /// # Errors
    /// When it is by a layout that nobody asked for.
    pub(crate) fn note_way(&self, volume: &VolumeInfo, changes: u64) -> Result<()> {
        let way = &self.way;
        if self.setup.migrations().is_none() || way.is_ordering.get() || way.changes() != changes {
            return Ok(());
        }
        if volume.reshape.is_some() {
            return match self.may_move() {
                true => Ok(()),
                false => {
                    Error::wrong_state("the volume is on its way to another layout, and nobody asked for it")
                }
            };
        }
        let is_by = |layout: &Geometry| {
            let shown = (volume.level.as_str(), volume.drives.len(), volume.strip_bytes);
            shown == (layout.level().name(), layout.drives().as_usize(), layout.strip().bytes().0)
        };
        let next = self.setup.layout(way.done.get() + 1).filter(|_| self.may_move());
        match next {
            Some(next) if is_by(&next) => {
                let is_down = migrations::is_down(&self.layout(), &next);
                way.done.set(way.done.get() + 1);
                way.may_move.set(false);
                self.synced.set(false);
                // Drives that were removed are nobody's.
                self.array.shrink(next.drives());
                self.count(|tally| {
                    tally.moved += 1;
                    tally.moved_down += u64::from(is_down);
                });
                self.tell(|| {
                    format!("the volume has come to {} over {} drives", next.level(), next.drives().0)
                });
            }
            // It lost drives while it began, and cannot be recorded any more: what labels say that were written until then goes on at the next start.
            _ if is_by(&self.layout()) && !volume.state.serves() && way.is_of_this_life.get() => {}
            _ if is_by(&self.layout()) => {
                if way.may_move.replace(false) {
                    self.array.shrink(self.layout().drives());
                    self.tell(|| "the volume stays as it is".to_owned());
                }
            }
            _ => {
                let (level, drives) = (&volume.level, volume.drives.len());
                return Error::wrong_state(format!(
                    "the volume is {level} over {drives} drives, strip {}, which nobody asked for",
                    volume.strip_bytes
                ));
            }
        }
        self.array.note_losses();
        Ok(())
    }
}

/// Has an operator order in this life that the volume goes to its next layout, if that was drawn.
pub(crate) fn operate(host: &Host, plan: &Plan) -> AtWork {
    let scene = &host.scene;
    let beside = AtWork::of(host);
    let number = scene.setup.first_incident(scene.machine.life.get()) + OF_MIGRATIONS;
    let mut rng = Rng::new(scene.setup.seed, "migration operator", &format!("number {number}"));
    let is_drawn = rng.chance(3, 4);
    let is_idle = scene.setup.migrations().is_none() || plan.goes_on || !is_drawn;
    if is_idle || scene.setup.without.incidents.contains(&number) {
        beside.is_done.set(true);
        return beside;
    }
    let (host, is_stopping, is_done) = (host.clone(), beside.is_stopping.clone(), beside.is_done.clone());
    let at_once = scene.setup.migrations().is_some_and(|all| all.at_once);
    beside.host.env.spawn("migration operator", async move {
        for _ in 0..TRIES {
            let delay = faults::delay(&mut rng) / 4;
            let until = host.env.now() + delay;
            while host.env.now() < until && !is_stopping.get() {
                host.env.sleep(Duration::from_millis(1).min(delay)).await;
            }
            let has_come = !host.scene.may_move() || at_once && comes(&host, &is_stopping).await;
            if is_stopping.get() || !has_come {
                break;
            }
            host.scene.machine.story.incidents.borrow_mut().insert(number);
            if let Err(error) = order(&host).await {
                host.scene.untrue.replace(Some(error));
                break;
            }
        }
        is_done.set(true);
    });
    beside
}

/// Waits until the volume has come to its layout. Whether it has: the life may end before.
async fn comes(host: &Host, is_stopping: &Cell<bool>) -> bool {
    while host.scene.may_move() && !is_stopping.get() {
        if let Err(error) = host.show().await {
            host.scene.untrue.replace(Some(error));
            break;
        }
        host.env.sleep(Duration::from_millis(5)).await;
    }
    !host.scene.may_move()
}

/// An operator orders that the volume goes to its next layout.
async fn order(host: &Host) -> Result<()> {
    let (scene, setup) = (&host.scene, &host.scene.setup);
    let done = scene.way.done.get();
    let Some(migrations) = setup.migrations().filter(|all| done < all.ways.len()) else {
        return Ok(());
    };
    let (way, names) = (&migrations.ways[done], migrations.names_of(done));
    let Some(drives) = scene.machine.to_add(&names) else { return Ok(()) };
    let has_other_place = names.iter().any(|name| scene.array.slot_of(name).is_some());
    if has_other_place || scene.array.drives.borrow().is_empty() {
        return Ok(()); // One has taken another drive's place; or the controller has just made the first ones, and nobody has looked.
    }
    if setup.has_cache() {
        operator::order_write_mode(host, WriteMode::WriteThrough).await;
    }
    let (layout, drives_now) = (&way.geometry, scene.layout().drives().0);
    let removed = drives_now - way.removed..drives_now;
    let order = ReshapeVolume {
        volume: setup.name().to_owned(),
        level: (layout.level() != scene.layout().level()).then(|| layout.level().name().to_owned()),
        add: names.iter().map(|name| scene.machine.path_of(name.clone())).collect(),
        remove: removed.map(|slot| format!("{}:{slot}", setup.name())).collect(),
        strip_bytes: Some(layout.strip().bytes().0),
        size_bytes: (!way.is_full).then_some(setup.geometry.capacity().0),
        destroy_data: true,
        dry_run: false,
    };
    scene.tell_of("operator", || {
        format!("the volume is to go to {} over {} drives", layout.level(), layout.drives().0)
    });
    scene.begin_way(names, drives);
    let answer = host.ask(Command::VolumeReshape(order)).await;
    scene.way.order(false);
    match answer {
        Ok(_) => scene.count(|tally| tally.moves += 1),
        Err(error) => scene.tell_of("operator", || format!("it is not: {error}")),
    }
    host.show().await.map(|_| ())
}

/// An operator stops the task that moves a volume. As long as nothing has moved all of it is taken back, and hosts notice nothing.
///
/// # Errors
/// When that is refused.
pub(crate) async fn stop(host: &Host, task: u64) -> controller::Result<()> {
    let stopped = host.ask(Command::TaskStop { task }).await.map(drop);
    let end = host.env.now() + operator::PATIENCE;
    while stopped.is_ok() && host.env.now() < end {
        let open = operator::tasks(host).await;
        if !open.iter().any(|open| open.task == task && !open.state.is_over()) {
            break;
        }
        host.env.sleep(Duration::from_millis(1)).await;
    }
    stopped
}

/// Waits until the volume is not on its way any more. `must`: nothing keeps it from coming to its layout.
///
/// # Errors
/// When it does not, though it must.
pub(crate) async fn arrive(host: &Host, must: bool) -> Result<()> {
    let end = host.env.now() + RESYNC_LIMIT;
    while host.scene.may_move() {
        let shown = host.show().await?;
        if !host.scene.may_move() || !shown.state.serves() && !must {
            break;
        }
        if host.env.now() > end {
            let tasks = operator::tasks(host).await;
            let said = tasks.iter().map(|task| format!("{} {:?} {:?}", task.kind, task.state, task.reason));
            let sentence = format!(
                "the volume does not come to its layout: {:?}: {}",
                shown.reshape,
                said.collect::<Vec<_>>().join("; ")
            );
            return if must { Err(Error::new(crate::ErrorKind::Stall, sentence)) } else { Ok(()) };
        }
        operator::resume_tasks(host).await?;
        host.env.sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
