//! The reshape of an array's other volumes when drives are added or removed. A label has one list
//! of drives, so all volumes move to the new number of drives, one at a time, each with its level,
//! strip and size.

use crate::arrays::array::Array;
use crate::arrays::arriving::name_once;
use crate::arrays::following::next_follower;
use crate::arrays::volume::Volume;
use crate::arrays::way::{FROM, TO, Way, shape_of};
use crate::interface::{Error, ErrorKind, ReshapeVolume, Result};
use crate::lifecycle::Lifecycle;
use crate::lifecycle::candidates::Candidate;
use crate::lifecycle::fewer::command_to_discard;
use layout::{Geometry, Level, Shape};
use ondisk::{FollowsLabel, Label, Member, VolumeLabel};
use units::{ByteCount, DriveCount};

/// Levels suggested for a volume that cannot keep its own, best first.
const INSTEAD: [Level; 3] = [Level::Raid10, Level::Raid6, Level::Raid5];

/// A volume of the same reshape: its label and its layouts.
pub(super) struct Along {
    pub(super) of: VolumeLabel,
    pub(super) from: Geometry,
    pub(super) way: Way,
}

/// Whether the array's other volumes are reshaped as well.
pub(super) fn moves_along(order: &ReshapeVolume) -> bool {
    !order.add.is_empty() || !order.remove.is_empty()
}

/// The note on the reshape of the other volumes, and on their additional space: a sentence.
pub(super) fn note_of_others(along: &[Along]) -> Option<String> {
    let names: Vec<String> = along.iter().map(|other| format!("'{}'", other.of.name)).collect();
    let gains = |other: &&Along| other.way.geometry.capacity() > other.way.capacity;
    let more = along.iter().find(gains).map(|other| {
        format!("; 'softroc volume expand {}' then uses their additional space", other.of.name)
    });
    let them = if names.len() == 1 {
        "is reshaped after this volume, and keeps its"
    } else {
        "are reshaped after this volume, one after the other, and keep their"
    };
    (!names.is_empty())
        .then(|| format!("{} {them} size{}", names.join(", "), more.unwrap_or_default()))
}

impl Lifecycle {
    /// The array's newest label with the new drives and the queued reshape of each volume; no
    /// reshape has begun in it.
    pub(super) fn ordered_label(
        &self,
        (order, kept): (&ReshapeVolume, usize),
        array: &Array,
        volume: &Volume,
        candidates: &[Candidate],
    ) -> Label {
        let mut next = array.label();
        let (before, since) = (next.member.len(), next.generation + 1);
        for Candidate { drive, .. } in candidates {
            next.member.push(Member::online(
                self.arrays.new_uuid(),
                drive.name.clone(),
                drive.extent(),
                since,
            ));
        }
        let count = |members: usize| u16::try_from(members).unwrap_or(u16::MAX);
        let members = count(kept + candidates.len());
        for of in &mut next.volume {
            let is_named = of.uuid == volume.uuid();
            if is_named || !candidates.is_empty() {
                of.members = Some(count(before));
            }
            if !is_named && moves_along(order) {
                of.follows = Some(FollowsLabel { to: self.arrays.new_uuid(), members });
            }
        }
        next
    }

    /// The reshapes of the other volumes. All reshapes of a command are simulated in order: each
    /// one starts from the result of the previous ones.
    pub(super) fn ways_along(
        &self,
        order: &ReshapeVolume,
        label: Label,
        (volume, way): (&Volume, &Way),
    ) -> Result<Vec<Along>> {
        let mut next =
            self.arrays.label_on_its_way(label, &volume.label(), (way, self.arrays.new_uuid()))?;
        name_once(&mut next, volume.uuid());
        let mut along = Vec::new();
        while let Some((of, follows)) = next_follower(&next) {
            let drives = DriveCount(follows.members);
            let way = Way::along(&next, &of, drives)
                .map_err(|why| cannot_come(order, (&next, &of), drives, &why))?;
            let from = of.geometry(next.member.len()).map_err(invalid)?;
            next = self.arrays.label_on_its_way(next, &of, (&way, follows.to))?;
            name_once(&mut next, of.uuid);
            along.push(Along { of, from, way });
        }
        Ok(along)
    }
}

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

/// The error that a volume cannot take part: the reason, and the nearest alternative.
fn cannot_come(
    order: &ReshapeVolume,
    (label, of): (&Label, &VolumeLabel),
    drives: DriveCount,
    why: &Error,
) -> Error {
    let (name, first) = (&of.name, &order.volume);
    let named = ReshapeVolume {
        add: order.add.clone(),
        remove: order.remove.clone(),
        ..ReshapeVolume::default()
    };
    let named = ReshapeVolume { volume: name.clone(), ..named };
    let from = of.geometry(label.member.len()).ok();
    let keeps =
        from.filter(|_| TO.contains(&of.level)).map(|from| shape_of(of.level, drives, (of, &from)));
    let keeps = keeps.filter(|shape| shape.check().is_ok());
    let has_room = |shape: &Shape, from: &Geometry| {
        let geometry = shape.geometry(from.strip(), ByteCount(of.member_bytes)).ok()?;
        Some(geometry.capacity())
    };
    let has = ByteCount(of.capacity_bytes);
    let other = INSTEAD.into_iter().filter(|_| FROM.contains(&of.level)).find(|level| {
        let shape = Shape::new(*level, drives);
        from.and_then(|from| has_room(&shape, &from)).is_some_and(|room| room >= has)
    });
    let nearest = match (keeps, other) {
        (Some(shape), _) => {
            let room = from.and_then(|from| has_room(&shape, &from)).unwrap_or_default();
            let command = command_to_discard(&named, room);
            format!(
                "shrink its content (a file system first), and reshape that volume instead: run \
                '{command}'"
            )
        }
        (None, Some(level)) => {
            let other = ReshapeVolume { level: Some(level.name().to_owned()), ..named };
            let command = other.command_line();
            format!("reshape that volume to another level; '{first}' follows: run '{command}'")
        }
        (None, None) => {
            format!(
                "copy it to a volume on other drives, and then run 'softroc volume delete {name}'"
            )
        }
    };
    let sentence = format!(
        "'{name}' on the same drives must be reshaped as well, and cannot be: {why}; {nearest}"
    );
    Error::new(why.kind, sentence)
}
