//! The events page, and the export of events.

use crate::World;
use crate::lists::EventList;
use crate::page::Part;
use crate::words::Query;
use askama::Template;
use controller::{Event, Severity};
use units::counted;

/// Maximum number of events on the page.
const SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "events-page.html")]
struct Head<'q> {
    words: &'q str,
    severities: Vec<(&'static str, &'static str, bool)>,
    address: String,
}

#[derive(Template)]
#[template(path = "events-found.html")]
struct Found {
    sentence: String,
    list: EventList,
}

/// The filter of the page.
struct Filter<'q> {
    least: Severity,
    words: &'q str,
}

impl Filter<'_> {
    fn of(query: &Query) -> Filter<'_> {
        let least = match query.get("severity") {
            Some("warning") => Severity::Warning,
            Some("critical") => Severity::Critical,
            Some("fatal") => Severity::Fatal,
            _ => Severity::Info,
        };
        Filter { least, words: query.get("words").unwrap_or_default().trim() }
    }

    fn takes(&self, event: &Event) -> bool {
        let words = self.words.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&words);
        event.severity >= self.least
            && (has(&event.text) || has(&event.code) || has(&event.subject) || has(&event.cause))
    }
}

pub(crate) fn parts(world: &World, query: &Query) -> Vec<Part> {
    let filter = Filter::of(query);
    let chosen = |least| filter.least == least;
    let head = Head {
        words: filter.words,
        severities: vec![
            ("info", "all", chosen(Severity::Info)),
            ("warning", "warning and worse", chosen(Severity::Warning)),
            ("critical", "critical and worse", chosen(Severity::Critical)),
            ("fatal", "fatal", chosen(Severity::Fatal)),
        ],
        address: query.to_address(),
    };
    let list = EventList::of(world, SHOWN, |event| filter.takes(event));
    let sentence = format!("{}, newest first.", counted(list.len(), "event"));
    vec![Part::new("filter", &head), Part::new("events", &Found { sentence, list })]
}

/// An export format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Export {
    /// CSV, for spreadsheets.
    Csv,
    /// A JSON array in the format of the control socket.
    Json,
}

/// All events that match the page's query, oldest first.
///
/// # Errors
/// When JSON serialization fails.
pub fn export(world: &World, query: &Query, export: Export) -> controller::Result<String> {
    let filter = Filter::of(query);
    let events: Vec<&Event> = world.events.iter().filter(|event| filter.takes(event)).collect();
    match export {
        Export::Json => serde_json::to_string_pretty(&events).map_err(|error| {
            controller::Error::new(
                controller::ErrorKind::Failed,
                format!("the export of events failed: {error}"),
            )
        }),
        Export::Csv => {
            let mut text =
                "number,time,severity,code,subject,cause,effect,text,count\r\n".to_owned();
            for event in events {
                let (number, severity) = (event.number.to_string(), event.severity.to_string());
                let count = event.count.to_string();
                let time = units::utc(event.time_unix_s);
                let fields = [
                    &number,
                    &time,
                    &severity,
                    &event.code,
                    &event.subject,
                    &event.cause,
                    &event.effect,
                    &event.text,
                    &count,
                ];
                text.push_str(&fields.map(|field| csv_field(field)).join(","));
                text.push_str("\r\n");
            }
            Ok(text)
        }
    }
}

/// A field in RFC 4180 syntax. A leading apostrophe disables spreadsheet formulas.
fn csv_field(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::csv_field;

    #[test]
    fn a_field_is_no_formula_and_ends_where_it_ends() {
        assert_eq!(csv_field("a \"b\", c\n"), "\"a \"\"b\"\", c\n\"");
        assert_eq!(csv_field("=cmd()"), "\"'=cmd()\"");
    }
}
