//! Benchmarks and predictions as values for pages and forms. The server of the pages runs them.

use crate::words::shell_word;

/// The catalog, the latest benchmark and the latest prediction.
#[derive(Clone, Default, Debug)]
pub struct Workbench {
    /// The catalog.
    pub offer: Offer,
    /// The running or last benchmark.
    pub run: Option<Run>,
    /// The running or last prediction.
    pub prediction: Option<Prediction>,
}

/// Selectable items of the catalog.
#[derive(Clone, Default, Debug)]
pub struct Offer {
    /// Load profiles of the catalog.
    pub profiles: Vec<Load>,
    /// Controllers of the catalog.
    pub controllers: Vec<Model>,
    /// Drives of the catalog.
    pub drives: Vec<Model>,
}

/// A load profile.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// The pattern of its requests.
    pub load: String,
    /// Its description.
    pub prose: String,
    /// Whether it writes, and so overwrites data.
    pub writes: bool,
}

/// A controller or a drive of the catalog.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name in the catalog.
    pub name: String,
    /// Its description.
    pub about: String,
    /// For a drive: whether it rotates.
    pub rotates: bool,
    /// For a controller: the strip sizes that it supports, the default first.
    pub strips_kib: Vec<u64>,
}

/// A benchmark of a volume.
#[derive(Clone, Debug)]
pub struct Run {
    /// The request.
    pub order: Measure,
    /// The account that requested it.
    pub by: String,
    /// Start, in seconds since 1970.
    pub begun_unix_s: u64,
    /// Its state.
    pub stage: Stage,
    /// Current values while it runs.
    pub live: Option<Live>,
    /// Results so far.
    pub points: Vec<Point>,
    /// Warnings, and where the result is stored.
    pub notes: Vec<String>,
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The request.
    pub order: Predict,
    /// Its state.
    pub stage: Stage,
    /// Progress in percent.
    pub percent: u8,
    /// The results.
    pub points: Vec<Point>,
    /// The bottleneck, and the expected error.
    pub notes: Vec<String>,
}

/// The state of a benchmark or a prediction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Queued.
    Waits,
    /// Running.
    Runs,
    /// Complete.
    Done,
    /// Stopped by an operator; results so far remain.
    Stopped(String),
    /// Failed, for this reason.
    Failed(String),
}

impl Stage {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        !matches!(self, Stage::Waits | Stage::Runs)
    }
}

/// Current values of a benchmark.
#[derive(Clone, Debug)]
pub struct Live {
    /// The load profile.
    pub profile: String,
    /// The number of outstanding requests.
    pub outstanding: u32,
    /// Ramp or run.
    pub phase: &'static str,
    /// Completed requests per second.
    pub per_s: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// Requests that failed.
    pub errors: u64,
    /// The current point, from 1, and the number of points.
    pub point: (usize, usize),
    /// Overall progress in percent.
    pub percent: u8,
    /// Remaining seconds.
    pub left_s: u64,
}

/// The result of a load at a number of outstanding requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The load profile.
    pub profile: String,
    /// The number of outstanding requests.
    pub outstanding: u32,
    /// Requests per second.
    pub per_s: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// p99 latency in microseconds.
    pub p99_us: Option<f64>,
    /// Half the width of the 95 % confidence interval of the rate, in percent.
    pub sure_percent: Option<f64>,
}

/// A requested benchmark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measure {
    /// The volume.
    pub volume: String,
    /// The load, in the syntax of `softroc bench`.
    pub profile: String,
    /// Numbers of outstanding requests, measured in turn.
    pub outstanding: String,
    /// Duration of each measurement.
    pub runtime: String,
    /// Whether data of the volume may be destroyed: its name was typed.
    pub destroy_data: bool,
    /// Whether hosts may be connected during the benchmark.
    pub beside_hosts: bool,
}

impl Measure {
    /// The arguments of the equivalent command line, without the program name.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![
            "bench".to_owned(),
            format!("volume:{}", self.volume),
            format!("--profile={}", self.profile),
            format!("--outstanding={}", self.outstanding),
            format!("--runtime={}", self.runtime),
        ];
        words.extend(self.destroy_data.then(|| "--destroy-data".to_owned()));
        words.extend(self.beside_hosts.then(|| "--beside-hosts".to_owned()));
        words
    }
}

/// A requested prediction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Predict {
    /// The controller of the catalog.
    pub controller: String,
    /// The number of drives, and their model in the catalog.
    pub drives: (usize, String),
    /// The level.
    pub level: String,
    /// Number of spans; 1 for levels without spans.
    pub spans: u16,
    /// The strip size, if it is not the controller's default.
    pub strip_kib: Option<u64>,
    /// The load.
    pub profile: String,
    /// Numbers of outstanding requests.
    pub outstanding: String,
    /// Slots of failed drives.
    pub failed: Vec<u16>,
}

impl Predict {
    /// The arguments of the equivalent command line, without the program name.
    pub fn words(&self) -> Vec<String> {
        let (count, drive) = &self.drives;
        let mut words = vec![
            "predict".to_owned(),
            format!("--controller={}", self.controller),
            format!("--drives={count}x{drive}"),
            format!("--level={}", self.level),
        ];
        words.extend((self.spans > 1).then(|| format!("--spans={}", self.spans)));
        words.extend(self.strip_kib.map(|kib| format!("--strip={kib}K")));
        words.push(format!("--profile={}", self.profile));
        words.push(format!("--outstanding={}", self.outstanding));
        if !self.failed.is_empty() {
            let slots: Vec<String> = self.failed.iter().map(ToString::to_string).collect();
            words.push(format!("--failed={}", slots.join(",")));
        }
        words
    }
}

/// The words as a shell command.
pub(crate) fn command_line(words: &[String]) -> String {
    let word = |word: &String| match word.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => format!("{flag}={}", shell_word(value)),
        None if word.starts_with("--") => word.clone(),
        _ => shell_word(word),
    };
    let words: Vec<String> = words.iter().map(word).collect();
    format!("softroc {}", words.join(" "))
}
