//! Known answers, scattered strips, checks that identify a wrong strip, and rejected calls.

mod common;

use common::{Random, naive};
use parity::{Change, Data, ErrorKind, Lost, Parity, Piece, Source, Strip, Verdict, kernels};
use proptest::prelude::*;

/// The positions of P and Q in a stripe, and each data slot's exponent in Q.
struct Numbering {
    p: usize,
    q: usize,
    exponent: fn(slot: usize, q: usize, drives: usize) -> usize,
}

/// Linux md: counts data slots from the one after Q. In these layouts P is just before Q, so that
/// it would be the last.
fn after_q(slot: usize, q: usize, drives: usize) -> usize {
    (slot + drives - q - 1) % drives
}

/// DDF: the slot itself.
fn raw_slot(slot: usize, _: usize, _: usize) -> usize {
    slot
}

#[test]
fn p_and_q_of_arrays_that_linux_md_made_in_both_numberings() {
    type Image = (&'static [u8], usize, fn(usize) -> Numbering);
    let images: [Image; 3] = [
        (include_bytes!("images/raid6-6-left-symmetric.bin"), 6, |s| {
            let p = 5 - s % 6;
            Numbering { p, q: (p + 1) % 6, exponent: after_q }
        }),
        (include_bytes!("images/raid6-6-ddf-N-continue.bin"), 6, |s| {
            let p = 5 - s % 6;
            Numbering { p, q: (p + 5) % 6, exponent: raw_slot }
        }),
        (include_bytes!("images/ddf-raid6-5-ddf-zero-restart.bin"), 5, |s| {
            let p = s % 5;
            Numbering { p, q: (p + 1) % 5, exponent: raw_slot }
        }),
    ];
    for (image, drives, numbering) in images {
        let sectors: Vec<&[u8]> = image.chunks_exact(512).collect();
        assert_eq!(sectors.len(), drives * drives);
        for (stripe, slots) in sectors.chunks_exact(drives).enumerate() {
            let Numbering { p, q, exponent } = numbering(stripe);
            let data: Vec<Source<'_>> = (0..drives)
                .filter(|slot| *slot != p && *slot != q)
                .map(|slot| Source::new(exponent(slot, q, drives) as u8, slots[slot]))
                .collect();
            for kernel in kernels() {
                let (mut is_p, mut is_q) = ([0; 512], [0; 512]);
                kernel.generate_pq(&mut is_p, &mut is_q, &data).unwrap();
                assert_eq!(is_p, slots[p], "P of stripe {stripe}, {}", kernel.name());
                assert_eq!(is_q, slots[q], "Q of stripe {stripe}, {}", kernel.name());
                let (mut a, mut b) = ([0; 512], [0; 512]);
                let mut lost = [
                    Lost::new(Strip::Data(data[0].exponent), &mut a),
                    Lost::new(Strip::Data(data[2].exponent), &mut b),
                ];
                let left = Parity { p: Some(slots[p].into()), q: Some(slots[q].into()) };
                let rest: Vec<Source<'_>> = [&data[1..2], &data[3..]].concat();
                kernel.recover(&mut lost, &rest, left).unwrap();
                assert!(matches!(data[0].data, Data::Bytes(bytes) if bytes == a));
                assert!(matches!(data[2].data, Data::Bytes(bytes) if bytes == b));
            }
        }
    }
}

/// Divides bytes into pieces at random; a piece with only zeroes becomes a zero piece.
fn pieces<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<Piece<'a>> {
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.below(rest.len() + 1));
        let zero = piece.iter().all(|byte| *byte == 0);
        pieces.push(if zero { Piece::Zero(piece.len()) } else { Piece::Bytes(piece) });
        rest = after;
    }
    pieces
}

