//! Drives that become larger in use: their files grow, an operator rescans them, and a volume
//! expands in place.
//!
//! # Invariants
//! - A larger drive does not change until a rescan. The rescan then moves the metadata at its end,
//!   at a start or while the array works without the drive. After a kill, a power cut or a failed
//!   write the drive has its old or its new size, with all data.
//! - After a confirmed rescan the size never shrinks again.
//! - Hosts see nothing of this, and of an expansion only the new capacity.
//!
//! The controller records drive sizes by name: no drive is renamed in such a run, and checks of
//! copies have the record.

use crate::error::{Error, Result};
use crate::faults;
use crate::host::Host;
use crate::life::Plan;
use crate::operator::{self, OperatorTask};
use crate::scene::Scene;
use crate::setup::LargerSetup;
use controller::{Command, Reply, ReshapeVolume};
use platform::IoErrorKind;
use platform_sim::{Rng, SimDrive};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, DriveIndex};

/// The first incident number of these operations in a life, counted from the life's first incident.
const OF_LARGER: u64 = 91;

/// The maximum number of operations per life.
const MOST: u64 = 5;

/// One in this many expansions takes all free space, which is then resynced.
const ALL_OF_IT: u64 = 8;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    /// The files of all drives grow.
    AllBecomeLarger,
    /// The file of one drive grows.
    OneBecomesLarger,
    /// An operator rescans all drives; effective from the next start.
    RescansAll,
    /// An operator rescans one drive that the array can spare meanwhile.
    RescansOne,
    /// An operator expands a volume.
    Expands,
}

impl Operation {
    /// In half of the cases the next step that an operator would take.
    fn draw(scene: &Scene, rng: &mut Rng) -> Operation {
        let (is_next, one) = (rng.chance(1, 2), rng.chance(1, 4));
        if is_next && scene.array.drives.borrow().iter().any(|drive| drive.length() < drive.size())
        {
            return if one { Operation::OneBecomesLarger } else { Operation::AllBecomeLarger };
        }
        let is_used = |name: &String| scene.machine.rescanned.borrow().contains_key(name);
        if is_next && !scene.setup.names().iter().all(is_used) {
            return if one { Operation::RescansOne } else { Operation::RescansAll };
        }
        match rng.below(10) {
            0..=1 => Operation::AllBecomeLarger,
            2 => Operation::OneBecomesLarger,
            3 => Operation::RescansAll,
            4..=6 => Operation::RescansOne,
            _ => Operation::Expands,
        }
    }
}

/// Runs the drawn operations of this life.
pub(crate) fn operate(host: &Host, plan: &Plan) -> OperatorTask {
    let scene = &host.scene;
    let beside = OperatorTask::of(host);
    let life = scene.machine.life.get();
    let stream = |name: String| Rng::new(host.scene.setup.seed, "larger", &name);
    let count = stream(life.to_string()).below(MOST + 1);
    let Some(larger) =
        scene.setup.larger.clone().filter(|_| !scene.setup.is_neighbour() && !plan.goes_on)
    else {
        beside.is_done.set(true);
        return beside;
    };
    let numbers = (0..count).map(|index| scene.setup.first_incident(life) + OF_LARGER + index);
    let numbers: Vec<u64> =
        numbers.filter(|number| !scene.setup.without.incidents.contains(number)).collect();
    let streams: Vec<(u64, Rng)> =
        numbers.into_iter().map(|number| (number, stream(format!("number {number}")))).collect();
    let (host, is_stopping, is_done) =
        (host.clone(), beside.is_stopping.clone(), beside.is_done.clone());
    let is_last = plan.is_last;
    beside.host.env.spawn("larger", async move {
        for (number, mut rng) in streams {
            let delay = faults::delay(&mut rng) / 4;
            let until = host.env.now() + delay;
            while host.env.now() < until && !is_stopping.get() {
                host.env.sleep(Duration::from_millis(1).min(delay)).await;
            }
            if is_stopping.get() {
                break;
            }
            host.scene.machine.story.incidents.borrow_mut().insert(number);
            if let Err(error) = act(&host, &larger, is_last, &mut rng).await {
                host.scene.untrue.replace(Some(error));
                break;
            }
        }
        is_done.set(true);
    });
    beside
}

