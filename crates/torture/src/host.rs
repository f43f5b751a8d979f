//! The controller's process, as whoever runs it sees it: started, asked, and judged by what it says of itself.

use crate::error::{Error, ErrorKind, Result};
use crate::log_devices;
use crate::migrations;
use crate::scene::{Presence, Scene};
use crate::setup::{FIRST, Place};
use crate::tally::Deed;
use controller::{
    Command, Controller, ControllerHandle, CreateVolume, DriveState, Reply, VolumeInfo, VolumeState,
};
use engine::{ShardIndex, ShardMessage, ShardSeed, Volume};
use platform::Env;
use platform_sim::Rng;
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// The name of a second door to a drive.
const TWIN: &str = "other-door";

/// The controller, as the host of a volume sees it.
#[derive(Clone)]
pub(crate) struct Host {
    pub scene: Rc<Scene>,
    pub env: Env,
    pub control: ControllerHandle,
    pub shards: Vec<engine::Shard>,
}

/// What a start finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// Nothing yet: the volume is to be created.
    Nothing,
    /// The volume.
    Volume,
    /// Nothing, for want of drives.
    NeedsDrives,
}

pub(crate) async fn start(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>) -> Host {
    let count = envs.len() as u16;
    let (reports, receiver) = Controller::reports(&envs[0], count);
    let seeds: Vec<ShardSeed> = envs.iter().map(|env| ShardSeed::new(env, count)).collect();
    let senders: Vec<_> = seeds.iter().map(ShardSeed::sender).collect();
    let mut shards = Vec::new();
    for (index, seed) in seeds.into_iter().enumerate() {
        shards.push(seed.start(ShardIndex(index as u16), count, reports.clone()));
    }
    *scene.machine.shards.borrow_mut() = shards.clone();
    for sender in &senders {
        assert!(sender.send(ShardMessage::Peers(senders.clone())).is_ok(), "a new shard takes messages");
    }
    let cache_size = scene.setup.cache * u64::from(count);
    let logs = log_devices::begin(&scene);
    let read_cache = scene.setup.reads.map_or(units::ByteCount::ZERO, |reads| reads.room) * u64::from(count);
    let limits = scene.setup.limits;
    let options = controller::Options {
        drives: given,
        cache_size,
        read_cache,
        logs,
        limits,
        ..controller::Options::default()
    };
    let control = Controller::start(&envs[0], options, senders, receiver).await;
    Host { scene, env: envs[0].clone(), control, shards }
}

impl Host {
    pub async fn ask(&self, command: Command) -> controller::Result<Reply> {
        self.control.command(&self.env, command).await
    }

    pub async fn must(&self, command: Command) -> Result<Reply> {
        let what = format!("{command:?}");
        let answer = self.ask(command).await;
        answer.map_err(|error| Error::new(ErrorKind::WrongState, format!("{what} was refused: {error}")))
    }

    pub async fn find(&self) -> Result<Found> {
        let name = self.scene.setup.name();
        let listed = match self.must(Command::VolumeList {}).await? {
            Reply::Volumes { volumes } => volumes.into_iter().find(|volume| volume.name == name),
            _ => None,
        };
        if listed.as_ref().is_some_and(|volume| self.is_left_by_deletion(volume)) {
            return Ok(self.is_deleted(true));
        }
        match (listed.is_some(), self.scene.presence.get()) {
            (true, Presence::Never) => Error::wrong_state("the volume is there, and nobody asked for it"),
            (true, Presence::Gone) => {
                let drives = listed.map(|volume| volume.drives).unwrap_or_default();
                let drives = drives.iter().map(|drive| format!("{} is {:?}", drive.name, drive.state));
                let drives: Vec<String> = drives.collect();
                Error::wrong_state(format!("a volume that was deleted is there again: {}", drives.join(", ")))
            }
            (true, _) => Ok(Found::Volume),
            // A volume whose every drive is out is nowhere to be asked of.
            (false, Presence::There) if self.is_nowhere() => Ok(Found::NeedsDrives),
            (false, Presence::There) => Error::wrong_state("the volume is not there any more"),
            // A start finished its deletion, which was cut off. A drive that something happened to may have missed that.
            (false, Presence::Leaving) => {
                Ok(self.is_deleted(!self.scene.array.faults.borrow().ever().is_empty()))
            }
            (false, _) => Ok(Found::Nothing),
        }
    }

