//! Volumes as disks of this machine, through the kernel's NBD client or ublk.
//!
//! ```text
//!  controller ── DiskRequest ──▶ the thread "disks" ── netlink ──▶ kernel: /dev/nbdN
//!                                      │ one end of a pair of sockets to the kernel,
//!                                      │ the other to a shard
//!                                      ▼
//!                                 a shard's NBD port: a session without a handshake
//! ```
//!
//! The disks belong to the kernel: they stay when this process exits, and requests wait. The next
//! process finds them by their identifier, and reconnects them when their volumes are served. The
//! kernel's identifier and the notes of `links` are the only records of a disk.

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
use devices::{AttachedDisk, Device, KernelView};
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

/// How many polls udev may take to make the links of a disk before this process makes them.
const LOOKS_FOR_UDEV: u32 = 3;

/// The handle of the disk thread.
pub struct LocalDisks {
    orders: mpsc::Sender<(DiskRequest, DiskAnswer)>,
    closing: Arc<AtomicBool>,
    guests: Vec<mailbox::Sender<GuestMessage>>,
}

impl Disks for LocalDisks {
    fn ask(&self, request: DiskRequest, answer: DiskAnswer) {
        if let Err(mpsc::SendError((_, answer))) = self.orders.send((request, answer)) {
            answer(Err(Error::new(
                ErrorKind::Stopping,
                "the controller is shutting down; start it again",
            )));
        }
    }
}

impl LocalDisks {
    /// Starts the thread. The shards behind `ports` and `guests` serve the disks.
    pub fn start(
        ports: Vec<mailbox::Sender<PortMessage>>,
        guests: Vec<mailbox::Sender<GuestMessage>>,
    ) -> Outcome<Arc<LocalDisks>> {
        let (orders, receiver) = mpsc::channel::<(DiskRequest, DiskAnswer)>();
        let closing = Arc::new(AtomicBool::new(false));
        let mut thread_state = DiskThread::new(ports, Ublk::new(guests.clone()), closing.clone());
        let work = move || {
            for (request, answer) in receiver {
                answer(thread_state.carry_out(request));
            }
        };
        std::thread::Builder::new().name("disks".into()).spawn(work).map_err(|error| {
            Failure::failed(format!("cannot start the thread for disks: {error}"))
        })?;
        Ok(Arc::new(LocalDisks { orders, closing, guests }))
    }

    /// Stops attaching, detaching and reconnecting disks before the ports close. Existing disks
    /// wait for the next start. Returns when no ublk request is outstanding.
    pub async fn close(&self, env: &Env) {
        self.closing.store(true, Ordering::Relaxed);
        ublk::idle(env, &self.guests).await;
        let left = KernelView::default().ours(ublk::is_marked);
        if !left.is_empty() {
            let names: Vec<String> = left.iter().map(|found| found.device.name()).collect();
            tracing::info!(
                "{} stay; their requests wait for the next start (NBD: {} s, then they fail)",
                names.join(" "),
                kernel::PATIENCE.as_secs()
            );
        }
    }
}

/// The controller's data about a disk, in addition to the kernel's.
#[derive(Default)]
struct DiskRecord {
    /// Alive while the serving session or one of its requests exists.
    session: Weak<()>,
    /// The name in its links.
    name: Option<String>,
    /// Polls since the links were requested.
    looks: u32,
    /// The last size that was reported to the kernel, or that it cannot accept.
    reported_size: Option<u64>,
}

/// The state of the disk thread.
struct DiskThread {
    ports: Vec<mailbox::Sender<PortMessage>>,
    ublk: Ublk,
    closing: Arc<AtomicBool>,
    shown: KernelView,
    kept: BTreeMap<Device, DiskRecord>,
    /// Removed disks that a program still holds open.
    leaving: BTreeSet<Device>,
    /// Volumes that were attached by their policy: a disk that an operator detaches stays detached.
    granted: BTreeSet<String>,
    /// The served volumes.
    volumes: Vec<DiskVolume>,
}

