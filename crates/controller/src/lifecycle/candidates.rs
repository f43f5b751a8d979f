//! The drives that a command names: opens them, and checks whether they may be used.

use crate::interface::{Command, Error, ErrorKind, Result};
use crate::inventory::access::LabelSeen;
use crate::inventory::{Drive, is_volatile};
use crate::lifecycle::shape::Measure;
use crate::lifecycle::{Lifecycle, refuse_failed};
use ondisk::{Content, LogLabel, Phase};
use std::rc::Rc;
use units::{ByteCount, SectorSize};

fn invalid(sentence: impl ToString) -> Error {
    Error::new(ErrorKind::Invalid, sentence.to_string())
}

/// The purpose of the drives.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// Whether their content may be lost.
    pub(super) destroy: bool,
    /// Whether they become log devices; existing log devices then keep their content.
    pub(super) as_log: bool,
}

/// The content of a log device, within a sentence.
fn describe_log(label: &LogLabel) -> String {
    let names: Vec<&str> = label.place.iter().map(|place| place.name.as_str()).collect();
    match names.is_empty() {
        true => "the label of a log device, without journals".to_owned(),
        false => format!("the journals of {}", names.join(", ")),
    }
}

/// A drive that a command is going to use.
pub(crate) struct Candidate {
    pub(crate) drive: Rc<Drive>,
    /// Whether it is not registered yet.
    pub(super) is_new: bool,
    pub(crate) size: ByteCount,
    pub(crate) sector: SectorSize,
    pub(crate) rotational: bool,
}

impl Candidate {
    /// Whether another candidate is on the same disk, so that both fail together.
    pub(super) fn is_on_same_disk(&self, other: &Candidate) -> bool {
        let (own, its) = (self.drive.access(), other.drive.access());
        own.zip(its).is_some_and(|(own, its)| own.info().is_on_same_disk(its.info()))
    }

    /// The disk, if the drive is a partition.
    fn disk(&self) -> Option<String> {
        Some(self.drive.access()?.info().hardware.partition.as_ref()?.disk.clone())
    }

    /// The properties needed for a new volume.
    pub(super) fn measure(&self) -> Measure<'_> {
        let Candidate { drive, size, sector, rotational, .. } = self;
        Measure { name: &drive.name, size: *size, sector: *sector, rotational: *rotational }
    }
}

impl Lifecycle {
    /// The drives that a command needs to probe: those that it names, and all unused ones if it
    /// asks for their content.
    pub(crate) fn drives_to_look_at(&self, command: &Command) -> Vec<Rc<Drive>> {
        let (named, looks_at_all): (Vec<&String>, bool) = match command {
            Command::DriveAdd { drive, size_bytes: None } => (vec![drive], true),
            Command::DriveOnline { drive } | Command::DriveRescan { drive, .. } => {
                (vec![drive], true)
            }
            Command::DriveReplace { with, .. } => (vec![with], false),
            Command::VolumeCreate(create) => (create.drives.iter().collect(), true),
            Command::VolumeReshape(order) => (order.add.iter().collect(), false),
            Command::SpareAdd(add) => (vec![&add.drive], false),
            Command::LogAdd { drives, .. } => (drives.iter().collect(), false),
            Command::ForeignList {}
            | Command::ForeignImport { .. }
            | Command::ForeignClear { .. } => (Vec::new(), true),
            Command::VolumeStart { .. } => (Vec::new(), true),
            _ => return Vec::new(),
        };
        let is_free = |drive: &Rc<Drive>| !self.arrays.is_in_use(drive);
        let mut drives = self.inventory.drives();
        drives.retain(|drive| is_free(drive) && looks_at_all && drive.access().is_some());
        for spec in named {
            let drive = match self.inventory.drive_called(spec) {
                Some(drive) => drive,
                None if is_volatile(spec) || self.arrays.slot_named(spec).is_some() => continue,
                None => self.inventory.newcomer(spec),
            };
            if is_free(&drive) && drives.iter().all(|other| !Rc::ptr_eq(other, &drive)) {
                drives.push(drive);
            }
        }
        drives
    }

