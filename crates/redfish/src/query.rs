//! Query parameters.

use crate::message::Message;
use crate::{World, tree};
use serde_json::{Map, Value};

/// Maximum depth of `$expand`.
pub(crate) const MOST_LEVELS: u32 = 2;

/// Maximum number of resources in one response.
const MOST_RESOURCES: usize = 4000;

/// The query of a resource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    expand: Option<(Expand, u32)>,
    select: Option<Vec<Vec<String>>>,
    top: Option<usize>,
    skip: usize,
    only: bool,
}

/// Which links are expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expand {
    /// `*`
    All,
    /// `.`: links outside `Links`.
    NoLinks,
    /// `~`: links in `Links`.
    Links,
}

/// The status and the message.
pub(crate) type QueryError = (u16, Message);

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// The invalid or unsupported parameter.
    pub(crate) fn read(text: &str) -> Result<Query, QueryError> {
        let mut query = Query::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (decoded(name), decoded(value));
            let format =
                || (400, Message::base("QueryParameterValueFormatError", &[&value, &name]));
            match name.as_str() {
                "$expand" => query.expand = Some(expand(&value).ok_or_else(format)?),
                "$select" => query.select = Some(select(&value).ok_or_else(format)?),
                "$top" => query.top = Some(value.parse().map_err(|_| format())?),
                "$skip" => query.skip = value.parse().map_err(|_| format())?,
                "only" if value.is_empty() => query.only = true,
                "only" => return Err(format()),
                unknown if unknown.starts_with('$') || unknown == "excerpt" => {
                    return Err((501, Message::base("QueryParameterUnsupported", &[unknown])));
                }
                // Parameters without `$` are ignored, as the protocol requires.
                _ => {}
            }
        }
        let deepest = query.expand.filter(|(_, levels)| *levels > MOST_LEVELS || *levels == 0);
        if let Some((_, levels)) = deepest {
            let range = format!("1-{MOST_LEVELS}");
            let arguments = [&levels.to_string(), "$expand", &range];
            return Err((400, Message::base("QueryParameterOutOfRange", &arguments)));
        }
        Ok(query)
    }

    /// Whether the query is empty.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Query::default()
    }

    /// Applies the query to a resource.
    ///
    /// # Errors
    /// When the resource does not support it.
    pub(crate) fn apply(&self, world: &World, mut body: Value) -> Result<Value, QueryError> {
        let is_collection = body.get("Members").is_some();
        let of_collections = self.only || self.top.is_some() || self.skip > 0;
        if of_collections && !is_collection {
            return Err((400, Message::base("QueryNotSupportedOnResource", &[])));
        }
        let others =
            self.expand.is_some() || self.select.is_some() || self.top.is_some() || self.skip > 0;
        if self.only && others {
            return Err((400, Message::base("QueryNotSupportedOnOperation", &[])));
        }
        if self.only
            && let Some([one]) = body["Members"].as_array().map(Vec::as_slice)
            && let Some(found) =
                one["@odata.id"].as_str().and_then(|uri| tree::resource(world, uri))
        {
            return Ok(found);
        }
        if is_collection {
            self.page(&mut body)?;
        }
        if let Some((expand, levels)) = self.expand {
            let mut left = MOST_RESOURCES;
            body = expanded(world, body, expand, levels, &mut left);
            if left == 0 {
                let range = format!("0-{MOST_RESOURCES}");
                return Err((
                    400,
                    Message::base("QueryParameterOutOfRange", &["more", "$expand", &range]),
                ));
            }
        }
        Ok(match &self.select {
            Some(paths) => selected(body, paths),
            None => body,
        })
    }

    /// Selects the requested members of a collection.
    fn page(&self, body: &mut Value) -> Result<(), QueryError> {
        let uri = body["@odata.id"].as_str().unwrap_or_default().to_owned();
        let Some(members) = body["Members"].as_array_mut() else { return Ok(()) };
        let all = members.len();
        if self.skip > all {
            let (skip, range) = (self.skip.to_string(), format!("0-{all}"));
            return Err((
                400,
                Message::base("QueryParameterOutOfRange", &[&skip, "$skip", &range]),
            ));
        }
        let top = self.top.unwrap_or(all);
        *members = members.drain(self.skip..).take(top).collect();
        let next = self.skip + members.len();
        if next < all && top > 0 {
            body["Members@odata.nextLink"] = format!("{uri}?$skip={next}&$top={top}").into();
        }
        Ok(())
    }
}

/// Decodes `%20` and `+`. Invalid sequences stay.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, value) {
            (b'%', Some(value)) => {
                decoded.push(value);
                at += 3;
            }
            (b'+', _) => {
                decoded.push(b' ');
                at += 1;
            }
            (byte, _) => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// `.($levels=2)`
