//! From drives to started volumes, and back: scanning labels, starting, stopping.
//!
//! # The order of things at a start
//! 1. Labels are read and reconciled; the maps of all current members are read and united.
//! 2. An array with parity that is both degraded and marked is not started without the operator: where a write was
//!    interrupted, the missing drive's data cannot be told from parity that does not agree. (Mirrors have no such
//!    doubt: each holds all that was acknowledged.)
//! 3. The united map is written to all members, both copies. Killed here: the same marks, once more.
//! 4. The labels say what is used from now on, missing drives as failed: one generation on, and two where a
//!    drive is missing, so that no label on an absent drive is as new. Killed here: as if the start had not been.
//! 5. Only then are the shards given the volume; marked lanes are resynced at once.
//!
//! And at a stop: the shards finish what is under way; every drive is flushed; marks are cleared but for lanes
//! still to be resynced; the label says clean if none is left. Killed anywhere: marks are left, and resynced.

use crate::array::{Array, Running};
use crate::core::Core;
use crate::disk::LabelSeen;
use crate::inventory::Drive;
use crate::keeper::Failing;
use crate::{Error, ErrorKind, Result};
use engine::{Attachment, LaneIndex, LaneSet, Lanes, ShardMessage, VolumeSpec};
use ondisk::{Cause, Copies, IntentMap, MemberState, Phase, Readiness, Role, SeenDrive, reconcile};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};

impl Core {
    /// Looks at all drives that are not in use, and which arrays they make.
    pub(crate) async fn rescan(&self) {
        let drives: Vec<Rc<Drive>> = self.drives.borrow().clone();
        for drive in drives {
            if drive.access().is_some() && self.place_of(&drive).is_none_or(|(array, _)| !array.is_running())
            {
                drive.look(&self.env).await;
            }
        }
        self.take_in_labels().await;
    }

    /// Takes in what labels say; where an array was deleted and some of its labels were left, they go now, or one
    /// of them could bring it back.
    async fn take_in_labels(&self) {
        for drive in self.scan() {
            let erased = match drive.access() {
                Some(access) => access.erase().await.map_err(|error| error.to_string()),
                None => Ok(()),
            };
            match erased {
                Ok(()) => drive.set_label(LabelSeen::Blank),
                Err(why) => {
                    let sentence = format!(
                        "drive {} carries the label of a deleted volume, which cannot be taken off: {why}",
                        drive.name
                    );
                    drive.set_problem(Some(Error::new(ErrorKind::WrongState, sentence)));
                }
            }
        }
    }

    /// What the labels say of all drives that are not in use, as they were last looked at. Drives whose array was
    /// deleted.
    fn scan(&self) -> Vec<Rc<Drive>> {
        let running: Vec<Rc<Array>> = self.arrays().into_iter().filter(|array| array.is_running()).collect();
        let mut drives: Vec<Rc<Drive>> = Vec::new();
        let mut seen = Vec::new();
        for drive in self.drives.borrow().iter() {
            let in_use = running.iter().any(|array| array.slot_of(drive).is_some());
            if let (false, LabelSeen::Sound(carried), Some(access)) = (in_use, drive.label(), drive.access())
            {
                let size = access.info().size;
                seen.push(SeenDrive { name: drive.name.clone(), size, carried: *carried });
                drives.push(drive.clone());
            }
        }
        let mut deleted = Vec::new();
        let mut unseen: Vec<Rc<Array>> =
            self.arrays().into_iter().filter(|array| !array.is_running()).collect();
        for found in reconcile(&seen) {
            for (drive, why) in &found.refused {
                drives[*drive].set_problem(Some(Error::new(ErrorKind::WrongState, why.clone())));
            }
            let uuid = found.label.array;
            match found.label.phase {
                Phase::Online => {}
                Phase::Creating => continue, // Never finished: its drives are free.
                Phase::Deleted => {
                    deleted.extend(drives.iter().filter(|drive| drive.array() == Some(uuid)).cloned());
                    continue;
                }
            }
            unseen.retain(|array| array.uuid != uuid);
            let existing = self.arrays.borrow().get(&uuid).cloned();
            match existing {
                Some(array) if array.is_running() => self.late_drives(&array, &found, &drives),
                Some(array) => array.update(&found, &drives),
                None => {
                    if let Some(array) = Array::new(&self.env, found.label.clone()) {
                        array.update(&found, &drives);
                        self.arrays.borrow_mut().insert(uuid, array);
                    }
                }
            }
        }
        unseen.iter().for_each(|array| array.nothing_found());
        deleted
    }

