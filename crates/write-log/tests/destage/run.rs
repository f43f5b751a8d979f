//! The steps of a running host computer.

use super::defects::Defect;
use super::drive::Cell;
use super::steps::Step;
use super::{
    Active, AllowedValues, BLOCK, Content, Entry, Flush, Job, LogPlace, PlanPart, STRIPS, Setup, State,
    StripWrite, Write,
};
use smallvec::SmallVec;
use write_log::{Begun, Logged, NOTICES, Stage};

/// The ring's places do not matter here: none is reused.
const AT: u64 = NOTICES * BLOCK;

impl State {
    pub(super) fn take(&mut self, setup: &Setup, step: Step) {
        match step {
            Step::Log => self.log_data(setup),
            Step::Land(at) => self.land(setup, at),
            Step::Plan { columns, upto } => self.plan(setup, columns, upto),
            Step::Redundancy(plan, at) => {
                let write = self.active[plan].redundancy.remove(at);
                self.write(setup, write);
            }
            Step::Data(plan, at) => {
                let write = self.active[plan].data.remove(at);
                self.write(setup, write);
            }
            Step::Skip(plan, at) => {
                self.active[plan].redundancy.remove(at);
                self.skipped = true;
            }
            Step::BeginFlush => self.begin_flush(),
            Step::EndFlush => self.end_flush(setup),
            Step::Retire => self.retire(setup),
            Step::BeginWhole => self.begin_whole(setup),
            Step::Whole(at) => {
                let Write { drive, column, value } = self.whole.remove(at);
                self.put(drive, column, value);
            }
            Step::DriveFails(drive) => self.fail(setup, drive),
            Step::DriveReturns(drive) => self.come_back(setup, drive),
            Step::DeviceFails(device) => self.fail_device(setup, device),
        }
        self.settle(setup);
    }

    /// Ends the steps that need no further waiting.
    fn settle(&mut self, setup: &Setup) {
        for active in &self.active {
            if self.ring.stage(active.number) == Some(Stage::Redundancy) && active.redundancy.is_empty() {
                self.ring.redundancy_written(active.number);
            }
        }
        let ring = &mut self.ring;
        self.active.retain(|active| {
            let is_done = active.redundancy.is_empty() && active.data.is_empty();
            let ends = is_done && ring.stage(active.number) == Some(Stage::Data);
            if ends {
                ring.end_plan(active.number);
            }
            !ends
        });
        let counts_from = self.ring.counts_from();
        let gone = |entry: &Entry| entry.begun.sequence < counts_from;
        let kept = match setup.defect {
            Defect::RetiredOutOfOrder if self.log.iter().filter(|entry| gone(entry)).count() > 1 => {
                self.log.first().map(|entry| entry.begun.sequence)
            }
            _ => None,
        };
        self.log.retain(|entry| !gone(entry) || Some(entry.begun.sequence) == kept);
    }

    fn put(&mut self, drive: usize, column: usize, value: u8) {
        self.cells[column][drive].write(value);
        if let Some(flush) = &mut self.flush {
            flush.then[column][drive] |= 1 << value;
        }
    }

    fn write(&mut self, setup: &Setup, Write { drive, column, value }: Write) {
        if setup.defect == Defect::WholeUnflushed {
            self.wrote |= 1 << drive;
        }
        self.put(drive, column, value);
    }

    /// The places of a record of that number.
    fn homes_for(&self, setup: &Setup, number: u64) -> u8 {
        let most = match setup.place {
            LogPlace::Members => setup.redundancy + usize::from(setup.defect != Defect::OneCopyTooFew),
            LogPlace::Devices => 2,
        };
        let turn = number as usize * most;
        let homes = (0..setup.homes()).map(|at| (at + turn) % setup.homes());
        let homes = homes.filter(|home| self.deaf >> home & 1 == 0).take(most);
        homes.fold(0, |set, home| set | 1 << home)
    }

    fn log(&mut self, setup: &Setup, begun: Begun, content: Content) {
        let copies = self.homes_for(setup, begun.sequence);
        self.log.push(Entry { begun, copies, is_durable: false, content });
    }

    fn log_data(&mut self, setup: &Setup) {
        let Some(Job::Log(puts)) = setup.jobs.get(self.job) else { return };
        self.job += 1;
        let begun = self.ring.begin_data(AT, BLOCK, puts.len());
        self.log(setup, begun, Content::Data(puts.as_slice().into()));
        match setup.defect {
            Defect::PlannedFromMemory => {
                self.ring.landed(&begun);
                puts.iter().for_each(|put| self.add_dirty(begun.sequence, *put));
            }
            Defect::SupersededTooEarly => puts.iter().for_each(|put| self.supersede(begun.sequence, *put)),
            _ => {}
        }
    }

