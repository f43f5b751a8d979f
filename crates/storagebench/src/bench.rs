//! A measurement of one target: profile by profile, rung by rung.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::{Buffers, Point, keep_one_outstanding};
use crate::guard;
use crate::notes::{self, Expected};
use crate::observe::Observer;
use crate::pattern::{Pattern, Walk};
use crate::precondition::{self, Precondition};
use crate::profile::Profile;
use crate::row::{About, Row};
use crate::settings::Settings;
use crate::supervise::{Supervisor, Until, Watched, steadiness};
use crate::surroundings::{Surrounded, Surroundings};
use crate::target::Target;
use env::{DriveKind, Env, Instant, JoinHandle, Member};
use signatures::Label;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a measurement came to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All of it was done.
    Complete,
    /// It was stopped; the sentence says where it stood.
    Cancelled(String),
    /// The target failed; the sentence says what happened and when.
    Failed(String),
}

impl Ending {
    /// What there is to say about it, if it did not go as planned.
    pub fn sentence(&self) -> Option<&str> {
        match self {
            Ending::Complete => None,
            Ending::Cancelled(sentence) | Ending::Failed(sentence) => Some(sentence),
        }
    }
}

/// What a target's measurement came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// A row for each point; the last may be of a shorter run if it was cut short.
    pub rows: Vec<Row>,
    /// How it ended.
    pub ending: Ending,
}

/// A measurement: settings and what goes on around it. It may be run on any number of targets.
#[derive(Clone)]
pub struct Bench {
    settings: Settings,
    observer: Rc<dyn Observer>,
    surroundings: Rc<dyn Surroundings>,
    cancel: Arc<AtomicBool>,
    labels: Vec<Label>,
}

impl Bench {
    /// A measurement that nobody watches.
    pub fn new(settings: Settings) -> Bench {
        Bench {
            settings,
            observer: Rc::new(()),
            surroundings: Rc::new(()),
            cancel: Arc::default(),
            labels: Vec::new(),
        }
    }

    /// Tells `observer` how it goes.
    #[must_use]
    pub fn observed_by(mut self, observer: Rc<dyn Observer>) -> Bench {
        self.observer = observer;
        self
    }

    /// Takes `cpu_percent`, and what makes rows doubtful, from what `surroundings` sees.
    #[must_use]
    pub fn surrounded_by(mut self, surroundings: Rc<dyn Surroundings>) -> Bench {
        self.surroundings = surroundings;
        self
    }

    /// Ends soon after `cancel` is set (by a signal handler's thread, say), with what was measured so far.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: Arc<AtomicBool>) -> Bench {
        self.cancel = cancel;
        self
    }

    /// Also takes these labels on a target for something that must not be overwritten: a controller's own.
    #[must_use]
    pub fn guarding(mut self, labels: &[Label]) -> Bench {
        self.labels.extend_from_slice(labels);
        self
    }

    /// What is measured.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Measures `target`.
    ///
    /// # Errors
    /// When it does not start: settings that cannot be, a target that holds something and would be written,
    /// or that cannot be reached. What goes wrong later is in the [`Ending`].
    pub async fn run(&self, env: &Env, target: &Target) -> Result<Measured> {
        self.settings.check(env, target)?;
        guard::check(env, target, &self.settings, &self.labels).await?;
        let mut members = Vec::new();
        for _ in 0..self.settings.workers {
            members.push(target.attach(env)?);
        }
        let seed = self.settings.seed.unwrap_or_else(|| env.random());
        let mut run = Run { bench: self, env, target, members, seed, point: 0, rows: Vec::new() };
        let ending = run.measure_all().await?;
        Ok(Measured { rows: run.rows, ending })
    }
}

/// A measurement under way.
struct Run<'a> {
    bench: &'a Bench,
    env: &'a Env,
    target: &'a Target,
    members: Vec<Member>,
    seed: u64,
    /// Which point is next.
    point: usize,
    rows: Vec<Row>,
}

