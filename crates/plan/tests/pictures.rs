//! Snapshots of the pictures that `explain` prints.

use insta::assert_snapshot;
use layout::{CopyIndex, DataIndex, Geometry, Level, Role};
use plan::{
    Cached, CopyChoice, ErrorKind, Health, Method, Plan, Request, RequestKind, WHOLE_STRIP,
    explain, explain_in, explain_kept, picture, plan_into,
};
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, StripSize, StripeIndex,
};

fn geometry(level: Level, drives: u16) -> Geometry {
    Geometry::new(level, DriveCount(drives), StripSize::KIB_64, ByteCount::GIB).unwrap()
}

fn kib(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10))
}

fn drives(drives: &[u16]) -> DriveSet {
    drives.iter().map(|drive| DriveIndex(*drive)).collect()
}

/// The standard requests on a level: their pictures, or the error.
fn gallery(geometry: &Geometry, kind: RequestKind, failed: &[u16]) -> String {
    let stripe = geometry.stripe_bytes().0 >> 10;
    let crossing =
        if geometry.stripes_per_row() > 1 { "crossing spans" } else { "crossing stripes" };
    let requests = [
        ("a full stripe", kib(stripe, stripe)),
        ("one strip", kib(64, 64)),
        ("8 KiB in a strip", kib(72, 8)),
        ("crossing strips", kib(48, 32)),
        (crossing, kib(stripe - 16, 48)),
    ];
    let mut text = String::new();
    for (title, range) in requests {
        let explained = explain(geometry, kind, range, &drives(failed));
        let picture =
            explained.map_or_else(|error| format!("no plan: {error}\n"), |it| it.to_string());
        text.push_str(&format!("==== {title} ====\n\n{picture}\n"));
    }
    text
}

/// The pictures of a level: optimal, and with each tolerated number of lost drives.
fn galleries(level: Level, drives: u16, losses: &[&[u16]]) {
    let g = geometry(level, drives);
    for kind in [RequestKind::Read, RequestKind::Write] {
        for failed in [&[][..]].iter().chain(losses) {
            let state = match failed.len() {
                0 => "optimal",
                1 => "degraded",
                _ => "two-lost",
            };
            assert_snapshot!(format!("{level}-{}-{state}", kind.name()), gallery(&g, kind, failed));
        }
    }
}

/// Several extents and cached data: a rectangle, the same with old data and parity cached, RCW with
/// the other strips cached, a mixture, and a full stripe of small writes.
#[test]
fn several_extents() {
    let data = |index, columns| Cached::data(DataIndex(index), columns);
    let p = |columns| Cached { role: Role::P, columns };
    let rectangle = [kib(8, 16), kib(72, 16), kib(136, 16)];
    let whole: Vec<ByteRange> = (0..24).map(|i| kib(16 * i, 16)).collect();
    let old = [data(0, kib(0, 32)), data(1, kib(0, 32)), data(2, kib(0, 32)), p(kib(0, 32))];
    let others: Vec<Cached> = (3..6).map(|index| data(index, kib(8, 16))).collect();
    let ragged = [
        kib(0, 8),
        kib(16, 4),
        kib(64 + 16, 16),
        kib(128 + 16, 16),
        kib(192 + 16, 16),
        kib(320, 64),
    ];
    let cases: [(&str, &[ByteRange], &[Cached]); 5] = [
        ("a rectangle", &rectangle, &[]),
        ("a rectangle, old data and parity cached", &rectangle, &old),
        ("a rectangle, the other strips cached", &rectangle, &others),
        (
            "here and there, a strip and some parity cached",
            &ragged,
            &[data(4, kib(0, 64)), p(kib(0, 20))],
        ),
        ("a full stripe in 24 writes", &whole, &[]),
    ];
    for (level, drives) in [(Level::Raid5, 7), (Level::Raid6, 8)] {
        let g = geometry(level, drives);
        let mut plan = Plan::new(&g);
        let mut text = String::new();
        for (title, extents, cached) in cases {
            let request = Request::WriteExtents { extents, cached };
            plan_into(&mut plan, &g, StripeIndex(2), request, &Health::optimal(&g)).unwrap();
            text.push_str(&format!("==== {title} ====\n\n{}\n", picture(&plan)));
        }
        assert_snapshot!(format!("{level}-extents"), text);
    }
}

#[test]
fn levels_without_redundancy() {
    galleries(Level::Jbod, 1, &[]);
    galleries(Level::Raid0, 4, &[&[2]]);
    galleries(Level::Raid00, 4, &[&[2]]);
}

#[test]
fn mirrored_levels() {
    galleries(Level::Raid1, 3, &[&[0], &[0, 1]]);
    galleries(Level::Raid1e, 5, &[&[1], &[1, 3]]);
    galleries(Level::Raid10, 6, &[&[1], &[1, 2]]);
}

