//! Changes become commands, or are refused with the invalid properties.

mod world;

use access::Role;
use controller::{Command, CreateVolume, Error, ErrorKind, ReadMode, WriteHole, WriteMode};
use redfish::{Answer, ChangeResult, Operation};
use serde_json::{Value, json};
use world::{DATA, LOOSE, caller, changed, commands, header, json_of, request};

const VOLUMES: &str = "/redfish/v1/Systems/host/Storage/softroc/Volumes";
const SUBSCRIPTIONS: &str = "/redfish/v1/EventService/Subscriptions";
const ACCOUNTS: &str = "/redfish/v1/AccountService/Accounts";

fn drives() -> Vec<String> {
    let world = world::world();
    let body =
        json_of(&world::response(&world, &request("GET", "/redfish/v1/Chassis/host/Drives", b"")));
    let members = body["Members"].as_array().expect("members").iter();
    members.map(|link| link["@odata.id"].as_str().expect("a link").to_owned()).collect()
}

fn links(addresses: &[String]) -> Value {
    addresses.iter().map(|address| json!({"@odata.id": address})).collect()
}

/// The messages of a refusal.
fn refused(method: &str, address: &str, body: Value) -> (u16, Vec<String>) {
    let response = changed(&world::world(), method, address, body).expect_err("it is refused");
    let body = json_of(&response);
    let messages = body["error"]["@Message.ExtendedInfo"].as_array().expect("messages").iter();
    let id = |message: &Value| {
        let id = message["MessageId"]
            .as_str()
            .expect("an id")
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .to_owned();
        let about = message["RelatedProperties"][0].as_str().unwrap_or_default();
        format!("{id}{about}")
    };
    (response.status, messages.map(id).collect())
}

#[test]
fn a_volume_is_made_as_it_is_asked_for() {
    let world = world::world();
    let drives = drives();
    let body = json!({
        "RAIDType": "RAID5", "Name": "new", "CapacityBytes": 1 << 20, "StripSizeBytes": 65536,
        "WriteCachePolicy": "UnprotectedWriteBack", "WriteHoleProtectionPolicy": "Off",
        "ReadCachePolicy": "AdaptiveReadAhead", "@Redfish.OperationApplyTime": "Immediate",
        "Links": {"Drives": links(&drives)},
    });
    let expected = Command::VolumeCreate(CreateVolume {
        name: "new".to_owned(),
        level: "raid5".to_owned(),
        drives: ["/dev/sda", "/dev/sdb", "/dev/sdc"].map(str::to_owned).into(),
        strip_bytes: Some(65536),
        size_bytes: Some(1 << 20),
        write_hole: Some(WriteHole::Resync),
        write_mode: Some(WriteMode::WriteBack),
        read_mode: Some(ReadMode::ReadAhead),
        ..CreateVolume::default()
    });
    for address in [VOLUMES.to_owned(), format!("{VOLUMES}/Members"), format!("{VOLUMES}/")] {
        assert_eq!(
            commands(&world, "POST", &address, body.clone()),
            std::slice::from_ref(&expected),
            "{address}"
        );
    }
    let unnamed = json!({"RAIDType": "RAID0", "Links": {"Drives": links(&drives)}});
    let [Command::VolumeCreate(create)] = &commands(&world, "POST", VOLUMES, unnamed)[..] else {
        panic!()
    };
    assert!(create.name == "volume1" && !create.destroy_data);
}

#[test]
fn what_is_wrong_with_a_new_volume_is_all_told() {
    let all = json!({
        "RAIDType": "RAID7", "Name": 7, "CapacityBytes": -1, "Encrypted": true,
        "WriteCachePolicy": "ProtectedWriteBack", "Status": {}, "Nonsense": 1,
        "Links": {"Drives": [{"@odata.id": "/redfish/v1/nowhere"}]},
    });
    let (status, mut messages) = refused("POST", VOLUMES, all);
    messages.sort();
    let expected = [
        "PropertyNotWritable#/Status",
        "PropertyUnknown#/Nonsense",
        "PropertyValueError#/Links/Drives",
        "PropertyValueNotInList#/Encrypted",
        "PropertyValueNotInList#/RAIDType",
        "PropertyValueNotInList#/WriteCachePolicy",
        "PropertyValueTypeError#/CapacityBytes",
        "PropertyValueTypeError#/Name",
    ];
    assert_eq!((status, &messages[..]), (400, &expected.map(str::to_owned)[..]));
    let (_, missing) = refused("POST", VOLUMES, json!({"Name": "new"}));
    assert_eq!(missing, ["PropertyMissing#/Links/Drives", "PropertyMissing#/RAIDType"]);
    for (body, key) in [
        ("{", "MalformedJSON"),
        ("[]", "UnrecognizedRequestBody"),
        ("{}", "EmptyJSON"),
        ("\u{0}", "MalformedJSON"),
    ] {
        let response = world::response(&world::world(), &request("POST", VOLUMES, body.as_bytes()));
        assert_eq!(json_of(&response)["error"]["code"], format!("Base.1.22.{key}"));
    }
}

