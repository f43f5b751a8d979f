//! Samples of the drives for a guess: some windows at the same offsets of all drives, and single
//! blocks.
//!
//! Of each block of 4 KiB, the smallest strip, only the first and last bytes and a hash are kept.
//! Memory is 160 bytes per block, for any size of drives.

use platform::{Buf, DriveSource, Env, Member};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{ByteCount, ByteOffset};

/// The smallest strip; all sizes are multiples of it.
pub(super) const BLOCK: u64 = 4096;
/// The number of bytes that are kept from each end of a block.
pub(super) const EDGE: usize = 64;
/// A window's length: four rows of the largest strip.
const WINDOW: u64 = 4 << 20;
/// The maximum number of windows.
const WINDOWS: u64 = 16;
/// The number of single blocks that are cached.
const REMEMBERED: usize = 8192;

/// A block's ends and hash.
#[derive(Clone)]
pub(super) struct Cell {
    pub(super) head: [u8; EDGE],
    pub(super) tail: [u8; EDGE],
    /// FNV-1a of the block; 0 if all its bytes are equal, which is no evidence.
    pub(super) hash: u64,
}

impl Cell {
    fn of(block: &[u8]) -> Cell {
        let mut cell = Cell { head: [0; EDGE], tail: [0; EDGE], hash: hash(block) };
        cell.head.copy_from_slice(&block[..EDGE]);
        cell.tail.copy_from_slice(&block[block.len() - EDGE..]);
        cell
    }
}

/// FNV-1a over words of 64 bits; 0 if all bytes are equal.
pub(super) fn hash(block: &[u8]) -> u64 {
    if block.iter().all(|byte| *byte == block[0]) {
        return 0;
    }
    let (words, _) = block.as_chunks::<8>();
    let step = |hash: u64, word: &[u8; 8]| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0100_0000_01B3)
    };
    words.iter().fold(0xCBF2_9CE4_8422_2325, step).max(1)
}

/// A range of blocks that was read from all drives.
pub(super) struct Window {
    /// Its offset on each drive, in bytes.
    pub(super) start: u64,
    /// By drive, then by block; `None` if unreadable.
    pub(super) cells: Vec<Vec<Option<Cell>>>,
    /// The XOR of all drives for each block; `None` if a drive could not be read.
    pub(super) xor: Vec<Option<Cell>>,
}

impl Window {
    pub(super) fn blocks(&self) -> usize {
        self.xor.len()
    }
}

/// Blocks by drive and offset; `None` if unreadable.
type Blocks = BTreeMap<(usize, u64), Option<Vec<u8>>>;

/// The open drives, and the size that they have in common.
pub(super) struct Reader {
    members: Vec<Member>,
    /// The size that all drives have, in whole blocks.
    pub(super) size: u64,
    remembered: RefCell<Blocks>,
}

impl Reader {
    pub(super) fn new(env: &Env, sources: &[Arc<dyn DriveSource>]) -> Result<Reader, String> {
        let attach =
            |source: &Arc<dyn DriveSource>| source.attach(env).map(|drive| Member::new(env, drive));
        let members = sources.iter().map(attach).collect::<Result<_, _>>();
        let size =
            sources.iter().map(|source| source.info().size.0).min().unwrap_or(0) / BLOCK * BLOCK;
        Ok(Reader {
            members: members.map_err(|error| error.to_string())?,
            size,
            remembered: RefCell::default(),
        })
    }

    pub(super) fn drives(&self) -> usize {
        self.members.len()
    }

    async fn bytes(&self, drive: usize, at: u64, len: u64) -> Option<Vec<u8>> {
        if at.checked_add(len).is_none_or(|end| end > self.size) {
            return None;
        }
        let buf = Buf::unpooled(ByteCount(len));
        let outcome =
            self.members.get(drive)?.read(ByteOffset(at), [buf].into_iter().collect()).await;
        let bytes = outcome.buffers.iter().map(Buf::bytes).collect::<Vec<_>>().concat();
        (outcome.result.is_ok_and(|done| done == len) && bytes.len() as u64 == len).then_some(bytes)
    }

    /// Reads a block. The index after the last drive is the missing drive of single parity: the XOR
    /// of all.
    pub(super) async fn block(&self, drive: usize, at: u64) -> Option<Vec<u8>> {
        if let Some(known) = self.remembered.borrow().get(&(drive, at)) {
            return known.clone();
        }
        let block = if drive < self.members.len() {
            self.bytes(drive, at, BLOCK).await
        } else {
            let mut sum = vec![0; BLOCK as usize];
            for other in 0..self.members.len() {
                let bytes = self.bytes(other, at, BLOCK).await?;
                sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
            }
            Some(sum)
        };
        let mut remembered = self.remembered.borrow_mut();
        if remembered.len() < REMEMBERED {
            remembered.insert((drive, at), block.clone());
        }
        block
    }

    /// Reads windows spread over the drives, including beginning and end, and finds file system
    /// anchors in them.
    pub(super) async fn windows(&self, mut see: impl FnMut(usize, u64, &[u8])) -> Vec<Window> {
        let count = (self.size / WINDOW).clamp(1, WINDOWS);
        let len = WINDOW.min(self.size);
        let mut windows = Vec::new();
        for number in 0..count {
            let space = self.size - len;
            let start =
                if count == 1 { 0 } else { space / (count - 1) * number / (1 << 20) * (1 << 20) };
            let blocks = (len / BLOCK) as usize;
            let mut sum: Vec<u8> = vec![0; len as usize];
            let mut whole = vec![true; blocks];
            let mut cells = Vec::new();
            for drive in 0..self.members.len() {
                let mut own = Vec::with_capacity(blocks);
                // If a window cannot be read at once, its blocks are read one by one.
                let bytes = self.bytes(drive, start, len).await;
                for (index, whole) in whole.iter_mut().enumerate() {
                    let at = index * BLOCK as usize;
                    let single;
                    let block = match &bytes {
                        Some(bytes) => Some(&bytes[at..at + BLOCK as usize]),
                        None => {
                            single = self.bytes(drive, start + at as u64, BLOCK).await;
                            single.as_deref()
                        }
                    };
                    match block {
                        Some(block) => {
                            see(drive, start + at as u64, block);
                            sum[at..at + BLOCK as usize]
                                .iter_mut()
                                .zip(block)
                                .for_each(|(sum, byte)| *sum ^= byte);
                        }
                        None => *whole = false,
                    }
                    own.push(block.map(Cell::of));
                }
                cells.push(own);
            }
            let sums = sum.chunks_exact(BLOCK as usize).zip(whole);
            let xor = sums.map(|(block, is_whole)| is_whole.then(|| Cell::of(block))).collect();
            windows.push(Window { start, cells, xor });
        }
        windows
    }
}
