//! Notifications, verified by their receivers: Debian's snmptrapd, rsyslogd and journald, Python's
//! aiosmtpd, and our webhook.

mod common;

use common::{Controller, have, not_installed, not_possible, run, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A program that ends with the test.
struct Sink(Child);

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(program: &str, arguments: &[&str], output: &str) -> Sink {
    let file = std::fs::File::create(output).expect("a file");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a file"))
        .stderr(file);
    Sink(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}")))
}

fn text(file: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

fn free_port(udp: bool) -> u16 {
    let port = match udp {
        true => std::net::UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr(),
        false => TcpListener::bind("127.0.0.1:0").expect("a port").local_addr(),
    };
    port.expect("it has one").port()
}

/// Received requests, each with its head and its body.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// Accepts requests and stores the head and the JSON. It rejects the first `refused`.
fn webhook(refused: usize) -> (u16, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let (heard, kept) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let told = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
            let (head, body) = loop {
                let so_far = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, body)) = so_far.split_once("\r\n\r\n")
                    && serde_json::from_str::<serde_json::Value>(body).is_ok()
                {
                    break (head.to_owned(), body.to_owned());
                }
                match stream.read(&mut piece) {
                    Ok(read) if read > 0 => bytes.extend(&piece[..read]),
                    _ => break Default::default(),
                }
            };
            let mut count = kept.lock().expect("not poisoned");
            *count += 1;
            let status = if *count <= refused { "500 No" } else { "204 No Content" };
            if *count > refused && !body.is_empty() {
                told.lock().expect("not poisoned").push((head, body));
            }
            let _ = stream
                .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    (port, heard)
}

/// A volume with a spare, so that a pulled drive causes one notification.
fn served(name: &str) -> (Controller, Vec<String>) {
    let controller = Controller::new(name);
    let drives = controller.volume("data", "raid5", 3);
    controller.wait_optimal("data");
    let spare = controller.folder.file("spare.img");
    controller.softroc(&["drive", "add", &spare, "--create", "64M"]).ok();
    controller.softroc(&["spare", "add", &spare]).ok();
    (controller, drives)
}

fn set(controller: &Controller, name: &str, target: &str, more: &[&str]) {
    let mut arguments = vec!["notify", "set", name, target, "--code", "drive.*,volume.*,array.*"];
    arguments.extend(more);
    controller.softroc(&arguments).ok();
}

/// A hook that appends its input to a file.
fn hook(controller: &Controller) -> (String, String) {
    let (folder, told) = (controller.folder.file("hooks"), controller.folder.file("hooked"));
    std::fs::create_dir(&folder).expect("a folder");
    let program = format!("{folder}/one.sh");
    std::fs::write(&program, format!("#!/bin/sh\ncat >>{told}\necho >>{told}\n"))
        .expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("it is one");
    (format!("hook:{folder}"), told)
}

/// Debian's snmptrapd, which prints received traps.
fn trap_receiver(controller: &Controller) -> Option<(Sink, String, String)> {
    if !have("snmptrapd") {
        return None;
    }
    let (port, told) = (free_port(true), controller.folder.file("traps"));
    let settings = controller.folder.file("snmptrapd.conf");
    std::fs::write(&settings, "authCommunity log public\n").expect("settings");
    let address = format!("udp:127.0.0.1:{port}");
    let arguments = ["-f", "-Lo", "-n", "-C", "-c", &settings, "-m", "", "-On", &address];
    let sink = spawn("snmptrapd", &arguments, &told);
    until("snmptrapd listens", || text(&told).contains("NET-SNMP version"));
    Some((sink, format!("snmp://127.0.0.1:{port}"), told))
}