proptest! {
    #[test]
    fn scattered_and_zero_strips_give_what_whole_ones_give(
        len in 0usize..2000,
        count in 1usize..20,
        seed in 0usize..1000,
    ) {
        let mut random = Random::new(seed);
        let mut whole: Vec<Vec<u8>> = (0..count).map(|_| vec![0; len]).collect();
        for strip in &mut whole {
            // A range of data between zeroes; some strips are all zeroes.
            let (a, b) = (random.below(len + 1), random.below(len + 1));
            if random.below(4) != 0 {
                random.fill(&mut strip[a.min(b)..a.max(b)]);
            }
        }
        let exponents = common::exponents(count, seed, &mut random);
        let cut: Vec<Vec<Piece<'_>>> =
            whole.iter().map(|strip| pieces(strip, &mut random)).collect();
        let sources: Vec<Source<'_>> = (0..count)
            .map(|i| match i % 3 {
                _ if whole[i].iter().all(|byte| *byte == 0) => {
                    Source::new(exponents[i], Data::Zero(len))
                }
                0 => Source::new(exponents[i], &whole[i]),
                _ => Source::new(exponents[i], cut[i].as_slice()),
            })
            .collect();
        let weighted: Vec<(u8, &[u8])> =
            exponents.iter().copied().zip(whole.iter().map(Vec::as_slice)).collect();
        let (p, q) = naive(&weighted, len);
        let (p_cut, q_cut) = (pieces(&p, &mut random), pieces(&q, &mut random));
        for kernel in kernels() {
            let (mut is_p, mut is_q) = (vec![9; len], vec![9; len]);
            kernel.generate_pq(&mut is_p, &mut is_q, &sources).unwrap();
            prop_assert_eq!((&is_p, &is_q), (&p, &q), "{}", kernel.name());
            let (p, q): (Data<'_>, Data<'_>) = (p_cut.as_slice().into(), q_cut.as_slice().into());
            prop_assert_eq!(kernel.check_pq(p, q, &sources).unwrap(), Verdict::Consistent);
            // The last strip is lost, then rewritten with zeroes.
            let (last, left) = (exponents[count - 1], &sources[..count - 1]);
            let mut back = vec![9; len];
            for parity in [Parity { p: Some(p), q: None }, Parity { p: None, q: Some(q) }] {
                let lost = &mut [Lost::new(Strip::Data(last), &mut back)];
                kernel.recover(lost, left, parity).unwrap();
                prop_assert_eq!(&back, &whole[count - 1], "{}", kernel.name());
            }
            let old = sources[count - 1].data;
            let change = Change { exponent: last, old, new: Data::Zero(len) };
            kernel.update(Some(&mut is_p), Some(&mut is_q), &[change]).unwrap();
            prop_assert_eq!((is_p, is_q), naive(&weighted[..count - 1], len), "{}", kernel.name());
        }
    }

    #[test]
    fn a_check_names_the_one_strip_that_was_changed_and_no_other(
        len in 1usize..20_000,
        count in 1usize..40,
        seed in 0usize..1000,
    ) {
        let mut random = Random::new(seed);
        let exponents = common::exponents(count, seed, &mut random);
        let mut strips: Vec<Vec<u8>> = (0..count + 2).map(|_| vec![0; len]).collect();
        strips[..count].iter_mut().for_each(|strip| random.fill(strip));
        let weighted: Vec<(u8, &[u8])> =
            exponents.iter().copied().zip(strips.iter().map(Vec::as_slice)).collect();
        let (p, q) = naive(&weighted, len);
        (strips[count], strips[count + 1]) = (p, q);
        let which = random.below(count + 2);
        let (a, b) = (random.below(len), random.below(len));
        let bytes = a.min(b)..a.max(b) + 1;
        strips[which][bytes.start] ^= 1 + random.below(255) as u8;
        if bytes.len() > 1 {
            strips[which][bytes.end - 1] ^= 1 + random.below(255) as u8;
        }
        let sources: Vec<Source<'_>> = exponents
            .iter()
            .zip(&strips)
            .map(|(exponent, strip)| Source::new(*exponent, strip))
            .collect();
        let culprit = match which {
            which if which == count => Strip::P,
            which if which == count + 1 => Strip::Q,
            data => Strip::Data(exponents[data]),
        };
        for kernel in kernels() {
            let (p, q) = (Data::from(&strips[count]), Data::from(&strips[count + 1]));
            let found = kernel.check_pq(p, q, &sources).unwrap();
            let expected = Verdict::Wrong { culprit: Some(culprit), bytes: bytes.clone() };
            prop_assert_eq!(found, expected, "{}", kernel.name());
            let found = kernel.check_p(p, &sources).unwrap();
            let wrong = Verdict::Wrong { culprit: None, bytes: bytes.clone() };
            let expected = if culprit == Strip::Q { Verdict::Consistent } else { wrong };
            prop_assert_eq!(found, expected, "{}", kernel.name());
        }
    }

    #[test]
    fn xor_into_twice_is_nothing(
        dst in prop::collection::vec(any::<u8>(), 0..300),
        seed in 0usize..100,
    ) {
        let mut src = vec![0; dst.len()];
        Random::new(seed).fill(&mut src);
        for kernel in kernels() {
            let mut twice = dst.clone();
            kernel.xor_into(&mut twice, &src);
            let by_byte: Vec<u8> = dst.iter().zip(&src).map(|(a, b)| a ^ b).collect();
            prop_assert_eq!(&twice, &by_byte);
            kernel.xor_into(&mut twice, &src);
            prop_assert_eq!(&twice, &dst);
        }
    }
}

