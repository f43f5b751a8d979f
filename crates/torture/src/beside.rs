//! The neighbours in a life: volumes beside the one that a run is about, each with a host and an operator of its own, while that
//! one's story goes on.
//!
//! # What must hold
//! All that holds of the first volume. What happens to one is nothing to the other, but where drives that both lie on are lost:
//! neither waits for the other's drives, is harmed when the other is created or deleted, nor has anything of what the
//! other holds, in the cache's memory neither. A volume that was deleted never comes back, and there is room for another one
//! where it was.

use crate::error::{Error, Result};
use crate::host::Host;
use crate::life::{self, Plan};
use crate::machine::Array;
use crate::operator::PATIENCE;
use crate::scene::{Presence, Scene};
use crate::setup::Place;
use controller::{Command, ErrorKind, Reply};
use platform::JoinHandle;
use platform_sim::Rng;
use std::rc::Rc;
use std::time::Duration;

/// The number of the first of what an operator does to a neighbour as a whole in a life, counted from the life's first incident.
const OF_NEIGHBOURS: u64 = 60;

/// How far the numbers of deletions are from those of creations.
const OF_DELETIONS: u64 = 10;

/// How many workers may have a number of their own in each part of a life.
const WORKERS: u64 = 10;

/// The neighbours' stories, while they go on.
pub(crate) struct Beside {
    stories: Vec<(Rc<Scene>, JoinHandle<Result<()>>)>,
}

/// An error of one volume among several.
pub(crate) fn of(scene: &Scene, error: Error) -> Error {
    match scene.setup.is_neighbour() {
        true => Error { context: format!("of the neighbour: {}", error.context), ..error },
        false => error,
    }
}

impl Beside {
    /// Has the neighbours served that are there, and their stories begin.
    pub async fn begin(first: &Host, plan: &Plan) -> Result<Beside> {
        let mut stories = Vec::new();
        for scene in first.scene.beside.iter().filter(|scene| !scene.is_ignored.get()) {
            let host = first.of(scene);
            let is_served = life::open(&host, plan, false).await.map_err(|error| of(scene, error))?;
            if !is_served && scene.is_there() && plan.is_last {
                return Err(of(scene, unserved()));
            }
            let (plan, first_array) = (plan.clone(), first.scene.array.clone());
            let story = first.env.spawn("neighbour", async move {
                let told = Story { host: &host, plan: &plan, first: &first_array, is_served }.tell().await;
                told.map_err(|error| of(&host.scene, error))
            });
            stories.push((scene.clone(), story));
        }
        Ok(Beside { stories })
    }

    /// Waits until their stories have come to their ends.
    pub async fn end(self) -> Result<()> {
        for (_, story) in self.stories {
            story.await?;
        }
        Ok(())
    }
}

fn unserved() -> Error {
    let sentence = "the volume is offline although every drive that can be there is";
    Error::new(crate::ErrorKind::WrongState, sentence)
}

/// What happens to a neighbour in a life: requests in several parts, before or after which it may be created or deleted.
struct Story<'a> {
    host: &'a Host,
    plan: &'a Plan,
    /// The drives of the first volume.
    first: &'a Array,
    is_served: bool,
}