    /// It is found that the volume was deleted. `is_untold`: a drive may have its label still.
    fn is_deleted(&self, is_untold: bool) -> Found {
        self.scene.presence.set(Presence::Gone);
        self.scene.untold.set(is_untold);
        Found::Nothing
    }

    /// Whether a volume that is listed is what is left of a deletion on drives whose labels it did not reach. Another machine does not
    /// know of the deletion.
    fn is_left_by_deletion(&self, listed: &VolumeInfo) -> bool {
        let scene = &self.scene;
        if !scene.machine.log.is_elsewhere.get() {
            return false;
        }
        match scene.presence.get() {
            Presence::Gone => return scene.untold.get(),
            Presence::Asked if scene.untold.get() => {}
            Presence::Leaving => {}
            _ => return false,
        }
        // A start finished what was cut off, or another volume was being made of the drives: labels are gone from drives that nothing ever
        // happened to, and not from those that are listed as present.
        let is_missing = |slot: DriveIndex| {
            listed.drives.get(slot.as_usize()).is_none_or(|drive| drive.state == DriveState::Missing)
        };
        let missing: DriveSet = scene.drive_count().indexes().filter(|slot| is_missing(*slot)).collect();
        let present = DriveSet::first(scene.drive_count()).minus(&missing);
        let ever = scene.array.faults.borrow().ever();
        present.minus(&ever).is_empty() && !missing.minus(&ever).is_empty()
    }

    /// The same controller, as the host of another volume sees it.
    pub fn of(&self, scene: &Rc<Scene>) -> Host {
        Host { scene: scene.clone(), ..self.clone() }
    }

    /// The name of a slot's drive, for commands.
    pub fn place(&self, slot: DriveIndex) -> String {
        format!("{}:{}", self.scene.setup.name(), slot.0)
    }

    fn is_nowhere(&self) -> bool {
        let drives = self.scene.drive_count();
        self.scene.array.faults.borrow().bad().contains_first(drives)
    }

    /// Creates the volume that a run is about.
    pub async fn create(&self) -> Result<()> {
        let setup = &self.scene.setup;
        self.make_drives().await?;
        self.be_refused_a_twin().await?;
        self.scene.presence.set(Presence::Asked);
        let is_shared = setup.beside.iter().any(|other| other.place == Place::SameDrives);
        self.must(Command::VolumeCreate(CreateVolume {
            drives: setup.names(),
            // What is beside it needs the rest.
            size_bytes: is_shared.then_some(setup.geometry.capacity().0),
            ..self.volume()
        }))
        .await?;
        self.scene.count(|tally| tally.created += 1);
        self.scene.tell(|| "the volume is created".to_owned());
        Ok(())
    }

    /// In some runs the operator names one storage twice, by a second door that nothing tells from another drive. That is refused, or the volume would have
    /// fewer copies than it says.
    async fn be_refused_a_twin(&self) -> Result<()> {
        let setup = &self.scene.setup;
        let mut drives = setup.names();
        let first = self.scene.array.drives.borrow().first().cloned();
        let (Some(first), true) = (first, drives.len() > 1 && Rng::new(setup.seed, "twin", "").chance(1, 8))
        else {
            return Ok(());
        };
        self.scene.machine.time.add_twin(&first, TWIN);
        if let Some(last) = drives.last_mut() {
            TWIN.clone_into(last);
        }
        let refused = match self.ask(Command::VolumeCreate(CreateVolume { drives, ..self.volume() })).await {
            Err(error) => error,
            Ok(_) => return Error::wrong_state("a volume was created over one storage under two names"),
        };
        self.scene.tell(|| format!("the operator names a drive twice: {refused}"));
        // A kill may have left it registered: it would be another drive with the label of the first one after the next start.
        match self.ask(Command::DriveForget { drive: TWIN.to_owned() }).await {
            Ok(_) => {}
            Err(error) if error.kind == controller::ErrorKind::NotFound => {}
            Err(error) => return Error::wrong_state(format!("a second name cannot be forgotten: {error}")),
        }
        match refused.kind {
            controller::ErrorKind::Invalid if refused.message.contains("are the same storage") => Ok(()),
            _ => Error::wrong_state(format!(
                "a volume over one storage under two names is refused so: {refused}"
            )),
        }
    }

