//! Starts and stops arrays.
//!
//! # Order at a start
//! 1. Labels are read and reconciled; the maps of all current members are merged.
//! 2. Split brain: an operator must confirm that the missing drives were not used elsewhere if they
//!    could serve a volume alone, are not recorded as missing or failed, and the array was not
//!    cleanly shut down (or its policy requires it). Write hole: a parity volume that is degraded
//!    and marked is not started without an operator either: after an interrupted write, stale
//!    parity gives wrong data for the missing drive. (Mirrors are safe: each copy holds all
//!    acknowledged writes.) The array's other volumes start. With `--accept-stale-parity`, the
//!    regions stay unsynced and marked, but their parity counts for missing drives (`engine`,
//!    forced regions). It covers no drive that fails later, and lasts until the array stops. A
//!    volume with a journal needs no operator: the journal is replayed (`journal`). Killed here:
//!    the next start repeats it.
//! 3. The merged map is written to all members, both copies. Killed here: the same marks again.
//! 4. The labels record the drives in use, missing drives as failed; a second write confirms the
//!    first, so that a copy of a drive from before the start is recognised. If a drive is missing,
//!    even one added by a reshape that is rolled back, two long steps follow, each confirming the
//!    previous one, so that no label on it is as new. Killed here: as if the start had not
//!    happened, any number of times: the first step, which confirms the state found, is short.
//! 5. The shards get the volumes; marked regions are resynced at once.
//!
//! At a stop, the shards finish outstanding I/O, and every drive is flushed. Marks are cleared
//! except for unsynced regions. The label says clean without marks, otherwise shut down. After a
//! kill, marks remain and are resynced.

use crate::arrays::array::{Array, SlotContent, runs, set_of};
use crate::arrays::failures::{Failing, failing};
use crate::arrays::starting::StartOrder;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::lifecycle::Lifecycle;
use engine::{RegionIndex, RegionSet};
use ondisk::{
    Cause, Copies, GENERATION_STRIDE, IntentMap, Label, Readiness, Role, StartDegraded, Uuid,
    readiness, slots,
};
use platform::IoError;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::counted;

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

impl Lifecycle {
    /// At the start of the controller: starts every array that needs no confirmation, except those
    /// in `tried`. An array waits for [drives that have not
    /// responded](crate::inventory::Inventory::awaited), unless it is complete without them: one of
    /// them may have a newer history. Returns whether all arrays have been tried.
    pub(crate) async fn start_all(self: &Rc<Self>, tried: &mut BTreeSet<Uuid>) -> bool {
        // Taken before labels are read: the next attempt reads the label of a drive that responds
        // meanwhile.
        let awaited = self.inventory.awaited();
        self.take_in_labels().await;
        self.list_missing();
        for array in self.arrays.all() {
            if tried.contains(&array.uuid) || array.is_running() {
                continue;
            }
            let waits_for = self.waits_for(&array, &awaited);
            if !waits_for.is_empty() {
                let sentence = format!(
                    "{} waits for drives that have not responded since the start of the \
                    controller: {}",
                    array.names(),
                    waits_for.join(", ")
                );
                array.waits_for_answers(&sentence);
                continue;
            }
            tried.insert(array.uuid);
            let started = self.start_array(&array, StartOrder::NONE).await;
            self.report_not_started(&array, started.err());
        }
        awaited.is_empty()
    }

    /// The drives that an array waits for: all whose first probe is not over, unless the array is
    /// complete. Device names change between starts, so any of these drives may be a member. A
    /// complete array waits for its own drives alone: metadata may be moving to their new end.
    pub(super) fn waits_for(&self, array: &Array, awaited: &[Rc<Drive>]) -> Vec<String> {
        let places = array.places();
        let label = array.label();
        let mut with_places = label.member.iter().zip(&places);
        let is_complete = !array.is_missing()
            && array.not_current().is_empty()
            && array.out().is_empty()
            && !array.is_apart()
            && with_places
                .all(|(member, place)| member.replacement.is_none() || place.replacement.is_some())
            && self.arrays.has_all_log_devices(array);
        let waits_for: Vec<&Rc<Drive>> =
            if is_complete { drives_of(array, awaited) } else { awaited.iter().collect() };
        waits_for.into_iter().map(|drive| drive.name.clone()).collect()
    }

