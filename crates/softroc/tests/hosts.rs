//! Connected hosts: the command line identifies external programs that use a volume, and refuses to
//! remove the volume from them.

mod common;

use common::host::Host;
use common::{Controller, have, not_installed};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `qemu-io` on a volume. It runs until its input ends.
struct QemuIo(Child);

impl QemuIo {
    fn on(uri: &str) -> QemuIo {
        let child = Command::new("qemu-io")
            .args(["-f", "raw", uri])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("qemu-io starts");
        QemuIo(child)
    }

    fn ask(&mut self, command: &str) {
        let input = self.0.stdin.as_mut().expect("it has an input");
        writeln!(input, "{command}").and_then(|()| input.flush()).expect("it listens");
    }

    /// Ends it.
    fn leave(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends");
    }
}

/// Waits until the volume satisfies `is_so`.
fn until(controller: &Controller, is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let show = controller.show("data");
        if is_so(&show["hosts"]) {
            return show;
        }
        assert!(Instant::now() < deadline, "{show}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_host_is_named_by_its_program_and_keeps_its_volume() {
    if !have("qemu-io") {
        return;
    }
    let controller = Controller::new("hosts");
    controller.volume("data", "raid5", 3);
    let mut qemu = QemuIo::on(&controller.uri("data"));
    // One at a time: it reads all pending input at once.
    qemu.ask("write -P 7 0 1M");
    until(&controller, |hosts| hosts[0]["writes"] == 1);
    qemu.ask("read 0 64k");
    let show = until(&controller, |hosts| hosts[0]["read_bytes"] == 65_536);
    let host = &show["hosts"][0];
    let pid = qemu.0.id();
    assert_eq!(
        (host["process"].as_str(), host["pid"].as_u64()),
        (Some("qemu-io"), Some(pid.into()))
    );
    assert_eq!((host["written_bytes"].as_u64(), host["writes"].as_u64()), (Some(1 << 20), Some(1)));
    let name = host["host"].as_str().expect("a name").to_owned();
    for look in ["show data", "list"] {
        let text =
            controller.softroc(&format!("volume {look}").split(' ').collect::<Vec<_>>()).ok();
        let expected = if look == "list" { "hosts" } else { &name };
        assert!(text.contains(expected), "{text}");
    }
    for (command, insists) in [
        ("volume delete data --yes", "volume delete data --disconnect-hosts"),
        ("task start init data --fast --yes", "task start init data --fast --disconnect-hosts"),
        (
            "bench volume:data --profile database --runtime 100ms",
            "bench volume:data --beside-hosts",
        ),
    ] {
        let answer = controller.softroc(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(answer.code, 3, "{command}: {}", answer.stderr);
        assert!(
            answer.stderr.contains(&name) && answer.stderr.contains(insists),
            "{}",
            answer.stderr
        );
    }
    // Its pattern is still stored, with any name.
    controller.softroc(&["volume", "rename", "data", "home"]).ok();
    controller.softroc(&["volume", "rename", "home", "data"]).ok();
    qemu.ask("read -P 7 0 1M");
    until(&controller, |hosts| hosts[0]["read_bytes"] == 65_536 + (1 << 20));
    qemu.leave();
    // The connection ends shortly after the program: deleting waits for it.
    controller.softroc(&["volume", "delete", "data", "--yes"]).ok();
}

#[test]
fn who_insists_measures_beside_hosts_and_disconnects_them() {
    let controller = Controller::new("hosts-insisting");
    controller.volume("data", "raid1", 2);
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    host.write(0, &[9; 4096]).expect("it is written");
    let bench = "bench volume:data --profile random,100%read,4K --outstanding 1 --runtime 100ms \
                 --ramp 0s --confidence none --beside-hosts --no-save";
    controller.softroc(&bench.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>()).ok();
    assert_eq!(host.read(0, 4096).expect("it is there still"), [9; 4096]);
    let zero = "task start init data --fast --yes --disconnect-hosts --follow";
    controller.softroc(&zero.split(' ').collect::<Vec<_>>()).ok();
    assert!(host.read(0, 4096).is_err(), "it was disconnected");
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served again");
    assert_eq!(host.read(0, 4096).expect("it is there"), [0; 4096]);
    let said =
        controller.softroc(&["volume", "delete", "data", "--yes", "--disconnect-hosts"]).ok();
    assert!(said.contains("disconnected from 'data'"), "{said}");
    assert!(host.read(0, 4096).is_err(), "it was disconnected");
}

/// The documented limit of one process: 128 drives, 64 volumes, 1,000 connections. Shells allow
/// 1,024 open files.
#[test]
fn a_thousand_connections_are_served_by_one_process() {
    const VOLUMES: usize = 64;
    const CONNECTIONS: usize = 1000;
    let python = "/usr/bin/python3";
    let has_libnbd = Command::new(python).args(["-c", "import nbd"]).stderr(Stdio::null()).status();
    if !has_libnbd.is_ok_and(|status| status.success()) {
        return not_installed("python3-libnbd");
    }
    let mut controller = Controller::unstarted("many");
    let drives: Vec<String> = (0..2 * VOLUMES).map(|_| "mem:40M".to_owned()).collect();
    controller.arguments =
        ["--shards", "2", "--memory", "128M", "--drives"].map(str::to_owned).to_vec();
    controller.arguments.extend(drives);
    controller.files = Some(1024);
    controller.start();
    let names: Vec<String> = controller.json(&["drive", "list"])["drives"]
        .as_array()
        .expect("a list of drives")
        .iter()
        .map(|drive| drive["name"].as_str().expect("a drive has a name").to_owned())
        .collect();
    assert_eq!(names.len(), 2 * VOLUMES);
    for (number, pair) in names.chunks(2).enumerate() {
        controller.create(&format!("v{number}"), "raid1", pair).ok();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges/many_hosts.py");
    let mut hosts = Command::new(python)
        .args([script, &controller.nbd_socket(), &VOLUMES.to_string(), &CONNECTIONS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut said = String::new();
    BufReader::new(hosts.stdout.take().expect("it says something"))
        .read_line(&mut said)
        .expect("text");
    assert_eq!(said.trim(), "ready", "{}", controller.log());
    let connected = |volume: usize| {
        controller.show(&format!("v{volume}"))["hosts"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((0..VOLUMES).map(connected).sum::<usize>(), CONNECTIONS);
    drop(hosts.stdin.take());
    assert!(hosts.wait().expect("it ends").success());
}