    /// Drops older data that wait for a plan.
    fn supersede(&mut self, record: u64, put: StripWrite) {
        let ring = &mut self.ring;
        self.dirty.retain(|(older, other)| {
            let is_under = *older < record && (other.column, other.strip) == (put.column, put.strip);
            if is_under {
                ring.superseded(*older);
            }
            !is_under
        });
    }

    fn add_dirty(&mut self, record: u64, put: StripWrite) {
        self.supersede(record, put);
        self.dirty.push((record, put));
        self.dirty.sort_by_key(|(record, put)| (*record, put.column, put.strip));
    }

    fn land(&mut self, setup: &Setup, at: usize) {
        let entry = &mut self.log[at];
        entry.is_durable = true;
        let (begun, content) = (entry.begun, entry.content.clone());
        self.ring.landed(&begun);
        let Content::Data(puts) = content else { return };
        for put in puts {
            if put.column >= setup.columns {
                continue;
            }
            let sure = &mut self.sure[put.column][put.strip];
            if sure.by > begun.sequence {
                self.ring.superseded(begun.sequence);
                continue;
            }
            *sure = AllowedValues { values: 1 << put.value, by: begun.sequence };
            match setup.defect {
                Defect::PlannedFromMemory => continue,
                Defect::SupersededWhileUsed => self.forget_used(begun.sequence, put),
                _ => {}
            }
            self.add_dirty(begun.sequence, put);
        }
    }

    /// Planted defect: drops data that a plan uses.
    fn forget_used(&mut self, record: u64, put: StripWrite) {
        for entry in self.log.iter_mut().filter(|entry| entry.begun.sequence < record) {
            if let Content::Data(puts) = &mut entry.content {
                puts.retain(|other| (other.column, other.strip) != (put.column, put.strip));
            }
        }
    }

    fn plan(&mut self, setup: &Setup, columns: u8, upto: u64) {
        let taken: Vec<(u64, StripWrite)> = self
            .dirty
            .extract_if(.., |(record, put)| *record <= upto && columns >> put.column & 1 == 1)
            .collect();
        let mut notes: SmallVec<[PlanPart; 2]> = SmallVec::new();
        let (mut redundancy, mut data) = (SmallVec::new(), SmallVec::new());
        for column in super::drive::bits(columns) {
            let here = || taken.iter().filter(move |(_, put)| put.column == column);
            for (_, put) in here() {
                self.truth[column][put.strip] = put.value;
                data.push(Write { drive: put.strip, column, value: put.value });
            }
            let cell_of = |drive| setup.cell_of(drive, &self.truth[column]);
            let writes =
                setup.redundancy_drives().map(|drive| Write { drive, column, value: cell_of(drive) });
            redundancy.extend(writes);
            let data = here().map(|(record, put)| Logged { strip: put.strip as u16, record: *record });
            let sums = setup.redundancy_drives().map(cell_of).collect();
            notes.push(PlanPart { column, data: data.collect(), sums });
        }
        let is_whole = notes.iter().all(|note| note.data.len() == setup.data);
        let records: Vec<u64> = taken.iter().map(|(record, _)| *record).collect();
        let number = self.ring.begin_plan(&records, is_whole);
        if !is_whole {
            let begun = self.ring.begin_intent(number, AT, BLOCK);
            self.log(setup, begun, Content::Intent(notes.clone()));
        }
        let is_here = |write: &mut Write| self.failed >> write.drive & 1 == 0;
        redundancy.retain(is_here);
        data.retain(is_here);
        self.active.push(Active { number, is_whole, notes, redundancy, data });
    }

    fn begin_flush(&mut self) {
        let then = self.cells.map(|cells| cells.map(|cell| 1 << cell.last));
        let covers_whole = self.loose.is_some() && self.whole.is_empty();
        self.flush = Some(Flush { begun: self.ring.begin_flush(), then, covers_whole });
    }

