//! The reconciler: checks all arrays after each change, and starts the missing work.
//!
//! It decides by the labels alone, never by its own history. A missing member gets a spare, stale
//! regions a rebuild, a drive being filled a copy, unsynced regions a resync. A drive that predicts
//! its failure gets a replacement. An active hot spare is copied back to the drive that replaced
//! the failed one. A restart therefore continues the work of a killed process.
//!
//! Its changes and those of operators' commands run one at a time.

use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::{EventCode, Subject};
use crate::interface::TaskKind;
use crate::inventory::Drive;
use crate::inventory::health;
use crate::reconcile::Reconciler;
use crate::reconcile::choose::{Offer, choose_spare};
use crate::reconcile::spares::{describe_need, is_redundant};
use crate::signals::wait_or;
use crate::tasks::About;
use ondisk::{Bay, Cause, Label, Member, SpareLabel, StandIn};
use std::rc::Rc;
use std::time::Duration;
use units::counted;

/// How long a drive that was missing at the start of its array may still appear before a spare
/// takes its slot.
const LATE: Duration = Duration::from_secs(60);

/// The interval of checks without a notification.
const IDLE: Duration = Duration::from_secs(3600);

impl Reconciler {
    /// Queries the health of drives until the controller stops.
    pub(crate) async fn watch_health(self: Rc<Self>) {
        let mut next = self.env.now() + health::FIRST;
        loop {
            let stops = || self.attention.is_closing();
            if wait_or(&self.env, self.attention.changed(), stops, next).await {
                return;
            }
            for drive in
                self.inventory.ask_health(|drive, why| self.report_suspected(drive, why)).await
            {
                self.put_changed_out(&drive).await;
            }
            self.arrays.follow_drive_caches().await;
            self.arrays.look_at_alignment();
            self.look_at_spares().await;
            self.lifecycle.remember_arrays().await;
            next = self.env.now() + health::INTERVAL;
        }
    }

    /// Checks all arrays until the controller stops.
    pub(crate) async fn run(self: Rc<Self>) {
        while !self.attention.is_closing() {
            let seen = self.attention.seen();
            {
                let _turn = self.turn.take(1).await;
                if self.attention.is_closing() {
                    return;
                }
                self.lifecycle.take_in_late().await;
                for array in self.arrays.all() {
                    if array.is_running() && !array.has_lost() {
                        self.reconcile_array(&array).await;
                    }
                }
            }
            self.tasks.begin_scheduled();
            self.tasks.take_all_in_hand();
            let until = self.env.now() + self.tasks.until_scheduled().min(IDLE);
            let news = || self.attention.seen() != seen || self.attention.is_closing();
            wait_or(&self.env, self.attention.changed(), news, until).await;
        }
    }

    async fn reconcile_array(self: &Rc<Self>, array: &Rc<Array>) {
        if let Err(why) = self.arrays.leave_cut_off(array).await {
            tracing::warn!(
                "an interrupted reshape of {} could not be rolled back: {why}",
                array.names()
            );
            self.attention.look_again_in(LATE);
        }
        let (moving, is_held_up) = (array.on_its_way(), array.waits_for_drives());
        self.tasks.ensure_reshapes(array, "its reshape was interrupted");
        // Commands also run one at a time, so none of them concerns a slot that is removed here.
        if let Err(why) = self.arrays.let_members_go(array).await {
            tracing::warn!("{why}");
            return self.attention.look_again_in(LATE);
        }
        let label = array.label();
        // Drives are replaced after the reshape, except missing drives without which the reshape
        // cannot continue.
        let members = label.member.iter().enumerate().filter(|_| moving.is_none() || is_held_up);
        for (slot, member) in members {
            if is_held_up && !array.waits_for_drives() {
                break; // One drive has taken a slot; that is enough.
            }
            if !member.is_online() {
                self.reconcile_missing(array, slot, &label).await;
            } else if is_held_up {
                self.reconcile_stale(array, slot, &label);
            } else if member.replacement.is_some() {
                self.reconcile_replacement(array, slot, &label);
            } else if !array.left(&member.stale).is_empty() {
                self.reconcile_stale(array, slot, &label);
            } else {
                self.reconcile_serving(array, slot, &label).await;
            }
        }
        for volume in array.served() {
            if !volume.own_regions(&array.unsynced_regions()).is_empty() {
                self.reconcile_unsynced(array, &volume);
            }
        }
    }

