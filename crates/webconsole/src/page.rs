//! A page, its parts, and which page is at which address.

use crate::words::{self, Query};
use crate::{
    Predict, Viewer, World, bench, create, deed, drive, events, maintenance, overview, replace, status,
    volume, what_if,
};
use access::Role;
use askama::Template;
use controller::{Command, Reply};
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

    /// A place for what may come while the page is open.
    pub(crate) fn empty(id: &'static str) -> Part {
        Part { id, html: String::new() }
    }
}

/// What an open page shows.
#[derive(Default, Debug)]
pub struct Shown {
    title: String,
    parts: BTreeMap<&'static str, String>,
}

/// Pages that every page leads to.
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
    /// What is worth knowing of that.
    notes: Vec<String>,
    /// Which of the pages that every page leads to.
    place: &'p str,
}

impl Whole<'_> {
    fn is_at(&self, place: &str) -> bool {
        self.place == place
    }
}

/// What a page is made of besides what the controller is asked for every page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// How many events.
    pub events: usize,
    /// What is kept beside the controller.
    pub upkeep: bool,
    /// What hosts asked of this volume.
    pub traffic: Option<String>,
    /// What is measured and predicted.
    pub workbench: bool,
}

/// What the page at an address below `/console/` is made of.
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

/// What has to be asked of the controller for a page besides what every page is made of.
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

/// What has to be predicted for a page.
pub fn predictions(world: &World, path: &str, query: &Query) -> Vec<Predict> {
    match path {
        "create" => create::predictions(world, query),
        "what-if" => what_if::predictions(world, query),
        _ => Vec::new(),
    }
}

/// Of an answer to one of these [`questions`] what the page needs of it.
///
/// # Errors
/// The one that the answer is.
pub fn kept(question: &Command, answer: controller::Result<Reply>) -> controller::Result<Reply> {
    what_if::kept(question, answer)
}

/// Where somebody is led who asks for an address below `/console/` that stands for another one now.
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
        "volume" => volume::parts(world, viewer, &back, of).map(|parts| (format!("Volume {of}"), parts)),
        "drive" => drive::parts(world, viewer, &back, of).map(|parts| (format!("Drive {of}"), parts)),
        "replace" => {
            let again = query.get("again").is_some();
            replace::parts(world, viewer, of, again).map(|parts| ("Replace a drive".to_owned(), parts))
        }
        "create" => Some(("Create a volume".to_owned(), create::parts(world, viewer, &back, query))),
        "what-if" => what_if::parts(world, viewer, query).map(|parts| ("What if".to_owned(), parts)),
        "bench" => bench::parts(world, viewer, &back, query).map(|parts| ("Bench".to_owned(), parts)),
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
                "replace" => format!("There is no place '{of}': it is VOLUME:SLOT"),
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

/// The page that tells what somebody has to know of what was done, and is told once.
pub fn told(world: &World, viewer: &Viewer, what: &str, told: &str, back: &str) -> Page {
    let said = Part::new("own", &Said { what: what.to_owned(), hint: told.to_owned() });
    let parts = vec![status::part(world, viewer, back, false), said];
    let at = back.strip_prefix("/console/").unwrap_or_default().to_owned();
    // It stays until they have read it.
    Page { status: 200, title: format!("Done · {}", world.host), parts, at, is_live: false }
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
            notes: world.notes.iter().map(|note| words::sentence(note)).collect(),
            place: self.at.split('?').next().unwrap_or_default(),
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
