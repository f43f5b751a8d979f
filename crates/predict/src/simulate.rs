//! A run in virtual time: the engine for real drives, on models.

use crate::configuration::{Configuration, WriteHole};
use crate::error::{Error, Result};
use crate::filling::fill_cache;
use crate::method::MeasuringMethod;
use crate::parallel;
use crate::request::Runs;
use array::{Choices, assemble};
use engine::{Marks, ReadTerms, StreamSharing, Volume};
use models::{ControllerSpec, HostSpec, Prepared, Server, ServerSpec, striped};
use platform::{Drive, Env};
use platform_sim::{Order, Sim, SimOptions};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storagebench::{
    Access, Bench, Ending, Interval95, Ladder, Latency, NoteKind, Observer, Profile, Row, Settings,
    Snapshot, Split, Surroundings, Target, student_t_95,
};
use units::ByteCount;

/// Memory for the plans of volumes; models hold no data.
const MEMORY: ByteCount = ByteCount(1 << 30);

/// Records the utilisation of the server's resources in each window, at its start and end.
struct Watch {
    env: Env,
    servers: Vec<Server>,
    looks: RefCell<Vec<(u64, BTreeMap<String, u64>)>>,
    resources: RefCell<Vec<BTreeMap<String, f64>>>,
}

/// The busy time of each kind of resource, as the mean over the controllers.
fn busy(servers: &[Server]) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, busy_ns) in servers.iter().flat_map(Server::busy) {
        *sums.entry(name).or_default() += busy_ns;
    }
    sums.values_mut().for_each(|sum| *sum /= servers.len().max(1) as u64);
    sums
}

/// A volume of the engine, and the host's view of it.
type Seen = (Rc<Volume>, Rc<dyn Drive>);

/// A volume of the engine on a controller's drives.
async fn volume_on(env: &Env, server: &Server, configuration: &Configuration) -> Result<Seen> {
    let Configuration { shape, strip, .. } = configuration;
    let service =
        assemble(env, shape, *strip, server.drives(), choices(configuration, server)).await?;
    let volume = service.volume().clone();
    Ok((volume, server.host_port(env, service)))
}

/// The other controllers of the host: each with a processor, drives and a volume of its own.
///
/// # Errors
/// As [`run_once`].
fn others(
    sim: &mut Sim,
    first: &Server,
    spec: &ServerSpec,
    configuration: &Configuration,
) -> Result<Vec<(Server, Seen)>> {
    let mut others = Vec::new();
    for _ in 1..configuration.controllers {
        let process = sim.add_process();
        let (env, server) = (sim.env_of(process, 0), first.beside(process, spec));
        let (server, configuration) = (Rc::new(server), configuration.clone());
        let (of, at) = (server.clone(), env.clone());
        let made =
            env.spawn("controller", async move { volume_on(&at, &of, &configuration).await });
        let volume = sim.finish(&made).map_err(Error::failed)??;
        let server =
            Rc::into_inner(server).ok_or_else(|| Error::failed("a controller is in use"))?;
        others.push((server, volume));
    }
    Ok(others)
}

