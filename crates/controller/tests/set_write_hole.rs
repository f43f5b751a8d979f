//! A journal that is added and removed while hosts write (`volume set --write-hole`): hosts get no
//! errors, the reported write hole protection is true at every event, and refusals name a solution.

use crate::common::events::{End, at_every_event};
use crate::common::work::{ALL, Log, OLD, STRIP, begin_work, look};
use crate::common::{Bench, MIB};
use controller::{
    Command, CreateVolume, ErrorKind, Explain, Reply, SetPolicy, VolumeState, WriteHole,
};
use std::cell::RefCell;
use std::time::Duration;

const DRIVES: [&str; 3] = ["a", "b", "c"];

fn set(volume: &str, write_hole: WriteHole) -> Command {
    let (volume, write_hole) = (volume.to_owned(), Some(write_hole));
    Command::VolumePolicy(SetPolicy { volume, write_hole, ..SetPolicy::default() })
}

/// The configured and the effective setting.
fn write_hole(bench: &mut Bench, volume: &str) -> (String, String) {
    let policies = bench.show(volume).policies;
    let policy =
        policies.iter().find(|policy| policy.name == "write-hole").expect("the policy is listed");
    (policy.configured.clone(), policy.current.clone())
}

fn prepared(seed: u64, shards: usize, how: WriteHole) -> Bench {
    let mut bench = Bench::in_order(seed, shards, 3);
    bench.boot(&[]);
    bench
        .create_with("data", "raid5", &DRIVES, |wanted| wanted.write_hole = Some(how))
        .expect("created");
    bench.write("data", 0, OLD, ALL);
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    bench.sim.run(async move { volume.flush().await }).expect("it ends").expect("flushed");
    bench.settle("data");
    bench
}

/// A kill or power cut at any event of the change, with concurrent host writes and a lost drive. If
/// the label says that the journal covers all writes, the volume starts without a question, and
/// every sector has an allowed content. Otherwise the operator is asked.
fn changed(from: WriteHole, to: WriteHole, how: End, shards: usize) {
    let log = Log::default();
    let scene = |bench: &mut Bench| {
        // The hosts continue to write after the change.
        drop(begin_work(bench, &log));
        bench.try_ask(set("data", to)).ok()?.expect("it is changed");
        Some(())
    };
    let ends = RefCell::new((0, 0));
    at_every_event(
        1,
        how,
        || prepared(7, shards, from),
        scene,
        |bench, _, event| {
            let lost = [None, Some("a"), Some("b"), Some("c")][event as usize % 4];
            lost.iter().for_each(|name| bench.sim.drive(name).expect("the drive exists").vanish());
            bench.boot(&[]);
            let state = bench.show("data").state;
            let what = format!("{from:?} to {to:?}, {how:?} at event {event}, without {lost:?}");
            match (lost, state) {
                (None, VolumeState::Optimal) | (Some(_), VolumeState::Degraded) => {
                    look(bench, &log, how, lost.is_some(), &what);
                    ends.borrow_mut().0 += 1;
                }
                // Not covered: the operator is asked.
                (Some(_), VolumeState::Offline) => ends.borrow_mut().1 += 1,
                other => panic!("{what}: {other:?}"),
            }
            if lost.is_none() {
                bench.settle("data");
                look(bench, &log, how, false, &what);
                // The interrupted command can be repeated.
                bench.ask(set("data", to)).expect("it is changed");
                let (configured, current) = write_hole(bench, "data");
                assert_eq!((&configured, &current), (&current, &configured), "{what}");
            }
        },
    );
    let (told, asked) = ends.into_inner();
    assert!(told > 0 && asked > 0, "both outcomes occur: {told} started, {asked} asked");
}

#[test]
fn a_journal_that_comes_tells_all_only_when_it_does() {
    changed(WriteHole::Resync, WriteHole::Journal, End::Killed, 1);
    changed(WriteHole::Resync, WriteHole::Journal, End::PowerCut, 2);
}

