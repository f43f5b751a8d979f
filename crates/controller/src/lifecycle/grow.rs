//! `volume expand` and `volume migrate`: what a volume's other layout is to be, and whether it can come to it.
//!
//! Everything is checked before anything is written (but for opening drives, which takes their locks). The order of what is written then
//! is that of [`Arrays::begin_reshape`](crate::arrays::Arrays::begin_reshape).

use crate::arrays::array::Array;
use crate::arrays::extents;
use crate::arrays::journal;
use crate::arrays::reshape::{at_a_time, reshape_between};
use crate::arrays::sectors;
use crate::arrays::volume::Volume;
use crate::interface::{Error, ErrorKind, LayoutInfo, ReshapeInfo, ReshapeVolume, Result};
use crate::inventory::Drive;
use crate::lifecycle::candidates::Candidate;
use crate::lifecycle::fewer;
use crate::lifecycle::{Lifecycle, free_end};
use engine::{Regions, Reshape};
use layout::{Geometry, Level, MirrorArrangement};
use ondisk::{BLOCK, Label, Member, PartLabel, ReshapeLabel, Tail, VolumeLabel};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize};

/// The most that is saved at a time, of each drive.
const MOST_SAVED: u64 = 4 << 20;

/// What is read of each drive to find out how fast it is.
const SAMPLE: ByteCount = ByteCount(4 << 20);

/// Levels that a volume can be moved from, and to.
const FROM: [Level; 8] = [
    Level::Raid0,
    Level::Raid1,
    Level::Raid5,
    Level::Raid5ee,
    Level::Raid6,
    Level::Raid10,
    Level::Raid50,
    Level::Raid60,
];
const TO: [Level; 7] =
    [Level::Raid0, Level::Raid5, Level::Raid5ee, Level::Raid6, Level::Raid10, Level::Raid50, Level::Raid60];

/// Levels that can only become longer on the drives that they have, as all others can: rows follow that lie as those before.
const ONLY_LONGER: [Level; 2] = [Level::Raid00, Level::Raid4];

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

/// The way that a volume is to go.
struct Way {
    geometry: Geometry,
    capacity: ByteCount,
    /// Where windows are saved, from the beginning of the room of the journals, and how.
    save_at: u64,
    save: Geometry,
    reshape: Reshape,
    /// On how many of the array's members, the first ones, if not on all.
    members: Option<u16>,
}

impl Way {
    /// As a label says it of a volume with these parts that has not begun.
    fn label(&self, to: &VolumeLabel, save: &VolumeLabel) -> ReshapeLabel {
        let (to, save, down) = (to.uuid, save.uuid, self.reshape.is_down());
        ReshapeLabel { to, save, begun: false, moved_bytes: 0, saved_bytes: 0, down }
    }
}

/// A volume that goes to another layout, or would: its array, what is to be said of it, and notes, a sentence each.
pub(crate) type OfReshape = (Rc<Array>, Rc<Volume>, ReshapeInfo, Vec<String>);

impl Lifecycle {
    /// Begins to move a volume to another layout, or says what that would come to.
    pub(crate) async fn reshape_volume(self: &Rc<Self>, order: &ReshapeVolume) -> Result<OfReshape> {
        let (array, volume) = self.arrays.find_volume(&order.volume)?;
        self.check_can_move(&array, &volume, stays(order, &volume.label()))?;
        let kept = self.kept_members(order, &array, &volume)?;
        let mut candidates = Vec::new();
        let checked = self.check_candidates(&order.add, order.destroy_data, &mut candidates).await;
        let way = checked.and_then(|()| way_of(order, (&array, kept), &volume, &candidates));
        let way = match way {
            Ok(way) => way,
            Err(error) => {
                self.let_go(&candidates).await;
                return Err(error);
            }
        };
        let removed = array.label().member.split_off(kept);
        let removes = removed.into_iter().map(|member| member.name).collect();
        let mut info = ReshapeInfo { removes, ..info_of(&volume, &way) };
        if order.dry_run {
            info.estimated_s = self.estimate((&array, &volume), &way, &candidates).await;
            self.let_go(&candidates).await;
            return Ok((array, volume, info, Vec::new()));
        }
        self.adopt(&candidates).await;
        let stays = stays(order, &volume.label());
        let begun = self.begin(&array, &volume, (&way, stays), &candidates).await;
        if let Err(error) = begun {
            self.let_go(&candidates).await;
            return Err(error);
        }
        let is_less = info.to.capacity_bytes < info.from.capacity_bytes;
        let behind = "hosts get errors for what is behind the new size, from now on".to_owned();
        let note = "hosts that are connected see the new size when they connect again; run 'softroc task list' for the progress";
        let notes = is_less.then_some(behind).into_iter().chain([note.to_owned()]).collect();
        Ok((array, volume, info, notes))
    }

