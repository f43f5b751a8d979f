//! All waiting writes are destaged, in exclusive columns, and together where that pays.

mod common;

use block_cache::{Destage, LineShape, Lines, RequestTag, Write, merge};
use common::{KIB, Number, SHAPE, columns, kib, ranges};
use proptest::prelude::*;
use units::{ByteCount, ByteRange, StripeIndex};

/// Requests of one write each, by number.
fn admit(lines: &mut Lines<Number>, stripe: u64, range: ByteRange, number: u64) {
    let (columns, request, held) = (columns(range), RequestTag(number), Number(number, range));
    let write = Write { range, columns, request, answered: false, held };
    lines.admit(StripeIndex(stripe), write);
}

fn begin(lines: &mut Lines<Number>, stripe: u64) -> Vec<Destage> {
    std::iter::from_fn(|| lines.begin(StripeIndex(stripe))).collect()
}

fn take(lines: &mut Lines<Number>, destage: &Destage) -> Vec<u64> {
    lines.take(destage, None).into_iter().map(|write| write.held.0).collect()
}

/// The destages that begin in this line, with their writes.
fn go(lines: &mut Lines<Number>, stripe: u64) -> Vec<(Destage, Vec<u64>)> {
    let begun = begin(lines, stripe);
    begun.into_iter().map(|destage| (destage.clone(), take(lines, &destage))).collect()
}

fn numbers(begun: &[(Destage, Vec<u64>)]) -> Vec<&[u64]> {
    begun.iter().map(|(_, writes)| &writes[..]).collect()
}

#[test]
fn one_write_alone_waits_for_nothing() {
    let mut lines = Lines::new(SHAPE);
    for (number, stripe) in (0..4).zip([0, 1, 2, 3]) {
        admit(&mut lines, stripe, kib(0, 64), number);
        let begun = go(&mut lines, stripe);
        assert_eq!(numbers(&begun), [[number]]);
        lines.end(&begun[0].0, &[]);
        assert!(lines.is_empty());
    }
}

/// Seven strips of a stripe were seven read-modify-writes in a row, since they share columns.
#[test]
fn what_waits_for_the_same_columns_is_destaged_together() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 7, kib(0, 64), 0);
    let first = go(&mut lines, 7);
    for (number, start) in [(1, 64), (2, 128), (3, 192)] {
        admit(&mut lines, 7, kib(start, 64), number);
        assert!(begin(&mut lines, 7).is_empty(), "its columns are being destaged");
    }
    lines.end(&first[0].0, &[]);
    let second = go(&mut lines, 7);
    assert_eq!(numbers(&second), [[1, 2, 3]]);
}

#[test]
fn writes_of_other_columns_do_not_wait_for_each_other() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 8), 0);
    assert_eq!(numbers(&go(&mut lines, 0)), [[0]]);
    admit(&mut lines, 0, kib(64 + 32, 8), 1);
    assert_eq!(numbers(&go(&mut lines, 0)), [[1]]);
    admit(&mut lines, 0, kib(128, 40), 2);
    assert!(
        begin(&mut lines, 0).is_empty(),
        "columns 0 to 8 KiB and 32 to 40 KiB are being destaged"
    );
    admit(&mut lines, 0, kib(192 + 16, 8), 3);
    assert!(begin(&mut lines, 0).is_empty(), "no write overtakes one of the same columns");
    admit(&mut lines, 0, kib(192 + 48, 8), 4);
    assert_eq!(numbers(&go(&mut lines, 0)), [[4]]);
}

/// A destage of columns 0 to 8 KiB runs; a write of all columns waits, then another one of these
/// columns. That one must not join the destage, or the wide write would overwrite it.
#[test]
fn what_is_taken_overtakes_nobody() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 8), 0);
    let first = begin(&mut lines, 0).remove(0);
    admit(&mut lines, 0, kib(0, 256), 1);
    admit(&mut lines, 0, kib(0, 8), 2);
    assert_eq!(take(&mut lines, &first), [0]);
    assert!(begin(&mut lines, 0).is_empty());
    lines.end(&first, &[]);
    assert_eq!(numbers(&go(&mut lines, 0)), [[1, 2]]);
}

