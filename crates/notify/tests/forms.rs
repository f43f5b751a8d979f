//! The formats of a message, decoded by hand. `crates/softroc/tests/notifications.rs` tests them
//! with other programs.

use controller::{Event, EventCode, Severity};
use notify::form::{self, Variables};
use notify::{Channel, Message, Sender, Target};
use std::collections::BTreeSet;

fn message() -> Message {
    let event = Event {
        number: 300,
        time_unix_s: 1_735_689_599,
        code: "drive.failed".to_owned(),
        severity: Severity::Warning,
        subject: "/dev/\"sd]b\\".to_owned(),
        cause: "two\nlines".to_owned(),
        effect: "RAID 5 goes on".to_owned(),
        text: "drive /dev/sdb failed – é\r\nBcc: x@y".to_owned(),
        by: None,
        related: None,
        count: 1,
        first_unix_s: None,
    };
    Message { event, more: 2, left_out: 0 }
}

fn sender() -> Sender {
    Sender { host: "box".to_owned(), pid: 7, started_unix_s: 1_735_689_000 }
}

#[test]
fn a_record_of_syslog_is_one_line_with_its_values_escaped() {
    let record = String::from_utf8(form::syslog(&message(), &sender())).expect("UTF-8");
    let head = "<28>1 2024-12-31T23:59:59Z box softroc 7 drive.failed [softroc@32473 \
                number=\"300\" severity=\"warning\" subject=\"/dev/\\\"sd\\]b\\\\\" \
                cause=\"two lines\" effect=\"RAID 5 goes on\" more=\"2\"] \
                \u{FEFF}drive /dev/sdb failed – é  Bcc";
    assert!(record.starts_with(head), "{record}");
    assert!(!record.contains(['\n', '\r']));
    let framed = form::octet_counted(record.as_bytes());
    assert!(framed.starts_with(format!("{} <28>1 ", record.len()).as_bytes()));
}

/// A drive's name can neither control a terminal nor reverse the text after it.
#[test]
fn what_is_unprintable_is_a_blank_in_every_text() {
    let mut message = message();
    "drive a\x1b[2Jb\u{202e}c\u{9b}d".clone_into(&mut message.event.text);
    "x\u{2066}y".clone_into(&mut message.event.subject);
    assert!(message.text().starts_with("drive a [2Jb c d (2 more like it)"), "{}", message.text());
    let record = String::from_utf8(form::syslog(&message, &sender())).expect("UTF-8");
    assert!(record.contains("subject=\"x y\"") && record.contains("drive a [2Jb c d"), "{record}");
}

#[test]
fn a_value_of_several_lines_has_its_length_in_the_journal() {
    let datagram = form::journal(&message());
    let at = |piece: &[u8]| datagram.windows(piece.len()).any(|window| window == piece);
    assert!(at(b"SOFTROC_CAUSE\n\x09\0\0\0\0\0\0\0two\nlines\n"));
    assert!(at(b"PRIORITY=4\n") && at(b"SOFTROC_CODE=drive.failed\n"));
}

#[test]
fn each_code_has_a_message_id_of_its_own_that_never_changes() {
    assert_eq!(form::message_id("drive.failed"), "0d0fece52f518f2b87a56c087ba37f7e");
    let all: BTreeSet<String> =
        EventCode::ALL.iter().map(|code| form::message_id(code.code())).collect();
    assert_eq!(all.len(), EventCode::ALL.len());
    for id in all {
        assert!(
            id.len() == 32 && &id[12..13] == "8" && "89ab".contains(&id[16..17]),
            "{id} is no UUID"
        );
    }
}