async fn act(host: &Host, larger: &LargerSetup, is_last: bool, rng: &mut Rng) -> Result<()> {
    let scene = &host.scene;
    let act = Operation::draw(scene, rng);
    scene.tell_of("operator", || format!("{act:?}"));
    let drives = scene.layout().drives().0;
    let slot = DriveIndex(rng.below(u64::from(drives)) as u16);
    match act {
        Operation::AllBecomeLarger => {
            scene.array.drives.borrow().iter().for_each(|drive| become_larger(scene, larger, drive))
        }
        Operation::OneBecomesLarger => {
            let drives = scene.array.drives.borrow();
            drives
                .get(slot.as_usize())
                .into_iter()
                .for_each(|drive| become_larger(scene, larger, drive));
        }
        Operation::RescansAll => {
            for slot in (0..drives).map(DriveIndex) {
                rescan(host, slot).await?;
            }
        }
        // During a reshape a drive that cannot be brought back is not waited for.
        Operation::RescansOne if is_last => {}
        Operation::RescansOne => rescan_without(host, slot, rng).await?,
        Operation::Expands => expand(host, rng).await?,
    }
    Ok(())
}

/// Extends a drive's file; the first extension may be too small.
fn become_larger(scene: &Scene, larger: &LargerSetup, drive: &SimDrive) {
    let (now, most) = (drive.length(), drive.size());
    let a_little = larger.a_little.map(|by| ByteCount(most.0 - larger.by.0) + by);
    let next = a_little.filter(|a_little| now < *a_little).unwrap_or(most);
    if scene.is_there() && now < next && drive.is_present() {
        drive.set_length(next);
        scene.count(|tally| tally.larger += 1);
        scene.tell_of(drive.name(), || format!("its size is {next}, before {now}"));
    }
}

/// An operator rescans a slot's drive. A confirmed rescan must last.
async fn rescan(host: &Host, slot: DriveIndex) -> Result<()> {
    let scene = &host.scene;
    let shown = host.show().await?;
    let Some(name) = shown.drives.get(slot.as_usize()).map(|drive| drive.name.clone()) else {
        return Ok(());
    };
    scene.machine.asked.borrow_mut().insert(scene.machine.drive_at(&name));
    match host.ask(Command::DriveRescan { drive: name.clone(), was_bytes: None }).await {
        Ok(Reply::Drive { drive, notes, .. }) => {
            scene.tell_of("operator", || format!("{name}: {}", notes.join("; ")));
            if notes.iter().any(|note| note.contains(" now, and had ")) {
                note_rescanned(scene, &drive.name, drive.size_bytes);
            }
        }
        Ok(other) => return Error::wrong_state(format!("a rescan returned {other:?}")),
        Err(error) => scene.tell_of("operator", || format!("cannot rescan {name}: {error}")),
    }
    Ok(())
}

/// Rescans a drive while the array works without it; sometimes a write to it fails meanwhile.
async fn rescan_without(host: &Host, slot: DriveIndex, rng: &mut Rng) -> Result<()> {
    let scene = &host.scene;
    let fails = rng.chance(1, 3).then(|| (faults::delay(rng) / 64, rng.between(1, 2)));
    if !scene.is_redundant() || !faults::may_lose(scene, slot) || scene.array.may_move() {
        return Ok(());
    }
    operator::take_out(host, operator::Action::TakeOffline, slot, true).await?;
    let drive = scene.array.drives.borrow().get(slot.as_usize()).cloned();
    let is_over = Rc::new(Cell::new(false));
    if let Some((after, count)) = fails
        && let Some(drive) = &drive
    {
        scene.tell_of(drive.name(), || format!("{count} writes will fail after {after:?}"));
        let is_over = is_over.clone();
        faults::later_to(scene, after, drive, move |drive| {
            if !is_over.get() {
                drive.fail_next(count, Some("write"), IoErrorKind::Medium);
            }
        });
    }
    rescan(host, slot).await?;
    // Faults end when the drive is brought back.
    is_over.set(true);
    if let Some(drive) = drive.filter(|_| fails.is_some()) {
        drive.cancel_failures();
    }
    operator::bring_back(host, false).await
}

