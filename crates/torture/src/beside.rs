//! Neighbours: further volumes beside the run's first volume, each with a host and an operator.
//!
//! # Invariants
//! All invariants of the first volume hold for each neighbour. Volumes affect each other only
//! through lost drives that both use. No volume waits for another volume's drives, is damaged when
//! another is created or deleted, or receives another volume's data, also not from the cache's
//! memory. A deleted volume never returns, and its space is free.

use crate::error::{Error, Result};
use crate::host::Host;
use crate::life::{self, Plan};
use crate::machine::Array;
use crate::operator::PATIENCE;
use crate::scene::{Presence, Scene};
use crate::setup::VolumeRole;
use controller::{Command, ErrorKind, Reply};
use platform::JoinHandle;
use platform_sim::Rng;
use std::rc::Rc;
use std::time::Duration;

/// The first incident number of operations on a whole neighbour, counted from the life's first
/// incident.
const OF_NEIGHBOURS: u64 = 60;

/// The distance between the incident numbers of deletions and creations.
const OF_DELETIONS: u64 = 10;

/// The maximum number of workers with a number of their own in each part of a life.
const WORKERS: u64 = 10;

/// The neighbours' stories, while they run.
pub(crate) struct Neighbours {
    stories: Vec<(Rc<Scene>, JoinHandle<Result<()>>)>,
}

/// Marks an error as the neighbour's, if the run has one.
pub(crate) fn of(scene: &Scene, error: Error) -> Error {
    match scene.setup.is_neighbour() {
        true => Error { context: format!("neighbour: {}", error.context), ..error },
        false => error,
    }
}

impl Neighbours {
    /// Starts the existing neighbours and their stories.
    pub async fn begin(first: &Host, plan: &Plan) -> Result<Neighbours> {
        let mut stories = Vec::new();
        for scene in first.scene.beside.iter().filter(|scene| !scene.is_ignored.get()) {
            let host = first.of(scene);
            let is_served =
                life::open(&host, plan, false).await.map_err(|error| of(scene, error))?;
            if !is_served && scene.is_there() && plan.is_last {
                return Err(of(scene, unserved()));
            }
            let (plan, first_array) = (plan.clone(), first.scene.array.clone());
            let story = first.env.spawn("neighbour", async move {
                let told =
                    Story { host: &host, plan: &plan, first: &first_array, is_served }.tell().await;
                told.map_err(|error| of(&host.scene, error))
            });
            stories.push((scene.clone(), story));
        }
        Ok(Neighbours { stories })
    }

    /// Waits until the stories end.
    pub async fn end(self) -> Result<()> {
        for (_, story) in self.stories {
            story.await?;
        }
        Ok(())
    }
}

fn unserved() -> Error {
    let sentence = "the volume is offline although all of its drives are present";
    Error::new(crate::ErrorKind::WrongState, sentence)
}

/// A neighbour's life: several batches of requests, with a possible creation or deletion before and
/// after each.
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
        // Copies are only read.
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

    /// The plan for one part of the life.
    fn part(&self, part: u64, parts: u64, goes_on: bool) -> Plan {
        let (setup, plan) = (&self.host.scene.setup, self.plan);
        let is_last_part = part + 1 == parts;
        // If both use the same drives, operations that need all drives belong to the first volume.
        let has_own = setup.place == VolumeRole::OwnDrives;
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

    /// Whether an operation on the whole volume is enabled.
    fn is_done(&self, index: u64) -> bool {
        let scene = &self.host.scene;
        let number = scene.setup.first_incident(scene.machine.life.get()) + OF_NEIGHBOURS + index;
        if scene.setup.without.incidents.contains(&number) {
            return false;
        }
        scene.machine.story.incidents.borrow_mut().insert(number);
        true
    }

    /// An operator creates the volume; returns whether it is served. The controller may refuse,
    /// unless the drives are fault-free.
    async fn create(&self) -> Result<bool> {
        let scene = &self.host.scene;
        let end = self.host.env.now() + PATIENCE;
        if scene.setup.place == VolumeRole::OwnDrives && scene.array.drives.borrow().is_empty() {
            self.host.make_drives().await?;
        }
        loop {
            let before = scene.presence.get();
            match self.host.create_beside().await {
                Ok(()) => break,
                Err(error) => {
                    scene.tell_of("operator", || format!("cannot create the volume: {error}"));
                    // A creation that failed midway may have created the volume.
                    if error.kind != ErrorKind::Failed {
                        scene.presence.set(before);
                    }
                    if !self.plan.is_last || !self.is_innocent() {
                        return Ok(false);
                    }
                    if self.host.env.now() > end {
                        return Error::wrong_state(format!("creation keeps failing: {error}"));
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

    /// Whether its drives never had a fault, and none is a member of the other array.
    fn is_innocent(&self) -> bool {
        let own = &self.host.scene.array;
        let is_elsewhere = |name: &String| self.first.slot_of(name).is_some();
        let has_lost =
            !std::ptr::eq(self.first, &**own) && own.names.borrow().iter().any(is_elsewhere);
        own.faults.borrow().ever().is_empty() && !has_lost
    }

    /// An operator deletes the volume and its data if its drives are fault-free; returns whether it
    /// is gone.
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
                let is_noted =
                    matches!(reply, Reply::Done { notes } if notes.iter().any(is_untold));
                // A drive that hung when it was replaced may still hang: the controller does not
                // know its label.
                let has_hung = !scene.array.faults.borrow().ever().is_empty();
                scene.untold.set(is_noted || has_hung);
                scene.count(|tally| tally.deleted += 1);
                scene.tell_of("operator", || "the volume is deleted".to_owned());
            }
            Err(error) => {
                scene.tell_of("operator", || format!("cannot delete the volume: {error}"));
                if error.kind != ErrorKind::Failed {
                    scene.presence.set(Presence::There);
                }
            }
        }
        scene.presence.get() != Presence::There
    }
}
