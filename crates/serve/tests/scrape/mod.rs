//! A scraper that forgives nothing: Prometheus' text format 0.0.4, and the names that its users
//! expect.
//!
//! In:    a page.
//! Out:   its samples; a panic names the line that is wrong.
//! Never: what Prometheus would refuse, or what promtool would complain about.

#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::collections::{BTreeMap, BTreeSet};

/// Samples by name with labels, as they are written.
pub type Samples = BTreeMap<String, f64>;

#[derive(Debug)]
struct Family {
    name: String,
    kind: String,
}

/// Reads a page.
#[track_caller]
pub fn scrape(page: &str) -> Samples {
    assert!(page.ends_with('\n'), "the last line ends");
    let mut samples = Samples::new();
    let mut families = BTreeSet::new();
    let mut family: Option<Family> = None;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect(line);
            assert!(is_name(name, true) && !help.is_empty() && help.trim() == help, "{line}");
            assert!(families.insert(name.to_owned()), "a family stands together: {line}");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect(line);
            let (typed, kind) = kind.split_once(' ').expect(kind);
            assert_eq!(typed, name, "TYPE follows HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            check_unit(name);
            family = Some(Family { name: name.to_owned(), kind: kind.to_owned() });
            assert!(lines.peek().is_some_and(|line| !line.starts_with('#')), "{name} is empty");
            continue;
        }
        let family = family.as_ref().expect("a sample stands below its HELP and TYPE");
        let (name, labels, value) = sample(line);
        assert!(belongs(&name, &labels, family), "{line} is no sample of {family:?}");
        assert!(family.kind != "counter" || value >= 0.0, "{line}");
        let key = line.rsplit_once(' ').expect(line).0.to_owned();
        assert!(samples.insert(key, value).is_none(), "twice: {line}");
    }
    check_histograms(&samples, page);
    samples
}

/// Base units, spelt out.
#[track_caller]
fn check_unit(name: &str) {
    let base = name.strip_suffix("_total").unwrap_or(name);
    for wrong in ["_ms", "_us", "_ns", "_kib", "_mb", "_kb", "_millis", "_milliseconds", "_byte"] {
        assert!(!base.ends_with(wrong), "{name}: seconds and bytes");
    }
    for unit in ["bytes", "seconds"] {
        assert!(!base.contains(unit) || base.ends_with(unit), "{name}: the unit stands last");
    }
}

fn belongs(name: &str, labels: &[(String, String)], family: &Family) -> bool {
    let has_le = labels.iter().any(|(label, _)| label == "le");
    if family.kind != "histogram" {
        return name == family.name && !has_le;
    }
    match name.strip_prefix(&family.name) {
        Some("_bucket") => has_le,
        Some("_sum" | "_count") => !has_le,
        _ => false,
    }
}

/// Buckets grow, end with +Inf, and that is the count.
#[track_caller]
fn check_histograms(samples: &Samples, page: &str) {
    for name in page.lines().filter_map(|line| line.strip_suffix(" histogram")) {
        let name = name.strip_prefix("# TYPE ").expect(name);
        let bucket = format!("{name}_bucket{{le=\"");
        let buckets: Vec<(f64, f64)> = page
            .lines()
            .filter_map(|line| line.strip_prefix(&bucket))
            .map(|rest| {
                let (le, value) = rest.split_once("\"} ").expect(rest);
                (number(le), number(value))
            })
            .collect();
        let is_sorted = buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        assert!(is_sorted, "{name}: {buckets:?}");
        let (le, all) = *buckets.last().expect(name);
        assert!(le == f64::INFINITY, "{name}: no +Inf");
        assert!((all - samples[&format!("{name}_count")]).abs() < 0.5, "{name}");
        assert!(samples.contains_key(&format!("{name}_sum")), "{name}");
    }
}

/// A name, labels and a value; no time stamp, which a server has no business to give.
#[track_caller]
fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name, true), "{line}");
    let mut labels: Vec<(String, String)> = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect(line);
            assert!(is_name(label, false) && !label.starts_with("__"), "{line}");
            assert!(labels.iter().all(|(other, _)| other != label), "{line}: {label} twice");
            let (value, after) = unquoted(after).expect(line);
            labels.push((label.to_owned(), value));
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}').expect(line);
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').expect(line);
    (name.to_owned(), labels, number(value))
}

/// What stands before the closing quotation mark, and what behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

#[track_caller]
fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        _ => {
            let is_plain =
                text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            assert!(is_plain && !text.is_empty(), "{text:?} is no number");
            text.parse().expect(text)
        }
    }
}

fn is_name(name: &str, may_have_colons: bool) -> bool {
    let mut bytes = name.bytes();
    let is_fine =
        |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || (may_have_colons && byte == b':');
    bytes.next().is_some_and(is_fine) && bytes.all(|byte| is_fine(byte) || byte.is_ascii_digit())
}
