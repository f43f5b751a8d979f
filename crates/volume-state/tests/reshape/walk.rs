//! The walk through all reachable states of a setup.

use super::{Setup, State, start};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// A fast hash: there are many states, and none is hostile.
#[derive(Clone, Copy, Default)]
struct Quick(u64);

impl Hasher for Quick {
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

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
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

/// Predecessor and event of each state.
type Known = HashMap<u64, (u64, String), BuildHasherDefault<Quick>>;

struct Walk {
    known: Known,
    open: VecDeque<(State, u64)>,
}

impl Walk {
    fn add(&mut self, state: State, from: u64, label: impl FnOnce() -> String) {
        let hash = self.known.hasher().hash_one(&state);
        if let std::collections::hash_map::Entry::Vacant(entry) = self.known.entry(hash) {
            entry.insert((from, label()));
            self.open.push_back((state, hash));
        }
    }

    fn story(&self, setup: &Setup, mut at: u64, wrong: &str) -> String {
        let mut steps = Vec::new();
        while let Some((from, label)) = self.known.get(&at)
            && *from != at
        {
            steps.push(label);
            at = *from;
        }
        let mut story = format!("{setup:?}\n");
        for (number, label) in steps.iter().rev().enumerate() {
            let _ = writeln!(story, "{number:3}. {label}");
        }
        story + wrong
    }
}

/// Visits all states and returns their number.
///
/// # Errors
/// The shortest path to a violation.
pub(super) fn explore(setup: &Setup) -> Result<usize, String> {
    let mut walk = Walk { known: Known::default(), open: VecDeque::new() };
    walk.add(start(setup), 0, || "start".to_owned());
    let mut ends = 0;
    while let Some((state, hash)) = walk.open.pop_front() {
        state.look_now(setup).map_err(|wrong| walk.story(setup, hash, &wrong))?;
        if state.crashes > 0 {
            let left = state.crashes(setup).map_err(|wrong| walk.story(setup, hash, &wrong))?;
            for (label, state) in left {
                walk.add(state, hash, || label);
            }
        }
        let events = state.events(setup);
        if events.is_empty() {
            ends += 1;
            let is_over = state.mover.step().is_none() && state.put == setup.puts.len();
            let end = if is_over {
                state.look_at_end(setup)
            } else {
                Err("nothing can happen any more".into())
            };
            end.map_err(|wrong| walk.story(setup, hash, &wrong))?;
        }
        for event in events {
            let mut next = state.clone();
            next.take(setup, event)
                .map_err(|wrong| walk.story(setup, hash, &format!("{event:?}: {wrong}")))?;
            walk.add(next, hash, || format!("{event:?}"));
        }
    }
    assert!(ends > 0, "a final state exists");
    Ok(walk.known.len())
}