    /// Drives of an array that was started without them.
    fn late_drives(&self, array: &Array, found: &ondisk::FoundArray, drives: &[Rc<Drive>]) {
        let mut places = array.places();
        let label = array.label();
        for drive in found.members.iter().filter_map(|member| member.drive) {
            let LabelSeen::Sound(carried) = drives[drive].label() else { continue };
            match label.slot_of(carried.label.drive) {
                Some(slot) if places[slot].drive.is_none() => {
                    places[slot].drive = Some(drives[drive].clone())
                }
                _ => {
                    let sentence =
                        format!("drive {} is a copy of a drive of '{}'", drives[drive].name, array.name());
                    drives[drive].set_problem(Some(Error::new(ErrorKind::WrongState, sentence)));
                }
            }
        }
        array.set_places(places);
    }

    /// Starts every volume that can be started without asking.
    pub(crate) async fn start_all(self: &Rc<Self>) {
        self.take_in_labels().await;
        for array in self.arrays() {
            if let Err(error) = self.start_array(&array, false).await {
                let name = array.name();
                self.events.critical(
                    &name,
                    "it could not be started",
                    "the volume is offline",
                    error.message,
                );
            }
        }
    }

    /// A drive was added: where that completes an array, it is started. Notes, a sentence each.
    pub(crate) async fn assemble_with(self: &Rc<Self>, drive: &Drive) -> Vec<String> {
        let mut notes = Vec::new();
        if drive.array().is_none() {
            return notes;
        }
        self.rescan().await;
        let Some((array, _)) = self.place_of(drive) else { return notes };
        let name = array.name();
        if array.is_running() {
            notes.push(format!("'{name}' was started without drive {}", drive.name));
        } else if array.readiness.get() == Readiness::Optimal {
            match self.start_array(&array, false).await {
                Ok(()) => notes.push(format!("'{name}' is complete and was started")),
                Err(error) => notes.push(error.message),
            }
        } else {
            notes.push(format!("'{name}' is not complete; add its other drives, or say volume start {name}"));
        }
        notes
    }

    /// Starts an array that was scanned. `accept`: the operator accepts its parity as it is.
    ///
    /// # Errors
    /// Why it is not started; nothing was changed then, unless a drive failed.
    pub(crate) async fn start_array(self: &Rc<Self>, array: &Rc<Array>, accept: bool) -> Result<()> {
        let started = self.try_start(array, accept).await;
        *array.refusal.borrow_mut() = started.as_ref().err().map(|error| error.message.clone());
        started
    }

    async fn try_start(self: &Rc<Self>, array: &Rc<Array>, accept: bool) -> Result<()> {
        let name = array.name();
        let wrong = |sentence: String| Error::new(ErrorKind::WrongState, sentence);
        if array.readiness.get() == Readiness::Offline {
            return Err(wrong(format!("'{name}' cannot be started: {}", array.reasons.borrow().join("; "))));
        }
        let other = self
            .arrays()
            .into_iter()
            .find(|other| other.uuid != array.uuid && other.is_running() && other.name() == name);
        if other.is_some() {
            return Err(Error::new(
                ErrorKind::NameTaken,
                format!("there are two volumes '{name}'; rename one: volume set {} --name NEW", array.uuid),
            ));
        }
        let unknown = self.read_maps(array).await;
        let out = array.places().iter().filter(|place| place.role != Role::Current).count();
        let accept = self.judge_marks(array, accept, out)?;
        let marked = array.map.borrow().marked();
        if unknown > 0 {
            let text = format!(
                "the write-intent map of '{name}' cannot be read in {unknown} blocks: what they stand for is resynced"
            );
            self.events.warn(&name, "the map cannot be read", "more is resynced than was written", text);
        }
        let was_clean = array.label().clean;
        if !self.record_start(array).await {
            return Err(Error::new(
                ErrorKind::Failed,
                format!("'{name}' cannot be started: {}", self.why_lost(array)),
            ));
        }
        // A drive may have failed just now.
        let accept = self.judge_marks(array, accept, array.label().member.len() - array.label().online())?;
        if array.is_redundant() && !accept {
            *array.unsynced.borrow_mut() = array.map.borrow().iter().collect();
        } else {
            array.unsynced.borrow_mut().clear();
        }
        self.attach(array).await?;
        let how = array.current_state();
        let (cause, tail) = match (was_clean, marked) {
            (true, 0) => ("it was stopped in order", String::new()),
            (_, 0) => ("it was not stopped in order, and nothing was being written", String::new()),
            (_, marked) if accept => (
                "it was not stopped in order",
                format!("; the parity of {marked} lanes is taken as it is, by order"),
            ),
            (_, marked) => ("it was not stopped in order", format!("; {marked} lanes are resynced")),
        };
        let effect = format!("it is {how}{tail}");
        self.events.info(&name, cause, &effect, format!("'{name}' was started: {cause}; {effect}"));
        Ok(())
    }