/// Debian's rsyslogd, which writes the fields of each record on a line.
fn syslog_server(controller: &Controller) -> Option<(Sink, String, String)> {
    if !have("rsyslogd") {
        return None;
    }
    let (port, told) = (free_port(false), controller.folder.file("syslog"));
    let settings = controller.folder.file("rsyslog.conf");
    let lines = format!(
        "global(workDirectory=\"{}\")\nmodule(load=\"imtcp\")\ninput(type=\"imtcp\" port=\"{port}\" address=\"127.0.0.1\")\n\
         template(name=\"parts\" type=\"string\" string=\"%syslogseverity-text%|%app-name%|%msgid%|%structured-data%|%msg%\\n\")\n\
         *.* action(type=\"omfile\" file=\"{told}\" template=\"parts\")\n",
        controller.folder.path()
    );
    std::fs::write(&settings, lines).expect("settings");
    let pid = controller.folder.file("rsyslog.pid");
    let sink = spawn(
        "rsyslogd",
        &["-n", "-f", &settings, "-i", &pid],
        &controller.folder.file("rsyslog.log"),
    );
    until("rsyslogd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((sink, format!("syslog+tcp://127.0.0.1:{port}"), told))
}

/// Python's aiosmtpd, which prints each mail.
fn mail_server(controller: &Controller) -> Option<(Sink, String, String)> {
    let python =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/judges-python/bin/python");
    let is_there = python.is_file()
        && Command::new(&python)
            .args(["-c", "import aiosmtpd"])
            .status()
            .is_ok_and(|status| status.success());
    if !is_there {
        not_installed("aiosmtpd");
        return None;
    }
    let (port, told) = (free_port(false), controller.folder.file("mails"));
    let address = format!("127.0.0.1:{port}");
    let class = "aiosmtpd.handlers.Debugging";
    let sink = spawn(
        python.to_str().expect("text"),
        &["-u", "-m", "aiosmtpd", "-n", "-l", &address, "-c", class, "stdout"],
        &told,
    );
    until("aiosmtpd listens", || std::net::TcpStream::connect(&address).is_ok());
    Some((sink, format!("smtp://{address}"), told))
}

/// The journal of this computer: systemd's daemon, started if none runs.
fn journal() -> Option<Option<Sink>> {
    if !have("journalctl") {
        return None;
    }
    let socket = "/run/systemd/journal/socket";
    let listens =
        || std::os::unix::net::UnixDatagram::unbound().and_then(|one| one.connect(socket)).is_ok();
    if listens() {
        return Some(None);
    }
    let daemon = "/lib/systemd/systemd-journald";
    if run("id", &["-u"]).trim() != "0" || !Path::new(daemon).exists() {
        not_possible("the journal", "no journald runs here, and only root can start it");
        return None;
    }
    let sink = spawn(daemon, &[], "/dev/null");
    until("journald listens", listens);
    Some(Some(sink))
}

/// The last message is sent to all channels: when it arrives, all earlier ones have.
fn wait_for_the_last_message(controller: &Controller) {
    for info in controller.json(&["notify", "list"])["channels"].as_array().expect("channels") {
        let name = info["name"].as_str().expect("a name").to_owned();
        until(&name, || {
            let all = controller.json(&["notify", "list"]);
            let all = all["channels"].as_array().cloned().unwrap_or_default();
            all.iter()
                .any(|one| one["name"] == *name && one["waiting"] == 0 && one["problem"].is_null())
        });
    }
}

#[test]
fn a_pulled_drive_is_one_message_on_each_channel_with_the_same_code() {
    let (controller, drives) = served("notify-pull");
    let (target, hooked) = hook(&controller);
    set(&controller, "hook", &target, &[]);
    let (port, web) = webhook(0);
    set(&controller, "web", &format!("http://127.0.0.1:{port}/events"), &[]);
    let journal = journal();
    if journal.is_some() {
        set(&controller, "log", "journal", &[]);
    }
    let (snmp, syslog, mail) =
        (trap_receiver(&controller), syslog_server(&controller), mail_server(&controller));
    if let Some((_, target, _)) = &snmp {
        set(&controller, "snmp", target, &[]);
    }
    if let Some((_, target, _)) = &syslog {
        set(&controller, "syslog", target, &[]);
    }
    if let Some((_, target, _)) = &mail {
        set(
            &controller,
            "mail",
            target,
            &["--from", "raid@example.org", "--to", "ops@example.org"],
        );
    }
    std::fs::remove_file(&drives[1]).expect("it is pulled");
    until("the spare has taken its place", || {
        controller.softroc(&["events"]).ok().contains("drive.takes-slot")
    });
    wait_for_the_last_message(&controller);
    let code = "drive.failed";
    until("the hook was notified", || text(&hooked).contains(code));
    until("the webhook was notified", || {
        web.lock().expect("not poisoned").iter().any(|(_, body)| body.contains(code))
    });
    assert_eq!(text(&hooked).matches(code).count(), 1, "{}", text(&hooked));
    let heard = web.lock().expect("not poisoned").clone();
    let of_drive: Vec<_> = heard.iter().filter(|(_, body)| body.contains(code)).collect();
    assert_eq!(of_drive.len(), 1, "{heard:?}");
    assert!(
        of_drive[0].0.to_lowercase().contains("x-softroc-code: drive.failed"),
        "{}",
        of_drive[0].0
    );
    assert_eq!(heard.len(), 1, "with a spare there is nothing else to tell: {heard:?}");
    judge_servers(
        [&snmp, &syslog, &mail].map(|one| one.as_ref().map(|(_, _, told)| told.as_str())),
    );
    if journal.is_some() {
        // Of this controller: others may have written there as well.
        let line =
            "journalctl -q --no-pager -o json MESSAGE_ID=0d0fece52f518f2b87a56c087ba37f7e || true";
        let found = || -> Vec<String> {
            let all = run("sh", &["-c", line]);
            all.lines().filter(|line| line.contains(&drives[1])).map(str::to_owned).collect()
        };
        until("the journal", || !found().is_empty());
        let found = found();
        assert!(found.len() == 1 && found[0].contains(code), "{found:?}");
    }
}

/// The output of snmptrapd, rsyslogd and the mail server, if installed.
fn judge_servers([snmp, syslog, mail]: [Option<&str>; 3]) {
    let code = "drive.failed";
    if let Some(told) = &snmp {
        until("the trap", || text(told).contains(code));
        let all = text(told);
        assert_eq!(
            all.matches(".1.3.6.1.4.1.32473.1.1.1.0 = STRING: \"drive.failed\"").count(),
            1,
            "{all}"
        );
        assert!(
            all.contains("OID: .1.3.6.1.4.1.32473.1.0.1")
                && all.contains(".1.3.6.1.4.1.32473.1.1.2.0 = INTEGER: 1"),
            "{all}"
        );
    }
    if let Some(told) = &syslog {
        until("the record", || text(told).contains(code));
        let all = text(told);
        assert_eq!(
            all.matches("warning|softroc|drive.failed|[softroc@32473 number=").count(),
            1,
            "{all}"
        );
    }
    if let Some(told) = &mail {
        until("the mail", || text(told).contains("END MESSAGE"));
        let all = text(told);
        assert_eq!(all.matches("X-Softroc-Code: drive.failed").count(), 1, "{all}");
        assert!(
            all.contains("To: ops@example.org") && all.contains("Code:     drive.failed"),
            "{all}"
        );
    }
}

/// A channel for each event of a spare.
fn send_all_of_spares(controller: &Controller, target: &str) {
    let channel = ["notify", "set", "web", target];
    let which = ["--severity", "info", "--fold", "0", "--code", "spare.*"];
    controller.softroc(&[&channel[..], &which].concat()).ok();
}

#[test]
fn a_sink_that_is_away_gets_all_of_it_in_order_also_over_a_restart() {
    let mut controller = Controller::new("notify-away");
    let port = free_port(false);
    let target = format!("http://127.0.0.1:{port}/x");
    send_all_of_spares(&controller, &target);
    let drives = controller.file_drives_of("64M", 2);
    controller.softroc(&["drive", "add", &drives[0]]).ok();
    for round in 0..4 {
        controller.softroc(&["spare", "add", &drives[0]]).ok();
        controller.softroc(&["spare", "remove", &drives[0]]).ok();
        if round == 1 {
            // An unsaved event ends with the process.
            until("four wait", || {
                controller.json(&["notify", "list"])["channels"][0]["waiting"] == 4
            });
            controller.kill_9();
            controller.start();
        }
    }
    let waiting = || controller.json(&["notify", "list"])["channels"][0].clone();
    until("all messages wait", || waiting()["waiting"] == 8 && waiting()["problem"].is_string());
    // The receiver restarts at another address; waiting messages go there, though the first attempt
    // fails.
    let (port, heard) = webhook(1);
    let target = format!("http://127.0.0.1:{port}/x");
    send_all_of_spares(&controller, &target);
    until("it has all", || heard.lock().expect("not poisoned").len() == 8);
    let heard: Vec<serde_json::Value> = heard
        .lock()
        .expect("not poisoned")
        .iter()
        .map(|(_, body)| serde_json::from_str(body).expect("JSON"))
        .collect();
    let numbers: Vec<u64> = heard.iter().filter_map(|one| one["number"].as_u64()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let codes: Vec<&str> = heard.iter().filter_map(|one| one["code"].as_str()).collect();
    assert_eq!(codes, ["spare.added", "spare.removed"].repeat(4));
}

#[test]
fn secrets_are_told_to_nobody_and_a_webhook_is_signed() {
    let controller = Controller::new("notify-secret");
    let (port, heard) = webhook(0);
    let state = controller.state();
    let program = env!("CARGO_BIN_EXE_softroc");
    let target = format!("http://127.0.0.1:{port}/x");
    let line = format!(
        "echo 'a hidden key' | {program} notify set web {target} --secret-stdin --state {state}"
    );
    assert!(!run("sh", &["-c", &line]).contains("hidden"));
    // Set again without the secret: the same target keeps it.
    controller.softroc(&["notify", "set", "web", &target, "--severity", "critical"]).ok();
    let list = controller.softroc(&["notify", "list", "--json"]).ok();
    assert!(list.contains("\"has_secret\": true") && !list.contains("hidden"), "{list}");
    controller.softroc(&["notify", "test", "web"]).ok();
    let (head, body) = heard.lock().expect("not poisoned")[0].clone();
    let signed = head
        .lines()
        .find_map(|line| line.strip_prefix("x-softroc-signature: sha256="))
        .expect("signed");
    if have("openssl") {
        let file = controller.folder.file("body");
        std::fs::write(&file, body).expect("a file");
        let expected = run("openssl", &["dgst", "-sha256", "-hmac", "a hidden key", &file]);
        assert!(expected.trim().ends_with(signed), "{expected} is not {signed}");
    }
    let events = controller.softroc(&["events"]).ok();
    assert!(
        events.contains("notify.test")
            && !events.contains("hidden")
            && !controller.log().contains("hidden")
    );
    let file = Path::new(&state).join("notifications.json");
    assert_eq!(std::fs::metadata(file).expect("it is kept").permissions().mode() & 0o777, 0o600);
    // Another target does not get the first target's secret.
    controller.softroc(&["notify", "set", "web", "http://127.0.0.1:1/elsewhere"]).ok();
    assert!(
        controller.softroc(&["notify", "list", "--json"]).ok().contains("\"has_secret\": false")
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let controller = Controller::new("notify-wrong");
    for (arguments, told) in [
        (&["notify", "set", "web", "nowhere"][..], "expected journal, syslog:"),
        (
            &["notify", "set", "log", "journal", "--code", "drive.fail"],
            "there is no event 'drive.fail'",
        ),
        (&["notify", "set", "mail", "smtp://localhost"], "--from and --to"),
        (&["notify", "set", "log", "journal", "--quiet", "22-7"], "HH:MM-HH:MM"),
        (&["notify", "test", "web"], "there is no channel 'web'"),
        (&["notify", "remove", "web"], "there is no channel 'web'"),
    ] {
        let refused = controller.softroc(arguments).refused();
        assert!(refused.contains(told), "{arguments:?}: {refused}");
    }
    // A program that other users may change is not run.
    let (target, hooked) = hook(&controller);
    let program = format!("{}/one.sh", target.trim_start_matches("hook:"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o722))
        .expect("others may write");
    controller.softroc(&["notify", "set", "hook", &target]).ok();
    let answer = controller.softroc(&["notify", "test", "hook"]);
    assert!(
        answer.code != 0 && answer.stderr.contains("other users may write to it"),
        "{}",
        answer.stderr
    );
    assert!(!Path::new(&hooked).exists());
}
