//! The interface for scripts: one JSON object, exit codes, several operands, live events
//! (`docs/operate/scripting.md`).

mod common;

use common::{Answer, Controller, softroc};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn json(text: &str) -> Value {
    serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("not one JSON object: {error}: {text}"))
}

/// The code and the kind of a JSON error.
fn error(answer: &Answer) -> (i32, String) {
    let Answer { code, stdout, stderr } = answer;
    assert_eq!(stderr, "", "the error is on standard output");
    let said = json(stdout);
    assert_eq!(said.as_object().map(|object| object.len()), Some(1), "{said}");
    assert!(said["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{said}");
    (*code, said["error"]["kind"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn errors_are_json_and_their_exit_codes_tell_wrong_from_refused_from_not_there() {
    let controller = Controller::new("errors");
    let drives = controller.volume("v", "raid1", 2);
    for (arguments, code, kind) in [
        (&["volume", "show", "nope", "--json"][..], 4, "not-found"),
        (&["task", "stop", "99", "--json"], 4, "not-found"),
        (
            &["volume", "create", "w", "--level", "raid5", "--json", "--drives", &drives[0]],
            2,
            "invalid",
        ),
        (&["drive", "forget", &drives[0], "--json"], 3, "wrong-state"),
        (&["volume", "delete", "v", "--json"], 3, "refused"),
        (&["volume", "create", "w", "--level", "raid7", "--drives", "a", "--json"], 2, "usage"),
        (&["explain", "--level", "raid5", "--drives", "4", "write", "8K", "--json"], 2, "usage"),
        (&["bench", "/nowhere/t.img", "--json"], 4, "not-found"),
    ] {
        let answer = controller.softroc(arguments);
        assert_eq!(error(&answer), (code, kind.to_owned()), "{arguments:?}");
    }
    let nobody =
        softroc(&["volume", "list", "--json", "--state", &controller.folder.file("nobody")]);
    assert_eq!(error(&nobody), (3, "unavailable".to_owned()));
    let machine = softroc(&["info", "--state", &controller.folder.file("nobody")]);
    assert!(machine.code == 3 && machine.stdout.contains("kernel"), "{}", machine.stdout);
    assert!(machine.stderr.starts_with("softroc: "), "{}", machine.stderr);
    // Without --json they are a sentence, with the same codes.
    let answer = controller.softroc(&["volume", "show", "nope"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (4, ""));
    assert!(answer.stderr.starts_with("softroc: "), "{}", answer.stderr);
    let one = ["volume", "create", "w", "--level", "raid1", "--drives", "a.img,b.img"];
    let answer = controller.softroc(&one);
    assert!(
        answer.code != 0 && answer.stderr.contains("by spaces: --drives a.img b.img"),
        "{}",
        answer.stderr
    );
}

#[test]
fn json_may_stand_before_the_noun_after_it_or_at_the_end() {
    let controller = Controller::new("anywhere");
    controller.volume("v", "raid1", 2);
    let asked: [&[&str]; 3] = [
        &["--json", "volume", "list"],
        &["volume", "--json", "list"],
        &["volume", "list", "--json"],
    ];
    for arguments in asked {
        let said = json(&controller.softroc(arguments).ok());
        assert_eq!(said["volumes"][0]["name"], "v", "{arguments:?}");
    }
    for arguments in [
        &["--json", "volume", "show", "nope"][..],
        &["--json", "bench", "show", "last"],
        &["bench", "--json", "show", "last"],
    ] {
        assert_eq!(error(&controller.softroc(arguments)).0, 4, "{arguments:?}");
    }
    // The rows of a measurement have the same format.
    let short =
        ["--outstanding", "1", "--runtime", "100ms", "--ramp", "0s", "--confidence", "none"];
    let measured =
        [&["--json", "bench", "null:64M", "--profile", "database", "--no-save"][..], &short]
            .concat();
    let said = json(&controller.softroc(&measured).ok());
    assert_eq!(said["rows"][0]["outstanding"], 1);
}

#[test]
fn a_check_of_the_state_says_with_its_exit_code_whether_all_is_well() {
    let controller = Controller::new("check");
    let drives = controller.volume("v", "raid1", 2);
    controller.wait_synced("v");
    let spare = controller.folder.file("spare.img");
    controller.softroc(&["drive", "add", "--create", common::DRIVE, &spare]).ok();
    controller.softroc(&["volume", "list", "--check"]).ok();
    controller.softroc(&["drive", "list", "--check"]).ok();
    let bare = controller.softroc(&["spare", "list", "--check"]);
    assert_eq!(bare.code, 1, "{}", bare.stdout);
    assert!(bare.stderr.contains("no spare covers v"), "{}", bare.stderr);
    let mut host =
        common::host::Host::connect(&controller.nbd_socket(), "v").expect("a connection");
    host.write(0, &[7; 65536]).expect("a write");
    let offline = controller.softroc(&["drive", "offline", &drives[0]]).ok();
    assert!(offline.contains(": offline, slot 0 of v"), "{offline}");
    for arguments in [
        &["volume", "list", "--check", "--json"][..],
        &["volume", "show", "v", "--check", "--json"],
        &["drive", "list", "--check", "--json"],
        &["drive", "show", "v:0", "--check", "--json"],
    ] {
        let answer = controller.softroc(arguments);
        assert_eq!(answer.code, 1, "{arguments:?}: {}", answer.stdout);
        assert!(json(&answer.stdout)["reply"].is_string(), "the answer is there, and nothing else");
        assert!(
            answer.stderr.contains("degraded") || answer.stderr.contains("stale"),
            "{}",
            answer.stderr
        );
        let unasked: Vec<&str> =
            arguments.iter().copied().filter(|word| *word != "--check").collect();
        controller.softroc(&unasked).ok();
    }
}

#[test]
fn times_are_local_for_people_and_seconds_for_programs() {
    let controller = Controller::new("zone");
    let said = |zone: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
        let output =
            command.args(["events", "--state", &controller.state()]).args(more).env("TZ", zone);
        String::from_utf8(output.output().expect("softroc runs").stdout).expect("text")
    };
    let (here, there) = (said("UTC", &[]), said("HERE-5:30", &[]));
    assert!(here.contains(" UTC ") && there.contains(" +05:30 "), "{here}\n{there}");
    let programs = ["--json"];
    assert_eq!(said("UTC", &programs), said("HERE-5:30", &programs));
}

#[test]
fn a_followed_check_that_finds_a_difference_ends_with_1_and_after_the_repair_with_0() {
    let mut controller = Controller::new("differs");
    let drives = controller.volume("v", "raid1", 2);
    let mut host =
        common::host::Host::connect(&controller.nbd_socket(), "v").expect("a connection");
    host.write(0, &[7; 65536]).expect("a write");
    drop(host);
    controller.wait_optimal("v");
    controller.stop();
    let start = std::fs::read(&drives[1]).expect("the drive");
    let at =
        start.chunks(4096).position(|page| page == [7; 4096]).expect("the data is on it") * 4096;
    let mut file = std::fs::OpenOptions::new().write(true).open(&drives[1]).expect("the drive");
    std::os::unix::fs::FileExt::write_all_at(&file, &[9; 512], at as u64).expect("a wrong sector");
    std::io::Write::flush(&mut file).expect("it is there");
    controller.start();
    let check = ["task", "start", "check", "v", "--follow", "--json"];
    let answer = controller.softroc(&check);
    assert_eq!((answer.code, json(&answer.stdout)["found"]["mismatches"].as_u64()), (1, Some(1)));
    assert!(answer.stderr.contains("softroc task start check v --repair"), "{}", answer.stderr);
    controller.softroc(&["task", "start", "check", "v", "--repair", "--follow"]).ok();
    controller.softroc(&check).ok();
}

#[test]
fn several_operands_are_done_each_for_itself() {
    let controller = Controller::new("several");
    let files: Vec<String> = (0..3).map(|i| controller.folder.file(&format!("d{i}.img"))).collect();
    let [a, b, c] = &files[..] else { unreachable!() };
    let added =
        json(&controller.softroc(&["drive", "add", "--create", "48M", a, b, c, "--json"]).ok());
    let names: Vec<&str> = added["replies"]
        .as_array()
        .expect("replies")
        .iter()
        .filter_map(|one| one["drive"]["name"].as_str())
        .collect();
    assert_eq!(names, files);
    let one = json(&controller.softroc(&["drive", "show", a, "--json"]).ok());
    assert_eq!(one["reply"], "drive", "of one operand it is its reply");
    // The second one is rejected, the others succeed.
    let removed = controller.softroc(&["drive", "remove", a, "/nowhere.img", b, "--json"]);
    assert_eq!(removed.code, 4, "{}", removed.stdout);
    let said = json(&removed.stdout);
    let replies = said["replies"].as_array().expect("replies");
    assert_eq!((&replies[0]["reply"], &replies[2]["reply"]), (&"done".into(), &"done".into()));
    assert_eq!(replies[1]["error"]["kind"], "not-found");
    let left = controller.json(&["drive", "list"]);
    assert_eq!(left["drives"].as_array().map(Vec::len), Some(1));
    let spoken = controller.softroc(&["drive", "show", "/nowhere.img", c]);
    assert_eq!(spoken.code, 4);
    assert!(
        spoken.stdout.contains("d2.img") && spoken.stderr.contains("/nowhere.img"),
        "{}",
        spoken.stderr
    );
    assert!(spoken.stderr.ends_with("softroc: 1 of 2 was not completed\n"), "{}", spoken.stderr);
    for name in ["v", "w"] {
        controller
            .softroc(&["volume", "create", name, "--level", "jbod", "--size", "4M", "--drives", c])
            .ok();
    }
    controller.softroc(&["volume", "delete", "v", "w", "--yes"]).ok();
    assert_eq!(controller.json(&["volume", "list"])["volumes"].as_array().map(Vec::len), Some(0));
    let spare = controller.softroc(&["spare", "add", c]).ok();
    let line = spare.lines().next().unwrap_or_default();
    assert!(
        line.starts_with(&format!("Spare {c}: ready, 48 MiB, "))
            && line.ends_with("covers nothing"),
        "{spare}"
    );
    for list in [["drive", "list"], ["spare", "list"]] {
        let shown = controller.softroc(&list).ok();
        assert!(shown.contains("48 MiB") && !shown.contains(" MB"), "{shown}");
    }
}

#[test]
fn events_are_followed_over_a_restart_of_the_controller_each_shown_once() {
    let mut controller = Controller::new("follow");
    let state = controller.state();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args(["events", "--follow", "--json", "--last", "1", "--state", &state])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("softroc starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("its output")).lines();
    let mut next = || json(&lines.next().expect("a line").expect("text"));
    assert_eq!(next()["code"], "controller.started");
    controller.volume("v", "raid1", 2);
    let mut last = 0;
    let mut until = |code: &str| loop {
        let event = next();
        let number = event["number"].as_u64().expect("a number");
        assert!(number > last, "{number} after {last}");
        last = number;
        if event["code"] == code {
            return;
        }
    };
    until("volume.created");
    controller.stop();
    controller.start();
    until("controller.started");
    let process = rustix::process::Pid::from_child(&follower);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    assert_eq!(follower.wait().expect("it ends").code(), Some(0));
}
