//! A volume that waits for its log, or for the cache's memory: whether it may, and the operator's
//! actions.

use super::faults::put_back;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::life::Plan;
use crate::tally::Event;
use controller::{Command, DiscardLog, Discarded, VolumeInfo};
use platform_sim::Rng;

/// Whether a volume is offline because the cache's memory is missing.
fn lacks_memory(volume: &VolumeInfo) -> bool {
    volume.reasons.iter().any(|why| why.contains("in the cache memory of another"))
}

/// Whether an offline volume waits for its log, or for the cache's memory.
///
/// # Errors
/// When it must not wait.
pub(crate) fn waits(host: &Host, volume: &VolumeInfo) -> Result<bool> {
    if !volume.reasons.iter().any(|why| why.contains("softroc log discard")) {
        return Ok(false);
    }
    let (scene, on) = (&host.scene, &host.scene.on_log);
    let reasons = volume.reasons.join("; ");
    if lacks_memory(volume) {
        scene.tell(|| format!("the volume waits for the cache's memory: {reasons}"));
        return match scene.machine.lost_memory.get() {
            true => Ok(true),
            false => Error::wrong_state(format!(
                "the volume waits for cache memory that is present: {reasons}"
            )),
        };
    }
    scene.tell(|| format!("the volume waits for its log: {reasons}"));
    let has_it: Vec<String> = on.has_it.borrow().iter().cloned().collect();
    if !has_it.is_empty() {
        return Error::wrong_state(format!(
            "the volume waits for its log, although {} has its records: {reasons}",
            has_it.join(" and ")
        ));
    }
    if !on.may_wait_after(scene.array.after_shutdown.get()) {
        return Error::wrong_state(format!(
            "the volume waits for a log that it does not need: {reasons}"
        ));
    }
    scene.did(Event::WaitsForLog);
    on.is_unfinished.set(true);
    on.has_waited();
    Ok(true)
}

/// An operator discards the cache's memory; the log's data stays.
async fn give_up_memory(host: &Host) -> Result<bool> {
    let volume = host.scene.setup.name().to_owned();
    let order = DiscardLog { volume, what: Some(Discarded::Cache), dry_run: false };
    if let Err(error) = host.ask(Command::LogDiscard(order)).await {
        return Error::wrong_state(format!("cannot discard the cache's memory: {error}"));
    }
    host.scene.count(|tally| tally.discarded_memories += 1);
    host.scene.tell_of("operator", || "the cache's memory is discarded".to_owned());
    start(host).await;
    Ok(true)
}

/// The operator's action for a volume that waits for its log: reinsert a device, discard the log,
/// or nothing. Returns whether the volume may start.
pub(crate) async fn settle(host: &Host, plan: &Plan, volume: &VolumeInfo) -> Result<bool> {
    if lacks_memory(volume) {
        return give_up_memory(host).await;
    }
    let (scene, machine) = (&host.scene, &host.scene.machine);
    let life = machine.life.get();
    let mut rng = Rng::new(scene.setup.seed, "log is missing", &life.to_string());
    let must = plan.is_last || machine.story.of_copies.get();
    let way = if must { 2 } else { rng.below(3) };
    let away: Vec<String> = machine.log.away.borrow().iter().cloned().collect();
    if !must && way == 0 {
        return Ok(false);
    }
    if way == 1 && !away.is_empty() {
        for name in &away {
            put_back(scene, name);
            let drive = machine.path_of(name.clone());
            let known =
                host.ask(Command::DriveAdd { drive: drive.clone(), size_bytes: None }).await;
            scene.tell_of("operator", || format!("drive {drive} is reinserted: {}", known.is_ok()));
            let is_its = machine.log.devices().contains(name);
            if known.is_ok() && is_its && !machine.log.faulty.borrow().contains(name) {
                scene.on_log.came_back.borrow_mut().insert(name.clone());
            }
        }
        start(host).await;
        return Ok(true); // These may be other devices: then the volume keeps waiting.
    }
    // The order may take effect without a reply.
    scene.discard_log();
    match host.ask(Command::LogDiscard(DiscardLog::lacking(scene.setup.name()))).await {
        Ok(_) => {
            scene.did(Event::OperatorDiscardsLog);
            scene.tell_of("operator", || "the log is discarded".to_owned());
            start(host).await;
            Ok(true)
        }
        Err(error) if must => Error::wrong_state(format!("cannot discard the log: {error}")),
        Err(error) => {
            scene.tell_of("operator", || format!("the log is not discarded: {error}"));
            Ok(false)
        }
    }
}

/// Starts the volume, if that needs no consent.
async fn start(host: &Host) -> bool {
    let volume = host.scene.setup.name().to_owned();
    let answer = host
        .ask(Command::VolumeStart { volume, accept_stale_parity: false, degraded: false })
        .await;
    if let Err(error) = &answer {
        host.scene.tell_of("operator", || format!("cannot start the volume: {error}"));
    }
    answer.is_ok()
}
