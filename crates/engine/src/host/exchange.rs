//! Queues of stripe requests: to runners of this shard, and to the shards that own their stripes;
//! and the requests that wait for them.

use crate::messages::{ShardIndex, ShardMessage, StripeOutcome, StripeRequest, Ticket};
use crate::shard::Resources;
use crate::volume::VolumeId;
use platform::sync::{Signal, Taken};
use platform::{Buf, Env, IoError, IoErrorKind, Runners, StatusExtent};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most tasks for stripe requests that are split or come from another shard, hence the most of
/// these in progress. A task starts with the first work for it.
const RUNNERS: usize = 256;

/// A request with stripe requests in progress.
#[derive(Default)]
pub(crate) struct Parent {
    request: Cell<Option<u64>>,
    unfinished: Cell<u32>,
    error: Cell<Option<IoError>>,
    pub(super) parts: RefCell<SmallVec<[Part; 4]>>,
    done: Signal,
}

/// The results of one stripe request.
#[derive(Default)]
pub(super) struct Part {
    /// Its read buffer, once it is done.
    pub(super) buffer: Option<Buf>,
    /// The block status, if that was requested.
    pub(super) extents: Vec<StatusExtent>,
    /// Returned when it is done, not with the whole request: otherwise requests could starve each
    /// other.
    credit: Option<Taken>,
}

impl Parent {
    /// Counts one more stripe request in progress.
    pub(super) fn begin(&self) {
        self.unfinished.set(self.unfinished.get() + 1);
        self.parts.borrow_mut().push(Part::default());
    }

    /// The first error, once all are done.
    pub(super) fn result(&self) -> Result<(), IoError> {
        self.error.get().map_or(Ok(()), Err)
    }

    fn hold_credit(&self, number: u32, credit: Taken) {
        self.parts.borrow_mut()[number as usize].credit = Some(credit);
    }

    pub(crate) fn finish(&self, env: &Env, number: u32, outcome: StripeOutcome) {
        if let Err(error) = outcome.result {
            self.error.set(Some(self.error.get().unwrap_or(error)));
        }
        let done = Part { buffer: outcome.buffer, extents: outcome.extents, credit: None };
        let before = std::mem::replace(&mut self.parts.borrow_mut()[number as usize], done);
        drop(before.credit);
        self.unfinished.set(self.unfinished.get() - 1);
        if self.unfinished.get() == 0 {
            self.done.notify(env);
        }
    }
}

/// A stripe request that waits for a runner, and the destination of its outcome.
pub(crate) struct Job {
    pub(crate) request: StripeRequest,
    pub(crate) then: Then,
}

/// The destination of a stripe request's outcome.
pub(crate) enum Then {
    /// To a request of this shard.
    Local(Rc<Parent>, u32),
    /// To a request of another shard.
    Remote(ShardIndex, Ticket),
}

/// Requests with stripe requests at other shards, in reusable entries.
#[derive(Default)]
struct Away {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    /// The number of earlier uses: an outcome for an earlier request is ignored.
    turn: u32,
    parent: Option<Rc<Parent>>,
}

impl Away {
    /// The number of a request: its entry, and the use count of that entry.
    fn add(&mut self, parent: Rc<Parent>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.parent = Some(parent);
        place.number(index)
    }

    fn get(&self, request: u64) -> Option<&Rc<Parent>> {
        let index = request as u32;
        let place =
            self.places.get(index as usize).filter(|place| place.number(index) == request)?;
        place.parent.as_ref()
    }

    fn remove(&mut self, request: u64) -> Option<Rc<Parent>> {
        self.get(request)?;
        let index = request as u32;
        let place = &mut self.places[index as usize];
        place.turn = place.turn.wrapping_add(1);
        self.free.push(index);
        place.parent.take()
    }

    fn remove_all(&mut self) -> Vec<Rc<Parent>> {
        let requests: Vec<u64> =
            (0..).zip(&self.places).map(|(index, place)| place.number(index)).collect();
        requests.into_iter().filter_map(|request| self.remove(request)).collect()
    }
}

impl Place {
    fn number(&self, index: u32) -> u64 {
        u64::from(self.turn) << 32 | u64::from(index)
    }
}

/// Creates runners for a volume.
type Hire = Box<dyn Fn() -> Runners<Job>>;

/// A shard's stripe requests that wait for a runner, and those at other shards.
pub(crate) struct Exchange {
    shard: Resources,
    away: RefCell<Away>,
    /// The runners of each volume: drives that do not respond may block all of them.
    runners: RefCell<BTreeMap<VolumeId, Rc<Runners<Job>>>>,
    /// Creates the runners of a volume. `None` before the start and after the stop.
    hire: RefCell<Option<Hire>>,
}

