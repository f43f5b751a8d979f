//! SoftROC's message registry, with a message per kind of event and one for reasons of a state; and
//! the addresses of the registries.

use crate::ids::ROOT;
use crate::json::{collection, resource};
use crate::schema;
use crate::state::Health;
use controller::EventCode;
use serde_json::{Map, Value, json};

/// The registry of event messages, without its errata version.
const PREFIX: &str = "SoftROC.1.0";

/// The registry of response messages, which DMTF publishes.
pub(crate) const BASE: &str = "Base.1.22";

/// The registries with their addresses; `None`: served here.
const REGISTRIES: [(&str, &str, Option<&str>); 2] = [
    ("Base", BASE, Some("https://redfish.dmtf.org/registries/Base.1.22.1.json")),
    ("SoftROC", PREFIX, None),
];

const OWN: &str = "/redfish/v1/Registries/SoftROC/SoftROC.1.0.0";

/// The message key of an event code: `volume.started-degraded` is `VolumeStartedDegraded`.
fn key(code: &str) -> String {
    let words = code.split(['.', '-']).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    words.map(capital).collect()
}

/// The message of an event code; events without a code get the message of a reason.
pub(crate) fn message_id(code: &str) -> String {
    match code.is_empty() {
        true => format!("{PREFIX}.Reason"),
        false => format!("{PREFIX}.{}", key(code)),
    }
}

/// The reason of a state.
pub(crate) fn condition(reason: &str, health: Health) -> Value {
    json!({
        "MessageId": format!("{PREFIX}.Reason"),
        "MessageArgs": [reason],
        "Message": reason,
        "Severity": health.name(),
    })
}

fn messages() -> Value {
    let message = |description: &str, severity: Health| {
        json!({
            "Description": description,
            "LongDescription": description,
            "Message": "%1",
            "MessageSeverity": severity.name(),
            "NumberOfArgs": 1,
            "ParamTypes": ["string"],
            "ArgDescriptions": ["What happened, in one sentence."],
            "ArgLongDescriptions": ["What happened and what to do, in one sentence."],
            "Resolution": "Follow the message; 'softroc events' lists earlier events.",
        })
    };
    let of_event = |code: &EventCode| {
        (key(code.code()), message(code.meaning(), Health::of_event(code.severity())))
    };
    let mut all: Map<String, Value> = EventCode::ALL.iter().map(of_event).collect();
    all.insert("Reason".into(), message("The reason of a state.", Health::Warning));
    all.into()
}

/// Addresses below `Registries`.
pub(crate) fn find(segments: &[&str]) -> Option<Value> {
    let uri = format!("{ROOT}/Registries");
    match segments {
        [] => {
            let all = REGISTRIES.map(|(id, ..)| format!("{uri}/{id}"));
            Some(collection("MessageRegistryFileCollection", &uri, "Registries", all))
        }
        [id] => {
            let (id, registry, published) =
                REGISTRIES.into_iter().find(|(known, ..)| known == id)?;
            let at = match published {
                Some(published) => json!({ "Language": "en", "PublicationUri": published }),
                None => json!({ "Language": "en", "Uri": OWN }),
            };
            let more = json!({ "Registry": registry, "Languages": ["en"], "Location": [at] });
            let uri = format!("{uri}/{id}");
            Some(resource("MessageRegistryFile", &uri, id, &format!("{id} registry"), more))
        }
        ["SoftROC", "SoftROC.1.0.0"] => {
            let mut body = resource(
                "MessageRegistry",
                OWN,
                "SoftROC.1.0.0",
                "SoftROC registry",
                json!({
                    "Language": "en",
                    "Description": "Messages of the events of SoftROC",
                    "RegistryPrefix": "SoftROC",
                    "RegistryVersion": "1.0.0",
                    "OwningEntity": "SoftROC",
                    "Messages": messages(),
                }),
            );
            // A registry is a file, not a resource.
            body.as_object_mut()?.remove("@odata.id");
            Some(body)
        }
        _ => None,
    }
}

/// Addresses below `JsonSchemas`.
pub(crate) fn find_schema(segments: &[&str]) -> Option<Value> {
    let uri = format!("{ROOT}/JsonSchemas");
    match segments {
        [] => {
            let all = schema::SCHEMAS.iter().map(|schema| format!("{uri}/{}", schema.file()));
            Some(collection("JsonSchemaFileCollection", &uri, "Schemas", all))
        }
        [id] => {
            let schema = schema::SCHEMAS.iter().find(|schema| schema.file() == *id)?;
            let published = format!("{}/{id}.json", schema::PUBLISHED);
            let more = json!({
                "Schema": format!("#{}.{}", schema.file(), schema.name),
                "Languages": ["en"],
                "Location": [{ "Language": "en", "PublicationUri": published }],
            });
            Some(resource(
                "JsonSchemaFile",
                &format!("{uri}/{id}"),
                id,
                &format!("Schema {}", schema.name),
                more,
            ))
        }
        _ => None,
    }
}

/// A reason as a message.
pub(crate) fn message(reason: &str, health: Health) -> Value {
    json!({
        "@odata.type": schema::type_of("Message"),
        "MessageId": format!("{PREFIX}.Reason"),
        "MessageArgs": [reason],
        "Message": reason,
        "MessageSeverity": health.name(),
    })
}
