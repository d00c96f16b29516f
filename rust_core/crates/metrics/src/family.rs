//! What a metric is, apart from its values: name, kind, unit, labels and meaning; and the rules of OpenMetrics that they
//! have to keep.

/// What can be done with the values of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, until the process ends.
    Counter,
    Gauge,
    Histogram,
    /// A metric whose labels are the information; its value is always 1.
    Info,
}

/// A metric and its labels. The name is without the suffix of its samples, such as `_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// The base unit, with which the name ends. Empty for a plain number.
    pub unit: &'static str,
    pub labels: &'static [&'static str],
    /// One sentence, without line ends, quotes and backslashes.
    pub help: &'static str,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// What the names of its samples end in, besides those of a histogram.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

impl Family {
    /// Which rule it breaks, if any.
    pub fn flaw(&self) -> Option<&'static str> {
        let word = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_lowercase())
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let reserved = ["_total", "_bucket", "_count", "_sum", "_created", "_info"];
        if !word(self.name) || reserved.iter().any(|suffix| self.name.ends_with(suffix)) {
            Some("the name")
        } else if !self.unit.is_empty() && !self.name.ends_with(&format!("_{}", self.unit)) {
            Some("the name does not end in the unit")
        } else if !self.labels.iter().all(|label| word(label) && *label != "le") {
            Some("a label")
        } else if self.help.is_empty() || self.help.contains(['\n', '"', '\\']) {
            Some("the help")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_are_found() {
        let good =
            Family { name: "a_wait_seconds", kind: Kind::Gauge, unit: "seconds", labels: &["what"], help: "Yes." };
        assert_eq!(good.flaw(), None);
        for bad in [
            Family { name: "a_wait_total", unit: "", ..good },
            Family { name: "A_seconds", ..good },
            Family { name: "a_wait", ..good },
            Family { labels: &["le"], ..good },
            Family { help: "a\nb", ..good },
        ] {
            assert!(bad.flaw().is_some(), "{bad:?}");
        }
    }
}
