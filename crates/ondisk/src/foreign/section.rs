//! Converts a level on members to stretches with one layout each.
//!
//! ```text
//! Linux md, RAID 0 on drives of 3, 3 and 5 strips         linear on drives of 2 and 3 strips
//! slot      0    1    2                                   slot      0    1
//! row 0     0    1    2  ┐                                row 0     0    2
//! row 1     3    4    5  │ section 0: RAID 0 on 0, 1, 2   row 1     1    3
//! row 2     6    7    8  ┘                                row 2          4
//! row 3               9  ┐ section 1: JBOD on 2,          sections: JBOD on 0, JBOD on 1
//! row 4              10  ┘ from row 3 on
//! ```

use super::record::VolumeRecord;
use layout::{Geometry, Level, MirrorArrangement, Shape};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, MAX_DRIVES, StripSize};

/// The layout of a volume's bytes, in its format's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrangement {
    /// One shape over the same stretch of all members; the smallest member limits all.
    Shape(Shape),
    /// RAID 0 over the whole of members of different sizes: rows over the members that are long
    /// enough (Linux md).
    Zones(ZoneRule),
    /// The members concatenated, each rounded down to whole strips.
    Linear,
    /// These sections, concatenated.
    Sections(Vec<Section>),
    /// An unsupported layout, with the reason as a sentence.
    Other(String),
}

/// The member with the first strip of a zone, in RAID 0 on members of different sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneRule {
    /// The strip's number in the volume, modulo the zone's members (Linux before 3.14).
    Original,
    /// The zone's first member (Linux from 3.14 on).
    Alternate,
    /// Not recorded: usable only where both rules agree.
    Unrecorded,
}

/// A range of a volume's bytes: a shape over stretches of some of its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The level and layout.
    pub shape: Shape,
    /// The strip; where the level has none, any that divides `member_size`.
    pub strip: StripSize,
    /// The shape's drives, in its order: the slot in the volume, and the offset of the stretch in
    /// that member's data.
    pub members: Vec<(u16, ByteOffset)>,
    /// The length of each stretch.
    pub member_size: ByteCount,
    /// The range of the shape's bytes that belongs to the volume.
    pub within: ByteRange,
}

impl Section {
    /// A section of all bytes that the shape holds on stretches of that length.
    ///
    /// # Errors
    /// When the shape does not support the number of members, or not one stripe fits: a sentence.
    pub fn new(
        shape: Shape,
        strip: StripSize,
        members: Vec<(u16, ByteOffset)>,
        member_size: ByteCount,
    ) -> Result<Section, String> {
        let within = ByteRange::default();
        let mut section = Section { shape, strip, members, member_size, within };
        section.within.len = section.geometry()?.capacity();
        Ok(section)
    }

    /// Its layout.
    ///
    /// # Errors
    /// When the shape does not support the number of members, or not one stripe fits: a sentence.
    pub fn geometry(&self) -> Result<Geometry, String> {
        self.shape.geometry(self.strip, self.member_size).map_err(|error| error.context)
    }
}

/// The sections of a volume, by the bytes that each slot contributes; `None` where the member is
/// unknown.
///
/// # Errors
/// When the layout is unsupported, or depends on the size of an unknown member: a sentence.
pub fn sections(
    volume: &VolumeRecord,
    members: &[Option<ByteCount>],
) -> Result<Vec<Section>, String> {
    if usize::from(volume.slots) > MAX_DRIVES {
        return Err(format!(
            "it has {} members; {MAX_DRIVES} are the most that can be served",
            volume.slots
        ));
    }
    let mut sections = match &volume.arrangement {
        Arrangement::Shape(shape) => whole(volume, *shape, members)?,
        Arrangement::Zones(rule) => zones(volume, *rule, members)?,
        Arrangement::Linear => linear(volume, members)?,
        Arrangement::Sections(sections) => sections.clone(),
        Arrangement::Other(why) => return Err(why.clone()),
    };
    if let Some(capacity) = volume.capacity {
        cut(&mut sections, capacity)?;
    }
    let known = |section: &Section| {
        section.members.len() == section.shape.drives.as_usize()
            && section.members.iter().all(|(slot, _)| *slot < volume.slots)
    };
    if sections.is_empty() || !sections.iter().all(known) {
        return Err("its metadata name members that it does not have".into());
    }
    Ok(sections)
}

fn cut(sections: &mut Vec<Section>, capacity: ByteCount) -> Result<(), String> {
    let mut left = capacity;
    for section in sections.iter_mut() {
        section.within.len = section.within.len.min(left);
        left = left.saturating_sub(section.within.len);
    }
    sections.retain(|section| !section.within.is_empty());
    if left.is_zero() {
        return Ok(());
    }
    let held = ByteCount(capacity.0 - left.0);
    Err(format!("its size is {capacity} by its metadata, but its members hold only {held}"))
}

fn strip_of(volume: &VolumeRecord) -> Result<Option<StripSize>, String> {
    volume.strip.map(StripSize::new).transpose().map_err(|error| error.to_string())
}

/// A strip for levels without one: the largest that divides a length.
fn dividing(length: ByteCount) -> StripSize {
    let divisor =
        1 << length.0.trailing_zeros().clamp(StripSize::MIN.shift(), StripSize::MAX.shift());
    StripSize::new(ByteCount(divisor)).unwrap_or(StripSize::MIN)
}

