//! The pattern flood of `foreread bench`.
//!
//! Writes only with --overwrite.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use foreread_core::sched::SchedulerKind;

use super::args::{BenchArgs, BenchPattern, NamedMethod};
use super::saved::{created, inputs_of, save};
use foreread_cli::measure::flood::{
    Flood, FloodMethod, FloodRow, FloodSettings, FloodTarget, HEADING,
};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::progress;
use foreread_cli::table;

pub(super) fn run(args: &BenchArgs, out: &mut Printer) -> Result<(), Failure> {
    let methods = methods(args)?;
    if args.html.is_some() {
        return Err(Failure::WrongUse("--html: flood has no HTML report; use --json".into()));
    }
    if !args.overwrite {
        return Err(Failure::WrongUse(format!(
            "{}: flood writes noise over all of it but its first quarter; add --overwrite if \
             nothing on it is of worth",
            args.target
        )));
    }
    let target = FloodTarget::new(Path::new(&args.target))?;
    let saved = created(args, &mut CommandOutputs::beside(&inputs_of(args)))?;
    let flood = Flood {
        target: &target,
        methods: &methods,
        delay: args.delay,
        ours: FloodSettings {
            memory: args.memory.0,
            policy: args.policy,
            scheduler: SchedulerKind::for_device(&args.scheduler)
                .expect("clap accepts only deadline and noop"),
            set: args.set.clone(),
        },
        runs: args.runs,
        time: args.seconds.map_or(TIME, |seconds| Duration::from_secs(seconds.into())),
    };
    let bar = progress(u64::from(args.runs) * methods.len() as u64);
    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    let rows = flood.measure(&bar).map_err(failed)?;
    bar.finish_and_clear();
    let written = save(saved, &rows);
    if args.json {
        out.json("bench", &rows)?;
    } else {
        print(out, args, &target, &rows)?;
    }
    written
}

/// The methods, as far as a flood has them; and no flag that would do nothing.
fn methods(args: &BenchArgs) -> Result<Vec<FloodMethod>, Failure> {
    let refused = |line: String| Err(Failure::WrongUse(line));
    if args.patterns.iter().any(|pattern| *pattern != BenchPattern::Flood) {
        return refused("flood writes, all others only read: give it a call of its own".to_owned());
    }
    let others = [
        ("--max-window", args.max_window.is_some()),
        ("--threads", args.threads != 1),
        ("--amount", args.amount.is_some()),
        ("--start-page", args.start_page != 0),
        ("--prefault", args.prefault),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, is_given)| *is_given) {
        return refused(format!("{flag}: not for flood, whose reads and writes are fixed"));
    }
    let mut methods = Vec::new();
    for wanted in &args.methods {
        let method = match wanted {
            NamedMethod::AccessMethod(AccessMethod::Direct) => {
                FloodMethod::Direct { scheduler: None }
            }
            NamedMethod::AccessMethod(AccessMethod::Foreread) => FloodMethod::Foreread,
            NamedMethod::Scheduler(_) if args.delay.is_some() => {
                return refused(
                    "--delay: no scheduler of the kernel's lies above that slow device; give \
                     --method direct"
                        .to_owned(),
                );
            }
            NamedMethod::Scheduler(name) => FloodMethod::Direct { scheduler: Some(name.clone()) },
            NamedMethod::AccessMethod(AccessMethod::Buffered) => {
                return refused(
                    "--method buffered: its writes end in memory, and what they would measure is its \
                     size; give direct"
                        .to_owned(),
                );
            }
            NamedMethod::AccessMethod(AccessMethod::Memory) => {
                return refused("--method memory: it takes no writes; give direct".to_owned());
            }
        };
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    if methods.is_empty() {
        methods.extend([FloodMethod::Direct { scheduler: None }, FloodMethod::Foreread]);
    }
    Ok(methods)
}

fn print(
    out: &mut Printer,
    args: &BenchArgs,
    target: &FloodTarget,
    rows: &[FloodRow],
) -> Result<(), Failure> {
    let slow = args.delay.map_or(String::new(), |delay| format!(" behind {delay}"));
    let runs = if args.runs == 1 { "one run".to_owned() } else { format!("{} runs", args.runs) };
    out.entry("", &format!("{}{slow}", target.name))?;
    let legend = format!(
        "a chain of 20 reads of 4 KiB, and 64 writers of 64 KiB; median [least-most] of {runs}"
    );
    out.entry("", &legend)?;
    writeln!(out)?;
    table::print(out, HEADING, rows.iter().map(FloodRow::cells))
}

/// Several chains on a fast disk; on a slow one it is the first chain that takes the time.
const TIME: Duration = Duration::from_secs(3);
