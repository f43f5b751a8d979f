//! Disks as the kernel shows them: which are ours, who uses them, how they are set.

use super::links;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// What the identifier of each of our disks begins with; the volume's UUID follows.
const OURS: &str = "softroc-";

/// How the kernel identifies the disk of a volume.
pub fn backend(uuid: &str) -> String {
    format!("{OURS}{uuid}")
}

/// A disk of this machine: which of the kernel's ways it goes, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Device {
    /// The kernel's NBD client has it.
    Nbd(u32),
    /// It is served from here.
    Ublk(u32),
}

impl Device {
    /// How the kernel calls it.
    pub fn name(self) -> String {
        match self {
            Device::Nbd(number) => format!("nbd{number}"),
            Device::Ublk(number) => format!("ublkb{number}"),
        }
    }

    fn of(name: &str) -> Option<Device> {
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
        number("nbd").map(Device::Nbd).or_else(|| number("ublkb").map(Device::Ublk))
    }

    /// Its file.
    pub fn file(self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }
}

/// A disk of ours that the kernel has, whoever made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Which.
    pub device: Device,
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
    /// Where there is a note of each disk.
    pub notes: PathBuf,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown { sys: "/sys".into(), proc: "/proc".into(), notes: links::NOTES.into() }
    }
}

/// How long the kernel lets pass between two looks at a request: one whose connection is over is sent again after that.
const LOOKS_EVERY_MS: u32 = 5000;
/// What it is otherwise.
const USUAL_LOOKS_EVERY_MS: u32 = 30_000;
/// The longest request, where the kernel allows it: whole stripes, not parts of them.
const LONGEST_KIB: u32 = 1024;

impl Shown {
    fn block(&self, device: Device) -> PathBuf {
        self.sys.join("block").join(device.name())
    }

    /// Every disk of ours. Of a device that is served from here the kernel knows no name: `marked` says whether it is made for
    /// the volume that its note names.
    pub fn ours(&self, marked: impl Fn(u32, &str) -> bool) -> Vec<Found> {
        let Ok(all) = self.sys.join("block").read_dir() else { return Vec::new() };
        let ours = all.filter_map(|entry| {
            let device = Device::of(entry.ok()?.file_name().to_str()?)?;
            let uuid = match device {
                Device::Nbd(_) => {
                    let backend = read_to_string(self.block(device).join("backend")).ok()?;
                    backend.trim().strip_prefix(OURS)?.to_owned()
                }
                Device::Ublk(number) => {
                    links::noted(&self.notes, device).filter(|uuid| marked(number, uuid))?
                }
            };
            let read_only = read_to_string(self.block(device).join("ro")).is_ok_and(|ro| ro.trim() == "1");
            Some(Found { device, uuid, read_only })
        });
        let mut ours: Vec<Found> = ours.collect();
        ours.sort_by_key(|found| found.device);
        ours
    }

    /// Devices of which there is a note and no disk: somebody is about to make the disk, or was killed before. With the volume.
    pub fn without_a_disk(&self) -> Vec<(u32, String)> {
        let Ok(notes) = self.notes.read_dir() else { return Vec::new() };
        let left = notes.filter_map(|entry| match Device::of(entry.ok()?.file_name().to_str()?)? {
            device @ Device::Ublk(number) if !self.block(device).exists() => {
                Some((number, links::noted(&self.notes, device)?))
            }
            _ => None,
        });
        left.collect()
    }

    /// How large it is.
    pub fn size_bytes(&self, device: Device) -> Option<u64> {
        let sectors: u64 = read_to_string(self.block(device).join("size")).ok()?.trim().parse().ok()?;
        sectors.checked_mul(512)
    }

    /// Has a new disk be as ours are. It works otherwise too, but more slowly, or takes longer to go on after a restart.
    pub fn set_up(&self, device: Device) {
        self.set(device, "io_timeout", LOOKS_EVERY_MS);
        let most = read_to_string(self.block(device).join("queue/max_hw_sectors_kb"));
        let most = most.ok().and_then(|most| most.trim().parse().ok()).unwrap_or(0);
        if most >= LONGEST_KIB {
            self.set(device, "max_sectors_kb", LONGEST_KIB);
        }
    }

    /// Has it be as it was before.
    pub fn set_back(&self, device: Device) {
        self.set(device, "io_timeout", USUAL_LOOKS_EVERY_MS);
    }

    fn set(&self, device: Device, what: &str, value: u32) {
        let path = self.block(device).join("queue").join(what);
        if let Err(error) = std::fs::write(&path, value.to_string()) {
            tracing::debug!("{} is not set: {error}", path.display());
        }
    }

    /// Has whoever watches devices (udev) look at it anew.
    pub fn announce(&self, device: Device) {
        let path = self.block(device).join("uevent");
        if let Err(error) = std::fs::write(&path, "change") {
            tracing::debug!("{} is not written: {error}", path.display());
        }
    }

    /// Who uses a disk, as far as the system tells: a part of a sentence each.
    pub fn users(&self, device: Device) -> Vec<String> {
        let (parts, mut users) = (self.parts(device), Vec::new());
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
    fn parts(&self, device: Device) -> Vec<Part> {
        let whole = self.block(device);
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
        for (number, uuid) in [(3, "u3"), (4, "stale")] {
            write(&format!("sys/block/ublkb{number}/ro"), "0\n");
            write(&format!("notes/ublkb{number}"), &format!("SOFTROC_NAME=x\nSOFTROC_DISK=softroc-{uuid}\n"));
        }
        write("sys/block/ublkb5/ro", "0\n");
        write("notes/ublkb6", "SOFTROC_NAME=y\nSOFTROC_DISK=softroc-u6\n");
        write("notes/nbd7", "SOFTROC_NAME=y\nSOFTROC_DISK=softroc-u7\n");
        let shown = Shown { sys: root.join("sys"), proc: root.join("proc"), notes: root.join("notes") };
        (root, shown)
    }

    #[test]
    fn our_disks_are_told_from_others_and_so_are_their_users() {
        let (root, shown) = machine();
        let found = |device, uuid: &str, read_only| Found { device, uuid: uuid.to_owned(), read_only };
        // The device that a note is about may be another one by now.
        let ours = shown.ours(|number, uuid| (number, uuid) == (3, "u3"));
        let nbd = [found(Device::Nbd(0), "u0", false), found(Device::Nbd(10), "u10", true)];
        assert_eq!(ours[..2], nbd);
        assert_eq!(ours[2..], [found(Device::Ublk(3), "u3", false)]);
        assert_eq!(shown.users(Device::Nbd(0)), ["mounted at /srv/my data", "part of /dev/dm-0"]);
        assert_eq!(shown.users(Device::Nbd(10)), ["swap on /dev/nbd10"]);
        assert_eq!(shown.users(Device::Nbd(2)), Vec::<String>::new());
        // A process was killed when it had made the device, and not yet its disk.
        assert_eq!(shown.without_a_disk(), [(6, "u6".to_owned())]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
