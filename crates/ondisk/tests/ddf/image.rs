//! Drives in memory, and the reference images.

use ondisk::ddf::{Drive, Effort, Look, look};
use ondisk::foreign::Glimpse;
use std::collections::BTreeMap;
use units::{ByteCount, ByteOffset, ByteRange};

/// A drive: unwritten sectors read as 0xFF. Some sectors are unreadable.
#[derive(Clone)]
pub struct Image {
    pub size: u64,
    pub sectors: BTreeMap<u64, [u8; 512]>,
    pub unreadable: Vec<u64>,
}

impl Image {
    pub fn blank(size: u64) -> Image {
        Image { size, sectors: BTreeMap::new(), unreadable: Vec::new() }
    }

    pub fn read(&self, range: ByteRange) -> Option<Vec<u8>> {
        assert!(range.end().0 <= self.size && range.is_aligned(ByteCount(512)), "{range:?}");
        let sectors = range.start.0 / 512..range.end().0 / 512;
        if self.unreadable.iter().any(|sector| sectors.contains(sector)) {
            return None;
        }
        let mut bytes = vec![0xFF; range.len.as_usize()];
        for (lba, sector) in self.sectors.range(sectors.clone()) {
            let at = ((lba - sectors.start) * 512) as usize;
            bytes[at..at + 512].copy_from_slice(sector);
        }
        Some(bytes)
    }

    pub fn write(&mut self, at: ByteOffset, bytes: &[u8]) {
        for (index, sector) in bytes.chunks(512).enumerate() {
            let lba = at.0 / 512 + index as u64;
            match sector.iter().all(|byte| *byte == 0xFF) {
                true => self.sectors.remove(&lba),
                false => self.sectors.insert(lba, sector.try_into().unwrap()),
            };
        }
    }

    /// Inverts bits of a byte.
    pub fn damage(&mut self, at: u64) {
        let sector = self.sectors.entry(at / 512).or_insert([0xFF; 512]);
        sector[(at % 512) as usize] ^= 0x41;
    }

    pub fn look(&self, effort: Effort) -> Look {
        let mut glimpse = Glimpse::new(ByteCount(self.size));
        for _ in 0..20 {
            match look(&glimpse, effort) {
                Look::NotYet => {
                    let wanted = glimpse.wanted();
                    assert!(!wanted.is_empty(), "no range is wanted");
                    wanted.into_iter().for_each(|range| glimpse.put(range, self.read(range)));
                }
                done => return done,
            }
        }
        panic!("the search does not end")
    }

    pub fn drive(&self) -> Drive {
        match self.look(Effort::Usual) {
            Look::Found(drive) => *drive,
            other => panic!("{other:?}"),
        }
    }
}

/// The members of a reference image.
pub fn members(text: &str) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    for line in text.lines() {
        let (lba, rest) = line.split_once(' ').unwrap();
        if lba == "drive" {
            let size = rest.parse().unwrap();
            if let Some(first) = images.first_mut() {
                mirror_secondary(first);
            }
            let blank = Image::blank(size);
            images.push(images.first().cloned().unwrap_or(blank));
            continue;
        }
        let lba: u64 = lba.parse().unwrap();
        let last = images.len() - 1;
        images[last].write(ByteOffset(lba * 512), &sector(rest));
        // The files of the other drives leave out the sectors that are equal in both copies.
        if last > 0 && (65536..65536 + 618).contains(&lba) && lba != 65536 {
            images[last].write(ByteOffset((lba - 32768) * 512), &sector(rest));
        }
    }
    images
}

/// Fills in the sectors that the copies of the first drive have in common.
fn mirror_secondary(image: &mut Image) {
    for lba in 65536..65536 + 618 {
        if let (Some(sector), None) =
            (image.sectors.get(&lba).copied(), image.sectors.get(&(lba - 32768)))
        {
            image.sectors.insert(lba - 32768, sector);
        }
    }
}

fn sector(text: &str) -> Vec<u8> {
    let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap();
    let mut bytes = Vec::new();
    for word in text.split(' ') {
        match word.split_once('*') {
            Some((hex, times)) => {
                bytes.resize(bytes.len() + times.parse::<usize>().unwrap(), byte(hex))
            }
            None => bytes.extend(
                word.as_bytes().chunks(2).map(|hex| byte(std::str::from_utf8(hex).unwrap())),
            ),
        }
    }
    assert_eq!(bytes.len(), 512, "{text}");
    bytes
}

/// A reference image: its name, its members' metadata, and the places of their data.
pub struct Reference {
    pub name: &'static str,
    pub metadata: &'static str,
    pub map: &'static str,
}

macro_rules! references {
    ($($name:literal),* $(,)?) => {
        pub const REFERENCES: &[Reference] = &[$(Reference {
            name: $name,
            metadata: include_str!(concat!("images/", $name, ".txt")),
            map: include_str!(concat!("images/", $name, ".map")),
        }),*];
    };
}

references!(
    "ddf-raid0-4",
    "ddf-raid1-2",
    "ddf-raid10-3-n3",
    "ddf-raid10-4",
    "ddf-raid10-5-n2",
    "ddf-raid5-4-failed",
    "ddf-raid5-4-left-symmetric",
    "ddf-raid5-4-right-asymmetric",
    "ddf-raid5-4-spare",
    "ddf-raid5-5",
    "ddf-raid6-5-ddf-N-continue",
    "ddf-raid6-5-ddf-zero-restart",
    "ddf-two-vols",
);

pub fn reference(name: &str) -> Vec<Image> {
    members(REFERENCES.iter().find(|reference| reference.name == name).unwrap().metadata)
}
