//! A measurement of one target, or of several at once: all profiles and queue depths in sequence.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::loops::{Buffers, Outstanding, Point};
use crate::generator::pattern::{Asker, Pattern, Walk, divisor};
use crate::generator::verify::Verifier;
use crate::load::profile::Profile;
use crate::measurement::guard;
use crate::measurement::observe::Observer;
use crate::measurement::precondition::{self, Precondition};
use crate::measurement::read_back::Verified;
use crate::measurement::settings::Settings;
use crate::measurement::supervise::{Supervisor, Until, Watched, steadiness};
use crate::measurement::target::Target;
use crate::row::notes::{self, Expected};
use crate::row::{About, Row};
use crate::statistics::surroundings::{Surrounded, Surroundings};
use platform::{DriveKind, Env, Instant, JoinHandle, Member};
use signatures::Label;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use units::ByteCount;

/// The end of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It is complete.
    Complete,
    /// It was stopped; the sentence has the progress.
    Cancelled(String),
    /// The target failed; the sentence has the failure and the time.
    Failed(String),
}

impl Ending {
    /// The reason for an incomplete measurement.
    pub fn sentence(&self) -> Option<&str> {
        match self {
            Ending::Complete => None,
            Ending::Cancelled(sentence) | Ending::Failed(sentence) => Some(sentence),
        }
    }
}

/// The result for a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// A row for each point; the last run may be shorter after an early end.
    pub rows: Vec<Row>,
    /// The end of the measurement.
    pub ending: Ending,
    /// The verified data, if requested.
    pub verified: Option<Verified>,
}

/// A measurement: settings and hooks. It can run on any number of targets.
#[derive(Clone)]
pub struct Bench {
    settings: Settings,
    observer: Rc<dyn Observer>,
    surroundings: Rc<dyn Surroundings>,
    cancel: Arc<AtomicBool>,
    labels: Vec<Label>,
}

impl Bench {
    /// A measurement without an observer.
    pub fn new(settings: Settings) -> Bench {
        Bench {
            settings,
            observer: Rc::new(()),
            surroundings: Rc::new(()),
            cancel: Arc::default(),
            labels: Vec::new(),
        }
    }

    /// Reports progress to `observer`.
    #[must_use]
    pub fn observed_by(mut self, observer: Rc<dyn Observer>) -> Bench {
        self.observer = observer;
        self
    }

    /// Uses `surroundings` for `cpu_percent` and for doubts about rows.
    #[must_use]
    pub fn surrounded_by(mut self, surroundings: Rc<dyn Surroundings>) -> Bench {
        self.surroundings = surroundings;
        self
    }

    /// Ends soon after `cancel` is set (by a signal handler, for example), with the results so far.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: Arc<AtomicBool>) -> Bench {
        self.cancel = cancel;
        self
    }

    /// Protects data with these labels on a target too: those of a controller.
    #[must_use]
    pub fn guarding(mut self, labels: &[Label]) -> Bench {
        self.labels.extend_from_slice(labels);
        self
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Checks `target` as [`Bench::run`] does before its start. Callers that measure several
    /// targets in sequence check all of them first.
    ///
    /// # Errors
    /// When it cannot be measured, or must not be written.
    pub async fn check(&self, env: &Env, target: &Target) -> Result<()> {
        self.settings.check(env, target)?;
        guard::check(env, target, &self.settings, &self.labels).await
    }

    /// Measures `target`.
    ///
    /// # Errors
    /// When it does not start: impossible settings, a target with data that would be overwritten,
    /// or an unreachable target. Later failures are in the [`Ending`].
    pub async fn run(&self, env: &Env, target: &Target) -> Result<Measured> {
        self.run_together(env, std::slice::from_ref(target)).await
    }

    /// Measures several targets at the same time. Each has the settings' workers and outstanding
    /// I/Os; all together have one row, with the sum of the outstanding I/Os.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub async fn run_together(&self, env: &Env, targets: &[Target]) -> Result<Measured> {
        if targets.is_empty() {
            return Err(Error::new(
                ErrorKind::BadSettings,
                "there is no target to measure; name one",
            ));
        }
        for target in targets {
            self.check(env, target).await?;
        }
        let seed = self.settings.seed.unwrap_or_else(|| env.random());
        let mut seats = Vec::new();
        for target in targets {
            let members =
                (0..self.settings.workers).map(|_| target.attach(env)).collect::<Result<_>>()?;
            seats.push(MeasuredTarget { target, members, verifier: self.verifier(target, seed)? });
        }
        let names: Vec<&str> = targets.iter().map(Target::name).collect();
        let mut run = Run {
            bench: self,
            env,
            name: names.join(" + "),
            seats,
            seed,
            point: 0,
            rows: Vec::new(),
        };
        let mut ending = run.measure_all().await?;
        let mut verified = None;
        if self.settings.verify {
            let mut sum = Verified::default();
            for seat in &run.seats {
                let Some(verifier) = &seat.verifier else { continue };
                if ending == Ending::Complete {
                    ending = sum
                        .read_back(seat.target.name(), &seat.members[0], verifier, &self.cancel)
                        .await;
                }
                sum.checked_bytes += verifier.checked_bytes();
            }
            verified = Some(sum);
        }
        Ok(Measured { rows: run.rows, ending, verified })
    }

    /// The record of writes to `target`, if verification is requested.
    fn verifier(&self, target: &Target, seed: u64) -> Result<Option<Rc<Verifier>>> {
        if !self.settings.verify {
            return Ok(None);
        }
        let mut unit = precondition::profile().largest_block();
        for profile in &self.settings.profiles {
            unit = ByteCount(divisor(unit.0, self.settings.pattern(target, profile)?.granule.0));
        }
        Ok(Some(Rc::new(Verifier::new(unit, seed))))
    }
}

