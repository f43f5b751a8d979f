//! Queues in virtual time: a correct guest, hostile guests, and processes that are killed at any
//! time.

mod common;

use common::{CAPACITY, Driver, HEADER, LONG, Machine, Part, header};
use platform_sim::Rng;
use std::sync::Arc;
use units::ByteCount;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const ID: u32 = 8;
const DISCARD: u32 = 11;
const ZEROES: u32 = 13;
const DONE: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;

fn range(sector: u64, count: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &count.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn what_a_guest_writes_it_reads_from_buffers_of_any_shape() {
    for (seed, event_idx) in [(1, true), (2, false)] {
        let mut machine = Machine::start(seed, false, event_idx);
        machine.run(async |driver: Driver| {
            let data: Vec<u8> = (0..4096_u32).map(|at| (at * 7 % 251) as u8).collect();
            let parts = [Part::To(&data[..100]), Part::To(&data[100..101]), Part::To(&data[101..])];
            assert_eq!(
                driver.ask(&[&[Part::To(&header(WRITE, 9))][..], &parts].concat(), 0).await,
                (DONE, vec![])
            );
            let shape = [Part::To(&header(READ, 9)), Part::From(4000), Part::From(96)];
            assert_eq!(driver.ask(&shape, 4096).await, (DONE, data.clone()));
            // Header and data in one buffer, data and status in another, an indirect table.
            let whole = [&header(WRITE, 30)[..], &data[..512]].concat();
            assert_eq!(driver.ask_indirect(&[Part::To(&whole)], 0).await, (DONE, vec![]));
            let read =
                driver.ask_indirect(&[Part::To(&header(READ, 30)), Part::From(512)], 512).await;
            assert_eq!(read, (DONE, data[..512].to_vec()));
            assert_eq!(driver.ask(&[Part::To(&header(FLUSH, 0))], 0).await, (DONE, vec![]));
            let (status, id) = driver.ask(&[Part::To(&header(ID, 0)), Part::From(20)], 20).await;
            assert_eq!((status, &id[..]), (DONE, &b"data\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..]));
            for (kind, at) in [(ZEROES, 10), (DISCARD, 12)] {
                let request = [
                    Part::To(&header(kind, 0)),
                    Part::To(&range(at, 1, u32::from(kind == ZEROES))),
                ];
                assert_eq!(driver.ask(&request, 0).await, (DONE, vec![]));
            }
            let (_, now) = driver.ask(&[Part::To(&header(READ, 9)), Part::From(4096)], 4096).await;
            let mut expected = data.clone();
            expected[512..1024].fill(0);
            expected[1536..2048].fill(0);
            assert_eq!(now, expected);
        });
        assert_eq!(machine.flushes(), 1, "a guest with flushes needs no durable writes");
    }
}

#[test]
fn a_payload_longer_than_memory_goes_in_parts() {
    let mut machine = Machine::start(3, false, true);
    machine.run(async |driver: Driver| {
        let data: Vec<u8> = (0..LONG as u32).map(|at| (at / 512 * 31) as u8).collect();
        assert_eq!(driver.ask(&[Part::To(&header(WRITE, 0)), Part::To(&data)], 0).await.0, DONE);
        let (status, read) =
            driver.ask(&[Part::To(&header(READ, 0)), Part::From(LONG)], LONG).await;
        assert!(status == DONE && read == data);
    });
    assert!(machine.longest_call() < ByteCount(LONG as u64));
}

#[test]
fn what_makes_no_sense_is_refused_and_the_next_request_is_not() {
    let mut machine = Machine::start(4, false, true);
    machine.run(async |driver: Driver| {
        let (end, sector) = (CAPACITY / 512, [7; 512]);
        let [write, past, far, discard, unknown] =
            [(WRITE, 0), (WRITE, end), (WRITE, u64::MAX), (DISCARD, 0), (99, 0)]
                .map(|(kind, at)| header(kind, at));
        let refused = [
            (FAILED, vec![Part::To(&past), Part::To(&sector)]),
            (FAILED, vec![Part::To(&far), Part::To(&sector)]),
            (FAILED, vec![Part::To(&write), Part::To(&sector[..511])]),
            (FAILED, vec![Part::To(&write[..HEADER - 1])]),
            (FAILED, vec![Part::To(&write), Part::NowhereTo(512)]),
            (FAILED, vec![Part::To(&discard)]),
            (UNSUPPORTED, vec![Part::To(&unknown)]),
        ];
        for (number, (status, parts)) in refused.into_iter().enumerate() {
            assert_eq!(driver.ask(&parts, 0).await.0, status, "request {number}");
        }
        let flagged = range(0, 1, 2);
        assert_eq!(
            driver.ask(&[Part::To(&header(ZEROES, 0)), Part::To(&flagged)], 0).await.0,
            UNSUPPORTED
        );
        let beyond = range(end - 1, 2, 0);
        assert_eq!(
            driver.ask(&[Part::To(&header(DISCARD, 0)), Part::To(&beyond)], 0).await.0,
            FAILED
        );
        assert_eq!(
            driver.ask(&[Part::To(&header(READ, 0)), Part::NowhereFrom(512)], 0).await.0,
            FAILED
        );
        assert_eq!(driver.ask(&[Part::To(&header(WRITE, 0)), Part::To(&sector)], 0).await.0, DONE);
    });
}

#[test]
fn a_disk_that_is_read_only_is_not_written() {
    let mut machine = Machine::start(5, true, true);
    machine.run(async |driver: Driver| {
        let one = range(0, 1, 0);
        let [write, zeroes, discard] = [WRITE, ZEROES, DISCARD].map(|kind| header(kind, 0));
        for parts in [
            vec![Part::To(&write), Part::To(&[1; 512])],
            vec![Part::To(&zeroes), Part::To(&one)],
            vec![Part::To(&discard), Part::To(&one)],
        ] {
            assert_eq!(driver.ask(&parts, 0).await.0, FAILED);
        }
        assert_eq!(
            driver.ask(&[Part::To(&header(READ, 0)), Part::From(512)], 512).await,
            (DONE, vec![0; 512])
        );
    });
    assert_eq!(machine.changes(), 0);
}

#[test]
fn a_queue_that_makes_no_sense_ends_and_nothing_else_does() {
    // Each attack violates the protocol in another way: more requests than descriptors, an invalid
    // head, endless chains, nested tables, a request without a status byte.
    for attack in 0..common::ATTACKS {
        let mut machine = Machine::start(10 + attack, false, attack % 2 == 0);
        machine.run(async move |driver: Driver| driver.attack(attack).await);
        assert!(machine.queue_ends(), "attack {attack}");
        machine.start_queue();
        machine.run(async |driver: Driver| {
            assert_eq!(
                driver.ask(&[Part::To(&header(FLUSH, 0))], 0).await.0,
                DONE,
                "a restarted queue"
            );
        });
    }
}

#[test]
fn no_request_is_lost_or_answered_twice_whenever_the_process_is_killed() {
    let (mut resumed, mut begun) = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed, "kill", "");
        let mut machine = Machine::start(seed, false, rng.chance(1, 2));
        let writes = Arc::new(common::Writes::new(seed, 40));
        for _ in 0..rng.between(1, 4) {
            machine.write_until_killed(&writes, rng.between(1, 400));
            resumed += machine.restart();
        }
        machine.write_all(&writes);
        writes.check(&machine.content());
        begun += machine.begun();
    }
    assert!(resumed > 100, "{resumed} requests were repeated");
    assert!(begun > 1000, "{begun} transfers took no task");
}
