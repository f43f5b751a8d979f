//! Live state: `volume stats`, `drive stats`, `top`, `health`, the alarm.

mod common;

use common::host::Host;
use common::{Controller, have, run, softroc, until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn json(text: &str) -> Value {
    serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("not one JSON object: {error}: {text}"))
}

/// An optimal volume.
fn served(name: &str) -> (Controller, Vec<String>) {
    let controller = Controller::new(name);
    let drives = controller.volume("data", "raid5", 3);
    controller.wait_optimal("data");
    controller.wait_synced("data");
    (controller, drives)
}

/// The number of operations in the time of a line.
fn operations(line: &Value, kind: &str) -> u64 {
    let seconds = line["seconds"].as_f64().expect("a time");
    (line["volumes"][0][kind]["per_s"].as_f64().expect("a rate") * seconds).round() as u64
}

/// The page for Prometheus.
fn metrics(controller: &Controller) -> String {
    let socket = format!("{}/control.sock", controller.state());
    run("curl", &["-s", "--unix-socket", &socket, "http://localhost/metrics"])
}

#[test]
fn rates_are_what_a_host_did() {
    const WRITES: u64 = 70;
    const READS: u64 = 30;
    let (controller, _) = served("stats");
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    let mut stats = Command::new(env!("CARGO_BIN_EXE_softroc"))
        .args([
            "volume",
            "stats",
            "data",
            "--interval",
            "200ms",
            "--json",
            "--state",
            &controller.state(),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(stats.stdout.take().expect("its output")).lines();
    let mut next = || json(&lines.next().expect("it goes on").expect("a line"));
    assert_eq!(next()["stats"], "volumes");
    for at in 0..WRITES {
        host.write(at * 8192, &[7; 8192]).expect("it is written");
    }
    for at in 0..READS {
        host.read(at * 4096, 4096).expect("it is read");
    }
    host.flush().expect("it is flushed");
    let (mut writes, mut reads, mut flushes, mut written) = (0, 0, 0, 0.0);
    while (writes, reads, flushes) != (WRITES, READS, 1) {
        let line = next();
        assert!(writes <= WRITES && reads <= READS, "more than there was: {writes}, {reads}");
        let volume = &line["volumes"][0];
        writes += operations(&line, "write");
        reads += operations(&line, "read");
        flushes += operations(&line, "flush");
        written += volume["write"]["bytes_per_s"].as_f64().expect("a rate")
            * line["seconds"].as_f64().expect("a time");
        for kind in ["read", "write", "flush"] {
            let latency = &volume[kind]["latency"];
            assert_eq!(latency.is_null(), operations(&line, kind) == 0, "{kind}: {volume}");
            let [mean, half, most] =
                ["mean_us", "p50_us", "p999_us"].map(|of| latency[of].as_f64().unwrap_or(0.0));
            assert!(mean >= 0.0 && half <= most, "{latency}");
        }
    }
    assert_eq!(written.round() as u64, WRITES * 8192);
    stats.kill().expect("it is ended");
    stats.wait().expect("it ends");
    let (page, series) = (metrics(&controller), "softroc_volume_writes_completed_total");
    let line = format!("{series}{{volume=\"data\"}} {WRITES}\n");
    assert!(page.contains(&line), "the same figures as for Prometheus: {page}");
}

#[test]
fn stats_are_a_table_once_and_name_what_is_not_there() {
    let (controller, drives) = served("stats-once");
    let short = ["--interval", "100ms", "--count", "1"];
    let table = controller.softroc(&[&["volume", "stats"][..], &short].concat()).ok();
    assert!(
        table.contains("writes/s") && table.contains("w p99") && table.contains("data"),
        "{table}"
    );
    let told = json(
        &controller.softroc(&[&["drive", "stats", "data:1", "--json"][..], &short].concat()).ok(),
    );
    assert_eq!(told["drives"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told["drives"][0]["drive"], drives[1].as_str());
    assert_eq!(told["drives"][0]["slot"], 1);
    let lines = controller
        .softroc(&["drive", "stats", "--interval", "50ms", "--count", "2", "--json"])
        .ok();
    assert_eq!(
        lines.lines().map(|line| json(line)["drives"].as_array().map(Vec::len)).collect::<Vec<_>>(),
        [Some(3); 2]
    );
    for (arguments, code) in [
        (&["volume", "stats", "nope"][..], 4),
        (&["drive", "stats", "data:9"], 4),
        (&["volume", "stats", "--interval", "0s"], 2),
        (&["volume", "stats", "--count", "0"], 2),
    ] {
        assert_eq!(controller.softroc(arguments).code, code, "{arguments:?}");
    }
    // Without a terminal, `top` prints plain lines, once.
    let top = controller.softroc(&["top", "--interval", "100ms", "--count", "1"]).ok();
    assert!(top.starts_with("softroc ") && top.contains("\nok: all is well: 1 volume"), "{top}");
    assert!(top.contains("data:2") && !top.contains('\x1b'), "{top}");
}

/// A terminal of tmux, which ends with the test.
struct Terminal(String);

impl Terminal {
    fn tmux(&self, arguments: &[&str]) -> String {
        let all = [&["-f", "/dev/null", "-S", &self.0][..], arguments].concat();
        run("tmux", &all)
    }

    fn shows(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.0, "kill-server"]).output();
    }
}

#[test]
fn top_is_a_page_of_the_terminal_and_leaves_it_as_it_was() {
    if !have("tmux") {
        return;
    }
    let (controller, _) = served("top");
    let terminal = Terminal(controller.folder.file("tmux.sock"));
    let program = env!("CARGO_BIN_EXE_softroc");
    let state = controller.state();
    let line = format!(
        "echo before; {program} top --interval 100ms --state {state}; echo ended: $?; stty -a; \
            exec sleep 600"
    );
    terminal.tmux(&["new-session", "-d", "-x", "150", "-y", "40", "sh", "-c", &line]);
    until("a page with the volume", || {
        let page = terminal.shows();
        page.contains("ok: all is well")
            && page.contains("writes/s")
            && page.contains("data:2")
            && !page.contains("before")
    });
    // No line is longer than the terminal, and the page is redrawn when that shrinks.
    terminal.tmux(&["resize-window", "-x", "50", "-y", "10"]);
    until("a smaller page", || {
        let page = terminal.shows();
        page.contains("ok: all is well") && !page.contains("data:2") && page.lines().count() <= 10
    });
    terminal.tmux(&["resize-window", "-x", "150", "-y", "40"]);
    terminal.tmux(&["send-keys", "q"]);
    until("the terminal as it was", || {
        let page = terminal.shows();
        let is_as_it_was =
            page.contains("before") && page.contains("ended: 0") && !page.contains("writes/s");
        is_as_it_was && page.contains(" icanon ") && page.contains(" echo ")
    });
    assert_eq!(
        terminal.tmux(&["display-message", "-p", "#{cursor_flag}"]).trim(),
        "1",
        "the cursor is seen again"
    );
}

#[test]
fn health_is_a_sentence_what_to_do_and_an_exit_code() {
    let (controller, drives) = served("health");
    let well = controller.softroc(&["health"]);
    assert_eq!(well.code, 0, "{}{}", well.stdout, well.stderr);
    assert!(
        well.stdout.starts_with("OK: all is well: 1 volume, 3 drives, 0 hot spares ready.\n"),
        "{}",
        well.stdout
    );
    controller.softroc(&["drive", "fail", &drives[1]]).ok();
    let ill = controller.softroc(&["health"]);
    assert_eq!((ill.code, ill.stderr.as_str()), (2, ""), "{}", ill.stdout);
    assert!(ill.stdout.starts_with("CRITICAL: volume 'data' is degraded"), "{}", ill.stdout);
    assert!(
        ill.stdout.contains("To do: softroc drive replace data:1 --with NEW-DRIVE"),
        "{}",
        ill.stdout
    );
    for once in ["was declared failed", "volume 'data' is degraded: ", "To do: softroc drive"] {
        assert_eq!(ill.stdout.matches(once).count(), 1, "{once}: {}", ill.stdout);
    }
    let told = controller.softroc(&["health", "--json"]);
    let report = json(&told.stdout);
    assert_eq!((told.code, report["status"].as_str()), (2, Some("critical")), "{report}");
    // After the recommended action, the state is good.
    let new = controller.folder.file("new.img");
    controller.softroc(&["drive", "add", "--create", common::DRIVE, &new]).ok();
    controller.softroc(&["drive", "replace", "data:1", "--with", &new]).ok();
    controller.wait_optimal("data");
    // The failed drive is shown until it is forgotten.
    let left = controller.softroc(&["health"]);
    let todo = format!("softroc drive forget {}", drives[1]);
    assert!(left.code == 1 && left.stdout.contains(&todo), "{}", left.stdout);
    controller.softroc(&["drive", "forget", &drives[1]]).ok();
    until("all is well", || controller.softroc(&["health"]).code == 0);
    let nobody = softroc(&["health", "--state", &controller.folder.file("nobody")]);
    assert_eq!(nobody.code, 3, "{}", nobody.stderr);
}

#[test]
fn a_program_is_the_beeper() {
    let (controller, drives) = served("beeper");
    let (program, told) = (controller.folder.file("beep"), controller.folder.file("beeped"));
    std::fs::write(&program, format!("#!/bin/sh\ncat >/dev/null\necho $1 >>{told}\n"))
        .expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("it is one");
    let target = format!("hook:{program}");
    controller
        .softroc(&["notify", "set", "beeper", &target, "--severity", "info", "--code", "alarm.*"])
        .ok();
    let heard = || std::fs::read_to_string(&told).unwrap_or_default();
    let shown = controller.softroc(&["alarm", "show"]).ok();
    assert!(shown.contains("alarm   on") && shown.contains("sounds  no"), "{shown}");
    // A drive is pulled.
    std::fs::rename(&drives[0], format!("{}.away", drives[0])).expect("it is moved");
    std::fs::write(&drives[0], b"").expect("an empty one");
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    until("it sounds", || {
        host.write(0, &[7; 65536]).expect("it is written");
        heard() == "alarm.sounds\n"
    });
    assert_eq!(controller.json(&["alarm", "show"])["alarm"]["sounds"], true);
    controller.softroc(&["alarm", "silence"]).ok();
    until("it is silent", || heard() == "alarm.sounds\nalarm.silenced\n");
    // In StorCLI's format.
    let state = controller.state();
    let storcli = |words: &[&str]| softroc(&[&["--state", &state, "storcli"][..], words].concat());
    assert!(storcli(&["/c0", "show", "alarm"]).ok().contains("Alarm     ON"));
    storcli(&["/c0", "set", "alarm=off"]).ok();
    assert!(storcli(&["/c0", "show", "alarm"]).ok().contains("Alarm     OFF"));
    assert_eq!(controller.json(&["alarm", "show"])["alarm"]["on"], false);
    storcli(&["/c0", "set", "alarm=on"]).ok();
    storcli(&["/c0", "set", "alarm=silence"]).ok();
    assert_ne!(storcli(&["/c0", "set", "alarm=loud"]).code, 0);
}
