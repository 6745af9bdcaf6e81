//! The published tables come out as docs/lab/seeds.md says.

use foreread_sim::seeds::{numbers, tables};

/// Each table that says that it holds has the figures for it, and each that does not says why.
fn all_hold(number: &str) {
    let tables = tables(Some(number), &mut |_| {});
    assert!(!tables.is_empty(), "seed {number} has tables");
    for table in &tables {
        println!("{}: {} ({})", table.table, table.verdict.holds, table.verdict.why);
        for note in &table.notes {
            println!("    {note}");
        }
        for cell in &table.cells {
            println!("    {:36} {:10} {:?} {:?}", cell.row, cell.column, cell.seed, cell.ours);
        }
    }
    let failed: Vec<_> = tables.iter().filter(|table| !table.verdict.holds).collect();
    assert!(failed.is_empty(), "{:?}", failed.iter().map(|table| table.table).collect::<Vec<_>>());
}

#[test]
fn seed_000_read_ahead_by_the_size_of_the_device() {
    all_hold("000");
}

#[test]
fn seed_001_context_read_ahead() {
    all_hold("001");
}

#[test]
fn seed_002_inode_tables() {
    all_hold("002");
}

#[test]
fn seed_003_a_flood_of_writes_and_a_cat() {
    all_hold("003");
}

#[test]
fn seed_004_the_size_of_a_device_and_its_blocks() {
    all_hold("004");
}

#[test]
fn every_seed_has_a_test() {
    assert_eq!(numbers().collect::<Vec<_>>(), ["000", "001", "002", "003", "004"]);
}
