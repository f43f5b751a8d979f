//! The protocol of the journal, tried in every order in which its steps can happen, with a crash after each of them.
//!
//! The model is one stripe of two data strips and one or two parity strips, a block or two wide, and two writers. What is real are
//! the [`Ring`] and the replay ([`ondisk::journal::replay`]); drives, locks and plans are as small as they can be: a block is an
//! element of the field of four. After every step the machine may die: each block then holds any of the values that its drive was
//! sent since it was flushed, or what was there before (where all hold the last, it was a kill), and any drives may be gone that the level can do without. What
//! the replay leaves must be what hosts may find.
//!
//! That it can fail is shown by planting defects into the protocol: each has to be found.

mod histories;

use super::ring::{About, Ring};
use ondisk::Uuid;
use ondisk::journal::{Change, ChangeKind, Head, Record, replay};
use smallvec::SmallVec;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

const DATA: usize = 2;
const BLOCK: u64 = ondisk::BLOCK.0;
const STRIPE: StripeIndex = StripeIndex(0);
const ID: Uuid = Uuid([7; 16]);

/// Twice an element of the field of four.
fn double(value: u8) -> u8 {
    [0, 2, 3, 1][usize::from(value)]
}

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    None,
    /// A record is on as many drives as may be lost.
    OneCopyTooFew,
    /// Writes begin when the first copy of their record is there.
    WritesBeginEarly,
    /// Records are retired without a flush.
    RetiredUnflushed,
    /// Records are retired that were settled only when the flush ended.
    SettledTooLate,
    /// A record does not carry the last parity strip.
    ParityForgotten,
    /// A record carries redundancy only.
    DataForgotten,
    /// A whole stripe is written without revoking what was said of it.
    NotRevoked,
    /// What hosts rely on is revoked without a flush.
    PromiseRevoked,
    /// One drive's write is not kept although records say something of the stripe.
    SingleNotKept,
    /// Others' columns are not locked, nor one's own.
    Unlocked,
    /// The next record says that the one before it is retired.
    TailTooHigh,
    /// A record that failed is followed by another one although some drive may have it.
    FailedForgotten,
}

/// What a writer does, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Job {
    /// Writes a block of a data strip.
    Block { strip: usize, column: usize, value: u8, durable: bool },
    /// Writes the whole stripe.
    Whole { values: [u8; DATA] },
}

#[derive(Clone, Debug)]
struct Setup {
    parity: usize,
    columns: usize,
    missing: Option<usize>,
    jobs: [Vec<Job>; 2],
    defect: Defect,
    /// One record fails: some drives have it, and a host is told that nothing was written.
    fails: bool,
}

impl Setup {
    fn drives(&self) -> usize {
        DATA + self.parity
    }
}

