//! The file in which mdadm keeps what a reshape overwrites (`mdadm --grow --backup-file`).
//!
//! ```text
//! 0      header: 16 magic "md_backup_data-1" or "-2", 16 the array's UUID, then numbers of 64 bits, counted in sectors:
//!        32 time   40 where data begin in the file   48 where in the volume they are from   56 how many   64 checksum (32 bits)
//!        72 where the second stretch begins behind the first's data   80 and 88 the same of it   96 checksum (32 bits), of "-2" alone
//! 4096   the volume's bytes, in their order: a stretch, and with "-2" another one; a stretch of no length is none
//! ```
//!
//! All is little-endian. mdadm saves a stretch, writes the header, and lets the reshape go on as far as that; a stretch that the reshape has
//! passed is taken out of the header. While a stretch is saved, nobody writes to it. There is a copy of the header, in the block before
//! the data: in a file it is the same one.
//!
//! The checksums take the first byte for each byte in turn, so that they notice another length of the header, and no damage. There is none
//! over the data. What can be held against something is: places, lengths, zeroes.

use super::SECTOR;
use crate::bytes::{u32_at, u64_at};
use units::{ByteCount, ByteOffset, ByteRange};

/// So much of the file's beginning is its header.
const HEADER: usize = 512;
/// How far the copy of the header is before the data.
const COPY: u64 = 4096;
const FIRST_SUM: usize = 64;
const SECOND_SUM: usize = 96;

/// What a backup file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The UUID of the array that it is of, as it is stored.
    pub array: [u8; 16],
    /// When the header was written, in seconds since 1970.
    pub written_unix_s: u64,
    /// What it has: bytes of the volume, and where in the file they begin.
    pub stretches: Vec<(ByteRange, ByteOffset)>,
}

impl Backup {
    /// How much of a file's beginning is to be read to decode it.
    pub const HEADER: ByteCount = ByteCount(HEADER as u64);

    /// What the header of a file of that size says.
    ///
    /// # Errors
    /// When it is none, or damaged as far as that can be noticed: a sentence without the file's name.
    pub fn decode(header: &[u8], size: ByteCount) -> Result<Backup, String> {
        let is_double = match header.get(..16) {
            Some(b"md_backup_data-1") => false,
            Some(b"md_backup_data-2") => true,
            Some(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                return Err("is empty: mdadm has saved nothing there yet, or the reshape is done".into());
            }
            _ => return Err("is no backup of a reshape: it does not begin with md_backup_data".into()),
        };
        let header = header.get(..HEADER).ok_or("ends within its header")?;
        let damaged = || "is damaged: its header contradicts itself".to_owned();
        let end = if is_double { SECOND_SUM + 4 } else { FIRST_SUM + 4 };
        let holds_sum = |at: usize| u32_at(header, at) == checksum(&header[..at]);
        if !holds_sum(FIRST_SUM) || is_double && !holds_sum(SECOND_SUM) {
            return Err(damaged());
        }
        // Of a single backup mdadm writes where a second stretch would be.
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
            start.checked_add(*length).is_some() && at.checked_add(*length).is_some_and(|end| end <= size.0)
        };
        if !stretches.iter().all(fits) {
            return Err("is cut off: it ends before the data that its header tells of".into());
        }
        if stretches.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(damaged());
        }
        let stretch =
            |(start, length, at)| (ByteRange::new(ByteOffset(start), ByteCount(length)), ByteOffset(at));
        let mut array = [0; 16];
        array.copy_from_slice(&header[16..32]);
        Ok(Backup {
            array,
            written_unix_s: u64_at(header, 32),
            stretches: stretches.into_iter().map(stretch).collect(),
        })
    }
}

/// mdadm's sum, which takes the first byte as often as there are bytes.
fn checksum(bytes: &[u8]) -> u32 {
    let first = bytes.first().map_or(0, |first| i32::from(*first as i8) as u32);
    bytes.iter().fold(0_u32, |sum, _| (sum << 3).wrapping_add(first))
}
