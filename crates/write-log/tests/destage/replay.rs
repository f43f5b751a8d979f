//! The replay of a column, step by step, with a crash after each.

use super::Setup;
use super::crash::{CrashState, FoundRecord, MEMORY, RecordKind, sets};
use super::defects::Defect;
use super::drive::{Cell, bits};
use super::field::{Equation, share, solve};
use super::walk::{Label, Walk};
use smallvec::SmallVec;
use write_log::{Column, Intent, Logged, Source};

/// More records than jobs, plans and a few replays make.
const MOST_RECORDS: usize = 14;

impl CrashState {
    /// The question to the production code.
    fn column(&self, setup: &Setup) -> Column<u8> {
        let mut logged = Vec::new();
        let mut intents = Vec::new();
        for FoundRecord { number, what, .. } in &self.log {
            match what {
                RecordKind::Data(strips) => {
                    logged.extend(strips.iter().map(|(strip, _)| Logged { strip: *strip, record: *number }));
                }
                RecordKind::Intent(intent) => intents.push(intent.clone()),
            }
        }
        if setup.defect == Defect::OnlyPlanned {
            logged.retain(|logged| intents.iter().any(|intent: &Intent<u8>| intent.data.contains(logged)));
        }
        Column::new(logged, intents)
    }

    fn value_of(&self, record: u64, strip: u16) -> u8 {
        let of = self.log.iter().filter(|found| found.number == record).find_map(|found| match &found.what {
            RecordKind::Data(strips) => strips.iter().find(|other| other.0 == strip).map(|other| other.1),
            RecordKind::Intent(_) => None,
        });
        of.expect("logged data are in their record")
    }

    /// The plans of the redundancy strips; `None` for a strip on an offline drive.
    fn plans(&self, setup: &Setup, column: &Column<u8>) -> SmallVec<[Option<Option<usize>>; 2]> {
        let plan_of = |redundancy: usize| {
            let drive = setup.data + redundancy;
            if self.failed >> drive & 1 == 1 {
                return None;
            }
            let sum = self.cells[drive].last;
            let plans = column.live();
            Some(match setup.defect {
                Defect::OldestMatch => plans.iter().position(|intent| intent.sums[redundancy] == sum),
                Defect::Collides => plans.iter().rposition(|intent| intent.sums[redundancy] >> 1 == sum >> 1),
                Defect::NeverMatches => None,
                _ => column.plan_of(redundancy, &sum),
            })
        };
        let mut plans: SmallVec<[Option<Option<usize>>; 2]> = (0..setup.redundancy).map(plan_of).collect();
        if setup.defect == Defect::OneVerdict {
            let oldest = plans.iter().flatten().min().copied();
            plans.iter_mut().flatten().for_each(|plan| *plan = oldest.flatten());
        }
        plans
    }

    fn under(&self, setup: &Setup, column: &Column<u8>, plan: Option<usize>, strip: u16) -> Source {
        let (Defect::OwnDataAlone, Some(plan)) = (setup.defect, plan) else {
            return column.under(plan, strip);
        };
        let own = column.live()[plan].data.iter().find(|data| data.strip == strip);
        own.map_or(Source::Drive, |data| Source::Log(data.record))
    }

    /// The data of the column, and the strips with unknown content, by bit.
    fn read(&self, setup: &Setup, column: &Column<u8>) -> ([u8; 3], u8) {
        let mut data = [0; 3];
        let mut wanted = 0;
        for (strip, value) in data.iter_mut().enumerate().take(setup.data) {
            match column.newest(strip as u16) {
                Source::Log(record) => *value = self.value_of(record, strip as u16),
                Source::Drive if self.failed >> strip & 1 == 1 => wanted |= 1 << strip,
                Source::Drive => *value = self.cells[strip].last,
            }
        }
        if wanted == 0 {
            return (data, 0);
        }
        let mut equations: SmallVec<[Equation; 2]> = SmallVec::new();
        for (redundancy, plan) in self.plans(setup, column).into_iter().enumerate() {
            let Some(plan) = plan else { continue };
            let mut sum = self.cells[setup.data + redundancy].last;
            let mut unknown = 0;
            for strip in 0..setup.data {
                let value = match self.under(setup, column, plan, strip as u16) {
                    Source::Log(record) => self.value_of(record, strip as u16),
                    Source::Drive if self.failed >> strip & 1 == 1 => {
                        unknown |= 1 << strip;
                        continue;
                    }
                    Source::Drive => self.cells[strip].last,
                };
                sum ^= share(redundancy, strip, value);
            }
            equations.push(Equation { redundancy, unknown, sum });
        }
        let lost: SmallVec<[usize; 3]> =
            (0..setup.data).filter(|strip| self.failed >> strip & 1 == 1).collect();
        let Some(solved) = solve(&equations, &lost, wanted) else { return (data, wanted) };
        bits(wanted).for_each(|strip| data[strip] = solved[strip]);
        (data, 0)
    }

    /// Compares the data that hosts would read with the allowed values.
    fn wrong(&self, setup: &Setup, data: [u8; 3], untold: u8) -> Option<String> {
        let is_known = |strip: &usize| self.failed == 0 || self.loose >> strip & 1 == 0;
        let may = |strip: usize| untold >> strip & 1 == 0 && self.now[strip] >> data[strip] & 1 == 1;
        let strip = (0..setup.data).filter(is_known).find(|strip| !may(*strip))?;
        let (reads, may): (u8, Vec<usize>) = (data[strip], bits(self.now[strip]).collect());
        Some(format!("strip {strip} reads {reads} (unknown: {untold:b}), and may read {may:?}"))
    }

