//! Direct requests: operations of drives by mapping alone, one per contiguous range of a drive.
//!
//! A read with current data, a write without redundancy, and a write inside one strip of a mirror
//! need no plan. A read of 1 MiB from eight drives with strips of 64 KiB is one *run* of 128 KiB on
//! each: eight operations instead of sixteen, each into several parts of the host's buffer. A write
//! to a mirror is one run on each drive with a copy. [`way`](crate::host::way) says which requests
//! come here.
//!
//! Each strip of a mirror is read from the copy that a read of it alone would use. A large read
//! that finds several copies idle uses all of them: each has a run of it.
//!
//! # Life of a request
//! mapped ([`Direct::read`], [`Direct::write`], [`Direct::copies`]) → its operations start → each
//! [returns](Direct::returned) → after the last one, [complete](Direct::is_complete), or to be
//! [finished](Direct::finish) by a task: done, failed, or still to do by stripes. A task drives it
//! ([`Direct::run`]), or the drives' completions ([`taskless`](crate::host::taskless)).
//!
//! # Invariants
//! - It waits for its drives only: no lock, memory or other request.
//! - A write holds its stripes' locks, or is announced as a non-owner write, until its last
//!   operation has returned. A write to copies also counts in its region, which is marked dirty.
//! - A write without redundancy that a drive may still carry out is not repeated: it could reach
//!   the drive after a later write (rule (d) of `ARCHITECTURE.md`).
//! - A write that some copies lack is repeated by a plan under the same locks. If that fails too,
//!   the region becomes unsynced before the host gets the error, because its copies may differ.
//!
//! Budget: 50 ns beyond the drive's own time.

use crate::attachment::Beside;
use crate::cache::{Alone, Cache, alone, put_after_copies, written_alone};
use crate::host::parts::{stripes, take_slice};
use crate::members::is_gone;
use crate::recovery::Recovery;
use crate::stripe::{Changing, DriveRequest, DriveRequests};
use layout::{CopyIndex, DataIndex, StripeMap};
use platform::locks::{Guard, Mode};
use platform::{Buf, Bufs, Durability, Io, IoError, IoOutcome, IoRequest, Member, Slice, Slices};
use smallvec::{SmallVec, smallvec};
use std::cell::RefCell;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, StripeIndex};
use volume_state::RegionIndex;

/// The longest run: drives accept this much in one operation, and more gains nothing.
pub(super) const LONGEST: ByteCount = ByteCount::MIB;

/// The most runs of a request: the deadline of each starts when all of them begin.
pub(super) const MOST_RUNS: usize = 64;

/// Contiguous bytes of a request on a drive, and what its operation returned.
struct Run {
    drive: DriveIndex,
    member: Rc<Member>,
    /// In the drive's part of the volume.
    offset: ByteOffset,
    len: ByteCount,
    error: Option<IoError>,
    back: Bufs,
}

impl Run {
    fn new(drive: DriveIndex, member: Rc<Member>, offset: ByteOffset, len: ByteCount) -> Run {
        Run { drive, member, offset, len, error: None, back: Bufs::new() }
    }
}

/// What a write holds for each of its stripes.
type Held = SmallVec<[(Option<Guard>, Changing); 1]>;

/// What a direct request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    /// A write without redundancy.
    Write,
    /// A write to every copy of a strip.
    Copies,
}

/// A direct request. See the [module](self).
pub(super) struct Direct {
    kind: Kind,
    range: ByteRange,
    runs: SmallVec<[Run; 1]>,
    /// The parts of several runs in the order of the request: the run and the length of each.
    /// Empty for one run, and for copies.
    parts: SmallVec<[(u8, ByteCount); 4]>,
    /// The number of operations that have not returned.
    left: usize,
    /// All operations that have returned were successful, and no byte read was given up by then:
    /// it may be a zero. Decided at each return: lost bytes can be rewritten later.
    is_good: bool,
    /// Redundancy can answer a read that its drive does not return soon.
    is_short: bool,
    /// Of a write.
    written: Option<(Slice, Durability)>,
    held: Held,
    beside: Option<Beside>,
    alone: Option<Alone>,
}

