//! `torture`: runs seeds, and tells the story of one.

#![allow(clippy::disallowed_methods, reason = "a binary joins a world to the engine")]

use clap::Parser;
use layout::Level;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::ops::Range;
use std::process::ExitCode;
use torture::{
    Deed, Failed, Larger, Lie, Log, Logged, Migrations, Neighbour, Options, Reads, RequestName, Summary,
    Tally, Times, Without, WriteHole,
};

/// Tortures the engine and the controller in virtual time: faults, crashes and power cuts at any event, and an
/// oracle that knows what every sector may hold. A run is a function of its seed.
#[derive(Parser)]
#[command(name = "torture", version)]
struct Cli {
    /// Seeds from A up to, not including, B; each is run twice, and the two must agree
    #[arg(long, value_name = "A..B", value_parser = parse_seeds, default_value = "0..100", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// Run each seed once: twice as many in the time
    #[arg(long)]
    once: bool,
    /// Seeds from the first of --seeds on, for so long
    #[arg(long, value_name = "N", conflicts_with = "seed")]
    hours: Option<f64>,
    /// One seed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// With --seed: tell what happens, down to every drive operation
    #[arg(long, requires = "seed")]
    trace: bool,
    /// How many requests each run sends to its volume, at least
    #[arg(long, value_name = "N", default_value_t = Options::default().ops, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// A level to draw from; more of them if it is given more than once; all if it is not
    #[arg(long = "level", value_name = "L")]
    levels: Vec<Level>,
    /// Whether volumes with parity keep a journal; two thirds of the seeds do if it is not said
    #[arg(long, value_name = "HOW")]
    write_hole: Option<WriteHoleName>,
    /// Answer writes from a cache, in memory that outlives the process: a power cut takes what was not flushed
    #[arg(long)]
    write_back: bool,
    /// Whether it does so only when a log device has them, where there is one: a power cut takes none of those
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    logged: LoggedName,
    /// Whether a second volume is beside the first one, on the same drives or on others
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    neighbour: NeighbourName,
    /// Whether journals may lie on log devices
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    log: LogName,
    /// Whether what was read is kept, and streams are read ahead
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    reads: ReadsName,
    /// Whether the volume goes to other levels, to more drives or to another strip
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    migrations: MigrationsName,
    /// Whether drives become larger while they are used, and volumes on them
    #[arg(long, value_name = "WHEN", default_value = "drawn")]
    larger: LargerName,
    /// Leave lives out, by their numbers
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    without_lives: Vec<u64>,
    /// Leave faults and operators' actions out, by their numbers in the story
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    without_incidents: Vec<u64>,
    /// Send these requests and no others, by their names in the story: LIFE.WORKER.NUMBER or LIFE.WORKER.FIRST-LAST
    #[arg(long, value_name = "NAME,...", value_parser = parse_requests)]
    only_requests: Option<Requests>,
    /// Do not look at copies of the drives after crashes
    #[arg(long)]
    without_inquests: bool,
    /// How many seeds to run at the same time; the machine's processors by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Of a seed that fails, look for the shortest history that does, in at most so many runs; 0: do not
    #[arg(long, value_name = "RUNS", default_value_t = 300)]
    shrink: u64,
    /// Say how often what happened, by level
    #[arg(long)]
    coverage: bool,
    /// Make a drive lie, to see that it is noticed
    #[arg(long, value_name = "HOW")]
    lie: Option<LieName>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WriteHoleName {
    /// They do: drives may be lost together with a crash
    Journal,
    /// They do not
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
    /// In a quarter of the runs whose volume can be moved
    Drawn,
    /// In every run whose volume can be moved
    Always,
    /// As well, each move as soon as the one before has ended: to more first, and to less in the end
    AtOnce,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LargerName {
    /// In no run
    Never,
    /// In a third of the runs in which volumes go to other layouts
    Drawn,
    /// In every run in which they can
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
    /// The first drive acknowledges flushes and does nothing
    IgnoresFlush,
    /// The first drive takes durable writes for cached ones
    IgnoresDurable,
}

/// Requests that were named.
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
    if range.is_empty() { Err(format!("'{text}' holds no seed; give one such as 0..100")) } else { Ok(range) }
}

/// What a call asks of each run.
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
    let until = cli.hours.map(|hours| std::time::Duration::from_secs_f64(hours.clamp(0.0, 1e6) * 3600.0));
    if until.is_some() {
        seeds.end = u64::MAX;
    }
    let threads = cli.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
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
    format!("{} requests, {} crashes", tally.ops, tally.of(Deed::Kill) + tally.of(Deed::PowerCut))
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
        volumes => format!(" and {} to {volumes} volumes beside", summary.neighbours.ops),
    };
    let per_minute = tally.ops as f64 * times / time.as_secs_f64().max(0.001) * 60.0;
    println!(
        "{} seeds, each {each}: {} requests{}, {} crashes, {} copies looked at, {} checks, {} readings without drives, {} events; {} failed; {:.1} s, {per_minute:.0} requests per minute",
        summary.seeds,
        tally.ops,
        beside,
        tally.of(Deed::Kill) + tally.of(Deed::PowerCut),
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
            "shrunk in {} runs to {requests} requests and {incidents} faults and operators' actions; as drawn it fails so: {error}",
            shrunk.runs
        );
    }
    println!(
        "replay it: torture --seed {seed}{}{} --trace",
        given(cli, options),
        options.without.arguments()
    );
}

/// How often what happened: a column for each level of the volumes that runs were about, and one for all volumes beside them.
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
    Deed::ALL.into_iter().for_each(|deed| row(deed.name(), &|tally| tally.of(deed)));
    row("volumes", &|tally| tally.volumes);
    row("volume create", &|tally| tally.created);
    row("volume delete", &|tally| tally.deleted);
    row("volume set --write-mode", &|tally| tally.write_modes);
    row("writes that a log promised", &|tally| tally.logged);
    row("volume set --read-mode", &|tally| tally.read_modes);
    row("migrations begun", &|tally| tally.moves);
    row("migrations with a neighbour", &|tally| tally.moves_along);
    row("migrations done", &|tally| tally.moved);
    row("migrations done, last byte first", &|tally| tally.moved_down);
    row("drives made larger", &|tally| tally.larger);
    row("drive rescan, all of it used", &|tally| tally.rescanned);
    row("volume expand in place", &|tally| tally.grown);
    row("requests", &|tally| tally.ops);
    row("starts", &|tally| tally.recoveries);
    row("checks", &|tally| tally.checks);
}

/// The options of this call that change what a seed does, but for what is left out.
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
            println!("seed {seed} is fine after {} events, hash {:016x}", report.tally.events, report.hash);
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("seed {seed} failed: {error}");
            ExitCode::FAILURE
        }
    }
}
