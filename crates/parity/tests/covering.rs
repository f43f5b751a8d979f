//! Compares each kernel with parity computed byte by byte, and with an independent crate.
//!
//! The matrix of lengths 0–300 × alignments 0–63 × 1–33 strips is too large for each run. A
//! covering design combines each length with each alignment, and rotates through numbers of strips
//! and numberings; each strip and result has its own alignment. `PARITY_TESTS=all` runs the whole
//! matrix.

mod common;

use common::{Placed, Random, exponents, naive};
use parity::{Change, Kernel, Lost, Parity, Source, Strip, Verdict, kernels};

const LENGTHS: usize = 301;
const ALIGNMENTS: usize = 64;
const MOST_STRIPS: usize = 33;

fn whole_matrix() -> bool {
    std::env::var("PARITY_TESTS").is_ok_and(|value| value == "all")
}

/// A stripe: data at various alignments, and its parity computed byte by byte.
struct Stripe {
    len: usize,
    alignment: usize,
    exponents: Vec<u8>,
    data: Vec<Placed>,
    p: Vec<u8>,
    q: Vec<u8>,
}

impl Stripe {
    fn new(len: usize, alignment: usize, count: usize, way: usize) -> Stripe {
        let mut random = Random::new(len * 7919 + alignment * 131 + count * 17 + way);
        let data: Vec<Placed> =
            (0..count).map(|i| Placed::random(len, alignment + i * 5, &mut random)).collect();
        let exponents = exponents(count, way, &mut random);
        let weighted: Vec<(u8, &[u8])> =
            exponents.iter().copied().zip(data.iter().map(Placed::bytes)).collect();
        let (p, q) = naive(&weighted, len);
        Stripe { len, alignment, exponents, data, p, q }
    }