/// The end of a direct request.
pub(super) enum Finished {
    /// It is done; a read has its buffer.
    Done(Option<Buf>),
    /// It has failed.
    Failed(IoError),
    /// It is to be done by stripes; a read may have its buffer.
    ByStripes(Option<Buf>),
}

impl Default for Direct {
    fn default() -> Direct {
        Direct {
            kind: Kind::Read,
            range: ByteRange::new(ByteOffset::ZERO, ByteCount::ZERO),
            runs: SmallVec::new(),
            parts: SmallVec::new(),
            left: 0,
            is_good: true,
            is_short: false,
            written: None,
            held: Held::new(),
            beside: None,
            alone: None,
        }
    }
}

/// Requests that have ended, for the next ones: they are large, and are not moved or allocated.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a request is moved as a pointer")]
pub(super) struct Spare(RefCell<Vec<Box<Direct>>>);

impl Spare {
    fn take(&self, kind: Kind, range: ByteRange) -> Box<Direct> {
        let mut direct = self.0.borrow_mut().pop().unwrap_or_default();
        (direct.kind, direct.range) = (kind, range);
        direct
    }

    /// Takes back a request that has ended: it holds nothing from now on.
    fn give(&self, mut direct: Box<Direct>) {
        let Direct { runs, parts, is_good, is_short, written, held, beside, alone, .. } =
            &mut *direct;
        runs.clear();
        parts.clear();
        held.clear();
        (*is_good, *is_short) = (true, false);
        (*written, *beside, *alone) = (None, None, None);
        self.0.borrow_mut().push(direct);
    }
}

impl Direct {
    /// Maps a read of whole sectors whose [way](crate::host::way) is direct. `None`: it needs
    /// plans.
    pub(super) fn read(volume: &Cache, spare: &Spare, range: ByteRange) -> Option<Box<Direct>> {
        let mut direct = spare.take(Kind::Read, range);
        if direct.map(volume).is_none() {
            spare.give(direct);
            return None;
        }
        let (_, at) = volume.geometry().strip_of(volume.geometry().stripe_of(range.start).1);
        if at + range.len <= volume.geometry().strip().bytes() {
            direct.is_short = volume.is_had_elsewhere(direct.runs[0].drive);
        }
        Some(direct)
    }

    /// Maps a write of whole sectors whose [way](crate::host::way) is direct, and holds its
    /// stripes. `None`: it needs plans.
    pub(super) fn write(
        volume: &Rc<Cache>,
        spare: &Spare,
        range: ByteRange,
    ) -> Option<Box<Direct>> {
        let mut direct = spare.take(Kind::Write, range);
        if direct.map(volume).is_none() || direct.hold(volume).is_none() {
            spare.give(direct);
            return None;
        }
        Some(direct)
    }

    /// Holds the stripes of a write without redundancy. `None`: one is in use.
    fn hold(&mut self, volume: &Rc<Cache>) -> Option<()> {
        for (stripe, within) in stripes(volume.geometry(), self.range) {
            // Writes that complete a sector use the lock, which is on the stripe's owner. This
            // never waits for one stripe's lock while it holds another.
            let guard = match volume.is_mine(stripe) {
                true => {
                    let (key, columns) = (volume.lock_key(stripe), volume.columns(stripe, within));
                    Some(volume.shard.locks().try_lock_columns(key, Mode::Shared, columns)?)
                }
                false => {
                    if self.beside.is_none() {
                        self.beside = Some(volume.write_beside()?);
                    }
                    None
                }
            };
            self.held.push((guard, volume.begin_change(stripe, within)));
        }
        Some(())
    }

