//! How large the futures on the way of a request are. One is moved when it is awaited first, through every level of its
//! callers, so what it may need and seldom does (repairs, waits for the controller) is boxed where it is awaited.

use crate::host::Volume;
use crate::messages::StripeRequest;
use crate::stripe::Attempt;
use crate::stripe::{Host, Trouble};
use plan::{Plan, Request};
use platform::{Buf, Durability, Slice};
use std::rc::Rc;
use units::{ByteRange, StripeIndex};

type V = &'static Rc<Volume>;

/// What a future may have on the fast path, and where a plan is made and carried out.
const FAST_BYTES: usize = 1024;
const PLANNED_BYTES: usize = 4096;

fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn futures_on_the_way_of_a_request_are_small() {
    // On the fast path nothing waits for a plan.
    let fast = [("read", size(|(v, r, b): (V, ByteRange, Buf)| v.read(r, b)))];
    let planned = [
        (
            "execute",
            size(|(v, p, h, t): (V, &'static Plan, Host, &'static mut Trouble)| v.execute(p, 0, h, t)),
        ),
        (
            "attempt",
            size(|(v, s, r, h, t): (V, StripeIndex, Request<'static>, Host, &'static mut Trouble)| {
                v.attempt(s, r, h, t, &Attempt::HELD)
            }),
        ),
        ("run", size(|(v, p): (V, StripeRequest)| v.run(p))),
        ("write", size(|(v, r, s): (V, ByteRange, Slice)| v.write(r, s, Durability::Cached))),
    ];
    assert!(fast.iter().all(|(_, bytes)| *bytes <= FAST_BYTES), "{fast:?}");
    assert!(planned.iter().all(|(_, bytes)| *bytes <= PLANNED_BYTES), "{planned:?}");
}
