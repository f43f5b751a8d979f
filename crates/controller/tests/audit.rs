//! The audit trail: every order is in it before it is answered, whatever the state folder does and however it ends.

use crate::common::{Bench, create, fail_drive};
use controller::{
    AlarmSetting, AuditEntry, AuditOutcome, Caller, Command, Error, ErrorKind, OrderGiven, Origin, Reply,
    WellBeing,
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

/// What of the orders is compared: which, about what, and what became of it.
fn told(orders: &[AuditEntry]) -> Vec<(&str, &str, AuditOutcome)> {
    orders.iter().map(|one| (one.order.as_str(), one.subject.as_str(), one.outcome)).collect()
}

/// The file, a line each.
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
    // At the moment of its answer it is stored, with its beginning and its end.
    let stored: Vec<String> = lines(&bench).iter().map(|line| line["outcome"].to_string()).collect();
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
    assert_eq!(told(&first), expected, "questions are no orders");
    assert_eq!(first[0].by, Some(ada()));
    assert_eq!(first[0].fields["level"], "raid1");
    assert!(first[1].why.as_deref().is_some_and(|why| why.contains("data")), "{:?}", first[1]);
    assert!(first.iter().all(|one| one.ended_unix_s.is_some() && one.count == 1));
    bench.power_cycle(&[]);
    let after = orders(&mut bench);
    assert_eq!(after, first, "they are all there after a power cut");
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
    assert!(!asked.is_finished(), "it takes longer than its first record");
    drop(asked);
    bench.restart(&[]);
    assert_eq!(told(&orders(&mut bench)), [("volume-create", "data", AuditOutcome::Begun)]);
}

#[test]
fn a_full_state_folder_stops_no_repair_and_loses_no_record() {
    let mut bench = Bench::new(73, 1, 3);
    bench.boot(&[]);
    bench.create("data", "raid1", &["a", "b"]);
    bench.sim.fail_stores(1_000_000);
    let failed = bench.ask(fail_drive("a")).expect("it is carried out");
    let is_said = |note: &String| note.contains("not recorded in the audit trail");
    assert!(failed.notes().iter().any(is_said), "{:?}", failed.notes());
    let Ok(Reply::Health { health }) = bench.ask(Command::Health {}) else { panic!("it is told") };
    assert_ne!(health.status, WellBeing::Ok);
    assert!(
        health.findings.iter().any(|finding| finding.what.contains("newest orders cannot be stored")),
        "{health:?}"
    );
    let unstored =
        |bench: &mut Bench| bench.events().iter().filter(|one| one.code == "audit.not-stored").count();
    assert_eq!(unstored(&mut bench), 1);
    bench.sim.fail_stores(0);
    bench.wait(120);
    bench.restart(&[]);
    let expected = [("volume-create", "data", AuditOutcome::Done), ("drive-fail", "a", AuditOutcome::Done)];
    assert_eq!(told(&orders(&mut bench)), expected, "it was stored when there was space again");
    assert!(bench.events().iter().any(|event| event.code == "drive.declared-failed"), "so was the event");
}

#[test]
fn orders_are_refused_before_a_record_would_be_dropped() {
    let mut bench = Bench::new(74, 1, 2);
    bench.boot(&[]);
    bench.sim.fail_stores(1_000_000);
    let locate = |on| Command::DriveLocate { drive: "nothing".into(), on };
    let mut refused = None;
    for count in 0..600 {
        let error = bench.ask(locate(count % 2 == 0)).expect_err("there is no such drive");
        if error.kind == ErrorKind::OutOfSpace {
            refused = Some((count, error));
            break;
        }
    }
    let (count, error) = refused.expect("too many records wait");
    assert_eq!(count, 500, "two records each");
    assert!(error.message.contains("not recorded in the audit trail"), "{error}");
    assert!(bench.ask(Command::VolumeList {}).is_ok(), "questions are answered");
    let off = Command::AlarmSet { to: AlarmSetting::Off };
    assert_eq!(bench.ask(off).expect_err("an order").kind, ErrorKind::OutOfSpace);
    bench.sim.fail_stores(0);
    bench.wait(30);
    assert_eq!(bench.ask(locate(true)).expect_err("no drive").kind, ErrorKind::NotFound);
    assert_eq!(orders(&mut bench).len(), 501);
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
        handle.refused(OrderGiven { by, order: "sign-in".into(), subject: "admin".into(), fields }, why());
    }
    bench.wait(1);
    let counts = |bench: &mut Bench| orders(bench).iter().map(|one| one.count).collect::<Vec<u64>>();
    assert_eq!(counts(&mut bench), [450, 450]);
    assert!(lines(&bench).len() <= 20, "few lines: {}", lines(&bench).len());
    drop(handle);
    bench.shut_down();
    bench.restart(&[]);
    let after = orders(&mut bench);
    assert_eq!(after.iter().map(|one| one.count).collect::<Vec<u64>>(), [450, 450, 1], "{after:?}");
}
