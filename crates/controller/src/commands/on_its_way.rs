//! What is refused of a volume that is on its way to another layout.

use super::Commands;
use crate::arrays::volume::Volume;
use crate::interface::{Command, Error, ErrorKind, Result};

impl Commands {
    /// Whether a volume is no disk of this machine: a disk has a size, and nobody tells the kernel of the one that the volume comes to.
    pub(super) fn check_no_disk(&self, volume: &Volume) -> Result<()> {
        let Some(disk) = self.attached.of(&volume.uuid().to_string()) else { return Ok(()) };
        let name = volume.name();
        let sentence = format!(
            "'{name}' is {} of this machine, whose size would stay what it is; first run 'softroc detach {name}', and 'softroc attach {name}' when it is there",
            disk.device
        );
        Err(Error::new(ErrorKind::InUse, sentence))
    }

    /// Whether a change can be made now: not one that a volume on its way would have to take along.
    pub(super) fn check_on_its_way(&self, command: &Command) -> Result<()> {
        let array = match command {
            Command::VolumeSet { volume, .. } => self.arrays.find_array(volume).ok(),
            Command::VolumePolicy(set) => self.arrays.find_array(&set.volume).ok(),
            Command::VolumeCreate(create) => {
                create.array.as_ref().and_then(|array| self.arrays.find_array(array).ok())
            }
            Command::DriveReplace { drive, .. } | Command::DriveOnline { drive } => {
                let drive = self.arrays.find_drive(drive).ok();
                drive.and_then(|drive| self.arrays.place_of(&drive)).map(|(array, _)| array)
            }
            Command::VolumeAttach { volume, .. } => self.arrays.find_array(volume).ok(),
            Command::TaskStart(start) if start.what.is_init() => {
                start.volume.as_ref().and_then(|volume| self.arrays.find_array(volume).ok())
            }
            _ => None,
        };
        let Some(volume) = array.and_then(|array| array.on_its_way()) else { return Ok(()) };
        Err(Error::new(
            ErrorKind::WrongState,
            format!(
                "'{}' is on its way to another layout: this can be done when it is there; run 'softroc task list' for its progress",
                volume.name()
            ),
        ))
    }
}
