//! No function is too long, and no item is unused.

use crate::{BINARIES, crate_of, root, sources, words};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The lines between the braces. Tests count as well: a test must be readable.
const MOST_LINES_OF_A_FUNCTION: usize = 60;

/// Functions that exceeded the limit when it was introduced. The list may only shrink: an outdated
/// entry fails the test.
const LONG_FUNCTIONS: &[&str] = &[
    "crates/engine/src/stripe/compute/tests.rs::payloads_and_what_is_cached_may_lie_in_several_slices",
    "crates/layout/tests/map.rs::a_layout_that_cannot_be_is_refused_in_one_sentence",
    "crates/write-log/tests/model/main.rs::next",
    "crates/ondisk/src/ddf/level.rs::read",
    "crates/ondisk/src/foreign/reconcile.rs::place",
    "crates/ondisk/tests/ddf/mdadm.rs::mdadm_reads_the_level_the_order_and_the_sizes_of_every_level",
    "crates/parity/benches/peers/main.rs::rows",
    "crates/plan/tests/machine/mod.rs::compute",
];

#[test]
fn functions_are_short_enough_to_know() {
    let mut wrong = Vec::new();
    let mut long = BTreeSet::new();
    for path in sources() {
        let relative = path.strip_prefix(root()).expect("below the root").display().to_string();
        for (name, lines) in functions(&text_of(&path)) {
            let entry = format!("{relative}::{name}");
            if lines <= MOST_LINES_OF_A_FUNCTION {
                continue;
            }
            if !LONG_FUNCTIONS.contains(&entry.as_str()) {
                wrong.push(format!("{entry}: {lines} lines: split it"));
            }
            long.insert(entry);
        }
    }
    let short = LONG_FUNCTIONS.iter().filter(|entry| !long.contains(**entry));
    wrong.extend(
        short.map(|entry| format!("{entry}: within the limit; remove it from LONG_FUNCTIONS")),
    );
    assert!(wrong.is_empty(), "more than {MOST_LINES_OF_A_FUNCTION} lines:\n{}", wrong.join("\n"));
}

/// If a package's tests are one program, a file that it does not include would not run.
#[test]
fn every_file_of_tests_is_in_its_program() {
    let mut unnamed = Vec::new();
    for path in sources() {
        let Some(folder) = path.parent().filter(|folder| folder.ends_with("tests")) else {
            continue;
        };
        let (Ok(program), Some(name)) =
            (std::fs::read_to_string(folder.join("main.rs")), path.file_stem())
        else {
            continue;
        };
        let name = name.to_string_lossy();
        if name != "main" && !program.lines().any(|line| line == format!("mod {name};")) {
            unnamed.push(path.display().to_string());
        }
    }
    assert!(unnamed.is_empty(), "no `mod` of `main.rs` beside them names\n{}", unnamed.join("\n"));
}

#[test]
fn a_long_function_is_found() {
    let body = "    f();\n".repeat(61);
    let planted = format!(
        "fn short() {{}}\n\n\
         impl X {{\n    pub async fn long(\n        a: u8,\n    ) -> u8 {{\n{body}    }}\n}}\n"
    );
    assert_eq!(functions(&planted), [("long".to_owned(), 61)]);
}

/// Functions with a body of several lines, and their number. The sources are formatted: a body ends
/// with a brace at the indentation of its `fn`.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let depth = line.len() - line.trim_start().len();
        let is_as_deep =
            |line: &str| line.len() - line.trim_start().len() == depth && !line.trim().is_empty();
        let ends_head =
            |line: &&str| is_as_deep(line) && (line.ends_with('{') || line.ends_with([';', '}']));
        let Some(head) = lines[index..].iter().position(ends_head) else { continue };
        if !lines[index + head].ends_with('{') {
            continue; // A trait method without a body, or a body on one line.
        }
        let body = &lines[index + head + 1..];
        let end = body.iter().position(|line| is_as_deep(line) && line.trim_start() == "}");
        found.extend(end.map(|lines| (name, lines)));
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_head = before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "\"C\"", "default"].contains(&word)
    });
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (is_head && !name.is_empty()).then_some(name)
}

#[test]
fn every_file_is_a_module_of_something() {
    let files: BTreeSet<_> = sources().into_iter().collect();
    let mut orphans = Vec::new();
    for path in &files {
        let relative = path.strip_prefix(root()).expect("below the root");
        let depth = relative.components().count();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // crates/NAME/{src,tests,benches,examples}/FILE.rs
        let is_root =
            match relative.components().nth(2).map(|part| part.as_os_str().to_string_lossy()) {
                Some(folder) if folder == "src" => depth == 4 && (name == "lib" || name == "main"),
                Some(_) => depth <= 4 || name == "main",
                None => true,
            };
        if is_root || name == "build" {
            continue;
        }
        let (folder, module) = match name.as_str() {
            "mod" => {
                (path.parent().and_then(Path::parent), file_name(path.parent().expect("a folder")))
            }
            _ => (path.parent(), name),
        };
        let folder = folder.expect("a folder");
        let beside = files.iter().filter(|other| other.parent() == Some(folder));
        let above = files.get(&folder.with_extension("rs"));
        let says = format!("mod {module};");
        let path_says = format!("{}\"]", file_name(path));
        if !beside.chain(above).any(|other| {
            let text = text_of(other);
            text.lines().any(|line| {
                line.ends_with(&says) || line.contains("#[path") && line.contains(&path_says)
            })
        }) {
            orphans.push(relative.display().to_string());
        }
    }
    assert!(orphans.is_empty(), "no `mod` names them:\n{}", orphans.join("\n"));
}

