//! Volumes as disks of this machine, by the kernel's NBD client or, where there is one, by its ublk.
//!
//! ```text
//!  controller ── DiskRequest ──▶ the thread "disks" ── netlink ──▶ kernel: /dev/nbdN
//!                                      │ one end of a pair of sockets to the kernel, the other to a shard
//!                                      ▼
//!                                 a shard's NBD port: a session without a greeting
//! ```
//!
//! The disks are the kernel's: they stay when this process ends, and requests wait. The next process finds its own by their
//! identifier, and connects them again as soon as their volumes are served. Nothing about them is written down anywhere else.
//!
//! | module | what it holds |
//! | --- | --- |
//! | here | the thread: which disks there should be, and what is done about it |
//! | `ublk` | disks that are served from here without NBD |
//! | `kernel`, `netlink` | the kernel's NBD client, and how it is spoken to |
//! | `devices` | disks as the kernel shows them, and who uses them |
//! | `links` | their names that stay the same |

mod devices;
mod kernel;
mod links;
mod netlink;
mod ublk;

use crate::failure::{Failure, Outcome};
use controller::{
    AttachPolicy, DiskAnswer, DiskInfo, DiskKind, DiskRequest, DiskState, DiskVolume, Disks, Error,
    ErrorKind, Result,
};
use devices::{Device, Found, Shown};
use guests::GuestMessage;
use kernel::{Kernel, NewDisk};
use platform::{Env, Peer, mailbox};
use platform_linux::{NearEnd, stream_pair};
use ports::{Known, PortMessage};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use ublk::Ublk;

/// How many looks udev has to make the links of a disk before they are made here.
const LOOKS_FOR_UDEV: u32 = 3;

/// The way to the thread that makes disks.
pub struct LocalDisks {
    orders: mpsc::Sender<(DiskRequest, DiskAnswer)>,
    closing: Arc<AtomicBool>,
    guests: Vec<mailbox::Sender<GuestMessage>>,
}

impl Disks for LocalDisks {
    fn ask(&self, request: DiskRequest, answer: DiskAnswer) {
        if let Err(mpsc::SendError((_, answer))) = self.orders.send((request, answer)) {
            answer(Err(Error::new(ErrorKind::Stopping, "the controller is shutting down; start it again")));
        }
    }
}

impl LocalDisks {
    /// Starts the thread. Disks are served by the shards behind `ports` and `guests`.
    pub fn start(
        ports: Vec<mailbox::Sender<PortMessage>>,
        guests: Vec<mailbox::Sender<GuestMessage>>,
    ) -> Outcome<Arc<LocalDisks>> {
        let (orders, receiver) = mpsc::channel::<(DiskRequest, DiskAnswer)>();
        let closing = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper::new(ports, Ublk::new(guests.clone()), closing.clone());
        let work = move || {
            for (request, answer) in receiver {
                answer(keeper.carry_out(request));
            }
        };
        std::thread::Builder::new()
            .name("disks".into())
            .spawn(work)
            .map_err(|error| Failure::failed(format!("cannot start the thread for disks: {error}")))?;
        Ok(Arc::new(LocalDisks { orders, closing, guests }))
    }

    /// No disk is connected, made or removed any more: the ports are about to close. Disks that are there wait for the
    /// next start. Returns when nothing is under way of those that go by no port.
    pub async fn close(&self, env: &Env) {
        self.closing.store(true, Ordering::Relaxed);
        ublk::idle(env, &self.guests).await;
        let left = Shown::default().ours(ublk::is_marked);
        if !left.is_empty() {
            let names: Vec<String> = left.iter().map(|found| found.device.name()).collect();
            tracing::info!(
                "{} stay: requests to them wait for the next start (by NBD for {} s, then they fail)",
                names.join(" "),
                kernel::PATIENCE.as_secs()
            );
        }
    }
}

/// What is known of a disk besides what the kernel shows.
#[derive(Default)]
struct Kept {
    /// Held by the session that serves it, as long as anything of it is under way.
    session: Weak<()>,
    /// The name by which its links are made.
    name: Option<String>,
    /// Looks since they were asked for.
    looks: u32,
    /// The size of which the kernel was told last, or cannot be told.
    told_size: Option<u64>,
}

/// The thread's own.
struct Keeper {
    ports: Vec<mailbox::Sender<PortMessage>>,
    ublk: Ublk,
    closing: Arc<AtomicBool>,
    shown: Shown,
    kept: BTreeMap<Device, Kept>,
    /// Those that are removed, and still held open by somebody.
    leaving: BTreeSet<Device>,
    /// Volumes that have been made disks because that is wished for them: what an operator then detaches stays detached.
    granted: BTreeSet<String>,
    /// Volumes as they are served.
    volumes: Vec<DiskVolume>,
}

