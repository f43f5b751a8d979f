//! Orders to take a drive out that would cost data, by an operator who accepts no loss.
//!
//! # What must hold
//! Such an order is refused, and nothing has changed: the drive serves as before, and no request fails. If it is carried out, redundancy
//! came back meanwhile, and no data are lost. All draws are from a stream of their own.

use crate::error::{Error, Result};
use crate::faults;
use crate::host::{Host, out_of, rebuilt};
use crate::life::Plan;
use crate::operator::{Action, Answer, AtWork, take_out};
use crate::scene::{Presence, Scene};
use crate::setup::Place;
use controller::{DriveState, ErrorKind, VolumeInfo};
use layout::Level;
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// The number of the order in a life, counted from the life's first incident.
const OF_REFUSALS: u64 = 45;

/// How long the operator waits for a moment in which the loss of some drive costs data.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Has an operator give such an order in half of the lives.
pub(crate) fn operate(host: &Host, plan: &Plan) -> AtWork {
    let at_work = AtWork::of(host);
    let scene = &host.scene;
    let life = scene.machine.life.get();
    let mut rng = Rng::new(scene.setup.seed, "costly orders", &life.to_string());
    let number = scene.setup.first_incident(life) + OF_REFUSALS;
    let is_left_out = plan.is_last
        || plan.goes_on
        || scene.setup.place == Place::SameDrives
        || scene.setup.without.incidents.contains(&number)
        || !rng.chance(1, 2);
    if is_left_out {
        at_work.is_done.set(true);
        return at_work;
    }
    let (host, is_stopping, is_done) = (host.clone(), at_work.is_stopping.clone(), at_work.is_done.clone());
    at_work.host.env.spawn("costly order", async move {
        let operator = Operator { host: &host, is_stopping: &is_stopping };
        // Nothing but a lost volume keeps it from being asked: the next look tells of that.
        let _ = operator.order(number, &mut rng).await;
        is_done.set(true);
    });
    at_work
}

struct Operator<'a> {
    host: &'a Host,
    is_stopping: &'a std::cell::Cell<bool>,
}

