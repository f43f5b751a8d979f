//! Other users of this computer: they cannot read or change anything without permission, and
//! obstacles created by them are reported by name. Tests with a second user run as root only.

mod common;

use common::{Controller, Folder, not_possible, run, softroc, until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// `nobody`.
const OTHER: u32 = 65_534;
/// Set for the process that serves a socket as another user.
const SERVED: &str = "SOFTROC_TEST_SOCKET";

fn uid() -> String {
    run("id", &["-u"]).trim().to_owned()
}

fn mode(path: &str) -> u32 {
    std::fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{path}: {error}")).mode()
        & 0o7777
}

fn give_away(path: impl AsRef<Path>) {
    lchown(path, Some(OTHER), Some(OTHER)).expect("root gives files away");
}

#[track_caller]
fn names(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing: {text}");
    }
}

#[test]
fn folders_files_and_sockets_are_their_users_alone() {
    let controller = Controller::new("alone");
    controller.volume("v", "raid1", 2);
    let state = controller.state();
    assert_eq!(mode(&state), 0o700);
    let mut seen = 0;
    for entry in std::fs::read_dir(&state).expect("the state folder").flatten() {
        let metadata = entry.metadata().expect("it is there");
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.mode() & 0o7777, wanted, "{}", entry.path().display());
        seen += 1;
    }
    assert!(seen > 5, "{seen} files");
    for name in ["control.sock", "nbd.sock", "nbd.addresses", "drives.toml", "lock"] {
        assert_eq!(mode(&format!("{state}/{name}")), 0o600, "{name}");
    }
}

#[test]
fn the_sockets_of_nbd_are_open_to_whom_the_options_say() {
    let of = |name: &str, arguments: &[&str]| {
        let controller = Controller::with(name, arguments);
        let found = std::fs::symlink_metadata(controller.nbd_socket()).expect("the socket");
        assert_eq!(
            mode(&format!("{}/control.sock", controller.state())),
            0o600,
            "it has its own options"
        );
        (found.mode() & 0o7777, found.gid())
    };
    let own = run("id", &["-g"]).trim().to_owned();
    let number: u32 = own.parse().expect("a number");
    assert_eq!(of("nbd-mode", &["--nbd-socket-mode", "0622"]), (0o622, number));
    assert_eq!(of("nbd-group", &["--nbd-socket-group", &own]), (0o660, number));
    assert_eq!(
        of("nbd-both", &["--nbd-socket-group", &own, "--nbd-socket-mode", "0640"]),
        (0o640, number)
    );
    // The control socket's options may give all users read access, but nobody data access.
    let looked_at = Controller::with("nbd-not", &["--socket-mode", "0666", "--socket-group", &own]);
    assert_eq!(mode(&looked_at.nbd_socket()), 0o600);
    let folder = Folder::new("nbd-wrong");
    let refused = |arguments: &[&str]| {
        softroc(&[&["serve", "--state", &folder.file("state")], arguments].concat())
    };
    let answer = refused(&["--nbd-socket-group", "nobody-has-such-a-group"]);
    assert_eq!(answer.code, 4, "{}", answer.stderr);
    names(&answer.stderr, &["'nobody-has-such-a-group' in /etc/group", "groupadd"]);
    let answer = refused(&["--nbd-socket-mode", "rw"]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    names(&answer.stderr, &["'rw' is not a mode", "0660"]);
}

#[test]
fn links_in_the_state_folder_are_not_followed() {
    let mut controller = Controller::new("links");
    controller.volume("v", "raid1", 2);
    controller.stop();
    let (state, outside) = (controller.state(), controller.folder.file("outside"));
    std::fs::create_dir(&outside).expect("a folder");
    let linked = ["drives.toml", "events.jsonl", "nbd.addresses", "history.db", "numbers.toml"];
    for name in linked {
        let (file, target) = (format!("{state}/{name}"), format!("{outside}/{name}"));
        std::fs::write(&target, format!("precious {name}")).expect("a file");
        // Not every controller has created each file by now.
        let _ = std::fs::remove_file(&file);
        symlink(&target, &file).expect("a link");
    }
    controller.start();
    controller.volume_again();
    let log = controller.log();
    names(&log, &["drives.toml", "is a symbolic link, which is not followed", "unreadable-1"]);
    controller.stop();
    for name in linked {
        let content = std::fs::read_to_string(format!("{outside}/{name}")).expect("it stays");
        assert_eq!(content, format!("precious {name}"));
    }
    let aside = std::fs::read_link(format!("{state}/drives.toml.unreadable-1"))
        .expect("the link itself is kept");
    assert_eq!(aside.to_str(), Some(format!("{outside}/drives.toml").as_str()));
    // The lock is the first file that a controller opens.
    std::fs::remove_file(format!("{state}/lock")).expect("it was there");
    symlink(format!("{outside}/lock"), format!("{state}/lock")).expect("a link");
    let refused = softroc(&["serve", "--state", &state]).refused();
    names(&refused, &["/lock", "is a symbolic link, which is not followed", "rm "]);
    assert!(!Path::new(&format!("{outside}/lock")).exists());
}

impl Controller {
    /// The controller still works.
    fn volume_again(&self) {
        let more: Vec<String> =
            (0..2).map(|at| self.folder.file(&format!("more{at}.img"))).collect();
        self.softroc(&["drive", "add", "--create", common::DRIVE, &more[0], &more[1]]).ok();
        self.create("again", "raid1", &more).ok();
    }
}

#[test]
fn a_state_folder_that_others_can_change_is_refused() {
    let folder = Folder::new("open-state");
    let state = folder.file("state");
    std::fs::create_dir(&state).expect("a folder");
    let refused = || {
        let answer = softroc(&["serve", "--state", &state]);
        assert_eq!(answer.code, 3, "{}", answer.stderr);
        answer.stderr
    };
    for open in [0o770, 0o707] {
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(open))
            .expect("it is ours");
        let text = format!("mode 0{open:o}");
        names(
            &refused(),
            &[&state, "can be written by other users", &text, "chmod go-w", "--state DIR"],
        );
    }
    if uid() != "0" {
        return not_possible("a state folder of another user", "only root can give one away");
    }
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    give_away(&state);
    names(
        &refused(),
        &[&state, "belongs to another user (uid 65534; expected uid 0 or root)", "chown -R 0"],
    );
    assert_eq!(
        std::fs::read_dir(&state).expect("it is there").count(),
        0,
        "nothing was made in it"
    );
}

