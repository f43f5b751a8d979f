//! A life of the controller's process: it starts, is looked at, serves, and is shut down, unless it is killed
//! before.

use crate::error::{Error, ErrorKind, Result};
use crate::scene::Scene;
use crate::stamp::Sector;
use crate::workload;
use controller::{
    Command, Controller, ControllerHandle, CreateVolume, DriveState, Reply, VolumeInfo, VolumeState,
};
use engine::{ShardIndex, ShardMessage, ShardSeed, Volume};
use env::Env;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, DriveSet};

/// The name of the volume.
const VOLUME: &str = "v";

/// How long a resync may take in virtual time before it counts as stuck.
const RESYNC_LIMIT: Duration = Duration::from_secs(20 * 60);

/// What is to be done in a life.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Drives to name to the controller; those that it remembers it finds by itself.
    pub given: Vec<String>,
    /// Whether the volume is read before anything else is done.
    pub look_first: bool,
    /// Whether to wait until redundancy agrees before requests are sent.
    pub wait_for_resync: bool,
    /// Whether an operator brings drives back that are out, before or while requests are sent.
    pub bring_back: bool,
    /// Whether he has other drives take the places of those that died.
    pub replace: bool,
    /// A slot whose drive, though it serves, another one is to replace.
    pub replace_serving: Option<u16>,
    /// How many requests to send.
    pub ops: u64,
    /// Whether to shut down in the end.
    pub shut_down: bool,
    /// Whether this is the last, quiet life: nothing is wrong that can be repaired, so everything must get well.
    pub is_last: bool,
}

/// How a life ended that was not cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did what was planned.
    Done,
    /// The volume needs drives that are not there.
    NeedsDrives,
}

/// The controller, as its host sees it.
struct Host {
    scene: Rc<Scene>,
    env: Env,
    control: ControllerHandle,
    shards: Vec<engine::Shard>,
}

/// Starts the controller's process and lives a life as planned.
///
/// # Errors
/// The first broken promise.
pub async fn live(scene: Rc<Scene>, envs: Vec<Env>, plan: Plan) -> Result<Outcome> {
    scene.accepted.set(DriveSet::EMPTY);
    let host = start(scene, envs, plan.given.clone()).await;
    let scene = &host.scene;
    if !host.exists().await? {
        host.create().await?;
    }
    let volume = host.show().await?;
    if volume.state == VolumeState::Offline {
        if host.needs_drives(&volume)? {
            return Ok(Outcome::NeedsDrives);
        }
        host.accept().await?;
    } else if scene.created.get() {
        scene.count(|tally| tally.recoveries += 1);
    }
    host.judge_start(&host.show().await?)?;
    scene.created.set(true);
    let volumes = host.volumes()?;
    if plan.look_first {
        look_at_zones(scene, &volumes[0]).await?;
    }
    let watch = host.env.spawn("watch", watch(scene.clone(), host.env.clone(), host.control.clone()));
    if plan.wait_for_resync {
        host.wait_for_resync(plan.is_last).await?;
    }
    if plan.bring_back {
        host.bring_back(plan.is_last).await?;
    }
    if plan.replace {
        host.replace_dead(plan.is_last).await?;
    }
    if let Some(slot) = plan.replace_serving {
        host.replace_serving(DriveIndex(slot)).await?;
    }
    let name = format!("{}", scene.life.get());
    workload::run(scene.clone(), volumes.clone(), plan.ops, &name).await?;
    if plan.is_last {
        host.wait_for_rebuilds().await?;
        host.last_look(&volumes[0]).await?;
    }
    if plan.shut_down {
        host.shut_down().await?;
        scene.tell(|| "the controller is shut down".to_owned());
    }
    drop(watch);
    Ok(Outcome::Done)
}

async fn start(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>) -> Host {
    let count = envs.len() as u16;
    let (reports, receiver) = Controller::reports(&envs[0], count);
    let seeds: Vec<ShardSeed> = envs.iter().map(|env| ShardSeed::new(env, count)).collect();
    let senders: Vec<_> = seeds.iter().map(ShardSeed::sender).collect();
    let mut shards = Vec::new();
    for (index, seed) in seeds.into_iter().enumerate() {
        shards.push(seed.start(ShardIndex(index as u16), count, reports.clone()));
    }
    *scene.shards.borrow_mut() = shards.clone();
    for sender in &senders {
        assert!(sender.send(ShardMessage::Peers(senders.clone())).is_ok(), "a new shard takes messages");
    }
    let options = controller::Options { drives: given };
    let control = Controller::start(&envs[0], options, senders, receiver).await;
    Host { scene, env: envs[0].clone(), control, shards }
}

