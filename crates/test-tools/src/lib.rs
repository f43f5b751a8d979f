//! Reports tests that did not run.
//!
//! `make test` installs the programs that tests use. Without permission or network it cannot, and
//! these tests are skipped with a line `SKIPPED …`. `SOFTROC_STRICT=1` turns a missing program into
//! a failure; CI sets it. A test that the machine cannot run (root, a kernel module) is skipped in
//! both cases.

use std::ffi::OsStr;
use std::io::Write;

/// The environment variable that turns missing programs into failures.
pub const STRICT: &str = "SOFTROC_STRICT";

/// Reports that a test did not run because a program is missing that `make test` installs.
///
/// # Panics
/// With `SOFTROC_STRICT=1`.
pub fn not_installed(what: &str) {
    let strict = std::env::var_os(STRICT);
    assert!(
        !is_strict(strict.as_deref()),
        "{what} is not installed. Run 'make test', or unset {STRICT} to skip the test."
    );
    report(what, "not installed ('make test' installs it where it may)");
}

/// Reports that a test did not run on this machine, or was not asked for.
pub fn not_possible(what: &str, why: &str) {
    report(what, why);
}

/// Whether a program is installed.
///
/// # Panics
/// If it is not, with `SOFTROC_STRICT=1`.
pub fn have(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|path| path.join(program).is_file());
    if !found {
        not_installed(program);
    }
    found
}

fn is_strict(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

/// Standard error: the test runner hides what passing tests print to standard output.
fn report(what: &str, why: &str) {
    // A test may run without standard error.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_nothing_are_not_strict() {
        assert!(is_strict(Some(OsStr::new("1"))));
        for value in [None, Some(""), Some("0")] {
            assert!(!is_strict(value.map(OsStr::new)), "{value:?}");
        }
    }
}
