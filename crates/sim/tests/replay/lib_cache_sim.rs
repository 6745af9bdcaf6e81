//! The counts of libCacheSim itself, from its Python package in a process of its own.
//!
//! `./dev test` installs the package beside the build; without it the test says SKIP.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::replay::{CacheUnit, count_misses};
use foreread_trace::TraceReader;

use crate::support::{csv, skewed_pages};

/// Reads page numbers, one a line, and prints the misses of each cache.
const PROGRAM: &str = r#"
import sys, libcachesim
pages = [int(line) for line in sys.stdin]
for name, kind in (("fifo", libcachesim.FIFO), ("lru", libcachesim.LRU)):
    for capacity in map(int, sys.argv[1:]):
        cache, request, misses = kind(cache_size=capacity), libcachesim.Request(), 0
        request.obj_size = 1
        for page in pages:
            request.obj_id = page
            misses += not cache.get(request)
        print(name, capacity, misses)
"#;

const CAPACITIES: [usize; 10] = [1, 3, 10, 31, 100, 200, 316, 500, 1000, 1900];

/// The Python that has the package.
fn python() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../venv/bin/python");
    let has = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import libcachesim"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    [beside, PathBuf::from("python3")].into_iter().find(has)
}

#[test]
fn fifo_and_lru_miss_as_often_as_in_lib_cache_sim() {
    let Some(python) = python() else {
        let require = std::env::var("REQUIRE").unwrap_or_default();
        let is_required = require.split(',').any(|word| word == "tools" || word == "all");
        assert!(!is_required, "REQUIRE={require}, and there is no Python package libcachesim");
        println!(
            "SKIP fifo_and_lru_miss_as_often_as_in_lib_cache_sim: no Python package libcachesim"
        );
        return;
    };
    let pages = skewed_pages(30_000, 2_000, 5);
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM]).args(CAPACITIES.map(|capacity| capacity.to_string()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines: String = pages.iter().map(|page| format!("{page}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let text = csv(&pages);
    let mut ours = Vec::new();
    for kind in [CachePolicyKind::Fifo, CachePolicyKind::Lru] {
        let reader = TraceReader::new(text.as_bytes(), "t").unwrap();
        let counts = count_misses(reader, &[kind], &CAPACITIES, CacheUnit::Page).unwrap();
        let line = |count: &foreread_sim::replay::CacheCount| {
            format!("{} {} {}", kind.name(), count.capacity, count.misses)
        };
        ours.extend(counts.iter().map(line));
    }
    let theirs: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!(ours, theirs);
}
