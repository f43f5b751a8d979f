//! What to measure and how long, checked against a target before anything starts.

use crate::error::{Error, ErrorKind, Result};
use crate::ladder::Ladder;
use crate::precondition::{self, Precondition};
use crate::profile::Profile;
use crate::steady::SteadyRule;
use crate::target::Target;
use env::{BufferPool, DriveInfo, Env};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

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
    /// How narrow the 95 % intervals of the rate and of the mean latency are to be, in percent of the figure either
    /// way: a point is measured on until they are, up to `max_runtime`. `None`: never longer than `runtime`.
    pub confidence_percent: Option<f64>,
    /// How long a point may be measured at most; `None`: four times `runtime`.
    pub max_runtime: Option<Duration>,
    /// What is written to the target before the first point.
    pub precondition: Precondition,
    /// Measure each point in rounds until the target is steady, instead of for `runtime`; the row is of the last
    /// five rounds.
    pub steady_state: Option<SteadyRule>,
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
            confidence_percent: Some(2.0),
            max_runtime: None,
            precondition: Precondition::None,
            steady_state: None,
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

    /// How long a target takes, at the least; preconditioning not included.
    pub fn duration(&self) -> Duration {
        let run = self.steady_state.map_or(self.runtime, |rule| rule.round * rule.window_rounds);
        (self.ramp + run) * self.points() as u32
    }

    /// How long a point is measured at most.
    pub fn longest_runtime(&self) -> Duration {
        let confident = || match self.confidence_percent {
            Some(_) => self.max_runtime.unwrap_or(self.runtime * 4).max(self.runtime),
            None => self.runtime,
        };
        self.steady_state.map_or_else(confident, |rule| rule.round * rule.max_rounds)
    }

    /// Whether anything is written: by a profile, or before them.
    pub fn writes(&self) -> bool {
        self.profiles.iter().any(Profile::writes) || self.precondition != Precondition::None
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
        self.check_method()?;
        self.check_area(target)?;
        if self.precondition != Precondition::None {
            self.check_profile(target, &precondition::profile())?;
        }
        for profile in &self.profiles {
            self.check_profile(target, profile)?;
        }
        if !self.hollow {
            self.check_memory(env.pool())?;
        }
        Ok(())
    }

    fn check_method(&self) -> Result<()> {
        let wrong = |sentence: String| Err(Error::new(ErrorKind::BadSettings, sentence));
        if let Some(percent) = self.confidence_percent.filter(|percent| !(0.01..=100.0).contains(percent)) {
            return wrong(format!(
                "a confidence of {percent} % cannot be reached; give a half width between 0.01 % and 100 %, such as 2 %"
            ));
        }
        if let Some(max) = self.max_runtime.filter(|max| *max < self.runtime) {
            return wrong(format!(
                "a run time of at most {} s is less than the run time of {} s; give more, or a shorter run time",
                max.as_secs_f64(),
                self.runtime.as_secs_f64()
            ));
        }
        if let Some(rule) = self.steady_state
            && (rule.round.is_zero() || rule.window_rounds < 2 || rule.max_rounds < rule.window_rounds)
        {
            return wrong(format!(
                "a steady state over {} of at most {} rounds of {} s cannot be judged; give rounds of some time, a window of at least 2 and no fewer rounds than that",
                rule.window_rounds,
                rule.max_rounds,
                rule.round.as_secs_f64()
            ));
        }
        if self.precondition == Precondition::Written(ByteCount::ZERO) {
            return wrong("preconditioning by 0 bytes writes nothing; give a size, snia or none".to_owned());
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
