//! The reshape: moves a volume to another layout on the same drives, window by window, while hosts
//! use it.
//!
//! The controller orders each step ([`volume_state::Mover`]); this module decides nothing. A
//! reshape has three volumes: the old layout, the new one, and the save area. Each has its own
//! state, marks and journal, so that windows are read and written like other data, also on degraded
//! arrays. Both layouts know which of their stripes are in use before data moves; tasks and repairs
//! skip all others.
//!
//! Moved data is *initialised* by whole stripes, one plan each: the redundancy at its target agrees
//! with nothing before, although its region is trusted. A write split for the journal, as on a
//! degraded array, would use that redundancy.
//!
//! Lost blocks do not stop the move: they are listed as lost in the new layout as well.
//!
//! No rebuild, resync or check runs on these volumes meanwhile: the stripes in use would change
//! below it.

use crate::attachment::{CopyWay, ReshapeOrder};
use crate::host::{Moving, Volume, take_back_reshape};
use platform::{Buf, IoError, IoErrorKind, Slice};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet};
use volume_state::{RegionIndex, RegionSet, Window};

/// The size of a copy step; at least one stripe. All drives are read, then all are written: larger
/// steps need fewer seeks.
const AT_A_TIME: u64 = 64 << 20;

/// A step is read in pieces of this size, in order, with a limited number in progress: a disk with
/// all of them queued would seek, since the pieces skip parity.
const PIECE: u64 = 4 << 20;
const PIECES: usize = 3;

/// Executes a step on this shard. The caller has entered the volume.
///
/// # Errors
/// When the volume is not reshaping, or a part of a window cannot be read or written.
pub(crate) async fn reshape(volume: &Rc<Volume>, order: ReshapeOrder) -> Result<(), IoError> {
    let Some(moving) = volume.moving() else {
        let is_so = matches!(order, ReshapeOrder::TakeBack);
        return if is_so { Ok(()) } else { Err(IoError::new(IoErrorKind::Invalid)) };
    };
    let env = volume.shard().env();
    match order {
        ReshapeOrder::Begin(_) => Err(IoError::new(IoErrorKind::Invalid)),
        ReshapeOrder::Reserve(bytes) => {
            let stripe = moving.reshape.to().stripe_bytes().0;
            let stripes = bytes.0.div_ceil(stripe).min(stripes_at_a_time(volume, stripe));
            moving.reserve(volume, ByteCount(stripe * stripes)).await;
            Ok(())
        }
        ReshapeOrder::Close(window) => {
            moving.close(env, &window).await;
            Ok(())
        }
        ReshapeOrder::Free { window, is_saved } => free(volume, &moving, &window, is_saved).await,
        ReshapeOrder::Copy(window, way) => copy(volume, &moving, &window, way).await,
        ReshapeOrder::Keep(window) => keep(volume, &moving, &window).await,
        ReshapeOrder::Widen(stripes) => {
            let stripe = moving.to.geometry().stripe_bytes().0;
            let end = range_of(&moving.to, &stripes).end().0.div_ceil(stripe);
            moving.to.set_live(0..end);
            Ok(())
        }
        ReshapeOrder::Fill(stripes) => fill(volume, &moving, stripes).await,
        ReshapeOrder::Open(moved) => {
            give_back(volume, &moving, moved).await;
            moving.open(env, moved).await;
            Ok(())
        }
        ReshapeOrder::TakeBack if !moving.moved().is_zero() => {
            Err(IoError::new(IoErrorKind::Invalid))
        }
        ReshapeOrder::TakeBack => {
            give_back(volume, &moving, ByteCount::ZERO).await;
            moving.open(env, ByteCount::ZERO).await;
            take_back_reshape(volume);
            Ok(())
        }
        ReshapeOrder::Leave { is_saved } => {
            if !is_saved {
                give_back(volume, &moving, moving.moved()).await;
            }
            moving.leave(env, is_saved);
            Ok(())
        }
    }
}

