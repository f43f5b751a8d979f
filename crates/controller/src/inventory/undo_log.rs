//! Undo logs on drives: written before an import, read when a drive is probed, restored after an
//! interrupted import.

use super::access::Access;
use ondisk::{BLOCK, Part, Tail, TailPlace, Undo, UndoHead, to_keep};
use platform::{IoError, IoErrorKind};
use units::{ByteCount, ByteOffset, ByteRange};

/// The maximum amount written at once.
const PIECE: usize = 1 << 20;

impl Access {
    /// The parts of the drive to save before an import.
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

    /// Writes an undo log: the head is written once the rest is durable.
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

    /// The undo log of an unfinished import. A damaged or unreadable one is ignored. On a drive
    /// with a structure it is in the metadata area (tail); otherwise it may be at any possible
    /// location, and records it.
    pub(crate) async fn read_undo(&self, has_structure: bool) -> Option<Undo> {
        let here = self.place();
        let mut places = TailPlace::ALL.to_vec();
        places.retain(|place| *place == here || !has_structure);
        for place in places {
            let Some(tail) = Tail::at(self.info().size, place) else { continue };
            if let Some(undo) = self.undo_of(&tail).await {
                self.set_place(place);
                return Some(undo);
            }
        }
        None
    }

    async fn undo_of(&self, tail: &Tail) -> Option<Undo> {
        let place = tail.undo_head();
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

    /// Restores the content saved in an undo log, and removes the log. SoftROC's metadata is erased
    /// first.
    ///
    /// # Errors
    /// When it cannot be written; the log remains then.
    pub(crate) async fn undo(&self, undo: &Undo) -> Result<(), IoError> {
        self.erase_marks().await?;
        for (at, bytes) in &undo.parts {
            self.write_all(*at, bytes).await?;
        }
        self.forget_undo().await
    }

    /// Whether the drive still has the content saved in the log.
    pub(crate) async fn is_as_kept(&self, undo: &Undo) -> bool {
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

    pub(super) async fn write_all(&self, at: ByteOffset, bytes: &[u8]) -> Result<(), IoError> {
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            self.write(at + ByteCount((index * PIECE) as u64), piece).await.result?;
        }
        Ok(())
    }
}
