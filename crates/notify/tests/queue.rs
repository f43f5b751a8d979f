//! Which events become messages, and in which order: in virtual time, with a sink that fails on
//! demand.

use controller::{Event, Severity};
use notify::{Channel, Line, Message, Outcome, Queue, Waiting};

fn event(number: u64, code: &str, severity: Severity, subject: &str) -> Event {
    Event {
        number,
        time_unix_s: 1_700_000_000 + number,
        code: code.to_owned(),
        severity,
        subject: subject.to_owned(),
        cause: "pulled".to_owned(),
        effect: "the array goes on".to_owned(),
        text: format!("event {number}"),
        by: None,
        related: None,
        count: 1,
        first_unix_s: None,
    }
}

fn failed(number: u64, subject: &str) -> Event {
    event(number, "drive.failed", Severity::Warning, subject)
}

fn channel(more: &str) -> Channel {
    serde_json::from_str(&format!("{{\"name\":\"it\",\"target\":\"journal\"{more}}}"))
        .expect("a channel")
}

/// A sink in virtual time: it polls each second while messages are pending, and records messages
/// and times.
struct Sink {
    channel: Channel,
    queue: Queue,
    kept: Vec<String>,
    arrived: Vec<(u64, Message)>,
    told: u32,
}

impl Sink {
    fn new(channel: Channel) -> Sink {
        Sink { channel, queue: Queue::after(0), kept: Vec::new(), arrived: Vec::new(), told: 0 }
    }

    fn keep(&mut self, line: Line) {
        self.kept.push(serde_json::to_string(&line).expect("JSON"));
    }

    fn offer(&mut self, event: &Event, now_s: u64) {
        if let Some(line) = self.queue.offer(&self.channel, event, now_s) {
            self.keep(line);
        }
    }

    /// One second: all due messages are attempted.
    fn second(&mut self, now_s: u64, is_up: bool) {
        while let Some(Waiting { place, message, .. }) = self.queue.due(&self.channel, now_s) {
            if !is_up {
                match self.queue.failed(place, now_s) {
                    Outcome::Tell => self.told += 1,
                    Outcome::Again => {}
                    Outcome::GivenUp(line) => self.keep(line),
                }
                continue;
            }
            self.arrived.push((now_s, message));
            let (line, _) = self.queue.sent(place);
            self.keep(line);
        }
    }

    /// A crash and restart: only stored lines survive.
    fn restart(&mut self) {
        let (queue, unreadable) = Queue::read(&self.kept.join("\n"));
        assert_eq!(unreadable, 0);
        self.queue = queue;
    }

    fn numbers(&self) -> Vec<u64> {
        self.arrived.iter().map(|(_, message)| message.event.number).collect()
    }
}

#[test]
fn a_sink_that_is_down_for_ten_minutes_loses_nothing_and_the_order_is_kept() {
    for restarts in [false, true] {
        let mut sink = Sink::new(channel(""));
        for now_s in 0..1000 {
            // An event every seven seconds, each of another drive; the sink is away from 100 to
            // 700.
            if now_s % 7 == 0 {
                sink.offer(&failed(now_s + 1, &format!("drive {now_s}")), now_s);
            }
            sink.second(now_s, !(100..700).contains(&now_s));
            if restarts && now_s % 50 == 0 {
                sink.restart();
            }
        }
        let sent: Vec<u64> =
            (0..1000).filter(|now_s| now_s % 7 == 0).map(|now_s| now_s + 1).collect();
        assert_eq!(sink.numbers(), sent, "restarts: {restarts}");
        let first_after = sink.arrived.iter().find(|(at_s, _)| *at_s >= 700).expect("some").0;
        assert!(first_after <= 760, "the longest gap is a minute: {first_after}");
        assert!(sink.queue.is_empty());
        if !restarts {
            assert_eq!(sink.told, 1, "one outage is reported once");
        }
    }
}

#[test]
fn repeats_are_folded_into_one_message_a_minute() {
    let mut sink = Sink::new(channel(""));
    for now_s in 0..300 {
        if now_s < 150 {
            sink.offer(&failed(2 * now_s + 1, "/dev/sdb"), now_s);
        }
        if now_s == 5 {
            sink.offer(&failed(2 * now_s + 2, "/dev/sdc"), now_s);
        }
        sink.second(now_s, true);
    }
    let told: Vec<(u64, &str, u64)> = sink
        .arrived
        .iter()
        .map(|(at_s, message)| (*at_s, message.event.subject.as_str(), message.more))
        .collect();
    assert_eq!(
        told,
        [
            (0, "/dev/sdb", 0),
            (5, "/dev/sdc", 0),
            (60, "/dev/sdb", 59),
            (120, "/dev/sdb", 59),
            (180, "/dev/sdb", 28)
        ]
    );
    let all: u64 = told.iter().map(|(.., more)| more + 1).sum();
    assert_eq!(all, 151, "each event is in exactly one message");
    assert!(
        sink.arrived[2].1.text().ends_with("(59 more like it)"),
        "{}",
        sink.arrived[2].1.text()
    );
    // Without folding, each event is a message.
    let mut plain = Sink::new(channel(",\"fold_s\":0"));
    for number in 1..=10 {
        plain.offer(&failed(number, "/dev/sdb"), 0);
    }
    plain.second(0, true);
    assert_eq!(plain.numbers(), (1..=10).collect::<Vec<u64>>());
}

