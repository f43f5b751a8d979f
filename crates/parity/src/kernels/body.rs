//! The loops for all processors: each kernel compiles them with its own instructions.
//!
//! A *column* is a few registers wide. For each column the loop reads all strips and keeps the sums
//! in registers: each source byte is read once, and each result byte is written once. The last
//! bytes, less than a register, use partial loads and stores.
//!
//! Q is summed in one of two ways. Where a multiplication is one instruction, each term is
//! multiplied by its weight. Otherwise Horner's rule starts at the highest exponent and doubles the
//! sum for each strip.

use super::vector::Vector;
use crate::field;
use crate::sources::Term;

/// The task of a kernel. The pointers are to slices that [`super::Kernel`] holds.
pub(super) struct Job<'a> {
    /// The results: one for a sum, P and Q (or two strips) for both.
    pub out: [*mut u8; 2],
    /// The initial values of the sums: null for zeroes; may be `out`.
    pub start: [*const u8; 2],
    /// Bytes in each strip.
    pub len: usize,
    /// The terms, all of `len` bytes. For Horner's rule they are sorted by descending exponent,
    /// except in a dense job.
    pub terms: &'a [Term<'a>],
    /// Write results with streaming stores; all `out` are then multiples of 64.
    pub stream: bool,
    /// With streaming stores: prefetch the strips.
    pub ahead: bool,
    /// Compute two strips from the sums of P and Q, instead of the sums.
    pub finish: Option<Finish>,
    /// Exponents are 0, 1, 2, …, and the sums start with zero: a whole stripe.
    pub dense: bool,
}

/// `x = p_weight · P + q_weight · Q`; the first result is `x`, the second `x + P` or just `P`.
#[derive(Clone, Copy)]
pub(crate) struct Finish {
    pub p_weight: u8,
    pub q_weight: u8,
    pub add: bool,
}

/// The memory access of a column: whole registers; whole registers with streaming stores; the same
/// with prefetch; part of a register.
const WHOLE: u8 = 0;
const STREAM: u8 = 1;
const AHEAD: u8 = 2;
const PART: u8 = 3;

/// The prefetch distance in bytes: the processor's own prefetcher stops at the end of each 4 KiB
/// page.
const AHEAD_BYTES: usize = 1024;

/// Bytes per cache line: the unit of a prefetch, for any register width.
const LINE: usize = 64;

/// Processes the strips column by column: wide columns, then single registers, then the rest.
macro_rules! walk {
    ($column:ident, $v:ident, $job:ident) => {{
        let width = V::WIDTH * C;
        let mut at = 0;
        // SAFETY: each column ends within `len`; the caller guarantees the rest.
        unsafe {
            if $job.stream {
                while $job.ahead && at + width <= $job.len {
                    $column::<V, C, AHEAD>($v, $job, at, 0);
                    at += width;
                }
                while at + width <= $job.len {
                    $column::<V, C, STREAM>($v, $job, at, 0);
                    at += width;
                }
                $v.fence();
            }
            while at + width <= $job.len {
                $column::<V, C, WHOLE>($v, $job, at, 0);
                at += width;
            }
            while at + V::WIDTH <= $job.len {
                $column::<V, 1, WHOLE>($v, $job, at, 0);
                at += V::WIDTH;
            }
            if at < $job.len {
                $column::<V, 1, PART>($v, $job, at, $job.len - at);
            }
        }
    }};
}

/// out\[0\] = start\[0\] + Σ terms, without weights.
///
/// # Safety
/// The results of `job` can be written, its starts, where not null, and its terms read, for `len`
/// bytes; terms don't overlap with results. Results that are streamed to are multiples of 64.
#[inline(always)]
pub(super) unsafe fn sum<V: Vector, const C: usize>(v: V, job: &Job<'_>) {
    walk!(sum_column, v, job)
}

