//! Fails, suspends and takes drives offline; renames volumes; starts volumes on an operator's
//! command.

use crate::arrays::array::Array;
use crate::arrays::failures::Failing;
use crate::arrays::starting::StartOrder;
use crate::arrays::suspended::BY_OPERATOR;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{DriveCost, Error, ErrorKind, Result, VolumeState};
use crate::inventory::Drive;
use crate::lifecycle::{Lifecycle, OfVolume};
use engine::Change;
use ondisk::Cause;
use std::rc::Rc;
use units::{DriveIndex, DriveSet, counted};

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

/// The advice if a drive holds the only copy of data.
const NOT_SUSPENDED: &str = "; a drive with the only copy of data cannot be suspended: wait for \
    its tasks ('softroc task list'), or until drives that are out of service are back, and try \
    again";

fn not_recorded(array: &Array, drive: &str) -> Error {
    let sentence = format!(
        "the state of drive {drive} could not be recorded on the other drives; run 'softroc volume \
            show {}'",
        array.name()
    );
    Error::new(ErrorKind::Failed, sentence)
}

/// A command that takes a drive out of its array.
pub(crate) struct TakeOut {
    /// Its name, or `VOLUME:SLOT`.
    pub(crate) drive: String,
    /// Whether it becomes failed, offline or suspended.
    pub(crate) cause: Cause,
    /// Also if data becomes unreadable without it.
    pub(crate) accept_data_loss: bool,
    /// The costs that the operator accepted: the command is refused if they are higher.
    pub(crate) accepted: Option<Vec<DriveCost>>,
    /// Only report the costs.
    pub(crate) dry_run: bool,
}

/// The costs of removing a slot's drive, for each affected volume, with a sentence for each.
fn costs_of(array: &Array, slot: usize, drive: &str) -> Vec<(DriveCost, String)> {
    let lost = DriveSet::EMPTY.with(DriveIndex(slot as u16));
    let mut costs = Vec::new();
    for volume in array.known_volumes().iter().filter(|volume| volume.is_served()) {
        let (now, then) = (array.tolerance(volume), array.tolerance_without(volume, &lost));
        let name = volume.name();
        let cost = DriveCost {
            volume: volume.uuid().to_string(),
            lost_places: now.costs(&lost),
            last_redundancy: now.more().at_least.0 > 0 && then.more().at_least.0 == 0,
        };
        if cost.loses_data() {
            let text =
                format!("'{name}' would lose data: drive {drive} has data without redundancy");
            costs.push((cost, text));
        } else if cost.last_redundancy {
            let text = format!(
                "'{name}' has no redundancy left without drive {drive}: the failure of another \
                    drive may lose data"
            );
            costs.push((cost, text));
        }
    }
    costs
}

impl TakeOut {
    fn verb(&self) -> &'static str {
        match self.cause {
            Cause::Offline => "offline",
            Cause::OperatorSuspended => "suspend",
            _ => "fail",
        }
    }

    /// Checks that the operator accepted the costs. A drive with the last copy of any data is never
    /// suspended.
    fn check(&self, costs: &[(DriveCost, String)]) -> Result<()> {
        if self.cause == Cause::OperatorSuspended
            && let Some((_, what)) = costs.iter().find(|(cost, _)| cost.loses_data())
        {
            let sentence = format!("{what}; nothing was changed{NOT_SUSPENDED}");
            return Err(Error::new(ErrorKind::LosesData, sentence));
        }
        let is_accepted = |cost: &DriveCost| match &self.accepted {
            Some(accepted) => cost.is_within(accepted),
            None => !cost.loses_data(),
        };
        let refused: Vec<_> = costs.iter().filter(|(cost, _)| !is_accepted(cost)).collect();
        if refused.is_empty() || self.accept_data_loss || self.dry_run {
            return Ok(());
        }
        let loses_data = refused.iter().any(|(cost, _)| cost.loses_data());
        let kind = if loses_data { ErrorKind::LosesData } else { ErrorKind::WrongState };
        let sentences: Vec<&str> = refused.iter().map(|(_, text)| text.as_str()).collect();
        let (text, what) = (&self.drive, sentences.join("; "));
        let verb = self.verb();
        let sentence = match self.accepted {
            Some(_) => format!(
                "{what}: the loss is larger than the accepted one; nothing was changed; run \
                'softroc drive {verb} {text}' again to see it"
            ),
            None => format!(
                "{what}; nothing was changed; wait for its tasks ('softroc task list'), or accept \
                    the loss with 'softroc drive {verb} --yes {text}'"
            ),
        };
        Err(Error::new(kind, sentence))
    }
}

