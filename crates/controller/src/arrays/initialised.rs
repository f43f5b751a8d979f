//! The initialised stripes of volumes: recorded on every drive in use before a shard relies on
//! them.
//!
//! # Invariants
//! - All is done under the array's metadata lock: a drive that takes a slot gets the record with
//!   the map, and no change happens meanwhile.
//! - A region is durably recorded as complete before its line in the table is removed.
//! - A report that could not be recorded on all remaining drives is refused and does not count. A
//!   bit on some drive is true nevertheless: the stripe was written and flushed before the report.
//! - A start merges the records of all current members, and writes the result to all of them before
//!   any volume is served.

use crate::arrays::Arrays;
use crate::arrays::array::{Array, set_of};
use crate::arrays::failures::failing;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use engine::{Change, RegionIndex, RegionSet, ShardIndex, StripeSet, served};
use ondisk::initialised::table_blocks;
use ondisk::{InitRecord, RecordCopies, Role};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Stripes of a region to record as initialised.
pub(crate) struct InitReport {
    pub(crate) from: ShardIndex,
    pub(crate) number: u64,
    pub(crate) volume: Rc<Volume>,
    pub(crate) region: RegionIndex,
    pub(crate) stripes: StripeSet,
    /// Whether they complete the region.
    pub(crate) completes: bool,
}

impl Array {
    /// The regions that a drive with unknown content has to be filled with: all regions, except
    /// unwritten regions of volumes that record initialisation by stripe, where content is
    /// undefined.
    pub(crate) fn regions_to_fill(&self) -> RegionSet {
        let mut all = self.all_regions();
        let volumes = self.volumes();
        let by_stripe = volumes.iter().filter(|volume| volume.is_initialised_by_stripe());
        by_stripe.for_each(|volume| all.remove_all(&self.unwritten(volume)));
        all
    }

    /// Unwritten regions of a volume, numbered as in the array: those recorded, except marked ones.
    pub(crate) fn unwritten(&self, volume: &Volume) -> RegionSet {
        let mut unwritten = match volume.is_initialised_by_stripe() {
            true => self.uninitialised(volume),
            false => set_of(&volume.label().unwritten),
        };
        if !unwritten.is_empty() {
            self.map.borrow().iter().for_each(|region| {
                unwritten.remove(RegionIndex(region));
            });
        }
        unwritten
    }

    /// The number of blocks in the record's table, if there is a record.
    pub(super) fn record_blocks(&self) -> Option<u32> {
        self.initialised.borrow().as_ref().map(InitRecord::blocks)
    }

    /// Creates a record for this number of regions, none of them initialised, if there was none.
    pub(crate) fn begin_record(&self, regions: u32) {
        let mut record = self.initialised.borrow_mut();
        if record.is_none() {
            *record = Some(InitRecord::new(self.uuid, regions, table_blocks(regions)));
        }
    }

    /// Records all regions of a volume as initialised except those in `none`, which have no
    /// initialised stripe. Creates the record if needed.
    pub(super) fn initialise_all_but(&self, volume: &Volume, none: &RegionSet) {
        self.begin_record(self.map.borrow().regions());
        let none = volume.array_regions(none);
        let mut record = self.initialised.borrow_mut();
        for record in record.iter_mut() {
            for region in volume.regions() {
                match none.contains(RegionIndex(region)) {
                    true => record.forget(region..region + 1),
                    false => record.complete(region),
                }
            }
        }
    }

    /// Regions of a volume without an initialised stripe, numbered as in the array.
    pub(crate) fn uninitialised(&self, volume: &Volume) -> RegionSet {
        let record = self.initialised.borrow();
        let regions = record.iter().flat_map(|record| record.uninitialised(volume.regions()));
        regions.map(RegionIndex).collect()
    }

    /// Regions of a volume with an uninitialised stripe, numbered as in the shards.
    pub(super) fn not_initialised(&self, volume: &Volume) -> RegionSet {
        if !volume.is_initialised_by_stripe() {
            return RegionSet::EMPTY;
        }
        let record = self.initialised.borrow();
        let is_left =
            |region: &u32| record.as_ref().is_some_and(|record| !record.is_initialised(*region));
        let left = volume.regions().filter(is_left);
        volume.own_regions(&left.map(RegionIndex).collect())
    }

