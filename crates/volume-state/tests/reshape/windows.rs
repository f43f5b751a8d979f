//! Windows of all layouts: none overwrites data that is still needed.

use layout::{Geometry, Level, MirrorArrangement, Shape};
use units::{ByteCount, ByteRange, DriveCount, StripSize, StripeIndex};
use volume_state::{Moved, Reshape};

const STRIP: u64 = 64 << 10;

fn geometry(level: Level, drives: u16, strip: u64, rows: u64) -> Option<Geometry> {
    let strip = StripSize::new(ByteCount(strip)).ok()?;
    Geometry::new(level, DriveCount(drives), strip, ByteCount(rows * STRIP)).ok()
}

/// Start and end on the drives of a layout's first and last stripe.
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

/// Whether two parts of the drives are disjoint.
fn are_apart((begins, ends): (u64, u64), (first, last): (u64, u64)) -> bool {
    ends <= first || begins >= last
}

/// Checks all windows; returns their number and the number of saved ones. `most`: limit on each
/// drive for the nth window.
fn walk(reshape: &Reshape, save: ByteCount, most: impl Fn(u64) -> ByteCount) -> (u64, u64) {
    let (mut moved, mut windows, mut saved) = (ByteCount::ZERO, 0, 0);
    while let Some((window, is_saved)) = reshape.next(moved, most(windows)) {
        assert_eq!(reshape.before(&window), moved, "{reshape:?}");
        assert!(!window.bytes.is_empty(), "{reshape:?} makes progress");
        let place = extent(reshape.to(), window.stripes.clone());
        let len = place.1 - place.0;
        assert!(!is_saved || len <= save.0, "{reshape:?} {window:?}: there is room to save it");
        // A window overwrites no data needed later, and without a save none of its own source.
        let after = reshape.after(&window);
        let needed = if is_saved { after } else { moved };
        let old = extent(reshape.from(), reshape.old_stripes(needed));
        assert!(
            are_apart(place, old),
            "{reshape:?}: {window:?} is written to {place:?}, and {old:?} is needed"
        );
        // It is as small as requested, or as rows allow.
        let least = Reshape::least_save(reshape.from(), reshape.to()).max(most(windows));
        assert!(len <= least.0, "{reshape:?} {window:?}: limit {}", most(windows));
        assert_eq!(reshape.of_each_drive(window.bytes.len).0, len, "{reshape:?} {window:?}");
        // It does not overwrite data in the new layout.
        let new = extent(reshape.to(), reshape.new_stripes(moved));
        assert!(
            are_apart(place, new),
            "{reshape:?}: {window:?} is written to {place:?}, and {new:?} has moved"
        );
        let record = Moved {
            bytes: moved,
            saved: if is_saved { window.bytes.len } else { ByteCount::ZERO },
        };
        assert!(reshape.allows(record), "{reshape:?}: {record:?}");
        assert!(
            !is_saved || reshape.saved_range(record) == window.bytes,
            "{reshape:?}: {record:?}"
        );
        // Written stripes are in use, also spans of the last row without data of the volume.
        let (before, in_use) = (reshape.new_stripes(moved), reshape.new_stripes(after));
        let expected = match reshape.is_down() {
            true => window.stripes.start..before.end,
            false => 0..window.stripes.end,
        };
        assert_eq!(in_use, expected, "{reshape:?} {window:?}");
        // Each byte is in one layout.
        let covers = |range: ByteRange| range.len.0 == after.0 && range.contains(window.bytes);
        assert!(covers(reshape.by_new(after)), "{reshape:?} {window:?}");
        moved = after;
        windows += 1;
        saved += u64::from(is_saved);
    }
    assert_eq!(moved, reshape.bytes(), "{reshape:?}");
    assert!(reshape.allows(Moved { bytes: moved, saved: ByteCount::ZERO }));
    assert!(reshape.old_stripes(moved).is_empty(), "nothing of the old layout is needed");
    (windows, saved)
}

