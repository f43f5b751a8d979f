//! The check whether a volume may be attached to the shards, and the start of a volume in a started
//! array.

use super::Arrays;
use super::array::Array;
use super::failures::failing;
use super::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result, VolumeState};
use engine::{Change, RegionIndex, RegionSet};
use ondisk::{Readiness, Uuid};
use std::rc::Rc;
use units::counted;

fn wrong(sentence: impl Into<String>) -> Error {
    Error::new(ErrorKind::WrongState, sentence)
}

/// The operator's confirmations for a start that needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOrder {
    /// The volume whose stale parity is accepted.
    pub(crate) forced: Option<Uuid>,
    /// Missing drives were not used without the present ones.
    pub(crate) without_missing: bool,
}

impl StartOrder {
    /// No confirmation was given.
    pub(crate) const NONE: StartOrder = StartOrder { forced: None, without_missing: false };

    /// A confirmation for a reshaping volume applies to its parts as well: to users they are one
    /// volume.
    fn accepts_parity(self, volume: &Volume) -> bool {
        let owner = volume.label().part.map_or(volume.uuid(), |part| part.of);
        self.forced == Some(owner)
    }
}

impl Arrays {
    /// Accepts stale parity, by the operator's confirmation or the replayed journal.
    pub(crate) fn force_as_ordered(&self, array: &Array, volume: &Rc<Volume>, order: StartOrder) {
        for volume in array.with_parts(volume) {
            if volume.is_covered() {
                array.force(&volume, Change::ForcedByLog);
            } else if order.accepts_parity(&volume) && self.needs_order(array, &volume) {
                array.force(&volume, Change::Forced);
            }
        }
    }

    pub(crate) fn report_started(
        &self,
        array: &Array,
        volume: &Volume,
        was_shut_down: bool,
        marked: usize,
        order: StartOrder,
    ) {
        let (name, how) = (volume.name(), array.current_state(volume));
        let cause = match (was_shut_down, marked) {
            (true, 0) => "it was cleanly shut down",
            (true, _) => "it was cleanly shut down before its resync was complete",
            (false, 0) => "it was not cleanly shut down, and no write was interrupted",
            (false, _) => "it was not cleanly shut down",
        };
        let tail = match marked {
            0 => String::new(),
            marked if order.accepts_parity(volume) && how == VolumeState::Degraded => format!(
                "; stale parity was accepted in {}: blocks of the missing drive may be wrong there",
                counted(marked, "region")
            ),
            marked => format!("; {} to resync", counted(marked, "region")),
        };
        let effect = format!("it is {how}{tail}");
        let code = match how {
            VolumeState::Degraded => EventCode::VolumeStartedDegraded,
            _ => EventCode::VolumeStarted,
        };
        self.events.report(
            code,
            &name,
            cause,
            &effect,
            format!("'{name}' was started: {cause}; {effect}"),
        );
    }

    /// Whether a volume has a marked region in which data must be reconstructed from parity: for a
    /// member that is out, or that is still to be rebuilt there.
    fn needs_order(&self, array: &Array, volume: &Volume) -> bool {
        if array.readiness(volume) == Readiness::Offline
            || !volume.has_parity()
            || volume.is_covered()
        {
            return false;
        }
        let map = array.map.borrow();
        let mut marked = volume.regions().filter(|region| map.is_marked(*region));
        // Members that the volume does not use miss nothing of it: they are about to leave.
        let own = units::DriveSet::first(volume.geometry.drives());
        if !array.not_current().union(&array.out()).intersection(&own).is_empty() {
            return marked.next().is_some();
        }
        let behind = array.behind(volume);
        let stale: Vec<RegionSet> =
            behind.iter().map(|drive| array.missed(drive.as_usize())).collect();
        marked.any(|region| stale.iter().any(|stale| stale.contains(RegionIndex(region))))
    }

    /// Checks whether everything that a volume needs besides its drives is present: its log, and
    /// the cache's memory.
    ///
    /// # Errors
    /// The missing part, and what to do.
    fn check_all_is_here(&self, array: &Array, volume: &Rc<Volume>) -> Result<()> {
        let all = array.with_parts(volume);
        all.iter().try_for_each(|volume| self.check_log_is_here(array, volume))?;
        all.iter().try_for_each(|volume| self.check_memory_is_here(volume))
    }

