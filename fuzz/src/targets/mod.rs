//! The targets, by their input.

mod connections;
mod metadata;
mod ours;
mod redfish;
mod storcli;
mod texts;

use crate::Target;
use units::ByteCount;

const MIB: u64 = 1 << 20;

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, memory: ByteCount(32 * MIB), words: &[], longest: 4096, test_runs: 100_000 }
}

/// Seed inputs of the target of StorCLI.
pub use self::storcli::command_lines;
/// Seed inputs of the journal's target.
pub use ours::journals;
/// Seed inputs of Redfish's target.
pub use redfish::redfish as redfish_requests;

pub(crate) const ALL: &[Target] = &[
    // Sections have up to 8 MiB; two copies of them are in memory, for each of a few drives, as
    // bytes and decoded.
    Target {
        memory: ByteCount(384 * MIB),
        longest: 48 << 10,
        test_runs: 2_000,
        ..target("ddf", metadata::ddf)
    },
    Target {
        memory: ByteCount(96 * MIB),
        longest: 24 << 10,
        test_runs: 30_000,
        ..target("foreign", metadata::foreign)
    },
    Target { longest: 16 << 10, ..target("partitions", metadata::partition_tables) },
    Target { longest: 8192, ..target("signatures", metadata::signatures) },
    Target {
        longest: 16 << 10,
        words: texts::LABEL,
        test_runs: 50_000,
        ..target("label", ours::label)
    },
    Target {
        longest: 8192,
        words: texts::LOG_DEVICE,
        test_runs: 30_000,
        ..target("log-device", ours::log_device)
    },
    Target { longest: 24 << 10, test_runs: 25_000, ..target("intent", ours::intent) },
    Target { longest: 12 << 10, test_runs: 25_000, ..target("journal", ours::journal) },
    Target { test_runs: 50_000, ..target("nbd-server", connections::server) },
    Target { test_runs: 50_000, ..target("nbd-client", connections::client) },
    Target { test_runs: 50_000, ..target("guest-queue", connections::guest) },
    Target {
        words: texts::ADDRESS,
        longest: 256,
        test_runs: 150_000,
        ..target("words", texts::words)
    },
    Target {
        words: storcli::WORDS,
        longest: 256,
        test_runs: 20_000,
        ..target("storcli", storcli::command_line)
    },
    Target { words: texts::FIO, test_runs: 40_000, ..target("fio", texts::fio) },
    Target { words: texts::ICF, test_runs: 40_000, ..target("icf", texts::icf) },
    Target { words: texts::CATALOG, test_runs: 20_000, ..target("catalog", texts::catalog) },
    Target {
        words: texts::PROFILE,
        longest: 256,
        test_runs: 100_000,
        ..target("profile", texts::profile)
    },
    Target {
        longest: 16 << 10,
        words: texts::RESULTS,
        test_runs: 7_500,
        ..target("results", texts::results)
    },
    // All state behind the resources is created again for each input.
    Target {
        memory: ByteCount(64 * MIB),
        words: redfish::WORDS,
        test_runs: 15_000,
        ..target("redfish", redfish::request)
    },
];
