//! The position of volumes in their sequence of layouts, and the allowed reports of it.
//!
//! # Allowed reports
//! Reports about all volumes of an array at one time are checked together. After an order for one
//! volume with followers:
//! - one volume reshapes at a time; followers are queued before, unchanged;
//! - the named volume is first: no follower begins or ends before it;
//! - each goes from its known layout to the ordered one, and a follower keeps its size;
//! - afterwards all use the same drives: the ordered ones, or, if the order did not take effect or
//!   was rolled back, the earlier ones;
//! - each served volume has the known layout and capacity; only the named volume may have more, or
//!   the ordered capacity.

use crate::error::{Error, Result};
use crate::scene::Scene;
use crate::setup::{VolumeRole, migrations};
use controller::{
    Command, ControllerHandle, DriveState, LayoutInfo, Reply, ReshapeInfo, VolumeInfo,
};
use layout::Geometry;
use platform::Env;
use platform_sim::SimDrive;
use std::cell::Cell;
use std::rc::Rc;
use units::{ByteCount, DriveCount, DriveIndex, DriveSet};

/// A volume's position in its sequence of layouts.
#[derive(Clone, Debug, Default)]
pub struct ReshapeState {
    /// The number of finished reshapes.
    done: Cell<usize>,
    /// Whether the next reshape may be active or queued.
    may_move: Cell<bool>,
    /// Whether the order names this volume.
    leads: Cell<bool>,
    /// Whether it keeps its layout, and may expand.
    grows: Cell<bool>,
    /// The usable capacity at the time of that order.
    had: Cell<u64>,
    /// The last known usable capacity without an active reshape; 0 before.
    capacity: Cell<u64>,
    /// Whether it is assumed to have a journal only because of a possible reshape.
    supposes_journal: Cell<bool>,
    /// Whether an order is pending.
    is_ordering: Cell<bool>,
    /// The number of orders and replies: earlier reports are void.
    changes: Cell<u64>,
    /// Whether this life has an order.
    is_of_this_life: Cell<bool>,
}

impl ReshapeState {
    /// See the field.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// See the field.
    pub fn done(&self) -> usize {
        self.done.get()
    }

    /// Takes over the state of a copy.
    pub fn adopt(&self, other: &ReshapeState) {
        self.done.set(other.done.get());
        self.may_move.set(other.may_move.get());
        self.leads.set(other.leads.get());
        self.grows.set(other.grows.get());
        self.had.set(other.had.get());
        self.capacity.set(other.capacity.get());
        self.supposes_journal.set(other.supposes_journal.get());
    }

    /// An operator requests a journal: one may exist, independent of reshapes.
    pub fn asks_for_journal(&self) {
        self.supposes_journal.set(false);
    }

    /// A process will start: no reply is pending.
    pub fn begins(&self) {
        self.order(false);
        self.is_of_this_life.set(false);
    }

    fn order(&self, is_ordering: bool) {
        self.is_of_this_life.set(true);
        self.is_ordering.set(is_ordering);
        self.changes.set(self.changes.get() + 1);
    }
}

/// Whether a volume without a reshape has that layout, on any drives.
fn is_of_kind(shown: &VolumeInfo, layout: &Geometry) -> bool {
    (shown.level.as_str(), shown.strip_bytes) == (layout.level().name(), layout.strip().bytes().0)
}

/// Whether a volume of an array without reshapes has that layout.
fn is_by(shown: &VolumeInfo, layout: &Geometry) -> bool {
    is_of_kind(shown, layout) && shown.drives.len() == layout.drives().as_usize()
}

/// Whether a reported layout is that layout.
fn is_it(said: &LayoutInfo, layout: &Geometry) -> bool {
    let said = (said.level.as_str(), said.drives, said.strip_bytes);
    said == (layout.level().name(), layout.drives().0, layout.strip().bytes().0)
}

impl Scene {
    /// Whether a reshape of the volume may be active or queued.
    pub fn may_move(&self) -> bool {
        self.way.may_move.get()
    }

    /// The volume's layout; during a reshape, the old one.
    pub fn layout(&self) -> Geometry {
        self.setup.layout(self.way.done.get()).unwrap_or(self.setup.geometry)
    }

    /// The possible next layout; an expansion keeps the layout.
    fn next_layout(&self) -> Option<Geometry> {
        let next = self.way.done.get() + usize::from(!self.way.grows.get());
        self.setup.layout(next).filter(|_| self.may_move())
    }