    /// Partly initialised regions of a volume, numbered as in the shards, with their initialised
    /// stripes.
    pub(crate) fn initialised_in_part(&self, volume: &Volume) -> Vec<(RegionIndex, StripeSet)> {
        let own = volume.regions();
        let record = self.initialised.borrow();
        let partial = record.iter().flat_map(InitRecord::partial);
        let partial = partial.filter(|(region, _)| own.contains(region));
        partial
            .map(|(region, bits)| (RegionIndex(region - own.start), StripeSet::from_bytes(bits)))
            .collect()
    }

    /// The number of completely initialised regions of a volume, and of all its regions; `None`
    /// without a record.
    pub(crate) fn initialised_of(&self, volume: &Volume) -> Option<(u32, u32)> {
        if !volume.is_initialised_by_stripe() {
            return None;
        }
        let (own, record) = (volume.regions(), self.initialised.borrow());
        let record = record.as_ref()?;
        let done = own.clone().filter(|region| record.is_initialised(*region)).count();
        Some((u32::try_from(done).unwrap_or(u32::MAX), own.end - own.start))
    }

    /// The initialised stripes are not known: in volumes with a record all stripes count as
    /// initialised, with redundancy that needs a resync, because no journal covers stripes that it
    /// never had. Returns these regions, to be marked; the next change records the label.
    pub(crate) fn take_all_for_initialised(&self) -> Vec<u32> {
        let volumes = self.volumes();
        let by_stripe = volumes.iter().filter(|volume| volume.is_initialised_by_stripe());
        let mut record = self.initialised.borrow_mut();
        let uncertain =
            |region: &u32| record.as_ref().is_some_and(|record| !record.is_initialised(*region));
        let mut label = self.label.borrow_mut();
        let mut regions = Vec::new();
        for volume in by_stripe {
            let known = regions.len();
            regions.extend(volume.regions().filter(uncertain));
            if let Some(label) = label.volume_mut(volume.uuid()).filter(|_| regions.len() > known) {
                label.journal.iter_mut().for_each(|journal| journal.tells_all = false);
                volume.set_label(label.clone());
            }
        }
        record
            .iter_mut()
            .for_each(|record| regions.iter().for_each(|region| record.complete(*region)));
        regions
    }
}

/// Bytes of data per stripe of a volume in the record.
pub(crate) fn stripe_in_record(geometry: &layout::Geometry) -> u64 {
    served(geometry).stripe_bytes().0
}

impl Arrays {
    /// Reads the records of all current members. Returns whether the result is complete.
    pub(crate) async fn read_record(&self, array: &Array) -> bool {
        let label = array.label();
        let regions = label.regions();
        let Some(blocks) = label.initialisation_blocks else {
            // A label that was written before a start may lack the record although the array has
            // one. Its content is unknown then: an array that starts so also served all stripes as
            // initialised.
            let is_left_out =
                label.volume.iter().any(|volume| volume.initialised_by_bytes.is_some());
            let unknown =
                is_left_out.then(|| InitRecord::new(array.uuid, regions, table_blocks(regions)));
            *array.initialised.borrow_mut() = unknown;
            return !is_left_out;
        };
        let mut members: Vec<RecordCopies> = Vec::new();
        for place in array.places() {
            if let (Role::Current, Some(access)) =
                (&place.role, place.drive.as_ref().and_then(|drive| drive.access()))
            {
                members.push(access.read_record(regions, blocks).await);
            }
        }
        let (record, is_all) = InitRecord::unite(array.uuid, regions, blocks, &members);
        *array.initialised.borrow_mut() = Some(record);
        is_all
    }

    /// Writes one copy of the whole record to the drives in `slots`. Returns the failed drives.
    pub(super) async fn heal_record(
        &self,
        array: &Array,
        slots: &[usize],
    ) -> BTreeMap<usize, IoError> {
        let writes = array.initialised.borrow_mut().as_mut().map(InitRecord::take_all);
        let Some(writes) = writes else { return BTreeMap::new() };
        let errors = self.write_blocks(array, &writes, slots).await;
        if !errors.is_empty() {
            array
                .initialised
                .borrow_mut()
                .iter_mut()
                .for_each(|record| record.not_written(&writes));
        }
        errors
    }

