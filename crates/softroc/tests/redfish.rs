//! Redfish, verified by DMTF's validators and by common clients. `make test` installs them from
//! PyPI (`scripts/redfish-judges`); without them, these tests are skipped.

mod common;

use common::managed::{Managed, managed};
use common::{have, not_installed};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PASSWORD: &str = "secret of ada";

/// The folder of the validators, if installed.
fn judges() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/redfish-judges");
    if folder.join("installed").exists() {
        return folder.canonicalize().ok();
    }
    not_installed("the validators of Redfish");
    None
}

/// A controller with all kinds of resources: a volume that lost a drive, a spare, drives for more
/// volumes.
fn served(name: &str) -> Managed {
    let managed = managed(name, &[]);
    let drives = managed.controller.volume("data", "raid6", 4);
    managed.controller.wait_optimal("data");
    managed.controller.softroc(&["drive", "offline", &drives[0]]).ok();
    let more: Vec<String> =
        (0..3).map(|number| managed.controller.folder.file(&format!("more{number}.img"))).collect();
    let mut add = vec!["drive", "add", "--create", common::DRIVE];
    add.extend(more.iter().map(String::as_str));
    managed.controller.softroc(&add).ok();
    managed.controller.softroc(&["spare", "add", &more[0], "--for", "data"]).ok();
    managed.account("ada", "administrator");
    managed
}

/// Runs a validator, which trusts any certificate, and returns its output.
fn judged(managed: &Managed, judges: &Path, program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(judges.join("venv/bin").join(program))
        .args(arguments)
        .current_dir(&managed.controller.folder.0)
        .env("PYTHONWARNINGS", "ignore")
        // Ansible needs UTF-8, and its own folder.
        .env("LC_ALL", "C.UTF-8")
        .env("ANSIBLE_HOME", managed.controller.folder.file("ansible"))
        // These would be trusted instead.
        .env_remove("REQUESTS_CA_BUNDLE")
        .env_remove("CURL_CA_BUNDLE")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The numbers in the last row of a table with these heads: passed, warned, failed.
fn counts(said: &str) -> [u64; 3] {
    let rows: Vec<&str> = said.lines().filter(|line| line.starts_with('|')).collect();
    let last = rows.last().unwrap_or_else(|| panic!("no table in {said}"));
    let mut numbers = last.split('|').filter_map(|cell| cell.trim().parse().ok());
    [0; 3].map(|_| numbers.next().unwrap_or_else(|| panic!("no numbers in {last}")))
}

#[test]
fn every_resource_follows_its_schema() {
    let Some(judges) = judges() else { return };
    let managed = served("redfish-schemas");
    subscribe(&managed, "http://127.0.0.1:1/nowhere");
    let csdl = judges.join("csdl");
    let to = ["-r", &managed.address, "-u", "ada", "-p", PASSWORD, "--authtype", "Session"];
    let schemas =
        ["--skipschema", "--schema_directory", csdl.to_str().expect("text"), "--logdir", "logs"];
    let (_, said) =
        judged(&managed, &judges, "rf_service_validator", &[&to[..], &schemas].concat());
    let [passed, warned, failed] = counts(&said);
    let bad: Vec<&str> =
        said.lines().filter(|line| line.contains("FAIL") || line.contains("WARN")).collect();
    assert!(
        passed > 2000 && warned == 0 && failed == 0,
        "{passed}, {warned}, {failed}: {bad:?}\n{said}"
    );
}

/// The protocol validator's report: the number of passed tests, and the rows of others.
fn protocol_report(managed: &Managed, judges: &Path) -> (usize, Vec<String>) {
    let to = [
        "-r",
        &managed.address,
        "-u",
        "ada",
        "-p",
        PASSWORD,
        "--no-cert-check",
        "--avoid-http-redirect",
    ];
    let report = ["--report-type", "tsv", "--report-dir", "."];
    let (_, said) = judged(managed, judges, "rf_protocol_validator", &[&to[..], &report].concat());
    let files = std::fs::read_dir(&managed.controller.folder.0).expect("a folder").flatten();
    let tsv = files
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|kind| kind == "tsv"));
    let tsv = tsv.unwrap_or_else(|| panic!("no report: {said}"));
    let rows = std::fs::read_to_string(&tsv).expect("a report");
    std::fs::remove_file(tsv).expect("it is ours");
    let is = |row: &&str, results: &[&str]| {
        row.split('\t').nth(4).is_some_and(|it| results.contains(&it))
    };
    let passed = rows.lines().filter(|row| is(row, &["PASS"])).count();
    (passed, rows.lines().filter(|row| is(row, &["FAIL", "WARN"])).map(str::to_owned).collect())
}

