//! Attached disks in `/sys` and `/proc`: their volumes, users and settings.

use super::links;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The prefix of the identifier of each SoftROC disk; the volume's UUID follows.
const OURS: &str = "softroc-";

/// The identifier of a volume's disk in the kernel.
pub fn backend(uuid: &str) -> String {
    format!("{OURS}{uuid}")
}

/// A disk of this machine: its driver and number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Device {
    /// A disk of the kernel's NBD client.
    Nbd(u32),
    /// A ublk disk, served by this process.
    Ublk(u32),
}

impl Device {
    /// The name in the kernel.
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

    /// The device file.
    pub fn file(self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }
}

/// A SoftROC disk in the kernel, made by this or another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachedDisk {
    /// The device.
    pub device: Device,
    /// The UUID of its volume.
    pub uuid: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The locations of the kernel's information.
#[derive(Clone)]
pub struct KernelView {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// The folder with a note for each disk.
    pub notes: PathBuf,
}

impl Default for KernelView {
    fn default() -> KernelView {
        KernelView { sys: "/sys".into(), proc: "/proc".into(), notes: links::NOTES.into() }
    }
}

/// The interval at which the kernel checks requests for a lost connection, and resends them.
const LOOKS_EVERY_MS: u32 = 5000;
/// Its default.
const USUAL_LOOKS_EVERY_MS: u32 = 30_000;
/// The largest request, if the kernel allows it: whole stripes instead of parts.
const LONGEST_KIB: u32 = 1024;

impl KernelView {
    fn block(&self, device: Device) -> PathBuf {
        self.sys.join("block").join(device.name())
    }

    /// All SoftROC disks. A ublk device has no identifier in the kernel: `marked` checks whether it
    /// was made for the volume of its note.
    pub fn ours(&self, marked: impl Fn(u32, &str) -> bool) -> Vec<AttachedDisk> {
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
            let read_only =
                read_to_string(self.block(device).join("ro")).is_ok_and(|ro| ro.trim() == "1");
            Some(AttachedDisk { device, uuid, read_only })
        });
        let mut ours: Vec<AttachedDisk> = ours.collect();
        ours.sort_by_key(|found| found.device);
        ours
    }

    /// Devices with a note but without a disk, and their volumes: the disk is being made, or its
    /// process was killed before.
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

    /// The size of a disk.
    pub fn size_bytes(&self, device: Device) -> Option<u64> {
        let sectors: u64 =
            read_to_string(self.block(device).join("size")).ok()?.trim().parse().ok()?;
        sectors.checked_mul(512)
    }

    /// Applies the settings of SoftROC disks to a new disk. They are optional: without them, it is
    /// slower, or continues later after a restart.
    pub fn set_up(&self, device: Device) {
        self.set(device, "io_timeout", LOOKS_EVERY_MS);
        let most = read_to_string(self.block(device).join("queue/max_hw_sectors_kb"));
        let most = most.ok().and_then(|most| most.trim().parse().ok()).unwrap_or(0);
        if most >= LONGEST_KIB {
            self.set(device, "max_sectors_kb", LONGEST_KIB);
        }
    }

    /// Restores the default settings.
    pub fn set_back(&self, device: Device) {
        self.set(device, "io_timeout", USUAL_LOOKS_EVERY_MS);
    }

    fn set(&self, device: Device, what: &str, value: u32) {
        let path = self.block(device).join("queue").join(what);
        if let Err(error) = std::fs::write(&path, value.to_string()) {
            tracing::debug!("{} cannot be set: {error}", path.display());
        }
    }

    /// Triggers a new check of the device by udev.
    pub fn announce(&self, device: Device) {
        let path = self.block(device).join("uevent");
        if let Err(error) = std::fs::write(&path, "change") {
            tracing::debug!("{} cannot be written: {error}", path.display());
        }
    }

    /// The known users of a disk, each as a part of a sentence.
    pub fn users(&self, device: Device) -> Vec<String> {
        let (parts, mut users) = (self.parts(device), Vec::new());
        for table in ["1/mountinfo", "self/mountinfo"] {
            let table = read_to_string(self.proc.join(table)).unwrap_or_default();
            users.extend(mounted(&table, &parts).into_iter().map(|at| format!("mounted at {at}")));
        }
        let swaps = read_to_string(self.proc.join("swaps")).unwrap_or_default();
        for part in &parts {
            let is_it = |line: &&str| {
                line.split_whitespace().next() == Some(&format!("/dev/{}", part.name))
            };
            users.extend(swaps.lines().find(is_it).map(|_| format!("swap on /dev/{}", part.name)));
            let held = part.path.join("holders").read_dir().into_iter().flatten().flatten();
            users.extend(
                held.map(|holder| format!("part of /dev/{}", holder.file_name().to_string_lossy())),
            );
        }
        users.sort();
        users.dedup();
        users
    }

    /// The disk and its partitions.
    fn parts(&self, device: Device) -> Vec<Part> {
        let whole = self.block(device);
        let within = whole.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        let partitions = within.filter(|path| path.join("partition").exists());
        std::iter::once(whole.clone()).chain(partitions).filter_map(part).collect()
    }
}