fn expand(text: &str) -> Option<(Expand, u32)> {
    let (kind, levels) = match text.split_once('(') {
        None => (text, 1),
        Some((kind, rest)) => {
            (kind, rest.strip_prefix("$levels=")?.strip_suffix(')')?.parse().ok()?)
        }
    };
    let kind = match kind {
        "*" => Expand::All,
        "." => Expand::NoLinks,
        "~" => Expand::Links,
        _ => return None,
    };
    Some((kind, levels))
}

/// `Name,Status/Health`
fn select(text: &str) -> Option<Vec<Vec<String>>> {
    let path = |path: &str| -> Option<Vec<String>> {
        let parts: Vec<String> = path.trim().split('/').map(str::to_owned).collect();
        parts.iter().all(|part| !part.is_empty()).then_some(parts)
    };
    text.split(',').map(path).collect()
}

/// The address of a value that is only a link.
fn only_link(value: &Value) -> Option<&str> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get("@odata.id")?.as_str()
}

fn expanded(world: &World, body: Value, kind: Expand, levels: u32, left: &mut usize) -> Value {
    let Value::Object(object) = body else { return body };
    let walk = |(name, value): (String, Value)| {
        let is_links = name == "Links";
        let taken = match kind {
            Expand::All => true,
            Expand::NoLinks => !is_links,
            Expand::Links => is_links,
        };
        // Below a value that is not expanded nothing is; below `Links` everything is.
        let value = if taken { replaced(world, value, kind, levels, left) } else { value };
        (name, value)
    };
    object.into_iter().map(walk).collect::<Map<String, Value>>().into()
}

/// A value of a resource with its links expanded.
fn replaced(world: &World, value: Value, kind: Expand, levels: u32, left: &mut usize) -> Value {
    if let Some(found) = only_link(&value).and_then(|uri| tree::resource(world, uri)) {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return value;
        }
        return if levels > 1 { expanded(world, found, kind, levels - 1, left) } else { found };
    }
    match value {
        Value::Array(all) => {
            all.into_iter().map(|value| replaced(world, value, kind, levels, left)).collect()
        }
        Value::Object(object) => object
            .into_iter()
            .map(|(name, value)| (name, replaced(world, value, kind, levels, left)))
            .collect::<Map<String, Value>>()
            .into(),
        plain => plain,
    }
}

fn selected(body: Value, paths: &[Vec<String>]) -> Value {
    let Value::Object(object) = body else { return body };
    let below = |name: &str| -> Option<Vec<Vec<String>>> {
        let mut found = None;
        for path in paths {
            let wanted = name == path[0]
                || name.strip_prefix(path[0].as_str()).is_some_and(|rest| rest.starts_with('@'));
            if wanted {
                let all: &mut Vec<Vec<String>> = found.get_or_insert_default();
                all.push(path[1..].to_vec());
            }
        }
        found
    };
    let keep = |(name, value): (String, Value)| {
        if name.starts_with("@odata.") {
            return Some((name, value));
        }
        let rest = below(&name)?;
        // The whole value, if any path selects it.
        let whole = rest.iter().any(Vec::is_empty);
        Some(if whole { (name, value) } else { (name, selected(value, &rest)) })
    };
    object.into_iter().filter_map(keep).collect::<Map<String, Value>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_query_is_read_or_said_to_be_wrong() {
        for fine in [
            "",
            "a=b&c",
            "$expand=.",
            "$expand=*($levels=2)",
            "$select=Name,Status/Health",
            "$top=1&$skip=0",
            "%24expand=%7E",
            "only",
        ] {
            assert!(Query::read(fine).is_ok(), "{fine}");
        }
        assert!(Query::read("a=b&c").unwrap().is_empty());
        for (wrong, status) in [
            ("$expand=", 400),
            ("$expand=.($levels=3)", 400),
            ("$expand=.($levels=0)", 400),
            ("$expand=.($levels=x", 400),
            ("$top=-1", 400),
            ("$skip=x", 400),
            ("$select=", 400),
            ("$select=a//b", 400),
            ("$filter=a", 501),
            ("$unknown", 501),
            ("excerpt", 501),
        ] {
            assert_eq!(Query::read(wrong).unwrap_err().0, status, "{wrong}");
        }
    }

    #[test]
    fn what_is_selected_stays_and_what_every_resource_has() {
        let body = json!({
            "@odata.id": "/x", "Name": "n", "Status": {"State": "Enabled", "Health": "OK"},
            "Drives": [], "Drives@odata.count": 0, "Id": "x",
        });
        let select = |text: &str| selected(body.clone(), &select(text).unwrap());
        assert_eq!(select("Name"), json!({"@odata.id": "/x", "Name": "n"}));
        assert_eq!(
            select("Status/Health,Drives"),
            json!({
                "@odata.id": "/x", "Status": {"Health": "OK"}, "Drives": [],
                "Drives@odata.count": 0,
            })
        );
        assert_eq!(select("Status/Health,Status")["Status"], body["Status"]);
    }

    #[test]
    fn what_is_no_encoding_stays() {
        assert_eq!(decoded("%24a+%zz%2"), "$a %zz%2");
        assert_eq!(decoded("%ff%é"), "\u{fffd}%é");
    }
}