/// A helper, not a test: a process of another user that accepts connections at a socket, and stays
/// silent.
#[test]
fn serve_as_another_user() {
    let Ok(path) = std::env::var(SERVED) else { return };
    let listener = UnixListener::bind(path).expect("a socket");
    for stream in listener.incoming() {
        drop(stream);
    }
}

#[test]
fn the_control_socket_of_another_user_is_spoken_to_only_by_name() {
    if uid() != "0" {
        return not_possible("the control socket of another user", "only root can switch users");
    }
    let folder = Folder::new("foreign-socket");
    let state = folder.file("softroc-data");
    std::fs::create_dir(&state).expect("a folder");
    give_away(&state);
    let socket = format!("{state}/control.sock");
    // A path that others can reach and execute: /root is closed to them.
    let program = folder.file("server");
    std::fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy");
    let mut server = Command::new(&program);
    server.args(["--exact", "serve_as_another_user"]).env(SERVED, &socket).current_dir("/");
    let mut server = server.uid(OTHER).gid(OTHER).stdout(Stdio::null()).spawn().expect("it starts");
    until("it serves", || UnixStream::connect(&socket).is_ok());
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
        let command = command.args(arguments).current_dir(&folder.0).env_remove("SOFTROC_STATE");
        let output = command.output().expect("softroc runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (owner, verb) in [(OTHER, "belongs to"), (0, "is served by")] {
        lchown(&socket, Some(owner), None).expect("root may");
        for place in [&[][..], &["--state", &state]] {
            for command in [
                &["volume", "list"][..],
                &["health"],
                &["storcli", "/c0", "show"],
                &["events", "--follow"],
            ] {
                let (code, said) = ask(&[command, place].concat());
                assert_ne!(code, Some(0), "{command:?}");
                if command[0] != "storcli" {
                    assert_eq!(code, Some(3), "{command:?}: {said}");
                    let user = format!("{verb} another user");
                    names(
                        &said,
                        &[
                            "/control.sock ",
                            &user,
                            "uid 65534; expected uid 0 or root",
                            "'--socket ",
                        ],
                    );
                }
            }
        }
        // A named socket is used; this one is silent.
        let (code, said) = ask(&["volume", "list", "--socket", &socket]);
        assert!(code == Some(1) && said.contains("failed"), "{code:?}: {said}");
    }
    server.kill().expect("it runs");
    server.wait().expect("it ends");
}