    /// Refuses to start an array while the metadata of one of its drives may be moving to its new
    /// end: the drive is open, and its first probe is running. Nothing else may be written to it.
    fn check_nothing_moves(&self, array: &Array) -> Result<()> {
        let awaited = self.inventory.awaited();
        let mut own = drives_of(array, &awaited).into_iter();
        let Some(drive) = own.find(|drive| drive.access().is_some()) else { return Ok(()) };
        let sentence = format!(
            "{} cannot be started yet: drive {} is being identified; try again in a moment",
            array.names(),
            drive.name
        );
        Err(Error::new(ErrorKind::Unavailable, sentence))
    }

    /// Reports the volumes that are not served after the start of their array.
    pub(super) fn report_not_started(&self, array: &Array, error: Option<Error>) {
        for volume in array.known_volumes().iter().filter(|volume| !volume.is_served()) {
            let why =
                volume.refusal().or_else(|| error.as_ref().map(|error| error.message.clone()));
            let cause = "it could not be started";
            self.events.report(
                EventCode::VolumeNotStarted,
                &volume.name(),
                cause,
                "the volume is offline",
                why.unwrap_or_else(|| cause.to_owned()),
            );
        }
    }

    /// Starts a scanned array, with all of its volumes that can be started. `order`: the operator's
    /// confirmations.
    ///
    /// # Errors
    /// Why no volume is started; nothing has changed then, except that a drive may have failed. If
    /// only some volumes are not started, each records its reason.
    pub(crate) async fn start_array(
        self: &Rc<Self>,
        array: &Rc<Array>,
        order: StartOrder,
    ) -> Result<()> {
        let started = self.try_start(array, order).await;
        if let Err(error) = &started {
            for volume in array.volumes().iter().filter(|volume| volume.refusal().is_none()) {
                volume.set_refusal(Some(error.message.clone()));
            }
        }
        started
    }

