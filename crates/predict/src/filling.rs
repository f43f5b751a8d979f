//! Fills the cache before a measurement to its content after hours of the load.

use crate::error::{Error, Result};
use engine::Volume;
use platform::Env;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use storagebench::{Access, Bench, Ending, Ladder, Profile, Row, Settings, Target};
use units::ByteCount;

/// The writes of a load without its reads; `None`: it writes nothing.
///
/// # Errors
/// None in practice: removing parts of a valid load leaves a valid load.
fn writes_of(profile: &Profile) -> Result<Option<Profile>> {
    let mut load = profile.load().clone();
    for component in &mut load.components {
        component.kinds.retain(|kind| kind.read_percent < 100.0);
        component.kinds.iter_mut().for_each(|kind| kind.read_percent = 0.0);
    }
    load.components.retain(|component| !component.kinds.is_empty());
    match load.components.is_empty() {
        true => Ok(None),
        false => Ok(Some(Profile::new(profile.name(), load)?)),
    }
}

/// The same settings with a fixed runtime, without early end.
fn fixed(settings: &Settings, runtime: Duration) -> Settings {
    Settings { runtime, confidence_percent: None, max_runtime: None, ..settings.clone() }
}

/// The dirty data in all caches.
fn dirty(volumes: &[Rc<Volume>]) -> ByteCount {
    ByteCount(volumes.iter().map(|volume| volume.cache_counters().dirty.0).sum())
}

/// Runs a load for a while. Returns the dirty data at the end, and the data that hosts wrote.
///
/// # Errors
/// When the run cannot end, or was stopped.
async fn put_on(
    env: &Env,
    target: &Target,
    volumes: &[Rc<Volume>],
    settings: Settings,
    cancel: &Arc<AtomicBool>,
) -> Result<(ByteCount, ByteCount)> {
    let bench =
        Bench::new(Settings { ramp: Duration::ZERO, ..settings }).cancelled_by(cancel.clone());
    let measured = bench.run(env, target).await?;
    let written_mib = |row: &Row| row.write.throughput_mib_s * row.duration_s;
    let written = measured.rows.iter().map(written_mib).sum::<f64>() * f64::from(1 << 20);
    match measured.ending {
        Ending::Complete => Ok((dirty(volumes), ByteCount(written as u64))),
        Ending::Cancelled(sentence) | Ending::Failed(sentence) => {
            Err(Error::failed(format!("while the cache was filled: {sentence}")))
        }
    }
}

/// Whether hosts write faster than the cache destages by age or for space, so that it becomes full
/// in the long run. The load runs twice: its beginning is not representative.
///
/// # Errors
/// As [`put_on`].
async fn fills(
    env: &Env,
    target: &Target,
    volumes: &[Rc<Volume>],
    (settings, cancel): (&Settings, &Arc<AtomicBool>),
    runtime: Duration,
) -> Result<bool> {
    // A different seed for each run: rewriting the same blocks makes no data dirty.
    let apart = |by: u64| Settings {
        seed: settings.seed.map(|seed| seed + by),
        ..fixed(settings, runtime)
    };
    let (before, _) = put_on(env, target, volumes, apart(500_000_003), cancel).await?;
    let (after, written) = put_on(env, target, volumes, apart(700_000_001), cancel).await?;
    Ok(after.0 > before.0 + written.0 / 10)
}

/// Brings the cache to its steady state under the load. A cache that fills during the measurement
/// shows the speed of memory, not of drives.
///
/// If destaging by age keeps up with the writes, the cache holds the writes of a few seconds; only
/// disks need that check. Otherwise writes alone fill it: to the mark of destaging for space, if
/// the load also reads and does not write faster than that destages; else completely.
///
/// # Errors
/// When the run cannot end, or was stopped.
pub(crate) async fn fill_cache(
    env: &Env,
    target: &Target,
    volumes: &[Rc<Volume>],
    (settings, cancel): (&Settings, &Arc<AtomicBool>),
    rotates: bool,
) -> Result<()> {
    /// The maximum number of write runs.
    const MOST_ROUNDS: u64 = 40_000;
    let [profile] = &settings.profiles[..] else { return Ok(()) };
    let Some(writes) = writes_of(profile)? else { return Ok(()) };
    let reads = profile.reads();
    // Disks destage dirty data by age, then all at once.
    const SOME_AGES: Duration = Duration::from_secs(8);
    let at_the_mark = if rotates { Duration::from_secs(4) } else { Duration::from_millis(150) };
    if reads && rotates && !fills(env, target, volumes, (settings, cancel), SOME_AGES).await? {
        return Ok(());
    }
    // The duration of a run, and the number of consecutive runs without new dirty data. A stream
    // restarts at each run, over dirty data.
    let (runtime, most_in_vain) = match profile.access() {
        Access::Sequential => (Duration::from_secs(1), 1),
        _ => (Duration::from_millis(10), 20),
    };
    let outstanding = Ladder::new(vec![settings.outstanding.highest()])?;
    let filling = Settings { profiles: vec![writes], outstanding, ..fixed(settings, runtime) };
    let (mut most, mut in_vain, mut fills_up) = (ByteCount::ZERO, 0, !reads);
    for round in 1..=MOST_ROUNDS {
        // The same seed would write the same blocks again.
        let seed = settings.seed.map(|seed| seed + round * 1_000_003);
        let (dirty, _) =
            put_on(env, target, volumes, Settings { seed, ..filling.clone() }, cancel).await?;
        in_vain = if dirty > most { 0 } else { in_vain + 1 };
        if in_vain == most_in_vain {
            break;
        }
        if !fills_up && volumes.iter().any(|volume| volume.is_destaging_for_room()) {
            fills_up = fills(env, target, volumes, (settings, cancel), at_the_mark).await?;
            if !fills_up {
                break;
            }
        }
        most = most.max(dirty);
    }
    Ok(())
}
