//! What is dirty is read as it was written, gets to the drives in its order, and is not forgotten, whatever fails.

mod common;

use block_cache::{Destage, LineShape, Lines, RequestTag, Sequence, Write};
use common::{KIB, Number, SETTLED, SHAPE, columns, kib, ranges};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

fn admit(lines: &mut Lines<Number>, stripe: u64, range: ByteRange, number: u64, answered: bool) {
    // Nobody is told of a write while anything older is kept of its cells.
    let wide = if answered { range } else { range.align_out(SHAPE.cell) };
    let (columns, request, held) = (columns(wide), RequestTag(number), Number(number, range));
    lines.admit(StripeIndex(stripe), Write { range, columns, request, answered, held });
}

fn begin(lines: &mut Lines<Number>, stripe: u64) -> Option<Destage> {
    lines.begin(StripeIndex(stripe))
}

/// What is begun in this line is taken.
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
    let chosen: Vec<u64> = std::iter::from_fn(|| lines.choose(None)).map(|stripe| stripe.0).collect();
    assert_eq!(chosen, [1, 3, 5], "the elevator ascends");
    assert_eq!(go(&mut lines, 3).1, [(3, kib(0, 8))]);
    assert_eq!(lines.dirty_bytes(), ByteCount(24 * KIB), "until it is there");
}

#[test]
fn the_elevator_goes_on_where_it_was() {
    let mut lines = Lines::new(SHAPE);
    (0..8).for_each(|stripe| admit(&mut lines, stripe, kib(0, 8), stripe, true));
    assert_eq!([lines.choose(None), lines.choose(None)], [Some(StripeIndex(0)), Some(StripeIndex(1))]);
    admit(&mut lines, 0, kib(8, 8), 9, true);
    // Of what is old, that which lies ahead comes first; what is young does not come.
    let old: Vec<u64> =
        std::iter::from_fn(|| lines.choose(Some(Sequence(6)))).map(|stripe| stripe.0).collect();
    assert_eq!(old, [2, 3, 4, 5]);
    let rest: Vec<u64> = std::iter::from_fn(|| lines.choose(None)).map(|stripe| stripe.0).collect();
    assert_eq!(rest, [6, 7, 0]);
}

/// A host wrote beside dirty data that could not be written, and both did not fit one plan: what was pinned was tried alone, failed, and was tried
/// again at once, without end; the host was never answered (`torture --seed 10238 --write-back`).
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

/// A host with one outstanding I/O writes a stream: each line is one full-stripe write. It begins when there is room for it at the
/// drives, and counts for what it puts on them: lines that all began as soon as they were full had hosts' reads wait for a second.
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
    assert_eq!(go(&mut lines, 1).0.strips, 2, "it lies in two strips");
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
    assert_eq!(found(&lines, 0, kib(4, 4)), [(kib(4, 4), 1), (kib(4, 4), 2)], "the newest comes last");
    lines.end(&destage, &[]);
    assert_eq!(lines.dirty_bytes(), ByteCount(8 * KIB));
    assert_eq!(lines.check(), Ok(()));
}

/// A flush was asked for when the older data was there. It must not be answered because newer data has taken its place, which
/// memory alone has.
#[test]
fn newer_data_stands_for_the_older_that_it_lies_over() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 8), 0, true);
    let flush = lines.latest();
    admit(&mut lines, 0, kib(0, 8), 1, true);
    assert!(lines.oldest_dirty() <= Some(flush));
    assert_eq!(lines.choose(Some(flush)), Some(StripeIndex(0)), "it is as old as what it stands for");
    let (destage, _) = go(&mut lines, 0);
    admit(&mut lines, 0, kib(0, 8), 2, true);
    lines.end(&destage, &[]);
    assert!(lines.oldest_dirty() > Some(flush), "what came after it was taken stands for itself");
}