#[test]
fn levels_with_one_parity() {
    galleries(Level::Raid4, 4, &[&[1]]);
    galleries(Level::Raid5, 5, &[&[1]]);
    galleries(Level::Raid5ee, 5, &[&[1]]);
    galleries(Level::Raid50, 6, &[&[1], &[1, 4]]);
    let g = geometry(Level::Raid5, 5);
    assert_snapshot!("raid5-write-parity-lost", gallery(&g, RequestKind::Write, &[4]));
    assert_snapshot!("raid5-write-zeroes-optimal", gallery(&g, RequestKind::WriteZeroes, &[]));
}

#[test]
fn levels_with_two_parities() {
    galleries(Level::Raid6, 6, &[&[1], &[1, 2]]);
    galleries(Level::Raid60, 8, &[&[1], &[1, 2]]);
    let g = geometry(Level::Raid6, 6);
    assert_snapshot!("raid6-write-parities-lost", gallery(&g, RequestKind::Write, &[4, 5]));
    assert_snapshot!("raid6-write-zeroes-optimal", gallery(&g, RequestKind::WriteZeroes, &[]));
}

/// Drive 1 of RAID 5EE is rebuilt into the spare strips; then drive 3 is lost too.
#[test]
fn a_spare_that_is_in_use() {
    let g = geometry(Level::Raid5ee, 5);
    let relocated = Health::optimal(&g).without(DriveIndex(1)).relocated(DriveIndex(1));
    let mut text = String::new();
    for health in [relocated, relocated.without(DriveIndex(3))] {
        for kind in [RequestKind::Read, RequestKind::Write] {
            text.push_str(&explain_in(&g, kind, kib(72, 8), |_| health).unwrap().to_string());
            text.push('\n');
        }
    }
    assert_snapshot!("raid5ee-relocated", text);
}

#[test]
fn redundancy() {
    let mut text = String::new();
    let levels = [
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
    ];
    for (level, n) in levels {
        let g = geometry(level, n);
        for kind in [RequestKind::Resync, RequestKind::Verify] {
            text.push_str(&explain(&g, kind, kib(0, 1), &DriveSet::EMPTY).unwrap().to_string());
            text.push('\n');
        }
        let behind = Health::optimal(&g).unreadable(DriveIndex(1));
        let rebuilt =
            explain_in(&g, RequestKind::Resync, kib(0, 1), |_| behind).map(|it| it.to_string());
        text.push_str(&rebuilt.unwrap_or_else(|error| error.to_string()));
        text.push('\n');
    }
    assert_snapshot!("redundancy", text);
}

/// Internal requests, and requests for a part of the columns.
#[test]
fn mending() {
    let g = geometry(Level::Raid6, 6);
    let mut text = String::new();
    let optimal = Health::optimal(&g);
    let two = optimal.without(DriveIndex(1)).without(DriveIndex(2));
    let columns = kib(8, 4);
    let culprit = g.stripe_map(StripeIndex(0)).role_at(DriveIndex(0), 0).unwrap();
    let copy = Request::Copy { drive: DriveIndex(1), columns: WHOLE_STRIP };
    for (request, health) in [
        (Request::Verify { columns }, optimal),
        (Request::Repair { culprit, columns }, optimal),
        (Request::Repair { culprit: Role::Q, columns }, optimal.without(DriveIndex(0))),
        (
            Request::Resync { columns: WHOLE_STRIP },
            optimal.unreadable(DriveIndex(1)).without(DriveIndex(2)),
        ),
        (
            Request::Resync { columns: WHOLE_STRIP },
            optimal.unreadable(DriveIndex(1)).unreadable(DriveIndex(2)),
        ),
        (copy, optimal),
        (copy, two),
    ] {
        let mut plan = Plan::new(&g);
        plan_into(&mut plan, &g, StripeIndex(0), request, &health).unwrap();
        text.push_str(&picture(&plan));
        text.push('\n');
    }
    assert_snapshot!("raid6-mending", text);
}

#[test]
fn a_large_read_of_a_mirror_is_shared_by_its_drives() {
    let g = geometry(Level::Raid10, 4);
    let mut plan = Plan::new(&g);
    let prefer = CopyChoice::FIRST.with(DataIndex(1), CopyIndex(1));
    let request = Request::Read { range: kib(0, 128), prefer, split: true };
    plan_into(&mut plan, &g, StripeIndex(0), request, &Health::optimal(&g)).unwrap();
    assert_snapshot!("raid10-read-split", picture(&plan));
}

