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
    // Only whole lines: the memory system would have to merge a partial one.
    let head = into.as_ptr().align_offset(PIECE).min(into.len());
    let (into_head, into) = into.split_at_mut(head);
    let (from_head, from) = from.split_at(head);
    into_head.copy_from_slice(from_head);
    let (mut into, mut from) = (into.chunks_exact_mut(PIECE), from.chunks_exact(PIECE));
    match std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX, and the pieces are aligned.
        true => unsafe { stream_by_avx((&mut into).zip(&mut from)) },
        // SAFETY: the pieces are aligned.
        false => unsafe { stream_by_sse2((&mut into).zip(&mut from)) },
    }
    into.into_remainder().copy_from_slice(from.remainder());
    // SAFETY: SSE is part of this architecture. Non-temporal stores are unordered: the fence makes
    // them visible before any later store.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// The bytes that one step of a loop copies: two lines.
#[cfg(target_arch = "x86_64")]
const PIECE: usize = 128;

/// Copies pieces of [`PIECE`] bytes.
///
/// # Safety
/// The processor has AVX. Destinations are aligned to 32 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream_by_avx<'a>(pieces: impl Iterator<Item = (&'a mut [u8], &'a [u8])>) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    for (to, piece) in pieces {
        let (to, piece) = (to.as_mut_ptr(), piece.as_ptr());
        // SAFETY: both are `PIECE` bytes, and `to` is aligned.
        unsafe {
            let (a, b) =
                (_mm256_loadu_si256(piece.cast()), _mm256_loadu_si256(piece.add(32).cast()));
            let (c, d) = (
                _mm256_loadu_si256(piece.add(64).cast()),
                _mm256_loadu_si256(piece.add(96).cast()),
            );
            _mm256_stream_si256(to.cast(), a);
            _mm256_stream_si256(to.add(32).cast(), b);
            _mm256_stream_si256(to.add(64).cast(), c);
            _mm256_stream_si256(to.add(96).cast(), d);
        }
    }
}

/// The same for every processor of this architecture.
///
/// # Safety
/// Destinations are aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn stream_by_sse2<'a>(pieces: impl Iterator<Item = (&'a mut [u8], &'a [u8])>) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
    for (to, piece) in pieces {
        for at in (0..PIECE).step_by(16) {
            // SAFETY: SSE2 is part of this architecture. Both are `PIECE` bytes, and `to` is
            // aligned.
            unsafe {
                let bytes = _mm_loadu_si128(piece.as_ptr().add(at).cast());
                _mm_stream_si128(to.as_mut_ptr().add(at).cast(), bytes);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(into: &mut [u8], from: &[u8]) {
    into.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor with AVX does not use it otherwise.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_processor_without_avx_copies_the_same() {
        let from: Vec<u8> = (0..1024u32).map(|at| ((at * 31) >> 3) as u8).collect();
        let mut memory = vec![0xEE_u8; 1024 + PIECE];
        let head = memory.as_ptr().align_offset(PIECE);
        let into = &mut memory[head..head + 1024];
        // SAFETY: `head` aligns the pieces.
        unsafe { stream_by_sse2(into.chunks_exact_mut(PIECE).zip(from.chunks_exact(PIECE))) };
        assert!(*into == from);
    }

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
