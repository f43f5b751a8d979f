//! All rows of a measurement with their conditions: the JSON and CSV files.
//!
//! | module | contents |
//! | --- | --- |
//! | this one | [`Results`], [`Method`], [`Environment`]: the JSON and CSV files |
//! | `compare` | per load profile, whether one side is faster, slower, or equal |
//! | `merge` | sums of simultaneous measurements |
//! | `sides` | several measurements next to each other, for comparing reports |

pub(crate) mod compare;
pub(crate) mod merge;
pub(crate) mod sides;

use crate::load::profile::Profile;
use crate::measurement::bench::Measured;
use crate::measurement::precondition::Precondition;
use crate::measurement::settings::Settings;
use crate::row::{Latency, Row, Split};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The machine and software of a measurement: names and values in display order (`("kernel",
/// "6.1.0")`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Environment(pub Vec<(String, String)>);

impl Serialize for Environment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Environment, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Environment;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Environment, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Environment(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// The method of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Method {
    /// The measured time of each point.
    pub runtime_s: f64,
    /// The ramp of each point.
    pub ramp_s: f64,
    /// The maximum measured time of a point, if intervals are too wide before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime_s: Option<f64>,
    /// The target half width of intervals, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_percent: Option<f64>,
    /// The writes before the first point: `none`, `snia` (twice the area), or a size.
    #[serde(default = "no_precondition")]
    pub precondition: String,
    /// The length of a round, if points were measured in rounds until steady.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_round_s: Option<f64>,
    /// The numbers of outstanding I/Os, in input form.
    pub outstanding: String,
    /// The number of workers.
    pub workers: u32,
    /// The measured area of the targets, in input form; `null`: the whole target.
    pub area: Option<String>,
    /// The seed of all random numbers, in input form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The definitions of the profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Definition>,
}

/// A profile's definition at the time of the measurement: catalogs and files change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// The profile's name.
    pub name: String,
    /// A description in words.
    pub load: String,
    /// The whole definition, in the form of a profile file.
    pub text: String,
}

fn no_precondition() -> String {
    Precondition::None.to_string()
}

impl Method {
    /// The method of these settings.
    pub fn of(settings: &Settings) -> Method {
        let adaptive = settings.confidence_percent.is_some() && settings.steady_state.is_none();
        Method {
            runtime_s: settings.runtime.as_secs_f64(),
            ramp_s: settings.ramp.as_secs_f64(),
            max_runtime_s: adaptive.then(|| settings.longest_runtime().as_secs_f64()),
            confidence_percent: settings.confidence_percent.filter(|_| adaptive),
            precondition: settings.precondition.to_string(),
            steady_round_s: settings.steady_state.map(|rule| rule.round.as_secs_f64()),
            outstanding: settings.outstanding.to_string(),
            workers: settings.workers,
            area: (!settings.area.is_all()).then(|| settings.area.to_string()),
            seed: settings.seed,
            command: None,
            profiles: settings.profiles.iter().map(Definition::of).collect(),
        }
    }
}

impl Method {
    /// The method without run-specific parts: seed, command line, and profiles.
    fn shared(&self) -> Method {
        Method { seed: None, command: None, profiles: Vec::new(), ..self.clone() }
    }

    /// The method of several runs together, of which this is the first.
    fn joined(&self, runs: &[(String, Results)]) -> Method {
        if let [_] = runs {
            return self.clone();
        }
        let mut profiles: Vec<Definition> = Vec::new();
        for definition in runs.iter().flat_map(|(_, run)| &run.method.profiles) {
            if !profiles.contains(definition) {
                profiles.push(definition.clone());
            }
        }
        Method { profiles, ..self.shared() }
    }
}

impl Definition {
    fn of(profile: &Profile) -> Definition {
        Definition {
            name: profile.name().to_owned(),
            load: profile.description(),
            text: profile.to_toml(),
        }
    }
}