#[test]
fn a_journal_that_goes_tells_nothing_from_the_first_write_without_it() {
    changed(WriteHole::Journal, WriteHole::Resync, End::Killed, 2);
    changed(WriteHole::Journal, WriteHole::Resync, End::PowerCut, 1);
}

/// A journal is removed when the writes that use it are done; the label says that it does not cover
/// all writes before the first write without it.
#[test]
fn a_journal_that_is_about_to_go_tells_nothing_any_more() {
    let mut bench = prepared(5, 1, WriteHole::Journal);
    // Its region is marked; the next write goes to all drives.
    bench.write("data", STRIP - 4096, OLD, 8192);
    // The time for its reads and its writes.
    bench.sim.drive("a").expect("the drive exists").stall_next(2, Duration::from_secs(20));
    let slow = bench.begin_write("data", STRIP - 4096, 7, 8192);
    bench.wait(3);
    let asked = bench.begin_ask(set("data", WriteHole::Resync));
    bench.wait(5);
    assert!(!slow.is_finished() && !asked.is_finished(), "the removal waits for the write");
    assert_eq!(write_hole(&mut bench, "data").1, "resync");
    bench.sim.finish(&asked).expect("it ends").expect("it is changed");
    assert_eq!(write_hole(&mut bench, "data"), ("resync".to_owned(), "resync".to_owned()));
}

/// Repeated changes with concurrent hosts: the reported setting is in force at once, and after a
/// restart.
#[test]
fn it_is_said_as_it_is_and_outlives_a_restart() {
    let (mut bench, log) = (prepared(3, 2, WriteHole::Resync), Log::default());
    for (how, name) in [(WriteHole::Journal, "journal"), (WriteHole::Resync, "resync")].repeat(2) {
        let workers = begin_work(&bench, &log);
        let notes = match bench.ask(set("data", how)).expect("it is changed") {
            Reply::Volume { notes, .. } => notes,
            other => panic!("{other:?}"),
        };
        assert!(notes.iter().any(|note| note.contains("journal")), "{notes:?}");
        assert_eq!(write_hole(&mut bench, "data"), (name.to_owned(), name.to_owned()));
        for worker in &workers {
            bench.sim.finish(worker).expect("hosts continue");
        }
        look(&mut bench, &log, End::Killed, false, name);
        for at in [2 * STRIP, 4 * STRIP] {
            bench.write("data", at, OLD, 2 * STRIP);
        }
        bench.settle("data");
        bench.restart(&[]);
        assert_eq!(write_hole(&mut bench, "data"), (name.to_owned(), name.to_owned()));
    }
    assert_eq!(bench.count_events("has a journal now"), 2, "{:?}", bench.events());
    assert_eq!(bench.count_events("has no journal any more"), 2);
}

/// `explain` shows the journal's I/Os for a volume with a journal, and none without.
#[test]
fn the_journals_writes_are_explained() {
    let mut bench = prepared(4, 1, WriteHole::Journal);
    let explain = |bench: &mut Bench, operation: &str, at: u64, size: u64| {
        let (volume, operation) = (Some("data".to_owned()), operation.to_owned());
        let asked =
            Explain { volume, operation, offset_bytes: at, size_bytes: size, ..Explain::default() };
        match bench.ask(Command::Explain(asked)) {
            Ok(Reply::Explained { text, explanation }) => (text, explanation),
            other => panic!("{other:?}"),
        }
    };
    let (text, json) = explain(&mut bench, "write", 4096, 8192);
    // 8 KiB of data and 8 KiB of parity after a header block, on two drives.
    assert!(text.contains("2 durable writes of a record of 20 KiB (40 KiB)"), "{text}");
    assert_eq!(json["journal"]["bytes_written"], 40960);
    assert_eq!(json["stripes"][0]["journal"]["writes"], 2);
    assert!(
        json["journal"]["flush_after_bytes"].as_u64().is_some_and(|bytes| bytes >= 128 << 10),
        "{json}"
    );
    let (text, json) = explain(&mut bench, "write", 2 * STRIP, 2 * STRIP);
    assert!(text.contains("no record; a full stripe needs none"), "{text}");
    assert_eq!(json["journal"]["writes"], 0);
    let (text, _) = explain(&mut bench, "read", 0, 4096);
    assert!(!text.contains("record"), "reads have no record: {text}");
    let (text, json) = explain(&mut bench, "write-zeroes", 4096, 8192);
    assert!(text.contains("a record of 12 KiB"), "records contain no zeros: {text}");
    assert_eq!(json["journal"]["record_bytes"], 12288);
    bench.ask(set("data", WriteHole::Resync)).expect("it is changed");
    let (text, json) = explain(&mut bench, "write", 4096, 8192);
    assert!(!text.contains("record") && json["journal"].is_null(), "{text}");
}

