//! The counts of libCacheSim itself, from its Python package in a process of its own.
//!
//! `./dev test` installs the package beside the build; without it the test says SKIP.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::replay::{CacheUnit, count_misses, fewest_misses};
use foreread_trace::TraceReader;

use crate::replay::support::{csv, skewed_pages};

/// Reads page numbers, one a line, and prints the misses of each cache. `belady` is told when each
/// page is used next.
const PROGRAM: &str = r#"
import sys, libcachesim
pages = [int(line) for line in sys.stdin]
later, after = {}, [0] * len(pages)
for at in range(len(pages) - 1, -1, -1):
    after[at] = later.get(pages[at], 2**62)
    later[pages[at]] = at
kinds = {"fifo": "FIFO", "lru": "LRU", "sieve": "Sieve", "s3-fifo": "S3FIFO", "arc": "ARC",
         "w-tinylfu": "WTinyLFU", "belady": "Belady"}
for name, kind in kinds.items():
    for capacity in map(int, sys.argv[1:]):
        # Parts of a tenth or a hundredth of less are nothing there.
        if capacity < 100 and name in ("s3-fifo", "arc", "w-tinylfu"):
            continue
        cache, request, misses = getattr(libcachesim, kind)(cache_size=capacity), libcachesim.Request(), 0
        request.obj_size = 1
        for at, page in enumerate(pages):
            request.obj_id = page
            request.next_access_vtime = after[at]
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
fn policies_miss_as_often_as_in_lib_cache_sim_or_nearly() {
    let Some(python) = python() else {
        let require = std::env::var("REQUIRE").unwrap_or_default();
        let is_required = require.split(',').any(|word| word == "tools" || word == "all");
        assert!(!is_required, "REQUIRE={require}, and there is no Python package libcachesim");
        println!(
            "SKIP policies_miss_as_often_as_in_lib_cache_sim_or_nearly: no Python package libcachesim"
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
    let reader = || TraceReader::new(text.as_bytes(), "t").unwrap();
    let theirs = std::str::from_utf8(&output.stdout).unwrap();
    let theirs = |name: &str, capacity: usize| -> u64 {
        let start = format!("{name} {capacity} ");
        let line = theirs.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {start}")).parse().unwrap()
    };
    for (kind, within) in [
        (CachePolicyKind::Fifo, 0.0),
        (CachePolicyKind::Lru, 0.0),
        (CachePolicyKind::Sieve, 0.0),
        (CachePolicyKind::S3Fifo, S3_FIFO_WITHIN),
        (CachePolicyKind::Arc, ARC_WITHIN),
        (CachePolicyKind::WTinyLfu, W_TINY_LFU_WITHIN),
    ] {
        let counts = count_misses(reader(), &[kind], &CAPACITIES, CacheUnit::Page).unwrap();
        let is_split = within > 0.0;
        for count in counts.iter().filter(|count| !is_split || count.capacity >= 100) {
            let theirs = theirs(kind.name(), count.capacity);
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let apart = count.misses.abs_diff(theirs) as f64 / theirs as f64;
            println!("{} {}: {} {theirs} {apart:.4}", kind.name(), count.capacity, count.misses);
            assert!(apart <= within, "{count:?}: theirs {theirs}");
        }
    }
    let fewest = fewest_misses(reader(), &CAPACITIES, CacheUnit::Page).unwrap().expect("few uses");
    for (capacity, fewest) in CAPACITIES.into_iter().zip(fewest) {
        assert_eq!(fewest, theirs("belady", capacity), "MIN of {capacity}");
    }
}

/// libCacheSim evicts from its main queue while that is over nine tenths; the paper's algorithm
/// evicts from the small queue while that is over a tenth.
const S3_FIFO_WITHIN: f64 = 0.02;

/// The target of libCacheSim is a real number, the paper's figure 4 leaves open whether it is.
const ARC_WITHIN: f64 = 0.005;

/// libCacheSim has another sketch, other hashes and another main cache.
const W_TINY_LFU_WITHIN: f64 = 0.02;
