//! Drives out and in, volumes renamed and started.

use crate::array::Array;
use crate::core::Core;
use crate::disk::LabelSeen;
use crate::inventory::Drive;
use crate::keeper::Failing;
use crate::{Error, ErrorKind, Reply, Result, VolumeState};
use engine::ShardMessage;
use ondisk::{Cause, MemberState, Role};
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
                || wrong(format!("drive {slot} of '{}' is missing; connect it and add it", array.name()));
            return array.drive(slot).ok_or_else(missing);
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no drive '{text}'; name one by its path or as VOLUME:SLOT (see drive list)"),
        ))
    }

    /// A volume by its name or UUID.
    pub(crate) fn find_array(&self, text: &str) -> Result<Rc<Array>> {
        let arrays = self.arrays();
        let mut named = arrays.iter().filter(|array| array.name() == text);
        let found = named.next().cloned();
        if named.next().is_some() {
            let uuids: Vec<String> = arrays
                .iter()
                .filter(|array| array.name() == text)
                .map(|array| array.uuid.to_string())
                .collect();
            return Err(Error::new(
                ErrorKind::NameTaken,
                format!("several volumes have the name '{text}'; name one by its UUID: {}", uuids.join(", ")),
            ));
        }
        let by_uuid = || arrays.iter().find(|array| array.uuid.to_string() == text).cloned();
        found.or_else(by_uuid).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no volume '{text}' (see volume list)"))
        })
    }

    /// `drive fail` and `drive offline`.
    pub(crate) async fn take_out(&self, text: &str, cause: Cause) -> Result<Reply> {
        let drive = self.find_drive(text)?;
        let Some((array, slot)) = self.place_of(&drive) else {
            return Err(wrong(format!(
                "drive {text} belongs to no volume, so there is nothing to take it out of"
            )));
        };
        let name = array.name();
        if !array.is_running() {
            return Err(wrong(format!(
                "'{name}' is offline; drives are taken out of volumes that are started"
            )));
        }
        let _turn = array.metadata.take(1).await;
        if !array.in_use().contains(&slot) {
            return Err(wrong(format!("drive {text} of '{name}' is out already")));
        }
        let out = array.geometry.drives().as_usize() - array.in_use().len();
        if out + 1 > array.survives() {
            return Err(wrong(format!(
                "'{name}' ({}, {}) cannot do without drive {text}: its data would be lost to hosts; nothing was changed",
                array.geometry.level().title(),
                array.current_state()
            )));
        }
        let what = match cause {
            Cause::Offline => "taken offline by an operator",
            _ => "declared failed by an operator",
        };
        let failing = vec![Failing { slot, cause, what: what.to_owned() }];
        if !self.put_out(&array, failing).await {
            let sentence = format!(
                "that drive {text} is out could not be recorded on the others; see volume show {name}"
            );
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        Ok(Reply::Drive { drive: self.drive_info(&drive), notes: Vec::new() })
    }

    /// `drive online`.
    pub(crate) async fn take_in(self: &Rc<Self>, text: &str) -> Result<Reply> {
        let drive = self.find_drive(text)?;
        let place = self.place_of(&drive);
        let Some((array, slot)) = place.filter(|(array, _)| array.is_running()) else {
            // Perhaps it is back, and an array can be assembled with it.
            let (drive, notes) = self.add_drive(&drive.name, None).await?;
            return Ok(Reply::Drive { drive: self.drive_info(&drive), notes });
        };
        let name = array.name();
        let _turn = array.metadata.take(1).await;
        let label = array.label();
        let member = &label.member[slot];
        if let Some(why) = array.lost.borrow().get(&slot) {
            return Err(wrong(why.clone()));
        }
        if member.is_online() {
            return Err(wrong(format!("drive {text} of '{name}' is online already")));
        }
        if member.missed_writes || array.map.borrow().marked() > 0 {
            return Err(wrong(format!(
                "drive {text} is stale: '{name}' was written while the drive was out ({}); it has to be rebuilt",
                ondisk::why(member)
            )));
        }
        let attached =
            array.running().is_some_and(|running| running.attached.contains(DriveIndex(slot as u16)));
        if !attached {
            return Err(wrong(format!(
                "'{name}' was started without drive {text}; the drive missed no write and is used again at the next start of the controller"
            )));
        }
        self.check_returning(&array, slot, &drive).await?;
        if !self.readmit(&array, slot).await {
            let sentence = format!("drive {text} could not be taken in; see volume show {name}");
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        Ok(Reply::Drive { drive: self.drive_info(&drive), notes: Vec::new() })
    }

    /// Whether a drive answers, holds nothing back (rule (d)), and still is the one it was.
    async fn check_returning(&self, array: &Array, slot: usize, drive: &Drive) -> Result<()> {
        let name = &drive.name;
        let unavailable = |why: String| {
            Error::new(
                ErrorKind::Unavailable,
                format!("drive {name} cannot be used again: {why}; replace it or its cable"),
            )
        };
        let Some(access) = drive.access() else { return Err(unavailable("it is not open".to_owned())) };
        if access.member.outstanding() > 0 {
            return Err(wrong(format!(
                "drive {name} still has operations from before under way; try again when they have returned"
            )));
        }
        match access.read_label().await {
            Err(error) => Err(unavailable(error.to_string())),
            Ok(LabelSeen::Sound(carried)) if carried.label.drive == array.label().member[slot].uuid => Ok(()),
            Ok(_) => Err(unavailable("it no longer carries its label".to_owned())),
        }
    }

    /// Uses a drive again that missed nothing. The caller has the metadata turn.
    async fn readmit(&self, array: &Rc<Array>, slot: usize) -> bool {
        let failing = self.heal_map(array, &[slot]).await;
        if !failing.is_empty() {
            return false;
        }
        let mut next = array.label();
        let since = next.generation + 1;
        let member = &mut next.member[slot];
        (member.state, member.since, member.cause) = (MemberState::Online, since, None);
        if !self.commit(array, next, Vec::new()).await {
            return false;
        }
        array.set_reason(slot, None);
        self.set_health(array).await;
        self.say_back(array, slot);
        array.state(self.env.unix_time());
        array.label().member[slot].is_online()
    }

    /// `volume set --name`.
    pub(crate) async fn rename_volume(self: &Rc<Self>, volume: &str, name: &str) -> Result<Reply> {
        let array = self.find_array(volume)?;
        let old = array.name();
        if old == name {
            return Ok(self.volume_reply(&array, Vec::new()));
        }
        self.check_new_name(name)?;
        let was_running = array.is_running();
        let complete =
            array.places().iter().all(|place| place.role == Role::Current && place.drive.is_some());
        if !was_running && !complete {
            return Err(wrong(format!(
                "'{old}' is offline, and not all of its drives are there to record the name; connect them and start it first"
            )));
        }
        if !array.lost.borrow().is_empty() {
            return Err(wrong(format!("'{old}' has lost drives; start it again first: volume start {old}")));
        }
        self.detach(&array).await;
        let recorded = {
            let _turn = array.metadata.take(1).await;
            let mut next = array.label();
            next.volume.name = name.to_owned();
            self.commit(&array, next, Vec::new()).await
        };
        if was_running && array.lost.borrow().is_empty() {
            self.attach(&array).await?;
        }
        if !recorded {
            let sentence = format!("the name could not be recorded; see volume show {}", array.name());
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        let text = format!("'{old}' is called '{name}' now; hosts find it under that name");
        self.events.info(
            name,
            "an operator renamed it",
            "hosts that used it were disconnected from it",
            text,
        );
        let mut notes = Vec::new();
        if !was_running {
            notes.push(format!("'{name}' is not started; say volume start {name}"));
        }
        Ok(self.volume_reply(&array, notes))
    }

    /// `volume start`.
    pub(crate) async fn start_volume(self: &Rc<Self>, volume: &str, accept: bool) -> Result<Reply> {
        let array = self.find_array(volume)?;
        let name = array.name();
        if array.is_running() && array.lost.borrow().is_empty() {
            if accept && array.current_state() == VolumeState::Degraded && !array.unsynced.borrow().is_empty()
            {
                self.trust_all(&array).await?;
                return Ok(self.volume_reply(&array, Vec::new()));
            }
            return Err(wrong(format!("'{name}' is started already; it is {}", array.current_state())));
        }
        self.detach(&array).await;
        self.look_again(&array).await;
        let array = self.find_array(&array.uuid.to_string())?;
        self.start_array(&array, accept).await?;
        Ok(self.volume_reply(&array, Vec::new()))
    }

    /// Opens drives anew that were lost or never opened, and looks at all labels again.
    async fn look_again(&self, array: &Array) {
        let lost: Vec<usize> = array.lost.borrow().keys().copied().collect();
        lost.into_iter().filter_map(|slot| array.drive(slot)).for_each(|drive| drive.close());
        let drives: Vec<Rc<Drive>> = self.drives.borrow().clone();
        for drive in drives.into_iter().filter(|drive| drive.access().is_none()) {
            drive.look(&self.env).await;
        }
        self.rescan().await;
    }

    /// The operator accepts the redundancy of a degraded volume as it is, for the resync cannot be completed.
    async fn trust_all(&self, array: &Array) -> Result<()> {
        let (Some(id), name) = (array.volume_id(), array.name()) else { return Ok(()) };
        let lanes = array.unsynced.borrow().len();
        self.tell_shards(|done| ShardMessage::TrustAll(id, done))
            .await
            .map_err(|why| Error::new(ErrorKind::Failed, format!("'{name}': {why}")))?;
        array.unsynced.borrow_mut().clear();
        let text = format!(
            "the parity of {lanes} lanes of '{name}' is taken as it is, by order: blocks of the missing drive may read wrongly there"
        );
        self.events.warn(&name, "an operator accepted its parity", "all of it can be read", text);
        Ok(())
    }
}
