//! The documentation of the levels agrees with their properties.

mod shapes;

use layout::{Geometry, Level, figure_text, figures, reference};
use shapes::geometries;
use units::StripSize;

#[test]
fn the_table_in_the_document_on_levels_is_that_of_the_reference() {
    let document = include_str!("../../../docs/operate/levels.md");
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("| ")).map(str::to_owned).collect()
    };
    assert_eq!(rows(document), rows(&reference()));
}

#[test]
fn every_level_has_its_figures() {
    for level in Level::ALL {
        assert!(!figures(level).is_empty(), "{level}");
        for figure in figures(level) {
            assert!(reference().contains(&figure_text(&figure)), "{level}");
        }
    }
}

#[test]
fn the_figures_in_the_sources_are_right() {
    for level in Level::ALL {
        let source = source(level);
        for figure in figures(level) {
            let text = figure_text(&figure);
            let commented: String =
                text.lines().map(|line| format!("//! {}\n", line.trim_end())).collect();
            assert!(source.contains(&commented), "{level}: this is not in its file:\n{commented}");
        }
    }
}

fn source(level: Level) -> &'static str {
    match level {
        Level::Jbod => include_str!("../src/levels/jbod.rs"),
        Level::Raid0 => include_str!("../src/levels/raid0.rs"),
        Level::Raid00 => include_str!("../src/levels/raid00.rs"),
        Level::Raid1 => include_str!("../src/levels/raid1.rs"),
        Level::Raid1e => include_str!("../src/levels/raid1e.rs"),
        Level::Raid10 => include_str!("../src/levels/raid10.rs"),
        Level::Raid4 => include_str!("../src/levels/raid4.rs"),
        Level::Raid5 => include_str!("../src/levels/raid5.rs"),
        Level::Raid5ee => include_str!("../src/levels/raid5ee.rs"),
        Level::Raid6 => include_str!("../src/levels/raid6.rs"),
        Level::Raid50 => include_str!("../src/levels/raid50.rs"),
        Level::Raid60 => include_str!("../src/levels/raid60.rs"),
    }
}

#[test]
fn the_formulas_say_what_is_computed() {
    for drives in 1..=72 {
        for g in geometries(drives, StripSize::MIN, StripSize::MIN.bytes() * 720) {
            let formulas = &g.row().formulas;
            let survives = g.survives();
            let used =
                g.member_size().0 / u64::from(g.rows_per_stripe()) * u64::from(g.rows_per_stripe());
            assert_eq!(
                value(formulas.usable, &g),
                g.capacity().0 as f64 / used as f64,
                "{g}: usable"
            );
            assert_eq!(
                value(formulas.survives_at_least, &g),
                f64::from(survives.at_least.0),
                "{g}: at least"
            );
            assert_eq!(
                value(formulas.survives_at_most, &g),
                f64::from(survives.at_most.0),
                "{g}: at most"
            );
            assert_eq!(
                value(formulas.write_penalty, &g),
                f64::from(g.write_penalty()),
                "{g}: penalty"
            );
        }
    }
}

/// The value of a formula such as `n - n / c, rounded down` or `6, at most w`.
fn value(formula: &str, g: &Geometry) -> f64 {
    let (sum, rest) = formula.split_once(", ").unwrap_or((formula, ""));
    let value = sum_of(sum, g);
    match rest {
        "" => value,
        "rounded down" => value.floor(),
        _ => value.min(sum_of(rest.strip_prefix("at most ").expect("a limit"), g)),
    }
}

fn sum_of(formula: &str, g: &Geometry) -> f64 {
    let mut terms = formula.split(" - ").map(|term| term_of(term, g));
    let first = terms.next().expect("a term");
    terms.fold(first, |sum, term| sum - term)
}

/// `3`, `n`, `2 s`, `n / c`.
fn term_of(term: &str, g: &Geometry) -> f64 {
    let factor = |word: &str| match word {
        "n" => f64::from(g.drives().0),
        "s" => f64::from(g.spans()),
        "w" => f64::from(g.drives_per_span().0),
        "c" => f64::from(g.copies()),
        number => number.parse().expect("a number, or a letter that is explained"),
    };
    match term.split_once(" / ") {
        Some((above, below)) => factor(above) / factor(below),
        None => term.split(' ').map(factor).product(),
    }
}

#[test]
fn names_in_files_are_the_names_in_commands() {
    let quoted = |name: &str| format!("\"{name}\"");
    for level in Level::ALL {
        assert_eq!(serde_json::to_string(&level).unwrap(), quoted(level.name()));
        assert_eq!(serde_json::from_str::<Level>(&quoted(level.name())).unwrap(), level);
    }
    for one in layout::ParityArrangement::ALL {
        assert_eq!(serde_json::to_string(&one).unwrap(), quoted(one.name()));
    }
    for one in layout::MirrorArrangement::ALL {
        assert_eq!(serde_json::to_string(&one).unwrap(), quoted(one.name()));
    }
}