impl Run<'_> {
    async fn measure_all(&mut self) -> Result<Ending> {
        let settings = &self.bench.settings;
        let area = settings.area_of(self.target.info());
        let ending = self.precondition().await?;
        if ending != Ending::Complete {
            return Ok(ending);
        }
        for profile in &settings.profiles {
            let pattern = Pattern::new(profile, area);
            let walks: Vec<Rc<Walk>> = (0..settings.workers)
                .map(|worker| Rc::new(Walk::new(&pattern, self.seed, worker, settings.workers)))
                .collect();
            for outstanding in settings.outstanding.rungs() {
                let ending = self.measure(profile, pattern, &walks, *outstanding).await?;
                if ending != Ending::Complete {
                    return Ok(ending);
                }
                self.point += 1;
            }
        }
        Ok(Ending::Complete)
    }

    /// Writes what is to be written before the first point.
    async fn precondition(&mut self) -> Result<Ending> {
        let settings = &self.bench.settings;
        if settings.precondition == Precondition::None {
            return Ok(Ending::Complete);
        }
        let (profile, area) = (precondition::profile(), settings.area_of(self.target.info()));
        let pattern = Pattern::new(&profile, area);
        let walks = [Rc::new(Walk::new(&pattern, self.seed, 0, 1))];
        let until = Until::Moved(settings.precondition.bytes(area.len));
        let (point, watched, began) =
            self.drive(&profile, pattern, &walks, precondition::OUTSTANDING, Duration::ZERO, until).await?;
        Ok(self.ending(&point, &watched, |at_ns| {
            format!("{:.1} s into preconditioning", at_ns.saturating_sub(began.ns) as f64 / 1e9)
        }))
    }

    /// One point: ramp, run, drain, and its row.
    async fn measure(
        &mut self,
        profile: &Profile,
        pattern: Pattern,
        walks: &[Rc<Walk>],
        outstanding: u32,
    ) -> Result<Ending> {
        let settings = &self.bench.settings;
        let (point, watched, began) =
            self.drive(profile, pattern, walks, outstanding, settings.ramp, Until::of(settings)).await?;
        let reading = point.meter.finish();
        let around = watched.around.clone().unwrap_or_else(|| Surrounded { seconds: 0.0, looks: Vec::new() });
        let about = About {
            target: self.target.name(),
            profile,
            outstanding,
            workers: settings.workers.min(outstanding),
            cpu_percent: around.process_percent(),
            steady_state: watched.steady_state.or_else(|| steadiness(&reading.slices, reading.slice_ns)),
        };
        if let Some(mut row) = Row::of(&about, &point, &reading) {
            row.notes = notes::judge(&row, &around, &self.expected());
            self.bench.observer.row(&row);
            self.rows.push(row);
        }
        Ok(self.ending(&point, &watched, |at_ns| {
            let seconds = at_ns.saturating_sub(began.ns) as f64 / 1e9;
            format!("{seconds:.1} s into '{profile}' with {outstanding} outstanding")
        }))
    }

    /// What the judgement of a row needs to know.
    fn expected(&self) -> Expected {
        let (settings, info) = (&self.bench.settings, self.target.info());
        Expected {
            rotating: info.rotational && info.kind == DriveKind::BlockDevice,
            confidence_percent: settings.confidence_percent.filter(|_| settings.steady_state.is_none()),
            max_rounds: settings.steady_state.map(|rule| rule.max_rounds),
        }
    }

    /// Keeps requests outstanding until `until`, and waits for the last of them.
    async fn drive(
        &self,
        profile: &Profile,
        pattern: Pattern,
        walks: &[Rc<Walk>],
        outstanding: u32,
        ramp: Duration,
        until: Until,
    ) -> Result<(Rc<Point>, Watched, Instant)> {
        let began = self.env.now();
        let point = Rc::new(Point::new(pattern, until.meter((began + ramp).ns)));
        let tasks = self.start(profile, &point, walks, outstanding)?;
        let supervisor = Supervisor {
            env: self.env,
            observer: &*self.bench.observer,
            surroundings: &*self.bench.surroundings,
            cancel: &self.bench.cancel,
            target: self.target.name(),
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

    /// How a point ended; `whereabouts` says where that was.
    fn ending(&self, point: &Point, watched: &Watched, whereabouts: impl Fn(u64) -> String) -> Ending {
        let name = self.target.name();
        match (point.end(), watched.cancelled) {
            (Some(failure), _) => Ending::Failed(format!(
                "the measurement of '{name}' ended {}: {failure}",
                whereabouts(failure.at_ns)
            )),
            (None, Some(at)) => {
                Ending::Cancelled(format!("the measurement of '{name}' was stopped {}", whereabouts(at.ns)))
            }
            (None, None) => Ending::Complete,
        }
    }

    /// Starts as many tasks as there are outstanding I/Os, dealt out to the workers in turn.
    fn start(
        &self,
        profile: &Profile,
        point: &Rc<Point>,
        walks: &[Rc<Walk>],
        outstanding: u32,
    ) -> Result<Vec<JoinHandle<()>>> {
        let mut all = Vec::with_capacity(outstanding as usize);
        for at in 0..outstanding {
            let seed = self.seed.wrapping_add((u64::from(at) + 1) << 32);
            let buffers = Buffers::take(self.env, profile, self.bench.settings.hollow, seed);
            all.push(buffers.ok_or_else(|| {
                Error::new(
                    ErrorKind::OutOfMemory,
                    format!(
                        "no memory is left for {outstanding} outstanding I/Os of {}; allow more memory or fewer outstanding I/Os",
                        profile.block()
                    ),
                )
            })?);
        }
        let task = |(at, buffers): (usize, Buffers)| {
            let worker = at % walks.len();
            let (walk, point) = (walks[worker].clone(), point.clone());
            let body =
                keep_one_outstanding(self.env.clone(), self.members[worker].clone(), walk, point, buffers);
            self.env.spawn("storagebench outstanding I/O", body)
        };
        Ok(all.into_iter().enumerate().map(task).collect())
    }
}