    fn sources(&self) -> Vec<Source<'_>> {
        self.exponents
            .iter()
            .zip(&self.data)
            .map(|(e, data)| Source::new(*e, data.bytes()))
            .collect()
    }

    /// A buffer for a result, at one of the alignments, with arbitrary content.
    fn room(&self, which: usize) -> Placed {
        let mut room = Placed::new(self.len, self.alignment + which * 11);
        Random::new(which).fill(room.bytes_mut());
        room
    }

    fn title(&self, kernel: &Kernel) -> String {
        let count = self.data.len();
        format!("{}: {count} × {} bytes at {}", kernel.name(), self.len, self.alignment)
    }

    /// Tests all operations on a stripe with one kernel.
    fn judge(&self, kernel: &Kernel) {
        let sources = self.sources();
        let (mut p, mut q) = (self.room(0), self.room(1));
        kernel.generate_pq(p.bytes_mut(), q.bytes_mut(), &sources).unwrap();
        assert_eq!(p.bytes(), self.p, "P with Q, {}", self.title(kernel));
        assert_eq!(q.bytes(), self.q, "Q with P, {}", self.title(kernel));
        let (mut p, mut q) = (self.room(2), self.room(3));
        kernel.generate_p(p.bytes_mut(), &sources).unwrap();
        kernel.generate_q(q.bytes_mut(), &sources).unwrap();
        assert_eq!(p.bytes(), self.p, "P alone, {}", self.title(kernel));
        assert_eq!(q.bytes(), self.q, "Q alone, {}", self.title(kernel));
        p.check_guards();
        q.check_guards();
        let found = kernel.check_pq(p.bytes().into(), q.bytes().into(), &sources).unwrap();
        assert_eq!(found, Verdict::Consistent, "{}", self.title(kernel));
        assert_eq!(kernel.check_p(p.bytes().into(), &sources).unwrap(), Verdict::Consistent);
        self.judge_update(kernel, p, q);
        self.judge_recovery(kernel);
    }

    /// Tests parity updates for one to three changed strips: both together, and each alone.
    fn judge_update(&self, kernel: &Kernel, mut p: Placed, mut q: Placed) {
        let (mut p_alone, mut q_alone) = (p.clone_at(4), q.clone_at(5));
        let mut changed = self.clone_data();
        let mut random = Random::new(self.len);
        let which: Vec<usize> =
            (0..1 + random.below(3)).map(|_| random.below(self.data.len())).collect();
        for i in &which {
            random.fill(changed[*i].bytes_mut());
        }
        let mut changes: Vec<Change<'_>> = which
            .iter()
            .map(|i| Change::new(self.exponents[*i], self.data[*i].bytes(), changed[*i].bytes()))
            .collect();
        changes.sort_by_key(|change| change.exponent);
        changes.dedup_by_key(|change| change.exponent);
        kernel.update(Some(p.bytes_mut()), Some(q.bytes_mut()), &changes).unwrap();
        kernel.update(Some(p_alone.bytes_mut()), None, &changes).unwrap();
        kernel.update(None, Some(q_alone.bytes_mut()), &changes).unwrap();
        let weighted: Vec<(u8, &[u8])> =
            self.exponents.iter().copied().zip(changed.iter().map(Placed::bytes)).collect();
        let (new_p, new_q) = naive(&weighted, self.len);
        for (is, expected) in [(&p, &new_p), (&q, &new_q), (&p_alone, &new_p), (&q_alone, &new_q)] {
            assert_eq!(is.bytes(), expected, "update, {}", self.title(kernel));
            is.check_guards();
        }
    }

    fn clone_data(&self) -> Vec<Placed> {
        self.data
            .iter()
            .enumerate()
            .map(|(i, data)| data.clone_at(self.alignment + i * 3))
            .collect()
    }

    /// Tests some pairs; another test covers all.
    fn judge_recovery(&self, kernel: &Kernel) {
        let count = self.data.len();
        let (a, b) = (self.len % count, (self.len + self.alignment) % count);
        for pair in [(a, b), (a, count), (a, count + 1), (count, count + 1)] {
            self.judge_pair(kernel, pair.0.min(pair.1), pair.0.max(pair.1));
        }
    }

    /// Strips are numbered data first, then P, then Q. The same number twice: that strip alone, in
    /// each possible way.
    fn judge_pair(&self, kernel: &Kernel, a: usize, b: usize) {
        let count = self.data.len();
        let role = |i: usize| match i - i.min(count) {
            _ if i < count => Strip::Data(self.exponents[i]),
            0 => Strip::P,
            _ => Strip::Q,
        };
        let truth = |i: usize| match role(i) {
            Strip::Data(_) => self.data[i].bytes(),
            Strip::P => &self.p,
            Strip::Q => &self.q,
        };
        let left: Vec<Source<'_>> = self
            .sources()
            .into_iter()
            .enumerate()
            .filter(|(i, _)| *i != a && *i != b)
            .map(|(_, source)| source)
            .collect();
        let parity = Parity {
            p: (a != count && b != count).then(|| self.p.as_slice().into()),
            q: (b != count + 1 && a != count + 1).then(|| self.q.as_slice().into()),
        };
        let (mut x, mut y) = (self.room(6), self.room(7));
        if a == b {
            for parity in [parity, Parity { p: None, ..parity }, Parity { q: None, ..parity }] {
                if a < count && parity.p.is_none() && parity.q.is_none() {
                    continue;
                }
                kernel.recover(&mut [Lost::new(role(a), x.bytes_mut())], &left, parity).unwrap();
                assert_eq!(x.bytes(), truth(a), "{:?}, {}", role(a), self.title(kernel));
            }
            x.check_guards();
            return;
        }
        for swapped in [false, true] {
            let mut lost = [Lost::new(role(a), x.bytes_mut()), Lost::new(role(b), y.bytes_mut())];
            if swapped {
                lost.reverse();
            }
            kernel.recover(&mut lost, &left, parity).unwrap();
            assert_eq!(
                x.bytes(),
                truth(a),
                "{:?} of {:?}, {}",
                role(a),
                role(b),
                self.title(kernel)
            );
            assert_eq!(
                y.bytes(),
                truth(b),
                "{:?} of {:?}, {}",
                role(b),
                role(a),
                self.title(kernel)
            );
        }
        x.check_guards();
        y.check_guards();
    }
}