#[test]
fn the_protocol_is_followed() {
    let Some(judges) = judges() else { return };
    let managed = served("redfish-protocol");
    let (mut passed, mut wrong) = protocol_report(&managed, &judges);
    // It counts the bits of a token, and a random token may have too many of a kind; then the next
    // one is tested.
    if matches!(&wrong[..], [one] if one.contains("may not be sufficiently random")) {
        (passed, wrong) = protocol_report(&managed, &judges);
    }
    assert!(passed > 300 && wrong.is_empty(), "{passed}: {wrong:#?}");
}

#[test]
fn accounts_and_queries_serve_their_use_cases() {
    let Some(judges) = judges() else { return };
    let managed = served("redfish-cases");
    let to = ["-r", &managed.address, "-u", "ada", "-p", PASSWORD, "--report-dir", "reports"];
    let cases = ["--test-list", "AccountManagement", "QueryParameters"];
    let (good, said) =
        judged(&managed, &judges, "rf_use_case_checkers", &[&to[..], &cases].concat());
    let [passed, warned, failed] = counts(&said);
    assert!(good && passed >= 25 && warned == 0 && failed == 0, "{said}");
}

#[test]
fn clients_make_volumes_wait_for_tasks_and_delete_them() {
    let Some(judges) = judges() else { return };
    let managed = served("redfish-clients");
    // A check waits for an offline drive.
    managed
        .controller
        .softroc(&["drive", "online", &managed.controller.folder.file("d0.img")])
        .ok();
    managed.controller.wait_optimal("data");
    for script in ["redfish_client.py", "sushy_client.py"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges").join(script);
        let arguments = [path.to_str().expect("text"), &managed.address, "ada", PASSWORD];
        let (good, said) = judged(&managed, &judges, "python", &arguments);
        assert!(good && said.ends_with("done\n"), "{script}: {said}");
    }
    let events = managed.controller.softroc(&["events"]).ok();
    assert!(events.contains("ada (at 127.0.0.1:"), "{events}");
}

#[test]
fn events_come_as_they_happen_and_end_with_the_session() {
    if !have("curl") {
        return;
    }
    let managed = served("redfish-events");
    let token = managed.sign_in("ada");
    let mut stream = Command::new("curl")
        .args(["-skN", "-H", &format!("X-Auth-Token: {token}")])
        .arg(format!("{}/redfish/v1/EventService/SSE", managed.address))
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl runs");
    let mut output = stream.stdout.take().expect("its output");
    let mut seen = Vec::new();
    let mut until = |what: &str| {
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(what) {
            let read = output.read(&mut piece).expect("it is read");
            assert!(read > 0, "it ended before '{what}' came: {}", String::from_utf8_lossy(&seen));
            seen.extend(&piece[..read]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    };
    until(": connected");
    managed.controller.softroc(&["volume", "rename", "data", "home"]).ok();
    let text = until("SoftROC.1.0.VolumeRenamed");
    let line = text.lines().filter_map(|line| line.strip_prefix("data: ")).next().expect("data");
    let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(event["@odata.type"], "#Event.v1_13_0.Event");
    managed.controller.softroc(&["account", "set", "ada", "--disable"]).ok();
    stream.wait().expect("it ends when the account may be used no more");
}

/// Subscribes a destination to events; returns the address of the subscription.
fn subscribe(managed: &Managed, destination: &str) -> String {
    let body = format!(
        "{{\"Destination\":\"{destination}\",\"Protocol\":\"Redfish\",\"Context\":\"mine\"}}"
    );
    let post = format!("-u 'ada:{PASSWORD}' -H 'content-type: application/json' -d '{body}'");
    let (status, body) = managed.curl(&post, "/redfish/v1/EventService/Subscriptions");
    let made: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    assert_eq!((status.as_str(), &made["Context"]), ("201", &serde_json::json!("mine")), "{body}");
    made["@odata.id"].as_str().expect("an address").to_owned()
}

/// Accepts one request, responds, and returns its content.
fn listen(listener: &std::net::TcpListener, answer: &str) -> serde_json::Value {
    let (mut stream, _) = listener.accept().expect("a connection");
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(sent) = serde_json::from_str(body)
        {
            assert!(
                head.starts_with("POST /events HTTP/1.1") && head.contains("application/json"),
                "{head}"
            );
            stream
                .write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes())
                .expect("a request");
            return sent;
        }
        let read = stream.read(&mut piece).expect("it is sent");
        assert!(read > 0, "it ended in {text}");
        bytes.extend(&piece[..read]);
    }
}