    /// Maps a write of whole sectors whose [way](crate::host::way) is to every copy, and holds its
    /// stripe. `None`: it needs a plan.
    pub(super) fn copies(
        volume: &Rc<Cache>,
        spare: &Spare,
        range: ByteRange,
    ) -> Option<Box<Direct>> {
        let mut direct = spare.take(Kind::Copies, range);
        if direct.map_copies(volume).is_none() {
            spare.give(direct);
            return None;
        }
        Some(direct)
    }

    fn map_copies(&mut self, volume: &Rc<Cache>) -> Option<()> {
        let geometry = volume.geometry();
        let (stripe, within) = self.place(volume);
        self.alone = Some(alone(volume, stripe, within)?);
        self.held.push((None, volume.begin_change(stripe, within)));
        let (index, at) = geometry.strip_of(ByteCount(within.start.0));
        let map = geometry.stripe_map(stripe);
        for copy in (0..geometry.copies()).map(CopyIndex) {
            let cell = map.data_cell(index, copy);
            let drive = cell.drive;
            let member =
                volume.members.get(drive).filter(|_| volume.in_service().contains(drive))?;
            self.runs.push(Run::new(drive, member, cell.offset + at, self.range.len));
        }
        Some(())
    }

    /// The stripe of a request in one stripe, and its bytes of it.
    fn place(&self, volume: &Recovery) -> (StripeIndex, ByteRange) {
        let (stripe, within) = volume.geometry().stripe_of(self.range.start);
        (stripe, ByteRange::new(ByteOffset(within.0), self.range.len))
    }

    /// Maps the request to runs. `None`: it needs plans.
    fn map(&mut self, volume: &Recovery) -> Option<()> {
        let geometry = volume.geometry();
        let strip = geometry.strip().bytes();
        let (stripe, within) = geometry.stripe_of(self.range.start);
        let (index, at) = geometry.strip_of(within);
        if at + self.range.len <= strip {
            let bytes = ByteRange::new(ByteOffset(at.0), self.range.len);
            return self.map_strip(volume, stripe, index, bytes);
        }
        let mut before = ByteCount::ZERO;
        for (stripe, within) in stripes(geometry, self.range) {
            if !volume.is_live(stripe) {
                return None;
            }
            let map = geometry.stripe_map(stripe);
            let mut rest = within;
            while !rest.is_empty() {
                let (index, at) = geometry.strip_of(ByteCount(rest.start.0));
                let bytes = ByteRange::new(ByteOffset(at.0), (strip - at).min(rest.len));
                rest = ByteRange::from_to(rest.start + bytes.len, rest.end());
                let share = volume.copy_by_share(&map, index, bytes, (before, self.range.len));
                let copy =
                    share.or_else(|| volume.choose_copy(stripe, &map, index, bytes, |_| true))?;
                before += bytes.len;
                let cell = map.data_cell(index, copy);
                self.add(volume, cell.drive, cell.offset + at, bytes.len)?;
            }
        }
        Some(())
    }

    /// Maps bytes of one strip, also in a volume with a fault that may be elsewhere.
    fn map_strip(
        &mut self,
        volume: &Recovery,
        stripe: StripeIndex,
        index: DataIndex,
        bytes: ByteRange,
    ) -> Option<()> {
        // The place of a stripe not in use belongs to another layout: a plan refuses it. An
        // uninitialised stripe reads as zeros, unless its owner has initialised it.
        if !volume.is_live(stripe) || !volume.is_initialised(stripe) {
            return None;
        }
        let map = volume.geometry().stripe_map(stripe);
        let late = volume.members.late();
        let copy = if volume.is_well(volume.region_of(stripe)) {
            volume.choose_copy(stripe, &map, index, bytes, |drive| !late.contains(drive))?
        } else {
            copy_beside_a_fault(volume, stripe, &map, index, bytes)?
        };
        let cell = map.data_cell(index, copy);
        self.add(volume, cell.drive, cell.offset + ByteCount(bytes.start.0), bytes.len)
    }

