//! Management over the network, roles, and limits on clients; tested with curl and openssl.

mod common;

use common::managed::{Managed, address, managed};
use common::{Controller, have, not_possible, softroc};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_role_may_what_the_matrix_says_and_events_name_who_did_it() {
    let managed = managed("manage-roles", &[]);
    managed.controller.volume("data", "raid1", 2);
    managed.controller.wait_optimal("data");
    let [looks, runs, may] =
        [("rita", "read-only"), ("otto", "operator"), ("ada", "administrator")]
            .map(|(name, role)| managed.account(name, role));
    for token in [&looks, &runs, &may] {
        assert_eq!(token.len(), 64, "{token}");
        managed.remote(token, &["volume", "show", "data"]).ok();
    }
    let check = ["task", "start", "check", "data"];
    let refused = managed.remote(&looks, &check).refused();
    assert!(
        refused.contains("account rita is read-only, and 'task-start' takes operator"),
        "{refused}"
    );
    managed.remote(&runs, &check).ok();
    let delete = ["volume", "delete", "data", "--yes"];
    for token in [&looks, &runs] {
        assert!(managed.remote(token, &delete).refused().contains("takes administrator"));
    }
    let denied = managed.remote(&runs, &["account", "list", "--json"]);
    assert!(denied.code == 3 && denied.stdout.contains("\"denied\""), "{}", denied.stdout);
    managed.remote(&may, &delete).ok();
    let events = managed.controller.softroc(&["events"]).ok();
    for expected in [
        "otto (at 127.0.0.1:",
        "ada (at 127.0.0.1:",
        "(uid 0, process ",
        "'rita' added, read-only",
        "account 'otto' signed in from 127.0.0.1:",
    ] {
        let own = format!("(uid {},", uid());
        assert!(
            events.contains(&expected.replace("(uid 0,", &own)),
            "{expected} is not in {events}"
        );
    }
    assert!(!events.contains("rita (at"), "{events}");
    let same = format!("account set rita --password-stdin --token {looks}");
    let to = format!("--server {} --fingerprint {}", managed.address, managed.fingerprint);
    let refused = managed.shell(&format!("echo 'secret of rita' | softroc {same} {to} 2>&1"));
    assert!(refused.contains("the new password equals the old one"), "{refused}");
    // A new password or role ends earlier sessions; no secret is left.
    managed.controller.softroc(&["account", "set", "otto", "--role", "read-only"]).ok();
    assert!(managed.remote(&runs, &["volume", "list"]).refused().contains("the session has ended"));
    let again = managed.sign_in("otto");
    assert!(
        managed.remote(&again, &["task", "start", "patrol"]).refused().contains("takes operator")
    );
    let left = format!("{}{}", managed.controller.log(), kept(&managed, "events.jsonl"));
    for secret in [&looks, &runs, &may, "secret of", "Password("] {
        assert!(
            !left.contains(secret) && !kept(&managed, "accounts.json").contains(secret),
            "{secret}"
        );
    }
}

fn uid() -> String {
    common::run("id", &["-u"]).trim().to_owned()
}

fn kept(managed: &Managed, file: &str) -> String {
    std::fs::read_to_string(format!("{}/{file}", managed.controller.state())).expect(file)
}

#[test]
fn wrong_passwords_lock_an_account_and_a_restart_keeps_the_accounts() {
    if !have("curl") {
        return;
    }
    let mut managed = managed("manage-lock", &[]);
    managed.account("ada", "operator");
    let (status, body) = managed.curl("-u 'ada:secret of ada'", "/v1/volumes");
    assert_eq!(
        (status.as_str(), body.starts_with("{\"reply\":\"volumes\"")),
        ("200", true),
        "{body}"
    );
    for _ in 0..5 {
        let (status, body) = managed.curl("-u 'ada:wrong one'", "/v1/volumes");
        assert_eq!((status.as_str(), body.contains("unauthenticated")), ("401", true), "{body}");
    }
    let (_, body) = managed.curl(
        "-d '{\"account\":\"ada\",\"password\":\"secret of ada\"}' -H 'content-type: \
            application/json'",
        "/v1/session",
    );
    assert!(body.contains("unauthenticated"), "it is locked: {body}");
    let list = managed.controller.softroc(&["account", "list"]).ok();
    assert!(list.contains("locked for"), "{list}");
    assert!(
        managed.controller.softroc(&["events"]).ok().contains("account 'ada' is locked for 300 s")
    );
    managed.controller.softroc(&["account", "set", "ada", "--unlock"]).ok();
    assert_eq!(managed.curl("-u 'ada:secret of ada'", "/v1/volumes").0, "200");
    managed.controller.stop();
    let first = managed.fingerprint.clone();
    managed.controller.start();
    let log = managed.controller.log();
    managed.address = address(&log);
    assert_eq!(
        log.matches(&first).count(),
        3,
        "the certificate stayed (a line each start, an event once): {log}"
    );
    let first = log.matches("the first account is 'admin'").count();
    assert!(
        first == 2 && !log.contains(&managed.password),
        "it is named at each start until it is changed: {log}"
    );
    assert_eq!(managed.curl("-u 'ada:secret of ada'", "/v1/volumes").0, "200");
}

