//! Dispatches reports of shards to the arrays.
//!
//! Reports that must be durable before they are confirmed go to the array's failure handler
//! (`failures.rs`) or recorder (below), which take the array's metadata lock; the others are
//! handled at once.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::bitmap_clearer::{FLUSH_AGAIN_AFTER, is_busy};
use crate::arrays::failures::{FailureReport, failing};
use crate::arrays::initialised::InitReport;
use crate::arrays::members::has_full_replacement;
use crate::arrays::noting::note_change;
use crate::arrays::replacement::Ending;
use crate::arrays::volume::Volume;
use crate::arrays::work::{Doubt, MarkReport, Running};
use crate::events::EventCode;
use crate::interface::Found;
use crate::signals::wait_or;
use engine::{
    Change, RegionSet, Report, ReportKind, Seat, ShardIndex, ShardMessage, TaskId, TaskOutcome,
    TaskProgress, VolumeId,
};
use ondisk::{Member, Uuid};
use platform::sync::Taken;
use platform::{IoError, IoErrorKind, mailbox};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteRange, DriveIndex};

/// The minimum interval at which regions are recorded as current.
const CHECKPOINT: Duration = Duration::from_secs(1);

/// How often a command checks whether the recorder has recorded pending reports.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A change for the recorder, and the report that waits for its confirmation, if any.
pub(crate) struct ToRecord {
    answer: Option<(ShardIndex, u64)>,
    /// The volume itself, not its UUID: the new part of a reshaped volume takes over that volume's
    /// UUID.
    volume: Rc<Volume>,
    slot: usize,
    what: What,
    /// Counts the change until it is recorded, if actual redundancy is less than recorded.
    _doubt: Option<Doubt>,
}

/// Counts newly punctured blocks for the task that found them.
fn note_punctured(volume: &Volume, ranges: &[ByteRange], punctured: bool, tasks: &dyn TaskReports) {
    if let (Some(id), true) = (volume.id(), punctured) {
        let bytes: u64 = ranges.iter().map(|range| range.len.0).sum();
        tasks.note(id, &|found| found.unrecoverable_bytes += bytes);
    }
}

enum What {
    /// Regions made current on the slot's drive.
    Current {
        regions: RegionSet,
        /// The number of the volume for which `swaps` identifies the slot's drive
        /// ([`Volume::swaps`]).
        id: VolumeId,
        swaps: u64,
        /// Whether a host waits for the record.
        is_awaited: bool,
    },
    /// Regions copied to the replacement of that UUID.
    Copied(Uuid, RegionSet),
    /// Regions moved into the distributed spare, or back.
    Moved(RegionSet, bool),
    /// Blocks punctured, or written again.
    Punctured(Vec<ByteRange>, bool),
    /// Blocks excluded on the slot's drive, or readable again. `swaps` identifies the drive, as
    /// above.
    Excluded { ranges: Vec<ByteRange>, excluded: bool, id: VolumeId, swaps: u64 },
    /// The replacement of that UUID lacks a write. `None`: it is unknown.
    ReplacementFailed(Option<Uuid>, IoError),
    /// A write was left unfinished: the volume's journal does not cover all regions that may be in
    /// doubt after a crash.
    Uncovered,
}

/// Whether actual redundancy is less than recorded, until this change is recorded.
fn costs_redundancy(what: &What) -> bool {
    matches!(
        what,
        What::Punctured(_, true) | What::Excluded { excluded: true, .. } | What::Uncovered
    )
}

impl ToRecord {
    /// Whether it lists blocks of a drive whose slot another drive has taken since. Writes went to
    /// both, so the list does not apply to the new drive.
    fn is_about_one_that_left(&self) -> bool {
        let What::Excluded { id, swaps, .. } = self.what else { return false };
        self.volume.id() == Some(id) && self.volume.swaps(self.slot) != swaps
    }

    /// The equivalent change of the volume's state, if any: it goes into the label and to the
    /// shards.
    fn change(&self) -> Option<Change> {
        let slot = DriveIndex(self.slot as u16);
        Some(match &self.what {
            What::Current { regions, .. } => Change::Current { slot, regions: regions.clone() },
            What::Copied(_, regions) => Change::Copied { slot, regions: regions.clone() },
            What::Moved(regions, to_spare) => {
                Change::Moved { slot, regions: regions.clone(), to_spare: *to_spare }
            }
            What::Punctured(ranges, true) => Change::Punctured { slot, ranges: ranges.clone() },
            What::Punctured(ranges, false) => Change::Rewritten { slot, ranges: ranges.clone() },
            What::Excluded { ranges, excluded: true, .. } => {
                Change::Excluded { slot, ranges: ranges.clone() }
            }
            What::Excluded { ranges, excluded: false, .. } => {
                Change::Included { slot, ranges: ranges.clone() }
            }
            What::ReplacementFailed(..) | What::Uncovered => return None,
        })
    }
}

