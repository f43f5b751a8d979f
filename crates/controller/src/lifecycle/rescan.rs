//! `drive rescan`: drives that became larger since they were opened.

use crate::arrays::array::Array;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::{Lifecycle, OfDrive};
use std::rc::Rc;
use units::ByteCount;

impl Lifecycle {
    /// Uses the full size of a larger drive: at once if it is unused, otherwise from the next start
    /// on. `was`: its earlier size, if that is not stored.
    ///
    /// # Errors
    /// Why the earlier size stays in use.
    pub(crate) async fn rescan_drive(
        self: &Rc<Self>,
        text: &str,
        was: Option<u64>,
    ) -> Result<OfDrive> {
        let drive = self.arrays.find_drive(text)?;
        let name = drive.name.clone();
        if drive.is_volatile() {
            let sentence = format!(
                "drive {name} is created at each start with the size in its name, and cannot be \
                rescanned"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        if was.is_some() && self.arrays.is_in_use(&drive) {
            let sentence = format!(
                "drive {name} has its previous size; run 'softroc drive rescan {name}' without \
                --was"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let place = self.arrays.place_of(&drive).filter(|(array, _)| array.is_running());
        let is_out = place.as_ref().is_some_and(|(array, slot)| !array.in_use().contains(slot));
        if self.arrays.is_in_use(&drive) && !is_out {
            self.inventory.want_room(&drive).await?;
            let now = place.map_or(String::new(), |_| {
                format!(
                    "; to use it sooner, if the volume is redundant, run 'softroc drive \
                    offline {name}', this command again, and 'softroc drive online {name}'"
                )
            });
            let note = format!(
                "drive {name} is in use: additional capacity is used from the next start of the \
                controller on{now}"
            );
            return Ok((drive, vec![note]));
        }
        let before = drive.access().map(|access| access.info().size);
        match &place {
            Some((array, slot)) => {
                let _turn = array.metadata_turn().await;
                // A lost drive is in service by the labels: no write that skipped it counts.
                if let Some(why) = array.lost().get(slot) {
                    return Err(Error::new(ErrorKind::WrongState, why.clone()));
                }
                self.reopen_member(array, *slot, &drive).await
            }
            None => self.reopen(&drive, was.map(ByteCount)).await,
        }?;
        let is = drive.access().map(|access| access.info().size);
        let mut notes = match (before, is) {
            (Some(before), Some(is)) if is > before => {
                vec![format!("drive {name} has {is} now, and had {before}")]
            }
            _ => vec![format!("the size of drive {name} is unchanged")],
        };
        match place {
            Some(_) => notes.push(format!("run 'softroc drive online {name}' to use it again")),
            None => notes.extend(self.assemble_with(&drive).await),
        }
        Ok((drive, notes))
    }

    /// A missing member of a started array: shards that used it release it first.
    async fn reopen_member(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
    ) -> Result<()> {
        for volume in array.served() {
            self.take_from_shards(array, &volume, slot);
        }
        self.reopen(drive, None).await
    }

    /// Reopens an unused drive, and uses its full size.
    async fn reopen(&self, drive: &Rc<Drive>, was: Option<ByteCount>) -> Result<()> {
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        drive.close();
        let before = drive.tell_size(was);
        drive.look(&self.env).await;
        if drive.access().is_none() {
            if was.is_some() {
                drive.take_back_size(before);
            }
            let gone = || {
                Error::new(ErrorKind::Unavailable, format!("drive {} cannot be opened", drive.name))
            };
            return Err(drive.problem().unwrap_or_else(gone));
        }
        let found_at = drive.access().map(|access| access.info().size);
        if let Some(was) =
            was.filter(|was| found_at != Some(*was) || matches!(drive.label(), LabelSeen::Blank))
        {
            // The stored size may be right.
            drive.close();
            drive.take_back_size(before);
            drive.look(&self.env).await;
            let sentence = format!(
                "no SoftROC label is found at the previous end of drive {} ({} bytes); run \
                'softroc drive rescan {0} --was SIZE' with its previous size",
                drive.name, was.0
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        self.inventory.let_grow(drive).await?;
        self.inventory.store_drives().await
    }
}
