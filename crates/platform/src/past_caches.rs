//! Copies that bypass the processor's caches, into memory that is not read soon.

/// The shortest copy for which bypassing the caches is worth its fence.
const WORTH: usize = 4096;

/// Copies `from` to `into`, which has the same length, with non-temporal stores if the processor
/// has them. An ordinary store to an uncached line reads the line first, so that such a copy takes
/// half as long. A cached line is faster with ordinary stores, as are short copies.
///
/// # Panics
/// If the lengths differ.
pub fn copy_past_caches(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "source and destination differ in length");
    if into.len() < WORTH {
        into.copy_from_slice(from);
    } else {
        stream(into, from);
    }
}

#[cfg(target_arch = "x86_64")]
fn stream(into: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    /// Only whole lines: the memory system would have to merge a partial one.
    const LINE: usize = 64;
    let head = into.as_ptr().align_offset(LINE).min(into.len());
    let (into_head, into) = into.split_at_mut(head);
    let (from_head, from) = from.split_at(head);
    into_head.copy_from_slice(from_head);
    let (mut into, mut from) = (into.chunks_exact_mut(LINE), from.chunks_exact(LINE));
    for (to, line) in (&mut into).zip(&mut from) {
        let (to, line) = (to.as_mut_ptr(), line.as_ptr());
        // SAFETY: SSE2 is part of this architecture. `line` and `to` are 64 bytes of their slices,
        // and `to` is aligned to 64.
        unsafe {
            let (a, b) = (_mm_loadu_si128(line.cast()), _mm_loadu_si128(line.add(16).cast()));
            let (c, d) =
                (_mm_loadu_si128(line.add(32).cast()), _mm_loadu_si128(line.add(48).cast()));
            _mm_stream_si128(to.cast(), a);
            _mm_stream_si128(to.add(16).cast(), b);
            _mm_stream_si128(to.add(32).cast(), c);
            _mm_stream_si128(to.add(48).cast(), d);
        }
    }
    into.into_remainder().copy_from_slice(from.remainder());
    // SAFETY: SSE is part of this architecture. Non-temporal stores are unordered: the fence makes
    // them visible before any later store.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(into: &mut [u8], from: &[u8]) {
    into.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_and_no_other() {
        let from: Vec<u8> = (0..20_000u32).map(|at| ((at * 31) >> 3) as u8).collect();
        for len in [0, 1, 63, 4095, 4096, 4097, 8192, 10_000] {
            for (to, at) in [(0, 0), (1, 0), (63, 7), (64, 64), (100, 4095)] {
                let mut into = vec![0xEE; 20_000];
                copy_past_caches(&mut into[to..to + len], &from[at..at + len]);
                assert!(into[to..to + len] == from[at..at + len], "{len} bytes from {at} to {to}");
                let others = into[..to].iter().chain(&into[to + len..]);
                assert!(
                    others.copied().all(|byte| byte == 0xEE),
                    "{len} bytes from {at} to {to}: beside them"
                );
            }
        }
    }
}
