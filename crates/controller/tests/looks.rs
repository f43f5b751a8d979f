//! Queries change nothing, and wait for no change in progress.

use crate::common::Bench;
use controller::{AddSpare, Caller, Command, Explain, Origin, Reply};
use std::time::Duration;

/// All commands that a read-only role may use.
fn looks() -> Vec<Command> {
    let drive = || "a".to_owned();
    let volume = || "data".to_owned();
    vec![
        Command::DriveList {},
        Command::DriveShow { drive: drive() },
        Command::VolumeList {},
        Command::VolumeShow { volume: volume() },
        Command::LogList {},
        Command::CacheList {},
        Command::Metrics {},
        Command::Counters {},
        Command::Health {},
        Command::AlarmShow {},
        Command::SpareList {},
        Command::DiskList {},
        Command::ForeignList {},
        Command::TaskList {},
        Command::TaskShow { task: 1 },
        Command::ScheduleList {},
        Command::EventsList { last: None, about: None },
        Command::AuditList { last: None },
        Command::Explain(Explain {
            volume: Some(volume()),
            operation: "read".into(),
            size_bytes: 4096,
            ..Explain::default()
        }),
        Command::Info {},
    ]
}

/// `foreign list` probed all drives again. That resolves interrupted operations, erases labels of
/// deleted volumes and stores the result, on behalf of an account that may only read. And `cache
/// list` was audited as a change.
#[test]
fn a_look_writes_nothing_and_makes_no_event() {
    let mut bench = Bench::in_order(1, 2, 5);
    bench.boot(&["a", "b", "c", "d", "e"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.ask(Command::SpareAdd(AddSpare { drive: "c".into(), ..AddSpare::default() })).unwrap();
    bench.settle("data");
    // Its label is of a volume that was deleted without it: to erase it is a change.
    bench.create("gone", "raid1", &["d", "e"]);
    bench.settle("gone");
    bench.sim.drive("e").unwrap().vanish();
    bench.wait(5);
    bench.ask(Command::VolumeDelete { volume: "gone".into(), disconnect_hosts: false }).unwrap();
    bench.sim.drive("e").unwrap().come_back();
    bench.wait(60);
    let written = |bench: &Bench| -> Vec<(u64, u64, u64)> {
        let stats = ["a", "b", "c", "d", "e"].map(|name| bench.sim.drive(name).unwrap().stats());
        stats.iter().map(|of| (of.writes, of.trims, of.flushes)).collect()
    };
    let files = |bench: &Bench| {
        let names = [
            "drives.toml",
            "arrays.toml",
            "deleted-arrays.toml",
            "numbers.toml",
            "failed-drives.toml",
            "events.jsonl",
            "audit.jsonl",
        ];
        names.map(|name| bench.sim.stored(name))
    };
    let stored = files(&bench);
    let (before, events) = (written(&bench), bench.events().len());
    let reader = Caller { user: "rita".into(), origin: Origin::Local { uid: 7, pid: None } };
    for look in looks() {
        assert!(look.only_looks(), "{look:?}");
        let answer = bench.ask_as(&reader, look.clone());
        assert!(answer.is_ok() || matches!(look, Command::TaskShow { .. }), "{look:?}: {answer:?}");
        assert_eq!(written(&bench), before, "{look:?}");
    }
    assert_eq!(bench.events().len(), events, "{:?}", bench.events());
    assert!(files(&bench) == stored, "a file of the state folder was written");
}

/// A change that waits for a drive blocked all queries about the drives' content.
#[test]
fn a_look_waits_for_no_change() {
    let mut bench = Bench::in_order(2, 2, 4);
    bench.boot(&["a", "b", "c"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    bench.sim.drive("d").unwrap().hold();
    let change = bench.begin_ask(Command::DriveAdd { drive: "d".into(), size_bytes: None });
    bench.sim.run_until(bench.sim.now() + Duration::from_millis(10)).unwrap();
    for look in looks() {
        let begun = bench.sim.now();
        let _ = bench.ask(look.clone());
        let took = bench.sim.now().since(begun);
        assert!(took < Duration::from_secs(1), "{look:?} took {took:?}");
        assert!(!change.is_finished(), "the change is in progress");
    }
    bench.sim.drive("d").unwrap().release();
    bench.sim.finish(&change).unwrap().unwrap();
}

/// The unfinished work of a stop is visible to the watchdog, on any thread.
#[test]
fn a_stop_says_what_it_has_not_finished() {
    let mut bench = Bench::in_order(3, 2, 2);
    bench.boot(&["a", "b"]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.settle("data");
    let unfinished = bench.handle.clone().unwrap().unfinished();
    assert_eq!(unfinished.arrays(), 0, "no stop has begun");
    ["a", "b"].iter().for_each(|name| bench.sim.drive(name).unwrap().hold());
    let stop = bench.begin_ask(Command::Shutdown {});
    bench.wait(5);
    assert_eq!((stop.is_finished(), unfinished.arrays()), (false, 1));
    ["a", "b"].iter().for_each(|name| bench.sim.drive(name).unwrap().release());
    let Ok(Reply::Done { .. }) = bench.sim.finish(&stop).unwrap() else {
        panic!("the controller stops")
    };
    assert_eq!((unfinished.arrays(), unfinished.dirty_bytes().0), (0, 0));
}