impl Operator<'_> {
    async fn order(&self, number: u64, rng: &mut Rng) -> Result<()> {
        let (scene, env) = (&self.host.scene, &self.host.env);
        let action = if rng.chance(1, 2) { Action::Fail } else { Action::TakeOffline };
        let (delay, nth, repeats) = (faults::delay(rng) / 16, rng.below(1 << 16), rng.chance(1, 2));
        env.sleep(delay).await;
        let end = env.now() + LONGEST_WAIT;
        while costly(scene, &scene.array.out.get()).is_empty() {
            if self.is_stopping.get() || env.now() > end {
                return Ok(());
            }
            env.sleep(Duration::from_millis(1)).await;
        }
        let shown = self.host.show().await?;
        let all: Vec<DriveIndex> = costly(scene, &out_of(&shown)).iter().collect();
        let Some(slot) = all.get(nth as usize % all.len().max(1)).copied() else { return Ok(()) };
        scene.machine.story.incidents.borrow_mut().insert(number);
        scene.tell_of("operator", || {
            format!("{action:?} of drive {}, at no cost (incident {number})", slot.0)
        });
        let is_unsynced = survives(scene, &out_of(&shown).with(slot));
        let answer = match is_unsynced {
            // The level survives it, and parity is not known to agree yet.
            true => take_out(self.host, action, slot, false).await?,
            false => self.order_what_cannot_be(action, slot).await?,
        };
        scene.array.faults.borrow_mut().answered(slot);
        if matches!(answer, Answer::WouldLoseData | Answer::Refused) {
            is_as_before(self.host, slot, &shown).await?;
            if repeats {
                self.repeat(action, slot).await?;
            }
        }
        Ok(())
    }

    /// Gives an order that the level does not survive, as the controller shows its drives.
    async fn order_what_cannot_be(&self, action: Action, slot: DriveIndex) -> Result<Answer> {
        let (host, scene) = (self.host, &self.host.scene);
        let faults = &scene.array.faults;
        let before = faults.borrow().clone();
        let was_relied_on = scene.array.is_relied_on(slot);
        faults.borrow_mut().may_be_taken(slot);
        let answered = host.ask(action.take_out(host.place(slot), false)).await;
        let shown = host.show().await?;
        match answered {
            Ok(_) => {
                scene.did(action.deed());
                // One that is rebuilt may miss nothing that a host wrote, or have become current before the order was carried out.
                let out = out_of(&shown).minus(&rebuilt(&shown));
                // A layout that the volume was ordered to meanwhile may survive less; it is not there yet.
                if !scene.array.may_move() && !survives(scene, &out) {
                    accuse(
                        scene,
                        format!("an order that costs data was carried out, and drives {out:?} are out"),
                    );
                }
                faults.borrow_mut().suspect(slot, scene.machine.life.get());
                if was_relied_on {
                    faults.borrow_mut().vouch(slot);
                }
                scene.array.note_losses();
                Ok(Answer::Done)
            }
            Err(error) => {
                scene.tell_of("operator", || format!("it is refused: {error}"));
                let answer = Answer::of(scene, &error);
                if answer == Answer::Failed {
                    faults.borrow_mut().suspect(slot, scene.machine.life.get());
                    scene.array.note_losses();
                } else {
                    faults.borrow_mut().was_refused(slot, &before);
                }
                Ok(answer)
            }
        }
    }

    /// Waits until redundancy is back, and gives the order once more.
    async fn repeat(&self, action: Action, slot: DriveIndex) -> Result<()> {
        let (scene, env) = (&self.host.scene, &self.host.env);
        while !self.is_stopping.get() {
            env.sleep(Duration::from_millis(10)).await;
            let is_known = scene.synced.get() && scene.array.out.get().is_empty();
            if is_known && out_of(&self.host.show().await?).is_empty() && faults::may_lose(scene, slot) {
                scene.tell_of("operator", || format!("{action:?} of drive {}, once more", slot.0));
                take_out(self.host, action, slot, false).await?;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Whether every volume that is there survives that these drives are lost: one that is not there yet has nothing to lose.
fn survives(scene: &Scene, lost: &DriveSet) -> bool {
    let volumes = scene.array.volumes();
    volumes
        .iter()
        .filter(|volume| volume.presence.get() == Presence::There)
        .all(|volume| volume.survives(lost))
}

/// Drives whose loss costs data, where those in `out` are not used: the level does not survive it, or parity is not known to agree with the data.
fn costly(scene: &Scene, out: &DriveSet) -> DriveSet {
    // What a volume on its way survives, and what a distributed spare has, is not known here.
    let has_spare = |volume: &Rc<Scene>| volume.layouts().any(|layout| layout.level() == Level::Raid5ee);
    let is_unknown = scene.array.volumes().iter().any(|volume| volume.may_be_there() && has_spare(volume));
    // That a file was deleted the controller knows when it has looked, within half a minute; until then it counts on it.
    let is_unnoticed = scene.array.drives.borrow().iter().any(SimDrive::is_deleted);
    if !scene.is_redundant() || scene.array.may_move() || is_unknown || is_unnoticed {
        return DriveSet::EMPTY;
    }
    let is_unsynced = scene.parity_may_lie() && !scene.synced.get();
    let unreliable = scene.array.unreliable().union(out);
    let serving = scene.drive_count().indexes().filter(|slot| !unreliable.contains(*slot));
    serving.filter(|slot| is_unsynced || !survives(scene, &out.with(*slot))).collect()
}

/// After a refusal the drive serves as before, unless something else happened to it.
async fn is_as_before(host: &Host, slot: DriveIndex, before: &VolumeInfo) -> Result<()> {
    let scene = &host.scene;
    let shown = host.show().await?;
    let of_slot = |volume: &VolumeInfo| {
        volume.drives.get(slot.as_usize()).map(|drive| (drive.state, drive.uuid.clone()))
    };
    let (Some((was, uuid)), Some((is, uuid_now))) = (of_slot(before), of_slot(&shown)) else { return Ok(()) };
    let is_same = was == DriveState::Online && uuid == uuid_now;
    if is_same && is != DriveState::Online && !scene.array.faults.borrow().bad().contains(slot) {
        accuse(scene, format!("drive {} is {is:?} after an order for it was refused", slot.0));
    }
    Ok(())
}

/// The controller did what it must not: the run ends with that.
pub(crate) fn accuse(scene: &Scene, sentence: String) {
    scene.tell(|| sentence.clone());
    scene.untrue.borrow_mut().get_or_insert(Error::new(crate::ErrorKind::WrongState, sentence));
}

impl Answer {
    /// What a refusal or a failure says, which is counted.
    pub(crate) fn of(scene: &Scene, error: &controller::Error) -> Answer {
        use crate::tally::Deed;
        match error.kind {
            ErrorKind::LosesData => {
                scene.did(Deed::OperatorIsTold);
                Answer::WouldLoseData
            }
            ErrorKind::WrongState => {
                scene.did(Deed::OperatorIsRefused);
                Answer::Refused
            }
            _ => Answer::Failed,
        }
    }
}
