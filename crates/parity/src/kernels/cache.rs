//! The size of the L2 cache, which decides how results are written.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The default if the processor does not report it: the minimum of most cores.
const USUAL_BYTES: usize = 1 << 20;

/// Results are written with streaming stores if a call reads and writes at least this many bytes:
/// three quarters of the L2 cache. Above that, results would evict sources, and each line would be
/// read before it is written. Below, results are better kept in the cache for their reader.
#[inline]
pub(super) fn stream_from_bytes() -> usize {
    static FROM: AtomicUsize = AtomicUsize::new(0);
    match FROM.load(Ordering::Relaxed) {
        0 => {
            let from = second_level_bytes() / 4 * 3;
            FROM.store(from, Ordering::Relaxed);
            from
        }
        from => from,
    }
}

#[cfg(target_arch = "x86_64")]
fn second_level_bytes() -> usize {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // "Deterministic cache parameters": Intel's leaf, and AMD's of the same layout. Each subleaf is
    // a cache, the type in EAX 4:0 (0: no more), its level in 7:5; ways, partitions and line size,
    // less one each, in EBX, sets less one in ECX.
    for (leaf, most) in [(4, __cpuid(0).eax), (0x8000_001D, __cpuid(0x8000_0000).eax)] {
        if most < leaf {
            continue;
        }
        for subleaf in 0..8 {
            let cache = __cpuid_count(leaf, subleaf);
            let (kind, level) = (cache.eax & 0x1F, cache.eax >> 5 & 7);
            if kind == 0 {
                break;
            }
            if level == 2 {
                let part = |value: u32, bits: u32| (value & ((1 << bits) - 1)) as usize + 1;
                let line = part(cache.ebx, 12) * part(cache.ebx >> 12, 10);
                let bytes = line * part(cache.ebx >> 22, 10) * (cache.ecx as usize + 1);
                return bytes.clamp(USUAL_BYTES / 4, USUAL_BYTES * 64);
            }
        }
    }
    USUAL_BYTES
}

#[cfg(not(target_arch = "x86_64"))]
fn second_level_bytes() -> usize {
    USUAL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_lies_between_a_small_and_a_large_cache() {
        assert!((192 << 10..=48 << 20).contains(&stream_from_bytes()), "{}", stream_from_bytes());
        assert_eq!(stream_from_bytes(), second_level_bytes() / 4 * 3);
    }
}
