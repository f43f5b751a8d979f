//! The volume is deleted while drives hang, and another volume is created on them.
//!
//! # Invariants
//! A drive may perform requests long after they timed out. A new volume on it holds only its own
//! data (rule (d)): its creation is refused until all earlier requests of the drive have returned.
//! The old volume's data does not matter, so any number of drives may hang. A neighbour keeps its
//! data; a neighbour on the same drives is deleted first, or no drive hangs.

use crate::error::{Error, Result};
use crate::faults;
use crate::host::{Host, out_of};
use crate::life::{self, Plan};
use crate::options::Lie;
use crate::run::{Run, envs};
use crate::scene::{Presence, Scene};
use crate::setup::VolumeRole;
use crate::tally::Event;
use controller::{Command, CreateVolume, DriveCache, ReadMode, Reply, VolumeInfo, WriteMode};
use engine::Volume;
use platform::{Buf, Durability, Env};
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// The volume's possible new name.
const RENAMED: &str = "other";

/// The name of the volume that is created last.
const NEXT: &str = "next";

/// The maximum time of a hang.
const LONGEST: Duration = Duration::from_secs(90);

/// The time limit for a new volume on drives that hung: each write of the creation may time out.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The unit of writes and reads of the new volume.
const PIECE: ByteCount = ByteCount(128 << 10);

impl Run {
    /// Some volumes are deleted at the end. Large ones are not: the test would write and read them
    /// completely.
    pub(crate) fn give_up(&mut self) -> Result<()> {
        let setup = self.scene.setup.clone();
        let mut rng = Rng::new(setup.seed, "giving up", "");
        if !rng.chance(1, 4) || setup.lie != Lie::None || setup.zones.len() > 1 {
            return Ok(());
        }
        self.scene.tell(|| "the volume will be deleted".to_owned());
        self.scene.machine.bury();
        self.sim.restart_process();
        let given = self.paths();
        let life = give_up(self.scene.clone(), envs(&self.sim, &setup), given, rng);
        self.finish(life).map(|_| ())
    }
}

/// Writes the new volume, and reads it back when no request can be hanging any more.
async fn check_next(host: &Host, volume: &Rc<Volume>) -> Result<()> {
    for (number, range) in pieces(volume) {
        let data = Buf::copy_of(&content(number, range.len)).freeze();
        if let Err(error) = volume.write(range, data, Durability::Cached).await {
            return Error::wrong_state(format!("a write to the new volume failed: {error}"));
        }
    }
    // All hanging requests have returned by then.
    host.env.sleep(LONGEST * 2).await;
    for (number, range) in pieces(volume) {
        let (result, buf) = volume.read(range, Buf::unpooled(range.len)).await;
        let expected = content(number, range.len);
        let is_it = buf.is_some_and(|buf| *buf.bytes() == *expected);
        if result.is_err() || !is_it {
            let what = format!("{range:?} of the new volume has wrong data: {result:?}");
            return Err(Error::new(crate::ErrorKind::WrongData, what));
        }
    }
    Ok(())
}

async fn give_up(scene: Rc<Scene>, envs: Vec<Env>, given: Vec<String>, mut rng: Rng) -> Result<()> {
    let plan = Plan { given, is_last: true, ..Plan::default() };
    let host = life::begin(scene.clone(), envs, &plan).await;
    if !life::open(&host, &plan, true).await? {
        return Error::wrong_state("the volume needs drives although all drives work");
    }
    let shown = host.show().await?;
    let well = || {
        (0..shown.drives.len())
            .filter(|slot| !out_of(&shown).iter().any(|out| out.as_usize() == *slot))
    };
    let names: Vec<String> = well().map(|slot| shown.drives[slot].name.clone()).collect();
    let drives: Vec<SimDrive> =
        well().map(|slot| scene.array.drives.borrow()[slot].clone()).collect();
    let volumes = host.volumes()?;
    let beside = Neighbours::open(&host, &plan).await?;
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
        // Hanging writes of the deleted volume could damage the neighbour, which uses the same
        // drives.
        host.env.sleep(LONGEST * 2).await;
        beside.look().await?;
        return host.shut_down().await;
    };
    check_next(&host, &volume).await?;
    drop(volume);
    beside.look().await?;
    scene.did(Event::OperatorDeletes);
    host.shut_down().await
}

/// The neighbours of the deleted volume: their data must not change.
struct Neighbours {
    on_same: Option<Host>,
    on_own: Option<Host>,
}

impl Neighbours {
    /// Opens the existing neighbours.
    async fn open(first: &Host, plan: &Plan) -> Result<Neighbours> {
        let mut beside = Neighbours { on_same: None, on_own: None };
        for scene in first.scene.beside.iter().filter(|scene| scene.is_there()) {
            let host = first.of(scene);
            if !life::open(&host, plan, false).await? {
                return Error::wrong_state("the neighbour needs drives although all drives work");
            }
            match scene.setup.place {
                VolumeRole::OwnDrives => beside.on_own = Some(host),
                VolumeRole::First | VolumeRole::SameDrives => beside.on_same = Some(host),
            }
        }
        Ok(beside)
    }

