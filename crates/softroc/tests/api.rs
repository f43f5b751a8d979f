//! The control socket as `docs/formats/http-api.md` describes it: the page lists every command.

mod common;

use common::{Controller, have};
use std::process::Command;

const DOCUMENT: &str = include_str!("../../../docs/formats/http-api.md");

/// A controller whose state folder is `softroc-data` in a folder where the document's examples run.
fn controller(name: &str) -> Controller {
    let mut controller = Controller::unstarted(name);
    let link = controller.folder.file("softroc-data");
    controller.start();
    std::os::unix::fs::symlink(controller.state(), link).expect("a link");
    controller
}

fn run_in(controller: &Controller, line: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(&controller.folder.0)
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_command_is_in_the_document() {
    if !have("curl") {
        return;
    }
    let controller = controller("api-commands");
    // The error for an unknown command lists all commands.
    let curl = "curl -s --unix-socket softroc-data/control.sock http://localhost/v1";
    let post = format!("{curl}/command -H 'content-type: application/json' -d");
    let refused = run_in(&controller, &format!("{post} '{{\"command\": \"nonsense\"}}'"));
    let listed = refused.split("expected one of").nth(1).unwrap_or_else(|| panic!("{refused}"));
    let commands: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
    assert!(
        commands.len() > 20 && refused.starts_with("{\"error\":{\"kind\":\"invalid\""),
        "{refused}"
    );
    let rows: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| `")).collect();
    for command in commands {
        assert!(
            rows.iter().any(|row| row.contains(&format!("`{command}`"))),
            "{command} is not documented"
        );
    }
    // All errors are JSON.
    for (wrong, kind) in [
        (format!("{curl}/tasks/first"), "invalid"),
        (format!("{curl}/events?last=some"), "invalid"),
        (format!("{curl}/nowhere"), "not-found"),
        (format!("{curl}/volumes -X DELETE"), "invalid"),
        (format!("{post} '{{'"), "invalid"),
    ] {
        let answer = run_in(&controller, &wrong);
        assert!(
            answer.starts_with(&format!("{{\"error\":{{\"kind\":\"{kind}\"")),
            "{wrong}: {answer}"
        );
    }
}
