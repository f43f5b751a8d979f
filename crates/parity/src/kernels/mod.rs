//! The kernels: the same loops for different processors, selected once at run time.
//!
//! | name | requires | Q |
//! | --- | --- | --- |
//! | `gfni` | AVX-512 F and BW, GFNI | each strip times its weight; Horner's rule for many strips |
//! | `avx512` | AVX-512 F and BW | Horner's rule |
//! | `avx2` | AVX2 | Horner's rule |
//! | `ssse3` | SSSE3 | Horner's rule |
//! | `portable` | nothing | Horner's rule, in 64-bit words |
//!
//! `SOFTROC_PARITY` selects a kernel by name, for tests and measurements.
//!
//! Unsafe code: the kernels use pointers, without bounds checks in the loops. [`Kernel`]'s methods
//! are safe: they take slices, check their lengths, and only kernels that this processor supports
//! are available.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod body;
mod cache;
mod portable;
#[cfg(target_arch = "x86_64")]
mod ssse3;
mod vector;

pub(crate) use body::Finish;
use body::Job;

use crate::sources::Term;
use std::fmt;
use std::sync::OnceLock;

/// Calls that read and write at least this many bytes prefetch their strips: these come from memory
/// (9 % faster; from an L3 cache it would cost 5 %).
const AHEAD_FROM_BYTES: usize = 32 << 20;

/// Streamed results must be aligned to cache lines.
const STREAM_ALIGNMENT: usize = 64;

