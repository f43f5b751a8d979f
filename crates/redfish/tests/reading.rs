//! Reads: every link has a target, every ETag changes with its content, and queries work.

mod world;

use access::Role;
use redfish::{Answer, Request};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use world::{DATA, caller, header, json_of, request, response};

const VOLUMES: &str = "/redfish/v1/Systems/host/Storage/softroc/Volumes";

fn links_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("@odata.id").and_then(Value::as_str).map(str::to_owned));
            found.extend(object.get("Uri").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| links_in(value, found));
        }
        Value::Array(all) => all.iter().for_each(|value| links_in(value, found)),
        _ => {}
    }
}

/// All resources that are reachable from the root.
fn everything() -> BTreeMap<String, Value> {
    let world = world::world();
    let (mut open, mut seen) = (BTreeSet::from(["/redfish/v1/".to_owned()]), BTreeMap::new());
    while let Some(address) = open.pop_first() {
        let response = response(&world, &request("GET", &address, b""));
        assert_eq!(response.status, 200, "{address}");
        let body = json_of(&response);
        assert!(
            header(&response, "Allow").is_some_and(|allow| allow.starts_with("GET, HEAD")),
            "{address}"
        );
        assert_eq!(
            header(&response, "ETag"),
            body.get("@odata.etag").and_then(Value::as_str),
            "{address}"
        );
        let mut links = BTreeSet::new();
        links_in(&body, &mut links);
        seen.insert(address, body);
        open.extend(links.into_iter().filter(|link| !seen.contains_key(link)));
    }
    seen
}

#[test]
fn every_link_leads_to_a_resource_of_that_address_and_a_known_type() {
    let everything = everything();
    assert!(everything.len() > 70, "{}", everything.len());
    let metadata =
        match response(&world::world(), &request("GET", "/redfish/v1/$metadata", b"")).body {
            redfish::Body::Xml(text) => text,
            other => panic!("{other:?}"),
        };
    for (address, body) in &everything {
        if let Some(own) = body.get("@odata.id") {
            assert_eq!(own, address);
        }
        let kind = body["@odata.type"].as_str().expect("a type");
        let schema = kind.trim_start_matches('#').rsplit_once('.').expect("a schema").0;
        assert!(metadata.contains(&format!("Namespace=\"{schema}\"")), "{address}: {schema}");
        if let Some(members) = body.get("Members").and_then(Value::as_array) {
            assert_eq!(body["Members@odata.count"], members.len(), "{address}");
        }
    }
}

#[test]
fn what_is_not_public_takes_an_account() {
    let world = world::world();
    let public =
        ["/redfish", "/redfish/v1", "/redfish/v1/", "/redfish/v1/odata", "/redfish/v1/$metadata"];
    let status = |address: &str| match redfish::answer(&world, None, &request("GET", address, b""))
    {
        Answer::Response(response) => {
            (response.status, header(&response, "WWW-Authenticate").is_some())
        }
        other => panic!("{other:?}"),
    };
    for address in public {
        assert_eq!(status(address), (200, false), "{address}");
    }
    for address in everything().keys().filter(|address| !public.contains(&address.as_str())) {
        assert_eq!(status(address), (401, true), "{address}");
    }
    assert_eq!(
        status("/redfish/v1/nowhere"),
        (401, true),
        "existing and unknown addresses look the same"
    );
}

#[test]
fn a_password_that_has_to_be_changed_comes_first() {
    let world = world::world();
    let mut ada = caller("ada", Role::Administrator);
    ada.must_change = true;
    let status = |method: &str, address: &str| match redfish::answer(
        &world,
        Some(&ada),
        &request(method, address, b"{\"Password\": \"another one\"}"),
    ) {
        Answer::Response(response) => response.status,
        _ => 0,
    };
    assert_eq!(status("GET", VOLUMES), 403);
    assert_eq!(status("POST", VOLUMES), 403);
    assert_eq!(status("GET", "/redfish/v1/AccountService/Accounts/rita"), 403);
    assert_eq!(status("GET", "/redfish/v1/AccountService/Accounts/ada"), 200);
    assert_eq!(status("PATCH", "/redfish/v1/AccountService/Accounts/ada"), 0, "it is changed");
    assert_eq!(status("GET", "/redfish/v1/"), 200);
}

