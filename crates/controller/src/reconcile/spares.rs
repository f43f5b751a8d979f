//! Hot spares: drives that replace a failed drive automatically.
//!
//! A spare carries its own label with its scope, so it remains a spare after a restart and on
//! another host. [`choose`](crate::reconcile::choose) selects a spare; the reconciler decides when.

use crate::arrays::array::Array;
use crate::arrays::volume_names;
use crate::events::EventCode;
use crate::interface::{
    AddSpare, CoverageInfo, Error, ErrorKind, Reply, Result, SpareInfo, SpareKind,
};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::reconcile::Reconciler;
use crate::reconcile::choose::{Need, Offer, Standing, choose_spare, kind_name, refusal};
use ondisk::{BLOCK, SpareLabel, SpareScope};
use std::rc::Rc;
use units::{ByteCount, both_capacities};

impl Reconciler {
    /// Checks that spares are present and still carry their labels; otherwise a problem would
    /// remain hidden until they are needed.
    pub(super) async fn look_at_spares(self: &Rc<Self>) {
        let spares = self.spares();
        let is_well = |spare: &Rc<Drive>| spare.access().is_some() && spare.problem().is_none();
        let before: Vec<(bool, u64)> =
            spares.iter().map(|spare| (is_well(spare), spare.epoch())).collect();
        self.inventory.look_at(spares.clone()).await;
        for (spare, (was_well, epoch)) in spares.into_iter().zip(before) {
            let _turn = self.turn.take(1).await;
            // It may have been taken or removed meanwhile.
            if spare.epoch() != epoch || self.arrays.is_in_use(&spare) {
                continue;
            }
            let is_spare = spare.spare().is_some() && spare.access().is_some();
            if is_spare && spare.problem().is_none() {
                if !was_well {
                    let text = format!("spare {} is present again", spare.name);
                    self.events.report(
                        EventCode::SpareReady,
                        &spare.name,
                        "it responds",
                        "it is ready",
                        text,
                    );
                    self.attention.look_after();
                }
            } else if was_well {
                let why = spare
                    .problem()
                    .map_or_else(|| "it has no label any more".to_owned(), |p| p.message);
                let text = format!("spare {} has failed: {why}", spare.name);
                self.events.report(
                    EventCode::SpareFailed,
                    &spare.name,
                    &why,
                    "it is no longer a spare",
                    text,
                );
            }
        }
    }

    /// `spare add`.
    pub(crate) async fn add_spare(self: &Rc<Self>, add: AddSpare) -> Result<Reply> {
        let scope = self.scope_of(&add)?;
        let mut candidates = Vec::new();
        let checked = self
            .lifecycle
            .check_candidates(std::slice::from_ref(&add.drive), add.destroy_data, &mut candidates)
            .await;
        let made = match checked {
            Ok(()) => match candidates.first() {
                Some(candidate) => match self.lifecycle.adopt_apart(&candidates).await {
                    Ok(()) => self.make_spare(&candidate.drive, scope, &add).await,
                    Err(error) => Err(error),
                },
                None => Err(Error::new(ErrorKind::Invalid, "a spare is a drive; name one")),
            },
            Err(error) => Err(error),
        };
        if let Err(error) = made {
            self.lifecycle.let_go(&candidates).await;
            return Err(error);
        }
        let drive = candidates[0].drive.clone();
        let info = self.spare_info(&drive);
        let mut notes = Vec::new();
        if drive.is_volatile() {
            notes.push("a drive in memory loses its contents when the controller stops".to_owned());
        }
        if let Some(info) = &info
            && info.covers.is_empty()
        {
            notes.push(match self.arrays.all().is_empty() {
                true => "there is no volume yet that it could cover".to_owned(),
                false => {
                    format!(
                        "drive {} fits no array now; 'softroc spare list' shows why",
                        drive.name
                    )
                }
            });
        }
        self.attention.look_after();
        match info {
            Some(spare) => Ok(Reply::Spare { spare: Box::new(spare), notes }),
            None => Err(Error::new(
                ErrorKind::Failed,
                format!("the label of drive {} could not be written", drive.name),
            )),
        }
    }

