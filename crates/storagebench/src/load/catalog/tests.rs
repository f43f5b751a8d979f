use super::*;
use crate::load::ladder::Ladder;
use crate::load::profile::RequestKind;

fn read(text: &str) -> Result<Catalog> {
    let mut catalog = Catalog::builtin().clone();
    catalog.read("mine.toml", text)?;
    Ok(catalog)
}

#[test]
fn the_built_in_files_are_read_and_every_name_names_one_thing() {
    let mut catalog = Catalog::default();
    for (file, text) in BUILTIN {
        catalog.read(file, text).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut seen = Vec::new();
    for group in catalog.groups() {
        assert!(!group.prose.is_empty() && !catalog.select(&group.name).unwrap().is_empty());
        for entry in &group.entries {
            assert!(
                !entry.prose.is_empty() && !entry.prose.contains('\n') && !entry.source.is_empty()
            );
            for name in entry.names() {
                assert!(!seen.contains(&name), "{name} twice");
                seen.push(name);
                assert!(!catalog.select(name).unwrap().is_empty());
                assert!(catalog.select(&name.to_uppercase().replace('-', "_")).is_ok());
            }
        }
    }
    assert!(seen.len() > 80, "{}", seen.len());
}

#[test]
fn the_built_in_profiles_are_what_their_sources_say() {
    let lines: Vec<String> = Catalog::builtin()
        .groups()
        .iter()
        .flat_map(|group| &group.entries)
        .map(|entry| {
            let profile = &entry.profiles[0];
            let family = if entry.profiles.len() > 1 {
                format!(" and {} more", entry.profiles.len() - 1)
            } else {
                String::new()
            };
            format!("{}: {}{family}", profile.name(), profile.description())
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn families_are_selected_as_a_whole_or_by_member() {
    let catalog = Catalog::builtin();
    let names = |text: &str| -> Vec<String> {
        catalog.select(text).unwrap().iter().map(|profile| profile.name().to_owned()).collect()
    };
    assert_eq!(names("sweep-random-read").len(), 12);
    assert_eq!(names("Sweep-Random-Read-64K"), ["sweep-random-read-64K"]);
    let streams = catalog.select("multi-stream-read").unwrap();
    assert_eq!(streams[7].name(), "multi-stream-read-24");
    assert_eq!(streams[7].rungs(&Ladder::default()), [24]);
    assert_eq!(catalog.select("standard,rate=10").unwrap()[4].name(), "restore,rate=10");
}

const MINE: &str = r#"
group = "mine"
prose = "ours"
source = "measured"
[[workload]]
name = "two-parts"
prose = "data and log"
rate = 100
[[workload.component]]
share = 80
random = 90
hot = "80%:16G"
moves = "1m"
requests = [
    { share = 25, block = "4K", read = 50, align = "sector" },
    { share = 75, block = "64K", read = 100 },
]
[[workload.component]]
share = 20
area = "90%.."
access = "sequential"
read = 0
block = "4K"
streams = "2x1G"
"#;

#[test]
fn a_users_file_is_read_with_everything_a_workload_can_be() {
    let catalog = read(MINE).unwrap();
    let profile = &catalog.select("two-parts").unwrap()[0];
    let load = profile.load();
    assert_eq!(load.components.len(), 2);
    assert_eq!(load.components[0].kinds.len(), 2);
    assert_eq!(load.components[1].streams.count, 2);
    assert_eq!((profile.prose(), profile.source()), ("data and log", "measured"));
    assert_eq!(
        profile.description(),
        "72% random, 70% read, 4 KiB to 64 KiB, 2 components, 100/s (poisson)"
    );
}

#[test]
fn what_is_written_is_read_back_as_the_same() {
    let mut catalog = read(MINE).unwrap();
    catalog
        .groups
        .iter_mut()
        .for_each(|group| group.entries.retain(|entry| entry.profiles.len() == 1));
    for group in catalog.groups.iter().filter(|group| !group.entries.is_empty()) {
        let text = group.to_toml();
        let again =
            read::group("again.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for (entry, before) in again.entries.iter().zip(&group.entries) {
            let (after, before) = (&entry.profiles[0], &before.profiles[0]);
            assert_eq!(after.description(), before.description(), "{text}");
            assert_eq!((after.name(), after.prose()), (before.name(), before.prose()));
            let kinds = |profile: &Profile| -> Vec<String> {
                let alone = |kind: &RequestKind| RequestKind { share: 1.0, ..*kind };
                profile
                    .kinds()
                    .iter()
                    .map(|(share, kind)| format!("{share:.9} {:?}", alone(kind)))
                    .collect()
            };
            assert_eq!(kinds(after), kinds(before));
            assert_eq!(after.load().pace, before.load().pace);
            for (a, b) in after.load().components.iter().zip(&before.load().components) {
                assert_eq!((&a.skew, a.streams, a.area), (&b.skew, b.streams, b.area));
            }
        }
    }
}

/// Wrong workloads, each with a part of its error.
const MISTAKES: &[(&str, &str)] = &[
    (
        "access = \"random\"\nread = 167\nblock = \"8K\"",
        "mine.toml:8: the key 'read': '167' is not a percentage from 0 to 100",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"8X\"",
        "mine.toml:9: the key 'block': '8X' is not a size",
    ),
    (
        "access = \"zigzag\"\nread = 67\nblock = \"8K\"",
        "mine.toml:7: the key 'access': 'zigzag' is not a way to access",
    ),
    (
        "access = \"random\"\nread = 67\nblocks = { \"4K\" = 50, \"8K\" = 40 }",
        "mine.toml:9: the key 'blocks': the shares add up to 90%",
    ),
    ("access = \"random\"\nraed = 67\nblock = \"8K\"", "the key 'read' is missing"),
    (
        "access = \"random\"\nread = 67\nblock = \"8K\"\nspeed = 7",
        "mine.toml:10: the key 'speed' is not known here; expected one of access, aliases, align",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"8K\"\nhot = \"lots\"",
        "mine.toml:10: the key 'hot': 'lots' is not understood; expected 90%:4G",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"8K\"\nblocks = { \"4K\" = 100 }",
        "mine.toml:4: the keys 'block', 'blocks' and 'requests' exclude one another",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"8K\"\nsweep = { pace = [1] }",
        "mine.toml:10: the key 'sweep': 'pace' cannot be swept",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"8K\"\noutstanding = \"0\"",
        "mine.toml:10: the key 'outstanding': 0 outstanding I/Os is not between",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"1000\"",
        "mine.toml:4: in the workload 'w', a block of 1000 B",
    ),
    (
        "access = \"random\"\nread = 67\nblock = \"8K\nx",
        "mine.toml:10: this is not TOML: key with no value",
    ),
    (
        "random = 5\naccess = \"random\"\nread = 67\nblock = \"8K\"",
        "mine.toml:8: the key 'access': conflicts with 'random'",
    ),
    (
        "read = 67\n[[workload.component]]\nshare = 100\naccess = \"random\"\nread = 1\nblock = \
            \"4K\"",
        "the key 'read' is not allowed next to components",
    ),
    (
        "[[workload.component]]\nshare = 90\naccess = \"random\"\nread = 1\nblock = \"4K\"",
        "the components' shares add up to 90% instead of 100%",
    ),
    (
        "[[workload.component]]\nshare = 100\naccess = \"random\"\nread = 1\nblock = \"4K\"\nrate \
            = 5",
        "mine.toml:12: the key 'rate': belongs to the workload",
    ),
];

#[test]
fn a_mistake_is_named_with_file_line_and_key() {
    let workload = |lines: &str| {
        format!(
            "group = \"g\"\nprose = \"p\"\nsource = \"s\"\n[[workload]]\nname = \"w\"\nprose = \
                \"x\"\n{lines}\n"
        )
    };
    for (lines, part) in MISTAKES {
        let error = read(&workload(lines)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadProfile);
        assert!(error.to_string().contains(part), "{lines}:\n{error}\n{part}");
    }
}

#[test]
fn a_file_that_lacks_what_it_must_have_is_refused() {
    for (text, part) in [
        ("", "mine.toml:1: the key 'group' is missing"),
        ("group = \"g\"\nprose = \"p\"", "the key 'workload' is missing"),
        ("group = 5", "mine.toml:1: the key 'group': '5' is not a text in quotes"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let named = |name: &str, group: &str| {
        let text = format!(
            "group = \"{group}\"\nprose = \"p\"\nsource = \"s\"\n[[workload]]\nname = \
                \"{name}\"\nprose = \"x\"\naccess = \"random\"\nread = 5\nblock = \"4K\""
        );
        read(&text).map(drop).unwrap_err().to_string()
    };
    for (name, group) in [
        ("database", "g"),
        ("db", "g"),
        ("sweep-random-read-4k", "g"),
        ("iometer", "g"),
        ("new", "standard"),
        ("g", "g"),
        ("random", "g"),
    ] {
        let error = named(name, group);
        assert!(
            error.contains("is taken by another load profile or group; choose another name"),
            "{error}"
        );
    }
    assert!(
        named("Upper Case", "g")
            .contains("mine.toml:5: the key 'name': 'Upper Case' is not a name")
    );
}

#[test]
fn the_manual_shows_what_is_read_and_explains_every_option() {
    let manual = include_str!("../../../../../docs/plan/profiles.md");
    let example =
        manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let catalog = read(example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(catalog.select("mine").unwrap().len(), 5);
    for [key, ..] in profile_options() {
        assert!(manual.contains(&format!("\n| `{key}` | ")), "the manual does not explain '{key}'");
    }
    for group in Catalog::builtin().groups() {
        assert!(
            manual.contains(&format!("\n| `{}` | ", group.name)),
            "the manual does not name '{}'",
            group.name
        );
    }
}