#[test]
fn mail_has_no_line_ends_in_its_subject() {
    let subject = form::mail_subject(&message(), &sender());
    assert_eq!(
        subject,
        "[softroc box] warning: drive /dev/sdb failed – é  Bcc: x@y (2 more like it)"
    );
    let text = form::mail_text(&message(), &sender());
    assert!(
        text.contains("Code:     drive.failed\n")
            && text.contains("Time:     2024-12-31T23:59:59Z\n")
    );
    let mut long = message();
    long.event.text = "é".repeat(500);
    assert_eq!(form::mail_subject(&long, &sender()).chars().count(), 120);
}

#[test]
fn an_answer_of_snmp_is_known_by_its_number_and_hostile_bytes_are_none() {
    let variables = Variables {
        community: "public",
        is_inform: true,
        request: 0x0102_0384,
        now_s: 1_735_689_600,
    };
    let mut datagram = form::snmp(&message(), &sender(), variables);
    assert!(!form::answers(&datagram, variables.request), "an inform is no answer");
    let kind = datagram.iter().position(|byte| *byte == 0xA6).expect("an inform");
    datagram[kind] = 0xA2;
    assert!(form::answers(&datagram, variables.request));
    assert!(!form::answers(&datagram, variables.request + 1));
    for end in 0..datagram.len() {
        assert!(!form::answers(&datagram[..end], variables.request), "cut off at {end}");
    }
    for at in 0..datagram.len() {
        for value in 0..=255 {
            let mut changed = datagram.clone();
            changed[at] = value;
            form::answers(&changed, variables.request);
        }
    }
}

fn checked(more: &str, has_secret: bool) -> Result<Target, String> {
    let channel: Channel =
        serde_json::from_str(&format!("{{\"name\":\"it\",{more}}}")).expect("a channel");
    channel.check(has_secret).map_err(|error| error.message)
}

#[test]
fn what_makes_no_sense_is_refused_with_what_was_expected() {
    for good in [
        "journal",
        "journal:/x",
        "hook:/x",
        "syslog:/dev/log",
        "syslog+udp://h",
        "syslog+tcp://[::1]:1",
        "syslog+tls://h:6514",
        "http://h/x",
        "https://h:1/x?y",
        "snmp://h",
        "snmp+trap://127.0.0.1:9",
    ] {
        checked(&format!("\"target\":\"{good}\""), false).expect(good);
    }
    for bad in [
        "",
        "journal:x",
        "hook:x",
        "syslog+udp://",
        "syslog+udp://h:0",
        "syslog+udp://h:99999",
        "ftp://h",
        "http:///x",
        "http://h x/",
        "snmp://a b",
        "smtp:h",
        "https://u@h/",
    ] {
        let refused = checked(&format!("\"target\":\"{bad}\""), false).expect_err(bad);
        assert!(refused.contains("expected journal, syslog:"), "{bad}: {refused}");
    }
    let mail = |more: &str| checked(&format!("\"target\":\"smtp://h\"{more}"), false);
    mail(",\"from\":\"a@b\",\"to\":[\"c@d\"]").expect("mail");
    for bad in [
        "",
        ",\"from\":\"a@b\"",
        ",\"from\":\"a\",\"to\":[\"c@d\"]",
        ",\"from\":\"a@b\",\"to\":[\"c@d\\r\\nx\"]",
        ",\"from\":\"a@b\",\"to\":[\"c@d\"],\"user\":\"u\"",
    ] {
        mail(bad).expect_err(bad);
    }
    let journal = |more: &str| checked(&format!("\"target\":\"journal\"{more}"), false);
    for bad in [
        ",\"codes\":[\"drive.fail\"]",
        ",\"codes\":[\"x*\"]",
        ",\"fold_s\":3601",
        ",\"to\":[\"c@d\"]",
    ] {
        journal(bad).expect_err(bad);
    }
    checked("\"target\":\"journal\"", true).expect_err("a secret for the journal");
    for hours in ["22:00", "22:00-24:00", "7:00-8:00", "07:00-07:00", "+1:00-02:00"] {
        assert!(hours.parse::<notify::Quiet>().is_err(), "{hours}");
    }
}
