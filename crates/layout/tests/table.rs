//! The table of levels: complete, consistent, and readable by name.

use layout::{Level, ParityRotation, Survives};
use units::DriveCount;

#[test]
fn every_level_has_its_row_and_its_name() {
    for level in Level::ALL {
        let row = level.row();
        assert_eq!(row.level, level);
        assert_eq!(row.name.parse::<Level>().unwrap(), level);
        assert_eq!(row.name.to_uppercase().parse::<Level>().unwrap(), level);
        assert_eq!(row.title.to_lowercase().replace(' ', ""), row.name);
        assert!(row.min_drives < row.max_drives);
    }
}

#[test]
fn every_level_uses_all_its_drives_and_survives_what_its_redundancy_is() {
    for level in Level::ALL {
        let row = level.row();
        for drives in (row.min_drives.0..=row.max_drives.0).map(DriveCount) {
            let strips = (row.data_strips)(drives) * (row.copies)(drives) + row.parity_strips;
            assert_eq!(strips, drives.0, "{level} on {drives}");
            let Survives { at_least, at_most } = (row.survives)(drives);
            assert_eq!(at_least.0, (row.copies)(drives) - 1 + row.parity_strips, "{level} on {drives}");
            assert!(at_least <= at_most && at_most < drives, "{level} on {drives}");
            assert_eq!(level.is_redundant(), at_least > DriveCount(0), "{level}");
        }
    }
}

#[test]
fn the_textbook_write_penalties_hold() {
    let penalty = |level: Level, drives| (level.row().write_penalty)(DriveCount(drives));
    assert_eq!((penalty(Level::Raid0, 8), penalty(Level::Raid1, 2), penalty(Level::Raid5, 8)), (1, 2, 4));
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = "raid7".parse::<Level>().unwrap_err();
    assert_eq!(error.to_string(), "'raid7' is not a level; expected one of raid0, raid1, raid5");
    let error = "sideways".parse::<ParityRotation>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "'sideways' is not a parity rotation; expected one of left-symmetric, left-asymmetric, right-symmetric, right-asymmetric"
    );
    for rotation in ParityRotation::ALL {
        assert_eq!(rotation.to_string().parse::<ParityRotation>().unwrap(), rotation);
    }
}