/// An implementation of the loops that this processor supports.
pub struct Kernel {
    name: &'static str,
    /// Whether terms must be sorted by descending exponent.
    horner: bool,
    /// The number of strips from which P and Q of a whole stripe use Horner's rule without gaps.
    dense_from: usize,
    runs_here: fn() -> bool,
    sum: unsafe fn(&Job<'_>),
    weigh: unsafe fn(&Job<'_>),
    both: unsafe fn(&Job<'_>),
    zero: unsafe fn(*const u8, usize) -> bool,
}

/// Creates the functions of a kernel from the bodies: `#[target_feature]` on a wrapper enables the
/// instructions for everything inlined into it. `columns` is the column width in registers;
/// `of_sums` is the width without weights, which needs fewer registers.
macro_rules! kernel {
    (
        $vector:expr, columns: $columns:literal, of_sums: $of_sums:literal
        $(, feature: $feature:literal)?
    ) => {
        /// # Safety
        /// As the body's; and the processor has the features.
        $(#[target_feature(enable = $feature)])?
        pub(in crate::kernels) unsafe fn sum(job: &$crate::kernels::body::Job<'_>) {
            // SAFETY: guaranteed by the caller.
            unsafe { $crate::kernels::body::sum::<_, $of_sums>($vector, job) }
        }
        /// # Safety
        /// As the body's; and the processor has the features.
        $(#[target_feature(enable = $feature)])?
        pub(in crate::kernels) unsafe fn weigh(job: &$crate::kernels::body::Job<'_>) {
            // SAFETY: guaranteed by the caller.
            unsafe { $crate::kernels::body::weigh::<_, $columns>($vector, job) }
        }
        /// # Safety
        /// As the body's; and the processor has the features.
        $(#[target_feature(enable = $feature)])?
        pub(in crate::kernels) unsafe fn both(job: &$crate::kernels::body::Job<'_>) {
            // SAFETY: guaranteed by the caller.
            unsafe { $crate::kernels::body::both::<_, $columns>($vector, job) }
        }
        /// # Safety
        /// As the body's; and the processor has the features.
        $(#[target_feature(enable = $feature)])?
        pub(in crate::kernels) unsafe fn zero(bytes: *const u8, len: usize) -> bool {
            // SAFETY: guaranteed by the caller.
            unsafe { $crate::kernels::body::zero($vector, bytes, len) }
        }
    };
}
use kernel;

/// A row of the table of kernels.
macro_rules! row {
    (
        $name:literal, $module:path, horner: $horner:literal, dense_from: $dense_from:expr,
        $runs_here:expr
    ) => {{
        use $module as kernel;
        Kernel {
            name: $name,
            horner: $horner,
            dense_from: $dense_from,
            runs_here: $runs_here,
            sum: kernel::sum,
            weigh: kernel::weigh,
            both: kernel::both,
            zero: kernel::zero,
        }
    }};
}

/// The number of lines at one page offset that an L1 cache stores. More strips evict the weights of
/// each column (14 × 64 KiB on an AMD EPYC: 38 GB/s, without weights 74).
const FIRST_LEVEL_WAYS: usize = 8;

/// All kernels of this architecture, fastest first.
static KERNELS: &[Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    row!("gfni", avx512::gfni, horner: false, dense_from: FIRST_LEVEL_WAYS + 1, || {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("gfni")
    }),
    #[cfg(target_arch = "x86_64")]
    row!("avx512", avx512::plain, horner: true, dense_from: 0, || {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }),
    #[cfg(target_arch = "x86_64")]
    row!("avx2", avx2, horner: true, dense_from: 0, || is_x86_feature_detected!("avx2")),
    #[cfg(target_arch = "x86_64")]
    row!("ssse3", ssse3, horner: true, dense_from: 0, || is_x86_feature_detected!("ssse3")),
    row!("portable", portable, horner: true, dense_from: 0, || true),
];

/// The kernels that this processor supports, fastest first.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().filter(|kernel| (kernel.runs_here)())
}

/// The environment variable that forces a kernel.
pub const KERNEL_VARIABLE: &str = "SOFTROC_PARITY";

struct Choice {
    kernel: &'static Kernel,
    refused: Option<String>,
}

fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| choose(std::env::var(KERNEL_VARIABLE).ok()))
}

fn choose(wanted: Option<String>) -> Choice {
    // The last kernel in the table is portable, so there is always a first.
    let best = kernels().next().unwrap_or(&KERNELS[KERNELS.len() - 1]);
    match wanted.filter(|name| !name.is_empty()) {
        None => Choice { kernel: best, refused: None },
        Some(name) => match kernels().find(|kernel| kernel.name == name) {
            Some(kernel) => Choice { kernel, refused: None },
            None => Choice { kernel: best, refused: Some(name) },
        },
    }
}

/// The kernel used by the functions of this crate: the fastest, or the one in `SOFTROC_PARITY`.
pub fn chosen() -> &'static Kernel {
    choice().kernel
}

/// The name of the selected kernel.
pub fn kernel_name() -> &'static str {
    chosen().name
}

/// The rejected value of `SOFTROC_PARITY`: unknown, or not supported by this processor.
pub fn refused_kernel() -> Option<&'static str> {
    choice().refused.as_deref()
}

/// The initial value of a sum.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Zeroes.
    Zero,
    /// The current content of the result.
    Kept,
    /// These bytes.
    Bytes(&'a [u8]),
}

impl<'a> From<Option<&'a [u8]>> for Start<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Start::Zero, Start::Bytes)
    }
}

