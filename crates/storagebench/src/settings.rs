//! What to measure and how long, checked against a target before anything starts.

use crate::error::{Error, ErrorKind, Result};
use crate::ladder::Ladder;
use crate::profile::Profile;
use crate::target::Target;
use env::{BufferPool, DriveInfo, Env};
use std::time::Duration;
use units::{ByteOffset, ByteRange};

/// What to measure and how long. Start from the default and change what differs:
///
/// ```
/// use storagebench::{Profile, Settings};
/// use std::time::Duration;
/// let settings = Settings {
///     profiles: vec!["database".parse().unwrap()],
///     outstanding: "1,3,8,16".parse().unwrap(),
///     runtime: Duration::from_secs(10),
///     ..Settings::default()
/// };
/// assert_eq!(settings.points(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which load profiles, one after the other.
    pub profiles: Vec<Profile>,
    /// At how many outstanding I/Os each is measured. It is the total over all workers.
    pub outstanding: Ladder,
    /// How long each point is measured.
    pub runtime: Duration,
    /// How long each point runs before it is measured.
    pub ramp: Duration,
    /// How many workers share the outstanding I/Os. Each has its own attachment to the target, its own
    /// random numbers and its own place in a sequential stream.
    pub workers: u32,
    /// Which part of the target; `None`: all of it.
    pub area: Option<ByteRange>,
    /// Whether a target may be written that holds a file system, a partition table, an array's label, or a
    /// file of somebody else's data.
    pub destroy_data: bool,
    /// Whether requests carry lengths instead of bytes, for targets that are models.
    pub hollow: bool,
    /// The seed of all random numbers; `None`: drawn from the world.
    pub seed: Option<u64>,
}

impl Default for Settings {
    /// The standard profiles from 1 to 512 outstanding I/Os, 30 s each after a ramp of 5 s, by one worker.
    fn default() -> Settings {
        Settings {
            profiles: Profile::standard(),
            outstanding: Ladder::default(),
            runtime: Duration::from_secs(30),
            ramp: Duration::from_secs(5),
            workers: 1,
            area: None,
            destroy_data: false,
            hollow: false,
            seed: None,
        }
    }
}

impl Settings {
    /// How many points will be measured on each target.
    pub fn points(&self) -> usize {
        self.profiles.len() * self.outstanding.rungs().len()
    }

    /// How long a target takes, at the least.
    pub fn duration(&self) -> Duration {
        (self.ramp + self.runtime) * self.points() as u32
    }

    /// Whether any profile writes.
    pub fn writes(&self) -> bool {
        self.profiles.iter().any(Profile::writes)
    }

    /// The part of the target that is measured.
    pub(crate) fn area_of(&self, info: &DriveInfo) -> ByteRange {
        self.area.unwrap_or(ByteRange::new(ByteOffset::ZERO, info.size))
    }

    /// Whether all of it can be done on `target`, but for what it holds (see [`crate::guard`]).
    pub(crate) fn check(&self, env: &Env, target: &Target) -> Result<()> {
        let wrong = |sentence: &str| Err(Error::new(ErrorKind::BadSettings, sentence));
        if self.profiles.is_empty() {
            return wrong("no load profile is given; name one, such as database");
        }
        if self.runtime.is_zero() {
            return wrong("a run time of nothing measures nothing; give one such as 30s");
        }
        if self.workers == 0 {
            return wrong("no worker would do the work; give at least 1");
        }
        self.check_area(target)?;
        for profile in &self.profiles {
            self.check_profile(target, profile)?;
        }
        if !self.hollow {
            self.check_memory(env.pool())?;
        }
        Ok(())
    }

    fn check_area(&self, target: &Target) -> Result<()> {
        let (name, info) = (target.name(), target.info());
        let area = self.area_of(info);
        let end = area.start.checked_add(area.len).filter(|end| end.0 <= info.size.0);
        if end.is_none() {
            return Err(Error::new(
                ErrorKind::TooSmall,
                format!(
                    "the area of {} from {} on is not on '{name}', which has {}; give one that ends before that",
                    area.len, area.start, info.size
                ),
            ));
        }
        let sector = info.logical_sector.bytes();
        if !area.start.is_aligned(sector) {
            return Err(Error::new(
                ErrorKind::Misaligned,
                format!(
                    "the area starts at byte {}, which is no multiple of the {sector} sectors of '{name}'; give one that is",
                    area.start.0
                ),
            ));
        }
        Ok(())
    }

    fn check_profile(&self, target: &Target, profile: &Profile) -> Result<()> {
        let (name, info) = (target.name(), target.info());
        let (area, block, sector) = (self.area_of(info), profile.block(), info.logical_sector.bytes());
        if area.len < block {
            return Err(Error::new(
                ErrorKind::TooSmall,
                format!(
                    "the measured area of '{name}' has {}, less than one block of {block} of the profile '{profile}'; give a larger target or a smaller block",
                    area.len
                ),
            ));
        }
        if !block.is_aligned(sector) {
            return Err(Error::new(
                ErrorKind::Misaligned,
                format!(
                    "the profile '{profile}' asks for blocks of {block}, which are not whole {sector} sectors of '{name}'; give a multiple of {sector}"
                ),
            ));
        }
        if profile.writes() && info.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                format!(
                    "'{name}' is read-only, and the profile '{profile}' writes; choose profiles that only read, such as streaming"
                ),
            ));
        }
        Ok(())
    }

    /// Every outstanding I/O has a buffer to read into and one to write from, as far as its profile needs them.
    fn check_memory(&self, pool: &BufferPool) -> Result<()> {
        let free = pool.limit().saturating_sub(pool.used());
        for profile in &self.profiles {
            let kinds = u64::from(profile.reads()) + u64::from(profile.writes());
            let block = BufferPool::block_size(profile.block());
            let need = block * (kinds * u64::from(self.outstanding.highest()));
            if need > free {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    format!(
                        "the profile '{profile}' with {} outstanding I/Os needs {need} of buffers, and {free} is free; allow more memory or fewer outstanding I/Os",
                        self.outstanding.highest()
                    ),
                ));
            }
        }
        Ok(())
    }
}
