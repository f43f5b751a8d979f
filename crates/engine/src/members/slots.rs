//! The drives of a volume by slot, and their state; drives may be swapped while requests run.
//!
//! # Invariants
//! - An operation gets its drive from the slot when it starts. A plan made before a swap is not
//!   begun after it: [`Members::changes`] detects that.
//! - A drive that left its slot, or whose volume is detached, is released when it has returned all
//!   operations of this shard, including late ones (rule (d) of `ARCHITECTURE.md`). Only then is
//!   the swap acknowledged.
//! - A drive is *stale* in a region until the region's owner has made every stripe of it current.
//!   The owner does that stripe by stripe, under the exclusive lock. Finished stripes are current
//!   for the owner ([`Window`]) and receive later writes; only the owner knows them, and other
//!   shards ask it.
//! - A drive that takes a slot is stale in every region, including those never written: it may hold
//!   any data there ([`first_write`](crate::stripe::first_write)).
//! - A drive being filled (*replacement*) receives every write of its slot's drive. After a failed
//!   write it can never take the slot as it is: no write that it lacks is acknowledged before that
//!   is certain.

use crate::attachment::Attachment;
use crate::messages::{Done, Seat};
use crate::shard::Resources;
use platform::sync::Signal;
use platform::{DriveSource, Env, IoError, LimitsByClass, Member, Overseer};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{DriveIndex, DriveSet, StripeIndex};
use volume_state::{RegionIndex, RegionSet};

/// How often a drive that is no longer used is checked for outstanding operations.
const QUIET_POLL: Duration = Duration::from_millis(5);

/// A region being made current on a drive, on the shard that owns it.
struct Window {
    region: RegionIndex,
    /// Every stripe of the region below this one is current.
    below: u64,
    /// Stripes above it that are current already: several are in progress at a time.
    ahead: SmallVec<[u64; 8]>,
}

/// A drive being filled.
pub(crate) struct Replacement {
    pub(crate) member: Rc<Member>,
    /// Its number among the replacements of the slot; the first is 1.
    pub(crate) number: u64,
    /// It lacks a write.
    pub(crate) failed: Cell<Option<IoError>>,
    /// Whether it is certain that it cannot take the slot as it is.
    pub(crate) settled: Cell<Option<Result<(), IoError>>>,
}

/// A slot's drive on this shard. Its recorded state is in the volume's state.
#[derive(Default)]
pub(crate) struct Slot {
    member: RefCell<Option<Rc<Member>>>,
    replacement: RefCell<Option<Rc<Replacement>>>,
    windows: RefCell<Vec<Window>>,
    /// The number of drives that have had the slot.
    drives: Cell<u64>,
    /// The number of replacements that the slot has had.
    replacements: Cell<u64>,
    /// The end of its last read, in its part of the volume: a read that begins there needs no seek.
    pub(crate) last_end: Cell<u64>,
    /// Unreadable places that rewriting did not repair.
    pub(crate) unrepaired: Cell<u32>,
    /// The monitor of the drive.
    pub(super) watch: RefCell<Option<Rc<dyn Overseer>>>,
}

/// The slots of a volume.
pub(crate) struct Members {
    slots: Vec<Slot>,
    /// Whether any drive rotates.
    rotate: Cell<bool>,
    /// Drives with reads beyond the short limit.
    late: Cell<DriveSet>,
    changed: Signal,
}

impl Members {
    pub(crate) fn attach(env: &Env, attachment: &Attachment) -> platform::Result<Members> {
        let limits = &attachment.spec.policy.limits;
        let count = attachment.spec.geometry.drives().as_usize();
        let members = Members {
            slots: std::iter::repeat_with(Slot::default).take(count).collect(),
            rotate: Cell::new(false),
            late: Cell::default(),
            changed: Signal::default(),
        };
        for (index, slot) in members.slots.iter().enumerate() {
            if let Some(Some(source)) = attachment.sources.get(index) {
                *slot.member.borrow_mut() = Some(attach(env, source, limits)?);
            }
            if let Some(Some(source)) = attachment.replacements.get(index) {
                *slot.replacement.borrow_mut() = Some(slot.begin_replacement(env, source, limits)?);
            }
        }
        members.look_whether_any_rotates();
        Ok(members)
    }