/// The receiver of the shards' reports about their parts of tasks.
pub(crate) trait TaskReports {
    /// An error was found on a volume: tasks that run there count it.
    fn note(&self, volume: VolumeId, find: &dyn Fn(&mut Found));
    /// A check found a stripe with inconsistent redundancy, and possibly the wrong drive.
    fn mismatch(&self, task: TaskId, wrong: Option<DriveIndex>);
    /// A shard reports its progress.
    fn progress(&self, from: ShardIndex, task: TaskId, progress: TaskProgress);
    /// A shard has finished its part, or failed.
    fn done(&self, from: ShardIndex, task: TaskId, outcome: TaskOutcome);
}

impl Arrays {
    /// Receives reports of shards until there are none left.
    pub(crate) async fn take_reports(
        self: Rc<Self>,
        mut reports: mailbox::Receiver<Report>,
        tasks: Rc<dyn TaskReports>,
    ) {
        while let Some(report) = reports.receive().await {
            let found = self.by_uuid.borrow().values().find_map(|array| {
                array.volume_served_as(report.volume).map(|volume| (array.clone(), volume))
            });
            match found {
                Some((array, volume)) => self.take_report(&array, &volume, report, &*tasks),
                None => self.answer_report(
                    report.from,
                    report.number,
                    Err(IoError::new(IoErrorKind::Gone)),
                ),
            }
        }
    }

    fn take_report(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        report: Report,
        tasks: &dyn TaskReports,
    ) {
        let Report { from, number, kind, volume: id } = report;
        let record = |slot: DriveIndex, what| {
            let (volume, slot) = (volume.clone(), slot.as_usize());
            let answer = Some((from, number));
            let _doubt = costs_redundancy(&what).then(|| Doubt::of(&array.work));
            array.work.to_record.borrow_mut().push(ToRecord { answer, volume, slot, what, _doubt });
        };
        match kind {
            ReportKind::DriveFailed { drive, swaps, error, operation } => {
                let (volume, what, error) =
                    (volume.clone(), format!("{operation}: {error}"), error.kind);
                let report = FailureReport { from, number, volume, id, drive, swaps, what, error };
                array.work.failures.borrow_mut().push(report);
            }
            ReportKind::DriveSilent { drive, swaps, exceeded } => {
                let what = exceeded
                    .map_or("it does not respond in time".to_owned(), |limit| limit.to_string());
                let (volume, error) = (volume.clone(), IoErrorKind::TimedOut);
                let report = FailureReport { from, number, volume, id, drive, swaps, what, error };
                self.take_silent(array, report);
            }
            ReportKind::MarkDirty(regions) => {
                let (volume, regions) = (volume.clone(), volume.array_regions(&regions));
                array.work.marks.borrow_mut().push(MarkReport { from, number, volume, regions });
            }
            ReportKind::StripesInitialised { region, stripes, completes } => {
                let volume = volume.clone();
                let report = InitReport { from, number, volume, region, stripes, completes };
                array.work.initialised.borrow_mut().push(report);
            }
            ReportKind::Current { drive, regions, swaps, is_awaited } => {
                record(drive, What::Current { regions, id, swaps, is_awaited });
            }
            ReportKind::PuncturedBlocks { drive, ranges, punctured } => {
                note_punctured(volume, &ranges, punctured, tasks);
                record(drive, What::Punctured(ranges, punctured));
            }
            ReportKind::ExcludedBlocks { drive, ranges, swaps, excluded } => {
                record(drive, What::Excluded { ranges, excluded, id, swaps });
            }
            ReportKind::Unsynced(regions) => {
                self.regions_unsynced(array, volume, from, &regions);
                record(DriveIndex(0), What::Uncovered);
            }
            ReportKind::ReplacementFailed { drive, number, error } => {
                let filled = volume.replacement(drive.as_usize(), number);
                record(drive, What::ReplacementFailed(filled, error));
            }
            ReportKind::Moved { drive, regions, to_spare } => {
                record(drive, What::Moved(regions, to_spare))
            }
            ReportKind::LogFailed { device, error } => {
                self.log_failed((array, volume), (from, number), device, error);
            }
            at_once => {
                self.take_at_once(array, volume, from, at_once, tasks);
                self.answer_report(from, number, Ok(()));
            }
        }
        array.work.changed.notify(&self.env);
    }

