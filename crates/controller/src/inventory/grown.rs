//! Drives that became larger: extended files, extended block devices of virtual machines and volume
//! managers.
//!
//! SoftROC's metadata is at the end of a drive, located by its size. The size of each drive is
//! stored (`drives.toml`). If a drive is larger, and has no SoftROC metadata at its end, the
//! metadata is searched at the earlier end. If it is found there, the drive is used with its
//! earlier size, until an operator wants more ([`Inventory::let_grow`]): then the metadata moves to
//! the new end. If a drive is smaller and has no label, the stored size stays until it gets one.
//!
//! # Fault model and invariants
//! - The drive is unused during the move: no running array, no outstanding write.
//! - The new place does not overlap the earlier one, which stays unchanged until the new copy is
//!   durable and was read back.
//! - Maps, journals and the witness are written before the structure that names them, and the
//!   anchor, without which nothing is found, last. Killed or cut off before it: the drive is found
//!   with its earlier size. Afterwards: at its end. Metadata left at the earlier end then has no
//!   effect: it is the label of the same drive.
//! - Of two labels of one drive the newer one counts: after a failed move, the drive continues with
//!   the earlier one, and its next use makes it newer.
//! - The new end may contain anything that was there before the extension. Another drive's label
//!   there, next to a sound one at the earlier end, cannot be decided here: neither is used until
//!   an operator decides.
//! - If the earlier end is unreadable, a member's label at the end counts if it was made for the
//!   full size. The earlier size is kept: once the earlier end is readable, its content counts. A
//!   spare's label does not record the size of its drive. If the end is unreadable, a sound label
//!   at the earlier end counts once an operator has given that size.
//! - A drive with metadata in front of its data, as after an import, is not moved: the place stays
//!   the same, but the move would overwrite the structure that names it.

use super::access::{Access, LabelSeen};
use super::drive::Drive;
use super::structures::{Written, write_structures};
use super::{Inventory, is_volatile};
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use ondisk::{Carried, Tail, TailPlace, Telling};
use platform::{Env, IoError, IoErrorKind};
use std::rc::Rc;
use units::{ByteCount, ByteRange};

/// The amount copied at a time.
const AT_A_TIME: ByteCount = ByteCount(1 << 20);

/// A drive with its earlier size, and its label there.
type Earlier = (Option<Access>, LabelSeen);

impl Drive {
    /// Its full size, if it is used with its earlier, smaller size.
    pub(crate) fn grown_to(&self) -> Option<ByteCount> {
        self.whole.borrow().as_ref().map(|whole| whole.info().size)
    }

    /// Sets its size at the last use.
    pub(crate) fn set_earlier_size(&self, size: ByteCount) {
        self.was.set(Some(size));
        self.is_told.set(false);
    }

    /// Sets its earlier size by an operator. Until the next probe, that has priority over the
    /// metadata at its end. Returns the previous value.
    pub(crate) fn tell_size(&self, was: Option<ByteCount>) -> Option<ByteCount> {
        self.is_told.set(was.is_some());
        let before = self.was.get();
        self.was.set(was.or(before));
        before
    }

    /// Reverts the size from the operator, since it was wrong.
    pub(crate) fn take_back_size(&self, before: Option<ByteCount>) {
        self.was.set(before);
        self.is_told.set(false);
    }

    /// Its size at the last probe, if it was unambiguous.
    pub(super) fn size_to_remember(&self) -> Option<ByteCount> {
        self.was.get()
    }

    /// The data that a probe needs to find the earlier end.
    pub(super) fn ending(&self) -> Ending {
        Ending { name: self.name.clone(), was: self.was.get(), is_told: self.is_told.get() }
    }

    /// Whether its size in use is ambiguous.
    pub(super) fn is_ambiguous(&self, label: &LabelSeen) -> bool {
        let is_larger =
            self.access().zip(self.was.get()).is_some_and(|(access, was)| access.info().size > was);
        is_larger && matches!(label, LabelSeen::Bad(_))
    }

    /// Whether the drive is smaller than at its last use and has no label: the label may be at the
    /// end that it had. If the drive becomes larger again, it is searched there.
    pub(super) fn is_cut(&self, label: &LabelSeen) -> bool {
        self.shrunk().is_some() && matches!(label, LabelSeen::Blank | LabelSeen::Bad(_))
    }

    /// Its present size and that at its last use, if it is smaller now.
    fn shrunk(&self) -> Option<(ByteCount, ByteCount)> {
        let (access, was) = self.access().zip(self.was.get())?;
        let size = access.info().size;
        (size < was).then_some((size, was))
    }
}

/// The end of a drive at its last use.
pub(super) struct Ending {
    name: String,
    was: Option<ByteCount>,
    /// Whether an operator gave that size.
    is_told: bool,
}

