//! Several measurements next to each other in one, for comparing reports.

use crate::results::merge::own_facts;
use crate::results::{Environment, Results};

/// The name of a run's target among others: the run's name if it has one target, the target's name
/// for one run, otherwise both.
pub(crate) fn side_name(runs: usize, run: &str, targets: usize, target: &str) -> String {
    match (runs, targets) {
        (1, _) => target.to_owned(),
        (_, 1) => run.to_owned(),
        _ => format!("{run}: {target}"),
    }
}

/// Combines named measurements: each target of each becomes a target of the whole. Common
/// environment facts appear once. The method is that of the first; a note names runs with another
/// method.
pub fn side_by_side(runs: &[(String, Results)]) -> Option<Results> {
    let (_, first) = runs.first()?;
    let mut all = Results::new(first.method.joined(runs), environment(runs));
    for (run, results) in runs {
        let targets = results.targets().len();
        let several = runs.len() > 1;
        all.notes.extend(results.notes.iter().map(|note| match several {
            true => format!("{run}: {note}"),
            false => note.clone(),
        }));
        if results.method.shared() != first.method.shared() {
            all.notes.push(format!(
                "{run} has another method than {} (see softroc bench show).",
                runs[0].0
            ));
        }
        for row in &results.rows {
            let target = side_name(runs.len(), run, targets, &row.target);
            all.add_row(crate::Row { target, ..row.clone() });
        }
    }
    Some(all)
}

fn environment(runs: &[(String, Results)]) -> Environment {
    let mut facts: Vec<(String, String)> = Vec::new();
    for (run, results) in runs {
        if runs.len() > 1 {
            let own = own_facts(&results.method).into_iter();
            facts.extend(own.map(|(name, value)| (format!("{run}: {name}"), value)));
        }
        for (name, value) in &results.environment.0 {
            let everywhere = runs.iter().all(|(_, other)| {
                other
                    .environment
                    .0
                    .iter()
                    .any(|(other_name, other)| other_name == name && other == value)
            });
            let fact =
                (if everywhere { name.clone() } else { format!("{run}: {name}") }, value.clone());
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
    }
    Environment(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn runs_stand_side_by_side_under_their_names() {
        let (first, mut second) = (sample::results(), sample::results());
        second.environment.0[1].1 = "6.12.0".to_owned();
        second.method.ramp_s = 1.0;
        second.notes.push("stopped".to_owned());
        let both = side_by_side(&[("a".to_owned(), first), ("b".to_owned(), second)]).unwrap();
        assert_eq!((both.targets(), both.rows.len()), (vec!["a", "b"], 12));
        let names: Vec<&str> = both.environment.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["processor", "a: kernel", "b: kernel"]);
        assert_eq!(both.notes[0], "b: stopped");
        assert!(both.notes[1].starts_with("b has another method"));
        assert!(side_by_side(&[]).is_none());
        let alone = side_by_side(&[("a".to_owned(), sample::results())]).unwrap();
        assert_eq!(alone, sample::results());
    }
}
