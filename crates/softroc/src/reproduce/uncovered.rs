//! What is not covered, and what is missing for it (`catalog/published/uncovered.toml`).

use super::Figure;
use crate::failure::{Failure, Outcome};
use serde::Deserialize;
use std::collections::BTreeMap;

const UNCOVERED: &str = include_str!("../../../../catalog/published/uncovered.toml");

/// Figures that lack the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncovered {
    /// What is missing.
    missing: String,
    /// Their numbers; `f13-188..f13-199` is all from the one to the other.
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    uncovered: Vec<Uncovered>,
}

/// What is missing, by the numbers of figures.
///
/// # Errors
/// When the file names a figure that there is not, or one twice: it is part of the program, and a test reads it.
pub fn uncovered(figures: &[Figure]) -> Outcome<BTreeMap<String, String>> {
    let file: File = toml::from_str(UNCOVERED).map_err(Failure::failed)?;
    let place = |id: &str| {
        let found = figures.iter().position(|figure| figure.id == id);
        found.ok_or_else(|| Failure::failed(format!("there is no figure '{id}' to be uncovered")))
    };
    let mut missing = BTreeMap::new();
    for entry in file.uncovered {
        for id in &entry.ids {
            let (first, last) = id.split_once("..").unwrap_or((id, id));
            let (first, last) = (place(first)?, place(last)?);
            let range = figures.get(first..=last).unwrap_or_default();
            if range.is_empty() {
                return Err(Failure::failed(format!("'{id}' ends before it begins")));
            }
            for figure in range {
                if missing.insert(figure.id.clone(), entry.missing.clone()).is_some() {
                    return Err(Failure::failed(format!("{} is uncovered twice", figure.id)));
                }
            }
        }
    }
    Ok(missing)
}

/// Numbers in the order of the figures, neighbours joined: `f13-188..190, f13-196`.
pub fn ranges(figures: &[Figure], ids: &[&str]) -> Vec<String> {
    let mut places: Vec<usize> =
        ids.iter().filter_map(|id| figures.iter().position(|figure| figure.id == *id)).collect();
    places.sort_unstable();
    let neighbours = |pair: &[usize]| pair[0] + 1 == pair[1] && figures[pair[0]].doc == figures[pair[1]].doc;
    places
        .chunk_by(|one, next| neighbours(&[*one, *next]))
        .map(|run| match run {
            [one] => figures[*one].id.clone(),
            [first, .., last] => {
                let number = figures[*last].id.rsplit('-').next().unwrap_or_default();
                format!("{}..{number}", figures[*first].id)
            }
            [] => String::new(),
        })
        .collect()
}
