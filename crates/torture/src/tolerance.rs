//! Compares a volume's reported fault tolerance with its layout and missing drives.
//!
//! The comparison needs consistent redundancy. Then the volume is read without every set of drives
//! that the level survives (`inquest.rs`): this proves any reported value up to the counted one.

use crate::error::{Error, Result};
use crate::host::{out_of, rebuilt};
use crate::scene::Scene;
use controller::VolumeInfo;
use layout::Level;
use units::{DriveIndex, DriveSet};

/// The number of further drives that may fail, in the worst case; counted over all sets.
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

/// Compares the value that the controller reports for a volume with consistent redundancy.
///
/// # Errors
/// When it is higher, or lower although no block was ever unreadable.
pub(crate) fn compare(scene: &Scene, volume: &VolumeInfo) -> Result<()> {
    // During a reshape the value is the minimum of both layouts; the content of a distributed spare
    // is unknown here.
    let has_spare = scene.layouts().any(|layout| layout.level() == Level::Raid5ee);
    if scene.may_move() || !scene.is_redundant() || has_spare && scene.is_spare_used() {
        return Ok(());
    }
    // A rebuilding drive may have all written data.
    let own = DriveSet::first(scene.drive_count());
    let out = out_of(volume).intersection(&own);
    let gone = out.minus(&rebuilt(volume));
    let (stated, least, most) = (volume.may_lose, counted(scene, &out), counted(scene, &gone));
    let may_be_less = scene.array.faults.borrow().ever_unreadable();
    if stated > most || stated < least && !may_be_less {
        return Error::wrong_state(format!(
            "the reported fault tolerance is {stated} drives; without drives {out:?} it is {least} \
                to {most}"
        ));
    }
    Ok(())
}
