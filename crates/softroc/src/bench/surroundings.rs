//! Reads what goes on around a measurement from /proc and /sys, and says what a target lies on.

use super::block_device::BlockDevice;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use storagebench::{MachineTime, Snapshot, Surroundings};

/// The clock and the heat of this many processors are looked at: they stand for the others.
const PROCESSORS: usize = 8;

/// This machine, and the devices below the targets.
pub struct Machine {
    devices: BTreeMap<String, BlockDevice>,
    processors: Vec<PathBuf>,
    ns_per_tick: u64,
    /// Whether this process does other things besides measuring.
    is_shared: bool,
}

impl Machine {
    /// Looks for the devices below targets: names and the addresses they are opened by.
    pub fn new(targets: &[(String, String)]) -> Machine {
        let device = |(name, address): &(String, String)| {
            Some((name.clone(), BlockDevice::below(Path::new(address))?))
        };
        let processor = |at| PathBuf::from(format!("/sys/devices/system/cpu/cpu{at}"));
        Machine {
            devices: targets.iter().filter_map(device).collect(),
            processors: (0..PROCESSORS).map(processor).take_while(|path| path.exists()).collect(),
            ns_per_tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            is_shared: false,
        }
    }

    /// The same where the process does other things, too: what it takes of the processors is what the thread that measures takes.
    pub fn beside_others(targets: &[(String, String)]) -> Machine {
        Machine { is_shared: true, ..Machine::new(targets) }
    }

    /// Of all processors, from the first line of /proc/stat.
    fn time(&self) -> Option<MachineTime> {
        let stat = read_to_string("/proc/stat").ok()?;
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal ...
        let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else { return None };
        let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count() as u32;
        Some(MachineTime {
            cores,
            busy_ns: (user + nice + system + irq + softirq) * self.ns_per_tick,
            stolen_ns: steal * self.ns_per_tick,
        })
    }

    fn of_processors(&self, file: &str) -> Vec<u64> {
        self.processors.iter().filter_map(|processor| number(&processor.join(file))).collect()
    }
}

/// The number that a file holds.
pub fn number(path: &Path) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

impl Surroundings for Machine {
    fn look(&self, target: &str) -> Snapshot {
        let clocks_khz = self.of_processors("cpufreq/scaling_cur_freq");
        let throttles = self.of_processors("thermal_throttle/core_throttle_count");
        let device = self.devices.get(target);
        Snapshot {
            process_cpu_ns: clock_ns(match self.is_shared {
                true => rustix::time::ClockId::ThreadCPUTime,
                false => rustix::time::ClockId::ProcessCPUTime,
            }),
            thread_cpu_ns: clock_ns(rustix::time::ClockId::ThreadCPUTime),
            machine: self.time(),
            clock_mhz: (!clocks_khz.is_empty())
                .then(|| clocks_khz.iter().sum::<u64>() as f64 / clocks_khz.len() as f64 / 1e3),
            throttles: (!throttles.is_empty()).then(|| throttles.iter().sum()),
            device: device.and_then(BlockDevice::counters),
            device_celsius: device.and_then(BlockDevice::celsius),
        }
    }
}

fn clock_ns(clock: rustix::time::ClockId) -> Option<u64> {
    let time = rustix::time::clock_gettime(clock);
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_seen() {
        let machine = Machine::new(&[]);
        let first = machine.look("none");
        let mut sum = 0_u64;
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 30 {
            sum = std::hint::black_box(sum + 1);
        }
        let second = machine.look("none");
        assert!(second.thread_cpu_ns.unwrap() > first.thread_cpu_ns.unwrap() + 1_000_000);
        assert!(second.process_cpu_ns >= second.thread_cpu_ns);
        let time = second.machine.unwrap();
        assert!(time.cores >= 1 && time.busy_ns > 0);
        assert_eq!(second.device, None);
    }
}