impl Exchange {
    pub(crate) fn new(shard: &Resources) -> Rc<Exchange> {
        Rc::new(Exchange {
            away: RefCell::default(),
            runners: RefCell::default(),
            hire: RefCell::default(),
            shard: shard.clone(),
        })
    }

    /// Sets the function that runs stripe requests.
    pub(crate) fn run(&self, run: impl AsyncFn(Job) + Clone + 'static) {
        let env = self.shard.env().clone();
        *self.hire.borrow_mut() = Some(Box::new(move || {
            let runners = Runners::new(&env, "stripe request runner", RUNNERS);
            runners.run(run.clone());
            runners
        }));
    }

    /// Queues a stripe request for a runner of its volume; a free runner starts at once.
    pub(crate) fn enqueue(&self, job: Job) {
        let volume = job.request.volume;
        let known = self.runners.borrow().get(&volume).cloned();
        let runners = known.or_else(|| {
            let runners = Rc::new(self.hire.borrow().as_ref()?());
            self.runners.borrow_mut().insert(volume, runners.clone());
            Some(runners)
        });
        if let Some(runners) = runners {
            runners.hand(job);
        }
    }

    /// Drops a volume's runners: it is no longer served.
    pub(crate) fn dismiss(&self, volume: VolumeId) {
        let runners = self.runners.borrow_mut().remove(&volume);
        drop(runners);
    }

    /// Sends a stripe request to the shard that owns its stripe, with the credits of the volume
    /// `of`; its outcome returns to its parent. It fails if the shard does not accept it: no
    /// outcome would arrive.
    pub(crate) async fn send_away(
        &self,
        of: &Resources,
        to: ShardIndex,
        stripe_request: StripeRequest,
        (parent, number): (&Rc<Parent>, u32),
    ) {
        let credit = of.reserve_away().await;
        parent.hold_credit(number, credit);
        let request = match parent.request.get() {
            Some(request) => request,
            None => {
                let request = self.away.borrow_mut().add(parent.clone());
                parent.request.set(Some(request));
                request
            }
        };
        let ticket = Ticket { request, number };
        let from = self.shard.index();
        let message = ShardMessage::StripeRequest { from, ticket, request: stripe_request };
        if let Err(message) = self.shard.send_to(to, message) {
            let buffer = match *message {
                ShardMessage::StripeRequest { request, .. } => request.work.into_buffer(),
                _ => None,
            };
            let outcome = StripeOutcome::new(Err(IoError::new(IoErrorKind::Gone)), buffer);
            parent.finish(self.shard.env(), number, outcome);
        }
    }

    /// Waits for all stripe requests of a request.
    pub(super) async fn wait_for(&self, parent: &Parent) {
        parent.done.wait_until(self.shard.env(), || parent.unfinished.get() == 0).await;
        if let Some(request) = parent.request.get() {
            let parent = self.away.borrow_mut().remove(request);
            drop(parent);
        }
    }

    /// Runs work for a stripe on another shard with the credits of the volume `of`, and waits for
    /// it. The outcome is ignored.
    pub(super) async fn ask_one(&self, of: &Resources, owner: ShardIndex, request: StripeRequest) {
        let parent = Rc::new(Parent::default());
        parent.begin();
        self.send_away(of, owner, request, (&parent, 0)).await;
        self.wait_for(&parent).await;
    }

    /// The outcome of a stripe request at another shard has arrived.
    pub(crate) fn came_back(&self, ticket: Ticket, outcome: StripeOutcome) {
        let parent = self.away.borrow().get(ticket.request).cloned();
        if let Some(parent) = parent {
            parent.finish(self.shard.env(), ticket.number, outcome);
        }
    }

    /// Stops giving requests to runners.
    pub(crate) fn close(&self) {
        // Dropped without a borrow: it may own the owner of this exchange.
        let (hire, runners) = (self.hire.take(), self.runners.take());
        drop((hire, runners));
    }

    /// Drops all requests that wait for other shards.
    pub(crate) fn forget_all(&self) {
        let parents = self.away.borrow_mut().remove_all();
        drop(parents);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_is_nobodys() {
        let mut away = Away::default();
        let first = away.add(Rc::default());
        let beside = away.add(Rc::default());
        assert!(away.remove(first).is_some());
        let second = away.add(Rc::default());
        assert_eq!(second as u32, first as u32, "an entry is reused");
        assert!(
            away.get(first).is_none() && away.remove(first).is_none(),
            "the first use has ended"
        );
        assert!(away.get(second).is_some());
        assert_eq!(away.remove_all().len(), 2);
        assert!(away.get(second).is_none() && away.get(beside).is_none());
        assert_eq!(away.places.len(), 2);
    }
}