#[test]
fn events_are_sent_to_who_subscribed_in_order_and_again_if_they_did_not_arrive() {
    if !have("curl") {
        return;
    }
    let mut managed = served("redfish-push");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let subscription = subscribe(&managed, &format!("http://127.0.0.1:{port}/events"));
    let rename = |managed: &Managed, from: &str, to: &str| {
        managed.controller.softroc(&["volume", "rename", from, to]).ok();
    };
    rename(&managed, "data", "home");
    let mut seen = Vec::new();
    let mut until = |listener: &std::net::TcpListener, text: &str| {
        loop {
            let refuses_first = seen.is_empty();
            let event = listen(listener, if refuses_first { "500 No" } else { "204 No Content" });
            assert_eq!(
                (&event["Context"], &event["@odata.type"]),
                (&"mine".into(), &"#Event.v1_13_0.Event".into())
            );
            let number: u64 =
                event["Id"].as_str().and_then(|id| id.parse().ok()).expect("a number");
            seen.push(number);
            let message = event["Events"][0]["Message"].as_str();
            if !refuses_first && message.is_some_and(|told| told.contains(text)) {
                return seen.clone();
            }
        }
    };
    let seen = until(&listener, "'data' was renamed to 'home'");
    assert_eq!(seen[0], seen[1], "the first one is sent again");
    assert!(seen[1..].windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    // It survives a restart, and ends when it is deleted.
    managed.controller.stop();
    managed.controller.start();
    managed.address = common::managed::address(&managed.controller.log());
    rename(&managed, "home", "data");
    until(&listener, "'home' was renamed to 'data'");
    assert_eq!(managed.curl(&format!("-X DELETE -u 'ada:{PASSWORD}'"), &subscription).0, "204");
    assert_eq!(managed.curl(&format!("-u 'ada:{PASSWORD}'"), &subscription).0, "404");
}

/// A drive is pulled: another file replaces its file.
fn pull(managed: &Managed, drive: &str) {
    let path = managed.controller.folder.file(drive);
    std::fs::rename(&path, format!("{path}.away")).expect("it is moved");
    std::fs::write(&path, b"").expect("an empty one");
}

/// DMTF's tools: one tests the listener, one subscribes it, and one reads the log afterwards.
#[test]
fn a_listener_that_dmtf_tries_and_subscribes_hears_of_a_pulled_drive() {
    let Some(judges) = judges() else { return };
    let managed = served("redfish-pulled");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to =
        format!("http://127.0.0.1:{}/events", listener.local_addr().expect("it has one").port());
    let tool = |name: &str| judges.join("venv/bin").join(name).to_str().expect("text").to_owned();
    let tried = std::thread::scope(|scope| {
        let tried = scope.spawn(|| listen(&listener, "204 No Content"));
        let (good, said) =
            judged(&managed, &judges, "python", &[&tool("rf_test_event_listener.py"), "-l", &to]);
        assert!(good && said.contains("Listener responded with 204"), "{said}");
        tried.join().expect("it heard")
    });
    assert_eq!(tried["Events"][0]["MessageId"], "Resource.1.3.TestMessage");
    let login = ["-r", managed.address.as_str(), "-u", "ada", "-p", PASSWORD];
    let subscriber = tool("rf_event_service.py");
    let subscribe =
        [&[subscriber.as_str()][..], &login, &["subscribe", "-dest", &to, "-c", "mine"]].concat();
    let (good, said) = judged(&managed, &judges, "python", &subscribe);
    assert!(good, "{said}");
    pull(&managed, "d1.img");
    let mut host = common::host::Host::connect(&managed.controller.nbd_socket(), "data")
        .expect("it is served");
    let sent = std::thread::scope(|scope| {
        let heard = scope.spawn(|| {
            loop {
                let event = listen(&listener, "204 No Content");
                if event["Events"][0]["MessageId"] == "SoftROC.1.0.DriveFailed" {
                    return event;
                }
            }
        });
        while !heard.is_finished() {
            host.write(0, &[7; 1 << 20]).expect("RAID 6 does without it");
        }
        heard.join().expect("it heard")
    });
    assert_eq!(
        (&sent["Context"], &sent["Events"][0]["MessageSeverity"]),
        (&"mine".into(), &"Warning".into()),
        "{sent}"
    );
    assert!(
        sent["Events"][0]["Message"].as_str().is_some_and(|text| text.contains("d1.img")),
        "{sent}"
    );
    let reader = tool("rf_logs.py");
    let logs = [&[reader.as_str()][..], &login, &["-m", "softroc", "--details"]].concat();
    let (good, said) = judged(&managed, &judges, "python", &logs);
    assert!(good && said.contains("d1.img") && said.contains("SoftROC.1.0.DriveFailed"), "{said}");
}

/// A program that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A TLS server with an untrusted certificate; returns its received data.
fn tls_server(managed: &Managed, name: &str) -> (Ended, u16, PathBuf) {
    let file = |kind: &str| managed.controller.folder.file(&format!("{name}.{kind}"));
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("it has one")
        .port();
    let make = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 \
            -addext subjectAltName=IP:127.0.0.1 -keyout {} -out {}",
        file("key"),
        file("pem")
    );
    common::run("openssl", &make.split(' ').collect::<Vec<_>>());
    let log = std::fs::File::create(file("log")).expect("a log");
    let child = Command::new("openssl")
        .args([
            "s_server",
            "-accept",
            &format!("127.0.0.1:{port}"),
            "-key",
            &file("key"),
            "-cert",
            &file("pem"),
        ])
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("openssl starts");
    common::until("it listens", || {
        std::fs::read_to_string(file("log")).unwrap_or_default().contains("ACCEPT")
    });
    (Ended(child), port, file("log").into())
}

