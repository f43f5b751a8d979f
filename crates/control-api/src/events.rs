//! Events over HTTP: server-sent events, and delivery to Redfish subscriptions.
//!
//! **Invariants.** Every consumer follows the controller's event feed from its last event number,
//! without queries: a busy controller neither ends nor delays it. Events that a slow consumer
//! missed are replaced by one event `events.left-out`. Resource names in an event come from a
//! query; if it fails, the event is sent without its origin.

use crate::deliver::{Delivery, deliver};
use crate::desk::AppState;
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

/// Interval of the checks whether a consumer is still needed.
const LOOK: Duration = Duration::from_millis(500);

/// Keep-alive interval of an idle stream.
const ALIVE: Duration = Duration::from_secs(30);

/// Queue length of a client, in pieces.
const WAITING: usize = 16;

/// An event stream: the events after the client's last one, or new ones. It ends with the client,
/// its account, or its session.
pub(crate) fn stream(desk: &AppState, caller: Caller, headers: &HeaderMap) -> Response {
    let (sender, body) = Channel::<Bytes>::new(WAITING);
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    tokio::spawn(follow(desk.clone(), caller, seen, sender));
    let mut response = Response::new(Body::new(body));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn follow(
    desk: AppState,
    caller: Caller,
    seen: Option<u64>,
    mut sender: http_body_util::channel::Sender<Bytes>,
) {
    let feed = desk.controller.events();
    let newest = feed.begun().await;
    let mut events = feed.subscribe(seen.unwrap_or(newest));
    let mut said = Instant::now();
    // Tells the client at once that it is connected.
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

/// Delivers events to a subscription until its removal.
pub(crate) fn push(desk: &AppState, subscription: &Subscription) {
    let seen = Arc::new(OnceLock::new());
    let (desk, id) = (desk.clone(), subscription.id.clone());
    supervise("the event sender", move || pushed(desk.clone(), id.clone(), seen.clone()));
}

async fn pushed(desk: AppState, id: String, seen: Arc<OnceLock<AtomicU64>>) {
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

/// Delivers an event, with retries.
async fn send(desk: &AppState, subscription: &Subscription, event: &Event) {
    let mut body = redfish::sent(&world_of_events(desk).await, event);
    body["Context"] = subscription.context.as_str().into();
    let (attempts, interval_s) = redfish::RETRIES;
    let authorities = tls::authorities();
    let (tls, trust): (tls::MakeConfig, &str) = match subscription.verify_certificate {
        true => (tls::vouched_for, &authorities),
        false => (|_| tls::anybody(), ""),
    };
    for attempt in 0..=attempts {
        let parcel = Delivery {
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
                    "delivery of event {number} to subscription {id} failed: {why}; continuing \
                     with the next event"
                );
            }
            Err(_) => tokio::time::sleep(Duration::from_secs(interval_s)).await,
        }
        if desk.subscriptions.get(&subscription.id).is_none() {
            return;
        }
    }
}
