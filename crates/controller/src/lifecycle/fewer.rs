//! `volume migrate` to fewer drives or less capacity.

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

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

impl Lifecycle {
    /// The number of the array's first members that a volume keeps.
    ///
    /// # Errors
    /// When drives other than the last ones are to be removed, with the nearest alternative.
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
                "'{name}' cannot add and remove drives at once; run 'softroc volume migrate {name} \
                --remove {}' first, and add the others afterwards",
                order.remove.join(" ")
            )));
        }
        let mut slots = BTreeSet::new();
        for text in &order.remove {
            let drive = self.arrays.find_drive(text)?;
            let slot = array.slot_of(&drive).ok_or_else(|| {
                invalid(format!(
                    "drive {} does not belong to '{name}'; 'softroc volume show {name}' lists its \
                    drives",
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
                    "'{name}' can only remove the drives of its last slots, and drive {last} is \
                    after drive {first}; run 'softroc volume migrate {name} --remove {last}', and \
                    afterwards 'softroc drive replace {first} --with {last}'"
                )))
            }
            _ => Ok(kept),
        }
    }
}

/// The capacity of a volume in a new layout. `stays`: each byte stays in place.
///
/// # Errors
/// When the layout is too small, or data would be cut off without confirmation: with the possible
/// sizes and a command.
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
            "'{name}' has this layout already: its drives have space for {room}, and it has {has}; \
            add drives with --add, replace all of them by larger ones with 'softroc drive replace \
            DRIVE --with DRIVE', run 'softroc drive rescan DRIVE' for enlarged ones, or choose \
            another --level or --strip"
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
            Err(wrong(format!(
                "{begins}; add drives with --add, or shrink its content (a file system first) and \
                discard the rest: run '{}'",
                command_to_discard(order, room)
            )))
        }
        () if !is_size || capacity > room || capacity < has && stays => Err(invalid(format!(
            "{begins}; add drives with --add, or choose a --size from {} to {} bytes",
            has.0, room.0
        ))),
        () if capacity < has && !order.destroy_data => {
            let sentence = format!(
                "data of '{name}' beyond {capacity} would be lost; shrink its content (a file \
                 system first), and then run '{}'",
                command_to_discard(order, capacity)
            );
            Err(Error::new(ErrorKind::LosesData, sentence))
        }
        () => Ok(capacity),
    }
}

/// The command line of a reshape that discards the data beyond this size.
pub(super) fn command_to_discard(order: &ReshapeVolume, size: ByteCount) -> String {
    let order = ReshapeVolume {
        size_bytes: Some(size.0),
        destroy_data: true,
        dry_run: false,
        ..order.clone()
    };
    order.command_line()
}
