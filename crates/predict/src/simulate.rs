//! A run in virtual time: the engine that serves real drives, on models.

use crate::configuration::{Configuration, WriteHole};
use crate::error::{Error, Result};
use crate::method::MeasuringMethod;
use crate::parallel;
use crate::request::Runs;
use array::{Choices, assemble};
use engine::{Marks, ReadTerms, StreamSharing, Volume};
use env::Env;
use models::{ControllerSpec, HostSpec, Prepared, Server, ServerSpec};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storagebench::{
    Access, Bench, Ending, Interval95, Ladder, Latency, NoteKind, Observer, Profile, Row, Settings, Snapshot,
    Split, Surroundings, Target, student_t_95,
};
use units::ByteCount;
use world_sim::{Order, Sim, SimOptions};

/// Volumes plan in this memory; models hold no data.
const MEMORY: ByteCount = ByteCount(1 << 30);

/// Notes how busy the server's resources are in each window: looked at by the measurement at its start and end.
struct Watch {
    env: Env,
    server: Server,
    looks: RefCell<Vec<(u64, BTreeMap<String, u64>)>>,
    resources: RefCell<Vec<BTreeMap<String, f64>>>,
}

impl Surroundings for Watch {
    fn look(&self, _: &str) -> Snapshot {
        let mut looks = self.looks.borrow_mut();
        looks.truncate(1); // The first of the window and the latest.
        looks.push((self.env.now().ns, self.server.busy()));
        Snapshot::default()
    }
}

impl Observer for Watch {
    fn row(&self, _: &Row) {
        let looks = std::mem::take(&mut *self.looks.borrow_mut());
        let mut percent = BTreeMap::new();
        if let [(from_ns, before), .., (to_ns, after)] = &looks[..] {
            let window_ns = to_ns.saturating_sub(*from_ns).max(1) as f64;
            for (name, busy_ns) in after {
                let since = before.get(name).copied().unwrap_or(0);
                let share = busy_ns.saturating_sub(since) as f64 / window_ns * 100.0;
                percent.insert(name.clone(), (share.min(100.0) * 10.0).round() / 10.0);
            }
        }
        self.resources.borrow_mut().push(percent);
    }
}

/// The writes of a load alone; `None`: it writes nothing.
///
/// # Errors
/// None that a load could cause from which something was left out.
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

/// The same for so long, however sure its figures are.
fn fixed(settings: &Settings, runtime: Duration) -> Settings {
    Settings { runtime, confidence_percent: None, max_runtime: None, ..settings.clone() }
}

/// Puts a load on for a while; how much is dirty then, and how much hosts wrote.
///
/// # Errors
/// When the run cannot end.
async fn put_on(
    env: &Env,
    target: &Target,
    volume: &Volume,
    settings: Settings,
) -> Result<(ByteCount, ByteCount)> {
    let measured = Bench::new(Settings { ramp: Duration::ZERO, ..settings }).run(env, target).await?;
    let written_mib = |row: &Row| row.write.throughput_mib_s * row.duration_s;
    let written = measured.rows.iter().map(written_mib).sum::<f64>() * f64::from(1 << 20);
    match measured.ending {
        Ending::Complete => Ok((volume.cache_counters().dirty, ByteCount(written as u64))),
        Ending::Cancelled(sentence) | Ending::Failed(sentence) => Err(Error::failed(sentence)),
    }
}

/// Whether hosts write more under a load than is destaged meanwhile, for its age or for room, so that the cache fills up, however long
/// that takes. The load is put on twice for so long: what it begins with says nothing of how it goes on.
///
/// # Errors
/// As [`put_on`].
async fn fills(
    env: &Env,
    target: &Target,
    volume: &Volume,
    settings: &Settings,
    runtime: Duration,
) -> Result<bool> {
    // With the seed of the measurement, or the same twice, hosts would write the same blocks once more, which makes nothing dirty.
    let apart = |by: u64| Settings { seed: settings.seed.map(|seed| seed + by), ..fixed(settings, runtime) };
    let (before, _) = put_on(env, target, volume, apart(500_000_003)).await?;
    let (after, written) = put_on(env, target, volume, apart(700_000_001)).await?;
    Ok(after.0 > before.0 + written.0 / 10)
}