/// Regression: the journal had the password of the first administrator.
#[test]
fn the_first_password_is_in_a_file_of_its_own_until_it_is_changed() {
    let managed = managed("manage-first", &[]);
    let file = format!("{}/first-password", managed.controller.state());
    let mode = std::fs::metadata(&file).expect("its file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for this user alone");
    let log = managed.controller.log();
    assert!(log.contains("/first-password") && !log.contains(&managed.password), "{log}");
    assert!(!kept(&managed, "events.jsonl").contains(&managed.password));
    let to = format!("--server {} --fingerprint {}", managed.address, managed.fingerprint);
    let token = managed.shell(&format!("softroc account login admin {to} < {file}"));
    assert!(
        managed
            .remote(token.trim(), &["volume", "list"])
            .refused()
            .contains("must be changed first")
    );
    let set = format!("account set admin --password-stdin --token {} {to}", token.trim());
    managed.shell(&format!("echo 'a better password' | softroc {set}"));
    managed.remote(token.trim(), &["volume", "list"]).ok();
    assert!(!std::path::Path::new(&file).exists(), "it is of no use any more");
}

/// Regression: a client with 70 slow connections blocked all others.
#[test]
fn silent_connections_keep_nobody_out() {
    if !have("curl") {
        return;
    }
    let managed = managed("manage-silent", &[]);
    let token = managed.account("ada", "read-only");
    let to = managed.address.trim_start_matches("https://");
    let silent: Vec<_> =
        (0..300).map(|_| std::net::TcpStream::connect(to).expect("it listens")).collect();
    managed.remote(&token, &["volume", "list"]).ok();
    assert_eq!(managed.curl(&format!("-H 'X-Auth-Token: {token}'"), "/v1/volumes").0, "200");
    drop(silent);
}

fn every_reply_has_the_headers_for_browsers(managed: &Managed) {
    for path in ["/v1/info", "/nowhere", "/console/sign-in", "/redfish/v1/"] {
        let head = managed.curl("-D - -o /dev/null", path).1;
        for header in [
            "strict-transport-security: max-age=31536000\r\n",
            "x-content-type-options: nosniff\r\n",
            "x-frame-options: DENY\r\n",
            "frame-ancestors 'none'",
            "referrer-policy: ",
        ] {
            assert!(head.contains(header), "{path} without {header}: {head}");
        }
    }
}

