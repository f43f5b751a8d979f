//! TLS and access rules of the NBD port, tested with libnbd's tools (GnuTLS) and certificates of
//! OpenSSL.

mod common;

use common::{Controller, Folder, have, pattern_file, run};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// The settings of openssl for each kind of certificate.
const KINDS: &str = "[req]\ndistinguished_name = dn\n[dn]\n\
    [ca]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = keyCertSign\n\
    [server]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost,IP:127.0.0.1\n\
    [alice]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:alice.example\n\
    [bob]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:bob.example\n\
    [mallory]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:alice.example\n";

/// An authority, a server, two clients, and a client of another authority with the name of the
/// first client.
struct Certificates(Folder);

impl Certificates {
    fn new() -> Certificates {
        let made = Certificates(Folder::new("certificates"));
        std::fs::write(made.0.file("kinds"), KINDS).expect("a file");
        made.make("ca", None);
        made.make("other", None);
        for name in ["server", "alice", "bob"] {
            made.make(name, Some("ca"));
        }
        made.make("mallory", Some("other"));
        made
    }

    /// A certificate, its key, and a client's folder in libnbd's format.
    fn make(&self, name: &str, by: Option<&str>) {
        let file = |name: &str, what: &str| self.0.file(&format!("{name}-{what}.pem"));
        let (key, cert, subject) = (file(name, "key"), file(name, "cert"), format!("/CN={name}"));
        let kind = if by.is_some() { name } else { "ca" };
        let config = self.0.file("kinds");
        let mut arguments = vec![
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "3650",
        ];
        arguments.extend([
            "-config",
            &config,
            "-extensions",
            kind,
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &cert,
        ]);
        let authority = by.map(|by| (file(by, "cert"), file(by, "key")));
        if let Some((cert, key)) = &authority {
            arguments.extend(["-CA", cert, "-CAkey", key]);
        }
        run("openssl", &arguments);
        let folder = self.0.file(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (from, to) in
            [(file("ca", "cert"), "ca-cert"), (cert, "client-cert"), (key, "client-key")]
        {
            std::fs::copy(from, format!("{folder}/{to}.pem")).expect("a copy");
        }
    }

    /// The folder of a client that trusts the server and has no certificate.
    fn nobody(&self) -> String {
        let folder = self.0.file("nobody");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(self.0.file("ca-cert.pem"), format!("{folder}/ca-cert.pem")).expect("a copy");
        folder
    }
}

/// A controller with two volumes that serves NBD with TLS at a free port, and that port.
fn serve(certificates: &Certificates, mode: &str, more: &[&str]) -> (Controller, u16) {
    let file = |name: &str| certificates.0.file(name);
    let (certificate, key) = (file("server-cert.pem"), file("server-key.pem"));
    let mut arguments = vec!["--nbd", "127.0.0.1:0", "--nbd-tls", mode];
    arguments.extend(["--nbd-certificate", &certificate, "--nbd-key", &key]);
    arguments.extend(more);
    let controller = Controller::with("nbd-tls", &arguments);
    let drives = controller.file_drives(4);
    controller.create("data", "raid1", &drives[..2]).ok();
    controller.create("secret", "raid1", &drives[2..]).ok();
    let addresses = std::fs::read_to_string(format!("{}/nbd.addresses", controller.state()))
        .expect("addresses");
    let first = addresses.lines().next().expect("an address");
    let port = first.rsplit_once(':').expect("a port").1.parse().expect("a number");
    (controller, port)
}

fn can_judge() -> bool {
    ["nbdinfo", "nbdcopy", "openssl", "cmp"].into_iter().all(have)
}

/// The address of a volume for a client with the certificates of `folder`.
fn uri(port: u16, volume: &str, folder: &str) -> String {
    format!("nbds://localhost:{port}/{volume}?tls-certificates={folder}")
}

/// The output of a program that must fail.
fn refused(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{program} {arguments:?} was let in");
    said
}

/// The output of nbdinfo for an export, as JSON.
fn info(uri: &str) -> serde_json::Value {
    let text = run("nbdinfo", &["--json", uri]);
    serde_json::from_str::<serde_json::Value>(&text).expect("nbdinfo prints JSON")
}

#[test]
fn where_tls_is_required_only_those_with_a_certificate_come_in() {
    if !can_judge() {
        return;
    }
    let certificates = Certificates::new();
    let socket = certificates.0.file("nbd.sock");
    let (controller, port) = serve(
        &certificates,
        "required",
        &["--nbd-clients", &certificates.0.file("ca-cert.pem"), "--nbd", &format!("unix:{socket}")],
    );
    // The local socket needs no certificate.
    let local = info(&format!("nbd+unix:///data?socket={socket}"));
    assert_eq!(local["TLS"], false, "{local}");
    let of = |who: &str| uri(port, "data", &certificates.0.file(who));
    let alice = of("alice");
    let seen = info(&alice);
    assert_eq!(seen["TLS"], true, "{seen}");
    assert_eq!(seen["exports"][0]["is_read_only"], false, "{seen}");

    let size = controller.capacity("data") as usize;
    let (image, back) = (controller.folder.file("in.img"), controller.folder.file("out.img"));
    pattern_file(&controller.folder.0.join("in.img"), 1, size);
    run("nbdcopy", &["--connections=4", "--flush", &image, &alice]);
    run("nbdcopy", &["--connections=4", &alice, &back]);
    run("cmp", &[&image, &back]);

    let plain = refused("nbdinfo", &[&format!("nbd://localhost:{port}/data")]);
    assert!(plain.contains("server replied with error to opt_go"), "{plain}");
    refused("nbdinfo", &["--list", &format!("nbd://localhost:{port}")]);
    refused("nbdinfo", &[&uri(port, "data", &certificates.nobody())]);
    refused("nbdinfo", &[&of("mallory")]);
    refused("nbdinfo", &[&uri(port, "nope", &certificates.0.file("alice"))]);
    // Pre-shared keys are not supported, so no client can connect with one.
    let keys = controller.folder.file("keys");
    std::fs::write(&keys, format!("alice:{}\n", "ab".repeat(32))).expect("a file");
    refused("nbdinfo", &[&format!("nbds://alice@localhost:{port}/data?tls-psk-file={keys}")]);
    assert_eq!(info(&alice)["TLS"], true);
}

#[test]
fn a_host_uses_what_the_rules_give_it_and_hears_of_nothing_else() {
    if !can_judge() {
        return;
    }
    let certificates = Certificates::new();
    let rules = certificates.0.file("rules");
    let text = "# the first rule that fits counts\ndata name:bob.example read-only\n\
        * name:alice.example read-write\n";
    std::fs::write(&rules, text).expect("a file");
    let clients = certificates.0.file("ca-cert.pem");
    let (controller, port) =
        serve(&certificates, "required", &["--nbd-clients", &clients, "--nbd-access", &rules]);
    let (alice, bob) = (certificates.0.file("alice"), certificates.0.file("bob"));
    for volume in ["data", "secret"] {
        assert_eq!(info(&uri(port, volume, &alice))["exports"][0]["is_read_only"], false);
    }
    assert_eq!(info(&uri(port, "data", &bob))["exports"][0]["is_read_only"], true);
    refused("nbdinfo", &[&uri(port, "secret", &bob)]);
    let list = |who: &str| run("nbdinfo", &["--list", "--json", &uri(port, "", who)]);
    assert!(list(&alice).contains("\"secret\""));
    let heard = list(&bob);
    assert!(heard.contains("\"data\"") && !heard.contains("secret"), "{heard}");
    // Read access includes no write access; bob reads the data of alice.
    let size = controller.capacity("data") as usize;
    let (image, back) = (controller.folder.file("in.img"), controller.folder.file("out.img"));
    pattern_file(&controller.folder.0.join("in.img"), 1, size);
    run("nbdcopy", &[&image, &uri(port, "data", &alice)]);
    refused("nbdcopy", &[&image, &uri(port, "data", &bob)]);
    run("nbdcopy", &[&uri(port, "data", &bob), &back]);
    run("cmp", &[&image, &back]);
}

#[test]
fn where_tls_is_allowed_each_host_chooses() {
    if !can_judge() {
        return;
    }
    let certificates = Certificates::new();
    let (_controller, port) = serve(&certificates, "allowed", &[]);
    assert_eq!(info(&uri(port, "data", &certificates.nobody()))["TLS"], true);
    assert_eq!(info(&format!("nbd://localhost:{port}/data"))["TLS"], false);
    // A server with a certificate of another authority is not ours: the client must detect it.
    let elsewhere = certificates.0.file("elsewhere");
    std::fs::create_dir_all(&elsewhere).expect("a folder");
    std::fs::copy(certificates.0.file("other-cert.pem"), format!("{elsewhere}/ca-cert.pem"))
        .expect("a copy");
    refused("nbdinfo", &[&uri(port, "data", &elsewhere)]);
}

/// A client that requests TLS, and then sends nothing more; if `at` is even, it does not even
/// request it.
fn half_open(port: u16, at: u32) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it connects");
    if at % 2 == 1 {
        // The flags, and STARTTLS. The server may have closed it for another client by now.
        let asked = stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0");
        let mut answer = [0; 18 + 20];
        if asked.and_then(|()| stream.read_exact(&mut answer)).is_ok() {
            assert_eq!(&answer[30..34], b"\0\0\0\x01", "it says yes to TLS");
        }
    }
    stream
}

