//! Current drives without measurements in this catalog: predictions against their data sheets.

use layout::Level;
use models::{Catalog, DriveSpec, LinkShares};
use predict::{Configuration, MeasuringMethod, MethodName, Policies, Request, Runs, predict};
use std::sync::Arc;
use std::time::Duration;
use storagebench::{Results, Row};

const BLOCK: f64 = 131_072.0;

fn nvme() -> DriveSpec {
    Catalog::builtin().drive("NVMe-SSD").unwrap().clone()
}

fn nearline() -> DriveSpec {
    Catalog::builtin().drive("Nearline-20TB-HDD").unwrap().clone()
}

/// A drive alone, over its whole capacity: the method of data sheets.
fn measured(drive: &DriveSpec, profile: &str, ladder: &str) -> Results {
    let shape = Configuration::shape(Level::Jbod, 1, None).unwrap();
    let direct = Catalog::builtin().controller("direct").unwrap();
    let drives = vec![drive.clone()];
    let configuration =
        Configuration::new(direct, drives, shape, None, &Policies::default()).unwrap();
    let mut method = MeasuringMethod::of(MethodName::Bench, 1).unwrap();
    method.ladder = ladder.parse().unwrap();
    let runtime =
        if drive.is_rotating() { Duration::from_secs(30) } else { Duration::from_millis(60) };
    let runs = Runs {
        runtime,
        confidence_percent: None,
        ramp: runtime / 2,
        workers: 1,
        seed: 1,
        seeds: 1,
        cancel: Arc::default(),
    };
    let profiles = vec![profile.parse().unwrap()];
    predict(&Request { configuration, method, profiles, runs }, &|_| {}).unwrap()
}

fn rows(drive: &DriveSpec, profile: &str, ladder: &str) -> Vec<Row> {
    measured(drive, profile, ladder).rows
}

fn megabytes_per_s(row: &Row) -> f64 {
    row.iops * BLOCK / 1e6
}

#[track_caller]
fn near(what: &str, predicted: f64, expected: f64, percent: f64) {
    let off = (predicted / expected - 1.0) * 100.0;
    println!("{what}: {predicted:.1} beside {expected:.1}, {off:+.1} %");
    assert!(off.abs() <= percent, "{what}: {predicted:.1} instead of {expected:.1}, {off:+.1} %");
}

#[track_caller]
fn within(what: &str, predicted: f64, low: f64, high: f64) {
    println!("{what}: {predicted:.1}, plausible {low:.1} to {high:.1}");
    assert!(
        (low..=high).contains(&predicted),
        "{what}: {predicted:.1} is not from {low:.1} to {high:.1}"
    );
}

#[test]
fn flash_behind_pcie_does_what_its_data_sheet_says() {
    let nvme = nvme();
    let read = &rows(&nvme, "sequential,read,128K", "32")[0];
    near("read in order, MB/s", megabytes_per_s(read), 6800.0, 10.0);
    let written = &rows(&nvme, "sequential,write,128K", "32")[0];
    near("written in order, MB/s", megabytes_per_s(written), 4000.0, 10.0);
    near("read at random, IO/s", rows(&nvme, "random-read", "512")[0].iops, 1_000_000.0, 10.0);
    near("written at random, IO/s", rows(&nvme, "random-write", "128")[0].iops, 180_000.0, 15.0);
}

/// The data sheet of this file gives no latency. A read takes at least a page read (45 us), and
/// such drives are known for less than twice that. A write completes when it is in the buffer.
#[test]
fn one_request_at_a_time_waits_for_a_page_or_for_the_buffer() {
    let latency_us = |profile: &str| rows(&nvme(), profile, "1")[0].latency_us.unwrap().mean;
    within("a read, us", latency_us("random-read"), 45.0, 90.0);
    within("a write, us", latency_us("random-write"), 5.0, 30.0);
}

#[test]
fn no_drive_is_quicker_than_its_link() {
    for (mut drive, link) in
        [(nvme(), "PCIe 4.0 x4"), (nvme(), "PCIe 3.0 x1"), (nearline(), "SATA 6G")]
    {
        drive.link = link.parse().unwrap();
        let most = drive.link.bytes_per_s(LinkShares::IN_2016) as f64 / 1e6;
        for profile in ["sequential,read,128K", "sequential,write,128K"] {
            for row in rows(&drive, profile, "1,8,64") {
                let rate = megabytes_per_s(&row);
                assert!(
                    rate <= most * 1.01,
                    "{profile} at {}: {rate:.0} of {most:.0}",
                    row.outstanding
                );
                // A lane of generation 3 limits a drive that could do eight times as much.
                let full = link == "PCIe 3.0 x1" && row.outstanding >= 8;
                assert!(
                    !full || rate >= most * 0.97,
                    "{profile} at {}: {rate:.0}",
                    row.outstanding
                );
            }
        }
    }
}

/// Single reads: half a revolution and an average seek. 16 outstanding: the data sheet's value,
/// which was not used in a fit. 32 outstanding: more than 16, but at most the bound of shortest
/// positioning time first, 2.9 times for a drive of 7200 rpm.
#[test]
fn a_nearline_disk_seeks_turns_and_gains_by_reordering() {
    let disk = nearline();
    let random = rows(&disk, "random-read", "1,16,32");
    let [one, sixteen, all] = &random[..] else { panic!("three points") };
    near("one read at a time, IO/s", one.iops, 1000.0 / (8.5 + 4.17 + 0.04), 5.0);
    near("sixteen, IO/s", sixteen.iops, 168.0, 10.0);
    within("gain at 32", all.iops / one.iops, sixteen.iops / one.iops, 2.9);
    for profile in ["sequential,read,128K,area=0..1%", "sequential,write,128K,area=0..1%"] {
        near(profile, megabytes_per_s(&rows(&disk, profile, "8")[0]), 285.0, 3.0);
    }
}

/// Results list the drives without fitted values, and no others.
#[test]
fn results_name_what_is_not_calibrated() {
    let said = |drive: &DriveSpec| {
        let facts = measured(drive, "random-read", "1").environment.0;
        facts.into_iter().find(|(name, _)| name == "not calibrated").map(|(_, value)| value)
    };
    assert_eq!(said(&nvme()).as_deref(), Some("Samsung MZQL23T8HCLS"));
    let calibrated = Catalog::builtin().drive("SAS-12G-SSD").unwrap();
    assert_eq!(said(calibrated), None);
}

#[test]
fn an_nvme_drive_does_not_fit_behind_sas_ports() {
    let catalog = Catalog::builtin();
    let shape = Configuration::shape(Level::Raid1, 2, None).unwrap();
    let behind = |name: &str| {
        let controller = catalog.controller(name).unwrap();
        Configuration::new(controller, vec![nvme(); 2], shape, None, &Policies::default())
    };
    let refused = behind("CP400i").unwrap_err().to_string();
    for part in
        ["Samsung MZQL23T8HCLS is an NVMe drive", "CP400i has SAS 12G ports", "--controller direct"]
    {
        assert!(refused.contains(part), "'{part}' is not in '{refused}'");
    }
    let mut backplane = catalog.controller("CP400i").unwrap().clone();
    backplane.drive_link = Some("PCIe 4.0 x4".parse().unwrap());
    assert!(
        Configuration::new(&backplane, vec![nvme(); 2], shape, None, &Policies::default()).is_ok()
    );
    let two = behind("direct").unwrap_err().to_string();
    assert!(two.contains("direct has no raid1"), "{two}");
}
