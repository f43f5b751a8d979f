//! `/cN show events`.

use crate::Machine;
use crate::answer::{Answer, Data};
use crate::codes::{class, locale, of_event};
use crate::forms::Moment;
use crate::tree::{Column, Pairs, Table, Value, left, number, text};
use crate::words::Word;
use controller::{Command, Event, Reply};
use std::fmt::Write as _;

/// The selected events.
#[derive(Default)]
struct Wanted {
    /// Since the last start.
    since_start: bool,
    /// Since the last shutdown.
    since_shutdown: bool,
    latest: Option<usize>,
    /// Only these classes.
    classes: Option<Vec<i64>>,
    file: Option<String>,
}

/// `show events [type=...] [filter=...] [file=...]`.
pub(super) fn answer(words: &[Word], machine: &mut dyn Machine) -> Answer {
    let wanted = match read(words) {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    let events = match machine.ask(&Command::EventsList { last: None, about: None }) {
        Ok(Reply::Events { events }) => chosen(events, &wanted),
        Ok(_) => return Answer::failed("the controller sent an unexpected reply; see its log"),
        Err(error) => return Answer::error("Events", &error),
    };
    let told = blocks(&events);
    if let Some(file) = wanted.file {
        return match machine.write(&file, &told) {
            Ok(()) => Answer::done(format!("Events are written to {file}.")),
            Err(why) => Answer::refused("Events", why, crate::answer::OTHER),
        };
    }
    Answer { data: Data::Told(data(&events), told), ..Answer::done("None") }
}

fn read(words: &[Word]) -> Result<Wanted, Answer> {
    let mut wanted = Wanted::default();
    for word in words {
        let value = word.low();
        match (word.key.as_str(), value.as_str()) {
            ("type", "sincereboot") => wanted.since_start = true,
            ("type", "sinceshutdown") => wanted.since_shutdown = true,
            // Events are never deleted, so there are no further ones.
            ("type", "includedeleted") => {}
            ("type", value) => {
                let latest = value.strip_prefix("latest=").and_then(|count| count.parse().ok());
                wanted.latest = Some(latest.ok_or_else(Answer::unsupported)?);
            }
            ("filter", value) => {
                let class = |name: &str| match name {
                    "info" => Ok(0),
                    "warning" => Ok(1),
                    "critical" => Ok(2),
                    "fatal" => Ok(3),
                    _ => Err(Answer::syntax(&format!("filter '{name}'"))),
                };
                wanted.classes = Some(value.split(',').map(class).collect::<Result<_, _>>()?);
            }
            ("file", value) if !value.is_empty() => wanted.file = word.value.clone(),
            _ => return Err(Answer::unsupported()),
        }
    }
    Ok(wanted)
}

fn chosen(events: Vec<Event>, wanted: &Wanted) -> Vec<Event> {
    let last = |code: &str| events.iter().rposition(|event| event.code == code);
    let from = match wanted {
        Wanted { since_start: true, .. } => last("controller.started").unwrap_or(0),
        Wanted { since_shutdown: true, .. } => last("controller.stopped").unwrap_or(0),
        _ => 0,
    };
    let is_meant = |event: &Event| {
        wanted.classes.as_ref().is_none_or(|classes| classes.contains(&class(event.severity)))
    };
    let events: Vec<Event> = events.into_iter().skip(from).filter(is_meant).collect();
    let skip = events.len().saturating_sub(wanted.latest.unwrap_or(usize::MAX));
    events.into_iter().skip(skip).collect()
}

/// The event's fields besides its sentence, one line each.
fn facts(event: &Event) -> Vec<(&'static str, String)> {
    let by = event.by.as_ref().map(ToString::to_string);
    [
        ("Event", Some(event.code.clone()).filter(|code| !code.is_empty())),
        ("Subject", Some(event.subject.clone())),
        ("Cause", Some(event.cause.clone())),
        ("Effect", Some(event.effect.clone())),
        ("By", by),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
    .collect()
}

fn blocks(events: &[Event]) -> String {
    let one_line = |text: &str| text.replace(['\n', '\r'], " ");
    let mut out = String::from("\n");
    for event in events {
        let time = Moment::of(event.time_unix_s).ctime();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "seqNum: 0x{:08x}\nTime: {time}\n\nCode: 0x{:08x}\nClass: {}\nLocale: 0x{:02x}\n\
             Event Description: {}\nEvent Data:\n===========\n",
            event.number,
            of_event(&event.code),
            class(event.severity),
            locale(event),
            one_line(&event.text)
        );
        let facts = facts(event);
        if facts.is_empty() {
            out.push_str("None\n");
        }
        for (name, value) in facts {
            let _ = writeln!(out, "{name}: {}", one_line(&value));
        }
        out.push_str("\n\n");
    }
    out
}

const COLUMNS: &[Column] = &[
    left("seqNum"),
    left("Time"),
    left("Code"),
    left("Class"),
    left("Locale"),
    left("Event Description"),
    left("Event Data"),
];

fn data(events: &[Event]) -> Pairs {
    let row = |event: &Event| {
        let facts =
            facts(event).into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect();
        vec![
            text(format!("0x{:08x}", event.number)),
            text(Moment::of(event.time_unix_s).ctime()),
            text(format!("0x{:08x}", of_event(&event.code))),
            number(class(event.severity)),
            text(format!("0x{:02x}", locale(event))),
            text(&event.text),
            Value::Pairs(facts),
        ]
    };
    vec![("Events".into(), Value::Table(Table::new(COLUMNS, events.iter().map(row).collect())))]
}
