//! `softroc events --follow`: new events, across restarts of the controller.

use super::Control;
use crate::failure::{Failure, Outcome};
use crate::{output, render, signals};
use controller::{Command, Event, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time of one wait for the controller, in seconds.
const WAIT_S: u64 = 1;

/// Shows the newest `last` events, then each new one, until Ctrl-C.
pub fn events(control: &Control, last: usize, json: bool) -> Outcome {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&interrupted)?;
    let newest = control.ask(&Command::EventsList { last: Some(last.max(1)), about: None });
    let newest = list(newest?)?;
    let mut seen = newest.last().map_or(0, |event| event.number);
    show(&newest[newest.len().saturating_sub(last)..], json)?;
    let mut is_gone = false;
    while !interrupted.load(Ordering::Relaxed) {
        match control_api::client::events_after(&control.place, seen, WAIT_S) {
            Ok(reply) => {
                is_gone = false;
                let events = list(reply)?;
                seen = events.last().map_or(seen, |event| event.number);
                show(&events, json)?;
            }
            Err(error) => {
                if !is_gone {
                    output::say(&format!("softroc: {}; waiting for it", Failure::from(error)));
                }
                is_gone = true;
                std::thread::sleep(Duration::from_secs(WAIT_S));
            }
        }
    }
    Ok(())
}

fn list(reply: Reply) -> Outcome<Vec<Event>> {
    match reply {
        Reply::Events { events } => Ok(events),
        _ => Err(Failure::failed("the controller's answer is not a list of events")),
    }
}

fn show(events: &[Event], json: bool) -> Outcome {
    match (events, json) {
        ([], _) => Ok(()),
        (events, true) => events.iter().try_for_each(output::json_line),
        (events, false) => output::print(&render::events(events)),
    }
}
