//! Termination signals: the first requests a stop, a second one exits at once.
//!
//! SIGHUP (a closed terminal) also requests a stop, but is often sent several times: a repeated
//! SIGHUP does not exit at once. A process that was started with SIGHUP ignored (`nohup`) keeps
//! ignoring it.

use crate::failure::{Failure, Outcome};
use platform::mailbox;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn failed(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot watch for signals: {error}"))
}

/// Whether a process ignores SIGHUP, according to `/proc`.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

/// The signals that request a stop.
fn asking() -> Vec<i32> {
    let is_ignored =
        std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status));
    let hangup = (!is_ignored).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup).collect()
}

/// Sets `flag` at the first signal that requests a stop.
pub fn set_on_interrupt(flag: &Arc<AtomicBool>) -> Outcome {
    for signal in asking() {
        // Register in this order: the first signal finds the flag unset, and sets it.
        if signal != SIGHUP {
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())
                .map_err(failed)?;
        }
        signal_hook::flag::register(signal, flag.clone()).map_err(failed)?;
    }
    Ok(())
}

/// Sends a message at the first signal that requests a stop.
pub fn send_on_interrupt(ask_to_end: mailbox::Sender<()>) -> Outcome {
    let mut signals = Signals::new(asking()).map_err(failed)?;
    let watch = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked && signal != SIGHUP {
                std::process::exit(130);
            }
            asked |= signal != SIGHUP;
            // Without a receiver, the process is already stopping.
            let _ = ask_to_end.send(());
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ignores_hangup;

    #[test]
    fn a_signal_that_is_ignored_is_found_in_the_mask() {
        for (mask, is_ignored) in [
            ("0000000000000001", true),
            ("0000000000001001", true),
            ("0000000000001000", false),
            ("0000000000000002", false),
            ("none", false),
        ] {
            let status = format!("Name:\tsoftroc\nSigIgn:\t{mask}\nSigCgt:\t0000000000000001\n");
            assert_eq!(ignores_hangup(&status), is_ignored, "{mask}");
        }
        assert!(!ignores_hangup(""));
    }
}
