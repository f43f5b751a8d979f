//! The cases: the array, its stage, and the end of its process.

/// A level on a number of drives, which survives the loss of any `survives` of them; and its
/// migration by adding drives, if possible.
pub struct Shape {
    pub level: &'static str,
    pub drives: usize,
    pub survives: usize,
    pub to: Option<(&'static str, usize, usize)>,
}

pub const SHAPES: [Shape; 9] = [
    Shape { level: "raid1", drives: 3, survives: 2, to: Some(("raid10", 4, 1)) },
    Shape { level: "raid1e", drives: 5, survives: 1, to: None },
    Shape { level: "raid10", drives: 4, survives: 1, to: Some(("raid10", 6, 1)) },
    Shape { level: "raid4", drives: 3, survives: 1, to: None },
    Shape { level: "raid5", drives: 4, survives: 1, to: Some(("raid6", 6, 2)) },
    Shape { level: "raid5ee", drives: 5, survives: 1, to: Some(("raid6", 6, 2)) },
    Shape { level: "raid6", drives: 5, survives: 2, to: Some(("raid6", 6, 2)) },
    Shape { level: "raid50", drives: 6, survives: 1, to: Some(("raid50", 8, 1)) },
    Shape { level: "raid60", drives: 8, survives: 2, to: Some(("raid60", 10, 2)) },
];

/// The earlier content of the drives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ground {
    /// Zeros known to the controller, which created the files.
    Blank,
    /// Holes.
    Truncated,
    Noise,
}

/// When the drives are lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Stage {
    New,
    HalfInitialised,
    InMigration,
    JustMigrated,
}

impl Stage {
    pub fn is_moved(self) -> bool {
        matches!(self, Stage::InMigration | Stage::JustMigrated)
    }
}

/// How the process ends after the writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    /// A drive fails; then the controller is stopped.
    InOrder,
    Killed,
    PowerCut,
    /// Without a flush before.
    PowerCutUnflushed,
}

pub const GROUNDS: [Ground; 3] = [Ground::Blank, Ground::Truncated, Ground::Noise];
pub const MODES: [&str; 2] = ["write-through", "write-back"];
pub const STAGES: [Stage; 4] =
    [Stage::New, Stage::HalfInitialised, Stage::InMigration, Stage::JustMigrated];
pub const ENDS: [End; 4] = [End::InOrder, End::Killed, End::PowerCut, End::PowerCutUnflushed];

pub struct Case {
    pub shape: &'static Shape,
    pub ground: Ground,
    pub mode: &'static str,
    pub stage: Stage,
    pub end: End,
    /// Which drives have a volatile cache.
    pub turn: usize,
}

impl Case {
    /// The number of drives at the loss, and the number that may be lost.
    pub fn when_lost(&self) -> (usize, usize) {
        let Shape { drives, survives, to, .. } = *self.shape;
        match (self.stage, to) {
            (Stage::InMigration, Some((_, more, then))) => (more, survives.min(then)),
            (Stage::JustMigrated, Some((_, more, then))) => (more, then),
            _ => (drives, survives),
        }
    }

    pub fn all_drives(&self) -> usize {
        match self.shape.to {
            Some((_, more, _)) if self.stage.is_moved() => more,
            _ => self.shape.drives,
        }
    }

    pub fn is_power_cut(&self) -> bool {
        matches!(self.end, End::PowerCut | End::PowerCutUnflushed)
    }

    /// Whether drives write slowly, to prolong an initialisation.
    pub fn is_slow(&self) -> bool {
        !self.stage.is_moved() && self.ground == Ground::Noise
    }

    /// Whether drives are servers of files: with volatile caches, or slow.
    pub fn has_servers(&self) -> bool {
        self.is_power_cut() || self.is_slow()
    }

    /// Whether hosts write whole stripes. Known limit: an unflushed whole stripe in an initialised
    /// area may be neither old nor new if the power fails and a drive is lost as well.
    pub fn writes_whole_stripes(&self) -> bool {
        self.end != End::PowerCutUnflushed
            || self.stage == Stage::New && self.ground == Ground::Noise
    }

    /// Whether a drive has a volatile cache.
    pub fn has_cache(&self, drive: usize) -> bool {
        match self.turn % 3 {
            _ if !self.is_power_cut() => false,
            0 => true,
            turn => drive % 2 == turn - 1,
        }
    }

    pub fn why(&self, lost: &[usize]) -> String {
        let Case { shape, ground, mode, stage, end, .. } = self;
        format!(
            "{} on {ground:?} drives, {mode}, {stage:?}, {end:?}, without {lost:?}",
            shape.level
        )
    }
}

/// All sets of `count` of the first `of` numbers.
pub fn sets(of: usize, count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let with_last = |last: usize| {
        sets(last, count - 1).into_iter().map(move |mut set| {
            set.push(last);
            set
        })
    };
    (count - 1..of).flat_map(with_last).collect()
}

pub fn is_long() -> bool {
    std::env::var("INITIALISATION_TESTS").is_ok_and(|which| which == "all")
}

/// The cases of a level, each with the sets of drives that are lost in turn.
pub fn cases(nth: usize, shape: &'static Shape) -> Vec<(Case, Vec<Vec<usize>>)> {
    let mut cases = Vec::new();
    for (stage_nth, stage) in STAGES.into_iter().enumerate() {
        if shape.to.is_none() && stage.is_moved() {
            continue;
        }
        let kth = 2 * nth + stage_nth / 2;
        for (end_nth, end) in ENDS.into_iter().enumerate() {
            for (ground_nth, ground) in GROUNDS.into_iter().enumerate() {
                for (mode_nth, mode) in MODES.into_iter().enumerate() {
                    let turn = nth + stage_nth + end_nth + ground_nth + mode_nth;
                    let sample = [(3 * nth + stage_nth / 2) % 4, (kth + 1) % 3, kth / 4 % 2];
                    let is_sample =
                        stage_nth % 2 == nth % 2 && sample == [end_nth, ground_nth, mode_nth];
                    // A volume is write-through during a migration.
                    let is_none = stage == Stage::InMigration && is_long() && mode == "write-back";
                    if is_none || !(is_long() || is_sample) {
                        continue;
                    }
                    let case = Case { shape, ground, mode, stage, end, turn };
                    let (drives, may_lose) = case.when_lost();
                    let all = sets(drives, may_lose);
                    let taken = match (is_long(), drives) {
                        (true, ..=5) => all,
                        (true, _) => all.iter().skip(turn % 5).step_by(5).cloned().collect(),
                        (false, _) => vec![all[turn * 7 % all.len()].clone()],
                    };
                    cases.push((case, taken));
                }
            }
        }
    }
    cases
}
