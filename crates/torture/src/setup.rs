//! The draws of a seed before the first event: the array, its drives, the amount of work, and in
//! some runs a second volume.

mod beside;
mod larger;
mod limits;
mod log;
pub(crate) mod migrations;
mod reads;

pub use larger::LargerSetup;
pub use log::LogSetup;
pub use migrations::MigrationsSetup;
pub use reads::ReadsSetup;

use crate::options::{Lie, Logged, Options, Without};
use controller::{WriteHole, WriteMode};
use layout::{Geometry, Level, Shape};
use platform::{LimitsByClass, TimeLimits};
use platform_sim::{DriveFaults, DriveOptions, Latency, Rng, Trimmed, Unwritten};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, SectorSize, StripSize};
use write_log::CELL;
use write_log::memory::MemoryHead;

/// The name of the first volume.
pub const FIRST: &str = "v";

/// The role of a volume under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeRole {
    /// The first volume.
    First,
    /// A neighbour on the same drives.
    SameDrives,
    /// A neighbour on its own drives.
    OwnDrives,
}

/// The fixed properties of a volume.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The source of all draws: the seed, or a derived one for a neighbour.
    pub seed: u64,
    /// The volume's role.
    pub place: VolumeRole,
    /// The neighbours.
    pub beside: Vec<Setup>,
    /// The volume's start on its drives.
    pub start: ByteCount,
    /// The level.
    pub level: Level,
    /// The strip.
    pub strip: StripSize,
    /// The controller's shards.
    pub shards: u16,
    /// The options of each drive.
    pub drives: Vec<DriveOptions>,
    /// Replacement drives, with random content.
    pub replacements: Vec<DriveOptions>,
    /// The number of copies of each data strip, if drawn.
    pub copies: Option<u16>,
    /// Whether the controller creates the drives, and so knows that they hold zeroes.
    pub drives_are_made: bool,
    /// Each shard's memory.
    pub memory: ByteCount,
    /// The number of concurrent workers.
    pub workers: u64,
    /// The minimum number of requests of all lives.
    pub ops: u64,
    /// The number of lives before the last, fault-free one.
    pub lives: u64,
    /// The target ranges of requests.
    pub zones: Vec<ByteRange>,
    /// The layout.
    pub geometry: Geometry,
    /// A lying drive.
    pub lie: Lie,
    /// How the volume closes the write hole.
    pub write_hole: WriteHole,
    /// Whether operators change that.
    pub write_hole_is_drawn: bool,
    /// The write cache of each shard; zero without one.
    pub cache: ByteCount,
    /// How much of it is reserved at a time; zero: all at once.
    pub cache_step: ByteCount,
    /// The host's space for it; `None`: enough.
    pub cache_space: Option<ByteCount>,
    /// Whether the volume uses the cache from the beginning.
    pub write_back: bool,
    /// The write mode with the cache.
    pub cached_mode: WriteMode,
    /// Whether drives may be corrupted silently at any time.
    pub silent: bool,
    /// Whether drives are corrupted silently at the end, after all repairs.
    pub silent_in_the_end: bool,
    /// The log devices; only of the first volume.
    pub log: Option<LogSetup>,
    /// The read cache, if any.
    pub reads: Option<ReadsSetup>,
    /// The first volume's reshapes, if any; for a neighbour on the same drives, its layouts after
    /// them.
    pub migrations: Option<MigrationsSetup>,
    /// How its drives become larger, if they do.
    pub larger: Option<LargerSetup>,
    /// The time limits of drives, all as local ones.
    pub limits: LimitsByClass,
    /// The omissions.
    pub without: Without,
}

/// The controller's metadata at the end of each drive.
const TAIL: ByteCount = ByteCount(32 << 20);

/// The maximum number of replacements in a run.
const REPLACEMENTS: usize = 4;

/// Volumes of this size have regions on several shards.
const FAR: u64 = 100 << 20;

/// The number of drives of a level.
fn drive_count(rng: &mut Rng, level: Level) -> DriveCount {
    let count = match level {
        Level::Jbod => 1,
        Level::Raid0 => rng.between(2, 4),
        Level::Raid1 => rng.between(2, 3),
        Level::Raid1e => rng.between(3, 6),
        Level::Raid4 | Level::Raid5 => rng.between(3, 6),
        Level::Raid5ee | Level::Raid6 => rng.between(4, 6),
        Level::Raid00 | Level::Raid10 => 2 * rng.between(2, 3),
        Level::Raid50 => 6,
        Level::Raid60 => 8,
    };
    DriveCount(count as u16)
}