    /// Handles a report that needs no durable record.
    fn take_at_once(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        from: ShardIndex,
        kind: ReportKind,
        tasks: &dyn TaskReports,
    ) {
        match kind {
            ReportKind::Quiet(regions) => {
                let regions = volume.array_regions(&regions);
                array.work.quiet.borrow_mut().extend(regions.iter().map(|region| region.0));
            }
            ReportKind::Synced(regions) => self.regions_synced(array, volume, from, &regions),
            ReportKind::MediumError { drive, range, recovered, .. } => {
                if let Some(id) = volume.id() {
                    tasks.note(id, &|found| found.unreadable += 1);
                }
                self.medium_error(array, volume, drive, range, recovered);
            }
            ReportKind::Mismatch { task, stripe, wrong, repaired } => {
                let name = volume.name();
                tasks.mismatch(task, wrong);
                let who = wrong.map_or_else(String::new, |drive| {
                    format!(
                        "; drive {} has wrong blocks",
                        self.member_name(array, drive.as_usize())
                    )
                });
                let effect = if repaired { "it was repaired" } else { "it was not repaired" };
                let text = format!(
                    "in stripe {stripe} of '{name}', redundancy does not agree with data{who}: \
                    {effect}"
                );
                self.events.report(
                    EventCode::VolumeMismatch,
                    &name,
                    "a check found it",
                    effect,
                    text,
                );
            }
            ReportKind::TaskProgress { task, progress } => tasks.progress(from, task, progress),
            ReportKind::TaskDone { task, outcome } => tasks.done(from, task, outcome),
            ReportKind::DriveFailed { .. }
            | ReportKind::DriveSilent { .. }
            | ReportKind::LogFailed { .. }
            | ReportKind::Unsynced(_)
            | ReportKind::MarkDirty(_)
            | ReportKind::StripesInitialised { .. }
            | ReportKind::Current { .. }
            | ReportKind::PuncturedBlocks { .. }
            | ReportKind::ExcludedBlocks { .. }
            | ReportKind::Moved { .. }
            | ReportKind::ReplacementFailed { .. } => {}
        }
    }