/// The results of a measurement or a prediction. The results file is their JSON form:
///
/// ```
/// # use storagebench::{Environment, Method, Results, Settings};
/// let results = Results::new(Method::of(&Settings::default()), Environment::default());
/// let json = results.to_json();
/// assert!(json.starts_with("{\n  \"rows\": [],\n  \"best\": {}"));
/// assert_eq!(Results::from_json(&json).unwrap(), results);
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// In the order of measurement.
    pub rows: Vec<Row>,
    /// The row with the highest IOPS of each profile.
    pub best: BTreeMap<String, Row>,
    /// The machine and its software.
    #[serde(default)]
    pub environment: Environment,
    /// The method of the measurement.
    pub method: Method,
    /// Further information about the rows, such as an early end.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Results {
    /// Results without rows.
    pub fn new(method: Method, environment: Environment) -> Results {
        Results { rows: Vec::new(), best: BTreeMap::new(), environment, method, notes: Vec::new() }
    }

    /// Adds a target's rows, and the reason of an early end.
    pub fn add(&mut self, measured: Measured) {
        self.notes.extend(measured.ending.sentence().map(str::to_owned));
        self.notes.extend(measured.verified.map(|verified| verified.sentence(&measured.ending)));
        measured.rows.into_iter().for_each(|row| self.add_row(row));
    }

    /// Adds one row.
    pub fn add_row(&mut self, row: Row) {
        let better = self.best.get(&row.profile).is_none_or(|best| row.iops > best.iops);
        if better {
            // The details are only in the row itself.
            self.best.insert(row.profile.clone(), Row { detail: None, ..row.clone() });
        }
        self.rows.push(row);
    }

    /// The profiles, in the order of measurement.
    pub fn profiles(&self) -> Vec<&str> {
        in_order(self.rows.iter().map(|row| row.profile.as_str()))
    }

    /// The targets, in the order of measurement.
    pub fn targets(&self) -> Vec<&str> {
        in_order(self.rows.iter().map(|row| row.target.as_str()))
    }

    /// The row with the highest IOPS of a target under a profile.
    pub fn best_of(&self, target: &str, profile: &str) -> Option<&Row> {
        let rows = self.rows.iter().filter(|row| row.target == target && row.profile == profile);
        rows.reduce(|best, row| if row.iops > best.iops { row } else { best })
    }

    /// The results without histograms and time series.
    pub fn without_detail(&self) -> Results {
        let mut bare = self.clone();
        bare.rows.iter_mut().chain(bare.best.values_mut()).for_each(|row| row.detail = None);
        bare
    }

    /// The results file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("rows are plain data with text as keys")
    }

    /// Parses a results file.
    ///
    /// # Errors
    /// When the text is not a results file.
    pub fn from_json(text: &str) -> serde_json::Result<Results> {
        serde_json::from_str(text)
    }

    /// The rows as CSV (RFC 4180): a line of column names, then a line per row. Unknown values are
    /// empty.
    pub fn to_csv(&self) -> String {
        let mut text = csv_columns().join(",") + "\r\n";
        for row in &self.rows {
            let fields: Vec<String> = csv_fields(row).iter().map(|field| quoted(field)).collect();
            text += &(fields.join(",") + "\r\n");
        }
        text
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

const SPLIT_COLUMNS: [&str; 4] = ["ios", "iops", "throughput_mib_s", "errors"];
const LATENCY_COLUMNS: [&str; 6] = ["mean", "p50", "p90", "p99", "p999", "max"];

/// The columns, in a fixed order; new columns are appended.
fn csv_columns() -> Vec<String> {
    let mut columns: Vec<String> = ["target", "profile", "access", "read_percent", "block_bytes"]
        .iter()
        .chain(&["outstanding", "workers", "duration_s", "ios", "iops", "throughput_mib_s"])
        .map(|name| (*name).to_owned())
        .collect();
    columns.extend(LATENCY_COLUMNS.map(|name| format!("latency_us_{name}")));
    columns.extend(["cpu_percent", "errors"].map(str::to_owned));
    for direction in ["read", "write"] {
        columns.extend(SPLIT_COLUMNS.map(|name| format!("{direction}_{name}")));
        columns.extend(LATENCY_COLUMNS.map(|name| format!("{direction}_latency_us_{name}")));
    }
    for figure in ["iops", "latency_us_mean"] {
        columns.extend(["lo", "hi"].map(|end| format!("ci95_{figure}_{end}")));
    }
    columns.extend(["blocks", "resources", "first_error"].map(str::to_owned));
    columns
}

fn csv_fields(row: &Row) -> Vec<String> {
    let mut fields = vec![
        row.target.clone(),
        row.profile.clone(),
        row.access.to_string(),
        row.read_percent.to_string(),
        row.block_bytes.map_or_else(String::new, |bytes| bytes.to_string()),
        row.outstanding.to_string(),
        row.workers.to_string(),
        row.duration_s.to_string(),
        row.ios.to_string(),
        row.iops.to_string(),
        row.throughput_mib_s.to_string(),
    ];
    fields.extend(latency_fields(row.latency_us));
    fields.push(row.cpu_percent.map_or_else(String::new, |percent| percent.to_string()));
    fields.push(row.errors.to_string());
    for split in [&row.read, &row.write] {
        let Split { ios, iops, throughput_mib_s, latency_us, errors, .. } = split;
        fields.extend([
            ios.to_string(),
            iops.to_string(),
            throughput_mib_s.to_string(),
            errors.to_string(),
        ]);
        fields.extend(latency_fields(*latency_us));
    }
    let interval =
        row.ci95.map(|ci| [ci.iops[0], ci.iops[1], ci.latency_us_mean[0], ci.latency_us_mean[1]]);
    fields.extend(interval.map_or_else(Default::default, |ends| ends.map(|end| end.to_string())));
    let blocks =
        row.blocks.iter().flatten().map(|block| format!("{}:{}", block.bytes, block.share));
    fields.push(blocks.collect::<Vec<_>>().join(" "));
    let resources = row.resources.iter().flatten().map(|(name, busy)| format!("{name}:{busy}"));
    fields.push(resources.collect::<Vec<_>>().join(" "));
    fields.push(row.first_error.clone().unwrap_or_default());
    fields
}

fn latency_fields(latency: Option<Latency>) -> [String; 6] {
    latency.map_or_else(Default::default, |latency| {
        let Latency { mean, p50, p90, p99, p999, max } = latency;
        let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        [Some(mean), Some(p50), Some(p90), p99, p999, Some(max)].map(known)
    })
}

pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::profile::BlockShare;
    use crate::sample;
    use crate::statistics::intervals::Interval95;

    #[test]
    fn the_file_has_the_documented_names_in_the_documented_order() {
        let results = sample::results();
        let json: serde_json::Value = serde_json::from_str(&results.to_json()).unwrap();
        let row = &json["rows"][0];
        let text = serde_json::to_string(&results.rows[0]).unwrap();
        let names = [
            "target",
            "profile",
            "access",
            "read_percent",
            "block_bytes",
            "outstanding",
            "workers",
            "duration_s",
            "ios",
            "iops",
            "throughput_mib_s",
            "latency_us",
            "cpu_percent",
            "errors",
            "read",
            "write",
            "ci95",
        ];
        let places: Vec<usize> =
            names.map(|name| text.find(&format!("\"{name}\":")).unwrap()).to_vec();
        assert_eq!(row.as_object().unwrap().len(), names.len());
        // "ios" and others also occur in the splits, but first in the row itself.
        assert!(places.is_sorted(), "{places:?}");
        for name in ["mean", "p50", "p90", "p99", "p999", "max"] {
            assert!(
                row["latency_us"][name].is_f64() && row["read"]["latency_us"][name].is_f64(),
                "{name}"
            );
        }
        assert!(row["ci95"]["iops"][1].is_f64() && row["ci95"]["latency_us_mean"][0].is_f64());
        assert_eq!(json["best"]["database"]["outstanding"], 8);
        assert_eq!(json["environment"]["kernel"], "6.1.0");
    }

    #[test]
    fn what_is_unknown_is_null_and_what_does_not_apply_is_absent() {
        let mut row = sample::row("streaming", 1, 100.0, 10.0);
        (row.cpu_percent, row.ci95, row.write.latency_us) = (None, None, None);
        let json = serde_json::to_value(&row).unwrap();
        assert!(json["cpu_percent"].is_null() && json["write"]["latency_us"].is_null());
        for absent in ["ci95", "blocks", "resources", "first_error"] {
            assert!(json.get(absent).is_none(), "{absent}");
        }
        row.block_bytes = None;
        row.blocks = Some(vec![
            BlockShare { bytes: 4096, share: 0.6 },
            BlockShare { bytes: 512, share: 0.4 },
        ]);
        row.resources = Some([("link".to_owned(), 12.5)].into());
        let json = serde_json::to_value(&row).unwrap();
        assert!(json["block_bytes"].is_null());
        assert_eq!(json["blocks"][1], serde_json::json!({"bytes": 512, "share": 0.4}));
        assert_eq!(json["resources"]["link"], 12.5);
        assert_eq!(serde_json::from_value::<Row>(json).unwrap(), row);
    }

    #[test]
    fn a_file_is_read_back_as_it_was_written() {
        let results = sample::results();
        let read = Results::from_json(&results.to_json()).unwrap();
        assert!(read == results && read.to_json() == results.to_json());
        assert!(Results::from_json("{\"rows\": [{}]}").is_err());
    }

    #[test]
    fn the_best_row_of_a_profile_is_the_one_with_the_highest_iops() {
        let results = sample::results();
        assert_eq!(results.profiles(), ["database", "streaming"]);
        assert_eq!(results.best["streaming"].iops, 900.0);
        assert_eq!(results.best_of("mem:1G", "database").unwrap().outstanding, 8);
        assert_eq!(results.best_of("mem:2G", "database"), None);
    }

    #[test]
    fn csv_has_a_field_for_every_column_and_quotes_what_needs_it() {
        let mut results = sample::results();
        results.rows[0].target = "a \"b\",c".to_owned();
        results.rows[0].ci95 = Some(Interval95 {
            iops: [1.0, 2.0],
            latency_us_mean: [3.0, 4.0],
            ..Interval95::default()
        });
        let csv = results.to_csv();
        let lines: Vec<&str> = csv.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + results.rows.len());
        assert!(
            lines[0]
                .starts_with("target,profile,access,read_percent,block_bytes,outstanding,workers,")
        );
        assert!(
            lines[1].starts_with("\"a \"\"b\"\",c\",database,random,67,8192,1,1,30,"),
            "{}",
            lines[1]
        );
        assert_eq!(csv_columns().len(), csv_fields(&results.rows[0]).len());
        let columns = lines[0].split(',').count();
        assert_eq!(lines[2].split(',').count(), columns, "{}", lines[2]);
        assert!(lines[1].contains(",1,2,3,4,"));
        let mut unique = csv_columns();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), columns);
    }
}
