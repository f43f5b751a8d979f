//! Dirty data is read back, destaged in order, and never lost, whatever fails.

mod common;

use block_cache::{Destage, LineShape, Lines, RequestTag, Sequence, Write};
use common::{KIB, Number, SETTLED, SHAPE, columns, kib, ranges};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

fn admit(lines: &mut Lines<Number>, stripe: u64, range: ByteRange, number: u64, answered: bool) {
    // No acknowledgement while older data is kept in its cache blocks.
    let wide = if answered { range } else { range.align_out(SHAPE.cell) };
    let (columns, request, held) = (columns(wide), RequestTag(number), Number(number, range));
    lines.admit(StripeIndex(stripe), Write { range, columns, request, answered, held });
}

fn begin(lines: &mut Lines<Number>, stripe: u64) -> Option<Destage> {
    lines.begin(StripeIndex(stripe))
}

/// Begins a destage in this line and takes its writes.
fn go(lines: &mut Lines<Number>, stripe: u64) -> (Destage, Vec<(u64, ByteRange)>) {
    let destage = begin(lines, stripe).expect("something may begin");
    let writes = lines.take(&destage, None);
    (destage, writes.iter().map(|write| (write.held.0, write.range)).collect())
}

fn found(lines: &Lines<Number>, stripe: u64, range: ByteRange) -> Vec<(ByteRange, u64)> {
    lines.within(StripeIndex(stripe), range).map(|(part, write)| (part, write.held.0)).collect()
}

#[test]
fn what_is_dirty_waits_until_it_is_wanted() {
    let mut lines = Lines::new(SHAPE);
    for (number, stripe) in (1..).zip([5, 1, 3]) {
        admit(&mut lines, stripe, kib(0, 8), number, true);
        assert_eq!(begin(&mut lines, stripe), None);
    }
    let chosen: Vec<u64> =
        std::iter::from_fn(|| lines.choose(None)).map(|stripe| stripe.0).collect();
    assert_eq!(chosen, [1, 3, 5], "the elevator ascends");
    assert_eq!(go(&mut lines, 3).1, [(3, kib(0, 8))]);
    assert_eq!(lines.dirty_bytes(), ByteCount(24 * KIB), "until it is destaged");
}

#[test]
fn the_elevator_goes_on_where_it_was() {
    let mut lines = Lines::new(SHAPE);
    (0..8).for_each(|stripe| admit(&mut lines, stripe, kib(0, 8), stripe, true));
    assert_eq!(
        [lines.choose(None), lines.choose(None)],
        [Some(StripeIndex(0)), Some(StripeIndex(1))]
    );
    admit(&mut lines, 0, kib(8, 8), 9, true);
    // Old lines ahead of the elevator come first; young ones are not chosen.
    let old: Vec<u64> =
        std::iter::from_fn(|| lines.choose(Some(Sequence(6)))).map(|stripe| stripe.0).collect();
    assert_eq!(old, [2, 3, 4, 5]);
    let rest: Vec<u64> = std::iter::from_fn(|| lines.choose(None)).map(|stripe| stripe.0).collect();
    assert_eq!(rest, [6, 7, 0]);
}

/// A write adjacent to pinned data did not fit into the same plan. The pinned data was retried
/// alone without end, and the write was never acknowledged (`torture --seed 10238 --write-back`).
#[test]
fn what_is_pinned_is_not_tried_in_place_of_what_a_host_waits_for() {
    let mut lines = Lines::new(LineShape { most_runs: 2, ..SHAPE });
    let bytes = |start, len| ByteRange::new(ByteOffset(start), ByteCount(len));
    admit(&mut lines, 0, bytes(7680, 512), 0, true);
    assert_eq!(lines.choose(None), Some(StripeIndex(0)));
    let (destage, _) = go(&mut lines, 0);
    lines.end(&destage, &[0]);
    assert_eq!(begin(&mut lines, 0), None, "it is pinned");
    admit(&mut lines, 0, bytes(9216, 7168), 1, false);
    let (destage, taken) = go(&mut lines, 0);
    assert_eq!(taken, [(1, bytes(9216, 7168))]);
    lines.end(&destage, &[0]);
    assert_eq!(begin(&mut lines, 0), None);
    assert_eq!((lines.dirty_bytes(), lines.check()), (ByteCount(512), Ok(())));
}

