//! Words with atomic stores.

use platform::Words;

#[test]
fn clones_are_the_same_numbers() {
    let words = Words::unkept(3);
    assert_eq!((words.len(), words.is_empty()), (3, false));
    assert_eq!((0..3).map(|index| words.load(index)).collect::<Vec<_>>(), [0; 3]);
    let clone = words.clone();
    clone.store(2, u64::MAX);
    drop(clone);
    assert_eq!((words.load(1), words.load(2)), (0, u64::MAX));
    assert!(Words::unkept(0).is_empty());
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_number_comes_with_what_its_thread_stored_before() {
    let words = Words::unkept(2);
    let stores = words.clone();
    let storing = std::thread::spawn(move || {
        for round in 1..=100_000 {
            stores.store(0, round);
            stores.store(1, round);
        }
    });
    loop {
        let second = words.load(1);
        assert!(words.load(0) >= second);
        if second == 100_000 {
            break;
        }
    }
    storing.join().unwrap();
}

#[test]
#[should_panic(expected = "word 1 of 1")]
fn there_is_nothing_behind_the_last_number() {
    Words::unkept(1).load(1);
}