    /// All layouts that parts of the volume may have.
    pub fn layouts(&self) -> impl Iterator<Item = Geometry> + use<> {
        std::iter::once(self.layout()).chain(self.next_layout())
    }

    /// The number of drives that it may use.
    pub fn drive_count(&self) -> DriveCount {
        self.layouts().map(|layout| layout.drives()).max().unwrap_or(self.setup.geometry.drives())
    }

    /// Whether the volume survives the loss of these drives.
    pub fn survives(&self, lost: &DriveSet) -> bool {
        self.layouts().all(|layout| layout.survives_set(lost))
    }

    /// Whether it survives the loss of any drive.
    pub fn is_redundant(&self) -> bool {
        self.layouts().all(|layout| layout.level().is_redundant())
    }

    /// Whether any part is reconstructed from parity.
    pub fn has_parity(&self) -> bool {
        self.layouts().any(|layout| layout.parity_strips() > 0)
    }

    /// Whether inconsistent redundancy identifies the wrong drive.
    pub fn tells_who_is_wrong(&self) -> bool {
        self.layouts().all(|layout| layout.parity_strips() > 1 || layout.copies() > 2)
    }

    /// Whether the next reshape affects all volumes of the array.
    fn next_moves_all(&self) -> bool {
        let way = self.setup.migrations.as_ref().and_then(|all| all.ways.get(self.way.done.get()));
        way.is_some_and(migrations::ReshapeSetup::moves_all)
    }

    /// An order for the array's first volume will follow: it and its followers may reshape from now
    /// on.
    pub(super) fn begin_ways(
        &self,
        is_led_by_neighbour: bool,
        names: Vec<String>,
        drives: Vec<SimDrive>,
    ) {
        let moves_all = self.next_moves_all();
        self.array.grow(names, drives);
        for volume in self.array.volumes() {
            volume.way.order(true);
            let is_neighbour = volume.setup.is_neighbour();
            volume.way.grows.set(false);
            volume.way.done.set(self.way.done.get());
            volume.way.leads.set(is_neighbour == is_led_by_neighbour);
            if !is_neighbour || moves_all && volume.may_be_there() {
                volume.begin_way();
            }
        }
        self.array.note_losses();
    }

    /// An expansion in place will be ordered. `has`: the usable capacity.
    pub(crate) fn begin_to_grow(&self, has: u64) {
        for volume in self.array.volumes() {
            volume.way.order(true);
            let is_it = std::ptr::eq(Rc::as_ptr(&volume), self);
            volume.way.leads.set(is_it);
            volume.way.grows.set(is_it);
        }
        self.way.had.set(has);
        self.begin_way();
        self.array.note_losses();
    }

    fn begin_way(&self) {
        self.way.may_move.set(true);
        self.covered.set(false);
        self.synced.set(false);
        if self.has_parity() {
            // A volume without parity may get parity and a journal.
            let had = self.had_journal.replace(true);
            self.way.supposes_journal.set(!had && self.layout().parity_strips() > 0);
            self.on_log.may_have_moved(&self.machine.log);
        }
    }

    /// The reply to the order arrived.
    pub(crate) fn end_order(&self) {
        self.array.volumes().iter().for_each(|volume| volume.way.order(false));
    }

    /// It will be created beside a volume with a possible reshape: it gets that volume's layout of
    /// that time.
    pub(crate) fn comes_beside(&self) {
        self.way.capacity.set(0);
        self.way.supposes_journal.set(false);
        let first =
            self.array.volumes().into_iter().find(|volume| volume.setup.place == VolumeRole::First);
        let Some(first) = first.filter(|_| self.setup.place == VolumeRole::SameDrives) else {
            return;
        };
        self.way.done.set(first.way.done.get());
        self.way.grows.set(false);
        self.way.may_move.set(first.may_move() && !first.way.grows.get() && first.next_moves_all());
    }

    /// Checks the reported reshape.
    fn judge_way(&self, said: &ReshapeInfo) -> Result<()> {
        let Some(next) = self.next_layout() else {
            return Error::wrong_state("the volume reshapes without an order");
        };
        let (from, to) = (said.from.capacity_bytes, said.to.capacity_bytes);
        let is_its = is_it(&said.from, &self.layout()) && is_it(&said.to, &next);
        // A follower keeps its size, and an expansion does not shrink the volume.
        let is_as_long = match (self.way.leads.get(), self.way.grows.get()) {
            (false, _) => to == from,
            (true, true) => to >= from,
            (true, false) => to >= self.setup.geometry.capacity().0,
        };
        if !is_its || !is_as_long {
            return Error::wrong_state(format!(
                "the volume reshapes from {:?} to {:?}, which was not ordered",
                said.from, said.to
            ));
        }
        if said.waits && (self.way.leads.get() || said.moved_bytes > 0) {
            return Error::wrong_state(format!(
                "the named volume is queued, or a queued volume has begun: {said:?}"
            ));
        }
        Ok(())
    }

