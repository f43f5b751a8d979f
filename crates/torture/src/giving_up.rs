//! The volume is given up while drives do not answer, and another one is made of them.
//!
//! # What must hold
//! A drive may carry out what it was asked long after nobody waits for it any more. What is made of it next holds what was
//! written to that, and nothing else (rule (d)): it is made when all that was asked before has come back, and not refused
//! then. Of the old volume nothing matters any more: as many drives hang as like to. A neighbour keeps what it holds; one that lies
//! on the same drives is deleted first, or no drive hangs.

use crate::error::{Error, Result};
use crate::faults;
use crate::host::{Host, out_of};
use crate::life::{self, Plan};
use crate::options::Lie;
use crate::run::{Run, envs};
use crate::scene::{Presence, Scene};
use crate::setup::Place;
use crate::tally::Deed;
use controller::{Command, CreateVolume, Reply, VolumeInfo};
use engine::Volume;
use platform::{Buf, Durability, Env};
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// What the volume may be called in the end.
const RENAMED: &str = "other";

/// The name of the volume that is made last.
const NEXT: &str = "next";

/// What hangs longer than a drive may take, hangs no longer than that.
const LONGEST: Duration = Duration::from_secs(90);

/// How long it may take until a volume is made of drives that hung: what a command writes to them may time out as well, one
/// write after the other.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What the new volume is written with, and how it is read.
const PIECE: ByteCount = ByteCount(128 << 10);

impl Run {
    /// Some volumes are given up in the end. Large ones are not: they would be written and read as a whole.
    pub(crate) fn give_up(&mut self) -> Result<()> {
        let setup = self.scene.setup.clone();
        let mut rng = Rng::new(setup.seed, "giving up", "");
        if !rng.chance(1, 4) || setup.lie != Lie::None || setup.zones.len() > 1 {
            return Ok(());
        }
        self.scene.tell(|| "the volume is to be given up".to_owned());
        self.scene.machine.bury();
        self.sim.restart_process();
        let given = self.paths();
        let life = give_up(self.scene.clone(), envs(&self.sim, &setup), given, rng);
        self.finish(life).map(|_| ())
    }
}

async fn give_up(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>, mut rng: Rng) -> Result<()> {
    let plan = Plan { given, is_last: true, ..Plan::default() };
    let host = life::begin(scene.clone(), envs, &plan).await;
    if !life::open(&host, &plan, true).await? {
        return Error::wrong_state("the volume needs drives although all were well");
    }
    let shown = host.show().await?;
    let well =
        || (0..shown.drives.len()).filter(|slot| !out_of(&shown).iter().any(|out| out.as_usize() == *slot));
    let names: Vec<String> = well().map(|slot| shown.drives[slot].name.clone()).collect();
    let drives: Vec<SimDrive> = well().map(|slot| scene.array.drives.borrow()[slot].clone()).collect();
    let volumes = host.volumes()?;
    let beside = Beside::open(&host, &plan).await?;
    if beside.on_same.is_some() && rng.chance(1, 2) {
        begin_write(&scene, &volumes[0], 1, &mut rng);
        delete(&host, &shown, &mut rng).await?;
        beside.look().await?;
        return host.shut_down().await;
    }
    let beside = beside.delete_on_same().await?;
    for drive in &drives {
        hang(&scene, drive, &mut rng);
    }
    for number in 0..rng.between(1, 8) {
        let volume = volumes[rng.below(volumes.len() as u64) as usize].clone();
        begin_write(&scene, &volume, number as u8, &mut rng);
    }
    drop(volumes);
    host.env.sleep(faults::delay(&mut rng)).await;
    delete(&host, &shown, &mut rng).await?;
    drives.iter().for_each(|drive| drive.stall_next(0, Duration::ZERO));
    let Some(volume) = make_next(&host, names).await? else {
        // What hangs of the deleted volume's writes may land on the neighbour, who has all of these drives.
        host.env.sleep(LONGEST * 2).await;
        beside.look().await?;
        return host.shut_down().await;
    };
    for (number, range) in pieces(&volume) {
        let data = Buf::copy_of(&content(number, range.len)).freeze();
        if let Err(error) = volume.write(range, data, Durability::Cached).await {
            return Error::wrong_state(format!("a write to the new volume fails: {error}"));
        }
    }
    // Whatever hangs has come back by then.
    host.env.sleep(LONGEST * 2).await;
    for (number, range) in pieces(&volume) {
        let (result, buf) = volume.read(range, Buf::unpooled(range.len)).await;
        let expected = content(number, range.len);
        let is_it = buf.is_some_and(|buf| *buf.bytes() == *expected);
        if result.is_err() || !is_it {
            let what = format!("{range:?} of the new volume is not what was written to it: {result:?}");
            return Err(Error::new(crate::ErrorKind::WrongData, what));
        }
    }
    drop(volume);
    beside.look().await?;
    scene.did(Deed::OperatorDeletes);
    host.shut_down().await
}

