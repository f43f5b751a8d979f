//! What writes carry: bytes that do not compress, prepared once, and stamped for every write.
//!
//! Filling 64 KiB with random numbers takes ten times as long as writing it to a fast target, so each
//! outstanding I/O fills its buffer once and changes eight bytes of each 4 KiB before each write: enough that
//! a target that finds equal blocks finds none.

use crate::random::Random;
use env::{Buf, Slice};
use units::ByteCount;

/// How every block that StorageBench writes begins. [`crate::guard`] knows its own test files by it.
pub(crate) const MARK: [u8; 8] = *b"StorBnch";

/// How far apart the stamps within a block are: the smallest unit that targets deduplicate.
const PAGE: usize = 4096;

/// The buffer that one outstanding I/O writes from, again and again.
pub(crate) struct Payload {
    slice: Slice,
}

impl Payload {
    /// Fills `buf` with random bytes (a hollow one stays a length).
    pub(crate) fn new(mut buf: Buf, seed: u64) -> Payload {
        Random::new(seed).fill(buf.bytes_mut());
        Payload { slice: buf.freeze() }
    }

    /// The next write's content: the same bytes with another stamp. Where the target still holds on to the
    /// last write's slice, that content goes out once more.
    pub(crate) fn next(&mut self, stamp: u64) -> Slice {
        let empty = Slice::hollow(ByteCount::ZERO);
        self.slice = match std::mem::replace(&mut self.slice, empty).try_unfreeze() {
            Ok(mut buf) => {
                mark(buf.bytes_mut(), stamp);
                buf.freeze()
            }
            Err(slice) => slice,
        };
        self.slice.clone()
    }
}

fn mark(bytes: &mut [u8], stamp: u64) {
    for (page, bytes) in bytes.chunks_mut(PAGE).enumerate() {
        if let Some(place) = bytes.get_mut(8..16) {
            place.copy_from_slice(&stamp.wrapping_add(page as u64).to_le_bytes());
        }
    }
    if let Some(place) = bytes.get_mut(..8) {
        place.copy_from_slice(&MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_of_two_writes_are_the_same_and_each_block_begins_with_the_mark() {
        let mut payload = Payload::new(Buf::unpooled(ByteCount(64 << 10)), 1);
        let mut pages: Vec<Vec<u8>> = Vec::new();
        for stamp in [1000, 2000] {
            let slice = payload.next(stamp);
            let bytes = slice.solid().unwrap();
            assert_eq!(bytes[..8], MARK);
            pages.extend(bytes.chunks(PAGE).map(<[u8]>::to_vec));
        }
        pages.sort();
        pages.dedup();
        assert_eq!(pages.len(), 32);
    }

    #[test]
    fn a_payload_that_is_still_held_is_not_touched() {
        let mut payload = Payload::new(Buf::unpooled(ByteCount(4096)), 1);
        let held = payload.next(1);
        let before = held.solid().unwrap().to_vec();
        let _again = payload.next(2);
        assert_eq!(held.solid().unwrap(), before);
    }

    #[test]
    fn a_hollow_payload_stays_hollow() {
        let mut payload = Payload::new(Buf::hollow(ByteCount(8192)), 1);
        let slice = payload.next(1);
        assert!(slice.is_hollow() && slice.len() == ByteCount(8192));
    }
}
