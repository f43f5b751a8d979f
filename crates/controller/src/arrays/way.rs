//! The space that another layout of a volume needs on its drives, and the label that starts the
//! reshape.
//!
//! All of it is calculated from labels alone. So the reshapes of queued volumes can be tried before
//! anything is written.

use crate::arrays::Arrays;
use crate::arrays::extents::{self, free_end};
use crate::arrays::journal;
use crate::arrays::reshape::{at_a_time, reshape_between};
use crate::interface::{Coercion, Error, ErrorKind, Result};
use engine::{Regions, Reshape};
use layout::{Geometry, Level, Shape};
use ondisk::{
    BLOCK, CacheMode, DriveCache, Init, Label, PartLabel, ReadMode, ReshapeLabel, Runs,
    SectorFormat, Tail, Uuid, VolumeLabel, WriteHole, WriteMode,
};
use std::ops::Range;
use units::{ByteCount, DriveCount, SectorSize};

/// The maximum that is saved at a time, of each drive.
const MOST_SAVED: u64 = 4 << 20;

/// Levels that a volume can be moved from, and to.
pub(crate) const FROM: [Level; 8] = [
    Level::Raid0,
    Level::Raid1,
    Level::Raid5,
    Level::Raid5ee,
    Level::Raid6,
    Level::Raid10,
    Level::Raid50,
    Level::Raid60,
];
pub(crate) const TO: [Level; 7] = [
    Level::Raid0,
    Level::Raid5,
    Level::Raid5ee,
    Level::Raid6,
    Level::Raid10,
    Level::Raid50,
    Level::Raid60,
];

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

/// The reshape of a volume.
pub(crate) struct Way {
    pub(crate) geometry: Geometry,
    pub(crate) capacity: ByteCount,
    /// The place of saved windows, from the beginning of the journals' space, and its layout.
    save_at: u64,
    pub(crate) save: Geometry,
    pub(crate) reshape: Reshape,
    /// The number of the array's members in use, from the first one, if not all.
    members: Option<u16>,
}

impl Way {
    /// The reshape of a volume to a layout on the first of its array's members, with this final
    /// size for hosts.
    ///
    /// # Errors
    /// When it is impossible: a sentence.
    pub(crate) fn new(
        (label, of): (&Label, &VolumeLabel),
        from: &Geometry,
        (geometry, capacity): (Geometry, ByteCount),
        all: usize,
    ) -> Result<Way> {
        let (save_at, save) = save_place(label, from, &geometry)?;
        let has = ByteCount(of.capacity_bytes);
        let reshape = reshape_between((from, has), &geometry, (capacity, save.member_size()));
        let reshape = reshape.map_err(|why| {
            let name = &of.name;
            invalid(format!(
                "'{name}' cannot be reshaped: {why}; add drives with --add, or copy it to a volume \
                on other drives"
            ))
        })?;
        let drives = geometry.drives();
        let members = (drives.as_usize() < all).then_some(drives.0);
        Ok(Way { geometry, capacity, save_at, save, reshape, members })
    }

