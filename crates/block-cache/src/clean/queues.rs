//! The order of eviction.

use crate::clean::page::{Bytes, Page, PageName, QueueKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A queue of pages, oldest first. Entries may be outdated: the page is evicted or moved.
#[derive(Default, Debug)]
struct Queue {
    entries: VecDeque<(PageName, u64)>,
    bytes: u64,
}

/// Outdated entries are removed when a queue has this many more than twice the pages.
const SPARE_ENTRIES: usize = 64;

#[derive(Default, Debug)]
pub(super) struct Queues {
    ahead: Queue,
    small: Queue,
    main: Queue,
    /// Fingerprints of pages evicted from the small queue, oldest first.
    ghosts: VecDeque<u64>,
    known: BTreeSet<u64>,
    entries: u64,
}

impl Queues {
    /// Bytes in all queues.
    pub(super) fn bytes(&self) -> u64 {
        self.ahead.bytes + self.small.bytes + self.main.bytes
    }

    fn of(&mut self, place: QueueKind) -> &mut Queue {
        match place {
            QueueKind::Ahead(_) => &mut self.ahead,
            QueueKind::Small => &mut self.small,
            QueueKind::Main => &mut self.main,
        }
    }

    /// The queue for a page that was requested and is not cached.
    pub(super) fn place_of(&mut self, name: PageName) -> QueueKind {
        let fingerprint = name.fingerprint();
        match self.known.remove(&fingerprint) {
            true => QueueKind::Main,
            false => QueueKind::Small,
        }
    }

    /// Counts added bytes. The first ones append the page to a queue.
    pub(super) fn grown<T>(
        &mut self,
        name: PageName,
        page: &mut Page<T>,
        place: QueueKind,
        bytes: u64,
    ) {
        if page.entry == 0 {
            page.place = place;
            self.append(name, page);
        }
        self.of(page.place).bytes += bytes;
    }

    /// Counts removed bytes.
    pub(super) fn shrunk<T>(&mut self, page: &Page<T>, bytes: u64) {
        self.of(page.place).bytes -= bytes;
    }

    /// Moves a page to the end of a queue.
    pub(super) fn put<T: Bytes>(&mut self, name: PageName, page: &mut Page<T>, place: QueueKind) {
        self.of(page.place).bytes -= page.bytes();
        page.place = place;
        self.of(place).bytes += page.bytes();
        self.append(name, page);
    }

    fn append<T>(&mut self, name: PageName, page: &mut Page<T>) {
        self.entries += 1;
        page.entry = self.entries;
        let entry = self.entries;
        self.of(page.place).entries.push_back((name, entry));
    }

    /// Records the fingerprint of a page evicted from the small queue.
    pub(super) fn remember(&mut self, name: PageName) {
        let fingerprint = name.fingerprint();
        if self.known.insert(fingerprint) {
            self.ghosts.push_back(fingerprint);
        }
    }

    /// Removes the next page to evict or to move from its queue.
    pub(super) fn next_to_go<T>(
        &mut self,
        room: u64,
        pages: &BTreeMap<PageName, Page<T>>,
    ) -> Option<PageName> {
        self.tidy(pages);
        let is_ahead_large = self.ahead.bytes > room / 2;
        let is_small_large = self.small.bytes > room / 10;
        let order: [&mut Queue; 3] = match (is_ahead_large, is_small_large) {
            (true, true) => [&mut self.ahead, &mut self.small, &mut self.main],
            (true, false) => [&mut self.ahead, &mut self.main, &mut self.small],
            (false, true) => [&mut self.small, &mut self.main, &mut self.ahead],
            (false, false) => [&mut self.main, &mut self.small, &mut self.ahead],
        };
        order.into_iter().find_map(|queue| queue.pop(pages))
    }

    /// Removes outdated entries, and fingerprints in excess of the number of pages.
    fn tidy<T>(&mut self, pages: &BTreeMap<PageName, Page<T>>) {
        let most = 2 * pages.len() + SPARE_ENTRIES;
        for queue in [&mut self.ahead, &mut self.small, &mut self.main] {
            if queue.entries.len() > most {
                queue.entries.retain(|(name, entry)| is_current(pages, name, *entry));
            }
        }
        while self.ghosts.len() > pages.len().max(SPARE_ENTRIES) {
            let oldest = self.ghosts.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }
}

impl Queue {
    fn pop<T>(&mut self, pages: &BTreeMap<PageName, Page<T>>) -> Option<PageName> {
        while let Some((name, entry)) = self.entries.pop_front() {
            if is_current(pages, &name, entry) {
                return Some(name);
            }
        }
        None
    }
}

fn is_current<T>(pages: &BTreeMap<PageName, Page<T>>, name: &PageName, entry: u64) -> bool {
    pages.get(name).is_some_and(|page| page.entry == entry)
}
