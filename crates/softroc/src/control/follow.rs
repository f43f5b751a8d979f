//! `softroc events --follow`: events as they come, over restarts of the controller.

use super::Control;
use crate::failure::{Failure, Outcome};
use crate::{output, render, signals};
use controller::{Command, Event, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the controller is asked.
const LOOK: Duration = Duration::from_millis(500);

/// Shows the newest `last` events, then each one that comes, until somebody presses Ctrl-C.
pub fn events(control: &Control, last: usize, json: bool) -> Outcome {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&interrupted)?;
    let newest = ask(control, last.max(1))?;
    let mut seen = Seen { number: newest.last().map_or(0, |event| event.number) };
    show(&newest[newest.len().saturating_sub(last)..], json)?;
    let mut is_gone = false;
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        match news(control, &mut seen) {
            Ok(events) => {
                is_gone = false;
                show(&events, json)?;
            }
            Err(failure) if !is_gone => {
                eprintln!("softroc: {failure}; waiting for it");
                is_gone = true;
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// What came since.
fn news(control: &Control, seen: &mut Seen) -> Outcome<Vec<Event>> {
    let newest = ask(control, 1)?;
    match seen.behind(newest.last().map_or(0, |event| event.number)) {
        0 => Ok(Vec::new()),
        behind => Ok(seen.take(ask(control, behind)?)),
    }
}

fn ask(control: &Control, last: usize) -> Outcome<Vec<Event>> {
    match control.ask(&Command::EventsList { last: Some(last) })? {
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

/// The number of the newest event that was shown.
struct Seen {
    number: u64,
}

impl Seen {
    /// How many events there may be to show, if this is the number of the newest. Where the numbers began again, since
    /// the file of events was removed, everything is new.
    fn behind(&mut self, newest: u64) -> usize {
        if newest < self.number {
            self.number = 0;
        }
        usize::try_from(newest - self.number).unwrap_or(usize::MAX)
    }

    /// Those of these events that were not shown yet, and are now.
    fn take(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        events.retain(|event| event.number > self.number);
        self.number = events.last().map_or(self.number, |event| event.number);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::Severity;

    fn event(number: u64) -> Event {
        Event {
            number,
            time_unix_s: 0,
            code: String::new(),
            severity: Severity::Info,
            subject: String::new(),
            cause: String::new(),
            effect: String::new(),
            text: String::new(),
            by: None,
        }
    }

    #[test]
    fn each_event_is_shown_once_also_where_numbers_are_left_out_or_begin_again() {
        let mut seen = Seen { number: 7 };
        let mut shown = |newest: u64, there: &[u64]| -> Vec<u64> {
            let behind = seen.behind(newest);
            let given = there[there.len().saturating_sub(behind)..].iter().map(|number| event(*number));
            seen.take(given.collect()).iter().map(|event| event.number).collect()
        };
        let nothing: [u64; 0] = [];
        assert_eq!(shown(7, &[5, 6, 7]), nothing);
        assert_eq!(shown(9, &[6, 7, 8, 9]), [8, 9]);
        assert_eq!(shown(1009, &[8, 9, 1009]), [1009], "after a crash the numbers go on further up");
        assert_eq!(shown(2, &[1, 2]), [1, 2], "the file was removed");
        assert_eq!(shown(2, &[1, 2]), nothing);
    }
}
