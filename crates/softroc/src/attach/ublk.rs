//! Disks that are served from here, by the kernel's ublk: a queue for each shard, no socket between.
//!
//! The kernel keeps such a disk when this process ends, and gives its queues to the next one, with what was not answered. It is told
//! by a mark, which is a sum over the volume's UUID, that a disk is ours; the UUID is in the disk's note (`links`).

use super::devices::{Device, Found, backend};
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

/// How long requests under way may take to finish when the controller is asked to end.
const LAST_REQUESTS: Duration = Duration::from_secs(20);
/// How often is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A disk that is served.
struct Served {
    /// Its queues, and which shard has each.
    queues: Vec<(usize, QueueId)>,
    target: u64,
}

/// The disks that are served.
pub struct Ublk {
    shards: Vec<mailbox::Sender<GuestMessage>>,
    served: BTreeMap<u32, Served>,
}

/// What the kernel keeps for us of a disk of that volume (FNV-1a).
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

    /// Makes a disk, which lives as long as what comes with it. Before it is there, it is noted of which volume it is: a process that is
    /// killed leaves no disk that nobody knows.
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
                let why = format!("{why}; it is needed to find the disk again; leave out '--as ublk'");
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

    /// Serves a disk that has lost its process; `None`: its last process has not let go of it yet.
    pub fn recover(&mut self, number: u32, found: &Found, volume: &DiskVolume) -> Result<Option<Arc<()>>> {
        let mut control = UblkControl::open().map_err(unavailable)?;
        if !control.info(number).map_err(unavailable)?.waits {
            return Ok(None);
        }
        control.begin_recovery(number).map_err(unavailable)?;
        let alive = self.serve(&mut control, number, volume, found.read_only)?;
        control.end_recovery(number).map_err(unavailable)?;
        Ok(Some(alive))
    }

    /// Has the queues of a disk served.
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

    /// A disk's volume is served, maybe anew. Whether it is, so that shards were told.
    pub fn keep(&mut self, number: u32, volume: &DiskVolume) -> Result<bool> {
        let Some(served) = self.served.get(&number).filter(|served| served.target != volume.number) else {
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

    /// Removes a disk. What is under way fails; what waits for a volume that is not served fails at once if it is given up (`force`).
    pub fn detach(&mut self, number: u32, force: bool) -> Result<()> {
        let mut control = UblkControl::open().map_err(unavailable)?;
        // The kernel waits until every request has been answered.
        for (shard, queue) in self.served.get(&number).filter(|_| force).into_iter().flat_map(|it| &it.queues)
        {
            self.tell(*shard, GuestMessage::GiveUp(*queue))?;
        }
        control.remove(number).map_err(unavailable)?;
        self.served.remove(&number);
        Ok(())
    }
}

/// Tells a disk that it has another size, whoever uses it. Whether this kernel can be told.
pub fn resize(number: u32, size_bytes: u64) -> Result<bool> {
    let mut control = UblkControl::open().map_err(unavailable)?;
    control.resize(number, ByteCount(size_bytes)).map_err(unavailable)
}

/// Removes a device that was made for that volume and has no disk.
pub fn clear(number: u32, uuid: &str) -> Result<()> {
    let mut control = match UblkControl::open() {
        // Without the kernel's module there is no device, either.
        Err(error) if error.kind == platform::ErrorKind::NotFound => return Ok(()),
        control => control.map_err(unavailable)?,
    };
    let is_left = control.info(number).is_ok_and(|info| info.mark == mark(uuid) && info.has_no_disk);
    if is_left { control.remove(number).map_err(unavailable) } else { Ok(()) }
}

/// Waits until nothing is under way of disks that are served from here, for some time: what is not answered then is given to the
/// next process.
pub async fn idle(env: &Env, shards: &[mailbox::Sender<GuestMessage>]) {
    let (done, mut idle) = mailbox::mailbox(env, shards.len().max(1));
    let mut waits_for = 0;
    for shard in shards {
        match shard.send(GuestMessage::Idle(done.clone())) {
            Ok(()) => waits_for += 1,
            Err(_) => tracing::debug!("a shard takes no more messages"),
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