    /// Reads and unites the maps of all current members, and those that missed nothing and are to be used again.
    async fn read_maps(&self, array: &Array) -> u32 {
        let lanes = Lanes::of(&array.geometry).count;
        let mut maps: Vec<Copies> = Vec::new();
        for place in array.places() {
            if let (Role::Current, Some(access)) =
                (&place.role, place.drive.as_ref().and_then(|d| d.access()))
            {
                maps.push(access.read_map(lanes).await);
            }
        }
        let (map, unknown) = IntentMap::unite(array.uuid, lanes, &maps);
        *array.map.borrow_mut() = map;
        unknown
    }

    /// Degraded and marked: not without the operator, where parity would have to stand in. Whether his word is
    /// needed, and given.
    fn judge_marks(&self, array: &Array, accept: bool, out: usize) -> Result<bool> {
        let marked = array.map.borrow().marked();
        if out == 0 || marked == 0 || array.geometry.parity_strips() == 0 {
            return Ok(false);
        }
        if accept {
            return Ok(true);
        }
        let name = array.name();
        let reasons = array.reasons.borrow().join("; ");
        Err(Error::new(
            ErrorKind::WrongState,
            format!(
                "'{name}' is degraded and was not stopped in order ({reasons}): in {marked} lanes a write may have been interrupted, and there the missing drive's data cannot be told. Connect the drive and start again; or accept that blocks of it may read wrongly there: volume start {name} --accept-stale-parity"
            ),
        ))
    }

    /// Step 3 and 4 of a start.
    async fn record_start(&self, array: &Rc<Array>) -> bool {
        let _turn = array.metadata.take(1).await;
        array.lost.borrow_mut().clear();
        let mut next = array.label();
        next.clean = false;
        let generation = next.generation;
        let quiet = array.map.borrow().marked() == 0;
        if !quiet {
            // The resync writes what is out already misses.
            let out = next.member.iter_mut().filter(|member| !member.is_online());
            out.for_each(|member| member.missed_writes = true);
        }
        let mut failing = Vec::new();
        let mut readmitted = Vec::new();
        let mut places = array.places();
        for (slot, place) in places.iter_mut().enumerate() {
            match (&place.role, &place.drive) {
                (Role::Current, Some(_)) => place.reason = None,
                // It was absent at an earlier start and nothing was written since: it is as it should be.
                (Role::MissedNothing(Cause::Missing), Some(_)) if quiet => readmitted.push(slot),
                _ if next.member[slot].is_online() => {
                    let what = "it was not found, or holds an old copy".to_owned();
                    failing.push(Failing { slot, cause: Cause::Missing, what });
                }
                _ => {}
            }
            if let Some(drive) = &place.drive {
                next.member[slot].name.clone_from(&drive.name);
            }
        }
        for &slot in &readmitted {
            let member = &mut next.member[slot];
            (member.state, member.since, member.cause) = (MemberState::Online, generation + 1, None);
            places[slot].role = Role::Current;
            places[slot].reason = None;
        }
        array.set_places(places);
        let slots: Vec<usize> = (0..next.member.len())
            .filter(|&slot| next.member[slot].is_online() && failing.iter().all(|f| f.slot != slot))
            .collect();
        let degraded = slots.len() < next.member.len();
        failing.extend(self.heal_map(array, &slots).await);
        if !self.commit(array, next, failing).await {
            return false;
        }
        for slot in readmitted {
            self.say_back(array, slot);
        }
        !degraded || self.commit(array, array.label(), Vec::new()).await
    }

    /// Writes the whole map to the drives in `slots`, both copies of every block. Who failed at it.
    pub(crate) async fn heal_map(&self, array: &Array, slots: &[usize]) -> Vec<Failing> {
        let mut failing: Vec<Failing> = Vec::new();
        for _ in 0..2 {
            let writes = array.map.borrow_mut().take_all();
            for (slot, error) in self.write_blocks(array, &writes, slots).await {
                if failing.iter().all(|other| other.slot != slot) {
                    failing.push(Failing {
                        slot,
                        cause: Cause::Error,
                        what: format!("writing its map: {error}"),
                    });
                }
            }
        }
        failing
    }

