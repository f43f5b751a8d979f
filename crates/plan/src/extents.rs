//! Bands of several extents and of cached data.
//!
//! Columns are cut where an extent or a cached range starts or ends; columns outside the written
//! ones are omitted. Neighbours with the same written and cached strips are joined, so adjacent
//! extents act as one:
//!
//! ```text
//!              D0   D1   D2                D0   D1   D2                 D0   D1   D2
//!   0..8 KiB    #    #    #      0..8 KiB   #    .    .       0..8 KiB   #    m    m
//!                                8..16      .    #    .
//!                                16..24     .    .    .       # written   m in memory
//!                                24..32     .    #    .
//!
//!   a rectangle                  three extents                cached data counts as read
//! ```

use crate::bands::{Band, MAX_BANDS};
use crate::survey::Parities;
use crate::{Cached, ErrorKind, Plan, Source, Unplannable, no_columns, out_of_range};
use layout::{CopyIndex, DataIndex, Role};
use units::{ByteCount, ByteOffset, ByteRange};

/// The smallest sector size of drives.
const SECTOR: u64 = 512;

/// Records the extents and the cached ranges of a fresh plan, and cuts its columns.
///
/// # Errors
/// When an extent is empty or exceeds the stripe's data, when a cached range exceeds its strip, and
/// when there are too many cuts.
///
/// # Panics
/// When either list is not ascending, overlaps or has partial sectors: a caller's error.
pub(crate) fn fill_bands(
    plan: &mut Plan,
    extents: &[ByteRange],
    cached: &[Cached],
) -> Result<(), Unplannable> {
    let whole_sectors = |range: &ByteRange| (range.start.0 | range.len.0).is_multiple_of(SECTOR);
    assert!(extents.iter().all(whole_sectors), "extents are whole sectors: {extents:?}");
    assert!(
        cached.iter().all(|it| whole_sectors(&it.columns)),
        "cached ranges are whole sectors: {cached:?}"
    );
    check_places(plan, extents, cached)?;
    assert!(extents.is_sorted_by(|a, b| a.end() <= b.start), "extents ascend apart: {extents:?}");
    let ascends = |a: &Cached, b: &Cached| {
        a.role < b.role || a.role == b.role && a.columns.end() <= b.columns.start
    };
    assert!(cached.is_sorted_by(ascends), "cached ranges ascend apart: {cached:?}");

    let bands = &mut plan.bands;
    let mut payload = 0;
    for extent in extents {
        bands.payload_at.push(payload);
        payload += extent.len.0;
    }
    bands.extents.extend_from_slice(extents);
    plan.cached.extend_from_slice(cached);
    // Without parity a write reads nothing.
    let cached = if plan.geometry.parity_strips() > 0 { cached } else { &[] };
    let whole = ByteRange::from_to(extents[0].start, extents[extents.len() - 1].end());
    if cached.is_empty() && whole.len.0 == payload {
        bands.fill(whole);
        return Ok(());
    }
    let strip = plan.geometry.strip().bytes().0;
    (bands.is_scattered, bands.payload) = (true, payload);
    bands.first = (whole.start.0 / strip) as u16;
    bands.last = ((whole.end().0 - 1) / strip) as u16;
    cut(&mut bands.band, strip, extents, cached);
    let count = bands.band.len();
    if count > MAX_BANDS {
        let context = format!(
            "stripe {}: {} extents and {} cached runs cut the columns of a strip into {count} \
                runs, of which at most {MAX_BANDS} are planned at once; plan fewer columns",
            plan.stripe,
            extents.len(),
            cached.len()
        );
        return Err(Unplannable {
            kind: ErrorKind::TooScattered,
            context,
            ranges: extents.to_vec(),
        });
    }
    Ok(())
}

fn check_places(plan: &Plan, extents: &[ByteRange], cached: &[Cached]) -> Result<(), Unplannable> {
    let (data, strip) = (plan.geometry.stripe_bytes().0, plan.geometry.strip().bytes().0);
    let is_inside = |range: ByteRange, len: u64| {
        !range.is_empty() && range.start.0.checked_add(range.len.0).is_some_and(|end| end <= len)
    };
    if let Some(outside) = extents.iter().find(|extent| !is_inside(**extent, data)) {
        return Err(out_of_range(&plan.geometry, plan.stripe, *outside));
    }
    if extents.is_empty() {
        return Err(out_of_range(
            &plan.geometry,
            plan.stripe,
            ByteRange::new(ByteOffset::ZERO, ByteCount::ZERO),
        ));
    }
    let is_there = |role| role != Role::Spare && plan.map.cell_of(role).is_some();
    match cached.iter().find(|it| !is_inside(it.columns, strip) || !is_there(it.role)) {
        Some(it) if is_there(it.role) => Err(no_columns(plan.stripe, it.columns, ByteCount(strip))),
        Some(it) => Err(crate::not_there(plan.stripe, &format!("strip {}", it.role))),
        None => Ok(()),
    }
}

