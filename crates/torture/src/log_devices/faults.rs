//! Faults of log devices, in a running process and between lives.

use super::{LogState, OnLog, distrust};
use crate::faults::{START_LIMIT, delay, later, later_to};
use crate::scene::Scene;
use crate::tally::Event;
use platform::IoErrorKind;
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// The first incident number of log device faults in a life, counted from the life's first
/// incident.
const OF_LOGS: u64 = 30;

/// The incident number of changes of log devices between two lives.
const BETWEEN_LIVES: u64 = 39;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Dies,
    /// The device is pulled out. It may be reinserted after this time.
    Vanishes(Option<Duration>),
    WriteErrors(u64),
    MediumErrors,
    /// A hang beyond the controller's time limit.
    TimesOut(Duration),
    /// A shorter hang.
    Hangs(Duration),
    Stalls(u64, Duration),
    Slows(u32, Duration),
}

impl Fault {
    fn draw(rng: &mut Rng) -> Fault {
        match rng.below(16) {
            0..=1 => Fault::Dies,
            2 => Fault::Vanishes(None),
            3..=4 => Fault::Vanishes(Some(Duration::from_micros(1000 << rng.below(14)))),
            5..=7 => Fault::WriteErrors(rng.between(1, 3)),
            8 => Fault::MediumErrors,
            9..=10 => Fault::TimesOut(Duration::from_secs(rng.between(31, 90))),
            11..=12 => Fault::Hangs(Duration::from_millis(1 << rng.below(15))),
            13..=14 => {
                Fault::Stalls(rng.between(1, 20), Duration::from_millis(rng.between(1, 2000)))
            }
            _ => {
                Fault::Slows(rng.between(2, 50) as u32, Duration::from_millis(10 << rng.below(10)))
            }
        }
    }

    /// Whether the device's records become unreliable.
    fn may_cost_it(self, limit: Duration) -> bool {
        match self {
            Fault::Hangs(time) => time >= limit,
            Fault::Stalls(count, time) => time >= limit || time * count as u32 >= START_LIMIT,
            fault => !matches!(fault, Fault::Slows(..)),
        }
    }

    /// Whether the device responds again by itself, with all of its data.
    fn is_silence(self) -> bool {
        matches!(self, Fault::TimesOut(_) | Fault::Hangs(_) | Fault::Stalls(..))
    }

    fn event(self) -> Event {
        match self {
            Fault::Dies => Event::LogDies,
            Fault::Vanishes(_) => Event::LogVanishes,
            Fault::WriteErrors(_) => Event::LogWriteErrors,
            Fault::MediumErrors => Event::LogMediumErrors,
            Fault::TimesOut(_) => Event::LogTimesOut,
            Fault::Hangs(_) | Fault::Stalls(..) | Fault::Slows(..) => Event::LogHangs,
        }
    }
}

/// Plans the faults of log devices in a life.
pub(crate) fn plan(scene: &Rc<Scene>) {
    let life = scene.machine.life.get();
    let stream = |instance: String| Rng::new(scene.setup.seed, "log faults", &instance);
    let count = match scene.setup.log {
        Some(_) => [0, 0, 1, 1, 2, 3][stream(life.to_string()).below(6) as usize],
        None => 0,
    };
    for index in 0..count {
        let number = scene.setup.first_incident(life) + OF_LOGS + index;
        if scene.setup.without.incidents.contains(&number) {
            continue;
        }
        let mut rng = stream(format!("{life}.{index}"));
        let (which, fault) = (rng.below(2) as usize, Fault::draw(&mut rng));
        later(scene, delay(&mut rng) * 2, move |scene| {
            if scene.machine.life.get() == life {
                happen(scene, number, which, fault, &mut rng);
            }
        });
    }
}

/// The drive of that first name.
fn drive(scene: &Scene, name: &str) -> Option<SimDrive> {
    let known = scene.machine.known.borrow();
    known.iter().find(|(known, _)| known == name).map(|(_, drive)| drive.clone())
}

