//! From drives to arrays: reads labels, and combines them.

use crate::arrays::array::Array;
use crate::arrays::starting::StartOrder;
use crate::interface::Result;
use crate::interface::{Error, ErrorKind};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::Lifecycle;
use ondisk::{Cause, FoundArray, Label, Phase, Role, SeenDrive, reconcile};
use std::rc::Rc;

impl Lifecycle {
    /// `drive add`: registers a drive; with a size, creates a file for it first. Returns notes, a
    /// sentence each.
    pub(super) async fn register_drive(
        self: &Rc<Self>,
        spec: &str,
        size: Option<u64>,
    ) -> Result<(Rc<Drive>, Vec<String>)> {
        if let Some(size) = size {
            self.inventory.create_file(spec, size).await?;
        }
        let known = self.inventory.drive_called(spec).filter(|drive| !drive.is_volatile());
        let drive = known.clone().unwrap_or_else(|| self.inventory.new_drive(spec));
        if let Some((array, _)) = self.arrays.place_of(&drive)
            && array.is_running()
        {
            return Ok((
                drive.clone(),
                vec![format!("drive {} is in use already, by {}", drive.name, array.names())],
            ));
        }
        drive.look(&self.env).await;
        if let Some(first) = drive.first_path() {
            // It is listed, and retried when the other path is gone.
            let new = if known.is_none() { vec![drive.clone()] } else { Vec::new() };
            self.inventory.add(new).await?;
            let note =
                format!("drive {spec} is another path to drive {first}; a second path is not used");
            return Ok((drive, vec![note]));
        }
        if drive.access().is_none() {
            let gone =
                || Error::new(ErrorKind::Unavailable, format!("drive {spec} cannot be opened"));
            return Err(drive.problem().unwrap_or_else(gone));
        }
        if known.is_none()
            && let Err(why) = drive.check_made_for_a_drive(&self.env).await
        {
            drive.close();
            return Err(why);
        }
        if let Some(other) = self.inventory.same_drive(&drive) {
            drive.close();
            let sentence =
                format!("drive {spec} is registered already, as {}; use that name", other.name);
            return Err(Error::new(ErrorKind::InUse, sentence));
        }
        drive.set_zeroed(drive.is_zeroed() || size.is_some());
        if known.is_none()
            && let Err(error) = self.inventory.add(vec![drive.clone()]).await
        {
            drive.close();
            return Err(error);
        }
        let notes = self.assemble_with(&drive).await;
        Ok((drive, notes))
    }

    /// Reads the labels of all unused drives, and combines them to arrays.
    pub(crate) async fn rescan(&self) {
        let is_free = |drive: &Rc<Drive>| drive.access().is_some() && !self.arrays.is_in_use(drive);
        let mut free = self.inventory.drives();
        free.retain(is_free);
        self.inventory.look_at(free).await;
        self.take_in_labels().await;
    }

    /// Takes in the labels of drives that responded after the deadline, and starts arrays that are
    /// now complete.
    pub(crate) async fn take_in_late(self: &Rc<Self>) {
        let mut late = self.inventory.drives();
        late.retain(|drive| drive.take_late() && !self.arrays.is_in_use(drive));
        if late.is_empty() {
            return;
        }
        for drive in &late {
            self.inventory.keeps_given(drive).await;
        }
        // Taken before labels are read, as at a start: the label of a drive that responds meanwhile
        // is unknown.
        let awaited = self.inventory.awaited();
        self.take_in_labels().await;
        for drive in late.iter().filter(|drive| drive.array().is_some()) {
            let Some((array, _)) = self.arrays.place_of(drive) else { continue };
            if !array.is_running() && self.waits_for(&array, &awaited).is_empty() {
                let started = self.start_array(&array, StartOrder::NONE).await;
                self.report_not_started(&array, started.err());
            }
        }
    }

    /// Takes in all labels. Remaining labels of a deleted array are erased now, since one of them
    /// could restore it.
    pub(super) async fn take_in_labels(&self) {
        self.settle_imports().await;
        self.repair_structures().await;
        self.refuse_deleted();
        for drive in self.scan() {
            if let Some(label) = drive.member_label() {
                // Stored while a label says so: a missing member may have a label that does not.
                if !self.inventory.is_deleted(label.array)
                    && let Err(error) =
                        self.inventory.remember_deleted(label.array, label.names()).await
                {
                    let sentence = format!(
                        "drive {} keeps the label of a deleted volume until the deletion is \
                            recorded: {}",
                        drive.name, error.message
                    );
                    drive.set_problem(Some(Error::new(ErrorKind::WrongState, sentence)));
                    continue;
                }
                self.forget_array(label.array).await;
            }
            let erased = match drive.access() {
                Some(access) => access.erase().await.map_err(|error| error.to_string()),
                None => Ok(()),
            };
            match erased {
                Ok(()) => drive.set_label(LabelSeen::Blank),
                Err(why) => {
                    let sentence = format!(
                        "drive {} carries the label of a deleted volume, which cannot be erased: \
                            {why}",
                        drive.name
                    );
                    drive.set_problem(Some(Error::new(ErrorKind::WrongState, sentence)));
                }
            }
        }
        self.arrays.all().iter().for_each(|array| self.arrays.remember_failed(array));
        self.remember_arrays().await;
    }