    /// Adds the next part, to the latest run of its drive if it is contiguous. `None`: there is no
    /// drive, or there are too many runs.
    fn add(
        &mut self,
        volume: &Recovery,
        drive: DriveIndex,
        offset: ByteOffset,
        len: ByteCount,
    ) -> Option<()> {
        let latest = self.runs.iter().rposition(|run| run.drive == drive);
        let goes_on = latest.filter(|run| {
            let run = &self.runs[*run];
            run.offset + run.len == offset && run.len + len <= LONGEST
        });
        match goes_on {
            Some(run) => self.runs[run].len += len,
            None if self.runs.len() == MOST_RUNS => return None,
            None => {
                let member = volume.members.get(drive)?;
                self.runs.push(Run::new(drive, member, offset, len));
            }
        }
        // Of one run there are no parts: its buffer is that of the request.
        match (&self.runs[..], self.parts.is_empty()) {
            ([_], _) => {}
            ([first, _], true) => self.parts.extend([(0, first.len), (1, len)]),
            _ => self.parts.push((goes_on.unwrap_or(self.runs.len() - 1) as u8, len)),
        }
        Some(())
    }

    /// The operation of a request with one run, which the caller starts: the drive, and the offset
    /// on it.
    pub(super) fn only_run(&mut self, volume: &Recovery) -> Option<(Rc<Member>, ByteOffset)> {
        let [run] = &self.runs[..] else { return None };
        self.left = 1;
        Some((run.member.clone(), volume.raw(run.offset)))
    }

    /// The operations of a read into `buf`.
    pub(super) fn reads(&mut self, volume: &Recovery, mut buf: Buf) -> DriveRequests {
        let cut = |len| {
            let rest = buf.split_off(len);
            std::mem::replace(&mut buf, rest)
        };
        let memory = self.memory(cut);
        self.operations(volume, memory, |offset, buffers| IoRequest::Read { offset, buffers })
    }

    /// Notes what a write writes.
    pub(super) fn note_written(&mut self, data: &Slice, durability: Durability) {
        self.written = Some((data.clone(), durability));
    }

    /// The operations of a write, whose data was given to [`Direct::note_written`].
    pub(super) fn writes(&mut self, volume: &Recovery) -> DriveRequests {
        let Some((mut data, durability)) = self.written.clone() else {
            unreachable!("a write has data");
        };
        let memory: SmallVec<[Slices; 1]> = match self.kind {
            Kind::Copies => self.runs.iter().map(|_| smallvec![data.clone()]).collect(),
            _ => self.memory(|len| take_slice(&mut data, len)),
        };
        self.operations(volume, memory, |offset, slices| IoRequest::Write {
            offset,
            slices,
            durability,
        })
    }

    /// The memory of each run; `cut` returns that of the next part of the request.
    fn memory<M>(&self, mut cut: impl FnMut(ByteCount) -> M) -> SmallVec<[SmallVec<[M; 2]>; 1]> {
        if let [run] = &self.runs[..] {
            assert_eq!(run.len, self.range.len, "one run is the whole request");
            return smallvec![smallvec![cut(run.len)]];
        }
        let parts: u64 = self.parts.iter().map(|(_, len)| len.0).sum();
        assert_eq!(parts, self.range.len.0, "the parts are the whole request");
        let mut memory: SmallVec<[SmallVec<[M; 2]>; 1]> =
            self.runs.iter().map(|_| SmallVec::new()).collect();
        for (run, len) in &self.parts {
            memory[usize::from(*run)].push(cut(*len));
        }
        memory
    }

