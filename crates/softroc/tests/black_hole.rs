//! A controller with a remote drive whose packets are dropped, a device whose `open()` and reads do
//! not return, and a UPS host that does not answer. It accepts commands, serves hosts, lets a spare
//! take over, and stops.
//!
//! Each time is printed beside its limit (control socket 1 s, commands 3 s, take-over 10 s). The
//! test allows a multiple of the limit, as other tests run at the same time.

mod common;

use common::host::Host;
use common::{Controller, Folder, have, not_possible, pattern, run, softroc, until};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The allowed multiple of a limit, since other tests run concurrently.
const SLACK: u32 = 10;

/// An address that drops packets: the queue of its listener is full.
struct BlackHole {
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    fn at(address: SocketAddr) -> BlackHole {
        let listener = TcpListener::bind(address).expect("the port is free");
        rustix::net::listen(&listener, 0).expect("it listens already");
        let mut waiting = Vec::new();
        loop {
            match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
                Ok(stream) => waiting.push(stream),
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => panic!("{error}"),
            }
        }
        BlackHole { _listener: listener, _waiting: waiting }
    }
}

/// A free port of this computer.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number")
}

fn signal(name: &str, child: &Child) {
    run("kill", &[&format!("-{name}"), &child.id().to_string()]);
}

/// A file on a FUSE file system that can be stopped: operations on the file do not return then.
struct Hanging {
    folder: Folder,
    running: Vec<Child>,
}

impl Hanging {
    /// `None`, with a printed reason: this computer cannot mount it.
    fn start() -> Option<Hanging> {
        if !["nbdkit", "nbdfuse", "fusermount3"].into_iter().all(have) {
            return None;
        }
        if !std::path::Path::new("/dev/fuse").exists() {
            not_possible("a device that hangs", "there is no /dev/fuse");
            return None;
        }
        let folder = Folder::new("hanging");
        let socket = folder.file("nbd.sock");
        let mut hanging = Hanging { folder, running: Vec::new() };
        hanging.begin("nbdkit", &["-f", "-U", &socket, "memory", "64M"]);
        until("nbdkit listens", || std::path::Path::new(&socket).exists());
        let mounted = hanging.folder.file("mounted");
        std::fs::create_dir(&mounted).expect("a folder");
        let file = hanging.path();
        hanging.begin("nbdfuse", &[&file, &format!("nbd+unix:///?socket={socket}")]);
        let mut ended = false;
        until("the file is there", || {
            ended = hanging.running[1].try_wait().is_ok_and(|status| status.is_some());
            ended || std::path::Path::new(&file).exists()
        });
        if ended {
            not_possible("a device that hangs", "nbdfuse cannot mount here");
            return None;
        }
        Some(hanging)
    }

    fn begin(&mut self, program: &str, arguments: &[&str]) {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.running.push(child.expect("it starts"));
    }

    fn path(&self) -> String {
        self.folder.file("mounted/disk")
    }

