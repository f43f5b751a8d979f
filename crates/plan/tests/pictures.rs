//! The pictures that `explain` prints, kept. Read them as figures: they must be right *and* clear.

use insta::assert_snapshot;
use layout::{Geometry, Level};
use plan::{ErrorKind, Health, Plan, RequestKind, explain, explain_in, picture, plan_into};
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, StripSize, StripeIndex};

fn geometry(level: Level, drives: u16) -> Geometry {
    Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount::GIB).unwrap()
}

fn kib(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10))
}

fn drives(drives: &[u16]) -> DriveSet {
    drives.iter().map(|drive| DriveIndex(*drive)).collect()
}

/// The standard requests on a level: their pictures, or why there is none, one below the other.
fn gallery(geometry: &Geometry, kind: RequestKind, failed: &[u16]) -> String {
    let stripe = geometry.stripe_bytes().0 >> 10;
    let requests = [
        ("a full stripe", kib(stripe, stripe)),
        ("one strip", kib(64, 64)),
        ("8 KiB in a strip", kib(72, 8)),
        ("crossing strips", kib(48, 32)),
        ("crossing stripes", kib(stripe - 16, 48)),
    ];
    let mut text = String::new();
    for (title, range) in requests {
        let explained = explain(geometry, kind, range, &drives(failed));
        let picture = explained.map_or_else(|error| format!("no plan: {error}\n"), |it| it.to_string());
        text.push_str(&format!("==== {title} ====\n\n{picture}\n"));
    }
    text
}

#[test]
fn raid_0() {
    let g = geometry(Level::Raid0, 4);
    assert_snapshot!("raid0-read-optimal", gallery(&g, RequestKind::Read, &[]));
    assert_snapshot!("raid0-write-optimal", gallery(&g, RequestKind::Write, &[]));
    assert_snapshot!("raid0-read-degraded", gallery(&g, RequestKind::Read, &[2]));
    assert_snapshot!("raid0-write-degraded", gallery(&g, RequestKind::Write, &[2]));
}

#[test]
fn raid_1() {
    let g = geometry(Level::Raid1, 2);
    assert_snapshot!("raid1-read-optimal", gallery(&g, RequestKind::Read, &[]));
    assert_snapshot!("raid1-write-optimal", gallery(&g, RequestKind::Write, &[]));
    assert_snapshot!("raid1-read-degraded", gallery(&g, RequestKind::Read, &[0]));
    assert_snapshot!("raid1-write-degraded", gallery(&g, RequestKind::Write, &[0]));
}

#[test]
fn raid_5() {
    let g = geometry(Level::Raid5, 5);
    assert_snapshot!("raid5-read-optimal", gallery(&g, RequestKind::Read, &[]));
    assert_snapshot!("raid5-write-optimal", gallery(&g, RequestKind::Write, &[]));
    assert_snapshot!("raid5-read-degraded", gallery(&g, RequestKind::Read, &[1]));
    assert_snapshot!("raid5-write-degraded", gallery(&g, RequestKind::Write, &[1]));
    assert_snapshot!("raid5-write-parity-lost", gallery(&g, RequestKind::Write, &[4]));
    assert_snapshot!("raid5-write-zeroes-optimal", gallery(&g, RequestKind::WriteZeroes, &[]));
}

#[test]
fn redundancy() {
    let mut text = String::new();
    for (level, n) in [(Level::Raid0, 3), (Level::Raid1, 3), (Level::Raid5, 4)] {
        let g = geometry(level, n);
        for kind in [RequestKind::Resync, RequestKind::Verify] {
            text.push_str(&explain(&g, kind, kib(0, 1), &DriveSet::EMPTY).unwrap().to_string());
            text.push('\n');
        }
        let behind = Health::optimal(&g).unreadable(DriveIndex(1));
        let rebuilt = explain_in(&g, RequestKind::Resync, kib(0, 1), &behind).map(|it| it.to_string());
        text.push_str(&rebuilt.unwrap_or_else(|error| error.to_string()));
        text.push('\n');
    }
    assert_snapshot!("redundancy", text);
}

#[test]
fn other_healths() {
    let g = geometry(Level::Raid5, 5);
    let optimal = Health::optimal(&g);
    let mut text = String::new();
    for (title, health, range) in [
        ("before the resync", optimal.untrusted(), kib(8, 8)),
        ("before the resync, degraded", optimal.untrusted().without(DriveIndex(1)), kib(8, 8)),
        ("over a medium error", optimal.unreadable(DriveIndex(0)), kib(8, 8)),
        ("three bands", optimal, kib(16, 160)),
        ("two ways in one write", optimal.without(DriveIndex(2)), kib(96, 64)),
        (
            "one fault too many, elsewhere",
            optimal.without(DriveIndex(1)).unreadable(DriveIndex(4)),
            kib(200, 8),
        ),
    ] {
        let explained = explain_in(&g, RequestKind::Write, range, &health);
        let explained = explained.map_or_else(|error| format!("no plan: {error}\n"), |it| it.to_string());
        text.push_str(&format!("==== {title} ====\n\n{explained}\n"));
    }
    assert_snapshot!("raid5-write-other-healths", text);
}

#[test]
fn wide_arrays_are_drawn_in_rows_of_drives() {
    let g = geometry(Level::Raid5, 28);
    let wide = explain(&g, RequestKind::Write, kib(64 * 3 + 8, 8), &DriveSet::EMPTY).unwrap();
    assert_snapshot!("raid5-wide", wide);
}

#[test]
fn a_picture_of_one_plan_is_the_explanation_of_its_stripe() {
    let g = geometry(Level::Raid5, 8);
    let mut plan = Plan::new(&g);
    let range = kib(128, 8);
    let write = RequestKind::Write.on_stripe(range);
    plan_into(&mut plan, &g, StripeIndex(2), write, &Health::optimal(&g)).unwrap();
    let explained = explain(&g, RequestKind::Write, kib(1024, 8), &DriveSet::EMPTY).unwrap();
    assert_eq!(picture(&plan), explained.to_string());
    let documented: String = include_str!("../src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .skip_while(|line| !line.starts_with("RAID 5, 8 drives"))
        .take_while(|line| *line != "```")
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    let without_blank_lines =
        |text: &str| text.split('\n').filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(without_blank_lines(&documented), without_blank_lines(&picture(&plan)));
}

#[test]
fn what_cannot_be_explained_is_refused_in_one_sentence() {
    let g = geometry(Level::Raid5, 8);
    let none = DriveSet::EMPTY;
    let write = |range, failed: &DriveSet| explain(&g, RequestKind::Write, range, failed).unwrap_err();
    let cases = [
        (write(kib(0, 0), &none), "a write of 0 bytes does nothing"),
        (
            write(kib(7 << 20, 8), &none),
            "a write of 8 KiB at 7 GiB goes past the end of the volume, which has 7 GiB",
        ),
        (write(kib(0, 1 << 20), &none), "touches 2341 stripes; at most 256 are explained at once"),
        (write(kib(0, 8), &drives(&[8])), "there is no drive 8; the drives of this array are 0 to 7"),
        ("peek".parse::<RequestKind>().unwrap_err(), "'peek' is not a request; expected one of read, write"),
    ];
    for (error, sentence) in cases {
        assert!(error.to_string().contains(sentence), "{error}");
    }
    let lost = explain(&g, RequestKind::Read, kib(0, 128), &drives(&[0, 1])).unwrap_err();
    assert_eq!((lost.kind, lost.ranges), (ErrorKind::DataLost, vec![kib(0, 128)]));
}
