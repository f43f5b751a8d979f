//! The inputs of parity: contiguous strips, scattered strips, and zeroes, which cost nothing.
//!
//! A call is divided into *runs*, in which each strip is one slice or zeroes. Zeroes are removed
//! before the kernel runs.

use crate::error::{Error, ErrorKind};
use crate::field;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The content of a strip, or of a range of it.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Contiguous bytes.
    Bytes(&'a [u8]),
    /// That many zeroes, without memory.
    Zero(usize),
    /// Pieces, in order.
    Scattered(&'a [Piece<'a>]),
}

/// A part of a scattered strip.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Contiguous bytes.
    Bytes(&'a [u8]),
    /// That many zeroes, without memory.
    Zero(usize),
    /// A data-less buffer of simulated drives: rejected with [`ErrorKind::Hollow`]. Callers with
    /// data-less buffers skip the call and charge its time.
    Hollow(usize),
}

/// A data strip: its content, and its exponent in Q = Σ 2^exponent · D.
///
/// The caller chooses the exponent, 0 to 254 and each once. Linux md numbers the data strips from
/// the one after Q; DDF uses the raw slot.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The exponent of its weight in Q; P ignores it.
    pub exponent: u8,
    /// The strip's content.
    pub data: Data<'a>,
}

impl<'a> Source<'a> {
    /// A strip with weight `2^exponent` in Q.
    pub fn new(exponent: u8, data: impl Into<Data<'a>>) -> Source<'a> {
        Source { exponent, data: data.into() }
    }

    /// Exponent and content, for [`each_run`].
    #[inline]
    pub(crate) fn weighted(&self) -> (u8, &Data<'a>) {
        (self.exponent, &self.data)
    }
}

impl<'a> From<&'a [u8]> for Data<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Data::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Data<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Data::Bytes(bytes)
    }
}

impl<'a> From<&'a [Piece<'a>]> for Data<'a> {
    fn from(pieces: &'a [Piece<'a>]) -> Self {
        Data::Scattered(pieces)
    }
}

impl Piece<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match *self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Zero(len) | Piece::Hollow(len) => len,
        }
    }

    /// Whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Data<'a> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match *self {
            Data::Bytes(bytes) => bytes.len(),
            Data::Zero(len) => len,
            Data::Scattered(pieces) => pieces.iter().map(Piece::len).sum(),
        }
    }

    /// Whether its length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rest of the piece at `at` (`None` for zeroes), and its length.
    fn rest(&self, at: usize) -> (Option<&'a [u8]>, usize) {
        match *self {
            Data::Bytes(bytes) => (Some(&bytes[at..]), bytes.len() - at),
            Data::Zero(len) => (None, len - at),
            Data::Scattered(pieces) => {
                let mut skip = at;
                for piece in pieces {
                    if skip < piece.len() {
                        return match *piece {
                            Piece::Bytes(bytes) => (Some(&bytes[skip..]), bytes.len() - skip),
                            Piece::Zero(len) | Piece::Hollow(len) => (None, len - skip),
                        };
                    }
                    skip -= piece.len();
                }
                (None, 0)
            }
        }
    }

    /// Rejects contents with another length than `len`, and data-less ones.
    #[inline]
    pub(crate) fn check(&self, len: usize, what: &str) -> Result<(), Error> {
        if let Data::Scattered(pieces) = self
            && pieces.iter().any(|piece| matches!(piece, Piece::Hollow(_)))
        {
            return Err(hollow(what));
        }
        if self.len() != len {
            return Err(wrong_length(self.len(), len, what));
        }
        Ok(())
    }
}

#[cold]
fn hollow(what: &str) -> Error {
    Error::new(ErrorKind::Hollow, format!("{what} is data-less: it has no bytes"))
}

#[cold]
pub(crate) fn wrong_length(is: usize, expected: usize, what: &str) -> Error {
    let message = format!("{what} has {is} bytes where the other strips have {expected}");
    Error::new(ErrorKind::Length, message)
}

/// The exponents of a call's data strips.
#[derive(Default)]
pub(crate) struct Exponents([u64; 4]);

impl Exponents {
    /// The exponents of `sources`; rejects invalid and repeated ones.
    #[inline]
    pub(crate) fn of(sources: &[Source<'_>]) -> Result<Exponents, Error> {
        let mut taken = Exponents::default();
        for source in sources {
            taken.claim(source.exponent)?;
        }
        Ok(taken)
    }

    /// Rejects invalid and repeated exponents.
    #[inline]
    pub(crate) fn check(sources: &[Source<'_>]) -> Result<(), Error> {
        // Usually they ascend, which is quick to check.
        let go_up = sources.windows(2).all(|two| two[0].exponent < two[1].exponent);
        let are_powers =
            sources.last().is_none_or(|last| usize::from(last.exponent) < field::ORDER);
        if go_up && are_powers { Ok(()) } else { Exponents::of(sources).map(|_| ()) }
    }

    /// Adds an exponent; rejects an invalid or repeated one.
    #[inline]
    pub(crate) fn claim(&mut self, exponent: u8) -> Result<(), Error> {
        let (word, bit) = (usize::from(exponent / 64), 1 << (exponent % 64));
        if usize::from(exponent) >= field::ORDER || self.0[word] & bit != 0 {
            return Err(wrong_exponent(exponent));
        }
        self.0[word] |= bit;
        Ok(())
    }
}

#[cold]
fn wrong_exponent(exponent: u8) -> Error {
    let message = format!("exponent {exponent} of a data strip: expected 0 to 254, each once");
    Error::new(ErrorKind::Exponent, message)
}

/// One term for a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Term<'a> {
    pub bytes: &'a [u8],
    /// Its weight in Q is 2 to this power, below 255 …
    pub exponent: u8,
    /// … which is this field element.
    pub weight: u8,
}

impl<'a> Term<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], exponent: u8) -> Term<'a> {
        Term { bytes, exponent, weight: field::power(usize::from(exponent)) }
    }
}

