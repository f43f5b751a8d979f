//! Notes and refusals for reshaping volumes.

use super::Commands;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::interface::{Command, Error, ErrorKind, ReshapeVolume, Result};
use std::rc::Rc;

impl Commands {
    /// What happens to the attached disk of the volume.
    pub(super) fn note_of_disk(&self, volume: &Volume) -> Option<String> {
        let disk = self.attached.of(&volume.uuid().to_string())?;
        Some(format!(
            "{} gets the new size at the end of the reshape (with ublk before Linux 6.16: when it \
            is attached again); grow its file system afterwards (resize2fs, xfs_growfs)",
            disk.device
        ))
    }

    /// Refuses to shrink an attached volume: the kernel supports no disks that shrink while in use.
    pub(super) fn check_disk_stays(&self, order: &ReshapeVolume) -> Result<()> {
        let (_, volume) = self.arrays.find_volume(&order.volume)?;
        let is_less = order.size_bytes.is_some_and(|size| size < volume.label().capacity_bytes);
        match self.attached.of(&volume.uuid().to_string()).filter(|_| is_less) {
            None => Ok(()),
            Some(disk) => {
                let sentence = format!(
                    "'{0}' is attached as {1}, which cannot shrink; run 'softroc detach {0}' first",
                    volume.name(),
                    disk.device
                );
                Err(Error::new(ErrorKind::InUse, sentence))
            }
        }
    }

    /// Refuses a change that a reshaping volume does not allow.
    pub(super) fn check_on_its_way(&self, command: &Command) -> Result<()> {
        let array = match command {
            Command::VolumeSet { volume, .. } => self.arrays.find_array(volume).ok(),
            Command::VolumePolicy(set) => self.arrays.find_array(&set.volume).ok(),
            Command::DriveReplace { drive, .. } => {
                let drive_of = || self.arrays.find_drive(drive).ok();
                let shown = || drive_of().and_then(|drive| self.arrays.shown_place(&drive));
                let place = self.arrays.slot_named(drive).or_else(shown);
                let is_taken = |(array, slot): &(Rc<Array>, usize)| {
                    let is_out = !array.in_use().contains(slot);
                    is_out && (array.waits_for_drives() || array.may_be_replaced(*slot))
                };
                place.filter(|place| !is_taken(place)).map(|(array, _)| array)
            }
            Command::DriveOnline { drive } | Command::DriveResume { drive } => {
                let drive = self.arrays.find_drive(drive).ok();
                let place = drive.and_then(|drive| self.arrays.place_of(&drive));
                place.filter(|(array, slot)| !array.may_come_back(*slot)).map(|(array, _)| array)
            }
            Command::TaskStart(start) if start.what.is_init() => {
                start.volume.as_ref().and_then(|volume| self.arrays.find_array(volume).ok())
            }
            _ => None,
        };
        array.map_or(Ok(()), |array| array.check_stands().and_then(|()| array.check_all_stay()))
    }
}
