//! What the tests with seeds have in common.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::ops::Range;
use torture::Summary;

/// The machine has at least two processors; further threads would only slow down the others.
pub const THREADS: usize = 2;

/// Whether `TORTURE_TESTS=all` asks for all seeds. The gate runs the first ones of each kind: other
/// seeds belong to `make test-long` and `make evidence`.
pub fn is_long() -> bool {
    std::env::var_os("TORTURE_TESTS").is_some_and(|all| all == "all")
}

/// The seeds of a test: `few` in the gate, `all` with `TORTURE_TESTS=all`.
pub fn seeds(first: u64, few: u64, all: u64) -> Range<u64> {
    first..first + if is_long() { all } else { few }
}

/// A bound on what all seeds of a test have; in the gate a single one is enough.
pub fn least(of_all: u64) -> u64 {
    if is_long() { of_all } else { of_all.min(1) }
}

pub fn assert_fine(summary: &Summary) {
    if let Some(failed) = summary.failed.first() {
        let story = failed.error.story.join("\n");
        panic!("{story}\n{}\nreplay it: torture --seed {} --trace", failed.error, failed.seed);
    }
}
