//! The state of cache blocks, by number. A shard has ranges of some thousands of all blocks, so the
//! states are in pages, which exist only where the shard has blocks.

/// Blocks per page.
const PAGE: usize = 512;

/// A value for each known block.
pub(super) struct Contents<T> {
    pages: Vec<Option<Box<[Option<T>]>>>,
}

impl<T> Default for Contents<T> {
    fn default() -> Contents<T> {
        Contents { pages: Vec::new() }
    }
}

impl<T> Contents<T> {
    /// The value of a block, to change it.
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let page = self.pages.get_mut(slot as usize / PAGE)?.as_mut()?;
        page[slot as usize % PAGE].as_mut()
    }

    /// Sets the value of a block; returns the previous one.
    pub(super) fn insert(&mut self, slot: u32, content: T) -> Option<T> {
        let at = slot as usize / PAGE;
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        let page = self.pages[at]
            .get_or_insert_with(|| std::iter::repeat_with(|| None).take(PAGE).collect());
        page[slot as usize % PAGE].replace(content)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let there =
            self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page.as_ref()?)));
        there.flat_map(|(at, page)| {
            let of_page = page.iter().enumerate();
            of_page.filter_map(move |(within, content)| {
                Some(((at * PAGE + within) as u32, content.as_ref()?))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_there_by_its_number_and_in_order() {
        let mut contents = Contents::default();
        let slots = [3, 511, 512, 70_000, 70_001];
        for slot in slots.iter().rev() {
            assert_eq!(contents.insert(*slot, slot * 10), None);
        }
        assert_eq!(contents.insert(512, 7), Some(5120));
        let mut of = |slot| contents.get_mut(slot).copied();
        assert_eq!((of(512), of(4), of(1 << 20)), (Some(7), None, None));
        let all: Vec<(u32, u32)> =
            contents.iter().map(|(slot, content)| (slot, *content)).collect();
        assert_eq!(all, [(3, 30), (511, 5110), (512, 7), (70_000, 700_000), (70_001, 700_010)]);
    }
}
