//! Labels of a started array: how a change of their content becomes durable.
//!
//! # Invariants
//! - A change has its own generation. It is on every drive that it calls online before an operation
//!   that relies on it is acknowledged, and before the next change begins. `confirmed` in a label
//!   is a generation that was completed so.
//! - A failed attempt uses its generation up, for its label may be on some drive. Nothing relies on
//!   it.
//! - A drive that cannot take the label goes out in the next attempt, which the others must take.
//! - A full backing store is no failure of the drive: the attempt fails. A drive failure that it
//!   should record is kept (`unrecorded`) and retried until it is recorded. Until then no mark is
//!   cleared.
//! - A label that calls a drive out which a volume needs records that (`lost` of that volume): the
//!   volume is offline from then on, nothing is written to it, and the drive stays current for it.
//!   If no volume could continue, nothing is recorded at all, until the array is restarted: after
//!   two changes that a lost drive lacks, its data would count as a copy from an earlier time.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::failures::{Failing, failing};
use crate::arrays::volume::Volume;
use crate::events::{EventCode, Subject};
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::Drive;
use crate::inventory::access::{ASK_AGAIN_AFTER, ASK_AGAIN_FOR};
use crate::inventory::structures::write_structures;
use engine::Change;
use ondisk::{Cause, FailedDrive, Label, MAX_LEAD, MemberState, Telling, slots};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::{DriveSet, counted};

/// The interval of retries to record failures for which there was no space.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(5);

const TOO_MANY_ATTEMPTS: &str = "too many attempts to record a change have failed; stop the \
    controller, free space and start it again";

impl Arrays {
    /// Writes `next`, with the next generation and those `failing` out, to all drives that it calls
    /// online; then notifies the shards. A drive that cannot take it goes out too, with one more
    /// generation. Returns whether it is durable on all remaining drives; if not, the array's label
    /// stays as it was, but the generation is used up. The caller holds the metadata lock.
    pub(crate) async fn commit(
        self: &Rc<Self>,
        array: &Rc<Array>,
        mut next: Label,
        mut failing: Vec<Failing>,
    ) -> bool {
        if array.deleted.get() {
            return false;
        }
        for one in array.unrecorded.take() {
            if failing.iter().all(|other| other.slot != one.slot) {
                failing.push(one);
            }
        }
        next.confirmed = array.confirmed();
        // Before a start has read the record, its size is only known from the label.
        next.initialisation_blocks = array.record_blocks().or(next.initialisation_blocks);
        let (before, _going) = (array.label(), Going(array));
        next.generation = next.generation.max(before.generation);
        // A drive that was to join, and does not, has no slot any more.
        failing.retain(|one| one.slot < next.member.len());
        loop {
            self.judge_by_policy(array, &mut failing);
            next.generation += 1;
            note_entering(&mut next, &before);
            let goes_on = self.put_out_of(array, &mut next, &failing);
            let loses = !failing.is_empty() || !array.lost.borrow().is_empty();
            if loses && !goes_on {
                array.use_up(next.generation);
                self.lose(array, failing);
                return false;
            }
            let errors = match next.generation - next.confirmed {
                0..=MAX_LEAD => match check_readable(&next) {
                    Ok(()) => {
                        self.until_not_busy(async || self.write_labels(array, &next).await).await
                    }
                    Err(why) => Err(why),
                },
                _ => Err(TOO_MANY_ATTEMPTS.to_owned()),
            };
            let why = match errors {
                Ok(errors) if errors.is_empty() => {
                    self.committed(array, next, &failing);
                    if !failing.is_empty() {
                        self.set_health(array, &entering(&before, &array.label())).await;
                        self.use_replacements(array, &failing);
                    }
                    return true;
                }
                Ok(errors) => match errors.values().find(|error| error.spares_drive()) {
                    Some(full) => full.to_string(),
                    None => {
                        failing.extend(self::failing(errors, "writing its label"));
                        continue;
                    }
                },
                Err(why) => why,
            };
            array.use_up(next.generation);
            self.report_not_recorded(array, &why);
            self.try_again_later(array, failing);
            return false;
        }
    }