    /// The reshape of a queued volume to this number of its array's members: with its level, its
    /// strip and its size, in the same part of each drive, and behind that where necessary.
    ///
    /// # Errors
    /// When it is impossible: a sentence without a full stop, for callers that add an alternative.
    pub(crate) fn along(label: &Label, of: &VolumeLabel, drives: DriveCount) -> Result<Way> {
        let from = of.geometry(label.member.len()).map_err(invalid)?;
        if !FROM.contains(&of.level) || !TO.contains(&of.level) {
            return Err(invalid(format!(
                "{} cannot change its number of drives",
                of.level.title()
            )));
        }
        let shape = shape_of(of.level, drives, (of, &from));
        shape.check().map_err(invalid)?;
        let sizes = label.member.iter().map(|member| ByteCount(member.size_bytes));
        let whole = shape.geometry(from.strip(), room(label, of, sizes)).map_err(invalid)?;
        let capacity = ByteCount(of.capacity_bytes);
        if whole.capacity() < capacity {
            let (title, room) = (of.level.title(), whole.capacity());
            let sentence =
                format!("{title} on {drives} drives has {room}, and it needs {capacity}");
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        let member = whole.member_size_for(capacity).max(ByteCount(of.member_bytes));
        let geometry = whole.with_member_size(member).map_err(invalid)?;
        Way::new((label, of), &from, (geometry, capacity), label.member.len())
    }

    /// The label entry of a volume with these parts whose reshape has not begun.
    fn label(&self, to: &VolumeLabel, save: &VolumeLabel) -> ReshapeLabel {
        let (to, save, down) = (to.uuid, save.uuid, self.reshape.is_down());
        ReshapeLabel { to, save, begun: false, moved_bytes: 0, saved_bytes: 0, down }
    }
}

/// The space that a volume may take on each drive of these sizes, from its start: sizes are rounded
/// down, but not below its current size.
pub(crate) fn room(
    label: &Label,
    of: &VolumeLabel,
    sizes: impl Iterator<Item = ByteCount>,
) -> ByteCount {
    let sizes: Vec<ByteCount> = sizes.collect();
    let used = sizes.iter().map(|size| Coercion::default().used_of(*size));
    let taken = ByteCount(of.data_end_bytes());
    let end =
        free_end(used, label.tail).max(taken.min(free_end(sizes.iter().copied(), label.tail))).0;
    let end = next_start(label, of).map_or(end, |start| end.min(start));
    ByteCount(end.saturating_sub(of.data_start_bytes))
}

/// The start of the next volume behind this one on each drive.
fn next_start(label: &Label, of: &VolumeLabel) -> Option<u64> {
    let others = label.volume.iter().filter(|other| other.uuid != of.uuid && !other.is_part());
    others.map(|other| other.data_start_bytes).filter(|start| *start >= of.data_end_bytes()).min()
}

/// The shape of another layout of a volume. With an unchanged level it stays as similar as
/// possible.
pub(crate) fn shape_of(
    level: Level,
    drives: DriveCount,
    (of, from): (&VolumeLabel, &Geometry),
) -> Shape {
    let shape = Shape::new(level, drives);
    if level != of.level {
        return shape;
    }
    let width = (from.drives().0 / of.spans.max(1)).max(1);
    let with =
        |spans: u16| Shape { spans: Some(spans), parity: of.parity, mirrors: of.mirrors, ..shape };
    match level {
        // As many copies as before.
        Level::Raid10 => with(drives.0 / width),
        // As many spans as before, or spans as wide, or as few spans as possible.
        Level::Raid50 | Level::Raid60 => {
            let alike = [with(of.spans), with(drives.0 / width)];
            let fits = alike.into_iter().find(|shape| shape.check().is_ok());
            fits.unwrap_or(Shape { spans: None, ..with(1) })
        }
        _ => Shape { spans: None, ..with(1) },
    }
}

/// The place of a layout's saved windows, from the beginning of the journals' space, and its
/// layout.
pub(crate) fn save_place(
    label: &Label,
    from: &Geometry,
    geometry: &Geometry,
) -> Result<(u64, Geometry)> {
    let taken =
        label.volume.iter().flat_map(VolumeLabel::in_journals).map(|(start, end)| start..end);
    let gap = extents::longest(&extents::gaps(taken.collect(), Tail::JOURNALS.0)).unwrap_or(0..0);
    let row = geometry.strip().bytes().0 * u64::from(geometry.rows_per_stripe());
    let least = Reshape::least_save(&engine::served(from), &engine::served(geometry)).0;
    let most = at_a_time(geometry.member_size(), ByteCount(MOST_SAVED)).0.max(least);
    let most = ((gap.end - gap.start) / 2).min(most).max(row);
    let save = geometry.with_member_size(ByteCount(most / row * row)).map_err(invalid)?;
    let save_at = gap.start.next_multiple_of(BLOCK.0);
    if save_at + save.member_size().0 > gap.end {
        let journal = label.volume.iter().find(|of| of.journal.is_some());
        let give_up = journal
            .map(|of| {
                format!("first run 'softroc volume set {} --write-hole resync', or ", of.name)
            })
            .unwrap_or_default();
        return Err(invalid(format!(
            "the label area has too little space besides the journals to save a row of {} of each \
            drive; {give_up}choose a smaller --strip",
            ByteCount(row)
        )));
    }
    Ok((save_at, save))
}

impl Arrays {
    /// The label in which a volume has parts and nothing has begun. `to`: the UUID of the part with
    /// the new layout.
    ///
    /// # Errors
    /// When there is no space for that, or it contradicts itself: a sentence.
    pub(crate) fn label_on_its_way(
        &self,
        mut next: Label,
        of: &VolumeLabel,
        (way, to): (&Way, Uuid),
    ) -> Result<Label> {
        let end = of.data_start_bytes + way.geometry.member_size().0;
        if next_start(&next, of).is_some_and(|start| start < end) {
            let sentence = format!(
                "the free space after '{}' has been used meanwhile; run 'softroc volume list', and \
                try again",
                of.name
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        // The label may have been read from a drive that was replaced since.
        if next.slot().is_none() {
            next.drive = next.member.first().map_or(next.drive, |member| member.uuid);
        }
        let save =
            VolumeLabel { data_start_bytes: way.save_at, ..self.part_of(of, way, true, &next)? };
        next.volume.push(save.clone());
        let to = VolumeLabel {
            uuid: to,
            data_start_bytes: of.data_start_bytes,
            capacity_bytes: way.capacity.0,
            write_mode: of.write_mode,
            read_mode: of.read_mode,
            cache_mode: of.cache_mode,
            drive_cache: of.drive_cache,
            sector_format: of.sector_format,
            ..self.part_of(of, way, false, &next)?
        };
        let asked =
            of.level.has_parity().then_some(of.write_hole).filter(|_| to.level.has_parity());
        // There is no other reason for a refusal.
        let to = journal::with_write_hole(to, asked, Some(&next)).map_err(|_| {
            invalid(format!(
                "'{0}' needs a journal for each layout during the reshape, and there is no space \
                for a second one; first run 'softroc volume set {0} --write-hole resync'",
                of.name
            ))
        })?;
        let reshape = way.label(&to, &save);
        next.volume.push(to);
        if let Some(label) = next.volume_mut(of.uuid) {
            label.reshape = Some(reshape);
        }
        // Checked as it is recorded: with the next generation.
        Label { generation: next.generation + 1, ..next.clone() }.check().map_err(invalid)?;
        Ok(next)
    }

    /// One of the parts of a reshaping volume, with free regions.
    fn part_of(
        &self,
        of: &VolumeLabel,
        way: &Way,
        saves: bool,
        next: &Label,
    ) -> Result<VolumeLabel> {
        let (geometry, suffix) = if saves { (&way.save, "save") } else { (&way.geometry, "new") };
        let count = Regions::of(geometry).count;
        let first = extents::free_regions(Some(next), count).ok_or_else(|| {
            invalid(format!("'{}' would have more regions than an array supports", of.name))
        })?;
        let label = self.label_of(format!("{}+{suffix}", of.name), geometry, first..first + count);
        let part = Some(PartLabel { of: of.uuid, saves });
        Ok(VolumeLabel { sector_bytes: of.sector_bytes, part, members: way.members, ..label })
    }

    /// The label of a new volume that fills its geometry from the drives' first byte on, whatever
    /// the drives' content.
    pub(crate) fn label_of(
        &self,
        name: String,
        geometry: &Geometry,
        regions: Range<u32>,
    ) -> VolumeLabel {
        VolumeLabel {
            uuid: self.new_uuid(),
            name,
            level: geometry.level(),
            parity: geometry.parity_arrangement(),
            mirrors: geometry.mirror_arrangement(),
            spans: geometry.spans(),
            copies: geometry.copies(),
            strip_bytes: geometry.strip().bytes().0,
            data_start_bytes: 0,
            member_bytes: geometry.member_size().0,
            first_region: regions.start,
            regions: regions.end - regions.start,
            sector_bytes: SectorSize::B512.bytes().0,
            capacity_bytes: geometry.capacity().0,
            write_hole: WriteHole::Resync,
            init: Init::Background,
            created_unix_s: self.env.unix_time(),
            lost: Vec::new(),
            unwritten: Runs::default(),
            initialised_by_bytes: None,
            journal: None,
            relocated: None,
            write_mode: WriteMode::default(),
            read_mode: ReadMode::default(),
            cache_mode: CacheMode::default(),
            drive_cache: DriveCache::default(),
            sector_format: SectorFormat::default(),
            kept: None,
            data_log: None,
            punctured: Vec::new(),
            excluded: Vec::new(),
            members: None,
            reshape: None,
            follows: None,
            part: None,
        }
    }
}
