//! Parity over byte slices: P (exclusive or) and Q (a weighted sum in GF(2^8)), as fast as memory moves.
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
//! // Two strips are lost, of whatever kind: the others bring them back.
//! let (mut a, mut b) = (vec![0; 100], vec![0; 100]);
//! let mut lost = [Lost::new(Strip::Data(0), &mut a), Lost::new(Strip::Data(2), &mut b)];
//! let left = Parity { p: Some((&p).into()), q: Some((&q).into()) };
//! parity::recover(&mut lost, &data[1..2], left)?;
//! assert_eq!((a, b), (d0.clone(), d2.clone()));
//!
//! // A strip changes: parity follows, without the other strips.
//! let new = vec![77u8; 100];
//! parity::update(Some(&mut p), Some(&mut q), &[Change::new(1, &d1, &new)])?;
//!
//! // A check names the strip that does not fit.
//! let found = parity::check_pq((&p).into(), (&q).into(), &data)?;
//! assert_eq!(found, Verdict::Wrong { culprit: Some(Strip::Data(1)), bytes: 0..100 });
//! # Ok::<(), parity::Error>(())
//! ```
//!
//! # Where to look
//!
//! | what | where |
//! | --- | --- |
//! | the field, 0x11D with generator 2 | [`field`] |
//! | strips in one place, in pieces, as zeroes | [`Data`], [`Source`]: `sources.rs` |
//! | generate, update, recover, check | the files of these names |
//! | the loops, written once | `kernels/body.rs` |
//! | the instructions of each processor | `kernels/{avx512,avx2,ssse3,portable}.rs` |
//! | which one runs | [`kernels`], [`kernel_name`], `SOFTROC_PARITY` |
//!
//! # What holds everywhere
//!
//! - The exponent of each data strip in Q is the caller's: Linux md and DDF number strips differently.
//! - Any length and alignment is taken. Results on whole cache lines are fastest.
//! - Every operation is one pass over memory: each source byte is read once, each result byte written once.
//! - A refused call has written nothing.
//! - Costs, one core with AVX-512: 5 ns (one strip) to 35 ns (eight) a call, then what memory gives (`docs/plan/performance.md`, Parity).

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

/// P: the XOR of all data strips. Zeroes where there is none.
///
/// # Errors
/// When strips differ in length from `p`, are hollow, or share an exponent.
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

/// P, Q or both after data strips have changed, from what these held before and hold now, in place.
///
/// # Errors
/// When lengths differ, contents are hollow, or the same exponent comes twice.
pub fn update(p: Option<&mut [u8]>, q: Option<&mut [u8]>, changes: &[Change<'_>]) -> Result<(), Error> {
    chosen().update(p, q, changes)
}

/// One or two lost strips, of any kind, from all other data strips and what parity is left. A single data
/// strip is taken from P where that is given, else from Q.
///
/// # Errors
/// When lengths differ, contents are hollow, exponents are not distinct (lost strips included), or what is
/// left does not determine what is lost.
pub fn recover(lost: &mut [Lost<'_>], sources: &[Source<'_>], parity: Parity<'_>) -> Result<(), Error> {
    chosen().recover(lost, sources, parity)
}

/// Whether P and Q agree with the data, and which single strip is wrong when they don't.
///
/// # Errors
/// When lengths differ, contents are hollow, or exponents are not distinct.
pub fn check_pq(p: Data<'_>, q: Data<'_>, sources: &[Source<'_>]) -> Result<Verdict, Error> {
    chosen().check_pq(p, q, sources)
}

/// Whether P agrees with the data. Without Q nothing tells which strip is wrong.
///
/// # Errors
/// As [`check_pq`].
pub fn check_p(p: Data<'_>, sources: &[Source<'_>]) -> Result<Verdict, Error> {
    chosen().check_p(p, sources)
}
