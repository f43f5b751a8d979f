//! Documents are short and narrow, and their links are valid.

use crate::columns::COLUMNS;
use crate::root;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The word limit of a page, and the pages with their own limit.
const MOST_WORDS: usize = 800;
const LIMITS: &[(&str, usize)] = &[
    ("README.md", 500),
    ("ARCHITECTURE.md", 2000),
    ("CONTRIBUTING.md", 1200),
    ("CHANGELOG.md", usize::MAX),
    // One row per word.
    ("docs/glossary.md", 2000),
];

/// The word limit of all pages in `docs/`.
const MOST_IN_ALL: usize = 35_000;

#[test]
fn no_document_is_longer_than_a_reader_has_time_for() {
    let mut wrong = Vec::new();
    let mut all = 0;
    for (name, text) in documents() {
        let words = text.split_whitespace().count();
        let limit = LIMITS
            .iter()
            .find(|(limited, _)| *limited == name)
            .map_or(MOST_WORDS, |(_, words)| *words);
        if words > limit {
            wrong.push(format!("{name}: {words} words, at most {limit}"));
        }
        if name.starts_with("docs/") {
            all += words;
        }
    }
    if all > MOST_IN_ALL {
        wrong.push(format!("docs/: {all} words, at most {MOST_IN_ALL}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_line_of_a_document_is_wider_than_a_hundred_columns() {
    let mut wrong = Vec::new();
    // Those beside test images are tables.
    let read = documents().into_iter().filter(|(name, _)| !name.starts_with("crates/"));
    for (name, text) in read {
        let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS);
        wrong.extend(wide.map(|(at, _)| format!("{name}:{}", at + 1)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let documents = documents();
    let mut wrong = Vec::new();
    for (name, text) in &documents {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        for link in links(text) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { PathBuf::from(name) } else { resolved(&folder.join(path)) };
            if !root().join(&target).exists() {
                wrong.push(format!("{name}: {link}"));
                continue;
            }
            let target = documents.get(&target.display().to_string());
            if !heading.is_empty()
                && !target.is_some_and(|text| anchors(text).iter().any(|one| one == heading))
            {
                wrong.push(format!("{name}: {link}: there is no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_headings_are_found() {
    let text = "# A title\n[one](docs/one.md#x) and\n```text\n[no](no.md)\n# No\n```\n\
                `[no](no.md)` [two](https://two.example)\n\
                ## `serve`, and more\n";
    assert_eq!(links(text), ["docs/one.md#x"]);
    assert_eq!(anchors(text), ["a-title", "serve-and-more"]);
    assert_eq!(
        resolved(Path::new("docs/operate/../plan/./bench.md")),
        Path::new("docs/plan/bench.md")
    );
}

/// The documents by their paths from the root.
fn documents() -> BTreeMap<String, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let there = names.lines().filter(|name| root().join(name).exists());
    let read = |name: &str| {
        (name.to_owned(), std::fs::read_to_string(root().join(name)).expect("a document"))
    };
    there.map(read).collect()
}

/// The lines of a document without code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Relative links.
fn links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for line in prose(text) {
        for part in line.split('`').step_by(2) {
            let targets = part.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(targets.filter(|target| !target.contains(':')));
        }
    }
    links
}

/// The anchors of headings: lower case, hyphens for blanks, no other characters.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim());
    let part = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|heading| heading.chars().filter_map(part).collect()).collect()
}

fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}
