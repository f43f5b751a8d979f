//! Drives that are larger than they were: files that were made longer, block devices of machines and volume managers.
//!
//! What SoftROC has on a drive lies at its end, by its size. How large each drive is, is remembered (`drives.toml`). Where a drive is larger than that, and
//! nothing of SoftROC's is at its end, it is looked for at the end that the drive had. A drive where it is found there is used as large as it was, and the rest of it is
//! left alone, until an operator wants more ([`Inventory::let_grow`]): then what lies at the earlier end moves to the end.
//!
//! # Fault model and invariants
//! - Nobody uses the drive while that moves: no array that runs, and no write from before is under way.
//! - What moves lies behind its earlier place altogether. That stays as it is until all of it is durable at the end, and was read there.
//! - Maps, journals and the witness are there before the structure that names them, and the anchor, without which nothing is found, comes last. Killed or cut off
//!   before it: the drive is found as large as it was. Afterwards: at its end. What is left at the earlier end then means nothing: it is the label of the same drive.
//! - Of two labels of one drive the newer one counts: where a move failed, the drive goes on with the earlier one, and whoever uses it makes it newer.
//! - What a drive that became larger has at its end may be anything that lay there before it was a part of the drive. Another drive's label there, beside a sound one at the
//!   earlier end, is nothing that can be decided here: neither is used until an operator says so.
//! - Where the earlier end cannot be read, a member's label at the end counts if it was made for all of the drive, and where the drive ended is not forgotten: once it can be read, what is
//!   there counts. A spare's label does not say how large its drive is. Where the end
//!   cannot be read, a sound label at the earlier end counts once an operator has said that the drive ended there.
//! - A drive whose tail lies in front of its data, as an import leaves it, is not moved: its place is the same, but what names it would be written over.

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

/// What moves at a time.
const AT_A_TIME: ByteCount = ByteCount(1 << 20);

/// A drive as large as it was, and what was found there.
type Earlier = (Option<Access>, LabelSeen);

impl Drive {
    /// How large it really is, if it is used as large as it was before it became larger.
    pub(crate) fn grown_to(&self) -> Option<ByteCount> {
        self.whole.borrow().as_ref().map(|whole| whole.info().size)
    }

    /// How large it was when it was used last.
    pub(crate) fn set_earlier_size(&self, size: ByteCount) {
        self.was.set(Some(size));
        self.is_told.set(false);
    }

    /// An operator says how large it was; until it has been looked at, that counts more than what lies at its end. What was known before.
    pub(crate) fn tell_size(&self, was: Option<ByteCount>) -> Option<ByteCount> {
        self.is_told.set(was.is_some());
        let before = self.was.get();
        self.was.set(was.or(before));
        before
    }

    /// What an operator said of how large it was has not helped.
    pub(crate) fn take_back_size(&self, before: Option<ByteCount>) {
        self.was.set(before);
        self.is_told.set(false);
    }

    /// How large it was when it was looked at last, and it was clear what it is.
    pub(super) fn size_to_remember(&self) -> Option<ByteCount> {
        self.was.get()
    }

    /// What a probe has to know of where the drive ended.
    pub(super) fn ending(&self) -> Ending {
        Ending { name: self.name.clone(), was: self.was.get(), is_told: self.is_told.get() }
    }

    /// Whether it is not clear how large it is used.
    pub(super) fn is_ambiguous(&self, label: &LabelSeen) -> bool {
        let is_larger =
            self.access().zip(self.was.get()).is_some_and(|(access, was)| access.info().size > was);
        is_larger && matches!(label, LabelSeen::Bad(_))
    }
}

/// Where a drive ended when it was used last.
pub(super) struct Ending {
    name: String,
    was: Option<ByteCount>,
    /// Whether an operator has said so.
    is_told: bool,
}

/// How a drive is used, and what its label says.
pub(super) struct Settled {
    pub(super) access: Access,
    /// All of it, where it is used as large as it was before it became larger.
    pub(super) whole: Option<Access>,
    pub(super) label: LabelSeen,
    /// Whether it could not be read where it ended.
    pub(super) is_unread: bool,
}

