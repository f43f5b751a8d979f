//! Buffers: pools, views, and pieces that are blocks of their own.

use platform::buffers::ALIGNMENT;
use platform::{Buf, BufferPool};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::ByteCount;

#[test]
fn a_pool_gives_no_more_than_its_limit_and_takes_back_what_is_dropped() {
    let pool = BufferPool::new(ByteCount(16384));
    let first = pool.take(ByteCount(8192)).unwrap();
    let second = pool.take(ByteCount(5000)).unwrap();
    assert!(pool.take(ByteCount(1)).is_none());
    drop(first);
    assert_eq!(pool.used(), ByteCount(8192));
    let again = pool.take(ByteCount(100)).unwrap();
    assert_eq!(pool.used(), ByteCount(8192 + 4096));
    drop((second, again));
    assert_eq!(pool.used(), ByteCount::ZERO);
}

/// Free blocks of a size out of use stayed allocated next to those of another size: a pool took
/// twice its limit.
#[test]
fn a_pool_has_no_more_of_the_system_than_its_limit_whatever_sizes_it_is_asked_for() {
    let pool = BufferPool::new(ByteCount(1 << 20));
    for size in [4096, 65_536, 16_384, 262_144, 8192] {
        let all: Vec<Buf> = std::iter::from_fn(|| pool.take(ByteCount(size))).collect();
        assert_eq!((pool.used(), pool.held()), (ByteCount(1 << 20), ByteCount(1 << 20)));
        drop(all);
        assert_eq!(
            (pool.used(), pool.held()),
            (ByteCount::ZERO, ByteCount(1 << 20)),
            "they are kept for reuse"
        );
    }
}

#[test]
fn views_of_one_block_are_disjoint_and_keep_it_alive() {
    let pool = BufferPool::new(ByteCount(1 << 20));
    let mut whole = pool.take(ByteCount(8192)).unwrap();
    whole.bytes_mut().fill(1);
    let mut tail = whole.split_off(ByteCount(4096));
    tail.bytes_mut().fill(2);
    let frozen = whole.freeze();
    let part = frozen.cut(ByteCount(4000), ByteCount(96));
    drop(frozen);
    assert_eq!(part.solid().unwrap(), [1; 96]);
    assert_eq!(tail.bytes(), [2; 4096]);
    assert_eq!(pool.used(), ByteCount(8192));
    drop((part, tail));
    assert_eq!(pool.used(), ByteCount::ZERO);
}

