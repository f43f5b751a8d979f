//! Hosts that write to a volume of six stripes of two strips each, and what of it has to be there after a crash.

use super::Bench;
use super::events::End;
use engine::Volume;
use platform::{Buf, Durability, JoinHandle};
use std::cell::RefCell;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

pub const STRIP: u64 = 64 << 10;

/// All that is written.
pub const ALL: u64 = 12 * STRIP;

/// What is there before.
pub const OLD: u8 = 5;

/// What a worker writes next, and what it was told.
pub struct Asked {
    at: u64,
    len: u64,
    value: u8,
    /// It is of a whole stripe.
    whole: bool,
    acknowledged: bool,
    durable: bool,
}

pub type Log = Rc<RefCell<Vec<Asked>>>;

async fn work(volume: Rc<Volume>, log: Log, deeds: Vec<(u64, u64, Durability)>) {
    for (nth, (at, len, durability)) in deeds.into_iter().enumerate() {
        let value = 50 + nth as u8;
        let number = log.borrow().len();
        let whole = len == 2 * STRIP;
        log.borrow_mut().push(Asked { at, len, value, whole, acknowledged: false, durable: false });
        let range = ByteRange::new(ByteOffset(at), ByteCount(len));
        let data = Buf::copy_of(&vec![value; len as usize]).freeze();
        volume.write(range, data, durability).await.expect("hosts are not disturbed");
        let asked = &mut log.borrow_mut()[number];
        (asked.acknowledged, asked.durable) = (true, durability == Durability::Durable);
    }
}

/// Hosts write, beside each other and one after the other, while something else happens. No two write the same.
pub fn begin_work(bench: &Bench, log: &Log) -> Vec<JoinHandle<()>> {
    log.borrow_mut().clear();
    let volume = bench.shards[0].volume_named("data").expect("it is served");
    let env = volume.shard().env().clone();
    let small = |at: u64, durability| (0..150).map(|_| (at, 8192, durability)).collect::<Vec<_>>();
    let deeds = vec![
        small(2 * STRIP + 4096, Durability::Cached),
        small(3 * STRIP + 4096, Durability::Durable),
        // All of a stripe without a record, then a part of it that is promised to be durable.
        (0..80)
            .map(|nth| match nth % 2 {
                0 => (4 * STRIP, 2 * STRIP, Durability::Cached),
                _ => (5 * STRIP, 4096, Durability::Durable),
            })
            .collect(),
    ];
    deeds.into_iter().map(|deeds| env.spawn("worker", work(volume.clone(), log.clone(), deeds))).collect()
}

/// Every sector is one of those that it may be, over a crash with which a drive was lost.
pub fn look(bench: &mut Bench, log: &Log, how: End, is_drive_lost: bool, what: &str) {
    let bytes = bench.try_read("data", 0, ALL).expect("it can be read");
    for (number, sector) in bytes.chunks(512).enumerate() {
        let at = number as u64 * 512;
        let (mut may, mut is_excused, log) = (vec![OLD], false, log.borrow());
        for asked in log.iter().filter(|asked| (asked.at..asked.at + asked.len).contains(&at)) {
            let is_kept = if how == End::Killed { asked.acknowledged } else { asked.durable };
            if is_kept {
                may.clear();
            }
            may.push(asked.value);
            is_excused |= asked.whole && !is_kept && is_drive_lost;
        }
        let fits = may.iter().any(|value| sector.iter().all(|byte| byte == value));
        assert!(fits || is_excused, "{what}: sector at {at} is {} …, and may be one of {may:?}", sector[0]);
    }
}
