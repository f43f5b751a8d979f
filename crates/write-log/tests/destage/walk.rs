//! Walks through all states of a setup, and through all states after a crash.

use super::crash::CrashState;
use super::drive::{bits, cuts};
use super::steps::Step;
use super::{Setup, start};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// The step that led to a state.
#[derive(Clone, Copy)]
pub(super) enum Label {
    Start,
    Step(Step),
    /// The offline drives, by bit; whether power was cut.
    Crash(u8, bool),
    Replay(&'static str, usize),
}

impl Label {
    fn line(self) -> String {
        match self {
            Label::Start => "start".to_owned(),
            Label::Step(step) => format!("{step:?}"),
            Label::Crash(lost, is_cut) => {
                let what = if is_cut { "power cut" } else { "kill" };
                format!("{what}, drives out: {:?}", bits(lost).collect::<Vec<usize>>())
            }
            Label::Replay(what, which) => format!("replay: {what} ({which}), crash"),
        }
    }
}

/// A fast hash: there are many states, and none comes from an attacker.
#[derive(Clone, Copy, Default)]
struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

type BuildFastHasher = BuildHasherDefault<FastHasher>;

/// All states so far, with their predecessor and step.
pub(super) struct Walk {
    known: HashMap<u64, (u64, Label), BuildFastHasher>,
    left: VecDeque<(CrashState, u64)>,
    from: u64,
}

/// The number of states.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    pub(super) running: usize,
    pub(super) crashed: usize,
}

impl Walk {
    fn hash(&self, of: impl Hash) -> u64 {
        self.known.hasher().hash_one(of)
    }

    fn is_new(&mut self, hash: u64, label: Label) -> bool {
        let from = self.from;
        let mut is_new = false;
        self.known.entry(hash).or_insert_with(|| {
            is_new = true;
            (from, label)
        });
        is_new
    }

    /// Adds a state after a crash, with the effects of a power cut.
    pub(super) fn crashed(&mut self, left: CrashState, is_cut: bool, label: Label) {
        let hash = self.hash((&left, is_cut));
        if !self.is_new(hash, label) {
            return;
        }
        let ways = if is_cut { cuts(&left.cells) } else { vec![left.cells] };
        for cells in ways {
            let left = CrashState { cells, ..left.clone() };
            let hash = self.hash(&left);
            if self.is_new(hash, label) {
                self.left.push_back((left, hash));
            }
        }
    }

    fn story(&self, setup: &Setup, last: &CrashState, mut at: u64, wrong: &str) -> String {
        let mut steps = Vec::new();
        while let Some((from, label)) = self.known.get(&at)
            && *from != at
        {
            steps.push(label);
            at = *from;
        }
        let mut story = format!("{setup:?}\n");
        for (number, label) in steps.iter().rev().enumerate() {
            let _ = writeln!(story, "{number:3}. {}", label.line());
        }
        let _ = write!(story, "{last:?}\n{wrong}");
        story
    }
}

/// Visits all states.
///
/// # Errors
/// The shortest path to a failure.
pub(super) fn explore(setup: &Setup) -> Result<Counts, String> {
    let mut walk = Walk { known: HashMap::default(), left: VecDeque::new(), from: 0 };
    let mut counts = Counts::default();
    let first = start(setup);
    let hash = walk.hash(&first);
    walk.from = hash;
    walk.is_new(hash, Label::Start);
    let mut open = VecDeque::from([(first, hash)]);
    while let Some((state, hash)) = open.pop_front() {
        counts.running += 1;
        walk.from = hash;
        let rest = walk.hash(state.rest());
        if walk.is_new(rest, Label::Start) {
            state.crash(setup, &mut walk);
        }
        while let Some((left, hash)) = walk.left.pop_front() {
            counts.crashed += 1;
            walk.from = hash;
            if let Some(wrong) = left.clone().replay(setup, &mut walk) {
                return Err(walk.story(setup, &left, hash, &wrong));
            }
        }
        walk.from = hash;
        let steps = state.steps(setup);
        if steps.is_empty() && state.is_stuck(setup) {
            return Err(format!(
                "{setup:?}\nnothing can happen, and records count that nothing keeps: {state:?}"
            ));
        }
        for step in steps {
            let mut next = state.clone();
            next.take(setup, step);
            let hash = walk.hash(&next);
            if walk.is_new(hash, Label::Step(step)) {
                open.push_back((next, hash));
            }
        }
    }
    Ok(counts)
}
