//! Size limits for the futures of a request. A future is moved at its first await, through every
//! level of its callers. So rarely needed parts (repairs, waits for the controller) are boxed where
//! they are awaited.

use crate::host::Volume;
use crate::messages::StripeRequest;
use crate::stripe::Attempt;
use crate::stripe::{Host, Trouble};
use plan::{Plan, Request};
use platform::{Buf, Durability, Slice};
use std::rc::Rc;
use units::{ByteRange, StripeIndex};

type V = &'static Rc<Volume>;

/// The most bytes of a future on the fast path, and of planning and execution.
const FAST_BYTES: usize = 1024;
const PLANNED_BYTES: usize = 4096;

fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn futures_on_the_way_of_a_request_are_small() {
    // The fast path never waits for a plan.
    let fast = [("read", size(|(v, r, b): (V, ByteRange, Buf)| v.read(r, b)))];
    let planned = [
        (
            "execute",
            size(|(v, p, h, t): (V, &'static Plan, Host, &'static mut Trouble)| {
                v.execute(p, 0, h, t)
            }),
        ),
        (
            "attempt",
            size(
                |(v, s, r, h, t): (
                    V,
                    StripeIndex,
                    Request<'static>,
                    Host,
                    &'static mut Trouble,
                )| { v.attempt(s, r, h, t, &Attempt::HELD) },
            ),
        ),
        ("run", size(|(v, p): (V, StripeRequest)| v.run(p))),
        ("write", size(|(v, r, s): (V, ByteRange, Slice)| v.write(r, s, Durability::Cached))),
    ];
    assert!(fast.iter().all(|(_, bytes)| *bytes <= FAST_BYTES), "{fast:?}");
    assert!(planned.iter().all(|(_, bytes)| *bytes <= PLANNED_BYTES), "{planned:?}");
}
