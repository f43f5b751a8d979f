//! The alarm: what raises it, what ends it, and that it survives a restart.

use crate::common::Bench;
use controller::{
    AlarmInfo, AlarmSetting, Command, EventCode, HealthReport, Occurrence, Reply, Severity,
    WellBeing,
};

fn alarm(bench: &mut Bench, command: Command) -> AlarmInfo {
    match bench.ask(command) {
        Ok(Reply::Alarm { alarm }) => alarm,
        other => panic!("{other:?}"),
    }
}

fn shown(bench: &mut Bench) -> AlarmInfo {
    alarm(bench, Command::AlarmShow {})
}

fn set(bench: &mut Bench, to: AlarmSetting) -> AlarmInfo {
    alarm(bench, Command::AlarmSet { to })
}

/// The number of events with that code.
fn count(bench: &mut Bench, code: &str) -> usize {
    bench.events().iter().filter(|event| event.code == code).count()
}

/// A RAID 6, which tolerates two failures.
fn served(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 2, 4);
    bench.boot(&[]);
    bench.create("data", "raid6", &["a", "b", "c", "d"]);
    bench.settle("data");
    bench
}

fn report(bench: &mut Bench) -> HealthReport {
    match bench.ask(Command::Health {}) {
        Ok(Reply::Health { health }) => health,
        other => panic!("{other:?}"),
    }
}

fn fail(bench: &mut Bench, drive: &str) {
    bench.sim.drive(drive).unwrap().fail_now();
    bench.write("data", 0, 7, 1 << 20);
    bench.wait(5);
}

#[test]
fn a_drive_that_fails_begins_it_once_until_it_is_silenced() {
    let mut bench = served(1);
    assert_eq!(shown(&mut bench), AlarmInfo::default(), "on, and not sounding");
    fail(&mut bench, "a");
    let sounding = shown(&mut bench);
    assert!(sounding.on && sounding.sounds, "{sounding:?}");
    let because = |alarm: &AlarmInfo| alarm.because.clone().unwrap_or_default();
    assert!(because(&sounding).contains("drive a"), "{sounding:?}");
    assert!(sounding.since_unix_s.is_some());
    let events = bench.events();
    let event =
        events.iter().find(|event| event.code == "alarm.sounds").expect("the event is stored");
    assert_eq!(event.severity, Severity::Info, "no channel sends the same failure twice");
    let silent = set(&mut bench, AlarmSetting::Silence);
    assert_eq!(silent, AlarmInfo::default());
    assert_eq!(set(&mut bench, AlarmSetting::Silence), silent, "silencing twice equals once");
    assert_eq!((count(&mut bench, "alarm.sounds"), count(&mut bench, "alarm.silenced")), (1, 1));
    // Until another failure.
    fail(&mut bench, "b");
    assert!(because(&shown(&mut bench)).contains("drive b"));
    assert_eq!(count(&mut bench, "alarm.sounds"), 2);
}

#[test]
fn what_an_operator_does_to_a_drive_is_no_alarm() {
    let mut bench = served(2);
    bench.ask(crate::common::take_offline("a")).unwrap();
    bench.wait(5);
    bench.ask(crate::common::fail_drive("b")).unwrap();
    bench.wait(5);
    assert!(!shown(&mut bench).sounds);
}

#[test]
fn a_restart_silences_nothing_and_off_stays_off() {
    let mut bench = served(3);
    fail(&mut bench, "a");
    let sounding = shown(&mut bench);
    bench.restart(&[]);
    let after = shown(&mut bench);
    assert!(after.sounds && after.because == sounding.because, "{after:?}");
    let off = set(&mut bench, AlarmSetting::Off);
    assert!(!off.on && !off.sounds, "{off:?}");
    assert_eq!(count(&mut bench, "alarm.switched"), 1);
    bench.power_cycle(&[]);
    fail(&mut bench, "b");
    let still = shown(&mut bench);
    assert!(!still.on && !still.sounds, "{still:?}");
    assert!(set(&mut bench, AlarmSetting::On).on);
    // An unreadable alarm file does not mean off.
    bench.sim.put_stored("alarm.toml", Some(b"on = maybe".to_vec()));
    bench.restart(&[]);
    assert!(shown(&mut bench).on);
}