impl Keeper {
    fn new(ports: Vec<mailbox::Sender<PortMessage>>, ublk: Ublk, closing: Arc<AtomicBool>) -> Keeper {
        Keeper {
            ports,
            ublk,
            closing,
            shown: Shown::default(),
            kept: BTreeMap::new(),
            leaving: BTreeSet::new(),
            granted: BTreeSet::new(),
            volumes: Vec::new(),
        }
    }

    fn carry_out(&mut self, request: DiskRequest) -> Result<Vec<DiskInfo>> {
        let is_closing = self.closing.load(Ordering::Relaxed);
        match request {
            _ if is_closing => {
                return Err(Error::new(
                    ErrorKind::Stopping,
                    "the controller is shutting down; start it again",
                ));
            }
            DiskRequest::Look(volumes) => {
                self.volumes = volumes;
                self.look()?;
            }
            DiskRequest::Attach { volume, read_only, by } => {
                self.attach(&volume, read_only, by)?;
                if self.volume_of(&volume.uuid).is_none() {
                    // One that was created since the last look.
                    self.volumes.push(volume.clone());
                }
                if volume.policy != AttachPolicy::Off {
                    self.granted.insert(volume.uuid);
                }
            }
            DiskRequest::Detach { device, force } => self.detach(&device, force)?,
        }
        Ok(self.list())
    }

    /// Disks of ours that are not on their way out.
    fn ours(&mut self) -> Vec<Found> {
        let mut ours = self.shown.ours(ublk::is_marked);
        self.leaving.retain(|device| ours.iter().any(|found| found.device == *device));
        ours.retain(|found| !self.leaving.contains(&found.device));
        ours
    }

    fn is_connected(&self, device: Device) -> bool {
        self.kept.get(&device).is_some_and(|kept| kept.session.strong_count() > 0)
    }

    fn volume_of(&self, uuid: &str) -> Option<DiskVolume> {
        self.volumes.iter().find(|volume| volume.uuid == uuid).cloned()
    }

    fn list(&mut self) -> Vec<DiskInfo> {
        let ours = self.ours();
        let info = |found: Found| {
            let volume = self.volume_of(&found.uuid).map(|volume| volume.name);
            let name = volume.clone().or_else(|| self.kept.get(&found.device)?.name.clone());
            DiskInfo {
                device: found.device.file().display().to_string(),
                links: name.map_or_else(Vec::new, |name| links::there(&name, &found.uuid, found.device)),
                volume,
                read_only: found.read_only,
                state: match self.is_connected(found.device) {
                    true => DiskState::Connected,
                    false => DiskState::Waiting,
                },
                users: self.shown.users(found.device),
                uuid: found.uuid,
            }
        };
        ours.into_iter().map(info).collect()
    }

    /// Connects disks whose volumes are served again, keeps their links, and makes disks that are wished for. What fails does not
    /// keep the rest from being done; the first failure is told.
    fn look(&mut self) -> Result<()> {
        let mut outcome = self.clear();
        let ours = self.ours();
        self.kept.retain(|device, _| ours.iter().any(|found| found.device == *device));
        for found in &ours {
            let Some(volume) = self.volume_of(&found.uuid) else { continue };
            if volume.policy != AttachPolicy::Off {
                self.granted.insert(volume.uuid.clone());
            }
            outcome = outcome.and(match (self.is_connected(found.device), found.device) {
                (false, _) => self.reconnect(found, &volume),
                (true, device) => self.follow(device, &volume),
            });
            self.keep_links(&volume, found.device);
        }
        for volume in self.volumes.clone() {
            if volume.policy == AttachPolicy::Off {
                // If it is wished for again, that is a new wish.
                self.granted.remove(&volume.uuid);
            }
            let is_wished = volume.policy != AttachPolicy::Off && !self.granted.contains(&volume.uuid);
            if is_wished {
                let read_only = volume.policy == AttachPolicy::ReadOnly;
                let attached = self.attach(&volume, read_only, DiskKind::Nbd);
                if attached.is_ok() {
                    self.granted.insert(volume.uuid.clone());
                }
                outcome = outcome.and(attached);
            }
        }
        outcome
    }

    /// Removes devices whose disks were never made, since a process was killed before that. Of volumes that are served here: another
    /// controller may be about to make the disk of one of its own.
    fn clear(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for (number, uuid) in self.shown.without_a_disk() {
            if self.volume_of(&uuid).is_some() {
                let cleared = ublk::clear(number, &uuid);
                if cleared.is_ok() {
                    links::forget(&self.shown.notes, Device::Ublk(number));
                }
                outcome = outcome.and(cleared);
            }
        }
        outcome
    }

