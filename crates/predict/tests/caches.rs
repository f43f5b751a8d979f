//! Controllers with a cache: the engine's cache reproduces the numbers in their files.

use layout::Level;
use models::Catalog;
use predict::{
    Configuration, MeasuringMethod, MethodName, Policies, Request, Runs, parse_drives, predict,
};
use std::sync::Arc;
use std::time::Duration;
use storagebench::Row;

fn set(policies: &[&str]) -> Policies {
    let mut all = Policies { drive_cache: Some(false), ..Policies::default() };
    for word in policies {
        let named = Some((*word).to_owned());
        match *word {
            "read-ahead" | "no-read-ahead" => all.read_mode = named,
            "write-back" | "write-through" | "always-write-back" => all.write_mode = named,
            "direct" | "cached" => all.cache_mode = named,
            "drives-on" => all.drive_cache = Some(true),
            preset => (all.preset, all.drive_cache) = (Some(preset.to_owned()), None),
        }
    }
    all
}

fn configured(
    catalog: &Catalog,
    controller: &str,
    drives: &str,
    level: Level,
    policies: &[&str],
) -> predict::Result<Configuration> {
    let drives = parse_drives(catalog, drives)?;
    let shape = Configuration::shape(level, drives.len(), None)?;
    let controller = catalog.controller(controller).expect("the catalog has it");
    Configuration::new(controller, drives, shape, None, &set(policies))
}

fn measured(configuration: &Configuration, profile: &str, outstanding: &str, ms: u64) -> Vec<Row> {
    let mut method =
        MeasuringMethod::of(MethodName::Fujitsu2016, configuration.drives.len()).expect("known");
    method.ladder = outstanding.parse().expect("a ladder");
    let runtime = Duration::from_millis(ms);
    let request = Request {
        configuration: configuration.clone(),
        method,
        profiles: vec![profile.parse().expect("a profile")],
        runs: Runs {
            runtime,
            confidence_percent: None,
            ramp: runtime / 3,
            workers: 1,
            seed: 1,
            seeds: 1,
            cancel: Arc::default(),
        },
    };
    predict(&request, &|_| {}).expect("predicted").rows
}

/// I/Os per second.
fn rate(
    controller: &str,
    drives: &str,
    level: Level,
    policies: &[&str],
    (profile, outstanding, ms): (&str, &str, u64),
) -> f64 {
    let configuration =
        configured(Catalog::builtin(), controller, drives, level, policies).expect("configured");
    measured(&configuration, profile, outstanding, ms)[0].iops
}

/// The purpose of the cache: a host that writes a stream with one outstanding I/O does not wait for
/// the drives.
#[test]
fn write_back_answers_what_write_through_waits_for() {
    let load = ("restore", "1", 1_000);
    let rate = |mode| rate("EP400i", "4xSAS-12G-HDD", Level::Raid5, &[mode], load);
    let (back, through) = (rate("write-back"), rate("write-through"));
    assert!(back > 10.0 * through, "{back:.0} IO/s, {through:.0} written through");
}

/// A cache that is empty before a measurement shows the speed of memory. It is full to its mark,
/// for any size.
#[test]
fn no_figure_is_one_of_absorbing() {
    let load = ("random,0%read,64K", "16", 4_000);
    let rate = |controller| rate(controller, "2xSAS-12G-HDD", Level::Raid1, &[], load);
    let (one, two) = (rate("EP400i"), rate("EP420i"));
    assert!(two < 1.3 * one, "{one:.0} IO/s with 1 GiB, {two:.0} with 2");
    assert!(two < 1_500.0, "{two:.0} IO/s: a disk does not write more, in whatever order");
}

