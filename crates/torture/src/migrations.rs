//! What the harness knows of a volume that goes to another layout, and the operator who orders it.
//!
//! # What must hold
//! All that holds of a volume that stays what it is. On the way it survives what both layouts survive. An order that a crash cuts off is
//! carried out or was never given, whoever was told; what was begun comes to its end by itself once nothing is wrong any more.
//!
//! From the order on until the controller says by which layout the volume is, either may be: what depends on the layout is held against both.
//! Until then nobody relies on a journal.
//!
//! Drives that come or go do so for a neighbour on the same drives as well: it moves along, after the one that the order names, and keeps its level, its strip and its
//! size. What the controller may say of the two at one time: `way.rs`.

mod way;

use crate::error::{Error, Result};
use crate::faults;
use crate::host::{Host, out_of};
use crate::life::{Plan, RESYNC_LIMIT};
use crate::operator::{self, AtWork};
use crate::scene::Scene;
use crate::setup::Place;
use crate::setup::migrations::WaySetup;
use controller::{Command, ReshapeVolume, VolumeInfo, WriteMode};
use platform_sim::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
pub use way::Way;
pub(crate) use way::look;

/// The number of what an operator orders in a life, counted from the life's first incident.
const OF_MIGRATIONS: u64 = 90;

/// How often what is refused for now is ordered again.
const TRIES: u64 = 5;

/// How often an operator who waits for volumes to come to their layout looks what keeps them.
const LOOKS: u64 = 50;

