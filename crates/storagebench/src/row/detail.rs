//! The details of a row: full histograms and time series. Rows with details can be merged exactly,
//! compared, and drawn.

use crate::statistics::meter::{Reading, Slice, histogram};
use crate::text::rounded;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A histogram of latencies in nanoseconds as text: HdrHistogram's V2 format, compressed with zlib,
/// in base64. Other HdrHistogram tools can read it (their "compressed" form).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencyHistogram(String);

/// An invalid histogram text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAHistogram(String);

impl fmt::Display for NotAHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a histogram cannot be read ({}); export the run again", self.0)
    }
}

impl std::error::Error for NotAHistogram {}

impl LatencyHistogram {
    /// Encodes a histogram.
    pub(crate) fn of(histogram: &Histogram<u64>) -> LatencyHistogram {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect(
            "a write to memory does not fail, and the histogram has the bounds of the format",
        );
        LatencyHistogram(STANDARD.encode(bytes))
    }

    /// Decodes the histogram, with the common bounds.
    ///
    /// # Errors
    /// When the text is invalid.
    pub(crate) fn decode(&self) -> Result<Histogram<u64>, NotAHistogram> {
        let wrong = |error: &dyn fmt::Display| NotAHistogram(error.to_string());
        let bytes = STANDARD.decode(&self.0).map_err(|error| wrong(&error))?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| wrong(&error))?;
        let mut ours = histogram();
        ours.add(&read).map_err(|error| wrong(&error))?;
        Ok(ours)
    }

    /// The cumulative distribution: latencies in microseconds, each with the number of requests up
    /// to it, in ascending order.
    ///
    /// # Errors
    /// When the text is invalid.
    pub fn cumulative_us(&self) -> Result<Vec<(f64, u64)>, NotAHistogram> {
        Ok(cumulative_us(&self.decode()?))
    }
}

/// The time series of reads, or of writes: an element per slice.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    /// Requests completed.
    pub ios: Vec<u64>,
    /// Bytes transferred.
    pub bytes: Vec<u64>,
    /// The sum of the latencies, in nanoseconds.
    pub latency_ns_sum: Vec<u64>,
}

/// The details of a row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Detail {
    /// The length of a slice. Slices are in order and without gaps; the last one may end before the
    /// window.
    pub slice_s: f64,
    /// The time series of reads.
    pub read: Trace,
    /// The time series of writes.
    pub write: Trace,
    /// The 99th percentile of each slice, reads and writes together; `null` without completions.
    pub latency_us_p99: Vec<Option<f64>>,
    /// All latencies of reads.
    pub read_latency_ns: LatencyHistogram,
    /// All latencies of writes.
    pub write_latency_ns: LatencyHistogram,
}

/// The non-empty bins of a histogram as latencies in microseconds, each with the number of requests
/// up to it.
fn cumulative_us(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut below = 0;
    let mut bins = Vec::new();
    for step in histogram.iter_recorded() {
        below += step.count_at_value();
        bins.push((step.value_iterated_to() as f64 / 1e3, below));
    }
    bins
}

impl Detail {
    /// The cumulative distribution of reads and writes together: latencies in microseconds, each
    /// with the number of requests up to it, in ascending order.
    ///
    /// # Errors
    /// When a histogram cannot be read.
    pub fn cumulative_us(&self) -> Result<Vec<(f64, u64)>, NotAHistogram> {
        let mut both = self.read_latency_ns.decode()?;
        let writes = self.write_latency_ns.decode()?;
        both.add(&writes).map_err(|error| NotAHistogram(error.to_string()))?;
        Ok(cumulative_us(&both))
    }

    pub(crate) fn of(reading: &Reading) -> Detail {
        let trace = |count: fn(&Slice) -> &crate::statistics::meter::Count| Trace {
            ios: reading.slices.iter().map(|slice| count(slice).ios).collect(),
            bytes: reading.slices.iter().map(|slice| count(slice).bytes).collect(),
            latency_ns_sum: reading
                .slices
                .iter()
                .map(|slice| count(slice).latency_sum_ns)
                .collect(),
        };
        let p99 = |slice: &Slice| slice.both().quantile_ns(0.99).map(|ns| rounded(ns as f64 / 1e3));
        Detail {
            slice_s: reading.slice_ns as f64 / 1e9,
            read: trace(|slice| &slice.read.count),
            write: trace(|slice| &slice.write.count),
            latency_us_p99: reading.slices.iter().map(p99).collect(),
            read_latency_ns: LatencyHistogram::of(&reading.read.latencies_ns),
            write_latency_ns: LatencyHistogram::of(&reading.write.latencies_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_read_back_whole() {
        let mut latencies = histogram();
        for latency in [1_u64, 2, 1000, 123_456, 123_456, 999_999_999_999] {
            latencies.saturating_record(latency);
        }
        let text = LatencyHistogram::of(&latencies);
        assert!(text.0.starts_with("HISTFAAA"), "as other tools know it: {}", text.0);
        assert_eq!(text.decode().unwrap(), latencies);
        let bins = text.cumulative_us().unwrap();
        assert_eq!((bins.len(), bins[0], bins[4].1), (5, (0.001, 1), 6));
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        for text in ["", "?", "SGVsbG8=", "HISTFAAA"] {
            let error = LatencyHistogram(text.to_owned()).decode().unwrap_err();
            assert!(error.to_string().starts_with("a histogram cannot be read ("), "{error}");
        }
    }
}
