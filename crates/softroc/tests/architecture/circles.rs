//! Not more than two files import each other in a circle.
//!
//! A file imports the file that defines a name, also if a re-export names it. A `pub use` alone is
//! no import.

use crate::sources_of;
use std::collections::{BTreeMap, BTreeSet};

/// The crates without larger circles.
const CRATES: &[&str] = &["engine", "block-cache", "platform", "write-log"];

/// The most files in a circle.
const MOST_FILES: usize = 2;

/// The names from the crate's root to a module or an item.
type Place = Vec<String>;

/// The modules that the file of each module imports.
type Imports = BTreeMap<Place, BTreeSet<Place>>;

/// The imports of a file, and the targets of its re-exports by their names.
#[derive(Default)]
struct File {
    imports: Vec<Place>,
    exports: BTreeMap<String, Place>,
}

type Files = BTreeMap<Place, File>;

#[test]
fn files_import_one_way() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let sources = sources_of(name).into_iter();
        let sources = sources.map(|(path, text)| (path.display().to_string(), text));
        let imports = imports_between(&sources.collect::<Vec<_>>());
        assert!(imports.len() > 5, "{name}: only {} sources", imports.len());
        wrong.extend(circles(&imports).iter().map(|circle| describe(name, circle, &imports)));
    }
    assert!(wrong.is_empty(), "more than {MOST_FILES} files in a circle:\n{}", wrong.join("\n"));
}

/// The files of a circle, with their imports in it.
fn describe(name: &str, circle: &BTreeSet<Place>, imports: &Imports) -> String {
    let mut lines = vec![format!("{name}: {} files", circle.len())];
    for file in circle {
        let others: Vec<String> =
            imports[file].intersection(circle).map(|other| other.join("/")).collect();
        lines.push(format!("    {} -> {}", file.join("/"), others.join(", ")));
    }
    lines.join("\n")
}

/// The sets of more than [`MOST_FILES`] files that import each other, also through others.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<Place>> {
    let reached: BTreeMap<&Place, BTreeSet<&Place>> =
        imports.keys().map(|file| (file, reached_from(file, imports))).collect();
    let circle_of = |file: &Place| -> BTreeSet<Place> {
        let returns = |other: &&&Place| reached[**other].contains(file);
        reached[file].iter().filter(returns).map(|other| (*other).clone()).collect()
    };
    imports.keys().map(circle_of).filter(|circle| circle.len() > MOST_FILES).collect()
}

fn reached_from<'a>(file: &Place, imports: &'a Imports) -> BTreeSet<&'a Place> {
    let mut reached: BTreeSet<&Place> = BTreeSet::new();
    let mut next: Vec<&Place> = imports[file].iter().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&imports[file]);
        }
    }
    reached
}

/// The imports between sources: their paths below `src`, and their texts. Tests are ignored.
fn imports_between(sources: &[(String, String)]) -> Imports {
    let modules = sources.iter().map(|(path, text)| (module_of(path), code_of(text)));
    let modules: BTreeMap<Place, String> =
        modules.filter(|(module, _)| !module.iter().any(|name| name == "tests")).collect();
    let names: BTreeSet<&Place> = modules.keys().collect();
    let files: Files =
        modules.iter().map(|(module, code)| (module.clone(), read(module, code, &names))).collect();
    let imported = |(module, file): (&Place, &File)| {
        let targets = file.imports.iter().filter_map(|place| defining(place, &files, 0));
        (module.clone(), targets.filter(|target| target != module).collect())
    };
    files.iter().map(imported).collect()
}

/// The module of a file; that of the root has no name.
fn module_of(path: &str) -> Place {
    let path = path.trim_end_matches(".rs");
    let mut module: Place = path.split('/').map(str::to_owned).collect();
    if path == "lib" || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// A source without tests, comments, and the content of strings.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        line.split('"').step_by(2).for_each(|part| code.push_str(part));
        code.push('\n');
    }
    code
}

