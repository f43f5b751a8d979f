//! `volume expand` and `volume migrate`: determines the new layout of a volume, and checks whether
//! the reshape is possible.
//!
//! Everything is checked before anything is written, except that drives are opened, which locks
//! them. The order of writes is that of
//! [`Arrays::begin_reshape`](crate::arrays::Arrays::begin_reshape). The array's other volumes:
//! `along`.

use crate::arrays::array::Array;
use crate::arrays::extents::free_end;
use crate::arrays::sectors;
use crate::arrays::volume::Volume;
use crate::arrays::way::{FROM, TO, Way, room, shape_of};
use crate::interface::{Error, ErrorKind, LayoutInfo, ReshapeInfo, ReshapeVolume, Result};
use crate::inventory::Drive;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::along::{Along, moves_along, note_of_others};
use crate::lifecycle::candidates::Candidate;
use crate::lifecycle::fewer;
use engine::Reshape;
use layout::{Geometry, Level, MirrorArrangement};
use ondisk::{BLOCK, Label, VolumeLabel};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize};

/// The size of the read that measures the speed of each drive.
const SAMPLE: ByteCount = ByteCount(4 << 20);

/// Levels that can only be extended on their current drives (as all others can): more rows with the
/// same layout.
const ONLY_LONGER: [Level; 2] = [Level::Raid00, Level::Raid4];

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

/// A volume that is reshaped, or would be: its array, the description of the reshape, and notes, a
/// sentence each.
pub(crate) type OfReshape = (Rc<Array>, Rc<Volume>, ReshapeInfo, Vec<String>);

impl Lifecycle {
    /// Begins a reshape, or only describes it.
    pub(crate) async fn reshape_volume(
        self: &Rc<Self>,
        order: &ReshapeVolume,
    ) -> Result<OfReshape> {
        let (array, volume) = self.arrays.find_volume(&order.volume)?;
        self.check_can_move(&array, &volume, order)?;
        let kept = self.kept_members(order, &array, &volume)?;
        let mut candidates = Vec::new();
        let checked = self.check_candidates(&order.add, order.destroy_data, &mut candidates).await;
        let ways =
            checked.and_then(|()| self.ways_of((order, kept), (&array, &volume), &candidates));
        let (way, along) = match ways {
            Ok(ways) => ways,
            Err(error) => {
                self.let_go(&candidates).await;
                return Err(error);
            }
        };
        let removed = array.label().member.split_off(kept);
        let removes = removed.into_iter().map(|member| member.name).collect();
        let others =
            along.iter().map(|other| info_of(&other.of, &other.from, &other.way)).collect();
        let of = volume.label();
        let mut info =
            ReshapeInfo { removes, along: others, ..info_of(&of, &volume.geometry, &way) };
        if order.dry_run {
            let rate = self.slowest_rate(&array, &candidates).await;
            let copied = if way.reshape.is_in_place() {
                array.doubtful_bytes(&volume)
            } else {
                way.reshape.bytes()
            };
            info.estimated_s = seconds_of(&way, copied, rate);
            for (info, other) in info.along.iter_mut().zip(&along) {
                info.estimated_s = seconds_of(&other.way, other.way.reshape.bytes(), rate);
            }
            self.let_go(&candidates).await;
            return Ok((array, volume, info, Vec::from_iter(note_of_others(&along))));
        }
        let begun = match self.adopt_apart(&candidates).await {
            Ok(()) => self.begin((order, kept), (&array, &volume), &way, &candidates).await,
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            self.let_go(&candidates).await;
            return Err(error);
        }
        let is_less = info.to.capacity_bytes < info.from.capacity_bytes;
        let behind = "hosts get errors beyond the new size from now on".to_owned();
        let note = "connected hosts see the new size when they reconnect; run 'softroc task list' \
            for the progress";
        let notes = is_less.then_some(behind).into_iter().chain([note.to_owned()]);
        let notes = notes.chain(note_of_others(&along)).collect();
        Ok((array, volume, info, notes))
    }

    /// The reshapes of a volume and of the array's other volumes.
    fn ways_of(
        &self,
        (order, kept): (&ReshapeVolume, usize),
        (array, volume): (&Array, &Volume),
        candidates: &[Candidate],
    ) -> Result<(Way, Vec<Along>)> {
        for one in concerned(array, volume, order) {
            check_drives(&array.label(), &one.label(), candidates)?;
        }
        let label = self.ordered_label((order, kept), array, volume, candidates);
        let drives = kept + candidates.len();
        let way =
            way_of(order, (&label, DriveCount(u16::try_from(drives).unwrap_or(u16::MAX))), volume)?;
        let along = self.ways_along(order, label, (volume, &way))?;
        Ok((way, along))
    }