    /// Creates a volume beside the one that a run is about, if it may be.
    pub async fn create_beside(&self) -> controller::Result<()> {
        let (scene, setup) = (&self.scene, &self.scene.setup);
        scene.begins_anew();
        let mut create = CreateVolume { size_bytes: Some(setup.geometry.capacity().0), ..self.volume() };
        if setup.place == Place::SameDrives {
            create.array = Some(FIRST.to_owned());
        } else {
            let names = scene.array.names.borrow().clone();
            create.drives = self.names_now(&names).await;
        }
        self.ask(Command::VolumeCreate(create)).await.map(|_| ())
    }

    /// What the controller calls drives that are free, by their first names. One that it was given under another name as well it
    /// lists under both, and refuses it under one.
    async fn names_now(&self, first: &[String]) -> Vec<String> {
        let machine = &self.scene.machine;
        let listed: Vec<String> = match self.ask(Command::DriveList {}).await {
            Ok(Reply::Drives { drives, .. }) => {
                let free = drives.into_iter().filter(|drive| drive.state == DriveState::Unused);
                free.map(|drive| drive.name).collect()
            }
            _ => Vec::new(),
        };
        let name_of = |first: &String| listed.iter().find(|name| machine.drive_at(name) == *first).cloned();
        first.iter().map(|first| name_of(first).unwrap_or_else(|| machine.path_of(first.clone()))).collect()
    }

    /// Makes the drives, where the controller does that.
    pub async fn make_drives(&self) -> Result<()> {
        let setup = &self.scene.setup;
        for (name, drive) in setup.names().into_iter().zip(&setup.drives).filter(|_| setup.drives_are_made) {
            let size_bytes = Some(drive.size.0);
            let made = self.ask(Command::DriveAdd { drive: name.clone(), size_bytes }).await;
            if made.is_err() {
                // A life that ended early made it already.
                self.must(Command::DriveAdd { drive: name, size_bytes: None }).await?;
            }
        }
        Ok(())
    }

    /// What is asked for wherever it lies.
    fn volume(&self) -> CreateVolume {
        let setup = &self.scene.setup;
        CreateVolume {
            name: setup.name().to_owned(),
            level: setup.level.name().to_owned(),
            strip_bytes: Some(setup.strip.bytes().0),
            copies: setup.copies,
            destroy_data: true,
            write_hole: setup.has_parity().then_some(setup.write_hole),
            write_mode: setup.write_back.then_some(setup.cached_mode),
            read_mode: setup.reads.map(|reads| reads.read_mode),
            cache_mode: setup.reads.map(|reads| reads.cache_mode),
            // Drives are drawn that have room for the volume and no more.
            coercion: Some(controller::Coercion::None),
            ..CreateVolume::default()
        }
    }

    pub async fn show(&self) -> Result<VolumeInfo> {
        show(&self.scene, &self.env, &self.control).await
    }

