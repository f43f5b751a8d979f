//! Formats with a magic number that is long enough to need no further check.

use crate::Kind::{
    self, ArrayMember, DiskImage, Encrypted, FileSystem, PartitionTable, VolumeManager,
};
use crate::Place::{self, FromEnd, FromStart};
use crate::{Ends, Finding};

type Entry = (Kind, &'static str, Place, &'static [u8]);

const SECTOR: u64 = 512;

const STRATIS: &[u8] = b"!Stra0tis\x86\xFF\x02^\x41rh";
const HIGHPOINT: &[u8] = &[0xF0, 0x16, 0x78, 0x5A];
const PROMISE: &[u8] = b"Promise Technology, Inc.";

#[rustfmt::skip]
const MAGICS: &[Entry] = &[
    // File systems.
    (FileSystem, "an XFS file system", FromStart(0), b"XFSB"),
    (FileSystem, "a Btrfs file system", FromStart(0x1_0040), b"_BHRfS_M"),
    (FileSystem, "an NTFS file system", FromStart(3), b"NTFS    "),
    (FileSystem, "a ReFS file system", FromStart(3), b"ReFS\0\0\0\0"),
    (FileSystem, "an exFAT file system", FromStart(3), b"EXFAT   "),
    (FileSystem, "an APFS container", FromStart(32), b"NXSB"),
    (FileSystem, "an F2FS file system", FromStart(1024), &[0x10, 0x20, 0xF5, 0xF2]),
    (FileSystem, "an EROFS file system", FromStart(1024), &[0xE2, 0xE1, 0xF5, 0xE0]),
    (FileSystem, "a bcachefs file system", FromStart(4096 + 24), &[
        0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9,
        0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D, 0xF7, 0xEF,
    ]),
    (FileSystem, "a JFS file system", FromStart(32768), b"JFS1"),
    (FileSystem, "a ReiserFS file system", FromStart(65536 + 52), b"ReIsErFs"),
    (FileSystem, "a ReiserFS file system", FromStart(65536 + 52), b"ReIsEr2Fs"),
    (FileSystem, "a ReiserFS file system", FromStart(65536 + 52), b"ReIsEr3Fs"),
    (FileSystem, "a Reiser4 file system", FromStart(65536), b"ReIsEr4"),
    (FileSystem, "a GFS2 file system", FromStart(65536), &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]),
    (FileSystem, "an OCFS2 file system", FromStart(1024), b"OCFSV2"),
    (FileSystem, "an OCFS2 file system", FromStart(2048), b"OCFSV2"),
    (FileSystem, "an OCFS2 file system", FromStart(4096), b"OCFSV2"),
    (FileSystem, "an OCFS2 file system", FromStart(8192), b"OCFSV2"),
    (FileSystem, "a SquashFS image", FromStart(0), b"hsqs"),
    (FileSystem, "a SquashFS image", FromStart(0), b"sqsh"),
    (FileSystem, "a cramfs image", FromStart(0), &[0x45, 0x3D, 0xCD, 0x28]),
    (FileSystem, "a UFS file system", FromStart(8192 + 1372), &[0x54, 0x19, 0x01, 0x00]),
    (FileSystem, "a UFS2 file system", FromStart(65536 + 1372), &[0x19, 0x01, 0x54, 0x19]),
    (FileSystem, "an ISO 9660 file system", FromStart(32769), b"CD001"),
    (FileSystem, "a UDF file system", FromStart(32769), b"BEA01"),
    // Volume managers, caches, replicators.
    (VolumeManager, "a bcache device", FromStart(4096 + 24), &[
        0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA,
        0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81,
    ]),
    (VolumeManager, "a Ceph BlueStore device", FromStart(0), b"bluestore block device"),
    (VolumeManager, "a VDO device", FromStart(0), b"dmvdo001"),
    (VolumeManager, "a Stratis pool's member", FromStart(512 + 4), STRATIS),
    (VolumeManager, "a Stratis pool's member", FromStart(9 * 512 + 4), STRATIS),
    (VolumeManager, "a DRBD replica", FromEnd(4096 - 60), &[0x83, 0x74, 0x02, 0x6B]),
    (VolumeManager, "a DRBD replica", FromEnd(4096 - 60), &[0x83, 0x74, 0x02, 0x6C]),
    (VolumeManager, "a DRBD replica", FromEnd(4096 - 60), &[0x83, 0x74, 0x02, 0x6D]),
    (VolumeManager, "a Windows dynamic disk", FromStart(6 * SECTOR), b"PRIVHEAD"),
    (VolumeManager, "a FreeBSD GEOM provider", FromEnd(SECTOR), b"GEOM::"),
    // Encryption.
    (Encrypted, "a LUKS encrypted volume", FromStart(0), b"LUKS\xBA\xBE"),
    (Encrypted, "a LUKS encrypted volume (second header)", FromStart(16384), b"SKUL\xBA\xBE"),
    (Encrypted, "a BitLocker encrypted volume", FromStart(3), b"-FVE-FS-"),
    // RAID labels of firmware and older controllers.
    (ArrayMember, "a member of an NVIDIA firmware array", FromEnd(2 * SECTOR), b"NVIDIA"),
    (ArrayMember, "a member of an LSI software array", FromEnd(SECTOR), b"$XIDE$"),
    (ArrayMember, "a member of a Highpoint array", FromStart(9 * SECTOR + 32), HIGHPOINT),
    (ArrayMember, "a member of a Promise array", FromEnd(63 * SECTOR), PROMISE),
    (ArrayMember, "a member of a Promise array", FromEnd(255 * SECTOR), PROMISE),
    (ArrayMember, "a member of a Promise array", FromEnd(256 * SECTOR), PROMISE),
    (ArrayMember, "a member of a Promise array", FromEnd(16 * SECTOR), PROMISE),
    (ArrayMember, "a member of a Promise array", FromEnd(399 * SECTOR), PROMISE),
    // Partition tables other than MBR and GPT.
    (PartitionTable, "an SGI partition table", FromStart(0), &[0x0B, 0xE5, 0xA9, 0x41]),
    (PartitionTable, "a BSD disk label", FromStart(512), &[0x57, 0x45, 0x56, 0x82]),
    (PartitionTable, "a BSD disk label", FromStart(64), &[0x57, 0x45, 0x56, 0x82]),
    // Disk images of virtual machines.
    (DiskImage, "a qcow2 disk image", FromStart(0), b"QFI\xFB"),
    (DiskImage, "a VMDK disk image", FromStart(0), b"KDMV"),
    (DiskImage, "a VMDK disk image", FromStart(0), b"# Disk DescriptorFile"),
    (DiskImage, "a VHDX disk image", FromStart(0), b"vhdxfile"),
    (DiskImage, "a VHD disk image", FromEnd(SECTOR), b"conectix"),
    (DiskImage, "a VDI disk image", FromStart(64), &[0x7F, 0x10, 0xDA, 0xBE]),
    (DiskImage, "a QED disk image", FromStart(0), b"QED\0"),
];

