//! Recognises the content of a drive by its first and last bytes: file systems, partition tables,
//! RAID labels,
//! volume managers, encryption, disk images. Pure: bytes in, findings out.
//!
//! Used before a drive is overwritten, so it errs on the side of data: checksums are not verified,
//! because a damaged label still indicates data. Two-byte magic numbers are verified by other
//! fields, so that random bytes are not recognised.
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
//! Sources of the formats: the on-disk headers of the Linux kernel, the magic tables of
//! util-linux's libblkid and of `file`, the SNIA DDF specification 2.0, mdadm's `md_p.h` and
//! `super-intel.c`, the UEFI specification (GPT).

mod ends;
mod filesystems;
mod partitions;
mod raid;
mod table;

pub use ends::{Ends, INSPECTED, is_blank};

use std::fmt;
use units::ByteOffset;

/// The kind of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A partition table.
    PartitionTable,
    /// A file system.
    FileSystem,
    /// Swap space.
    Swap,
    /// A member of an array, or of a pool that spans drives.
    ArrayMember,
    /// A member of a volume manager, cache or replicator.
    VolumeManager,
    /// An encrypted volume.
    Encrypted,
    /// A disk image of a virtual machine.
    DiskImage,
    /// A label that the caller passes.
    Label,
}

/// A recognised format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Its description for use within a sentence: `an ext4 file system named 'root'`.
    pub what: String,
    /// The drive offset of its magic number.
    pub offset: ByteOffset,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.what, self.offset.0)
    }
}

/// A position on a drive of any size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Bytes after the start.
    FromStart(u64),
    /// Bytes before the end.
    FromEnd(u64),
}

/// A label defined by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// Its description for use within a sentence: `a SoftROC label`.
    pub what: &'static str,
    /// Its magic number.
    pub magic: &'static [u8],
    /// Its position, which must be within [`INSPECTED`] of an end.
    pub place: Place,
}

/// The formats on a drive, by offset; empty if none is recognised. `extra`: labels to look for in
/// addition to the known formats.
pub fn inspect(ends: &Ends<'_>, extra: &[Label]) -> Vec<Finding> {
    let mut findings = Vec::new();
    filesystems::find(ends, &mut findings);
    table::find(ends, &mut findings);
    raid::find(ends, &mut findings);
    // Last, because boot sectors of file systems look like partition tables.
    partitions::find(ends, &mut findings);
    for label in extra {
        if let Some(offset) = ends.has(label.place, label.magic) {
            findings.push(Finding { kind: Kind::Label, what: label.what.to_owned(), offset });
        }
    }
    findings.sort_by_key(|finding| (finding.offset, finding.kind));
    findings
}
