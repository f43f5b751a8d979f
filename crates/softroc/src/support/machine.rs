//! Facts about the machine, the daemon's process, and its log.

use super::archive::File;
use crate::control::Control;
use crate::machine;
use control_api::client::{LocalSocket, Place};
use std::fs::read_to_string;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The largest part of a log, taken from its end.
const LONGEST_LOG: u64 = 2 << 20;

/// Files of the kernel and the system, copied unchanged.
const SYSTEM: [&str; 6] = [
    "/etc/os-release",
    "/proc/version",
    "/proc/meminfo",
    "/proc/partitions",
    "/proc/mdstat",
    "/proc/loadavg",
];

/// Facts of each block device, below its folder in `/sys/block`.
const OF_DEVICES: [&str; 13] = [
    "size",
    "ro",
    "removable",
    "device/model",
    "device/vendor",
    "device/rev",
    "device/firmware_rev",
    "device/state",
    "queue/rotational",
    "queue/scheduler",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/write_cache",
];

/// Facts about this machine.
pub fn files() -> Vec<File> {
    let mut text: String =
        machine::describe().iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    text.push_str(&format!("host: {}\n", machine::host()));
    let mut files = vec![File { name: "machine/machine.txt".into(), text }];
    for path in SYSTEM {
        if let Ok(text) = read_to_string(path) {
            files.push(File {
                name: format!("machine/{}.txt", path.trim_matches('/').replace('/', "-")),
                text,
            });
        }
    }
    files.push(File { name: "machine/block-devices.txt".into(), text: block_devices() });
    files
}

fn block_devices() -> String {
    let mut names: Vec<PathBuf> = std::fs::read_dir("/sys/block")
        .map(|folder| folder.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    names.sort();
    let mut text = String::new();
    for device in names {
        text.push_str(&format!("{}\n", device.file_name().unwrap_or_default().to_string_lossy()));
        for what in OF_DEVICES {
            if let Ok(value) = read_to_string(device.join(what)) {
                text.push_str(&format!("  {what}: {}\n", value.trim()));
            }
        }
    }
    text
}

/// The daemon's process, found by its control socket, and its log.
pub fn daemon(control: &Control) -> Vec<File> {
    let mut files: Vec<File> = journal().into_iter().collect();
    let Place::Socket(socket) = control.place() else { return files };
    let Some(pid) = process_of(socket) else { return files };
    for what in ["status", "limits", "cmdline", "io"] {
        if let Ok(text) = read_to_string(format!("/proc/{pid}/{what}")) {
            files.push(File { name: format!("daemon/{what}.txt"), text: text.replace('\0', " ") });
        }
    }
    // Without the journal, standard error may be a file.
    let stderr = std::fs::read_link(format!("/proc/{pid}/fd/2")).ok().filter(|path| path.is_file());
    if let Some(text) = stderr.and_then(|path| end_of(&path)) {
        files.push(File { name: "log/standard-error.txt".into(), text });
    }
    files
}

/// The process that listens at a socket, if its user is trusted: another user controls what its
/// process shows.
fn process_of(socket: &LocalSocket) -> Option<u32> {
    let stream = std::os::unix::net::UnixStream::connect(&socket.path).ok()?;
    // A socket in another namespace is not visible.
    let address = platform::Address::Unix(socket.path.display().to_string());
    let process = platform_linux::unix_peer(&stream.into(), &address).process?;
    socket.trusts(process.uid).then_some(process.pid)
}

/// The end of a text.
pub fn end_of_text(bytes: &[u8]) -> String {
    let skipped = bytes.len().saturating_sub(LONGEST_LOG as usize);
    String::from_utf8_lossy(&bytes[skipped..]).into_owned()
}

/// The end of a text file.
fn end_of(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_LOG))).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST_LOG).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The service's entries in the systemd journal.
fn journal() -> Option<File> {
    let mut journalctl = Command::new("journalctl");
    journalctl.args([
        "--unit",
        "softroc",
        "--lines",
        "5000",
        "--no-pager",
        "--quiet",
        "--output",
        "short-iso",
    ]);
    let output = journalctl.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && !text.is_empty())
        .then(|| File { name: "log/journal.txt".into(), text })
}
