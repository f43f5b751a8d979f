//! What is measured and predicted beside the controller, as pages show it and forms ask for it. Whoever serves the pages carries it out.

use crate::words::shell_word;

/// What can be chosen, what is measured, and what is predicted.
#[derive(Clone, Default, Debug)]
pub struct Workbench {
    /// What can be chosen.
    pub offer: Offer,
    /// What is measured, or was measured last.
    pub run: Option<Run>,
    /// What is predicted, or was predicted last.
    pub prediction: Option<Prediction>,
}

/// What can be chosen.
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
    /// What requests look like.
    pub load: String,
    /// What it stands for.
    pub prose: String,
    /// Whether it writes, and so destroys what it writes over.
    pub writes: bool,
}

/// A controller or a drive of the catalog.
#[derive(Clone, Debug)]
pub struct Model {
    /// The name by which it is chosen.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Of a drive: whether it rotates.
    pub rotates: bool,
    /// Of a controller: the strips that it offers, its usual one first.
    pub strips_kib: Vec<u64>,
}

/// A measurement of a volume.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was asked.
    pub order: Measure,
    /// Who asked.
    pub by: String,
    /// When, in seconds since 1970.
    pub begun_unix_s: u64,
    /// Where it stands.
    pub stage: Stage,
    /// What it does now, while it runs.
    pub live: Option<Live>,
    /// What came out so far.
    pub points: Vec<Point>,
    /// What makes it doubtful, and where it is kept.
    pub notes: Vec<String>,
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// What was asked.
    pub order: Predict,
    /// Where it stands.
    pub stage: Stage,
    /// How much of it is done, in percent.
    pub percent: u8,
    /// What came out.
    pub points: Vec<Point>,
    /// What limits it, and how far off it may be.
    pub notes: Vec<String>,
}

/// Where something that takes a while stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It waits for its turn.
    Waits,
    /// It goes on.
    Runs,
    /// It is done.
    Done,
    /// Somebody stopped it; what was found until then stays.
    Stopped(String),
    /// It did not begin, or ended early: why.
    Failed(String),
}

impl Stage {
    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        !matches!(self, Stage::Waits | Stage::Runs)
    }
}

/// What a measurement does now.
#[derive(Clone, Debug)]
pub struct Live {
    /// Which profile.
    pub profile: String,
    /// How many requests are outstanding.
    pub outstanding: u32,
    /// Ramp or run.
    pub phase: &'static str,
    /// Requests that ended, a second.
    pub per_s: f64,
    /// MiB a second.
    pub mib_per_s: f64,
    /// How long one takes in the mean, in microseconds.
    pub mean_us: Option<f64>,
    /// Requests that failed.
    pub errors: u64,
    /// Which point, from 1, and of how many.
    pub point: (usize, usize),
    /// How much of all is done, in percent.
    pub percent: u8,
    /// What is left, in seconds.
    pub left_s: u64,
}

/// What a load came to at a number of outstanding requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Which profile.
    pub profile: String,
    /// How many requests were outstanding.
    pub outstanding: u32,
    /// Requests a second.
    pub per_s: f64,
    /// MiB a second.
    pub mib_per_s: f64,
    /// How long one took in the mean, in microseconds.
    pub mean_us: Option<f64>,
    /// How long 99 of 100 took at the most, in microseconds.
    pub p99_us: Option<f64>,
    /// Half the width of the 95 % interval of the rate, in percent of it.
    pub sure_percent: Option<f64>,
}

/// A measurement that somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Which volume.
    pub volume: String,
    /// Which load, as `softroc bench` takes it.
    pub profile: String,
    /// How many requests are outstanding, one number after the other.
    pub outstanding: String,
    /// How long each of them is measured.
    pub runtime: String,
    /// Whether what the volume holds may be lost: its name was typed.
    pub destroy_data: bool,
    /// Whether it is measured while hosts use it.
    pub beside_hosts: bool,
}

impl Measure {
    /// The command line that does the same, word by word, without the name of the program.
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

/// A prediction that somebody asks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Predict {
    /// Which controller of the catalog.
    pub controller: String,
    /// Which drive of the catalog, and how many of it.
    pub drives: (usize, String),
    /// The level.
    pub level: String,
    /// How many spans; 1: the level has none, or one.
    pub spans: u16,
    /// The strip, where it is another one than the controller's usual one.
    pub strip_kib: Option<u64>,
    /// Which load.
    pub profile: String,
    /// How many requests are outstanding, one number after the other.
    pub outstanding: String,
    /// Slots whose drives have failed.
    pub failed: Vec<u16>,
}

impl Predict {
    /// The command line that does the same, word by word, without the name of the program.
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

/// Words as a shell takes them.
pub(crate) fn command_line(words: &[String]) -> String {
    let word = |word: &String| match word.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => format!("{flag}={}", shell_word(value)),
        None if word.starts_with("--") => word.clone(),
        _ => shell_word(word),
    };
    let words: Vec<String> = words.iter().map(word).collect();
    format!("softroc {}", words.join(" "))
}
