//! The draws of the first volume's reshapes, from a separate stream: other draws do not change.
//!
//! A neighbour on the same drives follows when drives are added or removed: only layouts possible
//! for it are drawn then.

use super::{Setup, TAIL, VolumeRole};
use crate::options::{Lie, Migrations, Options};
use engine::Reshape;
use layout::{Geometry, Level, Shape};
use platform_sim::{DriveOptions, Rng, Unwritten};
use units::{ByteCount, DriveCount, StripSize};

/// Levels that a volume can be reshaped from, and to.
const FROM: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10];
const TO: [Level; 4] = [Level::Raid0, Level::Raid5, Level::Raid6, Level::Raid10];

/// Further such levels, with a separate stream: known seeds do not have them.
const LATER: [Level; 3] = [Level::Raid50, Level::Raid60, Level::Raid5ee];

/// The maximum number of drives that one reshape adds.
const MOST_ADDED: u16 = 2;

/// The maximum size of a reshape window. The controller uses less for such small volumes.
const AT_A_TIME: ByteCount = ByteCount(4 << 20);

/// The reshapes of the first volume.
#[derive(Clone, Debug)]
pub struct MigrationsSetup {
    /// The layouts in sequence.
    pub ways: Vec<ReshapeSetup>,
    /// Whether the next reshape is ordered in the life in which the last one ended: only then the
    /// last ones, which shrink, occur.
    pub at_once: bool,
}

/// One reshape.
#[derive(Clone, Debug)]
pub struct ReshapeSetup {
    /// The new layout.
    pub geometry: Geometry,
    /// The number of added drives.
    pub added: u16,
    /// The number of removed drives, from the end.
    pub removed: u16,
    /// Whether the capacity grows to all available space, or stays.
    pub is_full: bool,
    /// Whether the order names the neighbour on the same drives, if there is one, and the first
    /// volume follows.
    pub is_led_by_neighbour: bool,
}

impl ReshapeSetup {
    /// Whether the number of drives changes: then all volumes of the array reshape.
    pub fn moves_all(&self) -> bool {
        self.added + self.removed > 0
    }
}

impl MigrationsSetup {
    /// The names of the drives that a reshape adds.
    pub fn names_of(&self, way: usize) -> Vec<String> {
        let before: u16 = self.ways[..way].iter().map(|way| way.added).sum();
        (before..before + self.ways[way].added).map(|index| format!("m{index}")).collect()
    }

    /// The names of all added drives.
    pub fn names(&self) -> Vec<String> {
        (0..self.ways.len()).flat_map(|way| self.names_of(way)).collect()
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let ways = self.ways.iter().map(|way| {
            let geometry = &way.geometry;
            format!(
                "{} over {} drives, strip {}",
                geometry.level(),
                geometry.drives().0,
                geometry.strip()
            )
        });
        let how = if self.at_once { ", each as soon as the last one has ended" } else { "" };
        format!("reshapes: {}{how}", ways.collect::<Vec<_>>().join(", then to "))
    }
}

/// Draws reshapes of the first volume, in some runs.
pub(super) fn draw(first: &Setup, options: &Options) -> Option<MigrationsSetup> {
    let mut rng = Rng::new(first.seed, "migrations", "");
    let mut later = Rng::new(first.seed, "migrations", "later levels");
    let drawn = rng.chance(1, 4);
    let is_there = match options.migrations {
        Migrations::Never => false,
        Migrations::Drawn => drawn,
        Migrations::Always | Migrations::AtOnce => true,
    };
    let at_once = options.migrations == Migrations::AtOnce;
    if !is_there || options.lie != Lie::None {
        return None;
    }
    // Known seeds draw from these levels only.
    let has_mirrors = options.levels.is_empty() || options.levels.contains(&Level::Raid10);
    let (mut at, mut ways) = (first.geometry, Vec::new());
    let mut along = Follower::new(first);
    for nth in 0..rng.between(1, 2) {
        let mut all = ways_from(&at, &TO);
        all.retain(|to| to.level() != Level::Raid10 || has_mirrors);
        along.retain(&at, &mut all);
        let mut others =
            if options.levels.is_empty() { ways_from(&at, &LATER) } else { Vec::new() };
        along.retain(&at, &mut others);
        if !FROM.contains(&at.level()) {
            others.append(&mut all);
        }
        let drawn = (!all.is_empty()).then(|| all[rng.below(all.len() as u64) as usize]);
        let is_later = drawn.is_none() || later.chance(1, 3);
        let other = (is_later && !others.is_empty())
            .then(|| others[later.below(others.len() as u64) as usize]);
        let Some(way) = other.or(drawn) else { break };
        // The space behind it belongs to the neighbour.
        let is_full = (rng.chance(1, 2) || nth > 0) && along.of.is_none();
        let is_led_by_neighbour = along.may_lead(&at, &way);
        let added = way.drives().0 - at.drives().0;
        at = way;
        ways.push(ReshapeSetup { geometry: way, added, removed: 0, is_full, is_led_by_neighbour });
    }
    ways.extend(draw_less(first, at, (has_mirrors, at_once), &mut along));
    (!ways.is_empty()).then_some(MigrationsSetup { ways, at_once })
}

