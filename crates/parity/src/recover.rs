//! Recovers any one or two of the data strips, P and Q from the remaining strips.
//!
//! With *S* = Σ of the surviving data, *R* = Σ 2^exponent · surviving data:
//!
//! ```text
//! lost        from      computed as
//! P, Q, P+Q   data      S, R: generated anew
//! D(a)        P         P + S
//! D(a)        Q         2^-a · (Q + R)
//! D(a), P     Q         D = 2^-a · (Q + R), P = S + D
//! D(a), Q     P         D = P + S, Q = R + 2^a · D
//! D(a), D(b)  P and Q   D(a) + D(b) = P + S =: p,  2^a · D(a) + 2^b · D(b) = Q + R =: q,
//!                       so D(a) = (q + 2^b · p) / (2^a + 2^b), D(b) = p + D(a)
//! ```
//!
//! Each is one pass over the remaining strips: two lost strips are computed from the sums in
//! registers.

use crate::error::{Error, ErrorKind};
use crate::field::{ORDER, inverse, multiply, power};
use crate::kernels::{Finish, Kernel, Start};
use crate::sources::{Data, Exponents, Source, each_run, wrong_length};

/// A strip of a stripe, by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strip {
    /// The data strip whose weight in Q is 2 to this power.
    Data(u8),
    /// The XOR of the data.
    P,
    /// The weighted sum of the data.
    Q,
}

/// A lost strip.
#[derive(Debug)]
pub struct Lost<'a> {
    /// The role of the strip.
    pub strip: Strip,
    /// The destination; its previous content is ignored.
    pub into: &'a mut [u8],
}

impl<'a> Lost<'a> {
    /// A lost strip and its destination.
    pub fn new(strip: Strip, into: &'a mut [u8]) -> Lost<'a> {
        Lost { strip, into }
    }
}

/// The remaining parity.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parity<'a> {
    /// P, if it exists and was read.
    pub p: Option<Data<'a>>,
    /// Q, if it exists and was read.
    pub q: Option<Data<'a>>,
}

