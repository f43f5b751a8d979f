//! FastPath: the short path for requests that need only mapping.
//!
//! A read inside one strip with current data, and a write inside one strip without redundancy or
//! with copies only, is mapped and issued without a plan or a wait. [`way`](crate::host::way) says
//! which requests come here; what fails here continues by plans. While a volume has a fault (a
//! drive offline or rebuilding, unsynced regions, lost blocks), reads outside the fault still use
//! FastPath.
//!
//! Budget: 50 ns beyond the drive's own time.

use crate::attachment::Beside;
use crate::cache::{Cache, put_copies};
use crate::members::is_gone;
use crate::recovery::Recovery;
use layout::{CopyIndex, DataIndex, StripeMap};
use platform::locks::{Guard, Mode};
use platform::{Buf, Durability, IoError, Member, Slice};
use smallvec::smallvec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex, StripeIndex};

/// The place of a range inside one strip.
pub(super) struct Spot {
    pub(super) drive: DriveIndex,
    pub(super) member: Rc<Member>,
    /// On the raw drive.
    pub(super) offset: ByteOffset,
}

impl Spot {
    /// The operation on the drive failed. A drive that is gone or does not respond is out of use
    /// from now on, so that no other request waits for it.
    pub(super) fn failed(&self, volume: &Rc<Cache>, error: IoError, operation: &'static str) {
        if is_gone(&error) && volume.members.is_in_slot(self.drive, &self.member) {
            volume.fail_drive(self.drive, error, operation);
        }
    }
}

/// The locks of a write without redundancy.
enum Writer {
    /// The stripe belongs to this shard.
    Owner { _held: Guard },
    /// The stripe belongs to another shard; a non-owner write does not involve it.
    Another { _beside: Beside },
}

/// The drive and offset to read a range inside one strip directly. `None`: it needs more, or is in
/// several strips.
pub(super) fn spot_to_read(volume: &Recovery, range: ByteRange) -> Option<Spot> {
    let geometry = volume.geometry();
    let (stripe, within) = geometry.stripe_of(range.start);
    let (index, at) = geometry.strip_of(within);
    // The place of a stripe not in use belongs to another layout: a plan refuses it.
    if at.0 + range.len.0 > geometry.strip().bytes().0 || !volume.is_live(stripe) {
        return None;
    }
    let map = geometry.stripe_map(stripe);
    let bytes = ByteRange::new(ByteOffset(at.0), range.len);
    if !volume.is_initialised(stripe) {
        return None; // It reads as zeros, unless its owner has initialised it.
    }
    let late = volume.members.late();
    let copy = if volume.is_well(volume.region_of(stripe)) {
        volume.choose_copy(stripe, &map, index, bytes, |drive| !late.contains(drive))?
    } else {
        copy_in_doubt(volume, stripe, &map, index, bytes)?
    };
    let cell = map.data_cell(index, copy);
    let member = volume.members.get(cell.drive)?;
    Some(Spot { drive: cell.drive, member, offset: volume.raw(cell.offset) + at })
}

/// The same for a volume with a fault that may be elsewhere.
fn copy_in_doubt(
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

/// Whether data just read inside one strip may be zeroes, because it was given up during the read.
pub(super) fn was_lost(volume: &Recovery, range: ByteRange) -> bool {
    let (stripe, within) = volume.geometry().stripe_of(range.start);
    volume.is_lost(stripe, ByteRange::new(ByteOffset(within.0), range.len))
}

/// Reads bytes of one strip, whose [way](crate::host::way) is direct. `Err` with the buffer: it
/// needs a plan; without: a drive kept the buffer.
pub(super) async fn read(
    volume: &Rc<Cache>,
    range: ByteRange,
    buf: Buf,
) -> Result<Buf, Option<Buf>> {
    let Some(spot) = spot_to_read(volume, range) else { return Err(Some(buf)) };
    let io = match volume.is_had_elsewhere(spot.drive) {
        true => spot.member.read_or_late(spot.offset, smallvec![buf]),
        false => spot.member.read(spot.offset, smallvec![buf]),
    };
    let mut outcome = io.await;
    if let Err(error) = outcome.result {
        spot.failed(volume, error, "read");
    }
    let buf = outcome.buffers.pop();
    match (outcome.result, buf) {
        (Ok(_), Some(buf)) if !was_lost(volume, range) => {
            volume.count(|counters| counters.fast_path += 1);
            Ok(buf)
        }
        (_, buf) => Err(buf),
    }
}

/// Writes bytes of one strip without redundancy, whose [way](crate::host::way) is direct. `None`:
/// it needs a plan.
pub(super) async fn write(
    volume: &Rc<Cache>,
    range: ByteRange,
    data: &Slice,
    durability: Durability,
) -> Option<Result<(), IoError>> {
    let spot = spot_to_read(volume, range)?;
    // Writes that complete a sector use the lock, which is on the stripe's owner.
    let (stripe, within) = volume.geometry().stripe_of(range.start);
    let _guard = if volume.is_mine(stripe) {
        let columns = volume.columns(stripe, ByteRange::new(ByteOffset(within.0), range.len));
        let key = volume.lock_key(stripe);
        Writer::Owner { _held: volume.shard.locks().try_lock_columns(key, Mode::Shared, columns)? }
    } else {
        Writer::Another { _beside: volume.write_beside()? }
    };
    let _changing = volume.begin_change(stripe, ByteRange::new(ByteOffset(within.0), range.len));
    let io = spot.member.write(spot.offset, smallvec![data.clone()], durability);
    match io.await.result {
        Ok(_) => {
            volume.count(|counters| counters.fast_path += 1);
            Some(Ok(()))
        }
        // It may still be in progress: a retry could reach the drive after a later write (rule
        // (d)).
        Err(error) if is_gone(&error) => {
            spot.failed(volume, error, "write");
            Some(Err(error))
        }
        Err(_) => None,
    }
}

/// Writes bytes that [may go to every copy](crate::host::way) of a mirror. `None`: they need a
/// plan.
pub(super) async fn write_copies(
    volume: &Rc<Cache>,
    range: ByteRange,
    data: &Slice,
    durability: Durability,
) -> Option<Result<(), IoError>> {
    let (stripe, within) = volume.geometry().stripe_of(range.start);
    let within = ByteRange::new(ByteOffset(within.0), range.len);
    let done = put_copies(volume, stripe, within, data, durability).await?;
    volume.count(|counters| counters.fast_path += u64::from(done.is_ok()));
    Some(done)
}
