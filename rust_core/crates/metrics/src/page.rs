//! The text in which families and their values are read: OpenMetrics 1.0, or the text format 0.0.4 of Prometheus.

use std::fmt::Write;

use super::family::{Family, Kind};
use super::histogram::{Exemplar, Histogram};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// The older format.
    Text,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A number as it stands in a page.
pub trait Value {
    fn write(&self, out: &mut String);
}

impl Value for u64 {
    fn write(&self, out: &mut String) {
        // Writing to a string never fails.
        let _ = write!(out, "{self}");
    }
}

impl Value for f64 {
    fn write(&self, out: &mut String) {
        out.push_str(&shown(*self));
    }
}

impl Value for bool {
    fn write(&self, out: &mut String) {
        out.push(if *self { '1' } else { '0' });
    }
}

/// A page that grows family by family. The samples of a family are together, as both formats ask.
pub struct Page {
    format: Format,
    out: String,
}

impl Page {
    pub fn new(format: Format) -> Self {
        Self { format, out: String::with_capacity(64 * 1024) }
    }

    /// Begins the next family.
    pub fn family(&mut self, family: &'static Family) -> Samples<'_> {
        let Family { name, kind, unit, help, .. } = *family;
        let shown = match self.format {
            Format::OpenMetrics => name.to_owned(),
            Format::Text => format!("{name}{}", kind.suffix()),
        };
        let word = match (self.format, kind) {
            (Format::Text, Kind::Info) => "gauge",
            _ => kind.name(),
        };
        let _ = writeln!(self.out, "# HELP {shown} {help}\n# TYPE {shown} {word}");
        if self.format == Format::OpenMetrics && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {shown} {unit}");
        }
        Samples { page: self, family }
    }

    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

/// The samples of a family. `labels` are values in the order of the family's labels.
pub struct Samples<'a> {
    page: &'a mut Page,
    family: &'static Family,
}

impl Samples<'_> {
    pub fn value(&mut self, labels: &[&str], value: impl Value) -> &mut Self {
        self.line(self.family.kind.suffix(), labels, None, &value, None);
        self
    }

    pub fn histogram(&mut self, labels: &[&str], histogram: &Histogram) -> &mut Self {
        let mut count = 0;
        let exemplars = match self.page.format {
            Format::OpenMetrics => histogram.exemplars(),
            // It has no place for them.
            Format::Text => Vec::new(),
        };
        for (place, (bound, upto)) in histogram.cumulative().enumerate() {
            let exemplar = exemplars.get(place).copied().flatten();
            self.line("_bucket", labels, Some(bound), &upto, exemplar);
            count = upto;
        }
        self.line("_sum", labels, None, &histogram.sum(), None);
        self.line("_count", labels, None, &count, None);
        self
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[&str],
        bound: Option<f64>,
        value: &dyn Value,
        exemplar: Option<(f64, Exemplar)>,
    ) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        let out = &mut self.page.out;
        out.push_str(self.family.name);
        out.push_str(suffix);
        let mut before = '{';
        for (name, value) in self.family.labels.iter().zip(labels) {
            out.push(before);
            out.push_str(name);
            out.push_str("=\"");
            escape(value, out);
            out.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(out, "{before}le=\"{}\"", shown(bound));
            before = ',';
        }
        if before == ',' {
            out.push('}');
        }
        out.push(' ');
        value.write(out);
        if let Some((value, Exemplar { trace_id, at_ms })) = exemplar {
            let trace_id = u128::from_be_bytes(trace_id);
            let _ = write!(out, " # {{trace_id=\"{trace_id:032x}\"}} {} {}", shown(value), at_ms as f64 / 1000.0);
        }
        out.push('\n');
    }
}