    fn operations<M>(
        &mut self,
        volume: &Recovery,
        memory: SmallVec<[SmallVec<[M; 2]>; 1]>,
        request: impl Fn(ByteOffset, SmallVec<[M; 2]>) -> IoRequest,
    ) -> DriveRequests {
        self.left = self.runs.len();
        let started = self.runs.iter().zip(memory);
        started
            .map(|(run, memory)| DriveRequest {
                member: run.member.clone(),
                request: request(volume.raw(run.offset), memory),
                is_short: self.is_short,
            })
            .collect()
    }

    /// Whether redundancy can answer a read that its drive does not return soon.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// The bytes of the request.
    pub(super) fn range(&self) -> ByteRange {
        self.range
    }

    /// The operation of a run has returned. True: it was the last one. A drive that is gone or does
    /// not respond is out of use at once: no other request waits for it, and whether another drive
    /// is needed depends on it.
    pub(super) fn returned(&mut self, volume: &Rc<Cache>, run: usize, outcome: IoOutcome) -> bool {
        assert!(self.left > 0, "an operation returns once");
        self.left -= 1;
        let run = &mut self.runs[run];
        run.error = outcome.result.err();
        run.back = outcome.buffers;
        if let Some(error) = run.error.filter(is_gone)
            && volume.members.is_in_slot(run.drive, &run.member)
        {
            let operation = if self.kind == Kind::Read { "read" } else { "write" };
            volume.fail_drive(run.drive, error, operation);
        }
        let is_read = self.kind == Kind::Read;
        self.is_good &=
            run.error.is_none() && !(is_read && volume.any_punctured() && self.is_lost(volume));
        if self.left == 0 && is_read {
            self.is_good &= self.join_buffers();
        }
        self.left == 0
    }

    #[cold]
    fn is_lost(&self, volume: &Recovery) -> bool {
        stripes(volume.geometry(), self.range)
            .any(|(stripe, within)| volume.is_lost(stripe, within))
    }

    /// Whether it is done, and needs no task to be [finished](Direct::finish). All operations have
    /// returned.
    pub(super) fn is_complete(&self, volume: &Cache) -> bool {
        assert_eq!(self.left, 0, "all operations have returned");
        // Write-back may have been enabled meanwhile.
        let must_promise = || {
            let is_durable =
                self.written.as_ref().is_some_and(|(_, how)| *how == Durability::Durable);
            is_durable && volume.uses_write_back()
        };
        self.is_good && !(self.kind == Kind::Copies && must_promise())
    }

    /// Ends a request that is [complete](Direct::is_complete). A read gives its buffer.
    pub(super) fn complete(mut self: Box<Self>, volume: &Cache, spare: &Spare) -> Bufs {
        volume.count(|counters| counters.fast_path += 1);
        if self.kind == Kind::Copies {
            volume.note_written(self.place(volume).0, false);
        }
        let back = self.runs.first_mut().map(|run| std::mem::take(&mut run.back));
        spare.give(self);
        back.unwrap_or_default()
    }

    /// Joins the parts of a read: the first run has its buffer. False: a drive keeps a part of it.
    fn join_buffers(&mut self) -> bool {
        if let [run] = &self.runs[..] {
            return run.back.len() == 1;
        }
        let back = self.runs.iter_mut().map(|run| std::mem::take(&mut run.back).into_iter());
        let mut back: SmallVec<[_; 8]> = back.collect();
        let parts = self.parts.iter().map(|(run, _)| back[usize::from(*run)].next());
        let whole = parts.reduce(|whole, part| whole?.join(part?).ok()).flatten();
        self.runs[0].back.extend(whole);
        self.runs[0].back.len() == 1
    }

    /// The buffer of a read whose parts were joined.
    fn take_buffer(&mut self) -> Option<Buf> {
        self.runs.first_mut()?.back.pop()
    }