    /// Checks whether some volume of an array has everything that it needs besides its drives. This
    /// check precedes those of the drives: otherwise an operator would have to confirm these twice.
    ///
    /// # Errors
    /// What the last volume lacks; each volume records its own error.
    pub(crate) fn check_some_is_here(&self, array: &Array, ready: &[Rc<Volume>]) -> Result<()> {
        let checked = ready.iter().map(|volume| {
            let checked = self.check_all_is_here(array, volume);
            volume.set_refusal(checked.as_ref().err().map(|error| error.message.clone()));
            checked
        });
        let checked: Vec<Result<()>> = checked.collect();
        match checked.iter().any(Result::is_ok) {
            true => Ok(()),
            false => checked.into_iter().last().unwrap_or(Ok(())),
        }
    }

    /// Checks whether a volume of an array whose map was read may be started now.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn judge(
        &self,
        array: &Array,
        volume: &Rc<Volume>,
        order: StartOrder,
    ) -> Result<()> {
        let all = array.with_parts(volume);
        // Users know the parts of a reshaping volume as that volume.
        let name = all.first().unwrap_or(volume).name();
        let reasons = array.why_not_whole();
        let has_lost = all.iter().any(|volume| !volume.lost().is_empty());
        if array.readiness(volume) == Readiness::Offline || has_lost {
            return Err(wrong(format!("'{name}' cannot be started: {reasons}")));
        }
        self.check_all_is_here(array, volume)?;
        let is_other = |other: &Rc<Array>| other.uuid != array.uuid;
        let has_name =
            |other: &Rc<Array>| other.served().iter().any(|volume| volume.name() == name);
        if self.all().iter().any(|other| is_other(other) && has_name(other)) {
            return Err(Error::new(
                ErrorKind::NameTaken,
                format!(
                    "there are two volumes '{name}'; rename one: run 'softroc volume rename {} \
                        NEW'",
                    volume.uuid()
                ),
            ));
        }
        let is_open =
            |volume: &Volume| !order.accepts_parity(volume) && self.needs_order(array, volume);
        let Some(volume) = all.iter().find(|volume| is_open(volume)) else { return Ok(()) };
        let marked =
            volume.regions().filter(|region| array.map.borrow().is_marked(*region)).count();
        let regions = counted(marked, "region");
        let too = if order.without_missing { " --degraded" } else { "" };
        let why = match array.label().was_shut_down() {
            true => {
                format!(
                    "and the resync of {regions} was not complete when it was shut down \
                        ({reasons}):"
                )
            }
            false => format!(
                "and was not cleanly shut down ({reasons}): in {regions} a write may have been \
                    interrupted, and"
            ),
        };
        Err(wrong(format!(
            "'{name}' is degraded {why} the missing drive's data cannot be computed there. Connect \
            the drive and start the volume again; or, to accept wrong blocks of that drive there, \
            run 'softroc volume start {name} --accept-stale-parity{too}'"
        )))
    }

    /// Starts a volume of a started array that could not be started before.
    pub(crate) async fn start_one(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        order: StartOrder,
    ) -> Result<()> {
        let _turn = array.starting.take(1).await;
        if volume.is_served() {
            return Ok(()); // Another task has started it meanwhile.
        }
        if !array.is_running() {
            return Err(wrong(format!("{} is offline", array.names())));
        }
        let replayed = self.replay_late(array, volume).await;
        let judged = replayed.and_then(|()| self.judge(array, volume, order));
        *volume.refusal.borrow_mut() = judged.as_ref().err().map(|error| error.message.clone());
        judged?;
        self.force_as_ordered(array, volume, order);
        self.attach(array, volume).await?;
        let marked =
            volume.regions().filter(|region| array.map.borrow().is_marked(*region)).count();
        self.report_started(array, volume, false, marked, order);
        Ok(())
    }

    /// Replays the journal of a volume of a started array, and those of its parts.
    ///
    /// # Errors
    /// As [`Arrays::replay_journals`]; or which drive has outstanding operations of an earlier
    /// attachment.
    pub(crate) async fn replay_late(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        for part in array.with_parts(volume) {
            self.check_returned(array, &part).await?;
        }
        let failed = self.replay_journals(array, &array.with_parts(volume)).await?;
        if !failed.is_empty() {
            let _turn = array.metadata.take(1).await;
            self.put_out(array, failing(failed, "finishing interrupted writes")).await;
        }
        Ok(())
    }

    /// A drive was added: volumes that waited for it are started, and it is rebuilt where it is
    /// stale.
    pub(crate) async fn go_on_with(self: &Rc<Self>, array: &Rc<Array>) {
        for volume in array.known_volumes() {
            if volume.is_served() {
                self.attention.look_after();
            } else if let Err(error) = self.start_one(array, &volume, StartOrder::NONE).await {
                tracing::info!("'{}' stays offline: {error}", volume.name());
            }
        }
    }
}