    async fn try_start(self: &Rc<Self>, array: &Rc<Array>, order: StartOrder) -> Result<()> {
        self.check_nothing_moves(array)?;
        array.volumes().iter().for_each(|volume| volume.set_refusal(None));
        array
            .places()
            .iter()
            .filter_map(|place| place.drive.as_ref())
            .for_each(|drive| drive.note_use());
        array.forget_lost();
        let mut ready = array.known_volumes();
        ready.retain(|volume| array.readiness(volume) != Readiness::Offline);
        let is_any_ready =
            array.volumes().iter().any(|volume| array.readiness(volume) != Readiness::Offline);
        if !is_any_ready {
            let reasons = array.reasons().join("; ");
            return Err(wrong(format!("{} cannot be started: {reasons}", array.names())));
        }
        self.arrays.check_some_is_here(array, &ready)?;
        if let Some(sentence) = self.elsewhere(array, order).filter(|_| !order.without_missing) {
            return Err(wrong(sentence));
        }
        let unknown = self.read_maps(array).await;
        let failed = self.arrays.replay_journals(array, &array.volumes()).await?;
        let startable = |array: &Array| -> Vec<Rc<Volume>> {
            let judged = |volume: &Rc<Volume>| self.arrays.judge(array, volume, order);
            array.known_volumes().into_iter().filter(|volume| judged(volume).is_ok()).collect()
        };
        if startable(array).is_empty() {
            // Each volume has its own reason.
            let mut refusals = Vec::new();
            for volume in array.volumes() {
                let refusal = self.arrays.judge(array, &volume, order).err();
                volume.set_refusal(refusal.as_ref().map(|error| error.message.clone()));
                refusals.extend(refusal);
            }
            return Err(refusals.pop().unwrap_or_else(|| wrong("there is no volume to start")));
        }
        if unknown > 0 {
            self.report_unreadable_map(array, unknown);
        }
        let was_shut_down = array.label().was_shut_down();
        if !self.record_start(array, failed).await {
            let sentence = format!("{} cannot be started: {}", array.names(), self.why_lost(array));
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        // Marks of volumes that are not started stay: their regions are not resynced yet.
        array.distrust_marked();
        self.arrays.begin(array);
        let outcome = self.attach_volumes(array, order, was_shut_down).await;
        match &outcome {
            // Its replacement was complete before the last stop, but had not taken the slot.
            Ok(()) => self.arrays.promote_complete(array).await,
            Err(_) => self.arrays.detach(array).await,
        }
        outcome
    }

    /// Whether missing drives without a recorded failure could have served a volume of the array
    /// alone: a sentence. Both sides may then hold writes that the other lacks.
    ///
    /// After a clean shutdown the missing drives have all writes. Only an operator, or a start
    /// without the present drives, can have used them since. The array therefore starts, unless its
    /// policy requires confirmation, or an old copy of a missing drive shows that the drive is used
    /// elsewhere. If both sides were used, this is detected when they are connected together.
    fn elsewhere(&self, array: &Array, order: StartOrder) -> Option<String> {
        let (label, places) = (array.label(), array.places());
        let is_missing = |slot: &usize| {
            let place = &places[*slot];
            // An old copy in the slot of a used drive shows that the drive itself is elsewhere.
            let generation = || place.drive.as_ref()?.member_label().map(|own| own.generation);
            let is_old = || generation().is_some_and(|generation| generation < label.confirmed);
            place.role == Role::Missing
                || place.role == Role::Stale && label.member[*slot].is_online() && is_old()
        };
        let missing: Vec<usize> = (0..places.len()).filter(is_missing).collect();
        // An old copy in the slot of a drive shows that the drive is in use elsewhere.
        let is_elsewhere = || missing.iter().any(|slot| places[*slot].role == Role::Stale);
        let asks = label.policy.start_degraded == StartDegraded::Ask;
        if label.was_shut_down() && !asks && !is_elsewhere() {
            return None;
        }
        let rest = slots((0..places.len()).filter(|slot| !is_missing(slot)));
        // Drives that are still being rebuilt cannot serve alone.
        let could =
            |volume: &&Rc<Volume>| readiness(&label, &volume.label(), &rest) != Readiness::Offline;
        let volume =
            array.volumes().into_iter().find(|volume| !missing.is_empty() && could(&volume))?;
        let named = |slots: &mut dyn Iterator<Item = usize>| {
            let names: Vec<String> =
                slots.map(|slot| self.arrays.member_name(array, slot)).collect();
            names.join(", ")
        };
        let is_current = |slot: &usize| places[*slot].role == Role::Current;
        let (gone, here) =
            (named(&mut missing.iter().copied()), named(&mut (0..places.len()).filter(is_current)));
        let (name, generation, confirmed) = (volume.name(), label.generation, label.confirmed);
        let it = if missing.len() == 1 { "it" } else { "them" };
        let too = if order.forced.is_some() { " --accept-stale-parity" } else { "" };
        let why = match label.was_shut_down() {
            true if asks => "its policy start-degraded is 'ask'",
            true => "an outdated copy is in the slot of a drive",
            false => "it was not cleanly shut down",
        };
        Some(format!(
            "'{name}' is not started automatically: {why}, and {gone} could have served it alone \
             since then. The present drives ({here}) have recorded {generation} changes of state; \
             {gone} took part up to change {confirmed}, and later writes are unknown here. Connect \
             {it}; or, if nothing was written there, run 'softroc volume start {name} \
             --degraded{too}'"
        ))
    }

    /// Reports blocks of the write-intent map that no member could read.
    fn report_unreadable_map(&self, array: &Array, unknown: u32) {
        let text = format!(
            "the write-intent map of {} cannot be read in {unknown} blocks: all regions of \
                these blocks are resynced",
            array.names()
        );
        let effect = "more regions are resynced than necessary";
        self.events.report(
            EventCode::ArrayMapUnreadable,
            &array.name(),
            "the map cannot be read",
            effect,
            text,
        );
    }

    /// Reads and merges the maps of all current members. Returns the number of unreadable blocks.
    async fn read_maps(&self, array: &Array) -> u32 {
        let regions = array.label().regions();
        let mut maps: Vec<Copies> = Vec::new();
        for place in array.places() {
            if let (Role::Current, Some(access)) =
                (&place.role, place.drive.as_ref().and_then(|drive| drive.access()))
            {
                maps.push(access.read_map(regions).await);
            }
        }
        let (mut map, unknown) = IntentMap::unite(array.uuid, regions, &maps);
        // Marks are irrelevant in regions without a redundant volume, and where a reshaping volume
        // has no stripe in use.
        let marked: Vec<u32> = map.iter().collect();
        let mut saved = RegionSet::EMPTY;
        for region in marked {
            let volume = array.volume_of(region);
            // A saved window was in sync before it was used, except on missing drives.
            let saves = volume.as_ref().is_some_and(|volume| volume.label().saves());
            if saves {
                saved.insert_all(&RegionSet::from_runs([[region, region + 1]]));
            }
            let counts =
                |volume: Rc<Volume>| volume.is_redundant() && array.is_in_use(&volume, region);
            if saves || !volume.is_some_and(counts) {
                map.unmark(region);
            }
        }
        array.missed_by_the_absent(&saved);
        if !self.arrays.read_record(array).await {
            let regions = array.take_all_for_initialised();
            let text = format!(
                "no drive records which stripes of {} are initialised: {} are resynced, and \
                unwritten blocks may have any content",
                array.names(),
                counted(regions.len(), "region")
            );
            let (cause, effect) = (
                "the record of initialised stripes cannot be read, or an earlier version omitted \
                 it from the label",
                "these regions have no redundancy until the resync is complete",
            );
            self.events.report(EventCode::ArrayMapUnreadable, &array.name(), cause, effect, text);
            for region in regions {
                map.mark(region);
            }
        }
        array.set_map(map);
        unknown
    }

    /// The last step of a start: serves every volume that is ready. Returns the last error if none
    /// is served.
    async fn attach_volumes(
        &self,
        array: &Rc<Array>,
        order: StartOrder,
        was_shut_down: bool,
    ) -> Result<()> {
        let mut outcome = Err(wrong(format!("no volume of {} can be started", array.names())));
        for volume in array.known_volumes() {
            let _turn = array.starting_turn().await;
            if volume.is_served() {
                outcome = Ok(()); // Another task has started it meanwhile.
                continue;
            }
            // A drive may have failed just now, or returned so that the volume can be started after
            // all.
            let replayed = self.arrays.replay_late(array, &volume).await;
            let started = match replayed.and_then(|()| self.arrays.judge(array, &volume, order)) {
                Ok(()) => {
                    self.arrays.force_as_ordered(array, &volume, order);
                    self.arrays.attach(array, &volume).await
                }
                Err(error) => Err(error),
            };
            match started {
                Ok(()) => {
                    let marked = array.marked_of(&volume);
                    self.arrays.report_started(array, &volume, was_shut_down, marked, order);
                    outcome = Ok(());
                }
                Err(error) => {
                    volume.set_refusal(Some(error.message.clone()));
                    outcome = outcome.or(Err(error));
                }
            }
        }
        outcome
    }

    /// Steps 3 and 4 of a start.
    async fn record_start(
        self: &Rc<Self>,
        array: &Rc<Array>,
        failed: BTreeMap<usize, IoError>,
    ) -> bool {
        let _turn = array.metadata_turn().await;
        array.forget_unrecorded();
        let mut next = array.label();
        (next.clean, next.shut_down) = (false, false);
        let named = next.member.len();
        let taken_back = self.arrays.take_back_unbegun(array, &mut next);
        // A missing drive that is no longer a member may know of attempts that no other drive
        // knows.
        let knows_more = taken_back.0.len() < named - next.member.len();
        let mut places = array.places();
        let (mut gone, readmitted) = place_drives(array, &mut next, &mut places);
        for &slot in &readmitted {
            self.arrays.take_back(&mut next, slot, &ondisk::Runs::default());
            places[slot].role = Role::Current;
            places[slot].reason = None;
        }
        keep_replacements(array, &mut next, &places);
        array.set_places(places);
        let slots: Vec<usize> = (0..next.member.len())
            .filter(|&slot| next.member[slot].is_online() && gone.iter().all(|f| f.slot != slot))
            .collect();
        let degraded = knows_more || slots.len() < next.member.len();
        let errors = self.arrays.heal_map(array, &slots).await;
        if let Some(full) = errors.values().find(|error| error.spares_drive()) {
            tracing::warn!("the map of {} cannot be written: {full}", array.names());
            return false;
        }
        gone.extend(failing(errors, "writing its map"));
        let known: Vec<usize> = gone.iter().map(|failing| failing.slot).collect();
        let failed = failed.into_iter().filter(|(slot, _)| !known.contains(slot)).collect();
        gone.extend(failing(failed, "finishing interrupted writes"));
        // The records of a volume that needs the newly failed drives still count.
        let out = ondisk::slots(gone.iter().map(|failing| failing.slot)).union(&array.out());
        let started: Vec<Rc<Volume>> = {
            let is_ready = |volume: &Rc<Volume>| {
                array.readiness(volume) != Readiness::Offline
                    // Parts of a reshape that was just rolled back are not volumes any more.
                    && next.volume_of(volume.uuid()).is_some()
                    && volume.lost().is_empty()
                    && array.can_spare(volume, &out)
                    && self.arrays.check_log_is_here(array, volume).is_ok()
            };
            array.volumes().into_iter().filter(is_ready).collect()
        };
        self.arrays.find_log_places(&started).await;
        self.arrays.renew_journals(&mut next, &started, |volume| array.marked_of(volume) > 0);
        if !self.arrays.commit(array, next, gone).await {
            return false;
        }
        let off = self.follow_start(array, readmitted, taken_back).await;
        let further: &[u64] = if degraded { &[GENERATION_STRIDE; 2] } else { &[1] };
        for step in further {
            let mut again = array.label();
            again.leaving.retain(|drive| !off.contains(drive));
            again.generation += step - 1;
            if !self.arrays.commit(array, again, Vec::new()).await {
                return false;
            }
        }
        true
    }

    /// Completes a start: handles returned drives and a reshape that was rolled back before it
    /// began. Returns the replaced drives, still labelled after a crash, whose labels are now
    /// removed.
    async fn follow_start(
        &self,
        array: &Array,
        readmitted: Vec<usize>,
        (free, regions): (Vec<Rc<Drive>>, Vec<std::ops::Range<u32>>),
    ) -> Vec<Uuid> {
        for slot in readmitted {
            self.arrays.report_back(array, slot);
        }
        array.forget_regions(regions);
        for drive in free {
            self.inventory.take_label_off(&drive, &array.names()).await;
        }
        let mut off = Vec::new();
        // While members are missing or stale, such a drive may hold the only copy of some data.
        let is_whole = array.out().is_empty() && array.not_current().is_empty();
        let leaving = if is_whole { self.inventory.leaving(&array.label()) } else { Vec::new() };
        for (uuid, drive) in leaving {
            if self.inventory.take_label_off(&drive, &array.names()).await {
                off.push(uuid);
            }
        }
        off
    }

    fn why_lost(&self, array: &Array) -> String {
        let lost: Vec<String> = array.lost().into_values().collect();
        if lost.is_empty() {
            "its state cannot be recorded on its drives; free space on the file systems of its \
             drive files"
                .to_owned()
        } else {
            lost.join("; ")
        }
    }

    /// Stops an array cleanly. Returns whether all data is on its drives and no region is marked.
    async fn stop_array(&self, array: &Rc<Array>) -> bool {
        if !array.is_running() {
            return false;
        }
        // The log of this volume is missing, so its interrupted writes are not replayed: it is not
        // cleanly stopped.
        let waits = |volume: &Rc<Volume>| {
            !volume.is_served() && self.arrays.check_log_is_here(array, volume).is_err()
        };
        let is_waiting = array.volumes().iter().any(waits);
        self.arrays.detach(array).await;
        let marked = array.marked();
        let _ = self.arrays.clear_marks(array, marked).await;
        let _turn = array.metadata_turn().await;
        if array.has_lost() {
            return false;
        }
        let is_clean = array.marked().is_empty();
        let mut label = array.label();
        (label.clean, label.shut_down) = (is_clean, !is_clean && !is_waiting);
        self.arrays.commit(array, label, Vec::new()).await && is_clean
    }

    /// Stops every array cleanly; `stopped` is called after each. Returns notes, a sentence each.
    pub(crate) async fn stop_all(&self, stopped: impl Fn()) -> Vec<String> {
        let mut notes = Vec::new();
        for array in self.arrays.all().into_iter().filter(|array| array.is_running()) {
            let is_clean = self.stop_array(&array).await;
            stopped();
            if !is_clean {
                let left = array.marked().len();
                let names = array.names();
                let left = counted(left, "region");
                notes.push(format!("{names} is stopped; {left} to resync at its next start"));
            }
        }
        notes
    }
}

/// Applies the found drives to the label: names and sizes. Returns the slots whose drive is now
/// missing, and the slots whose drive returned and is current.
fn place_drives(
    array: &Array,
    next: &mut Label,
    places: &mut [SlotContent],
) -> (Vec<Failing>, Vec<usize>) {
    let mut gone = Vec::new();
    let mut readmitted = Vec::new();
    for (slot, place) in places.iter_mut().enumerate() {
        match (&place.role, &place.drive) {
            (Role::Current, Some(_)) => place.reason = None,
            // It was missing at an earlier start, and nothing was written since: it is current.
            (Role::Left(Cause::Missing), Some(_)) if array.missed(slot).is_empty() => {
                readmitted.push(slot)
            }
            _ if next.member[slot].is_online() => {
                let what = "it was not found, or has an outdated copy".to_owned();
                gone.push(Failing { slot, cause: Cause::Missing, what, is_lasting: false });
            }
            _ => {}
        }
        if let Some(drive) = &place.drive {
            drive.describe(&mut next.member[slot]);
        }
    }
    (gone, readmitted)
}

/// Keeps present replacements in the label.
fn keep_replacements(array: &Array, next: &mut Label, places: &[SlotContent]) {
    // A replacement may have missed interrupted writes; a missing one is not waited for.
    let marked: RegionSet = array.marked().into_iter().map(RegionIndex).collect();
    for (member, place) in next.member.iter_mut().zip(places) {
        let replacement = member.replacement.take().filter(|_| place.replacement.is_some());
        member.replacement = replacement.map(|replacement| {
            let stale = runs(&set_of(&replacement.stale).union(&marked));
            ondisk::Replacement { stale, ..replacement }
        });
    }
}

/// The drives of the list that are members of the array or being filled for it.
fn drives_of<'d>(array: &Array, drives: &'d [Rc<Drive>]) -> Vec<&'d Rc<Drive>> {
    let places = array.places();
    let own = || places.iter().flat_map(|place| [&place.drive, &place.replacement]).flatten();
    drives.iter().filter(|drive| own().any(|one| Rc::ptr_eq(one, drive))).collect()
}
