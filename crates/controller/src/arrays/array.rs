//! An array and its volumes, as the controller stores them.

use crate::arrays::failures::Failing;
use crate::arrays::serve::volume_state;
use crate::arrays::unbegun::{as_understood, own_members};
use crate::arrays::volume::Volume;
use crate::arrays::work::{Running, Work};
use crate::interface::{DriveState, VolumeState};
use crate::inventory::Drive;
use engine::{Change, RegionIndex, RegionSet, Seat, VolumeId};
use ondisk::{
    Cause, FailedDrive, FoundArray, FoundMember, InitRecord, IntentMap, Label, Member, MemberState,
    Readiness, Role, Runs, Uuid, readiness, slots,
};
use platform::sync::Credits;
use platform::{Env, IoErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// A slot of the array, and the drive that was found for it.
#[derive(Clone)]
pub(crate) struct SlotContent {
    pub(crate) drive: Option<Rc<Drive>>,
    pub(crate) role: Role,
    /// Why the drive is not current: a sentence.
    pub(crate) reason: Option<String>,
    /// The drive that is being filled to take this slot.
    pub(crate) replacement: Option<Rc<Drive>>,
}

/// An array and its volumes.
pub(crate) struct Array {
    pub(crate) uuid: Uuid,
    /// The newest label that was written.
    pub(super) label: RefCell<Label>,
    /// A generation that was written to every member that the label calls online.
    confirmed: Cell<u64>,
    places: RefCell<Vec<SlotContent>>,
    volumes: RefCell<Vec<Rc<Volume>>>,
    /// Why no volume of the array may be started, whatever drives are present.
    pub(super) apart: RefCell<Option<String>>,
    /// Why the array is not optimal, according to its drives.
    pub(super) reasons: RefCell<Vec<String>>,
    running: RefCell<Option<Rc<Running>>>,
    /// The marks, as recorded on the drives while the array is started.
    pub(super) map: RefCell<IntentMap>,
    /// The initialised stripes, as recorded on the drives while the array is started; `None` where
    /// no volume needs the record.
    pub(super) initialised: RefCell<Option<InitRecord>>,
    /// Regions whose redundancy may not agree with their data: their marks are not cleared.
    pub(super) unsynced: RefCell<BTreeSet<u32>>,
    /// Drives that failed when no volume tolerated the loss. The failure is not recorded, because
    /// nothing was written without them. All volumes are offline. The reasons, by slot.
    pub(super) lost: RefCell<BTreeMap<usize, String>>,
    /// Failures that could not be recorded for lack of space. They are retried; until then no mark
    /// is cleared.
    pub(super) unrecorded: RefCell<Vec<Failing>>,
    /// Whether the array was deleted: a task that waited for its lock writes nothing to its drives
    /// any more.
    pub(super) deleted: Cell<bool>,
    /// The lock for changes of labels and map.
    pub(super) metadata: Credits,
    /// The lock for attaching volumes of a started array to the shards, and for detaching them. It
    /// covers the replay of a journal too: a late replay would undo newer writes. It is taken
    /// before `metadata`.
    pub(super) starting: Credits,
    pub(super) work: Work,
}

impl Array {
    /// An array that was found or created, not started. `None` if its label describes none.
    pub(crate) fn new(env: &Env, label: Label) -> Option<Rc<Array>> {
        let array = Array {
            uuid: label.array,
            map: RefCell::new(IntentMap::new(label.array, label.regions(), false)),
            initialised: RefCell::default(),
            confirmed: Cell::new(label.confirmed),
            label: RefCell::new(label.clone()),
            places: RefCell::default(),
            volumes: RefCell::default(),
            apart: RefCell::default(),
            reasons: RefCell::default(),
            running: RefCell::default(),
            unsynced: RefCell::default(),
            lost: RefCell::default(),
            unrecorded: RefCell::default(),
            deleted: Cell::default(),
            metadata: Credits::new(env, 1),
            starting: Credits::new(env, 1),
            work: Work::default(),
        };
        array.set_volumes(&label, env.unix_time())?;
        Some(Rc::new(array))
    }

    /// Updates the array from the current labels of its drives; `drives` are those that were read.
    /// `None` if they form no array.
    pub(crate) fn update(&self, env: &Env, found: &FoundArray, drives: &[Rc<Drive>]) -> Option<()> {
        let (label, taken_back) = as_understood(found);
        self.set_volumes(&label, env.unix_time())?;
        self.note_taken_back(&taken_back);
        self.confirmed.set(label.confirmed);
        let drive = |index: Option<usize>| index.map(|index| drives[index].clone());
        // A drive that was to join by an interrupted reshape start is not waited for: the start
        // rolls it back.
        let own = own_members(&label);
        let content = |(slot, member): (usize, &FoundMember)| SlotContent {
            drive: drive(member.drive),
            role: if slot < own { member.role.clone() } else { Role::Current },
            reason: member.reason.clone().filter(|_| slot < own),
            replacement: drive(member.replacement),
        };
        *self.places.borrow_mut() = found.members.iter().enumerate().map(content).collect();
        *self.label.borrow_mut() = label;
        self.apart.borrow_mut().clone_from(&found.apart);
        self.reasons.borrow_mut().clone_from(&found.reasons);
        Some(())
    }

    /// None of its drives is present, or was since the start.
    pub(crate) fn nothing_found(&self) {
        let (names, label) = (self.names(), self.label());
        let missing = |_: &Member| SlotContent {
            drive: None,
            role: Role::Missing,
            reason: Some("it is missing".to_owned()),
            replacement: None,
        };
        *self.places.borrow_mut() = label.member.iter().map(missing).collect();
        let drives: Vec<&str> = label.member.iter().map(|member| member.name.as_str()).collect();
        *self.reasons.borrow_mut() = vec![format!(
            "all drives of {names} are missing ({}); connect one and register it with 'softroc \
            drive add', or, if they are permanently lost, run 'softroc volume forget {}'",
            drives.join(", "),
            self.name()
        )];
    }

    /// Its drives may be present but have not responded yet: a sentence.
    pub(crate) fn waits_for_answers(&self, sentence: &str) {
        if self.is_missing() {
            *self.reasons.borrow_mut() = vec![sentence.to_owned()];
        } else {
            self.known_volumes()
                .iter()
                .for_each(|volume| volume.set_refusal(Some(sentence.to_owned())));
        }
    }

    /// What the array lacks, as part of a sentence: the findings of the last scan, or else the
    /// drives that are out.
    pub(super) fn why_not_whole(&self) -> String {
        let found = self.reasons.borrow().join("; ");
        let label = self.label();
        let is_lost = |slot: &usize| self.lost.borrow().contains_key(slot);
        let lacks =
            |slot: &usize| label.member.get(*slot).is_some_and(|member| !member.is_online());
        let out: Vec<&str> = (0..label.member.len())
            .filter(|slot| lacks(slot) || is_lost(slot))
            .map(|slot| label.member[slot].name.as_str())
            .collect();
        match (found.is_empty(), out.len()) {
            (false, _) => found,
            (true, 0) => "it is unknown which of its drives have the last writes".to_owned(),
            (true, 1) => format!("drive {} is out of service", out[0]),
            (true, _) => format!("drives {} are out of service", out.join(", ")),
        }
    }

    /// Whether none of its drives is present.
    pub(crate) fn is_missing(&self) -> bool {
        let places = self.places.borrow();
        !self.is_running() && !places.is_empty() && places.iter().all(|place| place.drive.is_none())
    }

    pub(crate) fn label(&self) -> Label {
        self.label.borrow().clone()
    }

    /// Sets a label that is durable on all members that it calls online.
    pub(crate) fn set_label(&self, env: &Env, label: Label) {
        self.confirmed.set(label.generation);
        if self.set_volumes(&label, env.unix_time()).is_none() {
            tracing::error!("a label of {} describes no volume", label.names());
        }
        *self.label.borrow_mut() = label;
    }

    /// The writes that a crash interrupted on a volume are no longer known; the next change records
    /// that.
    pub(super) fn forget_journal(&self, volume: &Volume) {
        let mut label = self.label.borrow_mut();
        if let Some(label) = label.volume_mut(volume.uuid()) {
            if let Some(journal) = &mut label.journal {
                (journal.id, journal.tells_all, journal.log) = (None, false, None);
            }
            volume.set_label(label.clone());
        }
    }

    /// Sets the volumes that a label names; existing ones are kept.
    fn set_volumes(&self, label: &Label, now_unix_s: u64) -> Option<()> {
        let mut volumes = Vec::new();
        for of in &label.volume {
            volumes.push(match self.meant_by(of) {
                Some(volume) => {
                    volume.becomes(of.uuid);
                    volume.set_label(of.clone());
                    volume
                }
                None => {
                    let geometry = of.geometry(label.member.len()).ok()?;
                    Rc::new(Volume::new(of.clone(), geometry, now_unix_s))
                }
            });
        }
        *self.volumes.borrow_mut() = volumes;
        Some(())
    }

    /// A generation that was written to every member that the label calls online.
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed.get()
    }

    /// Labels with this generation may be on drives: the next one is higher.
    pub(super) fn use_up(&self, generation: u64) {
        self.label.borrow_mut().generation = generation;
    }

    /// Its volumes.
    pub(crate) fn volumes(&self) -> Vec<Rc<Volume>> {
        self.volumes.borrow().clone()
    }

    /// Its volumes that the shards serve.
    pub(crate) fn served(&self) -> Vec<Rc<Volume>> {
        self.volumes.borrow().iter().filter(|volume| volume.is_served()).cloned().collect()
    }

    pub(crate) fn volume_served_as(&self, id: VolumeId) -> Option<Rc<Volume>> {
        self.volumes.borrow().iter().find(|volume| volume.id() == Some(id)).cloned()
    }

    /// Whether a volume belongs to the array, under any UUID.
    pub(super) fn has(&self, volume: &Rc<Volume>) -> bool {
        self.volumes.borrow().iter().any(|own| Rc::ptr_eq(own, volume))
    }

    pub(crate) fn volume(&self, uuid: Uuid) -> Option<Rc<Volume>> {
        self.volumes.borrow().iter().find(|volume| volume.uuid() == uuid).cloned()
    }

    /// The volume that a region belongs to.
    pub(crate) fn volume_of(&self, region: u32) -> Option<Rc<Volume>> {
        self.volumes.borrow().iter().find(|volume| volume.regions().contains(&region)).cloned()
    }

    /// The names of its volumes, for messages.
    pub(crate) fn names(&self) -> String {
        self.label.borrow().names()
    }

    /// The name that identifies the array: that of its first volume.
    pub(crate) fn name(&self) -> String {
        self.label.borrow().volume.first().map(|volume| volume.name.clone()).unwrap_or_default()
    }

    pub(crate) fn places(&self) -> Vec<SlotContent> {
        self.places.borrow().clone()
    }

    pub(crate) fn set_places(&self, places: Vec<SlotContent>) {
        *self.places.borrow_mut() = places;
    }

    /// The drive in a slot, if it was found.
    pub(crate) fn drive(&self, slot: usize) -> Option<Rc<Drive>> {
        self.places.borrow().get(slot)?.drive.clone()
    }

    /// The positions of drives: its slots, and for each the position of a replacement that is being
    /// filled.
    pub(super) fn seats(&self) -> Vec<Seat> {
        let slots = (0..self.places.borrow().len()).map(|slot| DriveIndex(slot as u16));
        slots.flat_map(|slot| [Seat::Slot(slot), Seat::Replacement(slot)]).collect()
    }

    /// The drive at a position, if it was found.
    pub(super) fn drive_at(&self, seat: Seat) -> Option<Rc<Drive>> {
        let places = self.places.borrow();
        match seat {
            Seat::Slot(slot) => places.get(slot.as_usize())?.drive.clone(),
            Seat::Replacement(slot) => places.get(slot.as_usize())?.replacement.clone(),
        }
    }

    /// The drives that a volume attached now would use.
    pub(crate) fn to_serve(&self) -> Vec<Rc<Drive>> {
        let in_use = self.in_use();
        let is_served = |seat: &Seat| match seat {
            Seat::Slot(slot) => in_use.contains(&slot.as_usize()),
            Seat::Replacement(_) => true,
        };
        self.seats().into_iter().filter(is_served).filter_map(|seat| self.drive_at(seat)).collect()
    }

    /// The slot of a drive.
    pub(crate) fn slot_of(&self, drive: &Drive) -> Option<usize> {
        let is_it = |place: &SlotContent| {
            place.drive.as_ref().is_some_and(|other| other.name == drive.name)
        };
        self.places.borrow().iter().position(is_it)
    }

    /// The slot for which a drive is the replacement.
    pub(crate) fn replaced_by(&self, drive: &Drive) -> Option<usize> {
        let is_it = |place: &SlotContent| {
            place.replacement.as_ref().is_some_and(|other| other.name == drive.name)
        };
        self.places.borrow().iter().position(is_it)
    }

    pub(super) fn running(&self) -> Option<Rc<Running>> {
        self.running.borrow().clone()
    }

    pub(super) fn set_running(&self, running: Option<Rc<Running>>) {
        *self.running.borrow_mut() = running;
    }

    /// The array is being deleted, and the caller holds its lock.
    pub(crate) fn set_deleted(&self) {
        self.deleted.set(true);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.borrow().is_some()
    }

    /// Slots that the label calls online and that have not been lost since.
    pub(crate) fn in_use(&self) -> Vec<usize> {
        let (label, lost) = (self.label.borrow(), self.lost.borrow());
        let online = label.member.iter().enumerate().filter(|(_, member)| member.is_online());
        online.map(|(slot, _)| slot).filter(|slot| !lost.contains_key(slot)).collect()
    }

    /// Slots that the label calls out, and slots of lost drives.
    pub(crate) fn out(&self) -> DriveSet {
        self.label.borrow().out().union(&slots(self.lost.borrow().keys().copied()))
    }

    /// Slots that are in use but stale in some regions of a volume.
    pub(crate) fn behind(&self, volume: &Volume) -> DriveSet {
        let label = self.label.borrow();
        let online = label.member.iter().enumerate().filter(|(_, member)| member.is_online());
        let misses = |stale: &Runs| !volume.own_regions(&self.left(stale)).is_empty();
        // A drive that is out is stale in the marked regions, also where the volume does not use
        // it.
        let on_it = online.filter(|(slot, _)| volume.is_on(*slot));
        slots(on_it.filter(|(_, member)| misses(&member.stale)).map(|(slot, _)| slot))
    }

    /// The stale regions of a drive that have to be rebuilt. Regions that were never written are
    /// left out: a drive is made current there before the first write. Regions of deleted volumes
    /// are left out too: a drive that takes a slot during the deletion may be recorded as stale
    /// there.
    pub(crate) fn left(&self, stale: &Runs) -> RegionSet {
        let runs_of = |label: &Label| {
            label.volume.iter().map(|of| [of.first_region, of.end_region()]).collect()
        };
        let own: Vec<[u32; 2]> = runs_of(&self.label.borrow());
        let mut left = set_of(stale).intersection(&RegionSet::from_runs(own));
        for volume in self.volumes() {
            if left.is_empty() {
                break;
            }
            left.remove_all(&self.unwritten(&volume));
        }
        left
    }

    /// The same for the drive of a slot, or for the `replacement` with that UUID.
    pub(super) fn left_on(&self, slot: usize, replacement: Option<Uuid>) -> RegionSet {
        let label = self.label.borrow();
        let Some(member) = label.member.get(slot) else { return RegionSet::EMPTY };
        let Some(uuid) = replacement else { return self.left(&member.stale) };
        let replacement =
            member.replacement.as_ref().filter(|replacement| replacement.uuid == uuid);
        replacement.map(|replacement| self.left(&replacement.stale)).unwrap_or_default()
    }

    /// Regions of the array that must still be copied to the replacement of a slot.
    pub(crate) fn left_on_replacement(&self, slot: usize) -> RegionSet {
        let label = self.label.borrow();
        let replacement = label.member.get(slot).and_then(|member| member.replacement.as_ref());
        replacement.map(|replacement| set_of(&replacement.stale)).unwrap_or_default()
    }

    /// Regions of the array in which a member is stale.
    pub(crate) fn to_rebuild(&self, slot: usize) -> RegionSet {
        self.left(&runs(&self.missed(slot)))
    }

    /// Whether a volume stays online without data loss without the members in `out`.
    pub(crate) fn can_spare(&self, volume: &Volume, out: &DriveSet) -> bool {
        self.goes_on(volume, out)
            && self.together_with(volume).iter().all(|part| self.goes_on(part, out))
    }

    /// The same for that volume alone, without the volumes that share its fate.
    pub(super) fn goes_on(&self, volume: &Volume, out: &DriveSet) -> bool {
        volume.lost().intersection(out).is_empty()
            && volume.survives(&out.union(&self.behind(volume)))
    }

    /// Slots that cannot be used, according to the last scan of the drives.
    pub(crate) fn not_current(&self) -> DriveSet {
        let places = self.places.borrow();
        slots(
            places
                .iter()
                .enumerate()
                .filter(|(_, place)| place.role != Role::Current)
                .map(|(slot, _)| slot),
        )
    }

    /// Whether a volume can be started, according to its drives.
    pub(crate) fn readiness(&self, volume: &Volume) -> Readiness {
        if self.apart.borrow().is_some() || self.places.borrow().is_empty() {
            return Readiness::Offline;
        }
        let out = self.not_current().union(&self.out());
        let ready = |volume: &Volume| readiness(&self.label.borrow(), &volume.label(), &out);
        self.together_with(volume)
            .iter()
            .map(|part| ready(part))
            .fold(ready(volume), Readiness::max)
    }

    /// Which drives the shards may use for a volume. A lost drive is among them: no write that
    /// skipped it may be acknowledged.
    pub(crate) fn in_service(&self, volume: &Volume) -> DriveSet {
        let label = self.label.borrow();
        let online = label.member.iter().enumerate().filter(|(_, member)| member.is_online());
        let set: DriveSet = online.map(|(slot, _)| DriveIndex(slot as u16)).collect();
        set.union(&volume.lost())
    }

    /// Regions of the array in which a member is stale: the recorded ones, and for a member that is
    /// out the marked ones, except those of volumes to which nothing was written without it.
    pub(crate) fn missed(&self, slot: usize) -> RegionSet {
        let label = self.label.borrow();
        let Some(member) = label.member.get(slot) else { return RegionSet::EMPTY };
        let mut missed = set_of(&member.stale);
        if !member.is_online() {
            let mut marked: RegionSet = self.map.borrow().iter().map(RegionIndex).collect();
            let drive = DriveIndex(slot as u16);
            for volume in self.volumes().iter().filter(|volume| volume.lost().contains(drive)) {
                marked.remove_all(&volume.all_regions());
            }
            missed.insert_all(&marked);
        }
        self.of_slot(slot, missed)
    }

    /// Regions of the array whose redundancy may not agree with their data.
    pub(crate) fn unsynced_regions(&self) -> RegionSet {
        self.unsynced.borrow().iter().copied().map(RegionIndex).collect()
    }

    /// Unsynced regions of a volume whose stale parity was not accepted, or in which a drive is
    /// missing that was present at that time.
    pub(crate) fn distrusted(&self, volume: &Volume) -> RegionSet {
        let unsynced = volume.own_regions(&self.unsynced_regions());
        let forced = volume.forced();
        if unsynced.is_empty() || forced.regions().is_empty() {
            return unsynced;
        }
        let (slots, in_service) = (self.label().member.len(), self.in_service(volume));
        let missed: Vec<RegionSet> =
            (0..slots).map(|slot| volume.own_regions(&self.missed(slot))).collect();
        let is_vouched_for = |region: RegionIndex| {
            let is_missing = |slot: DriveIndex| {
                !in_service.contains(slot) || missed[slot.as_usize()].contains(region)
            };
            let own =
                (0..slots).filter(|slot| volume.is_on(*slot)).map(|slot| DriveIndex(slot as u16));
            let mut missing = own.filter(|slot| is_missing(*slot));
            forced.contains(region) && missing.all(|slot| forced.is_about(slot, region))
        };
        unsynced.iter().filter(|region| !is_vouched_for(*region)).collect()
    }

    /// Whether the redundancy of any region of a volume may not agree with its data, accepted or
    /// not.
    pub(super) fn is_unsynced(&self, volume: &Volume) -> bool {
        self.unsynced.borrow().range(volume.regions()).next().is_some()
    }

    /// Accepts the redundancy of the distrusted regions as it is. The source is an operator, for
    /// the drives that are missing, or the volume's replayed journal, for all. `change` names the
    /// source; returns the change for the shards.
    pub(crate) fn force(&self, volume: &Volume, change: fn(RegionSet) -> Change) -> Change {
        let change = change(self.distrusted(volume));
        let mut state = volume_state(self, volume);
        state.apply(&change);
        volume.set_forced(state.forced().clone());
        change
    }

    /// All regions of its volumes: a drive with unknown content is stale in these.
    pub(crate) fn all_regions(&self) -> RegionSet {
        let mut all = RegionSet::EMPTY;
        self.volumes().iter().for_each(|volume| all.insert_all(&volume.all_regions()));
        all
    }

    /// The current state of a volume.
    pub(crate) fn current_state(&self, volume: &Volume) -> VolumeState {
        let out = self.out_of(volume);
        if self.is_missing() {
            VolumeState::Missing
        } else if !volume.is_served() || !self.lost.borrow().is_empty() || !volume.lost().is_empty()
        {
            VolumeState::Offline
        } else if out.is_empty() && self.behind(volume).is_empty() {
            VolumeState::Optimal
        } else {
            VolumeState::Degraded
        }
    }

    /// The state and its start time; this call detects changes.
    pub(crate) fn state(&self, volume: &Volume, now_unix_s: u64) -> (VolumeState, u64) {
        let current = self.current_state(volume);
        if volume.state.get().0 != current {
            volume.state.set((current, now_unix_s));
        }
        volume.state.get()
    }

    /// Detects state changes of all its volumes.
    pub(super) fn look_at_state(&self, now_unix_s: u64) {
        self.volumes().iter().for_each(|volume| {
            self.state(volume, now_unix_s);
        });
    }

    /// The state of the drive in a slot, and why it is not in service.
    pub(crate) fn drive_state(&self, slot: usize) -> (DriveState, Option<String>) {
        let Some(place) = self.places.borrow().get(slot).cloned() else {
            return (DriveState::Missing, None);
        };
        if let Some(why) = self.lost.borrow().get(&slot) {
            return (DriveState::Failed, Some(why.clone()));
        }
        let label = self.label.borrow();
        let Some(member) = label.member.get(slot) else { return (DriveState::Missing, None) };
        let will_serve = place.drive.is_some() && matches!(place.role, Role::Current);
        if member.state == MemberState::Online && (self.is_running() || will_serve) {
            let left = self.left(&member.stale).len();
            let how =
                if self.is_running() { "is not current" } else { "is rebuilt after the start" };
            let reason = || format!("drive {} {how}: regions left: {left}", member.name);
            return match left {
                0 => (DriveState::Online, None),
                _ => (DriveState::Rebuilding, Some(reason())),
            };
        }
        if place.drive.is_none() {
            return (DriveState::Missing, place.reason);
        }
        let failed = label.failed.iter().find(|failed| failed.uuid == member.uuid);
        let at = |failed: &FailedDrive| units::utc(failed.at_unix_s);
        let failed = failed.map(|failed| {
            format!("drive {} failed at {} ({})", member.name, at(failed), failed.why)
        });
        let reason =
            place.reason.clone().or(failed).or_else(|| Some(ondisk::why(member).to_owned()));
        let missed = || !self.to_rebuild(slot).is_empty();
        match place.role {
            Role::Current if !self.is_running() => (DriveState::Online, None),
            Role::Stale => (DriveState::Stale, reason),
            Role::Missing | Role::Out => (DriveState::Missing, reason),
            Role::Current | Role::Left(_) => match member.cause {
                Some(Cause::Missing | Cause::Offline) if missed() => (DriveState::Stale, reason),
                Some(Cause::Missing | Cause::Offline) => (DriveState::Offline, reason),
                Some(Cause::Suspended | Cause::OperatorSuspended) => {
                    (DriveState::Suspended, reason)
                }
                Some(Cause::Error | Cause::Operator) | None => (DriveState::Failed, reason),
            },
        }
    }

    /// Records why the drive in a slot is out.
    pub(super) fn set_reason(&self, slot: usize, reason: Option<String>) {
        if let Some(place) = self.places.borrow_mut().get_mut(slot) {
            place.reason = reason;
        }
    }
}

/// A set of regions, in the form that labels use.
pub(crate) fn runs(regions: &RegionSet) -> Runs {
    Runs(regions.runs().to_vec())
}

/// The regions in a set of a label.
pub(crate) fn set_of(runs: &Runs) -> RegionSet {
    RegionSet::from_runs(runs.0.iter().copied())
}

/// Whether an error reports that a drive's backing store is full; used for the hint of a failed
/// command. [`platform::IoError::spares_drive`] decides whether a drive fails for it.
pub(crate) fn is_full(error: &platform::IoError) -> bool {
    error.kind == IoErrorKind::OutOfSpace
}
