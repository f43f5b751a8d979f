//! The process is killed at any time; acknowledged data survive, and redundancy is consistent
//! again.

mod common;

use common::host::Host;
use common::{Controller, pattern};
use std::collections::BTreeMap;
use std::time::Duration;

const BLOCK: usize = 12 << 10;

/// The state of a writer: for each block the acknowledged version, and the pending one.
#[derive(Default, Clone)]
struct Written {
    acknowledged: BTreeMap<u64, u64>,
    unsure: Option<(u64, u64)>,
}

/// Blocks are not aligned to strips, and neighbours belong to different writers.
fn block_bytes(block: u64, version: u64) -> Vec<u8> {
    pattern(block * 1_000_003 + version, BLOCK)
}

/// Writes its own random blocks until the connection fails.
fn writer(socket: String, number: u64, writers: u64, seed: u64) -> Written {
    let mut written = Written::default();
    let Ok(mut host) = Host::connect(&socket, "v") else { return written };
    let blocks = host.size / BLOCK as u64 / writers;
    let mut state = seed.wrapping_add(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for version in 1.. {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let block = (state % blocks) * writers + number;
        written.unsure = Some((block, version));
        if host.write(block * BLOCK as u64, &block_bytes(block, version)).is_err() {
            return written;
        }
        written.acknowledged.insert(block, version);
        written.unsure = None;
        if version % 50 == 0 && host.flush().is_err() {
            return written;
        }
    }
    written
}

/// Each block has the acknowledged version, or the pending one.
fn check(controller: &Controller, all: &[Written], when: &str) {
    let mut host = Host::connect(&controller.nbd_socket(), "v").expect("the volume is served");
    for written in all {
        for (&block, &version) in &written.acknowledged {
            let got = host.read(block * BLOCK as u64, BLOCK).expect("the block is readable");
            if got == block_bytes(block, version) {
                continue;
            }
            let (new, old) = match written.unsure {
                Some((unsure, newer)) if unsure == block => {
                    (block_bytes(block, newer), block_bytes(block, version))
                }
                _ => panic!("{when}: block {block} lost its acknowledged version {version}"),
            };
            for (sector, bytes) in got.chunks(512).enumerate() {
                let at = sector * 512;
                assert!(
                    bytes == &new[at..at + 512] || bytes == &old[at..at + 512],
                    "{when}: sector {sector} of block {block} is neither old nor new"
                );
            }
        }
    }
}

/// Merges the earlier state with that of the next round of writers.
fn merge(all: &mut [Written], round: Vec<Written>) {
    for (known, new) in all.iter_mut().zip(round) {
        // A read resolves earlier uncertainty; only rewritten blocks are known.
        if let Some((block, _)) = known.unsure.take()
            && !new.acknowledged.contains_key(&block)
        {
            known.acknowledged.remove(&block);
        }
        known.acknowledged.extend(new.acknowledged);
        known.unsure = new.unsure;
    }
}

fn kill_and_check(level: &str, drives: usize) {
    let mut controller = Controller::with(&format!("kill9-{level}"), &["--shards", "2"]);
    controller.volume("v", level, drives);
    const WRITERS: u64 = 4;
    let mut all = vec![Written::default(); WRITERS as usize];
    for round in 0..4 {
        let threads: Vec<_> = (0..WRITERS)
            .map(|number| {
                let socket = controller.nbd_socket();
                std::thread::spawn(move || writer(socket, number, WRITERS, round))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(150 + 130 * round));
        controller.kill_9();
        let written: Vec<Written> =
            threads.into_iter().map(|thread| thread.join().expect("a writer ends")).collect();
        assert!(
            written.iter().any(|written| !written.acknowledged.is_empty()),
            "nothing was written"
        );
        merge(&mut all, written);
        controller.start();
        check(&controller, &all, &format!("{level}, after kill {round}"));
        assert_eq!(controller.show("v")["state"], "optimal");
    }
    controller.wait_synced("v");
    check(&controller, &all, &format!("{level}, after the resync"));
    // The content of each drive, read from the drive (above) and from redundancy.
    controller.stop();
    for missing in 0..drives {
        let degraded = without_drive(&controller, missing, drives);
        assert_eq!(degraded.show("v")["state"], "degraded");
        check(&degraded, &all, &format!("{level} without drive {missing}"));
    }
}

/// Copies of all drives but one, with other names and in another order, under their own controller.
fn without_drive(original: &Controller, missing: usize, drives: usize) -> Controller {
    let mut controller = Controller::unstarted(&format!("without-{missing}"));
    controller.arguments.push("--drives".into());
    for slot in (0..drives).rev().filter(|slot| *slot != missing) {
        let copy = controller.folder.file(&format!("copy{slot}.img"));
        std::fs::copy(original.folder.file(&format!("d{slot}.img")), &copy).expect("a copy");
        controller.arguments.push(copy);
    }
    controller.start();
    controller
}

#[test]
fn raid1_keeps_every_acknowledged_write_over_kill_9() {
    kill_and_check("raid1", 2);
}

#[test]
fn raid5_keeps_every_acknowledged_write_over_kill_9() {
    kill_and_check("raid5", 4);
}
