//! The settings of a measurement, checked against a target before the start.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::pattern::Pattern;
use crate::load::area::Area;
use crate::load::ladder::Ladder;
use crate::load::profile::{Access, Profile};
use crate::measurement::precondition::{self, Precondition};
use crate::measurement::target::Target;
use crate::statistics::steady::SteadyRule;
use platform::{BufferPool, DriveKind, Env};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// The settings of a measurement. Change the defaults where necessary:
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
    /// The load profiles, in order.
    pub profiles: Vec<Profile>,
    /// The numbers of outstanding I/Os for each profile: totals over all workers.
    pub outstanding: Ladder,
    /// The measured time of each point, unless its profile defines one.
    pub runtime: Duration,
    /// The ramp of each point, unless its profile defines one.
    pub ramp: Duration,
    /// The target half width of the 95 % intervals of rate and mean latency, in percent. A point is
    /// measured until they are reached, at most for `max_runtime`. `None`: always `runtime`.
    pub confidence_percent: Option<f64>,
    /// The maximum measured time of a point; `None`: four times its run time.
    pub max_runtime: Option<Duration>,
    /// Whether points of profiles with their own run time are extended for the intervals too.
    /// Otherwise they are measured for exactly that time.
    pub extend_own_runtimes: bool,
    /// The writes before the first point.
    pub precondition: Precondition,
    /// Measures each point in rounds until the target is steady, instead of for `runtime`; the row
    /// covers the last five rounds.
    pub steady_state: Option<SteadyRule>,
    /// The number of workers that share the outstanding I/Os. Each has its own attachment to the
    /// target, random numbers and sequential position.
    pub workers: u32,
    /// The measured part of the target.
    pub area: Area,
    /// Whether written blocks are self-describing and read blocks are checked, during the profiles
    /// and in a final read of all written data. A wrong block ends the run.
    pub verify: bool,
    /// Whether a target with a file system, a partition table, an array's label, or a file with
    /// other data may be overwritten.
    pub destroy_data: bool,
    /// Whether requests use data-less buffers, for targets that are models.
    pub hollow: bool,
    /// The seed of all random numbers; `None`: a random seed from the environment.
    pub seed: Option<u64>,
}

impl Default for Settings {
    /// The standard profiles from 1 to 512 outstanding I/Os, 30 s each after a ramp of 5 s, by one
    /// worker.
    fn default() -> Settings {
        Settings {
            profiles: Profile::standard(),
            outstanding: Ladder::default(),
            runtime: Duration::from_secs(30),
            ramp: Duration::from_secs(5),
            confidence_percent: Some(2.0),
            max_runtime: None,
            extend_own_runtimes: false,
            precondition: Precondition::None,
            steady_state: None,
            workers: 1,
            area: Area::ALL,
            verify: false,
            destroy_data: false,
            hollow: false,
            seed: None,
        }
    }
}

impl Settings {
    /// The number of points per target.
    pub fn points(&self) -> usize {
        self.profiles.iter().map(|profile| profile.rungs(&self.outstanding).len()).sum()
    }

    /// The minimum time per target, without preconditioning.
    pub fn duration(&self) -> Duration {
        let of = |profile: &Profile| {
            let run = self.steady_state.map(|rule| rule.round * rule.window_rounds);
            let point = self.ramp_of(profile) + run.unwrap_or_else(|| self.runtime_of(profile));
            point * profile.rungs(&self.outstanding).len() as u32
        };
        self.profiles.iter().map(of).sum()
    }

    /// The maximum measured time of a point without its own run time.
    pub fn longest_runtime(&self) -> Duration {
        self.longest(self.runtime, self.confidence_percent.is_some())
    }

    fn longest(&self, runtime: Duration, extends: bool) -> Duration {
        let confident = || match extends {
            true => self.max_runtime.unwrap_or(runtime * 4).max(runtime),
            false => runtime,
        };
        self.steady_state.map_or_else(confident, |rule| rule.round * rule.max_rounds)
    }

    /// The measured time of a point of `profile`.
    pub(crate) fn runtime_of(&self, profile: &Profile) -> Duration {
        profile.load().runtime.unwrap_or(self.runtime)
    }

    /// The ramp of a point of `profile`.
    pub(crate) fn ramp_of(&self, profile: &Profile) -> Duration {
        profile.load().ramp.unwrap_or(self.ramp)
    }

    /// The interval width for `profile`, if it determines the measured time.
    pub(crate) fn confidence_of(&self, profile: &Profile) -> Option<f64> {
        let extends = profile.load().runtime.is_none() || self.extend_own_runtimes;
        self.confidence_percent.filter(|_| extends)
    }

    /// The maximum measured time of a point of `profile`.
    pub(crate) fn longest_of(&self, profile: &Profile) -> Duration {
        self.longest(self.runtime_of(profile), self.confidence_of(profile).is_some())
    }

    /// Whether a profile or the preconditioning writes.
    pub fn writes(&self) -> bool {
        self.profiles.iter().any(Profile::writes) || self.precondition != Precondition::None
    }