/// The neighbours of the volume that is given up: they have what they had.
struct Beside {
    on_same: Option<Host>,
    on_own: Option<Host>,
}

impl Beside {
    /// Those that are there.
    async fn open(first: &Host, plan: &Plan) -> Result<Beside> {
        let mut beside = Beside { on_same: None, on_own: None };
        for scene in first.scene.beside.iter().filter(|scene| scene.is_there()) {
            let host = first.of(scene);
            if !life::open(&host, plan, false).await? {
                return Error::wrong_state("the neighbour needs drives although all were well");
            }
            match scene.setup.place {
                Place::OwnDrives => beside.on_own = Some(host),
                Place::First | Place::SameDrives => beside.on_same = Some(host),
            }
        }
        Ok(beside)
    }

    /// The drives are to be free, and to hang: the one that lies on them is deleted first.
    async fn delete_on_same(self) -> Result<Beside> {
        if let Some(host) = &self.on_same {
            let volume = host.scene.setup.name().to_owned();
            host.must(Command::VolumeDelete { volume, disconnect_hosts: false }).await?;
            host.scene.presence.set(Presence::Gone);
            host.scene.count(|tally| tally.deleted += 1);
            host.scene.tell_of("operator", || "the volume is deleted".to_owned());
        }
        Ok(Beside { on_same: None, ..self })
    }

    async fn look(&self) -> Result<()> {
        for host in self.on_same.iter().chain(&self.on_own) {
            let looked = life::look_at_zones(&host.scene, &host.volumes()?[0]).await;
            looked.map_err(|error| crate::beside::of(&host.scene, error))?;
        }
        Ok(())
    }
}

/// A drive may stop to answer, or take long for a few operations.
fn hang(scene: &Rc<Scene>, drive: &SimDrive, rng: &mut Rng) {
    let time = Duration::from_secs(rng.between(1, LONGEST.as_secs()));
    match rng.below(4) {
        0..=1 => return,
        2 => {
            drive.hold();
            faults::later_to(scene, time, drive, SimDrive::release);
        }
        _ => drive.stall_next(rng.between(1, 6), time),
    }
    scene.tell_of(drive.name(), || format!("it hangs for {time:?}"));
}

/// Nobody waits for it.
fn begin_write(scene: &Scene, volume: &Rc<Volume>, number: u8, rng: &mut Rng) {
    let sector = scene.setup.sector().bytes().0;
    let zone = scene.setup.zones[0];
    let count = zone.len.0 / sector;
    let first = rng.below(count);
    let len = ByteCount(rng.between(1, (count - first).min(PIECE.0 / sector)) * sector);
    let range = ByteRange::new(zone.start + ByteCount(first * sector), len);
    let durability = if rng.chance(1, 2) { Durability::Durable } else { Durability::Cached };
    let data = Buf::copy_of(&vec![number; len.as_usize()]).freeze();
    let volume = volume.clone();
    let env = volume.shard().env().clone();
    drop(env.spawn("write", async move {
        // It may fail; who knows whether it was done then.
        let _ = volume.write(range, data, durability).await;
    }));
}