/// The neighbour's part in reshapes that change the number of drives, from a separate stream.
struct Follower {
    of: Option<Setup>,
    rng: Rng,
}

impl Follower {
    fn new(first: &Setup) -> Follower {
        let of = first.beside.iter().find(|other| other.place == VolumeRole::SameDrives).cloned();
        Follower { of, rng: Rng::new(first.seed, "migrations", "along") }
    }

    /// Keeps the layouts that the neighbour can follow to; in most cases those that change the
    /// number of drives. Both stay redundant, or none.
    fn retain(&mut self, at: &Geometry, ways: &mut Vec<Geometry>) {
        let Some(of) = &self.of else { return };
        ways.retain(|to| to.level().is_redundant() == of.level.is_redundant());
        ways.retain(|to| to.drives() == at.drives() || along(of, to.drives()).is_some());
        let moves_all = |to: &Geometry| to.drives() != at.drives();
        if self.rng.chance(7, 8) && ways.iter().any(moves_all) {
            ways.retain(moves_all);
        }
    }

    /// Whether the order names the neighbour: then the first volume changes its drives only.
    fn may_lead(&mut self, at: &Geometry, to: &Geometry) -> bool {
        let keeps =
            (at.level(), at.strip()) == (to.level(), to.strip()) && at.drives() != to.drives();
        self.of.is_some() && self.rng.chance(1, 2) && keeps
    }
}

/// The layout of a neighbour on the same drives over that number of drives, with its level, strip
/// and size, in the same part of each drive and the free space behind it.
fn along(of: &Setup, drives: DriveCount) -> Option<Geometry> {
    let from = &of.geometry;
    let has_spans = matches!(of.level, Level::Raid50 | Level::Raid60);
    let shape = Shape { spans: has_spans.then(|| from.spans()), ..Shape::new(of.level, drives) };
    let may_move = TO.contains(&of.level) || LATER.contains(&of.level);
    if !may_move || shape.check().is_err() {
        return None;
    }
    let smallest = of.drives.iter().map(|drive| drive.size).min()?;
    let room = ByteCount((smallest.0 - TAIL.0).saturating_sub(of.start.0));
    let whole =
        shape.geometry(of.strip, room).ok().filter(|whole| whole.capacity() >= from.capacity())?;
    let member = whole.member_size_for(from.capacity()).max(from.member_size());
    whole
        .with_member_size(member)
        .ok()
        .filter(|to| drives == from.drives() || way(from, to).is_some())
}

/// Makes a neighbour on the same drives follow: its layouts after each reshape of the first volume.
pub(super) fn draw_along(first: &mut Setup) {
    let Some(MigrationsSetup { ways, at_once }) = first.migrations.clone() else { return };
    for other in first.beside.iter_mut().filter(|other| other.place == VolumeRole::SameDrives) {
        let mut at = other.geometry;
        let own = ways.iter().map(|way| {
            at = Some(way)
                .filter(|way| way.moves_all())
                .and_then(|_| along(other, way.geometry.drives()))
                .unwrap_or(at);
            ReshapeSetup { geometry: at, ..way.clone() }
        });
        other.migrations = Some(MigrationsSetup { ways: own.collect(), at_once });
    }
}

