//! What a seed draws of other layouts that the first volume goes to. The draws are its own: everything else is what it is without them.
//!
//! Where a neighbour lies on the same drives it moves along when drives are added or removed: only what it can come to is drawn then.

use super::{Place, Setup, TAIL};
use crate::options::{Lie, Migrations, Options};
use engine::Reshape;
use layout::{Geometry, Level, Shape};
use platform_sim::{DriveOptions, Rng, Unwritten};
use units::{ByteCount, DriveCount, StripSize};

/// Levels that a volume can go from, and to.
const FROM: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10];
const TO: [Level; 4] = [Level::Raid0, Level::Raid5, Level::Raid6, Level::Raid10];

/// Levels that it can go from and to as well. They have draws of their own: seeds were kept that know nothing of them.
const LATER: [Level; 3] = [Level::Raid50, Level::Raid60, Level::Raid5ee];

/// How many drives one migration adds at most.
const MOST_ADDED: u16 = 2;

/// What is saved and moved at a time at most. The controller takes less of a volume that is as small as these.
const AT_A_TIME: ByteCount = ByteCount(4 << 20);

/// Where the first volume of a run goes.
#[derive(Clone, Debug)]
pub struct MigrationsSetup {
    /// The layouts, one after the other.
    pub ways: Vec<WaySetup>,
    /// Whether the next one is ordered in the life in which the volume has come to one: the last ones are met so, which lead to less.
    pub at_once: bool,
}

/// One migration.
#[derive(Clone, Debug)]
pub struct WaySetup {
    /// The layout that the volume comes to.
    pub geometry: Geometry,
    /// How many drives are added for it.
    pub added: u16,
    /// How many of the last ones are removed.
    pub removed: u16,
    /// Whether hosts can use all there is in the end, and not only as much as before.
    pub is_full: bool,
    /// Whether it is the neighbour on the same drives that is named, if there is one then, and the first volume that moves along.
    pub is_led_by_neighbour: bool,
}

impl WaySetup {
    /// Whether drives come or go: then all volumes of the array move.
    pub fn moves_all(&self) -> bool {
        self.added + self.removed > 0
    }
}

impl MigrationsSetup {
    /// The names of the drives that a migration adds.
    pub fn names_of(&self, way: usize) -> Vec<String> {
        let before: u16 = self.ways[..way].iter().map(|way| way.added).sum();
        (before..before + self.ways[way].added).map(|index| format!("m{index}")).collect()
    }

    /// The names of all drives that are ever added.
    pub fn names(&self) -> Vec<String> {
        (0..self.ways.len()).flat_map(|way| self.names_of(way)).collect()
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let ways = self.ways.iter().map(|way| {
            let geometry = &way.geometry;
            format!("{} over {} drives, strip {}", geometry.level(), geometry.drives().0, geometry.strip())
        });
        let how = if self.at_once { ", as soon as it has come to the one before" } else { "" };
        format!("it may go to {}{how}", ways.collect::<Vec<_>>().join(", then to "))
    }
}

/// Has the first volume go to other layouts, in some runs.
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
    // Seeds were kept that draw from these levels alone.
    let has_mirrors = options.levels.is_empty() || options.levels.contains(&Level::Raid10);
    let (mut at, mut ways) = (first.geometry, Vec::new());
    let mut along = Along::new(first);
    for nth in 0..rng.between(1, 2) {
        let mut all = ways_from(&at, &TO);
        all.retain(|to| to.level() != Level::Raid10 || has_mirrors);
        along.retain(&at, &mut all);
        let mut others = if options.levels.is_empty() { ways_from(&at, &LATER) } else { Vec::new() };
        along.retain(&at, &mut others);
        if !FROM.contains(&at.level()) {
            others.append(&mut all);
        }
        let drawn = (!all.is_empty()).then(|| all[rng.below(all.len() as u64) as usize]);
        let is_later = drawn.is_none() || later.chance(1, 3);
        let other =
            (is_later && !others.is_empty()).then(|| others[later.below(others.len() as u64) as usize]);
        let Some(way) = other.or(drawn) else { break };
        // What is behind it is the neighbour's.
        let is_full = (rng.chance(1, 2) || nth > 0) && along.of.is_none();
        let is_led_by_neighbour = along.may_lead(&at, &way);
        let added = way.drives().0 - at.drives().0;
        at = way;
        ways.push(WaySetup { geometry: way, added, removed: 0, is_full, is_led_by_neighbour });
    }
    ways.extend(draw_less(first, at, (has_mirrors, at_once), &mut along));
    (!ways.is_empty()).then_some(MigrationsSetup { ways, at_once })
}

/// What a neighbour on the same drives does when the first volume goes to more of them, or to fewer. Its draws are its own.
struct Along {
    of: Option<Setup>,
    rng: Rng,
}

impl Along {
    fn new(first: &Setup) -> Along {
        let of = first.beside.iter().find(|other| other.place == Place::SameDrives).cloned();
        Along { of, rng: Rng::new(first.seed, "migrations", "along") }
    }

