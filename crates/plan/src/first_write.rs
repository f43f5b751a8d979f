//! How the first write of a stripe that is not initialised is done: it writes all of the stripe, zeros where the host writes nothing.

use crate::Cached;
use layout::{DataIndex, Geometry, Role};
use units::{ByteOffset, ByteRange};

/// A write of more runs of bytes than this writes all of its stripe at once.
const MOST_EXTENTS: usize = 8;

/// How the first write of a stripe that is not initialised is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstWrite {
    /// Zeros everywhere, which drives write by themselves; then what the host writes, with [`known_zeros`] in memory.
    OverZeros,
    /// All of the stripe at once.
    Whole,
}

/// How these bytes of a stripe are written first. `is_well`: whether every drive is there, and current in the stripe's region.
pub fn first_write(geometry: &Geometry, written: &[ByteRange], is_well: bool) -> FirstWrite {
    let bytes: u64 = written.iter().map(|range| range.len.0).sum();
    match is_well && bytes * 2 <= geometry.stripe_bytes().0 && written.len() <= MOST_EXTENTS {
        true => FirstWrite::OverZeros,
        false => FirstWrite::Whole,
    }
}

/// All strips of a stripe that holds zeros, redundancy included, as what is in memory of it.
pub fn known_zeros(geometry: &Geometry) -> Vec<Cached> {
    let columns = ByteRange::new(ByteOffset::ZERO, geometry.strip().bytes());
    let data = (0..geometry.data_strips()).map(|index| Cached::data(DataIndex(index), columns));
    let parity = [Role::P, Role::Q].into_iter().take(usize::from(geometry.parity_strips()));
    data.chain(parity.map(|role| Cached { role, columns })).collect()
}
