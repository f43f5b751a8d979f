//! The order of a destage that writes redundancy first: the next step of each plan, and the records
//! that must still exist.
//!
//! It uses a [`Ring`] of *data* records, with writes of hosts, and *intents* ([`crate::Intent`]).
//! The destage calls this module before each step, and reports each completed one. After a crash,
//! [`crate::Column`] evaluates the records.
//!
//! # Invariants
//! - A plan takes data records that are durable. Its intent is durable before it writes redundancy.
//! - It writes data after a successful flush that began after its redundancy was written.
//! - Its records count until a flush of every drive that it wrote to, begun after all its writes.
//!   Newer logged data of the same bytes do not shorten this.
//! - Records stop to count in the order of the log. So the remaining records count as if no earlier
//!   ones had existed.
//!
//! The caller ensures the rest. A column has one plan at a time. A write that failed, or that goes
//! to an offline drive, is reported as done only after that drive is durably recorded as failed. A
//! full-stripe write without a record waits until no counting record covers its columns, and the
//! next plan there waits for its flush. A returning drive is current when every counting record
//! again has one copy more than the number of drives that may be lost.

use crate::ring::{Begun, Ring};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Deref;
use units::ByteCount;

/// The next step of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Write its intent to the log.
    Intent,
    /// Write its redundancy.
    Redundancy,
    /// Wait for a flush.
    Flush,
    /// Write its data; for a full-stripe write, everything, in any order.
    Data,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Plan {
    /// The data records, once for each extent in the plan.
    records: SmallVec<[u64; 4]>,
    intent: Option<u64>,
    stage: Stage,
}

/// A flush of all drives that has begun, with the records and plans that it covers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlushBegun {
    settled: u64,
    plans: SmallVec<[u64; 4]>,
}

/// A shard's ring of records of dirty data, and the plans that destage it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Destages {
    ring: Ring,
    next: u64,
    plans: BTreeMap<u64, Plan>,
}

impl Deref for Destages {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        &self.ring
    }
}

impl Destages {
    /// A ring without dirty data.
    pub fn new(len: ByteCount) -> Destages {
        Destages { ring: Ring::new(len), next: 1, plans: BTreeMap::new() }
    }

    /// Begins a data record with `extents` extents: each is later taken by one plan, or superseded.
    pub fn begin_data(&mut self, place: u64, len: u64, extents: usize) -> Begun {
        self.ring.begin(place, len, extents)
    }

    /// Reports a record as durable on the required number of drives.
    pub fn landed(&mut self, begun: &Begun) {
        self.ring.landed(begun);
        let mut plans = self.plans.values_mut();
        if let Some(plan) = plans.find(|plan| plan.intent == Some(begun.sequence)) {
            plan.stage = Stage::Redundancy;
        }
    }

    /// Reports that durable newer data supersede an extent which no plan has taken.
    pub fn superseded(&mut self, record: u64) {
        self.ring.end(record);
    }

    /// Begins a plan for these extents, given by their records. `whole`: they include all data of
    /// the stripe, so it needs no intent. Returns its number.
    ///
    /// # Panics
    /// When a record is not durable: a crash could remove data that explain the plan's redundancy.
    pub fn begin_plan(&mut self, records: &[u64], whole: bool) -> u64 {
        assert!(records.iter().all(|record| *record < self.ring.firm()), "record not durable");
        let number = self.next;
        self.next += 1;
        let stage = if whole { Stage::Data } else { Stage::Intent };
        self.plans.insert(number, Plan { records: records.into(), intent: None, stage });
        number
    }

    /// Begins the intent of a plan.
    pub fn begin_intent(&mut self, plan: u64, place: u64, len: u64) -> Begun {
        let begun = self.ring.begin(place, len, 1);
        let plan = self.plan_mut(plan, Stage::Intent);
        plan.intent = Some(begun.sequence);
        begun
    }

    /// Reports that a plan's redundancy is written, or that the drives without it are recorded as
    /// failed.
    pub fn redundancy_written(&mut self, plan: u64) {
        self.plan_mut(plan, Stage::Redundancy).stage = Stage::Flush;
    }