    fn end_flush(&mut self, setup: &Setup) {
        let Some(Flush { begun, then, covers_whole }) = self.flush.take() else { return };
        let is_reached = |drive: usize| match setup.defect {
            Defect::DataDrivesUnflushed => drive >= setup.data || !self.may_cheat(),
            Defect::RedundancyDrivesUnflushed => drive < setup.data || !self.may_cheat(),
            Defect::WholeUnflushed => self.wrote >> drive & 1 == 1,
            _ => true,
        };
        let reached: Vec<usize> = (0..setup.drives()).filter(|drive| is_reached(*drive)).collect();
        for drive in reached {
            for (cells, then) in self.cells.iter_mut().zip(&then).take(setup.columns) {
                cells[drive].may = then[drive];
            }
        }
        let begun = match setup.defect {
            Defect::RetiredTooLate => self.ring.begin_flush(),
            _ => begun,
        };
        self.ring.end_flush(begun);
        let is_partial = matches!(
            setup.defect,
            Defect::WholeUnflushed | Defect::DataDrivesUnflushed | Defect::RedundancyDrivesUnflushed
        );
        if covers_whole && !is_partial {
            self.sure_of_whole(setup);
        }
    }

    /// Marks a full-stripe write as durable.
    fn sure_of_whole(&mut self, setup: &Setup) {
        let whole = setup.jobs[..self.job].iter().rev().find_map(|job| match job {
            Job::Whole(values) => Some(*values),
            Job::Log(_) => None,
        });
        let (Some(values), Some(by)) = (whole, self.loose.take()) else { return };
        for (sure, value) in self.sure[0].iter_mut().zip(values) {
            if sure.by == by {
                sure.values = 1 << value;
            }
        }
    }

    fn retire(&mut self, setup: &Setup) {
        if setup.defect == Defect::RetiredUnflushed && !self.ring.can_announce() {
            let begun = self.ring.begin_flush();
            self.ring.end_flush(begun);
        }
        let (_, begun) = self.ring.begin_notice();
        self.ring.noticed(&begun);
    }

    fn begin_whole(&mut self, setup: &Setup) {
        let Some(Job::Whole(values)) = setup.jobs.get(self.job) else { return };
        self.job += 1;
        let by = self.ring.next() - 1;
        self.truth[0] = *values;
        self.loose = Some(by);
        for (sure, value) in self.sure[0].iter_mut().zip(values).take(STRIPS) {
            *sure = AllowedValues { values: sure.values | 1 << value, by };
        }
        let here = (0..setup.drives()).filter(|drive| self.failed >> drive & 1 == 0);
        self.whole =
            here.map(|drive| Write { drive, column: 0, value: setup.cell_of(drive, values) }).collect();
    }

    fn fail(&mut self, setup: &Setup, drive: usize) {
        self.fails -= 1;
        self.failed |= 1 << drive;
        for cells in &mut self.cells {
            if setup.defect != Defect::ReturnedBelieved {
                cells[drive] = Cell::of(0);
            }
        }
        if let Some(flush) = &mut self.flush {
            flush.then.iter_mut().zip(&self.cells).for_each(|(then, cells)| then[drive] = cells[drive].may);
        }
        for active in &mut self.active {
            active.redundancy.retain(|write| write.drive != drive);
            active.data.retain(|write| write.drive != drive);
        }
        self.whole.retain(|write| write.drive != drive);
        if setup.place != LogPlace::Members {
            return;
        }
        self.deaf = self.failed;
        for at in 0..self.log.len() {
            if setup.defect != Defect::ReturnedBelieved || !self.log[at].is_durable {
                self.log[at].copies &= !(1 << drive);
            }
            if self.log[at].copies == 0 && !self.log[at].is_durable {
                self.log[at].copies = self.homes_for(setup, self.log[at].begun.sequence);
            }
        }
    }

    fn come_back(&mut self, setup: &Setup, drive: usize) {
        self.returns -= 1;
        self.failed &= !(1 << drive);
        if setup.place == LogPlace::Members {
            self.deaf = self.failed;
        }
        for column in 0..setup.columns {
            let mut cell = Cell::of(setup.cell_of(drive, &self.truth[column]));
            if setup.defect == Defect::ReturnedUnflushed {
                cell.may = 0xf;
            }
            self.cells[column][drive] = cell;
            if let Some(flush) = &mut self.flush {
                flush.then[column][drive] = cell.may;
            }
        }
    }

    fn fail_device(&mut self, setup: &Setup, device: usize) {
        self.device_fails -= 1;
        self.deaf |= 1 << device;
        if setup.defect != Defect::DeviceUnfenced {
            self.fenced |= 1 << device;
        }
        for entry in self.log.iter_mut().filter(|entry| !entry.is_durable) {
            entry.copies &= !(1 << device);
        }
    }
}