    /// Reports a drive that predicts its failure, or is worn out.
    fn report_suspected(&self, drive: &Drive, why: &str) {
        let place = self.arrays.place_of(drive);
        let effect = match &place {
            Some((array, _)) if array.label().policy.drive_guard => {
                "it is copied to a spare, if one fits"
            }
            Some(_) => "the drive stays online; replace it (predictive-failure copy is off)",
            None => "it is not used as a spare any more",
        };
        let array = place.map(|(array, _)| array.name());
        let about = match &array {
            Some(array) => Subject::both(&drive.name, array),
            None => Subject::from(&drive.name),
        };
        let text = format!("drive {} {why}: {effect}", drive.name);
        self.events.report(
            EventCode::DrivePredictsFailure,
            about,
            &format!("drive {} {why}", drive.name),
            effect,
            text,
        );
        self.attention.look_after();
    }

    /// Handles a missing member: a drive that appeared in its bay takes the slot, or else a spare.
    async fn reconcile_missing(self: &Rc<Self>, array: &Rc<Array>, slot: usize, label: &Label) {
        let member = &label.member[slot];
        let since_start = self.env.now().since(self.began);
        match member.cause {
            // An operator brings it back.
            Some(Cause::Offline | Cause::OperatorSuspended) => return,
            Some(Cause::Suspended) => return self.reconcile_suspended(array, slot).await,
            Some(Cause::Missing) if since_start < LATE => {
                return self.attention.look_again_in(LATE - since_start);
            }
            _ => {}
        }
        let is_taken = array.is_taken_over(slot);
        if !is_redundant(array) || is_taken || self.is_returning(array, slot) {
            return;
        }
        if let Some(drive) = self.blank_in_bay(array.drive(slot).as_deref()).await {
            let cause =
                format!("drive {} was inserted in the bay of drive {}", drive.name, member.name);
            return self.take_slot(array, slot, &drive, None, &cause).await;
        }
        let need = self.need_of(array, Some(slot));
        let offers = self.offers(array).await;
        let (drives, offers): (Vec<Rc<Drive>>, Vec<Offer>) = offers.into_iter().unzip();
        match choose_spare(&need, &offers) {
            Ok(chosen) => {
                let drive = drives[chosen].clone();
                let stands_in = self.stand_in(&drive, member, array.drive(slot).as_deref());
                let cause = format!(
                    "spare {} takes the slot of drive {}, which is out of service",
                    drive.name, member.name
                );
                self.take_slot(array, slot, &drive, Some(stands_in), &cause).await;
            }
            Err(why) => {
                self.reconcile_spread(array, slot, member);
                let what =
                    format!("no spare can replace drive {} of {}", member.name, label.names());
                let needs = format!("{} is needed", describe_need(&need));
                self.report_once(array, &what, member.since, &why_none(&why, &needs));
            }
        }
    }

    /// Handles a suspended member: nothing changes until it returns, or its time limit has passed.
    async fn reconcile_suspended(self: &Rc<Self>, array: &Rc<Array>, slot: usize) {
        match self.arrays.suspended_for_another(array, slot) {
            None => {}
            Some(left) if !left.is_zero() => self.attention.look_again_in(left),
            Some(_) if self.arrays.fail_suspended(array, slot).await => {}
            Some(_) => self.attention.look_again_in(LATE),
        }
    }

