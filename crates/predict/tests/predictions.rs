//! Properties of predictions, through the public API.

use layout::Level;
use models::Catalog;
use predict::{
    Configuration, ErrorKind, MeasuringMethod, MethodName, Policies, Progress, Request, Result,
    Runs, bottleneck, parse_drives, predict,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storagebench::Row;
use units::{ByteCount, StripSize};

fn configuration(controller: &str, drives: &str, level: Level) -> Result<Configuration> {
    with(controller, drives, level, None, &Policies::default())
}

fn with(
    controller: &str,
    drives: &str,
    level: Level,
    strip: Option<u64>,
    policies: &Policies,
) -> Result<Configuration> {
    let catalog = Catalog::builtin();
    let controller = catalog.controller(controller)?;
    let drives = parse_drives(catalog, drives)?;
    let shape = Configuration::shape(level, drives.len(), None)?;
    let strip = strip.map(|kib| StripSize::new(ByteCount(kib << 10)).unwrap());
    Configuration::new(controller, drives, shape, strip, policies)
}

fn request(
    configuration: &Configuration,
    profile: &str,
    ladder: &str,
    ms: u64,
    seed: u64,
) -> Request {
    let mut method =
        MeasuringMethod::of(MethodName::Fujitsu2016, configuration.drives.len()).unwrap();
    method.ladder = ladder.parse().unwrap();
    let runs = Runs {
        runtime: Duration::from_millis(ms),
        confidence_percent: None,
        ramp: Duration::from_millis(ms / 4),
        workers: 1,
        seed,
        seeds: 1,
        cancel: Arc::default(),
    };
    let profiles = vec![profile.parse().unwrap()];
    Request { configuration: configuration.clone(), method, profiles, runs }
}

fn rows(
    configuration: &Configuration,
    profile: &str,
    ladder: &str,
    ms: u64,
    seed: u64,
) -> Vec<Row> {
    predict(&request(configuration, profile, ladder, ms, seed), &|_| {}).unwrap().rows
}

#[test]
fn latency_times_rate_is_what_is_outstanding() {
    for (controller, drives, level, ms) in [
        ("LSI2008", "4xSAS-6G-HDD", Level::Raid10, 10_000),
        ("CP400i", "4xSAS-12G-SSD", Level::Raid5, 60),
        ("C220", "2xSATA-6G-SSD", Level::Raid1, 200),
    ] {
        let configuration = configuration(controller, drives, level).unwrap();
        for row in rows(&configuration, "database", "1,16,64", ms, 1) {
            let outstanding = row.iops * row.latency_us.unwrap().mean / 1e6;
            let off = outstanding / f64::from(row.outstanding) - 1.0;
            assert!(off.abs() < 0.03, "{controller} at {}: {outstanding:.2}", row.outstanding);
        }
    }
}

#[test]
fn rates_rise_with_depth_or_a_resource_is_busy() {
    let configuration = configuration("CP400i", "4xSAS-12G-SSD", Level::Raid10).unwrap();
    let rows = rows(&configuration, "database", "1,4,16,64,256", 60, 1);
    assert!(rows.windows(2).all(|pair| pair[1].iops > pair[0].iops * 0.98));
    let resources = rows.last().unwrap().resources.as_ref().unwrap();
    assert!(resources.values().any(|busy| *busy > 95.0), "{resources:?}");
}

#[test]
fn the_same_seed_gives_the_same_figures_to_the_last_digit() {
    for (drives, level, ms) in
        [("4xSAS-6G-HDD", Level::Raid10, 3000), ("4xSAS-12G-SSD", Level::Raid5, 40)]
    {
        let configuration = configuration("CP400i", drives, level).unwrap();
        let run = |seed| rows(&configuration, "file-server", "1,16", ms, seed);
        assert_eq!(run(7), run(7));
        assert_ne!(run(7)[1].iops, run(8)[1].iops);
    }
}

#[test]
fn several_seeds_give_means_and_intervals() {
    let configuration = configuration("direct", "SAS-6G-HDD", Level::Jbod).unwrap();
    let asked = |seed, seeds| {
        let mut request = request(&configuration, "database", "8", 4000, seed);
        request.method = MeasuringMethod::of(MethodName::Fujitsu2013, 1).unwrap();
        request.method.ladder = "8".parse().unwrap();
        request.runs.seeds = seeds;
        let done = AtomicU64::new(0);
        let count = |progress: Progress<'_>| {
            done.fetch_add(u64::from(progress == Progress::OneDone), Ordering::Relaxed);
        };
        let row = predict(&request, &count).unwrap().rows.remove(0);
        assert_eq!(done.into_inner(), request.simulations());
        row
    };
    let joined = asked(3, 3);
    let each: Vec<f64> = (3..6).map(|seed| asked(seed, 1).iops).collect();
    assert!((joined.iops - each.iter().sum::<f64>() / 3.0).abs() < 1e-6);
    let [low, high] = joined.ci95.unwrap().iops;
    assert!(
        low < joined.iops
            && joined.iops < high
            && each.iter().all(|iops| (low..high).contains(iops))
    );
}

