//! The block device below a file or device node: transferred bytes, temperature, description.

use super::surroundings::number;
use std::fs::{self, read_to_string};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use storagebench::DeviceCounters;
use units::{ByteCount, decimal_capacity};

/// The sector size of counters in /sys, independent of the device.
const SYS_SECTOR: u64 = 512;

/// A block device in /sys.
pub struct BlockDevice {
    /// The kernel's name: `sda1`.
    name: String,
    /// Its folder, which may be a partition's.
    folder: PathBuf,
    /// The folder of the whole device.
    whole: PathBuf,
}

impl BlockDevice {
    /// The device at `path`, or below the file there; `None` without one (another kind of target, a
    /// file system without a single device).
    pub fn below(path: &Path) -> Option<BlockDevice> {
        let metadata = fs::metadata(path).ok()?;
        let device =
            if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let name = folder.file_name()?.to_str()?.to_owned();
        let whole = if folder.join("partition").exists() {
            folder.parent()?.to_owned()
        } else {
            folder.clone()
        };
        Some(BlockDevice { name, folder, whole })
    }

    /// The transferred bytes: fields 3 and 7 of its `stat` (Documentation/block/stat.rst of the
    /// kernel).
    pub fn counters(&self) -> Option<DeviceCounters> {
        let stat = read_to_string(self.folder.join("stat")).ok()?;
        let fields: Vec<u64> =
            stat.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        Some(DeviceCounters {
            name: self.name.clone(),
            read_bytes: fields.get(2)? * SYS_SECTOR,
            written_bytes: fields.get(6)? * SYS_SECTOR,
        })
    }

    /// The temperature and its throttling limit, from its hwmon folder, in thousandths of a degree.
    pub fn celsius(&self) -> Option<(f64, f64)> {
        let near = [self.whole.join("device/hwmon"), self.whole.join("device")];
        let sensor = near.iter().find_map(|folder| {
            fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path()).find(
                |path| {
                    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
                        name.strip_prefix("hwmon")
                            .is_some_and(|number| number.parse::<u32>().is_ok())
                    })
                },
            )
        })?;
        let celsius = |file: &str| Some(number(&sensor.join(file))? as f64 / 1e3);
        Some((celsius("temp1_input")?, celsius("temp1_max")?))
    }

    /// Its description and kernel settings: names and values.
    pub fn describe(&self) -> Vec<(String, String)> {
        let text = |file: &str| {
            let text = read_to_string(self.whole.join(file)).ok()?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let queue = |file: &str| text(&format!("queue/{file}"));
        let mut facts = vec![("device".to_owned(), self.name.clone())];
        let mut add = |name: &str, value: Option<String>| {
            facts.extend(value.map(|value| (name.to_owned(), value)));
        };
        let model =
            [text("device/vendor"), text("device/model")].into_iter().flatten().collect::<Vec<_>>();
        add("model", (!model.is_empty()).then(|| model.join(" ")));
        add("firmware", text("device/firmware_rev").or_else(|| text("device/rev")));
        let sectors = number(&self.whole.join("size"));
        add("capacity", sectors.map(|sectors| decimal_capacity(ByteCount(sectors * SYS_SECTOR))));
        add(
            "rotating",
            queue("rotational").map(|value| if value == "1" { "yes" } else { "no" }.to_owned()),
        );
        add("scheduler", queue("scheduler").map(|line| chosen(&line)));
        add("write cache", queue("write_cache"));
        add("queue", queue("nr_requests").map(|count| format!("{count} requests")));
        add("read ahead", queue("read_ahead_kb").map(|kib| format!("{kib} KiB")));
        facts
    }
}

/// The selected entry in brackets, as in `mq-deadline [none] bfq`.
fn chosen(line: &str) -> String {
    let inner = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or_else(|| line.to_owned(), |(name, _)| name.to_owned())
}

/// The file system of a path: `ext4 at /srv (rw,relatime)`, by the longest mount point above it.
pub fn mount_of(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    mount_in(&read_to_string("/proc/self/mountinfo").ok()?, &path)
}

/// Lines of mountinfo (proc_pid_mountinfo(5)): six fields, optional ones, a dash, type, source,
/// super options.
fn mount_in(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let point = fields.get(4)?.replace("\\040", " ");
        path.starts_with(&point)
            .then(|| (point, fields[5].to_owned(), kind.split(' ').next().unwrap_or("")))
    });
    // The last of several mounts on one point is visible.
    let (point, options, kind) = mounts.max_by_key(|(point, ..)| point.len())?;
    Some(format!("{kind} at {point} ({options})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("mq-deadline [kyber] none"), "kyber");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn a_path_is_on_the_longest_mount_above_it() {
        let table = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                     30 22 8:2 / /srv rw,noatime - xfs /dev/sda2 rw\n\
                     31 22 0:40 / /srv/my\\040files ro - tmpfs tmpfs rw\n";
        for (path, mount) in [
            ("/home/a", "ext4 at / (rw,relatime)"),
            ("/srv/a", "xfs at /srv (rw,noatime)"),
            ("/srvother", "ext4 at / (rw,relatime)"),
            ("/srv/my files/a", "tmpfs at /srv/my files (ro)"),
        ] {
            assert_eq!(mount_in(table, Path::new(path)).as_deref(), Some(mount), "{path}");
        }
        assert_eq!(mount_in("", Path::new("/a")), None);
    }

    #[test]
    fn what_is_no_file_has_no_device_below() {
        assert!(BlockDevice::below(Path::new("mem:1G")).is_none());
        assert!(BlockDevice::below(Path::new("/proc/self/status")).is_none());
    }
}