    /// Writes to drives, and retries for some time while the system is busy.
    pub(super) async fn until_not_busy<E>(
        &self,
        write: impl AsyncFn() -> std::result::Result<BTreeMap<usize, IoError>, E>,
    ) -> std::result::Result<BTreeMap<usize, IoError>, E> {
        let until = self.env.now() + ASK_AGAIN_FOR;
        let is_busy = |error: &IoError| error.kind == IoErrorKind::Busy;
        loop {
            match write().await {
                Ok(errors) if errors.values().any(is_busy) && self.env.now() < until => {
                    self.env.sleep(ASK_AGAIN_AFTER).await;
                }
                result => return result,
            }
        }
    }

    /// Records in a label that these drives are out. Returns whether any volume continues.
    fn put_out_of(&self, array: &Array, next: &mut Label, failing: &[Failing]) -> bool {
        let Label { generation, confirmed, .. } = *next;
        array.work.going.set(slots(failing.iter().map(|failing| failing.slot)));
        for Failing { slot, cause, what, is_lasting } in failing {
            let member = &mut next.member[*slot];
            if member.is_online() {
                let failed = is_lasting.then(|| FailedDrive {
                    uuid: member.uuid,
                    identity: array.drive(*slot).and_then(|drive| drive.lasting_identity()),
                    name: member.name.clone(),
                    why: what.clone(),
                    at_unix_s: self.env.unix_time(),
                });
                // A drive that was only about to come back may lack all changes since it left.
                let knew = if member.since > confirmed { member.knew } else { confirmed };
                (member.state, member.since, member.knew) = (MemberState::Failed, generation, knew);
                member.cause = Some(*cause);
                if let Some(replacement) = member.replacement.take() {
                    array.work.left_replacements.borrow_mut().insert(*slot, replacement);
                }
                failed.into_iter().for_each(|failed| next.remember_failed(failed));
            }
        }
        let gone: DriveSet = slots(failing.iter().map(|failing| failing.slot));
        let out = next.out().union(&array.out());
        lose_what_is_needed(array, next, &gone, &out)
    }

    fn committed(self: &Rc<Self>, array: &Rc<Array>, label: Label, failing: &[Failing]) {
        let before: Vec<(ondisk::Uuid, bool)> = array
            .volumes()
            .iter()
            .map(|volume| (volume.uuid(), volume.lost().is_empty()))
            .collect();
        array.set_label(&self.env, label);
        self.note_suspended(array, failing);
        failing.iter().for_each(|failing| self.report_out(array, failing));
        self.remember_failed(array);
        let (inventory, label) = (self.inventory.clone(), array.label());
        self.env.spawn(
            "remember an array",
            async move { inventory.remember_arrays(vec![label]).await },
        );
        self.attention.look_after();
        for (uuid, was_whole) in before {
            if let Some(volume) = array.volume(uuid)
                && was_whole
                && !volume.lost().is_empty()
                && volume.is_served()
            {
                self.report_lost(array, &volume, failing);
                // Other volumes continue: this one must not be served in a wrong state.
                let (this, array) = (self.clone(), array.clone());
                self.env.spawn("detach", async move { this.withdraw(&array, &volume).await });
            }
        }
    }

