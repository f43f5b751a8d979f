//! Clean data is never older than the drives, stays within its limit, and keeps the working set.

use block_cache::{
    Bytes, Clean, FillName, LineName, PAGE, RequestTag, StreamName, Streams, WriteName,
};
use proptest::prelude::*;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

const KIB: u64 = 1024;

/// The drives' content of a range when it was read: a number per 4 KiB.
#[derive(Clone, PartialEq, Debug)]
struct Blocks(Vec<u64>);

const BLOCK: u64 = 4 * KIB;

impl Bytes for Blocks {
    fn cut(&self, at: ByteCount, len: ByteCount) -> Blocks {
        let (at, len) = ((at.0 / BLOCK) as usize, (len.0 / BLOCK) as usize);
        Blocks(self.0[at..at + len].to_vec())
    }

    fn alone(&self) -> Blocks {
        self.clone()
    }
}

fn line(stripe: u64) -> LineName {
    LineName { volume: 1, stripe: StripeIndex(stripe) }
}

fn range(from_kib: u64, len_kib: u64) -> ByteRange {
    ByteRange::new(ByteOffset(from_kib * KIB), ByteCount(len_kib * KIB))
}

fn blocks(number: u64, range: ByteRange) -> Blocks {
    Blocks(vec![number; (range.len.0 / BLOCK) as usize])
}

/// A host read that caches its data. Returns whether the complete range was cached before.
fn read(clean: &mut Clean<Blocks>, stripe: u64, range: ByteRange) -> bool {
    let found: u64 = clean.ask(line(stripe), range, true).iter().map(|(part, _)| part.len.0).sum();
    if found == range.len.0 {
        return true;
    }
    let fill = clean.begin_fill(line(stripe), range, None).expect("no write is running");
    clean.end_fill(fill, Some(&blocks(1, range)));
    clean.check().unwrap();
    false
}

#[test]
fn what_was_read_is_there_until_it_is_written() {
    let mut clean = Clean::new(ByteCount(1 << 20));
    assert!(!read(&mut clean, 3, range(8, 24)));
    assert!(read(&mut clean, 3, range(8, 24)));
    assert!(!read(&mut clean, 4, range(8, 24)), "another stripe");
    let write = clean.begin_write(line(3), range(12, 4));
    assert_eq!(clean.begin_fill(line(3), range(0, 16), None), None, "no fill during a write");
    assert!(clean.has_any(line(3), range(8, 4)) && !clean.has_any(line(3), range(12, 4)));
    clean.end_write(write);
    let found = clean.ask(line(3), range(8, 24), true);
    let found: Vec<ByteRange> = found.iter().map(|(part, _)| *part).collect();
    assert_eq!(found, [range(8, 4), range(16, 16)]);
}

/// A fill that began before a write and ends after it may return old data.
#[test]
fn what_was_on_its_way_when_a_write_began_loses() {
    let mut clean = Clean::new(ByteCount(1 << 20));
    let fill = clean.begin_fill(line(0), range(0, 16), None).unwrap();
    let write = clean.begin_write(line(0), range(4, 4));
    clean.end_write(write);
    clean.end_fill(fill, Some(&blocks(1, range(0, 16))));
    assert_eq!(clean.bytes(), ByteCount::ZERO);
}

#[test]
fn what_was_read_ahead_is_read_once_and_waited_for() {
    let mut clean = Clean::new(ByteCount(1 << 20));
    let missing = clean.missing(line(0), range(20, 40), range(0, 128));
    assert_eq!(missing[..], [range(16, 48)], "whole pages");
    let fill = clean.begin_fill(line(0), missing[0], Some(StreamName(7))).unwrap();
    assert!(clean.is_coming(line(0), range(40, 4)) && !clean.is_coming(line(0), range(64, 4)));
    assert!(clean.missing(line(0), range(16, 48), range(0, 128)).is_empty(), "it is being read");
    clean.end_fill(fill, Some(&blocks(1, missing[0])));
    assert_eq!(clean.ask(line(0), range(16, 32), false).len(), 2);
    assert_eq!(clean.bytes(), PAGE, "pages that were read are evicted");
    let counters = clean.counters(1);
    assert_eq!(
        [counters.ahead, counters.ahead_used, counters.ahead_wasted],
        [48 * KIB, 32 * KIB, 0]
    );
}

#[test]
fn what_was_read_ahead_for_nobody_is_wasted() {
    let mut clean = Clean::new(ByteCount(64 * KIB));
    for stripe in 0..8 {
        let fill = clean.begin_fill(line(stripe), range(0, 16), Some(StreamName(7))).unwrap();
        clean.end_fill(fill, Some(&blocks(1, range(0, 16))));
        clean.check().unwrap();
    }
    assert_eq!(clean.take_wasted(1, StreamName(7)), ByteCount(64 * KIB));
    assert_eq!(clean.take_wasted(1, StreamName(7)), ByteCount::ZERO);
    assert!(clean.has_any(line(7), range(0, 16)) && !clean.has_any(line(3), range(0, 16)));
}