    /// Replays, with a crash after every step. Returns a wrong read.
    pub(super) fn replay(mut self, setup: &Setup, walk: &mut Walk) -> Option<String> {
        let column = self.column(setup);
        // Unknown strips of a full-stripe write without a record become zero.
        let (data, untold) = self.read(setup, &column);
        if let Some(wrong) = self.wrong(setup, data, untold) {
            return Some(wrong);
        }
        if self.log.len() > MOST_RECORDS {
            return Some("replays fill the log with their intents".to_owned());
        }
        if column.is_settled() {
            return None;
        }
        if setup.defect != Defect::ReplayThin {
            self.complete(setup, walk);
        }
        let sums = setup.redundancy_drives().map(|drive| setup.cell_of(drive, &data)).collect();
        self.say(setup, &column, sums, walk);
        let redundancy: Vec<(usize, u8)> =
            setup.redundancy_drives().map(|drive| (drive, setup.cell_of(drive, &data))).collect();
        self.write(setup, redundancy, walk, "redundancy is written");
        let logged = (0..setup.data).filter(|strip| column.newest(*strip as u16) != Source::Drive);
        let logged: Vec<(usize, u8)> = logged.map(|strip| (strip, data[strip])).collect();
        if setup.defect != Defect::ReplayUnflushed {
            self.flush(setup);
        }
        self.write(setup, logged, walk, "data is written");
        if setup.defect != Defect::ReplayRetiresUnflushed {
            self.flush(setup);
        }
        while !self.log.is_empty() {
            self.log.remove(0);
            self.crash(setup, walk, Label::Replay("a record is retired", self.log.len()));
        }
        None
    }

    /// Gives every record its full number of copies, before any other step relies on it.
    fn complete(&mut self, setup: &Setup, walk: &mut Walk) {
        for at in 0..self.log.len() {
            let copies = self.homes(setup, self.log[at].copies);
            if copies != self.log[at].copies {
                self.log[at].copies = copies;
                self.crash(setup, walk, Label::Replay("a record has its copies", at));
            }
        }
    }

    fn homes(&self, setup: &Setup, mut copies: u8) -> u8 {
        let (out, most) = match setup.place {
            super::LogPlace::Members => (self.failed, setup.redundancy + 1),
            super::LogPlace::Devices => (self.fenced, 2),
        };
        for home in (0..setup.homes()).filter(|home| out >> home & 1 == 0) {
            if ((copies & !MEMORY).count_ones() as usize) < most {
                copies |= 1 << home;
            }
        }
        copies
    }

    /// Logs the replay's own intent.
    fn say(&mut self, setup: &Setup, column: &Column<u8>, sums: SmallVec<[u8; 2]>, walk: &mut Walk) {
        let Some(intent) = column.replay(sums) else { return };
        if setup.defect == Defect::ReplayWithoutIntent {
            return;
        }
        let number = self.log.last().map_or(1, |last| last.number + 1);
        let all = self.homes(setup, 0);
        // First one copy, then all of them.
        for copies in [all & all.wrapping_neg(), all] {
            self.log.retain(|found| found.number != number);
            self.log.push(FoundRecord { number, copies, what: RecordKind::Intent(intent.clone()) });
            self.crash(setup, walk, Label::Replay("its intent is logged", usize::from(copies)));
        }
    }

    /// Does any subset of these writes, and then all of them.
    fn write(&mut self, setup: &Setup, mut writes: Vec<(usize, u8)>, walk: &mut Walk, what: &'static str) {
        writes.retain(|(drive, _)| self.failed >> drive & 1 == 0);
        if setup.defect == Defect::ReplaySkipsEqual {
            writes.retain(|(drive, value)| self.cells[*drive].last != *value);
        }
        for part in 0_usize..1 << writes.len() {
            let mut left = self.clone();
            for (at, (drive, value)) in writes.iter().enumerate() {
                if part >> at & 1 == 1 {
                    left.cells[*drive].write(*value);
                }
            }
            left.crash(setup, walk, Label::Replay(what, part));
        }
        for (drive, value) in writes {
            self.cells[drive].write(value);
            if setup.defect == Defect::ReplaySkipsEqual {
                self.cells[drive].flush();
            }
        }
    }

    fn flush(&mut self, setup: &Setup) {
        if setup.defect != Defect::ReplaySkipsEqual {
            self.cells.iter_mut().for_each(Cell::flush);
        }
    }

    /// Simulates another crash.
    fn crash(&self, setup: &Setup, walk: &mut Walk, label: Label) {
        for lost in sets(setup, self.failed) {
            for is_cut in [false, true] {
                let mut left = self.clone();
                left.failed = lost;
                bits(lost).for_each(|drive| left.cells[drive] = Cell::of(0));
                let is_kept = |found: &mut FoundRecord| {
                    if setup.place == super::LogPlace::Members {
                        found.copies &= !lost;
                    }
                    if is_cut {
                        found.copies &= !MEMORY;
                    }
                    found.copies != 0
                };
                left.log.retain_mut(is_kept);
                if is_cut {
                    left.now = left.cut;
                }
                if left.is_served {
                    walk.crashed(left.with_write(setup), is_cut, label);
                }
                walk.crashed(left, is_cut, label);
            }
        }
    }

    /// A host has written during the replay, and the record is durable.
    fn with_write(&self, setup: &Setup) -> CrashState {
        let mut left = self.clone();
        let number = left.log.last().map_or(1, |last| last.number + 1);
        let copies = left.homes(setup, 0);
        left.log.push(FoundRecord { number, copies, what: RecordKind::Data(SmallVec::from_iter([(1, 3)])) });
        (left.now[1], left.cut[1], left.is_served) = (1 << 3, 1 << 3, false);
        left
    }
}