/// All queue depths run on one server, whose cache keeps the content of the previous depth and is
/// filled further. A depth that began with the content of a lower one would acknowledge writes from
/// memory.
#[test]
fn a_rung_measures_what_it_does_by_itself() {
    let policies = ["write-back", "no-read-ahead"];
    let configuration =
        configured(Catalog::builtin(), "EP400i", "4xSAS-12G-HDD", Level::Raid5, &policies);
    let configuration = configuration.expect("configured");
    let rates = |ladder| -> Vec<(u32, f64)> {
        let rows = measured(&configuration, "random,0%read,64K", ladder, 8_000);
        rows.iter().map(|row| (row.outstanding, row.iops)).collect()
    };
    // Results are in the requested order, independent of the order of the runs.
    let [(64, deep), (1, alone), (16, among)] = rates("64,1,16")[..] else {
        panic!("rows as they were asked for")
    };
    let [(16, by_itself)] = rates("16")[..] else { panic!("one row") };
    assert!(
        (among / by_itself - 1.0).abs() < 0.05,
        "{among:.1} IO/s after one, {by_itself:.1} by itself"
    );
    assert!(deep > 0.9 * among && among > 0.9 * alone, "{alone:.1}, {among:.1}, {deep:.1} IO/s");
}

/// The FastPath shortens requests for a single drive. Writes of parity levels do not use it.
#[test]
fn the_fast_path_is_for_commands_of_one_drive() {
    let rate = |level, policies: &[&str], profile| {
        rate("LSI2208-1G-3.0", "24xSAS-6G-SSD", level, policies, (profile, "256", 30))
    };
    let (fast, usual) = (&["fast-path"][..], &["write-through", "no-read-ahead", "drives-on"][..]);
    // One worker is limited to one host core, which reaches 250,000 here.
    let reads = (
        rate(Level::Raid5, fast, "random,100%read,4K"),
        rate(Level::Raid5, usual, "random,100%read,4K"),
    );
    assert!(reads.0 > 1.2 * reads.1 && reads.0 < 251_000.0, "{reads:?}");
    let writes = (
        rate(Level::Raid5, fast, "random,0%read,4K"),
        rate(Level::Raid5, usual, "random,0%read,4K"),
    );
    assert!((0.95..1.05).contains(&(writes.0 / writes.1)), "{writes:?}");
}

/// Each has the limit of its paper: the cache's memory, the parity unit, the host link.
#[test]
fn each_limit_of_a_controller_can_be_the_one_that_counts() {
    // A small cache is full soon.
    let text = Catalog::text_of("catalog/controllers/praid-ep400i.toml").expect("built in");
    let text = text.replace("cache_mib = { value = 1024", "cache_mib = { value = 128");
    let mut as_it_is = Catalog::builtin().clone();
    as_it_is.read("mine.toml", &text).expect("read");
    let slower = |key: &str, value: u64| {
        let mut catalog = Catalog::builtin().clone();
        let begin = format!("{key} = {{ value = ");
        let (before, after) = text.split_once(&begin).expect("the key");
        let (_, rest) = after.split_once(',').expect("a source");
        catalog.read("mine.toml", &format!("{before}{begin}{value},{rest}")).expect("read");
        catalog
    };
    let throughput = |catalog: &Catalog, profile: &str, mode: &str| {
        let configuration = configured(catalog, "EP400i", "8xSAS-12G-SSD", Level::Raid5, &[mode])
            .expect("configured");
        measured(&configuration, profile, "32", 30)[0].throughput_mib_s
    };
    for (key, value, profile, mode, most) in [
        ("memory_mib_s", 1_000, "restore", "write-back", 500.0),
        ("memory_mib_s", 1_000, "streaming", "read-ahead", 500.0),
        ("xor_ps_per_byte", 4_000, "restore", "write-back", 400.0),
        ("read_path_mib_s", 700, "streaming", "no-read-ahead", 700.0),
        ("write_path_mib_s", 600, "restore", "write-back", 600.0),
        ("data_path_mib_s", 500, "streaming", "no-read-ahead", 500.0),
    ] {
        let usual = throughput(&as_it_is, profile, mode);
        let found = throughput(&slower(key, value), profile, mode);
        assert!(
            usual > 2.0 * most && found < 1.05 * most && found > 0.4 * most,
            "{key}: {usual:.0}, {found:.0}"
        );
    }
}

