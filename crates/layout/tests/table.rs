//! The table of levels: complete, consistent, and found by name.

mod shapes;

use layout::{Level, MirrorArrangement, ParityArrangement, Shape};
use shapes::geometries;
use units::{ByteCount, DriveCount, StripSize};

#[test]
fn every_level_has_its_row_and_its_name() {
    for level in Level::ALL {
        let row = level.row();
        assert_eq!(row.level, level);
        assert_eq!(row.name.parse::<Level>().unwrap(), level);
        assert_eq!(row.name.to_uppercase().parse::<Level>().unwrap(), level);
        assert_eq!(row.title.to_lowercase().replace(' ', ""), row.name);
        assert_eq!(row.min_drives.0, row.spans.start() * row.drives_per_span.start(), "{level}");
        assert!(row.max_drives.0 <= row.spans.end() * row.drives_per_span.end(), "{level}");
        for drives in [row.min_drives, row.max_drives] {
            let spans = row.spans.clone().find(|spans| {
                Shape { spans: Some(*spans), ..Shape::new(level, drives) }.check().is_ok()
            });
            assert!(spans.is_some(), "{level} on {drives}");
        }
    }
}

#[test]
fn every_level_uses_all_its_drives() {
    for drives in 1..=64 {
        for g in geometries(drives, StripSize::MIN, ByteCount::MIB) {
            let strips = g.data_strips() * g.copies() + g.parity_strips() + g.spare_strips();
            assert_eq!(strips, g.cells_per_stripe(), "{g}");
            assert_eq!(strips * g.stripes_per_row(), drives * g.rows_per_stripe(), "{g}");
            assert_eq!(g.level().is_redundant(), g.survives().at_least > DriveCount(0), "{g}");
        }
    }
}

#[test]
fn the_textbook_write_penalties_hold() {
    let penalty = |level: Level, drives| {
        let g = layout::Geometry::new(level, DriveCount(drives), StripSize::MIN, ByteCount::MIB)
            .unwrap();
        g.write_penalty()
    };
    let textbook = [
        (Level::Jbod, 1, 1),
        (Level::Raid0, 8, 1),
        (Level::Raid00, 8, 1),
        (Level::Raid1, 2, 2),
        (Level::Raid1e, 7, 2),
        (Level::Raid10, 8, 2),
        (Level::Raid4, 8, 4),
        (Level::Raid5, 8, 4),
        (Level::Raid5ee, 8, 4),
        (Level::Raid6, 8, 6),
        (Level::Raid50, 8, 4),
        (Level::Raid60, 12, 6),
    ];
    for (level, drives, ios) in textbook {
        assert_eq!(penalty(level, drives), ios, "{level}");
    }
    assert_eq!(
        penalty(Level::Raid5, 3),
        3,
        "reading the other strip is cheaper than old data and old parity"
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = "raid7".parse::<Level>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "'raid7' is not a level; expected one of jbod, raid0, raid00, raid1, raid1e, raid10, \
            raid4, raid5, raid5ee, raid6, raid50, raid60"
    );
    let error = "sideways".parse::<MirrorArrangement>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "'sideways' is not a mirror layout; expected one of near, offset, far"
    );
    let error = "sideways".parse::<ParityArrangement>().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("'sideways' is not a parity layout; expected one of left-symmetric, ")
    );
    for arrangement in ParityArrangement::ALL {
        assert_eq!(arrangement.to_string().parse::<ParityArrangement>().unwrap(), arrangement);
    }
    for arrangement in MirrorArrangement::ALL {
        assert_eq!(arrangement.to_string().parse::<MirrorArrangement>().unwrap(), arrangement);
    }
    assert_eq!(
        "ddf-N-continue".parse::<ParityArrangement>().unwrap(),
        ParityArrangement::DdfNContinue
    );
}
