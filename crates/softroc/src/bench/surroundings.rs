//! The activity of the machine during a measurement, from /proc and /sys, and the devices below the
//! targets.

use super::block_device::BlockDevice;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use storagebench::{MachineTime, Snapshot, Surroundings};

/// Clock and temperature are sampled on this many processors, as representatives of all.
const PROCESSORS: usize = 8;

/// This machine, and the devices below the targets.
pub struct Machine {
    devices: BTreeMap<String, BlockDevice>,
    /// The processes on this machine that serve targets.
    servers: BTreeMap<String, u32>,
    processors: Vec<PathBuf>,
    ns_per_tick: u64,
    /// Whether this process has other duties besides measuring.
    is_shared: bool,
}

impl Machine {
    /// Finds the devices below targets (name and address).
    pub fn new(targets: &[(String, String)]) -> Machine {
        let device = |(name, address): &(String, String)| {
            Some((name.clone(), BlockDevice::below(Path::new(address))?))
        };
        let server = |(name, address): &(String, String)| Some((name.clone(), server_of(address)?));
        let processor = |at| PathBuf::from(format!("/sys/devices/system/cpu/cpu{at}"));
        Machine {
            devices: targets.iter().filter_map(device).collect(),
            servers: targets.iter().filter_map(server).collect(),
            processors: (0..PROCESSORS).map(processor).take_while(|path| path.exists()).collect(),
            ns_per_tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            is_shared: false,
        }
    }

    /// The same for a process with other duties: its processor time is that of the measuring
    /// thread.
    pub fn beside_others(targets: &[(String, String)]) -> Machine {
        Machine { is_shared: true, ..Machine::new(targets) }
    }

    /// The time of all processors, from the first line of /proc/stat.
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

    /// User and system time of the process that serves a target, without this process's own.
    fn server_ns(&self, target: &str) -> Option<u64> {
        let process = *self.servers.get(target)?;
        if process == std::process::id() {
            let all = clock_ns(rustix::time::ClockId::ProcessCPUTime)?;
            return Some(all.saturating_sub(clock_ns(rustix::time::ClockId::ThreadCPUTime)?));
        }
        let stat = read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may have blanks; utime and stime are fields 14 and 15.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some((ticks()? + ticks()?) * self.ns_per_tick)
    }

    fn of_processors(&self, file: &str) -> Vec<u64> {
        self.processors.iter().filter_map(|processor| number(&processor.join(file))).collect()
    }
}

/// The process that serves NBD at a Unix socket of this machine.
fn server_of(address: &str) -> Option<u32> {
    let socket = address.split_once("?socket=")?.1;
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// The number in a file.
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
            server_cpu_ns: self.server_ns(target),
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
    fn the_process_behind_a_socket_is_found_and_its_time_counted() {
        let path = std::env::temp_dir().join(format!("softroc-server-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let address = format!("nbd+unix:///v?socket={}", path.display());
        assert_eq!(server_of(&address), Some(std::process::id()));
        assert_eq!(server_of("nbd://127.0.0.1:10809/v"), None);
        let machine = Machine::new(&[("v".to_owned(), address)]);
        assert!(machine.look("v").server_cpu_ns.is_some());
        assert_eq!(machine.look("other").server_cpu_ns, None);
        std::fs::remove_file(&path).unwrap();
    }

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
