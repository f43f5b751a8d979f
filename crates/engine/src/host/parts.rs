//! The parts of a request: the stripes of its range, and the bytes of its payload.

use layout::Geometry;
use platform::Slice;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// The stripes that a range touches, and the bytes of each.
pub(super) fn stripes(
    geometry: &Geometry,
    range: ByteRange,
) -> impl Iterator<Item = (StripeIndex, ByteRange)> + use<> {
    let geometry = *geometry;
    let mut rest = range;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (stripe, within) = geometry.stripe_of(rest.start);
        let len = (geometry.stripe_bytes() - within).min(rest.len);
        rest = ByteRange::from_to(rest.start + len, rest.end());
        Some((stripe, ByteRange::new(ByteOffset(within.0), len)))
    })
}

/// Takes the first bytes off a slice.
pub(super) fn take_slice(slice: &mut Slice, len: ByteCount) -> Slice {
    let first = slice.cut(ByteCount::ZERO, len);
    *slice = slice.cut(len, slice.len() - len);
    first
}
