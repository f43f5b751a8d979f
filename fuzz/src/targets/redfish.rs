//! Requests to Redfish, and commands as JSON.
//!
//! An input is a request: a byte for the user, a line `METHOD ADDRESS`, header lines up to an empty
//! line, and the body.

#[path = "../../../crates/redfish/tests/world/mod.rs"]
mod world;

use access::{Action, Role};
use redfish::{Answer, ChangeResult, Operation, Request, Response};

/// Sends a request, and checks the reply.
pub(super) fn request(input: &[u8]) {
    let Some((by, rest)) = input.split_first() else { return };
    let end = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
    let (head, body) =
        (String::from_utf8_lossy(&rest[..end]), rest.get(end + 2..).unwrap_or_default());
    let mut lines = head.lines();
    let (method, address) = lines.next().unwrap_or_default().split_once(' ').unwrap_or_default();
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let header =
        |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let asked = Request {
        method,
        path,
        query,
        body,
        if_match: header("if-match"),
        if_none_match: header("if-none-match"),
        odata_version: header("odata-version"),
    };
    answered(*by, &asked);
    // Request bodies are also decoded as commands.
    if let Ok(command) = serde_json::from_slice::<controller::Command>(body) {
        let text = serde_json::to_vec(&command).expect("a command can be written");
        assert_eq!(
            serde_json::from_slice::<controller::Command>(&text).ok().as_ref(),
            Some(&command)
        );
        let _ = Action::of(&command);
    }
}

fn answered(by: u8, asked: &Request<'_>) {
    let world = world::world();
    let role = Role::ALL[usize::from(by) % 3];
    let mut caller = world::caller("ada", role);
    caller.must_change = by & 4 != 0;
    let known = (by & 8 == 0).then_some(&caller);
    match redfish::answer(&world, known, asked) {
        Answer::Response(response) => looks_right(&response),
        Answer::Stream => assert!(known.is_some(), "events require a login"),
        Answer::Change(change) => {
            let signs_in = matches!(change.asked, Operation::OpenSession { .. });
            assert!(known.is_some() || signs_in, "changes require a login");
            let concerns_accounts =
                matches!(change.asked, Operation::AddAccount { .. } | Operation::RemoveAccount(_));
            assert!(
                !concerns_accounts || role == Role::Administrator,
                "accounts and subscriptions are for administrators"
            );
            looks_right(&redfish::finished(&world, asked.path, &change, Ok(ChangeResult::Nothing)));
        }
    }
}

fn looks_right(response: &Response) {
    assert!((200..600).contains(&response.status));
    for (name, value) in &response.headers {
        assert!(!value.contains(['\r', '\n']), "{name}: {value:?}");
    }
    if let (400.., redfish::Body::Json(body)) = (response.status, &response.body) {
        assert!(body["error"]["@Message.ExtendedInfo"].is_array(), "{body}");
    }
}

/// Words for mutations.
pub(super) const WORDS: &[&str] = &[
    "/redfish/v1/Systems/host/Storage/softroc/Volumes",
    "/redfish/v1/AccountService/Accounts/ada",
    "/redfish/v1/SessionService/Sessions",
    "/redfish/v1/TaskService/TaskMonitors/7",
    "/11111111-1111-4111-8111-111111111111",
    "/Actions/Volume.Initialize",
    "/Members",
    "$expand=*($levels=2)",
    "$select=",
    "$top=",
    "@odata.id",
    "RAIDType",
    "Links",
    "Password",
    "HotspareType",
    "PATCH ",
    "DELETE ",
];

/// Seed requests.
pub fn redfish() -> Vec<Vec<u8>> {
    let volumes = "/redfish/v1/Systems/host/Storage/softroc/Volumes";
    let volume = format!("{volumes}/11111111-1111-4111-8111-111111111111");
    let accounts = "/redfish/v1/AccountService/Accounts";
    let drive = "/redfish/v1/Chassis/host/Drives";
    [
        format!("GET {volumes}?$expand=*($levels=2)&$top=1&$skip=1\nif-none-match: \"x\", *\n\n"),
        format!("GET {volume}?$select=Name,Status/Health\nodata-version: 4.0\n\n"),
        "GET /redfish/v1/$metadata\n\n".to_owned(),
        "GET /redfish/v1/Managers/softroc/LogServices/Log/Entries?$expand=.\n\n".to_owned(),
        "GET /redfish/v1/TaskService/TaskMonitors/7\n\n".to_owned(),
        format!(
            "POST {volumes}\n\n{{\"RAIDType\":\"RAID5\",\"Name\":\"v\",\"CapacityBytes\":1048576,\
             \"StripSizeBytes\":65536,\"MediaSpanCount\":1,\"WriteCachePolicy\":\"WriteThrough\",\
             \"Links\":{{\"Drives\":[{{\"@odata.id\":\"{drive}/x\"}}]}}}}"
        ),
        format!(
            "PATCH {volume}\nif-match: W/\"0\"\n\n{{\"DisplayName\":\"w\",\
             \"Links\":{{\"DedicatedSpareDrives\":[]}},\"Status\":{{}}}}"
        ),
        format!("POST {volume}/Actions/Volume.Initialize\n\n{{\"InitializeType\":\"Slow\"}}"),
        format!("DELETE {volume}\n\n"),
        format!(
            "POST {accounts}\n\n{{\"UserName\":\"eve\",\"Password\":\"long enough\",\
             \"RoleId\":\"Operator\",\"Enabled\":false}}"
        ),
        format!(
            "PATCH {accounts}/ada\n\n{{\"Password\":\"long enough\",\"Locked\":false,\
             \"PasswordChangeRequired\":true}}"
        ),
        "POST /redfish/v1/SessionService/Sessions/Members\n\n{\"UserName\":\"ada\",\
         \"Password\":\"long enough\"}"
            .to_owned(),
        "POST /redfish/v1/EventService/Subscriptions\n\n\
         {\"Destination\":\"https://host/x\",\"Protocol\":\"Redfish\",\
         \"EventTypes\":[\"Alert\"]}"
            .to_owned(),
        "POST /v1/command\n\n{\"command\":\"volume-create\",\"name\":\"v\",\
         \"level\":\"raid5\",\"drives\":[\"a\"]}"
            .to_owned(),
    ]
    .iter()
    .zip(0..)
    .flat_map(|(text, number)| [2, number % 16].map(|by| [&[by], text.as_bytes()].concat()))
    .collect()
}