    /// Reports that all of a plan is written, or that the drives without it are recorded as failed.
    /// Its columns are free.
    pub fn end_plan(&mut self, plan: u64) {
        self.plan_mut(plan, Stage::Data);
        if let Some(Plan { records, intent, .. }) = self.plans.remove(&plan) {
            records.into_iter().chain(intent).for_each(|record| self.ring.end(record));
        }
    }

    /// Begins a flush of all drives.
    pub fn begin_flush(&self) -> FlushBegun {
        let waiting = self.plans.iter().filter(|(_, plan)| plan.stage == Stage::Flush);
        FlushBegun { settled: self.ring.settled(), plans: waiting.map(|(number, _)| *number).collect() }
    }

    /// Reports that all drives have been flushed, or are recorded as failed.
    pub fn end_flush(&mut self, begun: FlushBegun) {
        self.ring.retire(begun.settled);
        for number in begun.plans {
            self.plan_mut(number, Stage::Flush).stage = Stage::Data;
        }
    }

    /// Reports a notice as durable: see [`Ring::noticed`].
    pub fn noticed(&mut self, begun: &Begun) {
        self.ring.noticed(begun);
    }

    /// The next step of a plan; `None` when it has ended.
    pub fn stage(&self, plan: u64) -> Option<Stage> {
        self.plans.get(&plan).map(|plan| plan.stage)
    }

    fn plan_mut(&mut self, number: u64, stage: Stage) -> &mut Plan {
        let plan = self.plans.get_mut(&number);
        let plan = plan.unwrap_or_else(|| panic!("plan {number} has ended"));
        assert!(plan.stage == stage, "plan {number} is at {:?}, not at {stage:?}", plan.stage);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BLOCK, NOTICES};

    const AT: u64 = NOTICES * BLOCK.0;

    /// A ring with a durable data record of one extent.
    fn with_data() -> (Destages, u64) {
        let mut ring = Destages::new(Ring::LEAST);
        let begun = ring.begin_data(AT, BLOCK.0, 1);
        ring.landed(&begun);
        (ring, begun.sequence)
    }

    #[test]
    fn a_plan_goes_from_its_intent_to_its_data_by_way_of_a_flush() {
        let (mut ring, data) = with_data();
        let plan = ring.begin_plan(&[data], false);
        let intent = ring.begin_intent(plan, AT + BLOCK.0, BLOCK.0);
        assert_eq!(ring.stage(plan), Some(Stage::Intent));
        ring.landed(&intent);
        assert_eq!(ring.stage(plan), Some(Stage::Redundancy));
        let too_early = ring.begin_flush();
        ring.redundancy_written(plan);
        ring.end_flush(too_early);
        assert_eq!(ring.stage(plan), Some(Stage::Flush), "it began before redundancy was written");
        let flush = ring.begin_flush();
        ring.end_flush(flush);
        assert_eq!(ring.stage(plan), Some(Stage::Data));
        ring.end_plan(plan);
        assert_eq!((ring.stage(plan), ring.can_retire(), ring.can_announce()), (None, true, false));
        let flush = ring.begin_flush();
        ring.end_flush(flush);
        assert!(ring.can_announce() && ring.settled() == ring.next(), "both records are retired");
    }

    #[test]
    fn newer_data_does_not_end_what_a_plan_has_taken() {
        let (mut ring, older) = with_data();
        let plan = ring.begin_plan(&[older], false);
        let newer = ring.begin_data(AT + BLOCK.0, BLOCK.0, 1);
        ring.landed(&newer);
        assert_eq!(ring.settled(), older, "the plan goes on");
        assert_eq!(ring.stage(plan), Some(Stage::Intent));
    }

    #[test]
    #[should_panic(expected = "record not durable")]
    fn a_plan_does_not_take_what_memory_alone_has() {
        let mut ring = Destages::new(Ring::LEAST);
        let begun = ring.begin_data(AT, BLOCK.0, 1);
        ring.begin_plan(&[begun.sequence], false);
    }
}
