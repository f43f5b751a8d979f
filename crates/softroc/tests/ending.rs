//! The shutdown of a controller: when its terminal closes, and with a hanging drive.

mod common;

use common::host::Host;
use common::{Controller, Folder, have, pattern, run, softroc, until, until_long};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// `softroc serve` with that state, started by a program, with its output to a pipe.
fn serve(state: &str, by: &[&str], more: &[&str]) -> Child {
    let mut words: Vec<&str> = by.to_vec();
    words.extend([env!("CARGO_BIN_EXE_softroc"), "serve", "--cache", "0", "--state", state]);
    words.extend(more);
    let child = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("softroc starts");
    until("the controller answers", || softroc(&["volume", "list", "--state", state]).code == 0);
    child
}

fn signal(child: &Child, name: &str) {
    run("kill", &[&format!("-{name}"), &child.id().to_string()]);
}

/// Its exit status, within a time limit.
fn ended(child: &mut Child, within: Duration) -> ExitStatus {
    let limit = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        assert!(Instant::now() < limit, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The results of a clean shutdown: its event, and no resync.
fn was_stopped_in_order(controller: &Controller) {
    let events = controller.softroc(&["events"]).ok();
    assert!(events.contains("the controller was shut down"), "{events}");
    assert!(controller.show("data")["resync"].is_null());
}

/// Regression: after the terminal of `softroc serve &` was closed, the next start had a resync, as
/// after a kill. A terminal may send two signals or one, and then accepts no output.
#[test]
fn a_terminal_that_closes_stops_the_controller_in_order() {
    let mut controller = Controller::unstarted("hangup");
    let folder = Folder::new("hangup-drives");
    let drives: Vec<String> = (0..3).map(|number| folder.file(&format!("d{number}.img"))).collect();
    controller.start();
    let add: Vec<&str> = ["drive", "add", "--create", "64M"]
        .into_iter()
        .chain(drives.iter().map(String::as_str))
        .collect();
    controller.softroc(&add).ok();
    controller.create("data", "raid5", &drives).ok();
    controller.stop();
    // The process that runs this test may ignore the signal.
    let mut child = serve(&controller.state(), &["env", "--default-signal=HUP"], &[]);
    drop(child.stderr.take());
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    host.write(0, &pattern(1, 1 << 20)).expect("it is written");
    signal(&child, "HUP");
    signal(&child, "HUP");
    let status = ended(&mut child, Duration::from_secs(60));
    assert!(status.success(), "{status}");
    controller.start();
    was_stopped_in_order(&controller);
}

/// `nohup softroc serve` continues when the terminal closes.
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    if !have("nohup") {
        return;
    }
    let folder = Folder::new("nohup");
    let state = folder.file("state");
    let mut child = serve(&state, &["nohup"], &[]);
    signal(&child, "HUP");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(softroc(&["volume", "list", "--state", &state]).code, 0, "it serves on");
    signal(&child, "TERM");
    assert!(ended(&mut child, Duration::from_secs(60)).success());
}

/// Regression: a hanging drive blocked SIGTERM. The process ends within its limit, reports the
/// skipped work, and acknowledged data exist after the next start.
#[test]
fn a_stop_ends_within_its_limit_whatever_hangs() {
    if !have("nbdkit") {
        return;
    }
    let folder = Folder::new("stop-limit");
    let (socket, pid) = (folder.file("nbd.sock"), folder.file("nbd.pid"));
    run("nbdkit", &["-U", &socket, "-P", &pid, "memory", "64M"]);
    until("nbdkit runs", || {
        std::fs::read_to_string(&pid).is_ok_and(|number| !number.trim().is_empty())
    });
    let server = std::fs::read_to_string(&pid).expect("its number").trim().to_owned();
    let state = folder.file("state");
    let mut child = serve(&state, &[], &["--stop-limit", "3s"]);
    let ask = |words: &[&str]| softroc(&[words, &["--state", &state]].concat());
    let drive = format!("nbd+unix:///?socket={socket}");
    let file = folder.file("d0.img");
    ask(&["drive", "add", "--create", "64M", &file]).ok();
    ask(&["volume", "create", "data", "--level", "raid0", "--drives", &file, &drive]).ok();
    let nbd = format!("{state}/nbd.sock");
    let mut host = Host::connect(&nbd, "data").expect("it is served");
    host.write(0, &pattern(7, 256 << 10)).expect("it is written");
    host.flush().expect("it is flushed");
    drop(host);
    run("kill", &["-STOP", &server]);
    let begun = Instant::now();
    signal(&child, "TERM");
    let status = ended(&mut child, Duration::from_secs(40));
    let took = begun.elapsed();
    run("kill", &["-CONT", &server]);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said)
        .expect("text");
    assert_eq!((status.code(), status.signal()), (Some(1), None), "{said}");
    assert!(took < Duration::from_secs(30), "{took:?}: {said}");
    assert!(said.contains("ends without waiting for the drives (1 array not stopped)"), "{said}");
    assert!(
        said.contains("(--stop-limit)") && said.contains("Acknowledged writes survive"),
        "{said}"
    );
    let mut child = serve(&state, &[], &[]);
    until_long("it is served again", || {
        softroc(&["volume", "show", "data", "--state", &state]).stdout.contains("optimal")
    });
    let mut host = Host::connect(&nbd, "data").expect("it is served");
    assert!(
        host.read(0, 256 << 10).expect("it is read") == pattern(7, 256 << 10),
        "it is the written data"
    );
    drop(host);
    signal(&child, "TERM");
    assert!(ended(&mut child, Duration::from_secs(60)).success());
    run("kill", &[&server]);
}
