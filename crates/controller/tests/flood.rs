//! A flood of events: memory and files stay bounded, followers get every event, and no command is
//! lost.

use crate::common::Bench;
use controller::{AlarmSetting, Caller, Command, Event, EventCode, Occurrence, Origin, Reply};
use std::collections::BTreeMap;

/// The maximum length of an event file, with the lines of one append.
const FILE: usize = (2 << 20) + (256 << 10);

fn happened(code: EventCode, subject: String, by: Option<Caller>) -> Occurrence {
    let text = format!("something happened to {subject}");
    Occurrence { code, subject, cause: "a flood".into(), effect: "none".into(), text, by }
}

/// The events that a follower without delay got.
#[derive(Default)]
struct Follower {
    seen: u64,
    events: Vec<Event>,
}

impl Follower {
    fn look(&mut self, bench: &Bench) {
        loop {
            let news = bench.handle.as_ref().unwrap().events().after(self.seen);
            let Some(last) = news.last() else { return };
            assert!(last.number > self.seen, "the stream continues");
            self.seen = last.number;
            self.events.extend(news);
        }
    }

    fn occurrences(&self, code: &str) -> u64 {
        self.events.iter().filter(|event| event.code == code).map(|event| event.count).sum()
    }
}

fn files(bench: &Bench) -> [usize; 2] {
    ["events.jsonl", "events.2.jsonl"]
        .map(|file| bench.sim.stored(file).map_or(0, |bytes| bytes.len()))
}

/// Events and files are bounded, and each command is in the audit log.
fn check_bounds(bench: &mut Bench, follower: &Follower) {
    assert!(follower.events.len() < 5000, "{} events", follower.events.len());
    assert!(bench.events().len() <= 1000);
    let lens = files(bench);
    assert!(lens.iter().all(|len| *len <= FILE), "{lens:?}");
    let Ok(Reply::Audit { orders }) = bench.ask(Command::AuditList { last: None }) else {
        panic!("a list")
    };
    assert_eq!(
        orders.iter().filter(|one| one.order == "alarm-set").count(),
        60,
        "each command is there"
    );
}

/// 100,000 events in a minute, of five kinds and thousands of subjects, with a command every second
/// and a critical event in between.
#[test]
fn a_hundred_thousand_events_in_a_minute_are_bounded_and_lose_nothing() {
    let mut bench = Bench::new(81, 1, 2);
    bench.boot(&[]);
    let handle = bench.handle.clone().unwrap();
    let mut follower = Follower { seen: handle.events().newest(), ..Follower::default() };
    let codes = [
        EventCode::DriveMediumError,
        EventCode::VolumeMismatch,
        EventCode::VolumeUnsynced,
        EventCode::AccessSession,
        EventCode::NotifyGivenUp,
    ];
    let mut noted = BTreeMap::new();
    for second in 0..60_u64 {
        for piece in 0..4 {
            for number in 0..417_u64 {
                let code = codes[(number % 5) as usize];
                *noted.entry(code.code()).or_insert(0_u64) += 1;
                handle.note(happened(
                    code,
                    format!("drive {}", number * (piece + 1) * (second + 1)),
                    None,
                ));
            }
            let until = bench.sim.now() + std::time::Duration::from_millis(240);
            bench.sim.run_until(until).unwrap();
            follower.look(&bench);
        }
        let to = if second % 2 == 0 { AlarmSetting::Off } else { AlarmSetting::On };
        bench.ask(Command::AlarmSet { to }).unwrap();
        if second == 30 {
            handle.note(happened(EventCode::ArrayNotRecorded, "data".into(), None));
            bench.ask(Command::VolumeList {}).unwrap();
            follower.look(&bench);
            assert_eq!(
                follower.occurrences("array.not-recorded"),
                1,
                "a critical event is not delayed"
            );
        }
    }
    assert_eq!(noted.values().sum::<u64>(), 60 * 4 * 417, "the flood");
    for _ in 0..200 {
        bench.wait(10);
        follower.look(&bench);
    }
    for (code, count) in noted {
        assert_eq!(follower.occurrences(code), count, "{code}: each event is counted once");
    }
    assert_eq!(
        follower.occurrences("events.left-out"),
        0,
        "a follower without delay misses nothing"
    );
    check_bounds(&mut bench, &follower);
}

fn eve() -> Caller {
    Caller { user: "eve".into(), origin: Origin::Local { uid: 7, pid: None } }
}