/// A sequential writer with one outstanding I/O gives one full-stripe write per line. A full line
/// waits until the drives have capacity: when all began at once, host reads waited for a second.
#[test]
fn a_line_that_is_dirty_as_a_whole_is_full_and_waits_for_nothing_but_the_drives() {
    let mut lines = Lines::new(SHAPE);
    for (number, start) in [(0, 0), (1, 64), (2, 128)] {
        admit(&mut lines, 3, kib(start, 64), number, true);
        assert!(!lines.has_full());
    }
    admit(&mut lines, 1, kib(32, 64), 3, true);
    admit(&mut lines, 3, kib(192, 64), 4, true);
    assert!(lines.has_full() && begin(&mut lines, 3).is_none());
    assert_eq!(lines.check(), Ok(()));
    assert_eq!((lines.choose_full(), lines.choose_full()), (Some(StripeIndex(3)), None));
    assert!(!lines.has_full());
    let (destage, taken) = go(&mut lines, 3);
    assert_eq!((destage.strips, taken.len()), (4, 4));
    assert_eq!(lines.choose(None), Some(StripeIndex(1)));
    assert_eq!(go(&mut lines, 1).0.strips, 2, "it touches two strips");
}

#[test]
fn newer_data_takes_the_place_of_older_but_not_of_what_is_being_destaged() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 16), 0, true);
    admit(&mut lines, 0, kib(4, 4), 1, true);
    assert_eq!(lines.dirty_bytes(), ByteCount(16 * KIB));
    let expected = [(kib(0, 4), 0), (kib(8, 8), 0), (kib(4, 4), 1)];
    assert_eq!(found(&lines, 0, kib(0, 64)), expected);
    assert_eq!(lines.choose(None), Some(StripeIndex(0)));
    let (destage, taken) = go(&mut lines, 0);
    assert_eq!(taken, [(0, kib(0, 4)), (0, kib(8, 8)), (1, kib(4, 4))]);
    admit(&mut lines, 0, kib(0, 8), 2, true);
    assert_eq!(lines.dirty_bytes(), ByteCount(24 * KIB));
    assert_eq!(
        found(&lines, 0, kib(4, 4)),
        [(kib(4, 4), 1), (kib(4, 4), 2)],
        "the newest comes last"
    );
    lines.end(&destage, &[]);
    assert_eq!(lines.dirty_bytes(), ByteCount(8 * KIB));
    assert_eq!(lines.check(), Ok(()));
}

/// A flush that was requested for the older data must wait for the newer data that replaced it:
/// only memory holds that.
#[test]
fn newer_data_stands_for_the_older_that_it_lies_over() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 8), 0, true);
    let flush = lines.latest();
    admit(&mut lines, 0, kib(0, 8), 1, true);
    assert!(lines.oldest_dirty() <= Some(flush));
    assert_eq!(lines.choose(Some(flush)), Some(StripeIndex(0)), "it inherits the older number");
    let (destage, _) = go(&mut lines, 0);
    admit(&mut lines, 0, kib(0, 8), 2, true);
    lines.end(&destage, &[]);
    assert!(lines.oldest_dirty() > Some(flush), "a later write has its own number");
}

/// An unacknowledged write is destaged at once, with the dirty data under it.
#[test]
fn a_write_whose_host_waits_takes_along_what_is_dirty_there() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 8), 0, true);
    admit(&mut lines, 0, kib(32, 8), 1, true);
    admit(&mut lines, 0, kib(4, 8), 2, false);
    assert_eq!(go(&mut lines, 0).1, [(0, kib(0, 8)), (2, kib(4, 8))]);
    assert_eq!(begin(&mut lines, 0), None, "the other one is not wanted");
}

#[test]
fn what_cannot_be_destaged_stays_in_its_order_until_it_is_tried_again() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 16), 0, true);
    assert_eq!(lines.choose(None), Some(StripeIndex(0)));
    let (destage, _) = go(&mut lines, 0);
    admit(&mut lines, 0, kib(4, 4), 1, true);
    lines.end(&destage, &[0]);
    assert_eq!(lines.pinned_bytes(), ByteCount(16 * KIB));
    assert_eq!((lines.choose(None), begin(&mut lines, 0)), (None, None), "no automatic retry");
    assert_eq!(found(&lines, 0, kib(4, 4)), [(kib(4, 4), 1)]);
    assert_eq!(lines.retry(1), [StripeIndex(0)]);
    let (destage, taken) = go(&mut lines, 0);
    assert_eq!(taken, [(0, kib(0, 4)), (0, kib(8, 8)), (1, kib(4, 4))]);
    lines.end(&destage, &[]);
    assert!(lines.is_empty() && lines.pinned().is_empty());
}