impl DiskThread {
    fn new(
        ports: Vec<mailbox::Sender<PortMessage>>,
        ublk: Ublk,
        closing: Arc<AtomicBool>,
    ) -> DiskThread {
        DiskThread {
            ports,
            ublk,
            closing,
            shown: KernelView::default(),
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
                    // A volume that was created after the last poll.
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

    /// SoftROC disks that are not being removed.
    fn ours(&mut self) -> Vec<AttachedDisk> {
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
        let info = |found: AttachedDisk| {
            let volume = self.volume_of(&found.uuid).map(|volume| volume.name);
            let name = volume.clone().or_else(|| self.kept.get(&found.device)?.name.clone());
            DiskInfo {
                device: found.device.file().display().to_string(),
                links: name
                    .map_or_else(Vec::new, |name| links::there(&name, &found.uuid, found.device)),
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

    /// Reconnects disks of served volumes, keeps their links, and attaches volumes according to
    /// their policy. Continues after an error, and returns the first one.
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
                // A policy that is switched on again attaches the volume again.
                self.granted.remove(&volume.uuid);
            }
            let is_wished =
                volume.policy != AttachPolicy::Off && !self.granted.contains(&volume.uuid);
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

    /// Removes devices without a disk, left by a killed process. Only for volumes served here:
    /// another controller may be making a disk for its own.
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

    fn reconnect(&mut self, found: &AttachedDisk, volume: &DiskVolume) -> Result<()> {
        let size = self.shown.size_bytes(found.device);
        if size.is_some_and(|size| size > volume.capacity_bytes) {
            let sentence = format!(
                "disk {} is larger than volume '{}' and stays disconnected: its I/O waits or \
                 fails; to remove the disk and discard waiting writes, run 'softroc detach {0} \
                 --force'",
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
                // A kernel that has not yet detected the end of the last connection silently closes
                // this one.
                near.is_held()
                    && self.hand_over(near, index, volume, found.read_only).map(|()| true)?
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
            tracing::info!("{} is reconnected to '{}'", found.device.file().display(), volume.name);
        }
        Ok(())
    }

    /// Handles a volume that is served again, or has grown.
    fn follow(&mut self, device: Device, volume: &DiskVolume) -> Result<()> {
        if let Device::Ublk(number) = device
            && self.ublk.keep(number, volume)?
        {
            return Ok(()); // Shards first: the kernel gets the new size at the next poll.
        }
        let (size, capacity) = (self.shown.size_bytes(device), volume.capacity_bytes);
        let told = &mut self.kept.entry(device).or_default().reported_size;
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
            true => tracing::info!("{file} has grown to the size of '{name}'"),
            false => tracing::warn!(
                "{file} stays smaller than '{name}': ublk disks cannot grow before Linux 6.16; \
                 when it is not in use, run 'softroc detach {name}', then 'softroc attach {name}'"
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
                self.kept.insert(
                    device,
                    DiskRecord { session: Arc::downgrade(&alive), ..DiskRecord::default() },
                );
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
    fn hand_over(
        &mut self,
        near: NearEnd,
        index: u32,
        volume: &DiskVolume,
        read_only: bool,
    ) -> Result<()> {
        let (alive, device) = (Arc::new(()), Device::Nbd(index));
        self.kept.entry(device).or_default().session = Arc::downgrade(&alive);
        let source = near.into_source(Peer::at(device.file().display().to_string()));
        let mut message =
            PortMessage::Known(Known { source, target: volume.number, read_only, alive });
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
        let (there, all) = (
            links::there(&volume.name, &volume.uuid, device),
            links::of(&volume.name, &volume.uuid),
        );
        if there.len() < all.len() && (kept.looks > LOOKS_FOR_UDEV || !links::has_udev()) {
            links::make(&volume.name, &volume.uuid, device);
        }
    }

    fn detach(&mut self, file: &str, force: bool) -> Result<()> {
        let is_it = |found: &AttachedDisk| found.device.file().as_os_str() == file;
        let Some(found) = self.ours().into_iter().find(is_it) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("disk {file} does not exist any more"),
            ));
        };
        // Held open until the removal, so that it cannot be mounted meanwhile.
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

    /// Opens the disk exclusively (readers may stay), and flushes it.
    fn alone(&self, found: &AttachedDisk, device: &str) -> Result<OwnedFd> {
        // A ublk disk stays connected while its volume is not served: a flush would wait for the
        // volume.
        if !self.is_connected(found.device) || self.volume_of(&found.uuid).is_none() {
            let sentence = format!(
                "the volume of {device} is not served, and writes to it wait; start the volume \
                 first, or discard them: run 'softroc detach {device} --force'"
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        let how = if found.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = rustix::fs::open(device, how | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
        let file = opened.map_err(|error| match error {
            Errno::BUSY => {
                Error::new(ErrorKind::InUse, in_use(device, &self.shown.users(found.device)))
            }
            error => {
                let sentence = format!(
                    "cannot open {device} to check whether it is in use: {error}; if it is not, \
                     run 'softroc detach {device} --force'"
                );
                Error::new(ErrorKind::Unavailable, sentence)
            }
        })?;
        rustix::fs::fsync(&file).map_err(|error| {
            let sentence = format!("cannot flush writes to {device}: {error}; it stays attached");
            Error::new(ErrorKind::Failed, sentence)
        })?;
        Ok(file)
    }
}

/// The reason and the remedy when a disk is in use.
fn in_use(device: &str, users: &[String]) -> String {
    let mounts = users.iter().find_map(|user| user.strip_prefix("mounted at "));
    let (who, first) = match (users, mounts) {
        ([], _) => (
            "a program has it open exclusively, or another container has mounted it".to_owned(),
            format!("'fuser -v {device}' may show the program"),
        ),
        (users, Some(at)) => (users.join(", "), format!("first run 'umount {at}'")),
        (users, None) => (users.join(", "), "remove it from there first".to_owned()),
    };
    format!("{device} is in use: {who}; {first}")
}

/// An error of the platform as an error of the controller.
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
        assert!(
            in_use("/dev/nbd0", &users(&["swap on /dev/nbd0"]))
                .ends_with("remove it from there first")
        );
        assert!(in_use("/dev/nbd0", &[]).contains("fuser"));
    }
}
