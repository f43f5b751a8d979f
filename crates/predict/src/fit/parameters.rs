//! The fitted parameters, their bounds, and the mapping between values and coordinates.

use models::DriveSpec;

/// A fitted parameter, with its bounds as multiples of its prior.
struct Fitted {
    key: &'static str,
    least: f64,
    most: f64,
}

const fn fitted(key: &'static str, least: f64, most: f64) -> Fitted {
    Fitted { key, least, most }
}

/// Of rotating drives: values that data sheets omit. The shortest seek represents the first
/// hundredths of the seek curve. Three points make the curve too flat there, so that the fitted
/// value exceeds that of a data sheet.
const ROTATING: &[Fitted] = &[
    fitted("outer_rate_kb_s", 0.9, 1.1),
    fitted("seek_min_us", 0.5, 4.0),
    fitted("write_settle_us", 0.0, 2.0),
    fitted("seek_avg_us", 0.85, 1.15),
];

/// Of flash drives: values that no data sheet has.
const SSD: &[Fitted] = &[
    fitted("program_us", 0.4, 2.5),
    fitted("stream_ns", 0.2, 5.0),
    fitted("lookup_ns", 0.2, 5.0),
    fitted("update_ns", 0.2, 5.0),
    fitted("command_ns", 0.1, 30.0),
];

/// The drive with its priors.
pub fn at_priors(drive: &DriveSpec) -> DriveSpec {
    let mut before = drive.clone();
    for value in &drive.values {
        if let (Some(prior), Some(parameter)) = (value.prior, before.parameter(&value.key)) {
            *parameter = prior;
        }
    }
    before
}

/// A parameter with its minimum and maximum.
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

/// The coordinate of a value between its bounds: linear, or logarithmic if it cannot be zero.
pub fn coordinate(value: u64, low: f64, high: f64) -> f64 {
    let value = (value as f64).clamp(low, high);
    if low > 0.0 { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
}

/// The parameter's value at a coordinate.
pub fn value_at(coordinate: f64, low: f64, high: f64) -> u64 {
    let value = if low > 0.0 {
        low * (high / low).powf(coordinate)
    } else {
        low + (high - low) * coordinate
    };
    value.round() as u64
}
