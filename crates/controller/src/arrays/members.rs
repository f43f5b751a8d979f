//! Drives that come back, replace others, or are filled to replace them, while their volumes are
//! served.
//!
//! # Order of steps
//! Everything happens under the array's metadata lock, so that no region is marked meanwhile.
//!
//! *A drive takes a slot that is out* (it comes back, or is new):
//! 1. Both copies of the map are written to the drive. After a crash here the drive's state is
//!    unchanged.
//! 2. The next label goes to it and to the others: it has the slot, and is stale in every region
//!    that it may have missed. A new drive is stale in every region that is initialised, or may be
//!    by an outstanding write. After a crash in the middle, one label with the change is the newest
//!    and counts; without one, the slot is out as before.
//! 3. The shards get the drive, stale as recorded. Nothing is written to it before that.
//! 4. A rebuild makes written regions current; an unwritten region is left to its first write. The
//!    label records a region as current after a flush of the drive that began later.
//!
//! *A drive is filled to take a slot in service*: the next label names it as the slot's
//! replacement, stale in every region; then the shards write to it too. When it is stale in no
//! written region, the next label gives it the slot, and the shards promote it; the label of the
//! old drive is removed last. After a crash in the middle, each drive's label is right about both;
//! the replacement is stale in uncopied and in marked regions.
//!
//! *A replacement fails*: the next label drops it before the report is confirmed. *The drive of a
//! slot with a replacement fails*: one label takes it out and drops the replacement; then the
//! replacement gets the slot, stale in uncopied and in marked regions. After a crash in between:
//! the slot is out, and the replacement is unassigned.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, runs, set_of};
use crate::arrays::failures::{Failing, is_lasting};
use crate::arrays::replacement::Ending;
use crate::arrays::serve::place_on;
use crate::arrays::shards::answers;
use crate::events::{EventCode, Subject};
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::IsQuiesced;
use engine::{Change, RegionSet};
use ondisk::MemberState;
use ondisk::{Label, Member, Replacement, Role, StandIn};
use std::rc::Rc;
use std::time::Duration;
use units::DriveIndex;

/// How often a waiting command checks whether a replacement has taken its slot.
const TAKE_OVER_POLL: Duration = Duration::from_millis(10);

fn failed(sentence: String) -> Error {
    Error::new(ErrorKind::Failed, sentence)
}

/// The role of a drive that takes a slot.
pub(crate) enum Entering {
    /// The drive that left the slot.
    Back,
    /// A drive without data of the array: it gets its own UUID. The value tells whether it is an
    /// active hot spare until the old drive is replaced.
    New(Option<StandIn>),
    /// The replacement that was being filled for the slot.
    Filled(Replacement),
}

/// A failed drive that an operator brings back is trusted again, also as a new drive.
fn trust_again(next: &mut Label, drive: &Drive, uuid: ondisk::Uuid) {
    let identity = drive.lasting_identity();
    next.failed.retain(|failed| {
        failed.uuid != uuid && (identity.is_none() || failed.identity != identity)
    });
}

/// A drive did not get a slot. If the failure was recorded, the same change that gave it the slot
/// took it out: it is at fault.
fn note_not_taken(drive: &Drive, recorded: bool) {
    if recorded {
        drive.set_problem(Some(failed(format!(
            "the label of drive {} could not be written",
            drive.name
        ))));
    }
}

impl Array {
    /// The label of a leaving drive is removed, or is to stay: the next change records that.
    fn leaves_no_more(&self, drive: ondisk::Uuid) {
        self.label.borrow_mut().leaving.retain(|other| *other != drive);
    }
}

