//! What open pages of the console are told as it happens: the parts that have changed, as server-sent events.
//!
//! A page asks once. It is drawn anew when there is a new event, at most four times a second, and every two seconds for what changes
//! without one, such as how far a task is; a page gets only what is not as it shows it. While the controller is too busy to answer,
//! an open page stays as it is.

use crate::desk::Desk;
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

/// A page is drawn anew no more often.
const LOOK: Duration = Duration::from_millis(250);

/// How often for what changes without one.
const WHOLE: Duration = Duration::from_secs(2);

/// A stream says that it is there so often; the script calls a page stale after three times as long.
const PULSE: Duration = Duration::from_secs(5);

/// Pages that are open at a time, of all who look.
pub(crate) const MOST: usize = 32;

/// Pieces that wait for a client to take them.
const WAITING: usize = 4;

/// What a page is told that nobody is signed in for any more: it does not ask again.
const SIGNED_OUT: &str = "event: signed-out\ndata: sign in\n\n";

/// A stream for the page whose address below `/console/live/` it is.
pub(crate) async fn live(State(desk): State<Desk>, request: Request) -> Response {
    let caller = console_routes::caller(&desk, gate::peer(&request), request.headers()).await;
    let name = request.uri().path().strip_prefix("/console/live/").unwrap_or_default().to_owned();
    let query = console_routes::query(request.uri());
    // Other than with a refusal, the script knows from this what to say.
    let signed_in = caller.ok().flatten().filter(|caller| !caller.must_change);
    let Some(caller) = signed_in else { return console_routes::stream(Body::from(SIGNED_OUT)) };
    // Connections are left for those who sign in. The script asks again.
    let Ok(permit) = desk.streams.clone().try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let (sender, body) = Channel::<Bytes>::new(WAITING);
    let (is_open, closed) = oneshot::channel::<()>();
    let open = Open { viewer: console_routes::viewer(&desk, caller.clone()), caller, name, query };
    tokio::spawn(async move {
        // The stream of a page that was left ends with its connection: otherwise it would count until the next event is sent.
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

/// A page that is open.
struct Open {
    viewer: Viewer,
    caller: Caller,
    name: String,
    query: webconsole::Query,
}

async fn follow(desk: Desk, open: Open, mut sender: Sender<Bytes>) {
    let mut shown = Shown::default();
    let (mut newest, mut looked, mut said) = (None, None::<Instant>, Instant::now());
    loop {
        if !desk.keeper.is_still(&open.caller) {
            // Whether it arrives or not: the stream ends.
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
