//! What hosts ask.

mod block_target;
