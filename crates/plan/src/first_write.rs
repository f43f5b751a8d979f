//! The first write of an uninitialised stripe: it writes the whole stripe, with zeros outside the
//! host's data.

use crate::Cached;
use layout::{DataIndex, Geometry, Role};
use units::{ByteOffset, ByteRange};

/// Writes of more extents than this write the whole stripe at once.
const MOST_EXTENTS: usize = 8;

/// Method of the first write of an uninitialised stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstWrite {
    /// First zeros by the drives' own commands; then the host's data with [`known_zeros`] as cache.
    OverZeros,
    /// The whole stripe at once.
    Whole,
}

/// Chooses the method for these bytes. `is_well`: every drive is present and current in the region.
pub fn first_write(geometry: &Geometry, written: &[ByteRange], is_well: bool) -> FirstWrite {
    let bytes: u64 = written.iter().map(|range| range.len.0).sum();
    match is_well && bytes * 2 <= geometry.stripe_bytes().0 && written.len() <= MOST_EXTENTS {
        true => FirstWrite::OverZeros,
        false => FirstWrite::Whole,
    }
}

/// All strips of a zeroed stripe, redundancy included, as cached data.
pub fn known_zeros(geometry: &Geometry) -> Vec<Cached> {
    let columns = ByteRange::new(ByteOffset::ZERO, geometry.strip().bytes());
    let data = (0..geometry.data_strips()).map(|index| Cached::data(DataIndex(index), columns));
    let parity = [Role::P, Role::Q].into_iter().take(usize::from(geometry.parity_strips()));
    data.chain(parity.map(|role| Cached { role, columns })).collect()
}