impl Arrays {
    /// Puts a drive into a slot that is out. The caller holds the metadata lock.
    ///
    /// # Errors
    /// When it could not be recorded, or a shard cannot use the drive.
    pub(crate) async fn put_in(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        entering: Entering,
    ) -> Result<()> {
        let mut places = array.places();
        let before = places[slot].clone();
        let mut next = array.label();
        let (stale, uuid) = match &entering {
            Entering::Back => (array.missed(slot), next.member[slot].uuid),
            Entering::New(_) => (array.of_slot(slot, array.regions_to_fill()), self.new_uuid()),
            Entering::Filled(replacement) => {
                (set_of(&replacement.stale).union(&array.missed(slot)), replacement.uuid)
            }
        };
        let fresh = matches!(entering, Entering::New(_));
        let replaces = uuid != next.member[slot].uuid;
        let (left, left_by) = (next.member[slot].uuid, next.member[slot].name.clone());
        if replaces {
            if fresh && before.drive.as_ref().is_some_and(|before| !Rc::ptr_eq(before, drive)) {
                next.remember_leaving(next.member[slot].uuid);
            }
            let enclosure = next.member[slot].enclosure.take();
            let stands_in = match entering {
                Entering::New(stands_in) => stands_in,
                Entering::Filled(replacement) => replacement.stands_in,
                Entering::Back => None,
            };
            next.member[slot] =
                Member { enclosure, stands_in, ..Member::online(uuid, "", drive.extent(), 0) };
        }
        self.take_back(&mut next, slot, &runs(&stale));
        trust_again(&mut next, drive, uuid);
        drive.describe(&mut next.member[slot]);
        places[slot].drive = Some(drive.clone());
        array.set_places(places);
        let recorded = match self.prepare(array, slot, drive, &next, fresh).await {
            Ok(()) => self.commit(array, next, Vec::new()).await,
            Err(error) => {
                self.undo_place(array, slot, (&before, left));
                return Err(error);
            }
        };
        if !recorded || !array.label().member[slot].is_online() {
            self.undo_place(array, slot, (&before, left));
            if replaces {
                self.inventory.take_label_off(drive, &array.names()).await;
            }
            note_not_taken(drive, recorded);
            return Err(failed(format!(
                "drive {} could not be added to its array; run 'softroc volume show {}'",
                drive.name,
                array.name()
            )));
        }
        let mut places = array.places();
        (places[slot].role, places[slot].reason) = (Role::Current, None);
        array.set_places(places);
        self.give_to_shards(array, slot, drive, before.drive, &stale);
        match replaces {
            true => self.report_taken(array, slot, &left_by),
            false => self.report_back(array, slot),
        }
        array.look_at_state(self.env.unix_time());
        Ok(())
    }

    /// Reverts a slot change: the slot has its previous drive, with its label.
    fn undo_place(
        &self,
        array: &Array,
        slot: usize,
        (before, drive): (&crate::arrays::array::SlotContent, ondisk::Uuid),
    ) {
        array.leaves_no_more(drive);
        let mut places = array.places();
        places[slot] = before.clone();
        array.set_places(places);
    }

    /// Step 1: the map; a new drive gets only that.
    async fn prepare(
        &self,
        array: &Array,
        slot: usize,
        drive: &Drive,
        next: &Label,
        fresh: bool,
    ) -> Result<()> {
        if fresh && let Err(error) = self.inventory.make_blank(drive).await {
            return Err(self.blame(drive, error).await);
        }
        let regions = next.regions();
        debug_assert_eq!(regions, array.map.borrow().regions());
        match self.heal_map(array, &[slot]).await.into_values().next() {
            Some(error) => Err(self.blame(drive, error).await),
            None => Ok(()),
        }
    }

    /// A drive that is to get a slot could not be written: the fault is its own, not another
    /// drive's.
    async fn blame(&self, drive: &Drive, error: platform::IoError) -> Error {
        let sentence = failed(format!("drive {} could not be written ({error})", drive.name));
        if is_lasting(error.kind) && !error.spares_drive() {
            let why =
                format!("the drive could not be written when it was assigned to a slot: {error}");
            self.inventory
                .remember_failure(drive, self.new_uuid(), why, self.env.unix_time())
                .await;
        }
        drive.set_problem(Some(sentence.clone()));
        sentence
    }

