//! Disks as the kernel shows them: which are ours, who uses them, how they are set.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// What the identifier of each of our disks begins with; the volume's UUID follows.
const OURS: &str = "softroc-";

/// How the kernel identifies the disk of a volume.
pub fn backend(uuid: &str) -> String {
    format!("{OURS}{uuid}")
}

/// A disk of ours that the kernel has, whoever made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its number.
    pub index: u32,
    /// Its volume.
    pub uuid: String,
    /// Nothing can be written to it.
    pub read_only: bool,
}

/// Where the kernel shows itself.
#[derive(Clone)]
pub struct Shown {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// How long the kernel lets pass between two looks at a request: one whose connection is over is sent again after that.
const LOOKS_EVERY_MS: u32 = 5000;
/// What it is otherwise.
const USUAL_LOOKS_EVERY_MS: u32 = 30_000;
/// The longest request, where the kernel allows it: whole stripes, not parts of them.
const LONGEST_KIB: u32 = 1024;

impl Shown {
    fn block(&self, index: u32) -> PathBuf {
        self.sys.join("block").join(name(index))
    }

    /// Every disk of ours, by number.
    pub fn ours(&self) -> Vec<Found> {
        let Ok(all) = self.sys.join("block").read_dir() else { return Vec::new() };
        let ours = all.filter_map(|entry| {
            let index = entry.ok()?.file_name().to_str()?.strip_prefix("nbd")?.parse().ok()?;
            let backend = read_to_string(self.block(index).join("backend")).ok()?;
            let uuid = backend.trim().strip_prefix(OURS)?.to_owned();
            let read_only = read_to_string(self.block(index).join("ro")).is_ok_and(|ro| ro.trim() == "1");
            Some(Found { index, uuid, read_only })
        });
        let mut ours: Vec<Found> = ours.collect();
        ours.sort_by_key(|found| found.index);
        ours
    }

    /// How large it is.
    pub fn size_bytes(&self, index: u32) -> Option<u64> {
        let sectors: u64 = read_to_string(self.block(index).join("size")).ok()?.trim().parse().ok()?;
        sectors.checked_mul(512)
    }

    /// Has a new disk be as ours are. It works otherwise too, but more slowly, or takes longer to go on after a restart.
    pub fn set_up(&self, index: u32) {
        self.set(index, "io_timeout", LOOKS_EVERY_MS);
        let most = read_to_string(self.block(index).join("queue/max_hw_sectors_kb"));
        let most = most.ok().and_then(|most| most.trim().parse().ok()).unwrap_or(0);
        if most >= LONGEST_KIB {
            self.set(index, "max_sectors_kb", LONGEST_KIB);
        }
    }

    /// Has it be as it was before.
    pub fn set_back(&self, index: u32) {
        self.set(index, "io_timeout", USUAL_LOOKS_EVERY_MS);
    }

    fn set(&self, index: u32, what: &str, value: u32) {
        let path = self.block(index).join("queue").join(what);
        if let Err(error) = std::fs::write(&path, value.to_string()) {
            tracing::debug!("{} is not set: {error}", path.display());
        }
    }

    /// Has whoever watches devices (udev) look at it anew.
    pub fn announce(&self, index: u32) {
        let path = self.block(index).join("uevent");
        if let Err(error) = std::fs::write(&path, "change") {
            tracing::debug!("{} is not written: {error}", path.display());
        }
    }

    /// Who uses a disk, as far as the system tells: a part of a sentence each.
    pub fn users(&self, index: u32) -> Vec<String> {
        let (parts, mut users) = (self.parts(index), Vec::new());
        for table in ["1/mountinfo", "self/mountinfo"] {
            let table = read_to_string(self.proc.join(table)).unwrap_or_default();
            users.extend(mounted(&table, &parts).into_iter().map(|at| format!("mounted at {at}")));
        }
        let swaps = read_to_string(self.proc.join("swaps")).unwrap_or_default();
        for part in &parts {
            let is_it = |line: &&str| line.split_whitespace().next() == Some(&format!("/dev/{}", part.name));
            users.extend(swaps.lines().find(is_it).map(|_| format!("swap on /dev/{}", part.name)));
            let held = part.path.join("holders").read_dir().into_iter().flatten().flatten();
            users.extend(held.map(|holder| format!("part of /dev/{}", holder.file_name().to_string_lossy())));
        }
        users.sort();
        users.dedup();
        users
    }

    /// The disk, and its partitions.
    fn parts(&self, index: u32) -> Vec<Part> {
        let whole = self.block(index);
        let within = whole.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        let partitions = within.filter(|path| path.join("partition").exists());
        std::iter::once(whole.clone()).chain(partitions).filter_map(part).collect()
    }
}

/// A disk, or a partition of one.
struct Part {
    name: String,
    number: String,
    path: PathBuf,
}

fn part(path: PathBuf) -> Option<Part> {
    let name = path.file_name()?.to_str()?.to_owned();
    let number = read_to_string(path.join("dev")).ok()?.trim().to_owned();
    Some(Part { name, number, path })
}

/// Where one of these is mounted, by a table as proc_pid_mountinfo(5) describes it.
fn mounted(table: &str, parts: &[Part]) -> Vec<String> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let number = fields.nth(2)?;
        let at = fields.nth(1)?;
        parts.iter().any(|part| part.number == number).then(|| readable(at))
    };
    table.lines().filter_map(line).collect()
}

/// A path of such a table, in which blanks are octal numbers.
fn readable(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// How the kernel calls it.
pub fn name(index: u32) -> String {
    format!("nbd{index}")
}

/// Its file.
pub fn file(index: u32) -> PathBuf {
    Path::new("/dev").join(name(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (PathBuf, Shown) {
        let root = std::env::temp_dir().join(format!("softroc-{}-devices", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (index, backend) in [(0, "softroc-u0\n"), (1, "other\n"), (10, "softroc-u10\n")] {
            write(&format!("sys/block/nbd{index}/backend"), backend);
            write(&format!("sys/block/nbd{index}/ro"), if index == 10 { "1\n" } else { "0\n" });
            write(&format!("sys/block/nbd{index}/dev"), &format!("43:{}\n", index * 32));
        }
        write("sys/block/nbd2/dev", "43:64\n");
        write("sys/block/sda/dev", "8:0\n");
        write("sys/block/nbd0/nbd0p1/partition", "1\n");
        write("sys/block/nbd0/nbd0p1/dev", "43:1\n");
        write("sys/block/nbd0/nbd0p1/holders/dm-0", "");
        write("proc/swaps", "Filename Type Size\n/dev/nbd10 partition 1\n/dev/nbd1 partition 1\n");
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 43:0 / /srv/my\\040data rw shared:1 - ext4 /dev/nbd0 rw\n";
        write("proc/1/mountinfo", mounts);
        write("proc/self/mountinfo", mounts);
        let shown = Shown { sys: root.join("sys"), proc: root.join("proc") };
        (root, shown)
    }

    #[test]
    fn our_disks_are_told_from_others_and_so_are_their_users() {
        let (root, shown) = machine();
        let found = |index, uuid: &str, read_only| Found { index, uuid: uuid.to_owned(), read_only };
        assert_eq!(shown.ours(), [found(0, "u0", false), found(10, "u10", true)]);
        assert_eq!(shown.users(0), ["mounted at /srv/my data", "part of /dev/dm-0"]);
        assert_eq!(shown.users(10), ["swap on /dev/nbd10"]);
        assert_eq!(shown.users(2), Vec::<String>::new());
        std::fs::remove_dir_all(root).unwrap();
    }
}
