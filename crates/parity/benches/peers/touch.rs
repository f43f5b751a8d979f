//! The memory limit: reads all sources, in the order of parity, and writes the results.

/// A variant of touching memory.
#[derive(Clone, Copy)]
pub struct Form {
    prefetch: bool,
    stream: bool,
}

pub const FORMS: [Form; 4] = [
    Form { prefetch: false, stream: false },
    Form { prefetch: false, stream: true },
    Form { prefetch: true, stream: false },
    Form { prefetch: true, stream: true },
];

/// Reads each source and writes the OR of all to each result.
pub fn run(form: Form, sources: &[&[u8]], results: &mut [&mut [u8]]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature is available.
        return unsafe {
            match (form.prefetch, form.stream) {
                (false, false) => avx512::<false, false>(sources, results),
                (false, true) => avx512::<false, true>(sources, results),
                (true, false) => avx512::<true, false>(sources, results),
                (true, true) => avx512::<true, true>(sources, results),
            }
        };
    }
    let _ = (form.prefetch, form.stream);
    plain(sources, results);
}

fn plain(sources: &[&[u8]], results: &mut [&mut [u8]]) {
    let columns = results[0].len() / 256;
    for column in 0..columns {
        let range = column * 256..(column + 1) * 256;
        let mut any = [0u8; 256];
        for source in sources {
            for (any, byte) in any.iter_mut().zip(&source[range.clone()]) {
                *any |= byte;
            }
        }
        for result in results.iter_mut() {
            result[range.clone()].copy_from_slice(&any);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const PREFETCH: bool, const STREAM: bool>(
    sources: &[&[u8]],
    results: &mut [&mut [u8]],
) {
    use std::arch::x86_64::*;
    const AHEAD: usize = 1024;
    let len = results[0].len();
    assert!(len.is_multiple_of(256) && sources.iter().all(|source| source.len() == len));
    for at in (0..len).step_by(256) {
        let mut any = [_mm512_setzero_si512(); 4];
        // SAFETY: a column of 256 bytes ends within the slices, which are page-aligned; a prefetch
        // may use any address.
        unsafe {
            for source in sources {
                let from = source.as_ptr().add(at);
                for (i, any) in any.iter_mut().enumerate() {
                    if PREFETCH {
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD + 64 * i).cast());
                    }
                    *any = _mm512_or_si512(*any, _mm512_loadu_si512(from.add(64 * i).cast()));
                }
            }
            for result in results.iter_mut() {
                for (i, any) in any.iter().enumerate() {
                    let to = result.as_mut_ptr().add(at + 64 * i).cast();
                    if STREAM {
                        _mm512_stream_si512(to, *any)
                    } else {
                        _mm512_storeu_si512(to.cast(), *any)
                    }
                }
            }
        }
    }
    _mm_sfence();
}