    /// Of a volume that is offline: whether that is for want of drives.
    pub fn needs_drives(&self, volume: &VolumeInfo) -> Result<bool> {
        let scene = &self.scene;
        scene.tell(|| format!("the volume is offline: {}", volume.reasons.join("; ")));
        let faults = scene.array.faults.borrow();
        let missing = out_of(volume);
        if !scene.survives(&missing) {
            let (lost, ever) = (missing.count().as_usize(), faults.ever().count().as_usize());
            if lost > ever {
                return Error::wrong_state(format!(
                    "{lost} drives are not used, but only {ever} had a fault"
                ));
            }
            return Ok(true);
        }
        let starts_alone = scene.array.after_shutdown.get() && !scene.array.asks.get();
        let elsewhere = scene.array.may_have_gone_on(&missing) && !starts_alone;
        // A drive that was not there when the controller started is now: nothing is started again for that but by an operator.
        let happened = faults.happened_in(scene.machine.life.get());
        let is_back = missing.is_empty() && happened;
        // A start that a drive's stall cuts off has reached the labels of some drives, and not of others that are there.
        let is_half_told =
            happened && volume.reasons.iter().any(|why| why.contains("took part up to change"));
        if faults.ever().is_empty() || !(scene.parity_may_lie() || elsewhere || is_back || is_half_told) {
            let reasons = volume.reasons.join("; ");
            return Error::wrong_state(format!("the volume was not started without need: {reasons}"));
        }
        Ok(false)
    }

    /// The operator starts a volume that is degraded, after he was told what that means: that no drive was used elsewhere,
    /// which is so; and, where it was being written, that parity is forced as it is.
    pub async fn force(&self) -> Result<()> {
        let scene = &self.scene;
        let start = |accept_stale_parity| Command::VolumeStart {
            volume: scene.setup.name().to_owned(),
            accept_stale_parity,
            degraded: true,
        };
        match self.ask(start(false)).await {
            Err(error) if error.kind == controller::ErrorKind::WrongState => {}
            // A drive that did not answer in time answers now: whether it serves rightly is judged next.
            Ok(_) => return Ok(()),
            Err(error) => return self.judge_failed_start(error).await,
        }
        let shown = self.show().await?;
        if !shown.state.serves() && log_devices::waits(self, &shown)? {
            return Ok(()); // It is looked at again.
        }
        let before = out_of(&shown);
        let known_out = before.minus(&rebuilt(&shown));
        // A reshape may end before the order is answered. The stale parity is that of the layout
        // before.
        let mut untold = scene.untold(&before);
        if let Err(error) = self.ask(start(true)).await {
            return self.judge_failed_start(error).await;
        }
        scene.did(Deed::OperatorAccepts);
        let shown = self.show().await?;
        let out = out_of(&shown);
        // The word is about drives that the operator knew to be out. One that went out while it was carried out (a drive that was
        // being rebuilt too) may or may not be meant, as the controller may have taken it before or after that: a host may be told
        // that its blocks cannot be computed (a known limit of forced parity), and where it is meant, they may read as anything.
        // A drive whose rebuild ended before the answer was rebuilt from the stale parity.
        let is_back = before.minus(&out);
        scene.forced.set(out.intersection(&known_out.union(&rebuilt(&shown))).union(&is_back));
        untold.extend(scene.untold(&out.union(&is_back)));
        scene.force(&untold);
        let given_up = untold.len();
        scene.tell(|| format!("the operator forces stale parity: {given_up} sectors may read as anything"));
        Ok(())
    }

    /// A start failed otherwise than for want of a word. It may, if a drive fails in the middle that the volume cannot do without:
    /// nobody serves a volume whose start could not be recorded there. It may also have lost its log in the middle, and wait for
    /// that; or have been started by itself meanwhile. It is looked at again then.
    async fn judge_failed_start(&self, error: controller::Error) -> Result<()> {
        if error.kind == controller::ErrorKind::Failed && self.scene.may_fail() {
            self.scene.tell(|| format!("a start failed: {error}"));
            return Ok(());
        }
        let shown = self.show().await?;
        // A drive that was waited for answered between the look and the order: it is started already, and whether it serves rightly
        // is judged next.
        if error.kind == controller::ErrorKind::WrongState
            && (shown.state.serves() || log_devices::waits(self, &shown)?)
        {
            return Ok(());
        }
        Error::wrong_state(format!("a start that needs a word ends as: {error}"))
    }