/// The place of the window is overwritten: its old stripes go out of use, its new ones come into
/// use.
async fn free(
    volume: &Rc<Volume>,
    moving: &Moving,
    window: &Window,
    is_saved: bool,
) -> Result<(), IoError> {
    let reshape = &moving.reshape;
    let needed = if is_saved { reshape.after(window) } else { reshape.before(window) };
    volume.confine_to(moving.reshape.old_stripes(needed)).await;
    hand_over(volume, moving, window).await
}

/// Invalidates all records of a window's old stripes, and brings its new stripes into use.
async fn hand_over(volume: &Rc<Volume>, moving: &Moving, window: &Window) -> Result<(), IoError> {
    // A replay would write them again, on any log device. Flushed data is on the drives, by the
    // remaining layout.
    volume.revoke_records().await?;
    volume.revoke_promises().await?;
    moving.to.set_live(moving.reshape.new_stripes(moving.reshape.after(window)));
    Ok(())
}

/// All but this many bytes belong to the old layout alone. A failed step may have handed them over
/// already: a repair by the new layout would overwrite later host writes.
async fn give_back(volume: &Volume, moving: &Moving, moved: ByteCount) {
    moving.to.confine_to(moving.reshape.new_stripes(moved)).await;
    volume.confine_to(moving.reshape.old_stripes(moved)).await;
}

/// The window stays in place, and belongs to the new layout from now on.
async fn keep(volume: &Rc<Volume>, moving: &Moving, window: &Window) -> Result<(), IoError> {
    if !moving.reshape.is_in_place() {
        return Err(IoError::new(IoErrorKind::Invalid));
    }
    volume.confine_to(moving.reshape.old_stripes(moving.reshape.after(window))).await;
    // The window may contain acknowledged data, and flushes of the old layout end with the reshape.
    volume.make_durable().await?;
    // Checked last: a drive that fails in this flush is known to the old layout alone.
    if !is_whole(volume, window) {
        return Err(IoError::new(IoErrorKind::Invalid));
    }
    // The new layout may have cached data of a failed attempt: hosts may have written there since.
    moving.to.forget_read(window.stripes.clone()).await;
    hand_over(volume, moving, window).await
}

/// Whether a window has full redundancy on all drives in the old layout: the new one has no record
/// of faults there.
fn is_whole(volume: &Volume, window: &Window) -> bool {
    let (state, regions) = (volume.recorded_state(), volume.layout());
    let all = DriveSet::first(volume.geometry().drives());
    let stripe = |at: ByteOffset| volume.geometry().stripe_of(at).0;
    let last = ByteOffset(window.bytes.end().0.saturating_sub(1));
    let first = regions.region_of(stripe(window.bytes.start));
    let end = regions.region_of(stripe(last)).0 + 1;
    let own = RegionSet::from_runs([[first.0, end]]);
    let is_current = (first.0..end).all(|region| state.stale_in(RegionIndex(region)).is_empty());
    let is_at_home = state.relocated().is_none() && state.punctured_somewhere().is_empty();
    let is_initialised = |region| state.is_region_initialised(RegionIndex(region));
    let is_known =
        state.unsynced().intersection(&own).is_empty() && (first.0..end).all(is_initialised);
    volume.in_service() == all
        && is_current
        && is_at_home
        && is_known
        && state.being_replaced().is_empty()
}

/// Fills stripes of the new layout with zeroes.
async fn fill(volume: &Volume, moving: &Moving, stripes: Range<u64>) -> Result<(), IoError> {
    let to = &moving.to;
    let _to = to.enter()?;
    let stripe = moving.reshape.to().stripe_bytes().0;
    let at_a_time = stripes_at_a_time(volume, stripe) * stripe;
    let all = range_of(to, &stripes);
    let mut next = all.start.0;
    while next < all.end().0 {
        let end = (next / stripe * stripe + at_a_time).min(all.end().0);
        let range = ByteRange::from_to(ByteOffset(next), ByteOffset(end));
        to.lay_entered(range, Slice::zero(range.len)).await?;
        next = end;
    }
    moving.to.make_durable().await
}

