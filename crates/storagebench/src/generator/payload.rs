//! The bytes of writes, with the profile's compressibility. They are prepared once, and stamped for
//! every write.
//!
//! Filling 64 KiB with random numbers takes ten times as long as a write to a fast target. Each
//! outstanding I/O therefore fills its buffer once, and changes eight bytes of each 4 KiB before
//! each write. That prevents deduplication.

use crate::generator::random::Random;
use platform::{Buf, Slice};
use units::ByteCount;

/// The first bytes of every 4 KiB that StorageBench writes. [`crate::measurement::guard`]
/// recognises test files by it.
pub(crate) const MARK: [u8; 8] = *b"StorBnch";

/// The distance of stamps in a block: the smallest unit of compression and deduplication.
const PAGE: usize = 4096;

/// The reusable write buffer of one outstanding I/O.
pub(crate) struct Payload {
    slice: Slice,
}

impl Payload {
    /// Fills `buf` with random bytes, except for zeros at each page's end in the compressible
    /// share. A data-less buffer stays a length.
    pub(crate) fn new(mut buf: Buf, seed: u64, compressible_percent: f64) -> Payload {
        let mut random = Random::new(seed);
        for page in buf.bytes_mut().chunks_mut(PAGE) {
            let noise = (page.len() as f64 * (1.0 - compressible_percent / 100.0)).round() as usize;
            let (noise, zeroes) = page.split_at_mut(noise.min(page.len()));
            random.fill(noise);
            zeroes.fill(0);
        }
        Payload { slice: buf.freeze() }
    }

    /// The next write's `len` bytes: the same bytes with another stamp. While the target still uses
    /// the last write's slice, that content is repeated.
    pub(crate) fn next(&mut self, stamp: u64, len: ByteCount) -> Slice {
        self.change(|bytes| mark(&mut bytes[..len.as_usize()], stamp));
        self.slice.cut(ByteCount::ZERO, len)
    }

    /// Lets `change` modify the buffer, unless the target still uses it. Returns whether it could.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut [u8])) -> bool {
        let empty = Slice::hollow(ByteCount::ZERO);
        match std::mem::replace(&mut self.slice, empty).try_unfreeze() {
            Ok(mut buf) => {
                change(buf.bytes_mut());
                self.slice = buf.freeze();
                true
            }
            Err(slice) => {
                self.slice = slice;
                false
            }
        }
    }

    /// The first `len` bytes, unchanged.
    pub(crate) fn first(&self, len: ByteCount) -> Slice {
        self.slice.cut(ByteCount::ZERO, len)
    }
}

fn mark(bytes: &mut [u8], stamp: u64) {
    for (page, bytes) in bytes.chunks_mut(PAGE).enumerate() {
        if let Some(place) = bytes.get_mut(..16) {
            place[..8].copy_from_slice(&MARK);
            place[8..].copy_from_slice(&stamp.wrapping_add(page as u64).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: ByteCount = ByteCount(64 << 10);

    #[test]
    fn no_two_pages_of_two_writes_are_the_same_and_each_begins_with_the_mark() {
        let mut payload = Payload::new(Buf::unpooled(BLOCK), 1, 0.0);
        let mut pages: Vec<Vec<u8>> = Vec::new();
        for stamp in [1000, 2000] {
            let slice = payload.next(stamp, BLOCK);
            let bytes = slice.solid().unwrap();
            assert!(bytes.chunks(PAGE).all(|page| page[..8] == MARK));
            pages.extend(bytes.chunks(PAGE).map(<[u8]>::to_vec));
        }
        pages.sort();
        pages.dedup();
        assert_eq!(pages.len(), 32);
    }

    #[test]
    fn a_payload_that_is_still_held_is_not_touched() {
        let mut payload = Payload::new(Buf::unpooled(ByteCount(4096)), 1, 0.0);
        let held = payload.next(1, ByteCount(4096));
        let before = held.solid().unwrap().to_vec();
        let _again = payload.next(2, ByteCount(4096));
        assert!(!payload.change(|bytes| bytes.fill(0)));
        assert_eq!(held.solid().unwrap(), before);
    }

    #[test]
    fn a_hollow_payload_stays_hollow() {
        let mut payload = Payload::new(Buf::hollow(ByteCount(8192)), 1, 0.0);
        let slice = payload.next(1, ByteCount(8192));
        assert!(slice.is_hollow() && slice.len() == ByteCount(8192));
    }

    #[test]
    fn every_page_compresses_by_the_share_that_was_asked_for() {
        for percent in [0.0, 25.0, 50.0, 100.0] {
            let mut payload = Payload::new(Buf::unpooled(BLOCK), 1, percent);
            let slice = payload.next(u64::MAX / 3, BLOCK);
            for page in slice.solid().unwrap().chunks(PAGE) {
                // Any compressor removes a run of zeros, and none shortens random bytes.
                let run = page.iter().rev().take_while(|byte| **byte == 0).count();
                let wanted = (PAGE as f64 * percent / 100.0) as usize;
                assert!(run.abs_diff(wanted) <= 16, "{percent}: {run}");
                let zeroes = page[16..PAGE - run].iter().filter(|byte| **byte == 0).count();
                assert!(zeroes < 60, "{percent}: {zeroes} zeroes among the noise");
            }
        }
    }

    #[test]
    fn shorter_writes_take_the_beginning() {
        let mut payload = Payload::new(Buf::unpooled(BLOCK), 1, 0.0);
        let slice = payload.next(1, ByteCount(512));
        assert_eq!((slice.len(), &slice.solid().unwrap()[..8]), (ByteCount(512), &MARK[..]));
    }
}
