//! Watching a point: when its window is over, what is seen around it, and whether somebody wants it to stop.

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

/// How often progress is told and the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often the surroundings are looked at.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// How many looks around are kept; in between, each second one is dropped when there are more.
const MOST_LOOKS: usize = 128;
/// Into how many slices a round is cut.
const SLICES_PER_ROUND: u64 = 12;

/// When a window is over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Until {
    /// After a time, or later: when the figures are sure enough, or the longest time is over.
    Sure { runtime: Duration, longest: Duration, confidence_percent: Option<f64> },
    /// When the rounds have become steady, or there were too many.
    Steady(SteadyRule),
    /// When so many bytes have been moved, in the ramp too.
    Moved(ByteCount),
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Until {
    /// How the points of a profile end.
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

    /// A meter whose window opens at `start_ns`.
    pub(crate) fn meter(&self, start_ns: u64) -> Meter {
        let (planned_ns, slice_ns) = match self {
            Until::Sure { runtime, .. } => (ns(*runtime), ns(*runtime) / SLICES),
            Until::Steady(rule) => {
                // Whole slices make whole rounds.
                let slice_ns = (ns(rule.round) / SLICES_PER_ROUND).max(1);
                (slice_ns * SLICES_PER_ROUND * u64::from(rule.max_rounds), slice_ns)
            }
            Until::Moved(_) => (u64::MAX / 2, ns(Duration::from_secs(1))),
        };
        Meter::new(start_ns, start_ns.saturating_add(planned_ns), slice_ns)
    }
}

/// What watching came to.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// When somebody wanted it to stop.
    pub(crate) cancelled: Option<Instant>,
    /// What was seen around the window.
    pub(crate) around: Option<Surrounded>,
    /// How steady the rounds were, where there were rounds.
    pub(crate) steady_state: Option<SteadyState>,
}

/// Who watches, and what.
pub(crate) struct Supervisor<'a> {
    pub(crate) env: &'a Env,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) surroundings: &'a dyn Surroundings,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) outstanding: u32,
    /// Which point this is, and of how many.
    pub(crate) point: usize,
    pub(crate) points: usize,
    pub(crate) until: Until,
}

/// What changes while a point is watched.
struct Course {
    began: Instant,
    /// When the window was opened; rounds may have moved its start since.
    window: Instant,
    /// When each look around was, and what it saw.
    looks: Vec<(u64, Snapshot)>,
    next_look_around: Instant,
    /// The end of the window that was left as it is.
    settled_end_ns: u64,
    /// What each round came to.
    rounds: Vec<f64>,
    last: Instant,
    moved_bytes: u64,
}

impl Supervisor<'_> {
    /// Watches until the window is over; moves its ends as the rule says.
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

    /// When the next decision about the window's ends is due.
    fn next_decision(&self, course: &Course, meter: &Meter) -> Option<Instant> {
        match self.until {
            Until::Sure { confidence_percent: Some(_), .. }
                if course.settled_end_ns != meter.window_end_ns() =>
            {
                // While the last slice runs: the end can still be moved, and all but one slice are known.
                Some(Instant { ns: meter.window_end_ns().saturating_sub(meter.slice_ns()) })
            }
            Until::Steady(rule) => Some(course.round_end(&rule, meter)),
            _ => None,
        }
    }

    /// Moves the window's ends, where it is time to.
    fn decide(&self, course: &mut Course, meter: &Meter, now: Instant) -> Option<SteadyState> {
        match self.until {
            Until::Sure { longest, confidence_percent: Some(confidence), .. } => {
                let (start_ns, end_ns) = (meter.window_start_ns(), meter.window_end_ns());
                let last_ns = start_ns.saturating_add(ns(longest));
                if now.ns + meter.slice_ns() >= end_ns && now.ns < end_ns && course.settled_end_ns != end_ns {
                    course.settled_end_ns = end_ns;
                    let slice_ns = meter.slice_ns();
                    let sure = meter.with_slices(now.ns, |slices| is_sure(slices, slice_ns, confidence));
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

    /// Takes the rounds that are over, and ends the window when they have become steady.
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
                // One more round than there were, and no fewer than a window's.
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

    /// When the round under way is over.
    fn round_end(&self, rule: &SteadyRule, meter: &Meter) -> Instant {
        let kept = self.rounds.len().min(rule.window_rounds as usize) as u64;
        Instant { ns: meter.window_start_ns() + (kept + 1) * SLICES_PER_ROUND * meter.slice_ns() }
    }

    /// What was seen from the window's start on.
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

/// Whether the rate and the mean latency are known well enough. Where nothing completes, more time does not help.
fn is_sure(slices: &[Slice], slice_ns: u64, confidence_percent: f64) -> bool {
    let batches = Batches::of_slices(slices, slice_ns);
    let known = [batches.iops(), batches.latency_ns()];
    slices.iter().all(|slice| slice.ios() == 0)
        || known.iter().all(|estimate| estimate.is_some_and(|e| e.half_width_percent() <= confidence_percent))
}

/// How steady a run was that had no rounds of its own: over its fifths.
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
