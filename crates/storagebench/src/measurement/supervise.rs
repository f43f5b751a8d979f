//! Supervises a point: the end of its window, observations of the machine, cancellation.

use crate::load::profile::Profile;
use crate::measurement::observe::{Observer, Phase, Progress};
use crate::measurement::settings::Settings;
use crate::statistics::estimate::BATCHES;
use crate::statistics::intervals::Batches;
use crate::statistics::meter::{Look, Meter, SLICES, Slice};
use crate::statistics::steady::{SteadyRule, SteadyState};
use crate::statistics::surroundings::{Snapshot, Surrounded, Surroundings};
use platform::{Env, Instant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use units::ByteCount;

/// The interval of progress reports and of checks for cancellation.
const LOOK: Duration = Duration::from_millis(200);
/// The interval of observations of the machine.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// The maximum number of stored observations; beyond, every second one is dropped.
const MOST_LOOKS: usize = 128;
/// The number of slices per round.
const SLICES_PER_ROUND: u64 = 12;

/// The end of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Until {
    /// After a time, or later when the intervals are narrow enough or the maximum is reached.
    Sure { runtime: Duration, longest: Duration, confidence_percent: Option<f64> },
    /// When the rounds are steady, or their maximum is reached.
    Steady(SteadyRule),
    /// When this many bytes have been transferred, including the ramp.
    Moved(ByteCount),
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Until {
    /// The end rule for points of a profile.
    pub(crate) fn of(settings: &Settings, profile: &Profile) -> Until {
        match settings.steady_state {
            Some(rule) => Until::Steady(rule),
            None => Until::Sure {
                runtime: settings.runtime_of(profile),
                longest: settings.longest_of(profile),
                confidence_percent: settings.confidence_of(profile),
            },
        }
    }

    /// A meter with a window that starts at `start_ns`.
    pub(crate) fn meter(&self, start_ns: u64) -> Meter {
        let (planned_ns, slice_ns) = match self {
            Until::Sure { runtime, .. } => (ns(*runtime), ns(*runtime) / SLICES),
            Until::Steady(rule) => {
                // A round is a whole number of slices.
                let slice_ns = (ns(rule.round) / SLICES_PER_ROUND).max(1);
                (slice_ns * SLICES_PER_ROUND * u64::from(rule.max_rounds), slice_ns)
            }
            Until::Moved(_) => (u64::MAX / 2, ns(Duration::from_secs(1))),
        };
        Meter::new(start_ns, start_ns.saturating_add(planned_ns), slice_ns)
    }
}

/// The result of the supervision.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The time of a cancellation.
    pub(crate) cancelled: Option<Instant>,
    /// The observations of the machine during the window.
    pub(crate) around: Option<Surrounded>,
    /// The steadiness of the rounds, if there were any.
    pub(crate) steady_state: Option<SteadyState>,
}

/// The supervisor of a point.
pub(crate) struct Supervisor<'a> {
    pub(crate) env: &'a Env,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) surroundings: &'a dyn Surroundings,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) outstanding: u32,
    /// The index of the point, and the number of points.
    pub(crate) point: usize,
    pub(crate) points: usize,
    pub(crate) until: Until,
}

/// The state of the supervision.
struct Course {
    began: Instant,
    /// The opening of the window; rounds may have moved its start since.
    window: Instant,
    /// The times and results of observations.
    looks: Vec<(u64, Snapshot)>,
    next_look_around: Instant,
    /// The last window end that was not extended.
    settled_end_ns: u64,
    /// The result of each round.
    rounds: Vec<f64>,
    last: Instant,
    moved_bytes: u64,
}

