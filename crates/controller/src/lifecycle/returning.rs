//! `drive resume`, `drive online`, `drive replace` and `drive forget`: returning drives and
//! replacements.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::members::Entering;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::inventory::access::LabelSeen;
use crate::inventory::{Drive, settles};
use crate::lifecycle::{Lifecycle, OfDrive};
use engine::Change;
use ondisk::{Member, Role, StandIn};
use std::rc::Rc;
use units::{DriveIndex, both_capacities};

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

/// Checks that an array has all essential drives: otherwise no change of its drives can be
/// recorded.
///
/// # Errors
/// The necessary first step.
fn check_nothing_lost(array: &Array) -> Result<()> {
    if !array.has_lost() {
        return Ok(());
    }
    let (names, name) = (array.names(), array.name());
    Err(wrong(format!("{names} has lost drives; first run 'softroc volume start {name}'")))
}

/// What happens to the drive after `drive replace`.
fn note_of_replacement(array: &Array, slot: usize) -> String {
    match array.places()[slot].replacement.is_some() {
        true => {
            format!(
                "the drive is being filled from drive {slot}, which stays online until the copy is \
                 complete"
            )
        }
        false => {
            "the drive is being rebuilt from the other drives; the volume is usable now".to_owned()
        }
    }
}

/// How a drive returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Back {
    /// `drive resume`.
    Resumed,
    /// Any other way: `drive online` or `drive add`, or the drive responds again.
    Otherwise,
}

/// Checks whether a member without service may return this way.
///
/// # Errors
/// The alternative.
fn check_may_come_back(arrays: &Arrays, member: &Member, name: &str, by: Back) -> Result<()> {
    if member.is_suspended_by_operator() && by != Back::Resumed {
        return Err(wrong(format!(
            "drive {name} was suspended by an operator; run 'softroc drive resume {name}' to use \
                it again"
        )));
    }
    match arrays.unsettled(member) {
        None => Ok(()),
        Some(left) => Err(wrong(format!(
            "drive {name} may still carry out writes from before the controller was started; try \
                again in {} s",
            left.as_secs() + 1
        ))),
    }
}

impl Lifecycle {
    /// `drive resume`.
    pub(crate) async fn resume_drive(self: &Rc<Self>, text: &str) -> Result<OfDrive> {
        let drive = self.arrays.find_drive(text)?;
        let place = self.arrays.place_of(&drive).filter(|(array, _)| array.is_running());
        let Some((array, slot)) = place else {
            return Err(wrong(format!(
                "drive {text} is not a suspended drive of a started volume"
            )));
        };
        let member = array.label().member[slot].clone();
        if !member.is_suspended() && !member.is_suspended_by_operator() {
            let sentence = match member.is_online() {
                true => format!("drive {text} of {} is not suspended", array.names()),
                false => format!(
                    "drive {text} of {} is out of service, and not suspended; run 'softroc drive \
                    online {text}' to use it again",
                    array.names()
                ),
            };
            return Err(wrong(sentence));
        }
        self.bring_back(&array, slot, &drive, Back::Resumed).await
    }

    /// `drive online`.
    pub(crate) async fn take_in_again(self: &Rc<Self>, text: &str) -> Result<OfDrive> {
        let drive = self.arrays.find_drive(text)?;
        let place = self.arrays.place_of(&drive);
        let Some((array, slot)) = place.filter(|(array, _)| array.is_running()) else {
            // It may be present again, and complete a stopped array or belong to a started one.
            let (drive, notes) = self.register_drive(&drive.name, None).await?;
            if let Some((array, slot)) = self.slot_out_of(&drive) {
                return self.bring_back(&array, slot, &drive, Back::Otherwise).await;
            }
            let waits = self.arrays.place_of(&drive).filter(|(array, slot)| {
                !array.is_running() && !array.label().member[*slot].is_online()
            });
            return match waits {
                Some((array, _)) => Err(wrong(format!(
                    "drive {} is out of service in {}, which is not started: it returns after the \
                    start; 'softroc volume show {}' shows what the start waits for",
                    drive.name,
                    array.names(),
                    array.name()
                ))),
                None => Ok((drive, notes)),
            };
        };
        self.bring_back(&array, slot, &drive, Back::Otherwise).await
    }