    /// A slot has no drive and no spare: a distributed spare, if present, takes its content.
    fn reconcile_spread(self: &Rc<Self>, array: &Rc<Array>, slot: usize, member: &Member) {
        for volume in array.served().iter().filter(|volume| volume.geometry.spare_strips() > 0) {
            let moved = volume.label().relocated;
            let (mine, regions) = match &moved {
                Some(moved) => (usize::from(moved.slot) == slot, moved.regions.regions()),
                None => (true, 0),
            };
            let all = volume.regions().len() as u64;
            if !mine || regions >= all {
                continue;
            }
            let left = u32::try_from(all - regions).unwrap_or(u32::MAX);
            let total = crate::tasks::regions_bytes(volume, left, volume.label().member_bytes);
            let about = About {
                slot: u16::try_from(slot).ok(),
                ..About::of_volume(array.uuid, volume.uuid())
            };
            let cause =
                format!("drive {} is out of service, and no drive replaces it", member.name);
            self.tasks.ensure(array, TaskKind::Relocate, about, total, &cause);
        }
    }

    /// A slot serves again: its content moves back from the distributed spare.
    fn reconcile_gathered(self: &Rc<Self>, array: &Rc<Array>, slot: usize, member: &Member) {
        for volume in array.served() {
            let moved = volume.label().relocated.filter(|moved| usize::from(moved.slot) == slot);
            let Some(moved) = moved else { continue };
            let regions = u32::try_from(moved.regions.regions()).unwrap_or(u32::MAX);
            let total = crate::tasks::regions_bytes(&volume, regions, volume.label().member_bytes);
            let about =
                About { slot: Some(moved.slot), ..About::of_volume(array.uuid, volume.uuid()) };
            let cause = format!(
                "drive {} has the slot whose content is in the distributed spare",
                member.name
            );
            self.tasks.ensure(array, TaskKind::Restore, about, total, &cause);
        }
    }

    /// Whether the missing drive is about to return by itself.
    fn is_returning(&self, array: &Array, slot: usize) -> bool {
        matches!(
            array.places().get(slot).map(|place| &place.role),
            Some(ondisk::Role::Left(Cause::Missing))
        ) && array.drive(slot).is_some()
    }

    /// Puts a drive into a slot without one; the rebuild follows automatically.
    async fn take_slot(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        stands_in: Option<StandIn>,
        cause: &str,
    ) {
        let spare = drive.spare();
        match self.lifecycle.replace_with(array, slot, drive, stands_in).await {
            Ok(()) => {
                self.arrays.go_on_with(array).await;
                self.reconcile_stale_because(array, slot, &array.label(), cause);
            }
            Err(error) => {
                let text = format!("{cause}, but this failed: {}", error.message);
                let is_known = !self.is_to_blame(drive) && self.was_reported(array, &text);
                if !is_known {
                    let effect = "the slot stays empty";
                    self.events.report(
                        EventCode::ArraySlotEmpty,
                        &array.name(),
                        cause,
                        effect,
                        text,
                    );
                }
                return self.after_no_takeover(drive, spare).await;
            }
        }
        self.attention.look_after();
    }

    /// Whether a drive itself is the reason why it did not get a slot: it is not retried then.
    fn is_to_blame(&self, drive: &Drive) -> bool {
        drive.problem().is_some() || self.inventory.failure_of(drive).is_some()
    }

    /// Handles a drive that did not get a slot. If the drive itself is the reason, another one is
    /// tried at once. Otherwise the array has changed meanwhile; the drive becomes a spare again if
    /// it was one, and may be selected soon.
    async fn after_no_takeover(&self, drive: &Rc<Drive>, spare: Option<SpareLabel>) {
        if let Some(label) = spare.filter(|_| !self.is_to_blame(drive) && drive.spare().is_none())
            && let Err(error) = self.inventory.write_spare_label(drive, label).await
        {
            drive.set_problem(Some(error));
        }
        match self.is_to_blame(drive) {
            true => self.attention.look_after(),
            false => self.attention.look_again_in(LATE),
        }
    }

