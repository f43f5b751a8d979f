//! Properties of block devices from `/sys`: the device, its connection and its location.
//!
//! The kernel's `Documentation/ABI` describes the attributes (`stable/sysfs-block`,
//! `testing/sysfs-class-enclosure`, and the SES driver). A missing or empty one is unknown; none is
//! needed to serve data.

use platform::{Hardware, Partition};
use rustix::fs::{major, minor};
use std::fs;
use std::path::{Path, PathBuf};

/// The command interface of a device, beyond reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Interface {
    /// None, or an unknown one.
    #[default]
    Unknown,
    /// NVMe admin commands.
    Nvme,
    /// SCSI commands.
    Scsi,
    /// ATA commands in SCSI pass-throughs.
    Ata,
}

/// The device behind a drive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Device {
    pub interface: Interface,
    pub hardware: Hardware,
    /// The file that switches the locate light of its bay.
    pub locate: Option<PathBuf>,
    /// The file that switches its write cache. The kernel sends the command itself (SCSI MODE
    /// SELECT, translated for ATA; a field of virtio's configuration), and so knows whether flushes
    /// are needed. A direct command would leave it with the wrong state. `queue/write_cache` only
    /// changes the kernel's state, not the device.
    pub cache_type: Option<PathBuf>,
    /// Whether it rotates.
    pub rotational: bool,
    /// Whether the kernel refuses writes to it; opening it for writing still succeeds.
    pub read_only: bool,
}

/// The current size of a block device: the kernel counts 512-byte units, whatever the sector size.
pub(crate) fn size_of(device: u64) -> Option<u64> {
    let file = format!("/sys/dev/block/{}:{}/size", major(device), minor(device));
    let sectors: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    sectors.checked_mul(512)
}

/// The properties of the block device with that number.
pub(crate) fn look_up(device: u64) -> Device {
    look_up_in(Path::new("/sys"), device)
}

fn look_up_in(sys: &Path, device: u64) -> Device {
    let node = sys.join(format!("dev/block/{}:{}", major(device), minor(device)));
    let Ok(node) = fs::canonicalize(node) else { return Device::default() };
    // A partition is a subdirectory of its disk.
    let number = text(&node, "partition").and_then(|number| number.parse().ok());
    let disk = match (number, node.parent()) {
        (Some(_), Some(parent)) => parent,
        _ => &node,
    };
    let part = number.zip(name_of(disk)).map(|(number, disk)| Partition { disk, number });
    let behind = disk.join("device");
    let slot = slot_of(&behind);
    let slot = slot.as_deref();
    let enclosure = slot.and_then(Path::parent);
    Device {
        interface: interface_of(&behind),
        hardware: Hardware {
            vendor: text(&behind, "vendor"),
            model: text(&behind, "model"),
            serial: text(&behind, "serial")
                .or_else(|| unit_serial(&behind))
                .or_else(|| text(disk, "serial")),
            wwn: wwn_of(disk, &behind),
            partition: part,
            backing: backing_of(disk),
            firmware: text(&behind, "firmware_rev").or_else(|| text(&behind, "rev")),
            // SES enclosures have their own identifier; the directory's name is a bus address.
            enclosure: enclosure
                .and_then(|enclosure| text(enclosure, "id").or_else(|| name_of(enclosure))),
            slot: slot.and_then(|slot| {
                let number = text(slot, "slot").filter(|number| number.parse::<u32>().is_ok());
                number.or_else(|| name_of(slot))
            }),
        },
        cache_type: cache_type_of(disk, &behind),
        locate: slot.map(|slot| slot.join("locate")).filter(|file| file.exists()),
        rotational: text(disk, "queue/rotational").as_deref() == Some("1"),
        read_only: text(&node, "ro").as_deref() == Some("1"),
    }
}

/// An attribute without its padding.
fn text(directory: &Path, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(attribute)).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().trim().to_owned())
}

fn interface_of(behind: &Path) -> Interface {
    let subsystem = fs::canonicalize(behind.join("subsystem")).ok().and_then(|path| name_of(&path));
    match subsystem.as_deref() {
        Some("nvme" | "nvme-subsystem") => Interface::Nvme,
        // SAT (SCSI / ATA Translation) reports this vendor for every ATA device.
        Some("scsi") if text(behind, "vendor").as_deref() == Some("ATA") => Interface::Ata,
        Some("scsi") => Interface::Scsi,
        _ => Interface::Unknown,
    }
}

/// The serial number of a SCSI device: vital product data page 80h (SPC-4), four bytes of header.
fn unit_serial(behind: &Path) -> Option<String> {
    let page = fs::read(behind.join("vpd_pg80")).ok()?;
    let len = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let serial = page.get(4..)?;
    let serial = String::from_utf8_lossy(&serial[..len.min(serial.len())]);
    let serial = serial.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!serial.is_empty()).then(|| serial.to_owned())
}