    /// `drive add`. A missing member of a started array is brought online.
    pub(crate) async fn add_drive(
        self: &Rc<Self>,
        spec: &str,
        size: Option<u64>,
    ) -> Result<OfDrive> {
        if let Some(drive) = self.inventory.drive_called(spec).filter(|_| size.is_none())
            && let Some((array, slot)) = self.slot_out_of(&drive)
        {
            return self.bring_back(&array, slot, &drive, Back::Otherwise).await;
        }
        let (drive, mut notes) = self.register_drive(spec, size).await?;
        let Some((array, slot)) = self.slot_out_of(&drive) else { return Ok((drive, notes)) };
        match self.bring_back(&array, slot, &drive, Back::Otherwise).await {
            Ok(back) => Ok(back),
            // It is registered nevertheless.
            Err(error) => {
                notes.push(error.message);
                Ok((drive, notes))
            }
        }
    }

    /// The slot of a drive in a started array, if it is not in service.
    fn slot_out_of(&self, drive: &Rc<Drive>) -> Option<(Rc<Array>, usize)> {
        let place = self.arrays.place_of(drive).filter(|(array, _)| array.is_running());
        place.filter(|(array, slot)| !array.in_use().contains(slot))
    }

    async fn bring_back(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        by: Back,
    ) -> Result<OfDrive> {
        let (name, names) = (&drive.name, array.names());
        {
            let _turn = array.metadata_turn().await;
            if let Some(why) = array.lost().get(&slot) {
                return Err(wrong(why.clone()));
            }
            check_nothing_lost(array)?;
            let label = array.label();
            if label.member[slot].is_online() {
                return Err(wrong(format!("drive {name} of {names} is online already")));
            }
            check_may_come_back(&self.arrays, &label.member[slot], name, by)?;
            if array.has_unrecorded() {
                return Err(wrong(format!(
                    "failures of drives of {names} are not recorded yet for lack of space; free \
                     space on the file systems of its drive files and try again"
                )));
            }
            if array.places()[slot].role == Role::Stale {
                return Err(wrong(format!(
                    "drive {name} is an earlier copy of the drive that left {names}; run 'softroc \
                        drive replace {}:{slot} --with {name} --destroy-data' to rebuild all of it",
                    array.name()
                )));
            }
            self.check_returning(array, slot, drive).await?;
            self.arrays.put_in(array, slot, drive, Entering::Back).await?;
        }
        // The label change that brought it online also removed its failure.
        if let Some(failure) = self.inventory.failure_of(drive) {
            // If that cannot be stored, the failure returns after a restart, and must be cleared
            // again.
            if let Err(error) = self.inventory.clear_failed(&failure).await {
                tracing::warn!("{error}");
            }
        }
        self.arrays.go_on_with(array).await;
        let left = array.to_rebuild(slot).len();
        let notes = match left {
            0 => Vec::new(),
            _ => {
                vec![format!(
                    "the writes it missed are being rebuilt (regions: {left}); its volumes are \
                    usable now"
                )]
            }
        };
        Ok((drive.clone(), notes))
    }

    /// Checks that a drive responds, has no outstanding writes (rule (d)), and is still the
    /// original one.
    async fn check_returning(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
    ) -> Result<()> {
        let name = &drive.name;
        let unavailable = |why: String| {
            Error::new(
                ErrorKind::Unavailable,
                format!("drive {name} cannot be used again: {why}; replace it or its cable"),
            )
        };
        for volume in array.served() {
            self.take_from_shards(array, &volume, slot);
        }
        // A health query may be running.
        let is_busy = || drive.access().is_some_and(|access| access.member.outstanding() > 0);
        settles(&self.env, || !is_busy()).await;
        if is_busy() || !drive.is_quiesced(&self.env).await {
            return Err(wrong(format!(
                "drive {name} still has outstanding operations; try again when they have returned"
            )));
        }
        drive.look(&self.env).await;
        if drive.access().is_none() {
            // It had vanished, and its open handle is dead.
            drive.look(&self.env).await;
        }
        if let Some(problem) = drive.problem().filter(|_| drive.access().is_none()) {
            return Err(problem);
        }
        let member = array.label().member[slot].clone();
        match drive.member_label() {
            Some(own) if own.drive == member.uuid && own.array == array.uuid => {
                if own.generation < member.knew {
                    return Err(unavailable("it is an earlier copy of itself".to_owned()));
                }
                if let Some(apart) = self.used_apart(array, drive, &own) {
                    return Err(unavailable(apart));
                }
                Ok(())
            }
            _ => Err(unavailable(match drive.problem() {
                Some(problem) => problem.message,
                None => "it no longer carries its label".to_owned(),
            })),
        }
    }