impl Supervisor<'_> {
    /// Waits until the window is over; moves its ends by the rule.
    pub(crate) async fn watch(&self, began: Instant, meter: &Meter) -> Watched {
        let window = Instant { ns: meter.window_start_ns() };
        let mut course = Course {
            began,
            window,
            looks: Vec::new(),
            next_look_around: window,
            settled_end_ns: 0,
            rounds: Vec::new(),
            last: began,
            moved_bytes: 0,
        };
        let (mut cancelled, mut next_look) = (None, began);
        let mut steady_state = None;
        loop {
            let now = self.env.now();
            if now >= course.next_look_around {
                self.look_around(&mut course, now);
            }
            if now >= window {
                steady_state = self.decide(&mut course, meter, now).or(steady_state);
            }
            if now.ns >= meter.window_end_ns() {
                break;
            }
            if self.cancel.load(Ordering::Relaxed) {
                meter.stop(now.ns);
                cancelled = Some(now);
                break;
            }
            if now >= next_look {
                self.tell(&mut course, meter, now);
                next_look = now + LOOK;
                if let Until::Moved(goal) = self.until
                    && course.moved_bytes >= goal.0
                {
                    meter.stop(now.ns);
                    break;
                }
            }
            let mut next = next_look.min(Instant { ns: meter.window_end_ns() });
            if now < window {
                next = next.min(window);
            } else {
                next = next.min(course.next_look_around);
                next = self.next_decision(&course, meter).map_or(next, |at| next.min(at.max(now)));
            }
            self.env.sleep_until(next).await;
        }
        let end = self.env.now();
        if meter.window_end_ns() > window.ns {
            course.looks.push((end.ns, self.surroundings.look(self.target)));
        }
        Watched { cancelled, around: course.surrounded(meter.window_start_ns()), steady_state }
    }

    fn look_around(&self, course: &mut Course, now: Instant) {
        course.looks.push((now.ns, self.surroundings.look(self.target)));
        if course.looks.len() > MOST_LOOKS {
            let mut at = 0;
            course.looks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        course.next_look_around = now + LOOK_AROUND;
    }

    /// The time of the next decision about the window's ends.
    fn next_decision(&self, course: &Course, meter: &Meter) -> Option<Instant> {
        match self.until {
            Until::Sure { confidence_percent: Some(_), .. }
                if course.settled_end_ns != meter.window_end_ns() =>
            {
                // During the last slice: the end can still move, and all other slices are known.
                Some(Instant { ns: meter.window_end_ns().saturating_sub(meter.slice_ns()) })
            }
            Until::Steady(rule) => Some(course.round_end(&rule, meter)),
            _ => None,
        }
    }

    /// Moves the window's ends if it is time.
    fn decide(&self, course: &mut Course, meter: &Meter, now: Instant) -> Option<SteadyState> {
        match self.until {
            Until::Sure { longest, confidence_percent: Some(confidence), .. } => {
                let (start_ns, end_ns) = (meter.window_start_ns(), meter.window_end_ns());
                let last_ns = start_ns.saturating_add(ns(longest));
                if now.ns + meter.slice_ns() >= end_ns
                    && now.ns < end_ns
                    && course.settled_end_ns != end_ns
                {
                    course.settled_end_ns = end_ns;
                    let slice_ns = meter.slice_ns();
                    let sure =
                        meter.with_slices(now.ns, |slices| is_sure(slices, slice_ns, confidence));
                    if !sure && end_ns < last_ns {
                        let more_ns = BATCHES as u64 * meter.slice_ns();
                        meter.extend(end_ns.saturating_add(more_ns).min(last_ns));
                    }
                }
                None
            }
            Until::Steady(rule) => self.decide_rounds(course, meter, now, &rule),
            _ => None,
        }
    }

    /// Records completed rounds, and ends the window when they are steady.
    fn decide_rounds(
        &self,
        course: &mut Course,
        meter: &Meter,
        now: Instant,
        rule: &SteadyRule,
    ) -> Option<SteadyState> {
        let mut judged = None;
        loop {
            let end = course.round_end(rule, meter);
            if now < end || course.rounds.len() >= rule.max_rounds as usize {
                return judged;
            }
            let per_round = SLICES_PER_ROUND as usize;
            let kept = course.rounds.len().min(rule.window_rounds as usize);
            let ios = meter.with_slices(end.ns, |slices| {
                slices.iter().skip(kept * per_round).take(per_round).map(Slice::ios).sum::<u64>()
            });
            course.rounds.push(ios as f64);
            if kept == rule.window_rounds as usize {
                meter.forget(per_round);
            }
            judged = rule.judge(&course.rounds);
            if judged.is_some_and(|steady| steady.reached) {
                meter.stop(end.ns);
                return judged;
            }
        }
    }

    fn tell(&self, course: &mut Course, meter: &Meter, now: Instant) {
        let Look { ios, bytes, latency_sum_ns, errors, shape } = meter.look();
        course.moved_bytes += bytes;
        let seconds = now.since(course.last).as_secs_f64();
        course.last = now;
        let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let elapsed = now.since(course.began);
        let (phase, total) = match self.until {
            Until::Moved(goal) => {
                let share = course.moved_bytes as f64 / goal.0.max(1) as f64;
                let total = if share > 0.0 { elapsed.as_secs_f64() / share } else { 0.0 };
                (Phase::Precondition, Duration::try_from_secs_f64(total).unwrap_or(Duration::MAX))
            }
            Until::Steady(rule) => {
                // One more round, and at least as many as the window.
                let rounds = (course.rounds.len() as u32 + 1).max(rule.window_rounds);
                (course.phase(now), course.window.since(course.began) + rule.round * rounds)
            }
            Until::Sure { .. } => {
                (course.phase(now), Instant { ns: meter.window_end_ns() }.since(course.began))
            }
        };
        self.observer.progress(&Progress {
            target: self.target,
            profile: self.profile,
            outstanding: self.outstanding,
            point: self.point,
            points: self.points,
            phase,
            elapsed,
            total,
            iops: rate(ios),
            throughput_mib_s: rate(bytes) / f64::from(1 << 20),
            latency_us: (ios > 0).then(|| latency_sum_ns as f64 / ios as f64 / 1e3),
            latency_shape: &shape,
            errors,
        });
    }
}

