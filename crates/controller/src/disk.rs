//! Labels and maps on drives: reading, writing, erasing. Metadata is always solid, small and durable.

use env::{Buf, DriveInfo, DriveSource, Durability, Env, Io, IoError, IoErrorKind, Member};
use ondisk::{BLOCK, BlockWrite, Carried, Copies, Slot, Tail, intent};
use smallvec::smallvec;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange};

/// Reads in pieces that any drive takes.
const PIECE: ByteCount = ByteCount(128 << 10);

/// A drive that is open: its source for the shards, and the controller's own way to it.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) source: Arc<dyn DriveSource>,
    pub(crate) member: Member,
}

/// What was found where labels lie.
#[derive(Clone, Debug)]
pub(crate) enum LabelSeen {
    /// Nothing.
    Blank,
    /// A label that is sound.
    Sound(Box<Carried>),
    /// Something of ours that cannot be used: a sentence.
    Bad(String),
}

/// Where a drive's next label goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) slot: Slot,
    pub(crate) sequence: u64,
}

impl Seat {
    /// After that label.
    pub(crate) fn after(carried: &Carried) -> Seat {
        Seat { slot: carried.slot.other(), sequence: carried.sequence + 1 }
    }

    /// Of a drive that carries none.
    pub(crate) const FIRST: Seat = Seat { slot: Slot::A, sequence: 1 };

    /// After a label was written here, or may have been.
    #[must_use]
    pub(crate) fn next(self, written: bool) -> Seat {
        let slot = if written { self.slot.other() } else { self.slot };
        Seat { slot, sequence: self.sequence + 1 }
    }
}

impl Access {
    /// Opens a drive.
    ///
    /// # Errors
    /// When it cannot be opened or attached.
    pub(crate) async fn open(env: &Env, name: &str) -> env::Result<Access> {
        let source = drives::open(env, name).await?;
        let member = Member::new(env, source.attach(env)?);
        Ok(Access { source, member })
    }

    pub(crate) fn info(&self) -> &DriveInfo {
        self.source.info()
    }

    /// Its tail; `None` where it is too small for one.
    pub(crate) fn tail(&self) -> Option<Tail> {
        Tail::of(self.info().size)
    }

    pub(crate) async fn read(&self, range: ByteRange) -> Result<Vec<u8>, IoError> {
        let mut bytes = Vec::with_capacity(range.len.as_usize());
        let mut at = range.start;
        while at < range.end() {
            let len = PIECE.min(range.end() - at);
            let outcome = self.member.read(at, smallvec![Buf::unpooled(len)]).await;
            outcome.result?;
            outcome.buffers.iter().for_each(|buf| bytes.extend_from_slice(buf.bytes()));
            at += len;
        }
        if bytes.len() as u64 == range.len.0 { Ok(bytes) } else { Err(IoError::new(IoErrorKind::Medium)) }
    }

    /// Starts a durable write.
    pub(crate) fn write(&self, at: ByteOffset, bytes: &[u8]) -> Io {
        self.member.write(at, smallvec![Buf::copy_of(bytes).freeze()], Durability::Durable)
    }

    /// Starts the durable write of a block of the map.
    pub(crate) fn write_block(&self, tail: &Tail, write: &BlockWrite) -> Io {
        self.write(tail.map_blocks(write.copy, write.block, 1).start, &write.bytes)
    }

    /// Looks for a label. A slot that cannot be read counts as torn while the other one is sound.
    ///
    /// # Errors
    /// When neither slot can be read.
    pub(crate) async fn read_label(&self) -> Result<LabelSeen, IoError> {
        let Some(tail) = self.tail() else { return Ok(LabelSeen::Blank) };
        let a = self.read_slot(&tail, Slot::A).await;
        let b = self.read_slot(&tail, Slot::B).await;
        if let (Err(error), Err(_)) = (&a, &b) {
            return Err(*error);
        }
        let unreadable = a.is_err() || b.is_err();
        let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
        Ok(match ondisk::newest([&a, &b]) {
            Ok(carried) => LabelSeen::Sound(Box::new(carried)),
            Err(error) if error.kind == ondisk::ErrorKind::Blank && !unreadable => LabelSeen::Blank,
            Err(error) => LabelSeen::Bad(error.to_string()),
        })
    }

    async fn read_slot(&self, tail: &Tail, slot: Slot) -> Result<Vec<u8>, IoError> {
        let range = tail.slot(slot);
        let first = self.read(ByteRange::new(range.start, BLOCK)).await?;
        let len = ondisk::length(&first);
        if len == BLOCK {
            return Ok(first);
        }
        self.read(ByteRange::new(range.start, len)).await
    }

    /// Both copies of the map of an array of that many lanes. What cannot be read is left out.
    pub(crate) async fn read_map(&self, lanes: u32) -> Copies {
        let mut copies: Copies = Copies::default();
        let Some(tail) = self.tail() else { return copies };
        let count = intent::blocks_for(lanes);
        for (copy, blocks) in copies.iter_mut().enumerate() {
            match self.read(tail.map_blocks(copy, 0, count)).await {
                Ok(bytes) => blocks.extend(bytes.chunks(BLOCK.as_usize()).map(|block| Some(block.to_vec()))),
                Err(_) => {
                    for block in 0..count {
                        blocks.push(self.read(tail.map_blocks(copy, block, 1)).await.ok());
                    }
                }
            }
        }
        copies
    }

    /// Takes label, map and mark away: the drive is nobody's.
    ///
    /// # Errors
    /// When a write fails; some of it may be left.
    pub(crate) async fn erase(&self) -> Result<(), IoError> {
        let Some(tail) = self.tail() else { return Ok(()) };
        let zeroes = vec![0; BLOCK.as_usize()];
        // The mark goes last: as long as anything of ours is left, it says so.
        let places = [tail.slot(Slot::A).start, tail.slot(Slot::B).start, tail.mark().start];
        for at in places {
            self.write(at, &zeroes).await.result?;
        }
        Ok(())
    }

    /// What the drive holds besides a label: what a person should know before it is overwritten.
    ///
    /// # Errors
    /// When its ends cannot be read.
    pub(crate) async fn findings(&self) -> Result<Vec<String>, IoError> {
        let info = self.info();
        let len = signatures::INSPECTED.min(info.size);
        let first = self.read(ByteRange::new(ByteOffset::ZERO, len)).await?;
        let last = self.read(ByteRange::new(ByteOffset(info.size.0 - len.0), len)).await?;
        let ends = signatures::Ends::new(info.size, &first, &last);
        Ok(signatures::inspect(&ends, &[]).iter().map(ToString::to_string).collect())
    }
}

/// The mark of a SoftROC drive, for whoever looks at a drive before overwriting it.
pub fn drive_mark() -> signatures::Label {
    signatures::Label {
        what: "a SoftROC label",
        magic: &ondisk::MARK,
        place: signatures::Place::FromEnd(BLOCK.0),
    }
}
