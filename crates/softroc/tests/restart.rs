//! Clients over a restart: the controller is stopped or killed, and started again, while clients
//! write. Retrying clients see a pause and no error; so do clients that connect to a persistent
//! socket while the controller is down.

mod common;

use common::host::Host;
use common::retry::Retry;
use common::{Controller, Folder, have, pattern, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

const PIECE: usize = 64 << 10;
const PIECES: usize = 200;

fn piece(number: usize) -> Vec<u8> {
    pattern(number as u64 + 1, PIECE)
}

/// A host that repeatedly writes pieces until it is stopped, and fails at the first error.
struct Writer {
    written: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(mut host: Host) -> Writer {
        let (written, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, told) = (written.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            // All of them at least once.
            for number in 0.. {
                if number >= PIECES && told.load(Ordering::Relaxed) {
                    return host.flush().expect("it is flushed");
                }
                let at = number % PIECES;
                host.write((at * PIECE) as u64, &piece(at)).expect("it is written");
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Writer { written, stop, thread }
    }

    /// Waits for further writes.
    fn goes_on(&self) {
        let before = self.written.load(Ordering::Relaxed);
        until("a write after the restart", || {
            assert!(!self.thread.is_finished(), "the writer has met an error");
            self.written.load(Ordering::Relaxed) > before + 3
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no write failed");
    }
}

fn expect_pieces(controller: &Controller) {
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    for number in 0..PIECES {
        let found = host.read((number * PIECE) as u64, PIECE).expect("it is readable");
        assert!(found == piece(number), "piece {number} differs");
    }
}

#[test]
fn a_client_that_tries_again_sees_a_pause_and_no_error() {
    if !have("nbdkit") {
        return;
    }
    let mut controller = Controller::new("retry");
    controller.volume("data", "raid5", 3);
    let retry = Retry::start(&controller, "data");
    let writer = Writer::start(Host::connect(&retry.socket, "").expect("nbdkit serves"));
    writer.goes_on();
    controller.stop();
    controller.start();
    writer.goes_on();
    controller.kill_9();
    controller.start();
    writer.goes_on();
    writer.end();
    expect_pieces(&controller);
}

#[test]
fn qemu_connects_again_within_its_delay() {
    if !have("qemu-io") {
        return;
    }
    let mut controller = Controller::new("reconnect");
    controller.volume("data", "raid1", 2);
    let server = format!("file.server.type=unix,file.server.path={}", controller.nbd_socket());
    let image =
        format!("driver=raw,file.driver=nbd,{server},file.export=data,file.reconnect-delay=300");
    let mut qemu = Command::new("qemu-io")
        .args(["--image-opts", &image])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("qemu-io starts");
    let mut input = qemu.stdin.take().expect("an input");
    let mut ask = |command: &str| {
        writeln!(input, "{command}").and_then(|()| input.flush()).expect("it listens")
    };
    let writes = |controller: &Controller| controller.show("data")["hosts"][0]["writes"].as_u64();
    ask("write -P 1 0 64k");
    until("the first write", || writes(&controller) == Some(1));
    controller.stop();
    // A request while the controller is down.
    ask("write -P 2 64k 64k");
    controller.start();
    until("the second write", || writes(&controller) == Some(1));
    controller.kill_9();
    ask("write -P 3 128k 64k");
    controller.start();
    until("the third write", || writes(&controller) == Some(1));
    ask("read -P 1 0 64k");
    until("a read", || controller.show("data")["hosts"][0]["reads"].as_u64() == Some(1));
    drop(input);
    let mut said = String::new();
    qemu.stdout.take().expect("an output").read_to_string(&mut said).expect("text");
    assert!(qemu.wait().expect("it ends").success(), "{said}");
    assert!(!said.contains("failed") && !said.contains("rror"), "{said}");
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    for (at, byte) in [(0, 1), (64 << 10, 2), (128 << 10, 3)] {
        assert!(host.read(at, PIECE).expect("it is readable") == vec![byte; PIECE], "at {at}");
    }
}

/// Sockets are passed as by systemd. They outlive the controller: new connections wait in their
/// queue.
#[test]
fn a_socket_that_is_handed_over_keeps_its_clients_waiting_over_a_restart() {
    let mut controller = Controller::unstarted("handed-over");
    let socket = controller.folder.file("handed.sock");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("an address").port();
    controller.sockets = Some((UnixListener::bind(&socket).expect("a socket"), tcp));
    controller.start();
    controller.volume("data", "raid1", 2);
    let mut host = Host::connect(&socket, "data").expect("it is served there");
    host.write(0, &piece(0)).expect("it is written");
    let mut remote = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut greeting = [0; 8];
    remote.read_exact(&mut greeting).expect("it is greeted");
    assert_eq!(&greeting, b"NBDMAGIC");
    assert!(!std::path::Path::new(&controller.nbd_socket()).exists(), "no other one was requested");
    type End = fn(&mut Controller);
    for (number, end) in (1..).zip([Controller::stop as End, Controller::kill_9]) {
        end(&mut controller);
        assert!(host.read(0, 512).is_err(), "the controller has ended");
        // The controller is down, and connections are not refused. A killed process may take one
        // connection with it.
        let (socket, was_killed) = (socket.clone(), number == 2);
        let connecting = std::thread::spawn(move || match Host::connect(&socket, "data") {
            Err(_) if was_killed => Host::connect(&socket, "data"),
            connected => connected,
        });
        controller.start();
        host = connecting.join().expect("no panic").expect("it has waited");
        host.write((number * PIECE) as u64, &piece(number)).expect("it is written");
    }
    for number in 0..3 {
        assert!(
            host.read((number * PIECE) as u64, PIECE).expect("it is readable") == piece(number)
        );
    }
}

#[test]
fn what_is_handed_over_must_be_a_listening_socket() {
    let folder = Folder::new("no-socket");
    let (state, program) = (folder.file("state"), env!("CARGO_BIN_EXE_softroc"));
    let hand_over = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3</dev/null";
    let output = Command::new("sh")
        .args(["-c", hand_over, program, "serve", "--state", &state])
        .stdin(Stdio::null())
        .output()
        .expect("sh starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("file 3") && said.contains("is not a socket"), "{said}");
}

/// Their label stays in place; an operator moves it to the end.
#[test]
fn files_that_were_made_longer_have_all_of_their_room() {
    let mut controller = Controller::new("longer");
    let drives = controller.volume("data", "raid0", 2);
    let before = controller.capacity("data");
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    let content = pattern(7, before as usize);
    host.write(0, &content).expect("it is written");
    host.flush().expect("it is flushed");
    drop(host);
    controller.stop();
    let longer = std::fs::metadata(&drives[0]).expect("it is there").len() + (64 << 20);
    for drive in &drives {
        let file = std::fs::File::options().write(true).open(drive).expect("it can be written");
        file.set_len(longer).expect("it is made longer");
    }
    controller.start();
    let shown = controller.softroc(&["drive", "show", &drives[0]]).ok();
    assert!(shown.contains("softroc drive rescan"), "{shown}");
    let said = controller.softroc(&["drive", "rescan", &drives[0], &drives[1]]).ok();
    assert!(said.contains("from the next start of the controller on"), "{said}");
    controller.kill_9();
    controller.start();
    // The labels move before the array starts, and after the controller answers.
    until("the new size", || {
        controller.json(&["drive", "show", &drives[0]])["drive"]["size_bytes"].as_u64()
            == Some(longer)
    });
    until("the volume", || controller.show("data")["state"] == "optimal");
    controller.softroc(&["volume", "expand", "data"]).ok();
    until("the new room", || controller.capacity("data") > before + (100 << 20));
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    assert!(host.read(0, content.len()).expect("it is readable") == content);
}
