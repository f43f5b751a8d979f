//! Model of the journal's protocol: every order of its steps, with a crash after each of them.
//!
//! The model is one stripe of two data strips and one or two parity strips, a block or two wide,
//! and two writers. The real code is the [`StripeRing`] and the replay ([`write_log::counting`],
//! [`write_log::patches`]); drives, locks and plans are minimal models: a block is an element of
//! the field of four. A crash is possible after every step. Each block then has any value that its
//! drive was sent since the flush, or the previous one (where all have the latest, it was a kill).
//! A record that was being overwritten is intact or destroyed, and any drives within the fault
//! tolerance may be missing. After the replay, hosts must find an allowed content.
//!
//! Planted defects prove the model: each must be detected.

mod crash;
mod defects;
mod histories;

use defects::Defect;
use units::{ByteCount, StripeIndex};
use write_log::{About, Begun, LogId, NOTICES, StripeRing};

const DATA: usize = 2;
const BLOCK: u64 = write_log::BLOCK.0;
const STRIPE: StripeIndex = StripeIndex(0);
const ID: LogId = LogId([7; 16]);

/// Twice an element of the field of four.
fn double(value: u8) -> u8 {
    [0, 2, 3, 1][usize::from(value)]
}

/// The jobs of a writer, in order.
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
    /// The records or notices that fail: some drives have them, and the host gets an error.
    failures: u8,
    /// The records that fit the ring.
    places: u64,
    /// A plan's writes are sent together, flushes are instantaneous, and copies of a record become
    /// durable in one order. A crash still leaves any subset of the writes that were sent.
    coarse: bool,
    /// The replay is interrupted as well.
    twice: bool,
}

impl Setup {
    fn drives(&self) -> usize {
        DATA + self.parity
    }
}

/// A write to a drive: drive, column, value.
type Cell = (usize, usize, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// Its columns are locked, its plan is made.
    Planned {
        writes: Vec<Cell>,
        kept: Kept,
    },
    /// Its record is under way.
    Waiting {
        writes: Vec<Cell>,
        kept: Kept,
    },
    /// Its writes may begin; the ones that were sent, by bit.
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

/// A record or notice under way: the drives that do not have it yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct UnderWay {
    copy: Copy,
    writers: Vec<usize>,
    to: Vec<usize>,
}

/// A copy of a record on a drive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Copy {
    place: u64,
    begun: Begun,
    changes: Vec<(usize, usize, Option<u8>)>,
}

impl UnderWay {
    fn is_notice(&self) -> bool {
        self.copy.begun.sequence == 0
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Drive {
    /// By column: the last durable value, and the values that were sent since.
    blocks: Vec<Vec<u8>>,
    journal: Vec<Copy>,
}

/// A flush under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Flush {
    /// The drives that it has not reached.
    drives: Vec<usize>,
    /// The settled records and the number of full-stripe writes when it began.
    records_before: u64,
    whole_done: u8,
    /// Whether no full-stripe write has been under way since.
    covers_all: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    drives: Vec<Drive>,
    writers: [Writer; 2],
    ring: StripeRing,
    under_way: Vec<UnderWay>,
    failures: u8,
    flush: Option<Flush>,
    /// By strip and column: the values that hosts may find.
    allowed: Vec<Vec<u8>>,
    /// The index of the last acknowledged value: after a kill no earlier one may be found.
    acknowledged: Vec<usize>,
    /// By strip and column: a full-stripe write without a flush, and without a durable write there
    /// since.
    loose: Vec<bool>,
    /// The full-stripe writes that are done, and those that a flush has covered.
    whole_done: u8,
    whole_flushed: u8,
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
        ring: StripeRing::new(ByteCount(BLOCK * (NOTICES + setup.places))),
        under_way: Vec::new(),
        failures: 0,
        flush: None,
        acknowledged: vec![0; DATA * setup.columns],
        allowed,
        loose: vec![false; DATA * setup.columns],
        whole_done: 0,
        whole_flushed: 0,
    }
}

