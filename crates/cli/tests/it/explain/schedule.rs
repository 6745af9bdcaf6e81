//! `explain schedule`: golden orders, through the command line.

use serde_json::json;

use crate::explain::run::{json_of, lines, words};

fn schedule(flags: &str) -> String {
    lines(&words(&format!("explain schedule {flags}"))).join(" ")
}

/// Every row of the core's golden orders: the binary reads and prints what the core decides.
#[test]
fn the_golden_orders_come_out() {
    let csv = include_str!("../../../../core/tests/golden/deadline.csv");
    let mut count = 0;
    for line in csv.lines().skip(1) {
        // Names and parameters with a comma stand in quotes.
        let quoted = line.replace(", '", ";'").replace('"', "");
        let fields: Vec<_> = quoted.rsplitn(7, ',').collect();
        let [order, start_ms, step_ms, params, requests, scheduler, example] = fields[..] else {
            panic!("{line}")
        };
        let mut flags = match scheduler {
            "2002" if example.starts_with("D9 ") => "rule=2002 fifo_batch=64",
            "2002" => "rule=2002 seek_cost=1",
            "4.x" => "rule=4.x",
            _ => "rule=mq",
        }
        .to_owned();
        for param in params.trim_matches(['{', '}']).split(';').filter(|param| !param.is_empty()) {
            let (name, value) = param.split_once(": ").unwrap();
            let name = name.trim_matches('\'').replace("seek", "seek_cost");
            flags += &format!(" {name}={value}");
        }
        let mut flags: String =
            flags.split(' ').map(|setting| format!("--set {setting} ")).collect();
        flags += if scheduler.ends_with("warm") { "--set warm=on" } else { "" };
        let requests = with_classes(example, requests);
        let got = schedule(&format!("{flags} --dispatch-ms {start_ms}+{step_ms} {requests}"));
        assert_eq!(got, order, "{example} under {scheduler}");
        count += 1;
    }
    assert_eq!(count, 36);
}

fn with_classes(example: &str, requests: &str) -> String {
    let class = |request: &str| {
        let (id, _) = request.split_once('@').unwrap();
        let class = match (example.split(' ').next().unwrap(), id) {
            ("D11" | "D12", "R10") => "idle:",
            ("D11", "R1000" | "R1008") => "be:",
            ("D11" | "D12", _) => "rt:",
            _ => "",
        };
        format!("{class}{request}")
    };
    requests.split(' ').map(class).collect::<Vec<_>>().join(" ")
}

#[test]
fn noop_is_first_come_first_served() {
    let got = schedule("--scheduler noop R300@5 W50@0 R100@5");
    assert_eq!(got, "W50 R300 R100");
}

/// The second submitter waits until the first one is not expected back any more.
#[test]
fn cfq_gives_each_submitter_a_slice() {
    let line = "explain schedule --scheduler cfq --why 1:R100@0 2:R5000@0 1:R200@0 1:R300@60";
    let want = [
        "R100        0 ms  next",
        "R200        0 ms  batch",
        "R5000       8 ms  next",
        "R300       60 ms  next",
    ];
    assert_eq!(lines(&words(line)), want);
    let line = line.replace(" --why", " --json --dispatch-ms 0+5 --set slice_idle=9");
    assert_eq!(json_of(&words(&line))[2]["dispatch_ms"], 15, "the first step after 5 + 9 ms");
}

#[test]
fn a_step_without_requests_passes_unused() {
    let got = lines(&words("explain schedule --why --dispatch-ms 3+10 R1@0 R500@4 R900@41"));
    assert_eq!(
        got,
        [
            "R1         3 ms  oldest", //
            "R500      13 ms  oldest",
            "R900      43 ms  oldest",
        ]
    );
}

/// The step is a place in time, also when it is far away.
#[test]
fn a_late_request_goes_at_the_next_step() {
    let line = "explain schedule --json --dispatch-ms 0+7 R1@0 R2@1000000000";
    assert_eq!(json_of(&words(line))[1]["dispatch_ms"], 1_000_000_001_u64);
}

#[test]
fn neighbours_merge_when_asked_to() {
    let requests = "W116@0 W500@10 W100@20 W108@30";
    assert_eq!(schedule(&format!("--dispatch-ms 30 {requests}")), "W116 W500 W100 W108");
    let line = format!("explain schedule --merge --json --dispatch-ms 30 {requests} R8+16@0");
    assert_eq!(
        json_of(&words(&line)),
        json!([
            {"id": "R8", "start": 8, "sectors": 16, "arrival_ms": 0, "dispatch_ms": 30,
             "why": "oldest"},
            {"id": "W100 W108 W116", "start": 100, "sectors": 24, "arrival_ms": 0,
             "dispatch_ms": 30, "why": "oldest"},
            {"id": "W500", "start": 500, "sectors": 8, "arrival_ms": 10, "dispatch_ms": 30,
             "why": "batch"},
        ])
    );
}

#[test]
fn a_scheduler_that_does_not_say_why_says_so() {
    let got = lines(&words("explain schedule --scheduler noop --why R1@0"));
    assert_eq!(got, ["R1       0 ms  -"]);
    let got = json_of(&words("explain schedule --scheduler noop --json R1@0"));
    assert_eq!(got[0]["why"], json!(null));
}