/// The hit rate of reads of a working set, with other accesses between them.
fn hit_rate(clean: &mut Clean<Blocks>, mut beside: impl FnMut(&mut Clean<Blocks>, u64)) -> f64 {
    let mut random = 1_u64;
    let (mut hits, reads) = (0, 20_000);
    for number in 0..reads {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 48 pages; the cache holds 64.
        hits += u64::from(read(clean, (random >> 33) % 48, range(0, 16)));
        beside(clean, number);
    }
    hits as f64 / reads as f64
}

#[test]
fn a_scan_of_ten_times_the_room_leaves_the_working_set() {
    let room = ByteCount(64 * PAGE.0);
    let mut clean = Clean::new(room);
    hit_rate(&mut clean, |_, _| {});
    let alone = hit_rate(&mut clean, |_, _| {});
    let beside_scan = hit_rate(&mut clean, |clean, number| {
        if number % 31 == 0 {
            read(clean, 1000 + number / 31, range(0, 16));
        }
    });
    assert!(
        alone > 0.99 && beside_scan > 0.9 * alone,
        "{alone} alone, {beside_scan} beside a scan"
    );
    // The same with a scan that is read ahead and requested in small pieces.
    let beside_stream = hit_rate(&mut clean, |clean, number| {
        if number % 31 == 0 {
            let stripe = 10_000 + number / 31;
            let fill = clean.begin_fill(line(stripe), range(0, 16), Some(StreamName(1))).unwrap();
            clean.end_fill(fill, Some(&blocks(1, range(0, 16))));
            (0..4).for_each(|part| drop(clean.ask(line(stripe), range(part * 4, 4), true)));
        }
    });
    assert!(beside_stream > 0.9 * alone, "{alone} alone, {beside_stream} beside a stream");
}

#[derive(Clone, Debug)]
enum Step {
    BeginFill(u64, ByteRange, bool),
    /// Index of the running fill; whether it was read.
    EndFill(usize, bool),
    BeginWrite(u64, ByteRange),
    EndWrite(usize),
    Ask(u64, ByteRange, bool),
    Room(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let part = || (0_u64..16, 1_u64..12).prop_map(|(from, len)| range(from * 4, len * 4));
    let stripe = || 0_u64..3;
    prop_oneof![
        4 => (stripe(), part(), any::<bool>())
            .prop_map(|(s, r, ahead)| Step::BeginFill(s, r, ahead)),
        4 => (0_usize..8, prop::bool::weighted(0.9))
            .prop_map(|(place, is_read)| Step::EndFill(place, is_read)),
        2 => (stripe(), part()).prop_map(|(s, r)| Step::BeginWrite(s, r)),
        2 => (0_usize..8).prop_map(Step::EndWrite),
        6 => (stripe(), part(), any::<bool>()).prop_map(|(s, r, keeps)| Step::Ask(s, r, keeps)),
        1 => (0_u64..20).prop_map(|pages| Step::Room(pages * PAGE.0)),
    ]
}

/// Drives under the cache. A write renumbers half of its blocks at its begin, all at its end.
#[derive(Default)]
struct World {
    drives: std::collections::BTreeMap<(u64, u64), u64>,
    fills: Vec<(FillName, Blocks)>,
    writes: Vec<(WriteName, u64, ByteRange, u64)>,
    number: u64,
}

impl World {
    fn held(&self, stripe: u64, range: ByteRange) -> Blocks {
        let of = |block| self.drives.get(&(stripe, block)).copied().unwrap_or(0);
        Blocks((range.start.0 / BLOCK..range.end().0 / BLOCK).map(of).collect())
    }