/// An operator expands a volume of the array, as far as there is space.
async fn expand(host: &Host, rng: &mut Rng) -> Result<()> {
    let first = &host.scene;
    let all = first.array.volumes();
    if !all.iter().all(|volume| volume.is_there()) {
        return Ok(()); // The space is reserved for the neighbour.
    }
    let (nth, more) = (rng.below(2) as usize, rng.between(64 << 10, 1 << 20));
    let takes_all = rng.chance(1, ALL_OF_IT);
    let Some(scene) = all.get(nth % all.len().max(1)).filter(|_| !first.array.may_move()) else {
        return Ok(());
    };
    let of = host.of(scene);
    let has = of.show().await?.capacity_bytes;
    if scene.setup.has_cache() {
        operator::order_write_mode(&of, controller::WriteMode::WriteThrough).await;
    }
    if first.array.may_move() || !scene.is_there() {
        return Ok(()); // Another order is pending.
    }
    let volume = scene.setup.name().to_owned();
    let size_bytes = (!takes_all).then_some((has + more).next_multiple_of(4096));
    first.tell_of("operator", || format!("'{volume}' will expand: {size_bytes:?}"));
    scene.begin_to_grow(has);
    let order = ReshapeVolume { volume, size_bytes, ..ReshapeVolume::default() };
    let answer = host.ask(Command::VolumeReshape(order)).await;
    scene.end_order();
    if let Err(error) = answer {
        first.tell_of("operator", || format!("cannot expand it: {error}"));
    }
    host.show().await.map(|_| ())
}

fn note_rescanned(scene: &Scene, shown: &str, size: Option<u64>) {
    let name = scene.machine.drive_at(shown);
    let Some(size) = size.map(ByteCount) else { return };
    if scene.machine.rescanned.borrow_mut().insert(name, size) != Some(size) {
        scene.count(|tally| tally.rescanned += 1);
    }
}

/// Checks after a start: rescanned drives have not shrunk, and other drives have not grown.
pub(crate) async fn look(host: &Host) -> Result<()> {
    let scene = &host.scene;
    if scene.setup.larger.is_none() || scene.setup.is_neighbour() {
        return Ok(());
    }
    let Reply::Drives { drives, .. } = host.must(Command::DriveList {}).await? else {
        return Error::wrong_state("the drives cannot be listed");
    };
    let known = scene.machine.known.borrow().clone();
    for drive in &drives {
        let first_name = scene.machine.drive_at(&drive.name);
        let Some((_, found)) = known.iter().find(|(name, _)| *name == first_name) else { continue };
        // A drive with a truncated file is a smaller drive.
        let Some(size) = drive.size_bytes.filter(|_| found.is_present()) else { continue };
        let was = scene.machine.rescanned.borrow().get(&first_name).copied();
        if was.is_some_and(|was| was.0 > size) {
            return Error::wrong_state(format!(
                "drive {first_name} had {was:?} bytes in use, and has {size} now: {:?}",
                drive.reason
            ));
        }
        if let Some(uuid) = &drive.uuid {
            // A drive that took the name, or was relabelled, has another UUID; a rebuilding drive
            // is shown with the UUID of its slot.
            let key = (first_name.clone(), uuid.clone());
            let was = scene.machine.used.borrow_mut().insert(key, size);
            let is_asked = scene.machine.asked.borrow().contains(&first_name);
            if let Some(was) = was.filter(|was| *was < size && !is_asked) {
                return Error::wrong_state(format!(
                    "{size} bytes of drive {first_name} are in use, {was} before, without a rescan"
                ));
            }
        }
        let was_smaller = scene.setup.names().contains(&first_name);
        if was_smaller && drive.grown_to_bytes.is_none() && size == found.size().0 {
            note_rescanned(scene, &drive.name, Some(size));
        }
    }
    Ok(())
}