/// The world-wide identifier of a disk: `wwid` of an NVMe namespace, or of a SCSI device (vital
/// product data page 83h). Identifiers made of a vendor's name and a serial number (`t10.`) are not
/// used: they are no better than these.
fn wwn_of(disk: &Path, behind: &Path) -> Option<String> {
    let wwn = text(disk, "wwid").or_else(|| text(behind, "wwid"))?;
    (!wwn.starts_with("t10.")).then_some(wwn)
}

/// The backing file of a loop device: `file:MAJOR:MINOR:INODE`, with the offset if it is not 0.
/// `None` if it is not a loop device, or its file was deleted.
fn backing_of(disk: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(text(disk, "loop/backing_file")?).ok()?;
    let offset = text(disk, "loop/offset").filter(|offset| offset != "0");
    let offset = offset.map_or_else(String::new, |offset| format!("+{offset}"));
    Some(format!("file:{}:{}:{}{offset}", major(file.dev()), minor(file.dev()), file.ino()))
}

/// `scsi_disk/*/cache_type` of a SCSI or ATA disk, `cache_type` of a virtio one.
fn cache_type_of(disk: &Path, behind: &Path) -> Option<PathBuf> {
    let of_scsi = fs::read_dir(behind.join("scsi_disk")).ok();
    let of_scsi = of_scsi
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("cache_type"));
    of_scsi.chain([disk.join("cache_type")]).find(|file| file.exists())
}

