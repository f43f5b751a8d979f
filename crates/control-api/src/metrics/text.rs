//! Prometheus' text format, version 0.0.4: families of series, each with help and type.

use std::fmt::{Display, Write};

/// The content type of the response.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a family.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Grows until a restart.
    Counter,
    /// May rise and fall.
    Gauge,
    /// Counts by bucket, their sum, and the sum of the values.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A page that is being written.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Starts a family. All series of a family are written before the next one starts.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()));
        Family { page: self, name }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

/// The labels of a series, in text form.
#[derive(Clone, Default)]
pub(super) struct Labels {
    text: String,
}

impl Labels {
    /// One label.
    pub(super) fn of(name: &str, value: &str) -> Labels {
        Labels::default().with(name, value)
    }

    /// One more.
    pub(super) fn with(mut self, name: &str, value: &str) -> Labels {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(name);
        self.text.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                letter => self.text.push(letter),
            }
        }
        self.text.push('"');
        self
    }
}

/// A family that is being written.
pub(super) struct Family<'p> {
    page: &'p mut Page,
    name: &'static str,
}

impl Family<'_> {
    /// A series without labels.
    pub(super) fn value(&mut self, value: impl Display) {
        let name = self.name;
        self.page.push(format_args!("{name} {value}\n"));
    }

    /// A series.
    pub(super) fn series(&mut self, labels: &Labels, value: impl Display) {
        let name = self.name;
        self.page.push(format_args!("{name}{{{}}} {value}\n", labels.text));
    }

    /// A series, if its value is known.
    pub(super) fn known(&mut self, labels: &Labels, value: Option<impl Display>) {
        if let Some(value) = value {
            self.series(labels, value);
        }
    }

    /// A series for each possible state: 1 for the current one, 0 for the others.
    pub(super) fn states<'s>(
        &mut self,
        labels: &Labels,
        label: &str,
        all: impl IntoIterator<Item = &'s str>,
        is: &str,
    ) {
        let name = self.name;
        for state in all {
            let value = u8::from(state == is);
            self.page.push(format_args!("{name}{{{},{label}=\"{state}\"}} {value}\n", labels.text));
        }
    }

    /// A histogram. `counts`: per bucket, one more than `bounds`, which are formatted already;
    /// `sum`: of all values.
    pub(super) fn histogram(
        &mut self,
        labels: &Labels,
        bounds: &[String],
        counts: &[u64],
        sum: f64,
    ) {
        let (name, labels) = (self.name, &labels.text);
        let mut so_far = 0;
        for (bound, count) in bounds.iter().zip(counts) {
            so_far += count;
            self.page.push(format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {so_far}\n"));
        }
        let all: u64 = counts.iter().sum();
        self.page.push(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {all}\n"));
        self.page
            .push(format_args!("{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {all}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_label_cannot_end_it() {
        let mut page = Page::default();
        let labels = Labels::of("drive", "a\\b\"c\nd").with("slot", "1");
        page.family("x_bytes", Kind::Gauge, "Bytes.").series(&labels, 7);
        let expected = "# HELP x_bytes Bytes.\n# TYPE x_bytes \
            gauge\nx_bytes{drive=\"a\\\\b\\\"c\\nd\",slot=\"1\"} 7\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn buckets_count_what_is_below_them() {
        let mut page = Page::default();
        let bounds = ["0.1".to_owned(), "1".to_owned()];
        let mut family = page.family("x_seconds", Kind::Histogram, "Time.");
        family.histogram(&Labels::of("v", "a"), &bounds, &[2, 0, 3], 12.5);
        let text = page.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "x_seconds_bucket{v=\"a\",le=\"0.1\"} 2",
            "x_seconds_bucket{v=\"a\",le=\"1\"} 2",
            "x_seconds_bucket{v=\"a\",le=\"+Inf\"} 5",
            "x_seconds_sum{v=\"a\"} 12.5",
            "x_seconds_count{v=\"a\"} 5",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn of_states_one_holds() {
        let mut page = Page::default();
        let mut family = page.family("x_state", Kind::Gauge, "State.");
        family.states(&Labels::of("v", "a"), "state", ["up", "down"], "down");
        assert!(
            page.finish()
                .ends_with("x_state{v=\"a\",state=\"up\"} 0\nx_state{v=\"a\",state=\"down\"} 1\n")
        );
    }
}