    fn look_whether_any_rotates(&self) {
        let rotates = |slot: &Slot| {
            slot.member.borrow().as_ref().is_some_and(|member| member.info().rotational)
        };
        self.rotate.set(self.slots.iter().any(rotates));
    }

    pub(crate) fn slot(&self, drive: DriveIndex) -> Option<&Slot> {
        self.slots.get(drive.as_usize())
    }

    /// The drive in a slot now.
    pub(crate) fn get(&self, drive: DriveIndex) -> Option<Rc<Member>> {
        self.slot(drive)?.member.borrow().clone()
    }

    /// The drive being filled for a slot.
    pub(crate) fn replacement(&self, drive: DriveIndex) -> Option<Rc<Replacement>> {
        self.slot(drive)?.replacement.borrow().clone()
    }

    /// The drive in a seat now.
    pub(crate) fn at(&self, seat: Seat) -> Option<Rc<Member>> {
        match seat {
            Seat::Slot(drive) => self.get(drive),
            Seat::Replacement(drive) => {
                self.replacement(drive).map(|replacement| replacement.member.clone())
            }
        }
    }

    /// Whether a drive is the one in the slot now.
    pub(crate) fn is_in_slot(&self, drive: DriveIndex, member: &Rc<Member>) -> bool {
        let slot = self.slot(drive);
        slot.is_some_and(|slot| {
            slot.member.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, member))
        })
    }

    /// Whether a drive that is or was being filled for a slot can take it, or has it.
    pub(crate) fn concerns(&self, drive: DriveIndex, replacement: &Rc<Replacement>) -> bool {
        let is_filled = self.replacement(drive).is_some_and(|now| Rc::ptr_eq(&now, replacement));
        is_filled || self.is_in_slot(drive, &replacement.member)
    }

    /// Notified when the outcome of a replacement is settled.
    pub(crate) fn changed(&self) -> &Signal {
        &self.changed
    }

    /// Whether any drive rotates.
    pub(crate) fn rotate(&self) -> bool {
        self.rotate.get()
    }

    /// Whether a drive is nearly idle, as far as this shard is concerned.
    pub(crate) fn is_idle(&self, drive: DriveIndex) -> bool {
        self.slot(drive).is_some_and(|slot| slot.outstanding() <= 1)
    }

    /// Drives with reads beyond the short limit: their data is read elsewhere, if possible.
    pub(crate) fn late(&self) -> DriveSet {
        self.late.get()
    }

    pub(super) fn set_late(&self, drive: DriveIndex, is_late: bool) {
        let late = self.late.get();
        self.late.set(if is_late { late.with(drive) } else { late.without(drive) });
    }

    /// The number of swaps of a slot, which identifies its drive.
    pub(crate) fn drives_of(&self, drive: DriveIndex) -> u64 {
        self.slot(drive).map_or(0, |slot| slot.drives.get())
    }

    /// Whether a stripe is current on a drive that is stale in its region.
    pub(crate) fn is_made_current(
        &self,
        drive: DriveIndex,
        region: RegionIndex,
        stripe: StripeIndex,
    ) -> bool {
        self.slot(drive).is_some_and(|slot| {
            slot.windows.borrow().iter().any(|window| {
                window.region == region
                    && (stripe.0 < window.below || window.ahead.contains(&stripe.0))
            })
        })
    }

    /// The recorded state alone applies to these regions of a drive from now on.
    pub(crate) fn close_windows(&self, drive: DriveIndex, regions: &RegionSet) {
        if let Some(slot) = self.slot(drive) {
            slot.windows.borrow_mut().retain(|window| !regions.contains(window.region));
        }
    }

    /// Regions being made current on a drive.
    pub(crate) fn regions_being_filled(&self, drive: DriveIndex) -> Vec<RegionIndex> {
        let windows = self.slot(drive).map(|slot| slot.windows.borrow());
        windows.iter().flat_map(|windows| windows.iter()).map(|window| window.region).collect()
    }

    /// Begins to make a stale region current; stripes before `below` are current already.
    pub(crate) fn open_window(&self, drive: DriveIndex, region: RegionIndex, below: StripeIndex) {
        if let Some(slot) = self.slot(drive) {
            let mut windows = slot.windows.borrow_mut();
            windows.retain(|window| window.region != region);
            windows.push(Window { region, below: below.0, ahead: SmallVec::new() });
        }
    }

    /// A stripe is current on a drive now; the caller holds it exclusively. `false`: the region is
    /// no longer being made current, since the drive was swapped or failed.
    pub(crate) fn stripe_current(
        &self,
        drive: DriveIndex,
        region: RegionIndex,
        stripe: StripeIndex,
    ) -> bool {
        let Some(slot) = self.slot(drive) else { return false };
        let mut windows = slot.windows.borrow_mut();
        let Some(window) = windows.iter_mut().find(|window| window.region == region) else {
            return false;
        };
        window.ahead.push(stripe.0);
        while let Some(next) = window.ahead.iter().position(|ahead| *ahead == window.below) {
            window.ahead.swap_remove(next);
            window.below += 1;
        }
        true
    }

    /// Stops making a region current; stripes not recorded as current
    /// ([`volume_state::Change::Current`]) are stale again.
    pub(crate) fn close_window(&self, drive: DriveIndex, region: RegionIndex) {
        if let Some(slot) = self.slot(drive) {
            slot.windows.borrow_mut().retain(|window| window.region != region);
        }
    }

    /// Puts another drive into a slot; returns the previous one.
    pub(crate) fn swap(&self, drive: DriveIndex, member: Option<Rc<Member>>) -> Option<Rc<Member>> {
        let slot = self.slot(drive)?;
        slot.drives.set(slot.drives.get() + 1);
        slot.windows.borrow_mut().clear();
        slot.unrepaired.set(0);
        let before = std::mem::replace(&mut *slot.member.borrow_mut(), member);
        self.look_whether_any_rotates();
        before
    }

    pub(crate) fn swap_replacement(
        &self,
        drive: DriveIndex,
        replacement: Option<Rc<Replacement>>,
    ) -> Option<Rc<Replacement>> {
        self.slot(drive)
            .and_then(|slot| std::mem::replace(&mut *slot.replacement.borrow_mut(), replacement))
    }
}