/// The directory of the enclosure component (bay) that holds the device.
fn slot_of(behind: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(behind).ok()?;
    let link = entries
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with("enclosure_device:"))?;
    fs::canonicalize(link.path()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory tree like `/sys`, removed when dropped.
    struct Tree(PathBuf);

    impl Tree {
        fn new() -> Tree {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("sysfs-{}-{number}", std::process::id()));
            fs::create_dir_all(root.join("dev/block")).unwrap();
            Tree(root)
        }

        fn file(&self, path: &str, content: impl AsRef<[u8]>) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn link(&self, path: &str, to: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir_all(self.0.join(to)).unwrap();
            symlink(self.0.join(to), path).unwrap();
        }

        fn look_up(&self, major: u32, minor: u32) -> Device {
            look_up_in(&self.0, makedev(major, minor))
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_sas_disk_in_an_enclosure_and_its_partition() {
        let tree = Tree::new();
        tree.link("dev/block/8:16", "devices/h/6:0:3:0/block/sdb");
        tree.link("dev/block/8:17", "devices/h/6:0:3:0/block/sdb/sdb1");
        tree.link("devices/h/6:0:3:0/block/sdb/device", "devices/h/6:0:3:0");
        tree.link("devices/h/6:0:3:0/subsystem", "bus/scsi");
        tree.link(
            "devices/h/6:0:3:0/enclosure_device:Slot 05",
            "devices/h/enclosure/6:0:9:0/Slot 05",
        );
        tree.file("devices/h/6:0:3:0/vendor", "SEAGATE \n");
        tree.file("devices/h/6:0:3:0/model", "ST4000NM0023    \n");
        tree.file("devices/h/6:0:3:0/rev", "0004\n");
        tree.file("devices/h/6:0:3:0/wwid", "naa.5000c500a1b2c3d4\n");
        tree.file("devices/h/6:0:3:0/vpd_pg80", b"\x00\x80\x00\x0cZ1Z0ABCD    ");
        tree.file("devices/h/6:0:3:0/block/sdb/queue/rotational", "1\n");
        tree.file("devices/h/6:0:3:0/block/sdb/ro", "0\n");
        tree.file("devices/h/6:0:3:0/block/sdb/sdb1/partition", "1\n");
        tree.file("devices/h/6:0:3:0/block/sdb/sdb1/ro", "1\n");
        tree.file("devices/h/enclosure/6:0:9:0/id", "0x500304801ef2a03d\n");
        tree.file("devices/h/enclosure/6:0:9:0/Slot 05/slot", "5\n");
        tree.file("devices/h/enclosure/6:0:9:0/Slot 05/locate", "0\n");
        let disk = tree.look_up(8, 16);
        let hardware = Hardware {
            vendor: some("SEAGATE"),
            model: some("ST4000NM0023"),
            serial: some("Z1Z0ABCD"),
            wwn: some("naa.5000c500a1b2c3d4"),
            partition: None,
            backing: None,
            firmware: some("0004"),
            enclosure: some("0x500304801ef2a03d"),
            slot: some("5"),
        };
        assert_eq!((disk.interface, &disk.hardware), (Interface::Scsi, &hardware));
        assert_eq!((disk.rotational, disk.read_only), (true, false));
        assert!(disk.locate.as_ref().unwrap().ends_with("6:0:9:0/Slot 05/locate"));
        let partition = tree.look_up(8, 17);
        let part = Some(Partition { disk: "sdb".to_owned(), number: 1 });
        let hardware = Hardware { partition: part, ..hardware };
        assert_eq!(partition, Device { read_only: true, hardware, ..disk });
    }

    /// Two loop devices over one file counted as two drives, so that their mirror was a single
    /// copy.
    #[test]
    fn what_a_loop_device_lies_on_and_what_identifies_nothing() {
        use std::os::unix::fs::MetadataExt;
        let tree = Tree::new();
        tree.file("disk.img", "x");
        let file = fs::metadata(tree.0.join("disk.img")).unwrap();
        let lies_on = format!("file:{}:{}:{}", major(file.dev()), minor(file.dev()), file.ino());
        for (number, offset) in [(0, "0"), (1, "0"), (2, "1048576")] {
            let place = format!("devices/virtual/block/loop{number}");
            tree.link(&format!("dev/block/7:{number}"), &place);
            tree.file(
                &format!("{place}/loop/backing_file"),
                format!("{}\n", tree.0.join("disk.img").display()),
            );
            tree.file(&format!("{place}/loop/offset"), format!("{offset}\n"));
        }
        let backing = |minor| tree.look_up(7, minor).hardware.backing;
        assert_eq!((backing(0), backing(1)), (Some(lies_on.clone()), Some(lies_on.clone())));
        assert_eq!(backing(2), Some(format!("{lies_on}+1048576")));
        tree.link("dev/block/8:0", "devices/a/block/sda");
        tree.file("devices/a/block/sda/wwid", "t10.ATA     QEMU HARDDISK   QM00005\n");
        assert_eq!(tree.look_up(8, 0).hardware.wwn, None);
    }

    #[test]
    fn an_enclosure_without_numbers_or_lights() {
        let tree = Tree::new();
        tree.link("dev/block/8:0", "devices/a/block/sda");
        tree.link("devices/a/block/sda/device", "devices/a");
        tree.link("devices/a/subsystem", "bus/scsi");
        tree.link("devices/a/enclosure_device:ArrayDevice02", "devices/e/1:0:0:0/ArrayDevice02");
        tree.file("devices/a/vendor", "ATA     \n");
        tree.file("devices/e/1:0:0:0/ArrayDevice02/slot", "-1\n");
        let disk = tree.look_up(8, 0);
        assert_eq!(disk.interface, Interface::Ata);
        assert_eq!(
            (disk.hardware.enclosure, disk.hardware.slot),
            (some("1:0:0:0"), some("ArrayDevice02"))
        );
        assert_eq!((disk.locate, disk.rotational), (None, false));
    }

    #[test]
    fn nvme_with_one_path_or_several() {
        let tree = Tree::new();
        for (minor, class) in [(0, "nvme"), (1, "nvme-subsystem")] {
            let place = format!("devices/n{minor}");
            tree.link(&format!("dev/block/259:{minor}"), &format!("{place}/nvme{minor}n1"));
            tree.link(&format!("{place}/nvme{minor}n1/device"), &place);
            tree.link(&format!("{place}/subsystem"), &format!("class/{class}"));
            tree.file(&format!("{place}/model"), "SAMSUNG MZVL2512HCJQ-00B00              \n");
            tree.file(&format!("{place}/serial"), "S675NX0R123456      \n");
            tree.file(&format!("{place}/firmware_rev"), "GXA7601Q\n");
            let drive = tree.look_up(259, minor);
            assert_eq!(drive.interface, Interface::Nvme);
            assert_eq!(drive.hardware.model, some("SAMSUNG MZVL2512HCJQ-00B00"));
            assert_eq!(drive.hardware.serial, some("S675NX0R123456"));
            assert_eq!(drive.hardware.firmware, some("GXA7601Q"));
            assert_eq!((drive.hardware.enclosure, drive.hardware.vendor), (None, None));
        }
    }

    #[test]
    fn what_is_unknown_stays_so() {
        let tree = Tree::new();
        assert_eq!(tree.look_up(7, 0), Device::default());
        tree.link("dev/block/254:0", "devices/virtio0/block/vda");
        tree.link("devices/virtio0/block/vda/device", "devices/virtio0");
        tree.link("devices/virtio0/subsystem", "bus/virtio");
        tree.file("devices/virtio0/vendor", "0x1af4\n");
        tree.file("devices/virtio0/block/vda/serial", "disk-7");
        tree.file("devices/virtio0/vpd_pg80", b"\x00\x80");
        let drive = tree.look_up(254, 0);
        assert_eq!((drive.interface, drive.hardware.serial), (Interface::Unknown, some("disk-7")));
    }
}