fn escape(value: &str, out: &mut String) {
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A number as both formats prefer it: that of Go, with a decimal point.
fn shown(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value != 0.0 && value.abs() < 1e-4 {
        // An exponent of two digits.
        format!("{value:e}").replace("e-", "e-0").replace("e-01", "e-1")
    } else {
        format!("{value:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    const WAITS: Family =
        Family { name: "a_wait_seconds", kind: Kind::Histogram, unit: "seconds", labels: &["of"], help: "A wait." };
    const CALLS: Family = Family { name: "a_calls", kind: Kind::Counter, unit: "", labels: &[], help: "Calls." };
    const BUILD: Family = Family { name: "a_build", kind: Kind::Info, unit: "", labels: &["version"], help: "Build." };

    #[test]
    fn both_formats_name_samples_alike() {
        let page = |format| {
            let mut page = Page::new(format);
            page.family(&CALLS).value(&[], 3u64);
            page.family(&BUILD).value(&["1.0 \"x\"\\\n"], true);
            page.finish()
        };
        let build = "a_build_info{version=\"1.0 \\\"x\\\"\\\\\\n\"} 1\n";
        assert_eq!(
            page(Format::OpenMetrics),
            format!(
                "# HELP a_calls Calls.\n# TYPE a_calls counter\na_calls_total 3\n\
                 # HELP a_build Build.\n# TYPE a_build info\n{build}# EOF\n"
            )
        );
        assert_eq!(
            page(Format::Text),
            format!(
                "# HELP a_calls_total Calls.\n# TYPE a_calls_total counter\na_calls_total 3\n\
                 # HELP a_build_info Build.\n# TYPE a_build_info gauge\n{build}"
            )
        );
    }

    #[test]
    fn a_histogram_has_a_sum_and_a_count() {
        let histogram = Histogram::new(&Scale::TIME);
        histogram.record(1_000_000);
        let mut page = Page::new(Format::OpenMetrics);
        page.family(&WAITS).histogram(&["x"], &histogram);
        let text = page.finish();
        assert!(text.starts_with(
            "# HELP a_wait_seconds A wait.\n# TYPE a_wait_seconds histogram\n# UNIT a_wait_seconds seconds\n"
        ));
        assert!(text.contains("a_wait_seconds_bucket{of=\"x\",le=\"0.0005\"} 0\n"));
        assert!(text.contains("a_wait_seconds_bucket{of=\"x\",le=\"0.001\"} 1\n"));
        assert!(text.contains("a_wait_seconds_bucket{of=\"x\",le=\"+Inf\"} 1\n"));
        assert!(text.ends_with("a_wait_seconds_sum{of=\"x\"} 0.001\na_wait_seconds_count{of=\"x\"} 1\n# EOF\n"));
    }

    #[test]
    fn a_bucket_has_its_exemplar_where_the_format_has_a_place_for_it() {
        let histogram = Histogram::new(&Scale::TIME);
        histogram.record(700_000);
        let time = std::time::Duration::from_micros(700);
        histogram.show_time(time, Exemplar { trace_id: [0x0a; 16], at_ms: 1_520_879_607_789 });
        let text = |format| {
            let mut page = Page::new(format);
            page.family(&WAITS).histogram(&["x"], &histogram);
            page.finish()
        };
        let bucket = "a_wait_seconds_bucket{of=\"x\",le=\"0.001\"} 1";
        let exemplar = format!("# {{trace_id=\"{}\"}} 0.0007 1520879607.789", "0a".repeat(16));
        assert!(text(Format::OpenMetrics).contains(&format!("{bucket} {exemplar}\n")));
        assert_eq!(text(Format::OpenMetrics).matches("trace_id").count(), 1);
        assert!(text(Format::Text).contains(&format!("{bucket}\n")));
    }

    #[test]
    fn numbers_are_canonical() {
        let numbers = [0.0, 1.0, 0.0001, 0.000025, 0.00001, 1e-6, 2.5, f64::INFINITY].map(shown);
        assert_eq!(numbers, ["0.0", "1.0", "0.0001", "2.5e-05", "1e-05", "1e-06", "2.5", "+Inf"]);
    }
}