/// A host that waits is destaged with what is dirty beneath it, and does not wait for its age.
#[test]
fn a_write_whose_host_waits_takes_along_what_is_dirty_there() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 8), 0, true);
    admit(&mut lines, 0, kib(32, 8), 1, true);
    admit(&mut lines, 0, kib(4, 8), 2, false);
    assert_eq!(go(&mut lines, 0).1, [(0, kib(0, 8)), (2, kib(4, 8))]);
    assert_eq!(begin(&mut lines, 0), None, "the other one is nobody's business");
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
    assert_eq!((lines.choose(None), begin(&mut lines, 0)), (None, None), "nobody tries it again and again");
    assert_eq!(found(&lines, 0, kib(4, 4)), [(kib(4, 4), 1)]);
    assert_eq!(lines.retry(1), [StripeIndex(0)]);
    let (destage, taken) = go(&mut lines, 0);
    assert_eq!(taken, [(0, kib(0, 4)), (0, kib(8, 8)), (1, kib(4, 4))]);
    lines.end(&destage, &[]);
    assert!(lines.is_empty() && lines.pinned().is_empty());
}

/// A trim has its own line destaged, though that is pinned, and no other.
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
    assert!(!lines.is_line_settled(stripe, up_to), "it is on its way");
    lines.end(&destage, &[0]);
    assert!(lines.is_line_settled(stripe, up_to), "it could not be destaged");
    assert_eq!(begin(&mut lines, 1), None, "nobody tries it again");
    assert!(lines.want_line(stripe) && lines.pinned().is_empty());
    let (destage, _) = go(&mut lines, 1);
    admit(&mut lines, 1, kib(32, 16), 2, true);
    lines.end(&destage, &[]);
    assert!(lines.is_line_settled(stripe, up_to), "what is left came later");
    assert!(!lines.is_line_settled(stripe, lines.latest()));
    assert_eq!((begin(&mut lines, 0), lines.check()), (None, Ok(())), "the other line is left alone");
}

/// A log takes one of two writes at a time. The older cannot be written, so the newer, whose host waits, was never tried: the
/// older was begun again and again for its sake.
#[test]
fn who_waits_behind_what_cannot_be_destaged_is_told() {
    let mut lines = Lines::new(SHAPE);
    admit(&mut lines, 0, kib(0, 16), 0, true);
    admit(&mut lines, 0, kib(32, 8), 1, true);
    admit(&mut lines, 0, kib(64, 16), 2, false);
    admit(&mut lines, 0, kib(96, 4), 3, false);
    let destage = begin(&mut lines, 0).expect("somebody waits");
    assert_eq!(lines.take(&destage, Some(ByteCount(KIB))).len(), 1);
    let behind = lines.end(&destage, &[0]);
    assert_eq!(behind.iter().map(|write| write.held.0).collect::<Vec<_>>(), [2]);
    // The other one has nothing to do with it.
    let (destage, taken) = go(&mut lines, 0);
    assert_eq!(taken, [(1, kib(32, 8)), (3, kib(96, 4))]);
    assert!(lines.end(&destage, &[]).is_empty());
    assert_eq!((begin(&mut lines, 0), lines.check()), (None, Ok(())));
}

/// The older of two writes failed. Were the newer on the drives, and its host told, a kill would lay the older over it: that is still
/// kept.
#[test]
#[should_panic(expected = "failed with it")]
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
    /// Which, and whether one write is the most that it may take.
    Take(usize, bool),
    /// Which of its writes fail, as bits, and whether what fails is half written.
    End(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..4, ranges(), any::<bool>()).prop_map(|(stripe, range, is)| Step::Admit(stripe, range, is)),
        2 => any::<bool>().prop_map(Step::Choose),
        1 => Just(Step::ChooseFull),
        1 => Just(Step::Retry),
        1 => (0u64..4).prop_map(Step::Want),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, one)| Step::Take(which, one)),
        2 => (any::<usize>(), prop_oneof![3 => Just(0), 1 => any::<u64>()]).prop_map(|(which, failed)| Step::End(which, failed)),
    ]
}

const SECTORS: usize = 64;
type Sectors = Vec<[u64; SECTORS]>;