#[test]
fn a_certificate_for_which_nobody_vouches_is_looked_at_where_that_is_asked() {
    if !have("curl") || !have("openssl") {
        return;
    }
    let managed = served("redfish-verify");
    let (_strict, strict, strict_log) = tls_server(&managed, "strict");
    let (_lax, lax, lax_log) = tls_server(&managed, "lax");
    let at = subscribe(&managed, &format!("https://127.0.0.1:{strict}/events"));
    subscribe(&managed, &format!("https://127.0.0.1:{lax}/events"));
    let patch = |body: &str| {
        managed.curl(
            &format!(
                "-X PATCH -u 'ada:{PASSWORD}' -H 'content-type: application/json' -d '{body}'"
            ),
            &at,
        )
    };
    let (status, body) = patch("{\"VerifyCertificate\": true}");
    let set: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    assert_eq!(
        (status.as_str(), &set["VerifyCertificate"], &set["Context"]),
        ("200", &true.into(), &"mine".into()),
        "{body}"
    );
    managed.controller.softroc(&["volume", "rename", "data", "home"]).ok();
    let said = |log: &Path| std::fs::read_to_string(log).unwrap_or_default();
    common::until("the event at the unverified destination", || {
        said(&lax_log).contains("SoftROC.1.0.VolumeRenamed")
    });
    common::until("the certificate is refused", || said(&strict_log).contains("alert"));
    assert!(!said(&strict_log).contains("POST"), "{}", said(&strict_log));
}

