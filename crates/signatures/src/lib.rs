//! Recognises what a drive holds by its first and last bytes: file systems, partition tables, RAID labels,
//! volume managers, encryption, disk images. Pure: bytes in, findings out.
//!
//! Whoever is about to overwrite a drive asks here first. The recognisers are therefore generous: a damaged
//! label still says that somebody cared for the drive, so checksums are not asked for; magic numbers of two
//! bytes are, on the other hand, backed by other fields, so that a drive full of random bytes passes.
//!
//! ```
//! use signatures::{Ends, Kind, inspect};
//! use units::ByteCount;
//!
//! let mut drive = vec![0_u8; 2 << 20];
//! drive[4086..4096].copy_from_slice(b"SWAPSPACE2");
//! let ends = Ends::new(ByteCount(2 << 20), &drive[..1 << 20], &drive[1 << 20..]);
//! let findings = inspect(&ends, &[]);
//! assert_eq!(findings[0].kind, Kind::Swap);
//! assert_eq!(findings[0].to_string(), "Linux swap space (at byte 4086)");
//! ```
//!
//! Sources of the formats: the on-disk headers of the Linux kernel, the magic tables of util-linux's libblkid
//! and of `file`, the SNIA DDF specification 2.0, mdadm's `md_p.h` and `super-intel.c`, the UEFI
//! specification (GPT).

mod ends;
mod filesystems;
mod partitions;
mod raid;
mod table;

pub use ends::{Ends, INSPECTED, is_blank};

use std::fmt;
use units::ByteOffset;

/// What kind of thing was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A table of partitions.
    PartitionTable,
    /// A file system.
    FileSystem,
    /// Swap space.
    Swap,
    /// A member of an array, or of a pool that spans drives.
    ArrayMember,
    /// A volume manager's, a cache's or a replicator's part.
    VolumeManager,
    /// An encrypted volume.
    Encrypted,
    /// A virtual machine's disk in a file.
    DiskImage,
    /// A label that the caller asked for.
    Label,
}

/// Something that a drive holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What kind.
    pub kind: Kind,
    /// What it is, to be read within a sentence: `an ext4 file system named 'root'`.
    pub what: String,
    /// Where its magic number lies on the drive.
    pub offset: ByteOffset,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.what, self.offset.0)
    }
}

/// Where bytes lie on a drive of any size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// So many bytes after the start.
    FromStart(u64),
    /// So many bytes before the end.
    FromEnd(u64),
}

/// A label that only the caller knows: its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// What it is, to be read within a sentence: `a SoftROC label`.
    pub what: &'static str,
    /// The bytes it is known by.
    pub magic: &'static [u8],
    /// Where they begin. It must be within [`INSPECTED`] of one of the ends to be seen.
    pub place: Place,
}

/// What the drive with these ends holds, in the order of its bytes; nothing where nothing is recognised.
/// `extra`: labels to look for besides those that are known here.
pub fn inspect(ends: &Ends<'_>, extra: &[Label]) -> Vec<Finding> {
    let mut findings = Vec::new();
    filesystems::find(ends, &mut findings);
    table::find(ends, &mut findings);
    raid::find(ends, &mut findings);
    // Last: boot sectors of file systems look like partition tables.
    partitions::find(ends, &mut findings);
    for label in extra {
        if let Some(offset) = ends.has(label.place, label.magic) {
            findings.push(Finding { kind: Kind::Label, what: label.what.to_owned(), offset });
        }
    }
    findings.sort_by_key(|finding| (finding.offset, finding.kind));
    findings
}
