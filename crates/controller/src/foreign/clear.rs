//! `foreign clear`: removes metadata from unused drives.

use crate::events::EventCode;
use crate::foreign::Foreign;
use crate::interface::{Error, ErrorKind, Reply, Result};
use crate::inventory::Drive;
use crate::inventory::access::{Access, LabelSeen};
use ondisk::foreign::metadata;
use platform::IoError;
use std::rc::Rc;

impl Foreign {
    /// Removes the metadata of other systems, and broken metadata, from these drives. Everything is
    /// checked before anything is written.
    ///
    /// # Errors
    /// When a drive is in use, carries a sound label of SoftROC or no metadata, or cannot be
    /// written.
    pub(crate) async fn clear_foreign(&self, names: &[String]) -> Result<Reply> {
        if names.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "name the drives to clear"));
        }
        let mut drives: Vec<(Rc<Drive>, Access)> = Vec::new();
        for name in names {
            let drive = self.arrays.find_drive(name)?;
            if drives.iter().all(|(other, _)| !Rc::ptr_eq(other, &drive)) {
                let access = self.check_clearable(&drive).await?;
                drives.push((drive, access));
            }
        }
        let mut notes = Vec::new();
        for (drive, access) in drives {
            cleared(&access).await.map_err(|error| {
                let sentence =
                    format!("drive {} could not be cleared ({error}); try again", drive.name);
                Error::new(ErrorKind::Failed, sentence)
            })?;
            drive.look(&self.env).await;
            let text = format!("the metadata on drive {} was erased", drive.name);
            self.events.report(
                EventCode::DriveCleared,
                &drive.name,
                "an operator cleared it",
                "it belongs to no array",
                text,
            );
            notes.push(format!("drive {} belongs to no array any more", drive.name));
        }
        self.lifecycle.rescan().await;
        Ok(Reply::Done { notes })
    }

    async fn check_clearable(&self, drive: &Rc<Drive>) -> Result<Access> {
        let wrong = |kind, sentence: String| Err(Error::new(kind, sentence));
        let name = &drive.name;
        let place = self.arrays.place_of(drive);
        if let Some((array, slot)) = place.filter(|_| !super::is_broken(drive)) {
            return wrong(
                ErrorKind::InUse,
                format!(
                    "drive {name} is drive {slot} of {}; delete that volume first",
                    array.names()
                ),
            );
        }
        if self.arrays.is_in_use(drive) {
            return wrong(ErrorKind::InUse, format!("drive {name} is in use"));
        }
        let Some(access) = drive.access() else {
            let closed =
                || Error::new(ErrorKind::Unavailable, format!("drive {name} cannot be opened"));
            return Err(drive.problem().unwrap_or_else(closed));
        };
        drive.look(&self.env).await;
        if let LabelSeen::Log(_) = drive.label() {
            let sentence = format!(
                "drive {name} is a log device, and is not foreign; run 'softroc log remove {name}'"
            );
            return wrong(ErrorKind::WrongState, sentence);
        }
        if matches!(drive.label(), LabelSeen::Sound(_)) && drive.undo().is_none() {
            return wrong(
                ErrorKind::WrongState,
                format!(
                    "drive {name} has a valid SoftROC label; commands that use the drive, such as \
                        'softroc volume create', overwrite it with --destroy-data"
                ),
            );
        }
        let reader = access.clone();
        let read = drive.in_time(&self.env, async move { reader.decode(metadata).await.0 }).await;
        let Some(places) = read else {
            let silent =
                || Error::new(ErrorKind::Unavailable, format!("drive {name} does not respond"));
            return Err(drive.problem().unwrap_or_else(silent));
        };
        if places.is_empty() && !super::is_broken(drive) {
            let sentence = format!("drive {name} has no metadata to erase");
            return wrong(ErrorKind::Invalid, sentence);
        }
        Ok(access)
    }
}

async fn cleared(access: &Access) -> std::result::Result<(), IoError> {
    // Before SoftROC's metadata areas are zeroed: the decoder finds a structure only by its anchor.
    let (places, _) = access.decode(metadata).await;
    access.forget_undo().await?;
    access.wipe(&places).await?;
    access.erase_log().await?;
    access.erase_marks().await
}