/// A trim requests the destage of its own line only, even when it is pinned.
#[test]
fn a_line_is_destaged_by_itself_and_settled_when_nothing_old_is_left_or_it_is_pinned() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 16), 0, true);
    admit(&mut lines, 1, kib(0, 16), 1, true);
    let (stripe, up_to) = (StripeIndex(1), lines.latest());
    assert!(!lines.is_line_settled(stripe, up_to) && lines.is_line_settled(StripeIndex(2), up_to));
    assert!(lines.want_line(stripe) && !lines.want_line(StripeIndex(2)));
    let (destage, taken) = go(&mut lines, 1);
    assert_eq!(taken, [(1, kib(0, 16))]);
    assert!(!lines.is_line_settled(stripe, up_to), "its destage runs");
    lines.end(&destage, &[0]);
    assert!(lines.is_line_settled(stripe, up_to), "it is pinned");
    assert_eq!(begin(&mut lines, 1), None, "no automatic retry");
    assert!(lines.want_line(stripe) && lines.pinned().is_empty());
    let (destage, _) = go(&mut lines, 1);
    admit(&mut lines, 1, kib(32, 16), 2, true);
    lines.end(&destage, &[]);
    assert!(lines.is_line_settled(stripe, up_to), "the remaining data is newer");
    assert!(!lines.is_line_settled(stripe, lines.latest()));
    assert_eq!((begin(&mut lines, 0), lines.check()), (None, Ok(())), "the other stays pinned");
}

/// A log takes one of two writes at a time. The older one failed and was retried without end, so
/// that the unacknowledged newer one never began.
#[test]
fn who_waits_behind_what_cannot_be_destaged_is_told() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 16), 0, true);
    admit(&mut lines, 0, kib(32, 8), 1, true);
    admit(&mut lines, 0, kib(64, 16), 2, false);
    admit(&mut lines, 0, kib(96, 4), 3, false);
    let destage = begin(&mut lines, 0).expect("a write may begin");
    assert_eq!(lines.take(&destage, Some(ByteCount(KIB))).len(), 1);
    let behind = lines.end(&destage, &[0]);
    assert_eq!(behind.iter().map(|write| write.held.0).collect::<Vec<_>>(), [2]);
    // The other one is independent.
    let (destage, taken) = go(&mut lines, 0);
    assert_eq!(taken, [(1, kib(32, 8)), (3, kib(96, 4))]);
    assert!(lines.end(&destage, &[]).is_empty());
    assert_eq!((begin(&mut lines, 0), lines.check()), (None, Ok(())));
}

/// The older of two writes failed and stays in persistent memory. If the newer one were
/// acknowledged, a crash would restore the older one over it.
#[test]
#[should_panic(expected = "must fail with the older write")]
fn nobody_is_on_the_drives_before_what_comes_first() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 16), 0, true);
    admit(&mut lines, 0, kib(4, 4), 1, false);
    let (destage, _) = go(&mut lines, 0);
    lines.end(&destage, &[0]);
}

#[derive(Clone, Debug)]
enum Step {
    Admit(u64, ByteRange, bool),
    Choose(bool),
    ChooseFull,
    Retry,
    Want(u64),
    /// Index of the destage; whether it may take one write only.
    Take(usize, bool),
    /// Which of its writes fail, as bits, and whether failed writes are half written.
    End(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..4, ranges(), any::<bool>())
            .prop_map(|(stripe, range, is)| Step::Admit(stripe, range, is)),
        2 => any::<bool>().prop_map(Step::Choose),
        1 => Just(Step::ChooseFull),
        1 => Just(Step::Retry),
        1 => (0u64..4).prop_map(Step::Want),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, one)| Step::Take(which, one)),
        2 => (any::<usize>(), prop_oneof![3 => Just(0), 1 => any::<u64>()])
            .prop_map(|(which, failed)| Step::End(which, failed)),
    ]
}

const SECTORS: usize = 64;
type Sectors = Vec<[u64; SECTORS]>;