fn with_cache(level: Level, mib: u64) -> Configuration {
    let policies = Policies { write_back: Some(ByteCount(mib << 20)), ..Policies::default() };
    with("CP400i", "4xSAS-6G-HDD", level, None, &policies).unwrap()
}

/// A host that writes a stream with one outstanding I/O waits for the drives at each I/O, and RAID
/// 5 needs a read-modify-write each time. With a cache the host does not wait, and the drives get
/// full stripes.
#[test]
fn a_cache_makes_whole_stripes_of_small_writes() {
    let rate =
        |configuration: &Configuration| rows(configuration, "restore", "1", 4_000, 1)[0].iops;
    let without = rate(&configuration("CP400i", "4xSAS-6G-HDD", Level::Raid5).unwrap());
    let (raid0, raid5) = (rate(&with_cache(Level::Raid0, 64)), rate(&with_cache(Level::Raid5, 64)));
    assert!(raid5 > 15.0 * without, "{raid5:.0} IO/s, and {without:.0} without a cache");
    let share = raid5 / raid0;
    assert!(
        (0.7..0.85).contains(&share),
        "{share:.2} of what RAID 0 writes, on three of four drives"
    );
}

/// A measurement that ends while the cache fills shows the speed of memory. It therefore begins
/// with a cache that is full to its mark, where new writes wait for destaging.
#[test]
fn a_cache_does_not_fill_while_it_is_measured() {
    let random = |mib| {
        rows(&with_cache(Level::Raid5, mib), "100%random,100%write,8k", "16", 20_000, 1)[0].iops
    };
    let (small, large) = (random(64), random(128));
    assert!(large < 1.5 * small, "{small:.0} IO/s with 64 MiB, {large:.0} with 128");
    assert!(
        large < 2_000.0,
        "{large:.0} IO/s: four disks write 8 KiB at RAID 5 no faster, in whatever order"
    );
}

#[test]
fn a_cache_that_is_too_small_is_refused() {
    let policies = Policies { write_back: Some(ByteCount(1 << 20)), ..Policies::default() };
    let refused = with("CP400i", "4xSAS-6G-HDD", Level::Raid5, None, &policies).unwrap_err();
    assert!(
        refused.sentence.contains("64 MiB") && refused.sentence.contains("--cache"),
        "{refused}"
    );
}

/// Data of a failed drive are reconstructed from the others: more I/O per read, and fewer reads.
#[test]
fn a_volume_that_lacks_a_drive_reads_less() {
    let whole = configuration("HBA", "4xSAS-6G-HDD", Level::Raid5).unwrap();
    let rate = |server: &Configuration| rows(server, "random-read", "16", 2000, 1)[0].iops;
    let degraded = whole.clone().without(&[1]).unwrap();
    assert_eq!(degraded.name, "HBA, 4xSAS-6G-HDD, raid5, without drive 1");
    let (all, fewer) = (rate(&whole), rate(&degraded));
    // A quarter of the reads needs three drives instead of one, and three of four drives are left.
    assert!(fewer < 0.7 * all && fewer > 0.3 * all, "{all} and {fewer}");
    for (slots, why) in
        [(&[4][..], "there is no slot 4"), (&[0, 1], "does not survive the loss of drives 0 and 1")]
    {
        let error = whole.clone().without(slots).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// A cancelled prediction ends soon, and reports it.
#[test]
fn one_that_is_stopped_ends_with_a_sentence() {
    let server = configuration("HBA", "4xSAS-6G-HDD", Level::Raid5).unwrap();
    // Days of virtual time: without the cancellation, this test would not end.
    let request = request(&server, "database", "1..64", 1_000_000_000, 1);
    request.runs.cancel.store(true, Ordering::Relaxed);
    let error = predict(&request, &|_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Failed);
    assert!(error.to_string().contains("stopped"), "{error}");
}

/// Regression: a cancelled prediction continued until its cache was full, which took minutes.
#[test]
fn one_that_is_stopped_fills_no_cache() {
    let policies = Policies { write_back: Some(ByteCount(64 << 20)), ..Policies::default() };
    let server = with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &policies).unwrap();
    for load in ["random-write", "database"] {
        let request = request(&server, load, "1", 1000, 1);
        request.runs.cancel.store(true, Ordering::Relaxed);
        let error = predict(&request, &|_| {}).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Failed);
        // The measurement itself, which needs a full cache, did not begin.
        assert!(error.to_string().starts_with("while the cache was filled: "), "{error}");
        assert!(error.to_string().contains("stopped"), "{error}");
    }
}

