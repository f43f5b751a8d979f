//! A feed: numbered items of one shard, which any thread may follow without asking that shard.
//!
//! **Owns** the newest items, up to a fixed count, and who waits for the next one.
//!
//! **Invariants.** Numbers never go back. A publisher never waits: it replaces the oldest item when the feed is full. A
//! subscription is given every item above the number that it has seen, in order, or a [`Gap`] that names what was replaced
//! before it could be delivered. It ends only when the publisher is dropped and everything is delivered.
//!
//! **Fault model.** Subscribers are slow, stop, panic or come back after a restart with the number that they have seen. A
//! number above the newest one is from a feed that began again: everything that is kept is delivered.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Items that one delivery has at most.
const BATCH: usize = 256;

struct Kept<T> {
    items: VecDeque<(u64, Arc<T>)>,
    most: usize,
    /// The number of the newest item.
    newest: u64,
    /// The number of the newest item that was replaced.
    replaced: u64,
    is_closed: bool,
    waiting: Vec<Waker>,
}

impl<T> Kept<T> {
    fn after(&self, seen: u64) -> News<T> {
        let seen = if seen > self.newest { 0 } else { seen };
        let is_missing = self.replaced > seen;
        let gap = is_missing.then_some(Gap { first: seen + 1, last: self.replaced });
        let from = self.items.partition_point(|(number, _)| *number <= seen);
        News { gap, items: self.items.iter().skip(from).take(BATCH).cloned().collect() }
    }
}

/// Items that a subscription was not given: they were replaced first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The lowest number that may be missing.
    pub first: u64,
    /// The highest one.
    pub last: u64,
}

