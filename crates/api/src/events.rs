//! Events as they come, over HTTP (server-sent events).

use crate::deliver::{Parcel, deliver};
use crate::desk::Desk;
use crate::redfish_routes::{everything, world};
use crate::tls;
use access::{Action, Caller};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use controller::{Command, Event, Reply};
use http_body_util::channel::Channel;
use redfish::Subscription;
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked for new ones.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// A stream on which nothing happens says that it is there.
const ALIVE: Duration = Duration::from_secs(30);

/// Pieces that wait for a client to take them.
const WAITING: usize = 16;

/// A stream of events. It ends with the client, and when the account or its session does.
pub(crate) fn stream(desk: &Desk, caller: Caller) -> Response {
    let (sender, body) = Channel::<Bytes>::new(WAITING);
    tokio::spawn(follow(desk.clone(), caller, sender));
    let mut response = Response::new(Body::new(body));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn follow(desk: Desk, caller: Caller, mut sender: http_body_util::channel::Sender<Bytes>) {
    let Some(mut seen) = newest(&desk, 1).await.map(|events| events.last().map_or(0, |event| event.number))
    else {
        return;
    };
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
        tokio::time::sleep(LOOK).await;
        if !desk.keeper.is_still(&caller) || caller.may(Action::EventsList).is_err() {
            return;
        }
        let Some(events) = since(&desk, &mut seen).await else { return };
        if !events.is_empty() {
            let Ok(world) = world(&desk, Some(&caller), "", "").await else { return };
            for event in &events {
                text.push_str(&format!("id: {}\ndata: {}\n\n", event.number, redfish::sent(&world, event)));
            }
        } else if said.elapsed() >= ALIVE {
            text.push_str(": alive\n\n");
        }
    }
}

pub(crate) async fn newest(desk: &Desk, last: usize) -> Option<Vec<Event>> {
    match desk.look(Command::EventsList { last: Some(last) }).await {
        Ok(Reply::Events { events }) => Some(events),
        _ => None,
    }
}

/// Those after the last that was seen.
pub(crate) async fn since(desk: &Desk, seen: &mut u64) -> Option<Vec<Event>> {
    let latest = newest(desk, 1).await?.last().map_or(0, |event| event.number);
    let behind = usize::try_from(latest.saturating_sub(*seen)).unwrap_or(usize::MAX);
    if behind == 0 {
        return Some(Vec::new());
    }
    let mut events = newest(desk, behind).await?;
    events.retain(|event| event.number > *seen);
    *seen = latest;
    Some(events)
}

/// Begins to send events to a subscription, until it is there no more.
pub(crate) fn push(desk: &Desk, subscription: &Subscription) {
    tokio::spawn(pushed(desk.clone(), subscription.id.clone()));
}

async fn pushed(desk: Desk, id: String) {
    let Some(events) = newest(&desk, 1).await else { return };
    let mut seen = events.last().map_or(0, |event| event.number);
    while desk.subscriptions.get(&id).is_some() {
        tokio::time::sleep(LOOK).await;
        let Some(events) = since(&desk, &mut seen).await else { return };
        for event in &events {
            let Some(subscription) = desk.subscriptions.get(&id) else { return };
            send(&desk, &subscription, event).await;
        }
    }
}

/// Sends an event, several times if need be.
async fn send(desk: &Desk, subscription: &Subscription, event: &Event) {
    let Ok(world) = everything(desk).await else { return };
    let mut body = redfish::sent(&world, event);
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
