//! Golden traces of `deadline`: requests go in, the order of their dispatch comes out.
//!
//! tests/golden/deadline.csv gives the dispatch order of three rules; tests/golden/README.md gives
//! the origin of the rows. Below: cases that the rows cannot show (merging, limits, changes of
//! settings while requests are queued).

#![cfg(not(loom))]

mod bench;
mod limits;
mod merging;

use bench::{Bench, choice, dispatched};

#[test]
fn every_golden_order_of_three_rules_is_reproduced() {
    let rows = golden_rows();
    assert_eq!(rows.len(), 36, "rows are missing");
    for row in rows {
        let got = dispatched(&row.settings(), &row.requests(), row.t0_ms, row.step_ms);
        assert_eq!(got.join(" "), row.order, "{} under {}", row.example, row.scheduler);
    }
}

/// D4: writes are preferred, and each fourth batch of them is followed by one of reads.
#[test]
fn a_negative_writes_starved_is_the_mirror_image() {
    let requests = "R10@0 R20@0 R30@0 R40@0 W1000@0 W1010@0 W1020@0 W1030@0";
    for scheduler in ["2002", "4.x", "mq-now", "mq-now-warm"] {
        let order = |writes_starved: &str, fifo_batch: &str| {
            let mut settings = of_scheduler(scheduler);
            settings.push(("seek_cost", "1".into()));
            settings.push(("fifo_batch", fifo_batch.into()));
            settings.push(("writes_starved", writes_starved.into()));
            dispatched(&settings, requests, 0, 0).join(" ")
        };
        let writes_first = "W1000 W1010 W1020 W1030 R10 R20 R30 R40";
        assert_eq!(order("-4", "2"), writes_first, "{scheduler}: two batches of writes");
        let one_at_a_time = match scheduler {
            // The first write goes with the batch that was never chosen, and is not counted.
            "mq-now" => "W1000 W1010 W1020 W1030 R10 R20 R30 R40",
            _ => "W1000 W1010 W1020 R10 W1030 R20 R30 R40",
        };
        assert_eq!(order("-3", "1"), one_at_a_time, "{scheduler}");
    }
}

/// Only with quirks, and only at the start, the first batch consists of writes that were not
/// preferred.
#[test]
fn without_quirks_mq_starts_like_4_x() {
    for row in golden_rows().into_iter().filter(|row| row.scheduler == "4.x") {
        let settings = |rule: &str| {
            let mut settings = row.settings();
            settings.extend([("rule", rule.to_owned()), ("quirks", "off".to_owned())]);
            settings
        };
        let mq = dispatched(&settings("mq"), &row.requests(), row.t0_ms, row.step_ms);
        assert_eq!(mq.join(" "), row.order, "{}", row.example);
    }
}

/// A search for aged requests that finds one too young starts a new batch, but only with quirks.
#[test]
fn a_failed_search_for_aged_requests_leaves_no_trace_without_quirks() {
    let requests = "rt:R10@0 rt:R20@0 rt:R30@0 rt:W100@0 idle:R500@0";
    let order = |quirks: &str| {
        let mut settings = of_scheduler("mq-now-warm");
        settings.extend([("fifo_batch", "1".to_owned()), ("quirks", quirks.to_owned())]);
        settings.push(("writes_starved", "1".into()));
        dispatched(&settings, requests, 0, 0).join(" ")
    };
    // Each search begins a new batch of reads, and the real-time reads continue it.
    assert_eq!(order("on"), "R10 R20 R30 W100 R500");
    assert_eq!(order("off"), "R10 W100 R20 R30 R500");
}

/// With quirks, a direction resumes where it stopped, otherwise at its oldest request.
#[test]
fn a_change_of_direction_begins_at_the_oldest_without_quirks() {
    let requests = "R10@0 R30@0 R20@0 W5@0 W6000@0";
    let order = |quirks: &str| {
        let mut settings = of_scheduler("mq-now-warm");
        settings.extend([("fifo_batch", "1".to_owned()), ("quirks", quirks.to_owned())]);
        settings.push(("writes_starved", "1".into()));
        dispatched(&settings, requests, 0, 0).join(" ")
    };
    assert_eq!(order("on"), "R10 W5 R20 W6000 R30");
    assert_eq!(order("off"), "R10 W5 R30 W6000 R20");
}

/// A real-time request in flight blocks best effort until it ends.
#[test]
fn a_class_waits_for_requests_in_flight_of_a_higher_one() {
    let mut bench = Bench::new(&choice(&of_scheduler("mq-now")), 8);
    bench.add("rt:R10@0 R20@0 idle:R30@0");
    assert_eq!(bench.take(0), Some("R10".into()));
    assert_eq!(bench.take(0), None);
    // An aged request does not wait.
    assert_eq!(bench.take(10_000), Some("R20".into()));
    bench.complete("R10");
    assert_eq!(bench.take(0), None, "R20 is in flight");
    bench.complete("R20");
    assert_eq!(bench.take(0), Some("R30".into()));
}

/// A row of deadline.csv.
struct Row {
    example: String,
    scheduler: String,
    requests: String,
    params: Vec<(&'static str, String)>,
    step_ms: u64,
    t0_ms: u64,
    order: String,
}

impl Row {
    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = of_scheduler(&self.scheduler);
        if self.scheduler == "2002" {
            let (seek_cost, fifo_batch) =
                if self.example.starts_with("D9 ") { ("16", "64") } else { ("1", "16") };
            settings.extend([("seek_cost", seek_cost.into()), ("fifo_batch", fifo_batch.into())]);
        }
        settings.extend(self.params.iter().cloned());
        settings
    }

    /// Returns the requests with their classes.
    fn requests(&self) -> String {
        let class = |id: &str| match (self.example.split(' ').next().unwrap(), id) {
            ("D11" | "D12", "R10") => "idle:",
            ("D11", "R1000" | "R1008") => "be:",
            ("D11" | "D12", _) => "rt:",
            _ => "",
        };
        let with_class = |request: &str| {
            let (id, _) = request.split_once('@').unwrap();
            format!("{}{request}", class(id))
        };
        self.requests.split(' ').map(with_class).collect::<Vec<_>>().join(" ")
    }
}

fn of_scheduler(name: &str) -> Vec<(&'static str, String)> {
    match name {
        "2002" | "4.x" => vec![("rule", name.into())],
        "mq-now" => vec![("rule", "mq".into())],
        "mq-now-warm" => vec![("rule", "mq".into()), ("warm", "on".into())],
        _ => panic!("no scheduler {name}"),
    }
}

fn golden_rows() -> Vec<Row> {
    let path = format!("{}/tests/golden/deadline.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    let fields = fields(line);
    let [example, scheduler, requests, params, step_ms, t0_ms, order] = fields.try_into().unwrap();
    let param = |pair: &str| {
        let (name, value) = pair.split_once(": ").unwrap();
        let name = match name.trim_matches('\'') {
            "fifo_batch" => "fifo_batch",
            "writes_starved" => "writes_starved",
            "seek" => "seek_cost",
            other => panic!("no setting {other}"),
        };
        (name, value.to_owned())
    };
    let params = params.trim_matches(['{', '}']);
    let params = params.split(", ").filter(|pair| !pair.is_empty()).map(param).collect();
    let (step_ms, t0_ms) = (step_ms.parse().unwrap(), t0_ms.parse().unwrap());
    Row { example, scheduler, requests, params, step_ms, t0_ms, order }
}

/// Returns the fields of a line; quoted ones may contain commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(character),
        }
    }
    fields
}
