//! Binary encoding of an interval. Most counts are zero or small, since most volumes are mostly
//! idle.
//!
//! ```text
//! flags        1 byte: a bit for each kind of operation that follows, CACHE, TEMPERATURE
//! covered      varint, milliseconds
//! cache        two varints, if CACHE
//! temperature  least as zigzag varint, most - least as varint, if TEMPERATURE
//! operation    varints: failed, bytes, time; 3 bytes: which buckets are not zero, lowest bit
//!              first; a varint for each of these
//! ```

use crate::interval::{BUCKETS, Done, Interval, OPERATIONS, Temperatures};

const CACHE: u8 = 1 << OPERATIONS;
const TEMPERATURE: u8 = CACHE << 1;

/// Bytes of the bucket bitmap.
const MAP: usize = BUCKETS.div_ceil(8);

/// Encodes an interval.
pub(crate) fn encode(interval: &Interval) -> Vec<u8> {
    let Interval { covered_ms, cache_hits, cache_writes, temperatures, done } = interval;
    let mut flags = 0;
    for (kind, done) in done.iter().enumerate() {
        flags |= u8::from(*done != Done::default()) << kind;
    }
    let has_cache = *cache_hits > 0 || *cache_writes > 0;
    flags |= if has_cache { CACHE } else { 0 };
    flags |= if temperatures.is_some() { TEMPERATURE } else { 0 };
    let mut out = vec![flags];
    put(&mut out, *covered_ms);
    if has_cache {
        put(&mut out, *cache_hits);
        put(&mut out, *cache_writes);
    }
    if let Some(Temperatures { least, most }) = temperatures {
        let least = i64::from(*least);
        put(&mut out, ((least << 1) ^ (least >> 63)) as u64);
        put(&mut out, (i64::from(*most) - least).max(0) as u64);
    }
    done.iter().filter(|done| **done != Done::default()).for_each(|done| put_done(&mut out, done));
    out
}

fn put_done(out: &mut Vec<u8>, done: &Done) {
    let Done { failed, bytes, time_ns, buckets } = done;
    [failed, bytes, time_ns].into_iter().for_each(|number| put(out, *number));
    let mut map = [0_u8; MAP];
    for (at, count) in buckets.iter().enumerate() {
        map[at / 8] |= u8::from(*count > 0) << (at % 8);
    }
    out.extend(map);
    buckets.iter().filter(|count| **count > 0).for_each(|count| put(out, *count));
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes an interval; `None` for invalid bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<Interval> {
    let mut rest = bytes;
    let flags = byte(&mut rest)?;
    if flags >= TEMPERATURE << 1 {
        return None;
    }
    let mut interval = Interval { covered_ms: number(&mut rest)?, ..Interval::default() };
    if flags & CACHE > 0 {
        (interval.cache_hits, interval.cache_writes) = (number(&mut rest)?, number(&mut rest)?);
    }
    if flags & TEMPERATURE > 0 {
        let (zigzag, spread) = (number(&mut rest)?, number(&mut rest)?);
        let least = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let most = least.checked_add(i64::try_from(spread).ok()?)?;
        interval.temperatures =
            Some(Temperatures { least: least.try_into().ok()?, most: most.try_into().ok()? });
    }
    for (kind, done) in interval.done.iter_mut().enumerate() {
        if flags & 1 << kind > 0 {
            *done = take_done(&mut rest)?;
        }
    }
    rest.is_empty().then_some(interval)
}

fn take_done(rest: &mut &[u8]) -> Option<Done> {
    let mut done = Done {
        failed: number(rest)?,
        bytes: number(rest)?,
        time_ns: number(rest)?,
        buckets: [0; BUCKETS],
    };
    let mut map = [0_u8; MAP];
    for part in &mut map {
        *part = byte(rest)?;
    }
    for at in 0..MAP * 8 {
        if map[at / 8] & 1 << (at % 8) > 0 {
            *done.buckets.get_mut(at)? = number(rest)?;
        }
    }
    Some(done)
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(*first)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let part = byte(rest)?;
        let bits = u64::from(part & 0x7F);
        // The tenth byte has a single bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if part & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_number() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0_u64..300, any::<u64>(), Just(u64::MAX)]
    }

    /// Counts in lists: nested arrays of strategies overflow the stack of a test.
    fn an_interval() -> impl Strategy<Value = Interval> {
        let numbers = prop::collection::vec(a_number(), 3 + OPERATIONS * (3 + BUCKETS));
        let temperatures = prop::option::of((any::<i16>(), any::<i16>()));
        (numbers, temperatures).prop_map(|(numbers, temperatures)| {
            let mut numbers = numbers.into_iter();
            let mut next = || numbers.next().unwrap();
            let mut interval = Interval {
                covered_ms: next(),
                cache_hits: next(),
                cache_writes: next(),
                temperatures: temperatures
                    .map(|(a, b)| Temperatures { least: a.min(b), most: a.max(b) }),
                ..Interval::default()
            };
            for done in &mut interval.done {
                (done.failed, done.bytes, done.time_ns) = (next(), next(), next());
                done.buckets.iter_mut().for_each(|count| *count = next());
            }
            interval
        })
    }

    proptest! {
        #[test]
        fn every_interval_is_read_as_it_was_written(interval in an_interval()) {
            prop_assert_eq!(decode(&encode(&interval)), Some(interval));
        }

        #[test]
        fn bytes_that_are_none_are_refused_and_stop_nothing(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Some(interval) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&interval)), Some(interval));
            }
        }

        #[test]
        fn a_part_of_an_interval_is_none(interval in an_interval(), cut in 0_usize..1000) {
            let bytes = encode(&interval);
            let cut = cut % bytes.len();
            prop_assert_eq!(decode(&bytes[..cut]), None);
        }
    }

    #[test]
    fn what_did_nothing_takes_few_bytes() {
        assert!(encode(&Interval { covered_ms: 60_000, ..Interval::default() }).len() <= 4);
    }
}