impl Slot {
    /// Begins to fill a drive for the slot. It counts even if it is unusable, since the controller
    /// counts those that it sends.
    pub(crate) fn begin_replacement(
        &self,
        env: &Env,
        source: &Arc<dyn DriveSource>,
        limits: &LimitsByClass,
    ) -> platform::Result<Rc<Replacement>> {
        let number = self.replacements.get() + 1;
        self.replacements.set(number);
        let member = attach(env, source, limits)?;
        Ok(Rc::new(Replacement {
            member,
            number,
            failed: Cell::new(None),
            settled: Cell::new(None),
        }))
    }

    /// Operations that the drive has not returned; the maximum if there is no drive.
    pub(crate) fn outstanding(&self) -> u32 {
        self.member.borrow().as_ref().map_or(u32::MAX, |member| member.outstanding())
    }
}

pub(crate) fn attach(
    env: &Env,
    source: &Arc<dyn DriveSource>,
    limits: &LimitsByClass,
) -> platform::Result<Rc<Member>> {
    Ok(Rc::new(Member::attach(env, source.as_ref(), limits)?))
}

/// Replies once a drive that is no longer used has returned all operations of this shard.
pub(crate) async fn when_quiet(shard: Resources, before: Option<Rc<Member>>, done: Option<Done>) {
    while before.as_ref().is_some_and(|member| member.outstanding() > 0) && !shard.is_stopping() {
        shard.env().sleep(QUIET_POLL).await;
    }
    drop(before);
    if let Some(done) = done {
        crate::messages::answer_control(&done, Ok(()));
    }
}
