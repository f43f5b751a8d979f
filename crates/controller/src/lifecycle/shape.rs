//! The layout of a new volume, from the command and the properties of the drives.

use crate::arrays::extents::{self, free_end};
use crate::interface::{Coercion, CreateVolume, Error, ErrorKind, Result};
use crate::inventory::Drive;
use layout::{Geometry, Level, MirrorArrangement, ParityArrangement};
use ondisk::{Label, TailPlace};
use std::ops::Range;
use std::rc::Rc;
use units::{ByteCount, DriveCount, SectorSize, StripSize, both_capacities};

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

/// The parameters of a command, checked without the drives.
pub(crate) struct Wanted {
    shape: layout::Shape,
    strip: Option<StripSize>,
    size: Option<ByteCount>,
    coercion: Coercion,
}

impl Wanted {
    pub(crate) fn of(create: &CreateVolume, drives: usize) -> Result<Wanted> {
        let level: Level = create.level.parse().map_err(invalid)?;
        let drives = DriveCount(u16::try_from(drives).unwrap_or(u16::MAX));
        let mut shape = layout::Shape {
            spans: create.spans,
            copies: create.copies,
            ..layout::Shape::new(level, drives)
        };
        if let Some(text) = &create.arrangement {
            arrange(&mut shape, text)?;
        }
        shape.check().map_err(invalid)?;
        let strip =
            create.strip_bytes.map(|bytes| StripSize::new(ByteCount(bytes)).map_err(invalid));
        Ok(Wanted {
            shape,
            strip: strip.transpose()?,
            size: create.size_bytes.map(ByteCount),
            coercion: create.coercion.unwrap_or_default(),
        })
    }

    fn strip(&self, rotational: bool) -> StripSize {
        let usual = if rotational { StripSize::KIB_256 } else { StripSize::KIB_64 };
        self.strip.unwrap_or(usual)
    }
}

/// Sets the layout by its name: of parity, or of mirrors.
fn arrange(shape: &mut layout::Shape, text: &str) -> Result<()> {
    let row = shape.level.row();
    if let Ok(mirrors) = text.parse::<MirrorArrangement>() {
        shape.mirrors = Some(mirrors);
        return Ok(());
    }
    match text.parse::<ParityArrangement>() {
        Ok(parity) => shape.parity = Some(parity),
        Err(_) => {
            let parity = row.parity_arrangements.iter().map(|one| one.name());
            let mirrors = row.mirror_arrangements.iter().map(|one| one.name());
            let names: Vec<&str> = parity.chain(mirrors).collect();
            return Err(invalid(match names.is_empty() {
                true => {
                    format!("'{text}' is not a layout, and {} has none; leave it out", row.name)
                }
                false => format!("'{text}' is not a layout; {} has {}", row.name, names.join(", ")),
            }));
        }
    }
    Ok(())
}

/// The properties of a drive that a new volume needs.
pub(super) struct Measure<'d> {
    pub(super) name: &'d str,
    pub(super) size: ByteCount,
    pub(super) sector: SectorSize,
    pub(super) rotational: bool,
}

/// The layout of a new volume, and its location.
pub(crate) struct Shape {
    pub(crate) geometry: Geometry,
    pub(crate) start_bytes: u64,
    pub(crate) capacity: ByteCount,
    pub(crate) sector: SectorSize,
    pub(crate) notes: Vec<String>,
}