impl Host {
    async fn ask(&self, command: Command) -> controller::Result<Reply> {
        self.control.command(&self.env, command).await
    }

    async fn must(&self, command: Command) -> Result<Reply> {
        let what = format!("{command:?}");
        let answer = self.ask(command).await;
        answer.map_err(|error| Error::new(ErrorKind::WrongState, format!("{what} was refused: {error}")))
    }

    async fn exists(&self) -> Result<bool> {
        match self.must(Command::VolumeList {}).await? {
            Reply::Volumes { volumes } if volumes.iter().any(|volume| volume.name == VOLUME) => Ok(true),
            _ if self.scene.created.get() => Error::wrong_state("the volume is not there any more"),
            _ => Ok(false),
        }
    }

    async fn create(&self) -> Result<()> {
        let setup = &self.scene.setup;
        if setup.drives_are_made {
            for (name, drive) in setup.names().into_iter().zip(&setup.drives) {
                let size_bytes = Some(drive.size.0);
                let made = self.ask(Command::DriveAdd { drive: name.clone(), size_bytes }).await;
                if made.is_err() {
                    // A life that ended early made it already.
                    self.must(Command::DriveAdd { drive: name, size_bytes: None }).await?;
                }
            }
        }
        let create = CreateVolume {
            name: VOLUME.to_owned(),
            level: setup.level.name().to_owned(),
            drives: setup.names(),
            strip_bytes: Some(setup.strip.bytes().0),
            copies: setup.copies,
            destroy_data: true,
            write_hole: Some(controller::WriteHole::Resync),
            ..CreateVolume::default()
        };
        self.must(Command::VolumeCreate(create)).await?;
        self.scene.tell(|| "the volume is created".to_owned());
        Ok(())
    }

    async fn show(&self) -> Result<VolumeInfo> {
        show(&self.scene, &self.env, &self.control).await
    }

    /// Of a volume that is offline: whether that is for want of drives.
    fn needs_drives(&self, volume: &VolumeInfo) -> Result<bool> {
        let scene = &self.scene;
        scene.tell(|| format!("the volume is offline: {}", volume.reasons.join("; ")));
        let faults = scene.faults.borrow();
        let missing = out_of(volume);
        if !scene.setup.geometry.survives_set(&missing) {
            let (lost, ever) = (missing.count().as_usize(), faults.ever().count().as_usize());
            if lost > ever {
                return Error::wrong_state(format!(
                    "{lost} drives are not used, but only {ever} had a fault"
                ));
            }
            return Ok(true);
        }
        let elsewhere = self.may_have_gone_on(&missing);
        if faults.ever().is_empty() || !(scene.setup.has_parity() || elsewhere) {
            let reasons = volume.reasons.join("; ");
            return Error::wrong_state(format!("the volume was not started without need: {reasons}"));
        }
        Ok(false)
    }

    /// Whether drives that are missing could have served the volume without the others: that is asked about.
    fn may_have_gone_on(&self, missing: &DriveSet) -> bool {
        let geometry = &self.scene.setup.geometry;
        let rest = DriveSet::first(geometry.drives()).minus(missing);
        !missing.is_empty() && geometry.survives_set(&rest)
    }

    /// The operator starts a volume that is degraded, after he was told what that means: that no drive was used elsewhere,
    /// which is so; and, where it was being written, that parity is accepted as it is.
    async fn accept(&self) -> Result<()> {
        let scene = &self.scene;
        let start = |accept_stale_parity| Command::VolumeStart {
            volume: VOLUME.to_owned(),
            accept_stale_parity,
            degraded: true,
        };
        match self.ask(start(false)).await {
            Err(error) if error.kind == controller::ErrorKind::WrongState => {}
            // A drive that did not answer in time answers now: whether it serves rightly is judged next.
            Ok(_) => return Ok(()),
            Err(error) => return Error::wrong_state(format!("a start that needs a word ends as: {error}")),
        }
        self.must(start(true)).await?;
        scene.count(|tally| tally.refusals += 1);
        let out = out_of(&self.show().await?);
        scene.accepted.set(out);
        let given_up = self.give_up(&out);
        scene.tell(|| format!("the operator accepts stale parity: {given_up} sectors may read as anything"));
        Ok(())
    }