    /// Whether a volume is as one has to be that is moved. `stays`: its bytes stay where they are.
    fn check_can_move(&self, array: &Rc<Array>, volume: &Rc<Volume>, stays: bool) -> Result<()> {
        let (name, label) = (volume.name(), volume.label());
        if let Some(moving) = array.on_its_way() {
            return Err(wrong(format!(
                "'{}' is on its way to another layout already; run 'softroc task list' for its progress",
                moving.name()
            )));
        }
        array.check_all_stay()?;
        if array.known_volumes().len() > 1 && !stays {
            return Err(wrong(format!(
                "the array of '{name}' has other volumes ({}), which would have to be moved along; delete them, or create a volume on other drives and copy",
                array.names()
            )));
        }
        if !volume.is_served() || !array.out().is_empty() || !array.behind(volume).is_empty() {
            return Err(wrong(format!(
                "'{name}' can be moved when all of its drives are online; run 'softroc volume show {name}'"
            )));
        }
        if array.unsynced_of(volume) > 0 {
            return Err(wrong(format!(
                "'{name}' can be moved when its resync is complete; run 'softroc task list' for its progress"
            )));
        }
        if array.label().member.iter().any(|member| member.replacement.is_some()) {
            return Err(wrong(format!(
                "a drive of '{name}' is being replaced; run 'softroc task list' and try again when that is done"
            )));
        }
        if label.relocated.is_some() {
            return Err(wrong(format!(
                "what a drive of '{name}' had lies in the distributed spare; run 'softroc task list' and try again when it is back"
            )));
        }
        if label.kept.is_some() || label.data_log.is_some() {
            return Err(wrong(format!(
                "'{name}' answers writes from its cache, and cannot while it is moved; first run 'softroc volume set {name} --write-mode write-through'"
            )));
        }
        if volume.is_hidden() {
            return Err(wrong(format!("'{name}' is being initialised; try again when that is done")));
        }
        Ok(())
    }

    /// Writes what is written at a beginning.
    async fn begin(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        (way, stays): (&Way, bool),
        candidates: &[Candidate],
    ) -> Result<()> {
        let drives: Vec<Rc<Drive>> = candidates.iter().map(|candidate| candidate.drive.clone()).collect();
        let next = || {
            // Much may have happened until it is the label's turn.
            self.check_can_move(array, volume, stays)?;
            let next = self.label_on_its_way(array, volume, way, &drives)?;
            // As it is recorded: with the next generation.
            Label { generation: next.generation + 1, ..next.clone() }.check().map_err(invalid)?;
            Ok(next)
        };
        self.arrays.begin_reshape(array, volume, next, &drives).await
    }

