//! `/cN add vd ...`.

use super::wanted::Wanted;
use super::{Refusal, ask, outcome};
use crate::Machine;
use crate::answer::{Answer, OTHER};
use crate::view::View;
use crate::words::Word;
use controller::{AddSpare, Command, CreateVolume, Reply, VolumeInfo};

/// `/cN add vd rN|type=raidN|each r0 drives=... [...]`.
pub(super) fn answer(view: &View, words: &[Word], machine: &mut dyn Machine) -> Answer {
    let orders = Wanted::read(view, words).and_then(|wanted| Ok((orders(view, &wanted)?, wanted)));
    let (orders, wanted) = match orders {
        Ok(both) => both,
        Err(refusal) => return outcome("-", "Add VD", Err(refusal)),
    };
    let notes = wanted.renamed.join(" ");
    match create(&orders, &wanted, machine) {
        Ok(()) if notes.is_empty() => outcome("-", "Add VD", Ok(())),
        Ok(()) => Answer::done(format!("Add VD Succeeded. {notes}")),
        Err(refusal) => outcome("-", "Add VD", Err(refusal)),
    }
}

/// A volume to create.
struct Order {
    create: CreateVolume,
    /// Whether the operator chose its name.
    is_named: bool,
    /// Whether dedicated spares are for its drives.
    with_spares: bool,
}

/// Checks and prepares all volumes before the first is created.
fn orders(view: &View, wanted: &Wanted) -> Result<Vec<Order>, Refusal> {
    let level = wanted.level()?;
    let spans = wanted.spans(level)?;
    let sets: Vec<Vec<String>> = match wanted.each {
        true => wanted.drives.iter().map(|drive| vec![drive.clone()]).collect(),
        false => vec![wanted.drives.clone()],
    };
    let sizes = if wanted.sizes.is_empty() { &[None][..] } else { &wanted.sizes };
    let count = sets.len() * sizes.len();
    if wanted.names.len() > count {
        return Err(Refusal::invalid(format!(
            "{} names for {count} volumes: give one size per name, for example size=10gb,20gb",
            wanted.names.len()
        )));
    }
    let mut names = Names::of(view, &wanted.names);
    let mut orders = Vec::new();
    for drives in &sets {
        for size in sizes {
            let (name, is_named) = names.next();
            let create = CreateVolume {
                name,
                // A RAID 0 of one drive is a JBOD.
                level: if drives.len() == 1 && level == "raid0" { "jbod" } else { level }
                    .to_owned(),
                drives: drives.clone(),
                spans,
                strip_bytes: wanted.strip_bytes,
                size_bytes: *size,
                write_mode: wanted.write_mode,
                read_mode: wanted.read_mode,
                cache_mode: wanted.cache_mode,
                drive_cache: wanted.drive_cache,
                sector_format: wanted.sector_format,
                destroy_data: wanted.force,
                ..CreateVolume::default()
            };
            orders.push(Order { create, is_named, with_spares: drives == &sets[0] });
        }
    }
    Ok(orders)
}

fn create(orders: &[Order], wanted: &Wanted, machine: &mut dyn Machine) -> Result<(), Refusal> {
    let mut created: Vec<String> = Vec::new();
    for order in orders {
        let done = create_one(order, wanted, machine);
        match done {
            Ok(name) => created.push(name),
            // Created volumes stay: deleting them would use up their numbers, and hosts may already
            // use them.
            Err(refusal) if !created.is_empty() => {
                let message =
                    format!("{}; created before that: {}", refusal.message, created.join(", "));
                return Err(Refusal { message, ..refusal });
            }
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// Creates a volume with its spares; returns its name.
fn create_one(
    order: &Order,
    wanted: &Wanted,
    machine: &mut dyn Machine,
) -> Result<String, Refusal> {
    let mut name = order.create.name.clone();
    let reply = ask(machine, Command::VolumeCreate(order.create.clone()))?;
    if let (Reply::Volume { volume, .. }, false) = (&reply, order.is_named) {
        name = named_by_number(volume, machine);
    }
    for drive in wanted.spares.iter().filter(|_| order.with_spares) {
        let spare = AddSpare {
            drive: drive.clone(),
            volumes: vec![name.clone()],
            revertible: true,
            destroy_data: wanted.force,
            ..AddSpare::default()
        };
        let Reply::Spare { .. } = ask(machine, Command::SpareAdd(spare))? else {
            return Err(Refusal::new(
                OTHER,
                "the controller sent an unexpected reply; see its log",
            ));
        };
    }
    Ok(name)
}

/// A volume without a chosen name is named after its number, which is known after the creation.
fn named_by_number(volume: &VolumeInfo, machine: &mut dyn Machine) -> String {
    let Some(name) =
        volume.number.map(|number| format!("vd{number}")).filter(|name| *name != volume.name)
    else {
        return volume.name.clone();
    };
    let rename = Command::VolumeSet { volume: volume.uuid.clone(), name: name.clone() };
    match ask(machine, rename) {
        Ok(_) => name,
        // Another volume has that name: the temporary name stays.
        Err(_) => volume.name.clone(),
    }
}

/// Names for volumes: the chosen ones, then the numbers that they will probably get.
struct Names<'a> {
    chosen: std::slice::Iter<'a, String>,
    taken: Vec<String>,
    next: u32,
}

impl<'a> Names<'a> {
    fn of(view: &View, chosen: &'a [String]) -> Names<'a> {
        let taken = view.metrics.volumes.iter().map(|volume| volume.volume.name.clone());
        let taken = taken.chain(chosen.iter().cloned()).collect();
        let next = view.volumes().iter().map(|volume| volume.number + 1).max().unwrap_or(0);
        // Volumes with chosen names take numbers as well.
        let next = next.saturating_add(u32::try_from(chosen.len()).unwrap_or(u32::MAX));
        Names { chosen: chosen.iter(), taken, next }
    }

    /// The next name, and whether it was chosen.
    fn next(&mut self) -> (String, bool) {
        if let Some(name) = self.chosen.next() {
            return (name.clone(), true);
        }
        loop {
            let name = format!("vd{}", self.next);
            self.next = self.next.saturating_add(1);
            if !self.taken.contains(&name) {
                return (name, false);
            }
        }
    }
}