    /// The failed drives in the label of an array are recorded by the controller too: the array may
    /// be deleted.
    pub(crate) fn remember_failed(self: &Rc<Self>, array: &Array) {
        let (label, places) = (array.label(), array.places());
        // Labels cannot identify a device without a serial number: the controller knows it by its
        // path.
        let drive_of = |failed: &FailedDrive| {
            let slot = label.member.iter().position(|member| member.uuid == failed.uuid);
            let member = slot.and_then(|slot| places.get(slot)?.drive.clone());
            let filled = || places.iter().filter_map(|place| place.replacement.clone());
            member.or_else(|| filled().find(|drive| drive.name == failed.name))
        };
        let known_here = |failed: &FailedDrive| {
            let drive = drive_of(failed).filter(|drive| drive.access().is_some());
            let identity = failed.identity.clone().or_else(|| Some(drive?.identity_here()));
            FailedDrive { identity, ..failed.clone() }
        };
        let failed: Vec<FailedDrive> = label.failed.iter().map(known_here).collect();
        if self.inventory.note_failed(&failed) {
            let this = self.clone();
            self.env.spawn(
                "remember failed drives",
                async move { this.inventory.store_failed().await },
            );
        }
    }

    /// Stores failures that could not be recorded, and retries until the array is stopped.
    fn try_again_later(self: &Rc<Self>, array: &Rc<Array>, failing: Vec<Failing>) {
        if failing.is_empty() {
            return;
        }
        *array.unrecorded.borrow_mut() = failing;
        let Some(running) = array.running() else { return };
        if running.recording.replace(true) {
            return;
        }
        let (this, array) = (self.clone(), array.clone());
        self.env.spawn("record failures", async move {
            while !running.stopped.get() && !array.unrecorded.borrow().is_empty() {
                this.env.sleep(TRY_AGAIN).await;
                let _turn = array.metadata.take(1).await;
                if !running.stopped.get() && !array.unrecorded.borrow().is_empty() {
                    this.put_out(&array, Vec::new()).await;
                }
            }
            running.recording.set(false);
        });
    }

    /// Takes drives out of the array: recorded on all others, then reported to the shards. Returns
    /// whether the array continues. The caller holds the metadata lock.
    pub(crate) async fn put_out(self: &Rc<Self>, array: &Rc<Array>, failing: Vec<Failing>) -> bool {
        self.commit(array, array.label(), failing).await
    }

    fn report_not_recorded(&self, array: &Array, why: &str) {
        let text = format!(
            "the state of {} cannot be recorded on its drives ({why}): writes that depend on it \
             fail; free space on the file systems of its drive files, or memory of this system",
            array.names()
        );
        self.events.report(EventCode::ArrayNotRecorded, &array.name(), why, "writes fail", text);
    }

    /// Writes a label in parallel to every drive that it calls online, and to replacements. Returns
    /// the members that failed.
    ///
    /// # Errors
    /// When the label itself is invalid: nothing was written.
    pub(crate) async fn write_labels(
        &self,
        array: &Array,
        label: &Label,
    ) -> std::result::Result<BTreeMap<usize, IoError>, String> {
        let written = self.watch_writes(array);
        let mut seats: Vec<(usize, Option<Rc<Drive>>, ondisk::Uuid)> = Vec::new();
        let mut replacements = Vec::new();
        for (slot, member) in label.member.iter().enumerate() {
            let place = array.places().get(slot).cloned();
            if member.is_online() && !array.lost.borrow().contains_key(&slot) {
                let drive = place.as_ref().and_then(|place| place.drive.clone());
                written.watch(slot, drive.as_ref().and_then(|drive| drive.access()).as_ref());
                seats.push((slot, drive, member.uuid));
            }
            if let Some(replacement) = &member.replacement {
                replacements.push((
                    slot,
                    place.and_then(|place| place.replacement),
                    replacement.uuid,
                ));
            }
        }
        let members = seats.len();
        seats.extend(replacements);
        let telling = Telling::of(label).map_err(|error| error.to_string())?;
        let mut updates = Vec::new();
        let mut failed = BTreeMap::new();
        for (number, (_, drive, uuid)) in seats.iter().enumerate() {
            match drive.as_ref().and_then(|drive| Some((drive, site_of(drive, label)?))) {
                Some((drive, site)) => {
                    let told = telling.told(&site, *uuid).map_err(|error| error.to_string())?;
                    updates.push((number, drive.clone(), told));
                }
                None => {
                    failed.insert(number, IoError::new(IoErrorKind::Gone));
                }
            }
        }
        failed.extend(write_structures(updates).await);
        let mut errors = BTreeMap::new();
        for (number, (slot, _, uuid)) in seats.iter().enumerate() {
            match failed.get(&number) {
                Some(error) if number < members => {
                    errors.insert(*slot, *error);
                }
                Some(error) => {
                    tracing::warn!(
                        "the label of the replacement for slot {slot} cannot be written: {error}"
                    );
                    array.work.lost_replacements.borrow_mut().insert(*slot, (*uuid, *error));
                    array.work.changed.notify(&self.env);
                }
                None => {}
            }
        }
        Ok(errors)
    }