    /// Makes the drives free to hang: a neighbour on them is deleted first.
    async fn delete_on_same(self) -> Result<Neighbours> {
        if let Some(host) = &self.on_same {
            let volume = host.scene.setup.name().to_owned();
            host.must(Command::VolumeDelete { volume, disconnect_hosts: false }).await?;
            host.scene.presence.set(Presence::Gone);
            host.scene.count(|tally| tally.deleted += 1);
            host.scene.tell_of("operator", || "the volume is deleted".to_owned());
        }
        Ok(Neighbours { on_same: None, ..self })
    }

    async fn look(&self) -> Result<()> {
        for host in self.on_same.iter().chain(&self.on_own) {
            let looked = life::look_at_zones(&host.scene, &host.volumes()?[0]).await;
            looked.map_err(|error| crate::beside::of(&host.scene, error))?;
        }
        Ok(())
    }
}

/// A drive may hang, or be slow for a few operations.
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

/// Starts a write whose result is ignored.
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
        // The write may fail with or without effect.
        let _ = volume.write(range, data, durability).await;
    }));
}

/// An operator deletes the volume, possibly after a rename.
async fn delete(host: &Host, shown: &VolumeInfo, rng: &mut Rng) -> Result<()> {
    if rng.chance(1, 3) {
        let renamed = host
            .ask(Command::VolumeSet {
                volume: host.scene.setup.name().to_owned(),
                name: RENAMED.to_owned(),
            })
            .await;
        host.scene.tell_of("operator", || match renamed {
            Ok(_) => "the volume is renamed".to_owned(),
            Err(error) => format!("cannot rename the volume: {error}"),
        });
    }
    host.must(Command::VolumeDelete { volume: shown.uuid.clone(), disconnect_hosts: false })
        .await?;
    host.scene.tell_of("operator", || "the volume is deleted".to_owned());
    Ok(())
}

/// A new volume on these drives.
fn next_of(host: &Host, drives: Vec<String>) -> CreateVolume {
    CreateVolume {
        name: NEXT.to_owned(),
        level: if drives.len() > 1 { "raid0" } else { "jbod" }.to_owned(),
        drives,
        strip_bytes: Some(host.scene.setup.strip.bytes().0),
        destroy_data: true,
        // The drives are hardly larger than a volume needs.
        coercion: Some(controller::Coercion::None),
        write_mode: Some(WriteMode::default()),
        read_mode: Some(ReadMode::default()),
        drive_cache: Some(DriveCache::default()),
        ..CreateVolume::default()
    }
}

/// Drives that a neighbour has taken as replacements, and which are not free any more. Reports
/// under other names, and of neighbours that are not present, do not count.
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

/// Creates another volume as soon as its drives are free. It covers the old volume's range. `None`:
/// the neighbour uses all of the drives.
async fn make_next(host: &Host, mut drives: Vec<String>) -> Result<Option<Rc<Volume>>> {
    let end = host.env.now() + PATIENCE;
    loop {
        let gone = taken(host, &drives).await;
        if !gone.is_empty() {
            host.scene.tell_of("operator", || format!("a neighbour uses {}", gone.join(", ")));
            drives.retain(|drive| !gone.contains(drive));
        }
        if drives.is_empty() {
            return Ok(None);
        }
        let create = next_of(host, drives.clone());
        // Drives that hung are failed; the operator knows that they work.
        for drive in create.drives.clone() {
            let cleared = host.ask(Command::DriveClearFailed { drive: drive.clone() }).await;
            if cleared.is_ok() {
                host.scene.tell_of("operator", || format!("drive {drive} is returned to service"));
            }
        }
        match host.ask(Command::VolumeCreate(create)).await {
            Ok(_) => break,
            Err(error) if host.env.now() < end => {
                host.scene.tell_of("operator", || format!("cannot create another volume: {error}"));
                host.env.sleep(Duration::from_secs(1)).await;
            }
            Err(error) => {
                return Error::wrong_state(format!("responding drives never become free: {error}"));
            }
        }
    }
    host.scene.tell_of("operator", || "another volume is created on the drives".to_owned());
    let volume = host.shards[0].volume_named(NEXT);
    volume
        .map(Some)
        .ok_or_else(|| Error::new(crate::ErrorKind::WrongState, "the created volume is not served"))
}

/// The whole volume, in pieces.
fn pieces(volume: &Volume) -> impl Iterator<Item = (u64, ByteRange)> + use<> {
    let capacity = volume.spec().capacity;
    (0..capacity.0.div_ceil(PIECE.0)).map(move |number| {
        let start = number * PIECE.0;
        (number, ByteRange::new(ByteOffset(start), PIECE.min(ByteCount(capacity.0 - start))))
    })
}

/// The content of a piece, which the old volume never had.
fn content(number: u64, len: ByteCount) -> Vec<u8> {
    vec![0x80 | number as u8 & 0x7F; len.as_usize()]
}