/// Lines over drives that hold, of each sector, the number of the write that wrote it last. Writes are numbered from one.
struct Used {
    lines: Lines<Number>,
    begun: Vec<Destage>,
    taken: Vec<(Destage, Vec<Write<Number>>)>,
    drives: Sectors,
    /// What each sector must be, or something newer that a host wrote: it was told so.
    promised: Sectors,
    /// What memory has that outlives the process, by stripe and cell: writes that were answered, and how many of their sectors
    /// there are not settled.
    kept: BTreeMap<(u64, usize), Vec<(u64, usize)>>,
    /// The stripe of each write, and its bytes.
    stripes: Vec<(u64, ByteRange)>,
    /// A flush: what it makes certain.
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
        Used { lines, begun, taken, drives: none(), promised: none(), kept, stripes, flush, writes: 0 }
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
            Step::Retry => self.lines.retry(1).into_iter().for_each(|stripe| self.look_at(stripe.0)),
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
            if !failed.contains(&index) && failed.iter().filter(|older| **older < index).any(comes_after) {
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

    /// What need not be kept is not kept any more: each byte of a write is settled once. A cell is forgotten as a whole, and after
    /// what is older there.
    fn settle(&mut self) {
        for Number(number, range) in SETTLED.with_borrow_mut(std::mem::take) {
            for sector in sectors(range) {
                let place = (self.stripes[number as usize].0, sector / 2);
                let kept = self.kept.get_mut(&place).expect("something is kept there");
                let mine = kept.iter_mut().find(|(kept, _)| *kept == number).expect("it is settled once");
                mine.1 = mine.1.checked_sub(1).expect("it is settled once");
                while kept.first().is_some_and(|(_, sectors)| *sectors == 0) {
                    kept.remove(0);
                }
            }
        }
    }

    /// What a kill leaves: what is kept is laid over what the drives hold, the newest last.
    fn check_kill(&self) {
        for ((stripe, cell), kept) in &self.kept {
            for sector in 2 * cell..2 * cell + 2 {
                let has = |number: u64| sectors(self.stripes[number as usize].1).contains(&sector);
                let newest = kept.iter().rev().find(|(number, _)| has(*number)).map(|(number, _)| *number);
                let seen = newest.unwrap_or(self.drives[*stripe as usize][sector]);
                let promised = self.promised[*stripe as usize][sector];
                assert!(
                    seen >= promised,
                    "stripe {stripe}, sector {sector}: {seen} of {kept:?}, promised {promised}"
                );
            }
        }
    }

    /// What a read would find, and what a flush has made certain.
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
            assert_eq!(is_old, None, "stripe {stripe}: {seen:?} where {promised:?} was promised");
        }
        if self.lines.oldest_dirty().is_none_or(|oldest| oldest > self.flush.0) {
            for (drive, certain) in self.drives.iter().zip(&self.flush.1) {
                assert!((0..SECTORS).all(|sector| drive[sector] >= certain[sector]), "a flush forgot data");
            }
            self.flush = (self.lines.latest(), self.promised.clone());
        }
    }
}

/// A cell keeps two writes, and the newer is on the drives; the older is not, and so both are kept. A write of the newer's bytes whose
/// host waits comes after both, though it shares no byte with the older: or a kill would lay the newer over it.
#[test]
fn nobody_is_told_while_anything_older_is_kept_of_his_cells() {
    let mut used = Used::new();
    let fails = Step::End(0, 1);
    let dirty = [Step::Admit(0, kib(4, 4), true), Step::Admit(0, kib(0, 4), true), Step::Choose(false)];
    let waits = [Step::Admit(0, kib(0, 4), false), Step::Take(0, false), fails.clone()];
    for step in dirty.iter().chain(&[Step::Take(0, false), fails]).chain(&waits) {
        used.step(step);
        used.check();
    }
    assert_eq!(used.kept[&(0, 0)], [(1, 1), (2, 0)]);
}

proptest! {
    /// Whatever comes, is asked for and fails: what is read is what was promised, or newer; a flush is done when what it covers is
    /// on the drives; and in the end everything is.
    #[test]
    fn what_was_promised_is_read_and_gets_to_the_drives(steps in prop::collection::vec(step(), 1..120)) {
        let mut used = Used::new();
        for step in &steps {
            used.step(step);
            used.check();
        }
        let mut rounds = 0;
        while !used.lines.is_empty() {
            rounds += 1;
            prop_assert!(rounds < 1000, "something waits for ever: {:?}", used.lines);
            for step in [Step::Retry, Step::Choose(false), Step::Take(0, false), Step::End(0, 0)] {
                used.step(&step);
            }
        }
        used.settle();
        prop_assert!(used.kept.values().all(Vec::is_empty), "what is on the drives is kept for ever");
        prop_assert_eq!(used.lines.dirty_bytes(), ByteCount::ZERO);
        let behind = used.drives.iter().flatten().zip(used.promised.iter().flatten());
        prop_assert!(behind.clone().all(|(drive, promised)| drive >= promised));
    }
}