    /// Writes an array's label to one of its drives.
    ///
    /// # Errors
    /// When it cannot be written there.
    pub(crate) async fn write_label(
        &self,
        drive: &Rc<Drive>,
        label: &Label,
        own: ondisk::Uuid,
    ) -> std::result::Result<(), IoError> {
        let site = site_of(drive, label).ok_or(IoError::new(IoErrorKind::Gone))?;
        let told = Telling::of(label).and_then(|telling| telling.told(&site, own));
        let told = told.map_err(|error| {
            tracing::error!("the label of {} cannot be written: {error}", label.names());
            IoError::new(IoErrorKind::Invalid)
        })?;
        let failed = write_structures(vec![(0, drive.clone(), told)]).await;
        failed.into_values().next().map_or(Ok(()), Err)
    }

    /// Records on a responding drive that it is out: without the others it must not act as the
    /// array.
    pub(crate) async fn record_out(&self, array: &Array, slot: usize) {
        let label = array.label();
        let Some(drive) = array.drive(slot) else { return };
        let written = self.write_label(&drive, &label, label.member[slot].uuid).await;
        if let Err(error) = written {
            let text = format!(
                "drive {} is out of service in {}, but its label could not be updated \
                ({error}): do not start the array from this drive alone",
                drive.name,
                array.names()
            );
            self.events.report(
                EventCode::DriveNotInformed,
                Subject::both(&drive.name, &array.name()),
                &error.to_string(),
                "the label of the drive still says that the drive is a current member",
                text,
            );
        }
    }

    /// No volume tolerates the loss of these drives: all are offline until the drives are back.
    fn lose(&self, array: &Rc<Array>, failing: Vec<Failing>) {
        for Failing { slot, what, .. } in failing {
            let (name, volumes) = (self.member_name(array, slot), array.names());
            let text = format!(
                "drive {name} failed ({what}), which exceeds the redundancy of {volumes}: \
                {volumes} {} offline; reconnect the drive and run 'softroc volume start {}'",
                if array.known_volumes().len() == 1 { "is" } else { "are" },
                array.name()
            );
            array.lost.borrow_mut().insert(slot, text.clone());
            self.events.report(
                EventCode::VolumeOffline,
                Subject::both(&array.name(), &name),
                &format!("drive {name}: {what}"),
                "the volume is offline",
                text,
            );
        }
        array.look_at_state(self.env.unix_time());
    }

    /// Reports a volume that needs drives whose loss other volumes of the array tolerate.
    fn report_lost(&self, array: &Array, volume: &Volume, failing: &[Failing]) {
        let names: Vec<String> =
            failing.iter().map(|failing| self.member_name(array, failing.slot)).collect();
        let (volume, names) = (volume.name(), names.join(", "));
        let text = format!(
            "'{volume}' needs drive {names} and is offline; when the drive works again, run \
            'softroc drive online {}'",
            names
        );
        self.events.report(
            EventCode::VolumeOffline,
            &volume,
            &format!("drive {names} is out of service"),
            "the volume is offline",
            text,
        );
    }