/// Ansible's modules, from PyPI.
#[test]
fn ansible_makes_reads_and_deletes_a_volume() {
    let Some(judges) = judges() else { return };
    if !judges.join("venv/bin/ansible-playbook").exists() {
        return not_installed("ansible");
    }
    let managed = served("redfish-ansible");
    managed
        .controller
        .softroc(&["drive", "online", &managed.controller.folder.file("d0.img")])
        .ok();
    managed.controller.wait_optimal("data");
    let (_, body) =
        managed.curl(&format!("-u 'ada:{PASSWORD}'"), "/redfish/v1/Chassis/host/Drives?$expand=.");
    let all: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let is_free = |drive: &&serde_json::Value| {
        drive["Name"]
            .as_str()
            .is_some_and(|name| name.ends_with("more1.img") || name.ends_with("more2.img"))
    };
    let members = all["Members"].as_array().unwrap_or_else(|| panic!("no drives: {body}"));
    let drives: Vec<&serde_json::Value> =
        members.iter().filter(is_free).map(|drive| &drive["@odata.id"]).collect();
    assert_eq!(drives.len(), 2, "{body}");
    let variables = serde_json::json!({
        "ansible_python_interpreter": judges.join("venv/bin/python"),
        "server": managed.address.trim_start_matches("https://"),
        "account": "ada",
        "password": PASSWORD,
        "drives": drives,
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/redfish_ansible.yml");
    let variables = variables.to_string();
    let arguments =
        ["-i", "localhost,", "-c", "local", "-e", &variables, path.to_str().expect("text")];
    let (good, said) = judged(&managed, &judges, "ansible-playbook", &arguments);
    assert!(good && said.contains("failed=0") && said.contains("ok=8"), "{said}");
    let events = managed.controller.softroc(&["events"]).ok();
    assert!(events.contains("made-by-ansible"), "{events}");
}

/// Randomly changed requests: after each, the next valid one succeeds.
#[test]
fn hostile_requests_are_answered_or_dropped() {
    let controller = common::Controller::new("redfish-hostile");
    let socket = format!("{}/control.sock", controller.state());
    let seeds = [
        "GET /redfish/v1/Systems/host/Storage/softroc/Volumes?$expand=. HTTP/1.1\r\n\
         Host: x\r\nOData-Version: 4.0\r\nConnection: close\r\n\r\n",
        "POST /redfish/v1/SessionService/Sessions HTTP/1.1\r\nHost: x\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: 38\r\n\r\n\
         {\"UserName\": \"admin\", \"Password\": \"x\"}",
        "PATCH /redfish/v1/AccountService/Accounts/admin HTTP/1.1\r\nHost: x\r\n\
         If-Match: W/\"1\"\r\nAuthorization: Basic eA==\r\nConnection: close\r\n\
         Content-Length: 18\r\n\r\n{\"Password\": \"xx\"}",
        "POST /v1/command HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: 26\r\n\r\n{\"command\": \"volume-list\"}",
        "PATCH /v1/accounts/a HTTP/1.1\r\nHost: x\r\nX-Auth-Token: 00\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut number = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for round in 0..1500 {
        let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
        for _ in 0..=number(4) {
            let at = number(bytes.len());
            match number(4) {
                0 => bytes[at] = number(256) as u8,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, b"\0%/\r\n{\"\xFF"[number(8)]),
                _ => {
                    let piece =
                        bytes[at..(at + number(32)).min(bytes.len())].repeat(1 + number(40));
                    bytes.splice(at..at, piece);
                }
            }
        }
        let mut stream = UnixStream::connect(&socket).expect("it is there still");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        // After an early rejection the rest cannot be sent.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{bytes:?}: {answer:?}");
    }
    assert!(controller.softroc(&["info"]).ok().contains("controller"));
    assert!(!controller.log().contains("panicked"), "{}", controller.log());
}