/// Brings the cache to what it will have under the load: one that fills up while it is measured shows its memory, not the drives.
/// Where what is old goes as fast as hosts write, that is what they wrote in a few seconds, which disks need to be asked for. Else
/// writes alone fill it: to where it destages for room, if hosts read as well and write no more than that takes away; otherwise with as
/// much as it takes, which may be all of it.
///
/// # Errors
/// When the run cannot end.
async fn fill_cache(
    env: &Env,
    target: &Target,
    volume: &Volume,
    settings: &Settings,
    rotates: bool,
) -> Result<()> {
    /// How many times the writes are put on at the most.
    const MOST_ROUNDS: u64 = 40_000;
    let [profile] = &settings.profiles[..] else { return Ok(()) };
    let Some(writes) = writes_of(profile)? else { return Ok(()) };
    let reads = profile.reads();
    // Disks wait for the age of what is dirty, and then write it in one go.
    const SOME_AGES: Duration = Duration::from_secs(8);
    let at_the_mark = if rotates { Duration::from_secs(4) } else { Duration::from_millis(150) };
    if reads && rotates && !fills(env, target, volume, settings, SOME_AGES).await? {
        return Ok(());
    }
    // How long each time, and how many times in a row may bring nothing. A stream begins anew each time, over what is dirty.
    let (runtime, most_in_vain) = match profile.access() {
        Access::Sequential => (Duration::from_secs(1), 1),
        _ => (Duration::from_millis(10), 20),
    };
    let outstanding = Ladder::new(vec![settings.outstanding.highest()])?;
    let filling = Settings { profiles: vec![writes], outstanding, ..fixed(settings, runtime) };
    let (mut most, mut in_vain, mut fills_up) = (ByteCount::ZERO, 0, !reads);
    for round in 1..=MOST_ROUNDS {
        // Others of the same seed would write the same blocks once more.
        let seed = settings.seed.map(|seed| seed + round * 1_000_003);
        let (dirty, _) = put_on(env, target, volume, Settings { seed, ..filling.clone() }).await?;
        in_vain = if dirty > most { 0 } else { in_vain + 1 };
        if in_vain == most_in_vain {
            break;
        }
        if !fills_up && volume.is_destaging_for_room() {
            fills_up = fills(env, target, volume, settings, at_the_mark).await?;
            if !fills_up {
                break;
            }
        }
        most = most.max(dirty);
    }
    Ok(())
}

/// How one profile is measured on one seed.
///
/// # Errors
/// When it cannot be aligned as the method asks.
fn settings(method: &MeasuringMethod, runs: &Runs, profile: &Profile, seed: u64) -> Result<Settings> {
    Ok(Settings {
        profiles: vec![method.aligned(profile)?],
        outstanding: method.ladder.clone(),
        runtime: runs.shortest(),
        ramp: runs.ramp,
        confidence_percent: runs.confidence_percent,
        max_runtime: Some(runs.runtime),
        workers: runs.workers,
        area: method.area,
        destroy_data: true,
        hollow: true,
        seed: Some(seed),
        ..Settings::default()
    })
}

/// What the engine does with reads, as the controller does.
fn reads(configuration: &Configuration) -> ReadTerms {
    let ahead = configuration.controller.reads_ahead_kib;
    let most_ahead = (ahead > 0).then_some(ByteCount(ahead << 10));
    ReadTerms { read_ahead: ahead > 0, cached: configuration.modes.cached, most_ahead }
}

/// Between which marks the engine keeps what is dirty, as the controller does.
fn marks(controller: &ControllerSpec) -> Marks {
    let spec = controller.cache.as_ref().map(|cache| &cache.spec);
    let percent = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let marks =
        spec.and_then(|spec| Marks::new(percent(spec.low_mark_percent), percent(spec.high_mark_percent)));
    marks.unwrap_or_default()
}

