//! Interrupted reshapes of Linux md: a volume with one layout up to a position, and another layout
//! behind it.
//!
//! # Rules
//! Sources: `md_p.h`, and `raid5_make_request`, `reshape_request` and `super_1_load` of Linux.
//!
//! - The position counts the volume's sectors. Before it the new layout applies, behind it the old
//!   one; if the reshape goes backwards, the reverse.
//! - In the old layout, the data begin at the superblock's offset; in the new one, `new_offset`
//!   sectors further (it may be negative).
//! - Where this moves the data, superblocks with a new position are durable before the reshape
//!   overwrites data that the older position needs, and before hosts write to the passed part. So
//!   the volume is complete by the position of the least advanced member. By the positions of other
//!   members it may not be: Linux writes all superblocks at a time, each flushing its own member,
//!   and after a crash a member may have lost data that moved to it since the older position.
//! - Where the data offset stays and the rows have more or fewer data strips, the same holds,
//!   except while the writes overlap the rows that were read from (the *critical section*), at the
//!   volume's beginning. mdadm keeps a copy of that part in a file or on a spare; the members alone
//!   do not have it. Linux records its position before it overwrites data that it read since the
//!   last record, but only where the least address that it may read is ahead of the farthest that
//!   it may write, with a margin of one strip on both sides (`readpos`, `writepos`). Until then it
//!   may not record: up to twice as far as the rows that end together, where mdadm's copy ends.
//! - Where the data offset stays and the rows have as many data strips, the whole reshape is a
//!   critical section, whatever the chunk.
//! - The volume has the smaller of both sizes: it grows after the reshape, and shrinks before it.

use super::SECTOR;
use super::levels::describe;
use crate::foreign::record::{Feature, Layouts, Reshape, VolumeRecord};
use crate::foreign::section::{Arrangement, Section};
use layout::Geometry;
use units::{ByteCount, ByteOffset, ByteRange, StripSize};

/// The layout of a volume on its members, in md's numbers.
pub(super) struct MdLayout {
    pub(super) level: i32,
    pub(super) layout: u32,
    pub(super) chunk: ByteCount,
    pub(super) members: i64,
}

/// md's record of a reshape that is under way.
pub(super) struct MdReshape {
    pub(super) before: MdLayout,
    pub(super) after: MdLayout,
    /// In sectors of the volume.
    pub(super) position: u64,
    pub(super) backwards: bool,
    /// The distance that the data move on each member, in sectors.
    pub(super) shift: i64,
}

/// Adds the reshape, with its layouts, to the record of a volume.
pub(super) fn note(volume: &mut VolumeRecord, change: &MdReshape) {
    let mut reshape = Reshape {
        position: ByteOffset(change.position.saturating_mul(SECTOR)),
        backwards: change.backwards,
        from: words(&change.before),
        to: words(&change.after),
        shift: change.shift.saturating_mul(SECTOR as i64),
        layouts: None,
    };
    let layouts = layouts(change, reshape.position, volume.member_size.unwrap_or_default());
    let interrupted = format!(
        "a reshape from {} to {} was interrupted at {} of the volume",
        reshape.from,
        reshape.to,
        ByteCount(reshape.position.0)
    );
    volume.arrangement = match &layouts {
        Ok(layouts) if !layouts.is_critical => {
            let here = ByteRange::new(reshape.position, ByteCount::ZERO);
            Arrangement::Sections(layouts.around(here, reshape.backwards))
        }
        Ok(_) => Arrangement::Other(format!(
            "{interrupted}, and its members may lack a part, since moved data overwrote their \
             source; name mdadm's backup file of that part: 'softroc rescue DRIVE... \
             --backup-file FILE', or let Linux md finish the reshape on copies of the drives"
        )),
        Err(why) => Arrangement::Other(format!(
            "{interrupted}, and {why}; let Linux md finish the reshape on copies of the drives"
        )),
    };
    reshape.layouts = layouts.ok();
    let most = change.before.members.max(change.after.members);
    volume.slots = u16::try_from(most).unwrap_or(volume.slots);
    volume.features.push(Feature::Reshape(reshape));
}

fn words(laid: &MdLayout) -> String {
    let described =
        describe(laid.level, Some(laid.layout), u16::try_from(laid.members).unwrap_or(0));
    let layout = &described.layout;
    let space = if layout.is_empty() { "" } else { " " };
    format!(
        "{}{space}{layout} on {} members with a strip of {}",
        described.level, laid.members, laid.chunk
    )
}

