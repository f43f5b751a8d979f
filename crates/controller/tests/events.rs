//! Events: their numbers, and the list of their kinds, from which `docs/operate/events.md` is made. To make it anew after a change
//! of that list: `SOFTROC_WRITE_DOCS=1 cargo test -p controller --test controller events::`.

#![allow(clippy::disallowed_methods, reason = "the table is compared with a file of the sources")]

use crate::common::Bench;
use controller::{Command, EventCode};
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "# Events

`softroc events` lists the newest thousand events; `softroc events --about NAME` shows the history of one volume or drive.
This table is made from `crates/controller/src/events/codes.rs`: do not edit it here.

- `number`: no two events of a controller have the same; later events have higher ones. After a crash some are left out.
  Events that were stored before there were numbers have 0.
- `code`: what kind of event it is. Codes are stable: programs decide by them, not by the text.
- `severity`: `info` is worth knowing; `warning`: redundancy or speed suffers; `critical`: data may become unavailable;
  `fatal`: data is lost or cannot be reached.
- `subject`, `cause`, `effect`, `text`: what it happened to, why, what it changed, and all of it in one sentence.
- `related`: what else it concerns. An event of a member drive has its array here, so that both histories have it.
- `count`, `first_unix_s`: how many times it happened, and when first, where repeats are folded into one event.
- `by`: who asked for the change: `user`, and `from`, which is `local` (with `uid` and `pid`) or `network` (with `address`). Left out
  where nobody did.

## Repeats

A fault that repeats does not fill the list. Of one code and one subject, the first three events are reported at once. Further ones are
counted, and reported as one event with `count` after 10 seconds; while it goes on, after 20 more, 40, up to 640. The sum of all
`count` is the number of occurrences. The first event of a critical code and its subject is never delayed. Events that an order
causes, and those of the alarm, are never folded. More than 128 subjects at a time share one count for each code; their subject is
`several`. A crash loses what is counted and not reported yet.

## What is kept

The state folder has `events.jsonl` and `events.2.jsonl`, 2 MiB each and written in turn, one JSON object a line: at least the newest
2 MiB of events are kept, also while the controller runs for years. If the state folder is full, storing is tried again, and
`controller.state-not-stored` and `softroc health` say so. A file of which nothing can be read is moved aside (`events.jsonl.unreadable-1`),
as other state files are, and `controller.state-unreadable` says so; a single line that makes no sense, as a crash leaves it, is left out. Notifications, Redfish, the console and `softroc events --follow` follow the same
list. A consumer that was away goes on from the number it has seen. What is not among the newest thousand any more is replaced by one
`events.left-out` with the count; numbers that were left out after a crash are in that count.

## Codes

| code | severity | meaning |
| --- | --- | --- |
";

#[test]
fn the_table_of_events_is_current() {
    let mut made = HEAD.to_owned();
    for code in EventCode::ALL {
        writeln!(made, "| `{}` | {} | {} |", code.code(), code.severity(), code.meaning()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/events.md");
    if std::env::var_os("SOFTROC_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).expect("docs/operate/events.md");
    assert!(kept == made, "docs/operate/events.md is not current: see the top of this test");
}

#[test]
fn every_kind_of_event_is_reported_somewhere() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut text = String::new();
    // Accounts and connections are the business of the room of HTTP.
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control-api/src");
    // What the console measures is that of the binary.
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
        !text.match_indices(&name).any(|(at, _)| !text[at + name.len()..].starts_with(char::is_alphanumeric))
    });
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&EventCode>::new());
}

#[test]
fn numbers_of_events_never_repeat() {
    let mut bench = Bench::new(41, 1, 2);
    // From before there were numbers and codes.
    let old =
        r#"{"time_unix_s":1,"severity":"warning","subject":"x","cause":"c","effect":"e","text":"long ago"}"#;
    bench.sim.put_stored("events.jsonl", Some(format!("{old}\n").into_bytes()));
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    let first = bench.events();
    assert_eq!((first[0].number, first[0].code.as_str(), first[0].text.as_str()), (0, "", "long ago"));
    assert_eq!((first[1].number, first[1].code.as_str()), (1, "controller.started"));
    assert!(first.iter().any(|event| event.code == "volume.created"));
    let shown = first.last().unwrap().number;
    // Killed before the last of them were stored: they had numbers, too.
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
    assert_eq!(started.number, stopped.number + 1, "after a clean shutdown none is left out");
}