/// Adds a last reshape to fewer drives or less space, in half of the runs or in all: the original
/// capacity fits. From a separate stream.
fn draw_less(
    first: &Setup,
    at: Geometry,
    (has_mirrors, always): (bool, bool),
    along: &mut Follower,
) -> Option<ReshapeSetup> {
    let mut rng = Rng::new(first.seed, "migrations", "less");
    if !rng.chance(1, 2) && !always {
        return None;
    }
    let drives = at.drives().0;
    let mut all: Vec<Geometry> = (drives.saturating_sub(MOST_ADDED)..=drives)
        .flat_map(|drives| ways_to(&at, &TO, drives))
        .filter(|to| to.capacity() >= first.geometry.capacity() && is_down(&at, to))
        .collect();
    all.retain(|to| to.level() != Level::Raid10 || has_mirrors);
    along.retain(&at, &mut all);
    let geometry = *all.get(rng.below(all.len().max(1) as u64) as usize)?;
    let (removed, is_led_by_neighbour) =
        (drives - geometry.drives().0, along.may_lead(&at, &geometry));
    Some(ReshapeSetup { geometry, added: 0, removed, is_full: false, is_led_by_neighbour })
}

/// The reshape from one layout to another.
fn way(from: &Geometry, to: &Geometry) -> Option<Reshape> {
    let bytes = from.capacity().min(to.capacity());
    Reshape::new(engine::served(from), engine::served(to), bytes, AT_A_TIME, AT_A_TIME).ok()
}

/// Whether the reshape starts at the volume's end.
pub(crate) fn is_down(from: &Geometry, to: &Geometry) -> bool {
    way(from, to).is_some_and(|way| way.is_down())
}

impl Setup {
    /// The options of an added drive, with random content.
    pub fn added_drive(&self) -> DriveOptions {
        let size = self.drives.iter().map(|drive| drive.size).max().unwrap_or_default();
        DriveOptions { size, unwritten: Unwritten::Noise, ..self.drives[0].clone() }
    }

    /// The volume's layout after this number of reshapes.
    pub fn layout(&self, migrations: usize) -> Option<Geometry> {
        match migrations.checked_sub(1) {
            None => Some(self.geometry),
            Some(nth) => Some(self.migrations.as_ref()?.ways.get(nth)?.geometry),
        }
    }

    /// All layouts that the volume ever has.
    pub fn layouts(&self) -> impl Iterator<Item = Geometry> + '_ {
        (0..).map_while(|migrations| self.layout(migrations))
    }

    /// Whether it may be reshaped or expanded.
    pub fn may_move(&self) -> bool {
        self.migrations.is_some() || self.larger.is_some()
    }

    /// Whether drives may be corrupted silently at any time. Not with reshapes: these move the
    /// wrong data.
    pub fn is_silent(&self) -> bool {
        self.silent && !self.may_move()
    }
}

/// Every layout that the controller can reshape to, with at least as much data in the same part of
/// each drive.
fn ways_from(from: &Geometry, to: &[Level]) -> Vec<Geometry> {
    let drives = from.drives().0..=from.drives().0 + MOST_ADDED;
    // Level by level: known seeds depend on this order.
    let all = to
        .iter()
        .flat_map(|level| drives.clone().flat_map(|drives| ways_to(from, &[*level], drives)));
    all.filter(|to| !is_down(from, to) && to.capacity() >= from.capacity()).collect()
}

/// Every layout of these levels over this number of drives that the controller can reshape to.
fn ways_to(from: &Geometry, to: &[Level], drives: u16) -> Vec<Geometry> {
    let mut ways = Vec::new();
    if !FROM.contains(&from.level()) && !LATER.contains(&from.level()) {
        return ways;
    }
    let strip = from.strip().bytes().0;
    for level in to.iter().copied() {
        for strip in [strip / 2, strip, strip * 2] {
            let mut shape = Shape::new(level, DriveCount(drives));
            // As the controller: the number of spans stays. Its other possibilities are not drawn.
            let keeps_spans = level == from.level() && LATER.contains(&level);
            shape.spans = keeps_spans.then(|| from.spans());
            let Ok(strip) = StripSize::new(ByteCount(strip)) else { continue };
            let Ok(to) = shape.check().and_then(|()| shape.geometry(strip, from.member_size()))
            else {
                continue;
            };
            let is_same = (level, drives, strip) == (from.level(), from.drives().0, from.strip());
            if !is_same && way(from, &to).is_some() {
                ways.push(to);
            }
        }
    }
    ways
}
