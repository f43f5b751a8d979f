//! Events: their numbers, and their codes.

#![allow(clippy::disallowed_methods, reason = "the codes are searched in the sources")]

use crate::common::Bench;
use controller::{Command, EventCode};
use std::path::Path;

#[test]
fn every_kind_of_event_is_reported_somewhere() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut text = String::new();
    // Events of accounts and connections belong to the HTTP crate.
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control-api/src");
    // Events of console measurements belong to the binary.
    let workbench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../softroc/src/workbench");
    let mut open = vec![src.clone(), api, workbench];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with("events/codes.rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let unused = EventCode::ALL.iter().filter(|code| {
        let name = format!("EventCode::{code:?}");
        !text
            .match_indices(&name)
            .any(|(at, _)| !text[at + name.len()..].starts_with(char::is_alphanumeric))
    });
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&EventCode>::new());
}

#[test]
fn numbers_of_events_never_repeat() {
    let mut bench = Bench::new(41, 1, 2);
    // Stored before there were numbers and codes.
    let old = r#"{"time_unix_s":1,"severity":"warning","subject":"x","cause":"c","effect":"e","text":"long ago"}"#;
    bench.sim.put_stored("events.jsonl", Some(format!("{old}\n").into_bytes()));
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    let first = bench.events();
    assert_eq!(
        (first[0].number, first[0].code.as_str(), first[0].text.as_str()),
        (0, "", "long ago")
    );
    assert_eq!((first[1].number, first[1].code.as_str()), (1, "controller.started"));
    assert!(first.iter().any(|event| event.code == "volume.created"));
    let shown = first.last().unwrap().number;
    // Killed before the last of them were stored: these had numbers, too.
    let stored = String::from_utf8(bench.sim.stored("events.jsonl").unwrap()).unwrap();
    let kept: String = stored.lines().take(2).flat_map(|line| [line, "\n"]).collect();
    bench.sim.put_stored("events.jsonl", Some(kept.into_bytes()));
    bench.restart(&[]);
    let second = bench.events();
    let started = second.iter().rfind(|event| event.code == "controller.started").unwrap();
    assert!(started.number > shown, "{} after {shown}", started.number);
    bench.ask(Command::Shutdown {}).unwrap();
    bench.restart(&[]);
    let third = bench.events();
    let numbers: Vec<u64> = third.iter().map(|event| event.number).collect();
    assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{numbers:?}");
    let stopped = third.iter().rfind(|event| event.code == "controller.stopped").unwrap();
    let started = third.iter().rfind(|event| event.code == "controller.started").unwrap();
    assert_eq!(started.number, stopped.number + 1, "after a clean shutdown no number is skipped");
}
