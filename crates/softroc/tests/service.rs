//! SoftROC as a service: its systemd units, its notifications to systemd, its man pages and
//! completions.

mod common;

use common::{Folder, have, not_installed, run, softroc, until};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The highest accepted exposure by systemd, of ten.
const EXPOSURE: f64 = 4.0;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The installed units, except for the path of the program; the unit of a disk as the instance of a
/// volume.
fn units(folder: &Folder) -> Vec<String> {
    let unit = |from: &str, to: &str| {
        let text = std::fs::read_to_string(packaging().join(from)).expect("a unit");
        let program = env!("CARGO_BIN_EXE_softroc");
        std::fs::write(folder.0.join(to), text.replace("/usr/bin/softroc", program))
            .expect("a file");
        folder.file(to)
    };
    vec![
        unit("softroc.service", "softroc.service"),
        unit("softroc-attach@.service", "softroc-attach@data.service"),
    ]
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_and_little_exposed() {
    if !have("systemd-analyze") {
        return;
    }
    let folder = Folder::new("units");
    for unit in units(&folder) {
        let said = run("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no", &unit]);
        assert_eq!(said, "", "{unit}");
        let said = run("systemd-analyze", &["security", "--offline=true", "--no-pager", &unit]);
        let level = said.lines().find(|line| line.contains("Overall exposure level"));
        let words = level.into_iter().flat_map(str::split_whitespace);
        let exposure: Option<f64> = words.filter_map(|word| word.parse().ok()).next();
        assert!(exposure.is_some_and(|exposure| exposure <= EXPOSURE), "{unit}: {said}");
    }
}

/// Compiles a container profile with libseccomp, then runs a program.
const FILTERED: &str = r#"
import json, os, seccomp, sys
profile = json.load(open(sys.argv[1]))
assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
calls = seccomp.SyscallFilter(seccomp.ERRNO(profile["defaultErrnoRet"]))
for rule in profile["syscalls"]:
    assert rule["action"] == "SCMP_ACT_ALLOW"
    for name in rule["names"]:
        if name not in sys.argv[2].split(","):
            try: calls.add_rule(seccomp.ALLOW, name)
            except Exception: pass # a call of another processor
calls.load()
os.execv(sys.argv[3], sys.argv[3:])
"#;

