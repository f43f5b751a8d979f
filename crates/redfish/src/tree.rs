//! The addresses of resources, their methods and ETags.

use crate::ids::{ROOT, hash};
use crate::{World, access, event, registry, root, system, task};
use serde_json::Value;

/// The segments of an address below the root; `None`: not below it. A trailing slash is ignored.
pub(crate) fn segments(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_suffix('/').unwrap_or(path);
    match path.strip_prefix(ROOT)? {
        "" => Some(Vec::new()),
        rest => {
            let all: Vec<&str> = rest.strip_prefix('/')?.split('/').collect();
            all.iter().all(|part| !part.is_empty()).then_some(all)
        }
    }
}

/// The resource at an address, with its ETag.
pub(crate) fn resource(world: &World, path: &str) -> Option<Value> {
    let mut body = find(world, &segments(path)?)?;
    let tag = tag(&body);
    let object = body.as_object_mut()?;
    if object.contains_key("@odata.id") {
        object.insert("@odata.etag".into(), tag.into());
    }
    Some(body)
}

fn find(world: &World, segments: &[&str]) -> Option<Value> {
    match segments {
        [] => Some(root::root(world)),
        ["Systems", rest @ ..] => system::systems(world, rest),
        ["Chassis", rest @ ..] => system::chassis(world, rest),
        ["Managers", rest @ ..] => system::managers(world, rest),
        ["SessionService", rest @ ..] => access::sessions(world, rest),
        ["AccountService", rest @ ..] => access::accounts(world, rest),
        ["TaskService", rest @ ..] => task::find(world, rest),
        ["EventService", rest @ ..] => event::find(world, rest),
        ["Registries", rest @ ..] => registry::find(rest),
        ["JsonSchemas", rest @ ..] => registry::find_schema(rest),
        _ => None,
    }
}

/// The ETag is a checksum of the resource without the current time: it changes exactly with the
/// content.
fn tag(body: &Value) -> String {
    let mut body = body.clone();
    if let Some(object) = body.as_object_mut() {
        object.remove("DateTime");
    }
    format!("W/\"{:016x}\"", hash(body.to_string().as_bytes()))
}

/// The methods of an address, for the header `Allow`; `None`: no such address.
pub(crate) fn methods(world: &World, path: &str) -> Option<&'static str> {
    let segments = segments(path)?;
    let is_there = || find(world, &segments).is_some();
    let storage = ["Systems", "host", "Storage", "softroc"];
    let methods = match segments.as_slice() {
        ["SessionService", "Sessions"] | ["AccountService", "Accounts"] => "GET, HEAD, POST",
        ["SessionService", "Sessions", "Members"] | ["AccountService", "Accounts", "Members"] => {
            "GET, HEAD, POST"
        }
        ["SessionService", "Sessions", _] => "GET, HEAD, DELETE",
        ["AccountService", "Accounts", _] => "GET, HEAD, PATCH, DELETE",
        ["TaskService", "Tasks", _] => "GET, HEAD, DELETE",
        ["TaskService", "TaskMonitors", number] => {
            return task::by_number(world, number).map(|_| "GET, HEAD, DELETE");
        }
        ["Chassis", "host", "Drives", _] => "GET, HEAD, PATCH",
        ["EventService", "Subscriptions"] | ["EventService", "Subscriptions", "Members"] => {
            "GET, HEAD, POST"
        }
        ["EventService", "Subscriptions", _] => "GET, HEAD, PATCH, DELETE",
        ["EventService", "SSE"] => return Some("GET"),
        [a, b, c, d, rest @ ..] if [*a, *b, *c, *d] == storage => match rest {
            ["Volumes", "Members"] => return Some("POST"),
            ["Volumes"] => "GET, HEAD, POST",
            ["Volumes", id, "Actions", action] => {
                let known =
                    crate::change::is_action(action) && crate::ids::volume(world, id).is_some();
                return known.then_some("POST");
            }
            ["Volumes", _] => "GET, HEAD, PATCH, DELETE",
            _ => "GET, HEAD",
        },
        _ => "GET, HEAD",
    };
    is_there().then_some(methods)
}