/// out\[0\] = start\[0\] + Σ 2^exponent · term.
///
/// # Safety
/// As [`sum`].
#[inline(always)]
pub(super) unsafe fn weigh<V: Vector, const C: usize>(v: V, job: &Job<'_>) {
    walk!(weigh_column, v, job)
}

/// P and Q in one pass: out\[0\] = start\[0\] + Σ terms, out\[1\] = start\[1\] + Σ 2^exponent ·
/// term; or the result of `finish` on them.
///
/// # Safety
/// As [`sum`].
#[inline(always)]
pub(super) unsafe fn both<V: Vector, const C: usize>(v: V, job: &Job<'_>) {
    if job.dense { walk!(dense_column, v, job) } else { walk!(both_column, v, job) }
}

/// Whether all of `len` bytes are zero.
///
/// # Safety
/// `len` bytes can be read at `bytes`.
#[inline(always)]
pub(super) unsafe fn zero<V: Vector>(v: V, bytes: *const u8, len: usize) -> bool {
    const C: usize = 8;
    let mut at = 0;
    // SAFETY: each read ends within `len`.
    unsafe {
        while at + V::WIDTH * C <= len {
            let mut any = v.load(bytes.add(at));
            for i in 1..C {
                any = v.or(any, v.load(bytes.add(at + i * V::WIDTH)));
            }
            if !v.is_zero(any) {
                return false;
            }
            at += V::WIDTH * C;
        }
        while at + V::WIDTH <= len {
            if !v.is_zero(v.load(bytes.add(at))) {
                return false;
            }
            at += V::WIDTH;
        }
        v.is_zero(v.load_part(bytes.add(at), len - at))
    }
}

/// # Safety
/// As [`sum`], for the `C` registers (or `part` bytes) at `at`. This applies to all columns below.
#[inline(always)]
unsafe fn sum_column<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    job: &Job<'_>,
    at: usize,
    part: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sum = begin::<V, C, MODE>(v, job.start[0], at, part);
        // Four strips per iteration: with few iterations, the processor predicts the last one
        // better.
        let (fours, others) = job.terms.as_chunks::<4>();
        for [a, b, c, d] in fours {
            add_two::<V, C, MODE>(v, &mut sum, [a, b], at, part);
            add_two::<V, C, MODE>(v, &mut sum, [c, d], at, part);
        }
        for a in others {
            let a = read::<V, C, MODE>(v, a, at, part);
            for i in 0..C {
                sum[i] = v.xor(sum[i], a[i]);
            }
        }
        write::<V, C, MODE>(v, job.out[0], at, part, sum);
    }
}

/// sum += a + b
///
/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn add_two<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    sum: &mut [V::Reg; C],
    terms: [&Term<'_>; 2],
    at: usize,
    part: usize,
) {
    // SAFETY: guaranteed by the caller.
    let [a, b] = unsafe {
        [read::<V, C, MODE>(v, terms[0], at, part), read::<V, C, MODE>(v, terms[1], at, part)]
    };
    for i in 0..C {
        sum[i] = v.xor3(sum[i], a[i], b[i]);
    }
}

/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn weigh_column<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    job: &Job<'_>,
    at: usize,
    part: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let start = begin::<V, C, MODE>(v, job.start[0], at, part);
        let mut sum = [v.zero(); C];
        if V::HORNER {
            let mut exponent = job.terms.first().map_or(0, |term| term.exponent);
            for term in job.terms {
                raise(v, &mut sum, exponent - term.exponent);
                exponent = term.exponent;
                let a = read::<V, C, MODE>(v, term, at, part);
                for i in 0..C {
                    sum[i] = v.xor(sum[i], a[i]);
                }
            }
            raise(v, &mut sum, exponent);
        } else {
            for term in job.terms {
                let factor = v.factor(term.weight);
                let a = read::<V, C, MODE>(v, term, at, part);
                for i in 0..C {
                    sum[i] = v.xor(sum[i], v.multiply(a[i], factor));
                }
            }
        }
        for i in 0..C {
            sum[i] = v.xor(sum[i], start[i]);
        }
        write::<V, C, MODE>(v, job.out[0], at, part, sum);
    }
}