    /// The volume serves: whether it may, in the way it does.
    pub fn judge_start(&self, volume: &VolumeInfo) -> Result<()> {
        let scene = &self.scene;
        let out = out_of(volume);
        scene.tell(|| {
            let out =
                out.iter().map(|slot| format!("{} ({:?})", slot.0, volume.drives[slot.as_usize()].state));
            let out = out.collect::<Vec<_>>().join(", ");
            let without = if out.is_empty() { String::new() } else { format!(" without drives {out}") };
            let resync = if volume.resync.is_some() { ", to be resynced" } else { "" };
            format!("the volume is {}{without}{resync}", volume.state)
        });
        note_lost(scene, volume)?;
        scene.array.out.set(out);
        scene.array.note_losses();
        let mut faults = scene.array.faults.borrow_mut();
        let innocent = out.minus(&faults.ever());
        if !innocent.is_empty() {
            let why = innocent.iter().map(|slot| {
                let drive = &volume.drives[slot.as_usize()];
                format!(
                    "{} is {:?}: {}",
                    drive.name,
                    drive.state,
                    drive.reason.as_deref().unwrap_or_default()
                )
            });
            return Error::wrong_state(format!(
                "drives {innocent:?} are not used although nothing happened to them: {}",
                why.collect::<Vec<_>>().join("; ")
            ));
        }
        // A drive that is being rebuilt is missed only where it is not current yet, which nobody here knows. Drives that others of its array lie on
        // alone are shown as well.
        let mut own = volume.drives.iter().take(scene.drive_count().as_usize());
        let missed = own.any(|drive| !matches!(drive.state, DriveState::Online | DriveState::Rebuilding));
        let has_journal = scene.on_log.tells_all();
        let dirty_and_degraded =
            scene.parity_may_lie() && !scene.may_move() && missed && volume.resync.is_some() && !has_journal;
        let has_word = !scene.forced.get().is_empty();
        if dirty_and_degraded && !has_word && !faults.happened_in(scene.machine.life.get()) {
            return Error::wrong_state(
                "a volume that is degraded and dirty was started without the operator",
            );
        }
        faults.known(scene.machine.life.get());
        drop(faults);
        scene.synced.set(false);
        if volume.resync.is_none() && !scene.may_move() {
            scene.settle();
        }
        Ok(())
    }

    pub fn volumes(&self) -> Result<Vec<Rc<Volume>>> {
        let volumes: Vec<_> =
            self.shards.iter().filter_map(|shard| shard.volume_named(self.scene.setup.name())).collect();
        if volumes.len() < self.shards.len() {
            return Error::wrong_state("a volume that is started is not on every shard");
        }
        Ok(volumes)
    }
}

pub(crate) async fn show(scene: &Scene, env: &Env, control: &ControllerHandle) -> Result<VolumeInfo> {
    let command = Command::VolumeShow { volume: scene.setup.name().to_owned() };
    let (changes, answered) = (scene.machine.log.changes(), scene.on_log.answering.changes());
    let orders = scene.way.changes();
    let shown = match control.command(env, command).await {
        Ok(Reply::Volume { volume, .. }) => Ok(*volume),
        Err(error) if error.kind == controller::ErrorKind::NameTaken => {
            only_one_served(scene, env, control).await.ok_or(Err(error))
        }
        other => Err(other),
    };
    let volume = shown.map_err(|other| {
        Error::new(ErrorKind::WrongState, format!("the volume cannot be shown: {other:?}"))
    })?;
    migrations::look(scene, env, control, (&volume, orders)).await?;
    // A spare may have taken a slot and been taken out of it before anybody looked.
    let is_of_slot = |drive: &controller::DriveInfo| {
        let states = [DriveState::Online, DriveState::Rebuilding, DriveState::Offline, DriveState::Stale];
        states.contains(&drive.state)
    };
    for (slot, drive) in volume.drives.iter().enumerate().filter(|(_, drive)| is_of_slot(drive)) {
        scene.note_drive(DriveIndex(slot as u16), drive);
    }
    note_cover(scene, &volume, changes)?;
    note_spare(scene, &volume);
    scene.on_log.answering.note(&volume, answered);
    Ok(volume)
}

