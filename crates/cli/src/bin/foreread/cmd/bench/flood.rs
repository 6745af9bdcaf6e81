//! The pattern flood of `foreread bench`.
//!
//! Writes only with --overwrite.

use std::io::{self, Write as _};

use super::plan::FloodPlan;
use super::saved::{created, inputs_of, save};
use foreread_cli::measure::flood::{Flood, FloodRow, FloodTarget, HEADING};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::progress;
use foreread_cli::table;

/// Measures a flood, and reports it.
pub(super) fn run(plan: &FloodPlan, out: &mut Printer) -> Result<(), Failure> {
    let FloodPlan { methods, output, .. } = plan;
    let target = FloodTarget::new(&plan.target)?;
    let saved = created(output, &mut CommandOutputs::beside(&inputs_of(&plan.target)))?;
    let flood = Flood {
        target: &target,
        methods,
        delay: plan.delay,
        ours: plan.ours.clone(),
        runs: plan.runs,
        time: plan.time,
    };
    let bar = progress(u64::from(plan.runs) * methods.len() as u64);
    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    let rows = flood.measure(&bar).map_err(failed)?;
    bar.finish_and_clear();
    let written = save(saved, &rows);
    if output.is_json {
        out.json("bench", &rows)?;
    } else {
        print(out, plan, &target, &rows)?;
    }
    written
}

fn print(
    out: &mut Printer,
    plan: &FloodPlan,
    target: &FloodTarget,
    rows: &[FloodRow],
) -> Result<(), Failure> {
    let slow = plan.delay.map_or(String::new(), |delay| format!(" behind {delay}"));
    let runs = if plan.runs == 1 { "one run".to_owned() } else { format!("{} runs", plan.runs) };
    out.entry("", &format!("{}{slow}", target.name))?;
    let legend = format!(
        "a chain of 20 reads of 4 KiB, and 64 writers of 64 KiB; median [least-most] of {runs}"
    );
    out.entry("", &legend)?;
    writeln!(out)?;
    table::print(out, HEADING, rows.iter().map(FloodRow::cells))
}