    /// What parity may not tell any more: sectors of missing drives, beside sectors of which it is not certain
    /// what they hold, or that parity did not follow. How many they are.
    fn give_up(&self, out: &DriveSet) -> u64 {
        let scene = &self.scene;
        let geometry = &scene.setup.geometry;
        let sector = scene.setup.sector().bytes().0;
        let mut oracle = scene.oracle.borrow_mut();
        let mut uncertain = scene.without_parity.borrow_mut();
        uncertain.extend(oracle.undecided().iter().map(|undecided| undecided.0));
        let mut lost: BTreeSet<u64> = BTreeSet::new();
        for uncertain in uncertain.iter() {
            let (stripe, within) = geometry.stripe_of(ByteOffset(uncertain * sector));
            let (_, at) = geometry.strip_of(within);
            for index in 0..geometry.data_strips() {
                let index = layout::DataIndex(index);
                let cell = geometry.data_cell(stripe, index, layout::CopyIndex(0));
                if out.contains(cell.drive) {
                    lost.insert(geometry.volume_offset(stripe, index, at).0 / sector);
                }
            }
        }
        lost.iter().for_each(|&sector| oracle.give_up(Sector(sector), 1));
        lost.len() as u64
    }

    /// The volume serves: whether it may, in the way it does.
    fn judge_start(&self, volume: &VolumeInfo) -> Result<()> {
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
        let mut faults = scene.faults.borrow_mut();
        let innocent = out.minus(&faults.ever());
        if !innocent.is_empty() {
            return Error::wrong_state(format!(
                "drives {innocent:?} are not used although nothing happened to them"
            ));
        }
        // A drive that is being rebuilt is missed only where it is not current yet, which nobody here knows.
        let missed = volume
            .drives
            .iter()
            .any(|drive| !matches!(drive.state, DriveState::Online | DriveState::Rebuilding));
        let dirty_and_degraded = scene.setup.has_parity() && missed && volume.resync.is_some();
        let has_word = !scene.accepted.get().is_empty();
        if dirty_and_degraded && !has_word && !faults.happened_in(scene.life.get()) {
            return Error::wrong_state(
                "a volume that is degraded and dirty was started without the operator",
            );
        }
        faults.known(scene.life.get());
        scene.out.set(out);
        scene.synced.set(false);
        if volume.resync.is_none() {
            scene.settle();
        }
        Ok(())
    }

    fn volumes(&self) -> Result<Vec<Rc<Volume>>> {
        let volumes: Vec<_> = self.shards.iter().filter_map(|shard| shard.volume_named(VOLUME)).collect();
        if volumes.len() < self.shards.len() {
            return Error::wrong_state("a volume that is started is not on every shard");
        }
        Ok(volumes)
    }

