//! Signals: asking a process to end. The first asks, a second one ends it at once.

use crate::failure::{Failure, Outcome};
use env::mailbox;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn failed(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot watch for signals: {error}"))
}

/// Sets `flag` at the first SIGINT or SIGTERM.
pub fn set_on_interrupt(flag: &Arc<AtomicBool>) -> Outcome {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset, and sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone()).map_err(failed)?;
        signal_hook::flag::register(signal, flag.clone()).map_err(failed)?;
    }
    Ok(())
}

/// Sends a message at the first SIGINT or SIGTERM.
pub fn send_on_interrupt(ask_to_end: mailbox::Sender<()>) -> Outcome {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let watch = move || {
        let mut asked = false;
        for _ in signals.forever() {
            if asked {
                std::process::exit(130);
            }
            asked = true;
            // If nobody takes it, the process ends already.
            let _ = ask_to_end.send(());
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
    Ok(())
}
