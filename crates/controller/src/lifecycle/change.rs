//! Drives taken out, volumes renamed and started; and how commands name them.

use crate::arrays::array::Array;
use crate::arrays::failures::Failing;
use crate::arrays::volume::Volume;
use crate::commands::core::Core;
use crate::inventory::Drive;
use crate::lifecycle::assemble::Word;
use crate::{Error, ErrorKind, Reply, Result, VolumeState};
use engine::{RegionIndex, ShardMessage};
use ondisk::Cause;
use std::rc::Rc;
use units::DriveIndex;

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

impl Core {
    /// The array and slot of a drive, if it has one.
    pub(crate) fn place_of(&self, drive: &Drive) -> Option<(Rc<Array>, usize)> {
        self.arrays().into_iter().find_map(|array| array.slot_of(drive).map(|slot| (array.clone(), slot)))
    }

    /// What `VOLUME:SLOT` names, if the text is one of an existing slot.
    pub(crate) fn slot_named(&self, text: &str) -> Option<(Rc<Array>, usize)> {
        let (volume, slot) = text.rsplit_once(':')?;
        let slot: usize = slot.parse().ok()?;
        let array = self.find_array(volume).ok()?;
        (slot < array.places().len()).then_some((array, slot))
    }

    /// A drive by its name, or by `VOLUME:SLOT`.
    pub(crate) fn find_drive(&self, text: &str) -> Result<Rc<Drive>> {
        if let Some(drive) = self.drive_called(text) {
            return Ok(drive);
        }
        if let Some((array, slot)) = self.slot_named(text) {
            let missing =
                || wrong(format!("drive {slot} of {} is missing; connect it and add it", array.names()));
            return array.drive(slot).ok_or_else(missing);
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no drive '{text}'; name one by its path or as VOLUME:SLOT (see drive list)"),
        ))
    }

    /// A volume by its name or UUID, and its array.
    pub(crate) fn find_volume(&self, text: &str) -> Result<(Rc<Array>, Rc<Volume>)> {
        let arrays = self.arrays();
        let with_array = |array: &Rc<Array>| {
            let array = array.clone();
            array.volumes().into_iter().map(move |volume| (array.clone(), volume))
        };
        let all: Vec<(Rc<Array>, Rc<Volume>)> = arrays.iter().flat_map(with_array).collect();
        let named: Vec<&(Rc<Array>, Rc<Volume>)> =
            all.iter().filter(|(_, volume)| volume.name() == text).collect();
        match named[..] {
            [(array, volume)] => Ok((array.clone(), volume.clone())),
            [] => {
                let by_uuid = all.iter().find(|(_, volume)| volume.uuid.to_string() == text).cloned();
                by_uuid.ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, format!("there is no volume '{text}' (see volume list)"))
                })
            }
            _ => {
                let uuids: Vec<String> = named.iter().map(|(_, volume)| volume.uuid.to_string()).collect();
                Err(Error::new(
                    ErrorKind::NameTaken,
                    format!(
                        "several volumes have the name '{text}'; name one by its UUID: {}",
                        uuids.join(", ")
                    ),
                ))
            }
        }
    }

    /// An array, by one of its volumes or by its own UUID.
    pub(crate) fn find_array(&self, text: &str) -> Result<Rc<Array>> {
        let by_uuid = self.arrays().into_iter().find(|array| array.uuid.to_string() == text);
        match by_uuid {
            Some(array) => Ok(array),
            None => self.find_volume(text).map(|(array, _)| array),
        }
    }

    /// `drive fail` and `drive offline`.
    pub(crate) async fn take_out(self: &Rc<Self>, text: &str, cause: Cause) -> Result<Reply> {
        let drive = self.find_drive(text)?;
        let Some((array, slot)) = self.place_of(&drive) else {
            return Err(wrong(format!(
                "drive {text} belongs to no volume, so there is nothing to take it out of"
            )));
        };
        let names = array.names();
        if !array.is_running() {
            return Err(wrong(format!(
                "{names} is offline; drives are taken out of volumes that are started"
            )));
        }
        let _turn = array.metadata.take(1).await;
        if !array.in_use().contains(&slot) {
            return Err(wrong(format!("drive {text} of {names} is out already")));
        }
        let out = array.out().with(DriveIndex(slot as u16));
        let needs = |volume: &Rc<Volume>| volume.lost().is_empty() && !array.can_spare(volume, &out);
        if let Some(volume) = array.volumes().iter().find(|volume| needs(volume)) {
            return Err(wrong(format!(
                "'{}' ({}, {}) cannot do without drive {text}: its data would be lost to hosts; nothing was changed",
                volume.name(),
                volume.geometry.level().title(),
                array.current_state(volume)
            )));
        }
        let what = match cause {
            Cause::Offline => "taken offline by an operator",
            _ => "declared failed by an operator",
        };
        let failing = vec![Failing { slot, cause, what: what.to_owned() }];
        if !self.put_out(&array, failing).await {
            let sentence = format!(
                "that drive {text} is out could not be recorded on the others; see volume show {}",
                array.name()
            );
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        self.tell_out(&array, slot).await;
        Ok(self.drive_reply(&drive, Vec::new()))
    }

    /// `volume set --name`.
    pub(crate) async fn rename_volume(self: &Rc<Self>, volume: &str, name: &str) -> Result<Reply> {
        let (array, volume) = self.find_volume(volume)?;
        let old = volume.name();
        if old == name {
            return Ok(self.volume_reply(&array, &volume, Vec::new()));
        }
        self.check_new_name(name)?;
        self.check_can_record(&array, &old)?;
        let _starting = array.starting.take(1).await;
        let was_served = volume.is_served();
        self.withdraw(&array, &volume).await;
        let recorded = {
            let _turn = array.metadata.take(1).await;
            let mut next = array.label();
            if let Some(label) = next.volume_mut(volume.uuid) {
                name.clone_into(&mut label.name);
            }
            self.commit(&array, next, Vec::new()).await
        };
        if was_served && array.lost.borrow().is_empty() {
            self.attach(&array, &volume).await?;
        }
        if !recorded {
            let sentence = format!("the name could not be recorded; see volume show {}", volume.name());
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        let text = format!("'{old}' is called '{name}' now; hosts find it under that name");
        let effect = "hosts that used it were disconnected from it";
        self.events.info(name, "an operator renamed it", effect, text);
        let mut notes = Vec::new();
        if !was_served {
            notes.push(format!("'{name}' is not started; say volume start {name}"));
        }
        Ok(self.volume_reply(&array, &volume, notes))
    }

    /// `volume start`.
    pub(crate) async fn start_volume(
        self: &Rc<Self>,
        volume: &str,
        accept: bool,
        degraded: bool,
    ) -> Result<Reply> {
        let (array, volume) = self.find_volume(volume)?;
        let word = Word { forced: accept.then_some(volume.uuid), without_missing: degraded };
        let name = volume.name();
        let is_well = array.lost.borrow().is_empty();
        if volume.is_served() && is_well {
            let is_degraded = array.current_state(&volume) == VolumeState::Degraded;
            let is_stuck = !array.distrusted(&volume).is_empty();
            if accept && is_degraded && volume.has_parity() && is_stuck {
                self.force(&array, &volume).await?;
                return Ok(self.volume_reply(&array, &volume, Vec::new()));
            }
            let state = array.current_state(&volume);
            return Err(wrong(format!("'{name}' is started already; it is {state}")));
        }
        if array.is_running() && is_well {
            self.start_one(&array, &volume, word).await?;
            return Ok(self.volume_reply(&array, &volume, Vec::new()));
        }
        self.detach(&array).await;
        let away = self.look_again(&array).await;
        let (array, volume) = self.find_volume(&volume.uuid.to_string())?;
        if let Err(error) = self.start_array(&array, word).await {
            let problems = away.iter().filter_map(|drive| drive.problem()).map(|problem| problem.message);
            let sentences: Vec<String> = std::iter::once(error.message).chain(problems).collect();
            return Err(Error::new(error.kind, sentences.join("; ")));
        }
        let refusal = volume.refusal.borrow().clone();
        if let (false, Some(why)) = (volume.is_served(), refusal) {
            return Err(wrong(why));
        }
        Ok(self.volume_reply(&array, &volume, Vec::new()))
    }

    /// Opens drives anew that were lost or never opened, and looks at all labels again. Drives of the array that cannot be
    /// used: they cannot be opened, or have not returned what they were asked.
    async fn look_again(&self, array: &Array) -> Vec<Rc<Drive>> {
        let members = array.label().member;
        let is_its = |drive: &Rc<Drive>| members.iter().any(|member| member.name == drive.name);
        let lost: Vec<usize> = array.lost.borrow().keys().copied().collect();
        lost.into_iter().filter_map(|slot| array.drive(slot)).for_each(|drive| drive.close());
        let drives: Vec<Rc<Drive>> = self.drives.borrow().clone();
        for drive in drives.iter().filter(|drive| drive.access().is_none()) {
            drive.look(&self.env).await;
        }
        self.rescan().await;
        let is_away = |drive: &Rc<Drive>| drive.is_leaving() || drive.access().is_none();
        drives.into_iter().filter(|drive| is_its(drive) && is_away(drive)).collect()
    }

    /// The operator forces what the redundancy of a degraded volume says in regions whose resync cannot be completed.
    /// His word is about drives that he knows to be out: one whose failure is on its way into the labels is none of them.
    async fn force(&self, array: &Array, volume: &Volume) -> Result<()> {
        let _turn = array.metadata.take(1).await;
        let (Some(id), name) = (volume.id(), volume.name()) else { return Ok(()) };
        if !array.unrecorded.borrow().is_empty() || !array.work.failures.borrow().is_empty() {
            return Err(wrong(format!(
                "a further drive of '{name}' has just failed, which is not recorded yet; look at the volume, and say it again"
            )));
        }
        let regions = array.distrusted(volume);
        let count = regions.len();
        let own = volume.own_regions(&regions.iter().copied().map(RegionIndex).collect());
        // Before the shards are told: they may be done with a region at once.
        array.force(regions);
        self.tell_shards(|done| ShardMessage::Force(id, own.clone(), done))
            .await
            .map_err(|why| Error::new(ErrorKind::Failed, format!("'{name}': {why}")))?;
        let text = format!(
            "the redundancy of {count} regions of '{name}' is computed anew from what is there, by order: blocks of what is missing may read wrongly there"
        );
        self.events.warn(&name, "an operator forced its parity", "all of it can be read", text);
        self.look_after();
        Ok(())
    }
}
