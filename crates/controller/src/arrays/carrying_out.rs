//! The writes of a replay to members, and the resulting changes of the block lists.
//!
//! A member stays in use when it refuses a block. The block is excluded from reads, and the
//! redundancy in the same record holds its content. Where other blocks of its columns are missing
//! too, and redundancy restores only one of them, the refused block is punctured: parity is
//! computed as if it were zeros, and restores the others.

use crate::arrays::array::Array;
use crate::arrays::noting::note_change;
use crate::arrays::serve::volume_state;
use crate::arrays::volume::Volume;
use crate::inventory::access::{Access, join};
use engine::{Change, RegionIndex, RegionSet, Regions, VolumeState};
use layout::{Cell, CopyIndex, DataIndex, Role, StripeMap};
use ondisk::Label;
use platform::{IoError, IoErrorKind, Slice};
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};
use write_log::Patch;

/// Outstanding writes of a replay per drive.
const AT_A_TIME: usize = 64;

/// A block that a member refused to write, and its content.
pub(super) struct Refused {
    slot: usize,
    range: ByteRange,
    bytes: Slice,
}

impl Refused {
    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.range.len.as_usize()];
        self.bytes.copy_to(&mut content);
        content
    }
}

/// Writes patches to members, and flushes these. Returns members that failed, by slot, and blocks
/// that members refused.
pub(super) async fn carry_out(
    members: &BTreeMap<usize, Access>,
    data_start: ByteOffset,
    patches: Vec<Patch>,
) -> (BTreeMap<usize, IoError>, Vec<Refused>) {
    let mut errors: BTreeMap<usize, IoError> = BTreeMap::new();
    let mut refused: Vec<Refused> = Vec::new();
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
            let Some(access) = members.get(&slot).filter(|_| !errors.contains_key(&slot)) else {
                continue;
            };
            let slice = bytes
                .map_or(Slice::zero(range.len), |bytes| platform::Buf::copy_of(&bytes).freeze());
            let at = data_start + ByteCount(range.start.0);
            started.push((slot, access, range, slice.clone(), access.write_data(at, slice)));
            written.insert(slot, access);
        }
        for (slot, access, range, slice, write) in started {
            let at = data_start + ByteCount(range.start.0);
            let written = match write.await.result {
                Err(error) if error.kind == IoErrorKind::Busy => access.put_data(at, &slice).await,
                result => result.map(drop),
            };
            let result = match written {
                Err(error) if error.is_refusal() => {
                    write_by_sectors(access, data_start, range, &slice).await
                }
                result => result.map(|_| Vec::new()),
            };
            match result {
                Ok(sectors) => refused.extend(sectors.into_iter().map(|(range, bytes)| Refused {
                    slot,
                    range,
                    bytes,
                })),
                Err(error) => drop(errors.insert(slot, error)),
            }
        }
    }
    let still_refused = write_once_more(members, data_start, refused, &mut errors).await;
    errors.extend(flush(written).await);
    (errors, still_refused)
}

/// Flushes members. Returns those that failed.
async fn flush(members: BTreeMap<usize, &Access>) -> BTreeMap<usize, IoError> {
    let flush = |(slot, access): (&usize, &&Access)| (*slot, Some(access.member.flush()));
    let mut unflushed = join(members.iter().map(flush).collect()).await;
    let is_busy = |(_, error): &(&usize, &IoError)| error.kind == IoErrorKind::Busy;
    let busy: Vec<usize> = unflushed.iter().filter(is_busy).map(|(slot, _)| *slot).collect();
    for slot in busy {
        let Some(access) = members.get(&slot) else { continue };
        let flush = async || access.member.flush().await.result;
        match access.until_not_busy(flush).await {
            Ok(_) => drop(unflushed.remove(&slot)),
            Err(error) => drop(unflushed.insert(slot, error)),
        }
    }
    // Without a volatile cache there is nothing to flush.
    unflushed.retain(|_, error| error.kind != IoErrorKind::NotSupported);
    unflushed
}