impl Kernel {
    /// As [`crate::recover`], with this kernel.
    pub fn recover(
        &self,
        lost: &mut [Lost<'_>],
        sources: &[Source<'_>],
        parity: Parity<'_>,
    ) -> Result<(), Error> {
        check(lost, sources)?;
        match lost {
            [] => Ok(()),
            [one] => self.recover_one(one.strip, one.into, sources, parity),
            [first, second] => self.recover_two(
                [first.strip, second.strip],
                [first.into, second.into],
                sources,
                parity,
            ),
            [..] => Err(not_enough(format!(
                "{} strips are lost; P and Q recover at most two",
                lost.len()
            ))),
        }
    }

    fn recover_one(
        &self,
        strip: Strip,
        into: &mut [u8],
        sources: &[Source<'_>],
        parity: Parity<'_>,
    ) -> Result<(), Error> {
        let len = into.len();
        let exponent = match strip {
            Strip::P => return self.generate_p(into, sources),
            Strip::Q => return self.generate_q(into, sources),
            Strip::Data(exponent) => exponent,
        };
        let none = Data::Zero(len);
        if let Some(p) = parity.p {
            let term = |i: usize| sources.get(i).map_or((exponent, &p), Source::weighted);
            return each_run(len, sources.len() + 1, term, [&none; 2], |run| {
                self.sum(&mut into[run.range], Start::Zero, run.terms);
            });
        }
        let Some(q) = parity.q else {
            return Err(not_enough("a data strip is lost and neither P nor Q was given".into()));
        };
        // 2^-a · (Q + R), with the factor moved into the sum: exponents count modulo 255.
        let less = |of: u8| ((usize::from(of) + ORDER - usize::from(exponent)) % ORDER) as u8;
        let term = |i: usize| match sources.get(i) {
            Some(source) => (less(source.exponent), &source.data),
            None => (less(0), &q),
        };
        each_run(len, sources.len() + 1, term, [&none; 2], |run| {
            self.weigh(&mut into[run.range], Start::Zero, run.terms);
        })
    }

    fn recover_two(
        &self,
        strips: [Strip; 2],
        [first, second]: [&mut [u8]; 2],
        sources: &[Source<'_>],
        parity: Parity<'_>,
    ) -> Result<(), Error> {
        let zero = Data::Zero(first.len());
        // The first and second result of the kernel, and how they are computed.
        let (x, y, start, finish) = match strips {
            [Strip::P, Strip::Q] => return self.generate_pq(first, second, sources),
            [Strip::Q, Strip::P] => return self.generate_pq(second, first, sources),
            [Strip::Data(a), Strip::Data(b)] => {
                let [p, q] = both_given(parity)?;
                (first, second, [p, q], data_and_data(a, b)?)
            }
            [Strip::Data(a), Strip::P] => (first, second, [zero, q_given(parity)?], data_and_p(a)),
            [Strip::P, Strip::Data(a)] => (second, first, [zero, q_given(parity)?], data_and_p(a)),
            // The first result is Q, the second is the data strip.
            [Strip::Data(a), Strip::Q] => (second, first, [p_given(parity)?, zero], data_and_q(a)),
            [Strip::Q, Strip::Data(a)] => (first, second, [p_given(parity)?, zero], data_and_q(a)),
            [Strip::P, Strip::P] | [Strip::Q, Strip::Q] => return Err(twice(strips[0])),
        };
        each_run(
            x.len(),
            sources.len(),
            |i| sources[i].weighted(),
            start.each_ref(),
            |run| {
                let out = [&mut x[run.range.clone()], &mut y[run.range]];
                self.both(out, run.parity.map(Start::from), run.terms, Some(finish));
            },
        )
    }
}

fn data_and_data(a: u8, b: u8) -> Result<Finish, Error> {
    let (a, b) = (power(usize::from(a)), power(usize::from(b)));
    let Some(over) = inverse(a ^ b) else {
        return Err(Error::new(ErrorKind::Exponent, "the same data strip is lost twice"));
    };
    Ok(Finish { p_weight: multiply(b, over), q_weight: over, add: true })
}

fn data_and_p(a: u8) -> Finish {
    Finish { p_weight: 0, q_weight: power(ORDER - usize::from(a)), add: true }
}

fn data_and_q(a: u8) -> Finish {
    Finish { p_weight: power(usize::from(a)), q_weight: 1, add: false }
}

fn p_given(parity: Parity<'_>) -> Result<Data<'_>, Error> {
    parity.p.ok_or_else(|| not_enough("a data strip and Q are lost and P was not given".into()))
}

fn q_given(parity: Parity<'_>) -> Result<Data<'_>, Error> {
    parity.q.ok_or_else(|| not_enough("a data strip and P are lost and Q was not given".into()))
}

fn both_given(parity: Parity<'_>) -> Result<[Data<'_>; 2], Error> {
    match (parity.p, parity.q) {
        (Some(p), Some(q)) => Ok([p, q]),
        _ => Err(not_enough("two data strips are lost and not both P and Q were given".into())),
    }
}

fn not_enough(message: String) -> Error {
    Error::new(ErrorKind::NotEnough, message)
}

fn twice(strip: Strip) -> Error {
    not_enough(format!("{strip:?} is to be recovered twice"))
}

fn check(lost: &[Lost<'_>], sources: &[Source<'_>]) -> Result<(), Error> {
    let Some(len) = lost.first().map(|lost| lost.into.len()) else {
        return Ok(());
    };
    let mut taken = Exponents::of(sources)?;
    for lost in lost {
        if lost.into.len() != len {
            return Err(wrong_length(lost.into.len(), len, "a strip to recover"));
        }
        if let Strip::Data(exponent) = lost.strip {
            taken.claim(exponent)?;
        }
    }
    Ok(())
}
