//! Volumes attached to this host as disks: `attach`, `detach`, and their supervision. The
//! controller determines the desired state; [`Disks`](crate::interface::Disks) establishes it,
//! without delaying other work.

use super::Commands;
use crate::arrays::array::Array;
use crate::arrays::sectors;
use crate::arrays::volume::Volume;
use crate::interface::{
    AttachPolicy, DiskInfo, DiskKind, DiskMaker, DiskRequest, DiskVolume, Error, ErrorKind, Reply,
    Result, SetPolicy,
};
use ondisk::Uuid;
use platform::mailbox;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How often disks are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The disks at the last check.
pub(super) struct Attached {
    maker: DiskMaker,
    disks: RefCell<Vec<DiskInfo>>,
    /// Why the last check failed, so that the reason is reported once.
    trouble: RefCell<Option<String>>,
}

impl Attached {
    pub(super) fn new(maker: DiskMaker) -> Attached {
        Attached { maker, disks: RefCell::default(), trouble: RefCell::default() }
    }

    /// The disk of a volume.
    pub(super) fn of(&self, uuid: &str) -> Option<DiskInfo> {
        self.disks.borrow().iter().find(|disk| disk.uuid == uuid).cloned()
    }

    /// Every disk, by its file.
    pub(super) fn all(&self) -> Vec<DiskInfo> {
        self.disks.borrow().clone()
    }

    fn named(&self, name: &str) -> Option<DiskInfo> {
        let is_it = |disk: &&DiskInfo| {
            disk.device == name
                || disk.uuid == name
                || disk.volume.as_deref() == Some(name)
                || disk.links.iter().any(|link| link == name)
        };
        self.disks.borrow().iter().find(is_it).cloned()
    }
}

fn nobody() -> Error {
    let sentence = "this controller cannot attach volumes; hosts reach them over NBD";
    Error::new(ErrorKind::Unavailable, sentence)
}

impl Commands {
    /// Loads the list of attached volumes.
    pub(super) async fn load_attach(&self) {
        if self.attached.maker.0.is_none() {
            return;
        }
        self.policies.load_attach().await;
    }

    /// Whether a policy can be stored.
    pub(super) fn check_attach(&self, set: &SetPolicy) -> Result<()> {
        if set.attach.is_some() && self.attached.maker.0.is_none() { Err(nobody()) } else { Ok(()) }
    }

    /// Checks disks until the controller stops.
    pub(super) async fn watch_disks(self: Rc<Self>) {
        if self.attached.maker.0.is_none() {
            return;
        }
        while !self.stopping.get() {
            self.look_at_disks().await;
            self.env.sleep(LOOK_EVERY).await;
        }
    }

    /// Establishes the desired state of disks. It also runs after each change of that state, so
    /// that a change that is soon reverted is not missed.
    pub(super) async fn look_at_disks(&self) {
        let looked = self.ask_disks(DiskRequest::Look(self.disk_volumes())).await;
        let trouble = looked.err().map(|error| error.message);
        let before = self.attached.trouble.replace(trouble.clone());
        if let Some(why) = trouble.filter(|why| before.as_ref() != Some(why)) {
            tracing::warn!("attached volumes: {why}");
        }
    }

    /// The volumes that hosts may use, as disks.
    fn disk_volumes(&self) -> Vec<DiskVolume> {
        let all = self.arrays.all();
        let of_array = |array: &Rc<Array>| {
            let array = array.clone();
            array.known_volumes().into_iter().map(move |volume| (array.clone(), volume))
        };
        let volumes = all.iter().flat_map(of_array).filter(|(_, volume)| !volume.is_hidden());
        volumes.filter_map(|(array, volume)| self.disk_volume(&array, &volume)).collect()
    }