fn happen(scene: &Rc<Scene>, number: u64, which: usize, fault: Fault, rng: &mut Rng) {
    let log = &scene.machine.log;
    let devices = log.devices();
    let Some(name) = devices.get(which % devices.len().max(1)) else { return };
    let Some(drive) = drive(scene, name).filter(SimDrive::is_present) else { return };
    scene.machine.story.incidents.borrow_mut().insert(number);
    scene.tell_of(name, || format!("{fault:?} (incident {number})"));
    scene.did(fault.event());
    scene.volumes().iter().for_each(|volume| volume.array.faults.borrow_mut().doubt());
    if fault.may_cost_it(scene.setup.shortest_limit()) {
        distrust(scene, name, fault.is_silence());
    }
    match fault {
        Fault::Dies => drive.fail_now(),
        Fault::Vanishes(back) => {
            drive.vanish();
            log.away.borrow_mut().insert(name.clone());
            if let Some(after) = back {
                let name = name.clone();
                later(scene, after, move |scene| put_back(scene, &name));
            }
        }
        Fault::WriteErrors(count) => drive.fail_next(count, Some("write"), IoErrorKind::Medium),
        Fault::MediumErrors => {
            // The range of journals: labels are checked when they are read.
            let blocks = rng.between(256, (drive.size().0 >> 12) - 257);
            drive.make_unreadable(ByteRange::new(ByteOffset(blocks << 12), ByteCount(4096)));
            log.unreadable.borrow_mut().insert(name.clone());
        }
        Fault::TimesOut(time) | Fault::Hangs(time) => {
            drive.hold();
            later_to(scene, time, &drive, SimDrive::release);
        }
        Fault::Stalls(count, time) => drive.stall_next(count, time),
        Fault::Slows(times, time) => {
            drive.slow_down(times);
            later_to(scene, time, &drive, |drive| drive.slow_down(1));
        }
    }
}

/// Reinserts a device that was pulled out; returns whether it was.
pub(super) fn put_back(scene: &Scene, name: &str) {
    if !scene.machine.log.away.borrow_mut().remove(name) {
        return;
    }
    let Some(drive) = drive(scene, name) else { return };
    drive.come_back();
    std::iter::once(&scene.on_log)
        .chain(scene.beside.iter().map(|other| &other.on_log))
        .for_each(OnLog::has_waited);
    scene.did(Event::LogComesBack);
    scene.tell_of(name, || "reinserted".to_owned());
}

/// Changes of log devices between two lives: pulled devices may be reinserted, and others pulled.
/// `all`: repairs everything that can be repaired.
pub(crate) fn repair(scene: &Scene, all: bool) {
    if scene.setup.log.is_none() {
        return;
    }
    let life = scene.machine.life.get();
    let number = scene.setup.first_incident(life) + BETWEEN_LIVES;
    let mut rng = Rng::new(scene.setup.seed, "log between lives", &life.to_string());
    // Both devices of a log at once are less likely than one.
    let takes = !all && rng.chance(2, 5) && !scene.setup.without.incidents.contains(&number);
    let (puts, most) = (all || rng.chance(2, 3), if rng.chance(1, 2) { 2 } else { 1 });
    for name in super::names(&scene.setup) {
        let Some(drive) = drive(scene, &name) else { continue };
        drive.release();
        drive.stall_next(0, Duration::ZERO);
        drive.slow_down(1);
        drive.cancel_failures();
        let is_away = scene.machine.log.away.borrow().contains(&name);
        if is_away && puts {
            put_back(scene, &name);
        }
        if all {
            drive.heal_unreadable(ByteRange::new(ByteOffset::ZERO, drive.size()));
            scene.machine.log.unreadable.borrow_mut().remove(&name);
        }
    }
    let mut devices = scene.machine.log.devices();
    rng.shuffle(&mut devices);
    if !takes || scene.machine.log.standing.get() == LogState::None {
        return;
    }
    for name in devices.into_iter().take(most) {
        let Some(drive) = drive(scene, &name).filter(SimDrive::is_present) else { continue };
        scene.machine.story.incidents.borrow_mut().insert(number);
        drive.vanish();
        scene.machine.log.away.borrow_mut().insert(name.clone());
        scene.did(Event::LogAway);
        scene.tell_of(&name, || {
            format!("absent at the controller's next start (incident {number})")
        });
    }
}