#[test]
fn nobody_gets_in_without_tls_or_an_account_and_who_is_silent_is_in_nobodys_way() {
    if !have("curl") {
        return;
    }
    let managed = managed("manage-tls", &[]);
    let silent: Vec<std::net::TcpStream> = (0..20)
        .map(|_| {
            std::net::TcpStream::connect(managed.address.trim_start_matches("https://"))
                .expect("a place")
        })
        .collect();
    for path in ["/v1/info", "/v1/volumes", "/metrics", "/v1/accounts", "/nowhere", "/v1/command"] {
        let (status, body) = managed.curl("", path);
        assert!(
            status == "401" && body.contains("an account is required"),
            "{path}: {status} {body}"
        );
    }
    let asked = managed.curl("-D - -o /dev/null", "/v1/info").1;
    assert!(asked.contains("www-authenticate: Basic realm=\"SoftROC\""), "{asked}");
    every_reply_has_the_headers_for_browsers(&managed);
    for wrong in
        ["-H 'X-Auth-Token: 0'", "-H 'Authorization: Bearer x'", "-u admin:", "-u ':'", "-u é:é"]
    {
        assert_eq!(managed.curl(wrong, "/v1/info").0, "401", "{wrong}");
    }
    let plain = managed.address.replace("https", "http");
    assert_eq!(
        managed.shell(&format!("curl -s {plain}/v1/info")),
        "",
        "plain HTTP is not answered"
    );
    let other = managed.fingerprint.replace(|c: char| c != ':', "0");
    let server = ["volume", "list", "--server", &managed.address];
    let with = |more: &[&str]| softroc(&[&server[..], more].concat());
    assert!(
        with(&["--fingerprint", &other])
            .refused()
            .contains("the server has a different certificate")
    );
    assert!(with(&["--fingerprint", "12"]).refused().contains("not a fingerprint"));
    assert!(with(&[]).refused().contains("--fingerprint"));
    assert!(with(&["--ca", "/dev/null"]).refused().contains("no certificate found"));
    let certificate = format!("{}/manage-certificate.pem", managed.controller.state());
    assert!(
        with(&["--ca", &certificate]).refused().contains("an account is required"),
        "the file is trusted"
    );
    drop(silent);
    for file in ["manage-key.pem", "accounts.json"] {
        let of = std::fs::metadata(format!("{}/{file}", managed.controller.state())).expect(file);
        assert_eq!(of.permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_certificate_of_ones_own_is_served() {
    if !have("openssl") {
        return;
    }
    let folder = common::Folder::new("manage-certificate");
    let (certificate, key) = (folder.file("c.pem"), folder.file("k.pem"));
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let mut make = vec![
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-out",
        &certificate,
        "-keyout",
        &key,
    ];
    make.extend(subject);
    common::run("openssl", &make);
    let managed =
        managed("manage-own", &["--manage-certificate", &certificate, "--manage-key", &key]);
    let told =
        common::run("openssl", &["x509", "-noout", "-fingerprint", "-sha256", "-in", &certificate]);
    assert!(told.trim().ends_with(&managed.fingerprint), "{told}: {}", managed.fingerprint);
    let token = managed.account("ada", "read-only");
    let address = managed.address.replace("127.0.0.1", "localhost");
    let list = ["volume", "list", "--server", &address, "--ca", &certificate, "--token", &token];
    softroc(&list).ok();
    let wrong = Controller::unstarted("manage-wrong");
    let serve = [
        "serve",
        "--state",
        &wrong.state(),
        "--manage",
        "127.0.0.1:0",
        "--manage-key",
        &certificate,
    ];
    let refused = softroc(&[&serve[..], &["--manage-certificate", &key]].concat()).refused();
    assert!(refused.contains("as PEM"), "{refused}");
}

#[test]
fn users_of_the_control_socket_are_what_the_kernel_says() {
    if uid() != "0" || !have("setpriv") {
        return not_possible("roles of other users", "only root can switch users");
    }
    const GROUP: &str = "54321";
    let group = ["--socket-group", GROUP];
    for (arguments, own_group, role) in [
        (&[&group[..], &["--socket-mode", "0660"]].concat(), GROUP, "operator"),
        (&[&group[..], &["--socket-role", "administrator"]].concat(), GROUP, "administrator"),
        (&[&group[..], &["--socket-mode", "0666"]].concat(), "54322", "read-only"),
    ] {
        let controller = Controller::with("manage-users", arguments);
        let socket = format!("{}/control.sock", controller.state());
        std::fs::set_permissions(controller.state(), std::fs::Permissions::from_mode(0o755))
            .expect("it is ours");
        let curl = |command: &str| {
            let user = ["--reuid=54321", "--clear-groups", &format!("--regid={own_group}")];
            let output = Command::new("setpriv")
                .args(user)
                .args(["curl", "-s", "--unix-socket", &socket, "http://localhost/v1/command"])
                .args(["-H", "content-type: application/json", "-d", command])
                .output()
                .expect("setpriv runs");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let may = |command: &str| !curl(command).contains("\"denied\"");
        assert!(curl("{\"command\":\"volume-list\"}").contains("volumes"), "{role}");
        let patrol = "{\"command\":\"task-start\",\"what\":\"patrol\"}";
        assert_eq!(may(patrol), role != "read-only", "{role}");
        let add = "{\"command\":\"drive-add\",\"drive\":\"mem:64M\"}";
        assert_eq!(may(add), role == "administrator", "{role}: {}", curl(add));
    }
}