    /// Removes a deleted array from the list of missing arrays. If that cannot be stored, the list
    /// of deleted arrays has the same information.
    pub(super) async fn forget_array(&self, array: ondisk::Uuid) {
        if let Err(error) = self.inventory.forget_array(array).await {
            tracing::debug!("{error}");
        }
    }

    /// Sets the problem of drives that were missing when their array was deleted.
    fn refuse_deleted(&self) {
        let drives = self.inventory.drives();
        for drive in drives.iter().filter(|drive| !self.arrays.is_in_use(drive)) {
            if let Some(why) = self.inventory.deleted_without(drive) {
                drive.set_problem(Some(why));
            }
        }
    }

    /// Remembers the arrays with a drive present.
    pub(crate) async fn remember_arrays(&self) {
        let here = self.arrays.all().into_iter().filter(|array| !array.is_missing());
        self.inventory.remember_arrays(here.map(|array| array.label()).collect()).await;
    }

    /// Lists known arrays without a drive.
    pub(super) fn list_missing(&self) {
        for seen in self.inventory.arrays_seen() {
            if self.arrays.get(seen.label.array).is_some() {
                continue;
            }
            if let Some(array) = Array::new(&self.env, seen.label) {
                array.nothing_found();
                self.arrays.insert(array);
            }
        }
    }

    /// Unused drives with the label of a member, as of their last probe. Excluded are drives with
    /// outstanding I/O of shards, and drives whose array was deleted without them.
    fn seen(&self) -> (Vec<Rc<Drive>>, Vec<SeenDrive>) {
        let is_free = |drive: &&Rc<Drive>| {
            let is_quiet = !self.arrays.is_in_use(drive) && !drive.is_draining();
            is_quiet && self.inventory.deleted_without(drive).is_none()
        };
        let seen = |drive: &Rc<Drive>| {
            let (name, size) = (drive.name.clone(), drive.access()?.info().size);
            Some((drive.clone(), SeenDrive { name, size, label: drive.member_label()? }))
        };
        self.inventory.drives().iter().filter(is_free).filter_map(seen).unzip()
    }

    /// Stopped arrays whose present drives are all in this list.
    pub(super) fn arrays_within(&self, within: &[Rc<Drive>]) -> Vec<Rc<Array>> {
        let (drives, seen) = self.seen();
        let is_within =
            |drive: &usize| within.iter().any(|taken| Rc::ptr_eq(taken, &drives[*drive]));
        let mut arrays = Vec::new();
        for found in reconcile(&seen).into_iter().filter(|found| found.label.phase == Phase::Online)
        {
            let members = found.members.iter();
            let here: Vec<usize> = members
                .flat_map(|member| member.drive.into_iter().chain(member.replacement))
                .collect();
            let is_started =
                self.arrays.get(found.label.array).is_some_and(|array| array.is_running());
            if !is_started
                && !here.is_empty()
                && here.iter().all(is_within)
                && let Some(array) = Array::new(&self.env, found.label.clone())
            {
                self.take_in(&array, &found, &drives);
                arrays.push(array);
            }
        }
        arrays
    }

    /// Combines the labels of all unused drives, as of their last probe. Returns drives whose array
    /// was deleted.
    fn scan(&self) -> Vec<Rc<Drive>> {
        let (drives, seen) = self.seen();
        let mut deleted = Vec::new();
        let mut unseen: Vec<Rc<Array>> =
            self.arrays.all().into_iter().filter(|array| !array.is_running()).collect();
        for found in reconcile(&seen) {
            for (drive, why) in &found.refused {
                drives[*drive].set_problem(Some(Error::new(ErrorKind::WrongState, why.clone())));
            }
            let uuid = found.label.array;
            match found.label.phase {
                Phase::Online => {}
                // Its creation was not completed: its drives are unused.
                Phase::Creating => continue,
                Phase::Deleted => {
                    deleted
                        .extend(drives.iter().filter(|drive| drive.array() == Some(uuid)).cloned());
                    continue;
                }
            }
            unseen.retain(|array| array.uuid != uuid);
            let existing = self.arrays.get(uuid);
            match existing {
                Some(array) if array.is_running() => self.late_drives(&array, &found, &drives),
                Some(array) => self.take_in(&array, &found, &drives),
                None => {
                    if let Some(array) = Array::new(&self.env, found.label.clone()) {
                        self.take_in(&array, &found, &drives);
                        self.arrays.insert(array);
                    }
                }
            }
        }
        unseen.iter().for_each(|array| array.nothing_found());
        deleted
    }

