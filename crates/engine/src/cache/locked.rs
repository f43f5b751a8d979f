//! The locks of a write.

use crate::attachment::Closed;
use crate::recovery::Recovery;
use platform::locks::{Guard, Mode};
use std::ops::Range;
use std::rc::Rc;
use units::{ByteRange, StripeIndex};

/// An exclusive lock on bytes of a stripe.
pub(crate) struct HeldAlone {
    _guard: Guard,
    _closed: Option<Closed>,
}

/// Locks bytes of a stripe for a write, as soon as the stripe may be written.
pub(crate) async fn lock_to_write(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    within: ByteRange,
) -> HeldAlone {
    lock_columns(volume, stripe, volume.columns(stripe, within)).await
}

/// Locks columns of a stripe for a write, as soon as the stripe may be written.
pub(crate) async fn lock_columns(
    volume: &Rc<Recovery>,
    stripe: StripeIndex,
    columns: Range<u32>,
) -> HeldAlone {
    let closed = volume.close_beside().await;
    let mut may_settle = true;
    loop {
        let key = volume.lock_key(stripe);
        let guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, columns.clone()).await;
        let is_gated = volume.is_gated(stripe);
        let settle = may_settle && volume.is_doubtful(stripe);
        if !is_gated && !settle {
            return HeldAlone { _guard: guard, _closed: closed };
        }
        drop(guard);
        if is_gated {
            Box::pin(volume.pass_gate(stripe)).await;
        } else {
            may_settle = false;
            Box::pin(volume.settle_before_write(stripe)).await;
        }
    }
}