#[test]
fn a_volume_is_changed_and_what_cannot_be_is_said() {
    let world = world::world();
    let volume = format!("{VOLUMES}/{DATA}");
    let body =
        json!({"DisplayName": "home", "WriteCachePolicy": "WriteThrough", "CapacityBytes": 7});
    let mut change = changed(&world, "PATCH", &volume, body).expect("a part is good");
    let Operation::Commands(asked) =
        std::mem::replace(&mut change.asked, Operation::Commands(Vec::new()))
    else {
        panic!()
    };
    let names: Vec<Value> = asked
        .iter()
        .map(|command| serde_json::to_value(command).unwrap()["command"].clone())
        .collect();
    assert_eq!(names, ["volume-policy", "volume-set"]);
    let response =
        redfish::finished(&world, &volume, &change, Ok(ChangeResult::Replies(Vec::new())));
    let body = json_of(&response);
    let left_out = &body["CapacityBytes@Message.ExtendedInfo"][0]["MessageId"];
    assert_eq!((response.status, left_out), (200, &json!("Base.1.22.PropertyNotWritable")));
    assert_eq!(
        refused("PATCH", &volume, json!({"CapacityBytes": 7})),
        (400, vec!["PropertyNotWritable#/CapacityBytes".to_owned()])
    );
    assert_eq!(
        refused("PATCH", &volume, json!({"@odata.id": "x"})),
        (400, vec!["NoOperation".to_owned()])
    );
    let spare = json!({"Links": {"DedicatedSpareDrives": links(&drives()[2..])}});
    let spares = commands(&world, "PATCH", &volume, spare);
    let [Command::SpareAdd(add)] = &spares[..] else { panic!("{spares:?}") };
    assert!(add.drive == "/dev/sdc" && add.volumes == ["data"]);
}

#[test]
fn actions_are_tasks_and_a_jbod_that_is_served_stays() {
    let world = world::world();
    let act = |action: &str, body: Value| {
        commands(&world, "POST", &format!("{VOLUMES}/{DATA}/Actions/{action}"), body)
    };
    let what = |commands: &[Command]| serde_json::to_value(&commands[0]).unwrap()["what"].clone();
    assert_eq!(what(&act("Volume.CheckConsistency", json!({}))), "check");
    assert_eq!(what(&act("Volume.Initialize", json!({"InitializeType": "Slow"}))), "init-full");
    assert_eq!(what(&act("Volume.Initialize", json!({}))), "init-fast");
    assert!(matches!(
        &act("Volume.ForceEnable", json!({}))[..],
        [Command::VolumeStart { degraded: true, .. }]
    ));
    assert!(matches!(
        &commands(&world, "DELETE", &format!("{VOLUMES}/{DATA}"), json!({}))[..],
        [Command::VolumeDelete { disconnect_hosts: false, .. }]
    ));
    let (status, messages) = refused("DELETE", &format!("{VOLUMES}/{LOOSE}"), json!({}));
    assert_eq!((status, &messages[0][..]), (409, "ResourceCannotBeDeleted"));
    assert_eq!(
        refused("POST", &format!("{VOLUMES}/{DATA}/Actions/Volume.Nonsense"), json!({})).0,
        404
    );
    assert_eq!(refused("PUT", VOLUMES, json!({})).0, 405);
    let busy = Error::new(ErrorKind::InUse, "hosts are connected");
    let change = changed(&world, "DELETE", &format!("{VOLUMES}/{DATA}"), json!({})).unwrap();
    assert_eq!(redfish::finished(&world, VOLUMES, &change, Err(busy)).status, 409);
}

#[test]
fn a_drive_becomes_a_spare_and_is_none_any_more() {
    let world = world::world();
    let drives = drives();
    let spare = commands(
        &world,
        "PATCH",
        &drives[0],
        json!({"HotspareType": "Global", "HotspareReplacementMode": "NonRevertible"}),
    );
    let [Command::SpareAdd(add)] = &spare[..] else { panic!("{spare:?}") };
    assert!(add.drive == "/dev/sda" && !add.revertible && !add.destroy_data);
    let none = commands(&world, "PATCH", &drives[2], json!({"HotspareType": "None"}));
    assert!(matches!(&none[..], [Command::SpareRemove { drive }] if drive == "/dev/sdc"));
    assert_eq!(refused("PATCH", &drives[0], json!({"HotspareType": "Dedicated"})).0, 400);
    assert_eq!(
        refused("PATCH", &drives[0], json!({"HotspareReplacementMode": "Revertible"})).0,
        400
    );
}

fn subscription(destination: &str) -> Value {
    json!({
        "Destination": destination, "Protocol": "Redfish", "Context": "c",
        "EventTypes": ["Alert"],
    })
}

