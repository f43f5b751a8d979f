//! Buffers: pools, views, and pieces that are blocks of their own.

use env::buffers::ALIGNMENT;
use env::{Buf, BufferPool};
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
