//! A running controller for tests, in its own folder, and functions to check it from outside.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod browser;
pub mod guest;
pub mod host;
pub mod judged;
pub mod managed;
pub mod mounted;
pub mod pages;
pub mod pausable;
pub mod retry;

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
pub use test_tools::{have, not_installed, not_possible};

/// The smallest file drive in tests: its reserved tail has 32 MiB.
pub const DRIVE: &str = "48M";

/// A folder that is removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("softroc-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    /// A folder in memory that outlives processes. `None`: this computer has none.
    pub fn in_memory(name: &str) -> Option<Folder> {
        let path = Path::new("/dev/shm").join(format!("softroc-{}-{name}", std::process::id()));
        is_in_memory(Path::new("/dev/shm")).then(|| {
            std::fs::create_dir_all(&path).expect("a folder in memory");
            Folder(path)
        })
    }

    pub fn path(&self) -> String {
        self.0.to_str().expect("temporary paths are text").to_owned()
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("temporary paths are text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a folder is on tmpfs.
pub fn is_in_memory(folder: &Path) -> bool {
    let output = output_of(Command::new("stat").args(["-f", "-c", "%T"]).arg(folder));
    output.stdout.starts_with(b"tmpfs")
}

/// Waits for a condition.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    within(Duration::from_secs(120), what, is_so);
}

/// The same for long calculations with low priority: on two slow cores a prediction takes minutes.
pub fn until_long(what: &str, is_so: impl FnMut() -> bool) {
    within(Duration::from_secs(600), what, is_so);
}

fn within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a program to its end; panics with its output when it fails.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output_of(Command::new(program).args(arguments));
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?} ended with {}:\n{said}",
        output.status
    );
    said
}

fn output_of(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}

/// A controller in a folder. Stopped on drop.
pub struct Controller {
    pub folder: Folder,
    /// More arguments to `serve`.
    pub arguments: Vec<String>,
    /// Listening sockets that are passed to it, and outlive it.
    pub sockets: Option<(UnixListener, TcpListener)>,
    /// The limit of open files at its start, as set by a shell.
    pub files: Option<u32>,
    /// A file that replaces the kernel's boot ID: simulates a reboot.
    pub boot_id: Option<String>,
    child: Option<Child>,
}

/// The output of `softroc`.
pub struct Answer {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Answer {
    /// The output of a command that must succeed.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The error of a command that must be rejected: invalid, impossible, or for an unknown object.
    pub fn refused(self) -> String {
        assert!((2..=4).contains(&self.code), "{}: {}{}", self.code, self.stdout, self.stderr);
        assert!(self.stdout.is_empty(), "a refused command printed: {}", self.stdout);
        self.stderr
    }
}

/// Runs the command line.
pub fn softroc(arguments: &[&str]) -> Answer {
    let output = output_of(Command::new(env!("CARGO_BIN_EXE_softroc")).args(arguments));
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Controller {
    /// Starts a controller in a new folder.
    pub fn new(name: &str) -> Controller {
        Controller::with(name, &[])
    }

    /// Starts a controller in a new folder, with more arguments for `serve`.
    pub fn with(name: &str, extra: &[&str]) -> Controller {
        let mut controller = Controller::unstarted(name);
        controller.arguments.extend(extra.iter().map(|text| (*text).to_owned()));
        controller.start();
        controller
    }

    /// A stopped controller in a new folder.
    pub fn unstarted(name: &str) -> Controller {
        Controller {
            folder: Folder::new(name),
            child: None,
            arguments: Vec::new(),
            sockets: None,
            files: None,
            boot_id: None,
        }
    }

    pub fn state(&self) -> String {
        self.folder.file("state")
    }

    /// The address of a volume for NBD clients.
    pub fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.nbd_socket())
    }

    pub fn nbd_socket(&self) -> String {
        format!("{}/nbd.sock", self.state())
    }

    /// Starts `serve` and waits until it responds.
    pub fn start(&mut self) {
        self.start_at(&self.state());
    }