    pub(super) fn report_out(&self, array: &Array, failing: &Failing) {
        let Failing { slot, cause, what, .. } = failing;
        let name = self.member_name(array, *slot);
        let effect = self.describe_state(array);
        let code = match cause {
            Cause::Missing => EventCode::DriveMissing,
            Cause::Offline => EventCode::DriveOffline,
            Cause::Operator => EventCode::DriveDeclaredFailed,
            Cause::Error => EventCode::DriveFailed,
            Cause::Suspended => EventCode::DriveSuspended,
            Cause::OperatorSuspended => EventCode::DriveSuspendedByOperator,
        };
        let text = match cause {
            Cause::Missing => format!("drive {name} of {} is missing: {effect}", array.names()),
            Cause::Offline => format!("drive {name} was taken offline by an operator: {effect}"),
            Cause::Operator => format!("drive {name} was declared failed by an operator: {effect}"),
            Cause::Error => format!("drive {name} failed ({what}): {effect}"),
            Cause::Suspended => format!(
                "drive {name} is suspended ({what}): {effect}; it is used again when it responds, \
                and fails if it does not respond within {} s",
                array.label().policy.suspend_limit_s
            ),
            Cause::OperatorSuspended => format!(
                "drive {name} was suspended by an operator: {effect}; to use it again, run \
                'softroc drive resume {name}'"
            ),
        };
        array.set_reason(*slot, Some(text.clone()));
        let about = (&name, array.name());
        let about = Subject::both(about.0, &about.1);
        self.events.report(code, about, &format!("drive {name}: {what}"), &effect, text);
        array.look_at_state(self.env.unix_time());
    }

    /// The state of an array's volumes without the drives that are out, as part of a sentence.
    pub(super) fn describe_state(&self, array: &Array) -> String {
        let mut told = Vec::new();
        for volume in array.known_volumes() {
            let (name, behind, out) = (volume.name(), array.behind(&volume), array.out_of(&volume));
            // Its parts are not shown to users, and it cannot continue without one of them.
            let parts = array.with_parts(&volume);
            let is_whole = parts.iter().all(|part| part.survives(&out.union(&array.behind(part))));
            let left = || array.tolerance(&volume).more();
            let left = is_whole.then(|| (left().at_least.0, left().at_most.0));
            told.push(match left {
                Some(_) if out.is_empty() && behind.is_empty() => format!("'{name}' is complete"),
                Some(_) if out.is_empty() => {
                    format!("'{name}' is degraded until the rebuild is done")
                }
                Some((0, 0)) => format!("'{name}' is degraded; another failure loses data"),
                Some((0, _)) => format!("'{name}' is degraded; another failure may lose data"),
                Some((at_least, at_most)) if at_least == at_most => {
                    format!(
                        "'{name}' is degraded and survives {}",
                        counted(at_least, "more failure")
                    )
                }
                Some((at_least, at_most)) => {
                    format!(
                        "'{name}' is degraded and survives {at_least} to {at_most} more failures"
                    )
                }
                None => format!("'{name}' cannot be served"),
            });
        }
        if told.len() > 4 {
            let more = told.split_off(3).len();
            told.push(format!("and so on for {}", counted(more, "more volume")));
        }
        told.join("; ")
    }

    /// The name of the drive in a slot, present or not.
    pub(crate) fn member_name(&self, array: &Array, slot: usize) -> String {
        let recorded = || {
            array.label().member.get(slot).map_or_else(String::new, |member| member.name.clone())
        };
        array.drive(slot).map_or_else(recorded, |drive| drive.name.clone())
    }

    /// Notifies the shards which drives to use, as recorded. Slots in `entering` get a drive by the
    /// next change for the shards: until then a shard has the previous drive, and does not know its
    /// stale regions.
    async fn set_health(&self, array: &Array, entering: &DriveSet) {
        for volume in array.served() {
            let in_service = array.in_service(&volume).minus(entering);
            let (Some(id), change) = (volume.id(), Change::InService(in_service)) else { continue };
            if let Err(why) = self.apply(id, &change).await {
                tracing::error!(
                    "some threads of SoftROC lack the latest state of '{}': {why}",
                    volume.name()
                );
            }
        }
    }

