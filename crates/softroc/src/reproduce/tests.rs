//! What predictions must hold, in virtual time.

use super::*;
use crate::cli::MethodName;
use crate::predict::{Configuration, MeasuringMethod, Plan, Policies, parse_drives, run_once, simulate};
use layout::Level;
use models::DriveSpec;
use models::catalog::DriveKind;
use storagebench::{Profile, Row};
use units::{ByteCount, StripSize};

/// Short runs: the papers' tolerance leaves room for their noise.
const SHORT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(120));

fn configuration(controller: &str, drives: &str, level: Level) -> Outcome<Configuration> {
    with(controller, drives, level, None, &Policies::default())
}

fn with(
    controller: &str,
    drives: &str,
    level: Level,
    strip: Option<u64>,
    policies: &Policies,
) -> Outcome<Configuration> {
    let catalog = Catalog::builtin();
    let controller = catalog.controller(controller).map_err(Failure::refused)?;
    let drives = parse_drives(catalog, drives)?;
    let shape = Configuration::shape(level, drives.len(), None)?;
    let strip = strip.map(|kib| StripSize::new(ByteCount(kib << 10)).unwrap());
    Configuration::new(controller, drives, shape, strip, policies)
}

fn rows(configuration: &Configuration, profile: &str, ladder: &str, ms: u64, seed: u64) -> Vec<Row> {
    let mut method = MeasuringMethod::of(MethodName::Fujitsu2016, configuration.drives.len()).unwrap();
    method.ladder = ladder.parse().unwrap();
    let plan = Plan {
        runtime: Duration::from_millis(ms),
        ramp: Duration::from_millis(ms / 4),
        workers: 1,
        seed,
        seeds: 1,
    };
    let profile: Profile = profile.parse().unwrap();
    run_once(configuration, &method, &plan, &profile.on_any_ladder(), seed).unwrap()
}