impl Ending {
    /// What counts of a drive that is larger than it was: what was read of it, or what is found where it ended before. Then it is used so.
    ///
    /// # Errors
    /// When nobody can tell what it is; and what helps.
    pub(super) async fn settle(
        &self,
        env: &Env,
        access: Access,
        read: std::result::Result<LabelSeen, IoError>,
    ) -> std::result::Result<Settled, (IoError, String)> {
        let replace = || "replace it or its cable".to_owned();
        let as_it_is = |access: Access, label, is_unread| Settled { access, whole: None, label, is_unread };
        let Some(was) = self.was.filter(|was| *was < access.info().size) else {
            return read.map(|label| as_it_is(access, label, false)).map_err(|error| (error, replace()));
        };
        // Of a drive that does not answer each look would wait for its time limit.
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
            None => read.map(|label| as_it_is(access, label, is_unread)).map_err(|error| (error, replace())),
        }
    }

    /// What helps where its end cannot be read, which it may not have had when it was used.
    fn or_as_it_was(&self, was: ByteCount) -> String {
        format!(
            "replace it or its cable; or, if it became larger, run 'softroc drive rescan {} --was {}' to go on with the label where it ended",
            self.name, was.0
        )
    }

    /// What is found at the end that it had, if that counts more than what is found at its end: the drive as large as it was, and its label. Without a drive: what is to be
    /// said of one that has two labels. Also whether it could not be read there. Where its end cannot be read, and an operator said how large it was, only a sound label counts.
    ///
    /// # Errors
    /// When it cannot be read there: nobody can tell then what the drive is. A member's label at its end that was made for all of the drive tells: that drive has the name of
    /// one that ended there.
    async fn look_at_earlier_end(
        &self,
        env: &Env,
        whole: &Access,
        was: ByteCount,
        at_end: Option<&LabelSeen>,
    ) -> std::result::Result<(Option<Earlier>, bool), IoError> {
        let earlier = whole.beginning(env, was).map_err(|error| {
            tracing::error!("drive {} cannot be used as large as it was: {error}", self.name);
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
                // A move that was cut off, or that failed: then the drive went on with the earlier one.
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
            (_, LabelSeen::Sound(_)) => false,
            (LabelSeen::Blank, LabelSeen::Blank) => earlier.read_undo(false).await.is_some(),
            (LabelSeen::Blank | LabelSeen::Log(_), _) => false,
            (LabelSeen::Bad(_) | LabelSeen::Foreign(_), _) => true,
        };
        Ok((counts.then_some((Some(earlier), found)), false))
    }

    /// That nobody can tell which of two labels counts.
    fn two_labels(&self, was: ByteCount) -> LabelSeen {
        LabelSeen::Bad(format!(
            "it has one label at its end, and another one where it ended with {} bytes when it was used here last; run 'softroc drive rescan {} --was {0}' to go on with the label where it ended",
            was.0, self.name
        ))
    }
}

/// Whether a member's label says that its drive is so large. One that was moved to its drive's new end says how large that was before, until it is written there for something else.
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

/// Which of two labels of a drive is newer.
fn generation(carried: &Carried) -> u64 {
    carried.content.label().map_or(0, |label| label.generation)
}

impl Inventory {
    /// A drive that is in use is to have all of its room from the next start on.
    ///
    /// # Errors
    /// When that cannot be stored: then it is as before.
    pub(crate) async fn want_room(&self, drive: &Drive) -> Result<()> {
        let before = drive.wants_room.replace(true);
        let stored = self.store_drives().await;
        if stored.is_err() {
            drive.wants_room.set(before);
        }
        stored
    }

