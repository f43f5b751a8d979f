//! `torture`: runs seeds, or traces one.

#![allow(clippy::disallowed_methods, reason = "a binary joins a world to the engine")]

use clap::Parser;
use layout::Level;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::ops::Range;
use std::process::ExitCode;
use torture::{
    Event, Failed, Larger, Lie, Log, Logged, Migrations, Neighbour, Options, Reads, RequestName,
    Summary, Tally, Times, Without, WriteHole,
};

/// Tests the engine and the controller in virtual time, with faults, crashes and power cuts at any
/// event, and an oracle that knows the allowed values of every sector. A run is a function of its
/// seed.
#[derive(Parser)]
#[command(name = "torture", version)]
struct Cli {
    /// Seeds from A up to, not including, B; each runs twice, and both runs must be the same
    #[arg(
        long,
        value_name = "A..B",
        value_parser = parse_seeds,
        default_value = "0..100",
        conflicts_with = "seed"
    )]
    seeds: Range<u64>,
    /// Run each seed once, without the determinism check
    #[arg(long)]
    once: bool,
    /// Run seeds from the first of --seeds for this many hours
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    hours: Option<f64>,
    /// One seed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// With --seed: print each event, including every drive operation
    #[arg(long, requires = "seed")]
    trace: bool,
    /// The minimum number of requests per run
    #[arg(
        long,
        value_name = "N",
        default_value_t = Options::default().ops,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    ops: u64,
    /// A level to draw from; may be given several times; default: all
    #[arg(long = "level", value_name = "L")]
    levels: Vec<Level>,
    /// How volumes with parity close the write hole; default: two thirds of the seeds use a journal
    #[arg(long, value_name = "HOW")]
    write_hole: Option<WriteHoleName>,
    /// Use a write-back cache in memory that survives the process; a power cut loses unflushed
    /// writes
    #[arg(long)]
    write_back: bool,
    /// Whether the cache acknowledges writes only when a log device has them; these writes survive
    /// a power cut
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    logged: LoggedName,
    /// Whether there is a second volume, on the same drives or on others
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    neighbour: NeighbourName,
    /// Whether there are log devices
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    log: LogName,
    /// Whether to use the read cache and read-ahead
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    reads: ReadsName,
    /// Whether the volume is reshaped: to other levels, more drives or another strip
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    migrations: MigrationsName,
    /// Whether drives become larger in use, and volumes on them expand
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    larger: LargerName,
    /// Omit lives, by their numbers
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    without_lives: Vec<u64>,
    /// Omit faults and operator actions, by their numbers in the story
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    without_incidents: Vec<u64>,
    /// Send only these requests, by their names in the story: LIFE.WORKER.NUMBER or
    /// LIFE.WORKER.FIRST-LAST
    #[arg(long, value_name = "NAME,...", value_parser = parse_requests)]
    only_requests: Option<Requests>,
    /// Do not check copies of the drives after crashes
    #[arg(long)]
    without_inquests: bool,
    /// The number of seeds to run at the same time; default: the number of processors
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Shorten the history of a failed seed, in at most this many runs; 0: do not
    #[arg(long, value_name = "RUNS", default_value_t = 300)]
    shrink: u64,
    /// Print the number of events by level
    #[arg(long)]
    coverage: bool,
    /// Make a drive lie, to check that the oracle notices
    #[arg(long, value_name = "HOW")]
    lie: Option<LieName>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WriteHoleName {
    /// A journal: drives may be lost together with a crash
    Journal,
    /// A resync after a crash
    Resync,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum NeighbourName {
    /// In no run
    Never,
    /// In a third of the runs, with --write-back in half of them
    Drawn,
    /// In every run
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LoggedName {
    /// In no run
    Never,
    /// In a third of the runs
    Drawn,
    /// In every run
    Always,
}

impl From<LoggedName> for Logged {
    fn from(name: LoggedName) -> Logged {
        match name {
            LoggedName::Never => Logged::Never,
            LoggedName::Drawn => Logged::Drawn,
            LoggedName::Always => Logged::Always,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogName {
    /// In no run
    Never,
    /// In a quarter of the runs whose level has parity
    Drawn,
    /// In every run
    Always,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ReadsName {
    /// In no run
    Never,
    /// In half of the runs
    Drawn,
    /// In every run, unless a drive lies
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MigrationsName {
    /// In no run
    Never,
    /// In a quarter of the runs whose volume can be reshaped
    Drawn,
    /// In every run whose volume can be reshaped
    Always,
    /// Like always, each reshape as soon as the last one has ended; the last one shrinks
    AtOnce,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LargerName {
    /// In no run
    Never,
    /// In a third of the runs with reshapes
    Drawn,
    /// In every run that supports it
    Always,
}

impl From<LargerName> for Larger {
    fn from(name: LargerName) -> Larger {
        match name {
            LargerName::Never => Larger::Never,
            LargerName::Drawn => Larger::Drawn,
            LargerName::Always => Larger::Always,
        }
    }
}

impl From<MigrationsName> for Migrations {
    fn from(name: MigrationsName) -> Migrations {
        match name {
            MigrationsName::Never => Migrations::Never,
            MigrationsName::Drawn => Migrations::Drawn,
            MigrationsName::Always => Migrations::Always,
            MigrationsName::AtOnce => Migrations::AtOnce,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LieName {
    /// The first drive acknowledges flushes without effect
    IgnoresFlush,
    /// The first drive handles durable writes as cached ones
    IgnoresDurable,
}

/// The selected requests.
#[derive(Clone)]
struct Requests(BTreeSet<RequestName>);

fn parse_requests(text: &str) -> Result<Requests, String> {
    torture::parse_requests(text).map(Requests)
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("'{text}' is not a range of seeds; give one such as 0..100");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let range = number(start)?..number(end)?;
    if range.is_empty() {
        Err(format!("'{text}' holds no seed; give one such as 0..100"))
    } else {
        Ok(range)
    }
}

/// The options of the run.
fn options_of(cli: &Cli) -> Options {
    let lie = match cli.lie {
        None => Lie::None,
        Some(LieName::IgnoresFlush) => Lie::IgnoresFlush,
        Some(LieName::IgnoresDurable) => Lie::IgnoresDurable,
    };
    let without = Without {
        lives: cli.without_lives.iter().copied().collect(),
        incidents: cli.without_incidents.iter().copied().collect(),
        all_requests_but: cli.only_requests.clone().map(|requests| requests.0),
        inquests: cli.without_inquests,
    };
    let write_hole = cli.write_hole.map(|name| match name {
        WriteHoleName::Journal => WriteHole::Journal,
        WriteHoleName::Resync => WriteHole::Resync,
    });
    let (levels, write_back) = (cli.levels.clone(), cli.write_back);
    let neighbour = match cli.neighbour {
        NeighbourName::Never => Neighbour::Never,
        NeighbourName::Drawn => Neighbour::Drawn,
        NeighbourName::Always => Neighbour::Always,
    };
    let logged = cli.logged.into();
    let log = match cli.log {
        LogName::Never => Log::Never,
        LogName::Drawn => Log::Drawn,
        LogName::Always => Log::Always,
    };
    let reads = match cli.reads {
        ReadsName::Never => Reads::Never,
        ReadsName::Drawn => Reads::Drawn,
        ReadsName::Always => Reads::Always,
    };
    let (ops, migrations, larger) = (cli.ops, cli.migrations.into(), cli.larger.into());
    Options {
        ops,
        levels,
        lie,
        write_hole,
        write_back,
        logged,
        neighbour,
        log,
        reads,
        migrations,
        larger,
        without,
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    engine::VolumeState::check_each_change();
    let times = if cli.once { Times::Once } else { Times::Twice };
    let options = options_of(&cli);
    if let (Some(seed), true) = (cli.seed, cli.trace) {
        return trace(seed, &options);
    }
    let mut seeds = cli.seed.map_or(cli.seeds.clone(), |seed| seed..seed + 1);
    let until =
        cli.hours.map(|hours| std::time::Duration::from_secs_f64(hours.clamp(0.0, 1e6) * 3600.0));
    if until.is_some() {
        seeds.end = u64::MAX;
    }
    let threads =
        cli.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let to_terminal = std::io::stderr().is_terminal();
    let begun = std::time::Instant::now();
    let summary = torture::run_all(seeds, &options, times, threads, |done, tally| {
        if to_terminal {
            eprint!("\r{done} seeds, {}", in_short(tally));
        } else if done.is_multiple_of(100) {
            eprintln!("{done} seeds, {}", in_short(tally));
        }
        until.is_none_or(|until| begun.elapsed() < until)
    });
    if to_terminal {
        eprintln!();
    }
    close(&cli, &options, &summary, begun.elapsed())
}

fn in_short(tally: &Tally) -> String {
    format!("{} requests, {} crashes", tally.ops, tally.of(Event::Kill) + tally.of(Event::PowerCut))
}

fn close(cli: &Cli, options: &Options, summary: &Summary, time: std::time::Duration) -> ExitCode {
    for failed in &summary.failed {
        tell_failure(cli, options, failed);
    }
    if cli.coverage {
        tell_coverage(summary);
    }
    let tally = &summary.tally;
    let (times, each) = if cli.once { (1.0, "once") } else { (2.0, "twice") };
    let beside = match summary.neighbours.volumes {
        0 => String::new(),
        volumes => format!(" and {} to {volumes} neighbours", summary.neighbours.ops),
    };
    let per_minute = tally.ops as f64 * times / time.as_secs_f64().max(0.001) * 60.0;
    println!(
        "{} seeds, each {each}: {} requests{}, {} crashes, {} copies checked, {} checks, \
         {} reads without drives, {} events; {} failed; {:.1} s, {per_minute:.0} requests per \
         minute",
        summary.seeds,
        tally.ops,
        beside,
        tally.of(Event::Kill) + tally.of(Event::PowerCut),
        tally.inquests,
        tally.checks,
        tally.removals,
        tally.events,
        summary.failed.len(),
        time.as_secs_f64(),
    );
    if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell_failure(cli: &Cli, options: &Options, failed: &Failed) {
    let Failed { seed, error } = failed;
    let shrunk = match cli.shrink {
        0 => None,
        runs => torture::shrink(*seed, options, runs),
    };
    println!("seed {seed} failed after this:");
    let (told, options) = match &shrunk {
        Some(shrunk) => (&shrunk.error, &shrunk.options),
        None => (error, options),
    };
    told.story.iter().for_each(|line| println!("  {line}"));
    println!("{told}");
    if let Some(shrunk) = &shrunk {
        let (requests, incidents) = shrunk.left;
        println!(
            "shrunk in {} runs to {requests} requests and {incidents} faults and operator actions; \
             original error: {error}",
            shrunk.runs
        );
    }
    println!(
        "replay it: torture --seed {seed}{}{} --trace",
        given(cli, options),
        options.without.arguments()
    );
}

/// Prints the number of events: a column for each level of the first volumes, and one for all
/// neighbours.
fn tell_coverage(summary: &Summary) {
    let columns: Vec<&Tally> = summary.levels.values().chain([&summary.neighbours]).collect();
    print!("{:<30}", "");
    summary.levels.keys().for_each(|level| print!("{:>9}", level.name()));
    println!("{:>10}", "neighbour");
    let row = |name: &str, count: &dyn Fn(&Tally) -> u64| {
        print!("{name:<30}");
        columns.iter().for_each(|tally| print!("{:>9}", count(tally)));
        println!();
    };
    Event::ALL.into_iter().for_each(|event| row(event.name(), &|tally| tally.of(event)));
    row("volumes", &|tally| tally.volumes);
    row("volume create", &|tally| tally.created);
    row("volume delete", &|tally| tally.deleted);
    row("volume set --write-mode", &|tally| tally.write_modes);
    row("writes logged before the ack", &|tally| tally.logged);
    row("volume set --read-mode", &|tally| tally.read_modes);
    row("reshapes begun", &|tally| tally.moves);
    row("reshapes with a neighbour", &|tally| tally.moves_along);
    row("reshapes done", &|tally| tally.moved);
    row("reshapes done, last byte first", &|tally| tally.moved_down);
    row("drives made larger", &|tally| tally.larger);
    row("drive rescan done", &|tally| tally.rescanned);
    row("volume expand in place", &|tally| tally.grown);
    row("requests", &|tally| tally.ops);
    row("requests without a task", &|tally| tally.taskless);
    row("starts", &|tally| tally.recoveries);
    row("checks", &|tally| tally.checks);
}

/// The options of this call that change a seed's run, without the omissions.
fn given(cli: &Cli, options: &Options) -> String {
    let mut text = String::new();
    if cli.ops != Options::default().ops {
        text += &format!(" --ops {}", cli.ops);
    }
    for level in &cli.levels {
        text += &format!(" --level {}", level.name());
    }
    match cli.write_hole {
        None => {}
        Some(WriteHoleName::Journal) => text += " --write-hole journal",
        Some(WriteHoleName::Resync) => text += " --write-hole resync",
    }
    if cli.write_back {
        text += " --write-back";
    }
    match options.logged {
        Logged::Never => text += " --logged never",
        Logged::Drawn => {}
        Logged::Always => text += " --logged always",
    }
    match options.neighbour {
        Neighbour::Never => text += " --neighbour never",
        Neighbour::Drawn => {}
        Neighbour::Always => text += " --neighbour always",
    }
    match options.reads {
        Reads::Never => text += " --reads never",
        Reads::Drawn => {}
        Reads::Always => text += " --reads always",
    }
    match options.migrations {
        Migrations::Never => text += " --migrations never",
        Migrations::Drawn => {}
        Migrations::Always => text += " --migrations always",
        Migrations::AtOnce => text += " --migrations at-once",
    }
    match options.larger {
        Larger::Never => text += " --larger never",
        Larger::Drawn => {}
        Larger::Always => text += " --larger always",
    }
    match options.log {
        Log::Never => text += " --log never",
        Log::Drawn => {}
        Log::Always => text += " --log always",
    }
    match cli.lie {
        None => {}
        Some(LieName::IgnoresFlush) => text += " --lie ignores-flush",
        Some(LieName::IgnoresDurable) => text += " --lie ignores-durable",
    }
    text
}

fn trace(seed: u64, options: &Options) -> ExitCode {
    match torture::run(seed, options, true) {
        Ok(report) => {
            println!(
                "seed {seed} is fine after {} events, hash {:016x}",
                report.tally.events, report.hash
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("seed {seed} failed: {error}");
            ExitCode::FAILURE
        }
    }
}
