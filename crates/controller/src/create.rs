//! `volume create` and `volume delete`.
//!
//! # The order of things
//! Everything is checked before anything is written (but for opening drives, which takes their locks).
//! 1. Labels in both slots with phase *creating*, and the mark, on all drives. Killed here: drives whose labels say
//!    that nothing was finished; they are free.
//! 2. The map: all lanes marked unless the drives are known to hold zeroes. Killed here: as before.
//! 3. Labels with phase *online*. Killed in the middle: one label that says online makes the array exist, and
//!    it is sound, since everything else was durable before; nobody was told of it.
//! 4. The shards get the volume, and the resync of marked lanes begins: parity is never used before it agrees.
//! 5. The answer.
//!
//! Deleting writes labels with phase *deleted* to all drives first, then erases. Killed in the middle: where one
//! label says deleted, the next start erases the others, so that no part of the array comes up again.

use crate::array::{Array, Place};
use crate::core::Core;
use crate::disk::{LabelSeen, Seat};
use crate::inventory::{Drive, is_volatile};
use crate::{CreateVolume, Error, ErrorKind, Reply, Result};
use layout::{Geometry, Level};
use ondisk::{IntentMap, Label, Member, MemberState, Phase, Role, Tail, VolumeLabel, WriteHole};
use std::rc::Rc;
use units::{ByteCount, DriveCount, SectorSize, StripSize, decimal_capacity};

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

/// A drive for a new volume.
struct Candidate {
    drive: Rc<Drive>,
    /// Whether the inventory did not know it before.
    is_new: bool,
    size: ByteCount,
    sector: SectorSize,
    rotational: bool,
}

/// The shape of a new volume.
struct Shape {
    geometry: Geometry,
    capacity: ByteCount,
    sector: SectorSize,
    notes: Vec<String>,
}

impl Core {
    /// Looks whether a volume may have that name.
    pub(crate) fn check_new_name(&self, name: &str) -> Result<()> {
        if !ondisk::is_volume_name(name) {
            return Err(invalid(format!(
                "'{name}' cannot be the name of a volume; use up to {} letters, digits, '-', '_' and '.', beginning with a letter or digit",
                ondisk::LONGEST_NAME
            )));
        }
        if self.arrays().iter().any(|array| array.name() == name) {
            let sentence = format!("there is a volume '{name}' already; choose another name");
            return Err(Error::new(ErrorKind::NameTaken, sentence));
        }
        Ok(())
    }

    pub(crate) async fn create_volume(self: &Rc<Self>, create: CreateVolume) -> Result<Reply> {
        self.check_new_name(&create.name)?;
        layout_shape(&create)?;
        let mut candidates = Vec::new();
        let checked = self.check_candidates(&create, &mut candidates).await;
        let shape = checked.and_then(|()| shape(&create, &candidates));
        let shape = match shape {
            Ok(shape) => shape,
            Err(error) => {
                // Nothing was changed: drives that were opened for this alone are let go of.
                candidates.iter().filter(|c| c.is_new).for_each(|c| c.drive.close());
                return Err(error);
            }
        };
        let known = self.drives.borrow().len();
        for candidate in candidates.iter().filter(|candidate| candidate.is_new) {
            // Two memory drives asked for by one name are two drives.
            self.drives.borrow_mut().push(candidate.drive.clone());
        }
        let drives: Vec<Rc<Drive>> = candidates.into_iter().map(|candidate| candidate.drive).collect();
        let (array, notes) = match self.make_array(&create, shape, &drives).await {
            Ok(made) => made,
            Err(error) => {
                self.drives.borrow_mut().truncate(known);
                return Err(error);
            }
        };
        self.remember_drives().await;
        let name = array.name();
        let text = format!("'{name}' was created: {}", array.geometry);
        self.events.info(&name, "an operator created it", &format!("it is {}", array.current_state()), text);
        Ok(self.volume_reply(&array, notes))
    }

