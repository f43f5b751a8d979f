//! Real processes on real files: from the first acknowledged write, a volume survives the loss of
//! as many drives as its level guarantees. Drives are blank, truncated or full of noise. The volume
//! is new, half initialised, in or after a migration, write-through or write-back. The controller
//! is stopped or killed, or the power fails. Then drives are lost, and an NBD client reads the
//! whole degraded volume: flushed data are correct, unwritten data are zeros, and without a flush
//! each sector is old or new.
//!
//! A power cut removes the process, the cache's memory (deleted, with a new boot ID), and the
//! drives' caches: `nbdkit` serves the files as drives with its filter `cache`, and is killed. Only
//! some drives of an array have such a cache. Partly written drive caches are tested in the
//! simulator only (`controller`, `tests/first_losses.rs`), like power cuts of the file system.
//! `nbdkit` also serves drives full of noise, slowly, so that the initialisation does not end
//! before a drive is lost.
//!
//! `INITIALISATION_TESTS=all` runs all cases, and all sets of lost drives of up to five drives;
//! otherwise a sample.

mod bed;
#[path = "../common/mod.rs"]
mod common;
mod content;
mod servers;
mod table;

use bed::Bed;
use common::{have, not_possible, until};
use std::process::{Command, Stdio};
use table::{Case, End, SHAPES, Stage, cases};

/// Fails drives under a running controller, reads, and reads again after a restart.
fn lose_in_order(case: &Case, lost: &[usize]) -> Option<bool> {
    let mut bed = Bed::new(case)?;
    let was_seen = bed.live();
    for drive in lost {
        bed.controller.softroc(&["drive", "fail", &bed.names[*drive]]).ok();
    }
    bed.content.look(&bed.controller, &case.why(lost));
    bed.controller.stop();
    bed.servers = None;
    lost.iter().for_each(|drive| std::fs::remove_file(&bed.files[*drive]).expect("it is there"));
    bed.start_without(lost);
    Some(was_seen)
}

/// Ends a process and its drives, and starts again without each set of drives.
fn lose_at_end(case: &Case, sets: &[Vec<usize>]) -> Option<bool> {
    let mut bed = Bed::new(case)?;
    let was_seen = bed.live();
    if case.is_power_cut() {
        bed.power_cut();
    } else {
        bed.controller.kill_9();
        bed.servers = None;
    }
    bed.keep();
    for lost in sets {
        bed.restore(lost);
        bed.start_without(lost);
        // Once per case the initialisation is completed, which must not change the content.
        if lost == &sets[0] && case.stage == Stage::New && !case.is_power_cut() {
            until("it is initialised", || bed.is_initialised());
            bed.content
                .look(&bed.controller, &format!("{}, when all is initialised", case.why(lost)));
        }
        bed.controller.kill_9();
        bed.servers = None;
    }
    Some(was_seen)
}

/// Whether the boot ID can be replaced here; prints a note if not.
fn can_boot() -> bool {
    let status = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    let can = status.is_ok_and(|status| status.success());
    if !can {
        not_possible("power cuts", "this user cannot show a process another boot");
    }
    can
}

/// Regression: a RAID 5 on used drives lost a drive in its first minutes, and a quarter of the
/// flushed data was unreadable until the initial resync had passed it, which takes days on large
/// drives.
fn survives_what_it_says(level: &str) {
    let (nth, shape) = SHAPES
        .iter()
        .enumerate()
        .find(|(_, shape)| shape.level == level)
        .expect("it is in the table");
    let has_servers = have("nbdkit");
    let can_cut_power = have("unshare") && can_boot();
    let (mut tried, mut losses, mut passed) = (0, 0, 0);
    for (case, sets) in cases(nth, shape) {
        if case.has_servers() && !has_servers || case.is_power_cut() && !can_cut_power {
            continue;
        }
        let seen: Option<Vec<bool>> = match case.end {
            End::InOrder => sets.iter().map(|lost| lose_in_order(&case, lost)).collect(),
            _ => lose_at_end(&case, &sets).map(|seen| vec![seen]),
        };
        let Some(seen) = seen else { return };
        tried += 1;
        losses += sets.len();
        passed += seen.iter().filter(|seen| !**seen).count();
    }
    println!(
        "{level}: {tried} cases, {losses} sets of lost drives; {passed} arrays passed their stage \
            unseen"
    );
}

#[test]
fn raid_1_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid1");
}

#[test]
fn raid_1e_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid1e");
}

#[test]
fn raid_10_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid10");
}

#[test]
fn raid_4_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid4");
}

#[test]
fn raid_5_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid5");
}

#[test]
fn raid_5ee_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid5ee");
}

#[test]
fn raid_6_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid6");
}

#[test]
fn raid_50_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid50");
}

#[test]
fn raid_60_survives_what_it_says_from_the_first_write_on() {
    survives_what_it_says("raid60");
}
