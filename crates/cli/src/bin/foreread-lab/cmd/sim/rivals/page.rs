//! The page docs/lab/rivals.md: the table as a document, with the purpose of each scenario.

use std::io::Write as _;

use foreread_sim::rivals::{self, RivalRow};

use super::cells::{HEADING, SUMMARY_HEADING, cells, summary_cells};
use foreread_cli::output::{Failure, Printer};

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

/// The losses of `adaptive` by the rule of the page, under a heading, and why.
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
            writeln!(out, "- {}: {why}", names.join(", "))?;
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

/// The table of all scenarios and where a rival is ahead, for docs/lab/rivals-literature.md.
pub(super) fn print_summary(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    writeln!(out, "## All scenarios\n\n{SUMMARY}\n")?;
    writeln!(out, "| {} |\n|---|--:|---|--:|---|", SUMMARY_HEADING.join(" | "))?;
    for summary in rivals::summaries(rows) {
        writeln!(out, "| {} |", summary_cells(&summary).join(" | "))?;
    }
    losses(out, "Where a rival is ahead", rows)
}

/// The figures of rivals of the literature, for docs/lab/rivals-literature.md.
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

`adaptive` is not the best choice everywhere. Where clients leave after a few reads, smaller windows
read less in vain (`heads`). Where a wait of some milliseconds counts more than the number of
requests, small windows are there earlier (`streaming-fast`, `streaming-lognormal`, `shares-`).
Where a device is full with look-ups at random, `none` gives them what scans beside them would have
had, and windows of 128K a little of it (`zipf-mix`). Where a compaction is to be fast and look-ups
beside it may wait, the windows of Linux move more bytes (`scans-compaction`). Where all that is
read stays in memory and bursts fill a slow device, windows cost time that no read gets back
([block traces](rivals-literature.md#block-traces)). [Where adaptive loses](#where-adaptive-loses)
has the figures, and why.

This page compares the read-ahead policies in the same scenarios, in virtual time. It is the output
of this command, which takes some minutes with a release build:

```text
foreread-lab sim rivals --markdown > docs/lab/rivals.md
```

`foreread-lab sim rivals --help` describes the columns. Each scenario is a file of its name in
`crates/sim/scenarios/rivals/`, which `foreread-lab sim` runs, too. Policies that need a largest
window have it behind their name; `adaptive` has no such parameter. Three columns are regret: *x
best* is the number of requests over the minimum that is possible for the true rates
([simulator](simulator.md#the-fewest-requests)); *x req* is that number over what no read-ahead can
do without (`-` where the device takes requests as large as the memory), and *x MIN* the bytes of
the devices over the misses of Belady's optimum ([bounds](simulator.md#lower-bounds)). Policies of
the literature: [rivals of the literature](rivals-literature.md); other eviction policies:
[replay](replay.md#eviction-policies-below-the-path); `adaptive` without its parts: `foreread-lab
sim rivals --policy ablation` ([adaptive](../design/adaptive.md)).

## Figures
";

const RULE: &str = "\
By more than 2 %, to a policy that serves its readers as well: as many bytes a second, as many
clients at their rate. Where the readers of the one that is furthest ahead wait longer, the furthest
whose readers do not is named, too. Differences below 0.5 s waited, 0.1 s of the device, 10 requests
or 0.005 bytes a byte are none.";

const SUMMARY: &str = "\
What `adaptive` moves and how long its readers wait, beside the fastest of the others (of those
within 2 % of it the one whose readers wait least), and beside the one whose readers wait least of
those that serve them as well.";

/// Reason why a rival is ahead in a scenario. New losses are printed as open and need an entry
/// here.
const WHY: &[(&[&str], &str)] = &[
    (
        &["streaming-fast", "streaming-lognormal"],
        "windows that need the fewest\n  requests are several times as large as 128K, so each is \
         longer on its way, and where several are\n  due at once the last is late. All clients have \
         their rate, and a wait is a few ms for each of\n  them in a minute; the device works half as \
         long or less.",
    ),
    (
        &["shares-one-to-three", "shares-hundred-beside-one"],
        "the same: memory and device are\n  enough for windows of 128K in time, and the larger ones \
         of `adaptive` save half of the device's\n  time.",
    ),
    (
        &["sequential-far"],
        "`competitive` is told how far the device is, and has windows of 57 MiB from\n  its tenth \
         request on; `adaptive` has to learn it.",
    ),
    (
        &["zipf-mix"],
        "the device is full. Without read-ahead the four scans wait for each read, so\n  look-ups get \
         more of the device; all readers together wait twice as long. With it, look-ups wait\n  behind \
         windows, as the device transfers one command after the other: 2.1 ms for 1M. The law\n  \
         minimises the time of the device; `--max-window` favours look-ups. With 48K `adaptive`\n  \
         moves 344 MB/s, 9 % more, in 24 % more requests, and what waits has a p99.9 of 0.4 ms\n  \
         instead of 6.4; with 128K 327 MB/s (`foreread-lab sim zipf-mix.toml --policy adaptive\n  \
         --max-window 48K 128K auto`).",
    ),
    (
        &["heads"],
        "each client leaves after 256 KiB, which no policy can know. The windows are those\n  that pay \
         for readers that stay.",
    ),
    (
        &["strided"],
        "the first read of the file is taken for the beginning of a stream, as by every policy\n  that \
         reads ahead.",
    ),
    (
        &["scans-mixed"],
        "a request takes the device as long there as 400 KB more in one. Windows of the\n  least time \
         for both read more in vain, in fewer requests.",
    ),
    (
        &["scans-compaction"],
        "demand reads go to the device before read-ahead, so look-ups and\n  queries wait less, ask \
         again sooner, and the compaction gets less of the device.",
    ),
];