    /// Takes a removed drive from a volume's shards. The drive's quiesced flag is set when all
    /// outstanding I/O has returned. A drive that the volume needs stays in service: no write that
    /// skipped it may be acknowledged.
    pub(super) fn take_from_shards(self: &Rc<Self>, array: &Array, volume: &Volume, slot: usize) {
        let (Some(id), Some(drive)) = (volume.id(), array.drive(slot)) else { return };
        if !volume.is_on(slot) {
            return;
        }
        let out = DriveIndex(slot as u16);
        let change = Change::Drive {
            slot: out,
            stale: volume.own_regions(&array.missed(slot)),
            in_service: array.in_service(volume),
        };
        volume.note_swap(slot);
        let told = self.arrays.send_change(id, &change, None);
        self.arrays.drain(&drive, told);
    }

    /// `drive replace`.
    pub(crate) async fn replace_drive(
        self: &Rc<Self>,
        text: &str,
        with: &str,
        destroy: bool,
    ) -> Result<OfDrive> {
        let (array, slot) = self.member_named(text)?;
        let names = array.names();
        if !array.is_running() {
            return Err(wrong(format!(
                "{names} is offline; drives can only be replaced in started volumes"
            )));
        }
        check_nothing_lost(&array)?;
        if let Some(replacement) = &array.places()[slot].replacement {
            let sentence = format!(
                "drive {slot} of {names} is being replaced already, by {}",
                replacement.name
            );
            return Err(wrong(sentence));
        }
        let mut candidates = Vec::new();
        let own = self.returning_candidate(&array, slot, with, destroy);
        let checked = match own {
            Some(drive) => Ok(drive),
            None => self
                .check_candidates(&[with.to_owned()], destroy, &mut candidates)
                .await
                .and_then(|()| {
                    let candidate = candidates
                        .first()
                        .ok_or_else(|| wrong(format!("name a drive instead of '{with}'")))?;
                    self.check_fits(&array, &candidate.drive)?;
                    Ok(candidate.drive.clone())
                }),
        };
        let drive = match checked {
            Ok(drive) => drive,
            Err(error) => {
                self.let_go(&candidates).await;
                return Err(error);
            }
        };
        let replaced = match self.adopt_apart(&candidates).await {
            Ok(()) => self.replace_with(&array, slot, &drive, None).await,
            Err(error) => Err(error),
        };
        if let Err(error) = replaced {
            self.let_go(&candidates).await;
            return Err(error);
        }
        self.forget_taken(&array, std::slice::from_ref(&drive));
        // The command named it.
        if let Some(failure) = self.inventory.failure_of(&drive)
            && let Err(error) = self.inventory.clear_failed(&failure).await
        {
            tracing::warn!("{error}");
        }
        self.arrays.go_on_with(&array).await;
        Ok((drive, vec![note_of_replacement(&array, slot)]))
    }

    /// A member by the name of its drive or `VOLUME:SLOT`, including missing ones.
    fn member_named(&self, text: &str) -> Result<(Rc<Array>, usize)> {
        if let Some(place) = self.arrays.slot_named(text) {
            return Ok(place);
        }
        let drive = self.arrays.find_drive(text)?;
        self.arrays.shown_place(&drive).ok_or_else(|| {
            wrong(format!("drive {text} belongs to no volume, so there is nothing to replace"))
        })
    }

    /// A removed drive may take its slot again as an empty drive, if its content may be lost.
    fn returning_candidate(
        &self,
        array: &Array,
        slot: usize,
        with: &str,
        destroy: bool,
    ) -> Option<Rc<Drive>> {
        let drive = self.inventory.drive_called(with)?;
        let is_here =
            array.slot_of(&drive) == Some(slot) && !array.label().member[slot].is_online();
        (is_here && destroy).then_some(drive)
    }