impl Kernel {
    /// Its name, for `SOFTROC_PARITY`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// out = start + Σ terms.
    #[inline]
    pub(crate) fn sum(&self, out: &mut [u8], start: Start<'_>, terms: &[Term<'_>]) {
        let job = job([&mut *out], [start], terms, None);
        // SAFETY: `job` has checked lengths and alignment; `out` is borrowed mutably, so no term
        // overlaps it; only supported kernels are available.
        unsafe { (self.sum)(&job) }
    }

    /// out = start + Σ 2^exponent · term. The terms may be reordered.
    #[inline]
    pub(crate) fn weigh(&self, out: &mut [u8], start: Start<'_>, terms: &mut [Term<'_>]) {
        self.sort(terms);
        let job = job([&mut *out], [start], terms, None);
        // SAFETY: as in `sum`.
        unsafe { (self.weigh)(&job) }
    }

    /// P = start + Σ terms and Q = start + Σ 2^exponent · term, or the result of `finish` on them.
    /// The terms may be reordered.
    #[inline]
    pub(crate) fn both(
        &self,
        out: [&mut [u8]; 2],
        start: [Start<'_>; 2],
        terms: &mut [Term<'_>],
        finish: Option<Finish>,
    ) {
        let is_whole = finish.is_none() && matches!(start, [Start::Zero, Start::Zero]);
        let dense = is_whole && terms.len() >= self.dense_from && is_dense(terms);
        if !dense {
            self.sort(terms);
        }
        let [p, q] = out;
        let mut job = job([&mut *p, &mut *q], start, terms, finish);
        job.dense = dense;
        // SAFETY: as in `sum`.
        unsafe { (self.both)(&job) }
    }

    /// Whether all bytes are zero.
    pub fn is_zero(&self, bytes: &[u8]) -> bool {
        // SAFETY: the slice can be read; only supported kernels are available.
        unsafe { (self.zero)(bytes.as_ptr(), bytes.len()) }
    }

    #[inline]
    fn sort(&self, terms: &mut [Term<'_>]) {
        if self.horner && !terms.is_sorted_by(|a, b| a.exponent >= b.exponent) {
            terms.sort_unstable_by_key(|term| std::cmp::Reverse(term.exponent));
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Creates a job from slices of equal length.
///
/// # Panics
/// When the lengths differ; the callers in this crate check them.
#[inline]
fn job<'a, const N: usize>(
    out: [&'a mut [u8]; N],
    start: [Start<'a>; N],
    terms: &'a [Term<'a>],
    finish: Option<Finish>,
) -> Job<'a> {
    let len = out[0].len();
    let touched = (terms.len() + N) * len;
    let mut job = Job {
        out: [std::ptr::null_mut(); 2],
        start: [std::ptr::null(); 2],
        len,
        terms,
        stream: touched >= cache::stream_from_bytes(),
        ahead: touched >= AHEAD_FROM_BYTES,
        finish,
        dense: false,
    };
    for (i, (out, start)) in out.into_iter().zip(start).enumerate() {
        assert_eq!(out.len(), len, "results of different lengths");
        job.out[i] = out.as_mut_ptr();
        match start {
            Start::Zero => {}
            // The result has just been read into the cache: a streaming store would gain nothing.
            Start::Kept => (job.start[i], job.stream) = (job.out[i], false),
            Start::Bytes(bytes) => {
                assert_eq!(bytes.len(), len, "a start of a different length");
                job.start[i] = bytes.as_ptr();
            }
        }
        job.stream &= job.out[i].addr().is_multiple_of(STREAM_ALIGNMENT);
    }
    assert!(terms.iter().all(|term| term.bytes.len() == len), "summands of different lengths");
    job
}

/// Whether the exponents are 0, 1, 2, ….
#[inline]
fn is_dense(terms: &[Term<'_>]) -> bool {
    let counted = terms.iter().zip(0..);
    counted.fold(true, |dense, (term, exponent)| dense & (usize::from(term.exponent) == exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_takes_a_kernel_by_name_and_an_unknown_name_is_told() {
        for kernel in kernels() {
            let choice = choose(Some(kernel.name().into()));
            assert_eq!((choice.kernel.name(), choice.refused), (kernel.name(), None));
        }
        let choice = choose(Some("abacus".into()));
        assert_eq!(choice.kernel.name(), choose(None).kernel.name());
        assert_eq!(choice.refused.as_deref(), Some("abacus"));
        assert_eq!(choose(Some(String::new())).refused, None, "an empty variable selects nothing");
    }

    #[test]
    fn the_portable_kernel_runs_everywhere() {
        assert!(kernels().any(|kernel| kernel.name() == "portable"));
    }
}
