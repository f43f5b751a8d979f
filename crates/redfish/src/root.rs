//! The service root and its documents.

use crate::World;
use crate::ids::ROOT;
use crate::json::{link, resource};
use serde_json::{Value, json};

/// The entries of the root, and their addresses.
const BELOW: [(&str, &str); 9] = [
    ("Systems", "Systems"),
    ("Chassis", "Chassis"),
    ("Managers", "Managers"),
    ("SessionService", "SessionService"),
    ("AccountService", "AccountService"),
    ("Tasks", "TaskService"),
    ("EventService", "EventService"),
    ("Registries", "Registries"),
    ("JsonSchemas", "JsonSchemas"),
];

/// `/redfish/v1/`.
pub(crate) fn root(world: &World) -> Value {
    let mut more = json!({
        "RedfishVersion": "1.23.0",
        "UUID": world.uuid,
        "Vendor": "SoftROC",
        "Product": "SoftROC",
        "Links": {
            "Sessions": link(format!("{ROOT}/SessionService/Sessions")),
            "ManagerProvidingService": link(crate::ids::MANAGER),
        },
        "ProtocolFeaturesSupported": {
            "ExpandQuery": {
                "Links": true,
                "NoLinks": true,
                "ExpandAll": true,
                "Levels": true,
                "MaxLevels": crate::query::MOST_LEVELS,
            },
            "SelectQuery": true,
            "FilterQuery": false,
            "OnlyMemberQuery": true,
            "ExcerptQuery": false,
            "TopSkipQuery": true,
            "DeepOperations": { "DeepPATCH": false, "DeepPOST": false },
            "MultipleHTTPRequests": true,
        },
    });
    for (field, segment) in BELOW {
        more[field] = link(format!("{ROOT}/{segment}"));
    }
    let mut root = resource("ServiceRoot", "/redfish/v1/", "RootService", "SoftROC", more);
    root["@odata.id"] = "/redfish/v1/".into();
    root
}

/// `/redfish`.
pub(crate) fn versions() -> Value {
    json!({ "v1": "/redfish/v1/" })
}

/// `/redfish/v1/odata`.
pub(crate) fn service_document() -> Value {
    let entry = |name: &str, uri: String| json!({ "name": name, "kind": "Singleton", "url": uri });
    let mut all = vec![entry("Service", "/redfish/v1/".to_owned())];
    all.extend(BELOW.map(|(name, segment)| entry(name, format!("{ROOT}/{segment}"))));
    json!({ "@odata.context": "/redfish/v1/$metadata", "value": all })
}