    /// A drive serves again.
    pub(crate) fn say_back(&self, array: &Array, slot: usize) {
        let (name, volume) = (self.member_name(array, slot), array.name());
        let effect = format!(
            "'{volume}' is {}",
            if array.label().online() == array.label().member.len() { "complete" } else { "still degraded" }
        );
        let text = format!("drive {name} is used again, since nothing was written without it: {effect}");
        self.events.info(&volume, &format!("drive {name} missed no write"), &effect, text);
    }

    fn why_lost(&self, array: &Array) -> String {
        let lost: Vec<String> = array.lost.borrow().values().cloned().collect();
        if lost.is_empty() {
            "its state cannot be recorded on its drives".to_owned()
        } else {
            lost.join("; ")
        }
    }

    /// Gives the volume to all shards, and keeps it from then on.
    ///
    /// # Errors
    /// When a shard cannot serve it; then none does.
    pub(crate) async fn attach(self: &Rc<Self>, array: &Rc<Array>) -> Result<()> {
        let label = array.label();
        let id = self.new_volume_id();
        let sector = label.sector().map_err(|error| Error::new(ErrorKind::WrongState, error.to_string()))?;
        let spec = Arc::new(VolumeSpec {
            id,
            name: label.volume.name.clone(),
            geometry: array.geometry,
            sector,
            data_start: ByteOffset::ZERO,
            capacity: ByteCount(label.volume.capacity_bytes),
            policy: engine::FaultPolicy::default(),
        });
        let in_use = array.in_use();
        let source = |slot: usize| {
            let access = array.drive(slot).and_then(|drive| drive.access());
            access.filter(|_| in_use.contains(&slot)).map(|access| access.source)
        };
        let sources: Vec<_> = (0..label.member.len()).map(source).collect();
        let attached = in_use.iter().map(|&slot| DriveIndex(slot as u16)).collect::<DriveSet>();
        let lane = |&lane: &u32| LaneIndex(lane);
        let dirty = match array.is_redundant() {
            true => array.map.borrow().iter().map(LaneIndex).collect(),
            false => LaneSet::EMPTY,
        };
        let unsynced = array.unsynced.borrow().iter().map(lane).collect();
        let attachment = Attachment { unsynced, dirty, ..Attachment::new(spec, sources, array.health()) };
        let running = Rc::new(Running { id, attached, stopped: Cell::new(false) });
        array.set_running(Some(running.clone()));
        self.env.spawn("keeper", self.clone().keep(array.clone(), running.clone()));
        self.env.spawn("cleaner", self.clone().clean(array.clone(), running));
        let told = self.tell_shards(|done| ShardMessage::Attach(Box::new(attachment.clone()), done)).await;
        array.state(self.env.unix_time());
        if let Err(why) = told {
            self.detach(array).await;
            return Err(Error::new(
                ErrorKind::Failed,
                format!("'{}' cannot be served: {why}", label.volume.name),
            ));
        }
        Ok(())
    }

    /// Takes the volume from all shards, once what is under way is done.
    pub(crate) async fn detach(&self, array: &Rc<Array>) {
        let Some(running) = array.running() else { return };
        if let Err(why) = self.tell_shards(|done| ShardMessage::Detach(running.id, done)).await {
            tracing::error!("'{}' was not detached from every shard: {why}", array.name());
        }
        running.stopped.set(true);
        array.work.changed.notify(&self.env);
        array.set_running(None);
        // A clearing that is still under way must not unmark what the next attachment is about to write.
        array.work.quiet.take();
        array.work.clearing.take();
        array.state(self.env.unix_time());
    }

    /// Stops an array in order. Whether everything is on its drives and no lane is left marked.
    pub(crate) async fn stop_array(&self, array: &Rc<Array>) -> bool {
        if !array.is_running() {
            return false;
        }
        self.detach(array).await;
        let marked: Vec<u32> = array.map.borrow().iter().collect();
        self.clear_marks(array, marked).await;
        let _turn = array.metadata.take(1).await;
        if array.map.borrow().marked() > 0 || !array.lost.borrow().is_empty() {
            return false;
        }
        let mut label = array.label();
        label.clean = true;
        self.commit(array, label, Vec::new()).await
    }

    /// `shutdown`: every volume is stopped in order. Notes, a sentence each.
    pub(crate) async fn shut_down(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for array in self.arrays() {
            if array.is_running() && !self.stop_array(&array).await {
                let left = array.map.borrow().marked();
                notes.push(format!(
                    "'{}' is stopped; {left} lanes are resynced at its next start",
                    array.name()
                ));
            }
        }
        self.events.info(
            "controller",
            "shutdown",
            "no volume is served",
            "the controller was shut down".to_owned(),
        );
        self.events.close().await;
        for drive in self.drives.borrow().iter() {
            drive.close();
        }
        notes
    }
}