    /// Step 3: the slot has this drive from now on, for all served volumes. A shard learns of it
    /// before any mark that is granted later. Outstanding operations of the previous drive are not
    /// waited for: they cannot reach this one. But the previous drive is not reused before all have
    /// returned.
    fn give_to_shards(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        before: Option<Rc<Drive>>,
        stale: &RegionSet,
    ) {
        for volume in array.served().into_iter().filter(|volume| volume.is_on(slot)) {
            let Some(id) = volume.id() else { continue };
            let source = drive.access().and_then(|access| place_on(&volume.label(), access));
            let change = Change::Drive {
                slot: DriveIndex(slot as u16),
                stale: volume.own_regions(stale),
                in_service: array.in_service(&volume),
            };
            volume.note_swap(slot);
            let told = self.send_change(id, &change, source);
            let (this, array, drive) = (self.clone(), array.clone(), drive.clone());
            let is_quiesced = IsQuiesced::default();
            before.iter().for_each(|before| before.note_draining(&is_quiesced));
            self.env.spawn("drive given to shards", async move {
                let answers = answers(told).await;
                is_quiesced.set(true);
                this.attention.look_after();
                let Err(why) = answers else { return };
                let what = format!("'{}' cannot use it: {why}", volume.name());
                tracing::error!("drive {}: {what}", drive.name);
                let _turn = array.metadata.take(1).await;
                let is_it = array.drive(slot).is_some_and(|other| Rc::ptr_eq(&other, &drive));
                if is_it && array.in_use().contains(&slot) {
                    let failing =
                        Failing { slot, cause: ondisk::Cause::Error, what, is_lasting: false };
                    this.put_out(&array, vec![failing]).await;
                }
            });
        }
    }

    /// Drives went out whose replacements were being filled: those take their slots at once.
    pub(super) fn use_replacements(self: &Rc<Self>, array: &Rc<Array>, failing: &[Failing]) {
        for Failing { slot, .. } in failing {
            let slot = *slot;
            let left = array.work.left_replacements.borrow_mut().remove(&slot);
            let (Some(replacement), Some(filled)) =
                (left, self.drop_place_of_replacement(array, slot))
            else {
                continue;
            };
            for volume in array.served() {
                let (Some(id), drive) = (volume.id(), DriveIndex(slot as u16)) else { continue };
                self.drain(
                    &filled,
                    self.send_change(id, &Change::ReplacementEnded { slot: drive }, None),
                );
            }
            let (this, array) = (self.clone(), array.clone());
            array.work.taking_over.borrow_mut().insert(slot);
            self.env.spawn("replacement takes over", async move {
                let taken = {
                    let _turn = array.metadata.take(1).await;
                    match array.is_running()
                        && array.label().out().contains(DriveIndex(slot as u16))
                    {
                        true => {
                            this.put_in(&array, slot, &filled, Entering::Filled(replacement)).await
                        }
                        false => Ok(()),
                    }
                };
                array.work.taking_over.borrow_mut().remove(&slot);
                this.attention.look_after();
                match taken {
                    Ok(()) => this.go_on_with(&array).await,
                    Err(error) => tracing::error!("{error}"),
                }
            });
        }
    }

