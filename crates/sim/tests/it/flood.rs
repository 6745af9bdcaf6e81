//! A chain of reads beside a flood of writes, with the limit of writes learnt:
//! docs/design/deadline.md.

use crate::documented_table;

use documented_table::check_table;
use foreread_core::sched::Op;
use foreread_core::units::Nanos;
use foreread_sim::record::RecordMode;
use foreread_sim::scenario::Scenario;

const MS: u64 = 1_000_000;

/// What came of one run.
struct Came {
    /// The chain's time, by its time alone.
    chain: f64,
    /// What the writers got while it ran, and before and after, in percent of what they get alone.
    beside: f64,
    before: f64,
    after: f64,
}

/// A device of the table.
struct Row {
    name: &'static str,
    channels: f64,
    service_us: f64,
    model: &'static str,
}

const DEVICES: [Row; 2] = [
    Row { name: "one head, 4 ms", channels: 1.0, service_us: 4000.0, model: "" },
    Row {
        name: "8 ways, 1 ms",
        channels: 8.0,
        service_us: 1000.0,
        model: "channels = 8, overhead_us = 1000",
    },
];

const ARMS: [(&str, &str); 4] = [
    ("learn", "rule = \"4.x\", writes_in_flight = \"learn\""),
    ("1", "rule = \"4.x\", writes_in_flight = 1"),
    ("0", "rule = \"4.x\", writes_in_flight = 0"),
    ("0, rule mq", "rule = \"mq\", writes_in_flight = 0"),
];

fn run(device: &Row, settings: &str) -> Came {
    let text = include_str!("../../scenarios/flood.toml");
    let text = text.replace(ARMS[0].1, settings);
    let text = match device.model {
        "" => text,
        model => text.replace("channels = 1, overhead_us = 4000", model),
    };
    let scenario = Scenario::parse(&text).expect("a scenario");
    let mut run = scenario.build(RecordMode::Log).expect("it can be built").run;
    let written = |run: &foreread_sim::run::SimRun| run.devices()[0].requests(Op::Write) as f64;
    let began = 1000 * MS;
    run.go(Nanos(began));
    let before = written(&run);
    while run.left() > 1 {
        let next = run.now().0 + MS;
        run.go(Nanos(next));
    }
    let (ended, beside) = (run.now().0, written(&run));
    run.go(Nanos(ended + 2000 * MS));
    let after = written(&run);
    let ran = run.end();
    ran.replay().expect("what the limit was follows from what was done");
    let chain = ran.processes.iter().find(|process| process.name == "chain").expect("it ran");
    let alone_s = 500.0 * device.service_us / 1e6;
    let percent = |writes: f64, ns: u64| {
        writes * 100.0 / (ns as f64 / 1e3 / device.service_us * device.channels)
    };
    Came {
        chain: chain.seconds(ran.end) / alone_s,
        beside: percent(beside - before, ended - began),
        before: percent(before, began),
        after: percent(after - beside, 2000 * MS),
    }
}

#[test]
fn the_learnt_limit_protects_reads_and_leaves_writers_the_rest() {
    for (device, most, least) in [(&DEVICES[0], 2.2, 45.0), (&DEVICES[1], 1.2, 80.0)] {
        let came = run(device, ARMS[0].1);
        assert!(came.chain <= most, "{}: {}", device.name, came.chain);
        assert!(came.beside >= least, "{}: {}", device.name, came.beside);
        assert!(came.before >= 90.0, "{}: {}", device.name, came.before);
        assert!(came.after >= 90.0, "{}: {}", device.name, came.after);
    }
}

#[test]
fn the_table_of_limits_is_what_the_simulator_makes_of_them() {
    let head = "| device | `writes_in_flight` | chain, x alone | writers beside it, % of alone | \
                before | after |\n|---|---|---|---|---|---|\n";
    let mut table = String::new();
    for device in &DEVICES {
        for (name, settings) in ARMS {
            let Came { chain, beside, before, after } = run(device, settings);
            table += &format!("| {} | {name} | {chain:.2} |", device.name);
            table += &format!(" {beside:.1} | {before:.1} | {after:.1} |\n");
        }
    }
    check_table("design/deadline.md", head, &table);
}