#[test]
fn two_strips_wrong_in_different_bytes_have_no_single_culprit() {
    let strips: Vec<Vec<u8>> = (1..5).map(|i| vec![i; 600]).collect();
    let weighted: Vec<(u8, &[u8])> = (0..).zip(strips.iter().map(Vec::as_slice)).collect();
    let (p, q) = naive(&weighted, 600);
    let mut wrong = strips.clone();
    wrong[1][10] ^= 1;
    wrong[2][500] ^= 1;
    let sources: Vec<Source<'_>> =
        (0..).zip(&wrong).map(|(i, strip)| Source::new(i, strip)).collect();
    for kernel in kernels() {
        let found = kernel.check_pq((&p).into(), (&q).into(), &sources).unwrap();
        assert_eq!(found, Verdict::Wrong { culprit: None, bytes: 10..501 });
    }
}

#[test]
fn an_error_that_would_be_that_of_a_strip_which_is_not_there_has_no_culprit() {
    let strip = [0u8; 64];
    let sources = [Source::new(0, strip.as_slice()), Source::new(1, strip.as_slice())];
    let (mut p, mut q) = ([0u8; 64], [0u8; 64]);
    (p[5], q[5]) = (1, 8); // 8 / 1 = 2^3
    for kernel in kernels() {
        let found = kernel.check_pq(p.as_slice().into(), q.as_slice().into(), &sources).unwrap();
        assert_eq!(found, Verdict::Wrong { culprit: None, bytes: 5..6 });
    }
}

#[test]
fn xor_of_any_number_of_sources() {
    for count in (0..20).chain([255, 256, 257, 600]) {
        let mut random = Random::new(count);
        let len = 100 + count % 7;
        let strips: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let mut strip = vec![0; len];
                random.fill(&mut strip);
                strip
            })
            .collect();
        let slices: Vec<&[u8]> = strips.iter().map(Vec::as_slice).collect();
        let by_byte: Vec<u8> =
            (0..len).map(|i| slices.iter().fold(0, |sum, strip| sum ^ strip[i])).collect();
        for kernel in kernels() {
            let mut dst = vec![9; len];
            kernel.xor_many(&mut dst, &slices);
            assert_eq!(dst, by_byte, "{count} sources, {}", kernel.name());
        }
    }
}

#[test]
fn one_bit_anywhere_is_not_zero() {
    for kernel in kernels() {
        for len in (0..200).chain([600, 1100]) {
            let mut buffer = vec![0; len];
            assert!(kernel.is_zero(&buffer));
            for i in 0..len {
                buffer[i] = 1 << (i % 8);
                assert!(!kernel.is_zero(&buffer), "bit in byte {i} of {len}, {}", kernel.name());
                buffer[i] = 0;
            }
        }
    }
}

#[test]
#[should_panic(expected = "different lengths")]
fn xor_of_a_source_of_another_length_is_a_mistake_of_the_caller() {
    parity::xor_many(&mut [0; 8], &[&[0; 8], &[0; 7]]);
}

