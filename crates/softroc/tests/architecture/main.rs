//! Tests of the architecture: imports, circles of files, forbidden calls, lengths, unused items,
//! paths in documents.

mod circles;
mod columns;
mod documents;
mod mass;
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace's root")
}

/// The crates of the workspace that each crate may import, as in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("test-tools", &[]),
    ("parity", &["units"]),
    ("layout", &["units"]),
    ("plan", &["units", "layout"]),
    ("volume-state", &["units", "layout", "plan"]),
    ("signatures", &["units"]),
    ("ondisk", &["units", "layout"]),
    ("write-log", &["units"]),
    ("block-cache", &["units"]),
    ("nbd", &["units"]),
    ("platform", &["units"]),
    ("drives", &["units", "platform", "nbd"]),
    (
        "engine",
        &[
            "units",
            "platform",
            "layout",
            "plan",
            "volume-state",
            "parity",
            "write-log",
            "block-cache",
            "ondisk",
        ],
    ),
    (
        "controller",
        &[
            "units",
            "platform",
            "layout",
            "plan",
            "volume-state",
            "write-log",
            "ondisk",
            "signatures",
            "drives",
            "engine",
        ],
    ),
    ("rescue", &["units", "platform", "layout", "parity", "ondisk", "drives", "engine"]),
    ("ports", &["units", "platform", "nbd"]),
    ("guests", &["units", "platform"]),
    ("access", &["controller"]),
    ("redfish", &["units", "controller", "access"]),
    ("webconsole", &["units", "controller", "access"]),
    ("notify", &["units", "controller"]),
    ("database", &[]),
    ("history", &["platform", "database"]),
    ("config", &["units", "controller", "access", "notify"]),
    (
        "control-api",
        &[
            "units",
            "platform",
            "controller",
            "access",
            "redfish",
            "webconsole",
            "notify",
            "config",
            "history",
            "platform-linux",
        ],
    ),
    ("storcli", &["controller"]),
    ("storagebench", &["units", "platform", "signatures"]),
    ("array", &["units", "platform", "layout", "ondisk", "drives", "engine"]),
    ("results", &["storagebench", "database"]),
    ("platform-linux", &["units", "platform"]),
    ("platform-sim", &["units", "platform"]),
    ("models", &["units", "platform", "platform-sim"]),
    // Like the binaries it connects a platform to the engine, but only the simulated one.
    (
        "predict",
        &[
            "units",
            "platform",
            "layout",
            "plan",
            "engine",
            "array",
            "storagebench",
            "platform-sim",
            "models",
        ],
    ),
    (
        "fuzz",
        &[
            "units",
            "layout",
            "write-log",
            "ondisk",
            "nbd",
            "guests",
            "signatures",
            "storagebench",
            "controller",
            "access",
            "redfish",
            "storcli",
        ],
    ),
];

/// The binaries: they connect any platform to the engine, so they may import anything.
const BINARIES: &[&str] = &["softroc", "torture"];

/// Crates that may call the operating system directly. (`predict` for its threads only: clippy's
/// `disallowed_methods` forbid it files and clocks.)
const WORLDLY: &[&str] = &[
    "platform-linux",
    "softroc",
    "torture",
    "control-api",
    "database",
    "results",
    "history",
    "predict",
];

fn packages() -> BTreeMap<String, serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages
        .map(|package| (package["name"].as_str().expect("a name").to_owned(), package.clone()))
        .collect()
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
            wrong.push(format!("{name} has no row in ARROWS: add the crates it may import"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name").to_owned();
            if dependency["kind"].is_null() && ours.contains(&to) && !allowed.contains(&to.as_str())
            {
                wrong.push(format!("{name} may not import {to}"));
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
        ("volume-state", &[]),
        ("nbd", &[]),
        ("write-log", &["crc32c", "smallvec"]),
        ("block-cache", &["smallvec"]),
        ("platform", &["smallvec"]),
        ("engine", &["slab", "smallvec", "tracing"]),
    ]);
    let packages = packages();
    for (name, allowed) in allowed {
        for dependency in packages[name]["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name");
            let ours = packages.contains_key(to);
            let normal = dependency["kind"].is_null();
            assert!(!normal || ours || allowed.contains(&to), "{name} may not depend on {to}");
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
    assert!(wrong.is_empty(), "use `Env` instead of the operating system:\n{}", wrong.join("\n"));
}

/// The engine does not distinguish kinds of drives: a model reported as a block device, and one
/// reported as a model, give the same figures.
#[test]
fn nothing_below_the_binaries_asks_whether_a_drive_is_a_model() {
    let rooms = ["engine", "plan", "layout", "parity", "controller", "ports", "platform"];
    let words = ["DriveKind::Model", "platform_sim", "models::", "simulated"];
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
        // Its own name, where kinds of drives are listed.
        let names = |line: &str| line.contains("DriveKind::Model => ");
        if let Some(line) = lines.find(|line| asks(line) && !names(line)) {
            asking.push(format!("{}: {line}", path.display()));
        }
    }
    assert!(asking.is_empty(), "{asking:#?}");
}

