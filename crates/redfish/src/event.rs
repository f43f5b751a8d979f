//! Events as they are sent.

use crate::World;
use crate::ids::ROOT;
use crate::json::resource;
use crate::log::origin;
use crate::schema::type_of;
use crate::state::Health;
use crate::{registry, time};
use controller::Event;
use serde_json::{Value, json};

/// Where events are streamed.
pub(crate) const STREAM: &str = "/redfish/v1/EventService/SSE";

/// `EventService`.
pub(crate) fn find(segments: &[&str]) -> Option<Value> {
    let uri = format!("{ROOT}/EventService");
    segments.is_empty().then(|| {
        resource(
            "EventService",
            &uri,
            "EventService",
            "Events",
            json!({
                "ServiceEnabled": true,
                "Status": { "State": "Enabled", "Health": "OK" },
                "ServerSentEventUri": STREAM,
                "EventFormatTypes": ["Event"],
                "RegistryPrefixes": ["SoftROC"],
                "IncludeOriginOfConditionSupported": false,
                "SSEFilterPropertiesSupported": {},
            }),
        )
    })
}

/// An event as those who wait for events get it.
pub fn sent(world: &World, event: &Event) -> Value {
    let id = event.number.to_string();
    let mut record = json!({
        "EventId": id,
        "MemberId": "0",
        "EventTimestamp": time::of(event.time_unix_s),
        "EventType": "Alert",
        "MessageId": registry::message_id(&event.code),
        "MessageArgs": [event.text],
        "Message": event.text,
        "MessageSeverity": Health::of_event(event.severity).name(),
    });
    if let Some(origin) = origin(world, event) {
        record["OriginOfCondition"] = json!({ "@odata.id": origin });
    }
    json!({
        "@odata.type": type_of("Event"),
        "Id": id,
        "Name": "Event",
        "Events@odata.count": 1,
        "Events": [record],
    })
}