#[test]
fn memory_of_the_cache_is_not_taken_over_from_another_user() {
    if uid() != "0" {
        return not_possible("memory of another user", "only root can give a folder away");
    }
    let Some(memory) = Folder::in_memory("theirs") else {
        return not_possible("memory of another user", "/dev/shm is not on tmpfs");
    };
    let base = memory.file("base");
    std::fs::create_dir(&base).expect("a folder");
    give_away(&base);
    let mut controller = Controller::with("theirs", &["--cache-folder", &base]);
    let theirs = format!("{base} belongs to another user (uid 65534; expected uid 0 or root)");
    names(&controller.log(), &["write-through", &theirs, "--cache-folder DIR"]);
    let drives = controller.file_drives(2);
    let create =
        ["volume", "create", "v", "--level", "raid1", "--write-mode", "write-back", "--drives"];
    controller.softroc(&[&create[..], &[drives[0].as_str(), drives[1].as_str()]].concat()).ok();
    let shown = controller.softroc(&["volume", "show", "v"]).ok();
    names(&shown, &["write-through (configured: write-back)", &theirs]);
    assert_eq!(std::fs::read_dir(&base).expect("it is there").count(), 0, "nothing was made in it");
    controller.stop();
    // After its return it is used, and its new files belong to this user only.
    lchown(&base, Some(0), Some(0)).expect("root may");
    std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    controller.start();
    until("it is write-back", || {
        controller.softroc(&["volume", "show", "v"]).ok().contains("cache     write-back,")
            && std::fs::read_dir(&base).is_ok_and(|mut folders| folders.next().is_some())
    });
    let own = std::fs::read_dir(&base)
        .expect("it is there")
        .flatten()
        .next()
        .expect("one of its own")
        .path();
    assert_eq!(
        (mode(own.to_str().expect("text")), mode(&format!("{}/cache.kept", own.display()))),
        (0o700, 0o600)
    );
}

/// An NBD client that sends exactly the given bytes.
struct Raw<S>(S);

impl<S: Read + Write> Raw<S> {
    fn new(mut stream: S) -> Raw<S> {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        stream.write_all(&3u32.to_be_bytes()).expect("it listens");
        Raw(stream)
    }

    /// Requests an option; returns the types and contents of its replies.
    fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut ask = b"IHAVEOPT".to_vec();
        ask.extend(option.to_be_bytes());
        ask.extend((data.len() as u32).to_be_bytes());
        ask.extend(data);
        self.0.write_all(&ask).expect("it listens");
        let mut replies = Vec::new();
        loop {
            let mut head = [0; 20];
            self.0.read_exact(&mut head).expect("an answer");
            let word =
                |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            let (kind, len) = (word(12), word(16));
            let mut data = vec![0; len as usize];
            self.0.read_exact(&mut data).expect("the rest of it");
            replies.push((kind, data));
            if kind == 1 || kind >= 1 << 31 {
                return replies;
            }
        }
    }

    /// The response of `NBD_OPT_INFO` for an export: its flags, or the error.
    fn info(&mut self, name: &[u8]) -> Result<u16, (u32, Vec<u8>)> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend(name);
        data.extend([0, 0]);
        let replies = self.option(6, &data);
        let info = replies.iter().find(|(kind, data)| *kind == 3 && data.starts_with(&[0, 0]));
        match info {
            Some((_, data)) => Ok(u16::from_be_bytes([data[10], data[11]])),
            None => Err(replies.last().expect("an answer").clone()),
        }
    }

    fn list(&mut self) -> Vec<String> {
        let replies = self.option(3, b"");
        let name = |data: &[u8]| {
            let len = u32::from_be_bytes(data[..4].try_into().expect("four bytes")) as usize;
            String::from_utf8_lossy(&data[4..4 + len]).into_owned()
        };
        let mut names: Vec<String> =
            replies.iter().filter(|(kind, _)| *kind == 2).map(|(_, data)| name(data)).collect();
        names.sort();
        names
    }

    /// Whether `NBD_OPT_EXPORT_NAME`, which has no error reply, ends the connection.
    fn export_name_is_refused(mut self, name: &[u8]) -> bool {
        let mut ask = b"IHAVEOPT\0\0\0\x01".to_vec();
        ask.extend((name.len() as u32).to_be_bytes());
        ask.extend(name);
        self.0.write_all(&ask).expect("it listens");
        // Unread data may cause a reset.
        !self.0.read(&mut [0; 10]).is_ok_and(|count| count > 0)
    }
}

