//! A UPS by Debian's `nut-server`, simulated by its `dummy-ups`: its state is shown in events, in
//! `show`, and in the write mode of a volume.

mod common;

use common::host::Host;
use common::{Controller, Folder, have, not_installed, not_possible, pattern, run, softroc, until};
use std::fs;
use std::process::{Child, Command, Stdio};

const SERVER: &str = "/lib/nut/upsd";
const DRIVER: &str = "/lib/nut/dummy-ups";

/// `upsd` and a driver that reports the content of a file.
struct Nut {
    folder: Folder,
    port: u16,
    running: Vec<Child>,
}

impl Nut {
    /// `None`: not installed.
    fn start(says: &str) -> Option<Nut> {
        if ![SERVER, DRIVER].iter().all(|program| std::path::Path::new(program).is_file()) {
            not_installed("nut-server");
            return None;
        }
        let folder = Folder::new("nut");
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("its number");
        let mut nut = Nut { folder, port: free.port(), running: Vec::new() };
        let put = |name: &str, text: String| {
            fs::write(nut.folder.file(name), text).expect("it is written")
        };
        put(
            "ups.conf",
            "[rack]\n driver = dummy-ups\n port = rack.dev\n mode = dummy-once\n pollinterval = 1\n"
                .to_owned(),
        );
        let (port, path) = (nut.port, nut.folder.path());
        put("upsd.conf", format!("LISTEN 127.0.0.1 {port}\nMAXAGE 5\nSTATEPATH {path}\n"));
        put("upsd.users", String::new());
        nut.say(says);
        nut.run_driver();
        nut.run(SERVER, &["-F", "-u", "root"]);
        Some(nut)
    }

    fn run(&mut self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(program);
        for name in ["NUT_CONFPATH", "NUT_STATEPATH", "NUT_ALTPIDPATH"] {
            command.env(name, self.folder.path());
        }
        let log = || {
            fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.folder.file("log"))
                .expect("a log")
        };
        let command = command.args(arguments).stdin(Stdio::null()).stdout(log()).stderr(log());
        self.running.push(command.spawn().expect("it starts"));
    }

    fn run_driver(&mut self) {
        self.run(DRIVER, &["-a", "rack", "-F", "-u", "root"]);
    }

    /// Changes the state of the UPS.
    fn say(&self, status: &str) {
        let next = self.folder.file("next");
        fs::write(&next, format!("ups.status: {status}\n")).expect("it is written");
        fs::rename(next, self.folder.file("rack.dev")).expect("it is there at once");
    }

    /// Ends the driver, as if its cable were cut; or the server.
    fn end(&mut self, number: usize) {
        let mut child = self.running.remove(number);
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
}

impl Drop for Nut {
    fn drop(&mut self) {
        while !self.running.is_empty() {
            self.end(0);
        }
    }
}

fn ups_state(controller: &Controller) -> String {
    controller.json(&["info"])["controller"]["ups"]["state"]
        .as_str()
        .expect("a UPS is shown")
        .to_owned()
}

/// The write mode in effect, and the reason.
fn mode(controller: &Controller) -> (String, String) {
    let policies = controller.show("data")["policies"].as_array().expect("policies").clone();
    let policy =
        policies.into_iter().find(|policy| policy["name"] == "write-mode").expect("it is shown");
    let text = |name: &str| policy[name].as_str().expect("a text").to_owned();
    (text("current"), text("reason"))
}

fn dirty(controller: &Controller) -> u64 {
    controller.show("data")["cache"]["dirty_bytes"].as_u64().expect("a number")
}

fn the_metrics_have_the_missing_ups(controller: &Controller) {
    let socket = controller.folder.file("state/control.sock");
    let page = run("curl", &["--silent", "--unix-socket", &socket, "http://localhost/metrics"]);
    let series = "softroc_ups_state{ups=\"rack@127.0.0.1\",state=\"missing\"} 1\n";
    assert!(page.contains(series), "{series} is not told");
}

#[test]
fn what_a_ups_says_is_seen_in_events_in_show_and_in_what_a_volume_does() {
    let Some(memory) = Folder::in_memory("ups") else {
        return not_possible("the UPS", "/dev/shm is not there");
    };
    let Some(mut nut) = Nut::start("OL") else { return };
    let address = format!("rack@127.0.0.1:{}", nut.port);
    let cache = memory.path();
    let mut controller =
        Controller::with("ups", &["--ups", &address, "--cache", "16M", "--cache-folder", &cache]);
    let drives = controller.file_drives(3);
    let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
    let create =
        ["volume", "create", "data", "--level", "raid5", "--write-mode", "write-back", "--drives"];
    controller.softroc(&[&create[..], &drives].concat()).ok();
    let mut host = Host::connect(&controller.nbd_socket(), "data").expect("it is served");
    let steps: [(&str, &str, &str, &str); 5] = [
        ("OL", "optimal", "write-back", ""),
        ("OB DISCHRG", "degraded", "write-through", "on battery"),
        ("OB DISCHRG LB", "failed", "write-through", "nearly empty"),
        ("OL CHRG", "charging", "write-back", ""),
        ("OL", "optimal", "write-back", ""),
    ];
    for (number, (says, state, current, why)) in steps.into_iter().enumerate() {
        nut.say(says);
        until(says, || ups_state(&controller) == state && mode(&controller).0 == current);
        let (_, reason) = mode(&controller);
        assert!(reason.contains(why), "{says}: {reason}");
        host.write((number * 65536) as u64, &pattern(number as u64, 65536)).expect("it is written");
        if current == "write-through" {
            until("nothing is dirty", || dirty(&controller) == 0);
        }
    }
    nut.end(0);
    until("the driver is missed", || {
        ups_state(&controller) == "missing" && mode(&controller).0 == "write-through"
    });
    nut.run_driver();
    until("the driver is back", || {
        ups_state(&controller) == "optimal" && mode(&controller).0 == "write-back"
    });
    nut.end(0);
    until("the server is missed", || ups_state(&controller) == "missing");
    let (_, reason) = mode(&controller);
    assert!(reason.contains("no contact with the UPS"), "{reason}");
    let events = controller.softroc(&["events"]).ok();
    for state in ["optimal", "degraded", "failed", "charging", "missing"] {
        assert!(events.contains(&format!("protection.{state}")), "{state}: {events}");
    }
    let info = controller.softroc(&["info"]).ok();
    assert!(info.contains("missing since"), "{info}");
    if have("curl") {
        the_metrics_have_the_missing_ups(&controller);
    }
    for number in 0..steps.len() {
        let found = host.read((number * 65536) as u64, 65536).expect("it is readable");
        assert!(found == pattern(number as u64, 65536), "piece {number} differs");
    }
    drop(host);
    controller.stop();
    let said = softroc(&["serve", "--state", &controller.state(), "--ups", "rack"]).refused();
    assert!(said.contains("NAME@HOST"), "{said}");
}
