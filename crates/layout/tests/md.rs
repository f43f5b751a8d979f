//! Compares the maps with arrays written by Linux md, natively and in DDF containers: the position
//! of each strip, P and Q, and the exponent of each data strip in Q.

use layout::{DataIndex, Geometry, Level, Role, Shape, StripeMap};
use units::{ByteCount, ByteOffset, DriveCount, DriveIndex, StripSize};

/// One array of `md/measured.txt` with one of its shapes.
struct Measured<'a> {
    title: &'a str,
    geometry: Geometry,
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    number: u64,
    found: Vec<&'a str>,
    q: Option<Vec<u8>>,
}

fn arrays() -> Vec<Measured<'static>> {
    let text = include_str!("md/measured.txt");
    text.split("\n\n").skip(1).flat_map(array).collect()
}

fn array(text: &str) -> Vec<Measured<'_>> {
    let (title, rows) = text.trim_end().split_once('\n').unwrap();
    let (_, rest) = title.split_once(": ").unwrap();
    let parts: Vec<&str> = rest.split(", ").collect();
    let [shapes, drives, strip, member_rows] = parts[..] else { panic!("{title}") };
    let number = |text: &str| text.split_once(' ').unwrap().0.parse::<u64>().unwrap();
    let (drives, kib, member_rows) = (number(drives) as u16, number(strip), number(member_rows));
    let strip = StripSize::new(ByteCount(kib << 10)).unwrap();
    let shapes = shapes.split(" | ").map(|text| {
        let mut words = text.split(' ');
        let level: Level = words.next().unwrap().parse().unwrap();
        words.fold(Shape::new(level, DriveCount(drives)), |shape, word| {
            let (key, value) = word.split_once('=').unwrap();
            match key {
                "spans" => Shape { spans: Some(value.parse().unwrap()), ..shape },
                "copies" => Shape { copies: Some(value.parse().unwrap()), ..shape },
                "parity" => Shape { parity: Some(value.parse().unwrap()), ..shape },
                "mirrors" => Shape { mirrors: Some(value.parse().unwrap()), ..shape },
                _ => panic!("{title}"),
            }
        })
    });
    shapes
        .map(|shape| {
            let geometry = shape.geometry(strip, strip.bytes() * member_rows).unwrap();
            Measured { title, geometry, rows: rows.lines().map(|line| row(line, drives)).collect() }
        })
        .collect()
}

fn row(line: &str, drives: u16) -> Row<'_> {
    let (number, rest) = line.split_once(':').unwrap();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (found, q) = words.split_at(usize::from(drives));
    let byte = |hex: &[u8]| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap();
    let q = q.first().map(|hex| hex.as_bytes().chunks(2).map(byte).collect());
    Row { number: number.trim().parse().unwrap(), found: found.to_vec(), q }
}

#[test]
fn strips_are_where_linux_md_put_them() {
    let arrays = arrays();
    assert!(arrays.len() >= 40, "{}", arrays.len());
    for Measured { title, geometry: g, rows } in &arrays {
        let strip = g.strip().bytes();
        for row in rows {
            for (drive, found) in g.drives().indexes().zip(&row.found) {
                let located = g.locate(drive, ByteOffset(row.number * strip.0)).unwrap();
                let expected = match located.role {
                    Role::Data { index, .. } => {
                        (g.volume_offset(located.stripe, index, ByteCount::ZERO).0 / strip.0)
                            .to_string()
                    }
                    role => role.to_string(),
                };
                assert_eq!(&expected, found, "{title} as {g}: row {}, {drive:?}", row.number);
            }
        }
    }
}

#[test]
fn data_strips_weigh_in_q_what_linux_md_had_them_weigh() {
    let mut checked = 0;
    for Measured { title, geometry: g, rows } in &arrays() {
        for row in rows {
            let Some(q) = &row.q else { continue };
            let place = ByteOffset(row.number * g.strip().bytes().0);
            let stripe = g.locate(DriveIndex(0), place).unwrap().stripe;
            let map = g.stripe_map(stripe);
            let sum = (0..g.data_strips()).map(DataIndex).fold(vec![0; 16], |sum, index| {
                let volume = g.volume_offset(stripe, index, ByteCount::ZERO);
                add_weighed(sum, &map, index, &sector(volume.0 / 512))
            });
            assert_eq!(&sum, q, "{title} as {g}: row {}", row.number);
            checked += 1;
        }
    }
    assert!(checked >= 100, "{checked}");
}

/// The first bytes of the sector with that number.
fn sector(number: u64) -> Vec<u8> {
    format!("LBA={number:012}").into_bytes()
}

/// Adds the bytes of a data strip, times 2 to the power of its exponent, in GF(2^8) with polynomial
/// 0x11D.
fn add_weighed(sum: Vec<u8>, map: &StripeMap, index: DataIndex, bytes: &[u8]) -> Vec<u8> {
    let double = |byte: u8| (byte << 1) ^ if byte & 0x80 != 0 { 0x1D } else { 0 };
    let weighed = |byte: u8| (0..map.q_exponent(index)).fold(byte, |byte, _| double(byte));
    sum.iter().zip(bytes).map(|(sum, byte)| sum ^ weighed(*byte)).collect()
}