    /// Begins to copy a slot's drive to its replacement, while the old drive serves. If the old
    /// drive fails meanwhile, the replacement takes the slot as soon as the caller releases the
    /// metadata lock, which it holds here: see [`until_taken_over`](Self::until_taken_over).
    ///
    /// # Errors
    /// When it could not be recorded, or a shard cannot use the drive; then nothing has changed.
    pub(crate) async fn begin_replacement(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        stands_in: Option<StandIn>,
    ) -> Result<()> {
        if let Err(error) = self.inventory.make_blank(drive).await {
            return Err(self.blame(drive, error).await);
        }
        let mut next = array.label();
        let stale = array.regions_to_fill();
        let (size, block) = drive.extent();
        let is_spare = stands_in.is_some();
        let replacement = Replacement {
            uuid: self.new_uuid(),
            name: drive.name.clone(),
            size_bytes: size.0,
            block_bytes: block.bytes().0,
            stale: runs(&stale),
            stands_in,
        };
        let uuid = replacement.uuid;
        next.member[slot].replacement = Some(replacement);
        let mut places = array.places();
        places[slot].replacement = Some(drive.clone());
        array.set_places(places);
        let recorded = self.commit(array, next, Vec::new()).await;
        if recorded && array.is_taken_over(slot) {
            // The old drive failed while this change was recorded: its replacement takes the slot.
            return Ok(());
        }
        if !recorded || array.label().member[slot].replacement.is_none() {
            self.drop_place_of_replacement(array, slot);
            self.inventory.take_label_off(drive, &array.names()).await;
            return Err(failed(format!(
                "drive {} could not be added to its array; see 'softroc volume show'",
                drive.name
            )));
        }
        if let Err(why) = self.give_replacement(array, slot, drive, uuid).await {
            self.leave_replacement(array, slot, uuid, &why).await;
            // An operator gets the error; a spare is not retried repeatedly.
            if is_spare {
                drive.set_problem(Some(failed(format!(
                    "drive {} cannot replace it: {why}",
                    drive.name
                ))));
            }
            return Err(failed(format!(
                "drive {} cannot replace it: {why}; run 'softroc drive replace {}:{slot} --with \
                DRIVE' with another one",
                drive.name,
                array.name()
            )));
        }
        self.report_replacement_begun(array, slot, drive);
        Ok(())
    }

    fn report_replacement_begun(&self, array: &Array, slot: usize, drive: &Drive) {
        let text = format!(
            "drive {} replaces drive {} of {} when the copy to it is complete",
            drive.name,
            self.member_name(array, slot),
            array.names()
        );
        self.events.report(
            EventCode::DriveReplacementBegun,
            Subject::both(&drive.name, &array.name()),
            "a replacement was started",
            "the old drive stays online until then",
            text,
        );
    }

    /// Waits until a replacement has taken a slot whose old drive failed while the replacement was
    /// being recorded. Until then the labels do not name it: after a crash the slot would be
    /// without it. Returns at once where no replacement is taking the slot. The caller must not
    /// hold the metadata lock.
    ///
    /// # Errors
    /// When the replacement did not get the slot.
    pub(crate) async fn until_taken_over(
        &self,
        array: &Array,
        slot: usize,
        drive: &Rc<Drive>,
    ) -> Result<()> {
        if !array.is_taken_over(slot) {
            return Ok(());
        }
        while array.is_taken_over(slot) && array.is_running() {
            self.env.sleep(TAKE_OVER_POLL).await;
        }
        match array.slot_of(drive) == Some(slot) {
            true => Ok(()),
            false => Err(failed(format!(
                "drive {} could not take its slot in its array; see 'softroc volume show'",
                drive.name
            ))),
        }
    }

    /// Makes the shards fill a drive for a slot from now on, for all served volumes.
    ///
    /// # Errors
    /// When one of them cannot use the drive; others may be filling it by then.
    async fn give_replacement(
        &self,
        array: &Array,
        slot: usize,
        drive: &Drive,
        uuid: ondisk::Uuid,
    ) -> std::result::Result<(), String> {
        for volume in array.served() {
            let (Some(id), slot) = (volume.id(), DriveIndex(slot as u16)) else { continue };
            let source = drive.access().and_then(|access| place_on(&volume.label(), access));
            if source.is_some() {
                volume.note_replacement(slot.as_usize(), uuid);
            }
            let left = volume.own_regions(&array.left_on_replacement(slot.as_usize()));
            let began = Change::ReplacementBegan { slot, left };
            let told = answers(self.send_change(id, &began, source)).await;
            told.map_err(|why| format!("'{}' cannot use it: {why}", volume.name()))?;
        }
        Ok(())
    }