#[test]
fn other_healths_of_two_parities() {
    let g = geometry(Level::Raid6, 6);
    let optimal = Health::optimal(&g);
    let [zero, one, three] = [0, 1, 3].map(DriveIndex);
    let mut text = String::new();
    for (title, health, range) in [
        ("before the resync", optimal.untrusted(), kib(8, 8)),
        ("over a medium error", optimal.unreadable(zero), kib(8, 8)),
        ("over a medium error of P", optimal.unreadable(DriveIndex(5)), kib(8, 8)),
        ("two lost, one of them written", optimal.without(zero).without(one), kib(8, 8)),
        ("all but the one that is lost", optimal.without(three), kib(0, 192)),
        ("two ways in one write", optimal.without(one), kib(32, 64)),
        ("two lost, both in part", optimal.without(zero).without(three), kib(32, 192)),
        ("one fault too many", optimal.without(zero).without(one).unreadable(three), kib(8, 8)),
    ] {
        let explained = explain_in(&g, RequestKind::Write, range, |_| health);
        let explained =
            explained.map_or_else(|error| format!("no plan: {error}\n"), |it| it.to_string());
        text.push_str(&format!("==== {title} ====\n\n{explained}\n"));
    }
    assert_snapshot!("raid6-write-other-healths", text);
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
        let explained = explain_in(&g, RequestKind::Write, range, |_| health);
        let explained =
            explained.map_or_else(|error| format!("no plan: {error}\n"), |it| it.to_string());
        text.push_str(&format!("==== {title} ====\n\n{explained}\n"));
    }
    assert_snapshot!("raid5-write-other-healths", text);
}

#[test]
fn wide_arrays_are_drawn_in_rows_of_drives() {
    let g = geometry(Level::Raid5, 28);
    let wide = explain(&g, RequestKind::Write, kib(64 * 3 + 8, 8), &DriveSet::EMPTY).unwrap();
    assert_snapshot!("raid5-wide", wide);
    // Of many spans only the one with the stripe is drawn.
    let g = geometry(Level::Raid60, 24);
    let crossing = kib((g.stripe_bytes().0 >> 10) * 2 - 16, 32);
    let wide = explain(&g, RequestKind::Write, crossing, &DriveSet::EMPTY).unwrap();
    assert_snapshot!("raid60-wide", wide);
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
    let without_blank_lines = |text: &str| {
        text.split('\n').filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(without_blank_lines(&documented), without_blank_lines(&picture(&plan)));
}

#[test]
fn what_cannot_be_explained_is_refused_in_one_sentence() {
    let g = geometry(Level::Raid5, 8);
    let none = DriveSet::EMPTY;
    let write =
        |range, failed: &DriveSet| explain(&g, RequestKind::Write, range, failed).unwrap_err();
    let cases = [
        (write(kib(0, 0), &none), "a write of 0 bytes does nothing"),
        (
            write(kib(7 << 20, 8), &none),
            "a write of 8 KiB at 7 GiB goes past the end of the volume, which has 7 GiB",
        ),
        (write(kib(0, 1 << 20), &none), "touches 2341 stripes; at most 256 are explained at once"),
        (
            write(kib(0, 8), &drives(&[8])),
            "there is no drive 8; the drives of this array are 0 to 7",
        ),
        (
            "peek".parse::<RequestKind>().unwrap_err(),
            "'peek' is not a request; expected one of read, write",
        ),
    ];
    for (error, sentence) in cases {
        assert!(error.to_string().contains(sentence), "{error}");
    }
    let lost = explain(&g, RequestKind::Read, kib(0, 128), &drives(&[0, 1])).unwrap_err();
    assert_eq!((lost.kind, lost.ranges), (ErrorKind::DataLost, vec![kib(0, 128)]));
}

/// Regression: a write to an uninitialised stripe was explained as a read-modify-write.
#[test]
fn the_first_write_of_a_stripe_is_explained_as_what_it_is() {
    let g = geometry(Level::Raid5, 4);
    let explain = |kind, range, failed: &[u16]| {
        let health = drives(failed).iter().fold(Health::optimal(&g), Health::without);
        explain_kept(&g, kind, range, |_| health, |stripe| stripe.0 != 1, None).unwrap()
    };
    let read = explain(RequestKind::Read, kib(192, 8), &[]);
    assert_eq!((read.stripes[0].method, read.cost.drive_ios()), (Method::Nothing, 0));
    assert!(read.to_string().contains("it reads as zeros without drive I/O"), "{read}");
    // Two drives are lost, but the stripe held no data.
    let lost = explain(RequestKind::Read, kib(192, 8), &[0, 1]);
    assert_eq!(lost.cost.drive_ios(), 0);
    assert!(lost.title.contains("drives 0 and 1 failed"), "{lost}");
    // Zeros on each drive, then the data and its parity, without a read.
    let small = explain(RequestKind::Write, kib(200, 8), &[]);
    assert_eq!(
        (small.cost.reads, small.cost.writes, small.stripes.len()),
        (0, 4 + 2, 2),
        "{small}"
    );
    assert!(small.to_string().contains("recorded as initialised"), "{small}");
    assert!(small.title.contains("write 8 KiB at 200 KiB, optimal"), "{small}");
    let large = explain(RequestKind::Write, kib(192, 128), &[]);
    assert_eq!((large.cost.reads, large.cost.writes, large.stripes.len()), (0, 4, 1), "{large}");
    let degraded = explain(RequestKind::Write, kib(200, 8), &[3]);
    assert_eq!((degraded.cost.reads, degraded.cost.writes), (0, 3), "{degraded}");
    // The neighbouring stripe is initialised.
    let both = explain(RequestKind::Write, kib(184, 16), &[]);
    assert_eq!((both.stripes[0].method, both.stripes.len()), (Method::Rmw, 3), "{both}");
}