impl Course {
    fn phase(&self, now: Instant) -> Phase {
        if now < self.window { Phase::Ramp } else { Phase::Run }
    }

    /// The end of the current round.
    fn round_end(&self, rule: &SteadyRule, meter: &Meter) -> Instant {
        let kept = self.rounds.len().min(rule.window_rounds as usize) as u64;
        Instant { ns: meter.window_start_ns() + (kept + 1) * SLICES_PER_ROUND * meter.slice_ns() }
    }

    /// The observations from the window's start.
    fn surrounded(mut self, start_ns: u64) -> Option<Surrounded> {
        let first = self.looks.iter().rposition(|(at, _)| *at <= start_ns).unwrap_or(0);
        let looks = self.looks.split_off(first.min(self.looks.len()));
        let (since, until) = (looks.first()?.0, looks.last()?.0);
        Some(Surrounded {
            seconds: until.saturating_sub(since) as f64 / 1e9,
            looks: looks.into_iter().map(|(_, look)| look).collect(),
        })
    }
}

/// Whether the rate and the mean latency are precise enough. Without completions, more time does
/// not help.
fn is_sure(slices: &[Slice], slice_ns: u64, confidence_percent: f64) -> bool {
    let batches = Batches::of_slices(slices, slice_ns);
    let known = [batches.iops(), batches.latency_ns()];
    slices.iter().all(|slice| slice.ios() == 0)
        || known
            .iter()
            .all(|estimate| estimate.is_some_and(|e| e.half_width_percent() <= confidence_percent))
}

/// The steadiness of a run without rounds: over its fifths.
pub(crate) fn steadiness(slices: &[Slice], slice_ns: u64) -> Option<SteadyState> {
    let each = slices.len() / 5;
    if each < 2 {
        return None;
    }
    let rounds: Vec<f64> = slices
        .chunks_exact(each)
        .take(5)
        .map(|fifth| fifth.iter().map(Slice::ios).sum::<u64>() as f64)
        .collect();
    SteadyRule::snia(Duration::from_nanos(slice_ns * each as u64)).judge(&rounds)
}
