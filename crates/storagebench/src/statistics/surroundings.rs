//! What a measurement sees of its surroundings: counters that the binary reads (from /proc and /sys, say) before
//! and after a window, for [`crate::row::notes`] to judge. Everything may be unknown.

use std::rc::Rc;

/// Times of all processors since some fixed moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineTime {
    /// How many processors there are.
    pub cores: u32,
    /// Time in which a processor ran something, summed over them.
    pub busy_ns: u64,
    /// Time that a hypervisor took away, summed over them.
    pub stolen_ns: u64,
}

/// What a block device has done since some fixed moment, for whoever asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceCounters {
    /// The kernel's name of it.
    pub name: String,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
}

/// The surroundings at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// User and system time of all threads of the measuring process so far.
    pub process_cpu_ns: Option<u64>,
    /// The same of the measuring thread alone.
    pub thread_cpu_ns: Option<u64>,
    /// Of the whole machine.
    pub machine: Option<MachineTime>,
    /// The processors' clock now, averaged over them.
    pub clock_mhz: Option<f64>,
    /// How often the processors were slowed down because of heat.
    pub throttles: Option<u64>,
    /// The device below the target.
    pub device: Option<DeviceCounters>,
    /// How hot that device is, in degrees Celsius, and from where on it slows down.
    pub device_celsius: Option<(f64, f64)>,
}

/// Looks at the surroundings. It is called on the measuring thread about once a second, so it must be quick.
pub trait Surroundings {
    /// As they are now; `target` is how the measured target is named.
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

/// The surroundings over a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Surrounded {
    /// How long the looks cover.
    pub seconds: f64,
    /// Looks in order, the first at the window's start and the last at its end.
    pub looks: Vec<Snapshot>,
}

impl Surrounded {
    /// How much a counter grew; `None` where it is unknown.
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

    /// The share of the measuring thread, 100 = all of its core.
    pub fn thread_percent(&self) -> Option<f64> {
        self.percent(|look| look.thread_cpu_ns)
    }

    /// The share of all processors together, 100 = one core.
    pub fn machine_percent(&self) -> Option<f64> {
        self.percent(|look| look.machine.map(|machine| machine.busy_ns))
    }

    /// What a hypervisor took, 100 = one core.
    pub fn stolen_percent(&self) -> Option<f64> {
        self.percent(|look| look.machine.map(|machine| machine.stolen_ns))
    }

    /// How many processors there are.
    pub fn cores(&self) -> Option<u32> {
        self.looks.last()?.machine.map(|machine| machine.cores)
    }

    /// The lowest and the highest clock.
    pub fn clock_mhz(&self) -> Option<(f64, f64)> {
        let clocks = self.looks.iter().filter_map(|look| look.clock_mhz);
        let ends = clocks.fold((f64::INFINITY, 0.0_f64), |(low, high), mhz| (low.min(mhz), high.max(mhz)));
        (ends.1 > 0.0).then_some(ends)
    }

    /// How often the processors were slowed down because of heat.
    pub fn throttles(&self) -> Option<f64> {
        self.growth(|look| look.throttles)
    }

    /// What the device read and wrote, in bytes.
    pub fn device_bytes(&self) -> Option<(f64, f64)> {
        let device = |look: &Snapshot| look.device.clone();
        Some((
            self.growth(|look| device(look).map(|device| device.read_bytes))?,
            self.growth(|look| device(look).map(|device| device.written_bytes))?,
        ))
    }
}