    fn reconnect(&mut self, found: &Found, volume: &DiskVolume) -> Result<()> {
        let size = self.shown.size_bytes(found.device);
        if size.is_some_and(|size| size > volume.capacity_bytes) {
            let sentence = format!(
                "{} is larger than '{}', so it is not connected to it; run 'softroc detach {0} --force'",
                found.device.file().display(),
                volume.name
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        let is_connected = match found.device {
            Device::Nbd(index) => {
                let (near, far) = pair()?;
                Kernel::open()?.reconnect(index, &devices::backend(&found.uuid), &far)?;
                drop(far);
                // If the kernel has not noticed yet that the last connection is over, it has let go of this one without a word.
                near.is_held() && self.hand_over(near, index, volume, found.read_only).map(|()| true)?
            }
            Device::Ublk(number) => {
                let alive = self.ublk.recover(number, found, volume)?;
                if let Some(alive) = &alive {
                    self.kept.entry(found.device).or_default().session = Arc::downgrade(alive);
                }
                alive.is_some()
            }
        };
        if is_connected {
            tracing::info!("{} is connected to '{}' again", found.device.file().display(), volume.name);
        }
        Ok(())
    }

    /// A disk's volume may be served anew, and may have grown.
    fn follow(&mut self, device: Device, volume: &DiskVolume) -> Result<()> {
        if let Device::Ublk(number) = device
            && self.ublk.keep(number, volume)?
        {
            return Ok(()); // Shards hear of it first: the kernel is told at the next look.
        }
        let (size, capacity) = (self.shown.size_bytes(device), volume.capacity_bytes);
        let told = &mut self.kept.entry(device).or_default().told_size;
        if size.is_none_or(|size| size >= capacity) || *told == Some(capacity) {
            return Ok(());
        }
        let is_told = match device {
            Device::Nbd(index) => {
                let backend = devices::backend(&volume.uuid);
                Kernel::open()?.resize(index, &backend, capacity).map(|()| true)?
            }
            Device::Ublk(number) => ublk::resize(number, capacity)?,
        };
        *told = Some(capacity);
        let (file, name) = (device.file().display().to_string(), &volume.name);
        match is_told {
            true => tracing::info!("{file} has grown: it has the size of '{name}'"),
            false => tracing::warn!(
                "{file} stays smaller than '{name}', since this kernel's ublk knows no disks that grow (Linux 6.16 does); when nobody uses it, run 'softroc detach {name}', then 'softroc attach {name}'"
            ),
        }
        Ok(())
    }

    fn attach(&mut self, volume: &DiskVolume, read_only: bool, by: DiskKind) -> Result<()> {
        let device = match by {
            DiskKind::Nbd => self.attach_nbd(volume, read_only)?,
            DiskKind::Ublk => {
                let (device, alive) = self.ublk.attach(volume, read_only, &self.shown.notes)?;
                self.leaving.remove(&device);
                self.kept.insert(device, Kept { session: Arc::downgrade(&alive), ..Kept::default() });
                device
            }
        };
        self.keep_links(volume, device);
        tracing::info!("'{}' is {}", volume.name, device.file().display());
        Ok(())
    }

    fn attach_nbd(&mut self, volume: &DiskVolume, read_only: bool) -> Result<Device> {
        let backend = devices::backend(&volume.uuid);
        let (near, far) = pair()?;
        let disk = NewDisk {
            backend: &backend,
            size_bytes: volume.capacity_bytes,
            sector_bytes: volume.sector_bytes,
            read_only,
        };
        let index = Kernel::open()?.connect(&disk, &far)?;
        drop(far);
        let device = Device::Nbd(index);
        self.leaving.remove(&device);
        self.kept.remove(&device);
        if let Err(error) = self.hand_over(near, index, volume, read_only) {
            Kernel::open()?.disconnect(index)?;
            return Err(error);
        }
        self.shown.set_up(device);
        Ok(device)
    }

    /// Gives a shard its end of a connection.
    fn hand_over(&mut self, near: NearEnd, index: u32, volume: &DiskVolume, read_only: bool) -> Result<()> {
        let (alive, device) = (Arc::new(()), Device::Nbd(index));
        self.kept.entry(device).or_default().session = Arc::downgrade(&alive);
        let source = near.into_source(Peer::at(device.file().display().to_string()));
        let mut message = PortMessage::Known(Known { source, target: volume.number, read_only, alive });
        let shards = self.ports.len();
        for shard in 0..shards {
            match self.ports[(index as usize + shard) % shards].send(message) {
                Ok(()) => return Ok(()),
                Err(mailbox::Full(back)) => message = back,
            }
        }
        Err(Error::new(ErrorKind::Busy, "every shard is busy; try again"))
    }

    fn keep_links(&mut self, volume: &DiskVolume, device: Device) {
        let kept = self.kept.entry(device).or_default();
        if kept.name.as_ref() != Some(&volume.name) {
            if let Some(before) = kept.name.replace(volume.name.clone()) {
                links::unmake(&before, &volume.uuid, device);
            }
            kept.looks = 0;
            if let Err(error) = links::note(&self.shown.notes, &volume.name, &volume.uuid, device) {
                tracing::debug!("{error}");
            }
            self.shown.announce(device);
        }
        kept.looks = kept.looks.saturating_add(1);
        let (there, all) =
            (links::there(&volume.name, &volume.uuid, device), links::of(&volume.name, &volume.uuid));
        if there.len() < all.len() && (kept.looks > LOOKS_FOR_UDEV || !links::has_udev()) {
            links::make(&volume.name, &volume.uuid, device);
        }
    }

    fn detach(&mut self, file: &str, force: bool) -> Result<()> {
        let is_it = |found: &Found| found.device.file().as_os_str() == file;
        let Some(found) = self.ours().into_iter().find(is_it) else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no disk {file} any more")));
        };
        // Held until it is gone, so that nobody mounts it meanwhile.
        let alone = if force { None } else { Some(self.alone(&found, file)?) };
        match found.device {
            Device::Nbd(index) => Kernel::open()?.disconnect(index)?,
            Device::Ublk(number) => self.ublk.detach(number, force)?,
        }
        self.leaving.insert(found.device);
        if matches!(found.device, Device::Nbd(_)) {
            self.shown.set_back(found.device);
        }
        let name = self.kept.remove(&found.device).and_then(|kept| kept.name);
        drop(alone);
        links::forget(&self.shown.notes, found.device);
        self.shown.announce(found.device);
        links::unmake(name.as_deref().unwrap_or(&found.uuid), &found.uuid, found.device);
        tracing::info!("{file} is detached");
        Ok(())
    }

    /// The disk, for nobody else but those who only look, with everything written that was to be.
    fn alone(&self, found: &Found, device: &str) -> Result<OwnedFd> {
        // A disk by ublk stays connected while its volume is not served: writing it out would wait for that.
        if !self.is_connected(found.device) || self.volume_of(&found.uuid).is_none() {
            let sentence = format!(
                "the volume of {device} is not served, and what is to be written to it waits; start the volume first, or give up what waits: run 'softroc detach {device} --force'"
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        let how = if found.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = rustix::fs::open(device, how | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
        let file = opened.map_err(|error| match error {
            Errno::BUSY => Error::new(ErrorKind::InUse, in_use(device, &self.shown.users(found.device))),
            error => {
                let sentence = format!("{device} cannot be opened to see whether it is in use: {error}; if it is not, run 'softroc detach {device} --force'");
                Error::new(ErrorKind::Unavailable, sentence)
            }
        })?;
        rustix::fs::fsync(&file).map_err(|error| {
            let sentence =
                format!("what was written to {device} cannot be written out: {error}; it stays attached");
            Error::new(ErrorKind::Failed, sentence)
        })?;
        Ok(file)
    }
}

/// Why a disk is not removed.
fn in_use(device: &str, users: &[String]) -> String {
    let mounts = users.iter().find_map(|user| user.strip_prefix("mounted at "));
    let (who, first) = match (users, mounts) {
        ([], _) => (
            "a program holds it for itself, or another container has mounted it".to_owned(),
            format!("'fuser -v {device}' may say who"),
        ),
        (users, Some(at)) => (users.join(", "), format!("first run 'umount {at}'")),
        (users, None) => (users.join(", "), "take it out of there first".to_owned()),
    };
    format!("{device} is in use: {who}; {first}")
}

/// A failure below, in the controller's words.
fn unavailable(error: platform::Error) -> Error {
    Error::new(ErrorKind::Unavailable, error.to_string())
}

fn pair() -> Result<(NearEnd, OwnedFd)> {
    stream_pair().map_err(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_in_use_is_refused_with_who_uses_it_and_what_to_do() {
        let users = |users: &[&str]| users.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            in_use("/dev/nbd0", &users(&["mounted at /srv", "part of /dev/dm-0"])),
            "/dev/nbd0 is in use: mounted at /srv, part of /dev/dm-0; first run 'umount /srv'"
        );
        assert!(in_use("/dev/nbd0", &users(&["swap on /dev/nbd0"])).ends_with("take it out of there first"));
        assert!(in_use("/dev/nbd0", &[]).contains("fuser"));
    }
}
