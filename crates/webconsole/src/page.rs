//! Pages, their parts, and their addresses.

use crate::words::{self, Query};
use crate::{
    Predict, Viewer, World, bench, create, deed, drive, events, maintenance, overview, replace,
    status, volume, what_if,
};
use access::Role;
use askama::Template;
use controller::{Command, Reply};
use std::collections::BTreeMap;

/// A page without the frame around it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The HTTP status.
    pub status: u16,
    title: String,
    parts: Vec<Part>,
    /// Its address below `/console/`, with the query.
    at: String,
    /// Whether it is updated while it is open.
    is_live: bool,
}

/// A part of a page, which is replaced as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The identifier, unique on the page.
    pub(crate) id: &'static str,
    pub(crate) html: String,
}

impl Part {
    pub(crate) fn new(id: &'static str, template: &impl Template) -> Part {
        Part { id, html: words::rendered(template) }
    }

    /// Reserves a position for content that appears later.
    pub(crate) fn empty(id: &'static str) -> Part {
        Part { id, html: String::new() }
    }
}

/// The content that an open page shows.
#[derive(Default, Debug)]
pub struct Shown {
    title: String,
    parts: BTreeMap<&'static str, String>,
}

/// The pages of the navigation.
const NAVIGATION: &[(&str, &str)] = &[
    ("", "Overview"),
    ("replace", "Replace"),
    ("create", "Create"),
    ("what-if", "What if"),
    ("bench", "Bench"),
    ("maintenance", "Maintenance"),
    ("events", "Events"),
];

#[derive(Template)]
#[template(path = "page.html")]
struct Document<'p> {
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
    /// The action that was just accepted.
    asked: Option<&'p str>,
    /// Notes about that action.
    notes: Vec<String>,
    /// The current entry of the navigation.
    place: &'p str,
}

impl Document<'_> {
    fn is_at(&self, place: &str) -> bool {
        self.place == place
    }
}

/// Optional inputs of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Number of events.
    pub events: usize,
    /// Data outside the controller.
    pub upkeep: bool,
    /// I/O samples of this volume.
    pub traffic: Option<String>,
    /// Benchmarks and predictions.
    pub workbench: bool,
}

/// The inputs of the page at an address below `/console/`.
pub fn needs(path: &str, query: &Query) -> Needs {
    let events = match path {
        "" => overview::EVENTS,
        "volume" | "drive" | "replace" | "events" | "events.csv" | "events.json" => 1000,
        _ => 0,
    };
    let traffic = query.get("of").filter(|_| path == "volume").map(str::to_owned);
    Needs {
        events,
        upkeep: path == "maintenance",
        traffic,
        workbench: matches!(path, "bench" | "create" | "what-if"),
    }
}

/// Additional controller queries of a page.
pub fn questions(world: &World, path: &str, query: &Query) -> Vec<Command> {
    let of = query.get("of").unwrap_or_default();
    match path {
        "replace" => replace::questions(world, of),
        "create" => create::questions(world),
        "what-if" => what_if::questions(world, query),
        "maintenance" => maintenance::questions(),
        _ => Vec::new(),
    }
}

/// The predictions of a page.
pub fn predictions(world: &World, path: &str, query: &Query) -> Vec<Predict> {
    match path {
        "create" => create::predictions(world, query),
        "what-if" => what_if::predictions(world, query),
        _ => Vec::new(),
    }
}

/// Reduces the result of an additional query ([`questions`]) to the part that the page needs.
///
/// # Errors
/// The error of the query.
pub fn kept(question: &Command, answer: controller::Result<Reply>) -> controller::Result<Reply> {
    what_if::kept(question, answer)
}

/// The redirection of an address below `/console/`, if there is one.
pub fn leads(world: &World, path: &str, query: &Query) -> Option<String> {
    let names_nothing = query.get("of").unwrap_or_default().is_empty();
    if path == "replace" && names_nothing { replace::leads(world) } else { None }
}

