//! What an operator does with log devices: adds a log and removes it, while hosts write.

use super::{Standing, judge, log_in_use, look, present};
use crate::faults::delay;
use crate::host::Host;
use crate::life::Plan;
use crate::operator::AtWork;
use crate::tally::Deed;
use controller::Command;
use platform_sim::Rng;
use std::time::Duration;

/// The number of the first of what is done to logs in a life, counted from the life's first incident.
const OF_OPERATORS: u64 = 80;

/// Has an operator do to logs, in this life, what was drawn for him; nothing in the last one.
pub(crate) fn operate(host: &Host, plan: &Plan) -> AtWork {
    let scene = &host.scene;
    let beside = AtWork::of(host);
    let life = scene.machine.life.get();
    let stream = |instance: String| Rng::new(scene.setup.seed, "log operator", &instance);
    let is_idle = scene.setup.log.is_none() || scene.setup.is_neighbour() || plan.is_last || plan.goes_on;
    let count = if is_idle { 0 } else { stream(life.to_string()).below(4) };
    let numbers = (0..count).map(|index| scene.setup.first_incident(life) + OF_OPERATORS + index);
    let numbers = numbers.filter(|number| !scene.setup.without.incidents.contains(number));
    let numbers: Vec<u64> = numbers.collect();
    let (host, is_stopping, is_done) = (host.clone(), beside.is_stopping.clone(), beside.is_done.clone());
    if numbers.is_empty() {
        is_done.set(true);
        return beside;
    }
    beside.host.env.spawn("log operator", async move {
        for number in numbers {
            let mut rng = Rng::new(host.scene.setup.seed, "log operator", &format!("number {number}"));
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

/// Adds a log where there is none; removes the one that there is, and perhaps adds another one at once.
async fn act(host: &Host, number: u64, rng: &mut Rng) -> crate::Result<()> {
    let (is_none, adds) = (host.scene.machine.log.standing.get() == Standing::None, rng.chance(1, 2));
    if !is_none {
        remove(host, number).await?;
    }
    if is_none || adds {
        add(host, number, rng).await?;
    }
    Ok(())
}

/// From now on nobody relies on what was said of journals, until it is said anew.
fn begin(host: &Host) {
    let scene = &host.scene;
    scene.machine.log.change(true);
    for volume in scene.volumes() {
        volume.covered.set(false);
        volume.on_log.is_told.set(false);
        volume.on_log.answering.forget();
        volume.on_log.has_it.borrow_mut().clear();
        // What came back was of the log before.
        volume.on_log.came_back.borrow_mut().clear();
    }
}

async fn add(host: &Host, number: u64, rng: &mut Rng) -> crate::Result<()> {
    let (scene, log) = (&host.scene, &host.scene.machine.log);
    if log.standing.get() != Standing::None {
        return Ok(());
    }
    let mut names = super::names(&scene.setup);
    names.retain(|name| present(&scene.machine, name));
    rng.shuffle(&mut names);
    names.truncate(rng.between(1, 2) as usize);
    if names.is_empty() {
        return Ok(());
    }
    let drives: Vec<String> = names.iter().map(|name| scene.machine.path_of(name.clone())).collect();
    scene.tell_of("operator", || {
        format!("journals are to lie on {} (incident {number})", drives.join(" and "))
    });
    begin(host);
    log.standing.set(Standing::Perhaps);
    log.devices.replace(names.clone());
    // A fault that has not struck yet is not over because the device has another label now.
    let faulty = log.faulty.borrow().clone();
    log.serving.replace(names.into_iter().filter(|name| !faulty.contains(name)).collect());
    for volume in scene.volumes().iter().filter(|volume| volume.has_parity()) {
        volume.on_log.may_wait.set(true);
    }
    let add = |destroy_data| Command::LogAdd { drives: drives.clone(), destroy_data, same_disk_ok: true };
    let mut answer = host.ask(add(rng.chance(1, 2))).await;
    if answer.is_err() {
        answer = host.ask(add(true)).await;
    }
    match answer {
        Ok(_) => {
            log.standing.set(Standing::InUse);
            scene.did(Deed::OperatorAddsLog);
            scene.tell_of("operator", || "journals lie on a log".to_owned());
        }
        Err(error) => scene.tell_of("operator", || format!("no log is added: {error}")),
    }
    // Nobody relies on what is said of journals before it is known which devices that log has.
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
    scene.tell_of("operator", || format!("the log is to be removed, by {drive} (incident {number})"));
    begin(host);
    log.standing.set(Standing::Perhaps);
    let answer = host.ask(Command::LogRemove { drive }).await;
    log.change(false);
    match answer {
        Ok(_) => {
            log.standing.set(Standing::None);
            log.devices.take();
            log.serving.take();
            scene.did(Deed::OperatorRemovesLog);
            scene.tell_of("operator", || "no journal lies on a log".to_owned());
        }
        Err(error) => scene.tell_of("operator", || format!("the log is not removed: {error}")),
    }
    look(host).await?;
    host.show().await.map(|_| ())
}