impl Shape {
    /// On empty drives.
    pub(super) fn on_drives(wanted: &Wanted, drives: &[Measure<'_>]) -> Result<Shape> {
        let strip = wanted.strip(drives.iter().any(|drive| drive.rotational));
        let (room, mut notes) = room(drives, wanted.coercion, strip)?;
        let sectors = drives.iter().map(|drive| drive.sector);
        let sector = sectors.clone().max().unwrap_or_default();
        if sectors.min() != Some(sector) {
            notes.push(format!(
                "its drives have sectors of 512 and of 4096 bytes: the volume has sectors of {} \
                    bytes",
                sector.bytes().0
            ));
        }
        let gaps = extents::free_bytes(None, room, strip);
        let placed = place(wanted, strip, sector, &gaps, "");
        let is_rounded =
            drives.iter().any(|drive| wanted.coercion.used_of(drive.size) < drive.size);
        let (geometry, start_bytes, capacity) = match placed {
            Err(mut error) if is_rounded => {
                error.message += "; with --coercion none the size of drives is not rounded down";
                return Err(error);
            }
            placed => placed?,
        };
        Ok(Shape { geometry, start_bytes, capacity, sector, notes })
    }

    /// In the free space on the drives of an array.
    pub(super) fn beside(wanted: &Wanted, drives: &[Rc<Drive>], label: &Label) -> Result<Shape> {
        let infos: Vec<platform::DriveInfo> = drives
            .iter()
            .filter_map(|drive| drive.access())
            .map(|access| access.info().clone())
            .collect();
        let strip = wanted.strip(infos.iter().any(|info| info.rotational));
        let sector = infos.iter().map(|info| info.logical_sector).max().unwrap_or_default();
        let room =
            free_end(infos.iter().map(|info| wanted.coercion.used_of(info.size)), label.tail);
        let gaps = extents::free_bytes(Some(label), room, strip);
        if gaps.is_empty() {
            let sentence = format!(
                "there is no free space on the drives of {}; delete a volume, or choose other \
                drives",
                label.names()
            );
            return Err(invalid(sentence));
        }
        let (geometry, start_bytes, capacity) =
            place(wanted, strip, sector, &gaps, " free in one piece")?;
        Ok(Shape { geometry, start_bytes, capacity, sector, notes: Vec::new() })
    }
}

/// The layout, start and capacity of a volume in one of these gaps: the first that has the
/// requested size, or all of the longest.
fn place(
    wanted: &Wanted,
    strip: StripSize,
    sector: SectorSize,
    gaps: &[Range<u64>],
    how: &str,
) -> Result<(Geometry, u64, ByteCount)> {
    let longest = extents::longest(gaps).unwrap_or(0..0);
    let room = ByteCount(longest.end - longest.start);
    let whole = rounded(wanted.shape.geometry(strip, room).map_err(invalid)?)?;
    let Some(size) = wanted.size else { return Ok((whole, longest.start, whole.capacity())) };
    if size.is_zero() || !size.is_aligned(sector.bytes()) {
        return Err(invalid(format!(
            "a size of {} bytes is not a whole number of {}-byte sectors; choose one such as 1G",
            size.0,
            sector.bytes().0
        )));
    }
    if size > whole.capacity() {
        return Err(invalid(format!(
            "a size of {size} is more than the {} that {} has on these drives{how}; choose a \
                smaller size or larger drives",
            whole.capacity(),
            wanted.shape.level.title()
        )));
    }
    let least = whole.member_size_for(size);
    let used = if is_rounded(&whole) { least.align_up(ByteCount::MIB) } else { least };
    let geometry = whole.with_member_size(used).map_err(invalid)?;
    let start = extents::first_fit(gaps, geometry.member_size()).unwrap_or(longest.start);
    Ok((geometry, start, size))
}

/// Whether a volume uses whole MiB of each drive. Mirrors do: they are served in the largest strips
/// that fit into the used size ([`engine`]), whatever size the drives have.
fn is_rounded(geometry: &Geometry) -> bool {
    geometry.level() == Level::Raid1 && geometry.member_size() >= ByteCount::MIB
}

/// A layout that uses as much of each drive as possible: whole MiB if it is [rounded](is_rounded).
fn rounded(geometry: Geometry) -> Result<Geometry> {
    match is_rounded(&geometry) {
        true => geometry
            .with_member_size(geometry.member_size().align_down(ByteCount::MIB))
            .map_err(invalid),
        false => Ok(geometry),
    }
}

/// The note that a drive's used size is smaller than its size, as text after the size.
fn rounded_to(size: ByteCount, used: ByteCount, coercion: Coercion) -> String {
    match used < size {
        true => format!(", of which {used} are used with --coercion {}", coercion.name()),
        false => String::new(),
    }
}

/// The usable space of each drive: that of the smallest, rounded down, without its label.
fn room(
    drives: &[Measure<'_>],
    coercion: Coercion,
    strip: StripSize,
) -> Result<(ByteCount, Vec<String>)> {
    let mut smallest: Option<(ByteCount, &Measure<'_>)> = None;
    for drive in drives {
        let used = coercion.used_of(drive.size);
        let room = free_end([used].into_iter(), TailPlace::End);
        if room < strip.bytes() {
            return Err(invalid(format!(
                "drive {} is too small: it has {}{}, and a member needs one strip of {strip} and \
                    32 MiB for its label",
                drive.name,
                both_capacities(drive.size),
                rounded_to(drive.size, used, coercion)
            )));
        }
        if smallest.is_none_or(|(other, _)| room < other) {
            smallest = Some((room, drive));
        }
    }
    let Some((room, least)) = smallest else {
        return Err(invalid("a volume needs drives; name them"));
    };
    let mut notes = Vec::new();
    if let Some(most) = drives.iter().map(|drive| drive.size).max()
        && most != least.size
    {
        notes.push(format!(
            "its drives differ in size, from {} to {}: each is used with the size of the smallest, \
            {}",
            both_capacities(least.size),
            both_capacities(most),
            least.name
        ));
    }
    Ok((room, notes))
}
