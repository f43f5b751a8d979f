//! In which order pages give way.

use crate::clean::page::{Page, PageName, Place};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A queue of pages: the oldest first. Some may be gone, or in another queue by now.
#[derive(Default, Debug)]
struct Queue {
    entries: VecDeque<(PageName, u64)>,
    bytes: u64,
}

/// A queue with so many more entries than pages is tidied up.
const SPARE_ENTRIES: usize = 64;

#[derive(Default, Debug)]
pub(super) struct Queues {
    ahead: Queue,
    small: Queue,
    main: Queue,
    /// Fingerprints of pages that left the small queue without having been wanted: the oldest first.
    ghosts: VecDeque<u64>,
    known: BTreeSet<u64>,
    entries: u64,
}

impl Queues {
    /// How many bytes are in all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.ahead.bytes + self.small.bytes + self.main.bytes
    }

    fn of(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Ahead(_) => &mut self.ahead,
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
        }
    }

    /// Where a page goes that was asked for and is not kept.
    pub(super) fn place_of(&mut self, name: PageName) -> Place {
        let fingerprint = name.fingerprint();
        match self.known.remove(&fingerprint) {
            true => Place::Main,
            false => Place::Small,
        }
    }

    /// A page has so many bytes more. Its first ones put it at the end of a queue.
    pub(super) fn grown<T>(&mut self, name: PageName, page: &mut Page<T>, place: Place, bytes: u64) {
        if page.entry == 0 {
            page.place = place;
            self.append(name, page);
        }
        self.of(page.place).bytes += bytes;
    }

    /// A page has so many bytes fewer.
    pub(super) fn shrunk<T>(&mut self, page: &Page<T>, bytes: u64) {
        self.of(page.place).bytes -= bytes;
    }

    /// A page goes to the end of a queue.
    pub(super) fn put<T: crate::clean::Bytes>(&mut self, name: PageName, page: &mut Page<T>, place: Place) {
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

    /// A page leaves the small queue, and may be asked for again.
    pub(super) fn remember(&mut self, name: PageName) {
        let fingerprint = name.fingerprint();
        if self.known.insert(fingerprint) {
            self.ghosts.push_back(fingerprint);
        }
    }

    /// The page that gives way next, or moves to another queue. It is in none any more.
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

    /// Forgets entries of pages that are gone, and fingerprints of more pages than are kept.
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