/// 24 drives behind an expander have the lanes of eight.
#[test]
fn drives_behind_an_expander_share_the_lanes_of_the_ports() {
    let mut catalog = Catalog::builtin().clone();
    let text = Catalog::text_of("catalog/controllers/praid-ep400i.toml").expect("built in");
    catalog
        .read("mine.toml", &text.replace("ports = { value = 8", "ports = { value = 2"))
        .expect("read");
    let lanes = |drives| {
        let configuration = configured(&catalog, "EP400i", drives, Level::Raid0, &["fast-path"])
            .expect("configured");
        measured(&configuration, "streaming", "64", 30)[0].throughput_mib_s
    };
    let (two, eight) = (lanes("2xSAS-12G-SSD"), lanes("8xSAS-12G-SSD"));
    assert!(
        two > 1_800.0 && (1_850.0..2_070.0).contains(&eight),
        "{two:.0}, {eight:.0}: 2060 on two lanes"
    );
    // Intel's 40 disks of 6 Gb/s reached 6000 MB/s on eight lanes of 12: expanders of 12 Gb/s
    // buffer the data of slower drives.
    let slower = lanes("8xSAS-6G-SSD");
    assert!(
        (1_850.0..2_070.0).contains(&slower),
        "{slower:.0}: each by itself has 515, so that two would carry 1030"
    );
}

#[test]
fn what_a_controller_does_not_offer_is_refused() {
    let catalog = Catalog::builtin();
    let on = |controller, drives, level, policies: &[&str]| {
        configured(catalog, controller, drives, level, policies).expect_err("refused").to_string()
    };
    let own = Policies { write_back: Some(units::ByteCount(1 << 30)), ..Policies::default() };
    let drives = parse_drives(catalog, "4xSAS-12G-HDD").expect("known");
    let shape = Configuration::shape(Level::Raid5, 4, None).expect("a shape");
    let controller = catalog.controller("EP400i").expect("known");
    let twice =
        Configuration::new(controller, drives, shape, None, &own).expect_err("refused").to_string();
    for (sentence, part) in [
        (
            on("LSI2108", "4xSAS-6G-HDD", Level::Raid5, &["fast-path"]),
            "LSI2108 has no preset fast-path",
        ),
        (on("EP400i", "4xSAS-12G-HDD", Level::Raid5, &["turbo"]), "'turbo'"),
        (
            on("EP400i", "18xSAS-12G-HDD", Level::Raid10, &[]),
            "at most 16 drives in one raid10, not 18",
        ),
        (on("EP400i", "33xSAS-12G-HDD", Level::Raid0, &[]), "at most 32 drives, not 33"),
        (twice, "has a cache of its own"),
    ] {
        assert!(sentence.contains(part), "'{part}' is not in '{sentence}'");
    }
}

/// Without protection a cache falls back to write-through, except with always-write-back.
#[test]
fn a_cache_that_a_power_cut_empties_is_written_through() {
    let mut catalog = Catalog::builtin().clone();
    let text = Catalog::text_of("catalog/controllers/praid-ep400i.toml").expect("built in");
    catalog.read("mine.toml", &text.replace("\"FBU\"", "\"none\"")).expect("read");
    let is_back = |catalog: &Catalog, policies: &[&str]| {
        let configuration = configured(catalog, "EP400i", "4xSAS-12G-HDD", Level::Raid5, policies);
        configuration.expect("configured").write_back.is_some()
    };
    assert!(
        is_back(Catalog::builtin(), &["write-back"])
            && is_back(Catalog::builtin(), &["performance"])
    );
    assert!(!is_back(&catalog, &["write-back"]) && !is_back(&catalog, &["performance"]));
    assert!(is_back(&catalog, &["always-write-back"]));
}
