//! The operator of log devices: adds and removes logs during writes.

use super::{LogState, judge, log_in_use, look, present};
use crate::faults::delay;
use crate::host::Host;
use crate::life::Plan;
use crate::operator::OperatorTask;
use crate::tally::Event;
use controller::Command;
use platform_sim::Rng;
use std::time::Duration;

/// The first incident number of log operations in a life, counted from the life's first incident.
const OF_OPERATORS: u64 = 80;

/// Runs the drawn log operations of this life; none in the last life.
pub(crate) fn operate(host: &Host, plan: &Plan) -> OperatorTask {
    let scene = &host.scene;
    let beside = OperatorTask::of(host);
    let life = scene.machine.life.get();
    let stream = |instance: String| Rng::new(scene.setup.seed, "log operator", &instance);
    let is_idle =
        scene.setup.log.is_none() || scene.setup.is_neighbour() || plan.is_last || plan.goes_on;
    let count = if is_idle { 0 } else { stream(life.to_string()).below(4) };
    let numbers = (0..count).map(|index| scene.setup.first_incident(life) + OF_OPERATORS + index);
    let numbers = numbers.filter(|number| !scene.setup.without.incidents.contains(number));
    let numbers: Vec<u64> = numbers.collect();
    let (host, is_stopping, is_done) =
        (host.clone(), beside.is_stopping.clone(), beside.is_done.clone());
    if numbers.is_empty() {
        is_done.set(true);
        return beside;
    }
    beside.host.env.spawn("log operator", async move {
        for number in numbers {
            let mut rng =
                Rng::new(host.scene.setup.seed, "log operator", &format!("number {number}"));
            let delay = delay(&mut rng) / 4;
            let until = host.env.now() + delay;
            while host.env.now() < until && !is_stopping.get() {
                host.env.sleep(Duration::from_millis(1).min(delay)).await;
            }
            if is_stopping.get() {
                break;
            }
            host.scene.machine.story.incidents.borrow_mut().insert(number);
            if let Err(error) = act(&host, number, &mut rng).await {
                host.scene.untrue.replace(Some(error));
                break;
            }
        }
        is_done.set(true);
    });
    beside
}

/// Adds a log if there is none; removes the existing one, and possibly adds another one
/// immediately.
async fn act(host: &Host, number: u64, rng: &mut Rng) -> crate::Result<()> {
    let (is_none, adds) =
        (host.scene.machine.log.standing.get() == LogState::None, rng.chance(1, 2));
    if !is_none {
        remove(host, number).await?;
    }
    if is_none || adds {
        add(host, number, rng).await?;
    }
    Ok(())
}

/// Earlier reports about journals are void from now on.
fn begin(host: &Host) {
    let scene = &host.scene;
    scene.machine.log.change(true);
    for volume in scene.volumes() {
        volume.covered.set(false);
        volume.on_log.is_told.set(false);
        volume.on_log.answering.forget();
        volume.on_log.has_it.borrow_mut().clear();
        // Devices that returned belong to the earlier log.
        volume.on_log.came_back.borrow_mut().clear();
    }
}

async fn add(host: &Host, number: u64, rng: &mut Rng) -> crate::Result<()> {
    let (scene, log) = (&host.scene, &host.scene.machine.log);
    if log.standing.get() != LogState::None {
        return Ok(());
    }
    let mut names = super::names(&scene.setup);
    names.retain(|name| present(&scene.machine, name));
    rng.shuffle(&mut names);
    names.truncate(rng.between(1, 2) as usize);
    if names.is_empty() {
        return Ok(());
    }
    let drives: Vec<String> =
        names.iter().map(|name| scene.machine.path_of(name.clone())).collect();
    scene
        .tell_of("operator", || format!("adding log {} (incident {number})", drives.join(" and ")));
    begin(host);
    log.standing.set(LogState::Perhaps);
    log.devices.replace(names.clone());
    // A pending fault of a device stays pending although the device is relabelled.
    let faulty = log.faulty.borrow().clone();
    log.serving.replace(names.into_iter().filter(|name| !faulty.contains(name)).collect());
    for volume in scene.volumes().iter().filter(|volume| volume.has_parity()) {
        volume.on_log.may_wait.set(true);
    }
    let add =
        |destroy_data| Command::LogAdd { drives: drives.clone(), destroy_data, same_disk_ok: true };
    let mut answer = host.ask(add(rng.chance(1, 2))).await;
    if answer.is_err() {
        answer = host.ask(add(true)).await;
    }
    match answer {
        Ok(_) => {
            log.standing.set(LogState::InUse);
            scene.did(Event::OperatorAddsLog);
            scene.tell_of("operator", || "the log is added".to_owned());
        }
        Err(error) => scene.tell_of("operator", || format!("cannot add the log: {error}")),
    }
    // Reports about journals count only when the devices of the new log are known.
    judge(host, &log_in_use(host).await?)?;
    log.change(false);
    host.show().await.map(|_| ())
}

async fn remove(host: &Host, number: u64) -> crate::Result<()> {
    let (scene, log) = (&host.scene, &host.scene.machine.log);
    let devices = log.devices();
    let here = devices.iter().find(|name| present(&scene.machine, name)).or(devices.first());
    let Some(name) = here.cloned() else { return Ok(()) };
    let drive = scene.machine.path_of(name);
    scene.tell_of("operator", || format!("removing the log of {drive} (incident {number})"));
    begin(host);
    log.standing.set(LogState::Perhaps);
    let answer = host.ask(Command::LogRemove { drive }).await;
    log.change(false);
    match answer {
        Ok(_) => {
            log.standing.set(LogState::None);
            log.devices.take();
            log.serving.take();
            scene.did(Event::OperatorRemovesLog);
            scene.tell_of("operator", || "the log is removed".to_owned());
        }
        Err(error) => scene.tell_of("operator", || format!("cannot remove the log: {error}")),
    }
    look(host).await?;
    host.show().await.map(|_| ())
}
