//! Undo logs on drives: written before an import, read when a drive is looked at, put back where the import was cut off.

use super::access::Access;
use ondisk::{BLOCK, Part, Tail, TailPlace, Undo, UndoHead, to_keep};
use platform::{IoError, IoErrorKind};
use units::{ByteCount, ByteOffset, ByteRange};

/// The most that is written at once.
const PIECE: usize = 1 << 20;

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

    /// The undo log of an import that was not finished. One that is damaged, or cannot be read, is none. A drive that has a
    /// structure has it where its tail is; on one that has none it may be at any place of a tail, and says where that is.
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