    /// Opens and checks every drive; `candidates` receives the opened ones even if one is refused.
    /// `destroy`: their content may be lost.
    pub(crate) async fn check_candidates(
        &self,
        specs: &[String],
        destroy: bool,
        candidates: &mut Vec<Candidate>,
    ) -> Result<()> {
        self.check_taken(specs, Taken { destroy, as_log: false }, candidates).await
    }

    /// The same for a purpose.
    pub(super) async fn check_taken(
        &self,
        specs: &[String],
        taken: Taken,
        candidates: &mut Vec<Candidate>,
    ) -> Result<()> {
        for spec in specs {
            let known = self.known_drive(spec, candidates)?;
            let is_new = known.is_none();
            let drive = known.unwrap_or_else(|| self.new_drive_beside(spec, candidates));
            if candidates.iter().any(|other| other.drive.name == drive.name) {
                return Err(invalid(format!("drive {spec} is named twice; name each drive once")));
            }
            self.check_free(spec, &drive, taken.destroy)?;
            drive.look(&self.env).await;
            if drive.holds_writes_back() {
                return Err(drive.not_quiesced());
            }
            if let Some(silent) = drive.problem().filter(|_| drive.is_probed()) {
                return Err(silent);
            }
            if is_new {
                drive.check_made_for_a_drive(&self.env).await?;
            }
            let Some(access) = drive.access() else {
                let closed =
                    || Error::new(ErrorKind::Unavailable, format!("drive {spec} cannot be opened"));
                return Err(drive.problem().unwrap_or_else(closed));
            };
            let info = access.info().clone();
            let candidate = Candidate {
                drive: drive.clone(),
                is_new,
                size: info.size,
                sector: info.logical_sector,
                rotational: info.rotational,
            };
            let twin = candidates.iter().find(|other| {
                other.drive.access().is_some_and(|access| access.info().is_same_storage(&info))
            });
            let twin = twin.map(|other| other.drive.name.clone());
            candidates.push(candidate);
            if let Some(twin) = twin {
                return Err(invalid(format!(
                    "{twin} and {spec} are the same drive; name each drive once"
                )));
            }
            if is_new && let Some(other) = self.inventory.same_drive(&drive) {
                let sentence =
                    format!("drive {spec} is registered as {}; use that name", other.name);
                return Err(Error::new(ErrorKind::InUse, sentence));
            }
            if let Some(failure) = self.inventory.failure_of(&drive) {
                return Err(refuse_failed(spec, &failure));
            }
            if info.read_only {
                let sentence = format!(
                    "drive {spec} is read-only, and has to be writable: allow writing, or choose \
                        another drive"
                );
                return Err(Error::new(ErrorKind::Unavailable, sentence));
            }
            self.check_not_used_already(spec, &drive)?;
            self.check_content(spec, &drive, taken).await?;
        }
        Ok(())
    }

