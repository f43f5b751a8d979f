//! The controller's process from outside: started, queried, and judged by its reports.

use crate::error::{Error, ErrorKind, Result};
use crate::log_devices;
use crate::migrations;
use crate::scene::{Presence, Scene};
use crate::setup::{FIRST, VolumeRole};
use crate::tally::Event;
use controller::{
    Command, Controller, ControllerHandle, CreateVolume, DriveCache, DriveState, Reply, VolumeInfo,
    VolumeState, WriteMode,
};
use engine::{ShardIndex, ShardMessage, ShardSeed, Volume};
use platform::Env;
use platform_sim::Rng;
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// The second name of a drive.
const TWIN: &str = "other-door";

/// The controller, as the host of a volume sees it.
#[derive(Clone)]
pub(crate) struct Host {
    pub scene: Rc<Scene>,
    pub env: Env,
    pub control: ControllerHandle,
    pub shards: Vec<engine::Shard>,
}

/// The result of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StartResult {
    /// Nothing: the volume must be created.
    Nothing,
    /// The volume.
    Volume,
    /// Nothing, because drives are missing.
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
        assert!(
            sender.send(ShardMessage::Peers(senders.clone())).is_ok(),
            "a new shard takes messages"
        );
    }
    let cache_size = scene.setup.cache * u64::from(count);
    let logs = log_devices::begin(&scene);
    let read_cache =
        scene.setup.reads.map_or(units::ByteCount::ZERO, |reads| reads.room) * u64::from(count);
    let limits = scene.setup.limits;
    let options = controller::Options {
        drives: given,
        cache_size,
        cache_step: scene.setup.cache_step,
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
        answer.map_err(|error| {
            Error::new(ErrorKind::WrongState, format!("{what} was refused: {error}"))
        })
    }

    pub async fn find(&self) -> Result<StartResult> {
        let name = self.scene.setup.name();
        let listed = match self.must(Command::VolumeList {}).await? {
            Reply::Volumes { volumes } => volumes.into_iter().find(|volume| volume.name == name),
            _ => None,
        };
        if listed.as_ref().is_some_and(|volume| self.is_left_by_deletion(volume)) {
            return Ok(self.is_deleted(true));
        }
        match (listed.is_some(), self.scene.presence.get()) {
            (true, Presence::Never) => {
                Error::wrong_state("the volume exists, but was never created")
            }
            (true, Presence::Gone) => {
                let drives = listed.map(|volume| volume.drives).unwrap_or_default();
                let drives =
                    drives.iter().map(|drive| format!("{} is {:?}", drive.name, drive.state));
                let drives: Vec<String> = drives.collect();
                Error::wrong_state(format!("a deleted volume has returned: {}", drives.join(", ")))
            }
            (true, _) => Ok(StartResult::Volume),
            // A volume without any online drive is not listed.
            (false, Presence::There) if self.is_nowhere() => Ok(StartResult::NeedsDrives),
            (false, Presence::There) => Error::wrong_state("the volume has disappeared"),
            // The start finished an interrupted deletion. A drive with a fault may have missed it.
            (false, Presence::Leaving) => {
                Ok(self.is_deleted(!self.scene.array.faults.borrow().ever().is_empty()))
            }
            (false, _) => Ok(StartResult::Nothing),
        }
    }

    /// Records that the volume is deleted. `is_untold`: a drive may still have its label.
    fn is_deleted(&self, is_untold: bool) -> StartResult {
        self.scene.presence.set(Presence::Gone);
        self.scene.untold.set(is_untold);
        StartResult::Nothing
    }

    /// Whether a listed volume is the rest of a deletion that did not reach the labels of some
    /// drives. Another machine has no record of the deletion.
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
        // The start finished an interrupted deletion, or another volume was being created:
        // fault-free drives have no label, and drives that are listed as present still have one.
        let is_missing = |slot: DriveIndex| {
            listed
                .drives
                .get(slot.as_usize())
                .is_none_or(|drive| drive.state == DriveState::Missing)
        };
        let missing: DriveSet =
            scene.drive_count().indexes().filter(|slot| is_missing(*slot)).collect();
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

    /// Creates the first volume.
    pub async fn create(&self) -> Result<()> {
        let setup = &self.scene.setup;
        self.make_drives().await?;
        self.be_refused_a_twin().await?;
        self.scene.presence.set(Presence::Asked);
        let is_shared = setup.beside.iter().any(|other| other.place == VolumeRole::SameDrives);
        self.must(Command::VolumeCreate(CreateVolume {
            drives: setup.names(),
            // A neighbour needs the rest.
            size_bytes: is_shared.then_some(setup.geometry.capacity().0),
            ..self.volume()
        }))
        .await?;
        self.scene.count(|tally| tally.created += 1);
        self.scene.tell(|| "the volume is created".to_owned());
        Ok(())
    }

    /// In some runs the operator names one drive twice, by an alias that looks like another drive.
    /// The controller must refuse, or the volume would have fewer copies than reported.
    async fn be_refused_a_twin(&self) -> Result<()> {
        let setup = &self.scene.setup;
        let mut drives = setup.names();
        let first = self.scene.array.drives.borrow().first().cloned();
        let (Some(first), true) =
            (first, drives.len() > 1 && Rng::new(setup.seed, "twin", "").chance(1, 8))
        else {
            return Ok(());
        };
        self.scene.machine.time.add_twin(&first, TWIN);
        if let Some(last) = drives.last_mut() {
            TWIN.clone_into(last);
        }
        let refused =
            match self.ask(Command::VolumeCreate(CreateVolume { drives, ..self.volume() })).await {
                Err(error) => error,
                Ok(_) => {
                    return Error::wrong_state("a volume was created on one drive under two names");
                }
            };
        self.scene.tell(|| format!("the operator names a drive twice: {refused}"));
        // After a kill the alias may be registered: the next start would find the first drive's
        // label under it.
        match self.ask(Command::DriveForget { drive: TWIN.to_owned() }).await {
            Ok(_) => {}
            Err(error) if error.kind == controller::ErrorKind::NotFound => {}
            Err(error) => {
                return Error::wrong_state(format!("cannot forget the alias of a drive: {error}"));
            }
        }
        match refused.kind {
            controller::ErrorKind::Invalid if refused.message.contains("are the same storage") => {
                Ok(())
            }
            _ => Error::wrong_state(format!(
                "creation on one drive under two names failed with another error: {refused}"
            )),
        }
    }

    /// Creates a neighbour, if possible.
    pub async fn create_beside(&self) -> controller::Result<()> {
        let (scene, setup) = (&self.scene, &self.scene.setup);
        scene.begins_anew();
        let mut create =
            CreateVolume { size_bytes: Some(setup.geometry.capacity().0), ..self.volume() };
        if setup.place == VolumeRole::SameDrives {
            create.array = Some(FIRST.to_owned());
        } else {
            let names = scene.array.names.borrow().clone();
            create.drives = self.names_now(&names).await;
        }
        self.ask(Command::VolumeCreate(create)).await.map(|_| ())
    }

    /// The controller's names of free drives, by their first names. A drive registered under two
    /// names is listed under both, and refused under one.
    async fn names_now(&self, first: &[String]) -> Vec<String> {
        let machine = &self.scene.machine;
        let listed: Vec<String> = match self.ask(Command::DriveList {}).await {
            Ok(Reply::Drives { drives, .. }) => {
                let free = drives.into_iter().filter(|drive| drive.state == DriveState::Unused);
                free.map(|drive| drive.name).collect()
            }
            _ => Vec::new(),
        };
        let name_of =
            |first: &String| listed.iter().find(|name| machine.drive_at(name) == *first).cloned();
        first
            .iter()
            .map(|first| name_of(first).unwrap_or_else(|| machine.path_of(first.clone())))
            .collect()
    }

    /// Creates the drives that the controller creates itself.
    pub async fn make_drives(&self) -> Result<()> {
        let setup = &self.scene.setup;
        for (name, drive) in
            setup.names().into_iter().zip(&setup.drives).filter(|_| setup.drives_are_made)
        {
            let size_bytes = Some(drive.size.0);
            let made = self.ask(Command::DriveAdd { drive: name.clone(), size_bytes }).await;
            if made.is_err() {
                // An earlier, interrupted life may have created it.
                self.must(Command::DriveAdd { drive: name, size_bytes: None }).await?;
            }
        }
        Ok(())
    }

    /// The parameters that do not depend on the drives.
    fn volume(&self) -> CreateVolume {
        let setup = &self.scene.setup;
        CreateVolume {
            name: setup.name().to_owned(),
            level: setup.level.name().to_owned(),
            strip_bytes: Some(setup.strip.bytes().0),
            copies: setup.copies,
            destroy_data: true,
            write_hole: setup.has_parity().then_some(setup.write_hole),
            write_mode: Some(if setup.write_back {
                setup.cached_mode
            } else {
                WriteMode::WriteThrough
            }),
            read_mode: Some(setup.reads.map(|reads| reads.read_mode).unwrap_or_default()),
            cache_mode: Some(setup.reads.map(|reads| reads.cache_mode).unwrap_or_default()),
            drive_cache: Some(DriveCache::default()),
            // The drawn drives have no space beyond the volume.
            coercion: Some(controller::Coercion::None),
            ..CreateVolume::default()
        }
    }

    pub async fn show(&self) -> Result<VolumeInfo> {
        show(&self.scene, &self.env, &self.control).await
    }

    /// Whether an offline volume is offline because drives are missing.
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
        // A drive that was absent at the start is present now: only an operator starts the volume
        // then.
        let happened = faults.happened_in(scene.machine.life.get());
        let is_back = missing.is_empty() && happened;
        // A hanging drive can interrupt a start after some labels are updated.
        let is_half_told =
            happened && volume.reasons.iter().any(|why| why.contains("took part up to change"));
        if faults.ever().is_empty()
            || !(scene.parity_may_lie() || elsewhere || is_back || is_half_told)
        {
            let reasons = volume.reasons.join("; ");
            return Error::wrong_state(format!(
                "the volume did not start, without a cause: {reasons}"
            ));
        }
        Ok(false)
    }

    /// The operator starts a degraded volume, and confirms that no drive was used elsewhere (which
    /// is true) and, after interrupted writes, that stale parity is accepted.
    pub async fn force(&self) -> Result<()> {
        let scene = &self.scene;
        let start = |accept_stale_parity| Command::VolumeStart {
            volume: scene.setup.name().to_owned(),
            accept_stale_parity,
            degraded: true,
        };
        match self.ask(start(false)).await {
            Err(error) if error.kind == controller::ErrorKind::WrongState => {}
            // A drive that was late responds now: the next check judges the service.
            Ok(_) => return Ok(()),
            Err(error) => return self.judge_failed_start(error).await,
        }
        let shown = self.show().await?;
        if !shown.state.serves() && log_devices::waits(self, &shown)? {
            return Ok(()); // The caller checks again.
        }
        let before = out_of(&shown);
        let known_out = before.minus(&rebuilt(&shown));
        // A reshape may end before the order completes; the stale parity is that of the old layout.
        let mut untold = scene.untold(&before);
        if let Err(error) = self.ask(start(true)).await {
            return self.judge_failed_start(error).await;
        }
        scene.did(Event::OperatorAccepts);
        let shown = self.show().await?;
        let out = out_of(&shown);
        // Consent covers the drives that the operator knew to be offline. A drive that failed
        // during the order (or was being rebuilt) may be covered or not: hosts may get errors for
        // its blocks (a known limit of stale parity), or any data. A drive whose rebuild ended
        // before the reply was rebuilt from the stale parity.
        let is_back = before.minus(&out);
        scene.forced.set(out.intersection(&known_out.union(&rebuilt(&shown))).union(&is_back));
        untold.extend(scene.untold(&out.union(&is_back)));
        scene.force(&untold);
        let given_up = untold.len();
        scene.tell(|| {
            format!("the operator accepts stale parity: {given_up} sectors may have any content")
        });
        Ok(())
    }

    /// A start failed for a reason other than missing consent. That is allowed if a required drive
    /// failed during the start (a volume whose start cannot be recorded is not served), if its log
    /// was lost meanwhile, or if the volume started by itself. The caller checks again.
    async fn judge_failed_start(&self, error: controller::Error) -> Result<()> {
        if error.kind == controller::ErrorKind::Failed && self.scene.may_fail() {
            self.scene.tell(|| format!("a start failed: {error}"));
            return Ok(());
        }
        let shown = self.show().await?;
        // A late drive responded between query and order, and the volume started by itself: the
        // next check judges the service.
        if error.kind == controller::ErrorKind::WrongState
            && (shown.state.serves() || log_devices::waits(self, &shown)?)
        {
            return Ok(());
        }
        Error::wrong_state(format!("a start that needs consent failed: {error}"))
    }

    /// Checks whether the volume may be served in its reported state.
    pub fn judge_start(&self, volume: &VolumeInfo) -> Result<()> {
        let scene = &self.scene;
        let out = out_of(volume);
        scene.tell(|| {
            let out = out
                .iter()
                .map(|slot| format!("{} ({:?})", slot.0, volume.drives[slot.as_usize()].state));
            let out = out.collect::<Vec<_>>().join(", ");
            let without =
                if out.is_empty() { String::new() } else { format!(" without drives {out}") };
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
                "drives {innocent:?} are not used although they had no fault: {}",
                why.collect::<Vec<_>>().join("; ")
            ));
        }
        // A rebuilding drive counts only where it is not current, which is unknown here. The list
        // also has drives of other volumes of the array.
        let mut own = volume.drives.iter().take(scene.drive_count().as_usize());
        let missed =
            own.any(|drive| !matches!(drive.state, DriveState::Online | DriveState::Rebuilding));
        let has_journal = scene.on_log.tells_all();
        let dirty_and_degraded = scene.parity_may_lie()
            && !scene.may_move()
            && missed
            && volume.resync.is_some()
            && !has_journal;
        let has_word = !scene.forced.get().is_empty();
        if dirty_and_degraded && !has_word && !faults.happened_in(scene.machine.life.get()) {
            return Error::wrong_state("a dirty, degraded volume started without consent");
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
        let volumes: Vec<_> = self
            .shards
            .iter()
            .filter_map(|shard| shard.volume_named(self.scene.setup.name()))
            .collect();
        if volumes.len() < self.shards.len() {
            return Error::wrong_state("a started volume is missing on a shard");
        }
        Ok(volumes)
    }
}