#[test]
fn every_length_at_every_alignment_of_a_cache_line() {
    for len in 0..LENGTHS {
        for alignment in 0..ALIGNMENTS {
            let one = 1 + (len + alignment * 5) % MOST_STRIPS;
            let counts = if whole_matrix() { 1..=MOST_STRIPS } else { one..=one };
            for count in counts {
                let stripe = Stripe::new(len, alignment, count, len + alignment);
                kernels().for_each(|kernel| stripe.judge(kernel));
            }
        }
    }
}

#[test]
fn every_number_of_strips_to_33_and_255_numbered_in_every_way() {
    for count in (1..=MOST_STRIPS).chain([64, 254, 255]) {
        for way in 0..4 {
            for len in [1, 63, 64, 257, 300] {
                let stripe = Stripe::new(len, count * 3 + way, count, way);
                kernels().for_each(|kernel| stripe.judge(kernel));
            }
        }
    }
}

#[test]
fn every_pair_of_lost_strips_up_to_33_strips() {
    for count in 1..=MOST_STRIPS {
        let len = 33 + count * 8;
        let stripe = Stripe::new(len, count, count, count);
        for kernel in kernels() {
            for a in 0..count + 2 {
                for b in a..count + 2 {
                    stripe.judge_pair(kernel, a, b);
                }
            }
        }
    }
}

/// Long strips use streaming stores; short, misaligned strips do not.
#[test]
fn strips_of_megabytes_at_cache_lines_and_beside_them() {
    for (len, alignment) in [(1 << 20, 0), ((1 << 20) + 192 + 5, 0), (1 << 20, 1)] {
        let mut random = Random::new(len);
        let data: Vec<Placed> =
            (0..4).map(|_| Placed::random(len, alignment, &mut random)).collect();
        let sources: Vec<Source<'_>> = data
            .iter()
            .enumerate()
            .map(|(i, data)| Source::new(i as u8 * 2, data.bytes()))
            .collect();
        let weighted: Vec<(u8, &[u8])> =
            data.iter().enumerate().map(|(i, data)| (i as u8 * 2, data.bytes())).collect();
        let (p, q) = naive(&weighted, len);
        for kernel in kernels() {
            let (mut is_p, mut is_q) = (Placed::new(len, alignment), Placed::new(len, alignment));
            kernel.generate_pq(is_p.bytes_mut(), is_q.bytes_mut(), &sources).unwrap();
            assert!(is_p.bytes() == p && is_q.bytes() == q, "P+Q, {}", kernel.name());
            is_p.bytes_mut().fill(1);
            is_q.bytes_mut().fill(1);
            kernel.generate_p(is_p.bytes_mut(), &sources).unwrap();
            kernel.generate_q(is_q.bytes_mut(), &sources).unwrap();
            assert!(is_p.bytes() == p && is_q.bytes() == q, "each alone, {}", kernel.name());
            let mut lost = [
                Lost::new(Strip::Data(2), is_p.bytes_mut()),
                Lost::new(Strip::Data(6), is_q.bytes_mut()),
            ];
            let left = Parity { p: Some((&p).into()), q: Some((&q).into()) };
            kernel.recover(&mut lost, &[sources[0], sources[2]], left).unwrap();
            assert!(
                is_p.bytes() == data[1].bytes() && is_q.bytes() == data[3].bytes(),
                "{}",
                kernel.name()
            );
            is_p.check_guards();
            is_q.check_guards();
        }
    }
}

#[test]
fn a_crate_by_other_hands_gives_the_same_p_and_q() {
    for count in 2..=MOST_STRIPS {
        for len in [32, 512, 4096] {
            let stripe = Stripe::new(len, 0, count, 0);
            let sources: Vec<&[u8]> = stripe.data.iter().map(Placed::bytes).collect();
            let (mut p, mut q) = (vec![0; len], vec![0; len]);
            rusty_erasure::raid::pq_gen(&sources, &mut p, &mut q).unwrap();
            assert_eq!((&p, &q), (&stripe.p, &stripe.q));
            for kernel in kernels() {
                let (mut is_p, mut is_q) = (vec![1; len], vec![1; len]);
                kernel.generate_pq(&mut is_p, &mut is_q, &stripe.sources()).unwrap();
                assert_eq!((&is_p, &is_q), (&p, &q), "{}", stripe.title(kernel));
            }
        }
    }
}
