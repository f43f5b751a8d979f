//! Replacements that do not take their slot: they failed, or cannot be filled.
//!
//! A replacement that is itself at fault is recorded as failed ([`FailedDrive`]) by the label that
//! drops it.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::failures::is_lasting;
use crate::arrays::record::TRY_AGAIN;
use crate::events::{EventCode, Subject};
use crate::inventory::Drive;
use engine::Change;
use ondisk::{FailedDrive, Uuid};
use platform::IoError;
use std::rc::Rc;
use units::DriveIndex;

/// Why a replacement does not take its slot.
#[derive(Clone, Copy)]
pub(super) enum Ending<'a> {
    /// An operation on it failed: the operation, and the error.
    Failed(&'a str, IoError),
    /// It cannot be used there: the reason.
    Unfit(&'a str),
}

impl Ending<'_> {
    fn why(self) -> String {
        match self {
            Ending::Failed(done, error) => format!("it cannot be {done} ({error})"),
            Ending::Unfit(why) => why.to_owned(),
        }
    }

    /// Whether it is recorded as failed.
    fn is_lasting(self) -> bool {
        matches!(self, Ending::Failed(_, error) if is_lasting(error.kind) && !error.spares_drive())
    }
}

impl Arrays {
    /// A shard cannot fill the replacement of a slot: no shard fills it, and no label names it.
    /// Where that cannot be recorded now, it is retried: otherwise labels make the next start fill
    /// it. The caller holds the metadata lock.
    pub(super) async fn leave_replacement(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        uuid: Uuid,
        why: &str,
    ) {
        if self.end_replacement(array, slot, Ending::Unfit(why)).await {
            return;
        }
        // Shards that took it may fill it meanwhile. It must not take the slot, or the shard that
        // refused it would write to the old drive.
        array.work.unfillable.borrow_mut().insert(uuid);
        let (this, array, why) = (self.clone(), array.clone(), why.to_owned());
        self.env.spawn("replacement taken back", async move {
            loop {
                this.env.sleep(TRY_AGAIN).await;
                let _turn = array.metadata.take(1).await;
                let member = array.label().member.get(slot).cloned();
                let is_named =
                    member.and_then(|member| member.replacement).is_some_and(|of| of.uuid == uuid);
                if !is_named
                    || !array.is_running()
                    || this.end_replacement(&array, slot, Ending::Unfit(&why)).await
                {
                    array.work.unfillable.borrow_mut().remove(&uuid);
                    return;
                }
            }
        });
    }

    pub(super) fn drop_place_of_replacement(
        &self,
        array: &Array,
        slot: usize,
    ) -> Option<Rc<Drive>> {
        let mut places = array.places();
        let replacement = places.get_mut(slot)?.replacement.take();
        array.set_places(places);
        replacement
    }

    /// Drops the replacement of a slot: it failed, or is not needed any more. Returns whether that
    /// is recorded. The caller holds the metadata lock.
    pub(super) async fn end_replacement(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        ending: Ending<'_>,
    ) -> bool {
        let mut next = array.label();
        let Some(replacement) = next.member[slot].replacement.take() else { return true };
        let why = ending.why();
        if let (true, Some(drive)) = (ending.is_lasting(), array.places()[slot].replacement.clone())
        {
            next.remember_failed(FailedDrive {
                uuid: replacement.uuid,
                identity: drive.lasting_identity(),
                name: drive.name.clone(),
                why: format!("as a replacement, {why}"),
                at_unix_s: self.env.unix_time(),
            });
        }
        if !self.commit(array, next, Vec::new()).await {
            return false;
        }
        let drive = self.drop_place_of_replacement(array, slot);
        for volume in array.served() {
            let (Some(id), slot) = (volume.id(), DriveIndex(slot as u16)) else { continue };
            let told = self.send_change(id, &Change::ReplacementEnded { slot }, None);
            // Not awaited: its operations may never return, and writes wait for the lock that is
            // held here.
            if let Some(drive) = &drive {
                self.drain(drive, told);
            }
        }
        if let Some(drive) = drive {
            self.inventory.take_label_off(&drive, &array.names()).await;
        }
        let text = format!(
            "drive {} does not replace drive {} of {}: {why}",
            replacement.name,
            self.member_name(array, slot),
            array.names()
        );
        self.events.report(
            EventCode::DriveReplacementEnded,
            Subject::both(&replacement.name, &array.name()),
            &why,
            "the old drive stays online",
            text,
        );
        true
    }
}
