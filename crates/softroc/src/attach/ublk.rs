//! Disks through the kernel's ublk driver: a queue for each shard, without a socket.
//!
//! The kernel keeps such a disk when this process exits, and gives its queues and unanswered
//! requests to the next one. A mark (a checksum of the volume's UUID) identifies a SoftROC disk;
//! the UUID is in the disk's note (`links`).

use super::devices::{AttachedDisk, Device, backend};
use super::{links, unavailable};
use controller::{DiskVolume, Error, ErrorKind, Result};
use guests::{GuestMessage, KernelStart, QueueId};
use platform::{Env, Peer, mailbox};
use platform_linux::{NewUblk, UblkControl, ublk_queues};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// How long outstanding requests may take at a stop.
const LAST_REQUESTS: Duration = Duration::from_secs(20);
/// The interval of the check whether they have finished.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A served disk.
struct Served {
    /// Its queues, and the shard of each.
    queues: Vec<(usize, QueueId)>,
    target: u64,
}

/// The served disks.
pub struct Ublk {
    shards: Vec<mailbox::Sender<GuestMessage>>,
    served: BTreeMap<u32, Served>,
}

/// The mark of a volume's disk in the kernel (FNV-1a).
fn mark(uuid: &str) -> u64 {
    let add = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    backend(uuid).bytes().fold(0xCBF2_9CE4_8422_2325, add)
}

/// Whether a device was made for that volume.
pub fn is_marked(number: u32, uuid: &str) -> bool {
    let info = UblkControl::open().and_then(|mut control| control.info(number));
    info.is_ok_and(|info| info.mark == mark(uuid))
}

impl Ublk {
    /// Disks will be served by `shards`.
    pub fn new(shards: Vec<mailbox::Sender<GuestMessage>>) -> Ublk {
        Ublk { shards, served: BTreeMap::new() }
    }

    /// Makes a disk, which lives as long as the returned handle. Its note is written first, so that
    /// a killed process leaves no unknown disk.
    pub fn attach(
        &mut self,
        volume: &DiskVolume,
        read_only: bool,
        notes: &Path,
    ) -> Result<(Device, Arc<()>)> {
        let mut control = UblkControl::open().map_err(unavailable)?;
        let new = NewUblk {
            queues: self.shards.len() as u16,
            mark: mark(&volume.uuid),
            capacity: ByteCount(volume.capacity_bytes),
            sector: ByteCount(volume.sector_bytes),
            minimum_io: ByteCount(volume.physical_sector_bytes),
            strip: ByteCount(volume.strip_bytes),
            optimal_io: ByteCount(volume.stripe_bytes),
            read_only,
            rotational: false,
        };
        let (number, _) = control.add(&new).map_err(unavailable)?;
        let device = Device::Ublk(number);
        let started = links::note(notes, &volume.name, &volume.uuid, device)
            .map_err(|why| {
                let why = format!(
                    "{why}; without it, the disk cannot be found after a restart; omit '--as ublk'"
                );
                Error::new(ErrorKind::Unavailable, why)
            })
            .and_then(|()| self.serve(&mut control, number, volume, read_only))
            .and_then(|alive| control.start(number).map_err(unavailable).map(|()| alive));
        match started {
            Ok(alive) => Ok((device, alive)),
            Err(error) => {
                self.served.remove(&number);
                control.remove(number).map_err(unavailable)?;
                links::forget(notes, device);
                Err(error)
            }
        }
    }

    /// Serves a disk that has lost its process; `None`: the previous process still holds it.
    pub fn recover(
        &mut self,
        number: u32,
        found: &AttachedDisk,
        volume: &DiskVolume,
    ) -> Result<Option<Arc<()>>> {
        let mut control = UblkControl::open().map_err(unavailable)?;
        if !control.info(number).map_err(unavailable)?.waits {
            return Ok(None);
        }
        control.begin_recovery(number).map_err(unavailable)?;
        let alive = self.serve(&mut control, number, volume, found.read_only)?;
        control.end_recovery(number).map_err(unavailable)?;
        Ok(Some(alive))
    }