/// A run of a call: within it, each strip is one slice or zeroes.
pub(crate) struct Run<'a, 'b> {
    /// The byte range of the strips.
    pub range: Range<usize>,
    /// The terms that are not zero.
    pub terms: &'b mut [Term<'a>],
    /// P and Q on this run, if they are given and not zero.
    pub parity: [Option<&'a [u8]>; 2],
}

/// The limit of terms per call: old and new of 255 strips, and P and Q.
const MOST: usize = 2 * field::ORDER + 2;

/// A list of terms on the stack. It is not cleared: for strips of 4 KiB that would cost as much as
/// the sum.
pub(crate) struct Terms<'a> {
    room: [MaybeUninit<Term<'a>>; MOST],
    count: usize,
}

impl<'a> Terms<'a> {
    #[inline]
    pub(crate) fn new() -> Terms<'a> {
        Terms { room: [const { MaybeUninit::uninit() }; MOST], count: 0 }
    }

    /// # Panics
    /// When it is full: callers limit the number of strips.
    #[inline]
    pub(crate) fn push(&mut self, term: Term<'a>) {
        self.room[self.count].write(term);
        self.count += 1;
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [Term<'a>] {
        // SAFETY: the first `count` have been written by `push`, and `MaybeUninit<T>` has the
        // layout of `T`.
        unsafe { std::slice::from_raw_parts_mut(self.room.as_mut_ptr().cast(), self.count) }
    }
}

/// Divides the strips of a call, `len` bytes each, into runs, and processes each: `count` terms,
/// for which `source` returns exponent and content, and P and Q if they are read. A call without
/// scattered strips is one run.
///
/// Contents are passed by reference: a copy would stall on stores of the caller.
///
/// # Errors
/// When lengths differ or a strip is data-less; then nothing has been processed.
#[inline]
pub(crate) fn each_run<'a, 'b>(
    len: usize,
    count: usize,
    source: impl Fn(usize) -> (u8, &'b Data<'a>),
    parity: [&'b Data<'a>; 2],
    mut work: impl FnMut(Run<'a, '_>),
) -> Result<(), Error>
where
    'a: 'b,
{
    if count > MOST {
        return Err(too_many(count));
    }
    let mut terms = Terms::new();
    let mut whole = true;
    for i in 0..count {
        let (exponent, data) = source(i);
        match data {
            Data::Bytes(bytes) if bytes.len() == len => terms.push(Term::new(bytes, exponent)),
            Data::Zero(zeroes) if *zeroes == len => {}
            Data::Scattered(_) => {
                data.check(len, "a data strip")?;
                whole = false;
            }
            Data::Bytes(_) | Data::Zero(_) => {
                return Err(wrong_length(data.len(), len, "a data strip"));
            }
        }
    }
    let [p, q] = parity;
    p.check(len, "P")?;
    q.check(len, "Q")?;
    whole &= !matches!(p, Data::Scattered(_)) && !matches!(q, Data::Scattered(_));
    if len == 0 {
        return Ok(());
    }
    if whole {
        let parity = [p.rest(0).0, q.rest(0).0];
        work(Run { range: 0..len, terms: terms.as_mut_slice(), parity });
    } else {
        each_scattered_run(len, (0..count).map(&source), [*p, *q], work);
    }
    Ok(())
}

#[cold]
fn too_many(count: usize) -> Error {
    Error::new(ErrorKind::TooMany, format!("{count} strips, where Q tells 255 apart"))
}

#[inline(never)]
fn each_scattered_run<'a: 'b, 'b>(
    len: usize,
    sources: impl Iterator<Item = (u8, &'b Data<'a>)> + Clone,
    parity: [Data<'a>; 2],
    mut work: impl FnMut(Run<'a, '_>),
) {
    let mut at = 0;
    while at < len {
        let mut run_len = len - at;
        let mut rest = |data: &Data<'a>| {
            let (bytes, rest) = data.rest(at);
            run_len = run_len.min(rest);
            bytes
        };
        let mut terms = Terms::new();
        for (exponent, data) in sources.clone() {
            if let Some(bytes) = rest(data) {
                terms.push(Term::new(bytes, exponent));
            }
        }
        let parity = parity.each_ref().map(&mut rest);
        for term in terms.as_mut_slice() {
            term.bytes = &term.bytes[..run_len];
        }
        let parity = parity.map(|bytes| bytes.map(|bytes| &bytes[..run_len]));
        work(Run { range: at..at + run_len, terms: terms.as_mut_slice(), parity });
        at += run_len;
    }
}