#[test]
fn a_revision_changes_with_what_it_is_of_and_with_nothing_else() {
    let mut world = world::world();
    let tag = |world: &redfish::World, address: &str| {
        header(&response(world, &request("GET", address, b"")), "ETag")
            .expect("a revision")
            .to_owned()
    };
    let (volume, manager) = (format!("{VOLUMES}/{DATA}"), "/redfish/v1/Managers/softroc");
    let before = (tag(&world, &volume), tag(&world, manager));
    world.now_unix_s += 100;
    assert_eq!(before, (tag(&world, &volume), tag(&world, manager)));
    world.volumes[0].capacity_bytes += 1;
    assert_ne!(before.0, tag(&world, &volume));
    assert_eq!(before.1, tag(&world, manager));
    let now = tag(&world, &volume);
    let conditional = |if_none_match: &str| {
        let asked = Request { if_none_match: Some(if_none_match), ..request("GET", &volume, b"") };
        response(&world, &asked).status
    };
    assert_eq!([conditional(&now), conditional("*"), conditional(&before.0)], [304, 304, 200]);
    assert_eq!(conditional(now.trim_start_matches("W/")), 304);
    let old =
        Request { if_match: Some(&before.0), ..request("PATCH", &volume, b"{\"Name\": \"new\"}") };
    assert_eq!(response(&world, &old).status, 412);
    let wrong = Request { odata_version: Some("4.1"), ..request("GET", &volume, b"") };
    assert_eq!(response(&world, &wrong).status, 412);
}

#[test]
fn queries_take_in_and_leave_out() {
    let world = world::world();
    let asked = |address: &str| json_of(&response(&world, &request("GET", address, b"")));
    let expanded = asked(&format!("{VOLUMES}?$expand=.&$top=1"));
    assert_eq!(expanded["Members"][0]["RAIDType"], "RAID5");
    assert_eq!(
        expanded["Members"][0]["Links"]["Drives"][0].as_object().map(serde_json::Map::len),
        Some(1)
    );
    assert_eq!(expanded["Members@odata.count"], 2);
    assert_eq!(expanded["Members@odata.nextLink"], format!("{VOLUMES}?$skip=1&$top=1"));
    let deeper = asked(&format!("{VOLUMES}?$expand=*($levels=2)"));
    assert_eq!(deeper["Members"][0]["Links"]["Drives"][0]["MediaType"], "HDD");
    let links = asked(&format!("{VOLUMES}/{DATA}?$expand=~"));
    assert_eq!(links["Links"]["Drives"][0]["MediaType"], "HDD");
    let selected = asked(&format!("{VOLUMES}/{DATA}?$select=Name,Status/Health"));
    assert_eq!(
        (&selected["Name"], &selected["Status"]),
        (&json!("data"), &json!({"Health": "Critical"}))
    );
    assert_eq!(asked("/redfish/v1/Systems?only")["Id"], "host");
    for (wrong, status) in [
        ("$filter=x", 501),
        ("$expand=.($levels=9)", 400),
        ("only&$top=1", 400),
        ("$skip=9", 400),
        ("only=1", 400),
    ] {
        let address = format!("{VOLUMES}?{wrong}");
        let response = response(&world, &request("GET", &address, b""));
        assert_eq!(response.status, status, "{wrong}");
        let info = json_of(&response)["error"]["@Message.ExtendedInfo"][0]["MessageId"].clone();
        assert!(info.as_str().is_some_and(|id| id.starts_with("Base.1.22.Query")), "{info}");
    }
    assert_eq!(
        response(&world, &request("GET", &format!("{VOLUMES}/{DATA}?$top=1"), b"")).status,
        400
    );
    assert_eq!(response(&world, &request("GET", &format!("{VOLUMES}?unknown=1"), b"")).status, 200);
}

#[test]
fn levels_and_states_are_told_as_they_are() {
    let mut world = world::world();
    for (level, copies, told) in [
        ("raid5ee", 1, "RAID5"),
        ("jbod", 1, "None"),
        ("raid1", 3, "RAID1Triple"),
        ("raid10", 2, "RAID10"),
        ("raid1e", 2, "RAID1E"),
        ("raid60", 1, "RAID60"),
    ] {
        world.volumes[0].level = level.to_owned();
        world.volumes[0].copies = copies;
        let body = json_of(&response(&world, &request("GET", &format!("{VOLUMES}/{DATA}"), b"")));
        assert_eq!(body["RAIDType"], told);
        assert!(
            body["Description"].as_str().is_some_and(|text| text.starts_with(level)),
            "it is said which"
        );
        assert_eq!(body["WriteCachePolicy"], "UnprotectedWriteBack");
        assert_eq!(body["WriteHoleProtectionPolicy"], "DistributedLog");
        assert_eq!(body["Status"]["Conditions"][0]["Message"], "a drive is out; replace it");
        assert_eq!(
            body["Operations"][0],
            json!({"Operation": "Rebuild", "PercentageComplete": 50})
        );
    }
}
