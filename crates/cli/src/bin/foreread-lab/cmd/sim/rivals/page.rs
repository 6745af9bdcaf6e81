//! The page docs/lab/rivals.md: the table as a document, with the purpose of each scenario.

use std::io::Write as _;

use foreread_sim::rivals::{self, RivalRow};

use super::cells::{HEADING, SUMMARY_HEADING, cells, summary_cells};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::terminal::{DOCUMENT, wrap};

pub(super) fn print(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    write!(out, "{HEAD}")?;
    for rival in rivals::all() {
        let of: Vec<&RivalRow> = rows.iter().filter(|row| row.scenario == rival.name).collect();
        if of.is_empty() {
            continue;
        }
        writeln!(out, "\n### {}\n\n{}\n", rival.name, rival.about())?;
        table(out, &of)?;
    }
    losses(out, "Where adaptive loses", rows)
}

/// Prints the losses of `adaptive` by the rule of the page, under a heading, with their reasons.
fn losses(out: &mut Printer, heading: &str, rows: &[RivalRow]) -> Result<(), Failure> {
    let losses = rivals::losses(rows);
    writeln!(out, "\n## {heading}\n\n{RULE}\n")?;
    for loss in &losses {
        writeln!(out, "- {loss}")?;
    }
    if losses.is_empty() {
        writeln!(out, "Nowhere.")?;
        return Ok(());
    }
    writeln!(out, "\nWhy:\n")?;
    let is_lost = |name: &str| losses.iter().any(|loss| loss.scenario == name);
    for (scenarios, why) in WHY {
        let names = scenarios.iter().filter(|name| is_lost(name));
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            let text = format!("- {}: {why}", names.join(", "));
            writeln!(out, "{}", wrap("", &text, DOCUMENT).join("\n  "))?;
        }
    }
    let is_known = |name: &str| WHY.iter().any(|(scenarios, _)| scenarios.contains(&name));
    let mut open: Vec<&str> = losses.iter().map(|loss| loss.scenario).collect();
    open.retain(|name| !is_known(name));
    open.dedup();
    for name in open {
        writeln!(out, "- `{name}`: open.")?;
    }
    Ok(())
}

/// Prints the table of all scenarios with the rivals that are ahead, for
/// docs/lab/rivals-literature.md.
pub(super) fn print_summary(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    writeln!(out, "## All scenarios\n\n{SUMMARY}\n")?;
    writeln!(out, "| {} |\n|---|--:|---|--:|---|", SUMMARY_HEADING.join(" | "))?;
    for summary in rivals::summaries(rows) {
        writeln!(out, "| {} |", summary_cells(&summary).join(" | "))?;
    }
    losses(out, "Where a rival is ahead", rows)
}

/// Prints the figures of rivals in the literature, for docs/lab/rivals-literature.md.
pub(super) fn print_literature(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    writeln!(out, "## Figures")?;
    for rival in rivals::all() {
        let of: Vec<&RivalRow> = rows.iter().filter(|row| row.scenario == rival.name).collect();
        if !of.is_empty() {
            writeln!(out, "\n### {}\n", rival.name)?;
            table(out, &of)?;
        }
    }
    Ok(())
}

fn table(out: &mut Printer, rows: &[&RivalRow]) -> Result<(), Failure> {
    let numbers = "|--:".repeat(HEADING.len() - 2);
    writeln!(out, "| {} |\n|---{numbers}|", HEADING[1..].join(" | "))?;
    for row in rows {
        writeln!(out, "| {} |", cells(row)[1..].join(" | "))?;
    }
    Ok(())
}

const HEAD: &str = "\
# Rivals: every policy in the same scenarios