    /// The label that names new drives and parts; nothing has begun in it.
    fn label_on_its_way(
        &self,
        array: &Array,
        volume: &Volume,
        way: &Way,
        drives: &[Rc<Drive>],
    ) -> Result<Label> {
        let (mut next, of) = (array.label(), volume.label());
        let end = of.data_start_bytes + way.geometry.member_size().0;
        if next_start(&next, &of).is_some_and(|start| start < end) {
            return Err(wrong(format!(
                "what was free behind '{}' is not any more; run 'softroc volume list', and try again",
                of.name
            )));
        }
        // It may have come from a drive that was replaced since.
        if next.slot().is_none() {
            next.drive = next.member.first().map_or(next.drive, |member| member.uuid);
        }
        let since = next.generation + 1;
        let members = u16::try_from(next.member.len()).unwrap_or(u16::MAX);
        for drive in drives {
            let uuid = self.arrays.new_uuid();
            next.member.push(Member::online(uuid, drive.name.clone(), drive.extent(), since));
        }
        let part = |suffix: &str, geometry: &Geometry, saves: bool, next: &Label| {
            let count = Regions::of(geometry).count;
            let first = extents::free_regions(Some(next), count).ok_or_else(|| {
                invalid(format!("'{}' would have more regions than an array has room for", of.name))
            })?;
            let label = self.label_of(format!("{}+{suffix}", of.name), geometry, first..first + count);
            Ok::<VolumeLabel, Error>(VolumeLabel {
                sector_bytes: of.sector_bytes,
                part: Some(PartLabel { of: of.uuid, saves }),
                members: way.members,
                ..label
            })
        };
        let save = VolumeLabel { data_start_bytes: way.save_at, ..part("save", &way.save, true, &next)? };
        next.volume.push(save.clone());
        let to = VolumeLabel {
            data_start_bytes: of.data_start_bytes,
            capacity_bytes: way.capacity.0,
            write_mode: of.write_mode,
            read_mode: of.read_mode,
            cache_mode: of.cache_mode,
            drive_cache: of.drive_cache,
            sector_format: of.sector_format,
            ..part("new", &way.geometry, false, &next)?
        };
        let asked = of.level.has_parity().then_some(of.write_hole).filter(|_| to.level.has_parity());
        // It has no other reason to refuse.
        let to = journal::with_write_hole(to, asked, Some(&next)).map_err(|_| {
            invalid(format!(
                "'{0}' has a journal by each layout on its way, and there is no room for a second one; first run 'softroc volume set {0} --write-hole resync'",
                of.name
            ))
        })?;
        let reshape = way.label(&to, &save);
        next.volume.push(to);
        if let Some(label) = next.volume_mut(volume.uuid()) {
            (label.members, label.reshape) = (Some(members), Some(reshape));
        }
        Ok(next)
    }

    /// How long it takes, at the rate at which the slowest drive can be read now.
    async fn estimate(
        &self,
        (array, volume): (&Array, &Volume),
        way: &Way,
        candidates: &[Candidate],
    ) -> Option<u64> {
        let copied = match way.reshape.is_in_place() {
            true => array.doubtful_bytes(volume),
            false => way.reshape.bytes(),
        };
        if copied.is_zero() {
            return Some(0);
        }
        let mut slowest: Option<f64> = None;
        let members = array.places().into_iter().filter_map(|place| place.drive);
        for drive in members.chain(candidates.iter().map(|candidate| candidate.drive.clone())) {
            let access = drive.access()?;
            let len = SAMPLE.min(access.info().size).align_down(BLOCK);
            let began = self.env.now();
            access.read(ByteRange::new(ByteOffset::ZERO, len)).await.ok()?;
            let seconds = self.env.now().since(began).as_secs_f64().max(1e-9);
            let rate = len.0 as f64 / seconds;
            slowest = Some(slowest.map_or(rate, |other| other.min(rate)));
        }
        let part = |geometry: &Geometry| {
            let data = geometry.capacity().0 as f64 / geometry.member_size().0 as f64;
            copied.0 as f64 / data
        };
        // Each drive is read by the old layout, and written by the new one. In its own place all of it is saved before, and read from there.
        let again = if way.reshape.is_in_place() { 3.0 } else { 1.0 };
        let bytes = part(way.reshape.from()) + again * part(way.reshape.to());
        slowest.map(|rate| (bytes / rate).ceil() as u64)
    }
}

