//! The page docs/rivals.md: the table as a document, with what each scenario shows.

use std::io::Write as _;

use foreread_sim::rivals::{self, RivalRow};

use super::cells::cells;
use crate::output::{Failure, Printer};

pub(super) fn print(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    write!(out, "{HEAD}")?;
    for rival in rivals::all() {
        let of: Vec<&RivalRow> = rows.iter().filter(|row| row.scenario == rival.name).collect();
        if of.is_empty() {
            continue;
        }
        writeln!(out, "\n### {}\n\n{}\n", rival.name, rival.about())?;
        writeln!(out, "{COLUMNS}")?;
        for row in of {
            writeln!(out, "| {} |", cells(row)[1..].join(" | "))?;
        }
    }
    let losses = rivals::losses(rows);
    writeln!(out, "\n## Where adaptive loses\n\n{RULE}\n")?;
    for loss in &losses {
        writeln!(out, "- {loss}")?;
    }
    if losses.is_empty() {
        writeln!(out, "Nowhere.")?;
    }
    Ok(())
}

const HEAD: &str = "\
# Rivals: every policy in the same scenarios

This page compares the read-ahead policies in the same scenarios, in virtual time. It is the output
of this command, which takes some minutes with a release build:

```text
foreread sim rivals --markdown > docs/rivals.md
```

`foreread sim rivals --help` describes the columns. Each scenario is a file of its name in
`crates/sim/scenarios/rivals/`, which `foreread sim` runs, too. Policies that need a largest window
have it behind their name; `adaptive` has no such parameter. *x best* is the number of requests over
the minimum that is possible for the true rates ([simulator](simulator.md#the-fewest-requests)).

## Figures
";

const COLUMNS: &str = "\
| policy | elapsed | MB/s | requests | x best | device s | x bytes | unread | waited s | at rate |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

const RULE: &str = "\
By more than 2 %, to a policy that serves its readers as well: as many bytes a second, as many
clients at their rate.";
