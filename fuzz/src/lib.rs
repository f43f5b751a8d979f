//! Hostile bytes for every decoder of what comes from outside: drives, connections, files of other programs.
//!
//! A [`Target`] takes an input, decodes it with the product's code and panics where a promise is broken. The same
//! definition serves the ordinary test (`tests/replay.rs`: the corpus, then a fixed number of mutations from a fixed
//! seed) and a coverage-guided engine (`src/bin/engine.rs`, started by `make fuzz`). The manual is
//! `docs/develop/fuzzing.md`.
//!
//! # What every target promises, whatever the input
//! - No panic, which in the test profile includes every overflow of arithmetic.
//! - No more memory at any time than [`Target::memory`]; the binaries use [`memory::Counting`] to hold it.
//! - An end. What would go on for ever is found by whoever runs the target: the engine by its time limit, the test by
//!   a watcher that names the input.
//! - What was decoded can be written, and read again as the same.
//!
//! Checksums do not protect a decoder from a fuzzer: inputs can ask for theirs to be put right ([`drives`], `ours`).

pub mod drives;
pub mod memory;
pub mod mutate;
mod targets;

pub use targets::{command_lines, journals, redfish_requests};

use units::ByteCount;

/// A decoder, or several that belong together, with what is promised of them.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name; that of its folder of inputs too.
    pub name: &'static str,
    /// Decodes an input; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// The most memory that one input may take at a time.
    pub memory: ByteCount,
    /// Words that its inputs are made of, for the mutations.
    pub words: &'static [&'static str],
    /// The longest input that is tried, in bytes.
    pub longest: usize,
    /// How many mutations the test tries: some seconds' worth in all.
    pub test_runs: u32,
}

impl Target {
    /// Runs one input, and holds the promise about memory: if the binary has the allocator that counts.
    pub fn check(&self, input: &[u8]) {
        let before = memory::in_use();
        memory::forget_peak();
        (self.run)(input);
        let most = memory::peak().saturating_sub(before);
        assert!(
            most <= self.memory.0,
            "{}: an input of {} bytes took {most} bytes of memory at a time; {} are allowed",
            self.name,
            input.len(),
            self.memory.0
        );
    }
}

/// All targets.
pub const TARGETS: &[Target] = targets::ALL;

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
