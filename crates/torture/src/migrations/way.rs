//! Where volumes are among the layouts that they are to have, and what the controller may say of that.
//!
//! # What it may say
//! What it says of all volumes of an array at one time is held together. Of an order that names one of them and that others follow
//!
//! - one volume moves at a time; those that follow wait before, and are what they were by then;
//! - the one that is named comes first: none has come while it is on its way, nor begun;
//! - each comes from the layout that is known to the one that was asked for, and one that follows keeps its size;
//! - when none is on its way any more, all lie on as many drives: on those that were asked for, or, if it was never given or is taken back, on those that they had;
//! - each that serves is by the layout that is known then, and hosts can use as much of it as they could, but for the one that was named: it may have more, or what it was given.

use crate::error::{Error, Result};
use crate::scene::Scene;
use crate::setup::{Place, migrations};
use controller::{Command, ControllerHandle, DriveState, LayoutInfo, Reply, ReshapeInfo, VolumeInfo};
use layout::Geometry;
use platform::Env;
use platform_sim::SimDrive;
use std::cell::Cell;
use std::rc::Rc;
use units::{ByteCount, DriveCount, DriveIndex, DriveSet};

/// Where a volume is among the layouts that were drawn for it.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// How many migrations have come to their end.
    done: Cell<usize>,
    /// Whether the next one may have begun, or is to.
    may_move: Cell<bool>,
    /// Whether it is the one that the order names.
    leads: Cell<bool>,
    /// Whether it stays where it is by that, and may become longer.
    grows: Cell<bool>,
    /// How much of it hosts could use when that was ordered.
    had: Cell<u64>,
    /// How much of it hosts could use when that was known last, and it was on no way; 0 before.
    capacity: Cell<u64>,
    /// Whether it is thought to have a journal for no other reason than that it may be on its way.
    supposes_journal: Cell<bool>,
    /// Whether it is being ordered.
    is_ordering: Cell<bool>,
    /// How often an order was given or answered: what the controller said before is not so any more.
    changes: Cell<u64>,
    /// Whether one was given in this life.
    is_of_this_life: Cell<bool>,
}

impl Way {
    /// See the field.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// See the field.
    pub fn done(&self) -> usize {
        self.done.get()
    }

    /// Knows what another one knows.
    pub fn adopt(&self, other: &Way) {
        self.done.set(other.done.get());
        self.may_move.set(other.may_move.get());
        self.leads.set(other.leads.get());
        self.grows.set(other.grows.get());
        self.had.set(other.had.get());
        self.capacity.set(other.capacity.get());
        self.supposes_journal.set(other.supposes_journal.get());
    }

    /// An operator asks for a journal: whatever becomes of the way, there may be one.
    pub fn asks_for_journal(&self) {
        self.supposes_journal.set(false);
    }

    /// A process is about to start: nobody waits for an answer any more.
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

/// Whether a volume that is on no way is by that layout, whatever its drives are.
fn is_of_kind(shown: &VolumeInfo, layout: &Geometry) -> bool {
    (shown.level.as_str(), shown.strip_bytes) == (layout.level().name(), layout.strip().bytes().0)
}

/// Whether a volume of an array of which none is on its way is by that layout.
fn is_by(shown: &VolumeInfo, layout: &Geometry) -> bool {
    is_of_kind(shown, layout) && shown.drives.len() == layout.drives().as_usize()
}

/// Whether what is said of a layout is that one.
fn is_it(said: &LayoutInfo, layout: &Geometry) -> bool {
    let said = (said.level.as_str(), said.drives, said.strip_bytes);
    said == (layout.level().name(), layout.drives().0, layout.strip().bytes().0)
}

impl Scene {
    /// Whether the volume may be on its way to another layout, or is to be.
    pub fn may_move(&self) -> bool {
        self.way.may_move.get()
    }

    /// The layout that the volume has; on the way, the one that it comes from.
    pub fn layout(&self) -> Geometry {
        self.setup.layout(self.way.done.get()).unwrap_or(self.setup.geometry)
    }

    /// The layout that it may be on its way to; one that becomes longer has the same one, and more of it.
    fn next_layout(&self) -> Option<Geometry> {
        let next = self.way.done.get() + usize::from(!self.way.grows.get());
        self.setup.layout(next).filter(|_| self.may_move())
    }

    /// All layouts that some of it may lie by.
    pub fn layouts(&self) -> impl Iterator<Item = Geometry> + use<> {
        std::iter::once(self.layout()).chain(self.next_layout())
    }

    /// How many drives it may lie on.
    pub fn drive_count(&self) -> DriveCount {
        self.layouts().map(|layout| layout.drives()).max().unwrap_or(self.setup.geometry.drives())
    }

    /// Whether the volume survives that these drives are lost.
    pub fn survives(&self, lost: &DriveSet) -> bool {
        self.layouts().all(|layout| layout.survives_set(lost))
    }

    /// Whether it survives that any drive is lost.
    pub fn is_redundant(&self) -> bool {
        self.layouts().all(|layout| layout.level().is_redundant())
    }

