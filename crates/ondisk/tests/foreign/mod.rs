//! The metadata in `metadata.txt`: from the drives of arrays that other programs made.

#![allow(dead_code, reason = "no test uses all of it")]

use ondisk::foreign::{Glimpse, Seen, Told, read, search};
use units::{ByteCount, ByteOffset, ByteRange};

/// An array as it was made.
pub struct Array {
    pub name: String,
    pub size: ByteCount,
    pub drives: Vec<Drive>,
}

/// One of its drives: an outside program's description of it, and its metadata.
#[derive(Clone)]
pub struct Drive {
    pub name: String,
    pub size: ByteCount,
    pub serial: Option<String>,
    pub said: String,
    pub parts: Vec<(u64, Vec<u8>)>,
    pub unreadable: Vec<ByteRange>,
}

pub fn arrays() -> Vec<Array> {
    let text = include_str!("metadata.txt");
    text.split("\n\n").filter_map(|part| part.trim().strip_prefix("array ")).map(array).collect()
}

fn array(text: &str) -> Array {
    let (title, rest) = text.split_once('\n').unwrap();
    let (name, size) = title.split_once(": ").unwrap();
    let mut drives: Vec<Drive> = Vec::new();
    let mut part = 0;
    for line in rest.lines() {
        if let Some(rest) = line.strip_prefix("drive ") {
            part = 0;
            drives.push(drive(rest));
        } else if let Some(said) = line.strip_prefix("said: ") {
            drives.last_mut().unwrap().said = said.into();
        } else if let Some(place) = line.strip_prefix("at ") {
            let (sector, bytes) = place.split_once(": ").unwrap();
            let length = bytes.strip_suffix(" bytes").unwrap().parse().unwrap();
            let before = drives.iter().rev().skip(1).find_map(|drive| drive.parts.get(part));
            let mut bytes = before.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
            bytes.resize(length, 0);
            drives.last_mut().unwrap().parts.push((512 * sector.parse::<u64>().unwrap(), bytes));
            part += 1;
        } else {
            let (at, row) = line.split_once(' ').unwrap();
            let at = usize::from_str_radix(at, 16).unwrap();
            let bytes = &mut drives.last_mut().unwrap().parts.last_mut().unwrap().1;
            bytes[at..at + 32].copy_from_slice(&row_of(row));
        }
    }
    let size = ByteCount(size.strip_suffix(" bytes").unwrap().parse().unwrap());
    Array { name: name.into(), size, drives }
}

fn drive(text: &str) -> Drive {
    let (number, rest) = text.split_once(": ").unwrap();
    let (sectors, serial) = rest.split_once(", serial ").unwrap_or((rest, ""));
    let sectors: u64 = sectors.strip_suffix(" sectors").unwrap().parse().unwrap();
    Drive {
        name: format!("disk{number}"),
        size: ByteCount(sectors * 512),
        serial: (!serial.is_empty()).then(|| serial.into()),
        said: String::new(),
        parts: Vec::new(),
        unreadable: Vec::new(),
    }
}

fn row_of(text: &str) -> Vec<u8> {
    let byte = |text: &str| u8::from_str_radix(text, 16).unwrap();
    match text.strip_suffix('*') {
        Some(same) => vec![byte(same); 32],
        None => (0..32).map(|index| byte(&text[2 * index..2 * index + 2])).collect(),
    }
}

/// Reads a drive like a program with a real drive: reads the wanted ranges, with zeros where no
/// bytes are known, until none is wanted.
pub fn told(drive: &Drive) -> Told {
    asked(drive, read)
}

/// The same for the metadata that a search of its end finds.
pub fn searched(drive: &Drive) -> Told {
    asked(drive, search)
}

fn asked(drive: &Drive, ask: fn(&Glimpse) -> Told) -> Told {
    let mut glimpse = Glimpse::new(drive.size).with_serial(drive.serial.clone());
    for _ in 0..5 {
        let told = ask(&glimpse);
        let wanted = glimpse.wanted();
        if wanted.is_empty() {
            return told;
        }
        for range in wanted {
            let is_readable = drive.unreadable.iter().all(|bad| !bad.overlaps(range));
            glimpse.put(range, is_readable.then(|| bytes(drive, range)));
        }
    }
    panic!("{}: never enough", drive.name);
}

fn bytes(drive: &Drive, range: ByteRange) -> Vec<u8> {
    let mut bytes = vec![0; range.len.as_usize()];
    for (at, part) in &drive.parts {
        let both = range.intersection(ByteRange::new(ByteOffset(*at), ByteCount::of(part)));
        let (to, from) =
            ((both.start.0 - range.start.0) as usize, both.start.0.saturating_sub(*at) as usize);
        let len = both.len.as_usize();
        if len > 0 {
            bytes[to..to + len].copy_from_slice(&part[from..from + len]);
        }
    }
    bytes
}

/// Updates the checksum of a superblock of version 1.x.
pub fn seal(drive: &mut Drive) {
    let bytes = &mut drive.parts[0].1;
    bytes[216..220].fill(0);
    let roles = u32::from_le_bytes(bytes[220..224].try_into().unwrap()) as usize;
    let words = bytes[..256 + 2 * roles].chunks(4);
    let sum: u64 = words.map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap()))).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[216..220].copy_from_slice(&sum.to_le_bytes());
}

/// The records of all of these drives.
pub fn seen(drives: &[Drive]) -> Vec<Seen> {
    seen_by(drives, told)
}

/// The same, with another reader.
pub fn seen_by(drives: &[Drive], told: fn(&Drive) -> Told) -> Vec<Seen> {
    let with_index = drives.iter().enumerate();
    with_index
        .flat_map(|(index, drive)| {
            told(drive).records.into_iter().map(move |record| Seen {
                drive: index,
                name: drive.name.clone(),
                size: drive.size,
                record,
            })
        })
        .collect()
}