/// The size in use, and the label found with it.
pub(super) struct Settled {
    pub(super) access: Access,
    /// The whole drive, if it is used with its earlier, smaller size.
    pub(super) whole: Option<Access>,
    pub(super) label: LabelSeen,
    /// Whether the earlier end could not be read.
    pub(super) is_unread: bool,
}

impl Ending {
    /// Decides which metadata of a larger drive counts: that at its end, or that at its earlier
    /// end. In the latter case it is used with its earlier size.
    ///
    /// # Errors
    /// When that cannot be decided, with the remedy.
    pub(super) async fn settle(
        &self,
        env: &Env,
        access: Access,
        read: std::result::Result<LabelSeen, IoError>,
    ) -> std::result::Result<Settled, (IoError, String)> {
        let replace = || "replace it or its cable".to_owned();
        let as_it_is =
            |access: Access, label, is_unread| Settled { access, whole: None, label, is_unread };
        let Some(was) = self.was.filter(|was| *was < access.info().size) else {
            return read
                .map(|label| as_it_is(access, label, false))
                .map_err(|error| (error, replace()));
        };
        // With a silent drive each probe would wait for its time limit.
        let at_end = match &read {
            Err(error) if error.kind != IoErrorKind::Medium => return Err((*error, replace())),
            Err(error) => match access.read_label_at_end().await {
                Err(_) if !self.is_told => return Err((*error, self.or_as_it_was(was))),
                at_end => at_end.ok(),
            },
            Ok(label) => Some(label.clone()),
        };
        let found = self.look_at_earlier_end(env, &access, was, at_end.as_ref()).await;
        let (found, is_unread) = found.map_err(|error| (error, replace()))?;
        match found {
            Some((Some(earlier), label)) => {
                Ok(Settled { access: earlier, whole: Some(access), label, is_unread })
            }
            Some((None, label)) => Ok(as_it_is(access, label, is_unread)),
            None => read
                .map(|label| as_it_is(access, label, is_unread))
                .map_err(|error| (error, replace())),
        }
    }

    /// The remedy if its end, which it may not have had at its last use, is unreadable.
    fn or_as_it_was(&self, was: ByteCount) -> String {
        format!(
            "replace it or its cable; or, if it became larger, run 'softroc drive rescan {} --was \
            {}' to use the label at its previous end",
            self.name, was.0
        )
    }

    /// The metadata at the earlier end, if it counts more than that at the end: the drive with its
    /// earlier size, and its label. Without a drive: the error of a drive with two labels. Also
    /// returns whether the earlier end was unreadable. If the end is unreadable, and an operator
    /// gave the size, only a sound label counts.
    ///
    /// # Errors
    /// When the earlier end cannot be read: the drive's identity is then unknown, unless a member's
    /// label at its end was made for its full size. In that case the drive has the name of one that
    /// ended there.
    async fn look_at_earlier_end(
        &self,
        env: &Env,
        whole: &Access,
        was: ByteCount,
        at_end: Option<&LabelSeen>,
    ) -> std::result::Result<(Option<Earlier>, bool), IoError> {
        let earlier = whole.beginning(env, was).map_err(|error| {
            tracing::error!("drive {} cannot be used with its previous size: {error}", self.name);
            IoError::new(IoErrorKind::Gone)
        })?;
        let found = match earlier.read_label_at_end().await {
            Err(error)
                if error.kind == IoErrorKind::Medium
                    && !self.is_told
                    && at_end.is_some_and(|label| is_made_for(label, whole.info().size)) =>
            {
                return Ok((None, true));
            }
            found => found?,
        };
        let Some(at_end) = at_end else {
            let counts = matches!(found, LabelSeen::Sound(_));
            return Ok((counts.then_some((Some(earlier), found)), false));
        };
        let counts = match (&found, at_end) {
            (LabelSeen::Sound(found), LabelSeen::Sound(at_end)) => match self.is_told {
                // An interrupted or failed move; after a failure the drive continued with the
                // earlier label.
                _ if found.content.drive() == at_end.content.drive() => {
                    generation(found) > generation(at_end)
                }
                true => true,
                false => return Ok((Some((None, self.two_labels(was))), false)),
            },
            (LabelSeen::Headless(found), LabelSeen::Sound(at_end)) => {
                at_end.content.label().is_none_or(|label| label.array != found.array)
            }
            (LabelSeen::Sound(_) | LabelSeen::Headless(_), _) => true,
            // A log device's label is at its start, which the earlier drive of that name shares,
            // and which may not fit its size.
            (_, LabelSeen::Sound(_) | LabelSeen::Log(_)) => false,
            (LabelSeen::Blank, LabelSeen::Blank) => earlier.read_undo(false).await.is_some(),
            (LabelSeen::Blank | LabelSeen::Log(_), _) => false,
            (LabelSeen::Bad(_) | LabelSeen::Foreign(_), _) => true,
        };
        Ok((counts.then_some((Some(earlier), found)), false))
    }

