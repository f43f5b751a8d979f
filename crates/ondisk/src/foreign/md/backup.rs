//! The file in which mdadm saves the data that a reshape overwrites (`mdadm --grow --backup-file`).
//!
//! ```text
//! 0      header: 16 magic "md_backup_data-1" or "-2", 16 the array's UUID, then 64-bit numbers,
//!        in sectors:
//!        32 time   40 offset of the data in the file   48 their offset in the volume   56 length
//!        64 checksum (32 bits)
//!        72 offset of the second stretch behind the first's data  80, 88 its volume offset, length
//!        96 checksum (32 bits), only in "-2"
//! 4096   the volume's bytes, in order: a stretch, and with "-2" a second one; length 0: unused
//! ```
//!
//! All numbers are little-endian. mdadm saves a stretch, writes the header, and lets the reshape
//! continue to the end of the stretch; it removes a stretch from the header when the reshape has
//! passed it. Hosts do not write to a saved stretch. The block before the data has a copy of the
//! header; in a file both are equal.
//!
//! mdadm's checksums repeat the first byte instead of reading all bytes, so they detect another
//! length of the header, and no damage. The data have no checksum. The decoder can check only
//! offsets, lengths and zeros.

use super::SECTOR;
use crate::bytes::{u32_at, u64_at};
use units::{ByteCount, ByteOffset, ByteRange};

/// The length of the header at the file's beginning.
const HEADER: usize = 512;
/// The distance of the copy of the header before the data.
const COPY: u64 = 4096;
const FIRST_SUM: usize = 64;
const SECOND_SUM: usize = 96;

/// The content of a backup file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The UUID of its array, as stored.
    pub array: [u8; 16],
    /// The time of the header, in seconds since 1970.
    pub written_unix_s: u64,
    /// Saved ranges of the volume, and their offsets in the file.
    pub stretches: Vec<(ByteRange, ByteOffset)>,
}

impl Backup {
    /// The bytes from the file's beginning that decoding needs.
    pub const HEADER: ByteCount = ByteCount(HEADER as u64);

    /// Decodes the header of a file of that size.
    ///
    /// # Errors
    /// When it is no header, or detectably damaged: a sentence without the file's name.
    pub fn decode(header: &[u8], size: ByteCount) -> Result<Backup, String> {
        let is_double = match header.get(..16) {
            Some(b"md_backup_data-1") => false,
            Some(b"md_backup_data-2") => true,
            Some(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                return Err("is empty: no data are saved yet, or the reshape is complete".into());
            }
            _ => {
                return Err(
                    "is no backup of a reshape: it does not begin with md_backup_data".into()
                );
            }
        };
        let header = header.get(..HEADER).ok_or("ends within its header")?;
        let damaged = || "is damaged: its header contradicts itself".to_owned();
        let end = if is_double { SECOND_SUM + 4 } else { FIRST_SUM + 4 };
        let holds_sum = |at: usize| u32_at(header, at) == checksum(&header[..at]);
        if !holds_sum(FIRST_SUM) || is_double && !holds_sum(SECOND_SUM) {
            return Err(damaged());
        }
        // In a single backup, mdadm also writes the offset of a second stretch.
        let unused = if is_double { end..HEADER } else { SECOND_SUM + 4..HEADER };
        if header[unused].iter().any(|byte| *byte != 0) || u32_at(header, FIRST_SUM + 4) != 0 {
            return Err(damaged());
        }
        let bytes = |at: usize| u64_at(header, at).checked_mul(SECTOR).ok_or_else(damaged);
        let data = bytes(40)?;
        if data != COPY {
            return Err(damaged());
        }
        let mut stretches = vec![(bytes(48)?, bytes(56)?, data)];
        if is_double {
            let second = data.checked_add(bytes(72)?).ok_or_else(damaged)?;
            stretches.push((bytes(80)?, bytes(88)?, second));
        }
        stretches.retain(|(_, length, _)| *length > 0);
        stretches.sort_unstable();
        let fits = |(start, length, at): &(u64, u64, u64)| {
            start.checked_add(*length).is_some()
                && at.checked_add(*length).is_some_and(|end| end <= size.0)
        };
        if !stretches.iter().all(fits) {
            return Err("is truncated: it ends before the data in its header".into());
        }
        if stretches.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(damaged());
        }
        let stretch = |(start, length, at)| {
            (ByteRange::new(ByteOffset(start), ByteCount(length)), ByteOffset(at))
        };
        let mut array = [0; 16];
        array.copy_from_slice(&header[16..32]);
        Ok(Backup {
            array,
            written_unix_s: u64_at(header, 32),
            stretches: stretches.into_iter().map(stretch).collect(),
        })
    }
}

/// mdadm's sum, which adds the first byte once for every byte.
fn checksum(bytes: &[u8]) -> u32 {
    let first = bytes.first().map_or(0, |first| i32::from(*first as i8) as u32);
    bytes.iter().fold(0_u32, |sum, _| (sum << 3).wrapping_add(first))
}