    /// Gives the slot to its replacement, which is current except for its recorded stale regions.
    /// The caller holds the metadata lock.
    ///
    /// # Errors
    /// When there is none, or it could not be recorded.
    async fn promote(self: &Rc<Self>, array: &Rc<Array>, slot: usize) -> Result<()> {
        let names = array.names();
        let mut next = array.label();
        let places = array.places();
        let (Some(replacement), Some(drive)) =
            (next.member[slot].replacement.take(), places[slot].replacement.clone())
        else {
            return Err(failed(format!("drive {slot} of {names} is not being replaced")));
        };
        let old = places[slot].drive.clone();
        let left = next.member[slot].uuid;
        let stood_in = next.member[slot].stands_in.take();
        let enclosure = next.member[slot].enclosure.clone();
        let stale = set_of(&replacement.stale);
        if old.is_some() {
            next.remember_leaving(left);
        }
        next.member[slot] = Member {
            stale: replacement.stale.clone(),
            enclosure,
            stands_in: replacement.stands_in.clone(),
            ..Member::online(replacement.uuid, replacement.name.clone(), drive.extent(), 0)
        };
        // Blocks that the old drive refused were written to this one.
        for volume in &mut next.volume {
            volume.excluded.retain(|listed| usize::from(listed.slot) != slot);
        }
        let mut promoted = places.clone();
        promoted[slot] = crate::arrays::array::SlotContent {
            drive: Some(drive.clone()),
            role: Role::Current,
            reason: None,
            replacement: None,
        };
        array.set_places(promoted);
        if let Some(error) = self.heal_map(array, &[slot]).await.into_values().next() {
            array.set_places(places);
            return Err(failed(format!("drive {} could not be written ({error})", drive.name)));
        }
        if !self.commit(array, next, Vec::new()).await {
            array.set_places(places);
            return Err(failed(format!(
                "the replacement by drive {} could not be recorded",
                drive.name
            )));
        }
        self.tell_promoted(array, slot, &stale, old.as_ref());
        if !array.label().member[slot].is_online() {
            // The change that gave it the slot also took it out: the old drive's data may be
            // needed.
            array.leaves_no_more(left);
            return Err(failed(format!("drive {} failed when it took the slot", drive.name)));
        }
        if let Some(old) = old {
            self.take_left_label_off(array, &old).await;
            self.spare_again(&old, stood_in).await;
            let text = format!("drive {} replaced drive {} of {names}", drive.name, old.name);
            self.report_replaced(array, &drive, &old.name, text);
        }
        array.look_at_state(self.env.unix_time());
        Ok(())
    }

    /// Notifies the shards that a replacement has its slot.
    fn tell_promoted(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        stale: &RegionSet,
        old: Option<&Rc<Drive>>,
    ) {
        for volume in array.served() {
            let Some(id) = volume.id() else { continue };
            volume.note_swap(slot);
            let slot = DriveIndex(slot as u16);
            let promoted = Change::Promoted { slot, stale: volume.own_regions(stale) };
            let told = self.send_change(id, &promoted, None);
            // Not awaited, as in `end_replacement`.
            match old {
                Some(old) => self.drain(old, told),
                None => drop(told),
            }
        }
    }

    /// A drive was replaced: removes its label. If a power cut precedes the durable removal, the
    /// next start removes the label.
    pub(crate) async fn take_left_label_off(&self, array: &Array, drive: &Drive) {
        let own = drive.member_label().map(|label| label.drive);
        if self.inventory.take_label_off(drive, &array.names()).await
            && let Some(own) = own
        {
            array.leaves_no_more(own);
        }
    }

    fn report_replaced(&self, array: &Array, new: &Drive, old: &str, text: String) {
        let effect = format!("drive {old} is free");
        let (cause, array) = ("a drive was replaced", array.name());
        self.events.report(
            EventCode::DriveReplaced,
            Subject::both(&new.name, &array),
            cause,
            &effect,
            text,
        );
    }