    /// The error that two labels exist and neither is certain.
    fn two_labels(&self, was: ByteCount) -> LabelSeen {
        LabelSeen::Bad(format!(
            "it has one label at its end, and another one at its previous end of {} bytes; run \
            'softroc drive rescan {} --was {0}' to use the label at its previous end",
            was.0, self.name
        ))
    }
}

/// Whether a member's label was made for a drive of this size. A label that was moved to the new
/// end keeps the earlier size until it is next written.
fn is_made_for(label: &LabelSeen, size: ByteCount) -> bool {
    let LabelSeen::Sound(carried) = label else { return false };
    carried.content.label().is_some_and(|label| {
        let mut members = label.member.iter();
        members.any(|member| match &member.replacement {
            _ if member.uuid == label.drive => member.size_bytes == size.0,
            Some(other) => other.uuid == label.drive && other.size_bytes == size.0,
            None => false,
        })
    })
}

/// The generation of a drive's label; 0 without one.
fn generation(carried: &Carried) -> u64 {
    carried.content.label().map_or(0, |label| label.generation)
}

impl Inventory {
    /// Remembers the present sizes of drives that are about to get a label at their end, and were
    /// larger before.
    ///
    /// # Errors
    /// When these cannot be stored: the earlier ones stay.
    pub(crate) async fn remember_ends<'a>(
        &self,
        drives: impl Iterator<Item = &'a Drive>,
    ) -> Result<()> {
        let shrunk: Vec<_> = drives.filter_map(|drive| Some((drive, drive.shrunk()?))).collect();
        if shrunk.is_empty() {
            return Ok(());
        }
        shrunk.iter().for_each(|(drive, (size, _))| drive.set_earlier_size(*size));
        let stored = self.store_drives().await;
        if stored.is_err() {
            shrunk.iter().for_each(|(drive, (_, was))| drive.set_earlier_size(*was));
        }
        stored
    }

    /// Requests the full size of a drive in use, from the next start on.
    ///
    /// # Errors
    /// When that cannot be stored: nothing has changed then.
    pub(crate) async fn want_room(&self, drive: &Drive) -> Result<()> {
        let before = drive.wants_room.replace(true);
        let stored = self.store_drives().await;
        if stored.is_err() {
            drive.wants_room.set(before);
        }
        stored
    }

    /// Uses the full size of a drive that has become larger: moves SoftROC's metadata from its
    /// earlier end to the end. Other drives are unchanged. The drive must be unused.
    ///
    /// # Errors
    /// Why it is used with its earlier size.
    pub(crate) async fn let_grow(&self, drive: &Rc<Drive>) -> Result<()> {
        let Some(whole) = drive.whole.borrow().clone() else {
            drive.wants_room.set(false);
            return Ok(());
        };
        let name = &drive.name;
        let wrong = |why: &str| {
            Error::new(
                ErrorKind::WrongState,
                format!("drive {name} is used with its previous size: {why}"),
            )
        };
        let (Some(earlier), LabelSeen::Sound(carried)) = (drive.access(), drive.label()) else {
            return Err(wrong(
                "the label of the drive cannot be used; run 'softroc drive show' to see why",
            ));
        };
        if earlier.place() != TailPlace::End {
            return Err(wrong(
                "the label of this imported drive is before its data; replace the drive by another \
                 one with 'softroc drive replace'",
            ));
        }
        if drive.undo().is_some() {
            return Err(wrong(
                "the import of the drive is not finished; start its array first with 'softroc \
                 volume start'",
            ));
        }
        // A write to its end that failed may land late.
        if drive.holds_writes_back() {
            return Err(drive.not_quiesced());
        }
        let size = earlier.info().size;
        let (Some(from), Some(to)) = (earlier.tail(), Tail::of(whole.info().size)) else {
            return Err(wrong("it is too small for a label; make it larger"));
        };
        if to.start().0 < size.0 {
            let least = ByteCount(size.0 + ondisk::TAIL.0);
            let why = format!(
                "the label area needs more space to move; enlarge the drive to at least {} bytes",
                least.0
            );
            return Err(wrong(&why));
        }
        let moved = self.move_to_end(drive, (&earlier, from), (&whole, to), &carried).await;
        moved.map_err(|why| {
            Error::new(
                ErrorKind::Failed,
                format!("drive {name} is used with its previous size: {why}"),
            )
        })?;
        let text = format!(
            "drive {name} has {} now, instead of {size}: its label was moved to its new end",
            whole.info().size
        );
        let effect = "volumes on it can be expanded";
        self.events.report(EventCode::DriveGrown, name, "it was enlarged", effect, text);
        Ok(())
    }

    /// Executes the move that [`let_grow`](Self::let_grow) has checked. Returns a sentence on
    /// failure: the drive is then unchanged.
    async fn move_to_end(
        &self,
        drive: &Rc<Drive>,
        (earlier, from): (&Access, Tail),
        (whole, to): (&Access, Tail),
        carried: &Carried,
    ) -> std::result::Result<(), String> {
        let said = |error: IoError| {
            format!(
                "the end of the drive could not be written ({error}); run 'softroc drive rescan \
                 {}' again",
                drive.name
            )
        };
        // Old content of the new area must not be found halfway.
        whole.erase_marks().await.map_err(said)?;
        copy_tail(earlier, from, whole, to).await.map_err(said)?;
        let told =
            whole.site().ok_or("it has no space for a label".to_owned()).and_then(|site| {
                let telling = Telling::of_content(&carried.content, &site);
                let told = telling.and_then(|telling| telling.told(&site, carried.content.drive()));
                told.map_err(|error| error.to_string())
            })?;
        let before = drive.structure.replace(Written::Nothing);
        drive.use_by(Some(whole), None);
        let failed = write_structures(vec![(0, drive.clone(), told)]).await.into_values().next();
        let is_there = match failed {
            Some(error) => Err(said(error)),
            None => self.is_at_end(drive, (whole, carried)).await,
        };
        if let Err(why) = is_there {
            // The next use makes the earlier label newer; until then both are equal.
            if let Err(error) = whole.erase_marks().await {
                tracing::warn!(
                    "data written to the end of drive {} could not be erased: {error}",
                    drive.name
                );
            }
            drive.set_earlier_size(earlier.info().size);
            drive.use_by(Some(earlier), Some(whole));
            drive.set_structure(before);
            drive.set_label(LabelSeen::Sound(Rc::new(carried.clone())));
            drive.set_problem(None);
            return Err(why);
        }
        drive.wants_room.set(false);
        if let Err(error) = earlier.erase_marks().await {
            // The earlier end is no longer searched.
            tracing::warn!(
                "the earlier label of drive {} could not be erased: {error}",
                drive.name
            );
            drive.note_left(earlier);
        }
        Ok(())
    }

    /// Checks that the moved metadata is found at the end of the drive. Returns a sentence if not.
    async fn is_at_end(
        &self,
        drive: &Rc<Drive>,
        (whole, carried): (&Access, &Carried),
    ) -> std::result::Result<(), String> {
        drive.set_label(LabelSeen::Blank);
        drive.look(&self.env).await;
        let is_whole = drive.access().is_some_and(|access| access.info().size == whole.info().size);
        match drive.label() {
            LabelSeen::Sound(found) if is_whole && found.content == carried.content => Ok(()),
            _ => Err(drive
                .problem()
                .map_or("its label is not at its end".to_owned(), |problem| problem.message)),
        }
    }

    /// At a start: uses the full size of unused drives for which it was requested.
    pub(super) async fn let_wanted_grow(&self, drive: &Rc<Drive>) {
        if drive.wants_room.get()
            && drive.access().is_some()
            && let Err(why) = self.let_grow(drive).await
        {
            tracing::error!("{why}");
        }
    }

    /// The sizes of drives by name, and the drives whose full size is used from the next start on.
    pub(super) fn sizes(&self) -> (std::collections::BTreeMap<String, u64>, Vec<String>) {
        let drives = self.drives.borrow();
        let lasting = || drives.iter().filter(|drive| !is_volatile(&drive.spec));
        let sizes =
            lasting().filter_map(|drive| Some((drive.spec.clone(), drive.size_to_remember()?.0)));
        let wanted =
            lasting().filter(|drive| drive.wants_room.get()).map(|drive| drive.spec.clone());
        (sizes.collect(), wanted.collect())
    }
}

/// Copies the metadata area except the structure and the anchor.
async fn copy_tail(
    earlier: &Access,
    from: Tail,
    whole: &Access,
    to: Tail,
) -> std::result::Result<(), IoError> {
    for part in Tail::BESIDE_STRUCTURE {
        let mut at = part.start;
        while at < part.end {
            let len = AT_A_TIME.min(ByteCount(part.end - at));
            let bytes = earlier.read(ByteRange::new(from.start() + ByteCount(at), len)).await?;
            whole.write(to.start() + ByteCount(at), &bytes).await.result?;
            at += len.0;
        }
    }
    Ok(())
}
