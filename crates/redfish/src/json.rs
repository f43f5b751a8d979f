//! Helpers for the JSON of resources.

use crate::schema;
use serde_json::{Map, Value, json};

/// A link.
pub(crate) fn link(uri: impl Into<String>) -> Value {
    json!({ "@odata.id": uri.into() })
}

/// Links.
pub(crate) fn links<S: Into<String>>(uris: impl IntoIterator<Item = S>) -> Vec<Value> {
    uris.into_iter().map(link).collect()
}

/// A resource with the common properties and `more`.
pub(crate) fn resource(schema: &str, uri: &str, id: &str, name: &str, more: Value) -> Value {
    let mut all = Map::new();
    all.insert("@odata.id".into(), uri.into());
    all.insert("@odata.type".into(), schema::type_of(schema).into());
    all.insert("Id".into(), id.into());
    all.insert("Name".into(), name.into());
    if let Value::Object(more) = more {
        // Unknown values are left out.
        all.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
    all.into()
}

/// A collection with links to these addresses.
pub(crate) fn collection<S: Into<String>>(
    schema: &str,
    uri: &str,
    name: &str,
    members: impl IntoIterator<Item = S>,
) -> Value {
    let members = links(members);
    json!({
        "@odata.id": uri,
        "@odata.type": schema::type_of(schema),
        "Name": name,
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

/// Adds links and their count to an object.
pub(crate) fn put_links(object: &mut Value, field: &str, links: Vec<Value>) {
    object[format!("{field}@odata.count")] = links.len().into();
    object[field] = links.into();
}
