//! Metadata of other systems on drives: listing, import, removal.
//!
//! **Owns** no state ([`Foreign`] holds the modules it depends on). Imported arrays are stored on
//! the drives, like any other array.
//!
//! **Invariants.** Data are not touched. Until one label says that the array exists, undo logs on
//! the drives restore them after an interrupted import.
//!
//! **Callers**: `commands`. An interrupted import is completed or undone when labels are read:
//! `lifecycle/unfinished_imports.rs`.
//!
//! | file | content |
//! | --- | --- |
//! | this file | [`Foreign::list_foreign`]: probes drives and describes them |
//! | `plan.rs` | checks whether a volume can be imported, and builds the label of its array |
//! | `on_its_way.rs` | an interrupted reshape of another system, which SoftROC continues |
//! | `import.rs` | [`Foreign::import`]: the order of writes |
//! | `clear.rs` | [`Foreign::clear_foreign`] |

mod clear;
mod import;
mod on_its_way;
mod plan;

use crate::arrays::Arrays;
use crate::events::Events;
use crate::interface::{
    Error, ErrorKind, ForeignDrive, ForeignMember, ForeignOther, ForeignVolume, Reply, Result,
};
use crate::inventory::Drive;
use crate::inventory::Inventory;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::Lifecycle;
use ondisk::ddf::{self, Effort, Look, tell};
use ondisk::foreign::{
    Consistency, FoundVolume, Glimpse, Seen, Told, leaves_room, metadata, read, reconcile,
};
use ondisk::{Content, Tail, TailPlace};
use platform::Env;
use std::rc::Rc;

/// An unused drive, and the metadata of other systems on it.
pub(crate) struct Scanned {
    pub(crate) drive: Rc<Drive>,
    told: Told,
    ddf: Option<ddf::Drive>,
    /// Why parts that may hold metadata could not be read.
    trouble: Option<String>,
    /// Whether it has metadata that `foreign clear` would remove.
    has_metadata: bool,
    /// File systems, partition tables and other content that must not be overwritten.
    contents: Vec<String>,
    /// Where SoftROC's metadata fit in front of the data, since the content before the data is
    /// known.
    in_front: Vec<TailPlace>,
}

/// All unused drives, and the foreign volumes on them.
pub(crate) struct Scan {
    pub(crate) drives: Vec<Scanned>,
    pub(crate) volumes: Vec<FoundVolume>,
}

impl Scan {
    /// The drive with that number.
    pub(crate) fn drive(&self, number: usize) -> Option<&Rc<Drive>> {
        self.drives.get(number).map(|scanned| &scanned.drive)
    }

    fn name(&self, number: usize) -> String {
        self.drive(number).map_or_else(String::new, |drive| drive.name.clone())
    }

    /// The volume of that name or identity.
    ///
    /// # Errors
    /// When there is none, or several.
    pub(crate) fn find(&self, text: &str) -> Result<usize> {
        let is_it = |found: &FoundVolume| {
            let record = &found.record;
            record.identity.text == text || record.name == text || own_name(&record.name) == text
        };
        let all: Vec<usize> =
            (0..self.volumes.len()).filter(|index| is_it(&self.volumes[*index])).collect();
        match all[..] {
            [one] => Ok(one),
            [] => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "there is no foreign volume '{text}'; 'softroc foreign list' lists them, and \
                        'softroc drive add' registers their drives"
                ),
            )),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "there are {} foreign volumes '{text}'; give the identity of one from 'softroc \
                        foreign list'",
                    all.len()
                ),
            )),
        }
    }
}

/// A volume's own name: Linux md prefixes it with the host name.
fn own_name(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, name)| name)
}

/// The name of a volume in sentences.
fn called(found: &FoundVolume) -> String {
    let record = &found.record;
    match record.name.is_empty() {
        true => record.identity.text.clone(),
        false => record.name.clone(),
    }
}

/// The module's dependencies.
pub(crate) struct Needs {
    pub(crate) events: Rc<Events>,
    pub(crate) inventory: Rc<Inventory>,
    pub(crate) arrays: Rc<Arrays>,
    pub(crate) lifecycle: Rc<Lifecycle>,
}

/// Lists and imports arrays of other controllers.
pub(crate) struct Foreign {
    env: Env,
    events: Rc<Events>,
    inventory: Rc<Inventory>,
    arrays: Rc<Arrays>,
    lifecycle: Rc<Lifecycle>,
}

