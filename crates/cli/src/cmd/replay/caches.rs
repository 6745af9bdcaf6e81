//! `foreread replay --cache`: miss counts of eviction policies.

use std::io::Write as _;

use foreread_core::units::PAGE_SIZE;
use foreread_sim::replay::{CacheCount, CacheUnit, count_misses};
use foreread_trace::TraceReader;
use serde::Serialize;

use super::args::ReplayArgs;
use super::failure;
use crate::output::{Failure, Printer};
use crate::table;

/// One count, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
struct CacheRow {
    trace: String,
    policy: &'static str,
    capacity: usize,
    unit: &'static str,
    uses: u64,
    misses: u64,
    miss_ratio: f64,
}

pub(super) fn run(args: &ReplayArgs, out: &mut Printer) -> Result<(), Failure> {
    let (unit, capacities) = capacities(args)?;
    let mut rows = Vec::new();
    for trace in &args.trace {
        let reader =
            TraceReader::open(trace, args.format).map_err(|error| failure(error.into()))?;
        let counts = count_misses(reader, &args.cache, &capacities, unit).map_err(failure)?;
        let name = trace.display().to_string();
        rows.extend(counts.iter().map(|count| CacheRow::new(&name, unit, count)));
    }
    if args.json {
        return out.json("replay", &rows);
    }
    let heading = ["trace", "policy", "capacity", "unit", "uses", "misses", "miss ratio"];
    table::print(out, heading, rows.iter().map(CacheRow::cells))?;
    out.flush()?;
    Ok(())
}

fn capacities(args: &ReplayArgs) -> Result<(CacheUnit, Vec<usize>), Failure> {
    if !args.objects.is_empty() {
        return Ok((CacheUnit::Object, args.objects.clone()));
    }
    let pages = |memory: &foreread_core::units::ByteCount| {
        let too_much = |_| Failure::WrongUse("--memory: more than can be addressed".to_owned());
        usize::try_from(memory.0 / PAGE_SIZE).map_err(too_much)
    };
    let pages: Result<Vec<usize>, Failure> = args.memory.iter().map(pages).collect();
    Ok((CacheUnit::Page, pages?))
}

impl CacheRow {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn new(trace: &str, unit: CacheUnit, count: &CacheCount) -> Self {
        Self {
            trace: trace.to_owned(),
            policy: count.policy.name(),
            capacity: count.capacity,
            unit: match unit {
                CacheUnit::Page => "page",
                CacheUnit::Object => "object",
            },
            uses: count.uses,
            misses: count.misses,
            miss_ratio: count.misses as f64 / count.uses.max(1) as f64,
        }
    }

    fn cells(&self) -> [String; 7] {
        [
            self.trace.clone(),
            self.policy.to_owned(),
            self.capacity.to_string(),
            self.unit.to_owned(),
            self.uses.to_string(),
            self.misses.to_string(),
            format!("{:.4}", self.miss_ratio),
        ]
    }
}
