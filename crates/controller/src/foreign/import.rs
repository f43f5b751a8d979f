//! `foreign import`: drives of another system become an array of SoftROC.
//!
//! # Order of writes
//! Everything is checked before anything is written. Data are not touched.
//!
//! 1. Undo logs on all drives, with the other system's metadata. Killed here: the drives are
//!    unchanged, and the logs are removed.
//! 2. Drive by drive: the other system's metadata are removed, the label is written with phase
//!    *creating*. Killed here: the next start restores the metadata, since no label says that the
//!    array exists.
//! 3. The map; all regions of volumes that were not cleanly stopped are marked. Killed here: as
//!    before.
//! 4. Labels with phase *online*. Killed in the middle: one label that says online makes the array
//!    exist; the other drives have their labels, and no metadata of the other system is left.
//! 5. The logs are removed. Killed here: they have no effect, and the next start removes them.
//! 6. The array is started like any other.

use super::plan::Plan;
use crate::arrays::array::{Array, SlotContent, is_full};
use crate::arrays::starting::StartOrder;
use crate::events::EventCode;
use crate::foreign::Foreign;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::structures::Written;
use ondisk::foreign::metadata;
use ondisk::{Cause, IntentMap, Label, Phase, Role, Undo};
use platform::IoError;
use std::rc::Rc;
use units::{ByteOffset, ByteRange};

/// A slot, and its drive.
type Seat<'a> = (usize, &'a Rc<Drive>);

impl Foreign {
    /// `foreign import` of a volume, and of the volumes on the same drives.
    ///
    /// # Errors
    /// Why it is refused; or which drive failed: then the drives are restored.
    pub(crate) async fn import(
        self: &Rc<Self>,
        volume: &str,
        name: Option<String>,
    ) -> Result<(Rc<Array>, Vec<String>)> {
        let scan = self.scan_foreign().await;
        let index = scan.find(volume)?;
        let format =
            format!("{} {}", scan.volumes[index].record.format, scan.volumes[index].record.version);
        let Plan { label, drives, marked, mut notes } =
            self.plan_import(&scan, index, name.as_deref())?;
        let names = label.names();
        let cannot =
            || Error::new(ErrorKind::Failed, format!("{names} does not fit on its drives"));
        let array = Array::new(&self.env, label).ok_or_else(cannot)?;
        array.set_places(drives.iter().map(place).collect());
        let mut map = IntentMap::new(array.uuid, array.label().regions(), false);
        for region in &marked {
            map.mark(*region);
        }
        array.set_map(map);
        if let Err(error) = self.write_import(&array, &drives, marked.is_empty()).await {
            self.lifecycle.rescan().await;
            return Err(error);
        }
        for drive in drives.iter().flatten() {
            if let Some(access) = drive.access()
                && let Err(error) = access.forget_undo().await
            {
                tracing::warn!("drive {}: its undo log could not be erased ({error})", drive.name);
            }
            drive.set_zeroed(false);
        }
        let text = format!("{names} of another system ({format}) was imported");
        self.events.report(
            EventCode::VolumeImported,
            &array.name(),
            "an operator imported it",
            "SoftROC manages it",
            text,
        );
        self.lifecycle.rescan().await;
        let found = self.arrays.get(array.uuid);
        let gone = || {
            Error::new(
                ErrorKind::Failed,
                format!("{names} was imported, and cannot be found any more"),
            )
        };
        let found = found.ok_or_else(gone)?;
        if !found.is_running()
            && let Err(error) = self.lifecycle.start_array(&found, StartOrder::NONE).await
        {
            notes.push(error.message);
        }
        Ok((found, notes))
    }

    /// Steps 1 to 4. If one of the first three fails, the drives are restored.
    async fn write_import(
        &self,
        array: &Rc<Array>,
        drives: &[Option<Rc<Drive>>],
        is_clean: bool,
    ) -> Result<()> {
        let _turn = array.metadata_turn().await;
        let seats: Vec<Seat> = drives
            .iter()
            .enumerate()
            .filter_map(|(slot, drive)| Some((slot, drive.as_ref()?)))
            .collect();
        self.inventory.remember_ends(seats.iter().map(|(_, drive)| &***drive)).await?;
        self.keep_metadata(array, &seats).await?;
        if let Err(error) = self.write_creating(array, &seats).await {
            for (_, drive) in &seats {
                take_back(drive).await;
            }
            return Err(error);
        }
        let mut online = array.label();
        (online.phase, online.clean) = (Phase::Online, is_clean);
        (online.confirmed, online.generation) = (online.generation, online.generation + 1);
        self.write_online(array, &seats, &online).await
    }