pub(crate) async fn show(
    scene: &Scene,
    env: &Env,
    control: &ControllerHandle,
) -> Result<VolumeInfo> {
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
        Error::new(ErrorKind::WrongState, format!("cannot show the volume: {other:?}"))
    })?;
    migrations::look(scene, env, control, (&volume, orders)).await?;
    // A spare may have taken the slot and left it again between two queries.
    let is_of_slot = |drive: &controller::DriveInfo| {
        let states =
            [DriveState::Online, DriveState::Rebuilding, DriveState::Offline, DriveState::Stale];
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

/// The usable volume among several of that name. A drive that hung during a deletion still has the
/// deleted volume's label; over copies, a controller without a record of the deletion lists it with
/// missing drives.
async fn only_one_served(
    scene: &Scene,
    env: &Env,
    control: &ControllerHandle,
) -> Option<VolumeInfo> {
    if !scene.machine.story.of_copies.get() || !scene.setup.is_neighbour() {
        return None;
    }
    let Ok(Reply::Volumes { volumes, .. }) = control.command(env, Command::VolumeList {}).await
    else {
        return None;
    };
    let named = volumes.into_iter().filter(|volume| volume.name == scene.setup.name());
    let mut served = named.filter(|volume| volume.state.serves());
    served.next().filter(|_| served.next().is_none())
}

/// Whether the distributed spare is free again: all drives are online, and every shard reads each
/// drive's own strips.
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

/// Records the reported journal coverage of a served volume; the controller must not withdraw it
/// without a cause. `changes`: the number of log changes at the query.
fn note_cover(scene: &Scene, volume: &VolumeInfo, changes: u64) -> Result<()> {
    // While an order to remove the journal is pending, its state is unknown.
    if !volume.state.serves() || !scene.has_parity() || scene.gives_up_journal.get() {
        return Ok(());
    }
    let Some((is_covered, is_told)) = log_devices::note(scene, volume, changes) else {
        return Ok(());
    };
    if scene.may_move() {
        // During a reshape the report is about the old layout.
        scene.on_log.may_have_moved(&scene.machine.log);
        scene.covered.set(false);
        return Ok(());
    }
    let was_covered = scene.covered.replace(is_covered);
    if is_told && !scene.had_journal.get() {
        return Error::wrong_state("a journal is complete that was never requested");
    }
    if was_covered && !is_told {
        scene.tell(|| "the journal is no longer complete".to_owned());
        if !scene.has_failed.get() {
            return Error::wrong_state(
                "the journal is no longer complete, although no request ever failed",
            );
        }
    }
    Ok(())
}

/// Punctured blocks need a drive with unreadable blocks and insufficient redundancy.
pub(crate) fn note_lost(scene: &Scene, volume: &VolumeInfo) -> Result<()> {
    if volume.lost_bytes == 0 {
        return Ok(());
    }
    if !scene.array.faults.borrow().ever_unreadable() {
        return Error::wrong_state(
            "blocks are punctured although no drive ever had unreadable blocks",
        );
    }
    if !scene.has_lost_blocks.replace(true) {
        scene.tell(|| format!("{} bytes are punctured", volume.lost_bytes));
    }
    Ok(())
}

/// The rebuilding drives: they serve the ranges that are current.
pub(crate) fn rebuilt(volume: &VolumeInfo) -> DriveSet {
    let rebuilt =
        volume.drives.iter().enumerate().filter(|(_, drive)| drive.state == DriveState::Rebuilding);
    rebuilt.map(|(slot, _)| DriveIndex(slot as u16)).collect()
}

pub(crate) fn out_of(volume: &VolumeInfo) -> DriveSet {
    let out =
        volume.drives.iter().enumerate().filter(|(_, drive)| drive.state != DriveState::Online);
    out.map(|(slot, _)| DriveIndex(slot as u16)).collect()
}
