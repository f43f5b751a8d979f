//! The event log.

use crate::World;
use crate::ids::{self, MANAGER};
use crate::json::{collection, link, resource};
use crate::registry;
use crate::state::Health;
use controller::Event;
use serde_json::{Value, json};
use units::utc;

/// Maximum number of log entries.
const MOST: u64 = 1000;

/// Addresses below `LogServices`.
pub(crate) fn find(world: &World, segments: &[&str]) -> Option<Value> {
    let services = format!("{MANAGER}/LogServices");
    let uri = format!("{services}/Log");
    match segments {
        [] => Some(collection("LogServiceCollection", &services, "Log services", [uri])),
        ["Log"] => Some(resource(
            "LogService",
            &uri,
            "Log",
            "Events",
            json!({
                "ServiceEnabled": true,
                "LogEntryType": "Event",
                "OverWritePolicy": "WrapsWhenFull",
                "MaxNumberOfRecords": MOST,
                "DateTime": utc(world.now_unix_s),
                "DateTimeLocalOffset": "+00:00",
                "Status": { "State": "Enabled", "Health": "OK" },
                "Entries": link(format!("{uri}/Entries")),
            }),
        )),
        ["Log", "Entries"] => {
            let entries = format!("{uri}/Entries");
            let all = world.events.iter().map(|event| entry(world, &entries, event));
            let members: Vec<Value> = all.collect();
            let mut body =
                collection("LogEntryCollection", &entries, "Events", Vec::<String>::new());
            body["Members@odata.count"] = members.len().into();
            body["Members"] = members.into();
            Some(body)
        }
        ["Log", "Entries", id] => {
            let number: u64 = id.parse().ok()?;
            let event = world.events.iter().find(|event| event.number == number)?;
            Some(entry(world, &format!("{uri}/Entries"), event))
        }
        _ => None,
    }
}

fn entry(world: &World, entries: &str, event: &Event) -> Value {
    let id = event.number.to_string();
    let mut body = resource(
        "LogEntry",
        &format!("{entries}/{id}"),
        &id,
        &format!("Event {id}"),
        json!({
            "EntryType": "Event",
            "Created": utc(event.time_unix_s),
            "EventTimestamp": utc(event.time_unix_s),
            "Severity": Health::of_event(event.severity).name(),
            "Message": event.text,
            "MessageId": registry::message_id(&event.code),
            "MessageArgs": [event.text],
        }),
    );
    if let Some(origin) = origin(world, event) {
        body["Links"] = json!({ "OriginOfCondition": link(origin) });
    }
    body
}

/// The address of an event's subject.
pub(crate) fn origin(world: &World, event: &Event) -> Option<String> {
    let volume =
        world.volumes.iter().find(|volume| volume.name == event.subject).map(ids::volume_uri);
    let drive = || world.drives.iter().find(|drive| drive.name == event.subject);
    volume.or_else(|| drive().map(|drive| ids::drive_uri(&drive.name)))
}