/// One profile on one seed: a row for each number of outstanding I/Os.
///
/// # Errors
/// When the volume cannot be made, or the run cannot end.
fn run_once(
    configuration: &Configuration,
    method: &MeasuringMethod,
    runs: &Runs,
    profile: &Profile,
    seed: u64,
) -> Result<Vec<Row>> {
    let smallest = configuration.drives.iter().map(|drive| drive.capacity_bytes).min().unwrap_or(0);
    let volume = configuration.shape.geometry(configuration.strip, ByteCount(smallest))?.capacity();
    let spec = ServerSpec {
        controller: configuration.controller.clone(),
        drives: configuration.drives.clone(),
        log: configuration.write_hole.log().to_vec(),
        drive_cache: configuration.drive_cache,
        shares: method.shares,
        prepared: Prepared { random_percent: method.random_percent(profile, volume) },
        host: HostSpec { io_ns: method.host_io_ns, cores: runs.workers.into() },
        fast_path: configuration.fast_path(),
    };
    let settings = settings(method, runs, profile, seed)?;
    let options = SimOptions { seed, order: Order::Fifo, memory: MEMORY, ..SimOptions::default() };
    let mut sim = Sim::new(options);
    let (env, server) = (sim.env(), Server::new(&sim.handle(), &spec));
    let streams = match configuration.controller.mirror_runs {
        true => StreamSharing::Runs,
        false => StreamSharing::Requests,
    };
    let (shape, strip, name) = (configuration.shape, configuration.strip, configuration.name.clone());
    let (write_back, rotates) = (configuration.write_back, configuration.rotates());
    let write_hole = match &configuration.write_hole {
        WriteHole::Resync => array::WriteHole::Resync,
        WriteHole::Journal { log } if log.is_empty() => array::WriteHole::OnMembers,
        WriteHole::Journal { .. } => array::WriteHole::OnDevices(server.log()),
    };
    let (reads, read_room) = (reads(configuration), configuration.read_room());
    let marks = marks(&configuration.controller);
    let choices = Choices { streams, write_back, marks, write_hole, reads, read_room };
    let measured = sim.run(async move {
        let volume = assemble(&env, &shape, strip, server.drives(), choices).await?;
        let cached = volume.volume().clone();
        let target = Target::attached(name, server.host_port(&env, volume));
        if write_back.is_some() {
            fill_cache(&env, &target, &cached, &settings, rotates).await?;
        }
        let watch = Rc::new(Watch {
            env: env.clone(),
            server,
            looks: RefCell::default(),
            resources: RefCell::default(),
        });
        let bench = Bench::new(settings).observed_by(watch.clone()).surrounded_by(watch.clone());
        let mut measured = bench.run(&env, &target).await?;
        for (row, resources) in measured.rows.iter_mut().zip(watch.resources.take()) {
            row.resources = Some(resources);
            row.detail = None;
            // How sure it is stands beside it, and is the seeds' to say.
            row.notes.retain(|note| note.kind != NoteKind::Unsure);
        }
        Result::Ok(measured)
    });
    let measured = measured.map_err(Error::failed)??;
    match measured.ending {
        Ending::Complete => Ok(measured.rows),
        Ending::Cancelled(sentence) | Ending::Failed(sentence) => Err(Error::failed(sentence)),
    }
}

/// One profile on one seed. What a cache holds of random writes depends on how much is outstanding: each number gets a server of
/// its own. Streams go through it, the deepest first: a cache that fewer have emptied would absorb what more write.
///
/// # Errors
/// As [`run_once`].
fn run_all(
    configuration: &Configuration,
    method: &MeasuringMethod,
    runs: &Runs,
    profile: &Profile,
    seed: u64,
) -> Result<Vec<Row>> {
    let is_stream = profile.access() == Access::Sequential;
    if configuration.write_back.is_none() || !profile.writes() {
        return run_once(configuration, method, runs, profile, seed);
    }
    if is_stream {
        let mut rungs = profile.rungs(&method.ladder);
        rungs.reverse();
        let method = MeasuringMethod { ladder: Ladder::new(rungs)?, ..method.clone() };
        let mut rows = run_once(configuration, &method, runs, profile, seed)?;
        rows.reverse();
        return Ok(rows);
    }
    let mut rows = Vec::new();
    for outstanding in profile.rungs(&method.ladder) {
        let method = MeasuringMethod { ladder: Ladder::new(vec![outstanding])?, ..method.clone() };
        rows.extend(run_once(configuration, &method, runs, profile, seed)?);
    }
    Ok(rows)
}

/// One profile on several seeds: rows of means, with the intervals that the spread between the seeds gives. `ran` is
/// called after each.
///
/// # Errors
/// As [`run_once`].
pub fn simulate(
    configuration: &Configuration,
    method: &MeasuringMethod,
    runs: &Runs,
    profile: &Profile,
    ran: &(dyn Fn() + Sync),
) -> Result<Vec<Row>> {
    let seeds: Vec<u64> = (runs.seed..runs.seed + runs.seeds).collect();
    let each = parallel::each(&seeds, |seed| {
        let rows = run_all(configuration, method, runs, profile, *seed);
        ran();
        rows
    });
    let each = each.into_iter().collect::<Result<Vec<Vec<Row>>>>()?;
    let points = each.first().map_or(0, Vec::len);
    Ok((0..points)
        .filter_map(|point| {
            let rows: Vec<&Row> = each.iter().filter_map(|rows| rows.get(point)).collect();
            joined(&rows)
        })
        .collect())
}