#[test]
fn what_is_folded_outlives_a_restart() {
    let mut sink = Sink::new(channel(""));
    for number in 1..=5 {
        sink.offer(&failed(number, "/dev/sdb"), number);
    }
    sink.second(5, true);
    sink.restart();
    sink.offer(&failed(4, "/dev/sdb"), 6);
    sink.offer(&failed(6, "/dev/sdb"), 7);
    sink.second(30, true);
    assert_eq!(sink.numbers(), [1], "repeats wait for the minute to end; old events are ignored");
    sink.second(61, true);
    assert_eq!((sink.numbers(), sink.arrived[1].1.more), (vec![1, 6], 4));
}

#[test]
fn in_quiet_hours_only_what_is_critical_is_sent_and_the_rest_follows() {
    let mut sink = Sink::new(channel(",\"quiet\":\"22:00-07:00\""));
    let night = 22 * 3600 + 60;
    sink.offer(&failed(1, "/dev/sdb"), night);
    sink.offer(&event(2, "volume.offline", Severity::Fatal, "data"), night + 1);
    sink.offer(&failed(3, "/dev/sdc"), night + 3 * 3600);
    sink.second(night + 2, true);
    assert_eq!(sink.numbers(), [2]);
    sink.restart();
    sink.second(86_400 + 7 * 3600 - 1, true);
    assert_eq!(sink.numbers(), [2]);
    sink.second(86_400 + 7 * 3600, true);
    assert_eq!(sink.numbers(), [2, 1, 3]);
}

#[test]
fn rules_choose_by_severity_and_code_and_a_channel_does_not_tell_of_itself() {
    let takes = |more: &str, event: &Event| channel(more).takes(event);
    let info = event(1, "task.done", Severity::Info, "data");
    assert!(!takes("", &info) && takes(",\"severity\":\"info\"", &info));
    assert!(takes(",\"codes\":[\"drive.*\"]", &failed(1, "x")));
    assert!(!takes(",\"codes\":[\"volume.*\",\"drive.missing\"]", &failed(1, "x")));
    assert!(!takes("", &event(1, "notify.failing", Severity::Warning, "it")));
    assert!(takes("", &event(1, "notify.failing", Severity::Warning, "another")));
}

#[test]
fn a_message_that_nobody_takes_for_a_day_is_given_up() {
    let mut sink = Sink::new(channel(""));
    sink.offer(&failed(1, "/dev/sdb"), 0);
    sink.offer(&failed(2, "/dev/sdc"), 43_200);
    for now_s in 0..86_500 {
        sink.second(now_s, false);
    }
    assert_eq!(sink.queue.len(), 1);
    sink.second(90_000, true);
    assert_eq!(sink.numbers(), [2]);
}

#[test]
fn a_queue_that_is_full_says_how_many_it_left_out() {
    let mut sink = Sink::new(channel(""));
    for number in 1..=10_050 {
        sink.offer(&failed(number, &number.to_string()), 1);
    }
    assert_eq!(sink.queue.len(), 10_000);
    sink.restart();
    sink.second(2, true);
    let last = &sink.arrived.last().expect("some").1;
    assert_eq!((last.event.number, last.left_out), (10_000, 50));
}

#[test]
fn what_a_kill_leaves_of_the_last_line_is_no_message() {
    let mut sink = Sink::new(channel(""));
    for number in 1..=3 {
        sink.offer(&failed(number, &number.to_string()), 1);
    }
    let text = sink.kept.join("\n");
    for end in 0..text.len() {
        let (queue, unreadable) = Queue::read(&text[..end]);
        assert!(queue.len() <= 3 && unreadable <= 1);
    }
    let (queue, _) = Queue::read(&text);
    let lines: Vec<String> =
        queue.lines().iter().map(|line| serde_json::to_string(line).expect("JSON")).collect();
    assert_eq!(Queue::read(&lines.join("\n")).0, queue, "a rewritten queue is equal");
}
