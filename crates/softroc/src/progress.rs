//! Progress bars, to a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;
use storagebench::{Observer, Phase, Progress, Settings};

/// The bar of a measurement: how far it is, what runs, and at what rate.
pub struct Bars {
    bar: ProgressBar,
    targets: usize,
}

impl Bars {
    /// A bar for a measurement of `targets` targets.
    pub fn new(settings: &Settings, targets: usize) -> Bars {
        let total = settings.duration() * targets as u32;
        Bars { bar: bar(total.as_millis() as u64), targets }
    }
}

/// A bar over `length` units, invisible unless standard error is a terminal.
pub fn bar(length: u64) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(5),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}") {
        bar.set_style(style.progress_chars("█▌░"));
    }
    bar
}

impl Observer for Bars {
    fn progress(&self, progress: &Progress<'_>) {
        let length = self.bar.length().unwrap_or(1) as f64 / self.targets.max(1) as f64;
        let before = (self.bar.position() as f64 / length).floor().min(self.targets as f64 - 1.0);
        let at = (before + progress.fraction()) * length;
        self.bar.set_position(at.max(self.bar.position() as f64) as u64);
        let left = Duration::from_millis((length * (1.0 - progress.fraction())) as u64);
        let phase = match progress.phase {
            Phase::Precondition => "preconditioning",
            Phase::Ramp => "ramp",
            Phase::Run => "run",
        };
        self.bar.set_message(format!(
            "{} · {} outstanding · {phase} · {:.0} IO/s · {:.0} MiB/s · {} left",
            progress.profile,
            progress.outstanding,
            progress.iops,
            progress.throughput_mib_s,
            seconds(left)
        ));
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A time for people: `12 s`, `3 min 05 s`.
pub fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}
