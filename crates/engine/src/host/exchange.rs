//! Stripe requests on their way: to runners of this shard, and to the shards that own their stripes.

use crate::host::Parent;
use crate::messages::{PIECES_AWAY, Piece, PieceOutcome, ShardIndex, ShardMessage, Ticket};
use crate::shard::Resources;
use env::Runners;
use env::sync::Credits;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Tasks that run pieces of requests which are split or come from another shard, at most: how many pieces of those
/// are under way at a time. Each is begun when there is first work for it.
const RUNNERS: usize = 256;

/// A piece that waits for a runner, and what to do with its outcome.
pub(crate) struct Job {
    pub(crate) piece: Piece,
    pub(crate) then: Then,
}

/// Where the outcome of a piece goes.
pub(crate) enum Then {
    /// To a request of this shard.
    Local(Rc<Parent>, u32),
    /// To a request of another shard.
    Remote(ShardIndex, Ticket),
}

/// A shard's pieces that wait for a runner, and those that are away at other shards.
pub(crate) struct Exchange {
    shard: Resources,
    pieces_away: Credits,
    away: RefCell<BTreeMap<u32, Rc<Parent>>>,
    next_request: Cell<u32>,
    pieces: Runners<Job>,
}

impl Exchange {
    pub(crate) fn new(shard: &Resources) -> Rc<Exchange> {
        Rc::new(Exchange {
            pieces_away: Credits::new(shard.env(), PIECES_AWAY as u64),
            away: RefCell::default(),
            next_request: Cell::new(0),
            pieces: Runners::new(shard.env(), "piece runner", RUNNERS),
            shard: shard.clone(),
        })
    }

    /// Has every piece that waits run so.
    pub(crate) fn run(&self, run: impl AsyncFn(Job) + 'static) {
        self.pieces.run(run);
    }

    /// Gives a piece to the next free runner.
    pub(crate) fn enqueue(&self, job: Job) {
        self.pieces.give(job);
    }

    /// Sends a piece to the shard that owns its stripe; its outcome comes back to `parent`.
    pub(crate) async fn send_away(&self, to: ShardIndex, piece: Piece, parent: &Rc<Parent>, number: u32) {
        let credit = self.pieces_away.take(1).await;
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
        let ticket = Ticket { request, piece: number };
        let message = ShardMessage::Piece { from: self.shard.index(), ticket, piece };
        self.shard.send_to(to, message);
    }

    pub(crate) fn forget_away(&self, request: u32) {
        self.away.borrow_mut().remove(&request);
    }

    /// A piece that was away came back.
    pub(crate) fn came_back(&self, ticket: Ticket, outcome: PieceOutcome) {
        let parent = self.away.borrow().get(&ticket.request).cloned();
        if let Some(parent) = parent {
            parent.finish(self.shard.env(), ticket.piece, outcome);
        }
    }

    /// Gives no piece to a runner any more.
    pub(crate) fn close(&self) {
        self.pieces.close();
    }

    /// Nobody waits any more for what is away.
    pub(crate) fn forget_all(&self) {
        drop(self.away.take());
    }
}