/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn both_column<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    job: &Job<'_>,
    at: usize,
    part: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut p = begin::<V, C, MODE>(v, job.start[0], at, part);
        let mut q;
        if V::HORNER {
            q = [v.zero(); C];
            let mut exponent = job.terms.first().map_or(0, |term| term.exponent);
            for term in job.terms {
                raise(v, &mut q, exponent - term.exponent);
                exponent = term.exponent;
                let a = read::<V, C, MODE>(v, term, at, part);
                for i in 0..C {
                    p[i] = v.xor(p[i], a[i]);
                    q[i] = v.xor(q[i], a[i]);
                }
            }
            raise(v, &mut q, exponent);
            let start = begin::<V, C, MODE>(v, job.start[1], at, part);
            for i in 0..C {
                q[i] = v.xor(q[i], start[i]);
            }
        } else {
            q = begin::<V, C, MODE>(v, job.start[1], at, part);
            let (pairs, odd) = job.terms.as_chunks::<2>();
            for [a, b] in pairs {
                let (a_factor, b_factor) = (v.factor(a.weight), v.factor(b.weight));
                let a = read::<V, C, MODE>(v, a, at, part);
                let b = read::<V, C, MODE>(v, b, at, part);
                for i in 0..C {
                    p[i] = v.xor3(p[i], a[i], b[i]);
                    q[i] = v.xor3(q[i], v.multiply(a[i], a_factor), v.multiply(b[i], b_factor));
                }
            }
            if let [a] = odd {
                let factor = v.factor(a.weight);
                let a = read::<V, C, MODE>(v, a, at, part);
                for i in 0..C {
                    p[i] = v.xor(p[i], a[i]);
                    q[i] = v.xor(q[i], v.multiply(a[i], factor));
                }
            }
        }
        if let Some(finish) = job.finish {
            let (p_factor, q_factor) = (v.factor(finish.p_weight), v.factor(finish.q_weight));
            for i in 0..C {
                let x = v.xor(v.multiply(p[i], p_factor), v.multiply(q[i], q_factor));
                q[i] = if finish.add { v.xor(x, p[i]) } else { p[i] };
                p[i] = x;
            }
        }
        write::<V, C, MODE>(v, job.out[0], at, part, p);
        write::<V, C, MODE>(v, job.out[1], at, part, q);
    }
}

/// P and Q of a whole stripe by Horner's rule: each strip doubles the sum before it is added.
///
/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn dense_column<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    job: &Job<'_>,
    at: usize,
    part: usize,
) {
    let apart = v.splat(V::APART);
    let (mut p, mut q) = ([v.zero(); C], [apart; C]);
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Several strips per iteration, as in `sum_column`, limited by the registers.
        let (lower, fours) =
            if V::XOR3 { job.terms.as_rchunks::<4>() } else { (job.terms, &[][..]) };
        for [a, b, c, d] in fours.iter().rev() {
            dense_two::<V, C, MODE>(v, &mut p, &mut q, [c, d], at, part);
            dense_two::<V, C, MODE>(v, &mut p, &mut q, [a, b], at, part);
        }
        let (lower, pairs) = lower.as_rchunks::<2>();
        for [a, b] in pairs.iter().rev() {
            dense_two::<V, C, MODE>(v, &mut p, &mut q, [a, b], at, part);
        }
        for a in lower {
            dense_one::<V, C, MODE>(v, &mut p, &mut q, a, at, part);
        }
        for reg in &mut q {
            *reg = v.xor(*reg, apart);
        }
        write::<V, C, MODE>(v, job.out[0], at, part, p);
        write::<V, C, MODE>(v, job.out[1], at, part, q);
    }
}

