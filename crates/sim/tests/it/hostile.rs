//! Scenarios with numbers that no machine has: each is refused or ends, and none panics.

use foreread_core::units::Nanos;
use foreread_sim::record::RecordMode;
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;

const FLASH: &str = "device.disk.model.flash = { capacity = '1G', mb_per_s = 100.0 }";
const SMALL_COMMANDS: &str =
    "device.disk.model.flash = { capacity = '1G', mb_per_s = 100.0, max_command = '64K' }";

fn scenario(top: &str, device: &str, file_size: &str, run: &str) -> String {
    format!(
        "name = 'hostile'\n{top}\n{device}\nfile.data = {{ device = 'disk', size = {file_size} }}\n\
         [[process]]\nname = 'it'\nrun.{run}\n"
    )
}

#[track_caller]
fn assert_refused(text: &str, wants: &str) {
    let error = Scenario::parse(text).map(drop).expect_err("it is wrong").to_string();
    assert!(error.contains(wants), "wanted {wants:?}: {error}");
}

/// Runs it for at most so many steps; None if it would go on.
fn ran(text: &str) -> Option<RunOutcome> {
    let scenario = Scenario::parse(text).expect("it is good");
    let mut building = scenario.build(RecordMode::Hash).expect("it is good");
    let goes_on = building.run.go_some(100_000, scenario.until());
    (!goes_on).then(|| building.run.end())
}

#[test]
fn random_reads_without_end_take_time() {
    // All of the file is in the cache after a while: time would stand still.
    let run = "random = { file = 'data', read = '4K' }";
    assert_refused(&scenario("until_s = 1.0", FLASH, "'64K'", run), "cpu_us: must be");
    let run = "random = { file = 'data', read = '4K', cpu_us = 1.0 }";
    assert!(Scenario::parse(&scenario("until_s = 1.0", FLASH, "'64K'", run)).is_ok());
    let run = "random = { file = 'data', read = '4K' }";
    assert!(Scenario::parse(&scenario("until_s = 1.0", FLASH, "'1G'", run)).is_ok());
}

#[test]
fn a_command_from_the_buffer_of_a_disk_takes_time() {
    let disk = "device.disk.model.hdd = { capacity = '1G', rpm = 7200.0, outer_mb_per_s = 50.0, \
                inner_mb_per_s = 30.0, seek_min_ms = 1.0, seek_max_ms = 10.0, read_on = '64K' }";
    let run = "random = { file = 'data', read = '4K', direct = true }";
    let text = scenario("until_s = 1.0", disk, "'4K'", run);
    let mut run = Scenario::parse(&text).unwrap().build(RecordMode::Hash).unwrap().run;
    let mut after_more = || {
        assert!(run.go_some(100, Nanos(u64::MAX)), "it goes on");
        run.now()
    };
    assert!(after_more() < after_more());
}

#[test]
fn a_client_asks_for_all_that_it_waits_for() {
    let run = "nfsd = { file = 'data', rsize = '4K', client_window = '4K', read = '64K', \
               link_mb_per_s = 100.0 }";
    let ran = ran(&scenario("", FLASH, "'1M'", run)).expect("it ends");
    assert_eq!((ran.unfinished, ran.processes[0].bytes.0), (0, 1 << 20));
}

#[test]
fn a_request_larger_than_a_device_takes_at_once_is_refused() {
    let wants = "at most max_command of disk";
    for run in [
        "flood = { device = 'disk', size = '1G', request = '128K', amount = '1M' }",
        "random = { file = 'data', read = '128K', direct = true, reads = 5 }",
        "capture = { device = 'disk', size = '1G', picture = '1M', per_s = 25.0, buffer = 10, \
         bitmap_every = '4M' }",
    ] {
        assert_refused(&scenario("until_s = 1.0", SMALL_COMMANDS, "'1M'", run), wants);
    }
}

#[test]
fn a_disk_that_ends_within_a_page_reads_on_to_its_end() {
    let disk = "device.disk.model.hdd = { capacity = '1010s', rpm = 7200.0, \
                outer_mb_per_s = 50.0, inner_mb_per_s = 30.0, seek_min_ms = 1.0, \
                seek_max_ms = 10.0, read_on = '64K' }";
    let run = "sequential = { file = 'data' }";
    let ran = ran(&scenario("", disk, "'1010s'", run)).expect("it ends");
    assert_eq!(ran.processes[0].bytes.0, 1010 * 512);
}

#[test]
fn sizes_that_have_no_sum_are_refused_or_cut() {
    let run = "sequential = { file = 'data', from = '4K', amount = '18446744073709551615' }";
    let ran = ran(&scenario("", FLASH, "'1M'", run)).expect("it ends");
    assert_eq!(ran.processes[0].bytes.0, (1 << 20) - 4096);
    let run = "capture = { device = 'disk', size = '1G', picture = '1M', per_s = 25.0, \
               buffer = 10, bitmap_every = '18446744073709551104' }";
    assert_refused(&scenario("until_s = 1.0", FLASH, "'1M'", run), "bitmap_every: must be");
    let run = "cat-dir = { device = 'disk', files = 1, size = '4K', \
               spread = '18446744073709551615' }";
    assert_refused(&scenario("", FLASH, "'1M'", run), "at: ");
}

#[test]
fn a_file_larger_than_files_are_is_refused() {
    let huge = "'18446744073709551104'";
    let disk = format!("device.disk.model.flash = {{ capacity = {huge}, mb_per_s = 100.0 }}");
    let run = "sequential = { file = 'data', amount = '1M' }";
    assert_refused(&scenario("", &disk, huge, run), "size: must be less than 2^63");
    let run = "streaming = { device = 'disk', file_size = '18446744073709547520', \
               kib_per_s = [1.0], link_kib_per_s = 100.0 }";
    assert_refused(&scenario("", &disk, "'1M'", run), "file_size: must be less than 2^63");
}

#[test]
fn a_cache_that_no_machine_has_is_refused() {
    for memory in ["1T", "1024T", "18446744073709551615"] {
        let top = format!("cache.memory = '{memory}'");
        let run = "sequential = { file = 'data' }";
        assert_refused(&scenario(&top, FLASH, "'1M'", run), "memory: must be at most 64G");
    }
}

#[test]
fn a_run_ends_after_thirty_years() {
    let run = "sequential = { file = 'data', cpu_us = 1e15 }";
    let ran_1 = ran(&scenario("", FLASH, "'1M'", run)).expect("it ends");
    assert_eq!((ran_1.unfinished, ran_1.end.0), (1, 1_000_000_000_000_000_000));
    let run = "sequential = { file = 'data', cpu_ns_per_byte = 1e18 }";
    let ran_2 = ran(&scenario("", FLASH, "'1M'", run)).expect("it ends");
    assert_eq!(ran_2.unfinished, 1);
    let disk = "device.disk.model.flash = { capacity = '16384T', mb_per_s = 1000000.0 }";
    let run = "flood = { device = 'disk', size = '16384T', request = '1G', kib_per_s = 0.001, \
               amount = '16384T' }";
    let ran_3 = ran(&scenario("", disk, "'1M'", run)).expect("it ends");
    assert_eq!(ran_3.unfinished, 1);
}

#[test]
fn more_files_than_a_path_knows_are_refused() {
    let text = "name = 'hostile'\n\
                device.disk.model.flash = { capacity = '1T', mb_per_s = 100.0 }\n\
                [[process]]\nname = 'it'\ncount = 100\n\
                run.cat-dir = { device = 'disk', files = 10000, dirs = 2, size = '4K' }\n";
    assert_refused(text, "file: there are too many");
}
