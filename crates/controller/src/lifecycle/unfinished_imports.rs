//! Undo logs on drives: written before an import, read when a drive is looked at, put back where the import was cut off.

use crate::commands::core::Core;
use crate::inventory::Drive;
use crate::inventory::access::{Access, LabelSeen};
use env::{IoError, IoErrorKind};
use ondisk::{BLOCK, Part, Phase, Undo, UndoHead, Uuid, to_keep};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// The most that is written at once.
const PIECE: usize = 1 << 20;

/// A drive, and its undo log.
type Kept = (Rc<Drive>, Rc<Undo>);

/// What a drive that has an undo log tells of its import.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// It carries the label of the array that was to be, and that array exists.
    Made,
    /// It carries a label of it that was written before it existed.
    Creating,
    /// It carries no label of it: no drive was told that the array exists.
    NotYet,
    /// It was given to somebody else since.
    Other,
}

impl Access {
    /// What has to be kept of the drive before it is imported.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn parts_to_keep(&self) -> Result<Vec<Part>, IoError> {
        let (ranges, failed) = self.decode(to_keep).await;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut parts: Vec<Part> = Vec::new();
        for range in ranges {
            parts.push((range.start, self.read(range).await?));
        }
        Ok(parts)
    }

    /// Writes an undo log: the head when the rest is durable.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn write_undo(&self, undo: &Undo) -> Result<(), IoError> {
        let tail = self.tail().ok_or(IoError::new(IoErrorKind::Invalid))?;
        let head = undo.head().map_err(|error| {
            tracing::error!("an undo log cannot be written: {error}");
            IoError::new(IoErrorKind::Invalid)
        })?;
        self.write_all(tail.undo_head().end(), &undo.body()).await?;
        self.write_all(tail.undo_head().start, &head).await
    }

    /// The undo log of an import that was not finished. One that is damaged, or cannot be read, is none.
    pub(crate) async fn read_undo(&self) -> Option<Undo> {
        let place = self.tail()?.undo_head();
        let head = UndoHead::decode(&self.read(place).await.ok()?)?;
        head.with(&self.read(ByteRange::new(place.end(), head.body_bytes())).await.ok()?)
    }

    /// Removes the undo log, if there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn forget_undo(&self) -> Result<(), IoError> {
        let Some(tail) = self.tail() else { return Ok(()) };
        self.write_all(tail.undo_head().start, &vec![0; BLOCK.as_usize()]).await
    }

    /// Puts back what an undo log kept, and removes the log. What SoftROC wrote goes first.
    ///
    /// # Errors
    /// When it cannot be written; the log is still there then.
    pub(crate) async fn undo(&self, undo: &Undo) -> Result<(), IoError> {
        self.erase_marks().await?;
        for (at, bytes) in &undo.parts {
            self.write_all(*at, bytes).await?;
        }
        self.forget_undo().await
    }

    /// Whether the drive still holds what the log kept.
    async fn is_as_kept(&self, undo: &Undo) -> bool {
        for (at, bytes) in &undo.parts {
            let is = self.read(ByteRange::new(*at, ByteCount::of(bytes))).await;
            if is.is_ok_and(|is| is != *bytes) {
                return false;
            }
        }
        true
    }

    /// Overwrites ranges with zeroes, whole sectors.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn wipe(&self, ranges: &[ByteRange]) -> Result<(), IoError> {
        let whole = ByteRange::new(ByteOffset::ZERO, self.info().size);
        for range in ranges {
            let range = range.align_out(self.info().logical_sector.bytes()).intersection(whole);
            self.write_all(range.start, &vec![0; range.len.as_usize()]).await?;
        }
        Ok(())
    }

    async fn write_all(&self, at: ByteOffset, bytes: &[u8]) -> Result<(), IoError> {
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            self.write(at + ByteCount((index * PIECE) as u64), piece).await.result?;
        }
        Ok(())
    }
}

impl Core {
    /// Ends imports that were interrupted: where no drive was told that the array exists, the drives become what they
    /// were; where one was, the array exists. Where that cannot be told, since drives are not here, nothing is done.
    pub(crate) async fn settle_imports(&self) {
        let drives: Vec<Rc<Drive>> = self.drives.borrow().clone();
        let mut imports: BTreeMap<Uuid, Vec<Kept>> = BTreeMap::new();
        for drive in drives.into_iter().filter(|drive| drive.access().is_some() && !self.is_in_use(drive)) {
            let undo = drive.undo.borrow().clone();
            if let Some(undo) = undo {
                imports.entry(undo.array).or_default().push((drive, undo));
            }
        }
        for (array, drives) in imports {
            self.settle_import(array, drives).await;
        }
    }

    async fn settle_import(&self, array: Uuid, drives: Vec<Kept>) {
        let mut told = Vec::new();
        let mut creating = BTreeSet::new();
        let mut members = usize::MAX;
        for (drive, undo) in &drives {
            let tells = tells(drive, undo).await;
            if let (Tells::Creating, Some(label)) = (tells, drive.member_label()) {
                members = label.online();
                creating.insert(label.drive);
            }
            told.push(tells);
        }
        let exists =
            told.contains(&Tells::Made) || self.drives.borrow().iter().any(|drive| is_made(drive, array));
        let is_undone = !exists && (told.contains(&Tells::NotYet) || creating.len() >= members);
        for ((drive, undo), tells) in drives.iter().zip(told) {
            let Some(access) = drive.access() else { continue };
            let is_left = exists || tells == Tells::Other;
            let done = match is_undone && !is_left {
                true => access.undo(undo).await,
                false if is_left => access.forget_undo().await,
                false => {
                    drive.set_problem(Some(unsettled(drive)));
                    continue;
                }
            };
            match done {
                Ok(()) => self.say_settled(drive, is_left).await,
                Err(error) => {
                    tracing::error!("drive {}: its import cannot be settled: {error}", drive.name);
                    drive.set_problem(Some(unsettled(drive)));
                }
            }
        }
    }

    async fn say_settled(&self, drive: &Rc<Drive>, is_left: bool) {
        drive.look(&self.env).await;
        if is_left {
            return;
        }
        let name = &drive.name;
        let text = format!("the import of drive {name} was interrupted: it is what it was before");
        self.events.warn(name, "its import was interrupted", "it is what it was before", text);
    }
}

fn unsettled(drive: &Drive) -> crate::Error {
    let sentence = format!(
        "drive {} belongs to an array whose import was interrupted; add the other drives of that array, and it is finished or taken back",
        drive.name
    );
    crate::Error::new(crate::ErrorKind::WrongState, sentence)
}

fn is_made(drive: &Drive, array: Uuid) -> bool {
    drive.member_label().is_some_and(|label| label.array == array && label.phase != Phase::Creating)
}

async fn tells(drive: &Drive, undo: &Undo) -> Tells {
    match drive.label() {
        LabelSeen::Sound(_) if is_made(drive, undo.array) => Tells::Made,
        LabelSeen::Sound(_) => match drive.array() == Some(undo.array) {
            true => Tells::Creating,
            false => Tells::Other,
        },
        // The old metadata are removed, and the label is not there yet.
        LabelSeen::Blank => Tells::NotYet,
        LabelSeen::Foreign(_) | LabelSeen::Headless(_) | LabelSeen::Bad(_) => {
            let Some(access) = drive.access() else { return Tells::Other };
            if access.is_as_kept(undo).await { Tells::NotYet } else { Tells::Other }
        }
    }
}
