//! Hostile bytes for every decoder of external input: drives, connections, files of other programs.
//!
//! A [`Target`] decodes an input with the product's code, and panics where a guarantee is broken.
//! The same definition serves the ordinary test (`tests/replay.rs`: the corpus, then a fixed number
//! of mutations from a fixed seed) and a coverage-guided engine (`src/bin/engine.rs`, started by
//! `make fuzz`). The manual is `docs/develop/fuzzing.md`.
//!
//! # Guarantees of every target, for any input
//! - No panic, which in the test profile includes every overflow of arithmetic.
//! - No more memory at any time than [`Target::memory`]; the binaries use [`memory::Counting`] to
//!   check.
//! - Termination. The engine detects endless loops by its time limit, the test by a watcher that
//!   names the input.
//! - Decoded content can be encoded, and decodes to the same.
//!
//! Checksums do not stop the fuzzer: inputs can request that they are corrected ([`drives`],
//! `ours`).

pub mod drives;
pub mod memory;
pub mod mutate;
mod targets;

pub use targets::{command_lines, journals, redfish_requests};

use units::ByteCount;

/// A decoder, or several related ones, with its limits.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder of inputs.
    pub name: &'static str,
    /// Decodes an input; panics where a guarantee is broken.
    pub run: fn(&[u8]),
    /// The most memory that one input may use at any time.
    pub memory: ByteCount,
    /// Words of its inputs, for the mutations.
    pub words: &'static [&'static str],
    /// The longest input, in bytes.
    pub longest: usize,
    /// The number of mutations in the test: some seconds in all.
    pub test_runs: u32,
}

impl Target {
    /// Runs one input, and checks its use of memory, if the binary has the counting allocator.
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
