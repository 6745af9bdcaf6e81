//! Prometheus' text format, version 0.0.4.
//!
//! In:    families of samples: a name, a help, numbers with labels.
//! Out:   the text.
//! Never: a name or a label that a scraper refuses: names are ours and checked, values escaped.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::Write as _;

/// Type of a metric family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MetricKind {
    /// Only grows until the process ends; the name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets that each count all that is no larger.
    Histogram,
}

/// The text, as it grows.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

/// Names and values, in this order.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// Adds a family with all its samples, which must be adjacent.
    pub(super) fn family<'a>(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        assert!(is_name(name), "{name} is no name of a metric");
        assert_eq!(
            name.ends_with("_total"),
            kind == MetricKind::Counter,
            "{name}: counters are totals"
        );
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, labels, value);
        }
    }

    /// Adds a histogram. Each bucket has its upper bound and the count of values above the bound
    /// before; `larger` counts the values above all bounds.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        buckets: &[(f64, u64)],
        larger: u64,
        sum: f64,
    ) {
        assert!(is_name(name), "{name} is no name of a metric");
        self.head(name, MetricKind::Histogram, help);
        let mut count = 0;
        let bucket = format!("{name}_bucket");
        for (bound, more) in buckets {
            count += more;
            self.sample(&bucket, &[("le", &number(*bound))], float(count));
        }
        count += larger;
        self.sample(&bucket, &[("le", "+Inf")], float(count));
        self.sample(&format!("{name}_sum"), &[], sum);
        self.sample(&format!("{name}_count"), &[], float(count));
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.text.push_str(name);
        for (n, (label, value)) in labels.iter().enumerate() {
            assert!(is_name(label) && !label.contains(':'), "{label} is no name of a label");
            let separator = if n == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{separator}{label}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {}", number(value));
    }
}

/// Formats a value for scrapers: the shortest exact form, and `NaN`, `+Inf` or `-Inf`.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        value.to_string()
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn is_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_fine)
}

/// Converts a count to the only number type of the format, which is exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "the format has no other numbers")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_help_type_and_its_samples() {
        let mut text = Exposition::default();
        let samples =
            [(&[("direction", "read"), ("a", "b\"\\\nc")][..], 2.5), (&[][..], f64::INFINITY)];
        text.family("foreread_x_total", MetricKind::Counter, "What\\it\nis.", samples);
        assert_eq!(
            text.into_text(),
            "# HELP foreread_x_total What\\\\it\\nis.\n# TYPE foreread_x_total counter\n\
             foreread_x_total{direction=\"read\",a=\"b\\\"\\\\\\nc\"} 2.5\nforeread_x_total +Inf\n"
        );
    }

    #[test]
    fn a_family_without_samples_is_not_there() {
        let mut text = Exposition::default();
        text.family("foreread_x", MetricKind::Gauge, "x", []);
        assert_eq!(text.into_text(), "");
    }

    #[test]
    fn a_histogram_counts_all_that_is_no_larger() {
        let mut text = Exposition::default();
        text.histogram("w_bytes", "w", &[(4096.0, 3), (8192.0, 0), (16384.0, 2)], 1, 99.0);
        let samples: Vec<_> = text.text.lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "w_bytes_bucket{le=\"4096\"} 3",
                "w_bytes_bucket{le=\"8192\"} 3",
                "w_bytes_bucket{le=\"16384\"} 5",
                "w_bytes_bucket{le=\"+Inf\"} 6",
                "w_bytes_sum 99",
                "w_bytes_count 6",
            ]
        );
    }

    #[test]
    #[should_panic(expected = "counters are totals")]
    fn a_counter_that_is_called_otherwise_is_a_bug() {
        Exposition::default().family("foreread_x", MetricKind::Counter, "x", [(&[][..], 1.0)]);
    }
}
