//! A measurement of one target: profile by profile, rung by rung.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::{Buffers, Point, keep_one_outstanding};
use crate::guard;
use crate::meter::Meter;
use crate::observe::{CpuClock, Observer, Phase, Progress};
use crate::pattern::{Pattern, Walk};
use crate::profile::Profile;
use crate::row::{About, Row};
use crate::settings::Settings;
use crate::target::Target;
use env::{Env, Instant, JoinHandle, Member};
use signatures::Label;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often progress is told and the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(200);

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
    cpu: Rc<dyn CpuClock>,
    cancel: Arc<AtomicBool>,
    labels: Vec<Label>,
}

impl Bench {
    /// A measurement that nobody watches.
    pub fn new(settings: Settings) -> Bench {
        Bench {
            settings,
            observer: Rc::new(()),
            cpu: Rc::new(|| None),
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

    /// Takes `cpu_percent` from `cpu`.
    #[must_use]
    pub fn with_cpu_clock(mut self, cpu: Rc<dyn CpuClock>) -> Bench {
        self.cpu = cpu;
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

    /// One point: ramp, run, drain.
    async fn measure(
        &mut self,
        profile: &Profile,
        pattern: Pattern,
        walks: &[Rc<Walk>],
        outstanding: u32,
    ) -> Result<Ending> {
        let settings = &self.bench.settings;
        let began = self.env.now();
        let window = began + settings.ramp;
        let point = Rc::new(Point::new(pattern, Meter::new(window.ns, settings.runtime)));
        let tasks = self.start(profile, &point, walks, outstanding)?;
        let (cpu_percent, cancelled) = self.supervise(profile, outstanding, began, &point).await;
        for task in tasks {
            task.await;
        }
        let workers = settings.workers.min(outstanding);
        let about = About { target: self.target.name(), profile, outstanding, workers, cpu_percent };
        let reading = point.meter.finish();
        if let Some(row) = Row::of(&about, &point, &reading) {
            self.bench.observer.row(&row);
            self.rows.push(row);
        }
        let whereabouts = |at_ns: u64| {
            let seconds = at_ns.saturating_sub(began.ns) as f64 / 1e9;
            format!("{seconds:.1} s into '{profile}' with {outstanding} outstanding")
        };
        let name = self.target.name();
        Ok(match (point.end(), cancelled) {
            (Some(failure), _) => Ending::Failed(format!(
                "the measurement of '{name}' ended {}: {failure}",
                whereabouts(failure.at_ns)
            )),
            (None, Some(at)) => {
                Ending::Cancelled(format!("the measurement of '{name}' was stopped {}", whereabouts(at.ns)))
            }
            (None, None) => Ending::Complete,
        })
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

    /// Watches a point until its window is over. Returns the processor's share, and when it was cancelled.
    async fn supervise(
        &self,
        profile: &Profile,
        outstanding: u32,
        began: Instant,
        point: &Point,
    ) -> (Option<f64>, Option<Instant>) {
        let settings = &self.bench.settings;
        let window = Instant { ns: point.meter.window_start_ns() };
        let (mut cpu, mut cancelled, mut last) = (None, None, began);
        loop {
            let now = self.env.now();
            if now >= window && cpu.is_none() {
                cpu = Some((now, self.bench.cpu.cpu_ns()));
            }
            if now.ns >= point.meter.window_end_ns() {
                break;
            }
            if self.bench.cancel.load(Ordering::Relaxed) {
                point.meter.stop(now.ns);
                cancelled = Some(now);
                break;
            }
            let (recent, errors) = point.meter.look();
            let seconds = now.since(last).as_secs_f64();
            let iops = if seconds > 0.0 { recent.ios as f64 / seconds } else { 0.0 };
            self.bench.observer.progress(&Progress {
                target: self.target.name(),
                profile,
                outstanding,
                point: self.point,
                points: settings.points(),
                phase: if now < window { Phase::Ramp } else { Phase::Run },
                elapsed: now.since(began),
                total: settings.ramp + settings.runtime,
                iops,
                throughput_mib_s: iops * profile.block().0 as f64 / (1 << 20) as f64,
                latency_us: (recent.ios > 0).then(|| recent.latency_ns as f64 / recent.ios as f64 / 1e3),
                errors,
            });
            last = now;
            let end = Instant { ns: point.meter.window_end_ns() };
            let next = if now < window { window } else { end };
            self.env.sleep_until(next.min(now + LOOK)).await;
        }
        let now = self.env.now();
        let share = cpu.and_then(|(since, before)| {
            let elapsed = now.since(since).as_nanos() as f64;
            let spent = self.bench.cpu.cpu_ns()?.saturating_sub(before?);
            (elapsed > 0.0).then(|| spent as f64 / elapsed * 100.0)
        });
        (share, cancelled)
    }
}
