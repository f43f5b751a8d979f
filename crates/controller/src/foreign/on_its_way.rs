//! A volume of Linux md in the middle of a reshape, as a volume of SoftROC's on its way to another layout.
//!
//! md's superblocks say two layouts and how far the reshape has come, and so does a label. The order in which md goes on is that of
//! SoftROC's, where the data begin at the same place by both layouts: nothing is written over an old row that has bytes ahead of the recorded
//! position. But for the rows at the volume's beginning: what md was at there may be in mdadm's backup alone.

use crate::arrays::extents;
use crate::arrays::journal::with_write_hole;
use crate::arrays::reshape::{MOST, at_a_time};
use crate::arrays::way::save_place;
use crate::foreign::Foreign;
use engine::{Moved, Regions};
use layout::{Geometry, Level};
use ondisk::foreign::{FoundVolume, Reshape, Section, State};
use ondisk::{Label, PartLabel, ReshapeLabel, Uuid, VolumeLabel};
use std::ops::Range;
use units::{ByteCount, ByteOffset};

/// Levels that go on here.
const LEVELS: [Level; 2] = [Level::Raid5, Level::Raid6];

/// The way of a foreign volume.
pub(super) struct ForeignWay<'a> {
    /// As it was, over what both layouts have.
    pub(super) was: &'a Section,
    is: Geometry,
    position: ByteOffset,
    is_down: bool,
    /// What it is, for a sentence.
    words: String,
}

/// The way that a volume is on, if it is on one.
///
/// # Errors
/// Why SoftROC cannot go on with it: a sentence.
pub(super) fn foreign_way(found: &FoundVolume) -> Result<Option<ForeignWay<'_>>, String> {
    let Some(reshape) = found.record.reshape() else { return Ok(None) };
    let Reshape { from, to, .. } = reshape;
    let words = format!("from {from} to {to}");
    let cannot = |why: &str| Err(format!("a reshape of it {words} was interrupted, {why}"));
    let Some(layouts) = &reshape.layouts else {
        return cannot("of a kind with which SoftROC cannot go on; let the system that began it finish it");
    };
    if reshape.shift != 0 {
        return cannot(
            "which moves the beginning of the data, and SoftROC's moves leave it where it is; let Linux md finish it (mdadm --assemble)",
        );
    }
    if layouts.is_critical {
        return cannot(
            "and what it was at may be in a file of mdadm's alone; let Linux md finish it (mdadm --assemble --backup-file=FILE)",
        );
    }
    let (was, is) = (layouts.was.geometry()?, layouts.is.geometry()?);
    if [was, is].iter().any(|side| !LEVELS.contains(&side.level())) {
        return cannot(
            "and SoftROC goes on from RAID 5 and 6 to RAID 5 and 6 alone; let Linux md finish it (mdadm --assemble)",
        );
    }
    if found.state != State::Complete {
        return cannot(
            "and not all of its members are current; let Linux md finish it (mdadm --assemble --run)",
        );
    }
    Ok(Some(ForeignWay {
        was: &layouts.was,
        is,
        position: reshape.position,
        is_down: reshape.backwards,
        words,
    }))
}

impl Foreign {
    /// Adds to a label the parts of its last volume, which is on that way, and says how far it is. The regions by its new layout, whose rows
    /// may be in doubt as those by the old one.
    ///
    /// # Errors
    /// Why it cannot go that way: a sentence.
    pub(super) fn add_way(
        &self,
        label: &mut Label,
        way: &ForeignWay<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Range<u32>, String> {
        let members = u16::try_from(label.member.len()).unwrap_or(u16::MAX);
        let of = label.volume.last().cloned().ok_or("it has no volume")?;
        let was = way.was.geometry()?;
        let on = Some(way.is.drives().0).filter(|drives| *drives < members);
        let (save_at, save) = save_place(label, &was, &way.is).map_err(|error| error.message)?;
        let capacity = if way.is_down { of.capacity_bytes } else { way.is.capacity().0 };
        // As every start makes it of the label.
        let (from, to, most) = (was, way.is, at_a_time(was.member_size(), MOST));
        let goes = ByteCount(of.capacity_bytes.min(capacity));
        let reshape = engine::Reshape::new(from, to, goes, save.member_size(), most)?;
        let bytes = reshape.bytes();
        let moved = match way.is_down {
            true => bytes.saturating_sub(ByteCount(way.position.0)),
            false => bytes.min(ByteCount(way.position.0)),
        };
        let saved = ByteCount::ZERO;
        if reshape.is_down() != way.is_down || !reshape.allows(Moved { bytes: moved, saved }) {
            return Err("its reshape was interrupted at a place where SoftROC's would not be".into());
        }
        let save = self.part(label, &of, ("save", true), &save, on)?;
        label.volume.push(VolumeLabel { data_start_bytes: save_at, ..save });
        let save = label.volume.last().map_or(of.uuid, |save| save.uuid);
        let to = self.part(label, &of, ("new", false), &way.is, on)?;
        let to = VolumeLabel { data_start_bytes: of.data_start_bytes, capacity_bytes: capacity, ..to };
        let to = with_write_hole(to, Some(of.write_hole), Some(label))?;
        let (uuid, to_uuid, regions) = (of.uuid, to.uuid, to.first_region..to.end_region());
        label.volume.push(to);
        if let Some(volume) = label.volume_mut(uuid) {
            volume.members = Some(was.drives().0);
            volume.reshape = Some(ReshapeLabel {
                to: to_uuid,
                save,
                begun: true,
                moved_bytes: moved.0,
                saved_bytes: saved.0,
                down: way.is_down,
            });
        }
        notes.push(format!(
            "the reshape of '{}' {} goes on here; run 'softroc task list' for its progress",
            of.name, way.words
        ));
        Ok(regions)
    }

    fn part(
        &self,
        label: &Label,
        of: &VolumeLabel,
        (suffix, saves): (&str, bool),
        geometry: &Geometry,
        members: Option<u16>,
    ) -> Result<VolumeLabel, String> {
        let count = Regions::of(geometry).count;
        let first = extents::free_regions(Some(label), count)
            .ok_or_else(|| format!("it would have {count} regions more, and an array has not so many"))?;
        let part = self.arrays.label_of(format!("{}+{suffix}", of.name), geometry, first..first + count);
        let own: Uuid = of.uuid;
        Ok(VolumeLabel {
            sector_bytes: of.sector_bytes,
            part: Some(PartLabel { of: own, saves }),
            members,
            ..part
        })
    }
}
