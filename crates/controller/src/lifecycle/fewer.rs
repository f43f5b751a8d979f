//! `volume migrate` to less: drives that a volume is to lie on no more, and room that it has no more.

use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::interface::{Error, ErrorKind, ReshapeVolume, Result};
use crate::lifecycle::Lifecycle;
use layout::Geometry;
use ondisk::VolumeLabel;
use std::collections::BTreeSet;
use units::ByteCount;

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

impl Lifecycle {
    /// On how many of its array's members, the first ones, a volume stays.
    ///
    /// # Errors
    /// When other drives are to go than the last ones, with the nearest way.
    pub(super) fn kept_members(
        &self,
        order: &ReshapeVolume,
        array: &Array,
        volume: &Volume,
    ) -> Result<usize> {
        let (name, members) = (volume.name(), array.label().member);
        if order.remove.is_empty() {
            return Ok(members.len());
        }
        if !order.add.is_empty() {
            return Err(invalid(format!(
                "'{name}' gets drives or gives some up, one after the other; run 'softroc volume migrate {name} --remove {}' first, and add the others when that is done",
                order.remove.join(" ")
            )));
        }
        let mut slots = BTreeSet::new();
        for text in &order.remove {
            let drive = self.arrays.find_drive(text)?;
            let slot = array.slot_of(&drive).ok_or_else(|| {
                invalid(format!(
                    "drive {} is none of '{name}'; run 'softroc volume show {name}' for those that are",
                    drive.name
                ))
            })?;
            slots.insert(slot);
        }
        let kept = members.len() - slots.len();
        let stays = (kept..members.len()).rev().find(|slot| !slots.contains(slot));
        match (slots.first(), stays) {
            (Some(first), Some(last)) => {
                let (first, last) = (&members[*first].name, &members[last].name);
                Err(invalid(format!(
                    "'{name}' stays on the first of its drives, so those of the last slots can go, and drive {first} cannot before drive {last}; remove {last} instead with 'softroc volume migrate {name} --remove {last}', and when that is done run 'softroc drive replace {first} --with {last}'"
                )))
            }
            _ => Ok(kept),
        }
    }
}

/// What hosts can use in the end of a volume that goes to this layout. `stays`: each byte stays where it is.
///
/// # Errors
/// When it has no room for that, or something would be given up and nobody said so: with the sizes that there are, and a command.
pub(super) fn capacity(
    order: &ReshapeVolume,
    of: &VolumeLabel,
    whole: &Geometry,
    stays: bool,
) -> Result<ByteCount> {
    let (name, has, room) = (&of.name, ByteCount(of.capacity_bytes), whole.capacity());
    let capacity = order.size_bytes.map_or(room, ByteCount);
    if stays && (room <= has || capacity == has) {
        return Err(invalid(format!(
            "'{name}' is so already: its drives have room for {room}, and it has {has}; add drives with --add, replace all of them by larger ones with 'softroc drive replace DRIVE --with DRIVE', run 'softroc drive rescan DRIVE' where they were made larger, or choose another --level or --strip"
        )));
    }
    let is_size = !capacity.is_zero() && capacity.is_aligned(ByteCount(of.sector_bytes));
    let begins = format!(
        "{} on {} drives has {room}, and '{name}' has {has}",
        whole.level().title(),
        whole.drives().0
    );
    match () {
        () if capacity > room && room < has || capacity < has && order.size_bytes.is_none() => {
            Err(invalid(format!(
                "{begins}; add drives with --add, or make what is on it so small (a file system first), and give up what is behind that: run '{}'",
                command(order, Some(room))
            )))
        }
        () if !is_size || capacity > room || capacity < has && stays => Err(invalid(format!(
            "{begins} that stay in use; add drives with --add, or choose a --size from {} to {} bytes",
            has.0, room.0
        ))),
        () if capacity < has && !order.destroy_data => Err(invalid(format!(
            "what '{name}' has behind {capacity} would be lost; make what is on it so small (a file system first), and then run '{}'",
            command(order, Some(capacity))
        ))),
        () => Ok(capacity),
    }
}

/// The command line of an order; with a size, of one that gives up what is behind it.
pub(super) fn command(order: &ReshapeVolume, size: Option<ByteCount>) -> String {
    let mut words = vec![format!("softroc volume migrate {}", order.volume)];
    words.extend(order.level.iter().map(|level| format!("--level {level}")));
    words.extend(order.strip_bytes.map(|strip| format!("--strip {strip}")));
    let drives = [("--add", &order.add), ("--remove", &order.remove)];
    let drives = drives.into_iter().filter(|(_, drives)| !drives.is_empty());
    words.extend(drives.map(|(option, drives)| format!("{option} {}", drives.join(" "))));
    words.extend(size.map(|size| format!("--size {} --destroy-data", size.0)));
    words.join(" ")
}