/// The layout that a volume is to come to.
fn way_of(
    order: &ReshapeVolume,
    (array, kept): (&Array, usize),
    volume: &Volume,
    candidates: &[Candidate],
) -> Result<Way> {
    let (name, label, of) = (volume.name(), array.label(), volume.label());
    let level: Level = match &order.level {
        Some(level) => level.parse().map_err(invalid)?,
        None => of.level,
    };
    let strip = StripSize::new(ByteCount(order.strip_bytes.unwrap_or(of.strip_bytes))).map_err(invalid)?;
    let stays = stays(order, &of);
    check_levels(&name, &of, level, stays)?;
    check_drives(&name, &label, &of, candidates)?;
    let sizes = label.member.iter().map(|member| ByteCount(member.size_bytes));
    let end = free_end(sizes.chain(candidates.iter().map(|candidate| candidate.size)), label.tail);
    let end = next_start(&label, &of).map_or(end.0, |start| end.0.min(start));
    let room = ByteCount(end.saturating_sub(of.data_start_bytes));
    let drives = kept + candidates.len();
    let drives = DriveCount(u16::try_from(drives).unwrap_or(u16::MAX));
    let shape = if stays { volume.geometry.shape() } else { shape_of(level, drives, volume) };
    shape.check().map_err(invalid)?;
    let whole = shape.geometry(strip, room).map_err(invalid)?;
    let capacity = fewer::capacity(order, &of, &whole, stays)?;
    sectors::check_format(&name, of.sector_format, capacity)?;
    // What is free behind a size that was asked for stays free.
    let geometry = match order.size_bytes {
        Some(_) => {
            let member = whole.member_size_for(capacity).max(ByteCount(of.member_bytes));
            whole.with_member_size(member).map_err(invalid)?
        }
        None => whole,
    };
    let (save_at, save) = save_place(&label, &volume.geometry, &geometry)?;
    let reshape = reshape_between(volume, &geometry, (capacity, save.member_size()));
    let reshape = reshape.map_err(|why| {
        invalid(format!("'{name}' cannot be moved so: {why}; add drives with --add, or copy it to a volume on other drives"))
    })?;
    let members = (kept < label.member.len()).then_some(drives.0);
    Ok(Way { geometry, capacity, save_at, save, reshape, members })
}

/// Whether all that is asked for is more room on the drives that a volume has: its bytes stay where they are.
fn stays(order: &ReshapeVolume, of: &VolumeLabel) -> bool {
    let is_level = order.level.as_deref().is_none_or(|level| level.parse() == Ok(of.level));
    let is_strip = order.strip_bytes.is_none_or(|strip| strip == of.strip_bytes);
    is_level && is_strip && order.add.is_empty() && order.remove.is_empty()
}

/// Where the next volume begins on each drive that lies behind another one.
fn next_start(label: &Label, of: &VolumeLabel) -> Option<u64> {
    let others = label.volume.iter().filter(|other| other.uuid != of.uuid && !other.is_part());
    others.map(|other| other.data_start_bytes).filter(|start| *start >= of.data_end_bytes()).min()
}

/// Whether a volume can go from its level to another one, or become longer.
fn check_levels(name: &str, of: &VolumeLabel, level: Level, stays: bool) -> Result<()> {
    let names = |levels: &[Level]| levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(", ");
    let is_far = of.mirrors == Some(MirrorArrangement::Far);
    match stays {
        true if (FROM.contains(&of.level) || ONLY_LONGER.contains(&of.level)) && !is_far => Ok(()),
        false if FROM.contains(&of.level) && TO.contains(&level) => Ok(()),
        true => Err(invalid(format!(
            "'{name}' cannot become longer as {}; create a volume on other drives and copy",
            of.level.name()
        ))),
        false => Err(invalid(format!(
            "'{name}' cannot go from {} to {}: volumes of {} can go to {}; create a volume on other drives and copy, or choose one of these with --level",
            of.level.name(),
            level.name(),
            names(&FROM),
            names(&TO)
        ))),
    }
}

/// The shape of another layout of a volume. With the level that it has it stays as alike as it can.
fn shape_of(level: Level, drives: DriveCount, volume: &Volume) -> layout::Shape {
    let (shape, of) = (layout::Shape::new(level, drives), volume.label());
    if level != of.level {
        return shape;
    }
    let width = (volume.geometry.drives().0 / of.spans.max(1)).max(1);
    let with =
        |spans: u16| layout::Shape { spans: Some(spans), parity: of.parity, mirrors: of.mirrors, ..shape };
    match level {
        // As many copies as before.
        Level::Raid10 => with(drives.0 / width),
        // As many spans as before, or spans as wide, or as few spans as can be.
        Level::Raid50 | Level::Raid60 => {
            let alike = [with(of.spans), with(drives.0 / width)];
            let fits = alike.into_iter().find(|shape| shape.check().is_ok());
            fits.unwrap_or(layout::Shape { spans: None, ..with(1) })
        }
        _ => layout::Shape { spans: None, ..with(1) },
    }
}

