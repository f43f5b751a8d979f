//! Files and tests named in documents exist.

use crate::{root, sources};
use std::collections::BTreeSet;
use std::process::Command;

const DOCUMENTS: &[&str] =
    &["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// Folders with documents for developers.
const FOR_DEVELOPERS: &[&str] = &["docs/develop/design/", "docs/develop/decisions/"];

/// Other documents that name tests.
const NAME_TESTS: &[&str] = &["ARCHITECTURE.md", "docs/operate/limits.md"];

/// Prefixes of paths from the root in documents.
const FROM_ROOT: &[&str] = &["crates/", "docs/", "catalog/", "scripts/", "fuzz/"];

#[test]
fn every_path_in_the_documents_exists() {
    let files = files();
    let mut wrong = Vec::new();
    for document in DOCUMENTS.iter().copied().chain(for_developers(&files)) {
        let text = std::fs::read_to_string(root().join(document)).expect(document);
        let missing = paths(&text).into_iter().filter(|path| !is_there(path, &files));
        wrong.extend(missing.map(|path| format!("{document}: {path}")));
    }
    assert!(wrong.is_empty(), "named, but missing:\n{}", wrong.join("\n"));
}

#[test]
fn every_test_in_the_documents_exists() {
    let files = files();
    let texts: Vec<String> =
        sources().iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let mut wrong = Vec::new();
    for document in NAME_TESTS.iter().copied().chain(for_developers(&files)) {
        let text = std::fs::read_to_string(root().join(document)).expect(document);
        for name in tests_named(&text) {
            let start = format!("fn {name}(");
            if !texts.iter().any(|source| source.contains(&start)) {
                wrong.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "tests that are named and do not exist:\n{}", wrong.join("\n"));
}

#[test]
fn names_of_tests_are_found() {
    let text =
        "see `reshape.rs`: `nothing_is_lost_at_all`, `every_defect_is_found`, and `max_lead`";
    assert_eq!(tests_named(text), ["nothing_is_lost_at_all", "every_defect_is_found"]);
}

#[test]
fn a_path_that_is_not_there_is_found() {
    let files =
        BTreeSet::from(["crates/engine/src/host/split.rs".to_owned(), "docs/levels.md".to_owned()]);
    let text = "see `crates/engine/src/host`, `host/split.rs`, [levels](docs/levels.md#one), \
                `crates/engine/src/lane.rs` and `lane.rs`, `d{0..7}.img`, `FILE.rs`.";
    let missing: Vec<String> =
        paths(text).into_iter().filter(|path| !is_there(path, &files)).collect();
    assert_eq!(missing, ["crates/engine/src/lane.rs", "lane.rs"]);
}

/// The documents for developers.
fn for_developers(files: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    let is_in_folder = |file: &&String| {
        file.ends_with(".md") && FOR_DEVELOPERS.iter().any(|folder| file.starts_with(folder))
    };
    files.iter().filter(is_in_folder).map(String::as_str)
}

/// Names of tests: words in backticks with at least three underscores.
fn tests_named(text: &str) -> Vec<&str> {
    let is_name = |word: &&str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.matches('_').count() >= 3 && word.chars().all(is_part)
    };
    text.split('`').skip(1).step_by(2).filter(is_name).collect()
}

/// Paths from the root, and names of sources, optionally without their folder.
fn paths(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./*{}".contains(c);
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_matches(['.', '/']));
    let is_path = |word: &&str| {
        let from_root = FROM_ROOT.iter().any(|start| word.starts_with(start));
        let is_placeholder =
            word.contains(['*', '{', '}']) || word.split('/').any(|part| part.starts_with("FILE"));
        (from_root || word.ends_with(".rs")) && !is_placeholder
    };
    words.filter(is_path).map(str::to_owned).collect()
}

/// Whether a file or folder exists; a source may be named by the end of its path.
fn is_there(path: &str, files: &BTreeSet<String>) -> bool {
    let folder = format!("{path}/");
    let end = format!("/{path}");
    let is_source = path.ends_with(".rs");
    files
        .iter()
        .any(|file| file == path || file.starts_with(&folder) || is_source && file.ends_with(&end))
}

fn files() -> BTreeSet<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    text.lines().filter(|line| root().join(line).exists()).map(str::to_owned).collect()
}