impl Foreign {
    pub(crate) fn new(env: &Env, needs: Needs) -> Rc<Foreign> {
        let Needs { events, inventory, arrays, lifecycle } = needs;
        Rc::new(Foreign { env: env.clone(), events, inventory, arrays, lifecycle })
    }

    /// Reads all labels again, which may write: interrupted operations are completed or undone.
    /// Then reads the metadata of all drives that serve in no array. The caller holds the lock for
    /// changes.
    async fn scan_foreign(&self) -> Scan {
        self.lifecycle.rescan().await;
        self.read_foreign().await
    }

    /// Reads the metadata of all drives that serve in no array. It writes nothing and needs no
    /// lock; a concurrent change may be visible in part.
    async fn read_foreign(&self) -> Scan {
        let mut reads = Vec::new();
        for drive in self.inventory.drives() {
            // Members, spares and log devices of SoftROC are not checked for foreign metadata.
            let is_ours = matches!(drive.label(), LabelSeen::Sound(_) | LabelSeen::Log(_));
            let is_free = !self.arrays.is_in_use(&drive) && self.arrays.place_of(&drive).is_none();
            if !is_ours && is_free && !drive.is_probed() {
                let env = self.env.clone();
                reads.push(self.env.spawn("metadata of other systems", async move {
                    let (its_env, its_drive) = (env.clone(), drive.clone());
                    drive
                        .in_time(&env, async move { scanned(&its_env, &its_drive).await })
                        .await
                        .flatten()
                }));
            }
        }
        let mut drives = Vec::new();
        for read in reads {
            drives.extend(read.await);
        }
        let with_ddf: Vec<usize> =
            (0..drives.len()).filter(|index| drives[*index].ddf.is_some()).collect();
        let told = tell(&drives.iter().filter_map(|drive| drive.ddf.as_ref()).collect::<Vec<_>>());
        for (index, told) in with_ddf.into_iter().zip(told) {
            drives[index].told.extend(told);
        }
        let seen = drives.iter().enumerate().flat_map(|(index, scanned)| {
            let size = scanned.drive.extent().0;
            let seen =
                move |record| Seen { drive: index, name: scanned.drive.name.clone(), size, record };
            scanned.told.records.iter().cloned().map(seen)
        });
        let volumes = reconcile(&seen.collect::<Vec<_>>());
        Scan { drives, volumes }
    }

    /// `foreign list`. Labels are as of the last probe at their drives.
    pub(crate) async fn list_foreign(&self) -> Reply {
        let scan = self.read_foreign().await;
        let volumes =
            (0..scan.volumes.len()).map(|index| self.describe_volume(&scan, index)).collect();
        let mut drives: Vec<ForeignDrive> = self
            .inventory
            .drives()
            .iter()
            .filter_map(|drive| self.describe_drive(&scan, drive))
            .collect();
        drives.sort_by(|one, other| one.name.cmp(&other.name));
        Reply::Foreign { volumes, drives }
    }

    fn describe_volume(&self, scan: &Scan, index: usize) -> ForeignVolume {
        let found = &scan.volumes[index];
        let record = &found.record;
        let members = found.members.iter().map(|member| ForeignMember {
            slot: member.slot,
            drive: member.drive.map(|drive| scan.name(drive)),
            standing: member.standing.name().to_owned(),
            data_start_bytes: member.drive.map(|_| member.data.start.0),
            reason: member.reason.clone(),
        });
        let others = found.others.iter().map(|other| ForeignOther {
            drive: scan.name(other.drive),
            what: other.what.to_owned(),
            reason: other.reason.clone(),
        });
        let together = plan::together(scan, index).into_iter().filter(|other| *other != index);
        ForeignVolume {
            name: record.name.clone(),
            identity: record.identity.text.clone(),
            format: record.format.name().to_owned(),
            version: record.version.clone(),
            level: record.level.clone(),
            layout: record.layout.clone(),
            strip_bytes: record.strip.map(|strip| strip.0),
            size_bytes: found.capacity().0,
            state: found.state.name().to_owned(),
            clean: record.consistency == Consistency::Clean,
            members: members.collect(),
            others: others.collect(),
            reasons: found.reasons.clone(),
            together_with: together.map(|other| called(&scan.volumes[other])).collect(),
            obstacle: self.plan_import(scan, index, None).err().map(|error| error.message),
        }
    }