/// Whether new drives are as those have to be that a volume is moved to.
fn check_drives(name: &str, label: &Label, of: &VolumeLabel, candidates: &[Candidate]) -> Result<()> {
    if let Some(large) = candidates.iter().find(|candidate| candidate.sector.bytes().0 > of.sector_bytes) {
        return Err(invalid(format!(
            "drive {} has sectors of {} bytes, and '{name}' has sectors of {}; choose drives with sectors of {}",
            large.drive.name,
            large.sector.bytes().0,
            of.sector_bytes,
            of.sector_bytes
        )));
    }
    // The old layout is counted as lying on all members until the end.
    let is_small = |candidate: &&Candidate| {
        free_end(std::iter::once(candidate.size), label.tail).0 < of.data_end_bytes()
    };
    if let Some(small) = candidates.iter().find(is_small) {
        return Err(invalid(format!(
            "drive {} is smaller than what '{name}' takes of each drive ({}); choose a larger one",
            small.drive.name,
            ByteCount(of.data_end_bytes())
        )));
    }
    Ok(())
}

/// Where windows of a layout are saved, from the beginning of the room of the journals, and how.
pub(crate) fn save_place(label: &Label, from: &Geometry, geometry: &Geometry) -> Result<(u64, Geometry)> {
    let taken = label.volume.iter().flat_map(VolumeLabel::in_journals).map(|(start, end)| start..end);
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
            .map(|of| format!("first run 'softroc volume set {} --write-hole resync', or ", of.name))
            .unwrap_or_default();
        return Err(invalid(format!(
            "there is no room beside the journals to save a row of {} of each drive; {give_up}choose a smaller --strip",
            ByteCount(row)
        )));
    }
    Ok((save_at, save))
}

fn layout_info(geometry: &Geometry, capacity: u64) -> LayoutInfo {
    LayoutInfo {
        level: geometry.level().name().to_owned(),
        drives: geometry.drives().0,
        strip_bytes: geometry.strip().bytes().0,
        capacity_bytes: capacity,
        may_lose: geometry.survives().at_least.0,
    }
}

fn info_of(volume: &Volume, way: &Way) -> ReshapeInfo {
    let from = layout_info(&volume.geometry, volume.label().capacity_bytes);
    let to = layout_info(&way.geometry, way.capacity.0);
    let data = |save: &Geometry| save.capacity().0;
    ReshapeInfo {
        volume: volume.name(),
        may_lose: from.may_lose.min(to.may_lose),
        saved_at_a_time_bytes: data(&way.save),
        at_a_time_bytes: way.reshape.most_bytes().0,
        estimated_s: None,
        moved_bytes: 0,
        total_bytes: way.reshape.bytes().0,
        down: way.reshape.is_down(),
        removes: Vec::new(),
        from,
        to,
    }
}

/// What is said of a volume that is on its way.
pub(crate) fn info_on_its_way(array: &Array, volume: &Volume) -> Option<ReshapeInfo> {
    let (reshape, moved) = array.reshape_of(volume)?;
    let of = volume.label().reshape?;
    let (to, save) = (array.volume(of.to)?, array.volume(of.save)?);
    let members = array.label().member.into_iter().enumerate();
    let removes = members.filter(|(slot, _)| !to.is_on(*slot)).map(|(_, member)| member.name).collect();
    let from = layout_info(&volume.geometry, volume.label().capacity_bytes);
    let new = layout_info(&to.geometry, to.label().capacity_bytes);
    Some(ReshapeInfo {
        volume: volume.name(),
        may_lose: from.may_lose.min(new.may_lose),
        saved_at_a_time_bytes: save.geometry.capacity().0,
        at_a_time_bytes: reshape.most_bytes().0,
        estimated_s: None,
        moved_bytes: moved.bytes.0,
        total_bytes: reshape.bytes().0,
        down: reshape.is_down(),
        removes,
        from,
        to: new,
    })
}