    /// Opens and checks every drive; what was opened is in `candidates` even when one is refused.
    async fn check_candidates(&self, create: &CreateVolume, candidates: &mut Vec<Candidate>) -> Result<()> {
        for spec in &create.drives {
            let known = self.known_drive(spec, candidates)?;
            let is_new = known.is_none();
            let drive = known.unwrap_or_else(|| self.new_drive_beside(spec, candidates));
            if candidates.iter().any(|other| other.drive.name == drive.name) {
                return Err(invalid(format!("drive {spec} is named twice; name each drive once")));
            }
            if let Some((array, slot)) = self.place_of(&drive)
                && (array.is_running() || !create.destroy_data)
            {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!(
                        "drive {spec} is drive {slot} of '{}'; delete that volume first, or choose another drive",
                        array.name()
                    ),
                ));
            }
            drive.look(&self.env).await;
            let Some(access) = drive.access() else {
                let closed = || Error::new(ErrorKind::Unavailable, format!("drive {spec} cannot be opened"));
                return Err(drive.problem().unwrap_or_else(closed));
            };
            let info = access.info().clone();
            let candidate = Candidate {
                drive: drive.clone(),
                is_new,
                size: info.size,
                sector: info.logical_sector,
                rotational: info.rotational,
            };
            let twin = candidates.iter().find(|other| {
                other.drive.access().is_some_and(|access| access.info().identity == info.identity)
            });
            let twin = twin.map(|other| other.drive.name.clone());
            candidates.push(candidate);
            if let Some(twin) = twin {
                return Err(invalid(format!("{twin} and {spec} are the same drive; name each drive once")));
            }
            if is_new && let Some(other) = self.same_drive(&drive) {
                let sentence = format!("drive {spec} is known as {}; use that name", other.name);
                return Err(Error::new(ErrorKind::InUse, sentence));
            }
            if info.read_only {
                let sentence = format!(
                    "drive {spec} is read-only; a member has to be writable: allow writing, or choose another drive"
                );
                return Err(Error::new(ErrorKind::Unavailable, sentence));
            }
            self.check_content(spec, &drive, create.destroy_data).await?;
        }
        Ok(())
    }

    /// Refuses a drive that holds something, unless that may be lost.
    async fn check_content(&self, spec: &str, drive: &Drive, destroy: bool) -> Result<()> {
        if destroy {
            return Ok(());
        }
        let holds = |what: String| {
            let sentence = format!(
                "drive {spec} holds {what}; choose another drive, or say --destroy-data if that may be lost"
            );
            Err(Error::new(ErrorKind::HoldsData, sentence))
        };
        match drive.label() {
            LabelSeen::Bad(why) => return holds(format!("a SoftROC label that cannot be used ({why})")),
            LabelSeen::Sound(carried) if carried.label.phase == Phase::Online => {
                return holds(format!("a part of the volume '{}'", carried.label.volume.name));
            }
            // An array that was never finished, or deleted: nothing is lost.
            LabelSeen::Sound(_) | LabelSeen::Blank => {}
        }
        let Some(access) = drive.access() else { return Ok(()) };
        match access.findings().await {
            Ok(findings) if findings.is_empty() => Ok(()),
            Ok(findings) => holds(findings.join(" and ")),
            Err(error) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("what drive {spec} holds cannot be read ({error}); choose another drive"),
            )),
        }
    }

    /// A drive that the inventory has under that name; memory drives are always new.
    fn known_drive(&self, spec: &str, candidates: &[Candidate]) -> Result<Option<Rc<Drive>>> {
        if is_volatile(spec) {
            // `mem:1G#2` is the name that was given to the second of them.
            let is_free = |drive: &Rc<Drive>| {
                let taken = candidates.iter().any(|other| other.drive.name == drive.name);
                !taken && drive.zeroed.get() && self.place_of(drive).is_none()
            };
            return Ok(self.drive_called(spec).filter(is_free));
        }
        match self.drive_called(spec) {
            Some(drive) => Ok(Some(drive)),
            None if self.slot_named(spec).is_some() => self.find_drive(spec).map(Some),
            None => Ok(None),
        }
    }

    fn new_drive_beside(&self, spec: &str, candidates: &[Candidate]) -> Rc<Drive> {
        let taken = |name: &str| {
            self.drive_called(name).is_some()
                || candidates.iter().any(|candidate| candidate.drive.name == name)
        };
        if is_volatile(spec) && taken(spec) {
            let free = (2_u32..).map(|number| format!("{spec}#{number}")).find(|name| !taken(name));
            return Rc::new(Drive::new(free.unwrap_or_default(), spec));
        }
        Rc::new(Drive::new(spec.to_owned(), spec))
    }

    /// Makes the array: see the module's order of things.
    async fn make_array(
        self: &Rc<Self>,
        create: &CreateVolume,
        shape: Shape,
        drives: &[Rc<Drive>],
    ) -> Result<(Rc<Array>, Vec<String>)> {
        let label = self.new_label(create, &shape, drives);
        label.check().map_err(invalid)?;
        let array = Array::new(&self.env, label)
            .ok_or_else(|| invalid(format!("'{}' cannot be laid over its drives", create.name)))?;
        let place =
            |drive: &Rc<Drive>| Place { drive: Some(drive.clone()), role: Role::Current, reason: None };
        array.set_places(drives.iter().map(place).collect());
        let zeroed = drives.iter().all(|drive| drive.zeroed.get());
        let all_marked = array.is_redundant() && !zeroed;
        let lanes = array.map.borrow().lanes();
        *array.map.borrow_mut() = IntentMap::new(array.uuid, lanes, all_marked);
        if let Err(error) = self.write_new(&array, drives).await {
            self.unmake(&array, drives).await;
            return Err(error);
        }
        self.forget_taken(&array, drives);
        self.arrays.borrow_mut().insert(array.uuid, array.clone());
        if all_marked {
            *array.unsynced.borrow_mut() = (0..lanes).collect();
        }
        if let Err(error) = self.attach(&array).await {
            self.arrays.borrow_mut().remove(&array.uuid);
            self.unmake(&array, drives).await;
            return Err(error);
        }
        self.rescan().await;
        let mut notes = shape.notes;
        if all_marked {
            notes.push("its drives are not known to be blank: a resync makes parity and mirrors agree in the background, and it can be used meanwhile".to_owned());
        }
        if drives.iter().any(|drive| drive.is_volatile()) {
            notes.push("drives in memory, and what is on them, end with the controller".to_owned());
        }
        Ok((array, notes))
    }

    fn new_label(&self, create: &CreateVolume, shape: &Shape, drives: &[Rc<Drive>]) -> Label {
        let member = |drive: &Rc<Drive>| Member {
            uuid: self.new_uuid(),
            name: drive.name.clone(),
            state: MemberState::Online,
            since: 1,
            cause: None,
            missed_writes: false,
        };
        let member: Vec<Member> = drives.iter().map(member).collect();
        let geometry = &shape.geometry;
        Label {
            array: self.new_uuid(),
            drive: member.first().map_or(ondisk::Uuid([0; 16]), |member| member.uuid),
            generation: 1,
            phase: Phase::Creating,
            clean: false,
            volume: VolumeLabel {
                uuid: self.new_uuid(),
                name: create.name.clone(),
                level: geometry.level(),
                rotation: geometry.parity_arrangement(),
                spans: geometry.spans(),
                strip_bytes: geometry.strip().bytes().0,
                member_bytes: geometry.member_size().0,
                sector_bytes: shape.sector.bytes().0,
                capacity_bytes: shape.capacity.0,
                write_hole: WriteHole::Resync,
                created_unix_s: self.env.unix_time(),
            },
            member,
        }
    }

    /// Steps 1 to 3.
    async fn write_new(&self, array: &Rc<Array>, drives: &[Rc<Drive>]) -> Result<()> {
        let _turn = array.metadata.take(1).await;
        let failed = |drive: &Drive, error: env::IoError| {
            let kind = match error.kind {
                env::IoErrorKind::OutOfSpace => ErrorKind::OutOfSpace,
                _ => ErrorKind::Failed,
            };
            Error::new(
                kind,
                format!("drive {} could not be written ({error}); nothing was created", drive.name),
            )
        };
        let label = array.label();
        for (drive, member) in drives.iter().zip(&label.member) {
            self.write_first_labels(drive, &label.for_drive(member.uuid))
                .await
                .map_err(|error| failed(drive, error))?;
        }
        let slots: Vec<usize> = (0..drives.len()).collect();
        if let Some(first) = self.heal_map(array, &slots).await.first() {
            let name = &drives[first.slot].name;
            return Err(Error::new(
                ErrorKind::Failed,
                format!("drive {name} failed ({}); nothing was created", first.what),
            ));
        }
        let mut online = label;
        online.phase = Phase::Online;
        online.generation += 1;
        let errors = self.write_labels(array, &online).await;
        if let Some((slot, error)) = errors.into_iter().next() {
            return Err(failed(&drives[slot], error));
        }
        array.set_label(online);
        drives.iter().for_each(|drive| drive.zeroed.set(false));
        Ok(())
    }

    /// Both slots, so that no label from before is found when one of ours is torn; then the mark.
    async fn write_first_labels(
        &self,
        drive: &Drive,
        label: &Label,
    ) -> std::result::Result<(), env::IoError> {
        let gone = env::IoError::new(env::IoErrorKind::Gone);
        let access = drive.access().ok_or(gone)?;
        let tail: Tail = access.tail().ok_or(gone)?;
        for _ in 0..2 {
            let Seat { slot, sequence } = drive.seat.get();
            let bytes =
                ondisk::encode(label, sequence).map_err(|_| env::IoError::new(env::IoErrorKind::Invalid))?;
            access.write(tail.slot(slot).start, &bytes).await.result?;
            drive.seat.set(drive.seat.get().next(true));
        }
        access.write(tail.mark().start, &ondisk::mark(&tail)).await.result.map(drop)
    }

    /// Takes back what was written of an array that did not come to be.
    async fn unmake(&self, array: &Array, drives: &[Rc<Drive>]) {
        for drive in drives {
            let Some(access) = drive.access() else { continue };
            match access.erase().await {
                Ok(()) => drive.set_label(LabelSeen::Blank),
                Err(error) => self.events.warn(
                    &drive.name,
                    &error.to_string(),
                    "it carries the label of a volume that does not exist",
                    format!(
                        "the label of '{}' could not be taken off drive {}: {error}",
                        array.name(),
                        drive.name
                    ),
                ),
            }
        }
    }

    /// Arrays that were not started and lost drives to a new one.
    fn forget_taken(&self, array: &Array, drives: &[Rc<Drive>]) {
        for drive in drives {
            drive.set_problem(None);
            drive.set_label(LabelSeen::Blank);
        }
        for other in self.arrays() {
            if other.uuid != array.uuid && drives.iter().any(|drive| other.slot_of(drive).is_some()) {
                self.arrays.borrow_mut().remove(&other.uuid);
                let name = other.name();
                let text = format!("what was left of '{name}' was overwritten by '{}'", array.name());
                self.events.warn(&name, "an operator said --destroy-data", "it is gone", text);
            }
        }
    }

    pub(crate) async fn delete_volume(self: &Rc<Self>, volume: &str) -> Result<Reply> {
        let array = self.find_array(volume)?;
        let name = array.name();
        self.detach(&array).await;
        let mut notes = Vec::new();
        let _turn = array.metadata.take(1).await;
        let mut label = array.label();
        label.phase = Phase::Deleted;
        label.generation += 1;
        label.member.iter_mut().for_each(|member| member.state = MemberState::Online);
        array.lost.borrow_mut().clear();
        let deleted = self.write_labels(&array, &label).await;
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
                    "drive {} keeps the label of '{name}' ({why}); write over its last 32 MiB before it is used again",
                    self.member_name(&array, slot)
                )),
                (Ok(()), None) => {}
            }
        }
        self.arrays.borrow_mut().remove(&array.uuid);
        self.events.info(
            &name,
            "an operator deleted it",
            "its drives are free",
            format!("'{name}' was deleted"),
        );
        Ok(Reply::Done { notes })
    }
}

