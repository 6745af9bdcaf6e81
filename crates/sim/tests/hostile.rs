//! Scenarios with numbers that no machine has: each is refused or ends, and none panics.

use foreread_core::units::Instant;
use foreread_sim::record::Keep;
use foreread_sim::run::Ran;
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
fn ran(text: &str) -> Option<Ran> {
    let scenario = Scenario::parse(text).expect("it is good");
    let mut building = scenario.build(Keep::Hash).expect("it is good");
    let goes_on = building.run.go_some(100_000, scenario.until());
    (!goes_on).then(|| building.run.end())
}

#[test]
fn a_client_asks_for_all_that_it_waits_for() {
    let run = "nfsd = { file = 'data', rsize = '4K', client_window = '4K', read = '64K', \
               link_mb_per_s = 100.0 }";
    let ran = ran(&scenario("", FLASH, "'1M'", run)).expect("it ends");
    assert_eq!((ran.unfinished, ran.processes[0].bytes.0), (0, 1 << 20));
}
