//! An array and the volume on it, as the controller keeps it.

use crate::inventory::Drive;
use crate::{DriveState, VolumeState};
use engine::{HealthView, LaneSet, Lanes, ShardIndex, VolumeId};
use env::Env;
use env::sync::{Credits, Signal};
use layout::Geometry;
use ondisk::{Cause, FoundArray, IntentMap, Label, MemberState, Readiness, Role, Uuid};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{DriveIndex, DriveSet};

/// A place in the array, and what was found for it.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) drive: Option<Rc<Drive>>,
    pub(crate) role: Role,
    /// Why it is not current: a sentence.
    pub(crate) reason: Option<String>,
}

/// What is served while the array is started.
pub(crate) struct Running {
    pub(crate) id: VolumeId,
    /// Slots whose drives the shards have: others cannot be used before the next start.
    pub(crate) attached: DriveSet,
    pub(crate) stopped: Cell<bool>,
}

/// What shards have reported and what is to be done about it.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) failures: RefCell<Vec<FailureReport>>,
    pub(crate) marks: RefCell<Vec<MarkReport>>,
    /// Quiet lanes whose marks may go, and those whose marks are about to go.
    pub(crate) quiet: RefCell<BTreeSet<u32>>,
    /// ... and by which clearing.
    pub(crate) clearing: RefCell<BTreeMap<u32, u64>>,
    /// How many clearings there have been.
    pub(crate) clearings: Cell<u64>,
    pub(crate) changed: Signal,
}

pub(crate) struct FailureReport {
    pub(crate) from: ShardIndex,
    pub(crate) number: u64,
    pub(crate) drive: DriveIndex,
    pub(crate) what: String,
}

pub(crate) struct MarkReport {
    pub(crate) from: ShardIndex,
    pub(crate) number: u64,
    pub(crate) lanes: LaneSet,
}

impl Work {
    pub(crate) fn add_failure(&self, from: ShardIndex, number: u64, drive: DriveIndex, what: String) {
        self.failures.borrow_mut().push(FailureReport { from, number, drive, what });
    }

    pub(crate) fn add_marks(&self, from: ShardIndex, number: u64, lanes: LaneSet) {
        self.marks.borrow_mut().push(MarkReport { from, number, lanes });
    }

    pub(crate) fn add_quiet(&self, lanes: &LaneSet) {
        self.quiet.borrow_mut().extend(lanes.iter().map(|lane| lane.0));
    }
}

/// An array and its volume.
pub(crate) struct Array {
    pub(crate) uuid: Uuid,
    /// The layout, which does not change.
    pub(crate) geometry: Geometry,
    /// The newest label that was written.
    label: RefCell<Label>,
    places: RefCell<Vec<Place>>,
    pub(crate) readiness: Cell<Readiness>,
    /// Why it could not be started, or is not optimal, as its drives tell.
    pub(crate) reasons: RefCell<Vec<String>>,
    /// Why the last attempt to start it failed.
    pub(crate) refusal: RefCell<Option<String>>,
    running: RefCell<Option<Rc<Running>>>,
    /// The marks, as they are on the drives while the array is started.
    pub(crate) map: RefCell<IntentMap>,
    /// Lanes whose redundancy may not agree with their data.
    pub(crate) unsynced: RefCell<BTreeSet<u32>>,
    /// Drives that failed when the level could not spare them: that is not recorded, since nothing was written
    /// without them. The volume is offline. Why, by slot.
    pub(crate) lost: RefCell<BTreeMap<usize, String>>,
    state: Cell<(VolumeState, u64)>,
    /// The turn to change labels and map.
    pub(crate) metadata: Credits,
    pub(crate) work: Work,
}

impl Array {
    /// An array that was found or made, not started. `None` if its label describes none.
    pub(crate) fn new(env: &Env, label: Label) -> Option<Rc<Array>> {
        let geometry = label.geometry().ok()?;
        let lanes = Lanes::of(&geometry).count;
        Some(Rc::new(Array {
            uuid: label.array,
            geometry,
            map: RefCell::new(IntentMap::new(label.array, lanes, false)),
            label: RefCell::new(label),
            places: RefCell::default(),
            readiness: Cell::new(Readiness::Offline),
            reasons: RefCell::default(),
            refusal: RefCell::default(),
            running: RefCell::default(),
            unsynced: RefCell::default(),
            lost: RefCell::default(),
            state: Cell::new((VolumeState::Offline, env.unix_time())),
            metadata: Credits::new(env, 1),
            work: Work::default(),
        }))
    }

    /// Takes in what its drives tell of it now; `drives` are those that were asked.
    pub(crate) fn update(&self, found: &FoundArray, drives: &[Rc<Drive>]) {
        *self.label.borrow_mut() = found.label.clone();
        *self.places.borrow_mut() = found
            .members
            .iter()
            .map(|member| Place {
                drive: member.drive.map(|index| drives[index].clone()),
                role: member.role.clone(),
                reason: member.reason.clone(),
            })
            .collect();
        self.readiness.set(found.readiness);
        self.reasons.borrow_mut().clone_from(&found.reasons);
    }