/// The drives, each with `member` bytes for data, and whether the controller creates them.
fn drives(
    rng: &mut Rng,
    count: DriveCount,
    member: ByteCount,
    is_far: bool,
) -> (Vec<DriveOptions>, bool) {
    let sector = if rng.chance(1, 4) { SectorSize::B4096 } else { SectorSize::B512 };
    let cached = rng.chance(3, 4);
    let unwritten = if rng.chance(1, 2) { Unwritten::Noise } else { Unwritten::Zeroes };
    let trimmed = [Trimmed::Zeroes, Trimmed::Unchanged, Trimmed::Anything][rng.below(3) as usize];
    let latency =
        [Latency::range_us(50, 500), Latency::range_us(1, 20), Latency::range_us(10, 5000)]
            [rng.below(3) as usize];
    let slow_one_in = if rng.chance(1, 2) { 20 } else { 0 };
    let drives_are_made = is_far || rng.chance(1, 3);
    let unwritten = if drives_are_made { Unwritten::Zeroes } else { unwritten };
    let data = ByteRange::new(ByteOffset::ZERO, member);
    let drives: Vec<DriveOptions> = count
        .indexes()
        .map(|index| {
            // The smallest drive determines the size; the others may have extra space.
            let slack = if drives_are_made || index.0 == 0 { 0 } else { rng.below(16) * 4096 };
            DriveOptions {
                size: ByteCount(TAIL.0 + member.0 + slack),
                logical_sector: sector,
                cache: if cached { ByteCount(256 << rng.below(16)) } else { ByteCount::ZERO },
                unwritten,
                trimmed,
                latency: Latency { slow_one_in, ..latency },
                // The range where misdirected writes land: metadata outside it has checksums.
                faults: DriveFaults { within: Some(data), ..DriveFaults::default() },
                ..DriveOptions::default()
            }
        })
        .collect();
    (drives, drives_are_made)
}

/// The replacements of failed drives: as large as the largest, with unknown content.
fn replacements(drives: &[DriveOptions], level: Level, options: &Options) -> Vec<DriveOptions> {
    if !level.is_redundant() || options.lie != Lie::None {
        return Vec::new();
    }
    let size = drives.iter().map(|drive| drive.size).max().unwrap_or_default();
    let foreign = DriveOptions { size, unwritten: Unwritten::Noise, ..drives[0].clone() };
    vec![foreign; REPLACEMENTS]
}

/// From a cache that is always full to one that never is.
fn cache(seed: u64, options: &Options) -> ByteCount {
    let mut rng = Rng::new(seed, "torture cache", "");
    let drawn = ByteCount([32 << 10, 256 << 10, 1 << 20, 8 << 20][rng.below(4) as usize]);
    if options.write_back { drawn } else { ByteCount::ZERO }
}

/// How much of a cache is reserved at a time, and the host's space for it: sometimes half of what a
/// cache needs. From a separate stream: other draws do not change.
fn cache_growth(seed: u64, cache: ByteCount, shards: u16) -> (ByteCount, Option<ByteCount>) {
    let mut rng = Rng::new(seed, "torture cache growth", "");
    let step = match rng.below(4) {
        0 => return (ByteCount::ZERO, None),
        parts => ByteCount((cache.0 >> (2 * parts)).max(CELL.0) / CELL.0 * CELL.0),
    };
    let all = ByteCount(cache.0 * u64::from(shards));
    let words = 8 * MemoryHead::words((all.0 / CELL.0) as u32) as u64;
    let space = ByteCount(words + step.0 * u64::from(shards) + all.0 / 2);
    (step, rng.chance(1, 3).then_some(space))
}

/// The write mode with a cache.
fn cached_mode(seed: u64, options: &Options) -> WriteMode {
    let is_logged = match options.logged {
        Logged::Never => false,
        Logged::Drawn => Rng::new(seed, "logged", "").chance(1, 3),
        Logged::Always => true,
    };
    if is_logged { WriteMode::LoggedWriteBack } else { WriteMode::WriteBack }
}

impl Setup {
    /// Whether there is a write cache.
    pub fn has_cache(&self) -> bool {
        !self.cache.is_zero()
    }

    /// The draws of `seed`.
    pub fn draw(seed: u64, options: &Options) -> Setup {
        let mut setup = Setup::of_the_first(seed, options);
        beside::draw(&mut setup, options);
        setup.log = log::draw(&setup, options);
        setup.migrations = migrations::draw(&setup, options);
        migrations::draw_along(&mut setup);
        larger::draw(&mut setup, options);
        setup
    }