/// The imports and re-exports of a file: in its `use` items, and within its code.
fn read(module: &Place, code: &str, modules: &BTreeSet<&Place>) -> File {
    let mut file = File::default();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((visibility, tree)) = use_in(line) else {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let paths = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
            file.imports.extend(paths.filter_map(|path| from_root(path, module, modules)));
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            tree.push_str(lines.next().expect("a `use` ends"));
        }
        for path in paths_in(tree.trim_end_matches(';')) {
            let (path, name) = match path.split_once(" as ") {
                Some((path, name)) => (path, name),
                None => (path.as_str(), path.rsplit("::").next().unwrap_or_default()),
            };
            match from_root(path, module, modules) {
                Some(place) if visibility.is_empty() => file.imports.push(place),
                Some(place) => drop(file.exports.insert(name.to_owned(), place)),
                None => {}
            }
        }
    }
    file
}

/// The visibility and the begin of the tree of a `use` that begins in a line.
fn use_in(line: &str) -> Option<(&str, &str)> {
    let (visibility, tree) = line.trim_start().split_once("use ")?;
    let is_use = visibility.is_empty()
        || visibility == "pub "
        || visibility.starts_with("pub(") && visibility.ends_with(") ");
    is_use.then_some((visibility, tree))
}

/// The paths of a tree: `a::{b, c::{d, e}}` has `a::b`, `a::c::d` and `a::c::e`.
fn paths_in(tree: &str) -> Vec<String> {
    let Some((before, group)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in group[..group.rfind('}').expect("a group ends")].chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().expect("the first part").push(c),
        }
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(|part| paths_in(&format!("{}{part}", before.trim()))).collect()
}

/// The place of a path in a module. `None`: it is in another crate, or a name of this file.
fn from_root(path: &str, module: &Place, modules: &BTreeSet<&Place>) -> Option<Place> {
    let mut names = path.split("::").map(str::to_owned).peekable();
    let mut place = module.clone();
    match names.peek()?.as_str() {
        "crate" => place.clear(),
        "self" | "super" => {}
        child => {
            place.push(child.to_owned());
            let is_module = modules.contains(&place);
            place.pop();
            return is_module.then(|| place.into_iter().chain(names).collect());
        }
    }
    while let Some(up) = names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str())) {
        if up == "super" {
            place.pop();
        }
    }
    place.extend(names);
    Some(place)
}

/// The module whose file defines a place, through `followed` re-exports so far.
fn defining(place: &Place, files: &Files, followed: usize) -> Option<Place> {
    let depth = (0..=place.len()).rev().find(|depth| files.contains_key(&place[..*depth]))?;
    let (module, rest) = place.split_at(depth);
    let export = rest.first().and_then(|name| files[module].exports.get(name));
    match export.filter(|_| followed < 12) {
        Some(export) => {
            let place = export.iter().chain(&rest[1..]).cloned().collect();
            defining(&place, files, followed + 1)
        }
        None => Some(module.to_vec()),
    }
}

#[test]
fn a_circle_through_a_re_export_is_found() {
    let circles_of = |third: &str| {
        let sources = [
            ("lib.rs", "mod a;\nmod b;\npub use a::{First, Second as Other};\n"),
            ("a/mod.rs", "mod first;\nmod second;\npub use first::First;\npub use second::Second;"),
            ("a/first.rs", "use crate::Other;\nuse std::rc::Rc;\n"),
            ("a/second.rs", "use super::{\n    super::b::{self, Third},\n    First as One,\n};\n"),
            ("b.rs", third),
        ];
        let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned()));
        circles(&imports_between(&sources))
    };
    let place = |path: &str| -> Place { path.split('/').map(str::to_owned).collect() };
    let circle: BTreeSet<Place> = ["a/first", "a/second", "b"].map(place).into();
    assert_eq!(circles_of("fn f(first: &crate::First) {}"), [circle].into());
    for none in [
        "// as crate::First does\n",
        "fn f() { g(\"crate::First\") }\n",
        "pub use crate::First;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::First;\n}\n",
    ] {
        assert_eq!(circles_of(none), BTreeSet::new(), "{none}");
    }
}