    /// Checks a served volume without a reshape: it has the known layout and capacity, except for
    /// the named volume. `all_rest`: no volume of the array reshapes; drives that it has left stay
    /// listed while another volume needs them.
    fn judge_rest(&self, shown: &VolumeInfo, was_named: bool, all_rest: bool) -> Result<()> {
        let layout = self.layout();
        let has_more = !all_rest && shown.drives.len() > layout.drives().as_usize();
        let is_it = is_by(shown, &layout) || has_more && is_of_kind(shown, &layout);
        if !is_it {
            return Error::wrong_state(format!(
                "the volume is {} over {} drives, strip {}, expected {} over {}, strip {}",
                shown.level,
                shown.drives.len(),
                shown.strip_bytes,
                layout.level().name(),
                layout.drives().0,
                layout.strip()
            ));
        }
        let (has, had) = (shown.capacity_bytes, self.way.capacity.replace(shown.capacity_bytes));
        if had != 0 && has != had && !was_named {
            return Error::wrong_state(format!(
                "the volume has {has} usable bytes, {had} before, without an order"
            ));
        }
        Ok(())
    }

    /// No journal was requested, and the reshape that might have brought one is over.
    fn has_no_journal_any_more(&self) {
        if self.way.supposes_journal.replace(false) {
            self.had_journal.set(false);
        }
    }

    /// The reshape is complete.
    fn has_come(&self, shown: &VolumeInfo) {
        let Some(next) = self.next_layout() else { return };
        if self.way.grows.get() {
            return self.stays(shown);
        }
        let is_down = migrations::is_down(&self.layout(), &next);
        self.way.done.set(self.way.done.get() + 1);
        self.way.may_move.set(false);
        // The named volume's capacity is known when it is served, possibly in another life. A
        // follower keeps its size.
        if self.way.leads.get() {
            self.way.capacity.set(0);
        }
        self.has_no_journal_any_more();
        self.synced.set(false);
        self.count(|tally| {
            tally.moved += 1;
            tally.moved_down += u64::from(is_down);
        });
        self.tell(|| format!("the volume is now {} over {} drives", next.level(), next.drives().0));
    }

    /// Whether a later start may continue the reshape, because labels are unread: it lost drives at
    /// the begin, or a drive is missing that was in use. A drive that was offline before the begin
    /// does not matter.
    fn is_held_up(&self, shown: &VolumeInfo) -> bool {
        let out = self.array.out.get();
        let mut drives = shown.drives.iter().enumerate();
        let is_missing = drives.any(|(slot, drive)| {
            drive.state == DriveState::Missing && !out.contains(DriveIndex(slot as u16))
        });
        !shown.state.serves() && (self.way.is_of_this_life.get() || is_missing)
    }

    /// The reshape is over, and the layout unchanged.
    fn stays(&self, shown: &VolumeInfo) {
        if !self.way.may_move.replace(false) {
            return;
        }
        self.has_no_journal_any_more();
        let is_longer = self.way.grows.replace(false) && shown.capacity_bytes > self.way.had.get();
        if is_longer {
            // It may be offline; the next check has no order that explains the capacity.
            self.way.capacity.set(shown.capacity_bytes);
            self.synced.set(false);
            self.count(|tally| tally.grown += 1);
        }
        self.tell(|| match is_longer {
            true => format!("the volume's capacity is now {}", ByteCount(shown.capacity_bytes)),
            false => "the volume is unchanged".to_owned(),
        });
    }
}

/// Checks a volume's report. `orders`: the value of [`ReshapeState::changes`] at the query.
///
/// # Errors
/// When it has a layout that was not ordered, or the reports about its array contradict each other.
pub(crate) async fn look(
    scene: &Scene,
    env: &Env,
    control: &ControllerHandle,
    (shown, orders): (&VolumeInfo, u64),
) -> Result<()> {
    let is_old = || scene.way.is_ordering.get() || scene.way.changes() != orders;
    if !scene.setup.may_move() || is_old() {
        return Ok(());
    }
    let volumes = scene.array.volumes();
    if volumes.len() == 1 {
        return note(&volumes, std::slice::from_ref(shown));
    }
    let Ok(Reply::Volumes { volumes: all }) = control.command(env, Command::VolumeList {}).await
    else {
        return Error::wrong_state("cannot list the volumes");
    };
    let of_array: Vec<VolumeInfo> =
        all.into_iter().filter(|other| other.array == shown.array).collect();
    if is_old() { Ok(()) } else { note(&volumes, &of_array) }
}