pub(crate) fn find(ends: &Ends<'_>, findings: &mut Vec<Finding>) {
    for (kind, what, place, magic) in MAGICS {
        if let Some(offset) = ends.has(*place, magic) {
            findings.push(Finding { kind: *kind, what: (*what).to_owned(), offset });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{ByteCount, ByteOffset};

    /// The images of the formats' own tools (`tests/`) verify offsets and magic numbers. This test
    /// checks that each entry is reachable, and recognised as itself.
    #[test]
    fn each_magic_is_found_at_its_place_and_only_there() {
        for (kind, what, place, magic) in MAGICS {
            let mut drive = vec![0_u8; 4 << 20];
            let size = ByteCount(4 << 20);
            let offset = match place {
                FromStart(offset) => *offset,
                FromEnd(distance) => size.0 - distance,
            } as usize;
            drive[offset..offset + magic.len()].copy_from_slice(magic);
            let ends = Ends::new(size, &drive[..1 << 20], &drive[3 << 20..]);
            let expected = Finding {
                kind: *kind,
                what: (*what).to_owned(),
                offset: ByteOffset(offset as u64),
            };
            assert!(crate::inspect(&ends, &[]).contains(&expected), "{what}");
            drive.copy_within(offset..offset + magic.len(), offset + 1);
            drive[offset] = 0;
            let ends = Ends::new(size, &drive[..1 << 20], &drive[3 << 20..]);
            assert!(!crate::inspect(&ends, &[]).contains(&expected), "{what} moved");
        }
    }
}