    /// Checks whether a change of a volume's label can be recorded: on the drives of a started
    /// array, or on all drives of a stopped one.
    ///
    /// # Errors
    /// What to do first.
    pub(crate) fn check_can_record(&self, array: &Array, name: &str) -> Result<()> {
        let wrong = |sentence: String| Err(Error::new(ErrorKind::WrongState, sentence));
        let complete = array.not_current().is_empty()
            && array.places().iter().all(|place| place.drive.is_some());
        if !array.is_running() && !complete {
            return wrong(format!(
                "'{name}' is offline, and some of its drives are missing; connect them and start \
                    it first"
            ));
        }
        if !array.lost.borrow().is_empty() {
            return wrong(format!(
                "'{name}' has lost drives; first run 'softroc volume start {name}'"
            ));
        }
        Ok(())
    }
}

/// Records for volumes that need these drives which of those in `gone` they lost. Returns whether
/// any volume continues.
fn lose_what_is_needed(array: &Array, next: &mut Label, gone: &DriveSet, out: &DriveSet) -> bool {
    let named: Vec<(usize, Rc<Volume>)> = next
        .volume
        .iter()
        .enumerate()
        .filter_map(|(at, of)| Some((at, array.meant_by(of)?)))
        .collect();
    let mut goes_on = false;
    for (at, volume) in &named {
        // The volumes that share its fate, as far as the label names them: a volume whose reshape
        // ends with this change does not need a drive of its old layout, nor does one that keeps
        // its layout need a drive of the new one.
        let is_named = |part: &Rc<Volume>| named.iter().any(|(_, other)| Rc::ptr_eq(other, part));
        let parts: Vec<Rc<Volume>> =
            array.with_parts(volume).into_iter().filter(is_named).collect();
        let label = &mut next.volume[*at];
        if parts.iter().all(|part| array.goes_on(part, out)) {
            // A part that continues without its volume, which serves the hosts, is of no use.
            goes_on |= !label.is_part();
            continue;
        }
        // A drive that the volume does not use may come back or not: it misses nothing of the
        // volume.
        let lies_on = |slot: u16| parts.iter().any(|part| part.is_on(usize::from(slot)));
        let own = gone.iter().map(|drive| drive.0).filter(|slot| lies_on(*slot));
        let more: Vec<u16> = own.filter(|slot| !label.lost.contains(slot)).collect();
        label.lost.extend(more);
        label.lost.sort_unstable();
    }
    goes_on
}

/// Clears the set of drives that are about to go out, at the end of the attempt.
struct Going<'a>(&'a Array);

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.0.work.going.set(DriveSet::EMPTY);
    }
}

/// Slots that were out, and are in use now.
fn entering(before: &Label, now: &Label) -> DriveSet {
    let members = before.member.iter().zip(&now.member).enumerate();
    slots(
        members
            .filter(|(_, (before, now))| !before.is_online() && now.is_online())
            .map(|(slot, _)| slot),
    )
}

/// The place of the label structure on an array's drive: its tail is at the same place as that of
/// the others.
fn site_of(drive: &Drive, label: &Label) -> Option<ondisk::ddf::Site> {
    let access = drive.access()?;
    access.set_place(label.tail);
    access.site()
}

/// Drives that enter with the next generation are in service since then.
fn note_entering(next: &mut Label, before: &Label) {
    for (member, was) in next.member.iter_mut().zip(&before.member) {
        if member.is_online() && (!was.is_online() || was.uuid != member.uuid) {
            member.since = next.generation;
        }
    }
}

/// A contradictory label would be unreadable on all drives at once: it is not written.
fn check_readable(next: &Label) -> std::result::Result<(), String> {
    // Each drive reads it as its own.
    let drive = next.member.first().map_or(next.drive, |member| member.uuid);
    Label { drive, ..next.clone() }.check().map_err(|error| error.to_string())
}