#[test]
fn no_window_is_written_over_what_is_needed() {
    use Level::{Raid0, Raid1, Raid5, Raid6, Raid10, Raid50, Raid60};
    let levels = [Raid0, Raid1, Raid5, Raid6, Raid10, Raid50, Raid60];
    let (save, most) = (ByteCount(4 * STRIP), ByteCount(16 * STRIP));
    let mut tried = [0; 2];
    for from in levels {
        for to in levels {
            for (old, new) in (2..=9).flat_map(|old| (2..=9).map(move |new| (old, new))) {
                for (old_strip, new_strip) in [(1, 1), (2, 1), (1, 4)] {
                    let old = geometry(from, old, old_strip * STRIP, 40);
                    let new = geometry(to, new, new_strip * STRIP, 40);
                    let (Some(old), Some(new)) = (old, new) else { continue };
                    // Not the whole capacity, so that the last stripes of both are partial.
                    let bytes = ByteCount(old.capacity().0 - 3 * 4096).min(new.capacity());
                    let Ok(reshape) = Reshape::new(old, new, bytes, save, most) else { continue };
                    walk(&reshape, save, |_| ByteCount(u64::MAX));
                    // The limit changes on the way, as with host load.
                    walk(&reshape, save, |window| ByteCount((window * 7 % 5) * STRIP));
                    // A volume smaller than its capacity.
                    let half = ByteCount(bytes.0 / 8192 * 4096);
                    let smaller =
                        Reshape::new(old, new, half, save, most).expect("as the larger one");
                    walk(&smaller, save, |_| ByteCount(u64::MAX));
                    tried[usize::from(reshape.is_down())] += 1;
                }
            }
        }
    }
    assert!(tried.iter().all(|tried| *tried > 400), "{tried:?}");
}

/// The first rows overwrite their own source; later there is ever more free space.
#[test]
fn with_a_drive_more_only_the_beginning_is_saved() {
    let (old, new) =
        (geometry(Level::Raid5, 4, STRIP, 4000), geometry(Level::Raid5, 5, STRIP, 4000));
    let (old, new) = (old.expect("four drives"), new.expect("five drives"));
    let save = ByteCount(96 * STRIP);
    let reshape =
        Reshape::new(old, new, old.capacity(), save, ByteCount(256 * STRIP)).expect("it grows");
    let (windows, saved) = walk(&reshape, save, |_| ByteCount(u64::MAX));
    assert_eq!((windows, saved), (18, 1));
    // With host load all windows are small, and as much is saved.
    let (windows, saved) = walk(&reshape, save, |_| ByteCount(16 * STRIP));
    assert_eq!((windows, saved), (190, 1));
}

/// The first window overwrites old rows past the volume's last byte, needed to cancel; the last
/// rows overwrite their own source. Between them there is free space.
#[test]
fn with_a_drive_less_the_first_window_and_the_last_ones_are_saved() {
    let (old, new) =
        (geometry(Level::Raid5, 5, STRIP, 4000), geometry(Level::Raid5, 4, STRIP, 4000));
    let (old, new) = (old.expect("five drives"), new.expect("four drives"));
    let save = ByteCount(96 * STRIP);
    let moves =
        |bytes| Reshape::new(old, new, bytes, save, ByteCount(256 * STRIP)).expect("it fits");
    let reshape = moves(new.capacity());
    assert!(reshape.is_down());
    assert_eq!(walk(&reshape, save, |_| ByteCount(u64::MAX)), (23, 2));
    // A small volume lies at the beginning of its drives: no old row there is free before the first
    // record.
    assert_eq!(walk(&moves(ByteCount(96 * STRIP)), save, |_| ByteCount(u64::MAX)), (1, 1));
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
    assert!(refused(four, five, STRIP / 2).contains("there is room for"));
    let far =
        Shape { mirrors: Some(MirrorArrangement::Far), ..Shape::new(Level::Raid1e, DriveCount(4)) };
    let far = far.geometry(StripSize::KIB_64, ByteCount(40 * STRIP)).expect("far copies");
    assert!(refused(far, five, STRIP).contains("cannot be moved in order"));
    let reshape = Reshape::new(four, five, four.capacity(), ByteCount(STRIP), ByteCount(STRIP))
        .expect("it grows");
    let expect_strange = |reshape: &Reshape, records: &[(u64, u64)]| {
        for (bytes, saved) in records {
            let moved = Moved { bytes: ByteCount(*bytes), saved: ByteCount(*saved) };
            assert!(!reshape.allows(moved), "{moved:?} belongs to another reshape");
        }
    };
    let strange =
        [(1, 0), (4 * STRIP, 1), (4 * STRIP, 8 * STRIP), (0, u64::MAX), (4 * STRIP + 4096, 0)];
    expect_strange(&reshape, &strange);
    // Downward, windows count from the last byte.
    let ten = ByteCount(10 * STRIP);
    let down = Reshape::new(five, four, ten, ByteCount(STRIP), ByteCount(STRIP)).expect("it fits");
    for (bytes, saved) in [(0, 0), (0, STRIP), (STRIP, 3 * STRIP), (10 * STRIP, 0)] {
        assert!(down.allows(Moved { bytes: ByteCount(bytes), saved: ByteCount(saved) }));
    }
    let strange =
        [(3 * STRIP, 0), (STRIP, STRIP), (STRIP, 6 * STRIP), (11 * STRIP, 0), (1, u64::MAX)];
    expect_strange(&down, &strange);
}
