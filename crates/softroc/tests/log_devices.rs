//! `softroc log`: log devices for journals, on the command line and at the start.

mod common;

use common::Controller;

#[test]
fn a_log_is_added_shown_kept_over_a_restart_and_removed() {
    let mut controller = Controller::new("log-devices");
    controller.volume("data", "raid5", 3);
    let logs: Vec<String> = ["l0", "l1"].map(|name| controller.folder.file(name)).into();
    controller.softroc(&["drive", "add", "--create", "64M", &logs[0], &logs[1]]).ok();
    assert!(
        controller
            .softroc(&["log", "list"])
            .ok()
            .starts_with("No log: journals are on the members.")
    );
    // Both are files of one file system.
    let why = controller.softroc(&["log", "add", &logs[0], &logs[1]]).refused();
    assert!(why.contains("are on one disk") && why.contains("--yes"), "{why}");
    let added = controller.softroc(&["log", "add", &logs[0], &logs[1], "--yes"]).ok();
    assert!(added.contains("in use") && added.contains(&logs[1]), "{added}");
    let listed = controller.json(&["log", "list"]);
    let devices = listed["logs"][0]["devices"].as_array().expect("devices").clone();
    assert_eq!((listed["logs"][0]["in_use"].as_bool(), devices.len()), (Some(true), 2), "{listed}");
    assert_eq!(
        (devices[0]["state"].as_str(), devices[0]["size_bytes"].as_u64()),
        (Some("online"), Some(62 << 20))
    );
    assert_eq!(controller.json(&["drive", "show", &logs[0]])["drive"]["state"], "log");
    let why = controller.softroc(&["drive", "forget", &logs[0]]).refused();
    assert!(why.contains(&format!("softroc log remove {}", logs[0])), "{why}");
    controller.kill_9();
    controller.start();
    assert_eq!(controller.json(&["log", "list"])["logs"], listed["logs"]);
    // One of them is missing at the next start.
    controller.stop();
    std::fs::rename(&logs[1], controller.folder.file("elsewhere")).expect("it is moved");
    controller.start();
    let listed = controller.softroc(&["log", "list", "--check"]);
    assert!(listed.code == 1 && listed.stdout.contains("missing"), "{}", listed.stdout);
    assert!(
        listed.stderr.contains(&format!("log device {} is missing", logs[1])),
        "{}",
        listed.stderr
    );
    let removed = controller.softroc(&["log", "remove", &logs[0]]).ok();
    assert!(removed.starts_with("Done.") && removed.contains(&logs[1]), "{removed}");
    assert_eq!(controller.json(&["drive", "show", &logs[0]])["drive"]["state"], "unused");
    assert_eq!(
        controller.json(&["log", "list", "--check"])["logs"].as_array().map(Vec::len),
        Some(0)
    );
}

#[test]
fn a_controller_is_started_with_a_log_and_serves_without_one_that_it_cannot_use() {
    let folder = common::Folder::new("log-at-start");
    let (log, text) = (folder.file("log.img"), folder.file("notes.txt"));
    std::fs::File::create(&log).and_then(|file| file.set_len(64 << 20)).expect("a file");
    std::fs::write(&text, "buy milk\n".repeat(1 << 18)).expect("a file");
    let controller = Controller::with("log-at-start-1", &["--log", &log]);
    assert_eq!(controller.json(&["log", "list"])["logs"][0]["devices"][0]["drive"], log.as_str());
    let other = Controller::with("log-at-start-2", &["--log", &text]);
    assert_eq!(other.json(&["log", "list"])["logs"].as_array().map(Vec::len), Some(0));
    assert!(other.log().contains("cannot be used as a log"), "{}", other.log());
    assert!(other.softroc(&["events"]).ok().contains("log.not-added"));
    other.volume("data", "raid1", 2);
}