/// A write to a drive: which, where, what.
type Cell = (usize, usize, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// Its columns are held, its plan is made.
    Planned {
        writes: Vec<Cell>,
        kept: Kept,
    },
    /// It may write; so many writes have gone out, by bit.
    Writing {
        writes: Vec<Cell>,
        gone: u8,
        record: Option<u64>,
        carries: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kept {
    Nothing,
    All,
    Revoked,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Writer {
    job: usize,
    phase: Phase,
}

/// A record under way, or a notice: on which drives it still has to land.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct UnderWay {
    tail: u64,
    sequence: u64,
    changes: Vec<(usize, usize, Option<u8>)>,
    writers: Vec<usize>,
    to: Vec<usize>,
    landed: usize,
}

/// A copy of a record on a drive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Copy {
    sequence: u64,
    tail: u64,
    changes: Vec<(usize, usize, Option<u8>)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Drive {
    /// By column: the last durable value, and those that were sent since.
    blocks: Vec<Vec<u8>>,
    journal: Vec<Copy>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    drives: Vec<Drive>,
    writers: [Writer; 2],
    ring: Ring,
    under_way: Option<UnderWay>,
    failed: bool,
    /// Drives that a flush has still to reach, and what was settled when it began.
    flush: Option<(Vec<usize>, u64, Vec<bool>)>,
    /// By strip and column: what hosts may find.
    allowed: Vec<Vec<u8>>,
    /// Which of these was acknowledged last: nothing before it after a kill.
    acknowledged: Vec<usize>,
    /// By column: a whole stripe was written that is not flushed.
    loose: Vec<bool>,
    /// Those that were done, by column, and can be flushed.
    done_whole: Vec<bool>,
}

fn start(setup: &Setup) -> State {
    let values = [1_u8, 2];
    let mut drives = Vec::new();
    for drive in 0..setup.drives() {
        let block = vec![cell_of(drive, &values)];
        drives.push(Drive { blocks: vec![block; setup.columns], journal: Vec::new() });
    }
    let allowed = (0..DATA * setup.columns).map(|at| vec![values[at / setup.columns]]).collect();
    let writer = || Writer { job: 0, phase: Phase::Idle };
    State {
        drives,
        writers: [writer(), writer()],
        ring: Ring::new(ByteCount(BLOCK * 64)),
        under_way: None,
        failed: false,
        flush: None,
        acknowledged: vec![0; DATA * setup.columns],
        allowed,
        loose: vec![false; setup.columns],
        done_whole: vec![false; setup.columns],
    }
}

/// What a drive holds of a stripe with these data.
fn cell_of(drive: usize, data: &[u8; DATA]) -> u8 {
    match drive {
        0 | 1 => data[drive],
        2 => data[0] ^ data[1],
        _ => data[0] ^ double(data[1]),
    }
}

/// The data of a column by what drives hold; `None` where one is gone.
fn decode(cells: &[Option<u8>]) -> Option<[u8; DATA]> {
    let p = cells[2];
    let q = cells.get(3).copied().flatten();
    Some(match (cells[0], cells[1], p, q) {
        (Some(a), Some(b), ..) => [a, b],
        (None, Some(b), Some(p), _) => [p ^ b, b],
        (None, Some(b), None, Some(q)) => [q ^ double(b), b],
        (Some(a), None, Some(p), _) => [a, p ^ a],
        (Some(a), None, None, Some(q)) => [a, double(double(q ^ a))],
        (None, None, Some(p), Some(q)) => {
            let b = double(p ^ q);
            [p ^ b, b]
        }
        _ => return None,
    })
}

impl State {
    /// What a read finds now.
    fn seen(&self, setup: &Setup, column: usize) -> [u8; DATA] {
        let cells: Vec<Option<u8>> = (0..setup.drives())
            .map(|drive| {
                (setup.missing != Some(drive)).then(|| *self.drives[drive].blocks[column].last().unwrap())
            })
            .collect();
        decode(&cells).expect("no more is missing than the level can do without")
    }

    /// The columns that a writer holds.
    fn holds(&self, setup: &Setup, writer: usize) -> Vec<usize> {
        match (&self.writers[writer].phase, setup.jobs[writer].get(self.writers[writer].job)) {
            (Phase::Idle, _) | (_, None) => Vec::new(),
            (_, Some(Job::Block { column, .. })) => vec![*column],
            (_, Some(Job::Whole { .. })) => (0..setup.columns).collect(),
        }
    }

    fn plan(&mut self, setup: &Setup, writer: usize) {
        let job = setup.jobs[writer][self.writers[writer].job];
        let mut writes: Vec<Cell> = Vec::new();
        let present = |drive: &usize| setup.missing != Some(*drive);
        let whole = matches!(job, Job::Whole { .. }) && setup.missing.is_none();
        let columns: Vec<usize> = match job {
            Job::Block { column, .. } => vec![column],
            Job::Whole { .. } => (0..setup.columns).collect(),
        };
        for column in columns {
            let mut data = self.seen(setup, column);
            let strips: Vec<usize> = match job {
                Job::Block { strip, value, .. } => {
                    data[strip] = value;
                    vec![strip]
                }
                Job::Whole { values } => {
                    data = values;
                    vec![0, 1]
                }
            };
            for strip in &strips {
                self.allowed[strip * setup.columns + column].push(data[*strip]);
            }
            let parity = DATA..setup.drives();
            for drive in strips.into_iter().chain(parity).filter(present) {
                writes.push((drive, column, cell_of(drive, &data)));
            }
            self.loose[column] |= whole;
        }
        let said = self.ring.says(STRIPE);
        let one = writes.iter().all(|write| write.0 == writes[0].0);
        let kept = match (whole, said) {
            (true, true) if setup.defect != Defect::NotRevoked => Kept::Revoked,
            (true, _) => Kept::Nothing,
            (false, false) if one => Kept::Nothing,
            (false, true) if one && setup.defect == Defect::SingleNotKept => Kept::Nothing,
            _ => Kept::All,
        };
        self.writers[writer].phase = match kept {
            Kept::Nothing => Phase::Writing { writes, gone: 0, record: None, carries: false },
            _ => Phase::Planned { writes, kept },
        };
    }

    fn begin_record(&mut self, setup: &Setup) {
        let mut changes = Vec::new();
        let mut writers = Vec::new();
        let mut stripes: Vec<About> = Vec::new();
        for (index, writer) in self.writers.iter().enumerate() {
            let Phase::Planned { writes, kept } = &writer.phase else { continue };
            writers.push(index);
            let durable = matches!(setup.jobs[index][writer.job], Job::Block { durable: true, .. });
            let (revokes, promises) = (*kept == Kept::Revoked, durable && *kept == Kept::All);
            stripes.push(About { stripe: STRIPE, revokes, promises });
            for (drive, column, value) in writes {
                let forgotten = match setup.defect {
                    Defect::ParityForgotten => *drive + 1 == setup.drives(),
                    Defect::DataForgotten => *drive < DATA,
                    _ => false,
                };
                if !forgotten {
                    changes.push((*drive, *column, (*kept == Kept::All).then_some(*value)));
                }
            }
        }
        let place = self.ring.place_for(BLOCK).expect("there is room");
        let (sequence, mut tail) = self.ring.begin(place, BLOCK, &stripes);
        if setup.defect == Defect::TailTooHigh {
            tail = sequence;
        }
        let copies = setup.parity + usize::from(setup.defect != Defect::OneCopyTooFew);
        let turn = sequence as usize * copies;
        let drives = (0..setup.drives()).map(|at| (at + turn) % setup.drives());
        let to = drives.filter(|drive| setup.missing != Some(*drive)).take(copies).collect();
        self.under_way = Some(UnderWay { tail, sequence, changes, writers, to, landed: 0 });
    }

    fn land_copy(&mut self, setup: &Setup, at: usize) {
        let Some(mut record) = self.under_way.take() else { return };
        let drive = record.to.remove(at);
        let UnderWay { sequence, tail, .. } = record;
        self.drives[drive].journal.push(Copy { sequence, tail, changes: record.changes.clone() });
        record.landed += 1;
        let early = setup.defect == Defect::WritesBeginEarly;
        if record.to.is_empty() || early {
            for writer in std::mem::take(&mut record.writers) {
                let Phase::Planned { writes, kept } = self.writers[writer].phase.clone() else { continue };
                let (record, carries) = (Some(sequence), kept == Kept::All);
                self.writers[writer].phase = Phase::Writing { writes, gone: 0, record, carries };
            }
        }
        if record.to.is_empty() {
            self.ring.announced(tail);
        } else {
            self.under_way = Some(record);
        }
    }

    /// The drives that it has not reached refuse it.
    fn fail_record(&mut self, setup: &Setup) {
        let Some(record) = self.under_way.take() else { return };
        self.failed = true;
        for writer in record.writers {
            if setup.defect == Defect::FailedForgotten {
                self.ring.end(record.sequence);
            }
            self.writers[writer].phase = Phase::Idle;
            self.writers[writer].job += 1;
        }
        if setup.defect != Defect::FailedForgotten {
            self.ring.fail(record.sequence);
        }
    }

    fn land_write(&mut self, setup: &Setup, writer: usize, at: usize) {
        let Phase::Writing { writes, gone, record, carries } = &mut self.writers[writer].phase else {
            return;
        };
        let (drive, column, value) = writes[at];
        self.drives[drive].blocks[column].push(value);
        *gone |= 1 << at;
        if gone.count_ones() as usize != writes.len() {
            return;
        }
        let (record, carries) = (*record, *carries);
        if let Some(sequence) = record {
            self.ring.end(sequence);
        }
        // It is acknowledged. What a record carries is durable by that.
        match setup.jobs[writer][self.writers[writer].job] {
            Job::Block { strip, column, value, durable } => {
                let cell = strip * setup.columns + column;
                let at = self.allowed[cell].iter().rposition(|other| *other == value).unwrap_or(0);
                self.acknowledged[cell] = at;
                if carries && durable {
                    self.allowed[cell].drain(..at);
                    self.acknowledged[cell] = 0;
                }
            }
            Job::Whole { .. } => self.done_whole.fill(true),
        }
        self.writers[writer].phase = Phase::Idle;
        self.writers[writer].job += 1;
    }

    fn begin_flush(&mut self, setup: &Setup) {
        let drives = (0..setup.drives()).filter(|drive| setup.missing != Some(*drive)).collect();
        let drives = if setup.defect == Defect::RetiredUnflushed { Vec::new() } else { drives };
        self.flush = Some((drives, self.ring.settled(), self.done_whole.clone()));
    }

    fn flush_drive(&mut self, at: usize) {
        let Some((drives, ..)) = &mut self.flush else { return };
        let drive = drives.remove(at);
        for block in &mut self.drives[drive].blocks {
            block.drain(..block.len() - 1);
        }
    }

    fn end_flush(&mut self, setup: &Setup) {
        let Some((_, settled, whole)) = self.flush.take() else { return };
        let late = setup.defect == Defect::SettledTooLate;
        self.ring.retire(if late { self.ring.settled() } else { settled });
        for (column, flushed) in whole.into_iter().enumerate().filter(|(_, flushed)| *flushed) {
            // Only if no other whole stripe is being written.
            if !self.writers.iter().any(|writer| matches!(writer.phase, Phase::Writing { record: None, .. }))
                && flushed
            {
                self.loose[column] = false;
                self.done_whole[column] = false;
            }
        }
    }

    /// A notice, at once: it is as any record, and carries nothing.
    fn announce(&mut self, setup: &Setup) {
        let (_, tail) = self.ring.begin_notice();
        for drive in (0..setup.drives()).filter(|drive| setup.missing != Some(*drive)).take(setup.parity + 1)
        {
            self.drives[drive].journal.push(Copy { sequence: 0, tail, changes: Vec::new() });
        }
        self.ring.announced(tail);
    }

    /// Every state that one step leads to.
    fn next(&self, setup: &Setup) -> Vec<State> {
        let mut next = Vec::new();
        let mut step = |change: &dyn Fn(&mut State)| {
            let mut state = self.clone();
            change(&mut state);
            next.push(state);
        };
        for writer in 0..2 {
            let other = self.holds(setup, 1 - writer);
            match &self.writers[writer].phase {
                Phase::Idle => {
                    let Some(job) = setup.jobs[writer].get(self.writers[writer].job) else { continue };
                    let free = match job {
                        Job::Block { column, .. } => !other.contains(column),
                        Job::Whole { .. } => other.is_empty(),
                    };
                    // A whole stripe waits until nobody relies on what records say of it.
                    let waits = matches!(job, Job::Whole { .. })
                        && self.ring.promises(STRIPE)
                        && !matches!(setup.defect, Defect::PromiseRevoked | Defect::NotRevoked);
                    if (free && !waits) || setup.defect == Defect::Unlocked {
                        step(&|state| state.plan(setup, writer));
                    }
                }
                Phase::Planned { .. } if self.under_way.is_none() && !self.ring.has_failed() => {
                    step(&|state| state.begin_record(setup))
                }
                Phase::Planned { .. } => {}
                Phase::Writing { writes, gone, .. } => {
                    for at in (0..writes.len()).filter(|at| gone >> at & 1 == 0) {
                        step(&|state| state.land_write(setup, writer, at));
                    }
                }
            }
        }
        if let Some(record) = &self.under_way {
            if setup.fails && !self.failed {
                step(&|state| state.fail_record(setup));
            }
            for at in 0..record.to.len() {
                step(&|state| state.land_copy(setup, at));
            }
        }
        match &self.flush {
            None if self.ring.can_retire() => step(&|state| state.begin_flush(setup)),
            None => {}
            Some((drives, ..)) if drives.is_empty() => step(&|state| state.end_flush(setup)),
            Some((drives, ..)) => {
                for at in 0..drives.len() {
                    step(&|state| state.flush_drive(at));
                }
            }
        }
        if self.ring.can_announce() && self.under_way.is_none() {
            step(&|state| state.announce(setup));
        }
        next
    }

    /// The machine dies now, in every way it can. What is wrong afterwards.
    fn crash(&self, setup: &Setup) -> Option<String> {
        for lost in 0_u32..1 << setup.drives() {
            let missing = setup.missing.map_or(0, |drive| 1 << drive);
            let gone = lost | missing;
            if gone.count_ones() as usize > setup.parity || lost & missing != 0 {
                continue;
            }
            if let Some(wrong) = self.crash_without(setup, gone, lost != 0 || missing != 0) {
                return Some(format!("without drives {gone:b}: {wrong}"));
            }
        }
        None
    }

    fn crash_without(&self, setup: &Setup, gone: u32, degraded: bool) -> Option<String> {
        let here = |drive: usize| gone >> drive & 1 == 0;
        let copies =
            (0..setup.drives()).filter(|drive| here(*drive)).flat_map(|drive| &self.drives[drive].journal);
        let patches = match replay(copies.map(record)) {
            Ok(patches) => patches,
            Err(missing) => return Some(format!("{missing:?}")),
        };
        for column in 0..setup.columns {
            if self.loose[column] && degraded {
                continue; // A whole stripe was being written: nobody else's data is in it.
            }
            let patched = |drive: usize| {
                let at = ByteOffset(column as u64);
                let of =
                    patches.iter().find(|patch| usize::from(patch.slot) == drive && patch.range.start == at);
                of.and_then(|patch| patch.bytes.as_ref().map(|bytes| bytes[0]))
            };
            let choices: SmallVec<[SmallVec<[Option<u8>; 6]>; 4]> = (0..setup.drives())
                .map(|drive| match (here(drive), patched(drive)) {
                    (false, _) => SmallVec::from_iter([None]),
                    (true, Some(value)) => SmallVec::from_iter([Some(value)]),
                    (true, None) => {
                        self.drives[drive].blocks[column].iter().map(|value| Some(*value)).collect()
                    }
                })
                .collect();
            if let Some(wrong) = self.any_wrong(setup, column, &choices) {
                return Some(format!("{wrong}, patches {patches:?}"));
            }
        }
        None
    }

    fn any_wrong(
        &self,
        setup: &Setup,
        column: usize,
        choices: &[SmallVec<[Option<u8>; 6]>],
    ) -> Option<String> {
        let ways: usize = choices.iter().map(|choice| choice.len()).product();
        for way in 0..ways {
            let mut rest = way;
            let cells: SmallVec<[Option<u8>; 4]> = choices
                .iter()
                .map(|choice| {
                    let value = choice[rest % choice.len()];
                    rest /= choice.len();
                    value
                })
                .collect();
            let data = decode(&cells)?;
            for (strip, value) in data.iter().enumerate() {
                let cell = strip * setup.columns + column;
                // The last way is that all that was sent is there: a kill.
                let from = if way + 1 == ways { self.acknowledged[cell] } else { 0 };
                let allowed = &self.allowed[cell][from..];
                if !allowed.contains(value) {
                    return Some(format!(
                        "strip {strip}, column {column} reads {value}, and may read {allowed:?}; drives hold {cells:?}"
                    ));
                }
            }
        }
        None
    }
}

fn record(copy: &Copy) -> Record {
    let range = |column: usize| ByteRange::new(ByteOffset(column as u64), ByteCount(1));
    let kind = |value: Option<u8>| value.map_or(ChangeKind::Revoked, |_| ChangeKind::Bytes);
    let changes = copy.changes.iter().map(|(drive, column, value)| Change {
        slot: *drive as u16,
        kind: kind(*value),
        range: range(*column),
    });
    let body = copy.changes.iter().filter_map(|(.., value)| *value).collect();
    let head = Head { id: ID, ring: 0, sequence: copy.sequence, tail: copy.tail, place: 0 };
    Record { head, changes: changes.collect(), body }
}