impl Lifecycle {
    /// `drive fail`, `drive offline` and `drive suspend`.
    pub(crate) async fn take_out(
        self: &Rc<Self>,
        order: &TakeOut,
    ) -> Result<(Rc<Drive>, Vec<String>, Vec<DriveCost>)> {
        let TakeOut { drive: text, cause, dry_run, .. } = order;
        let drive = self.arrays.find_drive(text)?;
        let Some((array, slot)) = self.arrays.place_of(&drive) else {
            return Err(wrong(format!(
                "drive {text} belongs to no volume; only members of volumes can be taken out of \
                service"
            )));
        };
        let names = array.names();
        if !array.is_running() {
            return Err(wrong(format!(
                "{names} is offline; only drives of started volumes can be taken out of service"
            )));
        }
        let _turn = self.arrays.turn_without_doubt(&array).await;
        if *cause == Cause::OperatorSuspended && self.suspends_already(&array, slot, order).await? {
            return Ok((drive, Vec::new(), Vec::new()));
        }
        if !array.in_use().contains(&slot) {
            return Err(wrong(format!("drive {text} of {names} is out of service already")));
        }
        let out = array.out().with(DriveIndex(slot as u16));
        let needs =
            |volume: &Rc<Volume>| volume.lost().is_empty() && !array.can_spare(volume, &out);
        if let Some(volume) = array.volumes().iter().find(|volume| needs(volume)) {
            let what = format!(
                "'{}' ({}, {}) needs drive {text}: without it, hosts could not reach the data; \
                    nothing was changed",
                volume.name(),
                volume.geometry.level().title(),
                array.current_state(volume)
            );
            let todo = if *cause == Cause::OperatorSuspended { NOT_SUSPENDED } else { "" };
            return Err(wrong(format!("{what}{todo}")));
        }
        let costs = costs_of(&array, slot, text);
        order.check(&costs)?;
        let (costs, notes) = costs.into_iter().unzip();
        if *dry_run {
            return Ok((drive, notes, costs));
        }
        let what = match cause {
            Cause::Offline => "taken offline by an operator",
            Cause::OperatorSuspended => BY_OPERATOR,
            _ => "declared failed by an operator",
        };
        let is_lasting = *cause == Cause::Operator;
        let failing = vec![Failing { slot, cause: *cause, what: what.to_owned(), is_lasting }];
        if !self.arrays.put_out(&array, failing).await {
            return Err(not_recorded(&array, text));
        }
        self.arrays.record_out(&array, slot).await;
        Ok((drive, notes, costs))
    }

    /// `drive suspend` of a drive that a time limit suspended: it stays suspended. Returns whether
    /// it was. The caller holds the metadata lock.
    ///
    /// # Errors
    /// When that cannot be recorded, or another drive is about to replace it and would take its
    /// slot at once.
    async fn suspends_already(
        &self,
        array: &Rc<Array>,
        slot: usize,
        order: &TakeOut,
    ) -> Result<bool> {
        let (text, member) = (&order.drive, array.label().member[slot].clone());
        if member.is_online()
            && let Some(replacement) = &member.replacement
        {
            return Err(wrong(format!(
                "drive {text} of {} is being replaced by drive {}, which would take its slot; \
                nothing was changed; wait for that ('softroc task list')",
                array.names(),
                replacement.name
            )));
        }
        if !member.is_suspended() {
            return Ok(false);
        }
        if order.dry_run || self.arrays.keep_suspended(array, slot).await {
            return Ok(true);
        }
        Err(not_recorded(array, text))
    }

    /// `volume set --name`.
    pub(crate) async fn rename_volume(
        self: &Rc<Self>,
        volume: &str,
        name: &str,
    ) -> Result<OfVolume> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        let old = volume.name();
        if old == name {
            return Ok((array, volume, Vec::new()));
        }
        self.check_new_name(name)?;
        self.arrays.check_can_record(&array, &old)?;
        let _starting = array.starting_turn().await;
        let recorded = {
            let _turn = array.metadata_turn().await;
            let mut next = array.label();
            if let Some(label) = next.volume_mut(volume.uuid()) {
                name.clone_into(&mut label.name);
            }
            self.arrays.commit(&array, next, Vec::new()).await
        };
        if !recorded {
            let sentence = format!(
                "the name could not be recorded; run 'softroc volume show {}'",
                volume.name()
            );
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        // Durable before it is published: a host that uses the new name finds it after a crash,
        // too.
        self.arrays.tell_name(&volume).await?;
        let text = format!("'{old}' was renamed to '{name}'; hosts find it under the new name");
        let effect = "hosts that use it stay connected";
        self.events.report(EventCode::VolumeRenamed, name, "an operator renamed it", effect, text);
        let mut notes = Vec::new();
        if let Some(hosts) = self.arrays.users(&volume) {
            notes.push(format!("still connected: {hosts}; new connections must use '{name}'"));
        }
        if !volume.is_served() {
            notes.push(format!("'{name}' is not started; run 'softroc volume start {name}'"));
        }
        Ok((array, volume, notes))
    }