/// The content of a piece of a strip.
#[derive(Clone, Copy)]
enum Piece {
    Written(u16),
    Cached(u16),
    CachedParity(Parities),
}

/// Calls `with` for each written or cached piece of a strip: its kind, first column and end.
fn each_piece(
    strip: u64,
    extents: &[ByteRange],
    cached: &[Cached],
    mut with: impl FnMut(Piece, u64, u64),
) {
    for extent in extents {
        let mut at = extent.start.0;
        while at < extent.end().0 {
            let (i, end) = (at / strip, extent.end().0.min((at / strip + 1) * strip));
            with(Piece::Written(i as u16), at % strip, end - i * strip);
            at = end;
        }
    }
    for Cached { role, columns } in cached {
        let piece = match role {
            Role::Data { index, .. } => Piece::Cached(index.0),
            Role::P => Piece::CachedParity(0b01),
            Role::Q => Piece::CachedParity(0b10),
            Role::Spare => continue,
        };
        with(piece, columns.start.0, columns.end().0);
    }
}

/// Fills in the bands from the first written column to the last.
fn cut(bands: &mut Vec<Band>, strip: u64, extents: &[ByteRange], cached: &[Cached]) {
    let (mut first, mut last) = (u64::MAX, 0);
    let at = |start| Band { start, ..Band::default() };
    each_piece(strip, extents, cached, |piece, start, end| {
        if let Piece::Written(_) = piece {
            (first, last) = (first.min(start), last.max(end));
        }
        bands.extend([at(start), at(end)]);
    });
    bands.retain(|band| first <= band.start && band.start <= last);
    bands.sort_unstable_by_key(|band| band.start);
    bands.dedup();
    for b in 1..bands.len() {
        bands[b - 1].len = bands[b].start - bands[b - 1].start;
    }
    bands.pop(); // The last cut, where nothing begins.
    each_piece(strip, extents, cached, |piece, start, end| {
        let begin = bands.partition_point(|band| band.start < start);
        for band in bands[begin..].iter_mut().take_while(|band| band.start < end) {
            match piece {
                Piece::Written(i) => band.concerned |= 1 << i,
                Piece::Cached(i) => band.cached |= 1 << i,
                Piece::CachedParity(set) => band.cached_parity |= set,
            }
        }
    });
    bands.dedup_by(|band, previous| {
        let is_same = Band { start: 0, len: 0, ..*band } == Band { start: 0, len: 0, ..*previous };
        previous.len += if is_same { band.len } else { 0 };
        is_same
    });
}

/// Records the location of all cached bytes that the chosen ways use.
pub(crate) fn note_cached(plan: &mut Plan) {
    if !plan.bands.is_scattered {
        return;
    }
    let strips = plan.geometry.data_strips();
    for b in 0..plan.bands.all().len() {
        let band = plan.bands.all()[b];
        let at = ByteOffset(band.start);
        for i in crate::survey::each(band.cached) {
            let role = Role::Data { index: DataIndex(i), copy: CopyIndex(0) };
            plan.set_old(i, b, Source::Cached { role, at });
        }
        for (bit, role) in crate::survey::roles_in(band.cached_parity) {
            plan.set_old(strips + bit, b, Source::Cached { role, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kib(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10))
    }

    fn bands(extents: &[ByteRange], cached: &[Cached]) -> Vec<(u64, u64, u64, u64, u8)> {
        let mut bands = Vec::new();
        cut(&mut bands, 64 << 10, extents, cached);
        let row = |band: &Band| {
            (band.start >> 10, band.len >> 10, band.concerned, band.cached, band.cached_parity)
        };
        bands.iter().map(row).collect()
    }

    #[test]
    fn a_rectangle_is_one_band() {
        assert_eq!(bands(&[kib(8, 8), kib(72, 8), kib(136, 8)], &[]), [(8, 8, 0b111, 0, 0)]);
    }

    #[test]
    fn extents_are_cut_where_they_differ_and_joined_where_they_do_not() {
        // D0: 8..16 and 16..24 joined, 40..44; D1: 12..20.
        let extents = [kib(8, 8), kib(16, 8), kib(40, 4), kib(64 + 12, 8)];
        let expected = [
            (8, 4, 1, 0, 0),
            (12, 8, 3, 0, 0),
            (20, 4, 1, 0, 0),
            (24, 16, 0, 0, 0),
            (40, 4, 1, 0, 0),
        ];
        assert_eq!(bands(&extents, &[]), expected);
    }

    #[test]
    fn what_is_cached_counts_between_the_first_column_that_is_written_and_the_last() {
        let p = |columns| Cached { role: Role::P, columns };
        let cached = [Cached::data(DataIndex(2), kib(0, 12)), p(kib(4, 2)), p(kib(10, 30))];
        let expected = [(8, 2, 1, 4, 0), (10, 2, 1, 4, 1), (12, 4, 1, 0, 1)];
        assert_eq!(bands(&[kib(8, 8)], &cached), expected);
    }
}
