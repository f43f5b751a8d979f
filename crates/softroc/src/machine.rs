//! Facts about this machine, for `softroc info` and for the environment of measurements.

use std::fs::read_to_string;
use units::ByteCount;

/// Names and values, in the order of the output.
pub fn describe() -> Vec<(String, String)> {
    let mut facts = vec![("softroc".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value.trim().to_owned())));
    };
    add(
        "kernel",
        read_to_string("/proc/sys/kernel/osrelease").ok().map(|release| format!("Linux {release}")),
    );
    add("processor", processor());
    add("governor", governor());
    add("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string()));
    add("memory", memory());
    add("io_uring", io_uring());
    add("direct I/O", Some("O_DIRECT on files and block devices".into()));
    facts
}

fn processor() -> Option<String> {
    let cpuinfo = read_to_string("/proc/cpuinfo").ok()?;
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The CPU frequency governor.
fn governor() -> Option<String> {
    read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()
}

/// The host name.
pub fn host() -> String {
    read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".into(), |name| name.trim().into())
}

fn memory() -> Option<String> {
    memory_bytes().map(|memory| memory.to_string())
}

/// The size of the machine's memory.
pub fn memory_bytes() -> Option<ByteCount> {
    let meminfo = read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024).map(ByteCount)
}

fn io_uring() -> Option<String> {
    let state = match read_to_string("/proc/sys/kernel/io_uring_disabled") {
        Ok(text) => match text.trim() {
            "0" => "available to all users",
            "1" => "available to privileged processes",
            _ => "disabled (/proc/sys/kernel/io_uring_disabled is 2): SoftROC cannot run",
        },
        Err(_) => "available",
    };
    Some(state.into())
}

/// The time, in seconds since 1970.
pub fn unix_time() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
