//! Events for subscribers.

use crate::ids::ROOT;
use crate::json::{collection, link, resource};
use crate::log::origin;
use crate::registry;
use crate::schema::type_of;
use crate::state::Health;
use crate::{Subscription, World};
use controller::Event;
use serde_json::{Value, json};
use units::utc;

/// The address of the event stream.
pub(crate) const STREAM: &str = "/redfish/v1/EventService/SSE";

/// The address of the subscriptions.
const SUBSCRIPTIONS: &str = "/redfish/v1/EventService/Subscriptions";

/// The number of retries of a failed delivery, and the interval in seconds.
pub const RETRIES: (u32, u64) = (3, 5);

/// The address of a subscription.
pub(crate) fn subscription_uri(id: &str) -> String {
    format!("{SUBSCRIPTIONS}/{id}")
}

/// Addresses below `EventService`.
pub(crate) fn find(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => Some(service()),
        ["Subscriptions"] | ["Subscriptions", "Members"] => {
            let all = world.subscriptions.iter().map(|one| subscription_uri(&one.id));
            Some(collection("EventDestinationCollection", SUBSCRIPTIONS, "Subscriptions", all))
        }
        ["Subscriptions", id] => {
            world.subscriptions.iter().find(|one| one.id == *id).map(subscription)
        }
        _ => None,
    }
}

fn service() -> Value {
    let uri = format!("{ROOT}/EventService");
    let (attempts, interval_s) = RETRIES;
    resource(
        "EventService",
        &uri,
        "EventService",
        "Events",
        json!({
            "ServiceEnabled": true,
            "Status": { "State": "Enabled", "Health": "OK" },
            "ServerSentEventUri": STREAM,
            "Subscriptions": link(SUBSCRIPTIONS),
            "DeliveryRetryAttempts": attempts,
            "DeliveryRetryIntervalSeconds": interval_s,
            "EventFormatTypes": ["Event"],
            "RegistryPrefixes": ["SoftROC"],
            "IncludeOriginOfConditionSupported": false,
            "SSEFilterPropertiesSupported": {},
        }),
    )
}

/// A subscription.
fn subscription(one: &Subscription) -> Value {
    let more = json!({
        "Destination": one.destination,
        "Context": one.context,
        "Protocol": "Redfish",
        "SubscriptionType": "RedfishEvent",
        "EventFormatType": "Event",
        "VerifyCertificate": one.verify_certificate,
        "Status": { "State": "Enabled", "Health": "OK" },
    });
    resource(
        "EventDestination",
        &subscription_uri(&one.id),
        &one.id,
        &format!("Subscription {}", one.id),
        more,
    )
}

/// An event as it is sent.
pub fn sent(world: &World, event: &Event) -> Value {
    let id = event.number.to_string();
    let mut record = json!({
        "EventId": id,
        "MemberId": "0",
        "EventTimestamp": utc(event.time_unix_s),
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