    /// A volume as a disk; `None` if it is not served. While it is reshaping it has its old size,
    /// or the new one if that is smaller.
    fn disk_volume(&self, array: &Array, volume: &Volume) -> Option<DiskVolume> {
        let (number, label) = (volume.id()?.0.into(), volume.label());
        let sectors = sectors::host_sectors(array, volume);
        Some(DiskVolume {
            name: label.name,
            uuid: volume.uuid().to_string(),
            number,
            capacity_bytes: array.usable_bytes(volume),
            sector_bytes: sectors.logical.bytes().0,
            physical_sector_bytes: sectors.physical.bytes().0,
            strip_bytes: label.strip_bytes,
            stripe_bytes: volume.geometry.stripe_bytes().0,
            policy: self.policies.attach_of(volume.uuid()),
        })
    }

    async fn ask_disks(&self, request: DiskRequest) -> Result<Vec<DiskInfo>> {
        let Some(maker) = &self.attached.maker.0 else {
            return Err(nobody());
        };
        let (sender, mut answer) = mailbox::mailbox(&self.env, 1);
        maker.ask(
            request,
            Box::new(move |result| {
                if sender.send(result).is_err() {
                    tracing::debug!("the caller no longer waits for the reply about disks");
                }
            }),
        );
        let gone = || Err(Error::new(ErrorKind::Stopping, "the controller is shutting down"));
        let disks = answer.receive().await.unwrap_or_else(gone)?;
        self.attached.disks.replace(disks.clone());
        Ok(disks)
    }

    /// `attach`.
    pub(super) async fn attach(
        &self,
        volume: &str,
        read_only: bool,
        by: DiskKind,
    ) -> Result<Reply> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        let name = volume.name();
        let Some(wish) = self.disk_volume(&array, &volume).filter(|_| !volume.is_hidden()) else {
            let sentence = format!("'{name}' is not served; 'softroc volume show {name}' says why");
            return Err(Error::new(ErrorKind::WrongState, sentence));
        };
        let uuid = wish.uuid.clone();
        if let Some(disk) = self.attached.of(&uuid) {
            if disk.read_only == read_only {
                let notes = vec![format!("'{name}' is attached as {} already", disk.device)];
                return Ok(Reply::Disk { disk: Box::new(disk), notes });
            }
            let sentence = format!(
                "'{name}' is attached as {} already, {}; to change that, first run 'softroc detach \
                {name}'",
                disk.device,
                if read_only { "read-write" } else { "read-only" }
            );
            return Err(Error::new(ErrorKind::InUse, sentence));
        }
        let disks = self.ask_disks(DiskRequest::Attach { volume: wish, read_only, by }).await?;
        let disk = disks.into_iter().find(|disk| disk.uuid == uuid);
        let lost = || {
            Error::new(
                ErrorKind::Failed,
                format!("the block device of '{name}' disappeared again; see the controller's log"),
            )
        };
        Ok(Reply::Disk { disk: Box::new(disk.ok_or_else(lost)?), notes: Vec::new() })
    }

    /// `detach`.
    pub(super) async fn detach(&self, name: &str, force: bool) -> Result<Reply> {
        let Some(disk) = self.attached.named(name) else {
            let sentence = match self.arrays.find_volume(name) {
                Ok((_, volume)) => format!("'{}' is not attached", volume.name()),
                Err(_) => format!(
                    "there is no attached volume '{name}'; 'softroc attach --list' lists them"
                ),
            };
            return Err(Error::new(ErrorKind::NotFound, sentence));
        };
        let device = disk.device.clone();
        self.ask_disks(DiskRequest::Detach { device, force }).await?;
        let again = match disk.uuid.parse().map(|uuid: Uuid| self.policies.attach_of(uuid)) {
            Ok(AttachPolicy::Off) | Err(_) => None,
            Ok(_) => Some(format!(
                "the volume is attached again when the controller starts; to change that, run \
                 'softroc volume set {} --attach off'",
                disk.volume.as_deref().unwrap_or(&disk.uuid)
            )),
        };
        Ok(Reply::Done { notes: again.into_iter().collect() })
    }
}
