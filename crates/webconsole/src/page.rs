//! A page, its parts, and which page is at which address.

use crate::words::{self, Query};
use crate::{Viewer, World, deed, drive, events, overview, status, volume};
use access::Role;
use askama::Template;
use std::collections::BTreeMap;

/// A page, without what surrounds every page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The status of HTTP.
    pub status: u16,
    title: String,
    parts: Vec<Part>,
    /// Its address below `/console/`, and what follows it.
    at: String,
    /// Whether it is kept as the controller is while it is open.
    is_live: bool,
}

/// A part of a page, which is replaced as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Which: no two parts of a page have the same.
    pub(crate) id: &'static str,
    pub(crate) html: String,
}

impl Part {
    pub(crate) fn new(id: &'static str, template: &impl Template) -> Part {
        Part { id, html: words::rendered(template) }
    }
}

/// What an open page shows.
#[derive(Default, Debug)]
pub struct Shown {
    title: String,
    parts: BTreeMap<&'static str, String>,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Whole<'p> {
    title: &'p str,
    host: &'p str,
    version: &'p str,
    exactly: String,
    parts: &'p [Part],
    at: &'p str,
    is_live: bool,
    user: &'p str,
    role: Role,
    token: &'p str,
    has_session: bool,
    /// What was asked a moment ago.
    asked: Option<&'p str>,
    is_overview: bool,
    is_events: bool,
}

/// How many events a page is made of.
pub fn events_needed(path: &str) -> usize {
    if path.is_empty() { overview::EVENTS } else { 1000 }
}

/// The page at an address below `/console/`.
pub fn page(world: &World, viewer: &Viewer, path: &str, query: &Query) -> Page {
    let at = format!("{path}{}", query.to_address());
    let back = format!("/console/{at}");
    let of = query.get("of").unwrap_or_default();
    let found = match path {
        "" => Some(("Overview".to_owned(), overview::parts(world, viewer, &back))),
        "volume" => volume::parts(world, viewer, &back, of).map(|parts| (format!("Volume {of}"), parts)),
        "drive" => drive::parts(world, viewer, &back, of).map(|parts| (format!("Drive {of}"), parts)),
        "events" => Some(("Events".to_owned(), events::parts(world, query))),
        _ => None,
    };
    let (status, (name, own)) = match found {
        Some(found) => (200, found),
        None => {
            let what = match path {
                "volume" => format!("There is no volume '{of}' any more"),
                "drive" => format!("There is no drive '{of}' any more"),
                _ => "There is no page at this address".to_owned(),
            };
            let hint = "The overview has everything that there is.".to_owned();
            (404, ("Not found".to_owned(), vec![Part::new("own", &Said { what, hint })]))
        }
    };
    let mut parts = vec![status::part(world, viewer, &back, path.is_empty())];
    parts.extend(own);
    let sign = words::Tone::from(world.health.status).sign();
    Page { status, title: format!("{sign} {name} · {}", world.host), parts, at, is_live: true }
}

/// The page that says why something was not done.
pub fn failed(world: &World, viewer: &Viewer, status: u16, why: &str, back: &str) -> Page {
    let what = "Nothing was done".to_owned();
    let said = Part::new("own", &Said { what, hint: words::sentence(why) });
    let parts = vec![status::part(world, viewer, back, false), said];
    let at = back.strip_prefix("/console/").unwrap_or_default().to_owned();
    // What was said about what somebody asked for stays until they have read it.
    Page { status, title: format!("Refused · {}", world.host), parts, at, is_live: false }
}

/// Something that is said instead of a page.
#[derive(Template)]
#[template(path = "said.html")]
struct Said {
    what: String,
    hint: String,
}

impl Page {
    /// All of it.
    pub fn html(&self, world: &World, viewer: &Viewer, query: &Query) -> String {
        words::rendered(&Whole {
            title: &self.title,
            host: &world.host,
            version: &world.info.version,
            exactly: words::exactly(world.now_unix_s),
            parts: &self.parts,
            at: &self.at,
            is_live: self.is_live,
            user: &viewer.caller.user,
            role: viewer.caller.role,
            token: &viewer.token,
            has_session: viewer.caller.session.is_some(),
            asked: query.get("asked").filter(|verb| deed::VERBS.contains(verb)),
            is_overview: self.at.is_empty(),
            is_events: self.at.starts_with("events"),
        })
    }

    /// What an open page has to be told, as JSON: its title, which parts it has, and those that are not as it shows them. `None`: nothing.
    pub fn changed(&self, shown: &mut Shown) -> Option<String> {
        let ids: Vec<&str> = self.parts.iter().map(|part| part.id).collect();
        // A page of something that is gone is another page.
        shown.parts.retain(|id, _| ids.contains(id));
        let differs = |part: &&Part| shown.parts.get(part.id) != Some(&part.html);
        let parts: BTreeMap<&'static str, String> =
            self.parts.iter().filter(differs).map(|part| (part.id, part.html.clone())).collect();
        if parts.is_empty() && shown.title == self.title {
            return None;
        }
        let told = serde_json::json!({ "title": self.title, "ids": ids, "parts": parts });
        shown.title.clone_from(&self.title);
        shown.parts.extend(parts);
        Some(told.to_string())
    }
}