/// A deep sequential stream writes full stripes: a new line waits for the previous one.
#[test]
fn a_stream_fills_its_lines_before_they_are_destaged() {
    let mut lines = Lines::new(SHAPE);
    for (number, start) in [(0, 0), (1, 64), (2, 128), (3, 192)] {
        admit(&mut lines, 0, kib(start, 64), number);
    }
    let first = go(&mut lines, 0);
    assert_eq!(numbers(&first), [[0, 1, 2, 3]]);
    for (number, start) in [(4, 0), (5, 64), (6, 128)] {
        admit(&mut lines, 1, kib(start, 64), number);
        assert!(begin(&mut lines, 1).is_empty(), "more writes may fill it");
    }
    admit(&mut lines, 1, kib(192, 64), 7);
    let second = go(&mut lines, 1);
    assert_eq!(numbers(&second), [[4, 5, 6, 7]]);
    // The stream ends within a line: it is destaged after the previous one.
    admit(&mut lines, 2, kib(0, 64), 8);
    assert!(begin(&mut lines, 2).is_empty());
    lines.end(&first[0].0, &[]);
    assert!(begin(&mut lines, 2).is_empty(), "the previous line is the second");
    lines.end(&second[0].0, &[]);
    assert_eq!(numbers(&go(&mut lines, 2)), [[8]]);
}

/// With less than a stripe outstanding a line never fills, and waiting would idle the drives.
#[test]
fn a_shallow_stream_does_not_wait_to_fill_its_lines() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(192, 64), 0);
    assert_eq!(numbers(&go(&mut lines, 0)), [[0]]);
    admit(&mut lines, 1, kib(0, 64), 1);
    assert_eq!(numbers(&go(&mut lines, 1)), [[1]]);
}

/// One large request ends within a line: no other write will fill it.
#[test]
fn the_end_of_a_request_does_not_wait_for_its_own_beginning() {
    let mut lines = Lines::new(SHAPE);
    for (stripe, len) in [(0, 256), (1, 128)] {
        let range = kib(0, len);
        lines.admit(
            StripeIndex(stripe),
            Write {
                range,
                columns: columns(range),
                request: RequestTag(1),
                answered: false,
                held: Number(stripe, range),
            },
        );
        assert_eq!(numbers(&go(&mut lines, stripe)), [[stripe]]);
    }
}

#[test]
fn a_line_without_parity_waits_for_nobody_to_fill_it() {
    let mut lines = Lines::new(LineShape { parity_strips: 0, ..SHAPE });
    admit(&mut lines, 0, kib(192, 64), 0);
    assert_eq!(numbers(&go(&mut lines, 0)), [[0]]);
    admit(&mut lines, 1, kib(0, 64), 1);
    assert_eq!(numbers(&go(&mut lines, 1)), [[1]]);
}

/// The size of a log record limits a destage, but not a full stripe, which needs no record.
#[test]
fn as_much_is_taken_as_may_be_written_at_once() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 64), 0);
    let first = go(&mut lines, 0);
    for (number, start) in [(1, 0), (2, 64), (3, 128)] {
        admit(&mut lines, 0, kib(start, 64), number);
    }
    lines.end(&first[0].0, &[]);
    let destage = lines.begin(StripeIndex(0)).unwrap();
    let taken = lines.take(&destage, Some(ByteCount(200 * KIB)));
    assert_eq!(taken.iter().map(|write| write.held.0).collect::<Vec<_>>(), [1, 2], "plus parity");
    admit(&mut lines, 0, kib(0, 128), 4);
    admit(&mut lines, 0, kib(192, 64), 5);
    lines.end(&destage, &[]);
    let destage = lines.begin(StripeIndex(0)).unwrap();
    let taken = lines.take(&destage, Some(ByteCount(64 * KIB)));
    assert_eq!(taken.iter().map(|write| write.held.0).collect::<Vec<_>>(), [3, 4, 5]);
}

/// Events: a write arrives, a destage takes its writes, a destage ends.
#[derive(Clone, Debug)]
enum Step {
    Admit(u64, ByteRange),
    Take(usize),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u64..4, ranges()).prop_map(|(stripe, range)| Step::Admit(stripe, range)),
        2 => any::<usize>().prop_map(Step::Take),
        2 => any::<usize>().prop_map(Step::End),
    ]
}

