//! The audit trail: every command is recorded before its reply, whatever fails in the state folder
//! and however the process ends.

use crate::common::{Bench, create, fail_drive};
use controller::{
    AlarmSetting, AuditEntry, AuditOutcome, Caller, Command, Error, ErrorKind, OrderGiven, Origin,
    Reply, WellBeing,
};

fn orders(bench: &mut Bench) -> Vec<AuditEntry> {
    match bench.ask(Command::AuditList { last: None }) {
        Ok(Reply::Audit { orders }) => orders,
        other => panic!("{other:?}"),
    }
}

fn ada() -> Caller {
    Caller { user: "ada".into(), origin: Origin::Network { address: "10.0.0.7:1234".into() } }
}

/// The compared fields of a command: name, subject, outcome.
fn told(orders: &[AuditEntry]) -> Vec<(&str, &str, AuditOutcome)> {
    orders.iter().map(|one| (one.order.as_str(), one.subject.as_str(), one.outcome)).collect()
}

/// The lines of the file.
fn lines(bench: &Bench) -> Vec<serde_json::Value> {
    let stored = bench.sim.stored("audit.jsonl").unwrap_or_default();
    let text = String::from_utf8(stored).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_order_is_recorded_with_who_gave_it_and_what_became_of_it() {
    let mut bench = Bench::new(71, 1, 4);
    bench.boot(&[]);
    bench.ask_as(&ada(), create("data", "raid1", &["a", "b"])).unwrap();
    // At the reply the command is stored, with its start and its end.
    let stored: Vec<String> =
        lines(&bench).iter().map(|line| line["outcome"].to_string()).collect();
    assert_eq!(stored, ["\"begun\"", "\"done\""]);
    bench.ask_as(&ada(), create("data", "raid1", &["c", "d"])).expect_err("the name is taken");
    bench.ask(Command::AlarmSet { to: AlarmSetting::Off }).unwrap();
    bench.ask(Command::TaskStop { task: 99 }).expect_err("there is no such task");
    bench.ask(Command::VolumeList {}).unwrap();
    let expected = [
        ("volume-create", "data", AuditOutcome::Done),
        ("volume-create", "data", AuditOutcome::Refused),
        ("alarm-set", "controller", AuditOutcome::Done),
        ("task-stop", "controller", AuditOutcome::Refused),
    ];
    let first = orders(&mut bench);
    assert_eq!(told(&first), expected, "queries are not audited");
    assert_eq!(first[0].by, Some(ada()));
    assert_eq!(first[0].fields["level"], "raid1");
    assert!(first[1].why.as_deref().is_some_and(|why| why.contains("data")), "{:?}", first[1]);
    assert!(first.iter().all(|one| one.ended_unix_s.is_some() && one.count == 1));
    bench.power_cycle(&[]);
    let after = orders(&mut bench);
    assert_eq!(after, first, "all records are there after a power cut");
    bench.ask(Command::AlarmSet { to: AlarmSetting::On }).unwrap();
    let numbers: Vec<u64> = orders(&mut bench).iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn an_order_that_a_crash_interrupts_is_recorded_as_begun() {
    let mut bench = Bench::new(72, 1, 2);
    bench.boot(&[]);
    let asked = bench.begin_ask(create("data", "raid1", &["a", "b"]));
    while lines(&bench).is_empty() {
        let until = bench.sim.now() + std::time::Duration::from_micros(50);
        bench.sim.run_until(until).unwrap();
    }
    assert!(!asked.is_finished(), "the command takes longer than its first record");
    drop(asked);
    bench.restart(&[]);
    assert_eq!(told(&orders(&mut bench)), [("volume-create", "data", AuditOutcome::Begun)]);
}

fn events_of(bench: &mut Bench, code: &str, subject: &str) -> usize {
    bench.events().iter().filter(|one| one.code == code && one.subject == subject).count()
}

#[test]
fn a_full_state_folder_stops_no_order_and_loses_no_record() {
    let mut bench = Bench::new(73, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.sim.fail_stores(1_000_000);
    let failed = bench.ask(fail_drive("a")).expect("the command is executed");
    let is_said = |note: &String| note.contains("not recorded in the audit trail");
    assert!(failed.notes().iter().any(is_said), "{:?}", failed.notes());
    let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else {
        panic!("the audit trail is listed")
    };
    assert_ne!(health.status, WellBeing::Ok);
    for file in ["audit.jsonl", "events.jsonl"] {
        assert!(health.findings.iter().any(|one| one.what.contains(file)), "{file}: {health:?}");
        assert_eq!(events_of(&mut bench, "controller.state-not-stored", file), 1, "{file}");
    }
    bench.sim.fail_stores(0);
    bench.wait(120);
    for file in ["audit.jsonl", "events.jsonl"] {
        assert_eq!(events_of(&mut bench, "controller.state-stored", file), 1, "{file}");
    }
    bench.restart(&[]);
    let expected =
        [("volume-create", "data", AuditOutcome::Done), ("drive-fail", "a", AuditOutcome::Done)];
    assert_eq!(told(&orders(&mut bench)), expected, "it was stored when there was space again");
    assert!(
        bench.events().iter().any(|event| event.code == "drive.declared-failed"),
        "the event was stored as well"
    );
}

/// Commands are executed however many records are pending. Records that do not fit into memory are
/// counted.
#[test]
fn no_order_is_refused_because_it_cannot_be_recorded() {
    let mut bench = Bench::new(74, 1, 2);
    bench.boot(&[]);
    bench.sim.fail_stores(1_000_000);
    let locate = |on| Command::DriveLocate { drive: "nothing".into(), on };
    for count in 0..2100 {
        let error = bench.ask(locate(count % 2 == 0)).expect_err("there is no such drive");
        assert_eq!(error.kind, ErrorKind::NotFound, "the command was executed: {error}");
    }
    bench.sim.fail_stores(0);
    bench.wait(60);
    bench.restart(&[]);
    let stored = lines(&bench).iter().filter(|line| line["order"] == "drive-locate").count();
    assert!((1900..=2000).contains(&stored), "{stored}");
    let mut all = orders(&mut bench);
    let lost = all.pop().expect("the last command");
    assert_eq!(lost.order, "records-lost");
    assert!((100..200).contains(&lost.count), "{lost:?}");
    let newest: Vec<u64> = all.iter().map(|one| one.number).collect();
    assert_eq!(newest, (1102..=2100).collect::<Vec<u64>>(), "the newest records are there");
}

/// The state folder does not respond for a while: commands are executed, and recorded later.
#[test]
fn a_silent_state_folder_delays_an_order_by_two_seconds_at_most() {
    let mut bench = Bench::new(76, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.sim.silence_stores(true);
    let locate = Command::DriveLocate { drive: "nothing".into(), on: true };
    for limit in [3, 1, 1] {
        let before = bench.sim.now();
        assert_eq!(bench.ask(locate.clone()).expect_err("there is none").kind, ErrorKind::NotFound);
        let took = bench.sim.now().since(before);
        assert!(took < std::time::Duration::from_secs(limit), "{took:?}");
    }
    bench.write("data", 0, 7, 1 << 20);
    bench.expect("data", 0, 7, 1 << 20);
    assert_eq!(events_of(&mut bench, "controller.state-not-stored", "audit.jsonl"), 1);
    bench.sim.silence_stores(false);
    bench.wait(60);
    assert_eq!(events_of(&mut bench, "controller.state-stored", "audit.jsonl"), 1);
    bench.restart(&[]);
    let located = orders(&mut bench).iter().filter(|one| one.order == "drive-locate").count();
    assert_eq!(located, 3);
}

#[test]
fn what_is_refused_for_want_of_rights_is_counted_by_its_source() {
    let mut bench = Bench::new(75, 1, 2);
    bench.boot(&[]);
    let handle = bench.handle.clone().unwrap();
    let why = || Error::new(ErrorKind::Unauthenticated, "the name or the password is wrong");
    for guess in 0..900 {
        let origin = Origin::Network { address: format!("10.0.0.{}:{guess}", guess % 2) };
        let by = Some(Caller { user: "admin".into(), origin });
        let fields = serde_json::Value::Null;
        handle.refused(
            OrderGiven { by, order: "sign-in".into(), subject: "admin".into(), fields },
            why(),
        );
    }
    bench.wait(1);
    let counts =
        |bench: &mut Bench| orders(bench).iter().map(|one| one.count).collect::<Vec<u64>>();
    assert_eq!(counts(&mut bench), [450, 450]);
    assert!(lines(&bench).len() <= 20, "few lines: {}", lines(&bench).len());
    drop(handle);
    bench.shut_down();
    bench.restart(&[]);
    let after = orders(&mut bench);
    assert_eq!(after.iter().map(|one| one.count).collect::<Vec<u64>>(), [450, 450, 1], "{after:?}");
}

/// Contents of a damaged events or audit file, in addition to valid lines.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Damage {
    Empty,
    CutOff,
    Garbage,
    FromTheFuture,
    Unreadable,
    Folder,
}

impl Damage {
    const ALL: [Damage; 6] = [
        Damage::Empty,
        Damage::CutOff,
        Damage::Garbage,
        Damage::FromTheFuture,
        Damage::Unreadable,
        Damage::Folder,
    ];

    fn deal(self, bench: &mut Bench, file: &str) {
        let mut content = bench.sim.stored(file).unwrap_or_else(|| panic!("{file} is stored"));
        match self {
            Damage::Empty => content.clear(),
            Damage::CutOff => content.truncate(content.len() - 1),
            Damage::Garbage => content = vec![0xA5; 500],
            Damage::FromTheFuture => content = b"{\"happened\":[1,2]}\n".to_vec(),
            Damage::Unreadable => {
                return bench.sim.make_stored_unreadable(file, "permission denied");
            }
            Damage::Folder => return bench.sim.make_stored_unreadable(file, "is a directory"),
        }
        bench.sim.put_stored(file, Some(content));
    }
}

/// Each file × each damage × a start: unreadable parts are kept and reported once, and events and
/// commands are stored from then on.
#[test]
fn a_damaged_log_is_kept_and_told_once() {
    for file in ["events.jsonl", "audit.jsonl"] {
        for damage in Damage::ALL {
            let what = format!("{file}, {damage:?}");
            let mut bench = Bench::new(77, 1, 3);
            bench.boot(&[]);
            bench.create("data", "raid1", &["a", "b"]);
            bench.shut_down();
            damage.deal(&mut bench, file);
            let dealt = bench.sim.stored(file);
            bench.restart(&[]);
            let is_torn = damage == Damage::CutOff;
            let told = usize::from(!is_torn);
            assert_eq!(events_of(&mut bench, "controller.state-unreadable", file), told, "{what}");
            let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else {
                panic!("the audit trail is listed")
            };
            assert_eq!(
                health.findings.iter().any(|one| one.what.contains(file)),
                !is_torn,
                "{what}"
            );
            let aside = format!("{file}.unreadable-1");
            match dealt {
                _ if is_torn => assert_eq!(bench.sim.stored(&aside), None, "{what}"),
                None => assert!(bench.sim.is_stored_unreadable(&aside), "{what}: the file is kept"),
                dealt => assert_eq!(
                    bench.sim.stored(&aside),
                    dealt,
                    "{what}: the file is kept unchanged"
                ),
            }
            bench.ask(fail_drive("a")).expect("the command is executed");
            bench.restart(&[]);
            assert!(told_of(&mut bench, "drive-fail"), "{what}: the command was recorded");
            assert_eq!(
                told_of(&mut bench, "volume-create"),
                file != "audit.jsonl" || is_torn,
                "{what}"
            );
            assert!(bench.has_event("declared failed"), "{what}");
            assert_eq!(
                events_of(&mut bench, "controller.state-unreadable", file),
                told,
                "{what}: once"
            );
        }
    }
}

fn told_of(bench: &mut Bench, order: &str) -> bool {
    orders(bench).iter().any(|one| one.order == order)
}
