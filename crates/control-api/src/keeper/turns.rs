//! The queue of password hashing: limited concurrency, fair between sources.
//!
//! Invariants: at most `most` hashes run concurrently. A source has at most one turn until it drops
//! it, so a delayed source delays only itself. Waiting sources are served in two round-robin
//! queues, known sources (with an earlier correct password) and others, alternately. An abandoned
//! request leaves the queue. [`MOST_WAITING`] and [`MOST_OF_A_SOURCE`] bound memory; further
//! requests are refused.

use access::Source;
use controller::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Maximum number of waiting requests.
const MOST_WAITING: usize = 512;

/// Maximum number per source.
const MOST_OF_A_SOURCE: usize = 32;

/// See the module.
pub(super) struct Turns(Arc<Mutex<HashQueue>>);

struct HashQueue {
    /// Number of hashes that may start now.
    free: usize,
    /// Sources that have a turn.
    taken: BTreeSet<Source>,
    waiting: usize,
    /// Known sources, and others.
    circles: [Circle; 2],
    /// The queue that is served next, if both wait.
    next: usize,
}

#[derive(Default)]
struct Circle {
    order: VecDeque<Source>,
    waiting: BTreeMap<Source, VecDeque<oneshot::Sender<Turn>>>,
}

/// The right to hash one password. Dropping it allows the source its next turn.
pub(super) struct Turn {
    line: Arc<Mutex<HashQueue>>,
    source: Source,
    hashes: AtomicBool,
    is_given: bool,
}

impl Turns {
    /// At most `most` concurrent hashes.
    pub(super) fn new(most: usize) -> Turns {
        let circles = [Circle::default(), Circle::default()];
        Turns(Arc::new(Mutex::new(HashQueue {
            free: most,
            taken: BTreeSet::new(),
            waiting: 0,
            circles,
            next: 0,
        })))
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// `Busy` when too many requests wait.
    pub(super) async fn take(&self, source: Source, is_known: bool) -> Result<Turn> {
        let turn = {
            let mut line = locked(&self.0);
            let (sender, turn) = oneshot::channel();
            line.join(source, is_known, sender)?;
            line.give(&self.0);
            turn
        };
        let gone =
            |_| Error::new(ErrorKind::Stopping, "the controller is stopping; start it again");
        turn.await.map_err(gone)
    }
}

fn locked(line: &Mutex<HashQueue>) -> MutexGuard<'_, HashQueue> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HashQueue {
    fn join(
        &mut self,
        source: Source,
        is_known: bool,
        sender: oneshot::Sender<Turn>,
    ) -> Result<()> {
        self.forget_given_up();
        let circle = &mut self.circles[usize::from(!is_known)];
        let own = circle.waiting.get(&source).map_or(0, VecDeque::len);
        if own >= MOST_OF_A_SOURCE || self.waiting >= MOST_WAITING {
            let sentence = format!(
                "{own} requests from {source} wait for their passwords to be checked, {} in all; \
                    expected fewer than {MOST_OF_A_SOURCE} and {MOST_WAITING}; try again in a few \
                    seconds",
                self.waiting
            );
            return Err(Error::new(ErrorKind::Busy, sentence));
        }
        if own == 0 {
            circle.order.push_back(source);
        }
        circle.waiting.entry(source).or_default().push_back(sender);
        self.waiting += 1;
        Ok(())
    }

    /// Drops requests whose client has disconnected.
    fn forget_given_up(&mut self) {
        for circle in &mut self.circles {
            for waiting in circle.waiting.values_mut() {
                waiting.retain(|sender| !sender.is_closed());
            }
            circle.waiting.retain(|_, waiting| !waiting.is_empty());
            circle.order.retain(|source| circle.waiting.contains_key(source));
        }
        let counted =
            self.circles.iter().flat_map(|circle| circle.waiting.values().map(VecDeque::len));
        self.waiting = counted.sum();
    }

    /// Grants turns to waiting requests while possible.
    fn give(&mut self, line: &Arc<Mutex<HashQueue>>) {
        while self.free > 0 {
            let Some((source, sender)) = self.first() else { return };
            let turn =
                Turn { line: line.clone(), source, hashes: AtomicBool::new(true), is_given: true };
            match sender.send(turn) {
                Ok(()) => {
                    self.free -= 1;
                    self.taken.insert(source);
                }
                // The request was abandoned: the turn was not granted.
                Err(mut turn) => turn.is_given = false,
            }
        }
    }

    /// The next request of a source without a turn.
    fn first(&mut self) -> Option<(Source, oneshot::Sender<Turn>)> {
        let taken = &self.taken;
        for which in [self.next, 1 - self.next] {
            let circle = &mut self.circles[which];
            let Some(at) = circle.order.iter().position(|source| !taken.contains(source)) else {
                continue;
            };
            let source = circle.order.remove(at)?;
            let waiting = circle.waiting.get_mut(&source)?;
            let sender = waiting.pop_front()?;
            match waiting.is_empty() {
                true => drop(circle.waiting.remove(&source)),
                false => circle.order.push_back(source),
            }
            self.waiting -= 1;
            self.next = 1 - which;
            return Some((source, sender));
        }
        None
    }
}