    /// Refuses a drive with the label of a drive in use, even if its content may be lost: it may be
    /// the same storage under another name.
    fn check_not_used_already(&self, spec: &str, drive: &Rc<Drive>) -> Result<()> {
        let is_used = |other: &Rc<Drive>| !Rc::ptr_eq(other, drive) && self.arrays.is_in_use(other);
        let member = drive.member_label().and_then(|own| {
            let array = self.arrays.get(own.array)?;
            array.drive(array.label().slot_of(own.drive)?)
        });
        let device = drive.log_label().and_then(|own| {
            let has_it = |other: &Rc<Drive>| {
                other
                    .log_label()
                    .is_some_and(|label| (label.log, label.device) == (own.log, own.device))
            };
            self.inventory
                .drives()
                .into_iter()
                .find(|other| !Rc::ptr_eq(other, drive) && has_it(other))
        });
        let spare = drive.spare().and_then(|own| {
            let has_it =
                |other: &Rc<Drive>| other.spare().is_some_and(|spare| spare.drive == own.drive);
            self.inventory
                .drives()
                .into_iter()
                .find(|other| !Rc::ptr_eq(other, drive) && has_it(other))
        });
        let is_other = |other: &Rc<Drive>| !Rc::ptr_eq(other, drive);
        let of_use = member.or(device).filter(is_used).or(spare.filter(is_other));
        match of_use {
            Some(other) => Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "drive {spec} has the label of drive {}, which is in use: it is the same \
                        storage under another name, or a copy of it; choose another drive",
                    other.name
                ),
            )),
            None => Ok(()),
        }
    }

    /// Refuses a member of an array, unless the array is stopped and may be lost.
    fn check_free(&self, spec: &str, drive: &Drive, destroy: bool) -> Result<()> {
        if self.arrays.is_log_device(drive) {
            let sentence = format!(
                "drive {spec} is a log device; choose another drive, or first run 'softroc log \
                    remove {spec}'"
            );
            return Err(Error::new(ErrorKind::InUse, sentence));
        }
        let replacements = self
            .arrays
            .all()
            .into_iter()
            .find_map(|array| array.replaced_by(drive).map(|slot| (array, slot)));
        if let Some((array, slot)) = self.arrays.place_of(drive).or(replacements)
            && (array.is_running() || !destroy)
        {
            let volumes = array.names();
            let what = if array.known_volumes().len() == 1 {
                "delete that volume"
            } else {
                "delete those volumes"
            };
            let beside = match array.is_running() {
                true => {
                    format!(", or use the free space of the array with --array {}", array.name())
                }
                false => String::new(),
            };
            return Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "drive {spec} is drive {slot} of {volumes}; {what} first, choose another \
                        drive{beside}"
                ),
            ));
        }
        Ok(())
    }

    /// Refuses a drive with content, unless that may be lost.
    async fn check_content(&self, spec: &str, drive: &Rc<Drive>, taken: Taken) -> Result<()> {
        if taken.destroy {
            return Ok(());
        }
        let holds = |what: String| {
            let sentence = format!(
                "drive {spec} holds {what}; choose another drive, or use --destroy-data if that \
                    may be lost"
            );
            Err(Error::new(ErrorKind::HoldsData, sentence))
        };
        if drive.undo().is_some() {
            return holds(
                "a part of an array whose import was interrupted ('softroc foreign list' shows it)"
                    .to_owned(),
            );
        }
        match drive.label() {
            LabelSeen::Bad(why) => {
                return holds(format!("a SoftROC label that cannot be used ({why})"));
            }
            LabelSeen::Sound(carried) => match &carried.content {
                Content::Member(label) if label.phase == Phase::Online => {
                    return holds(format!("a part of the volume {}", label.names()));
                }
                Content::Spare(_) => {
                    let sentence = format!(
                        "drive {spec} is a hot spare; remove the spare first, or choose another \
                            drive"
                    );
                    return Err(Error::new(ErrorKind::InUse, sentence));
                }
                // An unfinished or deleted array: no data is lost.
                Content::Member(_) => {}
            },
            // Its content is kept.
            LabelSeen::Log(_) if taken.as_log => return Ok(()),
            LabelSeen::Log(label) => return holds(describe_log(&label)),
            LabelSeen::Headless(headless) => {
                return holds(format!(
                    "a part of the array {}, and its metadata are lost",
                    headless.array
                ));
            }
            // The description of other metadata below covers it.
            LabelSeen::Foreign(_) | LabelSeen::Blank => {}
        }
        match drive.findings(&self.env, matches!(drive.label(), LabelSeen::Sound(_))).await {
            Ok(findings) if findings.is_empty() => Ok(()),
            Ok(findings) => holds(findings.join(" and ")),
            Err(error) => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "the content of drive {spec} cannot be read ({error}); choose another drive"
                ),
            )),
        }
    }

    /// A registered drive of that name; memory drives are always new.
    fn known_drive(&self, spec: &str, candidates: &[Candidate]) -> Result<Option<Rc<Drive>>> {
        if is_volatile(spec) {
            // `mem:1G#2` is the name of the second such drive.
            let is_free = |drive: &Rc<Drive>| {
                let taken = candidates.iter().any(|other| other.drive.name == drive.name);
                !taken && drive.is_zeroed() && self.arrays.place_of(drive).is_none()
            };
            return Ok(self.inventory.drive_called(spec).filter(is_free));
        }
        match self.inventory.drive_called(spec) {
            Some(drive) => Ok(Some(drive)),
            None if self.arrays.slot_named(spec).is_some() => {
                self.arrays.find_drive(spec).map(Some)
            }
            None => Ok(None),
        }
    }

    fn new_drive_beside(&self, spec: &str, candidates: &[Candidate]) -> Rc<Drive> {
        let taken = |name: &str| {
            self.inventory.drive_called(name).is_some()
                || candidates.iter().any(|candidate| candidate.drive.name == name)
        };
        if is_volatile(spec) && taken(spec) {
            let free = (2_u32..).map(|number| format!("{spec}#{number}")).find(|name| !taken(name));
            return self.inventory.unregistered(free.unwrap_or_default(), spec);
        }
        self.inventory.unregistered(spec.to_owned(), spec)
    }

    /// Registers drives that a command named, and stores their names and sizes. This precedes all
    /// writes to them: after a crash, their labels would not be found otherwise.
    ///
    /// # Errors
    /// When these cannot be stored; the drives are not registered.
    pub(crate) async fn adopt(&self, candidates: &[Candidate]) -> Result<()> {
        // Two memory drives requested by one name are two drives.
        let new = candidates.iter().filter(|candidate| candidate.is_new);
        let new: Vec<Rc<Drive>> = new.map(|candidate| candidate.drive.clone()).collect();
        self.inventory.remember_ends(candidates.iter().map(|candidate| &*candidate.drive)).await?;
        self.inventory.add(new).await
    }

    /// The same for drives that get new labels: no two of them may be the same storage.
    ///
    /// # Errors
    /// When two are the same storage, or that cannot be determined; when the names cannot be
    /// stored.
    pub(crate) async fn adopt_apart(&self, candidates: &[Candidate]) -> Result<()> {
        self.adopt(candidates).await?;
        let drives: Vec<Rc<Drive>> =
            candidates.iter().map(|candidate| candidate.drive.clone()).collect();
        let mut beside = self.inventory.drives();
        beside.retain(|drive| {
            !self.arrays.is_in_use(drive) && drives.iter().all(|other| !Rc::ptr_eq(other, drive))
        });
        self.inventory.tell_apart(&drives, &beside).await
    }

    /// After a refusal: closes and forgets drives that were opened for this command.
    pub(crate) async fn let_go(&self, candidates: &[Candidate]) {
        let new = candidates.iter().filter(|candidate| candidate.is_new);
        let new: Vec<&Rc<Drive>> = new.map(|candidate| &candidate.drive).collect();
        if let Err(error) = self.inventory.remove(&new).await {
            // They stay registered, without a label.
            tracing::warn!("drives that were not taken stay registered: {error}");
        }
    }
}

/// Notes that drives are partitions of one disk and fail with it: a sentence for each further
/// partition.
pub(super) fn on_one_disk(candidates: &[Candidate]) -> Vec<String> {
    let is_with = |at: usize| {
        let disk = candidates[at].disk()?;
        let other = candidates[..at].iter().find(|other| other.disk().as_ref() == Some(&disk))?;
        Some(format!(
            "{} and {} are partitions of disk {disk}, and are lost together with it",
            other.drive.name, candidates[at].drive.name
        ))
    };
    (0..candidates.len()).filter_map(is_with).collect()
}