/// Checks simultaneous reports about the volumes of an array.
fn note(volumes: &[Rc<Scene>], shown: &[VolumeInfo]) -> Result<()> {
    let of = |volume: &Rc<Scene>| shown.iter().find(|shown| shown.name == volume.setup.name());
    let there: Vec<(&Rc<Scene>, &VolumeInfo)> =
        volumes.iter().filter_map(|volume| Some((volume, of(volume)?))).collect();
    let Some(&(first, of_first)) = there.iter().find(|(volume, _)| !volume.setup.is_neighbour())
    else {
        return Ok(()); // It is not listed.
    };
    // The named volumes, which may have finished just now, or be unchanged.
    let named: Vec<bool> =
        there.iter().map(|(volume, _)| volume.may_move() && volume.way.leads.get()).collect();
    let all_rest = there.iter().all(|(_, shown)| shown.reshape.is_none());
    if !all_rest {
        note_on_their_way(&there)?;
    } else {
        note_at_rest(first, of_first)?;
        let others =
            volumes.iter().filter(|volume| volume.setup.is_neighbour() && !first.may_move());
        // A missing neighbour will be created with the first volume's layout. Its creation may be
        // in progress since before the end of that reshape.
        others.for_each(|volume| {
            match (first.way.done.get() > volume.way.done.get(), of(volume)) {
                (true, Some(shown)) => volume.has_come(shown),
                // It may expand at the next start.
                (false, Some(shown)) if volume.way.grows.get() && volume.is_held_up(shown) => {}
                (false, Some(shown)) => volume.stays(shown),
                (_, None) => {
                    volume.way.done.set(first.way.done.get());
                    volume.way.may_move.set(false);
                }
            }
        });
    }
    for ((volume, shown), was_named) in there.iter().zip(named) {
        if shown.reshape.is_none() && shown.state.serves() && !volume.may_move() {
            volume
                .judge_rest(shown, was_named, all_rest)
                .map_err(|error| crate::beside::of(volume, error))?;
        }
    }
    if volumes.iter().all(|volume| !volume.may_move()) {
        // Removed drives belong to no volume.
        first.array.shrink(first.layout().drives());
    }
    first.array.note_losses();
    Ok(())
}

/// A reshape is active or queued.
fn note_on_their_way(there: &[(&Rc<Scene>, &VolumeInfo)]) -> Result<()> {
    let mut moving = 0;
    for (volume, shown) in there {
        if let Some(way) = &shown.reshape {
            volume.judge_way(way).map_err(|error| crate::beside::of(volume, error))?;
            moving += u64::from(!way.waits);
        }
    }
    let leader = there.iter().find(|(volume, _)| volume.way.leads.get());
    let is_led = leader.is_some_and(|(_, shown)| shown.reshape.is_some());
    // The next start of an offline volume may find another state: drives that record it may be
    // missing.
    let have_come = there.iter().filter(|(volume, shown)| {
        shown.reshape.is_none() && volume.may_move() && shown.state.serves()
    });
    if moving > 1 || is_led && have_come.clone().next().is_some() {
        let said = there
            .iter()
            .map(|(volume, shown)| format!("{}: {:?}", volume.setup.name(), shown.reshape));
        let said: Vec<String> = said.collect();
        return Error::wrong_state(format!(
            "volumes of one array do not reshape one after the other: {}",
            said.join("; ")
        ));
    }
    have_come.for_each(|(volume, shown)| volume.has_come(shown));
    Ok(())
}

/// No reshape is active: finds the first volume's layout.
fn note_at_rest(first: &Scene, shown: &VolumeInfo) -> Result<()> {
    match first.next_layout() {
        // An expansion keeps the layout.
        _ if is_by(shown, &first.layout()) && first.is_held_up(shown) => {}
        Some(next) if is_by(shown, &next) => first.has_come(shown),
        _ if is_by(shown, &first.layout()) => first.stays(shown),
        _ => {
            return Error::wrong_state(format!(
                "the volume is {} over {} drives, strip {}, which was not ordered",
                shown.level,
                shown.drives.len(),
                shown.strip_bytes
            ));
        }
    }
    Ok(())
}
