//! What a replay writes to members, and what that changes in the lists of blocks.
//!
//! A block that a member refuses costs the member nothing: it is excluded, and its content is in the redundancy that the same
//! record has.

use crate::arrays::array::Array;
use crate::arrays::noting::note_change;
use crate::arrays::serve::volume_state;
use crate::arrays::volume::Volume;
use crate::inventory::access::{Access, join};
use engine::{Change, RegionSet, Regions};
use env::{IoError, IoErrorKind, Slice};
use layout::CopyIndex;
use log::Patch;
use ondisk::Label;
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};

/// Writes of a replay that are under way on one drive.
const AT_A_TIME: usize = 64;

/// Writes patches to members, and flushes these. Those that failed at it, by slot, and blocks that members refused.
pub(super) async fn carry_out(
    members: &BTreeMap<usize, Access>,
    data_start: ByteOffset,
    patches: Vec<Patch>,
) -> (BTreeMap<usize, IoError>, Vec<(usize, ByteRange)>) {
    let mut errors: BTreeMap<usize, IoError> = BTreeMap::new();
    let mut refused: Vec<(usize, ByteRange, Slice)> = Vec::new();
    let mut written: BTreeMap<usize, &Access> = BTreeMap::new();
    let mut patches = patches.into_iter();
    loop {
        let some: Vec<Patch> = patches.by_ref().take(AT_A_TIME).collect();
        if some.is_empty() {
            break;
        }
        let mut started = Vec::new();
        for Patch { slot, range, bytes } in some {
            let slot = usize::from(slot);
            let Some(access) = members.get(&slot).filter(|_| !errors.contains_key(&slot)) else { continue };
            let slice = bytes.map_or(Slice::zero(range.len), |bytes| env::Buf::copy_of(&bytes).freeze());
            let at = data_start + ByteCount(range.start.0);
            started.push((slot, access, range, slice.clone(), access.write_data(at, slice)));
            written.insert(slot, access);
        }
        for (slot, access, range, slice, write) in started {
            let result = match write.await.result {
                Err(error) if error.kind == IoErrorKind::Medium => {
                    write_by_sectors(access, data_start, range, &slice).await
                }
                result => result.map(|_| Vec::new()),
            };
            match result {
                Ok(sectors) => refused.extend(sectors.into_iter().map(|(at, slice)| (slot, at, slice))),
                Err(error) => drop(errors.insert(slot, error)),
            }
        }
    }
    let still_refused = write_once_more(members, data_start, refused, &mut errors).await;
    let flush = |(slot, access): (usize, &Access)| (slot, Some(access.member.flush()));
    let mut unflushed = join(written.into_iter().map(flush).collect()).await;
    // Without a volatile cache there is nothing to flush.
    unflushed.retain(|_, error| error.kind != IoErrorKind::NotSupported);
    errors.extend(unflushed);
    (errors, still_refused)
}

/// Writes the blocks that members refused once more, since a drive may have remapped them. A block is not excluded for a single refusal:
/// where the region is to be resynced, an excluded block is lost. Returns the blocks that are refused again.
async fn write_once_more(
    members: &BTreeMap<usize, Access>,
    data_start: ByteOffset,
    refused: Vec<(usize, ByteRange, Slice)>,
    errors: &mut BTreeMap<usize, IoError>,
) -> Vec<(usize, ByteRange)> {
    let mut still_refused = Vec::new();
    for (slot, place, slice) in refused {
        let Some(access) = members.get(&slot).filter(|_| !errors.contains_key(&slot)) else { continue };
        match access.write_data(data_start + ByteCount(place.start.0), slice).await.result {
            Ok(_) => {}
            Err(error) if error.kind == IoErrorKind::Medium => still_refused.push((slot, place)),
            Err(error) => drop(errors.insert(slot, error)),
        }
    }
    still_refused
}