/// The content of a drive for a stripe with these data.
fn cell_of(drive: usize, data: &[u8; DATA]) -> u8 {
    match drive {
        0 | 1 => data[drive],
        2 => data[0] ^ data[1],
        _ => data[0] ^ double(data[1]),
    }
}

/// The data of a column from the drives' content; `None` where too many are missing.
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
    /// The data that a read returns now.
    fn seen(&self, setup: &Setup, column: usize) -> [u8; DATA] {
        let cells: Vec<Option<u8>> = (0..setup.drives())
            .map(|drive| {
                (setup.missing != Some(drive))
                    .then(|| *self.drives[drive].blocks[column].last().unwrap())
            })
            .collect();
        decode(&cells).expect("no more drives are missing than the level survives")
    }

    /// The columns that a writer has locked.
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
        }
        if whole {
            self.loose.fill(true);
            self.flush.iter_mut().for_each(|flush| flush.covers_all = false);
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

    /// Whether a record may begin: the ring is not locked.
    fn may_begin(&self, setup: &Setup) -> bool {
        let stands = !self.ring.has_failed() || setup.defect == Defect::BegunAfterFailed;
        stands && self.has_turn() && self.ring.place_for(BLOCK).is_some()
    }

    fn has_turn(&self) -> bool {
        !self.under_way.iter().any(UnderWay::is_notice)
    }

    /// The drives that get a record or notice.
    fn drives_for(&self, setup: &Setup, number: u64) -> Vec<usize> {
        let copies = setup.parity + usize::from(setup.defect != Defect::OneCopyTooFew);
        let turn = number as usize * copies;
        let drives = (0..setup.drives()).map(|at| (at + turn) % setup.drives());
        drives.filter(|drive| setup.missing != Some(*drive)).take(copies).collect()
    }

    fn begin_record(&mut self, setup: &Setup, of: &[usize]) {
        let mut changes = Vec::new();
        let mut writers = Vec::new();
        let mut stripes: Vec<About> = Vec::new();
        for index in of.iter().copied() {
            let writer = &self.writers[index];
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
        for index in &writers {
            let Phase::Planned { writes, kept } = self.writers[*index].phase.clone() else {
                continue;
            };
            self.writers[*index].phase = Phase::Waiting { writes, kept };
        }
        let place = self.ring.place_for(BLOCK).expect("the ring has space");
        let mut begun = self.ring.begin(place, BLOCK, &stripes);
        match setup.defect {
            Defect::TailTooHigh => begun.tail = begun.sequence,
            Defect::FirmTooHigh => begun.firm = begun.sequence,
            Defect::FreedEarly => self.ring.noticed(&begun),
            _ => {}
        }
        let to = self.drives_for(setup, begun.sequence);
        self.under_way.push(UnderWay { copy: Copy { place, begun, changes }, writers, to });
    }

    /// One of a record's drives has it.
    fn land_copy(&mut self, setup: &Setup, index: usize, at: usize) {
        let record = &mut self.under_way[index];
        let drive = record.to.remove(at);
        let journal = &mut self.drives[drive].journal;
        journal.retain(|copy| copy.place != record.copy.place);
        journal.push(record.copy.clone());
        let is_durable = record.to.is_empty();
        if is_durable || setup.defect == Defect::WritesBeginEarly {
            let sequence = record.copy.begun.sequence;
            let writers = std::mem::take(&mut record.writers);
            self.let_write(sequence, writers);
        }
        if !is_durable {
            return;
        }
        let record = self.under_way.remove(index);
        match record.is_notice() {
            true => self.ring.noticed(&record.copy.begun),
            false => self.ring.landed(&record.copy.begun),
        }
        if setup.defect == Defect::AnsweredTogether {
            for index in 0..self.under_way.len() {
                let sequence = self.under_way[index].copy.begun.sequence;
                let writers = std::mem::take(&mut self.under_way[index].writers);
                self.let_write(sequence, writers);
            }
        }
    }

    fn let_write(&mut self, sequence: u64, writers: Vec<usize>) {
        for writer in writers {
            let Phase::Waiting { writes, kept } = self.writers[writer].phase.clone() else {
                continue;
            };
            let (record, carries) = (Some(sequence), kept == Kept::All);
            self.writers[writer].phase = Phase::Writing { writes, gone: 0, record, carries };
        }
    }

    /// The remaining drives reject it.
    fn fail_record(&mut self, setup: &Setup, index: usize) {
        let record = self.under_way.remove(index);
        self.failures += 1;
        let begun = record.copy.begun;
        if record.is_notice() {
            if setup.defect == Defect::NoticeElsewhere {
                self.ring.noticed(&Begun { tail: 0, ..begun });
            }
            return;
        }
        for writer in record.writers {
            if setup.defect == Defect::FailedForgotten {
                self.ring.end(begun.sequence);
            }
            self.writers[writer].phase = Phase::Idle;
            self.writers[writer].job += 1;
        }
        if setup.defect != Defect::FailedForgotten {
            self.ring.fail(begun.sequence);
        }
    }

    /// Some of a writer's writes are sent, by bit; after the last the write is acknowledged.
    fn land_writes(&mut self, setup: &Setup, writer: usize, which: u8) {
        let Phase::Writing { writes, gone, record, carries } = &mut self.writers[writer].phase
        else {
            return;
        };
        for (at, (drive, column, value)) in writes.iter().enumerate() {
            if which >> at & 1 == 1 {
                self.drives[*drive].blocks[*column].push(*value);
            }
        }
        // Until then, writes under way may be delayed.
        let is_told = setup.coarse && which == 0;
        *gone |= which;
        if gone.count_ones() as usize != writes.len() || (setup.coarse && !is_told) {
            return;
        }
        let (record, carries) = (*record, *carries);
        if let Some(sequence) = record {
            self.ring.end(sequence);
        }
        // The write is acknowledged. The record makes it durable.
        match setup.jobs[writer][self.writers[writer].job] {
            Job::Block { strip, column, value, durable } => {
                let cell = strip * setup.columns + column;
                let at = self.allowed[cell].iter().rposition(|other| *other == value).unwrap_or(0);
                self.acknowledged[cell] = at;
                if carries && durable {
                    self.allowed[cell].drain(..at);
                    self.acknowledged[cell] = 0;
                    self.loose[cell] = false;
                }
            }
            Job::Whole { .. } => self.whole_done += u8::from(!carries),
        }
        self.writers[writer].phase = Phase::Idle;
        self.writers[writer].job += 1;
    }

    fn needs_flush(&self, setup: &Setup) -> bool {
        let is_waited_for = (0..2).any(|writer| self.waits_for_flush(setup, writer));
        is_waited_for || self.ring.can_retire() || self.settled(setup) > self.ring.settled()
    }

    fn begin_flush(&mut self, setup: &Setup) {
        let drives = (0..setup.drives()).filter(|drive| setup.missing != Some(*drive)).collect();
        let drives = if setup.defect == Defect::RetiredUnflushed { Vec::new() } else { drives };
        let covers_all = !(0..2).any(|writer| self.has_whole_under_way(setup, writer));
        let (records_before, whole_done) = (self.settled(setup), self.whole_done);
        self.flush = Some(Flush { drives, records_before, whole_done, covers_all });
    }

    /// The first record that a flush which begins now does not retire.
    fn settled(&self, setup: &Setup) -> u64 {
        if setup.defect != Defect::RetiredBesideUnderWay {
            return self.ring.settled();
        }
        let writing = self.writers.iter().filter_map(|writer| match writer.phase {
            Phase::Writing { record, .. } => record,
            _ => None,
        });
        writing.min().unwrap_or(self.ring.next())
    }

    fn has_whole_under_way(&self, setup: &Setup, writer: usize) -> bool {
        let Writer { job, phase } = &self.writers[writer];
        *phase != Phase::Idle && matches!(setup.jobs[writer][*job], Job::Whole { .. })
    }

    /// Whether a writer must wait for a flush before its record begins: the record gives a
    /// durability token that relies on a full-stripe write.
    fn waits_for_flush(&self, setup: &Setup, writer: usize) -> bool {
        let Writer { job, phase } = &self.writers[writer];
        self.whole_done > self.whole_flushed
            && matches!(phase, Phase::Planned { kept: Kept::All, .. })
            && matches!(setup.jobs[writer][*job], Job::Block { durable: true, .. })
            && setup.defect != Defect::WholeUnflushed
    }

    fn flush_drives(&mut self, which: impl Fn(usize) -> bool) {
        let Some(flush) = &mut self.flush else { return };
        for drive in flush.drives.extract_if(.., |drive| which(*drive)) {
            for block in &mut self.drives[drive].blocks {
                block.drain(..block.len() - 1);
            }
        }
    }

    fn end_flush(&mut self, setup: &Setup) {
        let Some(flush) = self.flush.take() else { return };
        let (records, whole) = match setup.defect {
            Defect::SettledTooLate => (self.ring.settled(), flush.whole_done),
            Defect::WholeFlushedTooLate => (flush.records_before, self.whole_done),
            _ => (flush.records_before, flush.whole_done),
        };
        self.ring.retire(records);
        self.whole_flushed = self.whole_flushed.max(whole);
        if flush.covers_all {
            self.loose.fill(false);
        }
    }

    /// A notice: a record without content.
    fn announce(&mut self, setup: &Setup) {
        let (place, begun) = self.ring.begin_notice();
        let to = self.drives_for(setup, begun.tail);
        let copy = Copy { place, begun, changes: Vec::new() };
        self.under_way.push(UnderWay { copy, writers: Vec::new(), to });
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
                    let Some(job) = setup.jobs[writer].get(self.writers[writer].job) else {
                        continue;
                    };
                    let free = match job {
                        Job::Block { column, .. } => !other.contains(column),
                        Job::Whole { .. } => other.is_empty(),
                    };
                    // A full-stripe write waits until no host relies on records of the stripe.
                    let waits = matches!(job, Job::Whole { .. })
                        && self.ring.promises(STRIPE)
                        && !matches!(setup.defect, Defect::PromiseRevoked | Defect::NotRevoked);
                    if (free && !waits) || setup.defect == Defect::Unlocked {
                        step(&|state| state.plan(setup, writer));
                    }
                }
                Phase::Planned { .. }
                    if self.may_begin(setup) && !self.waits_for_flush(setup, writer) =>
                {
                    step(&|state| state.begin_record(setup, &[writer]));
                    let with_other = matches!(self.writers[1].phase, Phase::Planned { .. })
                        && !self.waits_for_flush(setup, 1);
                    if writer == 0 && with_other {
                        step(&|state| state.begin_record(setup, &[0, 1]));
                    }
                }
                Phase::Planned { .. } | Phase::Waiting { .. } => {}
                Phase::Writing { writes, gone, .. } => {
                    let all = ((1_u16 << writes.len()) - 1) as u8;
                    if setup.coarse {
                        step(&|state| state.land_writes(setup, writer, all & !gone));
                    }
                    for at in (0..writes.len()).filter(|at| !setup.coarse && gone >> at & 1 == 0) {
                        step(&|state| state.land_writes(setup, writer, 1 << at));
                    }
                }
            }
        }
        for (index, record) in self.under_way.iter().enumerate() {
            if self.failures < setup.failures {
                step(&|state| state.fail_record(setup, index));
            }
            let first = if setup.coarse { 1 } else { record.to.len() };
            for at in 0..first {
                step(&|state| state.land_copy(setup, index, at));
            }
        }
        match &self.flush {
            None if self.needs_flush(setup) => step(&|state| state.begin_flush(setup)),
            None => {}
            Some(flush) if flush.drives.is_empty() => step(&|state| state.end_flush(setup)),
            Some(_) if setup.coarse => step(&|state| state.flush_drives(|_| true)),
            Some(flush) => {
                for drive in flush.drives.iter().copied() {
                    step(&|state| state.flush_drives(|other| other == drive));
                }
            }
        }
        if self.ring.can_announce() && self.has_turn() {
            step(&|state| state.announce(setup));
        }
        next
    }
}
