//! Arrays to be checked by other programs: every level and layout that SoftROC and Linux md have in
//! common, created by the real program on file drives, partly written.

use super::host::Host;
use super::{Controller, pattern};
use std::path::PathBuf;

/// The size of the drives: 32 MiB are the reserved tail.
pub const DRIVE: &str = "36M";
/// The capacity of each drive for a volume.
pub const MEMBER_BYTES: u64 = 4 << 20;
/// The strip of all volumes, in bytes.
pub const STRIP_BYTES: u64 = 64 << 10;

/// How Linux md assembles the array.
#[derive(Clone, Copy)]
pub enum Known {
    /// By the metadata on its drives, as that level and layout; the latter is md's value in sysfs.
    Structures(&'static str, u32),
    /// It supports the layout, but not its DDF code: level and layout are passed to it.
    Explicit(&'static str, &'static str),
}
use Known::{Explicit, Structures};

/// One kind of array.
#[derive(Clone, Copy)]
pub struct Kind {
    pub level: &'static str,
    /// The layout, if the level offers several.
    pub arrangement: Option<&'static str>,
    pub drives: usize,
    pub spans: usize,
    pub copies: usize,
    /// The level that `mdadm --examine` shows for each span.
    pub examined: &'static str,
    pub known: Known,
}

const fn kind(level: &'static str, drives: usize, examined: &'static str, known: Known) -> Kind {
    Kind { level, arrangement: None, drives, spans: 1, copies: 1, examined, known }
}

const fn parity(
    level: &'static str,
    arrangement: &'static str,
    examined: &'static str,
    known: Known,
) -> Kind {
    let drives = if examined.len() == 5 && examined.as_bytes()[4] == b'6' { 5 } else { 4 };
    Kind { arrangement: Some(arrangement), ..kind(level, drives, examined, known) }
}

/// Two near copies, for md's RAID 10.
const NEAR_2: u32 = 0x102;

/// All kinds.
pub const KINDS: [Kind; 17] = [
    kind("raid0", 3, "RAID0", Structures("raid0", 0)),
    kind("raid1", 2, "RAID1", Structures("raid1", 0)),
    kind("raid1", 3, "RAID1", Structures("raid1", 0)),
    Kind { spans: 2, ..kind("raid10", 4, "RAID1", Structures("raid10", NEAR_2)) },
    Kind { spans: 3, ..kind("raid10", 6, "RAID1", Structures("raid10", NEAR_2)) },
    Kind { copies: 2, ..kind("raid1e", 4, "RAID1E", Structures("raid10", NEAR_2)) },
    Kind { copies: 2, ..kind("raid1e", 5, "RAID1E", Structures("raid10", NEAR_2)) },
    kind("raid4", 4, "RAID4", Structures("raid4", 0)),
    parity("raid5", "right-asymmetric", "RAID5", Structures("raid5", 1)),
    parity("raid5", "left-asymmetric", "RAID5", Structures("raid5", 0)),
    parity("raid5", "left-symmetric", "RAID5", Structures("raid5", 2)),
    parity("raid5", "right-symmetric", "RAID5", Explicit("5", "right-symmetric")),
    parity("raid5", "parity-first", "RAID4", Explicit("5", "parity-first")),
    parity("raid5", "parity-last", "RAID4", Structures("raid4", 0)),
    parity("raid6", "ddf-zero-restart", "RAID6", Structures("raid6", 8)),
    parity("raid6", "ddf-n-restart", "RAID6", Structures("raid6", 9)),
    parity("raid6", "ddf-n-continue", "RAID6", Structures("raid6", 10)),
];

impl Kind {
    /// A name for a volume; at most 16 bytes, the limit of DDF.
    pub fn name(&self) -> String {
        let arrangement = self.arrangement.unwrap_or_default();
        let initials: String =
            arrangement.split('-').filter_map(|word| word.chars().next()).collect();
        format!("{}-{}{initials}", self.level, self.drives)
    }

    pub fn is_redundant(&self) -> bool {
        self.level != "raid0"
    }

    /// The number of drives that may fail, in the worst case.
    pub fn survives(&self) -> usize {
        match (self.level, self.drives) {
            ("raid0", _) => 0,
            ("raid6", _) | ("raid1", 3) => 2,
            _ => 1,
        }
    }
}

/// A volume and the paths of its drives.
pub struct Judged {
    pub kind: Kind,
    pub name: String,
    pub drives: Vec<PathBuf>,
    pub capacity: u64,
}

/// Creates such a volume and writes to it at the start, and once more further on; neither write
/// covers whole stripes or sectors, and most of the volume is never written.
pub fn make(controller: &Controller, kind: Kind) -> Judged {
    let name = kind.name();
    let paths: Vec<String> = (0..kind.drives)
        .map(|slot| controller.folder.file(&format!("{name}.{slot}.img")))
        .collect();
    let mut add = vec!["drive", "add", "--create", DRIVE];
    add.extend(paths.iter().map(String::as_str));
    controller.softroc(&add).ok();
    let mut create: Vec<String> =
        ["volume", "create", &name, "--level", kind.level, "--strip", "64K"]
            .map(str::to_owned)
            .into();
    create.extend(
        kind.arrangement.iter().flat_map(|name| ["--layout".to_owned(), (*name).to_owned()]),
    );
    create.push("--drives".to_owned());
    create.extend(paths.iter().cloned());
    controller.softroc(&create.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    let capacity = controller.capacity(&name);
    write(controller, &name, 0, &pattern(1, capacity as usize / 3 + 1234));
    write(controller, &name, capacity / 2 + 98_765, &pattern(2, 200_003));
    let drives = paths.into_iter().map(PathBuf::from).collect();
    Judged { kind, name, drives, capacity }
}

/// Writes to a volume over NBD, and flushes.
pub fn write(controller: &Controller, volume: &str, at: u64, data: &[u8]) {
    let mut host = Host::connect(&controller.nbd_socket(), volume).expect("the volume is served");
    host.write(at, data).expect("it is written");
    host.flush().expect("it is flushed");
}
