//! Every command that a statement tells to run is run, in the state in which it is said: it must not be refused.
//!
//! A scene brings a controller into a state. What is said then (`health`, and the reasons of drives, volumes, spares and tasks) is
//! searched for commands; each is run in a new instance of the scene. Whether a command is one at all is looked at for all
//! messages (`src/cli/hints.rs`).

mod common;

use common::Controller;
use serde_json::Value;
use std::collections::BTreeSet;

/// What is done before a hint is followed.
type Prepare = fn(&mut Controller);

/// A state, and what an operator does first where a message says so ("connect the drive and run ...").
struct Scene {
    name: &'static str,
    build: fn(&mut Controller),
    /// Commands that begin so are run when that is done.
    first: &'static [(&'static str, Prepare)],
    /// At least these are said.
    says: &'static [&'static str],
}

/// Where the files of a scene lie, in what is said: it is another folder each time.
const HERE: &str = "@HERE@";

fn volume(controller: &Controller, level: &str, drives: usize) {
    controller.volume("data", level, drives);
    controller.wait_synced("data");
}

fn file(controller: &Controller, name: &str) -> String {
    controller.folder.file(name)
}

/// The files of a volume's drives that are taken away are kept under another name.
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

/// All texts in an answer under names that are statements.
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
                    ("what" | "reason" | "sentence", Value::String(text)) => found.push(text.clone()),
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

/// The commands that are said in a state, with the scene's folder stood in for.
fn commands(controller: &Controller) -> BTreeSet<String> {
    let mut said = Vec::new();
    for question in [
        &["health", "--json"][..],
        &["drive", "list", "--json"],
        &["volume", "list", "--json"],
        &["spare", "list", "--json"],
        &["task", "list", "--json"],
    ] {
        // `health` says with its exit code how all is.
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

/// Runs a command as an operator does who pastes it, names a new drive where it says so, and says yes.
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
    let ask = |words: &[String]| controller.softroc(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut answer = ask(&words);
    if answer.code != 0 && answer.stderr.contains("--yes") {
        words.push("--yes".to_owned());
        answer = ask(&words);
    }
    // A mention without what it is about, such as "register it with 'softroc drive add'".
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
            assert!(said.iter().any(|command| command.starts_with(expected)), "{}: {said:?}", scene.name);
        }
        for (number, command) in said.iter().enumerate() {
            let mut controller = build(number + 1);
            if let Some((_, first)) = scene.first.iter().find(|(begins, _)| command.starts_with(begins)) {
                first(&mut controller);
            }
            runs(&controller, command);
        }
    }
}
