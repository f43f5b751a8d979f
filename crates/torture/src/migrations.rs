//! Known state of reshapes, and the operator who orders them.
//!
//! # Invariants
//! All invariants of other volumes hold. During a reshape the volume survives what both layouts
//! survive. An order that a crash interrupts takes effect completely or not at all. A reshape that
//! began ends by itself when all faults are gone.
//!
//! Between order and report, both layouts are possible; checks accept both, and no journal is
//! expected.
//!
//! Added or removed drives affect a neighbour on the same drives as well: it follows the named
//! volume, and keeps its level, strip and size. `way.rs` has the allowed reports.

mod way;

use crate::error::{Error, Result};
use crate::faults;
use crate::host::{Host, out_of};
use crate::life::{Plan, RESYNC_LIMIT};
use crate::operator::{self, OperatorTask};
use crate::scene::Scene;
use crate::setup::VolumeRole;
use crate::setup::migrations::ReshapeSetup;
use controller::{Command, ReshapeVolume, VolumeInfo, WriteMode};
use platform_sim::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
pub use way::ReshapeState;
pub(crate) use way::look;

/// The incident number of reshape orders in a life, counted from the life's first incident.
const OF_MIGRATIONS: u64 = 90;

/// The number of attempts of an order that is refused temporarily.
const TRIES: u64 = 5;

/// The number of checks for obstacles while an operator waits for the end of a reshape.
const LOOKS: u64 = 50;

/// Orders the volume's next reshape in this life, if drawn.
pub(crate) fn operate(host: &Host, plan: &Plan) -> OperatorTask {
    let scene = &host.scene;
    let beside = OperatorTask::of(host);
    let number = scene.setup.first_incident(scene.machine.life.get()) + OF_MIGRATIONS;
    let mut rng = Rng::new(scene.setup.seed, "migration operator", &format!("number {number}"));
    let is_drawn = rng.chance(3, 4);
    let is_idle =
        scene.setup.migrations.is_none() || scene.setup.is_neighbour() || plan.goes_on || !is_drawn;
    if is_idle || scene.setup.without.incidents.contains(&number) {
        beside.is_done.set(true);
        return beside;
    }
    let (host, is_stopping, is_done) =
        (host.clone(), beside.is_stopping.clone(), beside.is_done.clone());
    let at_once = scene.setup.migrations.as_ref().is_some_and(|all| all.at_once);
    beside.host.env.spawn("migration operator", async move {
        for _ in 0..TRIES {
            let delay = faults::delay(&mut rng) / 4;
            let until = host.env.now() + delay;
            while host.env.now() < until && !is_stopping.get() {
                host.env.sleep(Duration::from_millis(1).min(delay)).await;
            }
            let has_come =
                !host.scene.array.may_move() || at_once && comes(&host, &is_stopping).await;
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

/// Waits until the volume and its followers have their new layout. Returns whether they have: the
/// life may end before.
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

/// An operator orders the next reshape of the volume and its followers.
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
        return Ok(()); // Replacements, or newly created drives, are not yet known here.
    }
    let along: Vec<Host> = along_of(scene, way).iter().map(|other| host.of(other)).collect();
    if setup.has_cache() {
        for of in along.iter().chain([host]) {
            operator::order_write_mode(of, WriteMode::WriteThrough).await;
        }
    }
    if scene.array.may_move() {
        return Ok(()); // Another order is pending.
    }
    let leads = along.iter().find(|other| way.is_led_by_neighbour && other.scene.is_there());
    let order = order_for(&leads.unwrap_or(host).scene, scene, (way, &names));
    scene.tell_of("operator", || {
        let (layout, name) = (&way.geometry, &order.volume);
        let with = if along.is_empty() { "" } else { ", with the neighbour" };
        format!("reshaping '{name}' to {} over {} drives{with}", layout.level(), layout.drives().0)
    });
    scene.begin_ways(leads.is_some(), names, drives);
    let answer = host.ask(Command::VolumeReshape(order)).await;
    scene.end_order();
    match answer {
        Ok(_) => scene.count(|tally| {
            tally.moves += 1;
            tally.moves_along += u64::from(!along.is_empty());
        }),
        Err(error) => scene.tell_of("operator", || format!("cannot reshape: {error}")),
    }
    host.show().await.map(|_| ())
}

/// The followers of the first volume in this reshape.
fn along_of(first: &Scene, way: &ReshapeSetup) -> Vec<Rc<Scene>> {
    let is_along = |other: &&Rc<Scene>| {
        way.moves_all() && other.setup.place == VolumeRole::SameDrives && other.may_be_there()
    };
    first.beside.iter().filter(is_along).cloned().collect()
}

/// The order. `leads`: the named volume; a neighbour keeps all but its drives.
fn order_for(
    leads: &Scene,
    first: &Scene,
    (way, names): (&ReshapeSetup, &[String]),
) -> ReshapeVolume {
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

/// An operator stops a reshape task. Before any data has moved, the reshape is rolled back; hosts
/// notice nothing.
///
/// # Errors
/// When the controller refuses.
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

/// Waits until no reshape is active. `must`: nothing prevents its end, nor that of its followers.
///
/// # Errors
/// When it must end, and does not.
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
            let said = tasks
                .iter()
                .map(|task| format!("{} {:?} {:?}", task.kind, task.state, task.reason));
            let sentence = format!(
                "the reshapes do not end: {:?}: {}",
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

/// A reshaping volume needs drives that another volume of the array does not use yet, or no longer
/// uses: the array continues without them, and an operator brings the present ones back. Returns
/// whether any returned.
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
            Err(error) => format!("drive {} cannot be brought back: {error}", slot.0),
        });
    }
    has_come
}

/// A follower does not begin without drives that it needs afterwards; the operator does what its
/// task asks for.
async fn give_drives(host: &Host) -> Result<()> {
    let tasks = operator::tasks(host).await;
    let wants_drives = |why: &String| why.contains("softroc drive replace");
    if tasks.iter().filter_map(|task| task.reason.as_ref()).any(wants_drives) {
        operator::bring_back(host, false).await?;
        operator::replace_dead(host, false).await?;
    }
    Ok(())
}