    /// Describes a drive; `None` if it is in use or has no metadata.
    fn describe_drive(&self, scan: &Scan, drive: &Rc<Drive>) -> Option<ForeignDrive> {
        if self.arrays.is_in_use(drive) {
            return None;
        }
        let scanned = scan.drives.iter().find(|scanned| Rc::ptr_eq(&scanned.drive, drive));
        let mut holds: Vec<String> = Vec::new();
        let place = self.arrays.place_of(drive);
        if let Some((array, slot)) = &place {
            holds.push(format!("SoftROC's label: drive {slot} of {}", array.names()));
        } else if let LabelSeen::Sound(carried) = drive.label() {
            match &carried.content {
                // A spare is in use.
                Content::Spare(_) => return None,
                Content::Member(label) => {
                    holds.push(format!("SoftROC's label, of {}", label.names()))
                }
            }
        }
        match drive.label() {
            LabelSeen::Headless(headless) => {
                holds.push(format!("remains of SoftROC's label, of the array {}", headless.array));
            }
            LabelSeen::Bad(_) => {
                holds.push("a label or DDF structure that cannot be used".to_owned())
            }
            // A log device is in use.
            LabelSeen::Log(_) => return None,
            LabelSeen::Blank | LabelSeen::Sound(_) | LabelSeen::Foreign(_) => {}
        }
        holds.extend(scanned.iter().flat_map(|scanned| scanned.holds()));
        let reasons = place.and_then(|(array, slot)| {
            let own = array.places().get(slot).and_then(|place| place.reason.clone());
            own.or_else(|| Some(array.reasons().join("; ")).filter(|text| !text.is_empty()))
        });
        let problem = drive.problem().map(|problem| problem.message);
        let trouble = scanned.and_then(|scanned| scanned.trouble.clone());
        let has_metadata = || scanned.is_some_and(|scanned| scanned.has_metadata);
        let clearable = drive.access().is_some() && (is_broken(drive) || has_metadata());
        let reason = problem.or(reasons).or(trouble);
        (!holds.is_empty() || reason.is_some()).then(|| ForeignDrive {
            name: drive.name.clone(),
            holds,
            reason,
            clearable,
        })
    }
}

/// Whether a drive carries unusable metadata of SoftROC, or unusable DDF.
fn is_broken(drive: &Drive) -> bool {
    matches!(drive.label(), LabelSeen::Headless(_) | LabelSeen::Bad(_) | LabelSeen::Foreign(_))
        || drive.undo().is_some()
}

impl Scanned {
    /// The metadata of other systems on the drive.
    fn holds(&self) -> Vec<String> {
        let of = |record: &ondisk::foreign::Record| {
            let volume = &record.volume;
            let name = if volume.name.is_empty() { &volume.identity.text } else { &volume.name };
            format!("{} {} metadata, of '{name}'", volume.format, volume.version)
        };
        let mut holds: Vec<String> = self.told.records.iter().map(of).collect();
        holds.extend(self.told.notes.iter().cloned());
        if holds.is_empty() && self.has_metadata {
            holds.push("metadata of another system, without a volume".to_owned());
        }
        // Content within a foreign volume belongs to that volume.
        if self.told.records.is_empty() {
            holds.extend(self.contents.iter().cloned());
        }
        holds
    }
}

async fn scanned(env: &Env, drive: &Rc<Drive>) -> Option<Scanned> {
    let access = drive.access()?;
    let ((told, look, places), failed) = access
        .decode(|glimpse| (read(glimpse), ddf::look(glimpse, Effort::Usual), metadata(glimpse)))
        .await;
    let ddf = match look {
        Look::Found(drive) => Some(*drive),
        Look::Lost(_) | Look::Nothing(_) | Look::NotYet => None,
    };
    let trouble = failed.map(|error| {
        format!(
            "drive {} cannot be read in all places of metadata ({error}); it may have more",
            drive.name
        )
    });
    let in_front = access.decode(in_front).await.0;
    let has_metadata = !places.is_empty();
    // A read error is reported when the drive is to be written.
    let contents = drive.findings(env, false).await.unwrap_or_default();
    Some(Scanned { drive: drive.clone(), told, ddf, trouble, has_metadata, contents, in_front })
}

/// Where SoftROC's metadata fit in front of the drive's data.
fn in_front(glimpse: &Glimpse) -> Vec<TailPlace> {
    let tails = TailPlace::ALL.into_iter().filter(|place| !place.is_end());
    let tails = tails.filter_map(|place| Tail::at(glimpse.size(), place));
    tails.filter(|tail| leaves_room(glimpse, tail)).map(|tail| tail.place()).collect()
}