    fn take_in(&self, array: &Array, found: &FoundArray, drives: &[Rc<Drive>]) {
        if array.update(&self.env, found, drives).is_none() {
            tracing::error!("the label of {} describes no volume", found.label.names());
        }
    }

    /// Handles drives of an array that was started without them.
    fn late_drives(&self, array: &Array, found: &FoundArray, drives: &[Rc<Drive>]) {
        let mut places = array.places();
        let label = array.label();
        for (drive, own) in drives.iter().filter_map(|drive| Some((drive, drive.member_label()?))) {
            if own.array != found.label.array {
                continue;
            }
            let slot = label.slot_of(own.drive).filter(|slot| places[*slot].drive.is_none());
            let Some(slot) = slot else {
                let sentence = match label.slot_of(own.drive) {
                    Some(_) => {
                        format!("drive {} is a copy of a drive of {}", drive.name, label.names())
                    }
                    None => {
                        format!(
                            "drive {} is a former member of the array of {}",
                            drive.name,
                            label.names()
                        )
                    }
                };
                drive.set_problem(Some(Error::new(ErrorKind::WrongState, sentence)));
                continue;
            };
            let member = &label.member[slot];
            let size = drive.access().map(|access| access.info().size);
            let is_what_left =
                own.generation >= member.knew && size.is_some_and(|size| label.fits(size));
            let (role, reason) = if let Some(apart) = self.used_apart(array, drive, &own) {
                (Role::Stale, apart)
            } else if is_what_left {
                let why = ondisk::why(member);
                let verb = ondisk::verb_back(member);
                let sentence = format!(
                    "drive {0} is out of service ({why}); run 'softroc drive {verb} {0}' to use it \
                    again",
                    drive.name
                );
                (Role::Left(member.cause.unwrap_or(Cause::Error)), sentence)
            } else {
                let sentence = format!(
                    "drive {} is an earlier copy of the drive that left {}, or too small; replace \
                        it with 'softroc drive replace'",
                    drive.name,
                    label.names()
                );
                (Role::Stale, sentence)
            };
            places[slot].drive = Some(drive.clone());
            (places[slot].role, places[slot].reason) = (role, Some(reason));
        }
        array.set_places(places);
    }

    /// Whether a missing drive was used without the drives of its running array: a sentence.
    pub(super) fn used_apart(&self, array: &Array, drive: &Drive, own: &Label) -> Option<String> {
        let label = array.label();
        let seen = |drive: &Drive, label: Label| {
            Some(SeenDrive { name: drive.name.clone(), size: drive.access()?.info().size, label })
        };
        let used = array.in_use().into_iter();
        let used = used.filter_map(|slot| {
            seen(&*array.drive(slot)?, label.for_drive(label.member[slot].uuid))
        });
        let all: Vec<SeenDrive> = used.chain(seen(drive, own.clone())).collect();
        let apart = reconcile(&all).into_iter().find_map(|found| found.apart)?;
        Some(format!(
            "{apart}; to use drive {} here anyway, replace it by itself with 'softroc drive \
            replace'",
            drive.name
        ))
    }

    /// Starts an array that a new drive completes. Returns notes, a sentence each.
    pub(super) async fn assemble_with(self: &Rc<Self>, drive: &Drive) -> Vec<String> {
        let mut notes = Vec::new();
        if drive.log_label().is_some() && !self.arrays.is_log_device(drive) {
            notes.push(format!(
                "drive {0} is a device of an unused log; run 'softroc log add {0}' to use it",
                drive.name
            ));
        }
        // An interrupted import may wait for it.
        let settles = self.inventory.drives().iter().any(|drive| drive.undo().is_some());
        if drive.array().is_none() && !settles {
            return notes;
        }
        self.rescan().await;
        let Some((array, slot)) = self.arrays.place_of(drive) else { return notes };
        let names = array.names();
        if array.is_running() {
            notes.push(format!(
                "{names} was started without drive {}; run 'softroc drive online {}:{slot}' to use \
                    it",
                drive.name,
                array.name()
            ));
        } else if array.not_current().is_empty() && !array.is_apart() {
            match self.start_array(&array, StartOrder::NONE).await {
                Ok(()) => notes.push(format!("{names} is complete and was started")),
                Err(error) => notes.push(error.message),
            }
        } else {
            notes.push(format!(
                "{names} is not complete; register its other drives, or run 'softroc volume start \
                    {}'",
                array.name()
            ));
        }
        notes
    }
}