    /// The same, with another path to its state.
    pub fn start_at(&mut self, state: &str) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.file("serve.log"))
            .expect("a log file");
        let mut command = self.serve_command(&log);
        // The default, an eighth of the memory, is too much for concurrent tests.
        let has_size = self.arguments.iter().any(|argument| argument == "--cache");
        let size: &[&str] = if has_size { &[] } else { &["--cache", "16M"] };
        let child = command
            .args(["serve", "--state", state])
            .args(size)
            .args(&self.arguments)
            .stderr(log)
            .spawn()
            .expect("softroc starts");
        self.child = Some(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while softroc(&["volume", "list", "--state", &self.state()]).code != 0 {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "serve did not start: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `softroc`, with sockets passed as by systemd: file descriptors 3 and 4, for that process ID.
    fn serve_command(&self, log: &File) -> Command {
        let program = env!("CARGO_BIN_EXE_softroc");
        let Some((unix, tcp)) = &self.sockets else {
            let mut command = match (self.files, &self.boot_id) {
                (Some(_), Some(_)) => panic!("it starts by one other program"),
                (None, Some(boot)) => {
                    let shown = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && \
                        exec \"$0\" \"$@\"";
                    let mut shell = Command::new("unshare");
                    shell.args(["-m", "sh", "-c", shown, program, boot]);
                    shell
                }
                (Some(files), None) => {
                    let mut shell = Command::new("sh");
                    shell.args(["-c", &format!("ulimit -Sn {files}; exec \"$0\" \"$@\""), program]);
                    shell
                }
                (None, None) => Command::new(program),
            };
            command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log file"));
            return command;
        };
        let hand_over =
            "LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", hand_over, program]);
        command.stdin(OwnedFd::from(unix.try_clone().expect("another file of it")));
        command.stdout(OwnedFd::from(tcp.try_clone().expect("another file of it")));
        command
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.file("serve.log")).unwrap_or_default()
    }

    /// Runs a command of the command line against it.
    pub fn softroc(&self, arguments: &[&str]) -> Answer {
        let state = self.state();
        let mut all = arguments.to_vec();
        all.extend(["--state", &state]);
        softroc(&all)
    }

    /// Runs a command and reads its JSON.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        let text = self.softroc(&all).ok();
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{arguments:?} answered {text}: {error}"))
    }

    /// Creates `count` new file drives and returns their paths.
    pub fn file_drives(&self, count: usize) -> Vec<String> {
        self.file_drives_of(DRIVE, count)
    }

    /// Creates `count` new file drives of a size and returns their paths.
    pub fn file_drives_of(&self, size: &str, count: usize) -> Vec<String> {
        let drives: Vec<String> =
            (0..count).map(|i| self.folder.file(&format!("d{i}.img"))).collect();
        let mut arguments = vec!["drive", "add", "--create", size];
        arguments.extend(drives.iter().map(String::as_str));
        self.softroc(&arguments).ok();
        drives
    }

    /// Creates a volume on new file drives.
    pub fn volume(&self, name: &str, level: &str, drives: usize) -> Vec<String> {
        let paths = self.file_drives(drives);
        self.create(name, level, &paths).ok();
        paths
    }

    pub fn create(&self, name: &str, level: &str, drives: &[String]) -> Answer {
        // Tests check the drives: no data may be in the cache only.
        let mode = [
            "--write-mode",
            "write-through",
            "--read-mode",
            "no-read-ahead",
            "--drive-cache",
            "unchanged",
        ];
        let mut arguments =
            [&["volume", "create", name, "--level", level][..], &mode, &["--drives"]].concat();
        arguments.extend(drives.iter().map(String::as_str));
        self.softroc(&arguments)
    }

    /// The volume in `volume show --json`.
    pub fn show(&self, volume: &str) -> serde_json::Value {
        self.json(&["volume", "show", volume])["volume"].clone()
    }

    pub fn capacity(&self, volume: &str) -> u64 {
        self.show(volume)["capacity_bytes"].as_u64().expect("a capacity")
    }

    /// Waits until a volume's resync is complete.
    pub fn wait_synced(&self, volume: &str) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.show(volume)["resync"].is_null() {
            assert!(Instant::now() < deadline, "the resync does not end: {}", self.show(volume));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The tasks: active ones, then finished ones, the newest first.
    pub fn tasks(&self) -> Vec<serde_json::Value> {
        self.json(&["task", "list"])["tasks"].as_array().expect("a list of tasks").clone()
    }

    /// Waits until a task has ended, and returns its state.
    pub fn wait_task(&self, task: &serde_json::Value) -> serde_json::Value {
        let number = task["task"].as_u64().expect("a task has a number").to_string();
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let task = self.json(&["task", "show", &number])["task"].clone();
            if !["running", "waiting", "paused"]
                .contains(&task["state"].as_str().unwrap_or_default())
            {
                return task;
            }
            assert!(Instant::now() < deadline, "the task does not end: {task}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all drives of a volume are current, its redundancy is consistent, and no task is
    /// active on it.
    pub fn wait_optimal(&self, volume: &str) {
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let show = self.show(volume);
            let open =
                |task: &serde_json::Value| task["state"] == "running" || task["state"] == "waiting";
            if show["state"] == "optimal"
                && show["resync"].is_null()
                && !self.tasks().iter().any(open)
            {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "it is not optimal again: {show}\ntasks: {:?}",
                self.tasks()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the process.
    pub fn kill_9(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Stops it, and waits; it must exit successfully.
    pub fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        run("kill", &["-TERM", &child.id().to_string()]);
        let status = child.wait().expect("it ends");
        assert!(status.success(), "serve ended with {status}: {}", self.log());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "The controller's log:\n{}", self.log());
        }
    }
}

/// Pseudorandom bytes, a function of the seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Writes a file of such bytes.
pub fn pattern_file(path: &Path, seed: u64, len: usize) {
    std::fs::write(path, pattern(seed, len)).expect("a file of the pattern");
}