/// An operator deletes the volume; it may have got another name just before.
async fn delete(host: &Host, shown: &VolumeInfo, rng: &mut Rng) -> Result<()> {
    if rng.chance(1, 3) {
        let renamed = host
            .ask(Command::VolumeSet { volume: host.scene.setup.name().to_owned(), name: RENAMED.to_owned() })
            .await;
        host.scene.tell_of("operator", || match renamed {
            Ok(_) => "it is called another name".to_owned(),
            Err(error) => format!("it is not called another name: {error}"),
        });
    }
    host.must(Command::VolumeDelete { volume: shown.uuid.clone(), disconnect_hosts: false }).await?;
    host.scene.tell_of("operator", || "it is deleted".to_owned());
    Ok(())
}

/// A volume of these drives.
fn next_of(host: &Host, drives: Vec<String>) -> CreateVolume {
    CreateVolume {
        name: NEXT.to_owned(),
        level: if drives.len() > 1 { "raid0" } else { "jbod" }.to_owned(),
        drives,
        strip_bytes: Some(host.scene.setup.strip.bytes().0),
        destroy_data: true,
        // Its drives have hardly more than a volume needs.
        coercion: Some(controller::Coercion::None),
        ..CreateVolume::default()
    }
}

/// Drives that a neighbour has taken in the place of one that it lacks: they are not free any more. No other name is believed, nor that of a neighbour
/// that is not there.
async fn taken(host: &Host, drives: &[String]) -> Vec<String> {
    let mut taken = Vec::new();
    let is_there = |name: &String| {
        let mut there = host.scene.beside.iter().filter(|other| other.is_there());
        there.any(|other| other.setup.name() == name)
    };
    for drive in drives {
        let shown = host.ask(Command::DriveShow { drive: drive.clone() }).await;
        if matches!(shown, Ok(Reply::Drive { drive, .. }) if drive.volumes.iter().any(is_there)) {
            taken.push(drive.clone());
        }
    }
    taken
}

/// As soon as its drives are free, another volume is made of them. It covers all that the one before had there. `None`: the neighbour has taken them all.
async fn make_next(host: &Host, mut drives: Vec<String>) -> Result<Option<Rc<Volume>>> {
    let end = host.env.now() + PATIENCE;
    loop {
        let gone = taken(host, &drives).await;
        if !gone.is_empty() {
            host.scene.tell_of("operator", || format!("a neighbour has taken {}", gone.join(", ")));
            drives.retain(|drive| !gone.contains(drive));
        }
        if drives.is_empty() {
            return Ok(None);
        }
        let create = next_of(host, drives.clone());
        // Those that did not answer were failed for it; the operator knows that they work.
        for drive in create.drives.clone() {
            let cleared = host.ask(Command::DriveClearFailed { drive: drive.clone() }).await;
            if cleared.is_ok() {
                host.scene.tell_of("operator", || format!("drive {drive} is trusted again"));
            }
        }
        match host.ask(Command::VolumeCreate(create)).await {
            Ok(_) => break,
            Err(error) if host.env.now() < end => {
                host.scene.tell_of("operator", || format!("another one is not made: {error}"));
                host.env.sleep(Duration::from_secs(1)).await;
            }
            Err(error) => {
                return Error::wrong_state(format!("drives that answer are never free again: {error}"));
            }
        }
    }
    host.scene.tell_of("operator", || "another one is made of its drives".to_owned());
    let volume = host.shards[0].volume_named(NEXT);
    volume
        .map(Some)
        .ok_or_else(|| Error::new(crate::ErrorKind::WrongState, "a volume that was created is not served"))
}

/// The whole volume.
fn pieces(volume: &Volume) -> impl Iterator<Item = (u64, ByteRange)> + use<> {
    let capacity = volume.spec().capacity;
    (0..capacity.0.div_ceil(PIECE.0)).map(move |number| {
        let start = number * PIECE.0;
        (number, ByteRange::new(ByteOffset(start), PIECE.min(ByteCount(capacity.0 - start))))
    })
}

/// What a piece is written with: nothing that was written to the volume before.
fn content(number: u64, len: ByteCount) -> Vec<u8> {
    vec![0x80 | number as u8 & 0x7F; len.as_usize()]
}
