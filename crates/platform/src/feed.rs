//! A feed: numbered items of one shard, which any thread may read without a request to that shard.
//!
//! **Owns** the newest items, up to a fixed count, and the wakers of waiting readers.
//!
//! **Invariants.** Numbers never decrease. A publisher never waits: it replaces the oldest item if
//! the feed is full. A subscription receives all items above the last number that it has seen, in
//! order, or a [`Gap`] that names the items that were replaced before delivery. It ends when the
//! publisher is dropped and all items are delivered. Items that are added before the feed is opened
//! are not delivered until then.
//!
//! **Fault model.** Subscribers are slow, stop, panic, or continue after a restart with the last
//! number that they have seen. A number above the newest one belongs to an earlier feed: all stored
//! items are delivered.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The maximum number of items per delivery.
const BATCH: usize = 256;

struct FeedState<T> {
    items: VecDeque<(u64, Arc<T>)>,
    most: usize,
    /// The number of the newest item.
    newest: u64,
    /// The number of the newest item that was replaced.
    replaced: u64,
    is_open: bool,
    is_closed: bool,
    /// The waiting readers, by reader number.
    waiting: BTreeMap<u64, Waker>,
    next_reader: u64,
}

impl<T> FeedState<T> {
    fn after(&self, seen: u64) -> News<T> {
        if !self.is_open {
            return News { gap: None, items: Vec::new() };
        }
        let seen = if seen > self.newest { 0 } else { seen };
        let is_missing = self.replaced > seen;
        let gap = is_missing.then_some(Gap { first: seen + 1, last: self.replaced });
        let from = self.items.partition_point(|(number, _)| *number <= seen);
        News { gap, items: self.items.iter().skip(from).take(BATCH).cloned().collect() }
    }
}

/// Items that were replaced before a subscription received them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The lowest missing number.
    pub first: u64,
    /// The highest missing number.
    pub last: u64,
}

impl Gap {
    /// The maximum number of missing items: some numbers may be unused.
    pub fn count(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// One delivery to a subscription.
#[derive(Clone, Debug)]
pub struct News<T> {
    /// The gap before the first item.
    pub gap: Option<Gap>,
    /// The items, oldest first.
    pub items: Vec<(u64, Arc<T>)>,
}

/// The publisher's end. The feed ends when it is dropped.
pub struct Publisher<T>(Feed<T>);

/// Reads a feed, from any thread. Clones read the same one.
pub struct Feed<T>(Arc<Mutex<FeedState<T>>>);

/// One reader and its position.
pub struct Subscription<T> {
    feed: Feed<T>,
    seen: u64,
    /// Its key among the waiting readers.
    reader: u64,
}

/// A dropped subscription leaves no waker behind.
impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.feed.kept().waiting.remove(&self.reader);
    }
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Feed<T> {
        Feed(self.0.clone())
    }
}

impl<T> Publisher<T> {
    /// A feed that stores the newest `most` items, at least one. Call [`Publisher::open`] to start
    /// deliveries.
    pub fn new(most: usize) -> Publisher<T> {
        let kept = FeedState {
            items: VecDeque::new(),
            most: most.max(1),
            newest: 0,
            replaced: 0,
            is_open: false,
            is_closed: false,
            waiting: BTreeMap::new(),
            next_reader: 0,
        };
        Publisher(Feed(Arc::new(Mutex::new(kept))))
    }

    /// Starts deliveries to readers.
    pub fn open(&self) {
        let mut kept = self.0.kept();
        kept.is_open = true;
        wake(kept);
    }

    /// Publishes an item. A number below the newest one is replaced by the newest one.
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

    /// The readers' end.
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

/// Wakes all waiting readers, after the lock is released.
fn wake<T>(mut kept: MutexGuard<'_, FeedState<T>>) {
    let waiting = std::mem::take(&mut kept.waiting);
    drop(kept);
    waiting.into_values().for_each(Waker::wake);
}

impl<T> Feed<T> {
    fn kept(&self) -> MutexGuard<'_, FeedState<T>> {
        // A poisoned lock is harmless: each change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the newest item; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.kept().newest
    }

    /// The newest `last` items, oldest first.
    pub fn last(&self, last: usize) -> Vec<Arc<T>> {
        let kept = self.kept();
        let skip = kept.items.len().saturating_sub(last);
        kept.items.iter().skip(skip).map(|(_, item)| item.clone()).collect()
    }

    /// The items after that number, without waiting; one delivery of several if there are many.
    pub fn after(&self, seen: u64) -> News<T> {
        self.kept().after(seen)
    }

    /// A reader that receives the items after that number.
    pub fn subscribe(&self, seen: u64) -> Subscription<T> {
        let mut kept = self.kept();
        kept.next_reader += 1;
        Subscription { feed: self.clone(), seen, reader: kept.next_reader }
    }

