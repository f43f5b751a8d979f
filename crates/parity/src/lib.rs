//! Parity over byte slices: P (XOR) and Q (a weighted sum in GF(2^8)), at memory speed.
//!
//! ```
//! use parity::{Change, Lost, Parity, Source, Strip, Verdict};
//!
//! let (d0, d1, d2) = (vec![1u8; 100], vec![2u8; 100], vec![3u8; 100]);
//! let (mut p, mut q) = (vec![0; 100], vec![0; 100]);
//! let data = [Source::new(0, &d0), Source::new(1, &d1), Source::new(2, &d2)];
//! parity::generate_pq(&mut p, &mut q, &data)?;
//! assert_eq!((p[0], q[0]), (1 ^ 2 ^ 3, 1 ^ 2 * 2 ^ 4 * 3));
//!
//! // Recover two lost strips of any kind from the others.
//! let (mut a, mut b) = (vec![0; 100], vec![0; 100]);
//! let mut lost = [Lost::new(Strip::Data(0), &mut a), Lost::new(Strip::Data(2), &mut b)];
//! let left = Parity { p: Some((&p).into()), q: Some((&q).into()) };
//! parity::recover(&mut lost, &data[1..2], left)?;
//! assert_eq!((a, b), (d0.clone(), d2.clone()));
//!
//! // Update parity for a changed strip, without the other strips.
//! let new = vec![77u8; 100];
//! parity::update(Some(&mut p), Some(&mut q), &[Change::new(1, &d1, &new)])?;
//!
//! // A check identifies a wrong strip.
//! let found = parity::check_pq((&p).into(), (&q).into(), &data)?;
//! assert_eq!(found, Verdict::Wrong { culprit: Some(Strip::Data(1)), bytes: 0..100 });
//! # Ok::<(), parity::Error>(())
//! ```
//!
//! # Modules
//!
//! | content | location |
//! | --- | --- |
//! | the field, 0x11D with generator 2 | [`field`] |
//! | contiguous, scattered and zero strips | [`Data`], [`Source`]: `sources.rs` |
//! | generate, update, recover, check | the files of these names |
//! | the common loops | `kernels/body.rs` |
//! | the instructions of each processor | `kernels/{avx512,avx2,ssse3,portable}.rs` |
//! | the selection of a kernel | [`kernels`], [`kernel_name`], `SOFTROC_PARITY` |
//!
//! # Invariants
//!
//! - The caller chooses the exponent of each data strip in Q: Linux md and DDF number strips
//!   differently.
//! - All lengths and alignments are accepted. Results aligned to cache lines are fastest.
//! - Each operation is one pass over memory: each source byte is read once, each result byte is
//!   written once.
//! - A call that returns an error has written nothing.
//! - Cost on one core with AVX-512: 5 ns (one strip) to 35 ns (eight) per call, then the memory
//!   limit (`docs/plan/performance.md`, Parity).

mod check;
mod error;
pub mod field;
mod generate;
mod kernels;
mod recover;
mod sources;
mod update;
mod xor;

pub use check::Verdict;
pub use error::{Error, ErrorKind};
pub use kernels::{KERNEL_VARIABLE, Kernel, chosen, kernel_name, kernels, refused_kernel};
pub use recover::{Lost, Parity, Strip};
pub use sources::{Data, Piece, Source};
pub use update::Change;
pub use xor::{is_zero, xor_into, xor_many};

/// P: the XOR of all data strips; zeroes without strips.
///
/// # Errors
/// When strips differ in length from `p`, are data-less, or share an exponent.
pub fn generate_p(p: &mut [u8], sources: &[Source<'_>]) -> Result<(), Error> {
    chosen().generate_p(p, sources)
}

/// Q = Σ 2^exponent · D, alone.
///
/// # Errors
/// As [`generate_p`].
pub fn generate_q(q: &mut [u8], sources: &[Source<'_>]) -> Result<(), Error> {
    chosen().generate_q(q, sources)
}

/// P and Q in one pass over the data.
///
/// # Errors
/// As [`generate_p`].
pub fn generate_pq(p: &mut [u8], q: &mut [u8], sources: &[Source<'_>]) -> Result<(), Error> {
    chosen().generate_pq(p, q, sources)
}

/// Updates P, Q or both in place, from the old and new contents of changed data strips.
///
/// # Errors
/// When lengths differ, contents are data-less, or an exponent is repeated.
pub fn update(
    p: Option<&mut [u8]>,
    q: Option<&mut [u8]>,
    changes: &[Change<'_>],
) -> Result<(), Error> {
    chosen().update(p, q, changes)
}

/// Recovers one or two lost strips, of any kind, from all other data strips and the remaining
/// parity. A single data strip is computed from P if that is given, else from Q.
///
/// # Errors
/// When lengths differ, contents are data-less, exponents are not distinct (lost strips included),
/// or the rest does not determine the lost strips.
pub fn recover(
    lost: &mut [Lost<'_>],
    sources: &[Source<'_>],
    parity: Parity<'_>,
) -> Result<(), Error> {
    chosen().recover(lost, sources, parity)
}

/// Checks whether P and Q agree with the data, and identifies a single wrong strip.
///
/// # Errors
/// When lengths differ, contents are data-less, or exponents are not distinct.
pub fn check_pq(p: Data<'_>, q: Data<'_>, sources: &[Source<'_>]) -> Result<Verdict, Error> {
    chosen().check_pq(p, q, sources)
}

/// Checks whether P agrees with the data. Without Q, a wrong strip cannot be identified.
///
/// # Errors
/// As [`check_pq`].
pub fn check_p(p: Data<'_>, sources: &[Source<'_>]) -> Result<Verdict, Error> {
    chosen().check_p(p, sources)
}