/// Writes what a member refused, sector by sector. Returns the sectors that it refuses, with their content.
///
/// # Errors
/// Those that are not about the sectors.
async fn write_by_sectors(
    access: &Access,
    data_start: ByteOffset,
    range: ByteRange,
    slice: &Slice,
) -> std::result::Result<Vec<(ByteRange, Slice)>, IoError> {
    let sector = access.info().logical_sector.bytes();
    let mut refused = Vec::new();
    for at in (0..range.len.0).step_by(sector.as_usize()) {
        let part = slice.cut(ByteCount(at), sector.min(range.len - ByteCount(at)));
        let place = ByteRange::new(range.start + ByteCount(at), part.len());
        match access.write_data(data_start + ByteCount(place.start.0), part.clone()).await.result {
            Ok(_) => {}
            Err(error) if error.kind == IoErrorKind::Medium => refused.push((place, part)),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// What a replay changes in the lists of a volume's blocks.
#[derive(Default)]
pub(super) struct Written {
    /// Excluded blocks that were written, by slot.
    excluded: Vec<(usize, ByteRange)>,
    /// To be noted in the label with the journal's next identity.
    pub(super) changes: Vec<Change>,
}

impl Written {
    /// Blocks among those that are about to be written which are listed.
    pub(super) fn of(array: &Array, volume: &Volume, patches: &[Patch]) -> Written {
        let state = volume_state(array, volume);
        let (regions, strip) = (Regions::of(&volume.geometry), volume.geometry.strip().bytes());
        let mut written = Written::default();
        for Patch { slot, range, .. } in patches {
            let drive = DriveIndex(*slot);
            let excluded = state.excluded_within(drive, *range);
            written.excluded.extend(excluded.map(|excluded| (drive.as_usize(), excluded)));
            let mut rest = *range;
            while !rest.is_empty() {
                let cell_start = rest.start.align_down(strip);
                let part = ByteRange::from_to(rest.start, (cell_start + strip).min(rest.end()));
                rest = ByteRange::from_to(part.end(), rest.end());
                let Some(located) = volume.geometry.locate(drive, part.start) else { continue };
                let mut cells = state.map(&regions, located.stripe).cells();
                let cell = cells.find(|(cell, _)| cell.drive == drive && cell.offset == cell_start);
                let Some((_, layout::Role::Data { index, .. })) = cell else { continue };
                let home = volume.geometry.stripe_map(located.stripe).data_cell(index, CopyIndex(0));
                let named = ByteRange::new(home.offset + (part.start - cell_start), part.len);
                let ranges: Vec<ByteRange> = state.punctured_within(home.drive, named).collect();
                if !ranges.is_empty() {
                    written.changes.push(Change::Rewritten { slot: home.drive, ranges });
                }
            }
        }
        written
    }

    /// All was written and flushed but what members `refused`: these blocks are excluded, and those that were and can be read are so
    /// no more.
    pub(super) async fn look_at_excluded(
        &mut self,
        members: &BTreeMap<usize, Access>,
        data_start: ByteOffset,
        refused: Vec<(usize, ByteRange)>,
    ) {
        for (slot, range) in std::mem::take(&mut self.excluded) {
            let Some(access) = members.get(&slot) else { continue };
            let sector = access.info().logical_sector.bytes();
            for at in (0..range.len.0).step_by(sector.as_usize()) {
                let part = ByteRange::new(range.start + ByteCount(at), sector.min(range.len - ByteCount(at)));
                let is_refused = refused.iter().any(|(of, range)| *of == slot && range.overlaps(part));
                let place = ByteRange::new(data_start + ByteCount(part.start.0), part.len);
                if !is_refused && access.read(place).await.is_ok() {
                    let change = Change::Included { slot: DriveIndex(slot as u16), ranges: vec![part] };
                    self.changes.push(change);
                }
            }
        }
        for (slot, range) in refused {
            self.changes.push(Change::Excluded { slot: DriveIndex(slot as u16), ranges: vec![range] });
        }
    }

    /// Members whose refused blocks cannot be listed: these fail.
    pub(super) fn unlisted(&mut self, volume: &Volume, label: &Label) -> BTreeMap<usize, IoError> {
        let (mut next, mut failed) = (label.clone(), BTreeMap::new());
        self.changes.retain(|change| {
            let is_noted = note_change(&mut next, volume.uuid(), RegionSet::clone, change);
            if let (Change::Excluded { slot, .. }, false) = (change, is_noted) {
                failed.insert(slot.as_usize(), IoError::new(IoErrorKind::Medium));
            }
            is_noted
        });
        failed
    }
}
