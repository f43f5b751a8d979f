//! Observations of the machine: counters that the binary reads (from /proc and /sys, for example)
//! before and after a window, for [`crate::row::notes`]. All of them may be unknown.

use std::rc::Rc;

/// CPU times of all cores since a fixed time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineTime {
    /// The number of cores.
    pub cores: u32,
    /// Busy time, summed over the cores.
    pub busy_ns: u64,
    /// Time stolen by a hypervisor, summed over the cores.
    pub stolen_ns: u64,
}

/// The activity of a block device since a fixed time, of all programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceCounters {
    /// The kernel's name for it.
    pub name: String,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
}

/// An observation at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// User and system time of all threads of the measuring process so far.
    pub process_cpu_ns: Option<u64>,
    /// The same of the measuring thread alone.
    pub thread_cpu_ns: Option<u64>,
    /// The same of the process that serves the target, on this machine.
    pub server_cpu_ns: Option<u64>,
    /// Of the whole machine.
    pub machine: Option<MachineTime>,
    /// The current CPU clock, as the mean over the cores.
    pub clock_mhz: Option<f64>,
    /// The number of thermal throttling events.
    pub throttles: Option<u64>,
    /// The device below the target.
    pub device: Option<DeviceCounters>,
    /// The device's temperature in degrees Celsius, and its throttling threshold.
    pub device_celsius: Option<(f64, f64)>,
}

/// Observes the machine. It runs on the measuring thread about once per second, so it must be fast.
pub trait Surroundings {
    /// The current observation; `target` is the measured target's name.
    fn look(&self, target: &str) -> Snapshot;
}

/// Nothing is known.
impl Surroundings for () {
    fn look(&self, _: &str) -> Snapshot {
        Snapshot::default()
    }
}

impl<S: Surroundings + ?Sized> Surroundings for Rc<S> {
    fn look(&self, target: &str) -> Snapshot {
        (**self).look(target)
    }
}

/// The observations over a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Surrounded {
    /// The time between the first and the last observation.
    pub seconds: f64,
    /// Observations in order, the first at the window's start and the last at its end.
    pub looks: Vec<Snapshot>,
}

impl Surrounded {
    /// The growth of a counter; `None` if unknown.
    fn growth(&self, counter: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        let (first, last) = (self.looks.first()?, self.looks.last()?);
        Some(counter(last)?.saturating_sub(counter(first)?) as f64)
    }

    fn percent(&self, counter: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        let grown = self.growth(counter)?;
        (self.seconds > 0.0).then(|| grown / (self.seconds * 1e9) * 100.0)
    }

    /// The share of the measuring process, 100 = one core.
    pub fn process_percent(&self) -> Option<f64> {
        self.percent(|look| look.process_cpu_ns)
    }

    /// The share of the process that serves the target, 100 = one core.
    pub fn server_percent(&self) -> Option<f64> {
        self.percent(|look| look.server_cpu_ns)
    }

    /// The share of the measuring thread, 100 = all of its core.
    pub fn thread_percent(&self) -> Option<f64> {
        self.percent(|look| look.thread_cpu_ns)
    }

    /// The share of all cores together, 100 = one core.
    pub fn machine_percent(&self) -> Option<f64> {
        self.percent(|look| look.machine.map(|machine| machine.busy_ns))
    }

    /// The hypervisor's share, 100 = one core.
    pub fn stolen_percent(&self) -> Option<f64> {
        self.percent(|look| look.machine.map(|machine| machine.stolen_ns))
    }

    /// The number of cores.
    pub fn cores(&self) -> Option<u32> {
        self.looks.last()?.machine.map(|machine| machine.cores)
    }

    /// The lowest and the highest clock.
    pub fn clock_mhz(&self) -> Option<(f64, f64)> {
        let clocks = self.looks.iter().filter_map(|look| look.clock_mhz);
        let ends =
            clocks.fold((f64::INFINITY, 0.0_f64), |(low, high), mhz| (low.min(mhz), high.max(mhz)));
        (ends.1 > 0.0).then_some(ends)
    }

    /// The number of thermal throttling events.
    pub fn throttles(&self) -> Option<f64> {
        self.growth(|look| look.throttles)
    }

    /// The bytes that the device read and wrote.
    pub fn device_bytes(&self) -> Option<(f64, f64)> {
        let device = |look: &Snapshot| look.device.clone();
        Some((
            self.growth(|look| device(look).map(|device| device.read_bytes))?,
            self.growth(|look| device(look).map(|device| device.written_bytes))?,
        ))
    }
}