/// Both layouts, each over the bytes that both contain.
fn layouts(
    change: &MdReshape,
    position: ByteOffset,
    member_size: ByteCount,
) -> Result<Layouts, String> {
    let shift = ByteOffset(change.shift.unsigned_abs().saturating_mul(SECTOR));
    let (was_at, is_at) = match change.shift < 0 {
        true => (shift, ByteOffset(0)),
        false => (ByteOffset(0), shift),
    };
    let mut was = piece(&change.before, was_at, member_size)?;
    let mut is = piece(&change.after, is_at, member_size)?;
    let is_critical = change.shift == 0
        && is_critical(&was.geometry()?, &is.geometry()?, position, change.backwards);
    let len = was.within.len.min(is.within.len);
    (was.within.len, is.within.len) = (len, len);
    Ok(Layouts { was, is, is_critical })
}

/// Whether the latest writes may overlap the rows that they were read from. Linux compares
/// addresses on a member: `position / before - strip` with `position / after + strip` in a forward
/// reshape, and the reverse in a backward one. They are equal at `even`.
fn is_critical(was: &Geometry, is: &Geometry, position: ByteOffset, backwards: bool) -> bool {
    let (before, after) = (u64::from(was.data_strips()), u64::from(is.data_strips()));
    let fewer = before.abs_diff(after);
    if fewer == 0 {
        return true;
    }
    let strip = was.strip().bytes().max(is.strip().bytes()).0;
    let even = (2 * before * after * strip).div_ceil(fewer);
    match backwards {
        // The last recorded position may be a row farther, since the next one is too near to the
        // beginning.
        true => position.0 <= even + before * strip,
        false => position.0 < even,
    }
}

fn piece(laid: &MdLayout, start: ByteOffset, member_size: ByteCount) -> Result<Section, String> {
    let members = u16::try_from(laid.members)
        .map_err(|_| format!("it would have {} members", laid.members))?;
    let shape = match describe(laid.level, Some(laid.layout), members).arrangement {
        Arrangement::Shape(shape) if shape.level.has_parity() => shape,
        Arrangement::Other(why) => return Err(why),
        _ => return Err("this kind of reshape is not supported".into()),
    };
    let strip = StripSize::new(laid.chunk).map_err(|error| error.to_string())?;
    Section::new(shape, strip, (0..members).map(|slot| (slot, start)).collect(), member_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::{Level, Shape};
    use units::DriveCount;

    const STRIP: u64 = 64 << 10;

    fn with_data(strips: u64) -> Geometry {
        let strip = StripSize::new(ByteCount(STRIP)).unwrap();
        let shape = Shape::new(Level::Raid5, DriveCount(strips as u16 + 1));
        shape.geometry(strip, ByteCount(1 << 30)).unwrap()
    }

    /// Whether Linux, from its last recorded position on, overwrites a row that it needs from there
    /// before it records another position: as `reshape_request` in its raid5.c does it, by a row at
    /// a time.
    fn writes_over((before, after): (u64, u64), recorded: u64, backwards: bool) -> bool {
        let (mut at, safe, row) = (recorded, recorded / before, after * STRIP);
        while if backwards { at > 0 } else { at < 1000 * row } {
            let (reads, writes) = (at / before, at / after);
            let is_recorded = match backwards {
                true => {
                    let writes = writes.saturating_sub(STRIP);
                    safe + STRIP > writes && reads + STRIP < writes
                }
                false => {
                    let writes = writes + STRIP;
                    safe.saturating_sub(STRIP) < writes && reads.saturating_sub(STRIP) > writes
                }
            };
            if is_recorded && at != recorded {
                return false;
            }
            let next = if backwards { at.saturating_sub(row) } else { at + row };
            let is_over = match backwards {
                true => next / after < recorded.div_ceil(before * STRIP) * STRIP,
                false => next / after > recorded / (before * STRIP) * STRIP,
            };
            if is_over {
                return true;
            }
            at = next;
        }
        false
    }

    /// Regression: the bound was farther than the position where Linux begins to record (39 strips
    /// instead of 24 from four drives to five), and reshapes between were refused, with and without
    /// a backup.
    #[test]
    fn the_critical_section_ends_where_linux_records_before_it_writes_over_anything() {
        for way in [
            (2, 3),
            (3, 4),
            (2, 4),
            (3, 5),
            (4, 6),
            (9, 10),
            (3, 2),
            (4, 3),
            (4, 2),
            (6, 4),
            (5, 3),
            (10, 9),
        ] {
            let (before, after, backwards) = (way.0, way.1, way.1 < way.0);
            for row in 0..100 {
                let at = row * after * STRIP;
                let is_critical =
                    is_critical(&with_data(before), &with_data(after), ByteOffset(at), backwards);
                // At the beginning of the volume it writes no more.
                let is_over = writes_over(way, at, backwards) || backwards && at == 0;
                assert_eq!(is_critical, is_over, "{before} to {after}, {row} rows");
            }
        }
    }
}