    /// Finishes it after the last operation, if it is not complete.
    pub(super) async fn finish(mut self: Box<Self>, volume: &Rc<Cache>) -> Finished {
        if self.kind == Kind::Copies {
            return Box::pin(self.finish_copies(volume)).await;
        }
        let gone = self.runs.iter().find_map(|run| run.error.filter(is_gone));
        match (gone, self.kind) {
            // It may still be in progress.
            (Some(error), Kind::Write) => Finished::Failed(error),
            _ => Finished::ByStripes(self.take_buffer()),
        }
    }

    /// Finishes a write that some copies lack, or that a data log must know of.
    async fn finish_copies(mut self: Box<Self>, volume: &Rc<Cache>) -> Finished {
        let (stripe, within) = self.place(volume);
        let Some((data, durability)) = self.written.take() else {
            unreachable!("a write has data");
        };
        let failed = self.runs.iter().filter_map(|run| Some((run, run.error?)));
        for (run, error) in failed {
            // The plan decides whether the write succeeds without this drive.
            let _ = volume.write_fault(run.drive, Some(&run.member), error);
        }
        let done = match self.is_good {
            true => Ok(()),
            false => put_after_copies(volume, stripe, within, data, durability).await,
        };
        drop(self);
        match written_alone(volume, stripe, durability, done).await {
            Ok(()) => {
                volume.count(|counters| counters.fast_path += 1);
                Finished::Done(None)
            }
            Err(error) => Finished::Failed(error),
        }
    }

    /// Starts the operations, and waits for them.
    pub(super) async fn run(
        mut self: Box<Self>,
        volume: &Rc<Cache>,
        spare: &Spare,
        requests: DriveRequests,
    ) -> Finished {
        let start = |op: DriveRequest| op.member.start_with(op.request, op.is_short);
        let started: SmallVec<[Io; 1]> = requests.into_iter().map(start).collect();
        for (run, io) in started.into_iter().enumerate() {
            self.returned(volume, run, io.await);
        }
        match self.is_complete(volume) {
            true => Finished::Done(self.complete(volume, spare).pop()),
            false => self.finish(volume).await,
        }
    }

    /// What a write writes, to repeat it by stripes.
    pub(super) fn written(&self) -> Option<(Slice, Durability)> {
        self.written.clone()
    }
}

/// The copy to read bytes of a strip from, in a volume with a fault that may be elsewhere.
fn copy_beside_a_fault(
    volume: &Recovery,
    stripe: StripeIndex,
    map: &StripeMap,
    index: DataIndex,
    bytes: ByteRange,
) -> Option<CopyIndex> {
    let region = volume.region_of(stripe);
    if volume.geometry().copies() > 1 && !volume.state().is_synced(region) {
        return None; // Copies may differ: only the designated one counts.
    }
    if volume.has_excluded(stripe) {
        return None; // A drive may not have kept the data written there.
    }
    let home = map.data_cell(index, CopyIndex(0));
    let lost = ByteRange::new(home.offset + ByteCount(bytes.start.0), bytes.len);
    if volume.state().is_punctured(home.drive, lost) || volume.relocated_in(region).is_some() {
        return None;
    }
    let readable = volume.in_service();
    let readable = readable.minus(&volume.members.late());
    let may = |drive| readable.contains(drive) && volume.is_current(drive, stripe);
    volume.choose_copy(stripe, map, index, bytes, may)
}

/// Whether all regions that a range touches are free of faults, and the whole range is initialised.
pub(super) fn is_well(volume: &Cache, range: ByteRange) -> bool {
    if volume.all_well.get() {
        return true;
    }
    let geometry = volume.geometry();
    let region_at = |at| volume.region_of(geometry.stripe_of(at).0).0;
    let regions =
        region_at(range.start)..=region_at(ByteOffset(range.end().0.max(range.start.0 + 1) - 1));
    let is_fine = |region| volume.is_well(region) && volume.state().is_region_initialised(region);
    // Without redundancy, non-owner writes rely on the whole volume.
    volume.is_redundant() && regions.map(RegionIndex).all(is_fine)
}
