//! Measures the CPU cost of a rebuild, in instructions: rebuilds one drive of an array in memory,
//! without host I/O.
//!
//! ```text
//! cargo build --release -p array --example rebuild_cost
//! for size in 32M 64M; do
//!   valgrind --tool=cachegrind --cache-sim=no \
//!     target/release/examples/rebuild_cost raid5 6 $size
//! done
//! target/release/examples/rebuild_cost raid5 6 1G 5
//! ```
//!
//! The cost per stripe is the difference of two sizes' counts, divided by the difference of their
//! stripes. With a number of rounds, it also compares the time with copying the same bytes, 1 MiB
//! at a time, in turn.

// This measures real time.
#![allow(clippy::disallowed_methods)]

use engine::{
    Attachment, Change, FaultPolicy, RegionSet, Regions, ShardMessage, TaskId, TaskKind, TaskOrder,
    TaskPace, VolumeId, VolumeSpec, VolumeState,
    alone::{self, Alone},
};
use layout::{Level, Shape};
use platform::{Buf, DriveIdentity, DriveSource, Durability, Env};
use platform_sim::{Sim, SimOptions};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, SectorSize, StripSize,
};

const VOLUME: VolumeId = VolumeId(0);
const PIECE: usize = 1 << 20;
const PACE: TaskPace = TaskPace { share_percent: 30, paused: false, max_bytes_per_s: None };

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let field = |index: usize, usual: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| usual.to_owned())
    };
    let level = field(0, "raid5").parse::<Level>()?;
    let drives = field(1, "6").parse::<u16>()?;
    let size = field(2, "64M").parse::<ByteCount>()?;
    let rounds: u32 = field(3, "0").parse()?;
    let shape = Shape::new(level, DriveCount(drives));
    let parity = shape.geometry(StripSize::KIB_64, size)?.parity_strips();
    let reads = if level.has_parity() { drives - parity } else { 1 };
    let mut sources: Vec<Arc<dyn DriveSource>> = Vec::new();
    for index in 0..drives {
        let identity = DriveIdentity(format!("mem:{index}"));
        sources.push(Arc::new(drives::MemoryDrive::new("mem", identity, size, SectorSize::B512)));
    }
    run(&shape, &sources, size, false, fill)?;
    let rebuild = || run(&shape, &sources, size, true, rebuild);
    rebuild()?;
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let (own, copied) = (rebuild()?, copy(reads, size));
        ratios.push(copied.as_secs_f64() / own.as_secs_f64());
        let rate = |time: Duration| size.0 as f64 / time.as_secs_f64() / (1 << 20) as f64;
        println!("rebuilt {:.0} MiB/s, copied {:.0} MiB/s", rate(own), rate(copied));
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios
        .get(ratios.len() / 2)
        .map_or("".to_owned(), |ratio| format!(", {ratio:.2} of copying"));
    println!("{size} of one of {drives} drives of {level}, from {reads}{middle}");
    Ok(())
}

/// Runs an operation on the array and returns its time. `stale`: the first drive has no data.
fn run(
    shape: &Shape,
    sources: &[Arc<dyn DriveSource>],
    size: ByteCount,
    stale: bool,
    act: impl AsyncFn(&Env, &Alone) -> Result<(), Box<dyn Error>> + 'static,
) -> Result<Duration, Box<dyn Error>> {
    let geometry = shape.geometry(StripSize::KIB_64, size)?;
    let spec = VolumeSpec {
        id: VOLUME,
        name: "array".into(),
        geometry,
        sector: SectorSize::B512,
        data_start: ByteOffset::ZERO,
        capacity: geometry.capacity(),
        policy: FaultPolicy::default(),
    };
    let regions = Regions::of(&geometry);
    let all = RegionSet::first(regions.count);
    let mut state = VolumeState::with_drives(&regions, DriveSet::first(geometry.drives()));
    state.apply(&Change::Marked(all.clone()));
    if stale {
        state = state.with_stale(DriveIndex(0), &all);
    }
    let attachment =
        Attachment::new(Arc::new(spec), sources.iter().cloned().map(Some).collect(), state);
    let mut sim = Sim::new(SimOptions { seed: 7, ..SimOptions::default() });
    let env = sim.env();
    sim.run(async move {
        let array = alone::attach(&env, attachment, []).await?;
        let began = Instant::now();
        act(&env, &array).await?;
        Ok(began.elapsed())
    })?
}

async fn fill(_: &Env, array: &Alone) -> Result<(), Box<dyn Error>> {
    let (payload, capacity) =
        (Buf::copy_of(&vec![0xA5; PIECE]).freeze(), array.volume.spec().capacity.0);
    for at in (0..capacity).step_by(PIECE) {
        let len = ByteCount((capacity - at).min(PIECE as u64));
        let range = ByteRange::new(ByteOffset(at), len);
        array.volume.write(range, payload.cut(ByteCount::ZERO, len), Durability::Cached).await?;
    }
    Ok(())
}

/// Rebuilds the first drive.
async fn rebuild(env: &Env, array: &Alone) -> Result<(), Box<dyn Error>> {
    let kind = TaskKind::Rebuild { slot: DriveIndex(0) };
    let order = TaskOrder { volume: VOLUME, task: TaskId(1), kind, regions: None, pace: PACE };
    let (done, mut begun) = platform::mailbox::mailbox(env, 1);
    let start = ShardMessage::StartTask(Box::new(order), done);
    array.shard.send(start).map_err(|_| "the shard takes no messages")?;
    begun.receive().await.ok_or("no answer")??;
    while !array.volume.recorded_state().stale_somewhere().is_empty() {
        env.sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// The time to copy the same number of bytes.
fn copy(reads: u16, size: ByteCount) -> Duration {
    let (mut scratch, len) = (vec![1_u8; PIECE], size.as_usize());
    let mut memory: Vec<Vec<u8>> = (0..=reads).map(|drive| vec![drive as u8 + 1; len]).collect();
    let began = Instant::now();
    for at in (0..len - len % PIECE).step_by(PIECE) {
        for from in &memory[1..] {
            scratch.copy_from_slice(&from[at..at + PIECE]);
            std::hint::black_box(&mut scratch);
        }
        memory[0][at..at + PIECE].copy_from_slice(&scratch);
    }
    began.elapsed()
}
