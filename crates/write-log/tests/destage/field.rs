//! The field of four elements, and a column's equations over it.

/// The coefficients of Q; P has the coefficient 1 for each strip.
const OF_Q: [u8; 3] = [1, 2, 3];

fn times(a: u8, b: u8) -> u8 {
    // 2 and 3 are powers of 2, and 2 to the third is 1.
    const LOG: [u8; 4] = [0, 0, 1, 2];
    const POWER: [u8; 3] = [1, 2, 3];
    match (a, b) {
        (0, _) | (_, 0) => 0,
        _ => POWER[usize::from((LOG[usize::from(a)] + LOG[usize::from(b)]) % 3)],
    }
}

/// The contribution of a data strip with that value to a redundancy strip.
pub(super) fn share(redundancy: usize, strip: usize, value: u8) -> u8 {
    if redundancy == 0 { value } else { times(OF_Q[strip], value) }
}

/// A redundancy strip of these data.
pub(super) fn redundancy(redundancy: usize, data: &[u8]) -> u8 {
    data.iter().enumerate().fold(0, |sum, (strip, value)| sum ^ share(redundancy, strip, *value))
}

/// The equation of a redundancy strip: the contributions of the `unknown` strips sum up to `sum`.
pub(super) struct Equation {
    pub(super) redundancy: usize,
    pub(super) unknown: u8,
    pub(super) sum: u8,
}

/// The values of the strips `lost` on their drives, as far as the equations determine them; `None`
/// where a `wanted` one is not determined.
pub(super) fn solve(equations: &[Equation], lost: &[usize], wanted: u8) -> Option<[u8; 3]> {
    let mut found: Option<[u8; 3]> = None;
    for guess in 0..1_u32 << (2 * lost.len()) {
        let mut values = [0; 3];
        for (at, strip) in lost.iter().enumerate() {
            values[*strip] = (guess >> (2 * at) & 3) as u8;
        }
        let holds = equations.iter().all(|equation| {
            let of = lost.iter().filter(|strip| equation.unknown >> **strip & 1 == 1);
            of.fold(0, |sum, strip| sum ^ share(equation.redundancy, *strip, values[*strip])) == equation.sum
        });
        if !holds {
            continue;
        }
        let same =
            |other: &[u8; 3]| (0..3).all(|strip| wanted >> strip & 1 == 0 || other[strip] == values[strip]);
        match &found {
            Some(other) if !same(other) => return None,
            Some(_) => {}
            None => found = Some(values),
        }
    }
    found
}
