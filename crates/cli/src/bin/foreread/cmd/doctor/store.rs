//! `foreread doctor URL`: examines an object store.
//!
//! Sends at most nine small requests per object, and never prints credentials.

mod findings;

use std::io::Write as _;
use std::time::Duration;

use foreread_object::{RangeSupport, StoreExamination};
use foreread_tune::doctor::Finding;
use serde::Serialize;
use serde_json::Value;

use super::plan::FindingsForm;
use super::report;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::store::{StoreClient, prices_of_environment};

/// Examines the stores of objects.
pub(super) fn examine_stores(
    urls: &[String],
    form: FindingsForm,
    out: &mut Printer,
) -> Result<(), Failure> {
    let environment = findings::Environment::here();
    let prices = prices_of_environment()?;
    let urls = urls.iter().map(String::as_str);
    let examined = urls.map(|url| Ok((url, StoreClient::examine(url, DEADLINE, prices)?)));
    let examined = examined.collect::<Result<Vec<_>, Failure>>()?;
    let stores: Vec<_> = examined.iter().map(|(url, facts)| StoreReport::of(url, facts)).collect();
    let all = examined.iter().flat_map(|(url, facts)| findings::of(url, facts, &environment));
    let all: Vec<Finding> = all.collect();
    match form {
        FindingsForm::Json => json(out, &stores, &all)?,
        FindingsForm::Lines => report::check(out, &all)?,
        FindingsForm::Report | FindingsForm::ReportWithStacks => {
            for (n, store) in stores.iter().enumerate() {
                if n > 0 {
                    writeln!(out)?;
                }
                store.print(out)?;
            }
            report::print_findings(out, &all)?;
        }
    }
    report::exit(&all)
}

fn json(out: &mut Printer, stores: &[StoreReport<'_>], all: &[Finding]) -> Result<(), Failure> {
    let failed = |error| Failure::Check(format!("cannot print JSON: {error}"));
    let stores = stores.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
    let none = ["machine", "devices", "mounts", "stacks", "notes"].map(|list| (list, Vec::new()));
    let mut beside = Vec::from(none);
    beside.push(("stores", stores.map_err(failed)?));
    out.json_beside("doctor", all, &beside)
}

/// Facts about a store, as printed by `--json`.
#[derive(Debug, Serialize)]
struct StoreReport<'f> {
    url: &'f str,
    /// The bucket and its endpoint.
    device: &'f str,
    status: Option<u16>,
    error: Option<String>,
    server: Option<&'f str>,
    region: Option<&'f str>,
    size: Option<u64>,
    etag: Option<&'f str>,
    clock_ahead_s: Option<SecondsBetween>,
    /// `honoured`, `ignored`, or an error.
    ranges: Option<String>,
    refuses_other_version: Option<bool>,
    first_byte_ms: Option<FirstByte>,
    connection_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SecondsBetween {
    min: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct FirstByte {
    min: f64,
    median: f64,
    max: f64,
    requests: usize,
}

impl<'f> StoreReport<'f> {
    fn of(url: &'f str, facts: &'f StoreExamination) -> Self {
        let times = &facts.first_bytes;
        let first_byte = |min, max| FirstByte {
            min: ms(min),
            median: ms(times[times.len() / 2]),
            max: ms(max),
            requests: times.len(),
        };
        Self {
            url,
            device: &facts.device,
            status: facts.status,
            error: facts.error.as_ref().map(ToString::to_string),
            server: facts.server.as_deref(),
            region: facts.region.as_deref(),
            size: facts.meta.as_ref().map(|meta| meta.size),
            etag: facts.meta.as_ref().and_then(|meta| meta.e_tag.as_deref()),
            clock_ahead_s: facts.clock_ahead_s.map(|(min, max)| SecondsBetween { min, max }),
            ranges: facts.ranges.as_ref().map(range_text),
            refuses_other_version: facts.refuses_other_version,
            first_byte_ms: times.first().zip(times.last()).map(|(min, max)| first_byte(*min, *max)),
            connection_ms: facts.connection.map(ms),
        }
    }

    fn print(&self, out: &mut Printer) -> Result<(), Failure> {
        writeln!(out, "{}", self.url)?;
        let mut line = |label: &str, text: &str| out.entry(&format!("  {label:<13}"), text);
        line("store", &format!("{}{}", self.device, in_words(self.server, "server")))?;
        let Some(size) = self.size else {
            return line("reached", &self.status.map_or("no".to_owned(), |it| format!("no: {it}")));
        };
        line("object", &format!("{size} bytes{}", in_words(self.etag, "ETag")))?;
        if let Some(region) = self.region {
            line("region", region)?;
        }
        if let Some(SecondsBetween { min, max }) = self.clock_ahead_s {
            line("clock", &format!("that of the store is ahead by {min:.1} s to {max:.1} s"))?;
        }
        if let Some(ranges) = &self.ranges {
            line("ranges", ranges)?;
        }
        match self.refuses_other_version {
            Some(true) => line("If-Match", "honoured: another version is refused")?,
            Some(false) => line("If-Match", "ignored: another version is answered")?,
            None => {}
        }
        if let Some(FirstByte { min, median, max, requests }) = self.first_byte_ms {
            let range = format!("{min:.1} to {max:.1}, {requests} requests");
            line("first byte", &format!("{median:.1} ms ({range})"))?;
        }
        if let Some(more) = self.connection_ms {
            line("connection", &format!("{more:.1} ms more for the first request"))?;
        }
        Ok(())
    }
}

fn range_text(support: &RangeSupport) -> String {
    match support {
        RangeSupport::Honoured => "honoured".to_owned(),
        RangeSupport::Ignored(_) => "ignored".to_owned(),
        RangeSupport::Wrong(how) => how.clone(),
        _ => "unknown".to_owned(),
    }
}

fn in_words(value: Option<&str>, name: &str) -> String {
    value.map_or(String::new(), |value| format!(", {name} {value}"))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Time limit of each request; short, because a person waits.
const DEADLINE: Duration = Duration::from_secs(20);
