//! Consistency of published figures and models, in virtual time.

use super::*;
use models::DriveSpec;
use models::catalog::DriveKind;

/// Short runs: the papers' tolerance exceeds their noise.
const SHORT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(120));

#[test]
fn every_drive_by_itself_is_within_four_percent_of_what_is_published() {
    let catalog = Catalog::builtin();
    let runner = Runner::new(catalog, SHORT).with_ladder("32,128".parse().unwrap());
    let mut seen = 0;
    let mut wrong = Vec::new();
    for figure in figures().unwrap() {
        let single =
            figure.controller.is_empty() && figure.drive_count == "1" && figure.kind == "exact";
        if !single || figure.number().is_none() || !figure.settings.contains("model=") {
            continue;
        }
        let found = Measured::of(catalog, &figure).unwrap().run(&runner, &figure).unwrap();
        let error = found[0].error_percent.unwrap();
        seen += 1;
        if error.abs() > 4.0 {
            wrong.push(format!("{} {}: {error:+.1} %", figure.id, found[0].what));
        }
    }
    assert_eq!(seen, 35, "seven drives, of which one twice, five profiles each");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_drive_has_more_than_eight_fitted_parameters() {
    for drive in &Catalog::builtin().drives {
        let fitted =
            drive.values.iter().filter(|value| value.source.starts_with("calibrated")).count();
        assert!(fitted <= 8, "{}: {fitted}", drive.model);
    }
}

#[test]
fn fitted_parameters_are_plausible_for_their_data_sheets() {
    for drive in &Catalog::builtin().drives {
        let DriveSpec { model, kind: DriveKind::Rotating(spec), .. } = drive else { continue };
        assert!(
            spec.seek_min_us < spec.seek_avg_us && spec.seek_avg_us < spec.seek_max_us,
            "{model}"
        );
        assert!(spec.inner_rate_kb_s < spec.outer_rate_kb_s, "{model}");
        assert!(
            spec.seek_min_us * 4 < spec.seek_avg_us * 2,
            "{model}: a shortest seek of half the average"
        );
    }
}

#[test]
fn every_published_figure_is_covered_or_listed_with_what_is_missing() {
    let (catalog, published) = (Catalog::builtin(), Published::read().unwrap());
    let mut wrong = Vec::new();
    for figure in figures().unwrap() {
        let listed = published.uncovered.contains_key(&figure.id);
        match published.coverage(catalog, &figure) {
            Coverage::Missing(why) if !listed => {
                wrong.push(format!("{} is neither: {why}", figure.id))
            }
            Coverage::Missing(_) => {}
            _ if listed => {
                wrong.push(format!("{} is covered, and listed as if it were not", figure.id))
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_case_of_a_statement_can_be_configured() {
    let mut wrong = Vec::new();
    for statement in statements::said().unwrap().statements {
        let mut terms = vec![statement.term];
        if let Expected::Ratio(against, _) = statement.expected {
            terms.push(against);
        }
        for term in terms {
            let term::Term::Case(case) = term else { continue };
            if let Err(failure) = case.configuration(Catalog::builtin()) {
                wrong.push(format!("{}: {failure}", statement.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Figures that need no run are right, or the reason for the deviation is known.
#[test]
fn links_and_facts_are_exact() {
    let (catalog, published) = (Catalog::builtin(), Published::read().unwrap());
    let runner = Runner::new(catalog, SHORT);
    let (mut links, mut facts, mut wrong) = (0, 0, Vec::new());
    for figure in figures().unwrap() {
        match published.coverage(catalog, &figure) {
            Coverage::Link(found) => links += found.len(),
            Coverage::Said(statements, found) if statements.is_empty() => facts += found.len(),
            _ => continue,
        }
        let found = published.reproduce(&runner, &figure).unwrap().unwrap();
        wrong.extend(found.into_iter().filter(|found| !found.right && found.reason.is_empty()));
    }
    assert!(links >= 105 && facts >= 40, "{links} links and {facts} facts");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn cacheless_controllers_are_as_published() {
    let (catalog, published) = (Catalog::builtin(), Published::read().unwrap());
    let shorter = (Duration::from_secs(4), Duration::from_millis(40));
    let runner = Runner::new(catalog, shorter).with_ladder("32,256".parse().unwrap());
    let mut wrong = Vec::new();
    for id in [
        "f13-087", "f13-094", "f13-109", "f13-110", "f13-112", "f13-174", "f13-175", "f13-176",
        "f13-177", "f13-017", "f13-095", "f16-166", "f16-169", "f16-216", "f16-217", "f16-218",
    ] {
        let all = figures().unwrap();
        let figure = all.iter().find(|figure| figure.id == id).unwrap();
        let found = published.reproduce(&runner, figure).unwrap().unwrap();
        // Known deviations have a reason.
        wrong.extend(found.into_iter().filter(|found| !found.right && found.reason.is_empty()));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
