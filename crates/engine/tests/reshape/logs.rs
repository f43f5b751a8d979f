//! Records on log devices of a reshaping volume: they describe the layout that it leaves.

use crate::common::{Bench, open, write};
use crate::reshape::{Scene, VOLUME, WAYS, carry_out, scene};
use engine::{
    Absorb, CacheTerms, CellShare, DataLogPlace, DataLogTerms, JournalOn, JournalPlace, LogDevice,
    Moved, Mover, ShardMessage, Step,
};
use ondisk::Uuid;
use platform::Env;
use platform_sim::{DriveOptions, SimDrive};
use std::cell::Cell;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet};
use write_log::{ChangeKind, LogId, Record, counting, scan};

const JOURNAL: Uuid = Uuid([9; 16]);
const DATA_LOG: Uuid = Uuid([7; 16]);
const LEN: ByteCount = ByteCount(256 << 10);
const JOURNAL_AT: ByteOffset = ByteOffset(1 << 20);
const DATA_LOG_AT: ByteOffset = ByteOffset(2 << 20);

/// A volume with journal and data log on a log device.
async fn start(envs: Vec<Env>, scene: &Scene) -> Bench {
    let moved = Moved::default();
    let mut attachments = scene.attachments(&envs[0], moved, false, &DriveSet::EMPTY).await;
    let device = LogDevice { id: Uuid([1; 16]), source: open(&envs[0], scene.drives()).await };
    let on = JournalOn::Devices { at: JOURNAL_AT, devices: vec![device.clone()] };
    attachments[0].journal = Some(JournalPlace { id: JOURNAL, len: LEN, on });
    attachments[0].cache = CacheTerms { absorb: Absorb::Unflushed, ..CacheTerms::none(VOLUME) };
    let place = DataLogPlace { id: DATA_LOG, at: DATA_LOG_AT, len: LEN, devices: vec![device] };
    let shares = envs.iter().map(|_| CellShare::unkept(24, false)).collect();
    let bench = Bench::attach_all(envs, attachments, shares).await;
    bench
        .tell(|done| ShardMessage::SetDataLog(VOLUME, DataLogTerms::At(place.clone()), done))
        .await;
    bench.tell(|done| scene.begin(moved, done)).await;
    bench
}

/// The live records there, as a replay would find them.
fn said(device: &SimDrive, at: ByteOffset, id: Uuid) -> Vec<ByteRange> {
    let records: Vec<Record> = scan(&device.peek(at, LEN).expect("readable"), LogId(id.0));
    let records = counting(records).expect("none is missing");
    let changes = records.iter().flat_map(|record| &record.changes);
    changes.filter(|change| change.kind == ChangeKind::Bytes).map(|change| change.range).collect()
}

/// Only a journal on members was invalidated before a window was written. After a crash a replay
/// from log devices wrote old rows over new ones. The data log's records stayed live as well, and
/// describe bytes of the old layout.
#[test]
fn no_record_on_log_devices_counts_when_a_window_is_written() {
    let scene = scene(WAYS[0], 6);
    let sim = &mut scene.sim();
    let log =
        sim.add_drive(&format!("d{}", scene.drives()), DriveOptions::sized(ByteCount(4 << 20)));
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = start(envs, &scene).await;
        for at in [0, 512, 8192] {
            write(bench.volume(), at, &[5; 512]).await.expect("written");
        }
        bench.volume().flush().await.expect("flushed");
        assert!(
            !said(&log, DATA_LOG_AT, DATA_LOG).is_empty(),
            "only the flushed data is in the log"
        );
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        while let Some(step) = mover.step() {
            let writes = matches!(step, Step::Write { .. });
            let saves = matches!(step, Step::Save(_));
            carry_out(&bench, step, &recorded).await;
            mover.done();
            if saves {
                assert!(
                    !said(&log, JOURNAL_AT, JOURNAL).is_empty(),
                    "data that was destaged before"
                );
            }
            if writes {
                break;
            }
        }
        assert_eq!(said(&log, JOURNAL_AT, JOURNAL), [], "a replay would overwrite the window");
        assert_eq!(said(&log, DATA_LOG_AT, DATA_LOG), [], "the same");
    })
    .expect("no stall");
}
