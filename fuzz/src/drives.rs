//! Drives as an input: sizes, serial numbers, and the few bytes that differ from the filler.
//!
//! ```text
//! 0 1 flags: 1 checksums are corrected on reads, 2 extended search
//! then drives and their parts, in order, until another letter follows; numbers are little-endian
//! 'D'  8 size in bytes   1 filler   1 length of the serial number   the serial number
//! 'P'  8 offset on the drive        2 length                        that many bytes, or as many
//!                                                                   as are left
//! ```

use ondisk::ddf::Checksum;
use ondisk::foreign::Glimpse;
use units::{ByteCount, ByteOffset, ByteRange};

/// Checksums are corrected on reads.
pub const SEAL: u8 = 1;
/// Searches for metadata at wrong places.
pub const SEARCH: u8 = 2;

const MOST_DRIVES: usize = 4;
const MOST_PARTS: usize = 512;
/// The longest read of a decoder of Linux md or Intel metadata; a search reads more.
const LONGEST_READ: usize = 64 << 10;

/// A drive of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Its size in bytes.
    pub size: u64,
    /// The value of all bytes outside the parts.
    pub filler: u8,
    /// Its serial number; empty: unknown.
    pub serial: String,
    /// Bytes with their offsets; later parts overwrite earlier ones.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// Whether checksums are corrected on reads.
    pub seals: bool,
}

/// The flags and the drives of an input.
pub fn decode(input: &[u8]) -> (u8, Vec<Disk>) {
    let Some((flags, mut rest)) = input.split_first() else { return (0, Vec::new()) };
    let mut disks: Vec<Disk> = Vec::new();
    while let Some((tag, after)) = rest.split_first() {
        let Some((number, after)) = after.split_at_checked(8) else { break };
        let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
        match (tag, after) {
            (b'D', [filler, len, after @ ..]) if disks.len() < MOST_DRIVES => {
                let (serial, after) = after.split_at(after.len().min(usize::from(*len)));
                let serial = String::from_utf8_lossy(serial).into_owned();
                let seals = flags & SEAL != 0;
                disks.push(Disk {
                    size: number,
                    filler: *filler,
                    serial,
                    parts: Vec::new(),
                    seals,
                });
                rest = after;
            }
            (b'P', [low, high, after @ ..]) => {
                let len = usize::from(u16::from_le_bytes([*low, *high]));
                let (bytes, after) = after.split_at(after.len().min(len));
                if let Some(disk) = disks.last_mut().filter(|disk| disk.parts.len() < MOST_PARTS) {
                    disk.parts.push((number, bytes.to_vec()));
                }
                rest = after;
            }
            _ => break,
        }
    }
    (*flags, disks)
}

/// The input for these flags and drives. Runs of filler of eight bytes or more are left out.
pub fn encode(flags: u8, disks: &[Disk]) -> Vec<u8> {
    let mut input = vec![flags];
    for disk in disks {
        input.push(b'D');
        input.extend(disk.size.to_le_bytes());
        let serial = &disk.serial.as_bytes()[..disk.serial.len().min(255)];
        input.extend([disk.filler, serial.len() as u8]);
        input.extend(serial);
        for (at, bytes) in
            disk.parts.iter().flat_map(|(at, bytes)| without_filler(*at, bytes, disk.filler))
        {
            input.push(b'P');
            input.extend(at.to_le_bytes());
            input.extend((bytes.len() as u16).to_le_bytes());
            input.extend(bytes);
        }
    }
    input
}

fn without_filler(at: u64, bytes: &[u8], filler: u8) -> Vec<(u64, &[u8])> {
    const SHORTEST: usize = 16;
    let mut parts = Vec::new();
    let mut index = 0;
    while let Some(begin) =
        bytes[index..].iter().position(|byte| *byte != filler).map(|begin| index + begin)
    {
        let mut end = begin + 1;
        let mut seen = end;
        while seen < bytes.len() && seen - end < SHORTEST && end - begin < 32_768 {
            seen += 1;
            if bytes[seen - 1] != filler {
                end = seen;
            }
        }
        parts.push((at + begin as u64, &bytes[begin..end]));
        index = end;
    }
    parts
}

impl Disk {
    /// The bytes of a range.
    pub fn read(&self, range: ByteRange) -> Vec<u8> {
        let mut bytes = vec![self.filler; range.len.as_usize()];
        for (at, part) in &self.parts {
            let Some(end) = at.checked_add(part.len() as u64) else { continue };
            let (from, to) = ((*at).max(range.start.0), end.min(range.start.0 + range.len.0));
            if from < to {
                let target = (from - range.start.0) as usize..(to - range.start.0) as usize;
                bytes[target].copy_from_slice(&part[(from - at) as usize..(to - at) as usize]);
            }
        }
        bytes
    }

    /// An empty probe buffer of it.
    pub fn glimpse(&self) -> Glimpse {
        let serial = (!self.serial.is_empty()).then(|| self.serial.clone());
        Glimpse::new(ByteCount(self.size)).with_serial(serial)
    }