#[test]
fn nothing_is_left_for_later() {
    let marks = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
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
    const REASONS: &str = "docs/develop/dependencies.md";
    let manifest =
        std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let manifest: toml::Table = manifest.parse().expect("the manifest is TOML");
    let dependencies =
        manifest["workspace"]["dependencies"].as_table().expect("workspace dependencies");
    let reasons = std::fs::read_to_string(root().join(REASONS)).expect(REASONS);
    let missing: Vec<&String> = dependencies
        .iter()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name)
        .filter(|name| !reasons.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "without a reason in {REASONS}: {missing:?}");
}

/// The modules that each module may import from its crate. A module is a folder (or file) directly
/// below `src`. A row names only modules of earlier rows, so there is no cycle.
const ROOMS: &[(&str, &str, &[&str])] = &[
    ("engine", "volume", &[]),
    ("engine", "task", &["volume"]),
    ("engine", "memory", &["volume"]),
    ("engine", "attachment", &["volume", "memory"]),
    ("engine", "messages", &["volume", "task", "memory", "attachment"]),
    ("engine", "shard", &["volume", "memory", "messages"]),
    ("engine", "members", &["volume", "attachment", "messages", "shard"]),
    ("engine", "stripe", &["volume", "attachment", "messages", "shard", "members"]),
    ("engine", "recovery", &["volume", "attachment", "messages", "shard", "members", "stripe"]),
    (
        "engine",
        "cache",
        &["volume", "memory", "attachment", "messages", "shard", "members", "stripe", "recovery"],
    ),
    (
        "engine",
        "host",
        &["volume", "attachment", "messages", "shard", "members", "stripe", "recovery", "cache"],
    ),
    (
        "engine",
        "background",
        &[
            "volume",
            "task",
            "attachment",
            "messages",
            "shard",
            "members",
            "stripe",
            "recovery",
            "cache",
            "host",
        ],
    ),
    ("engine", "unkept", &["volume", "messages"]),
    (
        "engine",
        "server",
        &["volume", "task", "attachment", "messages", "shard", "members", "host", "background"],
    ),
    ("engine", "alone", &["attachment", "messages", "host", "unkept", "server"]),
    ("engine", "sizes", &["messages", "members", "stripe", "recovery", "host"]),
    ("controller", "signals", &[]),
    ("controller", "interface", &[]),
    ("controller", "statefile", &[]),
    ("controller", "append_log", &["statefile"]),
    ("controller", "events", &["signals", "interface", "statefile", "append_log"]),
    ("controller", "audit", &["signals", "interface", "append_log", "events"]),
    ("controller", "inventory", &["signals", "interface", "statefile", "events"]),
    ("controller", "arrays", &["signals", "interface", "statefile", "events", "inventory"]),
    (
        "controller",
        "tasks",
        &["signals", "interface", "statefile", "events", "inventory", "arrays"],
    ),
    ("controller", "lifecycle", &["signals", "interface", "events", "inventory", "arrays"]),
    ("controller", "foreign", &["interface", "events", "inventory", "arrays", "lifecycle"]),
    ("controller", "ups", &["signals", "interface", "events", "arrays"]),
    ("controller", "policy", &["interface", "statefile", "events", "arrays", "tasks"]),
    (
        "controller",
        "reconcile",
        &["signals", "interface", "events", "inventory", "arrays", "tasks", "lifecycle"],
    ),
    (
        "controller",
        "commands",
        &[
            "signals",
            "interface",
            "events",
            "audit",
            "inventory",
            "arrays",
            "tasks",
            "lifecycle",
            "foreign",
            "policy",
            "ups",
            "reconcile",
        ],
    ),
];

/// A source of a crate: its path below `src`, and its text.
type Source = (PathBuf, String);