/// Files whose public items need no user, with the reason.
const WHOLE_TABLES: &[(&str, &str)] = &[
    ("crates/nbd/src/constants.rs", "the numbers of the protocol, as its document lists them"),
    ("crates/ondisk/src/ddf/disks.rs", "the bits of a field of DDF, as its document lists them"),
];

/// Public items of a crate that no other crate uses. For items used in their own crate, the
/// compiler reports unused ones once they are private; this test finds items that others could use.
#[test]
fn what_is_public_is_used() {
    let texts: BTreeMap<String, String> = sources()
        .into_iter()
        .map(|path| {
            (
                path.strip_prefix(root()).expect("below").display().to_string(),
                code_of(&text_of(&path)),
            )
        })
        .collect();
    let fuzz = std::fs::read_dir(root().join("fuzz/src")).into_iter().flatten().flatten();
    let fuzz: String =
        fuzz.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect();
    let fuzz: BTreeSet<&str> = split(&fuzz).collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for word in texts.values().flat_map(|text| split(text)).chain(fuzz.iter().copied()) {
        *times.entry(word).or_default() += 1;
    }
    let sets: Vec<(&String, BTreeSet<&str>, BTreeSet<&str>)> = texts
        .iter()
        .map(|(path, text)| (path, split(text).collect(), split(tests_in(path, text)).collect()))
        .collect();
    let mut dead = Vec::new();
    for (path, text) in &texts {
        if WHOLE_TABLES.iter().any(|(table, _)| table == path) {
            continue;
        }
        let once = items(text).into_iter().filter(|name| times.get(name.as_str()) == Some(&1));
        dead.extend(once.map(|name| format!("{path}: {name}: nothing names it")));
        let name = crate_of(&root().join(path));
        if !path.ends_with("/src/lib.rs") || BINARIES.contains(&name.as_str()) {
            continue;
        }
        let own = format!("crates/{name}/src/");
        let outside = |name: &str| {
            fuzz.contains(name)
                || sets.iter().any(|(path, all, tests)| {
                    if path.starts_with(&own) { tests.contains(name) } else { all.contains(name) }
                })
        };
        let inside = texts.iter().filter(|(path, _)| path.starts_with(&own));
        let in_heads: BTreeSet<&str> = inside.flat_map(|(_, text)| in_public_heads(text)).collect();
        let unused = offered(text).into_iter().filter(|name| !outside(name));
        let unused = unused.filter(|name| !in_heads.contains(name.as_str()));
        dead.extend(
            unused.map(|name| format!("{path}: {name}: nothing outside the crate uses it")),
        );
    }
    assert!(dead.is_empty(), "remove them, or make them private:\n{}", dead.join("\n"));
}

#[test]
fn public_items_are_recognised() {
    let text = "pub const fn a() {}\npub(crate) struct B;\n    pub async fn c<T>(t: T) {}\n\
        fn d() {}\npub const E: F = 1;\n";
    assert_eq!(items(text), ["a", "B", "c", "E"]);
    assert!(in_public_heads(text).contains(&"F"), "users of E need not name its type");
    let lib = "mod m;\npub use m::{G, h};\npub use m::I;\n";
    assert_eq!(offered(lib), ["G", "I", "h"].map(str::to_owned).into());
}

/// Names re-exported by a root: `pub use room::{Name, ...};`.
fn offered(lib: &str) -> BTreeSet<String> {
    let uses = lib.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let names = uses.filter_map(|one| one.split_once("::")).flat_map(|(_, names)| words(names));
    names.filter(|name| name != "self").collect()
}

/// Items that a file declares public, in its crate or beyond.
fn items(text: &str) -> Vec<String> {
    let kinds = ["fn", "struct", "enum", "const", "static", "trait", "type"];
    let of_line = |line: &str| {
        let mut words = line
            .trim_start()
            .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(' && c != ')');
        if !words.next()?.starts_with("pub") {
            return None;
        }
        let mut rest = words.skip_while(|word| ["async", "unsafe"].contains(word));
        let kind = rest.next()?;
        let name = rest.next()?;
        let name = if kind == "const" && name == "fn" { rest.next()? } else { name };
        let name = name.split('(').next()?;
        (kinds.contains(&kind) && !name.is_empty()).then(|| name.to_owned())
    };
    text.lines().filter_map(of_line).collect()
}

/// The words in the visible part of items: heads of public functions and fields, variants of enums.
/// Users of these need not name the types in them.
fn in_public_heads(text: &str) -> Vec<&str> {
    let is_head = |line: &&str| {
        let line = line.trim_start();
        let is_variant = line.starts_with(|c: char| c.is_ascii_uppercase()) && !line.contains("=>");
        let is_field = line.starts_with(|c: char| c.is_ascii_lowercase())
            && line.contains(": ")
            && line.ends_with(',');
        line.starts_with("pub ") && !line.starts_with("pub use ")
            || line.starts_with(") -> ")
            || line.starts_with("type ")
            || line.starts_with("fn ")
            || is_variant
            || is_field
    };
    let declared = |line: &str| items(line).into_iter().next();
    let heads = text.lines().filter(is_head);
    heads
        .flat_map(|line| {
            let own = declared(line);
            split(line).filter(move |word| own.as_deref() != Some(*word))
        })
        .collect()
}

/// The tests in a source.
fn tests_in<'a>(path: &str, text: &'a str) -> &'a str {
    if path.contains("/tests/") || path.ends_with("/tests.rs") {
        return text;
    }
    text.find("#[cfg(test)]").map_or("", |from| &text[from..])
}

/// A source without comments.
fn code_of(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim_start().starts_with("//") {
        true => "",
        false => line.split(" // ").next().unwrap_or_default(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a source")
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}