impl Gap {
    /// How many items are missing at most: some numbers may never have been given.
    pub fn count(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a subscription is given at a time.
#[derive(Clone, Debug)]
pub struct News<T> {
    /// What is missing before the first item.
    pub gap: Option<Gap>,
    /// The items, oldest first.
    pub items: Vec<(u64, Arc<T>)>,
}

/// The publisher's end. The feed ends when it is dropped.
pub struct Publisher<T>(Feed<T>);

/// Reads a feed, from any thread. Clones read the same one.
pub struct Feed<T>(Arc<Mutex<Kept<T>>>);

/// One reader, and what it has seen.
pub struct Subscription<T> {
    feed: Feed<T>,
    seen: u64,
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Feed<T> {
        Feed(self.0.clone())
    }
}

impl<T> Publisher<T> {
    /// A feed that keeps the newest `most` items, at least one.
    pub fn new(most: usize) -> Publisher<T> {
        let kept = Kept {
            items: VecDeque::new(),
            most: most.max(1),
            newest: 0,
            replaced: 0,
            is_closed: false,
            waiting: Vec::new(),
        };
        Publisher(Feed(Arc::new(Mutex::new(kept))))
    }

    /// Publishes an item. One with a number below the newest is kept under the newest number.
    pub fn publish(&self, number: u64, item: T) {
        let mut kept = self.0.kept();
        let number = number.max(kept.newest);
        kept.newest = number;
        kept.items.push_back((number, Arc::new(item)));
        while kept.items.len() > kept.most {
            kept.replaced = kept.items.pop_front().map_or(kept.replaced, |(number, _)| number);
        }
        wake(kept);
    }

    /// For readers.
    pub fn feed(&self) -> &Feed<T> {
        &self.0
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        let mut kept = self.0.kept();
        kept.is_closed = true;
        wake(kept);
    }
}

/// Wakes all that wait, with the lock released.
fn wake<T>(mut kept: MutexGuard<'_, Kept<T>>) {
    let waiting = std::mem::take(&mut kept.waiting);
    drop(kept);
    waiting.into_iter().for_each(Waker::wake);
}

impl<T> Feed<T> {
    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        // Every change is whole before the lock is released, and nothing of it can panic in between.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the newest item; 0: there is none.
    pub fn newest(&self) -> u64 {
        self.kept().newest
    }

    /// The newest `last` items, oldest first.
    pub fn last(&self, last: usize) -> Vec<Arc<T>> {
        let kept = self.kept();
        let skip = kept.items.len().saturating_sub(last);
        kept.items.iter().skip(skip).map(|(_, item)| item.clone()).collect()
    }

    /// What comes after the item of that number, without waiting; several deliveries where there is much.
    pub fn after(&self, seen: u64) -> News<T> {
        self.kept().after(seen)
    }

    /// A reader that is given what comes after the item of that number.
    pub fn subscribe(&self, seen: u64) -> Subscription<T> {
        Subscription { feed: self.clone(), seen }
    }
}

impl<T> Subscription<T> {
    /// The next items, as soon as there are any; `None`: the publisher is gone, and everything was delivered.
    pub async fn next(&mut self) -> Option<News<T>> {
        let news = poll_fn(|context| {
            let mut kept = self.feed.kept();
            let news = kept.after(self.seen);
            if news.gap.is_some() || !news.items.is_empty() {
                return Poll::Ready(Some(news));
            }
            if kept.is_closed {
                return Poll::Ready(None);
            }
            if !kept.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                kept.waiting.push(context.waker().clone());
            }
            Poll::Pending
        });
        let news = news.await?;
        let last = news.items.last().map(|(number, _)| *number);
        self.seen = last.or(news.gap.map(|gap| gap.last)).unwrap_or(self.seen);
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is ready of a subscription: `None` while it waits.
    fn poll<T>(subscription: &mut Subscription<T>, woken: &Arc<Count>) -> Option<Option<News<T>>> {
        let waker = Waker::from(woken.clone());
        let next = pin!(subscription.next());
        match next.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(news) => Some(news),
            Poll::Pending => None,
        }
    }

    fn numbers<T>(news: &News<T>) -> Vec<u64> {
        news.items.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn a_reader_is_given_everything_once_and_ends_with_the_publisher() {
        let publisher = Publisher::new(10);
        let (mut reader, woken) = (publisher.feed().subscribe(0), Arc::new(Count::default()));
        assert!(poll(&mut reader, &woken).is_none());
        publisher.publish(3, "a");
        publisher.publish(7, "b");
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "it is woken once until it waits again");
        let news = poll(&mut reader, &woken).flatten().expect("two");
        assert_eq!((numbers(&news), news.gap), (vec![3, 7], None));
        assert!(poll(&mut reader, &woken).is_none());
        publisher.publish(8, "c");
        drop(publisher);
        let news = poll(&mut reader, &woken).flatten().expect("the last one is delivered first");
        assert_eq!(numbers(&news), [8]);
        assert!(matches!(poll(&mut reader, &woken), Some(None)), "it has ended");
    }

    #[test]
    fn a_reader_that_fell_behind_is_told_what_it_misses() {
        let publisher = Publisher::new(10);
        (1..=100).for_each(|number| publisher.publish(number, number));
        let (mut reader, woken) = (publisher.feed().subscribe(40), Arc::new(Count::default()));
        let news = poll(&mut reader, &woken).flatten().expect("what is kept");
        assert_eq!(news.gap, Some(Gap { first: 41, last: 90 }));
        assert_eq!(news.gap.expect("a gap").count(), 50);
        assert_eq!(numbers(&news), (91..=100).collect::<Vec<u64>>());
        // One that has seen the last one that was replaced misses nothing.
        assert_eq!(publisher.feed().after(90).gap, None);
        assert_eq!(publisher.feed().last(2).iter().map(|item| **item).collect::<Vec<u64>>(), [99, 100]);
    }

    #[test]
    fn numbers_that_began_again_are_all_new() {
        let publisher = Publisher::new(10);
        publisher.publish(1, ());
        publisher.publish(2, ());
        let (mut reader, woken) = (publisher.feed().subscribe(5000), Arc::new(Count::default()));
        let news = poll(&mut reader, &woken).flatten().expect("both");
        assert_eq!((numbers(&news), news.gap), (vec![1, 2], None));
        assert!(poll(&mut reader, &woken).is_none());
    }

    #[test]
    fn much_comes_in_several_deliveries() {
        let publisher = Publisher::new(1000);
        (1..=1000).for_each(|number| publisher.publish(number, ()));
        let (mut reader, woken) = (publisher.feed().subscribe(0), Arc::new(Count::default()));
        let mut all = Vec::new();
        while let Some(Some(news)) = poll(&mut reader, &woken) {
            assert!(news.items.len() <= BATCH && news.gap.is_none());
            all.extend(numbers(&news));
        }
        assert_eq!(all, (1..=1000).collect::<Vec<u64>>());
    }
}
