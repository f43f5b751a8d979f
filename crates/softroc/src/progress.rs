//! Progress of long operations: bars and a live view on a terminal, plain lines elsewhere. Without
//! colours.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::Duration;
use storagebench::{
    LatencyShape, Observer, Phase, Progress, Remaining, Row, Settings, duration_text, number_text,
    row_text,
};

fn target() -> ProgressDrawTarget {
    match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(5),
        false => ProgressDrawTarget::hidden(),
    }
}

/// A counter without a known end, invisible unless standard error is a terminal.
pub fn count() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} {msg}, {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// A bar over `length` units, invisible unless standard error is a terminal.
pub fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), target());
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}") {
        bar.set_style(style.progress_chars("█▌░"));
    }
    bar
}

/// The progress of a measurement, and its remaining time.
pub struct Course {
    points: usize,
    /// Of this target and the previous ones.
    remaining: RefCell<Remaining>,
}

impl Course {
    /// The progress of a measurement of `targets` targets.
    pub fn new(settings: &Settings, targets: usize) -> Course {
        Course {
            points: settings.points() * targets,
            remaining: RefCell::new(Remaining::new(settings, targets)),
        }
    }

    /// The completed points, and their total.
    pub fn points(&self) -> (usize, usize) {
        (self.remaining.borrow().points_done(), self.points)
    }

    /// The completed share, from 0 to 1.
    pub fn share(&self, progress: &Progress<'_>) -> f64 {
        let (done, points) = self.points();
        let share = progress.elapsed.as_secs_f64() / progress.total.as_secs_f64().max(1e-9);
        let is_preconditioning = progress.phase == Phase::Precondition;
        let at = if is_preconditioning { done as f64 } else { done as f64 + share.clamp(0.0, 1.0) };
        at / points.max(1) as f64
    }

    /// The remaining time while a point runs.
    pub fn left_in(&self, progress: &Progress<'_>) -> Duration {
        self.remaining.borrow().left_in(progress)
    }

    /// The remaining time between points.
    fn left(&self) -> Duration {
        self.remaining.borrow().left()
    }

    /// See [`Observer::preconditioned`].
    pub fn preconditioned(&self, took: Duration) {
        self.remaining.borrow_mut().preconditioning_took(took);
    }

    /// See [`Observer::point_took`].
    pub fn point_took(&self, took: Duration) {
        self.remaining.borrow_mut().point_took(took);
    }
}

/// The displayed name of a phase.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Precondition => "preconditioning",
        Phase::Ramp => "ramp",
        Phase::Run => "run",
    }
}

/// The progress of a measurement on standard error. On a terminal: completed share, current point,
/// rate, and a small histogram of the latest latencies. Elsewhere: one line per row.
pub struct Live {
    bar: ProgressBar,
    terminal: bool,
    course: Course,
    preconditioning: Cell<bool>,
}

/// The bar's length: thousandths.
const LENGTH: u64 = 1000;

impl Live {
    /// A view of a measurement of `targets` targets.
    pub fn new(settings: &Settings, targets: usize) -> Live {
        Live {
            bar: bar(LENGTH),
            terminal: std::io::stderr().is_terminal(),
            course: Course::new(settings, targets),
            preconditioning: Cell::new(false),
        }
    }
}

impl Observer for Live {
    fn progress(&self, progress: &Progress<'_>) {
        let preconditioning = progress.phase == Phase::Precondition;
        if !self.terminal {
            if preconditioning && !self.preconditioning.replace(preconditioning) {
                crate::output::say(&format!("{}: preconditioning", progress.target));
            }
            return;
        }
        self.bar.set_position((self.course.share(progress) * LENGTH as f64) as u64);
        let (done, points) = self.course.points();
        self.bar.set_message(lines(progress, done, points, self.course.left_in(progress)));
    }

    fn preconditioned(&self, took: Duration) {
        self.course.preconditioned(took);
    }

    fn point_took(&self, took: Duration) {
        self.course.point_took(took);
    }

