//! Runs: a request over several strips, with one operation per contiguous range of a drive.
//!
//! A read of 1 MiB from eight drives with strips of 64 KiB is one run of 128 KiB on each of them:
//! eight operations instead of sixteen, each into several parts of the host's buffer. The same
//! applies to writes without redundancy. As on the fast path, this serves requests that need only
//! mapping; all others, and all failures here, take plans. So do copies by tasks, and the
//! layouts of a reshape.
//!
//! Each strip of a mirror is read from the copy that a read of it alone would use. A large read
//! that finds several copies idle uses all of them: each has a run of it.

use crate::cache::Cache;
use crate::host::split::{stripes, take_slice};
use crate::members::{Drives, is_gone};
use platform::locks::Mode;
use platform::{Buf, Durability, Io, IoError, Member, Slice};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};
use volume_state::RegionIndex;

/// The longest run: drives accept this much in one operation, and more gains nothing.
pub(super) const LONGEST: ByteCount = ByteCount::MIB;

/// The most runs of a request: the deadline of each starts when all of them begin.
const MOST_RUNS: usize = 64;

/// Contiguous bytes of a request on a drive.
struct Run {
    drive: DriveIndex,
    member: Rc<Member>,
    /// In the drive's part of the volume.
    offset: ByteOffset,
    len: ByteCount,
}

impl Run {
    /// Its operation failed: a drive that is gone is out of use from now on.
    fn failed(&self, volume: &Rc<Cache>, error: IoError, operation: &'static str) {
        if is_gone(&error) && volume.members.is_in_slot(self.drive, &self.member) {
            volume.fail_drive(self.drive, error, operation);
        }
    }
}

/// The places of a request on the drives.
#[derive(Default)]
struct Lying {
    runs: SmallVec<[Run; 8]>,
    /// The parts of the request in order: the run and the length of each.
    parts: SmallVec<[(usize, ByteCount); 16]>,
}

impl Lying {
    /// Adds the next part of the request, to the latest run of its drive if it is contiguous.
    /// `None`: there is no drive, or there are too many runs.
    fn add(
        &mut self,
        drives: &Drives,
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
            None => self.runs.push(Run { drive, member: drives.members.get(drive)?, offset, len }),
        }
        self.parts.push((goes_on.unwrap_or(self.runs.len() - 1), len));
        Some(())
    }

    /// Starts the operation of every run. `cut` returns the memory of the next part of the request.
    fn start<M>(
        &self,
        drives: &Drives,
        mut cut: impl FnMut(ByteCount) -> M,
        op: impl Fn(&Member, ByteOffset, SmallVec<[M; 2]>) -> Io,
    ) -> SmallVec<[Io; 8]> {
        let mut memory: SmallVec<[SmallVec<[M; 2]>; 8]> =
            self.runs.iter().map(|_| SmallVec::new()).collect();
        for (run, len) in &self.parts {
            memory[*run].push(cut(*len));
        }
        let started = self.runs.iter().zip(memory);
        started.map(|(run, memory)| op(&run.member, drives.raw(run.offset), memory)).collect()
    }
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

/// The places of a request on its drives; `None`: take plans.
fn lying(volume: &Cache, range: ByteRange) -> Option<Lying> {
    let geometry = volume.geometry();
    let strip = geometry.strip().bytes();
    let mut lying = Lying::default();
    let mut before = ByteCount::ZERO;
    for (stripe, within) in stripes(geometry, range) {
        if !volume.is_live(stripe) {
            return None;
        }
        let map = geometry.stripe_map(stripe);
        let mut rest = within;
        while !rest.is_empty() {
            let (index, at) = geometry.strip_of(ByteCount(rest.start.0));
            let bytes = ByteRange::new(ByteOffset(at.0), (strip - at).min(rest.len));
            rest = ByteRange::from_to(rest.start + bytes.len, rest.end());
            let share = volume.copy_by_share(&map, index, bytes, (before, range.len));
            let copy =
                share.or_else(|| volume.choose_copy(stripe, &map, index, bytes, |_| true))?;
            before += bytes.len;
            let cell = map.data_cell(index, copy);
            lying.add(volume, cell.drive, cell.offset + at, bytes.len)?;
        }
    }
    Some(lying)
}

/// Reads a range of several strips, whose [way](crate::host::way) is direct. `Err` with the buffer:
/// it needs plans; without: a drive kept some of it.
pub(super) async fn read(
    volume: &Rc<Cache>,
    range: ByteRange,
    mut buf: Buf,
) -> Result<Buf, Option<Buf>> {
    let Some(lying) = lying(volume, range) else { return Err(Some(buf)) };
    let cut = |len| {
        let rest = buf.split_off(len);
        std::mem::replace(&mut buf, rest)
    };
    let started = lying.start(volume, cut, |member, offset, buffers| member.read(offset, buffers));
    drop(buf);
    let mut is_read = true;
    let mut back: SmallVec<[_; 8]> = SmallVec::new();
    for (io, run) in started.into_iter().zip(&lying.runs) {
        let outcome = io.await;
        if let Err(error) = outcome.result {
            is_read = false;
            run.failed(volume, error, "read");
        }
        back.push(outcome.buffers.into_iter());
    }
    let parts = lying.parts.iter().map(|(run, _)| back[*run].next());
    let whole = parts.reduce(|whole, part| whole?.join(part?).ok()).flatten();
    // Data given up during the read may be zeroes.
    let is_lost =
        || stripes(volume.geometry(), range).any(|(stripe, within)| volume.is_lost(stripe, within));
    match whole {
        Some(whole) if is_read && !is_lost() => {
            volume.count(|counters| counters.fast_path += 1);
            Ok(whole)
        }
        whole => Err(whole),
    }
}

/// Writes a range of several strips, whose [way](crate::host::way) is direct. `None`: it needs
/// plans.
pub(super) async fn write(
    volume: &Rc<Cache>,
    range: ByteRange,
    data: &Slice,
    durability: Durability,
) -> Option<Result<(), IoError>> {
    let lying = lying(volume, range)?;
    // As on the fast path; it never waits for one stripe lock while it holds another.
    let mut held: SmallVec<[_; 4]> = SmallVec::new();
    let mut beside = None;
    for (stripe, within) in stripes(volume.geometry(), range) {
        let guard = match volume.is_mine(stripe) {
            true => {
                let (key, columns) = (volume.lock_key(stripe), volume.columns(stripe, within));
                Some(volume.shard.locks().try_lock_columns(key, Mode::Shared, columns)?)
            }
            false if beside.is_none() => {
                beside = Some(volume.write_beside()?);
                None
            }
            false => None,
        };
        held.push((guard, volume.begin_change(stripe, within)));
    }
    let mut rest = data.clone();
    let cut = |len| take_slice(&mut rest, len);
    let started =
        lying.start(volume, cut, |member, offset, slices| member.write(offset, slices, durability));
    let (mut failed, mut gone) = (false, None);
    for (io, run) in started.into_iter().zip(&lying.runs) {
        let Err(error) = io.await.result else { continue };
        failed = true;
        // It may still be in progress: a retry could reach the drive after a later write (rule
        // (d)).
        gone = gone.or(Some(error).filter(is_gone));
        run.failed(volume, error, "write");
    }
    match (gone, failed) {
        (Some(error), _) => Some(Err(error)),
        (None, true) => None,
        (None, false) => {
            volume.count(|counters| counters.fast_path += 1);
            Some(Ok(()))
        }
    }
}
