//! `volume create`: on new drives, or on the drives of an existing array.
//!
//! # Order of writes
//! Everything is checked before anything is written, except that drives are opened, which locks
//! them.
//!
//! On unused drives, which are registered first:
//!
//! 0. Arrays on them that may be lost are deleted, if all of their present drives are used. Killed
//!    here: as in the deletion of a volume (`delete.rs`); no part of them returns.
//! 1. Labels in both slots with phase *creating*, and the mark, on all drives. Killed here: the
//!    labels show an unfinished creation; the drives are unused.
//! 2. The map, without marks, and (unless the drives are known to hold zeros) an empty record of
//!    initialised stripes. Killed here: as before.
//! 3. Labels with phase *online*. Killed in the middle: one such label makes the array exist. It is
//!    sound, since all else is durable; the command was not acknowledged.
//! 4. The shards get the volume, and the background initialisation begins. Unwritten stripes read
//!    as zeros.
//! 5. The reply.
//!
//! On a started, complete array, under its metadata lock:
//!
//! 1. The map and the record of initialised stripes with the new regions, both copies. Killed here:
//!    the extra regions have no volume and no effect; the next start removes them.
//! 2. The next label, with the volume. Killed in the middle: one such label makes the volume exist.
//!    It is sound, since the record is durable; the command was not acknowledged.
//! 3. Steps 4 and 5 above.