    /// Whether what is lost is computed from parity, anywhere.
    pub fn has_parity(&self) -> bool {
        self.layouts().any(|layout| layout.parity_strips() > 0)
    }

    /// Whether redundancy tells which drive is wrong where it does not agree.
    pub fn tells_who_is_wrong(&self) -> bool {
        self.layouts().all(|layout| layout.parity_strips() > 1 || layout.copies() > 2)
    }

    /// Whether the next migration is about all volumes of the array.
    fn next_moves_all(&self) -> bool {
        let way = self.setup.migrations.as_ref().and_then(|all| all.ways.get(self.way.done.get()));
        way.is_some_and(migrations::WaySetup::moves_all)
    }

    /// It is about to be asked for that the first volume of an array goes to its next layout: from now on it may be on its way, and those that move along.
    pub(super) fn begin_ways(&self, is_led_by_neighbour: bool, names: Vec<String>, drives: Vec<SimDrive>) {
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

    /// It is about to be asked for that it becomes longer where it is. `has`: how much of it hosts can use.
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
            // One that has no parity yet may be given a journal with it.
            let had = self.had_journal.replace(true);
            self.way.supposes_journal.set(!had && self.layout().parity_strips() > 0);
            self.on_log.may_have_moved(&self.machine.log);
        }
    }

    /// Whoever ordered it was answered.
    pub(crate) fn end_order(&self) {
        self.array.volumes().iter().for_each(|volume| volume.way.order(false));
    }

    /// It is about to be created beside a volume that may be on its way, or have come: it is by the layout that this one has then.
    pub(crate) fn comes_beside(&self) {
        self.way.capacity.set(0);
        self.way.supposes_journal.set(false);
        let first = self.array.volumes().into_iter().find(|volume| volume.setup.place == Place::First);
        let Some(first) = first.filter(|_| self.setup.place == Place::SameDrives) else { return };
        self.way.done.set(first.way.done.get());
        self.way.grows.set(false);
        self.way.may_move.set(first.may_move() && !first.way.grows.get() && first.next_moves_all());
    }

    /// What the controller says of its way.
    fn judge_way(&self, said: &ReshapeInfo) -> Result<()> {
        let Some(next) = self.next_layout() else {
            return Error::wrong_state("the volume is on its way to another layout, and nobody asked for it");
        };
        let (from, to) = (said.from.capacity_bytes, said.to.capacity_bytes);
        let is_its = is_it(&said.from, &self.layout()) && is_it(&said.to, &next);
        // One that follows another one keeps its size, and one that stays where it is does not become smaller.
        let is_as_long = match (self.way.leads.get(), self.way.grows.get()) {
            (false, _) => to == from,
            (true, true) => to >= from,
            (true, false) => to >= self.setup.geometry.capacity().0,
        };
        if !is_its || !is_as_long {
            return Error::wrong_state(format!(
                "the volume is on its way from {:?} to {:?}, which nobody asked for",
                said.from, said.to
            ));
        }
        if said.waits && (self.way.leads.get() || said.moved_bytes > 0) {
            return Error::wrong_state(format!("a volume waits that leads, or has begun: {said:?}"));
        }
        Ok(())
    }

    /// It serves and is on no way: by the layout that is known, and as large as it was; but for the one that was named, if it has just come, or stays. `all_rest`: so are the others of
    /// its array; drives that it has left are shown with it as long as another one needs them.
    fn judge_rest(&self, shown: &VolumeInfo, was_named: bool, all_rest: bool) -> Result<()> {
        let layout = self.layout();
        let has_more = !all_rest && shown.drives.len() > layout.drives().as_usize();
        let is_it = is_by(shown, &layout) || has_more && is_of_kind(shown, &layout);
        if !is_it {
            return Error::wrong_state(format!(
                "the volume is {} over {} drives, strip {}, and is to be {} over {}, strip {}",
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
                "hosts can use {has} bytes of the volume, and {had} before, and nobody asked for that"
            ));
        }
        Ok(())
    }

    /// Nobody asked for a journal, and the way for which it was thought to have one is over.
    fn has_no_journal_any_more(&self) {
        if self.way.supposes_journal.replace(false) {
            self.had_journal.set(false);
        }
    }

    /// It has come to the layout that it was on its way to.
    fn has_come(&self, shown: &VolumeInfo) {
        let Some(next) = self.next_layout() else { return };
        if self.way.grows.get() {
            return self.stays(shown);
        }
        let is_down = migrations::is_down(&self.layout(), &next);
        self.way.done.set(self.way.done.get() + 1);
        self.way.may_move.set(false);
        // How long the one is that was named shows when it serves, which may be in another life. One that follows keeps its size.
        if self.way.leads.get() {
            self.way.capacity.set(0);
        }
        self.has_no_journal_any_more();
        self.synced.set(false);
        self.count(|tally| {
            tally.moved += 1;
            tally.moved_down += u64::from(is_down);
        });
        self.tell(|| format!("the volume has come to {} over {} drives", next.level(), next.drives().0));
    }

