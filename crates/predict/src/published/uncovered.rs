//! Figures without a prediction, and the missing data (`catalog/published/uncovered.toml`).

use super::Figure;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

const UNCOVERED: &str = include_str!("../../../../catalog/published/uncovered.toml");

/// Figures with the same missing data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncovered {
    /// The missing data.
    missing: String,
    /// Their numbers; `f13-188..f13-199` is an inclusive range.
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    uncovered: Vec<Uncovered>,
}

/// The missing data by figure number.
///
/// # Errors
/// When the file names an unknown figure, or one twice: it is part of the program, and a test reads
/// it.
pub fn uncovered(figures: &[Figure]) -> Result<BTreeMap<String, String>> {
    let file: File = toml::from_str(UNCOVERED).map_err(Error::failed)?;
    let place = |id: &str| {
        let found = figures.iter().position(|figure| figure.id == id);
        found.ok_or_else(|| Error::failed(format!("there is no figure '{id}' to be uncovered")))
    };
    let mut missing = BTreeMap::new();
    for entry in file.uncovered {
        for id in &entry.ids {
            let (first, last) = id.split_once("..").unwrap_or((id, id));
            let (first, last) = (place(first)?, place(last)?);
            let range = figures.get(first..=last).unwrap_or_default();
            if range.is_empty() {
                return Err(Error::failed(format!("'{id}' ends before it begins")));
            }
            for figure in range {
                if missing.insert(figure.id.clone(), entry.missing.clone()).is_some() {
                    return Err(Error::failed(format!("{} is uncovered twice", figure.id)));
                }
            }
        }
    }
    Ok(missing)
}