    /// Checks whether a drive fits an array: by its size and its sectors (rule (h)).
    ///
    /// # Errors
    /// Why not.
    fn check_fits(&self, array: &Array, drive: &Drive) -> Result<()> {
        let (label, name) = (array.label_to_come(), &drive.name);
        let Some(access) = drive.access() else {
            return Err(Error::new(ErrorKind::Unavailable, format!("drive {name} is not open")));
        };
        let info = access.info();
        if !label.fits(info.size) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "drive {name} is too small: it has {}, and {} need {} of it; choose a \
                        larger one",
                    both_capacities(info.size),
                    label.names(),
                    both_capacities(label.needed_bytes())
                ),
            ));
        }
        let sector = info.logical_sector.bytes().0;
        if let Some(volume) = label.volume.iter().find(|volume| volume.sector_bytes < sector) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "drive {name} has sectors of {sector} bytes, and '{}' has {}; choose a drive \
                        with smaller sectors",
                    volume.name, volume.sector_bytes
                ),
            ));
        }
        Ok(())
    }

    /// Puts an empty drive into a slot: at once if the slot has no drive in service, otherwise as
    /// its replacement. A task fills it automatically. `stands_in`: it is a spare, and leaves the
    /// slot again when the original drive is replaced.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub(crate) async fn replace_with(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: &Rc<Drive>,
        stands_in: Option<StandIn>,
    ) -> Result<()> {
        if array.slot_of(drive) == Some(slot) && !array.label().member[slot].is_online() {
            // The drive gets new content, so outstanding old writes must not land on it.
            for volume in array.served() {
                self.take_from_shards(array, &volume, slot);
            }
        }
        if !drive.is_quiesced(&self.env).await {
            return Err(drive.not_quiesced());
        }
        let turn = array.metadata_turn().await;
        check_nothing_lost(array)?;
        let label = array.label();
        let member = &label.member[slot];
        if array.has_unrecorded() {
            let sentence = "failures of drives are not recorded yet for lack of space; free space \
                and try again";
            return Err(wrong(sentence));
        }
        if !member.is_online() {
            let before = array.drive(slot).filter(|before| before.name != drive.name);
            self.arrays.put_in(array, slot, drive, Entering::New(stands_in)).await?;
            if let Some(before) = before {
                self.arrays.take_left_label_off(array, &before).await;
            }
            return Ok(());
        }
        if !array.left(&member.stale).is_empty() {
            let name = self.arrays.member_name(array, slot);
            return Err(wrong(format!(
                "drive {name} is still being rebuilt, and cannot be copied yet; wait, or first run \
                    'softroc drive fail {}:{slot}'",
                array.name()
            )));
        }
        self.arrays.begin_replacement(array, slot, drive, stands_in).await?;
        drop(turn);
        self.arrays.until_taken_over(array, slot, drive).await
    }

    /// `drive forget`.
    pub(crate) async fn forget_drive(self: &Rc<Self>, text: &str) -> Result<Vec<String>> {
        let drive = self.arrays.find_drive(text)?;
        let place = self.arrays.shown_place(&drive);
        if let Some((array, slot)) = place {
            return Err(wrong(format!(
                "drive {text} is drive {slot} of {}; replace it with 'softroc drive replace', or \
                    delete its volumes",
                array.names()
            )));
        }
        if self.arrays.all().iter().any(|array| array.replaced_by(&drive).is_some()) {
            return Err(wrong(format!(
                "drive {text} is being copied to, to replace another one; it cannot be \
                unregistered now"
            )));
        }
        if self.arrays.is_log_device(&drive) {
            let sentence =
                format!("drive {text} is a log device; first run 'softroc log remove {text}'");
            return Err(Error::new(ErrorKind::InUse, sentence));
        }
        if !drive.is_quiesced(&self.env).await {
            // If it were registered again, its outstanding I/O would be unknown.
            return Err(drive.not_quiesced());
        }
        self.inventory.remove(&[&drive]).await?;
        let kept = match drive.label() {
            LabelSeen::Blank => Vec::new(),
            _ => {
                vec![format!("the data and the label on drive {} stay", drive.name)]
            }
        };
        let text = format!("drive {} was unregistered", drive.name);
        self.events.report(
            EventCode::DriveUnregistered,
            &drive.name,
            "an operator unregistered it",
            "the controller does not use it",
            text,
        );
        Ok(kept)
    }
}