    /// Starts to serve the queues of a disk.
    fn serve(
        &mut self,
        control: &mut UblkControl,
        number: u32,
        volume: &DiskVolume,
        read_only: bool,
    ) -> Result<Arc<()>> {
        let info = control.info(number).map_err(unavailable)?;
        let alive = Arc::new(());
        let mut queues = Vec::new();
        let sources = ublk_queues(number, info.queues, info.depth).map_err(unavailable)?;
        for (index, source) in sources.into_iter().enumerate() {
            let (shard, queue) = (index % self.shards.len(), QueueId::new());
            let start = KernelStart {
                queue,
                target: volume.number,
                peer: Peer::at(Device::Ublk(number).file().display().to_string()),
                read_only,
                source,
                alive: alive.clone(),
            };
            self.tell(shard, GuestMessage::Kernel(Box::new(start)))?;
            queues.push((shard, queue));
        }
        self.served.insert(number, Served { queues, target: volume.number });
        Ok(alive)
    }

    fn tell(&self, shard: usize, message: GuestMessage) -> Result<()> {
        self.shards[shard]
            .send(message)
            .map_err(|_| Error::new(ErrorKind::Busy, "every shard is busy; try again"))
    }

    /// The volume of a disk is served, perhaps again. Returns whether the shards were notified.
    pub fn keep(&mut self, number: u32, volume: &DiskVolume) -> Result<bool> {
        let Some(served) = self.served.get(&number).filter(|served| served.target != volume.number)
        else {
            return Ok(false);
        };
        for (shard, queue) in &served.queues {
            self.tell(*shard, GuestMessage::Target(*queue, volume.number))?;
        }
        if let Some(served) = self.served.get_mut(&number) {
            served.target = volume.number;
        }
        Ok(true)
    }

    /// Removes a disk. Outstanding requests fail; with `force`, so do requests that wait for a
    /// volume.
    pub fn detach(&mut self, number: u32, force: bool) -> Result<()> {
        let mut control = UblkControl::open().map_err(unavailable)?;
        // The kernel waits for the completion of all requests.
        for (shard, queue) in
            self.served.get(&number).filter(|_| force).into_iter().flat_map(|it| &it.queues)
        {
            self.tell(*shard, GuestMessage::GiveUp(*queue))?;
        }
        control.remove(number).map_err(unavailable)?;
        self.served.remove(&number);
        Ok(())
    }
}

/// Changes the size of a disk, even if it is in use. Returns whether this kernel supports it.
pub fn resize(number: u32, size_bytes: u64) -> Result<bool> {
    let mut control = UblkControl::open().map_err(unavailable)?;
    control.resize(number, ByteCount(size_bytes)).map_err(unavailable)
}

/// Removes a device that was made for that volume and has no disk.
pub fn clear(number: u32, uuid: &str) -> Result<()> {
    let mut control = match UblkControl::open() {
        // Without the kernel module there is no device.
        Err(error) if error.kind == platform::ErrorKind::NotFound => return Ok(()),
        control => control.map_err(unavailable)?,
    };
    let is_left =
        control.info(number).is_ok_and(|info| info.mark == mark(uuid) && info.has_no_disk);
    if is_left { control.remove(number).map_err(unavailable) } else { Ok(()) }
}

/// Waits until no ublk request is outstanding, with a time limit: later ones go to the next
/// process.
pub async fn idle(env: &Env, shards: &[mailbox::Sender<GuestMessage>]) {
    let (done, mut idle) = mailbox::mailbox(env, shards.len().max(1));
    let mut waits_for = 0;
    for shard in shards {
        match shard.send(GuestMessage::Idle(done.clone())) {
            Ok(()) => waits_for += 1,
            Err(_) => tracing::debug!("a shard accepts no more messages"),
        }
    }
    let until = env.now() + LAST_REQUESTS;
    while waits_for > 0 && env.now() < until {
        match idle.try_receive() {
            Some(()) => waits_for -= 1,
            None => env.sleep(LOOK_EVERY).await,
        }
    }
}