impl Story<'_> {
    async fn tell(mut self) -> Result<()> {
        let scene = &self.host.scene;
        let life = scene.machine.life.get();
        let mut rng = Rng::new(scene.setup.seed, "parts", &life.to_string());
        // Copies are looked at, and nothing else is done to them.
        let is_lived = self.plan.ops > 0;
        let parts = if is_lived { rng.between(1, 3) } else { 1 };
        let mut goes_on = false;
        for part in 0..parts {
            let (creates, deletes) = (rng.chance(2, 3), rng.chance(1, 4));
            let is_away = !self.is_served && !scene.is_there();
            if is_away && is_lived && creates && self.is_done(part) {
                self.is_served = self.create().await?;
                goes_on = false;
            }
            if !self.is_served {
                continue;
            }
            life::serve(self.host, &self.part(part, parts, goes_on)).await?;
            goes_on = true;
            if deletes && is_lived && !self.plan.is_last && self.is_done(OF_DELETIONS + part) {
                self.is_served = !self.delete().await;
            }
        }
        Ok(())
    }

    /// What is done in a part of the life.
    fn part(&self, part: u64, parts: u64, goes_on: bool) -> Plan {
        let (setup, plan) = (&self.host.scene.setup, self.plan);
        let is_last_part = part + 1 == parts;
        // What wants all drives is the first one's business where it lies on the same.
        let has_own = setup.place == Place::OwnDrives;
        let ops = setup.ops / (setup.lives + 1) / parts;
        Plan {
            look_first: plan.look_first && !goes_on,
            wait_for_resync: plan.wait_for_resync && !goes_on,
            bring_back: plan.bring_back && has_own,
            replace: plan.replace && has_own,
            ops: if plan.ops > 0 { ops } else { 0 },
            first_worker: setup.first_worker() + part * WORKERS,
            cut_at: None,
            check: plan.check && is_last_part,
            is_last: plan.is_last && is_last_part,
            goes_on,
            ..plan.clone()
        }
    }

    /// Whether something that an operator does to the volume as a whole is not left out.
    fn is_done(&self, index: u64) -> bool {
        let scene = &self.host.scene;
        let number = scene.setup.first_incident(scene.machine.life.get()) + OF_NEIGHBOURS + index;
        if scene.setup.without.incidents.contains(&number) {
            return false;
        }
        scene.machine.story.incidents.borrow_mut().insert(number);
        true
    }

    /// An operator creates it; whether it is served. It may be refused, unless nothing ever happened to its drives.
    async fn create(&self) -> Result<bool> {
        let scene = &self.host.scene;
        let end = self.host.env.now() + PATIENCE;
        if scene.setup.place == Place::OwnDrives && scene.array.drives.borrow().is_empty() {
            self.host.make_drives().await?;
        }
        loop {
            let before = scene.presence.get();
            match self.host.create_beside().await {
                Ok(()) => break,
                Err(error) => {
                    scene.tell_of("operator", || format!("the volume is not created: {error}"));
                    // What failed in the middle may be there all the same.
                    if error.kind != ErrorKind::Failed {
                        scene.presence.set(before);
                    }
                    if !self.plan.is_last || !self.is_innocent() {
                        return Ok(false);
                    }
                    if self.host.env.now() > end {
                        return Error::wrong_state(format!("it is never created: {error}"));
                    }
                    self.host.env.sleep(Duration::from_secs(1)).await;
                }
            }
        }
        scene.presence.set(Presence::There);
        scene.count(|tally| tally.created += 1);
        scene.tell_of("operator", || "the volume is created".to_owned());
        let shown = self.host.show().await?;
        if shown.state.serves() {
            self.host.judge_start(&shown)?;
        }
        Ok(shown.state.serves())
    }

    /// Whether nothing ever happened to its drives, and none of its own has a place in the other array.
    fn is_innocent(&self) -> bool {
        let own = &self.host.scene.array;
        let is_elsewhere = |name: &String| self.first.slot_of(name).is_some();
        let has_lost = !std::ptr::eq(self.first, &**own) && own.names.borrow().iter().any(is_elsewhere);
        own.faults.borrow().ever().is_empty() && !has_lost
    }

    /// An operator deletes it, with what its hosts wrote, where nothing is wrong with its drives; whether it is gone.
    async fn delete(&self) -> bool {
        let scene = &self.host.scene;
        if !scene.array.unreliable().is_empty() {
            return false;
        }
        scene.presence.set(Presence::Leaving);
        let volume = scene.setup.name().to_owned();
        match self.host.ask(Command::VolumeDelete { volume, disconnect_hosts: false }).await {
            Ok(reply) => {
                scene.presence.set(Presence::Gone);
                let is_untold = |note: &String| note.contains("keeps the label");
                let is_noted = matches!(reply, Reply::Done { notes } if notes.iter().any(is_untold));
                // One that hung when its slot went to another drive may hang still: the controller knows nothing of its label.
                let has_hung = !scene.array.faults.borrow().ever().is_empty();
                scene.untold.set(is_noted || has_hung);
                scene.count(|tally| tally.deleted += 1);
                scene.tell_of("operator", || "the volume is deleted".to_owned());
            }
            Err(error) => {
                scene.tell_of("operator", || format!("the volume is not deleted: {error}"));
                if error.kind != ErrorKind::Failed {
                    scene.presence.set(Presence::There);
                }
            }
        }
        scene.presence.get() != Presence::There
    }
}