#[test]
fn a_thousand_half_open_handshakes_keep_nobody_out() {
    if !can_judge() {
        return;
    }
    let certificates = Certificates::new();
    let (controller, port) =
        serve(&certificates, "required", &["--nbd-clients", &certificates.0.file("ca-cert.pem")]);
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: most.maximum, maximum: most.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, wanted)
        .expect("as many files as are allowed");
    let alice = uri(port, "data", &certificates.0.file("alice"));
    let mut silent = Vec::new();
    for at in 0..1000 {
        silent.push(half_open(port, at));
        if at % 100 == 99 {
            assert_eq!(info(&alice)["TLS"], true, "after {at}");
        }
    }
    // Few silent connections are kept, and none blocks others.
    let fds =
        std::fs::read_dir(format!("/proc/{}/fd", controller.pid())).expect("its files").count();
    assert!(fds < 200, "{fds} files are open");
    assert!(!controller.log().contains("connection rejected"), "{}", controller.log());
    assert_eq!(info(&alice)["TLS"], true);
}

#[test]
fn files_that_will_not_do_are_named() {
    let folder = Folder::new("unfit");
    let (nothing, text) = (folder.file("nothing.pem"), folder.file("text"));
    std::fs::write(&text, "data alice read-write\n").expect("a file");
    let serve = |more: &[&str]| {
        let state = folder.file("state");
        let mut arguments = vec!["serve", "--state", &state];
        arguments.extend(more);
        common::softroc(&arguments).refused()
    };
    let said = serve(&["--nbd-access", &text]);
    assert!(said.contains("line 1") && said.contains("name:"), "{said}");
    let said =
        serve(&["--nbd-tls", "required", "--nbd-certificate", &nothing, "--nbd-key", &nothing]);
    assert!(said.contains(&nothing), "{said}");
    let said = serve(&["--nbd-tls", "required", "--nbd-certificate", &text, "--nbd-key", &text]);
    assert!(said.contains(&text) && said.contains("--nbd-certificate"), "{said}");
    let said = serve(&["--nbd-tls", "required"]);
    assert!(said.contains("--nbd-certificate"), "{said}");
}
