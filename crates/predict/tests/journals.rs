//! Predictions with SoftROC's journal: the place of its records, their cost, and invalid settings.

use layout::Level;
use models::Catalog;
use predict::{
    Configuration, MeasuringMethod, MethodName, Policies, Request, Result, Runs, parse_drives,
    predict,
};
use std::sync::Arc;
use std::time::Duration;
use storagebench::Results;

const DISKS: &str = "8xSavvio10K.2";

/// `log`: `None` for no journal, `Some("")` for one on the members.
fn configured(level: Level, drives: &str, log: Option<&str>) -> Result<Configuration> {
    let catalog = Catalog::builtin();
    let drives = parse_drives(catalog, drives)?;
    let shape = Configuration::shape(level, drives.len(), None)?;
    let log_drives =
        log.filter(|log| !log.is_empty()).map(|log| parse_drives(catalog, log)).transpose()?;
    let policies = Policies {
        journal: log.is_some(),
        log: log_drives.unwrap_or_default(),
        ..Policies::default()
    };
    Configuration::new(catalog.controller("HBA")?, drives, shape, None, &policies)
}

fn measured(level: Level, log: Option<&str>) -> Results {
    let mut method = MeasuringMethod::of(MethodName::Bench, 8).unwrap();
    method.ladder = "1,8".parse().unwrap();
    let runs = Runs {
        runtime: Duration::from_secs(8),
        confidence_percent: None,
        ramp: Duration::from_secs(2),
        workers: 1,
        seed: 1,
        seeds: 1,
        cancel: Arc::default(),
    };
    let configuration = configured(level, DISKS, log).unwrap();
    let profiles = vec!["random,0%read,8K".parse().unwrap()];
    predict(&Request { configuration, method, profiles, runs }, &|_| {}).unwrap()
}

fn rates(results: &Results) -> Vec<f64> {
    results.rows.iter().map(|row| row.iops).collect()
}

/// A record on the members costs them positioning time; on a log device it costs them nothing.
#[test]
fn a_log_device_takes_the_records_off_the_disks() {
    for level in [Level::Raid5, Level::Raid6] {
        let none = rates(&measured(level, None));
        let on_members = rates(&measured(level, Some("")));
        let one = rates(&measured(level, Some("NVMe-SSD")));
        let two = rates(&measured(level, Some("2xNVMe-SSD")));
        for point in 0..none.len() {
            let share = |rates: &[f64]| rates[point] / none[point];
            assert!(
                (0.4..0.85).contains(&share(&on_members)),
                "{level}: {on_members:.0?} of {none:.0?}"
            );
            assert!(share(&one) >= 0.95, "{level}, one log device: {one:.0?} of {none:.0?}");
            assert!(share(&two) >= 0.95, "{level}, two log devices: {two:.0?} of {none:.0?}");
        }
    }
}

#[test]
fn results_say_that_a_journal_took_part_and_how_busy_its_devices_were() {
    let facts = |results: &Results, name: &str| {
        let found = results.environment.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    let busy = |results: &Results| {
        results.rows[1].resources.as_ref().unwrap().get("log drive links down").copied()
    };
    let none = measured(Level::Raid5, None);
    assert_eq!((facts(&none, "write hole"), busy(&none)), (None, None));
    let members = measured(Level::Raid5, Some(""));
    assert_eq!(facts(&members, "write hole").as_deref(), Some("journal on its drives"));
    assert_eq!(busy(&members), None);
    let log = measured(Level::Raid5, Some("2xNVMe-SSD"));
    assert_eq!(facts(&log, "write hole").as_deref(), Some("journal on 2xNVMe-SSD"));
    assert_eq!(facts(&log, "log 1").as_deref(), Some("Samsung MZQL23T8HCLS"));
    assert_eq!(
        facts(&log, "not calibrated").as_deref(),
        Some("Seagate ST973402SS, Samsung MZQL23T8HCLS")
    );
    assert!(busy(&log).is_some());
}

#[test]
fn journals_that_cannot_be_are_refused() {
    let refused = |level, drives, log| configured(level, drives, log).unwrap_err().sentence;
    for (sentence, parts) in [
        (refused(Level::Raid10, DISKS, Some("")), ["raid10 has no parity", "--write-hole"]),
        (refused(Level::Raid5, DISKS, Some("3xNVMe-SSD")), ["not on 3", "--log"]),
        (refused(Level::Raid5, DISKS, Some("floppy")), ["'floppy'", "NVMe-SSD"]),
    ] {
        for part in parts {
            assert!(sentence.contains(part), "'{part}' is not in '{sentence}'");
        }
    }
    let catalog = Catalog::builtin();
    let policies =
        Policies { log: parse_drives(catalog, "NVMe-SSD").unwrap(), ..Policies::default() };
    let drives = parse_drives(catalog, DISKS).unwrap();
    let shape = Configuration::shape(Level::Raid5, 8, None).unwrap();
    let controller = catalog.controller("HBA").unwrap();
    let refused =
        Configuration::new(controller, drives, shape, None, &policies).unwrap_err().sentence;
    assert!(refused.contains("--write-hole journal"), "{refused}");
}