/// The record size in `explain` agrees with the drives.
#[test]
fn a_record_is_as_long_as_was_explained() {
    let mut bench = prepared(5, 1, WriteHole::Journal);
    let asked = Explain {
        volume: Some("data".to_owned()),
        operation: "write".to_owned(),
        offset_bytes: 2 * STRIP - 4096,
        size_bytes: 8192,
        ..Explain::default()
    };
    let json = match bench.ask(Command::Explain(asked)) {
        Ok(Reply::Explained { explanation, .. }) => explanation,
        other => panic!("{other:?}"),
    };
    let written = |bench: &Bench| -> u64 {
        DRIVES
            .iter()
            .map(|name| bench.sim.drive(name).expect("the drive exists").stats().written_bytes)
            .sum()
    };
    // The first write marks its region, the second one is measured.
    bench.write("data", 2 * STRIP - 4096, 8, 8192);
    let before = written(&bench);
    bench.write("data", 2 * STRIP - 4096, 9, 8192);
    let both =
        json["cost"]["bytes_written"].as_u64().zip(json["journal"]["bytes_written"].as_u64());
    assert_eq!(Some(written(&bench) - before), both.map(|(plan, journal)| plan + journal));
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let mut bench = Bench::in_order(6, 1, 0);
    bench.add_drives(&DRIVES, 64 * MIB);
    bench.boot(&[]);
    let sized = |wanted: &mut CreateVolume| {
        (wanted.size_bytes, wanted.write_hole) = (Some(MIB), Some(WriteHole::Resync));
    };
    bench
        .create_with("mirror", "raid1", &DRIVES, |wanted| wanted.size_bytes = Some(MIB))
        .expect("made");
    let why = bench.refused(ErrorKind::Invalid, set("mirror", WriteHole::Journal));
    assert!(why.contains("no parity"), "{why}");
    bench.create_with("last", "raid5", &DRIVES, sized).expect("there is space");
    // Journals of other volumes take the space, each half of the rest.
    let mut others = 0;
    loop {
        let name = format!("other{others}");
        let journal = |wanted: &mut CreateVolume| {
            (wanted.size_bytes, wanted.write_hole) = (Some(MIB), Some(WriteHole::Journal));
        };
        if bench.create_with(&name, "raid5", &DRIVES, journal).is_err() {
            break;
        }
        others += 1;
    }
    assert!(others > 0);
    let why = bench.refused(ErrorKind::OutOfSpace, set("last", WriteHole::Journal));
    assert!(
        why.contains(&format!("{others} other volume")) && why.contains("--write-hole resync"),
        "{why}"
    );
    assert_eq!(write_hole(&mut bench, "last"), ("resync".into(), "resync".into()));
    bench.ask(set("other0", WriteHole::Resync)).expect("the journal is given up");
    bench.ask(set("last", WriteHole::Journal)).expect("there is space again");
    assert_eq!(write_hole(&mut bench, "last"), ("journal".into(), "journal".into()));
}
