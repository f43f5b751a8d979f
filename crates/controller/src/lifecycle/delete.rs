//! `volume delete`.
//!
//! # Order of writes
//! The last volume of an array: the array is deleted as well. Labels with phase *deleted* go to all
//! drives first, then they are erased. Killed in the middle: if one label says deleted, the next
//! start erases the others, so that no part of the array returns. A drive that is missing or does
//! not respond gets no such label, and replaced drives may have kept an old label. The state folder
//! therefore records the deletion before any label is erased. If that fails, the deletion is
//! refused.
//!
//! One of several volumes: the shards release it, then the next label omits it. Killed in the
//! middle: if the newest label omits the volume, it is deleted; otherwise it is unchanged. Its
//! marks are cleared last: marks in regions without a volume have no effect. The parts of a
//! reshaping volume are deleted with it.

use crate::arrays::array::Array;
use crate::arrays::draining;
use crate::arrays::reshape::forget_regions;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::Lifecycle;
use engine::RegionSet;
use ondisk::{MemberState, Phase};
use std::rc::Rc;

impl Lifecycle {
    pub(crate) async fn delete_volume(
        self: &Rc<Self>,
        volume: &str,
        disconnect_hosts: bool,
    ) -> Result<Vec<String>> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        let name = volume.name();
        if !disconnect_hosts {
            let insisting = format!("softroc volume delete {name} --disconnect-hosts");
            self.arrays.check_unused(&volume, &insisting).await?;
        }
        let disconnected = self.arrays.users(&volume);
        let (effect, mut notes) = if array.known_volumes().len() == 1 {
            // Checked before any change: a deletion that cannot be recorded is refused.
            self.inventory.store_deleted().await?;
            ("its drives are free", self.delete_array(&array).await)
        } else {
            self.delete_one(&array, &volume).await?;
            ("its space on its drives is free", draining::notes(&array.to_serve()))
        };
        self.events.report(
            EventCode::VolumeDeleted,
            &name,
            "an operator deleted it",
            effect,
            format!("'{name}' was deleted"),
        );
        notes.extend(disconnected.map(|hosts| format!("disconnected from '{name}': {hosts}")));
        Ok(notes)
    }

    /// Deletes a volume with its array. Returns notes, a sentence each.
    pub(super) async fn delete_array(self: &Rc<Self>, array: &Rc<Array>) -> Vec<String> {
        self.arrays.detach(array).await;
        let names = array.names();
        let mut notes = Vec::new();
        let _turn = array.metadata_turn().await;
        // A task that waits for the lock would write its label again, and restore the array.
        array.set_deleted();
        let mut label = array.label();
        label.phase = Phase::Deleted;
        (label.confirmed, label.generation) = (array.confirmed(), label.generation + 1);
        for member in &mut label.member {
            (member.state, member.knew) = (MemberState::Online, 0);
        }
        array.forget_lost();
        let deleted = self.arrays.write_labels(array, &label).await.unwrap_or_default();
        // Stored while a label still says so: the array must not be listed as missing later.
        if let Err(error) = self.inventory.remember_deleted(array.uuid, names.clone()).await {
            self.arrays.remove(array.uuid);
            return vec![format!(
                "drives keep labels of the deleted {names} until the deletion can be recorded at a \
                start: {}",
                error.message
            )];
        }
        self.forget_array(array.uuid).await;
        for (slot, place) in array.places().iter().enumerate() {
            let erased = match place.drive.as_ref().and_then(|drive| drive.access()) {
                Some(access) if !deleted.contains_key(&slot) => {
                    access.erase().await.map_err(|e| e.to_string())
                }
                Some(_) => Err("its label cannot be written".to_owned()),
                None => Err("it is missing".to_owned()),
            };
            match (erased, &place.drive) {
                (Ok(()), Some(drive)) => {
                    drive.set_label(LabelSeen::Blank);
                    drive.set_problem(None);
                }
                (Err(why), _) => notes.push(format!(
                    "drive {} keeps the label of {names} ({why}); reuse it with --destroy-data",
                    self.arrays.member_name(array, slot)
                )),
                (Ok(()), None) => {}
            }
            if let Some(replacement) = &place.replacement {
                self.inventory.take_label_off(replacement, &names).await;
            }
        }
        self.take_labels_off_others(array, &names).await;
        for volume in array.volumes() {
            self.arrays.forget_cached(&volume).await;
            self.arrays.free_on_log(volume.uuid()).await;
        }
        self.arrays.remove(array.uuid);
        let places = array.places();
        let drives = places.iter().flat_map(|place| place.drive.iter().chain(&place.replacement));
        notes.extend(draining::notes(drives));
        notes
    }

    /// Removes the labels of former members that are present with an old label.
    async fn take_labels_off_others(&self, array: &Array, names: &str) {
        let places = array.places();
        let is_in_place = |drive: &Rc<Drive>| {
            let mut placed =
                places.iter().flat_map(|place| place.drive.iter().chain(&place.replacement));
            placed.any(|other| Rc::ptr_eq(other, drive))
        };
        for drive in self.inventory.drives() {
            let is_other = drive.array() == Some(array.uuid) && !is_in_place(&drive);
            if is_other && !drive.is_draining() && !self.arrays.is_in_use(&drive) {
                self.inventory.take_label_off(&drive, names).await;
            }
        }
    }

    /// Deletes one volume; the array's other volumes stay.
    pub(super) async fn delete_one(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        self.arrays.check_can_record(array, &volume.name())?;
        let _starting = array.starting_turn().await;
        // A reshape may have begun or ended while this waited for the lock.
        let gone = || {
            Error::new(ErrorKind::NotFound, format!("'{}' does not exist any more", volume.name()))
        };
        let volume = &array.volume(volume.uuid()).ok_or_else(gone)?;
        let all = array.with_parts(volume);
        let was_served = volume.is_served();
        self.arrays.withdraw(array, volume).await;
        let recorded = {
            let _turn = array.metadata_turn().await;
            let mut own = RegionSet::EMPTY;
            all.iter().for_each(|one| own.insert_all(&one.all_regions()));
            let mut next = array.label();
            next.volume.retain(|other| all.iter().all(|one| one.uuid() != other.uuid));
            forget_regions(&mut next, &own);
            let recorded = self.arrays.commit(array, next, Vec::new()).await;
            if recorded && array.is_running() {
                array.forget_regions(all.iter().map(|one| one.regions()).collect());
                if let Err(error) = self.arrays.write_map(array).await {
                    tracing::warn!("marks of a deleted volume could not be cleared: {error}");
                }
            }
            recorded
        };
        if recorded {
            for one in &all {
                self.arrays.forget_cached(one).await;
                self.arrays.free_on_log(one.uuid()).await;
            }
            // If all drives are missing, the list of arrays counts; it must not contain the volume.
            self.inventory.remember_arrays(vec![array.label()]).await;
            return Ok(());
        }
        let name = volume.name();
        if was_served && !array.has_lost() {
            self.arrays.attach(array, volume).await?;
        }
        let sentence = format!(
            "the deletion of '{name}' could not be recorded; run 'softroc volume show {name}'"
        );
        Err(Error::new(ErrorKind::Failed, sentence))
    }
}
