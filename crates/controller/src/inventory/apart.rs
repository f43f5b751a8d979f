//! Detects one storage under several names when the system does not: two exports of one file, two
//! adapters without world-wide identifiers.
//!
//! Drives with different last blocks or labels are different. Drives that are equal there (usually
//! blank ones) each get a unique mark in the last block before labels are written, and all are read
//! again. A drive that shows the mark of another one is the same storage, and the command is
//! refused. The previous content of the blocks is restored in any case.
//!
//! # Fault model and invariants
//! - The command may destroy the content of these drives: they are not in use, and a kill loses at
//!   most that block. Drives of SoftROC arrays have unique labels and get no marks: an array that
//!   is deleted first is deleted as a whole.
//! - Reads bypass the system's caches if the drive was opened that way
//!   ([`platform::World::open_drive`]).

use super::access::{Access, join};
use super::{Drive, Inventory};
use crate::interface::{Error, ErrorKind, Result};
use ondisk::BLOCK;
use platform::{DriveKind, IoError, IoErrorKind};
use std::rc::Rc;
use units::{ByteOffset, ByteRange};

/// A drive, and its last block.
struct Marked {
    drive: Rc<Drive>,
    access: Access,
    place: ByteRange,
    before: Vec<u8>,
    mark: Vec<u8>,
}

/// A drive that the command does not name, and its last block.
struct Beside {
    drive: Rc<Drive>,
    access: Access,
    place: ByteRange,
    before: Vec<u8>,
}

impl Inventory {
    /// Refuses drives that are one storage under several names: with each other, or with another
    /// registered, unused drive. These drives are about to be written; `beside` is not.
    ///
    /// # Errors
    /// When two are the same; when a drive that is about to be written cannot be read or written.
    pub(crate) async fn tell_apart(
        &self,
        drives: &[Rc<Drive>],
        beside: &[Rc<Drive>],
    ) -> Result<()> {
        let mut marked = Vec::new();
        for drive in drives {
            let Some((access, place)) = last_block(drive) else { continue };
            let before = access.read(place).await.map_err(|error| failed(drive, error))?;
            marked.push(Marked { drive: drive.clone(), access, place, before, mark: self.mark() });
        }
        let mut others = Vec::new();
        for drive in beside {
            let Some((access, place)) = last_block(drive) else { continue };
            // An unreadable drive cannot be the storage of a drive that works.
            let Ok(before) = access.read(place).await else { continue };
            others.push(Beside { drive: drive.clone(), access, place, before });
        }
        let marked = alike(marked, &others);
        let written = write(&marked, |marked| &marked.mark).await;
        let told = match written {
            Ok(()) => match read_apart(&marked).await {
                Ok(()) => read_beside(&marked, &others).await,
                error => error,
            },
            Err(error) => Err(error),
        };
        let restored = write(&marked, |marked| &marked.before).await;
        told.and(restored)
    }

    /// A random block that no drive contains.
    fn mark(&self) -> Vec<u8> {
        let numbers = (0..BLOCK.0 / 8).flat_map(|_| self.env.random().to_le_bytes());
        numbers.collect()
    }
}

/// The last block of a drive on this host. Memory drives are excluded: each one is unique.
fn last_block(drive: &Drive) -> Option<(Access, ByteRange)> {
    let access = drive.access().filter(|access| has_place(access.info().kind))?;
    let end = access.info().size.align_down(BLOCK);
    let at = end.0.checked_sub(BLOCK.0)?;
    Some((access, ByteRange::new(ByteOffset(at), BLOCK)))
}

/// The drives that equal another one in this block and in their label.
fn alike(all: Vec<Marked>, beside: &[Beside]) -> Vec<Marked> {
    let is_like = |one: &Marked, drive: &Drive, before: &[u8]| {
        one.before == before && one.drive.own_label() == drive.own_label()
    };
    let has_like = |at: usize| {
        let one = &all[at];
        let mut others = all.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, other)| is_like(one, &other.drive, &other.before))
            || beside.iter().any(|other| is_like(one, &other.drive, &other.before))
    };
    let keep: Vec<bool> = (0..all.len()).map(has_like).collect();
    all.into_iter().zip(keep).filter_map(|(one, keep)| keep.then_some(one)).collect()
}

fn has_place(kind: DriveKind) -> bool {
    !matches!(kind, DriveKind::Memory | DriveKind::Null)
}

fn failed(drive: &Drive, error: IoError) -> Error {
    let kind = if error.kind == IoErrorKind::OutOfSpace {
        ErrorKind::OutOfSpace
    } else {
        ErrorKind::Failed
    };
    let sentence =
        format!("drive {} could not be written ({error}); nothing was created", drive.name);
    Error::new(kind, sentence)
}

/// Writes a block to each drive, all at once.
async fn write(marked: &[Marked], what: impl Fn(&Marked) -> &Vec<u8>) -> Result<()> {
    let ios = marked.iter().enumerate();
    let ios = ios.map(|(at, one)| (at, Some(one.access.write(one.place.start, what(one)))));
    match join(ios.collect()).await.into_iter().next() {
        Some((at, error)) => Err(failed(&marked[at].drive, error)),
        None => Ok(()),
    }
}

/// Reads each drive again: all must hold their own marks.
async fn read_apart(marked: &[Marked]) -> Result<()> {
    for (at, one) in marked.iter().enumerate() {
        let read = one.access.read(one.place).await.map_err(|error| failed(&one.drive, error))?;
        if read == one.mark {
            continue;
        }
        let sentence = match marked.iter().position(|other| other.mark == read) {
            Some(other) => {
                let name = |at: usize| &marked[at].drive.name;
                format!(
                    "{} and {} are the same storage: data written to one appears on the other; \
                    name each drive once",
                    name(at.min(other)),
                    name(at.max(other))
                )
            }
            None => format!(
                "drive {} did not return the data just written to it; replace it, its cable or its \
                server",
                one.drive.name
            ),
        };
        return Err(Error::new(ErrorKind::Invalid, sentence));
    }
    Ok(())
}

/// Reads drives that the command does not name: none may show a mark.
async fn read_beside(marked: &[Marked], beside: &[Beside]) -> Result<()> {
    for other in beside.iter().filter(|other| marked.iter().any(|one| one.before == other.before)) {
        let Ok(read) = other.access.read(other.place).await else { continue };
        if let Some(one) = marked.iter().find(|one| one.mark == read) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} and {1} are the same storage: data written to one appears on the other; \
                    first run 'softroc drive forget {1}'",
                    one.drive.name, other.drive.name
                ),
            ));
        }
    }
    Ok(())
}