/// The event file grew until the next start of the controller.
#[test]
fn files_of_events_are_bounded_while_running_and_the_alarm_sounds_after_a_kill() {
    let mut bench = Bench::new(82, 1, 2);
    bench.boot(&[]);
    let handle = bench.handle.clone().unwrap();
    handle.note(happened(EventCode::ArrayNotRecorded, "data".into(), None));
    bench.wait(1);
    // Events caused by commands are not folded.
    for round in 0..80 {
        (0..500).for_each(|one| {
            handle.note(happened(EventCode::BenchStarted, format!("{one}"), Some(eve())))
        });
        bench.wait(1);
        let lens = files(&bench);
        assert!(lens.iter().all(|len| *len <= FILE), "round {round}: {lens:?}");
    }
    let newest = handle.events().newest();
    assert!(
        newest > 40_000 && files(&bench)[1] > 0,
        "both files were written: {:?}",
        files(&bench)
    );
    let before = bench.events();
    drop(handle);
    bench.restart(&[]);
    let after = bench.events();
    let kept = after.iter().filter(|event| before.contains(event)).count();
    assert!(kept >= 990, "the stored event is there: {kept}");
    let Ok(Reply::Alarm { alarm }) = bench.ask(Command::AlarmShow {}) else {
        panic!("the reply lists events")
    };
    assert!(alarm.sounds, "its event is far behind, and was carried along");
    assert!(bench.handle.as_ref().unwrap().events().newest() > newest, "the numbers continue");
}

#[test]
fn a_consumer_that_falls_behind_is_told_so_and_goes_on() {
    let mut bench = Bench::new(83, 1, 2);
    bench.boot(&[]);
    let handle = bench.handle.clone().unwrap();
    let mut follower = Follower { seen: handle.events().newest(), ..Follower::default() };
    for _ in 0..5 {
        (0..500).for_each(|one| {
            handle.note(happened(EventCode::BenchEnded, format!("{one}"), Some(eve())))
        });
        bench.wait(1);
    }
    follower.look(&bench);
    assert_eq!(follower.events[0].code, "events.left-out");
    assert_eq!(follower.occurrences("events.left-out"), 1500);
    assert_eq!(follower.occurrences("bench.ended"), 1000);
    assert_eq!(follower.events[0].number + 1, follower.events[1].number);
    let seen = follower.seen;
    handle.note(happened(EventCode::BenchEnded, "last".into(), Some(eve())));
    bench.wait(1);
    follower.look(&bench);
    assert_eq!(follower.seen, seen + 1);
    drop(handle);
    bench.restart(&[]);
    follower.look(&bench);
    let last = follower.events.last().unwrap();
    assert_eq!(
        last.code, "controller.started",
        "the stream continues from its number after a restart"
    );
    assert_eq!(follower.occurrences("events.left-out"), 1500, "and misses nothing of it");
}

/// A full command mailbox delayed events of accounts and notifications, and disconnected event
/// followers.
#[test]
fn a_controller_that_is_busy_takes_events_and_delivers_them() {
    let mut bench = Bench::new(84, 1, 2);
    bench.boot(&[]);
    let handle = bench.handle.clone().unwrap();
    let (sender, refused) = std::sync::mpsc::channel();
    for _ in 0..400 {
        let sender = sender.clone();
        handle.ask(Command::VolumeList {}, move |reply| sender.send(reply.is_err()).unwrap());
    }
    assert!(
        refused.try_iter().filter(|is_refused| *is_refused).count() >= 100,
        "the controller is busy"
    );
    let mut follower = Follower { seen: handle.events().newest(), ..Follower::default() };
    handle.note(happened(EventCode::NotifyFailing, "mail".into(), None));
    bench.wait(1);
    follower.look(&bench);
    assert_eq!(follower.occurrences("notify.failing"), 1);
}

#[test]
fn a_drive_and_its_array_both_have_the_failure_in_their_history() {
    let mut bench = Bench::new(85, 1, 4);
    bench.boot(&[]);
    bench.create("data", "raid6", &["a", "b", "c", "d"]);
    bench.sim.drive("a").unwrap().fail_now();
    bench.write("data", 0, 7, 1 << 20);
    bench.wait(5);
    let history = |bench: &mut Bench, name: &str| -> Vec<Event> {
        match bench.ask(Command::EventsList { last: None, about: Some(name.into()) }) {
            Ok(Reply::Events { events }) => events,
            other => panic!("{other:?}"),
        }
    };
    for name in ["a", "data"] {
        let events = history(&mut bench, name);
        let failed = events.iter().find(|event| event.code == "drive.failed");
        let failed = failed.unwrap_or_else(|| panic!("{name}: {events:?}"));
        assert_eq!((failed.subject.as_str(), failed.related.as_deref()), ("a", Some("data")));
    }
    assert!(history(&mut bench, "b").iter().all(|event| event.code != "drive.failed"));
}
