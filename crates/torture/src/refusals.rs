//! Orders to remove a drive that would lose data, by an operator who accepts no loss.
//!
//! # Invariants
//! The controller refuses such an order without side effects: the drive keeps working, and no
//! request fails. If it carries the order out, redundancy returned meanwhile, and no data is lost.
//! The draws have their own random stream.

use crate::error::{Error, Result};
use crate::faults;
use crate::host::{Host, out_of, rebuilt};
use crate::life::Plan;
use crate::operator::{Action, OperatorTask, OrderResult, take_out};
use crate::scene::{Presence, Scene};
use crate::setup::VolumeRole;
use controller::{DriveState, ErrorKind, VolumeInfo};
use layout::Level;
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{DriveIndex, DriveSet};

/// The incident number of the order in a life, counted from the life's first incident.
const OF_REFUSALS: u64 = 45;

/// How long the operator waits for a moment when the loss of some drive loses data.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Gives such an order in half of the lives.
pub(crate) fn operate(host: &Host, plan: &Plan) -> OperatorTask {
    let at_work = OperatorTask::of(host);
    let scene = &host.scene;
    let life = scene.machine.life.get();
    let mut rng = Rng::new(scene.setup.seed, "costly orders", &life.to_string());
    let number = scene.setup.first_incident(life) + OF_REFUSALS;
    let is_left_out = plan.is_last
        || plan.goes_on
        || scene.setup.place == VolumeRole::SameDrives
        || scene.setup.without.incidents.contains(&number)
        || !rng.chance(1, 2);
    if is_left_out {
        at_work.is_done.set(true);
        return at_work;
    }
    let (host, is_stopping, is_done) =
        (host.clone(), at_work.is_stopping.clone(), at_work.is_done.clone());
    at_work.host.env.spawn("costly order", async move {
        let operator = Operator { host: &host, is_stopping: &is_stopping };
        // Only a lost volume prevents a query: the next check reports it.
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
            format!("{action:?} of drive {}, without data loss (incident {number})", slot.0)
        });
        let is_unsynced = survives(scene, &out_of(&shown).with(slot));
        let answer = match is_unsynced {
            // The level survives it, but parity may be inconsistent.
            true => take_out(self.host, action, slot, false).await?,
            false => self.order_what_cannot_be(action, slot).await?,
        };
        scene.array.faults.borrow_mut().answered(slot);
        if matches!(answer, OrderResult::WouldLoseData | OrderResult::Refused) {
            is_as_before(self.host, slot, &shown).await?;
            if repeats {
                self.repeat(action, slot).await?;
            }
        }
        Ok(())
    }

    /// Gives an order that the level does not survive, according to the reported drives.
    async fn order_what_cannot_be(&self, action: Action, slot: DriveIndex) -> Result<OrderResult> {
        let (host, scene) = (self.host, &self.host.scene);
        let faults = &scene.array.faults;
        let before = faults.borrow().clone();
        let was_relied_on = scene.array.is_relied_on(slot);
        faults.borrow_mut().may_be_taken(slot);
        let answered = host.ask(action.take_out(host.place(slot), false)).await;
        let shown = host.show().await?;
        match answered {
            Ok(_) => {
                scene.did(action.event());
                // A rebuilding drive may have all written data, or have become current before the
                // order.
                let out = out_of(&shown).minus(&rebuilt(&shown));
                // The layout of a reshape ordered meanwhile may survive less; it is not active yet.
                if !scene.array.may_move() && !survives(scene, &out) {
                    accuse(
                        scene,
                        format!(
                            "an order that loses data was carried out; drives {out:?} are not in \
                                use"
                        ),
                    );
                }
                faults.borrow_mut().suspect(slot, scene.machine.life.get());
                if was_relied_on {
                    faults.borrow_mut().vouch(slot);
                }
                scene.array.note_losses();
                Ok(OrderResult::Done)
            }
            Err(error) => {
                scene.tell_of("operator", || format!("refused: {error}"));
                let answer = OrderResult::of(scene, &error);
                if answer == OrderResult::Failed {
                    faults.borrow_mut().suspect(slot, scene.machine.life.get());
                    scene.array.note_losses();
                } else {
                    faults.borrow_mut().was_refused(slot, &before);
                }
                Ok(answer)
            }
        }
    }

    /// Waits until redundancy is back, and repeats the order.
    async fn repeat(&self, action: Action, slot: DriveIndex) -> Result<()> {
        let (scene, env) = (&self.host.scene, &self.host.env);
        while !self.is_stopping.get() {
            env.sleep(Duration::from_millis(10)).await;
            let is_known = scene.synced.get() && scene.array.out.get().is_empty();
            if is_known
                && out_of(&self.host.show().await?).is_empty()
                && faults::may_lose(scene, slot)
            {
                scene.tell_of("operator", || format!("{action:?} of drive {}, once more", slot.0));
                take_out(self.host, action, slot, false).await?;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Whether every existing volume survives the loss of these drives; a volume that does not exist
/// yet has no data.
fn survives(scene: &Scene, lost: &DriveSet) -> bool {
    let volumes = scene.array.volumes();
    volumes
        .iter()
        .filter(|volume| volume.presence.get() == Presence::There)
        .all(|volume| volume.survives(lost))
}

/// Drives whose loss loses data while those in `out` are not used: the level does not survive it,
/// or parity may be inconsistent.
fn costly(scene: &Scene, out: &DriveSet) -> DriveSet {
    // The fault tolerance during a reshape, and the content of a distributed spare, are unknown
    // here.
    let has_spare =
        |volume: &Rc<Scene>| volume.layouts().any(|layout| layout.level() == Level::Raid5ee);
    let is_unknown =
        scene.array.volumes().iter().any(|volume| volume.may_be_there() && has_spare(volume));
    // The controller notices a deleted file within 30 s; until then it relies on the drive.
    let is_unnoticed = scene.array.drives.borrow().iter().any(SimDrive::is_deleted);
    if !scene.is_redundant() || scene.array.may_move() || is_unknown || is_unnoticed {
        return DriveSet::EMPTY;
    }
    let is_unsynced = scene.parity_may_lie() && !scene.synced.get();
    let unreliable = scene.array.unreliable().union(out);
    let serving = scene.drive_count().indexes().filter(|slot| !unreliable.contains(*slot));
    serving.filter(|slot| is_unsynced || !survives(scene, &out.with(*slot))).collect()
}

/// After a refusal the drive works as before, unless another fault happened.
async fn is_as_before(host: &Host, slot: DriveIndex, before: &VolumeInfo) -> Result<()> {
    let scene = &host.scene;
    let shown = host.show().await?;
    let of_slot = |volume: &VolumeInfo| {
        volume.drives.get(slot.as_usize()).map(|drive| (drive.state, drive.uuid.clone()))
    };
    let (Some((was, uuid)), Some((is, uuid_now))) = (of_slot(before), of_slot(&shown)) else {
        return Ok(());
    };
    let is_same = was == DriveState::Online && uuid == uuid_now;
    if is_same && is != DriveState::Online && !scene.array.faults.borrow().bad().contains(slot) {
        accuse(scene, format!("drive {} is {is:?} after a refused order", slot.0));
    }
    Ok(())
}

/// The controller violated an invariant: the run ends with this error.
pub(crate) fn accuse(scene: &Scene, sentence: String) {
    scene.tell(|| sentence.clone());
    scene.untrue.borrow_mut().get_or_insert(Error::new(crate::ErrorKind::WrongState, sentence));
}

impl OrderResult {
    /// The counted result of a refusal or an error.
    pub(crate) fn of(scene: &Scene, error: &controller::Error) -> OrderResult {
        use crate::tally::Event;
        match error.kind {
            ErrorKind::LosesData => {
                scene.did(Event::OperatorIsTold);
                OrderResult::WouldLoseData
            }
            ErrorKind::WrongState => {
                scene.did(Event::OperatorIsRefused);
                OrderResult::Refused
            }
            _ => OrderResult::Failed,
        }
    }
}
