//! `softroc support`: the archive has all diagnostic data, and no secrets, wherever they were
//! stored. Debian's tar reads it.

mod common;

use common::host::Host;
use common::managed::{Managed, managed};
use common::{Folder, run, softroc, until};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Forbidden content: data of hosts, and secrets of every kind.
const PLANTED: [&str; 9] = [
    "DATA-OF-A-HOST",
    "secret of ada",
    "K3Y-OF-THE-HOOK",
    "P4TH-OF-THE-HOOK",
    "QU3RY-OF-THE-HOOK",
    "C0MMUNITY",
    "M4IL-PASSWORD",
    "C0NTEXT-OF-A-LISTENER",
    "L1STENER-PATH",
];

/// Passes a line to a command that reads a secret.
fn with_secret(state: &str, arguments: &[&str], secret: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args(arguments)
        .args(["--secret-stdin", "--state", state])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("an input");
    std::io::Write::write_all(&mut input, format!("{secret}\n").as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("it ends").success(), "{arguments:?}");
}

/// The content of an archive, and the names of its files.
fn unpacked(file: &str) -> (String, Vec<String>) {
    let names = run("tar", &["tzf", file]).lines().map(str::to_owned).collect();
    (run("tar", &["xzOf", file]), names)
}

/// A controller with secrets everywhere, and the token of a session.
fn planted() -> (Managed, String) {
    let managed = managed("support", &[]);
    let controller = &managed.controller;
    let state = controller.state();
    controller.volume("payroll", "raid5", 3);
    let mut host = Host::connect(&controller.nbd_socket(), "payroll").expect("it is served");
    host.write(0, &PLANTED[0].repeat(4096 / 14 + 1).as_bytes()[..4096]).expect("it is written");
    host.flush().expect("it is flushed");
    let token = managed.account("ada", "administrator");
    managed.remote(&token, &["drive", "add", "mem:64M"]).ok();
    let hook = format!("https://127.0.0.1:9/{}?t={}", PLANTED[3], PLANTED[4]);
    with_secret(&state, &["notify", "set", "web", &hook, "--severity", "info"], PLANTED[2]);
    with_secret(&state, &["notify", "set", "snmp", "snmp+trap://127.0.0.1:9"], PLANTED[5]);
    let people = ["--from", "a@example.org", "--to", "boss@example.org", "--user", "post-user"];
    let mail = [&["notify", "set", "mail", "smtp://127.0.0.1:9"][..], &people].concat();
    with_secret(&state, &mail, PLANTED[6]);
    let body = format!(
        "{{\"Destination\":\"http://127.0.0.1:9/{}\",\"Protocol\":\"Redfish\",\"Context\":\"{}\"}}",
        PLANTED[8], PLANTED[7]
    );
    let post = format!("-u 'ada:{}' -H 'content-type: application/json' -d '{body}'", PLANTED[1]);
    assert_eq!(managed.curl(&post, "/redfish/v1/EventService/Subscriptions").0, "201");
    // A failing channel reports the reason.
    controller.softroc(&["volume", "rename", "payroll", "wages"]).ok();
    let fails =
        |channel: &serde_json::Value| channel["name"] == "web" && !channel["problem"].is_null();
    until("it fails", || {
        let told = controller.json(&["notify", "list"]);
        told["channels"].as_array().is_some_and(|channels| channels.iter().any(fails))
    });
    (managed, token)
}

/// The stored password hashes and salts.
fn hashes(state: &str) -> Vec<String> {
    let kept = std::fs::read_to_string(format!("{state}/accounts.json")).expect("accounts");
    let is_hash = |part: &&str| part.len() >= 22 && part.chars().all(|c| c.is_ascii_alphanumeric());
    let hashes: Vec<String> = kept.split('"').filter(is_hash).map(str::to_owned).collect();
    assert!(hashes.len() >= 4, "{kept}");
    hashes
}

#[test]
fn no_secret_is_in_it_wherever_it_was_put() {
    let (managed, token) = planted();
    let controller = &managed.controller;
    let state = controller.state();
    let file = controller.folder.file("bundle.tgz");
    let said = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args(["support", "--file", &file, "--state", &state])
        .env("SOFTROC_TOKEN", &token)
        .output()
        .expect("it runs");
    assert!(said.status.success(), "{said:?}");
    let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for this user alone");
    // The sources include some of them, so they must be removed.
    let log = controller.log();
    assert!(!log.contains(&managed.password) && log.contains("ada (at 127.0.0.1:"), "{log}");
    let (text, names) = unpacked(&file);
    let people = ["boss@example.org", "post-user", "ada (at", "\"ada\"", "'ada'"];
    let mut secrets: Vec<String> =
        PLANTED.iter().chain(&people).map(|text| (*text).to_owned()).collect();
    secrets.extend([token, managed.password.clone()]);
    secrets.extend(hashes(&state));
    for planted in secrets {
        let around = text.find(&planted).map(|at| text.get(at.saturating_sub(200)..at + 100));
        assert!(around.is_none(), "{planted} is in it: {around:?}");
    }
    let state = ["state/list.txt", "state/events.jsonl", "state/drives.toml"];
    let machine = [
        "machine/machine.txt",
        "machine/block-devices.txt",
        "daemon/cmdline.txt",
        "log/standard-error.txt",
    ];
    let answers = ["volumes", "drives", "events", "metrics", "health", "notifications", "foreign"]
        .map(|name| format!("answers/{name}.json"));
    let expected = ["README.txt"]
        .iter()
        .chain(&state)
        .chain(&machine)
        .map(|name| (*name).to_owned())
        .chain(answers);
    for file in expected {
        assert!(names.contains(&file), "{file} is not in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("accounts") || name.contains("subscriptions")));
    let told = [
        "\"wages\"",
        "raid5",
        "volume.renamed",
        "account-1 (at 127.0.0.1:",
        "https://127.0.0.1:9/[left out]",
    ];
    for told in told.into_iter().chain(["its certificate's SHA-256 is"]) {
        assert!(text.contains(told), "{told} is not in it");
    }
}

#[test]
fn it_is_also_written_where_no_controller_answers() {
    let folder = Folder::new("support-alone");
    let state = folder.file("state");
    std::fs::create_dir(&state).expect("a folder");
    std::fs::write(format!("{state}/events.jsonl"), "{\"number\":1}\n").expect("a file");
    let file = folder.file("bundle.tgz");
    let said = softroc(&["support", "--file", &file, "--state", &state]).ok();
    assert!(said.contains("no controller responds at"), "{said}");
    let (text, names) = unpacked(&file);
    assert!(
        text.contains("No controller answered: ")
            && names.contains(&"state/events.jsonl".to_owned()),
        "{names:?}"
    );
    assert!(!names.iter().any(|name| name.starts_with("answers/")));
}