    /// Whether a start may go on with it yet, since labels that are not read now may tell of it: it lost drives while it began, or one is missing
    /// that was in use until then. One that was out before takes part in no beginning.
    fn is_held_up(&self, shown: &VolumeInfo) -> bool {
        let out = self.array.out.get();
        let mut drives = shown.drives.iter().enumerate();
        let is_missing = drives.any(|(slot, drive)| {
            drive.state == DriveState::Missing && !out.contains(DriveIndex(slot as u16))
        });
        !shown.state.serves() && (self.way.is_of_this_life.get() || is_missing)
    }

    /// It is on its way no more, and where it was.
    fn stays(&self, shown: &VolumeInfo) {
        if !self.way.may_move.replace(false) {
            return;
        }
        self.has_no_journal_any_more();
        let is_longer = self.way.grows.replace(false) && shown.capacity_bytes > self.way.had.get();
        if is_longer {
            // It may not serve yet, and the next look, at which it does, has no order to explain the length by.
            self.way.capacity.set(shown.capacity_bytes);
            self.synced.set(false);
            self.count(|tally| tally.grown += 1);
        }
        self.tell(|| match is_longer {
            true => format!("the volume has {} now", ByteCount(shown.capacity_bytes)),
            false => "the volume stays as it is".to_owned(),
        });
    }
}

/// The controller said how a volume is. `orders`: what there was of [`Way::changes`] when it was asked.
///
/// # Errors
/// When it is not by a layout that was asked for, or what is said of all volumes of its array cannot be.
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
    let Ok(Reply::Volumes { volumes: all }) = control.command(env, Command::VolumeList {}).await else {
        return Error::wrong_state("the volumes cannot be listed");
    };
    let of_array: Vec<VolumeInfo> = all.into_iter().filter(|other| other.array == shown.array).collect();
    if is_old() { Ok(()) } else { note(&volumes, &of_array) }
}

/// What the controller says at one time of the volumes of an array.
fn note(volumes: &[Rc<Scene>], shown: &[VolumeInfo]) -> Result<()> {
    let of = |volume: &Rc<Scene>| shown.iter().find(|shown| shown.name == volume.setup.name());
    let there: Vec<(&Rc<Scene>, &VolumeInfo)> =
        volumes.iter().filter_map(|volume| Some((volume, of(volume)?))).collect();
    let Some(&(first, of_first)) = there.iter().find(|(volume, _)| !volume.setup.is_neighbour()) else {
        return Ok(()); // It is nowhere.
    };
    // Those that were named, and may have just come, or stay.
    let named: Vec<bool> =
        there.iter().map(|(volume, _)| volume.may_move() && volume.way.leads.get()).collect();
    let all_rest = there.iter().all(|(_, shown)| shown.reshape.is_none());
    if !all_rest {
        note_on_their_way(&there)?;
    } else {
        note_at_rest(first, of_first)?;
        let others = volumes.iter().filter(|volume| volume.setup.is_neighbour() && !first.may_move());
        // One that is not there is created by the layout that the first one has then. Its creation
        // may be under way, ordered before the first one came.
        others.for_each(|volume| match (first.way.done.get() > volume.way.done.get(), of(volume)) {
            (true, Some(shown)) => volume.has_come(shown),
            // It may become longer at the next start.
            (false, Some(shown)) if volume.way.grows.get() && volume.is_held_up(shown) => {}
            (false, Some(shown)) => volume.stays(shown),
            (_, None) => {
                volume.way.done.set(first.way.done.get());
                volume.way.may_move.set(false);
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
        // Drives that were removed are nobody's.
        first.array.shrink(first.layout().drives());
    }
    first.array.note_losses();
    Ok(())
}

/// One is on its way, or is to be.
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
    // Of one that is not served nobody knows what the next start finds, and goes on with: it may lack drives that have it.
    let have_come = there
        .iter()
        .filter(|(volume, shown)| shown.reshape.is_none() && volume.may_move() && shown.state.serves());
    if moving > 1 || is_led && have_come.clone().next().is_some() {
        let said =
            there.iter().map(|(volume, shown)| format!("{}: {:?}", volume.setup.name(), shown.reshape));
        let said: Vec<String> = said.collect();
        return Error::wrong_state(format!(
            "volumes of one array do not move one after the other: {}",
            said.join("; ")
        ));
    }
    have_come.for_each(|(volume, shown)| volume.has_come(shown));
    Ok(())
}

/// None of an array's volumes is on its way: by which layout the first one is.
fn note_at_rest(first: &Scene, shown: &VolumeInfo) -> Result<()> {
    match first.next_layout() {
        // One that stays where it is has the same layout before and after.
        _ if is_by(shown, &first.layout()) && first.is_held_up(shown) => {}
        Some(next) if is_by(shown, &next) => first.has_come(shown),
        _ if is_by(shown, &first.layout()) => first.stays(shown),
        _ => {
            return Error::wrong_state(format!(
                "the volume is {} over {} drives, strip {}, which nobody asked for",
                shown.level,
                shown.drives.len(),
                shown.strip_bytes
            ));
        }
    }
    Ok(())
}