/// Retries the refused blocks once, since a drive may have remapped them. One refusal does not
/// exclude a block: in a region with a pending resync, an excluded block is lost. Returns the
/// blocks that are refused again and do not hold the content already: an earlier process may have
/// written it.
async fn write_once_more(
    members: &BTreeMap<usize, Access>,
    data_start: ByteOffset,
    refused: Vec<Refused>,
    errors: &mut BTreeMap<usize, IoError>,
) -> Vec<Refused> {
    let mut still_refused = Vec::new();
    for block in refused {
        let Some(access) = members.get(&block.slot).filter(|_| !errors.contains_key(&block.slot))
        else {
            continue;
        };
        let at = data_start + ByteCount(block.range.start.0);
        match access.put_data(at, &block.bytes).await {
            Ok(()) => {}
            Err(error) if error.is_refusal() => {
                let held = access.read(ByteRange::new(at, block.range.len)).await;
                if !held.is_ok_and(|held| held == block.content()) {
                    still_refused.push(block);
                }
            }
            Err(error) => drop(errors.insert(block.slot, error)),
        }
    }
    still_refused
}

/// Writes a refused range sector by sector. Returns the sectors that the member refuses, with their
/// content.
///
/// # Errors
/// Errors that do not concern single sectors.
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
        match access.put_data(data_start + ByteCount(place.start.0), &part).await {
            Ok(()) => {}
            Err(error) if error.is_refusal() => refused.push((place, part)),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// The changes that a replay makes to the block lists of a volume.
#[derive(Default)]
pub(super) struct Written {
    /// Excluded blocks that were written, by slot.
    excluded: Vec<(usize, ByteRange)>,
    /// Changes to record in the label with the journal's next identity.
    pub(super) changes: Vec<Change>,
}

impl Written {
    /// The listed blocks among those that the patches write.
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
                let Some((_, Role::Data { index, .. })) = cell else { continue };
                let home =
                    volume.geometry.stripe_map(located.stripe).data_cell(index, CopyIndex(0));
                let named = ByteRange::new(home.offset + (part.start - cell_start), part.len);
                let ranges: Vec<ByteRange> = state.punctured_within(home.drive, named).collect();
                if !ranges.is_empty() {
                    written.changes.push(Change::Rewritten { slot: home.drive, ranges });
                }
            }
        }
        written
    }

    /// All blocks were written and flushed except those that members `refused`: these become
    /// excluded. Excluded blocks that were written and can be read are excluded no more.
    async fn look_at_excluded(
        &mut self,
        members: &BTreeMap<usize, Access>,
        data_start: ByteOffset,
        refused: Vec<Refused>,
    ) {
        for (slot, range) in std::mem::take(&mut self.excluded) {
            let Some(access) = members.get(&slot) else { continue };
            let sector = access.info().logical_sector.bytes();
            for at in (0..range.len.0).step_by(sector.as_usize()) {
                let part = ByteRange::new(
                    range.start + ByteCount(at),
                    sector.min(range.len - ByteCount(at)),
                );
                let is_refused =
                    refused.iter().any(|of| of.slot == slot && of.range.overlaps(part));
                let place = ByteRange::new(data_start + ByteCount(part.start.0), part.len);
                if !is_refused && access.read(place).await.is_ok() {
                    let change =
                        Change::Included { slot: DriveIndex(slot as u16), ranges: vec![part] };
                    self.changes.push(change);
                }
            }
        }
        for Refused { slot, range, .. } in refused {
            self.changes
                .push(Change::Excluded { slot: DriveIndex(slot as u16), ranges: vec![range] });
        }
    }

    /// Records the new state of the blocks that members `refused`, and of those that were excluded
    /// before. Returns members that failed, by slot.
    pub(super) async fn deal_with_refused(
        &mut self,
        (array, volume): (&Array, &Volume),
        members: &BTreeMap<usize, Access>,
        data_start: ByteOffset,
        refused: Vec<Refused>,
    ) -> BTreeMap<usize, IoError> {
        let mut errors = self.puncture_refused(array, volume, members, &refused).await;
        self.look_at_excluded(members, data_start, refused).await;
        errors.extend(self.unlisted(volume, &array.label()));
        errors
    }

    /// Punctures the refused data blocks that redundancy cannot restore, because other blocks of
    /// their columns are missing. Parity, which counts their intended content, counts zeros
    /// afterwards. An interrupted replay starts again with the parity of its records. Returns
    /// members that failed, by slot.
    async fn puncture_refused(
        &mut self,
        array: &Array,
        volume: &Volume,
        members: &BTreeMap<usize, Access>,
        refused: &[Refused],
    ) -> BTreeMap<usize, IoError> {
        let state = volume_state(array, volume);
        let data_start = ByteOffset(volume.label().data_start_bytes);
        let (mut errors, mut written) = (BTreeMap::new(), BTreeMap::new());
        for Refused { slot, range, bytes } in refused {
            let column = Column::of(volume, &state, DriveIndex(*slot as u16), *range);
            let Some(column) = column.filter(|column| !column.gives_back(&state, members, refused))
            else {
                continue;
            };
            let mut is_followed = true;
            for (cell, role) in column.parity() {
                let slot = cell.drive.as_usize();
                let Some(access) = members.get(&slot) else { continue };
                let place = ByteRange::new(
                    data_start + ByteCount((cell.offset + column.within).0),
                    range.len,
                );
                match count_as_zeros(access, place, (&column, role), bytes).await {
                    Ok(()) => drop(written.insert(slot, access)),
                    Err(error) if error.is_refusal() => is_followed = false,
                    Err(error) => drop(errors.insert(slot, error)),
                }
            }
            if is_followed {
                let (slot, ranges) = (column.home.0, vec![column.home.1]);
                self.changes.push(Change::Punctured { slot, ranges });
            }
        }
        errors.extend(flush(written).await);
        errors
    }

    /// Members whose refused blocks do not fit into the list: these fail.
    fn unlisted(&mut self, volume: &Volume, label: &Label) -> BTreeMap<usize, IoError> {
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

/// The columns of a stripe that contain a data block.
struct Column {
    map: StripeMap,
    region: RegionIndex,
    index: DataIndex,
    within: ByteCount,
    len: ByteCount,
    drive: DriveIndex,
    /// The drive and range that name the block in the list of punctured blocks.
    home: (DriveIndex, ByteRange),
}

impl Column {
    /// `None`: it is no data block, or no redundancy covers it.
    fn of(
        volume: &Volume,
        state: &VolumeState,
        drive: DriveIndex,
        range: ByteRange,
    ) -> Option<Column> {
        let (regions, geometry) = (Regions::of(&volume.geometry), &volume.geometry);
        let located =
            geometry.locate(drive, range.start).filter(|_| geometry.parity_strips() > 0)?;
        let map = state.map(&regions, located.stripe);
        let cell_start = range.start.align_down(geometry.strip().bytes());
        let is_here = |(cell, _): &(Cell, Role)| cell.drive == drive && cell.offset == cell_start;
        let Some((_, Role::Data { index, .. })) = map.cells().find(is_here) else { return None };
        let within = range.start - cell_start;
        let home = geometry.stripe_map(located.stripe).data_cell(index, CopyIndex(0));
        let home = (home.drive, ByteRange::new(home.offset + within, range.len));
        let region = regions.region_of(located.stripe);
        // Redundancy with a pending resync does not count.
        let region = Some(region).filter(|region| state.is_synced(*region))?;
        Some(Column { map, region, index, within, len: range.len, drive, home })
    }

    /// The cells of P and Q.
    fn parity(&self) -> impl Iterator<Item = (Cell, Role)> {
        self.map.cells().filter(|(_, role)| matches!(role, Role::P | Role::Q))
    }

    /// Whether redundancy restores the block that its drive refused.
    fn gives_back(
        &self,
        state: &VolumeState,
        members: &BTreeMap<usize, Access>,
        refused: &[Refused],
    ) -> bool {
        let (mut missing, mut parity) = (0, 0);
        let stale = state.stale_in(self.region);
        for (cell, role) in self.map.cells() {
            let place = ByteRange::new(cell.offset + self.within, self.len);
            let is_refused = refused
                .iter()
                .any(|of| of.slot == cell.drive.as_usize() && of.range.overlaps(place));
            let is_had = members.contains_key(&cell.drive.as_usize())
                && !stale.contains(cell.drive)
                && !is_refused
                && !state.is_excluded(cell.drive, place);
            match role {
                Role::Data { .. } => missing += u16::from(!is_had || cell.drive == self.drive),
                Role::P | Role::Q => parity += u16::from(is_had),
                Role::Spare => {}
            }
        }
        missing <= parity
    }
}

/// Rewrites the parity of columns as if a data block were zeros.
async fn count_as_zeros(
    access: &Access,
    place: ByteRange,
    (column, role): (&Column, Role),
    bytes: &Slice,
) -> std::result::Result<(), IoError> {
    let mut parity = access.read(place).await?;
    engine::count_as_zeros(&column.map, column.index, bytes, (role, &mut parity))?;
    access
        .write_data(place.start, platform::Buf::copy_of(&parity).freeze())
        .await
        .result
        .map(|_| ())
}