    /// Leaves the ways on which the neighbour comes along; of these, in most cases those on which it has to. Both survive something, or neither does, as at
    /// first.
    fn retain(&mut self, at: &Geometry, ways: &mut Vec<Geometry>) {
        let Some(of) = &self.of else { return };
        ways.retain(|to| to.level().is_redundant() == of.level.is_redundant());
        ways.retain(|to| to.drives() == at.drives() || along(of, to.drives()).is_some());
        let moves_all = |to: &Geometry| to.drives() != at.drives();
        if self.rng.chance(7, 8) && ways.iter().any(moves_all) {
            ways.retain(moves_all);
        }
    }

    /// Whether the order names the neighbour: then the first volume stays as it is, but for its drives.
    fn may_lead(&mut self, at: &Geometry, to: &Geometry) -> bool {
        let keeps = (at.level(), at.strip()) == (to.level(), to.strip()) && at.drives() != to.drives();
        self.of.is_some() && self.rng.chance(1, 2) && keeps
    }
}

/// The layout by which a neighbour on the same drives has what it has on so many of them: with its level, its strip and its size, in the same part of each drive
/// and what is free behind that.
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
    let whole = shape.geometry(of.strip, room).ok().filter(|whole| whole.capacity() >= from.capacity())?;
    let member = whole.member_size_for(from.capacity()).max(from.member_size());
    whole.with_member_size(member).ok().filter(|to| drives == from.drives() || way(from, to).is_some())
}

/// Has a neighbour on the same drives move along: what it is on the way of the first one.
pub(super) fn draw_along(first: &mut Setup) {
    let Some(MigrationsSetup { ways, at_once }) = first.migrations.clone() else { return };
    for other in first.beside.iter_mut().filter(|other| other.place == Place::SameDrives) {
        let mut at = other.geometry;
        let own = ways.iter().map(|way| {
            at = Some(way)
                .filter(|way| way.moves_all())
                .and_then(|_| along(other, way.geometry.drives()))
                .unwrap_or(at);
            WaySetup { geometry: at, ..way.clone() }
        });
        other.migrations = Some(MigrationsSetup { ways: own.collect(), at_once });
    }
}

/// Has the volume come to less in the end, in half of the runs or in all: to drives that it has, or fewer, where as much fits as it had at first. The
/// draws are its own.
fn draw_less(
    first: &Setup,
    at: Geometry,
    (has_mirrors, always): (bool, bool),
    along: &mut Along,
) -> Option<WaySetup> {
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
    let (removed, is_led_by_neighbour) = (drives - geometry.drives().0, along.may_lead(&at, &geometry));
    Some(WaySetup { geometry, added: 0, removed, is_full: false, is_led_by_neighbour })
}

/// How the volume goes from one layout to another one.
fn way(from: &Geometry, to: &Geometry) -> Option<Reshape> {
    let bytes = from.capacity().min(to.capacity());
    Reshape::new(engine::served(from), engine::served(to), bytes, AT_A_TIME, AT_A_TIME).ok()
}

/// Whether the volume's last byte goes first.
pub(crate) fn is_down(from: &Geometry, to: &Geometry) -> bool {
    way(from, to).is_some_and(|way| way.is_down())
}

impl Setup {
    /// The nature of a drive that a migration adds. It holds anything.
    pub fn added_drive(&self) -> DriveOptions {
        let size = self.drives.iter().map(|drive| drive.size).max().unwrap_or_default();
        DriveOptions { size, unwritten: Unwritten::Noise, ..self.drives[0].clone() }
    }

    /// The layout that the volume has after so many migrations.
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

    /// Whether it may go to another layout, or become longer.
    pub fn may_move(&self) -> bool {
        self.migrations.is_some() || self.larger.is_some()
    }

    /// Whether drives may change what they hold without telling anybody, at any time. Not where a volume is moved: what
    /// is wrong would be somewhere else by then.
    pub fn is_silent(&self) -> bool {
        self.silent && !self.may_move()
    }
}

/// Every layout that the controller moves a volume to, with as much data in the same part of each drive at least: all of it fits there.
fn ways_from(from: &Geometry, to: &[Level]) -> Vec<Geometry> {
    let drives = from.drives().0..=from.drives().0 + MOST_ADDED;
    // Level by level: seeds were kept that draw from this order.
    let all = to.iter().flat_map(|level| drives.clone().flat_map(|drives| ways_to(from, &[*level], drives)));
    all.filter(|to| !is_down(from, to) && to.capacity() >= from.capacity()).collect()
}

/// Every layout over so many drives that the controller moves a volume to, of some levels.
fn ways_to(from: &Geometry, to: &[Level], drives: u16) -> Vec<Geometry> {
    let mut ways = Vec::new();
    if !FROM.contains(&from.level()) && !LATER.contains(&from.level()) {
        return ways;
    }
    let strip = from.strip().bytes().0;
    for level in to.iter().copied() {
        for strip in [strip / 2, strip, strip * 2] {
            let mut shape = Shape::new(level, DriveCount(drives));
            // As the controller: as many spans as before. What else it would take is not drawn.
            let keeps_spans = level == from.level() && LATER.contains(&level);
            shape.spans = keeps_spans.then(|| from.spans());
            let Ok(strip) = StripSize::new(ByteCount(strip)) else { continue };
            let Ok(to) = shape.check().and_then(|()| shape.geometry(strip, from.member_size())) else {
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
