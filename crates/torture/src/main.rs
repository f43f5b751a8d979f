//! `torture`: runs seeds, and tells the story of one.

#![allow(clippy::disallowed_methods, reason = "a binary joins a world to the engine")]

use clap::Parser;
use layout::Level;
use std::io::IsTerminal;
use std::ops::Range;
use std::process::ExitCode;
use torture::{Failed, Lie, Options, Summary, Tally};

/// Tortures the engine and the controller in virtual time: faults, crashes and power cuts at any event, and an
/// oracle that knows what every sector may hold. A run is a function of its seed.
#[derive(Parser)]
#[command(name = "torture", version)]
struct Cli {
    /// Seeds from A up to, not including, B; each is run twice
    #[arg(long, value_name = "A..B", value_parser = parse_seeds, default_value = "0..100", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// One seed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// With --seed: tell what happens, down to every drive operation
    #[arg(long, requires = "seed")]
    trace: bool,
    /// About how many requests each run sends to its volume
    #[arg(long, value_name = "N", default_value_t = Options::default().ops, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// The level of every volume, instead of one that the seed draws
    #[arg(long, value_name = "L")]
    level: Option<Level>,
    /// How many seeds to run at the same time; the machine's processors by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Make a drive lie, to see that it is noticed
    #[arg(long, value_name = "HOW")]
    lie: Option<LieName>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LieName {
    /// The first drive acknowledges flushes and does nothing
    IgnoresFlush,
    /// The first drive takes durable writes for cached ones
    IgnoresDurable,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("'{text}' is not a range of seeds; give one such as 0..100");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let range = number(start)?..number(end)?;
    if range.is_empty() { Err(format!("'{text}' holds no seed; give one such as 0..100")) } else { Ok(range) }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let lie = match cli.lie {
        None => Lie::None,
        Some(LieName::IgnoresFlush) => Lie::IgnoresFlush,
        Some(LieName::IgnoresDurable) => Lie::IgnoresDurable,
    };
    let options = Options { ops: cli.ops, level: cli.level, lie };
    if let (Some(seed), true) = (cli.seed, cli.trace) {
        return trace(seed, &options);
    }
    let seeds = cli.seed.map_or(cli.seeds.clone(), |seed| seed..seed + 1);
    let threads = cli.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let to_terminal = std::io::stderr().is_terminal();
    let begun = std::time::Instant::now();
    let summary = torture::run_all(seeds.clone(), &options, threads, |done, tally| {
        let total = seeds.end - seeds.start;
        if to_terminal {
            eprint!("\r{done} of {total} seeds, {}", in_short(tally));
        } else if done.is_multiple_of(100) {
            eprintln!("{done} of {total} seeds, {}", in_short(tally));
        }
    });
    if to_terminal {
        eprintln!();
    }
    close(&cli, &summary, begun.elapsed())
}

fn in_short(tally: &Tally) -> String {
    format!("{} requests, {} crashes", tally.ops, tally.kills + tally.power_cuts)
}

fn close(cli: &Cli, summary: &Summary, time: std::time::Duration) -> ExitCode {
    for Failed { seed, error } in &summary.failed {
        println!("seed {seed} failed after this:");
        error.story.iter().for_each(|line| println!("  {line}"));
        println!("{error}");
        println!("replay it: torture --seed {seed}{} --trace", given(cli));
    }
    let tally = &summary.tally;
    let per_minute = tally.ops as f64 * 2.0 / time.as_secs_f64().max(0.001) * 60.0;
    println!(
        "{} seeds, each twice: {} requests, {} process kills, {} power cuts, {} drive faults, {} recoveries, {} refusals, {} drives brought back, {} replaced, {} readings without drives, {} events; {} failed; {:.1} s, {per_minute:.0} requests per minute",
        summary.seeds,
        tally.ops,
        tally.kills,
        tally.power_cuts,
        tally.faults,
        tally.recoveries,
        tally.refusals,
        tally.returns,
        tally.replacements,
        tally.removals,
        tally.events,
        summary.failed.len(),
        time.as_secs_f64(),
    );
    if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The options of this call that change what a seed does.
fn given(cli: &Cli) -> String {
    let mut text = String::new();
    if cli.ops != Options::default().ops {
        text += &format!(" --ops {}", cli.ops);
    }
    if let Some(level) = cli.level {
        text += &format!(" --level {}", level.name());
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