#[test]
fn health_is_one_sentence_and_what_to_do() {
    let mut bench = served(4);
    let well = report(&mut bench);
    assert_eq!(well.status, WellBeing::Ok, "{well:?}");
    assert_eq!(well.sentence, "all is well: 1 volume, 4 drives, 0 hot spares ready");
    assert_eq!(well.findings.len(), 1, "the missing spare is reported: {well:?}");
    fail(&mut bench, "a");
    let one = report(&mut bench);
    assert_eq!(one.status, WellBeing::Warning, "another drive may fail: {one:?}");
    assert!(
        one.sentence.starts_with(
            "volume 'data' is degraded: it lacks 1 of 4 drives, and 1 drive more may fail"
        ),
        "{}",
        one.sentence
    );
    assert!(!one.sentence.contains("attention"), "the drive is the cause: {}", one.sentence);
    assert_eq!(one.findings[0].causes, ["drive a"]);
    let drive = one
        .findings
        .iter()
        .find(|finding| finding.subject == "drive a")
        .expect("the drive is named");
    assert_eq!(drive.todo.as_deref(), Some("softroc drive replace data:0 --with NEW-DRIVE"));
    assert!(
        one.findings.iter().any(|finding| finding.todo.as_deref() == Some("softroc alarm silence"))
    );
    fail(&mut bench, "b");
    let two = report(&mut bench);
    assert_eq!(two.status, WellBeing::Critical);
    assert!(two.sentence.contains("the next drive failure can lose data"), "{}", two.sentence);
    bench.sim.drive("c").unwrap().fail_now();
    bench.try_read("data", 0, 1 << 20).expect_err("three of them are gone");
    bench.wait(5);
    let three = report(&mut bench);
    assert!(
        three.sentence.starts_with("volume 'data' is offline: its data cannot be reached"),
        "{}",
        three.sentence
    );
    assert!(
        three.findings.windows(2).all(|two| two[0].status >= two[1].status),
        "the most severe first"
    );
    assert!(
        three
            .findings
            .iter()
            .all(|finding| finding.status == WellBeing::Ok || finding.todo.is_some())
    );
}

#[test]
fn a_channel_that_takes_no_messages_is_told_until_it_works_or_is_another_one() {
    let mut bench = served(5);
    let note = |bench: &mut Bench, code: EventCode, name: &str| {
        let occurrence = Occurrence {
            code,
            subject: name.into(),
            cause: "a message was to be sent".into(),
            effect: "it waits".into(),
            text: format!("the channel '{name}' of notifications: it takes no messages"),
            by: None,
        };
        bench.handle.as_ref().unwrap().note(occurrence);
        bench.wait(1);
    };
    for end in [EventCode::NotifyWorks, EventCode::NotifyChanged] {
        note(&mut bench, EventCode::NotifyFailing, "mail");
        note(&mut bench, EventCode::NotifyWorks, "another");
        let failing = report(&mut bench);
        assert_eq!(failing.status, WellBeing::Warning);
        assert_eq!(failing.sentence, "the channel 'mail' of notifications: it takes no messages");
        assert_eq!(failing.findings[0].todo.as_deref(), Some("softroc notify test mail"));
        note(&mut bench, end, "mail");
        assert_eq!(report(&mut bench).status, WellBeing::Ok);
    }
    // A sender retries after a start, and does not report the earlier failure as resolved.
    note(&mut bench, EventCode::NotifyFailing, "mail");
    bench.restart(&[]);
    assert_eq!(report(&mut bench).status, WellBeing::Ok);
}
