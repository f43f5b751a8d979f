//! External names have no effect on terminals, logs and pages. JSON has them unchanged.

mod common;

use common::{Answer, Controller, softroc};

/// Clears a screen, rings, sets a title, forges a line of another drive, and reorders the following
/// text.
const HOSTILE: &str = "d\x1b[2J\x07\x1b]0;title\x07\r\nforged online \u{202e}gmi.\u{9b}31m\u{2066}";
/// The same, as it is displayed.
const SHOWN: &str =
    r"d\u001b[2J\u0007\u001b]0;title\u0007\r\nforged online \u202egmi.\u009b31m\u2066";

/// The text has no control characters besides line ends and tabs.
#[track_caller]
fn is_quiet(what: &str, text: &str) {
    let loud = text
        .chars()
        .find(|c| (c.is_control() && !"\n\t".contains(*c)) || "\u{202e}\u{2066}".contains(*c));
    assert_eq!(loud, None, "{what}: {text:?}");
}

#[track_caller]
fn is_quiet_and_shows(what: &str, text: &str) {
    is_quiet(what, text);
    assert!(text.contains(SHOWN), "{what}: {text}");
    assert!(
        !text.lines().any(|line| line.starts_with("forged")),
        "{what} has a line of its own: {text}"
    );
}

#[test]
fn names_of_drives_do_nothing_to_a_terminal_or_a_log() {
    let controller = Controller::new("hostile");
    let (first, second) = (controller.folder.file(HOSTILE), controller.folder.file("plain.img"));
    let added =
        controller.softroc(&["drive", "add", "--create", common::DRIVE, &first, &second]).ok();
    is_quiet_and_shows("drive add", &added);
    controller.create("v", "raid1", &[first.clone(), second]).ok();
    for command in [
        &["drive", "list"][..],
        &["drive", "show", &first],
        &["volume", "show", "v"],
        &["events"],
        &["drive", "stats"],
        &["explain", "--volume", "v", "read", "0"],
    ] {
        let Answer { stdout, stderr, .. } = controller.softroc(command);
        is_quiet(&command.join(" "), &format!("{stdout}{stderr}"));
    }
    for command in [&["drive", "list"][..], &["drive", "show", &first], &["volume", "show", "v"]] {
        is_quiet_and_shows(&command.join(" "), &controller.softroc(command).ok());
    }
    // Error messages include the given name.
    let refused = controller.softroc(&["drive", "show", &format!("{first}2")]).refused();
    is_quiet_and_shows("a refusal", &refused);
    let refused =
        softroc(&["serve", "--state", &controller.state(), "--nbd-access", &first]).refused();
    is_quiet_and_shows("a refusal of serve", &refused);
    controller.softroc(&["drive", "fail", &first, "--yes"]).ok();
    is_quiet_and_shows("events", &controller.softroc(&["events"]).ok());
    is_quiet("the log", &controller.log());
    assert!(
        !controller.log().lines().any(|line| line.starts_with("forged")),
        "{}",
        controller.log()
    );
}

#[test]
fn json_has_names_as_they_are_and_nothing_of_it_moves_a_terminal() {
    let controller = Controller::new("hostile-json");
    let drive = controller.folder.file(HOSTILE);
    controller.softroc(&["drive", "add", "--create", common::DRIVE, &drive]).ok();
    for command in [&["drive", "list", "--json"][..], &["drive", "show", &drive, "--json"]] {
        let text = controller.softroc(command).ok();
        is_quiet("JSON", &text);
        let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let name = &value["drives"][0]["name"];
        let name = if name.is_null() { &value["drive"]["name"] } else { name };
        assert_eq!(name.as_str(), Some(drive.as_str()), "{text}");
    }
    let refused = controller.softroc(&["drive", "show", &format!("{drive}2"), "--json"]);
    is_quiet("JSON", &refused.stdout);
    let value: serde_json::Value = serde_json::from_str(&refused.stdout).expect("it is JSON");
    assert!(
        value["error"]["message"].as_str().is_some_and(|text| text.contains(HOSTILE)),
        "{value}"
    );
}