    /// Checks whether the volumes of a command can be reshaped.
    fn check_can_move(
        &self,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        order: &ReshapeVolume,
    ) -> Result<()> {
        if let Some(moving) = array.on_its_way() {
            return Err(wrong(format!(
                "'{}' is being reshaped already; run 'softroc task list' for its progress",
                moving.name()
            )));
        }
        array.check_all_stay()?;
        if array.label().member.iter().any(|member| member.replacement.is_some()) {
            return Err(wrong(format!(
                "a drive of {} is being replaced; run 'softroc task list' and try again afterwards",
                array.names()
            )));
        }
        concerned(array, volume, order).iter().try_for_each(|one| self.check_is_whole(array, one))
    }

    /// Checks whether a volume can be reshaped.
    fn check_is_whole(&self, array: &Array, volume: &Volume) -> Result<()> {
        let (name, label) = (volume.name(), volume.label());
        if !volume.is_served() || !array.out().is_empty() || !array.behind(volume).is_empty() {
            return Err(wrong(format!(
                "'{name}' can be reshaped when all of its drives are online; run 'softroc volume \
                show {name}'"
            )));
        }
        if array.unsynced_of(volume) > 0 {
            return Err(wrong(format!(
                "'{name}' can be reshaped when its resync is complete; run 'softroc task list' for \
                its progress"
            )));
        }
        if label.relocated.is_some() {
            return Err(wrong(format!(
                "the distributed spare of '{name}' has the content of a drive; run 'softroc task \
                list' and try again when it is restored"
            )));
        }
        if label.kept.is_some() || label.data_log.is_some() {
            return Err(wrong(format!(
                "'{name}' acknowledges writes from its cache, which is not possible during a \
                reshape; first run 'softroc volume set {name} --write-mode write-through'"
            )));
        }
        if volume.is_hidden() {
            return Err(wrong(format!(
                "'{name}' is being initialised; run 'softroc task list' and try again afterwards"
            )));
        }
        Ok(())
    }

    /// Writes the start of a reshape.
    async fn begin(
        self: &Rc<Self>,
        (order, kept): (&ReshapeVolume, usize),
        (array, volume): (&Rc<Array>, &Rc<Volume>),
        way: &Way,
        candidates: &[Candidate],
    ) -> Result<()> {
        let next = || {
            // The state may have changed while waiting for the label's lock.
            self.check_can_move(array, volume, order)?;
            let next = self.ordered_label((order, kept), array, volume, candidates);
            self.arrays.label_on_its_way(next, &volume.label(), (way, self.arrays.new_uuid()))
        };
        let drives: Vec<Rc<Drive>> =
            candidates.iter().map(|candidate| candidate.drive.clone()).collect();
        self.arrays.begin_reshape(array, volume, next, &drives).await
    }

    /// The current read rate of the slowest drive, in bytes per second.
    async fn slowest_rate(&self, array: &Array, candidates: &[Candidate]) -> Option<f64> {
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
        slowest
    }
}

/// The volumes that a command concerns: first the one that it names, then the others.
fn concerned(array: &Array, volume: &Volume, order: &ReshapeVolume) -> Vec<Rc<Volume>> {
    let all = array.known_volumes().into_iter();
    let (own, others): (Vec<_>, Vec<_>) = all.partition(|one| one.uuid() == volume.uuid());
    let others = others.into_iter().filter(|_| moves_along(order));
    own.into_iter().chain(others).collect()
}

/// The time to move this amount, in seconds.
fn seconds_of(way: &Way, copied: ByteCount, rate: Option<f64>) -> Option<u64> {
    if copied.is_zero() {
        return Some(0);
    }
    let part = |geometry: &Geometry| {
        let data = geometry.capacity().0 as f64 / geometry.member_size().0 as f64;
        copied.0 as f64 / data
    };
    // Each drive is read in the old layout, and written in the new one. An in-place reshape saves
    // all data first, and reads it from there.
    let again = if way.reshape.is_in_place() { 3.0 } else { 1.0 };
    let bytes = part(way.reshape.from()) + again * part(way.reshape.to());
    rate.map(|rate| (bytes / rate).ceil() as u64)
}

/// The target layout of a volume, on this number of the array's members.
fn way_of(
    order: &ReshapeVolume,
    (label, drives): (&Label, DriveCount),
    volume: &Volume,
) -> Result<Way> {
    let (name, of) = (volume.name(), volume.label());
    let level: Level = match &order.level {
        Some(level) => level.parse().map_err(invalid)?,
        None => of.level,
    };
    let strip =
        StripSize::new(ByteCount(order.strip_bytes.unwrap_or(of.strip_bytes))).map_err(invalid)?;
    let stays = stays(order, &of);
    check_levels(&name, &of, level, stays)?;
    let shape = if stays {
        volume.geometry.shape()
    } else {
        shape_of(level, drives, (&of, &volume.geometry))
    };
    shape.check().map_err(invalid)?;
    let sizes = label.member.iter().map(|member| ByteCount(member.size_bytes));
    let whole = shape.geometry(strip, room(label, &of, sizes)).map_err(invalid)?;
    let capacity = fewer::capacity(order, &of, &whole, stays)?;
    sectors::check_format(&name, of.sector_format, capacity)?;
    // Space beyond a requested size stays free.
    let geometry = match order.size_bytes {
        Some(_) => {
            let member = whole.member_size_for(capacity).max(ByteCount(of.member_bytes));
            whole.with_member_size(member).map_err(invalid)?
        }
        None => whole,
    };
    Way::new((label, &of), &volume.geometry, (geometry, capacity), label.member.len())
}