    /// Operations on the file hang from now on.
    fn hang(&self) {
        self.running.iter().rev().for_each(|child| signal("STOP", child));
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // A server may have ended, and the file may already be unmounted.
        for child in &self.running {
            let _ = Command::new("kill").args(["-CONT", &child.id().to_string()]).status();
        }
        let _ =
            Command::new("fusermount3").args(["-u", "-z", &self.folder.file("mounted")]).status();
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a step and checks its time against its limit.
fn within<T>(what: &str, promised: Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    let took = begun.elapsed();
    println!("{what}: {:.2} s, promised {} s", took.as_secs_f64(), promised.as_secs());
    assert!(took < promised * SLACK, "{what} took {took:?}");
    result
}

/// The bytes written to each volume.
const LEN: usize = 1 << 20;

/// The time limit of a command.
const COMMAND: Duration = Duration::from_secs(3);

/// Creates a volume and writes the pattern that `reads_back` expects.
fn written(controller: &Controller, name: &str, level: &str, drives: &[&String]) {
    let drives: Vec<String> = drives.iter().map(ToString::to_string).collect();
    controller.create(name, level, &drives).ok();
    controller.wait_synced(name);
    let mut host = Host::connect(&controller.nbd_socket(), name).expect("it is served");
    host.write(0, &pattern(5, LEN)).expect("it is written");
    host.flush().expect("it is flushed");
}

fn reads_back(controller: &Controller, name: &str) {
    let mut host = Host::connect(&controller.nbd_socket(), name).expect("it is served");
    assert!(host.read(0, LEN).expect("it is read") == pattern(5, LEN), "{name}");
}

fn take_over(controller: &Controller, failing: &str, spare: &str) {
    within("drive fail", COMMAND, || controller.softroc(&["drive", "fail", failing, "--yes"])).ok();
    within("the spare takes over", Duration::from_secs(10), || {
        until("the spare takes over", || {
            let drives = controller.json(&["drive", "list"]);
            let drives = drives["drives"].as_array().expect("drives");
            drives.iter().any(|drive| {
                drive["name"] == spare
                    && ["rebuilding", "online"].iter().any(|state| drive["state"] == *state)
            })
        });
    });
}

fn every_command_answers(controller: &Controller, remote: &str, device: &str, other: &str) {
    for words in [
        &["drive", "list"][..],
        &["volume", "list"],
        &["volume", "show", "remote"],
        &["health"],
        &["events"],
        &["volume", "start", "device"],
        &["drive", "show", device],
        &["drive", "add", other],
        &["drive", "online", remote],
        &["foreign", "list"],
        &["task", "list"],
    ] {
        let answer = within(&words.join(" "), COMMAND, || controller.softroc(words));
        println!(
            "  {}",
            answer.stdout.lines().chain(answer.stderr.lines()).next().unwrap_or_default()
        );
    }
}

#[test]
fn what_hangs_for_ever_holds_up_nothing_else() {
    let Some(hanging) = Hanging::start() else { return };
    let (address, ups) = (free_port(), free_port());
    let mut server = Command::new("nbdkit")
        .args(["-f", "-i", "127.0.0.1", "-p", &address.port().to_string(), "memory", "64M"])
        .stdin(Stdio::null())
        .spawn()
        .expect("nbdkit starts");
    until("nbdkit listens", || TcpStream::connect(address).is_ok());
    let mut controller = Controller::new("black-hole");
    let (remote, device) = (format!("nbd://{address}/"), hanging.path());
    let files = controller.file_drives_of("64M", 6);
    let [a, b, c, d, e, spare] = &files[..] else { panic!("{files:?}") };
    controller.softroc(&["drive", "add", &remote, &device]).ok();
    written(&controller, "remote", "raid1", &[a, &remote]);
    written(&controller, "device", "raid1", &[b, &device]);
    written(&controller, "local", "raid5", &[c, d, e]);
    controller.softroc(&["spare", "add", spare]).ok();
    controller.kill_9();
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    let (_remote, _ups) = (BlackHole::at(address), BlackHole::at(ups));
    hanging.hang();

    controller.arguments.extend(["--ups".to_owned(), format!("rack@{ups}")]);
    within("the control socket answers", Duration::from_secs(1), || controller.start());
    within("the local volume is served", Duration::from_secs(1), || {
        until("the local volume is served", || controller.show("local")["state"] == "optimal");
    });
    reads_back(&controller, "local");
    take_over(&controller, d, spare);
    every_command_answers(&controller, &remote, &device, &format!("nbd://{address}/another"));
    // The hanging half might have newer data: an operator decides to start without it.
    for name in ["remote", "device"] {
        until("it is served", || {
            controller.softroc(&["volume", "start", name, "--degraded"]).code == 0
        });
        reads_back(&controller, name);
    }
    reads_back(&controller, "local");
    let pid = controller.pid();
    within("SIGTERM ends it", Duration::from_secs(10), || controller.stop());
    assert!(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists(), "its process is gone");
    assert_ne!(
        softroc(&["volume", "list", "--state", &controller.state()]).code,
        0,
        "nothing serves it"
    );
}
