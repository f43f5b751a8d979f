//! The order of a destage that writes redundancy first: what each plan may do next, and which records still have to be there.
//!
//! A [`Ring`] whose records are *data*, what hosts wrote, and *intents* ([`crate::Intent`]). Whoever destages asks here before each
//! step, and reports each that is done. What a crash leaves of it is read by [`crate::Column`].
//!
//! # Invariants
//! - A plan takes data records that are durable. Its intent is durable before any of its redundancy is written.
//! - Its data is written after a flush that began when its redundancy had been written, and that has succeeded.
//! - Its records count until a flush that began when all its writes had been done, of every drive written, and no shorter because
//!   newer data is logged over them.
//! - Records stop to count in the order of the log. So what is left counts as if nothing before it had ever been.
//!
//! Whoever calls sees to the rest: columns have one plan at a time; a write that failed, or that a drive which is out does not get,
//! is reported as done when that drive is durably recorded as failed, not before; a stripe that is written whole and not logged
//! waits until nothing that counts is about its columns, and the next plan there until it is flushed; and a drive that comes back is
//! current when every record that counts is on as many drives again as may be lost, and one more.

use crate::ring::{Begun, Ring};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Deref;
use units::ByteCount;

/// What a plan may do now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Have its intent logged.
    Intent,
    /// Write redundancy.
    Redundancy,
    /// Wait for a flush.
    Flush,
    /// Write data; of a whole stripe everything, in any order.
    Data,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Plan {
    /// The data records, once for each extent that it takes of them.
    records: SmallVec<[u64; 4]>,
    intent: Option<u64>,
    stage: Stage,
}

/// A flush of all drives that has begun, and what it makes certain.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlushBegun {
    settled: u64,
    plans: SmallVec<[u64; 4]>,
}

/// The ring of a shard's records of dirty data, and the plans that destage it.
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
    /// Nothing is dirty.
    pub fn new(len: ByteCount) -> Destages {
        Destages { ring: Ring::new(len), next: 1, plans: BTreeMap::new() }
    }

    /// A data record is about to be written, of so many extents: each is to be taken by one plan, or superseded.
    pub fn begin_data(&mut self, place: u64, len: u64, extents: usize) -> Begun {
        self.ring.begin(place, len, extents)
    }

    /// A record is durable on as many drives as it has to be.
    pub fn landed(&mut self, begun: &Begun) {
        self.ring.landed(begun);
        let mut plans = self.plans.values_mut();
        if let Some(plan) = plans.find(|plan| plan.intent == Some(begun.sequence)) {
            plan.stage = Stage::Redundancy;
        }
    }

    /// An extent of a record that no plan has taken lies under newer data, which is durable.
    pub fn superseded(&mut self, record: u64) {
        self.ring.end(record);
    }

    /// A plan for these extents, by the records they are in. `whole`: all data of its stripe is among them, so it needs no intent.
    /// Its number.
    ///
    /// # Panics
    /// When a record is not durable: a plan that reads what a crash may take away leaves redundancy that nothing explains.
    pub fn begin_plan(&mut self, records: &[u64], whole: bool) -> u64 {
        assert!(records.iter().all(|record| *record < self.ring.firm()), "a plan takes what is durable");
        let number = self.next;
        self.next += 1;
        let stage = if whole { Stage::Data } else { Stage::Intent };
        self.plans.insert(number, Plan { records: records.into(), intent: None, stage });
        number
    }

    /// The intent of a plan is about to be written.
    pub fn begin_intent(&mut self, plan: u64, place: u64, len: u64) -> Begun {
        let begun = self.ring.begin(place, len, 1);
        let plan = self.plan_mut(plan, Stage::Intent);
        plan.intent = Some(begun.sequence);
        begun
    }

    /// All redundancy of a plan is written, as far as its drives can tell, or those drives are recorded as failed.
    pub fn redundancy_written(&mut self, plan: u64) {
        self.plan_mut(plan, Stage::Redundancy).stage = Stage::Flush;
    }

    /// All of a plan is written, as far as its drives can tell, or those drives are recorded as failed. Its columns are free.
    pub fn end_plan(&mut self, plan: u64) {
        self.plan_mut(plan, Stage::Data);
        if let Some(Plan { records, intent, .. }) = self.plans.remove(&plan) {
            records.into_iter().chain(intent).for_each(|record| self.ring.end(record));
        }
    }

    /// All drives are about to be flushed.
    pub fn begin_flush(&self) -> FlushBegun {
        let waiting = self.plans.iter().filter(|(_, plan)| plan.stage == Stage::Flush);
        FlushBegun { settled: self.ring.settled(), plans: waiting.map(|(number, _)| *number).collect() }
    }

    /// All drives have been flushed, or are recorded as failed.
    pub fn end_flush(&mut self, begun: FlushBegun) {
        self.ring.retire(begun.settled);
        for number in begun.plans {
            self.plan_mut(number, Stage::Flush).stage = Stage::Data;
        }
    }

    /// A notice is durable: see [`Ring::noticed`].
    pub fn noticed(&mut self, begun: &Begun) {
        self.ring.noticed(begun);
    }

    /// What a plan may do now; `None` when it has ended.
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

    /// A ring with a data record of one extent that is durable.
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
    #[should_panic(expected = "a plan takes what is durable")]
    fn a_plan_does_not_take_what_memory_alone_has() {
        let mut ring = Destages::new(Ring::LEAST);
        let begun = ring.begin_data(AT, BLOCK.0, 1);
        ring.begin_plan(&[begun.sequence], false);
    }
}