/// Whether the volume only grows on its drives, with all bytes in place.
fn stays(order: &ReshapeVolume, of: &VolumeLabel) -> bool {
    let is_level = order.level.as_deref().is_none_or(|level| level.parse() == Ok(of.level));
    let is_strip = order.strip_bytes.is_none_or(|strip| strip == of.strip_bytes);
    is_level && is_strip && order.add.is_empty() && order.remove.is_empty()
}

/// Checks whether a volume can change to that level, or be extended.
fn check_levels(name: &str, of: &VolumeLabel, level: Level, stays: bool) -> Result<()> {
    let names =
        |levels: &[Level]| levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(", ");
    let is_far = of.mirrors == Some(MirrorArrangement::Far);
    match stays {
        true if (FROM.contains(&of.level) || ONLY_LONGER.contains(&of.level)) && !is_far => Ok(()),
        false if FROM.contains(&of.level) && TO.contains(&level) => Ok(()),
        true => Err(invalid(format!(
            "'{name}' cannot be expanded as {}; create a volume on other drives and copy",
            of.level.name()
        ))),
        false => Err(invalid(format!(
            "'{name}' cannot be migrated from {} to {}: volumes of {} can be migrated to {}; \
            create a volume on other drives and copy, or choose one of these with --level",
            of.level.name(),
            level.name(),
            names(&FROM),
            names(&TO)
        ))),
    }
}

/// Checks whether new drives fit the reshaped volume.
fn check_drives(label: &Label, of: &VolumeLabel, candidates: &[Candidate]) -> Result<()> {
    let name = &of.name;
    if let Some(large) =
        candidates.iter().find(|candidate| candidate.sector.bytes().0 > of.sector_bytes)
    {
        return Err(invalid(format!(
            "drive {} has sectors of {} bytes, and '{name}' has sectors of {}; choose drives with \
                sectors of {}",
            large.drive.name,
            large.sector.bytes().0,
            of.sector_bytes,
            of.sector_bytes
        )));
    }
    // Until the commit, the old layout counts as using all members.
    let is_small = |candidate: &&Candidate| {
        free_end(std::iter::once(candidate.size), label.tail).0 < of.data_end_bytes()
    };
    if let Some(small) = candidates.iter().find(is_small) {
        return Err(wrong(format!(
            "drive {} is smaller than the space that '{name}' uses on each drive ({}); choose a \
            larger one",
            small.drive.name,
            ByteCount(of.data_end_bytes())
        )));
    }
    Ok(())
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

fn info_of(of: &VolumeLabel, from: &Geometry, way: &Way) -> ReshapeInfo {
    info((of, from), (&way.geometry, way.capacity.0), (&way.save, &way.reshape))
}

/// The description of a reshape that has moved nothing.
fn info(
    (of, from): (&VolumeLabel, &Geometry),
    (to, capacity): (&Geometry, u64),
    (save, reshape): (&Geometry, &Reshape),
) -> ReshapeInfo {
    let (from, to) = (layout_info(from, of.capacity_bytes), layout_info(to, capacity));
    ReshapeInfo {
        volume: of.name.clone(),
        may_lose: from.may_lose.min(to.may_lose),
        saved_at_a_time_bytes: save.capacity().0,
        at_a_time_bytes: reshape.most_bytes().0,
        estimated_s: None,
        moved_bytes: 0,
        total_bytes: reshape.bytes().0,
        down: reshape.is_down(),
        removes: Vec::new(),
        waits: false,
        along: Vec::new(),
        from,
        to,
    }
}

/// The description of a volume that is reshaping or queued.
pub(crate) fn info_on_its_way(array: &Array, volume: &Volume) -> Option<ReshapeInfo> {
    let (label, of) = (array.label(), volume.label());
    if let Some(follows) = of.follows.as_ref().filter(|_| !volume.is_on_its_way()) {
        let way = Way::along(&label, &of, DriveCount(follows.members)).ok()?;
        return Some(ReshapeInfo { waits: true, ..info_of(&of, &volume.geometry, &way) });
    }
    let (reshape, moved) = array.reshape_of(volume)?;
    let (to, save) = array.parts_of(volume)?;
    let removes = label.member.into_iter().enumerate().filter(|(slot, _)| !to.is_on(*slot));
    let info = info(
        (&of, &volume.geometry),
        (&to.geometry, to.label().capacity_bytes),
        (&save.geometry, &reshape),
    );
    let removes = removes.map(|(_, member)| member.name).collect();
    Some(ReshapeInfo { moved_bytes: moved.bytes.0, removes, ..info })
}