#[test]
fn events_are_sent_where_they_can_be() {
    let world = world::world();
    for fine in ["http://host/path", "https://[::1]:8443/", "https://host:1"] {
        let change = changed(&world, "POST", SUBSCRIPTIONS, subscription(fine))
            .unwrap_or_else(|refused| panic!("{fine}: {refused:?}"));
        assert!(
            matches!(&change.asked, Operation::Subscribe { destination, .. } if destination == fine)
        );
    }
    for wrong in [
        "",
        "host",
        "ftp://host/",
        "http://",
        "http:///x",
        "http://ada:pw@host/",
        "http://ho st/",
        "http://h\r\nx/",
    ] {
        assert_eq!(
            refused("POST", SUBSCRIPTIONS, subscription(wrong)).1,
            ["PropertyValueFormatError#/Destination"],
            "{wrong}"
        );
    }
    let more = json!({
        "Destination": "http://host/", "VerifyCertificate": "yes",
        "EventFormatType": "MetricReport", "HttpHeaders": [],
    });
    let (_, mut messages) = refused("POST", SUBSCRIPTIONS, more);
    messages.sort();
    let expected = [
        "PropertyMissing#/Protocol",
        "PropertyUnknown#/HttpHeaders",
        "PropertyValueNotInList#/EventFormatType",
        "PropertyValueTypeError#/VerifyCertificate",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn subscriptions_are_changed_and_removed_by_administrators() {
    let world = world::world();
    let one = format!("{SUBSCRIPTIONS}/1");
    let removed = changed(&world, "DELETE", &one, json!({})).map(|change| change.asked);
    assert!(matches!(removed, Ok(Operation::Unsubscribe(_))));
    let set = changed(&world, "PATCH", &one, json!({"Context": "d"})).map(|change| change.asked);
    assert!(matches!(set, Ok(Operation::SetSubscription { .. })));
    let verified =
        json!({"Destination": "https://host/", "Protocol": "Redfish", "VerifyCertificate": true});
    assert!(matches!(
        changed(&world, "POST", SUBSCRIPTIONS, verified).map(|change| change.asked),
        Ok(Operation::Subscribe { verify_certificate: true, .. })
    ));
    let unverified = json!({"VerifyCertificate": false});
    assert!(matches!(
        changed(&world, "PATCH", &one, unverified).map(|change| change.asked),
        Ok(Operation::SetSubscription { context: None, verify_certificate: Some(false), .. })
    ));
    let otto = caller("otto", Role::Operator);
    let body = subscription("http://host/").to_string();
    let answer =
        redfish::answer(&world, Some(&otto), &request("POST", SUBSCRIPTIONS, body.as_bytes()));
    assert!(matches!(answer, Answer::Response(response) if response.status == 403));
}

#[test]
fn accounts_are_for_administrators_but_ones_own_password() {
    let world = world::world();
    let rita = caller("rita", Role::ReadOnly);
    let status = |method: &str, address: &str, body: Value| {
        let body = body.to_string();
        match redfish::answer(&world, Some(&rita), &request(method, address, body.as_bytes())) {
            Answer::Response(response) => response.status,
            Answer::Change(_) => 0,
            Answer::Stream => 1,
        }
    };
    let own = format!("{ACCOUNTS}/rita");
    assert_eq!(status("PATCH", &own, json!({"Password": "another one"})), 0);
    assert_eq!(
        status("PATCH", &own, json!({"Password": "another one", "RoleId": "Administrator"})),
        403
    );
    assert_eq!(status("PATCH", &own, json!({"Enabled": true})), 403);
    assert_eq!(
        status("PATCH", &format!("{ACCOUNTS}/ada"), json!({"Password": "another one"})),
        403
    );
    assert_eq!(status("POST", ACCOUNTS, json!({"UserName": "eve"})), 403);
    assert_eq!(status("DELETE", &format!("{ACCOUNTS}/ada"), json!({})), 403);
    assert_eq!(status("PATCH", "/redfish/v1/AccountService/Roles/ReadOnly", json!({})), 405);
    let (_, messages) = refused(
        "POST",
        ACCOUNTS,
        json!({"UserName": "eve", "RoleId": "Root", "Password": 12345678}),
    );
    assert_eq!(messages, ["PropertyValueTypeError#/Password", "PropertyValueNotInList#/RoleId"]);
    let secret =
        changed(&world, "POST", ACCOUNTS, json!({"UserName": "eve", "Password": {"a": "s3cret"}}))
            .expect_err("it is refused");
    assert!(!json_of(&secret).to_string().contains("s3cret"), "a password is not repeated");
    let change = changed(
        &world,
        "POST",
        ACCOUNTS,
        json!({"UserName": "ada", "RoleId": "Operator", "Password": "long enough"}),
    )
    .unwrap();
    let response = redfish::finished(&world, ACCOUNTS, &change, Ok(ChangeResult::Nothing));
    assert_eq!(
        (response.status, header(&response, "Location")),
        (201, Some("/redfish/v1/AccountService/Accounts/ada"))
    );
}
