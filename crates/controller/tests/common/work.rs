//! Hosts that write to a volume of six stripes with two data strips each, and the allowed contents
//! after a crash.

use super::Bench;
use super::events::End;
use engine::Volume;
use platform::{Buf, Durability, JoinHandle};
use std::cell::RefCell;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

pub const STRIP: u64 = 64 << 10;

/// The written part.
pub const ALL: u64 = 12 * STRIP;

/// Its content before.
pub const OLD: u8 = 5;

/// The next write of a worker, and its reply.
pub struct Asked {
    at: u64,
    len: u64,
    value: u8,
    /// A full-stripe write.
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
        volume.write(range, data, durability).await.expect("hosts get no errors");
        let asked = &mut log.borrow_mut()[number];
        (asked.acknowledged, asked.durable) = (true, durability == Durability::Durable);
    }
}

/// Hosts write, concurrently and sequentially, while something else happens. No two write the same
/// bytes.
pub fn begin_work(bench: &Bench, log: &Log) -> Vec<JoinHandle<()>> {
    log.borrow_mut().clear();
    let volume = bench.shards[0].volume_named("data").expect("the volume is online");
    let env = volume.shard().env().clone();
    let small = |at: u64, durability| (0..150).map(|_| (at, 8192, durability)).collect::<Vec<_>>();
    let deeds = vec![
        small(2 * STRIP + 4096, Durability::Cached),
        small(3 * STRIP + 4096, Durability::Durable),
        // A full stripe without a record, then an FUA write of a part of it.
        (0..80)
            .map(|nth| match nth % 2 {
                0 => (4 * STRIP, 2 * STRIP, Durability::Cached),
                _ => (5 * STRIP, 4096, Durability::Durable),
            })
            .collect(),
    ];
    deeds
        .into_iter()
        .map(|deeds| env.spawn("worker", work(volume.clone(), log.clone(), deeds)))
        .collect()
}

/// Checks that every sector has an allowed content, after a crash in which a drive was lost.
pub fn look(bench: &mut Bench, log: &Log, how: End, is_drive_lost: bool, what: &str) {
    let bytes = bench.try_read("data", 0, ALL).expect("the volume is readable");
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
        assert!(
            fits || is_excused,
            "{what}: sector at {at} is {} …, and may be one of {may:?}",
            sector[0]
        );
    }
}
