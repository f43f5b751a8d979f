//! The possible steps of a running host computer.

use super::defects::Defect;
use super::{Active, ELSEWHERE, Job, Setup, State, drive::bits};
use write_log::Stage;

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The next job's record begins.
    Log,
    /// A record becomes durable: its index in the log.
    Land(usize),
    /// A plan begins in these columns, by bit, with all waiting data up to that record; its intent
    /// is under way.
    Plan {
        columns: u8,
        upto: u64,
    },
    /// A write of a plan: the index of the plan, and of the write.
    Redundancy(usize, usize),
    Data(usize, usize),
    /// A write is skipped without a record of it.
    Skip(usize, usize),
    BeginFlush,
    EndFlush,
    /// The end of retired records is announced durably.
    Retire,
    BeginWhole,
    Whole(usize),
    DriveFails(usize),
    DriveReturns(usize),
    DeviceFails(usize),
}

impl State {
    /// Every step that is possible now.
    pub(super) fn steps(&self, setup: &Setup) -> Vec<Step> {
        let mut steps = Vec::new();
        match setup.jobs.get(self.job) {
            Some(Job::Log(_)) if self.whole.is_empty() => steps.push(Step::Log),
            Some(Job::Whole(_)) if self.may_write_whole(setup) => steps.push(Step::BeginWhole),
            _ => {}
        }
        let under_way = (0..self.log.len()).filter(|at| !self.log[*at].is_durable);
        steps.extend(under_way.map(Step::Land));
        steps.extend((0..self.whole.len()).map(Step::Whole));
        self.plans(setup, &mut steps);
        for (index, active) in self.active.iter().enumerate() {
            self.writes(setup, index, active, &mut steps);
        }
        let needs_flush = self.ring.can_retire()
            || self.loose.is_some()
            || self.active.iter().any(|active| self.ring.stage(active.number) == Some(Stage::Flush));
        match &self.flush {
            None if needs_flush => steps.push(Step::BeginFlush),
            None => {}
            Some(_) => steps.push(Step::EndFlush),
        }
        let unflushed = setup.defect == Defect::RetiredUnflushed && self.flush.is_none() && self.may_cheat();
        if self.ring.can_announce() || (unflushed && self.ring.can_retire()) {
            steps.push(Step::Retire);
        }
        self.failures(setup, &mut steps);
        steps
    }

    /// Whether records count, or jobs wait, though no record is outside the model's columns.
    pub(super) fn is_stuck(&self, setup: &Setup) -> bool {
        let is_elsewhere =
            |job: &Job| matches!(job, Job::Log(puts) if puts.iter().any(|put| put.column == ELSEWHERE));
        let waits = !self.log.is_empty() || self.job < setup.jobs.len();
        waits && setup.defect == Defect::None && !setup.jobs.iter().any(is_elsewhere)
    }

    /// No plan waits for a flush: the planted defect concerns retirement alone.
    pub(super) fn may_cheat(&self) -> bool {
        self.active.iter().all(|active| self.ring.stage(active.number) != Some(Stage::Flush))
    }

    /// No counting record covers its columns.
    fn may_write_whole(&self, setup: &Setup) -> bool {
        let is_free = self.active.is_empty() && self.dirty.is_empty() && self.loose.is_none();
        let over_records =
            setup.defect == Defect::WholeOverRecords && self.log.iter().all(|entry| entry.is_durable);
        is_free && (self.log.is_empty() || over_records)
    }

    fn plans(&self, setup: &Setup, steps: &mut Vec<Step>) {
        let is_busy = |column: usize| {
            let taken =
                self.active.iter().any(|active| active.notes.iter().any(|note| note.column == column));
            taken && setup.defect != Defect::TwoPlansAtOnce
        };
        if !self.whole.is_empty() {
            return;
        }
        for columns in 1_u8..1 << setup.columns {
            if bits(columns).any(is_busy) {
                continue;
            }
            let here = self.dirty.iter().filter(|(_, put)| columns >> put.column & 1 == 1);
            let mut records: Vec<u64> = here.clone().map(|(record, _)| *record).collect();
            records.sort_unstable();
            records.dedup();
            for upto in records.into_iter().filter(|record| *record < self.ring.firm()) {
                let mut taken = here.clone().filter(|(record, _)| *record <= upto);
                let all = bits(columns).all(|column| taken.clone().any(|(_, put)| put.column == column));
                if all && taken.any(|(record, _)| *record == upto) {
                    steps.push(Step::Plan { columns, upto });
                }
            }
        }
    }

    fn writes(&self, setup: &Setup, index: usize, active: &Active, steps: &mut Vec<Step>) {
        let Some(stage) = self.ring.stage(active.number) else { return };
        let redundancy = match stage {
            Stage::Intent => setup.defect == Defect::RedundancyBeforeIntent,
            Stage::Redundancy => true,
            Stage::Flush => false,
            Stage::Data => active.is_whole,
        };
        let data = match stage {
            Stage::Intent => false,
            Stage::Redundancy => setup.defect == Defect::DataFirst,
            Stage::Flush => matches!(setup.defect, Defect::DataFirst | Defect::RedundancyUnflushed),
            Stage::Data => true,
        };
        if redundancy {
            steps.extend((0..active.redundancy.len()).map(|at| Step::Redundancy(index, at)));
            if setup.defect == Defect::SkippedUnrecorded && !self.skipped {
                steps.extend((0..active.redundancy.len()).map(|at| Step::Skip(index, at)));
            }
        }
        if data {
            steps.extend((0..active.data.len()).map(|at| Step::Data(index, at)));
        }
    }

    fn failures(&self, setup: &Setup, steps: &mut Vec<Step>) {
        let out = self.failed.count_ones() as usize;
        if self.fails > 0 && out < setup.redundancy {
            let here = (0..setup.drives()).filter(|drive| self.failed >> drive & 1 == 0);
            steps.extend(here.map(Step::DriveFails));
        }
        let is_idle = self.active.is_empty() && self.whole.is_empty();
        if self.returns > 0 && is_idle && self.may_return(setup) {
            steps.extend(bits(self.failed).map(Step::DriveReturns));
        }
        if self.device_fails > 0 && self.deaf == 0 {
            steps.extend((0..setup.homes()).map(Step::DeviceFails));
        }
    }

    /// With that drive back, every record is on one drive more than may be lost.
    fn may_return(&self, setup: &Setup) -> bool {
        let left = (setup.redundancy + 1).saturating_sub(self.failed.count_ones() as usize);
        let is_on_enough = |copies: u8| (copies & !self.failed).count_ones() as usize > left;
        let on_members = setup.place == super::LogPlace::Members && setup.defect != Defect::ReturnedThin;
        !on_members || self.log.iter().all(|entry| is_on_enough(entry.copies))
    }
}