/// Names without an export that the client may use, most of them similar to one.
const ABSENT: [&[u8]; 12] = [
    b"priv",
    b"PUB",
    b"pub\0priv",
    b"pub\0",
    b"\0",
    b"../priv",
    b"priv ",
    b" pub",
    b"pub ",
    "prıv".as_bytes(),
    b"pub\n",
    b"*",
];

/// Exports without permission look absent to a client, and names are compared as bytes.
#[test]
fn a_host_hears_of_what_the_rules_give_it_and_of_nothing_else() {
    const READ_ONLY: u16 = 2;
    let folder = Folder::new("access-rules");
    let (rules, own) = (folder.file("rules"), uid());
    let text = format!(
        "pub uid:{own} read-write\nro uid:{own} read-only\npriv uid:4242 read-write\n\
         ro address:127.0.0.1 read-only\n"
    );
    std::fs::write(&rules, text).expect("a file");
    let unix = folder.file("nbd.sock");
    let both = ["--nbd", &format!("unix:{unix}"), "--nbd", "127.0.0.1:0", "--nbd-access", &rules];
    let controller = Controller::with("access-rules", &both);
    for name in ["pub", "ro", "priv"] {
        let drives: Vec<String> =
            (0..2).map(|at| controller.folder.file(&format!("{name}{at}.img"))).collect();
        controller
            .softroc(&["drive", "add", "--create", common::DRIVE, &drives[0], &drives[1]])
            .ok();
        controller.create(name, "raid1", &drives).ok();
    }
    let addresses =
        std::fs::read_to_string(format!("{}/nbd.addresses", controller.state())).expect("a file");
    let tcp = addresses.lines().find(|line| line.starts_with("127.0.0.1:")).expect("an address");
    let at_unix = || Raw::new(UnixStream::connect(&unix).expect("it listens"));
    let at_tcp = || Raw::new(TcpStream::connect(tcp).expect("it listens"));
    assert_eq!(at_unix().list(), ["pub", "ro"]);
    assert_eq!(at_tcp().list(), ["ro"], "no user is known there");
    let flags = |info: Result<u16, _>| info.map(|flags| flags & READ_ONLY).ok();
    assert_eq!(
        (flags(at_unix().info(b"pub")), flags(at_unix().info(b"ro"))),
        (Some(0), Some(READ_ONLY))
    );
    assert_eq!(
        (flags(at_tcp().info(b"pub")), flags(at_tcp().info(b"ro"))),
        (None, Some(READ_ONLY))
    );
    // If a client may use only one export, the empty name selects it; with two, none.
    assert_eq!((flags(at_tcp().info(b"")), flags(at_unix().info(b""))), (Some(READ_ONLY), None));
    for name in ABSENT {
        let (unix, tcp) = (at_unix().info(name), at_tcp().info(name));
        let absent = at_unix().info(b"absent").expect_err("there is none").0;
        for (way, info) in [("unix", unix), ("tcp", tcp)] {
            let (kind, _) = info.expect_err("there is none of that name");
            // A NUL may violate the protocol; a name that this client may not use looks absent.
            assert!(kind == absent || name.contains(&0), "{way} {name:?}: {kind:x}");
        }
        assert!(at_unix().export_name_is_refused(name), "{name:?}");
        assert!(at_tcp().export_name_is_refused(name), "{name:?}");
    }
}
