//! Updates of open console pages: changed parts as server-sent events.
//!
//! A page is rendered again after a new event, at most four times per second, and every two seconds
//! for changes without events, such as task progress. Only changed parts are sent. While the
//! controller is busy, an open page stays unchanged.
//! an open page stays as it is.

use crate::desk::AppState;
use crate::{console_routes, gate};
use access::Caller;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use controller::ErrorKind;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use webconsole::{Shown, Viewer};

/// Minimum interval between two renderings.
const LOOK: Duration = Duration::from_millis(250);

/// Interval of renderings without events.
const WHOLE: Duration = Duration::from_secs(2);

/// Interval of the keep-alive; the script reports a page as stale after three intervals.
const PULSE: Duration = Duration::from_secs(5);

/// Maximum number of open pages, of all viewers.
pub(crate) const MOST: usize = 32;

/// Queue length of a client, in pieces.
const WAITING: usize = 4;

/// The last message after sign-out: the script does not reconnect.
const SIGNED_OUT: &str = "event: signed-out\ndata: sign in\n\n";

/// The update stream of the page whose address follows `/console/live/`.
pub(crate) async fn live(State(desk): State<AppState>, request: Request) -> Response {
    let caller = console_routes::caller(&desk, gate::peer(&request), request.headers()).await;
    let name = request.uri().path().strip_prefix("/console/live/").unwrap_or_default().to_owned();
    let query = console_routes::query(request.uri());
    // The script distinguishes this from a refusal.
    let signed_in = caller.ok().flatten().filter(|caller| !caller.must_change);
    let Some(caller) = signed_in else { return console_routes::stream(Body::from(SIGNED_OUT)) };
    // Connections stay available for sign-in. The script retries.
    let Ok(permit) = desk.streams.clone().try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let (sender, body) = Channel::<Bytes>::new(WAITING);
    let (is_open, closed) = oneshot::channel::<()>();
    let open = Open { viewer: console_routes::viewer(&desk, caller.clone()), caller, name, query };
    tokio::spawn(async move {
        // The stream ends with its connection; otherwise it would count until the next event.
        tokio::select! {
            () = follow(desk, open, sender) => {}
            _ = closed => {}
        }
        drop(permit);
    });
    // The body is dropped with its connection.
    let body = body.map_frame(move |frame| {
        let _held = &is_open;
        frame
    });
    console_routes::stream(Body::new(body))
}

/// An open page.
struct Open {
    viewer: Viewer,
    caller: Caller,
    name: String,
    query: webconsole::Query,
}

async fn follow(desk: AppState, open: Open, mut sender: Sender<Bytes>) {
    let mut shown = Shown::default();
    let (mut newest, mut looked, mut said) = (None, None::<Instant>, Instant::now());
    loop {
        if !desk.keeper.is_still(&open.caller) {
            // Best effort: the stream ends anyway.
            let _ = sender.send_data(Bytes::from_static(SIGNED_OUT.as_bytes())).await;
            return;
        }
        let latest = desk.controller.events().newest();
        let is_due = looked.is_none_or(|looked| looked.elapsed() >= WHOLE);
        let mut text = String::new();
        if is_due || newest != Some(latest) {
            newest = Some(latest);
            looked = Some(Instant::now());
            let asked = console_routes::world_of(&desk, &open.caller, &open.name, &open.query);
            match asked.await {
                Ok(world) => {
                    let page = webconsole::page(&world, &open.viewer, &open.name, &open.query);
                    if let Some(parts) = page.changed(&mut shown) {
                        text = format!("event: parts\ndata: {parts}\n\n");
                    }
                }
                Err(error) if error.kind == ErrorKind::Busy => {}
                Err(_) => return,
            }
        }
        if text.is_empty() && said.elapsed() >= PULSE {
            "event: pulse\ndata: here\n\n".clone_into(&mut text);
        }
        if !text.is_empty() {
            said = Instant::now();
            if sender.send_data(Bytes::from(text)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