/// Lines over drives that hold the number of the last write per sector. Numbers start at 1.
struct Used {
    lines: Lines<Number>,
    begun: Vec<Destage>,
    taken: Vec<(Destage, Vec<Write<Number>>)>,
    drives: Sectors,
    /// The minimum content of each sector: the last acknowledged write.
    promised: Sectors,
    /// Persistent memory by stripe and cache block: acknowledged writes, and the number of their
    /// sectors that are not settled.
    kept: BTreeMap<(u64, usize), Vec<(u64, usize)>>,
    /// Stripe and range of each write.
    stripes: Vec<(u64, ByteRange)>,
    /// A flush: its sequence number, and the sectors that it must make durable.
    flush: (Sequence, Sectors),
    writes: u64,
}

fn sectors(range: ByteRange) -> std::ops::Range<usize> {
    (range.start.0 / 4096) as usize..(range.end().0 / 4096) as usize
}

impl Used {
    fn new() -> Used {
        let none = || vec![[0; SECTORS]; 4];
        let (lines, begun, taken) = (Lines::new(SHAPE), Vec::new(), Vec::new());
        let flush = (Sequence(0), none());
        SETTLED.with_borrow_mut(Vec::clear);
        let (kept, stripes) = (BTreeMap::new(), vec![(0, kib(0, 0))]);
        Used {
            lines,
            begun,
            taken,
            drives: none(),
            promised: none(),
            kept,
            stripes,
            flush,
            writes: 0,
        }
    }

    fn look_at(&mut self, stripe: u64) {
        while let Some(destage) = begin(&mut self.lines, stripe) {
            self.begun.push(destage);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Admit(stripe, range, answered) => {
                self.writes += 1;
                self.stripes.push((stripe, range));
                for sector in sectors(range).filter(|_| answered) {
                    let kept = self.kept.entry((stripe, sector / 2)).or_default();
                    match kept.last_mut().filter(|(number, _)| *number == self.writes) {
                        Some((_, sectors)) => *sectors += 1,
                        None => kept.push((self.writes, 1)),
                    }
                }
                admit(&mut self.lines, stripe, range, self.writes, answered);
                if answered {
                    self.promised[stripe as usize][sectors(range)].fill(self.writes);
                }
                self.look_at(stripe);
            }
            Step::Choose(by_age) => {
                let up_to = by_age.then_some(self.flush.0);
                if let Some(stripe) = self.lines.choose(up_to) {
                    self.look_at(stripe.0);
                }
            }
            Step::ChooseFull => {
                if let Some(stripe) = self.lines.choose_full() {
                    self.look_at(stripe.0);
                }
            }
            Step::Retry => {
                self.lines.retry(1).into_iter().for_each(|stripe| self.look_at(stripe.0))
            }
            Step::Want(stripe) if self.lines.want_line(StripeIndex(stripe)) => self.look_at(stripe),
            Step::Take(which, one) if !self.begun.is_empty() => {
                let destage = self.begun.swap_remove(which % self.begun.len());
                let writes = self.lines.take(&destage, one.then_some(ByteCount(KIB))).to_vec();
                self.taken.push((destage, writes));
            }
            Step::End(which, failed) if !self.taken.is_empty() => self.end(which, failed),
            _ => {}
        }
    }

    fn end(&mut self, which: usize, bits: u64) {
        let (destage, writes) = self.taken.swap_remove(which % self.taken.len());
        let stripe = destage.stripe.0 as usize;
        let mut failed: Vec<usize> =
            (0..writes.len()).filter(|index| bits >> (index % 64) & 1 == 1).collect();
        for (index, write) in writes.iter().enumerate().filter(|(_, write)| !write.answered) {
            let comes_after = |older: &usize| {
                let older = &writes[*older];
                older.answered && older.range.overlaps(write.range.align_out(SHAPE.cell))
            };
            if !failed.contains(&index)
                && failed.iter().filter(|older| **older < index).any(comes_after)
            {
                failed.push(index);
            }
        }
        for (index, write) in writes.iter().enumerate() {
            let mut written = sectors(write.range);
            if failed.contains(&index) {
                written.end = written.start + written.len() / 2;
            } else {
                for sector in written.clone() {
                    let promised = &mut self.promised[stripe][sector];
                    *promised = write.held.0.max(*promised);
                }
            }
            self.drives[stripe][written].fill(write.held.0);
        }
        self.lines.end(&destage, &failed);
        self.look_at(destage.stripe.0);
        self.look_at(destage.stripe.0 + 1);
    }