/// Imports that violate [`ROOMS`] in the sources of a crate, and modules without a row.
fn wrong_imports(of: &str, sources: &[Source]) -> Vec<String> {
    let rows: BTreeMap<&str, &[&str]> =
        ROOMS.iter().filter(|(name, ..)| *name == of).map(|(_, room, may)| (*room, *may)).collect();
    let at_root: BTreeMap<String, String> = sources
        .iter()
        .filter(|(path, _)| path == Path::new("lib.rs"))
        .flat_map(|(_, text)| names_at_root(text))
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in sources {
        let (room, depth) = place_in_crate(path);
        if room == "lib" {
            continue;
        }
        let Some(may) = rows.get(room.as_str()) else {
            wrong.push(format!("{of}/src/{}: module {room} has no row in ROOMS", path.display()));
            continue;
        };
        for (line, to) in imports_from_root(text, depth) {
            let to = at_root.get(&to).cloned().unwrap_or(to);
            if to != room && !may.contains(&to.as_str()) {
                let at = format!("{of}/src/{}:{line}", path.display());
                wrong.push(format!("{at}: {room} may not import {to}"));
            }
        }
    }
    wrong
}

/// The module of a file, and the number of `super` from it to the crate's root.
fn place_in_crate(path: &Path) -> (String, usize) {
    let mut modules: Vec<String> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if modules.last().is_some_and(|last| last == "mod") {
        modules.pop();
    }
    (modules.first().cloned().unwrap_or_default(), modules.len())
}

/// The re-exports of a crate's root: `pub use room::{Name, ...};`, as (name, module).
fn names_at_root(lib: &str) -> Vec<(String, String)> {
    let uses = lib.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let mut names = Vec::new();
    for one in uses {
        let path = one.trim().trim_start_matches("crate::").trim_start_matches("self::");
        let Some((room, _)) = path.split_once("::") else { continue };
        names.extend(words(path).into_iter().skip(1).map(|name| (name, room.trim().to_owned())));
    }
    names
}

fn words(text: &str) -> Vec<String> {
    let words =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// The first name of each path from the crate's root, with its line: `crate::name`, `crate::{name,
/// ...}`, and `super::super::name` from a nested file. Comments are ignored.
fn imports_from_root(text: &str, depth: usize) -> Vec<(usize, String)> {
    let mut code = String::new();
    for line in text.lines() {
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    let tests_from = code.find("mod tests {").unwrap_or(code.len());
    let mut found = Vec::new();
    let starts = code.match_indices("crate::").map(|(at, start)| (at, at + start.len(), true));
    let supers = code.match_indices("super::").filter_map(|(at, _)| {
        let is_first = !code[..at].ends_with("super::");
        let more = code[at..].split("super::").take_while(|between| between.is_empty()).count();
        let depth = depth + usize::from(at > tests_from);
        (is_first && more >= depth).then_some((at, at + more * "super::".len(), true))
    });
    for (at, end, _) in starts.chain(supers) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = code[end..].trim_start();
        match rest.strip_prefix('{') {
            None => found.extend(
                words(&rest[..rest.len().min(80)]).into_iter().next().map(|name| (line, name)),
            ),
            Some(group) => {
                found.extend(firsts_of_group(group).into_iter().map(|name| (line, name)))
            }
        }
    }
    found
}

/// The first names within the braces of a `use`: for `a, b::{c, d}}`, that is `a` and `b`.
fn firsts_of_group(group: &str) -> Vec<String> {
    let (mut open, mut expects, mut firsts) = (1, true, Vec::new());
    let mut word = String::new();
    for c in group.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        if is_word {
            word.push(c);
            continue;
        }
        let word = std::mem::take(&mut word);
        if expects && !word.is_empty() {
            firsts.push(word);
            expects = false;
        }
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            ',' if open == 1 => expects = true,
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    firsts
}

fn sources_of(name: &str) -> Vec<Source> {
    let src = root().join("crates").join(name).join("src");
    let of_crate = sources().into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).expect("a source");
        Some((path.strip_prefix(&src).ok()?.to_owned(), text))
    });
    of_crate.collect()
}