#[test]
fn every_drive_by_itself_is_within_four_percent_of_what_is_published() {
    let catalog = Catalog::builtin();
    let runner = Runner::new(catalog, SHORT).with_ladder("32,128".parse().unwrap());
    let mut seen = 0;
    let mut wrong = Vec::new();
    for figure in figures().unwrap() {
        let single = figure.controller.is_empty() && figure.drive_count == "1" && figure.kind == "exact";
        if !single || figure.number().is_none() || !figure.settings.contains("model=") {
            continue;
        }
        let found = Measured::of(catalog, &figure).unwrap().run(&runner, &figure).unwrap();
        let error = found[0].error_percent.unwrap();
        seen += 1;
        if error.abs() > 4.0 {
            wrong.push(format!("{} {}: {error:+.1} %", figure.id, found[0].what));
        }
    }
    assert_eq!(seen, 35, "seven drives, of which one twice, five profiles each");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_drive_has_more_than_eight_fitted_parameters() {
    for drive in &Catalog::builtin().drives {
        let fitted = drive.values.iter().filter(|value| value.source.starts_with("calibrated")).count();
        assert!(fitted <= 8, "{}: {fitted}", drive.model);
    }
}

#[test]
fn every_published_figure_is_covered_or_listed_with_what_is_missing() {
    let (catalog, published) = (Catalog::builtin(), Published::read().unwrap());
    let mut wrong = Vec::new();
    for figure in figures().unwrap() {
        let listed = published.uncovered.contains_key(&figure.id);
        match published.coverage(catalog, &figure) {
            Coverage::Missing(why) if !listed => wrong.push(format!("{} is neither: {why}", figure.id)),
            Coverage::Missing(_) => {}
            _ if listed => wrong.push(format!("{} is covered, and listed as if it were not", figure.id)),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_case_of_a_statement_can_be_configured() {
    let mut wrong = Vec::new();
    for statement in statements::said().unwrap().statements {
        let mut terms = vec![statement.term];
        if let Expected::Ratio(against, _) = statement.expected {
            terms.push(against);
        }
        for term in terms {
            let term::Term::Case(case) = term else { continue };
            if let Err(failure) = case.configuration(Catalog::builtin()) {
                wrong.push(format!("{}: {failure}", statement.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What needs no run: right, or it is known why not.
#[test]
fn links_and_facts_are_exact() {
    let (catalog, published) = (Catalog::builtin(), Published::read().unwrap());
    let runner = Runner::new(catalog, SHORT);
    let (mut links, mut facts, mut wrong) = (0, 0, Vec::new());
    for figure in figures().unwrap() {
        match published.coverage(catalog, &figure) {
            Coverage::Link(found) => links += found.len(),
            Coverage::Said(statements, found) if statements.is_empty() => facts += found.len(),
            _ => continue,
        }
        let found = published.reproduce(&runner, &figure).unwrap().unwrap();
        wrong.extend(found.into_iter().filter(|found| !found.right && found.reason.is_empty()));
    }
    assert!(links >= 105 && facts >= 40, "{links} links and {facts} facts");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn cacheless_controllers_are_as_published() {
    let (catalog, published) = (Catalog::builtin(), Published::read().unwrap());
    let shorter = (Duration::from_secs(4), Duration::from_millis(40));
    let runner = Runner::new(catalog, shorter).with_ladder("32,256".parse().unwrap());
    let mut wrong = Vec::new();
    for id in [
        "f13-087", "f13-094", "f13-109", "f13-110", "f13-112", "f13-174", "f13-175", "f13-176", "f13-177",
        "f13-017", "f13-095", "f16-166", "f16-169", "f16-216", "f16-217", "f16-218",
    ] {
        let all = figures().unwrap();
        let figure = all.iter().find(|figure| figure.id == id).unwrap();
        let found = published.reproduce(&runner, figure).unwrap().unwrap();
        // What is known to be wrong says why.
        wrong.extend(found.into_iter().filter(|found| !found.right && found.reason.is_empty()));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_missing_is_listed_by_what_is_missing() {
    let all = figures().unwrap();
    let missing = |id: &str, reason: &str| Missing { id: id.to_owned(), reason: reason.to_owned() };
    let report = Report {
        reproduced: Vec::new(),
        missing: vec![
            missing("f13-061", "no cache"),
            missing("f13-188", "no flash"),
            missing("f13-189", "no flash"),
            missing("f13-190", "no flash"),
            missing("f13-196", "no flash"),
        ],
    };
    let text = text::text(&report, true, &all);
    let (_, list) = text.split_once("by what is missing:\n").unwrap();
    assert_eq!(list, "   4  no flash: f13-188..190 f13-196\n   1  no cache: f13-061\n");
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
    for (drives, level, ms) in [("4xSAS-6G-HDD", Level::Raid10, 3000), ("4xSAS-12G-SSD", Level::Raid5, 40)] {
        let configuration = configuration("CP400i", drives, level).unwrap();
        let run = |seed| rows(&configuration, "file-server", "1,16", ms, seed);
        assert_eq!(run(7), run(7));
        assert_ne!(run(7)[1].iops, run(8)[1].iops);
    }
}

#[test]
fn several_seeds_give_means_and_intervals() {
    let configuration = configuration("direct", "SAS-6G-HDD", Level::Jbod).unwrap();
    let mut method = MeasuringMethod::of(MethodName::Fujitsu2013, 1).unwrap();
    method.ladder = "8".parse().unwrap();
    let plan =
        Plan { runtime: Duration::from_secs(4), ramp: Duration::from_secs(1), workers: 1, seed: 3, seeds: 3 };
    let profile: Profile = "database".parse().unwrap();
    let joined = simulate(&configuration, &method, &plan, &profile, &|| {}).unwrap().remove(0);
    let each: Vec<f64> = (3..6)
        .map(|seed| run_once(&configuration, &method, &plan, &profile, seed).unwrap()[0].iops)
        .collect();
    assert!((joined.iops - each.iter().sum::<f64>() / 3.0).abs() < 1e-6);
    let [low, high] = joined.ci95.unwrap().iops;
    assert!(low < joined.iops && joined.iops < high && each.iter().all(|iops| (low..high).contains(iops)));
}

#[test]
fn nonsense_is_refused_with_a_clear_sentence() {
    let with_preset = |preset: &str| Policies { preset: Some(preset.to_owned()), ..Policies::default() };
    let no = Policies::default();
    let modes = Policies { modes: vec![("--write-mode", "write-back".to_owned())], ..Policies::default() };
    let reading =
        |mode: &str| Policies { modes: vec![("--read-mode", mode.to_owned())], ..Policies::default() };
    let contradiction = Policies { drive_cache: Some(true), ..with_preset("data-protection") };
    for (refused, parts) in [
        (with("LSI1068", "4xSAS-6G-HDD", Level::Raid10, None, &no), &["LSI1068 has no raid10", "raid1e"][..]),
        (with("LSI2008", "9xSAS-6G-HDD", Level::Raid0, None, &no), &["at most 8 drives, not 9"]),
        (with("CP400i", "4xSAS-12G-HDD", Level::Raid5, Some(256), &no), &["no strip of 256 KiB", "64K"]),
        (with("C220", "2xSAS-6G-HDD", Level::Raid1, None, &no), &["is a SAS drive", "SATA 6G ports"]),
        (
            with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &modes),
            &["--write-mode write-back", "no cache"],
        ),
        (with("LSI2008", "2xSAS-6G-HDD", Level::Raid1, None, &reading("read-ahead")), &["no cache to set"]),
        (
            with("C220", "2xSATA-6G-HDD", Level::Raid1, None, &reading("adaptive")),
            &["'adaptive'", "no-read-ahead"],
        ),
        (with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &with_preset("fast-path")), &["fast-path"]),
        (with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &with_preset("turbo")), &["'turbo'"]),
        (with("CP400i", "4xSAS-12G-HDD", Level::Raid5, None, &contradiction), &["contradict"]),
        (with("CP400i", "2xSAS-12G-HDD", Level::Raid5, None, &no), &["2 drives", "name more drives"]),
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

/// A stream at one outstanding I/O finds the next block on its way; what is at random places is not read on.
#[test]
fn onboard_controllers_read_ahead_of_streams() {
    let reading = |mode: &str| {
        let policies = Policies { modes: vec![("--read-mode", mode.to_owned())], ..Policies::default() };
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
        crate::predict::bottleneck(&row).map(|(name, _)| name.to_owned()).unwrap()
    };
    assert_eq!(busiest("CP400i", "8xSAS-12G-SSD", "database"), "controller processor");
    assert_eq!(busiest("CP400i", "8xSAS-12G-SSD", "streaming"), "controller data path");
    assert_eq!(busiest("C220", "4xSATA-6G-SSD", "streaming"), "host link up");
    assert_eq!(busiest("CP400i", "2xSAS-12G-SSD", "restore"), "dies");
}

/// The engine runs on drives it cannot tell from others: a model that says it is a block device, and one that says
/// it is a model, lead to the same figures.
#[test]
fn nothing_below_the_binaries_asks_whether_a_drive_is_a_model() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let mut asking = Vec::new();
    for room in ["engine", "plan", "layout", "parity", "controller", "ports", "env"] {
        for path in sources(std::path::Path::new(&format!("{root}{room}/src"))) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let asks = |line: &str| {
                ["DriveKind::Model", "world_sim", "models::", "simulated"]
                    .iter()
                    .any(|word| line.contains(word))
            };
            // Its own name, where kinds of drives are written out.
            let names = |line: &str| line.contains("DriveKind::Model => ");
            if let Some(line) = lines.find(|line| asks(line) && !names(line)) {
                asking.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert!(asking.is_empty(), "{asking:#?}");
}

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(sources(&path)),
            false => files.push(path),
        }
    }
    files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn fitted_parameters_are_plausible_for_their_data_sheets() {
    for drive in &Catalog::builtin().drives {
        let DriveSpec { model, kind: DriveKind::Rotating(spec), .. } = drive else { continue };
        assert!(spec.seek_min_us < spec.seek_avg_us && spec.seek_avg_us < spec.seek_max_us, "{model}");
        assert!(spec.inner_rate_kb_s < spec.outer_rate_kb_s, "{model}");
        assert!(spec.seek_min_us * 4 < spec.seek_avg_us * 2, "{model}: a shortest seek of half the average");
    }
}