    /// Reads the wanted ranges into a probe buffer; returns whether any were wanted. Corrected
    /// checksums are stored on the drive.
    pub fn satisfy(&mut self, glimpse: &mut Glimpse, seal: &mut Sealer) -> bool {
        let wanted = glimpse.wanted();
        for range in &wanted {
            let mut bytes = self.read(*range);
            if self.seals {
                let before = bytes.clone();
                seal.seal(&mut bytes);
                let changed = (0..bytes.len()).filter(|at| bytes[*at] != before[*at]);
                self.parts.extend(changed.map(|at| (range.start.0 + at as u64, vec![bytes[at]])));
            }
            glimpse.put(*range, Some(bytes));
        }
        !wanted.is_empty()
    }

    /// Overwrites bytes.
    ///
    /// # Panics
    /// When the range is not on the drive: such a write is an error of the tested code.
    pub fn write(&mut self, at: ByteOffset, bytes: &[u8]) {
        let end = at.0.checked_add(bytes.len() as u64);
        assert!(
            end.is_some_and(|end| end <= self.size),
            "a write of {} bytes at {at}",
            bytes.len()
        );
        self.parts.push((at.0, bytes.to_vec()));
    }
}

/// Corrects the checksums of known structures, wherever a read finds one.
#[derive(Default)]
pub struct Sealer {
    /// The length of DDF's configuration records, from the latest header.
    record_bytes: usize,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: [u8; 4]) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value);
    }
}

impl Sealer {
    /// Corrects the structure at the beginning.
    pub fn seal(&mut self, bytes: &mut [u8]) {
        const MD: u32 = 0xA92B_4EFC;
        const DDF: [u32; 7] = [
            0xDE11_DE11,
            0xAD11_1111,
            0x2222_2222,
            0xDDDD_DDDD,
            0x3333_3333,
            0xABAD_B10C,
            0x01DB_EEF0,
        ];
        const DDF_RECORDS: [u32; 3] = [0xEEEE_EEEE, 0x5555_5555, 0x8888_8888];
        let first = word(bytes, 0);
        if bytes.len() > LONGEST_READ {
            // A search reads many structures at a time.
            for at in (0..bytes.len()).step_by(512) {
                let end = bytes.len().min(at + 4096);
                match word(bytes, at) {
                    MD => seal_md(&mut bytes[at..end]),
                    _ if bytes[at..].starts_with(b"Intel Raid ISM") => {
                        seal_imsm(&mut bytes[at..end])
                    }
                    _ => {}
                }
            }
        } else if first == MD {
            seal_md(bytes);
        } else if bytes.starts_with(b"Intel Raid ISM") {
            seal_imsm(bytes);
        } else if DDF.contains(&first.swap_bytes()) || DDF.contains(&first) {
            let is_big = DDF.contains(&first.swap_bytes());
            if first.swap_bytes() == DDF[0] || first == DDF[0] {
                let blocks =
                    bytes.get(134..136).and_then(|pair| pair.try_into().ok()).unwrap_or_default();
                let blocks =
                    if is_big { u16::from_be_bytes(blocks) } else { u16::from_le_bytes(blocks) };
                self.record_bytes = usize::from(blocks) * bytes.len();
            }
            seal_ddf(bytes, is_big);
        } else if DDF_RECORDS.contains(&first.swap_bytes()) || DDF_RECORDS.contains(&first) {
            let is_big = DDF_RECORDS.contains(&first.swap_bytes());
            let len = if self.record_bytes == 0 { bytes.len() } else { self.record_bytes };
            bytes.chunks_mut(len.max(8)).for_each(|record| seal_ddf(record, is_big));
        }
    }
}

fn seal_ddf(section: &mut [u8], is_big: bool) {
    let crc = Checksum::Raw.of_section(section);
    put(section, 4, if is_big { crc.to_be_bytes() } else { crc.to_le_bytes() });
}

fn sum(bytes: &[u8]) -> u64 {
    let word = |word: &[u8]| match word {
        [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]).into(),
        [a, b, ..] => u64::from(u16::from_le_bytes([*a, *b])),
        _ => 0,
    };
    bytes.chunks(4).map(word).sum()
}

fn seal_md(bytes: &mut [u8]) {
    let (at, len) = match word(bytes, 4) {
        1 => (216, 256 + 2 * (word(bytes, 220) as usize).min(2048)),
        _ => (152, bytes.len()),
    };
    put(bytes, at, [0; 4]);
    let sum = sum(&bytes[..len.min(bytes.len())]);
    put(bytes, at, (sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
}

/// Metadata longer than the anchor's block are read later, and are not summed here: such an input
/// must contain its own checksum.
fn seal_imsm(bytes: &mut [u8]) {
    let len = (word(bytes, 0x24) as usize).min(bytes.len()) / 4 * 4;
    put(bytes, 0x20, [0; 4]);
    let sum = sum(&bytes[..len]) as u32;
    put(bytes, 0x20, sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_comes_back() {
        let disk = Disk {
            size: 1 << 20,
            filler: 0xFF,
            serial: "S1".into(),
            parts: vec![(512, vec![1, 2, 3]), (4096, vec![9; 40])],
            seals: true,
        };
        let (flags, disks) = decode(&encode(SEAL, &[disk.clone(), disk.clone()]));
        assert_eq!((flags, &disks[..]), (SEAL, &[disk.clone(), disk.clone()][..]));
        let bytes = disk.read(ByteRange::new(ByteOffset(510), ByteCount(6)));
        assert_eq!(bytes, [0xFF, 0xFF, 1, 2, 3, 0xFF]);
        assert!(decode(b"\x01Dxx").1.is_empty() && decode(&[]).1.is_empty());
    }
}