#[test]
fn every_room_imports_along_the_arrows() {
    let crates: BTreeSet<&str> = ROOMS.iter().map(|(name, ..)| *name).collect();
    let mut wrong = Vec::new();
    for name in crates {
        let sources = sources_of(name);
        assert!(sources.len() > 5, "{name}: only {} sources", sources.len());
        wrong.extend(wrong_imports(name, &sources));
    }
    for (index, (name, room, may)) in ROOMS.iter().enumerate() {
        let before =
            |other: &str| ROOMS[..index].iter().any(|row| row.0 == *name && row.1 == other);
        let upward = may.iter().filter(|other| !before(other));
        wrong.extend(
            upward.map(|other| {
                format!("ROOMS: {name}: {room} may import {other}, which is above it")
            }),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_against_the_arrows_is_found() {
    let sources = |path: &str, text: &str| {
        let lib = "mod arrays;\npub use commands::{Controller, Options};\npub use host::Volume;\n"
            .to_owned();
        vec![(PathBuf::from("lib.rs"), lib), (PathBuf::from(path), text.to_owned())]
    };
    for (path, planted) in [
        ("stripe/execute.rs", "use crate::recovery::Recovery;"),
        ("stripe/execute.rs", "fn f(volume: &crate::Volume) {}"),
        ("stripe/journal/writer.rs", "use super::super::super::host::Exchange;"),
        ("members/slots.rs", "use crate::{messages::Report, stripe::{Stripes, flush}};"),
        ("recovery/mod.rs", "use crate::background::Running;"),
        ("host/split.rs", "use crate::task::TaskOrder;"),
        ("messages.rs", "use super::shard::Resources;"),
        ("unkept.rs", "use crate::host::Exchange;"),
        ("cache/mod.rs", "use crate::host::Volume;"),
        ("growth/mod.rs", "use crate::stripe::Stripes;"),
    ] {
        let wrong = wrong_imports("engine", &sources(path, planted));
        assert_eq!(wrong.len(), 1, "{path}: {planted}: {wrong:?}");
    }
    for (path, fine) in [
        ("background/init.rs", "use crate::host::Volume;\nuse crate::recovery::Recovery;"),
        (
            "stripe/flush.rs",
            "// as crate::host does\nuse crate::members::Drives;\nuse super::stripes::Stripes;",
        ),
    ] {
        assert_eq!(wrong_imports("engine", &sources(path, fine)), Vec::<String>::new(), "{fine}");
    }
    for (path, planted) in [
        ("arrays/record.rs", "use crate::reconcile::Reconciler;"),
        ("arrays/record.rs", "use crate::{events::Events, tasks::{Tasks, Task}};"),
        ("arrays/record.rs", "fn f() { crate::lifecycle::stop() }"),
        ("arrays/record.rs", "use crate::Controller;"),
        ("arrays/record.rs", "use super::super::tasks::Tasks;"),
        ("arrays/mod.rs", "use super::tasks::Tasks;"),
        ("arrays/record.rs", "mod tests {\n    use super::super::super::tasks::Tasks;\n}"),
        ("newcomer/mod.rs", "use crate::events::Events;"),
    ] {
        let wrong = wrong_imports("controller", &sources(path, planted));
        assert_eq!(wrong.len(), 1, "{path}: {planted}: {wrong:?}");
    }
    for (path, fine) in [
        ("arrays/record.rs", "use crate::inventory::{Drive, Inventory};\nuse super::array::Array;"),
        (
            "arrays/record.rs",
            "// as crate::tasks does\nmod tests {\n    use super::super::array::Array;\n}",
        ),
        ("reconcile/mod.rs", "use crate::tasks::Tasks;"),
    ] {
        assert_eq!(
            wrong_imports("controller", &sources(path, fine)),
            Vec::<String>::new(),
            "{fine}"
        );
    }
}

/// Types used by many modules: all methods of a module are in one file.
const SHARED: &[(&str, &[&str])] =
    &[("engine", &["Volume", "Core"]), ("controller", &["Volume", "Core"])];

#[test]
fn what_is_shared_has_its_methods_in_one_file_of_a_room() {
    let mut wrong = Vec::new();
    for (name, types) in SHARED {
        let mut parts: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
        for (path, text) in sources_of(name) {
            let has = |one: &&&str| text.lines().any(|line| line == format!("impl {one} {{"));
            for one in types.iter().filter(has) {
                let part = format!("{name}/src/{}", path.display());
                parts.entry((place_in_crate(&path).0, one)).or_default().push(part);
            }
        }
        for ((room, one), files) in parts {
            if files.len() > 1 {
                wrong.push(format!(
                    "{name}: {room}: impl {one} is in several files: {}",
                    files.join(", ")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Crates whose root lists every file in a table, in the row of its module.
const LISTED: &[&str] = &["controller"];

#[test]
fn the_root_lists_every_file() {
    let mut missing = Vec::new();
    for name in LISTED {
        let sources = sources_of(name);
        let lib = sources.iter().find(|(path, _)| path == Path::new("lib.rs"));
        let lib = &lib.expect("a root").1;
        for (path, _) in &sources {
            let (room, depth) = place_in_crate(path);
            let row = lib.lines().find(|line| line.starts_with(&format!("//! | `{room}` |")));
            let file = path.file_stem().expect("a name").to_string_lossy();
            let listed = match depth {
                _ if room == "lib" => true,
                1 => row.is_some(),
                _ => row.is_some_and(|row| words(row).contains(&file.clone().into_owned())),
            };
            if !listed {
                missing.push(format!("{name}/src/{}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "not in the table of lib.rs:\n{}", missing.join("\n"));
}
