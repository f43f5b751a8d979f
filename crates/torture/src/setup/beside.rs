//! The draws of a second volume, the neighbour, from a separate stream: they do not change the
//! first volume, except for the length of shared drives.

use super::{Setup, TAIL, VolumeRole, drive_count, level};
use crate::options::{Lie, Neighbour, Options};
use controller::WriteHole;
use layout::{Geometry, Level, Shape};
use platform_sim::{DriveFaults, DriveOptions, Rng};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize};

/// The alignment of volumes in an array.
const ALIGNMENT: u64 = 1 << 20;

/// The ratio of requests of the first volume and the neighbour.
const LIGHTER: u64 = 6;

/// Adds a neighbour to the first volume, in some runs.
pub(super) fn draw(first: &mut Setup, options: &Options) {
    let mut rng = Rng::new(first.seed, "neighbour", "");
    let drawn = rng.chance(if options.write_back { 3 } else { 2 }, 6);
    let is_there = match options.neighbour {
        Neighbour::Never => false,
        Neighbour::Drawn => drawn,
        Neighbour::Always => true,
    };
    if !is_there || options.lie != Lie::None {
        return;
    }
    let neighbour =
        if rng.chance(1, 2) { on_same(first, &mut rng) } else { on_own(first, &mut rng) };
    let largest = first.drives.iter().chain(&neighbour.drives).map(|drive| drive.size).max();
    for replacement in &mut first.replacements {
        replacement.size = largest.unwrap_or_default();
    }
    first.beside.push(draw_rest(neighbour, options, &mut rng));
}

/// A neighbour on the first volume's drives, which become longer. Both are redundant, or none: a
/// dead drive is either repaired with its content or replaced.
fn on_same(first: &mut Setup, rng: &mut Rng) -> Setup {
    let count = first.geometry.drives();
    let mut levels: Vec<(Level, Option<u16>)> =
        Level::ALL.into_iter().map(|level| (level, copies(level, rng))).collect();
    levels.retain(|(level, copies)| {
        let shape = Shape { copies: *copies, ..Shape::new(*level, count) };
        level.is_redundant() == first.level.is_redundant() && shape.check().is_ok()
    });
    // Includes the first volume's level.
    let (level, copies) = match levels.len() as u64 {
        0 => (first.level, first.copies),
        count => levels[rng.below(count) as usize],
    };
    let geometry = geometry(level, count, copies, rng);
    let start = first.geometry.member_size().0.next_multiple_of(ALIGNMENT);
    let more = start - first.geometry.member_size().0 + geometry.member_size().0;
    first.drives.iter_mut().for_each(|drive| drive.size += ByteCount(more));
    let drives = first.drives.clone();
    Setup {
        place: VolumeRole::SameDrives,
        start: ByteCount(start),
        drives,
        ..like(first, geometry, copies)
    }
}

/// A neighbour on its own drives, similar to the first volume's.
fn on_own(first: &Setup, rng: &mut Rng) -> Setup {
    let level = level(rng, &[]);
    let (count, copies) = (drive_count(rng, level), copies(level, rng));
    let geometry = geometry(level, count, copies, rng);
    let member = geometry.member_size();
    let data = ByteRange::new(ByteOffset::ZERO, member);
    let drive = DriveOptions {
        size: TAIL + member,
        faults: DriveFaults { within: Some(data), ..DriveFaults::default() },
        ..first.drives[0].clone()
    };
    let drives = vec![drive; count.as_usize()];
    Setup {
        place: VolumeRole::OwnDrives,
        start: ByteCount::ZERO,
        drives,
        ..like(first, geometry, copies)
    }
}

fn copies(level: Level, rng: &mut Rng) -> Option<u16> {
    (level == Level::Raid1e).then(|| rng.between(2, 3) as u16)
}

/// Small: every check reads it completely.
fn geometry(level: Level, count: DriveCount, copies: Option<u16>, rng: &mut Rng) -> Geometry {
    let strip = StripSize::new(ByteCount(4 << 10 << rng.below(4))).unwrap_or(StripSize::MIN);
    let shape = Shape { copies, ..Shape::new(level, count) };
    let capacity = ByteCount(rng.between(64 << 10, 192 << 10));
    let made = |member| {
        let geometry = shape.geometry(strip, member);
        geometry.unwrap_or_else(|error| panic!("{level} over {count} drives is no array: {error}"))
    };
    let least = made(strip.bytes() * 3 * u64::from(count.0));
    made(least.member_size_for(capacity).max(strip.bytes() * 3))
}

/// The properties shared with the first volume.
fn like(first: &Setup, geometry: Geometry, copies: Option<u16>) -> Setup {
    Setup {
        seed: Rng::new(first.seed, "neighbour", "seed").next_u64(),
        level: geometry.level(),
        strip: geometry.strip(),
        geometry,
        copies,
        replacements: Vec::new(),
        zones: vec![ByteRange::new(ByteOffset::ZERO, geometry.capacity())],
        silent: false,
        silent_in_the_end: false,
        ..first.clone()
    }
}

fn draw_rest(neighbour: Setup, options: &Options, rng: &mut Rng) -> Setup {
    let drawn = if rng.chance(2, 3) { WriteHole::Journal } else { WriteHole::Resync };
    Setup {
        write_hole: options.write_hole.unwrap_or(drawn),
        write_back: options.write_back && rng.chance(2, 3),
        workers: rng.between(1, 3),
        ops: options.ops / LIGHTER,
        ..neighbour
    }
}