    /// A task finds nothing left to copy to a replacement: the replacement takes its slot, even if
    /// no region was ever written and so no copy is recorded.
    pub(crate) fn note_full_replacement(&self, array: &Array) {
        array.work.changed.notify(&self.env);
    }

    /// Replacements that are current in all written regions take their slots.
    pub(crate) async fn promote_complete(self: &Rc<Self>, array: &Rc<Array>) {
        for slot in 0..array.places().len() {
            let _turn = array.metadata.take(1).await;
            if is_full(array, slot)
                && let Err(error) = self.promote(array, slot).await
            {
                let names = array.names();
                let text = format!("a replacement could not take slot {slot} of {names}: {error}");
                self.events.report(
                    EventCode::DriveReplacementFailed,
                    &array.name(),
                    &error.message,
                    "the old drive stays online",
                    text,
                );
                self.end_replacement(array, slot, Ending::Unfit(&error.message)).await;
            }
        }
    }

    /// Regions that must still be copied to a replacement.
    pub(crate) fn replacement_stale(&self, array: &Array, slot: usize) -> RegionSet {
        let label = array.label();
        let Some(replacement) =
            label.member.get(slot).and_then(|member| member.replacement.as_ref())
        else {
            return RegionSet::EMPTY;
        };
        array.left(&replacement.stale)
    }

    /// Records in the next label that a drive is in use again, but stale in these regions.
    pub(crate) fn take_back(&self, next: &mut ondisk::Label, slot: usize, stale: &ondisk::Runs) {
        let member = &mut next.member[slot];
        (member.state, member.cause) = (MemberState::Online, None);
        member.stale = stale.clone();
        next.volume
            .iter_mut()
            .for_each(|volume| volume.lost.retain(|lost| usize::from(*lost) != slot));
    }

    /// Reports that a drive is in service again.
    pub(crate) fn report_back(&self, array: &Array, slot: usize) {
        let name = self.member_name(array, slot);
        let left = array.to_rebuild(slot).len();
        let effect = self.describe_state(array);
        let (cause, text) = match left {
            0 => (
                format!("drive {name} missed no write"),
                format!(
                    "drive {name} is back online; nothing was written while it was out of service: \
                    {effect}"
                ),
            ),
            _ => (
                format!("drive {name} is back"),
                format!(
                    "drive {name} is back online; the writes it missed are being rebuilt (regions: \
                    {left}): {effect}"
                ),
            ),
        };
        let array = array.name();
        self.events.report(
            EventCode::DriveBack,
            Subject::both(&name, &array),
            &cause,
            &effect,
            text,
        );
    }

    /// Reports that a drive has replaced another one, which was out.
    fn report_taken(&self, array: &Array, slot: usize, left_by: &str) {
        let name = self.member_name(array, slot);
        let left = array.missed(slot).len();
        let effect = self.describe_state(array);
        let rebuilt = match left {
            0 => "nothing has to be rebuilt".to_owned(),
            _ => format!("rebuilding onto {name} (regions: {left})"),
        };
        let text = format!("drive {name} takes the slot of drive {left_by}; {rebuilt}; {effect}");
        self.events.report(
            EventCode::DriveTakesSlot,
            Subject::both(&name, &array.name()),
            &format!("drive {left_by} is out of service"),
            &effect,
            text,
        );
    }
}

/// Whether any slot has a replacement that can take it now.
pub(super) fn has_full_replacement(array: &Array) -> bool {
    (0..array.places().len()).any(|slot| is_full(array, slot))
}

/// Whether the replacement of a slot is current in all written regions, and can take it.
fn is_full(array: &Array, slot: usize) -> bool {
    let label = array.label();
    let Some(member) = label.member.get(slot).filter(|member| member.is_online()) else {
        return false;
    };
    let replacement = member.replacement.as_ref().filter(|one| !array.is_unfillable(one.uuid));
    replacement.is_some_and(|one| array.left(&one.stale).is_empty())
        && array.places().get(slot).is_some_and(|place| place.replacement.is_some())
        && array.lost.borrow().is_empty()
        && array.is_running()
}
