//! The style of the house is a test too: import arrows, forbidden calls, file lengths, words that do not belong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}

/// What each room may import of ours, beyond the standard library: ARCHITECTURE.md draws the same arrows.
const ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("parity", &["units"]),
    ("layout", &["units"]),
    ("plan", &["units", "layout"]),
    ("state", &["units", "layout", "plan"]),
    ("signatures", &["units"]),
    ("ondisk", &["units", "layout"]),
    ("log", &["units"]),
    ("nbd", &["units"]),
    ("env", &["units"]),
    ("drives", &["units", "env", "nbd"]),
    ("engine", &["units", "env", "layout", "plan", "state", "parity", "log", "ondisk"]),
    (
        "controller",
        &["units", "env", "layout", "plan", "state", "log", "ondisk", "signatures", "drives", "engine"],
    ),
    ("rescue", &["units", "env", "layout", "parity", "ondisk", "drives", "engine"]),
    ("ports", &["units", "env", "nbd"]),
    ("api", &["units", "env", "controller"]),
    ("storagebench", &["units", "env", "signatures"]),
    ("array", &["units", "env", "layout", "ondisk", "drives", "engine"]),
    ("results", &["storagebench"]),
    ("world-real", &["units", "env"]),
    ("world-sim", &["units", "env"]),
    ("models", &["units", "env", "world-sim"]),
    // Like the binaries it joins a world to the engine, but only the simulated one.
    (
        "predict",
        &["units", "env", "layout", "plan", "engine", "array", "storagebench", "world-sim", "models"],
    ),
    ("fuzz", &["units", "layout", "log", "ondisk", "nbd", "signatures", "storagebench"]),
];

/// The binaries: they join any world to the engine, so they may import anything.
const BINARIES: &[&str] = &["softroc", "torture"];

/// Crates that touch the world and may call it by name.
/// (`predict` for its threads alone: clippy's `disallowed_methods` keep it from files and clocks.)
const WORLDLY: &[&str] = &["world-real", "softroc", "torture", "api", "results", "predict"];

fn packages() -> BTreeMap<String, serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages.map(|package| (package["name"].as_str().expect("a name").to_owned(), package.clone())).collect()
}

#[test]
fn every_import_follows_an_arrow() {
    let packages = packages();
    let ours: BTreeSet<&String> = packages.keys().collect();
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, package) in &packages {
        if BINARIES.contains(&name.as_str()) {
            continue;
        }
        let Some(allowed) = arrows.get(name.as_str()) else {
            wrong.push(format!("{name} has no row in ARROWS: say what it may import"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name").to_owned();
            if dependency["kind"].is_null() && ours.contains(&to) && !allowed.contains(&to.as_str()) {
                wrong.push(format!("{name} imports {to}, against the arrows"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_data_path_takes_few_dependencies_from_outside() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("units", &[][..]),
        ("parity", &[]),
        ("layout", &["serde"]),
        ("plan", &["serde"]),
        ("state", &[]),
        ("nbd", &[]),
        ("log", &["crc32c", "smallvec"]),
        ("env", &["smallvec"]),
        ("engine", &["smallvec", "tracing"]),
    ]);
    let packages = packages();
    for (name, allowed) in allowed {
        for dependency in packages[name]["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name");
            let ours = packages.contains_key(to);
            let normal = dependency["kind"].is_null();
            assert!(!normal || ours || allowed.contains(&to), "{name} takes {to}: is it earned?");
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "crates/*.rs"])
        .current_dir(root())
        .output()
        .expect("git lists the sources");
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    let files: Vec<PathBuf> =
        text.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect();
    assert!(files.len() > 50, "only {} sources found: run from a git checkout", files.len());
    files
}

fn crate_of(path: &Path) -> String {
    let relative = path.strip_prefix(root()).expect("below the root");
    relative.components().nth(1).expect("crates/NAME").as_os_str().to_string_lossy().into_owned()
}

#[test]
fn files_are_short_enough_to_know() {
    const MOST_LINES: usize = 650;
    let long: Vec<String> = sources()
        .iter()
        .filter_map(|path| {
            let lines = std::fs::read_to_string(path).expect("a source").lines().count();
            (lines > MOST_LINES).then(|| format!("{}: {lines} lines", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "longer than {MOST_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn rooms_below_the_worlds_do_not_name_the_world() {
    let forbidden = [
        "std::fs",
        "std::time::Instant",
        "std::time::SystemTime",
        "std::thread",
        "tokio::",
        "rand::",
        "HashMap",
    ];
    let mut wrong = Vec::new();
    for path in sources() {
        let room = crate_of(&path);
        let in_src = path.components().any(|component| component.as_os_str() == "src");
        if WORLDLY.contains(&room.as_str()) || !in_src {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let line = line.trim_start();
            let found = forbidden.iter().find(|word| line.contains(**word));
            let excused = line.starts_with("//") || line.contains("std::thread::panicking");
            if let (Some(word), false) = (found, excused) {
                wrong.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "the world comes in through env or not at all:\n{}", wrong.join("\n"));
}

/// The engine runs on drives it cannot tell from others: a model that says it is a block device, and one that says
/// it is a model, lead to the same figures.
#[test]
fn nothing_below_the_binaries_asks_whether_a_drive_is_a_model() {
    let rooms = ["engine", "plan", "layout", "parity", "controller", "ports", "env"];
    let words = ["DriveKind::Model", "world_sim", "models::", "simulated"];
    let mut asking = Vec::new();
    for path in sources() {
        let in_src = path.components().any(|component| component.as_os_str() == "src");
        if !rooms.contains(&crate_of(&path).as_str()) || !in_src {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let asks = |line: &str| words.iter().any(|word| line.contains(word));
        // Its own name, where kinds of drives are written out.
        let names = |line: &str| line.contains("DriveKind::Model => ");
        if let Some(line) = lines.find(|line| asks(line) && !names(line)) {
            asking.push(format!("{}: {line}", path.display()));
        }
    }
    assert!(asking.is_empty(), "{asking:#?}");
}

#[test]
fn nothing_is_left_for_later() {
    let marks =
        [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("TO", "DO"), concat!("FIX", "ME")];
    let mut wrong = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source");
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                wrong.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "left open:\n{}", wrong.join("\n"));
}

#[test]
fn every_dependency_from_outside_has_its_reason() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let manifest: toml::Table = manifest.parse().expect("the manifest is TOML");
    let dependencies = manifest["workspace"]["dependencies"].as_table().expect("workspace dependencies");
    let reasons = std::fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md");
    let missing: Vec<&String> = dependencies
        .iter()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name)
        .filter(|name| !reasons.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "without a reason in docs/dependencies.md: {missing:?}");
}
