//! Each command recommended by a message runs in the state of the message: it must not be rejected.
//!
//! A scene creates a state. Its messages (`health`, and the reasons of drives, volumes, spares and
//! tasks) are searched for commands; each runs in a new instance of the scene. `src/cli/hints.rs`
//! checks that all commands in messages are valid.

mod common;

use common::Controller;
use serde_json::Value;
use std::collections::BTreeSet;

/// The preparation of a hint.
type Prepare = fn(&mut Controller);

/// A state, and the preparation that a message asks for ("connect the drive and run ...").
struct Scene {
    name: &'static str,
    build: fn(&mut Controller),
    /// Commands with these prefixes run after the preparation.
    first: &'static [(&'static str, Prepare)],
    /// Texts that must occur.
    says: &'static [&'static str],
}

/// Replaces the folder of a scene in messages, since it differs each time.
const HERE: &str = "@HERE@";

fn volume(controller: &Controller, level: &str, drives: usize) {
    controller.volume("data", level, drives);
    controller.wait_synced("data");
}

fn file(controller: &Controller, name: &str) -> String {
    controller.folder.file(name)
}

/// The files of a volume's drives that are removed are kept with another name.
fn take_away(controller: &mut Controller, slots: &[usize]) {
    let shown = controller.show("data");
    controller.stop();
    for slot in slots {
        let path = shown["drives"][*slot]["name"].as_str().expect("a path");
        std::fs::rename(path, format!("{path}.away")).expect("it is there");
    }
    controller.start();
}

fn bring_back(controller: &mut Controller) {
    for entry in std::fs::read_dir(&controller.folder.0).expect("the folder").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|kind| kind == "away") {
            std::fs::rename(&path, path.with_extension("")).expect("it is there");
        }
    }
}

const SCENES: &[Scene] = &[
    Scene {
        name: "degraded",
        build: |controller| {
            volume(controller, "raid5", 3);
            controller.softroc(&["drive", "fail", "data:2"]).ok();
        },
        first: &[],
        says: &["softroc drive replace data:2 --with NEW-DRIVE"],
    },
    Scene {
        name: "replaced",
        build: |controller| {
            volume(controller, "raid5", 3);
            let spare = file(controller, "spare.img");
            controller.softroc(&["drive", "add", "--create", "64M", &spare]).ok();
            controller.softroc(&["spare", "add", &spare]).ok();
            controller.softroc(&["drive", "fail", "data:2"]).ok();
            controller.wait_optimal("data");
        },
        first: &[],
        says: &["softroc drive clear-failed", "softroc drive forget"],
    },
    Scene {
        name: "taken-offline",
        build: |controller| {
            volume(controller, "raid5", 3);
            controller.softroc(&["drive", "offline", "data:1"]).ok();
        },
        first: &[],
        says: &["softroc drive online"],
    },
    Scene {
        name: "suspended",
        build: |controller| {
            volume(controller, "raid5", 3);
            controller.softroc(&["drive", "suspend", "data:1"]).ok();
        },
        first: &[],
        says: &["softroc drive resume"],
    },
    Scene {
        name: "offline",
        build: |controller| {
            volume(controller, "raid0", 2);
            take_away(controller, &[1]);
        },
        first: &[("softroc volume start", bring_back), ("softroc drive", bring_back)],
        says: &["softroc volume show data"],
    },
    Scene {
        name: "missing",
        build: |controller| {
            volume(controller, "raid1", 2);
            take_away(controller, &[0, 1]);
        },
        first: &[("softroc volume start", bring_back), ("softroc drive", bring_back)],
        says: &["softroc volume forget"],
    },
    Scene {
        name: "well",
        build: |controller| volume(controller, "raid5", 3),
        first: &[],
        says: &["softroc spare add DRIVE"],
    },
];

/// All texts in a response under the names of messages.
fn statements(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("todo", Value::String(text)) => {
                        let command = text.strip_prefix("wait: ").unwrap_or(text);
                        let is_one = command.starts_with("softroc ");
                        found.push(if is_one { format!("'{command}'") } else { text.clone() });
                    }
                    ("what" | "reason" | "sentence", Value::String(text)) => {
                        found.push(text.clone())
                    }
                    ("reasons", Value::Array(texts)) => {
                        found.extend(texts.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    (_, value) => statements(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| statements(value, found)),
        _ => {}
    }
}

/// The recommended commands in a state, with the scene's folder replaced.
fn commands(controller: &Controller) -> BTreeSet<String> {
    let mut said = Vec::new();
    for question in [
        &["health", "--json"][..],
        &["drive", "list", "--json"],
        &["volume", "list", "--json"],
        &["spare", "list", "--json"],
        &["task", "list", "--json"],
    ] {
        // The exit code of `health` is the overall state.
        let answer = controller.softroc(question);
        let value: Value = serde_json::from_str(&answer.stdout).expect("JSON");
        statements(&value, &mut said);
    }
    let here = controller.folder.path();
    said.iter()
        .flat_map(|text| text.split("'softroc ").skip(1))
        .filter_map(|rest| rest.split_once('\''))
        .map(|(command, _)| format!("softroc {command}").replace(&here, HERE))
        .collect()
}

/// Runs a command like an operator who pastes it: names a new drive where needed, and confirms.
fn runs(controller: &Controller, command: &str) {
    let new = file(controller, "new.img");
    let made = std::fs::File::create(&new).expect("a file");
    made.set_len(64 << 20).expect("a size");
    let typed = command.replace(HERE, &controller.folder.path());
    let stand_in = |word: &str| match word {
        "NEW-DRIVE" | "DRIVE" => new.clone(),
        word => word.to_owned(),
    };
    let mut words: Vec<String> = typed.split(' ').skip(1).map(stand_in).collect();
    let ask = |words: &[String]| {
        controller.softroc(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut answer = ask(&words);
    if answer.code != 0 && answer.stderr.contains("--yes") {
        words.push("--yes".to_owned());
        answer = ask(&words);
    }
    // A mention without arguments, such as "register it with 'softroc drive add'".
    let is_mention = answer.code == 2 && answer.stderr.contains("required");
    assert!(answer.code == 0 || is_mention, "{command}: {}{}", answer.stdout, answer.stderr);
}

#[test]
fn every_command_that_is_said_in_a_state_works_in_that_state() {
    for scene in SCENES {
        let build = |number: usize| {
            let mut controller = Controller::new(&format!("hints-{}-{number}", scene.name));
            (scene.build)(&mut controller);
            controller
        };
        let said = commands(&build(0));
        for expected in scene.says {
            assert!(
                said.iter().any(|command| command.starts_with(expected)),
                "{}: {said:?}",
                scene.name
            );
        }
        for (number, command) in said.iter().enumerate() {
            let mut controller = build(number + 1);
            if let Some((_, first)) =
                scene.first.iter().find(|(begins, _)| command.starts_with(begins))
            {
                first(&mut controller);
            }
            runs(&controller, command);
        }
    }
}