    /// The scope of a new spare.
    fn scope_of(&self, add: &AddSpare) -> Result<SpareScope> {
        if add.volumes.is_empty() {
            return Ok(if add.same_enclosure { SpareScope::Enclosure } else { SpareScope::Global });
        }
        if add.same_enclosure {
            let sentence =
                "a spare is dedicated to volumes or to an enclosure; leave one of the two out";
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let mut arrays = Vec::new();
        for volume in &add.volumes {
            let (array, _) = self.arrays.find_volume(volume)?;
            if !arrays.contains(&array.uuid) {
                arrays.push(array.uuid);
            }
        }
        Ok(SpareScope::Arrays(arrays))
    }

    async fn make_spare(&self, drive: &Rc<Drive>, scope: SpareScope, add: &AddSpare) -> Result<()> {
        let enclosure = drive.enclosure();
        if scope == SpareScope::Enclosure && enclosure.is_none() {
            let sentence = format!(
                "the enclosure of drive {} is unknown; dedicate it to volumes with --for VOLUME",
                add.drive
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let label = SpareLabel {
            drive: self.arrays.new_uuid(),
            scope,
            enclosure,
            revertible: add.revertible,
            since_unix_s: self.env.unix_time(),
        };
        label.check().map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        self.inventory.write_spare_label(drive, label.clone()).await?;
        let what = self.arrays.describe_scope(&label.scope, label.enclosure.as_deref());
        let text = format!("drive {} is a hot spare for {what}", drive.name);
        self.events.report(
            EventCode::SpareAdded,
            &drive.name,
            "an operator added it",
            &format!("it is ready for {what}"),
            text,
        );
        Ok(())
    }

    /// `spare remove`.
    pub(crate) async fn remove_spare(self: &Rc<Self>, name: &str) -> Result<Reply> {
        let drive = self.arrays.find_drive(name)?;
        if drive.spare().is_none() {
            let sentence = match self.arrays.place_of(&drive) {
                Some((array, slot)) => format!(
                    "drive {name} is drive {slot} of {} now, not a spare; replace it with 'softroc \
                        drive replace'",
                    array.names()
                ),
                None => format!("drive {name} is not a spare; 'softroc spare list' lists them"),
            };
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        self.inventory.take_label_off(&drive, "a spare").await;
        if drive.spare().is_some() {
            let sentence = format!(
                "the label of drive {name} could not be erased; 'softroc events' shows why"
            );
            return Err(Error::new(ErrorKind::Failed, sentence));
        }
        let text = format!("drive {} is no longer a spare", drive.name);
        self.events.report(
            EventCode::SpareRemoved,
            &drive.name,
            "an operator removed it",
            "it is no longer a spare",
            text,
        );
        let mut notes = Vec::new();
        for coverage in self.coverage() {
            if coverage.covered_by.is_empty() {
                notes.push(format!("no spare covers {} now", coverage.volumes.join(", ")));
            }
        }
        Ok(Reply::Done { notes })
    }

    /// The spares, by name.
    pub(crate) fn spares(&self) -> Vec<Rc<Drive>> {
        let drives = self.inventory.drives();
        let mut spares: Vec<Rc<Drive>> = drives
            .iter()
            .filter(|drive| drive.spare().is_some() && !self.arrays.is_in_use(drive))
            .cloned()
            .collect();
        spares.sort_by(|a, b| a.name.cmp(&b.name));
        spares
    }

    /// `spare list`.
    pub(crate) fn spares_reply(&self) -> Reply {
        Reply::Spares { spares: self.spare_infos(), coverage: self.coverage() }
    }

    /// Every spare, by name.
    pub(crate) fn spare_infos(&self) -> Vec<SpareInfo> {
        self.spares().iter().filter_map(|drive| self.spare_info(drive)).collect()
    }

    fn spare_info(&self, drive: &Rc<Drive>) -> Option<SpareInfo> {
        let label = drive.spare()?;
        let (access, offer) = (drive.access(), self.offer(drive));
        let redundant: Vec<Rc<Array>> =
            self.arrays.all().into_iter().filter(|array| is_redundant(array)).collect();
        let covers = |array: &&Rc<Array>| {
            offer.as_ref().is_some_and(|offer| refusal(&self.need_of(array, None), offer).is_none())
        };
        let covered: Vec<String> =
            redundant.iter().filter(covers).flat_map(|array| volume_names(array)).collect();
        let reason = match &offer {
            None => Some(format!("drive {} is missing", drive.name)),
            Some(Offer { fault: Some(fault), .. }) => Some(format!("drive {} {fault}", drive.name)),
            Some(_) => None,
        };
        let (kind, arrays) = match &label.scope {
            SpareScope::Global => (SpareKind::Global, &[][..]),
            SpareScope::Enclosure => (SpareKind::Enclosure, &[][..]),
            SpareScope::Arrays(arrays) => (SpareKind::Dedicated, arrays.as_slice()),
        };
        Some(SpareInfo {
            drive: drive.name.clone(),
            kind,
            dedicated_to: arrays.iter().flat_map(|array| self.arrays.names_of(*array)).collect(),
            enclosure: label.enclosure,
            revertible: label.revertible,
            rotational: drive.rotates().unwrap_or_default(),
            size_bytes: access.as_ref().map(|access| access.info().size.0),
            drive_kind: access.as_ref().map(|access| access.info().kind.to_string()),
            ready: offer.is_some() && reason.is_none(),
            reason,
            covers: covered,
        })
    }

    /// The spares that cover each array, and the reasons for arrays without one.
    pub(crate) fn coverage(&self) -> Vec<CoverageInfo> {
        let offers: Vec<Offer> =
            self.spares().iter().filter_map(|drive| self.offer(drive)).collect();
        let covered = |array: Rc<Array>| {
            let need = self.need_of(&array, None);
            let fits = |offer: &&Offer| refusal(&need, offer).is_none();
            let mut covered_by: Vec<String> =
                offers.iter().filter(fits).map(|offer| offer.name.clone()).collect();
            if let Ok(first) = choose_spare(&need, &offers) {
                let first = offers[first].name.clone();
                covered_by.retain(|name| *name != first);
                covered_by.insert(0, first);
            }
            let why =
                |offer: &Offer| Some(format!("drive {} {}", offer.name, refusal(&need, offer)?));
            let mut reasons: Vec<String> = offers.iter().filter_map(why).collect();
            if offers.is_empty() {
                reasons.push("there are no spares".to_owned());
            }
            CoverageInfo {
                volumes: volume_names(&array),
                needs_bytes: need.size.0,
                needs_rotational: need.rotational.filter(|_| !need.mixed_kinds),
                covered_by,
                reasons,
            }
        };
        self.arrays.all().into_iter().filter(|array| is_redundant(array)).map(covered).collect()
    }

    /// The requirements of a slot; of any slot if none is given.
    pub(super) fn need_of(&self, array: &Array, slot: Option<usize>) -> Need {
        let label = array.label();
        let drives: Vec<Rc<Drive>> =
            (0..label.member.len()).filter_map(|slot| array.drive(slot)).collect();
        let enclosure = |drive: &Rc<Drive>| drive.enclosure();
        let kinds: Vec<bool> = drives.iter().filter_map(|drive| drive.rotates()).collect();
        let all_alike =
            kinds.first().copied().filter(|first| kinds.iter().all(|kind| kind == first));
        let own = slot.and_then(|slot| array.drive(slot));
        let sector = label.volume.iter().map(|volume| volume.sector_bytes).min().unwrap_or(BLOCK.0);
        let named = slot.and_then(|slot| label.member.get(slot)?.enclosure.clone());
        Need {
            array: array.uuid,
            size: array.label_to_come().needed_bytes(),
            sector: ByteCount(sector),
            rotational: own.as_ref().and_then(|drive| drive.rotates()).or(all_alike),
            mixed_kinds: label.policy.mixed_kinds,
            emergency: label.policy.emergency_spare,
            enclosure: own.as_ref().and_then(enclosure).or(named),
            enclosures: drives.iter().filter_map(enclosure).collect(),
        }
    }

    /// A drive as a candidate; `None` while it is not open.
    pub(super) fn offer(&self, drive: &Rc<Drive>) -> Option<Offer> {
        let access = drive.access()?;
        let info = access.info();
        let label = drive.spare();
        let standing = match label.as_ref().map(|label| &label.scope) {
            Some(SpareScope::Global) => Standing::Global,
            Some(SpareScope::Enclosure) => Standing::Enclosure,
            Some(SpareScope::Arrays(arrays)) => Standing::Dedicated(arrays.clone()),
            None => Standing::Unassigned,
        };
        let read_only = info.read_only.then(|| "refuses writes".to_owned());
        let problem =
            || drive.problem().map(|problem| format!("cannot be used: {}", problem.message));
        let late = || drive.holds_writes_back().then(|| "has outstanding operations".to_owned());
        Some(Offer {
            name: drive.name.clone(),
            standing,
            size: info.size,
            sector: info.logical_sector.bytes(),
            rotational: info.rotational,
            enclosure: info.hardware.enclosure.clone().or(label.and_then(|label| label.enclosure)),
            fault: self.inventory.suspicion_of(drive).or(read_only).or_else(problem).or_else(late),
        })
    }

    /// All candidates for an array: spares and, if its policy allows, unused empty drives.
    pub(super) async fn offers(&self, array: &Array) -> Vec<(Rc<Drive>, Offer)> {
        let mut drives = self.spares();
        drives.retain(|drive| self.inventory.failure_of(drive).is_none());
        if array.label().policy.emergency_spare {
            let others: Vec<Rc<Drive>> = self.inventory.drives();
            for drive in others {
                if !drive.is_volatile() && self.is_blank(&drive).await {
                    drives.push(drive);
                }
            }
        }
        drives
            .into_iter()
            .filter_map(|drive| self.offer(&drive).map(|offer| (drive, offer)))
            .collect()
    }

    /// Whether a drive is unused and empty.
    pub(super) async fn is_blank(&self, drive: &Rc<Drive>) -> bool {
        let free = !self.arrays.is_in_use(drive)
            && self.arrays.place_of(drive).is_none()
            && drive.problem().is_none()
            && self.inventory.failure_of(drive).is_none()
            && !drive.holds_writes_back();
        free && drive.access().is_some()
            && matches!(drive.label(), LabelSeen::Blank)
            && drive.findings(&self.env, false).await.is_ok_and(|findings| findings.is_empty())
    }
}

/// Whether an array has redundancy, so that a spare is useful.
pub(crate) fn is_redundant(array: &Array) -> bool {
    array.volumes().iter().any(|volume| volume.is_redundant())
}

/// The requirements of a slot, within a sentence: `an SSD of 1 TB`.
pub(super) fn describe_need(need: &Need) -> String {
    let kind = match need.rotational {
        Some(rotational) if !need.mixed_kinds => kind_name(rotational),
        _ => "a drive",
    };
    format!("{kind} of {}", both_capacities(need.size))
}