/// The byte range of stripes in an order. Orders count stripes of the recorded layout; mirrors are
/// served in longer ones ([`served`](crate::served)).
fn range_of(to: &Volume, stripes: &Range<u64>) -> ByteRange {
    let stripe = to.spec().geometry.stripe_bytes().0;
    ByteRange::from_to(ByteOffset(stripes.start * stripe), ByteOffset(stripes.end * stripe))
}

/// How many stripes of that length are read and written at a time. Two reshapes in parallel leave
/// hosts half of the memory.
fn stripes_at_a_time(volume: &Volume, stripe: u64) -> u64 {
    (AT_A_TIME.min(volume.shard().payload_total().0 / 4) / stripe).max(1)
}

/// Copies a window, whole stripes of the new layout at a time.
async fn copy(
    volume: &Rc<Volume>,
    moving: &Moving,
    window: &Window,
    way: CopyWay,
) -> Result<(), IoError> {
    let (from, to) = match way {
        CopyWay::Save => (volume, &moving.save),
        CopyWay::Move => (volume, &moving.to),
        CopyWay::MoveSaved => (&moving.save, &moving.to),
    };
    if !moving.has_reserved() {
        return Err(IoError::new(IoErrorKind::Invalid));
    }
    let (_from, _to) = (from.enter()?, to.enter()?);
    let stripe = moving.reshape.to().stripe_bytes().0;
    let at_a_time = stripes_at_a_time(volume, stripe);
    let mut next = window.stripes.start;
    let mut lost = Vec::new();
    while next < window.stripes.end {
        let end = (next + at_a_time).min(window.stripes.end);
        let whole = ByteRange::from_to(ByteOffset(next * stripe), ByteOffset(end * stripe));
        let (from, to) = ((from, way == CopyWay::MoveSaved), (to, way == CopyWay::Save));
        lost.extend(copy_stripes(volume, window, from, to, whole).await?);
        next = end;
    }
    // List the sectors at their new place too. The writes cleared their entries: list them after
    // the writes, and before any record relies on it.
    to.carry_lost(&lost).await?;
    to.make_durable().await
}

/// Copies whole stripes of a window. Bytes past the volume's end are zeroes. `saved`: a side's
/// bytes are counted from the start of the window. Returns the lost ranges at the target.
async fn copy_stripes(
    volume: &Rc<Volume>,
    window: &Window,
    (from, from_saved): (&Rc<Volume>, bool),
    (to, to_saved): (&Rc<Volume>, bool),
    whole: ByteRange,
) -> Result<Vec<ByteRange>, IoError> {
    let place = |range: ByteRange, is_saved: bool| match is_saved {
        true => ByteRange::new(ByteOffset(range.start.0 - window.bytes.start.0), range.len),
        false => range,
    };
    let shard = volume.shard();
    let mut buf = shard.env().pool().take_reserved(whole.len);
    let bytes = whole.intersection(window.bytes);
    let mut behind = buf.split_off(bytes.len);
    behind.bytes_mut().fill(0);
    let mut found = read_in_order(from, place(bytes, from_saved), buf).await?;
    found.parts.push(behind);
    let parts = found.parts.into_iter().filter(|part| part.len() > ByteCount::ZERO);
    let data = volume.put_together(parts).filter(|data| data.len() == whole.len);
    let data = data.ok_or(IoError::new(IoErrorKind::TimedOut))?;
    to.lay_entered(place(whole, to_saved), data.freeze()).await?;
    let distance = place(bytes, from_saved).start;
    let written = |lost: ByteRange| {
        let at = bytes.start + ByteCount(lost.start.0 - distance.0);
        place(ByteRange::new(at, lost.len), to_saved)
    };
    Ok(found.lost.into_iter().map(written).collect())
}

/// The data that was read, in parts, and the lost sectors in it.
#[derive(Default)]
struct Found {
    parts: Vec<Buf>,
    lost: Vec<ByteRange>,
}

