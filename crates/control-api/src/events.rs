//! Events as they come, over HTTP: server-sent events, and events that are sent to subscriptions of Redfish.
//!
//! **Invariants.** Every consumer follows the controller's feed of events, from the number that it has seen, and asks the
//! controller nothing for it: a busy controller ends no consumer and delays none. What a consumer was too slow for is one event
//! of the code `events.left-out`. The names of resources in an event are asked for; where they are not known, the event is sent
//! without its origin.

use crate::deliver::{Parcel, deliver};
use crate::desk::Desk;
use crate::redfish_routes::world_of_events;
use crate::supervise::supervise;
use crate::tls;
use access::{Action, Caller};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use controller::Event;
use http_body_util::channel::Channel;
use redfish::Subscription;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How often it is looked whether a consumer is still wanted.
const LOOK: Duration = Duration::from_millis(500);

/// A stream on which nothing happens says that it is there.
const ALIVE: Duration = Duration::from_secs(30);

/// Pieces that wait for a client to take them.
const WAITING: usize = 16;

/// A stream of events: those after the one that the client has seen, or those that come from now on. It ends with the client, and when
/// the account or its session does.
pub(crate) fn stream(desk: &Desk, caller: Caller, headers: &HeaderMap) -> Response {
    let (sender, body) = Channel::<Bytes>::new(WAITING);
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    tokio::spawn(follow(desk.clone(), caller, seen, sender));
    let mut response = Response::new(Body::new(body));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn follow(
    desk: Desk,
    caller: Caller,
    seen: Option<u64>,
    mut sender: http_body_util::channel::Sender<Bytes>,
) {
    let feed = desk.controller.events();
    let newest = feed.begun().await;
    let mut events = feed.subscribe(seen.unwrap_or(newest));
    let mut said = Instant::now();
    // So that a client knows at once that it is connected.
    let mut text = ": connected\n\n".to_owned();
    loop {
        if !text.is_empty() {
            if sender.send_data(Bytes::from(std::mem::take(&mut text))).await.is_err() {
                return;
            }
            said = Instant::now();
        }
        let news = timeout(LOOK, events.next()).await;
        if !desk.keeper.is_still(&caller) || caller.may(Action::EventsList).is_err() {
            return;
        }
        match news {
            Ok(None) => return,
            Ok(Some(events)) => {
                let world = world_of_events(&desk).await;
                for event in &events {
                    let sent = redfish::sent(&world, event);
                    text.push_str(&format!("id: {}\ndata: {sent}\n\n", event.number));
                }
            }
            Err(_) if said.elapsed() >= ALIVE => text.push_str(": alive\n\n"),
            Err(_) => {}
        }
    }
}

/// Begins to send events to a subscription, until it is there no more.
pub(crate) fn push(desk: &Desk, subscription: &Subscription) {
    let seen = Arc::new(OnceLock::new());
    let (desk, id) = (desk.clone(), subscription.id.clone());
    supervise("the sender of events", move || pushed(desk.clone(), id.clone(), seen.clone()));
}

async fn pushed(desk: Desk, id: String, seen: Arc<OnceLock<AtomicU64>>) {
    let newest = desk.controller.events().begun().await;
    let seen = seen.get_or_init(|| AtomicU64::new(newest));
    let mut events = desk.controller.events().subscribe(seen.load(Ordering::Relaxed));
    loop {
        let news = timeout(LOOK, events.next()).await;
        if desk.subscriptions.get(&id).is_none() {
            return;
        }
        match news {
            Ok(None) => return,
            Ok(Some(events)) => {
                for event in &events {
                    let Some(subscription) = desk.subscriptions.get(&id) else { return };
                    seen.store(event.number, Ordering::Relaxed);
                    send(&desk, &subscription, event).await;
                }
            }
            Err(_) => {}
        }
    }
}

/// Sends an event, several times if need be.
async fn send(desk: &Desk, subscription: &Subscription, event: &Event) {
    let mut body = redfish::sent(&world_of_events(desk).await, event);
    body["Context"] = subscription.context.as_str().into();
    let (attempts, interval_s) = redfish::RETRIES;
    let authorities = tls::authorities();
    let (tls, trust): (tls::Making, &str) = match subscription.verify_certificate {
        true => (tls::vouched_for, &authorities),
        false => (|_| tls::anybody(), ""),
    };
    for attempt in 0..=attempts {
        let parcel = Parcel {
            destination: &subscription.destination,
            body: body.to_string(),
            headers: &[("odata-version", "4.0".to_owned())],
            tls,
            trust,
        };
        match deliver(parcel).await {
            Ok(()) => return,
            Err(why) if attempt == attempts => {
                let (number, id) = (event.number, &subscription.id);
                tracing::warn!(
                    "event {number} did not arrive at subscription {id}: {why}; the next one is tried"
                );
            }
            Err(_) => tokio::time::sleep(Duration::from_secs(interval_s)).await,
        }
        if desk.subscriptions.get(&subscription.id).is_none() {
            return;
        }
    }
}
