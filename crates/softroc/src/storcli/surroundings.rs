//! Facts about this machine in the output of StorCLI.

use crate::machine;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use storcli::{Program, Surroundings};

/// Collects the facts.
pub fn look(program: Program) -> Surroundings {
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Surroundings {
        program,
        host_name: machine::host(),
        operating_system: format!("Linux {}", release.trim()).trim_end().to_owned(),
        now_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        temperature_c: temperature(Path::new("/sys/class/hwmon")),
        memory_bytes: machine::memory_bytes().map_or(0, |memory| memory.0),
        memory_errors: memory_errors(Path::new("/sys/devices/system/edac/mc")),
    }
}

/// The subfolders of a folder, in order.
fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = read_dir(of).into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

fn number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// The processor temperature from its own sensor (`Documentation/hwmon/sysfs-interface` of the
/// kernel).
fn temperature(sensors: &Path) -> Option<i64> {
    const OF_PROCESSORS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];
    let is_of_processor = |folder: &PathBuf| {
        let name = read_to_string(folder.join("name")).unwrap_or_default();
        OF_PROCESSORS.contains(&name.trim())
    };
    let found = folders(sensors).into_iter().find(is_of_processor)?;
    let thousandths = number(&found.join("temp1_input"))?;
    i64::try_from(thousandths / 1000).ok()
}

/// Corrected and uncorrected memory errors of all memory controllers
/// (`Documentation/ABI/testing/sysfs-devices-edac`).
fn memory_errors(controllers: &Path) -> (u64, u64) {
    let sum = |file: &str| {
        folders(controllers).iter().filter_map(|folder| number(&folder.join(file))).sum()
    };
    (sum("ce_count"), sum("ue_count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_told() {
        assert_eq!(temperature(Path::new("/nowhere")), None);
        assert_eq!(memory_errors(Path::new("/nowhere")), (0, 0));
    }
}