    /// None of its drives is there any more.
    pub(crate) fn nothing_found(&self) {
        for place in self.places.borrow_mut().iter_mut() {
            *place = Place { drive: None, role: Role::Missing, reason: Some("it is missing".to_owned()) };
        }
        self.readiness.set(Readiness::Offline);
        *self.reasons.borrow_mut() = vec![format!("none of the drives of '{}' is there", self.name())];
    }

    pub(crate) fn label(&self) -> Label {
        self.label.borrow().clone()
    }

    pub(crate) fn set_label(&self, label: Label) {
        *self.label.borrow_mut() = label;
    }

    /// Labels with this generation may be on drives: the next one is higher.
    pub(crate) fn use_up(&self, generation: u64) {
        self.label.borrow_mut().generation = generation;
    }

    pub(crate) fn name(&self) -> String {
        self.label.borrow().volume.name.clone()
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        self.places.borrow().clone()
    }

    pub(crate) fn set_places(&self, places: Vec<Place>) {
        *self.places.borrow_mut() = places;
    }

    /// The drive in a slot, if it was found.
    pub(crate) fn drive(&self, slot: usize) -> Option<Rc<Drive>> {
        self.places.borrow().get(slot)?.drive.clone()
    }

    /// The slot of a drive.
    pub(crate) fn slot_of(&self, drive: &Drive) -> Option<usize> {
        let is_it = |place: &Place| place.drive.as_ref().is_some_and(|other| other.name == drive.name);
        self.places.borrow().iter().position(is_it)
    }

    pub(crate) fn running(&self) -> Option<Rc<Running>> {
        self.running.borrow().clone()
    }

    pub(crate) fn set_running(&self, running: Option<Rc<Running>>) {
        *self.running.borrow_mut() = running;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.borrow().is_some()
    }

    pub(crate) fn volume_id(&self) -> Option<VolumeId> {
        self.running.borrow().as_ref().map(|running| running.id)
    }

    /// How many of its drives may be out at a time.
    pub(crate) fn survives(&self) -> usize {
        self.geometry.survives().at_least.as_usize()
    }

    pub(crate) fn is_redundant(&self) -> bool {
        self.geometry.parity_strips() > 0 || self.geometry.copies() > 1
    }

    /// Slots that the label calls online and that have not been lost since.
    pub(crate) fn in_use(&self) -> Vec<usize> {
        let (label, lost) = (self.label.borrow(), self.lost.borrow());
        let online = label.member.iter().enumerate().filter(|(_, member)| member.is_online());
        online.map(|(slot, _)| slot).filter(|slot| !lost.contains_key(slot)).collect()
    }

    /// Which drives the shards may use. A drive that was lost is among them: that it failed is not recorded, and
    /// a write that skipped it must not be taken for one that may be acknowledged.
    pub(crate) fn health(&self) -> HealthView {
        let label = self.label.borrow();
        let online = label.member.iter().enumerate().filter(|(_, member)| member.is_online());
        let set: DriveSet = online.map(|(slot, _)| DriveIndex(slot as u16)).collect();
        HealthView { readable: set, writable: set }
    }

    /// How the volume is now.
    pub(crate) fn current_state(&self) -> VolumeState {
        if !self.is_running() || !self.lost.borrow().is_empty() {
            VolumeState::Offline
        } else if self.label.borrow().online() == self.places.borrow().len() {
            VolumeState::Optimal
        } else {
            VolumeState::Degraded
        }
    }

    /// The state and since when it is so; a change is noticed here.
    pub(crate) fn state(&self, now_unix_s: u64) -> (VolumeState, u64) {
        let current = self.current_state();
        if self.state.get().0 != current {
            self.state.set((current, now_unix_s));
        }
        self.state.get()
    }

    /// What the drive in a slot is, and why it is not in service.
    pub(crate) fn drive_state(&self, slot: usize) -> (DriveState, Option<String>) {
        let Some(place) = self.places.borrow().get(slot).cloned() else { return (DriveState::Missing, None) };
        if let Some(why) = self.lost.borrow().get(&slot) {
            return (DriveState::Failed, Some(why.clone()));
        }
        let label = self.label.borrow();
        let Some(member) = label.member.get(slot) else { return (DriveState::Missing, None) };
        if self.is_running() && member.state == MemberState::Online {
            return (DriveState::Online, None);
        }
        if place.drive.is_none() {
            return (DriveState::Missing, place.reason);
        }
        if !self.is_running() {
            return match place.role {
                Role::Current => (DriveState::Online, None),
                Role::MissedNothing(_) => (DriveState::Offline, place.reason),
                Role::Stale => (DriveState::Stale, place.reason),
                Role::Missing | Role::Out => (DriveState::Missing, place.reason),
            };
        }
        let reason = place.reason.or_else(|| Some(ondisk::why(member).to_owned()));
        match member.cause {
            Some(Cause::Offline) => (DriveState::Offline, reason),
            Some(Cause::Missing) if member.missed_writes => (DriveState::Stale, reason),
            Some(Cause::Missing) => (DriveState::Offline, reason),
            Some(Cause::Error | Cause::Operator) | None => (DriveState::Failed, reason),
        }
    }

    /// Notes why the drive in a slot is out.
    pub(crate) fn set_reason(&self, slot: usize, reason: Option<String>) {
        if let Some(place) = self.places.borrow_mut().get_mut(slot) {
            place.reason = reason;
        }
    }
}
