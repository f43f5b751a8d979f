//! A world in which a drive has failed and is being rebuilt.
#![allow(dead_code, reason = "each test binary uses a part")]

use access::{Caller, Role};
use serde_json::{Value, json};
use webconsole::{Query, Viewer, World};

pub const NOW: u64 = 1_700_000_000;

fn drive(name: &str, state: &str, slot: Option<u16>) -> Value {
    let bay = name.trim_start_matches("/dev/sd").bytes().map(|letter| letter - b'a' + 1).next();
    let volumes = if slot.is_some() { json!(["data"]) } else { json!([]) };
    json!({
        "name": name, "state": state, "reason": null, "volumes": volumes, "slot": slot,
        "free_bytes": 0, "stale_regions": 0, "uuid": "00000000-0000-4000-8000-000000000001",
        "size_bytes": 4_000_787_030_016_u64, "kind": "block device", "identity": name,
        "logical_sector_bytes": 512, "physical_sector_bytes": 4096, "rotational": true,
        "read_only": false, "medium_errors": 0, "model": "ST4000NM0025",
        "serial": format!("ZC1{}", bay.unwrap_or_default()), "firmware": "N004", "enclosure": "e1",
        "bay": bay.map(|bay| bay.to_string()), "health": null,
    })
}

fn volume(name: &str, level: &str, state: &str, may_lose: u16) -> Value {
    let policy = |name: &str, value: &str| {
        json!({
            "name": name, "configured": value, "current": value,
            "reason": "answered when the drives have it", "since_unix_s": NOW - 90_000,
        })
    };
    json!({
        "name": name, "uuid": format!("11111111-1111-4111-8111-{:012x}", name.len()),
        "state": state, "reasons": [], "since_unix_s": NOW - 3_600, "level": level, "spans": 1,
        "copies": 1, "strip_bytes": 262_144, "arrangement": "left-symmetric", "sector_bytes": 512,
        "capacity_bytes": 8_u64 << 40, "data_start_bytes": 0, "member_bytes": 0,
        "array": format!("array of {name}"), "array_volumes": [name], "array_free_bytes": 0,
        "may_lose": may_lose, "may_lose_at_most": may_lose, "lost_bytes": 0, "drives": [],
        "resync": null, "dirty_regions": 0,
        "policies": [policy("write-mode", "write-through"), policy("write-hole", "journal")],
        "cache": {"dirty_bytes": 0, "pinned_bytes": 0, "absorbed": 0, "hits": 0, "destages": 0},
        "hosts": [], "generation": 1, "created_unix_s": 0, "last_seen_unix_s": null,
    })
}

fn event(number: u64, severity: &str, subject: &str, text: &str) -> Value {
    json!({
        "number": number, "time_unix_s": NOW - 3_600, "code": "drive.failed", "severity": severity,
        "subject": subject, "cause": "an I/O error", "effect": "its volumes go on without it",
        "text": text,
    })
}

fn health() -> Value {
    let sentence = "volume 'data' is degraded: it lacks redundancy on a drive that is filled, \
        and the next failure of a drive can take data with it; its rebuild is at 43 %, \
        about 2 h 10 min left";
    json!({
        "status": "critical",
        "sentence": format!("{sentence}; one more thing needs attention"),
        "findings": [
            {
                "status": "critical", "subject": "volume data", "what": sentence,
                "todo": "wait: softroc task follow 7",
            },
            {
                "status": "warning", "subject": "drive /dev/sdb",
                "what": "drive /dev/sdb (slot data:1) is failed: an I/O error",
                "todo": "softroc drive replace data:1 --with NEW-DRIVE",
            },
        ],
    })
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// The world.
pub fn world() -> World {
    let drives = json!([
        drive("/dev/sda", "online", Some(0)),
        drive("/dev/sdb", "failed", Some(1)),
        drive("/dev/sdc", "online", Some(2)),
        drive("/dev/sdd", "rebuilding", Some(1)),
        drive("/dev/sde", "spare", None),
    ]);
    let mut data = volume("data", "raid5", "degraded", 0);
    data["drives"] = json!([drives[0], drives[3], drives[2]]);
    World {
        now_unix_s: NOW,
        host: "store1".to_owned(),
        info: read(json!({
            "version": "0.1.0", "started_unix_s": 0, "shards": 2, "levels": ["raid5", "raid6"],
            "volumes_optimal": 2, "volumes_degraded": 1, "volumes_offline": 0, "volumes_missing": 0,
            "drives": 5, "hosts": 0,
        })),
        health: read(health()),
        volumes: read(json!([
            volume("backup", "raid6", "optimal", 2),
            data,
            volume("home", "raid1", "optimal", 1)
        ])),
        drives: read(drives),
        spares: read(json!([{
            "drive": "/dev/sde", "kind": "global", "dedicated_to": [], "enclosure": "e1",
            "revertible": true, "rotational": true, "size_bytes": 4_000_787_030_016_u64,
            "ready": true, "reason": null, "covers": ["data"],
        }])),
        coverage: read(json!([{
            "volumes": ["data"], "needs_bytes": 4_000_000_000_000_u64, "needs_rotational": true,
            "covered_by": ["/dev/sde"], "reasons": [],
        }])),
        tasks: read(json!([{
            "task": 7, "kind": "rebuild", "subject": "/dev/sdd", "volume": "data",
            "drive": "/dev/sdd", "state": "running", "reason": null, "cause": "a drive failed",
            "done_blocks": 43, "total_blocks": 100, "percent": 43, "rate_mib_s": 180.0,
            "eta_s": 7_800, "found": {}, "blamed": [], "share_percent": 30,
            "limit_bytes_per_s": null, "started_unix_s": NOW - 3_600, "ended_unix_s": null,
        }])),
        events: read(json!([
            event(1, "info", "controller", "the controller started"),
            event(2, "critical", "/dev/sdb", "drive /dev/sdb <failed> & 'data' goes on without it"),
        ])),
        answers: Vec::new(),
        upkeep: None,
        traffic: Vec::new(),
        workbench: webconsole::Workbench::default(),
        foreseen: Vec::new(),
        notes: Vec::new(),
    }
}

pub fn viewer(role: Role) -> Viewer {
    let caller = Caller {
        user: "ada".to_owned(),
        origin: controller::Origin::Network { address: "here".to_owned() },
        role,
        account: Some("ada".to_owned()),
        session: Some("1".to_owned()),
        must_change: false,
    };
    Viewer { caller, token: "t0ken".to_owned() }
}

pub fn query(fields: &[(&str, &str)]) -> Query {
    Query(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// The complete page at an address.
pub fn html(world: &World, role: Role, name: &str, fields: &[(&str, &str)]) -> String {
    let (viewer, query) = (viewer(role), query(fields));
    webconsole::page(world, &viewer, name, &query).html(world, &viewer, &query)
}
