//! Long flows that move a window over a volume: below it the new world, above it the old, inside it I/O waits.

mod resync;

pub(crate) use resync::resync;