/// The mean of several values, and how far from it the true one may be (Student's t, 95 %); `None` for one value.
fn mean(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, Some(student_t_95(count - 1.0) * (variance / count).sqrt()))
}

fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let (mean, half) = mean(values);
    half.map(|half| [(mean - half).max(0.0), mean + half])
}

/// One row for a point on several seeds.
fn joined(rows: &[&Row]) -> Option<Row> {
    let mut row = (*rows.first()?).clone();
    let of = |value: &dyn Fn(&Row) -> f64| rows.iter().map(|row| value(row)).collect::<Vec<f64>>();
    let rates = of(&|row| row.iops);
    let latencies = of(&|row| row.latency_us.map_or(0.0, |latency| latency.mean));
    row.duration_s = of(&|row| row.duration_s).iter().sum();
    row.ios = rows.iter().map(|row| row.ios).sum();
    row.errors = rows.iter().map(|row| row.errors).sum();
    row.iops = mean(&rates).0;
    row.throughput_mib_s = mean(&of(&|row| row.throughput_mib_s)).0;
    row.latency_us = joined_latency(&rows.iter().map(|row| (row.ios, row.latency_us)).collect::<Vec<_>>());
    row.read = joined_split(&rows.iter().map(|row| row.read).collect::<Vec<_>>());
    row.write = joined_split(&rows.iter().map(|row| row.write).collect::<Vec<_>>());
    row.steady_state = None;
    // What one seed says of itself stays.
    let own = rows.first().filter(|_| rows.len() == 1).and_then(|row| row.ci95);
    row.ci95 = own.or(interval(&rates).zip(interval(&latencies)).map(|(iops, latency_us_mean)| Interval95 {
        iops,
        latency_us_mean,
        ..Interval95::default()
    }));
    let names = row.resources.clone().unwrap_or_default();
    let busy = |name: &String| {
        mean(&of(&|row| row.resources.as_ref().and_then(|all| all.get(name)).copied().unwrap_or(0.0))).0
    };
    row.resources =
        Some(names.into_keys().map(|name| (name.clone(), (busy(&name) * 10.0).round() / 10.0)).collect());
    Some(row)
}

fn joined_split(splits: &[Split]) -> Split {
    let of = |value: &dyn Fn(&Split) -> f64| mean(&splits.iter().map(value).collect::<Vec<f64>>()).0;
    Split {
        ios: splits.iter().map(|split| split.ios).sum(),
        iops: of(&|split| split.iops),
        throughput_mib_s: of(&|split| split.throughput_mib_s),
        latency_us: joined_latency(
            &splits.iter().map(|split| (split.ios, split.latency_us)).collect::<Vec<_>>(),
        ),
        errors: splits.iter().map(|split| split.errors).sum(),
        ci95: None,
    }
}

/// Latencies of several seeds, each weighed by its requests; the longest of all.
fn joined_latency(parts: &[(u64, Option<Latency>)]) -> Option<Latency> {
    let parts: Vec<(f64, Latency)> =
        parts.iter().filter_map(|(ios, latency)| latency.map(|latency| (*ios as f64, latency))).collect();
    let all: f64 = parts.iter().map(|(ios, _)| ios).sum();
    if all == 0.0 {
        return None;
    }
    let of = |value: &dyn Fn(&Latency) -> f64| {
        parts.iter().map(|(ios, latency)| ios * value(latency)).sum::<f64>() / all
    };
    let known = |value: &dyn Fn(&Latency) -> Option<f64>| {
        let all_know = parts.iter().all(|(_, latency)| value(latency).is_some());
        all_know.then(|| of(&|latency| value(latency).unwrap_or_default()))
    };
    Some(Latency {
        mean: of(&|latency| latency.mean),
        p50: of(&|latency| latency.p50),
        p90: of(&|latency| latency.p90),
        p99: known(&|latency| latency.p99),
        p999: known(&|latency| latency.p999),
        max: parts.iter().map(|(_, latency)| latency.max).fold(0.0, f64::max),
    })
}