    /// Unwritten sectors read as zeros; without redundancy, as the drives' old content.
    pub fn begins_with_zeros(&self) -> bool {
        let is_noise = self.drives.iter().any(|drive| drive.unwritten == Unwritten::Noise);
        self.level.is_redundant() || !is_noise
    }

    fn of_the_first(seed: u64, options: &Options) -> Setup {
        let mut rng = Rng::new(seed, "torture setup", "");
        let level = level(&mut rng, &options.levels);
        let count = drive_count(&mut rng, level);
        let copies = (level == Level::Raid1e).then(|| rng.between(2, 3) as u16);
        // Most volumes are small, to be read completely after every crash; some have regions on
        // every shard.
        let is_far = rng.chance(1, 16);
        let strip_kib = if is_far { 64 } else { 4 << rng.below(5) };
        let strip = StripSize::new(ByteCount(strip_kib << 10)).unwrap_or(StripSize::MIN);
        let capacity = if is_far { FAR } else { rng.between(192 << 10, 768 << 10) };
        let shape = Shape { copies, ..Shape::new(level, count) };
        let least = shape.geometry(strip, strip.bytes() * 3 * u64::from(count.0));
        let least = least.unwrap_or_else(|error| panic!("seed {seed} draws no array: {error}"));
        let member = least.member_size_for(ByteCount(capacity)).max(strip.bytes() * 3);
        let (drives, drives_are_made) = drives(&mut rng, count, member, is_far);
        let replacements = replacements(&drives, level, options);
        let drives = if drives_are_made { vec![drives[0].clone(); drives.len()] } else { drives };
        let (may_be_silent, silence) =
            (level.is_redundant() && options.lie == Lie::None, rng.below(8));
        // In the proportion of expected use.
        let drawn = if rng.chance(2, 3) { WriteHole::Journal } else { WriteHole::Resync };
        let made = least.with_member_size(member);
        let geometry = made.unwrap_or_else(|error| panic!("seed {seed} draws no array: {error}"));
        let (cache, shards) = (cache(seed, options), rng.between(1, 3) as u16);
        let (cache_step, cache_space) = cache_growth(seed, cache, shards);
        Setup {
            seed,
            place: VolumeRole::First,
            beside: Vec::new(),
            start: ByteCount::ZERO,
            level,
            strip,
            shards,
            drives,
            replacements,
            copies,
            drives_are_made,
            memory: ByteCount([4 << 20, 16 << 20, 64 << 20][rng.below(3) as usize]),
            workers: rng.between(2, 12),
            ops: options.ops,
            lives: rng.between(2, 6),
            zones: zones(&mut rng, &geometry, is_far),
            geometry,
            lie: options.lie,
            write_hole: options.write_hole.unwrap_or(drawn),
            write_hole_is_drawn: options.write_hole.is_none(),
            cache,
            cache_step,
            cache_space,
            write_back: options.write_back,
            cached_mode: cached_mode(seed, options),
            silent: may_be_silent && silence == 0,
            silent_in_the_end: may_be_silent && (1..=3).contains(&silence),
            log: None,
            reads: reads::draw(seed, options),
            migrations: None,
            larger: None,
            limits: limits::draw(seed),
            without: options.without.clone(),
        }
    }