    /// Each byte of a write is settled once. A cache block is freed as a whole, after older data in
    /// it.
    fn settle(&mut self) {
        for Number(number, range) in SETTLED.with_borrow_mut(std::mem::take) {
            for sector in sectors(range) {
                let place = (self.stripes[number as usize].0, sector / 2);
                let kept = self.kept.get_mut(&place).expect("something is kept there");
                let mine =
                    kept.iter_mut().find(|(kept, _)| *kept == number).expect("it is settled once");
                mine.1 = mine.1.checked_sub(1).expect("each byte is settled once");
                while kept.first().is_some_and(|(_, sectors)| *sectors == 0) {
                    kept.remove(0);
                }
            }
        }
    }

    /// A crash restores persistent memory over the drives, newest last.
    fn check_kill(&self) {
        for ((stripe, cell), kept) in &self.kept {
            for sector in 2 * cell..2 * cell + 2 {
                let has = |number: u64| sectors(self.stripes[number as usize].1).contains(&sector);
                let newest =
                    kept.iter().rev().find(|(number, _)| has(*number)).map(|(number, _)| *number);
                let seen = newest.unwrap_or(self.drives[*stripe as usize][sector]);
                let promised = self.promised[*stripe as usize][sector];
                assert!(
                    seen >= promised,
                    "stripe {stripe}, sector {sector}: {seen} of {kept:?}, acknowledged {promised}"
                );
            }
        }
    }

    /// Checks reads and the guarantee of the flush.
    fn check(&mut self) {
        assert_eq!(self.lines.check(), Ok(()));
        self.settle();
        self.check_kill();
        for (stripe, promised) in (0..).zip(&self.promised) {
            let mut seen = self.drives[stripe as usize];
            for (part, write) in self.lines.within(StripeIndex(stripe), kib(0, 256)) {
                seen[sectors(part)].fill(write.held.0);
            }
            let is_old = (0..SECTORS).find(|sector| seen[*sector] < promised[*sector]);
            assert_eq!(is_old, None, "stripe {stripe}: {seen:?}, acknowledged {promised:?}");
        }
        if self.lines.oldest_dirty().is_none_or(|oldest| oldest > self.flush.0) {
            for (drive, certain) in self.drives.iter().zip(&self.flush.1) {
                assert!(
                    (0..SECTORS).all(|sector| drive[sector] >= certain[sector]),
                    "a flush forgot data"
                );
            }
            self.flush = (self.lines.latest(), self.promised.clone());
        }
    }
}

/// A cache block holds two writes; the newer one is destaged, the older one is not, so both are
/// kept. An unacknowledged write over the newer one must wait for both, or a crash would restore
/// the newer one over it.
#[test]
fn nobody_is_told_while_anything_older_is_kept_of_his_cells() {
    let mut used = Used::new();
    let fails = Step::End(0, 1);
    let dirty =
        [Step::Admit(0, kib(4, 4), true), Step::Admit(0, kib(0, 4), true), Step::Choose(false)];
    let waits = [Step::Admit(0, kib(0, 4), false), Step::Take(0, false), fails.clone()];
    for step in dirty.iter().chain(&[Step::Take(0, false), fails]).chain(&waits) {
        used.step(step);
        used.check();
    }
    assert_eq!(used.kept[&(0, 0)], [(1, 1), (2, 0)]);
}

proptest! {
    /// Reads return acknowledged data or newer; a flush completes when its data is on the drives;
    /// in the end all data is on the drives.
    #[test]
    fn what_was_promised_is_read_and_gets_to_the_drives(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut used = Used::new();
        for step in &steps {
            used.step(step);
            used.check();
        }
        let mut rounds = 0;
        while !used.lines.is_empty() {
            rounds += 1;
            prop_assert!(rounds < 1000, "a write waits for ever: {:?}", used.lines);
            for step in [Step::Retry, Step::Choose(false), Step::Take(0, false), Step::End(0, 0)] {
                used.step(&step);
            }
        }
        used.settle();
        prop_assert!(used.kept.values().all(Vec::is_empty), "destaged data is never freed");
        prop_assert_eq!(used.lines.dirty_bytes(), ByteCount::ZERO);
        let behind = used.drives.iter().flatten().zip(used.promised.iter().flatten());
        prop_assert!(behind.clone().all(|(drive, promised)| drive >= promised));
    }
}