/// The measured data lie on the drives of all controllers. Regression: for two controllers with
/// eight drives each, the paper's method measured the area for eight drives instead of sixteen.
#[test]
fn controllers_of_one_host_are_measured_as_one() {
    let one = configuration("LSI2008", "8xSAS-6G-HDD", Level::Raid0).unwrap();
    assert_eq!(one.all_drives(), 8);
    let two = one.on_controllers(2).unwrap();
    assert_eq!(two.all_drives(), 16);
    let area = |drives| MeasuringMethod::of(MethodName::Fujitsu2013, drives).unwrap().area;
    assert_ne!(area(two.all_drives()), area(8));
}

#[test]
fn a_load_without_workers_is_refused() {
    let configuration = configuration("direct", "SAS-6G-HDD", Level::Jbod).unwrap();
    let mut request = request(&configuration, "database", "8", 40, 1);
    request.runs.workers = 0;
    let refused = predict(&request, &|_| {}).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(refused.sentence.contains("0 workers"), "{refused}");
}

#[test]
fn no_text_names_more_drives_than_there_can_be() {
    let many = vec!["200xSAS-6G-HDD"; 100_000].join("+");
    let refused = parse_drives(Catalog::builtin(), &many).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(refused.sentence.contains("more than 256 drives"), "{refused}");
    assert_eq!(parse_drives(Catalog::builtin(), "8xSAS-6G-HDD+2xSAS-12G-SSD").unwrap().len(), 10);
}

#[test]
fn nonsense_is_refused_with_a_clear_sentence() {
    let with_preset =
        |preset: &str| Policies { preset: Some(preset.to_owned()), ..Policies::default() };
    let no = Policies::default();
    let modes = Policies { write_mode: Some("write-back".to_owned()), ..Policies::default() };
    let reading = |mode: &str| Policies { read_mode: Some(mode.to_owned()), ..Policies::default() };
    let contradiction = Policies { drive_cache: Some(true), ..with_preset("data-protection") };
    for (refused, parts) in [
        (
            with("LSI1068", "4xSAS-6G-HDD", Level::Raid10, None, &no),
            &["LSI1068 has no raid10", "raid1e"][..],
        ),
        (with("LSI2008", "9xSAS-6G-HDD", Level::Raid0, None, &no), &["at most 8 drives, not 9"]),
        (
            with("CP400i", "4xSAS-12G-HDD", Level::Raid5, Some(256), &no),
            &["no strip of 256 KiB", "64K"],
        ),
        (
            with("C220", "2xSAS-6G-HDD", Level::Raid1, None, &no),
            &["is a SAS drive", "SATA 6G ports"],
        ),
        (
            with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &modes),
            &["--write-mode write-back", "no cache"],
        ),
        (
            with("LSI2008", "2xSAS-6G-HDD", Level::Raid1, None, &reading("read-ahead")),
            &["no cache to set"],
        ),
        (
            with("C220", "2xSATA-6G-HDD", Level::Raid1, None, &reading("adaptive")),
            &["'adaptive'", "no-read-ahead"],
        ),
        (
            with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &with_preset("fast-path")),
            &["fast-path"],
        ),
        (with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &with_preset("turbo")), &["'turbo'"]),
        (with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &contradiction), &["contradict"]),
        (with("CP400i", "2xSAS-12G-HDD", Level::Raid5, None, &no), &["not 2", "name more drives"]),
        (with("PERC", "2xSAS-12G-HDD", Level::Raid1, None, &no), &["'PERC'", "CP400i"]),
        (with("CP400i", "2xfloppy", Level::Raid1, None, &no), &["'floppy'", "SAS-12G-HDD"]),
        (with("CP400i", "0xSAS-12G-HDD", Level::Raid1, None, &no), &["0 drives"]),
    ] {
        let sentence = refused.err().map(|failure| failure.to_string()).unwrap_or_default();
        for part in parts {
            assert!(sentence.contains(part), "'{part}' is not in '{sentence}'");
        }
    }
}