/// A controller under a container's filter, without some calls.
fn filtered(folder: &Folder, without: &str) -> Child {
    let profile = packaging().join("seccomp.json");
    let log = std::fs::File::create(folder.file("log")).expect("a file");
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", FILTERED]).arg(profile).args([without, env!("CARGO_BIN_EXE_softroc")]);
    command.args(["serve", "--shards", "2", "--memory", "64M", "--state", &folder.file("state")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts")
}

#[test]
fn a_container_with_our_filter_of_system_calls_serves() {
    let can = Command::new("/usr/bin/python3")
        .args(["-c", "import seccomp"])
        .stderr(Stdio::null())
        .status();
    if !can.is_ok_and(|status| status.success()) {
        return not_installed("python3-seccomp");
    }
    let folder = Folder::new("filtered");
    // Like Docker's own filter: the reason is reported.
    let status = filtered(&folder, "io_uring_setup").wait().expect("it ends");
    let said = std::fs::read_to_string(folder.file("log")).expect("a log");
    assert!(!status.success() && said.contains("seccomp"), "{said}");
    let mut child = filtered(&folder, "");
    let state = folder.file("state");
    until("it answers", || softroc(&["volume", "list", "--state", &state]).code == 0);
    let drives: Vec<String> = (0..3).map(|number| folder.file(&format!("{number}.img"))).collect();
    let words = |first: &[&str]| {
        first.iter().map(|word| (*word).to_owned()).chain(drives.clone()).collect::<Vec<_>>()
    };
    for mut command in [
        words(&["drive", "add", "--create", "48M"]),
        words(&[
            "volume",
            "create",
            "data",
            "--level",
            "raid5",
            "--write-mode",
            "write-back",
            "--drives",
        ]),
    ] {
        command.extend(["--state".to_owned(), state.clone()]);
        softroc(&command.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    }
    run("kill", &["-TERM", &child.id().to_string()]);
    assert!(child.wait().expect("it ends").success());
}

/// A service as started by systemd, with its notification socket.
struct Service {
    socket: UnixDatagram,
    child: Child,
    heard: Vec<String>,
}

impl Service {
    fn start(folder: &Folder, watchdog: Option<Duration>) -> Service {
        let path = folder.file("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        let mut command = Command::new(env!("CARGO_BIN_EXE_softroc"));
        command.args([
            "serve",
            "--shards",
            "2",
            "--memory",
            "64M",
            "--state",
            &folder.file("state"),
        ]);
        command.env("NOTIFY_SOCKET", &path).stdin(Stdio::null()).stderr(Stdio::null());
        if let Some(limit) = watchdog {
            command.env("WATCHDOG_USEC", limit.as_micros().to_string());
        }
        Service { socket, child: command.spawn().expect("it starts"), heard: Vec::new() }
    }

    /// Whether it has sent this notification that many times.
    fn has_told(&mut self, line: &str, times: usize) -> bool {
        let mut datagram = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut datagram) {
            let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
            self.heard.extend(text.lines().map(str::to_owned));
        }
        self.heard.iter().filter(|heard| *heard == line).count() >= times
    }

    fn signal(&self, name: &str) {
        run("kill", &[name, &self.child.id().to_string()]);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn systemd_is_told_when_the_service_is_ready_lives_and_stops() {
    let folder = Folder::new("service");
    let mut service = Service::start(&folder, Some(Duration::from_millis(800)));
    until("it is ready", || service.has_told("READY=1", 1));
    assert!(service.has_told("STATUS=serving 0 volumes", 1), "{:?}", service.heard);
    // It responds from then on.
    softroc(&["volume", "list", "--state", &folder.file("state")]).ok();
    until("it lives", || service.has_told("WATCHDOG=1", 4));
    assert!(!service.has_told("STOPPING=1", 1));
    service.signal("-TERM");
    until("it stops", || service.has_told("STOPPING=1", 1));
    assert!(service.child.wait().expect("it ends").success());
}

#[test]
fn who_is_not_watched_over_is_not_told_that_it_lives() {
    let folder = Folder::new("service");
    let mut service = Service::start(&folder, None);
    until("it is ready", || service.has_told("READY=1", 1));
    service.signal("-TERM");
    until("it stops", || service.has_told("STOPPING=1", 1));
    assert!(service.child.wait().expect("it ends").success());
    assert!(!service.has_told("WATCHDOG=1", 1), "{:?}", service.heard);
}

#[test]
fn there_is_a_page_for_every_command_and_shells_complete_them() {
    let folder = Folder::new("manual");
    softroc(&["manual", &folder.path()]).ok();
    let page = |name: &str| std::fs::read_to_string(folder.0.join("man1").join(name));
    let of_all = page("softroc.1").expect("there is a page");
    for command in ["attach", "detach", "drive", "volume", "serve", "task", "bench", "rescue"] {
        let name = format!("softroc-{command}.1");
        assert!(page(&name).is_ok_and(|text| text.contains(".SH SYNOPSIS")), "{name}");
        assert!(
            of_all.contains(&format!("softroc\\-{command}(1)")),
            "{command} is not in {of_all}"
        );
    }
    assert!(page("softroc-volume-create.1").is_ok_and(|text| text.contains("write\\-hole")));
    assert!(page("softroc-manual.1").is_err(), "it is for packages alone");
    if have("bash") {
        let script = "source \"$1\" && complete -p softroc && COMP_WORDS=(softroc att) \
                      COMP_CWORD=1 && _softroc softroc att softroc && echo \"${COMPREPLY[@]}\"";
        let said = run("bash", &["-c", script, "bash", &folder.file("completions/softroc.bash")]);
        assert!(said.lines().any(|line| line.trim() == "attach"), "{said}");
    }
}

/// The effect of the line for `/etc/fstab` in docs/operate/attach.md: the disk is attached before
/// it is mounted, and a stop, in reverse order, detaches it after it is unmounted.
#[test]
fn a_disk_in_fstab_is_attached_before_it_is_mounted() {
    let generator = "/usr/lib/systemd/system-generators/systemd-fstab-generator";
    if !Path::new(generator).exists() {
        return not_installed("systemd");
    }
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/attach.md");
    let manual = std::fs::read_to_string(manual).expect("a manual");
    let line = manual.lines().find(|line| line.starts_with("/dev/softroc/data  /srv"));
    let folder = Folder::new("fstab");
    std::fs::write(folder.0.join("fstab"), format!("{}\n", line.expect("a line"))).expect("a file");
    let into = ["normal", "early", "late"].map(|name| folder.file(name));
    into.iter().for_each(|folder| std::fs::create_dir(folder).expect("a folder"));
    let mut command = Command::new(generator);
    let status = command.args(&into).env("SYSTEMD_FSTAB", folder.file("fstab")).status();
    assert!(status.expect("it runs").success());
    let unit = std::fs::read_to_string(folder.0.join("normal/srv.mount")).expect("a unit");
    for line in [
        "After=softroc-attach@data.service",
        "Requires=softroc-attach@data.service",
        "What=/dev/softroc/data",
        "Where=/srv",
    ] {
        assert!(unit.lines().any(|said| said == line), "{line} is not in {unit}");
    }
    // The boot does not wait for a missing disk; it starts after the network and stops before it.
    assert!(folder.0.join("normal/remote-fs.target.wants/srv.mount").exists());
}