    /// Waits until the controller says that redundancy agrees, where it can come to that. `must`: it can.
    async fn wait_for_resync(&self, must: bool) -> Result<()> {
        let end = self.env.now() + RESYNC_LIMIT;
        let mut pause = Duration::from_millis(1);
        while !self.scene.synced.get() {
            if !must && self.scene.may_fail() {
                return Ok(()); // What it needs is missing.
            }
            if self.env.now() > end {
                let volume = self.show().await?;
                return Err(Error::new(
                    ErrorKind::Stall,
                    format!("the resync does not come to its end: {:?}, {:?}", volume.state, volume.resync),
                ));
            }
            self.env.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        Ok(())
    }

    /// An operator brings every drive back that is out and there. `must`: nothing keeps him from it.
    async fn bring_back(&self, must: bool) -> Result<()> {
        let scene = &self.scene;
        let shown = self.show().await?;
        let gone = scene.faults.borrow().gone();
        for slot in out_of(&shown).minus(&gone).iter() {
            if shown.drives[slot.as_usize()].state == DriveState::Rebuilding {
                continue;
            }
            let drive = format!("{VOLUME}:{}", slot.0);
            match self.ask(Command::DriveOnline { drive }).await {
                Ok(_) => {
                    scene.count(|tally| tally.returns += 1);
                    scene.tell(|| format!("drive {} is brought back", slot.0));
                }
                Err(error) if must => {
                    return Error::wrong_state(format!("drive {} is not taken back: {error}", slot.0));
                }
                Err(error) => scene.tell(|| format!("drive {} is not taken back: {error}", slot.0)),
            }
        }
        Ok(())
    }

    /// An operator has other drives take the places of those that died. `must`: nothing keeps him from it.
    async fn replace_dead(&self, must: bool) -> Result<()> {
        let scene = &self.scene;
        let shown = self.show().await?;
        let dead = scene.faults.borrow().dead();
        for slot in out_of(&shown).intersection(&dead).iter() {
            match self.replace(slot).await? {
                Some(error) if must => {
                    return Error::wrong_state(format!("drive {} is not replaced: {error}", slot.0));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An operator has another drive take the place of one that serves.
    async fn replace_serving(&self, slot: DriveIndex) -> Result<()> {
        let shown = self.show().await?;
        if out_of(&shown).is_empty() {
            self.replace(slot).await?;
        }
        Ok(())
    }

    /// Has the next drive take a place, if there is one. Why it was refused, if it was.
    async fn replace(&self, slot: DriveIndex) -> Result<Option<controller::Error>> {
        let scene = &self.scene;
        let Some((name, drive)) = scene.replacements.borrow_mut().pop() else { return Ok(None) };
        scene.known.borrow_mut().push((name.clone(), drive));
        scene.tell(|| format!("drive {} is to be replaced by {name}", slot.0));
        let which = format!("{VOLUME}:{}", slot.0);
        let replace = Command::DriveReplace { drive: which, with: name, destroy_data: true };
        match self.ask(replace).await {
            Ok(_) => {
                self.show().await?;
                Ok(None)
            }
            Err(error) => {
                scene.tell(|| format!("it is not: {error}"));
                Ok(Some(error))
            }
        }
    }

    /// Waits until every drive that is there has been made current.
    async fn wait_for_rebuilds(&self) -> Result<()> {
        let end = self.env.now() + RESYNC_LIMIT;
        let gone = self.scene.faults.borrow().gone();
        loop {
            let shown = self.show().await?;
            if out_of(&shown).minus(&gone).is_empty() {
                self.scene.out.set(out_of(&shown));
                return Ok(());
            }
            if self.env.now() > end {
                let states: Vec<DriveState> = shown.drives.iter().map(|drive| drive.state).collect();
                let sentence = format!("drives are not rebuilt: {states:?}: {}", shown.reasons.join("; "));
                return Err(Error::new(ErrorKind::Stall, sentence));
            }
            self.env.sleep(Duration::from_millis(100)).await;
        }
    }

    /// At the end of all things nothing is wrong that can be repaired.
    async fn last_look(&self, volume: &Rc<Volume>) -> Result<()> {
        let scene = &self.scene;
        workload::flush(scene, volume).await?;
        look_at_all(scene, volume).await?;
        let shown = self.show().await?;
        note_lost(scene, &shown)?;
        let out = out_of(&shown);
        let expected = if out.is_empty() { VolumeState::Optimal } else { VolumeState::Degraded };
        if shown.state != expected || shown.resync.is_some() || out != scene.out.get() {
            return Error::wrong_state(format!(
                "with nothing wrong any more the volume is {}, drives {out:?} are out, resync: {:?}",
                shown.state, shown.resync
            ));
        }
        Ok(())
    }

    async fn shut_down(&self) -> Result<()> {
        self.must(Command::Shutdown {}).await?;
        self.shards.iter().for_each(engine::Shard::stop);
        Ok(())
    }
}

async fn show(scene: &Scene, env: &Env, control: &ControllerHandle) -> Result<VolumeInfo> {
    let command = Command::VolumeShow { volume: VOLUME.to_owned() };
    match control.command(env, command).await {
        Ok(Reply::Volume { volume, .. }) => {
            let used = |drive: &controller::DriveInfo| {
                matches!(drive.state, DriveState::Online | DriveState::Rebuilding)
            };
            for (slot, drive) in volume.drives.iter().enumerate().filter(|(_, drive)| used(drive)) {
                scene.note_drive(DriveIndex(slot as u16), &drive.name);
            }
            Ok(*volume)
        }
        other => Error::wrong_state(format!("the volume cannot be shown: {other:?}")),
    }
}

/// Blocks are lost only where a drive could not read and redundancy could not help.
fn note_lost(scene: &Scene, volume: &VolumeInfo) -> Result<()> {
    if volume.lost_bytes == 0 {
        return Ok(());
    }
    if !scene.faults.borrow().ever_unreadable() {
        return Error::wrong_state("blocks are called lost although every drive could always read them");
    }
    if !scene.has_lost_blocks.replace(true) {
        scene.tell(|| format!("{} bytes are called lost", volume.lost_bytes));
    }
    Ok(())
}

fn out_of(volume: &VolumeInfo) -> DriveSet {
    let out = volume.drives.iter().enumerate().filter(|(_, drive)| drive.state != DriveState::Online);
    out.map(|(slot, _)| DriveIndex(slot as u16)).collect()
}

/// Tells the scene when redundancy agrees.
async fn watch(scene: Rc<Scene>, env: Env, control: ControllerHandle) {
    let mut pause = Duration::from_millis(1);
    loop {
        env.sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
        let Ok(volume) = show(&scene, &env, &control).await else { return };
        if volume.state == VolumeState::Offline || note_lost(&scene, &volume).is_err() {
            return; // The next look tells of it.
        }
        let out = scene.out.get().intersection(&out_of(&volume));
        if out != scene.out.get() {
            scene.tell(|| format!("rebuilt; now without drives {out:?}"));
            scene.out.set(out);
        }
        if volume.resync.is_none() && !scene.synced.get() {
            scene.settle();
            scene.tell(|| "redundancy agrees with the data".to_owned());
        }
    }
}

/// Reads a range in pieces and checks every sector.
async fn look_at(scene: &Scene, volume: &Rc<Volume>, range: ByteRange) -> Result<()> {
    const PIECE: ByteCount = ByteCount(256 << 10);
    let mut at = range.start;
    while at < range.end() {
        let len = PIECE.min(range.end() - at);
        workload::read(scene, volume, ByteRange::new(at, len)).await?;
        at += len;
    }
    Ok(())
}

/// Reads all that requests go to.
async fn look_at_zones(scene: &Scene, volume: &Rc<Volume>) -> Result<()> {
    for zone in &scene.setup.zones {
        look_at(scene, volume, *zone).await?;
    }
    scene.tell(|| "everything was read and is as it may be".to_owned());
    Ok(())
}

/// Reads the whole volume.
async fn look_at_all(scene: &Scene, volume: &Rc<Volume>) -> Result<()> {
    look_at(scene, volume, ByteRange::new(ByteOffset::ZERO, scene.setup.geometry.capacity())).await?;
    scene.tell(|| "the whole volume was read and is as it may be".to_owned());
    Ok(())
}

/// Starts a controller over copies of drives some of which were left out, after everything was stopped in order:
/// the volume must come up, and every sector be had from what is left.
///
/// # Errors
/// The first broken promise.
pub async fn without_some(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>) -> Result<()> {
    let host = start(scene, envs, given).await;
    let mut volume = host.show().await?;
    if volume.state == VolumeState::Offline && host.may_have_gone_on(&out_of(&volume)) {
        let (name, accept_stale_parity, degraded) = (VOLUME.to_owned(), false, true);
        host.must(Command::VolumeStart { volume: name, accept_stale_parity, degraded }).await?;
        volume = host.show().await?;
    }
    if volume.state == VolumeState::Offline || volume.resync.is_some() {
        return Error::wrong_state(format!(
            "stopped in order, then started without some drives, the volume is {} (resync: {:?}): {}",
            volume.state,
            volume.resync,
            volume.reasons.join("; ")
        ));
    }
    let volumes = host.volumes()?;
    look_at_zones(&host.scene, &volumes[0]).await
}