    fn put(&mut self, stripe: u64, range: ByteRange, number: u64, is_half: bool) {
        for block in range.start.0 / BLOCK..range.end().0 / BLOCK {
            if !is_half || block % 2 == 0 {
                self.drives.insert((stripe, block), number);
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_kept_is_what_the_drives_hold(steps in prop::collection::vec(step(), 1..200)) {
        let (mut clean, mut world) = (Clean::new(ByteCount(12 * PAGE.0)), World::default());
        for step in steps {
            match step {
                Step::BeginFill(stripe, range, is_ahead) => {
                    let data = world.held(stripe, range);
                    let stream = is_ahead.then_some(StreamName(1));
                    let fill = clean.begin_fill(line(stripe), range, stream);
                    world.fills.extend(fill.map(|fill| (fill, data)));
                }
                Step::EndFill(place, is_read) if place < world.fills.len() => {
                    let (fill, data) = world.fills.remove(place);
                    clean.end_fill(fill, is_read.then_some(&data));
                }
                Step::BeginWrite(stripe, range) => {
                    // The stripe's lock: no two writes of the same bytes.
                    let mut writes = world.writes.iter();
                    if writes.all(|(_, other, of, _)| *other != stripe || !of.overlaps(range)) {
                        world.number += 1;
                        let number = world.number;
                        let write = clean.begin_write(line(stripe), range);
                        world.writes.push((write, stripe, range, number));
                        world.put(stripe, range, number, true);
                    }
                }
                Step::EndWrite(place) if place < world.writes.len() => {
                    let (write, stripe, range, number) = world.writes.remove(place);
                    world.put(stripe, range, number, false);
                    clean.end_write(write);
                }
                Step::Ask(stripe, range, keeps) => {
                    for (part, data) in clean.ask(line(stripe), range, keeps) {
                        prop_assert_eq!(&data, &world.held(stripe, part));
                    }
                }
                Step::Room(bytes) => clean.set_room(ByteCount(bytes)),
                Step::EndFill(..) | Step::EndWrite(_) => {}
            }
            prop_assert_eq!(clean.check(), Ok(()));
        }
        clean.forget(1);
        prop_assert_eq!(clean.bytes(), ByteCount::ZERO);
    }
}

const MOST: ByteCount = ByteCount(4 << 20);
const END: ByteOffset = ByteOffset(1 << 40);

fn follow(streams: &mut Streams, from_kib: u64, count: u64, tag: u64) -> Vec<ByteRange> {
    let reads = (0..count).map(|number| range(from_kib + number * 64, 64));
    let ahead =
        reads.zip(tag..).map(|(range, tag)| streams.read(range, RequestTag(tag), MOST, END));
    ahead.flatten().map(|ahead| ahead.range).collect()
}

#[test]
fn the_second_neighbour_begins_a_stream_and_its_window_grows() {
    let mut streams = Streams::default();
    let ahead = follow(&mut streams, 0, 100, 1);
    assert_eq!(ahead[0], range(128, 128), "twice the size of a read");
    assert!(ahead.windows(2).all(|pair| pair[0].end() == pair[1].start), "gap: {ahead:?}");
    let read = ByteOffset(100 * 64 * KIB);
    let left = ahead.last().unwrap().end() - read;
    assert!(left >= ByteCount(MOST.0 / 4) && left <= MOST, "{left} ahead, window {MOST}");
}

#[test]
fn reads_at_random_places_begin_none_and_a_large_read_is_one() {
    let mut streams = Streams::default();
    for number in 0..1000 {
        let from = number * 7_919 % 1_000 * 1_024;
        // One request over two stripes.
        for part in [range(from, 64), range(from + 64, 64)] {
            assert_eq!(streams.read(part, RequestTag(number), MOST, END), None);
        }
    }
    assert!(streams.is_empty());
}

#[test]
fn a_stream_is_told_from_others_and_may_come_out_of_order() {
    let mut streams = Streams::default();
    for round in 0..40 {
        for stream in 0..24 {
            // Two outstanding reads, the second one first.
            let at = stream * (2 << 20) + round * 128;
            for (part, tag) in [(64, 0), (0, 1)] {
                streams.read(
                    range(at + part, 64),
                    RequestTag(round * 100 + stream * 2 + tag),
                    MOST,
                    END,
                );
            }
        }
    }
    assert_eq!(streams.len(), 24);
}

#[test]
fn what_is_wasted_makes_the_window_smaller_and_the_end_ends_it() {
    let mut streams = Streams::default();
    let before = follow(&mut streams, 0, 100, 1);
    let largest = before.iter().map(|range| range.len).max().unwrap();
    let name = streams.latest().unwrap();
    streams.note_wasted(name, ByteCount(largest.0 * 100));
    let after = follow(&mut streams, 6_400, 64, 200);
    assert!(after[0].len < largest, "{after:?} after {largest}");
    let end = ByteOffset(200 * KIB);
    let mut streams = Streams::default();
    for (number, at) in (1..).zip([0, 64, 128]) {
        if let Some(ahead) = streams.read(range(at, 64), RequestTag(number), MOST, end) {
            assert!(ahead.range.end() <= end);
        }
    }
}

#[test]
fn a_stream_goes_on_where_another_shard_has_read_ahead() {
    let mut streams = Streams::default();
    let name = streams.expect(range(1_024, 512), ByteCount(1 << 20));
    assert_eq!(streams.expect(range(1_536, 512), ByteCount(1 << 20)), name);
    let ahead = follow(&mut streams, 1_024, 16, 1);
    assert!(!ahead.is_empty() && ahead[0].start == range(2_048, 1).start, "{ahead:?}");
    assert_eq!(streams.latest(), Some(name));
}
