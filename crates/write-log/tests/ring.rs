//! The places of records in their ring: no record overwrites a counting one.

use proptest::prelude::*;
use units::ByteCount;
use write_log::{BLOCK, Begun, NOTICES, Ring};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A record of that many blocks, if it has a place.
    Begin(u64),
    /// A record under way, by index, is durable, and its write is done.
    End(usize),
    /// All drives are flushed.
    Retire,
    /// A notice announces the counting records.
    Notice,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..12).prop_map(Step::Begin),
        4 => (0usize..8).prop_map(Step::End),
        2 => Just(Step::Retire),
        2 => Just(Step::Notice),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A replay reads counting records: a block of another record in one of them loses its change.
    #[test]
    fn no_record_is_written_over_one_that_counts(
        blocks in 24u64..80,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let len = blocks * BLOCK.0;
        let mut ring = Ring::new(ByteCount(len));
        let mut written: Vec<(u64, u64, u64)> = Vec::new();
        let mut open: Vec<Begun> = Vec::new();
        for step in steps {
            match step {
                Step::Begin(blocks) => {
                    let need = (blocks * BLOCK.0).min(ring.most());
                    let Some(place) = ring.place_for(need) else { continue };
                    prop_assert!(place >= NOTICES * BLOCK.0 && place + need <= len);
                    let from = ring.counts_from();
                    let counts = written.iter().filter(|(sequence, ..)| *sequence >= from);
                    for (sequence, first, end) in counts {
                        prop_assert!(
                            place + need <= *first || *end <= place,
                            "{place}..{} lies over record {sequence} at {first}..{end}",
                            place + need
                        );
                    }
                    let begun = ring.begin(place, need, 1);
                    written.push((begun.sequence, place, place + need));
                    open.push(begun);
                }
                Step::End(nth) if !open.is_empty() => {
                    let begun = open.remove(nth % open.len());
                    ring.landed(&begun);
                    ring.end(begun.sequence);
                }
                Step::End(_) => {}
                Step::Retire => ring.retire(ring.settled()),
                Step::Notice => {
                    let (_, begun) = ring.begin_notice();
                    ring.noticed(&begun);
                }
            }
        }
    }
}