    /// `volume forget`: for a missing volume whose drives will not return.
    pub(crate) async fn forget_volume(&self, volume: &str) -> Result<Vec<String>> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        let (name, names) = (volume.name(), array.names());
        if !array.is_missing() {
            return Err(wrong(format!(
                "'{name}' is not missing, since some of its drives are present; to delete it, run \
                'softroc volume delete {name}'"
            )));
        }
        self.inventory.forget_array(array.uuid).await?;
        self.arrays.remove(array.uuid);
        let text =
            format!("{names} was removed from the list: its drives are not searched for any more");
        self.events.report(
            EventCode::VolumeForgotten,
            &name,
            "an operator removed it",
            "it is no longer listed",
            text,
        );
        let mut notes = vec![format!(
            "the data on its drives stays; if one of them is registered here again, {names} is \
            listed again"
        )];
        if array.known_volumes().len() > 1 {
            notes.push(format!("all volumes of its array were removed from the list: {names}"));
        }
        Ok(notes)
    }

    /// `volume start`.
    pub(crate) async fn start_volume(
        self: &Rc<Self>,
        volume: &str,
        accept: bool,
        degraded: bool,
    ) -> Result<OfVolume> {
        let (array, volume) = self.arrays.find_volume(volume)?;
        let order =
            StartOrder { forced: accept.then_some(volume.uuid()), without_missing: degraded };
        let name = volume.name();
        let is_well = !array.has_lost();
        if volume.is_served() && is_well {
            let is_degraded = array.current_state(&volume) == VolumeState::Degraded;
            let is_stuck =
                array.with_parts(&volume).iter().any(|volume| !array.distrusted(volume).is_empty());
            if accept && is_degraded && volume.has_parity() && is_stuck {
                for volume in array.with_parts(&volume) {
                    self.force(&array, &volume).await?;
                }
                return Ok((array, volume, Vec::new()));
            }
            let state = array.current_state(&volume);
            return Err(wrong(format!("'{name}' is started already; it is {state}")));
        }
        if array.is_running() && is_well {
            self.arrays.start_one(&array, &volume, order).await?;
            return Ok((array, volume, Vec::new()));
        }
        self.arrays.detach(&array).await;
        let away = self.look_again(&array).await;
        let (array, volume) = self.arrays.find_volume(&volume.uuid().to_string())?;
        if let Err(error) = self.start_array(&array, order).await {
            let problems =
                away.iter().filter_map(|drive| drive.problem()).map(|problem| problem.message);
            let sentences: Vec<String> = std::iter::once(error.message).chain(problems).collect();
            return Err(Error::new(error.kind, sentences.join("; ")));
        }
        let refusal = volume.refusal();
        if let (false, Some(why)) = (volume.is_served(), refusal) {
            return Err(wrong(why));
        }
        Ok((array, volume, Vec::new()))
    }

    /// Reopens drives that were lost or never opened, and reads all labels again. Returns the
    /// array's unusable drives: they cannot be opened, or have outstanding I/O.
    async fn look_again(&self, array: &Array) -> Vec<Rc<Drive>> {
        let members = array.label().member;
        let is_its = |drive: &Rc<Drive>| members.iter().any(|member| member.name == drive.name);
        let lost: Vec<usize> = array.lost().into_keys().collect();
        lost.into_iter().filter_map(|slot| array.drive(slot)).for_each(|drive| drive.close());
        let drives: Vec<Rc<Drive>> = self.inventory.drives();
        let is_closed = |drive: &&Rc<Drive>| drive.access().is_none();
        self.inventory.look_at(drives.iter().filter(is_closed).cloned().collect()).await;
        self.rescan().await;
        let is_away = |drive: &Rc<Drive>| drive.is_draining() || drive.access().is_none();
        drives.into_iter().filter(|drive| is_its(drive) && is_away(drive)).collect()
    }

    /// Forces the parity of a degraded volume in regions whose resync cannot be completed. This
    /// covers only drives that the operator knows to be missing, not one whose failure is just
    /// being recorded in the labels.
    async fn force(&self, array: &Array, volume: &Volume) -> Result<()> {
        let _turn = array.metadata_turn().await;
        let (Some(id), name) = (volume.id(), volume.name()) else { return Ok(()) };
        if array.has_unrecorded() || array.has_new_failures() {
            return Err(wrong(format!(
                "another drive of '{name}' has just failed, and its failure is not recorded yet; \
                check the volume and try again"
            )));
        }
        // Counted before the shards are notified, since they may finish a region at once.
        let count = array.distrusted(volume).len();
        let change = array.force(volume, Change::Forced);
        self.arrays
            .apply(id, &change)
            .await
            .map_err(|why| Error::new(ErrorKind::Failed, format!("'{name}': {why}")))?;
        let text = format!(
            "stale parity was accepted in {} of '{name}': blocks of the missing drive may be wrong \
            there",
            counted(count, "region")
        );
        self.events.report(
            EventCode::VolumeForced,
            &name,
            "an operator accepted stale parity",
            "all blocks can be read",
            text,
        );
        self.attention.look_after();
        Ok(())
    }
}