/// A target with its state during the measurement.
struct MeasuredTarget<'a> {
    target: &'a Target,
    /// One per worker.
    members: Vec<Member>,
    verifier: Option<Rc<Verifier>>,
}

/// A profile's pattern on one target.
struct TargetPattern {
    pattern: Rc<Pattern>,
    /// One per worker.
    walks: Vec<Rc<Walk>>,
}

/// A measurement in progress.
struct Run<'a> {
    bench: &'a Bench,
    env: &'a Env,
    /// The name of all targets together.
    name: String,
    seats: Vec<MeasuredTarget<'a>>,
    seed: u64,
    /// The index of the next point.
    point: usize,
    rows: Vec<Row>,
}

impl Run<'_> {
    async fn measure_all(&mut self) -> Result<Ending> {
        let settings = &self.bench.settings;
        let ending = self.precondition().await?;
        if ending != Ending::Complete {
            return Ok(ending);
        }
        for profile in &settings.profiles {
            let ways = self.ways(|target| settings.pattern(target, profile), settings.workers)?;
            for outstanding in profile.rungs(&settings.outstanding) {
                let ending = self.measure(profile, &ways, outstanding).await?;
                if ending != Ending::Complete {
                    return Ok(ending);
                }
                self.point += 1;
            }
        }
        Ok(Ending::Complete)
    }

    fn ways(
        &self,
        pattern: impl Fn(&Target) -> Result<Pattern>,
        workers: u32,
    ) -> Result<Vec<TargetPattern>> {
        let way = |seat: &MeasuredTarget<'_>| {
            let pattern = Rc::new(pattern(seat.target)?);
            let walk = |worker| Rc::new(Walk::new(&pattern, self.seed, worker, workers));
            Ok(TargetPattern { walks: (0..workers).map(walk).collect(), pattern })
        };
        self.seats.iter().map(way).collect()
    }

    /// Writes the preconditioning data before the first point.
    async fn precondition(&mut self) -> Result<Ending> {
        let settings = &self.bench.settings;
        if settings.precondition == Precondition::None {
            return Ok(Ending::Complete);
        }
        let mut bytes = ByteCount::ZERO;
        for seat in &self.seats {
            bytes += settings.preconditioning(seat.target)?.1;
        }
        let ways =
            self.ways(|target| settings.preconditioning(target).map(|(pattern, _)| pattern), 1)?;
        let profile = precondition::profile();
        let (point, watched, began) = self
            .drive(&profile, &ways, precondition::OUTSTANDING, Duration::ZERO, Until::Moved(bytes))
            .await?;
        self.bench.observer.preconditioned(self.env.now().since(began));
        Ok(self.ending(&point, &watched, |at_ns| {
            format!("{:.1} s into preconditioning", at_ns.saturating_sub(began.ns) as f64 / 1e9)
        }))
    }

    /// Measures one point: ramp, run, drain, row.
    async fn measure(
        &mut self,
        profile: &Profile,
        ways: &[TargetPattern],
        outstanding: u32,
    ) -> Result<Ending> {
        let settings = &self.bench.settings;
        let (ramp, until) = (settings.ramp_of(profile), Until::of(settings, profile));
        let (point, watched, began) = self.drive(profile, ways, outstanding, ramp, until).await?;
        let reading = point.meter.finish();
        let around = watched
            .around
            .clone()
            .unwrap_or_else(|| Surrounded { seconds: 0.0, looks: Vec::new() });
        let targets = self.seats.len() as u32;
        let about = About {
            target: &self.name,
            profile,
            outstanding: outstanding * targets,
            workers: settings.workers.min(outstanding) * targets,
            cpu_percent: around.process_percent(),
            steady_state: watched
                .steady_state
                .or_else(|| steadiness(&reading.slices, reading.slice_ns)),
        };
        if let Some(mut row) = Row::of(&about, &point, &reading) {
            row.notes = notes::judge(&row, &around, &self.expected(profile));
            self.bench.observer.point_took(self.env.now().since(began));
            self.bench.observer.row(&row);
            self.rows.push(row);
        }
        Ok(self.ending(&point, &watched, |at_ns| {
            let seconds = at_ns.saturating_sub(began.ns) as f64 / 1e9;
            format!("{seconds:.1} s into '{profile}' with {outstanding} outstanding")
        }))
    }

    /// The criteria for doubts about a row.
    fn expected(&self, profile: &Profile) -> Expected {
        let settings = &self.bench.settings;
        let rotating = |seat: &MeasuredTarget<'_>| {
            let info = seat.target.info();
            info.rotational && info.kind == DriveKind::BlockDevice
        };
        Expected {
            rotating: self.seats.iter().all(rotating),
            confidence_percent: settings
                .confidence_of(profile)
                .filter(|_| settings.steady_state.is_none()),
            max_rounds: settings.steady_state.map(|rule| rule.max_rounds),
        }
    }

    /// Keeps requests outstanding until `until`, and waits for the last of them.
    async fn drive(
        &self,
        profile: &Profile,
        ways: &[TargetPattern],
        outstanding: u32,
        ramp: Duration,
        until: Until,
    ) -> Result<(Rc<Point>, Watched, Instant)> {
        let began = self.env.now();
        let seed = self.seed.wrapping_add(self.point as u64);
        let point = Rc::new(Point::new(profile, until.meter((began + ramp).ns), began.ns, seed));
        let tasks = self.start(profile, &point, ways, outstanding)?;
        let supervisor = Supervisor {
            env: self.env,
            observer: &*self.bench.observer,
            surroundings: &*self.bench.surroundings,
            cancel: &self.bench.cancel,
            target: &self.name,
            profile,
            outstanding,
            point: self.point,
            points: self.bench.settings.points(),
            until,
        };
        let watched = supervisor.watch(began, &point.meter).await;
        for task in tasks {
            task.await;
        }
        Ok((point, watched, began))
    }

    /// The end of a point; `whereabouts` describes its progress.
    fn ending(
        &self,
        point: &Point,
        watched: &Watched,
        whereabouts: impl Fn(u64) -> String,
    ) -> Ending {
        match (point.end(), watched.cancelled) {
            (Some(failure), _) => Ending::Failed(format!(
                "the measurement of '{}' ended {}: {failure}",
                self.seats[failure.target].target.name(),
                whereabouts(failure.at_ns)
            )),
            (None, Some(at)) => Ending::Cancelled(format!(
                "the measurement of '{}' was stopped {}",
                self.name,
                whereabouts(at.ns)
            )),
            (None, None) => Ending::Complete,
        }
    }

    /// Starts a task per outstanding I/O for each target, assigned to the workers in turn.
    fn start(
        &self,
        profile: &Profile,
        point: &Rc<Point>,
        ways: &[TargetPattern],
        outstanding: u32,
    ) -> Result<Vec<JoinHandle<()>>> {
        let mut all = Vec::with_capacity(outstanding as usize * ways.len());
        for at in 0..outstanding as usize {
            for (target, (seat, way)) in self.seats.iter().zip(ways).enumerate() {
                let seed = self.seed.wrapping_add((all.len() as u64 + 1) << 32);
                let buffers = Buffers::take(self.env, profile, self.bench.settings.hollow, seed);
                let buffers = buffers.ok_or_else(|| no_memory(profile, outstanding))?;
                let (worker, workers) = (at % way.walks.len(), way.walks.len());
                let of = (outstanding as usize - worker).div_ceil(workers);
                all.push(Outstanding {
                    env: self.env.clone(),
                    member: seat.members[worker].clone(),
                    target,
                    pattern: way.pattern.clone(),
                    walk: way.walks[worker].clone(),
                    asker: Asker { number: at / workers, of, turn: 0 },
                    point: point.clone(),
                    verifier: seat.verifier.clone(),
                    buffers,
                });
            }
        }
        self.seats.iter().filter_map(|seat| seat.verifier.as_ref()).for_each(|verifier| {
            verifier.compress(profile.load().compressible_percent);
        });
        let spawn = |one: Outstanding| self.env.spawn("storagebench outstanding I/O", one.run());
        Ok(all.into_iter().map(spawn).collect())
    }
}

fn no_memory(profile: &Profile, outstanding: u32) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!(
            "no memory is left for {outstanding} outstanding I/Os of {}; allow more memory or \
                fewer outstanding I/Os",
            profile.largest_block()
        ),
    )
}
