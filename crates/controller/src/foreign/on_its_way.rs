//! A reshaping volume of Linux md as a reshaping volume of SoftROC.
//!
//! md's superblocks record two layouts and the progress of the reshape, as SoftROC's labels do.
//! Both use the same order of writes if the data begin at the same offset in both layouts: no write
//! overwrites an old row with bytes ahead of the recorded position. Exception: rows at the start of
//! the volume, which may exist only in mdadm's backup file.

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

/// Levels whose reshape SoftROC can continue.
const LEVELS: [Level; 2] = [Level::Raid5, Level::Raid6];

/// The reshape of a foreign volume.
pub(super) struct ForeignWay<'a> {
    /// The old layout, over the range common to both.
    pub(super) was: &'a Section,
    is: Geometry,
    position: ByteOffset,
    is_down: bool,
    /// A description, for sentences.
    words: String,
}

/// The reshape of a volume, if it has one.
///
/// # Errors
/// Why SoftROC cannot continue it: a sentence.
pub(super) fn foreign_way(found: &FoundVolume) -> Result<Option<ForeignWay<'_>>, String> {
    let Some(reshape) = found.record.reshape() else { return Ok(None) };
    let Reshape { from, to, .. } = reshape;
    let words = format!("from {from} to {to}");
    let cannot = |why: &str| Err(format!("a reshape of it {words} was interrupted, {why}"));
    let Some(layouts) = &reshape.layouts else {
        return cannot(
            "of a kind that SoftROC cannot continue; finish it with the system that began it",
        );
    };
    if reshape.shift != 0 {
        return cannot(
            "which moves the start of the data, as SoftROC's reshapes cannot; finish it with Linux \
            md (mdadm --assemble)",
        );
    }
    if layouts.is_critical {
        return cannot(
            "and its current window may exist only in a backup file of mdadm; finish it with Linux \
            md (mdadm --assemble --backup-file=FILE)",
        );
    }
    let (was, is) = (layouts.was.geometry()?, layouts.is.geometry()?);
    if [was, is].iter().any(|side| !LEVELS.contains(&side.level())) {
        return cannot(
            "and SoftROC continues only reshapes between RAID 5 and 6; finish it with Linux md \
            (mdadm --assemble)",
        );
    }
    if found.state != State::Complete {
        return cannot(
            "and not all of its members are current; finish it with Linux md (mdadm --assemble \
            --run)",
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
    /// Adds the parts of the label's last volume, which is reshaping, and its progress. Regions
    /// follow the new layout, whose rows may be unsynced like those of the old one.
    ///
    /// # Errors
    /// Why the reshape cannot continue: a sentence.
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
        // The same values as each start derives from the label.
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
            return Err(
                "its reshape was interrupted at a position that SoftROC cannot continue from"
                    .into(),
            );
        }
        let save = self.part(label, &of, ("save", true), &save, on)?;
        label.volume.push(VolumeLabel { data_start_bytes: save_at, ..save });
        let save = label.volume.last().map_or(of.uuid, |save| save.uuid);
        let to = self.part(label, &of, ("new", false), &way.is, on)?;
        let to =
            VolumeLabel { data_start_bytes: of.data_start_bytes, capacity_bytes: capacity, ..to };
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
            "the reshape of '{}' {} continues; run 'softroc task list' for its progress",
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
            .ok_or_else(|| format!("it needs {count} more regions than the array supports"))?;
        let part =
            self.arrays.label_of(format!("{}+{suffix}", of.name), geometry, first..first + count);
        let own: Uuid = of.uuid;
        Ok(VolumeLabel {
            sector_bytes: of.sector_bytes,
            part: Some(PartLabel { of: own, saves }),
            members,
            ..part
        })
    }
}