fn whole(
    volume: &VolumeRecord,
    shape: Shape,
    members: &[Option<ByteCount>],
) -> Result<Vec<Section>, String> {
    let smallest = || members.iter().flatten().min().copied();
    let Some(member_size) = volume.member_size.or_else(smallest) else {
        return Err("all members that determine the used size are missing".into());
    };
    let strip = strip_of(volume)?.unwrap_or_else(|| dividing(member_size));
    let all: Vec<_> = (0..shape.drives.0).map(|slot| (slot, ByteOffset(0))).collect();
    let mut sections = vec![Section::new(shape, strip, all, member_size)?];
    let geometry = sections[0].geometry()?;
    if shape.level == Level::Raid1e
        && geometry.mirror_arrangement() == Some(MirrorArrangement::Near)
    {
        sections.extend(last_strips(&geometry, member_size)?);
    }
    if matches!(shape.level, Level::Raid1 | Level::Jbod) && volume.strip.is_none() {
        sections.extend(last_bytes(shape, &sections[0], member_size)?);
    }
    Ok(sections)
}

/// The remainder at the end of members whose size is no multiple of the smallest strip, where the
/// level has no strip: the end of a section over the last 4 KiB.
fn last_bytes(
    shape: Shape,
    before: &Section,
    member_size: ByteCount,
) -> Result<Option<Section>, String> {
    let strip = StripSize::MIN;
    let left = member_size.saturating_sub(before.within.len);
    if left.is_zero() {
        return Ok(None);
    }
    let start = ByteOffset(member_size.0 - strip.bytes().0);
    let all = before.members.iter().map(|(slot, _)| (*slot, start)).collect();
    let mut last = Section::new(shape, strip, all, strip.bytes())?;
    last.within = ByteRange::new(ByteOffset(strip.bytes().0 - left.0), left);
    Ok(Some(last))
}

/// The last rows of adjacent copies, where there are fewer rows than copies and so no whole stripe
/// of RAID 1E: a section for each data strip.
fn last_strips(geometry: &Geometry, member_size: ByteCount) -> Result<Vec<Section>, String> {
    let (drives, copies) = (u64::from(geometry.drives().0), u64::from(geometry.copies()));
    let strip = geometry.strip();
    let rows = member_size.0 >> strip.shift();
    let first_row = geometry.member_size().0 >> strip.shift();
    let strips = (rows - first_row) * drives / copies;
    let mirror = Shape::new(Level::Raid1, DriveCount(geometry.copies()));
    let cell = |number: u64| {
        let row = first_row + number / drives;
        ((number % drives) as u16, ByteOffset(row << strip.shift()))
    };
    (0..strips)
        .map(|index| {
            let cells = (index * copies..(index + 1) * copies).map(cell).collect();
            Section::new(mirror, strip, cells, strip.bytes())
        })
        .collect()
}

fn all_known(members: &[Option<ByteCount>], unit: ByteCount) -> Result<Vec<ByteCount>, String> {
    let sizes: Option<Vec<ByteCount>> = members.iter().copied().collect();
    let sizes = sizes.ok_or("its layout depends on the size of missing members")?;
    Ok(sizes.into_iter().map(|size| size.align_down(unit)).collect())
}

fn linear(volume: &VolumeRecord, members: &[Option<ByteCount>]) -> Result<Vec<Section>, String> {
    let unit = volume.strip.unwrap_or(StripSize::MIN.bytes());
    if !unit.0.is_power_of_two() || unit < StripSize::MIN.bytes() {
        return Err(format!(
            "members are rounded down to {unit}, which is not a power of two of at least 4 KiB"
        ));
    }
    let sizes = all_known(members, unit)?;
    let sizes = (0..).zip(sizes).filter(|(_, size)| !size.is_zero());
    let shape = Shape::new(Level::Jbod, DriveCount(1));
    sizes
        .map(|(slot, size)| Section::new(shape, dividing(size), vec![(slot, ByteOffset(0))], size))
        .collect()
}

fn zones(
    volume: &VolumeRecord,
    rule: ZoneRule,
    members: &[Option<ByteCount>],
) -> Result<Vec<Section>, String> {
    let strip = strip_of(volume)?.ok_or("its metadata have no strip")?;
    let sizes = all_known(members, strip.bytes())?;
    let mut ends = sizes.clone();
    ends.sort();
    ends.dedup();
    let (mut sections, mut from, mut strips) = (Vec::new(), ByteCount::ZERO, 0);
    for end in ends {
        if end == from {
            continue;
        }
        let with_slot = (0..).zip(&sizes);
        let mut there: Vec<(u16, ByteOffset)> = with_slot
            .filter(|(_, size)| **size >= end)
            .map(|(slot, _)| (slot, ByteOffset(from.0)))
            .collect();
        let turn = (strips % there.len() as u64) as usize;
        match rule {
            ZoneRule::Original => there.rotate_left(turn),
            ZoneRule::Unrecorded if turn != 0 => {
                return Err("its members have different sizes, and its metadata do not record \
                     which of Linux's two layouts of RAID 0 it has"
                    .into());
            }
            ZoneRule::Alternate | ZoneRule::Unrecorded => {}
        }
        let width = DriveCount(there.len() as u16);
        let level = if width.0 == 1 { Level::Jbod } else { Level::Raid0 };
        let length = end.saturating_sub(from);
        strips += (length.0 >> strip.shift()) * u64::from(width.0);
        sections.push(Section::new(Shape::new(level, width), strip, there, length)?);
        from = end;
    }
    Ok(sections)
}
