//! The mixed load on real file systems: it runs, it puts everything back, it leaves nothing.
//!
//! In:    loop devices of our own with ext4 on them; a tmpfs; folders of this machine.
//! Out:   what is left afterwards: files, settings.
//! Never: a setting of a device that is not ours. A time: how fast a machine is proves nothing.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "flood_real/disk.rs"]
mod disk;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Need, needs};
use disk::{Disk, clock};
use foreread_tune::flood::{FloodReport, Load, Offer, Outcome, Scratch, measure};
use foreread_tune::probe::Stopped;
use foreread_tune::setting::Setting;
use foreread_tune::sysfs::Sys;

/// Measures in a folder, as the command does.
fn run(folder: &Path, may_set: bool, budget: Duration) -> Result<Outcome, Stopped> {
    let interrupted = Arc::new(AtomicBool::new(false));
    run_until(folder, may_set, budget, &interrupted)
}

fn run_until(
    folder: &Path,
    may_set: bool,
    budget: Duration,
    interrupted: &Arc<AtomicBool>,
) -> Result<Outcome, Stopped> {
    let sys = Sys::here();
    let scratch = Scratch::create(folder, clock, interrupted)?;
    let number = scratch.device().expect("a file has a device");
    let Some(offer) = Offer::of(&sys, number, may_set) else {
        return Err(Stopped::Failed("no block device".into()));
    };
    let mut set = |setting: &Setting| -> io::Result<()> { setting.set(&sys) };
    let interrupted = Arc::clone(interrupted);
    let mut load = Load::new(scratch, sys.clone(), &offer.device, &mut set, clock, interrupted);
    Ok(measure(&mut load, &offer, budget, 1, &mut |_| {}))
}

fn show(report: &FloodReport) {
    println!("{}: {:.1} s", report.device, report.seconds);
    println!("| setting | read median ms | p99 ms | reads/s | of runs | writes MB/s | runs |");
    println!("|---|---|---|---|---|---|---|");
    for row in &report.rows {
        println!(
            "| {} | {:.2} | {:.2} | {:.1} | {:.1}-{:.1} | {:.1} | {} |",
            row.name,
            row.read_median_us / 1e3,
            row.read_p99_us / 1e3,
            row.reads_per_s,
            row.low,
            row.high,
            row.write_mb_per_s,
            row.runs
        );
    }
    println!("{:?}\n{}\n{:?}", report.recommended, report.why, report.notes);
}

#[test]
#[ignore = "slow: 20 s a device, for tables: FLOOD_IN=a folder on it"]
fn the_table_of_a_device() {
    let Some(folder) = std::env::var_os("FLOOD_IN") else { return };
    let seconds = std::env::var("SECONDS_A_RUN").ok().and_then(|text| text.parse().ok());
    let budget = Duration::from_secs(seconds.unwrap_or(20));
    let outcome = run(Path::new(&folder), true, budget).expect("it runs");
    show(&outcome.report);
    assert!(outcome.report.restored);
}