use crate::arrays::array::{Array, SlotContent, is_full, runs, set_of};
use crate::arrays::extents;
use crate::arrays::failures::failing;
use crate::arrays::initialised::stripe_in_record;
use crate::arrays::journal;
use crate::arrays::reshape::forget_regions;
use crate::arrays::sectors;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{CreateVolume, Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::candidates::{Candidate, on_one_disk};
use crate::lifecycle::shape::{Shape, Wanted};
use crate::lifecycle::{Lifecycle, OfVolume};
use engine::{RegionSet, Regions};
use ondisk::initialised::table_blocks;
use ondisk::{Init, IntentMap, Label, Member, Phase, Policy, Role, Runs, TailPlace, VolumeLabel};
use std::ops::Range;
use std::rc::Rc;
use units::DriveSet;

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

/// Marks the regions of a new volume as stale on drives that are being filled.
fn missed_by_copies(label: &mut Label, regions: &Range<u32>) {
    let new = set_of(&Runs::one(regions.start, regions.end));
    for copy in label.member.iter_mut().filter_map(|member| member.replacement.as_mut()) {
        copy.stale = runs(&set_of(&copy.stale).union(&new));
    }
}

impl Lifecycle {
    /// Checks whether a volume may have that name.
    pub(crate) fn check_new_name(&self, name: &str) -> Result<()> {
        if !ondisk::is_volume_name(name) {
            return Err(invalid(format!(
                "'{name}' is not a valid volume name; use up to {} letters, digits, '-', '_' and \
                    '.', beginning with a letter or digit",
                ondisk::LONGEST_NAME
            )));
        }
        // A missing volume does not reserve its name; if it returns, UUIDs distinguish the two.
        let has_name = |array: &Rc<Array>| {
            !array.is_missing() && array.volumes().iter().any(|volume| volume.name() == name)
        };
        if self.arrays.all().iter().any(has_name) {
            let sentence = format!("a volume '{name}' exists already; choose another name");
            return Err(Error::new(ErrorKind::NameTaken, sentence));
        }
        Ok(())
    }

    pub(crate) async fn create_volume(self: &Rc<Self>, create: CreateVolume) -> Result<OfVolume> {
        self.check_new_name(&create.name)?;
        let array = self.array_named(&create)?;
        let of_array = array.iter().flat_map(|array| array.places());
        let of_array: Vec<String> =
            of_array.filter_map(|place| Some(place.drive?.name.clone())).collect();
        let names = create.drives.clone();
        let create =
            create.with_default_settings(names.iter().chain(&of_array).map(String::as_str));
        let (array, volume, mut notes) = match array {
            Some(array) => {
                let (volume, notes) = self.create_beside(&create, &array).await?;
                (array, volume, notes)
            }
            None => self.create_on_drives(&create).await?,
        };
        notes.extend(sectors::not_told(&array, &volume));
        let name = volume.name();
        let text = format!("'{name}' was created: {}", volume.geometry);
        let effect = format!("it is {}", array.current_state(&volume));
        self.events.report(
            EventCode::VolumeCreated,
            &name,
            "an operator created it",
            &effect,
            text,
        );
        Ok((array, volume, notes))
    }

    /// The existing array that a new volume is to use, if the command names one.
    fn array_named(&self, create: &CreateVolume) -> Result<Option<Rc<Array>>> {
        if let Some(text) = &create.array {
            if !create.drives.is_empty() {
                let sentence = format!(
                    "a volume on the array of '{text}' uses all of its drives; omit either the \
                    drives or the array"
                );
                return Err(invalid(sentence));
            }
            return self.arrays.find_array(text).map(Some);
        }
        let named: Vec<Option<(Rc<Array>, usize)>> = create
            .drives
            .iter()
            .map(|spec| {
                let known = self
                    .inventory
                    .drive_called(spec)
                    .and_then(|drive| self.arrays.place_of(&drive));
                known
                    .or_else(|| self.arrays.slot_named(spec))
                    .filter(|(array, _)| array.is_running())
            })
            .collect();
        let Some(Some((array, _))) = named.first() else { return Ok(None) };
        let slots: DriveSet = named
            .iter()
            .flatten()
            .filter(|(other, _)| other.uuid == array.uuid)
            .map(|(_, slot)| units::DriveIndex(*slot as u16))
            .collect();
        // Drives that are named twice, or belong to several arrays, are refused one by one.
        let all =
            slots.count().as_usize() == array.places().len() && named.len() == array.places().len();
        Ok(all.then(|| array.clone()))
    }

    async fn create_on_drives(self: &Rc<Self>, create: &CreateVolume) -> Result<OfVolume> {
        let wanted = Wanted::of(create, create.drives.len())?;
        let mut candidates = Vec::new();
        let checked =
            self.check_candidates(&create.drives, create.destroy_data, &mut candidates).await;
        let shape = checked.and_then(|()| {
            let measures: Vec<_> = candidates.iter().map(Candidate::measure).collect();
            let mut shape = Shape::on_drives(&wanted, &measures)?;
            if shape.geometry.level().is_redundant() {
                shape.notes.extend(on_one_disk(&candidates));
            }
            Ok(shape)
        });
        let made = match shape {
            Ok(shape) => match self.adopt_apart(&candidates).await {
                Ok(()) => self.make_array(create, shape, &candidates).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        if made.is_err() {
            self.let_go(&candidates).await;
        }
        made
    }

    /// The first label of a new array.
    fn first_label(&self, member: Vec<Member>, volume: VolumeLabel) -> Label {
        Label {
            array: self.arrays.new_uuid(),
            drive: member.first().map_or(ondisk::Uuid([0; 16]), |member| member.uuid),
            generation: 1,
            confirmed: 0,
            phase: Phase::Creating,
            clean: false,
            shut_down: false,
            failed: Vec::new(),
            leaving: Vec::new(),
            initialisation_blocks: volume
                .initialised_by_bytes
                .map(|_| table_blocks(volume.end_region())),
            tail: TailPlace::End,
            policy: Policy::default(),
            volume: vec![volume],
            member,
        }
    }

    /// Creates the array: see the order of writes in the module header.
    async fn make_array(
        self: &Rc<Self>,
        create: &CreateVolume,
        shape: Shape,
        candidates: &[Candidate],
    ) -> Result<OfVolume> {
        let drives: Vec<Rc<Drive>> =
            candidates.iter().map(|candidate| candidate.drive.clone()).collect();
        let zeroed = drives.iter().all(|drive| drive.is_zeroed());
        let member: Vec<Member> = drives
            .iter()
            .map(|drive| {
                Member::online(self.arrays.new_uuid(), drive.name.clone(), drive.extent(), 1)
            })
            .collect();
        let volume = self.new_label(create, &shape, zeroed, None)?;
        let label = self.first_label(member, volume);
        label.check().map_err(invalid)?;
        let cannot = || invalid(format!("'{}' does not fit on its drives", create.name));
        let array = Array::new(&self.env, label).ok_or_else(cannot)?;
        let volume = array.volumes().first().cloned().ok_or_else(cannot)?;
        let place = |drive: &Rc<Drive>| SlotContent {
            drive: Some(drive.clone()),
            role: Role::Current,
            reason: None,
            replacement: None,
        };
        array.set_places(drives.iter().map(place).collect());
        array.set_map(IntentMap::new(array.uuid, volume.regions().end, false));
        if volume.is_initialised_by_stripe() {
            array.begin_record(volume.regions().end);
        }
        let kept = self.delete_overwritten(&array, &drives).await;
        if let Err(error) = self.write_new(&array, &drives).await {
            self.unmake(&array, &drives).await;
            return Err(error);
        }
        self.forget_taken(&array, &drives);
        self.arrays.insert(array.clone());
        self.arrays.begin(&array);
        if let Err(error) = self.arrays.attach(&array, &volume).await {
            self.arrays.detach(&array).await;
            self.arrays.remove(array.uuid);
            self.unmake(&array, &drives).await;
            return Err(error);
        }
        self.rescan().await;
        let mut notes = shape.notes;
        notes.extend(kept);
        notes.extend(volume.is_initialised_by_stripe().then(initialisation_note));
        if drives.iter().any(|drive| drive.is_volatile()) {
            notes.push("drives in memory lose their contents when the controller stops".to_owned());
        }
        Ok((array, volume, notes))
    }

    /// The label of a new volume: at the start of its drives, or in free space of an array.
    fn new_label(
        &self,
        create: &CreateVolume,
        shape: &Shape,
        zeroed: bool,
        beside: Option<&Label>,
    ) -> Result<VolumeLabel> {
        let geometry = &shape.geometry;
        sectors::check_format(
            &create.name,
            create.sector_format.unwrap_or_default(),
            shape.capacity,
        )?;
        let regions = Regions::of(geometry).count;
        let first_region = extents::free_regions(beside, regions).ok_or_else(|| {
            invalid(format!(
                "'{}' would have {regions} regions, more than the array has left; make it smaller, \
                    or use other drives",
                create.name
            ))
        })?;
        // Unwritten regions need no rebuild and no check.
        let unwritten = match geometry.level().is_redundant() && zeroed {
            true => Runs::one(first_region, first_region + regions),
            false => Runs::default(),
        };
        let label = VolumeLabel {
            data_start_bytes: shape.start_bytes,
            sector_bytes: shape.sector.bytes().0,
            capacity_bytes: shape.capacity.0,
            init: if zeroed { Init::Zeroed } else { Init::Background },
            unwritten,
            initialised_by_bytes: (geometry.level().is_redundant() && !zeroed)
                .then(|| stripe_in_record(geometry)),
            write_mode: create.write_mode.unwrap_or_default(),
            read_mode: create.read_mode.unwrap_or_default(),
            cache_mode: create.cache_mode.unwrap_or_default(),
            drive_cache: create.drive_cache.unwrap_or_default(),
            sector_format: create.sector_format.unwrap_or_default(),
            ..self.arrays.label_of(
                create.name.clone(),
                geometry,
                first_region..first_region + regions,
            )
        };
        journal::with_write_hole(label, create.write_hole, beside).map_err(invalid)
    }

    /// Creates a volume next to the others of an array.
    async fn create_beside(
        self: &Rc<Self>,
        create: &CreateVolume,
        array: &Rc<Array>,
    ) -> Result<(Rc<Volume>, Vec<String>)> {
        let wanted = Wanted::of(create, array.places().len())?;
        let starting = array.starting_turn().await;
        // A deleted volume may have used the space; late writes must not land there.
        self.arrays.check_all_returned(array).await?;
        let (uuid, mut notes) = {
            let _turn = array.metadata_turn().await;
            self.add_beside(create, &wanted, array).await?
        };
        let gone = || Error::new(ErrorKind::Failed, format!("'{}' was not created", create.name));
        let volume = array.volume(uuid).ok_or_else(gone)?;
        let attached = self.arrays.attach(array, &volume).await;
        drop(starting);
        if let Err(error) = attached {
            self.delete_one(array, &volume).await?;
            return Err(error);
        }
        notes.extend(volume.is_initialised_by_stripe().then(initialisation_note));
        Ok((volume, notes))
    }

    /// Steps 1 and 2 on an existing array. Returns the volume and notes; the caller holds the
    /// metadata lock.
    async fn add_beside(
        self: &Rc<Self>,
        create: &CreateVolume,
        wanted: &Wanted,
        array: &Rc<Array>,
    ) -> Result<(ondisk::Uuid, Vec<String>)> {
        array.check_stands().and_then(|()| array.check_all_stay())?;
        let (label, names) = (array.label(), array.names());
        let behind = label.member.iter().any(|member| !array.left(&member.stale).is_empty());
        if !array.is_running() || !array.out().is_empty() || behind {
            return Err(Error::new(
                ErrorKind::WrongState,
                format!(
                    "the array of {names} is not complete; volumes can be added when all of its \
                        drives are online"
                ),
            ));
        }
        if label.volume.len() >= ondisk::MAX_VOLUMES {
            let most = ondisk::MAX_VOLUMES;
            let sentence = format!(
                "the array of {names} has {most} volumes, which is the maximum; delete one first"
            );
            return Err(invalid(sentence));
        }
        let drives: Vec<Rc<Drive>> =
            array.places().into_iter().filter_map(|place| place.drive).collect();
        let shape = Shape::beside(wanted, &drives, &label)?;
        let new = self.new_label(create, &shape, false, Some(&label))?;
        let mut next = label;
        next.volume.push(new.clone());
        let regions = new.first_region..new.end_region();
        // Old records of these regions are of a deleted volume.
        forget_regions(&mut next, &RegionSet::from_runs([[regions.start, regions.end]]));
        let by_stripe = new.initialised_by_bytes.is_some();
        if !by_stripe {
            missed_by_copies(&mut next, &regions);
        }
        next.check().map_err(invalid)?;
        if by_stripe {
            array.begin_record(next.regions());
        }
        array.add_regions(regions.clone(), next.regions(), false);
        if let Err(error) = self.record_beside(array, next).await {
            array.drop_regions(regions);
            return Err(error);
        }
        Ok((new.uuid, shape.notes))
    }

    /// The map, then the label.
    async fn record_beside(self: &Rc<Self>, array: &Rc<Array>, next: Label) -> Result<()> {
        let errors = self.arrays.heal_map(array, &array.in_use()).await;
        if let Some((slot, error)) = errors.iter().next() {
            let name = self.arrays.member_name(array, *slot);
            let full = errors.values().any(is_full);
            let is_sound = errors.values().any(platform::IoError::spares_drive);
            let sentence =
                format!("drive {name} could not be written ({error}); nothing was created");
            if !is_sound {
                self.arrays.put_out(array, failing(errors, "writing its map")).await;
            }
            let kind = if full { ErrorKind::OutOfSpace } else { ErrorKind::Failed };
            return Err(Error::new(kind, sentence));
        }
        if self.arrays.commit(array, next, Vec::new()).await {
            return Ok(());
        }
        let names = array.names();
        let sentence = format!(
            "the new volume could not be recorded on the drives of {names}; nothing was created"
        );
        Err(Error::new(ErrorKind::Failed, sentence))
    }

    /// Steps 1 to 3 on unused drives.
    async fn write_new(&self, array: &Rc<Array>, drives: &[Rc<Drive>]) -> Result<()> {
        let _turn = array.metadata_turn().await;
        let failed = |drive: &Drive, error: platform::IoError| {
            let kind = if is_full(&error) { ErrorKind::OutOfSpace } else { ErrorKind::Failed };
            let sentence =
                format!("drive {} could not be written ({error}); nothing was created", drive.name);
            Error::new(kind, sentence)
        };
        let label = array.label();
        for (drive, member) in drives.iter().zip(&label.member) {
            self.inventory.make_blank(drive).await.map_err(|error| failed(drive, error))?;
            self.arrays
                .write_label(drive, &label, member.uuid)
                .await
                .map_err(|error| failed(drive, error))?;
        }
        let slots: Vec<usize> = (0..drives.len()).collect();
        if let Some((slot, error)) = self.arrays.heal_map(array, &slots).await.into_iter().next() {
            return Err(failed(&drives[slot], error));
        }
        let mut online = label;
        online.phase = Phase::Online;
        (online.confirmed, online.generation) = (online.generation, online.generation + 1);
        let errors = self.arrays.write_labels(array, &online).await.map_err(invalid)?;
        if let Some((slot, error)) = errors.into_iter().next() {
            return Err(failed(&drives[slot], error));
        }
        array.set_label(&self.env, online);
        drives.iter().for_each(|drive| drive.set_zeroed(false));
        Ok(())
    }

    /// Removes the labels of an array whose creation failed.
    async fn unmake(&self, array: &Array, drives: &[Rc<Drive>]) {
        for drive in drives {
            self.inventory.take_label_off(drive, &array.names()).await;
        }
    }

    /// Step 0 on unused drives. If drives were overwritten one by one, a power cut would leave
    /// incomplete arrays. Returns notes, a sentence each.
    async fn delete_overwritten(
        self: &Rc<Self>,
        array: &Array,
        drives: &[Rc<Drive>],
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for other in self.arrays_within(drives) {
            notes.extend(self.delete_array(&other).await);
            self.report_overwritten(&other, array);
        }
        notes
    }

    /// Forgets stopped arrays that lost drives to a new one.
    pub(super) fn forget_taken(&self, array: &Array, drives: &[Rc<Drive>]) {
        for drive in drives {
            drive.set_problem(None);
            drive.set_label(LabelSeen::Blank);
        }
        for other in self.arrays.all() {
            if other.uuid != array.uuid && drives.iter().any(|drive| other.slot_of(drive).is_some())
            {
                self.arrays.remove(other.uuid);
                self.report_overwritten(&other, array);
            }
        }
    }

    fn report_overwritten(&self, other: &Array, by: &Array) {
        let text = format!("{} was overwritten by {}", other.names(), by.names());
        self.events.report(
            EventCode::VolumeOverwritten,
            &other.name(),
            "an operator used --destroy-data",
            "it is gone",
            text,
        );
    }
}

fn initialisation_note() -> String {
    "initialising in the background; the volume is usable and redundant now".to_owned()
}
