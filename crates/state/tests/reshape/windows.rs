//! Windows of all kinds of layouts: none is written over anything that is still needed.

use layout::{Geometry, Level, MirrorArrangement, Shape};
use state::{Moved, Reshape};
use units::{ByteCount, ByteOffset, DriveCount, StripSize, StripeIndex};

const STRIP: u64 = 64 << 10;

fn geometry(level: Level, drives: u16, strip: u64, rows: u64) -> Option<Geometry> {
    let strip = StripSize::new(ByteCount(strip)).ok()?;
    Geometry::new(level, DriveCount(drives), strip, ByteCount(rows * STRIP)).ok()
}

/// Where on the drives the first and the last of a layout's stripes begin and end.
fn extent(geometry: &Geometry, stripes: std::ops::Range<u64>) -> (u64, u64) {
    let strip = geometry.strip().bytes().0;
    let at = |stripe: u64| {
        let map = geometry.stripe_map(StripeIndex(stripe));
        map.cells().map(|(cell, _)| cell.offset.0).collect::<Vec<u64>>()
    };
    let stripes = stripes.start..stripes.end.min(geometry.stripes().0);
    let all: Vec<u64> = stripes.flat_map(at).collect();
    (all.iter().min().copied().unwrap_or(u64::MAX), all.iter().max().map_or(0, |at| at + strip))
}

/// Goes through all windows, and looks at each. How many there are, and how many of them are saved. `most`: what of each drive may be in the
/// window of that number.
fn walk(reshape: &Reshape, save: ByteCount, most: impl Fn(u64) -> ByteCount) -> (u64, u64) {
    let (mut at, mut windows, mut saved) = (ByteOffset::ZERO, 0, 0);
    while let Some((window, is_saved)) = reshape.next(at, most(windows)) {
        assert_eq!(window.bytes.start, at, "{reshape:?}");
        assert!(window.bytes.end() > at, "{reshape:?} comes to an end");
        let (begins, ends) = extent(reshape.to(), window.stripes.clone());
        assert!(!is_saved || ends - begins <= save.0, "{reshape:?} {window:?}: there is room to save it");
        // What it is written over: nothing that is needed later, and where it is not saved nothing of its own.
        let needed = if is_saved { window.bytes.end() } else { at };
        let (first, _) = extent(reshape.from(), reshape.old_stripes(needed));
        assert!(ends <= first, "{reshape:?}: {window:?} reaches byte {ends}, and byte {first} is needed");
        // It is as small as is wished, or as small as rows allow.
        let least = Reshape::least_save(reshape.from(), reshape.to()).max(most(windows));
        assert!(ends - begins <= least.0, "{reshape:?} {window:?}: {} were wished", most(windows));
        assert_eq!(reshape.of_each_drive(window.bytes.len).0, ends - begins, "{reshape:?} {window:?}");
        // What lies by the new layout below it is left alone.
        let (_, below) = extent(reshape.to(), reshape.new_stripes(at));
        assert!(below <= begins, "{reshape:?}: {window:?} begins at byte {begins}");
        let record = Moved { to: at, saved: if is_saved { window.bytes.len } else { ByteCount::ZERO } };
        assert!(reshape.allows(record), "{reshape:?}: {record:?}");
        // What is written is in use, also where nothing of the volume's is in a span's part of the last row.
        assert_eq!(reshape.new_stripes(window.bytes.end()), 0..window.stripes.end, "{reshape:?} {window:?}");
        at = window.bytes.end();
        windows += 1;
        saved += u64::from(is_saved);
    }
    assert_eq!(at.0, reshape.bytes().0, "{reshape:?}");
    assert!(reshape.allows(Moved { to: at, saved: ByteCount::ZERO }));
    assert!(reshape.old_stripes(at).is_empty(), "nothing of the old layout is needed");
    (windows, saved)
}

#[test]
fn no_window_is_written_over_what_is_needed() {
    use Level::{Raid0, Raid1, Raid5, Raid6, Raid10, Raid50, Raid60};
    let levels = [Raid0, Raid1, Raid5, Raid6, Raid10, Raid50, Raid60];
    let (save, most) = (ByteCount(4 * STRIP), ByteCount(16 * STRIP));
    let mut tried = 0;
    for from in levels {
        for to in levels {
            for (old, new) in (2..=9).flat_map(|old| (old..=9).map(move |new| (old, new))) {
                for (old_strip, new_strip) in [(1, 1), (2, 1), (1, 4)] {
                    let old = geometry(from, old, old_strip * STRIP, 40);
                    let new = geometry(to, new, new_strip * STRIP, 40);
                    let (Some(old), Some(new)) = (old, new) else { continue };
                    // Not the whole, so that the last stripes of both are cut off.
                    let bytes = ByteCount(old.capacity().0 - 3 * 4096);
                    let Ok(reshape) = Reshape::new(old, new, bytes, save, most) else { continue };
                    walk(&reshape, save, |_| ByteCount(u64::MAX));
                    // Hosts come and go on the way.
                    walk(&reshape, save, |window| ByteCount((window * 7 % 5) * STRIP));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 400, "{tried}");
}

/// The first rows lie over their own source; from then on there is more and more room.
#[test]
fn with_a_drive_more_only_the_beginning_is_saved() {
    let (old, new) = (geometry(Level::Raid5, 4, STRIP, 4000), geometry(Level::Raid5, 5, STRIP, 4000));
    let (old, new) = (old.expect("four drives"), new.expect("five drives"));
    let save = ByteCount(96 * STRIP);
    let reshape = Reshape::new(old, new, old.capacity(), save, ByteCount(256 * STRIP)).expect("it grows");
    let (windows, saved) = walk(&reshape, save, |_| ByteCount(u64::MAX));
    assert_eq!((windows, saved), (18, 1));
    // Beside hosts all windows are small, and as much is saved.
    let (windows, saved) = walk(&reshape, save, |_| ByteCount(16 * STRIP));
    assert_eq!((windows, saved), (190, 1));
}

#[test]
fn what_cannot_be_moved_is_refused_with_a_sentence() {
    let of = |level, drives, strip| geometry(level, drives, strip, 40).expect("a layout");
    let refused = |old: Geometry, new: Geometry, save: u64| {
        let reshape = Reshape::new(old, new, old.capacity(), ByteCount(save), ByteCount(STRIP));
        reshape.expect_err("it cannot be moved")
    };
    let (four, five) = (of(Level::Raid5, 4, STRIP), of(Level::Raid5, 5, STRIP));
    assert!(refused(five, four, STRIP).contains("do not fit"));
    let small = Reshape::new(five, four, ByteCount(STRIP), ByteCount(STRIP), ByteCount(STRIP));
    assert!(small.expect_err("downward").contains("less data in the same part"));
    assert!(refused(four, five, STRIP / 2).contains("there is room for"));
    let far = Shape { mirrors: Some(MirrorArrangement::Far), ..Shape::new(Level::Raid1e, DriveCount(4)) };
    let far = far.geometry(StripSize::KIB_64, ByteCount(40 * STRIP)).expect("far copies");
    assert!(refused(far, five, STRIP).contains("cannot be moved in order"));
    let reshape =
        Reshape::new(four, five, four.capacity(), ByteCount(STRIP), ByteCount(STRIP)).expect("it grows");
    for (to, saved) in [(1, 0), (4 * STRIP, 1), (4 * STRIP, 8 * STRIP), (0, u64::MAX), (4 * STRIP + 4096, 0)]
    {
        let moved = Moved { to: ByteOffset(to), saved: ByteCount(saved) };
        assert!(!reshape.allows(moved), "{moved:?} is of another reshape");
    }
}