    /// Step 1.
    async fn keep_metadata(&self, array: &Array, seats: &[Seat<'_>]) -> Result<()> {
        for (_, drive) in seats {
            let Some(access) = drive.access() else { return Err(closed(drive)) };
            access.set_place(array.label().tail);
            let parts = access.parts_to_keep().await.map_err(|error| failed(drive, &error))?;
            let room = access.tail().map(|tail| tail.undo());
            let is_in_the_way = |part: &ondisk::Part| {
                room.is_none_or(|room| {
                    part.0 < room.end()
                        && room.start.0 < part.0.0.saturating_add(part.1.len() as u64)
                })
            };
            if parts.iter().any(is_in_the_way) {
                return Err(Error::new(
                    ErrorKind::WrongState,
                    format!(
                        "the metadata on drive {} occupies the place of the undo log; nothing was \
                        imported: copy the data instead, with 'softroc rescue'",
                        drive.name
                    ),
                ));
            }
            let undo = Undo { array: array.uuid, parts };
            undo.head().map_err(|error| {
                Error::new(
                    ErrorKind::WrongState,
                    format!("drive {} cannot be imported: {error}", drive.name),
                )
            })?;
            access.write_undo(&undo).await.map_err(|error| failed(drive, &error))?;
        }
        Ok(())
    }

    /// Steps 2 and 3.
    async fn write_creating(&self, array: &Rc<Array>, seats: &[Seat<'_>]) -> Result<()> {
        let label = array.label();
        for (slot, drive) in seats {
            let Some(access) = drive.access() else { return Err(closed(drive)) };
            let (mut places, unread) = access.decode(metadata).await;
            // Apparent metadata within the array's data was written by a host.
            places.retain(|place| !lies_in_data(&label, *place));
            let wiped = match unread {
                Some(error) => Err(error),
                None => access.wipe(&places).await,
            };
            wiped.map_err(|error| failed(drive, &error))?;
            drive.set_structure(Written::Nothing);
            let own = label.member[*slot].uuid;
            self.arrays
                .write_label(drive, &label, own)
                .await
                .map_err(|error| failed(drive, &error))?;
        }
        let slots: Vec<usize> = seats.iter().map(|(slot, _)| *slot).collect();
        if let Some((slot, error)) = self.arrays.heal_map(array, &slots).await.into_iter().next() {
            return Err(failed_at(seats, slot, &error));
        }
        Ok(())
    }

    /// Step 4.
    async fn write_online(&self, array: &Array, seats: &[Seat<'_>], online: &Label) -> Result<()> {
        let errors = self.arrays.write_labels(array, online).await;
        let errors = errors.map_err(|error| Error::new(ErrorKind::Failed, error))?;
        // One label that says online makes the array exist; a drive without such a label fails at
        // the start of the array.
        match errors.iter().next() {
            Some((slot, error)) if errors.len() == seats.len() => {
                Err(failed_at(seats, *slot, error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the range overlaps data of the volumes.
fn lies_in_data(label: &Label, place: ByteRange) -> bool {
    // Volumes with saved windows are excluded: their offsets are relative to the journal space.
    let data = label.volume.iter().filter(|volume| !volume.saves()).map(|volume| {
        ByteRange::from_to(ByteOffset(volume.data_start_bytes), ByteOffset(volume.data_end_bytes()))
    });
    data.into_iter().any(|data| !data.intersection(place).is_empty())
}

/// Restores a drive's metadata if no label says that the array exists.
async fn take_back(drive: &Drive) {
    let Some(access) = drive.access() else { return };
    let undone = match access.read_undo(false).await {
        Some(undo) => access.undo(&undo).await,
        None => Ok(()),
    };
    if let Err(error) = undone {
        tracing::error!(
            "drive {}: its contents from before the import cannot be restored ({error})",
            drive.name
        );
    }
}

fn place(drive: &Option<Rc<Drive>>) -> SlotContent {
    let role = if drive.is_some() { Role::Current } else { Role::Left(Cause::Missing) };
    SlotContent { drive: drive.clone(), role, reason: None, replacement: None }
}

fn closed(drive: &Drive) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("drive {} is closed; nothing was imported", drive.name),
    )
}

fn failed(drive: &Drive, error: &IoError) -> Error {
    let kind = if is_full(error) { ErrorKind::OutOfSpace } else { ErrorKind::Failed };
    let sentence = format!("drive {} failed ({error}); nothing was imported", drive.name);
    Error::new(kind, sentence)
}

fn failed_at(seats: &[Seat], slot: usize, error: &IoError) -> Error {
    match seats.iter().find(|(other, _)| *other == slot) {
        Some((_, drive)) => failed(drive, error),
        None => {
            Error::new(ErrorKind::Failed, format!("a drive failed ({error}); nothing was imported"))
        }
    }
}