    /// Whether this was already reported for the array.
    fn was_reported(&self, array: &Array, text: &str) -> bool {
        !self.reported.borrow_mut().insert(format!("{} {text}", array.uuid))
    }

    /// The label's record of an active hot spare.
    fn stand_in(&self, spare: &Drive, member: &Member, home: Option<&Drive>) -> StandIn {
        let label = spare.spare();
        // It may replace another active hot spare: the original drive remains the one to be
        // replaced.
        let (instead_of, bay) = match &member.stands_in {
            Some(before) => (before.instead_of.clone(), before.bay.clone()),
            None => (member.name.clone(), home.and_then(bay_of)),
        };
        StandIn {
            instead_of,
            bay,
            scope: label.as_ref().map(|label| label.scope.clone()),
            revertible: label.is_none_or(|label| label.revertible),
        }
    }

    fn reconcile_stale(self: &Rc<Self>, array: &Rc<Array>, slot: usize, label: &Label) {
        let name = self.arrays.member_name(array, slot);
        self.reconcile_stale_because(array, slot, label, &format!("drive {name} is not current"));
    }

    fn reconcile_stale_because(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        label: &Label,
        cause: &str,
    ) {
        let Some(member) = label.member.get(slot) else { return };
        let total = self.bytes_left(array, &member.stale);
        if total == 0 {
            return;
        }
        self.tasks.ensure(
            array,
            TaskKind::Rebuild,
            About::of_drive(array.uuid, slot, member.uuid),
            total,
            cause,
        );
    }

    fn reconcile_replacement(self: &Rc<Self>, array: &Rc<Array>, slot: usize, label: &Label) {
        let member = &label.member[slot];
        let can_be_filled = |uuid| !array.is_unfillable(uuid);
        let replacement =
            member.replacement.as_ref().filter(|replacement| can_be_filled(replacement.uuid));
        let Some(replacement) = replacement else { return };
        let about = About::of_drive(array.uuid, slot, replacement.uuid);
        let known = self.tasks.is_known(TaskKind::Replace, &about);
        let is_back = member.stands_in.is_some() && replacement.stands_in.is_none() && !known;
        let kind = if is_back { TaskKind::Copyback } else { TaskKind::Replace };
        let cause = format!("drive {} is to replace drive {}", replacement.name, member.name);
        let total = self.bytes_left(array, &replacement.stale);
        self.tasks.ensure(array, kind, about, total, &cause);
    }

    fn reconcile_unsynced(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        let regions = volume.own_regions(&array.unsynced_regions());
        let total =
            crate::tasks::regions_bytes(volume, regions.len(), volume.label().capacity_bytes);
        let cause = format!(
            "the redundancy of {} may not agree with the data",
            counted(regions.len(), "region")
        );
        self.tasks.ensure(
            array,
            TaskKind::Resync,
            About::of_volume(array.uuid, volume.uuid()),
            total,
            &cause,
        );
    }

    /// Handles a serving, current member: its drive may predict its failure, or be an active hot
    /// spare that can return.
    async fn reconcile_serving(self: &Rc<Self>, array: &Rc<Array>, slot: usize, label: &Label) {
        let Some(drive) = array.drive(slot) else { return };
        let member = &label.member[slot];
        self.reconcile_gathered(array, slot, member);
        let goes_back = |stands_in: &&StandIn| label.policy.copyback && stands_in.revertible;
        if let Some(stands_in) = member.stands_in.as_ref().filter(goes_back)
            && let Some(home) = self.blank_in(stands_in.bay.as_ref()).await
        {
            let cause = format!(
                "drive {} was inserted in the bay of drive {}",
                home.name, stands_in.instead_of
            );
            return self.fill(array, slot, &home, None, TaskKind::Copyback, &cause).await;
        }
        let Some(why) = self
            .inventory
            .suspicion_of(&drive)
            .filter(|_| label.policy.drive_guard && is_redundant(array))
        else {
            return;
        };
        let need = self.need_of(array, Some(slot));
        let (drives, offers): (Vec<Rc<Drive>>, Vec<Offer>) =
            self.offers(array).await.into_iter().unzip();
        match choose_spare(&need, &offers) {
            Ok(chosen) => {
                let spare = drives[chosen].clone();
                let stands_in = self.stand_in(&spare, member, Some(&drive));
                let cause = format!("drive {} {why}", drive.name);
                self.fill(array, slot, &spare, Some(stands_in), TaskKind::Replace, &cause).await;
            }
            Err(reasons) => {
                let what = format!(
                    "no spare can replace drive {} of {}, which {why}",
                    drive.name,
                    label.names()
                );
                let needs = format!("{} is needed", describe_need(&need));
                self.report_once(array, &what, 0, &why_none(&reasons, &needs));
            }
        }
    }