/// Two adjacent terms, the one with the higher exponent second.
///
/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn dense_two<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    p: &mut [V::Reg; C],
    q: &mut [V::Reg; C],
    [low, high]: [&Term<'_>; 2],
    at: usize,
    part: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if V::XOR3 {
            let high = read::<V, C, MODE>(v, high, at, part);
            let low = read::<V, C, MODE>(v, low, at, part);
            for i in 0..C {
                p[i] = v.xor3(p[i], high[i], low[i]);
                q[i] = v.double_apart(v.double_apart(q[i], high[i]), low[i]);
            }
        } else {
            dense_one::<V, C, MODE>(v, p, q, high, at, part);
            dense_one::<V, C, MODE>(v, p, q, low, at, part);
        }
    }
}

/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn dense_one<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    p: &mut [V::Reg; C],
    q: &mut [V::Reg; C],
    term: &Term<'_>,
    at: usize,
    part: usize,
) {
    // SAFETY: guaranteed by the caller.
    let a = unsafe { read::<V, C, MODE>(v, term, at, part) };
    for i in 0..C {
        p[i] = v.xor(p[i], a[i]);
        q[i] = v.double_apart(q[i], a[i]);
    }
}

/// Multiplies by `2^exponent`.
#[inline(always)]
fn raise<V: Vector, const C: usize>(v: V, sum: &mut [V::Reg; C], exponent: u8) {
    match exponent {
        0 => {}
        1 => {
            for reg in sum {
                *reg = v.double(*reg);
            }
        }
        _ => {
            let factor = v.factor(field::power(usize::from(exponent)));
            for reg in sum {
                *reg = v.multiply(*reg, factor);
            }
        }
    }
}

/// The initial value of a sum: a column of `start`, or zeroes if that is null.
///
/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn begin<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    start: *const u8,
    at: usize,
    part: usize,
) -> [V::Reg; C] {
    let mut sum = [v.zero(); C];
    if !start.is_null() {
        // SAFETY: the caller guarantees that a start that is not null can be read here.
        unsafe {
            for (i, reg) in sum.iter_mut().enumerate() {
                *reg = load::<V, MODE>(v, start.add(at + i * V::WIDTH), part);
            }
        }
    }
    sum
}

/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn read<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    term: &Term<'_>,
    at: usize,
    part: usize,
) -> [V::Reg; C] {
    let mut regs = [v.zero(); C];
    // SAFETY: the caller guarantees that the term can be read here; a prefetch may use any address.
    unsafe {
        let from = term.bytes.as_ptr().add(at);
        for (i, reg) in regs.iter_mut().enumerate() {
            if MODE == AHEAD && (i * V::WIDTH).is_multiple_of(LINE) {
                v.prefetch(from.wrapping_add(AHEAD_BYTES + i * V::WIDTH));
            }
            *reg = load::<V, MODE>(v, from.add(i * V::WIDTH), part);
        }
    }
    regs
}

/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn load<V: Vector, const MODE: u8>(v: V, from: *const u8, part: usize) -> V::Reg {
    // SAFETY: the caller guarantees that a register, or `part` bytes of one, can be read here.
    unsafe { if MODE == PART { v.load_part(from, part) } else { v.load(from) } }
}

/// # Safety
/// As [`sum_column`].
#[inline(always)]
unsafe fn write<V: Vector, const C: usize, const MODE: u8>(
    v: V,
    out: *mut u8,
    at: usize,
    part: usize,
    regs: [V::Reg; C],
) {
    // SAFETY: the caller guarantees that a column, or `part` bytes of a register, can be written
    // here. Streamed results are aligned, since `out` and the columns are.
    unsafe {
        for (i, reg) in regs.into_iter().enumerate() {
            let to = out.add(at + i * V::WIDTH);
            match MODE {
                PART => v.store_part(to, part, reg),
                STREAM | AHEAD => v.stream(to, reg),
                _ => v.store(to, reg),
            }
        }
    }
}