    /// Records stripes as initialised, and confirms the reports. One write covers several reports.
    /// The caller holds the metadata lock.
    pub(super) async fn record_initialised(
        self: &Rc<Self>,
        array: &Rc<Array>,
        reports: Vec<InitReport>,
    ) {
        let gone = Err(IoError::new(IoErrorKind::Gone));
        let mut noted = Vec::new();
        for report in reports {
            let is_served = array.has(&report.volume) && report.volume.is_initialised_by_stripe();
            match is_served && array.lost.borrow().is_empty() {
                true if note(array, &report) => noted.push(report),
                true => {
                    let full = Err(IoError::new(IoErrorKind::NotSupported));
                    self.answer_report(report.from, report.number, full);
                }
                false => self.answer_report(report.from, report.number, gone),
            }
        }
        let result = if noted.is_empty() { Ok(()) } else { self.write_record(array).await };
        for InitReport { from, number, volume, region, completes, .. } in noted {
            if result.is_ok() && completes {
                self.tell_others(&volume, from, &Change::Initialised(region.into()));
                self.note_initialised(array, &volume);
            }
            self.answer_report(from, number, result);
        }
    }

    /// If the last region of a volume is initialised now, its label does not need the record any
    /// more.
    pub(super) fn note_initialised(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        self.attention.notify();
        if array.initialised_of(volume).is_some_and(|(done, regions)| done == regions) {
            let (this, array, of) = (self.clone(), array.clone(), volume.clone());
            self.env.spawn("a volume is initialised", async move {
                let whole = |label: &mut ondisk::VolumeLabel| label.initialised_by_bytes = None;
                if let Err(error) = this.relabel(&array, &of, whole).await {
                    tracing::info!(
                        "the complete initialisation of '{}' is recorded at its next start: \
                            {error}",
                        of.name()
                    );
                }
            });
            let name = volume.name();
            let text = format!("the initialisation of '{name}' is complete");
            let (cause, effect) =
                ("all regions are initialised", "first writes need no extra I/O any more");
            self.events.report(EventCode::VolumeInitialised, &name, cause, effect, text);
        }
    }

    /// Writes the changed blocks of the record to every drive in use. The caller holds the metadata
    /// lock.
    ///
    /// # Errors
    /// When it is not durable on all remaining drives.
    async fn write_record(self: &Rc<Self>, array: &Rc<Array>) -> Result<(), IoError> {
        let changed = array.initialised.borrow_mut().as_mut().map(InitRecord::take_changed);
        let Some(parts) = changed else { return Ok(()) };
        let mut result = Ok(());
        for writes in parts.into_iter().filter(|writes| !writes.is_empty()) {
            result = match result {
                Ok(()) => self.write_part(array, &writes).await,
                failed => failed,
            };
            if result.is_err() {
                array
                    .initialised
                    .borrow_mut()
                    .iter_mut()
                    .for_each(|record| record.not_written(&writes));
            }
        }
        result
    }

    async fn write_part(
        self: &Rc<Self>,
        array: &Rc<Array>,
        writes: &[ondisk::BlockWrite],
    ) -> Result<(), IoError> {
        let errors = self.write_blocks(array, writes, &array.in_use()).await;
        if let Some(full) = errors.values().find(|error| error.spares_drive()) {
            return Err(*full);
        }
        let operation = "recording initialised stripes";
        match errors.is_empty() || self.put_out(array, failing(errors, operation)).await {
            true => Ok(()),
            false => Err(IoError::new(IoErrorKind::Gone)),
        }
    }
}

/// Adds a report to the record. False: there is no space for it.
fn note(array: &Array, report: &InitReport) -> bool {
    let InitReport { volume, region, stripes, completes, .. } = report;
    let of_region = engine::Regions::of(&served(&volume.geometry)).stripes_of(*region);
    let count = u32::try_from(of_region.end - of_region.start).unwrap_or(u32::MAX);
    let region = volume.array_region(*region);
    let mut record = array.initialised.borrow_mut();
    let Some(record) = record.as_mut() else { return false };
    if *completes {
        record.complete(region);
        return true;
    }
    record.note(region, count, &stripes.to_bytes(0))
}