impl Surroundings for Watch {
    fn look(&self, _: &str) -> Snapshot {
        let mut looks = self.looks.borrow_mut();
        looks.truncate(1); // The first of the window and the latest.
        looks.push((self.env.now().ns, busy(&self.servers)));
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

/// The settings to measure one profile with one seed.
///
/// # Errors
/// When the profile does not permit the method's alignment.
fn settings(
    method: &MeasuringMethod,
    runs: &Runs,
    profile: &Profile,
    seed: u64,
) -> Result<Settings> {
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

/// The engine's read settings, to match the controller.
fn reads(configuration: &Configuration) -> ReadTerms {
    let ahead = configuration.controller.reads_ahead_kib;
    let most_ahead = (ahead > 0).then_some(ByteCount(ahead << 10));
    ReadTerms { read_ahead: ahead > 0, cached: configuration.modes.cached, most_ahead }
}

/// The engine's destage marks, to match the controller.
fn marks(controller: &ControllerSpec) -> Marks {
    let spec = controller.cache.as_ref().map(|cache| &cache.spec);
    let percent = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let marks = spec.and_then(|spec| {
        Marks::new(percent(spec.low_mark_percent), percent(spec.high_mark_percent))
    });
    marks.unwrap_or_default()
}

/// The engine's settings for this configuration on this server.
fn choices(configuration: &Configuration, server: &Server) -> Choices {
    let streams = match configuration.controller.mirror_runs {
        true => StreamSharing::Runs,
        false => StreamSharing::Requests,
    };
    let write_hole = match &configuration.write_hole {
        WriteHole::Resync => array::WriteHole::Resync,
        WriteHole::Journal { log } if log.is_empty() => array::WriteHole::OnMembers,
        WriteHole::Journal { .. } => array::WriteHole::OnDevices(server.log()),
    };
    let (reads, read_room) = (reads(configuration), configuration.read_room());
    let marks = marks(&configuration.controller);
    let (write_back, failed) = (configuration.write_back, configuration.failed);
    Choices { streams, write_back, has_bytes: false, marks, write_hole, reads, read_room, failed }
}

/// A controller with its drives, in the state that a method of measuring requires.
///
/// # Errors
/// When the volume is impossible.
fn server_spec(
    configuration: &Configuration,
    method: &MeasuringMethod,
    runs: &Runs,
    profile: &Profile,
) -> Result<ServerSpec> {
    let smallest = configuration.drives.iter().map(|drive| drive.capacity_bytes).min().unwrap_or(0);
    let volume = configuration.shape.geometry(configuration.strip, ByteCount(smallest))?.capacity();
    // The measured area spans all volumes, and each has its share.
    let all = ByteCount(volume.0 * configuration.controllers as u64);
    Ok(ServerSpec {
        controller: configuration.controller.clone(),
        drives: configuration.drives.clone(),
        log: configuration.write_hole.log().to_vec(),
        drive_cache: configuration.drive_cache,
        shares: method.shares,
        prepared: Prepared { random_percent: method.random_percent(profile, all) },
        host: HostSpec { io_ns: method.host_io_ns, cores: runs.workers.into() },
        fast_path: configuration.fast_path(),
    })
}

/// One profile with one seed: a row for each number of outstanding I/Os.
///
/// # Errors
/// When the volume cannot be created, or the run cannot end.
fn run_once(
    configuration: &Configuration,
    method: &MeasuringMethod,
    runs: &Runs,
    profile: &Profile,
    seed: u64,
) -> Result<Vec<Row>> {
    let spec = server_spec(configuration, method, runs, profile)?;
    let settings = settings(method, runs, profile, seed)?;
    let options = SimOptions { seed, order: Order::Fifo, memory: MEMORY, ..SimOptions::default() };
    let mut sim = Sim::new(options);
    let (env, server) = (sim.env(), Server::new(&sim.handle(), &spec));
    let others = others(&mut sim, &server, &spec, configuration)?;
    let (steps, cancel) = (steps(configuration, profile, settings)?, runs.cancel.clone());
    let configuration = configuration.clone();
    let measured = sim.run(async move {
        let first = volume_on(&env, &server, &configuration).await?;
        let (beside, volumes): (Vec<Server>, Vec<_>) = others.into_iter().unzip();
        let servers: Vec<Server> = std::iter::once(server).chain(beside).collect();
        let (cached, ports): (Vec<_>, Vec<_>) = std::iter::once(first).chain(volumes).unzip();
        let drive = striped(&env, ports).ok_or_else(|| Error::failed("there is no controller"))?;
        let target = Target::attached(configuration.name.clone(), drive);
        let watch = Rc::new(Watch {
            env: env.clone(),
            servers,
            looks: RefCell::default(),
            resources: RefCell::default(),
        });
        let mut rows = Vec::new();
        for settings in steps {
            if configuration.write_back.is_some() {
                fill_cache(&env, &target, &cached, (&settings, &cancel), configuration.rotates())
                    .await?;
            }
            let bench = Bench::new(settings)
                .observed_by(watch.clone())
                .surrounded_by(watch.clone())
                .cancelled_by(cancel.clone());
            let measured = bench.run(&env, &target).await?;
            match measured.ending {
                Ending::Complete => rows.extend(measured.rows),
                Ending::Cancelled(sentence) | Ending::Failed(sentence) => {
                    return Err(Error::failed(sentence));
                }
            }
        }
        for (row, resources) in rows.iter_mut().zip(watch.resources.take()) {
            row.resources = Some(resources);
            row.detail = None;
            // The seeds determine the confidence, which is a separate value.
            row.notes.retain(|note| note.kind != NoteKind::Unsure);
        }
        Result::Ok(rows)
    });
    measured.map_err(Error::failed)?
}

/// Whether a cache holds a profile's random writes: its content depends on the outstanding I/Os.
fn is_refilled(configuration: &Configuration, profile: &Profile) -> bool {
    configuration.write_back.is_some() && profile.writes() && profile.access() != Access::Sequential
}

/// The sequences of measurements on one server, each after the cache has reached its steady state
/// under that load. All depths run in one sequence; or each is a step, if the cache holds more at
/// each. A step that continues from the previous one has less to fill.
///
/// # Errors
/// None in practice: the depths are valid.
fn steps(
    configuration: &Configuration,
    profile: &Profile,
    settings: Settings,
) -> Result<Vec<Settings>> {
    /// The distance between the seeds of depths, larger than that of the fill runs. Rewriting the
    /// same blocks makes no data dirty.
    const APART: u64 = 1 << 40;
    if !is_refilled(configuration, profile) {
        return Ok(vec![settings]);
    }
    let rungs = profile.rungs(&settings.outstanding);
    let step = |(number, outstanding): (u64, u32)| {
        let seed = settings.seed.map(|seed| seed + number * APART);
        Ok(Settings { outstanding: Ladder::new(vec![outstanding])?, seed, ..settings.clone() })
    };
    (0..).zip(rungs).map(step).collect()
}

/// One profile with one seed. Random loads run in the order of increasing cache content; streams
/// run with the deepest queue first. A cache that a lower depth has emptied would acknowledge the
/// writes of a higher one from memory.
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
    if configuration.write_back.is_none() || !profile.writes() {
        return run_once(configuration, method, runs, profile, seed);
    }
    let asked = profile.rungs(&method.ladder);
    let mut rungs = asked.clone();
    rungs.sort_unstable();
    rungs.dedup();
    if !is_refilled(configuration, profile) {
        rungs.reverse();
    }
    let method = MeasuringMethod { ladder: Ladder::new(rungs.clone())?, ..method.clone() };
    let rows = run_once(configuration, &method, runs, profile, seed)?;
    let row_of = |outstanding: &u32| {
        let at = rungs.iter().position(|rung| rung == outstanding)?;
        rows.get(at).cloned()
    };
    Ok(asked.iter().filter_map(row_of).collect())
}

/// One profile with several seeds: rows of means, with intervals from the spread between seeds.
/// `ran` is called after each run.
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

/// The mean of several values, and its 95 % interval (Student's t); `None` for one value.
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
    row.latency_us =
        joined_latency(&rows.iter().map(|row| (row.ios, row.latency_us)).collect::<Vec<_>>());
    row.read = joined_split(&rows.iter().map(|row| row.read).collect::<Vec<_>>());
    row.write = joined_split(&rows.iter().map(|row| row.write).collect::<Vec<_>>());
    row.steady_state = None;
    // With one seed, its own interval remains.
    let own = rows.first().filter(|_| rows.len() == 1).and_then(|row| row.ci95);
    row.ci95 = own.or(interval(&rates).zip(interval(&latencies)).map(|(iops, latency_us_mean)| {
        Interval95 { iops, latency_us_mean, ..Interval95::default() }
    }));
    let names = row.resources.clone().unwrap_or_default();
    let busy = |name: &String| {
        mean(&of(&|row| {
            row.resources.as_ref().and_then(|all| all.get(name)).copied().unwrap_or(0.0)
        }))
        .0
    };
    row.resources = Some(
        names.into_keys().map(|name| (name.clone(), (busy(&name) * 10.0).round() / 10.0)).collect(),
    );
    Some(row)
}

fn joined_split(splits: &[Split]) -> Split {
    let of =
        |value: &dyn Fn(&Split) -> f64| mean(&splits.iter().map(value).collect::<Vec<f64>>()).0;
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

/// Latencies of several seeds, weighted by requests; the maximum of all.
fn joined_latency(parts: &[(u64, Option<Latency>)]) -> Option<Latency> {
    let parts: Vec<(f64, Latency)> = parts
        .iter()
        .filter_map(|(ios, latency)| latency.map(|latency| (*ios as f64, latency)))
        .collect();
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