    /// The name of the volume.
    pub fn name(&self) -> &'static str {
        if self.is_neighbour() { "w" } else { FIRST }
    }

    /// Whether it is a neighbour.
    pub fn is_neighbour(&self) -> bool {
        self.place != VolumeRole::First
    }

    /// The number of a life's first incident: unique among the volumes.
    pub fn first_incident(&self, life: u64) -> u64 {
        life * 100 + if self.is_neighbour() { 10_000 } else { 0 }
    }

    /// The number of its first worker.
    pub fn first_worker(&self) -> u64 {
        if self.is_neighbour() { 100 } else { 0 }
    }

    /// The names of the drives.
    pub fn names(&self) -> Vec<String> {
        let letter = if self.place == VolumeRole::OwnDrives { 'e' } else { 'd' };
        (0..self.drives.len()).map(|index| format!("{letter}{index}")).collect()
    }

    /// The names of the replacement drives.
    pub fn names_of_replacements(&self) -> Vec<String> {
        (0..self.replacements.len()).map(|index| format!("r{index}")).collect()
    }

    /// The options of a drive.
    pub fn options_of(&self, name: &str) -> Option<DriveOptions> {
        let place = |setup: &Setup| setup.names().iter().position(|own| own == name);
        let of_volumes = std::iter::once(self).chain(&self.beside);
        let found = of_volumes.filter_map(|setup| setup.drives.get(place(setup)?)).next();
        let found = found.or_else(|| {
            self.log.as_ref()?.drives.get(name.strip_prefix('l')?.parse::<usize>().ok()?)
        });
        let found = found
            .or_else(|| self.replacements.get(name.strip_prefix('r')?.parse::<usize>().ok()?))
            .cloned();
        found.or_else(|| name.starts_with('m').then(|| self.added_drive()))
    }

    /// The volume's sector size.
    pub fn sector(&self) -> SectorSize {
        self.drives[0].logical_sector
    }

    /// The guaranteed fault tolerance of the level.
    pub fn survives(&self) -> u16 {
        self.geometry.survives().at_least.0
    }

    /// Whether stripe writes go to a journal first.
    pub fn has_journal(&self) -> bool {
        self.has_parity() && self.write_hole == WriteHole::Journal
    }

    /// Whether lost data is reconstructed from parity.
    pub fn has_parity(&self) -> bool {
        self.geometry.parity_strips() > 0
    }

    /// The approximate time limit of a drive before it is suspended.
    pub fn shortest_limit(&self) -> Duration {
        let TimeLimits { read, write, flush, discard, .. } = self.limits.solid;
        read.min(write).min(flush).min(discard).saturating_sub(Duration::from_secs(1))
    }

    fn describe_limits(&self) -> String {
        let limits = self.limits.solid;
        match limits == LimitsByClass::default().solid {
            true => String::new(),
            false => format!(
                ", drives have {:?} for a read, {:?} for a write and {:?} for a flush",
                limits.read, limits.write, limits.flush
            ),
        }
    }

    fn describe_growth(&self) -> String {
        let space = self.cache_space.map(|space| format!(" of {space}")).unwrap_or_default();
        match self.has_cache() && self.write_back && !self.cache_step.is_zero() {
            true => format!(", cache memory in steps of {}{space}", self.cache_step),
            false => String::new(),
        }
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        format!(
            "{} over {} drives of {}-byte sectors, strip {}, {}, {}{} shards, {} workers, cache {}",
            self.level.name(),
            self.drives.len(),
            self.sector().bytes().0,
            self.strip,
            self.geometry.capacity(),
            if self.has_journal() { "a journal, " } else { "" },
            self.shards,
            self.workers,
            self.drives[0].cache,
        ) + if self.write_back { ", " } else { "" }
            + if self.write_back { self.cached_mode.name() } else { "" }
            + &self.describe_growth()
            + &self.describe_limits()
            + &self.reads.map(|reads| format!(", {}", reads.describe())).unwrap_or_default()
    }
}

/// A level of these; of all, those with parity are more likely.
fn level(rng: &mut Rng, of: &[Level]) -> Level {
    if !of.is_empty() {
        return of[rng.below(of.len() as u64) as usize];
    }
    match rng.below(26) {
        0 => Level::Jbod,
        1 => Level::Raid0,
        2 => Level::Raid00,
        3..=5 => Level::Raid1,
        6..=7 => Level::Raid1e,
        8..=9 => Level::Raid10,
        10..=11 => Level::Raid4,
        12..=15 => Level::Raid5,
        16..=17 => Level::Raid5ee,
        18..=21 => Level::Raid6,
        22..=23 => Level::Raid50,
        _ => Level::Raid60,
    }
}

/// The target ranges of requests: everything in a small volume; in a large one its ends, a region
/// boundary, and a random place.
fn zones(rng: &mut Rng, geometry: &Geometry, is_far: bool) -> Vec<ByteRange> {
    const ZONE: u64 = 192 << 10;
    let capacity = geometry.capacity();
    if !is_far {
        return vec![ByteRange::new(ByteOffset::ZERO, capacity)];
    }
    let second_region = engine::Regions::of(geometry).stripes_of(engine::RegionIndex(1)).start;
    let region_end = second_region * geometry.stripe_bytes().0;
    let last = capacity.0 - ZONE;
    let mut starts = vec![0, region_end - ZONE / 2, rng.below(last / ZONE) * ZONE, last];
    starts.sort_unstable();
    starts.dedup_by(|later, earlier| *later - *earlier < ZONE);
    starts.into_iter().map(|start| ByteRange::new(ByteOffset(start), ByteCount(ZONE))).collect()
}
