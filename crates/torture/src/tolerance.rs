//! How many more drives a volume may lose, as the controller states it, against what its layout and the drives that are out say.
//!
//! It is looked at where all redundancy agrees. Then every set of drives that the level survives is left out and the volume is read
//! (`inquest.rs`): a figure that is no larger than what is counted here is true of what hosts wrote.

use crate::error::{Error, Result};
use crate::host::{out_of, rebuilt};
use crate::scene::Scene;
use controller::VolumeInfo;
use layout::Level;
use units::{DriveIndex, DriveSet};

/// How many more drives may fail, whichever they are, beside those that are out: counted, set by set.
fn counted(scene: &Scene, out: &DriveSet) -> u16 {
    let drives: Vec<DriveIndex> =
        scene.drive_count().indexes().filter(|drive| !out.contains(*drive)).collect();
    let mut sets = vec![(*out, 0)];
    for more in 1..=drives.len() {
        let mut larger = Vec::new();
        for (set, next) in &sets {
            larger.extend((*next..drives.len()).map(|at| (set.with(drives[at]), at + 1)));
        }
        if !larger.iter().all(|(set, _)| scene.survives(set)) {
            return more as u16 - 1;
        }
        sets = larger;
    }
    drives.len() as u16
}

/// Compares what the controller states of a volume whose redundancy agrees.
///
/// # Errors
/// When it states more, or less though no block of any drive was ever lost.
pub(crate) fn compare(scene: &Scene, volume: &VolumeInfo) -> Result<()> {
    // On its way the figure is that of both layouts; what is in a distributed spare is not known here.
    let has_spare = scene.layouts().any(|layout| layout.level() == Level::Raid5ee);
    if scene.may_move() || !scene.is_redundant() || has_spare && scene.is_spare_used() {
        return Ok(());
    }
    // One that is rebuilt may miss nothing that a host wrote.
    let own = DriveSet::first(scene.drive_count());
    let out = out_of(volume).intersection(&own);
    let gone = out.minus(&rebuilt(volume));
    let (stated, least, most) = (volume.may_lose, counted(scene, &out), counted(scene, &gone));
    let may_be_less = scene.array.faults.borrow().ever_unreadable();
    if stated > most || stated < least && !may_be_less {
        return Error::wrong_state(format!(
            "the volume is said to survive the loss of any {stated} drives, and without drives {out:?} it survives that of any {least} to {most}"
        ));
    }
    Ok(())
}