/// What is asked for, as far as it does not depend on what the drives are.
fn layout_shape(create: &CreateVolume) -> Result<layout::Shape> {
    let level: Level = create.level.parse().map_err(invalid)?;
    let count = u16::try_from(create.drives.len()).unwrap_or(u16::MAX);
    let parity = create.rotation.as_deref().map(str::parse).transpose().map_err(invalid)?;
    let shape = layout::Shape { parity, ..layout::Shape::new(level, DriveCount(count)) };
    shape.check().map_err(invalid)?;
    Ok(shape)
}

/// The shape that a new volume has on these drives.
fn shape(create: &CreateVolume, candidates: &[Candidate]) -> Result<Shape> {
    let asked = layout_shape(create)?;
    let strip = match create.strip_bytes {
        Some(bytes) => StripSize::new(ByteCount(bytes)).map_err(invalid)?,
        None if candidates.iter().any(|candidate| candidate.rotational) => StripSize::KIB_256,
        None => StripSize::KIB_64,
    };
    let (room, mut notes) = room(candidates, strip)?;
    let sectors = candidates.iter().map(|candidate| candidate.sector);
    let sector = sectors.clone().max().unwrap_or_default();
    if sectors.min() != Some(sector) {
        notes.push(format!(
            "its drives have sectors of 512 and of 4096 bytes: the volume has sectors of {} bytes",
            sector.bytes().0
        ));
    }
    let whole = asked.geometry(strip, room).map_err(invalid)?;
    let capacity = match create.size_bytes {
        None => return Ok(Shape { capacity: whole.capacity(), geometry: whole, sector, notes }),
        Some(bytes) => ByteCount(bytes),
    };
    if capacity.is_zero() || !capacity.is_aligned(sector.bytes()) {
        return Err(invalid(format!(
            "a size of {} bytes is not a whole number of {}-byte sectors; choose one such as 1G",
            capacity.0,
            sector.bytes().0
        )));
    }
    if capacity > whole.capacity() {
        return Err(invalid(format!(
            "a size of {capacity} is more than the {} that {} has on these drives; choose a smaller size or larger drives",
            whole.capacity(),
            whole.level().title()
        )));
    }
    let geometry = whole.with_member_size(whole.member_size_for(capacity)).map_err(invalid)?;
    Ok(Shape { geometry, capacity, sector, notes })
}

/// How much of each drive can be used: as much as the smallest has before its label.
fn room(candidates: &[Candidate], strip: StripSize) -> Result<(ByteCount, Vec<String>)> {
    let mut smallest: Option<(ByteCount, &Candidate)> = None;
    for candidate in candidates {
        let room = Tail::of(candidate.size).map_or(ByteCount::ZERO, |tail| ByteCount(tail.start().0));
        if room < strip.bytes() {
            return Err(invalid(format!(
                "drive {} is too small: it has {}, and a member needs one strip of {strip} and 32 MiB for its label",
                candidate.drive.name, candidate.size
            )));
        }
        if smallest.is_none_or(|(other, _)| room < other) {
            smallest = Some((room, candidate));
        }
    }
    let Some((room, least)) = smallest else { return Err(invalid("a volume needs drives; name them")) };
    let mut notes = Vec::new();
    if let Some(most) = candidates.iter().map(|candidate| candidate.size).max()
        && most != least.size
    {
        notes.push(format!(
            "its drives differ in size, from {} to {}: of each as much is used as the smallest, {}, has",
            decimal_capacity(least.size),
            decimal_capacity(most),
            least.drive.name
        ));
    }
    Ok((room, notes))
}