/// Lines as the engine uses them, and their history.
struct Used {
    lines: Lines<Number>,
    begun: Vec<Destage>,
    taken: Vec<Destage>,
    done: Vec<u64>,
    /// Stripe and range of each write, by number.
    writes: Vec<(u64, ByteRange)>,
}

impl Used {
    fn look_at(&mut self, stripe: u64) {
        let begun = begin(&mut self.lines, stripe);
        self.begun.extend(begun);
    }

    fn take(&mut self, which: usize, most: Option<ByteCount>) {
        let destage = self.begun.swap_remove(which % self.begun.len());
        let oldest = self.lines.oldest_of(&destage).map(|write| write.held);
        let writes = self.lines.take(&destage, most);
        for write in &writes {
            let before = self.writes[..write.held.0 as usize].iter().zip(0..);
            let mut same = before
                .filter(|(older, _)| older.0 == destage.stripe.0 && older.1.overlaps(write.range));
            assert!(
                same.all(|(_, older)| self.done.contains(&older)
                    || writes.iter().any(|write| write.held.0 == older)),
                "{} overtakes an older write of the same bytes",
                write.held.0
            );
        }
        assert_eq!(oldest, writes.first().map(|write| write.held), "takes the oldest write");
        assert!(writes.iter().all(|write| destage.columns.contains(&write.columns.start)));
        self.done.extend(writes.iter().map(|write| write.held.0));
        self.taken.push(destage);
    }

    fn end(&mut self, which: usize) {
        let destage = self.taken.swap_remove(which % self.taken.len());
        self.lines.end(&destage, &[]);
        self.look_at(destage.stripe.0);
        self.look_at(destage.stripe.0 + 1);
    }
}

proptest! {
    /// Any order: columns are exclusive, every write is destaged once, and none is left waiting.
    #[test]
    fn every_write_is_destaged_once(
        steps in prop::collection::vec(step(), 1..120),
        most in prop::option::of((1u64..400).prop_map(|kib| ByteCount(kib * KIB))),
    ) {
        let (begun, taken, done, writes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut used = Used { lines: Lines::new(SHAPE), begun, taken, done, writes };
        for step in steps {
            match step {
                Step::Admit(stripe, range) => {
                    admit(&mut used.lines, stripe, range, used.writes.len() as u64);
                    used.writes.push((stripe, range));
                    used.look_at(stripe);
                }
                Step::Take(which) if !used.begun.is_empty() => used.take(which, most),
                Step::End(which) if !used.taken.is_empty() => used.end(which),
                _ => {}
            }
            prop_assert_eq!(used.lines.check(), Ok(()));
        }
        while !(used.begun.is_empty() && used.taken.is_empty()) {
            while !used.begun.is_empty() {
                used.take(0, most);
            }
            while !used.taken.is_empty() {
                used.end(0);
            }
        }
        used.done.sort_unstable();
        prop_assert!(used.lines.is_empty());
        prop_assert_eq!(used.done, (0..used.writes.len() as u64).collect::<Vec<_>>());
    }

    /// Compares with a map of sectors.
    #[test]
    fn merged_writes_are_what_they_come_to_one_after_the_other(writes in prop::collection::vec(ranges(), 0..12)) {
        let mut expected = vec![None; 64];
        for (number, range) in writes.iter().enumerate() {
            for sector in range.start.0 / 4096..range.end().0 / 4096 {
                expected[sector as usize] = Some((number, sector * 4096 - range.start.0));
            }
        }
        let mut got = vec![None; 64];
        let extents = merge(&writes);
        prop_assert!(extents.is_sorted_by(|a, b| a.range.end() <= b.range.start));
        for extent in extents {
            for sector in extent.range.start.0 / 4096..extent.range.end().0 / 4096 {
                let at = extent.at.0 + sector * 4096 - extent.range.start.0;
                prop_assert!(got[sector as usize].replace((extent.write, at)).is_none());
            }
        }
        prop_assert_eq!(got, expected);
    }
}