impl Turn {
    /// The hash is complete: another source may hash during the delay of this one.
    pub(super) fn hashed(&self) {
        if self.hashes.swap(false, Ordering::Relaxed) {
            let mut line = locked(&self.line);
            line.free += 1;
            line.give(&self.line);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_given {
            return;
        }
        let mut line = locked(&self.line);
        line.free += usize::from(*self.hashes.get_mut());
        line.taken.remove(&self.source);
        line.give(&self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn source(number: u8) -> Source {
        Source::V4(Ipv4Addr::new(10, 0, 0, number))
    }

    type Waiting<'t> = Pin<Box<dyn Future<Output = Result<Turn>> + 't>>;

    fn waits(turns: &Turns, number: u8, is_known: bool) -> Waiting<'_> {
        let mut waiting: Waiting<'_> = Box::pin(turns.take(source(number), is_known));
        assert!(poll(&mut waiting).is_none(), "{number} gets no turn at once");
        waiting
    }

    fn poll(waiting: &mut Waiting<'_>) -> Option<Turn> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn.expect("a turn")),
            Poll::Pending => None,
        }
    }

    fn at_once(turns: &Turns, number: u8) -> Turn {
        let mut future = pin!(turns.take(source(number), false));
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => turn.expect("a turn"),
            Poll::Pending => panic!("{number} waits"),
        }
    }

    /// The sources in the order of their turns.
    fn order(mut first: Turn, mut waiting: Vec<Waiting<'_>>) -> Vec<u8> {
        let mut order = Vec::new();
        loop {
            let Source::V4(address) = first.source else { panic!("an address") };
            order.push(address.octets()[3]);
            drop(first);
            let mut turns =
                waiting.iter_mut().enumerate().filter_map(|(at, one)| Some((at, poll(one)?)));
            let Some((at, turn)) = turns.next() else { return order };
            assert!(turns.next().is_none(), "one at a time");
            drop(waiting.remove(at));
            first = turn;
        }
    }

    #[test]
    fn one_source_with_many_requests_gets_no_more_turns_than_another_one() {
        let turns = Turns::new(1);
        let first = at_once(&turns, 1);
        let mut waiting: Vec<Waiting<'_>> = (0..6).map(|_| waits(&turns, 1, false)).collect();
        waiting.push(waits(&turns, 2, false));
        waiting.push(waits(&turns, 3, false));
        assert_eq!(order(first, waiting), [1, 1, 2, 3, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn sources_that_signed_in_before_wait_for_one_stranger_at_most() {
        let turns = Turns::new(1);
        let first = at_once(&turns, 1);
        let mut waiting: Vec<Waiting<'_>> =
            (10..40).map(|number| waits(&turns, number, false)).collect();
        waiting.push(waits(&turns, 200, true));
        waiting.push(waits(&turns, 201, true));
        waiting.push(waits(&turns, 202, true));
        let order = order(first, waiting);
        assert_eq!(order.len(), 34);
        assert!(
            order.iter().position(|one| *one == 10).is_some_and(|at| at <= 3),
            "strangers, too: {order:?}"
        );
        assert!(order.iter().position(|one| *one == 200).is_some_and(|at| at <= 2), "{order:?}");
        assert!(order.iter().position(|one| *one == 201).is_some_and(|at| at <= 4), "{order:?}");
    }

    #[test]
    fn a_source_that_rests_delays_itself_alone() {
        let turns = Turns::new(1);
        let resting = at_once(&turns, 1);
        let (mut own, mut other) = (waits(&turns, 1, false), waits(&turns, 2, false));
        resting.hashed();
        assert!(poll(&mut own).is_none(), "it rests");
        let turn = poll(&mut other).expect("the other one does not");
        drop(resting);
        assert!(poll(&mut own).is_none(), "one hash at a time");
        drop(turn);
        poll(&mut own).expect("it has rested");
    }

    #[test]
    fn what_waits_is_bounded_and_what_is_given_up_does_not_count() {
        let turns = Turns::new(1);
        let first = at_once(&turns, 1);
        let mut given_up: Vec<Waiting<'_>> =
            (0..MOST_OF_A_SOURCE).map(|_| waits(&turns, 2, false)).collect();
        let mut more: Waiting<'_> = Box::pin(turns.take(source(2), false));
        let Poll::Ready(Err(refused)) = more.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("it is refused");
        };
        assert_eq!(refused.kind, ErrorKind::Busy, "{refused:?}");
        let other = waits(&turns, 3, false);
        given_up.clear();
        let again = waits(&turns, 2, false);
        assert_eq!(order(first, vec![other, again]), [1, 3, 2]);
        assert_eq!(locked(&turns.0).waiting, 0);
        drop(at_once(&turns, 2));
    }

    #[test]
    fn a_turn_that_nobody_takes_is_given_to_the_next() {
        let turns = Turns::new(1);
        let first = at_once(&turns, 1);
        let (given_up, mut next) = (waits(&turns, 2, false), waits(&turns, 3, false));
        // Granted to the second request, which is abandoned before it notices.
        drop(first);
        drop(given_up);
        let turn = poll(&mut next).expect("its turn");
        let (given_up, mut next) = (waits(&turns, 2, false), waits(&turns, 3, false));
        // The second request is abandoned before its grant.
        drop(given_up);
        drop(turn);
        drop(poll(&mut next).expect("its turn"));
        drop(at_once(&turns, 4));
    }
}
