//! The matrix of roles and actions is complete, and maps each command to the intended action.

use access::{Action, Caller, Role};
use controller::{Command, ErrorKind};
use serde_json::json;
use std::collections::BTreeSet;

/// Commands without an argument.
const LISTS: [&str; 12] = [
    "drive-list",
    "volume-list",
    "log-list",
    "cache-list",
    "metrics",
    "counters",
    "health",
    "alarm-show",
    "spare-list",
    "disk-list",
    "foreign-list",
    "task-list",
];

/// Commands with a drive.
const DRIVES: [&str; 8] = [
    "drive-add",
    "drive-show",
    "drive-fail",
    "drive-offline",
    "drive-online",
    "drive-suspend",
    "drive-resume",
    "drive-clear-failed",
];

/// A command of every kind; both forms of a command whose forms need different roles.
fn commands() -> Vec<(serde_json::Value, &'static str)> {
    let named = |names: &[&'static str],
                 fields: serde_json::Value|
     -> Vec<(serde_json::Value, &'static str)> {
        let one = |name: &&'static str| {
            let mut value = fields.clone();
            value["command"] = json!(name);
            (value, *name)
        };
        names.iter().map(one).collect()
    };
    let volumes = [
        "volume-show",
        "volume-delete",
        "volume-forget",
        "volume-start",
        "volume-flush",
        "log-discard",
    ];
    let tasks = ["task-show", "task-pause", "task-resume", "task-stop", "task-set"];
    let start = |what: &str| json!({"command": "task-start", "what": what, "volume": "v"});
    let mut all = [
        named(&LISTS, json!({})),
        named(&["schedule-list", "events-list", "audit-list", "info", "shutdown"], json!({})),
        named(&DRIVES, json!({"drive": "d"})),
        named(&["drive-forget", "log-remove", "spare-add", "spare-remove"], json!({"drive": "d"})),
        named(&["drive-replace"], json!({"drive": "d", "with": "e"})),
        named(&["drive-rescan"], json!({"drive": "d"})),
        named(&["numbers-set"], json!({})),
        named(&["cache-remove"], json!({"memory": "m"})),
        named(&["volume-attach"], json!({"volume": "v", "read_only": false})),
        named(&["volume-detach"], json!({"volume": "v", "force": false})),
        named(&["alarm-set"], json!({"to": "silence"})),
        named(&["drive-locate"], json!({"drive": "d", "on": true})),
        named(&volumes, json!({"volume": "v"})),
        named(&["volume-policy", "volume-reshape", "foreign-import"], json!({"volume": "v"})),
        named(&["volume-set"], json!({"volume": "v", "name": "w"})),
        named(&["volume-create"], json!({"name": "v", "level": "raid5"})),
        named(&["log-add", "foreign-clear"], json!({"drives": ["d"]})),
        named(&tasks, json!({"task": 1})),
        named(&["task-schedule"], json!({"what": "patrol"})),
        named(&["explain"], json!({"operation": "read", "offset_bytes": 0, "size_bytes": 1})),
    ]
    .concat();
    all.extend(["check", "repair", "patrol", "rebuild"].map(|what| (start(what), "task-start")));
    all.extend(["init-full", "init-fast"].map(|what| (start(what), "task-start-init")));
    let forced = |flag: &str| json!({"command": "volume-start", "volume": "v", flag: true});
    all.extend(
        ["accept_stale_parity", "degraded"].map(|flag| (forced(flag), "volume-start-forced")),
    );
    let policy =
        |name: &str, value: &str| json!({"command": "volume-policy", "volume": "v", name: value});
    all.push((policy("write_mode", "always-write-back"), "volume-policy-unsafe"));
    all.push((policy("write_hole", "resync"), "volume-policy-unsafe"));
    all.push((policy("write_mode", "write-back"), "volume-policy"));
    all
}

/// The names of all commands, from the error message for an unknown one.
fn names() -> BTreeSet<String> {
    let refused =
        serde_json::from_value::<Command>(json!({"command": "nonsense"})).unwrap_err().to_string();
    let listed = refused.split("expected one of").nth(1).expect("a list");
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_command_is_an_action_of_its_own_name() {
    let mut seen = BTreeSet::new();
    for (value, action) in commands() {
        let command: Command = serde_json::from_value(value.clone())
            .unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(Action::of(&command).name(), action, "{value}");
        seen.insert(value["command"].as_str().expect("a name").to_owned());
    }
    assert_eq!(seen, names(), "add the new command to `commands` above");
    let actions: BTreeSet<String> =
        Action::ALL.iter().map(|action| action.name().to_owned()).collect();
    assert_eq!(actions.len(), Action::ALL.len());
    assert!(names().is_subset(&actions));
}

#[test]
fn every_role_may_what_the_table_says_and_nothing_else() {
    let looks = ["info", "metrics", "counters", "health", "events-list", "explain"];
    let own = ["own-password", "own-session"];
    let runs = [
        "task-start",
        "task-pause",
        "task-resume",
        "task-stop",
        "task-set",
        "task-schedule",
        "alarm-set",
        "volume-flush",
        "volume-start",
        "volume-policy",
        "drive-online",
        "drive-resume",
        "drive-locate",
        "volume-attach",
        "volume-detach",
        "benchmark",
    ];
    for action in Action::ALL {
        let name = action.name();
        let is_look = looks.contains(&name) || name.ends_with("-list") || name.ends_with("-show");
        let expected = match () {
            // It reveals users and addresses.
            () if name == "audit-list" => Role::Administrator,
            () if is_look || own.contains(&name) => Role::ReadOnly,
            () if runs.contains(&name) => Role::Operator,
            () => Role::Administrator,
        };
        for role in Role::ALL {
            assert_eq!(action.is_for(role), role >= expected, "{role}: {action}");
            let caller = |must_change| Caller {
                user: "ada".to_owned(),
                origin: controller::Origin::Network { address: "here".to_owned() },
                role,
                account: Some("ada".to_owned()),
                session: None,
                must_change,
            };
            assert_eq!(caller(false).may(*action).is_ok(), role >= expected, "{role}: {action}");
            let refused = caller(true).may(*action).map_err(|error| error.kind);
            let may = if name == "own-password" { Ok(()) } else { Err(ErrorKind::Denied) };
            assert_eq!(refused, may, "{role}: {action}, before the password is changed");
        }
    }
}

/// The section of the manual for a role.
fn listed(role: Role) -> &'static str {
    let document = include_str!("../../../docs/operate/accounts.md");
    let heading = match role {
        Role::ReadOnly => "### Read-only\n",
        Role::Operator => "### Operator\n",
        Role::Administrator => "### Administrator\n",
    };
    let section = document.split(heading).nth(1).unwrap_or_else(|| panic!("no heading {heading}"));
    section.split("\n#").next().unwrap_or_default()
}

#[test]
fn the_document_lists_each_action_at_the_lowest_role_that_may() {
    for action in Action::ALL {
        let lowest =
            Role::ALL.into_iter().find(|role| action.is_for(*role)).expect("an administrator may");
        for role in Role::ALL {
            let is_listed = listed(role).contains(&format!("`{action}`"));
            assert_eq!(is_listed, role == lowest, "docs/operate/accounts.md, {role}: {action}");
            assert_eq!(action.is_for(role), role >= lowest, "the lists add up: {role}: {action}");
        }
    }
}