    /// A drive that has become larger is used as large as it is from now on: what SoftROC has at its earlier end moves to the end. Of any other drive nothing is
    /// to be done. Nobody uses the drive.
    ///
    /// # Errors
    /// Why it is used as large as it was.
    pub(crate) async fn let_grow(&self, drive: &Rc<Drive>) -> Result<()> {
        let Some(whole) = drive.whole.borrow().clone() else {
            drive.wants_room.set(false);
            return Ok(());
        };
        let name = &drive.name;
        let wrong = |why: &str| {
            Error::new(ErrorKind::WrongState, format!("drive {name} is used as large as it was: {why}"))
        };
        let (Some(earlier), LabelSeen::Sound(carried)) = (drive.access(), drive.label()) else {
            return Err(wrong("its label cannot be used; run 'softroc drive show' to see why"));
        };
        if earlier.place() != TailPlace::End {
            return Err(wrong(
                "its label lies in front of its data, since it was imported; replace it by another drive with 'softroc drive replace'",
            ));
        }
        if drive.undo().is_some() {
            return Err(wrong(
                "its import is not finished; start its array first with 'softroc volume start'",
            ));
        }
        // What was written to its end in vain may land yet.
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
                "what lies at its end moves only where all of it has room; make it {} bytes at least",
                least.0
            );
            return Err(wrong(&why));
        }
        let moved = self.move_to_end(drive, (&earlier, from), (&whole, to), &carried).await;
        moved.map_err(|why| {
            Error::new(ErrorKind::Failed, format!("drive {name} is used as large as it was: {why}"))
        })?;
        let text = format!(
            "drive {name} has {} now, which was {size}: what lies at its end was moved there",
            whole.info().size
        );
        let effect = "volumes on it can become larger";
        self.events.report(EventCode::DriveGrown, name, "it was made larger", effect, text);
        Ok(())
    }

    /// Carries out what [`let_grow`](Self::let_grow) has checked. A sentence, if it could not be: then the drive is as it was.
    async fn move_to_end(
        &self,
        drive: &Rc<Drive>,
        (earlier, from): (&Access, Tail),
        (whole, to): (&Access, Tail),
        carried: &Carried,
    ) -> std::result::Result<(), String> {
        let said = |error: IoError| {
            format!("its end could not be written ({error}); run 'softroc drive rescan {}' again", drive.name)
        };
        // What lay there before it was a part of this drive must not be found halfway.
        whole.erase_marks().await.map_err(said)?;
        copy_tail(earlier, from, whole, to).await.map_err(said)?;
        let told = whole.site().ok_or("it has no room for a label".to_owned()).and_then(|site| {
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
            // The earlier label is the newer one as soon as anything is done with it; until then both say the same.
            if let Err(error) = whole.erase_marks().await {
                tracing::warn!(
                    "what was written to the end of drive {} could not be erased: {error}",
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
            // Nobody looks for it there any more.
            tracing::warn!("the earlier label of drive {} could not be erased: {error}", drive.name);
            drive.note_left(earlier);
        }
        Ok(())
    }

    /// Whether what was moved is found at the end of the drive. A sentence, if not.
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

    /// Drives that are to have all of their room, and are not in use: at a start.
    pub(super) async fn let_wanted_grow(&self, drive: &Rc<Drive>) {
        if drive.wants_room.get()
            && drive.access().is_some()
            && let Err(why) = self.let_grow(drive).await
        {
            tracing::error!("{why}");
        }
    }

    /// How large drives are, by how they are named, and which are to have all of their room at the next start.
    pub(super) fn sizes(&self) -> (std::collections::BTreeMap<String, u64>, Vec<String>) {
        let drives = self.drives.borrow();
        let lasting = || drives.iter().filter(|drive| !is_volatile(&drive.spec));
        let sizes = lasting().filter_map(|drive| Some((drive.spec.clone(), drive.size_to_remember()?.0)));
        let wanted = lasting().filter(|drive| drive.wants_room.get()).map(|drive| drive.spec.clone());
        (sizes.collect(), wanted.collect())
    }
}

/// Copies all that lies in a tail but for the structure and the anchor.
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
