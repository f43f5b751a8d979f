//! Stripe requests on their way: to runners of this shard, and to the shards that own their stripes.

use crate::host::Parent;
use crate::messages::{REQUESTS_AWAY, ShardIndex, ShardMessage, StripeOutcome, StripeRequest, Ticket};
use crate::shard::Resources;
use env::Runners;
use env::sync::Credits;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Tasks that run stripe requests of requests which are split or come from another shard, at most: how many of those
/// are under way at a time. Each is begun when there is first work for it.
const RUNNERS: usize = 256;

/// A stripe request that waits for a runner, and what to do with its outcome.
pub(crate) struct Job {
    pub(crate) request: StripeRequest,
    pub(crate) then: Then,
}

/// Where the outcome of a stripe request goes.
pub(crate) enum Then {
    /// To a request of this shard.
    Local(Rc<Parent>, u32),
    /// To a request of another shard.
    Remote(ShardIndex, Ticket),
}

/// A shard's stripe requests that wait for a runner, and those that are away at other shards.
pub(crate) struct Exchange {
    shard: Resources,
    requests_away: Credits,
    away: RefCell<BTreeMap<u32, Rc<Parent>>>,
    next_request: Cell<u32>,
    runners: Runners<Job>,
}

impl Exchange {
    pub(crate) fn new(shard: &Resources) -> Rc<Exchange> {
        Rc::new(Exchange {
            requests_away: Credits::new(shard.env(), REQUESTS_AWAY as u64),
            away: RefCell::default(),
            next_request: Cell::new(0),
            runners: Runners::new(shard.env(), "stripe request runner", RUNNERS),
            shard: shard.clone(),
        })
    }

    /// Has every stripe request that waits run so.
    pub(crate) fn run(&self, run: impl AsyncFn(Job) + 'static) {
        self.runners.run(run);
    }

    /// Gives a stripe request to the next free runner.
    pub(crate) fn enqueue(&self, job: Job) {
        self.runners.give(job);
    }

    /// Sends a stripe request to the shard that owns its stripe; its outcome comes back to `parent`.
    pub(crate) async fn send_away(
        &self,
        to: ShardIndex,
        stripe_request: StripeRequest,
        parent: &Rc<Parent>,
        number: u32,
    ) {
        let credit = self.requests_away.take(1).await;
        parent.hold_credit(number, credit);
        let request = match parent.request.get() {
            Some(request) => request,
            None => {
                let mut request = self.next_request.get();
                while self.away.borrow().contains_key(&request) {
                    request = request.wrapping_add(1);
                }
                self.next_request.set(request.wrapping_add(1));
                parent.request.set(Some(request));
                self.away.borrow_mut().insert(request, parent.clone());
                request
            }
        };
        let ticket = Ticket { request, number };
        let from = self.shard.index();
        let message = ShardMessage::StripeRequest { from, ticket, request: stripe_request };
        self.shard.send_to(to, message);
    }

    pub(crate) fn forget_away(&self, request: u32) {
        self.away.borrow_mut().remove(&request);
    }

    /// A stripe request that was away came back.
    pub(crate) fn came_back(&self, ticket: Ticket, outcome: StripeOutcome) {
        let parent = self.away.borrow().get(&ticket.request).cloned();
        if let Some(parent) = parent {
            parent.finish(self.shard.env(), ticket.number, outcome);
        }
    }

    /// Gives none to a runner any more.
    pub(crate) fn close(&self) {
        self.runners.close();
    }

    /// Nobody waits any more for what is away.
    pub(crate) fn forget_all(&self) {
        drop(self.away.take());
    }
}