    /// `profile` over the measured part of `target`.
    pub(crate) fn pattern(&self, target: &Target, profile: &Profile) -> Result<Pattern> {
        self.pattern_in(self.area, target, profile)
    }

    /// The preconditioning writes on `target`, and their number of bytes.
    pub(crate) fn preconditioning(&self, target: &Target) -> Result<(Pattern, ByteCount)> {
        let area = self.area.covering();
        let whole = ByteRange::new(ByteOffset::ZERO, target.info().size);
        let len = area.resolve(whole, Access::Sequential)?.len;
        Ok((self.pattern_in(area, target, &precondition::profile())?, self.precondition.bytes(len)))
    }

    fn pattern_in(&self, area: Area, target: &Target, profile: &Profile) -> Result<Pattern> {
        let info = target.info();
        let whole = ByteRange::new(ByteOffset::ZERO, info.size);
        area.resolve(whole, profile.access())
            .and_then(|area| Pattern::new(profile, area, info.logical_sector.bytes()))
            .map_err(|error| Error {
                context: format!("'{}': {}", target.name(), error.context),
                ..error
            })
    }

    /// Checks everything on `target` except for its data (see [`crate::measurement::guard`]).
    pub(crate) fn check(&self, env: &Env, target: &Target) -> Result<()> {
        let wrong = |sentence: &str| Err(Error::new(ErrorKind::BadSettings, sentence));
        if self.profiles.is_empty() {
            return wrong("no load profile is given; name one, such as database");
        }
        if self.runtime.is_zero() {
            return wrong("a run time of 0 s measures nothing; give one such as 30s");
        }
        if self.workers == 0 {
            return wrong("0 workers cannot do the work; give at least 1");
        }
        self.check_method()?;
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
        if let Some(percent) =
            self.confidence_percent.filter(|percent| !(0.01..=100.0).contains(percent))
        {
            return wrong(format!(
                "a confidence of {percent} % cannot be reached; give a half width between 0.01 % \
                    and 100 %, such as 2 %"
            ));
        }
        let longest = self.profiles.iter().map(|profile| self.runtime_of(profile)).max();
        if let (Some(max), Some(runtime)) = (self.max_runtime, longest)
            && max < runtime
        {
            return wrong(format!(
                "a run time of at most {} s is less than the run time of {} s; increase it, or \
                 reduce the run time",
                max.as_secs_f64(),
                runtime.as_secs_f64()
            ));
        }
        if let Some(rule) = self.steady_state
            && (rule.round.is_zero()
                || rule.window_rounds < 2
                || rule.max_rounds < rule.window_rounds)
        {
            return wrong(format!(
                "a steady state over {} of at most {} rounds of {} s is impossible; give rounds \
                 above 0 s, a window of at least 2 and at least as many rounds",
                rule.window_rounds,
                rule.max_rounds,
                rule.round.as_secs_f64()
            ));
        }
        if self.precondition == Precondition::Written(ByteCount::ZERO) {
            return wrong(
                "preconditioning by 0 bytes writes nothing; give a size, snia or none".to_owned(),
            );
        }
        Ok(())
    }

    fn check_profile(&self, target: &Target, profile: &Profile) -> Result<()> {
        self.pattern(target, profile)?;
        let (name, info) = (target.name(), target.info());
        if profile.writes() && info.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                format!(
                    "'{name}' is read-only, and the profile '{profile}' writes; choose profiles \
                        that only read, such as streaming"
                ),
            ));
        }
        let streams = profile.load().components.iter().map(|component| component.streams.count);
        if let Some(few) = streams.filter(|count| (1..self.workers).contains(count)).min() {
            return Err(Error::new(
                ErrorKind::BadSettings,
                format!(
                    "{} workers cannot share the {few} streams of the profile '{profile}'; give at \
                        most as many workers as streams",
                    self.workers
                ),
            ));
        }
        if self.verify && (self.hollow || matches!(info.kind, DriveKind::Null | DriveKind::Model)) {
            return Err(Error::new(
                ErrorKind::BadSettings,
                format!(
                    "'{name}' stores nothing, so nothing can be verified; choose another target, \
                     or omit --verify"
                ),
            ));
        }
        Ok(())
    }

    /// Every outstanding I/O has the read and write buffers that its profile needs.
    fn check_memory(&self, pool: &BufferPool) -> Result<()> {
        let free = pool.limit().saturating_sub(pool.used());
        for profile in &self.profiles {
            let kinds = u64::from(profile.reads()) + u64::from(profile.writes());
            let block = BufferPool::block_size(profile.largest_block());
            let outstanding = profile.rungs(&self.outstanding).into_iter().max().unwrap_or(1);
            let need = block * (kinds * u64::from(outstanding));
            if need > free {
                return Err(Error::new(
                    ErrorKind::OutOfMemory,
                    format!(
                        "the profile '{profile}' with {outstanding} outstanding I/Os needs {need} \
                            of buffers, and {free} is free; allow more memory or fewer outstanding \
                            I/Os"
                    ),
                ));
            }
        }
        Ok(())
    }
}