#[test]
fn refused_calls_say_why_and_write_nothing() {
    let (short, long) = (vec![1u8; 8], vec![1u8; 9]);
    let hollow = [Piece::Bytes(&short[..4]), Piece::Hollow(4)];
    let fine = Source::new(0, &short);
    let cases: [(&[Source<'_>], ErrorKind); 5] = [
        (&[fine, Source::new(1, &long)], ErrorKind::Length),
        (&[fine, Source::new(1, Data::Zero(9))], ErrorKind::Length),
        (&[fine, Source::new(1, hollow.as_slice())], ErrorKind::Hollow),
        (&[fine, Source::new(0, &short)], ErrorKind::Exponent),
        (&[fine, Source::new(255, &short)], ErrorKind::Exponent),
    ];
    for (sources, kind) in cases {
        let (mut p, mut q) = ([7; 8], [7; 8]);
        assert_eq!(parity::generate_pq(&mut p, &mut q, sources).unwrap_err().kind(), kind);
        assert_eq!(parity::generate_q(&mut q, sources).unwrap_err().kind(), kind);
        assert_eq!(parity::generate_p(&mut p, sources).unwrap_err().kind(), kind);
        let changes: Vec<Change<'_>> = sources
            .iter()
            .map(|source| Change {
                exponent: source.exponent,
                old: source.data,
                new: Data::Zero(8),
            })
            .collect();
        assert_eq!(parity::update(Some(&mut p), Some(&mut q), &changes).unwrap_err().kind(), kind);
        assert_eq!(
            parity::check_pq(Data::Zero(8), Data::Zero(8), sources).unwrap_err().kind(),
            kind
        );
        let parity = Parity { p: Some(Data::Zero(8)), q: Some(Data::Zero(8)) };
        let error =
            parity::recover(&mut [Lost::new(Strip::Data(9), &mut p)], sources, parity).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!((p, q), ([7; 8], [7; 8]), "a refused call writes nothing");
    }
    let mut q = [7; 9];
    assert_eq!(
        parity::generate_pq(&mut [0; 8], &mut q, &[fine]).unwrap_err().kind(),
        ErrorKind::Length
    );
}

#[test]
fn more_losses_than_parity_are_refused() {
    let strip = vec![1u8; 8];
    let (p, q) = (Some(Data::from(&strip)), Some(Data::from(&strip)));
    let source = [Source::new(7, &strip)];
    let data = |exponent| Strip::Data(exponent);
    let cases: [(&[Strip], Parity<'_>, ErrorKind); 9] = [
        (&[data(0)], Parity { p: None, q: None }, ErrorKind::NotEnough),
        (&[data(0), data(1)], Parity { p, q: None }, ErrorKind::NotEnough),
        (&[data(0), data(1)], Parity { p: None, q }, ErrorKind::NotEnough),
        (&[data(0), Strip::P], Parity { p, q: None }, ErrorKind::NotEnough),
        (&[Strip::Q, data(0)], Parity { p: None, q }, ErrorKind::NotEnough),
        (&[data(0), data(1), data(2)], Parity { p, q }, ErrorKind::NotEnough),
        (&[Strip::P, Strip::P], Parity { p, q }, ErrorKind::NotEnough),
        (&[data(0), data(0)], Parity { p, q }, ErrorKind::Exponent),
        (&[data(7)], Parity { p, q }, ErrorKind::Exponent),
    ];
    for (strips, parity, kind) in cases {
        let mut rooms = vec![[7u8; 8]; strips.len()];
        let mut lost: Vec<Lost<'_>> =
            strips.iter().zip(&mut rooms).map(|(strip, room)| Lost::new(*strip, room)).collect();
        let error = parity::recover(&mut lost, &source, parity).unwrap_err();
        assert_eq!(error.kind(), kind, "{strips:?}: {error}");
        assert!(rooms.iter().all(|room| *room == [7; 8]), "a refused call writes nothing");
    }
    assert!(parity::recover(&mut [], &source, Parity { p, q }).is_ok(), "nothing is lost");
}