    /// The lock of an array's metadata, at a moment when all reports of lost redundancy are
    /// recorded: the effect of a drive's loss is known then.
    pub(crate) async fn turn_without_doubt(&self, array: &Array) -> Taken {
        loop {
            let turn = array.metadata_turn().await;
            if array.work.doubts.get() == 0 || !array.is_running() {
                return turn;
            }
            drop(turn);
            self.env.sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// Records current regions, punctured and excluded blocks, and failed replacements, until the
    /// array is stopped.
    pub(crate) async fn record(self: Rc<Self>, array: Rc<Array>, running: Rc<Running>) {
        let work = &array.work;
        let urgent = |report: &ToRecord| {
            !matches!(report.what, What::Current { is_awaited: false, .. } | What::Copied(..))
        };
        let lost = || !work.lost_replacements.borrow().is_empty();
        let full = || has_full_replacement(&array);
        loop {
            let waiting = || !work.to_record.borrow().is_empty() || lost() || full();
            work.changed.wait_until(&self.env, || waiting() || running.stopped.get()).await;
            // Others usually follow and are recorded together. The last ones are recorded without
            // delay.
            let until = self.env.now() + CHECKPOINT;
            let at_once = || {
                let reports = work.to_record.borrow();
                let at_once = lost() || full() || running.stopped.get();
                at_once || reports.iter().any(urgent) || completes(&array, &reports)
            };
            wait_or(&self.env, &work.changed, at_once, until).await;
            let reports = work.to_record.take();
            if reports.is_empty() && !lost() && !full() {
                if running.stopped.get() {
                    return;
                }
                continue;
            }
            let reports = self.flush_for(&array, &running, reports).await;
            {
                let _turn = array.metadata.take(1).await;
                for (slot, (drive, error)) in work.lost_replacements.take() {
                    if array.label().member.get(slot).is_some_and(|member| is_filled(member, drive))
                    {
                        self.end_replacement(&array, slot, Ending::Failed("written", error)).await;
                    }
                }
                self.deal_with_records(&array, self.without_those_that_left(reports)).await;
            }
            self.promote_complete(&array).await;
        }
    }

    /// Flushes the drives with newly current regions: the label must not call a region current that
    /// a power cut can lose. Returns the reports that may be recorded now. Those that need a flush
    /// wait while a drive cannot flush for now.
    async fn flush_for(
        self: &Rc<Self>,
        array: &Rc<Array>,
        running: &Running,
        reports: Vec<ToRecord>,
    ) -> Vec<ToRecord> {
        let (mut slots, mut replacements) = (BTreeSet::new(), BTreeSet::new());
        for report in &reports {
            match report.what {
                What::Current { .. } => slots.extend([report.slot]),
                What::Copied(..) => replacements.extend([report.slot]),
                What::Moved(..) => {
                    slots.extend(array.in_use());
                    replacements.extend(0..array.places().len());
                }
                What::Punctured(..)
                | What::Excluded { .. }
                | What::ReplacementFailed(..)
                | What::Uncovered => {}
            }
        }
        let members = slots.into_iter().map(|slot| Seat::Slot(DriveIndex(slot as u16)));
        let filled =
            replacements.into_iter().map(|slot| Seat::Replacement(DriveIndex(slot as u16)));
        let unflushed = self.flush(array, members.chain(filled)).await;
        if unflushed.is_empty() {
            return reports;
        }
        let busy = unflushed.iter().any(is_busy);
        {
            let _turn = array.metadata.take(1).await;
            self.take_out_unflushed(array, unflushed).await;
        }
        if !busy {
            return reports;
        }
        let needs_flush = |report: &ToRecord| {
            matches!(report.what, What::Current { .. } | What::Copied(..) | What::Moved(..))
        };
        let (wait, now): (Vec<_>, Vec<_>) = reports.into_iter().partition(needs_flush);
        if running.stopped.get() {
            for (from, number) in wait.into_iter().filter_map(|report| report.answer) {
                self.answer_report(from, number, Err(IoError::new(IoErrorKind::Busy)));
            }
            return now;
        }
        array.work.to_record.borrow_mut().extend(wait);
        self.env.sleep(FLUSH_AGAIN_AFTER).await;
        now
    }

    /// Confirms the reports about drives that have left their slot. The caller holds the metadata
    /// lock.
    fn without_those_that_left(&self, reports: Vec<ToRecord>) -> Vec<ToRecord> {
        let (left, others): (Vec<_>, Vec<_>) =
            reports.into_iter().partition(ToRecord::is_about_one_that_left);
        for (from, number) in left.into_iter().filter_map(|report| report.answer) {
            self.answer_report(from, number, Ok(()));
        }
        others
    }

    async fn deal_with_records(self: &Rc<Self>, array: &Rc<Array>, reports: Vec<ToRecord>) {
        for report in &reports {
            if let What::ReplacementFailed(Some(drive), error) = &report.what {
                self.replacement_failed(array, report.slot, *drive, error).await;
            }
        }
        let before = array.label();
        let mut next = before.clone();
        let mut refused = Vec::new();
        for (number, report) in reports.iter().enumerate() {
            let ToRecord { volume, slot, what, .. } = report;
            if !array.has(volume) {
                refused.push(number);
                continue;
            }
            let member = &before.member[*slot];
            let note = |change| {
                let to_array = |regions: &RegionSet| volume.array_regions(regions);
                note_change(&mut next, volume.uuid(), to_array, &change)
            };
            let fits = match what {
                // A drive that went out since has missed later writes, and its label says where.
                What::Current { id, swaps, .. } => {
                    let is_it = member.is_online()
                        && volume.id() == Some(*id)
                        && volume.swaps(*slot) == *swaps;
                    is_it && report.change().is_some_and(note)
                }
                // Another drive may be filled by now: copies on the previous one are of no use.
                What::Copied(drive, _) => {
                    !is_filled(member, *drive) || report.change().is_some_and(note)
                }
                What::Moved(..) | What::Punctured(..) | What::Excluded { .. } => {
                    report.change().is_some_and(note)
                }
                What::ReplacementFailed(drive, _) => drive.is_some_and(|drive| {
                    !(is_filled(member, drive) || member.is_online() && member.uuid == drive)
                }),
                What::Uncovered => {
                    let label =
                        next.volume_mut(volume.uuid()).and_then(|label| label.journal.as_mut());
                    label.into_iter().for_each(|journal| journal.tells_all = false);
                    true
                }
            };
            if !fits {
                refused.push(number);
                self.report_full_list(array, report);
            }
        }
        let recorded = array.lost.borrow().is_empty()
            && (next == before || self.commit(array, next, Vec::new()).await);
        self.answer_recorded(reports, recorded, &refused).await;
        array.look_at_state(self.env.unix_time());
    }

    /// Answers the shards that reported changes: success if the label now has the change, an error
    /// if the change was `refused` or the label could not be written.
    async fn answer_recorded(&self, reports: Vec<ToRecord>, recorded: bool, refused: &[usize]) {
        for (number, report) in reports.into_iter().enumerate() {
            let done = recorded && !refused.contains(&number);
            if done {
                self.report_recorded(&report.volume, &report).await;
            }
            let failed = Err(IoError::new(IoErrorKind::Gone));
            if let Some((from, number)) = report.answer {
                self.answer_report(from, number, if done { Ok(()) } else { failed });
            }
        }
    }

    /// Reports that a label had no space for blocks of a drive.
    fn report_full_list(&self, array: &Array, refused: &ToRecord) {
        if !matches!(refused.what, What::Punctured(_, true) | What::Excluded { excluded: true, .. })
        {
            return;
        }
        let (drive, name) = (self.member_name(array, refused.slot), refused.volume.name());
        let text = format!(
            "drive {drive} has more unreadable or unwritable blocks of '{name}' than its label can \
            list: writes to further ones fail, and their regions are not rebuilt; replace the drive"
        );
        let effect = "requests that need these blocks fail";
        self.events.report(
            EventCode::ArrayNotRecorded,
            &name,
            "a list of blocks is full",
            effect,
            text,
        );
    }

    /// Sends the shards the change that was recorded.
    async fn report_recorded(&self, volume: &Volume, report: &ToRecord) {
        let (Some(id), Some(change)) = (volume.id(), report.change()) else { return };
        match &report.what {
            What::Current { .. } => {
                self.tell_all(|| ShardMessage::Apply(id, change.clone(), None, None))
            }
            What::Moved(..) | What::Punctured(..) | What::Excluded { .. } => {
                if let Err(why) = self.apply(id, &change).await {
                    tracing::error!(
                        "some threads of SoftROC lack a change of the state of '{}' ({change:?}): \
                         {why}",
                        volume.name()
                    );
                }
            }
            // The shard that copied knows; the plans of others do not depend on it.
            What::ReplacementFailed(..) | What::Copied(..) | What::Uncovered => {}
        }
    }

    /// Queues the record of regions that were copied to the replacement of a slot.
    pub(crate) fn regions_copied(
        &self,
        array: &Array,
        volume: Uuid,
        slot: usize,
        drive: Uuid,
        regions: RegionSet,
    ) {
        let Some(volume) = array.volume(volume) else { return };
        let what = What::Copied(drive, regions);
        array.work.to_record.borrow_mut().push(ToRecord {
            answer: None,
            volume,
            slot,
            what,
            _doubt: None,
        });
        array.work.changed.notify(&self.env);
    }

    /// A replacement lacks a write: it is dropped, or, if it has taken the slot meanwhile, goes
    /// out. Any other drive of the slot is not affected.
    async fn replacement_failed(
        self: &Rc<Self>,
        array: &Rc<Array>,
        slot: usize,
        drive: Uuid,
        error: &IoError,
    ) {
        let Some(member) = array.label().member.get(slot).cloned() else { return };
        if is_filled(&member, drive) {
            self.end_replacement(array, slot, Ending::Failed("written", *error)).await;
        } else if member.uuid == drive && array.in_use().contains(&slot) && !error.spares_drive() {
            self.put_out(array, failing(BTreeMap::from([(slot, *error)]), "write")).await;
        }
    }
}

/// Whether a drive is the replacement of a member's slot.
fn is_filled(member: &Member, drive: Uuid) -> bool {
    member.replacement.as_ref().is_some_and(|filled| filled.uuid == drive)
}

/// Whether these reports complete a rebuild or a copy on some drive.
fn completes(array: &Array, reports: &[ToRecord]) -> bool {
    // By slot, and whether it is its replacement: the remaining stale regions.
    let mut left: BTreeMap<(usize, bool), RegionSet> = BTreeMap::new();
    for ToRecord { volume, slot, what, .. } in reports {
        if !array.has(volume) {
            continue;
        }
        let (drive, regions) = match what {
            What::Current { regions, .. } => (None, regions),
            What::Copied(drive, regions) => (Some(*drive), regions),
            What::Moved(..)
            | What::Punctured(..)
            | What::Excluded { .. }
            | What::ReplacementFailed(..)
            | What::Uncovered => continue,
        };
        let left =
            left.entry((*slot, drive.is_some())).or_insert_with(|| array.left_on(*slot, drive));
        if !left.is_empty() {
            left.remove_all(&volume.array_regions(regions));
            if left.is_empty() {
                return true;
            }
        }
    }
    false
}