/// Has an operator order in this life that the volume goes to its next layout, if that was drawn.
pub(crate) fn operate(host: &Host, plan: &Plan) -> AtWork {
    let scene = &host.scene;
    let beside = AtWork::of(host);
    let number = scene.setup.first_incident(scene.machine.life.get()) + OF_MIGRATIONS;
    let mut rng = Rng::new(scene.setup.seed, "migration operator", &format!("number {number}"));
    let is_drawn = rng.chance(3, 4);
    let is_idle = scene.setup.migrations.is_none() || scene.setup.is_neighbour() || plan.goes_on || !is_drawn;
    if is_idle || scene.setup.without.incidents.contains(&number) {
        beside.is_done.set(true);
        return beside;
    }
    let (host, is_stopping, is_done) = (host.clone(), beside.is_stopping.clone(), beside.is_done.clone());
    let at_once = scene.setup.migrations.as_ref().is_some_and(|all| all.at_once);
    beside.host.env.spawn("migration operator", async move {
        for _ in 0..TRIES {
            let delay = faults::delay(&mut rng) / 4;
            let until = host.env.now() + delay;
            while host.env.now() < until && !is_stopping.get() {
                host.env.sleep(Duration::from_millis(1).min(delay)).await;
            }
            let has_come = !host.scene.array.may_move() || at_once && comes(&host, &is_stopping).await;
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

/// Waits until the volume has come to its layout, and those that move along. Whether they have: the life may end before.
async fn comes(host: &Host, is_stopping: &Cell<bool>) -> bool {
    while host.scene.array.may_move() && !is_stopping.get() {
        if let Err(error) = host.show().await {
            host.scene.untrue.replace(Some(error));
            break;
        }
        host.env.sleep(Duration::from_millis(5)).await;
    }
    !host.scene.array.may_move()
}

/// An operator orders that the volume goes to its next layout; with those that move along.
async fn order(host: &Host) -> Result<()> {
    let (scene, setup) = (&host.scene, &host.scene.setup);
    let done = scene.way.done();
    let Some(migrations) = setup.migrations.as_ref().filter(|all| done < all.ways.len()) else {
        return Ok(());
    };
    let (way, names) = (&migrations.ways[done], migrations.names_of(done));
    let Some(drives) = scene.machine.to_add(&names) else { return Ok(()) };
    let has_other_place = names.iter().any(|name| scene.array.slot_of(name).is_some());
    if has_other_place || scene.array.drives.borrow().is_empty() {
        return Ok(()); // One has taken another drive's place; or the controller has just made the first ones, and nobody has looked.
    }
    let along: Vec<Host> = along_of(scene, way).iter().map(|other| host.of(other)).collect();
    if setup.has_cache() {
        for of in along.iter().chain([host]) {
            operator::order_write_mode(of, WriteMode::WriteThrough).await;
        }
    }
    if scene.array.may_move() {
        return Ok(()); // Something else was ordered meanwhile.
    }
    let leads = along.iter().find(|other| way.is_led_by_neighbour && other.scene.is_there());
    let order = order_for(&leads.unwrap_or(host).scene, scene, (way, &names));
    scene.tell_of("operator", || {
        let (layout, name) = (&way.geometry, &order.volume);
        let with = if along.is_empty() { "" } else { ", and the other one along" };
        format!("'{name}' is to go to {} over {} drives{with}", layout.level(), layout.drives().0)
    });
    scene.begin_ways(leads.is_some(), names, drives);
    let answer = host.ask(Command::VolumeReshape(order)).await;
    scene.end_order();
    match answer {
        Ok(_) => scene.count(|tally| {
            tally.moves += 1;
            tally.moves_along += u64::from(!along.is_empty());
        }),
        Err(error) => scene.tell_of("operator", || format!("it is not: {error}")),
    }
    host.show().await.map(|_| ())
}

/// The volumes that move along if the first one goes that way.
fn along_of(first: &Scene, way: &WaySetup) -> Vec<Rc<Scene>> {
    let is_along = |other: &&Rc<Scene>| {
        way.moves_all() && other.setup.place == Place::SameDrives && other.may_be_there()
    };
    first.beside.iter().filter(is_along).cloned().collect()
}

/// What an operator asks for. `leads`: the volume that he names, of which a neighbour stays what it is but for its drives.
fn order_for(leads: &Scene, first: &Scene, (way, names): (&WaySetup, &[String])) -> ReshapeVolume {
    let (layout, drives_now) = (&way.geometry, first.layout().drives().0);
    let removed = drives_now - way.removed..drives_now;
    let order = ReshapeVolume {
        volume: leads.setup.name().to_owned(),
        add: names.iter().map(|name| first.machine.path_of(name.clone())).collect(),
        remove: removed.map(|slot| format!("{}:{slot}", first.setup.name())).collect(),
        size_bytes: (!way.is_full).then_some(leads.setup.geometry.capacity().0),
        destroy_data: true,
        ..ReshapeVolume::default()
    };
    if leads.setup.is_neighbour() {
        return order;
    }
    ReshapeVolume {
        level: (layout.level() != first.layout().level()).then(|| layout.level().name().to_owned()),
        strip_bytes: Some(layout.strip().bytes().0),
        ..order
    }
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

/// Waits until the volume is not on its way any more. `must`: nothing keeps it from coming to its layout, nor those that move along.
///
/// # Errors
/// When it does not, though it must.
pub(crate) async fn arrive(host: &Host, must: bool) -> Result<()> {
    let end = host.env.now() + RESYNC_LIMIT;
    let is_awaited = || host.scene.may_move() || must && host.scene.array.may_move();
    for look in 1.. {
        if !is_awaited() {
            break;
        }
        let shown = host.show().await?;
        if !is_awaited() || !shown.state.serves() && !must {
            break;
        }
        if host.env.now() > end {
            let tasks = operator::tasks(host).await;
            let said = tasks.iter().map(|task| format!("{} {:?} {:?}", task.kind, task.state, task.reason));
            let sentence = format!(
                "the volumes do not come to their layout: {:?}: {}",
                shown.reshape,
                said.collect::<Vec<_>>().join("; ")
            );
            return if must { Err(Error::new(crate::ErrorKind::Stall, sentence)) } else { Ok(()) };
        }
        operator::resume_tasks(host).await?;
        if must && look % LOOKS == 0 {
            give_drives(host).await?;
        }
        host.env.sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// A volume that has begun needs drives that another one of its array does not lie on yet, or any more: the array goes on without them, and an operator brings
/// those back that are there, as is said. Whether any came.
pub(crate) async fn bring_back_lost(host: &Host, shown: &VolumeInfo) -> bool {
    let scene = &host.scene;
    if !scene.array.may_move() {
        return false;
    }
    let gone = scene.array.faults.borrow().gone();
    let mut has_come = false;
    for slot in out_of(shown).minus(&gone).iter() {
        let order = operator::back(&shown.drives[slot.as_usize()], host.place(slot));
        let answer = host.ask(order).await;
        has_come |= answer.is_ok();
        scene.tell_of("operator", || match answer {
            Ok(_) => format!("drive {} is brought back: a volume needs it", slot.0),
            Err(error) => format!("drive {} is not brought back: {error}", slot.0),
        });
    }
    has_come
}

/// One that moves along does not begin without drives that it could not do without afterwards; an operator does what its task says.
async fn give_drives(host: &Host) -> Result<()> {
    let tasks = operator::tasks(host).await;
    let wants_drives = |why: &String| why.contains("softroc drive replace");
    if tasks.iter().filter_map(|task| task.reason.as_ref()).any(wants_drives) {
        operator::bring_back(host, false).await?;
        operator::replace_dead(host, false).await?;
    }
    Ok(())
}