/// The one of several volumes of the name that hosts can use. A drive that did not answer while its volume was deleted still has
/// that volume's label; a controller that never heard of the deletion, over copies, lists it as a volume that lacks its drives.
async fn only_one_served(scene: &Scene, env: &Env, control: &ControllerHandle) -> Option<VolumeInfo> {
    if !scene.machine.story.of_copies.get() || !scene.setup.is_neighbour() {
        return None;
    }
    let Ok(Reply::Volumes { volumes, .. }) = control.command(env, Command::VolumeList {}).await else {
        return None;
    };
    let named = volumes.into_iter().filter(|volume| volume.name == scene.setup.name());
    let mut served = named.filter(|volume| volume.state.serves());
    served.next().filter(|_| served.next().is_none())
}

/// Whether the distributed spare is free again: no drive is out, and every shard reads each drive's strips from that.
fn note_spare(scene: &Scene, volume: &VolumeInfo) {
    if !scene.is_spare_used() || volume.state != VolumeState::Optimal || volume.reshape.is_some() {
        return;
    }
    let shards = scene.machine.shards.borrow();
    let is_free = |shard: &engine::Shard| {
        let volume = shard.volume_named(scene.setup.name());
        volume.is_some_and(|volume| volume.recorded_state().relocated().is_none())
    };
    if !shards.is_empty() && shards.iter().all(is_free) {
        scene.spare_is_free();
    }
}

/// What the controller says of the journal of a volume that is served: it takes nothing back without need.
/// `changes`: how often logs had been changed when it was asked.
fn note_cover(scene: &Scene, volume: &VolumeInfo, changes: u64) -> Result<()> {
    // An operator who has asked for no journal is not told yet whether there is one.
    if !volume.state.serves() || !scene.has_parity() || scene.gives_up_journal.get() {
        return Ok(());
    }
    let Some((is_covered, is_told)) = log_devices::note(scene, volume, changes) else { return Ok(()) };
    if scene.may_move() {
        // What is said is of the layout that it comes from.
        scene.on_log.may_have_moved(&scene.machine.log);
        scene.covered.set(false);
        return Ok(());
    }
    let was_covered = scene.covered.replace(is_covered);
    if is_told && !scene.had_journal.get() {
        return Error::wrong_state("a journal tells all that nobody asked for");
    }
    if was_covered && !is_told {
        scene.tell(|| "the journal does not tell all any more".to_owned());
        if !scene.has_failed.get() {
            return Error::wrong_state("the journal does not tell all any more, and no request ever failed");
        }
    }
    Ok(())
}

/// Blocks are lost only where a drive could not read and redundancy could not help.
pub(crate) fn note_lost(scene: &Scene, volume: &VolumeInfo) -> Result<()> {
    if volume.lost_bytes == 0 {
        return Ok(());
    }
    if !scene.array.faults.borrow().ever_unreadable() {
        return Error::wrong_state("blocks are called lost although every drive could always read them");
    }
    if !scene.has_lost_blocks.replace(true) {
        scene.tell(|| format!("{} bytes are called lost", volume.lost_bytes));
    }
    Ok(())
}

/// The drives that are being rebuilt: they serve where they are current already.
pub(crate) fn rebuilt(volume: &VolumeInfo) -> DriveSet {
    let rebuilt = volume.drives.iter().enumerate().filter(|(_, drive)| drive.state == DriveState::Rebuilding);
    rebuilt.map(|(slot, _)| DriveIndex(slot as u16)).collect()
}

pub(crate) fn out_of(volume: &VolumeInfo) -> DriveSet {
    let out = volume.drives.iter().enumerate().filter(|(_, drive)| drive.state != DriveState::Online);
    out.map(|(slot, _)| DriveIndex(slot as u16)).collect()
}