/// A stream at one outstanding I/O finds the next block read ahead; random reads cause no
/// read-ahead.
#[test]
fn onboard_controllers_read_ahead_of_streams() {
    let reading = |mode: &str| {
        let policies = Policies { read_mode: Some(mode.to_owned()), ..Policies::default() };
        with("C220", "4xSATA-6G-SSD", Level::Raid0, None, &policies).unwrap()
    };
    let rates = |mode: &str, profile: &str| -> Vec<f64> {
        rows(&reading(mode), profile, "1,64", 40, 1).iter().map(|row| row.iops).collect()
    };
    let (ahead, not) = (rates("read-ahead", "streaming"), rates("no-read-ahead", "streaming"));
    assert!(ahead[0] > 1.5 * not[0] && ahead[1] > 0.98 * not[1], "{ahead:?} {not:?}");
    assert_eq!(rates("read-ahead", "database"), rates("no-read-ahead", "database"));
    let usual = configuration("C220", "4xSATA-6G-SSD", Level::Raid0).unwrap();
    assert_eq!(usual.controller, reading("read-ahead").controller, "both presets read ahead");
}

#[test]
fn the_bottleneck_has_a_name() {
    let busiest = |controller: &str, drives: &str, profile: &str| {
        let configuration = configuration(controller, drives, Level::Raid0).unwrap();
        let row = rows(&configuration, profile, "64", 40, 1).remove(0);
        bottleneck(&row).map(|(name, _)| name.to_owned()).unwrap()
    };
    assert_eq!(busiest("CP400i", "8xSAS-12G-SSD", "database"), "controller processor");
    assert_eq!(busiest("CP400i", "8xSAS-12G-SSD", "streaming"), "controller data path up");
    assert_eq!(busiest("C220", "4xSATA-6G-SSD", "streaming"), "host link up");
    assert_eq!(busiest("CP400i", "2xSAS-12G-SSD", "restore"), "dies");
}

fn of_two(controller: &str, drives: &str, level: Level) -> [Configuration; 2] {
    let one = configuration(controller, drives, level).unwrap();
    [one.clone(), one.on_controllers(2).unwrap()]
}

#[test]
fn a_second_controller_brings_what_the_first_one_does() {
    // One is limited by the host link, the other by its processor: both exist twice. Writes that
    // wait for a processor end in waves of all outstanding I/Os, thirteen in 300 ms: one wave more
    // or less equals the tolerance.
    for (controller, drives, level, profile, ms) in [
        ("LSI2008", "8xSAS-6G-SSD", Level::Raid0, "streaming", 100),
        ("CP400i", "4xSAS-12G-SSD", Level::Raid5, "random,0%read,8K", 3000),
    ] {
        let [one, two] = of_two(controller, drives, level)
            .map(|it| rows(&it, profile, "256", ms, 1)[0].throughput_mib_s);
        let ratio = two / one;
        assert!((1.85..=2.1).contains(&ratio), "{controller}: {one:.0} MiB/s, and {two:.0} of two");
    }
}

#[test]
fn parts_of_a_chipset_share_what_links_it_to_the_processor() {
    let [one, two] = of_two("C610", "4xSATA-6G-SSD", Level::Raid0);
    let [alone, both] = [one, two].map(|it| rows(&it, "streaming", "128", 200, 1).remove(0));
    let ratio = both.throughput_mib_s / alone.throughput_mib_s;
    assert!((0.95..=1.05).contains(&ratio), "{alone:?} and {both:?}");
    assert_eq!(bottleneck(&both).unwrap().0, "host link up");
}

#[test]
fn a_cache_of_each_of_two_controllers_is_full_before_it_is_measured() {
    let policies = Policies { write_back: Some(ByteCount(64 << 20)), ..Policies::default() };
    let one = with("CP400i", "4xSAS-6G-HDD", Level::Raid5, None, &policies).unwrap();
    let [one, two] = [one.clone(), one.on_controllers(2).unwrap()];
    let [one, two] = [one, two].map(|it| rows(&it, "random,0%read,8K", "64", 20_000, 1)[0].iops);
    assert!((1.7..=2.3).contains(&(two / one)), "{one:.0} IO/s, and {two:.0} of two");
}

#[test]
fn no_controllers_and_too_many_are_refused() {
    for controllers in [0, 9] {
        let one = configuration("CP400i", "4xSAS-12G-SSD", Level::Raid5).unwrap();
        let why = one.on_controllers(controllers).unwrap_err().to_string();
        assert!(why.contains("give 1 to 8 with --controllers"), "{why}");
    }
}