/// The page at an address below `/console/`.
pub fn page(world: &World, viewer: &Viewer, path: &str, query: &Query) -> Page {
    let at = format!("{path}{}", query.to_address());
    let back = format!("/console/{at}");
    let of = query.get("of").unwrap_or_default();
    let found = match path {
        "" => Some(("Overview".to_owned(), overview::parts(world, viewer, &back))),
        "volume" => {
            volume::parts(world, viewer, &back, of).map(|parts| (format!("Volume {of}"), parts))
        }
        "drive" => {
            drive::parts(world, viewer, &back, of).map(|parts| (format!("Drive {of}"), parts))
        }
        "replace" => {
            let again = query.get("again").is_some();
            replace::parts(world, viewer, of, again)
                .map(|parts| ("Replace a drive".to_owned(), parts))
        }
        "create" => {
            Some(("Create a volume".to_owned(), create::parts(world, viewer, &back, query)))
        }
        "what-if" => {
            what_if::parts(world, viewer, query).map(|parts| ("What if".to_owned(), parts))
        }
        "bench" => {
            bench::parts(world, viewer, &back, query).map(|parts| ("Bench".to_owned(), parts))
        }
        "maintenance" => Some(("Maintenance".to_owned(), maintenance::parts(world, viewer, &back))),
        "events" => Some(("Events".to_owned(), events::parts(world, query))),
        _ => None,
    };
    let (status, (name, own)) = match found {
        Some(found) => (200, found),
        None => {
            let what = match path {
                "volume" | "what-if" | "bench" => format!("There is no volume '{of}' any more"),
                "drive" => format!("There is no drive '{of}' any more"),
                "replace" => format!("There is no slot '{of}'; expected VOLUME:SLOT"),
                _ => "There is no page at this address".to_owned(),
            };
            let hint = "The overview lists all objects.".to_owned();
            (404, ("Not found".to_owned(), vec![Part::new("own", &MessagePage { what, hint })]))
        }
    };
    let mut parts = vec![status::part(world, viewer, &back, path.is_empty())];
    parts.extend(own);
    let sign = words::Tone::from(world.health.status).sign();
    Page { status, title: format!("{sign} {name} · {}", world.host), parts, at, is_live: true }
}

/// The page that reports why an action failed.
pub fn failed(world: &World, viewer: &Viewer, status: u16, why: &str, back: &str) -> Page {
    let what = "Nothing was changed".to_owned();
    let said = Part::new("own", &MessagePage { what, hint: words::sentence(why) });
    let parts = vec![status::part(world, viewer, back, false), said];
    let at = back.strip_prefix("/console/").unwrap_or_default().to_owned();
    // The message stays until the viewer leaves the page.
    Page { status, title: format!("Refused · {}", world.host), parts, at, is_live: false }
}

/// The page that shows a result once, such as a generated password.
pub fn told(world: &World, viewer: &Viewer, what: &str, told: &str, back: &str) -> Page {
    let said = Part::new("own", &MessagePage { what: what.to_owned(), hint: told.to_owned() });
    let parts = vec![status::part(world, viewer, back, false), said];
    let at = back.strip_prefix("/console/").unwrap_or_default().to_owned();
    // The message stays until the viewer leaves the page.
    Page { status: 200, title: format!("Done · {}", world.host), parts, at, is_live: false }
}

/// A message instead of a page.
#[derive(Template)]
#[template(path = "said.html")]
struct MessagePage {
    what: String,
    hint: String,
}

impl Page {
    /// The complete HTML.
    pub fn html(&self, world: &World, viewer: &Viewer, query: &Query) -> String {
        words::rendered(&Document {
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
            notes: world.notes.iter().map(|note| words::sentence(note)).collect(),
            place: self.at.split('?').next().unwrap_or_default(),
        })
    }

    /// The update of an open page, as JSON: its title, its parts, and the content of changed parts.
    /// `None`: no change.
    pub fn changed(&self, shown: &mut Shown) -> Option<String> {
        let ids: Vec<&str> = self.parts.iter().map(|part| part.id).collect();
        // A removed subject results in another page.
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
