//! What a seed draws of a second volume, the neighbour of the first. The draws are its own: of the first one everything is what it
//! is without a neighbour, but for how long drives are that the two share.

use super::{Place, Setup, TAIL, drive_count, level};
use crate::options::{Lie, Neighbour, Options};
use controller::WriteHole;
use layout::{Geometry, Level, Shape};
use platform_sim::{DriveFaults, DriveOptions, Rng};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize};

/// Where volumes of an array may begin.
const ALIGNMENT: u64 = 1 << 20;

/// Of how many requests of the first volume the neighbour has one.
const LIGHTER: u64 = 6;

/// Gives the first volume a neighbour, in some runs.
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
    let neighbour = if rng.chance(1, 2) { on_same(first, &mut rng) } else { on_own(first, &mut rng) };
    let largest = first.drives.iter().chain(&neighbour.drives).map(|drive| drive.size).max();
    for replacement in &mut first.replacements {
        replacement.size = largest.unwrap_or_default();
    }
    first.beside.push(draw_rest(neighbour, options, &mut rng));
}

/// On the drives of the first one, which are longer by that. Both survive something, or neither does: of a drive that is repaired
/// with what it held, and of one that another takes the place of, only one can be.
fn on_same(first: &mut Setup, rng: &mut Rng) -> Setup {
    let count = first.geometry.drives();
    let mut levels: Vec<(Level, Option<u16>)> =
        Level::ALL.into_iter().map(|level| (level, copies(level, rng))).collect();
    levels.retain(|(level, copies)| {
        let shape = Shape { copies: *copies, ..Shape::new(*level, count) };
        level.is_redundant() == first.level.is_redundant() && shape.check().is_ok()
    });
    // The level of the first one is among them.
    let (level, copies) = match levels.len() as u64 {
        0 => (first.level, first.copies),
        count => levels[rng.below(count) as usize],
    };
    let geometry = geometry(level, count, copies, rng);
    let start = first.geometry.member_size().0.next_multiple_of(ALIGNMENT);
    let more = start - first.geometry.member_size().0 + geometry.member_size().0;
    first.drives.iter_mut().for_each(|drive| drive.size += ByteCount(more));
    let drives = first.drives.clone();
    Setup { place: Place::SameDrives, start: ByteCount(start), drives, ..like(first, geometry, copies) }
}

/// On drives of its own, which are like those of the first one.
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
    Setup { place: Place::OwnDrives, start: ByteCount::ZERO, drives, ..like(first, geometry, copies) }
}

fn copies(level: Level, rng: &mut Rng) -> Option<u16> {
    (level == Level::Raid1e).then(|| rng.between(2, 3) as u16)
}

/// Small: it is read as a whole whenever it is looked at.
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

/// What it has in common with the first one.
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