`adaptive` does not win everywhere. If clients leave after a few reads, smaller windows waste less
(`heads`). If a wait of a few milliseconds costs more than extra requests, small windows arrive
earlier (`streaming-fast`, `streaming-lognormal`, `shares-`). On a device saturated by random
look-ups, `none` gives the look-ups the bandwidth that concurrent scans would take, and windows of
128K take less of it than larger ones (`zipf-mix`). If a compaction must be fast and concurrent
look-ups may wait, the windows of Linux move more bytes (`scans-compaction`). If all data stays in
memory and bursts saturate a slow device, read-ahead costs time that no later read recovers
([block traces](rivals-literature.md#block-traces)). [Where adaptive loses](#where-adaptive-loses)
lists the figures and the reasons.

This page compares the read-ahead policies in the same scenarios, in virtual time. It is the output
of this command, which takes some minutes with a release build:

```text
foreread-lab sim rivals --markdown > docs/lab/rivals.md
```

`foreread-lab sim rivals --help` describes the columns. Each scenario is a file of the same name in
`crates/sim/scenarios/rivals/`; `foreread-lab sim` runs it by itself. Policies that need a largest
window show it after their name; `adaptive` has no such parameter. Three columns measure regret: *x
best* is the number of requests over the minimum for the true rates
([simulator](simulator.md#the-fewest-requests)), *x req* the same number over a lower bound for any
read-ahead (`-` if one request may fill the memory), and *x MIN* the bytes read from the devices
over the misses of Belady's MIN ([bounds](simulator.md#lower-bounds)). Other pages compare policies
of the literature ([rivals of the literature](rivals-literature.md)), other eviction policies
([replay](replay.md#eviction-policies-below-the-path)), and `adaptive` without its parts
(`foreread-lab sim rivals --policy ablation`: [adaptive](../design/adaptive.md)).

## Figures
";

const RULE: &str = "\
By more than 2 %, to a policy that serves its readers as well: the same throughput, and as many
clients at their rate. If the readers of the leading policy wait longer, the leader among those
whose readers do not is listed, too. Differences below 0.5 s of waiting, 0.1 s of device time, 10
requests or 0.005 bytes per byte are ignored.";

const SUMMARY: &str = "\
The throughput of `adaptive` and the total wait of its readers, next to the fastest other policy (of
those within 2 % of it, the one whose readers wait least), and to the policy whose readers wait
least among those that serve them as well.";

/// Reason why a rival is ahead in a scenario. New losses are printed as open and need an entry
/// here.
const WHY: &[(&[&str], &str)] = &[
    (
        &["streaming-fast", "streaming-lognormal"],
        "the windows that need the fewest requests are several times as large as 128K, so \
         each takes longer to arrive; when several fall due at once, the last one is late. \
         All clients keep their rate, and each waits a few ms per minute; the device is busy \
         for half as long or less.",
    ),
    (
        &["shares-one-to-three", "shares-hundred-beside-one"],
        "the same: memory and device suffice to deliver windows of 128K in time, and the \
         larger windows of `adaptive` save half of the device's time.",
    ),
    (
        &["sequential-far"],
        "`competitive` is told the latency of the device and requests windows of 57 MiB from \
         its tenth request on; `adaptive` has to learn the latency.",
    ),
    (
        &["zipf-mix"],
        "the device is saturated. Without read-ahead the four scans wait for each read, which \
         leaves more of the device to the look-ups, but all readers together wait twice as \
         long. With read-ahead, look-ups queue behind windows, because the device transfers \
         one command after the other: 2.1 ms for 1M. `adaptive` minimises the busy time of \
         the device; `--max-window` favours look-ups. With 48K `adaptive` moves 344 MB/s, 9 % \
         more, in 24 % more requests, and the p99.9 of the operations that wait is 0.4 ms \
         instead of 6.4; with 128K it moves 327 MB/s (`foreread-lab sim zipf-mix.toml \
         --policy adaptive --max-window 48K 128K auto`).",
    ),
    (
        &["heads"],
        "each client leaves after 256 KiB, which no policy can know. These windows pay off \
         for readers that stay.",
    ),
    (
        &["strided"],
        "the first read of the file looks like the beginning of a stream, as it does to every \
         policy that reads ahead.",
    ),
    (
        &["scans-mixed"],
        "a request takes as long as a transfer of 400 KB. The windows of the least total time \
         waste more bytes, in fewer requests.",
    ),
    (
        &["scans-compaction"],
        "demand reads go to the device before read-ahead, so look-ups and queries wait less, \
         ask again sooner, and leave less of the device to the compaction.",
    ),
];