    /// Begins to fill a replacement for a serving slot.
    async fn fill(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        stands_in: Option<StandIn>,
        kind: TaskKind,
        cause: &str,
    ) {
        let spare = drive.spare();
        match self.lifecycle.replace_with(array, slot, drive, stands_in).await {
            Ok(()) => {
                let label = array.label();
                if let Some(replacement) = &label.member[slot].replacement {
                    let total = self.bytes_left(array, &replacement.stale);
                    self.tasks.ensure(
                        array,
                        kind,
                        About::of_drive(array.uuid, slot, replacement.uuid),
                        total,
                        cause,
                    );
                }
            }
            Err(error) => {
                let text = format!("{cause}, but the copy failed: {}", error.message);
                let is_known = !self.is_to_blame(drive) && self.was_reported(array, &text);
                if !is_known {
                    let (code, effect) =
                        (EventCode::DriveReplacementFailed, "the old drive stays online");
                    let (name, array) = (&drive.name, array.name());
                    self.events.report(code, Subject::both(name, &array), cause, effect, text);
                }
                return self.after_no_takeover(drive, spare).await;
            }
        }
        self.attention.look_after();
    }

    /// A blank drive in the bay of that drive.
    async fn blank_in_bay(&self, gone: Option<&Drive>) -> Option<Rc<Drive>> {
        let bay = gone.and_then(bay_of);
        self.blank_in(bay.as_ref()).await
    }

    async fn blank_in(&self, bay: Option<&Bay>) -> Option<Rc<Drive>> {
        let bay = bay?;
        let drives: Vec<Rc<Drive>> = self.inventory.drives();
        for drive in drives {
            if bay_of(&drive).as_ref() == Some(bay)
                && self.inventory.suspicion_of(&drive).is_none()
                && self.is_blank(&drive).await
            {
                return Some(drive);
            }
        }
        None
    }

    /// How much of a member is stale in these regions, in bytes.
    fn bytes_left(&self, array: &Array, regions: &ondisk::Runs) -> u64 {
        let set = array.left(regions);
        let of_volume = |volume: &Rc<Volume>| {
            let own = volume.own_regions(&set).len();
            crate::tasks::regions_bytes(volume, own, volume.label().member_bytes)
        };
        array.volumes().iter().map(of_volume).sum()
    }

    /// Reports a problem once for each reason and generation.
    fn report_once(&self, array: &Array, what: &str, since: u64, why: &str) {
        if self.was_reported(array, &format!("{since} {what}: {why}")) {
            return;
        }
        self.events.report(
            EventCode::ArrayNoSpare,
            &array.name(),
            why,
            "nothing was changed",
            format!("{what}: {why}"),
        );
    }
}

/// The bay of a drive, as the system reports it.
fn bay_of(drive: &Drive) -> Option<Bay> {
    let access = drive.access()?;
    let hardware = &access.info().hardware;
    Some(Bay { enclosure: hardware.enclosure.clone()?, slot: hardware.slot.clone()? })
}

/// Why no spare fits, for use within a sentence.
fn why_none(reasons: &[String], needs: &str) -> String {
    match reasons {
        [] => format!("there is none; {needs}"),
        some => format!("{needs}; {}", some.join("; ")),
    }
}