    fn row(&self, row: &Row) {
        if !self.terminal {
            let ((done, points), left) = (self.course.points(), self.course.left());
            let left = if left.is_zero() {
                String::new()
            } else {
                format!("; about {} left", seconds(left))
            };
            crate::output::say(&format!("[{done}/{points}] {}{left}", row_text(row)));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The text next to and below the bar.
fn lines(progress: &Progress<'_>, done: usize, points: usize, left: Duration) -> String {
    let phase = phase(progress.phase);
    let latency = progress
        .latency_us
        .map_or_else(String::new, |us| format!(" · {} on average", duration_text(us)));
    let errors = match progress.errors {
        0 => String::new(),
        count => format!(" · {count} failed"),
    };
    let mut text = format!(
        "{} left · point {} of {points}\n{} · {} · {} outstanding · {phase}\n{} IO/s · {} \
            MiB/s{latency}{errors}",
        seconds(left),
        done + 1,
        progress.target,
        progress.profile,
        progress.outstanding,
        number_text(progress.iops),
        number_text(progress.throughput_mib_s),
    );
    if let Some(histogram) = histogram(progress.latency_shape) {
        text.push('\n');
        text.push_str(&histogram);
    }
    text
}

/// Latencies by powers of two, as blocks: `16 µs ▁▂▅█▃▁ 1.02 ms`; `None` without data. Outer
/// classes below a thousandth are omitted.
fn histogram(shape: &LatencyShape) -> Option<String> {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let all: u64 = shape.iter().sum();
    let counts = |count: &u64| count * 1000 > all;
    let first = shape.iter().position(counts)?;
    let last = shape.iter().rposition(counts)?;
    let most = *shape[first..=last].iter().max()? as f64;
    let bars: String = shape[first..=last]
        .iter()
        .map(|count| match count {
            0 => ' ',
            count => BLOCKS[((*count as f64 / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        })
        .flat_map(|block| [block, block])
        .collect();
    let edge = |power: usize| duration_text((1_u64 << power) as f64 / 1e3);
    Some(format!("{} {bars} {}", edge(first), edge(last + 1)))
}

/// A readable time: `12 s`, `3 min 05 s`, `2 h 05 min`.
pub fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        for (time, text) in [(0, "0 s"), (59, "59 s"), (185, "3 min 05 s"), (7500, "2 h 05 min")] {
            assert_eq!(seconds(Duration::from_secs(time)), text);
        }
    }

    #[test]
    fn the_small_histogram_is_as_high_as_its_counts_and_cut_to_where_they_are() {
        let mut shape = [0; 42];
        assert_eq!(histogram(&shape), None);
        (shape[14], shape[15], shape[17]) = (50, 100, 10);
        // Too few to be visible.
        shape[30] = 0;
        assert_eq!(histogram(&shape).unwrap(), "16.4 µs ▄▄██  ▁▁ 262 µs");
        (shape[14], shape[30]) = (50_000, 1);
        assert!(histogram(&shape).unwrap().starts_with("16.4 µs ██"));
    }

    #[test]
    fn the_view_says_what_runs_and_how_much_is_left() {
        let profile = "database".parse().unwrap();
        let mut shape = [0; 42];
        shape[18] = 7;
        let progress = Progress {
            target: "mem:1G",
            profile: &profile,
            outstanding: 8,
            point: 1,
            points: 4,
            phase: Phase::Run,
            elapsed: Duration::from_secs(3),
            total: Duration::from_secs(10),
            iops: 20_000.0,
            throughput_mib_s: 156.25,
            latency_us: Some(400.0),
            latency_shape: &shape,
            errors: 2,
        };
        assert_eq!(
            lines(&progress, 1, 4, Duration::from_secs(67)),
            "1 min 07 s left · point 2 of 4\nmem:1G · database · 8 outstanding · run\n\
             20\u{202F}000 IO/s · 156 MiB/s · 400 µs on average · 2 failed\n262 µs ██ 524 µs"
        );
    }
}