#[test]
fn what_was_split_can_be_joined_and_nothing_else() {
    let mut whole = Buf::copy_of(b"abcdef");
    let mut rest = whole.split_off(ByteCount(2));
    let tail = rest.split_off(ByteCount(2));
    let (whole, tail) = whole.join(tail).unwrap_err();
    let whole = whole.join(rest).unwrap().join(tail).unwrap();
    assert_eq!(whole.bytes(), b"abcdef");
    assert!(whole.join(Buf::copy_of(b"x")).is_err());
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_view_dropped_on_another_thread_sends_its_block_home() {
    let pool = BufferPool::new(ByteCount(4096));
    let slice = pool.take(ByteCount(4096)).unwrap().freeze();
    std::thread::spawn(move || drop(slice)).join().unwrap();
    assert_eq!(pool.used(), ByteCount::ZERO);
    assert!(pool.take(ByteCount(4096)).is_some());
}

/// Blocks dropped on other shards were collected only when the pool was used up. Until then each
/// payload written by another shard took new memory from the system: zeroed and page-faulted.
#[test]
#[allow(clippy::disallowed_methods)]
fn a_block_that_came_home_is_used_before_a_new_one() {
    let pool = BufferPool::new(ByteCount(64 << 10));
    let slice = pool.take(ByteCount(4096)).unwrap().freeze();
    let place = slice.solid().unwrap().as_ptr() as usize;
    std::thread::spawn(move || drop(slice)).join().unwrap();
    assert_eq!(pool.take(ByteCount(4096)).unwrap().bytes().as_ptr() as usize, place);
}

#[test]
fn blocks_outlive_their_pool() {
    let pool = BufferPool::new(ByteCount(4096));
    let mut buf = pool.take(ByteCount(10)).unwrap();
    drop(pool);
    buf.bytes_mut().fill(7);
    assert_eq!(buf.freeze().solid().unwrap(), [7; 10]);
}

#[test]
fn only_the_last_view_can_write_again() {
    let slice = Buf::copy_of(b"abc").freeze();
    let other = slice.clone();
    let slice = slice.try_unfreeze().unwrap_err();
    drop(other);
    assert_eq!(slice.try_unfreeze().unwrap().bytes(), b"abc");
}

#[test]
fn blocks_start_on_the_strictest_sector() {
    for len in [1, 4096, 5000, 3 << 20] {
        assert_eq!(Buf::unpooled(ByteCount(len)).bytes().as_ptr() as usize % ALIGNMENT, 0);
    }
}

/// Records its drop.
struct Keeper(Arc<AtomicBool>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A buffer over leaked memory, and whether its keeper is dropped.
fn over(len: usize) -> (Buf, Arc<AtomicBool>) {
    let memory: &'static mut [u8] = Box::leak(vec![0; len].into_boxed_slice());
    let gone = Arc::new(AtomicBool::new(false));
    let keeper = Arc::new(Keeper(gone.clone()));
    // SAFETY: the memory is never freed, and only this buffer accesses it.
    let buf = unsafe { Buf::over(NonNull::from(memory).cast(), ByteCount(len as u64), keeper) };
    (buf, gone)
}

#[test]
fn pieces_lie_side_by_side_and_are_counted_by_themselves() {
    let mut whole = Buf::unpooled(ByteCount(10_000));
    whole.bytes_mut()[4096] = 1;
    whole.bytes_mut()[9_999] = 2;
    let start = whole.bytes().as_ptr() as usize;
    let mut pieces: Vec<Buf> = whole.carve(ByteCount(4096)).collect();
    assert_eq!(pieces.iter().map(|piece| piece.len().0).collect::<Vec<_>>(), [4096, 4096, 1808]);
    assert_eq!(pieces[1].bytes().as_ptr() as usize - start, 4096);
    assert_eq!((pieces[1].bytes()[0], pieces[2].bytes()[1807]), (1, 2));
    let (last, middle) = (pieces.pop().unwrap(), pieces.pop().unwrap());
    let (middle, last) = middle.join(last).unwrap_err();
    let viewed = middle.freeze();
    let again = viewed.clone();
    let viewed = viewed.try_unfreeze().unwrap_err();
    let mut last = last.freeze().try_unfreeze().expect("it is the only view");
    last.bytes_mut().fill(3);
    drop(again);
    assert_eq!(viewed.try_unfreeze().unwrap().bytes()[0], 1, "its neighbour is another piece");
}

#[test]
fn what_was_apart_is_together_with_its_neighbours_again() {
    let pool = BufferPool::new(ByteCount(1 << 20));
    let mut first = pool.take(ByteCount(16_384)).unwrap();
    let mut last = first.split_off(ByteCount(12_288));
    last.bytes_mut().fill(3);
    let second = first.split_off(ByteCount(4096));
    let mut apart = second.apart();
    apart.bytes_mut().fill(2);
    let viewed = apart.freeze();
    let again = viewed.cut(ByteCount(1), ByteCount(2));
    let viewed = viewed.try_unfreeze().unwrap_err();
    drop(again);
    let second = viewed.try_unfreeze().expect("it is the only view of its piece").together();
    let both = second.join(last).expect("they are of one block");
    assert_eq!((both.bytes()[0], both.bytes()[8192], both.len()), (2, 3, ByteCount(12_288)));
    let (both, hollow) = (both.together(), Buf::hollow(ByteCount(9)).apart().together());
    assert_eq!(
        (both.len(), hollow.len()),
        (ByteCount(12_288), ByteCount(9)),
        "it has no original block"
    );
    drop((first, both));
    assert_eq!(pool.used(), ByteCount::ZERO);
}

#[test]
fn a_whole_lives_as_long_as_any_of_its_pieces() {
    let pool = BufferPool::new(ByteCount(1 << 20));
    let mut pieces = pool.take(ByteCount(16_384)).unwrap().carve(ByteCount(4096));
    let (first, second) = (pieces.next().unwrap(), pieces.next().unwrap());
    drop(first);
    assert_eq!(pool.used(), ByteCount(16_384), "the rest is not cut yet, and the second is viewed");
    drop(pieces);
    let mut crumbs: Vec<Buf> = second.carve(ByteCount(1000)).collect();
    crumbs.truncate(1);
    assert_eq!(pool.used(), ByteCount(16_384), "a piece of a piece");
    drop(crumbs);
    assert_eq!(pool.used(), ByteCount::ZERO);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_last_piece_may_be_dropped_on_another_thread() {
    let pool = BufferPool::new(ByteCount(8192));
    let pieces: Vec<Buf> = pool.take(ByteCount(8192)).unwrap().carve(ByteCount(4096)).collect();
    let droppers = pieces.into_iter().map(|piece| std::thread::spawn(move || drop(piece.freeze())));
    droppers.collect::<Vec<_>>().into_iter().for_each(|dropper| dropper.join().unwrap());
    assert_eq!(pool.used(), ByteCount::ZERO);
    assert!(pool.take(ByteCount(8192)).is_some());
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_keeper_goes_with_the_last_view_of_what_it_keeps() {
    let (mut whole, gone) = over(12_288);
    whole.bytes_mut().fill(7);
    let mut pieces: Vec<Buf> = whole.carve(ByteCount(4096)).collect();
    let last = pieces.pop().unwrap().freeze().cut(ByteCount(4000), ByteCount(96));
    drop(pieces);
    assert!(!gone.load(Ordering::Relaxed));
    assert_eq!(last.solid().unwrap(), [7; 96]);
    std::thread::spawn(move || drop(last)).join().unwrap();
    assert!(gone.load(Ordering::Relaxed));
    let (unused, gone) = over(1);
    drop(unused);
    assert!(gone.load(Ordering::Relaxed));
}

#[test]
fn hollow_buffers_have_hollow_pieces_and_empty_ones_have_none() {
    let pieces: Vec<Buf> = Buf::hollow(ByteCount(5000)).carve(ByteCount(4096)).collect();
    assert!(pieces.iter().all(Buf::is_hollow));
    assert_eq!(pieces.iter().map(|piece| piece.len().0).collect::<Vec<_>>(), [4096, 904]);
    assert_eq!(Buf::hollow(ByteCount::ZERO).carve(ByteCount(4096)).count(), 0);
    assert_eq!(Buf::copy_of(b"").carve(ByteCount(1)).count(), 0);
}

#[test]
#[should_panic(expected = "pieces of no bytes")]
fn pieces_of_no_bytes_are_a_mistake() {
    let _ = Buf::hollow(ByteCount(1)).carve(ByteCount::ZERO);
}

/// Buffers of more than 1 MiB returned to the system each time, and the kernel cleared each new one
/// page by page.
#[test]
#[allow(clippy::disallowed_methods)]
fn large_buffers_are_kept_for_the_next_of_their_size() {
    let large = ByteCount(3 << 20);
    let pool = BufferPool::new(ByteCount(16 << 20));
    drop(pool.take(large).expect("there is room"));
    assert_eq!((pool.used(), pool.held()), (ByteCount::ZERO, large), "it is kept");
    let again = pool.take(large).expect("there is room");
    assert_eq!((pool.used(), pool.held()), (large, large), "and used again");
    // A large buffer of another size is another block, of exact size; free blocks are released to
    // make room.
    let other = pool.take(ByteCount(5 << 20)).expect("there is room");
    drop((again, other));
    assert_eq!((pool.used(), pool.held()), (ByteCount::ZERO, ByteCount(8 << 20)));
    let most = pool.take(ByteCount(12 << 20)).expect("the others are free");
    assert_eq!(pool.used(), ByteCount(12 << 20));
    assert!(pool.held() <= pool.limit(), "{}", pool.held());
    let sent = std::thread::spawn(move || drop(most));
    sent.join().expect("it ends");
    assert_eq!(pool.used(), ByteCount::ZERO, "another thread returned it");
    assert!(pool.held() >= ByteCount(12 << 20));
}