/// A range in pieces that begin at stripes of its layout, with parts of one buffer.
fn pieces(from: &Volume, range: ByteRange, mut buf: Buf) -> VecDeque<(usize, ByteRange, Buf)> {
    let stripe = from.geometry().stripe_bytes();
    let piece = stripe * (PIECE / stripe.0).max(1);
    let (mut all, mut rest) = (VecDeque::new(), range);
    while !rest.is_empty() {
        let end = (rest.start + ByteCount(1)).align_up(piece).min(rest.end());
        let first = ByteRange::from_to(rest.start, end);
        rest = ByteRange::from_to(end, rest.end());
        let behind = buf.split_off(first.len);
        all.push_back((all.len(), first, std::mem::replace(&mut buf, behind)));
    }
    all
}

/// Reads a range, some pieces at a time.
///
/// # Errors
/// Those of [`read_around`], after all reads have ended.
async fn read_in_order(from: &Rc<Volume>, range: ByteRange, buf: Buf) -> Result<Found, IoError> {
    let left = Rc::new(RefCell::new(pieces(from, range, buf)));
    let found: Vec<Option<Result<Found, IoError>>> = left.borrow().iter().map(|_| None).collect();
    let found = Rc::new(RefCell::new(found));
    let readers = (0..PIECES).map(|_| {
        let (from, left, found) = (from.clone(), left.clone(), found.clone());
        let env = from.shard().env().clone();
        env.spawn("read what is moved", async move {
            loop {
                let next = left.borrow_mut().pop_front();
                let Some((number, piece, buf)) = next else { break };
                let mut here = Found::default();
                let read = read_around(&from, piece, buf, &mut here).await;
                if read.is_err() {
                    // Hosts wait for all of this.
                    left.borrow_mut().clear();
                }
                found.borrow_mut()[number] = Some(read.map(|()| here));
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await;
    }
    let mut all = Found::default();
    for here in found.take().into_iter().flatten() {
        let Found { parts, lost } = here?;
        all.parts.extend(parts);
        all.lost.extend(lost);
    }
    Ok(all)
}

/// Whether an unreadable sector is lost for good: it is listed as lost, or no absent drive may have
/// it and stale parity that was accepted cannot restore it.
fn is_lost(from: &Volume, sector: ByteRange) -> bool {
    let (stripe, within) = from.geometry().stripe_of(sector.start);
    let health = from.stripe_health(stripe, &DriveSet::EMPTY);
    let everybody_is_here = health.readable.contains_first(from.geometry().drives());
    let is_listed =
        !from.lost_within(stripe, ByteRange::new(ByteOffset(within.0), sector.len)).is_empty();
    is_listed || (everybody_is_here && health.parity_trusted)
}

/// Reads all readable data; sectors with lost content become zeroes.
///
/// # Errors
/// When data cannot be read for another reason, or may become readable.
async fn read_around(
    from: &Rc<Volume>,
    range: ByteRange,
    buf: Buf,
    found: &mut Found,
) -> Result<(), IoError> {
    let (read, back) = from.read_to_copy(range, buf).await;
    let back = back.filter(|back| back.len() == range.len);
    let mut buf = back.ok_or(IoError::new(IoErrorKind::TimedOut))?;
    let sector = from.spec().sector.bytes();
    match read {
        Ok(()) => found.parts.push(buf),
        Err(error) if error.kind != IoErrorKind::Medium => return Err(error),
        Err(error) if range.len <= sector && !is_lost(from, range) => return Err(error),
        Err(_) if range.len <= sector => {
            buf.bytes_mut().fill(0);
            found.parts.push(buf);
            found.lost.push(range);
        }
        Err(_) => {
            let middle = (range.start + ByteCount(range.len.0 / 2)).align_up(sector);
            let behind = buf.split_off(middle - range.start);
            Box::pin(read_around(from, ByteRange::from_to(range.start, middle), buf, found))
                .await?;
            Box::pin(read_around(from, ByteRange::from_to(middle, range.end()), behind, found))
                .await?;
        }
    }
    Ok(())
}