    /// Waits until the feed is open, and returns the number of the newest item; 0 if the feed ended
    /// empty.
    pub async fn begun(&self) -> u64 {
        let reader = self.subscribe(0);
        let begun = poll_fn(|context| {
            let mut kept = self.kept();
            match kept.is_open || kept.is_closed {
                true => Poll::Ready(kept.newest),
                false => {
                    kept.waiting.insert(reader.reader, context.waker().clone());
                    Poll::Pending
                }
            }
        });
        begun.await
    }
}

impl<T> Subscription<T> {
    /// Waits for the next items; `None`: the publisher is dropped, and all items are delivered.
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
            kept.waiting.insert(self.reader, context.waker().clone());
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

    /// Polls a subscription: `None` while it waits.
    fn poll<T>(subscription: &mut Subscription<T>, woken: &Arc<Count>) -> Option<Option<News<T>>> {
        let waker = Waker::from(woken.clone());
        let next = pin!(subscription.next());
        match next.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(news) => Some(news),
            Poll::Pending => None,
        }
    }

    fn opened<T>(most: usize) -> Publisher<T> {
        let publisher = Publisher::new(most);
        publisher.open();
        publisher
    }

    fn numbers<T>(news: &News<T>) -> Vec<u64> {
        news.items.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn a_reader_is_given_everything_once_and_ends_with_the_publisher() {
        let publisher = opened(10);
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
        let publisher = opened(10);
        (1..=100).for_each(|number| publisher.publish(number, number));
        let (mut reader, woken) = (publisher.feed().subscribe(40), Arc::new(Count::default()));
        let news = poll(&mut reader, &woken).flatten().expect("the stored items");
        assert_eq!(news.gap, Some(Gap { first: 41, last: 90 }));
        assert_eq!(news.gap.expect("a gap").count(), 50);
        assert_eq!(numbers(&news), (91..=100).collect::<Vec<u64>>());
        // A reader that has seen the last replaced item misses nothing.
        assert_eq!(publisher.feed().after(90).gap, None);
        assert_eq!(
            publisher.feed().last(2).iter().map(|item| **item).collect::<Vec<u64>>(),
            [99, 100]
        );
    }

    #[test]
    fn numbers_that_began_again_are_all_new() {
        let publisher = opened(10);
        publisher.publish(1, ());
        publisher.publish(2, ());
        let (mut reader, woken) = (publisher.feed().subscribe(5000), Arc::new(Count::default()));
        let news = poll(&mut reader, &woken).flatten().expect("both");
        assert_eq!((numbers(&news), news.gap), (vec![1, 2], None));
        assert!(poll(&mut reader, &woken).is_none());
    }

    #[test]
    fn much_comes_in_several_deliveries() {
        let publisher = opened(1000);
        (1..=1000).for_each(|number| publisher.publish(number, ()));
        let (mut reader, woken) = (publisher.feed().subscribe(0), Arc::new(Count::default()));
        let mut all = Vec::new();
        while let Some(Some(news)) = poll(&mut reader, &woken) {
            assert!(news.items.len() <= BATCH && news.gap.is_none());
            all.extend(numbers(&news));
        }
        assert_eq!(all, (1..=1000).collect::<Vec<u64>>());
    }

    #[test]
    fn what_a_feed_is_filled_with_is_delivered_when_it_is_open() {
        let publisher = Publisher::new(10);
        let (mut reader, woken) = (publisher.feed().subscribe(5), Arc::new(Count::default()));
        publisher.publish(1, ());
        assert!(
            poll(&mut reader, &woken).is_none(),
            "its number is not taken for one of another feed"
        );
        publisher.publish(5, ());
        publisher.publish(6, ());
        publisher.open();
        let news = poll(&mut reader, &woken).flatten().expect("one");
        assert_eq!((numbers(&news), news.gap), (vec![6], None));
        let waker = Waker::from(woken.clone());
        let begun = pin!(publisher.feed().begun());
        assert_eq!(begun.poll(&mut Context::from_waker(&waker)), Poll::Ready(6));
    }

    #[test]
    fn readers_that_are_given_up_leave_nothing_behind() {
        let publisher: Publisher<()> = opened(10);
        let woken = Arc::new(Count::default());
        for _ in 0..100 {
            let mut reader = publisher.feed().subscribe(0);
            assert!(poll(&mut reader, &woken).is_none());
            assert!(poll(&mut reader, &woken).is_none());
            assert_eq!(publisher.feed().kept().waiting.len(), 1);
        }
        assert!(publisher.feed().kept().waiting.is_empty());
    }
}
