//! A world with every kind of resource, and requests to it.
#![allow(dead_code, reason = "each test binary uses a part")]

use access::{Caller, Role};
use controller::{Command, Event, Severity};
use redfish::{Answer, Body, Change, Operation, Request, Response, World};
use serde_json::{Value, json};

fn drive(name: &str, state: &str) -> Value {
    json!({
        "name": name, "state": state, "reason": null, "volumes": ["data"], "slot": 0,
        "free_bytes": 1, "stale_regions": 0, "uuid": "00000000-0000-4000-8000-000000000001",
        "size_bytes": 1 << 30, "kind": "file", "identity": name, "logical_sector_bytes": 512,
        "physical_sector_bytes": 4096, "rotational": true, "read_only": false, "medium_errors": 0,
        "model": "M", "serial": "S", "firmware": "F", "enclosure": "e1", "bay": "7", "health": null,
    })
}

/// A volume of a level and a state, on two drives.
pub fn volume(name: &str, uuid: &str, level: &str, state: &str) -> Value {
    let policy = |name: &str, value: &str| {
        json!({
            "name": name, "configured": value, "current": value, "reason": "so", "since_unix_s": 0,
        })
    };
    json!({
        "name": name, "uuid": uuid, "state": state, "reasons": ["a drive is out; replace it"],
        "since_unix_s": 0, "level": level, "spans": 1, "copies": 1, "strip_bytes": 65536,
        "arrangement": "left-symmetric", "sector_bytes": 512, "capacity_bytes": 1 << 30,
        "data_start_bytes": 0, "member_bytes": 0, "array": uuid, "array_volumes": [name],
        "array_free_bytes": 0, "may_lose": 0, "may_lose_at_most": 0, "lost_bytes": 0,
        "drives": [drive("/dev/sda", "online"), drive("/dev/sdb", "failed")], "resync": null,
        "dirty_regions": 0,
        "policies": [policy("write-mode", "write-back"), policy("write-hole", "journal")],
        "cache": {
            "dirty_bytes": 0, "pinned_bytes": 0, "absorbed": 0, "hits": 0, "destages": 0,
            "flushes_to_log": false,
        },
        "hosts": [], "generation": 1, "created_unix_s": 0, "last_seen_unix_s": null,
    })
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

pub const DATA: &str = "11111111-1111-4111-8111-111111111111";
pub const LOOSE: &str = "22222222-2222-4222-8222-222222222222";

fn event(number: u64, code: &str, severity: Severity, subject: &str) -> Event {
    Event {
        number,
        time_unix_s: 1_000_000_000,
        code: code.to_owned(),
        severity,
        subject: subject.to_owned(),
        cause: "a cause".to_owned(),
        effect: "an effect".to_owned(),
        by: None,
        related: None,
        count: 1,
        first_unix_s: None,
        text: "it happened".to_owned(),
    }
}

/// The world.
pub fn world() -> World {
    let account = |name: &str, role: &str| {
        json!({
            "name": name, "role": role, "enabled": true, "must_change": false, "locked_s": null,
        })
    };
    World {
        now_unix_s: 1_700_000_000,
        host: "machine".to_owned(),
        uuid: "00000000-0000-4000-8000-000000000002".to_owned(),
        port: Some(443),
        info: read(json!({
            "version": "1", "started_unix_s": 0, "shards": 1,
            "levels": ["jbod", "raid0", "raid5", "raid5ee", "raid6"], "volumes_optimal": 0,
            "volumes_degraded": 1, "volumes_offline": 0, "volumes_missing": 0, "drives": 3,
            "hosts": 0,
        })),
        volumes: vec![
            read(volume("data", DATA, "raid5", "degraded")),
            read(volume("loose", LOOSE, "jbod", "optimal")),
        ],
        drives: ["/dev/sda", "/dev/sdb", "/dev/sdc"].map(|name| read(drive(name, "online"))).into(),
        spares: vec![read(json!({
            "drive": "/dev/sdc", "kind": "global", "dedicated_to": [], "enclosure": null,
            "revertible": true, "rotational": true, "size_bytes": 1, "ready": true, "reason": null,
            "covers": ["data"],
        }))],
        logs: Vec::new(),
        tasks: vec![read(json!({
            "task": 7, "kind": "rebuild", "subject": "data", "volume": "data", "drive": "/dev/sdb",
            "state": "running", "reason": null, "cause": "a drive failed", "done_blocks": 1,
            "total_blocks": 2, "percent": 50, "rate_mib_s": 1.5, "eta_s": 60, "found": {},
            "blamed": [], "share_percent": 30, "limit_bytes_per_s": null, "started_unix_s": 0,
            "ended_unix_s": null,
        }))],
        events: vec![
            event(1, "controller.started", Severity::Info, "controller"),
            event(2, "volume.started-degraded", Severity::Warning, "data"),
            event(3, "", Severity::Fatal, "/dev/sdb"),
        ],
        accounts: vec![read(account("ada", "administrator")), read(account("rita", "read-only"))],
        sessions: vec![],
        subscriptions: vec![redfish::Subscription {
            id: "1".to_owned(),
            destination: "https://listener/events".to_owned(),
            context: "mine".to_owned(),
            verify_certificate: true,
        }],
        limits: access::Limits::default(),
        session_idle_s: 1800,
    }
}

pub fn caller(name: &str, role: Role) -> Caller {
    Caller {
        user: name.to_owned(),
        origin: controller::Origin::Network { address: "here".to_owned() },
        role,
        account: Some(name.to_owned()),
        session: None,
        must_change: false,
    }
}

pub fn request<'r>(method: &'r str, address: &'r str, body: &'r [u8]) -> Request<'r> {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    Request { method, path, query, body, if_match: None, if_none_match: None, odata_version: None }
}

/// The response to an administrator.
pub fn response(world: &World, request: &Request<'_>) -> Response {
    match redfish::answer(world, Some(&caller("ada", Role::Administrator)), request) {
        Answer::Response(response) => response,
        other => panic!("{request:?}: {other:?}"),
    }
}

/// What an administrator's request changes.
pub fn changed(
    world: &World,
    method: &str,
    address: &str,
    body: Value,
) -> Result<Box<Change>, Response> {
    let body = body.to_string();
    let request = request(method, address, body.as_bytes());
    match redfish::answer(world, Some(&caller("ada", Role::Administrator)), &request) {
        Answer::Change(change) => Ok(change),
        Answer::Response(response) => Err(response),
        Answer::Stream => panic!("{address} is no stream"),
    }
}

/// The commands that a request becomes.
pub fn commands(world: &World, method: &str, address: &str, body: Value) -> Vec<Command> {
    match changed(world, method, address, body) {
        Ok(change) => match change.asked {
            Operation::Commands(commands) => commands,
            other => panic!("{address}: {other:?}"),
        },
        Err(response) => panic!("{address}: {} {}", response.status, json_of(&response)),
    }
}

pub fn json_of(response: &Response) -> Value {
    match &response.body {
        Body::Json(body) => body.clone(),
        other => panic!("{other:?}"),
    }
}

pub fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
}
