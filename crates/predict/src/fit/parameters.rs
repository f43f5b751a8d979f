//! Which parameters are fitted, within which bounds, and how a value stands between them.

use models::DriveSpec;

/// A parameter that is fitted, and within what multiples of its prior it may end.
struct Fitted {
    key: &'static str,
    least: f64,
    most: f64,
}

const fn fitted(key: &'static str, least: f64, most: f64) -> Fitted {
    Fitted { key, least, most }
}

/// Of rotating drives: what the data sheet leaves open. The shortest seek stands for the first hundredths of the curve:
/// three points make it too flat there, so that it comes out longer than a data sheet's.
const ROTATING: &[Fitted] = &[
    fitted("outer_rate_kb_s", 0.9, 1.1),
    fitted("seek_min_us", 0.5, 4.0),
    fitted("write_settle_us", 0.0, 2.0),
    fitted("seek_avg_us", 0.85, 1.15),
];

/// Of flash drives: what no data sheet says.
const SSD: &[Fitted] = &[
    fitted("program_us", 0.4, 2.5),
    fitted("stream_ns", 0.2, 5.0),
    fitted("lookup_ns", 0.2, 5.0),
    fitted("update_ns", 0.2, 5.0),
    fitted("command_ns", 0.1, 30.0),
];

/// The drive before anything was fitted.
pub fn at_priors(drive: &DriveSpec) -> DriveSpec {
    let mut before = drive.clone();
    for value in &drive.values {
        if let (Some(prior), Some(parameter)) = (value.prior, before.parameter(&value.key)) {
            *parameter = prior;
        }
    }
    before
}

/// A parameter, and the least and the most that it may be.
pub type Bound = (&'static str, f64, f64);

/// The fitted parameters and their bounds, from their priors.
pub fn bounds(drive: &DriveSpec) -> Vec<Bound> {
    let mut drive = drive.clone();
    let fitted = if drive.is_rotating() { ROTATING } else { SSD };
    let keys = drive.keys();
    let bound = |parameter: &Fitted| {
        let value = *drive.parameter(parameter.key)? as f64;
        let key = keys.iter().find(|key| key.name == parameter.key)?;
        let (least, most) = (value * parameter.least, value * parameter.most);
        Some((parameter.key, least.max(key.least as f64), most.min(key.most as f64)))
    };
    fitted.iter().map(bound).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// A fitted parameter on its way between its bounds: in even shares of the way, or of the ratio where it cannot be zero.
pub fn coordinate(value: u64, low: f64, high: f64) -> f64 {
    let value = (value as f64).clamp(low, high);
    if low > 0.0 { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
}

/// The parameter's value at a coordinate.
pub fn value_at(coordinate: f64, low: f64, high: f64) -> u64 {
    let value = if low > 0.0 { low * (high / low).powf(coordinate) } else { low + (high - low) * coordinate };
    value.round() as u64
}