/// A disk or a partition.
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

/// The mount points of these, from a table in the format of proc_pid_mountinfo(5).
fn mounted(table: &str, parts: &[Part]) -> Vec<String> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let number = fields.nth(2)?;
        let at = fields.nth(1)?;
        parts.iter().any(|part| part.number == number).then(|| readable(at))
    };
    table.lines().filter_map(line).collect()
}

/// Decodes a path of such a table, in which blanks are octal numbers.
fn readable(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (PathBuf, KernelView) {
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
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 43:0 / /srv/my\\040data rw \
            shared:1 - ext4 /dev/nbd0 rw\n";
        write("proc/1/mountinfo", mounts);
        write("proc/self/mountinfo", mounts);
        for (number, uuid) in [(3, "u3"), (4, "stale")] {
            write(&format!("sys/block/ublkb{number}/ro"), "0\n");
            write(
                &format!("notes/ublkb{number}"),
                &format!("SOFTROC_NAME=x\nSOFTROC_DISK=softroc-{uuid}\n"),
            );
        }
        write("sys/block/ublkb5/ro", "0\n");
        write("notes/ublkb6", "SOFTROC_NAME=y\nSOFTROC_DISK=softroc-u6\n");
        write("notes/nbd7", "SOFTROC_NAME=y\nSOFTROC_DISK=softroc-u7\n");
        let shown = KernelView {
            sys: root.join("sys"),
            proc: root.join("proc"),
            notes: root.join("notes"),
        };
        (root, shown)
    }

    #[test]
    fn our_disks_are_told_from_others_and_so_are_their_users() {
        let (root, shown) = machine();
        let found = |device, uuid: &str, read_only| AttachedDisk {
            device,
            uuid: uuid.to_owned(),
            read_only,
        };
        // The device of a note may belong to another volume by now.
        let ours = shown.ours(|number, uuid| (number, uuid) == (3, "u3"));
        let nbd = [found(Device::Nbd(0), "u0", false), found(Device::Nbd(10), "u10", true)];
        assert_eq!(ours[..2], nbd);
        assert_eq!(ours[2..], [found(Device::Ublk(3), "u3", false)]);
        assert_eq!(shown.users(Device::Nbd(0)), ["mounted at /srv/my data", "part of /dev/dm-0"]);
        assert_eq!(shown.users(Device::Nbd(10)), ["swap on /dev/nbd10"]);
        assert_eq!(shown.users(Device::Nbd(2)), Vec::<String>::new());
        // A process was killed after it had made the device, but not its disk.
        assert_eq!(shown.without_a_disk(), [(6, "u6".to_owned())]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
